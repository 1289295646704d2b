//! Weights of a structure made from those of its neighbour: subclasses and experts split, deleted or kept.
//!
//! Parameters are laid out as in `map.rs`. A component that is split along its axis becomes two, w ± [u/σ, −uᵀx̄/σ] with
//! the bias lowered by ln 2: the sum of the two is e^{wᵀx} cosh t with t = uᵀ(x − x̄)/σ, so a split is a start, not the same function.

use super::super::criterion::Axis;
use super::super::job::State;
use super::super::layout::Layout;
use super::super::program::Vb;
use super::super::tree::{Child, Structure};

/// Weights by component: of the gate (one vector a component, or none for a single expert) and of what lies below each.
struct Parts {
    gate: Vec<Vec<f64>>,
    below: Vec<Vec<f64>>,
    noise: Vec<Vec<f64>>,
}

fn shifted(weights: &[f64], axis: &Axis, sign: f64, bias: bool) -> Vec<f64> {
    let mut out = weights.to_vec();
    let inputs = axis.direction.len();
    let scale = sign / axis.deviation.max(1e-8);
    let mut offset = 0.0;
    for j in 0..inputs {
        out[j] += scale * axis.direction[j];
        offset += axis.direction[j] * axis.mean[j];
    }
    if bias {
        out[inputs] -= scale * offset + std::f64::consts::LN_2;
    }
    out
}

/// Subclasses: one weight vector a leaf of the root, in order of classes. `sizes` are the old numbers.
pub(crate) fn split_subclass(program: &Vb, state: &State, leaf: usize, axis: &Axis) -> Option<(Structure, Vec<f64>)> {
    split_subclasses(program, state, &[(leaf, axis)])
}

/// Several at once, in ascending order.
pub(crate) fn split_subclasses(program: &Vb, state: &State, leaves: &[(usize, &Axis)]) -> Option<(Structure, Vec<f64>)> {
    let (old_sizes, mut weights) = subclasses(program, state)?;
    let mut sizes = old_sizes.clone();
    let bias = program.design.intercept;
    // from the last on, so that the numbers of those before stay
    for &(leaf, axis) in leaves.iter().rev() {
        let old = weights[leaf].clone();
        weights[leaf] = shifted(&old, axis, 1.0, bias);
        weights.insert(leaf + 1, shifted(&old, axis, -1.0, bias));
        sizes[class_of(&old_sizes, leaf)] += 1;
    }
    Some(rebuild_subclasses(program, sizes, &weights))
}

/// The structure with only some of the subclasses, which must leave every class one.
pub(crate) fn keep_subclasses(program: &Vb, state: &State, kept: &[bool]) -> Option<(Structure, Vec<f64>)> {
    let (sizes, weights) = subclasses(program, state)?;
    let mut left = vec![0; sizes.len()];
    let mut chosen = Vec::new();
    for (leaf, weights) in weights.into_iter().enumerate() {
        if kept[leaf] {
            left[class_of(&sizes, leaf)] += 1;
            chosen.push(weights);
        }
    }
    if left.contains(&0) {
        return None;
    }
    Some(rebuild_subclasses(program, left, &chosen))
}

fn subclasses(program: &Vb, state: &State) -> Option<(Vec<usize>, Vec<Vec<f64>>)> {
    let Structure::Subclasses(sizes) = &state.job.structure else { return None };
    let layout = program.layout(&state.tree);
    let at = state.parameters(program);
    let root = &layout.nodes[0];
    let weights = root.child_weights(&at[..root.units * layout.dim], layout.dim);
    Some((sizes.clone(), weights.chunks_exact(layout.dim).map(<[f64]>::to_vec).collect()))
}

pub(super) fn class_of(sizes: &[usize], leaf: usize) -> usize {
    let mut left = leaf;
    sizes
        .iter()
        .position(|s| {
            let here = left < *s;
            left = left.wrapping_sub(*s);
            here
        })
        .unwrap_or(0)
}

fn rebuild_subclasses(program: &Vb, sizes: Vec<usize>, weights: &[Vec<f64>]) -> (Structure, Vec<f64>) {
    let structure = Structure::Subclasses(sizes);
    let layout = program.layout(&structure.tree(program.outcome, program.binary));
    let units = layout.nodes[0].unit_weights(&weights.concat(), layout.dim);
    (structure, units)
}

/// One expert becomes two.
pub(crate) fn split_expert(program: &Vb, state: &State, expert: usize, axis: &Axis) -> Option<(Structure, Vec<f64>)> {
    let mut parts = experts(program, state)?;
    let bias = program.design.intercept;
    let old = parts.gate[expert].clone();
    parts.gate[expert] = shifted(&old, axis, 1.0, bias);
    parts.gate.insert(expert + 1, shifted(&old, axis, -1.0, bias));
    parts.below.insert(expert + 1, parts.below[expert].clone());
    parts.noise.insert(expert + 1, parts.noise[expert].clone());
    Some(rebuild_experts(program, &parts))
}

/// The structure without one expert; the last one stays.
pub(crate) fn delete_expert(program: &Vb, state: &State, expert: usize) -> Option<(Structure, Vec<f64>)> {
    let mut parts = experts(program, state)?;
    if parts.gate.len() < 2 {
        return None;
    }
    parts.gate.remove(expert);
    parts.below.remove(expert);
    parts.noise.remove(expert);
    Some(rebuild_experts(program, &parts))
}

fn experts(program: &Vb, state: &State) -> Option<Parts> {
    let Structure::Experts(count) = state.job.structure else { return None };
    let layout = program.layout(&state.tree);
    let at = state.parameters(program);
    let dim = layout.dim;
    let (gate, roots) = if count == 1 {
        (vec![vec![0.0; dim]], vec![layout.root])
    } else {
        let root = &layout.nodes[0];
        let weights = root.child_weights(&at[..root.units * dim], dim);
        (weights.chunks_exact(dim).map(<[f64]>::to_vec).collect(), root.children.clone())
    };
    let mut parts = Parts { gate, below: Vec::new(), noise: Vec::new() };
    for root in roots {
        let (below, noise) = subtree(&layout, root, &at);
        parts.below.push(below);
        parts.noise.push(noise);
    }
    Some(parts)
}

/// Parameters of what lies below a child of the gate: units of an expert, or slopes and noise of a leaf.
fn subtree(layout: &Layout, child: Child, at: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let dim = layout.dim;
    match child {
        Child::Node(node) => {
            let node = &layout.nodes[node];
            (at[node.at_weights(dim)].to_vec(), Vec::new())
        }
        Child::Leaf(leaf) => {
            let first = layout.units + leaf * layout.outputs;
            let noise = layout.vectors() * dim + leaf * layout.outputs;
            (at[first * dim..(first + layout.outputs) * dim].to_vec(), at[noise..noise + layout.outputs].to_vec())
        }
    }
}

fn rebuild_experts(program: &Vb, parts: &Parts) -> (Structure, Vec<f64>) {
    let count = parts.gate.len();
    let structure = Structure::Experts(count);
    let layout = program.layout(&structure.tree(program.outcome, program.binary));
    let mut at = Vec::with_capacity(layout.parameters());
    if count > 1 {
        at.extend(layout.nodes[0].unit_weights(&parts.gate.concat(), layout.dim));
    }
    at.extend(parts.below.iter().flatten());
    at.extend(parts.noise.iter().flatten());
    (structure, at)
}
