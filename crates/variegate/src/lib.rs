//! The variegate library.

pub mod check;
pub mod diagnostics;
pub mod infer;
