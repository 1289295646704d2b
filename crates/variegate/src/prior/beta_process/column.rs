//! One column of ones and zeros: the integral over its weight, and exact draws of the weight.

use rand::Rng;
use rand_distr::{Distribution, Exp1};

use super::rise::{ln_rise, slopes};
use super::source::Source;
use crate::run::open01;

/// The integrand is left out where it has fallen by this much.
const NEGLIGIBLE_DROP: f64 = 30.0;
/// Two trapezoidal sums that agree to this leave about its square for the finer one.
const COARSE_AGREEMENT: f64 = 2e-5;
const MAX_HALVINGS: usize = 8;
/// Tangents that an envelope can hold; three to five are used.
const MAX_TANGENTS: usize = 24;

/// The counts of a column, and one source that has a one: its factor `al b` cancels the `1/b` of the intensity.
pub(super) struct Column<'a> {
    sources: &'a [Source],
    counts: &'a [u32],
    pivot: usize,
}

/// Where the integrand over `theta = ln(b/(1-b))` is highest, and its width there.
struct Peak {
    theta: f64,
    width: f64,
}

/// `b` and `1-b`.
#[inline]
fn weights(theta: f64) -> (f64, f64) {
    let small = (-theta.abs()).exp();
    let whole = 1.0 + small;
    if theta < 0.0 { (small / whole, 1.0 / whole) } else { (1.0 / whole, small / whole) }
}

impl<'a> Column<'a> {
    /// None without a one.
    pub(super) fn new(sources: &'a [Source], counts: &'a [u32]) -> Option<Self> {
        assert_eq!(sources.len(), counts.len(), "one count a source");
        assert!(sources.iter().zip(counts).all(|(source, &n)| u64::from(n) <= source.rows), "more ones than rows");
        let pivot = counts.iter().position(|&n| n > 0)?;
        Some(Self { sources, counts, pivot })
    }

    /// The first source with a one.
    pub(super) fn pivot(&self) -> usize {
        self.pivot
    }

    /// Concentration, argument added, ones (less the pivot's first) and zeros of every source that has rows.
    #[inline]
    fn parts(&self) -> impl Iterator<Item = (&Source, f64, u64, u64)> {
        self.sources.iter().zip(self.counts).enumerate().filter(|(_, (source, _))| source.rows > 0).map(|(j, (source, &n))| {
            let n = u64::from(n);
            let first = u64::from(j == self.pivot);
            (source, first as f64, n - first, source.rows - n)
        })
    }

    /// What `ln_weight` has that does not depend on the weight.
    fn constant(&self) -> f64 {
        self.sources[self.pivot].al.ln() - self.sources.iter().map(|source| source.ln_total).sum::<f64>()
    }

    /// `ln(L(b;n)/b)` less the constant; concave in `b`.
    #[inline]
    fn ln_weight(&self, b: f64, rest: f64) -> f64 {
        self.parts().map(|(source, first, ones, zeros)| ln_rise(source.al * b + first, ones) + ln_rise(source.al * rest, zeros)).sum()
    }

    /// `ln(L(b;n)/b)`.
    pub(super) fn ln_density(&self, b: f64) -> f64 {
        self.ln_weight(b, 1.0 - b) + self.constant()
    }

    /// Derivative of `ln_weight` in `b`.
    fn slope(&self, b: f64, rest: f64) -> f64 {
        let part = |(source, first, ones, zeros): (&Source, f64, u64, u64)| {
            source.al * (slopes(source.al * b + first, ones).0 - slopes(source.al * rest, zeros).0)
        };
        self.parts().map(part).sum()
    }

    /// `ln_weight` plus `ln b (1-b)`: what is integrated over `theta`.
    #[inline]
    fn ln_integrand(&self, theta: f64) -> f64 {
        let (b, rest) = weights(theta);
        let tilt = -theta.abs() - 2.0 * (-theta.abs()).exp().ln_1p();
        self.ln_weight(b, rest) + tilt
    }

    /// With `up` and `down` the expected numbers of tables behind ones and zeros, the integrand rises at rate
    /// `(up+1)(1-b) - (down+1) b`, so that its top is where `theta = ln(up+1) - ln(down+1)`. The right side less the left falls
    /// everywhere and is nearly straight: Newton needs two or three steps.
    fn peak(&self) -> Peak {
        let (ones, rows) =
            self.sources.iter().zip(self.counts).fold((0.0, 0.0), |(ones, rows), (s, &n)| (ones + f64::from(n), rows + s.rows as f64));
        let mut theta = ((ones + 0.5) / (rows - ones + 0.5)).ln();
        let mut width = 1.0;
        for _ in 0..40 {
            let (b, rest) = weights(theta);
            let (mut up, mut down, mut up_slope, mut down_slope) = (1.0, 1.0, 0.0, 0.0);
            for (source, first, ones, zeros) in self.parts() {
                let (used, free) = (source.al * b, source.al * rest);
                let (one, two) = slopes(used + first, ones);
                up += used * one;
                up_slope += used * (one + used * two);
                let (one, two) = slopes(free, zeros);
                down += free * one;
                down_slope += free * (one + free * two);
            }
            // derivatives in theta: b' = b (1-b)
            (up_slope, down_slope) = (rest * up_slope, b * down_slope);
            let gap = up.ln() - down.ln() - theta;
            let fall = 1.0 - up_slope / up - down_slope / down;
            let curvature = b * rest * (up + down) - rest * up_slope - b * down_slope;
            width = 1.0 / curvature.max(1e-300).sqrt();
            let step = (gap / fall.max(1e-3)).clamp(-8.0, 8.0);
            theta += step;
            if step.abs() <= 0.1 * width {
                break;
            }
        }
        Peak { theta, width }
    }

    /// `ln int_0^1 L(b;n)/b db`: trapezoidal rule over `theta`, whose error falls exponentially as the step shrinks.
    pub(super) fn ln_integral(&self) -> f64 {
        let peak = self.peak();
        let top = self.ln_integrand(peak.theta);
        let mut step = (1.1 * peak.width).min(0.62);
        let walk = |direction: f64| {
            let (mut sum, mut at) = (0.0, peak.theta);
            loop {
                at += direction * step;
                let drop = top - self.ln_integrand(at);
                sum += (-drop).exp();
                if drop > NEGLIGIBLE_DROP {
                    return (sum, at);
                }
            }
        };
        let ((below, from), (above, to)) = (walk(-1.0), walk(1.0));
        let mut sum = 1.0 + below + above;
        for _ in 0..MAX_HALVINGS {
            let count = ((to - from) / step).round() as usize;
            let between: f64 = (0..count).map(|i| (self.ln_integrand(from + (i as f64 + 0.5) * step) - top).exp()).sum();
            let agree = (between - sum).abs() <= COARSE_AGREEMENT * sum;
            sum += between;
            step *= 0.5;
            if agree {
                break;
            }
        }
        top + (sum * step).ln() + self.constant()
    }

    /// An independent draw from the density proportional to `L(b;n)/b`, by rejection under tangents of its concave logarithm.
    ///
    /// Any tangents give an exact draw; these touch near the top and to both sides, and a rejected point adds its own.
    pub(super) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let peak = self.peak();
        let mut hull = Hull::default();
        for offset in [-1.2, 0.0, 1.2] {
            let (b, rest) = weights(peak.theta + offset * peak.width);
            hull.insert(Tangent { at: b, height: self.ln_weight(b, rest), slope: self.slope(b, rest) });
        }
        loop {
            let (b, ceiling) = hull.draw(rng);
            if !(b > 0.0 && b < 1.0) {
                continue;
            }
            let height = self.ln_weight(b, 1.0 - b);
            let spare: f64 = Exp1.sample(rng);
            if spare >= ceiling - height {
                return b;
            }
            hull.insert(Tangent { at: b, height, slope: self.slope(b, 1.0 - b) });
        }
    }
}

/// A straight line that touches a concave function.
#[derive(Debug, Clone, Copy, Default)]
struct Tangent {
    at: f64,
    height: f64,
    slope: f64,
}

/// The lowest of several tangents over (0, 1), as the logarithm of a density.
#[derive(Default)]
struct Hull {
    tangents: [Tangent; MAX_TANGENTS],
    len: usize,
}

impl Hull {
    /// Keeps the tangents in order; one too many is left out, which costs speed only.
    fn insert(&mut self, tangent: Tangent) {
        let place = self.tangents[..self.len].partition_point(|other| other.at < tangent.at);
        let doubled = place < self.len && self.tangents[place].at == tangent.at;
        if self.len == MAX_TANGENTS || doubled || !(tangent.slope.is_finite() && tangent.height.is_finite()) {
            return;
        }
        self.tangents.copy_within(place..self.len, place + 1);
        self.tangents[place] = tangent;
        self.len += 1;
    }

    /// Where the tangent is the lowest one.
    fn span(&self, i: usize) -> (f64, f64) {
        let cross = |i: usize| {
            let (left, right) = (&self.tangents[i], &self.tangents[i + 1]);
            let (gap, bend) = (right.at - left.at, left.slope - right.slope);
            let rise = right.height - left.height - right.slope * gap;
            // rounding can leave no bend; then the two lines are one
            let share = if bend * gap > 1e-12 { rise / (bend * gap) } else { 0.5 };
            left.at + gap * share.clamp(0.0, 1.0)
        };
        (if i == 0 { 0.0 } else { cross(i - 1) }, if i + 1 == self.len { 1.0 } else { cross(i) })
    }

    /// A point under the hull, and the hull's height there.
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let top = self.tangents[..self.len].iter().map(|tangent| tangent.height).fold(f64::NEG_INFINITY, f64::max);
        // pieces: their higher end, the direction in which they fall, how steeply, how far, and their area
        let mut pieces = [(0.0, 1.0, 0.0, 0.0, 0.0, 0.0); MAX_TANGENTS];
        let mut total = 0.0;
        for i in 0..self.len {
            let (tangent, (from, to)) = (&self.tangents[i], self.span(i));
            let (start, direction) = if tangent.slope > 0.0 { (to, -1.0) } else { (from, 1.0) };
            let (steep, length) = (tangent.slope.abs(), to - from);
            let height = tangent.height + tangent.slope * (start - tangent.at);
            let fall = steep * length;
            let mean = if fall > 1e-10 { -(-fall).exp_m1() / fall } else { 1.0 };
            let area = (height - top).exp() * length * mean;
            total += area;
            pieces[i] = (start, direction, steep, length, height, area);
        }
        let mut u = open01(rng) * total;
        let mut chosen = 0;
        while chosen + 1 < self.len && u >= pieces[chosen].5 {
            u -= pieces[chosen].5;
            chosen += 1;
        }
        let (start, direction, steep, length, height, area) = pieces[chosen];
        let share = (u / area).clamp(0.0, 1.0);
        let fall = steep * length;
        let fallen = if fall > 1e-10 { -(share * (-fall).exp_m1()).ln_1p() } else { fall * share };
        let distance = if fall > 1e-10 { fallen / steep } else { length * share };
        (start + direction * distance.min(length), height - fallen)
    }
}
