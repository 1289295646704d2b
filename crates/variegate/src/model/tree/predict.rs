//! New rows: where they would join the tree, and how likely they are.
//!
//! In a draw, with all N rows counted, a new row x joins leaf y with weight `exp(lp(y)) g_y(x)` and opens a new branch below an inner
//! node z with `exp(lp(z)) alpha/(N_z + alpha) g_z(x)`, `lp` the log probability to come by under the prior and
//! `g_z = sum_k beta_zk f_k(x) + beta_z* f*(x)`. Under a margin the weight is multiplied by what the row itself would be charged, a new
//! node having a score drawn once for the draw and its parent.
//!
//! Over draws, weights are averaged as they are and normalised last, so a draw counts in proportion to its density of x. Normalised draw by
//! draw they would describe the tree given the training rows alone.

mod batch;

pub(crate) use batch::{Batch, Separated};

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::components::{Kernel, Prepared};
use super::draws::Draw;
use super::margin::{Calibration, Margin, Penalty};
use crate::linalg::dot;
use crate::special::log_sum_exp;

/// A draw, made ready for new rows.
pub(crate) struct Frame<'a> {
    draw: &'a Draw,
    kernel: Kernel,
    /// Of an atom that no row has.
    fresh: Prepared,
    /// Log weight of each node as a place for a row, but for the densities.
    ln_prior: Vec<f64>,
    children: Vec<Vec<usize>>,
    depth: usize,
}

/// What the margin adds for new rows.
pub(crate) struct NewMargin<'a> {
    /// Its settings.
    pub(crate) margin: Margin,
    /// Tables of r, under the calibrated target.
    pub(crate) calibration: Option<&'a Calibration>,
    /// Scores of a new node below each node of the draw, one after the other: see [`Frame::draw_branches`].
    pub(crate) branches: &'a [f64],
    /// Features of the new row.
    pub(crate) phi: &'a [f64],
}

impl<'a> Frame<'a> {
    /// The draw with the kernel of the fit, which takes on what the draw says of it.
    pub(crate) fn new(draw: &'a Draw, kernel: &Kernel) -> Self {
        let mut kernel = kernel.clone();
        if draw.figures.shared > 0.0 {
            kernel.set_shared(draw.figures.shared);
        }
        let (nodes, depth) = (draw.nodes(), draw.concentrations.alpha.len());
        let mut rows = vec![0.0f64; nodes];
        draw.leaf.iter().for_each(|&leaf| rows[leaf as usize] += 1.0);
        let mut children = vec![Vec::new(); nodes];
        for z in (1..nodes).rev() {
            rows[draw.parent[z] as usize] += rows[z];
            children[draw.parent[z] as usize].push(z);
        }
        let alpha = |z: usize| draw.concentrations.alpha.get(draw.level[z] as usize).copied();
        let mut ln_reach = vec![0.0; nodes];
        // parents come before their children
        for z in 1..nodes {
            let p = draw.parent[z] as usize;
            ln_reach[z] = ln_reach[p] + rows[z].ln() - (rows[p] + alpha(p).unwrap_or(0.0)).ln();
        }
        let ln_new = |z: usize| alpha(z).map_or(0.0, |a| (a / (rows[z] + a)).ln());
        let ln_prior = (0..nodes).map(|z| ln_reach[z] + ln_new(z)).collect();
        let fresh = kernel.prepare(&vec![0.0; kernel.statistics()]);
        Self { draw, kernel, fresh, ln_prior, children, depth }
    }

    /// Scores of a new node below each node, from their prior. The stream is to depend on the fit and the draw, not on the row.
    pub(crate) fn draw_branches<R: Rng + ?Sized>(&self, margin: &Margin, width: usize, rng: &mut R) -> Vec<f64> {
        let draw = |_| {
            let z: f64 = StandardNormal.sample(rng);
            margin.spread * z
        };
        (0..self.draw.nodes() * width).map(draw).collect()
    }

    /// Log densities of the row: of a new atom, then of each atom.
    fn ln_densities(&self, row: &[f64]) -> Vec<f64> {
        let width = self.kernel.parameters();
        let mut ln_f = vec![self.kernel.ln_predictive_prepared(&self.fresh, row)];
        ln_f.extend((0..self.draw.atoms).map(|k| self.kernel.ln_density(&self.draw.theta[k * width..][..width], row)));
        ln_f
    }

    /// Log weights of all nodes as places for the row: a leaf takes it, an inner node opens a branch for it.
    pub(crate) fn ln_weights(&self, row: &[f64], margin: Option<&NewMargin<'_>>) -> Vec<f64> {
        let ln_f = self.ln_densities(row);
        let top = ln_f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            return vec![f64::NEG_INFINITY; self.draw.nodes()];
        }
        let f: Vec<f64> = ln_f.iter().map(|l| (l - top).exp()).collect();
        let mut weights: Vec<f64> =
            (0..self.draw.nodes()).map(|z| self.ln_prior[z] + top + dot(self.draw.weights_of(z), &f).ln()).collect();
        if let Some(margin) = margin {
            weights.iter_mut().zip(self.ln_charges(margin)).for_each(|(w, c)| *w += c);
        }
        weights
    }

    /// Log charge of the row alone at each place.
    fn ln_charges(&self, new: &NewMargin<'_>) -> Vec<f64> {
        let (width, nodes, margin) = (new.phi.len(), self.draw.nodes(), &new.margin);
        let score = |of: &[f64], z: usize| dot(&of[z * width..][..width], new.phi);
        let scores: Vec<f64> = (0..nodes).map(|z| score(&self.draw.eta, z)).collect();
        let against = |own: f64, others: &mut dyn Iterator<Item = usize>, so_far: f64| {
            others.fold(so_far, |sum, u| {
                let rho = margin.margin - own + scores[u];
                if margin.penalty == Penalty::Max { sum.max(rho) } else { sum + rho.max(0.0) }
            })
        };
        let norm = dot(new.phi, new.phi).sqrt();
        let mut violation = vec![0.0; nodes];
        let mut siblings = vec![0; nodes * self.depth];
        let mut out = Vec::with_capacity(nodes);
        for z in 0..nodes {
            let level = self.draw.level[z] as usize;
            if z > 0 {
                let p = self.draw.parent[z] as usize;
                violation[z] = against(scores[z], &mut self.children[p].iter().copied().filter(|&u| u != z), violation[p]);
                siblings.copy_within(p * self.depth..(p + 1) * self.depth, z * self.depth);
                siblings[z * self.depth + level - 1] = self.children[p].len() - 1;
            }
            let mut charged = violation[z];
            let mut own = siblings[z * self.depth..(z + 1) * self.depth].to_vec();
            if level < self.depth {
                charged = against(score(new.branches, z), &mut self.children[z].iter().copied(), charged);
                own[level] = self.children[z].len();
            }
            out.push(-2.0 * margin.separation * charged - new.calibration.map_or(0.0, |c| c.ln_r_new(norm, &own)));
        }
        out
    }

    /// Weights that go through each node, from those of the places.
    fn through(&self, weights: &[f64]) -> Vec<f64> {
        let mut sums = weights.to_vec();
        for z in (1..sums.len()).rev() {
            sums[self.draw.parent[z] as usize] += sums[z];
        }
        sums
    }

    /// Node of each training row at each level.
    fn labels(&self) -> Vec<u32> {
        self.draw.labels()
    }
}

/// Shares that are averaged over draws, each draw counting by its density of the row.
struct Averages {
    /// Log of the largest density so far, and sums relative to it.
    top: f64,
    total: f64,
    draws: f64,
    sums: Vec<f64>,
}

impl Averages {
    fn new(size: usize) -> Self {
        Self { top: f64::NEG_INFINITY, total: 0.0, draws: 0.0, sums: vec![0.0; size] }
    }

    /// A draw with its log density, and its shares.
    fn add(&mut self, ln_density: f64, shares: impl Iterator<Item = f64>) {
        self.draws += 1.0;
        if ln_density == f64::NEG_INFINITY {
            return;
        }
        if ln_density > self.top {
            let shrink = (self.top - ln_density).exp();
            self.total *= shrink;
            self.sums.iter_mut().for_each(|s| *s *= shrink);
            self.top = ln_density;
        }
        let weight = (ln_density - self.top).exp();
        self.total += weight;
        self.sums.iter_mut().zip(shares).for_each(|(s, share)| *s += weight * share);
    }

    #[cfg(test)]
    fn ln_mean(&self) -> f64 {
        self.top + (self.total / self.draws).ln()
    }

    /// NaN where no draw gives the row any density.
    fn shares(self) -> Vec<f64> {
        self.sums.into_iter().map(|s| s / self.total).collect()
    }
}

/// Log weights of a draw as their log sum, and shares of it.
fn shared(ln_weights: &[f64]) -> (f64, Vec<f64>) {
    let total = log_sum_exp(ln_weights);
    (total, ln_weights.iter().map(|w| if total == f64::NEG_INFINITY { 0.0 } else { (w - total).exp() }).collect())
}

/// Log posterior predictive density of a row; the margin has no part in it.
#[cfg(test)]
pub(crate) fn ln_predictive(frames: &[Frame<'_>], row: &[f64]) -> f64 {
    let mut mean = Averages::new(0);
    frames.iter().for_each(|frame| mean.add(log_sum_exp(&frame.ln_weights(row, None)), std::iter::empty()));
    mean.ln_mean()
}

/// Probabilities that the row shares its node with each training row, training row by training row one for each level. `margins` has
/// one entry a draw, or none.
#[cfg(test)]
pub(crate) fn co_occurrence(frames: &[Frame<'_>], row: &[f64], margins: Option<&[NewMargin<'_>]>) -> Vec<f64> {
    let size = frames.first().map_or(0, |f| f.draw.leaf.len() * f.depth);
    let mut mean = Averages::new(size);
    for (i, frame) in frames.iter().enumerate() {
        let (total, shares) = shared(&frame.ln_weights(row, margins.map(|m| &m[i])));
        let through = frame.through(&shares);
        mean.add(total, frame.labels().into_iter().map(|z| through[z as usize]));
    }
    mean.shares()
}

/// Probabilities on one tree that all draws share (numbers of nodes are then the same): that the row passes through each node, then
/// that it opens a new branch below each node (0 for leaves).
#[cfg(test)]
pub(crate) fn node_probabilities(frames: &[Frame<'_>], row: &[f64], margins: Option<&[NewMargin<'_>]>) -> (Vec<f64>, Vec<f64>) {
    let nodes = frames.first().map_or(0, |f| f.draw.nodes());
    debug_assert!(frames.iter().all(|f| f.draw.parent == frames[0].draw.parent), "draws of one tree");
    let mut mean = Averages::new(2 * nodes);
    for (i, frame) in frames.iter().enumerate() {
        let (total, shares) = shared(&frame.ln_weights(row, margins.map(|m| &m[i])));
        let new = (0..nodes).map(|z| if (frame.draw.level[z] as usize) < frame.depth { shares[z] } else { 0.0 });
        mean.add(total, frame.through(&shares).into_iter().chain(new));
    }
    let mut all = mean.shares();
    let new = all.split_off(nodes);
    (all, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::testing::rng;
    use crate::model::tree::draws::Figures;
    use crate::model::tree::sampler::tests::{concentrations, known};
    use crate::model::tree::sampler::{Rules, Sampler};
    use crate::model::tree::state::State;
    use crate::run::{Philox, Purpose, Stream};

    const X: [f64; 3] = [-1.5, -1.2, 1.0];

    fn stream(seed: u64) -> Philox {
        Stream::new(seed, 0, Purpose::Score).rng()
    }

    pub(super) fn posterior_draws(n: usize) -> (Kernel, Vec<Draw>) {
        let kernel = known(&X, 1, 0.5, 4.0);
        let state = State::new(2, 3, None, concentrations(2, 0.7, 1.3, 0.9));
        let mut sampler = Sampler::new(&X, 1, kernel.clone(), Rules::default(), state);
        let mut rng = stream(81);
        sampler.start(&mut rng).unwrap();
        sampler.draw_weights(&mut rng);
        let mut draws = Vec::with_capacity(n);
        for _ in 0..n {
            sampler.sweep(&mut rng).unwrap();
            draws.push(Draw::of(&sampler.state, Figures { shared: f64::NAN, ..Figures::default() }));
        }
        (kernel, draws)
    }

    /// Densities and co-occurrences of new rows that are known from all trees; 8 comparisons by 40 batches, false alarm 5e-4 at 4.5.
    #[test]
    fn known_predictions() {
        const BATCHES: usize = 40;
        const EACH: usize = 1000;
        let (kernel, draws) = posterior_draws(BATCHES * EACH);
        let mut means = vec![Vec::new(); 8];
        for batch in draws.chunks_exact(EACH) {
            let frames: Vec<Frame<'_>> = batch.iter().map(|d| Frame::new(d, &kernel)).collect();
            means[0].push(ln_predictive(&frames, &[0.5]).exp());
            means[1].push(ln_predictive(&frames, &[4.0]).exp());
            let shared = co_occurrence(&frames, &[4.0], None);
            (0..6).for_each(|i| means[2 + i].push(shared[i]));
        }
        // row by row, level 1 and level 2
        let want = [0.188711, 0.004291, 0.34575, 0.15138, 0.34648, 0.15183, 0.37100, 0.17782];
        for (i, (values, want)) in means.iter().zip(want).enumerate() {
            let mean = values.iter().sum::<f64>() / BATCHES as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
            let error = (variance / BATCHES as f64).sqrt();
            assert!(((mean - want) / error).abs() < 4.5, "{i}: {mean} +- {error}, not {want}");
            assert!(error < 0.05 * want, "{i}: {error}");
        }
    }

    /// The predictive density integrates to 1, and shares of places add up.
    #[test]
    fn densities_and_shares_add_up() {
        let (kernel, draws) = posterior_draws(20);
        let frames: Vec<Frame<'_>> = draws.iter().map(|d| Frame::new(d, &kernel)).collect();
        let density = |x: f64| ln_predictive(&frames, &[x]).exp();
        let total: f64 = (-40..40).map(|i| crate::dist::quadrature::integrate(&density, 0.5 * f64::from(i), 0.5 * f64::from(i + 1))).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let one = std::slice::from_ref(&frames[7]);
        let (through, new) = node_probabilities(one, &[0.3], None);
        assert!((through[0] - 1.0).abs() < 1e-12);
        for z in 0..through.len() {
            let below: f64 = one[0].children[z].iter().map(|&y| through[y]).sum();
            if !one[0].children[z].is_empty() {
                assert!((through[z] - below - new[z]).abs() < 1e-12);
            }
        }
        let shared = co_occurrence(one, &[0.3], None);
        let labels = draws[7].labels();
        labels.iter().zip(&shared).for_each(|(z, p)| assert!((through[*z as usize] - p).abs() < 1e-12));
        // shares of a row that no draw can have
        let nothing = Averages::new(1).shares();
        assert!(nothing[0].is_nan());
    }

    /// What all atoms share is the draw's own: in the densities of atoms, and of a new one.
    #[test]
    fn a_draw_has_its_own_variance() {
        use crate::model::tree::components::{Family, Matrix, Prior};
        let prior =
            Prior { mean: Some(vec![0.0]), mean_covariance: Some(Matrix::Multiple(4.0)), variance_rate: Some(1.0), ..Prior::default() };
        let kernel = crate::model::tree::sampler::tests::bind(Family::GaussianTied, &prior, &X, 1);
        let (_, mut draws) = posterior_draws(1);
        draws[0].figures.shared = 0.3;
        let found = Frame::new(&draws[0], &kernel).ln_densities(&[0.7]);
        let normal = |mean: f64, variance: f64| -0.5 * ((std::f64::consts::TAU * variance).ln() + (0.7 - mean).powi(2) / variance);
        assert!((found[0] - normal(0.0, 4.3)).abs() < 1e-12, "{found:?}");
        let atoms = draws[0].theta.iter().zip(&found[1..]);
        atoms.for_each(|(mean, found)| assert!((found - normal(*mean, 0.3)).abs() < 1e-12, "{found}"));
    }

    /// The margin's part of a place is what the row is charged when it is put there: the tree is built with it and charged as any other.
    #[test]
    fn the_margin_of_a_new_row() {
        use crate::model::tree::arena::Arena;
        let (kernel, mut draws) = posterior_draws(30);
        for (d, draw) in draws.iter_mut().enumerate() {
            let mut rng = rng(d as u64);
            draw.eta = (0..2 * draw.nodes()).map(|_| StandardNormal.sample(&mut rng)).collect();
            let frame = Frame::new(draw, &kernel);
            for penalty in [Penalty::Max, Penalty::Sum] {
                let margin = Margin { separation: 0.3, margin: 0.8, spread: 1.0, penalty };
                let calibration = (penalty == Penalty::Max).then(|| Calibration::new(&margin, &[0.5, 1.0]).unwrap());
                let (phi, branches) = ([0.6, -0.8], frame.draw_branches(&margin, 2, &mut rng));
                let new = NewMargin { margin, calibration: calibration.as_ref(), branches: &branches, phi: &phi };
                let (with, without) = (frame.ln_weights(&[0.2], Some(&new)), frame.ln_weights(&[0.2], None));
                let labels: Vec<usize> = draw.labels().into_iter().map(|z| z as usize).collect();
                for z in 0..draw.nodes() {
                    // the row's own path: nodes of the draw down to z, then new ones
                    let mut path = vec![draw.nodes(); 2];
                    let mut at = z;
                    while at > 0 {
                        path[draw.level[at] as usize - 1] = at;
                        at = draw.parent[at] as usize;
                    }
                    let mut all = labels.clone();
                    all.extend(&path);
                    let (arena, leaves) = Arena::from_labels(2, &all);
                    let mut eta = vec![0.0; 2 * arena.slots()];
                    for (n, &leaf) in leaves.iter().enumerate() {
                        for level in 1..=2 {
                            let (node, label) = (arena.ancestor(leaf, level) as usize, all[2 * n + level - 1]);
                            let from = if label < draw.nodes() { &draw.eta[2 * label..] } else { &branches[2 * z..] };
                            eta[2 * node..2 * node + 2].copy_from_slice(&from[..2]);
                        }
                    }
                    let nodes: Vec<u32> = (1..=2).map(|l| arena.ancestor(leaves[3], l)).collect();
                    let siblings: Vec<usize> = nodes.iter().map(|&v| arena.n_children(arena.parent(v)) as usize - 1).collect();
                    let ln_r = calibration.as_ref().map_or(0.0, |c| c.ln_r_new(1.0, &siblings));
                    let want = -2.0 * 0.3 * margin.violation(&arena, &eta, nodes.into_iter(), &phi) - ln_r;
                    assert!((with[z] - without[z] - want).abs() < 1e-12, "{penalty:?}, node {z}");
                }
            }
        }
    }
}
