//! Directions with everything else known, against integrals; columns against the likelihood they stand for; and the test that sees a
//! wrong acceptance ratio.

use super::super::point_prior::Size;
use super::*;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::gated::Work;
use crate::prior::{AngularKind, Determinantal, Directions, MutualAngular};
use crate::run::{Purpose, Shape as RowsShape, Threads, blocks};
use crate::special::sigmoid;

const X: [[f64; 2]; 6] = [[1.0, 0.2], [-0.4, 1.1], [0.3, -0.9], [-1.2, -0.3], [0.8, 0.8], [0.1, 1.6]];
const GATES: [[f64; 2]; 3] = [[1.0, 0.0], [-0.5, 0.5], [0.0, -1.0]];
const LENGTHS: [f64; 3] = [2.0, 1.5, 1.0];

fn six(codes: Vec<u32>, classes: usize) -> Dataset<'static> {
    let classes = Classes { codes, names: (0..classes).map(|c| c.to_string()).collect() };
    Dataset::new(Matrix::dense(6, 2, X.concat())).with_target(Target::Classes(classes))
}

fn point_prior(directions: Directions) -> PointPrior {
    let side = Side { directions, size: Size::Gamma { shape: 2.0, rate: 1.0 } };
    PointPrior { experts: side.clone(), gates: side, intercept_sd: 1.0 }
}

/// Calls `f` with the rows of a chain.
fn with_rows<T>(program: &Mh, data: &Dataset<'_>, f: impl FnOnce(&mut Threads<'_, Mh>) -> T) -> T {
    let blocks = blocks(data, 4);
    let shape = RowsShape { rows: data.rows(), cols: 2, blocks: blocks.len() as u32, block_rows: 4 };
    let mut rows = Threads::new(program, &blocks, shape, 1, 0, None);
    f(&mut rows)
}

/// Known lengths and gates: three angles, whose expectations were integrated by quadrature. Six functions and three distributions; false alarm
/// below 1e-3.
#[test]
fn directions_have_the_moments_of_their_integrated_posterior() {
    let angular = |kind| Directions::MutualAngular(MutualAngular { kind, kappa: 2.0, first: Some(vec![1.0, 0.0]) });
    let cases = [
        (angular(AngularKind::One), [0.528454711, 0.511121597, -0.703352069, -0.207551613, 0.776591455, 0.235689059]),
        (angular(AngularKind::Two), [0.530908825, 0.510188546, -0.696780765, -0.181960903, 0.775464561, 0.204518195]),
        (
            Directions::Determinantal(Determinantal { length: 0.7 }),
            [0.516226839, 0.408689948, -0.287838372, -0.220717572, 0.391724398, 0.144099573],
        ),
    ];
    let (data, shape) = (six(vec![1, 0, 0, 1, 1, 0], 2), Shape::new(3, 2, 2, false));
    for (number, (directions, exact)) in cases.into_iter().enumerate() {
        let program = Mh {
            design: Design::identity(2, false),
            shape: shape.clone(),
            point_prior: point_prior(directions.clone()),
            hyper: Hyper::Fixed,
        };
        let mut rng = Stream::new(7 + number as u64, 0, Purpose::Check).rng();
        let values: Vec<[f64; 6]> = with_rows(&program, &data, |rows| {
            let mut plain = vec![0.0; 6];
            plain.extend(GATES.concat());
            let mut point = shape.point(&plain);
            point[shape.expert_directions()].copy_from_slice(&directions.sample(3, 2, &mut rng).unwrap());
            point[shape.expert_sizes()].iter_mut().zip(LENGTHS).for_each(|(u, g)| *u = g.ln());
            let mut state = program.at(point, program.point_prior.clone());
            // wide steps: the angles are known to a radian or so
            state.scales[0][0] = ScaleAdapter::new(1.5, TARGET, Rates::default()).unwrap();
            state.ln_likelihood = program.ask(&mut state, rows, None).unwrap();
            let mut coupled = Coupled::new(&directions, &state.point[shape.expert_directions()], 2);
            (0..40_000)
                .map(|_| {
                    for k in 0..3 {
                        program.move_direction(&mut state, rows, false, k, &mut coupled, &mut rng).unwrap();
                    }
                    let a = coupled.directions();
                    let prediction = |x: [f64; 2]| {
                        let gates: Vec<f64> = GATES.iter().map(|e| dot(e, &x).exp()).collect();
                        let total: f64 = gates.iter().sum();
                        (0..3).map(|k| gates[k] / total * sigmoid(LENGTHS[k] * dot(&a[2 * k..2 * k + 2], &x))).sum::<f64>()
                    };
                    [prediction([0.5, -0.5]), prediction([-1.0, 1.0]), dot(&a[..2], &a[2..4]), dot(&a[2..4], &a[4..6]), a[0], a[5]]
                })
                .collect()
        });
        let zs: Vec<f64> = (0..6)
            .map(|i| {
                let chains: Vec<Vec<f64>> = values.chunks(10_000).map(|c| c.iter().map(|v| v[i]).collect()).collect();
                (summarise(&chains).mean - exact[i]) / mcse_mean(&chains)
            })
            .collect();
        assert!(zs.iter().all(|z| z.abs() < 4.2), "{number}: {zs:?}");
    }
}

/// The likelihood that proposals were judged by is that of the point they left behind, whatever was accepted and exchanged, with ordinary
/// scores and with scores beyond all exponentials.
#[test]
fn columns_stand_for_the_likelihood() {
    for (experts, classes, bias) in [(3, 2, true), (2, 3, true), (1, 3, false), (4, 2, false)] {
        let shape = Shape::new(experts, classes, 2, bias);
        let data = six((0..6).map(|i| i % classes as u32).collect(), classes);
        let directions = Directions::MutualAngular(MutualAngular { kind: AngularKind::Two, kappa: 1.0, first: None });
        let program =
            Mh { design: Design::identity(2, bias), shape: shape.clone(), point_prior: point_prior(directions), hyper: Hyper::Fixed };
        for size in [0.5f64, 8.0] {
            let mut point = program.point_prior.sample(&shape, &mut Stream::new(3, 0, Purpose::Check).rng()).unwrap();
            point[shape.expert_sizes().start..shape.gate_sizes().end].fill(size);
            let exact = |point: &[f64]| -> f64 {
                let (mut plain, mut weights) = (Vec::new(), Vec::new());
                shape.plain(point, &mut plain);
                shape.weights(&plain, &mut weights);
                let mut scores: Vec<f64> = Vec::new();
                for x in X {
                    let x = [x[0], x[1], 1.0];
                    scores.extend(weights.chunks_exact(shape.dim()).map(|w| dot(w, &x[..shape.dim()])));
                }
                let mut ln = [0.0; 6];
                let Target::Classes(classes) = &data.target else { panic!() };
                shape.gated().values(&mut scores, &classes.codes, &mut ln, &mut Work::default());
                ln.iter().sum()
            };
            with_rows(&program, &data, |rows| {
                let mut state = program.at(point, program.point_prior.clone());
                let mut moved = 0;
                for sweep in 1..=60 {
                    // lengths would shrink to where exponentials suffice
                    let before = state.point.clone();
                    let stream = Stream::new(5, 0, Purpose::Sweep).sweep(sweep);
                    rows.begin(sweep);
                    program.sweep(&mut state, rows, Tick { stream, sweep, warm_up: true }).unwrap();
                    moved += usize::from(before != state.point);
                    let expected = exact(&state.point);
                    assert!((state.ln_likelihood - expected).abs() < 1e-10 * (1.0 + expected.abs()), "{} {expected}", state.ln_likelihood);
                }
                assert!(moved > 10, "{moved}");
            });
        }
    }
}

/// ln Φ(0.5) − ln Φ(1.2), computed apart from this code, and the Gamma distribution with respect to dg.
#[test]
fn lengths_are_accepted_by_the_truncated_proposal() {
    let side = point_prior(Directions::Uniform).experts;
    let (now, proposed, s): (f64, f64, f64) = (1.0, 2.4, 2.0);
    let expected = (2.0 - 1.0) * (proposed / now).ln() - (proposed - now) - 0.246700055;
    assert!((ln_length_ratio(&side, 3, now.ln(), proposed.ln(), s) - expected).abs() < 1e-9);
}
