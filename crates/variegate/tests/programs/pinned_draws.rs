//! The first draws of every program stay what they are: a change that alters them is no refactoring.
//!
//! `pinned_draws.txt` holds, for each case of `cases`, the objective of the first sweeps of each chain, the first draw, a hash over the bits of
//! all draws, and what the fit then says of rows. Results belong to a kind of processor (linear algebra picks its instructions at run
//! time): on the kind named at the top of the file every bit must agree, elsewhere six digits of the numbers.
//!
//! A change that is meant is written down by `VARIEGATE_PIN=write cargo test --workspace --test programs`, and announced in
//! the changelog under "Draws change".

use std::collections::BTreeMap;
use std::fmt::Write;
use variegate::answer::{LabelRule, WhichTree};
use variegate::data::Dataset;
use variegate::model::{RunSettings, fit};
use variegate::run::Unobserved;

use super::cases::{Case, cases};

const PINNED: &str = include_str!("pinned_draws.txt");
/// Numbers of a draw that are shown; the hash is over all.
const SHOWN: usize = 8;
/// What other processors may differ by, relative to the number.
const TOLERANCE: f64 = 1e-6;

/// FNV-1a over the bits of numbers.
fn hash(values: &[f64]) -> u64 {
    values.iter().flat_map(|v| v.to_bits().to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

/// What is written of some numbers: their hash, and the first of them.
fn line(values: &[f64]) -> String {
    let shown = values.iter().take(SHOWN).map(|v| v.to_string()).collect::<Vec<_>>().join(" ");
    format!("{:016x} {} {shown}", hash(values), values.len())
}

/// What a case gives: by name, some numbers.
fn run(case: &Case) -> Vec<(String, Vec<f64>)> {
    let run = RunSettings::default().seed(11).threads(2).block_rows(case.block_rows);
    let fitted = fit(case.model().as_ref(), &case.data, &run, &mut Unobserved).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut out = Vec::new();
    for chain in &fitted.kept.chains {
        let name = |what: &str| format!("{} | chain {} | {what}", case.name, chain.chain);
        out.push((name("objective"), chain.trace.iter().map(|(_, r)| r.objective).collect()));
        if chain.draws.count > 0 {
            out.push((name("draws"), chain.draws.scalars.values.clone()));
        }
        if chain.draws.components.rows() > 0 {
            out.push((name("components"), chain.draws.components.values.clone()));
        }
    }
    out.push((format!("{} | answer", case.name), answer(fitted.posterior.as_ref(), &case.data)));
    out
}

/// What the fit says of its rows.
fn answer(posterior: &dyn variegate::answer::Posterior, data: &Dataset<'_>) -> Vec<f64> {
    if let Ok(clusters) = posterior.clusters() {
        return clusters.place(data, WhichTree::Point).unwrap().through;
    }
    if !posterior.predicts() {
        return posterior.transform(data).unwrap().values;
    }
    if posterior.outputs() > 0 {
        return posterior.predict_real(data, &[], "").unwrap().mean;
    }
    if !posterior.labels().is_empty() {
        return posterior.predict_labels(data, &LabelRule::default()).unwrap().probability;
    }
    posterior.predict(data, "").unwrap().probability
}

/// The kind of processor, as far as results depend on it.
fn processor() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return "x86_64 avx512f";
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            return "x86_64 avx2 fma";
        }
        "x86_64"
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH
}

#[test]
fn the_first_draws_are_pinned() {
    let found: Vec<(String, Vec<f64>)> = cases().iter().flat_map(run).collect();
    if std::env::var("VARIEGATE_PIN").is_ok_and(|v| v == "write") {
        let mut text = format!("processor: {}\n", processor());
        for (name, values) in &found {
            writeln!(text, "{name}: {}", line(values)).unwrap();
        }
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/pinned_draws.txt"), text).unwrap();
        return;
    }
    let mut lines = PINNED.lines();
    let same_processor = lines.next().unwrap_or_default() == format!("processor: {}", processor());
    let mut pinned: BTreeMap<&str, &str> = lines.filter_map(|l| l.split_once(": ")).collect();
    let mut changed = Vec::new();
    for (name, values) in &found {
        let Some(expected) = pinned.remove(name.as_str()) else {
            changed.push(format!("{name}: not pinned yet"));
            continue;
        };
        let now = line(values);
        if now != expected && (same_processor || !close(&now, expected)) {
            changed.push(format!("{name}:\n  pinned {expected}\n  now    {now}"));
        }
    }
    changed.extend(pinned.keys().map(|name| format!("{name}: pinned, but no longer there")));
    assert!(changed.is_empty(), "{} of {} lines changed:\n{}", changed.len(), found.len(), changed.join("\n"));
}

/// Whether two lines hold as many numbers, and the first of them agree to six digits.
fn close(a: &str, b: &str) -> bool {
    let numbers = |l: &str| -> Vec<f64> { l.split(' ').skip(1).filter_map(|w| w.parse().ok()).collect() };
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(x, y)| (x - y).abs() <= TOLERANCE * (1.0 + x.abs().max(y.abs())) || x.is_nan() && y.is_nan())
}
