//! Sets of labels on the command line: how they are chosen, scored, compared, and the files they come in.

mod common;

use common::Desk;
use serde_json::Value;

/// Settings under which a fit takes about a second.
const SHORT: &str = "--components 6 --init 2 --max-iter 60 --seed 3";

/// A fit of 300 simulated rows, some of whose labels are unknown, and 200 further rows of the same truth, whose labels are known.
fn fitted() -> Desk {
    let desk = Desk::new();
    desk.good("simulate labels --rows 300 --seed 1 -o whole.csv");
    desk.good("simulate labels --rows 200 --truth whole.truth.json --seed 2 -o t.csv");
    let mut lines = cells(&desk.text("whole.csv"));
    lines.iter_mut().skip(1).step_by(4).for_each(|row| row[11].clear());
    desk.write("d.csv", &lines.iter().map(|row| row.join(",") + "\n").collect::<String>());
    let said = desk.fitted(&format!("fit labels d.csv --target label* --out runs/a {SHORT}"));
    for part in ["300 rows", "5 labels (label1, label2", "75 entries unknown", "variegate predict runs/a"] {
        assert!(said.err.contains(part), "`{part}` is missing:\n{}", said.err);
    }
    desk
}

/// Cells of a table, with its heading first.
fn cells(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|l| l.split(',').map(str::to_string).collect()).collect()
}

#[test]
fn labels_are_chosen_and_weighed() {
    let desk = fitted();
    let said = desk.good("predict runs/a t.csv -o p.csv");
    assert!(said.out.is_empty() && said.err.contains("Hamming loss 0.") && said.err.contains("over 200 rows"), "{}", said.err);
    let table = cells(&desk.text("p.csv"));
    assert_eq!(table[0][..7], ["row", "labels", "p_label1", "p_label2", "p_label3", "p_label4", "p_label5"]);
    assert_eq!((table[0].last().map(String::as_str), table.len()), (Some("novelty"), 201));
    for row in &table[1..] {
        let chosen: Vec<&str> = row[1].split(';').filter(|l| !l.is_empty()).collect();
        for (c, p) in row[2..7].iter().enumerate() {
            let p: f64 = p.parse().unwrap();
            assert!((0.0..=1.0).contains(&p));
            assert_eq!(p >= 0.5, chosen.contains(&format!("label{}", c + 1).as_str()), "{row:?}");
        }
        assert!((0.0..=1.0).contains(&row.last().unwrap().parse::<f64>().unwrap()));
    }
    assert_eq!(cells(&desk.good("predict runs/a t.csv --quiet").out), table);

    // other rules choose other sets of the same probabilities; no set is empty where none may be
    for rule in ["hamming", "micro-f1", "subset", "cardinality"] {
        let found = desk.good(&format!("predict runs/a t.csv --rule {rule} --nonempty --json --quiet")).json();
        assert_eq!((&found["rule"], &found["nonempty"]), (&Value::from(rule), &Value::from(true)));
        let sets = found["prediction"].as_array().unwrap();
        assert!(sets.len() == 200 && sets.iter().all(|s| !s.as_array().unwrap().is_empty()));
        let p = found["probability"][0][0].as_f64().unwrap().to_string();
        assert_eq!(p, table[1][2]);
        assert!(found["scores"]["micro_f1"].as_f64().unwrap() > 0.3, "{found}");
    }
    let shares = cells(&desk.good("predict runs/a t.csv --responsibilities --quiet").out);
    assert!(shares[0].iter().any(|n| n.starts_with("share_")), "{:?}", shares[0]);

    // what is known informs the rest, and is not scored
    let said = desk.good("predict runs/a t.csv --target label1,label2 --given -o g.csv");
    assert!(!said.err.contains("Hamming"), "{}", said.err);
    assert_ne!(desk.text("g.csv"), desk.text("p.csv"));
    desk.good("predict runs/a t.csv --target label1,label2 -o part.csv --quiet");
    assert_eq!(desk.text("part.csv"), desk.text("p.csv"), "truth alone changes nothing");

    desk.bad("predict runs/a t.csv --rule f2", 2, &["`rule`", "hamming"]);
    for other in ["--method x", "--interval 0.9", "--quantiles 0.5", "--predict-draws 5", "--by label1"] {
        desk.bad(&format!("predict runs/a t.csv {other}"), 2, &[other.split(' ').next().unwrap(), "sets of labels"]);
    }
}

#[test]
fn labels_are_scored() {
    let desk = fitted();
    let said = desk.good("score runs/a t.csv -o rows.csv");
    for part in ["hamming loss", "subset accuracy", "average precision", "calibration error", "`hamming`"] {
        assert!(said.out.contains(part), "`{part}` is missing:\n{}", said.out);
    }
    let table = cells(&desk.text("rows.csv"));
    assert_eq!((table.len(), table[0][..3].join(",")), (201, "row,hamming_loss,subset_accuracy".into()));
    let json = desk.good("score runs/a t.csv --json").json();
    let mean = table[1..].iter().map(|r| r[2].parse::<f64>().unwrap()).sum::<f64>() / 200.0;
    assert!((json["subset_accuracy"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert_eq!((&json["rows"], &json["known_rows"], &json["known_entries"]), (&200.into(), &200.into(), &1000.into()));
    let f1 = |rule: &str| desk.good(&format!("score runs/a t.csv --rule {rule} --json")).json()["micro_f1"].as_f64().unwrap();
    assert!(f1("micro-f1") > f1("hamming") - 0.02);
    // entries that are not known do not count
    let part = desk.good("score runs/a d.csv --json").json();
    assert_eq!((&part["rows"], &part["known_rows"], &part["known_entries"]), (&300.into(), &225.into(), &1425.into()));

    desk.bad("score runs/a t.csv --completion", 2, &["--completion", "rows alone"]);
    desk.bad("score runs/a t.csv --json -o -", 2, &["--json"]);
    let x: String = desk.text("t.csv").lines().map(|l| l.split(',').take(10).collect::<Vec<_>>().join(",") + "\n").collect();
    desk.write("x.csv", &x);
    desk.bad("score runs/a x.csv", 1, &["no labels to score by", "--target"]);
    assert!(!desk.good("predict runs/a x.csv -o px.csv").err.contains("Hamming"));
}

/// Labels in another file, in some of the columns only, and in svmlight files, also new ones.
#[test]
fn labels_come_in_files_of_many_kinds() {
    let desk = Desk::new();
    desk.good("simulate labels --rows 200 --seed 1 -o d.csv");
    let lines: Vec<Vec<String>> = cells(&desk.text("d.csv"));
    let part = |from: usize, to: usize| lines.iter().map(|l| l[from..to].join(",") + "\n").collect::<String>();
    desk.write("x.csv", &part(0, 10));
    desk.write("y.csv", &part(10, 15));
    desk.fitted(&format!("fit labels x.csv --labels y.csv --out runs/two --quiet {SHORT}"));
    desk.fitted(&format!("fit labels d.csv --target label* --out runs/one --quiet {SHORT}"));
    desk.good("predict runs/one d.csv -o one.csv --quiet");
    let said = desk.good("predict runs/two x.csv --target y.csv -o two.csv");
    assert!(said.err.contains("Hamming loss"), "{}", said.err);
    assert_eq!(desk.text("one.csv"), desk.text("two.csv"), "the same rows and labels are the same fit");
    // three of the five labels
    desk.write("some.csv", &part(0, 13));
    assert_eq!(desk.good("score runs/one some.csv --json").json()["known_entries"], 600);

    let svm = |new: &str| -> String {
        let row = |l: &Vec<String>| {
            let labels: Vec<&str> =
                (0..5).filter(|c| l[10 + c] == "1").map(|c| lines[0][10 + c].as_str()).chain((!new.is_empty()).then_some(new)).collect();
            let features: Vec<String> = (0..10).map(|j| format!("{}:{}", j + 1, l[j])).collect();
            format!("{} {}\n", labels.join(","), features.join(" "))
        };
        lines[1..].iter().map(row).collect()
    };
    desk.write("d.svm", &svm(""));
    desk.write("new.svm", &svm("castle"));
    let said = desk.fitted(&format!("fit labels d.svm --out runs/svm {SHORT}"));
    assert!(said.err.contains("5 labels"), "{}", said.err);
    assert!(desk.good("predict runs/svm d.svm -o p.csv").err.contains("Hamming loss"));
    let said = desk.good("predict runs/svm new.svm -o q.csv");
    assert!(said.err.contains("1 label was not there at the fit") && said.err.contains("`castle`"), "{}", said.err);
    assert_eq!(desk.text("p.csv"), desk.text("q.csv"));

    desk.write("odd.csv", &desk.text("d.csv").replacen(",1\n", ",2\n", 1));
    desk.bad("fit labels odd.csv --target label* --out x", 1, &["label5", "`2`"]);
}

#[test]
fn runs_of_labels_are_compared_and_settings_chosen() {
    let desk = fitted();
    desk.fitted("fit labels d.csv --target label* --out runs/b --quiet --components 3 --init 1 --max-iter 60 --seed 4");
    let json = desk.good("compare runs/a runs/b --test t.csv --json").json();
    for run in json["runs"].as_array().unwrap() {
        assert!(run["structures"][0]["test"]["hamming_loss"].as_f64().unwrap() < 0.5, "{run}");
    }
    let table = desk.good("compare runs/a runs/b --test t.csv").out;
    assert!(table.contains("test log-loss") && table.contains("test Hamming loss"), "{table}");
    let grid = "--cv 2 --grid components=1,8 --init 1 --max-iter 40 --seed 3";
    let said = desk.fitted(&format!("fit labels d.csv --target label* --out runs/c {grid}"));
    assert!(said.out.contains("components=8") && said.out.contains("log-loss"), "{}", said.out);
}

#[test]
fn rules_are_for_sets_of_labels() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 50 --seed 1 -o l.csv");
    desk.fitted("fit logistic l.csv --target label --seed 1 --chains 1 --warmup 20 --draws 20 --out runs/l --quiet");
    for option in ["--rule hamming", "--nonempty", "--given"] {
        desk.bad(&format!("predict runs/l l.csv {option}"), 2, &["sets of labels", "predicts classes"]);
    }
}

/// A fit by minibatches goes on with further rows and labels, in its place or beside it; what cannot go on says so.
#[test]
fn further_rows_and_labels_are_taken_in() {
    let desk = Desk::new();
    desk.good("simulate labels --rows 400 --labels 4 --seed 5 -o all.csv");
    let table = desk.text("all.csv");
    let lines: Vec<&str> = table.lines().collect();
    let four = lines[0].split(',').position(|name| name == "label4").unwrap();
    let without = |line: &str| line.split(',').enumerate().filter(|(at, _)| *at != four).map(|(_, v)| v).collect::<Vec<_>>().join(",");
    let first: Vec<String> = lines[..201].iter().map(|line| without(line)).collect();
    desk.write("first.csv", &first.join("\n"));
    desk.write("more.csv", &[&lines[..1], &lines[201..]].concat().join("\n"));
    desk.good("fit labels first.csv --target label* --out runs/s --inference svi --components 5 --seed 1");
    let said = desk.good("update runs/s more.csv --target label* --out runs/t --seed 2");
    assert!(said.err.contains("new: label4"), "{}", said.err);
    assert_eq!(desk.good("summary runs/s --json").json()["facts"]["labels"], 3);
    desk.good("update runs/s more.csv --target label* --seed 2 --quiet");
    for run in ["runs/s", "runs/t"] {
        assert_eq!(desk.good(&format!("summary {run} --json")).json()["facts"]["labels"], 4);
        desk.good(&format!("predict {run} all.csv -o {}.csv", &run[5..]));
    }
    assert_eq!(desk.text("s.csv"), desk.text("t.csv"));
    assert!(!desk.path("runs/s.update").exists() && !desk.path("runs/s.old").exists());
    desk.good("update runs/s more.csv --quiet");
    desk.fitted("fit labels first.csv --target label* --out runs/v --components 3 --init 1 --max-iter 3 --seed 1 --quiet");
    desk.bad("update runs/v first.csv", 1, &["svi"]);
}
