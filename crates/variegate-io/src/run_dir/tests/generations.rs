//! Chains that the program adds to a run: the end of a generation and the beginning of the next are one commit.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use variegate::data::{Dataset, Matrix};
use variegate::run::{
    Block, ChainProgress, Ending, Memory, Next, Observer, Pace, Program, Rows, Stream, Sum, Tick, Unobserved, drive, open01,
};

use super::crash::{DEATHS, OFTEN, assert_tidy, with_fuse};
use super::*;

/// Number of chains when each generation has been added.
const ENDS: [usize; 3] = [2, 5, 7];

/// Each generation begins at the mean of all before it.
struct Search {
    /// Time a sweep takes at least.
    pause: Duration,
}

const SEARCH: Search = Search { pause: Duration::ZERO };

#[derive(Serialize, Deserialize)]
struct Candidate(f64);

impl Program for Search {
    const NAME: &'static str = "toy/search";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Candidate;
    type Local = f64;
    type Ask<'a> = f64;
    type Stats = Sum<f64>;
    type Scratch = ();

    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> variegate::Result<Candidate> {
        Ok(Candidate(open01(&mut stream.rng())))
    }

    fn local(&self, _: &Block<'_>, stream: Stream) -> f64 {
        open01(&mut stream.rng())
    }

    fn sweep(&self, g: &mut Candidate, rows: &mut dyn Rows<Self>, tick: Tick) -> variegate::Result<Report> {
        std::thread::sleep(self.pause);
        g.0 = rows.all(&g.0)?.0.cos() + open01(&mut tick.stream.rng());
        Ok(Report { objective: g.0, extras: vec![("half".into(), g.0 / 2.0)], ..Report::default() })
    }

    fn visit(&self, ask: &f64, _: &Block<'_>, local: &mut f64, _: &mut (), stream: Stream) -> variegate::Result<Sum<f64>> {
        *local = (*local + ask).sin() + open01(&mut stream.rng());
        Ok(Sum(*local))
    }

    fn draw(&self, g: &Candidate, out: &mut Draws) {
        out.scalar("value", g.0);
    }

    fn offspring(
        &self,
        finished: &mut dyn Iterator<Item = variegate::Result<Candidate>>,
        stream: Stream,
    ) -> variegate::Result<Vec<Candidate>> {
        let total = finished.map(|c| Ok(c?.0)).sum::<variegate::Result<f64>>()?;
        let first = stream.chain() as usize;
        let end = ENDS.into_iter().find(|end| *end > first).unwrap_or(first);
        Ok((first..end).map(|i| Candidate(total / first as f64 + open01(&mut stream.item(i as u64).rng()))).collect())
    }
}

fn brief() -> RunRecord {
    RunRecord { plan: Plan { schedule: Schedule::Sample { warm_up: 1, draws: 2, thin: 1 }, ..plan() }, ..record() }
}

fn go_on(program: &Search, storage: &mut dyn Storage, observer: &mut dyn Observer) -> variegate::Result<Ending> {
    let data = Dataset::new(Matrix::dense(30, 1, vec![1.0; 30]));
    drive(program, &data, &brief().plan, Pace { threads: 1, commit_every: Duration::ZERO, ..Pace::default() }, storage, observer)
}

fn whole() -> Memory {
    let mut memory = Memory::default();
    go_on(&SEARCH, &mut memory, &mut Unobserved).unwrap();
    memory
}

fn assert_whole(run: &RunDir) {
    let (whole, pieces) = (whole(), run.pieces().unwrap());
    assert_eq!((whole.chains.len(), pieces.len()), (7, 7));
    assert_eq!(run.checkpoints().unwrap().len(), 7);
    let status = run.status();
    assert!(status.complete && status.chains.len() == 7 && status.chains.iter().all(|c| c.finished && c.draws == 2));
    for (a, b) in whole.chains.iter().zip(&pieces) {
        assert_eq!((a.chain, a.sweeps, a.finished, &a.checkpoint, &a.trace), (b.chain, b.sweeps, b.finished, &b.checkpoint, &b.trace));
        assert_eq!(a.draws, b.draws);
    }
}

/// Whole generations, each begun when those before it are done; and none is missing if all are done.
fn assert_in_order(run: &RunDir) {
    let status = run.status();
    assert!(ENDS.contains(&status.chains.len()));
    assert_eq!(status.complete, status.chains.iter().all(|c| c.finished));
    assert!(!status.complete || status.chains.len() == 7);
    for end in ENDS.into_iter().filter(|end| *end < status.chains.len()) {
        assert!(status.chains[..end].iter().all(|c| c.finished));
    }
    let lengths = [run.draws().unwrap().len(), run.trace().unwrap().len(), run.checkpoints().unwrap().len()];
    assert_eq!(lengths, [status.chains.len(); 3]);
    assert!(status.chains.len() == 2 || run.checkpoints().unwrap().iter().all(Option::is_some));
}

#[test]
fn dying_at_any_point_of_a_change_of_generation_loses_no_commit() {
    for death in DEATHS {
        let mut found = [0; 3];
        for point in 0.. {
            let folder = scratch();
            let fuse = Fuse::new(point, death);
            let mut commits = 0;
            let attempt = RunDir::create_with(folder.path(), &brief(), false, with_fuse(&fuse)).map(|mut run| {
                run.folding = OFTEN;
                let _ = go_on(&SEARCH, &mut run, &mut Unobserved);
                commits = run.manifest.commits;
            });
            if !fuse.blown() {
                assert!(attempt.is_ok() && point > 100, "only {point} points");
                break;
            }
            let mut run = match RunDir::read(folder.path()) {
                Err(RunDirError::NotARun { .. }) => RunDir::create(folder.path(), &brief(), false).unwrap(),
                Err(other) => panic!("point {point}, {death:?}: {other}"),
                Ok(run) => {
                    assert_in_order(&run);
                    assert!(run.manifest.commits >= commits.saturating_sub(1));
                    found[ENDS.iter().position(|end| *end == run.status().chains.len()).unwrap()] += 1;
                    RunDir::open(folder.path()).unwrap()
                }
            };
            run.folding = OFTEN;
            go_on(&SEARCH, &mut run, &mut Unobserved).unwrap();
            assert_whole(&run);
            assert_tidy(folder.path(), &run);
        }
        assert!(found.iter().all(|n| *n > 10), "{found:?}");
    }
}

#[test]
fn stopped_after_every_round_and_opened_anew_it_ends_the_same() {
    for pause in [0, 40] {
        let folder = scratch();
        drop(RunDir::create(folder.path(), &brief(), false).unwrap());
        let program = Search { pause: Duration::from_millis(pause) };
        for rounds in 1.. {
            let mut run = RunDir::open(folder.path()).unwrap();
            let ending = go_on(&program, &mut run, &mut |_: &[ChainProgress]| Next::Stop).unwrap();
            drop(run);
            let run = RunDir::read(folder.path()).unwrap();
            assert_in_order(&run);
            assert_eq!(run.status().complete, ending == Ending::Complete);
            if run.status().complete {
                assert!(rounds > if pause > 0 { 5 } else { 2 });
                assert_whole(&run);
                break;
            }
        }
    }
}

#[test]
fn a_reader_of_the_first_generation_is_not_disturbed_by_the_next() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &brief(), false).unwrap();
    run.folding.at = 2;
    go_on(&SEARCH, &mut run, &mut |_: &[ChainProgress]| Next::Stop).unwrap();
    let early = RunDir::read(folder.path()).unwrap();
    let before = (early.status().chains.len(), early.draws().unwrap(), early.trace().unwrap());
    go_on(&SEARCH, &mut run, &mut Unobserved).unwrap();
    // its segments were folded away, into ones that know more chains
    assert!(!folder.path().join("draws/scalars-000001.parquet").exists());
    assert_eq!(run.status().chains.len(), 7);
    assert_eq!(before, (5, early.draws().unwrap(), early.trace().unwrap()));
}

#[test]
fn chains_are_added_without_gaps() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &brief(), false).unwrap();
    let piece = |chain| Piece { chain, sweeps: 0, draws: Draws::default(), trace: vec![], checkpoint: vec![7], finished: false };
    for gap in [&[3][..], &[2, 4], &[0, 1, 4, 3]] {
        let error = run.commit(gap.iter().map(|c| piece(*c)).collect()).unwrap_err().to_string();
        assert!(error.contains("cannot be added where chain"), "{error}");
        assert_eq!(run.status().chains.len(), 2);
    }
    run.commit(vec![piece(3), piece(0), piece(2), piece(1)]).unwrap();
    run.commit(vec![piece(4)]).unwrap();
    let run = RunDir::read(folder.path()).unwrap();
    assert_eq!(run.status().chains.iter().map(|c| c.chain).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(run.checkpoints().unwrap(), vec![Some(vec![7]); 5]);
}
