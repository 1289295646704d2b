//! Data from the prior: standard normal columns, precisions and weights from the prior, paths and outcomes from the tree.

use rand_distr::{Distribution, Gamma, StandardNormal};
use serde_json::{Map, Value, json};

use super::bound::tilted::softmax;
use super::layout::Layout;
use super::policy::Policy;
use super::settings::{Settings, Task};
use super::tree::{Child, Emission, Leaf, Structure, Tree};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::Simulation;
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of feature columns.
        columns: usize = 2, in whole(1, 5000);
        /// Number of classes.
        classes: usize = 3, in whole(2, 1000);
    }
}

/// Everything a tree is made of.
pub(super) struct Truth {
    pub(super) tree: Tree,
    pub(super) layout: Layout,
    /// Units of all nodes, U×D.
    pub(super) units: Vec<f64>,
    /// Slopes of the leaves, L×D (one outcome).
    pub(super) slopes: Vec<f64>,
    /// Standard deviation of the noise of each leaf.
    pub(super) noise: Vec<f64>,
}

/// Parameters of a tree from their prior.
pub(super) fn draw_truth(settings: &Settings, tree: Tree, outcome: Emission, design: &Design, rng: &mut Philox) -> Result<Truth> {
    let gamma = |name: &str, shape: f64, rate: f64, rng: &mut Philox| -> Result<f64> {
        let distribution = Gamma::new(shape, 1.0).map_err(|e| Error::setting(name, shape, format!("a shape to draw from ({e})")))?;
        // a small shape draws precisions that underflow; their weights would not be finite
        Ok((distribution.sample(rng) / rate).clamp(1e-200, 1e200))
    };
    let layout = Layout::new(&tree, &settings.shape(design), outcome, design.dim());
    let mut units = Vec::new();
    for node in &layout.nodes {
        let mut failed = None;
        let precisions = node.prior.draw(|rate| {
            gamma("a0", settings.a0, rate, rng).unwrap_or_else(|e| {
                failed = Some(e);
                1.0
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        units.extend(precisions.iter().map(|p| {
            let z: f64 = StandardNormal.sample(rng);
            z / p.clamp(1e-200, 1e200).sqrt()
        }));
    }
    let (mut slopes, mut noise) = (Vec::new(), Vec::new());
    for _ in 0..layout.gaussians() {
        let tau = gamma("noise_shape", settings.noise_shape, settings.noise_rate, rng)?;
        let kappa = match settings.slope_precision {
            Some(kappa) => kappa,
            None => gamma("slope_shape", settings.slope_shape, settings.slope_rate, rng)?,
        };
        for _ in 0..design.dim() {
            let z: f64 = StandardNormal.sample(rng);
            slopes.push(z / (tau * kappa).sqrt());
        }
        noise.push(tau.sqrt().recip());
    }
    Ok(Truth { tree, layout, units, slopes, noise })
}

impl Truth {
    /// The leaf that a design row ends in.
    pub(super) fn leaf(&self, row: &[f64], rng: &mut Philox) -> usize {
        let mut at = self.layout.root;
        loop {
            match at {
                Child::Leaf(leaf) => return leaf,
                Child::Node(number) => {
                    let node = &self.layout.nodes[number];
                    let dim = self.layout.dim;
                    let units: Vec<f64> =
                        (node.first_unit..node.first_unit + node.units).map(|u| dot(row, &self.units[u * dim..(u + 1) * dim])).collect();
                    let mut z = vec![0.0; node.width()];
                    node.logits_of(&units, &mut z);
                    softmax(&mut z);
                    let mut left = open01(rng);
                    let found = z.iter().position(|p| {
                        left -= p;
                        left < 0.0
                    });
                    at = node.children[found.unwrap_or(node.width() - 1)];
                }
            }
        }
    }

    /// The class of a row.
    pub(super) fn class(&self, row: &[f64], rng: &mut Philox) -> u32 {
        match self.layout.leaves[self.leaf(row, rng)] {
            Leaf::Class(class) => class,
            Leaf::Gaussian => 0,
        }
    }

    /// The real outcome of a row.
    fn outcome(&self, row: &[f64], rng: &mut Philox) -> f64 {
        let (leaf, dim) = (self.leaf(row, rng), self.layout.dim);
        let z: f64 = StandardNormal.sample(rng);
        dot(row, &self.slopes[leaf * dim..(leaf + 1) * dim]) + self.noise[leaf] * z
    }
}

/// A draw of weights and labels without a row of every class could not be fitted, so it is put back: up to a thousand times, less
/// often for large data.
fn tries(rows: usize, columns: usize, leaves: usize) -> u64 {
    (100_000_000 / (rows * (columns + 1) * leaves).max(1)).clamp(20, 1000) as u64
}

/// The one structure that the settings name.
fn structure_of(settings: &Settings, outcome: Emission) -> Result<Structure> {
    let regression_default = settings.task == Task::Regression && settings.experts.is_none() && settings.gates.is_none();
    if regression_default {
        return Ok(Structure::Experts(2));
    }
    match settings.search(outcome)?.policy {
        Policy::All(structures) if structures.len() == 1 => Ok(structures[0].clone()),
        _ => {
            let (name, text) =
                if settings.subclasses.is_some() { ("subclasses", &settings.subclasses) } else { ("experts", &settings.experts) };
            Err(Error::setting(name, text.clone().unwrap_or_default(), "numbers, to simulate from: there is nothing to search in"))
        }
    }
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let (columns, classes) = (request.columns, request.classes);
    let design = Design::identity(columns, true);
    let outcome = if settings.task == Task::Regression { Emission::Real(1) } else { Emission::Classes(classes) };
    let structure = structure_of(settings, outcome)?;
    let tree = structure.tree(outcome, settings.coding);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let mut rng = stream.item(0).rng();
    let values: Vec<f64> = (0..rows * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
    let design_row = |row: &[f64]| row.iter().copied().chain([1.0]).collect::<Vec<f64>>();
    let mut drawn = None;
    for attempt in 1..=tries(rows, columns, tree.leaves.len()) {
        let mut rng = stream.item(attempt).rng();
        let truth = draw_truth(settings, tree.clone(), outcome, &design, &mut rng)?;
        let target = match outcome {
            Emission::Classes(_) => {
                let codes = values.chunks_exact(columns).map(|row| truth.class(&design_row(row), &mut rng)).collect::<Vec<u32>>();
                let names = (1..=classes).map(|c| format!("c{c}")).collect();
                Target::Classes(Classes { codes, names })
            }
            Emission::Real(_) => {
                let values = values.chunks_exact(columns).map(|row| truth.outcome(&design_row(row), &mut rng)).collect();
                Target::Real { width: 1, values }
            }
        };
        let complete = match &target {
            Target::Classes(c) => rows < classes || (0..classes as u32).all(|k| c.codes.contains(&k)),
            _ => true,
        };
        drawn = Some((truth, target));
        if complete {
            break;
        }
    }
    let Some((truth, target)) = drawn else { return Err(Error::Unfit("nothing was drawn".into())) };
    let mut data = Dataset::new(Matrix::dense(rows, columns, values)).with_target(target);
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    Ok(Simulation { data, truth: told(&truth, &structure, columns) })
}

/// The truth as it is written down: weights and intercepts of the children of each node, slopes and noise of experts.
fn told(truth: &Truth, structure: &Structure, columns: usize) -> Map<String, Value> {
    let dim = columns + 1;
    let rows = |w: &[f64]| -> (Vec<Value>, Vec<f64>) {
        (w.chunks_exact(dim).map(|w| json!(&w[..columns])).collect(), w.chunks_exact(dim).map(|w| w[columns]).collect())
    };
    let nodes: Vec<Value> = truth
        .layout
        .nodes
        .iter()
        .map(|node| {
            let units = &truth.units[node.first_unit * dim..(node.first_unit + node.units) * dim];
            let (weights, intercepts) = rows(&node.child_weights(units, dim));
            json!({ "weights": weights, "intercepts": intercepts })
        })
        .collect();
    let mut out = Map::new();
    out.insert("structure".into(), json!(structure.describe()));
    if nodes.len() == 1 && structure.is_concave() {
        out.insert("weights".into(), nodes[0]["weights"].clone());
        out.insert("intercepts".into(), nodes[0]["intercepts"].clone());
    } else {
        out.insert("nodes".into(), Value::Array(nodes));
    }
    if truth.tree.leaves.first() == Some(&Leaf::Gaussian) {
        let (slopes, intercepts) = rows(&truth.slopes);
        out.insert("experts".into(), json!({ "slopes": slopes, "intercepts": intercepts, "noise": truth.noise }));
    }
    out
}
