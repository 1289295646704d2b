//! A new row of counts among atoms that stay as they are.
//!
//! The scan has the distribution of that of a fit, and is far cheaper. Given the rates r of the row without an atom, and u = φ/r, the
//! probability of the row with weight w over that without is exp(G(w) − T w), G(w) = Σ x ln(1 + u w) and T the sum of φ. G is concave, so it lies
//! below any tangent G(τ) + (w − τ) g(τ): t(w), the prior of the weight times that probability, lies below a multiple of Gamma(w; a, b + T − g).
//! Weights of atoms that explain little of the row are proposed from there, and the multiple is often so small that an atom which the
//! row does not use is refused before a weight is drawn. For atoms that explain much of it a gamma distribution is fitted to t(w). Which it
//! is, and where the tangent touches, depends on the row without the atom alone.

use rand_distr::Distribution;

use super::super::likelihood::{Entry, Own, Row};
use super::row::{Proposal, gather_entries, slopes};
use super::{SMALLEST, View, rate_at};
use crate::Result;
use crate::dist::Gamma;
use crate::linalg::eights::{Eight, Product, product, sums};
use crate::linalg::wide;
use crate::run::{Philox, open01};

/// Steps towards the mode, and how near is near enough.
const STEPS: usize = 6;
const NEAR: f64 = 0.05;
/// How much an atom explains, in standard deviations: below the first the tangent is that at 0, above the second a distribution is fitted.
const LITTLE: f64 = -0.3;
const MUCH: f64 = 1.5;
/// How far beyond the mode the tangent touches, in standard deviations, and how steep it must be.
const BEYOND: f64 = 1.0;
const STEEP: f64 = 0.3;
/// The largest φ over a rate, and that times a weight.
const LARGEST: f64 = 1e290;
const LARGEST_PRODUCT: f64 = 1e299;
/// Counts up to this have products of their own.
pub(super) const SMALL: usize = 4;

fn class(x: f64) -> usize {
    (x as usize).min(SMALL + 1)
}

/// Columns of a row that are not zero, in the order in which they are taken up.
pub(in super::super) fn by_count(row: Row<'_>, out: &mut Vec<(u32, f64)>) {
    out.clear();
    row.x.for_row(row.at, |m, v| {
        if v > 0.0 {
            out.push((m as u32, v));
        }
    });
    out.sort_by_key(|e| class(e.1));
}

/// A row that is placed.
#[derive(Debug, Default)]
pub struct Placing {
    /// Columns that are not zero, by their counts: all that have one, all that have two and so on, then those that have more.
    columns: Vec<u32>,
    pub(super) counts: Vec<f64>,
    /// Where the columns of each small count end.
    pub(super) ends: [usize; SMALL],
    /// Their rates, and one over them.
    pub(super) rate: Vec<f64>,
    pub(super) inverse: Vec<f64>,
    /// Entries of every atom at these columns, one atom after the other.
    phi: Vec<f64>,
    /// Weight of each atom, where it is used.
    weight: Vec<f64>,
    used: Vec<bool>,
    /// Atoms that it alone uses.
    pub(super) own: Vec<Own>,
    pub(super) source: usize,
    pub(super) exposure: f64,
    /// Rates without the atom at hand, and φ over them.
    pub(super) rest: Vec<f64>,
    pub(super) ratio: Vec<f64>,
    /// Columns and counts as they come.
    found: Vec<(u32, f64)>,
}

/// Counts of a row and where those of each small count end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) counts: &'a [f64],
    pub(super) ends: [usize; SMALL],
}

impl Seen<'_> {
    /// G(w) = Σ x ln(1 + u w).
    pub(super) fn gain(&self, ratio: &[f64], w: f64) -> f64 {
        let (mut all, mut from) = (Product::EMPTY, 0);
        for (times, &to) in self.ends.iter().enumerate() {
            if to > from {
                let some = product(
                    &ratio[from..to],
                    #[inline(always)]
                    |r| Eight::of(1.0) + (r * Eight::of(w)).min(Eight::of(LARGEST_PRODUCT)),
                );
                all = all.and(some, times as i32 + 1);
            }
            from = to;
        }
        let more = ratio[from..].iter().zip(&self.counts[from..]);
        all.ln() + more.map(|(r, x)| x * (r * w).min(LARGEST_PRODUCT).ln_1p()).sum::<f64>()
    }
}

/// A gamma distribution close to w^{a−1} exp(−slope w) Π (1 + u w)^x; `first` and `second` are the slopes at 0.
///
/// The mode is where g(w) = (a−1)/w + Σ x u/(1 + u w) equals the slope. 1/g is concave, so steps of Newton's method for 1/g from the left
/// never pass the mode, and where one u prevails the first one meets it.
pub(super) fn fit(counts: &[f64], ratio: &[f64], shape: f64, slope: f64, (first, second): (f64, f64)) -> Result<Gamma> {
    let more = shape.max(1.0) - 1.0;
    if more == 0.0 && first <= slope {
        // the mode is at 0
        return Ok(Gamma::new(1.0, (slope - first).max(second.sqrt()).min(slope).max(SMALLEST))?);
    }
    let step = |w: f64, g: f64, h: f64| w + g / h * (g / slope - 1.0);
    let mut w = if more == 0.0 { step(0.0, first, second) } else { more / slope };
    let mut curvature = 0.0;
    for _ in 0..STEPS {
        let (first, second) = slopes(counts, ratio, w);
        curvature = more / (w * w) + second;
        let next = step(w, more / w + first, curvature);
        let near = (next - w).abs() <= NEAR * w;
        w = next;
        if near || !w.is_finite() {
            break;
        }
    }
    let (a, b) = (1.0 + curvature * w * w, curvature * w);
    if !(a.is_finite() && b.is_finite() && b > 0.0) {
        return Ok(Gamma::new(shape.max(1.0), slope)?);
    }
    Ok(Gamma::new(a, b.min(slope))?)
}

/// From what weights are proposed.
enum Weights {
    /// Gamma(a, B) with B = b + T − g, and a ln(b/B): t(w) is exp(G(w) − g w) times both.
    Tangent { distribution: Gamma, ln_scale: f64, slope: f64 },
    /// A distribution fitted to t(w).
    Fitted { proposal: Proposal, total: f64 },
}

impl Weights {
    fn draw(&self, rng: &mut Philox) -> f64 {
        match self {
            Self::Tangent { distribution, .. } => distribution.sample(rng).max(SMALLEST),
            Self::Fitted { proposal, .. } => proposal.draw(rng),
        }
    }

    /// ln of t(w) over the density that w was proposed from.
    fn score(&self, seen: Seen<'_>, ratio: &[f64], w: f64) -> f64 {
        let gain = seen.gain(ratio, w);
        match self {
            Self::Tangent { ln_scale, slope, .. } => ln_scale + gain - slope * w,
            Self::Fitted { proposal, total } => proposal.prior.ln_pdf(w) + gain - total * w - proposal.ln_pdf(w),
        }
    }
}

impl Placing {
    /// Takes up a row that uses these atoms; of the whole row this share was seen.
    pub(super) fn meet(&mut self, view: &View, row: Row<'_>, entries: &[Entry], exposure: f64) {
        let k = view.count;
        by_count(row, &mut self.found);
        self.columns.clear();
        self.columns.extend(self.found.iter().map(|e| e.0));
        self.counts.clear();
        self.counts.extend(self.found.iter().map(|e| e.1));
        self.ends = std::array::from_fn(|c| self.counts.partition_point(|&x| class(x) <= c + 1));
        self.source = row.source;
        self.exposure = exposure;
        self.used.clear();
        self.used.resize(k, false);
        self.weight.clear();
        self.weight.resize(k, 0.0);
        for &(a, w) in entries {
            self.used[a as usize] = true;
            self.weight[a as usize] = w;
        }
        gather_entries(view, &self.columns, &mut self.phi);
        let background = view.scales.background[row.source];
        self.rate.clear();
        self.rate.extend(self.columns.iter().map(|&m| rate_at(&view.by_column[m as usize * k..][..k], background, entries)));
        self.own.clear();
        self.invert();
    }

    /// Draws whether an atom is used and its weight, of this shape.
    pub(super) fn ask(&mut self, view: &View, shape: f64, atom: usize, ln_odds: f64, rng: &mut Philox) -> Result<()> {
        let n = self.columns.len();
        let (background, weight_rate) = (view.scales.background[self.source], view.scales.weight[self.source]);
        let total = self.exposure * view.totals[atom];
        let slope = weight_rate + total;
        let Self { counts, ends, rate, inverse, phi, rest, ratio, .. } = self;
        let (phi, counts) = (&phi[atom * n..][..n], &counts[..n]);
        let (rate, inverse) = (&mut rate[..n], &mut inverse[..n]);
        let was_used = self.used[atom];
        let mut w = if was_used { self.weight[atom] } else { 0.0 };
        if was_used {
            rest.resize(n, f64::NAN);
            let rest = &mut rest[..n];
            wide(
                #[inline(always)]
                || {
                    for i in 0..n {
                        let without = rate[i] - phi[i] * w;
                        rest[i] = if without > background { without } else { background };
                        inverse[i] = 1.0 / rest[i];
                    }
                },
            );
        }
        let [first, second] = sums(
            [phi, inverse, counts],
            #[inline(always)]
            |[p, i, x]| {
                let scaled = p * i;
                let owed = x * scaled;
                [owed, owed * scaled]
            },
        );
        let at_zero = (first, second);
        let chance = open01(rng).ln();
        // a tangent of this slope; t(w) over the density that w is proposed from is no more than exp(`most` + G(τ) − τ g)
        let tangent = |g: f64| {
            let rate = (slope - g).max(SMALLEST);
            (rate, shape * (weight_rate / rate).ln())
        };
        let explains = (at_zero.0 - slope) / at_zero.1.sqrt();
        // a row without counts has nothing to explain
        let little = explains.is_nan() || explains <= LITTLE;
        if little && !was_used && chance >= ln_odds + tangent(at_zero.0).1 {
            return Ok(());
        }
        ratio.resize(n, f64::NAN);
        let ratio = {
            let ratio = &mut ratio[..n];
            wide(
                #[inline(always)]
                || {
                    for i in 0..n {
                        let r = phi[i] * inverse[i];
                        ratio[i] = if r < LARGEST { r } else { LARGEST };
                    }
                },
            );
            &*ratio
        };
        let seen = Seen { counts, ends: *ends };
        let touching = if little {
            Some(at_zero.0)
        } else if explains <= MUCH {
            let mode = if at_zero.0 > slope { at_zero.0 / at_zero.1 * (at_zero.0 / slope - 1.0) } else { 0.0 };
            let tau = mode + BEYOND / at_zero.1.sqrt();
            let (first, second) = slopes(counts, ratio, tau);
            let steep = slope - first >= STEEP * second.sqrt();
            if steep && !was_used && chance >= ln_odds + tangent(first).1 + seen.gain(ratio, tau) - tau * first {
                return Ok(());
            }
            steep.then_some(first)
        } else {
            None
        };
        let weights = match touching {
            Some(first) => {
                let (rate, ln_scale) = tangent(first);
                Weights::Tangent { distribution: Gamma::new(shape, rate)?, ln_scale, slope: first }
            }
            None => {
                let fitted = fit(counts, ratio, shape, slope, at_zero)?;
                Weights::Fitted { proposal: Proposal { fitted, prior: Gamma::new(shape, weight_rate)? }, total }
            }
        };
        let (used, at);
        if was_used {
            at = weights.score(seen, ratio, w);
            used = chance >= -(ln_odds + at);
        } else {
            w = weights.draw(rng);
            at = weights.score(seen, ratio, w);
            used = chance < ln_odds + at;
        }
        // after every outcome that leaves the atom in use, not only after some: the step would not keep the distribution
        if used {
            let next = weights.draw(rng);
            if open01(rng).ln() < weights.score(seen, ratio, next) - at {
                w = next;
            }
        }
        self.used[atom] = used;
        self.weight[atom] = if used { w } else { 0.0 };
        if was_used || used {
            let (w, rest) = (self.weight[atom], &rest[..if was_used { n } else { 0 }]);
            wide(
                #[inline(always)]
                || {
                    if was_used {
                        rate.copy_from_slice(rest);
                    }
                    for i in 0..n {
                        rate[i] += phi[i] * w;
                        inverse[i] = 1.0 / rate[i];
                    }
                },
            );
        }
        Ok(())
    }

    /// Atoms in use, ascending.
    pub(super) fn list(&self, entries: &mut Vec<Entry>) {
        entries.clear();
        entries.extend((0..self.used.len()).filter(|&a| self.used[a]).map(|a| (a as u32, self.weight[a].max(SMALLEST))));
    }

    /// Adds the share of each atom in the sum of the rates of all columns, after them that which is the same for all columns, and after that those of single
    /// columns, as [`by_count`] has them: of atoms of the row's own, expected given what the row owes to them.
    pub(in super::super) fn add_shares(&self, view: &View, width: usize, out: &mut [f64]) {
        // bounded, so that neither the sum nor a share is infinite
        let part = |rates: f64| rates.min(LARGEST);
        let background = part(width as f64 * view.scales.background[self.source]);
        let of = |a: usize| part(view.totals[a] * self.weight[a]);
        let used = || (0..view.count).filter(|&a| self.used[a]);
        let own = |own: &Own| part(own.total() * own.weight);
        let total = (background + used().map(of).sum::<f64>() + self.own.iter().map(own).sum::<f64>()).max(f64::MIN_POSITIVE);
        used().for_each(|a| out[a] += of(a) / total);
        let (shares, single) = out.split_at_mut(view.count + 1);
        shares[view.count] += background / total;
        for atom in &self.own {
            // given its sum, its shares are from a Dirichlet distribution
            let (prior, owed) = (view.scales.shape * width as f64, atom.owed.iter().sum::<f64>());
            let unit = own(atom) / total / (prior + owed);
            shares[view.count] += unit * prior;
            single.iter_mut().zip(&atom.owed).for_each(|(o, s)| *o += unit * s);
        }
    }

    /// Adds what the weight of each atom is expected to be were the counts divided among the atoms anew and the weights drawn given that:
    /// of Gamma(a + s, b + T) with s = w Σ x φ/r on average.
    pub(super) fn add_expected(&self, view: &View, shape: f64, out: &mut [f64]) {
        let n = self.columns.len();
        let (counts, inverse) = (&self.counts[..n], &self.inverse[..n]);
        for (a, out) in out.iter_mut().enumerate().filter(|(a, _)| self.used[*a]) {
            let phi = &self.phi[a * n..][..n];
            let [owed] = sums(
                [phi, counts, inverse],
                #[inline(always)]
                |[p, x, i]| [x * p * i],
            );
            *out += (shape + self.weight[a] * owed) / (view.scales.weight[self.source] + self.exposure * view.totals[a]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_logarithms_by_products() {
        let counts: Vec<f64> = [vec![1.0; 19], vec![2.0; 8], vec![4.0; 3], vec![9.0, 250.0]].concat();
        let ratio: Vec<f64> = (0..counts.len()).map(|i| 10f64.powi((i * 7 % 23) as i32 - 14)).collect();
        let seen = Seen { counts: &counts, ends: [19, 27, 27, 30] };
        for w in [1e-9, 0.3, 1.0, 1e5, 1e300] {
            let exact: f64 = ratio.iter().zip(&counts).map(|(r, x)| x * (r * w).min(LARGEST_PRODUCT).ln_1p()).sum();
            let found = seen.gain(&ratio, w);
            assert!((found - exact).abs() < 1e-11 * (1.0 + exact), "{found} for {exact} at {w}");
        }
    }

    /// The mode of what is fitted is that of w^{a−1} exp(−slope w) Π (1 + u w)^x.
    #[test]
    fn fits_have_the_mode() {
        let (counts, ratio) = ([3.0, 1.0, 7.0, 2.0], [2.0, 0.1, 5.0, 40.0]);
        for (shape, slope) in [(1.0, 1.5), (1.0, 0.2), (0.4, 3.0), (2.5, 6.0)] {
            let fitted = fit(&counts, &ratio, shape, slope, slopes(&counts, &ratio, 0.0)).unwrap();
            let (mean, variance) = (fitted.mean(), fitted.variance());
            let mode = mean - variance / mean;
            let (first, _) = slopes(&counts, &ratio, mode);
            let gradient = (f64::max(shape, 1.0) - 1.0) / mode + first;
            assert!((gradient / slope - 1.0).abs() < 0.05, "shape {shape}, slope {slope}: {gradient} at {mode}");
        }
    }
}
