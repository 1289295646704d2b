//! What rows are asked, what they keep and what they report.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::label_model::{LabelSums, Point};
use crate::merge_fields;
use crate::model::labels::inputs::InputScratch;
use crate::model::labels::kernel::{self, Table};
use crate::model::labels::vb::Seen;
use crate::model::labels::{classifier, logit, patterns};
use crate::run::{Least, Sum};

/// What rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// Statistics of these rows of the data, one a component, and which sets of labels there are: where a chain begins.
    Seeds(Cow<'a, [u64]>),
    /// To go to the component of highest density, and to report its statistics.
    Nearest(Cow<'a, Table>),
    /// To take new numbers of components, to draw slices and auxiliary variables, and to report statistics.
    Slice {
        /// New number of each component.
        numbers: Cow<'a, [u32]>,
        /// ln π of each, by new numbers.
        ln_weights: Cow<'a, [f64]>,
        /// Parameters of labels, by new numbers.
        point: Cow<'a, Point>,
    },
    /// To choose components anew above the slices.
    Assign {
        /// ln π of each component.
        ln_weights: Cow<'a, [f64]>,
        /// Log densities of features.
        table: Cow<'a, Table>,
        /// Parameters of labels.
        point: Cow<'a, Point>,
    },
}

/// What a block keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Local {
    /// Component of each row.
    pub(crate) z: Vec<u32>,
    /// ln u of each row, between the two visits of a sweep.
    #[serde(skip)]
    pub(crate) ln_slices: Vec<f64>,
}

/// What rows report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// The lowest ln u.
    pub(crate) lowest: Least<f64>,
    /// Statistics of features, component by component.
    pub(crate) features: Sum<Vec<f64>>,
    /// Rows of each component.
    pub(crate) counts: Sum<Vec<f64>>,
    /// Σ_i of the log densities of a row given its component.
    pub(crate) ln_likelihood: Sum<f64>,
    /// Sums of labels.
    pub(crate) labels: LabelSums,
    /// Sums of the classifiers that are fitted apart.
    pub(crate) apart: logit::Stats,
    /// Rows for the same, where no matrices of them are formed.
    pub(crate) handed: classifier::Handed,
    /// Rows of each component that have each label, and those that know it (K×C).
    pub(crate) present: Sum<Vec<f64>>,
    pub(crate) known: Sum<Vec<f64>>,
    /// Sets of labels of the rows that know all of theirs.
    pub(crate) seen: Seen,
}

merge_fields!(Stats, lowest, features, counts, ln_likelihood, labels, apart, handed, present, known, seen);

/// Buffers of a visit.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) kernel: kernel::Scratch,
    pub(crate) patterns: patterns::Scratch,
    pub(crate) inputs: InputScratch,
    pub(crate) apart: classifier::Scratch,
    /// Rows × K.
    pub(crate) terms: Vec<f64>,
    /// Rows × C: w'x̃, then ω, then κ.
    pub(crate) predictor: Vec<f64>,
    pub(crate) omega: Vec<f64>,
    pub(crate) kappa: Vec<f64>,
    /// Numbers of one row.
    pub(crate) row: Vec<f64>,
    pub(crate) masked: Vec<f64>,
}
