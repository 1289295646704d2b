//! How good predictions are where the truth is known, as people and machines are told it.

use anyhow::Result;
use serde_json::{Value, json};
use variegate::answer::{ClassProbabilities, LabelPrediction, LabelRule, Posterior, RealPrediction, known_labels};
use variegate::data::{Dataset, Target};
use variegate::score::{LabelScores, RealScore, Tally, score_classes};

use crate::tables;

/// The rows that can be scored, and why others cannot.
pub struct Scorable {
    /// Their numbers; nothing where all of them can.
    pub rows: Option<Vec<usize>>,
    /// What to say of the others.
    pub remark: Option<String>,
}

impl Scorable {
    /// Of rows whose truth may be missing, or of a class that is not among these.
    pub fn of(data: &Dataset<'_>, classes: &[String]) -> Self {
        let (known, missing): (Vec<bool>, usize) = match &data.target {
            Target::Classes(truth) => {
                let known = truth.codes.iter().map(|&c| (c as usize) < classes.len()).collect();
                (known, (0..truth.len()).filter(|&i| truth.name(i).is_empty() && truth.codes[i] as usize >= classes.len()).count())
            }
            Target::Real { width, values } => {
                let known: Vec<bool> = values.chunks_exact((*width).max(1)).map(|row| row.iter().all(|v| v.is_finite())).collect();
                let missing = known.iter().filter(|k| !**k).count();
                (known, missing)
            }
            _ => return Self { rows: None, remark: None },
        };
        let rows: Vec<usize> = (0..known.len()).filter(|&i| known[i]).collect();
        if rows.len() == known.len() {
            return Self { rows: None, remark: None };
        }
        let mut why = Vec::new();
        if missing > 0 {
            why.push(format!("the target of {} is missing", tables::count(missing, "row", "rows")));
        }
        if let Target::Classes(truth) = &data.target {
            let new: Vec<String> = truth.names[classes.len()..].iter().filter(|n| !n.is_empty()).map(|n| format!("`{n}`")).collect();
            let count = known.len() - rows.len() - missing;
            if count > 0 {
                let more = if new.len() > 5 { ", …" } else { "" };
                let labels = new.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
                why.push(format!(
                    "that of {} is a label that was not there at the fit ({labels}{more})",
                    tables::count(count, "row", "rows")
                ));
            }
        }
        let all = tables::count(known.len(), "row", "rows");
        let remark = match rows.len() {
            0 => format!("no row is scored: {}", why.join(", ")),
            scored => format!("scores are those of {scored} of {all}: {}", why.join(", ")),
        };
        Self { rows: Some(rows), remark: Some(remark) }
    }

    /// The rows to score, with their truth, which is one of these classes; nothing where they are all.
    pub fn subset(&self, data: &Dataset<'_>, classes: &[String]) -> Option<Dataset<'static>> {
        let mut picked = data.subset(self.rows.as_ref()?);
        if let Target::Classes(truth) = &mut picked.target {
            truth.names.truncate(classes.len());
        }
        Some(picked)
    }
}

/// Leaves out labels that are not among those of the fit: what is to be said of them.
pub fn leave_new_labels(data: &mut Dataset<'_>, labels: &[String]) -> Option<String> {
    let Target::Labels(truth) = &mut data.target else { return None };
    let known: Vec<usize> = (0..truth.names.len()).filter(|c| labels.contains(&truth.names[*c])).collect();
    let width = truth.names.len();
    if known.len() == width {
        return None;
    }
    let new: Vec<String> = truth.names.iter().filter(|n| !labels.contains(n)).map(|n| format!("`{n}`")).collect();
    truth.values = truth.values.chunks_exact(width).flat_map(|row| known.iter().map(|c| row[*c])).collect();
    truth.names = known.iter().map(|c| truth.names[*c].clone()).collect();
    let more = if new.len() > 5 { ", …" } else { "" };
    let shown = new.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    Some(format!("{} not there at the fit and not scored: {shown}{more}", tables::count(new.len(), "label was", "labels were")))
}

/// Scores over some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scores {
    /// Of classes.
    Classes(Tally),
    /// Of real outcomes.
    Real(RealScore),
    /// Of sets of labels.
    Labels(LabelScores),
}

impl Scores {
    /// Predicts rows and compares with their truth, if they have any.
    pub fn of(posterior: &dyn Posterior, data: &Dataset<'_>) -> Result<Option<Self>> {
        Ok(if posterior.outputs() > 0 {
            Self::of_real(&posterior.predict_real(data, &[], "")?, data)
        } else if !posterior.labels().is_empty() {
            Self::of_labels(&posterior.predict_labels(data, &LabelRule::default())?, data, posterior.labels())
        } else {
            Self::of_classes(&posterior.predict(data, "")?, data, posterior.classes())
        })
    }

    /// Compares with the classes in the data, if they have any.
    pub fn of_classes(predicted: &ClassProbabilities, data: &Dataset<'_>, classes: &[String]) -> Option<Self> {
        let Target::Classes(truth) = &data.target else { return None };
        let tally = Tally::of(&score_classes(predicted, classes, truth));
        (tally.rows > 0).then_some(Self::Classes(tally))
    }

    /// Compares with the outcomes in the data, if they have as many as are predicted.
    pub fn of_real(predicted: &RealPrediction, data: &Dataset<'_>) -> Option<Self> {
        RealScore::of(predicted, &data.target, None).map(Self::Real)
    }

    /// Compares with the sets of labels in the data, if any of their entries is known.
    pub fn of_labels(predicted: &LabelPrediction, data: &Dataset<'_>, labels: &[String]) -> Option<Self> {
        let truth = known_labels(data, labels).ok()?;
        let scores = LabelScores::of(predicted, &truth, labels.len());
        (scores.known_entries > 0).then_some(Self::Labels(scores))
    }

    /// Names and values, as tables show them.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Classes(tally) => vec![("log-loss", tally.log_loss()), ("error", 1.0 - tally.accuracy())],
            Self::Real(score) => vec![("squared error", score.squared_error), ("log density", score.ln_density)],
            Self::Labels(s) => [
                ("log-loss", s.log_loss),
                ("Hamming loss", s.hamming_loss),
                ("micro F1", s.micro_f1),
                ("average precision", s.average_precision),
            ]
            .map(|(name, value)| (name, value.unwrap_or(f64::NAN)))
            .to_vec(),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        match self {
            Self::Classes(tally) => format!(
                "accuracy {:.4}, log loss {} over {}",
                tally.accuracy(),
                tables::number(tally.log_loss()),
                tables::count(tally.rows, "row", "rows")
            ),
            Self::Real(score) => format!(
                "mean squared error {}, mean log density {} over {}",
                tables::number(score.squared_error),
                tables::number(score.ln_density),
                tables::count(score.rows, "row", "rows")
            ),
            Self::Labels(s) => {
                let all = [
                    ("Hamming loss", s.hamming_loss),
                    ("micro F1", s.micro_f1),
                    ("subset accuracy", s.subset_accuracy),
                    ("average precision", s.average_precision),
                    ("log loss", s.log_loss),
                ];
                let told: Vec<String> =
                    all.iter().filter_map(|(name, value)| Some(format!("{name} {}", tables::number((*value)?)))).collect();
                format!("{} over {}", told.join(", "), tables::count(s.rows, "row", "rows"))
            }
        }
    }

    /// For machines.
    pub fn as_json(&self) -> Value {
        match self {
            Self::Classes(tally) => tally_json(tally),
            Self::Real(score) => json!({ "rows": score.rows, "squared_error": score.squared_error, "log_density": score.ln_density }),
            Self::Labels(scores) => labels_json(scores),
        }
    }
}

/// Scores of sets of labels for machines; null where they are not defined.
pub fn labels_json(scores: &LabelScores) -> Value {
    let mut value = json!({ "rows": scores.rows, "known_rows": scores.known_rows, "known_entries": scores.known_entries });
    for (name, figure) in scores.figures() {
        value[name] = json!(figure);
    }
    value
}

/// Scores of classes for machines.
pub fn tally_json(tally: &Tally) -> Value {
    let (low, high) = tally.interval();
    json!({
        "rows": tally.rows,
        "accuracy": tally.accuracy(),
        "accuracy_interval": [low, high],
        "log_loss": tally.log_loss(),
        "brier": tally.brier(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use variegate::data::{Classes, LabelSets, Matrix};

    #[test]
    fn scores_are_told_in_words_and_to_machines() {
        let x = || Matrix::Dense { rows: 2, cols: 1, values: vec![0.0; 2].into() };
        let names = ["a", "b"].map(String::from);
        let data = Dataset::new(x()).with_target(Target::Classes(Classes { codes: vec![0, 1], names: names.to_vec() }));
        let p = ClassProbabilities { probability: vec![0.5, 0.5, 0.75, 0.25], ..ClassProbabilities::default() };
        let found = Scores::of_classes(&p, &data, &names).unwrap();
        assert_eq!(found.line(), "accuracy 0.5000, log loss 1.040 over 2 rows");
        assert_eq!(found.as_json()["accuracy"], 0.5);
        let real = RealPrediction { mean: vec![1.0, 2.0], ln_density: Some(vec![-1.0, -3.0]), ..RealPrediction::default() };
        assert_eq!(Scores::of_real(&real, &data), None);
        let data = Dataset::new(x()).with_target(Target::Real { width: 1, values: vec![1.0, 4.0] });
        assert_eq!(Scores::of_real(&real, &data).unwrap().figures()[0], ("squared error", 2.0));
        assert_eq!(Scores::of_classes(&p, &data, &names), None);
    }

    #[test]
    fn scores_of_labels_are_told() {
        let names = |all: &[&str]| all.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let target = Target::Labels(LabelSets { names: names(&["b", "new", "a"]), values: vec![0, 1, 1, 1, -1, -1] });
        let mut data = Dataset::new(Matrix::Dense { rows: 2, cols: 1, values: vec![0.0; 2].into() }).with_target(target);
        let labels = names(&["a", "b"]);
        let said = leave_new_labels(&mut data, &labels).unwrap();
        assert!(said.contains("1 label was not there") && said.contains("`new`"), "{said}");
        assert_eq!(leave_new_labels(&mut data, &labels), None);
        let p = vec![0.75, 0.25, 0.75, 0.25];
        let found = LabelPrediction { probability: p.clone(), score: p, chosen: vec![true, false, true, false], novelty: vec![0.0; 2] };
        let scores = Scores::of_labels(&found, &data, &labels).unwrap();
        // of three known entries one is wrong; one row is known as a whole
        assert_eq!(
            scores.line(),
            "Hamming loss 0.3333, micro F1 0.6667, subset accuracy 1.000, average precision 1.000, log loss 0.6539 over 2 rows"
        );
        let json = scores.as_json();
        assert_eq!((&json["known_entries"], &json["known_rows"], &json["ranking_loss"]), (&json!(3), &json!(1), &json!(0.0)));
        assert_eq!(scores.figures()[3], ("average precision", 1.0));
        data.target = Target::None;
        assert_eq!(Scores::of_labels(&found, &data, &labels), None);
    }

    #[test]
    fn rows_without_a_known_truth_are_left_out() {
        let x = || Matrix::Dense { rows: 4, cols: 1, values: vec![0.0; 4].into() };
        let names = ["a", "b"].map(String::from);
        let all = ["a", "b", "bird", ""].map(String::from);
        let with = |codes: Vec<u32>| Dataset::new(x()).with_target(Target::Classes(Classes { codes, names: all.to_vec() }));
        let found = Scorable::of(&with(vec![0, 2, 3, 1]), &names);
        assert_eq!(found.rows, Some(vec![0, 3]));
        let said = found.remark.unwrap();
        assert!(said.contains("2 of 4 rows") && said.contains("`bird`") && said.contains("target of 1 row is missing"), "{said}");
        assert!(Scorable::of(&with(vec![0, 1, 1, 0]), &names).rows.is_none());
        let data = Dataset::new(x()).with_target(Target::Real { width: 1, values: vec![1.0, f64::NAN, 2.0, 3.0] });
        assert_eq!(Scorable::of(&data, &[]).rows, Some(vec![0, 2, 3]));
    }
}
