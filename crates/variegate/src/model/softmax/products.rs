//! What forms of P that hold only part of the curvature need of the rows: directions by conjugate gradients, and a basis.

use std::borrow::Cow;

use rand_distr::{Distribution, StandardNormal};

use super::covariance::Covariance;
use super::factors::Factors;
use super::job::State;
use super::layout::Layout;
use super::pass::ask::Ask;
use super::program::Vb;
use crate::Result;
use crate::data::design::{packed_len, runs};
use crate::linalg::dot;
use crate::run::{Purpose, Rows, Stream};

/// Conjugate gradients end here at the latest; any number of steps gives a direction of ascent.
const MOST_STEPS: usize = 60;
/// They end when every residual has shrunk by this factor.
const SHRUNK: f64 = 1e-4;
/// Rounds of subspace iteration.
const ROUNDS: usize = 12;

/// Solutions of (A + C)d = gradient − Aμ for every unit of the nodes that need them; zeros elsewhere.
pub(crate) fn directions(layout: &Layout, state: &State, q: &Factors, rows: &mut dyn Rows<Vb>) -> Result<Vec<f64>> {
    let dim = layout.dim;
    let mut d = vec![0.0; layout.units * dim];
    let (mut residual, mut alpha, mut diagonal) = (d.clone(), d.clone(), vec![1.0; layout.units * dim]);
    for (node, l) in q.nodes.iter().zip(&layout.nodes).filter(|(_, l)| l.covariance.needs_products()) {
        let at = l.at_weights(dim);
        residual[at.clone()].copy_from_slice(&node.residual(l, &state.stats.gradient.0[at.clone()], state.beta));
        alpha[at.clone()].copy_from_slice(&l.prior.means(&node.rates, state.beta));
        let len = l.covariance.matrix_len(dim);
        let curvature = &state.stats.curvature.0[l.matrices.clone()];
        for (u, c) in curvature.chunks_exact(len).enumerate() {
            let from = (l.first_unit + u) * dim;
            let out = &mut diagonal[from..from + dim];
            match l.covariance {
                Covariance::Blocks(width) => runs(dim, width).for_each(|(first, columns, place)| {
                    (0..columns).for_each(|i| out[first + i] = c[place + packed_len(i) + i]);
                }),
                _ => out.fill(c[len - 1] / dim as f64),
            }
            out.iter_mut().zip(&alpha[from..from + dim]).for_each(|(o, a)| *o += a);
        }
    }
    let moments = q.moments(layout, &state.basis, state.beta);
    let Ok(moments) = moments else { return Ok(d) };
    let view = q.view(layout, &moments, &state.basis, state.beta, state.job.fold);
    let scale = |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, p)| r / p).collect() };
    let mut z = scale(&residual);
    let mut p = z.clone();
    let parts = |v: &[f64], w: &[f64]| -> Vec<f64> { v.chunks_exact(dim).zip(w.chunks_exact(dim)).map(|(v, w)| dot(v, w)).collect() };
    let mut rz = parts(&residual, &z);
    let first = parts(&residual, &residual);
    for _ in 0..MOST_STEPS {
        let ask = Ask::Products { at: state.at(view.clone()), vectors: Cow::Borrowed(&p) };
        let mut product = rows.all(&ask)?.gradient.0;
        product.iter_mut().zip(&alpha).zip(&p).for_each(|((o, a), p)| *o += a * p);
        let curved = parts(&p, &product);
        for u in 0..layout.units {
            // a unit that is solved, or belongs to a node with whole matrices, stays where it is
            let step = if curved[u] > 0.0 { rz[u] / curved[u] } else { 0.0 };
            for j in u * dim..(u + 1) * dim {
                d[j] += step * p[j];
                residual[j] -= step * product[j];
            }
        }
        if parts(&residual, &residual).iter().zip(&first).all(|(now, then)| *now <= SHRUNK * SHRUNK * then) {
            break;
        }
        z = scale(&residual);
        let next = parts(&residual, &z);
        for u in 0..layout.units {
            let share = if rz[u] > 0.0 { next[u] / rz[u] } else { 0.0 };
            for j in u * dim..(u + 1) * dim {
                p[j] = z[j] + share * p[j];
            }
        }
        rz = next;
    }
    Ok(d)
}

/// Orthonormal directions (rank×D, one a row) in which the rows vary most, by subspace iteration from a fixed random start.
pub(crate) fn basis(program: &Vb, rank: usize, rows: &mut dyn Rows<Vb>) -> Result<Vec<f64>> {
    let dim = program.design.dim();
    let mut rng = Stream::new(0, 0, Purpose::Start).rng();
    let mut q: Vec<f64> = (0..rank * dim).map(|_| StandardNormal.sample(&mut rng)).collect();
    orthonormalise(&mut q, dim, &mut rng);
    for _ in 0..ROUNDS {
        q = rows.all(&Ask::Spread { probes: Cow::Borrowed(&q) })?.gradient.0;
        orthonormalise(&mut q, dim, &mut rng);
    }
    Ok(q)
}

/// Gram and Schmidt's process, each row twice; a row that vanishes is replaced by a random one.
fn orthonormalise(q: &mut [f64], dim: usize, rng: &mut impl rand::Rng) {
    for a in 0..q.len() / dim {
        for attempt in 0..3 {
            let before = dot(&q[a * dim..(a + 1) * dim], &q[a * dim..(a + 1) * dim]).sqrt();
            for _ in 0..2 {
                for b in 0..a {
                    let (head, tail) = q.split_at_mut(a * dim);
                    let along = dot(&head[b * dim..(b + 1) * dim], &tail[..dim]);
                    tail[..dim].iter_mut().zip(&head[b * dim..]).for_each(|(t, h)| *t -= along * h);
                }
            }
            let row = &mut q[a * dim..(a + 1) * dim];
            let length = dot(row, row).sqrt();
            if length > 1e-10 * before || attempt == 2 {
                row.iter_mut().for_each(|v| *v /= length.max(f64::MIN_POSITIVE));
                break;
            }
            row.iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
        }
    }
}
