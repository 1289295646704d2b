//! Sets of labels of rows.

use super::choose_word;
use crate::data::{DataError, Dataset, Target};
use crate::{Error, Result};

/// A posterior that predicts which labels a row has.
pub trait PredictLabels {
    /// Names of the labels.
    fn labels(&self) -> &[String];
    /// The words that the rule of a decision may be; the first is the default.
    fn rules(&self) -> &'static [&'static str];
    /// Probabilities, ranks and choice of the labels of each row. The rule `micro-f1` looks at all rows together; what else is said of a
    /// row depends on that row alone.
    fn predict(&self, data: &Dataset<'_>, how: &LabelRule<'_>) -> Result<LabelPrediction>;
}

/// How labels are chosen. The default is the first rule, sets that may be empty, and nothing known of the rows but their features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelRule<'a> {
    /// One of the rules of the posterior; an empty word is the first of them.
    pub rule: &'a str,
    /// Whether an empty set is given its top label.
    pub nonempty: bool,
    /// Whether labels that the data know of a row inform its others.
    pub given: bool,
}

impl LabelRule<'_> {
    /// The rule asked for, or an error that names those there are.
    pub fn word(&self, rules: &'static [&'static str]) -> Result<&'static str> {
        choose_word("rule", self.rule, rules)
    }
}

/// Labels of some rows; all but `novelty` row-major with a number a row and label.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelPrediction {
    /// Probability that the row has the label.
    pub probability: Vec<f64>,
    /// What labels are ranked by, the higher the better: the probability, unless the model has a finer order.
    pub score: Vec<f64>,
    /// Whether the label was chosen.
    pub chosen: Vec<bool>,
    /// How sure it is that the row is like none of the known ones, one number a row.
    pub novelty: Vec<f64>,
}

/// Labels that are known of each row, by their places among those of the model: row-major, 1 present, 0 absent, -1 unknown. A label that
/// the data do not have is unknown; one that the model does not have is an error.
pub fn known_labels(data: &Dataset<'_>, labels: &[String]) -> Result<Vec<i8>> {
    let Target::Labels(given) = &data.target else { return Err(DataError::NoTarget.into()) };
    let place = |name: &String| {
        labels
            .iter()
            .position(|l| l == name)
            .ok_or_else(|| Error::Unfit(format!("`{name}` is not a label of the fit: leave it out, or fit again with it")))
    };
    let places = given.names.iter().map(place).collect::<Result<Vec<_>>>()?;
    let mut known = vec![-1; data.rows() * labels.len()];
    if !places.is_empty() && !labels.is_empty() {
        for (row, values) in known.chunks_exact_mut(labels.len()).zip(given.values.chunks_exact(places.len())) {
            for (place, value) in places.iter().zip(values) {
                row[*place] = *value;
            }
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Answers, NamedArray, Origin, Posterior, Summary};
    use crate::data::{LabelSets, Matrix};

    /// Says of every row what its features are: they are the probabilities.
    struct Plain {
        labels: Vec<String>,
    }

    impl Posterior for Plain {
        fn origin(&self) -> Origin<'_> {
            Origin { family: "plain", columns: &[], width: self.labels.len(), sources: &[] }
        }
        fn answers(&self) -> Answers<'_> {
            Answers { label_sets: Some(self), ..Answers::default() }
        }
        fn summary(&self) -> Summary {
            Summary::default()
        }
        fn arrays(&self) -> Vec<NamedArray> {
            Vec::new()
        }
        fn save(&self) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }
    }

    impl PredictLabels for Plain {
        fn labels(&self) -> &[String] {
            &self.labels
        }
        fn rules(&self) -> &'static [&'static str] {
            &["hamming", "cardinality"]
        }
        fn predict(&self, data: &Dataset<'_>, how: &LabelRule<'_>) -> Result<LabelPrediction> {
            let rule = how.word(self.rules())?;
            let p = data.x.to_dense();
            let mut found = LabelPrediction { score: p.clone(), probability: p, novelty: vec![0.0; data.rows()], ..Default::default() };
            found.decide(rule, self.labels.len());
            if how.nonempty {
                found.fill_empty(self.labels.len());
            }
            Ok(found)
        }
    }

    #[test]
    fn fronts_ask_by_name() {
        let plain = Plain { labels: names(&["a", "b"]) };
        let posterior: &dyn Posterior = &plain;
        assert!(posterior.predicts() && posterior.classes().is_empty() && posterior.outputs() == 0);
        assert_eq!((posterior.labels(), posterior.rules()), (&plain.labels[..], &["hamming", "cardinality"][..]));
        let data = Dataset::new(Matrix::dense(2, 2, vec![0.6, 0.8, 0.3, 0.4]));
        let chosen = |rule, nonempty| posterior.predict_labels(&data, &LabelRule { rule, nonempty, given: false }).unwrap().chosen;
        assert_eq!(chosen("", false), [true, true, false, false]);
        assert_eq!(chosen("", true), [true, true, false, true]);
        assert_eq!(chosen("cardinality", false), [false, true, false, true]);
        let said = posterior.predict(&data, "").unwrap_err().to_string();
        assert!(said.contains("cannot predict classes; it can predict sets of labels"), "{said}");
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn labels_are_matched_by_name() {
        let x = || Dataset::new(Matrix::dense(2, 1, vec![0.0, 1.0]));
        let data = x().with_target(Target::Labels(LabelSets { names: names(&["b", "a"]), values: vec![1, 0, -1, 1] }));
        assert_eq!(known_labels(&data, &names(&["a", "b", "c"])).unwrap(), [0, 1, -1, 1, -1, -1]);
        let said = known_labels(&data, &names(&["a", "c"])).unwrap_err().to_string();
        assert!(said.contains("`b` is not a label"), "{said}");
        assert!(known_labels(&x(), &names(&["a"])).is_err());
    }

    #[test]
    fn rules_are_words() {
        const RULES: &[&str] = &["hamming", "subset"];
        assert_eq!(LabelRule::default().word(RULES).unwrap(), "hamming");
        assert_eq!(LabelRule { rule: "subset", ..LabelRule::default() }.word(RULES).unwrap(), "subset");
        let said = LabelRule { rule: "f2", ..LabelRule::default() }.word(RULES).unwrap_err().to_string();
        assert!(said.contains("`rule`") && said.contains("hamming"), "{said}");
    }
}
