//! Births and deaths of atoms that one row alone uses, the atom integrated out.

use rand_distr::Distribution;

use super::super::likelihood::{Attempts, Changes, Entry, Row, Tempering};
use super::{Counts, SMALLEST, Scales, Scratch, View, birth};
use crate::Result;
use crate::dist::Gamma;
use crate::run::{Philox, open01};

/// Cells of the grid on which weights of new atoms are proposed, evenly spaced in the logarithm.
const CELLS: usize = 22;
const CELL: f64 = 0.5;
/// How far below the prior mean the grid begins, in the logarithm.
const BELOW: f64 = 7.0;
/// Share of the grid in the proposal; the rest is the prior.
const GRID: f64 = 0.9;

/// The row without the atom in question.
pub(super) struct Site<'a> {
    pub(super) counts: &'a [f64],
    pub(super) rate: &'a [f64],
    pub(super) model: &'a Counts,
    pub(super) scales: &'a Scales,
}

impl Site<'_> {
    /// Log likelihood of the row with a new atom of this weight, over that without.
    pub(super) fn ln_gain(&self, w: f64) -> f64 {
        let (a, b) = (self.scales.shape, self.scales.atom);
        let p = w / (b + w);
        let seen: f64 = self.counts.iter().zip(self.rate).map(|(&x, &r)| birth::ln_sum(x, a, p / r)).sum();
        -(self.model.width as f64) * a * (w / b).ln_1p() + seen
    }
}

/// Weights of new atoms: uniform in the logarithm within cells that are as likely as their centres, and a share of the prior. It
/// depends on the row without the atom alone, so it is the same for a birth and the death that undoes it.
pub(super) struct Proposal {
    first: f64,
    cells: [f64; CELLS],
    prior: Gamma,
}

impl Proposal {
    /// For weights of this prior; `ln_gain` is the log likelihood of the row with a new atom of a weight, over that without.
    pub(super) fn new(prior: Gamma, ln_gain: impl Fn(f64) -> f64) -> Self {
        let first = prior.mean().ln() - BELOW;
        let mut cells = [0.0; CELLS];
        for (g, cell) in cells.iter_mut().enumerate() {
            let y = first + (g as f64 + 0.5) * CELL;
            *cell = prior.ln_pdf_of_ln(y) + ln_gain(y.exp());
        }
        let best = cells.iter().fold(f64::NEG_INFINITY, |m, &c| m.max(c));
        cells.iter_mut().for_each(|c| *c = (*c - best).exp());
        let total: f64 = cells.iter().sum();
        cells.iter_mut().for_each(|c| *c /= total);
        Self { first, cells, prior }
    }

    pub(super) fn draw(&self, rng: &mut Philox) -> f64 {
        if open01(rng) >= GRID {
            return self.prior.sample(rng).max(SMALLEST);
        }
        let mut point = open01(rng);
        let g = self.cells.iter().position(|c| {
            point -= c;
            point < 0.0
        });
        (self.first + (g.unwrap_or(CELLS - 1) as f64 + open01(rng)) * CELL).exp()
    }

    fn ln_pdf(&self, w: f64) -> f64 {
        let g = ((w.ln() - self.first) / CELL).floor();
        let cell = if g >= 0.0 && g < CELLS as f64 { self.cells[g as usize] } else { 0.0 };
        (GRID * cell / (CELL * w) + (1.0 - GRID) * self.prior.ln_pdf(w).exp()).ln()
    }

    /// Log acceptance ratio of the birth of an atom of this weight, after which there are so many; with the other sign that of the death that undoes it.
    pub(super) fn ln_birth(&self, w: f64, ln_rate: f64, ln_gain: f64, atoms: usize) -> f64 {
        ln_rate + self.prior.ln_pdf(w) + ln_gain - self.ln_pdf(w) - (atoms as f64).ln()
    }
}

/// An atom of the row alone: one that was there, or one that was born in this visit.
struct Private {
    place: Option<u32>,
    weight: f64,
    /// φ at the columns that are not zero.
    seen: Vec<f64>,
    /// All of φ, of an atom that was born here.
    phi: Vec<f64>,
}

#[allow(clippy::too_many_arguments)] // the row and all it may look at
pub(super) fn moves(
    model: &Counts,
    view: &View,
    row: Row<'_>,
    entries: &[Entry],
    private: &[bool],
    attempts: Attempts,
    scratch: &mut Scratch,
    rng: &mut Philox,
) -> Result<Changes> {
    scratch.begin(view, row, entries, Tempering::NONE, false);
    let (columns, counts, rate) = scratch.seen();
    let weight_rate = view.scales.weight[row.source];
    let background = view.scales.background[row.source];
    let prior = Gamma::new(model.weight_shape, weight_rate)?;
    let mut rate = rate.to_vec();
    let mut own: Vec<Private> = entries
        .iter()
        .filter(|(k, _)| private[*k as usize])
        .map(|&(k, weight)| {
            let seen = columns.iter().map(|&m| view.by_column[m as usize * view.count + k as usize]).collect();
            Private { place: Some(k), weight, seen, phi: Vec::new() }
        })
        .collect();
    let mut died = Vec::new();
    let mut terms = Vec::new();
    for _ in 0..attempts.count {
        let birth = open01(rng) < 0.5;
        let (pick, chance) = (open01(rng), open01(rng).ln());
        if birth {
            if !attempts.room {
                continue;
            }
            let site = Site { counts, rate: &rate, model, scales: &view.scales };
            let proposal = Proposal::new(prior, |w| site.ln_gain(w));
            let w = proposal.draw(rng);
            if chance < proposal.ln_birth(w, attempts.ln_rate, site.ln_gain(w), own.len() + 1) {
                let (a, b) = (view.scales.shape, view.scales.atom);
                let q = w / (b + w);
                let mut shapes = vec![a; model.width];
                for ((&m, &x), &r) in columns.iter().zip(counts).zip(&rate) {
                    shapes[m as usize] += birth::draw(x, a, q / r, &mut terms, rng);
                }
                let mut phi = Vec::with_capacity(model.width);
                for shape in shapes {
                    phi.push(Gamma::new(shape, b + w)?.sample(rng).max(SMALLEST));
                }
                let seen: Vec<f64> = columns.iter().map(|&m| phi[m as usize]).collect();
                rate.iter_mut().zip(&seen).for_each(|(r, v)| *r += v * w);
                own.push(Private { place: None, weight: w, seen, phi });
            }
        } else if !own.is_empty() {
            let at = ((pick * own.len() as f64) as usize).min(own.len() - 1);
            let (w, seen) = (own[at].weight, &own[at].seen);
            let without: Vec<f64> = rate.iter().zip(seen).map(|(r, v)| (r - v * w).max(background)).collect();
            let site = Site { counts, rate: &without, model, scales: &view.scales };
            let proposal = Proposal::new(prior, |w| site.ln_gain(w));
            if chance < -proposal.ln_birth(w, attempts.ln_rate, site.ln_gain(w), own.len()) {
                died.extend(own.remove(at).place);
                rate = without;
            }
        }
    }
    let born = own.into_iter().filter(|p| p.place.is_none()).map(|p| (p.weight, p.phi)).collect();
    Ok(Changes { born, died, redrawn: Vec::new() })
}
