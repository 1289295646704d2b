//! The exact sequential sampler: rows one after the other, then what concerns all of them.
//!
//! A sweep: (a) every row, in random order, chooses path and atom anew (`row.rs`); (b) bottom-up numbers of tables (`weights.rs`), each
//! level followed by moves of whole subtrees (`regraft.rs`), then concentrations (`concentrations.rs`), splits and merges of atoms
//! (`split_merge.rs`), and top-down weights; (c) parameters of atoms; (d) scores of nodes where there is a margin. In (b) the order matters:
//! tables are drawn with the weights of their level and below integrated out, and weights are redrawn last.

mod concentrations;
mod paper;
mod parallel;
mod reg;
mod regraft;
mod row;
mod split_merge;
mod start;
mod weights;

use serde::{Deserialize, Serialize};

pub(super) use paper::OwnMargin;
pub(super) use parallel::Move;
pub(super) use reg::Charges;
pub(super) use start::Start;

use super::components::{Kernel, Prepared};
use super::state::{Grid, State, column};
use crate::Result;
use crate::run::Philox;

/// How a row's new path is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PathMove {
    /// From its conditional distribution.
    Gibbs,
    /// From the prior, accepted by the ratio of densities.
    Prior,
}

/// What the densities of rows are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Theta {
    /// The other rows of an atom: its parameters are integrated out.
    Collapsed,
    /// Drawn parameters of an atom.
    Explicit,
}

/// What a sweep does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) path_move: PathMove,
    pub(crate) theta: Theta,
    /// Whether subtrees are moved.
    pub(crate) regraft: bool,
    /// Tries of splits and merges a sweep.
    pub(crate) split_merges: usize,
    /// Whether concentrations are learned.
    pub(crate) learn: bool,
    /// Shape and rate of their Gamma prior.
    pub(crate) prior: (f64, f64),
    /// One `alpha` for all levels.
    pub(crate) one_alpha: bool,
    /// One `gamma` for all levels.
    pub(crate) one_gamma: bool,
    /// Where a chain begins.
    pub(crate) start: Start,
    /// The sweep of the paper in place of the exact one.
    pub(crate) paper: Option<OwnMargin>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            path_move: PathMove::Gibbs,
            theta: Theta::Collapsed,
            regraft: true,
            split_merges: 1,
            learn: false,
            prior: (1.0, 1.0),
            one_alpha: true,
            one_gamma: true,
            start: Start::Sequential,
            paper: None,
        }
    }
}

/// Rows whose sums are made together; those of all rows are added up in order. So they depend neither on threads nor on how rows are cut
/// into blocks.
const TOGETHER: usize = 1024;
/// Sums that are held at a time.
const HELD: usize = 64;

/// A chain at work on some rows. The state is all that must be kept between sweeps, beside what the kernel learns: the rest is worked
/// out from it at the beginning of each.
pub(super) struct Sampler<'a> {
    x: &'a [f64],
    cols: usize,
    pub(super) kernel: Kernel,
    pub(super) rules: Rules,
    pub(super) state: State,
    /// The margin, if there is one.
    pub(super) charges: Option<Charges<'a>>,
    work: Work,
}

/// What is worked out from the state, and room to work in.
#[derive(Default)]
struct Work {
    /// Statistics of atoms, one after the other.
    stats: Vec<f64>,
    /// Predictive densities: of a new atom in column 0, then of the atoms.
    prepared: Vec<Prepared>,
    /// Log densities of a row, then densities relative to the largest; by column.
    density: Vec<f64>,
    /// Probability to come by, under the prior; by node.
    reach: Vec<f64>,
    /// Where a row may go, with running sums of weights.
    candidates: Vec<u32>,
    running: Vec<f64>,
    /// A path, root first.
    path: Vec<u32>,
    /// Customers and tables by node and column, and their sums over columns.
    customers: Grid<u32>,
    tables: Grid<u32>,
    charged: reg::Charged,
}

impl<'a> Sampler<'a> {
    /// Works on rows `x` of so many columns from a state.
    #[cfg(test)]
    pub(super) fn new(x: &'a [f64], cols: usize, kernel: Kernel, rules: Rules, state: State) -> Self {
        let mut sampler = Self::idle(x, cols, kernel, rules, state, None);
        sampler.refresh();
        sampler
    }

    /// The same without what follows from the state: [`Sampler::refresh`] and [`Sampler::charge_all`] come before moves that need it.
    pub(super) fn idle(x: &'a [f64], cols: usize, kernel: Kernel, rules: Rules, state: State, charges: Option<Charges<'a>>) -> Self {
        let work = Work { path: vec![0; state.arena.depth() + 1], ..Work::default() };
        Self { x, cols, kernel, rules, state, charges, work }
    }

    /// The same with a margin.
    #[cfg(test)]
    pub(super) fn with_charges(mut self, charges: Option<Charges<'a>>) -> Self {
        self.charges = charges;
        self.charge_all();
        self
    }

    /// Number of rows.
    fn rows(&self) -> usize {
        self.state.leaf.len()
    }

    #[inline]
    fn row(&self, n: usize) -> &'a [f64] {
        &self.x[n * self.cols..][..self.cols]
    }

    /// Statistics of all atoms from their rows, in the order of rows: rounding does not depend on the past.
    pub(super) fn refresh(&mut self) {
        let (size, atoms) = (self.kernel.statistics(), self.state.size.len());
        let sums = |from: usize| {
            let mut sums = vec![0.0; size * atoms];
            for n in from..(from + TOGETHER).min(self.rows()) {
                let k = self.state.atom[n];
                if k != super::arena::NONE {
                    self.kernel.add(&mut sums[k as usize * size..][..size], self.row(n), 1.0);
                }
            }
            sums
        };
        let mut stats = vec![0.0; size * atoms];
        self.by_lots(sums, |part| stats.iter_mut().zip(part).for_each(|(a, b)| *a += b));
        self.work.stats = stats;
        self.prepare_all();
    }

    /// Something of every [`TOGETHER`] rows, beginning with the row that `of` is told, taken in in order.
    fn by_lots<T: Send>(&self, of: impl Fn(usize) -> T + Sync, mut take: impl FnMut(T)) {
        let lots = self.rows().div_ceil(TOGETHER);
        for from in (0..lots).step_by(HELD) {
            let some = from..(from + HELD).min(lots);
            if some.len() == 1 {
                take(of(some.start * TOGETHER));
                continue;
            }
            let found = crate::parallel::map(some, |_, lot| of(lot * TOGETHER));
            found.into_iter().for_each(&mut take);
        }
    }

    /// Predictive densities of all atoms from their statistics.
    fn prepare_all(&mut self) {
        let Work { stats, prepared, .. } = &mut self.work;
        let size = self.kernel.statistics();
        prepared.resize(self.state.size.len() + 1, Prepared::default());
        self.kernel.prepare_into(&vec![0.0; size], &mut prepared[0]);
        for (k, prepared) in prepared[1..].iter_mut().enumerate() {
            self.kernel.prepare_into(&stats[k * size..][..size], prepared);
        }
    }

    /// Statistics of an atom.
    fn stats(&self, atom: u32) -> &[f64] {
        let size = self.kernel.statistics();
        &self.work.stats[atom as usize * size..][..size]
    }

    /// Adds a row to an atom's statistics, or takes it out (weight -1).
    fn count(&mut self, n: usize, atom: u32, weight: f64) {
        let (size, row) = (self.kernel.statistics(), self.row(n));
        let stats = &mut self.work.stats[atom as usize * size..][..size];
        if weight > 0.0 {
            self.state.size[atom as usize] += 1;
        } else {
            self.state.size[atom as usize] -= 1;
        }
        if self.state.size[atom as usize] == 0 {
            // no rest of rounding
            stats.fill(0.0);
            let (none, atoms) = self.work.prepared.split_at_mut(1);
            atoms[atom as usize].clone_from(&none[0]);
        } else {
            self.kernel.add(stats, row, weight);
            self.kernel.refresh(stats, row, weight, &mut self.work.prepared[column(atom)]);
        }
    }

    /// A new atom, known to statistics too.
    fn new_atom(&mut self) -> u32 {
        let atom = self.state.new_atom();
        let (size, atoms) = (self.kernel.statistics(), self.state.size.len());
        self.work.stats.resize(size * atoms, 0.0);
        // where nothing is prepared yet, all atoms will be
        if self.work.prepared.len() < atoms + 1
            && let Some(none) = self.work.prepared.first().cloned()
        {
            self.work.prepared.resize(atoms + 1, none);
        }
        atom
    }

    /// One sweep.
    pub(super) fn sweep(&mut self, rng: &mut Philox) -> Result<()> {
        if let Some(own) = self.rules.paper {
            return self.sweep_of_paper(own, rng);
        }
        self.refresh();
        self.charge_all();
        self.sweep_rows(rng)?;
        self.sweep_rest(rng)
    }

    /// One sweep in which paths stay as they are: of `p(atoms, weights, parameters, scores, concentrations | paths, rows)`.
    pub(super) fn sweep_on_fixed_tree(&mut self, rng: &mut Philox) -> Result<()> {
        self.refresh();
        self.charge_all();
        self.order(rng).into_iter().try_for_each(|n| self.atom_step(n as usize, rng))?;
        self.rules.regraft = false;
        self.sweep_rest(rng)
    }

    /// (b) to (d): all but the rows.
    pub(super) fn sweep_rest(&mut self, rng: &mut Philox) -> Result<()> {
        self.sweep_tables(rng);
        if self.rules.learn {
            self.draw_concentrations(rng)?;
        }
        for _ in 0..self.rules.split_merges {
            self.split_or_merge(rng);
        }
        self.draw_weights(rng);
        self.draw_theta(rng)?;
        self.draw_eta(rng)
    }

    /// (a) All rows in random order.
    pub(super) fn sweep_rows(&mut self, rng: &mut Philox) -> Result<()> {
        self.order(rng).into_iter().try_for_each(|n| self.row_step(n as usize, rng))
    }

    /// All rows, in random order.
    fn order(&self, rng: &mut Philox) -> Vec<u32> {
        use rand::RngExt;
        let mut order: Vec<u32> = (0..self.rows() as u32).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        order
    }

    /// (b), first part: tables bottom-up, and subtrees moved.
    pub(super) fn sweep_tables(&mut self, rng: &mut Philox) {
        self.count_leaves();
        for level in (1..=self.state.arena.depth()).rev() {
            self.draw_tables(level, rng);
            if level >= 2 && self.rules.regraft {
                self.regraft_level(level, rng);
            }
        }
    }

    /// (c) What atoms share, and their parameters.
    pub(super) fn draw_theta(&mut self, rng: &mut Philox) -> Result<()> {
        let (size, width) = (self.kernel.statistics(), self.kernel.parameters());
        let atoms = self.state.size.len();
        let live: Vec<usize> = (0..atoms).filter(|&k| self.state.is_live(k)).collect();
        let stats = &self.work.stats;
        if self.kernel.learns_strength() {
            self.kernel.step_strength(live.iter().map(|&k| &stats[k * size..][..size]), rng)?;
        }
        self.state.theta.resize(atoms * width, 0.0);
        for &k in &live {
            let theta = self.kernel.draw(&stats[k * size..][..size], rng)?;
            self.state.theta[k * width..][..width].copy_from_slice(&theta);
        }
        if self.kernel.learns_variance() {
            let theta = &self.state.theta;
            self.kernel.step_variance(live.iter().map(|&k| (&stats[k * size..][..size], &theta[k * width..][..width])), rng)?;
        }
        if self.kernel.learns_strength() || self.kernel.learns_variance() {
            self.prepare_all();
        }
        Ok(())
    }

    /// `sum_n [ln f(x_n | theta) + ln beta_leaf(atom)] + ln p(V)`, with the parameters last drawn, and the sum of `ln f(x_n | theta)` alone; at any
    /// temperature those of temperature 1.
    pub(super) fn ln_likelihoods(&self) -> (f64, f64) {
        let State { leaf, atom, weights, arena, concentrations, .. } = &self.state;
        let ready = self.kernel.ready(&self.state.theta, self.state.size.len());
        let sums = |from: usize| {
            let (mut complete, mut alone) = (0.0, 0.0);
            for n in from..(from + TOGETHER).min(self.rows()) {
                let k = atom[n];
                let ln_f = self.kernel.ln_density_ready(&ready[k as usize], self.row(n));
                complete += ln_f + weights.row(leaf[n])[column(k)].ln();
                alone += ln_f;
            }
            (complete, alone)
        };
        let mut rows = (0.0, 0.0);
        self.by_lots(sums, |part| rows = (rows.0 + part.0, rows.1 + part.1));
        (rows.0 + arena.ln_prior(&concentrations.alpha), rows.1)
    }
}

#[cfg(test)]
pub(super) mod tests;
