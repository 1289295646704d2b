//! Times one part of variegate and prints the figures as one JSON object. `run.py` calls it, in turns with the peers.
//!
//! Usage: `variegate-bench NAME [key=value]...`, for example `variegate-bench polya-gamma c=4 draws=200000 repeats=10`.

mod clock;
mod experts;
mod experts_vb;
mod factors;
mod features;
mod labels;
mod logistic;
mod matmul;
mod polya_gamma;
mod predict;
mod softmax;
mod structures;
mod tree;
mod von_mises_fisher;
mod workers;

use anyhow::{Context, Result, bail};
use std::collections::HashMap;

/// The `key=value` words of the command line.
pub struct Options(HashMap<String, String>);

impl Options {
    /// The value of a key, or a default.
    pub fn get<T: std::str::FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.0.get(key) {
            None => Ok(default),
            Some(text) => text.parse().ok().with_context(|| format!("`{key}={text}` cannot be read")),
        }
    }

    /// The word of a key, or a default.
    pub fn word<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.0.get(key).map_or(default, String::as_str)
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let mut options = HashMap::new();
    for word in words {
        let (key, value) = word.split_once('=').with_context(|| format!("`{word}` is not key=value"))?;
        options.insert(key.to_string(), value.to_string());
    }
    let options = Options(options);
    let figures = match name.as_str() {
        "matmul" => matmul::run(&options)?,
        "polya-gamma" => polya_gamma::run(&options)?,
        "von-mises-fisher" => von_mises_fisher::run(&options)?,
        "logistic" => logistic::run(&options)?,
        "softmax" => softmax::run(&options)?,
        "structures" => structures::run(&options)?,
        "tree" => tree::run(&options)?,
        "experts" => experts::run(&options)?,
        "factors" => factors::run(&options)?,
        "features" => features::run(&options)?,
        "labels" => labels::run(&options)?,
        "predict" => predict::run(&options)?,
        "workers" => workers::run(&options)?,
        _ => {
            bail!(
                "there is no benchmark `{name}`; choose matmul, polya-gamma, von-mises-fisher, logistic, softmax, structures, tree, experts, factors, features, labels, predict or workers"
            )
        }
    };
    println!("{figures}");
    Ok(())
}
