//! What a fit is worth: the criteria by which structures are compared, computed once at the end of a job.
//!
//! | criterion | what it is |
//! |---|---|
//! | `elbo` | L, a lower bound on the log evidence |
//! | `elbo-sym` | L + ln Sym_eff: the bound of the mixture over relabelled copies of q (`symmetry.rs`), the default |
//! | `elbo-tight` | L with the bounds of the log-sum-exp replaced by sampled expectations (`tight.rs`) |
//! | `paper` | L − ln Sym, as published; the sign is wrong |
//! | `bic` | ln L̂ − ½k ln N + ln Sym at the maximum of the likelihood |
//! | `cv` | minus the mean log loss on held-out folds |
//!
//! Bounds compare structures only under the same `bound`, `covariance` and `precision`.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::expect::{Method, TreeExpect};
use super::layout::Layout;
use super::map::Objective;
use super::pass::{Ask, PanelView, Scratch, TreeStats, View};
use super::search::moves::parameters;
use super::symmetry;
use super::tree::{Child, Structure};
use super::vb::{State, Vb};
use crate::data::design::packed_len;
use crate::linalg::dot;
use crate::run::{Block, Rows, Sum};
use crate::{Error, Result};

/// Penalty of the maximum that BIC is taken at: next to none.
const ML_PENALTY: f64 = 1e-6;
/// Up to so many columns the leading axis of a component is that of its whole scatter, beyond them the column that varies most.
const FULL_SCATTER: usize = 512;

/// Names the draws of scores. All fits share them, so that the same fit scores the same and a search cannot go round in circles after noise.
const KEY: u64 = 0;

/// What decides between structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// L.
    Elbo,
    /// L + ln Sym_eff.
    ElboSym,
    /// L with sampled expectations.
    ElboTight,
    /// L − ln Sym.
    Paper,
    /// Bayesian information criterion, with + ln Sym.
    Bic,
    /// Minus the log loss of cross-validation.
    Cv,
}

impl Criterion {
    /// Whether it takes visits of its own.
    pub fn needs_rows(self) -> bool {
        matches!(self, Criterion::ElboTight | Criterion::Bic)
    }

    /// The word users write.
    pub fn word(self) -> &'static str {
        match self {
            Criterion::Elbo => "elbo",
            Criterion::ElboSym => "elbo-sym",
            Criterion::ElboTight => "elbo-tight",
            Criterion::Paper => "paper",
            Criterion::Bic => "bic",
            Criterion::Cv => "cv",
        }
    }
}

/// The direction in which the rows of a component vary most, in design columns without the bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Mean of its rows.
    pub mean: Vec<f64>,
    /// Unit vector.
    pub direction: Vec<f64>,
    /// Standard deviation along it.
    pub deviation: f64,
}

/// What rows that were left out say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Σ w ln p.
    pub ln_likelihood: f64,
    /// Σ w of the rows whose most probable class is wrong; squared errors for real outcomes.
    pub errors: f64,
    /// Σ w.
    pub weight: f64,
}

impl HeldOut {
    /// Two parts together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            ln_likelihood: self.ln_likelihood + other.ln_likelihood,
            errors: self.errors + other.errors,
            weight: self.weight + other.weight,
        }
    }
}

/// Everything that is known of a finished job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// L; `NaN` for a fit without one.
    pub elbo: f64,
    /// ln Sym.
    pub ln_symmetries: f64,
    /// ln Sym_eff, and whether it is exact up to sampling.
    pub ln_effective: f64,
    /// Whether `ln_effective` is a lower value of it only.
    pub effective_is_low: bool,
    /// The sampled bound and its standard error.
    pub tight: Option<(f64, f64)>,
    /// Maximum of the log likelihood, and BIC.
    pub bic: Option<(f64, f64)>,
    /// Total share of each subclass or expert.
    pub shares: Vec<f64>,
    /// Where each could be split.
    pub axes: Vec<Axis>,
    /// What held-out rows say.
    pub held_out: Option<HeldOut>,
}

impl Scores {
    /// The value of a criterion: larger is better.
    pub fn get(&self, criterion: Criterion) -> Option<f64> {
        let finite = |v: f64| v.is_finite().then_some(v);
        match criterion {
            Criterion::Elbo => finite(self.elbo),
            Criterion::ElboSym => finite(self.elbo + self.ln_effective),
            Criterion::ElboTight => self.tight.map(|t| t.0),
            Criterion::Paper => finite(self.elbo - self.ln_symmetries),
            Criterion::Bic => self.bic.map(|b| b.1),
            Criterion::Cv => self.held_out.map(|h| h.ln_likelihood / h.weight),
        }
    }
}

/// Which subclass or expert each leaf belongs to, and how many there are.
pub fn components(layout: &Layout, structure: &Structure) -> (Vec<usize>, usize) {
    let leaves = layout.leaves.len();
    match structure {
        Structure::Experts(1) => (vec![0; leaves], 1),
        Structure::Experts(count) => {
            let mut of = vec![0; leaves];
            for (expert, child) in layout.nodes[0].children.iter().enumerate() {
                let below = match child {
                    Child::Leaf(leaf) => vec![*leaf],
                    Child::Node(node) => layout.nodes[*node]
                        .children
                        .iter()
                        .filter_map(|c| if let Child::Leaf(leaf) = c { Some(*leaf) } else { None })
                        .collect(),
                };
                below.into_iter().for_each(|leaf| of[leaf] = expert);
            }
            (of, *count)
        }
        _ => ((0..leaves).collect(), leaves),
    }
}

impl Vb {
    /// Scores of a finished job.
    pub fn score(&self, state: &State, rows: &mut dyn Rows<Self>) -> Result<Scores> {
        let layout = self.layout(&state.tree);
        let mut scores = Scores {
            elbo: f64::NAN,
            ln_symmetries: state.tree.ln_symmetries(),
            ln_effective: 0.0,
            effective_is_low: false,
            tight: None,
            bic: None,
            shares: Vec::new(),
            axes: Vec::new(),
            held_out: None,
        };
        if let Some(q) = &state.q {
            let failed = |e: crate::linalg::NotPositiveDefinite| Error::Numerical {
                what: "the covariance of the weights",
                sweep: state.ascents,
                detail: e.to_string(),
            };
            scores.elbo = state.bound;
            let (of, count) = components(&layout, &state.job.structure);
            scores.shares = vec![0.0; count];
            of.iter().zip(&state.stats.shares.0).for_each(|(c, s)| scores.shares[*c] += s);
            if state.job.fold.is_none() {
                let found = symmetry::ln_effective(&layout, &state.tree, &q.nodes, &state.basis, KEY).map_err(failed)?;
                (scores.ln_effective, scores.effective_is_low) = (found.value, found.is_low);
            }
            let predicting = Layout::for_prediction(&state.tree, &self.shape, self.outcome, layout.dim);
            let moments = q.moments(&predicting, &state.basis, 1.0).map_err(failed)?;
            let tree = || Cow::Borrowed(&state.tree);
            if state.job.fold.is_none() && self.search.splits() && !matches!(state.job.structure, Structure::Gates(_)) {
                let view = q.view(&layout, &moments, &state.basis, 1.0, None);
                let stats = rows.all(&Ask::Scatter { tree: tree(), view })?;
                scores.axes = self.axes(&stats, count);
            }
            if state.job.score {
                let view = q.view(&predicting, &moments, &state.basis, 1.0, None);
                let stats = rows.all(&Ask::Tight { tree: tree(), view, key: KEY })?;
                // everything in L but the rows' part stays
                let rest = state.bound - self.rows_part(&layout, state, &moments);
                scores.tight = stats.shares.0.first().map(|square| (rest + stats.value.0, square.sqrt()));
            }
            if state.job.fold.is_some() {
                let view = q.view(&predicting, &moments, &state.basis, 1.0, state.job.fold);
                let stats = rows.all(&Ask::HeldOut { tree: tree(), view })?;
                scores.held_out = Some(HeldOut { ln_likelihood: stats.value.0, errors: stats.shares.0[0], weight: stats.shares.0[1] });
            }
        }
        if state.job.score {
            scores.bic = Some(self.bic(&layout, state, rows)?);
        }
        Ok(scores)
    }

    /// The rows' part of L: what the sampled expectation takes the place of.
    fn rows_part(&self, layout: &Layout, state: &State, moments: &super::vb::TreeMoments) -> f64 {
        let mut part = state.stats.value.0;
        if let Some((l, moments)) = layout.nodes.iter().zip(&moments.nodes).find(|(l, _)| l.forms == 0) {
            let curved: f64 = moments.forms.iter().zip(&state.root_curvature).map(|(f, c)| f * c).sum();
            part -= 0.5 * l.units as f64 * curved;
        }
        part
    }

    /// Maximum of the log likelihood and BIC.
    fn bic(&self, layout: &Layout, state: &State, rows: &mut dyn Rows<Self>) -> Result<(f64, f64)> {
        let objective = Objective { program: self, tree: &state.tree, fold: None, penalty: ML_PENALTY };
        let start = state.maximum.as_ref().map_or_else(|| parameters(self, state), |m| m.at.clone());
        let found = objective.search(rows, &start, 1000)?;
        let scale: f64 = self.y_scale.iter().map(|s| s.ln()).sum();
        let total: f64 = self.counts.iter().sum();
        let best = objective.ln_likelihood(rows, &found.x)? - total * scale;
        let dim = layout.dim;
        let free = layout.nodes.iter().map(|n| (n.width() - 1) * dim).sum::<usize>() + layout.gaussians() * layout.outputs * (dim + 1);
        Ok((best, best - 0.5 * free as f64 * total.ln() + state.tree.ln_symmetries()))
    }

    /// Shares of the rows of a block in each leaf's component, with sums of x̃ and x̃x̃ᵀ.
    pub(super) fn visit_scatter(&self, layout: &Layout, view: &View<'_>, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let structure =
            if self.search.splits_experts() { Structure::Experts(self.experts_of(layout)) } else { Structure::Subclasses(vec![]) };
        let (of, count) = components(layout, &structure);
        let full = layout.dim <= FULL_SCATTER;
        let len = if full { packed_len(layout.dim) } else { layout.dim };
        let mut stats = TreeStats {
            curvature: Sum(vec![0.0; count * len]),
            gradient: Sum(vec![0.0; count * layout.dim]),
            shares: Sum(vec![0.0; count]),
            ..TreeStats::default()
        };
        let mut shares = Vec::new();
        self.for_view(layout, view, block, scratch, |first, rows| {
            let n = rows.rows;
            shares.clear();
            shares.resize(n * count, 0.0);
            let mut panel = self.for_shares(layout, view, block, first, rows, |i, w, leaf| {
                of.iter().zip(leaf).for_each(|(c, p)| shares[i * count + c] += w * p);
            });
            for row in shares.chunks_exact(count) {
                stats.shares.0.iter_mut().zip(row).for_each(|(s, r)| *s += r);
            }
            panel.t_mul_add(&shares, count, &mut stats.gradient.0);
            if full {
                panel.weighted_grams_add(&shares, count, &mut stats.curvature.0);
            } else {
                panel.block_grams_add(1, &shares, count, &mut stats.curvature.0);
            }
        });
        stats
    }

    fn experts_of(&self, layout: &Layout) -> usize {
        match layout.root {
            Child::Leaf(_) => 1,
            Child::Node(_) if layout.nodes[0].own.is_some() => 1,
            Child::Node(_) => layout.nodes[0].width(),
        }
    }

    /// Leading axes from the sums of [`Vb::visit_scatter`].
    fn axes(&self, stats: &TreeStats, count: usize) -> Vec<Axis> {
        let dim = self.design.dim();
        let inputs = dim - usize::from(self.design.intercept);
        let len = stats.curvature.0.len() / count;
        (0..count)
            .map(|c| {
                let weight = stats.shares.0[c].max(f64::MIN_POSITIVE);
                let mean: Vec<f64> = stats.gradient.0[c * dim..c * dim + inputs].iter().map(|s| s / weight).collect();
                let sums = &stats.curvature.0[c * len..(c + 1) * len];
                let (direction, variance) = if len == packed_len(dim) && inputs > 0 {
                    let scatter: Vec<f64> = (0..inputs * inputs)
                        .map(|at| {
                            let (i, j) = (at / inputs, at % inputs);
                            sums[packed_len(i.max(j)) + i.min(j)] / weight - mean[i] * mean[j]
                        })
                        .collect();
                    leading(&scatter, inputs)
                } else {
                    widest(&(0..inputs).map(|j| sums[j] / weight - mean[j] * mean[j]).collect::<Vec<_>>())
                };
                Axis { mean, direction, deviation: variance.max(0.0).sqrt() }
            })
            .collect()
    }

    /// Log loss and errors of the rows of a fold.
    pub(super) fn visit_held_out(&self, layout: &Layout, view: &View<'_>, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let Some(fold) = view.fold else { return TreeStats::default() };
        let classes = self.counts.len();
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let mut expect = TreeExpect::new(layout, Method::Probit, 0);
        let mut p = vec![0.0; classes];
        let (mut ln_likelihood, mut errors, mut weight) = (0.0, 0.0, 0.0);
        let y = self.outcomes(block);
        self.for_view(layout, view, block, scratch, |first, rows| {
            let PanelView { rows: n, m, v, .. } = rows;
            for i in 0..n {
                if !fold.holds(block.first_row + (first + i) as u64) {
                    continue;
                }
                let w = self.weight(block, first + i, None);
                let (m, v) = (&m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
                weight += w;
                if layout.outputs == 0 {
                    expect.classes(layout, Method::Probit, m, v, &mut p, &mut []);
                    let class = block.y.classes()[first + i] as usize;
                    let best = p.iter().enumerate().fold(0, |best, (c, v)| if *v > p[best] { c } else { best });
                    ln_likelihood += w * p[class].max(f64::MIN_POSITIVE).ln();
                    errors += w * f64::from(best != class);
                } else {
                    let (density, error) = self.real_held_out(layout, view, &mut expect, m, v, |q| y.get(first + i, q));
                    ln_likelihood += w * density;
                    errors += w * error;
                }
            }
        });
        TreeStats { value: Sum(ln_likelihood), shares: Sum(vec![errors, weight]), ..TreeStats::default() }
    }

    /// Log density of the outcomes of a row under the mixture of leaves (noise at its mean precision), and the squared error of its mean.
    fn real_held_out(
        &self,
        layout: &Layout,
        view: &View<'_>,
        expect: &mut TreeExpect,
        m: &[f64],
        v: &mut [f64],
        y: impl Fn(usize) -> f64,
    ) -> (f64, f64) {
        let outputs = layout.outputs;
        let shares = expect.leaves(layout, Method::Probit, m, v).to_vec();
        let mut mean = vec![0.0; outputs];
        let mut terms = Vec::with_capacity(shares.len());
        for (leaf, share) in shares.iter().enumerate() {
            let mut term = share.ln();
            for q in 0..outputs {
                let precision = view.noise[layout.gaussians() + leaf * outputs + q] / (1.0 + v[layout.leaf_form() + leaf].max(0.0));
                let centre = m[layout.units + leaf * outputs + q];
                mean[q] += share * centre;
                term += 0.5 * (precision.ln() - (2.0 * std::f64::consts::PI).ln() - precision * (y(q) - centre).powi(2));
            }
            terms.push(term);
        }
        let scale: f64 = self.y_scale.iter().map(|s| s.ln()).sum();
        let error = (0..outputs).map(|q| ((y(q) - mean[q]) * self.y_scale[q]).powi(2)).sum();
        (crate::special::log_sum_exp(&terms) - scale, error)
    }
}

/// Leading eigenvector and eigenvalue of a symmetric matrix, by powers of it.
fn leading(a: &[f64], n: usize) -> (Vec<f64>, f64) {
    let diagonal: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    let (mut u, mut value) = widest(&diagonal);
    // not quite along a column, which may be an eigenvector itself
    u.iter_mut().enumerate().for_each(|(i, u)| *u += 1e-3 * (1.0 + i as f64).sqrt().fract() + 1e-3);
    for _ in 0..200 {
        let next: Vec<f64> = a.chunks_exact(n).map(|row| dot(row, &u)).collect();
        let length = dot(&next, &next).sqrt();
        if !length.is_finite() || length <= 0.0 {
            return (widest(&diagonal).0, value.max(0.0));
        }
        let moved: f64 = next.iter().zip(&u).map(|(n, u)| (n / length - u).abs()).fold(0.0, f64::max);
        u = next.iter().map(|v| v / length).collect();
        value = length;
        if moved < 1e-9 {
            break;
        }
    }
    (u, value)
}

/// The column that varies most.
fn widest(variances: &[f64]) -> (Vec<f64>, f64) {
    let best = variances.iter().enumerate().fold(0, |best, (i, v)| if *v > variances[best] { i } else { best });
    let mut u = vec![0.0; variances.len()];
    if let Some(entry) = u.get_mut(best) {
        *entry = 1.0;
    }
    (u, variances.get(best).copied().unwrap_or(0.0))
}
