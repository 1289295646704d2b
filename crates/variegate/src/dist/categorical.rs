//! Categorical distribution by log-weights.

use super::{ParamError, require, uniform};
use rand::Rng;
use rand_distr::Distribution;

/// Categorical(w): probability of `i` proportional to `exp(w_i)`.
///
/// Log-weights may have any size; `-inf` means never. Weights more than 745 below the largest underflow to 0 in draws (their
/// probability is below the smallest double) and keep their log probability. A draw resolves probabilities to `2^-53`.
#[derive(Debug, Clone, PartialEq)]
pub struct Categorical {
    ln_probabilities: Vec<f64>,
    /// running sums of `exp(w_i - max w)`
    cumulative: Vec<f64>,
}

/// Turns log-weights into running sums of weights relative to the largest; the total is at least 1.
fn accumulate(ln_weights: &mut [f64]) -> Result<f64, ParamError> {
    let name = "categorical";
    let mut largest = f64::NEG_INFINITY;
    for &w in ln_weights.iter() {
        require(w < f64::INFINITY, name, "log-weight", w, "a number or minus infinity")?;
        largest = largest.max(w);
    }
    require(largest > f64::NEG_INFINITY, name, "largest log-weight", largest, "finite: some outcome must be possible")?;
    let mut total = 0.0;
    for w in ln_weights.iter_mut() {
        total += (*w - largest).exp();
        *w = total;
    }
    Ok(largest)
}

/// First index whose running sum exceeds a uniform share of the total: never one of weight 0.
#[inline]
fn pick<R: Rng + ?Sized>(cumulative: &[f64], rng: &mut R) -> usize {
    let total = cumulative[cumulative.len() - 1];
    let u = uniform(rng) * total;
    let place = cumulative.partition_point(|&c| c <= u);
    // rounding may carry u up to the total: then the last outcome that has weight
    if place < cumulative.len() { place } else { cumulative.partition_point(|&c| c < total) }
}

/// One draw by log-weights without allocating; the slice is overwritten with running sums. The same draw as
/// [`Categorical::sample`] makes from the same generator.
#[inline]
pub fn draw_from_ln_weights<R: Rng + ?Sized>(ln_weights: &mut [f64], rng: &mut R) -> Result<usize, ParamError> {
    accumulate(ln_weights)?;
    Ok(pick(ln_weights, rng))
}

/// One draw by shares that sum to one up to rounding, which are asked for one after the other and only as far as needed; never one
/// of share 0.
#[inline]
pub fn draw_from_shares<R: Rng + ?Sized>(shares: impl IntoIterator<Item = f64>, rng: &mut R) -> usize {
    let mut left = uniform(rng);
    let mut last = 0;
    for (i, share) in shares.into_iter().enumerate() {
        if share > 0.0 {
            last = i;
            left -= share;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

impl Categorical {
    /// At least one log-weight above `-inf`; none NaN or `+inf`.
    pub fn new(ln_weights: &[f64]) -> Result<Self, ParamError> {
        let mut cumulative = ln_weights.to_vec();
        accumulate(&mut cumulative)?;
        let norm = crate::special::log_sum_exp(ln_weights);
        Ok(Self { ln_probabilities: ln_weights.iter().map(|w| w - norm).collect(), cumulative })
    }

    /// Log probability of outcome `i`; `-inf` outside the range.
    pub fn ln_pmf(&self, i: usize) -> f64 {
        self.ln_probabilities.get(i).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// Mean of the index.
    pub fn mean(&self) -> f64 {
        self.expect(|i| i)
    }

    /// Variance of the index.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        self.expect(|i| (i - mean) * (i - mean))
    }

    fn expect(&self, g: impl Fn(f64) -> f64) -> f64 {
        self.ln_probabilities.iter().enumerate().map(|(i, p)| p.exp() * g(i as f64)).sum()
    }
}

impl Distribution<usize> for Categorical {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        pick(&self.cumulative, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn frequencies_and_moments() {
        let weights: [f64; 6] = [0.5, -INF, 2.0, 0.01, 3.0, 1.0];
        let shift = -1234.5; // far outside the range of exp
        let ln_weights = weights.map(|w| if w > 0.0 { w.ln() + shift } else { w });
        let total: f64 = weights.iter().filter(|w| **w > 0.0).sum();
        let categorical = Categorical::new(&ln_weights).unwrap();
        let mut rng = rng(1);
        let n = 200_000;
        let draws: Vec<usize> = (0..n).map(|_| categorical.sample(&mut rng)).collect();
        for (i, w) in weights.iter().enumerate() {
            let p = w.max(0.0) / total;
            assert!((categorical.ln_pmf(i).exp() - p).abs() < 1e-12);
            let count = draws.iter().filter(|d| **d == i).count() as f64;
            let sd = (n as f64 * p * (1.0 - p)).sqrt();
            assert!((count - n as f64 * p).abs() <= 4.5 * sd, "outcome {i}: {count}");
        }
        let as_numbers: Vec<f64> = draws.iter().map(|d| *d as f64).collect();
        check_moments("categorical", &as_numbers, categorical.mean(), categorical.variance());
    }

    #[test]
    fn in_place_makes_the_same_draws() {
        let ln_weights = [-3.0, 700.0, 699.0, -INF, 701.5];
        let categorical = Categorical::new(&ln_weights).unwrap();
        let (mut one, mut other) = (rng(4), rng(4));
        for _ in 0..100 {
            assert_eq!(categorical.sample(&mut one), draw_from_ln_weights(&mut ln_weights.clone(), &mut other).unwrap());
        }
    }

    #[test]
    fn shares_are_drawn_as_often_as_they_say() {
        let shares = [0.2, 0.0, 0.5, 0.3, 0.0];
        let (mut rng, n) = (rng(6), 100_000);
        let mut counts = [0.0; 5];
        (0..n).for_each(|_| counts[draw_from_shares(shares, &mut rng)] += 1.0);
        for (count, p) in counts.iter().zip(shares) {
            assert!((count - f64::from(n) * p).abs() <= 4.5 * (f64::from(n) * p * (1.0 - p)).sqrt(), "{counts:?}");
        }
        // shares that rounding left short of one: the last that has any
        assert!((0..1000).all(|_| draw_from_shares([0.0, 1e-300, 0.0], &mut rng) == 1));
    }

    #[test]
    fn edges() {
        let mut rng = rng(5);
        assert_eq!(Categorical::new(&[-1e308]).unwrap().sample(&mut rng), 0);
        let last = Categorical::new(&[-INF, 0.0, -INF]).unwrap();
        assert!((0..1000).all(|_| last.sample(&mut rng) == 1));
        assert_eq!((last.ln_pmf(0), last.ln_pmf(1), last.ln_pmf(7)), (-INF, 0.0, -INF));
        // a sum that rounds to the total is still an outcome with weight
        assert_eq!(pick(&[1.0, 1.0], &mut rng), 0);
        for bad in [&[][..], &[-INF, -INF], &[0.0, f64::NAN], &[INF, 0.0]] {
            assert!(Categorical::new(bad).is_err());
            assert!(draw_from_ln_weights(&mut bad.to_vec(), &mut rng).is_err());
        }
    }

    #[test]
    fn pinned_draws() {
        let categorical = Categorical::new(&[0.0, 1.0, 2.0, 0.5]).unwrap();
        let mut rng = rng(1);
        let got: Vec<usize> = (0..12).map(|_| categorical.sample(&mut rng)).collect();
        assert_eq!(got, [2, 2, 3, 2, 2, 2, 3, 2, 1, 2, 2, 2]);
    }
}
