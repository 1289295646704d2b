//! How far rows are from what a model builds of them.

use rand::seq::SliceRandom;

use crate::Result;
use crate::answer::Posterior;
use crate::data::{Dataset, Matrix};
use crate::linalg::eigen;
use crate::run::{Purpose, Stream};

/// Rows whose halves are filled in together.
const TOGETHER: usize = 256;
/// With more columns (or rows, whichever are fewer) principal components take too long.
const MOST_COMPONENTS_OF: usize = 1500;

/// Mean squared errors, of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct RebuildErrors {
    /// Entries of a row.
    pub columns: usize,
    /// Of rows rebuilt from themselves, on average over the posterior. It falls with every feature more.
    pub reconstruction: f64,
    /// Of rows rebuilt from their likeliest codes.
    pub likeliest: f64,
    /// Of a random half of the entries of each row, predicted from the other half.
    pub half: f64,
    /// Of the column means of these rows.
    pub means: f64,
    /// Of as many principal components of these rows as there are coordinates; none where that takes too long.
    pub components: Option<f64>,
}

/// How far rows are from what a model builds of them, and from what simpler things would say of them. `seed` chooses the halves.
pub fn rebuild_errors(posterior: &dyn Posterior, data: &Dataset<'_>, seed: u64) -> Result<RebuildErrors> {
    let (n, width) = (data.rows(), data.x.cols());
    let rebuilt = posterior.reconstruct(data)?;
    let truth = data.x.to_dense();
    let error = |found: &[f64]| {
        let (mut sum, mut count) = (0.0, 0.0);
        for (x, m) in truth.iter().zip(found).filter(|(x, _)| !x.is_nan()) {
            sum += (x - m) * (x - m);
            count += 1.0;
        }
        sum / count
    };
    let (mut half, mut hidden) = (0.0, 0.0);
    for first in (0..n).step_by(TOGETHER) {
        let rows = TOGETHER.min(n - first);
        let mut values = truth[first * width..][..rows * width].to_vec();
        let mut places = Vec::new();
        for i in 0..rows {
            let mut order: Vec<usize> = (0..width).filter(|&j| !values[i * width + j].is_nan()).collect();
            order.shuffle(&mut Stream::new(seed, 0, Purpose::Score).item((first + i) as u64).rng());
            places.extend(order[..order.len() / 2].iter().map(|&j| i * width + j));
        }
        places.iter().for_each(|&at| values[at] = f64::NAN);
        let mut part = Dataset::new(Matrix::dense(rows, width, values));
        part.columns.clone_from(&data.columns);
        let filled = posterior.impute(&part)?.values;
        for &at in &places {
            half += (filled[at] - truth[first * width + at]).powi(2);
            hidden += 1.0;
        }
    }
    let means: Vec<f64> = (0..width)
        .map(|j| {
            let seen: Vec<f64> = truth.iter().skip(j).step_by(width).copied().filter(|v| !v.is_nan()).collect();
            seen.iter().sum::<f64>() / seen.len().max(1) as f64
        })
        .collect();
    let count = posterior.transform(&data.subset(&[]))?.names.len();
    Ok(RebuildErrors {
        columns: width,
        reconstruction: error(&rebuilt.mean),
        likeliest: error(&rebuilt.likeliest),
        half: half / hidden,
        means: error(&(0..n).flat_map(|_| means.iter().copied()).collect::<Vec<_>>()),
        components: left_by_components(&truth, &means, count),
    })
}

/// Mean squared error of so many principal components of these rows; none where it takes too long, or entries are missing.
fn left_by_components(values: &[f64], means: &[f64], count: usize) -> Option<f64> {
    let width = means.len();
    let n = values.len() / width.max(1);
    let size = n.min(width);
    if size == 0 || size > MOST_COMPONENTS_OF || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let centred: Vec<f64> = values.iter().enumerate().map(|(at, v)| v - means[at % width]).collect();
    let mut gram = vec![0.0; size * size];
    if n <= width {
        crate::linalg::mul_t(&centred, &centred, &mut gram, n, width, n, false);
    } else {
        crate::linalg::t_mul(&centred, &centred, &mut gram, n, width, width, false);
    }
    let mut found = eigen(&gram, size)?.1;
    found.sort_by(f64::total_cmp);
    Some(found[..size.saturating_sub(count)].iter().map(|v| v.max(0.0)).sum::<f64>() / (n * width) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of rank one around a mean: one component leaves nothing, none leaves the variance.
    #[test]
    fn principal_components_leave_what_they_do_not_span() {
        for (n, width) in [(5, 3), (3, 7)] {
            let values: Vec<f64> = (0..n * width).map(|at| 2.0 + ((at / width) as f64 - 1.0) * ((at % width) as f64 + 0.5)).collect();
            let mean = |j: usize| values.iter().skip(j).step_by(width).sum::<f64>() / n as f64;
            let means: Vec<f64> = (0..width).map(mean).collect();
            let variance = values.iter().enumerate().map(|(at, v)| (v - means[at % width]).powi(2)).sum::<f64>() / (n * width) as f64;
            assert!((left_by_components(&values, &means, 0).unwrap() - variance).abs() < 1e-12 * variance);
            assert!(left_by_components(&values, &means, 1).unwrap() < 1e-12 * variance);
            assert_eq!(left_by_components(&values, &means, 9), Some(0.0));
        }
        assert_eq!(left_by_components(&[f64::NAN, 1.0], &[1.0], 1), None);
    }
}
