//! What the variational fit found: probabilities by the integral of σ, coefficients in the user's units, and the bound.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::NAME;
use crate::Result;
use crate::answer::{Answers, ClassProbabilities, NamedArray, Origin, Posterior, Predict, PredictClasses, Summary, choose_method};
use crate::data::Dataset;
use crate::model::linear::classifier::Classifier;
use crate::model::linear::{FirstFitted, Fitted, Schema, State};
use crate::run::state;

pub(super) const SAVED: state::Kind = state::Kind::new("logistic variational posterior", &["0.1", "0.1"]);
const METHODS: &[&str] = &["integral", "plug-in"];

/// A normal posterior of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariationalPosterior(Fitted);

impl VariationalPosterior {
    pub(super) fn new(schema: &Schema, classifier: &Classifier, found: State) -> Result<Self> {
        Ok(Self(Fitted::new(schema.clone(), classifier.clone(), found)?))
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => Ok(Self(older.decode::<FirstFitted>()?.into())),
            _ => Err(older.refused()),
        })?)
    }

    /// Lower bound on the log evidence.
    pub fn elbo(&self) -> f64 {
        self.0.bound
    }

    /// Posterior mean of the design weights, the bias last where there is one.
    pub fn mean(&self) -> Cow<'_, [f64]> {
        self.0.mean()
    }

    /// Posterior covariance of the design weights: the lower triangle, row by row.
    pub fn covariance(&self) -> Cow<'_, [f64]> {
        self.0.covariance()
    }
}

impl PredictClasses for VariationalPosterior {
    fn classes(&self) -> &[String] {
        &self.0.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        self.predict_with(data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        let plug_in = choose_method(how.method, METHODS)? == "plug-in";
        if plug_in {
            how.refuse_draws("the method `plug-in` takes the weights at their mean")?;
        }
        // quantiles of σ(f) are σ of those of f: an interval needs no draws
        Predict { level: None, ..*how }.refuse_draws("a normal posterior is integrated")?;
        self.0.probabilities(data, plug_in, how.quantiles()?)
    }
}

impl Posterior for VariationalPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.0.schema.columns, width: self.0.schema.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { classes: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let classes = &self.0.schema.classes;
        let mut summary = self.0.summary(format!("logistic: log-odds of `{}` against `{}`", classes[1], classes[0]));
        summary.notes.push("the variances of inference `vb` are somewhat too small; `gibbs` draws from the exact posterior".into());
        summary
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.0.arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::linear::testing::{settings, six_rows};
    use crate::model::{Family, RunSettings, fit};
    use crate::run::Unobserved;

    /// Posteriors and data of runs are read as they were saved before weights had a space of their own.
    #[test]
    fn what_was_saved_before_is_read() {
        let model = super::super::Logistic.configure(&settings(&[("inference", "vb".into())])).unwrap();
        let found = fit(model.as_ref(), &six_rows(), &RunSettings::default(), &mut Unobserved).unwrap().posterior;
        let VariationalPosterior(f) = VariationalPosterior::load(&found.save().unwrap()).unwrap();
        let before = (&f.schema, &f.classifier, &f.q, f.bound, f.sweeps, f.standing);
        let saved = state::seal(state::Kind::new(SAVED.name, &["0.1"]), &before).unwrap();
        assert_eq!(VariationalPosterior::load(&saved).unwrap(), VariationalPosterior(f.clone()));
        let saved = state::seal(state::Kind::new("logistic schema", &["0.1"]), &f.schema).unwrap();
        assert!(model.reopen(&saved).is_ok());
    }
}
