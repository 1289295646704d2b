//! q of a whole mixture: where it begins, how it is moved, and what is taken out of it.

use serde::{Deserialize, Serialize};

use super::factor::Factor;
use super::side::Side;
use super::sphere::normalise;
use crate::Result;
use crate::dist::Concentration;
use crate::model::experts::shape::Shape;
use crate::run::Stream;

/// Shape of a length at the start: as sure as a standard deviation of a third.
const START_SHAPE: f64 = 9.0;

/// q, and the prior that it is measured against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fit {
    /// Experts.
    pub experts: Side,
    /// Gates; no factors for one expert.
    pub gates: Side,
}

impl Fit {
    /// q around a point: its directions, concentrated to twice their dimension, and lengths of its size. Sides give the prior.
    pub(crate) fn around(experts: Side, gates: Side, shape: &Shape, point: &[f64]) -> Self {
        let place = |mut side: Side, directions: &[f64], sizes: &[f64], intercepts: &[f64]| {
            let rows = intercepts.len() / sizes.len().max(1);
            let dim = side.dim;
            side.factors = (0..sizes.len())
                .map(|k| {
                    let mut direction = directions[k * dim..(k + 1) * dim].to_vec();
                    normalise(&mut direction);
                    Factor {
                        direction,
                        kappa: 2.0 * dim as f64,
                        shape: START_SHAPE,
                        rate: START_SHAPE / sizes[k].exp().clamp(1e-8, 1e8),
                        intercepts: intercepts[k * rows..(k + 1) * rows].to_vec(),
                        variance: 0.1,
                    }
                })
                .collect();
            side
        };
        Self {
            experts: place(experts, &point[shape.expert_directions()], &point[shape.expert_sizes()], &point[shape.expert_intercepts()]),
            gates: place(gates, &point[shape.gate_directions()], &point[shape.gate_sizes()], &point[shape.gate_intercepts()]),
        }
    }

    fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.experts.factors.iter().chain(&self.gates.factors)
    }

    /// q as one vector of numbers without bounds: of each factor the mean weights E g A â, ln κ̂, ln r, the intercepts and ln v.
    pub(crate) fn coordinates(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for f in self.factors() {
            let m = f.moments();
            let scale = m.size * m.along.mean;
            out.extend(f.direction.iter().map(|a| scale * a));
            out.extend([f.kappa.ln(), f.shape.ln()]);
            if !f.intercepts.is_empty() {
                out.extend_from_slice(&f.intercepts);
                out.push(f.variance.ln());
            }
        }
        out
    }

    /// The same prior with q at other coordinates; none where these are no q.
    pub(crate) fn at(&self, coordinates: &[f64]) -> Option<Self> {
        let mut fit = self.clone();
        let mut rest = coordinates;
        let mut take = |n: usize| {
            let (now, later) = rest.split_at(n);
            rest = later;
            now
        };
        for side in [&mut fit.experts, &mut fit.gates] {
            let dim = side.dim;
            for f in &mut side.factors {
                f.direction.copy_from_slice(take(dim));
                let scale = normalise(&mut f.direction);
                (f.kappa, f.shape) = (take(1)[0].exp().clamp(1e-3, 1e6), take(1)[0].exp().clamp(1e-4, 1e8));
                f.rate = f.shape * Concentration::at(dim, f.kappa).mean / scale;
                if !f.intercepts.is_empty() {
                    let rows = f.intercepts.len();
                    f.intercepts.copy_from_slice(take(rows));
                    f.variance = take(1)[0].exp();
                }
                let sound = scale.is_normal() && f.rate.is_normal() && f.shape.is_normal() && f.kappa.is_normal() && f.variance.is_normal();
                if !(sound && f.intercepts.iter().all(|m| m.is_finite())) {
                    return None;
                }
            }
        }
        Some(fit)
    }

    /// The mean weights E g E a and mean intercepts, as a point.
    pub(crate) fn mean_point(&self, shape: &Shape) -> Vec<f64> {
        self.point(shape, |f, direction, intercepts| {
            let m = f.moments();
            direction.copy_from_slice(&f.direction);
            intercepts.copy_from_slice(&f.intercepts);
            Ok((m.size * m.along.mean).max(f64::MIN_POSITIVE).ln())
        })
        .unwrap_or_default()
    }

    /// Draws of points, one after the other. Draw i comes from item i of the stream.
    pub(crate) fn sample(&self, shape: &Shape, count: usize, stream: Stream) -> Result<Vec<Vec<f64>>> {
        (0..count)
            .map(|i| {
                let mut rng = stream.item(i as u64).rng();
                self.point(shape, |f, direction, intercepts| f.sample(&mut rng, direction, intercepts))
            })
            .collect()
    }

    /// A point made factor by factor: `write` fills in direction and intercepts and gives back the logarithm of the length.
    fn point(&self, shape: &Shape, mut write: impl FnMut(&Factor, &mut [f64], &mut [f64]) -> Result<f64>) -> Result<Vec<f64>> {
        let mut point = vec![0.0; shape.len()];
        let places = [
            (&self.experts, shape.expert_directions(), shape.expert_sizes(), shape.expert_intercepts()),
            (&self.gates, shape.gate_directions(), shape.gate_sizes(), shape.gate_intercepts()),
        ];
        let mut intercepts = Vec::new();
        for (side, directions, sizes, places) in places {
            for (k, f) in side.factors.iter().enumerate() {
                intercepts.clear();
                intercepts.resize(f.intercepts.len(), 0.0);
                let at = directions.start + k * side.dim;
                point[sizes.start + k] = write(f, &mut point[at..at + side.dim], &mut intercepts)?;
                let at = places.start + k * intercepts.len();
                point[at..at + intercepts.len()].copy_from_slice(&intercepts);
            }
        }
        Ok(point)
    }
}
