//! A new row of real numbers among atoms that stay as they are, weights and missing entries integrated out.
//!
//! As in `row.rs`, with C = Gm_aa + νI over the atoms in use, but what every atom would add to the row is kept rather than solved for, so that
//! an atom that changes nothing costs next to nothing. Kept is V with VᵀV = C⁻¹, one row for each atom in use, and W = V Gm_a·. An atom
//! that is taken up brings a row more; for one that is put down a reflection of the rows of V gathers its column in the last, which goes.
//! Columns that are missing are taken out of inner products: Gm and y are those of what was observed.

use super::super::likelihood::{Entry, Row};
use super::{Gaussian, View, broken};
use crate::Result;
use crate::data::X;
use crate::linalg::{mul_t, wide};
use crate::run::{Philox, open01};
use crate::special::branchless::exp;

/// An atom that is not in use has no place, and inner products that were not made no beginning.
const NOWHERE: u32 = u32::MAX;

/// Atoms that are put down between two times that everything is made afresh, so that rounding does not gather.
const MOST_DOWN: usize = 64;

/// A row that is placed.
#[derive(Debug, Default)]
pub struct Placing {
    /// Precisions of noise and weights of its source, and ν.
    noise: f64,
    weight: f64,
    ridge: f64,
    /// Atoms in use, in the order of the rows of V, and where each atom is among them.
    members: Vec<u32>,
    place: Vec<u32>,
    /// |φ|² + ν of every atom, and y.
    own: Vec<f64>,
    y: Vec<f64>,
    /// How many atoms were put down since all below was made.
    down: usize,
    /// Rows of W and V, one after the other: two numbers for each atom.
    rows: Vec<f64>,
    /// V yₐ.
    whitened: Vec<f64>,
    /// Of every atom that is not in use: its Schur complement, and its inner product with what those in use leave of the row.
    schur: Vec<f64>,
    rest: Vec<f64>,
    /// Of every atom in use: its diagonal entry of C⁻¹, and its entry of C⁻¹yₐ.
    precision: Vec<f64>,
    linear: Vec<f64>,
    /// Columns that are missing, and the entries of all atoms there, one column after the other.
    missing: Vec<u32>,
    absent: Vec<f64>,
    /// Inner products of atoms with all others in the observed columns, and where those of an atom begin; only where columns are missing.
    gram: Vec<f64>,
    known: Vec<u32>,
    /// A row of W and V that is made, or a sum of them.
    fresh: Vec<f64>,
    /// A column of V.
    column: Vec<f64>,
}

impl Placing {
    /// Takes up a row whose inner products with the atoms, over the observed columns, are `y`.
    pub(super) fn meet(&mut self, model: &Gaussian, view: &View, row: Row<'_>, y: &[f64], entries: &[Entry]) {
        let count = view.count;
        self.noise = view.scales.noise[row.source];
        self.weight = view.scales.weight[row.source];
        self.ridge = self.weight / self.noise;
        self.missing.clear();
        model.centre.for_missing(row.x, row.at, |_, m| self.missing.push(m as u32));
        self.absent.clear();
        for &m in &self.missing {
            self.absent.extend((0..count).map(|k| view.atom(k as u32)[m as usize]));
        }
        self.gram.clear();
        self.known.clear();
        self.known.resize(if self.missing.is_empty() { 0 } else { count }, NOWHERE);
        self.own.clear();
        self.own.extend((0..count).map(|k| view.gram[k * count + k]));
        for column in self.absent.chunks_exact(count.max(1)) {
            self.own.iter_mut().zip(column).for_each(|(s, p)| *s -= p * p);
        }
        let ridge = self.ridge;
        self.own.iter_mut().for_each(|s| *s = s.max(0.0) + ridge);
        self.y.clear();
        self.y.extend_from_slice(y);
        self.members.clear();
        self.members.extend(entries.iter().map(|e| e.0));
        self.rebuild(view);
    }

    /// Makes afresh what follows from the atoms in use.
    fn rebuild(&mut self, view: &View) {
        self.down = 0;
        self.place.clear();
        self.place.resize(view.count, NOWHERE);
        self.rows.clear();
        self.whitened.clear();
        self.schur.clone_from(&self.own);
        self.rest.clone_from(&self.y);
        for zeros in [&mut self.precision, &mut self.linear] {
            zeros.clear();
            zeros.resize(view.count, 0.0);
        }
        for k in std::mem::take(&mut self.members) {
            self.take_up(view, k as usize);
        }
    }

    /// Leaves in `fresh` the inner products of an atom with all others, and zeros after them.
    fn inner_products(&mut self, view: &View, k: usize) {
        let count = view.count;
        let full = &view.gram[k * count..][..count];
        self.fresh.clear();
        if self.missing.is_empty() {
            self.fresh.extend_from_slice(full);
        } else {
            if self.known[k] == NOWHERE {
                self.known[k] = self.gram.len() as u32;
                self.gram.extend_from_slice(full);
                let own = &mut self.gram[self.known[k] as usize..];
                for column in self.absent.chunks_exact(count) {
                    let p = column[k];
                    own.iter_mut().zip(column).for_each(|(o, q)| *o -= p * q);
                }
            }
            self.fresh.extend_from_slice(&self.gram[self.known[k] as usize..][..count]);
        }
        self.fresh.resize(2 * count, 0.0);
    }

    /// A row more: (Gm_k − Σ W_ik W_i) / √s and (e_k − Σ W_ik V_i) / √s, s the Schur complement of the atom.
    fn take_up(&mut self, view: &View, k: usize) {
        let (count, both) = (view.count, 2 * view.count);
        self.inner_products(view, k);
        self.fresh[count + k] = 1.0;
        let scale = 1.0 / self.schur[k].max(self.ridge).sqrt();
        let white = self.rest[k] * scale;
        let Self { rows, fresh, schur, rest, precision, linear, .. } = self;
        let (schur, rest) = (&mut schur[..count], &mut rest[..count]);
        let (precision, linear) = (&mut precision[..count], &mut linear[..count]);
        wide(
            #[inline(always)]
            || {
                for row in rows.chunks_exact(both) {
                    let w = row[k];
                    fresh.iter_mut().zip(row).for_each(|(f, r)| *f -= w * r);
                }
                let (left, right) = fresh.split_at_mut(count);
                for i in 0..count {
                    left[i] *= scale;
                    schur[i] -= left[i] * left[i];
                    rest[i] -= left[i] * white;
                    right[i] *= scale;
                    precision[i] += right[i] * right[i];
                    linear[i] += right[i] * white;
                }
            },
        );
        self.rows.extend_from_slice(&self.fresh);
        self.whitened.push(white);
        self.place[k] = self.members.len() as u32;
        self.members.push(k as u32);
    }

    /// A row less: I − 2hhᵀ/|h|² with h = v ± |v| e turns v, the atom's column of V, into a multiple of e, which belongs to the last row.
    fn put_down(&mut self, view: &View, k: usize) {
        let (count, both, last) = (view.count, 2 * view.count, self.members.len() - 1);
        self.column.clear();
        self.column.extend((0..=last).map(|i| self.rows[i * both + count + k]));
        let length = self.column.iter().map(|v| v * v).sum::<f64>().sqrt();
        let end = self.column[last];
        let sign = if end < 0.0 { -1.0 } else { 1.0 };
        self.column[last] = end + sign * length;
        // |h|² / 2
        let half = length * (length + end.abs());
        let Self { rows, whitened, fresh, column, schur, rest, precision, linear, .. } = self;
        fresh.clear();
        fresh.resize(both, 0.0);
        let (schur, rest) = (&mut schur[..count], &mut rest[..count]);
        let (precision, linear) = (&mut precision[..count], &mut linear[..count]);
        wide(
            #[inline(always)]
            || {
                for (row, h) in rows.chunks_exact(both).zip(column.iter()) {
                    fresh.iter_mut().zip(row).for_each(|(f, r)| *f += h * r);
                }
                for (row, h) in rows.chunks_exact_mut(both).zip(column.iter()) {
                    let h = h / half;
                    row.iter_mut().zip(fresh.iter()).for_each(|(r, f)| *r -= h * f);
                }
            },
        );
        let turned = whitened.iter().zip(column.iter()).map(|(w, h)| w * h).sum::<f64>() / half;
        whitened.iter_mut().zip(column.iter()).for_each(|(w, h)| *w -= h * turned);
        let white = whitened.pop().unwrap_or(0.0);
        let (left, right) = rows[last * both..].split_at(count);
        wide(
            #[inline(always)]
            || {
                for i in 0..count {
                    schur[i] += left[i] * left[i];
                    rest[i] += left[i] * white;
                    precision[i] -= right[i] * right[i];
                    linear[i] -= right[i] * white;
                }
            },
        );
        rows.truncate(last * both);
        // what is 0 but for rounding
        rows.chunks_exact_mut(both).for_each(|row| row[count + k] = 0.0);
        (precision[k], linear[k]) = (0.0, 0.0);
        // rows of V belong to no atom in particular: the place is that among the members alone
        let own = self.place[k] as usize;
        self.place[k] = NOWHERE;
        self.members.swap_remove(own);
        if let Some(&moved) = self.members.get(own) {
            self.place[moved as usize] = own as u32;
        }
        self.down += 1;
        if self.down >= MOST_DOWN {
            self.rebuild(view);
        }
    }

    /// The probability that the row uses an atom given which others it does, and the mean of its weight if it does.
    fn outlook(&self, k: usize, ln_odds: f64) -> (f64, f64) {
        // what an atom in use would add to the others: one over its diagonal entry of C⁻¹
        let outside = self.place[k] == NOWHERE;
        let size = if outside { self.schur[k] } else { 1.0 / self.precision[k] };
        let size = if size < self.ridge { self.ridge } else { size };
        let mean = if outside { self.rest[k] / size } else { self.linear[k] };
        // odds of exp(`gain`) over `volume`
        let gain = ln_odds + 0.5 * self.noise * mean * mean * size;
        let volume = (size / self.ridge).sqrt();
        let e = exp(-gain.abs());
        (if gain < 0.0 { e / (e + volume) } else { 1.0 / (1.0 + e * volume) }, mean)
    }

    /// Draws whether the row uses these atoms, one after the other.
    pub(super) fn ask(&mut self, view: &View, atoms: &[u32], ln_odds: &[f64], rng: &mut Philox) -> Result<()> {
        for &k in atoms {
            let k = k as usize;
            let (chance, _) = self.outlook(k, ln_odds[k]);
            if chance.is_nan() {
                return Err(broken("the scan of a new row"));
            }
            match (self.place[k] != NOWHERE, open01(rng) < chance) {
                (false, true) => self.take_up(view, k),
                (true, false) => self.put_down(view, k),
                _ => {}
            }
        }
        Ok(())
    }

    /// Atoms in use, ascending, with the means of their weights.
    pub(super) fn list(&self, entries: &mut Vec<Entry>) {
        entries.clear();
        entries.extend(self.members.iter().map(|&k| (k, self.linear[k as usize])));
        entries.sort_unstable_by_key(|e| e.0);
    }

    /// Adds the mean of the weight of each atom given which others are in use.
    pub(super) fn add_expected(&self, ln_odds: &[f64], out: &mut [f64]) {
        for (k, out) in out.iter_mut().enumerate() {
            let (chance, mean) = self.outlook(k, ln_odds[k]);
            *out += chance * mean;
        }
    }

    /// Calls `f(column, mean, variance)` for every missing entry, given which atoms are in use.
    pub(in super::super) fn for_missing(&self, view: &View, mut f: impl FnMut(usize, f64, f64)) {
        let (count, both) = (view.count, 2 * view.count);
        for (at, &m) in self.missing.iter().enumerate() {
            let phi = &self.absent[at * count..][..count];
            let mean = self.members.iter().map(|&k| phi[k as usize] * self.linear[k as usize]).sum();
            // φᵀC⁻¹φ = |Vφ|²
            let along = |row: &[f64]| self.members.iter().map(|&k| row[count + k as usize] * phi[k as usize]).sum::<f64>();
            let spread: f64 = self.rows.chunks_exact(both.max(1)).map(|row| along(row).powi(2)).sum();
            f(m as usize, mean, (1.0 + spread) / self.noise);
        }
    }
}

impl Gaussian {
    /// y = x̃Φᵀ over the observed columns.
    pub(super) fn panel_products(&self, view: &View, x: X<'_>, sources: &[u32]) -> Vec<f64> {
        let (rows, columns) = (x.rows(), self.centre.columns);
        let mut dense = vec![0.0; rows * columns];
        for (at, &source) in sources.iter().enumerate().take(rows) {
            // with nothing to stand in for them, missing entries are 0
            self.centre.dense(x, at, source as usize, &[], &mut dense[at * columns..][..columns]);
        }
        let mut products = vec![0.0; rows * view.count];
        if view.count > 0 {
            mul_t(&dense, &view.phi, &mut products, rows, columns, view.count, false);
        }
        products
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{Active, Products};
    use super::super::{Centre, Hyper, Scales, normals};
    use super::*;
    use crate::data::Matrix;
    use crate::linalg::dot;
    use crate::model::factors::likelihood::Likelihood;
    use crate::run::{Purpose, Stream};
    use crate::special::sigmoid;

    /// Many atoms taken up and put down, two of them nearly alike, beside factors that are made afresh from the observed columns.
    #[test]
    fn what_is_kept_up_to_date_is_what_is_made_afresh() {
        let (columns, count) = (12, 9);
        let mut rng = Stream::new(2, 0, Purpose::Check).rng();
        let mut phi = vec![0.0; columns * count];
        normals(&mut phi, 1.0, &mut rng);
        for m in 0..columns {
            phi[columns + m] = phi[m] * (1.0 + 1e-3 * m as f64);
        }
        let scales = Scales { atom: 1.0, weight: vec![0.7; 2], noise: vec![3.0; 2] };
        let ln_odds: Vec<f64> = (0..count).map(|k| k as f64 * 0.4 - 1.5).collect();
        for missing in [vec![], vec![3, 10]] {
            let centre = Centre { columns, means: vec![0.0; 2 * columns], scale: 1.0, missing: true };
            let model = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
            let view = model.view(&phi, count, &scales);
            let mut x = vec![0.0; columns];
            normals(&mut x, 2.0, &mut rng);
            missing.iter().for_each(|&m: &usize| x[m] = f64::NAN);
            let matrix = Matrix::dense(1, columns, x.clone());
            let row = Row { x: matrix.view(), at: 0, source: 0, filled: &[] };
            let products = model.products(&view, row.x, &[0]);
            let (own, y) = match model.observed(&view, row) {
                None => (view.clone(), products.clone()),
                Some((_, own, values)) => {
                    let y = (0..count).map(|k| dot(own.atom(k as u32), &values)).collect();
                    (own, y)
                }
            };
            let mut placing = Placing::default();
            placing.meet(&model, &view, row, &products, &[(4, 0.0), (7, 0.0)]);
            let mut active = Active::default();
            for turn in 0..400 {
                let k = ((open01(&mut rng) * count as f64) as usize).min(count - 1);
                if placing.place[k] == NOWHERE {
                    placing.take_up(&view, k)
                } else {
                    placing.put_down(&view, k)
                }
                active.begin(Products { gram: &own.gram, y: &y }, 0.7 / 3.0, placing.members.iter().copied());
                for k in 0..count {
                    let gain = active.gain(Products { gram: &own.gram, y: &y }, k);
                    let mean = gain.rest / gain.schur;
                    let logit = ln_odds[k] + 0.5 * (3.0 * gain.rest * mean - (gain.schur * 3.0 / 0.7).ln());
                    let (p, w) = placing.outlook(k, ln_odds[k]);
                    assert!((p - sigmoid(logit)).abs() < 1e-8, "turn {turn}, atom {k}: {p} for {}", sigmoid(logit));
                    assert!((w - mean).abs() < 1e-8 * (1.0 + mean.abs()), "turn {turn}, atom {k}: {w} for {mean}");
                }
            }
        }
    }
}
