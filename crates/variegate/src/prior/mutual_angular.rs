//! Mutual angular distributions: every direction is pushed away from the sum of those before it.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Scratch, room, uniform_direction};
use crate::dist::{Concentration, VonMisesFisher, ln_surface};
use crate::infer::require;
use crate::linalg::dot;
use crate::run::open01;
use crate::special::sigmoid;
use crate::{Error, Result};

/// Largest concentration that is accepted.
pub const MAX_KAPPA: f64 = 1e6;

/// A sum of directions no longer than this points nowhere.
pub(crate) const NOWHERE: f64 = 1e-12;

/// How the sum `s = a_1 + ... + a_{i-1}` of the earlier directions acts on `a_i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AngularKind {
    /// By its direction alone: `a_i ~ vMF(-s/|s|, kappa)`. The density jumps where `s` vanishes.
    One,
    /// By its length too: `a_i ~ vMF(-s/|s|, kappa |s|)`, that is `C(kappa |s|) exp(-kappa s'a_i)`. Smooth, and it rises
    /// whenever a pair moves apart.
    Two,
}

/// A chain of von Mises-Fisher distributions: `a_1` is uniform, or `vMF(first, kappa)` where a first direction is given; each further
/// direction points away from the sum of those before it, as [`AngularKind`] says.
///
/// The density is normalised. It depends on the order of the directions, except that the two kinds are one for two directions.
/// `kappa = 0` is uniform; what matters is `kappa` in proportion to the dimension. Where the sum is no longer than 1e-12, kind
/// one makes the next direction uniform; kind two is continuous there and needs no exception.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MutualAngular {
    /// How earlier directions act on a later one.
    pub kind: AngularKind,
    /// Concentration, from 0 to [`MAX_KAPPA`].
    pub kappa: f64,
    /// Where the first direction points (a unit vector); without it the first direction is uniform.
    pub first: Option<Vec<f64>>,
}

/// One factor of the chain: what it adds to the log density, given `|s|` and `s'a_i`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    kind: AngularKind,
    kappa: f64,
    dim: usize,
    ln_uniform: f64,
    /// at `kappa` itself, which kind one needs in every factor
    fixed: Concentration,
}

impl Node {
    /// `along` is `s'a_i`, `length` is `|s|`.
    pub(super) fn term(&self, length: f64, along: f64) -> f64 {
        match self.kind {
            AngularKind::One if length <= NOWHERE => self.ln_uniform,
            AngularKind::One => self.ln_uniform - self.fixed.ln_ratio - self.kappa * (along / length),
            AngularKind::Two => self.ln_uniform - Concentration::at(self.dim, self.kappa * length).ln_ratio - self.kappa * along,
        }
    }

    /// The first factor: `along` is the cosine to the first direction, if there is one.
    pub(super) fn first(&self, along: Option<f64>) -> f64 {
        along.map_or(self.ln_uniform, |along| self.ln_uniform - self.fixed.ln_ratio + self.kappa * along)
    }
}

impl MutualAngular {
    pub(super) fn validate(&self, dim: usize) -> Result<()> {
        let kappa = self.kappa;
        require((0.0..=MAX_KAPPA).contains(&kappa), "kappa", kappa, &format!("between 0 and {MAX_KAPPA:e}"))?;
        if let Some(first) = &self.first {
            require(first.len() == dim, "first", format!("a vector of {}", first.len()), &format!("a vector of {dim}"))?;
            let length = dot(first, first).sqrt();
            require((length - 1.0).abs() < 1e-8, "first", format!("a vector of length {length}"), "of length 1")?;
        }
        Ok(())
    }

    pub(super) fn node(&self, dim: usize) -> Node {
        Node { kind: self.kind, kappa: self.kappa, dim, ln_uniform: -ln_surface(dim), fixed: Concentration::at(dim, self.kappa) }
    }

    /// Cosine of `direction` to the first direction, where there is one.
    pub(super) fn along_first(&self, direction: &[f64]) -> Option<f64> {
        self.first.as_ref().map(|first| {
            assert_eq!(first.len(), direction.len(), "the first direction has another dimension");
            dot(first, direction)
        })
    }

    /// By sums of vectors, `O(K dim)`; `sum` is room for one direction.
    pub(super) fn ln_density<'a>(&self, count: usize, dim: usize, row: impl Fn(usize) -> &'a [f64], sum: &mut [f64]) -> f64 {
        let node = self.node(dim);
        let mut total = 0.0;
        sum.fill(0.0);
        for i in 0..count {
            let a = row(i);
            total += if i == 0 { node.first(self.along_first(a)) } else { node.term(dot(sum, sum).sqrt(), dot(sum, a)) };
            sum.iter_mut().zip(a).for_each(|(s, a)| *s += a);
        }
        total
    }

    /// One pass forward for the sums, one back with the accumulated pull of later directions on earlier ones.
    pub(super) fn gradient_add(&self, count: usize, directions: &[f64], dim: usize, out: &mut [f64], scratch: &mut Scratch) -> f64 {
        if count == 0 {
            return 0.0;
        }
        let (node, kappa) = (self.node(dim), self.kappa);
        let sums = room(&mut scratch.first, count * dim);
        sums[..dim].copy_from_slice(&directions[..dim]);
        for i in 1..count {
            let (before, now) = sums.split_at_mut(i * dim);
            for ((s, b), a) in now.iter_mut().zip(&before[(i - 1) * dim..]).zip(&directions[i * dim..(i + 1) * dim]) {
                *s = b + a;
            }
        }
        let later = room(&mut scratch.second, dim);
        later.fill(0.0);
        let mut total = 0.0;
        for i in (1..count).rev() {
            let s = &sums[(i - 1) * dim..i * dim];
            let a = &directions[i * dim..(i + 1) * dim];
            let out = &mut out[i * dim..(i + 1) * dim];
            let (length, along) = (dot(s, s).sqrt(), dot(s, a));
            // the factor's gradient in a_i is -cross s, in s it is -(cross a_i + own s)
            let (cross, own);
            match self.kind {
                AngularKind::One => {
                    total += node.term(length, along);
                    (cross, own) = if length <= NOWHERE { (0.0, 0.0) } else { (kappa / length, -kappa * along / length.powi(3)) };
                }
                AngularKind::Two => {
                    let here = Concentration::at(dim, kappa * length);
                    total += node.ln_uniform - here.ln_ratio - kappa * along;
                    (cross, own) = (kappa, kappa * kappa * here.rho / dim as f64);
                }
            }
            for (((g, q), s), a) in out.iter_mut().zip(later.iter_mut()).zip(s).zip(a) {
                *g += *q - cross * s;
                *q -= cross * a + own * s;
            }
        }
        out.iter_mut().zip(later.iter()).for_each(|(g, q)| *g += q);
        if let Some(first) = &self.first {
            out.iter_mut().zip(first).for_each(|(g, m)| *g += kappa * m);
        }
        total + node.first(self.along_first(&directions[..dim]))
    }

    /// In the order of the chain.
    pub(super) fn sample<R: Rng + ?Sized>(&self, count: usize, dim: usize, rng: &mut R) -> Result<Vec<f64>> {
        let mut out = vec![0.0; count * dim];
        let mut sum = vec![0.0; dim];
        for i in 0..count {
            let row = &mut out[i * dim..(i + 1) * dim];
            let length = dot(&sum, &sum).sqrt();
            let pull = match (i, &self.first) {
                (0, Some(first)) => Some((first.clone(), self.kappa)),
                (0, None) => None,
                _ if length <= NOWHERE => None,
                _ => {
                    let away: Vec<f64> = sum.iter().map(|s| -s / length).collect();
                    Some((away, if self.kind == AngularKind::One { self.kappa } else { self.kappa * length }))
                }
            };
            match pull {
                None => uniform_direction(row, rng),
                Some((mean, kappa)) if dim == 1 => row[0] = if open01(rng) < sigmoid(2.0 * kappa) { mean[0] } else { -mean[0] }.signum(),
                Some((mean, kappa)) => {
                    VonMisesFisher::new(&mean, kappa).map_err(Error::from)?.sample_into(rng, row);
                    super::normalise(row);
                }
            }
            sum.iter_mut().zip(row.iter()).for_each(|(s, a)| *s += a);
        }
        Ok(out)
    }
}
