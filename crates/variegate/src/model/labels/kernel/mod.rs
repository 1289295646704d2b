//! Distributions of a row's features within a component, each with its conjugate prior.
//!
//! Every log density here is linear in some numbers g(x) of the row. A component's statistics are Σ_i r_i g(x_i), its posterior
//! is the prior with statistics added, and expected log densities are the product of g(x) with a table: so rows meet components in
//! matrix products. Count kernels never touch the zeros of sparse rows; Gaussian ones work with rows less a fixed shift, which keeps
//! their digits where means are large, and fill sparse rows in a block at a time.
//!
//! A power other than 1 raises p(x | φ) to it everywhere: statistics and tables come multiplied by it.

mod bernoulli;
mod diagonal;
mod full;
mod multinomial;
mod predictive;
mod table;

#[cfg(test)]
mod tests;

pub(crate) use bernoulli::{Bernoulli, BernoulliFactor};
pub(crate) use diagonal::{Diagonal, DiagonalFactor};
pub(crate) use full::{Full, FullFactor};
pub(crate) use multinomial::{Multinomial, MultinomialFactor};
pub(crate) use predictive::Predictive;
pub(crate) use table::Table;
use table::Weights;

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::design::PanelScratch;
use crate::data::{Design, X};
use crate::linalg;

/// A kernel with its prior and its power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kernel {
    /// Counts of D kinds.
    Multinomial(Multinomial),
    /// D answers yes or no.
    Bernoulli(Bernoulli),
    /// Real numbers, independent given the component.
    Diagonal(Diagonal),
    /// Real numbers with covariances.
    Full(Full),
}

/// The posterior (or prior) of a component's parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Factor {
    /// Dirichlet.
    Multinomial(MultinomialFactor),
    /// A Beta for each column.
    Bernoulli(BernoulliFactor),
    /// A normal-gamma for each column.
    Diagonal(DiagonalFactor),
    /// Normal-inverse-Wishart.
    Full(FullFactor),
}

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    design: Option<Design>,
    panel: PanelScratch,
    rows: Vec<f64>,
    product: Vec<f64>,
    weights: Vec<f64>,
    column: Vec<f64>,
}

/// What the four kernels have in common; statistics are those of one component.
trait Conjugate {
    /// Posterior of a component's parameters.
    type Factor;
    fn width(&self) -> usize;
    fn power(&self) -> f64;
    fn size(&self) -> usize;
    fn parameters(&self) -> usize;
    fn prior(&self) -> Self::Factor;
    fn posterior(&self, stats: &[f64]) -> Result<Self::Factor>;
    fn divergence(&self, q: &Self::Factor) -> f64;
    fn ln_marginal(&self, stats: &[f64]) -> Result<f64>;
    /// Numbers whose product with g(x) is E ln p(x | φ), without the power.
    fn coefficients(&self, q: &Self::Factor) -> Vec<f64>;
    fn mean(&self, q: &Self::Factor) -> Vec<f64>;
    fn mean_of(&self, parameters: &[f64]) -> Vec<f64>;
    fn draw<R: Rng + ?Sized>(&self, q: &Self::Factor, rng: &mut R, out: &mut Vec<f64>) -> Result<()>;
    fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], total: u32, rng: &mut R, out: &mut [f64]) -> Result<()>;
    fn expected(&self, q: &[&Self::Factor]) -> Table;
    fn table_of(&self, parameters: &[f64], components: usize) -> Table;
    fn predictive(&self, q: &[&Self::Factor]) -> Predictive;
    fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch);
}

/// Calls a method of the kernel at hand.
macro_rules! each {
    ($kernel:expr, $inner:ident => $call:expr) => {
        match $kernel {
            Kernel::Multinomial($inner) => $call,
            Kernel::Bernoulli($inner) => $call,
            Kernel::Diagonal($inner) => $call,
            Kernel::Full($inner) => $call,
        }
    };
}

/// The same with a factor, which is always one of the kernel's own.
macro_rules! with_factor {
    ($kernel:expr, $factor:expr, ($inner:ident, $q:ident) => $call:expr) => {
        match ($kernel, $factor) {
            (Kernel::Multinomial($inner), Factor::Multinomial($q)) => $call,
            (Kernel::Bernoulli($inner), Factor::Bernoulli($q)) => $call,
            (Kernel::Diagonal($inner), Factor::Diagonal($q)) => $call,
            (Kernel::Full($inner), Factor::Full($q)) => $call,
            _ => unreachable!("a factor belongs to the kernel that made it"),
        }
    };
}

/// The same with several factors.
macro_rules! with_factors {
    ($kernel:expr, $factors:expr, ($inner:ident, $q:ident) => $call:expr) => {
        with_factors!(@ $kernel, $factors, $inner, $q, $call, Multinomial, Bernoulli, Diagonal, Full)
    };
    (@ $kernel:expr, $factors:expr, $inner:ident, $q:ident, $call:expr, $($kind:ident),+) => {
        match $kernel {
            $(Kernel::$kind($inner) => {
                let $q: Vec<_> = $factors.iter().filter_map(|q| if let Factor::$kind(q) = q { Some(q) } else { None }).collect();
                debug_assert_eq!($q.len(), $factors.len());
                $call
            })+
        }
    };
}

impl Kernel {
    /// Number of raw columns.
    pub(crate) fn width(&self) -> usize {
        each!(self, k => k.width())
    }

    /// The power of p(x | φ).
    pub(crate) fn power(&self) -> f64 {
        each!(self, k => k.power())
    }

    /// Numbers of a component's statistics.
    pub(crate) fn size(&self) -> usize {
        each!(self, k => k.size())
    }

    /// Numbers of a component's drawn parameters.
    pub(crate) fn parameters(&self) -> usize {
        each!(self, k => k.parameters())
    }

    /// Adds the statistics of rows with weights r (rows × k) to those of k components, one after the other, times the power.
    pub(crate) fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch) {
        if self.power() == 1.0 {
            return each!(self, kernel => kernel.add(x, r, k, stats, scratch));
        }
        let mut weights = std::mem::take(&mut scratch.weights);
        weights.clear();
        weights.extend(r.iter().map(|r| r * self.power()));
        each!(self, kernel => kernel.add(x, &weights, k, stats, scratch));
        scratch.weights = weights;
    }

    /// The prior of a component.
    pub(crate) fn prior(&self) -> Factor {
        match self {
            Self::Multinomial(k) => Factor::Multinomial(k.prior()),
            Self::Bernoulli(k) => Factor::Bernoulli(k.prior()),
            Self::Diagonal(k) => Factor::Diagonal(k.prior()),
            Self::Full(k) => Factor::Full(k.prior()),
        }
    }

    /// The posterior of a component with these statistics.
    pub(crate) fn posterior(&self, stats: &[f64]) -> Result<Factor> {
        Ok(match self {
            Self::Multinomial(k) => Factor::Multinomial(k.posterior(stats)?),
            Self::Bernoulli(k) => Factor::Bernoulli(k.posterior(stats)?),
            Self::Diagonal(k) => Factor::Diagonal(k.posterior(stats)?),
            Self::Full(k) => Factor::Full(k.posterior(stats)?),
        })
    }

    /// The posteriors of components whose statistics lie one after the other.
    pub(crate) fn posteriors(&self, stats: &[f64], components: usize) -> Result<Vec<Factor>> {
        let size = self.size();
        (0..components).map(|k| self.posterior(&stats[k * size..(k + 1) * size])).collect()
    }

    /// Divergence of a factor from the prior.
    pub(crate) fn divergence(&self, q: &Factor) -> f64 {
        with_factor!(self, q, (k, q) => k.divergence(q))
    }

    /// Log marginal likelihood of the rows behind a component's statistics. Multinomial coefficients are left out (see
    /// [`Kernel::ln_coefficient`]); with a power it is the logarithm of ∫ p(φ) ∏ p(x | φ)^power.
    pub(crate) fn ln_marginal(&self, stats: &[f64]) -> Result<f64> {
        each!(self, k => k.ln_marginal(stats))
    }

    /// The table of power · E ln p(x | φ_k), multinomial coefficients left out.
    pub(crate) fn expected(&self, q: &[Factor]) -> Table {
        with_factors!(self, q, (k, own) => k.expected(&own))
    }

    /// The table of power · ln p(x | φ_k) for drawn parameters, one component after the other; multinomial coefficients left out.
    pub(crate) fn table_of(&self, parameters: &[f64], components: usize) -> Table {
        each!(self, k => k.table_of(parameters, components))
    }

    /// Log posterior predictive densities of new rows, power 1; multinomial coefficients left out.
    pub(crate) fn predictive(&self, q: &[Factor]) -> Predictive {
        with_factors!(self, q, (k, own) => k.predictive(&own))
    }

    /// Appends the parameters of a component drawn from its factor: see [`Kernel::table_of`]. Logarithms of proportions
    /// (multinomial); log-odds (bernoulli); means less the shift, then precisions (diagonal); means less the shift, the lower
    /// triangle of the precision row by row with zeros above, and its log determinant (full).
    pub(crate) fn draw<R: Rng + ?Sized>(&self, q: &Factor, rng: &mut R, out: &mut Vec<f64>) -> Result<()> {
        with_factor!(self, q, (k, q) => k.draw(q, rng, out))
    }

    /// Draws a row of a component with these parameters; a row of counts sums to `total`.
    pub(crate) fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], total: u32, rng: &mut R, out: &mut [f64]) -> Result<()> {
        each!(self, k => k.draw_row(parameters, total, rng, out))
    }

    /// Σ_k power · Σ_i r_ik E ln p(x_i | φ_k) from statistics alone, multinomial coefficients left out.
    pub(crate) fn value(&self, q: &[Factor], stats: &[f64]) -> f64 {
        let own = stats.chunks_exact(self.size().max(1));
        q.iter().zip(own).map(|(q, stats)| with_factor!(self, q, (k, q) => linalg::dot(&k.coefficients(q), stats))).sum()
    }

    /// Expected row of a component: proportions, probabilities or means, column by column.
    pub(crate) fn mean(&self, q: &Factor) -> Vec<f64> {
        with_factor!(self, q, (k, q) => k.mean(q))
    }

    /// The same of a component with drawn parameters.
    pub(crate) fn mean_of(&self, parameters: &[f64]) -> Vec<f64> {
        each!(self, k => k.mean_of(parameters))
    }

    /// Adds power · (ln n_i! − Σ_d ln x_id!) to each row's number for a multinomial kernel; others have no coefficient.
    pub(crate) fn ln_coefficient(&self, x: X<'_>, out: &mut [f64]) {
        if let Self::Multinomial(kernel) = self {
            kernel.ln_coefficient(x, out);
        }
    }
}

impl Scratch {
    /// out (k×size, only the first D of each) += rᵀ X, zeros of sparse rows never touched.
    fn add_sums(&mut self, x: X<'_>, r: &[f64], k: usize, size: usize, out: &mut [f64]) {
        let (n, width) = (x.rows(), x.cols());
        if width == 0 {
            return;
        }
        if matches!(x, X::Csr { .. }) {
            // rows of few components each: fewer numbers to touch than the sums have
            let pairs: usize = (0..n).map(|i| x.sparse_row(i).0.len() * r[i * k..(i + 1) * k].iter().filter(|r| **r != 0.0).count()).sum();
            if 2 * pairs <= k * width {
                for (i, r) in r.chunks_exact(k).enumerate() {
                    for (c, &r) in r.iter().enumerate().filter(|(_, r)| **r != 0.0) {
                        let out = &mut out[c * size..c * size + width];
                        x.for_row(i, |j, v| out[j] += r * v);
                    }
                }
                return;
            }
        }
        self.product.clear();
        self.product.resize(k * width, 0.0);
        match x {
            X::Dense { values, .. } => linalg::t_mul(r, values, &mut self.product, n, k, width, false),
            X::Csr { .. } => {
                let design = self.identity(width);
                design.panel(x, &mut self.panel).t_mul_add(r, k, &mut self.product);
                self.design = Some(design);
            }
        }
        for (out, sums) in out.chunks_exact_mut(size).zip(self.product.chunks_exact(width)) {
            out.iter_mut().zip(sums).for_each(|(o, s)| *o += s);
        }
    }

    /// out (n×k) += X wᵀ for w (k×D), zeros of sparse rows never touched.
    fn add_products(&mut self, x: X<'_>, w: &Weights, k: usize, out: &mut [f64]) {
        let (n, width) = (x.rows(), x.cols());
        match x {
            _ if width == 0 => {}
            X::Dense { values, .. } => linalg::mul_t(values, w.by_component(), out, n, width, k, true),
            X::Csr { .. } => {
                self.product.resize(self.product.len().max(k), 0.0);
                w.add_sparse(x, &mut self.product[..k], out);
            }
        }
    }

    /// The design that leaves rows of this width as they are.
    fn identity(&mut self, width: usize) -> Design {
        self.design.take().filter(|d| d.raw_cols == width).unwrap_or_else(|| Design::identity(width, false))
    }

    /// Dense rows less a shift, `stride` numbers a row of which the first D are written.
    fn centre(&mut self, x: X<'_>, shift: &[f64], stride: usize) {
        self.rows.clear();
        self.rows.resize(x.rows() * stride, 0.0);
        if shift.is_empty() {
            return;
        }
        for (i, row) in self.rows.chunks_exact_mut(stride).enumerate() {
            let row = &mut row[..shift.len()];
            match x {
                X::Dense { cols, values, .. } => {
                    let values = &values[i * cols..(i + 1) * cols];
                    row.iter_mut().zip(values).zip(shift).for_each(|((o, v), s)| *o = v - s);
                }
                X::Csr { .. } => {
                    row.iter_mut().zip(shift).for_each(|(o, s)| *o = -s);
                    x.for_row(i, |j, v| row[j] = v - shift[j]);
                }
            }
        }
    }
}

/// Adds Σ_i r_i of each component to one place of its statistics.
fn add_counts(r: &[f64], k: usize, size: usize, place: usize, stats: &mut [f64]) {
    for row in r.chunks_exact(k) {
        row.iter().enumerate().for_each(|(c, r)| stats[c * size + place] += r);
    }
}
