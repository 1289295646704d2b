//! Draws a second of PG(1, c) on one thread.

use anyhow::Result;
use serde_json::{Value, json};
use std::hint::black_box;
use variegate::dist::PolyaGamma;
use variegate::run::{Purpose, Stream};

use crate::Options;
use crate::clock::{figures, least, seconds};

pub fn run(options: &Options) -> Result<Value> {
    let (draws, repeats) = (options.get("draws", 200_000usize)?, options.get("repeats", 10u64)?);
    let word = options.word("c", "1");
    // the mix is what a logistic regression asks for: linear predictors of either sign, most of them moderate
    let tilts: Vec<f64> = if word == "mix" {
        (0..draws).map(|i| 6.0 * ((i * 7919 % draws) as f64 / draws as f64 * 2.0 - 1.0)).collect()
    } else {
        vec![word.parse()?; draws]
    };
    let mut out = vec![0.0; draws];
    let times: Vec<f64> = (0..repeats)
        .map(|r| {
            let mut rng = Stream::new(1, 0, Purpose::Simulate).sweep(r).rng();
            seconds(|| {
                for (o, &c) in out.iter_mut().zip(&tilts) {
                    *o = PolyaGamma::draw_1(c, &mut rng);
                }
                black_box(&out);
            })
        })
        .collect();
    Ok(json!({
        "benchmark": "polya-gamma",
        "c": word,
        "draws": draws,
        "mean": out.iter().sum::<f64>() / draws as f64,
        "seconds": figures(&times),
        "draws_per_second": draws as f64 / least(&times),
    }))
}
