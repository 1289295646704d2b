//! Directions under a distribution, changed one at a time.

use super::determinantal::{factor_in_place, solve_lower};
use super::{Directions, rows};
use crate::linalg::dot;

/// Below this squared length of a sum of directions its digits cancel in the recursion over inner products, and the vectors
/// themselves are added up.
const SHORT: f64 = 1e-4;

/// Directions with their inner products, for moves of one direction or a swap of two neighbours.
///
/// With `d_i = sum_{j<i} a_i'a_j` the squared lengths of the partial sums are `n_i = n_{i-1} + 2 d_i + 1`, so a mutual angular distribution needs
/// nothing but inner products: a proposal costs `K` of them and `O(K)` more. A determinantal distribution needs one triangular solve, `O(K^2)`, and
/// a factorisation of the kernel of the other directions where the direction is not the one proposed for last.
#[derive(Debug, Clone)]
pub struct Coupled {
    distribution: Directions,
    dim: usize,
    count: usize,
    directions: Vec<f64>,
    /// inner products; the diagonal is 1
    gram: Vec<f64>,
    /// `d_i`
    along: Vec<f64>,
    /// `n_i`
    square: Vec<f64>,
    ln_density: f64,
    /// inner products of a proposal with all directions
    cosines: Vec<f64>,
    sum: Vec<f64>,
    others: Others,
}

/// Factor of the kernel of all directions but one.
#[derive(Debug, Clone, Default)]
struct Others {
    /// which one is missing, `None` where nothing is factored
    without: Option<usize>,
    factor: Vec<f64>,
    /// `None`: not positive definite
    ln_det: Option<f64>,
    cross: Vec<f64>,
}

impl Coupled {
    /// The given directions (unit vectors, one a row) under a distribution.
    ///
    /// # Panics
    /// As [`Directions::ln_density`].
    pub fn new(distribution: &Directions, directions: &[f64], dim: usize) -> Self {
        let count = rows(directions, dim);
        let mut done = Self {
            distribution: distribution.clone(),
            dim,
            count,
            directions: directions.to_vec(),
            gram: vec![1.0; count * count],
            along: vec![0.0; count],
            square: vec![0.0; count],
            ln_density: distribution.ln_density(directions, dim),
            cosines: vec![0.0; count],
            sum: vec![0.0; dim],
            others: Others::default(),
        };
        for i in 0..count {
            for j in 0..i {
                let cosine = dot(done.row(i), done.row(j));
                (done.gram[i * count + j], done.gram[j * count + i]) = (cosine, cosine);
            }
        }
        done.sum_up();
        done
    }

    /// The directions as they are now.
    pub fn directions(&self) -> &[f64] {
        &self.directions
    }

    /// Log density of the directions as they are now.
    pub fn ln_density(&self) -> f64 {
        self.ln_density
    }

    /// Log density if direction `k` were `new`.
    ///
    /// # Panics
    /// If there is no direction `k` or `new` has another dimension.
    pub fn propose(&mut self, k: usize, new: &[f64]) -> f64 {
        assert!(k < self.count && new.len() == self.dim, "direction {k} of {} in {} dimensions", self.count, new.len());
        if self.distribution == Directions::Uniform {
            return self.ln_density;
        }
        for (j, cosine) in self.cosines.iter_mut().enumerate() {
            *cosine = if j == k { 1.0 } else { dot(&self.directions[j * self.dim..(j + 1) * self.dim], new) };
        }
        match &self.distribution {
            Directions::Uniform => self.ln_density,
            Directions::MutualAngular(distribution) => {
                let (node, count) = (distribution.node(self.dim), self.count);
                let mut total = node.first(distribution.along_first(if k == 0 { new } else { self.row(0) }));
                let mut square = 1.0;
                for i in 1..count {
                    if square < SHORT {
                        let row = |i: usize| if i == k { new } else { &self.directions[i * self.dim..(i + 1) * self.dim] };
                        return distribution.ln_density(count, self.dim, row, &mut self.sum);
                    }
                    let along = match i.cmp(&k) {
                        std::cmp::Ordering::Less => self.along[i],
                        std::cmp::Ordering::Equal => self.cosines[..k].iter().sum(),
                        std::cmp::Ordering::Greater => self.along[i] - self.gram[i * count + k] + self.cosines[i],
                    };
                    total += node.term(square.sqrt(), along);
                    square += 2.0 * along + 1.0;
                }
                total
            }
            Directions::Determinantal(distribution) => {
                let (count, others) = (self.count, &mut self.others);
                let left_in = |j: &usize| *j != k;
                if others.without != Some(k) {
                    let size = count - 1;
                    others.factor.resize(size * size, 0.0);
                    others.cross.resize(size, 0.0);
                    for (row, i) in (0..count).filter(left_in).enumerate() {
                        for (column, j) in (0..count).filter(left_in).enumerate().take(row + 1) {
                            others.factor[row * size + column] = if i == j { 1.0 } else { distribution.kernel(self.gram[i * count + j]) };
                        }
                    }
                    others.ln_det = factor_in_place(&mut others.factor, size);
                    others.without = Some(k);
                }
                let Some(ln_det) = others.ln_det else { return f64::NEG_INFINITY };
                for (cross, j) in others.cross.iter_mut().zip((0..count).filter(left_in)) {
                    *cross = distribution.kernel(self.cosines[j]);
                }
                solve_lower(&others.factor, &mut others.cross, count - 1);
                let left = 1.0 - dot(&others.cross, &others.cross);
                let volume = if left > 0.0 { ln_det + left.ln() } else { f64::NEG_INFINITY };
                volume - count as f64 * crate::dist::ln_surface(self.dim)
            }
        }
    }

    /// Makes `new` direction `k`.
    ///
    /// # Panics
    /// As [`propose`](Self::propose).
    pub fn accept(&mut self, k: usize, new: &[f64]) {
        self.ln_density = self.propose(k, new);
        self.directions[k * self.dim..(k + 1) * self.dim].copy_from_slice(new);
        if self.distribution == Directions::Uniform {
            return;
        }
        for j in 0..self.count {
            (self.gram[k * self.count + j], self.gram[j * self.count + k]) = (self.cosines[j], self.cosines[j]);
        }
        self.sum_up();
        self.others.without = self.others.without.filter(|i| *i == k);
    }

    /// Log density if directions `i` and `i + 1` changed places.
    ///
    /// # Panics
    /// If there is no direction `i + 1`.
    pub fn propose_swap(&mut self, i: usize) -> f64 {
        assert!(i + 1 < self.count, "direction {i} of {} has no next", self.count);
        let Directions::MutualAngular(distribution) = &self.distribution else { return self.ln_density };
        let cosine = self.gram[i * self.count + i + 1];
        // squared lengths before the pair, and between the two of it: now and after the swap
        let before = if i == 0 { 0.0 } else { self.square[i - 1] };
        let (now, then) = (self.square[i], before + 2.0 * (self.along[i + 1] - cosine) + 1.0);
        if (i > 0 && before < SHORT) || now.min(then) < SHORT {
            let row = |j: usize| {
                let j = if j == i {
                    i + 1
                } else if j == i + 1 {
                    i
                } else {
                    j
                };
                &self.directions[j * self.dim..(j + 1) * self.dim]
            };
            return distribution.ln_density(self.count, self.dim, row, &mut self.sum);
        }
        let node = distribution.node(self.dim);
        let second = node.term(then.sqrt(), self.along[i] + cosine) - node.term(now.sqrt(), self.along[i + 1]);
        let first = if i == 0 {
            node.first(distribution.along_first(self.row(1))) - node.first(distribution.along_first(self.row(0)))
        } else {
            node.term(before.sqrt(), self.along[i + 1] - cosine) - node.term(before.sqrt(), self.along[i])
        };
        self.ln_density + first + second
    }

    /// Swaps directions `i` and `i + 1`.
    ///
    /// # Panics
    /// As [`propose_swap`](Self::propose_swap).
    pub fn accept_swap(&mut self, i: usize) {
        self.ln_density = self.propose_swap(i);
        let (dim, count) = (self.dim, self.count);
        for d in 0..dim {
            self.directions.swap(i * dim + d, (i + 1) * dim + d);
        }
        for j in 0..count {
            self.gram.swap(i * count + j, (i + 1) * count + j);
        }
        for j in 0..count {
            self.gram.swap(j * count + i, j * count + i + 1);
        }
        self.sum_up();
        self.others.without = None;
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.directions[i * self.dim..(i + 1) * self.dim]
    }

    /// `d_i` and `n_i` anew from the inner products, so that no rounding adds up over many moves.
    fn sum_up(&mut self) {
        let mut square = 0.0;
        for i in 0..self.count {
            self.along[i] = self.gram[i * self.count..i * self.count + i].iter().sum();
            square += 2.0 * self.along[i] + 1.0;
            self.square[i] = square;
        }
    }
}
