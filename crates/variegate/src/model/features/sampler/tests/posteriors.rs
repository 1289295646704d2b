//! Posteriors of tiny data that were enumerated, and other limits that are known.

use super::super::super::Schema;
use super::super::super::generate::mean;
use super::super::super::settings::{DirectionKind, InterceptKind, MagnitudeKind, PriorKind, SamplerKind, Settings};
use super::super::super::state::State;
use super::super::super::testing::chain;
use super::super::{Intercept, Learn, Sampler};
use crate::data::{Dataset, Matrix};
use crate::prior::StableBeta;

const X: [f64; 6] = [1.2, -0.4, 0.9, 0.3, -0.5, 1.1];

fn rows(values: &[f64]) -> Dataset<'static> {
    Dataset::new(Matrix::dense(values.len() / 2, 2, values.to_vec()))
}

fn sampler(settings: Settings, discount: f64) -> Sampler {
    let mut sampler = Schema::drawn(2, 3).sampler(&settings.intercept(InterceptKind::None));
    sampler.learn = Learn::default();
    sampler.hyper.process = StableBeta { mass: 1.0, concentration: 1.0, discount };
    (sampler.hyper.noise, sampler.hyper.spread) = (0.25, 1.0);
    (sampler.start, sampler.most) = (None, usize::MAX);
    sampler
}

/// Features, ones, private ones, whether rows 1 and 2 share one, whether all rows do, and the fit of all rows.
fn figures(state: &State, rows: &[Vec<u32>]) -> Vec<f64> {
    let uses = &state.features.uses;
    let is = |holds: bool| f64::from(u8::from(holds));
    let mut out = vec![
        state.features.used() as f64,
        uses.iter().sum::<u64>() as f64,
        uses.iter().filter(|m| **m == 1).count() as f64,
        is(rows[0].iter().any(|k| rows[1].contains(k))),
        is(uses.iter().any(|m| *m as usize == rows.len())),
    ];
    out.extend(rows.iter().flat_map(|used| mean(state, used)));
    out
}

const BUFFET: [f64; 11] = [
    1.984299236,
    3.114841976,
    1.129726129,
    0.514187832,
    0.248391515,
    0.7313497413,
    -0.1304251796,
    0.5171958353,
    0.1228373086,
    -0.1673047215,
    0.5509194037,
];
const STABLE: [f64; 11] = [
    2.331714805,
    3.040860266,
    1.756530469,
    0.344378443,
    0.127356681,
    0.761213568,
    -0.1867819979,
    0.4769877591,
    0.1271332692,
    -0.2318800822,
    0.6134774693,
];

#[test]
fn long_samplers_of_gaussian_features_have_the_enumerated_posterior() {
    let data = rows(&X);
    for (discount, told) in [(0.0, BUFFET), (0.4, STABLE)] {
        for group in 1..=3 {
            let settings = Settings::default().birth_rows(Some(group));
            chain(&format!("anchored {discount} {group}"), &sampler(settings, discount), &data, 30_000, &told, figures);
        }
        for kind in [SamplerKind::RowSlice, SamplerKind::Slice] {
            let settings = Settings::default().sampler(kind);
            chain(&format!("{} {discount}", kind.word()), &sampler(settings, discount), &data, 30_000, &told, figures);
        }
    }
}

#[test]
fn long_intercepts_and_missing_entries_have_the_enumerated_posterior() {
    let learned = Intercept::Learned { variance: 2.0, start: vec![0.0; 2] };
    let some = |state: &State, rows: &[Vec<u32>]| {
        let all = figures(state, rows);
        vec![all[0], all[1], all[3], all[5]]
    };
    for complement in [0, 1] {
        let sampler = Sampler { intercept: learned.clone(), complement, ..sampler(Settings::default(), 0.0) };
        let told = [1.87803588, 2.89138713, 0.43738936, 0.91243081];
        chain("intercept", &sampler, &rows(&X), 40_000, &told, some);
    }
    let mut values = X;
    (values[1], values[4]) = (f64::NAN, f64::NAN);
    let third = |state: &State, rows: &[Vec<u32>]| {
        let all = figures(state, rows);
        vec![all[0], all[1], all[3], all[9]]
    };
    let told = [2.11093139, 3.94725095, 0.69384352, 0.65481845];
    chain("missing", &sampler(Settings::default(), 0.0), &rows(&values), 40_000, &told, third);
}

/// Without strength, directions and lengths of Gaussian vectors are Gaussian vectors.
#[test]
fn long_directions_without_strength_are_the_buffet() {
    for direction in [DirectionKind::Vmf, DirectionKind::Hmc] {
        let settings = Settings::default()
            .prior(PriorKind::MutualAngular)
            .magnitude(MagnitudeKind::Chi)
            .kappa(Some(0.0))
            .birth_rows(Some(2))
            .direction(direction);
        chain(&format!("{direction:?}"), &sampler(settings, 0.0), &rows(&X), 60_000, &BUFFET, figures);
    }
    let settings = Settings::default().prior(PriorKind::MutualAngular).magnitude(MagnitudeKind::Chi).kappa(Some(0.0));
    chain("slice", &sampler(settings.sampler(SamplerKind::Slice), 0.0), &rows(&X), 60_000, &BUFFET, figures);
}

/// Against importance sampling from the prior with 4,000,000 draws, whose own error is at most 0.003.
#[test]
fn long_mutual_angular_features_have_the_weighted_posterior() {
    let told = [1.804, 2.361, 2.208, 1.399, 1.586, -0.581, 0.3814, 0.4849];
    let settings = Settings::default().prior(PriorKind::MutualAngular).magnitude_shape(2.0).kappa(Some(4.0)).birth_rows(Some(2));
    for direction in [DirectionKind::Vmf, DirectionKind::Hmc] {
        let mut sampler = sampler(settings.clone().direction(direction), 0.0);
        (sampler.rows, sampler.hyper.rate) = (2, 2.0);
        let figures = |state: &State, _: &[Vec<u32>]| {
            let f = &state.features;
            let used: f64 = (0..f.len()).filter(|&k| f.uses[k] > 0).map(|k| f.lengths[k]).sum();
            let pair = if f.len() > 1 { f.entries[0] * f.entries[2] + f.entries[1] * f.entries[3] } else { 0.0 };
            vec![
                f.used() as f64,
                f.len() as f64,
                f.uses.iter().sum::<u64>() as f64,
                f.uses.iter().filter(|m| **m == 1).count() as f64,
                used,
                pair,
                f.ln_on.last().map_or(1.0, |y| y.exp()),
                f.ln_on.first().map_or(0.0, |y| y.exp()),
            ]
        };
        chain(&format!("{direction:?}"), &sampler, &rows(&[1.1, -0.2, -0.7, 0.9]), 40_000, &told, figures);
    }
}
