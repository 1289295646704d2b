//! MatrixMarket text: `coordinate` files become sparse rows, `array` files dense ones.
//!
//! Fields real, integer and pattern (every stored entry is 1); general, symmetric and skew-symmetric. Entries may come in any order
//! and duplicates are added up, as SciPy does.

use variegate::data::{DataError, Dataset, Matrix};

use super::cells::{divide, shorten};
use super::error::Cause;
use super::open::Input;
use super::roles::{Names, ReadRequest};
use super::store::Coordinates;

#[derive(Clone, Copy, PartialEq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// The lines of a file that hold something, with their numbers.
struct Lines {
    input: Input,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines {
    fn fault(&self, what: impl Into<String>) -> Cause {
        Cause::Line { line: self.number, what: what.into() }
    }

    /// The next line that is neither blank nor a comment.
    fn next(&mut self) -> Result<Option<&str>, Cause> {
        loop {
            match self.input.line(&mut self.buffer, &mut self.number)? {
                None => return Ok(None),
                Some(line) => {
                    let line = line.trim_ascii();
                    if !line.is_empty() && line[0] != b'%' {
                        break;
                    }
                }
            }
        }
        let line = self.number;
        std::str::from_utf8(&self.buffer).map(Some).map_err(|_| Cause::Line { line, what: "the line is not text".into() })
    }
}

pub(super) fn read(input: Input, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    let most_bytes = input.most_bytes;
    let mut lines = Lines { input, buffer: Vec::new(), number: 0 };
    let (coordinate, pattern, symmetry) = banner(&mut lines)?;
    let x = if coordinate { coordinates(&mut lines, pattern, symmetry)? } else { array(&mut lines, symmetry, most_bytes)? };
    if x.rows() == 0 {
        return Err(DataError::NoRows.into());
    }
    let plan = request.plan(Names::Numbered(x.cols()))?;
    divide(x, request, plan)
}

fn banner(lines: &mut Lines) -> Result<(bool, bool, Symmetry), Cause> {
    let first = lines.input.line(&mut lines.buffer, &mut lines.number)?.unwrap_or(b"");
    let text = String::from_utf8_lossy(first).to_ascii_lowercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let ["%%matrixmarket", "matrix", layout, field, symmetry] = words[..] else {
        return Err(Cause::Line { line: 1, what: "the file must begin with `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY`".into() });
    };
    let other = |what: &str, hint| Cause::Unsupported { what: format!("the MatrixMarket file is {what}"), hint };
    let coordinate = match layout {
        "coordinate" => true,
        "array" => false,
        _ => return Err(other(&shorten(layout), "write it as coordinate or array")),
    };
    let pattern = match field {
        "real" | "integer" | "double" | "unsigned-integer" => false,
        "pattern" if coordinate => true,
        _ => return Err(other(&shorten(field), "only real, integer and (for coordinates) pattern entries can be features")),
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" => Symmetry::Skew,
        _ => return Err(other(&shorten(symmetry), "write it as general")),
    };
    Ok((coordinate, pattern, symmetry))
}

/// The whole numbers of the line that states the shape.
fn shape<const N: usize>(lines: &mut Lines, symmetry: Symmetry) -> Result<[usize; N], Cause> {
    let Some(text) = lines.next()? else { return Err(lines.fault("the line with the shape is missing")) };
    let numbers: Result<Vec<usize>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let shape = numbers.ok().and_then(|v| <[usize; N]>::try_from(v).ok());
    let shape = shape.ok_or_else(|| lines.fault(format!("the shape must be {N} whole numbers")))?;
    if symmetry != Symmetry::General && shape[0] != shape[1] {
        return Err(lines.fault("a symmetric matrix must be square"));
    }
    Ok(shape)
}

fn coordinates(lines: &mut Lines, pattern: bool, symmetry: Symmetry) -> Result<Matrix<'static>, Cause> {
    let [rows, cols, count] = shape(lines, symmetry)?;
    if rows >= u32::MAX as usize || cols >= u32::MAX as usize {
        return Err(lines.fault("more rows or columns than can be numbered"));
    }
    let mut entries = Coordinates::default();
    for seen in 0..count {
        let Some(text) = lines.next()? else {
            return Err(lines.fault(format!("the file ends after {seen} of {count} entries")));
        };
        let mut words = text.split_ascii_whitespace();
        let mut place = |most: usize| words.next()?.parse::<usize>().ok().filter(|&v| 1 <= v && v <= most).map(|v| v as u32 - 1);
        let (row, column) = (place(rows), place(cols));
        let value = if pattern { Some(1.0) } else { words.next().and_then(|w| w.parse::<f64>().ok()) };
        let extra = words.next().is_some();
        let (Some(row), Some(column), Some(value), false) = (row, column, value, extra) else {
            let shown = shorten(text.trim());
            let form = if pattern { "ROW COLUMN" } else { "ROW COLUMN VALUE" };
            return Err(lines.fault(format!("`{shown}` is not {form} within {rows} x {cols}, counted from 1")));
        };
        finite(row, column, value)?;
        entries.push(row, column, value);
        if symmetry != Symmetry::General && row != column {
            entries.push(column, row, if symmetry == Symmetry::Skew { -value } else { value });
        }
    }
    ended(lines, count)?;
    entries.into_matrix(rows, cols)
}

/// Column by column; symmetric ones hold the lower triangle only, skew ones without its diagonal.
fn array(lines: &mut Lines, symmetry: Symmetry, most_bytes: u64) -> Result<Matrix<'static>, Cause> {
    let [rows, cols] = shape(lines, symmetry)?;
    // a value takes two bytes at least, and half of the values may be mirrored
    let values = rows.checked_mul(cols).filter(|&n| n as u64 / 4 <= most_bytes && n < usize::MAX / 8);
    let Some(count) = values else { return Err(lines.fault(format!("{rows} x {cols} values cannot be in a file of this size"))) };
    let mut x = vec![0.0; count];
    for j in 0..cols {
        let first = match symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => j,
            Symmetry::Skew => j + 1,
        };
        for i in first..rows {
            let Some(text) = lines.next()? else { return Err(lines.fault(format!("the file ends before entry ({}, {})", i + 1, j + 1))) };
            let parsed = text.trim().parse::<f64>();
            let Ok(value) = parsed else {
                let shown = shorten(text.trim());
                return Err(lines.fault(format!("`{shown}` is not one number")));
            };
            finite(i as u32, j as u32, value)?;
            x[i * cols + j] = value;
            match symmetry {
                Symmetry::General => {}
                Symmetry::Symmetric => x[j * cols + i] = value,
                Symmetry::Skew => x[j * cols + i] = -value,
            }
        }
    }
    ended(lines, count)?;
    Ok(Matrix::try_dense(rows, cols, x)?)
}

fn finite(row: u32, column: u32, value: f64) -> Result<(), Cause> {
    if value.is_finite() {
        return Ok(());
    }
    Err(DataError::NotFinite { row: row as usize + 1, column: format!("x{column}"), value }.into())
}

fn ended(lines: &mut Lines, count: usize) -> Result<(), Cause> {
    match lines.next()? {
        None => Ok(()),
        Some(_) => Err(lines.fault(format!("more than the {count} entries that the shape states"))),
    }
}
