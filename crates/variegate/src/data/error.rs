//! What can be wrong with data, and what to do about it.

use thiserror::Error;

/// A fault in the rows, targets, sources or weights. Rows count from 1, as a user counts the rows of data (a header is not one).
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum DataError {
    /// There are no rows.
    #[error("the data have no rows; at least one is needed")]
    NoRows,
    /// There are no columns.
    #[error("the data have no feature columns; at least one is needed")]
    NoColumns,
    /// A feature is NaN or infinite.
    #[error(
        "row {row}, column `{column}`: the value is {value}; features must be finite, so drop the row or the column, or fill the value in"
    )]
    NotFinite {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// NaN or an infinity.
        value: f64,
    },
    /// A real target is NaN or infinite.
    #[error("row {row}: the target is {value}; targets must be finite, so drop the row")]
    TargetNotFinite {
        /// Row, from 1.
        row: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// Storage does not match the stated shape.
    #[error("a {rows} x {cols} matrix needs {expected} values, but {found} were given")]
    Shape {
        /// Stated rows.
        rows: usize,
        /// Stated columns.
        cols: usize,
        /// Values that this shape holds.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// Something that has one entry a row has another number of entries.
    #[error("{what}: {found} entries for {rows} rows; give one for each row, in the same order")]
    Length {
        /// What has the wrong length: target, sources, weights.
        what: &'static str,
        /// Rows of the features.
        rows: usize,
        /// Entries given.
        found: usize,
    },
    /// The model needs a target and there is none.
    #[error("this model learns from a target and the data have none; say which column or file holds it")]
    NoTarget,
    /// The target is of another kind than the model needs.
    #[error("this model needs {expected} as its target, but the data hold {found}")]
    TargetKind {
        /// What the model needs.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// Every row has the same class.
    #[error("every row has the class `{name}`; a classifier needs rows of at least two classes")]
    OneClass {
        /// The only class.
        name: String,
    },
    /// The model needs the source of each row.
    #[error("this model needs the source (group) of each row and the data have none; say which column or file holds it")]
    NoSources,
    /// A code points past the list of names.
    #[error("row {row}: {what} number {code} is out of range, there are {names} names")]
    Code {
        /// Classes or sources.
        what: &'static str,
        /// Row, from 1.
        row: usize,
        /// The code.
        code: u32,
        /// Number of names.
        names: usize,
    },
    /// A label entry is none of present, absent, unknown.
    #[error("row {row}, label `{label}`: the entry is {value}; it must be 1 (present), 0 (absent) or -1 (unknown)")]
    LabelEntry {
        /// Row, from 1.
        row: usize,
        /// Name of the label.
        label: String,
        /// The entry.
        value: i8,
    },
    /// A count is below zero.
    #[error(
        "row {row}, column `{column}`: {value} is negative; this model counts events, so every value must be 0 or a whole number above it"
    )]
    NegativeCount {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// The value.
        value: f64,
    },
    /// A count is not a whole number.
    #[error(
        "row {row}, column `{column}`: {value} is not a whole number; this model counts events, so give raw counts, not rates or weights"
    )]
    FractionalCount {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// The value.
        value: f64,
    },
    /// A weight is below zero, NaN or infinite.
    #[error("row {row}: the weight is {value}; weights must be finite and not negative")]
    Weight {
        /// Row, from 1.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// No row counts.
    #[error("every weight is zero; at least one row must count")]
    NoWeight,
    /// The row offsets of a sparse matrix do not hang together.
    #[error(
        "the row offsets of the sparse matrix are broken at row {row}: they must start at 0, never fall and end at the number of stored values"
    )]
    Offsets {
        /// Row, from 1.
        row: usize,
    },
    /// Columns of a sparse row do not ascend.
    #[error("row {row} of the sparse matrix: columns do not ascend; sort them first (SciPy: `sort_indices`)")]
    Unsorted {
        /// Row, from 1.
        row: usize,
    },
    /// A sparse row stores one column twice.
    #[error("row {row}, column `{column}` of the sparse matrix is stored twice; add duplicates up first (SciPy: `sum_duplicates`)")]
    Duplicate {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
    },
    /// A sparse row stores a column that does not exist.
    #[error("row {row} of the sparse matrix stores column number {column} (from 0), but there are only {cols} columns")]
    OutOfRange {
        /// Row, from 1.
        row: usize,
        /// Number of the column, from 0.
        column: u32,
        /// Number of columns.
        cols: usize,
    },
    /// A column that was asked for is not there.
    #[error("there is no column `{name}`; the columns are {}", list(.known))]
    UnknownColumn {
        /// The name asked for.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// A label that the fit did not know.
    #[error("row {row}: `{label}` was not among the labels at fit time ({})", list(.known))]
    UnknownLabel {
        /// Row, from 1.
        row: usize,
        /// The label.
        label: String,
        /// Labels that are known.
        known: Vec<String>,
    },
    /// Another number of columns than at fit time.
    #[error("the model was fitted to {expected} columns, but these data have {found}; give the same columns in the same order")]
    ColumnCount {
        /// Columns at fit time.
        expected: usize,
        /// Columns now.
        found: usize,
    },
    /// Another name at a place than at fit time.
    #[error("column {position} is `{found}`, but the model was fitted with `{expected}` there; give the same columns in the same order")]
    ColumnName {
        /// Place, from 1.
        position: usize,
        /// Name at fit time.
        expected: String,
        /// Name now.
        found: String,
    },
    /// Two columns share a name.
    #[error("two columns are called `{name}`; rename one, so that each column can be told by its name")]
    ColumnTwice {
        /// The name.
        name: String,
    },
    /// A split that leaves a side empty or asks for too many folds.
    #[error(
        "{rows} rows cannot be split so ({asked}); ask for a test share between 0 and 1 that leaves rows on both sides, or for 2 to {rows} folds"
    )]
    Split {
        /// Rows there are.
        rows: usize,
        /// What was asked.
        asked: String,
    },
}

/// The first few names, for messages.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    const LETTERS: usize = 40;
    let short = |n: &String| match n.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("`{}…`", &n[..end]),
        None => format!("`{n}`"),
    };
    let mut text = names.iter().take(SHOWN).map(short).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    if text.is_empty() { "none".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_place_and_shorten_long_lists() {
        let e = DataError::NotFinite { row: 3, column: "age".into(), value: f64::NAN };
        assert!(e.to_string().starts_with("row 3, column `age`: the value is NaN"));
        let known = (0..20).map(|i| format!("c{i}")).collect();
        let e = DataError::UnknownColumn { name: "agee".into(), known };
        assert!(e.to_string().ends_with("`c7` and 12 more"), "{e}");
        let e = DataError::UnknownColumn { name: "b".into(), known: vec!["ä".repeat(50)] };
        assert!(e.to_string().ends_with(&format!("`{}…`", "ä".repeat(40))), "{e}");
        let e = DataError::UnknownColumn { name: "a".into(), known: vec![] };
        assert!(e.to_string().ends_with("the columns are none"));
    }
}
