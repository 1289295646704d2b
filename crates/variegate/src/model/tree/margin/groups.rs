//! Groups of siblings with the rows below their parent: scores `s_zn = eta_z' phi_n` and the largest violation of each row at each level.

use super::super::arena::{Arena, NONE};
use super::{Margin, Penalty, Phi};
use crate::linalg::dot;

/// Two siblings or more, and the rows below them.
pub(super) struct Group {
    /// Level of the siblings, from 0 below the root.
    pub(super) level: usize,
    /// By their smallest rows.
    pub(super) nodes: Vec<u32>,
    pub(super) rows: Vec<usize>,
    /// Which of the siblings each row is in.
    pub(super) own: Vec<usize>,
    /// Siblings by rows.
    pub(super) scores: Vec<f64>,
}

impl Group {
    /// The violation of a row against a sibling.
    #[inline]
    fn rho(&self, scores: &[f64], margin: f64, r: usize, sibling: usize) -> f64 {
        let n = self.rows.len();
        margin - scores[self.own[r] * n + r] + scores[sibling * n + r]
    }

    /// The siblings that a row is not in.
    pub(super) fn others(&self, r: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(move |&z| z != self.own[r])
    }

    /// What a row is charged for at this level, with these scores: the largest violation (of any sign), or the sum of the positive ones.
    pub(super) fn violation(&self, margin: &Margin, scores: &[f64], r: usize) -> f64 {
        let rho = self.others(r).map(|z| self.rho(scores, margin.margin, r, z));
        match margin.penalty {
            Penalty::Max => rho.fold(f64::NEG_INFINITY, f64::max),
            Penalty::Sum => rho.map(|v| v.max(0.0)).sum(),
        }
    }
}

/// All groups of a tree.
pub(super) struct Groups<'a> {
    pub(super) margin: Margin,
    pub(super) phi: Phi<'a>,
    pub(super) levels: usize,
    pub(super) groups: Vec<Group>,
    /// Violation of each row at each level: -inf (or 0 of a sum) without siblings.
    pub(super) worst: Vec<f64>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(margin: Margin, arena: &Arena, leaves: &[u32], phi: Phi<'a>, eta: &[f64]) -> Self {
        let levels = arena.depth();
        let order = arena.by_first_row(leaves);
        let mut group_of = vec![usize::MAX; arena.slots()];
        let mut place = vec![0; arena.slots()];
        let mut groups: Vec<Group> = Vec::new();
        // by level, then by smallest rows: never by the numbers of nodes, which remember past trees
        for (level, nodes) in order.iter().enumerate().skip(1) {
            for &node in nodes {
                let parent = arena.parent(node);
                if arena.n_children(parent) < 2 {
                    continue;
                }
                if group_of[parent as usize] == usize::MAX {
                    group_of[parent as usize] = groups.len();
                    groups.push(Group { level: level - 1, nodes: vec![], rows: vec![], own: vec![], scores: vec![] });
                }
                let group = &mut groups[group_of[parent as usize]];
                place[node as usize] = group.nodes.len();
                group.nodes.push(node);
            }
        }
        for (n, &leaf) in leaves.iter().enumerate().filter(|(_, leaf)| **leaf != NONE) {
            let mut node = leaf;
            for _ in 0..levels {
                let parent = arena.parent(node);
                if let Some(group) = groups.get_mut(group_of[parent as usize]) {
                    group.rows.push(n);
                    group.own.push(place[node as usize]);
                }
                node = parent;
            }
        }
        let nothing = if margin.penalty == Penalty::Max { f64::NEG_INFINITY } else { 0.0 };
        let mut all = Self { margin, phi, levels, groups, worst: vec![nothing; leaves.len() * levels] };
        (0..all.groups.len()).for_each(|g| all.rescore(g, eta));
        all
    }

    /// Scores and violations of a group after its eta changed.
    pub(super) fn rescore(&mut self, g: usize, eta: &[f64]) {
        let (phi, group) = (self.phi, &mut self.groups[g]);
        group.scores.clear();
        for &node in &group.nodes {
            let own = &eta[node as usize * phi.width..][..phi.width];
            group.scores.extend(group.rows.iter().map(|&n| dot(own, phi.row(n))));
        }
        self.revalue(g);
    }

    /// Violations of a group after its scores changed.
    pub(super) fn revalue(&mut self, g: usize) {
        let group = &self.groups[g];
        for (r, &n) in group.rows.iter().enumerate() {
            self.worst[n * self.levels + group.level] = group.violation(&self.margin, &group.scores, r);
        }
    }

    /// What a row is charged for at the other levels.
    pub(super) fn elsewhere(&self, n: usize, level: usize) -> f64 {
        let others = (0..self.levels).filter(|&l| l != level).map(|l| self.worst[n * self.levels + l]);
        match self.margin.penalty {
            Penalty::Max => others.fold(0.0, f64::max),
            Penalty::Sum => 0.0, // of no concern to this level
        }
    }

    /// xi of a row: what it is charged for.
    pub(super) fn charged(&self, n: usize) -> f64 {
        let levels = &self.worst[n * self.levels..(n + 1) * self.levels];
        match self.margin.penalty {
            Penalty::Max => levels.iter().fold(0.0, |a, b| f64::max(a, *b)),
            Penalty::Sum => levels.iter().sum(),
        }
    }
}
