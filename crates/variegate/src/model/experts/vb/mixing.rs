//! Steps mixed from several (Anderson): the end of an ascent in far fewer visits.
//!
//! Near its top an ascent is all but a linear map x → G(x), whose steps f = G(x) − x shrink slowly along few directions. From the last points and
//! their steps follows where the step would vanish were the map linear: the combination of points whose combined step is shortest, and that step
//! from there. As with a lengthened step (`relax.rs`) the next visit decides, and where the objective has not risen all points are
//! forgotten. Far from the top the map is not linear at all, and mixed steps lead to worse tops than plain ones: they wait.

use serde::{Deserialize, Serialize};

use crate::linalg::Cholesky;
use crate::linalg::eights::dot;

/// Points that an ascent has behind it before steps are mixed.
const WAIT: u64 = 20;
/// Points that are remembered, as many as make the least and the most.
const POINTS: std::ops::RangeInclusive<usize> = 3..=11;
/// Numbers that are remembered at most: 32 MB.
const MOST_NUMBERS: usize = 4_000_000;
/// Added to squares of differences of unit length: differences that are all but the same count as one.
const RIDGE: f64 = 1e-8;

/// The last points and their steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// Points so far, forgotten ones included.
    met: u64,
    /// The oldest first.
    points: Vec<(Vec<f64>, Vec<f64>)>,
}

/// So many points are never behind an ascent: those of an older version go on as they began, with plain steps.
const NEVER: u64 = u64::MAX;

impl Memory {
    /// Nothing is remembered, now and later.
    pub(super) fn never() -> Self {
        Self { met: NEVER, points: Vec::new() }
    }

    /// Takes in a point and the end of the step from it.
    pub(super) fn remember(&mut self, x: &[f64], end: &[f64]) {
        if self.met == NEVER {
            return;
        }
        self.met += 1;
        let most = (*POINTS.end()).min(MOST_NUMBERS / (2 * x.len()).max(1));
        // the points before those that the first mixed step is made of are not needed
        if most < *POINTS.start() || self.met + (most as u64) <= WAIT {
            return;
        }
        if self.points.len() == most {
            self.points.remove(0);
        }
        self.points.push((x.to_vec(), minus(end, x)));
    }

    /// Forgets all points.
    pub(super) fn forget(&mut self) {
        self.points = Vec::new();
    }

    /// Where the mixed step ends; none where there is too little to mix.
    pub(super) fn mixed(&self) -> Option<Vec<f64>> {
        let (x, step) = self.points.last()?;
        if self.met < WAIT || self.points.len() < *POINTS.start() {
            return None;
        }
        // differences of points and of their steps, the latter scaled to unit length
        let pairs: Vec<(Vec<f64>, Vec<f64>)> = self
            .points
            .windows(2)
            .map(|w| {
                let (mut point, mut step) = (minus(&w[1].0, &w[0].0), minus(&w[1].1, &w[0].1));
                let scale = dot(&step, &step).sqrt().max(f64::MIN_POSITIVE).recip();
                point.iter_mut().chain(&mut step).for_each(|v| *v *= scale);
                (point, step)
            })
            .collect();
        let m = pairs.len();
        let mut squares = vec![0.0; m * m];
        for (i, (_, a)) in pairs.iter().enumerate() {
            for (j, (_, b)) in pairs[..=i].iter().enumerate() {
                squares[i * m + j] = dot(a, b);
            }
            squares[i * m + i] += RIDGE;
        }
        let mut share: Vec<f64> = pairs.iter().map(|(_, d)| dot(d, step)).collect();
        Cholesky::new(m, &squares).ok()?.solve(&mut share);
        let mut end: Vec<f64> = x.iter().zip(step).map(|(x, f)| x + f).collect();
        for ((point, step), share) in pairs.iter().zip(&share) {
            for ((e, x), f) in end.iter_mut().zip(point).zip(step) {
                *e -= share * (x + f);
            }
        }
        end.iter().all(|v| v.is_finite()).then_some(end)
    }
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linear map with slow directions: once as many steps are known as it has rates, the mixed step ends where the map stands still.
    #[test]
    fn linear_maps_end_at_once() {
        let (rates, rest) = ([0.99, 0.9, 0.5, -0.3], [2.0, -1.0, 0.5, 3.0]);
        let map = |x: &[f64]| -> Vec<f64> { x.iter().zip(rates).zip(rest).map(|((x, r), s)| s + r * (x - s)).collect() };
        let far = |x: &[f64]| x.iter().zip(rest).map(|(x, s)| (x - s).abs()).fold(0.0, f64::max);
        let (mut x, mut memory) = (vec![0.0; 4], Memory::default());
        for sweep in 1..=WAIT {
            let end = map(&x);
            memory.remember(&x, &end);
            assert_eq!(memory.mixed().is_some(), sweep == WAIT);
            x = memory.mixed().unwrap_or(end);
        }
        // plain steps have 0.99²⁰ = 0.82 of the way before them
        assert!(far(&x) < 1e-3, "{x:?}");
        memory.forget();
        assert_eq!(memory.mixed(), None);
        let mut never = Memory::never();
        (0..2 * WAIT).for_each(|_| never.remember(&[1.0], &[0.5]));
        assert_eq!((never.mixed(), never), (None, Memory::never()));
        // points that do not move say nothing, and break nothing
        for _ in 0..5 {
            memory.remember(&rest, &rest);
        }
        assert_eq!(memory.mixed().unwrap(), rest);
    }

    /// Only so many points are kept.
    #[test]
    fn old_points_are_forgotten() {
        let mut memory = Memory::default();
        for i in 0..50 {
            memory.remember(&[i as f64], &[0.0]);
        }
        assert_eq!((memory.points.len(), memory.points[0].0[0]), (*POINTS.end(), 39.0));
        let long = vec![0.0; MOST_NUMBERS];
        (0..2 * WAIT).for_each(|_| memory.remember(&long, &long));
        assert_eq!(memory.points.len(), *POINTS.end());
    }
}
