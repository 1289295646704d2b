//! variegate: Bayesian latent-variable models whose components must differ from one another.
//!
//! This crate holds everything mathematical and knows neither files nor terminals nor Python. The way through it:
//! [`data`] checks and holds rows, a [`model`] turns settings and data into a program, [`run`] drives the program over blocks of
//! rows, and what comes out is a posterior that predicts and summarises ([`answer`]).
//!
//! ```
//! use variegate::prelude::*;
//!
//! # fn main() -> Result<()> {
//! // four rows of two columns, and their classes
//! let x = Matrix::dense(4, 2, vec![0.1, 1.2, 0.3, 0.9, 2.1, 0.2, 1.8, 0.4]);
//! let data = Dataset::new(x).with_target(Target::Classes(Classes::encode(["no", "no", "yes", "yes"])));
//!
//! let model = logistic::Settings::default().n_draws(200).validate()?;
//! let fitted = fit(&model, &data, &RunSettings::default().seed(1), &mut Unobserved)?;
//!
//! let probability = fitted.posterior.predict(&data, "")?.probability; // row by row, one number a class
//! assert!(probability[0] > 0.5 && probability[7] > 0.5);
//! # Ok(())
//! # }
//! ```
//!
//! There is an example for each family: `cargo run --release --example softmax`.
#![warn(missing_docs, unreachable_pub)]

pub mod answer;
pub mod check;
pub mod data;
pub mod diagnostics;
pub mod dist;
mod error;
pub mod infer;
pub mod linalg;
pub mod model;
mod parallel;
pub mod prelude;
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
