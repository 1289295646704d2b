//! Files: reading and writing data.

pub mod read;
pub mod write;
