//! Splits and merges of rows that are with workers: the bits of threads, and bytes that do not grow with the rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::run::{Engine, Loopback, Memory, Pace, Plan, Schedule, Unobserved, Workers, drive, drive_on, shape_of};

/// Sum of a figure over the sweeps.
fn total(kept: &Memory, name: &str) -> f64 {
    let of = |report: &Report| report.extras.iter().filter(|e| e.0 == name).map(|e| e.1).sum::<f64>();
    kept.chains.iter().flat_map(|c| &c.trace).map(|(_, report)| of(report)).sum()
}

const PACE: Pace = Pace { threads: 2, commit_every: Duration::from_secs(600), memory: None };

/// Gives the numbers of splits and merges.
fn on_workers<L: Likelihood + Clone>(subject: Subject<L>, seed: u64) -> (f64, f64) {
    let mut rng = Stream::new(seed, 0, Purpose::Check).rng();
    let unknowns = subject.model().prior(&mut rng).unwrap();
    let data = &subject.tiny_data(&unknowns, &mut rng).unwrap();
    let sampler = &Sampler { split_merge: 8, ..with_core(subject, 2).program };
    let plan = Plan { seed, chains: 1, schedule: Schedule::Sample { warm_up: 0, draws: 40, thin: 1 }, block_rows: 2 };
    let shape = shape_of(data, Some(plan.block_rows)).unwrap();
    let mut here = Memory::default();
    drive(sampler, data, &plan, PACE, &mut here, &mut Unobserved).unwrap();
    // deaths at many places of a sweep
    let more = (30..48).map(|death| (&[4][..], Some(death)));
    for (cuts, death) in [(&[4][..], None), (&[3], Some(7)), (&[1, 2, 5], Some(16))].into_iter().chain(more) {
        let workers = Loopback::new(Arc::new(sampler.clone()), data, shape, cuts).unwrap();
        let workers = death.into_iter().fold(workers, Loopback::killing);
        let mut there = Memory::default();
        drive_on(Engine::Workers(&workers), shape, sampler, &plan, PACE, &mut there, &mut Unobserved).unwrap();
        let (here, there) = (&here.chains[0], &there.chains[0]);
        assert!(here.draws == there.draws && here.checkpoint == there.checkpoint, "{:?}, {cuts:?}, {death:?}", sampler.kind);
    }
    (total(&here, "splits"), total(&here, "merges"))
}

#[test]
fn rows_that_are_dealt_by_workers_give_the_bits_of_threads() {
    let mut all = [(0.0, 0.0); 2];
    for (seed, kind) in (1..).zip([Kind::Parallel, Kind::RowSlice, Kind::Slice, Kind::Parallel, Kind::Slice]) {
        let found = [on_workers(small_counts(kind, vec![6, 8]), seed), on_workers(small_gaussian(kind, vec![6, 8]), seed)];
        all.iter_mut().zip(found).for_each(|(all, found)| *all = (all.0 + found.0, all.1 + found.1));
    }
    assert!(all.iter().all(|n| n.0 > 4.0 && n.1 > 4.0), "too few splits and merges to see anything: {all:?}");
}

/// Rows of two kinds, counts of six columns.
fn two_kinds(rows: usize) -> Dataset<'static> {
    let mut rng = Stream::new(2, 0, Purpose::Check).rng();
    let values: Vec<f64> = (0..6 * rows).map(|at| (open01(&mut rng) * if (at / 6 + at) % 2 == 0 { 12.0 } else { 1.5 }).floor()).collect();
    let mut data = Dataset::new(Matrix::dense(rows, 6, values));
    data.sources = Some(Classes { codes: (0..rows as u32).map(|i| i % 2).collect(), names: vec!["1".into(), "2".into()] });
    data
}

/// Most bytes of an ask with the answers to it, and bytes of all; other calls are a few bytes long.
struct Weighed(Loopback, AtomicU64, AtomicU64);

impl Workers for Weighed {
    fn spans(&self) -> &[Range<u32>] {
        self.0.spans()
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>> {
        let answers = self.0.post(calls)?;
        if calls.iter().all(|c| c.1.len() > 12) {
            let bytes = calls.iter().map(|c| c.1.len()).chain(answers.iter().flatten().map(Vec::len)).sum::<usize>() as u64;
            self.1.fetch_max(bytes, Ordering::Relaxed);
            self.2.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(answers)
    }
}

#[test]
fn what_is_sent_does_not_grow_with_the_rows() {
    let plan = Plan { seed: 4, chains: 1, schedule: Schedule::Sample { warm_up: 0, draws: 4, thin: 1 }, block_rows: 125 };
    let [few, many] = [(2_000, 8), (20_000, 128)].map(|(rows, cut)| {
        let data = two_kinds(rows);
        let program = small_counts(Kind::Parallel, vec![rows as u64 / 2; 2]).program;
        let likelihood = Counts { width: 6, first_atom: Some(vec![3.0; 6]), ..program.likelihood };
        // births would change the number of atoms, and with it all that is sent
        let sampler = Sampler { likelihood, core: 64, split_merge: 6, birth_rows: 0.0, ..program };
        let shape = shape_of(&data, Some(plan.block_rows)).unwrap();
        let workers = Loopback::new(Arc::new(sampler.clone()), &data, shape, &[cut]).unwrap();
        let workers = Weighed(workers, AtomicU64::new(0), AtomicU64::new(0));
        let mut kept = Memory::default();
        drive_on(Engine::Workers(&workers), shape, &sampler, &plan, PACE, &mut kept, &mut Unobserved).unwrap();
        assert!(total(&kept, "splits") > 0.0);
        [workers.1.into_inner() as f64, workers.2.into_inner() as f64]
    });
    assert!(few.iter().zip(&many).all(|(f, m)| *m < 1.5 * f), "{few:?} bytes for 2,000 rows, {many:?} for 20,000");
}
