//! One sweep from exact draws, and chains that alternate data and sweeps.

use super::super::check::{Subject, check};
use super::super::generate::Joint;
use super::*;
use crate::check::{CalibrationSettings, Effort, InvarianceSettings, JointSettings, joint_distribution, sweep_invariance};
use crate::model::labels::kernel::{Bernoulli, Diagonal, Full, Kernel, Multinomial};
use crate::model::labels::patterns::Patterns;

fn subject(kernel: Kernel, labels: LabelModel) -> Subject {
    let alpha = Concentration::Random(GammaFactor::new(2.0, 1.0));
    let intercept = labels.classifier().is_none_or(|c| c.intercept);
    let inputs = Inputs::plain(Design::identity(2, intercept));
    let sampler = Gibbs { inputs, ..sampler(kernel, labels, alpha, 3) };
    Subject { joint: Joint { sampler, rows: 5, total: 3, unknown: 0.2 } }
}

fn answers() -> Kernel {
    Kernel::Bernoulli(Bernoulli::new(1.5, &[0.4, 0.6], 1.0))
}

fn two_labels(intercept: bool) -> Classifier {
    let dim = 2 + usize::from(intercept);
    Classifier { labels: 2, dim, intercept, bias_precision: 0.5, weight_precision: learned(2.0, 2.0) }
}

fn logit() -> LabelModel {
    LabelModel::Logit { classifier: two_labels(true), patterns: learned(2.0, 2.0) }
}

fn subjects() -> Vec<(&'static str, Subject)> {
    let reals = Kernel::Diagonal(Diagonal::new(&[0.3, -0.2], 1.0, 4.0, &[3.0; 2], &[0.1, 0.2], 1.0));
    let full = Kernel::Full(Full::new(&[0.3, -0.2], 1.0, 6.0, &[3.0, 0.0, 0.5, 2.0], &[0.1, 0.2], 1.0).unwrap());
    let counts = Kernel::Multinomial(Multinomial::new(2, 0.7, 1.0));
    vec![
        ("logit, answers", subject(answers(), logit())),
        ("and, answers", subject(answers(), LabelModel::And { classifier: two_labels(true), psi: (2.0, 1.0) })),
        ("cut, answers", subject(answers(), LabelModel::Patterns(Patterns::bernoulli(1.5, &[0.4, 0.7])))),
        ("cut, counts", subject(counts, LabelModel::Patterns(Patterns::multinomial(3, 0.6)))),
        ("logit, reals", subject(reals, LabelModel::Logit { classifier: two_labels(false), patterns: learned(2.0, 2.0) })),
        ("and, full", subject(full, LabelModel::And { classifier: two_labels(false), psi: (1.0, 1.5) })),
    ]
}

#[test]
fn one_sweep_keeps_the_joint_distribution() {
    for (name, subject) in subjects() {
        let settings = InvarianceSettings { draws: 40_000, false_alarm_rate: 1e-3 };
        let report = sweep_invariance(&subject, &settings, 5, &mut |_| ()).unwrap();
        assert!(report.passed, "{name}: {report}");
    }
}

#[test]
fn chains_keep_to_the_prior() {
    for (name, subject) in subjects().into_iter().take(4) {
        let settings = JointSettings { chains: 64, steps: 150, exact_draws: 30_000, false_alarm_rate: 1e-3 };
        let report = joint_distribution(&subject, &settings, 6, &mut |_| ()).unwrap();
        assert!(report.passed, "{name}: {report}");
    }
}

/// All three checks with little evidence, as a user asks for them: ranks of the truth among draws, from the sampler's own start.
#[test]
fn all_checks_of_the_default_coupling() {
    let effort = Effort {
        invariance: InvarianceSettings { draws: 500, ..Default::default() },
        joint: JointSettings { chains: 16, steps: 20, exact_draws: 500, ..Default::default() },
        calibration: CalibrationSettings { data_sets: 80, ..Default::default() },
    };
    for (name, subject) in subjects().into_iter().take(2) {
        for report in check(&subject, &effort, 7, &mut |_| ()).unwrap() {
            println!("{report}");
            assert!(report.passed, "{name}: {report}");
        }
    }
}
