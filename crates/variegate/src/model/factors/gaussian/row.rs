//! The atoms that a row uses, with their weights integrated out.
//!
//! With Gm = ΦΦᵀ, y = Φx and ν = t_w / t_n, the atoms `a` in use enter p(x | z) through C = Gm_aa + νI only:
//! ln p(x | z) = const − ½ ln |C/ν| + ½ t_n yₐᵀC⁻¹yₐ. Kept are L, the Cholesky factor of C, and L⁻¹yₐ. They follow every atom that is
//! taken up (a row more) or put down (a row less, and rotations) at the price of its square, and lose no more digits than C itself
//! does; an inverse that is kept up to date would lose twice as many where atoms are nearly alike.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::linalg::dot;

/// An atom that is not in use has no place among those that are.
const NOWHERE: u32 = u32::MAX;

/// Below this share of |φ|², what is new in an atom is mostly rounding error.
const DOUBTFUL: f64 = 1e-12;

/// Inner products of atoms, and of atoms with the row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products<'a> {
    /// Gm, one atom a row.
    pub gram: &'a [f64],
    /// y.
    pub y: &'a [f64],
}

/// What an atom adds to a row that uses certain others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gain {
    /// Its part that the others do not span: the Schur complement Gm_kk + ν − gᵀC⁻¹g, g being its inner products with the others.
    pub schur: f64,
    /// Its inner product with what the others leave of the row: y_k − gᵀC⁻¹yₐ.
    pub rest: f64,
}

/// The atoms in use.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// ν.
    ridge: f64,
    /// Atoms in use, in the order in which they were taken up.
    members: Vec<u32>,
    /// Where each atom is among them.
    place: Vec<u32>,
    /// Rows of L, one after the other, each up to its diagonal, of which the reciprocal is kept.
    factor: Vec<f64>,
    /// L⁻¹yₐ.
    whitened: Vec<f64>,
    /// L⁻¹g of the atom that was looked at last.
    solved: Vec<f64>,
    /// Cosines and sines.
    rotations: Vec<(f64, f64)>,
    /// Whether an atom was put down since L was made.
    rotated: bool,
}

/// Where row i of a triangle begins.
fn start(i: usize) -> usize {
    i * (i + 1) / 2
}

impl Active {
    /// Starts a row that uses these atoms.
    pub(crate) fn begin(&mut self, products: Products<'_>, ridge: f64, atoms: impl Iterator<Item = u32>) {
        self.place.clear();
        self.place.resize(products.y.len(), NOWHERE);
        self.ridge = ridge;
        self.members.clear();
        self.members.extend(atoms);
        self.rebuild(products);
    }

    /// Makes L afresh.
    fn rebuild(&mut self, products: Products<'_>) {
        self.factor.clear();
        self.whitened.clear();
        self.rotated = false;
        let count = self.members.len();
        for i in 0..count {
            let k = self.members[i] as usize;
            self.place[k] = i as u32;
            let gain = self.outside(products, k, i);
            self.append(self.bounded(gain));
        }
    }

    /// The atoms in use, in the order they were taken up.
    pub(crate) fn atoms(&self) -> &[u32] {
        &self.members
    }

    /// Number of atoms in use.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether this one is.
    pub(crate) fn has(&self, k: usize) -> bool {
        self.place[k] != NOWHERE
    }

    /// What atom k adds to the others in use. If it is in use itself, this is what it would add were it not.
    pub(crate) fn gain(&mut self, products: Products<'_>, k: usize) -> Gain {
        let gain = self.look(products, k);
        let size = products.gram[k * products.y.len() + k];
        if self.rotated && (gain.schur.is_nan() || gain.schur <= DOUBTFUL * size) {
            self.rebuild(products);
            let gain = self.look(products, k);
            return self.bounded(gain);
        }
        self.bounded(gain)
    }

    /// In exact arithmetic no Schur complement is less than ν.
    fn bounded(&self, gain: Gain) -> Gain {
        Gain { schur: gain.schur.max(self.ridge), ..gain }
    }

    fn look(&mut self, products: Products<'_>, k: usize) -> Gain {
        if self.has(k) { self.inside(self.place[k] as usize) } else { self.outside(products, k, self.len()) }
    }

    /// The gain of atom k over the first `count` atoms in use; leaves L⁻¹g behind.
    fn outside(&mut self, products: Products<'_>, k: usize, count: usize) -> Gain {
        let gram = &products.gram[k * products.y.len()..][..products.y.len()];
        self.solved.clear();
        let mut at = 0;
        for (i, &l) in self.members[..count].iter().enumerate() {
            let row = &self.factor[at..at + i + 1];
            self.solved.push((gram[l as usize] - dot(&row[..i], &self.solved)) * row[i]);
            at += i + 1;
        }
        let schur = gram[k] + self.ridge - dot(&self.solved, &self.solved);
        Gain { schur, rest: products.y[k] - dot(&self.solved, &self.whitened) }
    }

    /// The gain of the atom in place `own` over the others: one over its diagonal entry of C⁻¹, which is |L⁻¹e|².
    fn inside(&mut self, own: usize) -> Gain {
        self.solved.clear();
        self.solved.push(self.factor[start(own) + own]);
        for i in own + 1..self.len() {
            let row = &self.factor[start(i)..][..i + 1];
            self.solved.push(-dot(&row[own..i], &self.solved) * row[i]);
        }
        let schur = 1.0 / dot(&self.solved, &self.solved);
        Gain { schur, rest: dot(&self.solved, &self.whitened[own..]) * schur }
    }

    /// Takes up atom k, whose gain was the last asked for.
    pub(crate) fn take_up(&mut self, k: usize, gain: Gain) {
        self.place[k] = self.len() as u32;
        self.members.push(k as u32);
        self.append(gain);
    }

    fn append(&mut self, gain: Gain) {
        let reciprocal = 1.0 / gain.schur.sqrt();
        self.factor.extend_from_slice(&self.solved);
        self.factor.push(reciprocal);
        self.whitened.push(gain.rest * reciprocal);
    }

    /// Puts down atom k, which is in use. Without its row, L has one entry too many in each later row; rotations of neighbouring columns
    /// remove them.
    pub(crate) fn put_down(&mut self, k: usize) {
        let own = self.place[k] as usize;
        self.place[k] = NOWHERE;
        self.members.remove(own);
        for &l in &self.members[own..] {
            self.place[l as usize] -= 1;
        }
        self.rotated = true;
        self.rotations.clear();
        for i in own..self.len() {
            let (to, from) = (start(i), start(i + 1));
            self.factor.copy_within(from..from + own, to);
            let mut left = self.factor[from + own];
            for (c, &(cosine, sine)) in (own..).zip(&self.rotations) {
                let right = self.factor[from + c + 1];
                self.factor[to + c] = cosine * left + sine * right;
                left = cosine * right - sine * left;
            }
            let right = 1.0 / self.factor[from + i + 1];
            let length = left.hypot(right);
            let (cosine, sine) = (left / length, right / length);
            self.factor[to + i] = 1.0 / length;
            self.rotations.push((cosine, sine));
            let (a, b) = (self.whitened[i], self.whitened[i + 1]);
            self.whitened[i] = cosine * a + sine * b;
            self.whitened[i + 1] = cosine * b - sine * a;
        }
        self.whitened.pop();
        self.factor.truncate(start(self.len()));
    }

    /// −½ ln |C/ν| and yₐᵀC⁻¹yₐ.
    pub(crate) fn evidence(&self) -> (f64, f64) {
        let n = self.len();
        let volume: f64 = (0..n).map(|i| self.factor[start(i) + i].ln()).sum();
        (volume + 0.5 * n as f64 * self.ridge.ln(), dot(&self.whitened, &self.whitened))
    }

    /// Draws the weights of the atoms in use, N(C⁻¹yₐ, C⁻¹/t_n), and lists both in ascending order of atoms.
    pub(crate) fn draw<R: Rng + ?Sized>(&mut self, noise: f64, rng: &mut R, entries: &mut Vec<(u32, f64)>) {
        let spread = 1.0 / noise.sqrt();
        // L⁻ᵀ(L⁻¹y + z/√t_n)
        self.solved.clone_from(&self.whitened);
        for s in &mut self.solved {
            let z: f64 = StandardNormal.sample(rng);
            *s += spread * z;
        }
        for i in (0..self.len()).rev() {
            let row = &self.factor[start(i)..][..i + 1];
            let (before, own) = self.solved.split_at_mut(i);
            own[0] *= row[i];
            for (b, l) in before.iter_mut().zip(row) {
                *b -= l * own[0];
            }
        }
        entries.clear();
        entries.extend(self.members.iter().copied().zip(self.solved.iter().copied()));
        entries.sort_unstable_by_key(|e| e.0);
    }

    /// L in rows of its own length, L⁻¹yₐ, and the atoms in use.
    #[cfg(test)]
    pub(crate) fn contents(&self) -> (Vec<f64>, &[f64], &[u32]) {
        let n = self.len();
        let entry = |i: usize, j: usize| match j {
            j if j < i => self.factor[start(i) + j],
            j if j == i => 1.0 / self.factor[start(i) + i],
            _ => 0.0,
        };
        ((0..n * n).map(|at| entry(at / n, at % n)).collect(), &self.whitened, &self.members)
    }
}
