//! Over-relaxation of an ascent: further along a step than it goes, as long as that pays (Salakhutdinov and Roweis).
//!
//! From x and the step's end G(x) the next point is x + η(G(x) − x), in coordinates of q without bounds. η grows while the objective rises, and
//! falls back to 1 when it does not: then the ascent goes on from the plain step, which cannot fall.

use serde::{Deserialize, Serialize};

/// How η grows.
const GROWTH: f64 = 1.1;
/// How far a step may be lengthened.
const MOST: f64 = 10.0;

/// The length of steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Relaxation {
    length: f64,
}

impl Default for Relaxation {
    fn default() -> Self {
        Self { length: 1.0 }
    }
}

impl Relaxation {
    /// The last step went too far.
    pub(super) fn reset(&mut self) {
        self.length = 1.0;
    }

    /// Beyond the end of a step from x, further than the last time; none for the step as it is.
    pub(super) fn beyond(&mut self, x: &[f64], end: &[f64]) -> Option<Vec<f64>> {
        let now = self.length;
        self.length = (GROWTH * now).min(MOST);
        (now > 1.0).then(|| x.iter().zip(end).map(|(x, g)| x + now * (g - x)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow linear map takes far fewer steps.
    #[test]
    fn slow_maps_are_hastened() {
        let steps = |most: f64| {
            let (mut x, mut relaxation) = (vec![1.0], Relaxation::default());
            let mut count = 0;
            while x[0] > 1e-6 {
                let end = vec![0.98 * x[0]];
                let next = relaxation.beyond(&x, &end).filter(|_| most > 1.0);
                x = next.unwrap_or(end);
                count += 1;
            }
            count
        };
        assert!(steps(10.0) * 4 < steps(1.0), "{} {}", steps(10.0), steps(1.0));
    }
}
