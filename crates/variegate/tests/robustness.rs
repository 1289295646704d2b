//! Whatever settings and tables a family is given: a result, or an error in words. Never a panic, never a probability that is none.
//!
//! Cases are drawn from seeded streams, so that a failing one is named by its number and comes back.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use variegate::answer::{HeldOutEffort, LabelRule, Posterior, SummaryTable, WhichTree};
use variegate::data::{Classes, Dataset, LabelSets, Matrix, Target, TargetKind};
use variegate::model::{FAMILIES, Family, Kind, RunSettings, Setting, fit};
use variegate::run::{Philox, Purpose, Stream, Unobserved};

/// Tables that could be fitted, so that a test in which everything is refused does not pass for one.
static FITTED: AtomicU64 = AtomicU64::new(0);

fn pick<T: Clone>(rng: &mut Philox, from: &[T]) -> T {
    from[rng.random_range(0..from.len())].clone()
}

fn chance(rng: &mut Philox, p: f64) -> bool {
    rng.random::<f64>() < p
}

fn word(rng: &mut Philox) -> String {
    let words = ["", "tilted", "joint", "none", "true", "0", "NaN", "ü", "a b", "--seed", "\0", "DOUBLE", "auto"];
    pick(rng, &words).to_string()
}

/// Anything that JSON can hold.
fn anything(rng: &mut Philox) -> Value {
    match rng.random_range(0..9) {
        0 => Value::Null,
        1 => json!(chance(rng, 0.5)),
        2 => json!(word(rng)),
        3 => json!([1, 2]),
        4 => json!({ "a": 1 }),
        5 => json!(pick(rng, &[0u64, 1, 2, 1000, 1001, u32::MAX as u64, u64::MAX])),
        6 => json!(pick(rng, &[-1i64, i64::MIN, -1000])),
        7 => json!(pick(rng, &[0.0, -0.0, 0.5, -1.5, 1e-320, f64::MIN_POSITIVE, 1e308, f64::MAX, f64::MIN, 1e-12])),
        _ => json!(10.0 * entry(rng, 0.0)),
    }
}

/// A value that the table allows, often at its edge; counts stay small, because a fit is to end.
fn allowed(rng: &mut Philox, setting: &Setting) -> Value {
    let number = |rng: &mut Philox, above: f64, most: f64| {
        let wild = pick(rng, &[1e-300, 1e-12, 1e-3, 0.1, 1.0, 3.0, 1e3, 1e12, 1e300, most]);
        json!(if wild > above && wild <= most { wild } else { 0.5 * (above + most.min(above + 1.0)) })
    };
    match setting.kind {
        Kind::Integer { least, most } => json!((least + rng.random_range(0..6)).min(most)),
        Kind::Number { above, most } => number(rng, above, most),
        Kind::OptionalInteger { .. } if chance(rng, 0.3) => Value::Null,
        Kind::OptionalInteger { least, most } => json!((least + rng.random_range(0..6)).min(most)),
        Kind::OptionalNumber { .. } if chance(rng, 0.3) => Value::Null,
        Kind::OptionalNumber { above, most } => number(rng, above, most),
        Kind::Word(words) => json!(pick(rng, words)),
        Kind::Switch => json!(chance(rng, 0.5)),
        Kind::Text { optional: true, .. } if chance(rng, 0.3) => Value::Null,
        Kind::Text { admits, .. } => {
            let fitting: Vec<&str> = TEXTS.iter().copied().filter(|t| admits(t)).collect();
            json!(pick(rng, &fitting))
        }
        Kind::NumberOrText { optional: true, .. } if chance(rng, 0.3) => Value::Null,
        Kind::NumberOrText { admits, .. } => {
            let mut fitting: Vec<Value> = TEXTS.iter().map(|t| json!(t)).filter(admits).collect();
            fitting.extend([number(rng, 0.0, f64::MAX), json!(1.0)]);
            fitting[rng.random_range(0..fitting.len())].clone()
        }
        Kind::Nested { admits, .. } => {
            let some = [json!([2, 1]), json!(["expert", ["expert", "expert"]]), json!([{ "subclasses": [2, 1] }, 1]), Value::Null];
            let fitting: Vec<Value> = some.into_iter().filter(|v| v.is_null() || admits(v)).collect();
            fitting[rng.random_range(0..fitting.len())].clone()
        }
    }
}

/// Texts that one setting or another takes.
const TEXTS: [&str; 18] = [
    "auto",
    "auto:2",
    "all:2",
    "compressive:2",
    "1",
    "2",
    "2,1",
    "3,1,2",
    "joint",
    "child",
    "diag",
    "block:2",
    "lowrank:1",
    "lowrank:9",
    "none",
    "polynomial:2",
    "fourier:5",
    "fourier:3:0.5",
];

/// Settings that fit the table, each given now and then; the counts always, because their defaults are for real work.
fn sensible(rng: &mut Philox, table: &[Setting]) -> Map<String, Value> {
    let mut out = Map::new();
    for setting in table {
        if matches!(setting.kind, Kind::Integer { .. }) || chance(rng, 0.25) {
            out.insert(setting.name.into(), allowed(rng, setting));
        }
    }
    out
}

/// Settings of a family. What another setting makes meaningless is refused by name, which says little of the rest: mostly left out then.
fn fitting(rng: &mut Philox, family: &'static dyn Family) -> Map<String, Value> {
    let table = family.settings();
    let mut out = sensible(rng, &table);
    if chance(rng, 0.1) {
        return out;
    }
    while let Err(variegate::Error::Setting { name, .. }) = family.configure(&out) {
        if out.remove(&name).is_none() {
            break;
        }
    }
    // counts that were refused beside a setting that has gone since
    for setting in table.iter().filter(|s| matches!(s.kind, Kind::Integer { .. })) {
        if !out.contains_key(setting.name) {
            out.insert(setting.name.into(), allowed(rng, setting));
            if family.configure(&out).is_err() {
                out.remove(setting.name);
            }
        }
    }
    out
}

fn entry(rng: &mut Philox, wildness: f64) -> f64 {
    if chance(rng, wildness) {
        pick(rng, &[0.0, 1e300, -1e300, f64::MAX, 1e-300, f64::MIN_POSITIVE, 5e-324, 1e154, f64::NAN, f64::INFINITY, 1e9])
    } else {
        StandardNormal.sample(rng)
    }
}

/// A small table, sound or not.
fn table(rng: &mut Philox) -> Dataset<'static> {
    let rows = if chance(rng, 0.05) { 0 } else { rng.random_range(1..14) };
    let cols = if chance(rng, 0.05) { 0 } else { rng.random_range(1..5) };
    let wildness = pick(rng, &[0.0, 0.0, 0.05, 0.5]);
    let mut values: Vec<f64> = (0..rows * cols).map(|_| entry(rng, wildness)).collect();
    if chance(rng, 0.3) && cols > 0 {
        let constant = entry(rng, 0.3);
        values.iter_mut().step_by(cols).for_each(|v| *v = constant);
    }
    let x = if chance(rng, 0.3) { sparse(rng, rows, cols, &values) } else { Matrix::dense(rows, cols, values) };
    let length = |rng: &mut Philox, n: usize| if chance(rng, 0.03) { n + 1 } else { n };
    let mut data = Dataset::new(x);
    if chance(rng, 0.7) {
        data.columns = (0..length(rng, cols)).map(|j| if chance(rng, 0.02) { word(rng) } else { format!("c{j}") }).collect();
    }
    let n = length(rng, rows);
    data.target = match rng.random_range(0..20) {
        0 => Target::None,
        1..=3 => Target::Real { width: 1, values: (0..n).map(|_| entry(rng, wildness)).collect() },
        4 => Target::Labels(LabelSets { names: vec!["l".into()], values: (0..n).map(|_| rng.random_range(0..4) as i8 - 1).collect() }),
        _ => {
            let classes = pick(rng, &[1, 2, 2, 2, 3, 5]);
            let beyond = chance(rng, 0.03) as u32;
            let codes = (0..n).map(|_| rng.random_range(0..classes + beyond)).collect();
            Target::Classes(Classes { codes, names: (0..classes).map(|c| format!("k{c}")).collect() })
        }
    };
    if chance(rng, 0.3) {
        let weights = [1.0, 2.0, 0.0, 0.5, 1e300, -1.0, f64::NAN];
        let usual = chance(rng, 0.7);
        data.weights = Some((0..length(rng, rows)).map(|_| pick(rng, if usual { &weights[..3] } else { &weights })).collect());
    }
    if chance(rng, 0.1) {
        data.sources = Some(Classes { codes: vec![rng.random_range(0..2); length(rng, rows)], names: vec!["s".into()] });
    }
    data
}

/// Sparse rows of the same numbers, now and then with a broken structure.
fn sparse(rng: &mut Philox, rows: usize, cols: usize, values: &[f64]) -> Matrix<'static> {
    let (mut indptr, mut indices, mut stored) = (vec![0], Vec::new(), Vec::new());
    for i in 0..rows {
        for j in 0..cols {
            if chance(rng, 0.6) {
                indices.push(j as u32);
                stored.push(values[i * cols + j]);
            }
        }
        indptr.push(indices.len());
    }
    if chance(rng, 0.1) && !indices.is_empty() {
        let at = rng.random_range(0..indices.len());
        match rng.random_range(0..4) {
            0 => indices[at] = pick(rng, &[u32::MAX, cols as u32, 0]),
            1 => indptr[rows] += 1,
            2 => indptr[0] = 1,
            _ => drop(stored.pop()),
        }
    }
    Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: stored.into() }
}

/// Runs `case` for each number and collects the panics, so that one run shows them all.
fn survive(what: &str, cases: u64, case: impl Fn(&mut Philox) -> Result<(), String>) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST.lock() {
            *last = info.to_string();
        }
    }));
    let mut bad = Vec::new();
    for number in 0..cases {
        let mut rng = Stream::new(2024, 0, Purpose::Check).item(number).rng();
        match catch_unwind(AssertUnwindSafe(|| case(&mut rng))) {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => bad.push(format!("case {number}: {wrong}")),
            Err(_) => bad.push(format!("case {number} panicked: {}", LAST.lock().map(|l| l.clone()).unwrap_or_default())),
        }
    }
    std::panic::set_hook(loud);
    assert!(bad.is_empty(), "{what}: {} of {cases} cases are bad\n{}", bad.len(), bad[..bad.len().min(10)].join("\n"));
}

/// An error must be a sentence that a person can use.
fn readable(error: &variegate::Error) -> Result<(), String> {
    let text = error.to_string();
    let raw = ["Some(", "None", "Err(", "{ "].iter().any(|r| text.contains(r));
    if text.len() < 15 || raw { Err(format!("not a message for people: {text}")) } else { Ok(()) }
}

/// The hook of a panic belongs to the process: one test at a time may change it.
#[test]
fn long_nothing_a_user_gives_makes_a_family_panic() {
    for family in FAMILIES {
        survive(&format!("settings of {}", family.name()), 3000, |rng| settings(*family, rng));
        survive(&format!("simulations of {}", family.name()), 60, |rng| simulations(*family, rng));
        FITTED.store(0, Ordering::Relaxed);
        survive(&format!("fits of {}", family.name()), 1500, |rng| fits(*family, rng));
        let fitted = FITTED.load(Ordering::Relaxed);
        assert!(fitted > 150, "only {fitted} of 1500 tables could be fitted to {}: too few to learn from", family.name());
    }
}

/// Settings of any kind: taken as they are, or refused by name.
fn settings(family: &'static dyn Family, rng: &mut Philox) -> Result<(), String> {
    let table = family.settings();
    let mut given = Map::new();
    for _ in 0..rng.random_range(0..4) {
        let setting = pick(rng, &table);
        let value = if chance(rng, 0.5) { anything(rng) } else { allowed(rng, &setting) };
        given.insert(if chance(rng, 0.05) { word(rng) } else { setting.name.into() }, value);
    }
    let admitted = given.iter().all(|(name, value)| table.iter().any(|s| s.name == name && s.kind.admits(value)));
    match family.configure(&given) {
        Ok(_) if !admitted => Err(format!("took {given:?}")),
        Ok(model) => {
            let all = model.settings();
            // a number in quotes is that number
            let number = |v: &Value| v.as_f64().or_else(|| v.as_str()?.parse().ok());
            let kept = given.iter().all(|(name, value)| all.get(name).is_some_and(|v| v == value || number(v) == number(value)));
            if kept { Ok(()) } else { Err(format!("{given:?} became {all:?}")) }
        }
        Err(error) => {
            readable(&error)?;
            let named = given.keys().any(|name| error.to_string().contains(&format!("`{name}`")));
            if named { Ok(()) } else { Err(format!("{given:?}: no setting is named in: {error}")) }
        }
    }
}

/// Simulations with any valid settings: finite numbers, or an error.
fn simulations(family: &'static dyn Family, rng: &mut Philox) -> Result<(), String> {
    let Ok(model) = family.configure(&fitting(rng, family)) else { return Ok(()) };
    let request = if chance(rng, 0.2) { Map::from_iter([(word(rng), anything(rng))]) } else { sensible(rng, &family.simulate_settings()) };
    match model.simulate(rng.random_range(0..20), &request, rng.next_u64()) {
        Err(error) => readable(&error),
        Ok(simulation) if simulation.data.x.to_dense().iter().all(|v| v.is_finite()) => Ok(()),
        Ok(_) => Err("simulated numbers that are not finite".into()),
    }
}

/// Fits of any small table with any valid settings, and predictions of the same and of other tables.
fn fits(family: &'static dyn Family, rng: &mut Philox) -> Result<(), String> {
    let given = fitting(rng, family);
    let model = match family.configure(&given) {
        Ok(model) => model,
        Err(error) => return readable(&error),
    };
    let mut data = table(rng);
    // of the tables that are, hardly one holds counts
    if model.target().is_none() && chance(rng, 0.7) {
        count(&mut data);
    }
    // and few hold sets of labels
    if model.target() == Some(TargetKind::Labels) && chance(rng, 0.8) {
        let labels = pick(rng, &[1, 2, 3]);
        let values = (0..data.rows() * labels).map(|_| rng.random_range(0..3) - 1).collect();
        data.target = Target::Labels(LabelSets { names: (0..labels).map(|c| format!("l{c}")).collect(), values });
    }
    let seed = rng.next_u64();
    let run = RunSettings::default().seed(seed).threads(1).block_rows(pick(rng, &[None, Some(0), Some(1), Some(3)]));
    let fitted = match fit(model.as_ref(), &data, &run, &mut Unobserved) {
        Ok(fitted) => fitted,
        Err(error) => return readable(&error),
    };
    FITTED.fetch_add(1, Ordering::Relaxed);
    let posterior = fitted.posterior;
    let summary = posterior.summary();
    let torn = |t: &SummaryTable| t.rows.iter().any(|r| r.1.len() != t.columns.len());
    if summary.tables.iter().any(torn) || summary.notes.is_empty() {
        return Err("a summary that is not whole".into());
    }
    let again = family.load(&posterior.save().map_err(|e| e.to_string())?).map_err(|e| format!("does not load: {e}"))?;
    if !posterior.labels().is_empty() {
        return sets(rng, posterior.as_ref(), again.as_ref(), &data);
    }
    if !posterior.predicts() {
        asked(posterior.as_ref(), again.as_ref(), &data)?;
        return asked(posterior.as_ref(), again.as_ref(), &table(rng));
    }
    let method = pick(rng, &[&[""], posterior.methods()].concat());
    let predicted = match posterior.predict(&data, method) {
        Ok(predicted) => predicted,
        Err(error) => return readable(&error),
    };
    let classes = posterior.classes().len();
    for row in predicted.probability.chunks(classes) {
        let sum: f64 = row.iter().sum();
        if row.iter().any(|p| !(0.0..=1.0 + 1e-12).contains(p)) || (sum - 1.0).abs() > 1e-9 {
            return Err(format!("probabilities {row:?} with {given:?}"));
        }
    }
    let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let reloaded = again.predict(&data, method).map_err(|e| e.to_string())?;
    if bits(&reloaded.probability) != bits(&predicted.probability) {
        return Err("other probabilities after saving and loading".into());
    }
    match posterior.predict(&table(rng), &word(rng)) {
        Ok(_) => Ok(()),
        Err(error) => readable(&error),
    }
}

/// Sets of labels: probabilities, the same after saving and loading, or an error.
fn sets(rng: &mut Philox, posterior: &dyn Posterior, again: &dyn Posterior, data: &Dataset<'_>) -> Result<(), String> {
    let rule = word(rng);
    let rule = pick(rng, &["", "hamming", "micro-f1", "subset", "cardinality", &rule]);
    let how = LabelRule { rule, nonempty: chance(rng, 0.5), given: chance(rng, 0.3) };
    for data in [data, &table(rng)] {
        match (posterior.predict_labels(data, &how), again.predict_labels(data, &how)) {
            (Ok(a), Ok(b)) if a != b => return Err("other labels after saving and loading".into()),
            (Ok(a), Ok(_)) if a.probability.iter().chain(&a.novelty).any(|p| !(0.0..=1.0).contains(p)) => {
                return Err(format!("probabilities {:?}", a.probability));
            }
            (Ok(_), Ok(_)) => {}
            (Err(error), Err(_)) => readable(&error)?,
            _ => return Err("an error on one side of saving alone".into()),
        }
    }
    Ok(())
}

/// Turns features into counts, where they are numbers at all.
fn count(data: &mut Dataset<'_>) {
    let (Matrix::Dense { values, .. } | Matrix::Csr { values, .. }) = &mut data.x;
    values.to_mut().iter_mut().filter(|v| v.is_finite()).for_each(|v| *v = v.abs().min(50.0).round());
}

/// Whatever a model of rows alone is asked: finite answers, the same after saving and loading, or an error.
fn asked(posterior: &dyn Posterior, again: &dyn Posterior, data: &Dataset<'_>) -> Result<(), String> {
    let same = |what: &str, a: variegate::Result<Vec<f64>>, b: variegate::Result<Vec<f64>>, finite: bool| match (a, b) {
        (Ok(a), Ok(b)) if a.iter().map(|v| v.to_bits()).ne(b.iter().map(|v| v.to_bits())) => Err(format!("{what}: other after loading")),
        (Ok(a), Ok(_)) if finite && a.iter().any(|v| !v.is_finite()) => Err(format!("{what}: numbers that are not finite")),
        (Ok(_), Ok(_)) => Ok(()),
        (Err(error), Err(_)) => readable(&error),
        _ => Err(format!("{what}: an error on one side of saving alone")),
    };
    let places = |p: &dyn Posterior| p.transform(data).map(|c| c.values);
    same("transform", places(posterior), places(again), true)?;
    let nodes = |p: &dyn Posterior| Ok(p.clusters()?.place(data, WhichTree::Point)?.through);
    same("place", nodes(posterior), nodes(again), true)?;
    let effort = HeldOutEffort { temperatures: 3, runs: 2, draws: 2 };
    // rows may be so improbable that nothing is left
    let score = |p: &dyn Posterior| p.held_out(data, &effort).map(|h| h.ln_probability);
    same("held_out", score(posterior), score(again), false)?;
    let rest = |p: &dyn Posterior| p.complete(data, 0.5);
    same("complete", rest(posterior), rest(again), true)?;
    let alike = |p: &dyn Posterior| p.retrieve(data, data, 3).map(|found| found.concat().iter().map(|f| f.1).collect());
    same("retrieve", alike(posterior), alike(again), true)
}
