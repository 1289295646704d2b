//! Where everything of a mixture of experts lies: coordinates of a point, weights as the rows see them, and the ways between.
//!
//! Expert k has J = C − 1 contrast rows Θ_k (J×p) and intercepts b_k (J): class scores are V(Θ_k x + b_k), with V (C×J) such that columns
//! sum to zero and VᵀV = I/2; for two classes this is the log-odds Θ_k x + b_k. The prior sees vec Θ_k = g_k a_k, |a_k| = 1, in R^P,
//! P = pJ, and a gate vector η_k = h_k e_k in R^p.
//!
//! A *point* is one vector: directions of experts (K×P), directions of gates (K×p), logarithms of lengths of experts (K) and of gates (K),
//! intercepts of experts (K×J) and of gates (K). One expert has no gate. *Weights* are what rows multiply: one vector of D = p
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

    /// V, row-major.
    pub fn contrasts(&self) -> &[f64] {
        &self.contrasts
    }

    /// Weights of a point, as rows multiply them.
    pub fn weights(&self, point: &[f64], out: &mut Vec<f64>) {
        let (p, d, j) = (self.inputs, self.dim(), self.rows());
        out.clear();
        out.resize(self.vectors() * d, 0.0);
        let (gates, experts) = out.split_at_mut(self.gates() * d);
        let (directions, sizes) = (&point[self.gate_directions()], &point[self.gate_sizes()]);
        let intercepts = &point[self.gate_intercepts()];
        for (k, out) in gates.chunks_exact_mut(d).enumerate() {
            let size = sizes[k].exp();
            out.iter_mut().zip(&directions[k * p..(k + 1) * p]).for_each(|(o, a)| *o = size * a);
            if self.bias {
                out[p] = intercepts[k];
            }
        }
        let (directions, sizes) = (&point[self.expert_directions()], &point[self.expert_sizes()]);
        let intercepts = &point[self.expert_intercepts()];
        let units = experts.len() / self.experts;
        let mut theta = vec![0.0; j * d];
        for (k, out) in experts.chunks_exact_mut(units).enumerate() {
            let size = sizes[k].exp();
            for r in 0..j {
                let row = &mut theta[r * d..(r + 1) * d];
                row.iter_mut().zip(&directions[(k * j + r) * p..(k * j + r + 1) * p]).for_each(|(o, a)| *o = size * a);
                if self.bias {
                    row[p] = intercepts[k * j + r];
                }
            }
            self.spread(&theta, out);
        }
    }

    /// Class scores' weights VΘ (or the log-odds' own) from an expert's contrast rows, J×D.
    fn spread(&self, theta: &[f64], out: &mut [f64]) {
        if self.classes == 2 {
            out.copy_from_slice(theta);
            return;
        }
        let (d, j) = (self.dim(), self.rows());
        out.fill(0.0);
        for (out, v) in out.chunks_exact_mut(d).zip(self.contrasts.chunks_exact(j)) {
            for (theta, v) in theta.chunks_exact(d).zip(v) {
                out.iter_mut().zip(theta).for_each(|(o, t)| *o += v * t);
            }
        }
    }

    /// Gradient with respect to contrast rows (K×J×D) from that with respect to the experts' part of the weights.
    pub fn gather(&self, experts: &[f64]) -> Vec<f64> {
        if self.classes == 2 {
            return experts.to_vec();
        }
        let (d, j, c) = (self.dim(), self.rows(), self.classes);
        let mut out = vec![0.0; self.experts * j * d];
        for (out, experts) in out.chunks_exact_mut(j * d).zip(experts.chunks_exact(c * d)) {
            for (weights, v) in experts.chunks_exact(d).zip(self.contrasts.chunks_exact(j)) {
                for (out, v) in out.chunks_exact_mut(d).zip(v) {
                    out.iter_mut().zip(weights).for_each(|(o, w)| *o += v * w);
                }
            }
        }
        out
    }

    /// Adds to `out`, which is laid out like a point, the gradient (in the surrounding space) that belongs to a gradient with respect to
    /// the weights.
    pub fn pull_back(&self, point: &[f64], gradient: &[f64], out: &mut [f64]) {
        let (p, d, j) = (self.inputs, self.dim(), self.rows());
        let (gates, experts) = gradient.split_at(self.gates() * d);
        for (k, g) in gates.chunks_exact(d).enumerate() {
            let at = self.gate_directions().start + k * p;
            let size = point[self.gate_sizes().start + k].exp();
            out[self.gate_sizes().start + k] += size * dot(&g[..p], &point[at..at + p]);
            out[at..at + p].iter_mut().zip(g).for_each(|(o, g)| *o += size * g);
            if self.bias {
                out[self.gate_intercepts().start + k] += g[p];
            }
        }
        let experts = self.gather(experts);
        for (k, g) in experts.chunks_exact(j * d).enumerate() {
            let size = point[self.expert_sizes().start + k].exp();
            let mut slope = 0.0;
            for (r, g) in g.chunks_exact(d).enumerate() {
                let at = (k * j + r) * p;
                slope += dot(&g[..p], &point[at..at + p]);
                out[at..at + p].iter_mut().zip(g).for_each(|(o, g)| *o += size * g);
                if self.bias {
                    out[self.expert_intercepts().start + k * j + r] += g[p];
                }
            }
            out[self.expert_sizes().start + k] += size * slope;
        }
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

    /// The pull-back is the gradient of any function of the weights, here of a fixed linear one.
    #[test]
    fn gradients_are_pulled_back() {
        for (experts, classes, bias) in [(3, 2, true), (2, 4, true), (1, 3, false), (2, 2, false)] {
            let shape = Shape::new(experts, classes, 2, bias);
            let point: Vec<f64> = (0..shape.len()).map(|i| (1.7 * i as f64 + 0.4).sin()).collect();
            let linear: Vec<f64> = (0..shape.vectors() * shape.dim()).map(|i| (0.9 * i as f64).cos()).collect();
            let value = |point: &[f64]| {
                let mut weights = Vec::new();
                shape.weights(point, &mut weights);
                dot(&weights, &linear)
            };
            let mut gradient = vec![0.0; shape.len()];
            shape.pull_back(&point, &linear, &mut gradient);
            let worst = check_gradient(value, &point, &gradient);
            assert!(worst.relative_error < 1e-7, "{worst:?}");
            // exchanging in the point is exchanging in the weights
            if experts > 1 {
                let (mut moved, mut weights, mut expected) = (point.clone(), Vec::new(), Vec::new());
                shape.exchange(&mut moved, 0, 1);
                shape.weights(&moved, &mut weights);
                shape.weights(&point, &mut expected);
                shape.exchange_weights(&mut expected, 0, 1);
                assert_eq!(weights, expected);
            }
        }
    }
}
