//! Gibbs steps: given weights, a scale for each row and label; given scales, weights from their normal distribution.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::super::bound::Tangent;
use super::super::gamma_factor::Precision;
use super::super::logit::{Stats, not_definite};
use super::super::normal_factor::{diagonal, factor_of};
use super::{Classifier, Loss, Scratch};
use crate::data::Panel;
use crate::data::design::packed_len;
use crate::dist::{Gamma, PolyaGamma};
use crate::parallel;
use crate::run::{Stream, open01};
use crate::special::ln_sigmoid;
use crate::{Error, Result};

/// Largest 1/λ.
const STEEPEST: f64 = 1e12;

/// A draw of λ ~ GIG(½, 1, r²): a scale of the hinge. Safe at r = 0, where it is χ²₁.
///
/// (λ − |r|)²/λ is χ²₁; its two roots are q and r²/q, of which the larger is taken with probability q/(q + |r|).
pub(crate) fn draw_scale<R: Rng + ?Sized>(r: f64, rng: &mut R) -> f64 {
    let r = r.abs();
    let z: f64 = StandardNormal.sample(rng);
    let nu = z * z;
    let q = r + 0.5 * nu + (nu * r + 0.25 * nu * nu).sqrt();
    if open01(rng) * (q + r) <= q { q } else { r * (r / q) }
}

impl Classifier {
    /// Draws the scales of rows given the weights w (C×dim) and adds what they say; row i of the panel draws from item `first` + i of the
    /// stream. `weights` are those of rows, or empty for 1; the logistic likelihood takes whole numbers only. The offset of the sums is the log
    /// (pseudo-)likelihood of w.
    pub(crate) fn add_draws(
        &self,
        w: &[f64],
        panel: &mut Panel<'_>,
        y: &[i8],
        weights: &[f64],
        stats: &mut Stats,
        streams: (Stream, u64),
        scratch: &mut Scratch,
    ) -> Result<()> {
        let offset = self.draw_scales(w, panel, y, weights, streams, scratch)?;
        self.add_found(panel, stats, (&scratch.curvatures, &scratch.responses), offset);
        Ok(())
    }

    /// Draws the scales of rows: their curvatures and linear terms are left in the scratch, and the log (pseudo-)likelihood of w is given.
    pub(super) fn draw_scales(
        &self,
        w: &[f64],
        panel: &mut Panel<'_>,
        y: &[i8],
        weights: &[f64],
        (stream, first): (Stream, u64),
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let labels = self.prior.labels;
        let fraction = |w: &&f64| w.fract() != 0.0 || **w > f64::from(u32::MAX);
        if self.loss == Loss::Logistic
            && let Some(w) = weights.iter().chain(self.class_weights.iter().flatten()).find(fraction)
        {
            return Err(Error::Unfit(format!(
                "a weight is {w}, but draws of the logistic likelihood need whole numbers: fit by `vb` instead"
            )));
        }
        let Scratch { means, curvatures, responses, .. } = scratch;
        means.resize(y.len(), 0.0);
        panel.mul_t(w, labels, means);
        let mut row = usize::MAX;
        let mut rng = stream.rng();
        let tangent = |at: usize, c: f64| {
            if at / labels != row {
                row = at / labels;
                rng = stream.item(first + row as u64).rng();
            }
            let y = f64::from(y[at]);
            let s = 2.0 * y - 1.0;
            match self.loss {
                Loss::Logistic => {
                    let omega = PolyaGamma::new(c as u32, means[at]).map_or(0.0, |pg| pg.sample(&mut rng));
                    Tangent { curvature: omega, response: c * (y - 0.5), offset: c * ln_sigmoid(s * means[at]) }
                }
                Loss::Hinge | Loss::HingePoint => {
                    let r = c * (1.0 - s * means[at]);
                    let inverse = (1.0 / draw_scale(r, &mut rng)).min(STEEPEST);
                    Tangent { curvature: c * c * inverse, response: s * c * (1.0 + c * inverse), offset: -2.0 * r.max(0.0) }
                }
            }
        };
        Ok(self.tangents(y, weights, (curvatures, responses), tangent))
    }

    /// Draws the weights (C×dim) given the sums of [`Classifier::add_draws`] and the precision of each label; label c draws from item c.
    pub(crate) fn draw(&self, stats: &Stats, precision: &[f64], stream: Stream) -> Result<Vec<f64>> {
        let (dim, columns) = (self.prior.dim, self.prior.columns());
        let size = packed_len(dim);
        let of_label = |c: usize| {
            let mut q = stats.gram.0[c * size..(c + 1) * size].to_vec();
            let mut w = stats.response.0[c * dim..(c + 1) * dim].to_vec();
            for i in 0..dim {
                let p = if i < columns { precision[c] } else { self.prior.bias_precision };
                q[diagonal(i)] += p;
                w[i] += p * self.prior_mean.get(i).unwrap_or(&0.0);
            }
            let (factor, _) = factor_of(dim, &q).map_err(|e| not_definite(c, &e))?;
            // L⁻ᵀ(L⁻¹h + ε)
            factor.solve_lower(&mut w);
            let mut rng = stream.item(c as u64).rng();
            w.iter_mut().for_each(|w| *w += <StandardNormal as Distribution<f64>>::sample(&StandardNormal, &mut rng));
            factor.solve_upper(&mut w);
            Ok(w)
        };
        let found: Vec<Result<Vec<f64>>> = parallel::map_numbers(self.prior.labels, of_label);
        found.into_iter().collect::<Result<Vec<_>>>().map(|w| w.concat())
    }

    /// Draws the precision of each label given the weights (C×dim); a known precision stays. Label c draws from item c.
    pub(crate) fn draw_precisions(&self, w: &[f64], stream: Stream) -> Result<Vec<f64>> {
        let columns = self.prior.columns();
        let of_label = |(c, w): (usize, &[f64])| match self.prior.weight_precision {
            Precision::Fixed(value) => Ok(value),
            Precision::Learned(_) => {
                let squares = (0..columns).map(|i| (w[i] - self.prior_mean.get(i).unwrap_or(&0.0)).powi(2)).sum();
                let q = self.prior.weight_precision.posterior(columns, squares);
                Ok(Gamma::new(q.shape, q.rate)?.sample(&mut stream.item(c as u64).rng()))
            }
        };
        w.chunks_exact(self.prior.dim).enumerate().map(of_label).collect()
    }
}
