//! Births and deaths of atoms that one row alone uses.
//!
//! Only this row tells anything of them, so φ of all of them is integrated out at once: with e what the other atoms leave of the row,
//! e ~ N(0, v I) with v = 1/t_n + Σ w²/t_φ. A birth draws w from its prior; afterwards all φ are drawn from their joint conditional.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::{Gaussian, Scratch, View, broken, normals};
use crate::Result;
use crate::linalg::dot;
use crate::model::factors::likelihood::{Attempts, Changes, Entry, Row};
use crate::run::open01;

/// A private atom: its place if it was there before, and its weight.
type Private = (Option<u32>, f64);

/// ln N(e; 0, v' I) − ln N(e; 0, v I).
fn ln_ratio(columns: usize, square: f64, v: f64, wider: f64) -> f64 {
    0.5 * (columns as f64 * (v / wider).ln() + square * (1.0 / v - 1.0 / wider))
}

impl Gaussian {
    pub(super) fn births_and_deaths<R: Rng + ?Sized>(
        &self,
        view: &View,
        row: Row<'_>,
        entries: &[Entry],
        private: &[bool],
        attempts: Attempts,
        scratch: &mut Scratch,
        rng: &mut R,
    ) -> Result<Changes> {
        let columns = self.centre.columns;
        let (noise, spread) = (1.0 / view.scales.noise[row.source], 1.0 / view.scales.weight[row.source].sqrt());
        let loose = 1.0 / view.scales.atom;
        self.residual(view, row, entries, |k| !private[k as usize], scratch);
        let square = dot(&scratch.residual, &scratch.residual);
        if !square.is_finite() {
            return Err(broken("the residual of a row"));
        }
        let mut own: Vec<Private> = entries.iter().filter(|e| private[e.0 as usize]).map(|e| (Some(e.0), e.1)).collect();
        let mut changes = Changes::default();
        // summed afresh each time: differences of near equals would not do
        let variance = |own: &[Private]| noise + loose * own.iter().map(|p| p.1 * p.1).sum::<f64>();
        for _ in 0..attempts.count {
            if rng.random::<bool>() {
                if !attempts.room {
                    continue;
                }
                let z: f64 = StandardNormal.sample(rng);
                let (v, w) = (variance(&own), spread * z);
                let ln_accept = attempts.ln_rate - (own.len() as f64 + 1.0).ln() + ln_ratio(columns, square, v, v + loose * w * w);
                if open01(rng).ln() < ln_accept {
                    own.push((None, w));
                }
            } else if !own.is_empty() {
                let count = own.len() as f64;
                let wider = variance(&own);
                let gone = own.swap_remove(rng.random_range(0..own.len()));
                let ln_accept = ln_ratio(columns, square, variance(&own), wider) + attempts.ln_rate - count.ln();
                if open01(rng).ln() < -ln_accept {
                    changes.died.extend(gone.0);
                } else {
                    own.push(gone);
                }
            }
        }
        changes.died.sort_unstable();
        self.redraw(&own, noise, loose, variance(&own), scratch, rng, &mut changes);
        changes.redrawn.sort_unstable_by_key(|r| r.0);
        Ok(changes)
    }

    /// Draws φ of the row's private atoms given what the others leave of it: from the prior, then moved by what the noise and the
    /// draws together miss of the residual.
    fn redraw<R: Rng + ?Sized>(
        &self,
        own: &[Private],
        noise: f64,
        loose: f64,
        variance: f64,
        scratch: &mut Scratch,
        rng: &mut R,
        changes: &mut Changes,
    ) {
        if own.is_empty() {
            return;
        }
        let mut drawn: Vec<Vec<f64>> = vec![vec![0.0; self.centre.columns]; own.len()];
        for (phi, (_, w)) in drawn.iter_mut().zip(own) {
            normals(phi, loose.sqrt(), rng);
            for (r, p) in scratch.residual.iter_mut().zip(phi.iter()) {
                *r -= w * p;
            }
        }
        for r in &mut scratch.residual {
            let z: f64 = StandardNormal.sample(rng);
            *r -= noise.sqrt() * z;
        }
        for (mut phi, &(place, w)) in drawn.into_iter().zip(own) {
            for (p, r) in phi.iter_mut().zip(&scratch.residual) {
                *p += loose * w * r / variance;
            }
            match place {
                Some(place) => changes.redrawn.push((place, phi)),
                None => changes.born.push((w, phi)),
            }
        }
    }
}
