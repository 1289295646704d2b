//! A model of one weight, whose average is known: p = σ(w) for a row of one, with draws of w that are independent or that cling together.

use super::*;
use crate::data::Matrix;
use crate::special::sigmoid;

struct Plain {
    design: Design,
    weights: Vec<f64>,
}

impl Plain {
    fn new(weights: Vec<f64>) -> Self {
        Self { design: Design::identity(1, false), weights }
    }
}

impl DrawScores for Plain {
    fn design(&self) -> &Design {
        &self.design
    }

    fn draws(&self) -> usize {
        self.weights.len()
    }

    fn scores(&self) -> usize {
        1
    }

    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]> {
        chosen(&self.weights, 1, draws)
    }
}

impl ClassDraws for Plain {
    type Work = ();

    fn classes(&self) -> usize {
        2
    }

    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], (): &mut ()) {
        out.chunks_exact_mut(2).zip(scores).for_each(|(p, s)| (p[0], p[1]) = (sigmoid(-*s), sigmoid(*s)));
    }

    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], (): &mut ()) {
        let sign = if class == 1 { 1.0 } else { -1.0 };
        out.iter_mut().zip(scores).for_each(|(o, s)| *o = sigmoid(sign * *s).ln());
    }
}

/// An autoregression of standard normal margins.
fn walk(len: usize, clinging: f64, seed: u64) -> Vec<f64> {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Distribution, StandardNormal};
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut w: f64 = StandardNormal.sample(&mut rng);
    (0..len)
        .map(|_| {
            let e: f64 = StandardNormal.sample(&mut rng);
            w = clinging * w + (1.0 - clinging * clinging).sqrt() * e;
            w
        })
        .collect()
}

fn rows(x: Vec<f64>) -> Dataset<'static> {
    Dataset::new(Matrix::dense(x.len(), 1, x))
}

fn ask(draws: PredictDraws) -> Predict<'static> {
    Predict { draws, ..Predict::default() }
}

/// Rows of small spread take the first round, those of large spread all draws; all of them come as near to the average as they should.
#[test]
fn rows_take_as_many_draws_as_they_need() {
    let data = rows((0..150).map(|i| 0.02 * f64::from(i)).collect());
    for clinging in [0.0, 0.95] {
        let model = Plain::new(walk(16_000, clinging, 3));
        let exact = average(&model, &data, &ask(PredictDraws::All)).unwrap();
        let enough = average(&model, &data, &ask(PredictDraws::Enough)).unwrap();
        let error: Vec<f64> = exact.probability.iter().zip(&enough.probability).map(|(a, b)| (a - b).abs()).collect();
        // 150 rows of one stream of draws: the largest of their errors beyond three standard errors of 0.005 is a fault
        assert!(error.iter().all(|e| *e < 0.015), "{clinging} {:?}", error.iter().fold(0.0f64, |a, b| a.max(*b)));
        assert!(error.iter().any(|e| *e > 0.0), "no draw was left out");
        let few: Vec<usize> = PredictDraws::Enough.rounds(16_000)[0].clone();
        let of_few = |row: usize| few.iter().map(|d| sigmoid(model.weights[*d] * 0.02 * row as f64)).sum::<f64>() / few.len() as f64;
        assert!((enough.probability[2 * 3 + 1] - of_few(3)).abs() < 1e-12);
        assert!((enough.probability[2 * 149 + 1] - of_few(149)).abs() > 1e-5);
    }
}

/// The estimated error is that of means of independent and of clinging draws: autocorrelation a multiplies the variance by (1 + a)/(1 − a).
#[test]
fn batches_see_what_draws_have_in_common() {
    for (clinging, factor) in [(0.0, 1.0f64), (0.9, 19.0)] {
        let w = walk(64_000, clinging, 5);
        let counts = [2000.0; BATCHES];
        let mean = w.iter().sum::<f64>() / 64_000.0;
        let error = batch_error(&counts, |b| w[b * 2000..(b + 1) * 2000].iter().sum(), mean);
        // the estimate from 32 batches has a relative standard error of 1/√62
        let z = (error / (factor / 64_000.0).sqrt() - 1.0) * 62f64.sqrt();
        assert!(z.abs() < 4.0, "{clinging}: {z}");
    }
}

#[test]
fn numbers_of_draws_and_intervals_are_those_of_the_draws() {
    let model = Plain::new(walk(1000, 0.3, 7));
    let data = rows(vec![1.0, -2.0, 0.0]);
    let p = |draws: &[usize], x: f64| -> Vec<f64> { draws.iter().map(|d| sigmoid(model.weights[*d] * x)).collect() };
    for (number, draws) in [(70, PredictDraws::Number(70).rounds(1000).concat()), (5000, (0..1000).collect())] {
        let how = Predict { level: Some(0.8), ..ask(PredictDraws::Number(number)) };
        let found = average(&model, &data, &how).unwrap();
        let interval = found.interval.unwrap();
        for (row, x) in [1.0, -2.0, 0.0].into_iter().enumerate() {
            let mut all = p(&draws, x);
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let sd = (all.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
            all.sort_by(f64::total_cmp);
            assert!((found.probability[2 * row + 1] - mean).abs() < 1e-12);
            assert!((found.deviation.as_ref().unwrap()[2 * row] - sd).abs() < 1e-12);
            assert!((interval.lower[2 * row + 1] - sorted_quantile(&all, 0.1)).abs() < 1e-12);
            assert!((interval.upper[2 * row + 1] - sorted_quantile(&all, 0.9)).abs() < 1e-12);
            // of two classes the ends change places
            assert!((interval.lower[2 * row] + interval.upper[2 * row + 1] - 1.0).abs() < 1e-12);
        }
        let plain = average(&model, &data, &ask(PredictDraws::Number(number))).unwrap();
        assert!(plain.probability.iter().zip(&found.probability).all(|(a, b)| (a - b).abs() < 1e-12));
    }
    assert!(average(&model, &data, &ask(PredictDraws::Number(0))).is_err());
    let wrong = Predict { level: Some(1.0), ..Predict::default() };
    assert!(average(&model, &data, &wrong).unwrap_err().to_string().contains("`level` is 1"));
}

/// Any threads, any company, any order: the same bits; and log likelihoods lie draw by draw.
#[test]
fn a_row_has_the_same_bits_in_any_company() {
    let model = Plain::new(walk(3000, 0.5, 9));
    let data = rows((0..200).map(|i| (1.7 * f64::from(i)).sin()).collect());
    for how in [ask(PredictDraws::Enough), ask(PredictDraws::All), Predict { level: Some(0.9), ..Predict::default() }] {
        let all = average(&model, &data, &how).unwrap();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| average(&model, &data, &how)).unwrap(), all);
        }
        for order in [vec![130], (0..200).rev().collect::<Vec<usize>>(), (60..70).collect()] {
            let some = average(&model, &data.subset(&order), &how).unwrap();
            for (at, i) in order.iter().enumerate() {
                assert_eq!(some.probability[2 * at..2 * at + 2], all.probability[2 * i..2 * i + 2]);
                let end = |p: &ClassProbabilities, at: usize| p.interval.as_ref().map(|b| (b.lower[2 * at], b.upper[2 * at]));
                assert_eq!(end(&some, at), end(&all, *i));
            }
        }
    }
    let classes: Vec<u32> = (0..200).map(|i| i % 2).collect();
    let ln = ln_likelihoods(&model, &data, &classes);
    for (draw, row) in [(0, 0), (7, 199), (2999, 64), (1024, 63)] {
        let sign = if classes[row] == 1 { 1.0 } else { -1.0 };
        let expected = sigmoid(sign * model.weights[draw] * (1.7 * row as f64).sin()).ln();
        assert!((ln[draw * 200 + row] - expected).abs() < 1e-12, "{draw} {row}");
    }
}
