//! What the draws say of the model, in a way that does not depend on the order of components.
//!
//! Coefficients where nothing can change places (plain softmax, one expert), elsewhere densities, precisions, and shares and noise in
//! order of size. All of them come with effective sample sizes and R-hat.

use super::super::Precision;
use super::super::tree::{Leaf, Structure};
use super::Gibbs;
use super::posterior::DrawsPosterior;
use crate::answer::{Dim, DrawTable, Fact, NamedArray, Summary};
use crate::linalg::dot;

/// Precisions with a row each in the summary.
const MOST_ROWS: usize = 20;

impl DrawsPosterior {
    /// Whether weights mean the same in every draw: there is one node at most, and nothing in it may change places.
    pub(super) fn plain(&self) -> bool {
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
                // of two classes the log-odds of the second, which are twice its distance from the mean
                let (from, scale) = if children == 2 { (1, 2.0) } else { (0, 1.0) };
                let mut out: Vec<(String, Vec<f64>)> = self.schema.classes[from..].iter().map(|c| (c.clone(), Vec::new())).collect();
                for draw in draws() {
                    let w = node.child_weights(&draw[..node.units * dim], dim);
                    let mean: Vec<f64> = (0..dim).map(|j| (0..children).map(|c| w[c * dim + j]).sum::<f64>() / children as f64).collect();
                    for (c, (_, out)) in (from..).zip(out.iter_mut()) {
                        let contrast: Vec<f64> = w[c * dim..(c + 1) * dim].iter().zip(&mean).map(|(w, m)| w - m).collect();
                        natural(&contrast, scale, 0.0, out);
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
        let mut out =
            vec![("log joint density".to_string(), self.log_joint.clone()), ("log likelihood".to_string(), self.log_likelihood.clone())];
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
            let names = self
                .groups(program)
                .into_iter()
                .flat_map(|(name, m)| (1..=m.len()).map(move |k| format!("share of {name}, {k} from above")));
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

    /// What was found, and whether the chains agree on it.
    pub(super) fn report(&self) -> Summary {
        let program = self.program();
        let classes = &self.schema.classes;
        let total: f64 = self.schema.counts.iter().sum();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut facts = vec![Fact::text("model", self.model_name())];
        facts.extend(self.schema.facts());
        if !self.plain() {
            facts.push(Fact::text("structure", self.structure.describe()));
            facts.push(Fact::number("components in use", mean(&self.used)).remark(format!("of {}", program.components.1)));
        }
        facts.extend(DrawTable::facts(&self.lengths));
        facts.push(Fact::number("mean log joint density", mean(&self.log_joint)));
        facts.push(Fact::number("mean log likelihood of a row", mean(&self.log_likelihood) / total));
        let mut rows = self.quantities(&program);
        if self.plain() {
            let two = self.outputs() == 0 && classes.len() == 2;
            let table = match (self.outputs() > 0, two) {
                (true, _) => "coefficients, for one unit of a column".to_string(),
                (_, true) => format!("log-odds of `{}` against `{}`, for one unit of a column", classes[1], classes[0]),
                _ => "log-odds of a class against the mean of all classes, for one unit of a column".to_string(),
            };
            facts.push(Fact::text("table", table));
            let coefficients = self.coefficients(&program);
            let width = self.schema.design.kept.len() + 1;
            let columns = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
            for (j, column) in columns.enumerate() {
                for (name, values) in &coefficients {
                    let label = if coefficients.len() == 1 { column.clone() } else { format!("{column} [{name}]") };
                    rows.push((label, values.iter().skip(j).step_by(width).copied().collect()));
                }
            }
        }
        let mut table = DrawTable::new("quantities", &self.lengths);
        rows.into_iter().for_each(|(name, values)| table.row(name, &values));
        let (table, verdict) = table.finish();
        let mut notes = verdict.sentences;
        if program.tree.ln_symmetries() > 0.0 {
            notes.push("components may change places between draws: only what does not depend on their order is shown".into());
        }
        Summary { facts, tables: vec![table], converged: verdict.converged, notes, ..Summary::default() }
    }

    /// Draws in the user's units.
    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let program = self.program();
        let (m, layout) = (self.draws(), &program.layout);
        let draw = || Dim::counted("draw", m);
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
            let what = if self.outputs() > 0 { "outcome" } else { "class" };
            let of = || Dim::named(what, coefficients.iter().map(|(name, _)| name.clone()));
            let column = || Dim::inputs(d, &self.schema.columns);
            out.push(NamedArray::new("coef", vec![of(), column()], mean(&coef, s * width)));
            out.push(NamedArray::new("intercept", vec![of()], mean(&intercept, s)));
            out.push(NamedArray::new("coef_draws", vec![draw(), of(), column()], coef));
            out.push(NamedArray::new("intercept_draws", vec![draw(), of()], intercept));
        } else {
            let count = Dim::counted("component", program.components.1);
            out.push(NamedArray::new("shares_draws", vec![draw(), count], self.sorted_shares(&program)));
            out.push(NamedArray::draws("components_draws", self.used.clone()));
        }
        let groups = self.alpha.len() / m;
        if groups > 0 && self.precisions_are_named(&program) {
            out.push(NamedArray::new("alpha_draws", vec![draw(), Dim::counted("group", groups)], self.alpha.clone()));
        }
        if layout.outputs > 0 {
            let dims = vec![draw(), Dim::counted("outcome", layout.outputs), Dim::counted("expert", layout.gaussians())];
            out.push(NamedArray::new("noise_draws", dims, self.sorted_noise(&program)));
        }
        out.push(NamedArray::draws("log_joint_draws", self.log_joint.clone()));
        out.push(NamedArray::draws("log_likelihood_draws", self.log_likelihood.clone()));
        out.push(NamedArray::chain_lengths(&self.lengths));
        out
    }
}
