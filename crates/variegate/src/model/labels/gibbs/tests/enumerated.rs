//! Chains over four rows, all of whose partitions can be looked at; labels by quadrature.

use super::*;
use crate::dist::quadrature::panel;
use crate::model::labels::enumerated::*;
use crate::model::labels::kernel::{Diagonal, Kernel, Multinomial};
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
        let sampler = Gibbs::new(counts(), LabelModel::Patterns(patterns.clone()), Concentration::Fixed(1.0), 3);
        chain(&format!("{patterns:?}"), &sampler, &data, 60_000, &told);
    }
    // a power is part of the model: statistics, densities and all
    let tempered = Kernel::Multinomial(Multinomial::new(3, 0.5, 0.4));
    let told = exact(&tempered, dense(&COUNTS, 3), &beta_half(), &LABELS, 0.7);
    let sampler = Gibbs::new(tempered, LabelModel::Patterns(beta_half()), Concentration::Fixed(0.7), 2);
    chain("tempered", &sampler, &data, 40_000, &told);
    let data = dataset(&REALS, 2, &LABELS, 2);
    for kernel in [normal_gamma(), normal_wishart()] {
        let told = exact(&kernel, dense(&REALS, 2), &beta_half(), &LABELS, 1.0);
        chain("Gaussian", &Gibbs::new(kernel, LabelModel::Patterns(beta_half()), Concentration::Fixed(1.0), 3), &data, 30_000, &told);
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
fn coupled(design: &[f64], y: &[i8], group: OfGroup) -> Exact {
    let (kernel, x) = (normal_gamma(), dense(&REALS, 2));
    Exact::new(4, |p| {
        let groups = p.iter().max().map_or(0, |m| m + 1);
        let r: Vec<f64> = p.iter().flat_map(|&z| (0..groups).map(move |g| f64::from(u8::from(z == g)))).collect();
        let features: f64 = statistics(&kernel, x, &r, groups).chunks_exact(kernel.size()).map(|s| kernel.ln_marginal(s).unwrap()).sum();
        let labels: f64 = (0..2)
            .map(|c| {
                let given = |w: f64| {
                    (0..groups)
                        .map(|g| {
                            let rows = || (0..4).filter(|&i| p[i] == g && y[2 * i + c] >= 0);
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
        let exact = coupled(&design, &Y, group);
        assert!((exact.evidence - evidence).abs() < 2e-8, "{} {evidence}", exact.evidence);
        assert!((exact.components() - components).abs() < 2e-8);
        assert!(exact.pairs().iter().zip(together).all(|(got, want)| (got - want).abs() < 2e-8), "{:?}", exact.pairs());
    }
}

/// Chains of both couplings: the classifiers see the first column of the features.
#[test]
fn coupled_chains_have_the_enumerated_posterior() {
    let design: Vec<f64> = REALS.iter().step_by(2).copied().collect();
    let data = dataset(&REALS, 2, &Y, 2);
    let kernel = || Kernel::Diagonal(Diagonal::new(&[0.0; 2], 0.1, 2.0, &[1.0; 2], &[1.15, 0.1], 1.0));
    let classifier = || classifier(2, vec![0], 2, Precision::Fixed(1.0));
    let logit = LabelModel::Logit { classifier: classifier(), patterns: Precision::Fixed(1.0 / 2.25) };
    let sampler = Gibbs::new(kernel(), logit, Concentration::Fixed(1.0), 3);
    chain("logit", &sampler, &data, 40_000, &coupled(&design, &Y, logit_group));
    let sampler = Gibbs::new(kernel(), LabelModel::And { classifier: classifier(), psi: (2.0, 1.0) }, Concentration::Fixed(1.0), 3);
    chain("and", &sampler, &data, 40_000, &coupled(&design, &Y, and_group));
}
