//! How well rows are found that are like a query.

/// What was found for one query, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Whether each row that was found is relevant. Ties are broken already.
    pub relevant: Vec<bool>,
    /// Number of relevant rows there are, found or not.
    pub total: usize,
}

impl Ranking {
    /// Share of relevant rows among the first n; places that nothing was found for count as wrong.
    pub fn precision_at(&self, n: usize) -> f64 {
        self.relevant.iter().take(n).filter(|r| **r).count() as f64 / n as f64
    }

    /// Mean over the relevant rows of the precision at the rank of each; nothing without relevant rows. Rows that were not found count
    /// zero, except those for which a list of this length has no room: the best list always has 1.
    pub fn average_precision(&self) -> Option<f64> {
        let room = self.total.min(self.relevant.len());
        let (mut hits, mut sum) = (0usize, 0.0);
        for (rank, _) in self.relevant.iter().enumerate().filter(|(_, r)| **r) {
            hits += 1;
            sum += hits as f64 / (rank + 1) as f64;
        }
        (room > 0).then(|| sum / room as f64)
    }
}

/// What was found for many queries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Retrieval {
    /// Queries that have a relevant row to be found; only these count.
    pub queries: usize,
    /// Mean of their average precisions; NaN without any.
    pub mean_average_precision: f64,
    /// Mean precision among the first 1, 2, … rows.
    pub precision: Vec<f64>,
}

impl Retrieval {
    /// Averages over queries.
    pub fn of(rankings: &[Ranking]) -> Self {
        let scored: Vec<(&Ranking, f64)> = rankings.iter().filter_map(|r| Some((r, r.average_precision()?))).collect();
        let queries = scored.len();
        let longest = scored.iter().map(|(r, _)| r.relevant.len()).max().unwrap_or(0);
        let mut precision = vec![0.0; longest];
        for (ranking, _) in &scored {
            let mut hits = 0.0;
            for (rank, sum) in precision.iter_mut().enumerate() {
                hits += f64::from(ranking.relevant.get(rank).copied().unwrap_or(false));
                *sum += hits / (rank + 1) as f64;
            }
        }
        precision.iter_mut().for_each(|p| *p /= queries as f64);
        Self { queries, mean_average_precision: scored.iter().map(|s| s.1).sum::<f64>() / queries as f64, precision }
    }

    /// Numbers of rows to tell the precision at: 1, 5, 10, 20, 50, 100, 200, … up to the longest list, and that itself.
    pub fn milestones(&self) -> Vec<usize> {
        let longest = self.precision.len();
        let steps = std::iter::successors(Some(1usize), |n| n.checked_mul(10)).flat_map(|ten| [1, 2, 5].map(|k| k * ten));
        let mut all: Vec<usize> = steps.take_while(|n| *n < longest).filter(|n| *n != 2).collect();
        all.extend((longest > 0).then_some(longest));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(places: &str, total: usize) -> Ranking {
        Ranking { relevant: places.chars().map(|c| c == '+').collect(), total }
    }

    /// Relevant at ranks 1, 3 and 6: (1/1 + 2/3 + 3/6)/3 = 13/18.
    #[test]
    fn average_precision_by_hand() {
        let r = ranking("+-+--+", 3);
        assert!((r.average_precision().unwrap() - 13.0 / 18.0).abs() < 1e-15);
        assert_eq!([1, 2, 3, 6, 12].map(|n| r.precision_at(n)), [1.0, 0.5, 2.0 / 3.0, 0.5, 0.25]);
        // one of four was not found: it counts zero
        assert!((ranking("+-+--+", 4).average_precision().unwrap() - 13.0 / 24.0).abs() < 1e-15);
        // a list of two has no room for more than two
        assert_eq!(ranking("++", 50).average_precision(), Some(1.0));
        assert_eq!(ranking("--", 1).average_precision(), Some(0.0));
        assert_eq!(ranking("---", 0).average_precision(), None);
        assert_eq!(ranking("", 3).average_precision(), None);
    }

    /// Two queries with average precisions 1 and 1/2, and one with nothing to find, which does not count.
    #[test]
    fn means_over_queries() {
        let found = Retrieval::of(&[ranking("+--", 1), ranking("-+-", 1), ranking("---", 0)]);
        assert_eq!((found.queries, found.mean_average_precision), (2, 0.75));
        for (got, expected) in found.precision.iter().zip([0.5, 0.5, 1.0 / 3.0]) {
            assert!((got - expected).abs() < 1e-15);
        }
        assert_eq!(found.milestones(), [1, 3]);
        let none = Retrieval::of(&[]);
        assert!(none.mean_average_precision.is_nan() && none.milestones().is_empty());
    }

    #[test]
    fn milestones_are_round_numbers() {
        let with = |n| Retrieval { precision: vec![0.0; n], ..Retrieval::default() }.milestones();
        assert_eq!(with(100), [1, 5, 10, 20, 50, 100]);
        assert_eq!(with(37), [1, 5, 10, 20, 37]);
        assert_eq!(with(1), [1]);
    }
}
