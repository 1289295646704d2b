use std::f64::consts::TAU;

use super::*;
use crate::data::Matrix;
use crate::linalg;

fn pseudo(len: usize, salt: u64) -> Vec<f64> {
    let mut s = salt;
    (0..len)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        })
        .collect()
}

/// Rows of four columns with many zeros, of which the third is constant and the first has a large mean.
fn table(n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut raw = pseudo(n * 4, 3);
    for (i, v) in raw.iter_mut().enumerate() {
        match i % 4 {
            0 => *v += 100.0,
            2 => *v = 7.0,
            _ if *v < 0.1 => *v = 0.0,
            _ => (),
        }
    }
    let weights = (0..n).map(|i| [1.0, 0.0, 3.0, 0.5][i % 4]).collect();
    (raw, weights)
}

fn both(n: usize, cols: usize, raw: &[f64]) -> [Matrix<'static>; 2] {
    let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
    for row in raw.chunks(cols) {
        for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(v);
        }
        indptr.push(indices.len());
    }
    let sparse = Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    [Matrix::dense(n, cols, raw.to_vec()), sparse]
}

/// Columns centred and scaled by weighted mean and deviation, two passes, column-major in and out.
fn standardise(columns: &mut [Vec<f64>], w: &[f64]) {
    let total: f64 = w.iter().sum();
    for column in columns {
        let mean = column.iter().zip(w).map(|(v, w)| v * w).sum::<f64>() / total;
        let variance = column.iter().zip(w).map(|(v, w)| w * (v - mean) * (v - mean)).sum::<f64>() / total;
        column.iter_mut().for_each(|v| *v = (*v - mean) / variance.sqrt());
    }
}

fn rows_of(design: &Design, x: X<'_>) -> Vec<f64> {
    let mut scratch = PanelScratch::default();
    let panel = design.panel(x, &mut scratch);
    assert_eq!((panel.rows(), panel.dim()), (x.rows(), design.dim()));
    panel.dense().unwrap().to_vec()
}

fn map(text: &str) -> InputMap {
    text.parse().unwrap()
}

/// Mapped panels against plain loops: weights, a dropped constant column, dense and sparse, and a panel that begins inside.
#[test]
fn panels_agree_with_loops() {
    let n = 700;
    let (raw, weights) = table(n);
    for w in [None, Some(&weights[..])] {
        let ones = vec![1.0; n];
        let plain_w = w.unwrap_or(&ones);
        let mut inputs: Vec<Vec<f64>> = [0, 1, 3].iter().map(|&j| raw.iter().skip(j).step_by(4).copied().collect()).collect();
        standardise(&mut inputs, plain_w);
        for text in ["polynomial:3", "fourier:6", "fourier:6:0.8"] {
            for x in both(n, 4, &raw) {
                let (design, dropped) = Design::fit_mapped(&x, w, Scaling::default(), map(text), 5).unwrap();
                let mapped = design.map.as_deref().unwrap();
                assert_eq!(dropped, [2]);
                assert_eq!((design.raw_cols, design.available(), mapped.inputs().dim()), (4, mapped.columns(), 3));
                let mut columns: Vec<Vec<f64>> = match &mapped.features {
                    Features::Polynomial(_) => {
                        let names = ["a", "b", "c", "a*a", "a*b", "a*c", "b*b", "b*c", "c*c", "a*a*a", "a*a*b", "a*a*c", "a*b*b", "a*b*c"];
                        let names = names.iter().chain(&["a*c*c", "b*b*b", "b*b*c", "b*c*c", "c*c*c"]);
                        let value = |name: &str, i: usize| -> f64 {
                            name.split('*').map(|f| inputs[(f.as_bytes()[0] - b'a') as usize][i]).product()
                        };
                        names.map(|name| (0..n).map(|i| value(name, i)).collect()).collect()
                    }
                    Features::Fourier(_) => {
                        // the features of width 1 say which numbers are drawn
                        let width = if text == "fourier:6" { 3f64.sqrt() } else { 0.8 };
                        let unit = Fourier::new(&Design::identity(3, false), 6, 1.0, 5);
                        let value = |f: usize, i: usize| {
                            let angle: f64 = (0..3).map(|j| unit.frequency[j * 6 + f] * TAU / width * inputs[j][i]).sum();
                            (1.0f64 / 3.0).sqrt() * (angle + TAU * unit.phase[f]).cos()
                        };
                        (0..6).map(|f| (0..n).map(|i| value(f, i)).collect()).collect()
                    }
                };
                assert_eq!(design.dim(), columns.len() + 1);
                standardise(&mut columns, plain_w);
                columns.push(vec![1.0; n]);
                for range in [0..n, 13..77, 5..6] {
                    let got = rows_of(&design, x.slice(range.clone()));
                    for (row, i) in got.chunks_exact(design.dim()).zip(range) {
                        for (v, column) in row.iter().zip(&columns) {
                            assert!((v - column[i]).abs() < 1e-9, "{text} row {i}: {v} {}", column[i]);
                        }
                    }
                }
            }
        }
    }
}

/// Weights count like repeated rows; products of the panel see the mapped columns.
#[test]
fn repeated_rows_and_products() {
    let (raw, _) = table(40);
    let (mut twice, mut weights) = (Vec::new(), Vec::new());
    for (i, row) in raw.chunks(4).enumerate() {
        weights.push((i % 3) as f64);
        (0..i % 3).for_each(|_| twice.extend_from_slice(row));
    }
    for text in ["polynomial:2", "fourier:9:1.5"] {
        let [dense, sparse] = both(40, 4, &raw);
        let (a, _) = Design::fit_mapped(&dense, Some(&weights), Scaling::default(), map(text), 1).unwrap();
        let (b, _) = Design::fit_mapped(&both(twice.len() / 4, 4, &twice)[1], None, Scaling::default(), map(text), 1).unwrap();
        assert_eq!(a.kept, b.kept);
        for (p, q) in a.mean.iter().chain(&a.scale).zip(b.mean.iter().chain(&b.scale)) {
            assert!((p - q).abs() < 1e-10, "{p} {q}");
        }
        let (rows, dim, k) = (rows_of(&a, dense.view()), a.dim(), 2);
        let w = pseudo(k * dim, 8);
        for x in [&dense, &sparse] {
            let mut scratch = PanelScratch::default();
            let mut panel = a.panel(x.view(), &mut scratch);
            let (mut out, mut sums) = (vec![f64::NAN; 40 * k], vec![0.0; k * dim]);
            panel.mul_t(&w, k, &mut out);
            panel.t_mul_add(&out, k, &mut sums);
            let mut gram = vec![0.0; dim * dim];
            panel.weighted_gram_add(&weights, &mut gram);
            for i in 0..40 {
                for c in 0..k {
                    let e = linalg::dot(&rows[i * dim..(i + 1) * dim], &w[c * dim..(c + 1) * dim]);
                    assert!((out[i * k + c] - e).abs() < 1e-10);
                }
            }
            for j in 0..dim {
                let e: f64 = (0..40).map(|i| weights[i] * rows[i * dim + j] * rows[i * dim + j]).sum();
                assert!((gram[j * dim + j] - e).abs() < 1e-9);
                let e: f64 = (0..40).map(|i| out[i * k] * rows[i * dim + j]).sum();
                assert!((sums[j] - e).abs() < 1e-9);
            }
        }
    }
}

/// A row alone and among others, a design saved and loaded, and a design fitted again have the same features.
#[test]
fn features_are_replayed() {
    let (raw, weights) = table(64);
    for text in ["polynomial:4", "fourier:30"] {
        for x in both(64, 4, &raw) {
            let fit = |seed| Design::fit_mapped(&x, Some(&weights), Scaling::default(), map(text), seed).unwrap().0;
            let design = fit(11);
            let rows = rows_of(&design, x.view());
            let dim = design.dim();
            for i in 0..64 {
                for (a, b) in rows_of(&design, x.slice(i..i + 1)).iter().zip(&rows[i * dim..]) {
                    let exact = x.is_sparse() || text.starts_with('p');
                    // one dense row takes another path through a product than many; a panel of one height gives the same bits
                    assert!(if exact { a == b } else { (a - b).abs() < 1e-12 }, "{text}: {a} {b}");
                }
            }
            let saved = postcard::to_stdvec(&design).unwrap();
            assert!(saved.len() < 1500, "frequencies are not written: {} bytes", saved.len());
            let loaded: Design = postcard::from_bytes(&saved).unwrap();
            assert_eq!(loaded, design);
            assert_eq!(rows_of(&loaded, x.view()), rows);
            let json: Design = serde_json::from_str(&serde_json::to_string(&design).unwrap()).unwrap();
            assert_eq!((json.names(&[]), json.map.as_ref().unwrap().map()), (design.names(&[]), map(text)));
            assert_eq!(fit(11), design);
            assert_eq!(fit(12) == design, text.starts_with('p'), "the seed matters to maps that draw, and to no other");
        }
    }
    let old = r#"{"kept":[0],"raw_cols":1,"mean":[0.5],"scale":[2.0],"intercept":true}"#;
    assert_eq!(serde_json::from_str::<Design>(old).unwrap().map, None);
}

/// Sparse rows are padded at prediction too, so that a row alone gets the bits it gets among others.
#[test]
fn prediction_panels_give_the_same_bits() {
    let (raw, _) = table(130);
    for text in ["polynomial:2", "fourier:40"] {
        for x in both(130, 4, &raw) {
            let (design, _) = Design::fit_mapped(&x, None, Scaling::default(), map(text), 2).unwrap();
            let w = pseudo(3 * design.dim(), 4);
            let predict = |x: X<'_>| {
                let mut out = Vec::new();
                let mut scratch = PanelScratch::default();
                crate::answer::for_panels(x, |_, count, x| {
                    let mut logits = vec![f64::NAN; 3 * x.rows()];
                    design.panel(x, &mut scratch).mul_t(&w, 3, &mut logits);
                    out.extend_from_slice(&logits[..3 * count]);
                });
                out
            };
            let all = predict(x.view());
            for i in [0, 1, 63, 64, 100, 129] {
                assert_eq!(predict(x.slice(i..i + 1)), all[3 * i..3 * i + 3], "{text} row {i}");
            }
        }
    }
}

/// Features that are constant up to rounding are dropped; they would scale rounding errors to unit size.
#[test]
fn features_that_only_round_are_dropped() {
    // two values in equal numbers: every even power is constant, with means that cannot be computed exactly
    for (low, high) in [(1.3, 4.7), (1e6 + 0.1, 1e6 + 0.4), (0.0, 1.0)] {
        let raw: Vec<f64> = (0..60).flat_map(|i| [if i % 2 == 0 { low } else { high }, f64::from(i)]).collect();
        for x in both(60, 2, &raw) {
            let (design, _) = Design::fit_mapped(&x, None, Scaling::default(), map("polynomial:3"), 0).unwrap();
            let names = design.names(&["a".into(), "b".into()]);
            assert_eq!(names, ["a", "b", "a*b", "b^2", "a^3", "a^2*b", "a*b^2", "b^3"], "{low} {high}");
            assert_eq!((design.dim(), design.available()), (9, 9));
            assert_eq!(design.kept, [0, 1, 3, 4, 5, 6, 7, 8]);
            let rows = rows_of(&design, x.view());
            assert!(rows.iter().all(|v| v.abs() < 5.0));
            let kept = Scaling { drop_constant: false, ..Scaling::default() };
            let (design, _) = Design::fit_mapped(&x, None, kept, map("polynomial:3"), 0).unwrap();
            assert_eq!((design.kept.len(), design.scale[2]), (9, 1.0));
        }
    }
    for text in ["polynomial:2", "fourier:4"] {
        for x in both(3, 2, &[0.0, 7.0, 0.0, 7.0, 0.0, 7.0]) {
            let (design, dropped) = Design::fit_mapped(&x, None, Scaling::default(), map(text), 0).unwrap();
            assert_eq!((design.dim(), dropped, design.names(&[])), (1, vec![0, 1], vec![]));
            assert_eq!(rows_of(&design, x.view()), [1.0; 3]);
        }
    }
}

/// Without centring and scaling, inputs and features are taken as they are.
#[test]
fn scaling_holds_for_inputs_and_features() {
    let x = Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, 5.0, -2.0, 0.0]);
    let plain = Scaling { center: false, scale: false, intercept: false, drop_constant: true };
    let (design, _) = Design::fit_mapped(&x, None, plain, map("polynomial:2"), 0).unwrap();
    assert_eq!(rows_of(&design, x.slice(1..2)), [3.0, 5.0, 9.0, 15.0, 25.0]);
    let (design, dropped) = Design::fit_mapped(&x, None, Scaling::default(), InputMap::None, 9).unwrap();
    assert_eq!((design, dropped), Design::fit(&x, None, Scaling::default()));
}

#[test]
fn names() {
    let mut design = Design::identity(3, true);
    design.kept = vec![0, 2];
    assert_eq!(design.names(&["a".into(), "b".into(), "c".into()]), ["a", "c"]);
    assert_eq!(design.names(&[]), ["x0", "x2"]);
    let (raw, _) = table(30);
    let x = &both(30, 4, &raw)[0];
    let (design, _) = Design::fit_mapped(x, None, Scaling::default(), map("polynomial:2"), 0).unwrap();
    assert_eq!(design.names(&[]), ["x0", "x1", "x3", "x0^2", "x0*x1", "x0*x3", "x1^2", "x1*x3", "x3^2"]);
    let (design, _) = Design::fit_mapped(x, None, Scaling::default(), map("fourier:3"), 0).unwrap();
    assert_eq!(design.names(&[]), ["fourier 0", "fourier 1", "fourier 2"]);
}

/// Fourier features of wide sparse rows, and what is refused.
#[test]
fn wide_rows_and_errors() {
    let cols = 200_000;
    let indptr = vec![0usize, 2, 3, 5];
    let wide = Matrix::Csr {
        rows: 3,
        cols,
        indptr: indptr.into(),
        indices: vec![5, 199_999, 7, 5, 7].into(),
        values: vec![1.0, 2.0, 3.0, -1.0, 0.5].into(),
    };
    let (design, dropped) = Design::fit_mapped(&wide, None, Scaling::default(), map("fourier:8"), 0).unwrap();
    assert_eq!((design.dim(), dropped.len(), design.map.as_ref().unwrap().inputs().dim()), (9, cols - 3, 3));
    let keep = Scaling { drop_constant: false, ..Scaling::default() };
    let refused = |map: InputMap| Design::fit_mapped(&wide, None, keep, map, 0).unwrap_err().to_string();
    assert!(refused(map("fourier:251")).contains("at most fourier:250 is possible"));
    assert!(refused(map("polynomial:2")).contains("columns of 200000 inputs and at most 5000 are allowed"));
    assert!(refused(InputMap::Polynomial { degree: 1 }).starts_with("setting `input_map` is polynomial:1, but"));
    let large = Matrix::dense(2, 1, vec![1e200, 2e200]);
    let plain = Scaling { center: false, scale: false, ..Scaling::default() };
    let e = Design::fit_mapped(&large, None, plain, map("polynomial:2"), 0).unwrap_err().to_string();
    assert!(e.contains("too large to compute with"), "{e}");
    let (design, _) = Design::fit_mapped(&large, None, Scaling::default(), map("polynomial:3"), 0).unwrap();
    assert_eq!(design.kept, [0, 2]);
    // a record that no fit writes
    let (inner, _) = Design::fit(&large, None, Scaling::default());
    assert!(Mapped::try_from(Record { inputs: inner, map: map("polynomial:2"), seed: 0 }).is_err());
}
