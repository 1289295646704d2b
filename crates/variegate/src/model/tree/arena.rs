//! The nodes of a tree: who lies below whom, and how many rows each holds.
//!
//! Only occupied nodes are seen: a node appears with its first row and vanishes with its last. The log prior of all paths `V` under the
//! nested Chinese restaurant is, with `a` the concentration of the level below `z`,
//! `log p(V) = sum_{z inner} [ lgamma(a) - lgamma(a + N_z) + sum_{y child of z} (log a + lgamma(N_y)) ]`.
//!
//! A node is a number; the root is 0. Numbers of vanished nodes are given again, so they say nothing of age, and lists kept here are in
//! no order that a sampler may use: scans go by [`Arena::by_first_row`].

use serde::{Deserialize, Serialize};

use crate::special::ln_gamma;

/// No node (no child, no sibling), or the leaf of a row that is not attached.
pub(super) const NONE: u32 = u32::MAX;

/// The root.
pub(super) const ROOT: u32 = 0;

/// The nodes of one tree of fixed depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arena {
    depth: usize,
    parent: Vec<u32>,
    level: Vec<u8>,
    rows: Vec<u32>,
    children: Vec<u32>,    // how many
    first_child: Vec<u32>, // the children of a node are a doubly linked list
    next_sibling: Vec<u32>,
    previous_sibling: Vec<u32>,
    place: Vec<u32>, // where in the list of its level
    levels: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl Arena {
    /// A root without rows, and leaves at level `depth >= 1`.
    pub(crate) fn new(depth: usize) -> Self {
        let mut arena = Self {
            depth,
            parent: vec![],
            level: vec![],
            rows: vec![],
            children: vec![],
            first_child: vec![],
            next_sibling: vec![],
            previous_sibling: vec![],
            place: vec![],
            levels: vec![vec![]; depth + 1],
            free: vec![],
        };
        arena.allocate(NONE, 0);
        arena.levels[0].push(ROOT);
        arena
    }

    /// The tree of labels, row by row one for each level 1..=L, and the leaf of each row. Rows with equal labels up to a level share
    /// its node: labels of deeper levels need not differ between parents.
    pub(crate) fn from_labels(depth: usize, labels: &[usize]) -> (Self, Vec<u32>) {
        let mut arena = Self::new(depth);
        let mut known = std::collections::HashMap::new();
        let mut leaves = Vec::with_capacity(labels.len() / depth);
        for row in labels.chunks_exact(depth) {
            let mut at = ROOT;
            for (i, &label) in row.iter().enumerate() {
                let next = *known.entry((at, label)).or_insert_with(|| arena.allocate(at, i as u8 + 1));
                at = next;
            }
            arena.attach(at);
            leaves.push(at);
        }
        (arena, leaves)
    }

    /// Level of the leaves.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// All numbers of nodes, seen or not, are below this.
    pub(crate) fn slots(&self) -> usize {
        self.parent.len()
    }

    /// The node above; [`NONE`] above the root.
    #[inline]
    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.parent[node as usize]
    }

    /// 0 for the root, [`Arena::depth`] for leaves.
    #[inline]
    pub(crate) fn level(&self, node: u32) -> usize {
        self.level[node as usize] as usize
    }

    /// Rows below.
    #[inline]
    pub(crate) fn rows(&self, node: u32) -> u32 {
        self.rows[node as usize]
    }

    /// Number of occupied children.
    #[inline]
    pub(crate) fn n_children(&self, node: u32) -> u32 {
        self.children[node as usize]
    }

    /// The occupied children.
    pub(crate) fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.first_child[node as usize];
        std::iter::from_fn(move || {
            let this = next;
            (this != NONE).then(|| {
                next = self.next_sibling[this as usize];
                this
            })
        })
    }

    /// The occupied nodes of a level; the root is there even without rows.
    #[inline]
    pub(crate) fn at_level(&self, level: usize) -> &[u32] {
        &self.levels[level]
    }

    /// All occupied nodes, parents before children.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().flatten().copied()
    }

    /// Number of occupied nodes, the root among them.
    pub(crate) fn len(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// The node of this level on the way from the root to `node`.
    #[inline]
    pub(crate) fn ancestor(&self, mut node: u32, level: usize) -> u32 {
        while self.level(node) > level {
            node = self.parent(node);
        }
        node
    }

    /// The nodes of levels 1..=L on the way to a leaf.
    pub(crate) fn path_into(&self, leaf: u32, path: &mut [u32]) {
        let mut at = leaf;
        for place in path[..self.depth].iter_mut().rev() {
            *place = at;
            at = self.parent(at);
        }
    }

    /// A chain of new nodes below `node` down to a leaf, which is returned. They stay unseen until a row is attached.
    pub(crate) fn branch(&mut self, node: u32) -> u32 {
        let mut at = node;
        for level in self.level(node)..self.depth {
            at = self.allocate(at, level as u8 + 1);
        }
        at
    }

    /// A new node below `node`, unseen until rows come below it.
    pub(crate) fn child(&mut self, node: u32) -> u32 {
        let level = self.level[node as usize] + 1;
        self.allocate(node, level)
    }

    /// One row more at a leaf.
    pub(crate) fn attach(&mut self, leaf: u32) {
        self.add_rows(leaf, 1);
    }

    /// One row less at a leaf. Nodes that lose their last row are no longer seen, but keep their numbers until [`Arena::release`];
    /// the highest of them is returned.
    pub(crate) fn detach(&mut self, leaf: u32) -> Option<u32> {
        self.take_rows(leaf, 1)
    }

    /// Rows leave these leaves for those. Nodes are seen and vanish in the order in which rows one by one would come, and then go.
    pub(crate) fn exchange(&mut self, from: &[u32], to: impl Iterator<Item = u32>) {
        let mut come = vec![0; self.slots()];
        let (mut go, mut last) = (vec![0; self.slots()], vec![0; self.slots()]);
        let mut arrivals = Vec::new();
        for leaf in to {
            if come[leaf as usize] == 0 {
                arrivals.push(leaf);
            }
            come[leaf as usize] += 1;
        }
        for (n, &leaf) in from.iter().enumerate() {
            go[leaf as usize] += 1;
            last[leaf as usize] = n;
        }
        arrivals.into_iter().for_each(|leaf| self.add_rows(leaf, come[leaf as usize]));
        let mut departures: Vec<u32> = (0..go.len() as u32).filter(|&leaf| go[leaf as usize] > 0).collect();
        departures.sort_unstable_by_key(|&leaf| last[leaf as usize]);
        departures.into_iter().for_each(|leaf| {
            self.take_rows(leaf, go[leaf as usize]);
        });
    }

    /// Gives back the numbers of a chain of unseen nodes, from `top` down to `bottom`.
    pub(crate) fn release(&mut self, top: u32, bottom: u32) {
        let mut at = bottom;
        loop {
            debug_assert_eq!(self.rows(at), 0);
            let above = self.parent(at);
            self.free.push(at);
            if at == top {
                return;
            }
            at = above;
        }
    }

    /// Gives back the numbers of all nodes that are not seen.
    pub(crate) fn release_unseen(&mut self) {
        let mut kept: Vec<bool> = self.rows.iter().map(|&rows| rows > 0).collect();
        kept[ROOT as usize] = true;
        self.free = (0..self.slots() as u32).filter(|&node| !kept[node as usize]).collect();
    }

    /// Cuts the subtree of `node` off. Nodes above that lose their last row are no longer seen; the highest of them is returned. The
    /// subtree itself stays in the lists of its levels: [`Arena::graft`] it at once.
    pub(crate) fn lift(&mut self, node: u32) -> Option<u32> {
        let (above, rows) = (self.parent(node), self.rows(node));
        self.unlink(node);
        self.take_rows(above, rows)
    }

    /// Puts a lifted subtree below `parent`.
    pub(crate) fn graft(&mut self, node: u32, parent: u32) {
        self.parent[node as usize] = parent;
        self.add_rows(parent, self.rows(node));
        self.link(node);
    }

    /// The occupied nodes of each level, by the smallest row in them. `leaves` has the leaf of each row ([`NONE`]: not attached).
    pub(crate) fn by_first_row(&self, leaves: &[u32]) -> Vec<Vec<u32>> {
        let mut met = vec![false; self.slots()];
        let mut levels = vec![vec![]; self.depth + 1];
        for &leaf in leaves {
            let mut at = leaf;
            while at != NONE && !met[at as usize] {
                met[at as usize] = true;
                levels[self.level(at)].push(at);
                at = self.parent(at);
            }
        }
        levels
    }

    /// `log p(V)`; `alpha[l]` is the concentration of the choice among nodes of level `l + 1`.
    pub(crate) fn ln_prior(&self, alpha: &[f64]) -> f64 {
        let mut sum = 0.0;
        for level in 0..self.depth {
            let a = alpha[level];
            for &node in self.at_level(level) {
                sum += ln_gamma(a) - ln_gamma(a + f64::from(self.rows(node)));
            }
            for &node in self.at_level(level + 1) {
                sum += a.ln() + ln_gamma(f64::from(self.rows(node)));
            }
        }
        sum
    }

    fn allocate(&mut self, parent: u32, level: u8) -> u32 {
        if let Some(node) = self.free.pop() {
            let i = node as usize;
            self.parent[i] = parent;
            self.level[i] = level;
            return node;
        }
        let node = self.parent.len() as u32;
        self.parent.push(parent);
        self.level.push(level);
        self.rows.push(0);
        self.children.push(0);
        self.first_child.push(NONE);
        self.next_sibling.push(NONE);
        self.previous_sibling.push(NONE);
        self.place.push(0);
        node
    }

    /// Adds rows to `node` and all above it; those that had none are seen from now on.
    fn add_rows(&mut self, node: u32, rows: u32) {
        let mut at = node;
        while at != ROOT {
            if self.rows(at) == 0 {
                let list = &mut self.levels[self.level[at as usize] as usize];
                self.place[at as usize] = list.len() as u32;
                list.push(at);
                self.link(at);
            }
            self.rows[at as usize] += rows;
            at = self.parent(at);
        }
        self.rows[ROOT as usize] += rows;
    }

    fn take_rows(&mut self, node: u32, rows: u32) -> Option<u32> {
        let mut emptied = None;
        let mut at = node;
        while at != ROOT {
            self.rows[at as usize] -= rows;
            if self.rows(at) == 0 {
                let place = self.place[at as usize];
                let list = &mut self.levels[self.level[at as usize] as usize];
                list.swap_remove(place as usize);
                if let Some(&moved) = list.get(place as usize) {
                    self.place[moved as usize] = place;
                }
                self.unlink(at);
                emptied = Some(at);
            }
            at = self.parent(at);
        }
        self.rows[ROOT as usize] -= rows;
        emptied
    }

    fn link(&mut self, node: u32) {
        let (i, above) = (node as usize, self.parent(node) as usize);
        let first = self.first_child[above];
        self.next_sibling[i] = first;
        self.previous_sibling[i] = NONE;
        if first != NONE {
            self.previous_sibling[first as usize] = node;
        }
        self.first_child[above] = node;
        self.children[above] += 1;
    }

    fn unlink(&mut self, node: u32) {
        let (i, above) = (node as usize, self.parent(node) as usize);
        let (before, after) = (self.previous_sibling[i], self.next_sibling[i]);
        if before == NONE {
            self.first_child[above] = after;
        } else {
            self.next_sibling[before as usize] = after;
        }
        if after != NONE {
            self.previous_sibling[after as usize] = before;
        }
        self.children[above] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    /// Four rows: {0,1,2}, {3} at level 1; {0,1}, {2}, {3} at level 2.
    pub(crate) fn small() -> (Arena, Vec<u32>) {
        Arena::from_labels(2, &[0, 0, 0, 0, 0, 1, 1, 0])
    }

    #[test]
    fn known_prior_of_paths() {
        let (arena, _) = small();
        assert!((arena.ln_prior(&[0.7, 0.7]) + 4.376295575).abs() < 1e-9);
    }

    /// Prior by the sequential rule: each row in turn goes to a child with probability `N_child/(N + a)`, to a new one with `a/(N + a)`.
    #[test]
    fn the_prior_is_that_of_rows_that_come_one_by_one() {
        let (alpha, mut rng) = ([0.9, 0.6, 0.8], SmallRng::seed_from_u64(3));
        for _ in 0..20 {
            let mut arena = Arena::new(3);
            let mut sum = 0.0;
            for _ in 0..9 {
                let mut at = ROOT;
                while arena.level(at) < 3 {
                    let a = alpha[arena.level(at)];
                    let mut left = rng.random::<f64>() * (f64::from(arena.rows(at)) + a);
                    sum -= (f64::from(arena.rows(at)) + a).ln();
                    let chosen = arena.children(at).find(|&c| {
                        left -= f64::from(arena.rows(c));
                        left < 0.0
                    });
                    sum += chosen.map_or(a.ln(), |c| f64::from(arena.rows(c)).ln());
                    match chosen {
                        Some(child) => at = child,
                        None => {
                            let below = &alpha[arena.level(at) + 1..];
                            sum += below.iter().map(|a| (a / a).ln()).sum::<f64>(); // an empty node has only a new child
                            at = arena.branch(at);
                        }
                    }
                }
                arena.attach(at);
            }
            assert!((arena.ln_prior(&alpha) - sum).abs() < 1e-10);
        }
    }

    fn consistent(arena: &Arena, leaves: &[u32]) {
        let order = arena.by_first_row(leaves);
        for level in 0..=arena.depth() {
            let (mut a, mut b) = (order[level].clone(), arena.at_level(level).to_vec());
            a.sort_unstable();
            b.sort_unstable();
            assert_eq!(a, b);
            for &node in arena.at_level(level) {
                let below = leaves.iter().filter(|&&leaf| arena.ancestor(leaf, level) == node).count();
                assert_eq!(below as u32, arena.rows(node));
                assert_eq!(arena.children(node).count() as u32, arena.n_children(node));
                if level < arena.depth() {
                    assert_eq!(arena.children(node).map(|c| arena.rows(c)).sum::<u32>(), arena.rows(node));
                }
                assert!(arena.children(node).all(|c| arena.parent(c) == node && arena.level(c) == level + 1));
            }
        }
    }

    /// Rows come, go and change, subtrees move: counts, lists and links always agree with the leaves of the rows.
    #[test]
    fn stays_consistent() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut arena = Arena::new(3);
        let mut leaves: Vec<u32> = (0..12)
            .map(|_| {
                let leaf = arena.branch(ROOT);
                arena.attach(leaf);
                leaf
            })
            .collect();
        consistent(&arena, &leaves);
        for _ in 0..2000 {
            let row = rng.random_range(0..leaves.len());
            if rng.random::<f64>() < 0.7 {
                let private = arena.detach(leaves[row]);
                if let Some(top) = private {
                    arena.release(top, leaves[row]);
                }
                let nodes: Vec<u32> = arena.nodes().collect();
                let at = nodes[rng.random_range(0..nodes.len())];
                leaves[row] = arena.branch(at);
                arena.attach(leaves[row]);
            } else {
                let level = rng.random_range(2..=3);
                let node = arena.ancestor(leaves[row], level);
                let old = arena.parent(node);
                let emptied = arena.lift(node);
                let above = arena.at_level(level - 2)[rng.random_range(0..arena.at_level(level - 2).len())];
                let child = arena.children(above).next();
                let parent = child.unwrap_or_else(|| arena.child(above));
                arena.graft(node, parent);
                if let Some(top) = emptied.filter(|&top| arena.rows(top) == 0) {
                    let bottom = if arena.rows(old) == 0 { old } else { top };
                    arena.release(top, bottom);
                }
            }
            consistent(&arena, &leaves);
        }
        assert!(arena.slots() <= 1 + 3 * 13 + 3);
    }

    /// Rows that change leaves all at once leave the arena as rows do that first come and then go one by one, lists and links included.
    #[test]
    fn exchanges_are_those_of_rows_one_by_one() {
        let mut rng = SmallRng::seed_from_u64(8);
        for _ in 0..200 {
            let labels: Vec<usize> = (0..2 * 15).map(|_| rng.random_range(0..3)).collect();
            let (mut arena, before) = Arena::from_labels(2, &labels);
            let mut leaves = arena.at_level(2).to_vec();
            leaves.extend((0..3).map(|_| arena.branch(ROOT)));
            // few of them, so that nodes vanish
            let open: Vec<u32> = (0..3).map(|_| leaves[rng.random_range(0..leaves.len())]).collect();
            let after: Vec<u32> = (0..15).map(|_| open[rng.random_range(0..3)]).collect();
            let mut one_by_one = arena.clone();
            after.iter().for_each(|&leaf| one_by_one.attach(leaf));
            before.iter().for_each(|&leaf| {
                one_by_one.detach(leaf);
            });
            arena.exchange(&before, after.iter().copied());
            assert_eq!(arena, one_by_one);
            consistent(&arena, &after);
        }
    }

    #[test]
    fn order_is_by_rows_not_by_age() {
        let (mut arena, mut leaves) = small();
        let top = arena.detach(leaves[0]);
        assert_eq!(top, None);
        leaves[0] = arena.branch(ROOT);
        arena.attach(leaves[0]);
        let order = arena.by_first_row(&leaves);
        assert_eq!(order[2], leaves);
        assert_eq!(order[0], [ROOT]);
        assert_eq!(order[1], [arena.parent(leaves[0]), arena.parent(leaves[1]), arena.parent(leaves[3])]);
    }
}
