//! The checks at the door. Past it, code may assume clean data.

use super::{Classes, DataError, Dataset, Matrix, Target, X};

/// The kind of target that a model learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// One class a row.
    Classes,
    /// A set of labels a row.
    Labels,
    /// Real numbers.
    Real,
}

impl TargetKind {
    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Classes => "one class a row",
            Self::Labels => "a set of labels a row",
            Self::Real => "real numbers",
        }
    }
}

/// What a model asks of its data beyond finite features and agreeing shapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// A target of this kind; for classes also at least two of them among the rows of positive weight.
    pub target: Option<TargetKind>,
    /// The source of each row.
    pub sources: bool,
    /// Features that are counts.
    pub counts: bool,
    /// Features may be missing (NaN).
    pub missing: bool,
}

impl Needs {
    /// Features only.
    pub const FEATURES: Self = Self { target: None, sources: false, counts: false, missing: false };

    /// A target of this kind.
    pub const fn target(kind: TargetKind) -> Self {
        Self { target: Some(kind), ..Self::FEATURES }
    }
}

impl Dataset<'_> {
    /// Checks everything a fit relies on and names the first fault.
    pub fn check(&self, needs: Needs) -> Result<(), DataError> {
        let rows = self.rows();
        if rows == 0 {
            return Err(DataError::NoRows);
        }
        if self.x.cols() == 0 {
            return Err(DataError::NoColumns);
        }
        self.x.check_structure()?;
        if !self.columns.is_empty() && self.columns.len() != self.x.cols() {
            return Err(DataError::ColumnCount { expected: self.columns.len(), found: self.x.cols() });
        }
        self.check_features(needs)?;
        self.check_weights()?;
        self.check_target()?;
        match (needs.target, &self.target) {
            (None, _) => Ok(()),
            (Some(_), Target::None) => Err(DataError::NoTarget),
            (Some(TargetKind::Classes), Target::Classes(c)) => self.check_two_classes(c),
            (Some(TargetKind::Labels), Target::Labels(_)) | (Some(TargetKind::Real), Target::Real { .. }) => Ok(()),
            (Some(kind), other) => {
                let found = other.kind().map_or("nothing", TargetKind::words);
                Err(DataError::TargetKind { expected: kind.words(), found })
            }
        }
    }

    /// Whether features and sources are what is needed.
    pub(crate) fn check_features(&self, needs: Needs) -> Result<(), DataError> {
        self.check_finite(needs.missing)?;
        if needs.counts {
            self.check_counts()?;
        }
        match &self.sources {
            Some(sources) => check_codes("sources", sources, self.rows()),
            None if needs.sources => Err(DataError::NoSources),
            None => Ok(()),
        }
    }

    /// Whether every stored feature is finite, or missing where that is allowed.
    pub fn check_finite(&self, missing: bool) -> Result<(), DataError> {
        self.first_feature(|v| !(v.is_finite() || missing && v.is_nan()))
            .map_or(Ok(()), |(row, column, value)| Err(DataError::NotFinite { row: row + 1, column, value }))
    }

    /// Whether every feature is a count: a whole number, 0 or more.
    pub fn check_counts(&self) -> Result<(), DataError> {
        match self.first_feature(|v| v < 0.0 || v.fract() != 0.0) {
            None => Ok(()),
            Some((row, column, value)) if value < 0.0 => Err(DataError::NegativeCount { row: row + 1, column, value }),
            Some((row, column, value)) => Err(DataError::FractionalCount { row: row + 1, column, value }),
        }
    }

    /// Whether these columns are those of the fit: as many and, where both sides have names, the same ones in the same order.
    pub fn check_columns(&self, count: usize, names: &[String]) -> Result<(), DataError> {
        if self.x.cols() != count {
            return Err(DataError::ColumnCount { expected: count, found: self.x.cols() });
        }
        match names.iter().zip(&self.columns).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(j) => Err(DataError::ColumnName { position: j + 1, expected: names[j].clone(), found: self.columns[j].clone() }),
        }
    }

    /// Row, column name and value of the first stored feature that is bad.
    fn first_feature(&self, bad: impl Fn(f64) -> bool) -> Option<(usize, String, f64)> {
        let (at, value) = match &self.x {
            Matrix::Dense { values, .. } | Matrix::Csr { values, .. } => {
                let at = values.iter().position(|&v| bad(v))?;
                (at, values[at])
            }
        };
        let (row, column) = match &self.x {
            Matrix::Dense { cols, .. } => (at / cols, at % cols),
            Matrix::Csr { indptr, indices, .. } => (indptr.partition_point(|&p| p <= at) - 1, indices[at] as usize),
        };
        Some((row, self.column_name(column), value))
    }

    fn check_weights(&self) -> Result<(), DataError> {
        let Some(weights) = &self.weights else { return Ok(()) };
        if weights.len() != self.rows() {
            return Err(DataError::Length { what: "weights", rows: self.rows(), found: weights.len() });
        }
        if let Some(i) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(DataError::Weight { row: i + 1, value: weights[i] });
        }
        if weights.iter().all(|&w| w == 0.0) { Err(DataError::NoWeight) } else { Ok(()) }
    }

    fn check_target(&self) -> Result<(), DataError> {
        let rows = self.rows();
        match &self.target {
            Target::None => Ok(()),
            Target::Classes(c) => check_codes("target", c, rows),
            Target::Labels(l) => {
                let width = l.names.len();
                if width == 0 {
                    return Err(DataError::NoTarget);
                }
                if l.values.len() != rows * width {
                    return Err(DataError::Shape { rows, cols: width, expected: rows * width, found: l.values.len() });
                }
                match l.values.iter().position(|v| !(-1..=1).contains(v)) {
                    None => Ok(()),
                    Some(at) => {
                        let label = l.names[at % width].clone();
                        Err(DataError::LabelEntry { row: at / width + 1, label, value: l.values[at] })
                    }
                }
            }
            Target::Real { width, values } => {
                if *width == 0 {
                    return Err(DataError::NoTarget);
                }
                if values.len() != rows * width {
                    return Err(DataError::Shape { rows, cols: *width, expected: rows * width, found: values.len() });
                }
                match values.iter().position(|v| !v.is_finite()) {
                    None => Ok(()),
                    Some(at) => Err(DataError::TargetNotFinite { row: at / width + 1, value: values[at] }),
                }
            }
        }
    }

    fn check_two_classes(&self, classes: &Classes) -> Result<(), DataError> {
        let counts = |i: usize| self.weights.as_ref().is_none_or(|w| w[i] > 0.0);
        let mut codes = classes.codes.iter().enumerate().filter(|(i, _)| counts(*i)).map(|(_, c)| *c);
        let Some(first) = codes.next() else { return Err(DataError::NoRows) };
        if codes.any(|c| c != first) { Ok(()) } else { Err(DataError::OneClass { name: classes.names[first as usize].clone() }) }
    }
}

fn check_codes(what: &'static str, classes: &Classes, rows: usize) -> Result<(), DataError> {
    if classes.codes.len() != rows {
        return Err(DataError::Length { what, rows, found: classes.codes.len() });
    }
    match classes.codes.iter().position(|&c| c as usize >= classes.names.len()) {
        None => Ok(()),
        Some(i) => Err(DataError::Code { what, row: i + 1, code: classes.codes[i], names: classes.names.len() }),
    }
}

impl Target {
    /// The kind of target, if there is one.
    pub fn kind(&self) -> Option<TargetKind> {
        match self {
            Self::None => None,
            Self::Classes(_) => Some(TargetKind::Classes),
            Self::Labels(_) => Some(TargetKind::Labels),
            Self::Real { .. } => Some(TargetKind::Real),
        }
    }
}

impl<'a> Matrix<'a> {
    /// Dense rows whose number of values is checked.
    pub fn try_dense(rows: usize, cols: usize, values: impl Into<std::borrow::Cow<'a, [f64]>>) -> Result<Self, DataError> {
        let matrix = Self::Dense { rows, cols, values: values.into() };
        matrix.check_structure()?;
        Ok(matrix)
    }

    /// Whether the storage matches the shape: enough values; offsets that ascend; columns in range, ascending, none twice.
    pub fn check_structure(&self) -> Result<(), DataError> {
        match self {
            Self::Dense { rows, cols, values } => {
                let expected = rows.saturating_mul(*cols);
                if values.len() == expected {
                    Ok(())
                } else {
                    Err(DataError::Shape { rows: *rows, cols: *cols, expected, found: values.len() })
                }
            }
            Self::Csr { cols, .. } => {
                self.check_offsets()?;
                let x = self.view();
                for i in 0..x.rows() {
                    let (indices, _) = x.sparse_row(i);
                    if let Some(&column) = indices.iter().find(|&&j| j as usize >= *cols) {
                        return Err(DataError::OutOfRange { row: i + 1, column, cols: *cols });
                    }
                    match indices.windows(2).find(|w| w[0] >= w[1]) {
                        None => {}
                        Some(w) if w[0] == w[1] => {
                            return Err(DataError::Duplicate { row: i + 1, column: format!("x{}", w[0]) });
                        }
                        Some(_) => return Err(DataError::Unsorted { row: i + 1 }),
                    }
                }
                Ok(())
            }
        }
    }

    fn check_offsets(&self) -> Result<(), DataError> {
        let Self::Csr { rows, indptr, indices, values, .. } = self else { return Ok(()) };
        if indptr.len() != rows + 1 || indptr[0] != 0 {
            return Err(DataError::Offsets { row: 1 });
        }
        if let Some(i) = indptr.windows(2).position(|w| w[0] > w[1]) {
            return Err(DataError::Offsets { row: i + 1 });
        }
        if indptr[*rows] != indices.len() || indices.len() != values.len() {
            return Err(DataError::Offsets { row: *rows });
        }
        Ok(())
    }

    /// The same rows with sorted columns and duplicates added up. Rows that are in order already are not touched.
    pub fn canonicalise(self) -> Result<Self, DataError> {
        match self.check_structure() {
            Err(DataError::Unsorted { .. } | DataError::Duplicate { .. }) => {}
            Err(e) => return Err(e),
            Ok(()) => return Ok(self),
        }
        let Self::Csr { rows, cols, indptr, indices, values } = self else { return Ok(self) };
        let (mut indptr, mut indices, mut values) = (indptr.into_owned(), indices.into_owned(), values.into_owned());
        let (mut row, mut to) = (Vec::new(), 0);
        for i in 0..rows {
            let range = indptr[i]..indptr[i + 1];
            row.clear();
            row.extend(indices[range.clone()].iter().copied().zip(values[range].iter().copied()));
            row.sort_by_key(|&(j, _)| j); // stable, so that duplicates are added in their stored order
            let start = to;
            for &(j, v) in &row {
                if to > start && indices[to - 1] == j {
                    values[to - 1] += v;
                } else {
                    (indices[to], values[to]) = (j, v);
                    to += 1;
                }
            }
            indptr[i] = start;
        }
        indptr[rows] = to;
        indices.truncate(to);
        values.truncate(to);
        let out = Self::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
        out.check_structure()?; // a column out of range may have hidden behind the disorder
        Ok(out)
    }

    /// Bytes that the stored entries take in memory.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Dense { values, .. } => size_of_val(&values[..]),
            Self::Csr { indptr, indices, values, .. } => size_of_val(&indptr[..]) + size_of_val(&indices[..]) + size_of_val(&values[..]),
        }
    }

    /// The rows, dense; for tests and tools, never for large sparse data.
    pub fn to_dense(&self) -> Vec<f64> {
        let cols = self.cols();
        let mut out = vec![0.0; self.rows() * cols];
        let x: X<'_> = self.view();
        for i in 0..self.rows() {
            x.for_row(i, |j, v| out[i * cols + j] = v);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::LabelSets;

    fn csr(cols: usize, indptr: Vec<usize>, indices: Vec<u32>, values: Vec<f64>) -> Matrix<'static> {
        Matrix::Csr { rows: indptr.len() - 1, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    fn good() -> Dataset<'static> {
        let mut d = Dataset::new(Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        d.columns = vec!["a".into(), "b".into()];
        d.target = Target::Classes(Classes::encode(["x", "y", "x"]));
        d
    }

    #[test]
    fn clean_data_pass() {
        assert_eq!(good().check(Needs::target(TargetKind::Classes)), Ok(()));
        assert_eq!(good().check(Needs { counts: true, ..Needs::FEATURES }), Ok(()));
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let classes = Needs::target(TargetKind::Classes);
        let faults: Vec<(Dataset<'_>, Needs, DataError)> = vec![
            (Dataset::new(Matrix::dense(0, 2, vec![])), classes, DataError::NoRows),
            (Dataset::new(Matrix::dense(2, 0, vec![])), classes, DataError::NoColumns),
            (
                Dataset { x: Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, f64::INFINITY, 5.0, 6.0]), ..good() },
                classes,
                DataError::NotFinite { row: 2, column: "b".into(), value: f64::INFINITY },
            ),
            (Dataset { columns: vec!["a".into()], ..good() }, classes, DataError::ColumnCount { expected: 1, found: 2 }),
            (Dataset { target: Target::None, ..good() }, classes, DataError::NoTarget),
            (good(), Needs::target(TargetKind::Real), DataError::TargetKind { expected: "real numbers", found: "one class a row" }),
            (
                Dataset { target: Target::Classes(Classes::encode(["x", "y"])), ..good() },
                classes,
                DataError::Length { what: "target", rows: 3, found: 2 },
            ),
            (
                Dataset { target: Target::Classes(Classes::encode(["x", "x", "x"])), ..good() },
                classes,
                DataError::OneClass { name: "x".into() },
            ),
            (Dataset { weights: Some(vec![1.0, 0.0, 2.0]), ..good() }, classes, DataError::OneClass { name: "x".into() }),
            (Dataset { weights: Some(vec![1.0, -1.0, 2.0]), ..good() }, classes, DataError::Weight { row: 2, value: -1.0 }),
            (Dataset { weights: Some(vec![0.0; 3]), ..good() }, classes, DataError::NoWeight),
            (Dataset { weights: Some(vec![0.0; 4]), ..good() }, classes, DataError::Length { what: "weights", rows: 3, found: 4 }),
            (good(), Needs { sources: true, ..classes }, DataError::NoSources),
            (
                Dataset { sources: Some(Classes { codes: vec![0, 1, 2], names: vec!["s".into(), "t".into()] }), ..good() },
                classes,
                DataError::Code { what: "sources", row: 3, code: 2, names: 2 },
            ),
            (
                Dataset { target: Target::Labels(LabelSets { names: vec!["l".into()], values: vec![1, -1, 2] }), ..good() },
                Needs::FEATURES,
                DataError::LabelEntry { row: 3, label: "l".into(), value: 2 },
            ),
            (
                Dataset { target: Target::Real { width: 2, values: vec![0.0; 5] }, ..good() },
                Needs::FEATURES,
                DataError::Shape { rows: 3, cols: 2, expected: 6, found: 5 },
            ),
            (
                Dataset { target: Target::Real { width: 1, values: vec![0.0, f64::INFINITY, 0.0] }, ..good() },
                Needs::FEATURES,
                DataError::TargetNotFinite { row: 2, value: f64::INFINITY },
            ),
            (
                Dataset { x: Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, 4.5, 5.0, 6.0]), ..good() },
                Needs { counts: true, ..Needs::FEATURES },
                DataError::FractionalCount { row: 2, column: "b".into(), value: 4.5 },
            ),
            (
                Dataset { x: csr(2, vec![0, 0, 1, 2], vec![1, 0], vec![1.0, -2.0]), ..good() },
                Needs { counts: true, ..Needs::FEATURES },
                DataError::NegativeCount { row: 3, column: "a".into(), value: -2.0 },
            ),
        ];
        for (data, needs, expected) in faults {
            assert_eq!(data.check(needs), Err(expected));
        }
    }

    #[test]
    fn missing_features_pass_where_they_may() {
        let needs = Needs { missing: true, ..Needs::FEATURES };
        let with = |v: f64| Dataset { x: Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, v, 5.0, 6.0]), ..good() };
        assert_eq!(with(f64::NAN).check(needs), Ok(()));
        assert!(matches!(with(f64::NAN).check(Needs::FEATURES), Err(DataError::NotFinite { row: 2, .. })));
        let infinite = DataError::NotFinite { row: 2, column: "b".into(), value: f64::INFINITY };
        assert_eq!(with(f64::INFINITY).check(needs), Err(infinite));
        // a count that is not there is no count
        assert!(matches!(with(f64::NAN).check(Needs { counts: true, ..needs }), Err(DataError::FractionalCount { row: 2, .. })));
    }

    #[test]
    fn columns_at_prediction() {
        let names = ["a", "b"].map(String::from);
        assert_eq!(good().check_columns(2, &names), Ok(()));
        assert_eq!(good().check_columns(2, &[]), Ok(()));
        assert_eq!(Dataset { columns: vec![], ..good() }.check_columns(2, &names), Ok(()));
        assert_eq!(good().check_columns(3, &names), Err(DataError::ColumnCount { expected: 3, found: 2 }));
        let other = ["a", "c"].map(String::from);
        let e = DataError::ColumnName { position: 2, expected: "c".into(), found: "b".into() };
        assert_eq!(good().check_columns(2, &other), Err(e));
    }

    #[test]
    fn broken_sparse_rows_are_found_and_mended() {
        let ok = csr(3, vec![0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0]);
        assert_eq!(ok.check_structure(), Ok(()));
        let unsorted = csr(3, vec![0, 4, 4, 5], vec![2, 0, 2, 1, 1], vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(unsorted.check_structure(), Err(DataError::Unsorted { row: 1 }));
        let mended = unsorted.canonicalise().unwrap();
        assert_eq!(mended, csr(3, vec![0, 3, 3, 4], vec![0, 1, 2, 1], vec![2.0, 4.0, 4.0, 5.0]));
        let twice = csr(3, vec![0, 2], vec![1, 1], vec![1.0, 2.0]);
        assert_eq!(twice.check_structure(), Err(DataError::Duplicate { row: 1, column: "x1".into() }));
        assert_eq!(twice.canonicalise().unwrap().to_dense(), [0.0, 3.0, 0.0]);
        let hidden = csr(2, vec![0, 2, 3], vec![1, 0, 9], vec![1.0; 3]);
        assert_eq!(hidden.canonicalise(), Err(DataError::OutOfRange { row: 2, column: 9, cols: 2 }));
        for (indptr, row) in [(vec![0, 2, 1, 3], 2), (vec![1, 2, 2, 3], 1), (vec![0, 2, 2, 2], 3), (vec![0, 2, 2, 9], 3)] {
            let x = csr(3, indptr, vec![0, 2, 1], vec![1.0; 3]);
            assert_eq!(x.check_structure(), Err(DataError::Offsets { row }));
            assert_eq!(x.canonicalise(), Err(DataError::Offsets { row }));
        }
        assert!(Matrix::try_dense(2, 2, vec![0.0; 3]).is_err());
        assert!(Matrix::try_dense(usize::MAX, usize::MAX, vec![0.0; 1]).is_err());
    }
}
