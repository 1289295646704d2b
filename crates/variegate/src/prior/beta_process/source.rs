//! One source: how likely a column is to be empty in it.

use super::rise::{LEAD, SHORT, correction, digamma_rise, ln_rise, trigamma_rest};

/// Below this (times the larger of the concentration and 1) the probability to be empty is a quadratic in the weight.
const SMALL_WEIGHT: f64 = 1e-7;
/// Concentrations outside are moved to the nearer end.
const CONCENTRATIONS: (f64, f64) = (1e-300, 1e300);

/// `g(b) = prod_{t<N} (1 - b al/(al+t))`: leading factors one by one, the others through Stirling's series.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) rows: u64,
    pub(super) al: f64,
    /// `ln rise(al, N)`.
    pub(super) ln_total: f64,
    /// `E U`, with `U = sum_t Bern(al/(al+t))`.
    pub(super) mean: f64,
    /// Minus the sum of squares of the same probabilities.
    square: f64,
    /// `1/(al+t)` of the leading factors.
    inverse: [f64; SHORT as usize],
    lead: usize,
    /// Number of the other factors, the first and the end of their denominators, and what is made of those.
    others: f64,
    low: f64,
    high: f64,
    ln_ratio: f64,
    low_part: f64,
    corrections: f64,
}

impl Source {
    pub(super) fn new(rows: u64, concentration: f64) -> Self {
        let al = concentration.clamp(CONCENTRATIONS.0, CONCENTRATIONS.1);
        let lead = if rows <= SHORT { rows } else { LEAD };
        let mut inverse = [0.0; SHORT as usize];
        let (mut mean, mut square) = (0.0, 0.0);
        for (t, inverse) in inverse.iter_mut().enumerate().take(lead as usize) {
            *inverse = 1.0 / (al + t as f64);
            let p = al * *inverse;
            mean += p;
            square -= p * p;
        }
        let (others, low, high) = ((rows - lead) as f64, al + lead as f64, al + rows as f64);
        let (mut ln_ratio, mut corrections) = (0.0, 0.0);
        if others > 0.0 {
            ln_ratio = (others / low).ln_1p();
            corrections = correction(low) - correction(high);
            mean += al * digamma_rise(low, others);
            square += al * ((al / low) * (-others / high) + al * (trigamma_rest(high) - trigamma_rest(low)));
        }
        let low_part = (low - 0.5) * ln_ratio;
        Self {
            rows,
            al,
            ln_total: ln_rise(al, rows),
            mean,
            square,
            inverse,
            lead: lead as usize,
            others,
            low,
            high,
            ln_ratio,
            low_part,
            corrections,
        }
    }

    /// The product of the leading factors, 1 minus it, and the logarithm of the product of the others; `rest` is `1-b`.
    #[inline]
    fn parts(&self, b: f64, rest: f64) -> (f64, f64, f64) {
        let (d, kept) = (self.al * b, self.al * rest);
        let (mut empty, mut used) = (1.0, 0.0);
        for (t, inverse) in self.inverse[..self.lead].iter().enumerate() {
            if t == 0 {
                (empty, used) = (rest, b);
            } else {
                used += d * inverse * empty;
                empty *= (kept + t as f64) * inverse;
            }
        }
        if self.others == 0.0 {
            return (empty, used, 0.0);
        }
        let (low, high) = (kept + self.lead as f64, kept + self.rows as f64);
        let corrections = self.corrections + (correction(high) - correction(low));
        // both are the difference of the same two rising factorials; the one whose parts are smaller loses fewer digits
        let ln_others = if d < self.others {
            let ln_left = |part: f64, whole: f64| if d < 0.01 * whole { (-d / whole).ln_1p() } else { (part / whole).ln() };
            -d * self.ln_ratio + (high - 0.5) * ln_left(high, self.high) - (low - 0.5) * ln_left(low, self.low)
        } else {
            (low - 0.5) * (self.others / low).ln_1p() - self.low_part + self.others * (-d / self.high).ln_1p()
        };
        (empty, used, ln_others + corrections)
    }

    /// `g(b)` and `1 - g(b)`, each without subtraction.
    #[inline]
    pub(super) fn empty_and_used(&self, b: f64, rest: f64) -> (f64, f64) {
        let (empty, used, ln_others) = self.parts(b, rest);
        if self.others == 0.0 {
            return (empty, used);
        }
        let change = ln_others.exp_m1();
        (empty * (1.0 + change), used - empty * change)
    }

    /// `ln g(b)`.
    #[inline]
    pub(super) fn ln_empty(&self, b: f64) -> f64 {
        if b * self.al.max(1.0) < SMALL_WEIGHT {
            return b * (0.5 * b * self.square - self.mean);
        }
        let (empty, used, ln_others) = self.parts(b, 1.0 - b);
        let ln_lead = if used < 0.5 { (-used).ln_1p() } else { empty.ln() };
        ln_lead + ln_others
    }
}
