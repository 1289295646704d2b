//! A fitted cluster tree: one tree for all draws, how sure it is, and what it says of new rows.
//!
//! The point tree and what belongs to it are worked out when they are first asked for, and never saved. They compare all pairs of rows:
//! where there are too many, the best draw stands for all.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

use super::NAME;
use super::components::{Family as Components, Kernel};
use super::draws::Draw;
use super::export::SummaryTree;
use super::fixed::FixedTree;
use super::point::{CoOccurrence, Landing, Loss, PointTree, Support, search};
use super::predict::{Batch, Separated};
use super::principal::Principal;
use super::program::TreeSampler;
use super::settings::{Settings, TargetKind};
use super::tempering::Swaps;
use crate::answer::{
    Answers, ClusterRows, ClusterTree, HeldOut, HeldOutEffort, HiddenComponents, KeptDraws, NamedArray, Origin, PlacedRows, Posterior,
    Responsibilities, RowDensity, Summary, WhichTree, check_new_rows, evenly,
};
use crate::data::{Dataset, Needs};
use crate::infer::assignment::assign;
use crate::parallel;
use crate::run::{Piece, saved_global, state};
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("tree posterior", &["0.1", "0.1", "0.1", "0.1"]);
/// Pairs of rows that are counted in all draws and at all levels, at most; of many rows fewer draws are looked at, evenly spaced.
const MOST_PAIRS: usize = 20_000_000_000;
/// Draws that are counted at least.
const LEAST_DRAWS: usize = 200;
/// Pairs of rows that the trees which the search may begin with are judged by, at most.
const MOST_STARTS: usize = 2_000_000_000;

/// The model as it was bound to the rows of the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// Names of the columns; empty if they had none.
    pub(crate) columns: Vec<String>,
    /// Number of columns.
    pub(crate) width: usize,
    /// Components with their prior.
    pub(crate) kernel: Kernel,
    /// The margin, where there is one.
    pub(crate) separated: Option<Separated>,
    /// What a user should know of the data.
    pub(crate) said: Vec<String>,
    /// How columns become coordinates, where they do.
    pub(crate) principal: Option<Principal>,
}

impl Bound {
    /// Numbers of a row: its coordinates, or its columns.
    pub(crate) fn coordinates(&self) -> usize {
        self.principal.as_ref().map_or(self.width, Principal::len)
    }
}

/// The posterior as version 1 kept it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct First {
    bound: FirstBound,
    draws: Vec<Draw>,
    lengths: Vec<usize>,
    best: usize,
    same: Vec<Vec<Option<usize>>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct FirstBound {
    columns: Vec<String>,
    width: usize,
    kernel: Kernel,
    separated: Option<Separated>,
    said: Vec<String>,
}

impl From<First> for Second {
    fn from(First { bound, draws, lengths, best, same }: First) -> Self {
        let FirstBound { columns, width, kernel, separated, said } = bound;
        let bound = Bound { columns, width, kernel, separated, said, principal: None };
        Self { bound, draws, lengths, best, same }
    }
}

/// The posterior as version 2 kept it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct Second {
    bound: Bound,
    draws: Vec<Draw>,
    lengths: Vec<usize>,
    best: usize,
    same: Vec<Vec<Option<usize>>>,
}

impl From<Second> for TreePosterior {
    fn from(Second { bound, draws, lengths, best, same }: Second) -> Self {
        Self { bound, draws, lengths, best, same, swaps: vec![], fixed: None, derived: Derived::default() }
    }
}

/// Draws, and what they mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TreePosterior {
    pub(super) bound: Bound,
    pub(super) draws: Vec<Draw>,
    /// Draws of each chain.
    pub(super) lengths: Vec<usize>,
    /// The draw of largest likelihood with what the margin charges.
    pub(super) best: usize,
    /// For each draw, which component of the best draw each of its atoms is, by the rows they share.
    pub(super) same: Vec<Vec<Option<usize>>>,
    /// Swaps of each temperature with the next, in all chains; none without tempering.
    pub(super) swaps: Vec<Swaps>,
    /// The tree of least loss with weights of its own, where it was given any.
    pub(super) fixed: Option<FixedTree>,
    #[serde(skip)]
    derived: Derived,
}

/// What is worked out once.
#[derive(Debug, Clone, Default)]
struct Derived {
    together: OnceLock<Option<Together>>,
    point: OnceLock<Option<Found>>,
    binder: OnceLock<Option<Found>>,
    best: OnceLock<ClusterTree>,
    /// Draws on the fixed tree.
    on_fixed: OnceLock<Vec<Draw>>,
}

/// How often rows were together.
#[derive(Debug, Clone)]
pub(super) struct Together {
    pub(super) counts: CoOccurrence,
    /// Draws that were looked at.
    pub(super) draws: usize,
    /// Largest and mean difference between two chains of the probability that two rows are together; none for one chain.
    pub(super) apart: Option<(f64, f64)>,
}

/// A tree of least loss.
#[derive(Debug, Clone)]
struct Found {
    tree: ClusterTree,
    landing: Landing,
}

impl TreePosterior {
    /// From the chains of a fit with these settings; they know the components and the features that they were bound to.
    pub(super) fn read(columns: &[String], width: usize, settings: &Settings, chains: &[Piece]) -> Result<Self> {
        let kept = KeptDraws::of(chains)?;
        let mut chain = saved_global::<TreeSampler>(&kept.chains()[0].checkpoint)?;
        let calibrated = settings.target == TargetKind::Calibrated;
        let rows = chain.state.leaf.len();
        let lengths: Vec<u64> = chains.iter().map(|c| c.draws.count).collect();
        let fixed = chain.fixed.take().filter(|fixed| fixed.is_done() && fixed.is_of(&lengths));
        let separated = settings.charge(rows).zip(chain.features).map(|(margin, features)| Separated { margin, calibrated, features });
        let mut said = chain.said;
        said.extend(settings.shallow(rows));
        let bound = Bound { columns: columns.to_vec(), width, kernel: chain.kernel, separated, said, principal: chain.principal };
        let mut all = Self { fixed, ..Self::of(bound, chains)? };
        if settings.temperatures > 1 {
            for chain in kept.chains() {
                let found = saved_global::<TreeSampler>(&chain.checkpoint)?.swaps;
                all.swaps.resize(found.len().max(all.swaps.len()), Swaps::default());
                all.swaps.iter_mut().zip(found).for_each(|(sum, own)| sum.add(own));
            }
        }
        let crowded = all.bound.separated.is_some() && all.draws.iter().any(Draw::is_crowded);
        all.bound.said.extend(settings.approximate(crowded).map(String::from));
        Ok(all)
    }

    /// From the chains of a fit.
    pub(super) fn of(bound: Bound, chains: &[Piece]) -> Result<Self> {
        let kept = KeptDraws::of(chains)?;
        let scores = bound.separated.as_ref().map_or(0, |s| s.features.width());
        let parameters = bound.kernel.parameters();
        let mut draws = Vec::new();
        for chain in kept.chains() {
            draws.append(&mut Draw::read(chain, parameters, scores)?);
        }
        let lengths = kept.lengths();
        if draws.len() != lengths.iter().sum::<usize>() {
            return Err(Error::Unfit("the draws are damaged: fewer can be read than the run says it has".into()));
        }
        Ok(Self::new(bound, draws, lengths))
    }

    pub(super) fn new(bound: Bound, draws: Vec<Draw>, lengths: Vec<usize>) -> Self {
        let better = |best: usize, i: usize| if draws[i].figures.charged > draws[best].figures.charged { i } else { best };
        let best = (0..draws.len()).fold(0, better);
        let reference = draws[best].atoms_of_rows();
        let same = parallel::map(&draws, |_, draw| same_atoms(draw, reference));
        Self { bound, draws, lengths, best, same, swaps: vec![], fixed: None, derived: Derived::default() }
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => Ok(Second::from(older.decode::<First>()?).into()),
            2 => Ok(older.decode::<Second>()?.into()),
            // the third had no fixed tree, which comes last
            3 => older.decode_followed_by(&None::<FixedTree>),
            _ => Err(older.refused()),
        })?)
    }

    pub(super) fn depth(&self) -> usize {
        self.draws[self.best].concentrations.alpha.len()
    }

    pub(super) fn n_rows(&self) -> usize {
        self.draws[self.best].leaf.len()
    }

    /// Components of the best draw that have rows.
    pub(super) fn components(&self) -> usize {
        let draw = &self.draws[self.best];
        draw.atom.iter().max().map_or(0, |k| *k as usize + 1)
    }

    pub(super) fn component_names(&self) -> Vec<String> {
        let others = ["others".to_string()];
        (1..=self.components()).map(|k| format!("component{k}")).chain(others).collect()
    }

    /// Names of the columns, those that had none by their places.
    fn column_names(&self) -> Vec<String> {
        let name = |j: usize| self.bound.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"));
        (0..self.bound.width).map(name).collect()
    }

    /// The tree of least loss, as the node of each row at each level, and its loss; nothing where there are too many rows.
    pub(super) fn least(&self, loss: Loss) -> Option<(Vec<u32>, f64)> {
        self.point(loss).map(|found| (found.tree.labels(), found.tree.loss.unwrap_or(f64::NAN)))
    }

    /// Atom of each row in the best draw, and how many atoms that has.
    pub(super) fn best_atoms(&self) -> (&[u32], usize) {
        self.draws[self.best].atoms_of_rows()
    }

    fn labels(&self, draw: usize) -> Vec<usize> {
        self.draws[draw].labels().into_iter().map(|z| z as usize).collect()
    }

    /// How often rows were together; nothing where there are too many rows.
    pub(super) fn together(&self) -> Option<&Together> {
        self.derived.together.get_or_init(|| self.count()).as_ref()
    }

    fn count(&self) -> Option<Together> {
        let (rows, levels, chains) = (self.n_rows(), self.depth(), self.lengths.len());
        // chains are counted side by side, where that is not too much
        let apart = chains > 1 && CoOccurrence::fits(rows, levels * chains);
        if !CoOccurrence::fits(rows, levels) {
            return None;
        }
        let most = (MOST_PAIRS / (rows * rows * levels)).max(LEAST_DRAWS);
        let mut ends = self.lengths.clone();
        for c in 1..chains {
            ends[c] += ends[c - 1];
        }
        let mut by_chain = vec![Vec::new(); chains];
        let looked_at = evenly(self.draws.len(), most);
        for &d in &looked_at {
            by_chain[ends.partition_point(|end| *end <= d)].push(d);
        }
        let count = |draws: &Vec<usize>| {
            let mut counts = CoOccurrence::new(rows, levels).ok()?;
            draws.iter().for_each(|&d| counts.add(&self.labels(d)));
            Some(counts)
        };
        let mut all = CoOccurrence::new(rows, levels).ok()?;
        if !apart {
            for draws in &by_chain {
                all.merge(&count(draws)?);
            }
            return Some(Together { counts: all, draws: looked_at.len(), apart: None });
        }
        let parts = parallel::map(&by_chain, |_, draws| count(draws)).into_iter().collect::<Option<Vec<_>>>()?;
        let (mut largest, mut sum, mut times) = (0.0f64, 0.0, 0.0);
        for (c, a) in parts.iter().enumerate() {
            for b in &parts[..c] {
                for (level, i) in (0..levels).flat_map(|l| (0..rows).map(move |i| (l, i))) {
                    for j in 0..i {
                        let difference = (a.probability(level, i, j) - b.probability(level, i, j)).abs();
                        largest = largest.max(difference);
                        sum += difference;
                        times += 1.0;
                    }
                }
            }
            all.merge(a);
        }
        Some(Together { counts: all, draws: looked_at.len(), apart: Some((largest, if times > 0.0 { sum / times } else { 0.0 })) })
    }

    /// The tree of least loss; nothing where there are too many rows.
    fn point(&self, loss: Loss) -> Option<&Found> {
        let place = match loss {
            Loss::Vi => &self.derived.point,
            Loss::Binder => &self.derived.binder,
        };
        place.get_or_init(|| self.find(loss)).as_ref()
    }

    fn find(&self, loss: Loss) -> Option<Found> {
        let together = &self.together()?.counts;
        let (rows, levels) = (self.n_rows(), self.depth());
        let most = (MOST_STARTS / (rows * rows * levels)).max(20);
        let tree = match &self.fixed {
            // it was found when the fit ended
            Some(fixed) if loss == Loss::Vi => {
                let labels = fixed.labels.iter().map(|&z| z as usize).collect();
                PointTree { kind: loss, levels, labels, loss: fixed.loss }
            }
            _ => {
                let starts: Vec<Vec<usize>> = evenly(self.draws.len(), most).into_iter().map(|d| self.labels(d)).collect();
                search(together, loss, starts.iter().map(Vec::as_slice))
            }
        };
        let landing = Landing::new(together, &tree);
        let shown = self.shown(&tree.labels, Some(together));
        Some(Found { tree: ClusterTree { shown, components: self.component_names(), loss: Some(tree.loss) }, landing })
    }

    /// A tree as it is shown, with what the draws think of its nodes where that is known.
    fn shown(&self, labels: &[usize], together: Option<&CoOccurrence>) -> SummaryTree {
        let (rows, levels) = (self.n_rows(), self.depth());
        let below = match together {
            Some(together) => {
                let mut support = Support::new(labels, levels);
                (0..self.draws.len()).for_each(|d| support.add(&self.labels(d)));
                support.finish(together).into_iter().map(|(level, rows, c)| (level, rows, Some(c))).collect()
            }
            None => super::point::members(labels, levels).into_iter().map(|(level, rows)| (level + 1, rows, None)).collect(),
        };
        let mut shown = SummaryTree::new(levels, below, &[], rows).expect("labels of draws are a tree");
        let width = self.components() + 1;
        let shares = self.row_components();
        for node in &mut shown.nodes {
            node.weights = vec![0.0; width];
            for i in &node.rows {
                node.weights.iter_mut().zip(&shares[i * width..]).for_each(|(w, s)| *w += s / node.rows.len() as f64);
            }
        }
        shown
    }

    /// Share of the draws in which each row of the fit had each component, and any other, row by row.
    fn row_components(&self) -> Vec<f64> {
        let (width, times) = (self.components() + 1, self.draws.len() as f64);
        let mut shares = vec![0.0; self.n_rows() * width];
        for (draw, same) in self.draws.iter().zip(&self.same) {
            for (row, &atom) in shares.chunks_exact_mut(width).zip(&draw.atom) {
                row[same[atom as usize].unwrap_or(width - 1)] += 1.0 / times;
            }
        }
        shares
    }

    fn best_tree(&self) -> &ClusterTree {
        let make = || {
            let shown = self.shown(&self.labels(self.best), self.together().map(|t| &t.counts));
            ClusterTree { shown, components: self.component_names(), loss: None }
        };
        self.derived.best.get_or_init(make)
    }

    /// The tree that stands for all draws: the best draw, where there are too many rows for a point tree.
    pub(super) fn shown_tree(&self, which: WhichTree) -> &ClusterTree {
        let found = match which {
            WhichTree::Point => self.point(Loss::Vi),
            WhichTree::Binder => self.point(Loss::Binder),
            WhichTree::Best => None,
        };
        found.map_or_else(|| self.best_tree(), |found| &found.tree)
    }

    /// New rows that were checked (their coordinates, where columns become some), one after the other, and how many codes the fit did not know.
    fn checked(&self, data: &Dataset<'_>) -> Result<(Vec<f64>, usize)> {
        let needs = Needs { missing: self.bound.kernel.admits_missing(), ..Needs::FEATURES };
        check_new_rows(data, self.bound.width, &self.bound.columns, needs)?;
        let (mut rows, mut names) = (data.x.to_dense(), self.column_names());
        if let Some(principal) = &self.bound.principal {
            principal.check(&rows, &names)?;
            (rows, names) = (principal.of_rows(&rows), principal.names());
        }
        let mut unknown = 0;
        for (i, row) in rows.chunks_exact(self.bound.coordinates().max(1)).enumerate() {
            unknown += self.bound.kernel.check_row(row, i, &names)?;
        }
        Ok((rows, unknown))
    }

    fn batch<'a>(&'a self, draws: &'a [(usize, &'a Draw)], margin: bool) -> Batch<'a> {
        let separated = self.bound.separated.as_ref().filter(|s| margin && s.margin.separation > 0.0);
        Batch { draws, kernel: &self.bound.kernel, columns: self.bound.coordinates(), separated }
    }

    fn all_draws(&self) -> Vec<(usize, &Draw)> {
        self.draws.iter().enumerate().collect()
    }

    /// Draws on the tree of least loss, where it was given weights of its own.
    fn on_fixed(&self) -> Option<&[Draw]> {
        self.fixed.as_ref().map(|fixed| self.derived.on_fixed.get_or_init(|| fixed.draws()).as_slice())
    }

    /// Rows on the tree of least loss: places by all draws, probabilities by the weights of its nodes, where it was given any.
    fn place_on_point(&self, found: &Found, rows: &[f64], unknown: usize) -> Result<PlacedRows> {
        let mut placed = self.place_by_draws(found, rows, unknown)?;
        let Some(draws) = self.on_fixed().filter(|_| found.landing.kind() == Loss::Vi) else { return Ok(placed) };
        (placed.through, placed.new) = (vec![], vec![]);
        for (through, new) in self.batch(&draws.iter().enumerate().collect::<Vec<_>>(), true).nodes(rows)? {
            placed.new.extend((1..=placed.levels).map(|level| above(&draws[0], level, &new)));
            placed.through.extend(through);
        }
        Ok(placed)
    }

    /// Rows on the tree of least loss, by all draws.
    fn place_by_draws(&self, found: &Found, rows: &[f64], unknown: usize) -> Result<PlacedRows> {
        let (levels, nodes) = (self.depth(), found.tree.shown.nodes.len());
        let mut placed = PlacedRows { levels, nodes, place: vec![], path: vec![], through: vec![], new: vec![], unknown };
        for (shared, new) in self.batch(&self.all_draws(), true).places(rows)? {
            let place = found.landing.place(&shared);
            placed.place.push(place);
            placed.path.extend(found.landing.path(place));
            placed.through.extend(found.landing.through(&shared));
            placed.new.extend(new);
        }
        Ok(placed)
    }

    /// Rows on the tree of the best draw, by that draw alone: each goes to its likeliest place.
    fn place_on_best(&self, rows: &[f64], unknown: usize) -> Result<PlacedRows> {
        let draw = &self.draws[self.best];
        let (levels, nodes) = (self.depth(), draw.nodes());
        let mut placed = PlacedRows { levels, nodes, place: vec![], path: vec![], through: vec![], new: vec![], unknown };
        for (through, new) in self.batch(&[(self.best, draw)], true).nodes(rows)? {
            let chance = |z: usize| if (draw.level[z] as usize) < levels { new[z] } else { through[z] };
            let place = (1..nodes).fold(0, |best, z| if chance(z) > chance(best) { z } else { best });
            let mut path = vec![None; levels];
            let mut at = place;
            while at > 0 {
                path[draw.level[at] as usize - 1] = Some(at);
                at = draw.parent[at] as usize;
            }
            placed.place.push(place);
            placed.path.extend(path);
            placed.new.extend((1..=levels).map(|level| above(draw, level, &new)));
            placed.through.extend(through);
        }
        Ok(placed)
    }
}

/// Sum over the nodes above a level.
fn above(draw: &Draw, level: usize, values: &[f64]) -> f64 {
    values.iter().zip(&draw.level).filter(|(_, l)| (**l as usize) < level).map(|(v, _)| v).sum()
}

/// Which atom of the reference (atoms of rows, and their number) each atom of a draw is: pairs, one to one, that have most rows in common.
pub(super) fn same_atoms(draw: &Draw, (reference, atoms): (&[u32], usize)) -> Vec<Option<usize>> {
    let mut common = vec![0.0; draw.atoms * atoms];
    draw.atom.iter().zip(reference).for_each(|(&a, &b)| common[a as usize * atoms + b as usize] += 1.0);
    let pairs = assign(&common, draw.atoms, atoms);
    // atoms without a row in common are not the same
    pairs.into_iter().enumerate().map(|(a, b)| b.filter(|b| common[a * atoms + b] > 0.0)).collect()
}

impl ClusterRows for TreePosterior {
    fn levels(&self) -> usize {
        self.depth()
    }

    fn rows(&self) -> usize {
        self.n_rows()
    }

    fn tree(&self, which: WhichTree) -> Result<ClusterTree> {
        Ok(self.shown_tree(which).clone())
    }

    fn co_occurrence(&self, level: usize) -> Result<Vec<f64>> {
        if !(1..=self.depth()).contains(&level) {
            return Err(Error::setting("level", level, format!("a whole number from 1 to {}", self.depth())));
        }
        let rows = self.n_rows();
        match self.together() {
            Some(together) => {
                let pairs = (0..rows).flat_map(|i| (0..rows).map(move |j| (i, j)));
                Ok(pairs.map(|(i, j)| together.counts.probability(level - 1, i, j)).collect())
            }
            None => Err(CoOccurrence::new(rows, self.depth()).err().unwrap_or_else(|| Error::Unfit("no rows were counted".into()))),
        }
    }

    fn place(&self, data: &Dataset<'_>, which: WhichTree) -> Result<PlacedRows> {
        let (rows, unknown) = self.checked(data)?;
        let found = match which {
            WhichTree::Point => self.point(Loss::Vi),
            WhichTree::Binder => self.point(Loss::Binder),
            WhichTree::Best => None,
        };
        match found {
            Some(found) => self.place_on_point(found, &rows, unknown),
            None => self.place_on_best(&rows, unknown),
        }
    }

    fn sampled(&self, most: usize) -> Vec<Vec<u32>> {
        evenly(self.draws.len(), most).into_iter().map(|d| self.draws[d].labels()).collect()
    }

    fn numbers(&self, data: &Dataset<'_>) -> Result<(Vec<f64>, usize)> {
        let (mut rows, _) = self.checked(data)?;
        let width = self.bound.coordinates();
        if self.bound.kernel.family() == Components::Categorical {
            let codes: Vec<usize> = (0..width)
                .map(|d| rows.iter().skip(d).step_by(width).copied().filter(|v| !v.is_nan()).fold(-1.0, f64::max) as isize + 1)
                .map(|n| n as usize)
                .collect();
            let indicators = |row: &[f64]| -> Vec<f64> {
                let each = row.iter().zip(&codes);
                each.flat_map(|(&x, &n)| (0..n).map(move |c| if x.is_nan() { f64::NAN } else { f64::from(x == c as f64) })).collect()
            };
            rows = rows.chunks_exact(width).flat_map(indicators).collect();
        }
        let wide = rows.len().checked_div(data.rows()).unwrap_or(0);
        for d in 0..wide {
            let seen = || rows.iter().skip(d).step_by(wide).copied().filter(|v| !v.is_nan());
            let (n, origin) = (seen().count(), seen().next().unwrap_or(0.0));
            let mean = origin + seen().map(|v| v - origin).sum::<f64>() / n.max(1) as f64;
            rows.iter_mut().skip(d).step_by(wide).filter(|v| v.is_nan()).for_each(|v| *v = mean);
        }
        Ok((rows, wide))
    }
}

impl RowDensity for TreePosterior {
    fn counts(&self) -> bool {
        !self.bound.kernel.family().is_gaussian()
    }

    /// Closed form under each draw: temperatures and runs have nothing to do.
    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        effort.check()?;
        let (rows, _) = self.checked(data)?;
        let draws: Vec<(usize, &Draw)> = evenly(self.draws.len(), effort.draws).into_iter().map(|d| (d, &self.draws[d])).collect();
        let weights = self.batch(&draws, false).ln_densities(&rows);
        let weights: Vec<Vec<Vec<f64>>> = weights.into_iter().map(|draw| draw.into_iter().map(|l| vec![l]).collect()).collect();
        Ok(HeldOut::of_weights(&weights, &vec![0.0; data.rows()]))
    }
}

impl HiddenComponents for TreePosterior {
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        let (rows, _) = self.checked(data)?;
        let components = self.components();
        let share = self.batch(&self.all_draws(), true).components(&rows, components, &self.same)?.concat();
        let names = self.component_names().into_iter().chain(["new".into()]).collect();
        Ok(Responsibilities { names, share })
    }
}

impl Posterior for TreePosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.bound.columns, width: self.bound.width, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { clusters: Some(self), density: Some(self), components: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        self.summarised()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.named_arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

#[cfg(test)]
mod tests;
