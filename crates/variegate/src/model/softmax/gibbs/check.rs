//! The sampler as the checks see it: a tree over one column and a bias, parameters from the prior that is set, outcomes from the tree.
//!
//! Classes come with one or two trials at a point, so that rows have weights 0 to 2 and PG(2, c) is checked too. Every sweep draws the paths
//! afresh: parameters are all it conditions on.

use super::super::check::{schema, structure};
use super::super::simulate::{Joint, Truth};
use super::super::tree::{Emission, Structure};
use super::super::walk::Walk;
use super::super::{Precision, Settings};
use super::fit::{program_of, structure_of};
use super::{Gibbs, Point, State};
use crate::Result;
use crate::check::generative::Trials;
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress, check_ranked};
use crate::data::{Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::run::{Block, Philox, Program};

const TRIALS: Trials<'static> = Trials(&[1, 2, 1, 1, 1]);

/// Subject of the checks.
pub(super) struct Subject {
    program: Gibbs,
    model: Joint,
    /// What weights of nodes are multiplied by in test functions: tanh tells most of numbers near 1.
    scale: f64,
    title: String,
    /// Whether test functions depend on the order of components.
    ordered: bool,
}

/// Runs the three checks of the sampler that is set.
pub(in super::super) fn check(
    settings: &Settings,
    effort: &Effort,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<CheckReport>> {
    let (_, outcome) = structure(settings)?;
    let structure = structure_of(settings, outcome)?;
    let subject = || Subject::new(settings, &structure, outcome);
    // precisions of many weights are slow to forget where hardly any data hold the weights
    let calibration = CalibrationSettings { max_thin: effort.calibration.max_thin.max(400), ..effort.calibration.clone() };
    check_ranked(&subject(), &subject().unordered(), &Effort { calibration, ..effort.clone() }, seed, progress)
}

impl Subject {
    /// The sampler of a structure, as a fit makes it.
    pub(super) fn new(settings: &Settings, structure: &Structure, outcome: Emission) -> Self {
        let schema = schema(outcome, Design::identity(1, true), Vec::new());
        let program = program_of(settings, &schema, structure);
        let model = Joint::new(program.layout.clone(), outcome, program.gamma, program.leaf);
        let title = format!("{} {}, precision {}", Gibbs::NAME, structure.describe(), settings.precision.word());
        let usual = if settings.precision == Precision::Fixed { settings.prior_precision } else { settings.a0 / settings.b0 };
        Self { program, model, scale: usual.sqrt(), title, ordered: true }
    }

    /// The same with test functions that do not depend on the order of components.
    pub(super) fn unordered(self) -> Self {
        Self { ordered: false, ..self }
    }
}

impl Checkable for Subject {
    type Program = Gibbs;
    type Model = Joint;

    fn title(&self) -> String {
        self.title.clone()
    }

    fn model(&self) -> &Joint {
        &self.model
    }

    fn program(&self) -> &Gibbs {
        &self.program
    }

    fn given(&self, rng: &mut Philox) -> Matrix<'static> {
        TRIALS.features(1, rng)
    }

    fn arrange(&self, data: Dataset<'static>) -> Dataset<'static> {
        TRIALS.gather(data)
    }

    fn install(&self, truth: Truth, _: &[Block<'_>]) -> Result<Installed<Gibbs>> {
        let Truth { vectors, alpha, noise, slope } = truth;
        Ok(Installed { global: State::at(Point { vectors, alpha, noise, slope }), locals: None })
    }

    fn recover(&self, state: &State, _: &[Vec<u32>]) -> Result<Truth> {
        let Point { vectors, alpha, noise, slope } = state.now.clone();
        Ok(Truth { vectors, alpha, noise, slope })
    }

    /// Bounded functions of weights: their prior may have long tails.
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

    fn functions(&self, point: &Truth, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let (program, layout, dim) = (&self.program, &self.program.layout, self.program.layout.dim);
        let scaled: Vec<f64> =
            point.vectors.iter().enumerate().map(|(i, w)| if i < layout.units * dim { w * self.scale } else { *w }).collect();
        let precisions = || point.alpha.iter().chain(&point.noise).chain(&point.slope).map(|v| v.ln());
        if self.ordered {
            out.extend(scaled.iter().map(|w| w.tanh()).chain(precisions()));
            for node in &layout.nodes {
                let w = &scaled[node.at_weights(dim)];
                out.push((w[0] * w[w.len() - dim]).tanh());
                out.push(dot(w, w).min(50.0));
            }
        } else {
            out.push(scaled.iter().map(|w| (w * w).tanh()).sum());
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
            let w = scaled[0].tanh();
            out.extend([sum / total * w, score / total * w]);
        }
        out.extend([sum / total, log_likelihood]);
    }
}
