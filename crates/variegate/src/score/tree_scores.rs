//! Scores of a fitted tree over its own rows: of the tree that stands for the posterior, and on average over draws.

use super::trees::{NodeDistances, dendrogram_purity, level_f_measures, node_distances};
use crate::Result;
use crate::answer::{ClusterRows, WhichTree};
use crate::data::{DataError, Dataset};

/// Draws that are scored, at most, evenly spaced.
const MOST_DRAWS: usize = 1000;

/// A score of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeScore {
    /// Its name for machines: `nodes_1`, `aid`, `aid_zero`, `aid_ratio`, `aod`, `aod_ratio`, `f_1`, `purity`.
    pub name: String,
    /// Of the tree that stands for all draws; NaN where it is not defined.
    pub tree: f64,
    /// Mean over the draws in which it is defined; NaN where it is in none.
    pub mean: f64,
    /// Share of the draws in which it is defined.
    pub defined: f64,
}

/// Scores of the tree of a fit and of its draws. Distances need the rows of the fit, F-measures and purity their classes, which need not all be
/// known.
pub fn tree_scores(
    clusters: &dyn ClusterRows,
    which: WhichTree,
    data: Option<&Dataset<'_>>,
    classes: Option<&[Option<u32>]>,
) -> Result<Vec<TreeScore>> {
    let (rows, levels) = (clusters.rows(), clusters.levels());
    for (what, found) in [("rows of the fit", data.map(|d| d.rows())), ("classes", classes.map(<[_]>::len))] {
        if let Some(found) = found.filter(|found| *found != rows) {
            return Err(DataError::Length { what, rows, found }.into());
        }
    }
    let numbers = data.map(|data| clusters.numbers(data)).transpose()?;
    let figures = |labels: &[u32]| figures(labels, levels, numbers.as_ref().map(|n| (n.0.as_slice(), n.1)), classes);
    let tree = figures(&clusters.tree(which)?.labels());
    let draws: Vec<Vec<(String, f64)>> = clusters.sampled(MOST_DRAWS).iter().map(|labels| figures(labels)).collect();
    let score = |(i, (name, tree)): (usize, (String, f64))| {
        let there: Vec<f64> = draws.iter().map(|d| d[i].1).filter(|v| !v.is_nan()).collect();
        let count = there.len() as f64;
        TreeScore { name, tree, mean: there.iter().sum::<f64>() / count, defined: count / draws.len() as f64 }
    };
    Ok(tree.into_iter().enumerate().map(score).collect())
}

/// How well a tree of other rows keeps their classes together, by the paths they were put on: F-measure of each level, then purity.
pub fn path_scores(labels: &[u32], levels: usize, classes: &[Option<u32>]) -> Vec<(String, f64)> {
    figures(labels, levels, None, Some(classes)).split_off(levels)
}

fn figures(labels: &[u32], levels: usize, numbers: Option<(&[f64], usize)>, classes: Option<&[Option<u32>]>) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for level in 0..levels {
        let nodes: std::collections::HashSet<&[u32]> = labels.chunks_exact(levels).map(|path| &path[..=level]).collect();
        all.push((format!("nodes_{}", level + 1), nodes.len() as f64));
    }
    if let Some((x, columns)) = numbers {
        let NodeDistances { inner, inner_zero, inner_ratio, outer, outer_ratio } = node_distances(labels, levels, x, columns);
        let named = [("aid", inner), ("aid_zero", inner_zero), ("aid_ratio", inner_ratio), ("aod", outer), ("aod_ratio", outer_ratio)];
        all.extend(named.map(|(name, value)| (name.to_string(), value)));
    }
    if let Some(classes) = classes {
        let f = level_f_measures(labels, levels, classes).into_iter().enumerate();
        all.extend(f.map(|(l, value)| (format!("f_{}", l + 1), value)));
        all.push(("purity".into(), dendrogram_purity(labels, levels, classes)));
    }
    all
}
