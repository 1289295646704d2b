//! Cluster tree: rows grouped into a tree of fixed depth and unknown width, by a mixture whose components all nodes share.
//!
//! Each row walks down a nested Chinese restaurant from the root (level 0) to a leaf (level `L`); each node has weights over one common
//! set of components, those of a child drawn around those of its parent (a multilevel hierarchical Dirichlet process); a row takes a
//! component by the weights of its leaf. With a separation `C > 0` a large-margin term pulls siblings apart.

mod arena;
mod check;
pub(crate) mod components;
mod draw;
pub(crate) mod draws;
pub(crate) mod export;
mod generate;
pub(crate) mod margin;
pub(crate) mod point;
mod posterior;
pub(crate) mod predict;
pub(crate) mod program;
mod report;
mod sampler;
mod settings;
mod state;

pub use arena::Arena;
pub use posterior::TreePosterior;
pub use settings::{
    ComponentKind, PathMoveKind, PenaltyKind, SamplerKind, ScoreUpdateKind, Settings, TargetKind, ThetaKind,
};

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct TreeModel {
    settings: Settings,
}

impl TreeModel {
    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
