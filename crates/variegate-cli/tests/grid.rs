//! Grids of settings: what is fitted, kept, told, gone on with and refused.

mod common;

use common::{Desk, assert_same, kept};
use std::fmt::Write as _;

/// Eighteen rows of three groups, with a class that one of them does not have.
fn animals() -> String {
    let mut text = String::from("class,x,y\n");
    for i in 0..18u32 {
        let group = (i % 3) as usize;
        let centre = [(-9.0, 0.0), (9.0, -3.0), (9.0, 3.0)][group];
        let (dx, dy) = (f64::from((i * 7) % 5) / 10.0, f64::from((i * 11) % 7) / 10.0);
        let class = if i == 5 { "" } else { ["cat", "dog", "fox"][group] };
        let _ = writeln!(text, "{class},{},{}", centre.0 + dx, centre.1 + dy);
    }
    text
}

const LENGTH: &str = "--depth 2 --chains 2 --warmup 20 --draws 20 --thin 1 --seed 3 --quiet";

#[test]
fn every_combination_is_a_run_and_a_line_of_the_table() {
    let desk = Desk::new();
    desk.write("animals.csv", &animals());
    let grid = |vary: &str| format!("grid tree animals.csv --labels class {vary} {LENGTH} --out g --json");
    let call = grid("--vary separation=0,0.3 --vary margin=0.5,1");
    let said = desk.fitted(&call);
    let found = said.json();
    let each = found["combinations"].as_array().unwrap();
    assert_eq!(each.len(), 4, "{found}");
    // a margin without separation makes no sense: told, and left out
    assert!(each[0]["failure"].as_str().unwrap().contains("separation") && each[0]["figures"].is_null(), "{found}");
    assert!(said.err.contains("separation=0 margin=0.5 is left out"), "{}", said.err);
    for one in &each[1..] {
        let figures = &one["figures"];
        for name in
            ["components", "nodes of level 2", "R-hat, largest", "aid_ratio", "aod", "aod_ratio", "nodes_1", "f_2", "tree_f_2", "purity"]
        {
            assert!(figures[name].is_number(), "{name}: {one}");
        }
        assert!((0.0..=1.0).contains(&figures["one_path_fraction"].as_f64().unwrap()), "{one}");
    }
    // each is what `fit` gives
    let run = "g/separation=0.3,margin=0.5";
    desk.fitted(&format!("fit tree animals.csv --ignore class --separation 0.3 --margin 0.5 {LENGTH} --out alone"));
    assert_same(&kept(&desk.path("alone")), &kept(&desk.path(run)), "alone or in a grid");
    assert!(desk.good(&format!("summary {run}")).out.contains("separation=0.3"));
    assert!(desk.good(&format!("predict {run} animals.csv")).out.starts_with("row,level_1"));
    desk.fitted(&format!("resume {run}"));
    let table = desk.text("g/grid.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 5 && lines[0].starts_with("separation,margin,converged,nodes of level 1,"), "{table}");
    assert!(lines[0].ends_with(",run,failure") && lines[4].contains("\"separation=0.3,margin=1\""), "{table}");

    // nothing is done again, and more values are done alone
    let before = desk.text(&format!("{run}/manifest.json"));
    assert_eq!(desk.fitted(&call).json(), found);
    let text = desk.fitted(&grid("--vary separation=0,0.3,0.6 --vary margin=0.5,1").replace(" --json", "")).out;
    assert!(text.starts_with("settings") && text.contains("separation=0.6 margin=1") && text.contains("aod_ratio"), "{text}");
    assert_eq!(desk.text(&format!("{run}/manifest.json")), before);
    assert!(desk.path("g/separation=0.6,margin=1").is_dir());

    // other data or another seed are not mixed with what is there
    desk.bad(&call.replace("--seed 3", "--seed 4"), 1, &["seed differs", "--force"]);
    desk.bad(&call.replace("--depth 2", "--depth 1"), 1, &["settings differs"]);
    desk.write("animals.csv", &animals().replace("dog", "cow").replace("-9", "-8"));
    desk.bad(&call, 1, &["data differs"]);
    desk.fitted(&format!("{call} --force"));

    // through a pipe, which can be read once
    use std::process::Stdio;
    let words = format!("grid tree - --labels class --vary alpha=0.2,0.5 {LENGTH} --out piped --json");
    let input = Stdio::from(std::fs::File::open(desk.path("animals.csv")).unwrap());
    let said = common::Said::of(desk.command(&words).stdin(input).output().unwrap());
    assert!(said.json()["combinations"][1]["figures"]["purity"].is_number(), "{}", said.err);
}

#[test]
fn models_that_predict_are_scored_on_held_out_rows() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 120 --seed 1 -o d.csv");
    desk.good("simulate logistic --rows 40 --truth d.truth.json --seed 2 -o t.csv");
    let grid = "grid logistic d.csv --target label --warmup 20 --draws 20 --chains 2 --seed 1";
    let said = desk.fitted(&format!("{grid} --vary prior-precision=0.1,10 --test t.csv --out g --threads 1"));
    assert!(said.err.contains("fitting prior_precision=0.1 (1 of 2)") && said.err.contains("grid.csv"), "{}", said.err);
    assert!(said.out.contains("test log-loss") && said.out.contains("prior_precision=10"), "{}", said.out);
    // threads change nothing, and without --out there is a folder too
    desk.fitted(&format!("{grid} --vary prior_precision=0.1,10 --threads 3 --quiet"));
    assert_same(&kept(&desk.path("g/prior_precision=10")), &kept(&desk.path("runs/logistic-grid-1/prior_precision=10")), "threads");
    let q = format!("{grid} --quiet --out h");
    desk.bad(&q, 2, &["--vary"]);
    desk.bad(&format!("{q} --vary nope=1"), 2, &["no setting `nope`"]);
    desk.bad(&format!("{q} --vary draws=1,2"), 2, &["given and varied by --vary"]);
    desk.bad(&format!("{q} --vary prior-precision=1,1"), 2, &["twice"]);
    desk.bad(&format!("{q} --vary prior-precision=0,1"), 2, &["prior_precision"]);
    desk.bad(&format!("{q} --vary prior-precision=1 --labels label"), 2, &["--labels"]);
    desk.bad(&format!("{q} --vary prior-precision=1 --test gone.csv"), 1, &["gone.csv", "--test"]);
    desk.bad(&format!("{} --vary prior-precision=1 --quiet --out g/prior_precision=10", grid), 1, &["is a run"]);
    desk.bad("grid logistic d.csv --ignore label --vary prior-precision=1,2 --quiet --out h", 1, &["--target COLUMN"]);
    desk.bad("grid tree d.csv --vary depth=1,2 --labels gone --quiet --out h", 1, &["gone"]);
}

#[cfg(unix)]
#[test]
fn a_grid_that_was_killed_goes_on() {
    use common::Said;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    use variegate_io::run_dir::RunDir;

    let desk = Desk::new();
    desk.good("simulate logistic --rows 200 --seed 1 -o d.csv");
    let grid = |out: &str| {
        let length = "--chains 2 --warmup 300 --draws 6000 --checkpoint-seconds 0.02 --threads 1 --quiet";
        format!("grid logistic d.csv --target label --vary prior-precision=0.5,1,2 {length} --out {out}")
    };
    desk.fitted(&format!("{} --seed 5", grid("whole")));
    let run = |grid: &str, value: &str| desk.path(&format!("{grid}/prior_precision={value}"));
    let wait_for = |value: &str| {
        let begin = Instant::now();
        while !RunDir::read(run("g", value)).is_ok_and(|r| r.status().chains.iter().any(|c| c.sweeps > 0)) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{value} did not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let start = |words: &str| desk.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = start(&format!("{} --seed 5", grid("g")));
    wait_for("0.5");
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = || RunDir::read(run("g", "0.5")).unwrap().record().created_at.clone();
    let first = begun();
    assert!(!RunDir::read(run("g", "0.5")).unwrap().status().complete, "killed too late: the test shows nothing");
    // a run tells the second in which it was begun
    std::thread::sleep(Duration::from_millis(1100));
    // the seed of what is there is taken where none is given
    let child = start(&grid("g"));
    wait_for("1");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said = Said::of(child.wait_with_output().unwrap());
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("of 3 combinations") && said.err.contains("the same command goes on"), "{}", said.err);
    desk.fitted(&grid("g"));
    for value in ["0.5", "1", "2"] {
        assert_same(&kept(&run("whole", value)), &kept(&run("g", value)), value);
    }
    assert_eq!(begun(), first, "a run that was killed goes on and is not begun anew");
    assert_eq!(desk.text("whole/grid.csv"), desk.text("g/grid.csv"));
}
