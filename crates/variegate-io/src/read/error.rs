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
    #[error("row {row}, column `{column}`: the value is missing ({text}); {}", missing_hint(.column, *.fitted))]
    Missing {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there.
        text: String,
        /// Whether a fitted model needs it.
        fitted: bool,
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
    #[error("row {row}, column `{column}`: `{value}` is not a number; {}", number_hint(.column, .value, *.fitted))]
    NotNumber {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there, shortened.
        value: String,
        /// Whether a fitted model needs it.
        fitted: bool,
    },
    /// A column of a type that cannot be a feature.
    #[error("column `{column}` holds {kind}, not numbers; {}", type_hint(.column, .kind, *.fitted))]
    ColumnType {
        /// Name of the column.
        column: String,
        /// What it holds.
        kind: String,
        /// Whether a fitted model needs it.
        fitted: bool,
    },
    /// A text column whose values are no categories.
    #[error(
        "column `{column}` has too many different texts for categories ({found}); leave it out (--ignore {column}), or group its values first"
    )]
    TooManyCategories {
        /// Name of the column.
        column: String,
        /// How many there are.
        found: String,
    },
    /// A category that the fit did not see.
    #[error(
        "row {row}, column `{column}`: the category `{value}` was not there at the fit, so nothing is known of it; drop the row, or write \
         one of {}", listed(.known)
    )]
    NewCategory {
        /// Row, from 1.
        row: usize,
        /// Name of the column.
        column: String,
        /// What stands there, shortened.
        value: String,
        /// The categories at the fit.
        known: Vec<String>,
    },
    /// A table without text columns to code.
    #[error("there are no text columns to code in {0}; leave --encode out")]
    NothingToEncode(&'static str),
    /// The header is one name that holds another delimiter.
    #[error("the first line `{line}` is one name; if {delimiter:?} separates the fields, say so (--delimiter {})", typed(*.delimiter))]
    OneName {
        /// The line, shortened.
        line: String,
        /// What may separate the fields.
        delimiter: char,
    },
    /// Text in another encoding.
    #[error(
        "{place}: `{text}` is not UTF-8 (byte 0x{byte:02X}); it looks like {encoding}, so convert the file first, for example with \
         `iconv -f {encoding} -t UTF-8 OLD > NEW`"
    )]
    NotUtf8 {
        /// Where it stands.
        place: String,
        /// The text as this encoding has it, shortened.
        text: String,
        /// The first byte that is not UTF-8.
        byte: u8,
        /// The encoding that it is probably in.
        encoding: &'static str,
    },
    /// A row with another number of fields.
    #[error(
        "row {row} (line {line}) has {found} fields, the first line has {expected}; check for unquoted delimiters, decimal commas and broken lines"
    )]
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

fn missing_hint(column: &str, fitted: bool) -> String {
    if fitted {
        return "the model was fitted with this column, so fill it in or drop the row".into();
    }
    format!("fill it in, drop the row, or leave the column out (--ignore {column})")
}

fn number_hint(column: &str, value: &str, fitted: bool) -> String {
    if let Some(point) = decimal_comma(value) {
        return format!("write a decimal point instead of the comma ({point})");
    }
    if let Some(d) = [';', '\t', '|', ','].into_iter().find(|&d| value.contains(d)) {
        return format!("if {d:?} separates the fields, say so (--delimiter {})", typed(d));
    }
    if fitted {
        return "the model was fitted with numbers in this column".into();
    }
    format!(
        "leave the column out (--ignore {column}), code its categories (--encode one-hot), or name it as the target (--target {column})"
    )
}

fn type_hint(column: &str, kind: &str, fitted: bool) -> String {
    if fitted {
        return "the model was fitted with numbers in this column".into();
    }
    let code = if kind == TEXT { "code its categories (--encode one-hot)" } else { "code it as numbers first" };
    format!("leave it out (--ignore {column}), {code}, or name it as the target")
}

/// A number with a decimal comma, as it should be written: `-3,14` is `-3.14`.
fn decimal_comma(value: &str) -> Option<String> {
    let (whole, fraction) = value.split_once(',')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let whole_digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let exponent = fraction.split_once(['e', 'E']).map_or(fraction, |(mantissa, _)| mantissa);
    let is = digits(whole_digits) && !exponent.is_empty() && digits(exponent);
    let point = format!("{whole}.{fraction}");
    (is && point.parse::<f64>().is_ok()).then_some(point)
}

/// A delimiter as it is typed in a shell.
fn typed(delimiter: char) -> String {
    if delimiter == '\t' { "tab".into() } else { format!("'{delimiter}'") }
}

/// Names in backticks, the first few of many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ") + &more
}

/// What a column of texts holds.
pub(super) const TEXT: &str = "text";

impl Cause {
    /// The same fault with the file that has it.
    pub(super) fn at(self, path: &std::path::Path) -> ReadError {
        ReadError { path: path.into(), cause: self }
    }

    /// A missing feature; `row` counts from 1.
    pub(super) fn missing(row: usize, column: &str, text: impl Into<String>) -> Self {
        Self::Missing { row, column: super::cells::shorten(column), text: text.into(), fitted: false }
    }

    /// A column that cannot be a feature.
    pub(super) fn column_type(column: impl Into<String>, kind: impl Into<String>) -> Self {
        Self::ColumnType { column: column.into(), kind: kind.into(), fitted: false }
    }

    /// Text that is not UTF-8, at this place.
    pub(super) fn not_utf8(bytes: &[u8], place: impl Into<String>) -> Self {
        let at = std::str::from_utf8(bytes).err().map_or(0, |e| e.valid_up_to());
        // these bytes are letters in Windows-1252 and nothing in Latin-1, of which it is an extension
        let windows = bytes.iter().any(|b| (0x80..0xa0).contains(b));
        let text: String = bytes.iter().map(|&b| char::from(b)).filter(|c| !c.is_control()).collect();
        Self::NotUtf8 {
            place: place.into(),
            text: super::cells::shorten(&text),
            byte: bytes.get(at).copied().unwrap_or(0),
            encoding: if windows { "WINDOWS-1252" } else { "ISO-8859-1" },
        }
    }

    /// The same fault in rows for a model that is fitted: what could be done at the fit is no advice any more.
    pub(super) fn of_fitted(mut self) -> Self {
        if let Self::Missing { fitted, .. } | Self::NotNumber { fitted, .. } | Self::ColumnType { fitted, .. } = &mut self {
            *fitted = true;
        }
        self
    }

    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_commas_are_told_from_delimiters() {
        assert_eq!(decimal_comma("-3,14").as_deref(), Some("-3.14"));
        assert_eq!(decimal_comma("1,5e3").as_deref(), Some("1.5e3"));
        for other in ["1,2,3", "a,b", "1;2", ",", "1,", "3.14"] {
            assert_eq!(decimal_comma(other), None, "{other}");
        }
        let say = |value: &str, fitted| Cause::NotNumber { row: 1, column: "a".into(), value: value.into(), fitted }.to_string();
        assert!(say("3,14", false).ends_with("write a decimal point instead of the comma (3.14)"), "{}", say("3,14", false));
        assert!(say("1;2", false).ends_with("(--delimiter ';')"));
        assert!(say("red", false).contains("--encode one-hot"));
        assert!(!say("red", true).contains("--"), "{}", say("red", true));
    }

    #[test]
    fn the_encoding_is_guessed_from_the_bytes() {
        let said = Cause::not_utf8(b"gr\xf6\xdfe", "the header").to_string();
        assert!(said.contains("the header: `gr\u{f6}\u{df}e`") && said.contains("0xF6") && said.contains("iconv -f ISO-8859-1"), "{said}");
        assert!(Cause::not_utf8(b"5 \x80", "row 1").to_string().contains("WINDOWS-1252"));
    }
}
