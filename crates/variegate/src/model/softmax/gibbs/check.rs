//! The sampler as the checks see it: a tree over one column and a bias, parameters from the prior, outcomes from the tree.
//!
//! The structure, the coding and the groups of precisions are those that are set; the priors are the checks' own, because under
//! long tails or nearly no prior no sampler forgets fast enough to be judged. Classes come with one or two trials at a point, so that rows
//! have weights 0 to 2 and PG(2, c) is checked too. Every sweep draws the paths afresh: parameters are all it conditions on.

use rand_distr::{Distribution, StandardNormal};

use super::super::check::structure;
use super::super::layout::Shape;
use super::super::leaf::LeafPrior;
use super::super::simulate::Truth;
use super::super::tree::{Emission, Structure};
use super::super::walk::Walk;
use super::super::{Bound, Settings};
use super::{Gibbs, Point, State};
use crate::Result;
use crate::check::{
    CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress, calibration, joint_distribution, sweep_invariance,
};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::dist::Gamma;
use crate::linalg::dot;
use crate::run::{Block, Philox, Program};

/// Trials at each point.
const TRIALS: [u32; 5] = [1, 2, 1, 1, 1];

/// Subject of the checks.
pub(crate) struct Subject {
    program: Gibbs,
    outcome: Emission,
    title: String,
    /// Whether test functions depend on the order of components. A chain may keep to one order for thousands of sweeps, which one sweep and
    /// the joint distribution do not mind, but ranks among the draws of one posterior do.
    ordered: bool,
}

/// Runs the three checks of a sampler on the structure that is set.
pub(in super::super) fn check(
    settings: &Settings,
    effort: &Effort,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<CheckReport>> {
    let (structure, outcome) = structure(settings)?;
    let subject = Subject::new(settings, &structure, outcome);
    let mut reports =
        vec![sweep_invariance(&subject, &effort.invariance, seed, progress)?, joint_distribution(&subject, &effort.joint, seed, progress)?];
    // precisions of many weights are slow to forget where hardly any data hold the weights
    let effort = CalibrationSettings { max_thin: effort.calibration.max_thin.max(200), ..effort.calibration.clone() };
    reports.push(calibration(&subject.unordered(), &effort, seed, progress)?);
    Ok(reports)
}

impl Subject {
    /// The sampler of a structure with the coding and the groups of precisions that are set.
    pub(super) fn new(settings: &Settings, structure: &Structure, outcome: Emission) -> Self {
        let shape = Shape {
            bound: Bound::Tilted,
            covariance: None,
            precision: settings.precision,
            gamma: (3.0, 3.0),
            fixed: 1.5,
            fixed_gates: None,
            bias: settings.bias_precision.map(|_| 0.5),
        };
        let leaf = LeafPrior { noise: (3.0, 2.0), slope: (3.0, 3.0), fixed_slope: settings.slope_precision.map(|_| 0.5) };
        let program = Gibbs::new(Design::identity(1, true), structure, outcome, settings.coding, &shape, leaf);
        let title = format!("{} {}, precision {}", Gibbs::NAME, structure.describe(), settings.precision.word());
        Self { program, outcome, title, ordered: true }
    }

    /// The same with test functions that do not depend on the order of components.
    pub(super) fn unordered(self) -> Self {
        Self { ordered: false, ..self }
    }

    fn truth(&self, point: &Point) -> Truth {
        let layout = self.program.layout.clone();
        let at = layout.units * layout.dim;
        Truth {
            tree: self.program.tree.clone(),
            layout,
            units: point.vectors[..at].to_vec(),
            slopes: point.vectors[at..].to_vec(),
            noise: point.noise.iter().map(|t| t.sqrt().recip()).collect(),
        }
    }
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

impl Checkable for Subject {
    type Program = Gibbs;
    type Unknowns = Point;

    fn title(&self) -> String {
        self.title.clone()
    }

    fn prior(&self, rng: &mut Philox) -> Result<Point> {
        let layout = &self.program.layout;
        let mut point = Point { vectors: Vec::new(), alpha: Vec::new(), noise: Vec::new(), slope: Vec::new() };
        for node in &layout.nodes {
            let distribution = Gamma::new(self.program.gamma.0, self.program.gamma.1)?;
            let alpha: Vec<f64> = (0..node.prior.groups()).map(|_| distribution.sample(rng)).collect();
            point.vectors.extend(node.prior.spread(&alpha).iter().map(|a| normal(rng) / a.sqrt()));
            point.alpha.extend(alpha);
        }
        let prior = &self.program.leaf;
        for _ in 0..layout.gaussians() {
            let kappa = match prior.fixed_slope {
                Some(kappa) => kappa,
                None => Gamma::new(prior.slope.0, prior.slope.1)?.sample(rng),
            };
            for _ in 0..layout.outputs {
                let tau = Gamma::new(prior.noise.0, prior.noise.1)?.sample(rng);
                point.vectors.extend((0..layout.dim).map(|_| normal(rng) / (tau * kappa).sqrt()));
                point.noise.push(tau);
            }
            point.slope.push(kappa);
        }
        Ok(point)
    }

    fn simulate(&self, point: &Point, rng: &mut Philox) -> Result<Dataset<'static>> {
        let truth = self.truth(point);
        let (layout, dim) = (&truth.layout, truth.layout.dim);
        let (mut x, mut codes, mut counts, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for trials in TRIALS {
            let row = [normal(rng), 1.0];
            match self.outcome {
                Emission::Classes(classes) => {
                    let mut tally = vec![0.0; classes];
                    (0..trials).for_each(|_| tally[truth.class(&row, rng) as usize] += 1.0);
                    for (code, count) in tally.into_iter().enumerate() {
                        x.push(row[0]);
                        codes.push(code as u32);
                        counts.push(count);
                    }
                }
                Emission::Real(outputs) => {
                    let leaf = truth.leaf(&row, rng);
                    x.push(row[0]);
                    for at in leaf * outputs..(leaf + 1) * outputs {
                        values.push(dot(&row, &truth.slopes[at * dim..(at + 1) * dim]) + truth.noise[at] * normal(rng));
                    }
                }
            }
        }
        let target = match self.outcome {
            Emission::Classes(classes) => Target::Classes(Classes { codes, names: (0..classes).map(|c| c.to_string()).collect() }),
            Emission::Real(width) => Target::Real { width, values },
        };
        let mut data = Dataset::new(Matrix::dense(x.len(), 1, x)).with_target(target);
        if layout.outputs == 0 {
            data.weights = Some(counts);
        }
        Ok(data)
    }

    fn program(&self, _: &Dataset<'_>) -> Result<Gibbs> {
        Ok(self.program.clone())
    }

    fn install(&self, _: &Gibbs, point: Point, _: &[Block<'_>]) -> Result<Installed<Gibbs>> {
        Ok(Installed { global: State::at(point), locals: None })
    }

    fn recover(&self, _: &Gibbs, state: &State, _: &[Vec<u32>]) -> Result<Point> {
        Ok(state.now.clone())
    }

    /// Bounded functions of weights: their prior has long tails.
    fn names(&self) -> Vec<String> {
        let layout = &self.program.layout;
        let groups: usize = layout.nodes.iter().map(|n| n.prior.groups()).sum();
        let mut out: Vec<String> = Vec::new();
        if self.ordered {
            out.extend((0..layout.vectors()).flat_map(|u| (0..layout.dim).map(move |j| format!("tanh w[{u}][{j}]"))));
            out.extend((0..groups).map(|g| format!("ln alpha[{g}]")));
            out.extend((0..layout.gaussians() * layout.outputs).map(|q| format!("ln tau[{q}]")));
            out.extend((0..layout.gaussians()).map(|l| format!("ln kappa[{l}]")));
            for v in 0..layout.nodes.len() {
                out.extend(["tanh(w·w')", "min(|W|², 50)"].map(|f| format!("{f} of node {v}")));
            }
            out.extend(["y·tanh w", "y·x·tanh w"].map(String::from));
        } else {
            out.extend(["sum of tanh w²", "sum of ln precisions"].map(String::from));
        }
        out.extend(["mean y", "log likelihood"].map(String::from));
        out
    }

    fn functions(&self, point: &Point, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let (program, layout, dim) = (&self.program, &self.program.layout, self.program.layout.dim);
        let precisions = || point.alpha.iter().chain(&point.noise).chain(&point.slope).map(|v| v.ln());
        if self.ordered {
            out.extend(point.vectors.iter().map(|w| w.tanh()).chain(precisions()));
            for node in &layout.nodes {
                let w = &point.vectors[node.at_weights(dim)];
                out.push((w[0] * w[w.len() - dim]).tanh());
                out.push(dot(w, w).min(50.0));
            }
        } else {
            out.push(point.vectors.iter().map(|w| (w * w).tanh()).sum());
            out.push(precisions().sum());
        }
        let x = data.x.to_dense();
        let mut walk = Walk::default();
        walk.resize(layout);
        let mut residual = vec![0.0; layout.gaussians() * layout.outputs];
        let (mut sum, mut total, mut score, mut log_likelihood) = (0.0, 0.0, 0.0, 0.0);
        for (i, x) in x.iter().enumerate() {
            let b = data.weights.as_ref().map_or(1.0, |w| w[i]);
            let m: Vec<f64> = point.vectors.chunks_exact(dim).map(|w| dot(w, &[*x, 1.0])).collect();
            let (class, y, outcomes): (u32, f64, &[f64]) = match &data.target {
                Target::Classes(c) => (c.codes[i], f64::from(c.codes[i] == 0), &[]),
                Target::Real { width, values } => (0, values[i * width].tanh(), &values[i * width..(i + 1) * width]),
                _ => (0, 0.0, &[]),
            };
            program.ready(&m, &point.noise, |q| outcomes[q], &mut residual, &mut walk);
            log_likelihood += b * walk.up(layout, class, 1.0);
            (sum, total, score) = (sum + b * y, total + b, score + b * y * x);
        }
        if self.ordered {
            let w = point.vectors[0].tanh();
            out.extend([sum / total * w, score / total * w]);
        }
        out.extend([sum / total, log_likelihood]);
    }
}
