//! A model as a distribution that can be drawn from: unknowns from the prior, then data given them.
//!
//! It is written once a model. `simulate` draws from it at any size, the checks at a tiny one.

use rand_distr::{Distribution, StandardNormal};
use std::ops::RangeInclusive;

use crate::Result;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::run::{Philox, Stream};

/// The joint distribution p(unknowns) p(data | unknowns) of a model.
pub trait Generative: Send + Sync {
    /// Parameters, and the latents that a sampler keeps from sweep to sweep.
    type Unknowns: Send;
    /// What data are drawn given, beside the unknowns: features of rows, or nothing for a model of the rows themselves.
    type Given;

    /// A draw from the prior.
    fn prior(&self, rng: &mut Philox) -> Result<Self::Unknowns>;

    /// Data given the unknowns.
    fn data(&self, unknowns: &Self::Unknowns, given: &Self::Given, rng: &mut Philox) -> Result<Dataset<'static>>;
}

/// Standard normal features.
pub fn normal_features(rows: usize, columns: usize, rng: &mut Philox) -> Matrix<'static> {
    Matrix::dense(rows, columns, (0..rows * columns).map(|_| StandardNormal.sample(rng)).collect::<Vec<f64>>())
}

/// Draws at the streams of these numbers until a draw is complete (a class without rows could not be fitted); the last draw, and whether it
/// is. None if there are no numbers.
pub fn draw_until<T>(
    stream: Stream,
    attempts: RangeInclusive<u64>,
    mut draw: impl FnMut(&mut Philox) -> Result<T>,
    complete: impl Fn(&T) -> bool,
) -> Result<Option<(T, bool)>> {
    let mut last = None;
    for attempt in attempts {
        let drawn = draw(&mut stream.item(attempt).rng())?;
        let enough = complete(&drawn);
        last = Some((drawn, enough));
        if enough {
            break;
        }
    }
    Ok(last)
}

/// So many trials at each of a few points. Data have one row a trial; a sampler gets them gathered, one row for each point and class with the
/// number of trials as its weight, so that whole weights are checked too, zero among them.
#[derive(Debug, Clone, Copy)]
pub struct Trials<'a>(pub &'a [usize]);

impl Trials<'_> {
    /// Standard normal points, each as often as it has trials.
    pub fn features(self, columns: usize, rng: &mut Philox) -> Matrix<'static> {
        let points = normal_features(self.0.len(), columns, rng);
        let rows: Vec<usize> = self.0.iter().enumerate().flat_map(|(i, &trials)| std::iter::repeat_n(i, trials)).collect();
        points.take(&rows)
    }

    /// The rows of each point gathered by class. Data without classes stay as they are.
    pub fn gather(self, data: Dataset<'static>) -> Dataset<'static> {
        let Target::Classes(Classes { codes, names }) = &data.target else { return data };
        let (mut rows, mut gathered, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        for &trials in self.0 {
            for class in 0..names.len() as u32 {
                rows.push(first);
                gathered.push(class);
                weights.push(codes[first..first + trials].iter().filter(|c| **c == class).count() as f64);
            }
            first += trials;
        }
        let target = Target::Classes(Classes { codes: gathered, names: names.clone() });
        Dataset { x: data.x.take(&rows), target, weights: Some(weights), ..data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Purpose;

    #[test]
    fn trials_are_gathered_by_point_and_class() {
        let trials = Trials(&[2, 3]);
        let x = trials.features(1, &mut Stream::new(1, 0, Purpose::Check).rng());
        let values = x.to_dense();
        let (first, second) = (values[0], values[2]);
        assert!(first != second && values == [first, first, second, second, second]);
        let names = vec!["a".to_string(), "b".to_string()];
        let data = Dataset::new(x.clone()).with_target(Target::Classes(Classes { codes: vec![1, 1, 0, 1, 1], names }));
        let gathered = trials.gather(data);
        assert_eq!(gathered.weights, Some(vec![0.0, 2.0, 1.0, 2.0]));
        assert_eq!(gathered.x.to_dense(), [first, first, second, second]);
        assert!(matches!(&gathered.target, Target::Classes(c) if c.codes == [0, 1, 0, 1]));
        let plain = Dataset::new(x);
        assert_eq!(trials.gather(plain.clone()), plain);
    }

    #[test]
    fn the_first_complete_draw_ends_the_search() {
        let stream = Stream::new(1, 0, Purpose::Check);
        let counted = |attempts, enough| {
            let mut made = 0;
            let draw = |_: &mut Philox| {
                made += 1;
                Ok(made)
            };
            draw_until(stream, attempts, draw, |n| *n == enough).unwrap()
        };
        assert_eq!(counted(1..=9, 4), Some((4, true)));
        assert_eq!(counted(0..=2, 4), Some((3, false)));
        assert_eq!(counted(RangeInclusive::new(1, 0), 4), None);
    }
}
