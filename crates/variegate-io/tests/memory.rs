//! A text table is read in little more memory than it takes in the end. A file of its own, since the peak belongs to the process.
#![cfg(target_os = "linux")]

use std::io::{BufWriter, Write};

use flate2::{Compression, write::GzEncoder};
use variegate_io::read::{ColumnSpec, ReadOptions, push_number, read};

/// The most memory this process ever held, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn write_rows(mut out: impl Write, rows: usize, cols: usize) {
    let header: Vec<String> = (0..cols).map(|j| format!("f{j}")).collect();
    writeln!(out, "{},y", header.join(",")).unwrap();
    let (mut line, mut state) = (String::new(), 1u64);
    for i in 0..rows {
        line.clear();
        for _ in 0..cols {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            push_number(&mut line, (state >> 40) as f64 / 1024.0);
            line.push(',');
        }
        writeln!(out, "{line}{}", i % 3).unwrap();
    }
    out.flush().unwrap();
}

#[test]
fn the_peak_is_below_one_and_a_half_times_the_matrix() {
    let (rows, cols) = (80_000, 50);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
    write_rows(BufWriter::new(file("t.csv")), rows, cols);
    write_rows(GzEncoder::new(BufWriter::new(file("t.csv.gz")), Compression::fast()), rows, cols);
    let options = ReadOptions { target: Some(ColumnSpec::column("y")), ..ReadOptions::default() };
    let before = peak();
    for name in ["t.csv", "t.csv.gz"] {
        let d = read(&dir.path().join(name), &options).unwrap();
        assert_eq!((d.rows(), d.x.cols()), (rows, cols));
        let (held, most) = (d.memory_bytes(), peak() - before);
        assert!(2 * most < 3 * held, "{name}: {most} bytes at the peak for {held} bytes of data");
    }
}
