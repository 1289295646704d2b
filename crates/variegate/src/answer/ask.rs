//! Asking a posterior for a capability by name: the way of the fronts. What it lacks is one error, which says what it has.

use super::{
    Answers, ClassProbabilities, ClusterRows, Coordinates, HeldOut, HeldOutEffort, Imputed, LabelPrediction, LabelRule, Posterior, Predict,
    RealPrediction, Rebuilt, Responsibilities, RowLikelihood, Selection,
};
use crate::data::Dataset;
use crate::{Error, Result};

impl Answers<'_> {
    /// What can be asked, in words that end a sentence.
    fn words(&self) -> String {
        let all = [
            (self.classes.is_some(), "predict classes"),
            (self.outcomes.is_some(), "predict real outcomes"),
            (self.label_sets.is_some(), "predict sets of labels"),
            (self.likelihoods.is_some(), "tell the log likelihood of rows under each draw"),
            (self.components.is_some(), "tell the shares of hidden components"),
            (self.pairs.is_some(), "tell which rows share a component"),
            (self.clusters.is_some(), "group rows into a tree"),
            (self.coordinates.is_some(), "transform rows to coordinates"),
            (self.rebuilding.is_some(), "build rows from coordinates"),
            (self.density.is_some(), "tell how probable rows are"),
            (self.completion.is_some(), "complete rows"),
            (self.imputation.is_some(), "impute missing entries"),
            (self.neighbours.is_some(), "find rows that are alike"),
        ];
        let can: Vec<&str> = all.iter().filter(|(has, _)| *has).map(|(_, words)| *words).collect();
        match can.split_last() {
            None => "be summarised".into(),
            Some((last, [])) => (*last).into(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
        }
    }
}

impl dyn Posterior + '_ {
    fn lacks(&self, asked: &str) -> Error {
        Error::Unfit(format!("this fit of `{}` cannot {asked}; it can {}", self.origin().family, self.answers().words()))
    }

    /// Name of its family.
    pub fn family(&self) -> &'static str {
        self.origin().family
    }

    /// Names of the columns it was fitted on; empty if they had none.
    pub fn columns(&self) -> &[String] {
        self.origin().columns
    }

    /// Number of columns it was fitted on.
    pub fn width(&self) -> usize {
        self.origin().width
    }

    /// Names of the sources it was fitted on; empty if rows had none.
    pub fn sources(&self) -> &[String] {
        self.origin().sources
    }

    /// Names of the classes that it predicts; none where it predicts no classes.
    pub fn classes(&self) -> &[String] {
        self.answers().classes.map_or(&[], |c| c.classes())
    }

    /// Names of the labels of which it predicts a set; none where it predicts no sets.
    pub fn labels(&self) -> &[String] {
        self.answers().label_sets.map_or(&[], |l| l.labels())
    }

    /// Number of real outcomes that it predicts; 0 where it predicts none.
    pub fn outputs(&self) -> usize {
        self.answers().outcomes.map_or(0, |o| o.outcomes())
    }

    /// Whether it was fitted to a target, which it predicts.
    pub fn predicts(&self) -> bool {
        let answers = self.answers();
        answers.classes.is_some() || answers.outcomes.is_some() || answers.label_sets.is_some()
    }

    /// The words that `method` of a prediction may be; the first is the default. Without a target there are none.
    pub fn methods(&self) -> &'static [&'static str] {
        let answers = self.answers();
        answers.classes.map(|c| c.methods()).or(answers.outcomes.map(|o| o.methods())).unwrap_or(&[])
    }

    /// The words that the rule which chooses labels may be; the first is the default. Where no sets of labels are predicted there are none.
    pub fn rules(&self) -> &'static [&'static str] {
        self.answers().label_sets.map_or(&[], |l| l.rules())
    }

    /// [`super::PredictClasses::predict`].
    pub fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        self.answers().classes.ok_or_else(|| self.lacks("predict classes"))?.predict(data, method)
    }

    /// [`super::PredictClasses::predict_with`].
    pub fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        self.answers().classes.ok_or_else(|| self.lacks("predict classes"))?.predict_with(data, how)
    }

    /// [`super::PredictOutcomes::predict`].
    pub fn predict_real(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        self.answers().outcomes.ok_or_else(|| self.lacks("predict real outcomes"))?.predict(data, levels, method)
    }

    /// [`super::PredictOutcomes::predict_with`].
    pub fn predict_real_with(&self, data: &Dataset<'_>, levels: &[f64], how: &Predict<'_>) -> Result<RealPrediction> {
        self.answers().outcomes.ok_or_else(|| self.lacks("predict real outcomes"))?.predict_with(data, levels, how)
    }

    /// [`super::PredictLabels::predict`].
    pub fn predict_labels(&self, data: &Dataset<'_>, how: &LabelRule<'_>) -> Result<LabelPrediction> {
        self.answers().label_sets.ok_or_else(|| self.lacks("predict sets of labels"))?.predict(data, how)
    }

    /// [`super::RowLikelihoods::row_likelihoods`].
    pub fn row_likelihoods(&self, data: &Dataset<'_>) -> Result<RowLikelihood> {
        let likelihoods = self.answers().likelihoods;
        likelihoods.ok_or_else(|| self.lacks("tell the log likelihood of rows under each draw"))?.row_likelihoods(data)
    }

    /// [`super::HiddenComponents::responsibilities`].
    pub fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        self.answers().components.ok_or_else(|| self.lacks("tell the shares of hidden components"))?.responsibilities(data)
    }

    /// [`super::SharedComponents::together`].
    pub fn together(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        self.answers().pairs.ok_or_else(|| self.lacks("tell which rows share a component"))?.together(data)
    }

    /// The tree of its rows, and what it says of others.
    pub fn clusters(&self) -> Result<&dyn ClusterRows> {
        self.answers().clusters.ok_or_else(|| self.lacks("group rows into a tree"))
    }

    /// [`super::PlaceRows::transform`].
    pub fn transform(&self, data: &Dataset<'_>) -> Result<Coordinates> {
        self.answers().coordinates.ok_or_else(|| self.lacks("transform rows to coordinates"))?.transform(data)
    }

    /// [`super::RebuildRows::reconstruct`].
    pub fn reconstruct(&self, data: &Dataset<'_>) -> Result<Rebuilt> {
        self.answers().rebuilding.ok_or_else(|| self.lacks("build rows from coordinates"))?.reconstruct(data)
    }

    /// [`super::RebuildRows::rebuild`].
    pub fn rebuild(&self, coordinates: &[f64]) -> Result<Vec<f64>> {
        self.answers().rebuilding.ok_or_else(|| self.lacks("build rows from coordinates"))?.rebuild(coordinates)
    }

    /// [`super::RowDensity::held_out`].
    pub fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        self.answers().density.ok_or_else(|| self.lacks("tell how probable rows are"))?.held_out(data, effort)
    }

    /// [`super::CompleteRows::complete`].
    pub fn complete(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>> {
        self.answers().completion.ok_or_else(|| self.lacks("complete rows"))?.complete(data, exposure)
    }

    /// [`super::ImputeRows::impute`].
    pub fn impute(&self, data: &Dataset<'_>) -> Result<Imputed> {
        self.answers().imputation.ok_or_else(|| self.lacks("impute missing entries"))?.impute(data)
    }

    /// [`super::Neighbours::retrieve`].
    pub fn retrieve(&self, queries: &Dataset<'_>, among: &Dataset<'_>, most: usize) -> Result<Vec<Vec<(usize, f64)>>> {
        self.answers().neighbours.ok_or_else(|| self.lacks("find rows that are alike"))?.retrieve(queries, among, most)
    }

    /// The structures that were compared, if there is anything to compare.
    pub fn selection(&self) -> Option<Selection> {
        self.answers().chosen.and_then(|c| c.selection())
    }
}
