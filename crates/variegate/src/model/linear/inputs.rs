//! Rows and classes as classifiers see them.
//!
//! Two classes have one classifier, of the second against the first; more have one each, of a class against all others.

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::classifier::{Classifier, Loss};
use super::gamma_factor::Precision;
use super::logit::{Form, Logit};
use super::row_space;
use crate::data::{Block, Design, Scaling, Survey};
use crate::{Error, Result};

/// Numbers in square matrices of all classifiers; a thread holds a few of them, and beyond this it would take gigabytes.
const MOST_NUMBERS: f64 = 2.5e7;

/// What results depend on beside draws and factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    /// Names of the raw columns; empty if they had none.
    pub(crate) columns: Vec<String>,
    /// Names of the classes.
    pub(crate) classes: Vec<String>,
    /// From raw rows to design rows.
    pub(crate) design: Design,
}

impl Schema {
    /// Names of the classifiers; one alone has none.
    pub(crate) fn classifiers(&self) -> &[String] {
        if self.classes.len() == 2 { &[] } else { &self.classes }
    }
}

/// What is made of measured columns.
pub(crate) struct Measured {
    pub(crate) design: Design,
    /// Raw columns that were left out as constant.
    pub(crate) dropped: Vec<usize>,
    /// The number of rows, where an ascent finds weights in the space that they span.
    pub(crate) spanning: Option<u64>,
}

/// Whether matrices of so many columns of so many classifiers are small enough.
pub(super) fn matrices_fit(dim: usize, count: usize) -> bool {
    count as f64 * (dim as f64).powi(2) <= MOST_NUMBERS
}

/// The design of measured columns for draws or for an ascent; an error where the matrices of so many classifiers would take gigabytes.
pub(crate) fn design_of(
    survey: &Survey,
    family: &str,
    (standardize, intercept): (bool, bool),
    count: usize,
    ascends: bool,
) -> Result<Measured> {
    // without a bias centring would add one by the back door, and a constant column can carry the level
    let scaling = Scaling { center: standardize && intercept, scale: standardize, intercept, drop_constant: intercept };
    let (design, dropped) = survey.design(scaling)?;
    let rows = survey.rows() as usize;
    let spans = ascends && row_space::worthwhile(rows, design.kept.len()) && matrices_fit(row_space::count_of(rows) + 1, count);
    if spans {
        return Ok(Measured { design, dropped, spanning: Some(rows as u64) });
    }
    let (dim, most) = (design.dim(), (MOST_NUMBERS / count as f64).sqrt() as usize);
    if dim > most {
        let (matrices, so_many) = match count {
            1 => (format!("a {dim} by {dim} matrix"), String::new()),
            _ => (format!("{count} matrices of {dim} by {dim}"), format!(" with {count} classes")),
        };
        return Err(Error::Unfit(format!(
            "{family} holds {matrices} for each thread and takes at most {most} columns{so_many}: select columns first"
        )));
    }
    Ok(Measured { design, dropped, spanning: None })
}

/// From rows and classes to what a [`Classifier`] is told.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    /// From raw rows to design rows.
    pub(crate) design: Design,
    /// Number of classes.
    pub(crate) classes: usize,
    /// Factor of the weight of the rows of each class; empty for ones.
    pub(crate) class_weight: Vec<f64>,
}

/// Targets and weights of a block.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Whether each row is of the class of each classifier (rows × classifiers).
    pub(crate) y: Vec<i8>,
    /// Weight of each row; empty for ones.
    pub(crate) weights: Vec<f64>,
}

impl Inputs {
    /// Number of classifiers.
    pub(crate) fn count(&self) -> usize {
        if self.classes == 2 { 1 } else { self.classes }
    }

    /// The classifiers, with the tight bound and the whole covariance.
    pub(crate) fn classifier(&self, loss: Loss, weight_precision: Precision, bias_precision: f64) -> Classifier {
        let prior = Logit {
            labels: self.count(),
            dim: self.design.dim(),
            intercept: self.design.intercept,
            bias_precision,
            weight_precision,
            // there are no patterns
            pattern_precision: Precision::Fixed(1.0),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        };
        Classifier { prior, prior_mean: Vec::new(), loss, class_weights: Vec::new() }
    }

    /// Reads the targets and weights of a block.
    pub(crate) fn read(&self, block: &Block<'_>, told: &mut Told) {
        let count = self.count();
        let Told { y, weights } = told;
        y.clear();
        weights.clear();
        for (i, &class) in block.y.classes().iter().enumerate() {
            if count == 1 {
                y.push(class as i8);
            } else {
                y.extend((0..count as u32).map(|c| i8::from(c == class)));
            }
            if block.weights.is_some() || !self.class_weight.is_empty() {
                weights.push(block.weight(i) * self.class_weight.get(class as usize).unwrap_or(&1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Classes, Dataset, Matrix, Target, blocks};

    #[test]
    fn two_classes_have_one_classifier_and_more_have_one_each() {
        let names = |n: usize| (0..n).map(|c| c.to_string()).collect::<Vec<_>>();
        let told = |classes: usize, class_weight: Vec<f64>, weights: Option<Vec<f64>>| {
            let codes = vec![0, 1, (classes - 1) as u32];
            let target = Target::Classes(Classes { codes, names: names(classes) });
            let data = Dataset { weights, ..Dataset::new(Matrix::dense(3, 1, vec![0.0; 3])).with_target(target) };
            let mut told = Told::default();
            Inputs { design: Design::identity(1, true), classes, class_weight }.read(&blocks(&data, 3)[0], &mut told);
            (told.y, told.weights)
        };
        assert_eq!(told(2, vec![], None), (vec![0, 1, 1], vec![]));
        assert_eq!(told(3, vec![], None), (vec![1, 0, 0, 0, 1, 0, 0, 0, 1], vec![]));
        assert_eq!(told(2, vec![0.5, 2.0], Some(vec![1.0, 3.0, 0.0])).1, [0.5, 6.0, 0.0]);
        assert_eq!(told(2, vec![0.5, 2.0], None).1, [0.5, 2.0, 2.0]);
    }
}
