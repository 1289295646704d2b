//! E softmax(z) of Gaussian logits: what a node expects of a row.
//!
//! `probit` is deterministic. Two children: σ((m₁ − m₂)/√(1 + πs/8)) with s = Var(z₁ − z₂). Three to five: each against the rest, whose
//! log-sum-exp is taken as Gaussian, then normalised. Six and more: the minimiser of the tilted bound. Its error is below 0.01 up to
//! logit variances of 1 and below 0.03 at 4 for independent logits; correlated ones can be off by 0.07 at variance 4: use `mc` there.
//! `mc` averages over antithetic draws, the same ones for every row, and gives standard deviations.

use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::PI;

use super::node::Covariance;
use super::tilted::{self, Spread, softmax};
use crate::data::design::packed_len;
use crate::run::{Purpose, Stream};
use crate::special::{ln_sigmoid, log_sum_exp};

/// Pairs of antithetic draws.
const PAIRS: usize = 256;

/// Logits of a row: means, and variances or packed covariance.
#[derive(Debug, Clone, Copy)]
pub struct Logits<'a> {
    /// Means.
    pub m: &'a [f64],
    /// Variances (`Child`), or packed covariance (`Joint`).
    pub v: &'a [f64],
    /// Which of the two `v` is.
    pub covariance: Covariance,
}

impl Logits<'_> {
    fn var(&self, i: usize, j: usize) -> f64 {
        match self.covariance {
            Covariance::Child if i != j => 0.0,
            Covariance::Child => self.v[i],
            Covariance::Joint => self.v[packed_len(i.max(j)) + i.min(j)],
        }
    }
}

/// The deterministic approximation.
#[derive(Debug, Default)]
pub struct Probit {
    solver: tilted::Solver,
    u: Vec<f64>,
    vu: Vec<f64>,
    log: Vec<f64>,
}

impl Probit {
    /// Fills in the class probabilities.
    pub fn expect(&mut self, z: Logits<'_>, out: &mut [f64]) {
        let squash = |s: f64| (1.0 + PI / 8.0 * s.max(0.0)).sqrt();
        match z.m.len() {
            2 => {
                let t = (z.m[0] - z.m[1]) / squash(z.var(0, 0) + z.var(1, 1) - 2.0 * z.var(0, 1));
                (out[0], out[1]) = (ln_sigmoid(t).exp(), ln_sigmoid(-t).exp());
            }
            s @ 3..=5 => {
                self.log.resize(s, 0.0);
                for i in 0..s {
                    let (u, vu) = (&mut self.u, &mut self.vu);
                    u.clear();
                    u.extend_from_slice(z.m);
                    u[i] = f64::NEG_INFINITY;
                    let rest = softmax(u);
                    vu.clear();
                    vu.extend((0..s).map(|a| (0..s).map(|b| z.var(a, b) * u[b]).sum::<f64>()));
                    let around: f64 = (0..s).map(|j| u[j] * z.var(j, j)).sum();
                    let uvu: f64 = u.iter().zip(vu.iter()).map(|(u, v)| u * v).sum();
                    let centre = rest + 0.5 * (around - uvu);
                    self.log[i] = ln_sigmoid((z.m[i] - centre) / squash(z.var(i, i) + uvu - 2.0 * vu[i]));
                }
                let total = log_sum_exp(&self.log);
                for (o, l) in out.iter_mut().zip(&self.log) {
                    *o = (l - total).exp();
                }
            }
            _ => {
                let spread = match z.covariance {
                    Covariance::Child => Spread::Child(z.v),
                    Covariance::Joint => Spread::Joint(z.v),
                };
                self.solver.minimise(z.m, spread, tilted::REFINED);
                out.copy_from_slice(self.solver.minimiser());
                normalise(out);
            }
        }
    }
}

/// The average over draws.
#[derive(Debug)]
pub struct MonteCarlo {
    /// One standard normal a draw and child.
    normals: Vec<f64>,
    factor: Vec<f64>,
    z: Vec<f64>,
    shift: Vec<f64>,
}

impl MonteCarlo {
    /// Draws named by the key of the fit and their number; rows have no part in it.
    pub fn new(key: u64, children: usize) -> Self {
        let stream = Stream::new(key, 0, Purpose::Predict);
        let normals = (0..PAIRS)
            .flat_map(|draw| {
                let mut rng = stream.item(draw as u64).rng();
                (0..children).map(move |_| StandardNormal.sample(&mut rng)).collect::<Vec<f64>>()
            })
            .collect();
        Self { normals, factor: Vec::new(), z: vec![0.0; children], shift: vec![0.0; children] }
    }

    /// Fills in the class probabilities and their posterior standard deviations.
    pub fn expect(&mut self, z: Logits<'_>, mean: &mut [f64], deviation: &mut [f64]) {
        let s = z.m.len();
        self.factorise(z);
        mean.fill(0.0);
        deviation.fill(0.0);
        for normals in self.normals.chunks_exact(s) {
            for i in 0..s {
                self.shift[i] = match z.covariance {
                    Covariance::Child => self.factor[i] * normals[i],
                    Covariance::Joint => {
                        let row = &self.factor[packed_len(i)..=packed_len(i) + i];
                        row.iter().zip(normals).map(|(f, e)| f * e).sum()
                    }
                };
            }
            for sign in [1.0, -1.0] {
                for ((out, m), d) in self.z.iter_mut().zip(z.m).zip(&self.shift) {
                    *out = m + sign * d;
                }
                softmax(&mut self.z);
                for ((sum, square), p) in mean.iter_mut().zip(deviation.iter_mut()).zip(&self.z) {
                    *sum += p;
                    *square += p * p;
                }
            }
        }
        let n = 2.0 * PAIRS as f64;
        for (sum, square) in mean.iter_mut().zip(deviation) {
            *sum /= n;
            *square = (*square / n - *sum * *sum).max(0.0).sqrt();
        }
        normalise(mean);
    }

    /// A factor of the covariance; directions without variance get none.
    fn factorise(&mut self, z: Logits<'_>) {
        let s = z.m.len();
        let f = &mut self.factor;
        f.clear();
        f.extend_from_slice(z.v);
        if z.covariance == Covariance::Child {
            f.iter_mut().for_each(|v| *v = v.max(0.0).sqrt());
            return;
        }
        for i in 0..s {
            let (above, row) = f.split_at_mut(packed_len(i));
            let own = row[i];
            for j in 0..i {
                let other = &above[packed_len(j)..=packed_len(j) + j];
                let sum: f64 = row[..j].iter().zip(other).map(|(a, b)| a * b).sum();
                row[j] = if other[j] > 0.0 { (row[j] - sum) / other[j] } else { 0.0 };
            }
            let left = own - row[..i].iter().map(|v| v * v).sum::<f64>();
            row[i] = if left > 1e-14 * own { left.sqrt() } else { 0.0 };
        }
    }
}

fn normalise(p: &mut [f64]) {
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: [f64; 3] = [0.3, -1.2, 2.0];
    const V: [f64; 3] = [0.5, 1.5, 0.8];
    const JOINT: [f64; 6] = [0.5, 0.3, 1.5, -0.1, 0.2, 0.8];

    fn close(a: &[f64], b: &[f64], tolerance: f64) {
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < tolerance, "{a} {b}");
        }
    }

    #[test]
    fn one_against_the_rest_has_its_reference_values() {
        let mut out = [0.0; 3];
        Probit::default().expect(Logits { m: &M, v: &V, covariance: Covariance::Child }, &mut out);
        close(&out, &[0.18573409, 0.07081316, 0.74345275], 1e-8);
        Probit::default().expect(Logits { m: &M, v: &JOINT, covariance: Covariance::Joint }, &mut out);
        close(&out, &[0.19208333, 0.06181743, 0.74609925], 1e-8);
    }

    /// Against integrated means: within the errors stated above, and Monte Carlo within four of its own standard errors.
    #[test]
    fn approximations_are_near_the_integral() {
        let exact = [0.18613386, 0.06448433, 0.74938181];
        let (mut mean, mut deviation) = ([0.0; 3], [0.0; 3]);
        let logits = Logits { m: &M, v: &V, covariance: Covariance::Child };
        Probit::default().expect(logits, &mut mean);
        close(&mean, &exact, 0.01);
        MonteCarlo::new(7, 3).expect(logits, &mut mean, &mut deviation);
        for c in 0..3 {
            assert!((mean[c] - exact[c]).abs() < 4.0 * deviation[c] / (2.0 * PAIRS as f64).sqrt(), "{} {}", mean[c], exact[c]);
        }
        let two = Logits { m: &[0.7, -0.4], v: &[0.6, 1.1], covariance: Covariance::Child };
        let mut out = [0.0; 2];
        Probit::default().expect(two, &mut out);
        close(&out[..1], &[0.6972020134], 0.005);
        // a covariance of diagonal form is the same as variances
        let diagonal = [0.5, 0.0, 1.5, 0.0, 0.0, 0.8];
        let mut other = [0.0; 3];
        MonteCarlo::new(7, 3).expect(Logits { m: &M, v: &diagonal, covariance: Covariance::Joint }, &mut other, &mut deviation);
        close(&other, &mean, 1e-14);
    }

    #[test]
    fn without_variance_all_are_the_softmax() {
        for s in [2usize, 4, 7] {
            let m: Vec<f64> = (0..s).map(|i| (i as f64 * 1.7).sin() * 3.0).collect();
            let v = vec![0.0; packed_len(s)];
            let mut exact = m.clone();
            softmax(&mut exact);
            let (mut mean, mut deviation) = (vec![0.0; s], vec![0.0; s]);
            for covariance in [Covariance::Child, Covariance::Joint] {
                let logits = Logits { m: &m, v: &v[..covariance.blocks(s)], covariance };
                Probit::default().expect(logits, &mut mean);
                close(&mean, &exact, 1e-12);
                MonteCarlo::new(1, s).expect(logits, &mut mean, &mut deviation);
                close(&mean, &exact, 1e-12);
                assert!(deviation.iter().all(|d| *d < 1e-7));
            }
        }
    }
}
