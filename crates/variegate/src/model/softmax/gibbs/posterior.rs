//! What the draws say of a row: averages over them, of class probabilities, of densities of real outcomes, of shares of components.
//!
//! Subclasses of a class, and experts, may change places from draw to draw. Averages over leaves do not see it; shares of components do,
//! and are refused where components can change places.

use serde::{Deserialize, Serialize};

use super::super::layout::components;
use super::super::tree::{Leaf, Structure};
use super::super::walk::Walk;
use super::super::{NAME, Schema, Settings};
use super::Gibbs;
use super::tree_draws::Tree;
use crate::answer::{
    Answers, ClassProbabilities, HiddenComponents, KeptDraws, NamedArray, Origin, PREDICT_PANEL, Posterior, Predict, PredictClasses,
    Responsibilities, Scored, Summary, average, check_prediction_rows, choose_method, for_scores,
};
use crate::data::{Dataset, Target};
use crate::run::{Piece, state};
use crate::special::log_sum_exp;
use crate::{Error, Result};

pub(in super::super) const SAVED: state::Kind = state::Kind::new("softmax draws", &["0.1"]);
pub(super) const METHODS: &[&str] = &["average"];

/// Posterior draws of a tree, with all that predictions need. Draws lie one after the other, chain after chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawsPosterior {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) structure: Structure,
    /// Draws of each chain.
    pub(super) lengths: Vec<usize>,
    /// Units of all nodes, then slopes of Gaussian leaves, one vector a row.
    pub(super) vectors: Vec<f64>,
    pub(super) alpha: Vec<f64>,
    /// Noise precision of each Gaussian leaf and output.
    pub(super) noise: Vec<f64>,
    /// Precision of the slopes of each Gaussian leaf.
    slope: Vec<f64>,
    /// Share of each component.
    pub(super) shares: Vec<f64>,
    pub(super) used: Vec<f64>,
    pub(super) log_joint: Vec<f64>,
    pub(super) log_likelihood: Vec<f64>,
}

/// A row as one draw sees it.
pub(super) struct Seen<'a> {
    /// Row of the data.
    pub(super) row: usize,
    /// Products of the row with the vectors of the draw.
    pub(super) m: &'a [f64],
    /// Number of the draw.
    pub(super) draw: usize,
    /// Probability of each leaf, given the row alone.
    pub(super) leaf: &'a [f64],
}

impl DrawsPosterior {
    pub(super) fn new(program: &Gibbs, schema: &Schema, settings: &Settings, structure: &Structure, chains: &[Piece]) -> Result<Self> {
        let layout = &program.layout;
        let groups = layout.nodes.iter().map(|n| n.prior.groups()).sum();
        let leaves = layout.gaussians() * layout.outputs;
        let draws = KeptDraws::of(chains)?;
        let (units, slopes) = (layout.units * layout.dim, leaves * layout.dim);
        let (of_nodes, of_leaves) = (draws.vectors("weights", units)?, draws.vectors("expert_weights", slopes)?);
        let n: usize = draws.lengths().iter().sum();
        let vectors = (0..n).flat_map(|i| of_nodes[i * units..(i + 1) * units].iter().chain(&of_leaves[i * slopes..(i + 1) * slopes]));
        Ok(Self {
            schema: schema.clone(),
            settings: settings.clone(),
            structure: structure.clone(),
            lengths: draws.lengths(),
            vectors: vectors.copied().collect(),
            alpha: draws.vectors("alpha", groups)?,
            noise: draws.vectors("noise_precision", leaves)?,
            slope: draws.vectors("slope_precision", layout.gaussians())?,
            shares: draws.vectors("shares", program.components.1)?,
            used: draws.numbers("components")?,
            log_joint: draws.numbers("log_joint")?,
            log_likelihood: draws.numbers("log_likelihood")?,
        })
    }

    pub(in super::super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    pub(super) fn program(&self) -> Gibbs {
        let design = self.schema.design.clone();
        let shape = self.settings.shape(&design);
        Gibbs::new(design, &self.structure, self.schema.outcome(), self.settings.coding, &shape, self.settings.leaf())
    }

    pub(super) fn draws(&self) -> usize {
        self.log_joint.len()
    }

    /// Number of real outcomes; 0 for a classifier.
    pub(super) fn outputs(&self) -> usize {
        self.schema.y_mean.len()
    }

    /// The draws as rows are multiplied with them.
    pub(super) fn tree<'a>(&'a self, program: &'a Gibbs) -> Tree<'a> {
        let class = |leaf: &Leaf| if let Leaf::Class(c) = leaf { *c as usize } else { 0 };
        Tree { of: self, program, class: program.layout.leaves.iter().map(class).collect() }
    }

    /// Calls `f` for every row of a panel and every draw, the draws of a row in order.
    pub(super) fn for_draws(
        program: &Gibbs,
        scored: &mut Scored<'_>,
        (walk, leaf): &mut (Walk, Vec<f64>),
        mut f: impl FnMut(usize, Seen<'_>),
    ) {
        let layout = &program.layout;
        walk.resize(layout);
        leaf.resize(layout.leaves.len(), 1.0);
        let draws = scored.draws;
        for i in 0..scored.count {
            let row = scored.first + i;
            for (m, &draw) in scored.row(i).chunks_exact(layout.vectors()).zip(draws) {
                if !layout.nodes.is_empty() {
                    program.paths(m, walk, leaf);
                }
                f(i, Seen { row, m, draw, leaf });
            }
        }
    }

    /// Log density of the outcomes of a row in each leaf, in the user's units.
    pub(super) fn leaf_densities(&self, program: &Gibbs, seen: &Seen<'_>, outcomes: &[f64]) -> Vec<f64> {
        let (layout, s) = (&program.layout, &self.schema);
        let outputs = layout.outputs;
        let noise = &self.noise[seen.draw * layout.gaussians() * outputs..];
        let one = |leaf: usize, q: usize| {
            let (at, y) = (leaf * outputs + q, (outcomes[q] - s.y_mean[q]) / s.y_scale[q]);
            let e = y - seen.m[layout.units + at];
            0.5 * (noise[at].ln() - (2.0 * std::f64::consts::PI).ln() - noise[at] * e * e) - s.y_scale[q].ln()
        };
        (0..layout.gaussians()).map(|leaf| (0..outputs).map(|q| one(leaf, q)).sum()).collect()
    }
}

impl Gibbs {
    /// Probability of each leaf for a row, from its products with the vectors of a draw.
    fn paths(&self, m: &[f64], walk: &mut Walk, leaf: &mut [f64]) {
        let layout = &self.layout;
        walk.reach[0] = 1.0;
        for (v, node) in layout.nodes.iter().enumerate() {
            let z = &mut walk.z[node.first_logit..node.first_logit + node.width()];
            node.logits_of(&m[node.first_unit..node.first_unit + node.units], z);
            let phi = log_sum_exp(z);
            for (c, child) in node.children.iter().enumerate() {
                let p = walk.reach[v] * (z[c] - phi).exp();
                match child {
                    super::Child::Node(below) => walk.reach[*below] = p,
                    super::Child::Leaf(below) => leaf[*below] = p,
                }
            }
        }
    }
}

impl PredictClasses for DrawsPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        PredictClasses::predict_with(self, data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        choose_method(how.method, METHODS)?;
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        average(&self.tree(&self.program()), data, how)
    }
}

impl HiddenComponents for DrawsPosterior {
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        let program = self.program();
        if program.tree.ln_symmetries() > 0.0 {
            return Err(Error::Unfit(format!(
                "components of {} change places between draws, so that their shares in a row have no meaning on average: use inference `vb` \
                 to see them",
                self.structure.describe()
            )));
        }
        let (of, count) = components(&program.layout, &self.structure);
        let codes: Option<Vec<Option<u32>>> = match &data.target {
            Target::Classes(c) if self.outputs() == 0 => {
                // a class that the model does not know says nothing
                let known: Vec<Option<u32>> =
                    c.names.iter().map(|n| self.schema.classes.iter().position(|k| k == n).map(|p| p as u32)).collect();
                Some(c.codes.iter().map(|code| known[*code as usize]).collect())
            }
            _ => None,
        };
        let outcomes = match &data.target {
            Target::Real { width, values } if self.outputs() > 0 && *width == self.outputs() => Some(values),
            _ => None,
        };
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let (outputs, leaves) = (self.outputs(), program.layout.leaves.len());
        let draws: Vec<usize> = (0..self.draws()).collect();
        let mut shares = vec![vec![0.0; PREDICT_PANEL * count]; data.rows().div_ceil(PREDICT_PANEL)];
        let add = |share: &mut Vec<f64>, i: usize, seen: &Seen<'_>, own: &mut [f64]| {
            own.copy_from_slice(seen.leaf);
            if let Some(values) = outcomes {
                let densities = self.leaf_densities(&program, seen, &values[seen.row * outputs..(seen.row + 1) * outputs]);
                let top = densities.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                own.iter_mut().zip(&densities).for_each(|(p, d)| *p *= (d - top).exp());
            } else if let Some(class) = codes.as_ref().and_then(|c| c[seen.row]) {
                own.iter_mut().zip(&program.layout.leaves).filter(|(_, l)| **l != Leaf::Class(class)).for_each(|(p, _)| *p = 0.0);
            }
            let total: f64 = own.iter().sum();
            for (component, p) in of.iter().zip(own.iter()) {
                let part = if total > 0.0 { p / total } else { 1.0 / leaves as f64 };
                share[i * count + component] += part;
            }
        };
        for_scores(
            &self.tree(&program),
            (data.x.view(), 0),
            &draws,
            &mut shares,
            |_| true,
            |share, mut scored, room| {
                let mut own = vec![0.0; leaves];
                Self::for_draws(&program, &mut scored, room, |i, seen| add(share, i, &seen, &mut own));
            },
        );
        let mut share = shares.concat();
        share.truncate(data.rows() * count);
        share.iter_mut().for_each(|s| *s /= self.draws() as f64);
        let names = if self.plain() && self.outputs() == 0 {
            self.schema.classes.clone()
        } else {
            (1..=count).map(|c| format!("component {c}")).collect()
        };
        Ok(Responsibilities { names, share })
    }
}

impl Posterior for DrawsPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        let common = Answers { components: Some(self), likelihoods: Some(self), ..Answers::default() };
        if self.outputs() > 0 { Answers { outcomes: Some(self), ..common } } else { Answers { classes: Some(self), ..common } }
    }

    fn summary(&self) -> Summary {
        self.report()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.named_arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
