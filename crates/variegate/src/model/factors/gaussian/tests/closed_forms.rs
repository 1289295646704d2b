//! Values known in closed form, and forms that must agree.

use super::super::row::{Active, Products};
use super::*;
use crate::data::{Matrix, TargetView};
use crate::dist::Gamma;
use crate::linalg::{Cholesky, dot};
use crate::model::factors::likelihood::Side;
use crate::run::Merge;
use std::f64::consts::TAU;

#[test]
fn a_row_with_weights_integrated_out() {
    let Example { model, view, x, .. } = example();
    let mut scratch = Scratch::default();
    model.prepare(&view, dense(&x, 3), &[0], &[], &mut scratch);
    let mut at = |atoms: &[u32]| {
        let entries: Vec<Entry> = atoms.iter().map(|&k| (k, 0.0)).collect();
        model.begin(&view, row(dense(&x, 3), 0, &[]), &entries, Tempering::NONE, &mut scratch);
        model.ln_row(&view, &scratch)
    };
    let none = at(&[]);
    let by_hand: f64 = x.iter().map(|x| -0.5 * ((TAU * 0.5).ln() + x * x / 0.5)).sum();
    assert!((none - by_hand).abs() < 1e-12);
    for (atoms, change) in [(&[0][..], 0.3009922880), (&[1], -0.9069703211), (&[0, 1], 0.1653588460)] {
        assert!((at(atoms) - none - change).abs() < 1e-9, "{atoms:?}");
    }
    let products = Products { gram: &view.gram, y: &[dot(view.atom(0), &x), dot(view.atom(1), &x)] };
    let mut active = Active::default();
    let ridge = 0.5 / 1.5;
    active.begin(products, ridge, [0].into_iter());
    let gain = active.gain(products, 1);
    let step = 0.5 * (gain.rest * gain.rest / (0.5 * gain.schur) - (gain.schur / ridge).ln());
    assert!((step + 0.1356334420).abs() < 1e-9);
    // the gain of an atom is the same whether it is in use or not
    active.take_up(1, gain);
    let within = active.gain(products, 1);
    assert!((within.schur - gain.schur).abs() < 1e-12 && (within.rest - gain.rest).abs() < 1e-12);
}

/// After any sequence of atoms taken up and put down, L is that of a fresh factorisation.
#[test]
fn the_factor_follows_every_flip() {
    let (count, columns) = (20, 12);
    let mut rng = philox(1);
    for ridge in [1.0, 1e-3] {
        let mut phi: Vec<f64> = (0..count * columns).map(|_| normal(&mut rng)).collect();
        // two atoms that are nearly the same
        for m in 0..columns {
            phi[columns + m] = phi[m] + 1e-3 * phi[columns + m];
        }
        let x: Vec<f64> = (0..columns).map(|_| normal(&mut rng)).collect();
        let mut gram = vec![0.0; count * count];
        mul_t(&phi, &phi, &mut gram, count, columns, count, false);
        let y: Vec<f64> = (0..count).map(|k| dot(&phi[k * columns..][..columns], &x)).collect();
        let products = Products { gram: &gram, y: &y };
        let mut active = Active::default();
        for first in [0, 5] {
            active.begin(products, ridge, 0..first);
            for step in 0..400 {
                let k = rng.random_range(0..count);
                let gain = active.gain(products, k);
                if active.has(k) {
                    active.put_down(k)
                } else {
                    active.take_up(k, gain)
                }
                let (lower, whitened, members) = active.contents();
                let n = members.len();
                let mut c = vec![0.0; n * n];
                for (i, &a) in members.iter().enumerate() {
                    for (j, &b) in members.iter().enumerate() {
                        c[i * n + j] = gram[a as usize * count + b as usize] + if i == j { ridge } else { 0.0 };
                    }
                }
                let fresh = Cholesky::new(n, &c).unwrap();
                let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
                assert!(close(&lower, &fresh.lower()), "ridge {ridge}, step {step}");
                let mut solved: Vec<f64> = members.iter().map(|&a| y[a as usize]).collect();
                let own = solved.clone();
                fresh.solve_lower(&mut solved);
                assert!(close(whitened, &solved), "ridge {ridge}, step {step}");
                fresh.solve_upper(&mut solved);
                let (volume, square) = active.evidence();
                assert!((square - dot(&own, &solved)).abs() < 1e-8 * (1.0 + square.abs()));
                assert!((volume + 0.5 * (fresh.ln_det() - n as f64 * ridge.ln())).abs() < 1e-8 * (1.0 + volume.abs()));
            }
        }
    }
}

/// Atoms that are the same up to rounding, and noise so small that nothing else keeps C from being singular.
#[test]
fn atoms_that_coincide_do_no_harm() {
    let fixed = scales(1.0, &[1.0], &[1e14]);
    let model = plain(3, 1, Some(fixed.clone()));
    let view = model.view(&[1.0, 0.5, -1.0, 1.0, 0.5, -1.0, 1.0, 0.5, -1.0 + 1e-15], 3, &fixed);
    let (x, mut rng, mut scratch) = ([2.0, 1.0, -2.0], philox(2), Scratch::default());
    let mut entries = Vec::new();
    model.prepare(&view, dense(&x, 3), &[0], &[], &mut scratch);
    for _ in 0..200 {
        model.begin(&view, row(dense(&x, 3), 0, &[]), &entries, Tempering::NONE, &mut scratch);
        for _ in 0..4 {
            for k in 0..3 {
                model.update(&view, k, 0.0, &mut scratch, &mut rng).unwrap();
            }
        }
        assert!(model.ln_row(&view, &scratch).is_finite());
        model.finish(&view, &mut scratch, &mut rng, &mut entries).unwrap();
        assert!((entries.iter().map(|e| e.1).sum::<f64>() - 2.0).abs() < 0.1, "{entries:?}");
    }
}

#[test]
fn rows_of_a_side() {
    // p = 7.25, B = (1, -2)
    let fixed = scales(1.25, &[1.0], &[6.0]);
    let model = plain(2, 1, Some(fixed.clone()));
    let mut side = model.side(&fixed);
    assert_eq!(side.ln_marginal(), 0.0);
    side.add(&GaussianContribution { weight: 1.0, residual: vec![1.0 / 6.0, -2.0 / 6.0], source: 0 });
    assert!((side.ln_marginal() + 1.4130303313).abs() < 1e-9);

    // one row after the other, or all at once
    let fixed = scales(0.7, &[1.0, 1.0], &[6.0, 0.3]);
    let model = plain(3, 2, Some(fixed.clone()));
    let (mut side, mut rng) = (model.side(&fixed), philox(3));
    let mut one_by_one = 0.0;
    for i in 0..6 {
        let residual: Vec<f64> = (0..3).map(|_| normal(&mut rng)).collect();
        let part = GaussianContribution { weight: normal(&mut rng), residual, source: i % 2 };
        let noise = fixed.noise[i as usize % 2];
        one_by_one += side.ln_predictive(&part);
        one_by_one -= part.residual.iter().map(|e| 0.5 * ((noise / TAU).ln() - noise * e * e)).sum::<f64>();
        side.add(&part);
        assert!((side.ln_marginal() - one_by_one).abs() < 1e-10);
    }
}

/// Centring, scaling and missing entries, whether rows are stored densely or sparsely.
#[test]
fn rows_dense_and_sparse() {
    let nan = f64::NAN;
    let values = vec![0.0, 3.0, nan, 0.0, nan, 0.0, 1.0, nan, 5.0, 0.0, 0.0, -1.0];
    let csr = Matrix::Csr {
        rows: 3,
        cols: 4,
        indptr: vec![0, 2, 5, 7].into(),
        indices: vec![1, 2, 0, 2, 3, 0, 3].into(),
        values: vec![3.0, nan, nan, 1.0, nan, 5.0, -1.0].into(),
    };
    let matrix = Matrix::dense(3, 4, values);
    let means = vec![1.0, 2.0, 3.0, 4.0, 0.5, 0.0, 0.0, 1.0, 0.1, 0.2, 0.3, 0.4];
    let centre = Centre { columns: 4, means, scale: 2.0, missing: true };
    let model = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
    let view = model.view(&[1.0, 0.5, -1.0, 2.0, 0.3, -2.0, 0.4, 0.1], 2, &model.with_unseen_source(&model.start()));
    assert_eq!(view.scales.noise, [1.0; 3]);
    // the last row is of a source that was not seen
    let sources = [0, 1, 2];
    let mut all = Vec::new();
    for x in [matrix.view(), csr.view()] {
        let block = Block { number: 0, first_row: 0, x, y: TargetView::None, sources: Some(&sources), weights: None };
        assert_eq!(model.fill(&block), [0.0; 3]);
        let (mut filled, mut scratch, mut rng, mut sums) = (vec![0.25, 0.5, 0.75], Scratch::default(), philox(4), Sums::default());
        model.prepare(&view, x, &sources, &filled, &mut scratch);
        let mut out = vec![0.0; 4];
        let mut at = 0;
        for (i, expected) in [[-0.5, 0.5, 0.25, -2.0], [0.5, 0.0, 0.5, 0.75], [2.45, -0.1, -0.15, -0.7]].iter().enumerate() {
            let used = model.centre.dense(x, i, i, &filled[at..], &mut out);
            assert!(out.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{out:?}");
            let own = filled[at..at + used].to_vec();
            let row = Row { x, at: i, source: i, filled: &own };
            let mut entries = Vec::new();
            model.begin(&view, row, &[(1, 1.0)], Tempering::NONE, &mut scratch);
            model.finish(&view, &mut scratch, &mut rng, &mut entries).unwrap();
            let part = model.contribution(&view, row, &entries, &[1], &mut scratch, &mut rng).unwrap();
            assert_eq!(part.residual, out);
            assert_eq!(part.weight, entries[0].1);
            model.report(&view, row, &entries, &mut filled[at..at + used], &mut scratch, &mut rng, &mut sums).unwrap();
            at += used;
        }
        assert_eq!(sums.observed.0, [3.0, 2.0, 4.0]);
        assert!(filled.iter().all(|f| ![0.25, 0.5, 0.75].contains(f)));
        all.push((sums, filled));
    }
    assert_eq!(all[0], all[1]);
}

/// Sums of blocks, their log likelihood and the prior, against plain loops.
#[test]
fn sums_and_densities() {
    let (columns, atoms, rows, sources) = (3, 4, 7, [0, 1, 1, 0, 0, 1, 0]);
    let model = plain(columns, 2, None);
    let mut rng = philox(5);
    let given = scales(0.8, &[1.3, 0.6], &[2.0, 0.5]);
    let phi: Vec<f64> = (0..atoms * columns).map(|_| normal(&mut rng)).collect();
    let x: Vec<f64> = (0..rows * columns).map(|_| normal(&mut rng)).collect();
    let view = model.view(&phi, atoms, &given);
    let h: Vec<f64> = (0..rows * atoms).map(|i| if i % 3 == 0 { 0.0 } else { normal(&mut rng) }).collect();
    let mut uses = [0; 8];
    let mut parts = Vec::new();
    let mut scratch = Scratch::default();
    for range in [0..3, 3..7] {
        let mut sums = Sums::default();
        let block = dense(&x[range.start * columns..range.end * columns], columns);
        model.prepare(&view, block, &sources[range.clone()], &[], &mut scratch);
        for i in range.clone() {
            let entries: Vec<Entry> = (0..atoms).filter(|k| h[i * atoms + k] != 0.0).map(|k| (k as u32, h[i * atoms + k])).collect();
            let source = sources[i] as usize;
            entries.iter().for_each(|e| uses[source * atoms + e.0 as usize] += 1);
            let row = Row { x: block, at: i - range.start, source, filled: &[] };
            model.report(&view, row, &entries, &mut [], &mut scratch, &mut rng, &mut sums).unwrap();
        }
        parts.push(sums);
    }
    let mut sums = Sums::default();
    parts.into_iter().for_each(|p| sums.merge(p));
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-10, "{a} {b}");
    let of = |j: u32| (0..rows).filter(move |&i| sources[i] == j);
    for j in 0..2 {
        for k in 0..atoms {
            for l in 0..=k {
                close(sums.gram.0[(j * atoms + k) * atoms + l], of(j as u32).map(|i| h[i * atoms + k] * h[i * atoms + l]).sum());
            }
            for m in 0..columns {
                close(sums.cross.0[(j * atoms + k) * columns + m], of(j as u32).map(|i| h[i * atoms + k] * x[i * columns + m]).sum());
            }
            close(sums.weight_squares.0[j * atoms + k], of(j as u32).map(|i| h[i * atoms + k].powi(2)).sum());
        }
    }
    let normal_at = |v: f64, t: f64| 0.5 * ((t / TAU).ln() - t * v * v);
    let mut likelihood = 0.0;
    for i in 0..rows {
        for m in 0..columns {
            let fitted: f64 = (0..atoms).map(|k| h[i * atoms + k] * phi[k * columns + m]).sum();
            likelihood += normal_at(x[i * columns + m] - fitted, given.noise[sources[i] as usize]);
        }
    }
    close(model.ln_likelihood(&given, &sums, &[4, 3]), likelihood);
    let mut prior: f64 = phi.iter().map(|&p| normal_at(p, 0.8)).sum();
    prior += (0..rows * atoms).filter(|&i| h[i] != 0.0).map(|i| normal_at(h[i], given.weight[sources[i / atoms] as usize])).sum::<f64>();
    let fixed = Gaussian { hyper: Hyper { fixed: Some(given.clone()), ..model.hyper.clone() }, ..model.clone() };
    close(fixed.ln_prior(&phi, &given, &sums, &uses), prior);
    let gamma = Gamma::new(4.0, 4.0).unwrap();
    prior += [0.8, 1.3, 0.6, 2.0, 0.5].iter().map(|&t| gamma.ln_pdf(t)).sum::<f64>();
    close(model.ln_prior(&phi, &given, &sums, &uses), prior);
}

/// A model without atoms, and rows that were never reported.
#[test]
fn nothing_is_a_legal_state() {
    let model = plain(2, 2, None);
    let mut given = model.start();
    assert_eq!(given, scales(1.0, &[1.0; 2], &[1.0; 2]));
    let view = model.view(&[], 0, &given);
    let (x, mut rng, mut scratch, mut sums) = ([1.0, 2.0], philox(6), Scratch::default(), Sums::default());
    model.prepare(&view, dense(&x, 2), &[1], &[], &mut scratch);
    let here = row(dense(&x, 2), 1, &[]);
    model.begin(&view, here, &[], Tempering::NONE, &mut scratch);
    assert!((model.ln_row(&view, &scratch) + TAU.ln() + 2.5).abs() < 1e-12);
    let mut entries = vec![(0, 1.0)];
    model.finish(&view, &mut scratch, &mut rng, &mut entries).unwrap();
    assert!(entries.is_empty());
    model.report(&view, here, &[], &mut [], &mut scratch, &mut rng, &mut sums).unwrap();
    assert_eq!(sums.squares.0, [0.0, 5.0]);
    for sums in [sums, Sums::default()] {
        assert!(model.learn(&mut [], &mut given, &sums, &[], &[0, 1], &mut rng).unwrap().is_empty());
        assert!(model.ln_prior(&[], &given, &sums, &[]).is_finite());
        assert!(model.ln_likelihood(&given, &sums, &[0, 1]).is_finite());
    }
    let attempts = Attempts { ln_rate: 5.0, count: 50, room: false };
    assert_eq!(model.private_moves(&view, here, &[], &[], attempts, &mut scratch, &mut rng).unwrap(), Changes::default());
    // atoms that nobody reported anything of come from their prior
    let mut phi = vec![1.0; 4];
    let factors = model.learn(&mut phi, &mut given, &Sums::default(), &[0; 4], &[0, 0], &mut rng).unwrap();
    assert!(factors.len() == 2 && factors[0] == factors[1], "the scale common to all alone moves: {factors:?}");
}
