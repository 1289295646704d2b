//! Draws from q: the bound is below what they say, and moments of scores are theirs.

use super::*;
use crate::data::X;
use crate::data::design::PanelScratch;
use crate::dist::{Gamma, VonMisesFisher};
use crate::model::experts::point_prior;
use crate::model::gated::Work;
use crate::prior::{AngularKind, Directions, MutualAngular};
use crate::run::{Purpose, Stream};

/// ln q of a point, lengths by their logarithms.
fn ln_q(q: &Fit, shape: &Shape, point: &[f64]) -> f64 {
    let mut value = 0.0;
    let places = [
        (&q.experts, shape.expert_directions(), shape.expert_sizes(), shape.expert_intercepts()),
        (&q.gates, shape.gate_directions(), shape.gate_sizes(), shape.gate_intercepts()),
    ];
    for (side, directions, sizes, intercepts) in places {
        for (k, f) in side.factors.iter().enumerate() {
            let direction = &point[directions.start + k * side.dim..][..side.dim];
            value += VonMisesFisher::new(&f.direction, f.kappa).unwrap().ln_pdf(direction);
            let u = point[sizes.start + k];
            value += Gamma::new(f.shape, f.rate).unwrap().ln_pdf(u.exp()) + u;
            for (j, m) in f.intercepts.iter().enumerate() {
                let b = point[intercepts.start + k * f.intercepts.len() + j];
                value -= 0.5 * ((b - m).powi(2) / f.variance + (2.0 * std::f64::consts::PI * f.variance).ln());
            }
        }
    }
    value
}

/// E_q[ln p(y, θ) − ln q(θ)], the expert of each row summed out, is at least the bound; not so much more that a term could be missing.
#[test]
fn the_bound_is_below_its_estimate() {
    let (n, p) = (30, 3);
    for (classes, gate_bound, loose) in [(2, GateBound::Bohning, 0.25), (2, GateBound::Bouchard, 1.2), (3, GateBound::Bohning, 0.35)] {
        let (x, y) = crossed(n, p, classes);
        let data = Dataset::new(Matrix::dense(n, p, x)).with_target(target(&y, classes));
        let program = Vb { gate_bound, ..program(3, classes, p, true) };
        let state = climb(&program, &data, 300, 3);
        let shape = &program.shape;
        let side = |prior: &SidePrior| point_prior::Side {
            directions: Directions::MutualAngular(MutualAngular { kind: AngularKind::Two, kappa: prior.kappa, first: None }),
            size: Size::Gamma { shape: prior.shape, rate: prior.rate },
        };
        let point_prior = PointPrior { experts: side(&program.experts), gates: side(&program.gates), intercept_sd: program.intercept_sd };
        let draws = 4000;
        let points = state.q.sample(shape, draws, Stream::new(5, 0, Purpose::Predict)).unwrap();
        let (mut plain, mut weights, mut scratch, mut work) = (vec![], vec![], PanelScratch::default(), Work::default());
        let gated = shape.gated();
        let values: Vec<f64> = points
            .iter()
            .map(|point| {
                shape.plain(point, &mut plain);
                shape.weights(&plain, &mut weights);
                let mut scores = vec![0.0; n * gated.columns()];
                let mut ln = vec![0.0; n];
                program.design.panel(data.x.view(), &mut scratch).mul_t(&weights, gated.columns(), &mut scores);
                gated.values(&mut scores, &y, &mut ln, &mut work);
                ln.iter().sum::<f64>() + point_prior.ln_density(shape, point) - ln_q(&state.q, shape, point)
            })
            .collect();
        let mean = values.iter().sum::<f64>() / draws as f64;
        let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws * (draws - 1)) as f64).sqrt();
        // one-sided, 4 standard errors
        assert!(mean + 4.0 * error > state.elbo, "{mean} ± {error}, bound {}", state.elbo);
        assert!(mean - state.elbo < loose * n as f64, "{mean} ± {error}, bound {}", state.elbo);
    }
}

#[test]
fn moments_of_scores_are_those_of_draws() {
    for (experts, classes, bias) in [(2, 2, true), (2, 3, true), (1, 3, false)] {
        let (n, p, draws) = (4, 3, 20_000);
        let (x, y) = crossed(n, p, classes);
        let data = Dataset::new(Matrix::dense(n, p, x)).with_target(target(&y, classes));
        let program = program(experts, classes, p, bias);
        let mut q = climb(&program, &data, 20, 3).q;
        q.experts.factors[0].kappa = 2.0;
        let shape = &program.shape;
        let columns = shape.gated().columns();
        let mut scratch = PanelScratch::default();
        let (means, variances) = score_moments(&q, shape, &program.design, data.x.view(), &mut scratch);
        let (mut sum, mut square) = (vec![0.0; n * columns], vec![0.0; n * columns]);
        let mut fourth = vec![0.0; n * columns];
        let (mut plain, mut weights) = (vec![], vec![]);
        for point in q.sample(shape, draws, Stream::new(8, 0, Purpose::Predict)).unwrap() {
            shape.plain(&point, &mut plain);
            shape.weights(&plain, &mut weights);
            let mut scores = vec![0.0; n * columns];
            program.design.panel(data.x.view(), &mut scratch).mul_t(&weights, columns, &mut scores);
            for i in 0..n * columns {
                let e = scores[i] - means[i];
                sum[i] += e;
                square[i] += e * e;
                fourth[i] += e.powi(4);
            }
        }
        let count = draws as f64;
        for i in 0..n * columns {
            let (error, v) = (sum[i] / count, square[i] / count);
            // 5 standard errors each: 1e-5 in all for some sixty numbers
            assert!(error.abs() < 5.0 * (variances[i] / count).sqrt(), "mean {i}: {error}");
            let spread = ((fourth[i] / count - v * v) / count).sqrt();
            assert!((v - variances[i]).abs() < 5.0 * spread, "variance {i}: {v} {}", variances[i]);
        }
        // the mean point has the mean scores
        shape.plain(&q.mean_point(shape), &mut plain);
        shape.weights(&plain, &mut weights);
        let mut scores = vec![0.0; n * columns];
        program.design.panel(data.x.view(), &mut scratch).mul_t(&weights, columns, &mut scores);
        assert!(scores.iter().zip(&means).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

/// In one dimension directions are signs.
#[test]
fn signs_are_drawn() {
    let program = program(2, 2, 1, false);
    let mut q = program.around(&[1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    q.experts.factors[0].kappa = 0.4;
    let draws = 20_000;
    let points = q.sample(&program.shape, draws, Stream::new(1, 0, Purpose::Predict)).unwrap();
    let mean = points.iter().map(|p| p[0]).sum::<f64>() / draws as f64;
    let expected = 0.4_f64.tanh();
    assert!((mean - expected).abs() < 4.5 * ((1.0 - expected * expected) / draws as f64).sqrt(), "{mean}");
    assert!(points.iter().all(|p| p[0].abs() == 1.0));
}

/// Means and variances of the scores of some rows under q, laid out as the rows' scores are (`Gated`): gates first, then class scores or
/// log-odds of each expert.
fn score_moments(q: &Fit, shape: &Shape, design: &Design, x: X<'_>, scratch: &mut PanelScratch) -> (Vec<f64>, Vec<f64>) {
    let (n, d, columns) = (x.rows(), shape.dim(), shape.gated().columns());
    let (gates, units) = (shape.gates(), shape.gated().units());
    // unit directions and mean intercepts, as weights
    let (mut unit, mut weights, mut mean_weights) = (q.mean_point(shape), Vec::new(), Vec::new());
    let mut plain = Vec::new();
    shape.plain(&unit, &mut plain);
    shape.weights(&plain, &mut mean_weights);
    for range in [shape.expert_sizes(), shape.gate_sizes(), shape.expert_intercepts(), shape.gate_intercepts()] {
        unit[range].fill(0.0);
    }
    shape.plain(&unit, &mut plain);
    shape.weights(&plain, &mut weights);
    let mut panel = design.panel(x, scratch);
    let (mut means, mut along, mut norms) = (vec![0.0; n * columns], vec![0.0; n * columns], vec![0.0; n]);
    panel.mul_t(&mean_weights, columns, &mut means);
    panel.mul_t(&weights, columns, &mut along);
    let mut ones = vec![1.0; d];
    if shape.bias {
        ones[d - 1] = 0.0;
    }
    panel.block_quadratics(1, &ones, 1, &mut norms);
    // |V_c|², what a contrast's variance counts for a class
    let contrast: Vec<f64> = match units {
        1 => vec![1.0],
        _ => shape.contrasts().chunks_exact(shape.rows()).map(|v| dot(v, v)).collect(),
    };
    let mut variances = along;
    for (row, norm) in variances.chunks_exact_mut(columns).zip(&norms) {
        for (c, v) in row.iter_mut().enumerate() {
            let (f, part) = match c.checked_sub(gates) {
                None => (&q.gates.factors[c], 1.0),
                Some(c) => (&q.experts.factors[c / units], contrast[c % units]),
            };
            let m = f.moments();
            let (rho, u) = (m.along.rho, *v);
            let second = m.square * (rho / f.direction.len() as f64 * part * norm + (1.0 - rho) * u * u);
            let beside = if shape.bias { part * f.variance } else { 0.0 };
            *v = (second - (m.size * m.along.mean * u).powi(2)).max(0.0) + beside;
        }
    }
    (means, variances)
}
