//! Runs that are killed, interrupted, or given other threads: the draws are the same to the last bit.
#![cfg(unix)]

mod common;

use common::{Desk, Said, assert_same, columns, families, kept, short};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use variegate::run::{Purpose, Stream, open01};
use variegate_io::run_dir::RunDir;

/// Long enough to be killed several times, in a machine that is busy or not.
const LONG: &str = "--seed 5 --block-rows 64 --chains 3 --warmup 400 --draws 4000 --prior-precision 0.5";

fn start(desk: &Desk, words: &str) -> Child {
    desk.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Really kills the process, again and again, at seeded random moments.
#[test]
fn killed_runs_resume_to_the_same_bits() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 300 --seed 1 -o d.csv");
    let fit = |out: &str| format!("fit logistic d.csv --target label --out {out} --threads 2 --quiet --checkpoint-seconds 0.03 {LONG}");
    let begin = Instant::now();
    desk.good(&fit("whole"));
    let whole_time = begin.elapsed();
    let whole = kept(&desk.path("whole"));

    let mut kills_that_hit = 0;
    for round in 0..3u64 {
        let out = format!("round{round}");
        let mut rng = Stream::new(17, 0, Purpose::Check).item(round).rng();
        for _ in 0..6 {
            // a kill may come before there is a run to resume
            let begun = RunDir::read(desk.path(&out)).is_ok();
            let words = if begun { format!("resume {out} --threads 2 --quiet --checkpoint-seconds 0.03") } else { fit(&out) };
            let mut child = start(&desk, &words);
            std::thread::sleep(whole_time.mul_f64(0.02 + 0.25 * open01(&mut rng)));
            let running = child.try_wait().unwrap().is_none();
            if running {
                child.kill().unwrap();
            }
            let said = Said::of(child.wait_with_output().unwrap());
            if !running {
                assert!(said.code == 0 || said.code == 3, "{}", said.err);
                break;
            }
            kills_that_hit += 1;
        }
        if RunDir::read(desk.path(&out)).is_err() {
            desk.good(&fit(&out));
        } else {
            desk.fitted(&format!("resume {out} --quiet"));
        }
        assert_same(&whole, &kept(&desk.path(&out)), "killed and resumed");
    }
    assert!(kills_that_hit >= 6, "only {kills_that_hit} kills came while the run was going on: the test showed too little");
}

/// The first Ctrl-C ends the sweep, saves and says how to go on; the run is then finished by another process.
#[test]
fn an_interrupted_run_is_saved_and_goes_on() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 300 --seed 1 -o d.csv");
    let fit = |out: &str| format!("fit logistic d.csv --target label --out {out} {LONG}");
    desk.good(&fit("whole"));
    for (name, out) in [("-INT", "a"), ("-TERM", "b")] {
        let child = start(&desk, &fit(out));
        wait_for(|| desk.path(out).join("manifest.json").exists());
        // chains have begun soon after the first manifest
        std::thread::sleep(Duration::from_millis(150));
        signal(&child, name);
        let said = Said::of(child.wait_with_output().unwrap());
        assert_eq!(said.code, 130, "{}", said.err);
        assert!(said.err.contains("Stopping after this sweep"), "{}", said.err);
        assert!(said.err.contains(&format!("variegate resume {out}")), "{}", said.err);
        let run = RunDir::read(desk.path(out)).unwrap();
        assert!(!run.status().complete && run.status().chains.iter().all(|c| c.sweeps > 0), "the sweeps so far are kept");
        drop(run);
        assert!(desk.good(&format!("summary {out}")).out.contains("stopped after"));
        desk.good(&format!("resume {out}"));
        assert_same(&kept(&desk.path("whole")), &kept(&desk.path(out)), "interrupted and resumed");
    }
}

/// The second Ctrl-C does not wait.
#[test]
fn the_second_interrupt_aborts() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 300 --seed 1 -o d.csv");
    let child = start(&desk, &format!("fit logistic d.csv --target label --out a {LONG}"));
    wait_for(|| desk.path("a/manifest.json").exists());
    std::thread::sleep(Duration::from_millis(150));
    signal(&child, "-INT");
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let said = Said::of(child.wait_with_output().unwrap());
    assert_eq!(said.code, 130, "{}", said.err);
    desk.fitted("resume a --quiet");
}

fn wait_for(ready: impl Fn() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the run did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two processes cannot write the same run.
#[test]
fn a_run_that_is_being_written_is_left_alone() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 300 --seed 1 -o d.csv");
    let mut child = start(&desk, &format!("fit logistic d.csv --target label --out a --checkpoint-seconds 0.05 {LONG}0"));
    wait_for(|| RunDir::read(desk.path("a")).is_ok_and(|r| r.status().chains.iter().all(|c| c.sweeps > 0)));
    desk.bad("resume a", 1, &["another process"]);
    let said = desk.good("summary a");
    assert!(said.out.contains("running"), "{}", said.out);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Same seed, same bits, for every family: on 1, 2 and 4 threads.
#[test]
fn threads_do_not_change_a_bit() {
    for family in families() {
        let (name, short) = (family.name(), short(family));
        let desk = Desk::new();
        desk.good(&format!("simulate {name} --rows 700 --seed 4 -o d.csv"));
        let run = |threads: u32| {
            let out = format!("on{threads}");
            let columns = columns(family);
            let words = format!("fit {name} d.csv {columns} --out {out} --seed 9 --block-rows 32 --threads {threads} --quiet{short}");
            desk.fitted(&words);
            kept(&desk.path(&out))
        };
        let one = run(1);
        for threads in [2, 4] {
            assert_same(&one, &run(threads), &format!("{name} on {threads} threads"));
        }
    }
}

/// More draws and chains of a finished run are those of a run that was asked for all of them from the start.
#[test]
fn an_extended_run_has_the_bits_of_a_longer_one() {
    let desk = Desk::new();
    for (family, options) in [
        ("logistic", ""),
        ("svm", ""),
        ("softmax", "--inference gibbs --experts 2"),
        ("experts", "--inference hmc --experts 2"),
        ("experts", "--inference gibbs --experts 2 --hyper sample"),
        ("factors", ""),
        ("factors", "--likelihood gaussian --sampler slice"),
        ("features", ""),
        ("features", "--prior mutual-angular --sampler slice"),
        ("tree", "--depth 2"),
        ("tree", "--depth 2 --temperatures 3"),
        ("tree", "--sampler anchored --separation 0.2"),
    ] {
        let kind = if options.contains("gaussian") { "--likelihood gaussian" } else { "" };
        desk.good(&format!("simulate {family} --rows 60 --seed 1 -o d.csv --force {kind}"));
        let columns = columns(families().find(|f| f.name() == family).unwrap());
        let fit = |out: &str, length: &str| {
            let words =
                format!("fit {family} d.csv {columns} --force --out {out} --quiet --seed 5 --warmup 20 --thin 2 {options} {length}");
            desk.fitted(&words);
        };
        fit("whole", "--chains 3 --draws 25");
        fit("short", "--chains 2 --draws 10");
        desk.fitted("extend short --draws 16 --quiet");
        let said = desk.fitted("extend short --draws 25 --chains 3");
        assert!(said.err.contains("extending short after"), "{}", said.err);
        assert_same(&kept(&desk.path("whole")), &kept(&desk.path("short")), family);
        let [whole, short] = ["whole", "short"].map(|run| desk.good(&format!("summary {run} --json")).json());
        for part in ["settings", "tables", "facts", "converged"] {
            assert_eq!(whole[part], short[part], "{family}: {part}");
        }
        // a stopped run would be resumed under the new plan; a complete one has nothing left to do
        assert!(desk.fitted("resume short").err.contains("complete"));
    }
}

/// A run that may not have the memory it needs says so, keeps what it has done, and goes on where it may.
#[test]
#[cfg(target_os = "linux")]
fn a_run_beyond_its_memory_stops_and_goes_on() {
    let desk = Desk::new();
    desk.good("simulate features --rows 60 --columns 5 --seed 1 -o d.csv");
    let fit = "fit features d.csv --seed 5 --chains 2 --warmup 20 --draws 1500 --thin 5 --start empty --quiet";
    desk.fitted(&format!("{fit} --out whole"));
    desk.bad(&format!("{fit} --out small --memory-limit 0.001"), 1, &["MB of memory", "1 MB", "what is done is kept"]);
    assert!(desk.good("summary small").out.contains("stopped after"));
    desk.bad("resume small --memory-limit 0.001", 1, &["MB of memory"]);
    desk.bad("resume small --memory-limit none", 2, &["a number above 0"]);
    desk.fitted("resume small --quiet");
    assert_same(&kept(&desk.path("whole")), &kept(&desk.path("small")), "resumed with more memory");
}

#[test]
fn what_cannot_be_extended_is_left_alone() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 60 --seed 1 -o d.csv");
    desk.fitted("fit logistic d.csv --target label --out a --quiet --chains 2 --warmup 20 --draws 10");
    let before = desk.text("a/manifest.json");
    desk.bad("extend a", 2, &["10 draws in each of 2 chains", "--draws"]);
    desk.bad("extend a --draws 10", 2, &["10 draws", "larger"]);
    desk.bad("extend a --draws 20 --chains 1", 2, &["2 chains"]);
    desk.bad("extend a --draws 0", 2, &["--draws"]);
    desk.bad("extend nowhere --draws 20", 1, &["nowhere"]);
    std::fs::rename(desk.path("d.csv"), desk.path("e.csv")).unwrap();
    desk.bad("extend a --draws 20", 1, &["d.csv", "--data"]);
    assert_eq!(desk.text("a/manifest.json"), before);
    desk.fitted("extend a --draws 20 --data e.csv --quiet");
    assert_ne!(desk.text("a/manifest.json"), before);
    desk.fitted("fit softmax e.csv --target label --out b --quiet");
    desk.bad("extend b --draws 20", 2, &["keeps no draws", "--max-iter"]);
}
