//! The Gaussian factor of a softmax node: U weight vectors of D entries, their precisions, and one natural-gradient step.
//!
//! q(W) = N(μ, P⁻¹) with P of some form ([`Covariance`]). Rows report the curvature C = Σ K ⊗ x̃x̃ᵀ and the gradient Σ (r − s) ⊗ x̃ of
//! their bounds (see `bound.rs`). With A the mean prior precisions, a step of length ρ is P ← (1−ρ)P + ρ(A + C),
//! μ ← μ + ρ P⁻¹(gradient − Aμ); for ρ = 1 and a quadratic bound it is the exact optimum. Forms that hold only part of A + C get
//! their direction from conjugate gradients over the rows, which use all of it.
//!
//! P and C share one layout, linear in the matrix: packed D×D blocks (`Joint`: block (c, d), d ≤ c, at c(c+1)/2 + d, symmetric
//! because every row adds a multiple of x̃x̃ᵀ to each; `Child`: one a unit; `Shared`: one for all units), packed runs of
//! columns (`Blocks`), or QᵀPQ and tr P for a fixed basis Q (`LowRank`: Σ = QCQᵀ + s(I − QQᵀ)).

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

use super::bound::RowBound;
use super::covariance::Covariance;
use super::layout::{Logits, NodeLayout};
use crate::data::design::{pack_form, packed_len, runs};
use crate::linalg::{Cholesky, NotPositiveDefinite, dot};

/// q of a node: Gaussian weights and Gamma precisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// U.
    pub(crate) units: usize,
    /// D.
    pub(crate) dim: usize,
    /// Form of P.
    pub(crate) covariance: Covariance,
    /// μ, U×D.
    pub(crate) mean: Vec<f64>,
    /// P.
    pub(crate) precision: Vec<f64>,
    /// b_g of each group of precisions.
    pub(crate) rates: Vec<f64>,
}

/// What follows from P: covariances as the rows need them, and the entropy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    /// Quadratic forms that give the rows what their bound asks for (see [`RowBound`]).
    pub(crate) forms: Vec<f64>,
    /// Variance of each weight, U×D.
    pub(crate) variance: Vec<f64>,
    /// Entropy of q(W), divided by β.
    pub(crate) entropy: f64,
}

/// Cholesky factors of P.
pub(crate) struct NodeFactors {
    /// One of all weights (`Joint`), one for all units (`Shared`), one a unit, or one a run of columns and unit.
    factors: Vec<Cholesky>,
    /// Variance across the basis, one a unit (`LowRank` only).
    across: Vec<f64>,
}

impl Node {
    /// Weights at `mean` with variance `spread`, and the precisions that suit them.
    pub(crate) fn new(layout: &NodeLayout, dim: usize, mean: Vec<f64>, spread: f64, beta: f64) -> Self {
        let covariance = layout.covariance;
        let squares: Vec<f64> = mean.iter().map(|m| m * m + spread).collect();
        let length = covariance.count(layout.units) * covariance.matrix_len(dim);
        let mut node = Self {
            units: layout.units,
            dim,
            covariance,
            rates: layout.prior.best_rates(&squares, beta),
            mean,
            precision: vec![0.0; length],
        };
        node.add_diagonal(&vec![1.0 / (spread * beta); layout.units * dim]);
        node
    }

    /// P += diag(a), a given for each weight. `LowRank` takes them as equal within a unit, `Shared` as equal everywhere.
    fn add_diagonal(&mut self, a: &[f64]) {
        let (dim, len) = (self.dim, self.covariance.matrix_len(self.dim));
        for c in 0..self.units {
            let a = &a[c * dim..(c + 1) * dim];
            match self.covariance {
                Covariance::Shared if c > 0 => {}
                Covariance::Joint | Covariance::Child | Covariance::Shared | Covariance::Blocks(_) => {
                    let unit = if self.covariance == Covariance::Joint { packed_len(c) + c } else { c };
                    for (first, columns, at) in runs(dim, self.covariance.run_width(dim)) {
                        for i in 0..columns {
                            self.precision[unit * len + at + packed_len(i) + i] += a[first + i];
                        }
                    }
                }
                Covariance::LowRank(rank) => {
                    for i in 0..rank {
                        self.precision[c * len + packed_len(i) + i] += a[0];
                    }
                    self.precision[(c + 1) * len - 1] += a[0] * dim as f64;
                }
            }
        }
    }

    /// P ← (1−ρ)P + ρ·(curvature the rows reported).
    fn mix_curvature(&mut self, layout: &NodeLayout, curvature: &[f64], rho: f64) {
        let len = self.covariance.matrix_len(self.dim);
        let mut mix = |at: usize, sign: f64, from: usize| {
            for (p, c) in self.precision[at * len..(at + 1) * len].iter_mut().zip(&curvature[from * len..(from + 1) * len]) {
                *p = (1.0 - rho) * *p + rho * sign * c;
            }
        };
        match (layout.bound, &layout.logits, self.covariance) {
            // one Gram matrix G of the difference of two logits
            (RowBound::Jj, Logits::Full, Covariance::Joint) => {
                mix(0, 1.0, 0);
                mix(1, -1.0, 0);
                mix(2, 1.0, 0);
            }
            (RowBound::Jj, Logits::Full, _) => {
                mix(0, 1.0, 0);
                mix(1, 1.0, 0);
            }
            (_, _, Covariance::Shared) => mix(0, 1.0, 0),
            _ => (0..layout.forms).for_each(|k| mix(k, 1.0, k)),
        }
    }

    /// Factors of P.
    pub(crate) fn factors(&self) -> Result<NodeFactors, NotPositiveDefinite> {
        let (u, dim, len) = (self.units, self.dim, self.covariance.matrix_len(self.dim));
        let mut across = Vec::new();
        let factors = match self.covariance {
            Covariance::Child | Covariance::Shared | Covariance::Blocks(_) => {
                let mut factors = Vec::new();
                for unit in self.precision.chunks_exact(len) {
                    for (_, columns, at) in runs(dim, self.covariance.run_width(dim)) {
                        factors.push(Cholesky::of_packed(columns, &unit[at..at + packed_len(columns)])?);
                    }
                }
                factors
            }
            Covariance::LowRank(rank) => {
                let mut factors = Vec::new();
                for unit in self.precision.chunks_exact(len) {
                    let along: f64 = (0..rank).map(|i| unit[packed_len(i) + i]).sum();
                    let left = unit[len - 1] - along;
                    across.push(if rank < dim { (dim - rank) as f64 / left } else { 0.0 });
                    if rank < dim && (left.is_nan() || left <= 0.0) {
                        return Err(NotPositiveDefinite { dim });
                    }
                    factors.push(Cholesky::of_packed(rank, &unit[..len - 1])?);
                }
                factors
            }
            Covariance::Joint => {
                let all = u * dim;
                let mut lower = vec![0.0; all * all];
                for c in 0..u {
                    for d in 0..=c {
                        let packed = &self.precision[(packed_len(c) + d) * len..][..len];
                        for i in 0..dim {
                            for j in 0..=i {
                                let v = packed[packed_len(i) + j];
                                lower[(c * dim + i) * all + d * dim + j] = v;
                                if d < c {
                                    lower[(c * dim + j) * all + d * dim + i] = v;
                                }
                            }
                        }
                    }
                }
                vec![Cholesky::with_jitter(all, &lower)?.0]
            }
        };
        Ok(NodeFactors { factors, across })
    }

    /// Covariances and entropy at inverse temperature β.
    pub(crate) fn moments(&self, layout: &NodeLayout, basis: &[f64], beta: f64) -> Result<Moments, NotPositiveDefinite> {
        Ok(self.moments_of(layout, &self.factors()?, basis, beta))
    }

    /// Blocks of P⁻¹ as packed forms, in the layout of P.
    pub(crate) fn unit_forms(&self, basis: &[f64]) -> Result<Vec<f64>, NotPositiveDefinite> {
        Ok(self.spread(&self.factors()?, basis, 1.0).0)
    }

    fn moments_of(&self, layout: &NodeLayout, found: &NodeFactors, basis: &[f64], beta: f64) -> Moments {
        let (forms, variance, entropy) = self.spread(found, basis, beta);
        Moments { forms: self.row_forms(layout, forms), variance, entropy }
    }

    /// Blocks of P⁻¹ as packed forms, variances of all weights, and the entropy divided by β.
    fn spread(&self, found: &NodeFactors, basis: &[f64], beta: f64) -> (Vec<f64>, Vec<f64>, f64) {
        let (u, dim) = (self.units, self.dim);
        let (len, factors) = (self.covariance.matrix_len(dim), &found.factors);
        let mut forms = vec![0.0; self.covariance.count(u) * len];
        let mut variance = Vec::with_capacity(u * dim);
        let mut ln_det: f64 = factors.iter().map(Cholesky::ln_det).sum();
        match self.covariance {
            Covariance::Child | Covariance::Shared | Covariance::Blocks(_) => {
                let mut factors = factors.iter();
                for form in forms.chunks_exact_mut(len) {
                    for ((_, columns, at), factor) in runs(dim, self.covariance.run_width(dim)).zip(&mut factors) {
                        let inverse = factor.inverse();
                        pack_form(columns, |i, j| inverse[i * columns + j], &mut form[at..at + packed_len(columns)]);
                        variance.extend((0..columns).map(|i| inverse[i * columns + i]));
                    }
                }
                if self.covariance == Covariance::Shared {
                    variance = variance.repeat(u);
                    ln_det *= u as f64;
                }
            }
            Covariance::Joint => {
                let (all, inverse) = (u * dim, factors[0].inverse());
                for c in 0..u {
                    for d in 0..=c {
                        let form = &mut forms[(packed_len(c) + d) * len..][..len];
                        pack_form(dim, |i, j| inverse[(c * dim + i) * all + d * dim + j], form);
                    }
                }
                variance.extend((0..all).map(|i| inverse[i * all + i]));
            }
            Covariance::LowRank(rank) => {
                // rows know Qᵀx and ‖x‖²: xᵀΣx = (Qᵀx)ᵀ(C − sI)(Qᵀx) + s‖x‖²
                for ((factor, &s), form) in factors.iter().zip(&found.across).zip(forms.chunks_exact_mut(len)) {
                    let inverse = factor.inverse();
                    let at = |i: usize, j: usize| inverse[i * rank + j] - if i == j { s } else { 0.0 };
                    pack_form(rank, at, &mut form[..len - 1]);
                    form[len - 1] = s;
                    variance.extend((0..dim).map(|j| {
                        let q = |i: usize| basis[i * dim + j];
                        s + (0..rank).map(|a| (0..rank).map(|b| q(a) * at(a, b) * q(b)).sum::<f64>()).sum::<f64>()
                    }));
                    if rank < dim {
                        ln_det -= (dim - rank) as f64 * s.ln();
                    }
                }
            }
        }
        if beta != 1.0 {
            forms.iter_mut().chain(&mut variance).for_each(|v| *v /= beta);
            ln_det += (u * dim) as f64 * beta.ln();
        }
        let entropy = 0.5 * ((u * dim) as f64 * (1.0 + (2.0 * PI).ln()) - ln_det) / beta;
        (forms, variance, entropy)
    }

    /// The forms that the rows of a node ask for, from those of P⁻¹.
    fn row_forms(&self, layout: &NodeLayout, forms: Vec<f64>) -> Vec<f64> {
        if layout.bound != RowBound::Jj || layout.logits != Logits::Full {
            return forms;
        }
        let len = self.covariance.matrix_len(self.dim);
        let part = |k: usize| &forms[k * len..(k + 1) * len];
        match self.covariance {
            Covariance::Joint => (0..len).map(|i| part(0)[i] + part(2)[i] - 2.0 * part(1)[i]).collect(),
            _ => (0..len).map(|i| part(0)[i] + part(1)[i]).collect(),
        }
    }

    /// ⟨w²⟩ of each entry.
    pub(crate) fn squares(&self, moments: &Moments) -> Vec<f64> {
        self.mean.iter().zip(&moments.variance).map(|(m, v)| m * m + v).collect()
    }

    /// The part of the bound that rows have no say in: prior, entropy, and divergence of the precisions.
    pub(crate) fn terms(&self, layout: &NodeLayout, moments: &Moments, beta: f64) -> f64 {
        layout.prior.terms(&self.rates, &self.squares(moments), beta) + moments.entropy
    }

    /// The residual (gradient − Aμ) that a step solves for, U×D.
    pub(crate) fn residual(&self, layout: &NodeLayout, gradient: &[f64], beta: f64) -> Vec<f64> {
        let alpha = layout.prior.means(&self.rates, beta);
        gradient.iter().zip(&alpha).zip(&self.mean).map(|((g, a), m)| g - a * m).collect()
    }

    /// A step of length ρ from what the rows reported of this node, then the best precisions for the new weights.
    pub(crate) fn step(
        &mut self,
        layout: &NodeLayout,
        stats: RowStats<'_>,
        rho: f64,
        basis: &[f64],
        beta: f64,
    ) -> Result<Moments, NotPositiveDefinite> {
        // bounds that are quadratic in the weights have their optimum a full step away
        let rho = if layout.bound.needs_damping() { rho } else { 1.0 };
        let alpha = layout.prior.means(&self.rates, beta);
        let mut change = self.residual(layout, stats.gradient, beta);
        self.mix_curvature(layout, stats.curvature, rho);
        self.add_diagonal(&alpha.iter().map(|a| rho * a).collect::<Vec<_>>());
        let factors = self.factors()?;
        match self.covariance {
            Covariance::Blocks(_) | Covariance::LowRank(_) => change.copy_from_slice(stats.direction),
            Covariance::Child if layout.bound == RowBound::Jj && layout.logits == Logits::Full => {
                self.solve_pair(&alpha, stats.curvature, &mut change)?
            }
            Covariance::Shared => change.chunks_exact_mut(self.dim).for_each(|part| factors.factors[0].solve(part)),
            _ => {
                let part = change.len() / factors.factors.len();
                factors.factors.iter().zip(change.chunks_exact_mut(part)).for_each(|(f, part)| f.solve(part));
            }
        }
        for (m, d) in self.mean.iter_mut().zip(&change) {
            *m += rho * d;
        }
        if layout.logits == Logits::Full && self.covariance != Covariance::Joint {
            self.recentre(&alpha);
        }
        let moments = self.moments_of(layout, &factors, basis, beta);
        self.rates = layout.prior.best_rates(&self.squares(&moments), beta);
        Ok(moments)
    }

    /// Change of the means of two independent children whose rows see only z₁ − z₂: with A₁₂ = A₁A₂/(A₁+A₂),
    /// (A₁₂ + G)δ = h for the new δ = μ₁ − μ₂, of which each child takes the share the other's prior leaves it.
    fn solve_pair(&self, alpha: &[f64], gram: &[f64], change: &mut [f64]) -> Result<(), NotPositiveDefinite> {
        let dim = self.dim;
        let (a, b) = alpha.split_at(dim);
        let mut packed = gram.to_vec();
        for j in 0..dim {
            packed[packed_len(j) + j] += a[j] * b[j] / (a[j] + b[j]);
        }
        let mut delta: Vec<f64> = self.mean[..dim].iter().zip(&self.mean[dim..]).map(|(m, n)| m - n).collect();
        // h = (gradient of the first) + Gδ_old, and residual = gradient − Aμ
        let mut h: Vec<f64> = (0..dim).map(|j| change[j] + a[j] * self.mean[j]).collect();
        for i in 0..dim {
            for j in 0..i {
                h[i] += gram[packed_len(i) + j] * delta[j];
                h[j] += gram[packed_len(i) + j] * delta[i];
            }
            h[i] += gram[packed_len(i) + i] * delta[i];
        }
        Cholesky::of_packed(dim, &packed)?.solve(&mut h);
        delta.copy_from_slice(&h);
        for j in 0..dim {
            change[j] = b[j] / (a[j] + b[j]) * delta[j] - self.mean[j];
            change[dim + j] = -a[j] / (a[j] + b[j]) * delta[j] - self.mean[dim + j];
        }
        Ok(())
    }

    /// Shifts all weight vectors by the t that suits the prior best: the softmax does not see it, and without it a common
    /// shift of independent children decays only slowly.
    fn recentre(&mut self, alpha: &[f64]) {
        for j in 0..self.dim {
            let (mut top, mut bottom) = (0.0, 0.0);
            for c in 0..self.units {
                top += alpha[c * self.dim + j] * self.mean[c * self.dim + j];
                bottom += alpha[c * self.dim + j];
            }
            let t = top / bottom;
            for c in 0..self.units {
                self.mean[c * self.dim + j] -= t;
            }
        }
    }

    /// A draw of the weights, U×D.
    pub(crate) fn draw(&self, found: &NodeFactors, basis: &[f64], rng: &mut impl Rng) -> Vec<f64> {
        let dim = self.dim;
        let mut w: Vec<f64> = (0..self.units * dim).map(|_| StandardNormal.sample(rng)).collect();
        match self.covariance {
            Covariance::Joint => found.factors[0].solve_upper(&mut w),
            Covariance::Child | Covariance::Shared | Covariance::Blocks(_) => {
                // one factor for all units, or each its own
                let mut factors = found.factors.iter().cycle();
                for w in w.chunks_exact_mut(dim) {
                    for ((first, columns, _), factor) in runs(dim, self.covariance.run_width(dim)).zip(&mut factors) {
                        factor.solve_upper(&mut w[first..first + columns]);
                    }
                }
            }
            Covariance::LowRank(rank) => {
                for ((w, factor), s) in w.chunks_exact_mut(dim).zip(&found.factors).zip(&found.across) {
                    // √s (I − QQᵀ)e, and along Q a draw of its own
                    let mut along: Vec<f64> = (0..rank).map(|a| dot(&basis[a * dim..(a + 1) * dim], w)).collect();
                    let mut own: Vec<f64> = along.iter().map(|_| StandardNormal.sample(rng)).collect();
                    factor.solve_upper(&mut own);
                    along.iter_mut().zip(&own).for_each(|(a, o)| *a = o - s.sqrt() * *a);
                    w.iter_mut().for_each(|w| *w *= s.sqrt());
                    for (a, q) in along.iter().zip(basis.chunks_exact(dim)) {
                        w.iter_mut().zip(q).for_each(|(w, q)| *w += a * q);
                    }
                }
            }
        }
        w.iter_mut().zip(&self.mean).for_each(|(w, m)| *w += m);
        w
    }

    /// Whether units are independent under q.
    pub(crate) fn independent_units(&self) -> bool {
        self.covariance != Covariance::Joint
    }

    /// The same units, each with its marginal and independent of the others.
    pub(crate) fn marginals(&self) -> Result<Self, NotPositiveDefinite> {
        if self.independent_units() {
            return Ok(self.clone());
        }
        let (dim, all) = (self.dim, self.units * self.dim);
        let inverse = self.factors()?.factors[0].inverse();
        let mut precision = Vec::with_capacity(self.units * packed_len(dim));
        for c in 0..self.units {
            let block: Vec<f64> = (0..dim * dim).map(|at| inverse[(c * dim + at / dim) * all + c * dim + at % dim]).collect();
            let own = Cholesky::with_jitter(dim, &block)?.0.inverse();
            (0..dim).for_each(|i| precision.extend_from_slice(&own[i * dim..=i * dim + i]));
        }
        Ok(Self { covariance: Covariance::Child, precision, ..self.clone() })
    }

    /// Log density of unit `c` at w, for forms with independent units.
    pub(crate) fn unit_ln_density(&self, found: &NodeFactors, basis: &[f64], c: usize, w: &[f64]) -> f64 {
        let dim = self.dim;
        let mut d: Vec<f64> = w.iter().zip(&self.mean[c * dim..(c + 1) * dim]).map(|(w, m)| w - m).collect();
        let (ln_det, square) = match self.covariance {
            Covariance::Joint => (f64::NAN, f64::NAN),
            Covariance::Child | Covariance::Shared | Covariance::Blocks(_) => {
                let runs = || runs(dim, self.covariance.run_width(dim));
                let unit = if self.covariance == Covariance::Shared { 0 } else { c };
                let own = &found.factors[unit * runs().count()..];
                runs().zip(own).fold((0.0, 0.0), |(ln_det, square), ((first, columns, _), factor)| {
                    let (l, s) = factor.whiten(&mut d[first..first + columns]);
                    (ln_det + l, square + s)
                })
            }
            Covariance::LowRank(rank) => {
                let all = dot(&d, &d);
                let mut along: Vec<f64> = (0..rank).map(|a| dot(&basis[a * dim..(a + 1) * dim], &d)).collect();
                let within = dot(&along, &along);
                let (ln_det, square) = found.factors[c].whiten(&mut along);
                if rank < dim {
                    let s = found.across[c];
                    (ln_det - (dim - rank) as f64 * s.ln(), square + (all - within).max(0.0) / s)
                } else {
                    (ln_det, square)
                }
            }
        };
        0.5 * (ln_det - square - dim as f64 * (2.0 * PI).ln())
    }

    /// Log density of all units at w (U×D).
    pub(crate) fn ln_density(&self, found: &NodeFactors, basis: &[f64], w: &[f64]) -> f64 {
        if self.covariance != Covariance::Joint {
            return w.chunks_exact(self.dim).enumerate().map(|(c, w)| self.unit_ln_density(found, basis, c, w)).sum();
        }
        let mut d: Vec<f64> = w.iter().zip(&self.mean).map(|(w, m)| w - m).collect();
        let (ln_det, square) = found.factors[0].whiten(&mut d);
        0.5 * (ln_det - square - w.len() as f64 * (2.0 * PI).ln())
    }
}

/// What the rows reported of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowStats<'a> {
    /// C, as many matrices as the node has forms.
    pub(crate) curvature: &'a [f64],
    /// Gradient of the units, U×D.
    pub(crate) gradient: &'a [f64],
    /// Solution of (A + C)d = residual where the form of P needs it; else not read.
    pub(crate) direction: &'a [f64],
}
