//! The Gaussian likelihood: x ~ N(Σ_k φ_k w_k, 1/t_n) column by column, with φ ~ N(0, 1/t_φ) and w ~ N(0, 1/t_w).
//!
//! Everything is on the scale of centred and scaled columns ([`Centre`]): atoms, noise, what stands in for missing entries, and log
//! densities, which are therefore those of x̃; per row and column, those of raw entries are less by the logarithm of the scale.
//!
//! | file | what it is |
//! |---|---|
//! | `centre.rs` | from raw entries to those that are modelled |
//! | `row.rs` | the atoms a row uses, weights integrated out |
//! | `scan.rs` | the scan of a row, and what it reports |
//! | `private.rs` | births and deaths of atoms that one row alone uses |
//! | `side.rs` | rows of one side of a split or merge, φ integrated out |
//! | `place.rs` | new rows, whose missing entries are integrated out too |
//! | `learn.rs` | atoms and precisions given what the rows reported |

pub(super) mod centre;
pub(super) mod learn;
pub(super) mod place;
pub(super) mod private;
pub(super) mod row;
pub(super) mod scan;
pub(super) mod side;
#[cfg(test)]
mod tests;

pub(super) use centre::Centre;
pub(super) use place::Placing;
pub(super) use scan::{Scratch, Sums};
pub(super) use side::{GaussianContribution, GaussianSide};

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::likelihood::{Attempts, Changes, Entry, Likelihood, Row, Scale, Tempering};
use crate::data::X;
use crate::dist::Gamma;
use crate::linalg::{dot, mul_t};
use crate::run::{Block, Philox};
use crate::{Error, Result};

/// The Gaussian likelihood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gaussian {
    /// From raw entries to those that are modelled.
    pub centre: Centre,
    /// Prior of the precisions.
    pub hyper: Hyper,
}

/// Prior of the precisions: each is Gamma(shape, rate).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hyper {
    /// Shape.
    pub shape: f64,
    /// Rate.
    pub rate: f64,
    /// Precisions that are given and stay as they are.
    pub fixed: Option<Scales>,
}

/// Precisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scales {
    /// Of the entries of atoms: t_φ.
    pub atom: f64,
    /// Of the weights in each source: t_w.
    pub weight: Vec<f64>,
    /// Of the noise in each source: t_n.
    pub noise: Vec<f64>,
}

/// Atoms and precisions as rows need them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Atoms, one a row.
    pub phi: Vec<f64>,
    /// Their inner products, one atom a row.
    pub gram: Vec<f64>,
    /// How many they are.
    pub count: usize,
    /// The precisions.
    pub scales: Scales,
}

impl View {
    /// φ of an atom.
    pub fn atom(&self, k: u32) -> &[f64] {
        let width = self.phi.len() / self.count.max(1);
        &self.phi[k as usize * width..][..width]
    }
}

/// What a draw that is not a number means.
fn broken(what: &'static str) -> Error {
    Error::Numerical { what, sweep: 0, detail: "a value is not finite; look for columns of very different scale, or for outliers".into() }
}

/// `out` filled with draws from N(0, spread²).
fn normals<R: Rng + ?Sized>(out: &mut [f64], spread: f64, rng: &mut R) {
    for o in out {
        let z: f64 = StandardNormal.sample(rng);
        *o = spread * z;
    }
}

impl Likelihood for Gaussian {
    const NAME: &'static str = "factors/gaussian";
    const RELEASES: &'static [&'static str] = &["0.1"];
    const SCANS: usize = 3;
    const SCALES: &'static [Scale] = &[
        Scale { name: "atom_precision", array: "atom_precision_draws", by_source: false },
        Scale { name: "weight_precision", array: "weight_precision_draws", by_source: true },
        Scale { name: "noise_precision", array: "noise_precision_draws", by_source: true },
    ];
    type Scales = Scales;
    type View = View;
    type Scratch = Scratch;
    type Placing = Placing;
    type Sums = Sums;
    type Contribution = GaussianContribution;
    type Side = GaussianSide;

    fn width(&self) -> usize {
        self.centre.columns
    }

    fn scale_values(scales: &Scales) -> Vec<Vec<f64>> {
        vec![vec![scales.atom], scales.weight.clone(), scales.noise.clone()]
    }

    fn scales_of(values: &[Vec<f64>]) -> Scales {
        Scales { atom: values[0][0], weight: values[1].clone(), noise: values[2].clone() }
    }

    fn prior_scales(&self, rng: &mut Philox) -> Result<Scales> {
        if let Some(fixed) = &self.hyper.fixed {
            return Ok(fixed.clone());
        }
        let distribution = Gamma::new(self.hyper.shape, self.hyper.rate)?;
        let mut many = |n: usize| (0..n).map(|_| distribution.sample(rng).max(f64::MIN_POSITIVE)).collect::<Vec<f64>>();
        let sources = self.centre.sources();
        Ok(Scales { atom: many(1)[0], weight: many(sources), noise: many(sources) })
    }

    fn draw_row(&self, scales: &Scales, source: usize, mix: &[f64], rng: &mut Philox) -> Result<Vec<f64>> {
        let mut x = vec![0.0; mix.len()];
        normals(&mut x, 1.0 / scales.noise[source].sqrt(), rng);
        x.iter_mut().zip(mix).for_each(|(x, m)| *x += m);
        Ok(x)
    }

    fn ln_density(&self, scales: &Scales, source: usize, mix: &[f64], x: &[f64]) -> f64 {
        let noise = scales.noise[source];
        mix.iter().zip(x).map(|(m, x)| 0.5 * ((noise / std::f64::consts::TAU).ln() - noise * (x - m) * (x - m))).sum()
    }

    fn start(&self) -> Scales {
        let ones = vec![1.0; self.centre.sources()];
        self.hyper.fixed.clone().unwrap_or(Scales { atom: 1.0, weight: ones.clone(), noise: ones })
    }

    fn with_unseen_source(&self, scales: &Scales) -> Scales {
        let mut wider = scales.clone();
        for precisions in [&mut wider.weight, &mut wider.noise] {
            let average = if precisions.is_empty() { 1.0 } else { precisions.iter().sum::<f64>() / precisions.len() as f64 };
            precisions.push(average);
        }
        wider
    }

    fn view(&self, phi: &[f64], count: usize, scales: &Scales) -> View {
        let mut gram = vec![0.0; count * count];
        if count > 0 {
            mul_t(phi, phi, &mut gram, count, self.centre.columns, count, false);
        }
        View { phi: phi.to_vec(), gram, count, scales: scales.clone() }
    }

    fn prior_atom(&self, scales: &Scales, rng: &mut Philox) -> Result<Vec<f64>> {
        let mut phi = vec![0.0; self.centre.columns];
        normals(&mut phi, 1.0 / scales.atom.sqrt(), rng);
        Ok(phi)
    }

    fn prior_weight(&self, scales: &Scales, source: usize, rng: &mut Philox) -> Result<f64> {
        let z: f64 = StandardNormal.sample(rng);
        Ok(z / scales.weight[source].sqrt())
    }

    /// The mean of the column, which is 0 here.
    fn fill(&self, block: &Block<'_>) -> Vec<f64> {
        let mut missing = 0;
        for at in 0..block.rows() {
            self.centre.for_missing(block.x, at, |_, _| missing += 1);
        }
        vec![0.0; missing]
    }

    fn prepare(&self, view: &View, x: X<'_>, sources: &[u32], filled: &[f64], scratch: &mut Scratch) {
        self.prepare_block(view, x, sources, filled, scratch);
    }

    fn begin(&self, view: &View, row: Row<'_>, entries: &[Entry], tempering: Tempering, scratch: &mut Scratch) {
        scratch.take(view, row.at, row.source, entries, tempering.power);
    }

    fn update(&self, view: &View, atom: usize, ln_odds: f64, scratch: &mut Scratch, rng: &mut Philox) -> Result<bool> {
        scratch.flip(view, atom, ln_odds, rng)
    }

    /// Nothing: weights are drawn when the scan ends.
    fn refresh(&self, _: &View, _: usize, _: &mut Scratch, _: &mut Philox) -> Result<()> {
        Ok(())
    }

    fn finish(&self, view: &View, scratch: &mut Scratch, rng: &mut Philox, entries: &mut Vec<Entry>) -> Result<()> {
        scratch.draw_weights(view, rng, entries)
    }

    fn report(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        filled: &mut [f64],
        scratch: &mut Scratch,
        rng: &mut Philox,
        sums: &mut Sums,
    ) -> Result<()> {
        self.report_row(view, row, entries, filled, scratch, rng, sums);
        Ok(())
    }

    /// Weights are integrated out; missing entries count as what stands in for them.
    fn ln_row(&self, view: &View, scratch: &Scratch) -> f64 {
        scratch.ln_row(view, self.centre.columns)
    }

    fn products(&self, view: &View, x: X<'_>, sources: &[u32]) -> Vec<f64> {
        self.panel_products(view, x, sources)
    }

    fn meet(&self, view: &View, row: Row<'_>, products: &[f64], entries: &[Entry], _: f64, placing: &mut Placing) {
        placing.meet(self, view, row, products, entries);
    }

    fn ask(&self, view: &View, atoms: &[u32], ln_odds: &[f64], placing: &mut Placing, rng: &mut Philox) -> Result<()> {
        placing.ask(view, atoms, ln_odds, rng)
    }

    fn met(&self, placing: &Placing, entries: &mut Vec<Entry>) {
        placing.list(entries);
    }

    fn add_expected(&self, _: &View, ln_odds: &[f64], placing: &Placing, out: &mut [f64]) {
        placing.add_expected(ln_odds, out);
    }

    fn observed(&self, view: &View, row: Row<'_>) -> Option<(Self, View, Vec<f64>)> {
        let (width, mut missing) = (self.centre.columns, 0);
        self.centre.for_missing(row.x, row.at, |_, _| missing += 1);
        if missing == 0 {
            return None;
        }
        let mut x = vec![0.0; width];
        row.x.for_row(row.at, |m, value| x[m] = value);
        let kept: Vec<usize> = (0..width).filter(|&m| !x[m].is_nan()).collect();
        let pick = |values: &[f64]| values.chunks_exact(width).flat_map(|part| kept.iter().map(|&m| part[m])).collect::<Vec<f64>>();
        let centre = Centre { columns: kept.len(), means: pick(&self.centre.means), scale: self.centre.scale, missing: false };
        let own = Self { centre, hyper: self.hyper.clone() };
        let view = own.view(&pick(&view.phi), view.count, &view.scales);
        Some((own, view, pick(&x)))
    }

    /// Weights are integrated out here, so they are not told.
    fn list(&self, scratch: &Scratch, entries: &mut Vec<Entry>) {
        scratch.in_use(entries);
    }

    fn expected(&self, view: &View, _: usize, entries: &[Entry], out: &mut [f64]) {
        out.fill(0.0);
        for &(k, w) in entries {
            out.iter_mut().zip(view.atom(k)).for_each(|(o, p)| *o += w * p);
        }
    }

    fn size(&self, phi: &[f64]) -> f64 {
        dot(phi, phi).sqrt()
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
        self.births_and_deaths(view, row, entries, private, attempts, scratch, rng)
    }

    fn contribution(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        atoms: &[u32],
        scratch: &mut Scratch,
        _: &mut Philox,
    ) -> Result<GaussianContribution> {
        self.residual(view, row, entries, |k| !atoms.contains(&k), scratch);
        let weight = entries.iter().filter(|(k, _)| atoms.contains(k)).map(|e| e.1).sum();
        Ok(GaussianContribution { weight, residual: scratch.residual.clone(), source: row.source as u32 })
    }

    fn side(&self, scales: &Scales) -> GaussianSide {
        GaussianSide::new(scales, self.centre.columns)
    }

    fn keep(&self, sums: &mut Sums, kept: &[usize], count: usize) {
        sums.keep(kept, count, self.centre.columns);
    }

    fn ln_likelihood(&self, scales: &Scales, sums: &Sums, _: &[u64]) -> f64 {
        sums.ln_likelihood(scales)
    }

    fn ln_prior(&self, phi: &[f64], scales: &Scales, sums: &Sums, uses: &[u64]) -> f64 {
        self.ln_prior_of(phi, scales, sums, uses)
    }

    /// Sum of squares that each atom explains alone.
    fn carried(&self, phi: &[f64], sums: &Sums, sources: usize) -> Vec<f64> {
        let squares: Vec<f64> = phi.chunks_exact(self.centre.columns).map(|a| dot(a, a)).collect();
        let count = squares.len();
        (0..sources * count).map(|at| sums.weight_squares.0.get(at).map_or(0.0, |w| w * squares[at % count])).collect()
    }

    fn learn(&self, phi: &mut [f64], scales: &mut Scales, sums: &Sums, uses: &[u64], rows: &[u64], rng: &mut Philox) -> Result<Vec<f64>> {
        self.learn_all(phi, scales, sums, uses, rows, rng)
    }
}
