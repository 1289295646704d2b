//! Every kernel by itself: the whole state drawn exactly, one step, and no mean may change.

use rand_distr::{Distribution, StandardNormal};

use super::super::super::arena::{Arena, ROOT};
use super::super::super::generate::{Generator, paths};
use super::super::super::margin::{EtaUpdate, Penalty};
use super::super::super::state::{Concentrations, REST, State, column};
use super::super::{Charges, PathMove, Rules, Sampler, Theta};
use super::known;
use crate::Result;
use crate::check::{InvarianceSettings, one_step_invariance};
use crate::run::{Philox, Purpose, Stream, open01};

/// A joint distribution of states and rows.
#[derive(Clone)]
pub(super) struct Joint {
    pub(super) model: Generator,
    /// The margin, with one feature a row.
    pub(super) margin: Option<Margin>,
}

impl Joint {
    pub(super) fn with_rules(&self, rules: Rules) -> Self {
        Self { model: Generator { rules, ..self.model.clone() }, margin: self.margin.clone() }
    }
}

/// A margin of its own.
#[derive(Clone)]
pub(super) struct Margin {
    pub(super) separation: f64,
    pub(super) margin: f64,
    pub(super) sum: bool,
    pub(super) phi: Vec<f64>,
    /// In place of the calibration: any function of the numbers of siblings, `ln r >= least`.
    pub(super) ln_r: Option<fn(usize, &[usize]) -> f64>,
    pub(super) least: f64,
}

impl Margin {
    /// Violation and log charge of each row, by going through all pairs of nodes.
    pub(super) fn by_hand(&self, arena: &Arena, leaves: &[u32], eta: &[f64]) -> Vec<(f64, f64)> {
        let row = |(n, &leaf): (usize, &u32)| {
            let mut violations = vec![0.0];
            let mut siblings = vec![];
            for level in 1..=arena.depth() {
                let own = arena.ancestor(leaf, level);
                let others: Vec<u32> =
                    arena.at_level(level).iter().copied().filter(|&u| u != own && arena.parent(u) == arena.parent(own)).collect();
                siblings.push(others.len());
                violations.extend(others.iter().map(|&u| self.margin - (eta[own as usize] - eta[u as usize]) * self.phi[n]));
            }
            let positive = violations.iter().map(|v: &f64| v.max(0.0));
            let violation = if self.sum { positive.sum() } else { positive.fold(0.0, f64::max) };
            let calibration = if siblings.iter().any(|&m| m > 0) { self.ln_r.map_or(0.0, |f| f(n, &siblings)) } else { 0.0 };
            (violation, -2.0 * self.separation * violation - calibration)
        };
        leaves.iter().enumerate().map(row).collect()
    }

    pub(super) fn charges(&self) -> Charges<'_> {
        let penalty = if self.sum { Penalty::Sum } else { Penalty::Max };
        Charges {
            margin: super::super::super::margin::Margin { separation: self.separation, margin: self.margin, spread: 1.0, penalty },
            update: EtaUpdate::Ess,
            features: &self.phi,
            width: 1,
            ln_r: self.ln_r.as_ref().map(|f| f as &(dyn Fn(usize, &[usize]) -> f64 + Sync)),
        }
    }
}

/// A state and the rows that it is given.
pub(super) struct Case {
    pub(super) state: State,
    pub(super) x: Vec<f64>,
}

/// Four rows, three levels, `x ~ N(theta, 1)`, `theta ~ N(0, 4)`.
pub(super) fn four_rows() -> Joint {
    let model = Generator {
        rows: 4,
        cols: 1,
        total: None,
        kernel: known(&[0.0, 1.0], 1, 1.0, 4.0),
        concentrations: Concentrations { alpha: vec![0.9, 0.6, 0.8], gamma: vec![1.2, 0.8, 1.5], gamma0: 0.85 },
        rules: Rules { one_alpha: false, one_gamma: false, ..Rules::default() },
        finite: None,
        margin: None,
    };
    Joint { model, margin: None }
}

impl Joint {
    /// Everything from the prior, then rows.
    pub(super) fn draw(&self, rng: &mut Philox) -> Result<Case> {
        let c = self.model.draw_concentrations(rng)?;
        let (mut arena, mut leaf) = paths(self.model.rows, &c.alpha, rng);
        let mut eta = vec![];
        if let Some(margin) = &self.margin {
            // tree and scores are accepted with the charge of all rows
            loop {
                eta = (0..arena.slots()).map(|_| StandardNormal.sample(rng)).collect();
                let ln: f64 = margin.by_hand(&arena, &leaf, &eta).iter().map(|row| row.1 + margin.least).sum();
                assert!(ln <= 0.0);
                if open01(rng).ln() < ln {
                    break;
                }
                (arena, leaf) = paths(self.model.rows, &c.alpha, rng);
            }
        }
        let mut state = self.model.draw_state(c, arena, leaf, &self.model.kernel, rng)?;
        state.eta = eta;
        let x = self.model.draw_rows(&state, &self.model.kernel, rng)?;
        Ok(Case { state, x })
    }

    /// The test functions, some of them of single rows.
    pub(super) fn functions(&self, case: &Case) -> Vec<(String, f64)> {
        let Case { state: s, x } = case;
        let (arena, depth, cols) = (&s.arena, s.arena.depth(), x.len() / self.model.rows);
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
        add("first parameter of row 0's atom, times cell".into(), s.theta[first as usize * self.model.kernel.parameters()] * x[0]);
        if let Some(margin) = &self.margin {
            let charged = margin.by_hand(arena, &s.leaf, &s.eta);
            add("violations".into(), charged.iter().map(|row| row.0).sum());
            add("violation of row 0".into(), charged[0].0);
            add("log charges".into(), charged.iter().map(|row| row.1).sum());
            add("mean square of scores".into(), {
                let nodes: Vec<u32> = arena.nodes().filter(|&z| z != ROOT).collect();
                nodes.iter().map(|&z| s.eta[z as usize].powi(2)).sum::<f64>() / nodes.len() as f64
            });
            for level in 1..=depth {
                for n in [0, 1] {
                    let score = s.eta[arena.ancestor(s.leaf[n], level) as usize] * margin.phi[n];
                    add(format!("score of row {n}, level {level}"), score);
                }
            }
        }
        if self.model.rules.learn {
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
                let charges = self.margin.as_ref().map(Margin::charges);
                let mut sampler =
                    Sampler::new(&x, self.model.cols, self.model.kernel.clone(), self.model.rules.clone(), state).with_charges(charges);
                step(&mut sampler, rng)?;
                if let Some(margin) = &self.margin {
                    // what is kept of the charges is what they are
                    let by_hand = margin.by_hand(&sampler.state.arena, &sampler.state.leaf, &sampler.state.eta);
                    let (violation, ln_charge) = sampler.charged();
                    assert!((violation - by_hand.iter().map(|row| row.0).sum::<f64>()).abs() < 1e-9);
                    assert!((ln_charge - by_hand.iter().map(|row| row.1).sum::<f64>()).abs() < 1e-9);
                }
                let state = sampler.state;
                Ok(Case { state, x })
            },
        )
        .unwrap();
        assert!(report.passed, "{report}");
    }
}

#[test]
fn long_a_row_step_keeps_the_distribution() {
    let joint = four_rows();
    let step = |s: &mut Sampler<'_>, rng: &mut Philox| {
        s.row_step(0, rng)?;
        s.draw_theta(rng)
    };
    joint.check("row step", 40_000, 1, step);
    let explicit = |theta, path_move| joint.with_rules(Rules { theta, path_move, ..joint.model.rules.clone() });
    explicit(Theta::Explicit, PathMove::Gibbs).check("row step, drawn parameters", 40_000, 2, |s, rng| s.row_step(0, rng));
    explicit(Theta::Collapsed, PathMove::Prior).check("row step, prior proposals", 40_000, 3, step);
}

#[test]
fn long_tables_and_weights_keep_the_distribution() {
    let joint = four_rows();
    let plain = joint.with_rules(Rules { regraft: false, ..joint.model.rules.clone() });
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
    for (one, prior, seed) in [(false, (1.0, 1.0), 7), (true, (2.5, 1.7), 8)] {
        let rules = Rules { learn: true, prior, one_alpha: one, one_gamma: one, ..joint.model.rules.clone() };
        joint.with_rules(rules).check("concentrations", 40_000, seed, |s, rng| {
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
    let rules = Rules { learn: true, ..joint.model.rules.clone() };
    let model = Generator { finite: Some(4), rules, ..joint.model };
    Joint { model, margin: None }.check("finite mixture", 40_000, 9, |s, rng| s.sweep(rng));
}

/// Nodes move by their smallest rows, whichever of them came first: an order of age is wrong by so little that only millions of draws
/// would show it.
#[test]
fn subtrees_take_turns_by_their_smallest_rows() {
    let joint = four_rows();
    let mut rng = Stream::new(12, 0, Purpose::Check).rng();
    let mut aged = 0;
    for _ in 0..50 {
        let Case { state, x } = joint.draw(&mut rng).unwrap();
        let mut sampler = Sampler::new(&x, 1, joint.model.kernel.clone(), joint.model.rules.clone(), state);
        (0..5).for_each(|_| sampler.sweep(&mut rng).unwrap());
        let arena = &sampler.state.arena;
        for level in 2..=3 {
            let turns = sampler.turns(level);
            let first = |node: u32| (0..4).find(|&n| arena.ancestor(sampler.state.leaf[n], level) == node);
            assert!(turns.windows(2).all(|pair| first(pair[0]) < first(pair[1])));
            assert_eq!(turns.len(), arena.at_level(level).len());
            aged += usize::from(turns != arena.at_level(level));
        }
    }
    assert!(aged > 10, "the order of age is another one");
}
