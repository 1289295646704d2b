//! Runs that earlier versions wrote stay readable, and those that were stopped go on to the same draws.
//!
//! `variegate-io/tests/golden/runs/VERSION/CASE` holds, for a case of each program and sampler, what the command of that version wrote:
//!
//! ```text
//! data.csv        the rows
//! command.txt     the fit, as it was called in the folder
//! complete/       its run
//! stopped/        the same fit, stopped by Ctrl-C; not where all is done in a sweep or a few
//! answers.csv     what `predict` or `transform` said of the rows
//! posterior.bin   the posterior, as a program saves it
//! ```
//!
//! A version writes its runs once, before it is released, and never again:
//! `VARIEGATE_GOLDEN=write cargo test --package variegate-cli --test golden_runs`. Folders that are there already are left alone.
#![cfg(unix)]

mod common;

use common::Desk;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use variegate::answer::Posterior;
use variegate::model::family;
use variegate_io::run_dir::{Machine, RunDir};

/// What other kinds of CPU may differ by, relative to the number.
const TOLERANCE: f64 = 1e-6;

/// Every program and sampler, and what else has a state of its own: name, family and settings, kind of rows.
const CASES: [(&str, &str, Rows); 47] = [
    ("logistic-gibbs", "logistic --chains 2 --warmup 150 --draws 20", Rows::Classes(2)),
    ("logistic-vb", "logistic --inference vb --max-iter 3000 --tol 1e-300", Rows::Classes(2)),
    ("svm-gibbs", "svm --chains 2 --warmup 150 --draws 20", Rows::Classes(2)),
    ("svm-gibbs-classes", "svm --chains 2 --warmup 150 --draws 20 --prior-precision 0.5", Rows::Classes(3)),
    ("svm-vb", "svm --inference vb --max-iter 3000 --tol 1e-300 --class-weight balanced", Rows::Classes(3)),
    ("svm-map", "svm --inference map --max-iter 3000 --tol 1e-300", Rows::Classes(2)),
    ("softmax-vb", "softmax --init 2 --max-iter 30 --vb 2", Rows::Classes(3)),
    ("softmax-vb-experts", "softmax --init 2 --max-iter 30 --vb 2 --experts 2", Rows::Classes(2)),
    ("softmax-vb-auto", "softmax --init 2 --max-iter 30 --vb 2 --subclasses auto:2", Rows::Classes(2)),
    ("softmax-vb-lowrank", "softmax --init 2 --max-iter 30 --vb 2 --covariance lowrank:1 --class-weight balanced", Rows::Classes(2)),
    ("softmax-vb-fourier", "softmax --init 2 --max-iter 30 --vb 2 --input-map fourier:2", Rows::Classes(2)),
    ("softmax-vb-regression", "softmax --init 2 --max-iter 30 --vb 2 --task regression --experts 2", Rows::Outcome),
    ("softmax-map", "softmax --init 2 --inference map --subclasses 2,1", Rows::Classes(2)),
    ("softmax-gibbs", "softmax --inference gibbs --chains 2 --warmup 30 --draws 5 --subclasses 2,1", Rows::Classes(2)),
    ("softmax-gibbs-regression", "softmax --inference gibbs --chains 2 --warmup 30 --draws 5 --task regression --experts 2", Rows::Outcome),
    ("experts-hmc", "experts --experts 2 --chains 2 --warmup 20 --draws 5", Rows::Classes(2)),
    ("experts-hmc-classes", "experts --experts 2 --chains 2 --warmup 20 --draws 5 --hyper sample --metric columns", Rows::Classes(3)),
    ("experts-hmc-gaussian", "experts --experts 2 --chains 2 --warmup 20 --draws 5 --prior gaussian", Rows::Classes(2)),
    ("experts-gibbs", "experts --experts 2 --inference gibbs --chains 2 --warmup 20 --draws 5", Rows::Classes(2)),
    ("experts-mh", "experts --experts 2 --inference mh --chains 2 --warmup 200 --draws 5", Rows::Classes(2)),
    ("experts-vb", "experts --experts 2 --inference vb --init 2 --max-iter 40", Rows::Classes(2)),
    ("experts-vb-gaussian", "experts --experts 2 --inference vb --init 2 --max-iter 40 --prior gaussian", Rows::Classes(2)),
    ("experts-pr", "experts --experts 2 --inference pr --init 2 --max-iter 40 --diversity 2", Rows::Classes(2)),
    ("experts-map", "experts --experts 2 --inference map --init 2 --max-iter 40 --diversity 1", Rows::Classes(2)),
    ("factors-parallel-poisson", "factors --sampler parallel --chains 2 --warmup 20 --draws 3 --thin 2", Rows::Counts),
    ("factors-rowslice-poisson", "factors --sampler rowslice --chains 2 --warmup 20 --draws 3 --thin 2", Rows::Counts),
    ("factors-slice-poisson", "factors --sampler slice --chains 2 --warmup 20 --draws 3 --thin 2", Rows::Counts),
    ("factors-parallel-gaussian", "factors --likelihood gaussian --chains 2 --warmup 20 --draws 3 --thin 2 --missing true", Rows::Holes),
    ("factors-rowslice-gaussian", "factors --likelihood gaussian --sampler rowslice --chains 2 --warmup 20 --draws 3 --thin 2", Rows::Real),
    ("factors-slice-gaussian", "factors --likelihood gaussian --sampler slice --chains 2 --warmup 20 --draws 3 --thin 2", Rows::Real),
    ("features-anchored", "features --chains 2 --warmup 40 --draws 3 --thin 2 --missing true --start empty", Rows::Gaps),
    (
        "features-anchored-stable",
        "features --prior pitman-yor --learn-concentration true --chains 2 --restarts 1 --start-sweeps 10 --warmup 400 --draws 3 --thin 2",
        Rows::Plain,
    ),
    ("features-rowslice", "features --sampler rowslice --chains 2 --warmup 200 --draws 3 --thin 2 --start empty", Rows::Plain),
    ("features-slice", "features --sampler slice --chains 2 --warmup 200 --draws 3 --thin 2 --start empty", Rows::Plain),
    (
        "features-angular",
        "features --prior mutual-angular --learn-kappa true --direction hmc --chains 2 --warmup 40 --draws 3 --thin 2 --start empty",
        Rows::Plain,
    ),
    ("labels-vb-logit", "labels --components 4 --init 2 --max-iter 400 --tol 1e-300", Rows::Labels),
    ("labels-vb-bohning", "labels --components 4 --init 2 --max-iter 400 --tol 1e-300 --bound bohning", Rows::Labels),
    ("labels-vb-and", "labels --components 4 --init 2 --max-iter 400 --tol 1e-300 --coupling and", Rows::Labels),
    ("labels-vb-cut", "labels --components 4 --init 2 --max-iter 400 --tol 1e-300 --coupling cut", Rows::Labels),
    ("labels-memoized", "labels --components 4 --init 2 --max-iter 400 --tol 1e-300 --inference memoized --batches 2", Rows::Labels),
    ("labels-svi", "labels --components 4 --inference svi --passes 400", Rows::Labels),
    ("labels-gibbs", "labels --components 4 --inference gibbs --draws 100 --warmup 20 --thin 1 --chains 2", Rows::Labels),
    ("tree-sequential", "tree --depth 2 --learn-concentrations true --chains 2 --warmup 3000 --draws 3 --thin 2", Rows::Gaps),
    ("tree-margin", "tree --depth 2 --separation 0.3 --chains 2 --warmup 3000 --draws 3 --thin 2", Rows::Plain),
    ("tree-tempered", "tree --depth 2 --temperatures 3 --separation 0.3 --chains 2 --warmup 1000 --draws 3 --thin 2", Rows::Plain),
    ("tree-slice", "tree --sampler slice --depth 2 --chains 2 --warmup 1000 --draws 3 --thin 2", Rows::Plain),
    (
        "tree-anchored",
        "tree --sampler anchored --depth 2 --separation 0.2 --target stated --chains 2 --warmup 1000 --draws 3 --thin 2",
        Rows::Plain,
    ),
];

/// What the rows are: 24 of them, 3 columns, and what belongs to them.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// Real numbers, with a class each.
    Classes(usize),
    /// Real numbers, with a real outcome each.
    Outcome,
    /// Counts of two sources.
    Counts,
    /// Real numbers of two sources.
    Real,
    /// The same with entries missing.
    Holes,
    /// Real numbers, with two labels each.
    Labels,
    /// Real numbers alone.
    Plain,
    /// The same with entries missing.
    Gaps,
}

impl Rows {
    /// Rows as text, made without random numbers.
    fn csv(self) -> String {
        let entry = |i: usize, j: usize| ((i * 7919 + j * 104_729 + i * i * 31 + i * j * 1_301) % 127) as f64 / 16.0 - 3.9375;
        let alone = matches!(self, Rows::Plain | Rows::Gaps);
        let mut text = if alone { "a,b,c\n".to_string() } else { format!("a,b,c,{}\n", self.column()) };
        for i in 0..24 {
            for j in 0..3 {
                let end = if alone && j == 2 { "" } else { "," };
                let _ = match self {
                    Rows::Counts => write!(text, "{},", if (j == 0) == (i % 2 == 0) { (i * 13 + j * 7) % 5 } else { (i * 3 + j) % 7 / 6 }),
                    Rows::Holes | Rows::Gaps if (i * 5 + j * 3) % 11 == 0 => write!(text, "{end}"),
                    _ => write!(text, "{}{end}", entry(i, j)),
                };
            }
            let (a, b) = (entry(i, 0), entry(i, 1));
            let _ = match self {
                Rows::Classes(n) => writeln!(text, "k{}", ((a * a - b + 0.5 * (i * 11 % 7) as f64).floor() as i64).rem_euclid(n as i64)),
                Rows::Outcome => writeln!(text, "{}", a.abs() - b),
                Rows::Labels => writeln!(text, "{},{}", u8::from(a > b), u8::from(a + 0.5 * (i % 5) as f64 > 1.0)),
                Rows::Plain | Rows::Gaps => writeln!(text),
                _ => writeln!(text, "s{}", i % 2),
            };
        }
        text
    }

    fn column(self) -> &'static str {
        match self {
            Rows::Classes(_) | Rows::Outcome => "label",
            Rows::Labels => "warm,round",
            _ => "source",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Rows::Classes(_) | Rows::Outcome => "--target label",
            Rows::Labels => "--target warm,round",
            Rows::Plain | Rows::Gaps => "",
            _ => "--sources source",
        }
    }
}

fn runs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../variegate-io/tests/golden/runs")
}

/// Every stored case: version, name and folder, in order.
fn stored() -> Vec<(String, PathBuf)> {
    let folders = |path: &Path| {
        let mut all: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|f| f.unwrap().path()).filter(|p| p.is_dir()).collect();
        all.sort();
        all
    };
    let name = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
    let cases = |version: PathBuf| {
        let named = name(&version);
        folders(&version).into_iter().map(move |case| (format!("{named}/{}", name(&case)), case))
    };
    folders(&runs()).into_iter().flat_map(cases).collect()
}

/// A case to work on: nothing that is stored is written to.
fn copy(case: &Path) -> Desk {
    let desk = Desk::new();
    copy_folder(case, desk.folder.path());
    desk
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|f| f.unwrap()) {
        let to = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_folder(&file.path(), &to);
        } else {
            fs::copy(file.path(), to).unwrap();
        }
    }
}

/// The command that answers for rows of a run.
fn answer(family: &str) -> &'static str {
    if ["factors", "features"].contains(&family) { "transform" } else { "predict" }
}

fn posterior(run: &RunDir) -> Box<dyn Posterior> {
    let record = run.record();
    let model = family(&record.family).unwrap().configure(&record.model).unwrap();
    model.reopen(&record.schema).unwrap().posterior(&run.pieces().unwrap()).unwrap()
}

/// All numbers of the draws of a run, and the objective after each sweep.
fn numbers(run: &RunDir) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    for draws in run.draws().unwrap() {
        all.extend(draws.scalars.values.iter().chain(&draws.components.values));
    }
    for trace in run.trace().unwrap() {
        all.extend(trace.iter().flat_map(|(sweep, report)| [*sweep as f64, report.objective]));
    }
    all
}

/// Numbers and words of a table.
fn cells(csv: &str) -> (Vec<String>, Vec<f64>) {
    let (numbers, words): (Vec<&str>, Vec<&str>) = csv.split([',', '\n']).partition(|c| c.parse::<f64>().is_ok());
    (words.into_iter().map(String::from).collect(), numbers.into_iter().filter_map(|c| c.parse().ok()).collect())
}

/// The same numbers: to the bit, or nearly so on another kind of CPU.
fn assert_numbers(was: &[f64], now: &[f64], exact: bool, what: &str) {
    assert_eq!(was.len(), now.len(), "{what}: another number of numbers");
    for (at, (a, b)) in was.iter().zip(now).enumerate() {
        let close = a.to_bits() == b.to_bits() || !exact && (a - b).abs() <= TOLERANCE * (1.0 + a.abs().max(b.abs()));
        assert!(close, "{what}: number {at} was {a}, and is {b} now");
    }
}

#[test]
fn runs_of_every_version_are_opened_and_answer_as_they_did() {
    write_if_asked();
    let all = stored();
    for (name, case) in &all {
        let desk = copy(case);
        let run = RunDir::read(desk.path("complete")).unwrap();
        let exact = run.record().machine == Machine::here();
        assert!(desk.good("summary complete").out.contains("complete"), "{name}");
        assert_eq!(desk.good("summary complete --json").json()["model"], run.record().family.as_str(), "{name}");
        if desk.path("stopped").exists() {
            assert!(desk.good("summary stopped").out.contains("stopped after"), "{name}");
        }
        desk.good(&format!("{} complete data.csv --quiet -o now.csv", answer(&run.record().family)));
        let (was, now) = (cells(&desk.text("answers.csv")), cells(&desk.text("now.csv")));
        assert_eq!(was.0, now.0, "{name}: words of the answers");
        // draws are read to the bit; averages over them may be summed otherwise by a later version
        assert_numbers(&was.1, &now.1, false, &format!("{name}: answers"));

        let of_run = posterior(&run);
        let saved = family(&run.record().family).unwrap().load(&fs::read(desk.path("posterior.bin")).unwrap());
        let saved = saved.unwrap_or_else(|e| panic!("{name}: posterior.bin: {e}"));
        if exact {
            // sentences that were saved keep their words; a debug text tells NaN from NaN by nothing
            let [of_run, saved] = [&of_run, &saved].map(|p| p.arrays());
            for array in &saved {
                let same = of_run.iter().any(|a| format!("{a:?}") == format!("{array:?}"));
                assert!(same, "{name}: `{}` of the saved posterior is not that of the run", array.name);
            }
        }
    }
    assert!(all.len() >= CASES.len(), "{} stored runs were found", all.len());
}

#[test]
fn stopped_runs_of_every_version_go_on_to_the_same_draws() {
    write_if_asked();
    let mut programs = Vec::new();
    for (name, case) in stored().into_iter().filter(|(_, case)| case.join("stopped").exists()) {
        let desk = copy(&case);
        let complete = RunDir::read(desk.path("complete")).unwrap();
        let before = RunDir::read(desk.path("stopped")).unwrap();
        let (status, began) = (before.status(), numbers(&before).len());
        assert!(!status.complete && status.chains.iter().any(|c| c.sweeps > 0), "{name}: it must have begun, and not ended");
        drop(before);
        desk.fitted("resume stopped --data data.csv --quiet");
        let resumed = RunDir::read(desk.path("stopped")).unwrap();
        assert!(resumed.status().complete && numbers(&resumed).len() > began, "{name}");
        let exact = complete.record().machine == Machine::here();
        assert_numbers(&numbers(&complete), &numbers(&resumed), exact, &format!("{name}: resumed"));
        programs.push(complete.record().program.clone());
    }
    programs.sort();
    programs.dedup();
    assert!(programs.len() >= 9, "only {programs:?} have a stopped run");
}

/// Writes the runs of this version, where they are wanted and not there yet.
fn write_if_asked() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if std::env::var("VARIEGATE_GOLDEN").is_ok_and(|v| v == "write") {
        ONCE.call_once(|| CASES.iter().for_each(write));
    }
}

fn write((name, words, rows): &(&str, &str, Rows)) {
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let folder = runs().join(version).join(name);
    if folder.exists() {
        return;
    }
    let desk = Desk::new();
    desk.write("data.csv", &rows.csv());
    let model = words.split(' ').next().unwrap();
    let settings = words.strip_prefix(model).unwrap();
    let fit = |out: &str| format!("fit {model} data.csv {}{settings} --block-rows 8 --seed 11 --out {out}", rows.option());
    desk.write("command.txt", &format!("variegate {}\n", fit("complete")));
    desk.fitted(&fit("complete"));
    let stopped = stop(&desk, &fit("stopped"));
    desk.good(&format!("{} complete data.csv --quiet -o answers.csv", answer(model)));
    fs::write(desk.path("posterior.bin"), posterior(&RunDir::read(desk.path("complete")).unwrap()).save().unwrap()).unwrap();
    if !stopped {
        fs::remove_dir_all(desk.path("stopped")).unwrap();
    }
    for run in ["complete", "stopped"] {
        // a lock comes with whoever opens the run to write
        let _ = fs::remove_file(desk.path(run).join("lock"));
    }
    copy_folder(desk.folder.path(), &folder);
}

/// Stops a fit that takes a few milliseconds; whether this could be done. A chain sweeps for a tenth of a second before anybody looks
/// whether Ctrl-C was pressed, so the process is held for that long in the middle of its sweeps; when these are is found by trying.
fn stop(desk: &Desk, fit: &str) -> bool {
    let (mut low, mut high) = (Duration::ZERO, Duration::from_millis(400));
    for attempt in 0..40 {
        let _ = fs::remove_dir_all(desk.path("stopped"));
        let mut child = desk.command(fit).args(["--threads", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !desk.path("stopped/manifest.json").exists() {
            assert!(child.try_wait().unwrap().is_none(), "`{fit}` ended without a run");
        }
        let wait = (low + high) / 2;
        let manifest = Instant::now();
        while manifest.elapsed() < wait {}
        signal(&child, "-STOP");
        signal(&child, "-INT");
        std::thread::sleep(Duration::from_millis(150));
        signal(&child, "-CONT");
        let _ = child.wait().unwrap();
        let status = RunDir::read(desk.path("stopped")).unwrap().status();
        let sweeps: u64 = status.chains.iter().map(|c| c.sweeps).sum();
        match (status.complete, sweeps) {
            (false, 1..) => return true,
            (false, 0) => low = wait,
            (true, _) => high = wait,
        }
        if attempt % 10 == 9 {
            (low, high) = (Duration::ZERO, Duration::from_millis(400));
        }
    }
    false
}

fn signal(child: &Child, name: &str) {
    let _ = Command::new("kill").args([name, &child.id().to_string()]).stderr(Stdio::null()).status();
}
