//! What draws say of themselves: components with their labels, labels with their weights, and whether the chains agree.

use super::{Sampled, bias, pattern_probabilities};
use crate::answer::{ColumnKind, Dim, DrawTable, Fact, Figure, NamedArray, Summary, SummaryTable};
use crate::model::labels::gibbs::draws::Draw;
use crate::model::labels::posterior::LabelsPosterior;
use crate::model::labels::report::{MOST_PAIRED, component_fact, data_facts, label_counts, power_warning, raw_mean};
use crate::model::labels::settings::Coupling;
use crate::model::labels::together;

/// What is between a twentieth and nineteen twentieths of some numbers.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    (at(0.05), at(0.95))
}

/// The size of normal numbers of this precision.
fn size(tau: f64) -> f64 {
    tau.sqrt().recip()
}

impl Sampled {
    /// Number of components of each draw.
    fn counts(&self) -> Vec<f64> {
        self.each(|d| d.components() as f64)
    }

    /// Rate of each label among the rows of a component that know it, over the draws that have the component; NaN where none does.
    fn rates(&self, k: usize, labels: usize) -> Vec<f64> {
        let sum = |of: fn(&Draw) -> &Vec<f64>, c: usize| self.mean_of(k, |draw, place| of(draw)[place * labels + c]);
        (0..labels).map(|c| sum(|d| &d.present, c) / sum(|d| &d.known, c)).collect()
    }

    /// Means over the draws that have a component of vectors `of(draw, place of the component in it)`, one after the other.
    fn vectors(&self, width: usize, of: &dyn Fn(usize, usize) -> Vec<f64>) -> Vec<f64> {
        let mut out = vec![0.0; self.components() * width];
        for (k, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
            let there: Vec<(usize, usize)> = (0..self.draws.len()).filter_map(|d| self.same[d][k].map(|place| (d, place))).collect();
            for &(d, place) in &there {
                out.iter_mut().zip(of(d, place)).for_each(|(o, v)| *o += v / there.len() as f64);
            }
        }
        out
    }

    /// Means of columns in components, as the kernel sees rows.
    fn component_means(&self, p: &LabelsPosterior) -> Vec<f64> {
        let (kernel, own) = (&p.mixture.kernel, p.mixture.kernel.parameters());
        self.vectors(p.schema.width, &|d, k| kernel.mean_of(&self.draws[d].parameters[k * own..(k + 1) * own]))
    }

    /// Rate of each label, and dependence of labels on one another through components: means over draws, each with its own components.
    fn together(&self, labels: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut mean, mut dependence) = (vec![0.0; labels], vec![0.0; labels * labels]);
        let share = 1.0 / self.draws.len() as f64;
        for draw in &self.draws {
            let weights = together::normalised(draw.ln_weights.iter().map(|l| l.exp()).collect());
            let rates: Vec<f64> = draw.present.iter().zip(&draw.known).map(|(a, n)| if *n > 0.0 { a / n } else { f64::NAN }).collect();
            mean.iter_mut().zip(together::overall(&weights, &rates, labels)).for_each(|(m, v)| *m += share * v);
            let own = together::dependence(&weights, &rates, labels);
            dependence.iter_mut().zip(own).for_each(|(m, v)| *m += share * v);
        }
        (mean, dependence)
    }
}

pub(crate) fn summary(p: &LabelsPosterior, found: &Sampled) -> Summary {
    let labels = p.schema.labels.len();
    let counts = found.counts();
    let (low, high) = interval(&counts);
    let known = label_counts(p).iter().map(|(a, b)| a + b).sum();
    let mut facts = data_facts(p, p.schema.rows as f64, known);
    facts.extend([
        Fact::new("components in a draw", Figure::estimate(&counts)).remark(format!("90 % of the draws have {low} to {high}")),
        Fact::new("concentration", Figure::estimate(&found.each(|d| d.alpha))),
    ]);
    facts.extend(DrawTable::facts(&found.lengths));
    facts.push(Fact::count("components of the reference draw", found.components()).remark("below"));
    let columns = [("weight", ColumnKind::Share), ("rows", ColumnKind::Number), ("in draws", ColumnKind::Share)];
    let named = p.schema.labels.iter().map(|l| (l.as_str(), ColumnKind::Share));
    let mut components = SummaryTable::new("components", columns.into_iter().chain(named));
    let weights = (0..found.components()).map(|k| found.mean_of(k, |d, k| d.ln_weights[k].exp())).collect();
    let (shares, means) = (together::normalised(weights), found.component_means(p));
    for k in 0..found.components() {
        let rates = found.rates(k, labels);
        let name = format!("component {}", k + 1);
        let typical = together::typical_columns(p.schema.kernel, &p.schema.columns, &shares, &means, k);
        facts.push(component_fact(p, &name, &rates, &typical));
        let own = [found.mean_of(k, |d, k| d.ln_weights[k].exp()), found.mean_of(k, |d, k| d.rows[k] as f64), found.presence(k)];
        components.rows.push((name, own.into_iter().chain(rates).collect()));
    }
    let (parameters, verdict) = parameters(p, found);
    let mut notes = verdict.sentences;
    notes.push(format!(
        "Components differ from draw to draw. Those above are the components of one draw, number {}, and numbers are means over the draws \
         in which they were found again.",
        found.reference + 1
    ));
    if p.settings.coupling == Coupling::Cut {
        notes.push("Components and classifiers are fitted apart: their draws are of two posteriors.".into());
    }
    let mut tables = vec![components, label_table(p, found), parameters];
    if labels <= MOST_PAIRED {
        let (mean, dependence) = found.together(labels);
        tables.push(together::pairs(&p.schema.labels, &mean, &dependence));
    }
    Summary { facts, tables, converged: verdict.converged, warnings: power_warning(p).into_iter().collect(), notes }
}

/// Numbers that every draw has, with the diagnostics of the chains.
fn parameters(p: &LabelsPosterior, found: &Sampled) -> (SummaryTable, crate::diagnostics::Convergence) {
    let mut table = DrawTable::new("parameters", &found.lengths);
    table.row("log joint density", &found.each(|d| d.ln_joint));
    table.row("log likelihood", &found.each(|d| d.ln_likelihood));
    table.row("components", &found.counts());
    table.row("concentration", &found.each(|d| d.alpha));
    for (c, name) in p.schema.labels.iter().enumerate() {
        table.judge(format!("the size of the weights of `{name}`"), &found.each(|d| d.weight_precision[c].ln()));
    }
    table.finish()
}

/// How common each label is, how much rows and components say of it.
fn label_table(p: &LabelsPosterior, found: &Sampled) -> SummaryTable {
    let columns = [("present", ColumnKind::Count), ("absent", ColumnKind::Count), ("size of weights", ColumnKind::Number)];
    let patterns = p.settings.coupling == Coupling::Logit;
    let more = patterns.then_some(("size of patterns", ColumnKind::Number));
    let mut table = SummaryTable::new("labels", columns.into_iter().chain(more));
    let mean = |f: &dyn Fn(&Draw) -> f64| found.draws.iter().map(f).sum::<f64>() / found.draws.len() as f64;
    for (c, name) in p.schema.labels.iter().enumerate() {
        let mut row = vec![p.schema.counts.present[c] as f64, p.schema.counts.absent[c] as f64, size(mean(&|d| d.weight_precision[c]))];
        if patterns {
            row.push(size(mean(&|d| d.pattern_precision[c])));
        }
        table.rows.push((name.clone(), row));
    }
    table
}

pub(crate) fn arrays(p: &LabelsPosterior, found: &Sampled) -> Vec<NamedArray> {
    let schema = &p.schema;
    let (labels, components, draws) = (schema.labels.len(), found.components(), found.draws.len());
    let component = || Dim::counted("component", components);
    let label = || Dim::named("label", schema.labels.iter().cloned());
    let column = || Dim::columns(&schema.columns, schema.width);
    let draw = || Dim::counted("draw", draws);
    // columns left out as constant have weight 0
    let design = &p.mixture.inputs.classifier;
    let mut coefficients = vec![0.0; draws * labels * schema.width];
    let (mut means, mut squares) = (vec![0.0; labels * schema.width], vec![0.0; labels * schema.width]);
    for (of_draw, out) in found.draws.iter().zip(coefficients.chunks_exact_mut((labels * schema.width).max(1))) {
        for (w, out) in of_draw.weights.chunks_exact(design.dim()).zip(out.chunks_exact_mut(schema.width.max(1))) {
            design.kept.iter().zip(w).for_each(|(&j, &w)| out[j as usize] = w);
        }
        means.iter_mut().zip(&*out).for_each(|(m, v)| *m += v / draws as f64);
    }
    for out in coefficients.chunks_exact((labels * schema.width).max(1)) {
        squares.iter_mut().zip(out).zip(&means).for_each(|((s, v), m)| *s += (v - m) * (v - m) / draws as f64);
    }
    let biases: Vec<f64> = found.draws.iter().flat_map(|d| (0..labels).map(|c| bias(d, c, design.dim()))).collect();
    let bias = (0..labels).map(|c| biases.iter().skip(c).step_by(labels).sum::<f64>() / draws as f64).collect();
    let each = |f: &dyn Fn(usize) -> f64| (0..components).map(f).collect::<Vec<f64>>();
    let patterns: Vec<Vec<f64>> = found.draws.iter().map(|d| pattern_probabilities(&p.mixture.labels, d)).collect();
    let rows = found.component_means(p).chunks_exact(schema.width.max(1)).flat_map(|mean| raw_mean(p, mean.to_vec())).collect();
    let of_patterns = found.vectors(labels, &|d, k| patterns[d][k * labels..(k + 1) * labels].to_vec());
    let sizes = |of: fn(&Draw) -> &Vec<f64>| found.draws.iter().flat_map(|d| of(d).iter().map(|&t| size(t))).collect::<Vec<f64>>();
    let mut all = vec![
        NamedArray::new("coefficients", vec![label(), column()], means),
        NamedArray::new("coefficient_deviations", vec![label(), column()], squares.iter().map(|s| s.sqrt()).collect()),
        NamedArray::new("weights", vec![component()], each(&|k| found.mean_of(k, |d, k| d.ln_weights[k].exp()))),
        NamedArray::new("component_rows", vec![component()], each(&|k| found.mean_of(k, |d, k| d.rows[k] as f64))),
        NamedArray::new("component_presence", vec![component()], each(&|k| found.presence(k))),
        NamedArray::new("component_means", vec![component(), column()], rows),
        NamedArray::new("label_rates", vec![component(), label()], (0..components).flat_map(|k| found.rates(k, labels)).collect()),
        NamedArray::new("label_patterns", vec![component(), label()], of_patterns),
        NamedArray::new("bias", vec![label()], bias),
        NamedArray::scalar("concentration", found.each(|d| d.alpha).iter().sum::<f64>() / draws as f64),
        NamedArray::new("coefficients_draws", vec![draw(), label(), column()], coefficients),
        NamedArray::new("bias_draws", vec![draw(), label()], biases),
        NamedArray::new("weight_size_draws", vec![draw(), label()], sizes(|d| &d.weight_precision)),
    ];
    if p.settings.coupling == Coupling::Logit {
        all.push(NamedArray::new("pattern_size_draws", vec![draw(), label()], sizes(|d| &d.pattern_precision)));
    }
    if labels <= MOST_PAIRED {
        let other = Dim::named("other_label", schema.labels.iter().cloned());
        all.push(NamedArray::new("label_dependence", vec![label(), other], found.together(labels).1));
    }
    all.extend([
        NamedArray::draws("n_components_draws", found.counts()),
        NamedArray::draws("concentration_draws", found.each(|d| d.alpha)),
        NamedArray::draws("log_joint_draws", found.each(|d| d.ln_joint)),
        NamedArray::draws("log_likelihood_draws", found.each(|d| d.ln_likelihood)),
        NamedArray::chain_lengths(&found.lengths),
    ]);
    all
}
