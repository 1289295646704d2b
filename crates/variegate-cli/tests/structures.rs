//! Structures, real outcomes and hidden components on the command line.

mod common;

use common::Desk;
use std::fmt::Write as _;

/// Options that make a search short.
const FEW: &str = "--init 2 --vb 1 --tol 0.01 --seed 1 --quiet";

/// Numbers that look random and are the same everywhere: a linear congruence, its upper bits.
struct Numbers(u64);

impl Numbers {
    /// Uniform between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A class on both sides of the other.
fn two_parts(rows: usize, seed: u64) -> String {
    let (mut r, mut text) = (Numbers(seed), "a,b,y\n".to_string());
    for i in 0..rows {
        let (inside, noise) = (i % 2 == 0, r.next() + r.next());
        let centre = if inside { 0.0 } else { 3.0 * r.next().signum() };
        let _ = writeln!(text, "{:.4},{:.4},{}", centre + noise, r.next(), if inside { "in" } else { "out" });
    }
    text
}

/// Two outcomes with a bend at zero.
fn bent(rows: usize, seed: u64) -> String {
    let (mut r, mut text) = (Numbers(seed), "x,y,z\n".to_string());
    for _ in 0..rows {
        let x = 2.0 * r.next();
        let mean = if x < 0.0 { -2.0 * x } else { 3.0 * x };
        let _ = writeln!(text, "{x:.4},{:.4},{:.4}", mean + 0.2 * r.next(), 5.0 - 10.0 * mean + 3.0 * r.next());
    }
    text
}

#[test]
fn a_search_is_told_by_fit_summary_and_compare() {
    let desk = Desk::new();
    desk.write("d.csv", &two_parts(160, 1));
    desk.write("t.csv", &two_parts(100, 2));
    let said = desk.good(&format!("fit softmax d.csv --target y --subclasses all:2 {FEW} --out runs/a"));
    assert!(said.out.starts_with("structure  elbo-sym"), "{}", said.out);
    assert!(said.out.contains("\n* [1,2]"), "{}", said.out);
    let said = desk.good("summary runs/a");
    assert!(said.out.contains("subclasses=all:2") && said.out.contains("\n* [1,2]"), "{}", said.out);
    assert!(said.out.lines().all(|l| l.chars().count() <= 80), "{}", said.out);
    assert_eq!(desk.good("summary runs/a --json").json()["selection"]["chosen"], "[1,2]");

    let said = desk.good("compare runs/a");
    for part in ["structure  elbo-sym", "elbo-tight", "bic", "  [1,1]", "* [1,2]", "  [2,1]", "  [2,2]", "was chosen of 4 structures"] {
        assert!(said.out.contains(part), "`{part}` is missing:\n{}", said.out);
    }
    assert!(!said.out.contains("test ") && said.err.is_empty(), "{}{}", said.out, said.err);
    let said = desk.good("compare runs/a --test t.csv");
    assert!(said.out.contains("test log-loss  test error"), "{}", said.out);
    let found = desk.good("compare runs/a --test t.csv --target y --json").json();
    let run = &found["runs"][0];
    assert_eq!(run["chosen"], "[1,2]");
    let rows = run["structures"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let loss = |name: &str| rows.iter().find(|r| r["structure"] == name).unwrap()["test"]["log_loss"].as_f64().unwrap();
    assert!(loss("[1,2]") < 0.3 && loss("[1,1]") > 0.5, "{found}");
    // what the chosen structure scores is what its run predicts
    let scores = desk.good("predict runs/a t.csv --json").json()["scores"].clone();
    assert_eq!(scores["log_loss"].as_f64().unwrap(), loss("[1,2]"));
}

#[test]
fn runs_are_compared_where_that_makes_sense() {
    let desk = Desk::new();
    desk.write("d.csv", &two_parts(120, 1));
    desk.write("r.csv", &bent(60, 1));
    desk.write("tree.toml", "gates = [\"expert\", [\"expert\", \"expert\"]]\n");
    for (name, options) in [
        ("auto", "--subclasses auto:2"),
        ("tree", "--gates tree.toml"),
        ("double", "--experts 2 --bound double"),
        ("child", "--covariance child"),
    ] {
        desk.fitted(&format!("fit softmax d.csv --target y {options} {FEW} --out runs/{name}"));
    }
    let said = desk.good("compare runs/auto runs/tree");
    for part in ["* auto [1,2]", "* tree (e (e e))", "runs/tree: (e (e e)) is the only structure", "Best of all: "] {
        assert!(said.out.contains(part), "`{part}` is missing:\n{}", said.out);
    }
    assert!(said.err.is_empty(), "{}", said.err);
    let said = desk.good("compare runs/auto runs/double --test d.csv");
    assert!(said.err.contains("`bound` is tilted in runs/auto and double in runs/double"), "{}", said.err);
    assert!(!said.out.contains("Best of all"), "{}", said.out);
    assert!(desk.good("compare runs/auto runs/child").err.contains("`covariance`"));
    assert_eq!(desk.good("compare runs/auto runs/double --json").json()["warnings"].as_array().unwrap().len(), 1);

    // others are refused with words
    desk.good("simulate logistic --rows 30 --seed 1 -o l.csv");
    desk.fitted("fit logistic l.csv --target label --seed 1 --chains 2 --warmup 20 --draws 50 --quiet --out runs/logistic");
    desk.bad("compare runs/logistic", 1, &["run of `logistic`", "no structures to compare", "--test FILE"]);
    desk.bad("compare runs/auto runs/logistic", 1, &["runs/logistic", "no structures to compare"]);
    desk.fitted(&format!("fit softmax r.csv --target y --ignore z --task regression --experts 1 {FEW} --out runs/real"));
    desk.bad("compare runs/auto runs/real", 1, &["different targets"]);
    desk.bad("compare nowhere", 1, &["nowhere", "not a run"]);
    desk.bad("compare", 2, &["<RUN>"]);
    desk.bad("compare runs/auto --target y", 2, &["--test"]);
    desk.bad("compare runs/auto --test none.csv", 1, &["none.csv", "check the path"]);
    desk.write("bare.csv", "a,b\n1,2\n");
    desk.bad("compare runs/auto --test bare.csv", 1, &["bare.csv", "--target COLUMN"]);
}

#[test]
fn real_outcomes_from_fit_to_quantiles() {
    let desk = Desk::new();
    desk.write("r.csv", &bent(120, 1));
    desk.write("t.csv", &bent(60, 2));
    let said = desk.good("fit softmax r.csv --target y,z --task regression --experts auto:3 --init 4 --seed 1 --out runs/both");
    assert!(said.err.contains("2 real targets"), "{}", said.err);
    assert!(said.out.contains("* 2 experts"), "{}", said.out);
    let said = desk.good("predict runs/both t.csv");
    assert!(said.out.starts_with("row,mean_y,mean_z,sd_y,sd_z,q0.05_y,q0.05_z,q0.5_y,q0.5_z,q0.95_y,q0.95_z\n"), "{}", said.out);
    assert!(said.err.contains("mean squared error") && said.err.contains("over 60 rows"), "{}", said.err);
    let found = desk.good("compare runs/both --test t.csv --json").json();
    let of = |name: &str| {
        let rows = found["runs"][0]["structures"].as_array().unwrap();
        rows.iter().find(|r| r["structure"] == name).unwrap()["test"]["log_density"].as_f64().unwrap()
    };
    assert!(of("2 experts") > of("1 expert") + 1.0, "{found}");

    desk.good(&format!("fit softmax r.csv --target y --ignore z --task regression --experts 2 {FEW} --out runs/one"));
    let said = desk.good("predict runs/one t.csv --quantiles 0.1,0.9 --responsibilities");
    let mut lines = said.out.lines();
    assert_eq!(lines.next(), Some("row,mean,sd,q0.1,q0.9,share_expert 1,share_expert 2"));
    for line in lines {
        let v: Vec<f64> = line.split(',').map(|f| f.parse().unwrap()).collect();
        assert!(v[2] > 0.0 && v[3] < v[4] && (v[5] + v[6] - 1.0).abs() < 1e-9, "{line}");
    }
    let found = desk.good("predict runs/one t.csv --json --responsibilities").json();
    assert_eq!(found["mean"].as_array().unwrap().len(), 60);
    assert_eq!(found["quantiles"]["0.95"][0].as_array().unwrap().len(), 1);
    assert_eq!(found["responsibilities"]["names"][1], "expert 2");
    assert!(found["scores"]["squared_error"].as_f64().unwrap() < 0.5, "{}", found["scores"]);
    // without the truth there are no scores, and its absence changes nothing else
    desk.write("x.csv", &desk.text("t.csv").lines().map(|l| l.split(',').next().unwrap().to_string() + "\n").collect::<String>());
    let bare = desk.good("predict runs/one x.csv");
    assert_eq!(bare.out, desk.good("predict runs/one t.csv").out);
    assert!(!bare.err.contains("squared"), "{}", bare.err);

    // the first number of an svmlight file is the outcome
    let svm: String =
        desk.text("r.csv").lines().skip(1).map(|l| l.split(',').collect::<Vec<_>>()).map(|c| format!("{} 1:{}\n", c[1], c[0])).collect();
    desk.write("r.svm", &svm);
    let said = desk.good("fit softmax r.svm --task regression --experts 2 --init 2 --vb 1 --tol 0.01 --seed 1 --out runs/svm");
    assert!(said.err.contains("1 real target"), "{}", said.err);
    assert!(desk.good("predict runs/svm r.svm").err.contains("mean squared error"));

    desk.write("words.csv", "x,y\n1,red\n2,blue\n");
    desk.bad("fit softmax words.csv --target y --task regression --out runs/x", 1, &["row 1", "`y`", "`red` is not a number", "classes"]);
    desk.bad("fit softmax r.csv --target y,z --out runs/x", 1, &["one column"]);
    desk.bad("predict runs/one t.csv --quantiles 0.5,1", 2, &["--quantiles", "between 0 and 1"]);
    desk.bad("fit softmax r.csv --target y --task regression --subclasses 2 --out runs/x", 2, &["`subclasses`", "use `experts`"]);
}

#[test]
fn shares_of_components_are_columns() {
    let desk = Desk::new();
    desk.write("d.csv", &two_parts(120, 1));
    desk.good(&format!("fit softmax d.csv --target y --subclasses 1,2 {FEW} --out runs/a"));
    let said = desk.good("predict runs/a d.csv --responsibilities --method mc");
    let mut lines = said.out.lines();
    assert_eq!(lines.next(), Some("row,prediction,p_in,p_out,sd_in,sd_out,share_in,share_out/1,share_out/2"));
    let first: Vec<&str> = lines.next().unwrap().split(',').collect();
    let v: Vec<f64> = first[2..].iter().map(|f| f.parse().unwrap()).collect();
    assert!((v[4..].iter().sum::<f64>() - 1.0).abs() < 1e-9, "{first:?}");
    desk.bad("predict runs/a d.csv --quantiles 0.5", 2, &["--quantiles", "predicts classes"]);
    desk.good("simulate logistic --rows 30 --seed 1 -o l.csv");
    desk.fitted("fit logistic l.csv --target label --seed 1 --chains 2 --warmup 20 --draws 50 --quiet --out runs/l");
    desk.bad("predict runs/l l.csv --responsibilities", 1, &["cannot tell the shares of hidden components", "it can predict classes"]);
}

/// Settings that are texts or have parts: read, kept, told, and read again.
#[test]
fn trees_of_gates_come_from_files() {
    let desk = Desk::new();
    desk.write("d.csv", &two_parts(120, 1));
    desk.write("tree.toml", "# one expert, and two behind a gate\ngates = [\"expert\", { children = [1, 1], coding = \"logistic\" }]\n");
    desk.good(&format!("fit softmax d.csv --target y --gates tree.toml {FEW} --input-map polynomial:2 --covariance child --out runs/a"));
    let settings = desk.text("runs/a/settings.toml");
    for part in ["gates = [\"expert\", ", "coding = \"logistic\"", "input_map = \"polynomial:2\"", "covariance = \"child\""] {
        assert!(settings.contains(part), "`{part}` is missing:\n{settings}");
    }
    // the file is not needed any more
    std::fs::remove_file(desk.path("tree.toml")).unwrap();
    assert!(desk.good("summary runs/a").out.contains("(e (e e))"));
    assert!(desk.fitted("resume runs/a").err.contains("nothing left to do"));
    desk.good("predict runs/a d.csv --quiet");

    desk.write("wrong.toml", "gates = [\"leaf\"]\n");
    desk.write("other.toml", "tree = [2, 2]\n");
    desk.write("broken.toml", "gates = [2,\n");
    desk.write("three.toml", "gates = [{ subclasses = [1, 1, 1] }, \"expert\"]\n");
    let fit = "fit softmax d.csv --target y --out runs/x";
    for (options, code, expected) in [
        ("--gates none.toml", 2, &["--gates", "none.toml", "no such file"][..]),
        ("--gates wrong.toml", 2, &["--gates", "wrong.toml", "\"expert\""]),
        ("--gates other.toml", 2, &["no key `gates`", "gates = "]),
        ("--gates broken.toml", 2, &["not TOML", "line "]),
        ("--gates three.toml", 2, &["`gates`", "2 numbers"]),
        ("--gates .", 2, &["cannot be read"]),
        ("--subclasses many", 2, &["--subclasses", "auto:MOST", "`none`"]),
        ("--subclasses 1,2,3", 2, &["`subclasses`", "2 and not 3"]),
        ("--experts compressive:3", 2, &["--experts", "a number of experts"]),
        ("--covariance wide", 2, &["--covariance", "lowrank:RANK"]),
        ("--input-map cubic", 2, &["--input-map", "polynomial:DEGREE"]),
        ("--subclasses 2 --experts 2", 2, &["`experts`", "left out where `subclasses`"]),
    ] {
        let said = desk.call(&format!("{fit} {options}"));
        assert_eq!(said.code, code, "{options}: {}", said.err);
        for part in expected {
            assert!(said.err.contains(part), "`{options}` should say `{part}`:\n{}", said.err);
        }
        assert!(!desk.path("runs/x").exists(), "{options}: nothing may be left behind");
    }
    let told = desk.good("models softmax").out;
    assert!(told.contains("--gates (a TOML file whose key `gates` is a list") && told.contains("default none"), "{told}");
    assert!(desk.good("completions bash").out.contains("compare"));
}
