//! What the draws say: averaged probabilities, mixtures of real outcomes, and summaries that do not depend on the order of components.
//!
//! Subclasses of a class, and experts, may change places from draw to draw. Predictions do not see it, and neither does what is reported:
//! coefficients where nothing can change places (plain softmax, one expert), elsewhere densities, precisions, shares in descending order.

use serde::{Deserialize, Serialize};

use super::super::score::components;
use super::super::tree::{Leaf, Structure};
use super::super::walk::Walk;
use super::super::{NAME, Precision, Schema, Settings};
use super::Gibbs;
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Target};
use crate::diagnostics::{convergence, summarise};
use crate::linalg::dot;
use crate::model::{
    ClassProbabilities, NamedArray, Posterior, RealPrediction, Responsibilities, Summary, PREDICT_PANEL, check_prediction_rows,
    choose_method, for_panels,
};
use crate::run::{Piece, state};
use crate::special::{log_sum_exp, norm_cdf};
use crate::{Error, Result};

pub(in super::super) const SAVED: &str = "softmax draws";
const METHODS: &[&str] = &["average"];
/// Vectors that a panel is multiplied with at a time: more would not stay in cache.
const TOGETHER: usize = 1024;
/// Precisions with a row each in the summary.
const MOST_ROWS: usize = 20;

/// Posterior draws of a tree, with all that predictions need. Draws lie one after the other, chain after chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawsPosterior {
    schema: Schema,
    settings: Settings,
    structure: Structure,
    /// Draws of each chain.
    lengths: Vec<usize>,
    /// Units of all nodes, then slopes of Gaussian leaves, one vector a row.
    vectors: Vec<f64>,
    alpha: Vec<f64>,
    /// Noise precision of each Gaussian leaf and output.
    noise: Vec<f64>,
    /// Precision of the slopes of each Gaussian leaf.
    slope: Vec<f64>,
    /// Share of each component.
    shares: Vec<f64>,
    used: Vec<f64>,
    log_joint: Vec<f64>,
    log_likelihood: Vec<f64>,
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
        let mut out = Self {
            schema: schema.clone(),
            settings: settings.clone(),
            structure: structure.clone(),
            lengths: Vec::new(),
            vectors: Vec::new(),
            alpha: Vec::new(),
            noise: Vec::new(),
            slope: Vec::new(),
            shares: Vec::new(),
            used: Vec::new(),
            log_joint: Vec::new(),
            log_likelihood: Vec::new(),
        };
        let groups = layout.nodes.iter().map(|n| n.prior.groups()).sum();
        let leaves = layout.gaussians() * layout.outputs;
        for table in chains.iter().map(|chain| &chain.draws.scalars).filter(|t| t.rows() > 0) {
            let find = |name: &str, expected: usize| match table.find(name) {
                Some((at, width)) if width == expected => Ok(at..at + width),
                None if expected == 0 => Ok(0..0),
                _ => Err(Error::Unfit(format!("the draws have no column `{name}` of {expected} number(s): they belong to another model"))),
            };
            let (units, slopes) = (find("weights", layout.units * layout.dim)?, find("expert_weights", leaves * layout.dim)?);
            let columns = [
                (find("alpha", groups)?, &mut out.alpha),
                (find("noise_precision", leaves)?, &mut out.noise),
                (find("slope_precision", layout.gaussians())?, &mut out.slope),
                (find("shares", program.components.1)?, &mut out.shares),
                (find("components", 1)?, &mut out.used),
                (find("log_joint", 1)?, &mut out.log_joint),
                (find("log_likelihood", 1)?, &mut out.log_likelihood),
            ];
            out.lengths.push(table.rows());
            for row in table.values.chunks_exact(table.width()) {
                out.vectors.extend(row[units.clone()].iter().chain(&row[slopes.clone()]));
            }
            for (place, to) in columns {
                table.values.chunks_exact(table.width()).for_each(|row| to.extend_from_slice(&row[place.clone()]));
            }
        }
        if out.lengths.is_empty() {
            return Err(Error::Unfit("the run has no draws yet, it was stopped during its warm-up: resume it".into()));
        }
        Ok(out)
    }

    pub(in super::super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    fn program(&self) -> Gibbs {
        let design = self.schema.design.clone();
        let shape = self.settings.shape(&design);
        Gibbs::new(design, &self.structure, self.schema.outcome(), self.settings.coding, &shape, self.settings.leaf())
    }

    fn draws(&self) -> usize {
        self.log_joint.len()
    }

    fn by_chain(&self, values: &[f64]) -> Vec<Vec<f64>> {
        let mut rest = values;
        self.lengths
            .iter()
            .map(|&n| {
                let (head, tail) = rest.split_at(n);
                rest = tail;
                head.to_vec()
            })
            .collect()
    }

    /// Calls `f` for every row and every draw: panel after panel of rows, in each of them the draws of a row in order.
    fn for_draws(&self, program: &Gibbs, data: &Dataset<'_>, mut f: impl FnMut(Seen<'_>)) -> Result<()> {
        check_prediction_rows(data, self.width(), self.columns())?;
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

    /// Whether weights mean the same in every draw: there is one node at most, and nothing in it may change places.
    fn plain(&self) -> bool {
        self.structure.is_concave()
    }

    /// Coefficients of each draw in the user's units, `[(name, per draw: coefficients of the kept columns and the intercept)]`: of each class
    /// against the mean of all, or of the one expert.
    fn coefficients(&self, program: &Gibbs) -> Vec<(String, Vec<f64>)> {
        let (layout, d) = (&program.layout, &self.schema.design);
        let (kept, dim) = (d.kept.len(), layout.dim);
        let natural = |w: &[f64], scale: f64, shift: f64, out: &mut Vec<f64>| {
            let from = out.len();
            out.extend(w[..kept].iter().zip(&d.scale).map(|(w, s)| scale * w / s));
            let bias = if d.intercept { scale * w[kept] } else { 0.0 };
            let centre = dot(&out[from..], &d.mean);
            out.push(shift + bias - centre);
        };
        let draws = || self.vectors.chunks_exact(layout.vectors() * dim);
        match layout.nodes.first() {
            Some(node) => {
                let children = node.width();
                let mut out: Vec<(String, Vec<f64>)> = self.schema.classes.iter().map(|c| (c.clone(), Vec::new())).collect();
                for draw in draws() {
                    let w = node.child_weights(&draw[..node.units * dim], dim);
                    let mean: Vec<f64> = (0..dim).map(|j| (0..children).map(|c| w[c * dim + j]).sum::<f64>() / children as f64).collect();
                    for (c, (_, out)) in out.iter_mut().enumerate() {
                        let contrast: Vec<f64> = w[c * dim..(c + 1) * dim].iter().zip(&mean).map(|(w, m)| w - m).collect();
                        natural(&contrast, 1.0, 0.0, out);
                    }
                }
                out
            }
            None => (0..layout.outputs)
                .map(|q| {
                    let mut out = Vec::new();
                    draws().for_each(|w| natural(&w[q * dim..(q + 1) * dim], self.schema.y_scale[q], self.schema.y_mean[q], &mut out));
                    (format!("outcome {}", q + 1), out)
                })
                .collect(),
        }
    }

    /// Components that may change places, in groups: of the same class, or all of them.
    fn groups(&self, program: &Gibbs) -> Vec<(String, Vec<usize>)> {
        let (of, count) = &program.components;
        let leaf_of = |component: usize| of.iter().position(|c| *c == component).map(|leaf| program.layout.leaves[leaf]);
        if matches!(self.structure, Structure::Experts(_)) || self.outputs() > 0 {
            return vec![("expert".into(), (0..*count).collect())];
        }
        let member = |class: usize| (0..*count).filter(|c| leaf_of(*c) == Some(Leaf::Class(class as u32))).collect();
        self.schema.classes.iter().enumerate().map(|(k, name)| (name.clone(), member(k))).collect()
    }

    /// Shares of each draw, in descending order within each group.
    fn sorted_shares(&self, program: &Gibbs) -> Vec<f64> {
        let groups = self.groups(program);
        let mut out = Vec::with_capacity(self.shares.len());
        for shares in self.shares.chunks_exact(program.components.1) {
            for (_, members) in &groups {
                let mut own: Vec<f64> = members.iter().map(|c| shares[*c]).collect();
                own.sort_by(|a, b| b.total_cmp(a));
                out.extend(own);
            }
        }
        out
    }

    /// Noise of each draw in the user's units, in ascending order over the leaves, output after output.
    fn sorted_noise(&self, program: &Gibbs) -> Vec<f64> {
        let (leaves, outputs) = (program.layout.gaussians(), program.layout.outputs);
        let mut out = Vec::with_capacity(self.noise.len());
        for noise in self.noise.chunks_exact((leaves * outputs).max(1)) {
            for q in 0..outputs {
                let mut own: Vec<f64> = (0..leaves).map(|leaf| self.schema.y_scale[q] / noise[leaf * outputs + q].sqrt()).collect();
                own.sort_by(f64::total_cmp);
                out.extend(own);
            }
        }
        out
    }

    /// Whether the precisions of groups mean the same in every draw.
    fn precisions_are_named(&self, program: &Gibbs) -> bool {
        let by_child = matches!(self.settings.precision, Precision::Child | Precision::Entry);
        program.tree.ln_symmetries() == 0.0 || (program.layout.nodes.len() == 1 && !by_child)
    }

    fn precision_names(&self, groups: usize) -> Vec<String> {
        let columns = self.schema.design.names(&self.schema.columns);
        match self.settings.precision {
            _ if groups == 1 => vec!["precision".into()],
            Precision::Feature if groups <= columns.len() + 1 => {
                columns.into_iter().chain(["(intercept)".into()]).take(groups).map(|c| format!("precision of {c}")).collect()
            }
            _ => (1..=groups).map(|g| format!("precision {g}")).collect(),
        }
    }

    /// The scalars that are reported: name and one value a draw.
    fn quantities(&self, program: &Gibbs) -> Vec<(String, Vec<f64>)> {
        let column = |values: &[f64], width: usize, at: usize| -> Vec<f64> { values.iter().skip(at).step_by(width).copied().collect() };
        let mut out = vec![("log joint".to_string(), self.log_joint.clone()), ("log likelihood".to_string(), self.log_likelihood.clone())];
        let groups = self.alpha.len() / self.draws();
        if groups > 0 && groups <= MOST_ROWS && self.precisions_are_named(program) {
            out.extend(self.precision_names(groups).into_iter().enumerate().map(|(g, name)| (name, column(&self.alpha, groups, g))));
        } else if groups > 0 {
            let mean = |a: &[f64]| (a.iter().map(|a| a.ln()).sum::<f64>() / groups as f64).exp();
            out.push(("precision (geometric mean)".into(), self.alpha.chunks_exact(groups).map(mean).collect()));
        }
        let leaves = program.layout.gaussians();
        let noise = self.sorted_noise(program);
        for at in 0..leaves * program.layout.outputs {
            let output = if program.layout.outputs > 1 { format!(" of outcome {}", at / leaves + 1) } else { String::new() };
            let place = if leaves > 1 { format!(", {} from below", at % leaves + 1) } else { String::new() };
            out.push((format!("noise{output}{place}"), column(&noise, leaves * program.layout.outputs, at)));
        }
        if !self.plain() {
            let shares = self.sorted_shares(program);
            let names = self.groups(program).into_iter().flat_map(|(name, m)| (1..=m.len()).map(move |k| format!("share of {name}, {k} from above")));
            out.extend(names.enumerate().map(|(k, name)| (name, column(&shares, program.components.1, k))));
        }
        out
    }

    fn model_name(&self) -> String {
        let what = match (&self.structure, self.outputs() > 0) {
            (Structure::Subclasses(_), _) if self.plain() => "softmax classification",
            (Structure::Subclasses(_), _) => "softmax classification with subclasses",
            (Structure::Experts(_), true) => "regression by a mixture of experts",
            (Structure::Experts(_), false) => "mixture of experts",
            (Structure::Gates(_), true) => "regression by a tree of experts",
            (Structure::Gates(_), false) => "tree of experts",
        };
        format!("{what} by Gibbs sampling")
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

impl Posterior for DrawsPosterior {
    fn family(&self) -> &'static str {
        NAME
    }

    fn columns(&self) -> &[String] {
        &self.schema.columns
    }

    fn width(&self) -> usize {
        self.schema.design.raw_cols
    }

    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn outputs(&self) -> usize {
        self.schema.y_mean.len()
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        choose_method(method, METHODS)?;
        if self.outputs() > 0 {
            return Err(Error::Unfit("the model was fitted to real outcomes: it predicts no classes".into()));
        }
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

    fn predict_real(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        choose_method(method, METHODS)?;
        let outputs = self.outputs();
        if outputs == 0 {
            return Err(Error::Unfit("the model was fitted to classes: it predicts no real outcomes".into()));
        }
        if let Some(level) = levels.iter().find(|l| !(**l > 0.0 && **l < 1.0)) {
            return Err(Error::setting("quantiles", level, "numbers between 0 and 1"));
        }
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
                share[seen.row * count + component] += part / self.draws() as f64;
            }
        })?;
        let names = match (&self.structure, self.plain()) {
            (_, true) if self.outputs() == 0 => self.schema.classes.clone(),
            _ => (1..=count).map(|c| format!("component {c}")).collect(),
        };
        Ok(Responsibilities { names, share })
    }

    fn summary(&self) -> Summary {
        let program = self.program();
        let classes = &self.schema.classes;
        let total: f64 = self.schema.counts.iter().sum();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut facts: Vec<(String, String)> = vec![("model".into(), self.model_name())];
        if classes.is_empty() {
            facts.push(("rows".into(), format!("{total}")));
        } else {
            let counts: Vec<String> = classes.iter().zip(&self.schema.counts).map(|(name, n)| format!("{name} {n}")).collect();
            facts.push(("classes".into(), counts.join(", ")));
        }
        facts.push(("columns used".into(), format!("{} of {}", self.schema.design.kept.len(), self.schema.design.available())));
        if !self.plain() {
            facts.push(("structure".into(), self.structure.describe()));
            facts.push(("components in use".into(), format!("{:.2} of {}", mean(&self.used), program.components.1)));
        }
        facts.push(("draws".into(), format!("{} from {} chain(s)", self.draws(), self.lengths.len())));
        facts.push(("mean log joint".into(), format!("{:.3}", mean(&self.log_joint))));
        facts.push(("mean log likelihood of a row".into(), format!("{:.4}", mean(&self.log_likelihood) / total)));
        let mut rows = self.quantities(&program);
        if self.plain() {
            let two = self.outputs() == 0 && classes.len() == 2;
            let table = match (self.outputs() > 0, two) {
                (true, _) => "coefficients, for one unit of a column".to_string(),
                (_, true) => format!("log-odds of `{}` against `{}`, for one unit of a column", classes[1], classes[0]),
                _ => "log-odds of a class against the mean of all classes, for one unit of a column".to_string(),
            };
            facts.push(("table".into(), table));
            let coefficients = self.coefficients(&program);
            let width = self.schema.design.kept.len() + 1;
            let columns = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
            for (j, column) in columns.enumerate() {
                for (c, (name, values)) in coefficients.iter().enumerate() {
                    let of = |values: &[f64]| values.iter().skip(j).step_by(width).copied().collect::<Vec<f64>>();
                    if two && c == 0 {
                        // against the mean of two, log-odds are halved
                        rows.push((column.clone(), of(&coefficients[1].1).iter().map(|v| 2.0 * v).collect()));
                    } else if !two {
                        let label = if coefficients.len() == 1 { column.clone() } else { format!("{column} [{name}]") };
                        rows.push((label, of(values)));
                    }
                }
            }
        }
        let judged: Vec<_> = rows.into_iter().map(|(name, values)| (name, summarise(&self.by_chain(&values)))).collect();
        let verdict = convergence(judged.iter().map(|(n, s)| (n.as_str(), s)), self.lengths.len());
        let mut notes = verdict.sentences;
        if program.tree.ln_symmetries() > 0.0 {
            notes.push("components may change places between draws: only what does not depend on their order is shown".into());
        }
        Summary {
            facts,
            headings: ["mean", "sd", "5%", "95%", "ESS bulk", "ESS tail", "R-hat"].map(String::from).to_vec(),
            rows: judged.into_iter().map(|(n, s)| (n, vec![s.mean, s.sd, s.q5, s.q95, s.ess_bulk, s.ess_tail, s.r_hat])).collect(),
            converged: verdict.converged,
            notes,
        }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let program = self.program();
        let (m, layout) = (self.draws(), &program.layout);
        let mut out = Vec::new();
        if self.plain() {
            let d = &self.schema.design;
            let (kept, width) = (d.kept.len(), d.available());
            let coefficients = self.coefficients(&program);
            let s = coefficients.len();
            // columns left out as constant have coefficient 0
            let (mut coef, mut intercept) = (vec![0.0; m * s * width], vec![0.0; m * s]);
            for (c, (_, values)) in coefficients.iter().enumerate() {
                for (draw, row) in values.chunks_exact(kept + 1).enumerate() {
                    for (&j, v) in d.kept.iter().zip(row) {
                        coef[(draw * s + c) * width + j as usize] = *v;
                    }
                    intercept[draw * s + c] = row[kept];
                }
            }
            let mean = |values: &[f64], each: usize| -> Vec<f64> {
                (0..each).map(|k| values.iter().skip(k).step_by(each).sum::<f64>() / m as f64).collect()
            };
            out.push(NamedArray { name: "coef", shape: vec![s, width], values: mean(&coef, s * width) });
            out.push(NamedArray { name: "intercept", shape: vec![s], values: mean(&intercept, s) });
            out.push(NamedArray { name: "coef_draws", shape: vec![m, s, width], values: coef });
            out.push(NamedArray { name: "intercept_draws", shape: vec![m, s], values: intercept });
        } else {
            let count = program.components.1;
            out.push(NamedArray { name: "shares_draws", shape: vec![m, count], values: self.sorted_shares(&program) });
            out.push(NamedArray { name: "components_draws", shape: vec![m], values: self.used.clone() });
        }
        let groups = self.alpha.len() / m;
        if groups > 0 && self.precisions_are_named(&program) {
            out.push(NamedArray { name: "alpha_draws", shape: vec![m, groups], values: self.alpha.clone() });
        }
        if layout.outputs > 0 {
            out.push(NamedArray { name: "noise_draws", shape: vec![m, layout.outputs, layout.gaussians()], values: self.sorted_noise(&program) });
        }
        out.push(NamedArray { name: "log_joint_draws", shape: vec![m], values: self.log_joint.clone() });
        out.push(NamedArray { name: "log_likelihood_draws", shape: vec![m], values: self.log_likelihood.clone() });
        let lengths = self.lengths.iter().map(|&n| n as f64).collect();
        out.push(NamedArray { name: "chain_lengths", shape: vec![self.lengths.len()], values: lengths });
        out
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

/// A component of a mixture.
#[derive(Debug, Clone, Copy, Default)]
struct Normal {
    share: f64,
    mean: f64,
    sd: f64,
}

/// Quantile of a mixture of normals with this mean and standard deviation: Newton's steps inside an interval that holds it, which by
/// Cantelli's inequality is [mean − sd √((1−p)/p), mean + sd √(p/(1−p))]; halved where a step leaves it.
fn quantile(level: f64, parts: &[Normal], mean: f64, sd: f64) -> f64 {
    let (mut lo, mut hi) = (mean - sd * ((1.0 - level) / level).sqrt(), mean + sd * (level / (1.0 - level)).sqrt());
    let mut x = mean.clamp(lo, hi);
    let mut before = hi - lo;
    for _ in 0..200 {
        let (mut below, mut density) = (0.0, 0.0);
        for part in parts.iter().filter(|p| p.share > 0.0) {
            let t = (x - part.mean) / part.sd;
            below += part.share * norm_cdf(t);
            density += part.share * (-0.5 * t * t).exp() / (part.sd * (2.0 * std::f64::consts::PI).sqrt());
        }
        if below < level { lo = x } else { hi = x }
        let (newton, close) = (x - (below - level) / density, 1e-12 * (x.abs() + sd));
        if (newton - x).abs() <= close || hi - lo <= close {
            return newton.clamp(lo, hi);
        }
        // a step must at least halve the one before it, else it is the interval that is halved
        let next = if newton > lo && newton < hi && (newton - x).abs() < 0.5 * before { newton } else { 0.5 * (lo + hi) };
        before = (next - x).abs();
        x = next;
    }
    x
}
