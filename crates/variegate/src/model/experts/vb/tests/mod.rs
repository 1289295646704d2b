//! Numbers from the derivation, and what an ascent promises.

mod ascent;
mod draws;
mod invariance;

use super::*;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::model::experts::starts::Reward;
use crate::run::{Chain, Typed, blocks};

/// Numbers between −1 and 1 that look random.
fn pseudo(len: usize, salt: u64) -> Vec<f64> {
    let mut s = salt;
    (0..len)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

fn target(codes: &[u32], names: usize) -> Target {
    Target::Classes(Classes { codes: codes.to_vec(), names: (0..names).map(|c| format!("k{c}")).collect() })
}

/// Rows whose class depends on a column in a way that another column decides, with some noise.
fn crossed(n: usize, p: usize, classes: usize) -> (Vec<f64>, Vec<u32>) {
    let x = pseudo(n * p, 17);
    let noise = pseudo(n, 5);
    let y = x
        .chunks(p)
        .zip(&noise)
        .map(|(x, e)| {
            let score = if x[0] > 0.1 { x[p - 1] } else { 0.4 - x[p - 1] } + 0.4 * e;
            (((score + 1.5) / 3.0 * classes as f64).floor().clamp(0.0, classes as f64 - 1.0)) as u32
        })
        .collect();
    (x, y)
}

fn dataset(n: usize, p: usize, classes: usize) -> Dataset<'static> {
    let (x, y) = crossed(n, p, classes);
    Dataset::new(Matrix::dense(n, p, x)).with_target(target(&y, classes))
}

fn side(kappa: f64) -> SidePrior {
    SidePrior { kappa, first: None, shape: 2.0, rate: 0.5 }
}

/// A program over p columns with the defaults of tests.
fn program(experts: usize, classes: usize, p: usize, bias: bool) -> Vb {
    Vb {
        design: Design::identity(p, bias),
        shape: Shape::new(experts, classes, p, bias),
        experts: side(1.5),
        gates: side(1.0),
        intercept_sd: 2.0,
        gate_bound: GateBound::Bohning,
        regularised: None,
        learn: false,
        tol: 1e-12,
        grams: true,
    }
}

fn regularised(program: Vb, reward: f64) -> Vb {
    let (experts, gates) = (SidePrior { kappa: 0.0, ..program.experts }, SidePrior { kappa: 0.0, ..program.gates });
    Vb { experts, gates, regularised: Some(Reward { experts: reward, gates: reward, angular: Regulariser::default() }), ..program }
}

/// A point to start from, without a look at the rows.
fn random_point(shape: &Shape, salt: u64) -> Vec<f64> {
    let mut point = pseudo(shape.len(), salt);
    for sizes in [shape.expert_sizes(), shape.gate_sizes()] {
        point[sizes].iter_mut().for_each(|u| *u = 0.7 + 0.3 * *u);
    }
    point
}

/// The chain of a program that starts at a random point, in blocks of so many rows.
fn with_chain<T>(program: &Vb, data: &Dataset<'_>, block_rows: usize, salt: u64, then: impl FnOnce(&mut Typed<'_, Vb>) -> T) -> T {
    let blocks = blocks(data, block_rows);
    let shape = crate::run::Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows };
    let state = State::new(program.around(&random_point(&program.shape, salt)));
    let mut chain = Typed::at(program, &blocks, shape, 3, 0, state).unwrap();
    let mut state = chain.global.clone();
    program.prepare(&mut state, chain.rows()).unwrap();
    chain.global = state;
    then(&mut chain)
}

/// A sweep of plain steps, neither bold nor lengthened: the best q becomes the candidate that was visited, and the plain step from it the
/// next candidate. Gives back what the candidate has gained.
fn plain_sweep(program: &Vb, chain: &mut Typed<'_, Vb>) -> f64 {
    let mut state = chain.global.clone();
    let (objective, elbo, stats) = program.evaluate(&state.next, chain.rows()).unwrap();
    let gain = objective - state.objective;
    let candidate = state.next.clone();
    state.next = program.step(&candidate, &stats, &state).0;
    (state.q, state.objective, state.elbo) = (candidate, objective, elbo);
    chain.global = state;
    gain
}

/// Sweeps until the ascent has arrived, at most so many; its last state.
fn climb(program: &Vb, data: &Dataset<'_>, sweeps: usize, salt: u64) -> State {
    with_chain(program, data, 16, salt, |chain| {
        for _ in 0..sweeps {
            if chain.advance(false).unwrap().converged {
                break;
            }
        }
        chain.global.clone()
    })
}

/// One column, two experts: computed apart from this code, with the evidence by enumeration of signs and quadrature of lengths.
#[test]
fn optima_as_computed_elsewhere() {
    const EVIDENCE: f64 = -4.01478374;
    let data = Dataset::new(Matrix::dense(5, 1, vec![1.0, 0.5, -1.0, 2.0, -0.5])).with_target(target(&[1, 0, 0, 1, 1], 2));
    let prior = |shape, rate| SidePrior { kappa: 0.7, first: Some(vec![1.0]), shape, rate };
    for (gate_bound, optimum) in [(GateBound::Bohning, -6.0908469), (GateBound::Bouchard, -8.4578934)] {
        let program = Vb { experts: prior(2.0, 0.5), gates: prior(1.5, 1.0), gate_bound, ..program(2, 2, 1, false) };
        let best = (0..6).map(|salt| climb(&program, &data, 2000, salt).objective).fold(f64::NEG_INFINITY, f64::max);
        assert!((best - optimum).abs() < 1e-6, "{gate_bound:?}: {best}");
        assert!(best < EVIDENCE);
    }
}

/// A state saved before steps were mixed is read as one that remembers no points.
#[test]
fn states_of_the_first_version_are_read() {
    let state = climb(&program(3, 2, 3, true), &dataset(30, 3, 2), 25, 1);
    assert_ne!(state.memory, Memory::default());
    let (bytes, memory) = (postcard::to_stdvec(&state).unwrap(), postcard::to_stdvec(&state.memory).unwrap());
    let found = Vb::convert(1, &bytes[..bytes.len() - memory.len()]).unwrap();
    assert_eq!(found, State { memory: Memory::never(), ..state });
    assert!(Vb::convert(2, &bytes).is_none());
}
