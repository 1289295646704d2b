//! Log likelihood of rows under single draws: what leave-one-out cross-validation and other criteria are made of.

use crate::data::{DataError, Dataset, Target};
use crate::{Error, Result};

/// A posterior of draws that tells how probable the outcomes of rows are under each of them.
pub trait RowLikelihoods {
    /// Log likelihood of the target of each row, given its features, under each draw. The data must have a target.
    fn row_likelihoods(&self, data: &Dataset<'_>) -> Result<RowLikelihood>;
}

/// Log likelihoods of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowLikelihood {
    /// Draws of each chain.
    pub lengths: Vec<usize>,
    /// One draw a line, chain after chain, with a number a row of the data.
    pub ln: Vec<f64>,
}

/// Class of each row by its place among those of the model, which must know it.
pub fn known_classes(data: &Dataset<'_>, classes: &[String]) -> Result<Vec<u32>> {
    let Target::Classes(given) = &data.target else { return Err(DataError::NoTarget.into()) };
    let places: Vec<Option<usize>> = given.names.iter().map(|n| classes.iter().position(|k| k == n)).collect();
    let place = |(row, code): (usize, &u32)| match places.get(*code as usize).copied().flatten() {
        Some(place) => Ok(place as u32),
        None => Err(Error::Unfit(format!(
            "row {}: its class `{}` is not one of the fit, so that the model gives it no likelihood: leave such rows out",
            row + 1,
            given.names.get(*code as usize).map_or("", String::as_str)
        ))),
    };
    given.codes.iter().enumerate().map(place).collect()
}
