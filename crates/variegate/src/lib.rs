//! The variegate library.
