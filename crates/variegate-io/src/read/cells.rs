//! Cells of tables: what they mean as features, targets, sources and weights.

use std::fmt::Write;

use variegate::data::{ClassEncoder, DataError, Dataset, LabelSets, Matrix, Target, TargetKind};

use super::error::Cause;
use super::options::ReadOptions;
use super::roles::{Plan, ReadRequest};
use super::store;

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'c> {
    Missing,
    Text(&'c str),
    Number(f64),
    Whole(i128),
    Flag(bool),
}

/// Whether a text stands for a missing value.
pub(super) fn is_missing(text: &str) -> bool {
    text.is_empty() || text == "?" || ["na", "n/a", "nan", "null"].iter().any(|m| text.eq_ignore_ascii_case(m))
}

/// The number that a text stands for: decimal notation, or true and false as 1 and 0.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().or(match text {
        "true" | "True" | "TRUE" => Some(1.0),
        "false" | "False" | "FALSE" => Some(0.0),
        _ => None,
    })
}

/// A text cell as a feature; a missing one is NaN where it may be missing.
pub(super) fn feature(bytes: &[u8], missing: bool, row: usize, column: &dyn Fn() -> String) -> Result<f64, Cause> {
    let bytes = bytes.trim_ascii();
    let parsed = std::str::from_utf8(bytes).ok().and_then(number);
    if let Some(v) = parsed.filter(|v| v.is_finite()) {
        return Ok(v);
    }
    let (row, column) = (row + 1, shorten(&column()));
    let text = std::str::from_utf8(bytes).map_err(|_| Cause::not_utf8(bytes, format!("row {row}, column `{column}`")))?;
    if is_missing(text) {
        if missing {
            return Ok(f64::NAN);
        }
        let text = if text.is_empty() { "an empty field".into() } else { format!("`{text}`") };
        return Err(Cause::missing(row, &column, text));
    }
    match parsed {
        Some(value) => Err(DataError::NotFinite { row, column, value }.into()),
        None => Err(Cause::NotNumber { row, column, value: shorten(text), fitted: false }),
    }
}

/// The start of a text, for messages.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Shortest text that reads back as the same number; large and small sizes in exponent form.
pub fn number_text(v: f64) -> String {
    let mut text = String::new();
    push_number(&mut text, v);
    text
}

/// Appends the shortest text that reads back as the same number.
pub fn push_number(text: &mut String, v: f64) {
    let plain = v == 0.0 || (1e-5..1e16).contains(&v.abs()) || !v.is_finite();
    // writing to a String cannot fail
    let _ = if plain { write!(text, "{v}") } else { write!(text, "{v:e}") };
}

impl<'c> Cell<'c> {
    /// A text field; blanks around it do not count.
    pub fn of_bytes(bytes: &'c [u8]) -> Result<Self, Cause> {
        let text = std::str::from_utf8(bytes.trim_ascii()).map_err(|_| Cause::not_utf8(bytes.trim_ascii(), "a text"))?;
        Ok(Self::of_text(text))
    }

    /// A text without blanks around it.
    pub fn of_text(text: &'c str) -> Self {
        if is_missing(text) { Self::Missing } else { Self::Text(text) }
    }

    fn number(self) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::Text(t) => number(t),
            Self::Number(v) => Some(v),
            Self::Whole(v) => Some(v as f64),
            Self::Flag(b) => Some(b as u8 as f64),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Missing => String::new(),
            Self::Text(t) => shorten(t),
            Self::Number(v) => number_text(v + 0.0),
            Self::Whole(v) => v.to_string(),
            Self::Flag(true) => "True".into(),
            Self::Flag(false) => "False".into(),
        }
    }

    fn is_missing(self) -> bool {
        self == Self::Missing || matches!(self, Self::Number(v) if v.is_nan())
    }
}

/// Collects the target, source and weight of each row. Rows must come in order within each column.
pub(super) struct Extras {
    kind: TargetKind,
    open: bool,
    target_names: Vec<String>,
    known: Option<Vec<String>>,
    classes: ClassEncoder,
    labels: Vec<i8>,
    real: Vec<f64>,
    sources: Option<ClassEncoder>,
    weights: Option<Vec<f64>>,
}

/// What a cell that is no feature says of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraRole {
    Target(usize),
    Source,
    Weight,
}

impl Extras {
    pub fn new(request: &ReadRequest<'_>, plan: &Plan) -> Self {
        let known = request.options.known_classes.clone();
        Self {
            kind: request.options.target_kind,
            open: request.options.open_target,
            target_names: plan.target_names.clone(),
            classes: encoder(request.options),
            known,
            labels: Vec::new(),
            real: Vec::new(),
            sources: plan.sources.map(|_| ClassEncoder::new()),
            weights: plan.weights.map(|_| Vec::new()),
        }
    }

    /// Takes a cell of the row with this number (from 0).
    pub fn put(&mut self, role: ExtraRole, row: usize, column: &str, cell: Cell<'_>) -> Result<(), Cause> {
        let missing = |what| Cause::MissingTarget { what, row: row + 1, column: shorten(column) };
        let not_number = || Cause::NotNumber { row: row + 1, column: shorten(column), value: cell.text(), fitted: false };
        match role {
            ExtraRole::Source if cell.is_missing() => return Err(missing("source")),
            ExtraRole::Source => {
                if let Some(sources) = &mut self.sources {
                    push(sources, cell)?;
                }
            }
            ExtraRole::Weight if cell.is_missing() => return Err(missing("weight")),
            ExtraRole::Weight => {
                if let Some(weights) = &mut self.weights {
                    store::reserve(weights, 1);
                    weights.push(cell.number().ok_or_else(not_number)?);
                }
            }
            ExtraRole::Target(k) => match self.kind {
                TargetKind::Classes if cell.is_missing() && self.open => self.classes.push("")?,
                TargetKind::Classes if cell.is_missing() => return Err(missing("target")),
                TargetKind::Classes => push(&mut self.classes, cell)?,
                TargetKind::Real if cell.is_missing() && self.open => place(&mut self.real, self.target_names.len(), row, k, f64::NAN),
                TargetKind::Real if cell.is_missing() => return Err(missing("target")),
                TargetKind::Real => {
                    let column = || shorten(column);
                    let value =
                        cell.number().ok_or_else(|| Cause::TargetNotNumber { row: row + 1, column: column(), value: cell.text() })?;
                    if !value.is_finite() {
                        return Err(DataError::TargetNotFinite { row: row + 1, value }.into());
                    }
                    place(&mut self.real, self.target_names.len(), row, k, value);
                }
                TargetKind::Labels => {
                    let entry = match cell.number() {
                        _ if cell.is_missing() => -1,
                        Some(v) if v == 1.0 || v == 0.0 || v == -1.0 => v as i8,
                        _ => return Err(Cause::LabelEntry { row: row + 1, label: shorten(column), value: cell.text() }),
                    };
                    place(&mut self.labels, self.target_names.len(), row, k, entry);
                }
            },
        }
        Ok(())
    }

    /// Joins what was collected to the features.
    pub fn join(self, x: Matrix<'static>, names: Vec<String>) -> Dataset<'static> {
        let width = self.target_names.len();
        let target = match self.kind {
            _ if width == 0 => Target::None,
            TargetKind::Classes => Target::Classes(self.classes.finish()),
            TargetKind::Labels => {
                let names = self.known.filter(|k| k.len() == width).unwrap_or(self.target_names);
                Target::Labels(LabelSets { names, values: self.labels })
            }
            TargetKind::Real => Target::Real { width, values: self.real },
        };
        let sources = self.sources.map(ClassEncoder::finish);
        Dataset { x, columns: names, target, sources, weights: self.weights }
    }
}

/// What class labels go into: the known classes and nothing else, those and then others, or whatever comes.
pub(super) fn encoder(options: &ReadOptions) -> ClassEncoder {
    match options.known_classes.as_deref() {
        Some(known) if options.open_target => ClassEncoder::open(known),
        Some(known) => ClassEncoder::fixed(known),
        None => ClassEncoder::new(),
    }
}

fn push(encoder: &mut ClassEncoder, cell: Cell<'_>) -> Result<(), Cause> {
    Ok(match cell {
        Cell::Text(t) => encoder.push(t),
        other => encoder.push(&other.text()),
    }?)
}

/// Sets entry k of a row; rows may be begun by any of their entries.
fn place<T: Default + Clone>(values: &mut Vec<T>, width: usize, row: usize, k: usize, value: T) {
    let end = (row + 1) * width;
    if values.len() < end {
        let more = end - values.len();
        store::reserve(values, more);
        values.resize(end, T::default());
    }
    values[row * width + k] = value;
}

/// Splits a matrix without names into features and the rest.
pub(super) fn divide(x: Matrix<'static>, request: &ReadRequest<'_>, plan: Plan) -> Result<Dataset<'static>, Cause> {
    let mut extras = Extras::new(request, &plan);
    let roles = plan.targets.iter().enumerate().map(|(k, &j)| (ExtraRole::Target(k), j));
    let roles = roles.chain(plan.sources.map(|j| (ExtraRole::Source, j))).chain(plan.weights.map(|j| (ExtraRole::Weight, j)));
    for (role, j) in roles {
        let name = format!("x{j}");
        for (row, v) in store::column(&x, j)?.into_iter().enumerate() {
            extras.put(role, row, &name, Cell::Number(v))?;
        }
    }
    Ok(extras.join(store::choose(x, &plan.features)?, plan.names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_their_shortest_text() {
        for v in [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, 5e-324, f64::MAX, 123456789.125, 1e16, 9999999999999998.0, 1e-5, 1.2345e-7] {
            let text = number_text(v);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), v.to_bits(), "{text}");
            assert!(text.len() < 25, "{text}");
        }
        assert_eq!(number_text(3.0), "3");
    }

    #[test]
    fn features_and_what_is_not_one() {
        let at = |text: &str| feature(text.as_bytes(), false, 4, &|| "age".into());
        assert_eq!(at(" 1.5 ").unwrap(), 1.5);
        assert_eq!(at("True").unwrap(), 1.0);
        for missing in ["", " ", "NA", "nan", "NaN", "null", "?", "n/a"] {
            assert!(matches!(at(missing), Err(Cause::Missing { row: 5, .. })), "{missing}");
            assert!(feature(missing.as_bytes(), true, 4, &String::new).unwrap().is_nan());
        }
        assert!(matches!(at("-inf"), Err(Cause::Data(DataError::NotFinite { row: 5, .. }))));
        let e = at("red").unwrap_err().to_string();
        assert!(e.contains("row 5, column `age`: `red` is not a number") && e.contains("--ignore age"), "{e}");
        assert!(feature(b"inf", true, 0, &String::new).is_err());
        assert!(at("1;2").unwrap_err().to_string().contains("--delimiter"));
        assert!(feature(b"\xff\xfe", true, 0, &String::new).is_err());
    }
}
