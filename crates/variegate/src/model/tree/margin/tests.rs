//! Known charges and calibrations, exact expectations of scores, one-step invariance of each update.

use super::*;
use crate::check::invariance::{InvarianceSettings, one_step_invariance};
use crate::dist::quadrature::integrate;
use crate::dist::testing::{TestRng, rng};
use crate::infer::finite_difference::check_gradient;
use crate::run::open01;

fn max(separation: f64, margin: f64) -> Margin {
    Margin { separation, margin, spread: 1.0, penalty: Penalty::Max }
}

/// A tree with features, and what the rows of it are charged for.
struct Tree {
    arena: Arena,
    leaves: Vec<u32>,
    phi: Vec<f64>,
    width: usize,
}

impl Tree {
    fn new(depth: usize, labels: &[usize], phi: &[f64]) -> Self {
        let (arena, leaves) = Arena::from_labels(depth, labels);
        Self { width: phi.len() / leaves.len(), arena, leaves, phi: phi.to_vec() }
    }

    fn violations(&self, margin: &Margin, eta: &[f64]) -> Vec<f64> {
        let path = |leaf: u32| (1..=self.arena.depth()).map(move |l| self.arena.ancestor(leaf, l));
        let phi = Phi::new(&self.phi, self.width);
        self.leaves.iter().enumerate().map(|(n, &leaf)| margin.violation(&self.arena, eta, path(leaf), phi.row(n))).collect()
    }

    fn ln_reg(&self, margin: &Margin, eta: &[f64]) -> f64 {
        -2.0 * margin.separation * self.violations(margin, eta).iter().sum::<f64>()
    }

    fn prior(&self, margin: &Margin, rng: &mut TestRng) -> Vec<f64> {
        let draw = |_| {
            let z: f64 = StandardNormal.sample(rng);
            margin.spread * z
        };
        (0..self.arena.slots() * self.width).map(draw).collect()
    }

    fn step(&self, margin: &Margin, update: EtaUpdate, eta: &mut [f64], rng: &mut TestRng) -> Result<()> {
        margin.step(update, &self.arena, &self.leaves, Phi::new(&self.phi, self.width), eta, rng)
    }
}

const THREE: [f64; 3] = [-1.3, 0.4, 1.6];

/// E Reg of the trees of three rows: all by draws (seven comparisons, false alarm 5e-5 at z = 4.5), those of one split by an integral.
#[test]
fn known_charges_of_three_rows() {
    let margin = max(0.3, 1.0);
    let mut rng = rng(61);
    let mut integrals = 0;
    for (labels, want) in [
        ([0, 0, 1, 0, 1, 0], 0.336215655),
        ([0, 0, 0, 1, 0, 1], 0.336215655), // the same split one level below
        ([0, 0, 0, 0, 1, 0], 0.198389202),
        ([0, 0, 1, 0, 0, 0], 0.117810064),
        ([0, 0, 1, 0, 2, 0], 0.113402),
        ([0, 0, 1, 0, 1, 1], 0.129955),
        ([0, 0, 0, 1, 1, 0], 0.122846),
        ([0, 0, 1, 0, 0, 1], 0.070139),
    ] {
        let tree = Tree::new(2, &labels, &THREE);
        let values: Vec<f64> = (0..40_000).map(|_| tree.ln_reg(&margin, &tree.prior(&margin, &mut rng)).exp()).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n / n).sqrt();
        assert!(((mean - want) / error).abs() < 4.5, "{labels:?}: {mean} +- {error}, not {want}");
        let split: Vec<u32> = tree.arena.nodes().skip(1).filter(|&z| tree.arena.n_children(tree.arena.parent(z)) > 1).collect();
        if split.len() == 2 {
            // only the difference of the two scores matters: N(0, 2)
            let density = |d: f64| {
                let mut eta = vec![0.0; tree.arena.slots()];
                eta[split[0] as usize] = d;
                tree.ln_reg(&margin, &eta).exp() * (-0.25 * d * d).exp() / (2.0 * std::f64::consts::PI.sqrt())
            };
            let exact: f64 = (-40..40).map(|i| integrate(&density, 0.25 * f64::from(i), 0.25 * f64::from(i + 1))).sum();
            assert!((exact - want).abs() < 2e-9, "{labels:?}: {exact}");
            integrals += 1;
        }
    }
    assert_eq!(integrals, 4);
}

#[test]
fn known_calibration() {
    let margin = max(0.3, 1.0);
    let norms: Vec<f64> = THREE.iter().map(|v| v.abs()).collect();
    let calibration = Calibration::new(&margin, &norms).unwrap();
    let want = [[0.583702, 0.451566, 0.389170], [0.575234, 0.501353, 0.469797], [0.577423, 0.438169, 0.371771]];
    for (n, want) in want.iter().enumerate() {
        for (siblings, want) in [[1, 0], [2, 0], [1, 1]].iter().zip(want) {
            let r = calibration.ln_r(n, siblings).exp();
            assert!((r - want).abs() < 1e-6, "row {n}, {siblings:?}: {r}, not {want}");
            assert_eq!(calibration.ln_r_new(norms[n], siblings), calibration.ln_r(n, siblings));
        }
        assert_eq!(calibration.ln_r(n, &[0, 0]), 0.0);
        // the order of levels says nothing, more than 30 siblings count as 30
        assert!((calibration.ln_r(n, &[0, 2]) - calibration.ln_r(n, &[2, 0])).abs() < 1e-14);
        assert_eq!(calibration.ln_r(n, &[50, 0]), calibration.ln_r(n, &[30, 0]));
    }
}

/// r is the mean charge of scores that are independent of each other, also with many norms (the nearest of 64) and none.
#[test]
fn calibration_is_the_charge_of_chance() {
    let margin = Margin { separation: 0.4, margin: 0.7, spread: 1.3, penalty: Penalty::Max };
    let norms: Vec<f64> = (0..200).map(|i| if i == 0 { 0.0 } else { 0.05 * f64::from(i) }).collect();
    let calibration = Calibration::new(&margin, &norms).unwrap();
    assert_eq!(calibration.norms.len(), 64);
    assert_eq!(calibration.ln_r(0, &[1, 0]), -2.0 * 0.4 * 0.7);
    assert_eq!(calibration.ln_r(0, &[0, 0]), 0.0);
    let mut rng = rng(62);
    for n in [3, 60, 150] {
        let norm = calibration.norms[calibration.of[n].unwrap()];
        assert!((norm / norms[n]).ln().abs() < 0.06);
        let values: Vec<f64> = (0..20_000)
            .map(|_| {
                let mut score = || {
                    let z: f64 = StandardNormal.sample(&mut rng);
                    margin.spread * norm * z
                };
                let mut xi = 0.0f64;
                for siblings in [3, 1] {
                    let own = score();
                    (0..siblings).for_each(|_| xi = xi.max(margin.margin - own + score()));
                }
                (-2.0 * margin.separation * xi).exp()
            })
            .collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>()).sqrt() / 20_000.0;
        let r = calibration.ln_r(n, &[3, 1]).exp();
        assert!(((mean - r) / error).abs() < 4.5, "norm {norm}: {r}, drawn {mean} +- {error}");
    }
}

const SIX: [f64; 6] = [-2.0, -1.5, 0.3, 0.6, 1.8, 2.2];

/// Means of (eta of three nodes, their squares, sum xi) along a chain, with errors from 40 batches.
fn chain(separation: f64, update: EtaUpdate, seed: u64) -> Vec<(f64, f64)> {
    const BATCHES: usize = 40;
    const EACH: usize = 500;
    let tree = Tree::new(1, &[0, 0, 1, 1, 2, 2], &SIX);
    let margin = max(separation, 1.0);
    let mut rng = rng(seed);
    let mut eta = vec![0.0; tree.arena.slots()];
    (0..100).for_each(|_| tree.step(&margin, update, &mut eta, &mut rng).unwrap());
    let nodes: Vec<usize> = (0..3).map(|i| tree.leaves[2 * i] as usize).collect();
    let mut batches = vec![vec![0.0; 7]; BATCHES];
    for batch in &mut batches {
        for _ in 0..EACH {
            tree.step(&margin, update, &mut eta, &mut rng).unwrap();
            for (i, &z) in nodes.iter().enumerate() {
                batch[i] += eta[z] / EACH as f64;
                batch[3 + i] += eta[z] * eta[z] / EACH as f64;
            }
            batch[6] += tree.violations(&margin, &eta).iter().sum::<f64>() / EACH as f64;
        }
    }
    (0..7)
        .map(|i| {
            let mean = batches.iter().map(|b| b[i]).sum::<f64>() / BATCHES as f64;
            let variance = batches.iter().map(|b| (b[i] - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
            (mean, (variance / BATCHES as f64).sqrt())
        })
        .collect()
}

/// Three groups of rows on a line; 42 comparisons, false alarm about 3e-3 at t = 4.5 with 39 degrees of freedom.
#[test]
fn known_expectations_of_scores() {
    let known = [
        (0.1, [-0.554724, 0.079248, 0.475476, 1.022111, 0.691712, 0.927070, 6.186366]),
        (1.0, [-1.008706, 0.166502, 0.842204, 1.533674, 0.424721, 1.139339, 2.927693]),
    ];
    for (separation, want) in known {
        for update in [EtaUpdate::Ess, EtaUpdate::Slack] {
            for ((mean, error), want) in chain(separation, update, 71).into_iter().zip(want) {
                assert!(((mean - want) / error).abs() < 4.5, "C = {separation}, {update:?}: {mean} +- {error}, not {want}");
            }
        }
    }
}

/// The paper's update holds the largest violation of a row fixed, and with three siblings is off by as much as is known.
#[test]
fn the_update_of_the_paper_is_off_by_what_is_known() {
    let (mean, error) = chain(0.1, EtaUpdate::Paper, 72)[6];
    assert!((mean - 7.35).abs() < 0.005 + 4.5 * error, "{mean} +- {error}");
}

/// Two groups below three nodes, two features, a row alone.
fn five_rows() -> Tree {
    Tree::new(2, &[0, 0, 0, 1, 1, 0, 1, 1, 2, 0], &[1.2, -0.5, 0.3, 0.8, -0.7, 0.4, -1.1, -0.9, 0.6, 0.0])
}

fn invariant(tree: &Tree, margin: Margin, update: EtaUpdate, draws: u64) {
    let names = ["xi", "xi of row 0", "eta phi of row 1", "its square", "row 4", "between", "below"];
    let settings = InvarianceSettings { draws, false_alarm_rate: 1e-4 };
    let score = |eta: &[f64], node: u32, n: usize| {
        crate::linalg::dot(&eta[node as usize * tree.width..][..tree.width], Phi::new(&tree.phi, tree.width).row(n))
    };
    let report = one_step_invariance(
        &format!("{update:?}, {:?}", margin.penalty),
        &settings,
        &names,
        |eta: &Vec<f64>, out: &mut Vec<f64>| {
            let xi = tree.violations(&margin, eta);
            let (one, four) = (score(eta, tree.leaves[1], 1), score(eta, tree.arena.ancestor(tree.leaves[4], 1), 4));
            let between = score(eta, tree.arena.ancestor(tree.leaves[0], 1), 0) * score(eta, tree.arena.ancestor(tree.leaves[2], 1), 2);
            let below = score(eta, tree.leaves[0], 0) * score(eta, tree.leaves[1], 0);
            out.extend([xi.iter().sum(), xi[0], one, one * one, four, between, below]);
        },
        &mut rng(63),
        |rng| -> Result<Vec<f64>> {
            loop {
                let eta = tree.prior(&margin, rng);
                if open01(rng).ln() < tree.ln_reg(&margin, &eta) {
                    return Ok(eta);
                }
            }
        },
        |mut eta, rng| {
            tree.step(&margin, update, &mut eta, rng)?;
            Ok(eta)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

#[test]
fn long_one_step_of_each_update() {
    let tree = five_rows();
    for penalty in [Penalty::Max, Penalty::Sum] {
        let margin = Margin { separation: 0.25, margin: 0.7, spread: 1.2, penalty };
        for update in [EtaUpdate::Ess, EtaUpdate::Slack] {
            invariant(&tree, margin, update, 25_000);
        }
    }
    let margin = Margin { separation: 0.25, margin: 0.7, spread: 1.2, penalty: Penalty::Sum };
    invariant(&tree, margin, EtaUpdate::Paper, 25_000);
    // two siblings are one constraint a row: the update of the paper is exact
    let two = Tree::new(2, &[0, 0, 0, 0, 1, 0, 1, 0, 0, 0], &five_rows().phi);
    invariant(&two, Margin { penalty: Penalty::Max, ..margin }, EtaUpdate::Paper, 25_000);
}

/// `exp(-2C max(0, rho))` is the integral of the joint factor, and the scales have the moments of its shape.
#[test]
fn scales_of_the_mixture() {
    for rho in [1.3, -1.3] {
        let factor = |ln: f64| {
            let l = ln.exp();
            (-(l + 0.7 * rho).powi(2) / (2.0 * l)).exp() / (std::f64::consts::TAU * l).sqrt() * l
        };
        let total: f64 = (-80..40).map(|i| integrate(&factor, 0.25 * f64::from(i), 0.25 * f64::from(i + 1))).sum();
        assert!((total - if rho > 0.0 { 0.162025751 } else { 1.0 }).abs() < 1e-8, "{total}");
    }
    let mut rng = rng(64);
    let draws: Vec<f64> = (0..40_000).map(|_| paper::draw_inverse_scale(0.7 * 1.3, &mut rng).unwrap()).collect();
    crate::dist::testing::check_moments("1/lambda", &draws, 1.098901, 1.098901f64.powi(3));
    let scales: Vec<f64> = draws.iter().map(|v| 1.0 / v).collect();
    let mean = scales.iter().sum::<f64>() / 40_000.0;
    let error = (scales.iter().map(|v| (v - mean).powi(2)).sum::<f64>()).sqrt() / 40_000.0;
    assert!(((mean - 1.91) / error).abs() < 4.5, "{mean}");
    let centre: Vec<f64> = (0..40_000).map(|_| 1.0 / paper::draw_inverse_scale(0.0, &mut rng).unwrap()).collect();
    crate::dist::testing::check_moments("chi-squared", &centre, 1.0, 2.0);
}

/// The log charge falls along the features of the row in the losing sibling and rises in the row's own node, where it is charged at all.
#[test]
fn the_gradient_of_the_charge() {
    let tree = five_rows();
    let margin = max(0.4, 0.7);
    let mut rng = rng(65);
    for _ in 0..20 {
        let eta = tree.prior(&margin, &mut rng);
        let mut gradient = vec![0.0; eta.len()];
        let phi = Phi::new(&tree.phi, tree.width);
        for (n, &leaf) in tree.leaves.iter().enumerate() {
            let score = |z: u32| crate::linalg::dot(&eta[z as usize * 2..][..2], phi.row(n));
            let mut worst = (0.0, None);
            for level in 1..=2 {
                let v = tree.arena.ancestor(leaf, level);
                for u in tree.arena.children(tree.arena.parent(v)).filter(|&u| u != v) {
                    let rho = 0.7 - score(v) + score(u);
                    if rho > worst.0 {
                        worst = (rho, Some((v, u)));
                    }
                }
            }
            if let Some((v, u)) = worst.1 {
                for d in 0..2 {
                    gradient[v as usize * 2 + d] += 0.8 * phi.row(n)[d];
                    gradient[u as usize * 2 + d] -= 0.8 * phi.row(n)[d];
                }
            }
        }
        let worst = check_gradient(|eta| tree.ln_reg(&margin, eta), &eta, &gradient);
        assert!(worst.relative_error < 1e-6, "{worst:?}");
    }
}

#[test]
fn features_of_rows() {
    let gap = f64::NAN;
    let x = [1.0, 0.0, 3.0, 2.0, gap, 1.0, 5.0, gap];
    let features = Features::new(&x, &[0, 3], None, true);
    assert_eq!(features.width(), 5);
    let phi = features.of(&x);
    assert_eq!(&phi[..5], &[-2.0, 1.0 - 1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0, 1.0]);
    assert_eq!((phi[10], &phi[16..20]), (0.0, &[0.0, 0.0, 0.0, 1.0][..]));
    // a code that was not seen is as a missing cell
    let mut new = Vec::new();
    features.append(&[4.0, 7.0], &mut new);
    assert_eq!(new, [1.0, 0.0, 0.0, 0.0, 1.0]);
    let scaled = Features::new(&x, &[0, 3], Some(3.0), false).of(&x);
    let norm = (scaled.iter().map(|v| v * v).sum::<f64>() / 4.0).sqrt();
    assert!((norm - 3.0).abs() < 1e-12);
    assert_eq!(Features::new(&[2.0, 2.0], &[0], Some(3.0), false).of(&[2.0, 2.0]), [0.0, 0.0]);
}
