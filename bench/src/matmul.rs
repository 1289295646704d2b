//! The matrix-product rate of this machine: square products on one thread, as the library does them.

use anyhow::Result;
use serde_json::{Value, json};
use variegate::linalg;

use crate::Options;
use crate::clock::{figures, least, seconds};

/// One square product that can be repeated.
pub struct Square {
    size: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    out: Vec<f64>,
}

impl Square {
    /// Two matrices of this size.
    pub fn new(size: usize) -> Self {
        let fill = |seed: usize| (0..size * size).map(|i| ((i * 2_654_435_761 + seed) % 1000) as f64 / 500.0 - 1.0).collect();
        Self { size, a: fill(1), b: fill(2), out: vec![0.0; size * size] }
    }

    /// Floating-point operations of one product.
    pub fn operations(&self) -> f64 {
        2.0 * (self.size as f64).powi(3)
    }

    /// Seconds of one product.
    pub fn time(&mut self) -> f64 {
        let n = self.size;
        seconds(|| linalg::mul(&self.a, &self.b, &mut self.out, n, n, n, false))
    }
}

pub fn run(options: &Options) -> Result<Value> {
    let mut square = Square::new(options.get("size", 1536)?);
    square.time();
    let times: Vec<f64> = (0..options.get("repeats", 5)?).map(|_| square.time()).collect();
    Ok(json!({
        "benchmark": "matmul",
        "size": square.size,
        "seconds": figures(&times),
        "gflops": square.operations() / least(&times) / 1e9,
    }))
}
