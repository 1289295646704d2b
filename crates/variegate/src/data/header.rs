//! What is known of data without looking at their rows: names, kinds and widths.

use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::{DataError, Dataset, Needs, Target, TargetKind};

/// Names and kinds of everything that rows have. Wherever the rows are, this is the same for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Names of the columns; empty if they have none.
    pub columns: Vec<String>,
    /// Number of columns.
    pub width: usize,
    /// Whether rows are stored sparsely.
    pub sparse: bool,
    /// What is to be predicted.
    pub target: TargetHeader,
    /// Names of the sources, where rows have one.
    pub sources: Option<Vec<String>>,
    /// Whether rows have weights.
    pub weighted: bool,
}

/// The target of all rows, without its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetHeader {
    /// Nothing.
    None,
    /// One class a row, of these names.
    Classes(Vec<String>),
    /// A set of labels a row, of these names.
    Labels(Vec<String>),
    /// So many real numbers a row.
    Real(usize),
}

impl TargetHeader {
    /// The kind of target, if there is one.
    pub fn kind(&self) -> Option<TargetKind> {
        match self {
            Self::None => None,
            Self::Classes(_) => Some(TargetKind::Classes),
            Self::Labels(_) => Some(TargetKind::Labels),
            Self::Real(_) => Some(TargetKind::Real),
        }
    }
}

impl TargetHeader {
    /// Entries a row.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Classes(_) => 1,
            Self::Labels(names) => names.len(),
            Self::Real(width) => *width,
        }
    }
}

impl Header {
    /// The header of data.
    pub fn of(data: &Dataset<'_>) -> Self {
        Self {
            columns: data.columns.clone(),
            width: data.x.cols(),
            sparse: data.x.is_sparse(),
            target: match &data.target {
                Target::None => TargetHeader::None,
                Target::Classes(c) => TargetHeader::Classes(c.names.clone()),
                Target::Labels(l) => TargetHeader::Labels(l.names.clone()),
                Target::Real { width, .. } => TargetHeader::Real(*width),
            },
            sources: data.sources.as_ref().map(|s| s.names.clone()),
            weighted: data.weights.is_some(),
        }
    }

    /// Name of column j: its own, or its number.
    pub fn column_name(&self, j: usize) -> String {
        self.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"))
    }

    /// Names of the classes; none if the target is of another kind.
    pub fn classes(&self) -> &[String] {
        match &self.target {
            TargetHeader::Classes(names) => names,
            _ => &[],
        }
    }

    /// Names of the labels; none if the target is of another kind.
    pub fn labels(&self) -> &[String] {
        match &self.target {
            TargetHeader::Labels(names) => names,
            _ => &[],
        }
    }

    /// Number of real outcomes; 0 if the target is of another kind.
    pub fn outcomes(&self) -> usize {
        match self.target {
            TargetHeader::Real(width) => width,
            _ => 0,
        }
    }

    /// Refuses data that lack what a model needs, before a row is read.
    pub(crate) fn check(&self, needs: Needs) -> Result<(), DataError> {
        if self.width == 0 {
            return Err(DataError::NoColumns);
        }
        if !self.columns.is_empty() && self.columns.len() != self.width {
            return Err(DataError::ColumnCount { expected: self.columns.len(), found: self.width });
        }
        if needs.sources && self.sources.is_none() {
            return Err(DataError::NoSources);
        }
        match (needs.target, self.target.kind()) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(DataError::NoTarget),
            (Some(needed), Some(found)) if needed == found => Ok(()),
            (Some(needed), Some(found)) => Err(DataError::TargetKind { expected: needed.words(), found: found.words() }),
        }
    }

    /// What the header adds to the fingerprint of the rows.
    pub(super) fn fingerprint(&self, rows: u64, of_rows: u64) -> u64 {
        let mut f = Fingerprint::default();
        f.words([u64::from(self.sparse), rows, self.width as u64, of_rows].into_iter());
        f.texts(&self.columns);
        match &self.target {
            TargetHeader::None => f.word(0),
            TargetHeader::Classes(names) => {
                f.word(1);
                f.texts(names);
            }
            TargetHeader::Labels(names) => {
                f.word(2);
                f.texts(names);
            }
            TargetHeader::Real(width) => f.words([3, *width as u64].into_iter()),
        }
        match &self.sources {
            None => f.word(0),
            Some(names) => {
                f.word(1);
                f.texts(names);
            }
        }
        f.word(u64::from(self.weighted));
        f.finish()
    }
}
