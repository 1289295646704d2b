//! What a block of rows does when it is asked.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::super::codes::{Codes, for_ones};
use super::ask::{Ask, Change, Gathered, Holder, Question, Stats, Sums, View};
use super::groups;
use super::split_merge::lean;
use crate::data::X;
use crate::linalg::{dot_long, gram_of, mul_t, t_mul};
use crate::model::ranks::{Part, key, ln_side, rank_of, within};
use crate::run::{Block, Least, List, Philox, Stream, Sum, open01};
use crate::special::sigmoid;
use crate::{Error, Result};

/// What a block keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Local {
    /// Which rows use which features.
    pub codes: Codes,
    /// What stands in for missing entries.
    pub filled: Vec<f64>,
    /// Logarithm of the height of each row's slice.
    #[serde(skip)]
    pub heights: Vec<f64>,
    /// Rows that the attempt to split a feature which is under way has dealt to its second side.
    #[serde(skip)]
    pub dealt: Vec<u32>,
}

/// Buffers of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<f64>,
    products: Vec<f64>,
    rest: Vec<f64>,
    numbers: Vec<f64>,
    row: Vec<f64>,
    keys: Vec<u64>,
    free: Vec<u32>,
    bounds: Vec<f64>,
}

/// Above this a log odds decides whatever the random number is.
const CERTAIN: f64 = 38.0;

/// Whether something of these log odds happens.
#[inline]
pub(in crate::model::features) fn happens(ln_odds: f64, rng: &mut Philox) -> bool {
    if ln_odds.abs() > CERTAIN { ln_odds > 0.0 } else { open01(rng) < sigmoid(ln_odds) }
}

/// Entries of a block, what stands in for the missing ones in their place, and what one unit of the model is.
#[derive(Clone, Copy)]
pub(in crate::model::features) struct Entries<'a> {
    pub(in crate::model::features) x: X<'a>,
    pub(in crate::model::features) per_unit: f64,
}

impl<'a> Entries<'a> {
    fn of(x: X<'a>, scale: f64, filled: &[f64], values: &'a mut Vec<f64>) -> Self {
        let per_unit = 1.0 / scale;
        if filled.is_empty() {
            return Self { x, per_unit };
        }
        let fill = |from: &[f64], values: &mut Vec<f64>| {
            let mut filled = filled.iter();
            values.clear();
            values.extend(from.iter().map(|&v| if v.is_nan() { filled.next().map_or(0.0, |f| f * scale) } else { v }));
        };
        match x {
            X::Dense { rows, cols, values: from } => {
                fill(from, values);
                Self { x: X::Dense { rows, cols, values }, per_unit }
            }
            X::Csr { cols, indptr, indices, values: from } => {
                fill(from, values);
                Self { x: X::Csr { cols, indptr, indices, values }, per_unit }
            }
        }
    }

    /// Inner products of all rows with all features.
    pub(in crate::model::features) fn products(&self, view: &View, out: &mut Vec<f64>) {
        let (n, count) = (self.x.rows(), view.count());
        out.clear();
        out.resize(n * count, 0.0);
        if count == 0 {
            return;
        }
        match self.x {
            X::Dense { cols, values, .. } => mul_t(values, &view.weights, out, n, cols, count, false),
            X::Csr { .. } => {
                for (i, out) in out.chunks_exact_mut(count).enumerate() {
                    self.x.for_row(i, |j, v| {
                        out.iter_mut().zip(&view.by_column[j * count..][..count]).for_each(|(o, w)| *o += v * w);
                    });
                }
            }
        }
        if self.per_unit != 1.0 {
            out.iter_mut().for_each(|v| *v *= self.per_unit);
        }
    }

    /// A row, in units of the model.
    pub(in crate::model::features) fn row(&self, i: usize, out: &mut Vec<f64>) {
        out.clear();
        match self.x {
            X::Dense { cols, values, .. } => out.extend(values[i * cols..][..cols].iter().map(|v| v * self.per_unit)),
            X::Csr { .. } => {
                out.resize(self.x.cols(), 0.0);
                self.x.for_row(i, |j, v| out[j] = v * self.per_unit);
            }
        }
    }

    /// What a row leaves unexplained by the intercept and those of its features that are counted.
    pub(super) fn residual(&self, view: &View, codes: &Codes, i: usize, counted: impl Fn(usize) -> bool, out: &mut Vec<f64>) {
        self.row(i, out);
        out.iter_mut().zip(&view.intercept).for_each(|(o, b)| *o -= b);
        // two features at a time: the row is read and written half as often
        let mut waiting = None;
        codes.for_used(i, |k| {
            if counted(k) {
                match waiting.take() {
                    None => waiting = Some(k),
                    Some(j) => out.iter_mut().zip(view.weight(j)).zip(view.weight(k)).for_each(|((o, v), w)| *o = *o - v - w),
                }
            }
        });
        if let Some(k) = waiting {
            out.iter_mut().zip(view.weight(k)).for_each(|(o, w)| *o -= w);
        }
    }

    fn sums(&self, codes: &Codes, numbers: &mut Vec<f64>) -> Sums {
        let (n, count, width) = (self.x.rows(), codes.ids().len(), self.x.cols());
        let mut all = vec![0.0; width];
        let mut squares = 0.0;
        match self.x {
            X::Dense { .. } => {
                let mut row = Vec::new();
                for i in 0..n {
                    self.row(i, &mut row);
                    all.iter_mut().zip(&row).for_each(|(a, v)| *a += v);
                    squares += dot_long(&row, &row);
                }
            }
            X::Csr { .. } => {
                for i in 0..n {
                    self.x.for_row(i, |j, v| {
                        let v = v * self.per_unit;
                        all[j] += v;
                        squares += v * v;
                    });
                }
            }
        }
        let mut out = Sums { all: Sum(all), squares: Sum(squares), ..Sums::default() };
        if count == 0 {
            return out;
        }
        let (mut entries, mut together) = (vec![0.0; count * width], vec![0.0; count * count]);
        codes.numbers(numbers);
        gram_of(numbers, numbers, &mut together, n, count);
        let ones: f64 = (0..count).map(|k| together[k * count + k]).sum();
        match self.x {
            // adding the rows up one by one takes less than a product where few features are used
            X::Dense { values, cols, .. } if ones * FEW < (n * count) as f64 => {
                for (i, row) in values.chunks_exact(cols).enumerate() {
                    codes.for_used(i, |k| entries[k * cols..][..cols].iter_mut().zip(row).for_each(|(e, v)| *e += v));
                }
            }
            X::Dense { values, cols, .. } => t_mul(numbers, values, &mut entries, n, count, cols, false),
            X::Csr { .. } => {
                for i in 0..n {
                    codes.for_used(i, |k| self.x.for_row(i, |j, v| entries[k * width + j] += v));
                }
            }
        }
        if self.per_unit != 1.0 {
            entries.iter_mut().for_each(|v| *v *= self.per_unit);
        }
        out.entries = Sum(entries);
        out.together = Sum(together);
        out
    }
}

/// One use of a feature in so many makes it rare.
const FEW: f64 = 8.0;

impl Change {
    /// Does it.
    fn apply(&self, first_row: u64, local: &mut Local) {
        let Local { codes, dealt, .. } = local;
        let rows = codes.rows();
        match self {
            Change::Toggle { feature, by } => {
                let Some(j) = codes.place(*by) else { return };
                let k = codes.column(*feature);
                (0..rows).for_each(|i| {
                    if codes.has(i, j) {
                        codes.set(i, k, !codes.has(i, k));
                    }
                });
            }
            Change::Complement(feature) => {
                let k = codes.column(*feature);
                (0..rows).for_each(|i| codes.set(i, k, !codes.has(i, k)));
            }
            Change::Exchange { from, to, rows: chosen } => {
                let (k, l) = (codes.column(*from), codes.column(*to));
                let mut exchange = |i: usize| {
                    if codes.has(i, k) {
                        codes.set(i, k, false);
                        codes.set(i, l, true);
                    }
                };
                match chosen {
                    None => (0..rows).for_each(exchange),
                    Some(chosen) => {
                        let (start, end) = within(chosen, first_row, rows);
                        chosen[start..end].iter().for_each(|row| exchange((row - first_row) as usize));
                        dealt.iter().for_each(|&i| exchange(i as usize));
                    }
                }
            }
            Change::Column { feature, rows: chosen } => {
                let k = codes.column(*feature);
                (0..rows).for_each(|i| codes.set(i, k, false));
                let (start, end) = within(chosen, first_row, rows);
                chosen[start..end].iter().for_each(|row| codes.set((row - first_row) as usize, k, true));
            }
        }
    }
}

pub(super) fn visit(
    scale: f64,
    ask: &Ask<'_>,
    block: &Block<'_>,
    local: &mut Local,
    scratch: &mut Scratch,
    stream: Stream,
) -> Result<Stats> {
    for change in ask.changes.iter() {
        change.apply(block.first_row, local);
    }
    // whatever became of the attempt, it is over
    let mut dealt = std::mem::take(&mut local.dealt);
    dealt.clear();
    local.codes.arrange(&ask.ids);
    let view = || ask.view.as_deref().ok_or_else(|| Error::Unfit("the rows were not told of the features".into()));
    let Local { codes, filled, heights, .. } = local;
    let Scratch { values, products, rest, numbers, row, keys, free, bounds } = scratch;
    let (n, first) = (block.rows(), block.first_row);
    let mut stats = Stats::default();
    let mut rng = stream.rng();
    match &ask.kind {
        Question::Nothing => {}
        Question::Begin { salt } => {
            if !filled.is_empty() {
                impute(view()?, block.x, codes, filled, row, &mut rng);
            }
            let mut least = vec![u64::MAX; ask.ids.len()];
            keys.clear();
            keys.extend(ask.ids.iter().map(|&id| key(*salt, id)));
            for i in 0..n {
                codes.for_used(i, |k| least[k] = least[k].min(rank_of(keys[k], first + i as u64)));
            }
            stats.owners = Least(least);
        }
        Question::ScanOwned { ln_odds, salt, owners, order, pairs, sums } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            keys.clear();
            keys.extend(ask.ids.iter().map(|&id| key(*salt, id)));
            entries.products(view, products);
            let flips = Flips::new(view, ln_odds, bounds);
            for i in 0..n {
                let q = flips.begin(products, codes, i, rest);
                let bits = codes.row_mut(i);
                let number = first + i as u64;
                free.clear();
                for &k in order.iter() {
                    let at = k as usize;
                    // the owner keeps its feature, and those of lower rank do not begin to use it
                    if rank_of(keys[at], number) > owners[at] {
                        flips.flip(at, 0.0, bits, q, &mut rng);
                        free.push(k);
                    }
                }
                if free.len() > 1 {
                    (0..*pairs).for_each(|_| flips.pair(free, bits, q, &mut rng));
                }
            }
            if *sums {
                stats.sums = entries.sums(codes, numbers);
            }
            stats.uses = Sum(codes.uses().iter().map(|&m| m as f64).collect());
        }
        Question::Heights { ln_on } => {
            let mut lowest = 0.0f64;
            heights.clear();
            for i in 0..n {
                let mut top = 0.0f64;
                codes.for_used(i, |k| top = top.min(ln_on[k]));
                let height = top + open01(&mut rng).ln();
                lowest = lowest.min(height);
                heights.push(height);
            }
            stats.lowest = Least(vec![lowest]);
        }
        Question::ScanHeights { ln_on, ln_odds, order } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            entries.products(view, products);
            let flips = Flips::new(view, ln_odds, bounds);
            for i in 0..n {
                let q = flips.begin(products, codes, i, rest);
                let bits = codes.row_mut(i);
                let mut last = order.iter().rposition(|&k| has(bits, k as usize));
                for (at, &k) in order.iter().enumerate().take_while(|(_, k)| ln_on[**k as usize] > heights[i]) {
                    let k = k as usize;
                    let other = if last == Some(at) { order[..at].iter().rposition(|&l| has(bits, l as usize)) } else { last };
                    let without = other.map_or(0.0, |l| ln_on[order[l] as usize]);
                    if flips.flip(k, without - without.min(ln_on[k]), bits, q, &mut rng) {
                        last = other.max(Some(at));
                    } else {
                        last = other;
                    }
                }
            }
            stats.uses = Sum(codes.uses().iter().map(|&m| m as f64).collect());
        }
        Question::ScanCounted { ln_on, ln_odds, order, uses } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            entries.products(view, products);
            let flips = Flips::new(view, ln_odds, bounds);
            let mut uses = uses.to_vec();
            for i in 0..n {
                let q = flips.begin(products, codes, i, rest);
                let bits = codes.row_mut(i);
                for &k in order.iter() {
                    let k = k as usize;
                    let others = uses[k] - u64::from(has(bits, k));
                    let mut lean = 0.0;
                    if others == 0 {
                        // the height is uniform below the smallest probability in use, which this entry may change
                        let least = order.iter().rev().find(|&&l| l as usize != k && uses[l as usize] > 0);
                        let without = least.map_or(0.0, |&l| ln_on[l as usize]);
                        lean = without - without.min(ln_on[k]);
                    }
                    uses[k] = others + u64::from(flips.flip(k, lean, bits, q, &mut rng));
                }
            }
            stats.uses = Sum(uses.iter().map(|&m| m as f64).collect());
        }
        Question::Sums => stats.sums = Entries::of(block.x, scale, filled, values).sums(codes, numbers),
        Question::Residual => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            let mut squares = 0.0;
            for i in 0..n {
                entries.residual(view, codes, i, |_| true, row);
                squares += dot_long(row, row);
            }
            stats.squares = Sum(squares);
        }
        Question::Groups(groups) => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            groups::visit(groups, view, &entries, first, codes, &mut rng, &mut stats);
        }
        Question::Lists { rows } => {
            let (from, to) = within(rows, first, n);
            stats.lists = List(rows[from..to].iter().map(|&row| (row, codes.used((row - first) as usize))).collect());
        }
        Question::Holders { features, part } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            if let [a, b] = features[..] {
                stats.both = Sum((0..n).filter(|&i| codes.has(i, a as usize) && codes.has(i, b as usize)).count() as u64);
            }
            // two features that a row uses together are not merged: nothing more need be known
            for (i, which) in held(codes, features, part, first).take_while(|_| stats.both.0 == 0) {
                entries.residual(view, codes, i, |k| !features.contains(&(k as u32)), row);
                stats.holders.0.push(Holder { row: first + i as u64, which, residual: row.clone() });
            }
        }
        Question::Rest { features, part, listed, sides, ridge } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            let given = features.len() == 2;
            for (i, which) in held(codes, features, part, first) {
                entries.residual(view, codes, i, |k| !features.contains(&(k as u32)), row);
                let d = lean(sides, row, view.noise, *ridge);
                let to = if given { which as usize } else { usize::from(open01(&mut rng) < sigmoid(d)) };
                stats.ln_dealt.0 += ln_side(d, to);
                stats.sides[to].add(row);
                if to == 1 && !given {
                    dealt.push(i as u32);
                    let number = first + i as u64;
                    if listed.binary_search(&number).is_ok() {
                        stats.listed.0.push(number);
                    }
                }
            }
        }
        Question::Shear { whole, part, added } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            let (j, k) = (*whole as usize, *part as usize);
            let (mut squares, mut more, mut fewer) = (0.0, 0.0, 0.0);
            for i in (0..n).filter(|&i| codes.has(i, j)) {
                let on = codes.has(i, k);
                *(if on { &mut fewer } else { &mut more }) += 1.0;
                if on != *added {
                    entries.residual(view, codes, i, |_| true, row);
                    let along = dot_long(row, view.weight(k));
                    squares += 4.0 * (view.squares[k] + if *added { -along } else { along });
                }
            }
            stats.squares = Sum(squares);
            stats.uses = Sum(vec![more - fewer]);
        }
        Question::Rows { rows } => {
            let entries = Entries::of(block.x, scale, filled, values);
            let (from, to) = within(rows, first, n);
            for &number in &rows[from..to] {
                let i = (number - first) as usize;
                entries.row(i, row);
                stats.gathered.0.push(Gathered { row: number, entries: row.clone(), used: codes.used(i) });
            }
        }
        Question::Code { ln_odds, scans, given } => {
            let (view, entries) = (view()?, Entries::of(block.x, scale, filled, values));
            entries.products(view, products);
            let flips = Flips::new(view, ln_odds, bounds);
            for i in 0..n {
                codes.row_mut(i).fill(0);
                if let Ok(at) = given.binary_search_by_key(&(first + i as u64), |g| g.0) {
                    given[at].1.iter().for_each(|&k| codes.set(i, k as usize, true));
                    continue;
                }
                let q = flips.begin(products, codes, i, rest);
                let bits = codes.row_mut(i);
                for _ in 0..*scans {
                    (0..view.count()).for_each(|k| {
                        flips.flip(k, 0.0, bits, q, &mut rng);
                    });
                }
            }
            stats.uses = Sum(codes.uses().iter().map(|&m| m as f64).collect());
        }
    }
    local.dealt = dealt;
    Ok(stats)
}

/// Rows of a part that use one of these features, and which.
fn held<'a>(codes: &'a Codes, features: &'a [u32], part: &'a Part, first: u64) -> impl Iterator<Item = (usize, u32)> + 'a {
    (0..codes.rows()).filter_map(move |i| {
        let which = features.iter().position(|&k| codes.has(i, k as usize))?;
        part.holds(first + i as u64).then_some((i, which as u32))
    })
}

/// Draws the missing entries of rows given all else.
fn impute(view: &View, x: X<'_>, codes: &Codes, filled: &mut [f64], fit: &mut Vec<f64>, rng: &mut Philox) {
    let sd = view.noise.sqrt();
    let mut filled = filled.iter_mut();
    for i in 0..x.rows() {
        let mut fitted = false;
        x.for_row(i, |j, v| {
            if v.is_nan() {
                if !std::mem::replace(&mut fitted, true) {
                    fit.clear();
                    fit.extend_from_slice(&view.intercept);
                    codes.for_used(i, |k| fit.iter_mut().zip(view.weight(k)).for_each(|(f, w)| *f += w));
                }
                if let Some(filled) = filled.next() {
                    let z: f64 = StandardNormal.sample(rng);
                    *filled = fit[j] + sd * z;
                }
            }
        });
    }
}

#[inline]
fn has(bits: &[u64], k: usize) -> bool {
    bits[k / 64] >> (k % 64) & 1 == 1
}

/// How rows take features up and put them down.
struct Flips<'a> {
    view: &'a View,
    ln_odds: &'a [f64],
    per_noise: f64,
    /// Half the squared length of each feature, in units of the noise.
    half: &'a [f64],
}

impl<'a> Flips<'a> {
    fn new(view: &'a View, ln_odds: &'a [f64], half: &'a mut Vec<f64>) -> Self {
        let per_noise = 1.0 / view.noise;
        half.clear();
        half.extend(view.squares.iter().map(|s| 0.5 * s * per_noise));
        Self { view, ln_odds, per_noise, half }
    }

    /// Inner products of what a row leaves unexplained with all features.
    fn begin<'q>(&self, products: &[f64], codes: &Codes, i: usize, q: &'q mut Vec<f64>) -> &'q mut [f64] {
        let count = self.view.count();
        q.clear();
        q.extend(products[i * count..][..count].iter().zip(&self.view.with_intercept).map(|(p, b)| p - b));
        for_ones(codes.row(i), |k| q.iter_mut().zip(self.view.products(k).iter()).for_each(|(q, c)| *q -= c));
        q
    }

    /// Draws whether a row uses a feature.
    #[inline]
    fn flip(&self, k: usize, lean: f64, bits: &mut [u64], q: &mut [f64], rng: &mut Philox) -> bool {
        let on = has(bits, k);
        let half = if on { self.half[k] } else { -self.half[k] };
        let next = happens(self.ln_odds[k] + lean + q[k] * self.per_noise + half, rng);
        if next != on {
            self.turn(k, bits, q);
        }
        next
    }

    fn turn(&self, k: usize, bits: &mut [u64], q: &mut [f64]) {
        let products = self.view.products(k);
        if has(bits, k) {
            q.iter_mut().zip(products.iter()).for_each(|(q, c)| *q += c);
        } else {
            q.iter_mut().zip(products.iter()).for_each(|(q, c)| *q -= c);
        }
        bits[k / 64] ^= 1 << (k % 64);
    }

    /// Draws the use of two features together, which are chosen by the features alone.
    fn pair(&self, free: &[u32], bits: &mut [u64], q: &mut [f64], rng: &mut Philox) {
        let first = rng.random_range(0..free.len());
        let j = free[first] as usize;
        let products = self.view.products(j);
        let weight = |l: u32| {
            let scale = (products[j] * self.view.squares[l as usize]).sqrt();
            0.05 + if scale > 0.0 { products[l as usize].abs() / scale } else { 0.0 }
        };
        let others = || free.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, &l)| l);
        let mut left = open01(rng) * others().map(weight).sum::<f64>();
        let mut chosen = None;
        for l in others() {
            chosen = Some(l as usize);
            left -= weight(l);
            if left < 0.0 {
                break;
            }
        }
        let Some(l) = chosen else { return };
        let (now_j, now_l) = (has(bits, j), has(bits, l));
        let number = |on: bool| f64::from(u8::from(on));
        // what is left of the row without the two
        let (cjj, cll, cjl) = (products[j], self.view.squares[l], products[l]);
        let gj = q[j] + number(now_j) * cjj + number(now_l) * cjl;
        let gl = q[l] + number(now_l) * cll + number(now_j) * cjl;
        let alone = |k: usize, g: f64, c: f64| self.ln_odds[k] + (g - 0.5 * c) * self.per_noise;
        let (a, b) = (alone(j, gj, cjj), alone(l, gl, cll));
        let mut weights = [0.0, a, b, a + b - cjl * self.per_noise];
        // weights that are no numbers leave the row as it is
        let Ok(state) = crate::dist::draw_from_ln_weights(&mut weights, rng) else { return };
        if (state & 1 == 1) != now_j {
            self.turn(j, bits, q);
        }
        if (state & 2 == 2) != now_l {
            self.turn(l, bits, q);
        }
    }
}
