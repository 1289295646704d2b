//! What is kept of a point: weights and intercepts, not directions and logarithms.

use super::point_prior::{PointPrior, Size};
use super::settings::Hyper;
use super::shape::Shape;
use crate::prior::Directions;
use crate::run::{Draws, Table};
use crate::{Error, Result};

/// Names of the vectors of a draw, in the order of the plain form.
const PARTS: [&str; 4] = ["expert_weights", "gate_weights", "expert_intercepts", "gate_intercepts"];

/// Writes a draw. Hyperparameters are kept where they move.
pub(super) fn keep(
    shape: &Shape,
    point: &[f64],
    point_prior: &PointPrior,
    hyper: Hyper,
    ln_likelihood: f64,
    ln_prior: f64,
    out: &mut Draws,
) {
    out.scalar("log_joint", ln_likelihood + ln_prior);
    out.scalar("log_likelihood", ln_likelihood);
    if hyper != Hyper::Fixed {
        let mut sides = vec![("alpha1", "alpha2", "kappa", &point_prior.experts)];
        if shape.gates() > 0 {
            sides.push(("omega1", "omega2", "gate_kappa", &point_prior.gates));
        }
        for (first, second, third, side) in sides {
            if let Size::Gamma { shape, rate } = side.size {
                out.scalar(first, shape);
                out.scalar(second, rate);
            }
            if let Directions::MutualAngular(chain) = &side.directions {
                out.scalar(third, chain.kappa);
            }
        }
    }
    let mut plain = Vec::new();
    shape.plain(point, &mut plain);
    let (theta, eta) = shape.plain_parts();
    let intercepts = eta.end;
    let ends = [theta.end, intercepts, intercepts + shape.expert_intercepts().len(), plain.len()];
    let mut from = 0;
    for (name, end) in PARTS.into_iter().zip(ends) {
        if end > from {
            out.vector(name, &plain[from..end]);
        }
        from = end;
    }
}

/// The plain forms of all draws of a chain.
pub(super) fn read(shape: &Shape, table: &Table, out: &mut Vec<f64>) -> Result<()> {
    let places: Vec<(usize, usize)> = PARTS.iter().filter_map(|name| table.find(name)).collect();
    let width: usize = places.iter().map(|(_, width)| width).sum();
    if width != shape.plain_len() {
        return Err(Error::Unfit(format!(
            "the draws have {width} weights, but the schema has {}: they belong to another model",
            shape.plain_len()
        )));
    }
    for row in table.values.chunks_exact(table.width()) {
        places.iter().for_each(|(at, width)| out.extend_from_slice(&row[*at..at + width]));
    }
    Ok(())
}
