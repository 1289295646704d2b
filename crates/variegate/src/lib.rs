//! variegate: Bayesian latent-variable models whose components must differ from one another.
//!
//! This crate holds everything mathematical and knows neither files nor terminals nor Python. The way through it:
//! [`data`] checks and holds rows, a [`model`] turns settings and data into a program, [`run`] drives the program over blocks of
//! rows, and what comes out is a posterior that predicts and summarises.

pub mod answer;
pub mod check;
pub mod data;
pub mod diagnostics;
pub mod dist;
mod error;
pub mod infer;
pub mod linalg;
pub mod model;
pub mod prior;
pub mod run;
pub mod score;
pub mod select;
pub mod special;

pub use error::{Error, Result};

/// The book's Rust examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/how-a-fit-works.md")]
struct Book;
