//! A small tree in every form, and pictures whose labels do not overlap.

use super::*;

fn credible(support: f64) -> Option<Credibility> {
    Some(Credibility { cohesion: 0.9, separation: f64::NAN, support })
}

/// {0, 1, 2}, {3}; below {0, 1}, {2}, {3}.
fn small() -> SummaryTree {
    let names = ["ant", "bee's", "cow_1", "d<og"].map(String::from);
    let below = vec![
        (1, vec![0, 1, 2], credible(0.8)),
        (1, vec![3], credible(1.0)),
        (2, vec![0, 1], credible(0.5)),
        (2, vec![2], credible(f64::NAN)),
        (2, vec![3], None),
    ];
    SummaryTree::new(2, below, &names, 4).unwrap()
}

#[test]
fn nodes_know_their_parents() {
    let tree = small();
    assert_eq!(tree.nodes.iter().map(|n| n.parent).collect::<Vec<_>>(), [None, Some(0), Some(0), Some(1), Some(1), Some(2)]);
    let shown = tree.presented();
    assert_eq!(shown.nodes.len(), 5); // {3} below {3} is no choice
    assert_eq!(shown.nodes[4].parent, Some(1));
    assert_eq!(shown.nodes.iter().map(|n| n.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let path = SummaryTree::new(2, vec![(1, vec![0, 1], None), (2, vec![0, 1], None)], &[], 2).unwrap();
    assert_eq!(path.presented().nodes.len(), 1);
    assert_eq!(path.names, ["1", "2"]);
}

#[test]
fn newick() {
    assert_eq!(
        small().newick(),
        "(((ant:1,'bee''s':1)n3[&support=0.5000]:1,('cow_1':1)n4:1)n1[&support=0.8000]:1,(('d<og':1)n5:1)n2[&support=1.0000]:1)root;"
    );
    // merged nodes leave longer branches: all rows stay at the same distance from the root
    assert_eq!(
        small().presented().newick(),
        "(((ant:1,'bee''s':1)n3[&support=0.5000]:1,('cow_1':1)n4:1)n1[&support=0.8000]:1,('d<og':2)n2[&support=1.0000]:1)root;"
    );
}

#[test]
fn json_and_dot() {
    let json = small().json();
    assert_eq!(json["nodes"][3]["rows"], serde_json::json!([0, 1]));
    assert_eq!(json["nodes"][3]["support"], serde_json::json!(0.5));
    assert!(json["nodes"][4]["support"].is_null() && json["nodes"][0].get("support").is_none());
    let dot = small().dot();
    assert!(dot.contains("n1 -> n3;") && dot.contains("n3 [label=\"n3\\nant, bee's\\nsupport 0.50\"];"), "{dot}");
}

/// Heights by level, clusters numbered as they are made; every row and cluster is used once.
#[test]
fn linkage() {
    let z = small().linkage();
    assert_eq!(z, [[0.0, 1.0, 1.0, 2.0], [2.0, 4.0, 2.0, 3.0], [3.0, 5.0, 3.0, 4.0]]);
    let flat = SummaryTree::new(1, vec![(1, vec![0, 2, 4], None), (1, vec![1, 3], None)], &[], 5).unwrap().linkage();
    assert_eq!(flat, [[0.0, 2.0, 1.0, 2.0], [4.0, 5.0, 1.0, 3.0], [1.0, 3.0, 1.0, 2.0], [6.0, 7.0, 2.0, 5.0]]);
    assert!(SummaryTree::new(1, vec![(1, vec![0], None)], &[], 1).unwrap().linkage().is_empty());
}

fn large(rows: usize, width: usize) -> SummaryTree {
    let mut below = Vec::new();
    for (level, parts) in [(1, 3), (2, 3 * width), (3, 6 * width)] {
        let group = |i: usize| i * parts / rows;
        for part in 0..parts {
            let own: Vec<usize> = (0..rows).filter(|&i| group(i) == part).collect();
            if !own.is_empty() {
                below.push((level, own, credible(1.0 / (1.0 + part as f64))));
            }
        }
    }
    let names: Vec<String> = (0..rows).map(|i| format!("animal number {i} & friends")).collect();
    SummaryTree::new(3, below, &names, rows).unwrap()
}

/// Texts of a picture: x, y, size, letters, where they are anchored.
fn texts(svg: &str) -> Vec<(f64, f64, f64, f64, bool)> {
    let value = |line: &str, key: &str| {
        let from = line.find(&format!("{key}=\"")).map(|at| at + key.len() + 2)?;
        line[from..].split('"').next()?.parse::<f64>().ok()
    };
    svg.lines()
        .filter(|l| l.starts_with("<text"))
        .map(|l| {
            let letters = l.split('>').nth(1).unwrap().split('<').next().unwrap().replace("&amp;", "&").chars().count() as f64;
            (value(l, " x").unwrap(), value(l, " y").unwrap(), value(l, "font-size").unwrap_or(11.0), letters, l.contains("anchor=\"end\""))
        })
        .collect()
}

#[test]
fn labels_do_not_overlap() {
    for tree in [small(), small().presented(), large(33, 2), large(300, 12), large(2000, 30)] {
        let svg = tree.svg();
        assert!(
            svg.starts_with("<svg")
                && svg.trim_end().ends_with("</svg>")
                && !svg.contains("& f")
                && !svg.contains("d<og")
                && !svg.contains("NaN")
        );
        let boxes: Vec<[f64; 4]> = texts(&svg)
            .into_iter()
            .filter(|t| t.1 > 20.0)
            .map(|(x, y, size, letters, end)| {
                let wide = letters * size * 0.55;
                let left = if end { x - wide } else { x };
                [left, left + wide, y - 0.75 * size, y]
            })
            .collect();
        for (i, a) in boxes.iter().enumerate() {
            for b in &boxes[..i] {
                let apart = a[1] <= b[0] || b[1] <= a[0] || a[3] <= b[2] || b[3] <= a[2];
                assert!(apart, "{a:?} and {b:?} overlap");
            }
        }
    }
}

#[test]
fn what_is_no_tree_is_refused() {
    assert!(SummaryTree::new(1, vec![], &[], 0).is_err());
    assert!(SummaryTree::new(1, vec![], &["a".into()], 2).is_err());
    assert!(SummaryTree::new(1, vec![(2, vec![0], None)], &[], 1).is_err());
    assert!(SummaryTree::new(1, vec![(1, vec![5], None)], &[], 1).is_err());
}
