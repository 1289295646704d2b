//! What the draws say: the tree that stands for them, how sure it is, and how probable new rows are.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::components::Kernel;
use super::draws::Draw;
use super::point::{CoOccurrence, Loss, Support, canonical, search};
use super::predict::Frame;
use super::program::TreeSampler;
use super::{NAME, Schema};
use crate::answer::{
    Answers, ColumnKind, Dim, Fact, Figure, HeldOut, HeldOutEffort, NamedArray, Origin, Posterior, RowDensity, Summary, SummaryTable,
    check_new_rows,
};
use crate::data::{Dataset, Needs};
use crate::diagnostics::{by_chain, convergence, summarise};
use crate::run::{Piece, saved_global, state};
use crate::special::log_sum_exp;
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("tree posterior", &["0.1"]);

/// Draws, and the tree that stands for them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TreePosterior {
    pub(super) schema: Schema,
    kernel: Kernel,
    draws: Vec<Draw>,
    /// Draws of each chain.
    lengths: Vec<usize>,
    /// Nodes of the point tree on each row's path, row by row one for each level.
    labels: Vec<usize>,
    /// Whether they are those of the best draw, where there are too many rows to compare all pairs.
    best_draw: bool,
    /// Level, rows, cohesion, separation and support of each node; nothing for the best draw.
    nodes: Vec<(usize, usize, [f64; 3])>,
    said: Vec<String>,
}

impl TreePosterior {
    pub(super) fn new(schema: &Schema, chains: &[Piece]) -> Result<Self> {
        let first = chains.first().ok_or_else(|| Error::Unfit("there are no chains to read".into()))?;
        let chain = saved_global::<TreeSampler>(&first.checkpoint)?;
        let scores = chain.features.as_ref().map_or(0, |features| features.width());
        let (mut draws, mut lengths) = (vec![], vec![]);
        for piece in chains {
            let own = Draw::read(piece, chain.kernel.parameters(), scores)?;
            lengths.push(own.len());
            draws.extend(own);
        }
        if draws.is_empty() {
            return Err(Error::Unfit("there are no draws yet: let the run go on".into()));
        }
        let levels = draws[0].concentrations.alpha.len();
        let labels: Vec<Vec<usize>> = draws.iter().map(|draw| draw.labels().into_iter().map(|z| z as usize).collect()).collect();
        let (labels, nodes, best_draw) = if CoOccurrence::fits(schema.rows, levels) {
            let mut together = CoOccurrence::new(schema.rows, levels)?;
            labels.iter().for_each(|labels| together.add(labels));
            let tree = search(&together, Loss::Vi, labels.iter().map(Vec::as_slice));
            let mut support = Support::new(&tree.labels, levels);
            labels.iter().for_each(|labels| support.add(labels));
            let nodes = support.finish(&together).into_iter();
            let nodes = nodes.map(|(level, rows, c)| (level, rows.len(), [c.cohesion, c.separation, c.support])).collect();
            (tree.labels, nodes, false)
        } else {
            let best = (0..draws.len()).fold(0, |best, i| if draws[i].figures.charged > draws[best].figures.charged { i } else { best });
            (canonical(&labels[best], levels), vec![], true)
        };
        Ok(Self { schema: schema.clone(), kernel: chain.kernel, draws, lengths, labels, best_draw, nodes, said: chain.said })
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        self.draws[0].concentrations.alpha.len()
    }

    /// Nodes of the tree that stands for all draws on each row's path: row by row, one for each level.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// Nodes of the point tree with their credibility.
    fn table(&self) -> SummaryTable {
        use ColumnKind::{Count, Share};
        let headings = [("level", Count), ("rows", Count), ("cohesion", Share), ("separation", Share), ("support", Share)];
        let mut table = SummaryTable::new("nodes", headings);
        for (i, (level, rows, c)) in self.nodes.iter().enumerate() {
            table.rows.push((format!("node{}", i + 1), vec![*level as f64, *rows as f64, c[0], c[1], c[2]]));
        }
        table
    }

    /// A figure of every draw.
    fn each(&self, f: impl Fn(&Draw) -> f64) -> Vec<f64> {
        self.draws.iter().map(f).collect()
    }

    fn check(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        let missing = self.kernel.admits_missing();
        check_new_rows(data, self.schema.width, &self.schema.columns, Needs { missing, ..Needs::FEATURES })?;
        let cells = data.x.to_dense();
        for (i, row) in cells.chunks_exact(self.schema.width).enumerate() {
            self.kernel.check_row(row, i, &self.schema.names())?;
        }
        Ok(cells)
    }
}

impl RowDensity for TreePosterior {
    fn counts(&self) -> bool {
        !self.kernel.family().is_gaussian()
    }

    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        effort.check()?;
        let cells = self.check(data)?;
        let most = effort.draws.min(self.draws.len());
        let chosen: Vec<&Draw> = (0..most).map(|i| &self.draws[i * self.draws.len() / most]).collect();
        let of_draw = |draw: &&Draw| {
            let frame = Frame::new(draw, &self.kernel);
            cells.chunks_exact(self.schema.width).map(|row| vec![log_sum_exp(&frame.ln_weights(row, None))]).collect()
        };
        let weights: Vec<Vec<Vec<f64>>> = chosen.par_iter().map(of_draw).collect();
        Ok(HeldOut::of_weights(&weights, &vec![0.0; data.rows()]))
    }
}

impl Posterior for TreePosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.width, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { density: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let fact = |name: &str, value: Figure| Fact { name: name.into(), value, remark: String::new() };
        let level = |l: usize| self.each(move |draw| draw.level.iter().filter(|&&level| level as usize == l).count() as f64);
        let mut facts = vec![
            fact("rows", Figure::Count(self.schema.rows as u64)),
            fact("draws", Figure::Count(self.draws.len() as u64)),
            fact("components", Figure::estimate(&self.each(|draw| draw.atoms as f64))),
        ];
        facts.extend((1..=self.depth()).map(|l| fact(&format!("nodes, level {l}"), Figure::estimate(&level(l)))));
        facts.push(fact("log likelihood", Figure::estimate(&self.each(|draw| draw.figures.complete))));
        let judged: Vec<(String, Vec<f64>)> = [
            ("log joint".to_string(), self.each(|draw| draw.figures.charged)),
            ("components".to_string(), self.each(|draw| draw.atoms as f64)),
        ]
        .into_iter()
        .chain((1..=self.depth()).map(|l| (format!("nodes, level {l}"), level(l))))
        .collect();
        let summaries: Vec<_> = judged.iter().map(|(name, values)| (name.as_str(), summarise(&by_chain(values, &self.lengths)))).collect();
        let verdict = convergence(summaries.iter().map(|(name, summary)| (*name, summary)), self.lengths.len());
        let mut notes = verdict.sentences;
        if self.best_draw {
            notes.push("there are too many rows to compare all pairs: the tree is that of the best draw".to_string());
        }
        let tables = if self.nodes.is_empty() { vec![] } else { vec![self.table()] };
        Summary { facts, tables, converged: verdict.converged, warnings: self.said.clone(), notes }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (rows, depth) = (self.schema.rows, self.depth());
        let draws = || Dim::counted("draw", self.draws.len());
        let per_row = |of: &dyn Fn(&Draw) -> Vec<u32>| self.draws.iter().flat_map(of).map(f64::from).collect::<Vec<f64>>();
        vec![
            NamedArray {
                name: "labels",
                dims: vec![Dim::counted("row", rows), Dim::counted("level", depth)],
                values: self.labels.iter().map(|&z| z as f64).collect(),
            },
            NamedArray {
                name: "labels_draws",
                dims: vec![draws(), Dim::counted("row", rows), Dim::counted("level", depth)],
                values: per_row(&|draw| draw.labels()),
            },
            NamedArray {
                name: "component_draws",
                dims: vec![draws(), Dim::counted("row", rows)],
                values: per_row(&|draw| draw.atom.clone()),
            },
            NamedArray { name: "log_likelihood_draws", dims: vec![draws()], values: self.each(|draw| draw.figures.complete) },
            NamedArray { name: "violation_draws", dims: vec![draws()], values: self.each(|draw| draw.figures.violation) },
            NamedArray {
                name: "chain_lengths",
                dims: vec![Dim::counted("chain", self.lengths.len())],
                values: self.lengths.iter().map(|&n| n as f64).collect(),
            },
        ]
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
