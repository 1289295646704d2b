//! Every format, read from small files that NumPy, SciPy, scikit-learn, pandas and PyArrow wrote.

use std::path::{Path, PathBuf};

use variegate::data::{Classes, Dataset, Matrix, Target, TargetKind};
use variegate_io::read::{ColumnSpec, Encode, IndexBase, ReadError, ReadOptions, Schema, read, read_features, read_resolved};

/// The table in all the files, 5 x 3.
const X: [f64; 15] = [1.5, 0.0, -2.0, 0.0, 0.0, 3.25, 4.0, 1e-7, 0.0, 0.0, 0.0, 0.0, -1.0, 2.0, 1e10];
const NAMES: [&str; 5] = ["b", "a", "b", "ü c", "a"];
const NUMBERS: [&str; 5] = ["1", "-1", "1", "10", "-1"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn load(name: &str) -> Result<Dataset<'static>, ReadError> {
    read(&golden(name), &ReadOptions::default())
}

fn with(name: &str, options: ReadOptions) -> Result<Dataset<'static>, ReadError> {
    read(&golden(name), &options)
}

fn target(name: &str) -> ReadOptions {
    ReadOptions { target: Some(name.parse().unwrap()), ..ReadOptions::default() }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| s.to_string()).collect()
}

fn classes(list: [&str; 5]) -> Target {
    Target::Classes(Classes::encode(list))
}

fn message(result: Result<Dataset<'static>, ReadError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn text_tables() {
    for name in ["table.csv", "table.tsv.gz"] {
        let d = with(name, target("y")).unwrap();
        assert_eq!(d.x, Matrix::dense(5, 3, X.to_vec()));
        assert_eq!(d.columns, ["a", "b", "c"]);
        assert_eq!(d.target, classes(NAMES));
    }
    let e = message(load("table.csv"));
    assert!(e.contains("table.csv: row 1, column `y`: `b` is not a number") && e.contains("--target y"), "{e}");
    let real = ReadOptions { target_kind: TargetKind::Real, ignore: strings(&["y"]), ..target("a,c") };
    let d = with("table.csv", real).unwrap();
    assert_eq!(d.columns, ["b"]);
    assert_eq!(d.target, Target::Real { width: 2, values: (0..10).map(|i| X[i / 2 * 3 + i % 2 * 2]).collect() });
}

/// Text columns of a table are coded by their categories in whatever format, and looked up in another file.
#[test]
fn text_columns_are_coded() {
    let options = ReadOptions { encode: Some(Encode::OneHot), ..ReadOptions::default() };
    let expected: Vec<f64> = (0..5)
        .flat_map(|i| {
            let hot = ["a", "b", "ü c"].map(|c| f64::from(u8::from(NAMES[i] == c)));
            X[3 * i..3 * i + 3].iter().copied().chain(hot).collect::<Vec<_>>()
        })
        .collect();
    for name in ["table.csv", "table.tsv.gz"] {
        let (d, resolved) = read_resolved(&golden(name), &options).unwrap();
        assert_eq!(d.columns, ["a", "b", "c", "y=a", "y=b", "y=ü c"], "{name}");
        assert_eq!(d.x, Matrix::dense(5, 6, expected.clone()), "{name}");
        assert_eq!(resolved.categories[0].values, ["a", "b", "ü c"]);
        let schema = Schema { columns: d.columns.clone(), width: 6 };
        let other = ReadOptions { format: None, ..resolved.clone() };
        assert_eq!(read_features(&golden("table.csv"), &schema, &other).unwrap().x, d.x, "{name}");
        let mut known = other;
        known.categories[0].values.pop();
        let schema = Schema { columns: d.columns[..5].to_vec(), width: 5 };
        let e = message(read_features(&golden("table.csv"), &schema, &known));
        assert!(e.contains("row 4, column `y`: the category `ü c`"), "{e}");
    }
    for first in [true, false] {
        let picked = if first { ["label", "a"] } else { ["a", "label"] };
        let (d, resolved) =
            read_resolved(&golden("snappy.parquet"), &ReadOptions { columns: Some(strings(&picked)), ..options.clone() }).unwrap();
        assert_eq!(d.x.cols(), 4);
        assert_eq!(resolved.categories[0].values, ["a", "b", "ü c"]);
        let dense = d.x.to_dense();
        for (i, row) in dense.chunks_exact(4).enumerate() {
            let hot = if first { &row[..3] } else { &row[1..] };
            assert_eq!(hot, ["a", "b", "ü c"].map(|c| f64::from(u8::from(NAMES[i % 5] == c))), "row {i}");
        }
        let schema = Schema { columns: d.columns.clone(), width: 4 };
        assert_eq!(read_features(&golden("zstd.parquet"), &schema, &resolved).unwrap().x, d.x);
    }
    let e = message(with("one.svm", options));
    assert!(e.contains("no text columns"), "{e}");
}

/// Features of an svmlight file are called by their numbers; runs of before counted them from 0 and still do.
#[test]
fn svmlight_features_have_their_own_numbers() {
    let (d, resolved) = read_resolved(&golden("one.svm"), &ReadOptions::default()).unwrap();
    assert_eq!(d.columns, ["x1", "x2", "x3"]);
    let schema = Schema { columns: d.columns.clone(), width: 3 };
    assert_eq!(read_features(&golden("one.svm"), &schema, &resolved).unwrap().x, d.x);
    let picked = with("one.svm", ReadOptions { columns: Some(strings(&["x3", "1"])), ..ReadOptions::default() }).unwrap();
    assert_eq!(picked.columns, ["x3", "x1"]);
    assert!(message(with("one.svm", ReadOptions { ignore: strings(&["x0"]), ..ReadOptions::default() })).contains("x1 to x3"));
    let before: ReadOptions = serde_json::from_str("{}").unwrap();
    assert!(!before.own_numbers && !before.skip_index);
    assert_eq!(with("one.svm", before).unwrap().columns, Vec::<String>::new());
}

#[test]
fn numpy_arrays_of_every_type() {
    for name in ["f8", "f8_big", "f4", "i1", "i2_big", "i4", "i8_big"] {
        let d = load(&format!("c_{name}.npy")).unwrap();
        assert_eq!(d.x, Matrix::dense(3, 2, (0..6).map(|v| v as f64 - 2.0).collect::<Vec<_>>()), "{name}");
    }
    for name in ["u1", "u2", "u4_big", "u8"] {
        assert_eq!(load(&format!("c_{name}.npy")).unwrap().x.to_dense(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{name}");
    }
    assert_eq!(load("c_b1.npy").unwrap().x.to_dense(), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    assert_eq!(load("fortran.npy").unwrap().x.to_dense(), X);
    assert_eq!(load("vector.npy").unwrap().x, Matrix::dense(5, 1, vec![1.5, 0.0, 4.0, 0.0, -1.0]));
    assert!(message(load("cube.npy")).contains("3 dimensions"));
    assert!(message(load("objects.npy")).contains("type |O"));
    assert!(message(load("names_u.npy")).contains("text"));
    let d = with("fortran.npy", ReadOptions { columns: Some(strings(&["2"])), ..target("x0") }).unwrap();
    assert_eq!((d.columns, d.x.to_dense()), (strings(&["x2"]), vec![-2.0, 3.25, 0.0, 0.0, 1e10]));
    assert_eq!(d.target, classes(["1.5", "0", "4", "0", "-1"]));
}

#[test]
fn numpy_archives() {
    let d = load("plain.npz").unwrap();
    assert_eq!(d.x.to_dense(), X);
    assert_eq!(d.target, classes(NUMBERS));
    let all = ReadOptions { sources: Some(ColumnSpec::column("s")), weights: Some(ColumnSpec::column("w")), ..target("s") };
    let d = with("plain.npz", all).unwrap();
    assert_eq!((d.target, d.sources), (classes(NAMES), Some(Classes::encode(NAMES))));
    assert_eq!(d.weights, Some(vec![0.0, 1.0, 2.0, 3.0, 4.0]));
    assert_eq!(with("plain.npz", ReadOptions { ignore: strings(&["y"]), ..ReadOptions::default() }).unwrap().target, Target::None);
    let d = load("packed.npz").unwrap();
    assert_eq!(d.x.to_dense(), X.map(|v| v as f32 as f64));
    assert_eq!(d.target, classes(NUMBERS));
    let Target::Labels(l) = with("packed.npz", ReadOptions { target_kind: TargetKind::Labels, ..target("Y2") }).unwrap().target else {
        panic!("not labels")
    };
    assert_eq!(l.values, X.map(|v| (v > 0.0) as i8));
    let d = with("packed.npz", ReadOptions { array: Some("Y2".into()), ..ReadOptions::default() }).unwrap();
    assert_eq!(d.x.to_dense(), X.map(|v| (v > 0.0) as u8 as f64));
    assert!(message(with("plain.npz", target("z"))).contains("no column `z`"));
}

#[test]
fn scipy_sparse_archives() {
    for name in ["csr", "csc", "coo", "array"] {
        let d = load(&format!("sparse_{name}.npz")).unwrap();
        assert!(d.x.is_sparse() && d.x.stored() == 8, "{name}");
        assert_eq!(d.x.to_dense(), X, "{name}");
    }
    assert!(message(load("sparse_bsr.npz")).contains("tocsr"));
}

#[test]
fn matrix_market_files() {
    let d = load("coordinate.mtx").unwrap();
    assert!(d.x.is_sparse());
    assert_eq!(d.x.to_dense(), X);
    let d = load("array.mtx").unwrap();
    assert_eq!(d.x, Matrix::dense(5, 3, X.to_vec()));
    assert_eq!(load("pattern.mtx").unwrap().x.to_dense(), X.map(|v| (v != 0.0) as u8 as f64));
    for name in ["symmetric.mtx", "symmetric_array.mtx"] {
        assert_eq!(load(name).unwrap().x.to_dense(), [1.0, 2.0, 0.0, 2.0, 3.0, 4.0, 0.0, 4.0, 5.0], "{name}");
    }
    assert_eq!(load("skew.mtx").unwrap().x.to_dense(), [0.0, 2.0, 0.0, -2.0, 0.0, -4.0, 0.0, 4.0, 0.0]);
    assert_eq!(load("integer.mtx").unwrap().x.to_dense(), [0.0, 2.0, 3.0, 0.0]);
}

#[test]
fn companion_files() {
    for file in ["table.csv:y", "table.tsv.gz:y", "names_u.npy", "plain.npz:s", "snappy.parquet:label"] {
        let mut options = target(file);
        let path = |spec: &mut Option<ColumnSpec>| {
            if let Some(ColumnSpec::File { path, .. }) = spec {
                *path = golden(path.to_str().unwrap());
            }
        };
        path(&mut options.target);
        options.sources = options.target.clone();
        let d = with("coordinate.mtx", options.clone()).unwrap();
        assert_eq!(d.target, classes(NAMES), "{file}");
        assert_eq!(d.sources, Some(Classes::encode(NAMES)), "{file}");
        let e = message(with("integer.mtx", options));
        assert!(e.contains("5 entries for 2 rows"), "{e}");
    }
    let all = |file: &str, kind| ReadOptions {
        target: Some(ColumnSpec::File { path: golden(file), columns: vec![] }),
        target_kind: kind,
        ..ReadOptions::default()
    };
    let d = with("coordinate.mtx", all("fortran.npy", TargetKind::Real)).unwrap();
    assert_eq!(d.target, Target::Real { width: 3, values: X.to_vec() });
    let d = with("coordinate.mtx", all("one.svm", TargetKind::Classes)).unwrap();
    assert_eq!(d.target, classes(NUMBERS));
    assert!(message(with("coordinate.mtx", all("table.csv", TargetKind::Classes))).contains("exactly one column, but 4 were found"));
    let d = with("coordinate.mtx", ReadOptions { weights: all("vector.npy", TargetKind::Real).target, ..ReadOptions::default() }).unwrap();
    assert_eq!(d.weights, Some(vec![1.5, 0.0, 4.0, 0.0, -1.0]));
}

#[test]
fn svmlight_files() {
    for (name, base) in [("one.svm", IndexBase::One), ("zero.svm", IndexBase::Zero)] {
        let (d, resolved) = read_resolved(&golden(name), &ReadOptions::default()).unwrap();
        assert_eq!((d.x.to_dense(), d.target), (X.to_vec(), classes(NUMBERS)), "{name}");
        assert_eq!(resolved.index_base, base);
        let real = with(name, ReadOptions { target_kind: TargetKind::Real, ..ReadOptions::default() }).unwrap();
        assert_eq!(real.target, Target::Real { width: 1, values: vec![1.0, -1.0, 1.0, 10.0, -1.0] });
        assert_eq!(with(name, ReadOptions { width: Some(5), ..ReadOptions::default() }).unwrap().x.cols(), 5);
        let e = message(with(name, ReadOptions { width: Some(2), ..ReadOptions::default() }));
        assert!(e.contains("beyond the 2 features"), "{e}");
    }
    let d = with("sets.svm", ReadOptions { target_kind: TargetKind::Labels, ..ReadOptions::default() }).unwrap();
    let Target::Labels(l) = d.target else { panic!("not labels") };
    assert_eq!((d.x.to_dense(), l.names), (X.to_vec(), strings(&["1", "2", "3"])));
    assert_eq!(l.values, [1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0]);
    assert!(message(load("sets.svm")).contains("set the kind of target to labels"));
    assert_eq!(with("sets.svm", ReadOptions { ignore: strings(&["label"]), ..ReadOptions::default() }).unwrap().target, Target::None);
}

#[test]
fn parquet_files() {
    for name in ["snappy.parquet", "zstd.parquet", "v2.parquet"] {
        let d = with(name, target("label")).unwrap();
        let expected: Vec<f64> = (0..5)
            .flat_map(|i| {
                let u = [0.0, 1.0, 2.0, 3.0, 4294967295.0][i];
                [X[i * 3], i as f64 + 1.0, u, X[i * 3 + 2], [1.0, 0.0, 1.0, 1.0, 0.0][i]]
            })
            .collect();
        assert_eq!(d.columns, ["a", "n", "u", "f", "flag"]);
        assert_eq!(d.x, Matrix::dense(5, 5, expected), "{name}");
        assert_eq!(d.target, classes(NAMES), "{name}");
        let flag = with(name, ReadOptions { columns: Some(strings(&["f", "a"])), ..target("flag") }).unwrap();
        assert_eq!(flag.x.to_dense()[..4], [-2.0, 1.5, 3.25, 0.0]);
        assert_eq!(flag.target, classes(["True", "False", "True", "True", "False"]));
        assert!(message(load(name)).contains("column `label` holds text"));
    }
    assert!(message(load("gzip.parquet")).contains("compressed with GZIP"));
    let only = |c: &str| ReadOptions { columns: Some(strings(&[c])), ..ReadOptions::default() };
    assert!(message(with("nulls.parquet", only("a"))).contains("row 2, column `a`: the value is missing"));
    assert!(message(with("nulls.parquet", only("i"))).contains("row 2, column `i`: the value is missing"));
    assert!(message(with("nulls.parquet", only("t"))).contains("column `t` holds values of the type Timestamp"));
    assert!(message(with("nulls.parquet", only("l"))).contains("column `l` holds nested values"));
    let y = ReadOptions { target: Some(ColumnSpec::column("y")), ..only("cat") };
    assert!(message(with("nulls.parquet", y)).contains("column `cat` holds text"));
    let y = ReadOptions { target: Some(ColumnSpec::column("y")), ..only("a") };
    assert!(message(with("nulls.parquet", y)).contains("row 2, column `y`: the target is missing"));
}

#[test]
fn a_fit_finds_its_features_in_every_format() {
    let schema = Schema { columns: strings(&["c", "a"]), width: 2 };
    let d = read_features(&golden("table.csv"), &schema, &ReadOptions::default()).unwrap();
    assert_eq!((&d.columns, &d.x.to_dense()[..4]), (&schema.columns, &[-2.0, 1.5, 3.25, 0.0][..]));
    assert_eq!(d.target, Target::None);
    let known = ReadOptions { known_classes: Some(strings(&["ü c", "b", "a"])), ..target("y") };
    let Target::Classes(c) = read_features(&golden("table.csv"), &schema, &known).unwrap().target else { panic!("no classes") };
    assert_eq!(c.codes, [1, 2, 1, 0, 2]);
    let other = ReadOptions { known_classes: Some(strings(&["b", "a"])), ..target("y") };
    assert!(message(read_features(&golden("table.csv"), &schema, &other)).contains("row 4: `ü c` was not among the labels"));
    let lost = Schema { columns: strings(&["c", "d"]), width: 2 };
    assert!(message(read_features(&golden("table.csv"), &lost, &ReadOptions::default())).contains("no column `d`"));
    let three = Schema { columns: vec![], width: 3 };
    for name in ["coordinate.mtx", "array.mtx", "fortran.npy", "plain.npz", "sparse_csc.npz", "one.svm", "zero.svm"] {
        let d = read_features(&golden(name), &three, &ReadOptions::default()).unwrap();
        assert_eq!((d.x.to_dense(), d.target), (X.to_vec(), Target::None), "{name}");
    }
    let four = Schema { columns: vec![], width: 4 };
    assert_eq!(read_features(&golden("one.svm"), &four, &ReadOptions::default()).unwrap().x.cols(), 4);
    for name in ["coordinate.mtx", "fortran.npy", "plain.npz"] {
        assert!(message(read_features(&golden(name), &four, &ReadOptions::default())).contains("fitted to 4 columns"), "{name}");
    }
}
