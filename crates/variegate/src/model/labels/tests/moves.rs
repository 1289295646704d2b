//! Splits, merges and prunes: the bound that they are judged by is the true one, and they find what is there.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{design_and_gram, shared_moments};
use super::small::*;
use crate::data::design::packed_len;
use crate::data::{Dataset, blocks};
use crate::model::labels::label_part::{LabelFactors, LabelPart};
use crate::model::labels::logit::{self, Logit};
use crate::model::labels::mixture::{Factors, Mixture, Scratch, Sums};
use crate::model::labels::moves::Pair;
use crate::model::labels::settings::MoveKind;
use crate::model::labels::sticks::Concentration;
use crate::model::labels::vb::{Standing, Vb};
use crate::run::{AnyProgram, Chain, Engine, Loopback, Memory, Merge, Pace, Plan, Program, Schedule, Typed, Unobserved, drive, drive_on};
use crate::special::{digamma, log_sum_exp, log1p_exp};

const BLOCK_ROWS: usize = 16;

/// The local step of all rows under q.
fn visit(mixture: &Mixture, q: &Factors, data: &Dataset<'_>) -> Sums {
    let (view, mut scratch, mut sums) = (mixture.view(q), Scratch::default(), Sums::default());
    blocks(data, BLOCK_ROWS).iter().for_each(|block| sums.merge(mixture.visit(&view, block, &mut scratch)));
    sums
}

/// Where an ascent ends.
fn climbed(program: &Vb, data: &Dataset<'_>, seed: u64) -> crate::model::labels::vb::State {
    let cut = blocks(data, BLOCK_ROWS);
    let mut chain = Typed::start(program, &cut, shape(data, BLOCK_ROWS), seed, 0).unwrap();
    while chain.global.standing == Standing::Rising {
        let last = chain.global.bound;
        let bound = chain.advance(false).unwrap().objective;
        assert!(bound >= last - 1e-9 * last.abs(), "{last} {bound}");
    }
    chain.global
}

/// From any start, with labels unknown, under every coupling and both bounds.
#[test]
fn no_sweep_with_moves_lowers_the_bound() {
    for kind in KINDS {
        let data = groups(kind, 70, 3.0, 5);
        for components in [1, 2, 9] {
            let end = climbed(&vb(kind, components, MoveKind::SplitMerge), &data, 7);
            assert_eq!(end.standing, Standing::Converged, "{kind}");
            let plain = climbed(&vb(kind, components, MoveKind::None), &data, 7);
            // the moves begin where the plain ascent has all but ended
            assert!(end.bound > plain.bound - 2e-6 * plain.bound.abs(), "{kind} {components}: {} {}", end.bound, plain.bound);
        }
    }
}

/// F and s² of a label in row x̃ under the coefficients `m`, `v` of which the weights and, where there is one, a pattern are taken.
fn moments(m: &[f64], v: &[f64], x: &[f64], pattern: Option<usize>) -> (f64, f64) {
    let design: Vec<(usize, f64)> = x.iter().copied().enumerate().chain(pattern.map(|k| (x.len() + k, 1.0))).collect();
    let covariance = |a: usize, b: usize| v[packed_len(a.max(b)) + a.min(b)];
    let mean = design.iter().map(|&(a, x)| m[a] * x).sum();
    (mean, design.iter().flat_map(|&(a, x)| design.iter().map(move |&(b, y)| x * y * covariance(a, b))).sum())
}

/// What the known labels of a row say of component k, number by number.
fn label_term(labels: &LabelPart, q: &LabelFactors, gram: &[f64], x: &[f64], y: &[i8], k: usize) -> f64 {
    let ln_cosh = |second: f64| (0.5 * second.sqrt()).cosh().ln() + 2.0f64.ln();
    let of = |p: &Logit, q: &logit::Factors, c: usize, pattern| {
        let width = p.dim + q.components;
        moments(&q.mean[c * width..], &q.covariance[c * packed_len(width)..], x, pattern)
    };
    let known = y.iter().enumerate().filter(|(_, y)| **y >= 0).map(|(c, &y)| (c, f64::from(y)));
    known
        .map(|(c, y)| match (labels, q) {
            (LabelPart::Logit(p), LabelFactors::Logit(q)) => {
                let (f, s2) = of(p, q, c, Some(k));
                if p.bound == crate::model::labels::bound::Bound::Bohning {
                    y * f - log1p_exp(f) - s2 / 8.0
                } else {
                    (y - 0.5) * f - ln_cosh(f * f + s2)
                }
            }
            (LabelPart::And(p), LabelFactors::And(q)) => {
                let (f, s2) = of(&p.weights, &q.weights, c, None);
                let (a, b) = (q.present[c * q.components + k], q.absent[c * q.components + k]);
                let (yes, no) = (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b));
                let (on, off) = (0.5 * f - ln_cosh(f * f + s2), -0.5 * f - ln_cosh(f * f + s2));
                if y > 0.0 { yes + on } else { log_sum_exp(&[no + off, no + on, yes + off]) }
            }
            (LabelPart::Cut(p), LabelFactors::Cut(q)) => {
                let (f, s2) = of(&p.classifier.prior, &q.weights, c, None);
                let (a, b) = (q.patterns.ones[k * LABELS + c], q.patterns.zeros[k * LABELS + c]);
                digamma(if y > 0.0 { a } else { b }) - digamma(a + b) + (y - 0.5) * f - ln_cosh(f * f + s2)
            }
            (LabelPart::And(p), LabelFactors::AndShared(q)) => {
                let q = &q.0;
                let (f, s2) = shared_moments(&p.weights, &q.weights, gram, x, c);
                let (a, b) = (q.present[c * q.components + k], q.absent[c * q.components + k]);
                let (yes, no) = (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b));
                let (on, off) = (f - log1p_exp(f) - s2 / 8.0, -log1p_exp(f) - s2 / 8.0);
                if y > 0.0 { yes + on } else { log_sum_exp(&[no + off, no + on, yes + off]) }
            }
            (LabelPart::Cut(p), LabelFactors::CutShared(q)) => {
                let q = &q.0;
                let (f, s2) = shared_moments(&p.classifier.prior, &q.weights, gram, x, c);
                let (a, b) = (q.patterns.ones[k * LABELS + c], q.patterns.zeros[k * LABELS + c]);
                digamma(if y > 0.0 { a } else { b }) - digamma(a + b) + y * f - log1p_exp(f) - s2 / 8.0
            }
            _ => unreachable!(),
        })
        .sum()
}

/// The bound from sums is the one that is found row by row, label by label, with unknown entries left out.
#[test]
fn the_bound_from_sums_is_that_of_rows_by_hand() {
    for kind in ["jj", "factorised", "bohning", "and", "cut", "shared and", "shared cut"] {
        let data = groups(kind, 40, 3.0, 6);
        let mixture = mixture(kind);
        let q = climbed(&Vb { max_sweeps: 4, ..vb(kind, 5, MoveKind::None) }, &data, 3).q;
        let sums = visit(&mixture, &q, &data);
        let weights = q.sticks.ln_weights();
        let mut by_hand = -mixture.divergence(&q);
        let (design, gram) = design_and_gram(&mixture, &data);
        for block in blocks(&data, 1) {
            let i = block.first_row as usize;
            let mut l = weights.clone();
            mixture.kernel.expected(&q.components).evaluate(block.x, &mut l, &mut Default::default());
            let x = &design[i * (COLUMNS + 1)..(i + 1) * (COLUMNS + 1)];
            l.iter_mut().enumerate().for_each(|(k, l)| *l += label_term(&mixture.labels, &q.labels, &gram, x, block.y.labels(), k));
            by_hand += log_sum_exp(&l);
        }
        let from_sums = mixture.bound(&q, &sums);
        assert!((from_sums - by_hand).abs() < 1e-9 * by_hand.abs(), "{kind}: {from_sums} {by_hand}");
    }
}

/// Four groups are four components, from one component and from twenty, and no ascent without moves is better.
#[test]
fn groups_are_found_from_any_start() {
    for (kind, seed) in [("jj", 1), ("and", 2), ("cut", 3), ("shared", 4), ("shared and", 5), ("shared cut", 6)] {
        let data = groups(kind, 240, 8.0, seed);
        let best = (0..3).map(|s| climbed(&vb(kind, 20, MoveKind::None), &data, s).bound).fold(f64::NEG_INFINITY, f64::max);
        for components in [1, 20] {
            let end = climbed(&vb(kind, components, MoveKind::SplitMerge), &data, 11);
            assert_eq!(end.q.components(), 4, "{kind} from {components}: {:?}", end.q.counts);
            assert!(end.bound > best - 2e-6 * best.abs(), "{kind} from {components}: {} {best}", end.bound);
        }
        // splits stop where they are told to
        let few = Vb { most_components: 3, ..vb(kind, 1, MoveKind::SplitMerge) };
        assert_eq!(climbed(&few, &data, 11).q.components(), 3);
    }
}

/// A component that is there twice, each with half of its rows, is one again after a merge, and all sums are what they were.
#[test]
fn a_merge_undoes_a_copy() {
    for kind in KINDS {
        let data = groups(kind, 80, 3.0, 8);
        let program = vb(kind, 4, MoveKind::None);
        let (mixture, state) = (&program.mixture, climbed(&program, &data, 2));
        let size = mixture.kernel.size();
        let mut sums = visit(mixture, &state.q, &data);
        let mut q = state.q.clone();
        mixture.update(&mut q, &mut sums).unwrap();
        let (bound, all) = (mixture.bound(&q, &sums), q.components());
        let mut twice = sums.clone();
        twice.permute(&(0..all).chain([1]).collect::<Vec<_>>(), size);
        twice.each_table(size, &mut |table, width| {
            [1, all].into_iter().for_each(|k| table[k * width..(k + 1) * width].iter_mut().for_each(|v| *v *= 0.5));
        });
        // −Σ (r/2) ln(r/2), for each half
        let half = 0.5 * sums.entropies.0[1] + 0.5 * std::f64::consts::LN_2 * sums.counts.0[1];
        [1, all].into_iter().for_each(|k| twice.entropies.0[k] = half);
        twice.entropy.0 += std::f64::consts::LN_2 * sums.counts.0[1];
        let mut copies = q.clone();
        copies.labels.permute(&(0..all).chain([1]).collect::<Vec<_>>());
        let order = mixture.update(&mut copies, &mut twice).unwrap();
        let place = |k: usize| order.iter().position(|&o| o == k).unwrap();
        let mut joined = mixture.bound(&copies, &twice);
        assert!(joined < bound, "{kind}: two copies are worse than one");
        let pair = Pair { one: place(1), other: place(all), entropy: sums.entropies.0[1], free: false };
        let far = Pair { one: place(0), other: place(all), entropy: 0.0, free: false };
        let merged = mixture.merge(&mut copies, &mut twice, &mut joined, &[far, pair]).unwrap();
        assert_eq!(merged.iter().map(|m| m.pair).collect::<Vec<_>>(), [1], "{kind}");
        assert!((joined - bound).abs() < 1e-3 * bound.abs() && copies.components() == all, "{kind}: {joined} {bound}");
        let close = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + a.abs()));
        assert!(close(&twice.counts.0, &sums.counts.0) && close(&twice.kernel.0, &sums.kernel.0), "{kind}");
        assert!(close(&twice.entropies.0, &sums.entropies.0) && close(&[twice.entropy.0], &[sums.entropy.0]), "{kind}");
        assert!(close(&twice.present.0, &sums.present.0) && close(&twice.known.0, &sums.known.0), "{kind}");
        let numbers = |sums: &Sums| {
            let mut all = Vec::new();
            sums.clone().each_table(size, &mut |table, _| all.extend_from_slice(table));
            all
        };
        assert!(close(&numbers(&twice), &numbers(&sums)), "{kind}");
        assert!(close(&[mixture.bound(&q, &twice)], &[bound]), "{kind}");
    }
}

/// A component that no row has costs ln E α − E ln α under an unchanged factor of α, in `logit` ½ Σ_c (ln E τ_bc − E ln τ_bc) more, and nothing
/// where α is given and labels are counted.
#[test]
fn an_empty_component_has_its_price() {
    for (kind, given) in [("jj", false), ("jj", true), ("cut", true), ("cut", false), ("and", true)] {
        let data = groups(kind, 40, 3.0, 9);
        let mut program = vb(kind, 3, MoveKind::None);
        if given {
            program.mixture.concentration = Concentration::Fixed(1.3);
        }
        let (mixture, state) = (&program.mixture, climbed(&program, &data, 2));
        let (mut q, all) = (state.q.clone(), state.q.components());
        let mut sums = visit(mixture, &q, &data);
        mixture.update(&mut q, &mut sums).unwrap();
        let mut wider = sums.clone();
        wider.permute(&(0..all).chain([0]).collect::<Vec<_>>(), mixture.kernel.size());
        wider.forget(all, mixture.kernel.size());
        let mut longer = q.clone();
        longer.sticks.first.push(1.0);
        longer.sticks.second.push(q.sticks.mean_alpha());
        longer.components.push(mixture.kernel.prior());
        longer.labels.permute(&(0..all).chain([0]).collect::<Vec<_>>());
        let mut price = if given { 0.0 } else { q.sticks.mean_alpha().ln() - q.sticks.mean_ln_alpha() };
        match (&mut longer.labels, &mixture.labels) {
            (LabelFactors::Logit(l), LabelPart::Logit(p)) => {
                let (width, last) = (p.dim + all + 1, p.dim + all);
                for c in 0..LABELS {
                    let tau = l.pattern_precision[c];
                    l.mean[c * width + last] = 0.0;
                    let row = c * packed_len(width) + packed_len(last);
                    l.covariance[row..row + last].fill(0.0);
                    l.covariance[row + last] = 1.0 / tau.mean();
                    l.ln_det[c] -= tau.mean().ln();
                    price += 0.5 * (tau.mean().ln() - tau.mean_ln());
                }
            }
            (LabelFactors::Cut(l), LabelPart::Cut(p)) => {
                let prior = p.patterns.start(1);
                l.patterns.ones[all * LABELS..].copy_from_slice(&prior.ones);
                l.patterns.zeros[all * LABELS..].copy_from_slice(&prior.zeros);
            }
            (LabelFactors::And(l), LabelPart::And(p)) => {
                for c in 0..LABELS {
                    l.present[c * (all + 1) + all] = p.pattern_prior.0;
                    l.absent[c * (all + 1) + all] = p.pattern_prior.1;
                }
            }
            _ => unreachable!(),
        }
        let found = mixture.bound(&q, &sums) - mixture.bound(&longer, &wider);
        assert!((found - price).abs() < 1e-9, "{kind} {given}: {found} {price}");
    }
}

const PACE: Pace = Pace { threads: 2, commit_every: Duration::from_secs(600), memory: None };

/// Checkpoints of a program: on threads, on workers that die, and stopped and resumed.
pub(super) fn same_bits<P: Program + Clone>(program: &P, data: &Dataset<'_>) {
    let plan = Plan { seed: 8, chains: 2, schedule: Schedule::Ascend { max_sweeps: 25 }, block_rows: BLOCK_ROWS };
    let mut here = Memory::default();
    drive(program, data, &plan, PACE, &mut here, &mut Unobserved).unwrap();
    let shape = shape(data, BLOCK_ROWS);
    for (cuts, death) in [(&[2][..], None), (&[1, 3], Some(23))] {
        let workers = Loopback::new(Arc::new(program.clone()), data, shape, cuts).unwrap();
        let workers = death.into_iter().fold(workers, Loopback::killing);
        let mut there = Memory::default();
        drive_on(Engine::Workers(&workers), shape, program, &plan, PACE, &mut there, &mut Unobserved).unwrap();
        for (here, there) in here.chains.iter().zip(&there.chains) {
            assert!(here.checkpoint == there.checkpoint, "{} {cuts:?} {death:?}", P::NAME);
        }
    }
    let cut = blocks(data, BLOCK_ROWS);
    let mut straight = program.open(Engine::from(&cut), shape, 5, 0, None).unwrap();
    (0..6).for_each(|_| drop(straight.advance(false).unwrap()));
    let saved = straight.save(true).unwrap();
    let mut resumed = program.open(Engine::from(&cut), shape, 5, 0, Some(&saved)).unwrap();
    for _ in 0..8 {
        assert_eq!(straight.advance(false).unwrap(), resumed.advance(false).unwrap());
    }
    assert!(straight.save(true).unwrap() == resumed.save(true).unwrap(), "{}", P::NAME);
}

#[test]
fn workers_and_resumed_runs_give_the_same_bits() {
    for kind in ["jj", "shared", "cut", "shared and", "shared cut"] {
        // from one component, so that splits fall among the sweeps
        let program = Vb { tol: 1e-4, ..vb(kind, 1, MoveKind::SplitMerge) };
        same_bits(&program, &groups(kind, 90, 6.0, 3));
    }
}
