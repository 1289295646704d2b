//! Workers that die, and what they are sent.

use std::ops::Range;
use std::sync::Arc;

use super::*;

fn shape(plan: &Plan) -> Shape {
    shape_of(&data(), Some(plan.block_rows)).unwrap()
}

fn on(workers: &dyn Workers, plan: &Plan) -> Result<Memory> {
    let mut memory = Memory::default();
    // commits are rare, so that what is replayed is long
    let pace = Pace { threads: 2, commit_every: Duration::from_secs(600), ..Pace::default() };
    drive_on(Engine::Workers(workers), shape(plan), &TOY, plan, pace, &mut memory, &mut Unobserved)?;
    Ok(memory)
}

/// Many commits, at each of which locals are fetched and the calls before it forgotten, and none.
#[test]
fn snapshots_and_replays_give_the_same_bits() {
    let plan = Plan { chains: 2, schedule: Schedule::Sample { warm_up: 3, draws: 300, thin: 2 }, ..plan() };
    let mut here = Memory::default();
    drive(&TOY, &data(), &plan, pace(2), &mut here, &mut Unobserved).unwrap();
    for (cuts, commit_every) in [(&[64][..], Duration::ZERO), (&[7, 40], Duration::from_secs(600))] {
        let workers = Loopback::new(Arc::new(TOY), &data(), shape(&plan), cuts).unwrap().killing(90);
        let mut there = Memory::default();
        let pace = Pace { threads: 2, commit_every, memory: None };
        drive_on(Engine::Workers(&workers), shape(&plan), &TOY, &plan, pace, &mut there, &mut Unobserved).unwrap();
        assert_eq!(bits(&here), bits(&there));
        assert!(here.chains.iter().zip(&there.chains).all(|(a, b)| a.checkpoint == b.checkpoint));
    }
}

/// Asks that begin with a long list of numbers, which changes every 19 visits: to all blocks, or to one. Each block adds up what it was asked.
struct Long {
    numbers: usize,
}

impl Program for Long {
    const NAME: &'static str = "toy/long";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = f64;
    type Local = f64;
    type Ask<'a> = (Vec<f64>, f64);
    type Stats = Sum<f64>;
    type Scratch = ();

    fn start(&self, _: &mut dyn Rows<Self>, _: Stream) -> Result<f64> {
        Ok(0.0)
    }

    fn local(&self, block: &Block<'_>, _: Stream) -> f64 {
        f64::from(block.number)
    }

    fn sweep(&self, sum: &mut f64, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        for visit in 0..6 {
            let age = (tick.sweep * 6 + u64::from(visit)) / 19 + 1;
            let list = || (0..self.numbers).map(|i| (i as f64 * age as f64).sin()).collect();
            let ask = (if visit == 3 { Vec::new() } else { list() }, *sum * 1e-3 + f64::from(visit));
            let one = [(tick.sweep as u32 * 6 + visit) % rows.shape().blocks];
            *sum = rows.visit(&ask, if visit % 2 == 0 { Which::All } else { Which::Some(&one) })?.0;
        }
        Ok(Report { objective: *sum, ..Report::default() })
    }

    fn visit(&self, ask: &(Vec<f64>, f64), _: &Block<'_>, local: &mut f64, _: &mut (), _: Stream) -> Result<Sum<f64>> {
        *local = 0.5 * *local + ask.0.iter().sum::<f64>() + ask.1;
        Ok(Sum(*local))
    }

    fn draw(&self, sum: &f64, out: &mut Draws) {
        out.scalar("sum", *sum);
    }
}

/// What asks begin with alike is sent once to each worker, and is known there after deaths, to workers that were left out of visits, and
/// after snapshots.
#[test]
fn what_asks_share_travels_when_it_changes() {
    let plan = Plan { chains: 2, schedule: Schedule::Sample { warm_up: 0, draws: 40, thin: 1 }, ..plan() };
    let program = || Long { numbers: 20_000 };
    let mut here = Memory::default();
    drive(&program(), &data(), &plan, pace(2), &mut here, &mut Unobserved).unwrap();
    for (death, commit_every) in [(None, Duration::from_secs(600)), (Some(40), Duration::from_secs(600)), (Some(55), Duration::ZERO)] {
        let workers = Loopback::new(Arc::new(program()), &data(), shape(&plan), &[7, 40]).unwrap();
        let workers = if let Some(first) = death { workers.killing(first) } else { workers };
        let mut there = Memory::default();
        let pace = Pace { threads: 2, commit_every, memory: None };
        drive_on(Engine::Workers(&workers), shape(&plan), &program(), &plan, pace, &mut there, &mut Unobserved).unwrap();
        assert_eq!(bits(&here), bits(&there), "first death: {death:?}");
        if death.is_none() {
            // 2 chains, 3 workers, 13 lists of 160,000 bytes in 240 visits, most of which would else send one
            let (sent, _) = workers.traffic();
            assert!((12_480_000..12_900_000).contains(&sent), "{sent} bytes");
        }
    }
}

/// A log of calls that share nothing grows until a snapshot takes its place.
#[test]
fn long_logs_end_in_snapshots() {
    let plan = Plan { chains: 1, schedule: Schedule::Sample { warm_up: 0, draws: 60, thin: 1 }, ..plan() };
    let program = || Long { numbers: 600_000 };
    let mut here = Memory::default();
    drive(&program(), &data(), &plan, pace(2), &mut here, &mut Unobserved).unwrap();
    // a worker dies in one of the last sweeps; without a snapshot it would be told all of the 96 MB again that were sent to each
    let workers = Loopback::new(Arc::new(program()), &data(), shape(&plan), &[40]).unwrap().killing(535);
    let (mut there, pace) = (Memory::default(), Pace { threads: 2, commit_every: Duration::from_secs(600), ..Pace::default() });
    drive_on(Engine::Workers(&workers), shape(&plan), &program(), &plan, pace, &mut there, &mut Unobserved).unwrap();
    assert_eq!(bits(&here), bits(&there));
    let (sent, _) = workers.traffic();
    assert!((192_000_000..240_000_000).contains(&sent), "{sent} bytes");
}

/// What is kept for its results alone has the same results, and is not gone on with.
#[test]
fn results_need_no_locals() {
    let plan = plan();
    let mut here = Memory::default();
    drive(&TOY, &data(), &plan, pace(2), &mut here, &mut Unobserved).unwrap();
    let workers = Loopback::new(Arc::new(TOY), &data(), shape(&plan), &[7]).unwrap();
    let mut there = Results::default();
    drive_on(Engine::Workers(&workers), shape(&plan), &TOY, &plan, pace(2), &mut there, &mut Unobserved).unwrap();
    assert_eq!(bits(&here), bits(&there.0));
    let global = |kept: &Memory| saved_global::<Toy>(&kept.chains[0].checkpoint).unwrap();
    assert_eq!(global(&here), global(&there.0));
    there.0.chains[0].finished = false;
    let said = drive(&TOY, &data(), &plan, pace(2), &mut there, &mut Unobserved).unwrap_err().to_string();
    assert!(said.contains("kept for its results alone"), "{said}");
}

/// What an aligned cut sends does not grow with the rows.
#[test]
fn traffic_does_not_grow_with_rows() {
    let bytes = |block_rows: usize, cut: u32| {
        let plan = Plan { chains: 1, block_rows, schedule: Schedule::Sample { warm_up: 0, draws: 20, thin: 1 }, ..plan() };
        let workers = Loopback::new(Arc::new(Whole), &data(), shape(&plan), &[cut]).unwrap();
        drive_on(Engine::Workers(&workers), shape(&plan), &Whole, &plan, pace(1), &mut Memory::default(), &mut Unobserved).unwrap();
        let (sent, received) = workers.traffic();
        (sent + received) as f64
    };
    // 64 blocks and 502, half of them (256) in the first worker
    let (few, many) = (bytes(16, 32), bytes(2, 256));
    assert!((many / few - 1.0).abs() < 0.1, "{few} and {many} bytes");
}

/// Asks every block for a sum.
struct Whole;

impl Program for Whole {
    const NAME: &'static str = "toy/sum";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = f64;
    type Local = ();
    type Ask<'a> = Vec<f64>;
    type Stats = Sum<Vec<f64>>;
    type Scratch = ();

    fn start(&self, _: &mut dyn Rows<Self>, _: Stream) -> Result<f64> {
        Ok(0.0)
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, sum: &mut f64, rows: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        *sum = rows.all(&vec![*sum; 10])?.0.iter().sum();
        Ok(Report::default())
    }

    fn visit(&self, _: &Vec<f64>, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Sum<Vec<f64>>> {
        let mut sums = vec![0.0; 20];
        (0..block.rows()).for_each(|i| block.x.for_row(i, |j, v| sums[j] += v));
        Ok(Sum(sums))
    }

    fn draw(&self, _: &f64, _: &mut Draws) {}
}

/// Has an error of its own.
struct Panics;

impl Program for Panics {
    const NAME: &'static str = "toy/panics";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = f64;
    type Local = ();
    type Ask<'a> = ();
    type Stats = Sum<f64>;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, _: Stream) -> Result<f64> {
        Ok(rows.all(&())?.0)
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, _: &mut f64, _: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        Ok(Report::default())
    }

    fn visit(&self, _: &(), _: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Sum<f64>> {
        panic!("here it fails")
    }

    fn draw(&self, _: &f64, _: &mut Draws) {}
}

/// Workers who are all gone, always.
struct Nobody(Vec<Range<u32>>);

impl Workers for Nobody {
    fn spans(&self) -> &[Range<u32>] {
        &self.0
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(vec![None; calls.len()])
    }
}

#[test]
fn what_cannot_be_mended_is_told() {
    let blocks = shape(&plan()).blocks;
    let said = on(&Nobody(vec![0..5, 5..blocks]), &plan()).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("blocks 1 to 5 were lost 20 times"), "{said}");
    let panicking = Loopback::new(Arc::new(Panics), &data(), shape(&plan()), &[7]).unwrap();
    let all = drive_on(Engine::Workers(&panicking), shape(&plan()), &Panics, &plan(), pace(1), &mut Memory::default(), &mut Unobserved);
    let said = all.unwrap_err().to_string();
    assert!(said.contains("(here it fails)"), "{said}");
    let few = Arc::new(data().subset(&[0, 1, 2]));
    let said = Worker::new(Arc::new(TOY), few, 2..4, shape(&plan())).map(|_| ()).unwrap_err().to_string();
    assert_eq!(said, "blocks 3 to 4 have 26 rows, but a worker was given 3");
}
