//! Document completion: half of a row's counts is shown, and the other half is to be predicted.
//!
//! Each count x is split into what is seen, Binomial(x, ½), and what is held back, the rest. If counts are Poisson given their rates,
//! both halves are independent Poisson counts with half the rates, so nothing of the held part is known but through the row's hidden
//! coordinates. The score is the perplexity of the held part, exp(−Σ x ln p / Σ x) with p the predicted distribution over columns: a
//! figure that any model of bags of counts can be given, whatever its own likelihood is.

use rand_distr::{Binomial, Distribution};

use crate::answer::Posterior;
use crate::data::{Dataset, Matrix, Needs};
use crate::run::{Purpose, Stream};
use crate::{Error, Result};

/// Share of each row that is shown.
pub const SEEN: f64 = 0.5;
/// Predicted probabilities that are held in memory at a time.
const MOST: usize = 1 << 21;

/// How well the held halves of some rows were predicted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// Counts that were held back, of each row.
    pub held: Vec<f64>,
    /// Their log probability: Σ x ln p over the columns, of each row.
    pub ln_probability: Vec<f64>,
}

impl Completion {
    /// Counts that were held back, in all.
    pub fn words(&self) -> f64 {
        self.held.iter().sum()
    }

    /// Perplexity over all rows; NaN where nothing was held back.
    pub fn perplexity(&self) -> f64 {
        self.perplexity_of(0..self.held.len())
    }

    /// Perplexity over these rows together.
    pub fn perplexity_of(&self, rows: impl IntoIterator<Item = usize>) -> f64 {
        let (held, ln) = rows.into_iter().fold((0.0, 0.0), |(held, ln), i| (held + self.held[i], ln + self.ln_probability[i]));
        (-ln / held).exp()
    }

    /// Perplexity of each row; NaN where nothing of it was held back.
    pub fn per_row(&self) -> Vec<f64> {
        (0..self.held.len()).map(|i| self.perplexity_of([i])).collect()
    }
}

/// Shows each row's seen half to the posterior and scores what it predicts of the rest. Rows are taken a few at a time, so that the
/// probabilities of all columns never lie in memory for many rows.
pub fn completion(posterior: &dyn Posterior, data: &Dataset<'_>, seed: u64) -> Result<Completion> {
    data.x.check_structure()?;
    data.check_features(Needs { counts: true, ..Needs::FEATURES })?;
    let (rows, cols) = (data.rows(), data.x.cols());
    let panel = (MOST / cols.max(1)).max(1);
    let mut all = Completion { held: Vec::with_capacity(rows), ln_probability: Vec::with_capacity(rows) };
    for first in (0..rows).step_by(panel) {
        let chosen: Vec<usize> = (first..rows.min(first + panel)).collect();
        let (seen, held) = halves(data, &chosen, seed)?;
        let predicted = posterior.complete(&seen, SEEN)?;
        if predicted.len() != chosen.len() * cols {
            return Err(Error::Unfit(format!("`{}` did not predict every column of every row", posterior.family())));
        }
        for (row, p) in held.iter().zip(predicted.chunks_exact(cols.max(1))) {
            all.held.push(row.iter().map(|(_, x)| x).sum());
            all.ln_probability.push(row.iter().map(|&(j, x)| x * p[j].ln()).sum());
        }
    }
    Ok(all)
}

/// The seen halves of the chosen rows, and columns and counts of what is held back of each.
///
/// The stream of a row is named by the seed and by the row's number in the data, never by what it holds: the same seed splits the same
/// file in the same way for every model, and a zero takes no random number, so that dense and sparse rows are split alike.
fn halves(data: &Dataset<'_>, chosen: &[usize], seed: u64) -> Result<(Dataset<'static>, Vec<Vec<(usize, f64)>>)> {
    let x = data.x.view();
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut held = Vec::with_capacity(chosen.len());
    for &i in chosen {
        let mut rng = Stream::new(seed, 0, Purpose::Score).item(i as u64).rng();
        let (mut rest, mut failed) = (Vec::new(), None);
        x.for_row(i, |j, v| {
            if v == 0.0 {
                return;
            }
            match Binomial::new(v as u64, SEEN) {
                Ok(distribution) => {
                    let seen = distribution.sample(&mut rng) as f64;
                    if seen > 0.0 {
                        indices.push(j as u32);
                        values.push(seen);
                    }
                    if seen < v {
                        rest.push((j, v - seen));
                    }
                }
                Err(e) => failed = Some(e),
            }
        });
        if let Some(e) = failed {
            return Err(Error::Unfit(format!("row {} cannot be split into halves: {e}", i + 1)));
        }
        indptr.push(indices.len());
        held.push(rest);
    }
    let sparse =
        Matrix::Csr { rows: chosen.len(), cols: data.x.cols(), indptr: indptr.into(), indices: indices.into(), values: values.into() };
    let x = if data.x.is_sparse() { sparse } else { Matrix::dense(chosen.len(), data.x.cols(), sparse.to_dense()) };
    let mut seen = Dataset { columns: data.columns.clone(), ..Dataset::new(x) };
    seen.sources = data.sources.as_ref().map(|s| s.take(chosen));
    Ok((seen, held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Answers, CompleteRows, NamedArray, Origin, Summary};
    use crate::data::Classes;

    /// Predicts what it has seen, with one more of everything.
    struct Parrot {
        width: usize,
    }

    impl CompleteRows for Parrot {
        fn complete(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>> {
            assert_eq!(exposure, SEEN);
            let mut p: Vec<f64> = data.x.to_dense().iter().map(|x| x + 1.0).collect();
            for row in p.chunks_exact_mut(self.width) {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|v| *v /= sum);
            }
            Ok(p)
        }
    }

    impl Posterior for Parrot {
        fn origin(&self) -> Origin<'_> {
            Origin { family: "parrot", columns: &[], width: self.width, sources: &[] }
        }
        fn answers(&self) -> Answers<'_> {
            Answers { completion: Some(self), ..Answers::default() }
        }
        fn summary(&self) -> Summary {
            Summary::default()
        }
        fn arrays(&self) -> Vec<NamedArray> {
            Vec::new()
        }
        fn save(&self) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }
    }

    fn sparse(x: &Matrix<'_>) -> Matrix<'static> {
        let (rows, cols) = (x.rows(), x.cols());
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for (at, &v) in x.to_dense().iter().enumerate() {
            if v != 0.0 {
                indices.push((at % cols) as u32);
                values.push(v);
            }
            if at % cols == cols - 1 {
                indptr.push(indices.len());
            }
        }
        Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    #[test]
    fn perplexity_by_hand() {
        // 3 words of probability 1/2 and 1 of 1/8; 2 words of probability 1/4; nothing
        let ln2 = std::f64::consts::LN_2;
        let c = Completion { held: vec![4.0, 2.0, 0.0], ln_probability: vec![-6.0 * ln2, -4.0 * ln2, 0.0] };
        assert!((c.perplexity() - 2f64.powf(10.0 / 6.0)).abs() < 1e-12);
        let rows = c.per_row();
        assert!((rows[0] - 2f64.powf(1.5)).abs() < 1e-12 && (rows[1] - 4.0).abs() < 1e-12 && rows[2].is_nan());
        assert!((c.perplexity_of([1, 2]) - 4.0).abs() < 1e-12);
        assert_eq!(c.words(), 6.0);
    }

    #[test]
    fn halves_are_whole_and_the_same_dense_and_sparse() {
        let x = Matrix::dense(3, 4, vec![1.0, 0.0, 7.0, 40.0, 0.0, 0.0, 0.0, 0.0, 1e6, 2.0, 0.0, 3.0]);
        let mut data = Dataset::new(x.clone());
        data.sources = Some(Classes::encode(["a", "b", "a"]));
        let (seen, held) = halves(&data, &[0, 1, 2], 5).unwrap();
        let mut sum = seen.x.to_dense();
        for (i, row) in held.iter().enumerate() {
            row.iter().for_each(|&(j, v)| sum[i * 4 + j] += v);
        }
        assert_eq!(sum, x.to_dense());
        assert_eq!(seen.sources, data.sources);
        let other = Dataset { x: sparse(&x), ..data.clone() };
        let (again, rest) = halves(&other, &[0, 1, 2], 5).unwrap();
        assert!(again.x.is_sparse());
        assert_eq!((again.x.to_dense(), rest), (seen.x.to_dense(), held.clone()));
        // a row is split by its number in the data
        let (alone, rest) = halves(&data, &[2], 5).unwrap();
        assert_eq!((alone.x.to_dense(), &rest[0]), (seen.x.to_dense()[8..].to_vec(), &held[2]));
        assert_ne!(halves(&data, &[0, 2], 6).unwrap().1, [held[0].clone(), held[2].clone()]);
    }

    /// Half of many single words is seen: within four standard errors of ½.
    #[test]
    fn halves_are_fair() {
        let data = Dataset::new(Matrix::dense(4000, 2, vec![1.0; 8000]));
        let (seen, _) = halves(&data, &(0..4000).collect::<Vec<_>>(), 1).unwrap();
        let share = seen.x.to_dense().iter().sum::<f64>() / 8000.0;
        assert!((share - 0.5).abs() < 4.0 * (0.25f64 / 8000.0).sqrt(), "{share}");
    }

    /// More columns than a panel holds for two rows: panels of one row, and the same figures as from the halves themselves.
    #[test]
    fn panels_do_not_matter() {
        let cols = MOST / 2 + 1;
        let indices = vec![0, 5, 7, 9, 100, 3].into();
        let values = vec![3.0, 10.0, 2.0, 8.0, 1.0, 6.0].into();
        let data = Dataset::new(Matrix::Csr { rows: 3, cols, indptr: vec![0, 2, 5, 6].into(), indices, values });
        let found = completion(&Parrot { width: cols }, &data, 3).unwrap();
        let (seen, held) = halves(&data, &[0, 1, 2], 3).unwrap();
        for i in 0..3 {
            let (columns, counts) = seen.x.view().sparse_row(i);
            let total = counts.iter().sum::<f64>() + cols as f64;
            let at = |j: usize| columns.iter().position(|&c| c as usize == j).map_or(0.0, |k| counts[k]);
            let expected: f64 = held[i].iter().map(|&(j, x)| x * ((at(j) + 1.0) / total).ln()).sum();
            assert!((found.ln_probability[i] - expected).abs() < 1e-9);
        }
        assert_eq!(found, completion(&Parrot { width: cols }, &data, 3).unwrap());
    }

    #[test]
    fn only_counts_can_be_split() {
        let with = |v| completion(&Parrot { width: 1 }, &Dataset::new(Matrix::dense(1, 1, vec![v])), 1);
        assert!(with(0.5).unwrap_err().to_string().contains("not a whole number"));
        assert!(with(-1.0).unwrap_err().to_string().contains("negative"));
        assert!(with(f64::NAN).is_err());
        assert!(with(0.0).unwrap().perplexity().is_nan());
    }

    #[test]
    fn a_posterior_says_what_it_lacks_and_what_it_has() {
        let posterior: &dyn Posterior = &Parrot { width: 1 };
        let data = Dataset::new(Matrix::dense(1, 1, vec![2.0]));
        let said = posterior.transform(&data).unwrap_err().to_string();
        assert_eq!(said, "this fit of `parrot` cannot transform rows to coordinates; it can complete rows");
        assert!(posterior.held_out(&data, &Default::default()).is_err() && posterior.retrieve(&data, &data, 1).is_err());
        assert!(posterior.predict(&data, "").unwrap_err().to_string().contains("predict classes"));
        assert!(posterior.methods().is_empty() && posterior.sources().is_empty() && !posterior.predicts());
    }
}
