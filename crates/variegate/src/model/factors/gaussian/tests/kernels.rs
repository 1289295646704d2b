//! Exact draws in, one step, the same distribution out.

use super::*;
use crate::check::invariance::{InvarianceSettings, one_step_invariance};
use crate::dist::Gamma;
use rand_distr::Poisson;

fn settings(draws: u64) -> InvarianceSettings {
    InvarianceSettings { draws, false_alarm_rate: 1e-3 }
}

/// Scan, weights and missing entries of one row given the atoms.
#[test]
fn a_scan_of_a_row() {
    let (columns, atoms) = (3, 3);
    let given = scales(1.0, &[1.0, 0.7], &[1.0, 1.5]);
    let mut model = plain(columns, 2, Some(given.clone()));
    model.centre.missing = true;
    let view = model.view(&[1.0, 0.5, -1.0, 0.8, -0.6, 0.4, -0.9, 0.7, 1.2], atoms, &given);
    let pi = [0.6_f64, 0.3, 0.5];
    /// Weights (0 where not in use) and entries, of which the second is missing.
    struct State {
        w: [f64; 3],
        x: [f64; 3],
    }
    let names = [
        "z0", "z1", "z2", "z0 z1", "z1 z2", "w0", "w1", "w2", "w0^2", "w1^2", "w2^2", "w0 w1", "w0 w2", "x1", "x1^2", "w0 x0", "w1 x1",
        "w2 x2", "z1 x0^2", "z2 x1^2",
    ];
    let mut scratch = Scratch::default();
    let report = one_step_invariance(
        "scan of a row",
        &settings(100_000),
        &names,
        |s: &State, out| {
            let z = s.w.map(|w| f64::from(u8::from(w != 0.0)));
            let [w0, w1, w2] = s.w;
            let [x0, x1, x2] = s.x;
            out.extend([z[0], z[1], z[2], z[0] * z[1], z[1] * z[2], w0, w1, w2, w0 * w0, w1 * w1, w2 * w2, w0 * w1, w0 * w2]);
            out.extend([x1, x1 * x1, w0 * x0, w1 * x1, w2 * x2, z[1] * x0 * x0, z[2] * x1 * x1]);
        },
        &mut philox(21),
        |rng: &mut Philox| {
            let mut w = [0.0; 3];
            for (w, pi) in w.iter_mut().zip(pi) {
                if rng.random::<f64>() < pi {
                    *w = model.prior_weight(&given, 1, rng)?;
                }
            }
            let mut x = [0.0; 3];
            for (m, x) in x.iter_mut().enumerate() {
                *x = (0..atoms).map(|k| w[k] * view.phi[k * columns + m]).sum::<f64>() + normal(rng) / 1.5_f64.sqrt();
            }
            Ok::<State, Error>(State { w, x })
        },
        |mut state, rng| {
            let raw = [state.x[0], f64::NAN, state.x[2]];
            let mut filled = [state.x[1]];
            let old = filled;
            let here = row(dense(&raw, columns), 1, &old);
            let mut entries: Vec<Entry> = (0..atoms).filter(|&k| state.w[k] != 0.0).map(|k| (k as u32, state.w[k])).collect();
            model.prepare(&view, here.x, &[1], &old, &mut scratch);
            model.begin(&view, here, &entries, Tempering::NONE, &mut scratch);
            for k in 0..atoms {
                model.update(&view, k, (pi[k] / (1.0 - pi[k])).ln(), &mut scratch, rng)?;
            }
            model.finish(&view, &mut scratch, rng, &mut entries)?;
            model.report(&view, here, &entries, &mut filled, &mut scratch, rng, &mut Sums::default())?;
            state.w = [0.0; 3];
            entries.iter().for_each(|e| state.w[e.0 as usize] = e.1);
            state.x[1] = filled[0];
            Ok(state)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

/// Births and deaths on one row that has an atom besides its private ones.
#[test]
fn private_atoms_come_and_go() {
    let (columns, tau) = (2, 1.3_f64);
    let given = scales(0.8, &[0.6], &[1.5]);
    let model = plain(columns, 1, Some(given.clone()));
    /// The first atom is not private.
    struct State {
        w: Vec<f64>,
        phi: Vec<f64>,
        x: Vec<f64>,
    }
    let names = [
        "atoms",
        "atoms^2",
        "sum log(1+|w|)",
        "sum w^2 capped",
        "sum log(1+|phi|)",
        "fit x",
        "fit^2",
        "atoms x^2",
        "w phi",
        "log(1+|w|) |phi|",
    ];
    let mut scratch = Scratch::default();
    let report = one_step_invariance(
        "private atoms",
        &settings(100_000),
        &names,
        |s: &State, out| {
            let count = s.w.len() as f64;
            let fit: Vec<f64> =
                (0..columns).map(|m| s.w.iter().enumerate().skip(1).map(|(k, w)| w * s.phi[k * columns + m]).sum()).collect();
            let own = || s.w.iter().enumerate().skip(1);
            out.extend([count, count * count, own().map(|(_, w)| w.abs().ln_1p()).sum(), own().map(|(_, w)| w.powi(2).min(4.0)).sum()]);
            out.push(s.phi.iter().map(|p| p.abs().ln_1p()).sum());
            out.extend([fit[0] * s.x[0], fit[0] * fit[1] + fit[1] * fit[1], count * s.x[0] * s.x[0]]);
            out.push(own().map(|(k, w)| w * s.phi[k * columns] * s.x[0]).sum());
            out.push(own().map(|(k, w)| w.abs().ln_1p() * s.phi[k * columns + 1].abs()).sum());
        },
        &mut philox(22),
        |rng: &mut Philox| {
            let count = 1 + Poisson::new(tau).unwrap().sample(rng) as usize;
            let mut state = State { w: Vec::new(), phi: Vec::new(), x: (0..columns).map(|_| normal(rng) / 1.5_f64.sqrt()).collect() };
            for k in 0..count {
                state.w.push(model.prior_weight(&given, 0, rng)?);
                state.phi.extend(model.prior_atom(&given, rng)?);
                (0..columns).for_each(|m| state.x[m] += state.w[k] * state.phi[k * columns + m]);
            }
            Ok::<State, Error>(state)
        },
        |mut state, rng| {
            let count = state.w.len();
            let entries: Vec<Entry> = state.w.iter().enumerate().map(|(k, w)| (k as u32, *w)).collect();
            let private: Vec<bool> = (0..count).map(|k| k > 0).collect();
            let view = model.view(&state.phi, count, &given);
            let attempts = Attempts { ln_rate: tau.ln(), count: 2, room: true };
            let here = row(dense(&state.x, columns), 0, &[]);
            let changes = model.private_moves(&view, here, &entries, &private, attempts, &mut scratch, rng)?;
            state.w.truncate(1);
            state.phi.truncate(columns);
            for (k, phi) in changes.redrawn {
                state.w.push(entries[k as usize].1);
                state.phi.extend(phi);
            }
            for (w, phi) in changes.born {
                state.w.push(w);
                state.phi.extend(phi);
            }
            Ok(state)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

/// Atoms, their scales and all precisions given which row uses which atom.
#[test]
fn learning_atoms_and_precisions() {
    let (columns, atoms) = (2, 2);
    let model = plain(columns, 2, None);
    // rows of two sources
    let uses: [(u32, &[usize]); 4] = [(0, &[0, 1]), (0, &[0]), (1, &[1]), (1, &[0, 1])];
    let sources = uses.map(|u| u.0);
    /// The weights of a row are in ascending order of its atoms.
    struct State {
        scales: Scales,
        phi: Vec<f64>,
        w: Vec<Vec<f64>>,
        x: Vec<f64>,
    }
    let names = [
        "ln t_phi",
        "ln t_w0",
        "ln t_w1",
        "ln t_n0",
        "ln t_n1",
        "log(1+|phi0|)",
        "log(1+|phi1|)",
        "log(1+|w|)",
        "ln t_w log(1+|w|)",
        "ln t_w1 log(1+|w1|)",
        "ln t_phi log(1+|phi|)",
        "log(1+|phi|) log(1+|w|)",
        "ln t_n log(1+rss)",
        "ln t_n1 x^2 capped",
        "phi w x",
        "t_phi phi^2",
        "t_w w^2",
        "t_n rss",
        "log(1+rss)",
        "phi0 phi1",
    ];
    let residuals = |s: &State, j: u32| -> f64 {
        let mut sum = 0.0;
        for (i, (_, used)) in uses.iter().enumerate().filter(|u| u.1.0 == j) {
            for m in 0..columns {
                let fitted: f64 = used.iter().zip(&s.w[i]).map(|(&k, w)| w * s.phi[k * columns + m]).sum();
                sum += (s.x[i * columns + m] - fitted).powi(2);
            }
        }
        sum
    };
    let mut scratch = Scratch::default();
    let report = one_step_invariance(
        "learning",
        &settings(60_000),
        &names,
        |s: &State, out| {
            let [a, w0, w1, n0, n1] =
                [s.scales.atom, s.scales.weight[0], s.scales.weight[1], s.scales.noise[0], s.scales.noise[1]].map(f64::ln);
            let size = |v: &[f64]| v.iter().map(|v| v.abs().ln_1p()).sum::<f64>();
            let (p0, p1) = (size(&s.phi[..columns]), size(&s.phi[columns..]));
            let (s0, s1) = (size(&s.w[0]) + size(&s.w[1]), size(&s.w[2]) + size(&s.w[3]));
            let (r0, r1) = (residuals(s, 0), residuals(s, 1));
            out.extend([a, w0, w1, n0, n1, p0, p1, s0 + s1, w0 * s0, w1 * s1, a * (p0 + p1), (p0 + p1) * (s0 + s1)]);
            out.extend([n0 * r0.ln_1p(), n1 * s.x[6].powi(2).min(9.0), (s.phi[0] * s.w[0][0] * s.x[0]).tanh()]);
            out.push(s.scales.atom * s.phi.iter().map(|p| p * p).sum::<f64>());
            out.push(s.scales.weight[0] * s.w[..2].iter().flatten().map(|w| w * w).sum::<f64>());
            out.extend([s.scales.noise[1] * r1, r0.ln_1p(), (s.phi[0] * s.phi[columns]).tanh()]);
        },
        &mut philox(23),
        |rng: &mut Philox| {
            let gamma = Gamma::new(4.0, 4.0)?;
            let mut draw = || gamma.sample(rng);
            let scales = scales(draw(), &[draw(), draw()], &[draw(), draw()]);
            let mut phi = Vec::new();
            for _ in 0..atoms {
                phi.extend(model.prior_atom(&scales, rng)?);
            }
            let (mut w, mut x) = (Vec::new(), Vec::new());
            for (source, used) in uses {
                let own: Vec<f64> = used.iter().map(|_| model.prior_weight(&scales, source as usize, rng)).collect::<Result<_>>()?;
                for m in 0..columns {
                    let fitted: f64 = used.iter().zip(&own).map(|(&k, w)| w * phi[k * columns + m]).sum();
                    x.push(fitted + normal(rng) / scales.noise[source as usize].sqrt());
                }
                w.push(own);
            }
            Ok::<State, Error>(State { scales, phi, w, x })
        },
        |mut state, rng| {
            let view = model.view(&state.phi, atoms, &state.scales);
            let x = dense(&state.x, columns);
            model.prepare(&view, x, &sources, &[], &mut scratch);
            let mut sums = Sums::default();
            for (at, (source, used)) in uses.iter().enumerate() {
                let entries: Vec<Entry> = used.iter().zip(&state.w[at]).map(|(&k, &w)| (k as u32, w)).collect();
                let row = Row { x, at, source: *source as usize, filled: &[] };
                model.report(&view, row, &entries, &mut [], &mut scratch, rng, &mut sums)?;
            }
            let factors = model.learn(&mut state.phi, &mut state.scales, &sums, &[2, 1, 1, 2], &[2, 2], rng)?;
            for (own, (_, used)) in state.w.iter_mut().zip(uses) {
                own.iter_mut().zip(used).for_each(|(w, &k)| *w /= factors[k]);
            }
            Ok(state)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}
