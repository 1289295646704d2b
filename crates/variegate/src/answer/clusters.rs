//! Trees of rows: which rows belong together at which level, how sure that is, and where new rows go.

use std::str::FromStr;

use crate::data::{DataError, Dataset};
use crate::model::tree::export::SummaryTree;
use crate::{Error, Result};

/// A posterior that groups the rows of its fit into a tree.
pub trait ClusterRows {
    /// Levels below the root.
    fn levels(&self) -> usize;
    /// Rows of the fit.
    fn rows(&self) -> usize;
    /// One tree for all draws, or the best of them.
    fn tree(&self, which: WhichTree) -> Result<ClusterTree>;
    /// Probability that two rows of the fit share their node of a level (from 1), for all pairs (n×n, row-major).
    fn co_occurrence(&self, level: usize) -> Result<Vec<f64>>;
    /// Where new rows go in a tree.
    fn place(&self, data: &Dataset<'_>, which: WhichTree) -> Result<PlacedRows>;
    /// Node of each row of the fit at each level, row by row, in at most so many draws, evenly spaced.
    fn sampled(&self, most: usize) -> Vec<Vec<u32>>;
    /// Rows as numbers whose distances mean something, and how many there are of each row: codes are indicators, missing cells the means of
    /// their columns.
    fn numbers(&self, data: &Dataset<'_>) -> Result<(Vec<f64>, usize)>;
}

/// Which tree stands for a posterior.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhichTree {
    /// The one of least expected variation of information.
    #[default]
    Point,
    /// The one of least expected Binder loss, which tends to be flat.
    Binder,
    /// The draw of largest complete-data likelihood.
    Best,
}

impl WhichTree {
    /// The words for them; the first is the default.
    pub const WORDS: &'static [&'static str] = &["point", "binder", "best"];
}

impl FromStr for WhichTree {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match super::choose_word("tree", word, Self::WORDS)? {
            "binder" => Self::Binder,
            "best" => Self::Best,
            _ => Self::Point,
        })
    }
}

/// A tree over the rows of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterTree {
    pub(crate) shown: SummaryTree,
    /// Names of the components that the weights of nodes are of.
    pub components: Vec<String>,
    /// The expected loss it was chosen by; nothing for a draw.
    pub loss: Option<f64>,
}

/// A node of a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterNode<'a> {
    /// Its number; the root is 0, and parents come before children.
    pub id: usize,
    /// Number of the node above; none above the root.
    pub parent: Option<usize>,
    /// 0 for the root.
    pub level: usize,
    /// Rows of the fit below it, ascending.
    pub rows: &'a [usize],
    /// Expected share of each component among its rows.
    pub weights: &'a [f64],
    /// Cohesion, separation and support, where they are known.
    pub credibility: Option<[f64; 3]>,
}

impl ClusterTree {
    /// The words for what a tree can be written as.
    pub const FORMATS: &'static [&'static str] = &["newick", "json", "dot", "svg"];

    /// Levels below the root.
    pub fn levels(&self) -> usize {
        self.shown.levels
    }

    /// All nodes, level by level and in a level by their first rows.
    pub fn nodes(&self) -> impl Iterator<Item = ClusterNode<'_>> {
        self.shown.nodes.iter().map(|n| ClusterNode {
            id: n.id,
            parent: n.parent,
            level: n.level,
            rows: &n.rows,
            weights: &n.weights,
            credibility: n.credibility.map(|c| [c.cohesion, c.separation, c.support]),
        })
    }

    /// Names of the rows; numbers from 1 where they were not given any.
    pub fn names(&self) -> &[String] {
        &self.shown.names
    }

    /// The same tree with names of the rows.
    pub fn named(mut self, names: Vec<String>) -> Result<Self> {
        let rows = self.shown.names.len();
        if names.len() != rows {
            return Err(DataError::Length { what: "names of rows", rows, found: names.len() }.into());
        }
        self.shown.names = names;
        Ok(self)
    }

    /// The same tree with every node that has no sibling merged into the node above. Nodes have other numbers then.
    pub fn merged(mut self) -> Self {
        self.shown = self.shown.presented();
        self
    }

    /// Number of the node of each row at each level, row by row. A tree whose nodes were merged has none.
    pub fn labels(&self) -> Vec<u32> {
        let levels = self.levels();
        let mut labels = vec![0; self.shown.names.len() * levels];
        for node in self.shown.nodes.iter().filter(|n| n.level > 0) {
            node.rows.iter().for_each(|i| labels[i * levels + node.level - 1] = node.id as u32);
        }
        labels
    }

    /// As text in one of [`Self::FORMATS`]; an empty word is the first of them.
    pub fn written(&self, format: &str) -> Result<String> {
        Ok(match super::choose_word("format", format, Self::FORMATS)? {
            "json" => {
                let mut value = self.shown.json();
                value["components"] = self.components.clone().into();
                value["loss"] = self.loss.into();
                format!("{value:#}\n")
            }
            "dot" => self.shown.dot(),
            "svg" => self.shown.svg(),
            _ => self.shown.newick() + "\n",
        })
    }

    /// As SciPy's linkage: for each merger two clusters, the height at which they meet, and how many rows they have together.
    pub fn linkage(&self) -> Vec<[f64; 4]> {
        self.shown.linkage()
    }
}

/// Where rows go in a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRows {
    /// Levels of the tree below its root.
    pub levels: usize,
    /// Nodes of the tree, the root among them.
    pub nodes: usize,
    /// The lowest node of the tree on the path of each row: a leaf, or one below which the row opens a new branch.
    pub place: Vec<usize>,
    /// Node of each row at each level, row by row; none where the row opens a new one.
    pub path: Vec<Option<usize>>,
    /// Probability that each row passes through each node, row by row.
    pub through: Vec<f64>,
    /// Probability that the node of the row at each level is none of the fit's, row by row.
    pub new: Vec<f64>,
    /// Cells whose codes the fit did not know: they count as missing.
    pub unknown: usize,
}

impl PlacedRows {
    /// Probability of the node of a row at a level (from 1): of that node, or of any new one.
    pub fn probability(&self, row: usize, level: usize) -> f64 {
        match self.path[row * self.levels + level - 1] {
            Some(node) => self.through[row * self.nodes + node],
            None => self.new[row * self.levels + level - 1],
        }
    }
}
