//! What an ascent found: factors of the weights with all that predictions need, and what they say of rows and of themselves.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::ascent::{Standing, State};
use super::classifier::{self, Classifier, Loss, hinge_probability};
use super::expected_sigmoid::{expected_sigmoid, sigmoid_deviation};
use super::inputs::{Schema, matrices_fit};
use super::logit::Factors;
use super::natural::{coefficient_names, natural, natural_arrays};
use super::row_space::RowSpace;
use crate::Result;
use crate::answer::{
    ClassProbabilities, ColumnKind, Dim, Fact, Interval, NamedArray, PREDICT_PANEL, Summary, SummaryTable, check_prediction_rows,
    for_panels_parallel,
};
use crate::data::design::{PanelScratch, packed_len};
use crate::data::{Dataset, Design};
use crate::diagnostics::normal_quantile::normal_quantile;
use crate::special::sigmoid;

/// z of a central 90 % interval.
const Z90: f64 = 1.644_853_626_951_472_6;

/// Factors of the weights, and how they were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fitted {
    pub(crate) schema: Schema,
    pub(crate) classifier: Classifier,
    pub(crate) q: Factors,
    pub(crate) bound: f64,
    pub(crate) sweeps: u64,
    pub(crate) standing: Standing,
    /// The space that rows span, where the factors are of coordinates in it.
    pub(crate) space: Option<RowSpace>,
}

/// What version 1 of a saved posterior held: factors of all columns.
#[derive(Deserialize)]
pub(crate) struct First {
    schema: Schema,
    classifier: Classifier,
    q: Factors,
    bound: f64,
    sweeps: u64,
    standing: Standing,
}

impl From<First> for Fitted {
    fn from(first: First) -> Self {
        let First { schema, classifier, q, bound, sweeps, standing } = first;
        Self { schema, classifier, q, bound, sweeps, standing, space: None }
    }
}

impl Fitted {
    /// The posterior of an ascent; an error before its first sweep.
    pub(crate) fn new(schema: Schema, classifier: Classifier, state: State) -> Result<Self> {
        if state.sweeps == 0 {
            return Err(crate::Error::Unfit("the run has not made its first sweep yet: resume it".into()));
        }
        let State { q, bound, sweeps, standing, space, .. } = state;
        Ok(Self { schema, classifier, q, bound, sweeps, standing, space })
    }

    /// Whether there is a point and no posterior.
    pub(crate) fn point(&self) -> bool {
        self.classifier.loss == Loss::HingePoint
    }

    /// Mean and variance of x̃ᵀw of new rows (rows × classifiers).
    pub(crate) fn scores(&self, data: &Dataset<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let design = &self.schema.design;
        check_prediction_rows(data, design.raw_cols, &self.schema.columns)?;
        let (view, count) = (self.classifier.view(&self.q), self.classifier.prior.labels);
        let states = vec![(Vec::new(), Vec::new()); data.rows().div_ceil(PREDICT_PANEL)];
        let panels = for_panels_parallel(data.x.view(), states, |(mut means, mut variances), _, rows, x| {
            let (mut scratch, mut work) = (PanelScratch::default(), classifier::Scratch::default());
            let mut panel = design.panel(x, &mut scratch);
            let (m, v) = match &self.space {
                Some(space) => space.with_new(&panel, |panel| self.classifier.scores(&view, panel, &mut work)),
                None => self.classifier.scores(&view, &mut panel, &mut work),
            };
            means.extend_from_slice(&m[..rows * count]);
            variances.extend_from_slice(&v[..rows * count]);
            (means, variances)
        });
        let (means, variances): (Vec<_>, Vec<_>) = panels.into_iter().unzip();
        Ok((means.concat(), variances.concat()))
    }

    /// Class probabilities of new rows: E σ(f) or, of `plug_in` weights at their mean, σ(E f); for a hinge its share of the classes at E f. With
    /// `ends`, quantiles of σ(f) at these levels, which are σ of those of f.
    pub(crate) fn probabilities(&self, data: &Dataset<'_>, plug_in: bool, ends: Option<(f64, f64)>) -> Result<ClassProbabilities> {
        let (means, variances) = self.scores(data)?;
        let hinge = self.classifier.loss != Loss::Logistic;
        let classes = self.schema.classes.len();
        let one = |f: f64, v: f64| match (hinge, plug_in) {
            (true, _) => hinge_probability(f),
            (_, true) => sigmoid(f),
            _ => expected_sigmoid(f, v),
        };
        let mut probability = Vec::with_capacity(data.rows() * classes);
        if classes == 2 {
            // either class by itself, so that a tiny probability of either keeps its digits
            probability.extend(means.iter().zip(&variances).flat_map(|(&f, &v)| [one(-f, v), one(f, v)]));
        } else {
            probability.extend(means.iter().zip(&variances).map(|(&f, &v)| one(f, v)));
        }
        normalise(&mut probability, classes)?;
        let interval = ends.filter(|_| classes == 2 && !hinge).map(|(low, high)| {
            let z = [low, high].map(normal_quantile);
            let end = |z: f64, other: f64| {
                let at = |sign: f64, z: f64, (f, v): (&f64, &f64)| sigmoid(sign * (f + z * v.max(0.0).sqrt()));
                means.iter().zip(&variances).flat_map(|fv| [at(-1.0, other, fv), at(1.0, z, fv)]).collect()
            };
            Interval { lower: end(z[0], z[1]), upper: end(z[1], z[0]) }
        });
        let spread = classes == 2 && !hinge && !plug_in;
        let deviation = spread.then(|| means.iter().zip(&variances).flat_map(|(&f, &v)| [sigmoid_deviation(f, v); 2]).collect());
        Ok(ClassProbabilities { probability, deviation, interval })
    }

    /// Means of the design weights of each classifier, the bias last where there is one.
    pub(crate) fn mean(&self) -> Cow<'_, [f64]> {
        let Some(space) = &self.space else { return Cow::Borrowed(&self.q.mean) };
        let prior = &self.classifier.prior;
        let weights = space.means(prior, &self.q);
        let each = weights.chunks_exact(self.schema.design.kept.len().max(1)).zip(self.q.mean.chunks_exact(prior.dim));
        Cow::Owned(each.flat_map(|(w, m)| [w, &m[prior.columns()..]].concat()).collect())
    }

    /// Covariances of the design weights of each classifier: the lower triangle, row by row.
    pub(crate) fn covariance(&self) -> Cow<'_, [f64]> {
        let Some(space) = &self.space else { return Cow::Borrowed(&self.q.covariance) };
        let prior = &self.classifier.prior;
        Cow::Owned((0..prior.labels).flat_map(|c| space.covariance(prior, &self.q, c)).collect())
    }

    /// Standard deviations of the coefficients of each classifier in the user's units, and of its intercept.
    fn deviations(&self, space: &RowSpace) -> Vec<f64> {
        let (design, prior) = (&self.schema.design, &self.classifier.prior);
        let shift = design.mean.iter().zip(&design.scale).map(|(m, s)| -m / s).collect();
        let variances = space.variances(prior, &self.q);
        let each = variances.chunks_exact(design.kept.len().max(1)).zip(space.shifted(prior, &self.q, shift));
        each.flat_map(|(v, last)| v.iter().zip(&design.scale).map(|(v, s)| v.sqrt() / s).chain([last.sqrt()]).collect::<Vec<_>>()).collect()
    }

    /// Means and standard deviations of the weights in the user's units: coefficients of the kept columns of each classifier, then its intercept
    /// (0 without one).
    pub(crate) fn coefficients(&self) -> (Vec<f64>, Vec<f64>) {
        let design = &self.schema.design;
        if let Some(space) = &self.space {
            return (natural(design, &self.mean()), self.deviations(space));
        }
        let (k, dim) = (design.kept.len(), design.dim());
        let mut deviations = Vec::with_capacity(self.classifier.prior.labels * (k + 1));
        for v in self.q.covariance.chunks_exact(packed_len(dim).max(1)) {
            let at = |i: usize, j: usize| v[packed_len(i.max(j)) + i.min(j)];
            deviations.extend((0..k).map(|j| at(j, j).max(0.0).sqrt() / design.scale[j]));
            let shift: Vec<f64> = design.mean.iter().zip(&design.scale).map(|(m, s)| -m / s).collect();
            let direction: Vec<f64> = shift.into_iter().chain(design.intercept.then_some(1.0)).collect();
            let row = |i: usize| direction[i] * (0..dim).map(|j| at(i, j) * direction[j]).sum::<f64>();
            deviations.push((0..dim).map(row).sum::<f64>().max(0.0).sqrt());
        }
        (natural(design, &self.q.mean), deviations)
    }

    /// The table of coefficients, figures of the ascent, and whether it has converged. What the family is comes first.
    pub(crate) fn summary(&self, model: String) -> Summary {
        use ColumnKind::Number;
        let (means, deviations) = self.coefficients();
        let mut table = if self.point() {
            SummaryTable::new("coefficients", [("estimate", Number)])
        } else {
            SummaryTable::new("coefficients", [("mean", Number), ("sd", Number), ("5%", Number), ("95%", Number)])
        };
        let k = self.schema.design.kept.len();
        let shown = |at: &usize| self.schema.design.intercept || at % (k + 1) < k;
        for (at, name) in (0..means.len()).filter(shown).zip(coefficient_names(&self.schema)) {
            let (m, sd) = (means[at], deviations[at]);
            table.rows.push((name, if self.point() { vec![m] } else { vec![m, sd, m - Z90 * sd, m + Z90 * sd] }));
        }
        let mut facts = vec![Fact::text("model", model), Fact::count("sweeps", self.sweeps as usize)];
        facts.push(if self.point() { Fact::number("log pseudo-posterior", self.bound) } else { Fact::number("bound", self.bound) });
        if let Some(precisions) = self.precisions() {
            let names = self.schema.classifiers();
            let name = |c: usize| names.get(c).cloned().unwrap_or_else(|| "weights".into());
            let numbers = precisions.into_iter().enumerate().map(|(c, p)| (name(c), p)).collect();
            facts.push(Fact::new("prior precision", crate::answer::Figure::Numbers(numbers)).remark("learned"));
        }
        let converged = self.standing == Standing::Converged;
        let notes = match self.standing {
            Standing::Converged => Vec::new(),
            Standing::Rising => vec!["the ascent is not finished: resume it".to_string()],
            Standing::OutOfSweeps => {
                vec![format!(
                    "the ascent had its {} sweeps and was still rising: raise `max_iter`, or `tol` if this is near enough",
                    self.sweeps
                )]
            }
        };
        Summary { facts, tables: vec![table], converged, notes, ..Summary::default() }
    }

    /// Posterior mean of the prior precision of each classifier, where it was learned.
    pub(crate) fn precisions(&self) -> Option<Vec<f64>> {
        use super::gamma_factor::Precision;
        match self.classifier.prior.weight_precision {
            Precision::Fixed(_) => None,
            Precision::Learned(_) => Some(self.q.weight_precision.iter().map(|q| q.mean()).collect()),
        }
    }

    /// Coefficients and intercepts with their deviations and, in the units of the design, mean and covariance of the weights; no covariance where it
    /// would take gigabytes.
    pub(crate) fn arrays(&self) -> Vec<NamedArray> {
        let (means, deviations) = self.coefficients();
        let mut out = natural_arrays(&self.schema, ("coef", "intercept"), &[], &means).to_vec();
        out.push(NamedArray::scalar(if self.point() { "objective" } else { "elbo" }, self.bound));
        let classifier = || match self.schema.classifiers() {
            [] => Dim::counted("row", 1),
            names => Dim::named("class", names.to_vec()),
        };
        if let Some(precisions) = self.precisions() {
            out.push(NamedArray::new("precision", vec![classifier()], precisions));
        }
        if self.point() {
            return out;
        }
        out.extend(natural_arrays(&self.schema, ("coef_sd", "intercept_sd"), &[], &deviations));
        let design = &self.schema.design;
        let dim = design.dim();
        let weight =
            || Dim::named("weight", design.names(&self.schema.columns).into_iter().chain(design.intercept.then(|| "(bias)".to_string())));
        out.push(NamedArray::new("weight_mean", vec![classifier(), weight()], self.mean().into_owned()));
        if !matrices_fit(dim, self.classifier.prior.labels) {
            return out;
        }
        let mut covariance = Vec::with_capacity(self.classifier.prior.labels * dim * dim);
        for v in self.covariance().chunks_exact(packed_len(dim).max(1)) {
            covariance.extend((0..dim * dim).map(|at| (at / dim, at % dim)).map(|(i, j)| v[packed_len(i.max(j)) + i.min(j)]));
        }
        out.push(NamedArray::new("weight_covariance", vec![classifier(), weight(), weight()], covariance));
        out
    }
}

/// wᵀx̃ of new rows, one a row and vector of weights.
pub(crate) fn decision_values(design: &Design, weights: &[f64], data: &Dataset<'_>) -> Vec<f64> {
    let count = weights.len() / design.dim().max(1);
    let states = vec![Vec::new(); data.rows().div_ceil(PREDICT_PANEL)];
    let panels = for_panels_parallel(data.x.view(), states, |mut values, _, rows, x| {
        values.resize(PREDICT_PANEL * count, 0.0);
        design.panel(x, &mut PanelScratch::default()).mul_t(weights, count, &mut values);
        values.truncate(rows * count);
        values
    });
    panels.concat()
}

/// Makes rows of probabilities sum to one; an error for numbers that have left their range.
fn normalise(probability: &mut [f64], classes: usize) -> Result<()> {
    for (row, p) in probability.chunks_exact_mut(classes).enumerate() {
        let total: f64 = p.iter().sum();
        if !total.is_finite() {
            return Err(crate::Error::Unfit(format!("row {}: its values are too large to compute with", row + 1)));
        }
        // far from every class none is likelier than another
        p.iter_mut().for_each(|p| if total > 0.0 { *p /= total } else { *p = 1.0 / classes as f64 });
    }
    Ok(())
}
