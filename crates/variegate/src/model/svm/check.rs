//! Checks of what has no joint distribution of weights and classes: a hinge cannot be drawn from, so that there is no chain that alternates data
//! and sweeps, and no truth to rank.
//!
//! What can be asked of the sampler: exact draws of the pseudo-posterior of a few rows, by rejection from the prior (a row counts at most 1),
//! stay exact after one sweep; and the means of a chain are those of the pseudo-posterior of two coefficients on a grid. An ascent is checked
//! as those of the other linear classifiers are, on data by the classes' shares.

use rand::Rng;

use super::gibbs::{Gibbs, Point, State};
use super::{Inference, Settings, simulate};
use crate::check::generative::normal_features;
use crate::check::{CheckReport, Comparison, Effort, InvarianceSettings, Progress, one_step_invariance};
use crate::data::{Block, Classes, Dataset, Design, Matrix, Target, blocks};
use crate::model::linear::gamma_factor::Precision;
use crate::model::linear::{Inputs, check as check_ascent};
use crate::run::{Chain, Philox, Program, Purpose, Shape, Stream, Typed, open01};
use crate::special::norm_cdf;
use crate::{Error, Result};

/// Data of the ascents.
const ROWS: usize = 30;
const COLUMNS: usize = 2;
const BLOCK_ROWS: usize = 3;
/// Draws of them until both classes have rows.
const TRIES: u64 = 1000;
/// Proposals for one exact draw.
const MOST_PROPOSALS: u64 = 1_000_000;
/// Sweeps before the first that counts for the moments, and stretches that their errors are taken from.
const WARM_UP: u64 = 500;
const STRETCHES: u64 = 200;
/// The grid of two coefficients: beyond, six rows that no line parts leave nothing of the pseudo-posterior.
const REACH: f64 = 10.0;
const STEP: f64 = 0.02;

/// Runs the checks of the sampler or the ascent that is set.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    if settings.inference == Inference::Gibbs {
        return Ok(vec![invariance(settings, &effort.invariance, seed, progress)?, moments(settings, &effort.invariance, seed, progress)?]);
    }
    let program = settings.ascent(inputs(settings, COLUMNS), None);
    check_ascent(&program, effort.calibration.data_sets / 10, seed, progress, |rng| {
        let mut last = None;
        for _ in 0..TRIES {
            let x = normal_features(ROWS, COLUMNS, rng);
            let data = simulate::classes(&simulate::prior(settings, COLUMNS, 1, rng)?.weights, &x, 2, rng);
            // one class alone could not be fitted, and its bias would take for ever to come to the margin
            let both = matches!(&data.target, Target::Classes(c) if c.codes.contains(&0) && c.codes.contains(&1));
            last = Some(data);
            if both {
                break;
            }
        }
        last.ok_or_else(|| Error::Unfit("nothing was drawn".into()))
    })
}

fn inputs(settings: &Settings, columns: usize) -> Inputs {
    Inputs { design: Design::identity(columns, settings.fit_intercept), classes: 2, class_weight: Vec::new() }
}

/// Rows of one or two columns, with weights.
fn rows(columns: usize, x: &[f64], codes: &[u32], weights: Option<&[f64]>) -> Dataset<'static> {
    let names = vec!["no".to_string(), "yes".to_string()];
    let data = Dataset::new(Matrix::dense(codes.len(), columns, x.to_vec()));
    let data = data.with_target(Target::Classes(Classes { codes: codes.to_vec(), names }));
    Dataset { weights: weights.map(<[f64]>::to_vec), ..data }
}

fn title(program: &Gibbs) -> String {
    let precision = match program.classifier.prior.weight_precision {
        Precision::Fixed(p) => format!("prior precision {p}"),
        Precision::Learned(q) => format!("prior precision Gamma({}, {})", q.shape, q.rate),
    };
    let bias = if program.classifier.prior.intercept {
        format!("that of the bias {}", program.classifier.prior.bias_precision)
    } else {
        "no bias".into()
    };
    format!("{}, {precision}, {bias}", Gibbs::NAME)
}

fn chain<'a>(program: &'a Gibbs, cut: &'a [Block<'a>], data: &Dataset<'_>, seed: u64, at: Option<Point>) -> Result<Typed<'a, Gibbs>> {
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: cut.len() as u32, block_rows: BLOCK_ROWS };
    match at {
        Some(point) => Typed::at(program, cut, shape, seed, 0, State::at(point)),
        None => Typed::start(program, cut, shape, seed, 0),
    }
}

/// Log pseudo-likelihood of weights, by its definition.
fn ln_pseudo(weights: &[f64], data: &Dataset<'_>) -> f64 {
    let Target::Classes(classes) = &data.target else { return f64::NAN };
    let columns = data.x.cols();
    let row = |(i, x): (usize, &[f64])| {
        let f: f64 = x.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>() + weights[columns..].iter().sum::<f64>();
        let s = if classes.codes[i] == 1 { 1.0 } else { -1.0 };
        -2.0 * data.weights.as_ref().map_or(1.0, |w| w[i]) * (1.0 - s * f).max(0.0)
    };
    data.x.to_dense().chunks_exact(columns).enumerate().map(row).sum()
}

/// Exact draws in, one sweep, the same distribution out? Weights of rows are 1, a fraction, and 0.
fn invariance(settings: &Settings, effort: &InvarianceSettings, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let program = settings.sampler(inputs(settings, COLUMNS));
    let x = [-1.2, 0.3, 0.4, -0.8, 1.1, 0.9, 0.3, -0.2];
    let data = rows(COLUMNS, &x, &[0, 1, 0, 1], Some(&[1.0, 0.7, 0.5, 0.0]));
    let cut = blocks(&data, BLOCK_ROWS);
    let mut names = vec!["w1", "w2", "w1·w2"];
    names.extend(settings.fit_intercept.then_some("bias"));
    names.extend(["w1²", "cos(w1 + w2)"]);
    names.extend(settings.prior_precision.is_none().then_some("precision"));
    names.push("log pseudo-likelihood");
    // bounded, since a learned precision gives weights that rows say nothing of the tails of a Cauchy distribution
    let short = |v: f64| v / (1.0 + v.abs());
    let functions = |p: &Point, out: &mut Vec<f64>| {
        let w = &p.weights;
        out.extend([short(w[0]), short(w[1]), short(w[0] * w[1])]);
        out.extend(w.get(COLUMNS).map(|b| short(*b)));
        out.extend([short(w[0] * w[0]), (w[0] + w[1]).cos()]);
        out.extend(settings.prior_precision.is_none().then(|| short(p.precision[0])));
        out.push(ln_pseudo(w, &data));
    };
    let mut done = 0;
    let exact = |rng: &mut Philox| {
        done += 1;
        if done % 1000 == 0 {
            progress(Progress { check: "one-step invariance", done: done as f64 / effort.draws as f64 });
        }
        for _ in 0..MOST_PROPOSALS {
            let point = simulate::prior(settings, COLUMNS, 1, rng)?;
            if open01(rng).ln() < ln_pseudo(&point.weights, &data) {
                return Ok(point);
            }
        }
        Err(Error::Unfit(
            "the prior is too wide for exact draws by rejection: check with a higher `bias_precision` or `prior_precision`".into(),
        ))
    };
    let step = |point: Point, rng: &mut Philox| {
        let mut chain = chain(&program, &cut, &data, rng.next_u64(), Some(point))?;
        chain.advance(false)?;
        Ok(chain.global.now.clone())
    };
    let mut rng = Stream::new(seed, 0, Purpose::Check).rng();
    one_step_invariance(&title(&program), effort, &names, functions, &mut rng, exact, step)
}

/// Are the means of a long chain those of the pseudo-posterior on a grid? Of a slope and a bias, given six rows that no line parts.
fn moments(settings: &Settings, effort: &InvarianceSettings, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let program = settings.sampler(inputs(settings, 1));
    let data = rows(1, &[-1.2, -0.4, 0.1, 0.7, 1.5, -0.9], &[0, 0, 1, 0, 1, 1], None);
    let exact = on_grid(&program, &data);
    let cut = blocks(&data, BLOCK_ROWS);
    let mut chain = chain(&program, &cut, &data, seed, None)?;
    let each = (effort.draws / STRETCHES).max(1);
    while chain.sweeps() < WARM_UP {
        chain.advance(true)?;
    }
    let mut means = Vec::new();
    for stretch in 0..STRETCHES {
        let mut mean = [0.0; 5];
        for _ in 0..each {
            chain.advance(false)?;
            mean.iter_mut().zip(functions(&chain.global.now.weights)).for_each(|(m, v)| *m += v / each as f64);
        }
        means.push(mean);
        progress(Progress { check: "moments on a grid", done: (stretch + 1) as f64 / STRETCHES as f64 });
    }
    let n = STRETCHES as f64;
    let compare = |(i, name): (usize, &&str)| {
        let mean = means.iter().map(|m| m[i]).sum::<f64>() / n;
        let error = (means.iter().map(|m| (m[i] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
        let z = (mean - exact[i]) / error;
        Comparison::open(name, exact[i], mean, z, 2.0 * norm_cdf(-z.abs()))
    };
    let names = ["slope", "slope²", "bias", "bias²", "slope·bias"];
    let known = if settings.fit_intercept { &names[..] } else { &names[..2] };
    let comparisons = known.iter().enumerate().map(compare).collect();
    let meaning = |c: &Comparison| {
        let verdict = if c.passed { "the same within noise" } else { "the chain has another distribution" };
        format!("{}: mean {:.6} on a grid, {:.6} of the chain, z = {:.2}; {verdict}", c.name, c.expected, c.observed, c.statistic)
    };
    Ok(CheckReport::judge("moments on a grid", &title(&program), STRETCHES * each, effort.false_alarm_rate, comparisons, meaning))
}

fn functions(w: &[f64]) -> [f64; 5] {
    let bias = w.get(1).copied().unwrap_or(0.0);
    [w[0], w[0] * w[0], bias, bias * bias, w[0] * bias]
}

/// Means of [`functions`] under the pseudo-posterior; a learned precision is integrated out, which leaves Student's t.
fn on_grid(program: &Gibbs, data: &Dataset<'_>) -> [f64; 5] {
    let prior = &program.classifier.prior;
    let ln_slope = |w: f64| match prior.weight_precision {
        Precision::Fixed(p) => -0.5 * p * w * w,
        Precision::Learned(q) => -(q.shape + 0.5) * (0.5 * w * w / q.rate).ln_1p(),
    };
    let half = (REACH / STEP).round() as i64;
    let points = || (-half..=half).map(|i| i as f64 * STEP);
    let biases: Vec<f64> = if prior.intercept { points().collect() } else { vec![0.0] };
    let (mut total, mut sums) = (0.0, [0.0; 5]);
    for slope in points() {
        for &bias in &biases {
            let w = [slope, bias];
            let p = (ln_pseudo(&w, data) + ln_slope(slope) - 0.5 * prior.bias_precision * bias * bias).exp();
            total += p;
            sums.iter_mut().zip(functions(&w)).for_each(|(s, v)| *s += p * v);
        }
    }
    sums.map(|s| s / total)
}
