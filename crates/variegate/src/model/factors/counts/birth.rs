//! The likelihood of a row with an atom more, that atom integrated out.
//!
//! With φ_m ~ Gamma(a, b) and weight w the new atom may own s of the x counts of a column whose rate was r:
//! the sum over s of C(x, s) a(a+1)…(a+s−1) qˢ with q = w / ((b + w) r), times (b/(b+w))^a.

use crate::run::{Philox, open01};
use crate::special::ln_gamma;

/// Up to this count every term is formed one after the other.
const DIRECT: f64 = 64.0;
/// Terms this many nats below the largest are left out.
const FAR: f64 = 40.0;
/// A running sum is scaled down beyond this.
const LARGE: f64 = 1e200;

/// ln of the sum over s.
pub(super) fn ln_sum(x: f64, a: f64, q: f64) -> f64 {
    if x <= DIRECT {
        let (mut term, mut sum, mut scale) = (1.0, 1.0, 0.0);
        let mut s = 0.0;
        while s < x {
            term *= (x - s) / (s + 1.0) * (a + s) * q;
            sum += term;
            if term > LARGE {
                term /= LARGE;
                sum /= LARGE;
                scale += LARGE.ln();
            }
            s += 1.0;
        }
        return sum.ln() + scale;
    }
    let mut best = f64::NEG_INFINITY;
    for_terms(x, a, q, |_, ln_term| best = best.max(ln_term));
    let mut sum = 0.0;
    for_terms(x, a, q, |_, ln_term| sum += (ln_term - best).exp());
    best + sum.ln()
}

/// How many of the counts the new atom owns.
pub(super) fn draw(x: f64, a: f64, q: f64, terms: &mut Vec<(f64, f64)>, rng: &mut Philox) -> f64 {
    terms.clear();
    for_terms(x, a, q, |s, ln_term| terms.push((s, ln_term)));
    let best = terms.iter().fold(f64::NEG_INFINITY, |m, t| m.max(t.1));
    let mut sum = 0.0;
    for t in terms.iter_mut() {
        sum += (t.1 - best).exp();
        t.1 = sum;
    }
    let point = open01(rng) * sum;
    terms.iter().find(|t| t.1 > point).or(terms.last()).map_or(0.0, |t| t.0)
}

/// Calls `f(s, ln term)` for every s whose term counts.
fn for_terms(x: f64, a: f64, q: f64, mut f: impl FnMut(f64, f64)) {
    // ln of the ratio of term s + 1 to term s
    let step = |s: f64| ((x - s) / (s + 1.0) * (a + s) * q).ln();
    if x <= DIRECT {
        let mut ln_term = 0.0;
        let mut s = 0.0;
        loop {
            f(s, ln_term);
            if s >= x {
                return;
            }
            ln_term += step(s);
            s += 1.0;
        }
    }
    // The ratio is 1 where q (x − s)(a + s) = s + 1: at the larger root the terms have their interior maximum.
    let (half, rest) = (0.5 * (q * (x - a) - 1.0) / q, (q * a * x - 1.0) / q);
    let under = half * half + rest;
    let mode = if under >= 0.0 { (half + under.sqrt()).ceil().clamp(0.0, x) } else { 0.0 };
    let at = |s: f64| ln_gamma(x + 1.0) - ln_gamma(s + 1.0) - ln_gamma(x - s + 1.0) + ln_gamma(a + s) - ln_gamma(a) + s * q.ln();
    let top = at(mode).max(0.0);
    // upwards from the maximum
    let (mut s, mut ln_term) = (mode, at(mode));
    while ln_term > top - FAR {
        f(s, ln_term);
        if s >= x {
            break;
        }
        ln_term += step(s);
        s += 1.0;
    }
    // downwards
    let (mut s, mut ln_term) = (mode, at(mode));
    let mut lowest = mode;
    while s > 0.0 {
        ln_term -= step(s - 1.0);
        s -= 1.0;
        if ln_term <= top - FAR {
            break;
        }
        f(s, ln_term);
        lowest = s;
    }
    // with shapes below 1 the term at 0 can be a second maximum
    let (mut s, mut ln_term) = (0.0, 0.0);
    while s < lowest && ln_term > top - FAR {
        f(s, ln_term);
        ln_term += step(s);
        s += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Purpose, Stream};
    use crate::special::log_sum_exp;

    fn all(x: f64, a: f64, q: f64) -> Vec<f64> {
        let mut out = vec![0.0];
        for s in 0..x as u64 {
            let s = s as f64;
            out.push(out[s as usize] + ((x - s) / (s + 1.0) * (a + s) * q).ln());
        }
        out
    }

    #[test]
    fn the_window_holds_all_that_counts() {
        for x in [1.0, 3.0, 64.0, 65.0, 300.0, 2000.0] {
            for a in [0.05, 0.3, 1.0, 2.5] {
                for q in [1e-9, 1e-4, 0.01, 0.3, 1.0, 40.0, 1e9] {
                    let exact = log_sum_exp(&all(x, a, q));
                    let found = ln_sum(x, a, q);
                    assert!((found - exact).abs() < 1e-9 * (1.0 + exact.abs()), "x {x} a {a} q {q}: {found} for {exact}");
                }
            }
        }
    }

    #[test]
    fn draws_follow_the_terms() {
        let mut rng = Stream::new(3, 0, Purpose::Check).rng();
        for (x, a, q) in [(7.0, 0.3, 0.4), (400.0, 0.2, 0.003), (400.0, 0.2, 5.0)] {
            let terms = all(x, a, q);
            let total = log_sum_exp(&terms);
            let moment = |p: i32| terms.iter().enumerate().map(|(s, t)| (s as f64).powi(p) * (t - total).exp()).sum::<f64>();
            let (mean, variance) = (moment(1), moment(2) - moment(1) * moment(1));
            let n = 20_000;
            let mut buffer = Vec::new();
            let found = (0..n).map(|_| draw(x, a, q, &mut buffer, &mut rng)).sum::<f64>() / n as f64;
            let z = (found - mean) / (variance / n as f64).sqrt();
            assert!(z.abs() < 4.0, "x {x} a {a} q {q}: {found} for {mean}, z = {z}");
        }
    }
}
