//! Checks that a sampler samples what it claims to: library functions, used by the tests and by `variegate check`.
//!
//! | file | what it asks |
//! |---|---|
//! | [`invariance`] | exact draws in, one step, the same law out? The sharpest question, where exact draws can be had |
//! | [`report`] | what a check hands back: named comparisons, each with its verdict in words |

pub mod invariance;
pub mod report;
