//! Every kernel by itself: the whole state drawn exactly, one step, and no mean may change.

use rand_distr::Distribution;

use super::super::super::arena::{Arena, ROOT};
use super::super::super::components::Kernel;
use super::super::super::draw::{beta, dirichlet};
use super::super::super::state::{Concentrations, Grid, REST, State, column};
use super::super::concentrations::PRIOR;
use super::super::{PathMove, Rules, Sampler, Theta};
use super::known;
use crate::Result;
use crate::check::{InvarianceSettings, one_step_invariance};
use crate::dist::Gamma;
use crate::run::{Philox, Purpose, Stream, open01};

/// Sticks of the root; what is left after them is below 1e-12.
const STICKS: usize = 40;

/// A joint distribution of states and rows.
#[derive(Clone)]
pub(super) struct Joint {
    pub(super) rows: usize,
    pub(super) kernel: Kernel,
    /// Fixed, unless learned.
    pub(super) concentrations: Concentrations,
    pub(super) rules: Rules,
    /// Atoms of a finite mixture.
    pub(super) finite: Option<usize>,
}

/// A state and the rows that it is given.
pub(super) struct Case {
    pub(super) state: State,
    pub(super) x: Vec<f64>,
}

/// Four rows, three levels, `x ~ N(theta, 1)`, `theta ~ N(0, 4)`.
pub(super) fn four_rows() -> Joint {
    Joint {
        rows: 4,
        kernel: known(&[0.0, 1.0], 1, 1.0, 4.0),
        concentrations: Concentrations { alpha: vec![0.9, 0.6, 0.8], gamma: vec![1.2, 0.8, 1.5], gamma0: 0.85 },
        rules: Rules { one_alpha: false, one_gamma: false, ..Rules::default() },
        finite: None,
    }
}

impl Joint {
    fn concentrations(&self, rng: &mut Philox) -> Concentrations {
        if !self.rules.learn {
            return self.concentrations.clone();
        }
        let prior = Gamma::new(PRIOR.0, PRIOR.1).unwrap();
        let mut levels = |one: bool| {
            let mut drawn: Vec<f64> = self.concentrations.alpha.iter().map(|_| prior.sample(rng)).collect();
            if one {
                drawn = vec![drawn[0]; drawn.len()];
            }
            drawn
        };
        let (alpha, gamma) = (levels(self.rules.one_alpha), levels(self.rules.one_gamma));
        Concentrations { alpha, gamma, gamma0: prior.sample(rng) }
    }

    /// Everything from the prior, then rows.
    pub(super) fn draw(&self, rng: &mut Philox) -> Result<Case> {
        let c = self.concentrations(rng);
        let (arena, leaf) = paths(self.rows, &c.alpha, rng);

        // weights on many sticks, the rest of them in front
        let atoms = self.finite.unwrap_or(STICKS);
        let mut all = Grid::new(arena.slots(), 1 + atoms);
        let root = all.row_mut(ROOT);
        if self.finite.is_some() {
            root[1..].fill(c.gamma0 / atoms as f64);
            dirichlet(root, rng);
        } else {
            let mut left = 1.0;
            for w in &mut root[1..] {
                let (part, rest) = beta(1.0, c.gamma0, rng);
                *w = left * part;
                left *= rest;
            }
            root[REST] = left;
        }
        for level in 1..=arena.depth() {
            for &node in arena.at_level(level) {
                let (above, own) = all.pair(arena.parent(node), node);
                own.iter_mut().zip(above).for_each(|(own, above)| *own = c.gamma[level - 1] * above);
                dirichlet(own, rng);
            }
        }
        let mut kernel = self.kernel.clone();
        kernel.draw_shared(rng)?;
        let none = vec![0.0; kernel.statistics()];
        let theta = (0..atoms).map(|_| kernel.draw(&none, rng)).collect::<Result<Vec<_>>>()?;

        // atoms of rows; those without rows go into the rest
        let mut state = State::new(arena.depth(), self.rows, self.finite, c);
        let mut numbers = vec![u32::MAX; atoms];
        if self.finite.is_some() {
            (0..atoms).for_each(|k| numbers[k] = k as u32);
        }
        for n in 0..self.rows {
            let weights = all.row(leaf[n]);
            let mut left = open01(rng);
            // the share of the rest is below all rounding
            let stick = weights[1..].iter().position(|w| {
                left -= w;
                left < 0.0
            });
            let stick = stick.unwrap_or(0);
            if numbers[stick] == u32::MAX {
                numbers[stick] = state.size.len() as u32;
                state.size.push(0);
            }
            state.size[numbers[stick] as usize] += 1;
            state.atom[n] = numbers[stick];
        }
        state.theta = vec![0.0; state.size.len() * kernel.parameters()];
        state.weights = Grid::new(arena.slots(), 4);
        state.weights.fit(arena.slots(), state.size.len() + 1);
        for node in arena.nodes() {
            let own = state.weights.row_mut(node);
            own[REST] = all.row(node)[REST];
            for (stick, &number) in numbers.iter().enumerate() {
                let place = if number == u32::MAX { REST } else { column(number) };
                own[place] += all.row(node)[stick + 1];
            }
        }
        for (stick, &number) in numbers.iter().enumerate().filter(|(_, number)| **number != u32::MAX) {
            let at = number as usize * kernel.parameters();
            state.theta[at..][..kernel.parameters()].copy_from_slice(&theta[stick]);
        }
        (state.arena, state.leaf) = (arena, leaf);
        let mut case = Case { state, x: vec![] };
        case.x = self.draw_rows(&case.state, rng)?;
        Ok(case)
    }

    /// Rows given atoms and parameters.
    pub(super) fn draw_rows(&self, state: &State, rng: &mut Philox) -> Result<Vec<f64>> {
        let (width, mut x) = (self.kernel.parameters(), vec![]);
        for &k in &state.atom {
            let mut row = vec![0.0; self.kernel.mean(&state.theta[k as usize * width..][..width]).len()];
            self.kernel.draw_row(&state.theta[k as usize * width..][..width], rng, &mut row)?;
            x.extend(row);
        }
        Ok(x)
    }

    /// The test functions, some of them of single rows.
    pub(super) fn functions(&self, case: &Case) -> Vec<(String, f64)> {
        let Case { state: s, x } = case;
        let (arena, depth, cols) = (&s.arena, s.arena.depth(), x.len() / self.rows);
        let mut out = vec![("atoms".to_string(), s.occupied_atoms() as f64)];
        let mut add = |name: String, value: f64| out.push((name, value));
        let squares = |row: &[f64]| row.iter().map(|w| w * w).sum::<f64>();
        let (a, b) = (s.leaf[0], s.leaf[1]);
        let (first, second) = (s.atom[0], s.atom[1]);
        for level in 0..=depth {
            let nodes = arena.at_level(level);
            let mean = |f: &dyn Fn(&[f64]) -> f64| nodes.iter().map(|&z| f(s.weights.row(z))).sum::<f64>() / nodes.len() as f64;
            add(format!("mean rest, level {level}"), mean(&|row| row[REST]));
            add(format!("mean sum of squared weights, level {level}"), mean(&|row| squares(&row[1..])));
            let own = s.weights.row(arena.ancestor(a, level));
            add(format!("weight of atom of row 0, level {level}"), own[column(first)]);
            add(format!("weight of atom of row 1 on row 0's path, level {level}"), own[column(second)]);
            if level > 0 {
                let together = f64::from(arena.ancestor(a, level) == arena.ancestor(b, level));
                add(format!("nodes, level {level}"), nodes.len() as f64);
                add(format!("rows 0 and 1 together, level {level}"), together);
                add(format!("rows 0 and 1 together times cells, level {level}"), together * x[0] * x[cols]);
                add(format!("rows with row 0, level {level}"), f64::from(arena.rows(arena.ancestor(a, level))));
            }
        }
        add("rows 0 and 1 share an atom".into(), f64::from(first == second));
        add("rows 0 and 1 share an atom, times cells".into(), f64::from(first == second) * x[0] * x[cols]);
        add("first parameter of row 0's atom, times cell".into(), s.theta[first as usize * self.kernel.parameters()] * x[0]);
        if self.rules.learn {
            for (name, values) in [("alpha", &s.concentrations.alpha), ("gamma", &s.concentrations.gamma)] {
                values.iter().enumerate().for_each(|(i, v)| add(format!("{name} {i}"), (-v).exp()));
            }
            add("gamma0".into(), (-s.concentrations.gamma0).exp());
        }
        out
    }

    /// Checks one kernel.
    pub(super) fn check(&self, what: &str, draws: u64, seed: u64, step: impl Fn(&mut Sampler<'_>, &mut Philox) -> Result<()>) {
        let mut rng = Stream::new(seed, 0, Purpose::Check).rng();
        let names: Vec<String> = self.functions(&self.draw(&mut rng).unwrap()).into_iter().map(|f| f.0).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let report = one_step_invariance(
            what,
            &InvarianceSettings { draws, false_alarm_rate: 1e-4 },
            &names,
            |case: &Case, out| out.extend(self.functions(case).into_iter().map(|f| f.1)),
            &mut rng,
            |rng| self.draw(rng),
            |case, rng| {
                let Case { state, x } = case;
                let mut sampler = Sampler::new(&x, x.len() / self.rows, self.kernel.clone(), self.rules.clone(), state);
                step(&mut sampler, rng)?;
                let state = sampler.state;
                Ok(Case { state, x })
            },
        )
        .unwrap();
        assert!(report.passed, "{report}");
    }
}

/// Paths of rows that come one by one.
pub(super) fn paths(rows: usize, alpha: &[f64], rng: &mut Philox) -> (Arena, Vec<u32>) {
    let mut arena = Arena::new(alpha.len());
    let mut leaves = vec![];
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

#[test]
fn long_a_row_step_keeps_the_distribution() {
    let joint = four_rows();
    let step = |s: &mut Sampler<'_>, rng: &mut Philox| {
        s.row_step(0, rng)?;
        s.draw_theta(rng)
    };
    joint.check("row step", 40_000, 1, step);
    let explicit = |theta, path_move| Joint { rules: Rules { theta, path_move, ..joint.rules.clone() }, ..joint.clone() };
    explicit(Theta::Explicit, PathMove::Gibbs).check("row step, drawn parameters", 40_000, 2, |s, rng| s.row_step(0, rng));
    explicit(Theta::Collapsed, PathMove::Prior).check("row step, prior proposals", 40_000, 3, step);
}

#[test]
fn long_tables_and_weights_keep_the_distribution() {
    let joint = four_rows();
    let plain = Joint { rules: Rules { regraft: false, ..joint.rules.clone() }, ..joint.clone() };
    let weights = |s: &mut Sampler<'_>, rng: &mut Philox| {
        s.sweep_tables(rng);
        s.draw_weights(rng);
        Ok(())
    };
    plain.check("tables and weights", 40_000, 4, weights);
    joint.check("regraft", 60_000, 5, weights);
}

#[test]
fn long_splits_and_merges_keep_the_distribution() {
    four_rows().check("split-merge", 60_000, 6, |s, rng| {
        s.sweep_tables(rng);
        s.split_or_merge(rng);
        s.draw_weights(rng);
        s.draw_theta(rng)
    });
}

#[test]
fn long_concentrations_keep_the_distribution() {
    let joint = four_rows();
    for (one, seed) in [(false, 7), (true, 8)] {
        let rules = Rules { learn: true, one_alpha: one, one_gamma: one, ..joint.rules.clone() };
        Joint { rules, ..joint.clone() }.check("concentrations", 40_000, seed, |s, rng| {
            s.sweep_tables(rng);
            s.draw_concentrations(rng)?;
            s.draw_weights(rng);
            Ok(())
        });
    }
}

#[test]
fn long_a_finite_mixture_keeps_the_distribution() {
    let joint = four_rows();
    let rules = Rules { learn: true, ..joint.rules.clone() };
    Joint { finite: Some(4), rules, ..joint }.check("finite mixture", 40_000, 9, |s, rng| s.sweep(rng));
}
