//! Two fits on the same rows.

use super::ClassScore;
use super::interval::Z95;

/// How the accuracies of two fits on the same rows differ.
///
/// With b rows that only the first predicts rightly and c rows that only the second does, the difference of accuracies is (b − c)/n:
/// only these rows count, and comparing two intervals instead would forget that the rows are the same (McNemar). The 95 %
/// interval is Wald's after half a row is added to each of the four cells of the table, which keeps its coverage in small categories
/// (Agresti and Min 2005); with b* = b + ½, c* = c + ½, n* = n + 2 it is d* ± z √(b* + c* − (b* − c*)²/n*)/n*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paired {
    /// Number of rows.
    pub rows: usize,
    /// Rows that only the first predicts rightly.
    pub only_first: usize,
    /// Rows that only the second predicts rightly.
    pub only_second: usize,
}

impl Paired {
    /// Compares two fits row by row.
    pub fn of<'a>(rows: impl IntoIterator<Item = (&'a ClassScore, &'a ClassScore)>) -> Self {
        rows.into_iter().fold(Self::default(), |mut all, (a, b)| {
            all.rows += 1;
            all.only_first += usize::from(a.right && !b.right);
            all.only_second += usize::from(b.right && !a.right);
            all
        })
    }

    /// Accuracy of the first less that of the second; NaN without rows.
    pub fn difference(&self) -> f64 {
        (self.only_first as f64 - self.only_second as f64) / self.rows as f64
    }

    /// Its 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        let (b, c, n) = (self.only_first as f64 + 0.5, self.only_second as f64 + 0.5, self.rows as f64 + 2.0);
        let (centre, half) = ((b - c) / n, Z95 * (b + c - (b - c).powi(2) / n).sqrt() / n);
        ((centre - half).max(-1.0), (centre + half).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn only_rows_that_differ_count() {
        let row = |right: bool| ClassScore { right, log_loss: 0.0, brier: 0.0 };
        let first: Vec<_> = [true, true, true, false, false].map(row).to_vec();
        let second: Vec<_> = [true, false, false, true, false].map(row).to_vec();
        let found = Paired::of(first.iter().zip(&second));
        assert_eq!(found, Paired { rows: 5, only_first: 2, only_second: 1 });
        assert_eq!(found.difference(), 0.2);
        let (low, high) = found.interval();
        assert!(low < 0.0 && high > 0.2);
        let swapped = Paired::of(second.iter().zip(&first));
        assert!((swapped.interval().0 + high).abs() < 1e-15);
    }

    /// Cells with probabilities 0.2 and 0.1: the interval of 40 rows holds their difference in 95 % of 4000 samples, to within four
    /// standard errors (0.014) and the interval's own inexactness (0.01).
    #[test]
    fn intervals_hold_what_they_say() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut held = 0;
        for _ in 0..4000 {
            let mut p = Paired { rows: 40, ..Paired::default() };
            for _ in 0..40 {
                let u: f64 = rng.random();
                p.only_first += usize::from(u < 0.2);
                p.only_second += usize::from((0.2..0.3).contains(&u));
            }
            let (low, high) = p.interval();
            held += usize::from(low <= 0.1 && 0.1 <= high);
        }
        assert!((held as f64 / 4000.0 - 0.95).abs() < 0.024, "{held}");
    }
}
