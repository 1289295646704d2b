//! Dealing rows to a training and a test side, or to K folds.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::DataError;
use crate::run::{GOLDEN, scatter_bits};

/// Two disjoint sets of rows that together are all rows, each ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows to fit.
    pub train: Vec<usize>,
    /// Rows to predict.
    pub test: Vec<usize>,
}

/// Puts a share of the rows aside at random; both sides keep at least one row.
///
/// With `strata` (a class code for each row) every class sends its share to the test side, rounded so that the total is right:
/// the classes with the largest remainders round up.
pub fn train_test<R: Rng + ?Sized>(rows: usize, test_share: f64, strata: Option<&[u32]>, rng: &mut R) -> Result<Split, DataError> {
    if rows < 2 || !(test_share > 0.0 && test_share < 1.0) {
        return Err(DataError::Split { rows, asked: format!("test share {test_share}") });
    }
    let wanted = ((rows as f64 * test_share).round() as usize).clamp(1, rows - 1);
    let groups = groups(rows, strata, rng)?;
    let mut quota: Vec<usize> = groups.iter().map(|g| g.len() * wanted / rows).collect();
    let mut by_remainder: Vec<usize> = (0..groups.len()).collect();
    by_remainder.sort_by_key(|&g| std::cmp::Reverse(groups[g].len() * wanted % rows));
    for &g in by_remainder.iter().take(wanted - quota.iter().sum::<usize>()) {
        quota[g] += 1;
    }
    let mut in_test = vec![false; rows];
    for (group, quota) in groups.iter().zip(quota) {
        for &i in &group[..quota] {
            in_test[i] = true;
        }
    }
    Ok(Split::by(&in_test))
}

/// K splits whose test sides are disjoint, cover all rows and differ in size by at most one; with `strata` also within each class.
pub fn folds<R: Rng + ?Sized>(rows: usize, k: usize, strata: Option<&[u32]>, rng: &mut R) -> Result<Vec<Split>, DataError> {
    if k < 2 || k > rows {
        return Err(DataError::Split { rows, asked: format!("{k} folds") });
    }
    // dealing one class after the other round the table keeps both the classes and the totals even
    let mut fold = vec![0; rows];
    for (at, &i) in groups(rows, strata, rng)?.iter().flatten().enumerate() {
        fold[i] = at % k;
    }
    Ok((0..k).map(|f| Split::by(&fold.iter().map(|&g| g == f).collect::<Vec<_>>())).collect())
}

/// One of several parts of the rows, dealt by a hash of their numbers: parts are even only about, but a block can tell alone
/// which of its rows belong to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Which part.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Fold {
    /// All parts.
    pub fn all(of: u32) -> impl Iterator<Item = Self> {
        (0..of).map(move |index| Self { index, of })
    }

    /// Whether a row belongs to this part.
    pub fn holds(self, row: u64) -> bool {
        scatter_bits(row.wrapping_add(GOLDEN)) % u64::from(self.of) == u64::from(self.index)
    }
}

impl Split {
    fn by(in_test: &[bool]) -> Self {
        let side = |test: bool| (0..in_test.len()).filter(|&i| in_test[i] == test).collect();
        Self { train: side(false), test: side(true) }
    }
}

/// The rows of each stratum (one stratum if there are none), shuffled.
fn groups<R: Rng + ?Sized>(rows: usize, strata: Option<&[u32]>, rng: &mut R) -> Result<Vec<Vec<usize>>, DataError> {
    let mut groups = match strata {
        None => vec![(0..rows).collect()],
        Some(codes) if codes.len() != rows => return Err(DataError::Length { what: "strata", rows, found: codes.len() }),
        Some(codes) => {
            let mut order: Vec<usize> = (0..rows).collect();
            order.sort_by_key(|&i| codes[i]);
            order.chunk_by(|&a, &b| codes[a] == codes[b]).map(<[usize]>::to_vec).collect()
        }
    };
    for group in &mut groups {
        shuffle(group, rng);
    }
    Ok(groups)
}

/// Every order equally likely: each place in turn, from the end, swaps with one at or before it.
pub fn shuffle<T, R: Rng + ?Sized>(items: &mut [T], rng: &mut R) {
    for i in (1..items.len()).rev() {
        // 64-bit bounds on every platform, so that the draws do not depend on the width of usize
        let j = rng.random_range(0..=i as u64) as usize;
        items.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn sides_are_disjoint_and_whole_and_strata_keep_their_share() {
        let codes: Vec<u32> = (0..100).map(|i| if i < 71 { 0 } else { 5 }).collect();
        let rng = &mut SmallRng::seed_from_u64(1);
        let s = train_test(100, 0.3, Some(&codes), rng).unwrap();
        let mut all = [s.train.clone(), s.test.clone()].concat();
        all.sort();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert_eq!(s.test.len(), 30);
        assert_eq!(s.test.iter().filter(|&&i| codes[i] == 0).count(), 21); // 21.3 and 8.7
        assert_ne!(s, train_test(100, 0.3, Some(&codes), rng).unwrap());
        assert_eq!(s, train_test(100, 0.3, Some(&codes), &mut SmallRng::seed_from_u64(1)).unwrap());
        assert_eq!(train_test(2, 0.01, None, rng).unwrap().test.len(), 1);
        assert_eq!(train_test(2, 0.99, None, rng).unwrap().train.len(), 1);
    }

    #[test]
    fn folds_are_even_in_total_and_by_class() {
        let codes: Vec<u32> = (0..47).map(|i| i % 3 % 2).collect();
        let splits = folds(47, 5, Some(&codes), &mut SmallRng::seed_from_u64(2)).unwrap();
        let mut seen = [0; 47];
        for s in &splits {
            assert!((9..=10).contains(&s.test.len()));
            let ones = s.test.iter().filter(|&&i| codes[i] == 1).count();
            assert!((3..=4).contains(&ones), "16 over 5 folds, got {ones}");
            s.test.iter().for_each(|&i| seen[i] += 1);
        }
        assert_eq!(seen, [1; 47]);
    }

    /// Every row is in one part, parts are about even, and the deal is the one that it was.
    #[test]
    fn parts_by_number_cover_the_rows() {
        let of: Vec<u32> = (0..1000).map(|row| Fold::all(5).find(|f| f.holds(row)).unwrap().index).collect();
        assert!((0..1000).all(|row| Fold::all(5).filter(|f| f.holds(row)).count() == 1));
        assert!((0..5).all(|index| (160..240).contains(&of.iter().filter(|f| **f == index).count())));
        assert_eq!(of[..8], [0, 0, 0, 3, 3, 3, 2, 2]);
    }

    #[test]
    fn impossible_splits_are_errors() {
        let rng = &mut SmallRng::seed_from_u64(3);
        for share in [0.0, 1.0, -1.0, f64::NAN, 2.0] {
            assert!(train_test(10, share, None, rng).is_err());
        }
        assert!(train_test(1, 0.5, None, rng).is_err());
        assert!(train_test(0, 0.5, None, rng).is_err());
        assert!(folds(3, 4, None, rng).is_err() && folds(3, 1, None, rng).is_err());
        assert!(matches!(train_test(3, 0.5, Some(&[0]), rng), Err(DataError::Length { .. })));
    }

    /// All 6 orders of 3 items come equally often: chi-square with 5 degrees of freedom below its 1e-6 upper point.
    #[test]
    fn shuffles_are_uniform() {
        let rng = &mut SmallRng::seed_from_u64(4);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, rng);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        let chi2: f64 = counts.values().map(|&c| (c as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!(counts.len() == 6 && chi2 < 35.9, "{counts:?} {chi2}");
    }
}
