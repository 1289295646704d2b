//! Files: reading and writing data, pictures, and the run directory.

pub mod png;
pub mod read;
pub mod run_dir;
pub mod write;
