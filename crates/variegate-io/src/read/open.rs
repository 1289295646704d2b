//! Opening text files, plain or gzipped, and reading them line by line within bounds.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::error::Cause;

/// No deflate stream expands by more than this.
pub(super) const DEFLATE_RATIO: u64 = 1032;

/// One line or record may not be longer: an unclosed quote would otherwise swallow a file of any size.
const LONGEST: u64 = 256 << 20;

/// A gzip file that has given this much and still expands by more than `BOMB_RATIO` is taken for a trap.
const BOMB_BYTES: u64 = 1 << 30;
const BOMB_RATIO: u64 = 500;

/// A text file that may be gzipped, which its first bytes tell.
pub(super) struct Input {
    inner: Box<dyn BufRead>,
    /// The text is not longer than this.
    pub most_bytes: u64,
    taken: Rc<Cell<u64>>,
    bytes: u64,
}

impl Input {
    pub fn open(path: &Path) -> Result<Self, Cause> {
        let file = File::open(path).map_err(Cause::Open)?;
        let meta = file.metadata().map_err(Cause::Open)?;
        if meta.is_dir() {
            return Err(Cause::Open(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")));
        }
        let bytes = meta.len();
        let taken = Rc::new(Cell::new(0));
        let mut plain = BufReader::with_capacity(1 << 16, Counted { inner: file, taken: taken.clone() });
        let start = plain.fill_buf()?;
        if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
            return Err(Cause::Utf16);
        }
        let (inner, most_bytes): (Box<dyn BufRead>, u64) = if start.starts_with(&[0x1f, 0x8b]) {
            let text = Bounded { inner: MultiGzDecoder::new(plain), taken: taken.clone(), given: 0 };
            (Box::new(BufReader::with_capacity(1 << 17, text)), bytes.saturating_mul(DEFLATE_RATIO))
        } else {
            (Box::new(plain), bytes)
        };
        Ok(Self { inner, most_bytes, taken, bytes })
    }

    /// Reads bytes and fails once more than a sane record's worth came since the budget was last renewed.
    pub fn budgeted(self) -> (Budgeted, Budget) {
        let budget = Budget { left: Rc::new(Cell::new(LONGEST)), taken: self.taken, bytes: self.bytes };
        (Budgeted { inner: self.inner, left: budget.left.clone() }, budget)
    }

    /// The next line without its end, or None after the last; a byte order mark is dropped.
    pub fn line<'l>(&mut self, buffer: &'l mut Vec<u8>, number: &mut u64) -> Result<Option<&'l [u8]>, Cause> {
        buffer.clear();
        let got = self.inner.by_ref().take(LONGEST).read_until(b'\n', buffer)?;
        if got == 0 {
            return Ok(None);
        }
        *number += 1;
        if got as u64 == LONGEST {
            return Err(Cause::Line { line: *number, what: "the line is longer than 256 MiB".into() });
        }
        let line = buffer.strip_suffix(b"\n").unwrap_or(buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if *number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        Ok(Some(line))
    }
}

/// Counts what is taken from the file.
struct Counted<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.taken.set(self.taken.get() + n as u64);
        Ok(n)
    }
}

/// Compares what comes out of a decoder with what went in.
struct Bounded<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
    given: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.given += n as u64;
        if self.given > BOMB_BYTES && self.given / BOMB_RATIO > self.taken.get() {
            let what = "the gzip file expands to more than 500 times its size; unpack it first if that is meant";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(n)
    }
}

/// Bytes left for the current record, and how far the file has been read.
pub(super) struct Budget {
    left: Rc<Cell<u64>>,
    taken: Rc<Cell<u64>>,
    bytes: u64,
}

impl Budget {
    pub fn renew(&self) {
        self.left.set(LONGEST);
    }

    /// About how many entries the whole file holds if what was read so far gave `so_far`, rather too many than too few; 0 if it is
    /// too early to say.
    pub fn expected(&self, so_far: usize) -> usize {
        // what lies in buffers, taken from the file and not yet seen
        const AHEAD: u64 = 160 << 10;
        const ENOUGH: u64 = 1 << 20;
        let taken = self.taken.get();
        if taken < ENOUGH {
            return 0;
        }
        let share = (taken - AHEAD) as f64 / self.bytes.max(taken) as f64;
        (so_far as f64 / share) as usize
    }
}

/// See [`Input::budgeted`].
pub(super) struct Budgeted {
    inner: Box<dyn BufRead>,
    left: Rc<Cell<u64>>,
}

impl Read for Budgeted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        let left = self.left.get().checked_sub(n as u64);
        let what = "a record is longer than 256 MiB, perhaps because a quote is never closed";
        self.left.set(left.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, what))?);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn lines(bytes: &[u8]) -> Result<Vec<String>, Cause> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, bytes).unwrap();
        let (mut input, mut buffer, mut number, mut out) = (Input::open(&path)?, vec![], 0, vec![]);
        while let Some(line) = input.line(&mut buffer, &mut number)? {
            out.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(out)
    }

    #[test]
    fn lines_of_plain_and_gzipped_files_in_several_members() {
        let text = b"\xef\xbb\xbfa\r\n\nb\nc";
        assert_eq!(lines(text).unwrap(), ["a", "", "b", "c"]);
        let pack = |part: &[u8]| {
            let mut e = GzEncoder::new(Vec::new(), Compression::best());
            e.write_all(part).unwrap();
            e.finish().unwrap()
        };
        assert_eq!(lines(&[pack(&text[..6]), pack(&text[6..])].concat()).unwrap(), ["a", "", "b", "c"]);
        let mut cut = pack(text);
        cut.truncate(cut.len() - 9);
        assert!(matches!(lines(&cut), Err(Cause::Io(_))));
        assert!(matches!(lines(b"\xff\xfea\0"), Err(Cause::Utf16)));
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn a_gzip_bomb_is_refused() {
        let zeros = vec![0u8; 1 << 20];
        let mut e = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..16 {
            e.write_all(&zeros).unwrap();
        }
        let member = e.finish().unwrap();
        let mut input =
            Bounded { taken: Rc::new(Cell::new(0)), given: BOMB_BYTES, inner: MultiGzDecoder::new(BufReader::new(&member[..])) };
        assert!(io::copy(&mut input, &mut io::sink()).is_err());
    }
}
