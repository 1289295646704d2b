//! Files: reading and writing data, and the run directory.

pub mod read;
pub mod run_dir;
pub mod write;
