//! What goes in and out: further rows from a truth, pipes, text columns, odd files, and runs that are being written.

mod common;

use common::{Desk, Said, families};
use std::io::Write;
use std::process::Stdio;

const SHORT: &str = "--chains 2 --warmup 20 --draws 50 --seed 1 --quiet";

/// Calls with a text on standard input.
fn piped(desk: &Desk, words: &str, input: &str) -> Said {
    let mut command = desk.command(words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn further_rows_come_from_a_truth() {
    let desk = Desk::new();
    for family in families() {
        let name = family.name();
        desk.good(&format!("simulate {name} --rows 60 --columns 5 --seed 1 -o {name}.csv"));
        desk.good(&format!("simulate {name} --rows 20 --truth {name}.truth.json --seed 1 -o {name}-new.csv"));
        let (old, new) = (desk.text(&format!("{name}.csv")), desk.text(&format!("{name}-new.csv")));
        assert_eq!(old.lines().next(), new.lines().next(), "{name}: the columns");
        assert_eq!(new.lines().count(), 21);
        assert_ne!(old.lines().take(21).collect::<Vec<_>>(), new.lines().collect::<Vec<_>>(), "{name}: the rows of the first data again");
        // the truth of further rows is one to go on from
        desk.good(&format!("simulate {name} --rows 5 --truth {name}-new.truth.json --seed 1 -o {name}-more.csv"));
        assert_eq!(new.lines().take(1).collect::<Vec<_>>(), desk.text(&format!("{name}-more.csv")).lines().take(1).collect::<Vec<_>>());
        desk.bad(&format!("simulate {name} --columns 2 --truth {name}.truth.json"), 2, &["--columns", "leave it out"]);
    }
    desk.bad("simulate softmax --truth logistic.truth.json", 1, &["truth of `logistic`", "variegate simulate logistic"]);
    desk.bad("simulate softmax --truth nowhere.json", 1, &["nowhere.json", "NAME.truth.json"]);
    desk.bad("simulate softmax --truth softmax.csv", 1, &["is not a truth"]);
    // settings of the model are those of the truth
    desk.good("simulate softmax --rows 60 --experts 3 --classes 2 --seed 1 -o curved.csv");
    desk.good("simulate softmax --rows 9 --truth curved.truth.json -o curved-new.csv");
    desk.write("other.json", &desk.text("curved.truth.json").replace("\"experts\": \"3\"", "\"experts\": \"4\""));
    desk.bad("simulate softmax --rows 9 --truth other.json", 1, &["`structure` of the truth"]);
}

#[test]
fn data_come_and_go_through_pipes() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 80 --seed 1 -o d.csv");
    let text = desk.text("d.csv");
    let said = piped(&desk, &format!("fit logistic - --target label --out runs/piped {SHORT}"), &text);
    assert!(matches!(said.code, 0 | 3), "{}", said.err);
    desk.fitted(&format!("fit logistic d.csv --target label --out runs/file {SHORT}"));
    assert!(desk.good("summary runs/piped").out.contains("standard input (80 rows"));
    let from_file = desk.good("predict runs/file d.csv --quiet").out;
    let said = piped(&desk, "predict runs/piped - -o - --quiet", &text);
    assert_eq!((said.code, said.out), (0, from_file), "{}", said.err);
    assert!(!desk.path("-").exists());
    // faults are those of standard input
    let said = piped(&desk, "predict runs/piped -", "x1,x2\n1,2\n");
    assert!(said.code == 1 && said.err.contains("standard input: there is no column `x3`"), "{}", said.err);
    let said = piped(&desk, &format!("fit logistic - --format svmlight --out runs/sparse {SHORT}"), "1 1:2\n-1 2:1\n1 1:1 2:1\n-1 2:3\n");
    assert!(matches!(said.code, 0 | 3), "{}", said.err);
    desk.bad("fit logistic d.csv --target label --out -", 2, &["folder"]);
    let said = desk.good("simulate logistic --rows 3 --seed 1 -o - --quiet");
    assert_eq!(said.out.lines().count(), 4);
}

const PAINT: &str = "size,colour,bought\n3,red,no\n4,blue,yes\n5,red,yes\n2,green,no\n3,blue,no\n6,green,yes\n";

#[test]
fn text_columns_are_coded_and_looked_up() {
    let desk = Desk::new();
    desk.write("paint.csv", PAINT);
    desk.bad("fit logistic paint.csv --target bought --out runs/x", 1, &["row 1", "`colour`", "`red`", "--encode one-hot"]);
    let said =
        desk.fitted(&format!("fit logistic paint.csv --target bought --encode one-hot --out runs/a {}", SHORT.replace("--quiet", "")));
    assert!(said.err.contains("coded one-hot: colour (3 categories)"), "{}", said.err);
    let summary = desk.good("summary runs/a").out;
    for name in ["colour=blue", "colour=green", "colour=red", "size"] {
        assert!(summary.contains(name), "{summary}");
    }
    // another order, and rows of one category alone
    desk.write("new.csv", "colour,other,size\ngreen,9,4\n");
    let whole = desk.good("predict runs/a paint.csv --quiet").out;
    desk.write("same.csv", "colour,size\ngreen,6\n");
    let one = desk.good("predict runs/a same.csv --quiet").out;
    assert_eq!(one.lines().nth(1).unwrap().strip_prefix("1,"), whole.lines().nth(6).unwrap().strip_prefix("6,"));
    desk.good("predict runs/a new.csv --quiet");
    desk.write("pink.csv", "size,colour\n1,red\n2,pink\n");
    desk.bad("predict runs/a pink.csv", 1, &["row 2", "`colour`", "`pink`", "`blue`, `green`, `red`"]);
    desk.write("gap.csv", "size,colour\n1,\n");
    desk.bad("predict runs/a gap.csv", 1, &["row 1", "`colour`", "missing", "drop the row"]);
    // the same by what the fit was told
    let told = desk.text("runs/a/settings.toml");
    assert!(told.contains("one-hot") && told.contains("green"), "{told}");
    desk.write("d.svm", "1 1:2\n-1 2:1\n");
    desk.bad("fit logistic d.svm --encode one-hot --out runs/x", 1, &["no text columns", "--encode"]);
    let names: String = (0..40).map(|i| format!("{i},name {i},{}\n", if i % 3 == 0 { "yes" } else { "no" })).collect();
    desk.write("names.csv", &format!("a,name,y\n{names}"));
    desk.bad("fit logistic names.csv --target y --encode one-hot --out runs/x", 1, &["`name`", "40 in 40 rows", "--ignore name"]);
}

/// A run that is being written is running, not stopped.
#[test]
fn a_run_that_is_written_is_running() {
    use variegate::run::{ChainProgress, Next, drive};
    use variegate_io::read::{ColumnSpec, ReadOptions, read};
    use variegate_io::run_dir::{DataReference, RunDir, RunRecord};
    let desk = Desk::new();
    desk.good("simulate logistic --rows 30 --seed 1 -o d.csv");
    let options = ReadOptions { target: Some(ColumnSpec::column("label")), ..Default::default() };
    let data = read(&desk.path("d.csv"), &options).unwrap();
    let given = serde_json::json!({ "n_chains": 2, "n_warmup": 10, "n_draws": 30000 });
    let model = variegate::model::family("logistic").unwrap().configure(given.as_object().unwrap()).unwrap();
    let variegate::model::Prepared { fit, plan, fingerprint } =
        variegate::model::RunSettings::default().prepare(model.as_ref(), &data).unwrap();
    let record =
        RunRecord::new("logistic", fit.program().name(), model.settings(), plan, DataReference::of(fingerprint), fit.schema().to_vec());
    // this process holds the run, as one that fits does
    let mut run = RunDir::create(desk.path("runs/a"), &record, false).unwrap();
    let said = desk.good("summary runs/a");
    assert!(said.out.contains("running") && said.out.contains("saved nothing yet") && !said.out.contains("resume"), "{}", said.out);
    let said = desk.call("predict runs/a d.csv");
    assert!(said.code == 1 && said.err.contains("is running and has saved nothing yet") && !said.err.contains("resume"), "{}", said.err);
    let mut after_some = |chains: &[ChainProgress]| if chains.iter().all(|c| c.sweeps > 40) { Next::Stop } else { Next::Continue };
    drive(fit.program(), &data, &plan, Default::default(), &mut run, &mut after_some).unwrap();
    let said = desk.good("summary runs/a");
    assert!(said.out.contains("running,") && said.out.contains("of 60,020 sweeps saved") && said.out.contains("goes on"), "{}", said.out);
    assert!(!said.out.contains("resume") && !said.out.contains("stopped"), "{}", said.out);
    let said = desk.good("predict runs/a d.csv");
    assert!(said.err.contains("still running") && said.err.contains("of 60,020 sweeps saved"), "{}", said.err);
    drop(run);
    assert!(desk.good("summary runs/a").out.contains("stopped after"));
}

#[test]
fn rows_whose_truth_is_not_known_are_predicted() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 60 --seed 1 -o d.csv");
    desk.fitted(&format!("fit logistic d.csv --target label --out runs/a {SHORT}"));
    desk.write("new.csv", "x1,x2,x3,label\n1,2,3,yes\n1,2,3,perhaps\n0,1,0,no\n1,1,1,\n");
    let said = desk.good("predict runs/a new.csv");
    assert_eq!(said.out.lines().count(), 5);
    for part in ["over 2 rows", "2 of 4 rows", "target of 1 row is missing", "`perhaps`"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let found = desk.good("predict runs/a new.csv --json").json();
    assert_eq!((found["scores"]["rows"].as_u64(), found["prediction"].as_array().unwrap().len()), (Some(2), 4));
    desk.write("none.csv", "x1,x2,x3,label\n1,2,3,\n");
    let said = desk.good("predict runs/a none.csv");
    assert!(said.err.contains("no row is scored") && said.out.lines().count() == 2, "{}", said.err);
    assert!(desk.good("compare runs/a --test new.csv").err.contains("2 of 4 rows"));
    desk.write("part.csv", "x1,x2,x3,label,part\n1,2,3,yes,a\n1,2,3,perhaps,b\n0,1,0,no,b\n");
    let said = desk.good("predict runs/a part.csv --by part -o p.csv");
    assert!(said.out.contains("part b") && !said.out.contains("perhaps"), "{}", said.out);
    // real outcomes
    let rows: String = (0..40).map(|i| format!("{i},{}\n", 2 * i)).collect();
    desk.write("line.csv", &format!("x,y\n{rows}"));
    desk.fitted("fit softmax line.csv --target y --task regression --experts 1 --seed 1 --quiet --out runs/line");
    desk.write("ahead.csv", "x,y\n3,6\n50,\n");
    let said = desk.good("predict runs/line ahead.csv");
    assert!(said.err.contains("over 1 row") && said.out.lines().count() == 3, "{}", said.err);
}

#[test]
fn odd_files_are_told_in_the_words_of_the_shell() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 30 --seed 1 -o d.csv");
    desk.fitted(&format!("fit logistic d.csv --target label --out runs/a {SHORT}"));
    desk.write("gap.csv", "x1,x2,x3\n1,,3\n");
    let said = desk.call("predict runs/a gap.csv");
    assert!(said.code == 1 && said.err.contains("row 1, column `x2`") && !said.err.contains("--ignore"), "{}", said.err);
    desk.write("word.csv", "x1,x2,x3\n1,red,3\n");
    let said = desk.call("predict runs/a word.csv");
    assert!(said.code == 1 && said.err.contains("`red`") && !said.err.contains("--"), "{}", said.err);
    desk.write("semicolons.csv", "a;b;y\n1;2;no\n2;1;yes\n3;1;no\n");
    desk.bad("fit logistic semicolons.csv --target y --out runs/x", 1, &["`a;b;y` is one name", "--delimiter ';'"]);
    desk.write("commas.csv", "a;b;y\n1,5;2;no\n2,5;1;yes\n");
    desk.bad("fit logistic commas.csv --target y --delimiter ; --out runs/x", 1, &["`1,5`", "decimal point", "1.5"]);
    std::fs::write(desk.path("latin.csv"), b"gr\xf6\xdfe,y\n1,a\n2,b\n").unwrap();
    desk.bad("fit logistic latin.csv --target y --out runs/x", 1, &["gr\u{f6}\u{df}e", "0xF6", "iconv -f ISO-8859-1"]);
    std::fs::write(desk.path("cell.csv"), b"x,y\n1,sch\xf6n\n2,b\n").unwrap();
    desk.bad("fit logistic cell.csv --target y --out runs/x", 1, &["row 1, column `y`", "0xF6"]);
    desk.write("file", "");
    desk.bad("fit logistic d.csv --target label --out file/run", 1, &["file/run", "--out"]);
    if cfg!(target_os = "linux") {
        let said = desk.call("fit logistic d.csv --target label --draws 20 --out /proc/variegate");
        assert!(said.code == 1 && said.err.contains("choose another folder") && !said.err.contains("Restore"), "{}", said.err);
    }
}

#[test]
fn what_is_hardly_meant_is_said() {
    let desk = Desk::new();
    let rows = |unnamed: &str| -> String {
        let row = |i: u32| format!("{i},{},{},{}\n", (i * 7) % 11, (i * 5) % 13, if i.is_multiple_of(3) { "yes" } else { "no" });
        format!("{unnamed},a,b,y\n") + &(0..30).map(row).collect::<String>()
    };
    // pandas' index is no feature; a column that does not count, or has a name, is one
    for (header, left_out) in [("", true), ("Unnamed: 0", true), ("id", false)] {
        desk.write("d.csv", &rows(header));
        let said = desk.fitted("fit logistic d.csv --target y --draws 50 --seed 1 --out runs/a --force");
        assert_eq!(said.err.contains("pandas"), left_out, "{}", said.err);
        assert!(said.err.contains(if left_out { "30 rows, 2 columns" } else { "30 rows, 3 columns" }), "{}", said.err);
        desk.good("predict runs/a d.csv --quiet");
    }
    desk.write("d.csv", &rows("").replace("\n20,", "\n99,"));
    let said = desk.fitted("fit logistic d.csv --target y --draws 50 --seed 1 --out runs/a --force");
    assert!(said.err.contains("30 rows, 3 columns") && said.out.contains("unnamed1"), "{}", said.err);
    // feature 1 of an svmlight file is x1, and can be asked for so
    desk.write("d.svm", "1 1:2 2:1\n-1 2:1 3:1\n1 1:1 2:1\n-1 2:3\n1 1:3\n-1 3:2\n");
    desk.fitted(&format!("fit logistic d.svm --ignore x2 --out runs/svm {SHORT}"));
    let summary = desk.good("summary runs/svm").out;
    assert!(summary.contains("x1") && summary.contains("x3") && !summary.contains("x0") && !summary.contains("x2"), "{summary}");
    desk.good("predict runs/svm d.svm --quiet");
    desk.bad("fit logistic d.svm --ignore x4 --out runs/x", 1, &["x1 to x3"]);
    // classes -1 and 1 have subclasses that are no numbers
    let said = desk.fitted("fit softmax d.svm --subclasses 2,1 --seed 1 --quiet --out runs/sub");
    assert!(said.out.contains("-1/1") && said.out.contains("-1/2"), "{}", said.out);
    // sixty measurements are hardly sixty classes
    let measured: String = (0..60).map(|i| format!("{},{}\n", i, f64::from(i) * 0.37)).collect();
    desk.write("measured.csv", &format!("x,y\n{measured}"));
    let said = desk.call("fit softmax measured.csv --target y --max-iter 2 --seed 1 --out runs/m");
    assert!(matches!(said.code, 0 | 3) && said.err.contains("60 different numbers") && said.err.contains("`--task`"), "{}", said.err);
    assert!(said.err.contains("--max-iter") && !said.err.contains("max_iter"), "{}", said.err);
    // deviations of columns of any scale
    for scale in ["e200", "e-200"] {
        let row = |i: u32| format!("{}{scale},{}\n", (i * 7) % 11, if (i * 7) % 11 + i % 4 > 6 { "yes" } else { "no" });
        desk.write("far.csv", &("a,y\n".to_string() + &(0..40).map(row).collect::<String>()));
        for model in ["logistic --draws 100 --warmup 50", "softmax"] {
            desk.fitted(&format!("fit {model} far.csv --target y --seed 1 --quiet --out runs/far --force"));
            let table = &desk.good("summary runs/far --json").json()["table"];
            let text = table.to_string();
            let line = desk.good("summary runs/far").out.lines().find(|l| l.starts_with("a ")).unwrap().to_string();
            let sd: f64 = line.split_whitespace().nth(2).unwrap().parse().unwrap_or(0.0);
            let mean: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert!(sd.is_finite() && sd > 1e-3 * mean.abs() && sd < 1e3 * mean.abs(), "{line} {text}");
        }
    }
}
