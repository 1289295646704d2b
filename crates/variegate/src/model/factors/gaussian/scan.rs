//! The scan of a row over the atoms, and what the row reports afterwards.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

use super::row::{Active, Products};
use super::{Gaussian, Scales, View, broken};
use crate::data::X;
use crate::linalg::{dot, mul_t};
use crate::model::factors::likelihood::{Entry, Row};
use crate::run::{Sum, open01};
use crate::special::sigmoid;
use crate::{Result, merge_fields};

/// Buffers of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rows of the block that was prepared, centred, scaled and filled.
    x: Vec<f64>,
    /// Squared length of each.
    squares: Vec<f64>,
    /// y = x̃Φᵀ, one row of the block a row.
    products: Vec<f64>,
    /// The row worked on: where it is in the block, and its source.
    at: usize,
    source: usize,
    /// Power of its likelihood.
    power: f64,
    /// Atoms it uses.
    active: Active,
    /// One row less what (some) atoms explain of it.
    pub(super) residual: Vec<f64>,
    /// One row with its missing entries drawn anew.
    row: Vec<f64>,
}

/// What the rows report. Missing entries count as data everywhere but in `observed` and `observed_squares`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// HᵀH of each source (lower triangles), H having the weights of one row a row.
    pub gram: Sum<Vec<f64>>,
    /// HᵀX of each source, one atom a row.
    pub cross: Sum<Vec<f64>>,
    /// Sum of squared weights of each source and atom.
    pub weight_squares: Sum<Vec<f64>>,
    /// Sum of squared residuals of each source.
    pub squares: Sum<Vec<f64>>,
    /// The same of entries that were observed.
    pub observed_squares: Sum<Vec<f64>>,
    /// Number of entries of each source that were observed.
    pub observed: Sum<Vec<f64>>,
}
merge_fields!(Sums, gram, cross, weight_squares, squares, observed_squares, observed);

impl Sums {
    /// Leaves the atoms at these places alone, out of `count`.
    pub(super) fn keep(&mut self, kept: &[usize], count: usize, columns: usize) {
        let pick = |values: &[f64], each: usize, width: usize| -> Vec<f64> {
            values.chunks(each.max(1)).flat_map(|part| kept.iter().flat_map(|&k| part[k * width..][..width].to_vec())).collect()
        };
        self.weight_squares.0 = pick(&self.weight_squares.0, count, 1);
        self.cross.0 = pick(&self.cross.0, count * columns, columns);
        let rows = pick(&self.gram.0, count * count, count);
        self.gram.0 = rows.chunks(count.max(1)).flat_map(|row| kept.iter().map(|&k| row[k])).collect();
    }

    /// Makes room for `sources`, `atoms` and `columns` where nothing was reported yet.
    fn make_room(&mut self, sources: usize, atoms: usize, columns: usize) {
        if self.squares.0.is_empty() {
            let zeros = |each: usize| Sum(vec![0.0; sources * each]);
            *self = Self {
                gram: zeros(atoms * atoms),
                cross: zeros(atoms * columns),
                weight_squares: zeros(atoms),
                squares: zeros(1),
                observed_squares: zeros(1),
                observed: zeros(1),
            };
        }
    }

    /// Log likelihood of the entries that were observed.
    pub fn ln_likelihood(&self, scales: &Scales) -> f64 {
        let parts = self.observed.0.iter().zip(&self.observed_squares.0).zip(&scales.noise);
        parts.map(|((entries, squares), noise)| 0.5 * (entries * (noise / TAU).ln() - noise * squares)).sum()
    }
}

impl Scratch {
    /// Atoms that the row uses now, ascending, without weights.
    pub(super) fn in_use(&self, entries: &mut Vec<Entry>) {
        entries.clear();
        entries.extend(self.active.atoms().iter().map(|&k| (k, 0.0)));
        entries.sort_unstable_by_key(|e| e.0);
    }

    fn products<'a>(products: &'a [f64], at: usize, view: &'a View) -> Products<'a> {
        Products { gram: &view.gram, y: &products[at * view.count..][..view.count] }
    }

    /// Takes up a row of the block that was prepared.
    pub(super) fn take(&mut self, view: &View, at: usize, source: usize, entries: &[Entry], power: f64) {
        (self.at, self.source, self.power) = (at, source, power);
        let ridge = view.scales.weight[source] / view.scales.noise[source];
        self.active.begin(Self::products(&self.products, at, view), ridge, entries.iter().map(|e| e.0));
    }

    /// Draws whether the row uses an atom, its weight integrated out.
    pub(super) fn flip<R: Rng + ?Sized>(&mut self, view: &View, atom: usize, ln_odds: f64, rng: &mut R) -> Result<bool> {
        let products = Self::products(&self.products, self.at, view);
        let (noise, weight) = (view.scales.noise[self.source], view.scales.weight[self.source]);
        let gain = self.active.gain(products, atom);
        let change = 0.5 * (noise * gain.rest * gain.rest / gain.schur - (gain.schur * noise / weight).ln());
        let logit = ln_odds + self.power * change;
        if logit.is_nan() {
            return Err(broken("the scan of a row"));
        }
        let uses = open01(rng) < sigmoid(logit);
        match (self.active.has(atom), uses) {
            (false, true) => self.active.take_up(atom, gain),
            (true, false) => self.active.put_down(atom),
            _ => {}
        }
        Ok(uses)
    }

    /// Draws the weights of the atoms in use.
    pub(super) fn draw_weights<R: Rng + ?Sized>(&mut self, view: &View, rng: &mut R, entries: &mut Vec<Entry>) -> Result<()> {
        self.active.draw(view.scales.noise[self.source], rng, entries);
        if entries.iter().all(|e| e.1.is_finite()) { Ok(()) } else { Err(broken("the draw of the weights of a row")) }
    }

    /// Log density of the row given the atoms in use.
    pub(super) fn ln_row(&self, view: &View, columns: usize) -> f64 {
        let noise = view.scales.noise[self.source];
        let (volume, explained) = self.active.evidence();
        0.5 * (columns as f64 * (noise / TAU).ln() - noise * (self.squares[self.at] - explained)) + volume
    }
}

impl Gaussian {
    pub(super) fn prepare_block(&self, view: &View, x: X<'_>, sources: &[u32], filled: &[f64], scratch: &mut Scratch) {
        let (rows, columns) = (x.rows(), self.centre.columns);
        scratch.x.resize(rows * columns, 0.0);
        scratch.squares.clear();
        let mut filled = filled;
        for (at, &source) in sources.iter().enumerate().take(rows) {
            let out = &mut scratch.x[at * columns..][..columns];
            let used = self.centre.dense(x, at, source as usize, filled, out);
            filled = filled.get(used..).unwrap_or_default();
            scratch.squares.push(dot(out, out));
        }
        scratch.products.resize(rows * view.count, 0.0);
        if view.count > 0 {
            mul_t(&scratch.x, &view.phi, &mut scratch.products, rows, columns, view.count, false);
        }
    }

    /// Leaves in scratch the row less what those of its atoms explain that `of` chooses. Needs no block to have been prepared.
    pub(super) fn residual(&self, view: &View, row: Row<'_>, entries: &[Entry], of: impl Fn(u32) -> bool, scratch: &mut Scratch) {
        scratch.residual.resize(self.centre.columns, 0.0);
        self.centre.dense(row.x, row.at, row.source, row.filled, &mut scratch.residual);
        for &(k, w) in entries.iter().filter(|e| of(e.0)) {
            subtract(&mut scratch.residual, w, view.atom(k));
        }
    }

    /// Draws missing entries anew, then adds the row to the sums.
    pub(super) fn report_row<R: Rng + ?Sized>(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        filled: &mut [f64],
        scratch: &mut Scratch,
        rng: &mut R,
        sums: &mut Sums,
    ) {
        let (columns, atoms, source) = (self.centre.columns, view.count, row.source);
        sums.make_room(view.scales.noise.len(), atoms, columns);
        let Scratch { x, residual, row: values, .. } = scratch;
        values.clear();
        values.extend_from_slice(&x[row.at * columns..][..columns]);
        residual.clone_from(values);
        for &(k, w) in entries {
            subtract(residual, w, view.atom(k));
        }
        let spread = 1.0 / view.scales.noise[source].sqrt();
        let (mut missing, mut missing_squares) = (0.0, 0.0);
        self.centre.for_missing(row.x, row.at, |which, m| {
            let z: f64 = StandardNormal.sample(rng);
            let fitted = values[m] - residual[m];
            residual[m] = spread * z;
            values[m] = fitted + residual[m];
            if let Some(kept) = filled.get_mut(which) {
                *kept = values[m];
            }
            missing += 1.0;
            missing_squares += residual[m] * residual[m];
        });
        let squares = dot(residual, residual);
        sums.squares.0[source] += squares;
        sums.observed_squares.0[source] += (squares - missing_squares).max(0.0);
        sums.observed.0[source] += columns as f64 - missing;
        for &(k, w) in entries {
            let k = source * atoms + k as usize;
            sums.weight_squares.0[k] += w * w;
            subtract(&mut sums.cross.0[k * columns..][..columns], -w, values);
            for &(l, v) in entries.iter().filter(|e| source * atoms + e.0 as usize <= k) {
                sums.gram.0[k * atoms + l as usize] += w * v;
            }
        }
    }
}

/// out −= w v.
fn subtract(out: &mut [f64], w: f64, v: &[f64]) {
    for (o, v) in out.iter_mut().zip(v) {
        *o -= w * v;
    }
}
