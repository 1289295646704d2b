//! Settings of the family: names, defaults, ranges, and what goes with what.

use super::LabelsModel;
use super::logit::Form;
use crate::model::{ClassWeight, Declared, Meaningless, SAMPLING, refuse_meaningless};
use crate::{Error, Result, settings, words};

words! {
    /// How labels depend on components and on the row.
    pub enum Coupling {
        /// Log-odds of a label are those of the component plus a linear function of the row.
        Logit = "logit",
        /// A label needs both the component and a linear function of the row to say yes.
        And = "and",
        /// Components and linear classifiers are fitted apart and combined for new rows.
        Cut = "cut",
    }
}

words! {
    /// How the posterior is found.
    pub enum InferenceKind {
        /// Variational Bayes; every sweep visits all rows.
        Vb = "vb",
        /// The same, batch by batch: the posterior follows each batch of rows, whose sums are remembered.
        Memoized = "memoized",
        /// Exact draws, by a slice for each row.
        Gibbs = "gibbs",
        /// Stochastic variational Bayes: a step for every minibatch of rows, and further rows later.
        Svi = "svi",
    }
}

words! {
    /// What earlier rows say of a label that comes with later ones.
    pub enum HistoryKind {
        /// Nothing: it is unknown there.
        Missing = "missing",
        /// It was absent there.
        Negative = "negative",
    }
}

words! {
    /// Moves that change the number of components, each taken only if it raises the bound.
    pub enum MoveKind {
        /// None: components only lose their rows.
        None = "none",
        /// Two become one.
        Merge = "merge",
        /// One becomes two as well.
        SplitMerge = "split-merge",
    }
}

words! {
    /// What rows are distributed as within a component.
    pub enum KernelKind {
        /// By the data: zeros and ones, counts, or other numbers.
        Auto = "auto",
        /// Counts of words.
        Multinomial = "multinomial",
        /// Zeros and ones.
        Bernoulli = "bernoulli",
        /// Real numbers, columns independent.
        GaussianDiag = "gaussian-diag",
        /// Real numbers with any covariance.
        GaussianFull = "gaussian-full",
    }
}

words! {
    /// What labels are distributed as within a component where they are fitted apart from the classifiers.
    pub enum PatternKind {
        /// Each label is present or absent.
        Bernoulli = "bernoulli",
        /// Labels are drawn with replacement, as published.
        Multinomial = "multinomial",
    }
}

words! {
    /// The linear classifier of a label where it is fitted apart from the components.
    pub enum ClassifierKind {
        /// Logistic regression.
        Logistic = "logistic",
        /// A support vector machine.
        Svm = "svm",
    }
}

words! {
    /// How components and classifiers are combined where they were fitted apart.
    pub enum CombineKind {
        /// Log-odds add.
        LogOdds = "logodds",
        /// Probabilities multiply, as published.
        Product = "product",
        /// The mean of the two probabilities.
        Mean = "mean",
    }
}

words! {
    /// Bound of the logistic function.
    pub enum BoundKind {
        /// By size: the tight one where its matrices fit.
        Auto = "auto",
        /// Jaakkola and Jordan: a curvature for each row.
        JaakkolaJordan = "jj",
        /// One curvature for all rows: looser, and much less work for many columns and labels.
        Bohning = "bohning",
    }
}

words! {
    /// What the posterior of a label's weights and patterns keeps of their covariance.
    pub enum CovarianceKind {
        /// All of it; with svi and many columns variances alone.
        Auto = "auto",
        /// All of it.
        Full = "full",
        /// That of the weights, and the variance of each pattern.
        Factorised = "factorised",
        /// Variances alone.
        Diagonal = "diagonal",
    }
}

impl CovarianceKind {
    pub(super) fn form(self) -> Form {
        match self {
            Self::Auto | Self::Full => Form::Full,
            Self::Factorised => Form::Factorised,
            Self::Diagonal => Form::Diagonal,
        }
    }
}

words! {
    /// What the classifiers see of a row.
    pub enum RowScaling {
        /// Standardised columns of dense rows; sparse rows of length one.
        Auto = "auto",
        /// Columns of mean 0 and variance 1; sparse ones are divided only.
        Standardize = "standardize",
        /// Rows of length one.
        UnitRows = "unit-rows",
        /// Rows as they are.
        None = "none",
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// How labels depend on components and the row: log-odds add (logit), both must say yes (and), or fitted apart (cut).
        coupling: Coupling = Coupling::Logit, in word(Coupling::WORDS), read by Simulate, Check;
        /// How the posterior is found: all rows in every sweep (vb), batch by batch (memoized), by minibatches (svi), or exact draws (gibbs).
        inference: InferenceKind = InferenceKind::Vb, in word(InferenceKind::WORDS), read by Check;
        /// Distribution of rows within a component; auto takes bernoulli for zeros and ones, multinomial for counts, else gaussian-diag.
        features: KernelKind = KernelKind::Auto, in word(KernelKind::WORDS), read by Simulate, Check;
        /// Distribution of labels within a component (cut).
        label_patterns: PatternKind = PatternKind::Bernoulli, in word(PatternKind::WORDS), read by Check;
        /// Linear classifier of each label (cut).
        classifier: ClassifierKind = ClassifierKind::Logistic, in word(ClassifierKind::WORDS), read by Check;
        /// Balanced lets rows with a label and rows without it count the same in its classifier (cut).
        class_weight: ClassWeight = ClassWeight::None, in word(ClassWeight::WORDS);
        /// How components and classifiers are combined for new rows (cut).
        combine: CombineKind = CombineKind::LogOdds, in word(CombineKind::WORDS);
        /// Components at the start; those that are not needed are removed.
        components: u64 = 20, in whole(1, 10_000), read by Check;
        /// Moves that change their number, taken only if the bound rises: none, merge, or split-merge (vb, memoized).
        moves: MoveKind = MoveKind::SplitMerge, in word(MoveKind::WORDS), read by Check;
        /// Most components that splits may lead to.
        max_components: u64 = 100, in whole(1, 10_000), read by Check;
        /// Parts of the rows, visited in turn (memoized); fewer where their sums would not fit `label_memory`.
        batches: u64 = 10, in whole(1, 10_000), read by Check;
        /// Concentration of the weights of components; nothing learns it.
        concentration: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Shape of the Gamma prior of the concentration.
        concentration_shape: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of the concentration.
        concentration_rate: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Power of the features' likelihood: less than 1 lets labels decide more; nothing takes one over the root of the columns.
        feature_power: Option<f64> = Some(1.0), in number_or_nothing(0.0, 1.0), read by Check;
        /// Prior count of each column in each component (multinomial).
        prior_count: f64 = 0.1, in positive(), read by Simulate, Check;
        /// Prior rows behind the rate of each column in each component (bernoulli).
        rate_strength: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Prior rows behind the mean of each component (gaussian-diag, gaussian-full).
        mean_strength: f64 = 0.1, in positive(), read by Simulate, Check;
        /// Shape of the Gamma prior of precisions of standardised columns (gaussian-diag).
        feature_shape: f64 = 2.0, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of precisions of standardised columns (gaussian-diag).
        feature_rate: f64 = 1.0, in positive(), read by Simulate, Check;
        /// What classifiers see: standardised columns, rows of length one (unit-rows) or none; auto: unit-rows if sparse.
        scaling: RowScaling = RowScaling::Auto, in word(RowScaling::WORDS);
        /// Prior precision of the bias of each label.
        bias_precision: f64 = 0.01, in positive(), read by Simulate, Check;
        /// Prior precision of the weights of each label; nothing learns it.
        weight_precision: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Shape of the Gamma priors of the precisions of weights and of log-odds of components.
        precision_shape: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Rate of the Gamma priors of the precisions of weights and of log-odds of components.
        precision_rate: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Prior rows for which a component says yes to a label (and).
        pattern_yes: f64 = 4.0, in positive(), read by Simulate, Check;
        /// Prior rows for which a component says no to a label (and).
        pattern_no: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Prior rows behind the rate of each label in each component (cut, bernoulli).
        label_strength: f64 = 1.0, in positive(), read by Check;
        /// Prior count of each label in each component (cut, multinomial).
        label_count: f64 = 0.01, in positive(), read by Check;
        /// Bound of the logistic function: jj is tight, bohning is for many columns and labels; auto goes by size.
        bound: BoundKind = BoundKind::Auto, in word(BoundKind::WORDS), read by Check;
        /// What is kept of the covariance of weights and patterns of a label (logit, or svi); auto: full, but diagonal if svi has many columns.
        covariance: CovarianceKind = CovarianceKind::Auto, in word(CovarianceKind::WORDS), read by Check;
        /// Most memory of the matrices of all labels, in gigabytes, before auto takes bohning, or with svi variances alone.
        label_memory: f64 = 2.0, in positive();
        /// Starts, run in parallel; the best is kept.
        n_init: u32 = 3, in whole(1, 10_000);
        /// The fit ends when two sweeps in a row raise the bound by a smaller share of itself.
        tol: f64 = 1e-6, in positive();
        /// Most sweeps of an ascent.
        max_iter: u64 = 500, in whole(1, 100_000_000);
        /// Passes over all rows (svi).
        passes: u64 = 5, in whole(1, 1_000_000);
        /// Rows of a minibatch, rounded to whole blocks (svi); nothing takes a tenth of the columns, 256 at least.
        batch_rows: Option<u64> = None, in whole_or_nothing(1, 100_000_000);
        /// Delay of the steps (t + delay)^-power of minibatches (svi).
        step_delay: f64 = 1.0, in not_negative();
        /// Power of the steps (t + delay)^-power of minibatches (svi).
        step_power: f64 = 0.7, in number(0.5, 1.0);
        /// What is kept of earlier rows at each minibatch, for streams that change (svi); nothing forgets none of them.
        decay: Option<f64> = None, in number_or_nothing(0.0, 1.0);
        /// What earlier rows say of a label that comes later: it is unknown there (missing), or was absent (negative) (svi).
        history: HistoryKind = HistoryKind::Missing, in word(HistoryKind::WORDS);
        sampling { n_chains: 4, n_warmup: 500, n_draws: 250, thin: 4 }
    }
}

impl Settings {
    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<LabelsModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        if self.coupling == Coupling::Cut && self.label_patterns == PatternKind::Multinomial && self.combine != CombineKind::Product {
            let allowed = "product with `label_patterns` multinomial: its patterns are shares of labels, no probabilities of each";
            return Err(Error::setting("combine", self.combine.word(), allowed));
        }
        Ok(LabelsModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> Vec<Meaningless> {
        use KernelKind as K;
        let svi = self.inference == InferenceKind::Svi;
        let (cut, auto) = (self.coupling == Coupling::Cut, self.features == K::Auto);
        let gaussian = matches!(self.features, K::GaussianDiag | K::GaussianFull);
        let samples = self.inference == InferenceKind::Gibbs;
        vec![
            (
                !cut,
                &["label_patterns", "classifier", "class_weight", "combine", "label_strength", "label_count"],
                "left out: it is for `coupling` cut alone",
            ),
            (self.coupling != Coupling::And, &["pattern_yes", "pattern_no"], "left out: it is for `coupling` and alone"),
            (svi && self.coupling != Coupling::Logit, &["bound"], "left out: with `inference` svi it is for `coupling` logit alone"),
            (
                cut && (self.classifier == ClassifierKind::Svm || self.class_weight == ClassWeight::Balanced),
                &["bound"],
                "left out: with `coupling` cut it is for logistic classifiers for which all rows count the same",
            ),
            (
                samples && self.classifier == ClassifierKind::Logistic,
                &["class_weight"],
                "left out: draws of the logistic likelihood take whole rows alone; set `classifier` to svm, or `inference` to another",
            ),
            // that of the others is full, or that of minibatches
            (
                self.coupling != Coupling::Logit && !svi && self.covariance != CovarianceKind::Full,
                &["covariance"],
                "full or left out: others are for `coupling` logit and for `inference` svi alone",
            ),
            (
                self.coupling != Coupling::Logit && self.covariance == CovarianceKind::Factorised,
                &["covariance"],
                "full, diagonal or left out: without patterns there is nothing to be factorised",
            ),
            (!auto && self.features != K::Multinomial, &["prior_count"], "left out: it is for `features` multinomial alone"),
            (!auto && self.features != K::Bernoulli, &["rate_strength"], "left out: it is for `features` bernoulli alone"),
            (!auto && !gaussian, &["mean_strength"], "left out: it is for Gaussian `features` alone"),
            (
                !auto && self.features != K::GaussianDiag,
                &["feature_shape", "feature_rate"],
                "left out: it is for `features` gaussian-diag alone",
            ),
            (!svi, &["passes", "batch_rows", "step_delay", "step_power", "decay", "history"], "left out: it is for `inference` svi alone"),
            (svi && self.coupling != Coupling::Logit, &["history"], "missing: only `coupling` logit can take rows back in time"),
            (
                svi,
                &["n_init", "tol", "max_iter", "moves", "max_components"],
                "left out: `inference` svi makes one start and `passes` over the rows, with as many components",
            ),
            (svi && self.decay.is_some(), &["step_delay", "step_power", "passes"], "left out: with `decay` every row counts once"),
            (samples, &["moves", "max_components"], "left out: `inference` gibbs finds their number by itself"),
            (self.inference != InferenceKind::Memoized, &["batches"], "left out: it is for `inference` memoized alone"),
            (self.moves != MoveKind::SplitMerge, &["max_components"], "left out: it is for `moves` split-merge alone"),
            (self.concentration.is_some(), &["concentration_shape", "concentration_rate"], "left out: the concentration is given"),
            (samples, &["bound", "covariance", "label_memory", "n_init", "tol", "max_iter"], "left out: `inference` gibbs raises no bound"),
            (!samples, SAMPLING, "left out: it is for `inference` gibbs alone"),
        ]
    }
}
