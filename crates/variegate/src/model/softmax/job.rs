//! What a chain does, and where it stands between two sweeps.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::criterion::Scores;
use super::factors::Factors;
use super::layout::NodeLayout;
use super::node::Moments;
use super::pass::ask::{AtQ, TreeStats, View};
use super::program::Vb;
use super::tree::{Structure, Tree};
use crate::data::split::Fold;

/// Iterations of the search for a start.
pub(crate) const SEARCH_ITERATIONS: usize = 500;
/// Where a search begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Start {
    /// All weights zero: enough where there is one maximum.
    Zero,
    /// Standard normal weights, by number.
    Random(u32),
    /// Clusters of rows, by number.
    Clusters(u32),
    /// These parameters.
    At(Vec<f64>),
}

/// How an ascent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    /// Still rising.
    Running,
    /// The last sweep gained less than the tolerance.
    Converged,
    /// No step, however short, gains anything: as high as rounding allows.
    NoStepLeft,
    /// The bound was not finite after a step; the state before it is kept.
    Numerical,
    /// Further sweeps predict held-out rows worse.
    HeldOut,
}

/// What a chain does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The structure of the tree.
    pub(crate) structure: Structure,
    /// What the result is for.
    pub(crate) role: Role,
    /// Number of steps of a search that led to it.
    pub(crate) generation: u32,
    /// Where it begins.
    pub(crate) start: Start,
    /// Iterations of a search for the maximum of the likelihood; 0 for none.
    pub(crate) search: usize,
    /// Most sweeps of the ascent; 0 for none.
    pub(crate) ascent: u64,
    /// Rows it does without.
    pub(crate) fold: Option<Fold>,
    /// Whether criteria that need the rows are computed at its end.
    pub(crate) score: bool,
}

/// What the result of a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// One of several starts; the best go on.
    Start,
    /// The fit of a structure.
    Fit,
    /// A short try of a structure next to that of another chain.
    Trial {
        /// That chain.
        parent: u32,
    },
}

/// A maximum of the likelihood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Maximum {
    /// The parameters, as `map.rs` lays them out.
    pub(crate) at: Vec<f64>,
    /// Penalised log likelihood.
    pub(crate) value: f64,
}

/// State between two sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// What the chain does.
    pub(crate) job: Job,
    /// The tree of its structure.
    pub(crate) tree: Tree,
    /// The maximum its ascent began at, once it was searched for.
    pub(crate) maximum: Option<Maximum>,
    /// Basis of low-rank covariances.
    pub(crate) basis: Vec<f64>,
    /// Curvature of Böhning's bound at the root, the same in every sweep.
    pub(crate) root_curvature: Vec<f64>,
    /// q, once the ascent has begun.
    pub(crate) q: Option<Factors>,
    /// What the rows say of this q.
    pub(crate) stats: TreeStats,
    /// L of this q, or the penalised log likelihood before there is one.
    pub(crate) bound: f64,
    /// Length of the last step.
    pub(crate) step: f64,
    /// Sweeps of the ascent so far.
    pub(crate) ascents: u64,
    /// Inverse temperature.
    pub(crate) beta: f64,
    /// Sweeps since it was last raised.
    pub(crate) stage: u32,
    /// How the ascent stands.
    pub(crate) standing: Standing,
    /// Names the random numbers of scores and predictions that sample.
    pub(crate) key: u64,
    /// The criteria, once the job is done.
    pub(crate) scores: Option<Scores>,
}

impl State {
    /// A chain that has its job still before it.
    pub(crate) fn new(program: &Vb, job: Job) -> Self {
        let tree = job.structure.tree(program.outcome, program.binary);
        Self {
            job,
            tree,
            maximum: None,
            basis: Vec::new(),
            root_curvature: Vec::new(),
            q: None,
            stats: TreeStats::default(),
            bound: f64::NEG_INFINITY,
            step: 1.0,
            ascents: 0,
            beta: 1.0,
            stage: 0,
            standing: Standing::Running,
            key: 0,
            scores: None,
        }
    }

    /// Its tree with a q, as rows are asked about it.
    pub(crate) fn at<'a>(&'a self, view: View<'a>) -> AtQ<'a> {
        AtQ { tree: Cow::Borrowed(&self.tree), view }
    }

    /// Σ_n ¼(S−1) x̃ᵀP⁻¹x̃ of Böhning's bound at the root, which all rows reach; 0 for nodes whose rows report it.
    pub(crate) fn root_term(&self, layout: &NodeLayout, moments: &Moments) -> f64 {
        if layout.forms > 0 {
            return 0.0;
        }
        let curved: f64 = moments.forms.iter().zip(&self.root_curvature).map(|(f, c)| f * c).sum();
        0.5 * layout.units as f64 * curved
    }

    /// Whether the job is done.
    pub(crate) fn done(&self) -> bool {
        self.standing != Standing::Running || (self.job.ascent > 0 && self.ascents >= self.job.ascent)
    }

    /// Parameters of its fit, as `map.rs` lays them out: means of q, or the maximum it stopped at.
    pub(crate) fn parameters(&self, program: &Vb) -> Vec<f64> {
        match (&self.q, &self.maximum) {
            (Some(q), _) => {
                let mut at: Vec<f64> = q.nodes.iter().flat_map(|n| &n.mean).chain(q.leaves.iter().flat_map(|l| &l.mean)).copied().collect();
                at.extend(q.leaves.iter().flat_map(|l| (0..l.rates.len()).map(|i| l.noise_precision(i).ln())));
                at
            }
            (None, Some(maximum)) => maximum.at.clone(),
            (None, None) => vec![0.0; program.layout(&self.tree).parameters()],
        }
    }
}
