//! What can go wrong while a data file is read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use variegate::data::DataError;

use super::Format;

/// A fault in a data file: where, what and what to do about it.
#[derive(Debug, Error)]
#[error("{}: {cause}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub cause: Cause,
}

/// A fault in a data file. Rows count from 1 and leave a header out; lines count from 1.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The file cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Reading failed half-way.
    #[error("reading failed: {0}; the file may be damaged or cut short")]
    Io(#[from] io::Error),
    /// The name does not tell the format.
    #[error("the name does not tell the format; name the format: {}", Format::words())]
    UnknownFormat,
    /// A fault in what the file holds.
    #[error("{0}")]
    Data(#[from] DataError),
    /// A feature is missing.
    #[error(
        "row {row}, column `{column}`: the value is missing ({text}); fill it in, drop the row, or leave the column out (--ignore {column})"
    )]
    Missing {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there.
        text: String,
    },
    /// A target, source or weight is missing.
    #[error("row {row}, column `{column}`: the {what} is missing (empty, NA, NaN, null or ?); drop the row or fill it in")]
    MissingTarget {
        /// Target, source or weight.
        what: &'static str,
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
    },
    /// A real target is no number.
    #[error(
        "row {row}, column `{column}`: the target `{value}` is not a number, but real outcomes are asked for; choose another target, or predict classes"
    )]
    TargetNotNumber {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there, shortened.
        value: String,
    },
    /// A cell that should hold a number holds something else.
    #[error("row {row}, column `{column}`: `{value}` is not a number; {}", number_hint(.column, .value))]
    NotNumber {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there, shortened.
        value: String,
    },
    /// A column of a type that cannot be a feature.
    #[error(
        "column `{column}` holds {kind}, not numbers; leave it out (--ignore {column}), name it as the target, or code it as numbers first"
    )]
    ColumnType {
        /// Name of the column.
        column: String,
        /// What it holds.
        kind: String,
    },
    /// A row with another number of fields.
    #[error("row {row} (line {line}) has {found} fields, the first line has {expected}; check for unquoted delimiters and broken lines")]
    Ragged {
        /// Row, from 1.
        row: usize,
        /// Line, from 1.
        line: u64,
        /// Fields in the first line.
        expected: usize,
        /// Fields in this row.
        found: usize,
    },
    /// The first line holds data.
    #[error("the first line holds numbers, not names; add a header line or say that there is none (--no-header)")]
    NoHeader,
    /// The text is in UTF-16.
    #[error("the text is in UTF-16; save it as UTF-8")]
    Utf16,
    /// One column was given two roles.
    #[error("column `{name}` is asked for as {first} and as {second}; it can be one of them only")]
    TwoRoles {
        /// Name of the column.
        name: String,
        /// One role.
        first: &'static str,
        /// The other role.
        second: &'static str,
    },
    /// Several columns where one is needed, or none.
    #[error("{what} needs exactly one column, but {found} were found; name one (in another file: FILE:COLUMN)")]
    OneColumn {
        /// Target, sources or weights.
        what: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A label entry that is none of present, absent, unknown.
    #[error("row {row}, label `{label}`: `{value}` is no label entry; write 1 (present), 0 (absent) or leave it empty (unknown)")]
    LabelEntry {
        /// Row, from 1.
        row: usize,
        /// Name of the label.
        label: String,
        /// What stands there.
        value: String,
    },
    /// A line that does not follow the format.
    #[error("line {line}: {what}")]
    Line {
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A binary file that does not follow its format.
    #[error("{0}; the file is damaged or not of this format")]
    Damaged(String),
    /// Something legal that is not read here.
    #[error("{what}; {hint}")]
    Unsupported {
        /// What it is.
        what: String,
        /// What to do instead.
        hint: &'static str,
    },
}

fn number_hint(column: &str, value: &str) -> String {
    if let Some(d) = [';', '\t', '|', ','].into_iter().find(|&d| value.contains(d)) {
        return format!("if {d:?} separates the fields, say so (--delimiter)");
    }
    format!("leave the column out (--ignore {column}), name it as the target (--target {column}), or code it as numbers first")
}

impl Cause {
    /// The same fault with the file that has it.
    pub(super) fn at(self, path: &std::path::Path) -> ReadError {
        ReadError { path: path.into(), cause: self }
    }

    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}
