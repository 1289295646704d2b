//! From where the maximum of the likelihood is looked for: random weights, and clusters of rows.
//!
//! A cluster with centre c and variance σ² becomes the weights ½[c/σ², −‖c‖²/(2σ²)]: half of what would make the softmax the posterior of
//! Gaussian clusters, since the classes matter too. Subclasses take clusters of the rows of their class; a gate takes clusters of
//! the rows that reach it, and hands each cluster on to what is below. Experts begin at zero.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::layout::Layout;
use super::pass::ask::Gathered;
use super::tree::Child;
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

struct Clusters {
    centres: Vec<f64>,
    member: Vec<usize>,
    /// Mean variance within clusters, per dimension.
    variance: f64,
}

/// k-means from a k-means++ start. With fewer distinct points than clusters the rest lie at random points of the standard normal.
fn k_means(points: &[&[f64]], k: usize, dim: usize, rng: &mut impl Rng) -> Clusters {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let mut centres: Vec<f64> = Vec::with_capacity(k * dim);
    let mut nearest = vec![f64::INFINITY; points.len()];
    for number in 0..k {
        let total: f64 = if number == 0 { points.len() as f64 } else { nearest.iter().sum() };
        if total > 0.0 {
            let mut left = rng.random::<f64>() * total;
            let mut chosen = points.len() - 1;
            for (i, d) in nearest.iter().enumerate() {
                left -= if number == 0 { 1.0 } else { *d };
                if left < 0.0 {
                    chosen = i;
                    break;
                }
            }
            centres.extend_from_slice(points[chosen]);
        } else {
            centres.extend((0..dim).map(|_| -> f64 { StandardNormal.sample(rng) }));
        }
        let centre = &centres[number * dim..];
        for (near, p) in nearest.iter_mut().zip(points) {
            *near = near.min(distance(p, centre));
        }
    }
    let mut member = vec![usize::MAX; points.len()];
    for _ in 0..50 {
        let mut moved = false;
        let mut sums = vec![0.0; k * dim];
        let mut counts = vec![0usize; k];
        for (p, member) in points.iter().zip(&mut member) {
            let best = (0..k)
                .map(|c| (c, distance(p, &centres[c * dim..(c + 1) * dim])))
                .fold((0, f64::INFINITY), |best, now| if now.1 < best.1 { now } else { best });
            moved |= *member != best.0;
            *member = best.0;
            counts[best.0] += 1;
            sums[best.0 * dim..(best.0 + 1) * dim].iter_mut().zip(p.iter()).for_each(|(s, v)| *s += v);
        }
        for c in (0..k).filter(|c| counts[*c] > 0) {
            for j in 0..dim {
                centres[c * dim + j] = sums[c * dim + j] / counts[c] as f64;
            }
        }
        if !moved {
            break;
        }
    }
    let within: f64 = points.iter().zip(&member).map(|(p, &c)| distance(p, &centres[c * dim..(c + 1) * dim])).sum();
    let variance = (within / (points.len() * dim).max(1) as f64).max(1e-2);
    Clusters { centres, member, variance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Purpose;

    #[test]
    fn clusters_far_apart_are_found() {
        let mut rng = Stream::new(3, 0, Purpose::Check).rng();
        let points: Vec<Vec<f64>> = (0..90)
            .map(|i| {
                let (x, y): (f64, f64) = (StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng));
                vec![x + [0.0, 30.0, -30.0][i % 3], y]
            })
            .collect();
        let views: Vec<&[f64]> = points.iter().map(|p| &p[..]).collect();
        let found = k_means(&views, 3, 2, &mut rng);
        assert!((0..90).all(|i| found.member[i] == found.member[i % 3]));
        assert!((found.variance - 1.0).abs() < 0.3, "{}", found.variance);
        // fewer points than clusters, and none at all
        assert_eq!(k_means(&views[..2], 4, 2, &mut rng).centres.len(), 8);
        assert_eq!(k_means(&[], 2, 2, &mut rng).centres.len(), 4);
    }
}
