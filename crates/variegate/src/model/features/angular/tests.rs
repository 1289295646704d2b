//! The kernels of directions, lengths and their order alone: exact draws in, one step, the same distribution out.

use super::super::Schema;
use super::super::sampler::{Intercept, Learn, Sampler};
use super::super::settings::{DirectionKind, InterceptKind, MagnitudeKind, PriorKind, Settings};
use super::super::testing::kernel;
use super::{Angular, Ordered};
use crate::prior::StableBeta;

fn sampler(settings: Settings, width: usize) -> Sampler {
    let settings = settings.prior(PriorKind::MutualAngular).intercept(InterceptKind::None).magnitude_shape(2.0);
    let mut sampler = Schema::drawn(width, 3).sampler(&settings);
    sampler.learn = Learn::default();
    sampler.hyper.process = StableBeta::buffet(1.0);
    (sampler.hyper.noise, sampler.hyper.spread, sampler.hyper.rate, sampler.hyper.kappa) = (0.25, 0.7, 2.0, 4.0);
    (sampler.start, sampler.most) = (None, usize::MAX);
    sampler
}

fn angular(sampler: &Sampler) -> Angular {
    sampler.angular.clone().unwrap()
}

const DRAWS: u64 = 12_000;

#[test]
fn a_scan_with_owners() {
    kernel("scan", sampler(Settings::default(), 2), DRAWS, |course, state| {
        let owners = course.begin(state)?;
        course.scan_owned(state, owners, true).map(|_| ())
    });
}

#[test]
fn directions_and_lengths() {
    for (width, direction) in [(2, DirectionKind::Vmf), (2, DirectionKind::Hmc), (3, DirectionKind::Auto), (1, DirectionKind::Auto)] {
        for magnitude in [MagnitudeKind::Gamma, MagnitudeKind::Chi] {
            let sampler = sampler(Settings::default().direction(direction).magnitude(magnitude), width);
            let own = angular(&sampler);
            kernel(&format!("directions {width} {direction:?} {magnitude:?}"), sampler, DRAWS, |course, state| {
                let totals = course.totals(state)?;
                own.directions(course, state, &Ordered::new(state, &totals), false)
            });
        }
    }
}

#[test]
fn chances_and_order() {
    for width in [1, 2] {
        let sampler = sampler(Settings::default(), width);
        let own = angular(&sampler);
        kernel(&format!("sticks {width}"), sampler.clone(), 2 * DRAWS, |course, state| {
            let totals = course.totals(state)?;
            let mut ordered = Ordered::new(state, &totals);
            own.sticks(course, state, &mut ordered)?;
            ordered.forget(state);
            Ok(())
        });
        kernel(&format!("swaps {width}"), sampler, 2 * DRAWS, |course, state| {
            let totals = course.totals(state)?;
            own.swaps(course, state, &mut Ordered::new(state, &totals))
        });
    }
}

/// Totals that are kept up to date through a birth or death must be those of the rows.
#[test]
fn births_and_deaths() {
    for (width, group) in [(2, 1), (2, 2), (2, 3), (1, 2), (3, 2)] {
        let sampler = sampler(Settings::default(), width);
        let own = angular(&sampler);
        kernel(&format!("births {width} {group}"), sampler, 2 * DRAWS, |course, state| {
            let totals = course.totals(state)?;
            let mut ordered = Ordered::new(state, &totals);
            for _ in 0..2 {
                own.birth_or_death(course, state, &mut ordered, group)?;
            }
            let fresh = course.totals(state)?;
            let fresh = Ordered::new(state, &fresh);
            for k in 0..state.features.len() {
                for l in 0..state.features.len() {
                    assert!((ordered.totals.together(k, l) - fresh.totals.together(k, l)).abs() < 1e-9, "{k} {l}");
                }
                assert!(ordered.totals.entries(k).iter().zip(fresh.totals.entries(k)).all(|(a, b)| (a - b).abs() < 1e-9));
            }
            Ok(())
        });
    }
}

#[test]
fn what_governs_directions_and_lengths() {
    for magnitude in [MagnitudeKind::Gamma, MagnitudeKind::Chi] {
        let mut sampler = sampler(Settings::default().magnitude(magnitude), 2);
        let gamma = magnitude == MagnitudeKind::Gamma;
        sampler.learn = Learn {
            mass: Some((3.0, 2.0)),
            noise: Some((5.0, 2.0)),
            spread: (!gamma).then_some((5.0, 4.0)),
            rate: gamma.then_some((4.0, 2.0)),
            kappa: Some((3.0, 1.0)),
            ..Learn::default()
        };
        sampler.intercept = Intercept::Learned { variance: 2.0, start: vec![0.0; 2] };
        let own = angular(&sampler);
        kernel(&format!("learn {magnitude:?}"), sampler, 2 * DRAWS, |course, state| {
            let totals = course.totals(state)?;
            let ordered = Ordered::new(state, &totals);
            own.intercept(course, state, &ordered);
            let weights = state.features.weights(&(0..state.features.len()).collect::<Vec<_>>());
            course.changed();
            let unexplained = course.unexplained(state, &ordered.totals, &weights)?;
            own.learn(course, state, unexplained)
        });
    }
}
