//! Running means and variances of several numbers at once, mergeable.

/// Welford's sums, one pair a number; merging in a fixed order gives the same bits for any number of threads.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub count: u64,
    pub mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    pub(super) fn new(width: usize) -> Self {
        Self { count: 0, mean: vec![0.0; width], squares: vec![0.0; width] }
    }

    pub(super) fn add(&mut self, values: &[f64]) {
        self.count += 1;
        for ((mean, squares), value) in self.mean.iter_mut().zip(&mut self.squares).zip(values) {
            let away = value - *mean;
            *mean += away / self.count as f64;
            *squares += away * (value - *mean);
        }
    }

    pub(super) fn merge(&mut self, right: &Self) {
        if right.count == 0 {
            return;
        }
        let (n, m) = (self.count as f64, right.count as f64);
        for i in 0..self.mean.len() {
            let away = right.mean[i] - self.mean[i];
            self.mean[i] += away * m / (n + m);
            self.squares[i] += right.squares[i] + away * away * n * m / (n + m);
        }
        self.count += right.count;
    }

    /// Variance with divisor n − 1; NaN for fewer than two.
    pub(super) fn variance(&self, i: usize) -> f64 {
        if self.count < 2 { f64::NAN } else { self.squares[i] / (self.count - 1) as f64 }
    }

    /// Squared standard error of the mean.
    pub(super) fn error_squared(&self, i: usize) -> f64 {
        self.variance(i) / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_parts_are_the_whole() {
        let values: Vec<[f64; 2]> = (0..57).map(|i| [f64::from(i).sin() + 1e6, f64::from(i * i % 13)]).collect();
        let of = |part: &[[f64; 2]]| {
            let mut m = Moments::new(2);
            part.iter().for_each(|v| m.add(v));
            m
        };
        let whole = of(&values);
        for cut in [0, 1, 20, 57] {
            let mut merged = of(&values[..cut]);
            merged.merge(&of(&values[cut..]));
            assert_eq!(merged.count, 57);
            for i in 0..2 {
                assert!((merged.mean[i] / whole.mean[i] - 1.0).abs() < 1e-14);
                assert!((merged.variance(i) / whole.variance(i) - 1.0).abs() < 1e-8);
            }
        }
        let plain = values.iter().map(|v| (v[1] - whole.mean[1]).powi(2)).sum::<f64>() / 56.0;
        assert!((whole.variance(1) - plain).abs() < 1e-12);
        assert!(Moments::new(1).variance(0).is_nan());
    }
}
