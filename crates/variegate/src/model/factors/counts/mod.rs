//! The Poisson likelihood: x_m ~ Poisson(λ_j + Σ φ_km w_k), atoms and weights from gamma distributions. Work is proportional to the entries
//! that are not zero.
//!
//! `row.rs` holds a row and its moves of single atoms and of pairs, `private.rs` births and deaths, `birth.rs` the likelihood of a new
//! atom with φ integrated out, `side.rs` splits and merges, `learn.rs` what is drawn given all rows, `shape.rs` the shape of
//! atoms among it, `seed.rs` atoms to begin with, `place.rs` new rows, `own.rs` atoms that
//! they alone use.

mod birth;
mod learn;
mod own;
mod pieces;
mod place;
mod private;
mod row;
mod seed;
mod shape;
mod side;

#[cfg(test)]
mod tests;

pub(super) use place::{Placing, by_count};
pub(super) use row::Scratch;
pub(super) use side::{CountContribution, CountSide};

use rand_distr::{Distribution, Poisson};
use serde::{Deserialize, Serialize};

use self::pieces::{change_pieces, map_pieces};
use super::likelihood::{Attempts, Changes, Entry, Likelihood, Own, Row, Scale, Tempering};
use crate::data::X;
use crate::dist::Gamma;
use crate::linalg::gram_of;
use crate::run::{Block, Philox, Sum};
use crate::special::ln_gamma;
use crate::{Error, Result, merge_fields};

/// Nothing that must be positive falls below this.
const SMALLEST: f64 = 1e-300;

/// Counts of `width` columns under gamma distributions.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Number of columns.
    pub width: usize,
    /// Number of sources.
    pub sources: usize,
    /// Shape of each entry of an atom, or what a fit that learns it begins with.
    pub atom_shape: f64,
    /// Shape and rate of the distribution of that shape; none where it is known.
    pub shape_prior: Option<(f64, f64)>,
    /// Shape of each weight.
    pub weight_shape: f64,
    /// Shape and rate of the distribution of the rates of atoms and weights.
    pub rate_prior: (f64, f64),
    /// Shape and rate of the distribution of background rates.
    pub background_prior: (f64, f64),
    /// Background rate to start with.
    pub background_start: f64,
    /// The atom that a fit begins with.
    pub first_atom: Option<Vec<f64>>,
    /// The scales are known and stay as they are.
    pub fixed: Option<Scales>,
}

/// Shape and rate of atoms, rates of weights, and background rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scales {
    /// Shape of the entries of atoms.
    pub shape: f64,
    /// Their rate.
    pub atom: f64,
    /// Rate of the weights of each source.
    pub weight: Vec<f64>,
    /// Background rate of each source.
    pub background: Vec<f64>,
}

/// Atoms as rows see them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Number of atoms.
    pub count: usize,
    /// Entries of all atoms for each column, one column after the other.
    pub by_column: Vec<f64>,
    /// Sum of the entries of each atom.
    pub totals: Vec<f64>,
    /// Running sums of how likely atom b is to be paired with atom a, one a after the other; empty where no pairs are moved.
    pub partners: Vec<f64>,
    /// The scales.
    pub scales: Scales,
}

/// What rows report of a scan.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// Latent counts of each atom and column.
    pub counts: Sum<Vec<f64>>,
    /// Latent counts of the background of each source.
    pub background: Sum<Vec<f64>>,
    /// Sum of weights of each source and atom.
    pub weights: Sum<Vec<f64>>,
    /// Sum of the logarithms of weights of each source.
    pub ln_weights: Sum<Vec<f64>>,
    /// Log likelihood.
    pub ln_likelihood: Sum<f64>,
}
merge_fields!(Sums, counts, background, weights, ln_weights, ln_likelihood);

/// Columns of atoms that a thread turns over, or multiplies, at a time.
const TURNED: usize = 64;
const MULTIPLIED: usize = 2048;
/// How likely any two atoms are to be paired, beside how much they are alike.
const PARTNER_FLOOR: f64 = 0.02;

impl Likelihood for Counts {
    const NAME: &'static str = "factors/poisson";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Scales = Scales;
    type View = View;
    type Scratch = Scratch;
    type Placing = Placing;
    type Sums = Sums;
    type Contribution = CountContribution;
    type Side = CountSide;

    const SCANS: usize = 5;
    const OWN: bool = true;
    const SCALES: &'static [Scale] = &[
        Scale { name: "atom_shape", array: "atom_shape_draws", by_source: false },
        Scale { name: "atom_rate", array: "atom_rate_draws", by_source: false },
        Scale { name: "weight_rate", array: "weight_rate_draws", by_source: true },
        Scale { name: "background", array: "background_draws", by_source: true },
    ];

    fn width(&self) -> usize {
        self.width
    }

    fn scale_values(scales: &Scales) -> Vec<Vec<f64>> {
        vec![vec![scales.shape], vec![scales.atom], scales.weight.clone(), scales.background.clone()]
    }

    fn scales_of(values: &[Vec<f64>]) -> Scales {
        Scales { shape: values[0][0], atom: values[1][0], weight: values[2].clone(), background: values[3].clone() }
    }

    fn prior_scales(&self, rng: &mut Philox) -> Result<Scales> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let rates = Gamma::new(self.rate_prior.0, self.rate_prior.1)?;
        let background = Gamma::new(self.background_prior.0, self.background_prior.1)?;
        let mut many = |distribution: Gamma, n: usize| (0..n).map(|_| distribution.sample(rng).max(SMALLEST)).collect::<Vec<f64>>();
        let shape = match self.shape_prior {
            Some((shape, rate)) => many(Gamma::new(shape, rate)?, 1)[0],
            None => self.atom_shape,
        };
        Ok(Scales { shape, atom: many(rates, 1)[0], weight: many(rates, self.sources), background: many(background, self.sources) })
    }

    fn draw_row(&self, scales: &Scales, source: usize, mix: &[f64], rng: &mut Philox) -> Result<Vec<f64>> {
        let draw = |&m: &f64| {
            let rate = scales.background[source] + m;
            Poisson::new(rate)
                .map(|distribution| distribution.sample(rng))
                .map_err(|e| Error::Unfit(format!("a Poisson rate of {rate}: {e}")))
        };
        mix.iter().map(draw).collect()
    }

    fn ln_density(&self, scales: &Scales, source: usize, mix: &[f64], x: &[f64]) -> f64 {
        mix.iter().zip(x).map(|(m, x)| (m + scales.background[source], x)).map(|(r, x)| x * r.ln() - r - ln_gamma(x + 1.0)).sum()
    }

    fn start(&self) -> Scales {
        self.fixed.clone().unwrap_or_else(|| Scales {
            shape: self.atom_shape,
            atom: 1.0,
            weight: vec![1.0; self.sources],
            background: vec![self.background_start; self.sources],
        })
    }

    fn with_unseen_source(&self, scales: &Scales) -> Scales {
        let with_mean = |v: &[f64]| {
            let mean = v.iter().sum::<f64>() / v.len().max(1) as f64;
            v.iter().copied().chain([mean]).collect()
        };
        Scales { shape: scales.shape, atom: scales.atom, weight: with_mean(&scales.weight), background: with_mean(&scales.background) }
    }

    fn view(&self, phi: &[f64], count: usize, scales: &Scales) -> View {
        let width = self.width;
        let mut by_column = vec![0.0; width * count];
        change_pieces(&mut by_column, (TURNED * count).max(1), |at, columns| {
            for (k, atom) in phi.chunks_exact(width).enumerate() {
                for (column, &v) in columns.chunks_exact_mut(count).zip(&atom[at * TURNED..]) {
                    column[k] = v;
                }
            }
        });
        let totals = phi.chunks_exact(width).map(|atom| atom.iter().sum()).collect();
        View { count, by_column, totals, partners: Vec::new(), scales: scales.clone() }
    }

    /// Adds how much atoms are alike.
    fn scan_view(&self, phi: &[f64], count: usize, scales: &Scales) -> View {
        let mut view = self.view(phi, count, scales);
        if count > 1 {
            // of a fixed number of columns each, added in their order: the same numbers on any number of threads
            let parts = map_pieces(&view.by_column, MULTIPLIED * count, |columns| {
                let mut part = vec![0.0; count * count];
                gram_of(columns, columns, &mut part, columns.len() / count, count);
                part
            });
            let mut gram = vec![0.0; count * count];
            for part in parts {
                gram.iter_mut().zip(part).for_each(|(g, p)| *g += p);
            }
            view.partners = vec![0.0; count * count];
            for a in 0..count {
                let mut running = 0.0;
                for b in 0..count {
                    if a != b {
                        let (g, low, high) = (gram[a.max(b) * count + a.min(b)], gram[a * count + a], gram[b * count + b]);
                        let alike = g * g / (low * high);
                        running += PARTNER_FLOOR + if alike.is_finite() { alike } else { 0.0 };
                    }
                    view.partners[a * count + b] = running;
                }
            }
        }
        view
    }

    fn first_atom(&self) -> Option<Vec<f64>> {
        self.first_atom.clone()
    }

    fn seed(&self, row: Row<'_>) -> Option<Vec<f64>> {
        seed::of_row(self.width, self.first_atom.as_deref()?, row)
    }

    fn climb(&self, view: &View, row: Row<'_>, last: bool, entries: &mut Vec<Entry>, scratch: &mut Scratch, sums: &mut Sums) {
        self.make_room(view, sums);
        seed::climb(view, self.width, row, last, entries, scratch, sums);
    }

    fn settle(&self, phi: &mut [f64], sums: &Sums) {
        seed::settle(self.width, phi, sums);
    }

    fn prior_atom(&self, scales: &Scales, rng: &mut Philox) -> Result<Vec<f64>> {
        let distribution = Gamma::new(scales.shape, scales.atom)?;
        Ok((0..self.width).map(|_| distribution.sample(rng).max(SMALLEST)).collect())
    }

    fn prior_weight(&self, scales: &Scales, source: usize, rng: &mut Philox) -> Result<f64> {
        Ok(Gamma::new(self.weight_shape, scales.weight[source])?.sample(rng).max(SMALLEST))
    }

    fn fill(&self, _: &Block<'_>) -> Vec<f64> {
        Vec::new()
    }

    fn prepare(&self, _: &View, _: X<'_>, _: &[u32], _: &[f64], _: &mut Scratch) {}

    fn begin(&self, view: &View, row: Row<'_>, entries: &[Entry], tempering: Tempering, scratch: &mut Scratch) {
        scratch.begin(view, row, entries, tempering, true);
    }

    fn update(&self, view: &View, atom: usize, ln_odds: f64, scratch: &mut Scratch, rng: &mut Philox) -> Result<bool> {
        scratch.update(view, self.own_weights(view, scratch), atom, Some(ln_odds), rng)
    }

    fn refresh(&self, view: &View, atom: usize, scratch: &mut Scratch, rng: &mut Philox) -> Result<()> {
        scratch.update(view, self.own_weights(view, scratch), atom, None, rng).map(|_| ())
    }

    fn pairs(&self, view: &View, ln_odds: &[f64], free: &[bool], scratch: &mut Scratch, rng: &mut Philox) -> Result<()> {
        scratch.pairs(view, self.weight_shape, ln_odds, free, rng)
    }

    fn finish(&self, view: &View, scratch: &mut Scratch, rng: &mut Philox, entries: &mut Vec<Entry>) -> Result<()> {
        scratch.finish(view, self.weight_shape, rng, entries)
    }

    fn report(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        _: &mut [f64],
        scratch: &mut Scratch,
        _: &mut Philox,
        sums: &mut Sums,
    ) -> Result<()> {
        self.make_room(view, sums);
        scratch.report_counts(self.width, entries, row.source, sums);
        for &(k, w) in entries {
            sums.weights.0[row.source * view.count + k as usize] += w;
            sums.ln_weights.0[row.source] += w.ln();
        }
        sums.ln_likelihood.0 += scratch.ln_row(view, self.width);
        Ok(())
    }

    fn ln_row(&self, view: &View, scratch: &Scratch) -> f64 {
        scratch.ln_rates(view, self.width)
    }

    /// −Σ ln x!
    fn ln_constant(&self, row: Row<'_>) -> f64 {
        let mut sum = 0.0;
        row.x.for_row(row.at, |_, x| sum -= ln_gamma(x + 1.0));
        sum
    }

    fn begin_again(&self, view: &View, row: Row<'_>, entries: &[Entry], power: f64, scratch: &mut Scratch) {
        scratch.begin(view, row, entries, Tempering { power, exposure: 1.0 }, false);
    }

    fn products(&self, _: &View, _: X<'_>, _: &[u32]) -> Vec<f64> {
        Vec::new()
    }

    fn meet(&self, view: &View, row: Row<'_>, _: &[f64], entries: &[Entry], exposure: f64, placing: &mut Placing) {
        placing.meet(view, row, entries, exposure);
    }

    fn take_own(&self, placing: &mut Placing, own: &mut Vec<Own>) {
        placing.take_own(own);
    }

    fn leave_own(&self, placing: &mut Placing, own: &mut Vec<Own>) {
        std::mem::swap(&mut placing.own, own);
    }

    fn own_moves(&self, view: &View, ln_rate: f64, placing: &mut Placing, rng: &mut Philox) -> Result<()> {
        placing.own_moves(self, view, ln_rate, rng)
    }

    fn ask(&self, view: &View, atoms: &[u32], ln_odds: &[f64], placing: &mut Placing, rng: &mut Philox) -> Result<()> {
        atoms.iter().try_for_each(|&k| placing.ask(view, self.weight_shape, k as usize, ln_odds[k as usize], rng))
    }

    fn met(&self, placing: &Placing, entries: &mut Vec<Entry>) {
        placing.list(entries);
    }

    fn add_expected(&self, view: &View, _: &[f64], placing: &Placing, out: &mut [f64]) {
        placing.add_expected(view, self.weight_shape, out);
    }

    fn weight_prior(&self, scales: &Scales, source: usize) -> Option<(f64, f64)> {
        Some((self.weight_shape, scales.weight[source]))
    }

    fn update_under(
        &self,
        view: &View,
        atom: usize,
        ln_odds: f64,
        weight: (f64, f64),
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<bool> {
        scratch.update(view, weight, atom, Some(ln_odds), rng)
    }

    fn weight_given_counts(&self, view: &View, scratch: &Scratch, place: Option<usize>, atom: u32) -> Option<(f64, f64)> {
        Some(scratch.weight_given_counts(view, self.weight_shape, place, atom))
    }

    fn list(&self, scratch: &Scratch, entries: &mut Vec<Entry>) {
        scratch.list(entries);
    }

    fn expected(&self, view: &View, source: usize, entries: &[Entry], out: &mut [f64]) {
        let background = view.scales.background[source];
        for (out, column) in out.iter_mut().zip(view.by_column.chunks_exact(view.count.max(1))) {
            *out = rate_at(column, background, entries);
        }
        if view.count == 0 {
            out.fill(background);
        }
    }

    fn size(&self, phi: &[f64]) -> f64 {
        phi.iter().sum()
    }

    fn private_moves(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        private: &[bool],
        attempts: Attempts,
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<Changes> {
        private::moves(self, view, row, entries, private, attempts, scratch, rng)
    }

    fn contribution(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        atoms: &[u32],
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<CountContribution> {
        scratch.begin(view, row, entries, Tempering::NONE, false);
        scratch.contribution(view, entries, atoms, rng)
    }

    fn side(&self, scales: &Scales) -> CountSide {
        CountSide::new(scales.shape, scales.atom, self.width)
    }

    fn keep(&self, sums: &mut Sums, kept: &[usize], count: usize) {
        let width = self.width;
        sums.counts.0 = kept.iter().flat_map(|&k| &sums.counts.0[k * width..][..width]).copied().collect();
        sums.weights.0 = sums.weights.0.chunks(count.max(1)).flat_map(|row| kept.iter().map(|&k| row[k])).collect();
    }

    fn ln_likelihood(&self, _: &Scales, sums: &Sums, _: &[u64]) -> f64 {
        sums.ln_likelihood.0
    }

    fn ln_prior(&self, phi: &[f64], scales: &Scales, sums: &Sums, uses: &[u64]) -> f64 {
        learn::ln_prior(self, phi, scales, sums, uses)
    }

    fn carried(&self, phi: &[f64], sums: &Sums, sources: usize) -> Vec<f64> {
        let totals: Vec<f64> = phi.chunks_exact(self.width).map(|atom| atom.iter().sum()).collect();
        let count = totals.len();
        (0..sources * count).map(|at| sums.weights.0.get(at).map_or(0.0, |w| w * totals[at % count])).collect()
    }

    fn learn_shape(&self, scales: &mut Scales, sums: &Sums, count: usize, rng: &mut Philox) -> Result<()> {
        match (&self.fixed, self.shape_prior) {
            (None, Some(prior)) => shape::draw(self, prior, scales, sums, count, rng),
            _ => Ok(()),
        }
    }

    fn learn(&self, phi: &mut [f64], scales: &mut Scales, sums: &Sums, uses: &[u64], rows: &[u64], rng: &mut Philox) -> Result<Vec<f64>> {
        learn::learn(self, phi, scales, sums, uses, rows, rng)
    }
}

impl Counts {
    /// Sums begin with as many zeros as they have numbers.
    fn make_room(&self, view: &View, sums: &mut Sums) {
        if sums.background.0.is_empty() {
            let sources = view.scales.weight.len();
            sums.counts.0 = vec![0.0; view.count * self.width];
            sums.background.0 = vec![0.0; sources];
            sums.weights.0 = vec![0.0; sources * view.count];
            sums.ln_weights.0 = vec![0.0; sources];
        }
    }

    /// Shape and rate of the weights of the row that is worked on.
    fn own_weights(&self, view: &View, scratch: &Scratch) -> (f64, f64) {
        (self.weight_shape, view.scales.weight[scratch.source()])
    }

    /// Small and plain, for tests to change.
    #[cfg(test)]
    pub(crate) fn of_three_columns() -> Self {
        Self {
            width: 3,
            sources: 1,
            atom_shape: 1.0,
            shape_prior: None,
            weight_shape: 1.0,
            rate_prior: (1.0, 1.0),
            background_prior: (1.0, 1.0),
            background_start: 0.2,
            first_atom: None,
            fixed: None,
        }
    }
}

/// λ_j + Σ φ w at one column.
fn rate_at(column: &[f64], background: f64, entries: &[Entry]) -> f64 {
    background + entries.iter().map(|&(k, w)| column[k as usize] * w).sum::<f64>()
}
