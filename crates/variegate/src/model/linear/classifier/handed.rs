//! Gibbs draws of weights that form no matrices: rows hand themselves over, with the scales that they drew.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::super::logit::not_definite;
use super::super::normal_draw::{DesignRows, Known};
use super::{Classifier, Scratch};
use crate::data::Panel;
use crate::parallel;
use crate::run::{List, Stream, Sum};
use crate::{Error, Result, merge_fields};

/// Rows up to which their inner products are formed.
const MOST_INNER: usize = 2_000;
/// Columns from which on a Cholesky factor of each label takes too long.
const MOST_COLUMNS: usize = 2_000;

/// How weights are drawn; the law is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// By a matrix of all columns for each label.
    Matrices,
    /// By inner products of all rows.
    Inner,
    /// By conjugate gradients.
    Gradients,
}

impl Means {
    /// The cheapest for so many rows and design columns.
    pub(crate) fn of(rows: usize, dim: usize) -> Self {
        if rows < dim && rows <= MOST_INNER {
            Self::Inner
        } else if dim > MOST_COLUMNS {
            Self::Gradients
        } else {
            Self::Matrices
        }
    }
}

/// Rows, with curvatures and linear terms of all labels (rows×C each).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Handed {
    rows: DesignRows,
    curvatures: List<f64>,
    responses: List<f64>,
    /// Log (pseudo-)likelihood of the weights that scales were drawn with.
    pub(crate) offset: Sum<f64>,
}
merge_fields!(Handed, rows, curvatures, responses, offset);

impl Classifier {
    /// Draws the scales of rows given the weights w (C×dim), as [`Classifier::add_draws`] does, and hands the rows over. The last column of the panel must
    /// be the bias, and its sparse rows not centred.
    pub(crate) fn hand_over_draws(
        &self,
        w: &[f64],
        panel: &mut Panel<'_>,
        y: &[i8],
        streams: (Stream, u64),
        scratch: &mut Scratch,
    ) -> Result<Handed> {
        let offset = Sum(self.draw_scales(w, panel, y, &[], streams, scratch)?);
        let mut rows = DesignRows::default();
        for i in 0..panel.rows() {
            panel.for_entries(i, |j, v| {
                rows.columns.push(j as u32);
                rows.values.push(v);
            });
            rows.ends.push(rows.columns.len() as u32);
        }
        Ok(Handed { rows, curvatures: List(scratch.curvatures.clone()), responses: List(scratch.responses.clone()), offset })
    }

    /// Draws the weights (C×dim) given rows and the precision of each label, as [`Classifier::draw`] does; label c draws from item c. Gives the
    /// largest residual of conjugate gradients too.
    pub(crate) fn draw_by_rows(
        &self,
        handed: &Handed,
        precision: &[f64],
        means: Means,
        sweep: u64,
        stream: Stream,
    ) -> Result<(Vec<f64>, f64)> {
        let (dim, labels) = (self.prior.dim, self.prior.labels);
        let inner = if means == Means::Inner { handed.rows.inner(dim) } else { Vec::new() };
        let of_label = |c: usize| {
            let column = |table: &[f64]| table.iter().skip(c).step_by(labels).copied().collect::<Vec<f64>>();
            let (curvatures, responses) = (column(&handed.curvatures.0), column(&handed.responses.0));
            let known = Known {
                rows: &handed.rows,
                curvatures: &curvatures,
                responses: &responses,
                precision: precision[c],
                bias_precision: self.prior.bias_precision,
                mean: &self.prior_mean,
                dim,
            };
            let mut rng = stream.item(c as u64).rng();
            let normal = || StandardNormal.sample(&mut rng);
            if means == Means::Inner {
                return Ok((known.by_inner(&inner, normal).map_err(|e| not_definite(c, &e))?, 0.0));
            }
            known.by_gradients(normal).ok_or_else(|| {
                let detail = format!("label {c}: conjugate gradients did not end; standardise the columns, or raise the prior precision");
                Error::Numerical { what: "the draw of the weights", sweep, detail }
            })
        };
        let found: Vec<Result<(Vec<f64>, f64)>> = parallel::map_numbers(labels, of_label);
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        let residual = found.iter().map(|f| f.1).fold(0.0, f64::max);
        Ok((found.into_iter().flat_map(|f| f.0).collect(), residual))
    }
}
