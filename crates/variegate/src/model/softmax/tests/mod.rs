//! Numbers from the derivation, invariants of the ascent, and the fronts' promises.

mod front;
mod invariants;
mod maps;
mod oracles;
mod search;
mod trees;

use serde_json::{Map, Value};

use super::*;
use crate::data::Dataset;
use crate::data::Target;
use crate::data::{Classes, Matrix};
use crate::run::{Chain, Shape, Typed, blocks};

const CHILD: CovarianceChoice = CovarianceChoice(Some(Covariance::Child));
const JOINT: CovarianceChoice = CovarianceChoice(Some(Covariance::Joint));
const AUTO: CovarianceChoice = CovarianceChoice(None);

fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}

fn classes(codes: &[u32], names: usize) -> Target {
    Target::Classes(Classes { codes: codes.to_vec(), names: (0..names).map(|c| format!("k{c}")).collect() })
}

/// Five rows of one column, no bias.
fn five(codes: &[u32], names: usize) -> Dataset<'static> {
    Dataset::new(Matrix::dense(5, 1, vec![1.0, 2.0, -0.5, -1.5, 0.8])).with_target(classes(codes, names))
}

fn program(settings: &Settings, children: usize, design: Design) -> Vb {
    check::program(settings, Emission::Classes(children), design, vec![1.0; children]).unwrap()
}

/// The only node of a plain softmax.
fn node(state: &State) -> &node::Node {
    &state.q.as_ref().unwrap().nodes[0]
}

/// L of other factors in the place of those of a state.
fn evaluate(program: &Vb, state: &State, q: &factors::Factors, rows: &mut dyn crate::run::Rows<Vb>) -> (f64, pass::ask::TreeStats) {
    let layout = program.layout(&state.tree);
    program.evaluate(&layout, state, q, &q.moments(&layout, &state.basis, 1.0).unwrap(), rows).unwrap()
}

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

/// The chain of a program over the data, in blocks of three rows, and its trace after so many sweeps or at the very top.
fn climb<T>(program: &Vb, data: &Dataset<'_>, sweeps: usize, then: impl FnOnce(&mut Typed<'_, Vb>, &[f64]) -> T) -> T {
    let Emission::Classes(classes) = program.outcome else { panic!("not a classifier") };
    climb_tree(program, data, &Structure::Subclasses(vec![1; classes]), sweeps, then)
}

/// The same for a structure.
fn climb_tree<T>(
    program: &Vb,
    data: &Dataset<'_>,
    structure: &Structure,
    sweeps: usize,
    then: impl FnOnce(&mut Typed<'_, Vb>, &[f64]) -> T,
) -> T {
    let blocks = blocks(data, 3);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: 3 };
    let mut chain = Typed::at(program, &blocks, shape, 0, 0, State::new(program, check::job(structure, u64::MAX))).unwrap();
    let mut trace = vec![chain.advance(false).unwrap().objective];
    for _ in 0..sweeps {
        trace.push(chain.advance(false).unwrap().objective);
        if chain.global.standing == job::Standing::NoStepLeft {
            break;
        }
    }
    then(&mut chain, &trace)
}

/// q at its fixed point.
fn top(program: &Vb, data: &Dataset<'_>) -> State {
    climb(program, data, 3000, |chain, _| chain.global.clone())
}

/// The same for a structure.
fn top_tree(program: &Vb, data: &Dataset<'_>, structure: &Structure) -> State {
    climb_tree(program, data, structure, 3000, |chain, _| chain.global.clone())
}
