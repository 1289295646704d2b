//! Autocovariance of chains at every lag, by a fast Fourier transform in O(n log n).
//!
//! For a chain x of length n with mean x̄,   c_t = (1/n) Σ_{i < n−t} (x_i − x̄)(x_{i+t} − x̄).
//!
//! Zero-padded to twice its length, the power spectrum |F|² transforms back to n c_t. Only the average over chains is ever
//! needed, so spectra are added and transformed back once; and two chains share one transform as real and imaginary part
//! (the parts of |F|² that mix them are odd in frequency and vanish from the real part on the way back).

use super::chains::{Table, mean};

/// The autocovariance averaged over chains, for lags 0 to draws − 1.
pub(super) fn mean_autocovariance(table: &Table) -> Vec<f64> {
    let n = table.draws;
    let size = (2 * n).next_power_of_two();
    let twiddles = Twiddles::new(size);
    let mut power = vec![0.0; size];
    let (mut re, mut im) = (vec![0.0; size], vec![0.0; size]);
    for first in (0..table.chains).step_by(2) {
        re.fill(0.0);
        im.fill(0.0);
        centre_into(&mut re, table.chain(first));
        if first + 1 < table.chains {
            centre_into(&mut im, table.chain(first + 1));
        }
        transform(&mut re, &mut im, &twiddles);
        for k in 0..size {
            power[k] += re[k] * re[k] + im[k] * im[k];
        }
    }
    // The real part of the inverse and of the forward transform agree for a real input.
    im.fill(0.0);
    transform(&mut power, &mut im, &twiddles);
    power.truncate(n);
    let scale = size as f64 * n as f64 * table.chains as f64;
    power.iter_mut().for_each(|c| *c /= scale);
    power
}

fn centre_into(out: &mut [f64], chain: &[f64]) {
    let centre = mean(chain);
    for (out, value) in out.iter_mut().zip(chain) {
        *out = value - centre;
    }
}

/// exp(−2πi k / size) for k below size / 2.
struct Twiddles {
    cos: Vec<f64>,
    sin: Vec<f64>,
}

impl Twiddles {
    fn new(size: usize) -> Self {
        let angle = |k: usize| -2.0 * std::f64::consts::PI * k as f64 / size as f64;
        Self { cos: (0..size / 2).map(|k| angle(k).cos()).collect(), sin: (0..size / 2).map(|k| angle(k).sin()).collect() }
    }
}

/// Discrete Fourier transform in place; the length is a power of two, at least 2.
fn transform(re: &mut [f64], im: &mut [f64], twiddles: &Twiddles) {
    let size = re.len();
    let unused = usize::BITS - size.trailing_zeros();
    for i in 0..size {
        let j = i.reverse_bits() >> unused;
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    let mut half = 1;
    while half < size {
        let stride = size / (2 * half);
        for start in (0..size).step_by(2 * half) {
            for k in 0..half {
                let (c, s) = (twiddles.cos[k * stride], twiddles.sin[k * stride]);
                let (a, b) = (start + k, start + k + half);
                let (x, y) = (re[b] * c - im[b] * s, re[b] * s + im[b] * c);
                (re[b], im[b]) = (re[a] - x, im[a] - y);
                re[a] += x;
                im[a] += y;
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition() {
        for (chains, draws) in [(1, 1), (1, 2), (2, 2), (3, 7), (4, 64), (5, 100)] {
            let values: Vec<f64> = (0..chains * draws).map(|i| 3.0 + (1.7 * (i * i) as f64).sin()).collect();
            let table = Table { values, unit: 1.0, chains, draws };
            let fast = mean_autocovariance(&table);
            assert_eq!(fast.len(), draws);
            for lag in 0..draws {
                let slow: f64 = (0..chains)
                    .map(|c| {
                        let x = table.chain(c);
                        let m = mean(x);
                        (0..draws - lag).map(|i| (x[i] - m) * (x[i + lag] - m)).sum::<f64>() / draws as f64
                    })
                    .sum::<f64>()
                    / chains as f64;
                assert!((fast[lag] - slow).abs() < 1e-14, "{chains} x {draws}, lag {lag}: {} {slow}", fast[lag]);
            }
        }
    }
}
