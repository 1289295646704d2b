//! Files.

pub mod run_dir;
