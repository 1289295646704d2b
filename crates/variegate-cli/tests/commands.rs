//! Every command on small data: what it writes where, and how it ends.

mod common;

use common::{Desk, families, short};
use serde_json::Value;
use std::process::Stdio;

/// The way from nothing to predictions, for every family there is.
#[test]
fn from_simulated_data_to_predictions() {
    for family in families() {
        let (name, short) = (family.name(), short(family));
        let desk = Desk::new();
        let said = desk.good(&format!("simulate {name} --rows 300 --seed 1 -o d.csv"));
        assert!(said.out.is_empty() && said.err.contains("d.truth.json"), "{}", said.err);
        let truth: Value = serde_json::from_str(&desk.text("d.truth.json")).unwrap();
        assert_eq!(truth["model"], name);
        assert_eq!(truth["seed"], 1);
        assert!(truth["truth"].as_object().is_some_and(|t| !t.is_empty()));
        assert_eq!(desk.text("d.csv").lines().count(), 301);

        let said = desk.fitted(&format!("fit {name} d.csv --target label --seed 3 --out runs/a{short}"));
        // labels of experts mean nothing: their table tells of angles, not of columns
        let telling = if name == "experts" { "mean angle of experts" } else { "x1" };
        assert!(said.out.contains(telling), "the table is the result: {}", said.out);
        for part in ["300 rows", "seed 3", "runs/a", "variegate predict runs/a"] {
            assert!(said.err.contains(part), "`{part}` is missing:\n{}", said.err);
        }
        assert!(!said.err.contains('\u{1b}') && !said.err.contains('\r'), "no colour and no bars in a pipe");

        let said = desk.good("summary runs/a");
        for part in ["complete", "d.csv", "seed=3", "onverged"] {
            assert!(said.out.contains(part), "`{part}` is missing:\n{}", said.out);
        }
        let said = desk.fitted("resume runs/a");
        assert!(said.err.contains("nothing left to do"), "{}", said.err);

        let said = desk.good("predict runs/a d.csv -o pred.csv");
        assert!(said.out.is_empty() && said.err.contains("accuracy 0."), "{}", said.err);
        let file = desk.text("pred.csv");
        assert!(file.starts_with("row,prediction,p_"), "{file}");
        assert_eq!(file.lines().count(), 301);
        let said = desk.good("predict runs/a d.csv");
        assert_eq!(said.out, file, "standard output gets what the file gets");
        assert!(desk.good("predict runs/a d.csv --quiet").err.is_empty());
    }
}

/// Predictions find their columns by name, with or without the target, in another order and another format.
#[test]
fn predictions_depend_on_names_not_on_places() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 50 --seed 2 -o d.csv");
    desk.fitted("fit logistic d.csv --target label --seed 1 --out runs/a --chains 2 --warmup 50 --draws 50 --quiet");
    let expected = desk.good("predict runs/a d.csv").out;
    let rows: Vec<Vec<String>> = desk.text("d.csv").lines().map(|l| l.split(',').map(String::from).collect()).collect();
    let turned = |with_target: bool, delimiter: &str| {
        rows.iter()
            .map(|r| {
                let mut cells = vec![r[2].as_str(), "7", r[0].as_str(), r[1].as_str()];
                cells.extend(with_target.then_some(r[3].as_str()));
                cells.join(delimiter) + "\n"
            })
            .collect::<String>()
            .replacen('7', "stranger", 1)
    };
    desk.write("a.csv", &turned(false, ","));
    let said = desk.good("predict runs/a a.csv");
    assert_eq!(said.out, expected);
    assert!(!said.err.contains("accuracy"));
    desk.write("b.tsv", &turned(true, "\t"));
    let said = desk.good("predict runs/a b.tsv");
    assert_eq!(said.out, expected);
    assert!(said.err.contains("accuracy"));
    desk.write("c.data", &turned(true, ";"));
    assert_eq!(desk.good("predict runs/a c.data --format csv --delimiter ; --quiet").out, expected);
}

#[test]
fn json_is_one_object_everywhere() {
    let desk = Desk::new();
    let said = desk.good("simulate logistic --rows 200 --seed 1 -o d.csv --json");
    assert_eq!(said.json()["rows"], 200);
    let said = desk.good("fit logistic d.csv --target label --seed 3 --out runs/a --chains 2 --json --quiet");
    assert!(said.err.is_empty(), "{}", said.err);
    let fit = said.json();
    assert_eq!((&fit["status"], &fit["converged"], &fit["seed"]), (&"complete".into(), &true.into(), &3.into()));
    assert_eq!(fit["table"].as_array().unwrap().len(), 4);
    assert!(fit["table"][0]["mean"].is_f64() && fit["settings"]["n_draws"] == 1000);
    let mut summary = desk.good("summary runs/a --json").json();
    assert_eq!(summary["table"], fit["table"]);
    assert_eq!(summary["chains"].as_array_mut().unwrap().len(), 2);
    let predicted = desk.good("predict runs/a d.csv --json --quiet").json();
    assert_eq!(predicted["prediction"].as_array().unwrap().len(), 200);
    assert!(predicted["scores"]["accuracy"].as_f64().unwrap() > 0.5);
    assert_eq!(desk.good("predict runs/a d.csv -o p.csv --json --quiet").json()["rows"], 200);
    let models = desk.good("models --json").json();
    assert_eq!(models["models"].as_array().unwrap().len(), families().count());
    assert_eq!(desk.good("models logistic --json").json()["model"], "logistic");
}

#[test]
fn a_seed_is_chosen_printed_and_stored() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 40 --seed 1 -o d.csv");
    let fit = "fit logistic d.csv --target label --chains 2 --warmup 50 --draws 50";
    let first = desk.fitted(fit);
    assert!(first.err.contains("into runs/logistic-1, seed "), "{}", first.err);
    let said = desk.fitted(&format!("{fit} --json"));
    let seed = said.json()["seed"].as_u64().unwrap();
    assert!(said.err.contains(&format!("into runs/logistic-2, seed {seed}")), "{}", said.err);
    desk.fitted(&format!("{fit} --seed {seed} --out again"));
    let (a, b) = (common::kept(&desk.path("runs/logistic-2")), common::kept(&desk.path("again")));
    common::assert_same(&a, &b, "a run repeated with the seed it printed");
    assert!(a.draws != common::kept(&desk.path("runs/logistic-1")).draws);
}

#[test]
fn not_converged_is_said_in_words_and_by_the_exit_code() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 40 --seed 1 -o d.csv");
    let said = desk.call("fit logistic d.csv --target label --seed 1 --out runs/a --chains 2 --warmup 0 --draws 10 --quiet");
    assert_eq!(said.code, 3);
    assert!(said.err.contains("not converged") && said.err.contains("ESS"), "{}", said.err);
    assert!(said.out.contains("x1"), "results are there all the same");
    assert!(desk.good("summary runs/a").out.contains("Not converged."));
    assert_eq!(desk.call("resume runs/a").code, 3);
}

/// A reader that goes away early is no error, however much there is to say.
#[test]
fn a_closed_pipe_ends_quietly() {
    let desk = Desk::new();
    for words in ["simulate logistic --rows 20000 --seed 1 --quiet", "completions bash", "models logistic", "--help"] {
        let mut child = desk.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said = common::Said::of(child.wait_with_output().unwrap());
        assert!(said.err.is_empty(), "`{words}` complains: {}", said.err);
        assert_eq!(said.code, 0, "{words}");
    }
}

#[test]
fn force_replaces_and_nothing_else_does() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 40 --seed 1 -o d.csv");
    desk.bad("simulate logistic --rows 40 --seed 2 -o d.csv", 1, &["d.csv", "--force"]);
    let fit = "fit logistic d.csv --target label --seed 1 --out runs/a --chains 2 --warmup 50 --draws 50 --quiet";
    desk.fitted(fit);
    desk.bad(fit, 1, &["runs/a", "--force", "variegate resume runs/a"]);
    desk.fitted(&format!("{fit} --force --prior-precision 5"));
    assert!(desk.good("summary runs/a").out.contains("prior_precision=5"));
    desk.good("predict runs/a d.csv -o p.csv");
    desk.bad("predict runs/a d.csv -o p.csv", 1, &["p.csv", "--force"]);
    desk.good("predict runs/a d.csv -o p.csv --force");
    desk.good("simulate logistic --rows 50 --seed 2 -o d.csv --force");
    assert_eq!(desk.text("d.csv").lines().count(), 51);
    std::fs::create_dir(desk.path("mine")).unwrap();
    desk.write("mine/thesis.txt", "years of work");
    desk.bad("fit logistic d.csv --target label --out mine --force", 1, &["thesis.txt", "--out"]);
}

/// Help of every command fits 80 columns and has an example; every option of every model is there.
#[test]
fn help_is_complete_and_fits() {
    let desk = Desk::new();
    let mut calls: Vec<String> =
        ["", "fit", "resume", "predict", "summary", "compare", "simulate", "check", "models", "demo", "completions"]
            .map(String::from)
            .to_vec();
    for family in families() {
        calls.extend(["fit", "simulate", "check"].map(|c| format!("{c} {}", family.name())));
    }
    for call in calls {
        let help = desk.good(&format!("{call} --help")).out;
        assert!(help.contains("Examples:") && help.contains("  variegate "), "{call} --help has no examples");
        for line in help.lines().filter(|l| !l.starts_with("  variegate completions")) {
            assert!(line.chars().count() <= 80, "{call} --help is too wide: {line}");
        }
    }
    for family in families() {
        let help = desk.good(&format!("fit {} --help", family.name())).out;
        for setting in family.settings() {
            assert!(help.contains(&format!("--{} ", setting.option())), "{} --{}", family.name(), setting.option());
        }
    }
    assert!(desk.good("--version").out.starts_with("variegate 0."));
    assert_eq!(desk.call("").code, 2);
    assert_eq!(desk.call("fit").code, 2);
}

#[test]
fn completions_know_the_models() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = desk.good(&format!("completions {shell}")).out;
        assert!(script.contains("logistic") && script.contains("prior-precision"), "{shell}");
    }
}

#[test]
fn the_demonstration_shows_every_model() {
    let desk = Desk::new();
    desk.write("notes.txt", "mine");
    desk.bad("demo --out .", 1, &["not empty", "--out"]);
    let said = desk.good("demo --json --quiet");
    let found = said.json();
    let last = found["models"].as_array().unwrap().last().unwrap();
    assert!(last["structure"].is_string() && last["accuracy"].as_f64() > last["guessing"].as_f64(), "{last}");
    for (family, found) in families().zip(found["models"].as_array().unwrap()) {
        assert_eq!(found["model"], family.name());
        assert!(found["accuracy"].as_f64().unwrap() > found["guessing"].as_f64().unwrap(), "{found}");
        let run = found["run"].as_str().unwrap();
        assert!(desk.good(&format!("summary {run}")).out.contains("complete"));
        desk.good(&format!("predict {run} runs/demo-1/data/{}-test.csv --quiet", family.name()));
    }
}

#[test]
fn quick_checks_pass_and_are_told_as_tables() {
    let desk = Desk::new();
    for family in families() {
        let said = desk.good(&format!("check {} --quick", family.name()));
        assert!(said.out.contains("p-value") && said.out.contains("  ok"), "{}", said.out);
        assert!(said.err.contains("All checks passed"), "{}", said.err);
    }
}
