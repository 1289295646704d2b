//! Batches that remember their sums: the sums are those of the rows, and no visit lowers the bound.

use super::fits::{fitted, map};
use super::moves::same_bits;
use super::small::*;
use crate::Error;
use crate::data::{Dataset, blocks};
use crate::model::family;
use crate::model::labels::label_part::LabelView;
use crate::model::labels::memoized::{Memoized, State, Watch, batches_that_fit, total};
use crate::model::labels::mixture::{Factors, Mixture, Scratch, Sums, View};
use crate::model::labels::settings::{MoveKind, Settings};
use crate::model::labels::vb::{Standing, Vb};
use crate::run::{Chain, Merge, Purpose, Stream, Typed};
use serde_json::json;

const BLOCK_ROWS: usize = 16;

fn memoized(kind: &str, components: usize, batches: usize, moves: MoveKind) -> Memoized {
    Memoized { vb: vb(kind, components, moves), batches }
}

/// An ascent whose laps are looked into.
struct Laps<'a> {
    program: &'a Memoized,
    data: &'a Dataset<'a>,
    chain: Typed<'a, Memoized>,
    lap: u64,
}

/// What an independent pass over the rows of a batch finds.
struct Batch {
    /// Responsibilities of its blocks.
    r: Vec<Vec<f64>>,
    view: View,
}

/// What is seen of a lap: each batch visited once more, and a bound that does not fall.
struct Looked<'a> {
    mixture: &'a Mixture,
    cut: &'a [crate::run::Block<'a>],
    seen: Vec<Option<Batch>>,
    last: f64,
}

impl Watch for Looked<'_> {
    fn visited(&mut self, b: usize, view: &View) {
        let mut scratch = Scratch::default();
        let r = self.cut.iter().skip(b).step_by(self.seen.len()).map(|block| {
            self.mixture.visit(view, block, &mut scratch);
            scratch.r.clone()
        });
        self.seen[b] = Some(Batch { r: r.collect(), view: view.clone() });
    }

    fn updated(&mut self, q: &Factors, all: &Sums) {
        let bound = self.mixture.bound(q, all);
        assert!(bound >= self.last - 1e-9 * self.last.abs(), "{} {bound}", self.last);
        self.last = bound;
    }
}

impl<'a> Laps<'a> {
    fn new(program: &'a Memoized, data: &'a Dataset<'a>, cut: &'a Vec<crate::run::Block<'a>>, seed: u64) -> Self {
        let chain = Typed::start(program, cut, shape(data, BLOCK_ROWS), seed, 0).unwrap();
        Self { program, data, chain, lap: 0 }
    }

    fn state(&mut self) -> &mut State {
        &mut self.chain.global
    }

    /// A lap; the bound after each visit must not be below that before. What the batches' rows said is given back.
    fn lap(&mut self) -> Vec<Batch> {
        self.lap += 1;
        let stream = Stream::new(4, 0, Purpose::Sweep).sweep(self.lap);
        let mut state = self.chain.global.clone();
        let cut = blocks(self.data, BLOCK_ROWS);
        let seen = (0..state.batches.len()).map(|_| None).collect();
        let mut looked = Looked { mixture: &self.program.vb.mixture, cut: &cut, seen, last: state.ascent.bound };
        self.program.lap(&mut state, self.chain.rows(), stream, &mut looked).unwrap();
        let Looked { seen, last, .. } = looked;
        assert!(state.ascent.bound >= last - 1e-9 * last.abs());
        self.chain.global = state;
        seen.into_iter().map(Option::unwrap).collect()
    }

    /// The sums of all batches are what q was made of, and give the bound.
    fn check_totals(&mut self) {
        let mixture = &self.program.vb.mixture;
        let state = &self.chain.global;
        let all = total(&state.batches);
        close("counts", &all.counts.0, &state.ascent.q.counts);
        close("present", &all.present.0, &state.ascent.q.present);
        close("bound", &[mixture.bound(&state.ascent.q, &all)], &[state.ascent.bound]);
        close("entropy", &[all.entropy.0], &[all.entropies.0.iter().sum()]);
        let rows: f64 = all.counts.0.iter().sum();
        close("rows", &[rows], &[self.data.rows() as f64]);
        assert!(all.counts.0.windows(2).all(|w| w[0] >= w[1]), "{:?}", all.counts.0);
    }
}

fn close(what: &str, a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{what}");
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + a.abs())), "{what}: {a:?} {b:?}");
}

/// Sums of a batch with these responsibilities, labels tangent where `labels` puts them.
fn recomputed(mixture: &Mixture, data: &Dataset<'_>, b: usize, of: usize, r: &[Vec<f64>], labels: &LabelView, components: usize) -> Sums {
    let (mut sums, mut scratch) = (Sums::default(), Scratch::default());
    for (block, r) in blocks(data, BLOCK_ROWS).iter().skip(b).step_by(of).zip(r) {
        sums.merge(mixture.visit_with(labels, components, block, &mut scratch, |_, out| out.copy_from_slice(r)));
    }
    sums
}

/// Every table and number of sums.
fn numbers(sums: &Sums, size: usize) -> Vec<f64> {
    let mut sums = sums.clone();
    let l = &sums.labels;
    let mut all = vec![sums.entropy.0, sums.coefficients.0, l.logit.offset.0, l.shared.offset.0, l.and.entropy.0, l.and.weights.offset.0];
    for table in [&l.logit.gram, &l.logit.response, &l.shared.response, &l.and.weights.gram, &l.and.weights.response, &l.cut.weights.gram] {
        all.extend_from_slice(&table.0);
    }
    sums.each_table(size, &mut |table, _| all.extend_from_slice(table));
    all
}

/// Components of rows, named anew: component `order[k]` is k, those in `joined` are added to it.
fn renamed(r: &[Vec<f64>], components: usize, order: &[usize], joined: Option<(usize, usize)>) -> Vec<Vec<f64>> {
    let row = |r: &[f64]| {
        let mut r = r.to_vec();
        if let Some((into, from)) = joined {
            r[into] += r[from];
        }
        order.iter().map(|&k| r[k]).collect::<Vec<_>>()
    };
    r.iter().map(|block| block.chunks_exact(components).flat_map(row).collect()).collect()
}

/// Components by falling counts; of two that are joined, the second is left out.
fn falling(batches: &[Batch], components: usize, joined: Option<(usize, usize)>) -> Vec<usize> {
    let mut counts = vec![0.0; components];
    for r in batches.iter().flat_map(|b| &b.r).flat_map(|r| r.chunks_exact(components)) {
        counts.iter_mut().zip(r).for_each(|(n, r)| *n += r);
    }
    let mut order: Vec<usize> = (0..components).collect();
    if let Some((into, from)) = joined {
        counts[into] += counts[from];
        order.retain(|&k| k != from);
    }
    order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
    order
}

/// After a lap the sums of each batch are those of its rows at its last visit, in the order of the components.
#[test]
fn sums_are_those_of_the_rows() {
    for kind in KINDS {
        let data = groups(kind, 90, 3.0, 5);
        let program = memoized(kind, 6, 3, MoveKind::None);
        let cut = blocks(&data, BLOCK_ROWS);
        let mut laps = Laps::new(&program, &data, &cut, 7);
        let mixture = &program.vb.mixture;
        for _ in 0..12 {
            let before = laps.state().ascent.q.components();
            let seen = laps.lap();
            laps.check_totals();
            if laps.state().ascent.q.components() < before {
                continue; // one was left out: the next lap is looked into again
            }
            let order = falling(&seen, before, None);
            for (b, batch) in seen.iter().enumerate() {
                // the labels' view has the components as they were called in the lap: sums first, names then
                let mut direct = recomputed(mixture, &data, b, 3, &batch.r, &batch.view.labels, before);
                direct.permute(&order, mixture.kernel.size());
                close(kind, &numbers(&laps.state().batches[b], mixture.kernel.size()), &numbers(&direct, mixture.kernel.size()));
            }
        }
    }
}

/// After a merge the sums of each batch are those of rows whose two components are one.
#[test]
fn sums_follow_a_merge() {
    for kind in ["cut", "svm", "jj", "and", "shared"] {
        let data = groups(kind, 90, 7.0, 5);
        let program = memoized(kind, 9, 3, MoveKind::Merge);
        let cut = blocks(&data, BLOCK_ROWS);
        let mut laps = Laps::new(&program, &data, &cut, 7);
        let (mixture, mut merges) = (&program.vb.mixture, 0);
        for _ in 0..30 {
            let before = laps.state().ascent.q.components();
            let seen = laps.lap();
            laps.check_totals();
            let state = laps.state();
            if state.ascent.q.components() + 1 != before {
                continue;
            }
            merges += 1;
            // the pair that was merged is the one whose joint counts are found
            let pairs = (0..before).flat_map(|l| (0..l).map(move |j| (j, l)));
            let counts = |order: &[usize], pair| -> Vec<f64> {
                let r: Vec<Vec<f64>> = seen.iter().flat_map(|b| renamed(&b.r, before, order, Some(pair))).collect();
                (0..order.len()).map(|k| r.iter().map(|r| r.iter().skip(k).step_by(order.len()).sum::<f64>()).sum()).collect()
            };
            let distance = |(pair, order): &((usize, usize), Vec<usize>)| -> f64 {
                counts(order, *pair).iter().zip(&state.ascent.q.counts).map(|(a, b)| (a - b).abs()).sum()
            };
            let found = pairs.map(|pair| (pair, falling(&seen, before, Some(pair)))).min_by(|a, b| distance(a).total_cmp(&distance(b)));
            let (pair, order) = found.expect("a pair was merged");
            for (b, batch) in seen.iter().enumerate() {
                let r = renamed(&batch.r, before, &order, Some(pair));
                // counts of rows do not depend on where labels are tangent; what does is checked through the bound
                let any = mixture.labels.view(&state.ascent.q.labels);
                let direct = recomputed(mixture, &data, b, 3, &r, &any, order.len());
                let ours = &state.batches[b];
                for (what, a, b) in [
                    ("counts", &ours.counts.0, &direct.counts.0),
                    ("kernel", &ours.kernel.0, &direct.kernel.0),
                    ("entropies", &ours.entropies.0, &direct.entropies.0),
                    ("present", &ours.present.0, &direct.present.0),
                    ("known", &ours.known.0, &direct.known.0),
                    ("patterns", &ours.labels.cut.patterns.present.0, &direct.labels.cut.patterns.present.0),
                    ("absent", &ours.labels.cut.patterns.absent.0, &direct.labels.cut.patterns.absent.0),
                    ("mass", &ours.labels.shared.mass.0, &direct.labels.shared.mass.0),
                    ("cross", &ours.labels.shared.cross.0, &direct.labels.shared.cross.0),
                ] {
                    close(&format!("{kind} {what}"), a, b);
                }
                close("entropy", &[ours.entropy.0], &[direct.entropy.0]);
                // curvatures of all components together stay where they were tangent
                let untouched = recomputed(mixture, &data, b, 3, &batch.r, &batch.view.labels, before);
                let mass = |s: &Sums, k: usize| -> Vec<f64> { s.labels.logit.mass.0.chunks(k.max(1)).map(|m| m.iter().sum()).collect() };
                close("all mass", &mass(ours, order.len()), &mass(&untouched, before));
                close("gram", &ours.labels.logit.gram.0, &untouched.labels.logit.gram.0);
            }
        }
        assert!(merges > 0, "{kind}: no merge was seen");
    }
}

/// From any start, visit by visit, with moves; the children of a split have all rows of their parent, in every batch.
#[test]
fn no_visit_lowers_the_bound() {
    for kind in KINDS {
        let data = groups(kind, 90, 6.0, 5);
        let cut = blocks(&data, BLOCK_ROWS);
        for components in [1, 8] {
            let program = Memoized { vb: Vb { tol: 1e-5, ..vb(kind, components, MoveKind::SplitMerge) }, batches: 4 };
            let mut laps = Laps::new(&program, &data, &cut, 7);
            let (mut splits, mut standing) = (0, Standing::Rising);
            while standing == Standing::Rising {
                let before = laps.state().ascent.q.components();
                let rows: Vec<f64> = laps.state().batches.iter().map(|s| s.counts.0.iter().sum()).collect();
                laps.lap();
                laps.check_totals();
                let after: Vec<f64> = laps.state().batches.iter().map(|s| s.counts.0.iter().sum()).collect();
                close("rows of batches", &rows, &after);
                splits += usize::from(laps.state().ascent.q.components() > before);
                standing = laps.state().ascent.standing;
            }
            assert_eq!(standing, Standing::Converged, "{kind}");
            assert!(components > 1 || splits >= 2, "{kind}: {splits} splits");
        }
    }
}

/// With one batch it is the ascent over all rows.
#[test]
fn one_batch_is_the_batch_ascent() {
    for kind in KINDS {
        let data = groups(kind, 70, 3.0, 5);
        let program = memoized(kind, 4, 1, MoveKind::None);
        let cut = blocks(&data, BLOCK_ROWS);
        let mut one = Typed::start(&program, &cut, shape(&data, BLOCK_ROWS), 7, 0).unwrap();
        let mut all = Typed::start(&program.vb, &cut, shape(&data, BLOCK_ROWS), 7, 0).unwrap();
        for _ in 0..10 {
            let (a, b) = (one.advance(false).unwrap(), all.advance(false).unwrap());
            assert_eq!(a.components, b.components, "{kind}: nothing is left out here");
            assert!((a.objective - b.objective).abs() < 1e-11 * b.objective.abs(), "{kind}: {} {}", a.objective, b.objective);
        }
    }
}

/// Batches find the groups too, from one component and from twenty.
#[test]
fn groups_are_found_batch_by_batch() {
    for (kind, seed) in [("jj", 1), ("and", 2), ("cut", 3)] {
        let data = groups(kind, 240, 8.0, seed);
        let cut = blocks(&data, BLOCK_ROWS);
        for components in [1, 20] {
            let program = memoized(kind, components, 5, MoveKind::SplitMerge);
            let mut chain = Typed::start(&program, &cut, shape(&data, BLOCK_ROWS), 3, 0).unwrap();
            while !chain.advance(false).unwrap().converged {}
            assert_eq!(chain.global.ascent.q.components(), 4, "{kind} from {components}: {:?}", chain.global.ascent.q.counts);
        }
    }
}

/// A component that has lost its rows is merged into the one most like it.
#[test]
fn empty_components_are_left_out() {
    let data = groups("cut", 90, 6.0, 5);
    let cut = blocks(&data, BLOCK_ROWS);
    let program = memoized("cut", 20, 3, MoveKind::None);
    let mut laps = Laps::new(&program, &data, &cut, 7);
    (0..60).for_each(|_| drop(laps.lap()));
    laps.check_totals();
    let counts = &laps.state().ascent.q.counts;
    assert!(counts.len() < 20 && counts.iter().all(|n| *n >= 1e-3), "{counts:?}");
}

#[test]
fn workers_and_resumed_runs_give_the_same_bits() {
    for kind in ["jj", "and"] {
        let program = Memoized { vb: Vb { tol: 1e-4, ..vb(kind, 1, MoveKind::SplitMerge) }, batches: 3 };
        same_bits(&program, &groups(kind, 90, 6.0, 3));
    }
}

/// Batches are as many as their sums fit; where not even two do, that is said.
#[test]
fn batches_fit_their_memory() {
    let mixture = mixture("jj");
    let s = Settings::default();
    assert_eq!(batches_that_fit(&mixture, &s).unwrap(), 10);
    // 3 labels with 3 columns and 20 components: 6 + 60 numbers each, twice
    let each = 16.0 * 3.0 * 66.0 / 1e9;
    assert_eq!(batches_that_fit(&mixture, &s.clone().label_memory(4.5 * each)).unwrap(), 4);
    let refused = batches_that_fit(&mixture, &s.clone().label_memory(1.5 * each));
    assert!(matches!(refused, Err(Error::Unfit(text)) if text.contains("bohning") && text.contains("`inference`")));
    assert_eq!(batches_that_fit(&mixture, &s.label_memory(1.5 * each).batches(1)).unwrap(), 1);
}

/// As users meet it: settings, a fit, and refusals of what goes with nothing.
#[test]
fn memoized_fits_answer() {
    let data = groups("jj", 200, 6.0, 4);
    let settings = json!({ "inference": "memoized", "moves": "split-merge", "components": 2, "n_init": 2 });
    let found = fitted(settings, &data).unwrap();
    let summary = found.posterior.summary();
    assert!(summary.converged, "{:?}", summary.notes);
    assert_eq!(summary.tables[0].rows.len(), 4);
    for (wrong, name) in [(json!({ "batches": 3 }), "batches"), (json!({ "moves": "merge", "max_components": 3 }), "max_components")] {
        let text = family("labels").unwrap().configure(&map(wrong)).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(name), "{text}");
    }
    let few = json!({ "moves": "split-merge", "components": 1, "max_components": 2, "n_init": 1 });
    let summary = fitted(few, &data).unwrap().posterior.summary();
    assert!(summary.warnings.iter().any(|w| w.contains("max_components")), "{:?}", summary.warnings);
}
