//! Moves that change the number of components. Each is taken only if it raises the bound, which is exact from sums: none ever lowers it.
//!
//! `split.rs` makes two components of one, `merge.rs` one of two. Here is when they are tried: once the ascent is slow, first merges of
//! pairs that look alike, then splits of one component after the other, largest first. What has been tried in vain is not tried again until
//! something changes there.

mod merge;
mod split;

pub(crate) use merge::{Merged, Pair};
pub(crate) use split::{Restricted, seeds};

use serde::{Deserialize, Serialize};

use super::mixture::{Mixture, Scratch, Sums, entropy_of};
use super::settings::MoveKind;
use crate::Result;
use crate::data::Block;
use crate::model::gathered::Gathered;

/// A sweep that gains less than so many times the tolerance is slow.
pub(crate) const SLOW: f64 = 10.0;
/// A split must gain more than this share of the bound.
pub(crate) const LEAST_GAIN: f64 = 1e-6;
/// A row with a larger share of a component is one of its members, among which a split looks for seeds.
const MEMBER: f64 = 0.1;
/// Members that are gathered for seeds.
const MOST_MEMBERS: usize = 500;
/// A component with fewer rows is not split.
const LEAST_ROWS: f64 = 2.0;
/// Splits of a component that may fail before it is left alone.
const TRIES: u32 = 2;

/// The move that a sweep tries beside its ascent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Plan {
    /// None.
    #[default]
    Nothing,
    /// To merge some of these pairs.
    Merge(Vec<(usize, usize)>),
    /// To split this component.
    Split(usize),
}

/// Which moves are left to be tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Splits of each component that may still fail.
    tries: Vec<u32>,
    /// Whether merges are worth a try.
    merge: bool,
    /// What the next sweep tries.
    pub(crate) next: Plan,
}

/// What a visit looks for beside the local step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Look {
    /// Pairs of components whose joint entropy is wanted.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// A component some of whose rows are wanted, and the key by which they are chosen.
    pub(crate) members: Option<(usize, u64)>,
}

impl Moves {
    /// Nothing has been tried of so many components.
    pub(crate) fn new(components: usize) -> Self {
        Self { tries: vec![TRIES; components], merge: true, next: Plan::Nothing }
    }

    /// Nothing is left to be tried of so many components.
    pub(crate) fn none(components: usize) -> Self {
        Self { tries: vec![0; components], merge: false, next: Plan::Nothing }
    }

    /// What to try next, of these sums.
    pub(crate) fn plan(&self, kind: MoveKind, most: usize, mixture: &Mixture, sums: &Sums) -> Result<Plan> {
        let components = sums.components();
        if kind == MoveKind::None {
            return Ok(Plan::Nothing);
        }
        if self.merge {
            let pairs = mixture.alike(sums)?;
            if !pairs.is_empty() {
                return Ok(Plan::Merge(pairs));
            }
        }
        let open = |&k: &usize| self.tries[k] > 0 && sums.counts.0[k] >= LEAST_ROWS;
        Ok(match (0..components).find(open) {
            Some(k) if kind == MoveKind::SplitMerge && components < most => Plan::Split(k),
            _ => Plan::Nothing,
        })
    }

    /// Component `order[k]` has become component k.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        self.tries = order.iter().map(|&k| self.tries[k]).collect();
    }

    /// Component k has not been split.
    pub(crate) fn split_failed(&mut self, k: usize) {
        self.tries[k] -= 1;
    }

    /// Component k has become k and one more, and then `order[k]` k.
    pub(crate) fn split(&mut self, k: usize, order: &[usize]) {
        self.tries[k] = TRIES;
        self.tries.push(TRIES);
        self.permute(order);
        self.merge = true;
    }

    /// These merges have been made, one after the other; where none was of those that look alike, none is worth a try again.
    pub(crate) fn merged(&mut self, merged: &[Merged], tried: bool) {
        for m in merged {
            self.tries[m.into] = TRIES;
            self.permute(&m.order);
        }
        self.merge = !merged.is_empty() || (self.merge && !tried);
    }
}

impl Mixture {
    /// Joint entropies −Σ_i (r_ij + r_il) ln(r_ij + r_il) of pairs, in the responsibilities of the last visit.
    pub(crate) fn joint_entropies(&self, pairs: &[(usize, usize)], components: usize, scratch: &Scratch) -> Vec<f64> {
        let mut joint = vec![0.0; pairs.len()];
        if !pairs.is_empty() {
            for r in scratch.r.chunks_exact(components) {
                joint.iter_mut().zip(pairs).for_each(|(h, &(j, l))| *h += entropy_of(r[j] + r[l]));
            }
        }
        joint
    }

    /// Some members of a component, in the responsibilities of the last visit.
    pub(crate) fn members(&self, k: usize, key: u64, components: usize, block: &Block<'_>, scratch: &mut Scratch) -> Gathered {
        let of_component = scratch.r.iter().skip(k).step_by(components).enumerate();
        let members: Vec<usize> = of_component.filter(|(_, r)| **r > MEMBER).map(|(i, _)| i).collect();
        self.gather_of(members.into_iter(), MOST_MEMBERS, key, block, scratch)
    }
}

/// Where each component went that an order has moved; `order[k]` became k.
pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(now, &before)| inverse[before] = now);
    inverse
}
