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
    let pace = Pace { threads: 2, commit_every: Duration::from_secs(600) };
    drive_on(Engine::Workers(workers), shape(plan), &TOY, plan, pace, &mut memory, &mut Unobserved)?;
    Ok(memory)
}

/// Long enough for snapshots between sweeps, after which the calls before them are forgotten.
#[test]
fn snapshots_and_replays_give_the_same_bits() {
    let plan = Plan { chains: 2, schedule: Schedule::Sample { warm_up: 3, draws: 300, thin: 2 }, ..plan() };
    let mut here = Memory::default();
    drive(&TOY, &data(), &plan, pace(2), &mut here, &mut Unobserved).unwrap();
    for cuts in [&[64][..], &[7, 40]] {
        let workers = Loopback::new(Arc::new(TOY), &data(), shape(&plan), cuts).unwrap().killing(900);
        let there = on(&workers, &plan).unwrap();
        assert_eq!(bits(&here), bits(&there));
        assert!(here.chains.iter().zip(&there.chains).all(|(a, b)| a.checkpoint == b.checkpoint));
    }
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

/// Workers who are all gone, always.
struct Nobody(Vec<Range<u32>>);

impl Workers for Nobody {
    fn spans(&self) -> &[Range<u32>] {
        &self.0
    }

    fn post(&self, calls: &[(usize, Vec<u8>)]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(vec![None; calls.len()])
    }
}

#[test]
fn what_cannot_be_mended_is_told() {
    let blocks = shape(&plan()).blocks;
    let said = on(&Nobody(vec![0..5, 5..blocks]), &plan()).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("blocks 1 to 5 were lost 20 times"), "{said}");
    let few = Arc::new(data().subset(&[0, 1, 2]));
    let said = Worker::new(Arc::new(TOY), few, 2..4, shape(&plan())).map(|_| ()).unwrap_err().to_string();
    assert_eq!(said, "blocks 3 to 4 have 26 rows, but a worker was given 3");
}
