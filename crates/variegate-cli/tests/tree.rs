//! Trees of rows on the command line: fit, summary, predict, export, score, resume, and what is refused.

mod common;

use common::Desk;
use std::fmt::Write as _;

/// Eighteen rows of three groups, two of which lie nearer; with a name and a class, of which one is not known.
fn animals() -> String {
    let mut text = String::from("name,class,x,y\n");
    for i in 0..18u32 {
        let group = i % 3;
        let centre = [(-9.0, 0.0), (9.0, -3.0), (9.0, 3.0)][group as usize];
        let (dx, dy) = (f64::from((i * 7) % 5) / 10.0, f64::from((i * 11) % 7) / 10.0);
        let class = if i == 5 { "" } else { ["cat", "dog", "fox"][group as usize] };
        let _ = writeln!(text, "animal{i},{class},{},{}", centre.0 + dx, centre.1 + dy);
    }
    text
}

const FIT: &str = "fit tree animals.csv --ignore name,class --depth 2 --chains 2 --warmup 150 --draws 100 --thin 1 --seed 3 --quiet";

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("animals.csv", &animals());
    desk.fitted(&format!("{FIT} --out t"));
    desk
}

#[test]
fn a_tree_is_fitted_told_and_written() {
    let desk = desk();
    let summary = desk.good("summary t").out;
    for part in ["nodes of level 2", "components", "one_path_fraction", "node 1", "support"] {
        assert!(summary.contains(part), "{part}:\n{summary}");
    }
    let newick = desk.good("export t --label name").out;
    assert!(newick.starts_with('(') && newick.trim_end().ends_with(';') && newick.matches("animal").count() == 18, "{newick}");
    let tree: serde_json::Value = desk.good("export t --format json --tree binder").json();
    assert_eq!(tree["levels"], 2);
    assert_eq!(tree["nodes"][0]["rows"].as_array().unwrap().len(), 18);
    assert!(tree["nodes"][1]["support"].as_f64().unwrap() > 0.0);
    assert!(desk.good("export t --format dot --tree best --merge").out.starts_with("digraph"));
    let names: String = (0..18).map(|i| format!("a {i}\n")).collect();
    desk.write("names.txt", &names);
    desk.good("export t --format svg --names names.txt -o t.svg");
    let svg = desk.text("t.svg");
    assert!(svg.starts_with("<svg") && svg.contains(">a 17<"), "{svg}");
    desk.bad("export t --format svg -o t.svg", 1, &["exists already", "--force"]);
    desk.write("two.txt", "a\nb\n");
    desk.bad("export t --names two.txt", 1, &["names of rows", "2"]);
    desk.bad("export t --names none.txt", 1, &["none.txt", "a name a line"]);
    desk.bad("export t --format png", 2, &["newick"]);
}

#[test]
fn new_rows_are_placed_and_trees_scored() {
    let desk = desk();
    desk.write("new.csv", "y,x,class\n0.2,-8.8,cat\n-2.7,9.1,dog\n900,900,?\n");
    let placed = desk.good("predict t new.csv --responsibilities").out;
    let mut lines = placed.lines();
    assert!(lines.next().unwrap().starts_with("row,level_1,level_2,p_level_1,p_level_2,share_component1,"), "{placed}");
    let tree = desk.good("export t --format json").json();
    let node_of = |row: usize, level: u64| {
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let mut own = nodes.filter(|n| n["level"] == level && n["rows"].as_array().unwrap().contains(&row.into()));
        own.next().unwrap()["id"].to_string()
    };
    for (line, like) in lines.by_ref().take(2).zip([0, 1]) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[1..3], [node_of(like, 1), node_of(like, 2)], "{placed}");
        assert!(cells[3..].iter().all(|p| (0.0..=1.0 + 1e-9).contains(&p.parse::<f64>().unwrap())), "{placed}");
    }
    // far from all rows
    assert!(lines.next().unwrap().contains("new below "), "{placed}");
    let json = desk.good("predict t new.csv --json --tree best").json();
    assert!(json["placed"][2]["new_below"].is_number() && json["placed"][0]["path"][1].is_number(), "{json}");
    desk.bad("predict t new.csv --method mean", 2, &["--method", "rows alone"]);
    desk.bad("predict t new.csv --tree tall", 2, &["point"]);

    let held_out = desk.good("score t new.csv --labels class --json").json();
    assert!(held_out["log_ppd"].is_number() && held_out["tree"]["f_1"].is_number(), "{held_out}");
    let scores = desk.good("score t --labels class --json").json();
    assert_eq!(scores["scores"]["f_2"]["tree"], 1.0, "{scores}");
    assert!(scores["scores"]["aid_ratio"]["mean"].as_f64().unwrap() < 1.0);
    assert!(scores["scores"]["aod_ratio"]["tree"].as_f64().unwrap() > 1.0);
    let classes: String = std::iter::once("class\n".to_string()).chain((0..18).map(|i| format!("{}\n", i % 2))).collect();
    desk.write("classes.csv", &classes);
    let text = desk.good("score t --labels classes.csv").out;
    assert!(text.contains("purity") && text.contains("aod_ratio"), "{text}");
    let said = desk.good("score t");
    assert!(said.out.contains("aid_zero") && !said.out.contains("purity") && said.err.contains("--labels"));
    desk.bad("score t --completion", 2, &["--completion"]);
    desk.bad("score t new.csv --completion", 2, &["--perplexity"]);
    std::fs::remove_file(desk.path("animals.csv")).unwrap();
    desk.bad("score t", 1, &["animals.csv", "not there any more"]);
}

#[test]
fn the_margin_has_a_target_of_its_own() {
    let desk = Desk::new();
    desk.write("animals.csv", &animals());
    for target in ["calibrated", "stated"] {
        desk.fitted(&format!("{FIT} --separation 0.1 --margin 1 --target {target} --out {target}"));
        let record = std::fs::read_to_string(desk.path(target).join("run.json")).unwrap_or_default();
        assert!(record.is_empty() || record.contains(target));
        let json = desk.good(&format!("summary {target} --json")).json();
        assert!(json.to_string().contains("violations of the margin"), "{json}");
    }
    desk.bad(&format!("{FIT} --separation 0.1 --target class --out c"), 2, &["calibrated", "stated"]);
    desk.bad(&format!("{FIT} --target stated --out c"), 2, &["separation"]);
    desk.bad(&format!("{FIT} --depth 0 --out c"), 2, &["depth"]);
    assert!(desk.good("fit tree --help").out.contains("--target <WORD>"));
}

#[test]
fn runs_are_the_same_for_any_number_of_threads() {
    let desk = desk();
    desk.fitted("resume t --quiet");
    let other = desk.fitted(&format!("{FIT} --threads 1 --out again"));
    assert!(other.code == 0 || other.code == 3);
    common::assert_same(&common::kept(&desk.path("t")), &common::kept(&desk.path("again")), "one thread or two");
    assert_eq!(desk.good("export t").out, desk.good("export again").out);
}

#[test]
fn other_models_have_no_tree() {
    let desk = Desk::new();
    desk.good("simulate logistic --rows 60 --seed 1 -o d.csv");
    desk.fitted("fit logistic d.csv --target label --chains 1 --warmup 20 --draws 20 --seed 1 --quiet --out l");
    desk.bad("export l", 1, &["cannot group rows into a tree", "predict classes"]);
    desk.bad("predict l d.csv --tree best", 2, &["--tree"]);
    desk.bad("score l", 2, &["variegate score RUN DATA"]);
}

/// Chains begin with a column of labels, of the file or of another one; a run that is interrupted reads them again.
#[test]
fn chains_begin_with_labels() {
    let desk = Desk::new();
    desk.write("animals.csv", &animals());
    let short = "--depth 2 --chains 1 --warmup 5 --draws 4 --thin 1 --node-sweeps 10 --seed 3";
    let told = desk.fitted(&format!("fit tree animals.csv --ignore name --start-labels class {short} --out a"));
    assert!(told.err.contains("2 columns, 3 classes (cat, dog, fox) (1 not known)"), "{}", told.err);
    let names: String = (0..18).map(|i| ["cat\n", "dog/a\n", "dog/b\n"][i % 3]).collect();
    desk.write("begin.csv", &format!("path\n{names}"));
    desk.fitted(&format!("fit tree animals.csv --ignore name,class --start labels --start-labels begin.csv:path {short} --out b"));
    let settings = desk.text("b/settings.toml");
    assert!(settings.contains("start = \"labels\""), "{settings}");
    desk.fitted("extend a --draws 6 --quiet");
    desk.good("predict a animals.csv -o placed.csv");
    assert_eq!(desk.text("placed.csv").lines().count(), 19);
    desk.bad(&format!("fit tree animals.csv --ignore name,class --start labels {short} --out c"), 1, &["--start-labels COLUMN"]);
    let both = format!("fit tree animals.csv --ignore name --start ward --start-labels class {short} --out c");
    desk.bad(&both, 2, &["--start is ward", "leave one of them out"]);
    desk.write("deep.csv", &format!("path\n{}", "a/b/c\n".repeat(18)));
    let deep = format!("fit tree animals.csv --ignore name,class --start-labels deep.csv {short} --out c");
    desk.bad(&deep, 1, &["`a/b/c`", "2 levels"]);
}
