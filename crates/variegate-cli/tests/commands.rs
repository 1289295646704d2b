//! Every command on small data: what it writes where, and how it ends.

mod common;

use common::{Desk, columns, families, short, unsupervised};
use serde_json::Value;
use std::process::Stdio;

/// The way from nothing to predictions, for every family that predicts.
#[test]
fn from_simulated_data_to_predictions() {
    for family in families().filter(|f| columns(*f) == "--target label") {
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

/// The way from nothing to coordinates, scores and neighbours, for every family of rows of several sources.
#[test]
fn from_simulated_data_to_coordinates() {
    for family in families().filter(|f| columns(*f).contains("sources")) {
        let (name, short) = (family.name(), short(family));
        let desk = Desk::new();
        desk.good(&format!("simulate {name} --rows 60 --seed 1 -o d.csv"));
        assert!(desk.text("d.csv").lines().next().unwrap().ends_with(",source"));
        for option in ["--sources", "--source"] {
            let said = desk.fitted(&format!("fit {name} d.csv {option} source --seed 3 --out runs/{option}{short}"));
            for part in ["60 rows", "sources (", "seed 3", &format!("variegate transform runs/{option}")] {
                assert!(said.err.contains(part), "`{part}` is missing:\n{}", said.err);
            }
        }
        let run = "runs/--sources";
        assert!(desk.good(&format!("summary {run}")).out.contains("complete"));
        desk.bad(&format!("fit {name} d.csv --target source --out x"), 2, &["rows alone", "--ignore", "--sources"]);
        desk.bad(&format!("fit {name} d.csv --source source --cv 3 --out x"), 2, &["--cv", "variegate score"]);
        desk.bad(&format!("predict {run} d.csv"), 1, &["no target to predict", "variegate transform"]);
        desk.bad(&format!("compare {run} --test d.csv"), 1, &["variegate score"]);

        let said = desk.good(&format!("transform {run} d.csv -o c.csv"));
        assert!(said.out.is_empty() && said.err.contains("60 rows"), "{}", said.err);
        let file = desk.text("c.csv");
        assert!(file.starts_with("row") && file.lines().count() == 61, "{file}");
        let said = desk.good(&format!("transform {run} d.csv --sources source --quiet"));
        assert_eq!(said.out, file, "standard output gets what the file gets");
        assert!(said.err.is_empty());
        let found = desk.good(&format!("transform {run} d.csv --json")).json();
        assert_eq!(found["coordinates"].as_array().unwrap().len(), 60);
        // what is said of a row depends on that row alone, and sources are told by name
        let text = desk.text("d.csv");
        let lines: Vec<&str> = text.lines().collect();
        desk.write("few.csv", &format!("{}\n{}\n{}\n", lines[0], lines[7], lines[3]));
        let few = desk.good(&format!("transform {run} few.csv")).out;
        let cells = |text: &str, row: usize| text.lines().nth(row).unwrap().split_once(',').map(|c| c.1.to_string());
        assert_eq!((cells(&few, 1), cells(&few, 2)), (cells(&file, 7), cells(&file, 3)));
        let alone: String = lines.iter().map(|l| format!("{}\n", l.rsplit_once(',').unwrap().0)).collect();
        desk.write("alone.csv", &alone);
        assert_eq!(desk.good(&format!("transform {run} alone.csv")).out.lines().count(), 61, "rows of a new source");
        desk.bad(&format!("transform {run} alone.csv --sources source"), 1, &["`source`"]);
        desk.bad(&format!("transform {run} d.csv -o c.csv"), 1, &["c.csv", "--force"]);

        assert_eq!(desk.good(&format!("score {run} d.csv")).out, desk.good(&format!("score {run} d.csv --completion")).out, "the fast one");
        let said = desk.good(&format!("score {run} d.csv --completion -o rows.csv"));
        assert!(said.out.contains("perplexity") && said.out.contains("\nall ") && said.out.contains("seed 0"), "{}", said.out);
        assert!(desk.text("rows.csv").starts_with("row,source,held_out_words,ln_probability,perplexity\n1,"));
        let first = desk.good(&format!("score {run} d.csv --completion --json")).json();
        let again = desk.good(&format!("score {run} d.csv --completion --json --seed 0")).json();
        assert_eq!(first["perplexity"], again["perplexity"]);
        assert!(first["perplexity"].as_f64().unwrap() < first["columns"].as_f64().unwrap(), "better than guessing");
        assert_eq!(first["each"]["perplexity"].as_array().unwrap().len(), 60);
        let effort = "--temperatures 10 --runs 4 --draws 3";
        let said = desk.good(&format!("score {run} few.csv --perplexity {effort}"));
        assert!(said.out.contains("-ln p a row") && said.out.contains("cannot be compared"), "{}", said.out);
        let found = desk.good(&format!("score {run} few.csv --perplexity {effort} --json")).json();
        assert!(found["log_ppd"].is_f64() && found["joint_ln_probability"].is_f64(), "{found}");

        let said = desk.good(&format!("retrieve {run} few.csv -k 3"));
        assert!(said.out.starts_with("query,rank,row,similarity\n1,1,"), "{}", said.out);
        assert_eq!(said.out.lines().count(), 7);
        assert!(said.err.contains("mean average precision over the first 3") && said.err.contains("relevant by source"), "{}", said.err);
        let whole = desk.good(&format!("retrieve {run} few.csv --among d.csv -k all --json")).json();
        assert_eq!(whole["found"][0]["rows"].as_array().unwrap().len(), 60);
        assert_eq!(whole["scores"]["precision"].as_array().unwrap().len(), 60);
        assert!(desk.good(&format!("retrieve {run} alone.csv -k 1 -o r.csv")).err.contains("--label COLUMN"));
        desk.bad(&format!("retrieve {run} few.csv --label x.csv:y"), 2, &["--among-label"]);
        std::fs::rename(desk.path("d.csv"), desk.path("e.csv")).unwrap();
        desk.bad(&format!("retrieve {run} few.csv"), 1, &["d.csv", "--among FILE"]);
    }
}

/// The way from nothing to sets of labels: fits, choices by every rule, scores, what is refused.
#[test]
fn from_simulated_data_to_labels() {
    let desk = Desk::new();
    desk.good("simulate labels --rows 120 --columns 4 --labels 3 --unknown 0.1 --seed 3 -o d.csv");
    desk.good("simulate labels --rows 60 --truth d.truth.json --seed 3 -o new.csv");
    let target = "--target label1,label2,label3";
    let said = desk.fitted(&format!("fit labels d.csv {target} --out runs/y --components 6 --init 2 --seed 1"));
    assert!(said.out.contains("component 1") && said.err.contains("120 rows"), "{} {}", said.out, said.err);
    let found = desk.good("summary runs/y --json").json();
    assert_eq!(found["facts"]["labels"], 3);
    assert!(found["tables"]["labels"].as_array().is_some_and(|t| t.len() == 3), "{found}");
    for rule in ["hamming", "micro-f1", "subset", "cardinality"] {
        let table = desk.good(&format!("predict runs/y new.csv --rule {rule} -o -")).out;
        assert_eq!(table.lines().count(), 61, "{table}");
        assert!(table.lines().next().is_some_and(|head| head.contains("label2") && head.contains("novelty")), "{table}");
    }
    let scores = desk.good("score runs/y new.csv --json").json();
    for name in ["hamming_loss", "micro_f1", "average_precision", "log_loss"] {
        assert!(scores.to_string().contains(name), "{scores}");
    }
    desk.bad("predict runs/y new.csv --rule f2", 2, &["rule", "hamming"]);
    desk.bad(&format!("fit labels d.csv {target} --out x --combine mean"), 2, &["coupling", "cut"]);
    desk.bad(&format!("fit labels d.csv {target} --out x --features multinomial"), 1, &["no negative numbers", "gaussian-diag"]);
}

/// The way from nothing to features: codes, scores, missing entries, neighbours, pictures.
#[test]
fn from_simulated_data_to_features() {
    let desk = Desk::new();
    desk.good("simulate features --rows 80 --columns 6 --seed 3 -o d.csv");
    desk.good("simulate features --rows 30 --truth d.truth.json --seed 3 -o new.csv");
    let short = "--seed 1 --chains 2 --warmup 10 --draws 8 --thin 1 --start-sweeps 40";
    let said = desk.fitted(&format!("fit features d.csv --out runs/f {short}"));
    for part in ["80 rows", "seed 1", "variegate transform runs/f"] {
        assert!(said.err.contains(part), "`{part}` is missing:\n{}", said.err);
    }
    let said = desk.good("summary runs/f").out;
    for part in ["number of features", "common features", "feature1 (", "noise (sd)", "complete"] {
        assert!(said.contains(part), "`{part}` is missing:\n{said}");
    }
    let found = desk.good("summary runs/f --json").json();
    let shares: f64 = found["facts"]["number of features"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-12);
    let said = desk.good("transform runs/f new.csv");
    assert!(said.out.starts_with("row,feature1") && said.out.lines().count() == 31, "{}", said.out);
    for line in said.out.lines().skip(1) {
        assert!(line.split(',').skip(1).all(|v| (0.0..=1.0 + 1e-9).contains(&v.parse::<f64>().unwrap())), "{line}");
    }
    // rows of any company, and rows with gaps
    let text = desk.text("new.csv");
    let lines: Vec<&str> = text.lines().collect();
    desk.write("few.csv", &format!("{}\n{}\n", lines[0], lines[7]));
    let cells = |text: &str, row: usize| text.lines().nth(row).unwrap().split_once(',').map(|c| c.1.to_string());
    assert_eq!(cells(&desk.good("transform runs/f few.csv").out, 1), cells(&said.out, 7));
    let (first, rest) = lines[7].split_once(',').unwrap();
    desk.write("gap.csv", &format!("{}\n,{rest}\n", lines[0]));
    let filled = desk.good("impute runs/f gap.csv").out;
    let found: f64 = filled.lines().nth(1).unwrap().split(',').find_map(|c| c.parse::<f64>().ok()).unwrap();
    assert!((found - first.parse::<f64>().unwrap()).abs() < 6.0, "{filled}");
    desk.bad(&format!("fit features gap.csv --out x {short}"), 1, &["row 1", "`x1`", "--missing true"]);
    desk.bad("predict runs/f d.csv", 1, &["no target to predict", "variegate transform"]);
    desk.bad("score runs/f new.csv --completion", 2, &["real numbers", "--perplexity"]);
    let said = desk.good("score runs/f new.csv");
    assert!(said.out.contains("-ln p a row") && said.out.contains("units of the columns"), "{}", said.out);
    assert!(said.out.contains("half of a row from the other half") && said.out.contains("principal components"), "{}", said.out);
    let found = desk.good("score runs/f new.csv --json").json();
    let error = |name: &str| found["squared_error"][name].as_f64().unwrap();
    assert!(error("l2_reconstruction") < error("l2_heldout") && error("l2_heldout") < error("column_means"), "{found}");
    let said = desk.good("retrieve runs/f few.csv -k 3");
    assert_eq!(said.out.lines().count(), 4);
    // classes by whether the first feature of the truth is used
    let truth: Value = serde_json::from_str(&desk.text("new.truth.json")).unwrap();
    let codes = truth["codes"].as_array().or_else(|| truth["truth"]["codes"].as_array()).unwrap();
    let kinds: Vec<String> = codes.iter().map(|c| format!("k{}", u8::from(c.as_array().unwrap().contains(&0.into())))).collect();
    desk.write("kinds.csv", &format!("kind\n{}\n", kinds.join("\n")));
    let said = desk.good("score runs/f new.csv --labels kinds.csv:kind --among new.csv");
    assert!(said.out.contains("2 clusters") && said.out.contains("among the 100 nearest"), "{}", said.out);
    let found = desk.good("score runs/f new.csv --labels kinds.csv:kind --json").json();
    assert!(found["labels"]["clustering_accuracy"].as_f64().unwrap() > 0.5, "{found}");
    desk.bad("score runs/f new.csv --among new.csv", 2, &["--labels"]);
    let said = desk.good("summary runs/f --shape 2x3 --picture f.png");
    assert!(said.err.contains("f.png") && std::fs::read(desk.path("f.png")).unwrap().starts_with(b"\x89PNG"), "{}", said.err);
    desk.bad("summary runs/f --shape 2x3 --picture f.png", 1, &["f.png", "--force"]);
    desk.bad("summary runs/f --shape 4x4", 1, &["16 dots", "6 columns"]);
    desk.bad("summary runs/f --shape big", 2, &["6x6"]);
    desk.bad("fit features d.csv --prior mutual-angular --sampler rowslice --out x", 2, &["rowslice", "anchored or slice"]);
    desk.bad("fit features d.csv --prior pitman-yor --sampler slice --discount 0.6 --out x", 2, &["below 0.5", "anchored"]);
    desk.bad("fit features d.csv --kappa 3 --out x", 2, &["mutual-angular alone"]);
    for (number, more) in
        ["--prior pitman-yor", "--prior mutual-angular", "--sampler rowslice", "--sampler slice --intercept none"].iter().enumerate()
    {
        desk.fitted(&format!("fit features d.csv --out runs/{number} --quiet {short} {more}"));
        desk.good(&format!("transform runs/{number} new.csv --quiet"));
    }
}

/// Real numbers may be missing where the model says so; they have no halves to complete, and their scores are densities.
#[test]
fn factors_of_real_numbers() {
    let desk = Desk::new();
    desk.good("simulate factors --likelihood gaussian --rows 30 --columns 4 --seed 1 -o d.csv");
    let text = desk.text("d.csv");
    let (header, rows) = text.split_once('\n').unwrap();
    desk.write("holes.csv", &format!("{header}\n{}", rows.replacen(&rows[..rows.find(',').unwrap()], "NA", 1)));
    let fit = "fit factors holes.csv --likelihood gaussian --source source --seed 1 --chains 2 --warmup 10 --draws 4 --thin 1 --out runs/a";
    desk.bad(fit, 1, &["row 1", "`x1`", "missing"]);
    desk.fitted(&format!("{fit} --missing true --quiet"));
    assert_eq!(desk.good("transform runs/a holes.csv").out.lines().count(), 31);
    desk.bad("score runs/a d.csv --completion", 2, &["real numbers", "--perplexity"]);
    let said = desk.good("score runs/a d.csv --perplexity --temperatures 5 --runs 2 --draws 2");
    assert!(said.out.contains("log densities") && !said.out.contains("bag"), "{}", said.out);
    let effort = "--temperatures 5 --runs 2 --draws 2";
    let found = desk.good(&format!("score runs/a holes.csv {effort} --json")).json();
    assert!(found["each"]["ln_probability"].as_array().unwrap().iter().all(|v| v.is_f64()), "what was observed has a density");

    let said = desk.good("impute runs/a holes.csv -o filled.csv");
    assert!(said.out.is_empty() && said.err.contains("imputed 1 entry of 30 rows"), "{}", said.err);
    let filled = desk.text("filled.csv");
    let (names, cells) = filled.split_once('\n').unwrap();
    assert_eq!((names, filled.lines().count()), ("x1,x2,x3,x4", 31));
    assert!(cells.split(',').next().unwrap().parse::<f64>().unwrap().is_finite(), "{cells}");
    let entries = desk.good("impute runs/a holes.csv --entries").out;
    assert!(entries.starts_with("row,column,mean,deviation\n1,x1,") && entries.lines().count() == 2, "{entries}");
    let found = desk.good("impute runs/a holes.csv --json").json();
    assert!(found["imputed"][0]["deviation"].as_f64().unwrap() > 0.0 && found["imputed"][0]["column"] == "x1", "{found}");
    desk.fitted("fit factors d.csv --likelihood gaussian --source source --chains 1 --warmup 4 --draws 2 --out runs/b --quiet");
    desk.bad("impute runs/b holes.csv", 1, &["`missing`"]);
}

/// Every source is in the table, among the pairs and in the figures for machines; what a short table leaves out is said.
#[test]
fn eight_sources_are_all_told() {
    let desk = Desk::new();
    desk.good("simulate factors --rows 64 --columns 6 --sources 8 --seed 1 -o d.csv");
    let said = desk.fitted("fit factors d.csv --source source --seed 1 --chains 1 --warmup 20 --draws 4 --quiet --out runs/a");
    assert!(said.out.contains("the table of shared factors: variegate summary runs/a"), "{}", said.out);
    let found = desk.good("summary runs/a --json").json();
    let text = desk.good("summary runs/a").out;
    assert_eq!(found["tables"]["shared factors"].as_array().unwrap().len(), 28);
    for j in 1..=8 {
        assert!(found["table"][0][format!("P(s{j})")].is_f64() && found["table"][0][format!("share of s{j}")].is_f64(), "{found}");
        assert!(found["facts"]["rows of each source"][format!("s{j}")].is_f64());
        assert!(text.contains(&format!("P(s{j})")) && text.contains(&format!("share of s{j}")), "{text}");
    }
}

/// Files without names of columns take them from a list, which the run keeps.
#[test]
fn names_of_columns_come_from_a_file() {
    let desk = Desk::new();
    let rows: Vec<[usize; 3]> = (0..24).map(|i| [1 + i % 3, 5 * (i % 2), 4 - i % 4]).collect();
    let entries = |rows: &[[usize; 3]]| {
        let all: String =
            rows.iter().enumerate().flat_map(|(i, r)| (0..3).map(move |j| format!("{} {} {}\n", i + 1, j + 1, r[j]))).collect();
        format!("%%MatrixMarket matrix coordinate integer general\n{} 3 {}\n{all}", rows.len(), 3 * rows.len())
    };
    desk.write("d.mtx", &entries(&rows));
    // the last feature never occurs
    let lines: String = rows.iter().enumerate().map(|(i, r)| format!("{} 1:{} 2:{}\n", i % 2, r[0], r[1])).collect();
    desk.write("d.svm", &lines);
    let table: String =
        std::iter::once("0,1,2\n".to_string()).chain(rows.iter().map(|r| format!("{},{},{}\n", r[0], r[1], r[2]))).collect();
    desk.write("d.csv", &table);
    desk.write("words.txt", "apple\nbear\ncat\n\n");
    let short = "--chains 1 --warmup 10 --draws 4 --seed 1 --quiet";
    desk.fitted(&format!("fit factors d.mtx --names words.txt {short} --out runs/a"));
    let shown = desk.good("summary runs/a").out;
    assert!(["apple", "bear", "cat"].iter().all(|w| shown.contains(w)) && !shown.contains("x0"), "{shown}");
    // later files without names are told by place, also where the list is gone; files with names by these
    std::fs::remove_file(desk.path("words.txt")).unwrap();
    let placed = desk.good("transform runs/a d.mtx").out;
    desk.write("turned.csv", &rows.iter().fold("cat,apple,bear\n".to_string(), |t, r| t + &format!("{},{},{}\n", r[2], r[0], r[1])));
    assert_eq!(desk.good("transform runs/a turned.csv").out, placed);
    desk.write("words.txt", "apple\nbear\ncat\n");
    desk.fitted(&format!("fit factors d.mtx --names words.txt --ignore bear {short} --out runs/b"));
    assert!(!desk.good("summary runs/b").out.contains("bear"));
    assert_eq!(desk.good("transform runs/b d.mtx").out, desk.good("transform runs/b turned.csv").out);
    let said = desk.fitted(&format!("fit logistic d.svm --names words.txt {short} --out runs/c"));
    assert!(said.err.contains("constant") && said.err.contains("cat"), "a feature that never occurs has a name too: {}", said.err);
    assert_eq!(desk.good("predict runs/c d.svm --quiet").out.lines().count(), 25);
    desk.write("few.txt", "apple\nbear\n");
    desk.bad(&format!("fit factors d.mtx --names few.txt {short} --out x"), 1, &["3 columns", "2 names", "--names"]);
    desk.write("twice.txt", "apple\nbear\napple\n");
    desk.bad(&format!("fit factors d.mtx --names twice.txt {short} --out x"), 1, &["twice.txt", "line 3", "`apple`", "line 1"]);
    desk.write("gap.txt", "apple\n\ncat\n");
    desk.bad(&format!("fit factors d.mtx --names gap.txt {short} --out x"), 1, &["line 2", "no name"]);
    desk.bad(&format!("fit factors turned.csv --names words.txt {short} --out x"), 1, &["names of their own", "--no-header"]);
    desk.bad(&format!("fit factors d.mtx --names none.txt {short} --out x"), 1, &["none.txt"]);
}

/// What predicts a target has no factors, and says so.
#[test]
fn classifiers_have_no_factors() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 40 --seed 2 -o d.csv");
    desk.fitted("fit logistic d.csv --target label --seed 1 --out runs/a --chains 2 --warmup 20 --draws 20 --quiet");
    for words in ["transform runs/a d.csv", "score runs/a d.csv --perplexity", "retrieve runs/a d.csv"] {
        desk.bad(words, 1, &["d.csv", "this fit of `logistic` cannot", "it can predict classes"]);
    }
    desk.write("counts.csv", "x1,x2,x3\n1,2,0\n");
    desk.bad("score runs/a counts.csv --completion", 1, &["this fit of `logistic` cannot complete rows"]);
    desk.bad("score runs/a d.csv --completion --perplexity", 2, &["cannot be used with"]);
    desk.bad("retrieve runs/a d.csv -k 0", 2, &["--most", "at least 1"]);
}

/// Intervals of class probabilities, of chains and of a variational fit; how many draws; and a point, which has none.
#[test]
fn intervals_and_numbers_of_draws_are_chosen() {
    let desk = Desk::new();
    desk.good("simulate softmax --rows 80 --columns 2 --classes 2 --seed 2 -o d.csv");
    desk.fitted("fit logistic d.csv --target label --seed 1 --out runs/l --chains 2 --warmup 50 --draws 300 --quiet");
    desk.fitted("fit softmax d.csv --target label --seed 1 --out runs/vb --quiet");
    desk.fitted("fit softmax d.csv --target label --seed 1 --inference map --out runs/map --quiet");
    let cells =
        |text: &str, row: usize| -> Vec<f64> { text.lines().nth(row).unwrap().split(',').skip(2).map(|c| c.parse().unwrap()).collect() };
    for run in ["runs/l", "runs/vb"] {
        let said = desk.good(&format!("predict {run} d.csv --interval 0.9 --quiet")).out;
        assert_eq!(said.lines().next(), Some("row,prediction,p_c1,p_c2,sd_c1,sd_c2,lower_c1,lower_c2,upper_c1,upper_c2"));
        let narrow = desk.good(&format!("predict {run} d.csv --interval 0.5 --quiet")).out;
        for row in 1..=80 {
            let (v, n) = (cells(&said, row), cells(&narrow, row));
            assert!(v[4] < v[0] && v[0] < v[6] && v[5] < v[1] && v[1] < v[7], "{run} {v:?}");
            assert!(v[4] < n[4] && n[6] < v[6], "{run} {v:?} {n:?}");
        }
        let json = desk.good(&format!("predict {run} d.csv --interval 0.9 --json --quiet")).json();
        assert_eq!(json["interval"]["upper"][0][1].as_f64(), Some(cells(&said, 1)[7]));
        desk.bad(&format!("predict {run} d.csv --interval 90"), 2, &["--interval", "between 0 and 1"]);
        desk.bad(&format!("predict {run} d.csv --predict-draws 0"), 2, &["--predict-draws", "at least 1"]);
    }
    let all = desk.good("predict runs/l d.csv --predict-draws all --quiet").out;
    assert_eq!(desk.good("predict runs/l d.csv --predict-draws 600 --quiet").out, all);
    assert_ne!(desk.good("predict runs/l d.csv --predict-draws 60 --quiet").out, all);
    desk.bad("predict runs/map d.csv --interval 0.9", 1, &["point", "no posterior"]);
    desk.bad("predict runs/vb d.csv --method probit --predict-draws 10", 1, &["`probit`", "`mc`"]);
    // of real outcomes they are quantiles
    let bent: String = (0..60).map(|i| format!("{i},{}\n", (7 * i) % 11 + 2 * i)).collect();
    desk.write("r.csv", &format!("x,y\n{bent}"));
    desk.fitted("fit softmax r.csv --target y --task regression --experts 1 --seed 1 --out runs/r --quiet");
    let said = desk.good("predict runs/r r.csv --quantiles 0.1,0.9 --interval 0.8 --quiet").out;
    assert_eq!(said.lines().next(), Some("row,mean,sd,q0.1,q0.9,lower,upper"));
    // from the standard deviation on
    let v = cells(&said, 5);
    assert!(v[1] < v[2] && (v[1] - v[3]).abs() < 1e-9 && (v[2] - v[4]).abs() < 1e-9, "{v:?}");
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
    let mut calls: Vec<String> = [
        "",
        "fit",
        "grid",
        "resume",
        "predict",
        "transform",
        "impute",
        "export",
        "score",
        "retrieve",
        "summary",
        "compare",
        "simulate",
        "check",
        "models",
        "demo",
        "completions",
    ]
    .map(String::from)
    .to_vec();
    for family in families() {
        calls.extend(["fit", "grid", "simulate", "check"].map(|c| format!("{c} {}", family.name())));
    }
    for call in calls {
        let help = desk.good(&format!("{call} --help")).out;
        assert!(help.contains("Examples:") && help.contains("  variegate "), "{call} --help has no examples");
        for line in help.lines() {
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
        let run = found["run"].as_str().unwrap();
        assert!(desk.good(&format!("summary {run}")).out.contains("complete"));
        if unsupervised(family) {
            let guessing = found["guessing"].as_f64().unwrap();
            let better = found["perplexity"].as_f64().map_or_else(|| found["ln_density"].as_f64().unwrap() > guessing, |p| p < guessing);
            assert!(better, "{found}");
            // rows have coordinates, or places in a tree
            let ask = if family.name() == "tree" { "predict" } else { "transform" };
            desk.good(&format!("{ask} {run} runs/demo-1/data/{}-test.csv --quiet", family.name()));
        } else if columns(family) != "--target label" {
            assert!(found["log_loss"].as_f64().unwrap() < found["guessing"].as_f64().unwrap(), "{found}");
            desk.good(&format!("predict {run} runs/demo-1/data/{}-test.csv --quiet", family.name()));
        } else {
            assert!(found["accuracy"].as_f64().unwrap() > found["guessing"].as_f64().unwrap(), "{found}");
            desk.good(&format!("predict {run} runs/demo-1/data/{}-test.csv --quiet", family.name()));
        }
    }
}

#[test]
fn long_quick_checks_pass_and_are_told_as_tables() {
    let desk = Desk::new();
    for family in families() {
        // what is checked is what is set, and fewer experts take a part of the time
        let small = if family.name() == "experts" { "--experts 2" } else { "" };
        let said = desk.good(&format!("check {} --quick {small}", family.name()));
        assert!(said.out.contains("p-value") && said.out.contains("  ok"), "{}", said.out);
        assert!(said.err.contains("All checks passed"), "{}", said.err);
    }
}

/// A summary has the settings that the fit has read, and a warning of experts without rows.
#[test]
fn summaries_have_settings_that_matter() {
    let desk = Desk::new();
    desk.good("simulate experts --rows 200 --columns 3 --experts 2 --seed 1 -o d.csv");
    desk.fitted("fit experts d.csv --target label --inference vb --experts 3 --init 1 --max-iter 30 --seed 1 --out runs/vb");
    let said = desk.good("summary runs/vb").out;
    let settings = said.split("model ").next().unwrap().to_string();
    assert!(settings.contains("gate_bound=bohning") && settings.contains("max_iter=30"), "{settings}");
    for other in ["n_warmup", "metric", "tau=", "l2=", "inner"] {
        assert!(!settings.contains(other), "`{other}` is not a setting of vb:\n{settings}");
    }
    for part in ["experts in use", "share", "expert 1"] {
        assert!(said.contains(part), "`{part}` is missing:\n{said}");
    }
    let all = serde_json::from_str::<Value>(&desk.good("summary runs/vb --json").out).unwrap();
    assert_eq!(all["settings"]["n_warmup"], 500, "machines get all settings");
    assert_eq!(all["tables"]["share of rows"].as_array().map(Vec::len), Some(3));
}

/// Nobody reads a number of three hundred digits.
#[test]
fn numbers_in_help_are_short() {
    let desk = Desk::new();
    for family in families() {
        let name = family.name();
        for command in [format!("models {name}"), format!("fit {name} --help"), format!("simulate {name} --help")] {
            let said = desk.good(&command).out;
            let digits = said.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
            assert!(digits <= Some(9), "{command}: a number of {digits:?} digits\n{said}");
        }
    }
    desk.good("simulate experts --rows 40 --columns 2 --seed 1 -o d.csv");
    let said = desk.good("fit experts d.csv --target label --inference map --init 1 --l2 1e300 --max-iter 1 --seed 1 --out runs/a").out;
    drop(said);
    assert!(desk.good("summary runs/a").out.contains("l2=1e300"));
}
