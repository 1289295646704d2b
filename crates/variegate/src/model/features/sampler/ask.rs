//! What rows are asked, and what they report.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::linalg::{dot_long, mul_t};
use crate::merge_fields;
use crate::model::ranks::Part;
use crate::run::{Least, List, Merge, Sum};

/// A question to the rows. What is large and changes least comes first: such bytes need not be sent twice.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ask<'a> {
    /// Names of the features, ascending.
    pub ids: Cow<'a, [u64]>,
    /// The features, where they are needed.
    pub view: Option<Cow<'a, View>>,
    /// What rows have not heard of yet, in order.
    pub changes: Cow<'a, [Change]>,
    /// What is asked.
    pub kind: Question<'a>,
}

/// Features as rows need them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// What each feature adds, one after the other.
    pub weights: Vec<f64>,
    /// The same, one column after the other, for sparse rows.
    pub by_column: Vec<f64>,
    /// Inner products of features; none where features are too many for it.
    pub gram: Vec<f64>,
    /// Squared length of each feature.
    pub squares: Vec<f64>,
    /// What is added to every row.
    pub intercept: Vec<f64>,
    /// Its inner products with the features.
    pub with_intercept: Vec<f64>,
    /// Variance of the noise.
    pub noise: f64,
}

/// Inner products of more features than these are found as they are needed: few features of a long list are ever used.
const MOST_PRODUCTS: usize = 2000;

impl View {
    /// These features beside this intercept, for rows of either kind.
    pub(in crate::model::features) fn new(weights: Vec<f64>, intercept: &[f64], noise: f64, sparse: bool) -> Self {
        let width = intercept.len();
        let count = weights.len().checked_div(width).unwrap_or(0);
        let mut gram = Vec::new();
        if (1..=MOST_PRODUCTS).contains(&count) {
            gram.resize(count * count, 0.0);
            mul_t(&weights, &weights, &mut gram, count, width, count, false);
        }
        let squares = weights.chunks_exact(width.max(1)).enumerate();
        let squares = squares.map(|(k, w)| gram.get(k * count + k).copied().unwrap_or_else(|| dot_long(w, w))).collect();
        let mut by_column = Vec::new();
        if sparse {
            by_column.resize(count * width, 0.0);
            for k in 0..count {
                for j in 0..width {
                    by_column[j * count + k] = weights[k * width + j];
                }
            }
        }
        let with_intercept = weights.chunks_exact(width.max(1)).map(|w| dot_long(w, intercept)).collect();
        Self { weights, by_column, gram, squares, intercept: intercept.to_vec(), with_intercept, noise }
    }

    /// Number of features.
    pub fn count(&self) -> usize {
        self.with_intercept.len()
    }

    /// What a feature adds.
    pub fn weight(&self, k: usize) -> &[f64] {
        let width = self.intercept.len();
        &self.weights[k * width..][..width]
    }

    /// Inner products of a feature with all.
    pub fn products(&self, k: usize) -> Cow<'_, [f64]> {
        let (count, width) = (self.count(), self.intercept.len());
        if !self.gram.is_empty() {
            return Cow::Borrowed(&self.gram[k * count..][..count]);
        }
        let mut out = vec![0.0; count];
        if width > 0 {
            mul_t(&self.weights, self.weight(k), &mut out, count, width, 1, false);
        }
        Cow::Owned(out)
    }
}

/// A change to who uses what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Rows that use `by` use `feature` if they did not, and the other way round.
    Toggle {
        /// Which.
        feature: u64,
        /// Where.
        by: u64,
    },
    /// Rows use the feature if they did not, and the other way round.
    Complement(u64),
    /// Rows use one feature instead of another: these rows, ascending, and those that were dealt to the second side; none for all.
    Exchange {
        /// Which they used.
        from: u64,
        /// Which they use.
        to: u64,
        /// Which rows.
        rows: Option<Vec<u64>>,
    },
    /// These rows, and no others, use the feature.
    Column {
        /// Which.
        feature: u64,
        /// The rows, ascending.
        rows: Vec<u64>,
    },
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question<'a> {
    /// Nothing but to hear of changes.
    Nothing,
    /// Missing entries are drawn anew where there are any; lowest rank among the rows that use each feature.
    Begin {
        /// New in every sweep.
        salt: u64,
    },
    /// Every row's use of every feature, but for what keeps features alive.
    ScanOwned {
        /// Log odds of use.
        ln_odds: Cow<'a, [f64]>,
        /// That of `Begin`.
        salt: u64,
        /// The lowest ranks.
        owners: Cow<'a, [u64]>,
        /// Order of features.
        order: Cow<'a, [u32]>,
        /// Joint updates of two features of each row.
        pairs: u32,
        /// Whether sums are reported.
        sums: bool,
    },
    /// Heights of the slices of rows.
    Heights {
        /// Logarithms of the probabilities of use.
        ln_on: Cow<'a, [f64]>,
    },
    /// Every row's use of the features that reach its slice.
    ScanHeights {
        /// Logarithms of the probabilities of use.
        ln_on: Cow<'a, [f64]>,
        /// Log odds of use.
        ln_odds: Cow<'a, [f64]>,
        /// Features by descending probability.
        order: Cow<'a, [u32]>,
    },
    /// The rows of one block after the other, under one slice.
    ScanCounted {
        /// Logarithms of the probabilities of use.
        ln_on: Cow<'a, [f64]>,
        /// Log odds of use.
        ln_odds: Cow<'a, [f64]>,
        /// Features by descending probability.
        order: Cow<'a, [u32]>,
        /// Rows that use each.
        uses: Cow<'a, [u64]>,
    },
    /// Sums.
    Sums,
    /// Sum of squares of what features do not explain.
    Residual,
    /// Births and deaths of features in groups of rows.
    Groups(Groups<'a>),
    /// Which features these rows use.
    Lists {
        /// Rows, ascending.
        rows: Cow<'a, [u64]>,
    },
    /// Rows of a part that use one of these features, and what they leave unexplained without them.
    Holders {
        /// One feature, or two.
        features: Cow<'a, [u32]>,
        /// Which rows.
        part: Part,
    },
    /// To which of two sides the rows of a part belong, each by itself: those that they are on, if there are two features.
    Rest {
        /// One feature, or two.
        features: Cow<'a, [u32]>,
        /// Which rows.
        part: Part,
        /// Rows of whom it is told by name if they come to the second side.
        listed: Cow<'a, [u64]>,
        /// The sides.
        sides: Cow<'a, [Side; 2]>,
        /// Variance of the noise over that of entries.
        ridge: f64,
    },
    /// What a shear would change.
    Shear {
        /// The feature that contains another.
        whole: u32,
        /// The other.
        part: u32,
        /// Whether it is added.
        added: bool,
    },
    /// These rows, and which features they use.
    Rows {
        /// Rows, ascending.
        rows: Cow<'a, [u64]>,
    },
    /// Codes from nothing by so many scans, but for rows whose codes are given.
    Code {
        /// Log odds of use.
        ln_odds: Cow<'a, [f64]>,
        /// Scans.
        scans: u32,
        /// Rows, ascending, and the features that they use.
        given: Cow<'a, [(u64, Vec<u32>)]>,
    },
}

/// How features are born and die in groups of rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Groups<'a> {
    /// Rows that use each feature.
    pub uses: Cow<'a, [u64]>,
    /// Rows of a group.
    pub size: u32,
    /// Whether one group of the block takes part, or all.
    pub single: bool,
    /// Number of rows in all.
    pub rows: u64,
    /// Discount, and concentration with discount.
    pub discount: f64,
    /// Concentration and discount together.
    pub level: f64,
    /// Expected number of features that one given row alone uses.
    pub private: f64,
    /// Variance of entries.
    pub spread: f64,
    /// How many more features there may be.
    pub room: u64,
    /// Names of new features: sweep.
    pub sweep: u64,
    /// New in every sweep.
    pub salt: u64,
}

/// Rows on one side of a split or merge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Sum of what they leave unexplained.
    pub sum: Vec<f64>,
    /// How many they are.
    pub count: f64,
}

impl Side {
    /// Takes in a row.
    pub fn add(&mut self, residual: &[f64]) {
        if self.sum.is_empty() {
            self.sum = residual.to_vec();
        } else {
            self.sum.iter_mut().zip(residual).for_each(|(s, e)| *s += e);
        }
        self.count += 1.0;
    }
}

impl Merge for Side {
    fn merge(&mut self, right: Self) {
        if self.sum.is_empty() {
            self.sum = right.sum;
        } else {
            self.sum.iter_mut().zip(&right.sum).for_each(|(s, e)| *s += e);
        }
        self.count += right.count;
    }
}

/// A row that uses a feature which may be split or merged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Holder {
    /// Number of the row.
    pub row: u64,
    /// Which of the features asked about.
    pub which: u32,
    /// What it leaves unexplained without them.
    pub residual: Vec<f64>,
}

/// A row as it is gathered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gathered {
    /// Number of the row.
    pub row: u64,
    /// Its entries.
    pub entries: Vec<f64>,
    /// The features that it uses.
    pub used: Vec<u32>,
}

/// Sums over rows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sums {
    /// Entries of the rows that use each feature, one feature after the other.
    pub entries: Sum<Vec<f64>>,
    /// Rows that use both of two features; the lower triangle.
    pub together: Sum<Vec<f64>>,
    /// Entries of all rows.
    pub all: Sum<Vec<f64>>,
    /// Squares of all entries.
    pub squares: Sum<f64>,
}
merge_fields!(Sums, entries, together, all, squares);

/// What rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Lowest ranks.
    pub owners: Least<u64>,
    /// Lowest slice.
    pub lowest: Least<f64>,
    /// Sums.
    pub sums: Sums,
    /// Changes of the numbers of rows that use each feature, or those numbers.
    pub uses: Sum<Vec<f64>>,
    /// Features that were born, and how many rows use them.
    pub born: List<(u64, u64)>,
    /// Whether births were refused.
    pub refused: Sum<u64>,
    /// Rows and the features that they use.
    pub lists: List<(u64, Vec<u32>)>,
    /// Rows that use both features.
    pub both: Sum<u64>,
    /// Rows that use one of them.
    pub holders: List<Holder>,
    /// Rows that were dealt together.
    pub sides: [Side; 2],
    /// Log probability of having been dealt so.
    pub ln_dealt: Sum<f64>,
    /// Those on the second side, of the rows that were listed.
    pub listed: List<u64>,
    /// Change of the sum of squares.
    pub squares: Sum<f64>,
    /// Rows.
    pub gathered: List<Gathered>,
}

impl Merge for Stats {
    fn merge(&mut self, right: Self) {
        self.owners.merge(right.owners);
        self.lowest.merge(right.lowest);
        self.sums.merge(right.sums);
        self.uses.merge(right.uses);
        self.born.merge(right.born);
        self.refused.merge(right.refused);
        self.lists.merge(right.lists);
        self.both.merge(right.both);
        self.holders.merge(right.holders);
        let [first, second] = right.sides;
        self.sides[0].merge(first);
        self.sides[1].merge(second);
        self.ln_dealt.merge(right.ln_dealt);
        self.listed.merge(right.listed);
        self.squares.merge(right.squares);
        self.gathered.merge(right.gathered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features that are too many for all their inner products have the same ones, each found when it is asked for.
    #[test]
    fn long_lists_of_features_have_their_inner_products() {
        let entry = |at: usize| ((at * 37 + 11) % 23) as f64 / 7.0 - 1.3;
        for count in [3, MOST_PRODUCTS, MOST_PRODUCTS + 1] {
            let view = View::new((0..count * 3).map(entry).collect(), &[0.5, -1.0, 2.0], 0.3, false);
            assert_eq!(view.gram.is_empty(), count > MOST_PRODUCTS);
            for k in [0, count / 2, count - 1] {
                let products = view.products(k);
                assert_eq!(products.len(), count);
                for l in [0, 1, count - 1] {
                    let told: f64 = view.weight(k).iter().zip(view.weight(l)).map(|(a, b)| a * b).sum();
                    assert!((products[l] - told).abs() < 1e-12, "{count} {k} {l}");
                }
                assert!((view.squares[k] - products[k]).abs() < 1e-12, "{count} {k}");
            }
        }
    }
}
