//! E softmax(z) of Gaussian logits: what nodes, and trees of them, expect of a row.
//!
//! `probit` is deterministic. Two children: σ((m₁ − m₂)/√(1 + πs/8)) with s = Var(z₁ − z₂). Three to five: each against the rest, whose
//! log-sum-exp is taken as Gaussian, then normalised. Six and more: the minimiser of the tilted bound. Its error is below 0.01 up to
//! logit variances of 1 and below 0.03 at 4 for independent logits; correlated ones can be off by 0.07 at variance 4: use `mc` there.
//! `mc` averages over antithetic draws, the same ones for every row, and gives standard deviations. `map` takes the logits at their means.
//!
//! Nodes are independent under q, so the expected probability of a path is exactly the product of what its nodes expect.

use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::PI;
use std::ops::Range;
use std::sync::Arc;

use super::bound::RowBound;
use super::bound::tilted::{self, Spread, softmax};
use super::layout::{Layout, NodeLayout};
use super::tree::{Child, Leaf};
use crate::answer::TARGET_ERROR;
use crate::data::design::packed_len;
use crate::run::{Purpose, Stream};
use crate::special::{ln_sigmoid, log_sum_exp};

/// Pairs of antithetic draws.
pub(crate) const PAIRS: usize = 256;
/// Most pairs of a row whose probabilities are not known well enough before, and numbers they may take in all.
const MOST_PAIRS: (usize, usize) = (8192, 1 << 21);

/// How the posterior of the weights is averaged over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// By a closed form.
    Probit,
    /// Over draws.
    MonteCarlo,
    /// Not at all: weights at their means.
    Map,
}

impl Method {
    /// The method of a word.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "mc" => Method::MonteCarlo,
            "map" => Method::Map,
            _ => Method::Probit,
        }
    }
}

fn covariance(v: Spread<'_>, i: usize, j: usize) -> f64 {
    match v {
        Spread::Child(_) if i != j => 0.0,
        Spread::Child(v) => v[i],
        Spread::Joint(v) => v[packed_len(i.max(j)) + i.min(j)],
    }
}

/// Covariance of the logits of a node from the forms of a row. Only differences of logits matter, so the one variance of a difference
/// may as well be that of the first logit, and contrasts of equal variance are independent logits of that variance.
pub(crate) fn spread_of<'a>(node: &NodeLayout, v: &'a mut [f64], buffer: &'a mut Vec<f64>) -> Spread<'a> {
    if node.bound == RowBound::TiltedJoint {
        (0..node.width()).for_each(|c| v[packed_len(c) + c] = v[packed_len(c) + c].max(0.0));
        return Spread::Joint(v);
    }
    v.iter_mut().for_each(|v| *v = v.max(0.0));
    buffer.clear();
    match node.bound {
        RowBound::Jj => buffer.extend([v[0], 0.0]),
        RowBound::Bohning => buffer.resize(node.width(), v[0]),
        _ => return Spread::Child(v),
    }
    Spread::Child(buffer)
}

/// The deterministic approximation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Probit {
    solver: tilted::Solver,
    u: Vec<f64>,
    vu: Vec<f64>,
    log: Vec<f64>,
}

impl Probit {
    /// Fills in the probabilities of the children.
    pub(crate) fn expect(&mut self, m: &[f64], v: Spread<'_>, out: &mut [f64]) {
        let squash = |s: f64| (1.0 + PI / 8.0 * s.max(0.0)).sqrt();
        match m.len() {
            2 => {
                let t = (m[0] - m[1]) / squash(covariance(v, 0, 0) + covariance(v, 1, 1) - 2.0 * covariance(v, 0, 1));
                (out[0], out[1]) = (ln_sigmoid(t).exp(), ln_sigmoid(-t).exp());
            }
            s @ 3..=5 => {
                self.log.resize(s, 0.0);
                for i in 0..s {
                    let (u, vu) = (&mut self.u, &mut self.vu);
                    u.clear();
                    u.extend_from_slice(m);
                    u[i] = f64::NEG_INFINITY;
                    let rest = softmax(u);
                    vu.clear();
                    vu.extend((0..s).map(|a| (0..s).map(|b| covariance(v, a, b) * u[b]).sum::<f64>()));
                    let around: f64 = (0..s).map(|j| u[j] * covariance(v, j, j)).sum();
                    let uvu: f64 = u.iter().zip(vu.iter()).map(|(u, v)| u * v).sum();
                    let centre = rest + 0.5 * (around - uvu);
                    self.log[i] = ln_sigmoid((m[i] - centre) / squash(covariance(v, i, i) + uvu - 2.0 * vu[i]));
                }
                let total = log_sum_exp(&self.log);
                for (o, l) in out.iter_mut().zip(&self.log) {
                    *o = (l - total).exp();
                }
            }
            _ => {
                self.solver.minimise(m, v, tilted::REFINED);
                out.copy_from_slice(self.solver.minimiser());
                normalise(out);
            }
        }
    }
}

/// A factor F of the covariance of logits, V = FFᵀ: standard deviations, or packed and lower triangular. Directions without variance
/// get none.
pub(crate) fn factorise(v: Spread<'_>, f: &mut Vec<f64>) {
    f.clear();
    match v {
        Spread::Child(v) => f.extend(v.iter().map(|v| v.max(0.0).sqrt())),
        Spread::Joint(v) => {
            f.extend_from_slice(v);
            let mut i = 0;
            while packed_len(i) < v.len() {
                let (above, row) = f.split_at_mut(packed_len(i));
                let own = row[i];
                for j in 0..i {
                    let other = &above[packed_len(j)..=packed_len(j) + j];
                    let sum: f64 = row[..j].iter().zip(other).map(|(a, b)| a * b).sum();
                    row[j] = if other[j] > 0.0 { (row[j] - sum) / other[j] } else { 0.0 };
                }
                let left = own - row[..i].iter().map(|v| v * v).sum::<f64>();
                row[i] = if left > 1e-14 * own { left.sqrt() } else { 0.0 };
                i += 1;
            }
        }
    }
}

/// out = F e for a factor of [`factorise`].
pub(crate) fn shift(factor: &[f64], e: &[f64], out: &mut [f64]) {
    if factor.len() == e.len() {
        out.iter_mut().zip(factor).zip(e).for_each(|((o, f), e)| *o = f * e);
        return;
    }
    for (i, o) in out.iter_mut().enumerate() {
        *o = factor[packed_len(i)..=packed_len(i) + i].iter().zip(e).map(|(f, e)| f * e).sum();
    }
}

/// What a tree expects of a row.
#[derive(Debug, Default, Clone)]
pub(crate) struct TreeExpect {
    probit: Probit,
    buffer: Vec<f64>,
    /// Logits at their means.
    z: Vec<f64>,
    /// Probability of each child, given its node.
    p: Vec<f64>,
    reach: Vec<f64>,
    /// One standard normal a draw and logit.
    normals: Arc<Vec<f64>>,
    /// Pairs that every row takes.
    first: usize,
    factors: Vec<Vec<f64>>,
    moved: Vec<f64>,
    shifted: Vec<f64>,
    leaf: Vec<f64>,
}

impl TreeExpect {
    /// For a layout; draws are named by the key of the fit and their number, and rows have no part in it.
    pub(crate) fn new(layout: &Layout, method: Method, key: u64) -> Self {
        Self::with_pairs(layout, if method == Method::MonteCarlo { PAIRS } else { 0 }, key)
    }

    /// The same with as many draws as bring the Monte Carlo error of a probability below its target for nearly every row; each row takes
    /// [`PAIRS`] of them, and more where it needs them.
    pub(crate) fn with_enough(layout: &Layout, key: u64) -> Self {
        let pairs = MOST_PAIRS.0.min(MOST_PAIRS.1 / layout.logits.max(1)).max(PAIRS);
        Self { first: PAIRS, ..Self::with_pairs(layout, pairs, key) }
    }

    /// The same with so many pairs of draws.
    pub(crate) fn with_pairs(layout: &Layout, draws: usize, key: u64) -> Self {
        let stream = Stream::new(key, 0, Purpose::Predict);
        let normals = (0..draws)
            .flat_map(|draw| {
                let mut rng = stream.item(draw as u64).rng();
                (0..layout.logits).map(move |_| StandardNormal.sample(&mut rng)).collect::<Vec<f64>>()
            })
            .collect::<Vec<f64>>()
            .into();
        Self {
            z: vec![0.0; layout.logits],
            p: vec![0.0; layout.logits],
            moved: vec![0.0; layout.logits],
            shifted: vec![0.0; layout.logits],
            reach: vec![0.0; layout.nodes.len()],
            leaf: vec![0.0; layout.leaves.len()],
            factors: vec![Vec::new(); layout.nodes.len()],
            normals,
            first: draws,
            ..Self::default()
        }
    }

    /// Probability of each leaf from those of children.
    fn descend(layout: &Layout, p: &[f64], reach: &mut [f64], leaf: &mut [f64]) {
        match layout.root {
            Child::Node(_) => reach[0] = 1.0,
            Child::Leaf(only) => leaf[only] = 1.0,
        }
        for (v, node) in layout.nodes.iter().enumerate() {
            for (c, child) in node.children.iter().enumerate() {
                let share = reach[v] * p[node.first_logit + c];
                match child {
                    Child::Node(below) => reach[*below] = share,
                    Child::Leaf(below) => leaf[*below] = share,
                }
            }
        }
    }

    /// Expected probability of each leaf, from the means of units and the forms of a row.
    pub(crate) fn leaves(&mut self, layout: &Layout, method: Method, m: &[f64], v: &mut [f64]) -> &[f64] {
        if method == Method::MonteCarlo {
            let mut sums = vec![0.0; layout.leaves.len()];
            self.draws(layout, m, v, 0..usize::MAX, |leaf| sums.iter_mut().zip(leaf).for_each(|(s, p)| *s += p));
            normalise(&mut sums);
            self.leaf = sums;
            return &self.leaf;
        }
        for node in &layout.nodes {
            let logits = node.at_logits();
            node.logits_of(&m[node.at_units()], &mut self.z[logits.clone()]);
            let (z, p) = (&self.z[logits.clone()], &mut self.p[logits]);
            if method == Method::Map {
                p.copy_from_slice(z);
                softmax(p);
            } else {
                let spread = spread_of(node, &mut v[node.at_forms()], &mut self.buffer);
                self.probit.expect(z, spread, p);
            }
        }
        Self::descend(layout, &self.p, &mut self.reach, &mut self.leaf);
        &self.leaf
    }

    /// Number of pairs of draws.
    fn pairs(&self, layout: &Layout) -> usize {
        self.normals.len() / layout.logits.max(1)
    }

    /// Calls `f` with the leaf probabilities of every draw of some pairs, one of a pair after the other.
    pub(crate) fn draws(&mut self, layout: &Layout, m: &[f64], v: &mut [f64], pairs: Range<usize>, mut f: impl FnMut(&[f64])) {
        for (number, node) in layout.nodes.iter().enumerate() {
            let logits = node.at_logits();
            node.logits_of(&m[node.at_units()], &mut self.z[logits]);
            let spread = spread_of(node, &mut v[node.at_forms()], &mut self.buffer);
            factorise(spread, &mut self.factors[number]);
        }
        for draw in pairs.start..pairs.end.min(self.pairs(layout)) {
            let normals = &self.normals[draw * layout.logits..(draw + 1) * layout.logits];
            for (node, factor) in layout.nodes.iter().zip(&self.factors) {
                let logits = node.at_logits();
                shift(factor, &normals[logits.clone()], &mut self.shifted[logits]);
            }
            for sign in [1.0, -1.0] {
                for ((o, z), d) in self.moved.iter_mut().zip(&self.z).zip(&self.shifted) {
                    *o = z + sign * d;
                }
                for node in &layout.nodes {
                    softmax(&mut self.moved[node.at_logits()]);
                }
                Self::descend(layout, &self.moved, &mut self.reach, &mut self.leaf);
                f(&self.leaf);
            }
        }
        if layout.nodes.is_empty() {
            f(&[1.0]);
        }
    }

    /// Expected probability of each class and, for `mc`, its posterior standard deviation, from the first draws, and from more where
    /// there are more and the row needs them.
    pub(crate) fn classes(&mut self, layout: &Layout, method: Method, m: &[f64], v: &mut [f64], mean: &mut [f64], deviation: &mut [f64]) {
        if method != Method::MonteCarlo {
            by_class(layout, self.leaves(layout, method, m, v), mean);
            return;
        }
        mean.fill(0.0);
        deviation.fill(0.0);
        let k = mean.len();
        let (mut p, mut pair, mut between) = (vec![0.0; k], vec![0.0; k], vec![(0.0, 0.0); k]);
        let mut count = 0.0;
        let mut next = 0..self.first;
        loop {
            self.draws(layout, m, v, next.clone(), |leaf| {
                by_class(layout, leaf, &mut p);
                count += 1.0;
                // Welford's update: nothing cancels where probabilities hardly vary
                for ((mean, square), p) in mean.iter_mut().zip(deviation.iter_mut()).zip(&p) {
                    let away = p - *mean;
                    *mean += away / count;
                    *square += away * (p - *mean);
                }
                // the same for means of pairs, which are independent
                for ((pair, (mean, square)), p) in pair.iter_mut().zip(&mut between).zip(&p) {
                    if count % 2.0 == 1.0 {
                        *pair = *p;
                        continue;
                    }
                    let (middle, pairs) = (0.5 * (*pair + p), 0.5 * count);
                    let away = middle - *mean;
                    *mean += away / pairs;
                    *square += away * (middle - *mean);
                }
            });
            let pairs = 0.5 * count;
            let worst = between.iter().map(|(_, square)| (square / (pairs * (pairs - 1.0))).sqrt()).fold(0.0, f64::max);
            if next.end >= self.pairs(layout) || worst < TARGET_ERROR {
                break;
            }
            next = next.end..2 * next.end;
        }
        deviation.iter_mut().for_each(|square| *square = (square.max(0.0) / count).sqrt());
        normalise(mean);
    }

    /// Probability of each class under every draw, one list a class.
    pub(crate) fn class_draws(&mut self, layout: &Layout, m: &[f64], v: &mut [f64], classes: usize) -> Vec<Vec<f64>> {
        let (mut p, mut all) = (vec![0.0; classes], vec![Vec::with_capacity(2 * self.pairs(layout)); classes]);
        self.draws(layout, m, v, 0..usize::MAX, |leaf| {
            by_class(layout, leaf, &mut p);
            all.iter_mut().zip(&p).for_each(|(all, p)| all.push(*p));
        });
        all
    }
}

/// Probabilities of classes from those of leaves.
fn by_class(layout: &Layout, leaf: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    for (p, emitted) in leaf.iter().zip(&layout.leaves) {
        if let Leaf::Class(class) = emitted {
            out[*class as usize] += p;
        }
    }
}

fn normalise(p: &mut [f64]) {
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::softmax::layout::Shape;
    use crate::model::softmax::tree::{Coding, Emission, Structure};
    use crate::model::softmax::{Bound, Covariance, Precision};

    const M: [f64; 3] = [0.3, -1.2, 2.0];
    const V: [f64; 3] = [0.5, 1.5, 0.8];
    const JOINT: [f64; 6] = [0.5, 0.3, 1.5, -0.1, 0.2, 0.8];

    fn close(a: &[f64], b: &[f64], tolerance: f64) {
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < tolerance, "{a} {b}");
        }
    }

    fn layout(structure: Structure, classes: usize, covariance: Covariance) -> Layout {
        let shape = Shape {
            bound: Bound::Tilted,
            covariance: Some(covariance),
            precision: Precision::Fixed,
            gamma: (1.0, 1.0),
            fixed: 1.0,
            fixed_gates: None,
            bias: None,
            joint_up_to: 512,
        };
        let outcome = Emission::Classes(classes);
        Layout::for_prediction(&structure.tree(outcome, Coding::Full), &shape, outcome, 1)
    }

    #[test]
    fn one_against_the_rest_has_its_reference_values() {
        let mut out = [0.0; 3];
        Probit::default().expect(&M, Spread::Child(&V), &mut out);
        close(&out, &[0.18573409, 0.07081316, 0.74345275], 1e-8);
        Probit::default().expect(&M, Spread::Joint(&JOINT), &mut out);
        close(&out, &[0.19208333, 0.06181743, 0.74609925], 1e-8);
    }

    /// Against integrated means: within the errors stated above, and Monte Carlo within four of its own standard errors.
    #[test]
    fn approximations_are_near_the_integral() {
        let exact = [0.18613386, 0.06448433, 0.74938181];
        let (mut mean, mut deviation) = ([0.0; 3], [0.0; 3]);
        Probit::default().expect(&M, Spread::Child(&V), &mut mean);
        close(&mean, &exact, 0.01);
        let softmax = layout(Structure::Subclasses(vec![1, 1, 1]), 3, Covariance::Child);
        let mut expect = TreeExpect::new(&softmax, Method::MonteCarlo, 7);
        expect.classes(&softmax, Method::MonteCarlo, &M, &mut V.clone(), &mut mean, &mut deviation);
        for c in 0..3 {
            assert!((mean[c] - exact[c]).abs() < 4.0 * deviation[c] / (2.0 * PAIRS as f64).sqrt(), "{} {}", mean[c], exact[c]);
        }
        let mut out = [0.0; 2];
        Probit::default().expect(&[0.7, -0.4], Spread::Child(&[0.6, 1.1]), &mut out);
        close(&out[..1], &[0.6972020134], 0.005);
        // a covariance of diagonal form is the same as variances
        let joint = layout(Structure::Subclasses(vec![1, 1, 1]), 3, Covariance::Joint);
        let mut other = [0.0; 3];
        let mut expect = TreeExpect::new(&joint, Method::MonteCarlo, 7);
        expect.classes(&joint, Method::MonteCarlo, &M, &mut [0.5, 0.0, 1.5, 0.0, 0.0, 0.8], &mut other, &mut deviation);
        close(&other, &mean, 1e-14);
    }

    #[test]
    fn without_variance_all_are_the_softmax() {
        for s in [2usize, 4, 7] {
            let m: Vec<f64> = (0..s).map(|i| (i as f64 * 1.7).sin() * 3.0).collect();
            let mut exact = m.clone();
            softmax(&mut exact);
            let (mut mean, mut deviation) = (vec![0.0; s], vec![0.0; s]);
            for covariance in [Covariance::Child, Covariance::Joint] {
                let softmax = layout(Structure::Subclasses(vec![1; s]), s, covariance);
                for method in [Method::Probit, Method::MonteCarlo, Method::Map] {
                    let mut expect = TreeExpect::new(&softmax, method, 1);
                    expect.classes(&softmax, method, &m, &mut vec![0.0; softmax.forms], &mut mean, &mut deviation);
                    close(&mean, &exact, 1e-12);
                    assert!(deviation.iter().all(|d| *d < 1e-7));
                }
            }
        }
    }

    /// Paths multiply: a gate over two experts.
    #[test]
    fn experts_are_blended_by_their_gate() {
        let experts = layout(Structure::Experts(2), 2, Covariance::Child);
        let m = [0.4, -0.3, 1.0, -1.0, -0.5, 0.2];
        let mut mean = [0.0; 2];
        TreeExpect::new(&experts, Method::Map, 0).classes(&experts, Method::Map, &m, &mut [0.0; 6], &mut mean, &mut []);
        let sigmoid = |t: f64| 1.0 / (1.0 + (-t).exp());
        let gate = sigmoid(0.7);
        assert!((mean[0] - gate * sigmoid(2.0) - (1.0 - gate) * sigmoid(-0.7)).abs() < 1e-14);
    }
}
