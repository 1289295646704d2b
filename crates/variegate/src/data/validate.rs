//! The checks at the door. Past it, code may assume clean data.

use serde::{Deserialize, Serialize};

use super::{Block, DataError, Dataset, Header, Matrix, Target, TargetHeader, TargetView, X};

/// The kind of target that a model learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let header = Header::of(self);
        self.check_lengths()?;
        header.check(needs)?;
        let mut counts = Counts::default();
        let whole = Block { y: self.target.slice(0..self.rows()), weights: self.weights.as_deref(), ..self.features() };
        counts.take(&header, &whole, needs)?;
        counts.finish(&header, needs)
    }

    /// Whether there are rows, and everything that has one entry a row has as many: what cutting into blocks relies on.
    pub fn check_lengths(&self) -> Result<(), DataError> {
        let rows = self.rows();
        let length = |what: &'static str, found: usize| if found == rows { Ok(()) } else { Err(DataError::Length { what, rows, found }) };
        if rows == 0 {
            return Err(DataError::NoRows);
        }
        self.x.check_lengths()?;
        if let Some(sources) = &self.sources {
            length("sources", sources.codes.len())?;
        }
        if let Some(weights) = &self.weights {
            length("weights", weights.len())?;
        }
        let (width, found) = match &self.target {
            Target::None => return Ok(()),
            Target::Classes(c) => return length("target", c.codes.len()),
            Target::Labels(l) => (l.names.len(), l.values.len()),
            Target::Real { width, values } => (*width, values.len()),
        };
        if width == 0 {
            return Err(DataError::NoTarget);
        }
        let expected = rows.saturating_mul(width);
        if found == expected { Ok(()) } else { Err(DataError::Shape { rows, cols: width, expected, found }) }
    }

    /// Whether features and sources are what is needed.
    pub(crate) fn check_features(&self, needs: Needs) -> Result<(), DataError> {
        let header = Header::of(self);
        if let Some(sources) = &self.sources
            && sources.codes.len() != self.rows()
        {
            return Err(DataError::Length { what: "sources", rows: self.rows(), found: sources.codes.len() });
        }
        if needs.sources && self.sources.is_none() {
            return Err(DataError::NoSources);
        }
        self.features().check_features(&header, needs)
    }

    /// Features and sources of all rows as one block.
    fn features(&self) -> Block<'_> {
        let sources = self.sources.as_ref().map(|s| &s.codes[..]);
        Block { number: 0, first_row: 0, x: self.x.view(), y: TargetView::None, sources, weights: None }
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
}

impl Block<'_> {
    /// Number of row i of the block, as a user counts.
    fn row_number(&self, i: usize) -> usize {
        self.first_row as usize + i + 1
    }

    /// Whether features and sources are what is needed.
    pub(crate) fn check_features(&self, header: &Header, needs: Needs) -> Result<(), DataError> {
        self.x.check_order(self.first_row as usize)?;
        if let Some((row, column, value)) = self.first_feature(|v| !(v.is_finite() || needs.missing && v.is_nan())) {
            return Err(DataError::NotFinite { row, column: header.column_name(column), value });
        }
        match self.first_feature(|v| needs.counts && (v < 0.0 || v.fract() != 0.0)) {
            None => {}
            Some((row, column, value)) if value < 0.0 => {
                return Err(DataError::NegativeCount { row, column: header.column_name(column), value });
            }
            Some((row, column, value)) => return Err(DataError::FractionalCount { row, column: header.column_name(column), value }),
        }
        self.check_codes("sources", self.sources, header.sources.as_ref().map_or(0, Vec::len))
    }

    /// Whether weights and targets are what they can be.
    pub(crate) fn check_outcomes(&self, header: &Header) -> Result<(), DataError> {
        if let Some(i) = self.weights.and_then(|w| w.iter().position(|w| !(w.is_finite() && *w >= 0.0))) {
            return Err(DataError::Weight { row: self.row_number(i), value: self.weights.map_or(f64::NAN, |w| w[i]) });
        }
        match (self.y, &header.target) {
            (TargetView::Classes(codes), TargetHeader::Classes(names)) => self.check_codes("target", Some(codes), names.len()),
            (TargetView::Labels(values), TargetHeader::Labels(names)) => match values.iter().position(|v| !(-1..=1).contains(v)) {
                None => Ok(()),
                Some(at) => {
                    let label = names[at % names.len()].clone();
                    Err(DataError::LabelEntry { row: self.row_number(at / names.len()), label, value: values[at] })
                }
            },
            (TargetView::Real(values), TargetHeader::Real(width)) => match values.iter().position(|v| !v.is_finite()) {
                None => Ok(()),
                Some(at) => Err(DataError::TargetNotFinite { row: self.row_number(at / width), value: values[at] }),
            },
            _ => Ok(()),
        }
    }

    fn check_codes(&self, what: &'static str, codes: Option<&[u32]>, names: usize) -> Result<(), DataError> {
        let Some(codes) = codes else { return Ok(()) };
        match codes.iter().position(|&c| c as usize >= names) {
            None => Ok(()),
            Some(i) => Err(DataError::Code { what, row: self.row_number(i), code: codes[i], names }),
        }
    }

    /// Row (as a user counts), column and value of the first stored feature that is bad.
    fn first_feature(&self, bad: impl Fn(f64) -> bool) -> Option<(usize, usize, f64)> {
        match self.x {
            X::Dense { cols, values, .. } => {
                let at = values.iter().position(|&v| bad(v))?;
                Some((self.row_number(at / cols), at % cols, values[at]))
            }
            X::Csr { indptr, indices, values, .. } => {
                let at = values.iter().position(|&v| bad(v))?;
                let row = indptr.partition_point(|&p| p - indptr[0] <= at) - 1;
                Some((self.row_number(row), indices[at] as usize, values[at]))
            }
        }
    }
}

/// What a fit needs some of: rows, weight, and rows of each class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Number of rows.
    pub rows: u64,
    /// Their weight.
    pub weight: f64,
    /// Weight of the rows of each class.
    pub classes: Vec<f64>,
    /// Labels that are present, absent and unknown.
    pub labels: LabelCounts,
}

/// How often labels are present, absent and unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelCounts {
    /// Rows that have each label.
    pub present: Vec<u64>,
    /// Rows that are known not to have each label.
    pub absent: Vec<u64>,
    /// Rows of which some labels are known and others are not.
    pub partly_known: u64,
    /// Rows of which no label is known.
    pub unknown: u64,
}

impl LabelCounts {
    fn take(&mut self, values: &[i8], width: usize) {
        self.present.resize(width, 0);
        self.absent.resize(width, 0);
        for row in values.chunks_exact(width.max(1)) {
            let unknown = row.iter().filter(|v| **v < 0).count();
            self.partly_known += u64::from(unknown > 0 && unknown < width);
            self.unknown += u64::from(unknown == width);
            for ((value, present), absent) in row.iter().zip(&mut self.present).zip(&mut self.absent) {
                *present += u64::from(*value == 1);
                *absent += u64::from(*value == 0);
            }
        }
    }

    fn merge(&mut self, right: Self) {
        let add = |left: &mut Vec<u64>, right: Vec<u64>| {
            if left.is_empty() {
                *left = right;
            } else {
                left.iter_mut().zip(right).for_each(|(l, r)| *l += r);
            }
        };
        add(&mut self.present, right.present);
        add(&mut self.absent, right.absent);
        self.partly_known += right.partly_known;
        self.unknown += right.unknown;
    }
}

impl Counts {
    /// Checks the rows of a block and takes them in.
    pub(super) fn take(&mut self, header: &Header, block: &Block<'_>, needs: Needs) -> Result<(), DataError> {
        block.check_features(header, needs)?;
        block.check_outcomes(header)?;
        self.rows += block.rows() as u64;
        self.weight += (0..block.rows()).map(|i| block.weight(i)).sum::<f64>();
        self.classes.resize(header.classes().len(), 0.0);
        for (i, &code) in block.y.classes().iter().enumerate() {
            self.classes[code as usize] += block.weight(i);
        }
        if let TargetView::Labels(values) = block.y {
            self.labels.take(values, header.labels().len());
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, right: Self) {
        self.rows += right.rows;
        self.weight += right.weight;
        self.labels.merge(right.labels);
        if self.classes.is_empty() {
            self.classes = right.classes;
        } else {
            self.classes.iter_mut().zip(right.classes).for_each(|(l, r)| *l += r);
        }
    }

    /// Refuses data without weight, and classes of which there is one alone.
    pub(super) fn finish(&self, header: &Header, needs: Needs) -> Result<(), DataError> {
        if self.rows == 0 {
            return Err(DataError::NoRows);
        }
        if self.weight == 0.0 {
            return Err(DataError::NoWeight);
        }
        if needs.target == Some(TargetKind::Classes) {
            let mut present = self.classes.iter().zip(header.classes()).filter(|(n, _)| **n > 0.0);
            if let (Some((_, name)), None) = (present.next(), present.next()) {
                return Err(DataError::OneClass { name: name.clone() });
            }
        }
        Ok(())
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
        self.check_lengths()?;
        self.view().check_order(0)
    }

    /// Whether there are as many values as the shape says, and offsets that ascend.
    fn check_lengths(&self) -> Result<(), DataError> {
        let Self::Dense { rows, cols, values } = self else { return self.check_offsets() };
        let expected = rows.saturating_mul(*cols);
        if values.len() == expected { Ok(()) } else { Err(DataError::Shape { rows: *rows, cols: *cols, expected, found: values.len() }) }
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

impl X<'_> {
    /// Whether columns of sparse rows are in range and ascend, none twice. `before` is the number of rows before these.
    fn check_order(&self, before: usize) -> Result<(), DataError> {
        let X::Csr { cols, .. } = *self else { return Ok(()) };
        for i in 0..self.rows() {
            let (indices, _) = self.sparse_row(i);
            let row = before + i + 1;
            if let Some(&column) = indices.iter().find(|&&j| j as usize >= cols) {
                return Err(DataError::OutOfRange { row, column, cols });
            }
            match indices.windows(2).find(|w| w[0] >= w[1]) {
                None => {}
                Some(w) if w[0] == w[1] => return Err(DataError::Duplicate { row, column: format!("x{}", w[0]) }),
                Some(_) => return Err(DataError::Unsorted { row }),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Classes, LabelSets};

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
