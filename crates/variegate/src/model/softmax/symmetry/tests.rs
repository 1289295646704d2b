//! Relabelling against enumeration, integrals and known values.

use super::super::check::{job, program};
use super::super::job::{Start, State};
use super::super::layout::Shape;
use super::super::program::Vb;
use super::super::tree::{Coding, Emission, Gates, Structure};
use super::super::{Bound, CovarianceChoice, Precision, Settings};
use super::*;
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::Cholesky;
use crate::run::{self, Chain, Typed};
use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::PI;

/// What a program of these settings says of rows without bias.
pub(crate) fn program_of(settings: &Settings, data: &Dataset<'_>) -> Vb {
    let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
    let (outcome, counts) = match &data.target {
        Target::Classes(classes) => {
            let mut counts = vec![0.0; classes.names.len()];
            classes.codes.iter().enumerate().for_each(|(i, c)| counts[*c as usize] += weight(i));
            (Emission::Classes(counts.len()), counts)
        }
        Target::Real { width, .. } => (Emission::Real(*width), vec![(0..data.rows()).map(weight).sum()]),
        _ => panic!("no target"),
    };
    let design = Design::identity(data.x.cols(), false);
    Vb { tol: f64::MIN_POSITIVE, ..program(settings, outcome, design, counts).unwrap() }
}

/// A chain at a state, over blocks of so many rows.
pub(crate) fn chain<T>(program: &Vb, data: &Dataset<'_>, block_rows: usize, state: State, then: impl FnOnce(&mut Typed<'_, Vb>) -> T) -> T {
    let blocks = run::blocks(data, block_rows);
    let shape = run::Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows };
    then(&mut Typed::at(program, &blocks, shape, 0, 0, state).unwrap())
}

/// The end of the ascent of a structure, from a start or from a random one.
pub(crate) fn fitted(program: &Vb, structure: &Structure, data: &Dataset<'_>, start: Option<Vec<f64>>) -> State {
    let mut job = job(structure, 500);
    if let Some(start) = start {
        (job.start, job.search) = (Start::At(start), 0);
    }
    chain(program, data, 7, State::new(program, job), |chain| {
        chain.advance(false).unwrap();
        while !chain.global.done() {
            chain.advance(false).unwrap();
        }
        chain.global.clone()
    })
}

pub(crate) fn classes(x: &[f64], codes: &[u32], count: usize) -> Dataset<'static> {
    let names = (0..count).map(|c| c.to_string()).collect();
    let columns = x.len() / codes.len();
    Dataset::new(Matrix::dense(codes.len(), columns, x.to_vec())).with_target(Target::Classes(Classes { codes: codes.to_vec(), names }))
}

pub(crate) fn fixed(bound: Bound, covariance: Option<Covariance>, prior_precision: f64) -> Settings {
    Settings { bound, covariance: CovarianceChoice(covariance), precision: Precision::Fixed, prior_precision, ..Settings::default() }
}

fn normals(count: usize, salt: u64) -> Vec<f64> {
    let mut rng = Stream::new(salt, 0, Purpose::Check).rng();
    (0..count).map(|_| StandardNormal.sample(&mut rng)).collect()
}

/// All orders of 0..n.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1);
    (0..n).flat_map(|at| shorter.iter().map(move |o| [&o[..at], &[n - 1], &o[at..]].concat())).collect()
}

#[test]
fn permanents_are_sums_over_orders() {
    for (k, scale) in [(1, 1.0), (2, 1.0), (3, 30.0), (4, 1.0), (5, 900.0), (6, 3.0)] {
        let a: Vec<f64> = normals(k * k, k as u64).iter().map(|z| z * scale - 50.0).collect();
        let direct: Vec<f64> = orders(k).iter().map(|o| o.iter().enumerate().map(|(i, j)| a[i * k + j]).sum()).collect();
        let (found, expected) = (ln_permanent(k, &a), log_sum_exp(&direct));
        assert!((found - expected).abs() < 1e-11 * expected.abs(), "{k}: {found} {expected}");
    }
    // of ones
    assert!((ln_permanent(12, &[0.0; 144]) - 479_001_600f64.ln()).abs() < 1e-12);
}

/// A node with means and precisions of no special form.
fn wild(layout: &NodeLayout, dim: usize, salt: u64) -> Node {
    let scattered = normals(layout.units * dim + 40 * (dim + layout.units), salt);
    let (mean, mut rest) = scattered.split_at(layout.units * dim);
    let mut node = Node::new(layout, dim, mean.iter().map(|m| 0.7 * m).collect(), 0.6, 1.0);
    let len = node.covariance.matrix_len(dim);
    for _ in 0..3 {
        let (k, x) = (&rest[..layout.units], &rest[layout.units..layout.units + dim]);
        let mut add = |at: usize, factor: f64| {
            let block = &mut node.precision[at * len..(at + 1) * len];
            match node.covariance {
                Covariance::Blocks(width) => {
                    for (first, columns, at) in crate::data::design::runs(dim, width) {
                        for i in 0..columns {
                            for j in 0..=i {
                                block[at + packed_len(i) + j] += factor * x[first + i] * x[first + j];
                            }
                        }
                    }
                }
                // the leading columns stand for the projected ones
                Covariance::LowRank(rank) => {
                    for i in 0..rank {
                        for j in 0..=i {
                            block[packed_len(i) + j] += factor * x[i] * x[j];
                        }
                    }
                    block[len - 1] += factor * dot(x, x);
                }
                _ => {
                    for i in 0..dim {
                        for j in 0..=i {
                            block[packed_len(i) + j] += factor * x[i] * x[j];
                        }
                    }
                }
            }
        };
        match node.covariance {
            Covariance::Joint => {
                for c in 0..layout.units {
                    (0..=c).for_each(|d| add(packed_len(c) + d, k[c] * k[d]));
                }
            }
            Covariance::Shared => add(0, 1.0),
            _ => (0..layout.units).for_each(|c| add(c, k[c] * k[c])),
        }
        rest = &rest[layout.units + dim..];
    }
    node
}

/// The first columns of a rotation, one a row.
fn directions(rank: usize, dim: usize) -> Vec<f64> {
    let mut q: Vec<Vec<f64>> = normals(rank * dim, 99).chunks_exact(dim).map(<[f64]>::to_vec).collect();
    for i in 0..rank {
        for j in 0..i {
            let along = dot(&q[i], &q[j]);
            let other = q[j].clone();
            q[i].iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
        }
        let length = dot(&q[i], &q[i]).sqrt();
        q[i].iter_mut().for_each(|a| *a /= length);
    }
    q.concat()
}

fn layout_of(structure: &Structure, outcome: Emission, binary: Coding, bound: Bound, covariance: Covariance, dim: usize) -> (Tree, Layout) {
    let shape = Shape {
        bound,
        covariance: Some(covariance),
        precision: Precision::Fixed,
        gamma: (1.0, 1.0),
        fixed: 1.0,
        fixed_gates: None,
        bias: None,
        joint_up_to: 512,
    };
    let tree = structure.tree(outcome, binary);
    let layout = Layout::new(&tree, &shape, outcome, dim);
    (tree, layout)
}

/// The covariance of all weights that a form of P stands for, by its definition.
fn dense(node: &Node, basis: &[f64]) -> Vec<f64> {
    let (dim, all, len) = (node.dim, node.units * node.dim, node.covariance.matrix_len(node.dim));
    let inverse = |n: usize, at: &dyn Fn(usize, usize) -> f64| {
        let full: Vec<f64> = (0..n * n).map(|k| at((k / n).max(k % n), (k / n).min(k % n))).collect();
        Cholesky::new(n, &full).unwrap().inverse()
    };
    if node.covariance == Covariance::Joint {
        return inverse(all, &|i, j| {
            let (c, d, i, j) = (i / dim, j / dim, i % dim, j % dim);
            node.precision[(packed_len(c) + d) * len + packed_len(i.max(j)) + i.min(j)]
        });
    }
    let mut out = vec![0.0; all * all];
    for c in 0..node.units {
        let p = if node.covariance == Covariance::Shared { &node.precision[..] } else { &node.precision[c * len..(c + 1) * len] };
        let own = match node.covariance {
            Covariance::Blocks(width) => {
                let mut own = vec![0.0; dim * dim];
                for (first, n, at) in crate::data::design::runs(dim, width) {
                    let part = inverse(n, &|i, j| p[at + packed_len(i) + j]);
                    (0..n * n).for_each(|k| own[(first + k / n) * dim + first + k % n] = part[k]);
                }
                own
            }
            Covariance::LowRank(rank) => {
                let along = inverse(rank, &|i, j| p[packed_len(i) + j]);
                let left = p[len - 1] - (0..rank).map(|i| p[packed_len(i) + i]).sum::<f64>();
                let s = if rank < dim { (dim - rank) as f64 / left } else { 0.0 };
                let at = |i: usize, j: usize| {
                    let turned = (0..rank * rank).map(|k| {
                        let (a, b) = (k / rank, k % rank);
                        basis[a * dim + i] * basis[b * dim + j] * (along[k] - if a == b { s } else { 0.0 })
                    });
                    turned.sum::<f64>() + if i == j { s } else { 0.0 }
                };
                (0..dim * dim).map(|k| at(k / dim, k % dim)).collect()
            }
            _ => inverse(dim, &|i, j| p[packed_len(i) + j]),
        };
        (0..dim * dim).for_each(|k| out[(c * dim + k / dim) * all + c * dim + k % dim] = own[k]);
    }
    out
}

/// Draws and densities of every form of covariance, against the dense Gaussian it stands for. A sample covariance has the standard error
/// √((Σ_ii Σ_jj + Σ_ij²)/n); 5 of them at some 500 entries are a false alarm in three thousand seeds.
#[test]
fn draws_and_densities_are_those_of_the_covariance() {
    let (dim, draws) = (4, 4000);
    let forms = [
        (Covariance::Joint, Bound::Tilted),
        (Covariance::Child, Bound::Tilted),
        (Covariance::Shared, Bound::Bohning),
        (Covariance::Blocks(1), Bound::Tilted),
        (Covariance::Blocks(3), Bound::Tilted),
        (Covariance::LowRank(2), Bound::Tilted),
        (Covariance::LowRank(4), Bound::Tilted),
    ];
    for (covariance, bound) in forms {
        let (_, layout) = layout_of(&Structure::Subclasses(vec![1, 2]), Emission::Classes(2), Coding::Full, bound, covariance, dim);
        let node = wild(&layout.nodes[0], dim, 5);
        assert_eq!(node.covariance, covariance);
        let basis = if let Covariance::LowRank(rank) = covariance { directions(rank, dim) } else { Vec::new() };
        let (found, sigma, all) = (node.factors().unwrap(), dense(&node, &basis), node.units * dim);
        let gaussian = Cholesky::new(all, &sigma).unwrap();
        let mut rng = Stream::new(3, 0, Purpose::Check).rng();
        let mut square = vec![0.0; all * all];
        for draw in 0..draws {
            let w = node.draw(&found, &basis, &mut rng);
            let away: Vec<f64> = w.iter().zip(&node.mean).map(|(w, m)| w - m).collect();
            (0..all * all).for_each(|k| square[k] += away[k / all] * away[k % all] / draws as f64);
            if draw < 20 {
                let mut solved = away.clone();
                gaussian.solve(&mut solved);
                let expected = -0.5 * (dot(&solved, &away) + gaussian.ln_det() + all as f64 * (2.0 * PI).ln());
                let density = node.ln_density(&found, &basis, &w);
                assert!((density - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{covariance:?}: {density} {expected}");
            }
        }
        for k in 0..all * all {
            let (i, j) = (k / all, k % all);
            let error = ((sigma[i * all + i] * sigma[j * all + j] + sigma[k] * sigma[k]) / draws as f64).sqrt();
            assert!((square[k] - sigma[k]).abs() < 5.0 * error, "{covariance:?} ({i}, {j}): {} {}", square[k], sigma[k]);
        }
        let apart = dense(&node.marginals().unwrap(), &basis);
        for k in 0..all * all {
            let own = k / all / dim == k % all / dim;
            assert!((apart[k] - if own { sigma[k] } else { 0.0 }).abs() < 1e-10, "{covariance:?}");
        }
    }
}

/// A relabelling: for each node, whose weights it gets and in which order of the children.
type Relabelling = Vec<(usize, usize, Vec<usize>)>;

/// All relabellings that put the subtree of b in the place of that of a, found by trying every order of the children.
fn relabellings(tree: &Tree, a: usize, b: usize) -> Vec<Relabelling> {
    let (own, others) = (&tree.nodes[a].children, &tree.nodes[b].children);
    let mut out = Vec::new();
    for order in orders(own.len()) {
        if own.iter().zip(&order).any(|(c, to)| tree.canonical(*c) != tree.canonical(others[*to])) {
            continue;
        }
        let mut so_far = vec![vec![(a, b, order.clone())]];
        for (c, to) in own.iter().zip(&order) {
            if let (Child::Node(c), Child::Node(to)) = (*c, others[*to]) {
                let below = relabellings(tree, c, to);
                so_far = so_far.iter().flat_map(|s| below.iter().map(move |b| [&s[..], b].concat())).collect();
            }
        }
        out.extend(so_far);
    }
    out
}

/// T(root, root) against the sum of q(πW) over all relabellings π, each carried out on the weights of the children.
#[test]
fn the_recursion_is_the_sum_over_all_relabellings() {
    let gate = |children: Vec<Gates>| Gates::Gate { coding: None, children };
    let logistic = |a: Gates, b: Gates| Gates::Gate { coding: Some(Coding::Logistic), children: vec![a, b] };
    let expert = || Gates::Expert;
    let sub = |sizes: &[usize]| Gates::Subclasses(sizes.to_vec());
    let hme = || gate(vec![gate(vec![expert(), expert()]), gate(vec![expert(), expert()])]);
    let trees = [
        (Structure::Subclasses(vec![2, 3]), 12.0),
        (Structure::Experts(3), 6.0),
        (Structure::Gates(hme()), 8.0),
        (Structure::Gates(gate(vec![gate(vec![sub(&[2, 1]); 3]); 2])), 4608.0),
        // alike although written in another order
        (Structure::Gates(logistic(logistic(expert(), sub(&[2, 1])), logistic(sub(&[2, 1]), expert()))), 8.0),
        (Structure::Gates(gate(vec![gate(vec![expert(), sub(&[2, 2]), expert()]), gate(vec![sub(&[2, 2]), expert(), expert()])])), 128.0),
    ];
    let forms = [
        (Covariance::Child, Bound::Tilted, Coding::Full),
        (Covariance::Joint, Bound::Tilted, Coding::Full),
        (Covariance::Joint, Bound::Tilted, Coding::Logistic),
        (Covariance::Blocks(1), Bound::Tilted, Coding::Logistic),
        (Covariance::LowRank(1), Bound::Tilted, Coding::Full),
        (Covariance::Shared, Bound::Bohning, Coding::Full),
    ];
    for (structure, symmetries) in &trees {
        for (covariance, bound, binary) in forms {
            let (tree, layout) = layout_of(structure, Emission::Classes(2), binary, bound, covariance, 2);
            let all = relabellings(&tree, 0, 0);
            assert!((all.len() as f64 - symmetries).abs() < 0.5 && (tree.ln_symmetries() - symmetries.ln()).abs() < 1e-9);
            let basis = directions(1, 2);
            let nodes: Vec<Node> = layout.nodes.iter().enumerate().map(|(v, l)| wild(l, 2, 7 + v as u64)).collect();
            let found: Vec<NodeFactors> = nodes.iter().map(|n| n.factors().unwrap()).collect();
            let parts: Vec<SeenNode> =
                nodes.iter().zip(&layout.nodes).enumerate().map(|(v, (n, l))| SeenNode::new(n, l, tree.alike(v)).unwrap()).collect();
            let mut rng = Stream::new(11, 0, Purpose::Check).rng();
            let draws: Vec<Vec<f64>> = nodes.iter().zip(&found).map(|(n, f)| n.draw(f, &basis, &mut rng)).collect();
            let density = |v: usize, w: &[f64]| nodes[v].ln_density(&found[v], &basis, w);
            let own: f64 = (0..nodes.len()).map(|v| density(v, &draws[v])).sum();
            let terms: Vec<f64> = all
                .iter()
                .map(|relabelling| {
                    let moved = relabelling.iter().map(|(a, b, order)| {
                        let from = layout.nodes[*b].child_weights(&draws[*b], 2);
                        let to: Vec<f64> = order.iter().flat_map(|c| from[2 * c..2 * c + 2].to_vec()).collect();
                        density(*a, &layout.nodes[*a].unit_weights(&to, 2))
                    });
                    moved.sum::<f64>()
                })
                .collect();
            let weights = draws.iter().zip(&layout.nodes).map(|(w, l)| seen(l, w.clone(), 2)).collect();
            let copies = Copies { parts: &parts, weights, basis: &basis };
            let found = (0..nodes.len()).map(|v| copies.original(v)).sum::<f64>() - copies.all(0, 0);
            let expected = own - log_sum_exp(&terms);
            assert!(
                (found - expected).abs() < 1e-9 * (1.0 + expected.abs()),
                "{} {covariance:?} {binary:?}: {found} {expected}",
                structure.describe()
            );
        }
    }
}

/// Values from the derivation, and the integral itself where it is two-dimensional. The standard error of the mean over 40 streams is
/// taken from their spread; 4 of them are a false alarm in 10 000.
#[test]
fn subclasses_apart_count_and_subclasses_together_do_not() {
    for (count, alpha, bound, value) in [(30, 0.1, -20.2920, 2f64.ln()), (5, 1.0, -4.1708, 0.6766)] {
        let x: Vec<f64> = (0..count).map(|i| -3.0 + 6.0 * i as f64 / (count - 1) as f64).collect();
        let codes: Vec<u32> = x.iter().map(|x| u32::from(x.abs() > 1.0)).collect();
        let data = classes(&x, &codes, 2);
        let program = program_of(&fixed(Bound::Tilted, Some(Covariance::Child), alpha), &data);
        let state = fitted(&program, &Structure::Subclasses(vec![1, 2]), &data, Some(vec![0.0, 2.0, -2.0]));
        let layout = program.layout(&state.tree);
        assert!((state.bound - bound).abs() < 1e-4, "{}", state.bound);
        let nodes = &state.q.as_ref().unwrap().nodes;
        let moments = nodes[0].moments(&layout.nodes[0], &[], 1.0).unwrap();
        let ((m, n), (v, u)) = ((nodes[0].mean[1], nodes[0].mean[2]), (moments.variance[1], moments.variance[2]));
        let ln = |w: f64, m: f64, v: f64| -0.5 * ((w - m).powi(2) / v + (2.0 * PI * v).ln());
        let (half, mut integral) = (60, 0.0);
        for i in -half..=half {
            for j in -half..=half {
                let (a, b) = (m + v.sqrt() * 0.12 * f64::from(i), n + u.sqrt() * 0.12 * f64::from(j));
                let (own, other) = (ln(a, m, v) + ln(b, n, u), ln(b, m, v) + ln(a, n, u));
                integral += own.exp() * (2f64.ln() + own - log_sum_exp(&[own, other])) * (v * u).sqrt() * 0.12 * 0.12;
            }
        }
        // the value of the derivation was sampled
        assert!((integral - value).abs() < 0.005, "{integral} {value}");
        let values: Vec<f64> = (0..40).map(|key| ln_effective(&layout, &state.tree, nodes, &[], key).unwrap().value).collect();
        let mean = values.iter().sum::<f64>() / 40.0;
        let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 39.0 / 40.0).sqrt();
        assert!((mean - integral).abs() < 4.0 * error + 1e-4, "{mean} ± {error}, {integral}");
        assert!(values.iter().all(|v| (0.0..=2f64.ln()).contains(v)));
    }
    // labels without any pattern: both subclasses stay the same
    let x: Vec<f64> = (0..60).map(|i| -3.0 + 6.0 * f64::from(i) / 59.0).collect();
    let codes: Vec<u32> = normals(60, 4).iter().map(|z| u32::from(*z > 0.0)).collect();
    let data = classes(&x, &codes, 2);
    let program = program_of(&fixed(Bound::Tilted, Some(Covariance::Child), 1.0), &data);
    let state = fitted(&program, &Structure::Subclasses(vec![1, 2]), &data, Some(vec![0.1, 0.3, -0.2]));
    let found = ln_effective(&program.layout(&state.tree), &state.tree, &state.q.unwrap().nodes, &[], 0).unwrap();
    assert!(found.value < 1e-3 && !found.is_low, "{found:?}");
}

/// Superfluous experts: L falls with each of them, and copies that coincide must not make up for it.
#[test]
fn copies_of_superfluous_experts_coincide() {
    let data = classes(&[1.0, 2.0, -0.5, -1.5, 0.8], &[0, 0, 1, 1, 1], 2);
    for (experts, bound) in [(2, -3.555), (3, -3.622), (4, -3.658)] {
        let program = program_of(&fixed(Bound::Tilted, Some(Covariance::Joint), 20.0), &data);
        let state = fitted(&program, &Structure::Experts(experts), &data, None);
        assert!((state.bound - bound).abs() < 6e-4, "{experts}: {}", state.bound);
        let found = ln_effective(&program.layout(&state.tree), &state.tree, &state.q.unwrap().nodes, &[], 0).unwrap();
        assert!(found.value < 1e-3 && !found.is_low, "{experts}: {found:?}");
    }
}

#[test]
fn limits_and_what_is_beyond_them() {
    let of = |sizes: &[usize], covariance: Covariance| {
        let (tree, layout) =
            layout_of(&Structure::Subclasses(sizes.to_vec()), Emission::Classes(2), Coding::Full, Bound::Tilted, covariance, 2);
        let nodes = vec![wild(&layout.nodes[0], 2, 1)];
        (ln_effective(&layout, &tree, &nodes, &[], 5).unwrap(), tree, layout, nodes)
    };
    assert_eq!(of(&[1, 1], Covariance::Joint).0, Effective { value: 0.0, is_low: false });
    assert_eq!(of(&[1, 13], Covariance::Child).0, Effective { value: 0.0, is_low: true });
    let wide = of(&[1, 12], Covariance::Child).0;
    assert!(wide.value > 1.0 && wide.value < 479_001_600f64.ln() && !wide.is_low);
    // seven children that correlate: marginals, close to the 5040 terms and below them
    let (low, tree, layout, nodes) = of(&[1, 7], Covariance::Joint);
    assert!(low.is_low);
    let found = nodes[0].factors().unwrap();
    let together =
        SeenNode { children: layout.nodes[0].children.clone(), groups: tree.alike(0), density: Density::Together(nodes[0].clone()) };
    let mut sum = 0.0;
    for draw in 0..DRAWS {
        let mut rng = Stream::new(5, 0, Purpose::Score).item(draw).rng();
        let weights = vec![nodes[0].draw(&found, &[], &mut rng)];
        let copies = Copies { parts: std::slice::from_ref(&together), weights, basis: &[] };
        sum += copies.original(0) - copies.all(0, 0);
    }
    let exact = tree.ln_symmetries() + sum / DRAWS as f64;
    assert!(low.value <= exact && low.value > exact - 0.7, "{} {exact}", low.value);
}
