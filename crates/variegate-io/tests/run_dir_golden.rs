//! A run written in format version 1 stays readable, and can be gone on with, for ever.
//!
//! `tests/golden/run-v1` was written by `cargo test -p variegate-io --test run_dir_golden -- --ignored` with the code of
//! the first release of the format. It is never written again: a new format gets a folder of its own.

use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use variegate::run::{Draws, Piece, Plan, Report, Schedule, Storage};
use variegate_io::run_dir::{DataReference, Machine, RunDir, RunRecord};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run-v1")
}

fn record() -> RunRecord {
    let model = json!({"prior_scale": 2.5, "bound": "tilted", "limit": null, "sizes": [1, 2]});
    RunRecord {
        family: "toy".into(),
        program: "toy/walk".into(),
        model: model.as_object().unwrap().clone(),
        plan: Plan { seed: u64::MAX, chains: 2, schedule: Schedule::Sample { warm_up: 1, draws: 4, thin: 1 }, block_rows: 512 },
        data: DataReference {
            path: Some("/data/train.csv".into()),
            given: Some("train.csv".into()),
            reader: json!({"format": "csv", "target": "y"}),
            fingerprint: 0x0123_4567_89ab_cdef,
            fingerprint_version: None,
            rows: 100,
            columns: 3,
        },
        created_at: "2025-01-02T03:04:05Z".into(),
        variegate_version: "0.1.0".into(),
        machine: Machine { architecture: "x86_64".into(), instruction_sets: vec!["avx2".into()], caches: vec!["L1 Data 48K".into()] },
        class_type: None,
        source_type: None,
        schema: b"opaque schema".to_vec(),
    }
}

/// Sweeps `from + 1` to `to` of a chain.
fn piece(chain: u32, from: u64, to: u64) -> Piece {
    let number = |a: u64, b: usize| ((a * 7 + b as u64 * 3 + u64::from(chain)) % 64) as f64 / 8.0 - 4.0;
    let mut draws = Draws::starting_at(from.saturating_sub(1));
    let mut trace = Vec::new();
    for sweep in from + 1..=to {
        let objective = if sweep == 2 { f64::NEG_INFINITY } else { number(sweep, 0) };
        let extras = if sweep > 2 { vec![("step".to_string(), number(sweep, 1))] } else { vec![] };
        trace.push((sweep, Report { objective, components: sweep as u32, converged: false, extras }));
        if sweep > 1 {
            draws.scalar("log_joint", number(sweep, 2));
            draws.vector("beta", &[number(sweep, 3), number(sweep, 4)]);
            draws.vector("long", &(0..301).map(|i| number(sweep, i)).collect::<Vec<_>>());
            for k in 0..sweep as usize % 3 {
                draws.component(k, &[("mean", &[number(sweep, k), 0.5])]);
            }
            draws.finish();
        }
    }
    Piece { chain, sweeps: to, draws, trace, checkpoint: vec![chain as u8, to as u8], finished: to == 5 }
}

#[test]
fn version_one_stays_readable() {
    let run = RunDir::read(folder()).unwrap();
    assert_eq!(run.record(), &record());
    let status = run.status();
    assert!(!status.complete && !status.running);
    for chain in 0..2 {
        let kept = &run.pieces().unwrap()[chain];
        let expected = piece(chain as u32, 0, 4);
        assert_eq!(kept.draws, expected.draws);
        assert_eq!(kept.trace, expected.trace);
        assert_eq!(kept.checkpoint, expected.checkpoint);
        assert_eq!((kept.sweeps, kept.finished), (4, false));
        assert_eq!(status.chains[chain].last, expected.trace.last().map(|t| t.1.clone()));
    }
}

#[test]
fn version_one_can_be_gone_on_with() {
    let copy = tempfile::tempdir().unwrap();
    for inside in ["", "draws", "trace", "checkpoints"] {
        fs::create_dir_all(copy.path().join(inside)).unwrap();
        for file in fs::read_dir(folder().join(inside)).unwrap().map(|f| f.unwrap()) {
            if file.file_type().unwrap().is_file() {
                fs::copy(file.path(), copy.path().join(inside).join(file.file_name())).unwrap();
            }
        }
    }
    let mut run = RunDir::open(copy.path()).unwrap();
    run.commit((0..2).map(|chain| piece(chain, 4, 5)).collect()).unwrap();
    let run = RunDir::read(copy.path()).unwrap();
    assert!(run.status().complete);
    for (chain, kept) in run.pieces().unwrap().iter().enumerate() {
        let expected = piece(chain as u32, 0, 5);
        assert_eq!((&kept.draws, &kept.trace, &kept.checkpoint), (&expected.draws, &expected.trace, &expected.checkpoint));
    }
}

#[test]
#[ignore = "writes the stored example of a new format version"]
fn write_golden() {
    let mut run = RunDir::create(folder(), &record(), false).unwrap();
    run.commit((0..2).map(|chain| piece(chain, 0, 2)).collect()).unwrap();
    run.commit((0..2).map(|chain| piece(chain, 2, 4)).collect()).unwrap();
    drop(run);
    // a lock comes with whoever opens the run to write
    fs::remove_file(folder().join("lock")).unwrap();
}
