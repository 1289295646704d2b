//! Births and deaths of features in small groups of rows.
//!
//! Rows of a block are dealt into groups, whatever the state. A feature is local to a group if no other row uses it; local features are
//! integrated out, as are their probabilities of use, and the rows of the group are scanned one after the other: which local features a row
//! shares with others of its group, then how many it has to itself. Every other feature stays. Groups know nothing of each other: what is local to
//! one is used by no row of another.

use rand::Rng;
use rand::seq::SliceRandom;

use super::super::codes::Codes;
use super::ask::{Groups, Stats, View};
use super::rows::Entries;
use super::{MOST_OF_A_ROW, name};
use crate::linalg::mul_t;
use crate::model::ranks::rank;
use crate::run::{List, Philox, Sum, open01};
use crate::special::sigmoid;

/// A feature of the group: who uses it.
#[derive(Debug, Clone)]
struct Column {
    id: u64,
    /// Its place among those that all rows know of; none if it is new.
    known: Option<usize>,
    on: Vec<bool>,
}

pub(super) fn visit(
    groups: &Groups<'_>,
    view: &View,
    entries: &Entries<'_>,
    first: u64,
    codes: &mut Codes,
    rng: &mut Philox,
    stats: &mut Stats,
) {
    let n = codes.rows();
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(rng);
    let size = groups.size.max(1) as usize;
    let taken = if groups.single { size.min(n) } else { n };
    let mut changes = vec![0.0; view.count()];
    let mut born: Vec<(u64, Vec<usize>)> = Vec::new();
    let mut room = groups.room;
    for members in order[..taken].chunks(size) {
        let mut group = Group::new(groups, view, entries, codes, members);
        let refused = group.scan(groups, view, first, &mut room, rng);
        stats.refused.0 += u64::from(refused);
        for &k in &group.local {
            for &i in members {
                if codes.has(i, k) {
                    codes.set(i, k, false);
                    changes[k] -= 1.0;
                }
            }
        }
        for column in group.columns {
            let rows = || members.iter().zip(&column.on).filter(|(_, on)| **on).map(|(&i, _)| i);
            match column.known {
                Some(k) => rows().for_each(|i| {
                    codes.set(i, k, true);
                    changes[k] += 1.0;
                }),
                None => born.push((column.id, rows().collect())),
            }
        }
    }
    stats.uses = Sum(changes);
    stats.born = List(born.iter().map(|(id, rows)| (*id, rows.len() as u64)).collect());
    codes.append(&born.iter().map(|b| b.0).collect::<Vec<_>>());
    for (at, (_, rows)) in born.iter().enumerate() {
        rows.iter().for_each(|&i| codes.set(i, view.count() + at, true));
    }
}

/// Rows of a group, with the features that they alone use.
struct Group<'a> {
    members: &'a [usize],
    /// Inner products of what rows leave unexplained by the features that others use too.
    gram: Vec<f64>,
    columns: Vec<Column>,
    /// Places of the features that were local at first.
    local: Vec<usize>,
}

impl<'a> Group<'a> {
    fn new(groups: &Groups<'_>, view: &View, entries: &Entries<'_>, codes: &Codes, members: &'a [usize]) -> Self {
        let mut here = vec![0; view.count()];
        members.iter().for_each(|&i| codes.for_used(i, |k| here[k] += 1));
        let is_local = |k: usize| here[k] > 0 && here[k] == groups.uses[k];
        let local: Vec<usize> = (0..view.count()).filter(|&k| is_local(k)).collect();
        let column = |&k: &usize| Column { id: codes.ids()[k], known: Some(k), on: members.iter().map(|&i| codes.has(i, k)).collect() };
        let columns = local.iter().map(column).collect();
        let (b, width) = (members.len(), view.intercept.len());
        let mut all = Vec::with_capacity(b * width);
        let mut row = Vec::new();
        for &i in members {
            entries.residual(view, codes, i, |k| !is_local(k), &mut row);
            all.extend_from_slice(&row);
        }
        let mut gram = vec![0.0; b * b];
        if width > 0 {
            mul_t(&all, &all, &mut gram, b, width, b, false);
        }
        Self { members, gram, columns, local }
    }

    /// Scans the rows; whether births were refused.
    fn scan(&mut self, groups: &Groups<'_>, view: &View, first: u64, room: &mut u64, rng: &mut Philox) -> bool {
        let mut refused = false;
        for at in 0..self.members.len() {
            refused |= self.update(at, groups, view, first + self.members[at] as u64, room, rng);
        }
        refused
    }

    fn update(&mut self, at: usize, groups: &Groups<'_>, view: &View, row: u64, room: &mut u64, rng: &mut Philox) -> bool {
        let (b, width) = (self.members.len(), view.intercept.len() as f64);
        let ridge = view.noise / groups.spread;
        let others = |c: &Column| c.on.iter().enumerate().filter(|(o, on)| *o != at && **on).count() as u64;
        let before = self.columns.len();
        self.columns.retain(|c| others(c) > 0);
        let private = before - self.columns.len();
        let kept = self.columns.len();
        let own = self.gram[at * b + at];
        // the density of the row given the features that it shares, features integrated out
        let mut shared = Shared::default();
        if kept > 0 {
            let uses: Vec<u64> = self.columns.iter().map(&others).collect();
            let mut known = Known::of(&self.columns, &self.gram, at, ridge);
            for (k, column) in self.columns.iter().enumerate() {
                if column.on[at] {
                    known.turn(k, &mut shared);
                }
            }
            let mut order: Vec<usize> = (0..kept).collect();
            order.sort_by_key(|&k| rank(groups.salt, self.columns[k].id, row));
            for k in order {
                let now = shared;
                let mut then = now;
                known.look(k, &mut then);
                let (with, without) = if known.on[k] { (now, then) } else { (then, now) };
                let (m, n) = (uses[k] as f64, groups.rows as f64);
                let ln_odds = (m - groups.discount).ln() - (n - 1.0 - m + groups.level).ln()
                    + with.ln_density(own, private, view.noise, groups.spread, width)
                    - without.ln_density(own, private, view.noise, groups.spread, width);
                let on = open01(rng) < sigmoid(ln_odds);
                if on != known.on[k] {
                    known.turn(k, &mut shared);
                }
            }
            for (column, on) in self.columns.iter_mut().zip(known.on) {
                column.on[at] = on;
            }
        }
        let most = (private as u64 + *room).min(MOST_OF_A_ROW) as usize;
        let count = tilted_poisson(groups.private, most, |j| shared.ln_density(own, j, view.noise, groups.spread, width), rng);
        *room = (*room + private as u64).saturating_sub(count as u64);
        for seq in 0..count {
            let mut on = vec![false; b];
            on[at] = true;
            self.columns.push(Column { id: name(groups.sweep, row, seq as u64), known: None, on });
        }
        count == most
    }
}

/// What the features that a row shares with others of its group say of it.
#[derive(Debug, Clone, Copy, Default)]
struct Shared {
    /// zᵀQz.
    doubt: f64,
    /// z·a.
    along: f64,
    /// zᵀFz.
    square: f64,
}

impl Shared {
    /// Log density of the row, up to a constant.
    fn ln_density(&self, own: f64, private: usize, noise: f64, spread: f64, width: f64) -> f64 {
        let variance = noise * (1.0 + self.doubt) + private as f64 * spread;
        -0.5 * width * variance.ln() - (own - 2.0 * self.along + self.square) / (2.0 * variance)
    }
}

/// What the other rows of a group say of its features: Q = (ZᵀZ + ridge)⁻¹, a = Q Zᵀ G, F = Q Zᵀ G Z Q.
struct Known {
    precision: Vec<f64>,
    mean: Vec<f64>,
    second: Vec<f64>,
    /// Which the row uses, and Qz and Fz for these.
    on: Vec<bool>,
    qz: Vec<f64>,
    fz: Vec<f64>,
}

impl Known {
    fn of(columns: &[Column], gram: &[f64], at: usize, ridge: f64) -> Self {
        let (k, b) = (columns.len(), columns[0].on.len());
        let users: Vec<Vec<usize>> = columns.iter().map(|c| (0..b).filter(|&o| o != at && c.on[o]).collect()).collect();
        let mut together = vec![0.0; k * k];
        // Zᵀ G, one feature a row
        let mut sums = vec![0.0; k * b];
        for c in 0..k {
            for &o in &users[c] {
                sums[c * b..][..b].iter_mut().zip(&gram[o * b..][..b]).for_each(|(s, g)| *s += g);
                (0..k).for_each(|d| together[c * k + d] += f64::from(u8::from(columns[d].on[o])));
            }
            together[c * k + c] += ridge;
        }
        let precision = inverse(&together, k);
        let times = |a: &[f64], b: &[f64]| -> Vec<f64> {
            (0..k * k).map(|at| (0..k).map(|l| a[at / k * k + l] * b[l * k + at % k]).sum()).collect()
        };
        let inner: Vec<f64> = (0..k * k).map(|at| users[at % k].iter().map(|&o| sums[at / k * b + o]).sum()).collect();
        let second = times(&times(&precision, &inner), &precision);
        let mean = (0..k).map(|c| (0..k).map(|d| precision[c * k + d] * sums[d * b + at]).sum()).collect();
        Self { precision, mean, second, on: vec![false; k], qz: vec![0.0; k], fz: vec![0.0; k] }
    }

    /// What would be if the row took the feature up, or put it down.
    fn look(&self, k: usize, shared: &mut Shared) {
        let count = self.on.len();
        let sign = if self.on[k] { -1.0 } else { 1.0 };
        shared.doubt += 2.0 * sign * self.qz[k] + self.precision[k * count + k];
        shared.along += sign * self.mean[k];
        shared.square += 2.0 * sign * self.fz[k] + self.second[k * count + k];
    }

    fn turn(&mut self, k: usize, shared: &mut Shared) {
        self.look(k, shared);
        let count = self.on.len();
        let sign = if self.on[k] { -1.0 } else { 1.0 };
        self.on[k] = !self.on[k];
        for l in 0..count {
            self.qz[l] += sign * self.precision[k * count + l];
            self.fz[l] += sign * self.second[k * count + l];
        }
    }
}

/// Inverse of a small positive definite matrix, by its Cholesky factor.
fn inverse(a: &[f64], n: usize) -> Vec<f64> {
    let mut l = a.to_vec();
    for j in 0..n {
        for i in j..n {
            let dot: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let value = l[i * n + j] - dot;
            l[i * n + j] = if i == j { value.max(f64::MIN_POSITIVE).sqrt() } else { value / l[j * n + j] };
        }
    }
    // L⁻¹
    let mut back = vec![0.0; n * n];
    for j in 0..n {
        back[j * n + j] = 1.0 / l[j * n + j];
        for i in j + 1..n {
            let dot: f64 = (j..i).map(|k| l[i * n + k] * back[k * n + j]).sum();
            back[i * n + j] = -dot / l[i * n + i];
        }
    }
    let entry = |i: usize, j: usize| (i.max(j)..n).map(|k| back[k * n + i] * back[k * n + j]).sum();
    (0..n * n).map(|at| entry(at / n, at % n)).collect()
}

/// A draw of j = 0, 1, … up to `most` with weight rate^j / j! · e^tilt(j). The tilt must be bounded.
pub(super) fn tilted_poisson<R: Rng + ?Sized>(rate: f64, most: usize, tilt: impl Fn(usize) -> f64, rng: &mut R) -> usize {
    let ln_rate = rate.ln();
    let (mut weights, mut best, mut ln_factorial) = (Vec::new(), f64::NEG_INFINITY, 0.0);
    for j in 0..=most {
        if j > 0 {
            ln_factorial += (j as f64).ln();
        }
        let weight = if j == 0 { 0.0 } else { j as f64 * ln_rate } - ln_factorial + tilt(j);
        best = weight.max(best);
        weights.push(weight);
        if j as f64 > rate + 5.0 && weight < best - 40.0 {
            break;
        }
    }
    let total: f64 = weights.iter().map(|w| (w - best).exp()).sum();
    let mut left = open01(rng) * total;
    for (j, w) in weights.iter().enumerate() {
        left -= (w - best).exp();
        if left < 0.0 {
            return j;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    /// The published probabilities of the number of private features, from 200,000 draws.
    #[test]
    fn private_features_have_their_distribution() {
        let mut rng = SmallRng::seed_from_u64(2);
        let density = |j: usize| Shared::default().ln_density(1.2f64.powi(2) + 0.4f64.powi(2), j, 0.25, 1.0, 2.0);
        for (rate, told) in
            [(0.4, [0.453558707, 0.469372206, 0.069311854, 0.007137695]), (0.83776, [0.249327685, 0.540398326, 0.167133600, 0.036047392])]
        {
            let n = 200_000;
            let mut counts = [0.0; 60];
            (0..n).for_each(|_| counts[tilted_poisson(rate, 50, density, &mut rng)] += 1.0 / n as f64);
            for (found, told) in counts.iter().zip(told) {
                assert!((found - told).abs() < 4.0 * (told * (1.0 - told) / n as f64).sqrt(), "{found} {told}");
            }
        }
        assert!((0..100).all(|_| tilted_poisson(30.0, 2, |_| 0.0, &mut rng) <= 2));
    }

    /// What the sums say of a row is its distance to the mean that the other rows predict, and that mean's doubt.
    #[test]
    fn sums_are_those_of_the_predicted_mean() {
        let (rows, width, ridge, at) = (4, 3, 0.7, 2);
        let left: Vec<f64> = (0..rows * width).map(|i| ((i * i * 7 + 3 * i) % 11) as f64 / 4.0 - 1.2).collect();
        let mut gram = vec![0.0; rows * rows];
        mul_t(&left, &left, &mut gram, rows, width, rows, false);
        let users = [[true, true, false, false], [true, false, true, true], [false, true, true, false]];
        let columns: Vec<Column> = users.iter().map(|on| Column { id: 0, known: None, on: on.to_vec() }).collect();
        let mut known = Known::of(&columns, &gram, at, ridge);
        // Q and the means of the features, from the other rows
        let others: Vec<usize> = (0..rows).filter(|&o| o != at).collect();
        let z = |o: usize, c: usize| f64::from(u8::from(users[c][o]));
        let together: Vec<f64> = (0..9)
            .map(|i| others.iter().map(|&o| z(o, i / 3) * z(o, i % 3)).sum::<f64>() + if i / 3 == i % 3 { ridge } else { 0.0 })
            .collect();
        let q = inverse(&together, 3);
        let mean = |c: usize, j: usize| -> f64 {
            (0..3).map(|d| q[c * 3 + d] * others.iter().map(|&o| z(o, d) * left[o * width + j]).sum::<f64>()).sum()
        };
        let mut shared = Shared::default();
        for turned in [0, 2, 1, 0, 1] {
            known.turn(turned, &mut shared);
            let used: Vec<usize> = (0..3).filter(|&c| known.on[c]).collect();
            let distance: f64 = (0..width).map(|j| (left[at * width + j] - used.iter().map(|&c| mean(c, j)).sum::<f64>()).powi(2)).sum();
            let doubt: f64 = used.iter().flat_map(|&c| used.iter().map(move |&d| (c, d))).map(|(c, d)| q[c * 3 + d]).sum();
            let own = gram[at * rows + at];
            assert!((own - 2.0 * shared.along + shared.square - distance).abs() < 1e-12, "{used:?}");
            assert!((shared.doubt - doubt).abs() < 1e-13, "{used:?}");
        }
    }

    #[test]
    fn a_small_inverse() {
        let a = [2.0, 0.3, -0.4, 0.3, 1.0, 0.1, -0.4, 0.1, 3.0];
        let b = inverse(&a, 3);
        for i in 0..3 {
            for j in 0..3 {
                let entry: f64 = (0..3).map(|k| a[i * 3 + k] * b[k * 3 + j]).sum();
                assert!((entry - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
    }
}
