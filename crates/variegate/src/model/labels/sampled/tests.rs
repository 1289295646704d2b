//! Components are found again in other draws.

use super::*;
use crate::data::Design;
use crate::model::labels::and::And;
use crate::model::labels::bound::Bound;
use crate::model::labels::gamma_factor::Precision;
use crate::model::labels::inputs::Inputs;
use crate::model::labels::kernel::{Diagonal, Multinomial};
use crate::model::labels::logit::{Form, Logit};
use crate::model::labels::settings::CombineKind;
use crate::model::labels::stage::Answer;
use crate::model::labels::sticks::Concentration;

fn mixture(kernel: Kernel) -> Mixture {
    let weights = Logit {
        labels: 2,
        dim: 3,
        intercept: true,
        bias_precision: 1.0,
        weight_precision: Precision::Fixed(1.0),
        pattern_precision: Precision::Fixed(1.0),
        bound: Bound::JaakkolaJordan,
        form: Form::Full,
    };
    let labels = LabelPart::And(And { weights, pattern_prior: (1.0, 1.0) });
    Mixture { inputs: Inputs::plain(Design::identity(2, true)), kernel, labels, concentration: Concentration::Fixed(1.0) }
}

/// A draw of components with these parameters and patterns.
fn draw(ln_joint: f64, components: &[([f64; 2], [f64; 2], u64)], precisions: bool) -> Draw {
    let parameters = components.iter().flat_map(|(m, _, _)| if precisions { vec![m[0], m[1], 1.0, 1.0] } else { m.to_vec() });
    Draw {
        ln_joint,
        weights: vec![0.0; 6],
        weight_precision: vec![1.0; 2],
        ln_weights: vec![-2.0; components.len()],
        ln_remaining: -1.0,
        rows: components.iter().map(|c| c.2).collect(),
        parameters: parameters.collect(),
        patterns: components.iter().flat_map(|c| c.1).collect(),
        ..Draw::default()
    }
}

#[test]
fn components_are_paired() {
    let kernel = Kernel::Diagonal(Diagonal::new(&[0.0; 2], 0.1, 2.0, &[1.0; 2], &[0.0; 2], 1.0));
    let (a, b, c) = (([5.0, 0.0], [3.0, -3.0], 10), ([-5.0, 0.0], [-3.0, 3.0], 30), ([0.0, 7.0], [0.0, 0.0], 20));
    let near = |(m, p, n): ([f64; 2], [f64; 2], u64)| ([m[0] + 0.4, m[1] - 0.3], p, n);
    let draws = vec![
        draw(-9.0, &[near(b), near(c), near(a)], true),
        // the reference
        draw(-5.0, &[a, b, c], true),
        // fewer, more, and one that is like none
        draw(-1.0, &[near(c), b], true),
        draw(-2.0, &[a, near(a), b, c], true),
        draw(-8.0, &[a, ([40.0, 40.0], [0.0, 0.0], 5), c], true),
    ];
    let found = Sampled::new(&mixture(kernel), 1.0, draws, vec![5]);
    assert_eq!((found.reference, found.components()), (1, 3));
    // b has most rows, then c, then a
    assert_eq!(found.same[0], [Some(0), Some(1), Some(2)]);
    assert_eq!(found.same[1], [Some(1), Some(2), Some(0)]);
    assert_eq!(found.same[2], [Some(1), Some(0), None]);
    assert_eq!(found.same[3], [Some(2), Some(3), Some(0)]);
    assert_eq!(found.same[4], [None, Some(2), Some(0)]);
    assert_eq!((found.presence(0), found.presence(1)), (0.8, 1.0));
    assert!((found.mean_of(2, |d, k| d.rows[k] as f64) - 10.0).abs() < 1e-12);
}

/// A component that a draw does not have goes to none, however near to it the nearest is.
#[test]
fn what_is_missing_has_no_pair() {
    let kernel = Kernel::Diagonal(Diagonal::new(&[0.0; 2], 0.1, 2.0, &[1.0; 2], &[0.0; 2], 1.0));
    let (a, b, c) = (([5.0, 0.0], [0.0; 2], 12), ([-50.0, 0.0], [0.0; 2], 11), ([0.0, 90.0], [0.0; 2], 10));
    let all = [(0.0, vec![a, b, c]), (-2.0, vec![b, c]), (-3.0, vec![c, b]), (-1.0, vec![c, b, a]), (-9.0, vec![a, b, c])];
    let draws = all.iter().map(|(ln_joint, components)| draw(*ln_joint, components, true)).collect();
    let found = Sampled::new(&mixture(kernel), 1.0, draws, vec![5]);
    assert_eq!(found.same[1..4], [vec![None, Some(0), Some(1)], vec![None, Some(1), Some(0)], vec![Some(2), Some(1), Some(0)]]);
}

/// A component without rows has the prior predictive, whichever way it is computed; a row beyond all known ones is new.
#[test]
fn rows_in_components_without_rows() {
    let mixture = mixture(Kernel::Diagonal(Diagonal::new(&[0.0; 2], 0.1, 2.0, &[1.0; 2], &[0.3; 2], 1.0)));
    let (a, b) = (([5.0, 0.0], [3.0, -3.0], 10), ([-5.0, 0.0], [-3.0, 3.0], 30));
    let sampled = Sampled::new(&mixture, 1.0, vec![draw(0.0, &[a, b], true), draw(-1.0, &[b], true), draw(-2.0, &[b, a], true)], vec![3]);
    let rows = X::Dense { rows: 2, cols: 2, values: &[5.2, 0.1, 30.0, -40.0] };
    let mut stage = DrawStage::new(&mixture, &sampled, CombineKind::Mean, vec![0.5; 2], false);
    let told = stage.panel(rows, &[]);
    stage.prior = None;
    let again = stage.panel(rows, &[]);
    assert!(told.shares().iter().zip(again.shares()).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", told.shares());
    // the first row is of component a in two draws, and new in the one that has no such component; the second is new in all
    let [_, a, others, unknown] = told.shares()[..4] else { panic!("{:?}", told.shares()) };
    assert!((a - 2.0 / 3.0).abs() < 0.1 && others == 0.0 && (unknown - 1.0 / 3.0).abs() < 0.1, "{:?}", told.shares());
    assert!(told.shares()[7] > 0.999, "{:?}", told.shares());
}

/// Features that are the same leave the labels to tell components apart; counts are compared as rows of the usual length.
#[test]
fn labels_tell_components_apart() {
    let same = [0.3f64.ln(), 0.7f64.ln()];
    let (a, b) = ((same, [6.0, 6.0], 10), (same, [-6.0, -6.0], 10));
    let counts = || mixture(Kernel::Multinomial(Multinomial::new(2, 0.5, 1.0)));
    let found = Sampled::new(&counts(), 20.0, vec![draw(0.0, &[a, b], false), draw(-1.0, &[b, a], false)], vec![2]);
    assert_eq!(found.same, [[Some(0), Some(1)], [Some(1), Some(0)]]);
    let (a, b) = (([0.2f64.ln(), 0.8f64.ln()], [0.0; 2], 10), ([0.8f64.ln(), 0.2f64.ln()], [0.0; 2], 9));
    let found = Sampled::new(&counts(), 20.0, vec![draw(0.0, &[a, b], false), draw(-1.0, &[b, a], false)], vec![2]);
    assert_eq!(found.same, [[Some(0), Some(1)], [Some(1), Some(0)]]);
}
