//! Oracles, finite differences, increments, normalisation and draws of the distributions.

use super::pulls::kappa_of;
use super::*;
use crate::infer::finite_difference::check_gradient;
use crate::prior::angular::{AngleSummary, Regulariser, angles};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::f64::consts::{FRAC_PI_2, PI, TAU};

const T: [f64; 9] = [1.0, 0.0, 0.0, -0.6, 0.8, 0.0, 0.0, -0.6, 0.8];

fn mutual(kind: AngularKind, kappa: f64, first: Option<Vec<f64>>) -> Directions {
    Directions::MutualAngular(MutualAngular { kind, kappa, first })
}

fn determinantal(length: f64) -> Directions {
    Directions::Determinantal(Determinantal { length })
}

fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance, "{got:?} for {want:?}");
    }
}

fn gradient(distribution: &Directions, directions: &[f64], dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; directions.len()];
    // room left over from a larger problem must not matter
    let mut scratch = Scratch { first: vec![7.0; 300], second: vec![7.0; 300], third: vec![7.0; 300] };
    let value = distribution.gradient_add(directions, dim, &mut out, &mut scratch);
    assert!((value - distribution.ln_density(directions, dim)).abs() < 1e-12 * (1.0 + value.abs()));
    out
}

/// Every distribution once, in `dim` dimensions.
fn distributions(dim: usize) -> Vec<Directions> {
    let mut first = vec![0.0; dim];
    first[dim - 1] = 1.0;
    let mut all = vec![Directions::Uniform, determinantal(0.7), determinantal(2.0)];
    for kind in [AngularKind::One, AngularKind::Two] {
        for kappa in [0.0, 2.0, 40.0] {
            all.push(mutual(kind, kappa, None));
            all.push(mutual(kind, kappa, Some(first.clone())));
        }
    }
    all
}

fn uniform(count: usize, dim: usize, rng: &mut SmallRng) -> Vec<f64> {
    Directions::Uniform.sample(count, dim, rng).unwrap()
}

#[test]
fn oracles() {
    let up = Some(vec![0.0, 0.0, 1.0]);
    let value = |distribution: Directions| distribution.ln_density(&T, 3);
    let (one, two) = (AngularKind::One, AngularKind::Two);
    let got = [value(mutual(one, 2.0, up.clone())), value(mutual(two, 2.0, up.clone()))];
    close(&got, &[-7.105420688, -7.109307543], 1e-9);
    let got = [value(mutual(one, 2.0, None)), value(mutual(two, 2.0, None))];
    close(&got, &[-6.510200496, -6.514087350], 1e-9);
    #[rustfmt::skip]
    let want = [-0.536656315, -1.331671843, 0.211145618, -2.536656315, 0.268328157, -1.788854382, -0.894427191, -1.788854382, 0.0];
    close(&gradient(&mutual(one, 2.0, up.clone()), &T, 3), &want, 1e-9);
    let want = [-0.320473141, -1.291687399, 0.4, -2.445843700, 0.308312601, -1.6, -0.8, -1.6, 0.0];
    close(&gradient(&mutual(two, 2.0, up), &T, 3), &want, 1e-9);
    let ln_det = value(determinantal(0.7)) + 3.0 * ln_surface(3);
    close(&[ln_det], &[-0.020441095], 1e-9);
    close(&gradient(&determinantal(0.7), &T, 3)[..3], &[0.003039715, 0.037534320, -0.055449697], 1e-9);
}

#[test]
fn oracles_of_the_regulariser() {
    let omega = Regulariser::default();
    close(&[omega.value(&T, 3), omega.smoothed(&T, 3)], &[1.113282841, 1.118232894], 1e-9);
    let twice: Vec<f64> = T.iter().map(|v| 2.0 * v).collect();
    let mut out = vec![0.0; 9];
    let value = omega.smoothed_gradient_add(&twice, 3, 1.0, &mut out, &mut Scratch::default());
    close(&[value], &[1.118232894], 1e-9);
    close(&out[3..6], &[0.1361561443, 0.1021171082, 0.1887921424], 1e-9);
    out.fill(0.0);
    Regulariser { delta: 0.0, ..omega }.smoothed_gradient_add(&twice, 3, 1.0, &mut out, &mut Scratch::default());
    close(&out[3..6], &[0.135463875, 0.101597906, 0.188241706], 1e-9);
}

#[test]
fn gradients_agree_with_differences() {
    let mut rng = SmallRng::seed_from_u64(11);
    for (count, dim) in [(1, 3), (2, 2), (4, 3), (6, 5)] {
        // apart enough for the determinant to be smooth on the scale of the differences
        let directions = loop {
            let drawn = uniform(count, dim, &mut rng);
            if angles(&drawn, dim).signed.iter().all(|angle| *angle > 0.5) {
                break drawn;
            }
        };
        for distribution in distributions(dim) {
            let worst = check_gradient(|x| distribution.ln_density(x, dim), &directions, &gradient(&distribution, &directions, dim));
            assert!(worst.relative_error < 1e-8, "{distribution:?}, {count} in {dim} dimensions: {worst:?}");
        }
        let weights: Vec<f64> = directions.iter().map(|v| 3.0 * v + 0.1).collect();
        for (gamma, delta) in [(0.0, 0.1), (1.0, 0.01), (2.0, 0.3), (1.0, 0.0)] {
            let omega = Regulariser { gamma, delta };
            let mut out = vec![0.0; weights.len()];
            omega.smoothed_gradient_add(&weights, dim, 1.0, &mut out, &mut Scratch::default());
            let worst = check_gradient(|x| omega.smoothed(x, dim), &weights, &out);
            assert!(worst.relative_error < 1e-7, "{omega:?}, {count} in {dim} dimensions: {worst:?}");
        }
    }
}

#[test]
fn limits() {
    let mut rng = SmallRng::seed_from_u64(12);
    for dim in [1, 2, 3, 40] {
        for count in 1..5 {
            let directions = uniform(count, dim, &mut rng);
            let plain = Directions::Uniform.ln_density(&directions, dim);
            assert!((plain + count as f64 * ln_surface(dim)).abs() < 1e-12);
            for kind in [AngularKind::One, AngularKind::Two] {
                assert!((mutual(kind, 0.0, None).ln_density(&directions, dim) - plain).abs() < 1e-12);
            }
            if count <= 2 {
                let first = Some(directions[..dim].to_vec());
                let [one, two] = [AngularKind::One, AngularKind::Two].map(|kind| mutual(kind, 3.0, first.clone()));
                assert!((one.ln_density(&directions, dim) - two.ln_density(&directions, dim)).abs() < 1e-12);
            }
            if dim == 40 {
                assert!((determinantal(0.01).ln_density(&directions, dim) - plain).abs() < 1e-12);
            }
        }
    }
    // a kernel longer than the sphere is nearly singular, equal directions are just kept apart by the definition
    assert!(determinantal(0.7).ln_density(&[1.0, 0.0, 1.0, 0.0], 2) < -15.0);
    assert_eq!(determinantal(1e6).ln_density(&[f64::NAN, 0.0, 1.0, 0.0], 2), f64::NEG_INFINITY);
    // sums that vanish: the next direction is uniform
    let cancelled = [0.6, 0.8, -0.6, -0.8, 1.0, 0.0];
    for kind in [AngularKind::One, AngularKind::Two] {
        let distribution = mutual(kind, 5.0, None);
        let pair = distribution.ln_density(&cancelled[..4], 2);
        assert!((distribution.ln_density(&cancelled, 2) - pair + ln_surface(2)).abs() < 1e-14);
        assert!(gradient(&distribution, &cancelled, 2).iter().all(|g| g.is_finite()));
    }
}

/// The densities add up to 1 over both signs, and over the angles of three directions in the plane (the first one fixed by
/// symmetry; kind one jumps where the second is opposite, which is where the rule's interval ends).
#[test]
fn normalised() {
    for kind in [AngularKind::One, AngularKind::Two] {
        for first in [None, Some(vec![1.0])] {
            let distribution = mutual(kind, 0.8, first);
            let total: f64 = (0..16)
                .map(|bits| {
                    let signs: Vec<f64> = (0..4).map(|i| if bits >> i & 1 == 1 { 1.0 } else { -1.0 }).collect();
                    distribution.ln_density(&signs, 1).exp()
                })
                .sum();
            assert!((total - 1.0).abs() < 1e-13, "{kind:?}: {total}");
        }
        for kappa in [0.5, 2.0, 6.0] {
            let distribution = mutual(kind, kappa, None);
            let total =
                plane(|second, third| distribution.ln_density(&[1.0, 0.0, second.cos(), second.sin(), third.cos(), third.sin()], 2).exp());
            assert!((TAU * total - 1.0).abs() < 1e-10, "{kind:?}: {}", TAU * total);
        }
    }
}

/// Integral over two angles: Gauss-Legendre panels for the first, on the open interval; the periodic rule for the second.
fn plane(f: impl Fn(f64, f64) -> f64) -> f64 {
    use crate::special::coefficients::LEGENDRE;
    let inner = |second: f64| (0..64).map(|i| f(second, TAU * i as f64 / 64.0)).sum::<f64>() * TAU / 64.0;
    let panels = 4;
    (0..panels)
        .map(|panel| {
            let (middle, half) = (-PI + TAU * (panel as f64 + 0.5) / panels as f64, PI / panels as f64);
            half * LEGENDRE.iter().map(|(x, w)| w * (inner(middle - half * x) + inner(middle + half * x))).sum::<f64>()
        })
        .sum()
}

#[test]
fn increments_are_full_evaluations() {
    let mut rng = SmallRng::seed_from_u64(13);
    for (count, dim) in [(1, 2), (2, 3), (5, 1), (5, 3), (7, 10)] {
        for distribution in distributions(dim) {
            let mut current = uniform(count, dim, &mut rng);
            if let (Directions::Determinantal(_), 1) = (&distribution, dim) {
                continue; // two of five signs always coincide: singular
            }
            let mut coupled = Coupled::new(&distribution, &current, dim);
            let same = |got: f64, directions: &[f64]| {
                let want = distribution.ln_density(directions, dim);
                assert!((got - want).abs() < 1e-12 * (1.0 + want.abs()), "{distribution:?}, {count} in {dim}: {got} for {want}");
            };
            for move_ in 0..200 {
                let k = rng.random_range(0..count);
                let mut new = uniform(1, dim, &mut rng);
                if move_ % 10 == 0 && count > 1 && !matches!(distribution, Directions::Determinantal(_)) {
                    // nearly opposite to another: the sums become short
                    let other = (k + 1) % count;
                    new = current[other * dim..(other + 1) * dim].iter().map(|v| -v + 1e-6 * f64::from(dim > 1)).collect();
                    normalise(&mut new);
                }
                let mut changed = current.clone();
                changed[k * dim..(k + 1) * dim].copy_from_slice(&new);
                same(coupled.propose(k, &new), &changed);
                same(coupled.propose(k, &current[k * dim..(k + 1) * dim]), &current);
                if move_ % 3 == 0 {
                    coupled.accept(k, &new);
                    current = changed;
                }
                if count > 1 {
                    let i = rng.random_range(0..count - 1);
                    let mut swapped = current.clone();
                    (0..dim).for_each(|d| swapped.swap(i * dim + d, (i + 1) * dim + d));
                    same(coupled.propose_swap(i), &swapped);
                    if move_ % 4 == 0 {
                        coupled.accept_swap(i);
                        current = swapped;
                    }
                }
                assert_eq!(coupled.directions(), current);
                same(coupled.ln_density(), &current);
            }
        }
    }
}

/// Means over exact draws against means over uniform draws weighted by the density: |z| < 4.5 each, a false alarm in 10^4 runs in all.
#[test]
fn draws_follow_the_density() {
    let statistics = |a: &[f64], dim: usize| {
        let row = |i: usize| &a[i * dim..(i + 1) * dim];
        let pairs = [dot(row(0), row(1)), dot(row(1), row(2)), dot(row(0), row(2))];
        [pairs[0], pairs[1], pairs[2], pairs[0] * pairs[1], pairs[2] * pairs[2], a[dim - 1], a[2 * dim]]
    };
    let n = 20_000;
    for dim in [1, 2, 3, 5] {
        let mut first = vec![0.0; dim];
        first[dim - 1] = 1.0;
        let mut cases = vec![determinantal(0.8)];
        for kind in [AngularKind::One, AngularKind::Two] {
            cases.extend([mutual(kind, 1.5, None), mutual(kind, 2.5, Some(first.clone()))]);
        }
        for distribution in cases {
            if dim == 1 && matches!(distribution, Directions::Determinantal(_)) {
                continue; // three signs coincide
            }
            let mut rng = SmallRng::seed_from_u64(14 + dim as u64);
            let (mut sum, mut square) = ([0.0; 7], [0.0; 7]);
            let mut weighted: Vec<(f64, [f64; 7])> = Vec::new();
            for _ in 0..n {
                let drawn = distribution.sample(3, dim, &mut rng).unwrap();
                assert!(drawn.chunks_exact(dim).all(|row| (dot(row, row) - 1.0).abs() < 1e-13));
                for (j, v) in statistics(&drawn, dim).into_iter().enumerate() {
                    sum[j] += v;
                    square[j] += v * v;
                }
                let flat = uniform(3, dim, &mut rng);
                weighted.push((distribution.ln_density(&flat, dim).exp(), statistics(&flat, dim)));
            }
            let total: f64 = weighted.iter().map(|(w, _)| w).sum();
            for j in 0..7 {
                let mean = sum[j] / n as f64;
                let variance = (square[j] / n as f64 - mean * mean) / n as f64;
                let target = weighted.iter().map(|(w, v)| w * v[j]).sum::<f64>() / total;
                let error = weighted.iter().map(|(w, v)| (w / total * (v[j] - target)).powi(2)).sum::<f64>();
                let z = (mean - target) / (variance + error).sqrt().max(1e-12);
                assert!(z.abs() < 4.5, "{distribution:?} in {dim} dimensions, statistic {j}: {mean} for {target}, z = {z}");
            }
        }
    }
}

#[test]
fn what_cannot_be_drawn_says_why() {
    let mut rng = SmallRng::seed_from_u64(15);
    let message = determinantal(3.0).sample(12, 2, &mut rng).unwrap_err().to_string();
    assert!(message.contains("shorter length"), "{message}");
    let bad = [
        mutual(AngularKind::One, -1.0, None),
        mutual(AngularKind::One, f64::NAN, None),
        mutual(AngularKind::Two, 2e6, None),
        mutual(AngularKind::Two, 1.0, Some(vec![1.0])),
        mutual(AngularKind::Two, 1.0, Some(vec![1.0, 1.0])),
        determinantal(0.0),
        determinantal(f64::NAN),
    ];
    for distribution in bad {
        assert!(distribution.sample(2, 2, &mut rng).is_err(), "{distribution:?}");
    }
    assert!(Directions::Uniform.sample(2, 0, &mut rng).is_err());
    assert!(Directions::Uniform.sample(0, 3, &mut rng).unwrap().is_empty());
}

/// Against the maximum found by golden sections, and the density of a distribution at that concentration.
#[test]
fn the_concentration_of_largest_density() {
    let mut rng = SmallRng::seed_from_u64(16);
    for kind in [AngularKind::One, AngularKind::Two] {
        for (dim, kappa, first) in [(3, 2.0, None), (1, 0.7, Some(vec![1.0])), (20, 15.0, None), (2, 4.0, Some(vec![1.0, 0.0]))] {
            let distribution = MutualAngular { kind, kappa, first };
            let mut pulls = Pulls::new(dim);
            let mut direct = 0.0;
            for _ in 0..400 {
                let drawn = distribution.sample(4, dim, &mut rng).unwrap();
                direct += Directions::MutualAngular(distribution.clone()).ln_density(&drawn, dim);
                pulls.add(&distribution, &drawn);
            }
            assert!((pulls.ln_density(kappa) - direct).abs() < 1e-9 * direct.abs());
            let best = pulls.kappa();
            let (mut low, mut high) = (0.2 * kappa, 5.0 * kappa);
            while high - low > 1e-7 * kappa {
                let (a, b) = (high - 0.618 * (high - low), low + 0.618 * (high - low));
                if pulls.ln_density(a) < pulls.ln_density(b) { low = a } else { high = b }
            }
            assert!((best / low - 1.0).abs() < 1e-5, "{distribution:?}: {best} for {low}");
            // and it finds what the draws came from: 4 standard errors by the curvature
            let step = 1e-3 * best;
            let curvature = (2.0 * pulls.ln_density(best) - pulls.ln_density(best + step) - pulls.ln_density(best - step)) / (step * step);
            assert!((best - kappa).abs() * curvature.sqrt() < 4.0, "{distribution:?}: {best}");
        }
        let distribution = MutualAngular { kind, kappa: 1.0, first: None };
        let [mut together, mut apart] = [Pulls::new(2), Pulls::new(2)];
        together.add(&distribution, &[1.0, 0.0, 1.0, 0.0]);
        apart.add(&distribution, &[1.0, 0.0, -1.0, 0.0]);
        assert_eq!((together.kappa(), apart.kappa(), Pulls::new(2).kappa()), (0.0, MAX_KAPPA, 0.0));
    }
    // kind two with equal radii is kind one in other units
    let (one, two) = (kappa_of(7, 3.0, &[], 1.2), kappa_of(7, 0.0, &[0.5; 3], 0.6));
    assert!((one / (0.5 * two) - 1.0).abs() < 1e-12, "{one}, {two}");
}

#[test]
fn angles_in_both_notions() {
    let found = angles(&[1.0, 0.0, -2.0, 0.0, 0.0, 3.0], 2);
    close(&found.signed, &[PI, FRAC_PI_2, FRAC_PI_2], 1e-15);
    close(&found.non_obtuse, &[0.0, FRAC_PI_2, FRAC_PI_2], 1e-15);
    let summary = AngleSummary::of(&found.non_obtuse).unwrap();
    close(&[summary.mean, summary.min, summary.variance], &[PI / 3.0, 0.0, PI * PI / 18.0], 1e-14);
    assert!(AngleSummary::of(&angles(&[1.0, 0.0], 2).signed).is_none());
    let omega = Regulariser { gamma: 0.5, delta: 0.1 };
    close(&[omega.value(&[1.0, 0.0, -2.0, 0.0, 0.0, 3.0], 2)], &[PI / 3.0 - 0.5 * PI * PI / 18.0], 1e-14);
    // one vector, none at all, one without direction, parallel ones: finite and still
    assert_eq!(omega.value(&[1.0, 2.0], 2), 0.0);
    let mut out = vec![0.0; 6];
    let value = omega.smoothed_gradient_add(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0], 2, 1.0, &mut out, &mut Scratch::default());
    assert!(value.is_finite() && out.iter().all(|g| *g == 0.0), "{value}, {out:?}");
    for bad in [Regulariser { gamma: -1.0, delta: 0.0 }, Regulariser { gamma: 0.0, delta: f64::NAN }] {
        assert!(bad.validate().is_err());
    }
    assert!(Regulariser::default().validate().is_ok());
}
