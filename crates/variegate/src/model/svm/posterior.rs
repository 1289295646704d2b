//! What the ascent found: a variational posterior or a point, its probabilities, decision values and coefficients.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::{NAME, PSEUDO, Schema};
use crate::Result;
use crate::answer::{Answers, ClassProbabilities, NamedArray, Origin, Posterior, Predict, PredictClasses, Summary, choose_method};
use crate::data::Dataset;
use crate::model::linear::classifier::Classifier;
use crate::model::linear::{FirstFitted, Fitted, State};
use crate::run::state;

const SAVED: state::Kind = state::Kind::new("svm posterior", &["0.1", "0.1"]);
const METHODS: &[&str] = &["plug-in"];

/// Factors of the weights, or a point, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SvmPosterior {
    schema: Schema,
    fitted: Fitted,
}

impl SvmPosterior {
    pub(super) fn new(schema: &Schema, classifier: &Classifier, found: State) -> Result<Self> {
        let fitted = Fitted::new(schema.columns.clone(), classifier.clone(), found)?;
        Ok(Self { schema: schema.clone(), fitted })
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => {
                let (schema, fitted) = older.decode::<(Schema, FirstFitted)>()?;
                Ok(Self { schema, fitted: fitted.into() })
            }
            _ => Err(older.refused()),
        })?)
    }

    /// Lower bound on the log of prior and pseudo-likelihood, integrated; of a point their log at it, without the prior's constant (2π)^−½ of each
    /// weight.
    pub fn objective(&self) -> f64 {
        self.fitted.bound
    }

    /// Mean of the design weights of each classifier, the bias last where there is one.
    pub fn mean(&self) -> Cow<'_, [f64]> {
        self.fitted.mean()
    }

    /// Covariance of the design weights of each classifier: the lower triangle, row by row; zeros of a point.
    pub fn covariance(&self) -> Cow<'_, [f64]> {
        self.fitted.covariance()
    }

    /// Means of wᵀx̃ of new rows, one a row and classifier: above 0 for the second of two classes, or for the class of the classifier.
    pub fn decision_values(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        Ok(self.fitted.scores(data)?.0)
    }
}

impl PredictClasses for SvmPosterior {
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
        choose_method(how.method, METHODS)?;
        let because = if self.fitted.point() {
            "inference `map` gives a point and no posterior; fit with `gibbs`"
        } else {
            "variances of inference `vb` are far too small here; fit with `gibbs`"
        };
        how.refuse_draws(because)?;
        self.fitted.probabilities(data, true, None)
    }
}

impl Posterior for SvmPosterior {
    fn origin(&self) -> Origin<'_> {
        let columns = &self.schema.columns;
        Origin { family: NAME, columns: &columns.columns, width: columns.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { classes: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let mut summary = self.fitted.summary(self.schema.model());
        summary.facts.insert(1, self.schema.rows());
        if self.fitted.point() {
            summary.notes.push("inference `map` gives a point: it does not say how sure it is".into());
        } else {
            let said = "standard deviations of inference `vb` are far too small for a support vector machine (half of the right ones and less): \
                        take those of `gibbs`";
            summary.notes.push(said.into());
        }
        summary.notes.push(PSEUDO.into());
        summary
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.fitted.arrays()
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
        let model = super::super::Svm.configure(&settings(&[("inference", "vb".into())])).unwrap();
        let found = fit(model.as_ref(), &six_rows(), &RunSettings::default(), &mut Unobserved).unwrap().posterior;
        let now = SvmPosterior::load(&found.save().unwrap()).unwrap();
        let f = &now.fitted;
        let before = (&now.schema, (&f.schema, &f.classifier, &f.q, f.bound, f.sweeps, f.standing));
        let saved = state::seal(state::Kind::new(SAVED.name, &["0.1"]), &before).unwrap();
        assert_eq!(SvmPosterior::load(&saved).unwrap(), now);
        let saved = state::seal(state::Kind::new("svm schema", &["0.1"]), &now.schema).unwrap();
        assert!(model.reopen(&saved).is_ok());
    }
}
