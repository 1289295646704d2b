//! How a tree is laid out in vectors: which weights, forms and statistics belong to which node and leaf.
//!
//! Every node has *units*, the weight vectors it is made of, from which its logits follow: z = units for the full coding, z = (u, 0)
//! for a logistic node, z = H u with Helmert's contrasts H for Böhning's bound. All units of all nodes lie in one S×D matrix, the
//! linear models of Gaussian leaves below them; what rows report has the same order.

use std::ops::Range;

use super::bound::{Bound, RowBound};
use super::covariance::Covariance;
use super::precision::{Precision, Prior};
use super::tree::{Child, Coding, Emission, Leaf, Structure, Tree};
use crate::data::design::packed_len;
use crate::model::gated::Gated;

/// How the logits of a node follow from its units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Logits {
    /// They are the units.
    Full,
    /// The one unit, and 0.
    Logistic,
    /// H times the units; H is S×(S−1), row-major, with orthonormal columns that sum to zero.
    Contrast(Vec<f64>),
}

/// Everything about a node but its state.
#[derive(Debug, Clone)]
pub(crate) struct NodeLayout {
    /// Its children.
    pub(crate) children: Vec<Child>,
    /// How logits follow from units.
    pub(crate) logits: Logits,
    /// Number of units.
    pub(crate) units: usize,
    /// Number of its first unit among all.
    pub(crate) first_unit: usize,
    /// The bound as rows see it.
    pub(crate) bound: RowBound,
    /// Which weights may correlate.
    pub(crate) covariance: Covariance,
    /// Prior of the units.
    pub(crate) prior: Prior,
    /// Number of forms (and curvatures) of a row.
    pub(crate) forms: usize,
    /// Place of the first of them among those of all nodes and leaves.
    pub(crate) first_form: usize,
    /// Place and length of its matrices in the vectors of forms and curvatures.
    pub(crate) matrices: Range<usize>,
    /// First logit among those of all nodes.
    pub(crate) first_logit: usize,
    /// For every class, the children that are its leaves; `None` for a node with other children.
    pub(crate) own: Option<Vec<Vec<usize>>>,
    /// Whether the node has a leaf of the class below it.
    pub(crate) reaches: Vec<bool>,
}

impl NodeLayout {
    /// Number of children.
    pub(crate) fn width(&self) -> usize {
        self.children.len()
    }

    /// Place of its logits among those of all nodes.
    pub(crate) fn at_logits(&self) -> Range<usize> {
        self.first_logit..self.first_logit + self.width()
    }

    /// Place of its units among those of all nodes.
    pub(crate) fn at_units(&self) -> Range<usize> {
        self.first_unit..self.first_unit + self.units
    }

    /// Place of the weights of its units, `dim` a unit.
    pub(crate) fn at_weights(&self, dim: usize) -> Range<usize> {
        self.first_unit * dim..(self.first_unit + self.units) * dim
    }

    /// Place of its forms among those of all nodes and leaves.
    pub(crate) fn at_forms(&self) -> Range<usize> {
        self.first_form..self.first_form + self.forms
    }

    /// Fills in the logits of a row from its units.
    pub(crate) fn logits_of(&self, units: &[f64], out: &mut [f64]) {
        match &self.logits {
            Logits::Full => out.copy_from_slice(units),
            Logits::Logistic => (out[0], out[1]) = (units[0], 0.0),
            Logits::Contrast(h) => {
                for (o, h) in out.iter_mut().zip(h.chunks_exact(units.len())) {
                    *o = crate::linalg::dot(h, units);
                }
            }
        }
    }

    /// The transpose of [`NodeLayout::logits_of`]: gradients of units from those of logits.
    pub(crate) fn units_of(&self, logits: &[f64], out: &mut [f64]) {
        match &self.logits {
            Logits::Full => out.copy_from_slice(logits),
            Logits::Logistic => out[0] = logits[0],
            Logits::Contrast(h) => {
                out.fill(0.0);
                for (l, h) in logits.iter().zip(h.chunks_exact(self.units)) {
                    for (o, h) in out.iter_mut().zip(h) {
                        *o += l * h;
                    }
                }
            }
        }
    }

    /// One weight vector a child (S×D) from those of the units.
    pub(crate) fn child_weights(&self, units: &[f64], dim: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.width() * dim];
        self.by_columns(units, &mut out, dim, |node, from, to| node.logits_of(from, to));
        out
    }

    /// Weight vectors of the units that give these to the children, up to a vector added to all children.
    pub(crate) fn unit_weights(&self, children: &[f64], dim: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.units * dim];
        self.by_columns(children, &mut out, dim, |node, from, to| match node.logits {
            Logits::Logistic => to[0] = from[0] - from[1],
            _ => node.units_of(from, to),
        });
        out
    }

    fn by_columns(&self, from: &[f64], to: &mut [f64], dim: usize, map: impl Fn(&Self, &[f64], &mut [f64])) {
        let (mut column, mut mapped) = (vec![0.0; from.len() / dim], vec![0.0; to.len() / dim]);
        for j in 0..dim {
            column.iter_mut().enumerate().for_each(|(c, v)| *v = from[c * dim + j]);
            map(self, &column, &mut mapped);
            mapped.iter().enumerate().for_each(|(c, v)| to[c * dim + j] = *v);
        }
    }
}

/// A tree in vectors.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Where every row begins.
    pub(crate) root: Child,
    /// The nodes, parents first.
    pub(crate) nodes: Vec<NodeLayout>,
    /// What each leaf emits.
    pub(crate) leaves: Vec<Leaf>,
    /// Number of design columns.
    pub(crate) dim: usize,
    /// Units of all nodes.
    pub(crate) units: usize,
    /// Real outputs of each Gaussian leaf; 0 where leaves emit classes.
    pub(crate) outputs: usize,
    /// Forms of a row over all nodes, and one a Gaussian leaf.
    pub(crate) forms: usize,
    /// Numbers of all matrices, those of Gaussian leaves included.
    pub(crate) matrices: usize,
    /// Logits of all nodes.
    pub(crate) logits: usize,
}

/// What a layout depends on beside the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    /// Bound of nodes.
    pub(crate) bound: Bound,
    /// The covariance asked for; `None` chooses by the size of the node.
    pub(crate) covariance: Option<Covariance>,
    /// Which weights share a precision, and the prior of precisions.
    pub(crate) precision: Precision,
    /// Shape and rate of the prior of precisions.
    pub(crate) gamma: (f64, f64),
    /// Precision of weights where it is fixed.
    pub(crate) fixed: f64,
    /// That of gates, if different.
    pub(crate) fixed_gates: Option<f64>,
    /// Precision of the bias where it has its own.
    pub(crate) bias: Option<f64>,
    /// `auto` takes a joint covariance up to this many weights of a node.
    pub(crate) joint_up_to: usize,
}

/// `auto` takes a joint covariance up to this many weights of a node, and full ones of children up to this many columns.
pub(crate) const SMALL: usize = 512;
/// The same for searches that fit many structures several times: joint covariances of large nodes predict no better and take most of the time.
pub(crate) const SMALL_IN_SEARCH: usize = 128;

impl Shape {
    /// The covariance of a node with so many units.
    pub(crate) fn covariance_of(&self, units: usize, dim: usize, bound: RowBound) -> Covariance {
        match (bound, self.covariance) {
            (RowBound::Bohning, _) => Covariance::Shared,
            // this bound sees each child alone: its joint optimum is block diagonal
            (RowBound::Double, Some(Covariance::Joint)) => Covariance::Child,
            (_, Some(chosen)) => chosen.at_most(dim),
            (RowBound::Double, None) if dim <= SMALL => Covariance::Child,
            (_, None) if units * dim <= self.joint_up_to => Covariance::Joint,
            (_, None) if dim <= SMALL || bound == RowBound::Jj => Covariance::Child,
            (_, None) => Covariance::Blocks(1),
        }
    }
}

impl Layout {
    /// Lays out a tree over `dim` design columns.
    pub(crate) fn new(tree: &Tree, shape: &Shape, outcome: Emission, dim: usize) -> Self {
        Self::build(tree, shape, outcome, dim, false)
    }

    /// The same for predictions, which need the variances of every node of every row.
    pub(crate) fn for_prediction(tree: &Tree, shape: &Shape, outcome: Emission, dim: usize) -> Self {
        Self::build(tree, shape, outcome, dim, true)
    }

    fn build(tree: &Tree, shape: &Shape, outcome: Emission, dim: usize, predicting: bool) -> Self {
        let (classes, outputs) = match outcome {
            Emission::Classes(classes) => (classes, 0),
            Emission::Real(outputs) => (0, outputs),
        };
        let mut layout = Self {
            root: tree.root,
            nodes: Vec::with_capacity(tree.nodes.len()),
            leaves: tree.leaves.clone(),
            dim,
            units: 0,
            outputs,
            forms: 0,
            matrices: 0,
            logits: 0,
        };
        for (number, branch) in tree.nodes.iter().enumerate() {
            let s = branch.children.len();
            let (logits, units) = match (branch.coding, shape.bound) {
                (Coding::Logistic, _) => (Logits::Logistic, 1),
                (Coding::Full, Bound::Bohning) => (Logits::Contrast(helmert(s)), s - 1),
                (Coding::Full, _) => (Logits::Full, s),
            };
            let kind = match (branch.coding, shape.bound) {
                (Coding::Logistic, _) | (_, Bound::Jj) => RowBound::Jj,
                (_, Bound::Double) => RowBound::Double,
                (_, Bound::Bohning) => RowBound::Bohning,
                (_, Bound::Tilted) => RowBound::TiltedChild,
            };
            let covariance = shape.covariance_of(units, dim, kind);
            let bound = if kind == RowBound::TiltedChild && covariance == Covariance::Joint { RowBound::TiltedJoint } else { kind };
            let forms = match bound {
                // every row reaches the root, so its curvature is known beforehand and its variances only matter in sum
                RowBound::Bohning if number == 0 && !predicting => 0,
                RowBound::Jj | RowBound::Bohning => 1,
                RowBound::TiltedJoint => packed_len(s),
                RowBound::TiltedChild | RowBound::Double => s,
            };
            let length = forms * covariance.matrix_len(dim);
            let emits = |c: &Child| matches!(c, Child::Leaf(l) if tree.leaves[*l] != Leaf::Gaussian);
            let own = branch.children.iter().all(emits).then(|| {
                let class = |child: &Child| match child {
                    Child::Leaf(leaf) => tree.leaves[*leaf],
                    Child::Node(_) => Leaf::Gaussian,
                };
                (0..classes as u32).map(|c| (0..s).filter(|place| class(&branch.children[*place]) == Leaf::Class(c)).collect()).collect()
            });
            let fixed = if own.is_none() { shape.fixed_gates.unwrap_or(shape.fixed) } else { shape.fixed };
            layout.nodes.push(NodeLayout {
                children: branch.children.clone(),
                logits,
                units,
                first_unit: layout.units,
                bound,
                covariance,
                prior: Prior::new(shape.precision, units, dim, shape.gamma.0, shape.gamma.1, fixed, shape.bias),
                forms,
                first_form: layout.forms,
                matrices: layout.matrices..layout.matrices + length,
                first_logit: layout.logits,
                own,
                reaches: (0..classes as u32).map(|c| tree.emits(number, c)).collect(),
            });
            layout.units += units;
            layout.forms += forms;
            layout.matrices += length;
            layout.logits += s;
        }
        layout.forms += layout.gaussians();
        layout.matrices += layout.gaussians() * packed_len(dim);
        layout
    }

    /// The gate over experts that the tree is, if it is one (or a single expert): every child of the root gives one leaf to each class.
    pub(crate) fn gated(&self) -> Option<Gated> {
        let classes = self.nodes.first()?.reaches.len();
        let experts = if self.nodes.len() == 1 { &self.nodes[..] } else { &self.nodes[1..] };
        let plain = |node: &NodeLayout| node.own.as_ref().is_some_and(|own| own.iter().enumerate().all(|(c, leaves)| leaves[..] == [c]));
        let logits = &experts.first()?.logits;
        let gate = self.nodes.len() == 1
            || self.nodes[0].logits == Logits::Full && self.nodes[0].children.iter().enumerate().all(|(k, c)| *c == Child::Node(k + 1));
        let odds_of = match logits {
            Logits::Full => None,
            Logits::Logistic => Some(0),
            Logits::Contrast(_) => return None,
        };
        let alike = experts.iter().all(|node| plain(node) && node.logits == *logits && node.width() == classes);
        (gate && alike && classes >= 2 && self.nodes[0].children.len() == if self.nodes.len() == 1 { classes } else { experts.len() })
            .then_some(Gated { experts: experts.len(), classes, odds_of })
    }

    /// Number of Gaussian leaves.
    pub(crate) fn gaussians(&self) -> usize {
        if self.outputs > 0 { self.leaves.len() } else { 0 }
    }

    /// Vectors of D entries: units, then the linear models of the leaves.
    pub(crate) fn vectors(&self) -> usize {
        self.units + self.gaussians() * self.outputs
    }

    /// Numbers that a likelihood depends on: all vectors, then one log precision a Gaussian leaf and output.
    pub(crate) fn parameters(&self) -> usize {
        self.vectors() * self.dim + self.gaussians() * self.outputs
    }

    /// First form of the Gaussian leaves.
    pub(crate) fn leaf_form(&self) -> usize {
        self.forms - self.gaussians()
    }

    /// Place of the matrix of a Gaussian leaf.
    pub(crate) fn leaf_matrix(&self, leaf: usize) -> Range<usize> {
        let len = packed_len(self.dim);
        let first = self.matrices - (self.gaussians() - leaf) * len;
        first..first + len
    }

    /// Whether a sweep must be ready to take a step back.
    pub(crate) fn needs_damping(&self) -> bool {
        self.nodes.iter().any(|n| n.bound.needs_damping())
    }

    /// Whether means are solved for by conjugate gradients over the rows.
    pub(crate) fn needs_products(&self) -> bool {
        self.nodes.iter().any(|n| n.covariance.needs_products())
    }

    /// The covariance of the largest node, for messages.
    pub(crate) fn covariance(&self) -> Covariance {
        self.nodes.iter().max_by_key(|n| n.units).map_or(Covariance::Joint, |n| n.covariance)
    }

    /// Rank of the basis that low-rank covariances need.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.nodes.iter().find_map(|n| match n.covariance {
            Covariance::LowRank(rank) => Some(rank),
            _ => None,
        })
    }
}

/// Which subclass or expert each leaf belongs to, and how many there are.
pub(crate) fn components(layout: &Layout, structure: &Structure) -> (Vec<usize>, usize) {
    let leaves = layout.leaves.len();
    match structure {
        Structure::Experts(1) => (vec![0; leaves], 1),
        Structure::Experts(count) => {
            let mut of = vec![0; leaves];
            for (expert, child) in layout.nodes[0].children.iter().enumerate() {
                let below = match child {
                    Child::Leaf(leaf) => vec![*leaf],
                    Child::Node(node) => layout.nodes[*node]
                        .children
                        .iter()
                        .filter_map(|c| if let Child::Leaf(leaf) = c { Some(*leaf) } else { None })
                        .collect(),
                };
                below.into_iter().for_each(|leaf| of[leaf] = expert);
            }
            (of, *count)
        }
        _ => ((0..leaves).collect(), leaves),
    }
}

/// Helmert's contrasts: column j sets child j+1 against the mean of those before it.
fn helmert(s: usize) -> Vec<f64> {
    let mut h = vec![0.0; s * (s - 1)];
    for j in 0..s - 1 {
        let scale = ((j + 1) as f64 * (j + 2) as f64).sqrt().recip();
        for i in 0..=j {
            h[i * (s - 1) + j] = scale;
        }
        h[(j + 1) * (s - 1) + j] = -((j + 1) as f64) * scale;
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_are_orthonormal_and_sum_to_zero() {
        for s in 2..7 {
            let h = helmert(s);
            for a in 0..s - 1 {
                assert!((0..s).map(|i| h[i * (s - 1) + a]).sum::<f64>().abs() < 1e-14);
                for b in 0..=a {
                    let product: f64 = (0..s).map(|i| h[i * (s - 1) + a] * h[i * (s - 1) + b]).sum();
                    assert!((product - f64::from(a == b)).abs() < 1e-14);
                }
            }
        }
    }
}
