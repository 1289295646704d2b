//! The steps of one weight vector, and what the sampler refuses.

use super::super::point_prior::{Side, Size};
use super::*;
use crate::check::{InvarianceSettings, one_step_invariance};
use crate::data::Dataset;
use crate::data::{Classes, Matrix, Target};
use crate::linalg::dot;
use crate::prior::{AngularKind, Determinantal, Directions, MutualAngular};
use crate::run::Purpose;
use rand_distr::StandardNormal;

const EXPERTS: usize = 3;
const INPUTS: usize = 2;
const INTERCEPT_SD: f64 = 0.8;
/// Design rows, the bias last, and the precision of an observation at each.
const ROWS: [([f64; 3], f64); 3] = [([1.0, 0.2, 1.0], 1.0), ([-0.4, 1.1, 1.0], 0.6), ([0.9, 0.5, 1.0], 0.8)];

/// One vector among three, and observations of its scores: what the rows say is then a quadratic, as with ω.
struct State {
    directions: Vec<f64>,
    size: f64,
    intercept: f64,
    h: Vec<f64>,
}

fn gram() -> Vec<f64> {
    let mut q = vec![0.0; 9];
    for (x, precision) in ROWS {
        for i in 0..3 {
            (0..3).for_each(|j| q[3 * i + j] += precision * x[i] * x[j]);
        }
    }
    q
}

/// Which step of an update is made.
#[derive(Debug, Clone, Copy)]
enum Step {
    Turn,
    Stretch,
    Whole,
}

/// Vectors from the prior, observations given them, one step, the same joint distribution: false alarms once in 10⁴ runs for each case.
#[test]
fn every_step_of_a_vector_leaves_its_distribution_as_it_is() {
    let angular = |kind| Directions::MutualAngular(MutualAngular { kind, kappa: 3.0, first: Some(vec![0.6, 0.8]) });
    let gamma = Size::Gamma { shape: 1.5, rate: 1.0 };
    let cases = [
        (angular(AngularKind::One), gamma, Step::Turn),
        (angular(AngularKind::Two), gamma, Step::Turn),
        (Directions::Determinantal(Determinantal { length: 0.7 }), gamma, Step::Turn),
        (angular(AngularKind::Two), gamma, Step::Stretch),
        (Directions::Uniform, Size::Gaussian { sd: 1.2 }, Step::Whole),
    ];
    let names = ["a0", "a1", "cos", "cos'", "u", "g", "b", "b²", "b a0", "wh", "bh", "g a0", "tanh w0", "w1²", "b w·x", "density"];
    let effort = InvarianceSettings { draws: 20_000, false_alarm_rate: 1e-4 };
    for (number, (directions, size, which)) in cases.into_iter().enumerate() {
        let side = Side { directions, size };
        let k = number % EXPERTS;
        let exact = |rng: &mut Philox| -> Result<State> {
            let directions = side.directions.sample(EXPERTS, INPUTS, rng)?;
            let size = side.size.sample(INPUTS, rng)?;
            let z = |rng: &mut Philox| -> f64 { StandardNormal.sample(rng) };
            let intercept = INTERCEPT_SD * z(rng);
            let a = &directions[k * INPUTS..(k + 1) * INPUTS];
            let mut h = vec![0.0; 3];
            for (x, precision) in ROWS {
                let y = size.exp() * dot(a, &x[..2]) + intercept + z(rng) / precision.sqrt();
                (0..3).for_each(|j| h[j] += precision * y * x[j]);
            }
            Ok(State { directions, size, intercept, h })
        };
        let step = |state: State, rng: &mut Philox| -> Result<State> {
            let rows_say = Quadratic::new(gram(), state.h.clone(), INPUTS);
            let mut directions = Coupled::new(&side.directions, &state.directions, INPUTS);
            let mut vector = Vector { size: state.size, intercept: state.intercept };
            let prior = Prior { side: &side, intercept_sd: INTERCEPT_SD };
            match (which, side.size) {
                (Step::Turn, Size::Gamma { shape, rate }) => {
                    let base = rows_say.base(shape, rate, INTERCEPT_SD)?;
                    rows_say.turn(&base, &mut directions, k, &mut vector, rng);
                }
                (Step::Stretch, Size::Gamma { shape, rate }) => {
                    let base = rows_say.base(shape, rate, INTERCEPT_SD)?;
                    rows_say.stretch(&base, &directions, k, &mut vector, rng)?;
                }
                _ => rows_say.update(&prior, &mut directions, k, &mut vector, 1, rng)?,
            }
            Ok(State { directions: directions.directions().to_vec(), size: vector.size, intercept: vector.intercept, h: state.h })
        };
        let functions = |s: &State, out: &mut Vec<f64>| {
            let a = |k: usize| &s.directions[k * INPUTS..(k + 1) * INPUTS];
            let (own, g) = (a(k), s.size.exp());
            let w = [g * own[0], g * own[1]];
            out.extend([own[0], own[1], dot(own, a((k + 1) % 3)), dot(own, a((k + 2) % 3)), s.size, g, s.intercept, s.intercept.powi(2)]);
            out.extend([
                s.intercept * own[0],
                (0.3 * dot(&w, &s.h[..2])).tanh(),
                s.intercept * s.h[2],
                g * own[0],
                w[0].tanh(),
                w[1] * w[1],
            ]);
            out.push((s.intercept * (w[0] + w[1])).tanh());
            out.push(side.directions.ln_density(&s.directions, INPUTS));
        };
        let mut rng = Stream::new(number as u64, 0, Purpose::Check).rng();
        let report = one_step_invariance("update", &effort, &names, functions, &mut rng, exact, step).unwrap();
        assert!(report.passed, "{number} {which:?}: {report}");
    }
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let data = |weights: Vec<f64>| {
        let classes = Classes { codes: vec![0, 1], names: vec!["a".into(), "b".into()] };
        let mut data = Dataset::new(Matrix::dense(2, 1, vec![0.0, 1.0])).with_target(Target::Classes(classes));
        data.weights = Some(weights);
        data
    };
    let fine = data(vec![1.0, 2.0]);
    assert!(check(&Shape::new(3, 2, 300, true), &surveyed(&fine)).is_ok());
    for (shape, data, words) in [
        (Shape::new(3, 3, 2, true), &fine, "two classes"),
        (Shape::new(1, 2, 2001, false), &fine, "2001 by 2001"),
        (Shape::new(1000, 2, 1000, false), &fine, "1000 matrices"),
        (Shape::new(3, 2, 2, true), &data(vec![1.0, 1.5]), "row 2"),
        (Shape::new(3, 2, 2, true), &data(vec![1e7, 1.0]), "row 1"),
    ] {
        let error = check(&shape, &surveyed(data)).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("`hmc`"), "{error}");
    }
}

fn surveyed(data: &Dataset<'_>) -> crate::data::Survey {
    crate::run::survey(data, &crate::data::Questions::default(), None).unwrap()
}
