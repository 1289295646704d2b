//! Atoms that a new row alone uses: the row against draws from the prior that are weighed by the likelihood, and the moves alone.

use rand_distr::{Distribution, Poisson};

use super::super::super::likelihood::Own;
use super::*;
use crate::check::{InvarianceSettings, one_step_invariance};
use crate::special::ln_gamma;

/// Log rate of such atoms, and the shape and rate of their entries.
const LN_RATE: f64 = -0.3;
const SHAPE: f64 = 0.4;
const RATE: f64 = 1.3;
const BACKGROUND: f64 = 0.2;
const WEIGHT_RATE: f64 = 0.8;

fn stage(weight_shape: f64) -> (Counts, Stage<Counts>) {
    let scales = Scales { shape: SHAPE, atom: RATE, weight: vec![WEIGHT_RATE; 2], background: vec![BACKGROUND; 2] };
    let likelihood = Counts { weight_shape, ..Counts::of_three_columns() };
    let view = likelihood.view(&PHI.concat(), 2, &scales);
    let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
    (likelihood, Stage { view, scales, ln_odds, ln_own: vec![LN_RATE; 2], count: 2, number: 0 })
}

/// Weight and entries of the atoms of a row's own, from the prior.
fn own_from_prior(weight_shape: f64, rng: &mut Philox) -> Vec<(f64, [f64; 3])> {
    let (weight, entry) = (Gamma::new(weight_shape, WEIGHT_RATE).unwrap(), Gamma::new(SHAPE, RATE).unwrap());
    let count = Poisson::new(LN_RATE.exp()).unwrap().sample(rng) as usize;
    (0..count).map(|_| (weight.sample(rng), std::array::from_fn(|_| entry.sample(rng).max(1e-300)))).collect()
}

/// What is said of a row: uses of the two atoms, how many it has of its own and whether any, what those add up to, and what a count more is
/// expected to be.
const FIGURES: usize = 8;

fn exact(x: &[f64; 3], weight_shape: f64, exposure: f64) -> [(f64, f64); FIGURES] {
    let mut rng = Stream::new(21, 0, Purpose::Check).rng();
    let weight = Gamma::new(weight_shape, WEIGHT_RATE).unwrap();
    let draws: Vec<(f64, [f64; FIGURES])> = (0..600_000)
        .map(|_| {
            let uses = [0.6, 0.3].map(|p| open01(&mut rng) < p);
            let mut rate = [BACKGROUND; 3];
            for (used, phi) in uses.iter().zip(&PHI) {
                if *used {
                    let w = weight.sample(&mut rng);
                    rate.iter_mut().zip(phi).for_each(|(r, p)| *r += w * p);
                }
            }
            let own = own_from_prior(weight_shape, &mut rng);
            let mut carried = 0.0;
            for (w, phi) in &own {
                rate.iter_mut().zip(phi).for_each(|(r, p)| *r += w * p);
                carried += w * phi.iter().sum::<f64>();
            }
            let all: f64 = rate.iter().sum();
            let ln_row: f64 = x.iter().zip(&rate).map(|(x, r)| x * (exposure * r).ln() - ln_gamma(x + 1.0)).sum::<f64>() - exposure * all;
            let told = |b: bool| f64::from(u8::from(b));
            let shares = rate.map(|r| r / all);
            let count = own.len() as f64;
            (ln_row.exp(), [told(uses[0]), told(uses[1]), count, told(count > 0.0), carried, shares[0], shares[1], shares[2]])
        })
        .collect();
    let total: f64 = draws.iter().map(|d| d.0).sum();
    std::array::from_fn(|c| {
        let mean = draws.iter().map(|d| d.0 * d.1[c]).sum::<f64>() / total;
        (mean, draws.iter().map(|d| (d.0 * (d.1[c] - mean)).powi(2)).sum::<f64>().sqrt() / total)
    })
}

/// Eight figures of each of five cases, four standard errors from fifty batches: a false alarm in a hundred.
#[test]
fn new_rows_with_atoms_of_their_own_have_their_exact_distribution() {
    let cases = [
        ([2.0, 0.0, 1.0], 1.0, 1.0),
        ([3.0, 0.0, 5.0], 1.3, 0.5),
        ([0.0, 0.0, 0.0], 1.0, 1.0),
        ([0.0, 7.0, 1.0], 0.6, 0.7),
        ([1.0, 1.0, 2.0], 2.0, 1.0),
    ];
    for (x, weight_shape, exposure) in cases {
        let (likelihood, stage) = stage(weight_shape);
        let rows = Matrix::dense(1, 3, x.to_vec());
        let mut order = Vec::new();
        super::super::super::counts::by_count(Row { x: rows.view(), at: 0, source: 0, filled: &[] }, &mut order);
        let found = means(&likelihood, stage, &x, exposure, FIGURES, (50, 200), |stage, out, placing| {
            let mut entries = Vec::new();
            likelihood.met(placing, &mut entries);
            entries.iter().for_each(|e| out[e.0 as usize] += 1.0);
            let own = placing.own();
            out[2] += own.len() as f64;
            out[3] += f64::from(u8::from(!own.is_empty()));
            out[4] += own.iter().map(|own| own.weight * (own.seen.iter().sum::<f64>() + own.rest)).sum::<f64>();
            let mut shares = vec![0.0; 3 + order.len()];
            placing.add_shares(stage.view(), 3, &mut shares);
            for m in 0..3 {
                let of = |a: usize| shares[a] * PHI[a][m] / PHI[a].iter().sum::<f64>();
                out[5 + m] += of(0) + of(1) + shares[2] / 3.0;
            }
            order.iter().zip(&shares[3..]).for_each(|((m, _), share)| out[5 + *m as usize] += share);
        });
        for (which, ((mean, error), (exact, exact_error))) in found.into_iter().zip(exact(&x, weight_shape, exposure)).enumerate() {
            assert!(
                (mean - exact).abs() < 4.0 * error.hypot(exact_error),
                "{x:?} shape {weight_shape}, {which}: {mean} ± {error} for {exact} ± {exact_error}"
            );
        }
    }
}

/// Atoms and a row given them from their prior, one step, the same distribution.
#[test]
fn births_and_deaths_in_new_rows_keep_the_distribution() {
    let names = ["atoms", "atoms squared", "weights", "ln weights", "sums", "counts times rates", "ln entries"];
    for (weight_shape, exposure) in [(1.0, 1.0), (1.7, 0.5)] {
        let (likelihood, stage) = stage(weight_shape);
        let report = one_step_invariance(
            "atoms of a new row",
            &InvarianceSettings { draws: 60_000, ..Default::default() },
            &names,
            |(own, x): &(Vec<Own>, Vec<f64>), out| {
                let n = own.len() as f64;
                let seen = |own: &Own| own.seen.iter().zip(x.iter().filter(|x| **x > 0.0)).map(|(v, x)| v * x * own.weight).sum::<f64>();
                out.extend([
                    n,
                    n * n,
                    own.iter().map(|o| o.weight).sum(),
                    own.iter().map(|o| o.weight.ln()).sum(),
                    own.iter().map(|o| o.seen.iter().sum::<f64>() + o.rest).sum(),
                    own.iter().map(seen).sum(),
                    own.iter().flat_map(|o| &o.seen).map(|v| v.ln_1p()).sum(),
                ]);
            },
            &mut Stream::new(22, 0, Purpose::Check).rng(),
            |rng: &mut Philox| -> Result<_> {
                let own = own_from_prior(weight_shape, rng);
                let mut mix = [0.0; 3];
                own.iter().for_each(|(w, phi)| mix.iter_mut().zip(phi).for_each(|(m, p)| *m += exposure * w * p));
                let scales = Scales { background: vec![exposure * BACKGROUND; 2], ..stage.scales.clone() };
                let x = likelihood.draw_row(&scales, 0, &mix, rng)?;
                let as_seen = |(weight, phi): &(f64, [f64; 3])| Own {
                    weight: *weight,
                    seen: phi.iter().zip(&x).filter(|(_, x)| **x > 0.0).map(|(p, _)| *p).collect(),
                    rest: phi.iter().zip(&x).filter(|(_, x)| **x == 0.0).map(|(p, _)| p).sum(),
                    owed: x.iter().filter(|x| **x > 0.0).map(|_| 0.0).collect(),
                };
                Ok((own.iter().map(as_seen).collect(), x))
            },
            |(own, x), rng| {
                // rows are taken up by the order of their counts
                let rows = Matrix::dense(1, 3, x.clone());
                let row = Row { x: rows.view(), at: 0, source: 0, filled: &[] };
                let mut order = Vec::new();
                super::super::super::counts::by_count(row, &mut order);
                let columns: Vec<u32> = (0..3).filter(|&m| x[m as usize] > 0.0).collect();
                let at: Vec<usize> = order.iter().map(|(m, _)| columns.iter().position(|c| c == m).unwrap()).collect();
                let mut own: Vec<Own> = own.into_iter().map(|o| Own { seen: at.iter().map(|&i| o.seen[i]).collect(), ..o }).collect();
                let mut placing = <Counts as Likelihood>::Placing::default();
                likelihood.meet(stage.view(), row, &[], &[], exposure, &mut placing);
                likelihood.take_own(&mut placing, &mut own);
                likelihood.own_moves(stage.view(), LN_RATE, &mut placing, rng)?;
                likelihood.leave_own(&mut placing, &mut own);
                let back = |o: Own| {
                    let mut seen = vec![0.0; at.len()];
                    at.iter().zip(&o.seen).for_each(|(&i, v)| seen[i] = *v);
                    Own { seen, ..o }
                };
                Ok((own.into_iter().map(back).collect(), x))
            },
        )
        .unwrap();
        assert!(report.passed, "{report}");
    }
}

/// Rows of two sources, and one of a source that the fit has not seen: the atoms that a row more brings are those that it alone uses.
#[test]
fn the_rate_of_atoms_of_a_row_more() {
    let (rows, concentration, mass) = ([3, 5], [1.3, 0.6], 2.5);
    let draw = Draw {
        ln_joint: 0.0,
        ln_likelihood: 0.0,
        mass,
        concentration: concentration.to_vec(),
        scales: vec![vec![SHAPE], vec![RATE], vec![WEIGHT_RATE; 2], vec![BACKGROUND; 2]],
        phi: PHI.concat().iter().map(|&v| v as f32).collect(),
        weight: vec![0.4, 0.2],
        uses: vec![2, 1, 0, 4],
        carried: vec![1.0; 4],
    };
    let likelihood = Counts { sources: 2, ..Counts::of_three_columns() };
    let found = Stage::<Counts>::new(&likelihood, &draw, &rows, 3, true, true).unwrap();
    assert_eq!(found.count, 2, "atoms from the prior beside those of the row's own");
    let atoms = |rows: &[u64]| BetaProcess::new(rows, &[1.3, 0.6, 0.95]).atoms();
    for (j, more) in [[4, 5, 0], [3, 6, 0], [3, 5, 1]].into_iter().enumerate() {
        let exact = mass * (atoms(&more) - atoms(&[3, 5, 0]));
        assert!((found.ln_own[j] - exact.ln()).abs() < 1e-8, "source {j}: {} for {}", found.ln_own[j], exact.ln());
    }
    let drawn = Stage::<Counts>::new(&likelihood, &draw, &rows, 3, true, false).unwrap();
    assert!(drawn.count > 2 && drawn.ln_own.is_empty());
}
