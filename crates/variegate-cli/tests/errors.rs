//! What a user reads when something is wrong: what, where, and what to do; never a panic.

mod common;

use common::{Desk, families};

const SHORT: &str = "--chains 2 --warmup 20 --draws 50 --seed 1 --quiet";

#[test]
fn bad_calls_are_usage_errors() {
    let desk = Desk::new();
    desk.write("d.csv", "a,y\n1,0\n2,1\n");
    for (words, expected) in [
        ("fits", &["unrecognized subcommand", "--help"][..]),
        ("fit nothing d.csv", &["nothing", "The models are logistic"]),
        ("fit logistic", &["<DATA>"]),
        ("fit logistic d.csv --target y --chains 0", &["--chains", "a whole number from 1 to 1000"]),
        ("fit logistic d.csv --target y --chains many", &["--chains", "many"]),
        ("fit logistic d.csv --target y --prior-precision -1", &["--prior-precision", "a finite number above 0"]),
        ("fit logistic d.csv --target y --prior-precision nan", &["--prior-precision", "a finite number above 0"]),
        ("fit logistic d.csv --target y --standardize maybe", &["--standardize", "true, false"]),
        ("fit logistic d.csv --target y --bias-precision 0", &["--bias-precision", "`none`"]),
        ("fit logistic d.csv --target y --threads -1", &["--threads"]),
        ("fit logistic d.csv --target y --seed x", &["--seed"]),
        ("fit logistic d.csv --target y --block-rows 0", &["--block-rows"]),
        ("fit logistic d.csv --target y --checkpoint-seconds -1", &["--checkpoint-seconds", "at least 0"]),
        ("fit logistic d.csv --target y --checkpoint-seconds inf", &["--checkpoint-seconds"]),
        ("fit logistic d.csv --target y --draw 3", &["--draw", "--draws"]),
        ("fit logistic d.csv --format word", &["word", "csv, tsv"]),
        ("fit logistic d.csv --delimiter ab", &["--delimiter", "one character"]),
        ("simulate logistic --rows 0", &["--rows"]),
        ("simulate logistic --draws 5", &["--draws"]),
        ("check logistic --draws 5", &["--draws"]),
        ("simulate factors --learn-shape false", &["--learn-shape"]),
        ("simulate logistic --columns 0", &["--columns", "a whole number from 1"]),
        ("models nothing", &["nothing", "choose one of"]),
        ("completions powerhell", &["powershell"]),
        ("check nothing", &["The models are"]),
    ] {
        desk.bad(words, 2, expected);
    }
}

#[test]
fn bad_data_are_named_with_their_place() {
    let desk = Desk::new();
    desk.write("d.csv", "a,b,y\n1,2,no\n2,1,yes\n3,3,no\n1,1,yes\n");
    desk.write("text.csv", "a,b,y\n1,red,no\n2,blue,yes\n");
    desk.write("gap.csv", "a,b,y\n1,,no\n2,3,yes\n");
    desk.write("ragged.csv", "a,b,y\n1,2,no\n2,yes\n");
    desk.write("one.csv", "a,b,y\n1,2,no\n2,1,no\n");
    desk.write("three.csv", "a,y\n1,p\n2,q\n3,r\n");
    desk.write("empty.csv", "");
    desk.write("header.csv", "a,b,y\n");
    desk.write("noise.parquet", "this is not a Parquet file");
    for (words, expected) in [
        ("missing.csv --target y", &["missing.csv", "check the path"][..]),
        ("d.csv --target z", &["d.csv", "`z`", "`a`, `b`, `y`"]),
        ("d.csv", &["row 1", "`y`", "--target y"]),
        ("d.csv --target y --ignore a,b", &["no feature columns"]),
        ("d.csv --target y --weights w", &["`w`"]),
        ("d.csv --target y --weights y", &["`y`"]),
        ("text.csv --target y", &["text.csv", "row 1", "`b`", "red", "--ignore b"]),
        ("gap.csv --target y", &["row 1", "`b`", "missing"]),
        ("ragged.csv --target y", &["row 2", "fields"]),
        ("one.csv --target y", &["`no`", "two classes"]),
        ("three.csv --target y", &["two classes", "p, q, r", "softmax"]),
        ("empty.csv --target y", &["empty.csv"]),
        ("header.csv --target y", &["no rows"]),
        ("noise.parquet --target y", &["noise.parquet"]),
        (". --target y", &["format"]),
    ] {
        desk.bad(&format!("fit logistic {words} --out runs/x {SHORT}"), 1, expected);
        assert!(!desk.path("runs").exists(), "{words}: nothing may be left behind");
    }
}

#[test]
fn bad_runs_are_named() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 30 --seed 1 -o d.csv");
    desk.fitted(&format!("fit logistic d.csv --target label --out runs/a {SHORT}"));
    std::fs::create_dir(desk.path("hollow")).unwrap();
    for command in ["summary", "resume"] {
        desk.bad(&format!("{command} nowhere"), 1, &["nowhere", "not a run"]);
        desk.bad(&format!("{command} hollow"), 1, &["hollow", "not a run"]);
        desk.bad(&format!("{command} d.csv"), 1, &["d.csv"]);
    }
    desk.bad("predict nowhere d.csv", 1, &["nowhere", "not a run"]);
    desk.bad("predict runs/a nowhere.csv", 1, &["nowhere.csv", "check the path"]);
    desk.bad("predict runs/a d.csv --method guess", 2, &["guess", "average, plug-in"]);
    desk.bad("predict runs/a d.csv --target z", 1, &["`z`"]);
    desk.bad("predict runs/a d.csv -o no/such/folder/p.csv", 1, &["no/such/folder/p.csv", "folder exists"]);
    desk.bad("predict runs/a d.csv -o runs", 1, &["runs", "folder"]);
    desk.write("fewer.csv", "x1,x2\n1,2\n");
    desk.bad("predict runs/a fewer.csv", 1, &["fewer.csv", "`x3`"]);

    // one flipped byte anywhere is noticed, and the file is named
    for file in ["settings.toml", "schema.bin", "manifest.json"] {
        let whole = std::fs::read(desk.path("runs/a").join(file)).unwrap();
        let mut altered = whole.clone();
        let middle = altered.len() / 2;
        altered[middle] ^= 1;
        std::fs::write(desk.path("runs/a").join(file), &altered).unwrap();
        for command in ["summary runs/a", "resume runs/a", "predict runs/a d.csv"] {
            desk.bad(command, 1, &[file]);
        }
        std::fs::write(desk.path("runs/a").join(file), &whole[..middle]).unwrap();
        desk.bad("summary runs/a", 1, &[file]);
        std::fs::write(desk.path("runs/a").join(file), &whole).unwrap();
    }
    let draws = std::fs::read_dir(desk.path("runs/a/draws")).unwrap().next().unwrap().unwrap();
    std::fs::remove_file(draws.path()).unwrap();
    desk.bad("summary runs/a", 1, &[&draws.file_name().to_string_lossy(), "missing"]);
}

/// Data that changed between a fit and its resumption are refused, with what to do.
#[test]
fn changed_data_are_refused() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 30 --seed 1 -o d.csv");
    desk.good("simulate logistic --rows 31 --seed 1 -o longer.csv");
    // a commit that stops at once leaves a run that can be resumed
    let data = variegate_io::read::read(
        &desk.path("d.csv"),
        &variegate_io::read::ReadOptions { target: Some(variegate_io::read::ColumnSpec::column("label")), ..Default::default() },
    )
    .unwrap();
    unfinished(&desk, &data);
    let text = desk.text("d.csv");
    desk.write("d.csv", &text.replacen("yes", "no", 1));
    desk.bad("resume runs/a", 1, &["d.csv", "has changed", "--data"]);
    std::fs::rename(desk.path("longer.csv"), desk.path("d.csv")).unwrap();
    desk.bad("resume runs/a", 1, &["31 rows", "30"]);
    std::fs::remove_file(desk.path("d.csv")).unwrap();
    desk.bad("resume runs/a", 1, &["d.csv", "not there", "--data"]);
    desk.write("moved.csv", &text);
    desk.fitted("resume runs/a --data moved.csv");
    assert!(desk.good("summary runs/a").out.contains("complete"));
}

/// A run that was stopped after its first round.
fn unfinished(desk: &Desk, data: &variegate::data::Dataset<'_>) {
    use variegate::run::{ChainProgress, Next, drive};
    use variegate_io::run_dir::{DataReference, RunDir, RunRecord};
    let given = serde_json::json!({ "n_chains": 2, "n_draws": 30000 });
    let model = variegate::model::family("logistic").unwrap().configure(given.as_object().unwrap()).unwrap();
    let variegate::model::Prepared { fit, plan, fingerprint } =
        variegate::model::RunSettings::default().prepare(model.as_ref(), data).unwrap();
    let reference = DataReference {
        path: Some(desk.path("d.csv")),
        given: Some("d.csv".into()),
        reader: serde_json::json!({ "target": { "columns": ["label"] } }),
        rows: data.rows() as u64,
        columns: data.x.cols() as u64,
        ..DataReference::of(fingerprint)
    };
    let record = RunRecord::new("logistic", fit.program().name(), model.settings(), plan, reference, fit.schema().to_vec());
    let mut run = RunDir::create(desk.path("runs/a"), &record, false).unwrap();
    let mut stop = |_: &[ChainProgress]| Next::Stop;
    drive(fit.program(), data, &plan, Default::default(), &mut run, &mut stop).unwrap();
}

/// An unfinished run can be looked at and predicted with, and both say that it is unfinished.
#[test]
fn unfinished_runs_say_so() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 30 --seed 1 -o d.csv");
    let options = variegate_io::read::ReadOptions { target: Some(variegate_io::read::ColumnSpec::column("label")), ..Default::default() };
    unfinished(&desk, &variegate_io::read::read(&desk.path("d.csv"), &options).unwrap());
    let said = desk.good("summary runs/a");
    assert!(said.out.contains("stopped after") && said.out.contains("variegate resume runs/a"), "{}", said.out);
    assert_eq!(desk.good("summary runs/a --json").json()["status"], "stopped");
    let said = desk.call("predict runs/a d.csv");
    assert!(said.err.contains("not complete") || said.err.contains("variegate resume"), "{}", said.err);
}

/// Every family refuses what it cannot fit with words.
#[test]
fn every_family_names_what_is_wrong() {
    let desk = Desk::new();
    desk.write("one.csv", "a,b,y\n1,2,no\n2,1,no\n");
    desk.write("constant.csv", "a,y\n1,no\n1,yes\n1,no\n");
    for family in families().filter(|f| !common::unsupervised(*f)) {
        let name = family.name();
        let wrong = if common::columns(family) == "--target label" { "two classes" } else { "`no` is no label" };
        desk.bad(&format!("fit {name} one.csv --target y --out runs/x"), 1, &[wrong]);
        desk.bad(&format!("fit {name} one.csv --target q --out runs/x"), 1, &["`q`"]);
        desk.bad(&format!("fit {name} constant.csv --out runs/x --ignore y"), 1, &["--target COLUMN"]);
    }
}
