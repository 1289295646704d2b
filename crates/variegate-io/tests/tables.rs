//! Tables written and read back, and the faults that a text table can have.

use std::io::Write;
use std::path::PathBuf;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tempfile::TempDir;
use variegate::data::{Classes, Dataset, LabelSets, Matrix, Target, TargetKind};
use variegate_io::read::{ColumnSpec, ReadError, ReadOptions, Schema, read, read_features};
use variegate_io::write::write_csv;

fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn csv(text: &str, options: &ReadOptions) -> Result<Dataset<'static>, ReadError> {
    let (_dir, path) = file("t.csv", text.as_bytes());
    read(&path, options)
}

fn target(name: &str) -> ReadOptions {
    ReadOptions { target: Some(ColumnSpec::column(name)), ..ReadOptions::default() }
}

fn fault(text: &str, options: &ReadOptions) -> String {
    csv(text, options).unwrap_err().to_string()
}

#[test]
fn quotes_line_ends_marks_and_blanks() {
    let text = "\u{feff}a,\"b, c\",y\r\n 1 ,\"2.5\",\"no\"\"w\"\r\n-3,1e2, x \r\n\r\n";
    let d = csv(text, &target("y")).unwrap();
    assert_eq!(d.columns, ["a", "b, c"]);
    assert_eq!(d.x, Matrix::dense(2, 2, vec![1.0, 2.5, -3.0, 100.0]));
    assert_eq!(d.target, Target::Classes(Classes::encode(["no\"w", "x"])));
    let d = csv("1;True\n2;False\n", &ReadOptions { delimiter: Some(b';'), header: false, ..ReadOptions::default() }).unwrap();
    assert_eq!((d.columns.len(), d.x.to_dense()), (0, vec![1.0, 1.0, 2.0, 0.0]));
    let d = csv(",0\n7,8\n", &ReadOptions::default()).unwrap();
    assert_eq!(d.columns, ["unnamed1", "0"]);
}

/// The index that pandas writes is left out, and what was left out is kept with how the file was read.
#[test]
fn an_index_is_no_feature() {
    let counted =
        |n: usize, header: &str| format!("{header},a,y\n") + &(0..n).map(|i| format!("{i},{},{}\n", i * i, i % 2)).collect::<String>();
    let read_text = |text: &str, options: &ReadOptions| {
        let (_dir, path) = file("t.csv", text.as_bytes());
        variegate_io::read::read_resolved(&path, options).unwrap()
    };
    let (d, resolved) = read_text(&counted(9, ""), &target("y"));
    assert_eq!((d.columns, d.x.cols(), d.x.rows()), (vec!["a".to_string()], 1, 9));
    assert_eq!((resolved.ignore, resolved.skip_index), (vec!["unnamed1".to_string()], false));
    let resolved = ReadOptions { ignore: vec!["unnamed1".into()], skip_index: false, ..target("y") };
    assert_eq!(read_text(&counted(9, ""), &resolved).0.columns, ["a"]);
    // a count that breaks off late is a feature with all its values
    let (d, resolved) = read_text(&counted(9, "").replace("\n8,", "\n80,"), &target("y"));
    assert_eq!(d.columns, ["unnamed1", "a"]);
    let expected: Vec<f64> = (0..9).flat_map(|i| [if i == 8 { 80.0 } else { f64::from(i) }, f64::from(i * i)]).collect();
    assert_eq!((d.x.to_dense(), resolved.ignore.len()), (expected, 0));
    let kept = ReadOptions { skip_index: false, ..target("y") };
    assert_eq!(read_text(&counted(9, ""), &kept).0.columns, ["unnamed1", "a"]);
    assert_eq!(read_text(&counted(9, "id"), &target("y")).0.columns, ["id", "a"]);
}

#[test]
fn faults_say_where_and_what_to_do() {
    let plain = ReadOptions::default();
    for (text, options, expected) in [
        ("", &plain, "no rows"),
        ("a,b\n", &plain, "no rows"),
        ("a,b\n1,2\n3,\n", &plain, "row 2, column `b`: the value is missing (an empty field)"),
        ("a,b\n1,NA\n", &plain, "row 1, column `b`: the value is missing (`NA`)"),
        ("a,b\n1,2\n3\n", &plain, "row 2 (line 3) has 1 fields, the first line has 2"),
        ("a,b\n1,2,3\n", &plain, "row 1 (line 2) has 3 fields"),
        ("a,b\n1,inf\n", &plain, "row 1, column `b`: the value is inf"),
        ("a;b\n1;2\n", &plain, "if ';' separates the fields, say so (--delimiter ';')"),
        ("1.5,2\n1,2\n", &plain, "the first line holds numbers, not names"),
        ("1,1\n1,2\n", &plain, "the first line holds numbers, not names"),
        ("a,a\n1,2\n", &plain, "two columns are called `a`"),
        ("a,y\n1,\n", &target("y"), "row 1, column `y`: the target is missing"),
        ("a\n1\n", &target("a"), "no feature columns"),
        ("a,b\n1,2\n", &target("z"), "no column `z`; the columns are `a`, `b`"),
        ("a,b\n1,x\n", &ReadOptions { target_kind: TargetKind::Real, ..target("b") }, "row 1, column `b`: the target `x` is not a number"),
        ("a,b\n1,2\n", &ReadOptions { target_kind: TargetKind::Labels, ..target("b") }, "row 1, label `b`: `2` is no label entry"),
    ] {
        let e = fault(text, options);
        assert!(e.contains(expected), "{text:?}: {e}");
        assert!(e.contains("t.csv: "), "{e}");
    }
    assert!(read("/nowhere/a.csv".as_ref(), &plain).unwrap_err().to_string().contains("cannot be opened"));
    assert!(read("a.doc".as_ref(), &plain).unwrap_err().to_string().contains("the name does not tell the format"));
    let (_dir, path) = file("l.txt", b"x\ny\n");
    assert!(read(&path, &plain).unwrap_err().to_string().contains("one value a line"));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("d.csv");
    std::fs::create_dir(&folder).unwrap();
    assert!(read(&folder, &plain).unwrap_err().to_string().contains("cannot be opened"));
}

#[test]
fn text_files_give_a_value_a_line() {
    let (dir, x) = file("x.csv", b"a\n1\n2\n");
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all("New York\nÜ\n\n".as_bytes()).unwrap();
    let path = dir.path().join("names.txt.gz");
    std::fs::write(&path, gz.finish().unwrap()).unwrap();
    let options = ReadOptions { target: Some(ColumnSpec::File { path, columns: vec![] }), ..ReadOptions::default() };
    let d = read(&x, &options).unwrap();
    assert_eq!(d.target, Target::Classes(Classes::encode(["New York", "Ü"])));
}

/// Columns of labels: by name or by the beginning of names at a fit, those that are there in rows to predict.
#[test]
fn labels_in_columns() {
    let names = |all: &[&str]| all.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let labels = |d: Dataset<'static>| match d.target {
        Target::Labels(l) => (l.names, l.values),
        other => panic!("{other:?}"),
    };
    let text = "x,l_sea,l_sun,note\n0.5,1,0,7\n1.5,,-1,8\n";
    let sets = |list: &[&str]| ReadOptions {
        target: Some(ColumnSpec::Columns(names(list))),
        target_kind: TargetKind::Labels,
        ignore: names(&["note"]),
        ..ReadOptions::default()
    };
    let d = csv(text, &sets(&["l_*"])).unwrap();
    assert_eq!(d.columns, ["x"]);
    assert_eq!(labels(d), (names(&["l_sea", "l_sun"]), vec![1, 0, -1, -1]));
    // of a fit: all labels that it knows, in its order
    let known = ReadOptions { known_classes: Some(names(&["l_sun", "l_sea"])), ..sets(&["l_*"]) };
    assert_eq!(labels(csv(text, &known).unwrap()), (names(&["l_sun", "l_sea"]), vec![0, 1, -1, -1]));
    let more = ReadOptions { known_classes: Some(names(&["l_town", "l_sun", "l_sea"])), ..sets(&["*"]) };
    assert!(fault(text, &more).contains("no column `l_town`"));
    // of rows to predict: those that the file has, if it has any, and of these the ones that were asked for
    let schema = Schema { columns: names(&["x"]), width: 1 };
    let predict = |text: &str, asked: &[&str]| {
        let (_dir, path) = file("t.csv", text.as_bytes());
        read_features(&path, &schema, &ReadOptions { open_target: true, known_classes: more.known_classes.clone(), ..sets(asked) })
    };
    assert_eq!(labels(predict(text, &["*"]).unwrap()), (names(&["l_sun", "l_sea"]), vec![0, 1, -1, -1]));
    assert_eq!(labels(predict(text, &["l_sea"]).unwrap()), (names(&["l_sea"]), vec![1, -1]));
    assert!(predict("x\n1\n", &["*"]).unwrap_err().to_string().contains("no column `l_town`"));
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        -1e3..1e3f64,
        any::<f64>().prop_filter("finite", |v| v.is_finite()),
        (-99i64..99).prop_map(|v| v as f64)
    ]
}

fn dataset() -> impl Strategy<Value = Dataset<'static>> {
    (1usize..6, 1usize..5, 0u8..4, any::<bool>(), any::<bool>()).prop_flat_map(|(rows, cols, kind, sources, weights)| {
        let name = "[a-zA-Zäß \",;\n']{1,6}".prop_map(|s| format!("l{s}r"));
        let parts = (
            prop::collection::vec(number(), rows * cols),
            prop::collection::vec(name, rows * 2 + cols),
            prop::collection::vec(number(), rows * 3),
            prop::collection::vec(-1i8..2, rows * 2),
        );
        parts.prop_map(move |(x, names, real, labels)| {
            let mut d = Dataset::new(Matrix::dense(rows, cols, x));
            d.columns = names[rows * 2..].iter().enumerate().map(|(j, n)| format!("{n}{j}")).collect();
            d.target = match kind {
                0 => Target::None,
                1 => Target::Classes(Classes::encode(names[..rows].iter().map(String::as_str))),
                2 => Target::Real { width: 2, values: real[..rows * 2].to_vec() },
                _ => Target::Labels(LabelSets { names: vec!["l1".into(), "l2".into()], values: labels }),
            };
            d.sources = sources.then(|| Classes::encode(names[rows..rows * 2].iter().map(String::as_str)));
            d.weights = weights.then(|| real[rows * 2..].to_vec());
            d
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What is written is read back to the bit: features, names, targets of every kind, sources, weights.
    #[test]
    fn tables_come_back(d in dataset()) {
        let mut text = Vec::new();
        write_csv(&mut text, &d, "y").unwrap();
        let (_dir, path) = file("t.csv", &text);
        let column = |present: bool, name: &str| present.then(|| ColumnSpec::column(name));
        let (target, target_kind) = match &d.target {
            Target::None => (None, TargetKind::Classes),
            Target::Classes(_) => (column(true, "y"), TargetKind::Classes),
            Target::Real { .. } => (column(true, "y*"), TargetKind::Real),
            Target::Labels(_) => (Some(ColumnSpec::Columns(vec!["l1".into(), "l2".into()])), TargetKind::Labels),
        };
        let options = ReadOptions {
            target,
            target_kind,
            sources: column(d.sources.is_some(), "source"),
            weights: column(d.weights.is_some(), "weight"),
            ..ReadOptions::default()
        };
        let back = read(&path, &options).unwrap();
        prop_assert_eq!(back.fingerprint(), d.fingerprint(), "{:?} {:?}", back, d);
    }
}

/// Rows that grow longer, so that the first guesses of the number of rows are too large.
#[test]
fn many_rows_in_plain_and_packed_files() {
    let mut text = String::from("a,b,y\n");
    let mut expected = Vec::new();
    for i in 0..5000 {
        let v = if i < 1000 { 1.0 } else { i as f64 * 0.123456789 };
        text += &format!("{v},{i},{}\n", if i % 3 == 0 { "x" } else { "long label" });
        expected.extend([v, i as f64]);
    }
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(text.as_bytes()).unwrap();
    for (name, bytes) in [("t.csv", text.into_bytes()), ("t.csv.gz", gz.finish().unwrap())] {
        let (_dir, path) = file(name, &bytes);
        let d = read(&path, &target("y")).unwrap();
        assert_eq!(d.x, Matrix::dense(5000, 2, expected.clone()));
        assert_eq!(d.check(variegate::data::Needs::target(TargetKind::Classes)), Ok(()));
    }
}
