//! From label texts to class codes.
//!
//! Names are sorted ascending: numerically where all of them are numbers (so 10 follows 9), else by their bytes. With a fixed list
//! of names, as at prediction, a text that is not in the list may still match one that is the same number (`1.0` and `+1` match `1`).

use std::collections::HashMap;

use super::{Classes, DataError};

/// Collects the label of one row after the other without keeping the texts.
#[derive(Debug, Default)]
pub struct ClassEncoder {
    seen: HashMap<String, u32>,
    names: Vec<String>,
    codes: Vec<u32>,
    fixed: bool,
    open: bool,
}

impl ClassEncoder {
    /// Learns the names from the labels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the names as given; any other label is an error.
    pub fn fixed(names: &[String]) -> Self {
        let seen = names.iter().enumerate().map(|(i, n)| (n.clone(), i as u32)).collect();
        Self { seen, names: names.to_vec(), codes: Vec::new(), fixed: true, open: false }
    }

    /// Takes the names as given; other labels come after them, in the order in which they appear.
    pub fn open(names: &[String]) -> Self {
        Self { open: true, ..Self::fixed(names) }
    }

    /// Number of rows so far.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is no row yet.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Makes room for this many more rows.
    pub fn reserve(&mut self, rows: usize) {
        self.codes.reserve_exact(rows);
    }

    /// Adds the label of the next row.
    pub fn push(&mut self, label: &str) -> Result<(), DataError> {
        let code = match self.seen.get(label) {
            Some(&code) => code,
            None if self.fixed && !(self.open && self.same_number(label).is_none()) => {
                let code = self.same_number(label).ok_or_else(|| DataError::UnknownLabel {
                    row: self.codes.len() + 1,
                    label: label.into(),
                    known: self.names.clone(),
                })?;
                self.seen.insert(label.into(), code);
                code
            }
            None => {
                let code = self.names.len() as u32;
                self.names.push(label.into());
                self.seen.insert(label.into(), code);
                code
            }
        };
        self.codes.push(code);
        Ok(())
    }

    fn same_number(&self, label: &str) -> Option<u32> {
        let value = number(label)?;
        self.names.iter().position(|n| number(n) == Some(value)).map(|i| i as u32)
    }

    /// Codes into the sorted names.
    pub fn finish(self) -> Classes {
        let Self { names, mut codes, fixed, .. } = self;
        if fixed {
            return Classes { codes, names };
        }
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        let numbers: Option<Vec<f64>> = names.iter().map(|n| number(n)).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (a as usize, b as usize);
            let by_number = numbers.as_ref().map_or(std::cmp::Ordering::Equal, |v| v[a].total_cmp(&v[b]));
            by_number.then_with(|| names[a].cmp(&names[b]))
        });
        let mut rank = vec![0u32; names.len()];
        for (to, &from) in order.iter().enumerate() {
            rank[from as usize] = to as u32;
        }
        for code in &mut codes {
            *code = rank[*code as usize];
        }
        let mut names = names;
        let names = order.iter().map(|&i| std::mem::take(&mut names[i as usize])).collect();
        Classes { codes, names }
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|v| v.is_finite()).map(|v| v + 0.0) // -0 becomes 0
}

impl Classes {
    /// Codes of the labels, with the distinct names found in them.
    pub fn encode<'t>(labels: impl IntoIterator<Item = &'t str>) -> Self {
        let mut encoder = ClassEncoder::new();
        for label in labels {
            encoder.push(label).expect("an encoder without a fixed list takes every label");
        }
        encoder.finish()
    }

    /// Codes of the labels in the given list of names.
    pub fn encode_with<'t>(labels: impl IntoIterator<Item = &'t str>, names: &[String]) -> Result<Self, DataError> {
        let mut encoder = ClassEncoder::fixed(names);
        for label in labels {
            encoder.push(label)?;
        }
        Ok(encoder.finish())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Name of the class of row i.
    pub fn name(&self, i: usize) -> &str {
        &self.names[self.codes[i] as usize]
    }

    /// Number of rows in each class.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        for &c in &self.codes {
            counts[c as usize] += 1;
        }
        counts
    }

    /// The chosen rows; the list of names stays whole.
    pub fn take(&self, chosen: &[usize]) -> Self {
        Self { codes: chosen.iter().map(|&i| self.codes[i]).collect(), names: self.names.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_numbers_and_words_as_words() {
        let c = Classes::encode(["10", "9", "-1", "9", "2.5"]);
        assert_eq!(c.names, ["-1", "2.5", "9", "10"]);
        assert_eq!(c.codes, [3, 2, 0, 2, 1]);
        assert_eq!(c.counts(), [1, 1, 2, 1]);
        let c = Classes::encode(["10", "9", "b", "B", ""]);
        assert_eq!(c.names, ["", "10", "9", "B", "b"]);
        assert_eq!((0..5).map(|i| c.name(i)).collect::<Vec<_>>(), ["10", "9", "b", "B", ""]);
        assert!(Classes::encode([]).is_empty());
    }

    #[test]
    fn a_fixed_list_keeps_its_order_and_names_strangers() {
        let names: Vec<String> = ["b", "1", "a"].map(String::from).to_vec();
        let c = Classes::encode_with(["a", "b", "+1", "1.0", "a"], &names).unwrap();
        assert_eq!(c.codes, [2, 0, 1, 1, 2]);
        assert_eq!(c.names, names);
        let mut open = ClassEncoder::open(&names);
        ["z", "a", "1.0", "", "z"].iter().for_each(|label| open.push(label).unwrap());
        let c = open.finish();
        assert_eq!((c.codes, &c.names[..3], &c.names[3..]), (vec![3, 2, 1, 4, 3], &names[..], &["z".to_string(), String::new()][..]));
        let e = Classes::encode_with(["a", "c"], &names).unwrap_err();
        assert_eq!(e, DataError::UnknownLabel { row: 2, label: "c".into(), known: names });
    }
}
