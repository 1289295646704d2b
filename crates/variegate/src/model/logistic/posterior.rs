//! What the draws say: averaged probabilities, coefficients in the user's units, convergence.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::NAME;
use crate::Result;
use crate::answer::{
    Answers, ClassDraws, ClassProbabilities, Dim, DrawScores, DrawTable, Fact, KeptDraws, NamedArray, Origin, Posterior, Predict,
    PredictClasses, RowLikelihood, RowLikelihoods, Summary, average, check_prediction_rows, choose_method, chosen, known_classes,
    ln_likelihoods,
};
use crate::data::{Dataset, Design};
use crate::linalg::wide;
use crate::model::linear::{Schema, natural};
use crate::run::{Piece, state};
use crate::special::branchless::exp;
use crate::special::ln_sigmoid;

const SAVED: state::Kind = state::Kind::new("logistic posterior", &["0.1"]);
const METHODS: &[&str] = &["average", "plug-in"];

/// Posterior draws of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogisticPosterior {
    schema: Schema,
    /// Draws of each chain.
    lengths: Vec<usize>,
    /// One draw of the design weights a row, chain after chain.
    weights: Vec<f64>,
    /// Log joint density of each draw.
    log_joint: Vec<f64>,
}

impl LogisticPosterior {
    pub(super) fn new(schema: &Schema, chains: &[Piece]) -> Result<Self> {
        let draws = KeptDraws::of(chains)?;
        let (weights, log_joint) = (draws.vectors("weights", schema.design.dim())?, draws.numbers("log_joint")?);
        Ok(Self { schema: schema.clone(), lengths: draws.lengths(), weights, log_joint })
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    fn draws(&self) -> usize {
        self.log_joint.len()
    }

    /// Every draw in the units of the user's columns: coefficients, then the intercept (0 without one).
    fn natural(&self) -> Vec<f64> {
        natural(&self.schema.design, &self.weights)
    }
}

impl PredictClasses for LogisticPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        self.predict_with(data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        let method = choose_method(how.method, METHODS)?;
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let design = &self.schema.design;
        if method == "average" {
            return average(&Draws { design, weights: &self.weights }, data, how);
        }
        how.refuse_draws("the method `plug-in` takes the weights at their mean")?;
        let (dim, n) = (design.dim(), self.draws() as f64);
        let mean: Vec<f64> = (0..dim).map(|j| self.weights.iter().skip(j).step_by(dim).sum::<f64>() / n).collect();
        let found = average(&Draws { design, weights: &mean }, data, how)?;
        Ok(ClassProbabilities { deviation: None, ..found })
    }
}

/// Weights, one draw a row.
struct Draws<'a> {
    design: &'a Design,
    weights: &'a [f64],
}

impl DrawScores for Draws<'_> {
    fn design(&self) -> &Design {
        self.design
    }

    fn draws(&self) -> usize {
        // without columns and bias every draw says the same
        self.weights.len().checked_div(self.design.dim()).unwrap_or(1)
    }

    fn scores(&self) -> usize {
        1
    }

    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]> {
        chosen(self.weights, self.design.dim(), draws)
    }
}

impl ClassDraws for Draws<'_> {
    type Work = ();

    fn classes(&self) -> usize {
        2
    }

    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], (): &mut ()) {
        wide(
            #[inline(always)]
            || {
                for (p, &eta) in out.chunks_exact_mut(2).zip(scores.iter()) {
                    let small = exp(-eta.abs());
                    let large = 1.0 / (1.0 + small);
                    let (less, more) = (small * large, large);
                    // both from the exponential, so that a tiny probability of either class keeps its digits
                    p[0] = if eta < 0.0 { more } else { less };
                    p[1] = if eta < 0.0 { less } else { more };
                }
            },
        );
    }

    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], (): &mut ()) {
        let sign = if class == 1 { 1.0 } else { -1.0 };
        out.iter_mut().zip(scores.iter()).for_each(|(o, eta)| *o = ln_sigmoid(sign * eta));
    }
}

impl RowLikelihoods for LogisticPosterior {
    fn row_likelihoods(&self, data: &Dataset<'_>) -> Result<RowLikelihood> {
        let design = &self.schema.design;
        check_prediction_rows(data, design.raw_cols, &self.schema.columns)?;
        let classes = known_classes(data, &self.schema.classes)?;
        let ln = ln_likelihoods(&Draws { design, weights: &self.weights }, data, &classes);
        Ok(RowLikelihood { lengths: self.lengths.clone(), ln })
    }
}

impl Posterior for LogisticPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { classes: Some(self), likelihoods: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let (natural, design) = (self.natural(), &self.schema.design);
        let k = design.kept.len();
        let mut table = DrawTable::new("coefficients", &self.lengths);
        table.judge("log joint density", &self.log_joint);
        let names = design.names(&self.schema.columns).into_iter().chain(design.intercept.then(|| "(intercept)".to_string()));
        for (j, name) in names.enumerate() {
            table.row(name, &natural.iter().skip(j).step_by(k + 1).copied().collect::<Vec<f64>>());
        }
        let (table, verdict) = table.finish();
        let model = format!("logistic: log-odds of `{}` against `{}`", self.schema.classes[1], self.schema.classes[0]);
        let mut facts = vec![Fact::text("model", model)];
        facts.extend(DrawTable::facts(&self.lengths));
        facts.push(Fact::number("mean log joint density", self.log_joint.iter().sum::<f64>() / self.draws() as f64));
        Summary { facts, tables: vec![table], converged: verdict.converged, notes: verdict.sentences, ..Summary::default() }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let k = self.schema.design.kept.len();
        let width = self.schema.design.raw_cols;
        let m = self.draws();
        let natural = self.natural();
        // columns left out as constant have coefficient 0
        let mut coefficients = vec![0.0; m * width];
        let mut intercepts = Vec::with_capacity(m);
        for (row, out) in natural.chunks_exact(k + 1).zip(coefficients.chunks_exact_mut(width)) {
            for (&j, &v) in self.schema.design.kept.iter().zip(row) {
                out[j as usize] = v;
            }
            intercepts.push(row[k]);
        }
        let mean = (0..width).map(|j| coefficients.iter().skip(j).step_by(width).sum::<f64>() / m as f64).collect();
        let intercept = intercepts.iter().sum::<f64>() / m as f64;
        let column = || Dim::columns(&self.schema.columns, width);
        vec![
            NamedArray::new("coef", vec![Dim::counted("row", 1), column()], mean),
            NamedArray::scalar("intercept", intercept),
            NamedArray::new("coef_draws", vec![Dim::counted("draw", m), column()], coefficients),
            NamedArray::draws("intercept_draws", intercepts),
            NamedArray::draws("log_joint_draws", self.log_joint.clone()),
            NamedArray::chain_lengths(&self.lengths),
        ]
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
