//! Settings chosen by cross-validation, and scores by category.

mod common;

use common::Desk;
use serde_json::Value;

const SHORT: &str = "--chains 1 --warmup 30 --draws 60 --quiet";

/// Rows of two classes in three sections; the third section breaks the rule that the other two follow.
fn sections(desk: &Desk, name: &str, rows: usize, from: usize) {
    let mut text = String::from("a,section,b,label\n");
    let mut svm = String::new();
    let mut companion = String::from("section\n");
    for i in from..from + rows {
        let a = (i as f64 * 0.618_033_988_75).fract() * 4.0 - 2.0;
        let b = (i as f64 * 0.754_877_666_2).fract();
        let section = ["north", "south", "rare"][if i % 10 == 0 { 2 } else { i % 2 }];
        let label = if (a > 0.0) != (section == "rare") { "yes" } else { "no" };
        text += &format!("{a},{section},{b},{label}\n");
        svm += &format!("{} 1:{a} 2:{b}\n", u8::from(label == "yes"));
        companion += &format!("{section}\n");
    }
    desk.write(&format!("{name}.csv"), &text);
    desk.write(&format!("{name}.svm"), &svm);
    desk.write(&format!("{name}-sections.csv"), &companion);
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn settings_are_chosen_on_folds_and_the_table_is_kept() {
    let desk = Desk::new();
    sections(&desk, "d", 120, 1);
    let fit = "fit logistic d.csv --target label --ignore section --seed 3 --cv 3 --grid prior-precision=0.5,2000";
    let said = desk.fitted(&format!("{fit} {SHORT} --out runs/a"));
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("settings") && lines[0].contains("log-loss") && lines[0].contains("error"), "{}", said.out);
    assert!(lines[1].starts_with("* prior_precision=0.5 ") && lines[2].starts_with("  prior_precision=2000 "), "{}", said.out);
    assert!(said.out.contains("Cross-validation on 3 folds"), "{}", said.out);
    assert!(desk.path("runs/a/cross-validation.jsonl").exists() && !desk.path("runs/a.cross-validation.jsonl").exists());
    let shown = desk.good("summary runs/a").out;
    assert!(shown.contains("* prior_precision=0.5 ") && shown.contains("prior_precision=0.5,"), "{shown}");
    let found = json(&desk.good("summary runs/a --json").out);
    assert_eq!(found["settings"]["prior_precision"], 0.5);
    assert_eq!(found["cross_validation"]["best"]["prior_precision"], 0.5);
    let points = found["cross_validation"]["points"].as_array().unwrap();
    assert!(points[0]["log_loss"].as_f64() < points[1]["log_loss"].as_f64(), "{points:?}");
    assert!(desk.good("compare runs/a").out.contains("* prior_precision=0.5 "));
    let compared = json(&desk.good("compare runs/a --json").out);
    assert_eq!(compared["runs"][0]["cross_validation"]["folds"], 3);

    // a run that takes its place does not inherit the table
    desk.fitted(&format!("fit logistic d.csv --target label --ignore section --seed 4 {SHORT} --out runs/a --force"));
    assert!(!desk.good("summary runs/a").out.contains("Cross-validation"));
    // no grid: what the settings as they are are worth
    let said = desk.fitted(&format!("fit logistic d.csv --target label --ignore section --seed 3 --cv 2 {SHORT} --out runs/b --json"));
    let found = json(&said.out);
    assert_eq!(found["cross_validation"]["points"].as_array().unwrap().len(), 1);
    // the seed of a fit decides the folds
    let again =
        desk.fitted(&format!("fit logistic d.csv --target label --ignore section --seed 3 --cv 2 {SHORT} --threads 1 --out runs/c --json"));
    assert_eq!(found["cross_validation"]["points"][0]["log_loss"], json(&again.out)["cross_validation"]["points"][0]["log_loss"]);
}

#[test]
fn real_outcomes_are_validated_too() {
    let desk = Desk::new();
    let rows: String = (0..60).map(|i| format!("{},{}\n", i as f64 / 10.0, (i as f64 / 10.0).sin() + 0.1 * f64::from(i % 3))).collect();
    desk.write("r.csv", &format!("x,y\n{rows}"));
    let said = desk.fitted("fit softmax r.csv --task regression --target y --cv 2 --grid experts=1,3 --seed 1 --out r --quiet");
    assert!(said.out.contains("-log density") && said.out.contains("* experts=3"), "{}", said.out);
    desk.write("r2.csv", &format!("x,y,s\n{}", rows.replace('\n', ",u\n")));
    desk.bad("predict r r2.csv --by s", 2, &["--by is for runs that predict classes"]);
}

#[test]
fn points_that_fail_are_reported_and_do_not_win() {
    let desk = Desk::new();
    sections(&desk, "d", 60, 1);
    let fit = "fit softmax d.csv --target label --ignore section --seed 3 --cv 2 --covariance lowrank:1 --quiet";
    let said = desk.fitted(&format!("{fit} --grid bound=jj,double --out a"));
    assert!(said.out.contains("* bound=double") && said.out.contains("bound=jj failed: setting `covariance`"), "{}", said.out);
    desk.bad(&format!("{fit} --grid bound=jj --out b"), 2, &["setting `covariance` is lowrank:1"]);
}

#[test]
fn grids_that_make_no_sense_are_refused() {
    let desk = Desk::new();
    sections(&desk, "d", 40, 1);
    let fit = "fit logistic d.csv --target label --ignore section --out a";
    desk.bad(&format!("{fit} --cv 2 --grid nope=1"), 2, &["has no setting `nope`"]);
    desk.bad(&format!("{fit} --cv 2 --grid prior-precision=1,-1"), 2, &["`prior_precision` is -1", "above 0"]);
    desk.bad(&format!("{fit} --cv 2 --grid prior-precision"), 2, &["names no values"]);
    desk.bad(&format!("{fit} --cv 2 --grid draws=5 --draws 6"), 2, &["`n_draws` is given and varied"]);
    desk.bad(&format!("{fit} --grid prior-precision=1"), 2, &["--cv"]);
    desk.bad(&format!("{fit} --cv 1"), 2, &["--cv"]);
    desk.bad(&format!("{fit} --cv 41 {SHORT}"), 1, &["41 folds"]);
    desk.bad(&format!("{fit} --cv 2 --grid prior-precision=1,2 {SHORT} --target nope"), 2, &["--target"]);
}

/// What is stopped goes on with the same command, and comes to the same table.
#[cfg(unix)]
#[test]
fn a_choice_that_is_interrupted_goes_on() {
    use std::process::{Command, Stdio};
    let desk = Desk::new();
    sections(&desk, "d", 200, 1);
    let fit =
        "fit logistic d.csv --target label --ignore section --cv 4 --grid prior-precision=0.5,2,8 --chains 2 --warmup 100 --draws 1500";
    let whole = json(&desk.fitted(&format!("{fit} --seed 3 --out whole --json --quiet")).out);
    let journal = desk.path("part.cross-validation.jsonl");
    let mut rounds = 0;
    for signal in ["-INT", "-KILL", "-TERM"] {
        let before = std::fs::read_to_string(&journal).map_or(0, |t| t.lines().count());
        let child =
            desk.command(&format!("{fit} --seed 3 --out part --threads 1")).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = child;
        while std::fs::read_to_string(&journal).map_or(0, |t| t.lines().count()) < before.max(1) + 2 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let said = common::Said::of(child.wait_with_output().unwrap());
        if signal != "-KILL" {
            assert_eq!(said.code, 130, "{}", said.err);
            assert!(said.err.contains("the same command goes on"), "{}", said.err);
        }
        assert!(!desk.path("part").exists());
        rounds += 1;
    }
    assert_eq!(rounds, 3);
    desk.bad(&format!("{fit} --seed 4 --out part --quiet"), 1, &["whose seed differs", "--force"]);
    // without a seed that of the file is taken
    let said = desk.fitted(&format!("{fit} --out part --json"));
    assert!(said.err.contains("done before"), "{}", said.err);
    let found = json(&said.out);
    assert_eq!(found["seed"], 3);
    let points = |v: &Value| v["cross_validation"]["points"].as_array().unwrap().clone();
    let losses = |v: &Value| points(v).iter().map(|p| p["log_loss"].clone()).collect::<Vec<_>>();
    assert_eq!(losses(&whole), losses(&found));
    assert_eq!(whole["table"], found["table"], "the fit that is kept is the same");
}

#[test]
fn scores_are_told_by_category() {
    let desk = Desk::new();
    sections(&desk, "d", 300, 1);
    sections(&desk, "t", 200, 1001);
    desk.fitted(&format!("fit logistic d.csv --target label --ignore section --seed 3 --out a {SHORT}"));
    desk.fitted("fit softmax d.csv --target label --ignore section,b --seed 3 --out b --quiet");
    let said = desk.good("predict a t.csv --by section -o p.csv --by-out by.csv");
    let names: Vec<&str> = said.out.lines().skip(1).map(|l| l.split("  ").next().unwrap()).collect();
    assert_eq!(names, ["all", "class no", "class yes", "section north", "section rare", "section south"], "{}", said.out);
    let by = desk.text("by.csv");
    assert!(by.starts_with("of,value,rows,accuracy,low,high,log_loss,brier\nall,,200,"), "{by}");
    let row = |name: &str| -> Vec<f64> {
        let line = by.lines().find(|l| l.starts_with(name)).unwrap();
        line.split(',').skip(2).map(|c| c.parse().unwrap()).collect()
    };
    let (rare, north) = (row("section,rare,"), row("section,north,"));
    assert!(rare[0] == 20.0 && rare[1] < 0.3 && north[1] > 0.9, "{by}");
    assert!(north[2] < north[1] && north[1] < north[3], "{by}");
    // predictions go to standard output: the table does not mix with them
    let said = desk.good("predict a t.csv --by section");
    assert!(said.out.starts_with("row,prediction,") && said.err.contains("section rare"), "{}", said.err);
    let found = json(&desk.good("predict a t.csv --by section --json").out);
    assert_eq!(found["by"][4]["value"], "rare");

    let said = desk.good("compare a b --test t.csv --by section");
    assert!(said.out.contains("test log-loss") && said.out.contains("difference"), "{}", said.out);
    assert!(said.out.lines().any(|l| l.starts_with("section rare") && l.contains("20")), "{}", said.out);
    let found = json(&desk.good("compare a b --test t.csv --by section --json").out);
    let difference = &found["by"][0]["difference"];
    let accuracies: Vec<f64> = found["by"][0]["runs"].as_array().unwrap().iter().map(|r| r["accuracy"].as_f64().unwrap()).collect();
    assert!((difference["accuracy"].as_f64().unwrap() - (accuracies[0] - accuracies[1])).abs() < 1e-12, "{difference}");
    assert!(desk.good("compare a b a --test t.csv --by section").out.contains("section rare"));

    desk.bad("predict a t.csv --by b", 1, &["--by names `b`, which is a feature of this model"]);
    desk.bad("predict a t.csv --by label", 1, &["--by names `label`, which is the target"]);
    desk.bad("predict a t.csv --by nope", 1, &["no column `nope`"]);
    desk.bad("predict a t.csv --by section --by-out by.csv", 1, &["exists already"]);
    desk.bad("predict a t.csv --by-out x.csv", 2, &["--by"]);
    desk.bad("compare a b", 1, &["--test"]);
    desk.write("untold.csv", "a,b,section\n1,2,north\n");
    desk.bad("predict a untold.csv --by section", 1, &["no target to score by", "--target"]);
}

/// Rows without names take their categories from another file.
#[test]
fn sparse_rows_have_their_categories_in_another_file() {
    let desk = Desk::new();
    sections(&desk, "d", 200, 1);
    sections(&desk, "t", 100, 1001);
    desk.fitted(&format!("fit logistic d.svm --seed 3 --out a {SHORT}"));
    let said = desk.good("predict a t.svm --by t-sections.csv:section -o p.csv");
    assert!(said.out.contains("section rare") && said.out.contains("class 1"), "{}", said.out);
    let said = desk.good("predict a t.svm --by t-sections.csv -o q.csv");
    assert!(said.out.contains("t-sections.csv rare"), "{}", said.out);
    desk.bad("predict a t.svm --by d-sections.csv:section -o r.csv", 1, &["200"]);
    desk.bad("predict a t.svm --by section", 1, &["section"]);
}
