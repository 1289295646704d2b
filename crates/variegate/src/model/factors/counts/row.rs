//! One row of counts: its rates, and the moves that change which atoms it uses and how much.

use rand::Rng;
use rand_distr::{Binomial, Distribution};

use super::super::likelihood::{Entry, Row, Tempering};
use super::side::CountContribution;
use super::{SMALLEST, Sums, View, rate_at};
use crate::dist::Gamma;
use crate::linalg::eights::{Eight, sums};
use crate::linalg::wide;
use crate::run::{Philox, open01};
use crate::special::branchless::ln_1p;
use crate::special::ln_gamma;
use crate::{Error, Result};

/// Moves of pairs of atoms for each row and scan.
const PAIRS: usize = 4;
/// Entries whose rate an atom raises by a smaller share than this are left out of its odds: rounding errors are larger. Atoms of text
/// have hardly anything in most columns.
const NEGLIGIBLE: f64 = 1e-18;
/// Columns that are gathered together.
const GATHERED: usize = 8;

/// A row that is worked on.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Columns that are not zero.
    columns: Vec<u32>,
    /// Their counts.
    counts: Vec<f64>,
    /// Their counts to the power of the path.
    tempered: Vec<f64>,
    /// Their rates λ + Σ φ w over the atoms in use.
    rate: Vec<f64>,
    /// Their entries in every atom, one atom after the other.
    phi: Vec<f64>,
    /// φ over the rate without the atom at hand.
    ratio: Vec<f64>,
    /// Those of them that matter, and the counts that go with them.
    packed: (Vec<f64>, Vec<f64>),
    /// Terms of a sum.
    terms: Vec<f64>,
    /// Weight of each atom; only where it is used.
    weight: Vec<f64>,
    /// Whether the row uses each atom.
    used: Vec<bool>,
    /// Latent counts, one entry of the row after the other.
    latent: Vec<f64>,
    /// Latent counts of the background.
    from_background: f64,
    source: usize,
    /// What the sum of an atom's entries counts for.
    weight_of_totals: f64,
}

/// The distribution from which weights are proposed: a gamma distribution fitted to the target, and a share of the prior, which covers what the fit misses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proposal {
    pub(super) fitted: Gamma,
    pub(super) prior: Gamma,
}

/// Share of the fitted distribution.
const FITTED: f64 = 0.9;

impl Proposal {
    pub(super) fn draw(&self, rng: &mut Philox) -> f64 {
        let distribution = if open01(rng) < FITTED { &self.fitted } else { &self.prior };
        distribution.sample(rng).max(SMALLEST)
    }

    pub(super) fn ln_pdf(&self, w: f64) -> f64 {
        let (a, b) = (FITTED.ln() + self.fitted.ln_pdf(w), (1.0 - FITTED).ln() + self.prior.ln_pdf(w));
        a.max(b) + (-(a - b).abs()).exp().ln_1p()
    }
}

/// Entries of every atom at these columns, one atom after the other.
pub(super) fn gather_entries(view: &View, columns: &[u32], phi: &mut Vec<f64>) {
    let (n, k) = (columns.len(), view.count);
    phi.resize(n * k, f64::NAN);
    // a few columns at a time, so that what is written lies together
    let mut first = 0;
    while first + GATHERED <= n {
        let near: [&[f64]; GATHERED] = std::array::from_fn(|i| &view.by_column[columns[first + i] as usize * k..][..k]);
        for a in 0..k {
            let out = &mut phi[a * n + first..][..GATHERED];
            out.iter_mut().zip(&near).for_each(|(o, column)| *o = column[a]);
        }
        first += GATHERED;
    }
    for i in first..n {
        let column = &view.by_column[columns[i] as usize * k..][..k];
        column.iter().enumerate().for_each(|(a, &v)| phi[a * n + i] = v);
    }
}

impl Scratch {
    /// Takes up a row; with `gather` also the entries of every atom at its columns, which scans need.
    pub(super) fn begin(&mut self, view: &View, row: Row<'_>, entries: &[Entry], tempering: Tempering, gather: bool) {
        let k = view.count;
        self.columns.clear();
        self.counts.clear();
        row.x.for_row(row.at, |m, v| {
            if v > 0.0 {
                self.columns.push(m as u32);
                self.counts.push(v);
            }
        });
        self.tempered.clear();
        self.tempered.extend(self.counts.iter().map(|v| v * tempering.power));
        self.weight_of_totals = tempering.power * tempering.exposure;
        self.source = row.source;
        self.used.clear();
        self.used.resize(k, false);
        self.weight.clear();
        self.weight.resize(k, 0.0);
        for &(a, w) in entries {
            self.used[a as usize] = true;
            self.weight[a as usize] = w;
        }
        self.rates(view, entries);
        if gather {
            gather_entries(view, &self.columns, &mut self.phi);
        }
    }

    /// Rates from scratch, so that rounding does not gather.
    pub(super) fn rates(&mut self, view: &View, entries: &[Entry]) {
        let (k, background) = (view.count, view.scales.background[self.source]);
        self.rate.clear();
        self.rate.extend(self.columns.iter().map(|&m| rate_at(&view.by_column[m as usize * k..][..k], background, entries)));
    }

    /// Columns, counts and rates of what is not zero.
    pub(super) fn seen(&self) -> (&[u32], &[f64], &[f64]) {
        (&self.columns, &self.counts, &self.rate)
    }

    /// Source of the row.
    pub(super) fn source(&self) -> usize {
        self.source
    }

    /// Draws whether an atom is used and its weight, which has this shape and rate; without odds the atom is kept, and its weight alone is
    /// drawn.
    pub(super) fn update(
        &mut self,
        view: &View,
        (shape, weight_rate): (f64, f64),
        atom: usize,
        ln_odds: Option<f64>,
        rng: &mut Philox,
    ) -> Result<bool> {
        let n = self.columns.len();
        let background = view.scales.background[self.source];
        let phi = &self.phi[atom * n..][..n];
        let mut used = self.used[atom];
        let mut w = if used { self.weight[atom] } else { 0.0 };
        // the rates without the atom
        self.ratio.resize(n, f64::NAN);
        let (rate, ratio, tempered) = (&mut self.rate[..n], &mut self.ratio[..n], &self.tempered[..n]);
        wide(
            #[inline(always)]
            || {
                if used {
                    for i in 0..n {
                        let rest = rate[i] - phi[i] * w;
                        rate[i] = if rest > background { rest } else { background };
                    }
                }
                for i in 0..n {
                    let r = phi[i] / rate[i];
                    ratio[i] = if r < 1e290 { r } else { 1e290 };
                }
            },
        );
        let (ratio, tempered) = pack(ratio, tempered, NEGLIGIBLE * weight_rate / shape, &mut self.packed);
        let prior = Gamma::new(shape, weight_rate)?;
        let total = self.weight_of_totals * view.totals[atom];
        let proposal = Proposal { fitted: fit(ratio, tempered, shape, weight_rate, total)?, prior };
        // ln of target over proposal
        let mut terms = std::mem::take(&mut self.terms);
        let mut score = |w: f64| {
            let gain = gain(
                tempered,
                #[inline(always)]
                |i| (ratio[i] * w).min(1e299),
                &mut terms,
            );
            prior.ln_pdf(w) + gain - total * w - proposal.ln_pdf(w)
        };
        let mut at = if used { score(w) } else { 0.0 };
        if let Some(ln_odds) = ln_odds {
            if used {
                used = open01(rng).ln() >= -(ln_odds + at);
            } else {
                w = proposal.draw(rng);
                at = score(w);
                used = open01(rng).ln() < ln_odds + at;
            }
        }
        // after every outcome that leaves the atom in use, not only after some: the step would not keep the distribution
        if used {
            let next = proposal.draw(rng);
            let there = score(next);
            if open01(rng).ln() < there - at {
                w = next;
            }
            for (r, &p) in rate.iter_mut().zip(phi) {
                *r += p * w;
            }
            self.weight[atom] = w;
        }
        self.used[atom] = used;
        self.terms = terms;
        Ok(used)
    }

    /// One multiplicative step of all weights: what the atoms explain of the row over what they add up to.
    pub(super) fn climb(&mut self, view: &View, entries: &mut [Entry]) {
        let n = self.columns.len();
        self.ratio.clear();
        self.ratio.extend(self.counts.iter().zip(&self.rate).map(|(x, r)| x / r));
        let (ratio, phi) = (&self.ratio[..n], &self.phi);
        for (k, w) in entries.iter_mut() {
            let phi = &phi[*k as usize * n..][..n];
            let [explained] = sums(
                [phi, ratio],
                #[inline(always)]
                |[p, r]| [p * r],
            );
            *w = (*w * explained / view.totals[*k as usize]).max(SMALLEST);
        }
        self.rates(view, entries);
    }

    /// Reports which share of the counts each atom is expected to have brought.
    pub(super) fn owe(&self, width: usize, entries: &[Entry], source: usize, sums: &mut Sums) {
        let n = self.columns.len();
        let mut all = 0.0;
        for &(k, w) in entries {
            let (phi, owed) = (&self.phi[k as usize * n..][..n], &mut sums.counts.0[k as usize * width..][..width]);
            for i in 0..n {
                let share = self.counts[i] * phi[i] * w / self.rate[i];
                owed[self.columns[i] as usize] += share;
                all += share;
            }
        }
        sums.background.0[source] += self.counts.iter().sum::<f64>() - all;
    }

    /// Moves weight from one atom to another that is like it, or exchanges one for the other.
    pub(super) fn pairs(&mut self, view: &View, shape: f64, ln_odds: &[f64], free: &[bool], rng: &mut Philox) -> Result<()> {
        let (n, k) = (self.columns.len(), view.count);
        if view.partners.is_empty() {
            return Ok(());
        }
        let prior = Gamma::new(shape, view.scales.weight[self.source])?;
        for _ in 0..PAIRS {
            let a = ((open01(rng) * k as f64) as usize).min(k - 1);
            let running = &view.partners[a * k..][..k];
            let point = open01(rng) * running[k - 1];
            let b = running.partition_point(|&r| r <= point).min(k - 1);
            let transfer = open01(rng) < 0.5;
            let (share, chance) = (open01(rng), open01(rng).ln());
            if a == b {
                continue;
            }
            let c = view.totals[b] / view.totals[a];
            let (za, zb, wa, wb) = (self.used[a], self.used[b], self.weight[a], self.weight[b]);
            // what a and b become, and the log of the Jacobian
            let (na, nb, ln_jacobian) = match (transfer, za, zb) {
                (true, true, true) if free[b] => (Some(wa + c * wb), None, -((wa + c * wb) / c).ln()),
                (true, true, false) if free[b] => (Some((1.0 - share) * wa), Some(share * wa / c), (wa / c).ln()),
                (false, true, false) if free[a] && free[b] => (None, Some(wa / c), -c.ln()),
                (false, false, true) if free[a] && free[b] => (Some(c * wb), None, c.ln()),
                _ => continue,
            };
            let worth = |atom: usize, w: Option<f64>| {
                w.map_or(0.0, |w| ln_odds[atom] + prior.ln_pdf(w) - self.weight_of_totals * view.totals[atom] * w)
            };
            let (da, db) = (na.unwrap_or(0.0) - if za { wa } else { 0.0 }, nb.unwrap_or(0.0) - if zb { wb } else { 0.0 });
            let background = view.scales.background[self.source];
            self.ratio.resize(n, f64::NAN);
            let (pa, pb) = (&self.phi[a * n..][..n], &self.phi[b * n..][..n]);
            for i in 0..n {
                self.ratio[i] = (self.rate[i] + pa[i] * da + pb[i] * db).max(background);
            }
            let (rate, next, tempered) = (&self.rate[..n], &self.ratio[..n], &self.tempered[..n]);
            let gain = gain(
                tempered,
                #[inline(always)]
                |i| ((next[i] - rate[i]) / rate[i]).clamp(-1.0 + 1e-15, 1e299),
                &mut self.terms,
            );
            let old = worth(a, za.then_some(wa)) + worth(b, zb.then_some(wb));
            if chance < ln_jacobian + worth(a, na) + worth(b, nb) - old + gain {
                (self.used[a], self.used[b]) = (na.is_some(), nb.is_some());
                (self.weight[a], self.weight[b]) = (na.unwrap_or(0.0), nb.unwrap_or(0.0));
                std::mem::swap(&mut self.rate, &mut self.ratio);
            }
        }
        Ok(())
    }

    /// Atoms in use, ascending.
    pub(super) fn list(&self, entries: &mut Vec<Entry>) {
        entries.clear();
        entries.extend((0..self.used.len()).filter(|&a| self.used[a]).map(|a| (a as u32, self.weight[a].max(SMALLEST))));
    }

    /// Divides the counts among the atoms in use and the background, and draws the weights given that.
    pub(super) fn finish(&mut self, view: &View, shape: f64, rng: &mut Philox, entries: &mut Vec<Entry>) -> Result<()> {
        self.list(entries);
        let (n, k) = (self.columns.len(), view.count);
        self.latent.clear();
        self.latent.resize(entries.len() * n, 0.0);
        self.from_background = 0.0;
        self.rates(view, entries);
        for i in 0..n {
            let column = &view.by_column[self.columns[i] as usize * k..][..k];
            let x = self.counts[i];
            if x <= 2.0 * (entries.len() + 1) as f64 {
                // one after the other
                for _ in 0..x as u64 {
                    let mut point = open01(rng) * self.rate[i];
                    let at = entries.iter().position(|&(a, w)| {
                        point -= column[a as usize] * w;
                        point < 0.0
                    });
                    match at {
                        Some(e) => self.latent[e * n + i] += 1.0,
                        None => self.from_background += 1.0,
                    }
                }
            } else {
                let (mut left, mut rest) = (x as u64, self.rate[i]);
                for (e, &(a, w)) in entries.iter().enumerate() {
                    let part = column[a as usize] * w;
                    let s = binomial(left, (part / rest).clamp(0.0, 1.0), rng)?;
                    self.latent[e * n + i] = s as f64;
                    left -= s;
                    rest = (rest - part).max(SMALLEST);
                }
                self.from_background += left as f64;
            }
        }
        for (e, (a, w)) in entries.iter_mut().enumerate() {
            let (shape, rate) = self.weight_given_counts(view, shape, Some(e), *a);
            *w = Gamma::new(shape, rate)?.sample(rng).max(SMALLEST);
            self.weight[*a as usize] = *w;
        }
        self.rates(view, entries);
        Ok(())
    }

    /// Shape and rate of the weight of entry number `place` given the latent counts; without a place, given that there are none.
    pub(super) fn weight_given_counts(&self, view: &View, shape: f64, place: Option<usize>, atom: u32) -> (f64, f64) {
        let n = self.columns.len();
        let s: f64 = place.map_or(0.0, |e| self.latent[e * n..][..n].iter().sum());
        (shape + s, view.scales.weight[self.source] + self.weight_of_totals * view.totals[atom as usize])
    }

    /// Adds the latent counts of the last `finish`.
    pub(super) fn report_counts(&self, width: usize, entries: &[Entry], source: usize, sums: &mut Sums) {
        let n = self.columns.len();
        for (e, &(a, _)) in entries.iter().enumerate() {
            let out = &mut sums.counts.0[a as usize * width..][..width];
            for (&m, &s) in self.columns.iter().zip(&self.latent[e * n..][..n]) {
                out[m as usize] += s;
            }
        }
        sums.background.0[source] += self.from_background;
    }

    /// Log probability of the row given the atoms it uses and their weights.
    pub(super) fn ln_row(&self, view: &View, width: usize) -> f64 {
        let seen: f64 = self.counts.iter().zip(&self.rate).map(|(&x, &r)| x * r.ln() - ln_gamma(x + 1.0)).sum();
        let all: f64 = (0..view.count).filter(|&a| self.used[a]).map(|a| view.totals[a] * self.weight[a]).sum();
        seen - all - width as f64 * view.scales.background[self.source]
    }

    /// The same without −Σ ln x!.
    pub(super) fn ln_rates(&self, view: &View, width: usize) -> f64 {
        let seen: f64 = self.counts.iter().zip(&self.rate).map(|(&x, &r)| x * r.ln()).sum();
        let all: f64 = (0..view.count).filter(|&a| self.used[a]).map(|a| view.totals[a] * self.weight[a]).sum();
        seen - all - width as f64 * view.scales.background[self.source]
    }

    /// The counts that the row owes to the one of these atoms that it uses, drawn anew.
    pub(super) fn contribution(&mut self, view: &View, entries: &[Entry], atoms: &[u32], rng: &mut Philox) -> Result<CountContribution> {
        let k = view.count;
        let Some(&(a, w)) = entries.iter().find(|e| atoms.contains(&e.0)) else {
            return Err(Error::Unfit("a row was asked about an atom that it does not use".into()));
        };
        let mut found = CountContribution { weight: w, counts: Vec::new() };
        for ((&m, &x), &r) in self.columns.iter().zip(&self.counts).zip(&self.rate) {
            let s = binomial(x as u64, (view.by_column[m as usize * k + a as usize] * w / r).clamp(0.0, 1.0), rng)?;
            if s > 0 {
                found.counts.push((m, s as f64));
            }
        }
        Ok(found)
    }
}

/// Ratios above a threshold and the counts that go with them. What is left out depends on the row without the atom alone.
fn pack<'a>(ratio: &[f64], counts: &[f64], least: f64, packed: &'a mut (Vec<f64>, Vec<f64>)) -> (&'a [f64], &'a [f64]) {
    let n = ratio.len();
    packed.0.resize(n, 0.0);
    packed.1.resize(n, 0.0);
    let (ratios, values) = (&mut packed.0[..n], &mut packed.1[..n]);
    let mut kept = 0;
    for (&r, &x) in ratio.iter().zip(counts) {
        ratios[kept] = r;
        values[kept] = x;
        kept += usize::from(r > least);
    }
    (&packed.0[..kept], &packed.1[..kept])
}

/// Σ x ln(1 + u): logarithms first, in vector instructions, and then their sum.
fn gain(counts: &[f64], u: impl Fn(usize) -> f64, terms: &mut Vec<f64>) -> f64 {
    let n = counts.len();
    terms.resize(n, 0.0);
    let terms = &mut terms[..n];
    wide(
        #[inline(always)]
        || {
            for i in 0..n {
                terms[i] = counts[i] * ln_1p(u(i));
            }
        },
    );
    let [sum] = sums(
        [terms],
        #[inline(always)]
        |[t]| [t],
    );
    sum
}

/// Σ x u / (1 + u w), and the same with the square of u / (1 + u w).
pub(super) fn slopes(counts: &[f64], ratio: &[f64], w: f64) -> (f64, f64) {
    let w = Eight::of(w);
    let [first, second] = sums(
        [ratio, counts],
        #[inline(always)]
        |[u, x]| {
            let scaled = u / (Eight::of(1.0) + u * w);
            let owed = x * scaled;
            [owed, owed * scaled]
        },
    );
    (first, second)
}

/// A gamma distribution close to Gamma(w; shape, rate) Π (1 + u w)^x exp(−total w).
pub(super) fn fit(ratio: &[f64], counts: &[f64], shape: f64, rate: f64, total: f64) -> Result<Gamma> {
    let lower = shape.max(1.0);
    let slope = rate + total;
    let (first, second) = slopes(counts, ratio, 0.0);
    if lower == 1.0 && first <= slope {
        // the mode is at 0
        return Ok(Gamma::new(1.0, (slope - first).max(second.sqrt()).min(slope).max(SMALLEST))?);
    }
    let all: f64 = counts.iter().sum();
    let mut w = (lower - 1.0 + all) / slope;
    let mut curvature = 0.0;
    for step in 0..=8 {
        let (first, second) = slopes(counts, ratio, w);
        let gradient = (lower - 1.0) / w - slope + first;
        curvature = (lower - 1.0) / (w * w) + second;
        let next = (w + gradient / curvature).max(w / 10.0);
        if step == 8 || !next.is_finite() || (next - w).abs() <= 1e-6 * w {
            break;
        }
        w = next;
    }
    let (a, b) = (1.0 + curvature * w * w, curvature * w);
    if !(a.is_finite() && b.is_finite() && b > 0.0) {
        return Ok(Gamma::new(lower, slope)?);
    }
    Ok(Gamma::new(a, b.min(slope))?)
}

/// A binomial draw.
pub(super) fn binomial<R: Rng + ?Sized>(n: u64, p: f64, rng: &mut R) -> Result<u64> {
    if n <= 8 {
        return Ok((0..n).filter(|_| open01(rng) < p).count() as u64);
    }
    let distribution = Binomial::new(n, p).map_err(|e| Error::Unfit(format!("a binomial draw of {n} at {p}: {e}")))?;
    Ok(distribution.sample(rng))
}
