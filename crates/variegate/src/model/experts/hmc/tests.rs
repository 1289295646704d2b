//! Trajectories on circles against integrals over three angles, coordinates against differences, and rounds of moves on their own.

use super::frame::Frame;
use super::*;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::infer::finite_difference::check_gradient;
use crate::linalg::dot;
use crate::model::experts::point_prior::{Side, Size};
use crate::model::gated::{Gated, Work};
use crate::prior::{AngularKind, Determinantal, Directions, MutualAngular};
use crate::run::{Purpose, Shape as RowsShape, Which};

const X: [[f64; 2]; 6] = [[1.0, 0.2], [-0.4, 1.1], [0.3, -0.9], [-1.2, -0.3], [0.8, 0.8], [0.1, 1.6]];
const GATES: [[f64; 2]; 3] = [[1.0, 0.0], [-0.5, 0.5], [0.0, -1.0]];
const SIZES: [f64; 3] = [2.0, 1.5, 1.0];

fn scores(directions: &[f64], rows: &[[f64; 2]]) -> Vec<f64> {
    let score = |x: &[f64; 2]| -> Vec<f64> {
        let gates = GATES.iter().map(|h| dot(h, x));
        gates.chain((0..3).map(|k| SIZES[k] * dot(&directions[2 * k..2 * k + 2], x))).collect()
    };
    rows.iter().flat_map(score).collect()
}

/// Three experts of known lengths behind a known gate, on a circle: expectations by quadrature over the three angles, computed apart from
/// this code; eighteen comparisons, false alarm below 2e-3.
#[test]
fn geodesic_trajectories_agree_with_integrals_over_angles() {
    let chain = |kind| Directions::MutualAngular(MutualAngular { kind, kappa: 2.0, first: Some(vec![1.0, 0.0]) });
    let cases = [
        (chain(AngularKind::One), [0.528454711, 0.511121597, -0.703352069, -0.207551613, 0.776591455, 0.235689059]),
        (chain(AngularKind::Two), [0.530908825, 0.510188546, -0.696780765, -0.181960903, 0.775464561, 0.204518195]),
        (
            Directions::Determinantal(Determinantal { length: 0.7 }),
            [0.516226839, 0.408689948, -0.287838372, -0.220717572, 0.391724398, 0.144099573],
        ),
    ];
    let gated = Gated::new(3, 2);
    for (number, (directions, exact)) in cases.into_iter().enumerate() {
        let (mut work, mut scratch) = (Work::default(), PriorScratch::default());
        let mut target = |a: &[f64], gradient: &mut [f64], _: bool| -> Result<f64> {
            let (mut s, mut ln) = (scores(a, &X), [0.0; 6]);
            gated.slopes(&mut s, &[1, 0, 0, 1, 1, 0], &mut ln, &mut work);
            gradient.fill(0.0);
            let prior = directions.gradient_add(a, 2, gradient, &mut scratch);
            for (x, s) in X.iter().zip(s.chunks(6)) {
                for k in 0..3 {
                    (0..2).for_each(|d| gradient[2 * k + d] += s[3 + k] * SIZES[k] * x[d]);
                }
            }
            Ok(ln.iter().sum::<f64>() + prior)
        };
        let mut chains: Vec<Vec<Vec<f64>>> = vec![Vec::new(); 6];
        for c in 0..4 {
            let mut rng = Stream::new(11 + number as u64, c, Purpose::Check).rng();
            let mut position: Vec<f64> = Directions::Uniform.sample(3, 2, &mut rng).unwrap();
            let mut gradient = vec![0.0; 6];
            let mut value = target(&position, &mut gradient, true).unwrap();
            let manifold = Manifold { spheres: &[(0, 3, 2)], len: 6, paces: &[] };
            let pace = Pace { step: 0.5, max_steps: 6, retry: None };
            let mut kept: Vec<Vec<f64>> = vec![Vec::new(); 6];
            for sweep in 0..6_200 {
                transition(manifold, &mut position, &mut value, &mut gradient, pace, &mut target, &mut rng).unwrap();
                if sweep < 200 {
                    continue;
                }
                let predictions = scores(&position, &[[0.5, -0.5], [-1.0, 1.0]]);
                let (mut gates, mut classes) = ([0.0; 3], [0.0; 6]);
                for (row, out) in predictions.chunks(6).zip(0..2) {
                    gated.probabilities(row, &mut gates, &mut classes);
                    kept[out].push((0..3).map(|k| gates[k] * classes[2 * k + 1]).sum());
                }
                let a = &position;
                kept[2].push(dot(&a[..2], &a[2..4]));
                kept[3].push(dot(&a[2..4], &a[4..]));
                kept[4].push(a[0]);
                kept[5].push(a[5]);
            }
            chains.iter_mut().zip(kept).for_each(|(all, kept)| all.push(kept));
        }
        for (chains, exact) in chains.iter().zip(exact) {
            let z = (summarise(chains).mean - exact) / mcse_mean(chains);
            assert!(z.abs() < 4.0, "{directions:?}: z = {z} at {exact}");
        }
    }
}

/// Flat coordinates lead back to the point they came from, and their gradient is that of differences, with dense and diagonal metrics.
#[test]
fn flat_coordinates_return_and_have_the_right_gradient() {
    for (experts, classes, inputs, bias) in [(3, 2, 3, true), (2, 3, 2, false), (1, 2, 4, true)] {
        let shape = Shape::new(experts, classes, inputs, bias);
        let d = shape.dim();
        // rows (1, 0.5, …, 1) and others, as their Gram matrix and as its diagonal with sums
        let rows: Vec<Vec<f64>> =
            (0..9).map(|i| (0..d).map(|j| if bias && j == inputs { 1.0 } else { ((i * 3 + j * 5) as f64).sin() }).collect()).collect();
        let mut gram = vec![0.0; d * d];
        let mut moments = vec![0.0; 2 * d];
        for row in &rows {
            for i in 0..d {
                (0..=i).for_each(|j| gram[i * d + j] += row[i] * row[j]);
                moments[i] += row[i] * row[i];
                moments[d + i] += row[i];
            }
        }
        for given in [&gram, &moments] {
            let mut frame = Frame::new(&shape, given, 9.0, [6.0, 3.0]).unwrap();
            let side = |kappa| Side {
                directions: Directions::MutualAngular(MutualAngular { kind: AngularKind::Two, kappa, first: None }),
                size: Size::Gamma { shape: 2.0, rate: 1.0 },
            };
            frame.prepare(&shape, &PointPrior { experts: side(3.0), gates: side(1.0), intercept_sd: 1.0 }).unwrap();
            let mut rng = Stream::new(2, 0, Purpose::Check).rng();
            let plain: Vec<f64> = (0..shape.plain_len()).map(|i| (0.8 * i as f64 + 0.3).sin()).collect();
            let point = shape.point(&plain);
            let flat = frame.enter(&shape, &point, &mut rng).unwrap();
            let mut lengths = Vec::new();
            let back = frame.leave(&shape, &flat, &mut lengths);
            assert!(back.iter().zip(&point).all(|(a, b)| (a - b).abs() < 1e-12));
            let linear: Vec<f64> = (0..shape.len()).map(|i| (1.1 * i as f64).cos()).collect();
            let value = |flat: &[f64]| {
                let mut lengths = Vec::new();
                let point = frame.leave(&shape, flat, &mut lengths);
                dot(&linear, &point) - 0.5 * lengths.iter().map(|l| l * l).sum::<f64>()
            };
            let mut gradient = linear.clone();
            let added = frame.pull_back(&shape, &back, &lengths, &mut gradient);
            assert!((value(&flat) - dot(&linear, &back) - added).abs() < 1e-10);
            let worst = check_gradient(value, &flat, &gradient);
            assert!(worst.relative_error < 1e-6, "{worst:?}");
        }
    }
}

/// Trials of a vector have the likelihood of the point that they make, one move after the other: two classes and three, rows of all
/// weights, scores that leave the range of numbers.
#[test]
fn trials_have_the_likelihood_of_their_point() {
    for (classes, scale) in [(2, 1.0), (3, 1.0), (2, 400.0), (3, 400.0)] {
        let (rows, inputs, experts) = (21, 2, 4);
        let shape = Shape::new(experts, classes, inputs, true);
        let x: Vec<f64> = (0..rows * inputs).map(|i| (1.7 * i as f64 + 0.2).sin()).collect();
        let codes: Vec<u32> = (0..rows).map(|i| (i * i % classes) as u32).collect();
        let names = (0..classes).map(|c| c.to_string()).collect();
        let weights: Vec<f64> = (0..rows).map(|i| if i < 16 { 1.0 } else { [0.0, 2.0, 0.5][i % 3] }).collect();
        let mut data = Dataset::new(Matrix::dense(rows, inputs, x)).with_target(Target::Classes(Classes { codes, names }));
        data.weights = Some(weights);
        let side = Side { directions: Directions::Uniform, size: Size::Gamma { shape: 2.0, rate: 1.0 } };
        let point_prior = PointPrior { experts: side.clone(), gates: side, intercept_sd: 1.0 };
        let hmc = Hmc {
            design: Design::identity(inputs, true),
            shape: shape.clone(),
            point_prior,
            hyper: Hyper::Fixed,
            max_steps: 1,
            target_accept: 0.8,
            metric: Metric::Sphere,
            learn_until: 0,
        };
        let cut = crate::run::blocks(&data, 64);
        let block = &cut[0];
        let plain: Vec<f64> = (0..shape.plain_len()).map(|i| scale * (0.9 * i as f64 + 0.4).sin()).collect();
        let mut point = shape.point(&plain);
        let (mut local, mut scratch) = (Local::default(), Scratch::default());
        let vectors: Vec<Vector> = [3, 0, 1].iter().flat_map(|&k| [true, false].map(|gate| Vector { gate, k })).collect();
        let dims: Vec<usize> = vectors.iter().map(|v| shape.places(v.gate, v.k).direction.len()).collect();
        let arrows: Vec<f64> = (0..dims.iter().sum()).map(|i| (0.7 * i as f64).cos() + 0.1).collect();
        hmc.take_apart(&point, &vectors, &arrows, block, &mut local, &mut scratch);
        let full = |point: &[f64]| {
            let (mut plain, mut weights) = (Vec::new(), Vec::new());
            shape.plain(point, &mut plain);
            shape.weights(&plain, &mut weights);
            rows::likelihood(&hmc.design, &shape.gated(), &weights, block, |i| block.weight(i), &mut rows::Scratch::default()).value.0
        };
        let (mut moved, mut at) = (None, 0);
        for (of, dim) in vectors.into_iter().zip(dims) {
            let places = shape.places(of.gate, of.k);
            let arrow = &arrows[at * inputs..at * inputs + dim];
            for what in ["intercepts", "length", "direction"] {
                let mut next = point.clone();
                let (length, intercepts) = (point[places.size].exp(), point[places.intercepts.clone()].to_vec());
                let mut trial = Trial { along: length, across: 0.0, intercepts };
                let mut tangent = None;
                match what {
                    "intercepts" => {
                        trial.intercepts.iter_mut().for_each(|b| *b -= 0.3 * scale);
                        next[places.intercepts.clone()].copy_from_slice(&trial.intercepts);
                    }
                    "length" => {
                        trial.along = 1.5 * length;
                        next[places.size] += 1.5f64.ln();
                    }
                    _ => {
                        let a = &point[places.direction.clone()];
                        let along = dot(a, arrow);
                        let across: Vec<f64> = arrow.iter().zip(a).map(|(z, a)| z - along * a).collect();
                        let far = dot(&across, &across).sqrt();
                        tangent = Some(Tangent { arrow: at, along, length: far });
                        (trial.along, trial.across) = (length * 0.8, length * 0.6);
                        let turned: Vec<f64> = a.iter().zip(&across).map(|(a, t)| 0.8 * a + 0.6 * t / far).collect();
                        next[places.direction.clone()].copy_from_slice(&turned);
                    }
                }
                let same = Trial { along: length, across: 0.0, intercepts: point[places.intercepts.clone()].to_vec() };
                let trials = [same, trial.clone()];
                let found = hmc.trials(of, tangent, &trials, moved.as_ref(), false, block, &mut local, &mut scratch).gradient.0;
                for (found, exact) in found.iter().zip([full(&point), full(&next)]) {
                    assert!((found - exact).abs() < 1e-10 * (1.0 + exact.abs()), "{classes} classes, {of:?}, {what}: {found} {exact}");
                }
                // single precision is enough to choose by where numbers are not huge
                if scale == 1.0 && (of.gate || classes == 2) {
                    let rough = hmc.trials(of, tangent, &trials, None, true, block, &mut local, &mut scratch).gradient.0;
                    assert!(rough.iter().zip(&found).all(|(r, f)| (r - f).abs() < 1e-5 * (1.0 + f.abs())), "{of:?}: {rough:?} {found:?}");
                }
                (point, moved) = (next, Some((of, trial)));
            }
            at += dim / inputs;
        }
    }
}

/// Rounds of moves of single vectors and nothing else. Where points are chosen by rounded likelihoods, these are rounded to whole
/// multiples of 3, so far from right that a third of the rounds is refused.
#[derive(Debug, Clone)]
pub(in crate::model::experts) struct Alone(pub(in crate::model::experts) Hmc);

struct Coarse<'a>(&'a mut dyn Rows<Alone>);

impl Rows<Hmc> for Coarse<'_> {
    fn shape(&self) -> RowsShape {
        self.0.shape()
    }

    fn visit(&mut self, ask: &Ask<'_>, which: Which<'_>) -> Result<Likelihood> {
        let mut found = self.0.visit(ask, which)?;
        if matches!(ask, Ask::Trials { rough: true, .. }) {
            found.gradient.0.iter_mut().for_each(|l| *l = (*l / 3.0).round() * 3.0);
        }
        Ok(found)
    }
}

impl Program for Alone {
    const NAME: &'static str = "moves alone";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Likelihood;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        self.0.start(&mut Coarse(rows), stream)
    }

    fn local(&self, block: &Block<'_>, stream: Stream) -> Local {
        self.0.local(block, stream)
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let (mut rows, mut buffers) = (Coarse(rows), Buffers::default());
        self.0.look(state, &mut rows, &mut buffers)?;
        self.0.alone(state, &mut rows, 1.0, &mut buffers, &mut tick.stream.rng())?;
        Ok(Report { objective: state.ln_likelihood, components: self.0.shape.experts as u32, converged: false, extras: Vec::new() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, stream: Stream) -> Result<Likelihood> {
        self.0.visit(ask, block, local, scratch, stream)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        self.0.draw(state, out);
    }
}

impl Sampler for Alone {
    fn at(&self, point: Vec<f64>, point_prior: PointPrior) -> State {
        self.0.at(point, point_prior)
    }

    fn point(state: &State) -> &[f64] {
        Hmc::point(state)
    }

    fn point_prior(state: &State) -> &PointPrior {
        Hmc::point_prior(state)
    }
}
