//! Moves between points that small steps do not reach: exchanges of neighbouring labels.
//!
//! A mutual angular chain sees its directions in an order, the rows do not. Exchanging expert i, with its gate and intercepts, for expert
//! i + 1 leaves the likelihood alone; lengths and intercepts are alike and independent, so that the directions of both sides decide:
//! two factors of each chain change. Under priors that see no order every exchange is accepted.

use rand::Rng;

use super::point_prior::PointPrior;
use super::shape::Shape;
use crate::prior::{Coupled, Directions};
use crate::run::open01;

/// Whether a proposal with this log acceptance ratio is accepted; one of NaN is not.
pub(super) fn accepted<R: Rng + ?Sized>(ln_ratio: f64, rng: &mut R) -> bool {
    open01(rng).ln() < ln_ratio
}

/// Makes K attempts to exchange neighbours, experts with their gates and intercepts. `exchanged` hears the lower label of each exchange
/// as it is made, for what else is kept of the experts to follow. Gives back the number of exchanges.
pub(super) fn swaps<R: Rng + ?Sized>(
    shape: &Shape,
    point_prior: &PointPrior,
    point: &mut [f64],
    rng: &mut R,
    mut exchanged: impl FnMut(usize),
) -> u32 {
    if shape.experts < 2 {
        return 0;
    }
    let mut chains: Vec<Coupled> = point_prior
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

#[cfg(test)]
mod tests {
    use super::super::point_prior::{Side, Size};
    use super::*;
    use crate::check::{InvarianceSettings, one_step_invariance};
    use crate::linalg::dot;
    use crate::prior::{AngularKind, Determinantal, MutualAngular};
    use crate::run::{Philox, Purpose, Stream};
    use crate::{Error, Result};

    fn point_prior(directions: impl Fn(bool) -> Directions) -> PointPrior {
        let side = |gate| Side { directions: directions(gate), size: Size::Gamma { shape: 2.0, rate: 1.0 } };
        PointPrior { experts: side(false), gates: side(true), intercept_sd: 1.0 }
    }

    fn chain(kind: AngularKind, kappa: f64) -> Directions {
        Directions::MutualAngular(MutualAngular { kind, kappa, first: Some(vec![0.6, 0.8]) })
    }

    /// Points from the prior in, one round of attempts, the same distribution out; false alarms once in 10⁴ runs for each prior (the seed is fixed).
    #[test]
    fn exchanges_leave_the_prior_as_it_is() {
        let shape = Shape::new(4, 2, 2, true);
        let point_priors = [
            point_prior(|gate| chain(AngularKind::One, if gate { 1.0 } else { 3.0 })),
            point_prior(|gate| chain(AngularKind::Two, if gate { 1.0 } else { 3.0 })),
            point_prior(|gate| if gate { chain(AngularKind::One, 2.0) } else { Directions::Determinantal(Determinantal { length: 0.7 }) }),
        ];
        let names: Vec<String> = (0..5 * 4 + 12).map(|i| i.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let functions = |point: &Vec<f64>, out: &mut Vec<f64>| {
            let (a, e) = (&point[shape.expert_directions()], &point[shape.gate_directions()]);
            for k in 0..4 {
                out.extend([a[2 * k], a[2 * k + 1], e[2 * k + 1], point[shape.expert_sizes()][k], point[shape.gate_intercepts()][k]]);
            }
            for i in 0..4 {
                for j in 0..i {
                    out.extend([a, e].map(|a| dot(&a[2 * i..2 * i + 2], &a[2 * j..2 * j + 2])));
                }
            }
        };
        let effort = InvarianceSettings { draws: 40_000, false_alarm_rate: 1e-4 };
        for (seed, point_prior) in point_priors.iter().enumerate() {
            let mut rng = Stream::new(seed as u64, 0, Purpose::Check).rng();
            let exact = |rng: &mut Philox| point_prior.sample(&shape, rng);
            let step = |mut point: Vec<f64>, rng: &mut Philox| -> Result<Vec<f64>, Error> {
                swaps(&shape, point_prior, &mut point, rng, |_| ());
                Ok(point)
            };
            let report = one_step_invariance("exchanges", &effort, &names, functions, &mut rng, exact, step).unwrap();
            assert!(report.passed, "{report}");
        }
    }

    /// What else is kept of the experts can follow; exchanges happen where the order means something and where it does not.
    #[test]
    fn exchanges_are_told_of() {
        for (experts, point_prior) in [
            (5, point_prior(|_| chain(AngularKind::Two, 1.0))),
            (3, point_prior(|_| Directions::Uniform)),
            (1, point_prior(|_| Directions::Uniform)),
        ] {
            let shape = Shape::new(experts, 3, 1, true);
            let point_prior = if experts == 5 {
                PointPrior { gates: Side { directions: Directions::Uniform, ..point_prior.gates }, ..point_prior }
            } else {
                point_prior
            };
            let mut rng = Stream::new(3, 0, Purpose::Check).rng();
            let begin = point_prior.sample(&shape, &mut rng).unwrap();
            let (mut point, mut followed, mut heard) = (begin.clone(), begin, 0);
            for _ in 0..20 {
                heard += swaps(&shape, &point_prior, &mut point, &mut rng, |i| shape.exchange(&mut followed, i, i + 1));
            }
            assert_eq!(point, followed);
            assert!(
                if experts == 1 {
                    heard == 0
                } else if experts == 3 {
                    heard == 60
                } else {
                    (20..100).contains(&heard)
                },
                "{heard}"
            );
        }
    }
}
