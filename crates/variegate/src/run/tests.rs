//! The promises of the engine, on a toy sampler whose globals, locals, minibatches and pending changes all carry random state.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::*;
use crate::data::{Dataset, Matrix};
use crate::{Error, Result, merge_fields};

mod closing;
mod generations;
mod workers;

/// Keeps a running value a block, asks all blocks and then a random subset, and hands a change back in the next sweep.
struct Toy {
    fail_at: u64,
    /// Time a sweep takes at least.
    pause: Duration,
}

const TOY: Toy = Toy { fail_at: 0, pause: Duration::ZERO };

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Global {
    value: f64,
    pending: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
enum Ask {
    Add(f64),
    Peek,
}

#[derive(Default, Serialize, Deserialize)]
struct Stats {
    total: Sum<f64>,
    vector: Sum<Vec<f64>>,
    seen: List<u32>,
}
merge_fields!(Stats, total, vector, seen);

impl Program for Toy {
    const NAME: &'static str = "toy/walk";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Global;
    type Local = f64;
    type Ask<'a> = Ask;
    type Stats = Stats;
    type Scratch = Vec<f64>;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Global> {
        let noise = open01(&mut stream.rng());
        Ok(Global { value: rows.all(&Ask::Peek)?.total.0 + noise, pending: vec![] })
    }

    fn local(&self, block: &Block<'_>, stream: Stream) -> f64 {
        block.rows() as f64 + open01(&mut stream.rng())
    }

    fn sweep(&self, g: &mut Global, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        if tick.sweep == self.fail_at {
            return Err(Error::Unfit("toy failure".into()));
        }
        std::thread::sleep(self.pause);
        let mut rng = tick.stream.rng();
        let stats = rows.all(&Ask::Add(g.value.sin() + g.pending.iter().sum::<f64>()))?;
        assert_eq!(stats.seen.0, (0..rows.shape().blocks).collect::<Vec<_>>());
        let some: Vec<u32> = (0..rows.shape().blocks).filter(|_| rng.next_u32().is_multiple_of(3)).collect();
        let part = rows.visit(&Ask::Peek, Which::Some(&some))?;
        assert_eq!(part.seen.0, some);
        g.value = (stats.total.0 + part.total.0).cos() + open01(&mut rng);
        g.pending = stats.vector.0;
        Ok(Report { objective: g.value, ..Report::default() })
    }

    fn visit(&self, ask: &Ask, block: &Block<'_>, local: &mut f64, scratch: &mut Vec<f64>, stream: Stream) -> Result<Stats> {
        let mut rng = stream.rng();
        scratch.resize(block.rows(), f64::NAN);
        if let Ask::Add(v) = ask {
            *local = (*local + v).sin() + open01(&mut rng);
        }
        for (i, s) in scratch.iter_mut().enumerate() {
            let mut sum = *local;
            block.x.for_row(i, |_, v| sum += v);
            *s = sum * open01(&mut rng);
        }
        let total = scratch.iter().sum();
        Ok(Stats { total: Sum(total), vector: Sum(vec![total, 1e-3 * *local]), seen: List(vec![block.number]) })
    }

    fn draw(&self, g: &Global, out: &mut Draws) {
        out.scalar("value", g.value);
        for (k, p) in g.pending.iter().enumerate() {
            out.component(k, &[("p", &[*p])]);
        }
    }
}

fn data() -> Dataset<'static> {
    let values: Vec<f64> = (0..1003 * 3).map(|i| (i as f64 * 0.37).sin()).collect();
    Dataset::new(Matrix::dense(1003, 3, values))
}

fn plan() -> Plan {
    Plan { seed: 11, chains: 3, schedule: Schedule::Sample { warm_up: 3, draws: 7, thin: 2 }, block_rows: 13 }
}

fn pace(threads: usize) -> Pace {
    Pace { threads, commit_every: Duration::ZERO, ..Pace::default() }
}

fn run(threads: usize) -> Memory {
    let mut memory = Memory::default();
    let ending = drive(&TOY, &data(), &plan(), pace(threads), &mut memory, &mut Unobserved).unwrap();
    assert_eq!(ending, Ending::Complete);
    memory
}

fn bits(memory: &Memory) -> Vec<u64> {
    memory.chains.iter().flat_map(|c| c.draws.scalars.values.iter().chain(&c.draws.components.values)).map(|v| v.to_bits()).collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let one = run(1);
    assert_eq!(one.chains.len(), 3);
    assert_eq!(one.chains[0].draws.count, 7);
    assert_eq!(one.chains[0].sweeps, 17);
    assert_ne!(one.chains[0].draws, one.chains[1].draws);
    for threads in [2, 4, 7] {
        let other = run(threads);
        assert_eq!(bits(&one), bits(&other));
        for (a, b) in one.chains.iter().zip(&other.chains) {
            assert_eq!(a.checkpoint, b.checkpoint);
        }
    }
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bits() {
    let whole = run(2);
    for stop_after in 1..17 {
        let mut memory = Memory::default();
        // the first sweeps are run as a plan of their own
        let short = Plan { schedule: Schedule::Ascend { max_sweeps: stop_after }, ..plan() };
        drive(&TOY, &data(), &short, pace(2), &mut memory, &mut Unobserved).unwrap();
        for c in &mut memory.chains {
            c.finished = false;
            c.draws = Draws::default();
        }
        drive(&TOY, &data(), &plan(), pace(2), &mut memory, &mut Unobserved).unwrap();
        for (a, b) in whole.chains.iter().zip(&memory.chains) {
            assert_eq!(a.checkpoint, b.checkpoint);
            let tail = &a.draws.scalars.values[a.draws.scalars.values.len() - b.draws.scalars.values.len()..];
            assert_eq!(tail, &b.draws.scalars.values[..]);
        }
    }
}

#[test]
fn an_observer_stops_a_run_that_can_be_resumed() {
    let slow = Toy { pause: Duration::from_millis(30), ..TOY };
    let mut memory = Memory::default();
    let mut rounds = 0;
    let mut stop_second = |chains: &[ChainProgress]| {
        assert!(chains.iter().all(|c| !c.finished && c.total == 17 && c.last.is_some()));
        rounds += 1;
        if rounds == 2 { Next::Stop } else { Next::Continue }
    };
    let ending = drive(&slow, &data(), &plan(), pace(1), &mut memory, &mut stop_second).unwrap();
    assert_eq!(ending, Ending::Stopped);
    assert!(memory.chains.iter().all(|c| c.sweeps > 1 && c.sweeps < 17));
    drive(&TOY, &data(), &plan(), pace(1), &mut memory, &mut Unobserved).unwrap();
    assert_eq!(bits(&memory), bits(&run(1)));
    // a finished run resumes to itself
    drive(&TOY, &data(), &plan(), pace(1), &mut memory, &mut Unobserved).unwrap();
    assert_eq!(bits(&memory), bits(&run(1)));
}

#[test]
fn a_failing_chain_loses_nothing_of_the_others() {
    let mut memory = Memory::default();
    let error = drive(&Toy { fail_at: 9, ..TOY }, &data(), &plan(), pace(2), &mut memory, &mut Unobserved).unwrap_err();
    assert_eq!(error.to_string(), "toy failure");
    // every chain fails at the same sweep here; what was committed before can be resumed by a mended program
    drive(&TOY, &data(), &plan(), pace(2), &mut memory, &mut Unobserved).unwrap();
    assert_eq!(bits(&run(1)), bits(&memory));
}

#[test]
fn a_checkpoint_of_other_data_is_refused() {
    let mut memory = run(1);
    memory.chains[0].finished = false;
    let other = Plan { block_rows: 17, ..plan() };
    let error = drive(&TOY, &data(), &other, pace(1), &mut memory, &mut Unobserved).unwrap_err();
    assert!(error.to_string().contains("data shape"), "{error}");
}
