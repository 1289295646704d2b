//! What the draws say: averaged probabilities, decision values, coefficients in the user's units, convergence.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::{NAME, PSEUDO, Schema};
use crate::Result;
use crate::answer::{
    Answers, ClassDraws, ClassProbabilities, Dim, DrawScores, DrawTable, Fact, KeptDraws, NamedArray, Origin, Posterior, Predict,
    PredictClasses, Summary, average, check_prediction_rows, choose_method, chosen,
};
use crate::data::{Dataset, Design};
use crate::model::linear::classifier::{hinge_probability, ln_hinge_probability};
use crate::model::linear::{coefficient_names, decision_values, natural, natural_arrays};
use crate::run::{Piece, state};
use crate::special::log_sum_exp;

pub(super) const SAVED: state::Kind = state::Kind::new("svm draws", &["0.1"]);
const METHODS: &[&str] = &["average", "plug-in"];

/// Draws of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawsPosterior {
    schema: Schema,
    /// Draws of each chain.
    lengths: Vec<usize>,
    /// One draw of the design weights of all classifiers a row, chain after chain.
    weights: Vec<f64>,
    /// Prior precisions of each draw, one a classifier; empty where they are given.
    precision: Vec<f64>,
    /// Log density of each draw.
    log_joint: Vec<f64>,
}

impl DrawsPosterior {
    pub(super) fn new(schema: &Schema, learned: bool, chains: &[Piece]) -> Result<Self> {
        let draws = KeptDraws::of(chains)?;
        let count = schema.inputs().count();
        let weights = draws.vectors("weights", count * schema.columns.design.dim())?;
        let precision = if learned { draws.vectors("precision", count)? } else { Vec::new() };
        Ok(Self { schema: schema.clone(), lengths: draws.lengths(), weights, precision, log_joint: draws.numbers("log_joint")? })
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    fn draws(&self) -> usize {
        self.log_joint.len()
    }

    /// Posterior mean of the design weights.
    fn mean(&self) -> Vec<f64> {
        let (width, n) = (self.weights.len() / self.draws(), self.draws() as f64);
        (0..width).map(|j| self.weights.iter().skip(j).step_by(width).sum::<f64>() / n).collect()
    }

    fn of<'a>(&'a self, weights: &'a [f64]) -> Draws<'a> {
        Draws { design: &self.schema.columns.design, classes: self.schema.columns.classes.len(), weights }
    }

    /// Posterior means of wᵀx̃ of new rows, one a row and classifier: above 0 for the second of two classes, or for the class of the classifier.
    pub fn decision_values(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        check_prediction_rows(data, self.schema.columns.design.raw_cols, &self.schema.columns.columns)?;
        Ok(decision_values(&self.schema.columns.design, &self.mean(), data))
    }
}

impl PredictClasses for DrawsPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.columns.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        self.predict_with(data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        let method = choose_method(how.method, METHODS)?;
        check_prediction_rows(data, self.schema.columns.design.raw_cols, &self.schema.columns.columns)?;
        if method == "average" {
            return average(&self.of(&self.weights), data, how);
        }
        how.refuse_draws("the method `plug-in` takes the weights at their mean")?;
        let found = average(&self.of(&self.mean()), data, how)?;
        Ok(ClassProbabilities { deviation: None, ..found })
    }
}

/// Weights of all classifiers, one draw a row.
struct Draws<'a> {
    design: &'a Design,
    classes: usize,
    weights: &'a [f64],
}

impl Draws<'_> {
    fn width(&self) -> usize {
        self.design.dim() * self.scores()
    }
}

impl DrawScores for Draws<'_> {
    fn design(&self) -> &Design {
        self.design
    }

    fn draws(&self) -> usize {
        // without columns and bias every draw says the same
        self.weights.len().checked_div(self.width()).unwrap_or(1)
    }

    fn scores(&self) -> usize {
        if self.classes == 2 { 1 } else { self.classes }
    }

    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]> {
        chosen(self.weights, self.width(), draws)
    }
}

impl ClassDraws for Draws<'_> {
    type Work = Vec<f64>;

    fn classes(&self) -> usize {
        self.classes
    }

    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], _: &mut Vec<f64>) {
        if self.classes == 2 {
            for (p, &f) in out.chunks_exact_mut(2).zip(scores.iter()) {
                (p[0], p[1]) = (hinge_probability(-f), hinge_probability(f));
            }
            return;
        }
        for (p, f) in out.chunks_exact_mut(self.classes).zip(scores.chunks_exact(self.classes)) {
            p.iter_mut().zip(f).for_each(|(p, f)| *p = hinge_probability(*f));
            let total: f64 = p.iter().sum();
            // far from every class none is likelier than another
            p.iter_mut().for_each(|p| if total > 0.0 { *p /= total } else { *p = 1.0 / f.len() as f64 });
        }
    }

    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], work: &mut Vec<f64>) {
        if self.classes == 2 {
            let sign = if class == 1 { 1.0 } else { -1.0 };
            out.iter_mut().zip(scores.iter()).for_each(|(o, f)| *o = ln_hinge_probability(sign * f));
            return;
        }
        for (o, f) in out.iter_mut().zip(scores.chunks_exact(self.classes)) {
            work.clear();
            work.extend(f.iter().map(|f| ln_hinge_probability(*f)));
            *o = work[class as usize] - log_sum_exp(work);
        }
    }
}

impl Posterior for DrawsPosterior {
    fn origin(&self) -> Origin<'_> {
        let columns = &self.schema.columns;
        Origin { family: NAME, columns: &columns.columns, width: columns.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { classes: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let columns = &self.schema.columns;
        let (natural, k) = (natural(&columns.design, &self.weights), columns.design.kept.len());
        let count = self.schema.inputs().count();
        let mut table = DrawTable::new("coefficients", &self.lengths);
        table.judge("log density", &self.log_joint);
        let shown = (0..count * (k + 1)).filter(|at| columns.design.intercept || at % (k + 1) < k);
        for (at, name) in shown.zip(coefficient_names(columns)) {
            table.row(name, &natural.iter().skip(at).step_by(count * (k + 1)).copied().collect::<Vec<f64>>());
        }
        for c in 0..self.precision.len() / self.draws() {
            let name = columns.classifiers().get(c).map_or("prior precision".to_string(), |class| format!("{class}: prior precision"));
            table.row(name, &self.precision.iter().skip(c).step_by(count).copied().collect::<Vec<f64>>());
        }
        let (table, verdict) = table.finish();
        let mut facts = vec![Fact::text("model", self.schema.model()), self.schema.rows()];
        facts.extend(DrawTable::facts(&self.lengths));
        facts.push(Fact::number("mean log density", self.log_joint.iter().sum::<f64>() / self.draws() as f64));
        let notes = verdict.sentences.into_iter().chain([PSEUDO.to_string()]).collect();
        Summary { facts, tables: vec![table], converged: verdict.converged, notes, ..Summary::default() }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let columns = &self.schema.columns;
        let mean = natural(&columns.design, &self.mean());
        let all = natural(&columns.design, &self.weights);
        let draw = Dim::counted("draw", self.draws());
        let mut out = natural_arrays(columns, ("coef", "intercept"), &[], &mean).to_vec();
        out.extend(natural_arrays(columns, ("coef_draws", "intercept_draws"), std::slice::from_ref(&draw), &all));
        if !self.precision.is_empty() {
            let of_classifier = Dim::counted("classifier", self.schema.inputs().count());
            out.push(NamedArray::new("precision_draws", vec![draw, of_classifier], self.precision.clone()));
        }
        out.push(NamedArray::draws("log_joint_draws", self.log_joint.clone()));
        out.push(NamedArray::chain_lengths(&self.lengths));
        out
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
