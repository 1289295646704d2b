//! The variational ascent batch by batch.
//!
//! Rows are visited in batches, sets of blocks. The sums S_b of each batch are remembered; a visit replaces those of its batch in the sum S of all
//! and a global step follows at once, so that q learns from a batch before the next one is visited. There is no learning rate: S is always the sum
//! over all rows, at the responsibilities and points of tangency that each batch had at its last visit, the bound from it is exact, and no
//! visit lowers it. A sweep is a lap over all batches; with one batch it is the sweep of [`Vb`].
//!
//! Components are put in order at the end of a lap, in every S_b. A merge acts on every S_b too, with joint entropies that the lap has collected.
//! A split takes a lap: children are found on its first batch, every batch then reports its sums with them as well, and at the end the
//! bound decides between the two.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::add_times::AddTimes;
use super::label_part::LabelPart;
use super::mixture::{Factors, Mixture, Scratch, Sums, View};
use super::moves::{LEAST_GAIN, Look, Pair, Plan, Restricted, inverse, seeds};
use super::settings::Settings;
use super::vb::{self, Ask, EMPTY, Stats, Vb};
use crate::data::design::packed_len;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Tick, Which};
use crate::{Error, Result};

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Memoized {
    /// The ascent whose steps are taken.
    pub(crate) vb: Vb,
    /// Batches, if there are as many blocks.
    pub(crate) batches: usize,
}

/// Where an ascent is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) ascent: vb::State,
    /// S_b of each batch.
    pub(crate) batches: Vec<Sums>,
}

/// Who is told of the steps of a lap.
pub(crate) trait Watch {
    /// A batch was visited with this view.
    fn visited(&mut self, _batch: usize, _view: &View) {}
    /// A global step was taken.
    fn updated(&mut self, _q: &Factors, _sums: &Sums) {}
}

/// Nobody.
impl Watch for () {}

/// A split on its way through a lap.
struct Splitting {
    parent: usize,
    /// The two components it becomes; none if they are not to be had.
    children: Option<Restricted>,
    /// Sums with the children, by number of the batch.
    sums: Vec<(usize, Sums)>,
}

/// As many batches as their sums fit in the memory for labels; an error if two do not.
pub(super) fn batches_that_fit(mixture: &Mixture, s: &Settings) -> Result<usize> {
    let matrices = |p: &super::logit::Logit, k: usize| p.labels * (packed_len(p.dim) + k * p.dim);
    let components = s.components as usize;
    let numbers = match mixture.labels.coupling() {
        LabelPart::Logit(p) => matrices(p, components),
        LabelPart::Shared(p) => (p.prior.labels + components) * p.prior.dim,
        part if part.needs_columns() => (part.weights().labels + 1) * part.weights().dim,
        LabelPart::Rowwise(p) => matrices(&p.prior, components),
        LabelPart::And(p) => matrices(&p.weights, 0),
        LabelPart::Cut(p) => matrices(&p.classifier.prior, 0),
        LabelPart::InRowSpace(_) => 0,
    };
    // a split needs the sums of all batches twice
    let each = 16.0 * numbers as f64;
    let most = (s.label_memory * 1e9 / each.max(1.0)) as usize;
    if most < 2 && s.batches > 1 {
        return Err(Error::Unfit(format!(
            "`inference` memoized keeps the matrices of all labels for each batch, {:.1} GB, and two do not fit `label_memory`, {} GB: raise it, set \
             `bound` to bohning where every row has all its labels known or none, or set `inference` to vb",
            each / 1e9,
            s.label_memory
        )));
    }
    Ok((s.batches as usize).min(most.max(1)))
}

/// Block numbers of each batch: every so many-th, so that rows in some order are spread over all.
fn blocks_of(blocks: u32, batches: usize) -> Vec<Vec<u32>> {
    (0..batches as u32).map(|b| (b..blocks).step_by(batches).collect()).collect()
}

/// Σ_b S_b.
pub(super) fn total(batches: &[Sums]) -> Sums {
    let mut all = Sums::default();
    batches.iter().for_each(|s| all.add_times(1.0, s));
    all
}

impl Memoized {
    /// One lap over all batches, and what was planned beside it. `watch` is told of every step.
    pub(crate) fn lap(&self, state: &mut State, rows: &mut dyn Rows<Self>, stream: Stream, watch: &mut impl Watch) -> Result<()> {
        let mixture = &self.vb.mixture;
        let State { ascent, batches } = state;
        let plan = std::mem::take(&mut ascent.moves.next);
        let mut rng = stream.rng();
        // afresh in every lap, so that what is taken away and added leaves no errors behind
        let mut all = total(batches);
        let (pairs, free) = self.pairs(&plan, &all, ascent.keep_empty)?;
        let mut splitting = match plan {
            Plan::Split(parent) => Some(Splitting { parent, children: None, sums: Vec::new() }),
            _ => None,
        };
        let blocks = blocks_of(rows.shape().blocks, batches.len());
        let mut joint = vec![Vec::new(); batches.len()];
        // another batch begins each lap: it is there that children are found
        let first = ascent.sweeps as usize % batches.len();
        for step in 0..batches.len() {
            let b = (first + step) % batches.len();
            let view = mixture.view(&ascent.q);
            let look = if step == 0 { plan.look(&mut rng) } else { Look::default() };
            let ask = Ask::Pass { view: Cow::Borrowed(&view), look: Look { pairs: pairs.clone(), ..look } };
            let stats = rows.visit(&ask, Which::Some(&blocks[b]))?;
            watch.visited(b, &view);
            all.add_times(-1.0, &batches[b]);
            if let Some(split) = &mut splitting {
                let mut visit = |step: &Restricted| Ok(rows.visit(&Ask::Split(Cow::Borrowed(step)), Which::Some(&blocks[b]))?.sums);
                if step == 0 {
                    split.children = self.children(split.parent, &view, &ascent.q, &all, &stats, &mut visit, &mut rng)?;
                }
                if let Some(children) = &mut split.children {
                    *children.frozen = view;
                    split.sums.push((b, visit(children)?));
                }
            }
            all.add_times(1.0, &stats.sums);
            (batches[b], joint[b]) = (stats.sums, stats.joint.0);
            if step + 1 < batches.len() {
                mixture.update_in_order(&mut ascent.q, &all)?;
                watch.updated(&ascent.q, &all);
            }
        }
        let unordered = splitting.is_some().then(|| ascent.q.clone());
        let order = mixture.update(&mut ascent.q, &mut all)?;
        batches.iter_mut().for_each(|s| s.permute(&order, mixture.kernel.size()));
        ascent.moves.permute(&order);
        watch.updated(&ascent.q, &all);
        let mut bound = Vb::finite(mixture.bound(&ascent.q, &all), ascent.sweeps)?;
        let now = inverse(&order);
        if !pairs.is_empty() {
            let entropy = |pair: usize| joint.iter().map(|h| h[pair]).sum();
            let pair = |(n, &(j, l)): (usize, &(usize, usize))| Pair { one: now[j], other: now[l], entropy: entropy(n), free: n < free };
            let asked: Vec<Pair> = pairs.iter().enumerate().map(pair).collect();
            let merged = mixture.merge(&mut ascent.q, &mut all, &mut bound, &asked)?;
            for m in &merged {
                batches.iter_mut().zip(&joint).for_each(|(s, h)| s.follow(m, h[m.pair], mixture.kernel.size()));
            }
            ascent.moved(|moves| moves.merged(&merged, pairs.len() > free), !merged.is_empty());
            ascent.keep_empty |= free > 0 && !merged.iter().any(|m| m.pair < free);
        }
        if let (Some(split), Some(q)) = (splitting, unordered) {
            match self.judge(&split, q, batches.len())? {
                Some((q, sums, of_batches, order, after)) if after - bound > LEAST_GAIN * bound.abs() => {
                    ascent.moves.permute(&now);
                    ascent.moved(|moves| moves.split(split.parent, &order), true);
                    (ascent.q, all, bound, *batches) = (q, sums, after, of_batches);
                }
                _ => ascent.moves.split_failed(now[split.parent]),
            }
        }
        self.vb.settle(ascent, bound, &all)
    }

    /// Pairs whose joint entropies a lap collects: components without rows with those most like them, so many of them, then those that may be
    /// merged.
    fn pairs(&self, plan: &Plan, all: &Sums, keep_empty: bool) -> Result<(Vec<(usize, usize)>, usize)> {
        let mut pairs = Vec::new();
        if !keep_empty && !matches!(plan, Plan::Split(_)) && all.components() > 1 {
            for k in (0..all.components()).filter(|&k| all.counts.0[k] < EMPTY) {
                pairs.push((self.vb.mixture.most_alike(all, k)?, k));
            }
        }
        let free = pairs.len();
        if let Plan::Merge(alike) = plan {
            pairs.extend(alike);
        }
        Ok((pairs, free))
    }

    /// Children of a component, found on one batch; `rest` are the sums of all others.
    fn children(
        &self,
        parent: usize,
        view: &View,
        q: &Factors,
        rest: &Sums,
        stats: &Stats,
        visit: &mut dyn FnMut(&Restricted) -> Result<Sums>,
        rng: &mut Philox,
    ) -> Result<Option<Restricted>> {
        let mixture = &self.vb.mixture;
        let Some(seeds) = seeds(&stats.gathered, rng) else { return Ok(None) };
        let mut q = q.clone();
        let mut step = Restricted::new(mixture, view.clone(), parent, seeds, &mut q);
        // all that other batches have of the parent is left open: children are those of this batch
        let (mut others, last, size) = (rest.clone(), rest.components(), mixture.kernel.size());
        others.permute(&(0..last).chain([parent]).collect::<Vec<_>>(), size);
        [parent, last].into_iter().for_each(|k| others.forget(k, size));
        let complete = |sums: &Sums| {
            let mut all = others.clone();
            all.add_times(1.0, sums);
            all
        };
        Ok(step.alternate(mixture, &mut q, visit, &complete)?.map(|_| step))
    }

    /// Posterior, sums, those of each batch, the order that components were put in, and the bound with the children of a split.
    fn judge(&self, split: &Splitting, mut q: Factors, batches: usize) -> Result<Option<(Factors, Sums, Vec<Sums>, Vec<usize>, f64)>> {
        let mixture = &self.vb.mixture;
        if split.children.is_none() {
            return Ok(None);
        }
        let mut of_batches = vec![Sums::default(); batches];
        split.sums.iter().for_each(|(b, sums)| of_batches[*b] = sums.clone());
        let mut all = total(&of_batches);
        q.labels.permute(&(0..q.components()).chain([split.parent]).collect::<Vec<_>>());
        let order = mixture.update(&mut q, &mut all)?;
        of_batches.iter_mut().for_each(|s| s.permute(&order, mixture.kernel.size()));
        let bound = mixture.bound(&q, &all);
        Ok(Some((q, all, of_batches, order, bound)))
    }
}

impl Program for Memoized {
    const NAME: &'static str = "labels/memoized";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let (centres, q, seen) = self.vb.begin(&mut |ask| rows.all(ask), stream)?;
        let mixture = &self.vb.mixture;
        let labels = mixture.labels.view(&q.labels);
        let ask = Ask::Start { centres: Cow::Borrowed(&centres), labels: Cow::Borrowed(&labels) };
        let blocks = rows.shape().blocks;
        let number = self.batches.min(blocks as usize).max(1);
        let mut batches = blocks_of(blocks, number)
            .iter()
            .map(|blocks| Ok(rows.visit(&ask, Which::Some(blocks))?.sums))
            .collect::<Result<Vec<Sums>>>()?;
        let (ascent, order) = self.vb.first(q, &mut total(&batches), seen)?;
        batches.iter_mut().for_each(|s| s.permute(&order, mixture.kernel.size()));
        Ok(State { ascent, batches })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        self.lap(state, rows, tick.stream, &mut ())?;
        Ok(state.ascent.report())
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, _: Stream) -> Result<Stats> {
        Ok(self.vb.answer(ask, block, scratch))
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("bound", state.ascent.bound);
    }
}
