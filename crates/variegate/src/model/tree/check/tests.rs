//! The joint-distribution test of whole sweeps, and of how a chain is saved.

use super::super::components::{Family, Matrix, Prior};
use super::super::draws::{Draw, Figures};
use super::super::generate::Given;
use super::super::margin::{Calibration, Margin, Penalty};
use super::super::sampler::tests::{bind, known};
use super::super::sampler::{OwnMargin, PathMove, Rules, Theta};
use super::super::state::Concentrations;
use super::*;
use crate::check::{CheckReport, InvarianceSettings, JointSettings, joint_distribution, sweep_invariance};
use crate::data::blocks;
use crate::run::{Program, Purpose, Rows, Shape, Stream, Threads, Tick, pool};

fn six_rows() -> Generator {
    Generator {
        rows: 6,
        cols: 2,
        total: None,
        kernel: known(&[0.0, 0.0, 1.0, 1.0], 2, 0.5, 2.0),
        concentrations: Concentrations { alpha: vec![0.8; 2], gamma: vec![1.0; 2], gamma0: 1.2 },
        rules: Rules::default(),
        finite: None,
        margin: None,
    }
}

fn joint(generator: Generator, choose: Choose, chains: u32, seed: u64) -> CheckReport {
    let settings = JointSettings { chains, steps: 60, exact_draws: 20_000, false_alarm_rate: 1e-4 };
    joint_distribution(&Subject::new(generator, choose), &settings, seed, &mut |_| ()).unwrap()
}

#[test]
fn long_sweeps_keep_the_joint_distribution() {
    let report = joint(six_rows(), Choose::InTurn, 400, 1);
    assert!(report.passed, "{report}");
    // known from forward draws of an independent program
    for (name, known) in [("components", 1.913), ("nodes, level 1", 2.252), ("nodes, level 2", 3.416), ("rest, level 0", 0.301)] {
        let direct = report.comparisons.iter().find(|c| c.name == name).unwrap().expected;
        assert!((direct - known).abs() < 0.04, "{name}: {direct}, not {known}");
    }
}

#[test]
fn long_variants_keep_the_joint_distribution() {
    let six = six_rows();
    let rules = |rules: Rules| Generator { rules, ..six.clone() };
    let cases = [
        ("drawn parameters, prior proposals", rules(Rules { theta: Theta::Explicit, path_move: PathMove::Prior, ..Rules::default() })),
        ("learned concentrations", rules(Rules { learn: true, ..Rules::default() })),
        ("a finite mixture", Generator { finite: Some(3), rules: Rules { learn: true, ..Rules::default() }, ..six.clone() }),
    ];
    for (i, (what, generator)) in cases.into_iter().enumerate() {
        let report = joint(generator, Choose::InTurn, 150, 10 + i as u64);
        assert!(report.passed, "{what}: {report}");
    }
}

/// The paper's sweep keeps another distribution, and that is found out.
#[test]
fn the_sweep_of_the_paper_fails() {
    let rules = Rules { paper: Some(OwnMargin::Scales), theta: Theta::Explicit, ..Rules::default() };
    let report = joint(Generator { rules, ..six_rows() }, Choose::InTurn, 60, 90);
    assert!(!report.passed, "{report}");
}

/// Rows that choose all at once.
#[test]
fn long_parallel_samplers_keep_the_joint_distribution() {
    for (i, choose) in [Choose::Slices, Choose::Anchors].into_iter().enumerate() {
        let report = joint(six_rows(), choose, 200, 30 + i as u64);
        assert!(report.passed, "{choose:?}: {report}");
        let finite = Generator { finite: Some(3), ..six_rows() };
        let report = joint(finite, choose, 100, 40 + i as u64);
        assert!(report.passed, "{choose:?}, finite: {report}");
    }
}

/// One sweep from exact draws: far sharper than a chain.
#[test]
fn long_a_parallel_sweep_keeps_the_distribution() {
    for (i, choose) in [Choose::Slices, Choose::Anchors].into_iter().enumerate() {
        let settings = InvarianceSettings { draws: 20_000, false_alarm_rate: 1e-4 };
        let report = sweep_invariance(&Subject::new(six_rows(), choose), &settings, 50 + i as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{choose:?}: {report}");
    }
}

/// The margin: both targets, both penalties, all samplers that know it.
#[test]
fn long_a_margin_keeps_the_joint_distribution() {
    // few rows and a small C: trees and scores are drawn by rejection
    let (width, separation) = (2, 0.15);
    let features: Vec<f64> = [1.3, -0.8, 0.5, -1.6, 0.2, 1.1, -1.0, -0.4].to_vec();
    let margin = Margin { separation, margin: 0.5, spread: 1.0, penalty: Penalty::Max };
    let norms: Vec<f64> = features.chunks(2).map(|phi| (phi[0] * phi[0] + phi[1] * phi[1]).sqrt()).collect();
    let calibration = Calibration::new(&margin, &norms).unwrap();
    let stated = Given { margin, features, width, calibration: None };
    let sum = Given { margin: Margin { separation: 0.1, penalty: Penalty::Sum, ..margin }, ..stated.clone() };
    let calibrated = Given { calibration: Some(calibration), ..stated.clone() };
    let cases = [
        ("stated", stated.clone(), Choose::InTurn),
        ("sum", sum, Choose::InTurn),
        ("calibrated", calibrated.clone(), Choose::InTurn),
        ("stated, anchors", stated, Choose::Anchors),
        ("calibrated, anchors", calibrated, Choose::Anchors),
    ];
    for (i, (what, given, choose)) in cases.into_iter().enumerate() {
        let generator = Generator { rows: 4, margin: Some(given), ..six_rows() };
        let settings = InvarianceSettings { draws: 10_000, false_alarm_rate: 1e-4 };
        let subject = Subject::new(generator.clone(), choose);
        let report = sweep_invariance(&subject, &settings, 60 + i as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{what}: {report}");
        let settings = JointSettings { chains: 100, steps: 40, exact_draws: 5_000, false_alarm_rate: 1e-4 };
        let report = joint_distribution(&subject, &settings, 70 + i as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{what}: {report}");
    }
}

/// The other families of components, with what they learn.
#[test]
fn long_families_keep_the_joint_distribution() {
    let base = Some(vec![0.4, 0.7]);
    let cases = [
        (
            Family::GaussianDiag,
            Prior { mean: Some(vec![0.0]), mean_strength: Some(0.5), precision_rate: Some(vec![1.0]), ..Prior::default() },
        ),
        (Family::GaussianTied, Prior { mean_covariance: Some(Matrix::Multiple(1.0)), variance_rate: Some(1.0), ..Prior::default() }),
        (Family::Bernoulli, Prior { base, ..Prior::default() }),
    ];
    for (i, (family, prior)) in cases.into_iter().enumerate() {
        let kernel = bind(family, &prior, &[0.0, 1.0, 1.0, 0.0], 2);
        let report = joint(Generator { kernel, ..six_rows() }, Choose::InTurn, 150, 20 + i as u64);
        assert!(report.passed, "{}: {report}", family.name());
    }
}

/// A chain that is saved and goes on makes the draws that it would have made; draws are read as they were written.
#[test]
fn a_chain_goes_on_as_if_it_had_never_stopped() {
    for choose in [Choose::InTurn, Choose::Slices, Choose::Anchors] {
        let generator = Generator { rows: 30, ..six_rows() };
        let subject = Subject::new(generator, choose);
        let whole = run(&subject, 7, 2, None);
        assert_eq!(run(&subject, 7, 2, Some(9)).state, whole.state, "{choose:?}");
        assert_eq!(run(&subject, 7, 1, None).state, whole.state, "{choose:?}");
        assert_eq!(run(&subject, 7, 8, None).state, whole.state, "{choose:?}");
        assert_eq!(run(&subject, 30, 1, None).state, whole.state, "{choose:?}");
        whole.state.assert_consistent();
        assert!(whole.state.occupied_atoms() > 1 && whole.state.arena.at_level(2).len() > 2, "too little to compare");
        round_trip(&whole, whole.kernel.parameters());
    }
}

/// Twenty sweeps over thirty rows, on so many threads, saved and read again after one of them.
fn run(subject: &Subject, block_rows: usize, threads: usize, stop: Option<u64>) -> Chain {
    let mut rng = Stream::new(5, 0, Purpose::Check).rng();
    let unknowns = crate::check::Generative::prior(&subject.generator, &mut rng).unwrap();
    let data = subject.tiny_data(&unknowns, &mut rng).unwrap();
    let cut = blocks(&data, block_rows);
    let shape = Shape { rows: 30, cols: 2, blocks: cut.len() as u32, block_rows };
    pool(threads).unwrap().install(|| {
        let mut rows = Threads::new(&subject.program, &cut, shape, 3, 0, None);
        rows.begin(0);
        let mut chain = subject.program.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
        for sweep in 1..=20 {
            rows.begin(sweep);
            let tick = Tick { stream: Stream::new(3, 0, Purpose::Sweep).sweep(sweep), sweep, warm_up: false };
            subject.program.sweep(&mut chain, &mut rows as &mut dyn Rows<TreeSampler>, tick).unwrap();
            if stop == Some(sweep) {
                let saved = serde_json::to_vec(&chain.state).unwrap();
                chain = Chain { state: serde_json::from_slice(&saved).unwrap(), x: vec![], ..chain };
            }
        }
        chain
    })
}

fn round_trip(chain: &Chain, parameters: usize) {
    assert!(chain.figures.shared.is_nan()); // these components share nothing
    let draw = Draw::of(&chain.state, Figures { shared: 0.5, ..chain.figures });
    let mut kept = crate::run::Draws::default();
    for _ in 0..2 {
        draw.write(&mut kept);
        kept.finish();
    }
    let piece = crate::run::Piece { chain: 0, sweeps: 2, draws: kept, trace: vec![], checkpoint: vec![], finished: true };
    for again in Draw::read(&piece, parameters, 0).unwrap() {
        assert_eq!(again, draw);
    }
    let (arena, leaves) = draw.tree();
    assert_eq!(arena.by_first_row(&leaves).concat().len(), draw.nodes());
    let alpha = &chain.state.concentrations.alpha;
    assert!((arena.ln_prior(alpha) - chain.state.arena.ln_prior(alpha)).abs() < 1e-9);
}
