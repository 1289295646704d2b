//! Derivatives in single precision: what moves a trajectory, at a fraction of the price of exact ones.
//!
//! A leapfrog step is reversible and keeps volume under any force that is a function of the position alone, so that the force may be rounded;
//! only the energies at both ends of a trajectory must be exact. Scores of a row lie expert by expert, gates first and then one
//! stretch a class, each padded to full vectors: the weights of one column are next to each other, and what happens between experts of a
//! row happens within one or two registers. Rows whose likelihood is too small for these numbers take the exact way.

use serde::{Deserialize, Serialize};

use super::Gated;
use crate::data::design::PanelScratch;
use crate::data::{Design, X};
use crate::linalg::{dot, wide};
use crate::run::Block;
use crate::special::single::{LANES, Lane, each, exp, largest, sum};

/// Below this the derivatives of a row are computed exactly.
const SMALL: f32 = 1e-30;
/// Rows of a tile.
const TILE: usize = 16;
/// Score of gates that are padding.
const NEVER: f32 = -1e30;
/// Scales that numbers of single precision can stand beside.
const SCALES: std::ops::Range<f64> = 1e-25..1e25;

/// Where numbers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forces {
    gated: Gated,
    /// Experts and padding.
    padded: usize,
}

/// Weights in single precision: first what every row gets (without and with what centring adds), then a row of numbers for each column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<f32>", into = "Vec<f32>")]
pub struct Packed(Vec<Lane>);

impl From<Vec<f32>> for Packed {
    fn from(numbers: Vec<f32>) -> Self {
        Self(numbers.as_chunks().0.iter().map(|lane| Lane(*lane)).collect())
    }
}

impl From<Packed> for Vec<f32> {
    fn from(packed: Packed) -> Self {
        packed.0.iter().flat_map(|lane| lane.0).collect()
    }
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub struct Scratch {
    panel: PanelScratch,
    values: Vec<f32>,
    scores: Vec<Lane>,
    sums: Vec<Lane>,
    work: Work,
}

/// What is found of a tile of rows: exponentials of gates, those times the probability of the class, what multiplies an expert's share
/// in the derivatives of its scores, the largest gate and the sums of the first two.
#[derive(Debug, Default)]
struct Work {
    gates: Vec<Lane>,
    joint: Vec<Lane>,
    other: Vec<Lane>,
    top: [f32; TILE],
    norm: [f32; TILE],
    total: [f32; TILE],
    exact: Vec<f64>,
}

/// Entries of the rows of a block.
struct Entries<'a> {
    /// Offsets of sparse rows; empty for dense ones, which all have the same columns.
    ends: &'a [usize],
    columns: &'a [u32],
    /// Empty where all are 1.
    values: &'a [f32],
}

impl<'a> Entries<'a> {
    fn sparse(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Columns and values of a row; no values where all are 1.
    #[inline(always)]
    fn row(&self, i: usize) -> (&'a [u32], &'a [f32]) {
        if !self.sparse() {
            let p = self.columns.len();
            return (self.columns, &self.values[i * p..(i + 1) * p]);
        }
        let range = self.ends[i] - self.ends[0]..self.ends[i + 1] - self.ends[0];
        (&self.columns[range.clone()], if self.values.is_empty() { &[] } else { &self.values[range] })
    }
}

/// Whether all entries that sparse rows store are 1.
pub fn all_ones(x: X<'_>) -> bool {
    matches!(x, X::Csr { values, .. } if values.iter().all(|v| *v == 1.0))
}

/// Strips of 64, 32 or 16 scores, each as (first score, scores).
fn strips(width: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let strip = match width - from {
            0 => return None,
            64.. => 64,
            32.. => 32,
            _ => 16,
        };
        from += strip;
        Some((from - strip, strip))
    })
}

impl Forces {
    /// None where single precision does not do: one expert needs no gates, and some scales are out of its range.
    pub fn new(gated: Gated, design: &Design) -> Option<Self> {
        let fits = gated.experts > 1 && design.scale.iter().all(|s| SCALES.contains(s));
        fits.then(|| Self { gated, padded: gated.experts.next_multiple_of(LANES) })
    }

    /// Scores of a row, padding included.
    fn width(&self) -> usize {
        self.padded * (1 + self.gated.units())
    }

    /// Columns that rows have entries for: of raw rows, or features where there is a map.
    fn columns(design: &Design) -> usize {
        if design.map.is_some() { design.kept.len() } else { design.raw_cols }
    }

    /// Which of those design column `at` is.
    fn column(design: &Design, at: usize) -> usize {
        if design.map.is_some() { at } else { design.kept[at] as usize }
    }

    /// Which score is number `at` of a padded row.
    fn place(&self, score: usize) -> usize {
        let Gated { experts, .. } = self.gated;
        if score < experts {
            return score;
        }
        let (expert, unit) = ((score - experts) / self.gated.units(), (score - experts) % self.gated.units());
        self.padded * (1 + unit) + expert
    }

    /// Calls `f(number in a packed vector of `rows` rows of numbers, score, row)` for all scores and rows.
    fn each_place(&self, rows: usize, mut f: impl FnMut(usize, usize, usize)) {
        let strips: Vec<(usize, usize)> = strips(self.width()).collect();
        for score in 0..self.gated.columns() {
            let place = self.place(score);
            let Some(&(from, strip)) = strips.iter().find(|(from, strip)| place < from + strip) else { continue };
            (0..rows).for_each(|row| f(rows * from + row * strip + place - from, score, row));
        }
    }

    /// Weights (one vector a score) as rows want them.
    pub fn pack(&self, design: &Design, weights: &[f64]) -> Packed {
        let (dim, kept) = (design.dim(), design.kept.len());
        let rows = 2 + Self::columns(design);
        let mut out = vec![0.0; rows * self.width()];
        for (from, strip) in strips(self.width()) {
            for row in 0..2 {
                (from..from + strip)
                    .filter(|place| (self.gated.experts..self.padded).contains(place))
                    .for_each(|place| out[rows * from + row * strip + place - from] = NEVER);
            }
        }
        // design column of each column with entries
        let mut from = vec![None; rows];
        (0..kept).for_each(|at| from[2 + Self::column(design, at)] = Some(at));
        let shift: Vec<f64> = design.mean.iter().zip(&design.scale).map(|(m, s)| -m / s).collect();
        let first: Vec<[f64; 2]> = weights
            .chunks_exact(dim)
            .map(|w| {
                let bias = if design.intercept { w[dim - 1] } else { 0.0 };
                [bias, bias + dot(&w[..kept], &shift)]
            })
            .collect();
        self.each_place(rows, |to, score, row| {
            out[to] = match from[row] {
                _ if row < 2 => first[score][row] as f32,
                Some(at) => (weights[score * dim + at] / design.scale[at]) as f32,
                None => 0.0,
            }
        });
        Packed::from(out)
    }

    /// Gradient with respect to the weights from the sums that rows report.
    pub fn unpack(&self, design: &Design, sums: &[f64]) -> Vec<f64> {
        let (dim, kept) = (design.dim(), design.kept.len());
        let rows = 2 + Self::columns(design);
        let mut from = vec![None; rows];
        (0..kept).for_each(|at| from[2 + Self::column(design, at)] = Some(at));
        let mut out = vec![0.0; self.gated.columns() * dim];
        let mut shifted = vec![0.0; self.gated.columns()];
        self.each_place(rows, |at, score, row| match (row, from[row]) {
            (0, _) if design.intercept => out[score * dim + dim - 1] = sums[at],
            (1, _) => shifted[score] = sums[at],
            (_, Some(to)) => out[score * dim + to] = sums[at] / design.scale[to],
            _ => (),
        });
        for (out, s) in out.chunks_exact_mut(dim).zip(shifted) {
            out.iter_mut().zip(&design.mean).zip(&design.scale).for_each(|((o, m), scale)| *o -= s * m / scale);
        }
        out
    }

    /// Sums of derivatives over the rows of a block, in the order of packed weights. `ones` is [`all_ones`] of the block.
    pub fn sums(&self, design: &Design, packed: &Packed, block: &Block<'_>, ones: bool, scratch: &mut Scratch) -> Vec<f64> {
        let (n, width) = (block.rows(), self.width() / LANES);
        let Scratch { panel, values, scores, sums, work } = scratch;
        values.clear();
        let columns: Vec<u32>;
        let entries = match block.x {
            X::Csr { indptr, indices, values: raw, .. } if design.map.is_none() => {
                if !ones {
                    values.extend(raw.iter().map(|v| *v as f32));
                }
                Entries { ends: indptr, columns: indices, values }
            }
            x => {
                let kept = design.kept.len();
                columns = (0..kept).map(|at| Self::column(design, at) as u32).collect();
                let panel = design.panel(x, panel);
                let rows = panel.dense().expect("rows that are not sparse");
                for row in rows.chunks_exact(design.dim()) {
                    values.extend(row[..kept].iter().zip(&design.scale).map(|(v, s)| (v * s) as f32));
                }
                Entries { ends: &[], columns: &columns, values }
            }
        };
        let rows = 2 + Self::columns(design);
        scores.resize(n * width, Lane::default());
        let strips = || strips(self.width()).map(|(from, strip)| (from / LANES, strip / LANES));
        for (from, strip) in strips() {
            let weights = &packed.0[rows * from..rows * (from + strip)];
            match strip {
                4 => gather::<4>(&entries, weights, from, width, scores),
                2 => gather::<2>(&entries, weights, from, width, scores),
                _ => gather::<1>(&entries, weights, from, width, scores),
            }
        }
        self.slopes(block, scores, work);
        sums.clear();
        sums.resize(rows * width, Lane::default());
        for (from, strip) in strips() {
            let sums = &mut sums[rows * from..rows * (from + strip)];
            match strip {
                4 => scatter::<4>(&entries, scores, from, width, sums),
                2 => scatter::<2>(&entries, scores, from, width, sums),
                _ => scatter::<1>(&entries, scores, from, width, sums),
            }
        }
        sums.iter().flat_map(|lane| lane.0).map(f64::from).collect()
    }

    /// Scores of all rows become derivatives, some rows after the other: what must look at all experts of a row, and what need not, are
    /// loops of their own.
    fn slopes(&self, block: &Block<'_>, scores: &mut [Lane], work: &mut Work) {
        let (width, classes, p) = (self.width() / LANES, block.y.classes(), self.padded / LANES);
        work.gates.resize(TILE * p, Lane::default());
        work.joint.resize(TILE * p, Lane::default());
        work.other.resize(TILE * p * self.gated.units(), Lane::default());
        for (tile, (scores, classes)) in scores.chunks_mut(TILE * width).zip(classes.chunks(TILE)).enumerate() {
            let weights: [f32; TILE] = std::array::from_fn(|i| if i < classes.len() { block.weight(tile * TILE + i) as f32 } else { 0.0 });
            wide(
                #[inline(always)]
                || self.tile(scores, classes, work),
            );
            for (i, class) in classes.iter().enumerate() {
                let row = &mut scores[i * width..(i + 1) * width];
                if work.total[i].is_nan() || work.total[i] <= SMALL {
                    self.hard_row(row, *class, &mut work.exact);
                    (work.norm[i], work.total[i]) = (f32::INFINITY, f32::INFINITY);
                }
            }
            wide(
                #[inline(always)]
                || self.settle(scores, classes, &weights, work),
            );
        }
    }

    /// Exponentials, probabilities and their sums, for a tile of rows.
    #[inline(always)]
    fn tile(&self, scores: &[Lane], classes: &[u32], work: &mut Work) {
        let (width, p) = (self.width() / LANES, self.padded / LANES);
        let Work { gates, joint, other, top, norm, total, .. } = work;
        for (row, top) in scores.chunks_exact(width).zip(top.iter_mut()) {
            let mut lanes = row[0];
            row[1..p].iter().for_each(|g| lanes = each(|l| if g[l] > lanes[l] { g[l] } else { lanes[l] }));
            *top = largest(&lanes);
        }
        for ((row, top), gates) in scores.chunks_exact(width).zip(top.iter()).zip(gates.chunks_exact_mut(p)) {
            for (e, f) in gates.iter_mut().zip(row) {
                *e = each(|l| exp(f[l] - top));
            }
        }
        if let Some(odds_of) = self.gated.odds_of {
            for (i, (row, class)) in scores.chunks_exact(width).zip(classes).enumerate() {
                let sign = if *class == odds_of { 1.0 } else { -1.0 };
                for at in 0..p {
                    let to = i * p + at;
                    let t = each(|l| sign * row[p + at][l]);
                    let small = each(|l| exp(-t[l].abs()));
                    let below = each(|l| 1.0 / (1.0 + small[l]));
                    let e = gates[to];
                    joint[to] = each(|l| e[l] * if t[l] >= 0.0 { below[l] } else { small[l] * below[l] });
                    other[to] = each(|l| sign * if t[l] >= 0.0 { small[l] * below[l] } else { below[l] });
                }
            }
        } else {
            for (i, (row, class)) in scores.chunks_exact(width).zip(classes).enumerate() {
                let other = &mut other[i * p * self.gated.units()..];
                for at in 0..p {
                    let own = |c: usize| &row[p * (1 + c) + at];
                    let mut top = *own(0);
                    (1..self.gated.units()).for_each(|c| top = each(|l| if own(c)[l] > top[l] { own(c)[l] } else { top[l] }));
                    let mut sum = Lane::default();
                    for c in 0..self.gated.units() {
                        let e = each(|l| exp(own(c)[l] - top[l]));
                        sum = each(|l| sum[l] + e[l]);
                        other[c * p + at] = e;
                    }
                    let (e, q) = (gates[i * p + at], other[*class as usize * p + at]);
                    joint[i * p + at] = each(|l| e[l] * q[l] / sum[l]);
                    for c in 0..self.gated.units() {
                        let hit = if c == *class as usize { 1.0 } else { 0.0 };
                        let q = other[c * p + at];
                        other[c * p + at] = each(|l| hit - q[l] / sum[l]);
                    }
                }
            }
        }
        for (values, sums) in [(&*gates, norm), (&*joint, total)] {
            for (values, sums) in values.chunks_exact(p).zip(sums.iter_mut()).take(classes.len()) {
                let mut lanes = values[0];
                values[1..].iter().for_each(|v| lanes = each(|l| lanes[l] + v[l]));
                *sums = sum(&lanes);
            }
        }
    }

    /// Derivatives of a tile of rows from what was found of them; those of rows with infinite sums are there already.
    #[inline(always)]
    fn settle(&self, scores: &mut [Lane], classes: &[u32], weights: &[f32; TILE], work: &Work) {
        let (width, p, units) = (self.width() / LANES, self.padded / LANES, self.gated.units());
        for (i, row) in scores.chunks_exact_mut(width).enumerate().take(classes.len()) {
            let (by_norm, by_total) = (weights[i] / work.norm[i], weights[i] / work.total[i]);
            if work.norm[i] == f32::INFINITY {
                row.iter_mut().for_each(|s| *s = each(|l| weights[i] * s[l]));
                continue;
            }
            let (gates, scores) = row.split_at_mut(p);
            for (at, gate) in gates.iter_mut().enumerate() {
                let (e, joint) = (&work.gates[i * p + at], &work.joint[i * p + at]);
                let share = each(|l| by_total * joint[l]);
                *gate = each(|l| share[l] - by_norm * e[l]);
                for c in 0..units {
                    let other = &work.other[(i * units + c) * p + at];
                    scores[c * p + at] = each(|l| share[l] * other[l]);
                }
            }
        }
    }

    /// Derivatives of a row whose likelihood is too small, without its weight.
    fn hard_row(&self, row: &mut [Lane], class: u32, exact: &mut Vec<f64>) {
        let place = |score: usize| (self.place(score) / LANES, self.place(score) % LANES);
        exact.clear();
        exact.extend((0..self.gated.columns()).map(place).map(|(at, l)| f64::from(row[at][l])));
        self.gated.row(exact, class, super::Purpose::Slopes);
        row.fill(Lane::default());
        for (score, slope) in exact.iter().enumerate() {
            let (at, l) = place(score);
            row[at][l] = *slope as f32;
        }
    }
}

/// sums += v · w.
#[inline(always)]
fn add<const S: usize>(sums: &mut [Lane; S], w: &[Lane; S], v: f32) {
    for c in 0..S {
        sums[c] = each(|l| sums[c][l] + v * w[c][l]);
    }
}

/// sums += w.
#[inline(always)]
fn add_one<const S: usize>(sums: &mut [Lane; S], w: &[Lane; S]) {
    for c in 0..S {
        sums[c] = each(|l| sums[c][l] + w[c][l]);
    }
}

/// Scores of a strip of S vectors, for all rows of `width` vectors. Plain loops: closures within would not be compiled for wide vectors.
fn gather<const S: usize>(entries: &Entries<'_>, weights: &[Lane], from: usize, width: usize, out: &mut [Lane]) {
    let (weights, _) = weights.as_chunks::<S>();
    let (first, weights) = (&weights[usize::from(entries.sparse())], &weights[2..]);
    wide(
        #[inline(always)]
        || {
            for (i, out) in out.chunks_exact_mut(width).enumerate() {
                let (columns, values) = entries.row(i);
                let mut sums = *first;
                if values.is_empty() {
                    for &j in columns {
                        add_one(&mut sums, &weights[j as usize]);
                    }
                } else {
                    for (&j, &v) in columns.iter().zip(values) {
                        add(&mut sums, &weights[j as usize], v);
                    }
                }
                for (c, out) in out[from..from + S].iter_mut().enumerate() {
                    *out = sums[c];
                }
            }
        },
    );
}

/// Sums of the derivatives of a strip over all rows, for each column.
fn scatter<const S: usize>(entries: &Entries<'_>, slopes: &[Lane], from: usize, width: usize, sums: &mut [Lane]) {
    let (sums, _) = sums.as_chunks_mut::<S>();
    let (first, sums) = sums.split_at_mut(2);
    wide(
        #[inline(always)]
        || {
            let mut all = [Lane::default(); S];
            for (i, slopes) in slopes.chunks_exact(width).enumerate() {
                let (columns, values) = entries.row(i);
                let slope: [Lane; S] = std::array::from_fn(|c| slopes[from + c]);
                add_one(&mut all, &slope);
                if values.is_empty() {
                    for &j in columns {
                        add_one(&mut sums[j as usize], &slope);
                    }
                } else {
                    for (&j, &v) in columns.iter().zip(values) {
                        add(&mut sums[j as usize], &slope, v);
                    }
                }
            }
            first[0] = all;
            if entries.sparse() {
                first[1] = all;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;
    use crate::data::{Classes, Dataset, Matrix, Target};

    fn wave(len: usize, salt: f64) -> Vec<f64> {
        (0..len).map(|i| (1.3 * i as f64 + salt).sin()).collect()
    }

    /// The gradient of exact numbers, to single precision: dense rows, sparse ones with any values and with ones, columns that are dropped,
    /// centred and scaled; few and many experts and classes, scores of all sizes, rows of all weights.
    #[test]
    fn forces_are_rounded_gradients() {
        let (n, cols) = (37, 5);
        let raw: Vec<f64> = wave(n * cols, 0.4).iter().map(|v| if *v < 0.2 { 0.0 } else { 3.0 * v }).collect();
        let entries = |ones: bool| {
            let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
            for row in raw.chunks(cols) {
                for (j, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                    indices.push(j as u32);
                    values.push(if ones { 1.0 } else { *v });
                }
                indptr.push(indices.len());
            }
            Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
        };
        let design = |intercept: bool| Design {
            kept: vec![0, 2, 3],
            raw_cols: cols,
            mean: vec![0.3, 0.0, -1.1],
            scale: vec![0.5, 2.0, 1.5],
            intercept,
            map: None,
        };
        for (experts, classes, intercept, size) in
            [(3, 2, true, 1.0), (30, 2, true, 3.0), (17, 3, false, 1.0), (70, 2, true, 2.0), (2, 4, true, 60.0), (5, 2, false, 200.0)]
        {
            for x in [Matrix::dense(n, cols, raw.clone()), entries(false), entries(true)] {
                let codes: Vec<u32> = (0..n).map(|i| (i * i % classes) as u32).collect();
                let names = (0..classes).map(|c| c.to_string()).collect();
                let mut data = Dataset::new(x).with_target(Target::Classes(Classes { codes, names }));
                data.weights = Some((0..n).map(|i| [1.0, 0.0, 2.5][i % 3]).collect());
                let (gated, design) = (Gated::new(experts, classes), design(intercept));
                let forces = Forces::new(gated, &design).unwrap();
                let weights: Vec<f64> = wave(gated.columns() * design.dim(), 0.9).iter().map(|v| size * v).collect();
                let packed = forces.pack(&design, &weights);
                let (mut found, mut exact) = (Vec::new(), vec![0.0; weights.len()]);
                for block in crate::run::blocks(&data, 20) {
                    let sums = forces.sums(&design, &packed, &block, all_ones(block.x), &mut Scratch::default());
                    found.resize(sums.len(), 0.0);
                    found.iter_mut().zip(sums).for_each(|(f, s)| *f += s);
                    let part = rows::likelihood(&design, &gated, &weights, &block, |i| block.weight(i), &mut rows::Scratch::default());
                    exact.iter_mut().zip(&part.gradient.0).for_each(|(e, p)| *e += p);
                    let value = rows::value(&design, &gated, &weights, &block, |i| block.weight(i), &mut rows::Scratch::default());
                    assert!((value - part.value.0).abs() < 1e-12 * (1.0 + value.abs()));
                }
                let found = forces.unpack(&design, &found);
                // scores have a relative error of 1e-7, which slopes follow
                let bound = 3e-6 * size.max(1.0) * n as f64;
                let worst = found.iter().zip(&exact).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
                assert!(worst < bound, "{experts} experts, {classes} classes: {worst} {bound}");
                assert!(exact.iter().any(|e| e.abs() > 0.1));
            }
        }
    }

    #[test]
    fn scales_out_of_range_have_no_forces() {
        let mut design = Design::identity(2, true);
        assert!(Forces::new(Gated::new(3, 2), &design).is_some() && Forces::new(Gated::new(1, 2), &design).is_none());
        design.scale[1] = 1e30;
        assert!(Forces::new(Gated::new(3, 2), &design).is_none());
    }
}
