//! Random command lines: whatever is asked, the answer is a result or an error in words, never a panic.
//!
//! Options are read from `--help`, so that new ones are tried without a word here. `VARIEGATE_RANDOM_CALLS=2000` asks for more calls than
//! the tests usually make.
#![cfg(unix)]

mod common;

use common::{Desk, Said};
use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use variegate::run::{Purpose, Stream, open01};

/// An option as its help shows it.
#[derive(Clone)]
struct Choice {
    name: String,
    /// Whether a value follows.
    valued: bool,
    /// What the help calls it.
    shown: String,
    /// Words that the help allows.
    words: Vec<String>,
}

/// Small numbers, so that no call takes long, and things that are wrong.
const VALUES: [&str; 46] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "0.5",
    "1e-9",
    "1e300",
    "-1e300",
    "nan",
    "inf",
    "none",
    "auto",
    "auto:2",
    "all:2",
    "true",
    "false",
    "",
    "label",
    "x0",
    "x1",
    "x9",
    "source",
    "word0",
    "a,b",
    "2,1",
    "x0,x1",
    "é☃",
    "d.csv",
    "c.csv",
    "r.csv",
    "gone.csv",
    "bad.csv",
    "empty.csv",
    "d.csv:label",
    "c.csv:source",
    "names.txt",
    "tab",
    ";",
    "csv",
    "runs",
    "polynomial:2",
    "fourier:3",
    "x0:y",
    "-",
];

const FILES: [&str; 14] = [
    "d.csv",
    "d.csv",
    "d.csv",
    "c.csv",
    "c.csv",
    "r.csv",
    "g.csv",
    "gone.csv",
    "bad.csv",
    "empty.csv",
    "text.csv",
    "names.txt",
    "runs",
    "-",
];

const RUNS: [&str; 10] = ["runs/l", "runs/s", "runs/a", "runs/r", "runs/e", "runs/v", "runs/c", "runs/g", "runs/nothing", "d.csv"];

/// Calls that are changed at random.
const CALLS: [&str; 61] = [
    "fit logistic d.csv --target label --chains 2 --warmup 4 --draws 6",
    "fit logistic d.csv --target label --inference vb --max-iter 5",
    "fit svm d.csv --target label --chains 2 --warmup 4 --draws 6",
    "fit svm d.csv --target label --inference vb --max-iter 5",
    "fit svm d.csv --target label --inference map --max-iter 5",
    "simulate svm --rows 20",
    "fit softmax d.csv --target label --max-iter 5 --init 2",
    "fit softmax d.csv --target label --subclasses auto:2 --criterion cv --folds 2 --max-iter 5",
    "fit softmax d.csv --target label --input-map auto --max-iter 3",
    "fit softmax d.csv --target label --experts 2 --inference gibbs --chains 2 --warmup 4 --draws 6",
    "fit softmax d.csv --target label --subclasses auto:2 --max-iter 5 --init 2",
    "fit softmax d.csv --target label --inference map",
    "fit softmax r.csv --target label --task regression --experts 2 --max-iter 5 --init 2",
    "fit experts d.csv --target label --experts 2 --chains 2 --warmup 4 --draws 6",
    "fit experts d.csv --target label --experts 2 --inference vb --max-iter 5 --init 2",
    "fit experts d.csv --target label --experts 2 --inference gibbs --chains 2 --warmup 4 --draws 6",
    "fit experts d.csv --target label --experts 2 --inference pr --max-iter 5 --init 2",
    "fit factors c.csv --sources source --chains 2 --warmup 4 --draws 6",
    "fit factors g.csv --sources source --likelihood gaussian --chains 2 --warmup 4 --draws 6",
    "fit features x.csv --chains 2 --warmup 4 --draws 6 --start-sweeps 10",
    "fit features x.csv --prior mutual-angular --chains 2 --warmup 4 --draws 6 --start-sweeps 10",
    "fit labels y.csv --target label1,label2 --components 4 --init 2 --max-iter 5",
    "predict runs/y y.csv --rule subset",
    "score runs/y y.csv",
    "simulate labels --rows 20",
    "fit tree x.csv --depth 2 --chains 2 --warmup 4 --draws 6",
    "fit tree x.csv --depth 2 --separation 0.3 --chains 2 --warmup 4 --draws 6",
    "fit tree x.csv --depth 2 --temperatures 3 --chains 2 --warmup 4 --draws 6",
    "grid tree x.csv --vary separation=0,0.3 --depth 2 --chains 2 --warmup 4 --draws 6",
    "grid logistic d.csv --target label --vary prior-precision=1,2 --chains 2 --warmup 4 --draws 6 --test d.csv",
    "predict runs/t x.csv",
    "score runs/t x.csv",
    "export runs/t --format newick",
    "simulate tree --rows 20",
    "fit labels y.csv --target label1,label2 --coupling and --components 4 --init 2 --max-iter 5",
    "predict runs/l d.csv",
    "predict runs/s d.csv",
    "predict runs/a d.csv",
    "predict runs/r r.csv",
    "predict runs/e d.csv",
    "predict runs/v d.csv",
    "summary runs/e",
    "summary runs/c",
    "compare runs/a runs/s --test d.csv",
    "compare runs/a",
    "simulate logistic --rows 20",
    "simulate softmax --rows 20",
    "simulate experts --rows 20",
    "simulate factors --rows 20",
    "simulate features --rows 20",
    "models experts",
    "transform runs/c c.csv",
    "transform runs/g g.csv",
    "transform runs/x x.csv",
    "score runs/x x.csv",
    "impute runs/x x.csv",
    "score runs/c c.csv --completion",
    "retrieve runs/c c.csv",
    "resume runs/l",
    "extend runs/l --draws 12",
    "impute runs/g g.csv",
];

/// Options that end a call with no question asked, or write where the test stands.
const SKIPPED: [&str; 4] = ["help", "version", "out", "force"];

/// Numbers between 0 and 1.
type Dice<'d> = &'d mut dyn FnMut() -> f64;

fn pick<'a, T>(dice: Dice<'_>, from: &'a [T]) -> &'a T {
    &from[(dice() * from.len() as f64) as usize]
}

/// The options in a help text.
fn choices(help: &str) -> Vec<Choice> {
    let mut found: Vec<Choice> = Vec::new();
    let mut text = String::new();
    for line in help.lines() {
        let trimmed = line.trim_start();
        let begins = trimmed.starts_with("--") || trimmed.starts_with('-') && trimmed.get(2..5) == Some(", -");
        if begins && let Some(at) = trimmed.find("--") {
            let name: String = trimmed[at + 2..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            let rest = trimmed[at + 2 + name.len()..].trim_start();
            let shown = rest.strip_prefix('<').and_then(|r| r.split('>').next()).unwrap_or_default().to_string();
            found.push(Choice { name, valued: rest.starts_with('<'), shown, words: Vec::new() });
            text.clear();
        }
        text = format!("{text} {trimmed}");
        if let (Some(choice), Some(at)) = (found.last_mut(), text.find("[possible values: ")) {
            let list = &text[at + "[possible values: ".len()..];
            if let Some(end) = list.find(']') {
                choice.words = list[..end].split(',').map(|w| w.trim().to_string()).collect();
            }
        }
    }
    found.retain(|c| !SKIPPED.contains(&c.name.as_str()));
    found
}

/// Small data of every kind, and runs of them.
fn furnished() -> Desk {
    let desk = Desk::new();
    desk.good("simulate softmax --rows 40 --classes 2 --columns 2 --seed 1 -o d.csv");
    desk.good("simulate factors --rows 30 --columns 6 --seed 1 -o c.csv");
    desk.good("simulate factors --likelihood gaussian --rows 30 --columns 6 --seed 1 -o g.csv");
    desk.good("simulate features --rows 30 --columns 5 --seed 1 -o x.csv");
    desk.good("simulate softmax --task regression --experts 2 --rows 40 --columns 2 --seed 1 -o r.csv");
    desk.good("simulate labels --rows 30 --columns 3 --labels 2 --unknown 0.1 --seed 1 -o y.csv");
    desk.write("bad.csv", "x0,x1,label\n1,2,a\n3,oops,b\n4\n");
    desk.write("text.csv", "colour,x1,label\nred,1,a\nblue,2,b\nred,3,a\ngreen,4,b\n");
    desk.write("empty.csv", "");
    desk.write("names.txt", "one\ntwo\nthree\n");
    let length = "--quiet --seed 1 --chains 2 --warmup 5 --draws 10";
    desk.fitted(&format!("fit logistic d.csv --target label --out runs/l {length}"));
    desk.fitted("fit softmax d.csv --target label --out runs/s --quiet --seed 1");
    desk.fitted("fit softmax d.csv --target label --subclasses auto:2 --init 2 --out runs/a --quiet --seed 1 --max-iter 20");
    desk.fitted("fit softmax r.csv --task regression --target label --experts 2 --init 2 --out runs/r --quiet --seed 1 --max-iter 20");
    desk.fitted(&format!("fit experts d.csv --target label --experts 2 --out runs/e {length}"));
    desk.fitted("fit experts d.csv --target label --experts 2 --inference vb --out runs/v --quiet --seed 1 --max-iter 20");
    desk.fitted(&format!("fit factors c.csv --sources source --out runs/c {length}"));
    desk.fitted(&format!("fit factors g.csv --sources source --likelihood gaussian --out runs/g {length}"));
    desk.fitted(&format!("fit features x.csv --start-sweeps 10 --out runs/x {length}"));
    desk.fitted("fit labels y.csv --target label1,label2 --components 4 --init 2 --max-iter 5 --out runs/y --quiet --seed 1");
    desk.fitted(&format!("fit tree x.csv --depth 2 --out runs/t {length}"));
    desk
}

/// One random call: words that would do, some of them exchanged, and options that the help of the command knows.
fn call(dice: Dice<'_>, desk: &Desk, helps: &mut HashMap<String, Vec<Choice>>) -> Vec<String> {
    let mut words: Vec<String> = pick(dice, &CALLS).split(' ').map(String::from).collect();
    let command = words[0].clone();
    let named = if ["fit", "grid", "simulate", "models"].contains(&command.as_str()) { words[..2].join(" ") } else { command.clone() };
    let options = helps.entry(named.clone()).or_insert_with(|| choices(&desk.call(&format!("{named} --help")).out)).clone();
    for word in words.iter_mut().skip(1) {
        let (file, run) = (word.contains(".csv"), word.starts_with("runs/"));
        if (file || run) && dice() < 0.15 {
            *word = if file { pick(dice, &FILES) } else { pick(dice, &RUNS) }.to_string();
        } else if dice() < 0.02 {
            *word = pick(dice, &VALUES).to_string();
        }
    }
    for _ in 0..(4.0 * dice()) as usize {
        let Some(option) = (!options.is_empty()).then(|| pick(dice, &options).clone()) else { break };
        let flag = format!("--{}", option.name);
        if words.contains(&flag) && dice() < 0.9 {
            continue;
        }
        words.push(flag);
        if option.valued && dice() < 0.98 {
            words.push(value(dice, &option));
        }
    }
    match command.as_str() {
        "fit" => words.extend(["--out", "fitted", "--force", "--quiet"].map(String::from)),
        "grid" => words.extend(["--out", "combined", "--force", "--quiet"].map(String::from)),
        "simulate" | "predict" | "transform" | "impute" if dice() < 0.7 => {
            words.extend(["--out", "written.csv", "--force"].map(String::from))
        }
        _ => {}
    }
    words
}

/// A value that may do.
fn value(dice: Dice<'_>, option: &Choice) -> String {
    let anything = dice() < 0.15;
    let fitting: &[&str] = match option.shown.as_str() {
        _ if anything => &VALUES,
        "N" => &["0", "1", "2", "3", "7"],
        "X" | "X,…" => &["0", "0.5", "1", "2", "0.01", "10", "none", "1e6"],
        "COLUMN" | "COLUMN,…" => &["label", "x0", "x1", "source", "word0", "d.csv:label"],
        "FILE" => &FILES,
        _ => &VALUES,
    };
    match option.words.is_empty() || anything {
        true => pick(dice, fitting).to_string(),
        false => pick(dice, &option.words).clone(),
    }
}

/// Runs a call, which must come to an end.
fn run(desk: &Desk, words: &[String]) -> Said {
    let mut child = desk.command("").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("still running after two minutes: {words:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn random_calls_end_in_a_result_or_in_words() {
    let count: u64 = std::env::var("VARIEGATE_RANDOM_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let desk = furnished();
    let mut helps = HashMap::new();
    let mut codes: HashMap<i32, u64> = HashMap::new();
    for number in 0..count {
        let mut rng = Stream::new(19, 0, Purpose::Check).item(number).rng();
        let words = call(&mut || open01(&mut rng), &desk, &mut helps);
        let said = run(&desk, &words);
        let place = format!("call {number}: {words:?}\n{}", said.err);
        assert!(matches!(said.code, 0..=3), "exit code {}, {place}", said.code);
        for never in ["panicked", "RUST_BACKTRACE", "variegate itself", "Some(", "Err(", "NaNs"] {
            assert!(!said.err.contains(never), "`{never}` in {place}");
        }
        assert!(said.code == 0 || said.err.len() > 20, "{place}");
        *codes.entry(said.code).or_default() += 1;
    }
    println!("{count} calls by exit code: {codes:?}");
    // were nearly all of them refused at the door, little would have been tried
    let done = codes.get(&0).unwrap_or(&0) + codes.get(&3).unwrap_or(&0);
    assert!(4 * done >= count, "{codes:?}");
}
