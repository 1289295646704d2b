//! What the tests share: a model of few columns, draws from it, and batch means.

mod closed_forms;
mod kernels;
mod posteriors;

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::*;

/// A likelihood without centring, with these precisions given.
fn plain(columns: usize, sources: usize, fixed: Option<Scales>) -> Gaussian {
    let centre = Centre { columns, means: vec![0.0; (sources + 1) * columns], scale: 1.0, missing: false };
    Gaussian { centre, hyper: Hyper { shape: 4.0, rate: 4.0, fixed } }
}

fn scales(atom: f64, weight: &[f64], noise: &[f64]) -> Scales {
    Scales { atom, weight: weight.to_vec(), noise: noise.to_vec() }
}

fn philox(seed: u64) -> Philox {
    Philox::new([seed, 0], [0; 4])
}

fn dense(values: &[f64], columns: usize) -> X<'_> {
    X::Dense { rows: values.len() / columns, cols: columns, values }
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

/// Mean of a chain over what it should be, in standard errors from 50 batches.
fn z_of(chain: &[f64], expected: f64) -> f64 {
    let size = chain.len() / 50;
    let means: Vec<f64> = chain.chunks_exact(size).map(|c| c.iter().sum::<f64>() / size as f64).collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (n - 1.0);
    (mean - expected) / (variance / n).sqrt().max(1e-300)
}

/// One row, with the entries it has.
fn row<'a>(x: X<'a>, source: usize, filled: &'a [f64]) -> Row<'a> {
    Row { x, at: 0, source, filled }
}

/// The example of two atoms and three columns, its row, and the prior log odds of the atoms.
struct Example {
    model: Gaussian,
    view: View,
    x: [f64; 3],
    ln_odds: [f64; 2],
}

fn example() -> Example {
    let fixed = scales(1.0, &[1.0 / 1.5], &[2.0]);
    let model = plain(3, 1, Some(fixed.clone()));
    let view = model.view(&[1.0, 0.5, -1.0, 0.3, -2.0, 0.4], 2, &fixed);
    let ln_odds = [0.6_f64, 0.3].map(|p| (p / (1.0 - p)).ln());
    Example { model, view, x: [1.2, -0.7, -1.0], ln_odds }
}

impl Example {
    /// A scan of the row over both atoms.
    fn scan(&self, entries: &[Entry], power: f64, scratch: &mut Scratch, rng: &mut Philox) {
        let tempering = Tempering { power, ..Tempering::NONE };
        self.model.begin(&self.view, row(dense(&self.x, 3), 0, &[]), entries, tempering, scratch);
        for (k, odds) in self.ln_odds.iter().enumerate() {
            self.model.update(&self.view, k, *odds, scratch, rng).unwrap();
        }
    }
}
