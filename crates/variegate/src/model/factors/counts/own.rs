//! Atoms that a new row alone uses.
//!
//! No row of the fit uses them, so that nothing but the prior and the row itself tells of them. As in a fit they are born and die with φ integrated
//! out: an atom from the prior would have next to none of the row's columns. Where the share e of the row was seen, the likelihood of the row with an atom
//! more is that of `birth.rs` with q = w / ((b + e w) r) and, for each column, (b/(b + e w))^a.

use rand_distr::Distribution;

use super::super::likelihood::Own;
use super::place::{Placing, SMALL};
use super::private::Proposal;
use super::row::binomial;
use super::{Counts, SMALLEST, View, birth};
use crate::Result;
use crate::dist::Gamma;
use crate::linalg::eights::{Eight, Product, product};
use crate::run::{Philox, open01};

/// Attempts of a scan to give the row an atom, or to take one away.
const ATTEMPTS: usize = 1;
/// The largest q whose powers may be formed together.
const MODEST: f64 = 1e60;

impl Own {
    /// Sum of its entries.
    pub(super) fn total(&self) -> f64 {
        self.seen.iter().sum::<f64>() + self.rest
    }
}

/// A row without the atom that may be born or die.
struct Site<'a> {
    counts: &'a [f64],
    ends: [usize; SMALL],
    inverse: &'a [f64],
    /// The largest of the inverse rates.
    largest: f64,
    width: f64,
    shape: f64,
    rate: f64,
    exposure: f64,
}

impl Site<'_> {
    /// Log likelihood of the row with a new atom of this weight, over that without.
    fn ln_gain(&self, w: f64) -> f64 {
        let (a, b, e) = (self.shape, self.rate, self.exposure);
        let p = w / (b + e * w);
        let (mut all, mut from) = (Product::EMPTY, 0);
        if p * self.largest < MODEST {
            for (at, &to) in self.ends.iter().enumerate() {
                if to > from {
                    let x = (at + 1) as f64;
                    // (x choose s) a(a+1)…(a+s−1)
                    let (mut term, mut c) = (1.0, [0.0; SMALL]);
                    for (s, c) in c.iter_mut().enumerate() {
                        let s = s as f64;
                        term *= (x - s) / (s + 1.0) * (a + s);
                        *c = term;
                    }
                    let some = product(
                        &self.inverse[from..to],
                        #[inline(always)]
                        |inverse| {
                            let q = Eight::of(p) * inverse;
                            let rest = Eight::of(c[1]) + q * (Eight::of(c[2]) + q * Eight::of(c[3]));
                            Eight::of(1.0) + q * (Eight::of(c[0]) + q * rest)
                        },
                    );
                    all = all.and(some, 1);
                }
                from = to;
            }
        }
        let more = self.counts[from..].iter().zip(&self.inverse[from..]);
        all.ln() - self.width * a * (e * w / b).ln_1p() + more.map(|(&x, &inverse)| birth::ln_sum(x, a, p * inverse)).sum::<f64>()
    }
}

impl Placing {
    /// Gives the row atoms of its own; it has none yet.
    pub(super) fn take_own(&mut self, own: &mut Vec<Own>) {
        std::mem::swap(&mut self.own, own);
        for own in &self.own {
            self.rate.iter_mut().zip(&own.seen).for_each(|(r, v)| *r += v * own.weight);
        }
        if !self.own.is_empty() {
            self.invert();
        }
    }

    /// Atoms that the row alone uses.
    #[cfg(test)]
    pub(in super::super) fn own(&self) -> &[Own] {
        &self.own
    }

    fn site<'a>(&'a self, model: &Counts, view: &View, inverse: &'a [f64]) -> Site<'a> {
        Site {
            counts: &self.counts,
            ends: self.ends,
            inverse,
            largest: inverse.iter().fold(0.0, |m: f64, &v| m.max(v)),
            width: model.width as f64,
            shape: view.scales.shape,
            rate: view.scales.atom,
            exposure: self.exposure,
        }
    }

    /// Leaves in `rest` the rates without an atom of the row's own, and one over them in `ratio`.
    fn without(&mut self, view: &View, at: usize) {
        let (background, own) = (view.scales.background[self.source], &self.own[at]);
        self.rest.clear();
        self.rest.extend(self.rate.iter().zip(&own.seen).map(|(r, v)| (r - v * own.weight).max(background)));
        self.ratio.clear();
        self.ratio.extend(self.rest.iter().map(|r| 1.0 / r));
    }

    /// φ of an atom of this weight given what the row owes to it.
    fn draw_own(&self, model: &Counts, view: &View, own: &mut Own, rng: &mut Philox) -> Result<()> {
        let (a, rate) = (view.scales.shape, view.scales.atom + self.exposure * own.weight);
        let empty = Gamma::new(a, rate)?;
        own.seen.clear();
        for &s in &own.owed {
            let distribution = if s == 0.0 { empty } else { Gamma::new(a + s, rate)? };
            own.seen.push(distribution.sample(rng).max(SMALLEST));
        }
        let others = model.width - own.owed.len();
        own.rest = if others == 0 { 0.0 } else { Gamma::new(a * others as f64, rate)?.sample(rng).max(SMALLEST) };
        Ok(())
    }

    /// Births and deaths, then new values of all that the row has.
    pub(super) fn own_moves(&mut self, model: &Counts, view: &View, ln_rate: f64, rng: &mut Philox) -> Result<()> {
        let prior = Gamma::new(model.weight_shape, view.scales.weight[self.source])?;
        for _ in 0..ATTEMPTS {
            let birth = open01(rng) < 0.5;
            let (pick, chance) = (open01(rng), open01(rng).ln());
            if birth {
                let site = self.site(model, view, &self.inverse);
                let proposal = Proposal::new(prior, |w| site.ln_gain(w));
                let w = proposal.draw(rng);
                if chance < proposal.ln_birth(w, ln_rate, site.ln_gain(w), self.own.len() + 1) {
                    let p = w / (view.scales.atom + self.exposure * w);
                    let mut own = Own { weight: w, ..Own::default() };
                    let mut terms = Vec::new();
                    for (&x, &inverse) in self.counts.iter().zip(&self.inverse) {
                        own.owed.push(birth::draw(x, view.scales.shape, p * inverse, &mut terms, rng));
                    }
                    self.draw_own(model, view, &mut own, rng)?;
                    self.rate.iter_mut().zip(&own.seen).for_each(|(r, v)| *r += v * w);
                    self.invert();
                    self.own.push(own);
                }
            } else if !self.own.is_empty() {
                let at = ((pick * self.own.len() as f64) as usize).min(self.own.len() - 1);
                let w = self.own[at].weight;
                self.without(view, at);
                let site = self.site(model, view, &self.ratio);
                let proposal = Proposal::new(prior, |w| site.ln_gain(w));
                if chance < -proposal.ln_birth(w, ln_rate, site.ln_gain(w), self.own.len()) {
                    self.own.remove(at);
                    std::mem::swap(&mut self.rate, &mut self.rest);
                    std::mem::swap(&mut self.inverse, &mut self.ratio);
                }
            }
        }
        for at in 0..self.own.len() {
            self.without(view, at);
            let mut own = std::mem::take(&mut self.own[at]);
            for (((s, &x), &v), &r) in own.owed.iter_mut().zip(&self.counts).zip(&own.seen).zip(&self.rest) {
                let mine = v * own.weight;
                *s = binomial(x as u64, (mine / (r + mine)).clamp(0.0, 1.0), rng)? as f64;
            }
            self.draw_own(model, view, &mut own, rng)?;
            let (shape, rate) =
                (model.weight_shape + own.owed.iter().sum::<f64>(), view.scales.weight[self.source] + self.exposure * own.total());
            own.weight = Gamma::new(shape, rate)?.sample(rng).max(SMALLEST);
            self.rate.clear();
            self.rate.extend(self.rest.iter().zip(&own.seen).map(|(r, v)| r + v * own.weight));
            self.own[at] = own;
        }
        if !self.own.is_empty() {
            self.invert();
        }
        Ok(())
    }

    /// One over the rates.
    pub(super) fn invert(&mut self) {
        self.inverse.clear();
        self.inverse.extend(self.rate.iter().map(|r| 1.0 / r));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scales, private};
    use super::*;

    /// Of a row that was seen whole it is what a fit takes it for; of a row of which less was seen, that of rates and weights so much smaller.
    #[test]
    fn the_likelihood_of_a_row_with_an_atom_more() {
        let counts: Vec<f64> = [vec![1.0; 11], vec![2.0; 9], vec![3.0; 2], vec![4.0; 8], vec![5.0, 9.0, 200.0]].concat();
        let rate: Vec<f64> = (0..counts.len()).map(|i| 10f64.powi((i * 7 % 9) as i32 - 6)).collect();
        let model = Counts { width: 40, ..Counts::of_three_columns() };
        for (shape, background) in [(0.004, 1e-6), (0.7, 1e-6), (30.0, 1e-90)] {
            // the last are so small that powers of one over them are not formed
            let rate: Vec<f64> = rate.iter().map(|r| if background < 1e-50 { r * background } else { *r }).collect();
            let inverse: Vec<f64> = rate.iter().map(|r| 1.0 / r).collect();
            let scales = Scales { shape, atom: 1.3, weight: vec![0.9], background: vec![background] };
            let largest = inverse.iter().fold(0.0, |m: f64, &v| m.max(v));
            for exposure in [1.0, 0.3] {
                let site =
                    Site { counts: &counts, ends: [11, 20, 22, 30], inverse: &inverse, largest, width: 40.0, shape, rate: 1.3, exposure };
                let seen: Vec<f64> = rate.iter().map(|r| r * exposure).collect();
                let fit = private::Site { counts: &counts, rate: &seen, model: &model, scales: &scales };
                for w in [1e-6, 0.2, 5.0] {
                    let (found, exact) = (site.ln_gain(w), fit.ln_gain(exposure * w));
                    assert!((found - exact).abs() < 1e-9 * (1.0 + exact.abs()), "{shape} {exposure} {w}: {found} for {exact}");
                }
            }
        }
    }
}
