//! Where everything of a mixture of experts lies: coordinates of a point, weights as the rows see them, and the ways between.
//!
//! Expert k has J = C − 1 contrast rows Θ_k (J×p) and intercepts b_k (J): class scores are V(Θ_k x + b_k), with V (C×J) such that columns
//! sum to zero and VᵀV = I/2; for two classes this is the log-odds Θ_k x + b_k. The prior sees vec Θ_k = g_k a_k, |a_k| = 1, in R^P,
//! P = pJ, and a gate vector η_k = h_k e_k in R^p.
//!
//! A *point* is one vector: directions of experts (K×P), directions of gates (K×p), logarithms of lengths of experts (K) and of gates (K),
//! intercepts of experts (K×J) and of gates (K). One expert has no gate. Its *plain form* has the products of directions and lengths in place of
//! directions, and no lengths. *Weights* are what rows multiply: one vector of D = p
//! (+ 1 with intercepts) entries a score, the K gates first, then one a class score (or the log-odds) of each expert.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::linalg::dot;
use crate::model::gated::Gated;

/// The sizes of a mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of experts K.
    pub experts: usize,
    /// Number of classes C.
    pub classes: usize,
    /// Entries p of a direction's row.
    pub inputs: usize,
    /// Whether there are intercepts beside the directions.
    pub bias: bool,
    /// V, row-major; for two classes the log-odds need none.
    contrasts: Vec<f64>,
}

/// Where a weight vector is in a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Its direction.
    pub direction: Range<usize>,
    /// The logarithm of its length.
    pub size: usize,
    /// Its intercepts, if there are any.
    pub intercepts: Range<usize>,
}

impl Shape {
    /// A mixture of so many experts over so many classes, with p entries a direction's row and (or not) intercepts beside them.
    pub fn new(experts: usize, classes: usize, inputs: usize, bias: bool) -> Self {
        let rows = classes - 1;
        let mut contrasts = vec![0.0; classes * rows];
        for j in 1..classes {
            let scale = (2.0 * (j * (j + 1)) as f64).sqrt().recip();
            (0..j).for_each(|c| contrasts[c * rows + j - 1] = -scale);
            contrasts[j * rows + j - 1] = j as f64 * scale;
        }
        Self { experts, classes, inputs, bias, contrasts }
    }

    /// J, the contrast rows of an expert.
    pub fn rows(&self) -> usize {
        self.classes - 1
    }

    /// P, the dimension of an expert's direction.
    pub fn expert_dim(&self) -> usize {
        self.rows() * self.inputs
    }

    /// Number of gate vectors.
    pub fn gates(&self) -> usize {
        if self.experts > 1 { self.experts } else { 0 }
    }

    /// D, the length of a weight vector.
    pub fn dim(&self) -> usize {
        self.inputs + usize::from(self.bias)
    }

    /// How rows turn scores into probabilities.
    pub fn gated(&self) -> Gated {
        Gated::new(self.experts, self.classes)
    }

    /// Number of weight vectors.
    pub fn vectors(&self) -> usize {
        self.gated().columns()
    }

    /// Length of a point.
    pub fn len(&self) -> usize {
        self.gate_intercepts().end
    }

    /// Never: a mixture has an expert.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Directions of the experts in a point, K×P.
    pub fn expert_directions(&self) -> Range<usize> {
        0..self.experts * self.expert_dim()
    }

    /// Directions of the gates, K×p.
    pub fn gate_directions(&self) -> Range<usize> {
        after(self.expert_directions(), self.gates() * self.inputs)
    }

    /// Logarithms of the lengths of the experts.
    pub fn expert_sizes(&self) -> Range<usize> {
        after(self.gate_directions(), self.experts)
    }

    /// Logarithms of the lengths of the gates.
    pub fn gate_sizes(&self) -> Range<usize> {
        after(self.expert_sizes(), self.gates())
    }

    /// Intercepts of the experts, K×J.
    pub fn expert_intercepts(&self) -> Range<usize> {
        after(self.gate_sizes(), if self.bias { self.experts * self.rows() } else { 0 })
    }

    /// Intercepts of the gates.
    pub fn gate_intercepts(&self) -> Range<usize> {
        after(self.expert_intercepts(), if self.bias { self.gates() } else { 0 })
    }

    /// Where the weight vector of an expert or a gate is.
    pub fn places(&self, gate: bool, k: usize) -> Places {
        let s = self;
        let (directions, dim, sizes, intercepts, rows) = if gate {
            (s.gate_directions(), s.inputs, s.gate_sizes(), s.gate_intercepts(), 1)
        } else {
            (s.expert_directions(), s.expert_dim(), s.expert_sizes(), s.expert_intercepts(), s.rows())
        };
        let rows = if s.bias { rows } else { 0 };
        Places {
            direction: directions.start + k * dim..directions.start + (k + 1) * dim,
            size: sizes.start + k,
            intercepts: intercepts.start + k * rows..intercepts.start + (k + 1) * rows,
        }
    }

    /// Where the products of n rows with the directions of an expert or a gate are, one a row for a gate and J for an expert, gates first.
    pub(super) fn product_places(&self, gate: bool, k: usize, n: usize) -> Range<usize> {
        let (from, width) = if gate { (k, 1) } else { (self.gates() + k * self.rows(), self.rows()) };
        from * n..(from + width) * n
    }

    /// Weight vectors from rows of directions, with nothing in the place of intercepts.
    pub(super) fn without_intercepts(&self, directions: &[f64]) -> Vec<f64> {
        let (p, dim) = (self.inputs, self.dim());
        let mut out = vec![0.0; directions.len() / p * dim];
        out.chunks_exact_mut(dim).zip(directions.chunks_exact(p)).for_each(|(to, from)| to[..p].copy_from_slice(from));
        out
    }

    /// ln p(y) of an expert from what the J rows of its weights give a row. `scores` is room to work in.
    pub fn ln_given(&self, theta: impl Fn(usize) -> f64, class: u32, scores: &mut Vec<f64>) -> f64 {
        let (rows, gated) = (self.rows(), self.gated());
        if rows == 1 {
            return gated.ln_given(&[theta(0)], class);
        }
        scores.clear();
        scores.extend(self.contrasts.chunks_exact(rows).map(|v| v.iter().enumerate().map(|(r, v)| v * theta(r)).sum::<f64>()));
        gated.ln_given(scores, class)
    }

    /// V, row-major.
    pub fn contrasts(&self) -> &[f64] {
        &self.contrasts
    }

    /// Length of the plain form of a point.
    pub fn plain_len(&self) -> usize {
        self.len() - self.experts - self.gates()
    }

    /// Where the weights without intercepts end in a plain form: first those of experts, then those of gates.
    pub fn plain_parts(&self) -> (Range<usize>, Range<usize>) {
        (self.expert_directions(), self.gate_directions())
    }

    /// The plain form of a point: directions times lengths, then intercepts.
    pub fn plain(&self, point: &[f64], out: &mut Vec<f64>) {
        out.clear();
        for (directions, sizes) in [(self.expert_directions(), self.expert_sizes()), (self.gate_directions(), self.gate_sizes())] {
            let dim = directions.len() / sizes.len().max(1);
            for (a, u) in point[directions].chunks_exact(dim.max(1)).zip(&point[sizes]) {
                let size = u.exp();
                out.extend(a.iter().map(|a| size * a));
            }
        }
        out.extend_from_slice(&point[self.expert_intercepts().start..]);
    }

    /// The point of a plain form. A vector of length zero gets the first axis as its direction.
    pub fn point(&self, plain: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.len()];
        for (directions, sizes) in [(self.expert_directions(), self.expert_sizes()), (self.gate_directions(), self.gate_sizes())] {
            let dim = directions.len() / sizes.len().max(1);
            for (k, at) in sizes.enumerate() {
                let from = directions.start + k * dim;
                let weights = &plain[from..from + dim];
                let size = dot(weights, weights).sqrt();
                out[at] = size.ln();
                if size > 0.0 {
                    out[from..from + dim].iter_mut().zip(weights).for_each(|(o, w)| *o = w / size);
                } else {
                    out[from] = 1.0;
                }
            }
        }
        let intercepts = self.expert_intercepts().start;
        out[intercepts..].copy_from_slice(&plain[self.gate_directions().end..]);
        out
    }

    /// Weights as rows multiply them, from the plain form.
    pub fn weights(&self, plain: &[f64], out: &mut Vec<f64>) {
        let (p, d, j) = (self.inputs, self.dim(), self.rows());
        out.clear();
        out.resize(self.vectors() * d, 0.0);
        let (gates, experts) = out.split_at_mut(self.gates() * d);
        let (theta, eta) = self.plain_parts();
        let (theta, rest) = (&plain[theta], &plain[eta.end..]);
        let eta = &plain[eta];
        let (b, c) = rest.split_at(if self.bias { self.experts * j } else { 0 });
        for (k, out) in gates.chunks_exact_mut(d).enumerate() {
            out[..p].copy_from_slice(&eta[k * p..(k + 1) * p]);
            if self.bias {
                out[p] = c[k];
            }
        }
        let units = experts.len() / self.experts;
        for (k, out) in experts.chunks_exact_mut(units).enumerate() {
            for r in k * j..(k + 1) * j {
                let theta = &theta[r * p..(r + 1) * p];
                // the log-odds of two classes, or one column of V times the contrast row
                for (c, out) in out.chunks_exact_mut(d).enumerate() {
                    let v = if self.classes == 2 { 1.0 } else { self.contrasts[c * j + r - k * j] };
                    out.iter_mut().zip(theta).for_each(|(o, t)| *o += v * t);
                    if self.bias {
                        out[p] += v * b[r];
                    }
                }
            }
        }
    }

    /// Gradient with respect to the plain form, from that with respect to the weights.
    pub fn plain_gradient(&self, gradient: &[f64], out: &mut Vec<f64>) {
        let (p, d, j) = (self.inputs, self.dim(), self.rows());
        out.clear();
        out.resize(self.plain_len(), 0.0);
        let (gates, experts) = gradient.split_at(self.gates() * d);
        let (theta, eta) = self.plain_parts();
        let intercepts = eta.end;
        let units = experts.len() / self.experts;
        for (k, gradient) in experts.chunks_exact(units).enumerate() {
            for r in k * j..(k + 1) * j {
                for (c, g) in gradient.chunks_exact(d).enumerate() {
                    let v = if self.classes == 2 { 1.0 } else { self.contrasts[c * j + r - k * j] };
                    let at = theta.start + r * p;
                    out[at..at + p].iter_mut().zip(g).for_each(|(o, g)| *o += v * g);
                    if self.bias {
                        out[intercepts + r] += v * g[p];
                    }
                }
            }
        }
        for (k, g) in gates.chunks_exact(d).enumerate() {
            let at = eta.start + k * p;
            out[at..at + p].copy_from_slice(&g[..p]);
            if self.bias {
                out[intercepts + self.experts * j + k] = g[p];
            }
        }
    }

    /// Adds the gradient (in the surrounding space) with respect to a point, from that with respect to its plain form.
    pub fn pull_back(&self, point: &[f64], plain: &[f64], out: &mut [f64]) {
        for (directions, sizes) in [(self.expert_directions(), self.expert_sizes()), (self.gate_directions(), self.gate_sizes())] {
            let dim = directions.len() / sizes.len().max(1);
            for (k, at) in sizes.enumerate() {
                let from = directions.start + k * dim;
                let size = point[at].exp();
                let g = &plain[from..from + dim];
                out[at] += size * dot(g, &point[from..from + dim]);
                out[from..from + dim].iter_mut().zip(g).for_each(|(o, g)| *o += size * g);
            }
        }
        let intercepts = self.expert_intercepts().start;
        out[intercepts..].iter_mut().zip(&plain[self.gate_directions().end..]).for_each(|(o, g)| *o += g);
    }

    /// Exchanges two experts with their gates, in a point.
    pub fn exchange(&self, point: &mut [f64], i: usize, k: usize) {
        let swap = |point: &mut [f64], range: Range<usize>, width: usize| {
            if !range.is_empty() {
                (0..width).for_each(|w| point.swap(range.start + i * width + w, range.start + k * width + w));
            }
        };
        swap(point, self.expert_directions(), self.expert_dim());
        swap(point, self.gate_directions(), self.inputs);
        swap(point, self.expert_sizes(), 1);
        swap(point, self.gate_sizes(), 1);
        swap(point, self.expert_intercepts(), self.rows());
        swap(point, self.gate_intercepts(), 1);
    }

    /// Exchanges two experts with their gates, in weights or their gradient.
    pub fn exchange_weights(&self, weights: &mut [f64], i: usize, k: usize) {
        let d = self.dim();
        let (gates, experts) = weights.split_at_mut(self.gates() * d);
        let units = experts.len() / self.experts;
        if !gates.is_empty() {
            (0..d).for_each(|w| gates.swap(i * d + w, k * d + w));
        }
        (0..units).for_each(|w| experts.swap(i * units + w, k * units + w));
    }
}

fn after(range: Range<usize>, len: usize) -> Range<usize> {
    range.end..range.end + len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::finite_difference::check_gradient;

    #[test]
    fn contrasts_are_orthogonal_and_sum_to_zero() {
        let shape = Shape::new(1, 4, 1, false);
        let v = shape.contrasts();
        for i in 0..3 {
            assert!((0..4).map(|c| v[c * 3 + i]).sum::<f64>().abs() < 1e-15);
            for j in 0..3 {
                let product: f64 = (0..4).map(|c| v[c * 3 + i] * v[c * 3 + j]).sum();
                assert!((product - if i == j { 0.5 } else { 0.0 }).abs() < 1e-15);
            }
        }
        assert_eq!(Shape::new(2, 2, 3, true).contrasts(), [-0.5, 0.5]);
    }

    /// Gradients come back as they are by differences, here of a fixed linear function of the weights; plain forms keep all but the
    /// coordinates.
    #[test]
    fn gradients_are_pulled_back() {
        for (experts, classes, bias) in [(3, 2, true), (2, 4, true), (1, 3, false), (2, 2, false)] {
            let shape = Shape::new(experts, classes, 2, bias);
            let point: Vec<f64> = (0..shape.len()).map(|i| (1.7 * i as f64 + 0.4).sin()).collect();
            let linear: Vec<f64> = (0..shape.vectors() * shape.dim()).map(|i| (0.9 * i as f64).cos()).collect();
            let of_plain = |plain: &[f64]| {
                let mut weights = Vec::new();
                shape.weights(plain, &mut weights);
                dot(&weights, &linear)
            };
            let of_point = |point: &[f64]| {
                let mut plain = Vec::new();
                shape.plain(point, &mut plain);
                of_plain(&plain)
            };
            let (mut plain, mut slopes, mut gradient) = (Vec::new(), Vec::new(), vec![0.0; shape.len()]);
            shape.plain(&point, &mut plain);
            shape.plain_gradient(&linear, &mut slopes);
            let worst = check_gradient(of_plain, &plain, &slopes);
            assert!(worst.relative_error < 1e-7, "{worst:?}");
            shape.pull_back(&point, &slopes, &mut gradient);
            let worst = check_gradient(of_point, &point, &gradient);
            assert!(worst.relative_error < 1e-7, "{worst:?}");
            let back = shape.point(&plain);
            assert!((of_point(&back) - of_point(&point)).abs() < 1e-12);
            // exchanging in the point is exchanging in the weights
            if experts > 1 {
                let (mut moved, mut other, mut weights, mut expected) = (point.clone(), Vec::new(), Vec::new(), Vec::new());
                shape.exchange(&mut moved, 0, 1);
                shape.plain(&moved, &mut other);
                shape.weights(&other, &mut weights);
                shape.weights(&plain, &mut expected);
                shape.exchange_weights(&mut expected, 0, 1);
                assert_eq!(weights, expected);
            }
        }
    }
}
