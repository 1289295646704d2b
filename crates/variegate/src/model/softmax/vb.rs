//! Variational ascent for a softmax tree.
//!
//! Given q(W), the variational parameters and shares of each row are solved exactly, so one visit gives the bound L and everything the
//! next step needs. A sweep takes one step of all nodes (`node.rs`), leaves (`leaf.rs`) and precisions, and visits the rows. With the
//! tilted bound a step may overshoot: then it is taken back, halved and tried again, and the length that worked is
//! remembered. L never falls beyond rounding.
//!
//! A chain does one [`Job`]: a search for a maximum of the likelihood, an ascent from it, or both. Which jobs a run has, and which
//! follow from the results of others, is decided in `search/`.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::factors::{Factors, TreeMoments};
use super::job::{Job, Maximum, Standing, Start, State};
use super::layout::Layout;
use super::leaf::{GaussianLeaf, LeafMoments, LeafStats};
use super::map::Objective;
use super::node::{Node, RowStats};
use super::pass::Scratch;
use super::pass::ask::{Ask, Local, TreeStats};
use super::products;
use super::program::Vb;
use super::starts;
use crate::linalg::NotPositiveDefinite;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Tick};
use crate::{Error, Result};

/// Variance of each weight at the start: small, since the tilted bound is loose for large ones.
const START_VARIANCE: f64 = 0.1;
/// Below this a step is not worth another visit.
const SHORTEST_STEP: f64 = 1e-4;
/// Sweeps between two attempts at a longer step, in a search led by held-out rows.
const LONGER_EVERY: u64 = 4;
/// Annealing: first inverse temperature, its growth, and the sweeps of a stage.
const ANNEAL: (f64, f64, u32) = (0.5, 1.15, 10);

impl Vb {
    /// L of q, and what the rows say of it.
    pub(crate) fn evaluate(
        &self,
        layout: &Layout,
        state: &State,
        q: &Factors,
        moments: &TreeMoments,
        rows: &mut dyn Rows<Self>,
    ) -> Result<(f64, TreeStats)> {
        let beta = state.beta;
        let view = q.view(layout, moments, &state.basis, beta, state.job.fold);
        let stats = rows.all(&Ask::Bound(state.at(view)))?;
        let mut bound = stats.value.0;
        for ((node, moments), l) in q.nodes.iter().zip(&moments.nodes).zip(&layout.nodes) {
            bound += node.terms(l, moments, beta);
            bound -= state.root_term(l, moments);
        }
        for (leaf, moments) in q.leaves.iter().zip(&moments.leaves) {
            bound += leaf.terms(moments, &self.leaf);
        }
        // a bound on the density of the outcomes as given, not as standardised
        let rows_weight: f64 = if self.y_scale.is_empty() { 0.0 } else { self.counts.iter().sum() };
        bound -= rows_weight * self.ln_scale();
        Ok((bound, stats))
    }

    /// One step of every node and leaf.
    fn step(
        &self,
        layout: &Layout,
        state: &State,
        q: &mut Factors,
        directions: &[f64],
        rho: f64,
    ) -> Result<TreeMoments, NotPositiveDefinite> {
        let dim = layout.dim;
        let stats = &state.stats;
        let mut moments = TreeMoments { nodes: Vec::new(), leaves: Vec::new() };
        for (node, l) in q.nodes.iter_mut().zip(&layout.nodes) {
            let at = l.at_weights(dim);
            let rows = RowStats {
                curvature: if l.forms == 0 { &state.root_curvature } else { &stats.curvature.0[l.matrices.clone()] },
                gradient: &stats.gradient.0[at.clone()],
                direction: directions.get(at).unwrap_or(&[]),
            };
            moments.nodes.push(node.step(l, rows, rho, &state.basis, state.beta)?);
        }
        moments.leaves = self.update_leaves(layout, stats, q)?;
        Ok(moments)
    }

    fn update_leaves(&self, layout: &Layout, stats: &TreeStats, q: &mut Factors) -> Result<Vec<LeafMoments>, NotPositiveDefinite> {
        let (dim, outputs) = (layout.dim, layout.outputs);
        let update = |(number, leaf): (usize, &mut GaussianLeaf)| {
            let first = layout.units + number * outputs;
            let rows = LeafStats {
                weight: stats.shares.0[number],
                gram: &stats.curvature.0[layout.leaf_matrix(number)],
                gradient: &stats.gradient.0[first * dim..(first + outputs) * dim],
                squares: &stats.squares.0[number * outputs..(number + 1) * outputs],
            };
            leaf.update(rows, &self.leaf)
        };
        q.leaves.iter_mut().enumerate().map(update).collect()
    }

    /// q around given parameters.
    pub(crate) fn factors_at(&self, layout: &Layout, at: &[f64], beta: f64) -> Factors {
        let (dim, outputs) = (layout.dim, layout.outputs);
        let nodes = layout.nodes.iter().map(|l| Node::new(l, dim, at[l.at_weights(dim)].to_vec(), START_VARIANCE, beta)).collect();
        let leaves = (0..layout.gaussians())
            .map(|number| {
                let mut leaf = GaussianLeaf::new(outputs, dim, &self.leaf);
                let first = layout.units + number * outputs;
                leaf.mean.copy_from_slice(&at[first * dim..(first + outputs) * dim]);
                // as sure as a fair share of the rows would make it
                leaf.shape += 0.5 * self.counts.iter().sum::<f64>() / layout.gaussians() as f64;
                for q in 0..outputs {
                    leaf.rates[q] = leaf.shape * (-at[layout.vectors() * dim + number * outputs + q]).exp();
                }
                leaf
            })
            .collect();
        Factors { nodes, leaves }
    }

    /// Begins the ascent at given parameters.
    pub(crate) fn begin_ascent(&self, layout: &Layout, state: &mut State, at: &[f64], rows: &mut dyn Rows<Self>) -> Result<()> {
        if let Some(rank) = layout.rank() {
            state.basis = products::basis(self, rank, rows)?;
        }
        if layout.nodes.first().is_some_and(|n| n.forms == 0) {
            state.root_curvature = rows.all(&Ask::Gram { fold: state.job.fold })?.curvature.0;
        }
        state.beta = if self.anneal { ANNEAL.0 } else { 1.0 };
        let mut q = self.factors_at(layout, at, state.beta);
        let numerical = |detail: String| Error::Numerical { what: "the start of the variational fit", sweep: 0, detail };
        let mut moments = q.moments(layout, &state.basis, state.beta).map_err(|e| numerical(e.to_string()))?;
        let mut found = self.evaluate(layout, state, &q, &moments, rows)?;
        if !q.leaves.is_empty() {
            moments.leaves = self.update_leaves(layout, &found.1, &mut q).map_err(|e| numerical(e.to_string()))?;
            found = self.evaluate(layout, state, &q, &moments, rows)?;
        }
        if !found.0.is_finite() {
            return Err(numerical(format!("the bound is {}; standardise the columns, or bring the weights of rows nearer to 1", found.0)));
        }
        (state.bound, state.stats) = found;
        state.q = Some(q);
        Ok(())
    }

    /// The parameters a job begins at.
    fn start_of(&self, layout: &Layout, job: &Job, key: u64, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Vec<f64>> {
        Ok(match &job.start {
            Start::Zero => vec![0.0; layout.parameters()],
            Start::Random(number) => starts::random(layout, stream.item(u64::from(*number))),
            Start::Clusters(number) => {
                let classes = self.counts.len().max(1);
                let each = (starts::GATHERED_NUMBERS / (layout.dim * classes)).clamp(2, 2000);
                let gathered = rows.all(&Ask::Gather { each, key })?.gathered;
                starts::clusters(layout, &gathered, self.design.intercept, stream.item(u64::from(*number)))
            }
            Start::At(at) => at.clone(),
        })
    }

    /// A chain of the first generation with its job.
    pub(super) fn start_with(&self, job: Option<Job>, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let job = job.ok_or_else(|| Error::Unfit("the run has more chains than there are structures to try".into()))?;
        let mut state = State::new(self, job);
        state.key = stream.rng().next_u64();
        if state.job.start == Start::Zero && state.job.ascent > 0 {
            self.begin(&mut state, rows, stream)?;
        }
        Ok(state)
    }

    /// The first part of a job: up to where its ascent begins, or all of it where it has none.
    pub(crate) fn begin(&self, state: &mut State, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<()> {
        let layout = self.layout(&state.tree);
        let mut at = self.start_of(&layout, &state.job, state.key, rows, stream)?;
        if state.job.search > 0 {
            let objective = Objective { program: self, tree: &state.tree, fold: state.job.fold, penalty: self.map_penalty };
            let found = objective.search(rows, &at, state.job.search)?;
            at.clone_from(&found.x);
            state.bound = -found.value;
            state.maximum = Some(Maximum { at: found.x, value: -found.value });
        }
        if state.job.ascent == 0 {
            state.standing = Standing::Converged;
            return Ok(());
        }
        self.begin_ascent(&layout, state, &at, rows)
    }

    /// One sweep of the ascent; returns the number of visits.
    pub(crate) fn ascend(&self, state: &mut State, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<u32> {
        let layout = self.layout(&state.tree);
        let mut visits = self.anneal_stage(&layout, state, rows, stream)?;
        state.ascents += 1;
        let Some(q) = state.q.clone() else { return Ok(visits) };
        let directions = if layout.needs_products() { products::directions(&layout, state, &q, rows)? } else { Vec::new() };
        let damped = layout.needs_damping();
        // a longer step mostly fails and costs a visit: searches, which have many short ascents, try one now and then
        let longer = if self.search.is_guided() && !state.ascents.is_multiple_of(LONGER_EVERY) { 1.0 } else { 2.0 };
        let mut rho = if damped { (longer * state.step).min(1.0) } else { 1.0 };
        loop {
            let mut next = q.clone();
            // a matrix that is not positive definite counts as a bound that is not finite
            let (bound, stats) = match self.step(&layout, state, &mut next, &directions, rho) {
                Err(_) => (f64::NAN, TreeStats::default()),
                Ok(moments) => {
                    visits += 1;
                    self.evaluate(&layout, state, &next, &moments, rows)?
                }
            };
            let fallen = bound < state.bound - 1e-10 * (1.0 + state.bound.abs());
            if bound.is_finite() && !(fallen && damped) {
                let gain = bound - state.bound;
                // a short step gains little also far from the top
                if gain < rho * self.tol.max(1e-8 * bound.abs()) && state.beta == 1.0 {
                    state.standing = Standing::Converged;
                }
                (state.q, state.stats, state.bound, state.step) = (Some(next), stats, bound, rho);
                return Ok(visits);
            }
            rho *= 0.5;
            if !damped || rho < SHORTEST_STEP {
                if state.beta == 1.0 || !bound.is_finite() {
                    state.standing = if bound.is_finite() { Standing::NoStepLeft } else { Standing::Numerical };
                }
                state.step = 1.0;
                return Ok(visits);
            }
        }
    }

    /// Raises the inverse temperature when a stage is over, and shakes the means at the beginning of each: without it all subclasses stay
    /// the same while the temperature is high.
    fn anneal_stage(&self, layout: &Layout, state: &mut State, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<u32> {
        if state.beta >= 1.0 {
            return Ok(0);
        }
        if state.stage == ANNEAL.2 {
            state.beta = (state.beta * ANNEAL.1).min(1.0);
            state.stage = 0;
        }
        state.stage += 1;
        if state.stage > 1 {
            return Ok(0);
        }
        let Some(mut q) = state.q.clone() else { return Ok(0) };
        let failed = |e: NotPositiveDefinite| Error::Numerical { what: "annealing", sweep: state.ascents, detail: e.to_string() };
        let moments = q.moments(layout, &state.basis, state.beta).map_err(failed)?;
        if state.beta < 1.0 {
            let mut rng = stream.rng();
            for (node, moments) in q.nodes.iter_mut().zip(&moments.nodes) {
                for (mean, variance) in node.mean.chunks_exact_mut(layout.dim).zip(moments.variance.chunks_exact(layout.dim)) {
                    let sd = 0.3 * (variance.iter().sum::<f64>() / layout.dim as f64).sqrt();
                    for m in mean {
                        let z: f64 = StandardNormal.sample(&mut rng);
                        *m += sd * z;
                    }
                }
            }
        }
        for ((node, moments), l) in q.nodes.iter_mut().zip(&moments.nodes).zip(&layout.nodes) {
            node.rates = l.prior.best_rates(&node.squares(moments), state.beta);
        }
        (state.bound, state.stats) = self.evaluate(layout, state, &q, &moments, rows)?;
        state.q = Some(q);
        state.step = 1.0;
        Ok(1)
    }
}

impl Program for Vb {
    const NAME: &'static str = "softmax/vb";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = TreeStats;
    type Scratch = Scratch;

    fn works_on(&self, state: &State) -> Option<String> {
        (!self.search.is_one()).then(|| state.job.structure.title())
    }

    /// One maximum, one ascent: searched for here, so that every sweep of the trace is one of the ascent. Other jobs wait for their first
    /// sweep, so that they run side by side and can be stopped in between.
    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        self.start_with(self.search.first().into_iter().nth(stream.chain() as usize), rows, stream)
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Local {
        Local::default()
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut visits = 0;
        if state.done() && state.scores.is_none() {
            // a fit that was chosen as it is has its scores left to tell
        } else if state.q.is_some() {
            visits = self.ascend(state, rows, tick.stream)?;
        } else {
            self.begin(state, rows, tick.stream)?;
        }
        let done = state.done();
        if done && state.scores.is_none() {
            state.scores = Some(self.score(state, rows)?);
        }
        let mut extras = vec![("step".to_string(), state.step), ("visits".to_string(), f64::from(visits))];
        if self.anneal {
            extras.push(("beta".to_string(), state.beta));
        }
        Ok(Report { objective: state.bound, components: state.tree.leaves.len() as u32, converged: done, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, _: Stream) -> Result<TreeStats> {
        Ok(match ask {
            Ask::Likelihood { tree, weights, fold } => self.visit_likelihood(&self.layout(tree), weights, *fold, block, scratch),
            Ask::Bound(at) => self.visit_bound(&self.layout(&at.tree), &at.view, block, local, scratch),
            Ask::Products { at, vectors } => self.visit_products(&self.layout(&at.tree), &at.view, vectors, block, local, scratch),
            Ask::Spread { probes } => self.visit_spread(probes, block, scratch),
            Ask::Gram { fold } => self.visit_gram(*fold, block, scratch),
            Ask::Gather { each, key } => self.visit_gather(*each, *key, block, scratch),
            Ask::Scatter { at, components } => self.visit_scatter(&self.layout(&at.tree), &at.view, components, block, scratch),
            Ask::Tight { at, key } => self.visit_tight(&self.predicting(&at.tree), &at.view, *key, block, scratch)?,
            Ask::Loo { at, key } => self.visit_loo(&self.predicting(&at.tree), &at.view, *key, block, scratch)?,
            Ask::HeldOut(at) => self.visit_held_out(&self.predicting(&at.tree), &at.view, block, scratch),
        })
    }

    /// An ascent keeps no draws.
    fn draw(&self, _: &State, _: &mut Draws) {}

    fn offspring(&self, finished: &mut dyn Iterator<Item = Result<State>>, stream: Stream) -> Result<Vec<State>> {
        if self.search.is_over_at_once() {
            return Ok(Vec::new());
        }
        let finished = finished.collect::<Result<Vec<_>>>()?;
        let mut next = self.search.next(self, &finished);
        for (i, state) in next.iter_mut().enumerate() {
            state.key = stream.item(i as u64).rng().next_u64();
        }
        Ok(next)
    }
}
