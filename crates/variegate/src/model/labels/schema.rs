//! The data as results depend on them: columns, labels, and how rows become inputs.

use serde::{Deserialize, Serialize};

use super::and::And;
use super::bound::Bound;
use super::classifier::{Classifier, Loss, Means};
use super::cut::Cut;
use super::gamma_factor::{GammaFactor, Precision};
use super::inputs::Inputs;
use super::kernel::{Bernoulli, Diagonal, Full, Kernel, Multinomial};
use super::label_part::LabelPart;
use super::logit::{Form, Logit, Rowwise, SharedBohning};
use super::mixture::Mixture;
use super::patterns::Patterns;
use super::row_space;
use super::settings::{BoundKind, ClassifierKind, Coupling, CovarianceKind, InferenceKind, KernelKind, PatternKind, RowScaling, Settings};
use super::sticks::Concentration;
use crate::data::design::packed_len;
use crate::data::survey::preview;
use crate::data::{Design, LabelCounts, Scaling, Survey};
use crate::model::ClassWeight;
use crate::{Error, Result};

/// Sparse rows of more columns are not made dense for a Gaussian kernel.
const MOST_DENSE: usize = 5_000;
/// Work of a sweep, cubes of coefficients of all labels, beyond which the tight bound takes seconds for each.
const MOST_WORK: f64 = 2e10;
/// Columns beyond which products of all of them take too long.
const MOST_SHARED: usize = 5_000;
/// Coefficients of a label beyond which minibatches form no matrices.
const MOST_AVERAGED: usize = 500;
/// Most memory of the matrices of a sampler, in every thread.
const MOST_BYTES: f64 = 2e9;
/// Standard deviations of columns that differ by more than this should be brought nearer.
const MOST_APART: f64 = 1e4;

/// What results depend on beside the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    pub(super) columns: Vec<String>,
    pub(super) width: usize,
    pub(super) labels: Vec<String>,
    pub(super) counts: LabelCounts,
    pub(super) rows: u64,
    /// Mean of each column.
    pub(super) means: Vec<f64>,
    pub(super) kernel: KernelKind,
    inputs: Inputs,
    /// The bound that was chosen, and where weights are found.
    bound: Chosen,
}

/// A bound, and whether weights are found in the space that rows span. The first two are what was saved before there were such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Chosen {
    JaakkolaJordan,
    Bohning,
    JaakkolaJordanInRowSpace,
    BohningInRowSpace,
}

impl Chosen {
    fn new(bound: Bound, in_row_space: bool) -> Self {
        match (bound, in_row_space) {
            (Bound::JaakkolaJordan, false) => Self::JaakkolaJordan,
            (Bound::Bohning, false) => Self::Bohning,
            (Bound::JaakkolaJordan, true) => Self::JaakkolaJordanInRowSpace,
            (Bound::Bohning, true) => Self::BohningInRowSpace,
        }
    }

    fn bound(self) -> Bound {
        match self {
            Self::JaakkolaJordan | Self::JaakkolaJordanInRowSpace => Bound::JaakkolaJordan,
            Self::Bohning | Self::BohningInRowSpace => Bound::Bohning,
        }
    }

    fn in_row_space(self) -> bool {
        matches!(self, Self::JaakkolaJordanInRowSpace | Self::BohningInRowSpace)
    }
}

impl Schema {
    /// What results depend on, and what a user should know of the data.
    pub(super) fn of(survey: &Survey, s: &Settings) -> Result<(Self, Vec<String>)> {
        let header = survey.header();
        if header.weighted {
            return Err(Error::Unfit("labels takes no row weights: leave them out, or repeat rows".into()));
        }
        let counts = survey.labels().clone();
        if counts.unknown == survey.rows() {
            return Err(Error::Unfit("no row has a known label: there is nothing to learn labels from".into()));
        }
        let mut warnings = label_warnings(header.labels(), &counts);
        let kernel = kernel_of(survey, s.features, &mut warnings)?;
        let (inputs, more) = inputs_of(survey, s, kernel);
        warnings.extend(more);
        if s.coupling == Coupling::Cut && s.label_patterns == PatternKind::Multinomial && counts.partly_known > 0 {
            return Err(Error::Unfit(format!(
                "{} rows have some labels that are known and some that are not, which `label_patterns` multinomial cannot use: set it to bernoulli",
                counts.partly_known
            )));
        }
        let schema = Self {
            columns: header.columns.clone(),
            width: header.width,
            labels: header.labels().to_vec(),
            counts,
            rows: survey.rows(),
            means: survey.columns().iter().map(|c| c.mean()).collect(),
            kernel,
            bound: match s.inference {
                InferenceKind::Vb | InferenceKind::Memoized | InferenceKind::Svi => bound_of(s, inputs.classifier.dim(), survey)?,
                InferenceKind::Gibbs => {
                    Chosen::new(sampler_fits(s, survey.rows() as usize, inputs.classifier.dim(), header.labels().len())?, false)
                }
            },
            inputs,
        };
        schema.mixture(s)?;
        Ok((schema, warnings))
    }

    /// The same with the labels that further rows have more. Scales and priors stay those of the first rows; a new label's are those of the rows
    /// that it came with.
    pub(super) fn with_more(&self, survey: &Survey, s: &Settings) -> Result<(Self, Vec<String>)> {
        let header = survey.header();
        if header.weighted {
            return Err(Error::Unfit("labels takes no row weights: leave them out, or repeat rows".into()));
        }
        if header.width != self.width {
            return Err(Error::Unfit(format!("further rows have {} columns, and those of the fit have {}", header.width, self.width)));
        }
        if !self.columns.is_empty() && !header.columns.is_empty() && header.columns != self.columns {
            return Err(Error::Unfit("further rows have other columns than those of the fit, or in another order".into()));
        }
        let (names, have) = (header.labels(), self.labels.len());
        if !names.starts_with(&self.labels) {
            return Err(Error::Unfit("labels of further rows must begin with those of the fit, in the same order; new ones follow".into()));
        }
        if s.coupling == Coupling::Cut && s.label_patterns == PatternKind::Multinomial && survey.labels().partly_known > 0 {
            return Err(Error::Unfit("`label_patterns` multinomial needs all labels of a row, or none: set it to bernoulli".into()));
        }
        let mut warnings = Vec::new();
        kernel_of(survey, self.kernel, &mut warnings)?;
        let mut schema = self.clone();
        schema.labels.extend_from_slice(&names[have..]);
        for (all, new) in [(&mut schema.counts.present, &survey.labels().present), (&mut schema.counts.absent, &survey.labels().absent)] {
            all.extend_from_slice(&new[have..]);
        }
        if names.len() > have {
            warnings.push(format!("{} label(s) are new: {}", names.len() - have, preview(&names[have..])));
        }
        Ok((schema, warnings))
    }

    /// That of data which are to be drawn: rows are inputs as they are, and labels as common as not.
    pub(super) fn drawn(width: usize, labels: Vec<String>, kernel: KernelKind) -> Self {
        let gaussian = matches!(kernel, KernelKind::GaussianDiag | KernelKind::GaussianFull);
        let inputs = Inputs {
            kernel: gaussian.then(|| Design::identity(width, false)),
            classifier: Design::identity(width, true),
            unit_rows: false,
        };
        let none = vec![0; labels.len()];
        let counts = LabelCounts { present: none.clone(), absent: none, ..LabelCounts::default() };
        let (columns, means) = (Vec::new(), vec![0.5; width]);
        Self { columns, width, labels, counts, rows: 0, means, kernel, inputs, bound: Chosen::JaakkolaJordan }
    }

    /// The model of these data.
    pub(super) fn mixture(&self, s: &Settings) -> Result<Mixture> {
        let concentration = match s.concentration {
            Some(alpha) => Concentration::Fixed(alpha),
            None => Concentration::Random(GammaFactor { shape: s.concentration_shape, rate: s.concentration_rate }),
        };
        let labels = self.label_part(s);
        let labels = if self.bound.in_row_space() { labels.in_row_space(self.rows as usize) } else { labels };
        Ok(Mixture { inputs: self.inputs.clone(), kernel: self.kernel(s)?, labels, concentration })
    }

    fn kernel(&self, s: &Settings) -> Result<Kernel> {
        let width = self.width;
        let power = s.feature_power.unwrap_or_else(|| (width.max(1) as f64).sqrt().recip());
        let zeros = vec![0.0; width];
        Ok(match self.kernel {
            KernelKind::Multinomial => Kernel::Multinomial(Multinomial::new(width, s.prior_count, power)),
            KernelKind::Bernoulli => {
                let rows = self.rows as f64;
                let rates: Vec<f64> = self.means.iter().map(|m| Bernoulli::rate(m * rows, rows)).collect();
                Kernel::Bernoulli(Bernoulli::new(s.rate_strength, &rates, power))
            }
            KernelKind::GaussianFull => {
                let scatter = Full::identity(width);
                Kernel::Full(Full::new(&zeros, s.mean_strength, width as f64 + 2.0, &scatter, &zeros, power)?)
            }
            KernelKind::GaussianDiag | KernelKind::Auto => {
                let rates = vec![s.feature_rate; width];
                Kernel::Diagonal(Diagonal::new(&zeros, s.mean_strength, s.feature_shape, &rates, &zeros, power))
            }
        })
    }

    fn label_part(&self, s: &Settings) -> LabelPart {
        let learned = Precision::Learned(GammaFactor { shape: s.precision_shape, rate: s.precision_rate });
        let svi = s.inference == InferenceKind::Svi;
        let by_rows = rowwise(s, self.inputs.classifier.dim(), self.labels.len());
        let weights = Logit {
            labels: self.labels.len(),
            dim: self.inputs.classifier.dim(),
            intercept: true,
            bias_precision: s.bias_precision,
            weight_precision: s.weight_precision.map_or(learned, Precision::Fixed),
            pattern_precision: learned,
            bound: self.bound.bound(),
            form: match s.coupling {
                Coupling::Logit => s.covariance.form(),
                _ if by_rows => Form::Diagonal,
                _ => Form::Full,
            },
        };
        match s.coupling {
            Coupling::Logit if by_rows => LabelPart::Rowwise(Rowwise { prior: weights }),
            Coupling::Logit if self.shares(&weights) && !svi => LabelPart::Shared(SharedBohning { prior: weights }),
            Coupling::Logit => LabelPart::Logit(weights),
            Coupling::And => LabelPart::And(And { weights, pattern_prior: (s.pattern_yes, s.pattern_no) }),
            Coupling::Cut => {
                let loss = if s.classifier == ClassifierKind::Svm { Loss::Hinge } else { Loss::Logistic };
                let class_weights = if s.class_weight == ClassWeight::Balanced { self.balanced() } else { Vec::new() };
                let classifier = Classifier { prior: weights, prior_mean: Vec::new(), loss, class_weights };
                LabelPart::Cut(Cut { patterns: self.patterns(s), classifier })
            }
        }
    }

    /// Whether one matrix serves all labels.
    fn shares(&self, weights: &Logit) -> bool {
        weights.bound == Bound::Bohning && weights.form == Form::Full && self.counts.partly_known == 0 && !self.bound.in_row_space()
    }

    /// Weights of rows without and with each label that make both count the same, and as many in all as there are; 1 where there is but one
    /// kind of row.
    fn balanced(&self) -> Vec<[f64; 2]> {
        let of_label = |(&present, &absent): (&u64, &u64)| {
            let half = 0.5 * (present + absent) as f64;
            if present == 0 || absent == 0 { [1.0; 2] } else { [half / absent as f64, half / present as f64] }
        };
        self.counts.present.iter().zip(&self.counts.absent).map(of_label).collect()
    }

    fn patterns(&self, s: &Settings) -> Patterns {
        match s.label_patterns {
            PatternKind::Multinomial => Patterns::multinomial(self.labels.len(), s.label_count),
            PatternKind::Bernoulli => Patterns::bernoulli(s.label_strength, &self.label_rates()),
        }
    }

    /// Share of the rows that have each label, of those that know it, with one more row of each kind.
    pub(super) fn label_rates(&self) -> Vec<f64> {
        let counts = self.counts.present.iter().zip(&self.counts.absent);
        counts.map(|(&present, &absent)| Bernoulli::rate(present as f64, (present + absent) as f64)).collect()
    }
}

/// Labels that say little or nothing.
fn label_warnings(names: &[String], counts: &LabelCounts) -> Vec<String> {
    let which = |f: &dyn Fn(u64, u64) -> bool| {
        let pairs = counts.present.iter().zip(&counts.absent).zip(names);
        pairs.filter(|((p, a), _)| f(**p, **a)).map(|(_, name)| name.clone()).collect::<Vec<_>>()
    };
    let kinds: [(&dyn Fn(u64, u64) -> bool, &str); 3] = [
        (&|p, a| p == 0 && a == 0, "are known of no row"),
        (&|p, a| p == 0 && a > 0, "are present in no row"),
        (&|p, a| p > 0 && a == 0, "are present in every row that knows them"),
    ];
    let say = |(f, words): (&dyn Fn(u64, u64) -> bool, &str)| {
        let found = which(f);
        (!found.is_empty()).then(|| format!("{} label(s) {words}, so that their prior decides: {}", found.len(), preview(&found)))
    };
    kinds.into_iter().filter_map(say).collect()
}

/// The kernel asked for, if the data admit it; by default that of the data.
fn kernel_of(survey: &Survey, asked: KernelKind, warnings: &mut Vec<String>) -> Result<KernelKind> {
    let header = survey.header();
    let outside = |low: f64, high: f64| {
        let of = |(j, c): (usize, &crate::data::survey::Spread)| {
            let (least, most) = c.range()?;
            let value = if least < low { least } else { most };
            (least < low || most > high).then(|| (header.column_name(j), value))
        };
        survey.columns().iter().enumerate().find_map(of)
    };
    let (negative, not_binary) = (outside(0.0, f64::INFINITY), outside(0.0, 1.0));
    let fractions = survey.fractions();
    match asked {
        KernelKind::Auto if not_binary.is_none() && !fractions => return Ok(KernelKind::Bernoulli),
        KernelKind::Auto if negative.is_none() && (!fractions || header.sparse) => {}
        KernelKind::Auto => return dense_enough(survey, KernelKind::GaussianDiag),
        KernelKind::Multinomial => {
            if let Some((name, value)) = negative {
                let what = format!("column `{name}` has {value}, and `features` multinomial takes no negative numbers");
                return Err(Error::Unfit(format!("{what}: set it to gaussian-diag")));
            }
        }
        KernelKind::Bernoulli => {
            if let Some((name, value)) = not_binary {
                let what = format!("column `{name}` has {value}, and `features` bernoulli takes zeros and ones");
                return Err(Error::Unfit(format!("{what}: set it to multinomial for counts, or to gaussian-diag")));
            }
            if fractions {
                let what = "some features are neither 0 nor 1, and `features` bernoulli takes nothing else";
                return Err(Error::Unfit(format!("{what}: set it to multinomial for counts, or to gaussian-diag")));
            }
            return Ok(asked);
        }
        KernelKind::GaussianDiag | KernelKind::GaussianFull => {
            return dense_enough(survey, asked);
        }
    }
    if fractions {
        warnings.push(
            "features have fractions, which are taken as counts of words: set `features` to gaussian-diag if they are measured".into(),
        );
    }
    Ok(KernelKind::Multinomial)
}

/// Gaussian kernels fill in sparse rows.
fn dense_enough(survey: &Survey, kernel: KernelKind) -> Result<KernelKind> {
    let header = survey.header();
    if !header.sparse || header.width <= MOST_DENSE {
        return Ok(kernel);
    }
    Err(Error::Unfit(format!(
        "`features` {} fills in sparse rows, and {} columns are too many for that: set it to multinomial or bernoulli, which take no negative \
         numbers, or select columns first",
        kernel.word(),
        header.width
    )))
}

fn inputs_of(survey: &Survey, s: &Settings, kernel: KernelKind) -> (Inputs, Vec<String>) {
    let sparse = survey.header().sparse;
    let unit_rows = match s.scaling {
        RowScaling::Auto => sparse,
        other => other == RowScaling::UnitRows,
    };
    let standardize = !unit_rows && s.scaling != RowScaling::None;
    let scaling = Scaling { center: standardize && !sparse, scale: standardize, intercept: true, drop_constant: true };
    let (classifier, dropped) = Design::of_columns(survey.columns(), scaling);
    let mut warnings = survey.column_warnings(&dropped, true);
    let deviations = || survey.columns().iter().filter_map(|c| c.deviation());
    let (least, most) = (deviations().fold(f64::INFINITY, f64::min), deviations().fold(0.0, f64::max));
    if s.scaling == RowScaling::None && most > MOST_APART * least {
        warnings.push(format!(
            "standard deviations of columns reach from {least:.3e} to {most:.3e}, and no prior suits them all: set `scaling` to standardize"
        ));
    }
    let gaussian = matches!(kernel, KernelKind::GaussianDiag | KernelKind::GaussianFull);
    let standardised = Scaling { center: true, scale: true, intercept: false, drop_constant: false };
    let kernel = gaussian.then(|| Design::of_columns(survey.columns(), standardised).0);
    (Inputs { kernel, classifier, unit_rows }, warnings)
}

/// Coefficients of a label that are found together: its weights, and its patterns where these are log-odds too.
fn coefficients(s: &Settings, dim: usize) -> usize {
    dim + if s.coupling == Coupling::Logit { s.components as usize } else { 0 }
}

/// Memory of the matrices of all labels.
fn label_bytes(s: &Settings, dim: usize, labels: usize) -> f64 {
    16.0 * labels as f64 * (coefficients(s, dim) as f64).powi(2)
}

/// Whether minibatches speak for themselves and no matrices are formed.
fn rowwise(s: &Settings, dim: usize, labels: usize) -> bool {
    if s.inference != InferenceKind::Svi || (s.coupling == Coupling::Logit && s.bound == BoundKind::Bohning) {
        return false;
    }
    let large = coefficients(s, dim) > MOST_AVERAGED || label_bytes(s, dim, labels) > s.label_memory * 1e9;
    s.covariance == CovarianceKind::Diagonal || (s.covariance == CovarianceKind::Auto && large)
}

/// Refuses what a sampler cannot hold; its label part has no bound, and takes any.
fn sampler_fits(s: &Settings, rows: usize, dim: usize, labels: usize) -> Result<Bound> {
    let bytes = 8.0 * (labels * packed_len(dim)) as f64;
    let formed = s.coupling != Coupling::Cut || Means::of(rows, dim) == Means::Matrices;
    if bytes <= MOST_BYTES || !formed {
        return Ok(Bound::JaakkolaJordan);
    }
    Err(Error::Unfit(format!(
        "`inference` gibbs holds a matrix for each of {labels} labels with {dim} columns, {:.1} GB for every thread: select columns first, \
         or set it to vb",
        bytes / 1e9
    )))
}

/// Whether weights are found in the space that rows span: where rows are fewer than columns, and matrices of all labels fit.
fn in_row_space(s: &Settings, dim: usize, survey: &Survey) -> bool {
    let (rows, labels) = (survey.rows() as usize, survey.header().labels().len());
    let whole = matches!(s.covariance, CovarianceKind::Auto | CovarianceKind::Full);
    s.inference != InferenceKind::Svi
        && whole
        && row_space::worthwhile(rows, dim - 1)
        && label_bytes(s, row_space::count_of(rows) + 1, labels) <= s.label_memory * 1e9
}

/// Whether a sweep with matrices of all labels takes no more than seconds.
fn quick(s: &Settings, dim: usize, labels: usize) -> bool {
    quick_of(coefficients(s, dim), labels)
}

/// The same of so many coefficients of each label.
fn quick_of(coefficients: usize, labels: usize) -> bool {
    labels as f64 * (coefficients as f64).powi(3) <= MOST_WORK
}

/// Whether Böhning's bound has one matrix for all labels: rows know all of theirs or none, and all rows count the same in every label.
fn shares(s: &Settings, survey: &Survey) -> bool {
    let whole = matches!(s.covariance, CovarianceKind::Auto | CovarianceKind::Full);
    let logistic = s.coupling != Coupling::Cut || (s.classifier == ClassifierKind::Logistic && s.class_weight == ClassWeight::None);
    s.inference != InferenceKind::Svi && whole && logistic && survey.labels().partly_known == 0
}

/// The tight bound where the matrices of all labels are not too large; else the one that needs none of them.
fn bound_of(s: &Settings, dim: usize, survey: &Survey) -> Result<Chosen> {
    let coefficients = coefficients(s, dim);
    let labels = survey.header().labels().len();
    if rowwise(s, dim, labels) {
        return Ok(Chosen::JaakkolaJordan);
    }
    let bytes = label_bytes(s, dim, labels);
    let small = bytes <= s.label_memory * 1e9;
    let quick = quick(s, dim, labels);
    let shared = shares(s, survey);
    let of_rows = in_row_space(s, dim, survey);
    // one matrix of all columns for all labels is less work than one of rows for each; without patterns the tight bound is kept where it can be
    let tight = (small && quick) || (s.coupling != Coupling::Logit && of_rows && quick_of(survey.rows() as usize, labels));
    let alone = match s.bound {
        BoundKind::JaakkolaJordan => false,
        BoundKind::Bohning => shared && (dim <= MOST_SHARED || s.coupling != Coupling::Logit),
        BoundKind::Auto => shared && dim <= MOST_SHARED && !tight,
    };
    if s.bound == BoundKind::Bohning && s.coupling != Coupling::Logit && !shared {
        return Err(Error::Unfit(format!(
            "{} rows have some labels that are known and some that are not: without patterns `bound` bohning needs all labels of a row, or none; set \
             it to jj",
            survey.labels().partly_known
        )));
    }
    if !alone && of_rows {
        return Ok(Chosen::new(if s.bound == BoundKind::Bohning { Bound::Bohning } else { Bound::JaakkolaJordan }, true));
    }
    match s.bound {
        BoundKind::JaakkolaJordan => Ok(Chosen::JaakkolaJordan),
        BoundKind::Bohning => Ok(Chosen::Bohning),
        BoundKind::Auto if small && (quick || !shared) => Ok(Chosen::JaakkolaJordan),
        BoundKind::Auto if shared => Ok(Chosen::Bohning),
        BoundKind::Auto if s.coupling != Coupling::Logit => Err(Error::Unfit(format!(
            "matrices of {labels} labels with {dim} columns each take {:.1} GB: select columns first, set `inference` to svi and leave out \
             `covariance`, so that none are needed, or raise `label_memory`",
            bytes / 1e9
        ))),
        BoundKind::Auto => Err(Error::Unfit(format!(
            "matrices of {labels} labels with {coefficients} coefficients each take {:.1} GB and much time: select columns first, leave out rows \
             of which only some labels are known (with `coupling` logit and `covariance` full no such matrices are needed then), or set \
             `bound` to jj to have them all the same",
            bytes / 1e9
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was saved as a bound alone is read as that bound with matrices of all columns.
    #[test]
    fn bounds_saved_before_are_read() {
        for bound in [Bound::JaakkolaJordan, Bound::Bohning] {
            let chosen: Chosen = postcard::from_bytes(&postcard::to_stdvec(&bound).unwrap()).unwrap();
            assert_eq!(chosen, Chosen::new(bound, false));
            for in_row_space in [false, true] {
                let chosen = Chosen::new(bound, in_row_space);
                assert_eq!((chosen.bound(), chosen.in_row_space()), (bound, in_row_space));
            }
        }
    }
}
