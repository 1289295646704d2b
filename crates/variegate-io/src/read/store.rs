//! Filling a matrix from a stream so that it is never held twice.

use variegate::data::{DataError, Matrix};

use super::error::Cause;

/// Makes room for `more` entries. Growing by a quarter, not by doubling, keeps the moment when old and new storage both exist small.
pub(super) fn reserve<T>(values: &mut Vec<T>, more: usize) {
    reserve_towards(values, more, || 0);
}

/// The same where a guess of the final number of entries can be had: storage then moves while it is small, and once.
pub(super) fn reserve_towards<T>(values: &mut Vec<T>, more: usize, expected: impl FnOnce() -> usize) {
    let len = values.len();
    if values.capacity() - len < more {
        // a guess may not ask for endlessly more than is there
        let guess = expected().min(len.saturating_mul(1024));
        values.reserve_exact(more.max(guess.saturating_sub(len)).max(len / 4).max(1024));
    }
}

/// Gives spare room back where there is a lot of it.
pub(super) fn trim<T>(values: &mut Vec<T>) {
    if values.capacity() - values.len() > values.len() / 8 {
        values.shrink_to_fit();
    }
}

/// A file with few entries may not claim endless rows, for which later steps would need memory.
pub(super) fn plausible_rows(claimed: usize, entries: usize) -> Result<(), Cause> {
    plausible("rows", claimed, entries, 1 << 20)
}

/// The same for columns. Hashed features are few among many, hence the wider bound.
pub(super) fn plausible_columns(claimed: usize, entries: usize) -> Result<(), Cause> {
    plausible("columns", claimed, entries, 1 << 24)
}

fn plausible(what: &str, claimed: usize, entries: usize, always: usize) -> Result<(), Cause> {
    let most = always.saturating_add(entries.saturating_mul(100)).min(u32::MAX as usize - 1);
    if claimed > most {
        return Err(Cause::damaged(format!("{claimed} {what} are claimed for {entries} stored values")));
    }
    Ok(())
}

/// Sparse entries in any order.
#[derive(Debug, Default)]
pub(super) struct Coordinates {
    pub rows: Vec<u32>,
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
}

impl Coordinates {
    pub fn push(&mut self, row: u32, column: u32, value: f64) {
        reserve(&mut self.rows, 1);
        reserve(&mut self.columns, 1);
        reserve(&mut self.values, 1);
        self.rows.push(row);
        self.columns.push(column);
        self.values.push(value);
    }

    /// Sorts the entries into rows in place and adds duplicates up. Every row and column number must be in range.
    pub fn into_matrix(self, rows: usize, cols: usize) -> Result<Matrix<'static>, Cause> {
        let Self { rows: mut row_of, mut columns, mut values } = self;
        plausible_rows(rows, values.len())?;
        plausible_columns(cols, values.len())?;
        let mut indptr = vec![0usize; rows + 1];
        for &r in &row_of {
            indptr[r as usize + 1] += 1;
        }
        for i in 0..rows {
            indptr[i + 1] += indptr[i];
        }
        let mut next = indptr[..rows].to_vec();
        for r in 0..rows {
            while next[r] < indptr[r + 1] {
                let at = next[r];
                let home = row_of[at] as usize;
                let to = next[home];
                next[home] += 1;
                if home != r {
                    row_of.swap(at, to);
                    columns.swap(at, to);
                    values.swap(at, to);
                }
            }
        }
        drop(row_of);
        csr(rows, cols, indptr, columns, values)
    }
}

/// Checked sparse rows with sorted columns; duplicates are added up.
pub(super) fn csr(
    rows: usize,
    cols: usize,
    indptr: Vec<usize>,
    mut indices: Vec<u32>,
    mut values: Vec<f64>,
) -> Result<Matrix<'static>, Cause> {
    trim(&mut indices);
    trim(&mut values);
    let x = Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    Ok(x.canonicalise()?)
}

/// The chosen columns of a matrix in the given order; a dense one is compacted in place.
pub(super) fn choose(x: Matrix<'static>, chosen: &[usize]) -> Result<Matrix<'static>, Cause> {
    if chosen.len() == x.cols() && chosen.iter().enumerate().all(|(a, &b)| a == b) {
        return Ok(x);
    }
    match x {
        Matrix::Dense { rows, cols, values } => {
            let mut values = values.into_owned();
            let mut row = vec![0.0; chosen.len()];
            let width = chosen.len();
            for i in 0..rows {
                for (to, &j) in row.iter_mut().zip(chosen) {
                    *to = values[i * cols + j];
                }
                values[i * width..(i + 1) * width].copy_from_slice(&row);
            }
            values.truncate(rows * width);
            trim(&mut values);
            Ok(Matrix::try_dense(rows, width, values)?)
        }
        Matrix::Csr { rows, cols, indptr, indices, values } => {
            const GONE: u32 = u32::MAX;
            let mut place = vec![GONE; cols];
            for (to, &j) in chosen.iter().enumerate() {
                place[j] = to as u32;
            }
            let (mut indptr, mut indices, mut values) = (indptr.into_owned(), indices.into_owned(), values.into_owned());
            let (mut to, mut from) = (0, 0);
            for i in 0..rows {
                let end = indptr[i + 1];
                for at in from..end {
                    let j = place[indices[at] as usize];
                    if j != GONE {
                        (indices[to], values[to]) = (j, values[at]);
                        to += 1;
                    }
                }
                from = end;
                indptr[i + 1] = to;
            }
            indices.truncate(to);
            values.truncate(to);
            csr(rows, chosen.len(), indptr, indices, values)
        }
    }
}

/// One column of a matrix, dense.
pub(super) fn column(x: &Matrix<'_>, j: usize) -> Result<Vec<f64>, Cause> {
    let (rows, view) = (x.rows(), x.view());
    if j >= x.cols() {
        return Err(DataError::ColumnCount { expected: j + 1, found: x.cols() }.into());
    }
    let mut out = vec![0.0; rows];
    match x {
        Matrix::Dense { cols, values, .. } => {
            for (o, row) in out.iter_mut().zip(values.chunks_exact(*cols)) {
                *o = row[j];
            }
        }
        Matrix::Csr { .. } => {
            for (i, o) in out.iter_mut().enumerate() {
                let (columns, values) = view.sparse_row(i);
                if let Ok(at) = columns.binary_search(&(j as u32)) {
                    *o = values[at];
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_any_order_become_rows() {
        let mut c = Coordinates::default();
        for (r, j, v) in [(2, 1, 1.0), (0, 2, 2.0), (2, 0, 3.0), (0, 0, 4.0), (2, 1, 5.0), (3, 3, 6.0)] {
            c.push(r, j, v);
        }
        let x = c.into_matrix(5, 4).unwrap();
        assert_eq!(x.stored(), 5);
        let mut expected = vec![0.0; 20];
        for (at, v) in [(0, 4.0), (2, 2.0), (8, 3.0), (9, 6.0), (15, 6.0)] {
            expected[at] = v;
        }
        assert_eq!(x.to_dense(), expected);
        let part = choose(x.clone(), &[3, 0]).unwrap();
        assert_eq!(part.to_dense(), [0.0, 4.0, 0.0, 0.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0]);
        let dense = Matrix::dense(5, 4, expected);
        assert_eq!(choose(dense.clone(), &[3, 0]).unwrap().to_dense(), part.to_dense());
        for j in 0..4 {
            assert_eq!(column(&dense, j).unwrap(), column(&x, j).unwrap());
        }
        assert!(column(&x, 4).is_err());
        assert!(Coordinates::default().into_matrix(1 << 40, 2).is_err());
    }
}
