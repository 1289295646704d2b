//! Von Mises-Fisher distribution on the unit sphere.

use super::quadrature::LnDensity;
use super::von_mises_fisher_sphere::Sphere;
use super::{ParamError, exponential, gamma::Core, normal, require};
use crate::special::{bessel_ratio, ln_bessel_i_scaled, ln_bessel_series, ln_gamma, ln_sigmoid, series_suffices, sigmoid};
use rand::Rng;
use rand_distr::Distribution;
use std::f64::consts::{LN_2, PI, TAU};

/// VonMisesFisher(mu, kappa): density `C exp(kappa mu'x)` on the unit sphere in `p >= 2` dimensions,
/// `C = kappa^nu / ((2 pi)^(p/2) I_nu(kappa))`, `nu = p/2 - 1`.
///
/// `kappa = 0` is the uniform distribution. A draw costs `O(p)`: the cosine `w = mu'x` by rejection from a beta envelope (Wood; for
/// `p = 3` by inversion), a uniform direction across, and one reflection that carries an axis to `mu`. All of it is computed
/// from `1 - w`, so that draws stay exact for any concentration; beyond `kappa` of about 1e30 they round to `mu`. The log density
/// uses `|x - mu|^2 = 2(1 - w)` for the same reason: its argument must have unit length to rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct VonMisesFisher {
    mu: Vec<f64>,
    kappa: f64,
    cosine: Cosine,
    /// the reflection is `y - (u'y)/(1 + |mu_1|) u` with `u = sign e_1 - mu`
    sign: f64,
}

/// How `1 - w` is drawn.
#[derive(Debug, Clone, PartialEq)]
enum Cosine {
    /// `p = 3`: by inversion
    Inversion(Sphere),
    /// otherwise: `1 - w = 2 b z / (1 - (1-b) z)` with `z ~ Beta((p-1)/2, (p-1)/2)`, thinned
    Rejection { b: f64, gamma: Core },
}

impl VonMisesFisher {
    /// Mean direction (any length but zero; it is normalised) in at least two dimensions, and concentration `kappa >= 0`.
    pub fn new(direction: &[f64], kappa: f64) -> Result<Self, ParamError> {
        let name = "von Mises-Fisher";
        let p = direction.len();
        require(p >= 2, name, "dimension", p as f64, "at least 2")?;
        require(kappa >= 0.0 && kappa.is_finite(), name, "kappa", kappa, "at least 0 and finite")?;
        let largest = direction.iter().fold(0.0_f64, |m, v| if v.is_nan() || m.is_nan() { f64::NAN } else { m.max(v.abs()) });
        require(largest > 0.0 && largest.is_finite(), name, "largest coordinate of the direction", largest, "positive and finite")?;
        let length = largest * direction.iter().map(|v| (v / largest) * (v / largest)).sum::<f64>().sqrt();
        let mu: Vec<f64> = direction.iter().map(|v| v / length).collect();
        // away from mu, so that nothing cancels in the reflection
        let sign = if mu[0] >= 0.0 { -1.0 } else { 1.0 };
        let cosine = if let &[a, b, c] = &mu[..] {
            Cosine::Inversion(Sphere::new([a, b, c], sign, kappa))
        } else {
            let across = (p - 1) as f64;
            let b = across / (2.0 * kappa + (2.0 * kappa).hypot(across));
            Cosine::Rejection { b, gamma: Core::new(0.5 * across) }
        };
        Ok(Self { mu, kappa, cosine, sign })
    }

    /// Number of dimensions.
    pub fn dim(&self) -> usize {
        self.mu.len()
    }

    /// Mean direction, of unit length.
    pub fn direction(&self) -> &[f64] {
        &self.mu
    }

    /// `1 - mu'x` of a draw, to full relative accuracy.
    #[inline]
    pub fn sample_cosine_gap<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.cosine {
            Cosine::Inversion(sphere) => sphere.gap(rng.next_u64()),
            Cosine::Rejection { b, gamma } => {
                let across = (self.dim() - 1) as f64;
                loop {
                    let z = if self.dim() == 2 {
                        let (x, y) = (normal(rng), normal(rng));
                        x * x / (x * x + y * y)
                    } else {
                        let (x, y) = (gamma.draw(rng), gamma.draw(rng));
                        x / (x + y)
                    };
                    let gap = 2.0 * b * z / (1.0 - (1.0 - b) * z);
                    // with x0 = (1-b)/(1+b): ln of kappa (w - x0) + (p-1) ln( (1 - x0 w)/(1 - x0^2) )
                    let ratio = (2.0 * b + (1.0 - b) * gap) * (1.0 + b) / (4.0 * b);
                    let ln_accept = self.kappa * (2.0 * b / (1.0 + b) - gap) + across * ratio.ln();
                    if -exponential(rng) <= ln_accept {
                        return gap;
                    }
                }
            }
        }
    }

    /// Writes a draw; `out` has one place a dimension.
    pub fn sample_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        assert_eq!(out.len(), self.dim());
        if let Cosine::Inversion(sphere) = &self.cosine {
            let (along, around) = (rng.next_u64(), rng.next_u64());
            out.copy_from_slice(&sphere.point(along, around));
            return;
        }
        let gap = self.sample_cosine_gap(rng);
        // a uniform direction in the last p-1 coordinates
        let mut square = 0.0;
        while square == 0.0 {
            out[1..].iter_mut().for_each(|v| *v = normal(rng));
            square = out[1..].iter().map(|v| v * v).sum();
        }
        let gap = gap.clamp(0.0, 2.0);
        let scale = (gap * (2.0 - gap) / square).sqrt();
        out[1..].iter_mut().for_each(|v| *v *= scale);
        out[0] = self.sign * (1.0 - gap);
        // reflect sign e_1 onto mu
        let mut along = (self.sign - self.mu[0]) * out[0];
        for (v, m) in out[1..].iter().zip(&self.mu[1..]) {
            along -= m * v;
        }
        let factor = along / (1.0 + self.mu[0].abs());
        out[0] -= factor * (self.sign - self.mu[0]);
        for (v, m) in out[1..].iter_mut().zip(&self.mu[1..]) {
            *v += factor * m;
        }
    }

    /// Writes draws one after the other; `out` has one place a draw and dimension. The draws are those of as many calls of
    /// [`sample_into`](Self::sample_into), to the bit, but in three dimensions several are computed at once, in a third of the time.
    pub fn sample_many<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        assert_eq!(out.len() % self.dim(), 0);
        if let Cosine::Inversion(sphere) = &self.cosine {
            sphere.fill(rng, out);
        } else {
            out.chunks_exact_mut(self.dim()).for_each(|row| self.sample_into(rng, row));
        }
    }

    /// Log density with respect to surface area, at a point `x` of unit length.
    pub fn ln_pdf(&self, x: &[f64]) -> f64 {
        if x.len() != self.dim() {
            return f64::NEG_INFINITY;
        }
        let gap: f64 = 0.5 * self.mu.iter().zip(x).map(|(m, v)| (v - m) * (v - m)).sum::<f64>();
        self.ln_normalizer() - self.kappa * gap
    }

    /// `ln( C exp(kappa) )`: the log density at the mean direction.
    pub fn ln_normalizer(&self) -> f64 {
        let half = 0.5 * self.dim() as f64;
        let nu = half - 1.0;
        if series_suffices(nu, self.kappa) {
            // relative to the uniform density, so that kappa = 0 needs no limit
            ln_gamma(half) - LN_2 - half * PI.ln() - ln_bessel_series(nu, self.kappa) + self.kappa
        } else {
            nu * self.kappa.ln() - half * TAU.ln() - ln_bessel_i_scaled(nu, self.kappa)
        }
    }

    /// Mean resultant length `E mu'x = I_{nu+1}(kappa)/I_nu(kappa)`.
    pub fn mean_resultant_length(&self) -> f64 {
        bessel_ratio(0.5 * self.dim() as f64 - 1.0, self.kappa)
    }

    /// Mean vector: the mean resultant length times the mean direction.
    pub fn mean(&self) -> Vec<f64> {
        let length = self.mean_resultant_length();
        self.mu.iter().map(|m| length * m).collect()
    }

    /// Variance along the mean direction and in each direction across it.
    pub fn variance(&self) -> (f64, f64) {
        let p = self.dim() as f64;
        let across = if self.kappa > 0.0 { self.mean_resultant_length() / self.kappa } else { 1.0 / p };
        // The closed form 1 - A^2 - (p-1) A/kappa cancels; 1-w = 2 sigmoid(y) has a smooth density in y.
        let shape = 0.5 * (p - 1.0);
        let ln_f = |y: f64| shape * (ln_sigmoid(y) + ln_sigmoid(-y)) - 2.0 * self.kappa * sigmoid(y);
        // mode: (p-1)/2 (1-2s) = 2 kappa s(1-s), the root in (0, 1/2]
        let (k, q) = (2.0 * self.kappa, 2.0 * shape);
        let s = q / (k + q + k.hypot(q));
        let mode = s.ln() - (-s).ln_1p();
        let density = LnDensity::new(ln_f, mode, 1.0 / shape.sqrt().max(1.0), f64::NEG_INFINITY, f64::INFINITY);
        (density.mean_and_variance(|y| 2.0 * sigmoid(y)).1, across)
    }
}

impl Distribution<Vec<f64>> for VonMisesFisher {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let mut out = vec![0.0; self.dim()];
        self.sample_into(rng, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn direction(p: usize) -> Vec<f64> {
        (0..p).map(|i| ((i * i) as f64 * 0.7 + 0.3).sin()).collect()
    }

    const CASES: [(usize, f64); 18] = [
        (2, 0.0),
        (2, 0.5),
        (2, 30.0),
        (3, 0.0),
        (3, 1e-8),
        (3, 1e-3),
        (3, 1.0),
        (3, 4.0),
        (3, 10.0),
        (3, 1e3),
        (3, 1e7),
        (3, 1e8),
        (4, 2.0),
        (10, 5.0),
        (10, 1e6),
        (100, 0.0),
        (100, 60.0),
        (1000, 3000.0),
    ];

    /// Moments along and across, and the cosine against the density of a point (times the area of its circle of latitude).
    #[test]
    fn moments_and_density() {
        for (i, (p, kappa)) in CASES.into_iter().enumerate() {
            let vmf = VonMisesFisher::new(&direction(p), kappa).unwrap();
            let mut rng = rng(1000 + i as u64);
            let n = if p > 50 { 4001 } else { 20_001 };
            let name = format!("vMF in {p} dimensions, kappa {kappa}");
            let (mut gaps, mut across) = (vec![], vec![]);
            let other = {
                // a unit vector across mu
                let mut v = vec![0.0; p];
                (v[0], v[1]) = (vmf.mu[1], -vmf.mu[0]);
                let length = v[0].hypot(v[1]);
                v.iter().map(|x| x / length).collect::<Vec<_>>()
            };
            let mut draws = vec![0.0; n * p];
            vmf.sample_many(&mut rng, &mut draws);
            for x in draws.chunks_exact(p) {
                let square: f64 = x.iter().map(|v| v * v).sum();
                assert!((square - 1.0).abs() < 1e-13, "{name}: length");
                gaps.push(0.5 * x.iter().zip(&vmf.mu).map(|(v, m)| (v - m) * (v - m)).sum::<f64>());
                across.push(x.iter().zip(&other).map(|(v, o)| v * o).sum::<f64>());
            }
            let (along, lateral) = vmf.variance();
            let mean_gap = 1.0 - vmf.mean_resultant_length();
            if kappa < 1e5 {
                check_moments(&name, &gaps, mean_gap, along);
            }
            check_moments(&name, &across, 0.0, lateral);
            // y = logit(gap/2); surface of the unit sphere one dimension down
            let logits: Vec<f64> = gaps.iter().map(|g| (g / (2.0 - g)).ln()).collect();
            let half = 0.5 * (p - 1) as f64;
            let ln_circle = LN_2 + half * PI.ln() - ln_gamma(half);
            let ln_pdf = |y: f64| {
                let s = sigmoid(y);
                // dw = 2 s(1-s) dy, and 1 - w^2 = 4 s(1-s)
                let ln_s = ln_sigmoid(y) + ln_sigmoid(-y);
                vmf.ln_normalizer() - 2.0 * kappa * s + ln_circle + (half - 1.0) * (2.0 * LN_2 + ln_s) + LN_2 + ln_s
            };
            check_ks(&name, &logits, ln_pdf, f64::NEG_INFINITY, f64::INFINITY, 100);
        }
    }

    /// To the bit, whatever the number: none, a part of a vector, a whole pass and its neighbours.
    #[test]
    fn many_draws_are_those_one_by_one() {
        for (p, kappa) in [(2, 3.0), (3, 0.0), (3, 5.0), (3, 1e12), (6, 2.0)] {
            let vmf = VonMisesFisher::new(&direction(p), kappa).unwrap();
            for n in [0, 1, 2, 3, 4, 5, 7, 255, 256, 257, 1021] {
                let (mut one, mut all) = (rng(n as u64), rng(n as u64));
                let mut many = vec![f64::NAN; n * p];
                vmf.sample_many(&mut all, &mut many);
                let singles: Vec<f64> = (0..n).flat_map(|_| vmf.sample(&mut one)).collect();
                assert_eq!(many, singles, "{n} in {p} dimensions");
                // and both leave the generator at the same place
                assert_eq!(one.next_u64(), all.next_u64());
            }
        }
    }

    /// In the plane and on the sphere there are closed forms.
    #[test]
    fn closed_forms() {
        let kappa = 2.3_f64;
        let vmf = VonMisesFisher::new(&[0.0, 0.0, 2.0], kappa).unwrap();
        let want = (kappa / (2.0 * PI * (kappa.exp() - (-kappa).exp()))).ln() + kappa * 0.6;
        assert!((vmf.ln_pdf(&[0.8, 0.0, 0.6]) - want).abs() < 1e-13);
        let length = 1.0 / kappa.tanh() - 1.0 / kappa;
        assert!((vmf.mean_resultant_length() - length).abs() < 1e-14);
        assert!((vmf.variance().0 - (1.0 - length * length - 2.0 * length / kappa)).abs() < 1e-12);
        let uniform = VonMisesFisher::new(&[1.0, 0.0], 0.0).unwrap();
        assert!((uniform.ln_pdf(&[0.0, 1.0]) + TAU.ln()).abs() < 1e-14);
        // continuous where the method changes
        for p in [2, 20, 200, 3000] {
            let edge = (2.0 * p as f64).sqrt().max(24.0);
            let value = |k: f64| VonMisesFisher::new(&direction(p), k).unwrap().ln_normalizer();
            let slope = 1.0 - bessel_ratio(0.5 * p as f64 - 1.0, edge);
            let gap = value(edge * 1.02) - value(edge * 0.98) - 0.04 * edge * slope;
            assert!(gap.abs() < 0.05 * (1.0 + edge / p as f64), "{p}: {gap}");
        }
    }

    /// Chi-squared limit at huge concentration: `2 kappa (1-w)` has `p-1` degrees of freedom.
    #[test]
    fn huge_concentration() {
        for (p, kappa) in [(2, 1e20), (3, 1e25), (5, 1e12), (400, 1e15)] {
            let vmf = VonMisesFisher::new(&direction(p), kappa).unwrap();
            let mut rng = rng(1100 + p as u64);
            let draws: Vec<f64> = (0..10_000).map(|_| 2.0 * kappa * vmf.sample_cosine_gap(&mut rng)).collect();
            let q = (p - 1) as f64;
            check_moments("chi-squared limit", &draws, q, 2.0 * q);
            let (along, across) = vmf.variance();
            assert!((along * kappa * kappa / (0.5 * q) - 1.0).abs() < 1e-6 && (across * kappa - 1.0).abs() < 1e-6);
            assert!(vmf.ln_normalizer().is_finite());
        }
    }

    #[test]
    fn directions() {
        let mut rng = rng(4);
        for mu in [[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1e-200, 0.0], [1e200, -1e200, 0.0, 0.0]] {
            let vmf = VonMisesFisher::new(&mu, 1e18).unwrap();
            let x = vmf.sample(&mut rng);
            assert!(x.iter().zip(vmf.direction()).all(|(v, m)| (v - m).abs() < 1e-8));
        }
        let bad: [(&[f64], f64); 6] = [
            (&[1.0], 1.0),
            (&[0.0, 0.0], 1.0),
            (&[1.0, f64::NAN], 1.0),
            (&[f64::NAN, 1.0], 1.0),
            (&[1.0, 0.0], -1.0),
            (&[1.0, 0.0], f64::NAN),
        ];
        for (mu, kappa) in bad {
            assert!(VonMisesFisher::new(mu, kappa).is_err());
        }
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got: Vec<f64> = [2, 3, 4].into_iter().flat_map(|p| VonMisesFisher::new(&direction(p), 3.0).unwrap().sample(&mut rng)).collect();
        check_pinned(
            "von Mises-Fisher",
            &got,
            &[
                0.423098776443645,
                0.9060835642322902,
                -0.2570322999295298,
                0.9315079815956014,
                0.257346608714055,
                -0.5213457407641994,
                0.09651014104063149,
                -0.6932106538993444,
                0.48820426112825854,
            ],
        );
    }
}
