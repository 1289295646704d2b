//! Sealed bytes: a header that says what they are, a checksum, and the body.
//!
//! Layout, little-endian: magic `VGST`, format version (u16), length of the kind (u16), the kind, length of the body (u64), CRC-32 of
//! version, kind and body (u32), body. The kind names the program and the thing, for example `logistic/gibbs chain`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

const MAGIC: &[u8; 4] = b"VGST";
/// Version of the format that this build writes. Every version from 1 on stays readable.
pub const FORMAT_VERSION: u16 = 1;

/// Saved bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StateError {
    /// Cut off, or not ours at all.
    #[error("not a variegate state, or cut off")]
    NotAState,
    /// Written by a later version.
    #[error("written in format version {found}, but this build reads up to {FORMAT_VERSION}: install a newer variegate")]
    Newer {
        /// Version found.
        found: u16,
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

/// Serialises and seals.
pub fn seal<T: Serialize>(kind: &str, body: &T) -> Result<Vec<u8>, StateError> {
    let body = postcard::to_stdvec(body).map_err(|e| StateError::Contents(e.to_string()))?;
    let mut out = Vec::with_capacity(body.len() + kind.len() + 20);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&(kind.len() as u16).to_le_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(&checksum(FORMAT_VERSION, kind.as_bytes(), &body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// Checks the seal and deserialises.
pub fn unseal<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T, StateError> {
    let (found, body) = parts(bytes)?;
    if found != kind {
        return Err(StateError::OtherKind { found: found.to_string(), expected: kind.to_string() });
    }
    postcard::from_bytes(body).map_err(|e| StateError::Contents(e.to_string()))
}

/// The kind of sealed bytes, after checking the seal.
pub fn kind(bytes: &[u8]) -> Result<&str, StateError> {
    parts(bytes).map(|p| p.0)
}

fn parts(bytes: &[u8]) -> Result<(&str, &[u8]), StateError> {
    let take = |at: usize, n: usize| bytes.get(at..at.checked_add(n)?);
    let header = take(0, 8).ok_or(StateError::NotAState)?;
    if &header[..4] != MAGIC {
        return Err(StateError::NotAState);
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version > FORMAT_VERSION {
        return Err(StateError::Newer { found: version });
    }
    let name = u16::from_le_bytes([header[6], header[7]]) as usize;
    let kind = take(8, name).ok_or(StateError::NotAState)?;
    let lengths = take(8 + name, 12).ok_or(StateError::NotAState)?;
    let length = u64::from_le_bytes(lengths[..8].try_into().map_err(|_| StateError::NotAState)?);
    let sum = u32::from_le_bytes(lengths[8..].try_into().map_err(|_| StateError::NotAState)?);
    let body = &bytes[20 + name..];
    if body.len() as u64 != length {
        return Err(StateError::NotAState);
    }
    if checksum(version, kind, body) != sum {
        return Err(StateError::Damaged);
    }
    Ok((std::str::from_utf8(kind).map_err(|_| StateError::Damaged)?, body))
}

fn checksum(version: u16, kind: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(kind);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let value = (3u64, vec![1.5f64, -2.0], "x".to_string());
        let sealed = seal("toy chain", &value).unwrap();
        assert_eq!(unseal::<(u64, Vec<f64>, String)>("toy chain", &sealed).unwrap(), value);
        for cut in 0..sealed.len() {
            assert!(unseal::<(u64, Vec<f64>, String)>("toy chain", &sealed[..cut]).is_err());
        }
        for bit in 0..sealed.len() * 8 {
            let mut bad = sealed.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal::<(u64, Vec<f64>, String)>("toy chain", &bad).is_err(), "bit {bit} went unnoticed");
        }
        assert!(matches!(unseal::<u8>("other", &sealed), Err(StateError::OtherKind { .. })));
    }

    /// Bytes written by format version 1; they must stay readable for ever.
    #[test]
    fn version_one_stays_readable() {
        let golden: Vec<u8> = [
            &b"VGST\x01\x00\x09\x00toy chain"[..],
            &[11, 0, 0, 0, 0, 0, 0, 0],
            &[0x69, 0x63, 0x35, 0x58],
            &[3, 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0],
        ]
        .concat();
        let written = seal("toy chain", &(3u64, vec![1.5f64], String::new())).unwrap();
        assert_eq!(written[..21], golden[..21]);
        assert_eq!(
            unseal::<(u64, Vec<f64>, String)>("toy chain", &golden).unwrap(),
            (3, vec![1.5], String::new()),
            "{:02x?}",
            &written[17..]
        );
    }
}
