//! The joint-distribution test of whole sweeps, and of how a chain is saved.

use super::super::components::{Family, Matrix, Prior};
use super::super::draws::Draw;
use super::super::sampler::tests::{bind, known};
use super::super::sampler::{PathMove, Rules, Theta};
use super::super::state::Concentrations;
use super::*;
use crate::check::{CheckReport, JointSettings, joint_distribution};
use crate::data::blocks;
use crate::run::{Program, Purpose, Rows, Shape, Stream, Threads, Tick};

fn six_rows() -> Generator {
    Generator {
        rows: 6,
        cols: 2,
        kernel: known(&[0.0, 0.0, 1.0, 1.0], 2, 0.5, 2.0),
        concentrations: Concentrations { alpha: vec![0.8; 2], gamma: vec![1.0; 2], gamma0: 1.2 },
        rules: Rules::default(),
        finite: None,
    }
}

fn joint(generator: Generator, chains: u32, seed: u64) -> CheckReport {
    let settings = JointSettings { chains, steps: 60, exact_draws: 20_000, false_alarm_rate: 1e-4 };
    joint_distribution(&Subject::new(generator), &settings, seed, &mut |_| ()).unwrap()
}

#[test]
fn long_sweeps_keep_the_joint_distribution() {
    let report = joint(six_rows(), 400, 1);
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
        let report = joint(generator, 150, 10 + i as u64);
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
        let report = joint(Generator { kernel, ..six_rows() }, 150, 20 + i as u64);
        assert!(report.passed, "{}: {report}", family.name());
    }
}

/// A chain that is saved and goes on makes the draws that it would have made, whatever the blocks; draws are read as they were written.
#[test]
fn a_chain_goes_on_as_if_it_had_never_stopped() {
    let subject = Subject::new(Generator { rows: 30, rules: Rules { learn: true, ..Rules::default() }, ..six_rows() });
    let mut rng = Stream::new(5, 0, Purpose::Check).rng();
    let unknowns = crate::check::Generative::prior(&subject.generator, &mut rng).unwrap();
    let data = subject.tiny_data(&unknowns, &mut rng).unwrap();
    let run = |block_rows: usize, stop: Option<u64>| {
        let cut = blocks(&data, block_rows);
        let shape = Shape { rows: 30, cols: 2, blocks: cut.len() as u32, block_rows };
        let mut rows = Threads::new(&subject.program, &cut, shape, 3, 0, None);
        rows.begin(0);
        let mut chain = subject.program.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
        for sweep in 1..=20 {
            rows.begin(sweep);
            let tick = Tick { stream: Stream::new(3, 0, Purpose::Sweep).sweep(sweep), sweep, warm_up: false };
            subject.program.sweep(&mut chain, &mut rows as &mut dyn Rows<Sequential>, tick).unwrap();
            if stop == Some(sweep) {
                // NaN in figures is for what nobody shares: text has no word for it
                let saved = serde_json::to_vec(&chain.state).unwrap();
                chain = Chain { state: serde_json::from_slice(&saved).unwrap(), x: vec![], ..chain };
            }
        }
        chain
    };
    let whole = run(7, None);
    assert_eq!(run(7, Some(9)).state, whole.state);
    assert_eq!(run(30, None).state, whole.state);

    let draw = Draw::of(&whole.state, whole.figures);
    let mut kept = crate::run::Draws::default();
    for _ in 0..2 {
        draw.write(&mut kept);
        kept.finish();
    }
    let piece = crate::run::Piece { draws: kept, ..Default::default() };
    let read = Draw::read(&piece, subject.program.kernel.parameters(), 0).unwrap();
    for again in read {
        let shared = (draw.figures.shared, again.figures.shared);
        assert!(shared.0.is_nan() && shared.1.is_nan());
        let figures = draw.figures;
        assert_eq!(Draw { figures, ..again }, draw);
    }
    let (arena, leaves) = draw.tree();
    assert_eq!(arena.by_first_row(&leaves).concat().len(), draw.nodes());
    let alpha = &whole.state.concentrations.alpha;
    assert!((arena.ln_prior(alpha) - whole.state.arena.ln_prior(alpha)).abs() < 1e-9);
}
