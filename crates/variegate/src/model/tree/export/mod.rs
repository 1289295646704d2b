//! A tree to look at: its nodes with rows, weights and credibility, and how they are written down.
//!
//! Rows are the tips. Heights are those of levels: a row lies at 0, a node of level l at `L + 1 - l`, so rows of one leaf meet at 1 and all
//! rows at `L + 1` in the root. `text.rs` writes Newick, JSON and DOT, `drawing.rs` an SVG; [`SummaryTree::linkage`] is SciPy's form.

mod drawing;
mod text;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::point::Credibility;
use crate::data::DataError;
use crate::{Error, Result};

/// A node of a tree that is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryNode {
    /// Its number; the root is 0, parents come before children.
    pub(crate) id: usize,
    /// Number of the node above; none above the root.
    pub(crate) parent: Option<usize>,
    /// 0 for the root.
    pub(crate) level: usize,
    /// Rows below, ascending.
    pub(crate) rows: Vec<usize>,
    /// Weights of components; empty where they are not told.
    pub(crate) weights: Vec<f64>,
    /// What the draws think of it; none of the root.
    pub(crate) credibility: Option<Credibility>,
}

/// A tree that is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryTree {
    /// Levels below the root.
    pub(crate) levels: usize,
    /// Names of the rows.
    pub(crate) names: Vec<String>,
    /// Nodes, level by level and in a level by their first rows.
    pub(crate) nodes: Vec<SummaryNode>,
}

impl SummaryTree {
    /// From the nodes below the root: level from 1, rows, credibility (as the point tree tells them). The names are those of the rows; if
    /// there are none, rows are numbered from 1.
    pub(crate) fn new(levels: usize, below: Vec<(usize, Vec<usize>, Option<Credibility>)>, names: &[String], rows: usize) -> Result<Self> {
        if rows == 0 {
            return Err(DataError::NoRows.into());
        }
        if !names.is_empty() && names.len() != rows {
            return Err(DataError::Length { what: "names of rows", rows, found: names.len() }.into());
        }
        let names = if names.is_empty() { (1..=rows).map(|n| n.to_string()).collect() } else { names.to_vec() };
        let root = SummaryNode { id: 0, parent: None, level: 0, rows: (0..rows).collect(), weights: vec![], credibility: None };
        let mut nodes = vec![root];
        // the node of each row one level up
        let mut of = vec![vec![0; rows]; levels + 1];
        for (level, own, credibility) in below {
            let valid = (1..=levels).contains(&level) && own.iter().all(|&i| i < rows) && !own.is_empty();
            if !valid {
                return Err(Error::Unfit(format!(
                    "a node of level {level} with rows {own:?} is not part of a tree of {levels} levels and {rows} rows"
                )));
            }
            let id = nodes.len();
            own.iter().for_each(|&i| of[level][i] = id);
            let parent = Some(of[level - 1][own[0]]);
            nodes.push(SummaryNode { id, parent, level, rows: own, weights: vec![], credibility });
        }
        Ok(Self { levels, names, nodes })
    }

    /// The same with every node that has no sibling merged into the node above: what is left are real choices.
    pub(crate) fn presented(&self) -> Self {
        let mut children = vec![0; self.nodes.len()];
        self.nodes.iter().filter_map(|n| n.parent).for_each(|p| children[p] += 1);
        let mut new_id = vec![0; self.nodes.len()];
        let mut nodes: Vec<SummaryNode> = Vec::new();
        for node in &self.nodes {
            match node.parent {
                Some(p) if children[p] == 1 => new_id[node.id] = new_id[p],
                parent => {
                    new_id[node.id] = nodes.len();
                    nodes.push(SummaryNode { id: nodes.len(), parent: parent.map(|p| new_id[p]), ..node.clone() });
                }
            }
        }
        Self { levels: self.levels, names: self.names.clone(), nodes }
    }

    /// Height of a node; rows are at 0.
    pub(crate) fn height(&self, id: usize) -> usize {
        self.levels + 1 - self.nodes[id].level
    }

    /// Nodes below each node.
    fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for node in &self.nodes {
            node.parent.into_iter().for_each(|p| children[p].push(node.id));
        }
        children
    }

    /// SciPy's linkage: N - 1 rows of two clusters, the height at which they meet, and how many rows they have together. Nodes of more
    /// than two parts are merged one part after the other at the same height.
    pub(crate) fn linkage(&self) -> Vec<[f64; 4]> {
        let (children, n) = (self.children(), self.names.len());
        let mut found: Vec<[f64; 4]> = Vec::with_capacity(n.saturating_sub(1));
        let mut cluster = vec![0; self.nodes.len()];
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&id| std::cmp::Reverse(self.nodes[id].level)); // low nodes first; stable
        for id in order {
            let node = &self.nodes[id];
            let parts: Vec<(usize, usize)> = match children[id].is_empty() {
                true => node.rows.iter().map(|&i| (i, 1)).collect(),
                false => children[id].iter().map(|&c| (cluster[c], self.nodes[c].rows.len())).collect(),
            };
            let (mut so_far, mut size) = parts[0];
            for &(part, rows) in &parts[1..] {
                size += rows;
                found.push([so_far.min(part) as f64, so_far.max(part) as f64, self.height(id) as f64, size as f64]);
                so_far = n + found.len() - 1;
            }
            cluster[id] = so_far;
        }
        found
    }
}
