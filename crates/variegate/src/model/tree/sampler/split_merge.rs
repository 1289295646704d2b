//! One atom becomes two, or two become one.
//!
//! The state is (paths, atoms of rows, tables), weights and parameters integrated out. Two rows i, j are picked. If they share an atom, they
//! part, and its other rows join them in random order with probability proportional to `|side| * predictive(row | side)`; else
//! their atoms are merged, and the same probabilities are worked out for the sides as they are. Tables of an atom that
//! is new are proposed bottom-up, `CRT(n_z, a)` with the reference `a = mean(gamma) N_k/(N + gamma0)`. The log weight of a state is
//! `K ln gamma0 - lgamma(gamma0 + M.) + sum_k lgamma(M_k) + sum_z [t_z. ln gamma - lgamma(gamma + n_z.)] + sum_k ln m(X_k)`, that of proposed
//! tables `sum_z [t_z ln a - ln a (a+1) .. (a+n_z-1)]`: the Stirling numbers of both cancel.

use rand::RngExt;

use super::super::arena::ROOT;
use super::super::draw::{ln_rising, tables};
use super::super::state::column;
use super::Sampler;
use crate::run::{Philox, open01};
use crate::special::ln_gamma;

/// Customers and tables of one atom, by node.
struct Dish {
    customers: Vec<u32>,
    tables: Vec<u32>,
    ln_proposal: f64,
}

/// Two sides of an atom: which rows are on the second, statistics, sizes, and the log probability of the way there.
struct Sides {
    second: Vec<bool>,
    stats: [Vec<f64>; 2],
    size: [u32; 2],
    ln_probability: f64,
}

impl Sampler<'_> {
    /// One try. Nothing in a finite mixture, or with a single row.
    pub(in super::super) fn split_or_merge(&mut self, rng: &mut Philox) -> bool {
        let rows = self.rows();
        if self.state.finite || rows < 2 {
            return false;
        }
        let i = rng.random_range(0..rows);
        let j = (i + rng.random_range(1..rows)) % rows;
        let (a, b) = (self.state.atom[i], self.state.atom[j]);
        let mut others: Vec<usize> = (0..rows).filter(|&n| n != i && n != j && [a, b].contains(&self.state.atom[n])).collect();
        for at in (1..others.len()).rev() {
            others.swap(at, rng.random_range(0..=at));
        }
        if a == b { self.split(a, i, j, &others, rng) } else { self.merge(a, b, i, j, &others, rng) }
    }

    fn split(&mut self, atom: u32, i: usize, j: usize, others: &[usize], rng: &mut Philox) -> bool {
        let sides = self.allocate(i, j, others, |_, p| open01(rng) >= p);
        let mut leaves = [vec![0; self.state.arena.slots()], vec![0; self.state.arena.slots()]];
        leaves[0][self.state.leaf[i] as usize] += 1;
        leaves[1][self.state.leaf[j] as usize] += 1;
        others.iter().zip(&sides.second).for_each(|(&n, &second)| leaves[usize::from(second)][self.state.leaf[n] as usize] += 1);
        let [first, second] = leaves;
        let first = self.propose_tables(first, sides.size[0], rng);
        let second = self.propose_tables(second, sides.size[1], rng);
        let union = self.present_dish(atom, sides.size[0] + sides.size[1]);

        let likelihood =
            self.kernel.ln_marginal(&sides.stats[0]) + self.kernel.ln_marginal(&sides.stats[1]) - self.kernel.ln_marginal(self.stats(atom));
        let proposals = union.ln_proposal - first.ln_proposal - second.ln_proposal - sides.ln_probability;
        let ratio = self.ln_ratio(&[&union], &[&first, &second]) + likelihood + proposals;
        if open01(rng).ln() >= ratio {
            return false;
        }
        let new = self.new_atom();
        let (slots, width) = (self.state.arena.slots(), column(new) + 1);
        self.work.customers.fit(slots, width);
        self.work.tables.fit(slots, width);
        self.put_dish(atom, &first);
        self.put_dish(new, &second);
        self.state.atom[j] = new;
        others.iter().zip(&sides.second).filter(|(_, second)| **second).for_each(|(&n, _)| self.state.atom[n] = new);
        self.put_atom(atom, &sides.stats[0], sides.size[0]);
        self.put_atom(new, &sides.stats[1], sides.size[1]);
        true
    }

    fn merge(&mut self, a: u32, b: u32, i: usize, j: usize, others: &[usize], rng: &mut Philox) -> bool {
        let atoms = &self.state.atom;
        let sides = self.allocate(i, j, others, |n, _| atoms[n] == b);
        let mut leaves = vec![0; self.state.arena.slots()];
        others.iter().chain([&i, &j]).for_each(|&n| leaves[self.state.leaf[n] as usize] += 1);
        let size = sides.size[0] + sides.size[1];
        let union = self.propose_tables(leaves, size, rng);
        let (first, second) = (self.present_dish(a, sides.size[0]), self.present_dish(b, sides.size[1]));

        let mut stats = self.stats(a).to_vec();
        stats.iter_mut().zip(self.stats(b)).for_each(|(a, b)| *a += b);
        let likelihood = self.kernel.ln_marginal(&stats) - self.kernel.ln_marginal(self.stats(a)) - self.kernel.ln_marginal(self.stats(b));
        let proposals = first.ln_proposal + second.ln_proposal + sides.ln_probability - union.ln_proposal;
        let ratio = self.ln_ratio(&[&first, &second], &[&union]) + likelihood + proposals;
        if open01(rng).ln() >= ratio {
            return false;
        }
        let none = Dish { customers: vec![0; union.customers.len()], tables: vec![0; union.tables.len()], ln_proposal: 0.0 };
        self.put_dish(a, &union);
        self.put_dish(b, &none);
        self.state.atom.iter_mut().filter(|k| **k == b).for_each(|k| *k = a);
        self.put_atom(a, &stats, size);
        self.put_atom(b, &vec![0.0; stats.len()], 0);
        self.state.give_back(b);
        true
    }

    /// Rows join the side of i or of j, in their order; `second(row, p)` says who joins j's, `p` being the probability of i's.
    fn allocate(&self, i: usize, j: usize, others: &[usize], mut second: impl FnMut(usize, f64) -> bool) -> Sides {
        let mut stats = [i, j].map(|n| {
            let mut stats = vec![0.0; self.kernel.statistics()];
            self.kernel.add(&mut stats, self.row(n), 1.0);
            stats
        });
        let mut prepared = [self.kernel.prepare(&stats[0]), self.kernel.prepare(&stats[1])];
        let mut sides = Sides { second: Vec::with_capacity(others.len()), stats: [vec![], vec![]], size: [1, 1], ln_probability: 0.0 };
        for &n in others {
            let row = self.row(n);
            let side = |s: usize| f64::from(sides.size[s]).ln() + self.kernel.ln_predictive_prepared(&prepared[s], row);
            let odds = side(1) - side(0);
            let joins = second(n, 1.0 / (1.0 + odds.exp()));
            sides.ln_probability -= if joins { (-odds).exp().ln_1p() } else { odds.exp().ln_1p() };
            let s = usize::from(joins);
            sides.second.push(joins);
            sides.size[s] += 1;
            self.kernel.add(&mut stats[s], row, 1.0);
            self.kernel.refresh(&stats[s], row, 1.0, &mut prepared[s]);
        }
        sides.stats = stats;
        sides
    }

    /// The deterministic concentration with which tables of an atom of so many rows are proposed.
    fn reference(&self, size: u32) -> f64 {
        let c = &self.state.concentrations;
        let gamma = c.gamma.iter().sum::<f64>() / c.gamma.len() as f64;
        gamma * f64::from(size) / (self.rows() as f64 + c.gamma0)
    }

    /// Tables for rows at these leaves.
    fn propose_tables(&self, leaves: Vec<u32>, size: u32, rng: &mut Philox) -> Dish {
        let a = self.reference(size);
        let mut dish = Dish { tables: vec![0; leaves.len()], customers: leaves, ln_proposal: 0.0 };
        let arena = &self.state.arena;
        for level in (1..=arena.depth()).rev() {
            for &node in arena.at_level(level) {
                let n = dish.customers[node as usize];
                if n > 0 {
                    let t = tables(n, a, rng);
                    dish.tables[node as usize] = t;
                    dish.customers[arena.parent(node) as usize] += t;
                    dish.ln_proposal += f64::from(t) * a.ln() - ln_rising(a, n);
                }
            }
        }
        dish
    }

    /// The tables that an atom has, and how probable they would be as a proposal.
    fn present_dish(&self, atom: u32, size: u32) -> Dish {
        let a = self.reference(size);
        let slots = self.state.arena.slots();
        let mut dish = Dish { customers: vec![0; slots], tables: vec![0; slots], ln_proposal: 0.0 };
        for node in self.state.arena.nodes() {
            let n = self.work.customers.row(node)[column(atom)];
            dish.customers[node as usize] = n;
            if node != ROOT && n > 0 {
                let t = self.work.tables.row(node)[column(atom)];
                dish.tables[node as usize] = t;
                dish.ln_proposal += f64::from(t) * a.ln() - ln_rising(a, n);
            }
        }
        dish
    }

    /// Log weight of the tables after the change less that before, without the likelihood.
    fn ln_ratio(&self, before: &[&Dish], after: &[&Dish]) -> f64 {
        let c = &self.state.concentrations;
        let sum = |dishes: &[&Dish], f: &dyn Fn(&Dish) -> u32| f64::from(dishes.iter().map(|d| f(d)).sum::<u32>());
        let total = |row: &[u32]| f64::from(row[1..].iter().sum::<u32>());
        let mut ratio = (after.len() as f64 - before.len() as f64) * c.gamma0.ln();
        for node in self.state.arena.nodes() {
            let z = node as usize;
            let customers = |d: &Dish| d.customers[z];
            let n = total(self.work.customers.row(node));
            let n_after = n - sum(before, &customers) + sum(after, &customers);
            if node == ROOT {
                ratio += ln_gamma(c.gamma0 + n) - ln_gamma(c.gamma0 + n_after);
                let alone = |dishes: &[&Dish]| dishes.iter().map(|d| ln_gamma(f64::from(d.customers[z]))).sum::<f64>();
                ratio += alone(after) - alone(before);
            } else {
                let gamma = c.gamma[self.state.arena.level(node) - 1];
                let tables = |d: &Dish| d.tables[z];
                ratio += (sum(after, &tables) - sum(before, &tables)) * gamma.ln();
                if n_after != n {
                    ratio += ln_gamma(gamma + n) - ln_gamma(gamma + n_after);
                }
            }
        }
        ratio
    }

    fn put_dish(&mut self, atom: u32, dish: &Dish) {
        for node in self.state.arena.nodes() {
            self.work.customers.row_mut(node)[column(atom)] = dish.customers[node as usize];
            self.work.tables.row_mut(node)[column(atom)] = dish.tables[node as usize];
        }
    }

    fn put_atom(&mut self, atom: u32, stats: &[f64], size: u32) {
        let at = atom as usize * stats.len();
        self.work.stats[at..][..stats.len()].copy_from_slice(stats);
        self.kernel.prepare_into(stats, &mut self.work.prepared[column(atom)]);
        self.state.size[atom as usize] = size;
    }
}
