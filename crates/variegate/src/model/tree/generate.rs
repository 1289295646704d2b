//! The model as a distribution: everything from the prior, then rows.
//!
//! Concentrations (where they are learned), paths row by row, sticks of the root, weights of nodes top-down, parameters, atoms of rows, rows.
//! Sticks are broken until what is left of the unit is below all rounding; atoms without rows then go into the rest.

use rand_distr::{Distribution, StandardNormal};

use super::arena::{Arena, ROOT};
use super::components::Kernel;
use super::draw::{beta, dirichlet};
use super::margin::{Calibration, Margin};
use super::sampler::Rules;
use super::state::{Concentrations, Grid, REST, State, column};
use crate::Result;
use crate::check::Generative;
use crate::data::{Dataset, Matrix};
use crate::dist::Gamma;
use crate::run::{Philox, open01};

/// The rest of the root when sticks are no longer broken.
const NOTHING: f64 = 1e-15;
/// Most sticks; only a very large concentration needs more, whose atoms all differ anyway.
const MOST: usize = 10_000;

/// A model with so many rows.
#[derive(Debug, Clone)]
pub(crate) struct Generator {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Sum of each row, where rows are proportions of one.
    pub(crate) total: Option<f64>,
    pub(crate) kernel: Kernel,
    /// Concentrations, where they are not learned.
    pub(crate) concentrations: Concentrations,
    /// Whether concentrations are learned, and which are one.
    pub(crate) rules: Rules,
    /// Atoms of a finite mixture.
    pub(crate) finite: Option<usize>,
    /// The margin, with features that do not depend on the rows.
    pub(crate) margin: Option<Given>,
}

/// A margin with given features of rows.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) margin: Margin,
    pub(crate) features: Vec<f64>,
    pub(crate) width: usize,
    /// Tables of r, under the calibrated target.
    pub(crate) calibration: Option<Calibration>,
}

impl Given {
    /// Log charges of all rows; `ln r` is at least `least` of the row.
    fn ln_charge(&self, arena: &Arena, leaves: &[u32], eta: &[f64], least: &[f64]) -> f64 {
        let mut path = vec![0; arena.depth()];
        let mut sum = 0.0;
        for (n, &leaf) in leaves.iter().enumerate() {
            arena.path_into(leaf, &mut path);
            let phi = &self.features[n * self.width..][..self.width];
            sum -= 2.0 * self.margin.separation * self.margin.violation(arena, eta, path.iter().copied(), phi);
            if let Some(calibration) = &self.calibration {
                let siblings: Vec<usize> = path.iter().map(|&node| arena.n_children(arena.parent(node)) as usize - 1).collect();
                sum -= calibration.ln_r(n, &siblings) - least[n];
            }
        }
        sum
    }

    /// The least `ln r` of each row: with siblings in all other rows at every level, which is more than there can be.
    fn least(&self, rows: usize, depth: usize) -> Vec<f64> {
        let most = vec![rows - 1; depth];
        self.calibration.as_ref().map_or(vec![], |calibration| (0..rows).map(|n| calibration.ln_r(n, &most)).collect())
    }

    /// Tree and scores from the prior, accepted with the charges of all rows to the power of `tau`.
    fn draw_tree(&self, rows: usize, alpha: &[f64], tau: f64, rng: &mut Philox) -> (Arena, Vec<u32>, Vec<f64>) {
        let least = self.least(rows, alpha.len());
        loop {
            let (arena, leaves) = paths(rows, alpha, rng);
            let score = |_| {
                let z: f64 = StandardNormal.sample(rng);
                self.margin.spread * z
            };
            let eta: Vec<f64> = (0..arena.slots() * self.width).map(score).collect();
            if open01(rng).ln() < tau * self.ln_charge(&arena, &leaves, &eta, &least) {
                return (arena, leaves, eta);
            }
        }
    }
}

/// A state, with what all atoms share.
#[derive(Debug, Clone)]
pub(crate) struct Unknowns {
    pub(crate) state: State,
    pub(crate) shared: Option<f64>,
}

impl Generator {
    /// Concentrations, drawn where they are learned.
    pub(crate) fn draw_concentrations(&self, rng: &mut Philox) -> Result<Concentrations> {
        if !self.rules.learn {
            return Ok(self.concentrations.clone());
        }
        let prior = Gamma::new(self.rules.prior.0, self.rules.prior.1)?;
        let depth = self.concentrations.alpha.len();
        let mut levels = |one: bool| {
            let first = prior.sample(rng);
            (0..depth).map(|l| if one || l == 0 { first } else { prior.sample(rng) }).collect::<Vec<f64>>()
        };
        let (alpha, gamma) = (levels(self.rules.one_alpha), levels(self.rules.one_gamma));
        Ok(Concentrations { alpha, gamma, gamma0: prior.sample(rng) })
    }

    /// All that is unknown, under the prior and the margin to the power of `tau`.
    pub(crate) fn draw_unknowns(&self, tau: f64, rng: &mut Philox) -> Result<Unknowns> {
        let c = self.draw_concentrations(rng)?;
        let mut kernel = self.kernel.clone();
        kernel.draw_shared(rng)?;
        let (arena, leaf, eta) = match &self.margin {
            Some(margin) => margin.draw_tree(self.rows, &c.alpha, tau, rng),
            None => {
                let (arena, leaf) = paths(self.rows, &c.alpha, rng);
                (arena, leaf, vec![])
            }
        };
        let mut state = self.draw_state(c, arena, leaf, &kernel, rng)?;
        state.eta = eta;
        Ok(Unknowns { state, shared: kernel.shared() })
    }

    /// Weights, parameters and atoms of rows on these paths.
    pub(crate) fn draw_state(&self, c: Concentrations, arena: Arena, leaf: Vec<u32>, kernel: &Kernel, rng: &mut Philox) -> Result<State> {
        let root = match self.finite {
            Some(atoms) => {
                let mut root = vec![c.gamma0 / atoms as f64; atoms + 1];
                root[REST] = 0.0;
                dirichlet(&mut root, rng);
                root
            }
            None => sticks(c.gamma0, rng),
        };
        let atoms = root.len() - 1;
        let mut all = Grid::new(arena.slots(), root.len());
        all.row_mut(ROOT).copy_from_slice(&root);
        for level in 1..=arena.depth() {
            for &node in arena.at_level(level) {
                let (above, own) = all.pair(arena.parent(node), node);
                own.iter_mut().zip(above).for_each(|(own, above)| *own = c.gamma[level - 1] * above);
                dirichlet(own, rng);
            }
        }

        // numbers of sticks as atoms, by the first row that has them
        let mut state = State::new(arena.depth(), leaf.len(), self.finite, c);
        let mut numbers: Vec<Option<u32>> = (0..atoms as u32).map(|k| self.finite.map(|_| k)).collect();
        for n in 0..leaf.len() {
            let mut left = open01(rng);
            let weights = &all.row(leaf[n])[1..=atoms];
            let stick = weights.iter().position(|w| {
                left -= w;
                left < 0.0
            });
            let stick = stick.unwrap_or(0); // the share of the rest is below all rounding
            let number = *numbers[stick].get_or_insert_with(|| {
                state.size.push(0);
                state.size.len() as u32 - 1
            });
            state.size[number as usize] += 1;
            state.atom[n] = number;
        }
        state.weights.fit(arena.slots(), state.size.len() + 1);
        state.weights.clear();
        for node in arena.nodes() {
            let own = state.weights.row_mut(node);
            own[REST] = all.row(node)[REST];
            for (stick, number) in numbers.iter().enumerate() {
                own[number.map_or(REST, column)] += all.row(node)[stick + 1];
            }
        }
        let none = vec![0.0; kernel.statistics()];
        for _ in 0..state.size.len() {
            state.theta.extend(kernel.draw(&none, rng)?);
        }
        (state.arena, state.leaf) = (arena, leaf);
        Ok(state)
    }

    /// Rows given atoms and parameters, one after the other.
    pub(crate) fn draw_rows(&self, state: &State, kernel: &Kernel, rng: &mut Philox) -> Result<Vec<f64>> {
        let (width, mut x) = (kernel.parameters(), vec![0.0; self.cols * state.atom.len()]);
        for (row, &k) in x.chunks_exact_mut(self.cols).zip(&state.atom) {
            row[0] = self.total.unwrap_or(0.0); // a row of proportions keeps the total that it has
            kernel.draw_row(&state.theta[k as usize * width..][..width], rng, row)?;
        }
        Ok(x)
    }
}

/// Paths of rows that come one by one.
pub(crate) fn paths(rows: usize, alpha: &[f64], rng: &mut Philox) -> (Arena, Vec<u32>) {
    let mut arena = Arena::new(alpha.len());
    let mut leaves = Vec::with_capacity(rows);
    for _ in 0..rows {
        let mut at = ROOT;
        while arena.level(at) < alpha.len() {
            let mut left = open01(rng) * (f64::from(arena.rows(at)) + alpha[arena.level(at)]);
            let child = arena.children(at).find(|&child| {
                left -= f64::from(arena.rows(child));
                left < 0.0
            });
            at = match child {
                Some(child) => child,
                None => arena.branch(at),
            };
        }
        arena.attach(at);
        leaves.push(at);
    }
    (arena, leaves)
}

/// Weights of GEM(gamma0), the rest in front.
fn sticks(gamma0: f64, rng: &mut Philox) -> Vec<f64> {
    let (mut weights, mut left) = (vec![0.0], 1.0);
    while weights.len() == 1 || (left > NOTHING && weights.len() <= MOST) {
        let (part, rest) = beta(1.0, gamma0, rng);
        weights.push(left * part);
        left *= rest;
    }
    weights[REST] = left;
    weights
}

impl Generative for Generator {
    type Unknowns = Unknowns;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Unknowns> {
        self.draw_unknowns(1.0, rng)
    }

    fn data(&self, unknowns: &Unknowns, (): &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let mut kernel = self.kernel.clone();
        if let Some(shared) = unknowns.shared {
            kernel.set_shared(shared);
        }
        let x = self.draw_rows(&unknowns.state, &kernel, rng)?;
        Ok(Dataset::new(Matrix::dense(self.rows, self.cols, x)))
    }
}
