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
use super::mixture::{Normal, quantile};
use crate::answer::{
    Answers, ClassProbabilities, HiddenComponents, KeptDraws, NamedArray, Origin, PREDICT_PANEL, Posterior, PredictClasses,
    PredictOutcomes, RealPrediction, Responsibilities, Summary, check_levels, check_prediction_rows, choose_method, for_panels,
};
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Target};
use crate::run::{Piece, state};
use crate::special::log_sum_exp;
use crate::{Error, Result};

pub(in super::super) const SAVED: state::Kind = state::Kind::new("softmax draws", &["0.1"]);
const METHODS: &[&str] = &["average"];
/// Vectors that a panel is multiplied with at a time: more would not stay in cache.
const TOGETHER: usize = 1024;

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
struct Seen<'a> {
    /// Row of the data.
    row: usize,
    /// Products of the row with the vectors of the draw.
    m: &'a [f64],
    /// Number of the draw.
    draw: usize,
    /// Probability of each leaf, given the row alone.
    leaf: &'a [f64],
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

    /// Calls `f` for every row and every draw: panel after panel of rows, in each of them the draws of a row in order.
    fn for_draws(&self, program: &Gibbs, data: &Dataset<'_>, mut f: impl FnMut(Seen<'_>)) -> Result<()> {
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let layout = &program.layout;
        let (vectors, dim) = (layout.vectors(), layout.dim);
        let mut walk = Walk::default();
        walk.resize(layout);
        let mut leaf = vec![1.0; layout.leaves.len()];
        let (mut scratch, mut products) = (PanelScratch::default(), Vec::new());
        let together = (TOGETHER / vectors).max(1);
        for_panels(data.x.view(), |first, count, x| {
            let mut panel = self.schema.design.panel(x, &mut scratch);
            for (number, some) in self.vectors.chunks(together * vectors * dim).enumerate() {
                let k = some.len() / dim;
                products.resize(x.rows() * k, 0.0);
                panel.mul_t(some, k, &mut products);
                for (i, m) in products.chunks_exact(k).enumerate().take(count) {
                    for (draw, m) in m.chunks_exact(vectors).enumerate() {
                        if !layout.nodes.is_empty() {
                            program.paths(m, &mut walk, &mut leaf);
                        }
                        f(Seen { row: first + i, m, draw: number * together + draw, leaf: &leaf });
                    }
                }
            }
        });
        Ok(())
    }

    /// Log density of the outcomes of a row in each leaf, in the user's units.
    fn leaf_densities(&self, program: &Gibbs, seen: &Seen<'_>, outcomes: &[f64]) -> Vec<f64> {
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
        choose_method(method, METHODS)?;
        let program = self.program();
        let k = self.schema.classes.len();
        let class: Vec<usize> = program.layout.leaves.iter().map(|l| if let Leaf::Class(c) = l { *c as usize } else { 0 }).collect();
        let mut probability = vec![0.0; k * data.rows()];
        let mut deviation = vec![0.0; k * data.rows()];
        let mut one = vec![0.0; k];
        self.for_draws(&program, data, |seen| {
            one.fill(0.0);
            class.iter().zip(seen.leaf).for_each(|(c, p)| one[*c] += p);
            for (c, p) in one.iter().enumerate() {
                probability[seen.row * k + c] += p;
                deviation[seen.row * k + c] += p * p;
            }
        })?;
        let n = self.draws() as f64;
        for (p, sd) in probability.iter_mut().zip(&mut deviation) {
            *p /= n;
            *sd = (*sd / n - *p * *p).max(0.0).sqrt();
        }
        if let Some(at) = probability.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / k + 1)));
        }
        Ok(ClassProbabilities { probability, deviation: Some(deviation) })
    }
}

impl PredictOutcomes for DrawsPosterior {
    fn outcomes(&self) -> usize {
        self.outputs()
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        choose_method(method, METHODS)?;
        let outputs = self.outputs();
        check_levels(levels)?;
        let given = match &data.target {
            Target::Real { width, values } if *width == outputs => Some(values),
            _ => None,
        };
        let program = self.program();
        let (units, leaves, draws) = (program.layout.units, program.layout.gaussians(), self.draws());
        let n = data.rows() * outputs;
        let mut out = RealPrediction {
            mean: vec![0.0; n],
            deviation: vec![0.0; n],
            quantiles: vec![vec![0.0; n]; levels.len()],
            ln_density: given.map(|_| vec![0.0; data.rows()]),
        };
        // of each row of a panel: a normal component for each output, draw and leaf, and the log density of each draw
        let mut panel_parts = vec![Normal::default(); PREDICT_PANEL * outputs * draws * leaves];
        let mut panel_densities = vec![0.0; PREDICT_PANEL * draws];
        self.for_draws(&program, data, |seen| {
            let slot = seen.row % PREDICT_PANEL;
            let parts = &mut panel_parts[slot * outputs * draws * leaves..][..outputs * draws * leaves];
            let densities = &mut panel_densities[slot * draws..(slot + 1) * draws];
            for leaf in 0..leaves {
                for q in 0..outputs {
                    let (at, scale) = (leaf * outputs + q, self.schema.y_scale[q]);
                    parts[(q * draws + seen.draw) * leaves + leaf] = Normal {
                        share: seen.leaf[leaf] / draws as f64,
                        mean: self.schema.y_mean[q] + scale * seen.m[units + at],
                        sd: scale / self.noise[seen.draw * leaves * outputs + at].sqrt(),
                    };
                }
            }
            if let Some(values) = given {
                let own = self.leaf_densities(&program, &seen, &values[seen.row * outputs..(seen.row + 1) * outputs]);
                densities[seen.draw] = log_sum_exp(&own.iter().zip(seen.leaf).map(|(d, p)| d + p.ln()).collect::<Vec<_>>());
            }
            if seen.draw + 1 < draws {
                return;
            }
            for q in 0..outputs {
                let (at, parts) = (seen.row * outputs + q, &parts[q * draws * leaves..(q + 1) * draws * leaves]);
                let mean: f64 = parts.iter().map(|p| p.share * p.mean).sum();
                let variance: f64 = parts.iter().map(|p| p.share * (p.sd * p.sd + (p.mean - mean) * (p.mean - mean))).sum();
                (out.mean[at], out.deviation[at]) = (mean, variance.sqrt());
                for (quantiles, level) in out.quantiles.iter_mut().zip(levels) {
                    quantiles[at] = quantile(*level, parts, mean, variance.sqrt());
                }
            }
            if let Some(density) = &mut out.ln_density {
                density[seen.row] = log_sum_exp(densities) - (draws as f64).ln();
            }
        })?;
        if let Some(at) = out.mean.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / outputs + 1)));
        }
        Ok(out)
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
        let (outputs, leaves) = (self.outputs(), program.layout.leaves.len());
        let mut share = vec![0.0; data.rows() * count];
        let mut own = vec![0.0; leaves];
        self.for_draws(&program, data, |seen| {
            own.copy_from_slice(seen.leaf);
            if let Some(values) = outcomes {
                let densities = self.leaf_densities(&program, &seen, &values[seen.row * outputs..(seen.row + 1) * outputs]);
                let top = densities.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                own.iter_mut().zip(&densities).for_each(|(p, d)| *p *= (d - top).exp());
            } else if let Some(class) = codes.as_ref().and_then(|c| c[seen.row]) {
                own.iter_mut().zip(&program.layout.leaves).filter(|(_, l)| **l != Leaf::Class(class)).for_each(|(p, _)| *p = 0.0);
            }
            let total: f64 = own.iter().sum();
            for (component, p) in of.iter().zip(&own) {
                let part = if total > 0.0 { p / total } else { 1.0 / leaves as f64 };
                share[seen.row * count + component] += part;
            }
        })?;
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
        let common = Answers { components: Some(self), ..Answers::default() };
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
