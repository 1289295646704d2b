//! Every kernel alone: exact draws in, one step, the same distribution out.

use super::super::super::Schema;
use super::super::super::settings::{InterceptKind, PriorKind, SamplerKind, Settings};
use super::super::super::testing::kernel;
use super::super::{Intercept, Learn, Sampler};
use crate::prior::StableBeta;

/// Four rows of two columns; everything known but features and who uses them.
fn sampler(concentration: f64, discount: f64, intercept: bool) -> Sampler {
    let settings = Settings::default().prior(PriorKind::PitmanYor).intercept(InterceptKind::None);
    let mut sampler = Schema::drawn(2, 4).sampler(&settings);
    sampler.learn = Learn::default();
    sampler.hyper.process = StableBeta { mass: 1.5, concentration, discount };
    (sampler.hyper.noise, sampler.hyper.spread) = (0.5, 1.0);
    (sampler.start, sampler.most, sampler.split_merge) = (None, usize::MAX, 2);
    if intercept {
        sampler.intercept = Intercept::Learned { variance: 2.0, start: vec![0.0; 2] };
    }
    sampler
}

const PROCESSES: [(f64, f64); 3] = [(1.0, 0.0), (1.0, 0.6), (0.3, 0.9)];
const DRAWS: u64 = 10_000;

#[test]
fn a_scan_with_owners() {
    for (c, d) in PROCESSES {
        for pairs in [0, 2] {
            kernel(&format!("scan {c} {d} {pairs}"), Sampler { pairs, ..sampler(c, d, false) }, DRAWS, |course, state| {
                let owners = course.begin(state)?;
                course.scan_owned(state, owners, false).map(|_| ())
            });
        }
    }
}

#[test]
fn shears() {
    for (c, d) in PROCESSES {
        kernel(&format!("shear {c} {d}"), sampler(c, d, false), 2 * DRAWS, |course, state| {
            course.shear(state)?;
            course.sampler.draw_chances(state, &mut course.rng)
        });
    }
}

#[test]
fn complements() {
    for (c, d) in PROCESSES {
        kernel(&format!("complement {c} {d}"), sampler(c, d, true), 2 * DRAWS, |course, state| {
            course.complement(state);
            course.sampler.draw_chances(state, &mut course.rng)
        });
    }
}

/// With all rows of a feature dealt one after the other, and with most of them dealt together.
#[test]
fn splits_and_merges() {
    for (c, d) in PROCESSES {
        for core in [256, 1] {
            let sampler = Sampler { core, rows: 6, ..sampler(c, d, false) };
            kernel(&format!("split and merge {c} {d} {core}"), sampler, 2 * DRAWS, |course, state| {
                course.split_merge(state)?;
                course.sampler.draw_chances(state, &mut course.rng)
            });
        }
    }
}

#[test]
fn births_and_deaths_in_groups() {
    for (c, d) in PROCESSES {
        for (group, single) in [(1, false), (2, true), (2, false), (4, false)] {
            let mut sampler = Sampler { group, ..sampler(c, d, true) };
            // many features, so that rows have some to themselves and share others
            sampler.hyper.process.mass = 3.0;
            // the largest groups take most of the time
            let draws = if group == 4 { DRAWS } else { 2 * DRAWS };
            kernel(&format!("groups {c} {d} {group} {single}"), sampler, draws, |course, state| {
                course.groups(state, single)?;
                let totals = course.totals(state)?;
                course.draw_weights(state, &totals)?;
                course.sampler.draw_chances(state, &mut course.rng)
            });
        }
    }
}

#[test]
fn entries_and_intercept() {
    kernel("weights", sampler(1.0, 0.4, true), DRAWS, |course, state| {
        let totals = course.totals(state)?;
        course.draw_weights(state, &totals).map(|_| ())
    });
    kernel("weights beside unused", Sampler { kind: SamplerKind::Slice, ..sampler(1.0, 0.2, true) }, DRAWS, |course, state| {
        course.draw_weights_apart(state).map(|_| ())
    });
}

#[test]
fn what_governs_features() {
    let learn = Learn {
        mass: Some((3.0, 2.0)),
        level: Some((2.0, 1.0)),
        discount: Some(1.0),
        noise: Some((5.0, 2.0)),
        spread: Some((5.0, 4.0)),
        ..Learn::default()
    };
    kernel("mass", Sampler { learn, ..sampler(1.0, 0.4, false) }, 2 * DRAWS, |course, state| {
        course.sampler.learn_mass(state, &mut course.rng)?;
        course.sampler.draw_chances(state, &mut course.rng)
    });
    kernel("discount and concentration", Sampler { learn, ..sampler(1.0, 0.4, false) }, 8 * DRAWS, |course, state| {
        course.sampler.learn_shape(state, &mut course.rng);
        course.sampler.draw_chances(state, &mut course.rng)
    });
    kernel("variances", Sampler { learn, ..sampler(1.0, 0.4, false) }, 2 * DRAWS, |course, state| {
        let totals = course.totals(state)?;
        let entries = state.features.entries.clone();
        let unexplained = course.unexplained(state, &totals, &entries)?;
        course.sampler.learn_noise(state, unexplained, &mut course.rng)?;
        course.sampler.learn_spread(state, &mut course.rng)
    });
    let learn = Learn { mass: Some((3.0, 2.0)), ..Learn::default() };
    let slice = Sampler { learn, kind: SamplerKind::Slice, ..sampler(1.0, 0.4, false) };
    kernel("mass of a prefix", slice, 2 * DRAWS, |course, state| course.sampler.learn_mass_of_prefix(state, &mut course.rng));
}

#[test]
fn slices() {
    // with more discount the number of unused features above a slice has far too long a tail
    for (c, d) in [(1.0, 0.0), (1.0, 0.2)] {
        kernel(&format!("rowslice {c} {d}"), Sampler { kind: SamplerKind::RowSlice, ..sampler(c, d, false) }, DRAWS, |course, state| {
            course.scan_heights(state)?;
            state.features.drop_unused();
            course.changed();
            course.sampler.draw_chances(state, &mut course.rng)
        });
        kernel(&format!("slice {c} {d}"), Sampler { kind: SamplerKind::Slice, ..sampler(c, d, false) }, DRAWS, |course, state| {
            course.slice(state)?;
            course.scan_counted(state)?;
            state.features.forget();
            course.changed();
            Ok(())
        });
    }
}

/// The grown start's last step for the slice sampler: unused features above the smallest that is used.
#[test]
fn unused_features_are_filled_in() {
    kernel("fill", Sampler { kind: SamplerKind::Slice, ..sampler(1.0, 0.3, false) }, DRAWS, |course, state| {
        state.features.drop_unused();
        course.sampler.draw_chances(state, &mut course.rng)?;
        course.fill(state)
    });
}
