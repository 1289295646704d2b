//! Draws a second of the von Mises-Fisher distribution on one thread.

use anyhow::Result;
use serde_json::{Value, json};
use std::hint::black_box;
use variegate::dist::VonMisesFisher;
use variegate::run::{Purpose, Stream};

use crate::Options;
use crate::clock::{figures, least, seconds};

pub fn run(options: &Options) -> Result<Value> {
    let (dimension, kappa) = (options.get("dimension", 3usize)?, options.get("kappa", 10.0)?);
    let (draws, repeats) = (options.get("draws", 20_000usize)?, options.get("repeats", 5u64)?);
    // the same mean direction as the peer's: all coordinates equal
    let distribution = VonMisesFisher::new(&vec![1.0; dimension], kappa)?;
    let mut out = vec![0.0; draws * dimension];
    let times: Vec<f64> = (0..repeats)
        .map(|r| {
            let mut rng = Stream::new(1, 0, Purpose::Simulate).sweep(r).rng();
            seconds(|| {
                distribution.sample_many(&mut rng, &mut out);
                black_box(&out);
            })
        })
        .collect();
    let cosine = out.iter().sum::<f64>() / (draws as f64 * (dimension as f64).sqrt());
    Ok(json!({
        "benchmark": "von-mises-fisher",
        "dimension": dimension,
        "kappa": kappa,
        "draws": draws,
        "mean_cosine": cosine,
        "seconds": figures(&times),
        "draws_per_second": draws as f64 / least(&times),
    }))
}
