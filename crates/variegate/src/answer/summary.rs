//! What a fitted model says of itself: figures with a name, tables with typed columns, sentences.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// What was found, and how sure it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Figures in the order they should be read.
    pub facts: Vec<Fact>,
    /// Tables; the first is the main one.
    pub tables: Vec<SummaryTable>,
    /// Whether the fit has converged; the reason is in `notes`.
    pub converged: bool,
    /// What concerns the meaning of what was found: fronts say it also where they are told to be quiet.
    pub warnings: Vec<String>,
    /// What else to know and what to do.
    pub notes: Vec<String>,
}

/// A figure with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// The figure.
    pub value: Figure,
    /// What a reader should know beside it; may be empty.
    pub remark: String,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Figure {
    /// A whole number.
    Count(u64),
    /// A real number.
    Number(f64),
    /// Posterior mean and standard deviation.
    Estimate {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// Several numbers with names.
    Numbers(Vec<(String, f64)>),
    /// Shares that sum to one, with names.
    Shares(Vec<(String, f64)>),
    /// A word or a sentence.
    Text(String),
}

impl Figure {
    /// Mean and standard deviation of draws.
    pub fn estimate(draws: &[f64]) -> Self {
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        Self::Estimate { mean, sd: (draws.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt() }
    }

    /// For machines: a number, an object of numbers, or a text. What is not finite is null.
    pub fn as_json(&self) -> Value {
        match self {
            Self::Count(n) => json!(n),
            Self::Number(x) => json!(x),
            Self::Estimate { mean, sd } => json!({ "mean": mean, "sd": sd }),
            Self::Numbers(all) | Self::Shares(all) => all.iter().map(|(name, x)| (name.clone(), json!(x))).collect::<Map<_, _>>().into(),
            Self::Text(text) => json!(text),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[(String, f64)], show: &dyn Fn(f64) -> String| {
            all.iter().map(|(name, x)| format!("{name} {}", show(*x))).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Number(x) => write!(f, "{x:.4}"),
            Self::Estimate { mean, sd } => write!(f, "{mean:.3} ± {sd:.3}"),
            Self::Numbers(all) => f.write_str(&list(all, &|x| x.to_string())),
            Self::Shares(all) => f.write_str(&list(all, &|x| format!("{:.1}%", 100.0 * x))),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Fact {
    /// A figure.
    pub fn new(name: impl Into<String>, value: Figure) -> Self {
        Self { name: name.into(), value, remark: String::new() }
    }

    /// A word or a sentence.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(name, Figure::Text(text.into()))
    }

    /// A whole number.
    pub fn count(name: impl Into<String>, count: usize) -> Self {
        Self::new(name, Figure::Count(count as u64))
    }

    /// A real number.
    pub fn number(name: impl Into<String>, number: f64) -> Self {
        Self::new(name, Figure::Number(number))
    }

    /// The same with a remark.
    pub fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }
}

impl fmt::Display for Fact {
    /// The figure and its remark, without the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.remark.is_empty() { write!(f, "{}", self.value) } else { write!(f, "{} ({})", self.value, self.remark) }
    }
}

/// What the numbers of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnKind {
    /// Real numbers, in the unit of the row.
    Number,
    /// Whole numbers.
    Count,
    /// Probabilities or shares.
    Share,
    /// Figures that judge the others: effective sample sizes, R-hat.
    Diagnostic,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryColumn {
    /// Heading.
    pub heading: String,
    /// What its numbers are.
    pub kind: ColumnKind,
}

/// Numbers in rows with names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SummaryTable {
    /// What it is of: `coefficients`, `factors`…
    pub name: String,
    /// Its columns.
    pub columns: Vec<SummaryColumn>,
    /// Its rows: a name and a number for each column; NaN where there is none.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl SummaryTable {
    /// A table without rows.
    pub fn new(name: &str, columns: impl IntoIterator<Item = (impl Into<String>, ColumnKind)>) -> Self {
        let columns = columns.into_iter().map(|(heading, kind)| SummaryColumn { heading: heading.into(), kind }).collect();
        Self { name: name.into(), columns, rows: Vec::new() }
    }

    /// Its headings.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.heading.as_str())
    }

    /// For machines: an object a row, with its `name` and a number for each heading.
    pub fn as_json(&self) -> Value {
        let row = |(name, values): &(String, Vec<f64>)| {
            let cells = self.headings().map(String::from).zip(values.iter().map(|v| json!(v)));
            Value::Object(std::iter::once(("name".to_string(), json!(name))).chain(cells).collect())
        };
        self.rows.iter().map(row).collect()
    }
}

impl Summary {
    /// Rows of the main table; none without one.
    pub fn rows(&self) -> &[(String, Vec<f64>)] {
        self.tables.first().map_or(&[], |t| &t.rows)
    }

    /// The figure of this name.
    pub fn fact(&self, name: &str) -> Option<&Figure> {
        self.facts.iter().find(|f| f.name == name).map(|f| &f.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_numbers_for_machines_and_words_for_people() {
        let share = Figure::Shares(vec![("a".into(), 0.25), ("b".into(), 0.75)]);
        assert_eq!((share.as_json(), share.to_string()), (json!({"a": 0.25, "b": 0.75}), "a 25.0%, b 75.0%".into()));
        let fact = Fact::number("bound", -1.5).remark("best of 3");
        assert_eq!((fact.value.as_json(), fact.to_string()), (json!(-1.5), "-1.5000 (best of 3)".into()));
        assert_eq!(Figure::Number(f64::NAN).as_json(), Value::Null);
        let mut table = SummaryTable::new("t", [("mean", ColumnKind::Number)]);
        table.rows.push(("x".into(), vec![2.0]));
        assert_eq!(table.as_json(), json!([{"name": "x", "mean": 2.0}]));
    }
}
