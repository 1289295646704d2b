//! How far apart the experts of a draw are, and their gates: angles of all pairs, and figures of those in use.
//!
//! An expert without rows lies where the prior puts it, which says nothing about the data: figures leave it out.

use super::posterior::{ExpertsPosterior, Way};
use crate::model::idle;
use crate::parallel;
use crate::prior::angular::{AngleSummary, Regulariser, angles};

/// Angles on one side of a draw.
pub(super) struct Spread {
    /// Angles of all pairs, ascending, in radians.
    pub signed: Vec<f64>,
    pub non_obtuse: Vec<f64>,
    /// The regulariser, as it is set.
    pub omega: f64,
}

impl Spread {
    fn of(weights: &[f64], dim: usize, gamma: f64) -> Self {
        let found = angles(weights, dim);
        let (mut signed, mut non_obtuse) = (found.signed, found.non_obtuse);
        signed.sort_by(f64::total_cmp);
        non_obtuse.sort_by(f64::total_cmp);
        Self { signed, non_obtuse, omega: Regulariser { gamma, delta: 0.0 }.value(weights, dim) }
    }

    /// Mean, least and standard deviation of the angles and of the non-obtuse ones in degrees, and the regulariser; NaN without a pair.
    fn figures(&self) -> [f64; 7] {
        let of =
            |angles: &[f64]| AngleSummary::of(angles).map_or([f64::NAN; 3], |s| [s.mean, s.min, s.variance.sqrt()].map(f64::to_degrees));
        let ([a, b, c], [d, e, f]) = (of(&self.signed), of(&self.non_obtuse));
        [a, b, c, d, e, f, if self.signed.is_empty() { f64::NAN } else { self.omega }]
    }
}

/// Figures of a side, and whether they are angles.
const FIGURES: [(&str, bool); 7] = [
    ("mean angle", true),
    ("smallest angle", true),
    ("sd of angles", true),
    ("mean non-obtuse angle", true),
    ("smallest non-obtuse angle", true),
    ("sd of non-obtuse angles", true),
    ("mutual angular regulariser", false),
];

impl ExpertsPosterior {
    /// Angles of every draw: of the experts, and of the gates; of those in use, or of all. Gates are known up to a common shift, so
    /// they are centred first.
    pub(super) fn spreads(&self, all: bool) -> Vec<(&'static str, Vec<Spread>)> {
        let shape = self.shape();
        if shape.experts < 2 {
            return Vec::new();
        }
        let (theta, eta) = shape.plain_parts();
        let (p, dim, gamma) = (shape.inputs, shape.expert_dim(), self.settings.gamma);
        let chosen = |i: usize, vectors: &[f64], dim: usize| -> Vec<f64> {
            let used = self.in_use(i);
            vectors.chunks_exact(dim).zip(used).filter(|(_, used)| all || *used).flat_map(|(v, _)| v.iter().copied()).collect()
        };
        let experts = parallel::map_numbers(self.draws(), |i| Spread::of(&chosen(i, &self.draw(i)[theta.clone()], dim), dim, gamma));
        let gates = parallel::map_numbers(self.draws(), |i| {
            let mut eta = chosen(i, &self.draw(i)[eta.clone()], p);
            let count = (eta.len() / p) as f64;
            for j in 0..p {
                let mean = eta.iter().skip(j).step_by(p).sum::<f64>() / count;
                eta.iter_mut().skip(j).step_by(p).for_each(|v| *v -= mean);
            }
            Spread::of(&eta, p, gamma)
        });
        vec![("experts", experts), ("gates", gates)]
    }

    /// Shares of the experts in a draw, by its labels; nothing where they were not kept.
    pub(super) fn shares_of(&self, i: usize) -> Option<&[f64]> {
        let k = self.shape().experts;
        let at = if matches!(self.way, Way::Chains(_)) { i * k } else { 0 };
        self.shares.get(at..at + k)
    }

    /// Which experts of a draw are in use; all where it is not known.
    pub(super) fn in_use(&self, i: usize) -> Vec<bool> {
        let least = self.least_share();
        self.shares_of(i).map_or_else(|| vec![true; self.shape().experts], |s| s.iter().map(|s| *s >= least).collect())
    }

    /// The share that an expert in use has at least.
    pub(super) fn least_share(&self) -> f64 {
        idle::least_share(self.schema.counts.iter().sum())
    }

    /// Shares of every draw, the largest first; nothing where they were not kept.
    pub(super) fn sorted_shares(&self) -> Option<Vec<Vec<f64>>> {
        let sorted = |shares: &[f64]| {
            let mut sorted = shares.to_vec();
            sorted.sort_by(|a, b| b.total_cmp(a));
            sorted
        };
        (0..self.draws()).map(|i| self.shares_of(i).map(sorted)).collect()
    }

    /// Figures of the angles between experts in use and between their gates: a name and a value a draw, NaN where fewer than two
    /// (gates: three) are in use.
    pub(super) fn figures_of_angles(&self) -> Vec<(String, Vec<f64>)> {
        let used: Vec<usize> = (0..self.draws()).map(|i| self.in_use(i).into_iter().filter(|u| *u).count()).collect();
        let most = used.iter().copied().max().unwrap_or(0);
        let mut out = Vec::new();
        for (side, spreads) in self.spreads(false) {
            // two gates, known up to a common shift, are opposite whatever the data say
            let fewest = if side == "gates" { 3 } else { 2 };
            let figures: Vec<[f64; 7]> =
                used.iter().zip(&spreads).map(|(used, s)| if *used < fewest { [f64::NAN; 7] } else { s.figures() }).collect();
            for (f, (name, angle)) in FIGURES.iter().enumerate() {
                // two experts have one angle, which has no spread
                if most > 2 || most == fewest && ![1, 2, 4, 5].contains(&f) {
                    let unit = if *angle { " (°)" } else { "" };
                    out.push((format!("{name} of {side}{unit}"), figures.iter().map(|v| v[f]).collect()));
                }
            }
        }
        out
    }
}
