//! What a fit says of itself: components with their labels, labels with their weights, and how the ascent ended.

use super::label_part::LabelFactors;
use super::posterior::LabelsPosterior;
use super::settings::{Coupling, MoveKind};
use super::vb::Standing;
use crate::answer::{ColumnKind, Dim, Fact, NamedArray, Summary, SummaryTable};
use crate::data::design::packed_len;
use crate::special::sigmoid;

/// A component with fewer rows is not shown.
const SHOWN_ROWS: f64 = 0.5;
/// Labels of a component that are named.
const NAMED_LABELS: usize = 5;
/// A label must be this common in a component to be named there.
const NAMED_RATE: f64 = 0.05;

/// Rate of each label among the rows of each component that know it (K×C); NaN where none does.
fn label_rates(p: &LabelsPosterior) -> Vec<f64> {
    p.q.present.iter().zip(&p.q.known).map(|(a, n)| if *n > 0.0 { a / n } else { f64::NAN }).collect()
}

pub(super) fn summary(p: &LabelsPosterior) -> Summary {
    let (schema, q) = (&p.schema, &p.q);
    let labels = schema.labels.len();
    let shown = q.counts.iter().filter(|n| **n >= SHOWN_ROWS).count();
    let known: u64 = schema.counts.present.iter().chain(&schema.counts.absent).sum();
    let entries = (schema.rows * labels as u64).max(1);
    let mut facts = vec![
        Fact::count("rows", schema.rows as usize),
        Fact::count("columns", schema.width),
        Fact::count("labels", labels).remark(format!("{:.1} % of the entries known", 100.0 * known as f64 / entries as f64)),
        Fact::text("features", schema.kernel.word()),
        Fact::count("components", shown),
        Fact::number("concentration", q.sticks.mean_alpha()),
        Fact::number("bound on the log evidence", p.bound).remark(format!("best of {}, {} sweeps", p.bounds.len(), p.sweeps)),
    ];
    if p.settings.coupling == Coupling::Cut {
        facts[6].remark += "; components and classifiers are fitted apart, so this is the sum of two bounds";
    }
    let rates = label_rates(p);
    let weights = q.sticks.ln_mean_weights();
    let columns = [("weight", ColumnKind::Share), ("rows", ColumnKind::Number)];
    let named = schema.labels.iter().map(|l| (l.as_str(), ColumnKind::Share));
    let mut components = SummaryTable::new("components", columns.into_iter().chain(named));
    for k in 0..shown {
        let of_labels = &rates[k * labels..(k + 1) * labels];
        let mut order: Vec<usize> = (0..labels).filter(|c| of_labels[*c] >= NAMED_RATE).collect();
        order.sort_by(|a, b| of_labels[*b].total_cmp(&of_labels[*a]));
        let words: Vec<String> =
            order.iter().take(NAMED_LABELS).map(|&c| format!("{} {:.0} %", schema.labels[c], 100.0 * of_labels[c])).collect();
        let name = format!("component {}", k + 1);
        facts.push(Fact::text(&name, if words.is_empty() { "no label".to_string() } else { words.join(", ") }));
        components.rows.push((name, [weights[k].exp(), q.counts[k]].into_iter().chain(of_labels.iter().copied()).collect()));
    }
    let mut notes = Vec::new();
    match p.standing {
        Standing::Converged => notes.push("the bound has stopped rising".to_string()),
        Standing::Rising => notes.push("the ascent is not done: resume the run".to_string()),
        Standing::OutOfSweeps => notes.push("the bound was still rising after the last sweep: raise `max_iter`".to_string()),
    }
    let mut warnings = Vec::new();
    if p.mixture.kernel.power() != 1.0 {
        warnings.push(format!(
            "the likelihood of features has the power {:.3}: this is a generalised posterior, and its bound is comparable with others of that power alone",
            p.mixture.kernel.power()
        ));
    }
    let most = p.settings.max_components;
    if p.settings.moves == MoveKind::SplitMerge && q.components() as u64 >= most && p.settings.components < most {
        warnings.push(format!("there are {most} components, as many as `max_components` allows: raise it, more may be better"));
    }
    Summary { facts, tables: vec![components, label_table(p)], converged: p.standing == Standing::Converged, warnings, notes }
}

/// How common each label is, how much rows and components say of it.
fn label_table(p: &LabelsPosterior) -> SummaryTable {
    let columns = [("present", ColumnKind::Count), ("absent", ColumnKind::Count), ("size of weights", ColumnKind::Number)];
    let patterns = matches!(p.q.labels, LabelFactors::Logit(_) | LabelFactors::Shared(_));
    let more = patterns.then_some(("size of patterns", ColumnKind::Number));
    let mut table = SummaryTable::new("labels", columns.into_iter().chain(more));
    for (c, name) in p.schema.labels.iter().enumerate() {
        let mut row = vec![p.schema.counts.present[c] as f64, p.schema.counts.absent[c] as f64];
        let of = |tau: f64| tau.sqrt().recip();
        match &p.q.labels {
            LabelFactors::Logit(q) => row.extend([of(q.weight_precision[c].mean()), of(q.pattern_precision[c].mean())]),
            LabelFactors::Shared(q) => row.extend([of(q.0.weight_precision[c].mean()), of(q.0.pattern_precision[c].mean())]),
            LabelFactors::And(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::Cut(q) => row.push(of(q.weights.weight_precision[c].mean())),
        }
        table.rows.push((name.clone(), row));
    }
    table
}

pub(super) fn arrays(p: &LabelsPosterior) -> Vec<NamedArray> {
    let (schema, q) = (&p.schema, &p.q);
    let (labels, components) = (schema.labels.len(), q.components());
    let component = || Dim::counted("component", components);
    let label = || Dim::named("label", schema.labels.iter().cloned());
    let means: Vec<f64> = q.components.iter().flat_map(|f| raw_means(p, f)).collect();
    let linear = Linear::of(p);
    let kept = &p.mixture.inputs.classifier.kept;
    let dim = p.mixture.inputs.classifier.dim();
    let spread = |values: &dyn Fn(usize, usize) -> f64| {
        let mut out = vec![0.0; labels * schema.width];
        for c in 0..labels {
            kept.iter().enumerate().for_each(|(at, &j)| out[c * schema.width + j as usize] = values(c, at));
        }
        out
    };
    let bias: Vec<f64> = (0..labels).map(|c| linear.means[c * linear.stride + dim - 1]).collect();
    let inputs = || vec![label(), Dim::columns(&schema.columns, schema.width)];
    let mut arrays = vec![NamedArray::new("coefficients", inputs(), spread(&|c, at| linear.means[c * linear.stride + at]))];
    if let Some(covariance) = linear.covariance {
        let size = packed_len(linear.stride);
        let deviations = spread(&|c, at| covariance[c * size + at * (at + 3) / 2].sqrt());
        arrays.push(NamedArray::new("coefficient_deviations", inputs(), deviations));
    }
    let table = |f: &dyn Fn(usize, usize) -> f64| (0..components * labels).map(|at| f(at / labels, at % labels)).collect::<Vec<f64>>();
    let patterns: Vec<f64> = match &q.labels {
        // log-odds beside the bias, as probabilities of a row of average inputs
        LabelFactors::Logit(l) => table(&|k, c| sigmoid(bias[c] + l.mean[c * linear.stride + dim + k])),
        LabelFactors::Shared(l) => table(&|k, c| sigmoid(bias[c] + l.0.patterns[c * components + k])),
        LabelFactors::And(l) => table(&|k, c| {
            let (a, b) = (l.present[c * components + k], l.absent[c * components + k]);
            a / (a + b)
        }),
        LabelFactors::Cut(_) => label_rates(p),
    };
    arrays.extend([
        NamedArray::new("weights", vec![component()], q.sticks.ln_mean_weights().iter().map(|l| l.exp()).collect()),
        NamedArray::new("component_rows", vec![component()], q.counts.clone()),
        NamedArray::new("component_means", vec![component(), Dim::columns(&schema.columns, schema.width)], means),
        NamedArray::new("label_rates", vec![component(), label()], label_rates(p)),
        NamedArray::new("label_patterns", vec![component(), label()], patterns),
        NamedArray::new("bias", vec![label()], bias),
        NamedArray::scalar("concentration", q.sticks.mean_alpha()),
        NamedArray::scalar("bound", p.bound),
    ]);
    arrays
}

/// Weights of labels, wherever the coupling keeps them.
struct Linear<'a> {
    /// Means, one label after the other.
    means: &'a [f64],
    /// Numbers of a label among the means; the first of them are its weights.
    stride: usize,
    /// Covariances, packed, where they are kept whole.
    covariance: Option<&'a [f64]>,
}

impl<'a> Linear<'a> {
    fn of(p: &'a LabelsPosterior) -> Self {
        let (means, covariance) = match &p.q.labels {
            LabelFactors::Logit(q) => (&q.mean, Some(&q.covariance[..])),
            LabelFactors::Shared(q) => (&q.0.weights, None),
            LabelFactors::And(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
            LabelFactors::Cut(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
        };
        Self { means, stride: means.len() / p.schema.labels.len().max(1), covariance }
    }
}

/// Expected row of a component, in units of the data.
fn raw_means(p: &LabelsPosterior, factor: &super::kernel::Factor) -> Vec<f64> {
    let mut mean = p.mixture.kernel.mean(factor);
    if let Some(design) = &p.mixture.inputs.kernel {
        mean.iter_mut().zip(&design.mean).zip(&design.scale).for_each(|((m, shift), scale)| *m = *m * scale + shift);
    }
    mean
}
