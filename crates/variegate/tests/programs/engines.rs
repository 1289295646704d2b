//! Every program gives the bits of threads on workers that speak bytes, whatever their number, their spans and their deaths.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use variegate::Result;
use variegate::data::{Dataset, Header};
use variegate::model::{Cluster, Prepared, RunSettings, Task, fit_on};
use variegate::run::{ChainProgress, Ending, Engine, Loopback, Memory, Next, Pace, Shape, Unobserved, Workers, drive, drive_on, shape_of};

use super::cases::{Case, cases};

/// All that a run has kept, to the bit.
type Bits = Vec<(u32, u64, Vec<u64>, Vec<u8>, bool)>;

fn bits(kept: &Memory) -> Bits {
    let of = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
    let chain = |c: &variegate::run::Piece| {
        let objectives: Vec<f64> = c.trace.iter().map(|(_, report)| report.objective).collect();
        let draws = [of(&c.draws.scalars.values), of(&c.draws.components.values), of(&objectives)].concat();
        (c.chain, c.sweeps, draws, c.checkpoint.clone(), c.finished)
    };
    kept.chains.iter().map(chain).collect()
}

/// Workers whose answers take their time, so that a run can be stopped in its middle.
struct Slow<'a>(Box<dyn Workers + 'a>);

impl Workers for Slow<'_> {
    fn spans(&self) -> &[Range<u32>] {
        self.0.spans()
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>> {
        std::thread::sleep(Duration::from_millis(10));
        self.0.post(calls)
    }
}

/// Data that are held by workers in this process, who know nothing but the bytes of their task.
struct Held<'a> {
    data: &'a Dataset<'static>,
    header: Header,
    shape: Shape,
    cuts: &'a [u32],
    first_death: Option<u64>,
}

impl Cluster for Held<'_> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn workers<'a>(&'a self, task: &Task) -> Result<Box<dyn Workers + 'a>> {
        let program = Task::from_bytes(&task.to_bytes()?)?.program()?;
        let workers = Loopback::new(program, self.data, self.shape, self.cuts)?;
        Ok(Box::new(match self.first_death {
            Some(first) => workers.killing(first),
            None => workers,
        }))
    }
}

/// Rows of a block, where workers' spans end, and the call at which the first of them dies: one worker, an aligned cut, an odd one, and
/// workers of a single block.
const CUTS: [(usize, &[u32], Option<u64>); 4] = [(7, &[], None), (7, &[4], Some(5)), (9, &[3], None), (5, &[1, 2, 5], Some(3))];

fn on_workers(case: &Case) {
    let name = case.name;
    let model = case.model();
    for (block_rows, cuts, first_death) in CUTS {
        let settings = RunSettings::default().seed(11).threads(2).block_rows(block_rows);
        let Prepared { fit, plan, fingerprint } = settings.prepare(model.as_ref(), &case.data).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut here = Memory::default();
        drive(fit.program(), &case.data, &plan, settings.pace(), &mut here, &mut Unobserved).unwrap_or_else(|e| panic!("{name}: {e}"));

        let (header, shape) = (Header::of(&case.data), shape_of(&case.data, Some(block_rows)).unwrap());
        let held = Held { data: &case.data, header, shape, cuts, first_death };
        let there = settings.prepare_on(model.as_ref(), &held).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((there.fit.schema(), there.fingerprint, there.plan), (fit.schema(), fingerprint, plan), "{name}");
        let mut kept = Memory::default();
        settings.drive_on(model.as_ref(), &there, &held, &mut kept, &mut Unobserved).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(bits(&here) == bits(&kept), "{name}: other bits on workers that hold blocks up to {cuts:?} (first death: {first_death:?})");

        if first_death.is_none() {
            let all = fit_on(model.as_ref(), &held, &settings, &mut Unobserved).unwrap_or_else(|e| panic!("{name}: {e}"));
            let results = |kept: &Memory| bits(kept).into_iter().map(|c| (c.0, c.1, c.2, c.4)).collect::<Vec<_>>();
            assert!(results(&here) == results(&all.kept), "{name}: other bits of the whole fit on workers up to {cuts:?}");
            let saved = fit.posterior(&here.chains).and_then(|p| p.save()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(saved == all.posterior.save().unwrap(), "{name}: another posterior of the whole fit on workers up to {cuts:?}");
            continue;
        }
        // stopped on these workers, and resumed on others
        let mut kept = Memory::default();
        let pace = Pace { commit_every: Duration::ZERO, ..settings.pace() };
        let slow = Slow(held.workers(&Task::of(model.as_ref(), &there).unwrap()).unwrap());
        let mut stop = |_: &[ChainProgress]| Next::Stop;
        let ending = drive_on(Engine::Workers(&slow), shape, fit.program(), &plan, pace, &mut kept, &mut stop).unwrap();
        if ending == Ending::Stopped {
            let others = Held { cuts: &[2, 6], first_death: None, header: held.header.clone(), ..held };
            settings.drive_on(model.as_ref(), &there, &others, &mut kept, &mut Unobserved).unwrap();
        }
        assert!(bits(&here) == bits(&kept), "{name}: other bits after a stop and a resumption on other workers");
    }
}

#[test]
fn long_workers_give_the_bits_of_threads() {
    // more threads than cores: much of the time is spent waiting
    let all = cases();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(6)) {
            scope.spawn(move || part.iter().for_each(on_workers));
        }
    });
}
