//! Samplers against what is known of their distributions: whole sweeps and every kernel alone, and posteriors that can be enumerated.

mod kernels;
mod posteriors;

use super::super::check::Subject;
use super::super::settings::{DirectionKind, InterceptKind, MagnitudeKind, PriorKind, SamplerKind, Settings};
use crate::check::{CalibrationSettings, InvarianceSettings, JointSettings, calibration, joint_distribution, sweep_invariance};

/// Prior and sampler, and what else is set, under a name.
pub(super) fn pairs() -> Vec<(&'static str, Settings)> {
    let base = || Settings::default().intercept(InterceptKind::None);
    let py = || base().prior(PriorKind::PitmanYor);
    let ima = || base().prior(PriorKind::MutualAngular).birth_rows(Some(2));
    vec![
        ("ibp anchored", Settings::default().birth_rows(Some(2)).pairs(1)),
        ("ibp anchored, groups of one", base().birth_rows(Some(1))),
        ("ibp rowslice", base().sampler(SamplerKind::RowSlice)),
        ("ibp slice", Settings::default().sampler(SamplerKind::Slice)),
        ("pitman-yor anchored", py().birth_rows(Some(2))),
        ("pitman-yor anchored, concentration", py().learn_concentration(true)),
        ("pitman-yor rowslice", py().sampler(SamplerKind::RowSlice)),
        ("pitman-yor slice", py().sampler(SamplerKind::Slice).learn_concentration(true)),
        ("mutual-angular anchored", ima().learn_kappa(true).intercept(InterceptKind::Sample)),
        ("mutual-angular anchored, chi", ima().magnitude(MagnitudeKind::Chi).kappa(Some(3.0))),
        ("mutual-angular anchored, hmc", ima().direction(DirectionKind::Hmc).kappa(Some(4.0))),
        ("mutual-angular slice", ima().birth_rows(None).sampler(SamplerKind::Slice).kappa(Some(2.0))),
    ]
}

#[test]
fn long_one_sweep_leaves_the_joint_distribution_as_it_is() {
    for (name, settings) in pairs() {
        let subject = Subject::new(&settings.validate().unwrap().settings, 4);
        let report = sweep_invariance(&subject, &InvarianceSettings { draws: 12_000, false_alarm_rate: 1e-4 }, 3, &mut |_| {}).unwrap();
        assert!(report.passed, "{name}: {report}");
    }
}

#[test]
fn long_chains_keep_to_the_prior() {
    for (name, settings) in pairs() {
        let subject = Subject::new(&settings.validate().unwrap().settings, 3);
        let effort = JointSettings { chains: 64, steps: 300, exact_draws: 40_000, ..JointSettings::default() };
        let report = joint_distribution(&subject, &effort, 5, &mut |_| {}).unwrap();
        assert!(report.passed, "{name}: {report}");
    }
}

/// Every prior with every sampler that it goes with, each with its own data: those of one seed would be odd for all alike.
#[test]
fn long_truths_are_ranked_evenly_among_draws() {
    let effort = CalibrationSettings { data_sets: 128, draws: 7, bins: 8, max_thin: 500, ..CalibrationSettings::default() };
    for (seed, prior) in [PriorKind::Ibp, PriorKind::PitmanYor, PriorKind::MutualAngular].into_iter().enumerate() {
        for (more, sampler) in [SamplerKind::Anchored, SamplerKind::RowSlice, SamplerKind::Slice].into_iter().enumerate() {
            if Settings::default().prior(prior).sampler(sampler).validate().is_err() {
                continue;
            }
            let (name, settings) = pairs().into_iter().find(|(_, s)| s.prior == prior && s.sampler == sampler).unwrap();
            let subject = Subject::ranked(&settings.validate().unwrap().settings);
            let report = calibration(&subject, &effort, 10 * seed as u64 + more as u64, &mut |_| {}).unwrap();
            assert!(report.passed, "{name}: {report}");
        }
    }
}
