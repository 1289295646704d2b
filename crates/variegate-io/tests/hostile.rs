//! Files that nobody should have written: every reader answers with data or an error, never with a panic, and never asks for
//! memory that a small file cannot justify.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use variegate::data::{Needs, TargetKind};
use variegate_io::read::{ColumnSpec, Format, IndexBase, ReadOptions, Schema, read, read_features};

/// Cases are fixed, so that a run repeats; HOSTILE_SEED gives others and HOSTILE_SCALE more of them.
fn config(cases: u32) -> ProptestConfig {
    let from = |name: &str, otherwise: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise);
    ProptestConfig {
        cases: cases * from("HOSTILE_SCALE", 1) as u32,
        rng_seed: RngSeed::Fixed(from("HOSTILE_SEED", 1)),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Every case of this file holds no more than this much memory at once.
const MEMORY: usize = 1 << 30;

fn samples(extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == extension));
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).unwrap()).collect()
}

/// Reads the bytes in every way; what comes out must be clean.
fn try_all(name: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let column = |name: &str| Some(ColumnSpec::column(name));
    let ways = [
        ReadOptions::default(),
        ReadOptions { target: column("y"), target_kind: TargetKind::Labels, header: false, ..ReadOptions::default() },
        ReadOptions { target: column("label"), target_kind: TargetKind::Real, index_base: IndexBase::One, ..ReadOptions::default() },
        ReadOptions { target: column("*"), sources: column("x0"), weights: column("1"), header: false, ..ReadOptions::default() },
        ReadOptions { columns: Some(vec!["a".into()]), target: column("label"), delimiter: Some(b'\0'), ..ReadOptions::default() },
        ReadOptions { target: Some(ColumnSpec::File { path: path.clone(), columns: vec![] }), ..ReadOptions::default() },
    ];
    for options in &ways {
        match read(&path, options) {
            Err(e) => assert!(!e.to_string().is_empty()),
            Ok(d) => {
                assert!(d.rows() > 0 && d.x.cols() > 0 && d.memory_bytes() < MEMORY);
                // weights are checked by the model's door, features are clean already
                let clean = variegate::data::Dataset { weights: None, ..d };
                assert_eq!(clean.check(Needs::FEATURES), Ok(()));
            }
        }
    }
    let schema = Schema { columns: vec![], width: 3 };
    if let Ok(d) = read_features(&path, &schema, &ReadOptions::default()) {
        assert_eq!(d.x.cols(), 3);
    }
}

const NAMES: [&str; 10] = ["f.csv", "f.tsv", "f.parquet", "f.svm", "f.mtx", "f.npy", "f.npz", "f.csv.gz", "f.mtx.gz", "f.txt"];

#[derive(Debug, Clone)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    Set(usize, u8),
    Insert(usize, u8),
    Drop(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || any::<prop::sample::Index>().prop_map(|i| i.index(1 << 20));
    prop_oneof![
        at().prop_map(Damage::Cut),
        (at(), 0u8..8).prop_map(|(a, b)| Damage::Flip(a, b)),
        (at(), prop_oneof![Just(0xff), Just(0), Just(b'9'), Just(b'\n'), Just(b'-'), any::<u8>()]).prop_map(|(a, b)| Damage::Set(a, b)),
        (at(), prop_oneof![Just(b'9'), Just(b','), Just(b'"'), any::<u8>()]).prop_map(|(a, b)| Damage::Insert(a, b)),
        (at(), 1usize..9).prop_map(|(a, n)| Damage::Drop(a, n)),
    ]
}

fn hurt(bytes: &mut Vec<u8>, damage: &Damage) {
    let n = bytes.len();
    if n == 0 {
        return;
    }
    match *damage {
        Damage::Cut(at) => bytes.truncate(at % n),
        Damage::Flip(at, bit) => bytes[at % n] ^= 1 << bit,
        Damage::Set(at, value) => bytes[at % n] = value,
        Damage::Insert(at, value) => bytes.insert(at % n, value),
        Damage::Drop(at, count) => {
            bytes.drain(at % n..(at % n + count).min(n));
        }
    }
}

/// Valid files with a few wounds. `cases` sets the time it takes.
fn wounded(extension: &str, cases: u32) {
    let files = samples(extension);
    let mut runner = TestRunner::new(config(cases));
    let strategy = (0..files.len(), prop::collection::vec(damage(), 1..4));
    runner
        .run(&strategy, |(which, wounds)| {
            let mut bytes = files[which].clone();
            wounds.iter().for_each(|w| hurt(&mut bytes, w));
            try_all(&format!("f.{extension}"), &bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn wounded_text() {
    wounded("csv", 300);
    wounded("svm", 300);
    wounded("mtx", 500);
}

#[test]
fn wounded_arrays() {
    wounded("npy", 500);
    wounded("npz", 600);
}

#[test]
fn wounded_parquet() {
    wounded("parquet", 1500);
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn random_bytes(which in 0..NAMES.len(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        try_all(NAMES[which], &bytes);
    }

    /// Random bytes behind the right first bytes get further.
    #[test]
    fn random_bytes_behind_a_true_start(which in 0..4usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (name, start): (_, &[u8]) = [
            ("f.npy", &b"\x93NUMPY\x01\x00"[..]),
            ("f.npz", &b"PK\x03\x04"[..]),
            ("f.parquet", &b"PAR1"[..]),
            ("f.csv.gz", &b"\x1f\x8b\x08\x00"[..]),
        ][which];
        let mut all = [start, &bytes].concat();
        if name == "f.parquet" {
            all.extend((bytes.len() as u32).to_le_bytes());
            all.extend(b"PAR1");
        }
        try_all(name, &all);
    }

    /// Text made of the pieces that mean something to the readers.
    #[test]
    fn random_words(
        which in 0..5usize,
        words in prop::collection::vec(prop::sample::select(vec![
            "1", "0", "-1", "1:2", "2:0.5", "0:1", "qid:3", "#", "%", "1,2", "\n", "\n", "\n", " ", ",", ",", "\t", "\"", "a", "y", "x0", "label",
            "1e400", "nan", "inf", "NA", "99999999999", "4294967295:1", "\r", "\u{feff}", "ä", "3 3 2", "2 2", "1 1 5", "*", ".5e-3",
        ]), 0..60),
    ) {
        let (name, start) = [
            ("f.csv", ""),
            ("f.tsv", "a\tb\n"),
            ("f.svm", ""),
            ("f.mtx", "%%MatrixMarket matrix coordinate real general\n"),
            ("f.mtx", "%%MatrixMarket matrix array integer symmetric\n"),
        ][which];
        try_all(name, (start.to_owned() + &words.concat()).as_bytes());
    }
}

/// Headers that claim endless data.
#[test]
fn forged_sizes() {
    let npy = |shape: &str, descr: &str| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[0u8; 64]].concat()
    };
    for shape in
        ["(18446744073709551615, 2)", "(4294967296, 4294967296)", "(1000000000000,)", "(8, 1000000000)", "(0, 5)", "()", "(5", "(-1,)"]
    {
        for descr in ["<f8", "|u1", "<U5", "<f99999999999999999999", "<f16", ""] {
            try_all("f.npy", &npy(shape, descr));
        }
    }
    let mtx = "%%MatrixMarket matrix";
    for text in [
        format!("{mtx} coordinate real general\n4000000000 4000000000 1\n1 1 1\n"),
        format!("{mtx} coordinate real general\n1000000000 1 0\n"),
        format!("{mtx} coordinate real general\n99999999999999999999 1 0\n"),
        format!("{mtx} coordinate pattern general\n2 2 99999999999999\n1 1\n"),
        format!("{mtx} array real general\n4000000000 4000000000\n1\n"),
        format!("{mtx} array real general\n1000000 1000000\n1\n"),
        format!("{mtx} array real general\n0 0\n"),
        format!("{mtx} array real general\n5 0\n"),
    ] {
        try_all("f.mtx", text.as_bytes());
    }
    for text in ["1 4294967294:1\n", "1 4294967295:1\n", "1 4294967296:1\n", "1 1:1 1:2\n", "1 -1:1\n", ":1\n", "1 :1\n", "1\n"] {
        try_all("f.svm", text.as_bytes());
    }
}

#[test]
fn empty_files() {
    for name in NAMES {
        try_all(name, b"");
        try_all(name, b"\n");
    }
    assert!(Format::of(Path::new("f.npz")).is_some());
}
