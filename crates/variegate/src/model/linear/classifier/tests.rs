//! Known bounds and posteriors of two coefficients, draws of scales, and the invariance of the Gibbs step.

use super::super::gamma_factor::{GammaFactor, Precision};
use super::super::logit::Form;
use super::super::normal_factor::diagonal;
use super::gibbs::draw_scale;
use super::*;
use crate::data::design::PanelScratch;
use crate::data::{Design, Matrix};
use crate::dist::InverseGaussian;
use crate::dist::quadrature::integrate;
use crate::dist::testing::{check_ks, rng};
use crate::run::{Purpose, Stream, open01};
use rand_distr::{Distribution, StandardNormal};

/// Six rows of one column, a bias of prior precision ¼ and a weight of 1.
const X: [f64; 6] = [-1.2, -0.4, 0.1, 0.7, 1.5, -0.9];
const Y: [i8; 6] = [0, 0, 1, 0, 1, 1];

fn classifier(loss: Loss, bound: Bound) -> Classifier {
    let prior = Logit {
        labels: 1,
        dim: 2,
        intercept: true,
        bias_precision: 0.25,
        weight_precision: Precision::Fixed(1.0),
        pattern_precision: Precision::Fixed(1.0),
        bound,
        form: Form::Full,
    };
    Classifier { prior, prior_mean: Vec::new(), loss, class_weights: Vec::new() }
}

/// Sums of rows, in two panels.
fn sums(part: &Classifier, q: &Factors, x: &[f64], y: &[i8], weights: &[f64]) -> Stats {
    let design = Design::identity(1, true);
    let raw = Matrix::dense(x.len(), 1, x.to_vec());
    let mut stats = Stats::default();
    for range in [0..2, 2..x.len()] {
        let mut scratch = PanelScratch::default();
        let mut panel = design.panel(raw.slice(range.clone()), &mut scratch);
        let labels = part.prior.labels;
        let weights = if weights.is_empty() { &[] } else { &weights[range.clone()] };
        let y = &y[range.start * labels..range.end * labels];
        part.add(&part.view(q), &mut panel, y, weights, &mut stats, &mut Scratch::default());
    }
    stats
}

/// Σ of the rows' terms at their best points.
fn row_terms(part: &Classifier, q: &Factors, x: &[f64], y: &[i8], weights: &[f64]) -> f64 {
    let raw = Matrix::dense(x.len(), 1, x.to_vec());
    let mut scratch = PanelScratch::default();
    let design = Design::identity(1, true);
    let mut panel = design.panel(raw.view(), &mut scratch);
    let mut out = vec![0.0; x.len()];
    part.terms(&part.view(q), &mut panel, y, weights, &mut out, &mut Scratch::default());
    out.iter().sum()
}

/// Ascends to the end; each step raises the bound, and sums and rows agree on it.
fn ascended(part: &Classifier, x: &[f64], y: &[i8], weights: &[f64], sweeps: usize) -> (f64, Factors) {
    let mut q = part.start();
    let mut last = f64::NEG_INFINITY;
    // rows on the margin of a point estimate have curvatures of 1e10, which cancel in the sums
    let near = if part.loss == Loss::HingePoint { 1e-5 } else { 1e-9 };
    for sweep in 0..sweeps {
        let stats = sums(part, &q, x, y, weights);
        let rows = row_terms(part, &q, x, y, weights);
        let from_sums = part.value(&q, &stats);
        assert!((from_sums - rows).abs() < near * (1.0 + rows.abs()), "{from_sums} {rows}");
        if sweep > 0 {
            let bound = rows - part.divergence(&q);
            assert!(bound > last - 1e-9, "sweep {sweep}: {last} {bound}");
            last = bound;
        }
        part.update(&mut q, &stats).unwrap();
        let stale = part.value(&q, &stats) - part.divergence(&q);
        assert!(stale > last - near);
    }
    (last, q)
}

fn check(name: &str, (bound, q): (f64, Factors), known: (f64, [f64; 2], [f64; 3])) {
    let v = &q.covariance;
    let found = [bound, q.mean[1], q.mean[0], v[diagonal(1)], v[0], v[1]];
    let known = [known.0, known.1[0], known.1[1], known.2[0], known.2[1], known.2[2]];
    assert!(found.iter().zip(known).all(|(f, k)| (f - k).abs() < 1.1e-8), "{name}: {found:?} {known:?}");
}

#[test]
fn known_bounds_of_two_coefficients() {
    let of = |loss, bound| ascended(&classifier(loss, bound), &X, &Y, &[], 600);
    let known = (-5.36584738, [0.01429140, 0.37333129], [0.61624959, 0.46666411, 0.01786424]);
    check("Jaakkola and Jordan", of(Loss::Logistic, Bound::JaakkolaJordan), known);
    let known = (-5.40533540, [0.01091836, 0.35277551], [0.57178527, 0.43695381, 0.01248439]);
    check("Böhning", of(Loss::Logistic, Bound::Bohning), known);
    let hinge = of(Loss::Hinge, Bound::JaakkolaJordan);
    assert!(hinge.0 < -12.49651213);
    check("hinge", hinge, (-13.23282781, [-0.07501614, 0.70575965], [0.14292733, 0.12633831, 0.00665512]));
}

/// At the end no derivative of the bound is left, neither by means nor by covariances (central differences).
#[test]
fn bound_is_flat_at_its_top() {
    for loss in [Loss::Logistic, Loss::Hinge] {
        let part = classifier(loss, Bound::JaakkolaJordan);
        let weights = [1.0, 0.3, 2.0, 1.0, 0.0, 1.0];
        let (_, q) = ascended(&part, &X, &Y, &weights, 1500);
        let bound = |change: [f64; 5]| {
            let mut other = q.clone();
            other.mean.iter_mut().zip(change).for_each(|(m, d)| *m += d);
            other.covariance.iter_mut().zip(&change[2..]).for_each(|(v, d)| *v += d);
            let v = &other.covariance;
            other.ln_det[0] = (v[0] * v[2] - v[1] * v[1]).ln();
            row_terms(&part, &other, &X, &Y, &weights) - part.divergence(&other)
        };
        for i in 0..5 {
            let step = |h: f64| bound(std::array::from_fn(|j| if i == j { h } else { 0.0 }));
            let slope = (step(1e-4) - step(-1e-4)) / 2e-4;
            assert!(slope.abs() < 1e-6, "{loss:?}: derivative {i} is {slope}");
        }
    }
}

#[test]
fn known_point_estimate() {
    let part = classifier(Loss::HingePoint, Bound::JaakkolaJordan);
    let (bound, q) = ascended(&part, &X, &Y, &[], 400);
    assert!((q.mean[1] + 1.0 / 9.0).abs() < 1e-7 && (q.mean[0] - 20.0 / 27.0).abs() < 1e-7, "{:?}", q.mean);
    // without the prior's constant ½ ln |P₀|
    assert!((bound - 0.5 * 0.25f64.ln() - -9.90552126).abs() < 1e-7, "{}", bound - 0.5 * 0.25f64.ln());
}

/// A weight of 2 is the row twice, 0 is no row, and so are class weights; an unknown label is no row either.
#[test]
fn weights_are_repetitions() {
    for (loss, bound) in [(Loss::Logistic, Bound::JaakkolaJordan), (Loss::Logistic, Bound::Bohning), (Loss::HingePoint, Bound::Bohning)] {
        let part = classifier(loss, bound);
        let weighted = ascended(&part, &X, &Y, &[2.0, 1.0, 0.0, 1.0, 1.0, 1.0], 150);
        let repeated = ascended(&part, &[-1.2, -1.2, -0.4, 0.1, 0.7, 1.5, -0.9], &[0, 0, 0, -1, 0, 1, 1], &[], 150);
        // the bound of a hinge of weight 2 is that of two hinges, for points only
        assert!((weighted.0 - repeated.0).abs() < 1e-9, "{loss:?} {} {}", weighted.0, repeated.0);
        assert!(weighted.1.mean.iter().zip(&repeated.1.mean).all(|(a, b)| (a - b).abs() < 1e-9));
    }
    let part = Classifier { class_weights: vec![[1.5, 0.5]], ..classifier(Loss::Hinge, Bound::JaakkolaJordan) };
    let by_class = ascended(&part, &X, &Y, &[], 150);
    let by_row = ascended(&classifier(Loss::Hinge, Bound::JaakkolaJordan), &X, &Y, &[1.5, 1.5, 0.5, 1.5, 0.5, 0.5], 150);
    assert!((by_class.0 - by_row.0).abs() < 1e-10);
}

/// A prior mean is where the weights stay without rows; with rows the divergence is that of two normals.
#[test]
fn prior_mean() {
    let part = Classifier { prior_mean: vec![1.0, -2.0], ..classifier(Loss::Logistic, Bound::JaakkolaJordan) };
    let mut q = part.start();
    part.update(&mut q, &sums(&part, &part.start(), &X, &[-1; 6], &[])).unwrap();
    assert!((q.mean[0] - 1.0).abs() < 1e-12 && (q.mean[1] + 2.0).abs() < 1e-12 && part.divergence(&q).abs() < 1e-12);
    let (bound, _) = ascended(&part, &X, &Y, &[], 300);
    // the evidence on a grid
    let likelihood = |bias: f64, w: f64| -> f64 {
        let rows: f64 = X.iter().zip(Y).map(|(x, y)| crate::special::ln_sigmoid((2.0 * f64::from(y) - 1.0) * (bias + w * x))).sum();
        (rows - 0.5 * (0.25 * (bias + 2.0).powi(2) + (w - 1.0).powi(2))).exp() * 0.5 / std::f64::consts::TAU
    };
    let inner = |w: f64| integrate(&|b| likelihood(b, w), -14.0, 10.0);
    let evidence = integrate(&inner, -6.0, 8.0).ln();
    assert!(bound < evidence && bound > evidence - 0.2, "{bound} {evidence}");
}

/// Many labels at once, some unknown, with a precision that is learned: each label as if alone.
#[test]
fn labels_do_not_meet() {
    for loss in [Loss::Logistic, Loss::Hinge, Loss::HingePoint] {
        let learn = |labels: usize| {
            let mut part = classifier(loss, Bound::JaakkolaJordan);
            part.prior.labels = labels;
            part.prior.weight_precision = Precision::Learned(GammaFactor { shape: 0.5, rate: 0.5 });
            part
        };
        let second = [1, 1, -1, 0, 0, 1];
        let both: Vec<i8> = Y.iter().zip(second).flat_map(|(a, b)| [*a, b]).collect();
        let all = ascended(&learn(2), &X, &both, &[], 60);
        let (one, two) = (ascended(&learn(1), &X, &Y, &[], 60), ascended(&learn(1), &X, &second, &[], 60));
        assert!((all.0 - one.0 - two.0).abs() < 1e-9);
        assert!((all.1.mean[2] - two.1.mean[0]).abs() < 1e-9 && (all.1.mean[3] - two.1.mean[1]).abs() < 1e-9);
        assert!((all.1.weight_precision[0].rate - one.1.weight_precision[0].rate).abs() < 1e-9);
    }
}

#[test]
fn probability_of_the_hinge() {
    for f in [-3.0, -1.0, -0.4, 0.0, 0.7, 1.0, 2.5] {
        let [on, off] = [f, -f].map(|f: f64| (-2.0 * (1.0 - f).max(0.0)).exp());
        assert!((hinge_probability(f) - on / (on + off)).abs() < 1e-15);
    }
    assert!((hinge_probability(0.3) - crate::special::sigmoid(1.2)).abs() < 1e-15);
    let part = classifier(Loss::Hinge, Bound::JaakkolaJordan);
    let (_, q) = ascended(&part, &X, &Y, &[], 100);
    let design = Design::identity(1, true);
    let raw = Matrix::dense(2, 1, vec![0.3, -2.0]);
    let mut scratch = PanelScratch::default();
    let mut panel = design.panel(raw.view(), &mut scratch);
    let (mut p, f) = ([0.0; 2], [0.3, -2.0].map(|x| q.mean[1] + x * q.mean[0]));
    part.probabilities(&part.view(&q), &mut panel, &mut p, &mut Scratch::default());
    assert!(p.iter().zip(f).all(|(p, f)| (p - hinge_probability(f)).abs() < 1e-14), "{p:?} {f:?}");
    let part = classifier(Loss::Logistic, Bound::JaakkolaJordan);
    part.probabilities(&part.view(&q), &mut panel, &mut p, &mut Scratch::default());
    let s2 = q.covariance[2] + 2.0 * 0.3 * q.covariance[1] + 0.09 * q.covariance[0];
    assert!((p[0] - expected_sigmoid(f[0], s2)).abs() < 1e-14);
}

/// The hinge is a mixture of normals over scales: ∫ (2πλ)^−½ exp(−(λ + r)²/2λ) dλ = exp(−2 max(r, 0)).
#[test]
fn hinge_is_a_mixture_of_normals() {
    for r in [-1.5f64, 0.0, 0.4, 2.0] {
        let of_ln = |t: f64| {
            let l = t.exp();
            (l / std::f64::consts::TAU).sqrt() * (-(l + r).powi(2) / (2.0 * l)).exp()
        };
        let total: f64 = (-80..12).map(|i| integrate(&of_ln, i as f64, i as f64 + 1.0)).sum();
        assert!((total - (-2.0 * r.max(0.0)).exp()).abs() < 1e-10, "{r}: {total}");
    }
}

#[test]
fn scales_have_their_distribution() {
    let mut rng = rng(100);
    for r in [0.0f64, 1e-3, 0.4, -2.0, 30.0] {
        let draws: Vec<f64> = (0..40_000).map(|_| draw_scale(r, &mut rng)).collect();
        let logs: Vec<f64> = draws.iter().map(|l| l.ln()).collect();
        // on the scale of ln λ, where χ²₁ has no singularity
        let ln_pdf = |t: f64| {
            let l = t.exp();
            0.5 * t - 0.5 * std::f64::consts::TAU.ln() - (l - r.abs()).powi(2) / (2.0 * l)
        };
        check_ks(&format!("scale at {r}"), &logs, ln_pdf, f64::NEG_INFINITY, f64::INFINITY, 200);
        if r.abs() > 0.1 {
            let inverse = InverseGaussian::new(1.0 / r.abs(), 1.0).unwrap();
            let inverses: Vec<f64> = draws.iter().map(|l| l.recip()).collect();
            check_ks(&format!("inverse scale at {r}"), &inverses, |x| inverse.ln_pdf(x), 0.0, f64::INFINITY, 400);
        }
    }
    assert!(draw_scale(1e12, &mut rng).is_finite() && draw_scale(1e-300, &mut rng) > 0.0);
}

/// One Gibbs step of the classifier from weights w (bias last).
fn step(part: &Classifier, w: &[f64], x: &[f64], y: &[i8], weights: &[f64], stream: Stream) -> Vec<f64> {
    let design = Design::identity(1, true);
    let raw = Matrix::dense(x.len(), 1, x.to_vec());
    let mut scratch = PanelScratch::default();
    let mut panel = design.panel(raw.view(), &mut scratch);
    let mut stats = Stats::default();
    part.add_draws(w, &mut panel, y, weights, &mut stats, (stream, 0), &mut Scratch::default()).unwrap();
    let Precision::Fixed(precision) = part.prior.weight_precision else { unreachable!() };
    part.draw(&stats, &[precision], stream.visit(1)).unwrap()
}

/// Exact draws, by rejection from the prior, stay exact after one step: means of functions do not change.
#[test]
fn gibbs_step_leaves_the_posterior_alone() {
    let (x, y, weights) = ([-1.2, 0.4, 1.1, 0.3], [0i8, 1, 0, 1], [1.0, 0.7, 0.5, 0.0]);
    for loss in [Loss::Hinge, Loss::Logistic] {
        let weights: &[f64] = if loss == Loss::Hinge { &weights } else { &[1.0, 2.0, 1.0, 0.0] };
        let part = Classifier { prior_mean: vec![0.5, -0.8], ..classifier(loss, Bound::JaakkolaJordan) };
        let mut rng = rng(200);
        let normal = |rng: &mut _| -> f64 { StandardNormal.sample(rng) };
        let draws = 60_000;
        let functions = |w: &[f64]| [w[0], w[1], w[0] * w[0], w[1] * w[1], w[0] * w[1], (w[0] + w[1]).cos(), (w[0] > 0.5) as u8 as f64];
        let mut sums = [(0.0, 0.0); 7];
        for t in 0..draws {
            let w = loop {
                let w = [0.5 + normal(&mut rng), -0.8 + 2.0 * normal(&mut rng)];
                let ln: f64 = (0..4)
                    .map(|i| {
                        let sf = (2.0 * f64::from(y[i]) - 1.0) * (w[1] + w[0] * x[i]);
                        weights[i] * if loss == Loss::Hinge { -2.0 * (1.0 - sf).max(0.0) } else { crate::special::ln_sigmoid(sf) }
                    })
                    .sum();
                if open01(&mut rng).ln() < ln {
                    break w;
                }
            };
            let next = step(&part, &w, &x, &y, weights, Stream::new(7, 0, Purpose::Check).sweep(t));
            for ((sum, a), b) in sums.iter_mut().zip(functions(&next)).zip(functions(&w)) {
                sum.0 += a - b;
                sum.1 += (a - b) * (a - b);
            }
        }
        for (i, (sum, squares)) in sums.into_iter().enumerate() {
            let z = sum / squares.sqrt();
            assert!(z.abs() < 4.5, "{loss:?}: function {i} changes by {z:.1} standard errors");
        }
    }
}

/// The chain's means are the exact ones of two coefficients.
#[test]
fn chain_has_the_exact_moments() {
    let part = classifier(Loss::Hinge, Bound::JaakkolaJordan);
    let mut w = vec![0.0; 2];
    let (batches, each) = (100, 400);
    let known = [-0.02506267, 0.66663829, 0.31155304, 0.22439947, 0.00765987];
    let mut means = vec![[0.0; 5]; batches];
    for (batch, mean) in means.iter_mut().enumerate() {
        for t in 0..each {
            w = step(&part, &w, &X, &Y, &[], Stream::new(8, 0, Purpose::Check).sweep((batch * each + t) as u64));
            let (b, a) = (w[1] - known[0], w[0] - known[1]);
            for (m, v) in mean.iter_mut().zip([b, a, b * b - known[2], a * a - known[3], a * b - known[4]]) {
                *m += v / each as f64;
            }
        }
    }
    for i in 0..5 {
        let average = means.iter().map(|m| m[i]).sum::<f64>() / batches as f64;
        let spread = means.iter().map(|m| (m[i] - average).powi(2)).sum::<f64>() / (batches * (batches - 1)) as f64;
        assert!(average.abs() < 4.5 * spread.sqrt(), "moment {i}: off by {:.1} standard errors", average / spread.sqrt());
    }
}

/// Precisions are drawn from their Gamma distribution; fractions of rows are refused where they cannot be drawn for.
#[test]
fn precisions_and_refusals() {
    let mut part = classifier(Loss::Logistic, Bound::JaakkolaJordan);
    part.prior.weight_precision = Precision::Learned(GammaFactor { shape: 2.0, rate: 1.0 });
    part.prior_mean = vec![1.0, 0.0];
    let stream = Stream::new(9, 0, Purpose::Check);
    let draws: Vec<f64> = (0..20_000).map(|t| part.draw_precisions(&[3.0, 5.0], stream.sweep(t)).unwrap()[0]).collect();
    crate::dist::testing::check_moments("precision", &draws, 2.5 / 3.0, 2.5 / 9.0);
    let raw = Matrix::dense(1, 1, vec![1.0]);
    let mut scratch = PanelScratch::default();
    let design = Design::identity(1, true);
    let mut panel = design.panel(raw.view(), &mut scratch);
    let mut add = |weights: &[f64]| {
        part.add_draws(&[0.0, 0.0], &mut panel, &[1], weights, &mut Stats::default(), (stream, 0), &mut Scratch::default())
    };
    assert!(add(&[0.5]).unwrap_err().to_string().contains("0.5") && add(&[2.0]).is_ok());
}

/// Rows that are handed over say what their sums say: draws have the means and variances of those by matrices. 2 losses, 2 ways, 2 labels and 4
/// weights, means and squares: 64 comparisons, one in 2,000 test runs above 4.5 by chance.
#[test]
fn rows_are_drawn_from_as_sums_are() {
    let x = [0.4, -1.1, 0.0, 1.3, 0.7, -0.2, -0.8, 0.0, 1.9];
    let y = [1, 0, 0, -1, 1, 1];
    let raw = Matrix::dense(3, 3, x.to_vec());
    let design = Design::identity(3, true);
    for loss in [Loss::Logistic, Loss::Hinge] {
        let mut part = classifier(loss, Bound::JaakkolaJordan);
        (part.prior.labels, part.prior.dim) = (2, 4);
        let (w, precision) = ([0.2, -0.3, 0.1, 0.4, 0.0, 0.5, -0.6, 0.2], [0.8, 1.9]);
        let (mut room, mut scratch, mut stats) = (PanelScratch::default(), Scratch::default(), Stats::default());
        let scales = Stream::new(3, 0, Purpose::Visit);
        let mut panel = design.panel(raw.view(), &mut room);
        part.add_draws(&w, &mut panel, &y, &[], &mut stats, (scales, 0), &mut scratch).unwrap();
        // two blocks, whose rows draw what they drew before
        let mut handed = Handed::default();
        for range in [0..1, 1..3] {
            let mut panel = design.panel(raw.slice(range.clone()), &mut room);
            let y = &y[2 * range.start..2 * range.end];
            let block = part.hand_over_draws(&w, &mut panel, y, (scales, range.start as u64), &mut scratch).unwrap();
            crate::run::Merge::merge(&mut handed, block);
        }
        assert!((handed.offset.0 - stats.offset.0).abs() < 1e-12);
        let draws = 5_000;
        let moments = |seed: u64, draw: &dyn Fn(Stream) -> Vec<f64>| {
            let mut sums = vec![[0.0; 4]; 8];
            for n in 0..draws {
                for (s, w) in sums.iter_mut().zip(draw(Stream::new(seed, 0, Purpose::Sweep).sweep(n))) {
                    (1..=4).for_each(|power| s[power as usize - 1] += w.powi(power) / draws as f64);
                }
            }
            sums
        };
        let exact = moments(1, &|stream| part.draw(&stats, &precision, stream).unwrap());
        for (seed, means) in [(2, Means::Inner), (3, Means::Gradients)] {
            let found = moments(seed, &|stream| part.draw_by_rows(&handed, &precision, means, 1, stream).unwrap().0);
            for (a, b) in exact.iter().zip(&found) {
                for power in 0..2 {
                    let variance = |m: &[f64; 4]| m[2 * power + 1] - m[power] * m[power];
                    let z = (a[power] - b[power]) / ((variance(a) + variance(b)) / draws as f64).sqrt();
                    assert!(z.abs() < 4.5, "{loss:?} {means:?}: {z}");
                }
            }
        }
    }
    assert_eq!([Means::of(50, 60), Means::of(90, 60), Means::of(3_000, 4_000)], [Means::Inner, Means::Matrices, Means::Gradients]);
}
