//! Moves that change the tree under a margin: each by itself, and a chain against known posteriors.

use super::super::super::state::State;
use super::super::{PathMove, Rules, Sampler};
use super::exact::{Joint, Margin, four_rows};
use super::{concentrations, known, summary};
use crate::run::{Purpose, Stream};

/// The four rows with a margin: stated, calibrated by some function, and with violations added up.
fn margins() -> Vec<(&'static str, Joint)> {
    let stated = Margin { separation: 0.4, margin: 0.7, sum: false, phi: vec![1.3, -0.8, 0.5, -1.6], ln_r: None, least: 0.0 };
    // charges siblings of level 1 and rewards those of level 2, differently from row to row
    let ln_r = |n: usize, m: &[usize]| 0.1 * (n + 1) as f64 * m[0] as f64 - 0.15 * m[1].min(1) as f64;
    let calibrated = Margin { ln_r: Some(ln_r), least: -0.15, ..stated.clone() };
    let sum = Margin { sum: true, ..stated.clone() };
    [("stated", stated), ("calibrated", calibrated), ("sum", sum)]
        .map(|(name, margin)| (name, Joint { margin: Some(margin), ..four_rows() }))
        .into()
}

#[test]
fn long_a_row_step_with_a_margin_keeps_the_distribution() {
    for (i, (name, joint)) in margins().into_iter().enumerate() {
        joint.check(&format!("row step, {name}"), 30_000, 40 + i as u64, |s, rng| {
            s.row_step(0, rng)?;
            s.draw_theta(rng)
        });
    }
    let joint = margins().swap_remove(0).1;
    let prior = joint.with_rules(Rules { path_move: PathMove::Prior, ..joint.model.rules.clone() });
    prior.check("row step, prior proposals", 30_000, 43, |s, rng| {
        s.row_step(0, rng)?;
        s.draw_theta(rng)
    });
}

#[test]
fn long_regraft_with_a_margin_keeps_the_distribution() {
    for (i, (name, joint)) in margins().into_iter().enumerate() {
        joint.check(&format!("regraft, {name}"), 30_000, 50 + i as u64, |s, rng| {
            s.sweep_tables(rng);
            s.draw_weights(rng);
            Ok(())
        });
    }
}

/// Three rows, whose posterior under the margin is known from quadrature over scores: nodes, atoms, one path, pairs at level 1.
#[test]
fn long_three_rows_meet_the_known_posterior_under_a_margin() {
    let x = [-1.3, 0.4, 1.6];
    let stated = Margin { separation: 0.3, margin: 1.0, sum: false, phi: x.to_vec(), ln_r: None, least: 0.0 };
    let strong = Margin { separation: 1.0, ..stated.clone() };
    // r of each row, by its numbers of siblings: one, two at a level, one at each of two levels
    fn ln_r(n: usize, m: &[usize]) -> f64 {
        let r = [[0.583702, 0.451566, 0.389170], [0.575234, 0.501353, 0.469797], [0.577423, 0.438169, 0.371771]];
        let kind = if m[0].max(m[1]) == 2 {
            1
        } else if m[0].min(m[1]) == 1 {
            2
        } else {
            0
        };
        f64::ln(r[n][kind])
    }
    let calibrated = Margin { ln_r: Some(ln_r), ..stated.clone() };
    let nan = f64::NAN;
    let cases = [
        ("stated, C = 0.3", stated, [1.55007, 1.83435, 1.85278, 0.37364, 0.63931, 0.56760, 0.77035]),
        ("stated, C = 1", strong, [1.21881, 1.31679, nan, 0.70465, nan, nan, nan]),
        ("calibrated, C = 0.3", calibrated, [1.89592, 2.37137, 1.98874, 0.08085, 0.43490, 0.34260, 0.59952]),
    ];
    for (i, (what, margin, printed)) in cases.into_iter().enumerate() {
        let state = State::new(2, 3, None, concentrations(2, 0.8, 1.2, 0.9));
        let mut rng = Stream::new(60 + i as u64, 0, Purpose::Check).rng();
        let mut s = Sampler::new(&x, 1, known(&x, 1, 0.5, 2.0), Rules::default(), state).with_charges(Some(margin.charges()));
        s.start(&mut rng).unwrap();
        let (batches, each) = (60, 600);
        let mut means = vec![];
        for _ in 0..batches {
            let mut sum = [0.0; 7];
            for _ in 0..each {
                s.sweep(&mut rng).unwrap();
                sum.iter_mut().zip(summary(&s.state)).for_each(|(s, v)| *s += v / each as f64);
            }
            means.push(sum);
        }
        s.state.assert_consistent();
        for (j, known) in printed.into_iter().enumerate().filter(|(_, known)| known.is_finite()) {
            let n = batches as f64;
            let mean = means.iter().map(|m| m[j]).sum::<f64>() / n;
            let error = (means.iter().map(|m| (m[j] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
            // 18 comparisons in all: a false alarm in 900
            assert!(((mean - known) / error).abs() < 4.0, "{what}: statistic {j} is {mean} +- {error}, not {known}");
        }
    }
}
