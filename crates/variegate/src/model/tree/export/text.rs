//! Newick, JSON and DOT.

use serde_json::{Map, Value, json};

use super::SummaryTree;
use crate::model::tree::point::Credibility;

/// Rows that a box of a graph names; more are counted.
const NAMED: usize = 6;

/// A number to two places, and `-` for none.
pub(super) fn short(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".into() }
}

/// A name in quotes, where Newick needs them.
fn quoted(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '-');
    // an underscore in an unquoted name would be read as a space
    if plain { name.into() } else { format!("'{}'", name.replace('\'', "''").replace(['\n', '\r', '\t'], " ")) }
}

impl SummaryTree {
    /// Newick with branch lengths; nodes are called n1, n2, .. and carry their support as a comment `[&support=..]`.
    pub(crate) fn newick(&self) -> String {
        let children = self.children();
        // nodes come before those below them, so parts are ready when the list is read backwards
        let mut parts = vec![String::new(); self.nodes.len()];
        for node in self.nodes.iter().rev() {
            let height = self.height(node.id);
            let own: Vec<String> = match children[node.id].is_empty() {
                true => node.rows.iter().map(|&i| format!("{}:{height}", quoted(&self.names[i]))).collect(),
                false => children[node.id].iter().map(|&c| format!("{}:{}", parts[c], height - self.height(c))).collect(),
            };
            let support = match &node.credibility {
                Some(c) if c.support.is_finite() => format!("[&support={:.4}]", c.support),
                _ => String::new(),
            };
            let name = if node.id == 0 { "root".into() } else { format!("n{}", node.id) };
            parts[node.id] = format!("({}){name}{support}", own.join(","));
        }
        format!("{};", parts[0])
    }

    /// All of it, numbers that do not exist as null.
    pub(crate) fn json(&self) -> Value {
        let number = |v: f64| if v.is_finite() { json!(v) } else { Value::Null };
        let node = |n: &super::SummaryNode| {
            let mut all = Map::new();
            all.insert("id".into(), json!(n.id));
            all.insert("parent".into(), json!(n.parent));
            all.insert("level".into(), json!(n.level));
            all.insert("rows".into(), json!(n.rows));
            all.insert("weights".into(), json!(n.weights));
            if let Some(Credibility { cohesion, separation, support }) = n.credibility {
                all.insert("cohesion".into(), number(cohesion));
                all.insert("separation".into(), number(separation));
                all.insert("support".into(), number(support));
            }
            Value::Object(all)
        };
        json!({ "levels": self.levels, "names": self.names, "nodes": self.nodes.iter().map(node).collect::<Vec<_>>() })
    }

    /// A graph for Graphviz: boxes with the number of rows, their names where there are few and nothing lies below, and credibility.
    pub(crate) fn dot(&self) -> String {
        let children = self.children();
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        let mut text = String::from("digraph tree {\n  rankdir=LR;\n  node [shape=box, fontname=\"Helvetica\"];\n");
        for node in &self.nodes {
            let n = node.rows.len();
            let mut label = if node.id == 0 { "root".into() } else { format!("n{}", node.id) };
            if children[node.id].is_empty() && n <= NAMED {
                let names: Vec<String> = node.rows.iter().map(|&i| escaped(&self.names[i])).collect();
                label += &format!("\\n{}", names.join(", "));
            } else {
                label += &format!("\\n{n} {}", if n == 1 { "row" } else { "rows" });
            }
            if let Some(c) = &node.credibility {
                label += &format!("\\nsupport {}", short(c.support));
            }
            text += &format!("  n{} [label=\"{label}\"];\n", node.id);
        }
        for (id, parent) in self.nodes.iter().filter_map(|n| Some((n.id, n.parent?))) {
            text += &format!("  n{parent} -> n{id};\n");
        }
        text + "}\n"
    }
}
