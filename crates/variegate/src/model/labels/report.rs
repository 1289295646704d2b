//! What a fit says of itself: components with their labels, labels with their weights, and how the ascent ended.

use super::label_part::LabelFactors;
use super::logit::rowwise;
use super::posterior::{Ascended, LabelsPosterior};
use super::settings::{Coupling, MoveKind};
use super::together;
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

/// Tables of pairs of labels are not made of more labels.
pub(super) const MOST_PAIRED: usize = 2000;

/// What the data are: so many rows, and so many entries of labels that are known.
pub(super) fn data_facts(p: &LabelsPosterior, rows: f64, known: f64) -> Vec<Fact> {
    let (schema, labels) = (&p.schema, p.schema.labels.len());
    let share = 100.0 * known / (rows * labels as f64).max(1.0);
    vec![
        Fact::count("rows", rows as usize),
        Fact::count("columns", schema.width),
        Fact::count("labels", labels).remark(format!("{share:.1} % of the entries known")),
        Fact::text("features", schema.kernel.word()),
    ]
}

/// Rows with and without each label, of those of the first fit.
pub(super) fn label_counts(p: &LabelsPosterior) -> Vec<(f64, f64)> {
    p.schema.counts.present.iter().zip(&p.schema.counts.absent).map(|(&a, &b)| (a as f64, b as f64)).collect()
}

/// The same of a fit that may have gone on with further rows: what minibatches say of all of them.
fn counts_of(p: &LabelsPosterior, found: &Ascended) -> Vec<(f64, f64)> {
    if found.stream.is_none() {
        return label_counts(p);
    }
    let labels = p.schema.labels.len();
    let sum = |table: &[f64], c: usize| table.iter().skip(c).step_by(labels).sum::<f64>();
    let counts = |c: usize| (sum(&found.q.present, c), sum(&found.q.known, c));
    (0..labels).map(counts).map(|(present, known)| (present.round(), (known - present).round())).collect()
}

/// What a component is: its commonest labels, and beside them the columns that set it apart.
pub(super) fn component_fact(p: &LabelsPosterior, name: &str, rates: &[f64], columns: &str) -> Fact {
    let fact = Fact::text(name, common_labels(p, rates));
    if columns.is_empty() { fact } else { fact.remark(format!("columns {columns}")) }
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
            .remark(format!("predicted before its row was used, in the {}", if found.sweeps == 1 { "only pass" } else { "last pass" })),
    };
    if found.stream.is_none() && p.settings.coupling == Coupling::Cut {
        bound.remark += "; components and classifiers are fitted apart, so this is the sum of two bounds";
    }
    let counts = counts_of(p, found);
    let rows = found.stream.as_ref().map_or(schema.rows as f64, |left| left.stream.clock.rows);
    let mut facts = data_facts(p, rows, counts.iter().map(|(a, b)| a + b).sum());
    facts.extend([Fact::count("components", shown), Fact::number("concentration", q.sticks.mean_alpha()), bound]);
    let rates = label_rates(found);
    let weights: Vec<f64> = q.sticks.ln_mean_weights().iter().map(|l| l.exp()).collect();
    let shares = together::normalised(weights.clone());
    let means: Vec<f64> = q.components.iter().flat_map(|f| p.mixture.kernel.mean(f)).collect();
    let columns = [("weight", ColumnKind::Share), ("rows", ColumnKind::Number)];
    let named = schema.labels.iter().map(|l| (l.as_str(), ColumnKind::Share));
    let mut components = SummaryTable::new("components", columns.into_iter().chain(named));
    for k in 0..shown {
        let of_labels = &rates[k * labels..(k + 1) * labels];
        let name = format!("component {}", k + 1);
        let typical = together::typical_columns(schema.kernel, &schema.columns, &shares, &means, k);
        facts.push(component_fact(p, &name, of_labels, &typical));
        components.rows.push((name, [weights[k], q.counts[k]].into_iter().chain(of_labels.iter().copied()).collect()));
    }
    let mut notes = Vec::new();
    match found.standing {
        Standing::Converged if found.stream.is_some() => notes.push(match found.sweeps {
            1 => "the pass over the rows is made".to_string(),
            passes => format!("all {passes} passes over the rows are made"),
        }),
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
    let mut tables = vec![components, label_table(p, found, &counts)];
    if labels <= MOST_PAIRED {
        let mean = together::overall(&shares, &rates, labels);
        tables.push(together::pairs(&schema.labels, &mean, &together::dependence(&shares, &rates, labels)));
    }
    Summary { facts, tables, converged, warnings, notes }
}

/// How common each label is, how much rows and components say of it.
fn label_table(p: &LabelsPosterior, found: &Ascended, counts: &[(f64, f64)]) -> SummaryTable {
    let columns = [("present", ColumnKind::Count), ("absent", ColumnKind::Count), ("size of weights", ColumnKind::Number)];
    let patterns = matches!(found.q.labels.coupling(), LabelFactors::Logit(_) | LabelFactors::Shared(_) | LabelFactors::Rowwise(_));
    let more = patterns.then_some(("size of patterns", ColumnKind::Number));
    let mut table = SummaryTable::new("labels", columns.into_iter().chain(more));
    for (c, name) in p.schema.labels.iter().enumerate() {
        let mut row = vec![counts[c].0, counts[c].1];
        let of = |tau: f64| tau.sqrt().recip();
        match found.q.labels.coupling() {
            LabelFactors::Logit(q) => row.extend([of(q.weight_precision[c].mean()), of(q.pattern_precision[c].mean())]),
            LabelFactors::Shared(q) => row.extend([of(q.0.weight_precision[c].mean()), of(q.0.pattern_precision[c].mean())]),
            LabelFactors::Rowwise(q) => row.extend([of(q.weight_precision[c].mean()), of(q.pattern_precision[c].mean())]),
            LabelFactors::And(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::Cut(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::AndByRows(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::CutByRows(q) => row.push(of(q.weights.weight_precision[c].mean())),
            LabelFactors::AndShared(q) => row.push(of(q.0.weights.weight_precision[c].mean())),
            LabelFactors::CutShared(q) => row.push(of(q.0.weights.weight_precision[c].mean())),
            LabelFactors::InRowSpace(_) => {}
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
    let patterns: Vec<f64> = match q.labels.coupling() {
        // log-odds beside the bias, as probabilities of a row of average inputs
        LabelFactors::Logit(_) | LabelFactors::Rowwise(_) => table(&|k, c| sigmoid(bias[c] + linear.mean(c, dim + k))),
        LabelFactors::Shared(l) => table(&|k, c| sigmoid(bias[c] + l.0.patterns[c * components + k])),
        LabelFactors::And(l) => table(&|k, c| share(&l.present, &l.absent, c * components + k)),
        LabelFactors::AndByRows(l) => table(&|k, c| share(&l.present, &l.absent, c * components + k)),
        LabelFactors::AndShared(l) => table(&|k, c| share(&l.0.present, &l.0.absent, c * components + k)),
        LabelFactors::Cut(_) | LabelFactors::CutByRows(_) | LabelFactors::CutShared(_) | LabelFactors::InRowSpace(_) => label_rates(found),
    };
    let rates = label_rates(found);
    let shares = together::normalised(q.sticks.ln_mean_weights().iter().map(|l| l.exp()).collect());
    if p.settings.coupling == Coupling::Logit {
        // log-odds beside what all components have in common, which is the intercept's
        let own = |k: usize, c: usize| match &q.labels {
            LabelFactors::Shared(l) => l.0.patterns[c * components + k],
            _ => linear.mean(c, dim + k),
        };
        let shifts: Vec<f64> = (0..labels).map(|c| shares.iter().enumerate().map(|(k, w)| w * own(k, c)).sum()).collect();
        arrays.push(NamedArray::new("label_shifts", vec![component(), label()], table(&|k, c| own(k, c) - shifts[c])));
    }
    if labels <= MOST_PAIRED {
        let other = Dim::named("other_label", schema.labels.iter().cloned());
        arrays.push(NamedArray::new("label_dependence", vec![label(), other], together::dependence(&shares, &rates, labels)));
    }
    arrays.extend([
        NamedArray::new("weights", vec![component()], q.sticks.ln_mean_weights().iter().map(|l| l.exp()).collect()),
        NamedArray::new("component_rows", vec![component()], q.counts.clone()),
        NamedArray::new("component_means", vec![component(), Dim::columns(&schema.columns, schema.width)], means),
        NamedArray::new("label_rates", vec![component(), label()], rates),
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
    /// Those of all columns, made of coordinates: means, so many of each label, and variances of the columns, so many.
    Made { means: Vec<f64>, stride: usize, variances: Vec<f64>, columns: usize },
}

impl<'a> Linear<'a> {
    fn of(p: &LabelsPosterior, found: &'a Ascended) -> Self {
        if let Some((weights, variances)) = found.q.labels.of_columns(&p.mixture.labels) {
            let (labels, coordinates) = (p.schema.labels.len(), p.mixture.labels.weights().columns());
            let columns = weights.len() / labels.max(1);
            // bias and patterns follow the coordinates, and are the same beside columns
            let found = &found.q.labels.coupling().weights().mean;
            let of_label = |(w, m): (&[f64], &[f64])| [w, &m[coordinates..]].concat();
            let each = weights.chunks_exact(columns.max(1)).zip(found.chunks_exact(found.len() / labels.max(1)));
            let means: Vec<f64> = each.flat_map(of_label).collect();
            return Self::Made { stride: means.len() / labels.max(1), means, variances, columns };
        }
        let (means, covariance) = match &found.q.labels {
            LabelFactors::Logit(q) => (&q.mean, Some(&q.covariance[..])),
            LabelFactors::Shared(q) => (&q.0.weights, None),
            LabelFactors::And(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
            LabelFactors::Cut(q) => (&q.weights.mean, Some(&q.weights.covariance[..])),
            LabelFactors::Rowwise(q) => return Self::Rowwise(q),
            LabelFactors::AndByRows(q) => return Self::Rowwise(&q.weights),
            LabelFactors::CutByRows(q) => return Self::Rowwise(&q.weights),
            LabelFactors::AndShared(q) => (&q.0.weights.weights, None),
            LabelFactors::CutShared(q) => (&q.0.weights.weights, None),
            LabelFactors::InRowSpace(_) => unreachable!("a posterior knows the space of its rows"),
        };
        Self::Tables { means, stride: means.len() / p.schema.labels.len().max(1), covariance }
    }

    /// Mean of coefficient i of a label: its weights come first.
    fn mean(&self, label: usize, i: usize) -> f64 {
        match self {
            Self::Tables { means, stride, .. } => means[label * stride + i],
            Self::Made { means, stride, .. } => means[label * stride + i],
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
            Self::Made { variances, columns, .. } => variances[label * columns + i].sqrt(),
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
