//! Rows in groups: all of them, those of each class, those of each category.

use super::{ClassScore, Paired, Tally};
use crate::data::Classes;

/// Rows that have something in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What they have in common: `all`, `class`, or the name of the categories.
    pub of: String,
    /// Which value of it; empty for all rows.
    pub value: String,
    /// Their numbers.
    pub rows: Vec<usize>,
}

impl Group {
    /// All rows, then those of each true class, then those of each category, in the order of their names. Groups without rows are
    /// left out.
    pub fn all(truth: &Classes, categories: Option<(&str, &Classes)>) -> Vec<Self> {
        let mut all = vec![Self { of: "all".into(), value: String::new(), rows: (0..truth.len()).collect() }];
        for (of, classes) in [("class", truth)].into_iter().chain(categories) {
            let first = all.len();
            all.extend(classes.names.iter().map(|value| Self { of: of.into(), value: value.clone(), rows: Vec::new() }));
            for (row, &code) in classes.codes.iter().enumerate() {
                all[first + code as usize].rows.push(row);
            }
        }
        all.retain(|g| !g.rows.is_empty());
        all
    }

    /// Scores of these rows.
    pub fn tally(&self, scores: &[ClassScore]) -> Tally {
        Tally::of(self.rows.iter().map(|&row| &scores[row]))
    }

    /// How two fits differ on these rows.
    pub fn paired(&self, first: &[ClassScore], second: &[ClassScore]) -> Paired {
        Paired::of(self.rows.iter().map(|&row| (&first[row], &second[row])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_add_up() {
        let classes =
            |codes: &[u32], names: &[&str]| Classes { codes: codes.to_vec(), names: names.iter().map(|n| n.to_string()).collect() };
        let row = |right: bool| ClassScore { right, log_loss: if right { 1.0 } else { 3.0 }, brier: 0.0 };
        let scores = [true, true, false, true].map(row);
        let truth = classes(&[0, 0, 1, 1], &["no", "yes"]);
        let groups = Group::all(&truth, Some(("kind", &classes(&[2, 0, 2, 2], &["a", "b", "c"]))));
        let told: Vec<_> =
            groups.iter().map(|g| (g.of.as_str(), g.value.as_str(), g.tally(&scores).rows, g.tally(&scores).right)).collect();
        assert_eq!(told, [("all", "", 4, 3), ("class", "no", 2, 2), ("class", "yes", 2, 1), ("kind", "a", 1, 1), ("kind", "c", 3, 2)]);
        assert_eq!(groups[4].tally(&scores).log_loss(), 5.0 / 3.0);
        let other = [false, true, false, true].map(row);
        assert_eq!(groups[4].paired(&scores, &other), Paired { rows: 3, only_first: 1, only_second: 0 });
        assert_eq!(Group::all(&truth, None).len(), 3);
    }
}
