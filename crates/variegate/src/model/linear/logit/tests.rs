//! Known bounds, gradients that vanish, sums against rows, and the limits of the model.

use super::super::bound::Bound;
use super::super::gamma_factor::Precision;
use super::shared::Basis;
use super::*;
use crate::data::design::PanelScratch;
use crate::data::{Design, Matrix};
use crate::dist::testing::rng;
use crate::infer::finite_difference::gradient;
use crate::model::labels::mixture::move_component;
use crate::model::labels::testing::{Toy, WithBasis, four_rows, random_shares, three_rows, twenty_rows};
use crate::special::{ln_sigmoid, log1p_exp, sigmoid};

/// The shared form of a toy whose rows have all labels or none.
fn shared(toy: Toy<Logit>) -> Toy<WithBasis> {
    let part = SharedBohning { prior: toy.part.clone() };
    let mut gram = Vec::new();
    let mut scratch = PanelScratch::default();
    let mut panel = toy.design.panel(toy.raw.view(), &mut scratch);
    part.gram_add(&mut panel, &toy.y, &mut gram);
    let basis = Basis::new(&gram, part.prior.dim, part.prior.intercept).unwrap();
    toy.with(|_| WithBasis { part, basis })
}

fn with_bound(bound: Bound) -> impl FnOnce(Logit) -> Logit {
    move |part| Logit { bound, ..part }
}

fn with_form(form: Form) -> impl FnOnce(Logit) -> Logit {
    move |part| Logit { form, ..part }
}

/// Six rows of one label: a Bayesian logistic regression with two coefficients whose bound, mean and covariance are known.
fn two_coefficients(bound: Bound, intercept: bool) -> (f64, [f64; 2], [f64; 3]) {
    let design = Design::identity(1, intercept);
    let raw = Matrix::dense(6, 1, vec![-1.2, -0.4, 0.1, 0.7, 1.5, -0.9]);
    let y = [0, 0, 1, 0, 1, 1];
    // the intercept is the bias of the design with a pattern that cannot move, or the pattern of the one component
    let pattern_precision = Precision::Fixed(if intercept { 1e13 } else { 0.25 });
    let part = Logit {
        labels: 1,
        dim: 1 + intercept as usize,
        intercept,
        bias_precision: 0.25,
        weight_precision: Precision::Fixed(1.0),
        pattern_precision,
        bound,
        form: Form::Full,
    };
    let mut q = part.start(1);
    let mut stats = Stats::default();
    for _ in 0..400 {
        let mut scratch = PanelScratch::default();
        let mut panel = design.panel(raw.view(), &mut scratch);
        stats = Stats::default();
        part.add(&part.view(&q), &mut panel, &y, &[1.0; 6], &mut stats, &mut Scratch::default());
        part.update(&mut q, &stats).unwrap();
    }
    let v = &q.covariance;
    let covariance = [v[diagonal(1)], v[0], v[1]];
    (part.value(&q, &stats) - part.divergence(&q), [q.mean[1], q.mean[0]], covariance)
}

#[test]
fn logistic_regression_with_known_bounds() {
    let known = [
        (Bound::JaakkolaJordan, -5.36584738, [0.01429140, 0.37333129], [0.61624959, 0.46666411, 0.01786424]),
        (Bound::Bohning, -5.40533540, [0.01091836, 0.35277551], [0.57178527, 0.43695381, 0.01248439]),
    ];
    for (bound, value, mean, covariance) in known {
        for intercept in [false, true] {
            let (found, m, v) = two_coefficients(bound, intercept);
            // a pattern of precision 1e13 is not quite 0
            assert!((found - value).abs() < 1e-8, "{bound:?} {found} {value}");
            assert!(m.iter().zip(mean).all(|(a, b)| (a - b).abs() < 1e-8), "{m:?}");
            assert!(v.iter().zip(covariance).all(|(a, b)| (a - b).abs() < 1e-8), "{v:?}");
            // below the evidence
            assert!(found < -5.30092174);
        }
    }
}

#[test]
fn best_bound_of_four_rows() {
    let best = four_rows(true, |p| p).best(5, 12, 400, &mut rng(3));
    assert!((best - -21.69952140).abs() < 1e-7, "{best}");
    assert!(best < -19.83377072);
}

/// One component: sticks, features and a logistic regression of each label, alone.
#[test]
fn one_component_is_a_sum_of_known_parts() {
    let toy = four_rows(false, |p| p);
    let bound = toy.best(1, 1, 2000, &mut rng(4));
    assert!((bound - -24.50825245).abs() < 1e-7, "{bound}");
}

#[test]
fn best_bounds_where_everything_is_learned() {
    let check = |name: &str, found: [f64; 2], known: [f64; 2]| {
        for (found, known) in found.iter().zip(known) {
            assert!((found - known).abs() < 2e-7, "{name}: {found} instead of {known}");
        }
    };
    let of = |part: fn(Logit) -> Logit| [1, 2].map(|k| three_rows(part).best(k, if k == 1 { 1 } else { 8 }, 20000, &mut rng(5)));
    check("Jaakkola and Jordan", of(|p| p), [-23.61494030, -22.76313162]);
    check("Böhning", of(|p| Logit { bound: Bound::Bohning, ..p }), [-23.79367925, -23.00793322]);
    check("factorised", of(|p| Logit { form: Form::Factorised, ..p }), [-23.95946655, -23.02239666]);
    check("diagonal", of(|p| Logit { form: Form::Diagonal, ..p }), [-24.12419316, -23.17559776]);
}

/// The label part of the bound written out row by row, at points of tangency that another q set.
fn plain_value(toy: &Toy<Logit>, q: &Factors, tangent: &Factors, r: &[f64]) -> f64 {
    let part = &toy.part;
    let (dim, components) = (part.dim, q.components);
    let x = toy.design_rows();
    let moments = |q: &Factors, i: usize, k: usize, c: usize| {
        let width = dim + components;
        let mut a = x[i * dim..(i + 1) * dim].to_vec();
        a.resize(width, 0.0);
        a[dim + k] = 1.0;
        let v = &q.covariance[c * packed_len(width)..(c + 1) * packed_len(width)];
        (dot(&a, &q.mean[c * width..(c + 1) * width]), form(v, &a))
    };
    let mut sum = 0.0;
    for i in 0..toy.x.len() {
        for c in 0..toy.labels {
            let y = toy.y[i * toy.labels + c];
            if y < 0 {
                continue;
            }
            let y = f64::from(y);
            for k in 0..components {
                let (f, s2) = moments(q, i, k, c);
                let (f0, s0) = moments(tangent, i, k, c);
                sum += r[i * components + k]
                    * match part.bound {
                        Bound::JaakkolaJordan => {
                            let xi = (f0 * f0 + s0).sqrt();
                            let lambda = if xi < 1e-6 { 0.25 } else { (0.5 * xi).tanh() / (2.0 * xi) };
                            (y - 0.5) * f - (2.0 * (0.5 * xi).cosh()).ln() - 0.5 * lambda * (f * f + s2 - xi * xi)
                        }
                        Bound::Bohning => y * f - log1p_exp(f0) - sigmoid(f0) * (f - f0) - 0.125 * ((f - f0).powi(2) + s2),
                    };
            }
        }
    }
    sum
}

/// Sums give the row-wise bound for the points of tangency at hand and for stale ones, also with missing labels.
#[test]
fn value_from_sums_is_the_bound_of_rows() {
    for bound in [Bound::JaakkolaJordan, Bound::Bohning] {
        for form in [Form::Full, Form::Factorised, Form::Diagonal] {
            let toy = twenty_rows(false, &mut rng(6), |p| Logit { bound, form, ..p });
            assert!(toy.y.contains(&-1));
            let components = 3;
            let mut state = toy.start(components, random_shares(20, components, &mut rng(7)));
            for _ in 0..3 {
                let before = state.q.clone();
                toy.local(&mut state);
                let fresh = toy.part.value(&state.q, &state.stats);
                let by_rows = plain_value(&toy, &state.q, &before, &state.r);
                assert!((fresh - by_rows).abs() < 1e-10 * fresh.abs(), "{fresh} {by_rows}");
                assert!((toy.bound(&state) - toy.bound_from_sums(&state)).abs() < 1e-9);
                toy.global(&mut state);
                let stale = toy.part.value(&state.q, &state.stats);
                let by_rows = plain_value(&toy, &state.q, &before, &state.r);
                assert!((stale - by_rows).abs() < 1e-10 * stale.abs(), "{stale} {by_rows}");
                assert!(stale < plain_value(&toy, &state.q, &state.q, &state.r));
            }
        }
    }
}

/// A local step, a global step and reordering each raise the bound of the rows, for every bound and form.
#[test]
fn every_step_ascends() {
    for bound in [Bound::JaakkolaJordan, Bound::Bohning] {
        for form in [Form::Full, Form::Factorised, Form::Diagonal] {
            for seed in 0..3 {
                let toy = twenty_rows(false, &mut rng(10 + seed), |p| Logit { bound, form, ..p });
                let mut state = toy.start(4, random_shares(20, 4, &mut rng(20 + seed)));
                let mut last = f64::NEG_INFINITY;
                for _ in 0..30 {
                    toy.local(&mut state);
                    let local = toy.bound(&state);
                    toy.sort(&mut state);
                    toy.global(&mut state);
                    let global = toy.bound_from_sums(&state);
                    let tight = toy.bound_by_rows(&state);
                    assert!(local > last - 1e-9 && global > local - 1e-9 && tight > global - 1e-9, "{last} {local} {global} {tight}");
                    last = tight;
                }
            }
        }
    }
}

/// The update is a stationary point of the bound in the mean and the Cholesky factor of each label's covariance.
#[test]
fn gradients_vanish_at_the_update() {
    for bound in [Bound::JaakkolaJordan, Bound::Bohning] {
        let toy = twenty_rows(false, &mut rng(30), with_bound(bound));
        let components = 2;
        let mut state = toy.start(components, random_shares(20, components, &mut rng(31)));
        toy.local(&mut state);
        // q(β) given E τ: precisions are taken from before the update
        let before = state.q.clone();
        toy.global(&mut state);
        let (width, size) = (toy.part.dim + components, packed_len(toy.part.dim + components));
        for c in 0..toy.labels {
            let v = &state.q.covariance[c * size..(c + 1) * size];
            let lower = factor_of(width, v).unwrap().0.lower();
            let mut at = state.q.mean[c * width..(c + 1) * width].to_vec();
            (0..width).for_each(|i| at.extend_from_slice(&lower[i * width..=i * width + i]));
            let objective = |p: &[f64]| {
                let mut q = Factors { weight_precision: before.weight_precision.clone(), ..state.q.clone() };
                q.pattern_precision = before.pattern_precision.clone();
                q.mean[c * width..(c + 1) * width].copy_from_slice(&p[..width]);
                let l = |i: usize, j: usize| p[width + packed_len(i) + j];
                for i in 0..width {
                    for j in 0..=i {
                        q.covariance[c * size + packed_len(i) + j] = (0..=j).map(|k| l(i, k) * l(j, k)).sum();
                    }
                }
                q.ln_det[c] = (0..width).map(|i| 2.0 * l(i, i).ln()).sum();
                toy.part.value(&q, &state.stats) - toy.part.divergence(&q)
            };
            assert!(gradient(objective, &at).iter().all(|g| g.abs() < 1e-6), "{bound:?} {:?}", gradient(objective, &at));
        }
        // and in the precisions
        let mut q = state.q.clone();
        for c in 0..toy.labels {
            let at = [q.weight_precision[c].shape, q.weight_precision[c].rate, q.pattern_precision[c].shape, q.pattern_precision[c].rate];
            let objective = |p: &[f64]| {
                q.weight_precision[c] = GammaFactor { shape: p[0], rate: p[1] };
                q.pattern_precision[c] = GammaFactor { shape: p[2], rate: p[3] };
                let value = -toy.part.divergence(&q);
                q.clone_from(&state.q);
                value
            };
            assert!(gradient(objective, &at).iter().all(|g| g.abs() < 1e-6));
        }
    }
}

/// The diagonal and the factorised covariance are the best of their kind.
#[test]
fn restricted_forms_are_stationary_too() {
    for form in [Form::Factorised, Form::Diagonal] {
        let toy = twenty_rows(false, &mut rng(33), with_form(form));
        let mut state = toy.start(2, random_shares(20, 2, &mut rng(34)));
        toy.local(&mut state);
        let before = state.q.clone();
        toy.global(&mut state);
        let (width, size) = (toy.part.dim + 2, packed_len(toy.part.dim + 2));
        let mut at = state.q.mean[..width].to_vec();
        at.extend((0..width).map(|_| 1.0));
        // each variance scaled; the weights' covariance scaled on both sides
        let objective = |p: &[f64]| {
            let mut q = Factors { weight_precision: before.weight_precision.clone(), ..state.q.clone() };
            q.pattern_precision = before.pattern_precision.clone();
            q.mean[..width].copy_from_slice(&p[..width]);
            for i in 0..width {
                for j in 0..=i {
                    q.covariance[packed_len(i) + j] *= p[width + i] * p[width + j];
                }
            }
            q.ln_det[0] += 2.0 * p[width..].iter().map(|s| s.ln()).sum::<f64>();
            toy.part.value(&q, &state.stats) - toy.part.divergence(&q)
        };
        assert!(gradient(objective, &at).iter().all(|g| g.abs() < 1e-6), "{:?}", gradient(objective, &at));
        assert_eq!(state.q.covariance.len(), toy.labels * size);
    }
}

/// Components in another order give the same bound and the same factors, in that order.
#[test]
fn components_can_be_renamed() {
    let toy = twenty_rows(false, &mut rng(40), |p| p);
    let order = [2, 0, 1];
    let r = random_shares(20, 3, &mut rng(41));
    let renamed: Vec<f64> = r.chunks(3).flat_map(|r| order.map(|k| r[k])).collect();
    let sums = |r: &[f64]| toy.sums(&toy.part.view(&toy.part.start(3)), r, 3);
    let mut stats = sums(&r);
    let (mut one, mut other) = (toy.part.start(3), toy.part.start(3));
    toy.part.update(&mut one, &stats).unwrap();
    toy.part.update(&mut other, &sums(&renamed)).unwrap();
    assert!((toy.part.divergence(&one) - toy.part.divergence(&other)).abs() < 1e-10);
    one.permute(&order);
    stats.permute(&order);
    let close = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11);
    assert!(close(&one.mean, &other.mean) && close(&one.covariance, &other.covariance));
    assert!(close(&stats.cross.0, &sums(&renamed).cross.0) && close(&stats.pattern_response.0, &sums(&renamed).pattern_response.0));
    // a component may be left out, and a new one begun
    one.permute(&[2, 0, 3]);
    assert!((one.mean[toy.part.dim] - other.mean[toy.part.dim + 2]).abs() < 1e-11 && one.mean[toy.part.dim + 2] == 0.0);
    // joined sums are those of joined shares, at the same points of tangency
    stats.each_table(&mut |table, width| move_component(table, width, 0, 2));
    stats.permute(&[0, 1]);
    let joined: Vec<f64> = renamed.chunks(3).flat_map(|r| [r[0] + r[2], r[1]]).collect();
    let direct = toy.sums(&toy.part.view(&toy.part.start(2)), &joined, 2);
    assert!(close(&stats.cross.0, &direct.cross.0) && close(&stats.mass.0, &direct.mass.0) && close(&stats.gram.0, &direct.gram.0));
}

/// Shared sums and one decomposition find what a matrix a label finds.
#[test]
fn shared_form_is_bohning_with_complete_labels() {
    let plain = twenty_rows(true, &mut rng(50), with_bound(Bound::Bohning));
    assert!(plain.y.contains(&-1));
    let quick = shared(twenty_rows(true, &mut rng(50), with_bound(Bound::Bohning)));
    let r = random_shares(20, 3, &mut rng(51));
    let (mut a, mut b) = (plain.start(3, r.clone()), quick.start(3, r));
    for _ in 0..25 {
        plain.local(&mut a);
        quick.local(&mut b);
        assert!((plain.bound(&a) - quick.bound(&b)).abs() < 1e-9, "{} {}", plain.bound(&a), quick.bound(&b));
        plain.sort(&mut a);
        quick.sort(&mut b);
        plain.global(&mut a);
        quick.global(&mut b);
        // sums of before the step
        assert!((plain.bound_from_sums(&a) - quick.bound_from_sums(&b)).abs() < 1e-9);
        let width = plain.part.dim + 3;
        for c in 0..4 {
            let weights = &a.q.mean[c * width..c * width + plain.part.dim];
            assert!(weights.iter().zip(&b.q.weights[c * plain.part.dim..]).all(|(a, b)| (a - b).abs() < 1e-8));
            let patterns = &a.q.mean[c * width + plain.part.dim..(c + 1) * width];
            assert!(patterns.iter().zip(&b.q.patterns[c * 3..]).all(|(a, b)| (a - b).abs() < 1e-8));
            assert!((a.q.ln_det[c] - b.q.ln_det[c]).abs() < 1e-8);
            assert!((a.q.weight_precision[c].rate - b.q.weight_precision[c].rate).abs() < 1e-8);
            assert!((a.q.pattern_precision[c].rate - b.q.pattern_precision[c].rate).abs() < 1e-8);
        }
        // new rows: another matrix of the same columns
        let raw = Matrix::dense(2, 3, vec![0.3, -4.0, 2.0, 1.0, 0.0, -1.0]);
        let [mut p, mut s] = [vec![0.0; 2 * 4 * 4], vec![0.0; 2 * 4 * 4]];
        let mut scratch = PanelScratch::default();
        let mut panel = plain.design.panel(raw.view(), &mut scratch);
        plain.part.probabilities(&plain.part.view(&a.q), &mut panel, &mut p, &mut Scratch::default());
        quick.part.part.probabilities(&b.q, &quick.part.basis, &mut panel, &mut s, &mut shared::Scratch::default());
        assert!(p.iter().zip(&s).all(|(p, s)| (p - s).abs() < 1e-8), "{p:?} {s:?}");
    }
    let order = [1, 2, 0];
    let before = quick.part.part.view(&b.q);
    b.q.permute(&order);
    let after = quick.part.part.view(&b.q);
    assert_eq!(before.patterns[1], after.patterns[0]);
    quick.sort(&mut b);
}

/// Without a bias, and with a known precision.
#[test]
fn shared_form_without_bias() {
    let toy = || four_rows(false, with_bound(Bound::Bohning));
    let (one, other) = (toy().best(3, 4, 400, &mut rng(55)), shared(toy()).best(3, 4, 400, &mut rng(55)));
    assert!((one - other).abs() < 1e-8, "{one} {other}");
}

/// Patterns that cannot move leave the responsibilities to the features, and each label a logistic regression.
#[test]
fn precise_patterns_take_no_part() {
    let tight = |p: Logit| Logit { pattern_precision: Precision::Fixed(1e13), ..p };
    let toy = twenty_rows(false, &mut rng(60), tight);
    let mut state = toy.start(3, random_shares(20, 3, &mut rng(61)));
    for _ in 0..300 {
        toy.local(&mut state);
        toy.global(&mut state);
    }
    let terms = toy.terms(&toy.part.view(&state.q), 3);
    assert!(terms.chunks(3).all(|t| (t[0] - t[1]).abs() < 1e-8 && (t[0] - t[2]).abs() < 1e-8));
    let alone = twenty_rows(false, &mut rng(60), tight);
    let mut single = alone.start(1, vec![1.0; 20]);
    for _ in 0..300 {
        alone.local(&mut single);
        alone.global(&mut single);
    }
    let dim = toy.part.dim;
    for c in 0..toy.labels {
        let (a, b) = (&state.q.mean[c * (dim + 3)..c * (dim + 3) + dim], &single.q.mean[c * (dim + 1)..c * (dim + 1) + dim]);
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }
}

/// Weights that cannot move leave a mixture of Bernoulli patterns: each component a logistic intercept of its own.
#[test]
fn precise_weights_leave_patterns() {
    let toy = twenty_rows(false, &mut rng(65), |p| Logit {
        weight_precision: Precision::Fixed(1e13),
        bias_precision: 1e13,
        pattern_precision: Precision::Fixed(1e-6),
        ..p
    });
    // two components with known members
    let r: Vec<f64> = (0..20).flat_map(|i| if i < 12 { [1.0, 0.0] } else { [0.0, 1.0] }).collect();
    let mut q = toy.part.start(2);
    for _ in 0..3000 {
        let stats = toy.sums(&toy.part.view(&q), &r, 2);
        toy.part.update(&mut q, &stats).unwrap();
    }
    for c in 0..toy.labels {
        for k in 0..2 {
            let of = if k == 0 { 0..12 } else { 12..20 };
            let known: Vec<i8> = of.map(|i| toy.y[i * toy.labels + c]).filter(|y| *y >= 0).collect();
            let ones = known.iter().filter(|y| **y > 0).count() as f64;
            let n = known.len() as f64;
            if ones > 0.0 && ones < n {
                let m = q.mean[c * (toy.part.dim + 2) + toy.part.dim + k];
                // near the share of rows with the label; the bound draws the posterior's mean in a little
                assert!((sigmoid(m) - ones / n).abs() < 0.05, "{} {}", sigmoid(m), ones / n);
            }
        }
    }
}

/// Probabilities of new rows are means of the sigmoid under q(β), written out here by quadrature.
#[test]
fn probabilities_of_new_rows() {
    let toy = twenty_rows(false, &mut rng(70), |p| p);
    let mut state = toy.start(2, random_shares(20, 2, &mut rng(71)));
    for _ in 0..5 {
        toy.local(&mut state);
        toy.global(&mut state);
    }
    let x = toy.design_rows();
    let (dim, width) = (toy.part.dim, toy.part.dim + 2);
    let mut scratch = PanelScratch::default();
    let mut panel = toy.design.panel(toy.raw.slice(3..8), &mut scratch);
    let mut out = vec![f64::NAN; 5 * 3 * toy.labels];
    toy.part.probabilities(&toy.part.view(&state.q), &mut panel, &mut out, &mut Scratch::default());
    let expected = |f: f64, s2: f64| {
        let density = |z: f64| sigmoid(f + s2.sqrt() * z) * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        (-24..24).map(|i| crate::dist::quadrature::integrate(&density, 0.5 * i as f64, 0.5 * i as f64 + 0.5)).sum::<f64>()
    };
    for i in 0..5 {
        for c in 0..toy.labels {
            let v = &state.q.covariance[c * packed_len(width)..(c + 1) * packed_len(width)];
            let m = &state.q.mean[c * width..(c + 1) * width];
            for k in 0..3 {
                let mut a = x[(i + 3) * dim..(i + 4) * dim].to_vec();
                a.resize(width, 0.0);
                let mut more = 0.0;
                if k < 2 {
                    a[dim + k] = 1.0;
                } else {
                    more = state.q.pattern_precision[c].rate / state.q.pattern_precision[c].shape;
                }
                let want = expected(dot(&a, m), form(v, &a) + more);
                let got = out[(i * 3 + k) * toy.labels + c];
                assert!((got - want).abs() < 5e-5, "{got} {want}");
            }
        }
    }
}

/// Where precisions are known, a component without rows costs nothing.
#[test]
fn an_empty_component_changes_nothing() {
    let toy = four_rows(true, |p| p);
    let r = random_shares(4, 2, &mut rng(80));
    let wider: Vec<f64> = r.chunks(2).flat_map(|r| [r[0], r[1], 0.0]).collect();
    let (a, b) = (toy.start(2, r), toy.start(3, wider));
    assert!((toy.bound_from_sums(&a) - toy.bound_from_sums(&b)).abs() < 1e-10);
}

/// A label that no row knows keeps its prior; one that cannot be solved is named.
#[test]
fn odd_labels() {
    let mut toy = twenty_rows(false, &mut rng(90), |p| p);
    toy.y.iter_mut().skip(1).step_by(toy.labels).for_each(|y| *y = -1);
    let mut state = toy.start(2, random_shares(20, 2, &mut rng(91)));
    for _ in 0..20 {
        toy.local(&mut state);
        toy.global(&mut state);
    }
    let width = toy.part.dim + 2;
    assert!(state.q.mean[width..2 * width].iter().all(|m| *m == 0.0));
    state.stats.gram.0[2 * packed_len(toy.part.dim)] = f64::NAN;
    let said = toy.part.update(&mut state.q, &state.stats).unwrap_err().to_string();
    assert!(said.contains("label 2"), "{said}");
}

/// Perfectly separated labels have finite factors.
#[test]
fn separated_labels_are_finite() {
    let mut toy = twenty_rows(false, &mut rng(95), |p| p);
    let x = toy.design_rows();
    for i in 0..20 {
        toy.y[i * toy.labels] = (x[i * toy.part.dim] > 0.0) as i8;
    }
    let mut state = toy.start(2, random_shares(20, 2, &mut rng(96)));
    let bound = toy.ascend(&mut state, 2000);
    assert!(bound.is_finite() && state.q.mean.iter().all(|m| m.abs() < 1e3));
    assert!(ln_sigmoid(state.q.mean[0]).is_finite());
}
