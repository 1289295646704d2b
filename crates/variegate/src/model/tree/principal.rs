//! Principal components of the rows of a fit: coordinates in place of columns.
//!
//! With `m` the column means and `S = X_c' X_c / N` the covariance of the centred columns (which are not scaled), `S w = v w` with the largest
//! variances `v` first; a row has the coordinates `w_i' (x - m)`. A loading `w` is of length 1, and its entry of largest size is positive. Means and
//! loadings are part of the bound model, so that new rows go the same way. They are worked out from all rows in their order: neither blocks nor
//! threads matter.

use serde::{Deserialize, Serialize};

use super::components::Columns;
use crate::linalg::{self, dot};
use crate::{Error, Result};

/// Most columns: their covariances must fit, and be taken apart.
const MOST_COLUMNS: usize = 4096;
/// A variance below this share of the largest is one of rounding.
const NOTHING: f64 = 1e-12;

/// How columns become coordinates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Principal {
    mean: Vec<f64>,
    /// Loadings, one component after the other.
    loadings: Vec<f64>,
    /// Variance of each component (divisor N), the largest first, and of all columns together.
    pub(crate) variances: Vec<f64>,
    pub(crate) total: f64,
}

impl Principal {
    /// So many components of rows one after the other, whose columns were looked at.
    pub(crate) fn new(x: &[f64], columns: &Columns, count: usize) -> Result<Self> {
        let width = columns.mean.len();
        if let Some((row, d)) = columns.missing {
            return Err(refuse(row, &columns.names[d]));
        }
        if width > MOST_COLUMNS {
            return Err(Error::setting(
                "pca",
                count,
                format!("left out with more than {MOST_COLUMNS} columns: work the components out beforehand"),
            ));
        }
        let most = width.min(columns.rows - 1);
        if count > most {
            let allowed = format!("at most {most}: {} rows of {width} columns have no more principal components", columns.rows);
            return Err(Error::setting("pca", count, allowed));
        }
        let mut covariance = vec![0.0; width * width];
        let mut moved = vec![0.0; width];
        for row in x.chunks_exact(width) {
            moved.iter_mut().zip(row.iter().zip(&columns.mean)).for_each(|(y, (x, m))| *y = x - m);
            for i in 0..width {
                let y = moved[i];
                covariance[i * width..][..=i].iter_mut().zip(&moved).for_each(|(c, other)| *c += y * other);
            }
        }
        covariance.iter_mut().for_each(|c| *c /= columns.rows as f64);
        let total = (0..width).map(|d| covariance[d * width + d]).sum();
        let broken = || Error::Numerical {
            what: "the principal components",
            sweep: 0,
            detail: "they were not found: look for extreme values, or scale the columns".into(),
        };
        let (vectors, values) = linalg::eigen(&covariance, width).ok_or_else(broken)?;
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        let spanned = order.iter().filter(|&&i| values[i] > NOTHING * values[order[0]]).count();
        if count > spanned {
            return Err(Error::setting("pca", count, format!("at most {spanned}: the columns vary in no more directions")));
        }
        let (mut loadings, mut variances) = (Vec::with_capacity(count * width), vec![]);
        for &i in &order[..count] {
            let mut own: Vec<f64> = (0..width).map(|d| vectors[d * width + i]).collect();
            let largest = own.iter().fold(0.0, |m: f64, v| if v.abs() > m.abs() { *v } else { m });
            if largest < 0.0 {
                own.iter_mut().for_each(|v| *v = -*v);
            }
            loadings.append(&mut own);
            variances.push(values[i]);
        }
        Ok(Self { mean: columns.mean.clone(), loadings, variances, total })
    }

    /// Number of coordinates.
    pub(crate) fn len(&self) -> usize {
        self.variances.len()
    }

    /// Columns of a row.
    pub(crate) fn width(&self) -> usize {
        self.mean.len()
    }

    /// Names of the coordinates.
    pub(crate) fn names(&self) -> Vec<String> {
        (1..=self.len()).map(|i| format!("pc{i}")).collect()
    }

    /// Loadings, one component after the other.
    pub(crate) fn loadings(&self) -> &[f64] {
        &self.loadings
    }

    /// Coordinates of a row.
    pub(crate) fn of_row(&self, row: &[f64], moved: &mut Vec<f64>, out: &mut [f64]) {
        moved.clear();
        moved.extend(row.iter().zip(&self.mean).map(|(x, m)| x - m));
        out.iter_mut().zip(self.loadings.chunks_exact(self.width())).for_each(|(y, w)| *y = dot(w, moved));
    }

    /// Coordinates of rows one after the other.
    pub(crate) fn of_rows(&self, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; x.len() / self.width() * self.len()];
        let mut moved = vec![];
        x.chunks_exact(self.width()).zip(out.chunks_exact_mut(self.len())).for_each(|(row, out)| self.of_row(row, &mut moved, out));
        out
    }

    /// The row nearest to the mean that has these coordinates.
    pub(crate) fn back(&self, coordinates: &[f64]) -> Vec<f64> {
        let mut row = self.mean.clone();
        for (y, w) in coordinates.iter().zip(self.loadings.chunks_exact(self.width())) {
            row.iter_mut().zip(w).for_each(|(x, w)| *x += y * w);
        }
        row
    }

    /// Refuses new rows with missing cells.
    pub(crate) fn check(&self, rows: &[f64], names: &[String]) -> Result<()> {
        match rows.iter().position(|x| x.is_nan()) {
            Some(at) => Err(refuse(at / self.width(), &names[at % self.width()])),
            None => Ok(()),
        }
    }
}

/// The message for a missing cell; `row` counts from 0.
fn refuse(row: usize, column: &str) -> Error {
    Error::Unfit(format!(
        "row {}, column `{column}`: the value is missing; principal components (`pca`) need all cells of a row, so fill it in, drop the row, or \
         leave `pca` out",
        row + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tree::components::Family;

    fn principal(x: &[f64], width: usize, count: usize) -> Result<Principal> {
        let names: Vec<String> = (0..width).map(|d| format!("x{d}")).collect();
        Principal::new(x, &Columns::of(Family::GaussianDiag, x, &names)?, count)
    }

    /// Rows with known components: along (3, 4)/5 and (-4, 3)/5, with variances 4 and 1, far from the origin.
    #[test]
    fn known_components() {
        let x: Vec<f64> = [(2.0, 1.0), (2.0, -1.0), (-2.0, 1.0), (-2.0, -1.0)]
            .iter()
            .flat_map(|(a, b)| [1e6 + 0.6 * a - 0.8 * b, 0.8 * a + 0.6 * b - 3.0])
            .collect();
        let found = principal(&x, 2, 2).unwrap();
        let near = |a: &[f64], b: &[f64], tolerance: f64| a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < tolerance, "{a} {b}"));
        near(&found.variances, &[4.0, 1.0], 1e-8);
        near(&[found.total], &[5.0], 1e-8);
        // the largest entry of each is positive
        near(&found.loadings, &[0.6, 0.8, 0.8, -0.6], 1e-8);
        near(&found.of_rows(&x), &[2.0, -1.0, 2.0, 1.0, -2.0, -1.0, -2.0, 1.0], 1e-8);
        // all components give the row back, the first one alone its shadow
        near(&found.back(&found.of_rows(&x[..2])), &x[..2], 1e-8);
        let first = principal(&x, 2, 1).unwrap();
        near(&first.back(&[2.0]), &[1e6 + 1.2, 1.6 - 3.0], 1e-8);
        assert_eq!(first.names(), ["pc1"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let said = |x: &[f64], width: usize, count: usize| principal(x, width, count).err().unwrap().to_string();
        let text = said(&[1.0, 2.0, f64::NAN, 4.0, 0.0, 1.0], 2, 1);
        assert!(text.contains("row 2") && text.contains("`x0`") && text.contains("leave `pca` out"), "{text}");
        assert!(said(&[1.0, 2.0, 3.0, 4.0], 2, 2).contains("at most 1"));
        // three rows on a line
        assert!(said(&[0.0, 0.0, 1.0, 2.0, 2.0, 4.0], 2, 2).contains("vary in no more directions"));
    }
}
