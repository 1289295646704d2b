//! Moves between points that small steps do not reach: exchanges of neighbouring labels.
//!
//! A mutual angular chain sees its directions in an order, the rows do not. Exchanging expert i, with its gate and intercepts, for expert
//! i + 1 leaves the likelihood alone; lengths and intercepts are alike and independent, so that the directions of both sides decide:
//! two factors of each chain change. Under laws that see no order every exchange is accepted.

use rand::Rng;

use super::law::Law;
use super::shape::Shape;
use crate::prior::{Coupled, Directions};
use crate::run::open01;

/// Whether a proposal with this log acceptance ratio is accepted; one of NaN is not.
pub(super) fn accepted<R: Rng + ?Sized>(ln_ratio: f64, rng: &mut R) -> bool {
    open01(rng).ln() < ln_ratio
}

/// Makes K attempts to exchange neighbours, experts with their gates and intercepts. `exchanged` hears the lower label of each exchange
/// as it is made, for what else is kept of the experts to follow. Gives back the number of exchanges.
pub fn swaps<R: Rng + ?Sized>(shape: &Shape, law: &Law, point: &mut [f64], rng: &mut R, mut exchanged: impl FnMut(usize)) -> u32 {
    if shape.experts < 2 {
        return 0;
    }
    let mut chains: Vec<Coupled> = law
        .sides(shape)
        .into_iter()
        .filter(|(side, ..)| matches!(side.directions, Directions::MutualAngular(_)))
        .map(|(side, places, _, dim)| Coupled::new(&side.directions, &point[places], dim))
        .collect();
    let mut made = 0;
    for _ in 0..shape.experts {
        let i = ((shape.experts - 1) as f64 * open01(rng)) as usize;
        let gain: f64 = chains.iter_mut().map(|c| c.propose_swap(i) - c.ln_density()).sum();
        if accepted(gain, rng) {
            shape.exchange(point, i, i + 1);
            chains.iter_mut().for_each(|c| c.accept_swap(i));
            exchanged(i);
            made += 1;
        }
    }
    made
}
