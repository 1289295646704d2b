//! One NumPy array: `.npy` files, and the members of `.npz` files.
//!
//! Types f4, f8, i1 to i8, u1 to u8 and bool of either byte order as features; byte and Unicode strings as targets. C and
//! Fortran order; one dimension (a column) or two. Values are decoded from a small buffer straight into their place.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use variegate::data::{DataError, Dataset, Matrix, TargetKind};

use super::cells::{Cell, ExtraRole, Extras, divide};
use super::error::Cause;
use super::roles::{Features, Names, ReadRequest};
use super::store;

/// An array whose header has been read.
pub(super) struct Array<R> {
    reader: R,
    /// Letter of the type (f, i, u, b, S or U), bytes of an entry, whether the highest byte comes first.
    kind: u8,
    size: usize,
    big: bool,
    fortran: bool,
    pub shape: Vec<usize>,
}

/// Bytes decoded at a time, about.
const CHUNK: usize = 1 << 16;

pub(super) fn read(path: &Path, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    let file = File::open(path).map_err(Cause::Open)?;
    let bytes = file.metadata().map_err(Cause::Open)?.len();
    let array = Array::open(BufReader::with_capacity(CHUNK, file), bytes)?;
    if let Features::None = request.features {
        return array.into_targets(request, request.own_target());
    }
    let x = array.into_matrix(request.options.missing)?;
    if x.rows() == 0 {
        return Err(DataError::NoRows.into());
    }
    let plan = request.plan(Names::Numbered(x.cols()))?;
    divide(x, request, plan)
}

impl<R: Read> Array<R> {
    /// Reads the header. `bytes` is the length of all that the reader can give.
    pub fn open(mut reader: R, bytes: u64) -> Result<Self, Cause> {
        let mut start = [0u8; 8];
        exact(&mut reader, &mut start)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(Cause::damaged("the file does not begin as a NumPy array"));
        }
        let (length, prefix) = match start[6] {
            1 => {
                let mut b = [0u8; 2];
                exact(&mut reader, &mut b)?;
                (u16::from_le_bytes(b) as usize, 10)
            }
            2 | 3 => {
                let mut b = [0u8; 4];
                exact(&mut reader, &mut b)?;
                (u32::from_le_bytes(b) as usize, 12)
            }
            v => return Err(Cause::damaged(format!("version {v} of the NumPy format is unknown"))),
        };
        if length > 1 << 20 || (length + prefix) as u64 > bytes {
            return Err(Cause::damaged("the header of the NumPy array is longer than the file"));
        }
        let mut header = vec![0u8; length];
        exact(&mut reader, &mut header)?;
        let header = String::from_utf8_lossy(&header);
        let (kind, size, big) = dtype(&header)?;
        let fortran = match value_of(&header, "fortran_order") {
            Some(v) if v.starts_with("True") => true,
            Some(v) if v.starts_with("False") => false,
            _ => return Err(Cause::damaged("the NumPy header does not state the order")),
        };
        let shape = shape(&header).ok_or_else(|| Cause::damaged("the NumPy header does not state the shape"))?;
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let held = count.and_then(|n| n.checked_mul(size)).filter(|&n| n as u64 == bytes - (length + prefix) as u64);
        if held.is_none() {
            return Err(Cause::damaged(format!("the NumPy array states the shape {shape:?}, which does not fit the file's size")));
        }
        Ok(Self { reader, kind, size, big, fortran, shape })
    }

    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of columns of a one- or two-dimensional array.
    pub fn columns(&self) -> Result<usize, Cause> {
        match self.shape[..] {
            [_] => Ok(1),
            [_, cols] => Ok(cols),
            _ => Err(Cause::Unsupported {
                what: format!("the array has {} dimensions", self.shape.len()),
                hint: "give one with rows and columns (reshape it first)",
            }),
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self.kind, b'S' | b'U')
    }

    /// The array as dense rows; NaN stands for what is missing, where it may be.
    pub fn into_matrix(mut self, missing: bool) -> Result<Matrix<'static>, Cause> {
        let (rows, cols) = (self.rows(), self.columns()?);
        if self.is_text() {
            return Err(Cause::column_type("x0", "text"));
        }
        let count = rows * cols; // checked against the file's size
        let mut x: Vec<f64> = Vec::new();
        let scatter = self.fortran && rows > 1 && cols > 1;
        if scatter {
            x = vec![0.0; count];
        } else if count <= CHUNK {
            x.reserve_exact(count);
        }
        let mut at = 0;
        let decode = self.decoder();
        let (kind, size, big) = (self.kind, self.size, self.big);
        self.chunks(|bytes| {
            if !scatter {
                // the first chunk has shown that there is data behind the claim
                let spare = x.capacity() - x.len();
                if spare < bytes.len() / size {
                    x.reserve_exact(count - x.len());
                }
                x.extend(bytes.chunks_exact(size).map(|b| decode(b, kind, big)));
            } else {
                for b in bytes.chunks_exact(size) {
                    x[(at % rows) * cols + at / rows] = decode(b, kind, big);
                    at += 1;
                }
            }
            Ok(())
        })?;
        if let Some(at) = x.iter().position(|v| !(v.is_finite() || missing && v.is_nan())) {
            return Err(DataError::NotFinite { row: at / cols + 1, column: format!("x{}", at % cols), value: x[at] }.into());
        }
        Ok(Matrix::try_dense(rows, cols, x)?)
    }

    /// Columns of the array as a target, without features. Label sets take their names from the fit, if there was one.
    pub fn into_targets(self, request: &ReadRequest<'_>, wanted: &[String]) -> Result<Dataset<'static>, Cause> {
        let (rows, cols) = (self.rows(), self.columns()?);
        let request = ReadRequest { features: Features::None, ..*request };
        let known =
            request.options.known_classes.as_deref().filter(|k| k.len() == cols && request.options.target_kind == TargetKind::Labels);
        let names = known.map_or(Names::Numbered(cols), Names::Given);
        let plan = request.plan_with(names, wanted, &[], &[])?;
        let mut extras = Extras::new(&request, &plan);
        self.each(|row, column, cell| match plan.targets.iter().position(|&j| j == column) {
            Some(k) => extras.put(ExtraRole::Target(k), row, &plan.target_names[k], cell),
            None => Ok(()),
        })?;
        Ok(extras.join(Matrix::try_dense(rows, 0, Vec::new())?, Vec::new()))
    }

    /// A one-dimensional array of whole numbers, 0 or more.
    pub fn into_indices(mut self, what: &str) -> Result<Vec<usize>, Cause> {
        if !matches!(self.kind, b'i' | b'u') || self.shape.len() > 1 {
            return Err(Cause::damaged(format!("`{what}` is not a list of whole numbers")));
        }
        let mut out = Vec::new();
        let (kind, size, big) = (self.kind, self.size, self.big);
        self.chunks(|bytes| {
            store::reserve(&mut out, bytes.len() / size);
            for b in bytes.chunks_exact(size) {
                let value = usize::try_from(whole(b, kind, big)).ok();
                out.push(value.ok_or_else(|| Cause::damaged(format!("`{what}` holds a number below 0")))?);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The same for numbers below 2³².
    pub fn into_numbers(mut self, what: &str) -> Result<Vec<u32>, Cause> {
        if !matches!(self.kind, b'i' | b'u') || self.shape.len() != 1 {
            return Err(Cause::damaged(format!("`{what}` is not a list of whole numbers")));
        }
        let mut out = Vec::new();
        let (kind, size, big) = (self.kind, self.size, self.big);
        self.chunks(|bytes| {
            store::reserve(&mut out, bytes.len() / size);
            for b in bytes.chunks_exact(size) {
                let value = u32::try_from(whole(b, kind, big)).ok().filter(|&v| v < u32::MAX);
                out.push(value.ok_or_else(|| Cause::damaged(format!("`{what}` holds a number out of range")))?);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The text of an array of one string.
    pub fn into_text(mut self) -> Result<String, Cause> {
        let mut text = None;
        if !self.is_text() || self.shape.iter().any(|&d| d != 1) {
            return Err(Cause::damaged("the name of the sparse format is not a text"));
        }
        let (kind, size, big) = (self.kind, self.size, self.big);
        self.chunks(|bytes| {
            text = bytes.chunks_exact(size).next().and_then(|b| string(b, kind, big));
            Ok(())
        })?;
        text.ok_or_else(|| Cause::damaged("the name of the sparse format is not a text"))
    }

    /// Calls `f(row, column, cell)` for every entry, rows in order within each column.
    pub fn each(mut self, mut f: impl FnMut(usize, usize, Cell<'_>) -> Result<(), Cause>) -> Result<(), Cause> {
        let (rows, cols) = (self.rows(), self.columns()?);
        let (kind, size, big, fortran) = (self.kind, self.size, self.big, self.fortran);
        let mut at = 0;
        self.chunks(|bytes| {
            for b in bytes.chunks_exact(size) {
                let (row, column) = if fortran { (at % rows, at / rows) } else { (at / cols, at % cols) };
                at += 1;
                match kind {
                    b'f' => f(row, column, Cell::Number(real(b, kind, big)))?,
                    b'b' => f(row, column, Cell::Flag(b[0] != 0))?,
                    b'S' | b'U' => {
                        let text = string(b, kind, big).ok_or_else(|| Cause::damaged(format!("row {}: not a text", row + 1)))?;
                        f(row, column, Cell::of_bytes(text.as_bytes())?)?;
                    }
                    _ => f(row, column, Cell::Whole(whole(b, kind, big)))?,
                }
            }
            Ok(())
        })
    }

    fn decoder(&self) -> fn(&[u8], u8, bool) -> f64 {
        match (self.kind, self.size, self.big) {
            (b'f', 8, false) => |b, _, _| f64::from_le_bytes(b.try_into().unwrap_or_default()),
            (b'f', 4, false) => |b, _, _| f32::from_le_bytes(b.try_into().unwrap_or_default()) as f64,
            (b'u' | b'b', 1, _) => |b, _, _| b[0] as f64,
            _ => real,
        }
    }

    /// Reads everything in pieces of whole entries.
    fn chunks(&mut self, mut f: impl FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        let count: usize = self.shape.iter().product();
        if self.size == 0 || count == 0 {
            return Ok(());
        }
        let at_once = (CHUNK / self.size).max(1);
        let mut buffer = vec![0u8; at_once.min(count) * self.size];
        let mut left = count;
        while left > 0 {
            let now = left.min(at_once);
            let piece = &mut buffer[..now * self.size];
            exact(&mut self.reader, piece)?;
            f(piece)?;
            left -= now;
        }
        Ok(())
    }
}

fn exact(reader: &mut impl Read, out: &mut [u8]) -> Result<(), Cause> {
    reader.read_exact(out).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Cause::damaged("the array ends too early"),
        _ => Cause::Io(e),
    })
}

/// What follows `'key':` in the header, which is a Python dictionary on one line.
fn value_of<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let at = header.find(&format!("'{key}'"))?;
    header[at + key.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start)
}

fn dtype(header: &str) -> Result<(u8, usize, bool), Cause> {
    let fault = || Cause::damaged("the NumPy header does not state a type");
    let value = value_of(header, "descr").ok_or_else(fault)?;
    let other = |what: &str| Cause::Unsupported {
        what: format!("the NumPy array has the type {}", super::cells::shorten(what)),
        hint: "save it as float64, float32, an integer type or bool (targets also as fixed-length strings)",
    };
    let Some(text) = value.strip_prefix('\'').and_then(|v| v.split('\'').next()) else { return Err(other(value)) };
    let mut letters = text.chars();
    let big = match letters.next() {
        Some('<' | '|' | '=') => false,
        Some('>') => true,
        _ => return Err(other(text)),
    };
    let kind = letters.next().unwrap_or(' ');
    let size: usize = letters.as_str().parse().map_err(|_| other(text))?;
    match (kind, size) {
        ('f', 4 | 8) | ('i' | 'u', 1 | 2 | 4 | 8) | ('b', 1) | ('S', 1..=4096) => Ok((kind as u8, size, big)),
        ('U', 1..=1024) => Ok((b'U', size * 4, big)),
        _ => Err(other(text)),
    }
}

fn shape(header: &str) -> Option<Vec<usize>> {
    let inside = value_of(header, "shape")?.strip_prefix('(')?.split(')').next()?;
    inside.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect()
}

/// An entry as a whole number. Sizes are 1, 2, 4 or 8.
fn whole(bytes: &[u8], kind: u8, big: bool) -> i128 {
    let mut wide = [0u8; 8];
    if big {
        wide[8 - bytes.len()..].copy_from_slice(bytes);
        wide.reverse();
    } else {
        wide[..bytes.len()].copy_from_slice(bytes);
    }
    let unsigned = u64::from_le_bytes(wide);
    if kind == b'i' {
        let unused = 64 - 8 * bytes.len();
        ((unsigned << unused) as i64 >> unused) as i128
    } else {
        unsigned as i128
    }
}

/// An entry as a real number.
fn real(bytes: &[u8], kind: u8, big: bool) -> f64 {
    let bits = || whole(bytes, b'u', big) as u64;
    match (kind, bytes.len()) {
        (b'f', 8) => f64::from_bits(bits()),
        (b'f', _) => f32::from_bits(bits() as u32) as f64,
        _ => whole(bytes, kind, big) as f64,
    }
}

/// An entry as a text; zeros fill it up at the end.
fn string(bytes: &[u8], kind: u8, big: bool) -> Option<String> {
    let text: String = if kind == b'S' {
        std::str::from_utf8(bytes).ok()?.into()
    } else {
        bytes.chunks_exact(4).map(|b| char::from_u32(whole(b, b'u', big) as u32)).collect::<Option<_>>()?
    };
    Some(text.trim_end_matches('\0').into())
}
