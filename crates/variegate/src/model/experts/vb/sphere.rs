//! The direction of a component: the maximum of b·a − ½ aᵀMa over unit vectors, in a Krylov space around the present one.
//!
//! The space is that of a and of g, Mg, M²g, …, g = b − Ma the gradient: it holds a, so that no step goes down, and a dozen of products
//! with M find what a minoriser with the largest eigenvalue of M would need hundreds of steps for. Within it the problem is solved exactly:
//! (D + ν)y = b in the eigenvectors of M, with ν ≥ −min D such that |y| = 1.

use crate::linalg::eights::dot;
use crate::linalg::wide;

/// Scales to unit length; gives back the length before, and leaves zero as it is.
pub(super) fn normalise(v: &mut [f64]) -> f64 {
    let length = dot(v, v).sqrt();
    if length > 0.0 && length.is_finite() {
        v.iter_mut().for_each(|v| *v /= length);
    }
    length
}

/// out += c v.
pub(super) fn add(out: &mut [f64], c: f64, v: &[f64]) {
    wide(
        #[inline(always)]
        || {
            for (o, v) in out.iter_mut().zip(v) {
                *o += c * v;
            }
        },
    );
}

/// out = A v for a symmetric A (d×d, whole, rows `stride` apart): by columns, which vector instructions like better than rows.
pub(super) fn symmetric_product(a: &[f64], stride: usize, v: &[f64], out: &mut [f64]) {
    wide(
        #[inline(always)]
        || {
            out.fill(0.0);
            for (row, &v) in a.chunks_exact(stride).zip(v) {
                for (o, a) in out.iter_mut().zip(row) {
                    *o += a * v;
                }
            }
        },
    );
}

/// The maximiser, from a unit vector, with at most `most` products.
pub(super) fn maximise(start: &[f64], b: &[f64], most: usize, mut product: impl FnMut(&[f64], &mut [f64])) -> Vec<f64> {
    let n = start.len();
    let most = most.min(n);
    let (mut basis, mut images): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (vec![start.to_vec()], Vec::new());
    let mut image = vec![0.0; n];
    product(start, &mut image);
    let mut next: Vec<f64> = b.iter().zip(&image).map(|(b, m)| b - m).collect();
    images.push(image);
    while basis.len() < most {
        let before = dot(&next, &next).sqrt();
        // twice is enough
        for _ in 0..2 {
            for v in &basis {
                let c = dot(v, &next);
                add(&mut next, -c, v);
            }
        }
        let left = normalise(&mut next);
        if left.is_nan() || left <= 1e-10 * before {
            break;
        }
        let mut image = vec![0.0; n];
        product(&next, &mut image);
        basis.push(std::mem::replace(&mut next, image.clone()));
        images.push(image);
    }
    let m = basis.len();
    let linear: Vec<f64> = basis.iter().map(|v| dot(v, b)).collect();
    let mut matrix = vec![0.0; m * m];
    for i in 0..m {
        for j in 0..=i {
            let value = 0.5 * (dot(&basis[i], &images[j]) + dot(&basis[j], &images[i]));
            (matrix[i * m + j], matrix[j * m + i]) = (value, value);
        }
    }
    let y = on_sphere(&mut matrix, &linear);
    let mut out = vec![0.0; n];
    for (v, y) in basis.iter().zip(&y) {
        add(&mut out, *y, v);
    }
    if normalise(&mut out).is_normal() { out } else { start.to_vec() }
}

/// The maximiser of b·y − ½ yᵀMy over unit vectors; M (symmetric) is used up. Of equals, the one nearer to the first axis.
fn on_sphere(matrix: &mut [f64], b: &[f64]) -> Vec<f64> {
    let m = b.len();
    let vectors = jacobi(matrix, m);
    let values: Vec<f64> = (0..m).map(|i| matrix[i * m + i]).collect();
    // b in the eigenvectors, which are the columns
    let turned: Vec<f64> = (0..m).map(|i| (0..m).map(|r| vectors[r * m + i] * b[r]).sum()).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let length =
        |nu: f64| values.iter().zip(&turned).map(|(d, b)| if *b == 0.0 { 0.0 } else { (b / (d - least + nu)).powi(2) }).sum::<f64>();
    // |y| falls from ν = 0 (relative to the least eigenvalue) on
    let size = dot(b, b).sqrt();
    let scale = size.max(values.iter().map(|d| d - least).fold(0.0, f64::max)).max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (1e-14 * scale, size.max(1e-14 * scale));
    let mut y: Vec<f64>;
    if length(low) <= 1.0 {
        // b has no part along the least eigenvector: what is missing of the length goes there
        y = values.iter().zip(&turned).map(|(d, b)| b / (d - least + low)).collect();
        let lowest = (0..m).find(|&i| values[i] == least).unwrap_or(0);
        let rest = 1.0 - (dot(&y, &y) - y[lowest] * y[lowest]);
        let sign = if turned[lowest] != 0.0 { turned[lowest] } else { vectors[lowest] };
        y[lowest] = rest.max(0.0).sqrt().copysign(sign);
    } else {
        let mut nu = high;
        for _ in 0..100 {
            let square = length(nu);
            if square > 1.0 {
                low = nu;
            } else {
                high = nu;
            }
            // Newton's step for 1/|y|, which is nearly straight
            let slope: f64 = values.iter().zip(&turned).map(|(d, b)| b * b / (d - least + nu).powi(3)).sum();
            let step = nu + (square.sqrt() - 1.0) * square / slope;
            let next = if step > low && step < high { step } else { 0.5 * (low + high) };
            if (next - nu).abs() <= 1e-14 * nu {
                break;
            }
            nu = next;
        }
        y = values.iter().zip(&turned).map(|(d, b)| b / (d - least + nu)).collect();
    }
    (0..m).map(|r| (0..m).map(|i| vectors[r * m + i] * y[i]).sum()).collect()
}

/// Eigenvectors (columns) of a small symmetric matrix by Jacobi's rotations; its diagonal becomes the eigenvalues.
fn jacobi(a: &mut [f64], m: usize) -> Vec<f64> {
    let mut v = vec![0.0; m * m];
    (0..m).for_each(|i| v[i * m + i] = 1.0);
    for _ in 0..30 {
        let off: f64 = (0..m).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i * m + j] * a[i * m + j]).sum();
        let on: f64 = (0..m).map(|i| a[i * m + i] * a[i * m + i]).sum();
        // what is left is second order in the eigenvalues
        if off <= 1e-26 * on {
            break;
        }
        for p in 0..m {
            for q in p + 1..m {
                let apq = a[p * m + q];
                if apq == 0.0 {
                    continue;
                }
                let theta = (a[q * m + q] - a[p * m + p]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for r in 0..m {
                    let (x, y) = (a[r * m + p], a[r * m + q]);
                    a[r * m + p] = c * x - s * y;
                    a[r * m + q] = s * x + c * y;
                }
                for r in 0..m {
                    let (x, y) = (a[p * m + r], a[q * m + r]);
                    a[p * m + r] = c * x - s * y;
                    a[q * m + r] = s * x + c * y;
                }
                for r in 0..m {
                    let (x, y) = (v[r * m + p], v[r * m + q]);
                    v[r * m + p] = c * x - s * y;
                    v[r * m + q] = s * x + c * y;
                }
            }
        }
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pseudo(len: usize, salt: u64) -> Vec<f64> {
        let mut s = salt.wrapping_mul(77) + 1;
        (0..len)
            .map(|_| {
                s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (s >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            })
            .collect()
    }

    fn problem(n: usize, salt: u64) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let root = pseudo(n * n, salt);
        let mut m = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                m[i * n + j] = (0..n).map(|r| (r + 1) as f64 * root[r * n + i] * root[r * n + j]).sum();
            }
        }
        let mut start = pseudo(n, salt + 1);
        normalise(&mut start);
        (m, pseudo(n, salt + 2), start)
    }

    fn value(m: &[f64], b: &[f64], a: &[f64]) -> f64 {
        let mut image = vec![0.0; a.len()];
        symmetric_product(m, a.len(), a, &mut image);
        dot(b, a) - 0.5 * dot(&image, a)
    }

    /// With as many products as there are dimensions the maximum is global; with fewer no step goes down, and repeated steps end at a top.
    #[test]
    fn finds_the_maximum_and_never_goes_down() {
        for n in [1, 2, 5, 9] {
            for salt in 0..20 {
                let (m, b, start) = problem(n, 10 * salt + n as u64);
                let step = |from: &[f64], most| maximise(from, &b, most, |v, out| symmetric_product(&m, n, v, out));
                let best = step(&start, n);
                assert!((dot(&best, &best) - 1.0).abs() < 1e-14);
                // better than random others
                for other in 0..200 {
                    let mut a = pseudo(n, 1000 + other);
                    normalise(&mut a);
                    assert!(value(&m, &b, &a) <= value(&m, &b, &best) + 1e-12);
                }
                let mut now = start.clone();
                for _ in 0..200 {
                    let next = step(&now, 4);
                    assert!(value(&m, &b, &next) >= value(&m, &b, &now) - 1e-13);
                    now = next;
                }
                let mut slope = vec![0.0; n];
                symmetric_product(&m, n, &now, &mut slope);
                slope.iter_mut().zip(&b).for_each(|(s, b)| *s = b - *s);
                let along = dot(&slope, &now);
                add(&mut slope, -along, &now);
                assert!(dot(&slope, &slope).sqrt() < 1e-5, "{n} {salt}");
            }
        }
    }

    /// No linear part, no matrix, a zero gradient: still a unit vector.
    #[test]
    fn hard_cases() {
        let diagonal = [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0];
        for (b, start) in [([0.0; 3], [0.6, 0.0, 0.8]), ([0.0, 1e-3, 0.0], [0.0, 1.0, 0.0]), ([0.0; 3], [0.6, 0.64, 0.48])] {
            let found = maximise(&start, &b, 3, |v, out| symmetric_product(&diagonal, 3, v, out));
            assert!((dot(&found, &found) - 1.0).abs() < 1e-14);
            assert!(value(&diagonal, &b, &found) >= value(&diagonal, &b, &start) - 1e-15);
        }
        let found = maximise(&[1.0, 0.0], &[0.0, 0.0], 2, |_, out| out.fill(0.0));
        assert!((dot(&found, &found) - 1.0).abs() < 1e-14);
    }
}
