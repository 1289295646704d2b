//! A tree as a distribution, and data drawn from it: standard normal columns, precisions and weights from the prior, paths and outcomes
//! from the tree.

use rand_distr::{Distribution, Gamma, StandardNormal};
use serde_json::{Map, Value, json};

use super::bound::tilted::softmax;
use super::layout::Layout;
use super::leaf::LeafPrior;
use super::policy::Policy;
use super::settings::{Settings, Task};
use super::tree::{Child, Emission, Leaf, Structure};
use crate::check::Generative;
use crate::check::generative::{draw_until, normal_features};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Simulation, Truth as Told};
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

/// A tree as a distribution.
#[derive(Debug, Clone)]
pub(super) struct Joint {
    pub(super) layout: Layout,
    outcome: Emission,
    gamma: (f64, f64),
    leaf: LeafPrior,
}

/// All parameters of a tree.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    /// Units of all nodes, then slopes of each Gaussian leaf and output, one a row.
    pub(super) vectors: Vec<f64>,
    /// Precision of each group of weights, node after node.
    pub(super) alpha: Vec<f64>,
    /// Precision of the noise of each Gaussian leaf and output.
    pub(super) noise: Vec<f64>,
    /// Precision of the slopes of each Gaussian leaf, relative to the noise.
    pub(super) slope: Vec<f64>,
}

/// Precisions stay within these: a small shape draws some that underflow, and their weights would not be finite.
const PRECISIONS: (f64, f64) = (1e-200, 1e200);

impl Joint {
    /// The tree with these priors.
    pub(super) fn new(layout: Layout, outcome: Emission, gamma: (f64, f64), leaf: LeafPrior) -> Self {
        Self { layout, outcome, gamma, leaf }
    }

    /// The tree of a structure as it is set.
    pub(super) fn of(settings: &Settings, structure: &Structure, outcome: Emission, design: &Design) -> Self {
        let (tree, shape) = (structure.tree(outcome, settings.coding), settings.shape(design));
        Self::new(Layout::new(&tree, &shape, outcome, design.dim()), outcome, shape.gamma, settings.leaf())
    }

    /// The leaf that a design row ends in.
    fn leaf(&self, truth: &Truth, row: &[f64], rng: &mut Philox) -> usize {
        let mut at = self.layout.root;
        loop {
            match at {
                Child::Leaf(leaf) => return leaf,
                Child::Node(number) => {
                    let node = &self.layout.nodes[number];
                    let dim = self.layout.dim;
                    let units: Vec<f64> =
                        (node.first_unit..node.first_unit + node.units).map(|u| dot(row, &truth.vectors[u * dim..(u + 1) * dim])).collect();
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
}

/// A draw from Gamma(shape, rate).
fn gamma((shape, rate): (f64, f64), rng: &mut Philox) -> Result<f64> {
    let distribution = Gamma::new(shape, 1.0).map_err(|e| Error::Unfit(format!("{shape} is no shape to draw a precision from ({e})")))?;
    Ok((distribution.sample(rng) / rate).clamp(PRECISIONS.0, PRECISIONS.1))
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

impl Generative for Joint {
    type Unknowns = Truth;
    type Given = Matrix<'static>;

    fn prior(&self, rng: &mut Philox) -> Result<Truth> {
        let layout = &self.layout;
        let mut truth = Truth { vectors: Vec::new(), alpha: Vec::new(), noise: Vec::new(), slope: Vec::new() };
        for node in &layout.nodes {
            let alpha: Vec<f64> = (0..node.prior.groups()).map(|_| gamma(self.gamma, rng)).collect::<Result<_>>()?;
            let precisions = node.prior.spread(&alpha);
            truth.vectors.extend(precisions.iter().map(|p| normal(rng) / p.clamp(PRECISIONS.0, PRECISIONS.1).sqrt()));
            truth.alpha.extend(alpha);
        }
        for _ in 0..layout.gaussians() {
            let noise: Vec<f64> = (0..layout.outputs).map(|_| gamma(self.leaf.noise, rng)).collect::<Result<_>>()?;
            let kappa = match self.leaf.fixed_slope {
                Some(kappa) => kappa,
                None => gamma(self.leaf.slope, rng)?,
            };
            for tau in &noise {
                truth.vectors.extend((0..layout.dim).map(|_| normal(rng) / (tau * kappa).sqrt()));
            }
            truth.noise.extend(noise);
            truth.slope.push(kappa);
        }
        Ok(truth)
    }

    fn data(&self, truth: &Truth, x: &Matrix<'static>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let (layout, dim) = (&self.layout, self.layout.dim);
        let (mut codes, mut values) = (Vec::new(), Vec::new());
        // the bias, if there is one, is the last of a design row
        let mut row = vec![1.0; dim];
        for x in x.to_dense().chunks_exact(x.cols()) {
            row[..x.len()].copy_from_slice(x);
            let leaf = self.leaf(truth, &row, rng);
            match layout.leaves[leaf] {
                Leaf::Class(class) => codes.push(class),
                Leaf::Gaussian => {
                    for at in leaf * layout.outputs..(leaf + 1) * layout.outputs {
                        let slopes = &truth.vectors[(layout.units + at) * dim..][..dim];
                        let z = normal(rng);
                        values.push(dot(&row, slopes) + truth.noise[at].sqrt().recip() * z);
                    }
                }
            }
        }
        let target = match self.outcome {
            Emission::Classes(classes) => Target::Classes(Classes { codes, names: (1..=classes).map(|c| format!("c{c}")).collect() }),
            Emission::Real(width) => Target::Real { width, values },
        };
        Ok(Dataset::new(x.clone()).with_target(target))
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
    let outcome = outcome_of(settings, request);
    let structure = structure_of(settings, outcome)?;
    let model = Joint::of(settings, &structure, outcome, &Design::identity(columns, true));
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let draw = |rng: &mut Philox| {
        let truth = model.prior(rng)?;
        let data = model.data(&truth, &x, rng)?;
        Ok((truth, data))
    };
    let complete = |(_, data): &(_, Dataset<'_>)| match &data.target {
        Target::Classes(c) => rows < classes || (0..classes as u32).all(|k| c.codes.contains(&k)),
        _ => true,
    };
    let attempts = 1..=tries(rows, columns, model.layout.leaves.len());
    let Some(((truth, mut data), _)) = draw_until(stream, attempts, draw, complete)? else {
        return Err(Error::Unfit("nothing was drawn".into()));
    };
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    Ok(Simulation { data, truth: told(&model.layout, &truth, &structure, columns) })
}

pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, told: &Told<'_>, seed: u64) -> Result<Simulation> {
    let columns = request.columns;
    let outcome = outcome_of(settings, request);
    let structure = structure_of(settings, outcome)?;
    let model = Joint::of(settings, &structure, outcome, &Design::identity(columns, true));
    let truth = untold(&model.layout, told, &structure, columns)?;
    let stream = Told::stream(seed);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let mut data = model.data(&truth, &x, &mut stream.item(1).rng())?;
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    Ok(Simulation { data, truth: told.told() })
}

fn outcome_of(settings: &Settings, request: &Request) -> Emission {
    if settings.task == Task::Regression { Emission::Real(1) } else { Emission::Classes(request.classes) }
}

/// The truth as it is written down: weights and intercepts of the children of each node, slopes and noise of experts.
fn told(layout: &Layout, truth: &Truth, structure: &Structure, columns: usize) -> Map<String, Value> {
    let dim = columns + 1;
    let rows = |w: &[f64]| -> (Vec<Value>, Vec<f64>) {
        (w.chunks_exact(dim).map(|w| json!(&w[..columns])).collect(), w.chunks_exact(dim).map(|w| w[columns]).collect())
    };
    let nodes: Vec<Value> = layout
        .nodes
        .iter()
        .map(|node| {
            let units = &truth.vectors[node.first_unit * dim..(node.first_unit + node.units) * dim];
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
    if layout.gaussians() > 0 {
        let (slopes, intercepts) = rows(&truth.vectors[layout.units * dim..]);
        let noise: Vec<f64> = truth.noise.iter().map(|tau| tau.sqrt().recip()).collect();
        out.insert("experts".into(), json!({ "slopes": slopes, "intercepts": intercepts, "noise": noise }));
    }
    out
}

/// The other way: what rows are drawn from. Precisions of weights are not told, and rows do not need them.
fn untold(layout: &Layout, told: &Told<'_>, structure: &Structure, columns: usize) -> Result<Truth> {
    let dim = columns + 1;
    told.same("structure", &structure.describe())?;
    let joined = |from: &Told<'_>, weights: &str, count: usize| -> Result<Vec<f64>> {
        let (weights, intercepts) = (from.table(weights, count, columns)?, from.numbers("intercepts", count)?);
        Ok(weights.chunks_exact(columns).zip(intercepts).flat_map(|(w, b)| w.iter().copied().chain([b])).collect())
    };
    let plain = layout.nodes.len() == 1 && structure.is_concave();
    let nodes = if plain { Vec::new() } else { told.parts("nodes", layout.nodes.len())? };
    let mut vectors = Vec::new();
    for (number, node) in layout.nodes.iter().enumerate() {
        let children = joined(nodes.get(number).unwrap_or(told), "weights", node.width())?;
        vectors.extend(node.unit_weights(&children, dim));
    }
    let leaves = layout.gaussians() * layout.outputs;
    let mut noise = Vec::new();
    if leaves > 0 {
        let experts = told.part("experts")?;
        vectors.extend(joined(&experts, "slopes", leaves)?);
        noise = experts.numbers("noise", leaves)?.iter().map(|sd| (sd * sd).recip()).collect();
    }
    Ok(Truth { vectors, alpha: Vec::new(), noise, slope: Vec::new() })
}
