//! Von Mises-Fisher draws in three dimensions: two random words a draw, no rejection and no branch.

use crate::linalg;
use crate::special::branchless::{ln_1p, sin_cos_quarters};
use rand::Rng;

/// Draws a pass: their words stay in the fastest cache.
const PASS: usize = 256;

/// What a draw on the sphere needs of its distribution.
///
/// `1 - w` is an exponential of rate kappa cut off at 2, drawn by inversion: `-ln(1 + u (exp(-2 kappa) - 1)) / kappa`. The direction across
/// is an eighth of a turn to either side of an axis, and two random bits for which axis. A loop over [`Sphere::point`] becomes vector
/// instructions, and a draw has the same bits alone and in a loop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sphere {
    /// `exp(-2 kappa) - 1`
    drop: f64,
    /// `-1 / kappa`
    scale: f64,
    /// an end of the first axis, on the other side from mu
    sign: f64,
    /// the reflection that carries it to mu is `x - (across'x) / (1 + |mu_1|) across`, with `across = sign e_1 - mu`
    across: [f64; 3],
    /// `1 / (1 + |mu_1|)`
    shrink: f64,
}

impl Sphere {
    /// For `mu` of unit length.
    pub(super) fn new(mu: [f64; 3], sign: f64, kappa: f64) -> Self {
        // below, the distribution is the uniform one to the last bit, and so are the formulas: 1 - w = 2 u
        let kappa = kappa.max(f64::EPSILON * f64::EPSILON);
        Self {
            drop: (-2.0 * kappa).exp_m1(),
            scale: -1.0 / kappa,
            sign,
            across: [sign - mu[0], -mu[1], -mu[2]],
            shrink: 1.0 / (1.0 + mu[0].abs()),
        }
    }

    /// `1 - w` of a random word, in (0, 2].
    #[inline(always)]
    pub(super) fn gap(&self, word: u64) -> f64 {
        let gap = self.scale * ln_1p(self.drop * fraction(word));
        // the rounding of kappa can carry it over
        if gap > 2.0 { 2.0 } else { gap }
    }

    /// A draw of two random words.
    #[inline(always)]
    pub(super) fn point(&self, along: u64, around: u64) -> [f64; 3] {
        let gap = self.gap(along);
        let radius = (gap * (2.0 - gap)).sqrt();
        let (sine, cosine) = sin_cos_quarters(fraction(around) - 0.5);
        // bits that the fraction does not use: which axis, and which end of it
        let (a, b) = if around & 1 == 0 { (cosine, sine) } else { (sine, cosine) };
        let radius = f64::from_bits(radius.to_bits() | (around & 2) << 62);
        let (x, y, z) = (self.sign * (1.0 - gap), radius * a, radius * b);
        let [u, v, w] = self.across;
        let along = self.shrink * (u * x + v * y + w * z);
        [x - along * u, y - along * v, z - along * w]
    }

    /// Fills `out` with draws, three places each: those that as many calls of [`Sphere::point`] give, each with two words.
    pub(super) fn fill<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        let mut words = [[0u64; PASS]; 2];
        for out in out.chunks_mut(3 * PASS) {
            let (out, _) = out.as_chunks_mut::<3>();
            let [along, around] = &mut words;
            for (a, b) in along.iter_mut().zip(around.iter_mut()).take(out.len()) {
                (*a, *b) = (rng.next_u64(), rng.next_u64());
            }
            linalg::wide(
                #[inline(always)]
                || {
                    for ((out, &a), &b) in out.iter_mut().zip(&*along).zip(&*around) {
                        *out = self.point(a, b);
                    }
                },
            );
        }
    }
}

/// A uniform number in the open interval (0, 1) of the upper 52 bits of a word, exactly: the middle of its cell.
#[inline(always)]
fn fraction(word: u64) -> f64 {
    f64::from_bits(0x3FF0_0000_0000_0000 | word >> 12) - (1.0 - 0.5 * f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use std::f64::consts::{PI, TAU};

    const KAPPAS: [f64; 12] = [0.0, 1e-320, 1e-40, 1e-8, 1e-3, 0.3, 1.0, 10.0, 1e3, 1e8, 1e30, 1e280];

    fn sphere(kappa: f64) -> Sphere {
        Sphere::new([0.6, 0.0, -0.8], -1.0, kappa)
    }

    /// Against the quantile function in the standard library's arithmetic, over all sizes of `u` and of `1 - u`, and at the ends.
    #[test]
    fn gap_is_the_quantile() {
        let mut rng = rng(7);
        for kappa in KAPPAS {
            let distribution = sphere(kappa);
            for i in 0..20_000 {
                let word = rng.next_u64() >> (i % 52);
                let word = if i & 1 == 0 { word } else { !word };
                let u = fraction(word);
                assert!(u > 0.0 && u < 1.0);
                let want = if kappa < 1e-35 { 2.0 * u } else { -(u * (-2.0 * kappa).exp_m1()).ln_1p() / kappa };
                let got = distribution.gap(word);
                assert!((got - want).abs() <= 1e-15 * want && got > 0.0 && got <= 2.0, "kappa {kappa}, u {u}: {got:e} for {want:e}");
            }
            for word in [0, u64::MAX] {
                let [x, y, z] = distribution.point(word, word);
                assert!((x * x + y * y + z * z - 1.0).abs() < 1e-15, "kappa {kappa}, word {word}");
            }
        }
        assert_eq!((fraction(0), fraction(u64::MAX)), (0.5 * f64::EPSILON, 1.0 - 0.5 * f64::EPSILON));
    }

    /// The angle about the mean direction is uniform, and uncorrelated with the cosine.
    #[test]
    fn angle_is_uniform() {
        for (i, kappa) in [0.0, 1.0, 1e8].into_iter().enumerate() {
            let mut out = vec![0.0; 3 * 20_001];
            sphere(kappa).fill(&mut rng(60 + i as u64), &mut out);
            let points = out.as_chunks::<3>().0;
            // in an orthonormal pair across the mean direction
            let angles: Vec<f64> = points.iter().map(|[x, y, z]| y.atan2(0.8 * x + 0.6 * z)).collect();
            let name = format!("angle at kappa {kappa}");
            check_moments(&name, &angles, 0.0, PI * PI / 3.0);
            check_ks(&name, &angles, |_| -TAU.ln(), -PI, PI, 100);
            if kappa == 1.0 {
                // variances of the cosine, 1 - A^2 - 2 A / kappa, and of the angle
                let mean = 1.0 / kappa.tanh() - 1.0 / kappa;
                let spread = (1.0 - mean * mean - 2.0 * mean / kappa) * PI * PI / 3.0;
                let products = points.iter().zip(&angles).map(|([x, _, z], a)| a * (0.6 * x - 0.8 * z - mean));
                let z = products.sum::<f64>() / (spread * points.len() as f64).sqrt();
                assert!(z.abs() < 4.5, "{name}: correlated with the cosine by {z:.2} standard errors");
            }
        }
    }
}
