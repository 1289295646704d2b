//! Linear classifiers, and what is behind them: what `logistic`, `svm` and `labels` have in common.
//!
//! | file | what is in it |
//! |---|---|
//! | `bound.rs`, `expected_sigmoid.rs` | bounds of the logistic likelihood, and the mean of σ(f) for normal f |
//! | `gamma_factor.rs`, `normal_factor.rs` | factors of a variational posterior |
//! | `lanes.rs` | numbers of components in groups, for loops of vector instructions |
//! | `normal_draw.rs` | draws of weights where a matrix of all columns is too much |
//! | `logit/` | weights of labels, and patterns of components where there are any |
//! | `classifier/` | weights alone, with a logistic likelihood or a hinge: bounds, point estimates and Gibbs steps |
//! | `inputs.rs` | rows and classes as classifiers see them: one classifier for two classes, else one a class against the rest |
//! | `row_space/` | weights in the space that rows span, where they are fewer than columns |
//! | `ascent.rs`, `check.rs` | the program that raises the bound, and is it one? |
//! | `fitted.rs`, `natural.rs` | what an ascent found; weights in the units of the user's columns |

mod ascent;
pub(crate) mod bound;
mod check;
pub(crate) mod classifier;
pub(crate) mod expected_sigmoid;
mod fitted;
pub(crate) mod gamma_factor;
mod inputs;
pub(crate) mod lanes;
pub(crate) mod logit;
mod natural;
mod normal_draw;
pub(crate) mod normal_factor;
pub(crate) mod row_space;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use ascent::{Ascent, Named, State};
pub(crate) use check::check;
pub(crate) use fitted::{First as FirstFitted, Fitted, decision_values};
pub(crate) use inputs::{Inputs, Measured, Schema, Told, design_of};
pub(crate) use natural::{coefficient_names, natural, natural_arrays};
