//! Sealed bytes: a header that says what they are, a checksum, and the body.
//!
//! Layout, little-endian: magic `VGST`, format version (u16), length of the name (u16), the name, version of the kind (u16, from format 2
//! on; 1 before), length of the body (u64), CRC-32 of versions, name and body (u32), body. The name tells the program and the thing, for
//! example `logistic/gibbs chain`; the version tells how the body is laid out.
//!
//! Every [`Kind`] of state has a version of its own. Whoever changes what a kind holds adds a release to its list, and either converts the
//! older versions ([`unseal_older`]) or leaves them refused: the error then names the release that reads them. The stored runs of earlier
//! versions (`golden_runs.rs` of the command) notice a layout that changed without this.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

const MAGIC: &[u8; 4] = b"VGST";
/// Version of the header that this build writes. Every version from 1 on stays readable.
pub const FORMAT_VERSION: u16 = 2;

/// What sealed bytes hold, and in which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind<'a> {
    /// For example `logistic schema`.
    pub name: &'a str,
    /// The release that first wrote each version, from version 1 on. The last one is the version that this build writes.
    pub releases: &'a [&'a str],
}

impl<'a> Kind<'a> {
    /// A kind, with the releases that changed it.
    pub const fn new(name: &'a str, releases: &'a [&'a str]) -> Self {
        Self { name, releases }
    }

    /// The version that this build writes.
    pub const fn version(&self) -> u16 {
        self.releases.len() as u16
    }
}

/// Saved bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// Cut off, or not ours at all.
    #[error("not a variegate state, or cut off")]
    NotAState,
    /// Its header was written by a later version.
    #[error("written in format version {found}, but this build reads up to {FORMAT_VERSION}: install a newer variegate")]
    Newer {
        /// Version found.
        found: u16,
    },
    /// Its contents were written by a later version.
    #[error("holds version {found} of `{name}`, but this build reads up to {known}: install a newer variegate")]
    NewerKind {
        /// Name of the kind.
        name: String,
        /// Version found.
        found: u16,
        /// Version of this build.
        known: u16,
    },
    /// Its contents were written by an earlier version, which this one does not read any more.
    #[error(
        "holds version {found} of `{name}`, which this build does not read any more (it reads version {known}): open it with variegate \
         {release}, or fit again with the same settings and seed"
    )]
    OlderKind {
        /// Name of the kind.
        name: String,
        /// Version found.
        found: u16,
        /// Version of this build.
        known: u16,
        /// Release that reads it.
        release: String,
    },
    /// Checksum does not match.
    #[error("damaged: its checksum does not match")]
    Damaged,
    /// Another thing than expected.
    #[error("holds `{found}`, but `{expected}` is needed")]
    OtherKind {
        /// Kind found.
        found: String,
        /// Kind expected.
        expected: String,
    },
    /// Body does not decode.
    #[error("its contents do not decode ({0})")]
    Contents(String),
}

impl From<postcard::Error> for StateError {
    fn from(error: postcard::Error) -> Self {
        Self::Contents(error.to_string())
    }
}

/// Contents that an earlier version wrote.
#[derive(Debug, Clone, Copy)]
pub struct Older<'a> {
    kind: Kind<'a>,
    /// Its version, smaller than that of this build.
    pub version: u16,
    body: &'a [u8],
}

impl Older<'_> {
    /// The contents as a type of the layout that they have.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, StateError> {
        Ok(postcard::from_bytes(self.body)?)
    }

    /// The contents with what a later version holds behind them.
    pub fn decode_followed_by<T: DeserializeOwned>(&self, added: &impl Serialize) -> Result<T, StateError> {
        Ok(postcard::from_bytes(&[self.body, &postcard::to_stdvec(added)?].concat())?)
    }

    /// The refusal of a version that nothing converts.
    pub fn refused(&self) -> StateError {
        let release = self.kind.releases.get(usize::from(self.version).wrapping_sub(1));
        StateError::OlderKind {
            name: self.kind.name.into(),
            found: self.version,
            known: self.kind.version(),
            release: release.map_or_else(|| "of its time".into(), |r| r.to_string()),
        }
    }
}

/// Serialises and seals.
pub fn seal<T: Serialize>(kind: Kind<'_>, body: &T) -> Result<Vec<u8>, StateError> {
    let body = postcard::to_stdvec(body)?;
    let name = kind.name.as_bytes();
    let mut out = Vec::with_capacity(body.len() + name.len() + 22);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&kind.version().to_le_bytes());
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(&checksum(FORMAT_VERSION, name, kind.version(), &body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// Checks the seal and deserialises. Older versions are refused.
pub fn unseal<T: DeserializeOwned>(kind: Kind<'_>, bytes: &[u8]) -> Result<T, StateError> {
    unseal_older(kind, bytes, |older| Err(older.refused()))
}

/// Checks the seal and deserialises; what an earlier version wrote is converted by `older`, which refuses the versions it does not know.
///
/// ```
/// use variegate::run::state::{Kind, seal, unseal_older};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const BEFORE: Kind = Kind::new("toy schema", &["0.1"]);
/// const NOW: Kind = Kind::new("toy schema", &["0.1", "0.2"]);
/// let kept = seal(BEFORE, &3.0)?; // version 1 held a number, version 2 holds a list
/// let list: Vec<f64> = unseal_older(NOW, &kept, |older| match older.version {
///     1 => Ok(vec![older.decode()?]),
///     _ => Err(older.refused()),
/// })?;
/// assert_eq!(list, [3.0]);
/// # Ok(())
/// # }
/// ```
pub fn unseal_older<T: DeserializeOwned>(
    kind: Kind<'_>,
    bytes: &[u8],
    older: impl FnOnce(Older<'_>) -> Result<T, StateError>,
) -> Result<T, StateError> {
    let Parts { name, version, body } = parts(bytes)?;
    if name != kind.name {
        return Err(StateError::OtherKind { found: name.to_string(), expected: kind.name.to_string() });
    }
    match version.cmp(&kind.version()) {
        std::cmp::Ordering::Equal => Ok(postcard::from_bytes(body)?),
        std::cmp::Ordering::Greater => Err(StateError::NewerKind { name: name.into(), found: version, known: kind.version() }),
        std::cmp::Ordering::Less => older(Older { kind, version, body }),
    }
}

/// The name of the kind of sealed bytes, after checking the seal.
pub fn kind(bytes: &[u8]) -> Result<&str, StateError> {
    parts(bytes).map(|p| p.name)
}

/// What a seal holds.
struct Parts<'a> {
    name: &'a str,
    version: u16,
    body: &'a [u8],
}

fn parts(bytes: &[u8]) -> Result<Parts<'_>, StateError> {
    let mut rest = bytes;
    let mut take = |n: usize| {
        let (taken, left) = rest.split_at_checked(n).ok_or(StateError::NotAState)?;
        rest = left;
        Ok::<_, StateError>(taken)
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b));
    if take(4)? != MAGIC {
        return Err(StateError::NotAState);
    }
    let format = number(take(2)?) as u16;
    if format > FORMAT_VERSION {
        return Err(StateError::Newer { found: format });
    }
    let length = number(take(2)?) as usize;
    let name = take(length)?;
    let version = if format < 2 { 1 } else { number(take(2)?) as u16 };
    let length = number(take(8)?);
    let sum = number(take(4)?) as u32;
    if rest.len() as u64 != length {
        return Err(StateError::NotAState);
    }
    if checksum(format, name, version, rest) != sum {
        return Err(StateError::Damaged);
    }
    Ok(Parts { name: std::str::from_utf8(name).map_err(|_| StateError::Damaged)?, version, body: rest })
}

fn checksum(format: u16, name: &[u8], version: u16, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&format.to_le_bytes());
    hasher.update(name);
    if format > 1 {
        hasher.update(&version.to_le_bytes());
    }
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOY: Kind = Kind::new("toy chain", &["0.1"]);
    const LATER: Kind = Kind::new("toy chain", &["0.1", "0.3"]);
    const LATEST: Kind = Kind::new("toy chain", &["0.1", "0.3", "0.4"]);

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let value = (3u64, vec![1.5f64, -2.0], "x".to_string());
        let sealed = seal(TOY, &value).unwrap();
        assert_eq!(unseal::<(u64, Vec<f64>, String)>(TOY, &sealed).unwrap(), value);
        for cut in 0..sealed.len() {
            assert!(unseal::<(u64, Vec<f64>, String)>(TOY, &sealed[..cut]).is_err());
        }
        for bit in 0..sealed.len() * 8 {
            let mut bad = sealed.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal::<(u64, Vec<f64>, String)>(TOY, &bad).is_err(), "bit {bit} went unnoticed");
        }
        assert!(matches!(unseal::<u8>(Kind::new("other", &["0.1"]), &sealed), Err(StateError::OtherKind { .. })));
    }

    /// Bytes written by format version 1; they must stay readable for ever, as version 1 of their kind.
    #[test]
    fn format_one_stays_readable() {
        let golden: Vec<u8> = [
            &b"VGST\x01\x00\x09\x00toy chain"[..],
            &[11, 0, 0, 0, 0, 0, 0, 0],
            &[0x69, 0x63, 0x35, 0x58],
            &[3, 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0],
        ]
        .concat();
        assert_eq!(unseal::<(u64, Vec<f64>, String)>(TOY, &golden).unwrap(), (3, vec![1.5], String::new()));
        assert_eq!(kind(&golden).unwrap(), "toy chain");
        let refused = unseal::<u64>(LATER, &golden).unwrap_err();
        assert!(matches!(refused, StateError::OlderKind { found: 1, known: 2, .. }), "{refused}");
    }

    /// Bytes written by format version 2.
    #[test]
    fn format_two_stays_readable() {
        let golden: Vec<u8> = [
            &b"VGST\x02\x00\x09\x00toy chain\x02\x00"[..],
            &[11, 0, 0, 0, 0, 0, 0, 0],
            &[0x04, 0x60, 0x55, 0x7a],
            &[3, 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0],
        ]
        .concat();
        let written = seal(LATER, &(3u64, vec![1.5f64], String::new())).unwrap();
        assert_eq!(written, golden);
        assert_eq!(unseal::<(u64, Vec<f64>, String)>(LATER, &golden).unwrap(), (3, vec![1.5], String::new()));
    }

    #[test]
    fn other_versions_are_refused_with_the_release_that_reads_them() {
        let second = seal(LATER, &7u64).unwrap();
        let said = |kind| unseal::<u64>(kind, &second).unwrap_err().to_string();
        assert_eq!(said(TOY), "holds version 2 of `toy chain`, but this build reads up to 1: install a newer variegate");
        assert_eq!(
            said(LATEST),
            "holds version 2 of `toy chain`, which this build does not read any more (it reads version 3): open it with variegate 0.3, or \
             fit again with the same settings and seed"
        );
        let newer = [&second[..4], &[3, 0], &second[6..]].concat();
        assert_eq!(unseal::<u64>(LATER, &newer), Err(StateError::Newer { found: 3 }));
        // a version that never was
        let none = seal(Kind::new("toy chain", &[]), &7u64).unwrap();
        assert!(matches!(unseal::<u64>(TOY, &none), Err(StateError::OlderKind { found: 0, .. })));
    }

    #[test]
    fn older_versions_are_converted() {
        let read = |kind: Kind<'_>| {
            unseal_older::<Vec<u64>>(LATEST, &seal(kind, &7u64).unwrap(), |older| match older.version {
                2 => Ok(vec![older.decode()?]),
                _ => Err(older.refused()),
            })
        };
        assert_eq!(read(LATER), Ok(vec![7]));
        assert!(read(TOY).unwrap_err().to_string().contains("open it with variegate 0.1"));
    }
}
