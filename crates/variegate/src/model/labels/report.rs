//! What a fit says of itself: components with their labels, labels with their weights, and how the ascent ended.

use super::label_part::LabelFactors;
use super::logit::rowwise;
use super::posterior::{Ascended, LabelsPosterior};
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
fn label_rates(found: &Ascended) -> Vec<f64> {
    found.q.present.iter().zip(&found.q.known).map(|(a, n)| if *n > 0.0 { a / n } else { f64::NAN }).collect()
}

/// What the data are.
pub(super) fn data_facts(p: &LabelsPosterior) -> Vec<Fact> {
    let (schema, labels) = (&p.schema, p.schema.labels.len());
    let known: u64 = schema.counts.present.iter().chain(&schema.counts.absent).sum();
    let entries = (schema.rows * labels as u64).max(1);
    vec![
        Fact::count("rows", schema.rows as usize),
        Fact::count("columns", schema.width),
        Fact::count("labels", labels).remark(format!("{:.1} % of the entries known", 100.0 * known as f64 / entries as f64)),
        Fact::text("features", schema.kernel.word()),
    ]
}

/// The labels that are most common in a component, given the rate of each.
pub(super) fn common_labels(p: &LabelsPosterior, rates: &[f64]) -> String {
    let mut order: Vec<usize> = (0..rates.len()).filter(|c| rates[*c] >= NAMED_RATE).collect();
    order.sort_by(|a, b| rates[*b].total_cmp(&rates[*a]));
    let words: Vec<String> =
        order.iter().take(NAMED_LABELS).map(|&c| format!("{} {:.0} %", p.schema.labels[c], 100.0 * rates[c])).collect();
    if words.is_empty() { "no label".to_string() } else { words.join(", ") }
}

/// What a user should know of a power.
pub(super) fn power_warning(p: &LabelsPosterior) -> Option<String> {
    let power = p.mixture.kernel.power();
    (power != 1.0).then(|| format!("the likelihood of features has the power {power:.3}: this is a generalised posterior"))
}

pub(super) fn summary(p: &LabelsPosterior, found: &Ascended) -> Summary {
    let (schema, q) = (&p.schema, &found.q);
    let labels = schema.labels.len();
    let shown = q.counts.iter().filter(|n| **n >= SHOWN_ROWS).count();
    let mut bound = match &found.stream {
        None => Fact::number("bound on the log evidence", found.bound).remark(format!(
            "best of {}, {} sweeps",
            found.bounds.len(),
            found.sweeps
        )),
        Some(left) => Fact::number("mean log probability of a label", left.score)
            .remark(format!("predicted before its row was used, in the last of {} passes", found.sweeps)),
    };
    if found.stream.is_none() && p.settings.coupling == Coupling::Cut {
        bound.remark += "; components and classifiers are fitted apart, so this is the sum of two bounds";
    }
    let mut facts = data_facts(p);
    facts.extend([Fact::count("components", shown), Fact::number("concentration", q.sticks.mean_alpha()), bound]);
    let rates = label_rates(found);
    let weights = q.sticks.ln_mean_weights();
    let columns = [("weight", ColumnKind::Share), ("rows", ColumnKind::Number)];
    let named = schema.labels.iter().map(|l| (l.as_str(), ColumnKind::Share));
    let mut components = SummaryTable::new("components", columns.into_iter().chain(named));
    for k in 0..shown {
        let of_labels = &rates[k * labels..(k + 1) * labels];
        let name = format!("component {}", k + 1);
        facts.push(Fact::text(&name, common_labels(p, of_labels)));
        components.rows.push((name, [weights[k].exp(), q.counts[k]].into_iter().chain(of_labels.iter().copied()).collect()));
    }
    let mut notes = Vec::new();
    match found.standing {
        Standing::Converged if found.stream.is_some() => notes.push(format!("all {} passes over the rows are made", found.sweeps)),
        Standing::Converged => notes.push("the bound has stopped rising".to_string()),
        Standing::Rising => notes.push("the ascent is not done: resume the run".to_string()),
        Standing::OutOfSweeps => notes.push("the bound was still rising after the last sweep: raise `max_iter`".to_string()),
    }
    let mut warnings: Vec<String> =
        power_warning(p).map(|w| w + ", and its bound is comparable with others of that power alone").into_iter().collect();
    let (most, s) = (p.settings.max_components, &p.settings);
    if found.stream.is_none() && s.moves == MoveKind::SplitMerge && q.components() as u64 >= most && s.components < most {
        warnings.push(format!("there are {most} components, as many as `max_components` allows: raise it, more may be better"));
    }
    let converged = found.standing == Standing::Converged;
    Summary { facts, tables: vec![components, label_table(p, found)], converged, warnings, notes }
}

/// How common each label is, how much rows and components say of it.
fn label_table(p: &LabelsPosterior, found: &Ascended) -> SummaryTable {
    let columns = [("present", ColumnKind::Count), ("absent", ColumnKind::Count), ("size of weights", ColumnKind::Number)];
    let patterns = matches!(found.q.labels, LabelFactors::Logit(_) | LabelFactors::Shared(_) | LabelFactors::Rowwise(_));
    let more = patterns.then_some(("size of patterns", ColumnKind::Number));
    let mut table = SummaryTable::new("labels", columns.into_iter().chain(more));
    for (c, name) in p.schema.labels.iter().enumerate() {
        let mut row = vec![p.schema.counts.present[c] as f64, p.schema.counts.absent[c] as f64];
        let of = |tau: f64| tau.sqrt().recip();
        match &found.q.labels {
            LabelFactors::Logit(q) => row.extend([of(q.weight_precision[c].mean()), of(q.pattern_precision[c].mean())]),
            LabelFactors::Shared(q) => row.extend([of(q.0.weight_precision[c].mean()), of(q.0.pattern_precision[c].mean())]),
            LabelFactors::Rowwise(q) => row.extend([of(q.weight_precision[c].mean()), of(q.pattern_precision[c].mean())]),
            LabelFactors::And(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::Cut(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::AndByRows(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::CutByRows(q) => row.push(of(q.weights.weight_precision[c].mean())),
        }
        table.rows.push((name.clone(), row));
    }
    table
}

pub(super) fn arrays(p: &LabelsPosterior, found: &Ascended) -> Vec<NamedArray> {
    let (schema, q) = (&p.schema, &found.q);
    let (labels, components) = (schema.labels.len(), q.components());
    let component = || Dim::counted("component", components);
    let label = || Dim::named("label", schema.labels.iter().cloned());
    let means: Vec<f64> = q.components.iter().flat_map(|f| raw_mean(p, p.mixture.kernel.mean(f))).collect();
    let linear = Linear::of(p, found);
    let kept = &p.mixture.inputs.classifier.kept;
    let dim = p.mixture.inputs.classifier.dim();
    let spread = |values: &dyn Fn(usize, usize) -> f64| {
        let mut out = vec![0.0; labels * schema.width];
        for c in 0..labels {
            kept.iter().enumerate().for_each(|(at, &j)| out[c * schema.width + j as usize] = values(c, at));
        }
        out
    };
    let bias: Vec<f64> = (0..labels).map(|c| linear.mean(c, dim - 1)).collect();
    let inputs = || vec![label(), Dim::columns(&schema.columns, schema.width)];
    let mut arrays = vec![NamedArray::new("coefficients", inputs(), spread(&|c, at| linear.mean(c, at)))];
    if linear.has_deviations() {
        let deviations = spread(&|c, at| linear.deviation(c, at));
        arrays.push(NamedArray::new("coefficient_deviations", inputs(), deviations));
    }
    let table = |f: &dyn Fn(usize, usize) -> f64| (0..components * labels).map(|at| f(at / labels, at % labels)).collect::<Vec<f64>>();
    let share = |present: &[f64], absent: &[f64], at: usize| present[at] / (present[at] + absent[at]);
    let patterns: Vec<f64> = match &q.labels {
        // log-odds beside the bias, as probabilities of a row of average inputs
        LabelFactors::Logit(_) | LabelFactors::Rowwise(_) => table(&|k, c| sigmoid(bias[c] + linear.mean(c, dim + k))),
        LabelFactors::Shared(l) => table(&|k, c| sigmoid(bias[c] + l.0.patterns[c * components + k])),
        LabelFactors::And(l) => table(&|k, c| share(&l.present, &l.absent, c * components + k)),
        LabelFactors::AndByRows(l) => table(&|k, c| share(&l.present, &l.absent, c * components + k)),
        LabelFactors::Cut(_) | LabelFactors::CutByRows(_) => label_rates(found),
    };
    arrays.extend([
        NamedArray::new("weights", vec![component()], q.sticks.ln_mean_weights().iter().map(|l| l.exp()).collect()),
        NamedArray::new("component_rows", vec![component()], q.counts.clone()),
        NamedArray::new("component_means", vec![component(), Dim::columns(&schema.columns, schema.width)], means),
        NamedArray::new("label_rates", vec![component(), label()], label_rates(found)),
        NamedArray::new("label_patterns", vec![component(), label()], patterns),
        NamedArray::new("bias", vec![label()], bias),
        NamedArray::scalar("concentration", q.sticks.mean_alpha()),
        match &found.stream {
            None => NamedArray::scalar("bound", found.bound),
            Some(left) => NamedArray::scalar("mean_log_probability", left.score),
        },
    ]);
    arrays
}

/// Weights of labels, wherever the coupling keeps them.
enum Linear<'a> {
    /// Means, one label after the other, so many of each; covariances, packed, where they are kept whole.
    Tables { means: &'a [f64], stride: usize, covariance: Option<&'a [f64]> },
    /// Labels side by side.
    Rowwise(&'a rowwise::Factors),
}

impl<'a> Linear<'a> {
    fn of(p: &LabelsPosterior, found: &'a Ascended) -> Self {
        let (means, covariance) = match &found.q.labels {
            LabelFactors::Logit(q) => (&q.mean, Some(&q.covariance[..])),
            LabelFactors::Shared(q) => (&q.0.weights, None),
            LabelFactors::And(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
            LabelFactors::Cut(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
            LabelFactors::Rowwise(q) => return Self::Rowwise(q),
            LabelFactors::AndByRows(q) => return Self::Rowwise(&q.weights),
            LabelFactors::CutByRows(q) => return Self::Rowwise(&q.weights),
        };
        Self::Tables { means, stride: means.len() / p.schema.labels.len().max(1), covariance }
    }

    /// Mean of coefficient i of a label: its weights come first.
    fn mean(&self, label: usize, i: usize) -> f64 {
        match self {
            Self::Tables { means, stride, .. } => means[label * stride + i],
            Self::Rowwise(q) => q.coefficient(label, i).0,
        }
    }

    fn has_deviations(&self) -> bool {
        !matches!(self, Self::Tables { covariance: None, .. })
    }

    /// Standard deviation of the same.
    fn deviation(&self, label: usize, i: usize) -> f64 {
        match self {
            Self::Tables { covariance, stride, .. } => {
                covariance.map_or(f64::NAN, |v| v[label * packed_len(*stride) + i * (i + 3) / 2].sqrt())
            }
            Self::Rowwise(q) => q.coefficient(label, i).1.sqrt(),
        }
    }
}

/// A row as the kernel sees it, in units of the data.
pub(super) fn raw_mean(p: &LabelsPosterior, mut mean: Vec<f64>) -> Vec<f64> {
    if let Some(design) = &p.mixture.inputs.kernel {
        mean.iter_mut().zip(&design.mean).zip(&design.scale).for_each(|((m, shift), scale)| *m = *m * scale + shift);
    }
    mean
}
