//! Statistics that blocks report: associative merges, the identity being `Default`.

use serde::{Deserialize, Serialize};

/// An associative merge. `left.merge(right)` keeps the order: everything of `left` comes from lower block numbers.
pub trait Merge {
    /// Takes in what the blocks to the right reported.
    fn merge(&mut self, right: Self);
}

/// Added on merge. A vector is added elementwise; an empty one is zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sum<T>(pub T);

/// Appended on merge: items come out in block order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Merge for Sum<f64> {
    fn merge(&mut self, right: Self) {
        self.0 += right.0;
    }
}

impl Merge for Sum<u64> {
    fn merge(&mut self, right: Self) {
        self.0 += right.0;
    }
}

impl Merge for Sum<Vec<f64>> {
    fn merge(&mut self, right: Self) {
        if self.0.is_empty() {
            self.0 = right.0;
        } else if !right.0.is_empty() {
            debug_assert_eq!(self.0.len(), right.0.len());
            for (l, r) in self.0.iter_mut().zip(&right.0) {
                *l += r;
            }
        }
    }
}

impl<T> Merge for List<T> {
    fn merge(&mut self, mut right: Self) {
        self.0.append(&mut right.0);
    }
}

/// The smaller one is kept on merge, elementwise; an empty list is the identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Least<T>(pub Vec<T>);

impl<T> Default for Least<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialOrd + Copy> Merge for Least<T> {
    fn merge(&mut self, right: Self) {
        if self.0.is_empty() {
            self.0 = right.0;
        } else {
            for (l, r) in self.0.iter_mut().zip(right.0) {
                if r < *l {
                    *l = r;
                }
            }
        }
    }
}

/// Implements [`Merge`] for a struct of mergeable fields: `merge_fields!(Stats, gram, linear, bound)`.
#[macro_export]
macro_rules! merge_fields {
    ($type:ty, $($field:ident),+ $(,)?) => {
        impl $crate::run::Merge for $type {
            fn merge(&mut self, right: Self) {
                $( $crate::run::Merge::merge(&mut self.$field, right.$field); )+
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_and_lists_append() {
        let mut v = Sum(Vec::new());
        v.merge(Sum(vec![1.0, 2.0]));
        v.merge(Sum(vec![0.5, 0.5]));
        v.merge(Sum(vec![]));
        assert_eq!(v.0, [1.5, 2.5]);
        let mut l = List(vec![1]);
        l.merge(List(vec![2, 3]));
        assert_eq!(l.0, [1, 2, 3]);
        let mut least = Least(Vec::new());
        least.merge(Least(vec![3, 1]));
        least.merge(Least(vec![2, 4]));
        least.merge(Least(vec![]));
        assert_eq!(least.0, [2, 1]);
    }
}
