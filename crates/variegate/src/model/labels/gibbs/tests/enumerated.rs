//! Chains over four rows, all of whose partitions can be looked at; labels by quadrature.

use super::super::draws::{Draw, read};
use super::runs::PACE;
use super::*;
use crate::dist::quadrature::panel;
use crate::model::labels::and::And;
use crate::model::labels::bound::Bound;
use crate::model::labels::classifier::{Loss, hinge_probability};
use crate::model::labels::cut::Cut;
use crate::model::labels::enumerated::*;
use crate::model::labels::kernel::{Diagonal, Kernel, Multinomial, Scratch};
use crate::model::labels::logit::Form;
use crate::model::labels::patterns::Patterns;
use crate::model::labels::sampled::{DrawStage, Sampled};
use crate::model::labels::settings::CombineKind;
use crate::model::labels::stage::Answer;
use crate::run::{Memory, Plan, Schedule, Unobserved, drive};
use crate::special::sigmoid;

/// Means of figures of (state, components of rows) over a chain must be these, within four standard errors of batch means.
fn chain(name: &str, sampler: &Gibbs, data: &Dataset<'_>, sweeps: u64, exact: &Exact) {
    const BATCHES: u64 = 50;
    let blocks = blocks(data, 2);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: 2 };
    let mut rows = Threads::new(sampler, &blocks, shape, 3, 0, None);
    let mut state = sampler.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
    let told: Vec<f64> = [exact.components()].into_iter().chain(exact.pairs()).collect();
    let (burn, each) = (200, sweeps / BATCHES);
    let mut means = vec![vec![0.0; told.len()]; BATCHES as usize];
    for sweep in 1..=burn + each * BATCHES {
        rows.begin(sweep);
        let stream = Stream::new(3, 0, Purpose::Sweep).sweep(sweep);
        sampler.sweep(&mut state, &mut rows, Tick { stream, sweep, warm_up: false }).unwrap();
        if sweep > burn {
            let z: Vec<u32> = rows.locals().iter().flat_map(|l| l.z.iter().copied()).collect();
            let mut figures = vec![state.occupied() as f64];
            for i in 0..z.len() {
                figures.extend(z[i + 1..].iter().map(|other| f64::from(u8::from(*other == z[i]))));
            }
            let batch = &mut means[((sweep - burn - 1) / each) as usize];
            batch.iter_mut().zip(figures).for_each(|(m, v)| *m += v / each as f64);
        }
    }
    for (at, told) in told.into_iter().enumerate() {
        let values: Vec<f64> = means.iter().map(|m| m[at]).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
        assert!((mean - told).abs() < 4.0 * error, "{name}, figure {at}: {mean} ± {error} for {told}");
    }
}

#[test]
fn chains_of_patterns_have_the_enumerated_posterior() {
    let data = dataset(&COUNTS, 3, &LABELS, 2);
    for patterns in [dirichlet_half(), beta_half()] {
        let told = exact(&counts(), dense(&COUNTS, 3), &patterns, &LABELS, 1.0);
        let program = sampler(counts(), LabelModel::Patterns(patterns.clone()), Concentration::Fixed(1.0), 3);
        chain(&format!("{patterns:?}"), &program, &data, 60_000, &told);
    }
    // a power is part of the model: statistics, densities and all
    let tempered = Kernel::Multinomial(Multinomial::new(3, 0.5, 0.4));
    let told = exact(&tempered, dense(&COUNTS, 3), &beta_half(), &LABELS, 0.7);
    let program = sampler(tempered, LabelModel::Patterns(beta_half()), Concentration::Fixed(0.7), 2);
    chain("tempered", &program, &data, 40_000, &told);
    let data = dataset(&REALS, 2, &LABELS, 2);
    for kernel in [normal_gamma(), normal_wishart()] {
        let told = exact(&kernel, dense(&REALS, 2), &beta_half(), &LABELS, 1.0);
        chain("Gaussian", &sampler(kernel, LabelModel::Patterns(beta_half()), Concentration::Fixed(1.0), 3), &data, 30_000, &told);
    }
}

/// Over a normal variable of this standard deviation.
fn normal_mean(sd: f64, f: impl Fn(f64) -> f64) -> f64 {
    let density = |v: f64| f(v * sd) * (-0.5 * v * v).exp() / std::f64::consts::TAU.sqrt();
    (-9..9).map(|from| panel(&density, f64::from(from), f64::from(from + 1))).sum()
}

/// How the labels of the rows of one component come about, given w.
type OfGroup = fn(predictors: &[f64], y: &[i8]) -> f64;

/// `logit` with b ~ N(0, 1.5²).
fn logit_group(predictors: &[f64], y: &[i8]) -> f64 {
    let likelihood = |b: f64| predictors.iter().zip(y).map(|(f, &y)| sigmoid(if y == 1 { b + f } else { -b - f })).product();
    normal_mean(1.5, likelihood)
}

/// `and` with ψ ~ Beta(2, 1).
fn and_group(predictors: &[f64], y: &[i8]) -> f64 {
    let likelihood = |psi: f64| {
        let present = |f: f64| psi * sigmoid(f);
        2.0 * psi * predictors.iter().zip(y).map(|(&f, &y)| if y == 1 { present(f) } else { 1.0 - present(f) }).product::<f64>()
    };
    panel(&likelihood, 0.0, 1.0)
}

/// The posterior of partitions with a weight w ~ N(0, 1) of one column for each label.
fn coupled(values: &[f64], design: &[f64], y: &[i8], group: OfGroup) -> Exact {
    let (kernel, x, n) = (normal_gamma(), dense(values, 2), design.len());
    Exact::new(n, |p| {
        let groups = p.iter().max().map_or(0, |m| m + 1);
        let r: Vec<f64> = p.iter().flat_map(|&z| (0..groups).map(move |g| f64::from(u8::from(z == g)))).collect();
        let features: f64 = statistics(&kernel, x, &r, groups).chunks_exact(kernel.size()).map(|s| kernel.ln_marginal(s).unwrap()).sum();
        let labels: f64 = (0..2)
            .map(|c| {
                let given = |w: f64| {
                    (0..groups)
                        .map(|g| {
                            let rows = || (0..n).filter(|&i| p[i] == g && y[2 * i + c] >= 0);
                            group(&rows().map(|i| w * design[i]).collect::<Vec<_>>(), &rows().map(|i| y[2 * i + c]).collect::<Vec<_>>())
                        })
                        .product()
                };
                normal_mean(1.0, given).ln()
            })
            .sum();
        ln_prior(p, 1.0) + features + labels
    })
}

const Y: [i8; 8] = [1, 0, 1, 1, 0, 1, -1, 1];

/// The quadrature itself, against figures that were computed independently.
#[test]
fn coupled_evidences() {
    let design = [0.5, -1.0, 0.8, 1.4];
    let cases: [(OfGroup, f64, f64, [f64; 6]); 2] = [
        (logit_group, -19.83377072, 2.19526385, [0.82581624, 0.03908463, 0.05781091, 0.04465861, 0.06347881, 0.89636817]),
        (and_group, -21.33849687, 2.15560442, [0.84564715, 0.07205934, 0.09361935, 0.06832420, 0.08909959, 0.87997835]),
    ];
    for (group, evidence, components, together) in cases {
        let exact = coupled(&REALS, &design, &Y, group);
        assert!((exact.evidence - evidence).abs() < 2e-8, "{} {evidence}", exact.evidence);
        assert!((exact.components() - components).abs() < 2e-8);
        assert!(exact.pairs().iter().zip(together).all(|(got, want)| (got - want).abs() < 2e-8), "{:?}", exact.pairs());
    }
}

/// The model of either coupling: the classifiers see the first column of the features.
fn coupled_mixture(and: bool) -> Mixture {
    let weights = Logit {
        labels: 2,
        dim: 1,
        intercept: false,
        bias_precision: 1.0,
        weight_precision: Precision::Fixed(1.0),
        pattern_precision: Precision::Fixed(1.0 / 2.25),
        bound: Bound::JaakkolaJordan,
        form: Form::Full,
    };
    let first = Design { kept: vec![0], mean: vec![0.0], scale: vec![1.0], ..Design::identity(2, false) };
    let labels = if and { LabelPart::And(And { weights, pattern_prior: (2.0, 1.0) }) } else { LabelPart::Logit(weights) };
    Mixture { inputs: Inputs::plain(first), kernel: normal_gamma(), labels, concentration: Concentration::Fixed(1.0) }
}

/// Chains of both couplings.
#[test]
fn coupled_chains_have_the_enumerated_posterior() {
    let design: Vec<f64> = REALS.iter().step_by(2).copied().collect();
    let data = dataset(&REALS, 2, &Y, 2);
    for (name, and, group) in [("logit", false, logit_group as OfGroup), ("and", true, and_group)] {
        chain(name, &Gibbs::of(coupled_mixture(and), 3), &data, 40_000, &coupled(&REALS, &design, &Y, group));
    }
}

/// Draws of a chain.
fn drawn(mixture: &Mixture, data: &Dataset<'_>, draws: u64) -> Vec<Draw> {
    let plan = Plan { seed: 4, chains: 1, schedule: Schedule::Sample { warm_up: 200, draws, thin: 1 }, block_rows: 2 };
    let mut kept = Memory::default();
    drive(&Gibbs::of(mixture.clone(), 3), data, &plan, PACE, &mut kept, &mut Unobserved).unwrap();
    read(&kept.chains.iter().collect::<Vec<_>>()).unwrap().0
}

/// What one draw says of a row: its density, computed here, and probabilities of labels given some known ones.
fn said(mixture: &Mixture, draw: &Draw, x: &[f64], known: &[i8]) -> (f64, Vec<f64>) {
    let kernel = &mixture.kernel;
    let row = dense(x, x.len());
    let mut densities = vec![0.0; draw.components()];
    kernel.table_of(&draw.parameters, draw.components()).evaluate(row, &mut densities, &mut Scratch::default());
    let new = kernel.ln_marginal(&statistics(kernel, row, &[1.0], 1)).unwrap();
    let terms = densities.iter().zip(&draw.ln_weights).map(|(d, w)| d + w).chain([new + draw.ln_remaining]);
    let density = terms.map(f64::exp).sum();
    let labels = draw.patterns.len() / draw.components();
    let alone = Sampled::new(mixture, 3.0, vec![draw.clone()], vec![1]);
    let stage = DrawStage::new(mixture, &alone, CombineKind::Mean, vec![0.5; labels], true);
    let told = stage.panel(row, known);
    let (shares, within) = told.components_of(0);
    let mut p = vec![0.0; labels];
    shares.iter().zip(within.chunks_exact(labels)).for_each(|(s, w)| p.iter_mut().zip(w).for_each(|(p, w)| *p += s * w));
    for (c, (p, told)) in p.iter().zip(told.probability()).enumerate() {
        let expected = match &mixture.labels {
            // the mean with what the classifier says
            LabelPart::Cut(cut) => {
                let w = &draw.weights[c * (x.len() + 1)..];
                let f = w[x.len()] + x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
                0.5 * (p + if cut.classifier.loss == Loss::Hinge { hinge_probability(f) } else { sigmoid(f) })
            }
            _ => *p,
        };
        assert!((expected - told).abs() < 1e-6, "{expected} {told}");
    }
    (density, p)
}

/// The mean of numbers that a chain gave must be 0, within four standard errors of batch means.
fn vanishes(name: &str, values: &[f64]) {
    let means: Vec<f64> = values.chunks_exact(values.len() / 50).map(|v| v.iter().sum::<f64>() / v.len() as f64).collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let error = (means.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
    assert!(mean.abs() < 4.0 * error, "{name}: {mean} ± {error}");
}

/// Draws have the exact posterior predictive: with the density of the new row under each draw as its weight, the mean of what draws say of
/// labels is P(y | x, data). Three figures, z below 4: a false alarm in five thousand.
#[test]
fn draws_of_patterns_have_the_exact_predictive() {
    let prior = match coupled_mixture(false).labels {
        LabelPart::Logit(prior) => Logit { dim: 4, intercept: true, ..prior },
        _ => unreachable!(),
    };
    let classifier =
        crate::model::labels::classifier::Classifier { prior, prior_mean: vec![], loss: Loss::Logistic, class_weights: vec![] };
    let labels = LabelPart::Cut(Cut { patterns: beta_half(), classifier });
    let inputs = Inputs::plain(Design::identity(3, true));
    let mixture = Mixture { inputs, kernel: counts(), labels, concentration: Concentration::Fixed(1.0) };
    let x = [1.0, 1.0, 1.0];
    let draws = drawn(&mixture, &dataset(&COUNTS, 3, &LABELS, 2), 20_000);
    let found: Vec<(f64, Vec<f64>)> = draws.iter().map(|d| said(&mixture, d, &x, &[])).collect();
    // six orders of three words
    let density = (-2.74884475f64).exp() / 6.0;
    vanishes("density", &found.iter().map(|(d, _)| d / density - 1.0).collect::<Vec<_>>());
    for (c, exact) in [0.53575396, 0.61984221].into_iter().enumerate() {
        vanishes("labels", &found.iter().map(|(d, p)| d * (p[c] - exact)).collect::<Vec<_>>());
    }
}

/// The same of both couplings, and with one label of the new row known: a row between the known ones, and one beyond them, where a
/// component without rows has much to say. Sixteen figures, z below 4: a false alarm in a thousand.
#[test]
fn long_coupled_draws_have_the_exact_predictive() {
    let data = dataset(&REALS, 2, &Y, 2);
    for (name, and, group) in [("logit", false, logit_group as OfGroup), ("and", true, and_group)] {
        let mixture = coupled_mixture(and);
        let draws = drawn(&mixture, &data, 12_000);
        for x in [[1.2, 0.0], [-3.0, 1.5]] {
            let values = [&REALS[..], &x].concat();
            let design: Vec<f64> = values.iter().step_by(2).copied().collect();
            let evidence = |new: [i8; 2]| coupled(&values, &design, &[&Y[..], &new].concat(), group).evidence;
            let (none, first, second) = (evidence([-1, -1]), evidence([1, -1]), evidence([-1, 1]));
            let before = coupled(&REALS, &design[..4], &Y, group).evidence;
            let found: Vec<(f64, Vec<f64>)> = draws.iter().map(|d| said(&mixture, d, &x, &[])).collect();
            vanishes(name, &found.iter().map(|(d, _)| d / (none - before).exp() - 1.0).collect::<Vec<_>>());
            for (c, exact) in [(first - none).exp(), (second - none).exp()].into_iter().enumerate() {
                vanishes(name, &found.iter().map(|(d, p)| d * (p[c] - exact)).collect::<Vec<_>>());
            }
            // one row lacks the second label, and it has the first
            let exact = (evidence([1, 0]) - evidence([-1, 0])).exp();
            let given = draws.iter().zip(&found).map(|(draw, (d, p))| d * (1.0 - p[1]) * (said(&mixture, draw, &x, &[-1, 0]).1[0] - exact));
            vanishes(name, &given.collect::<Vec<_>>());
            // what is told in the end is the plain mean: a row does not choose among draws
            let some = Sampled::new(&mixture, 1.0, draws[..64].to_vec(), vec![64]);
            let told = DrawStage::new(&mixture, &some, CombineKind::Mean, vec![0.5; 2], false).panel(dense(&x, 2), &[]);
            for (c, p) in told.probability().iter().enumerate() {
                let mean = found[..64].iter().map(|(_, p)| p[c] / 64.0).sum::<f64>();
                assert!((p - mean).abs() < 1e-6, "{name} {p} {mean}");
            }
        }
    }
}

/// Classifiers that are fitted apart have their own posterior: two weights, whose means are known by quadrature. Four figures, z below 4.
#[test]
fn classifiers_apart_have_their_posterior() {
    let data = dataset(&[-1.2, -0.4, 0.1, 0.7, 1.5, -0.9], 1, &[0, 0, 1, 0, 1, 1], 1);
    for (loss, weight, bias) in [(Loss::Logistic, 0.40473653, 0.01803091), (Loss::Hinge, 0.66663829, -0.02506267)] {
        let prior = Logit {
            labels: 1,
            dim: 2,
            intercept: true,
            bias_precision: 0.25,
            weight_precision: Precision::Fixed(1.0),
            pattern_precision: Precision::Fixed(1.0),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        };
        let classifier = apart::Classifier { prior, prior_mean: vec![], loss, class_weights: vec![] };
        let labels = LabelPart::Cut(Cut { patterns: Patterns::bernoulli(1.0, &[0.5]), classifier });
        let kernel = Kernel::Diagonal(Diagonal::new(&[0.0], 0.1, 2.0, &[1.0], &[0.0], 1.0));
        let inputs = Inputs::plain(Design::identity(1, true));
        let mixture = Mixture { inputs, kernel, labels, concentration: Concentration::Fixed(1.0) };
        let draws = drawn(&mixture, &data, 20_000);
        draws[..9].iter().for_each(|d| assert!(said(&mixture, d, &[0.4], &[]).0 > 0.0));
        vanishes("weight", &draws.iter().map(|d| d.weights[0] - weight).collect::<Vec<_>>());
        vanishes("bias", &draws.iter().map(|d| d.weights[1] - bias).collect::<Vec<_>>());
    }
}
