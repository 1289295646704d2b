//! The restricted hierarchical beta process.
//!
//! Columns have weights `b`, points of a Poisson process with intensity `tau db/b` on (0,1). In source `j` a column of weight `b` has
//! ones with a probability that is Beta(`al_j b`, `al_j (1-b)`), in each of `N_j` rows. With `n_j` ones, and the probabilities
//! integrated out,
//!
//! ```text
//! L(b;n) = prod_j rise(al_j b, n_j) rise(al_j (1-b), N_j-n_j) / rise(al_j, N_j)      rise(a,n) = a (a+1) .. (a+n-1)
//! G(b)   = L(b;0) = prod_j g_j(b)                       the column is empty
//! V(b)   = int_0^b (1-G(x)) dx/x                        exp(-tau V(b)): all columns of weights below b are empty
//! Psi    = V(1)                                         tau Psi: expected number of columns with a one
//! A(n)   = int_0^1 L(b;n) db/b                          tau A(n): expected number of columns with just these ones
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `rise` | rising factorials |
//! | `rule` | nodes of the integrals of `G` |
//! | `source` | `g_j` |
//! | `table` | the factors of `L` for every `n_j`, where rows are few |
//! | `column` | `A(n)`, draws of a weight given `n` |

mod column;
mod rise;
mod rule;
mod source;
mod table;

use column::Column;
use rand::Rng;
use rand_distr::{Distribution, Exp1};
use rise::ln_rise;
use rule::{level, rule};
use source::Source;
use table::Table;

use crate::run::open01;

/// Weights below are taken as 0.
const NO_WEIGHT: f64 = 1e-300;
/// Room that the cached nodes leave for a larger concentration.
const HEADROOM: f64 = 1.5;
/// Rows in all up to which the probabilities of numbers of ones are tabled.
const FEW_ROWS: u64 = 256;

/// The restricted hierarchical beta process: rates of columns of ones over several sources, the weights and source probabilities
/// integrated out.
///
/// Rates are for `tau = 1`. Concentrations are positive; those outside `[1e-300, 1e300]` are moved to the nearer end.
///
/// ```
/// use variegate::prior::BetaProcess;
/// let process = BetaProcess::new(&[2, 3], &[1.3, 0.6]);
/// assert!((process.atoms() - 1.8562151616).abs() < 1e-9);
/// assert!((process.used_by_both(0, 1) - 0.7148550725).abs() < 1e-9);
/// ```
#[derive(Debug, Clone)]
pub struct BetaProcess {
    rows: Vec<u64>,
    concentration: Vec<f64>,
    total: u64,
    sources: Vec<Source>,
    level: usize,
    nodes: Vec<AtNodes>,
    /// Empty where rows are many.
    tables: Vec<Table>,
    atoms: f64,
}

/// A source at the nodes of the rule: `g_j` and `1 - g_j`.
#[derive(Debug, Clone)]
struct AtNodes {
    empty: Vec<f64>,
    used: Vec<f64>,
}

impl AtNodes {
    fn new(source: &Source, level: usize) -> Self {
        let rule = rule(level);
        let (empty, used) = rule.b.iter().zip(&rule.rest).map(|(&b, &rest)| source.empty_and_used(b, rest)).unzip();
        Self { empty, used }
    }
}

impl BetaProcess {
    /// Numbers of rows (0 is allowed) and concentrations, one a source.
    ///
    /// # Panics
    /// If the two differ in length, or a concentration is no number.
    pub fn new(rows: &[u64], concentration: &[f64]) -> Self {
        assert_eq!(rows.len(), concentration.len(), "one concentration a source");
        assert!(concentration.iter().all(|value| !value.is_nan()), "a concentration is no number");
        let sources: Vec<Source> = rows.iter().zip(concentration).map(|(&rows, &value)| Source::new(rows, value)).collect();
        let total: u64 = rows.iter().sum();
        let concentration = sources.iter().map(|source| source.al).collect();
        let mut process =
            Self { rows: rows.to_vec(), concentration, total, sources, level: 0, nodes: Vec::new(), tables: Vec::new(), atoms: 0.0 };
        if total <= FEW_ROWS {
            process.tables = process.sources.iter().map(|source| Table::new(source, total)).collect();
        }
        process.level = process.level_for(HEADROOM);
        process.fill();
        process
    }

    /// Rows by source.
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Concentrations by source.
    pub fn concentration(&self) -> &[f64] {
        &self.concentration
    }

    /// Replaces the concentration of a source.
    ///
    /// # Panics
    /// If it is no number, or there is no such source.
    pub fn set_concentration(&mut self, j: usize, value: f64) {
        assert!(!value.is_nan(), "a concentration is no number");
        self.sources[j] = Source::new(self.rows[j], value);
        self.concentration[j] = self.sources[j].al;
        if let Some(table) = self.tables.get_mut(j) {
            *table = Table::new(&self.sources[j], self.total);
        }
        // a rule that still suffices and is not far too large stays, so that the other sources need not be computed anew
        if self.level < self.level_for(1.0) || self.level > self.level_for(2.0 * HEADROOM) {
            self.level = self.level_for(HEADROOM);
            self.fill();
        } else {
            self.nodes[j] = AtNodes::new(&self.sources[j], self.level);
            self.atoms = self.integrate_used(&self.nodes);
        }
    }

    fn level_for(&self, factor: f64) -> usize {
        level(self.total, factor * self.sources.iter().map(|source| source.mean).sum::<f64>())
    }

    fn fill(&mut self) {
        self.nodes = self.sources.iter().map(|source| AtNodes::new(source, self.level)).collect();
        self.atoms = self.integrate_used(&self.nodes);
    }

    /// `int (1 - prod_j g_j) db/b` from the values at the nodes.
    fn integrate_used(&self, nodes: &[AtNodes]) -> f64 {
        let sum = |(i, weight): (usize, &f64)| {
            let (mut used, mut empty) = (0.0, 1.0);
            for at in nodes {
                used += empty * at.used[i];
                empty *= at.empty[i];
            }
            weight * used
        };
        rule(self.level).weight.iter().enumerate().map(sum).sum()
    }

    /// `G` at a node.
    #[inline]
    fn empty_at(&self, i: usize) -> f64 {
        self.nodes.iter().map(|at| at.empty[i]).product()
    }

    /// `ln G(b)`: log probability that a column of weight `b` is empty.
    pub fn ln_empty(&self, b: f64) -> f64 {
        self.sources.iter().map(|source| source.ln_empty(b)).sum()
    }

    /// `V(b)`: expected number of columns with a one among those of weights below `b`.
    pub fn void(&self, b: f64) -> f64 {
        if b >= 1.0 {
            return self.atoms;
        }
        let rule = rule(self.level);
        let sum = |(&share, &weight): (&f64, &f64)| {
            let b = b * share;
            let (mut used, mut empty) = (0.0, 1.0);
            for source in &self.sources {
                let (here, also) = source.empty_and_used(b, 1.0 - b);
                used += empty * also;
                empty *= here;
            }
            weight * used
        };
        rule.b.iter().zip(&rule.weight).map(sum).sum()
    }

    /// `Psi`: expected number of columns with a one.
    pub fn atoms(&self) -> f64 {
        self.atoms
    }

    /// [`atoms`](Self::atoms) with another concentration of one source.
    pub fn atoms_with(&self, j: usize, value: f64) -> f64 {
        let source = Source::new(self.rows[j], value);
        let mean = self.sources.iter().map(|source| source.mean).sum::<f64>() - self.sources[j].mean + source.mean;
        let needed = level(self.total, mean);
        if needed > self.level {
            let rule = rule(needed);
            let nodes: Vec<AtNodes> =
                self.sources.iter().enumerate().map(|(k, old)| AtNodes::new(if k == j { &source } else { old }, needed)).collect();
            let empty = |i: usize| nodes.iter().fold((0.0, 1.0), |(used, empty), at| (used + empty * at.used[i], empty * at.empty[i]));
            return (0..rule.b.len()).map(|i| rule.weight[i] * empty(i).0).sum();
        }
        let rule = rule(self.level);
        let mut atoms = 0.0;
        for i in 0..rule.b.len() {
            let (mut empty, mut used) = source.empty_and_used(rule.b[i], rule.rest[i]);
            for (k, at) in self.nodes.iter().enumerate() {
                if k != j {
                    used += empty * at.used[i];
                    empty *= at.empty[i];
                }
            }
            atoms += rule.weight[i] * used;
        }
        atoms
    }

    /// `ln A(n)`: log expected number of columns with ones at given rows, `n_j` of them in source `j`; infinite without a one.
    ///
    /// # Panics
    /// If there is not one count a source, or more ones than rows.
    pub fn ln_pattern(&self, counts: &[u32]) -> f64 {
        let Some(column) = Column::new(&self.sources, counts) else {
            return f64::INFINITY;
        };
        if counts.iter().map(|&n| u64::from(n)).sum::<u64>() == 1 {
            return self.ln_private(column.pivot());
        }
        if let Some(sum) = table::sum(&self.tables, counts, self.total) {
            return sum.ln();
        }
        column.ln_integral()
    }

    /// `ln A(e_j)`: log expected number of columns whose only one is at a given row of source `j`; `-inf` if it has no rows.
    pub fn ln_private(&self, j: usize) -> f64 {
        if self.rows[j] == 0 {
            return f64::NEG_INFINITY;
        }
        // given the other rows are empty, this one has a one with probability al b / (al + N-1), out of al (1-b) + N-1 where it
        // is empty too
        let (al, others, rule) = (self.concentration[j], (self.rows[j] - 1) as f64, rule(self.level));
        let at = |i: usize| rule.weight[i] * rule.b[i] * self.empty_at(i) * (al / (al * rule.rest[i] + others));
        (0..rule.b.len()).map(at).sum::<f64>().ln()
    }

    /// `ln(L(b;n)/b)`: log density of the weight of a column with `n_j` ones in source `j`, integral `A(n)`.
    ///
    /// # Panics
    /// As [`ln_pattern`](Self::ln_pattern).
    pub fn ln_weight(&self, b: f64, counts: &[u32]) -> f64 {
        Column::new(&self.sources, counts).map_or_else(|| self.ln_empty(b) - b.ln(), |column| column.ln_density(b))
    }

    /// An exact, independent draw of the weight of a column with these ones; 0 without a one, where the density has no integral.
    ///
    /// # Panics
    /// As [`ln_pattern`](Self::ln_pattern).
    pub fn draw_weight<R: Rng + ?Sized>(&self, counts: &[u32], rng: &mut R) -> f64 {
        Column::new(&self.sources, counts).map_or(0.0, |column| column.draw(rng))
    }

    /// The largest weight below `below` of a column without ones, by thinning the sticks; 0 where it is below 1e-300.
    pub fn next_empty<R: Rng + ?Sized>(&self, below: f64, tau: f64, rng: &mut R) -> f64 {
        let mut b = below;
        loop {
            b *= (open01(rng).ln() / tau).exp();
            if b < NO_WEIGHT {
                return 0.0;
            }
            let spare: f64 = Exp1.sample(rng);
            if spare >= -self.ln_empty(b) {
                return b;
            }
        }
    }

    /// The factor of `L(b;n)` that belongs to source `j`, as a logarithm, with concentration `value`.
    ///
    /// # Panics
    /// If there are more ones than rows.
    pub fn ln_counts_given(&self, j: usize, value: f64, b: f64, n: u32) -> f64 {
        let (rows, n) = (self.rows[j], u64::from(n));
        assert!(n <= rows, "more ones than rows");
        ln_rise(value * b, n) + ln_rise(value * (1.0 - b), rows - n) - ln_rise(value, rows)
    }

    /// Expected number of columns without ones so far that a new row of source `j` has.
    pub fn tail_activity(&self, j: usize) -> f64 {
        let rule = rule(self.level);
        let empty: f64 = (0..rule.b.len()).map(|i| rule.weight[i] * rule.b[i] * self.empty_at(i)).sum();
        self.concentration[j] / (self.concentration[j] + self.rows[j] as f64) * empty
    }

    /// Expected number of columns with ones in each of these sources and in no other; infinite for no source.
    ///
    /// # Panics
    /// If there is not one flag a source.
    pub fn used_by_exactly(&self, sources: &[bool]) -> f64 {
        assert_eq!(sources.len(), self.rows.len(), "one flag a source");
        if !sources.contains(&true) {
            return f64::INFINITY;
        }
        let rule = rule(self.level);
        let share =
            |i: usize| self.nodes.iter().zip(sources).map(|(at, &used)| if used { at.used[i] } else { at.empty[i] }).product::<f64>();
        (0..rule.b.len()).map(|i| rule.weight[i] * share(i)).sum()
    }

    /// Expected number of columns with ones in source `a` and in source `b`.
    pub fn used_by_both(&self, a: usize, b: usize) -> f64 {
        let share = |i: usize| if a == b { self.nodes[a].used[i] } else { self.nodes[a].used[i] * self.nodes[b].used[i] };
        rule(self.level).weight.iter().enumerate().map(|(i, weight)| weight * share(i)).sum()
    }
}

#[cfg(test)]
mod tests;
