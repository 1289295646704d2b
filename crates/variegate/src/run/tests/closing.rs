//! The closing stage of a run: on a toy whose chain 0 goes over all draws in steps of its own once they are taken.

use super::*;
use std::sync::Arc;

/// A walk of numbers, and then as many steps as it says.
struct Tale {
    steps: u64,
    /// Refuses this step.
    fail_at: u64,
    pause: Duration,
}

const TALE: Tale = Tale { steps: 9, fail_at: 0, pause: Duration::ZERO };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Teller {
    value: f64,
    told: Option<Told>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told {
    lengths: Vec<u64>,
    total: f64,
    steps: u64,
}

impl Program for Tale {
    const NAME: &'static str = "toy/tale";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Teller;
    type Local = ();
    type Ask<'a> = f64;
    type Stats = Sum<f64>;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Teller> {
        Ok(Teller { value: rows.all(&0.0)?.0.cos() + open01(&mut stream.rng()), told: None })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, g: &mut Teller, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        g.told = None;
        g.value = rows.all(&g.value)?.0.cos() + open01(&mut tick.stream.rng());
        Ok(Report { objective: g.value, ..Report::default() })
    }

    fn visit(&self, ask: &f64, block: &Block<'_>, _: &mut (), _: &mut (), stream: Stream) -> Result<Sum<f64>> {
        Ok(Sum((ask + block.number as f64).sin() + open01(&mut stream.rng())))
    }

    fn draw(&self, g: &Teller, out: &mut Draws) {
        out.scalar("value", g.value);
    }

    fn closing(
        &self,
        lengths: &[u64],
        first: &mut dyn FnMut() -> Result<Teller>,
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Teller>> {
        if self.steps == 0 {
            return Ok(None);
        }
        let mut teller = first()?;
        if let Some(told) = &teller.told
            && told.lengths == lengths
        {
            return Ok((told.steps < self.steps).then_some(teller));
        }
        let draws = draws()?;
        assert_eq!(draws.iter().map(|d| d.scalars.rows() as u64).collect::<Vec<_>>(), lengths, "all draws of all chains");
        let total = draws.iter().flat_map(|d| &d.scalars.values).sum();
        teller.told = Some(Told { lengths: lengths.to_vec(), total, steps: 0 });
        Ok(Some(teller))
    }

    fn close(&self, teller: &mut Teller, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<bool> {
        std::thread::sleep(self.pause);
        let Some(told) = &mut teller.told else { return Ok(true) };
        if told.steps + 1 == self.fail_at {
            return Err(Error::Unfit("lost the thread".into()));
        }
        told.steps += 1;
        told.total += rows.all(&told.total)?.0 + open01(&mut stream.sweep(told.steps).rng());
        Ok(told.steps == self.steps)
    }
}

fn plan(chains: u32, draws: u64) -> Plan {
    Plan { seed: 5, chains, schedule: Schedule::Sample { warm_up: 2, draws, thin: 2 }, block_rows: 100 }
}

fn told(memory: &Memory) -> Teller {
    saved_global::<Tale>(&memory.chains[0].checkpoint).unwrap()
}

fn whole(plan: &Plan) -> Memory {
    let mut memory = Memory::default();
    drive(&TALE, &data(), plan, pace(2), &mut memory, &mut Unobserved).unwrap();
    memory
}

fn assert_same(a: &Memory, b: &Memory) {
    for (a, b) in a.chains.iter().zip(&b.chains) {
        assert_eq!((a.sweeps, a.finished, &a.checkpoint, &a.trace, &a.draws), (b.sweeps, b.finished, &b.checkpoint, &b.trace, &b.draws));
    }
    assert_eq!(a.chains.len(), b.chains.len());
}

#[test]
fn it_is_told_once_after_all_draws_and_changes_none() {
    let memory = whole(&plan(3, 4));
    let teller = told(&memory);
    assert_eq!((teller.told.as_ref().unwrap().steps, teller.told.unwrap().lengths), (9, vec![4, 4, 4]));
    let mut none = Memory::default();
    drive(&Tale { steps: 0, ..TALE }, &data(), &plan(3, 4), pace(1), &mut none, &mut Unobserved).unwrap();
    assert_eq!(bits(&memory), bits(&none));
    assert!(memory.chains.iter().all(|c| c.finished && c.sweeps == 10 && c.trace.len() == 10));
    // a run that is complete is asked for nothing
    let mut again = memory.clone();
    drive(&Tale { fail_at: 1, ..TALE }, &data(), &plan(3, 4), pace(1), &mut again, &mut Unobserved).unwrap();
    assert_same(&memory, &again);
}

#[test]
fn any_engine_gives_the_same_bits() {
    let memory = whole(&plan(2, 3));
    let shape = shape_of(&data(), Some(100)).unwrap();
    for killing in [u64::MAX, 4] {
        let workers = Loopback::new(Arc::new(TALE), &data(), shape, &[3, 6]).unwrap().killing(killing);
        let (mut all, mut results) = (Memory::default(), Results::default());
        drive_on(Engine::Workers(&workers), shape, &TALE, &plan(2, 3), pace(2), &mut all, &mut Unobserved).unwrap();
        assert_same(&memory, &all);
        // also where nothing is kept for going on
        drive_on(Engine::Workers(&workers), shape, &TALE, &plan(2, 3), pace(2), &mut results, &mut Unobserved).unwrap();
        assert_eq!(told(&results.0), told(&memory));
    }
}

#[test]
fn stopped_after_every_round_it_ends_with_the_same_bits() {
    let whole = whole(&plan(2, 3));
    let slow = Tale { pause: Duration::from_millis(40), ..TALE };
    let (mut memory, mut amid) = (Memory::default(), 0);
    while drive(&slow, &data(), &plan(2, 3), pace(1), &mut memory, &mut |_: &[ChainProgress]| Next::Stop).unwrap() == Ending::Stopped {
        amid += usize::from(told(&memory).told.is_some_and(|t| t.steps > 0));
        assert!(!memory.chains[0].finished || memory.chains.iter().any(|c| !c.finished), "complete only when it is over");
    }
    assert!(amid > 1, "stopped amid the stage {amid} times");
    assert_same(&whole, &memory);
}

#[test]
fn a_run_that_goes_on_has_it_again() {
    for (chains, draws) in [(2, 5), (3, 3), (3, 5)] {
        let mut memory = whole(&plan(2, 3));
        let longer = plan(chains, draws);
        memory.chains.iter_mut().for_each(|c| c.finished &= c.sweeps >= longer.schedule.sweeps());
        drive(&TALE, &data(), &longer, pace(2), &mut memory, &mut Unobserved).unwrap();
        assert_same(&whole(&longer), &memory);
    }
}

#[test]
fn a_step_that_fails_can_be_done_again() {
    let mut memory = Memory::default();
    let error = drive(&Tale { fail_at: 4, ..TALE }, &data(), &plan(2, 3), pace(2), &mut memory, &mut Unobserved).unwrap_err();
    assert_eq!(error.to_string(), "lost the thread");
    assert!(memory.chains.iter().any(|c| !c.finished), "the run is not complete");
    assert!(memory.chains.len() == 2 && memory.chains.iter().all(|c| c.draws.count == 3), "but all draws are kept");
    drive(&TALE, &data(), &plan(2, 3), pace(2), &mut memory, &mut Unobserved).unwrap();
    assert_same(&whole(&plan(2, 3)), &memory);
}
