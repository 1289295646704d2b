//! Gibbs sampling of softmax trees: draws from the exact posterior, no bound and no approximation.
//!
//! A sweep draws, given everything else and in this order:
//!
//! 1. the path of every row (of every trial of a row of weight b) from its exact posterior, with the log-sum-exp itself in `walk.rs`;
//! 2. the weights of each node, one unit i after the other: with C = ln Σ_{j≠i} exp z_j, rows at the node are logistic in z_i − C, so
//!    ω ~ PG(n, z_i − C) makes w_i Gaussian with precision P = A_i + Σ ω x̃x̃ᵀ and mean P⁻¹ Σ (n_i − n/2 + ωC) x̃, where n counts the
//!    trials of a row at the node, n_i those that chose child i, and A_i holds the prior precisions. The one unit of a logistic node has
//!    C = 0;
//! 3. the vector t that is added to all children of a node of full coding: no choice depends on it, so that by the prior alone
//!    t_j ~ N(−Σ_c α_cj w_cj / Σ_c α_cj, 1/Σ_c α_cj). One child after the other would take about 1 + Σ ω x² / α sweeps to forget it;
//! 4. the prior precisions α_g ~ Gamma(a₀ + |g|/2, b₀ + ½ Σ_g w²);
//! 5. of each Gaussian leaf (η, τ) from their normal-gamma distribution, then κ.
//!
//! Given the paths, nodes are independent: one visit serves unit k of every node, and the first one draws the paths too. So a sweep takes
//! as many visits as the widest node has units. The ω are never kept.
//!
//! Limits: components that may be exchanged for one another (subclasses of a class, experts) are visited in any order, and with many rows
//! a chain may stay in one order, or in one mode, for long: only what does not depend on the order is reported (`gibbs/posterior.rs`).
//! Weights of rows must be whole numbers: a row of weight 2 is two trials.

pub(super) mod check;
mod draw;
pub(super) mod fit;
mod mixture;
mod outcomes;
pub(super) mod posterior;
mod report;
#[cfg(test)]
mod tests;
mod tree_draws;

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::f64::consts::PI;

use super::bound::Bound;
use super::layout::{Layout, Shape, components};
use super::leaf::{LeafPrior, LeafStats};
use super::tree::{Child, Coding, Emission, Structure, Tree};
use super::walk::Walk;
use crate::data::Design;
use crate::data::design::{PanelScratch, packed_len, packed_rows};
use crate::dist::{Gamma, PolyaGamma, draw_from_shares};
use crate::linalg::dot;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Sum, Tick};
use crate::special::log_sum_exp;
use crate::{Error, Result, merge_fields};

/// A leaf that a node is not on the way to.
const NOWHERE: u32 = u32::MAX;
/// Log-odds whose square is still finite.
const LARGEST: f64 = 1e150;

/// The sampler of one tree.
#[derive(Debug, Clone)]
pub(crate) struct Gibbs {
    /// From raw rows to design rows.
    pub(crate) design: Design,
    /// The tree.
    pub(crate) tree: Tree,
    /// The tree in vectors, with the priors of its nodes.
    pub(crate) layout: Layout,
    /// Prior of Gaussian leaves.
    pub(crate) leaf: LeafPrior,
    /// Mean of each real outcome.
    pub(crate) y_mean: Vec<f64>,
    /// Standard deviation of each real outcome.
    pub(crate) y_scale: Vec<f64>,
    /// Component (subclass, expert, leaf) that each leaf belongs to, and their number.
    pub(crate) components: (Vec<usize>, usize),
    /// Shape and rate of the prior of precisions.
    gamma: (f64, f64),
    /// For each leaf and node, the place of the child that leads to the leaf.
    route: Vec<u32>,
}

impl Gibbs {
    /// The sampler of a structure; `shape` says the prior of its nodes.
    pub(crate) fn new(design: Design, structure: &Structure, outcome: Emission, binary: Coding, shape: &Shape, leaf: LeafPrior) -> Self {
        let tree = structure.tree(outcome, binary);
        // one unit a child: without a bound there is nothing to gain by another coding
        let shape = Shape { bound: Bound::Tilted, covariance: None, ..shape.clone() };
        let layout = Layout::new(&tree, &shape, outcome, design.dim());
        let mut route = vec![NOWHERE; layout.leaves.len() * layout.nodes.len()];
        for (v, node) in layout.nodes.iter().enumerate() {
            for (place, child) in node.children.iter().enumerate() {
                for below in tree.leaves_below(*child) {
                    route[below * layout.nodes.len() + v] = place as u32;
                }
            }
        }
        let components = components(&layout, structure);
        let (y_mean, y_scale) = (vec![0.0; layout.outputs], vec![1.0; layout.outputs]);
        Self { design, tree, layout, leaf, y_mean, y_scale, components, gamma: shape.gamma, route }
    }

    /// Visits of a sweep.
    fn turns(&self) -> usize {
        self.layout.nodes.iter().map(|n| n.units).max().unwrap_or(1)
    }

    /// Nodes that have a unit of this number.
    fn active(&self, turn: usize) -> Vec<usize> {
        (0..self.layout.nodes.len()).filter(|v| self.layout.nodes[*v].units > turn).collect()
    }

    /// Log prior density of a point.
    fn ln_prior(&self, point: &Point) -> f64 {
        let (layout, dim) = (&self.layout, self.layout.dim);
        let mut sum = 0.0;
        let mut alpha = &point.alpha[..];
        for node in &layout.nodes {
            let (own, rest) = alpha.split_at(node.prior.groups());
            alpha = rest;
            sum += node.prior.ln_density(own, &point.vectors[node.at_weights(dim)]);
        }
        let gamma = |(shape, rate): (f64, f64), x: f64| Gamma::new(shape, rate).map_or(f64::NAN, |g| g.ln_pdf(x));
        for leaf in 0..layout.gaussians() {
            let kappa = point.slope[leaf];
            for q in leaf * layout.outputs..(leaf + 1) * layout.outputs {
                let (eta, tau) = (&point.vectors[(layout.units + q) * dim..][..dim], point.noise[q]);
                sum += gamma(self.leaf.noise, tau);
                sum += 0.5 * (dim as f64 * ((tau * kappa).ln() - (2.0 * PI).ln()) - tau * kappa * dot(eta, eta));
            }
            if self.leaf.fixed_slope.is_none() {
                sum += gamma(self.leaf.slope, kappa);
            }
        }
        sum
    }

    /// Fills in the walk of a row from its products with all vectors and the residuals of its leaves: the exact log-sum-exps, and log
    /// densities of leaves. `outcome` gives the standardised outcome q; not called for classes.
    fn ready(&self, m: &[f64], noise: &[f64], outcome: impl Fn(usize) -> f64, residual: &mut [f64], walk: &mut Walk) {
        let layout = &self.layout;
        for (v, node) in layout.nodes.iter().enumerate() {
            let z = &mut walk.z[node.at_logits()];
            node.logits_of(&m[node.at_units()], z);
            walk.phi[v] = log_sum_exp(z);
        }
        let outputs = layout.outputs;
        for leaf in 0..layout.gaussians() {
            let mut density = 0.0;
            for q in 0..outputs {
                let at = leaf * outputs + q;
                residual[at] = outcome(q) - m[layout.units + at];
                density += 0.5 * (noise[at].ln() - (2.0 * PI).ln() - noise[at] * residual[at] * residual[at]);
            }
            walk.density[leaf] = density;
        }
    }
}

/// All parameters of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Units of all nodes, then η of each Gaussian leaf and output, one a row.
    pub(crate) vectors: Vec<f64>,
    /// α of each group, node after node.
    pub(crate) alpha: Vec<f64>,
    /// τ of each Gaussian leaf and output.
    pub(crate) noise: Vec<f64>,
    /// κ of each Gaussian leaf.
    pub(crate) slope: Vec<f64>,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The parameters now.
    pub(crate) now: Point,
    /// Those that the last sweep started from: what follows belongs to them, and they are what is kept as a draw.
    pub(crate) visited: Point,
    /// Log joint density of parameters and outcomes, paths summed out.
    pub(crate) log_joint: f64,
    /// Log likelihood, in the user's units of real outcomes.
    pub(crate) log_likelihood: f64,
    /// Expected share of each component in the rows.
    pub(crate) shares: Vec<f64>,
    /// Components that some row's path led to.
    pub(crate) used: u32,
}

impl State {
    /// A state at this point, not yet visited.
    pub(crate) fn at(point: Point) -> Self {
        Self { visited: point.clone(), now: point, log_joint: f64::NAN, log_likelihood: f64::NAN, shares: Vec::new(), used: 0 }
    }
}

/// What the rows are told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask<'a> {
    /// All vectors.
    vectors: Cow<'a, [f64]>,
    /// τ of each Gaussian leaf and output.
    noise: Cow<'a, [f64]>,
    /// Number of the unit of each node that is to be drawn; the first visit draws the paths too.
    turn: usize,
}

/// What the rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Σ ω x̃x̃ᵀ of each node that takes part, then Σ x̃x̃ᵀ over the rows of each Gaussian leaf; packed.
    grams: Sum<Vec<f64>>,
    /// Σ (n_i − n/2 + ωC) x̃ of each node, then Σ e x̃ of each Gaussian leaf and output, e the residual at the old η.
    linear: Sum<Vec<f64>>,
    /// Log likelihood of the parameters asked about.
    log_likelihood: Sum<f64>,
    /// Expected number of trials of each leaf.
    shares: Sum<Vec<f64>>,
    /// Number of trials whose path led to each leaf.
    counts: Sum<Vec<f64>>,
    /// Σ e² of each Gaussian leaf and output.
    squares: Sum<Vec<f64>>,
}
merge_fields!(Stats, grams, linear, log_likelihood, shares, counts, squares);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    panel: PanelScratch,
    m: Vec<f64>,
    grams: Vec<f64>,
    linear: Vec<f64>,
    residual: Vec<f64>,
    tally: Vec<f64>,
    walk: Walk,
}

impl Program for Gibbs {
    const NAME: &'static str = "softmax/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    /// The leaf that each trial's path leads to; a row has as many trials as its weight.
    type Local = Vec<u32>;
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    /// Chains start apart from each other, no further out than the prior: precisions at their prior mean (within 10⁻³ … 10³), weights of
    /// nodes normal with a standard deviation of at most 1. Experts start alike, with slopes of zero and the noise of the outcomes: their
    /// first rows are those that the gates give them.
    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let mut rng = stream.rng();
        let layout = &self.layout;
        let mean = |(shape, rate): (f64, f64)| (shape / rate).clamp(1e-3, 1e3);
        let mut point = Point {
            vectors: Vec::with_capacity(layout.vectors() * layout.dim),
            alpha: Vec::new(),
            noise: vec![1.0; layout.gaussians() * layout.outputs],
            slope: vec![self.leaf.fixed_slope.unwrap_or(mean(self.leaf.slope)); layout.gaussians()],
        };
        for node in &layout.nodes {
            let alpha = vec![mean(self.gamma); node.prior.groups()];
            point.vectors.extend(node.prior.spread(&alpha).iter().map(|a| {
                let z: f64 = StandardNormal.sample(&mut rng);
                z / a.max(1.0).sqrt()
            }));
            point.alpha.extend(alpha);
        }
        point.vectors.resize(layout.vectors() * layout.dim, 0.0);
        Ok(State::at(point))
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Vec<u32> {
        Vec::new()
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let (layout, dim) = (&self.layout, self.layout.dim);
        let (len, outputs) = (packed_len(dim), layout.outputs);
        let mut rng = tick.stream.rng();
        let visited = state.now.clone();
        let point = &mut state.now;
        for turn in 0..self.turns() {
            let ask = Ask { vectors: Cow::Borrowed(&point.vectors), noise: Cow::Borrowed(&point.noise), turn };
            let mut stats = rows.all(&ask)?;
            let active = self.active(turn);
            for (k, &v) in active.iter().enumerate() {
                let node = &layout.nodes[v];
                let before: usize = layout.nodes[..v].iter().map(|n| n.prior.groups()).sum();
                let prior = node.prior.spread(&point.alpha[before..before + node.prior.groups()]);
                let linear = &mut stats.linear.0[k * dim..(k + 1) * dim];
                self.draw_unit(&prior[turn * dim..(turn + 1) * dim], &stats.grams.0[k * len..(k + 1) * len], linear, tick, &mut rng)?;
                point.vectors[(node.first_unit + turn) * dim..][..dim].copy_from_slice(linear);
            }
            if turn > 0 {
                continue;
            }
            for leaf in 0..layout.gaussians() {
                let reported = LeafStats {
                    weight: stats.counts.0[leaf],
                    gram: &stats.grams.0[(active.len() + leaf) * len..][..len],
                    gradient: &stats.linear.0[(active.len() + leaf * outputs) * dim..][..outputs * dim],
                    squares: &stats.squares.0[leaf * outputs..(leaf + 1) * outputs],
                };
                self.draw_leaf(leaf, point, reported, tick, &mut rng)?;
            }
            state.log_likelihood = stats.log_likelihood.0;
            let (of, count) = &self.components;
            let total: f64 = stats.counts.0.iter().sum();
            let mut used = vec![0.0; *count];
            state.shares = vec![0.0; *count];
            for (leaf, component) in of.iter().enumerate() {
                state.shares[*component] += stats.shares.0[leaf] / total;
                used[*component] += stats.counts.0[leaf];
            }
            state.used = used.iter().filter(|n| **n > 0.0).count() as u32;
        }
        self.draw_shifts(point, &mut rng);
        self.draw_precisions(point, &mut rng)?;
        state.log_joint = state.log_likelihood + self.ln_prior(&visited);
        state.visited = visited;
        if !state.log_joint.is_finite() {
            let detail = "the log density is not finite; standardise the columns, or raise the prior precision".into();
            return Err(Error::Numerical { what: "the sampler", sweep: tick.sweep, detail });
        }
        Ok(Report { objective: state.log_joint, components: state.used, ..Report::default() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Vec<u32>, scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let (layout, nodes) = (&self.layout, self.layout.nodes.len());
        let (vectors, outputs, leaves) = (layout.vectors(), layout.outputs, layout.leaves.len());
        let first_turn = ask.turn == 0;
        let active = self.active(ask.turn);
        let gaussians = if first_turn { layout.gaussians() } else { 0 };
        let (of_grams, of_linear) = (active.len() + gaussians, active.len() + gaussians * outputs);
        let mut stats = Stats { grams: Sum(vec![0.0; of_grams * packed_len(layout.dim)]), ..Stats::default() };
        stats.linear.0 = vec![0.0; of_linear * layout.dim];
        if first_turn {
            (stats.shares.0, stats.counts.0, stats.squares.0) = (vec![0.0; leaves], vec![0.0; leaves], vec![0.0; gaussians * outputs]);
            local.clear();
        }
        let Scratch { panel: buffers, m, grams, linear, residual, tally, walk } = scratch;
        walk.resize(layout);
        residual.resize(layout.gaussians() * outputs, 0.0);
        tally.resize(leaves, 0.0);
        let (classes, real) = (block.y.classes(), block.y.real());
        let ln_scale: f64 = self.y_scale.iter().map(|s| s.ln()).sum();
        let mut rng = stream.rng();
        let (mut first, mut trial) = (0, 0);
        let height = packed_rows(layout.dim, of_grams);
        while first < block.rows() {
            let n = height.min(block.rows() - first);
            m.resize(n * vectors, f64::NAN);
            for (buffer, width) in [(&mut *grams, of_grams), (&mut *linear, of_linear)] {
                buffer.clear();
                buffer.resize(n * width, 0.0);
            }
            let mut panel = self.design.panel(block.x.slice(first..first + n), buffers);
            panel.mul_t(&ask.vectors, vectors, m);
            for i in 0..n {
                let row = first + i;
                let trials = block.weight(row) as usize;
                if trials == 0 {
                    continue;
                }
                let outcome = |q: usize| (real[row * outputs + q] - self.y_mean[q]) / self.y_scale[q];
                self.ready(&m[i * vectors..(i + 1) * vectors], &ask.noise, outcome, residual, walk);
                let class = classes.get(row).copied().unwrap_or(0);
                if first_turn {
                    let value = walk.up(layout, class, 1.0);
                    if !value.is_finite() {
                        return Err(too_large(block, row));
                    }
                    walk.down(layout, class, 1.0);
                    stats.log_likelihood.0 += trials as f64 * (value - ln_scale);
                    stats.shares.0.iter_mut().zip(&walk.leaf).for_each(|(s, share)| *s += trials as f64 * share);
                    local.extend((0..trials).map(|_| draw_from_shares(walk.leaf.iter().copied(), &mut rng) as u32));
                }
                tally.fill(0.0);
                local[trial..trial + trials].iter().for_each(|leaf| tally[*leaf as usize] += 1.0);
                trial += trials;
                for (k, &v) in active.iter().enumerate() {
                    let (mut at, mut chosen) = (0.0, 0.0);
                    for (leaf, count) in tally.iter().enumerate().filter(|(_, c)| **c > 0.0) {
                        let place = self.route[leaf * nodes + v];
                        at += if place == NOWHERE { 0.0 } else { *count };
                        chosen += if place == ask.turn as u32 { *count } else { 0.0 };
                    }
                    if at > 0.0 {
                        let node = &layout.nodes[v];
                        let others = rest(&walk.z[node.at_logits()], ask.turn);
                        let psi = walk.z[node.first_logit + ask.turn] - others;
                        if psi.is_nan() || psi.abs() > LARGEST {
                            return Err(too_large(block, row));
                        }
                        let omega =
                            if at == 1.0 { PolyaGamma::draw_1(psi, &mut rng) } else { PolyaGamma::new(at as u32, psi)?.sample(&mut rng) };
                        grams[i * of_grams + k] = omega;
                        linear[i * of_linear + k] = chosen - 0.5 * at + omega * others;
                    }
                }
                for leaf in 0..gaussians {
                    grams[i * of_grams + active.len() + leaf] = tally[leaf];
                    for q in leaf * outputs..(leaf + 1) * outputs {
                        linear[i * of_linear + active.len() + q] = tally[leaf] * residual[q];
                        stats.squares.0[q] += tally[leaf] * residual[q] * residual[q];
                    }
                }
                if first_turn {
                    stats.counts.0.iter_mut().zip(tally.iter()).for_each(|(c, t)| *c += t);
                }
            }
            panel.weighted_grams_add(grams, of_grams, &mut stats.grams.0);
            panel.t_mul_add(linear, of_linear, &mut stats.linear.0);
            first += n;
        }
        Ok(stats)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        let (point, units) = (&state.visited, self.layout.units * self.layout.dim);
        out.scalar("log_joint", state.log_joint);
        out.scalar("log_likelihood", state.log_likelihood);
        out.scalar("components", f64::from(state.used));
        out.vector("shares", &state.shares);
        let vectors = [
            ("weights", &point.vectors[..units]),
            ("alpha", &point.alpha),
            ("expert_weights", &point.vectors[units..]),
            ("noise_precision", &point.noise),
            ("slope_precision", &point.slope),
        ];
        for (name, values) in vectors.into_iter().filter(|(_, v)| !v.is_empty()) {
            out.vector(name, values);
        }
    }
}

fn too_large(block: &Block<'_>, row: usize) -> Error {
    let number = block.first_row + row as u64 + 1;
    Error::Unfit(format!("row {number}: its values are too large to compute with; standardise the columns, or raise the prior precision"))
}

/// ln Σ_{j≠i} exp z_j.
fn rest(z: &[f64], i: usize) -> f64 {
    let others = || z.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, z)| *z);
    let top = others().fold(f64::NEG_INFINITY, f64::max);
    if z.len() == 2 { top } else { top + others().map(|z| (z - top).exp()).sum::<f64>().ln() }
}
