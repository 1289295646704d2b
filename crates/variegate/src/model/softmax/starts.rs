//! From where the maximum of the likelihood is looked for: random weights, and clusters of rows.
//!
//! A cluster with centre c and variance σ² becomes the weights ½[c/σ², −‖c‖²/(2σ²)]: half of what would make the softmax the posterior of
//! Gaussian clusters, since the classes matter too. Subclasses take clusters of the rows of their class; a gate takes clusters of
//! the rows that reach it, and hands each cluster on to what is below. Experts begin at zero.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::layout::Layout;
use super::tree::Child;
use crate::infer::k_means;
use crate::model::gathered::Gathered;
use crate::run::Stream;

/// Rows gathered for clusters: so many numbers at most.
pub(crate) const GATHERED_NUMBERS: usize = 2_000_000;

/// Standard normal weights; leaves begin near zero slopes and unit noise.
pub(crate) fn random(layout: &Layout, stream: Stream) -> Vec<f64> {
    let mut rng = stream.rng();
    let weights = layout.vectors() * layout.dim;
    let mut at = vec![0.0; layout.parameters()];
    for (i, w) in at[..weights].iter_mut().enumerate() {
        let z: f64 = StandardNormal.sample(&mut rng);
        *w = if i < layout.units * layout.dim { z } else { 0.3 * z };
    }
    at
}

/// Weights from clusters of the gathered rows. `bias` says whether the last design column is the bias.
pub(crate) fn clusters(layout: &Layout, gathered: &Gathered, bias: bool, stream: Stream) -> Vec<f64> {
    let mut rng = stream.rng();
    let mut at = vec![0.0; layout.parameters()];
    let rows: Vec<(u32, &[f64])> = gathered.rows.iter().map(|(_, class, row)| (*class, &row[..])).collect();
    place(layout, layout.root, &rows, bias, &mut rng, &mut at);
    // slopes of leaves must differ, or leaves whose gates agree would stay the same
    for w in &mut at[layout.units * layout.dim..layout.vectors() * layout.dim] {
        let z: f64 = StandardNormal.sample(&mut rng);
        *w = 0.1 * z;
    }
    at
}

fn place(layout: &Layout, child: Child, rows: &[(u32, &[f64])], bias: bool, rng: &mut impl Rng, at: &mut [f64]) {
    let Child::Node(number) = child else { return };
    let node = &layout.nodes[number];
    let dim = layout.dim;
    let inputs = dim - usize::from(bias);
    let mut logits = vec![0.0; node.width() * dim];
    match &node.own {
        Some(own) => {
            for (class, children) in own.iter().enumerate() {
                if own.iter().all(|c| c.len() <= 1) {
                    break;
                }
                let of_class: Vec<&[f64]> = rows.iter().filter(|(c, _)| *c == class as u32).map(|(_, row)| &row[..inputs]).collect();
                let found = k_means(&of_class, children.len(), inputs, rng);
                for (centre, &place) in found.centres.chunks_exact(inputs.max(1)).zip(children) {
                    weigh(centre, found.variance, bias, &mut logits[place * dim..(place + 1) * dim]);
                }
            }
        }
        None => {
            let points: Vec<&[f64]> = rows.iter().map(|(_, row)| &row[..inputs]).collect();
            let found = k_means(&points, node.width(), inputs, rng);
            for (centre, logits) in found.centres.chunks_exact(inputs.max(1)).zip(logits.chunks_exact_mut(dim)) {
                weigh(centre, found.variance, bias, logits);
            }
            for (c, below) in node.children.iter().enumerate() {
                let part: Vec<(u32, &[f64])> = rows.iter().zip(&found.member).filter(|(_, m)| **m == c).map(|(row, _)| *row).collect();
                place(layout, *below, &part, bias, rng, at);
            }
        }
    }
    // rows that are all alike have clusters that are all alike, and children that are would stay so
    if logits.iter().any(|l| *l != 0.0) || node.own.is_none() {
        for l in &mut logits {
            let z: f64 = StandardNormal.sample(rng);
            *l += 0.01 * z;
        }
    }
    at[node.at_weights(dim)].copy_from_slice(&node.unit_weights(&logits, dim));
}

fn weigh(centre: &[f64], variance: f64, bias: bool, out: &mut [f64]) {
    for (o, c) in out.iter_mut().zip(centre) {
        *o = 0.5 * c / variance;
    }
    if bias {
        out[centre.len()] = -0.25 * centre.iter().map(|c| c * c).sum::<f64>() / variance;
    }
}
