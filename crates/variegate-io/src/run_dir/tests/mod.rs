//! The promises of the run directory, on a toy whose chains are nothing but numbers.

use serde_json::json;
use std::fs;
use std::path::Path;
use variegate::run::{Draws, Piece, Plan, Report, Schedule, Storage};

use super::disk::Disk;
use super::fuse::{Death, Fuse};
use super::*;

mod crash;
mod damage;
mod doors;
mod folding;
mod generations;
mod round_trip;

/// A chain whose state is one number, scrambled at every sweep.
#[derive(Clone, Copy)]
struct Toy {
    /// Length of its vector.
    width: usize,
    /// Whether draws also have a changing number of components.
    components: bool,
    /// Sweeps between two commits.
    stride: u64,
}

const TOY: Toy = Toy { width: 2, components: true, stride: 3 };

fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    x ^ (x >> 29)
}

fn number(x: u64) -> f64 {
    f64::from_bits((x & !(0x7ff << 52)) | (1000 << 52))
}

fn plan() -> Plan {
    Plan { seed: 5, chains: 2, schedule: Schedule::Sample { warm_up: 2, draws: 10, thin: 1 }, block_rows: 7 }
}

fn record() -> RunRecord {
    let model = json!({"prior_scale": 0.1, "name": "tilted", "none": null});
    let data =
        DataReference { path: Some("/data/train.csv".into()), given: Some("train.csv".into()), fingerprint: 77, ..Default::default() };
    RunRecord::new("toy", "toy/walk", model.as_object().unwrap().clone(), plan(), data, b"schema bytes".to_vec())
}

impl Toy {
    fn sweep(&self, state: u64, sweep: u64) -> (u64, Report) {
        let state = scramble(state);
        let mut extras = vec![("step".to_string(), number(state) * 2.0)];
        if sweep == 1 {
            extras = vec![];
        }
        if sweep > 8 {
            extras.push(("late".into(), if sweep == 9 { f64::NAN } else { 1.0 }));
        }
        let objective = if sweep == 2 { f64::NEG_INFINITY } else { number(state) };
        (state, Report { objective, components: sweep as u32, converged: false, extras })
    }

    fn draw(&self, state: u64, out: &mut Draws) {
        out.scalar("value", number(state));
        out.vector("beta", &(0..self.width as u64).map(|i| number(scramble(state ^ i))).collect::<Vec<_>>());
        if self.components {
            for k in 0..(state % 4) as usize {
                out.component(k, &[("mean", &vec![number(state + k as u64); self.width]), ("weight", &[k as f64])]);
            }
        }
        out.finish();
    }

    /// Runs what is left of a run, committing every few sweeps, both chains in one commit.
    fn go_on(&self, run: &mut dyn Storage, stop_at: u64) -> variegate::Result<()> {
        let total = plan().schedule.sweeps();
        let mut chains = Vec::new();
        for chain in 0..plan().chains {
            let kept = run.kept(chain)?;
            let (sweeps, state) = kept.as_ref().map_or((0, u64::from(chain)), |k| {
                (u64::from_le_bytes(k.checkpoint[..8].try_into().unwrap()), u64::from_le_bytes(k.checkpoint[8..].try_into().unwrap()))
            });
            chains.push((chain, sweeps, state, kept.map_or(0, |k| k.draws)));
        }
        while chains.iter().any(|c| c.1 < total.min(stop_at)) {
            let mut pieces = Vec::new();
            for (chain, sweeps, state, draws) in &mut chains {
                let mut piece = Piece {
                    chain: *chain,
                    sweeps: 0,
                    draws: Draws::starting_at(*draws),
                    trace: vec![],
                    checkpoint: vec![],
                    finished: false,
                };
                for _ in 0..self.stride {
                    if *sweeps < total {
                        *sweeps += 1;
                        let (next, report) = self.sweep(*state, *sweeps);
                        *state = next;
                        piece.trace.push((*sweeps, report));
                        if *sweeps > 2 {
                            self.draw(*state, &mut piece.draws);
                        }
                    }
                }
                *draws += piece.draws.count;
                piece.sweeps = *sweeps;
                piece.checkpoint = [sweeps.to_le_bytes(), state.to_le_bytes()].concat();
                piece.finished = *sweeps == total;
                pieces.push(piece);
            }
            run.commit(pieces)?;
        }
        Ok(())
    }

    /// What an undisturbed run keeps.
    fn whole(&self) -> variegate::run::Memory {
        let mut memory = variegate::run::Memory::default();
        self.go_on(&mut memory, u64::MAX).unwrap();
        memory
    }

    fn assert_complete(&self, run: &RunDir) {
        let whole = self.whole();
        assert!(run.status().complete);
        let bits = |d: &Draws| d.scalars.values.iter().chain(&d.components.values).map(|v| v.to_bits()).collect::<Vec<_>>();
        for ((kept, draws), trace) in whole.chains.iter().zip(run.draws().unwrap()).zip(run.trace().unwrap()) {
            assert_eq!(bits(&kept.draws), bits(&draws));
            assert_eq!(kept.draws, draws);
            assert_eq!(format!("{:?}", kept.trace), format!("{trace:?}")); // as text, because NaN is not itself
            assert_eq!(run.checkpoint(kept.chain).unwrap().unwrap(), kept.checkpoint);
        }
    }
}

/// A folder in memory where there is one: bringing thousands of files to a real disk takes minutes.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::tempdir_in(root).unwrap()
}

fn files(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()).into_iter().map(|f| format!("{name}/{f}")));
        } else {
            all.push(name);
        }
    }
    all.sort();
    all
}

fn finished(folder: &Path, toy: Toy) -> RunDir {
    let mut run = RunDir::create(folder, &record(), false).unwrap();
    toy.go_on(&mut run, u64::MAX).unwrap();
    run
}
