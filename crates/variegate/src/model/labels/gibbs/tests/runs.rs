//! What runs rely on: draws that can be read back, the same bits whoever holds the rows, sparse rows, and tiny data.

use std::sync::Arc;
use std::time::Duration;

use super::super::draws::read;
use super::*;
use crate::model::labels::bound::Bound;
use crate::model::labels::classifier::Loss;
use crate::model::labels::enumerated::*;
use crate::model::labels::kernel::{Bernoulli, Kernel, Multinomial};
use crate::model::labels::logit::Form;
use crate::model::labels::patterns::Patterns;
use crate::run::{Engine, Loopback, Memory, Pace, Plan, Schedule, Unobserved, drive, drive_on, shape_of};

pub(super) const PACE: Pace = Pace { threads: 2, commit_every: Duration::from_secs(600), memory: None };

fn plan(draws: u64) -> Plan {
    Plan { seed: 8, chains: 2, schedule: Schedule::Sample { warm_up: 5, draws, thin: 1 }, block_rows: 2 }
}

fn run(sampler: &Gibbs, data: &Dataset<'_>, draws: u64) -> Memory {
    let mut kept = Memory::default();
    drive(sampler, data, &plan(draws), PACE, &mut kept, &mut Unobserved).unwrap();
    kept
}

/// A sampler of each coupling, and those of classifiers that are fitted apart.
fn samplers(cols: usize) -> [Gibbs; 5] {
    let kernel = || Kernel::Multinomial(Multinomial::new(cols, 0.5, 1.0));
    let alpha = Concentration::Random(GammaFactor::new(1.0, 1.0));
    let classifier = || Classifier { labels: 2, dim: cols + 1, intercept: true, bias_precision: 0.01, weight_precision: learned(0.5, 0.5) };
    let inputs = || Inputs::plain(Design { scale: vec![2.0; cols], ..Design::identity(cols, true) });
    let apart = |loss: Loss| {
        let prior = Logit {
            labels: 2,
            dim: cols + 1,
            intercept: true,
            bias_precision: 0.01,
            weight_precision: learned(0.5, 0.5),
            pattern_precision: learned(0.5, 0.5),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        };
        Some(apart::Classifier { prior, prior_mean: Vec::new(), loss, class_weights: Vec::new() })
    };
    let patterns = || LabelModel::Patterns(Patterns::bernoulli(1.0, &[0.5; 2]));
    [
        (LabelModel::Logit { classifier: classifier(), patterns: learned(0.5, 0.5) }, None),
        (LabelModel::And { classifier: classifier(), psi: (4.0, 1.0) }, None),
        (patterns(), None),
        (patterns(), apart(Loss::Logistic)),
        (patterns(), apart(Loss::Hinge)),
    ]
    .map(|(labels, apart)| Gibbs { inputs: inputs(), apart, ..sampler(kernel(), labels, alpha, 3) })
}

const Y: [i8; 8] = [1, 0, 1, 1, 0, 1, -1, 1];

#[test]
fn draws_are_read_back() {
    let data = dataset(&COUNTS, 3, &Y, 2);
    for sampler in samplers(3) {
        let kept = run(&sampler, &data, 6);
        let (draws, lengths) = read(&kept.chains.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((draws.len(), &lengths[..]), (12, &[6, 6][..]));
        for draw in &draws {
            let held = draw.components();
            assert!(draw.rows.iter().all(|n| *n > 0) && draw.ln_weights.len() == held);
            let mass: f64 = draw.ln_weights.iter().map(|w| w.exp()).sum::<f64>() + draw.ln_remaining.exp();
            assert!((mass - 1.0).abs() < 1e-12 && draw.rows.iter().sum::<u64>() == 4);
            assert_eq!((draw.parameters.len(), draw.patterns.len()), (3 * held, 2 * held));
            // label 1 is present in two rows and known of three, label 2 in three of four
            let sum = |of: &[f64], c: usize| of.iter().skip(c).step_by(2).sum::<f64>();
            assert_eq!((sum(&draw.present, 0), sum(&draw.known, 0)), (2.0, 3.0));
            assert_eq!((sum(&draw.present, 1), sum(&draw.known, 1)), (3.0, 4.0));
            assert!(draw.ln_joint.is_finite() && draw.ln_likelihood < 0.0 && draw.alpha > 0.0);
            let (weights, precisions) = match sampler.labels {
                LabelModel::Logit { .. } => (8, (2, 2)),
                LabelModel::And { .. } => (8, (2, 0)),
                LabelModel::Patterns(_) if sampler.apart.is_some() => (8, (2, 0)),
                LabelModel::Patterns(_) => (0, (0, 0)),
            };
            assert_eq!((draw.weights.len(), (draw.weight_precision.len(), draw.pattern_precision.len())), (weights, precisions));
        }
        // the last draw is the state that was left
        let state: State = crate::run::saved_global::<Gibbs>(&kept.chains[0].checkpoint).unwrap();
        let patterns = state.point.patterns.chunks_exact(2).zip(&state.counts).filter(|(_, n)| **n > 0);
        let patterns: Vec<f64> = patterns.flat_map(|(p, _)| p.to_vec()).collect();
        assert_eq!((&draws[5].weights, &draws[5].patterns), (&state.point.weights, &patterns));
        assert_eq!(state.seen.iter().collect::<Vec<_>>(), [&[0][..], &[0, 1], &[1]]);
    }
}

#[test]
fn workers_give_the_bits_of_threads() {
    let data = dataset(&COUNTS.repeat(3), 3, &Y.repeat(3), 2);
    for sampler in samplers(3) {
        let here = run(&sampler, &data, 10);
        let shape = shape_of(&data, Some(2)).unwrap();
        for (cuts, death) in [(&[2][..], None), (&[1, 4], Some(23)), (&[3], Some(12))] {
            let workers = Loopback::new(Arc::new(sampler.clone()), &data, shape, cuts).unwrap();
            let workers = death.into_iter().fold(workers, Loopback::killing);
            let mut there = Memory::default();
            drive_on(Engine::Workers(&workers), shape, &sampler, &plan(10), PACE, &mut there, &mut Unobserved).unwrap();
            for (here, there) in here.chains.iter().zip(&there.chains) {
                assert!(here.draws == there.draws && here.checkpoint == there.checkpoint, "{cuts:?} {death:?}");
            }
        }
    }
}

/// Sparse rows go through other products, which round differently: the first draws agree to many digits.
#[test]
fn sparse_rows_give_the_draws_of_dense_ones() {
    let data = dataset(&COUNTS, 3, &Y, 2);
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in COUNTS.chunks_exact(3) {
        for (j, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(*v);
        }
        indptr.push(values.len());
    }
    let x = Matrix::Csr { rows: 4, cols: 3, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    let sparse = Dataset { x, ..data.clone() };
    for sampler in samplers(3) {
        let (a, b) = (run(&sampler, &data, 3), run(&sampler, &sparse, 3));
        let (a, b) = (&a.chains[0].draws, &b.chains[0].draws);
        assert_eq!(a.components.rows(), b.components.rows());
        let pairs = a.scalars.values.iter().zip(&b.scalars.values).chain(a.components.values.iter().zip(&b.components.values));
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * (1.0 + a.abs()), "{a} {b}"));
    }
}

#[test]
fn tiny_data() {
    // one row, no columns, nothing known, empty sets
    let none = dataset(&[], 0, &[1, 0], 2);
    let kernel = Kernel::Bernoulli(Bernoulli::new(1.0, &[], 1.0));
    let alpha = Concentration::Random(GammaFactor::new(1.0, 1.0));
    let sampler = sampler(kernel, LabelModel::Patterns(beta_half()), alpha, 5);
    let none = Dataset { x: Matrix::dense(1, 0, Vec::new()), ..none };
    assert_eq!(run(&sampler, &none, 4).chains[0].draws.count, 4);
    for sampler in samplers(1) {
        for y in [[-1, -1, -1, -1], [0, 0, 0, 0], [1, 1, 1, 1]] {
            assert_eq!(run(&sampler, &dataset(&[3.0, 0.0], 1, &y, 2), 4).chains[0].draws.count, 4);
        }
        assert_eq!(run(&sampler, &dataset(&[3.0], 1, &[1, 0], 2), 4).chains[0].draws.count, 4);
    }
}

/// More components than a sweep may hold are refused in words.
#[test]
fn too_many_components() {
    let mut sampler = samplers(3)[2].clone();
    (sampler.alpha, sampler.most) = (Concentration::Fixed(50.0), 10);
    let mut kept = Memory::default();
    let error = drive(&sampler, &dataset(&COUNTS, 3, &Y, 2), &plan(3), PACE, &mut kept, &mut Unobserved).unwrap_err().to_string();
    assert!(error.contains("more than 10 components"), "{error}");
}

/// The first draws of each model.
#[test]
fn pinned_draws() {
    let data = dataset(&COUNTS, 3, &Y, 2);
    let got = samplers(3).map(|sampler| {
        let (draws, _) = read(&run(&sampler, &data, 2).chains.iter().collect::<Vec<_>>()).unwrap();
        let draw = &draws[0];
        // classifiers that are fitted apart have a chain of their own, beside that of the third sampler
        let last = if sampler.apart.is_some() { draws[3].weights[1] } else { draws[3].ln_joint };
        [draw.ln_joint, draw.alpha, draw.ln_weights[0], draw.parameters[0], draw.patterns[0], last]
    });
    let pinned: [[f64; 6]; 5] = [
        [-18.726672336874326, 0.6160468401397496, -1.100550129299013, -0.28205463949076837, 0.7167089603744262, -20.263575718815034],
        [-20.95715382340933, 0.6160468401397496, -1.100550129299013, -0.28205463949076837, 3.7270129439504163, -21.710957669416764],
        [-18.03885359758693, 0.5652341748121262, -1.1000181596387264, -0.28205463949076837, 4.55647628398636, -22.91436756418342],
        [-18.03885359758693, 0.5652341748121262, -1.1000181596387264, -0.28205463949076837, 4.55647628398636, -2.985503982103306],
        [-18.03885359758693, 0.5652341748121262, -1.1000181596387264, -0.28205463949076837, 4.55647628398636, -2.0347204596842623],
    ];
    let pairs = got.as_flattened().iter().zip(pinned.as_flattened());
    pairs.for_each(|(g, p)| assert!((g - p).abs() <= 1e-9 * (1.0 + p.abs()), "{got:?}"));
}
