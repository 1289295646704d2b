//! Known bounds, gradients that vanish, sums against rows, and the limits of the model.

use super::super::bound::Bound;
use super::super::gamma_factor::Precision;
use super::super::mixture::move_component;
use super::super::testing::{Toy, four_rows, random_shares, three_rows, twenty_rows};
use super::*;
use crate::data::design::{PanelScratch, packed_len};
use crate::dist::testing::rng;
use crate::infer::finite_difference::gradient;
use crate::linalg::dot;
use crate::model::linear::normal_factor::form;
use crate::special::log_sum_exp;

fn and(a: f64, b: f64) -> impl FnOnce(Logit) -> And {
    move |weights| And { weights, pattern_prior: (a, b) }
}

#[test]
fn best_bound_of_four_rows() {
    let best = four_rows(true, and(2.0, 1.0)).best(5, 12, 3000, &mut rng(3));
    assert!((best - -23.43248044).abs() < 1e-7, "{best}");
    assert!(best < -21.33849687);
}

#[test]
fn best_bounds_where_everything_is_learned() {
    for (components, known) in [(1, -23.31892664), (2, -21.90711234)] {
        let best = three_rows(and(4.0, 1.0)).best(components, if components == 1 { 1 } else { 8 }, 20000, &mut rng(5));
        assert!((best - known).abs() < 2e-7, "{best} instead of {known}");
    }
}

/// The label part of the bound written out row by row, with q(a, h | k) and ξ that another q set.
fn plain_value(toy: &Toy<And>, q: &Factors, tangent: &Factors, r: &[f64]) -> f64 {
    let part = &toy.part.weights;
    let (dim, components) = (part.dim, q.components);
    let x = toy.design_rows();
    let moments = |q: &Factors, i: usize, c: usize| {
        let a = &x[i * dim..(i + 1) * dim];
        let v = &q.weights.covariance[c * packed_len(dim)..(c + 1) * packed_len(dim)];
        (dot(a, &q.weights.mean[c * dim..(c + 1) * dim]), form(v, a))
    };
    let logs = |q: &Factors, at: usize| {
        let all = digamma(q.present[at] + q.absent[at]);
        (digamma(q.present[at]) - all, digamma(q.absent[at]) - all)
    };
    let mut sum = 0.0;
    for i in 0..toy.x.len() {
        for c in 0..toy.labels {
            let y = toy.y[i * toy.labels + c];
            if y < 0 {
                continue;
            }
            let ((f, s2), (f0, s0)) = (moments(q, i, c), moments(tangent, i, c));
            let xi = (f0 * f0 + s0).sqrt();
            let lambda = if xi < 1e-6 { 0.25 } else { (0.5 * xi).tanh() / (2.0 * xi) };
            let rest = -(2.0 * (0.5 * xi).cosh()).ln() - 0.5 * lambda * (f * f + s2 - xi * xi);
            for k in 0..components {
                let ((l1, l0), (t1, t0)) = (logs(q, c * components + k), logs(tangent, c * components + k));
                let ln_cosh = (2.0 * (0.5 * xi).cosh()).ln();
                // (a, h) = (0, 0), (0, 1), (1, 0) and (1, 1)
                let shares = if y > 0 {
                    [0.0, 0.0, 0.0, 1.0]
                } else {
                    let (h1, h0) = (0.5 * f0 - ln_cosh, -0.5 * f0 - ln_cosh);
                    let weights = [t0 + h0, t0 + h1, t1 + h0];
                    let total = log_sum_exp(&weights);
                    [(weights[0] - total).exp(), (weights[1] - total).exp(), (weights[2] - total).exp(), 0.0]
                };
                let terms = [l0 - 0.5 * f, l0 + 0.5 * f, l1 - 0.5 * f, l1 + 0.5 * f];
                for (p, t) in shares.iter().zip(terms).filter(|(p, _)| **p > 0.0) {
                    sum += r[i * components + k] * p * (t - p.ln());
                }
                sum += r[i * components + k] * rest;
            }
        }
    }
    sum
}

/// Sums give the row-wise bound for local factors at hand and for stale ones, also with missing labels; every step ascends.
#[test]
fn value_from_sums_is_the_bound_of_rows_and_every_step_ascends() {
    for seed in 0..3 {
        let toy = twenty_rows(false, &mut rng(10 + seed), and(4.0, 1.0));
        assert!(toy.y.contains(&-1));
        let mut state = toy.start(3, random_shares(20, 3, &mut rng(20 + seed)));
        let mut last = f64::NEG_INFINITY;
        for _ in 0..25 {
            let before = state.q.clone();
            toy.local(&mut state);
            let local = toy.bound(&state);
            let fresh = toy.part.value(&state.q, &state.stats);
            let by_rows = plain_value(&toy, &state.q, &before, &state.r);
            assert!((fresh - by_rows).abs() < 1e-10 * fresh.abs(), "{fresh} {by_rows}");
            assert!((local - toy.bound_from_sums(&state)).abs() < 1e-9);
            toy.global(&mut state);
            let stale = toy.part.value(&state.q, &state.stats);
            let by_rows = plain_value(&toy, &state.q, &before, &state.r);
            assert!((stale - by_rows).abs() < 1e-10 * stale.abs(), "{stale} {by_rows}");
            let (global, tight) = (toy.bound_from_sums(&state), toy.bound_by_rows(&state));
            assert!(local > last - 1e-9 && global > local - 1e-9 && tight > global - 1e-9, "{last} {local} {global} {tight}");
            last = tight;
            toy.local(&mut state);
            toy.sort(&mut state);
            toy.global(&mut state);
        }
    }
}

/// The update is a stationary point in the patterns' factors; that of the weights is tested with [`Logit`].
#[test]
fn gradients_vanish_at_the_update() {
    let toy = twenty_rows(false, &mut rng(30), and(4.0, 1.0));
    let mut state = toy.start(2, random_shares(20, 2, &mut rng(31)));
    toy.local(&mut state);
    let before = state.q.weights.weight_precision.clone();
    toy.global(&mut state);
    let mut at = state.q.present.clone();
    at.extend(&state.q.absent);
    at.extend(&state.q.weights.mean);
    let patterns = state.q.present.len();
    let objective = |p: &[f64]| {
        let mut q = state.q.clone();
        q.weights.weight_precision = before.clone();
        q.present.copy_from_slice(&p[..patterns]);
        q.absent.copy_from_slice(&p[patterns..2 * patterns]);
        q.weights.mean.copy_from_slice(&p[2 * patterns..]);
        toy.part.value(&q, &state.stats) - toy.part.divergence(&q)
    };
    assert!(gradient(objective, &at).iter().all(|g| g.abs() < 1e-6), "{:?}", gradient(objective, &at));
}

#[test]
fn components_can_be_renamed() {
    let toy = twenty_rows(false, &mut rng(40), and(4.0, 1.0));
    let order = [2, 0, 1];
    let r = random_shares(20, 3, &mut rng(41));
    let renamed: Vec<f64> = r.chunks(3).flat_map(|r| order.map(|k| r[k])).collect();
    let sums = |r: &[f64]| toy.sums(&toy.part.view(&toy.part.start(3)), r, 3);
    let (mut stats, other_stats) = (sums(&r), sums(&renamed));
    let (mut one, mut other) = (toy.part.start(3), toy.part.start(3));
    toy.part.update(&mut one, &stats).unwrap();
    toy.part.update(&mut other, &other_stats).unwrap();
    one.permute(&order);
    stats.permute(&order, 3);
    let close = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11);
    assert!(close(&one.present, &other.present) && close(&one.absent, &other.absent));
    assert!(close(&stats.present.0, &other_stats.present.0) && close(&stats.absent.0, &other_stats.absent.0));
    stats.each_table(3, &mut |table, width| move_component(table, width, 0, 2));
    stats.permute(&[0, 1], 3);
    let joined: Vec<f64> = renamed.chunks(3).flat_map(|r| [r[0] + r[2], r[1]]).collect();
    let direct = toy.sums(&toy.part.view(&toy.part.start(2)), &joined, 2);
    assert!(close(&stats.present.0, &direct.present.0) && close(&stats.weights.response.0, &direct.weights.response.0));
    assert!((stats.weights.offset.0 - direct.weights.offset.0).abs() < 1e-11 && (stats.entropy.0 - direct.entropy.0).abs() < 1e-11);
    assert!(toy.part.view(&toy.part.start(2)).patterns.iter().all(|p| *p == 0.5));
}

/// Where every pattern is there (ψ = 1), labels are those of a logistic regression.
#[test]
fn patterns_of_one_leave_logistic_regressions() {
    let toy = twenty_rows(false, &mut rng(60), and(1e9, 1e-9));
    let mut q = toy.part.start(1);
    for _ in 0..500 {
        let stats = toy.sums(&toy.part.view(&q), &[1.0; 20], 1);
        toy.part.update(&mut q, &stats).unwrap();
    }
    let alone = twenty_rows(false, &mut rng(60), |p| Logit { pattern_precision: Precision::Fixed(1e13), ..p });
    assert_eq!(alone.part.bound, Bound::JaakkolaJordan);
    let mut single = alone.part.start(1);
    for _ in 0..500 {
        let stats = alone.sums(&alone.part.view(&single), &[1.0; 20], 1);
        alone.part.update(&mut single, &stats).unwrap();
    }
    let dim = alone.part.dim;
    for c in 0..toy.labels {
        let (a, b) = (&q.weights.mean[c * dim..(c + 1) * dim], &single.mean[c * (dim + 1)..c * (dim + 1) + dim]);
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }
    let mut scratch = PanelScratch::default();
    let mut panel = toy.design.panel(toy.raw.slice(2..4), &mut scratch);
    let mut out = vec![f64::NAN; 2 * toy.labels];
    toy.part.classifier_probabilities(&toy.part.view(&q), &mut panel, &mut out, &mut Scratch::default());
    let mut with_components = vec![f64::NAN; 2 * 2 * toy.labels];
    alone.part.probabilities(&alone.part.view(&single), &mut panel, &mut with_components, &mut logit::Scratch::default());
    for i in 0..2 {
        for c in 0..toy.labels {
            assert!((out[i * toy.labels + c] - with_components[i * 2 * toy.labels + c]).abs() < 1e-6);
        }
    }
    assert!((toy.part.new_pattern() - 1.0).abs() < 1e-12);
}
