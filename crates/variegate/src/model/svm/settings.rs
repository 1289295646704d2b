//! Settings of the family: names, defaults, ranges, and what goes with what.

use super::gibbs::Gibbs;
use super::{SvmModel, Vb};
use crate::model::linear::classifier::{Classifier, Loss};
use crate::model::linear::gamma_factor::{GammaFactor, Precision};
use crate::model::linear::{Ascent, Inputs};
use crate::model::{ClassWeight, Declared, Meaningless, SAMPLING, refuse_meaningless};
use crate::{Result, settings, words};

words! {
    /// How the posterior is found.
    pub enum Inference {
        /// Draws from the exact pseudo-posterior.
        Gibbs = "gibbs",
        /// Variational ascent.
        Vb = "vb",
        /// The maximum of the pseudo-posterior.
        Map = "map",
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// How the posterior is found: exact draws (gibbs), variational Bayes (vb), or its maximum (map), the usual support vector machine.
        inference: Inference = Inference::Gibbs, in word(Inference::WORDS), read by Check;
        /// Prior precision of each weight, on the scale of the standardised columns; nothing learns it, for each class that is told apart.
        prior_precision: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Shape of the Gamma prior of a learned precision.
        precision_shape: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of a learned precision.
        precision_rate: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Prior precision of the bias.
        bias_precision: f64 = 0.01, in positive(), read by Simulate, Check;
        /// Whether there is a bias.
        fit_intercept: bool = true, in switch(), read by Simulate, Check;
        /// Whether columns are centred and scaled to unit variance first.
        standardize: bool = true, in switch();
        /// Balanced lets every class count the same in all.
        class_weight: ClassWeight = ClassWeight::None, in word(ClassWeight::WORDS);
        /// The fit by vb or map ends when two sweeps in a row raise the bound by a smaller share of itself.
        tol: f64 = 1e-8, in positive();
        /// Most sweeps of a fit by vb or map.
        max_iter: u64 = 10_000, in whole(1, 100_000_000);
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
    }
}

impl Settings {
    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<SvmModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        Ok(SvmModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 3] {
        let gibbs = self.inference == Inference::Gibbs;
        [
            (gibbs, &["tol", "max_iter"], "left out where `inference` is `gibbs`"),
            (!gibbs, SAMPLING, "left out unless `inference` is `gibbs`"),
            (self.prior_precision.is_some(), &["precision_shape", "precision_rate"], "left out where `prior_precision` is given"),
        ]
    }

    /// Prior precision of the weights of a classifier.
    pub(super) fn precision(&self) -> Precision {
        let learned = || Precision::Learned(GammaFactor::new(self.precision_shape, self.precision_rate));
        self.prior_precision.map_or_else(learned, Precision::Fixed)
    }

    fn classifier(&self, inputs: &Inputs) -> Classifier {
        let loss = if self.inference == Inference::Map { Loss::HingePoint } else { Loss::Hinge };
        inputs.classifier(loss, self.precision(), self.bias_precision)
    }

    /// The sampler.
    pub(super) fn sampler(&self, inputs: Inputs) -> Gibbs {
        Gibbs { classifier: self.classifier(&inputs), inputs }
    }

    /// The ascent to a variational posterior or to a point; of so many rows that span the space of the weights, or of any.
    pub(super) fn ascent(&self, inputs: Inputs, spanning: Option<u64>) -> Ascent<Vb> {
        let classifier = self.classifier(&inputs);
        Ascent::new(inputs, classifier, spanning, self.tol, self.max_iter)
    }
}
