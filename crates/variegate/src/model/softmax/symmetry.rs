//! ln Sym_eff: what relabelled copies of q add to the bound.
//!
//! Exchanging children that look alike (`Tree::alike`) leaves the model as it is, so the posterior has Sym copies of every mode and q covers
//! one of them. The mixture of all copies of q has the bound L + ln Sym_eff with
//! ln Sym_eff = E_q ln( Sym q(W) / Σ_π q(πW) ), between 0 (the copies coincide) and ln Sym (they are far apart). The expectation is
//! taken over draws of a stream of its own, and for each of them the sum over π is T(root, root), where
//!
//! T(a, b) = Σ over matchings π of the children of b with those of a, like with like, of q_a(weights of b matched by π) Π_c T(c, π(c))
//!
//! for nodes a, b that look alike, and T = 1 for leaves. Where q_a is a product over children this is a product of permanents, one for each
//! set of children alike; else matchings are gone through one by one, up to [`MOST_MATCHINGS`]. Beyond those q_a is replaced by the product
//! q' of its marginals: the difference that makes is KL(mixture of q ‖ mixture of q') − KL(q ‖ q') ≤ 0, since divergences are convex.
//! With more than [`MOST_ALIKE`] children alike the value is 0. Either is a low value, and said to be one. Only weights of nodes
//! are looked at: precisions and Gaussian leaves could tell copies better apart, so leaving them out lowers the value too.

use super::covariance::Covariance;
use super::layout::{Layout, Logits, NodeLayout};
use super::node::{Node, NodeFactors};
use super::tree::{Child, Tree};
use crate::data::design::packed_len;
use crate::linalg::{NotPositiveDefinite, dot};
use crate::run::{Purpose, Stream};
use crate::special::log_sum_exp;

const DRAWS: u64 = 200;
/// Most children alike whose permanent is taken.
const MOST_ALIKE: usize = 12;
/// Most matchings of a node with correlated children that are gone through one by one.
const MOST_MATCHINGS: f64 = 1000.0;

/// ln Sym_eff.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effective {
    /// Its value, between 0 and ln Sym.
    pub(crate) value: f64,
    /// Whether it is a lower value only.
    pub(crate) is_low: bool,
}

/// ln Sym_eff of the nodes of a tree.
pub(crate) fn ln_effective(
    layout: &Layout,
    tree: &Tree,
    nodes: &[Node],
    basis: &[f64],
    key: u64,
) -> Result<Effective, NotPositiveDefinite> {
    let groups: Vec<Vec<Vec<usize>>> = (0..nodes.len()).map(|v| tree.alike(v)).collect();
    let most = groups.iter().flatten().map(Vec::len).max().unwrap_or(1);
    if most == 1 || most > MOST_ALIKE {
        return Ok(Effective { value: 0.0, is_low: most > 1 });
    }
    let found = nodes.iter().map(Node::factors).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<SeenNode> =
        nodes.iter().zip(&layout.nodes).zip(groups).map(|((n, l), g)| SeenNode::new(n, l, g)).collect::<Result<_, _>>()?;
    let is_low = parts.iter().zip(nodes).any(|(p, n)| matches!(&p.density, Density::Apart(..)) && n.covariance == Covariance::Joint);
    let ln_sym = tree.ln_symmetries();
    let mut sum = 0.0;
    for draw in 0..DRAWS {
        let mut rng = Stream::new(key, 0, Purpose::Score).item(draw).rng();
        let weights =
            nodes.iter().zip(&found).zip(&layout.nodes).map(|((n, f), l)| seen(l, n.draw(f, basis, &mut rng), layout.dim)).collect();
        let copies = Copies { parts: &parts, weights, basis };
        sum += (0..parts.len()).map(|v| copies.original(v)).sum::<f64>() - copies.all(0, 0);
    }
    Ok(Effective { value: (ln_sym + sum / DRAWS as f64).clamp(0.0, ln_sym), is_low })
}

/// Weights as relabelling sees them: those of the children, except for the one vector of a logistic node.
fn seen(layout: &NodeLayout, units: Vec<f64>, dim: usize) -> Vec<f64> {
    match layout.logits {
        Logits::Contrast(_) => layout.child_weights(&units, dim),
        _ => units,
    }
}

/// q of a node as relabelling sees it, up to a factor.
enum Density {
    /// One vector, whose sign turns where its two children change places.
    Logistic(Node, NodeFactors),
    /// A product of one density a child.
    Apart(Node, NodeFactors),
    /// Children that correlate.
    Together(Node),
}

struct SeenNode {
    children: Vec<Child>,
    /// Places of children alike; in the same order for all nodes that are alike.
    groups: Vec<Vec<usize>>,
    density: Density,
}

impl SeenNode {
    fn new(node: &Node, layout: &NodeLayout, groups: Vec<Vec<usize>>) -> Result<Self, NotPositiveDefinite> {
        let matchings: f64 = groups.iter().map(|g| (1..=g.len()).map(|n| n as f64).product::<f64>()).product();
        let density = match &layout.logits {
            Logits::Logistic => Density::Logistic(node.clone(), node.factors()?),
            Logits::Full if node.covariance == Covariance::Joint && matchings <= MOST_MATCHINGS => Density::Together(node.clone()),
            Logits::Full => {
                let apart = node.marginals()?;
                let found = apart.factors()?;
                Density::Apart(apart, found)
            }
            // all contrasts have one precision P, and H has orthonormal columns: Σ_j ‖θ_j − μ_j‖² = Σ_c ‖(Hθ)_c − (Hμ)_c‖² in the norm of P
            Logits::Contrast(_) => {
                let apart = Node { units: layout.width(), mean: layout.child_weights(&node.mean, node.dim), ..node.clone() };
                let found = apart.factors()?;
                Density::Apart(apart, found)
            }
        };
        Ok(Self { children: layout.children.clone(), groups, density })
    }
}

/// All copies of one draw.
struct Copies<'a> {
    parts: &'a [SeenNode],
    weights: Vec<Vec<f64>>,
    basis: &'a [f64],
}

impl Copies<'_> {
    /// ln q of a node at its own weights.
    fn original(&self, v: usize) -> f64 {
        let w = &self.weights[v];
        match &self.parts[v].density {
            Density::Logistic(node, found) | Density::Apart(node, found) => node.ln_density(found, self.basis, w),
            Density::Together(node) => {
                let own: Vec<_> = (0..node.units).map(|c| (c, vec![c])).collect();
                -0.5 * Energies::new(node, w, &own).table.iter().sum::<f64>()
            }
        }
    }

    /// ln T(a, b).
    fn all(&self, a: usize, b: usize) -> f64 {
        let (part, other) = (&self.parts[a], &self.parts[b]);
        let w = &self.weights[b];
        let below = |c: usize, to: usize| match (part.children[c], other.children[to]) {
            (Child::Node(a), Child::Node(b)) => self.all(a, b),
            _ => 0.0,
        };
        let groups = || part.groups.iter().zip(&other.groups);
        match &part.density {
            Density::Logistic(node, found) => {
                let matchings = [(1.0, [0, 1]), (-1.0, [1, 0])];
                let like = |to: &[usize; 2]| groups().all(|(g, h)| g.iter().all(|c| h.contains(&to[*c])));
                let terms = matchings.iter().filter(|(_, to)| like(to)).map(|(sign, to)| {
                    let w: Vec<f64> = w.iter().map(|w| sign * w).collect();
                    node.ln_density(found, self.basis, &w) + below(0, to[0]) + below(1, to[1])
                });
                log_sum_exp(&terms.collect::<Vec<_>>())
            }
            Density::Apart(node, found) => {
                let dim = node.dim;
                let density = |c: usize, to: usize| node.unit_ln_density(found, self.basis, c, &w[to * dim..(to + 1) * dim]);
                let table = |g: &[usize], h: &[usize]| {
                    g.iter()
                        .flat_map(|&c| h.iter().map(move |&to| (c, to)))
                        .map(|(c, to)| density(c, to) + below(c, to))
                        .collect::<Vec<_>>()
                };
                groups().map(|(g, h)| ln_permanent(g.len(), &table(g, h))).sum()
            }
            Density::Together(node) => {
                let places: Vec<(usize, Vec<usize>)> = groups().flat_map(|(g, h)| g.iter().map(|c| (*c, h.clone()))).collect();
                let mut energies = Energies::new(node, w, &places);
                energies.below = energies.pairs.iter().map(|&(c, to)| below(c, to)).collect();
                let mut terms = Vec::new();
                energies.matchings(0.0, &mut Vec::new(), &mut terms);
                log_sum_exp(&terms)
            }
        }
    }
}

/// (πw − μ)ᵀP(πw − μ) of correlated children, in parts that all matchings π are put together from.
struct Energies {
    /// Pairs (child, child whose weights it may be given), those of one child after those of another.
    pairs: Vec<(usize, usize)>,
    /// Pairs of each child.
    places: Vec<std::ops::Range<usize>>,
    /// The product of any two pairs.
    table: Vec<f64>,
    /// ln T of the subtrees of each pair.
    below: Vec<f64>,
}

impl Energies {
    fn new(node: &Node, w: &[f64], candidates: &[(usize, Vec<usize>)]) -> Self {
        let (dim, len) = (node.dim, packed_len(node.dim));
        let (mut pairs, mut places) = (Vec::new(), Vec::new());
        for (c, others) in candidates {
            places.push(pairs.len()..pairs.len() + others.len());
            pairs.extend(others.iter().map(|to| (*c, *to)));
        }
        let away: Vec<Vec<f64>> = pairs
            .iter()
            .map(|&(c, to)| w[to * dim..(to + 1) * dim].iter().zip(&node.mean[c * dim..(c + 1) * dim]).map(|(w, m)| w - m).collect())
            .collect();
        let mut table = vec![0.0; pairs.len() * pairs.len()];
        let mut product = vec![0.0; dim];
        for (k, &(c, _)) in pairs.iter().enumerate() {
            for ((d, _), place) in candidates.iter().zip(&places) {
                let block = &node.precision[(packed_len(c.max(*d)) + c.min(*d)) * len..][..len];
                mul_symmetric(block, &away[k], &mut product);
                for l in place.clone() {
                    table[k * pairs.len() + l] = dot(&away[l], &product);
                }
            }
        }
        Self { pairs, places, table, below: Vec::new() }
    }

    /// Logarithms of the terms of all matchings that begin with the chosen pairs, whose own part is `so_far`.
    fn matchings(&self, so_far: f64, chosen: &mut Vec<usize>, terms: &mut Vec<f64>) {
        let Some(place) = self.places.get(chosen.len()) else {
            terms.push(so_far);
            return;
        };
        for k in place.clone() {
            if chosen.iter().any(|l| self.pairs[*l].1 == self.pairs[k].1) {
                continue;
            }
            let row = &self.table[k * self.pairs.len()..(k + 1) * self.pairs.len()];
            let energy = row[k] + 2.0 * chosen.iter().map(|l| row[*l]).sum::<f64>();
            chosen.push(k);
            self.matchings(so_far - 0.5 * energy + self.below[k], chosen, terms);
            chosen.pop();
        }
    }
}

/// out = M v for a packed symmetric M.
fn mul_symmetric(packed: &[f64], v: &[f64], out: &mut [f64]) {
    for i in 0..v.len() {
        let row = &packed[packed_len(i)..packed_len(i) + i];
        out[i] = dot(row, &v[..i]) + packed[packed_len(i) + i] * v[i];
        out[..i].iter_mut().zip(row).for_each(|(o, m)| *o += m * v[i]);
    }
}

/// ln Σ_π Π_i exp a(i, π(i)) of a k×k matrix: sums over sets of columns for the first rows, k 2^(k−1) terms without cancellation.
fn ln_permanent(k: usize, a: &[f64]) -> f64 {
    let mut sums = vec![0.0; 1 << k];
    let mut terms = Vec::with_capacity(k);
    for set in 1usize..1 << k {
        let row = &a[(set.count_ones() as usize - 1) * k..];
        terms.clear();
        terms.extend((0..k).filter(|j| set >> j & 1 == 1).map(|j| sums[set ^ 1 << j] + row[j]));
        sums[set] = log_sum_exp(&terms);
    }
    sums[(1 << k) - 1]
}

#[cfg(test)]
pub(super) mod tests;
