//! The best q of one component, given what the rows and the other components say of it.
//!
//! Rows give a quadratic lower bound of their part of the objective in the scores of the component: Σ_n g_n E s_n − ½ w_n [c_m (E s_n)² + c_s E s_n²],
//! g a vector and w a number a row. With a = Σ g x, a₀ = Σ g, R = Σ w xxᵀ, v = Σ w x, r₀ = Σ w, and the pull of the other directions, it is
//! to be maximised over direction, concentration, length and intercepts in turn. The intercepts' means enter as in a linear
//! regression and are taken at their best everywhere, m_b = (a₀ − E g A v·â)/(r₀ + τ₀⁻²): that replaces a by a − a₀v/(r₀ + τ₀⁻²) and takes
//! (E g A v·â)²/(r₀ + τ₀⁻²) from the square of the mean. So columns that are not centred do not slow the ascent down.

use super::factor::{Factor, Moments};
use super::sphere::{add, maximise, normalise, symmetric_product};
use crate::dist::Concentration;
use crate::linalg::eights::dot;
use crate::special::{digamma, ln_gamma};

/// Range of ln κ̂.
const LN_KAPPA: (f64, f64) = (-6.907_755_278_982_137, 13.815_510_557_964_274);
/// Range of ln r.
const LN_SHAPE: (f64, f64) = (-9.2, 18.4);
/// Products with R of one direction step.
const PRODUCTS: usize = 8;
/// Turns of concentration and length where the direction waits for the next visit.
const ROUNDS: usize = 2;

/// What is known of R.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Curvature<'a> {
    /// Σ w x̃x̃ᵀ, D×D; its last row is (v, r₀) where there are intercepts.
    Whole(&'a [f64]),
    /// Only what one visit gives without forming R.
    Along {
        /// R â (and v·â where there are intercepts), one a contrast row.
        along: &'a [f64],
        /// Σ w x̃ = (v, r₀).
        sums: &'a [f64],
        /// Trace of Σ w xxᵀ.
        trace: f64,
        /// âᵀRâ.
        square: f64,
        /// At least the largest eigenvalue of R.
        most: f64,
    },
}

/// What the rows say of a component.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// Σ g x̃ = (a, a₀), one a contrast row.
    pub linear: &'a [f64],
    /// R.
    pub curvature: Curvature<'a>,
    /// c_m.
    pub mean_share: f64,
    /// c_s.
    pub spread_share: f64,
}

/// The prior of a component, and the sizes of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prior {
    /// Entries of a contrast row.
    pub inputs: usize,
    /// Length D of a row's x̃.
    pub width: usize,
    /// Shape of the length.
    pub shape: f64,
    /// Its rate.
    pub rate: f64,
    /// Precision of intercepts.
    pub precision: f64,
}

/// A reward of the direction, beside the bound: its value, and (where asked) its gradient, added.
pub(crate) type Reward<'a> = dyn FnMut(&[f64], Option<&mut [f64]>) -> f64 + 'a;

/// Numbers of a direction that concentration and length depend on.
struct Scalars {
    /// (a − a₀v/r₀')·â.
    linear: f64,
    /// Pull along â.
    pull: f64,
    /// âᵀRâ.
    square: f64,
    /// |v·â|²/r₀'.
    profiled: f64,
    /// Trace of R in P dimensions.
    trace: f64,
}

/// One update of a factor; the objective never falls by it.
pub(crate) fn update(factor: &mut Factor, evidence: &Evidence<'_>, prior: &Prior, pull: &[f64], mut reward: Option<&mut Reward<'_>>) {
    let Prior { inputs: p, width: d, .. } = *prior;
    let rows = factor.direction.len() / p;
    let bias = d > p;
    let (sums, trace) = match evidence.curvature {
        Curvature::Whole(gram) => (&gram[(d - 1) * d..], (0..p).map(|i| gram[i * d + i]).sum::<f64>()),
        Curvature::Along { sums, trace, .. } => (sums, trace),
    };
    // v and r₀ as means see them; nothing is profiled where there are no intercepts
    let whole = evidence.mean_share + evidence.spread_share;
    let total = if bias { sums[p] } else { 0.0 };
    let slack = if bias { 1.0 / (whole * total + prior.precision) } else { 0.0 };
    let sums: Vec<f64> = sums[..p].iter().map(|s| whole * s).collect();
    let sums = &sums[..];
    let mut reduced = vec![0.0; rows * p];
    for (out, a) in reduced.chunks_exact_mut(p).zip(evidence.linear.chunks_exact(d)) {
        out.copy_from_slice(&a[..p]);
        if bias {
            add(out, -a[p] * slack, sums);
        }
    }
    let profiled = |direction: &[f64]| direction.chunks_exact(p).map(|a| dot(a, sums).powi(2)).sum::<f64>() * slack;
    let scalars = |direction: &[f64], square: f64| Scalars {
        linear: dot(&reduced, direction),
        pull: dot(pull, direction),
        square,
        profiled: profiled(direction),
        trace: rows as f64 * trace,
    };
    match evidence.curvature {
        Curvature::Whole(gram) => {
            let mut image = vec![0.0; p];
            {
                let moments = factor.moments();
                let (b, c2, cq) = weights(&moments, evidence, &reduced, pull, slack);
                let mut product = |v: &[f64], out: &mut [f64]| {
                    for (v, out) in v.chunks_exact(p).zip(out.chunks_exact_mut(p)) {
                        symmetric_product(gram, d, v, &mut image);
                        let shift = cq * dot(sums, v);
                        out.iter_mut().zip(&image).zip(sums).for_each(|((o, r), s)| *o = c2 * r - shift * s);
                    }
                };
                match &mut reward {
                    None => factor.direction = maximise(&factor.direction, &b, PRODUCTS, product),
                    Some(reward) => {
                        let mut rewarded = b.clone();
                        reward(&factor.direction, Some(&mut rewarded));
                        let target = maximise(&factor.direction, &rewarded, PRODUCTS, &mut product);
                        let mut image = vec![0.0; b.len()];
                        climb_rewarded(&mut factor.direction, &target, reward, |a, gradient| {
                            product(a, &mut image);
                            if let Some(gradient) = gradient {
                                gradient.iter_mut().zip(&b).zip(&image).for_each(|((g, b), m)| *g += b - m);
                            }
                            dot(&b, a) - 0.5 * dot(a, &image)
                        });
                    }
                }
                let mut square = 0.0;
                for a in factor.direction.chunks_exact(p) {
                    symmetric_product(gram, d, a, &mut image);
                    square += dot(a, &image);
                }
                concentration_and_length(factor, evidence, prior, &scalars(&factor.direction, square));
            }
        }
        Curvature::Along { along, square, most, .. } => {
            let fixed = scalars(&factor.direction, square);
            for _ in 0..ROUNDS {
                concentration_and_length(factor, evidence, prior, &fixed);
            }
            // −½c₂ aᵀRa from below by its tangent and the largest eigenvalue, +½c_q(v·a)² by its tangent: linear on the sphere
            let moments = factor.moments();
            let (mut b, c2, cq) = weights(&moments, evidence, &reduced, pull, slack);
            for ((b, a), along) in b.chunks_exact_mut(p).zip(factor.direction.chunks_exact(p)).zip(along.chunks_exact(d)) {
                add(b, c2 * most, a);
                add(b, -c2, &along[..p]);
                add(b, cq * dot(sums, a), sums);
            }
            let mut target = b.clone();
            match &mut reward {
                None => {
                    if normalise(&mut target).is_normal() {
                        factor.direction = target;
                    }
                }
                Some(reward) => {
                    reward(&factor.direction, Some(&mut target));
                    normalise(&mut target);
                    climb_rewarded(&mut factor.direction, &target, reward, |a, gradient| {
                        if let Some(gradient) = gradient {
                            add(gradient, 1.0, &b);
                        }
                        dot(&b, a)
                    });
                }
            }
        }
    }
    if bias {
        let moments = factor.moments();
        let scale = moments.size * moments.along.mean;
        for ((m, a), linear) in factor.intercepts.iter_mut().zip(factor.direction.chunks_exact(p)).zip(evidence.linear.chunks_exact(d)) {
            *m = (linear[p] - scale * dot(sums, a)) * slack;
        }
        factor.variance = 1.0 / (evidence.spread_share * total + prior.precision);
    }
}

/// Linear part of the direction's objective, and the factors of R and of the profiled vᵀv.
fn weights(moments: &Moments, evidence: &Evidence<'_>, reduced: &[f64], pull: &[f64], slack: f64) -> (Vec<f64>, f64, f64) {
    let (a, rho) = (moments.along.mean, moments.along.rho);
    let b = reduced.iter().zip(pull).map(|(r, h)| a * (moments.size * r + h)).collect();
    let mean = (moments.size * a).powi(2);
    let c2 = evidence.mean_share * mean + evidence.spread_share * moments.square * (1.0 - rho).max(0.0);
    (b, c2, mean * slack)
}

/// κ̂, then r and s, each at its best given the others.
fn concentration_and_length(factor: &mut Factor, evidence: &Evidence<'_>, prior: &Prior, at: &Scalars) {
    let (cm, cs) = (evidence.mean_share, evidence.spread_share);
    let p = factor.direction.len();
    let spread = |c: &Concentration| cs * (c.rho / p as f64 * at.trace + (1.0 - c.rho) * at.square);
    let mean = |c: &Concentration| c.mean * c.mean * (cm * at.square - at.profiled);

    let (size, square) = (factor.shape / factor.rate, factor.shape * (factor.shape + 1.0) / (factor.rate * factor.rate));
    let linear = size * at.linear + at.pull;
    let value = |ln_kappa: f64| {
        let kappa = ln_kappa.exp();
        let c = Concentration::at(p, kappa);
        c.mean * (linear - kappa) - 0.5 * (size * size * mean(&c) + square * spread(&c)) + c.ln_ratio
    };
    factor.kappa = climb(value, factor.kappa.ln(), LN_KAPPA).exp();

    let c = Concentration::at(p, factor.kappa);
    let b = c.mean * at.linear - prior.rate;
    let (q1, q2) = (mean(&c), spread(&c));
    let curvature = |r: f64| (q1 * r * r + q2 * r * (r + 1.0)).max(0.0);
    let scale = |r: f64| {
        let q = curvature(r);
        let root = (b * b * r * r + 4.0 * q * prior.shape).sqrt();
        if b < 0.0 { 2.0 * prior.shape / (root - b * r) } else { (b * r + root) / (2.0 * q) }
    };
    let value = |ln_r: f64| {
        let r = ln_r.exp();
        let t = scale(r);
        b * r * t - 0.5 * curvature(r) * t * t + prior.shape * t.ln() + (prior.shape - r) * digamma(r) + r + ln_gamma(r)
    };
    let shape = climb(value, factor.shape.ln(), LN_SHAPE).exp();
    let t = scale(shape);
    if t.is_normal() {
        (factor.shape, factor.rate) = (shape, 1.0 / t);
    }
}

/// Moves a direction so that `value` + reward rises: towards a target, ever shorter, then along the gradient.
fn climb_rewarded(
    direction: &mut Vec<f64>,
    target: &[f64],
    reward: &mut Reward<'_>,
    mut value: impl FnMut(&[f64], Option<&mut [f64]>) -> f64,
) {
    let mut gradient = vec![0.0; direction.len()];
    let before = value(direction, Some(&mut gradient)) + reward(direction, Some(&mut gradient));
    let mut attempt = |step: f64, towards: &[f64]| {
        let mut next: Vec<f64> = direction.iter().zip(towards).map(|(a, t)| a + step * (t - a)).collect();
        let usable = normalise(&mut next).is_normal();
        (usable && value(&next, None) + reward(&next, None) > before).then_some(next)
    };
    let mut step = 1.0;
    for _ in 0..6 {
        if let Some(next) = attempt(step, target) {
            *direction = next;
            return;
        }
        step *= 0.5;
    }
    let inner = dot(&gradient, direction);
    add(&mut gradient, -inner, direction);
    let steepness = dot(&gradient, &gradient).sqrt();
    if !steepness.is_normal() {
        return;
    }
    let ahead: Vec<f64> = direction.iter().zip(&gradient).map(|(a, g)| a + g / steepness).collect();
    step = 0.1;
    for _ in 0..20 {
        if let Some(next) = attempt(step, &ahead) {
            *direction = next;
            return;
        }
        step *= 0.3;
    }
}

/// A local maximum of f between two bounds, from x: never lower than f(x).
fn climb(f: impl Fn(f64) -> f64, x: f64, (low, high): (f64, f64)) -> f64 {
    const GOLDEN: f64 = 0.381_966_011_250_105_1;
    let start = x.clamp(low, high);
    let (mut best, mut top) = (start, f(start));
    // a bracket a < best < b whose ends are lower, or bounds
    let (mut a, mut b) = (start, start);
    let mut step = 0.25;
    let mut sign = 1.0;
    let first = (best + step).min(high);
    if !(first > best && f(first) > top) {
        sign = -1.0;
        b = first;
    }
    loop {
        let next = (best + sign * step).clamp(low, high);
        let value = f(next);
        if next != best && value > top {
            *(if sign > 0.0 { &mut a } else { &mut b }) = best;
            (best, top) = (next, value);
            step *= 2.0;
        } else {
            *(if sign > 0.0 { &mut b } else { &mut a }) = next;
            break;
        }
    }
    // Brent: parabolas through the three best points, golden sections where these do not help
    let (mut second, mut third) = ((best, top), (best, top));
    let (mut last, mut before_last) = (0.0_f64, 0.0_f64);
    for _ in 0..60 {
        let middle = 0.5 * (a + b);
        let tolerance = 1e-8 * (best.abs() + 1.0);
        if (best - middle).abs() <= 2.0 * tolerance - 0.5 * (b - a) {
            break;
        }
        let mut golden = true;
        let mut move_by = 0.0;
        if before_last.abs() > tolerance {
            let r = (best - second.0) * (top - third.1);
            let mut q = (best - third.0) * (top - second.1);
            let mut p = (best - third.0) * q - (best - second.0) * r;
            q = 2.0 * (q - r);
            if q > 0.0 {
                p = -p;
            }
            q = q.abs();
            if p.abs() < (0.5 * q * before_last).abs() && p > q * (a - best) && p < q * (b - best) {
                before_last = last;
                move_by = p / q;
                golden = false;
            }
        }
        if golden {
            before_last = if best >= middle { a - best } else { b - best };
            move_by = GOLDEN * before_last;
        }
        last = move_by;
        let next = best + if move_by.abs() >= tolerance { move_by } else { tolerance.copysign(move_by) };
        let value = f(next);
        if value > top {
            *(if next >= best { &mut a } else { &mut b }) = best;
            third = second;
            second = (best, top);
            (best, top) = (next, value);
        } else {
            *(if next < best { &mut a } else { &mut b }) = next;
            if value >= second.1 || second.0 == best {
                third = second;
                second = (next, value);
            } else if value >= third.1 || third.0 == best || third.0 == second.0 {
                third = (next, value);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbs_to_the_maximum_of_a_line() {
        for peak in [-3.0_f64, -0.2, 0.0, 0.7, 5.5] {
            for x in [-6.0, -1.0, 0.0, 0.1, 6.0] {
                let found = climb(|t| -(t - peak).powi(2) - 0.1 * (t - peak).powi(4), x, (-6.5, 13.0));
                assert!((found - peak).abs() < 1e-6, "{peak} {x} {found}");
            }
        }
        // at a bound, and flat
        assert!((climb(|t| t, 0.0, (-1.0, 2.0)) - 2.0).abs() < 1e-6);
        assert!((climb(|t| -t, 0.0, (-1.0, 2.0)) + 1.0).abs() < 1e-6);
        assert!(climb(|_| 1.0, 0.5, (-1.0, 2.0)).abs() <= 2.0);
        assert_eq!(climb(|_| f64::NAN, 0.5, (-1.0, 2.0)), 0.5);
    }
}
