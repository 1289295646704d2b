//! The sampler as the checks see it: five rows, everything from the prior, some labels unknown.
//!
//! A sweep begins with the rows' components, α and the parameters of labels, from which it draws auxiliary variables; the
//! parameters of features are drawn afresh, but belong to the unknowns so that functions of them can be compared.

use super::ask::Local;
use super::generate::{Joint, Unknowns};
use super::rows::{and_term, logit_term};
use super::{Gibbs, LabelModel, State};
use crate::Result;
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress};
use crate::data::{Dataset, Target};
use crate::model::labels::kernel::Kernel;
use crate::model::labels::patterns::Patterns;
use crate::model::labels::schema::Schema;
use crate::model::labels::settings::{KernelKind, Settings};
use crate::run::{Block, Philox};
use crate::special::sigmoid;

/// Runs the three checks of a sampler.
pub(crate) fn check(subject: &Subject, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    // precisions change slowly where there is little to learn them from: fewer draws, further apart
    let calibration = CalibrationSettings { draws: 15, bins: 8, max_thin: 2000, ..effort.calibration.clone() };
    crate::check::check(subject, &Effort { calibration, ..effort.clone() }, seed, progress)
}

/// Subject of the checks.
pub(crate) struct Subject {
    /// The joint distribution.
    pub(crate) joint: Joint,
}

/// Raw columns, labels, and what a row of counts sums to.
const COLUMNS: usize = 2;
const LABELS: usize = 2;
const TOTAL: u32 = 3;
/// Components that a chain begins with.
const SEEDS: usize = 3;

impl Subject {
    /// The sampler that is set, over rows that are taken as they are. Of `cut` it is the mixture: classifiers are another posterior, and the
    /// hinge is no likelihood that labels could be drawn from.
    pub(crate) fn of(settings: &Settings) -> Result<Self> {
        let kernel = if settings.features == KernelKind::Auto { KernelKind::GaussianDiag } else { settings.features };
        let schema = Schema::drawn(COLUMNS, (1..=LABELS).map(|c| c.to_string()).collect(), kernel);
        // a power is not a distribution that can be drawn from
        let exact = Settings { feature_power: Some(1.0), ..settings.clone() };
        let sampler = Gibbs { apart: None, ..Gibbs::of(schema.mixture(&exact)?, SEEDS) };
        Ok(Self { joint: Joint { sampler, rows: 5, total: TOTAL, unknown: 0.2 } })
    }

    /// A parameter of features of a component, made bounded.
    fn feature(&self, parameters: &[f64]) -> f64 {
        match (&self.joint.sampler.kernel, parameters.first()) {
            (_, None) => 0.0,
            (Kernel::Multinomial(_), Some(p)) => p.exp(),
            (Kernel::Bernoulli(_), Some(p)) => sigmoid(*p),
            (Kernel::Diagonal(_) | Kernel::Full(_), Some(p)) => p.atan(),
        }
    }

    /// A pattern of a component, made bounded.
    fn pattern(&self, value: f64) -> f64 {
        match &self.joint.sampler.labels {
            LabelModel::Logit { .. } => value.atan(),
            LabelModel::Patterns(Patterns::Multinomial { .. }) => value.exp(),
            _ => sigmoid(value),
        }
    }
}

impl Checkable for Subject {
    type Program = Gibbs;
    type Model = Joint;

    fn title(&self) -> String {
        let labels = match &self.joint.sampler.labels {
            LabelModel::Logit { .. } => "logit",
            LabelModel::And { .. } => "and",
            LabelModel::Patterns(Patterns::Bernoulli { .. }) => "cut, Bernoulli patterns",
            LabelModel::Patterns(Patterns::Multinomial { .. }) => "cut, multinomial patterns",
        };
        let features = match &self.joint.sampler.kernel {
            Kernel::Multinomial(_) => "multinomial",
            Kernel::Bernoulli(_) => "Bernoulli",
            Kernel::Diagonal(_) => "diagonal Gaussian",
            Kernel::Full(_) => "full Gaussian",
        };
        format!("labels by gibbs, {labels}, {features} features")
    }

    fn block_rows(&self) -> usize {
        2
    }

    fn model(&self) -> &Joint {
        &self.joint
    }

    fn program(&self) -> &Gibbs {
        &self.joint.sampler
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, unknowns: Unknowns, blocks: &[Block<'_>]) -> Result<Installed<Gibbs>> {
        let mut z = unknowns.z.into_iter();
        let own = |block: &Block<'_>| Local { z: z.by_ref().take(block.rows()).collect(), ln_slices: Vec::new() };
        Ok(Installed { locals: Some(blocks.iter().map(own).collect()), global: unknowns.state })
    }

    fn recover(&self, global: &State, locals: &[Local]) -> Result<Unknowns> {
        Ok(Unknowns { state: global.clone(), z: locals.iter().flat_map(|l| l.z.iter().copied()).collect() })
    }

    fn names(&self) -> Vec<String> {
        let mut names = vec![
            "alpha",
            "components",
            "rows 1 and 2 together",
            "all in the first",
            "row 1 in the first",
            "row 1 before row 2",
            "ln last component",
            "alpha × components",
            "feature of row 1",
            "feature of row 1, squared",
            "feature of row 1 × x",
            "features of rows 1 and 2",
            "pattern of row 1",
            "pattern of row 1, squared",
            "patterns of rows 1 and 2",
            "patterns of two labels",
            "pattern of row 1 × y",
            "patterns × features",
            "labels present",
            "log density of labels",
        ];
        if self.joint.sampler.labels.classifier().is_some() {
            names.extend(["w", "ln(1+w²)", "w of two labels", "w x (y − ½)", "ln precision of w", "precision × w²", "w × pattern"]);
        }
        if matches!(self.joint.sampler.labels, LabelModel::Logit { .. }) {
            names.extend(["ln precision of b", "precision × b²", "ln precision of b × components", "precisions"]);
        }
        names.into_iter().map(String::from).collect()
    }

    fn functions(&self, unknowns: &Unknowns, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let sampler = &self.joint.sampler;
        let Unknowns { state, z } = unknowns;
        let Target::Labels(labels) = &data.target else { return };
        let (y, count, point) = (&labels.values, labels.names.len(), &state.point);
        let is = |holds: bool| f64::from(u8::from(holds));
        let occupied = state.occupied() as f64;
        let x = if data.x.cols() > 0 { data.x.to_dense()[0].atan() } else { 0.0 };
        let size = sampler.kernel.parameters();
        let feature = |i: usize| self.feature(&state.parameters[z[i] as usize * size..][..size]);
        let pattern = |i: usize, c: usize| self.pattern(point.patterns[z[i] as usize * count + c]);
        let last = z.iter().max().map_or(0.0, |m| f64::from(*m));
        let first = if y[0] < 0 { 0.0 } else { f64::from(y[0]) - 0.5 };
        out.extend([
            state.alpha,
            occupied,
            is(z[0] == z[1]),
            is(z.iter().all(|z| *z == 0)),
            is(z[0] == 0),
            is(z[0] < z[1]),
            last.ln_1p(),
            state.alpha * occupied,
            feature(0),
            feature(0) * feature(0),
            feature(0) * x,
            feature(0) * feature(1),
            pattern(0, 0),
            pattern(0, 0) * pattern(0, 0),
            pattern(0, 0) * pattern(1, 0),
            pattern(0, 0) * pattern(0, 1),
            pattern(0, 0) * first,
            pattern(0, 0) * feature(0),
            y.iter().filter(|y| **y == 1).count() as f64,
        ]);
        let mut predictor = vec![0.0; z.len() * count];
        if sampler.labels.classifier().is_some() {
            sampler.inputs.panel(data.x.view(), &mut Default::default()).mul_t(&point.weights, count, &mut predictor);
        }
        let density = |i: usize| {
            let (y, f) = (&y[i * count..(i + 1) * count], &predictor[i * count..(i + 1) * count]);
            let own = &point.patterns[z[i] as usize * count..][..count];
            match &sampler.labels {
                LabelModel::Logit { .. } => logit_term(y, f, own),
                LabelModel::And { .. } => and_term(y, f, own),
                LabelModel::Patterns(_) => y.iter().zip(own).map(|(y, p)| if *y == 1 { self.pattern(*p) } else { 0.0 }).sum(),
            }
        };
        out.push((0..z.len()).map(density).sum());
        if let Some(classifier) = sampler.labels.classifier() {
            let (w, other) = (point.weights[0], point.weights[classifier.dim]);
            let tau = point.weight_precision[0];
            out.extend([
                w.atan(),
                (w * w).ln_1p(),
                w.atan() * other.atan(),
                w.atan() * x * first,
                tau.ln(),
                tau * w * w,
                w.atan() * pattern(0, 0),
            ]);
        }
        if let LabelModel::Logit { .. } = sampler.labels {
            let (tau, b) = (point.pattern_precision[0], point.patterns[z[0] as usize * count]);
            out.extend([tau.ln(), tau * b * b, tau.ln() * occupied, tau.ln() * point.weight_precision[0].ln()]);
        }
    }
}
