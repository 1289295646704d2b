//! Text columns as features: one column of ones and zeros for each category (one-hot).
//!
//! Categories are found in the data of the fit, kept with how its file was read, and looked up in every other file. A category that
//! the fit did not see is an error with its place: nothing is known of it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use variegate::data::ClassEncoder;

use super::cells::{is_missing, number, shorten};
use super::error::Cause;
use super::options::Schema;

/// More categories than this are hardly categories, and each is a column.
const MOST: usize = 1000;

/// A column in which more than half of the rows have a value of their own is a name or a number of the row, unless there are few.
const FEW: usize = 20;

/// How text columns become features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encode {
    /// A column of ones and zeros for each category.
    OneHot,
}

impl FromStr for Encode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "one-hot" { Ok(Self::OneHot) } else { Err(format!("`{text}` is no way to code categories; say one-hot")) }
    }
}

impl fmt::Display for Encode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one-hot")
    }
}

/// The categories of a column, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Categories {
    /// Name of the column in the file.
    pub column: String,
    /// Its categories.
    pub values: Vec<String>,
}

impl Categories {
    /// Names of the columns that it becomes: `colour=red`.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(|value| format!("{}={value}", self.column))
    }
}

/// What was seen in a column that may hold categories.
#[derive(Debug, Default)]
pub(super) struct Seen {
    text: bool,
    values: HashSet<String>,
}

impl Seen {
    /// Of a column whose type is text: numbers among its values are categories too.
    pub fn of_texts() -> Self {
        Self { text: true, ..Self::default() }
    }

    pub fn see(&mut self, text: &str) {
        if is_missing(text) {
            return;
        }
        self.text |= number(text).is_none();
        // one too many is kept, which is enough to refuse them
        if self.values.len() <= MOST && !self.values.contains(text) {
            self.values.insert(text.to_owned());
        }
    }

    /// Its categories, if there is a text among the values.
    pub fn finish(self, column: &str, rows: usize) -> Result<Option<Categories>, Cause> {
        if !self.text || self.values.is_empty() {
            return Ok(None);
        }
        let count = self.values.len();
        if count > MOST || (count > FEW && count * 2 > rows) {
            let found = if count > MOST { format!("more than {MOST}") } else { format!("{count} in {rows} rows") };
            return Err(Cause::TooManyCategories { column: column.into(), found });
        }
        let mut encoder = ClassEncoder::new();
        for value in &self.values {
            encoder.push(value)?;
        }
        Ok(Some(Categories { column: column.into(), values: encoder.finish().names }))
    }
}

/// The columns of a file that a schema with coded columns asks for.
pub(super) fn raw(schema: &Schema, categories: &[Categories]) -> Schema {
    let mut columns = Vec::new();
    let mut left = schema.columns.iter().peekable();
    while let Some(name) = left.next() {
        match categories.iter().find(|c| c.names().next().as_ref() == Some(name)) {
            None => columns.push(name.clone()),
            Some(coded) => {
                columns.push(coded.column.clone());
                for name in coded.names().skip(1) {
                    left.next_if_eq(&&name);
                }
            }
        }
    }
    Schema { width: columns.len(), columns }
}

/// Where each feature of a file goes.
pub(super) struct Expansion {
    slots: Vec<Slot>,
    /// Columns in all.
    pub width: usize,
    /// Their names; nothing where no column is coded.
    pub names: Option<Vec<String>>,
}

struct Slot {
    first: usize,
    /// Place of each category; nothing for a column of numbers.
    places: Option<HashMap<String, usize>>,
}

/// What a cell puts into a row: a value at one place, or NaN at all of the places of its column.
pub(super) struct Entry {
    first: usize,
    count: usize,
    at: usize,
    value: f64,
}

impl Entry {
    pub fn put(&self, row: &mut [f64]) {
        if self.value.is_nan() {
            row[self.first..self.first + self.count].fill(f64::NAN);
        } else {
            row[self.at] = self.value;
        }
    }
}

impl Expansion {
    /// Of features with these names, in order.
    pub fn new(features: &[&String], categories: &[Categories]) -> Self {
        let (mut slots, mut names, mut coded) = (Vec::new(), Vec::new(), false);
        for name in features {
            let first = names.len();
            let found = categories.iter().find(|c| c.column == **name);
            match found {
                None => names.push((*name).clone()),
                Some(categories) => names.extend(categories.names()),
            }
            coded |= found.is_some();
            slots.push(Slot { first, places: found.map(|c| c.values.iter().cloned().zip(first..).collect()) });
        }
        Self { slots, width: names.len(), names: coded.then_some(names) }
    }

    /// Whether a feature is coded.
    pub fn is_coded(&self, k: usize) -> bool {
        self.slots[k].places.is_some()
    }

    /// The entry of a number.
    pub fn number(&self, k: usize, value: f64) -> Entry {
        let first = self.slots[k].first;
        Entry { first, count: 1, at: first, value }
    }

    /// The entry of a category; `row` counts from 0.
    pub fn category(&self, k: usize, text: &str, missing: bool, row: usize, column: &str) -> Result<Entry, Cause> {
        let Slot { first, places } = &self.slots[k];
        let places = places.as_ref().ok_or_else(|| Cause::damaged("a column of numbers holds text"))?;
        let entry = |at, value| Entry { first: *first, count: places.len(), at, value };
        if is_missing(text) {
            let text = if text.is_empty() { "an empty field".into() } else { format!("`{text}`") };
            return if missing { Ok(entry(*first, f64::NAN)) } else { Err(Cause::missing(row + 1, column, text)) };
        }
        match places.get(text) {
            Some(&at) => Ok(entry(at, 1.0)),
            None => {
                let mut known: Vec<(&usize, &String)> = places.iter().map(|(name, at)| (at, name)).collect();
                known.sort();
                let known = known.into_iter().map(|(_, name)| name.clone()).collect();
                Err(Cause::NewCategory { row: row + 1, column: shorten(column), value: shorten(text), known })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[&str]) -> Result<Option<Categories>, Cause> {
        let mut seen = Seen::default();
        values.iter().for_each(|v| seen.see(v));
        seen.finish("c", values.len())
    }

    #[test]
    fn texts_are_categories_and_numbers_are_not() {
        assert_eq!(seen(&["1", "2.5", "true", "", "NA"]).unwrap(), None);
        let found = seen(&["b", "a", "10", "b", ""]).unwrap().unwrap();
        assert_eq!(found.values, ["10", "a", "b"]);
        assert_eq!(found.names().collect::<Vec<_>>(), ["c=10", "c=a", "c=b"]);
        let names: Vec<String> = (0..30).map(|i| format!("name {i}")).collect();
        let each: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = seen(&each).unwrap_err().to_string();
        assert!(said.contains("column `c`") && said.contains("30 in 30 rows") && said.contains("--ignore c"), "{said}");
        assert!(seen(&each.repeat(3)).is_ok());
        let many: Vec<String> = (0..1001).map(|i| format!("v{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(seen(&many.repeat(9)).unwrap_err().to_string().contains("more than 1000"));
    }

    #[test]
    fn coded_columns_are_found_by_the_name_of_the_file() {
        let categories = [Categories { column: "c".into(), values: vec!["x".into(), "y".into()] }];
        let names = ["a", "c=x", "c=y", "b"].map(String::from).to_vec();
        let schema = Schema { width: 4, columns: names.clone() };
        assert_eq!(raw(&schema, &categories), Schema { width: 3, columns: ["a", "c", "b"].map(String::from).to_vec() });
        let file = ["a", "c", "b"].map(String::from);
        let all = Expansion::new(&file.iter().collect::<Vec<_>>(), &categories);
        assert_eq!((all.width, all.names.clone()), (4, Some(names)));
        let mut row = vec![0.0; 4];
        all.number(0, 5.0).put(&mut row);
        all.category(1, "y", false, 0, "c").unwrap().put(&mut row);
        all.number(2, 7.0).put(&mut row);
        assert_eq!(row, [5.0, 0.0, 1.0, 7.0]);
        all.category(1, "", true, 0, "c").unwrap().put(&mut row);
        assert!(row[1].is_nan() && row[2].is_nan() && row[3] == 7.0);
        assert!(matches!(all.category(1, "?", false, 0, "c"), Err(Cause::Missing { row: 1, .. })));
        let Err(new) = all.category(1, "z", false, 8, "c") else { panic!("`z` is new") };
        let said = new.to_string();
        assert!(said.contains("row 9, column `c`: the category `z`") && said.contains("`x`, `y`"), "{said}");
    }
}
