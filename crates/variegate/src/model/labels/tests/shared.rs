//! One matrix for the weights of all labels, in `and` and `cut`: the posterior is the one of a matrix for each label.

use serde_json::json;

use super::fits::{fitted, map};
use super::small::{self, LABELS, groups};
use crate::answer::{LabelRule, Posterior};
use crate::data::design::{PanelScratch, packed_len};
use crate::data::{Dataset, Target, blocks};
use crate::model::family;
use crate::model::labels::LabelsPosterior;
use crate::model::labels::label_part::{LabelFactors, LabelPart};
use crate::model::labels::logit::shared::{self, Scratch};
use crate::model::labels::logit::{Logit, SharedBohning};
use crate::model::labels::mixture::{Mixture, Sums};
use crate::model::linear::normal_factor::{NormalFactor, diagonal, form};
use crate::run::Merge;

/// Rows as the classifiers see them, and packed Σ x̃x̃ᵀ/4 over those whose labels are known.
pub(super) fn design_and_gram(mixture: &Mixture, data: &Dataset<'_>) -> (Vec<f64>, Vec<f64>) {
    let mut scratch = PanelScratch::default();
    let design = mixture.inputs.classifier.panel(data.x.view(), &mut scratch).dense().unwrap().to_vec();
    let Target::Labels(labels) = &data.target else { panic!("no labels") };
    let dim = mixture.inputs.classifier.dim();
    let mut gram = vec![0.0; packed_len(dim)];
    for (x, _) in design.chunks_exact(dim).zip(labels.values.chunks_exact(LABELS)).filter(|(_, y)| y[0] >= 0) {
        for i in 0..dim {
            (0..=i).for_each(|j| gram[packed_len(i) + j] += 0.25 * x[i] * x[j]);
        }
    }
    (design, gram)
}

/// The precision of a label's weights, its linear term inverted: by a matrix of its own.
fn alone(prior: &Logit, q: &shared::Factors, gram: &[f64], linear: &[f64], c: usize) -> NormalFactor {
    let mut precision = gram.to_vec();
    for i in 0..prior.dim {
        precision[diagonal(i)] += if i < prior.columns() { q.used_precision[c] } else { prior.bias_precision };
    }
    NormalFactor::new(&precision, linear).unwrap()
}

/// Mean and variance of x̃ᵀw of a label.
pub(super) fn shared_moments(prior: &Logit, q: &shared::Factors, gram: &[f64], x: &[f64], c: usize) -> (f64, f64) {
    let dim = prior.dim;
    let v = alone(prior, q, gram, &vec![0.0; dim], c).covariance;
    (x.iter().zip(&q.weights[c * dim..]).map(|(x, w)| x * w).sum(), form(&v, x))
}

/// Weights, their variances along rows, their determinants and precisions are those of a matrix for each label.
#[test]
fn an_update_is_that_of_a_matrix_for_each_label() {
    for kind in ["shared and", "shared cut"] {
        let data = groups(kind, 60, 3.0, 21);
        let mixture = small::mixture(kind);
        let (design, gram) = design_and_gram(&mixture, &data);
        let mut columns = crate::model::labels::label_part::Columns::default();
        let (mut q, mut scratch) = (mixture.start(3), Default::default());
        let cut = blocks(&data, 16);
        cut.iter().for_each(|block| columns.merge(mixture.columns(block, &mut scratch)));
        mixture.labels.look_at_columns(&mut q.labels, columns).unwrap();
        for step in 0..4 {
            let view = mixture.labels.view(&q.labels);
            let mut sums = Sums::default();
            for block in &cut {
                let first = block.first_row as usize;
                sums.merge(mixture.visit_with(&view, 3, block, &mut scratch, |x, r| {
                    (0..x.rows()).for_each(|i| r[3 * i..3 * i + 3].copy_from_slice([&[0.5, 0.3, 0.2], &[0.1, 0.1, 0.8]][(first + i) % 2]));
                }));
            }
            mixture.update_in_order(&mut q, &sums).unwrap();
            let (weights, basis, prior) = match (&q.labels, &mixture.labels) {
                (LabelFactors::AndShared(l), LabelPart::And(p)) => (&l.0.weights, l.1.as_ref().unwrap(), &p.weights),
                (LabelFactors::CutShared(l), LabelPart::Cut(p)) => (&l.0.weights, l.1.as_ref().unwrap(), &p.classifier.prior),
                _ => panic!("{kind} is not shared"),
            };
            let part = SharedBohning { prior: prior.clone() };
            let (dim, mut panels, mut room) = (prior.dim, PanelScratch::default(), Scratch::default());
            let mut panel = mixture.inputs.classifier.panel(data.x.view(), &mut panels);
            let (means, variances) = part.scores(weights, basis, &mut panel, &mut room);
            for c in 0..LABELS {
                let linear = &sums.labels.shared.response.0[c * dim..(c + 1) * dim];
                let by_hand = alone(prior, weights, &gram, linear, c);
                let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{kind}, step {step}: {a} {b}");
                (0..dim).for_each(|j| close(weights.weights[c * dim + j], by_hand.mean[j]));
                close(weights.ln_det[c], by_hand.ln_det);
                let squares: f64 = (0..dim - 1).map(|j| by_hand.mean[j].powi(2) + by_hand.covariance[diagonal(j)]).sum();
                close(weights.weight_precision[c].rate, 0.5 + 0.5 * squares);
                for (i, x) in design.chunks_exact(dim).enumerate() {
                    close(means[i * LABELS + c], x.iter().zip(&by_hand.mean).map(|(x, m)| x * m).sum());
                    close(variances[i * LABELS + c], form(&by_hand.covariance, x));
                }
            }
        }
    }
}

/// Fits by one matrix answer as those by the tight bound do, are saved and read, and say no deviations, in both ways of visiting rows.
#[test]
fn fits_answer_as_those_of_the_tight_bound() {
    for (coupling, inference) in [("and", "vb"), ("cut", "vb"), ("and", "memoized"), ("cut", "memoized")] {
        let data = groups("shared", 300, 6.0, 9);
        let settings = |bound: &str| json!({ "coupling": coupling, "inference": inference, "bound": bound, "n_init": 1 });
        let [tight, loose] = ["jj", "bohning"].map(|bound| fitted(settings(bound), &data).unwrap().posterior);
        let loaded = LabelsPosterior::load(&loose.save().unwrap()).unwrap();
        assert!(loaded.mixture.labels.needs_columns(), "{coupling}");
        let of = |p: &dyn Posterior| p.predict_labels(&data, &LabelRule::default()).unwrap();
        assert_eq!(of(loose.as_ref()), of(&loaded), "{coupling}");
        let (tight, loose) = (of(tight.as_ref()), of(loose.as_ref()));
        let apart = tight.probability.iter().zip(&loose.probability).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart > 1e-9 && apart < 0.05, "{coupling} {inference}: {apart}");
        assert!(loaded.arrays().iter().all(|a| a.name != "coefficient_deviations"));
        assert!(!loaded.summary().tables.is_empty());
    }
}

/// What has no one matrix is refused, by setting or by data.
#[test]
fn what_has_no_one_matrix_is_refused() {
    for settings in [
        json!({ "coupling": "cut", "classifier": "svm", "bound": "bohning" }),
        json!({ "coupling": "cut", "class_weight": "balanced", "bound": "bohning" }),
        json!({ "coupling": "and", "inference": "svi", "bound": "bohning" }),
    ] {
        let text = family("labels").unwrap().configure(&map(settings)).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("`bound`"), "{text}");
    }
    let partly = groups("and", 60, 3.0, 2);
    let text = fitted(json!({ "coupling": "and", "bound": "bohning" }), &partly).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("jj"), "{text}");
}
