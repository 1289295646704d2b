//! Clusters of points around centres, for starts of other methods.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

/// Clusters of points.
pub(crate) struct Clusters {
    /// One a row.
    pub(crate) centres: Vec<f64>,
    /// Cluster of each point.
    pub(crate) member: Vec<usize>,
    /// Mean variance within clusters, per dimension.
    pub(crate) variance: f64,
}

/// k-means from a k-means++ start. With fewer distinct points than clusters the rest lie at random points of the standard normal.
pub(crate) fn k_means(points: &[&[f64]], k: usize, dim: usize, rng: &mut impl Rng) -> Clusters {
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
    use crate::run::{Purpose, Stream};

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
