//! Independent Gaussian weights by variational Bayes: the tree engine of the family softmax, told the same prior.
//!
//! Two classes have one weight vector an expert there too, and the prior is the same to the letter. Three classes or more have a vector each,
//! whose differences have the distribution of the contrasts here if their precision is doubled; intercepts keep one precision for all.

use serde_json::{Map, Value, json};

use super::point_prior::{PointPrior, Size};
use super::settings::{Intercept, Scale};
use super::{Settings, Shape};
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Needs, Questions, Survey, TargetKind};
use crate::model::softmax::{self, Softmax};
use crate::model::{Family, Fit, Model, short_number};
use crate::{Error, Result};

/// Settings that the tree has no use for; it has others in their place.
pub(super) const NOT_READ: [&str; 2] = ["tol", "gate_bound"];

/// The family with settings that are those of a tree.
#[derive(Debug, Clone)]
pub(super) struct TreeModel {
    settings: Settings,
    /// The tree's settings but for the precisions, which depend on the data.
    tree: Map<String, Value>,
}

impl TreeModel {
    pub(super) fn new(settings: Settings) -> Result<Self> {
        let refuse = |name: &str, value: &str, allowed: &str| {
            Err(Error::setting(name, value, format!("{allowed} with prior `gaussian` and inference `vb`")))
        };
        if let Some(tol) = settings.tol {
            return refuse("tol", &short_number(tol), "left out (the family `softmax` has one that counts nats, not nats a row)");
        }
        if settings.gate_bound != Settings::default().gate_bound {
            return refuse("gate_bound", "bouchard", "left out (the family `softmax` has `bound`)");
        }
        let mut tree = Map::new();
        let mut set = |name: &str, value: Value| {
            tree.insert(name.to_string(), value);
        };
        match settings.experts {
            // two children would otherwise share one vector
            2 => set("gates", json!({"coding": "full", "children": ["expert", "expert"]})),
            k => set("experts", json!(k.to_string())),
        }
        set("coding", json!("logistic"));
        set("precision", json!("fixed"));
        set("max_iter", json!(settings.max_iter));
        set("n_init", json!(settings.n_init));
        match settings.intercept {
            Intercept::Separate => set("bias_precision", json!(settings.tau0.powi(-2))),
            Intercept::Augment => {}
            Intercept::None => return refuse("intercept", "none", "`separate` or `augment`"),
        }
        match settings.scale {
            Scale::Auto | Scale::Standard => {}
            Scale::None => set("standardize", json!(false)),
            Scale::Maxabs => return refuse("scale", "maxabs", "`standard` or `none`"),
        }
        Ok(Self { settings, tree })
    }

    /// The tree over so many classes and inputs.
    fn model(&self, classes: usize, inputs: usize) -> Result<Box<dyn Model>> {
        let augmented = self.settings.intercept == Intercept::Augment;
        let shape = Shape::new(self.settings.experts as usize, classes, inputs + usize::from(augmented), !augmented);
        let point_prior = PointPrior::new(&self.settings, &shape);
        let precision = |size: Size| match size {
            Size::Gaussian { sd } => sd.powi(-2),
            Size::Gamma { .. } => 1.0,
        };
        let mut tree = self.tree.clone();
        let vectors = if classes == 2 { 1.0 } else { 2.0 };
        tree.insert("prior_precision".into(), json!(vectors * precision(point_prior.experts.size)));
        if shape.gates() > 0 {
            tree.insert("gate_precision".into(), json!(precision(point_prior.gates.size)));
        }
        Softmax.configure(&tree)
    }
}

impl TreeModel {
    pub(super) fn questions(&self) -> Questions {
        Questions { columns: true, ..Questions::needing(Needs::target(TargetKind::Classes)) }
    }

    pub(super) fn prepare(&self, survey: &Survey) -> Result<Fit> {
        // columns that are constant are left out
        let inputs = survey.columns().iter().filter(|c| c.deviation().is_some()).count();
        self.model(survey.header().classes().len(), inputs.max(1))?.prepare(survey)
    }

    pub(super) fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        let (classes, inputs) = softmax::Schema::sizes(schema)?;
        self.model(classes, inputs.max(1))?.reopen(schema)
    }

    pub(super) fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        self.model(2, 2)?.check(effort, seed, progress)
    }
}
