//! The samplers as a program.
//!
//! What concerns the tree as a whole is the work of one thread, on rows that are gathered in the first sweep and kept beside the state.
//! They are not part of it: a chain that goes on from a checkpoint gathers them again and makes the same draws. Rows choose path and atom
//! there, one after the other (`sequential`), or where they are, in blocks, all at once (`slice`, `anchored`): the draws are then the same
//! for any number of threads. With several temperatures a chain has as many states, which take turns within a sweep (`tempering.rs`).

use serde::{Deserialize, Serialize};

use super::arena::ROOT;
use super::components::{Columns, Family, Kernel, Prior};
use super::draws::{Draw, Figures};
use super::fixed::FixedTree;
use super::labels::Label;
use super::margin::{Calibration, EtaUpdate, Features, Margin};
use super::principal::Principal;
use super::sampler::{Charges, Move, Rules, Sampler};
use super::state::{Concentrations, State};
use super::tempering::{Rung, Swaps, powers};
use crate::run::{Block, Draws, List, Merge, Philox, Program, Report, Rows, Stream, Tick};
use crate::{Error, Result};

/// How rows choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Choose {
    /// One after the other.
    InTurn,
    /// All at once, among what is above a slice.
    Slices,
    /// All at once, among what has an anchor of lower rank; then some in turn.
    Anchors,
}

/// The model bound to its data, and how it is sampled.
#[derive(Debug, Clone)]
pub(crate) struct TreeSampler {
    pub(crate) choose: Choose,
    /// Components with their prior.
    pub(crate) components: Components,
    /// What a sweep does.
    pub(crate) rules: Rules,
    /// Concentrations, or where they begin.
    pub(crate) concentrations: Concentrations,
    /// Components of a finite mixture.
    pub(crate) finite: Option<usize>,
    /// The margin, if there is one.
    pub(crate) margin: Option<Separation>,
    /// Principal components in place of columns, so many of them.
    pub(crate) pca: Option<usize>,
    /// Rungs of parallel tempering; 1 is none.
    pub(crate) temperatures: usize,
    /// The labels that chains begin with, by class of the rows; none where they begin otherwise.
    pub(crate) labels: Vec<Label>,
    /// Sweeps with the tree of least loss held fixed, once all draws are taken.
    pub(crate) node_sweeps: u64,
}

/// Components, before or after they saw the columns of the data.
#[derive(Debug, Clone)]
pub(crate) enum Components {
    /// Bound to columns; what they share begins as it is here.
    Bound(Kernel),
    /// To be bound to columns of these names once rows are gathered.
    Unbound {
        /// The family.
        family: Family,
        /// What is given of its prior.
        prior: Prior,
        /// Names of columns, for messages.
        names: Vec<String>,
    },
}

impl Components {
    /// The kernel for these rows, and what a user should know. With `pca` rows become their principal components.
    fn bind(&self, x: &mut Vec<f64>, pca: Option<usize>) -> Result<(Kernel, Option<Principal>, Vec<String>)> {
        let (family, prior, names) = match self {
            Self::Bound(kernel) => return Ok((kernel.clone(), None, vec![])),
            Self::Unbound { family, prior, names } => (*family, prior, names),
        };
        let mut columns = Columns::of(family, x, names)?;
        let principal = pca.map(|count| Principal::new(x, &columns, count)).transpose()?;
        if let Some(principal) = &principal {
            *x = principal.of_rows(x);
            columns = Columns::of(family, x, &principal.names())?;
        }
        let (kernel, said) = Kernel::bind(family, prior, &columns)?;
        Ok((kernel, principal, said))
    }
}

/// The margin as a chain goes by it.
#[derive(Debug, Clone)]
pub(crate) struct Separation {
    pub(crate) margin: Margin,
    /// Whether what a classifier that knows nothing is charged is taken off.
    pub(crate) calibrated: bool,
    pub(crate) update: EtaUpdate,
    pub(crate) features: FeatureSource,
    /// Sweeps of the warm-up, in which C rises: strong margins would freeze the first tree.
    pub(crate) warm_up: u64,
}

/// Where the features of rows come from.
#[derive(Debug, Clone)]
pub(crate) enum FeatureSource {
    /// From the rows, as [`Features::new`] makes them: the scale, and whether nodes have intercepts.
    Rows(Option<f64>, bool),
    /// Given, so many a row, with the tables of r that belong to them and to the whole of C.
    Given(Vec<f64>, usize, Option<Calibration>),
}

/// Steps in which C rises: each needs tables of its own.
const STEPS: u64 = 16;

impl Separation {
    /// The share of C in a sweep, in steps of `1/STEPS`: none in the first quarter of the warm-up, all from three quarters on.
    fn step(&self, sweep: u64, warm_up: bool) -> u64 {
        if !warm_up || self.warm_up == 0 {
            return STEPS;
        }
        let quarters = 4.0 * sweep as f64 / self.warm_up as f64;
        (STEPS as f64 * ((quarters - 1.0) / 2.0).clamp(0.0, 1.0)).ceil() as u64
    }
}

/// What follows from rows and margin; worked out again where it is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Charging {
    /// Features of all rows, one after the other.
    features: Vec<f64>,
    width: usize,
    /// Whether all of them are 0.
    idle: bool,
    /// The step of C, and the tables that belong to it.
    tables: Option<(u64, Option<Calibration>)>,
}

impl Charging {
    fn prepare(&mut self, separation: &Separation, how: &mut Option<Features>, x: &[f64], columns: &[usize], step: u64) -> Result<()> {
        if self.features.is_empty() {
            (self.features, self.width) = match &separation.features {
                FeatureSource::Given(values, width, _) => (values.clone(), *width),
                FeatureSource::Rows(scale, intercept) => {
                    let features = how.get_or_insert_with(|| Features::new(x, columns, *scale, *intercept));
                    (features.of(x), features.width())
                }
            };
            self.idle = self.features.iter().all(|v| *v == 0.0);
        }
        if self.idle {
            *how = None; // nothing tells siblings apart: there is no margin, also for new rows
            return Ok(());
        }
        if self.tables.as_ref().is_none_or(|tables| tables.0 != step) {
            let margin = separation.at(step);
            let norm = |phi: &[f64]| phi.iter().map(|v| v * v).sum::<f64>().sqrt();
            let wanted = separation.calibrated && margin.separation > 0.0;
            let norms: Vec<f64> = self.features.chunks_exact(self.width.max(1)).map(norm).collect();
            let known = match &separation.features {
                FeatureSource::Given(_, _, known) if step == STEPS => known.clone(),
                _ => None,
            };
            let tables = match known {
                None if wanted => Some(Calibration::new(&margin, &norms)?),
                known => known,
            };
            self.tables = Some((step, tables));
        }
        Ok(())
    }
}

impl Separation {
    /// The margin with C as it is at a step.
    fn at(&self, step: u64) -> Margin {
        Margin { separation: self.margin.separation * step as f64 / STEPS as f64, ..self.margin }
    }
}

/// What a chain knows between two sweeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) state: State,
    /// Components with what they share.
    pub(crate) kernel: Kernel,
    /// How rows become features of the margin.
    pub(crate) features: Option<Features>,
    /// What a user should know of the data.
    pub(crate) said: Vec<String>,
    pub(crate) figures: Figures,
    /// How columns become coordinates, where they do.
    pub(crate) principal: Option<Principal>,
    /// Rungs of tempering above the first, which is the state itself.
    pub(crate) hot: Vec<Rung>,
    /// Swaps of each rung with the next.
    pub(crate) swaps: Vec<Swaps>,
    /// The tree of least loss with its weights, of chain 0 once all draws are taken.
    pub(crate) fixed: Option<FixedTree>,
    /// Rows, or their coordinates, gathered as they are needed.
    #[serde(skip)]
    pub(crate) x: Vec<f64>,
    /// The margin's numbers, worked out as they are needed.
    #[serde(skip)]
    pub(crate) charging: Charging,
}

/// The same as version 1 kept it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct First {
    state: State,
    kernel: Kernel,
    features: Option<Features>,
    said: Vec<String>,
    figures: Figures,
}

/// The same as version 2 kept it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct Second {
    first: First,
    principal: Option<Principal>,
}

impl From<Second> for Chain {
    fn from(Second { first, principal }: Second) -> Self {
        let First { state, kernel, features, said, figures } = first;
        Self { principal, figures, said, features, ..Self::new(state, kernel) }
    }
}

impl Chain {
    /// A chain in a state, of which nothing else is known.
    pub(crate) fn new(state: State, kernel: Kernel) -> Self {
        Self {
            state,
            kernel,
            features: None,
            said: vec![],
            figures: Figures::default(),
            principal: None,
            hot: vec![],
            swaps: vec![],
            fixed: None,
            x: vec![],
            charging: Charging::default(),
        }
    }

    /// Gathers the rows where they are not here yet.
    fn gather(&mut self, rows: &mut dyn Rows<TreeSampler>) -> Result<()> {
        if self.x.is_empty() {
            let x = rows.all(&Ask::Cells)?.cells.0;
            self.x = match &self.principal {
                Some(principal) => principal.of_rows(&x),
                None => x,
            };
        }
        Ok(())
    }

    /// Numbers of a row: its coordinates, or its columns.
    fn cols(&self, columns: usize) -> usize {
        self.principal.as_ref().map_or(columns, Principal::len)
    }
}

/// What rows are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// What their cells are.
    Cells,
    /// To choose path and atom.
    #[serde(borrow)]
    Move(Box<Move<'a>>),
    /// Which label they begin with.
    Labels,
}

/// What they answer, in their order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    cells: List<f64>,
    moved: List<[u32; 2]>,
    labels: List<u32>,
}

impl Merge for Answer {
    fn merge(&mut self, right: Self) {
        self.cells.merge(right.cells);
        self.moved.merge(right.moved);
        self.labels.merge(right.labels);
    }
}

impl TreeSampler {
    /// One sweep of the fixed tree of a chain, whose own state is left as it is.
    fn sweep_fixed(&self, chain: &mut Chain, fixed: &mut FixedTree, cols: usize, stream: Stream) -> Result<()> {
        let mut rng = stream.sweep(fixed.done() + 1).rng();
        let rung =
            fixed.begin(|| State::new(chain.state.arena.depth(), chain.state.leaf.len(), self.finite, chain.state.concentrations.clone()));
        let (shared, at) = (chain.kernel.shared(), chain.hot.len() + 1);
        chain.hot.push(Rung { shared: rung.shared.or(shared), ..rung });
        chain.exchange(at);
        let swept = self.at_work(chain, cols, STEPS, 1.0, |sampler| {
            if sampler.state.arena.rows(ROOT) == 0 {
                fixed.place(sampler, &mut rng)?;
            }
            sampler.rules.paper = None;
            sampler.sweep_on_fixed_tree(&mut rng)
        });
        chain.exchange(at);
        swept?;
        fixed.take_in(chain.hot.pop());
        Ok(())
    }

    /// Does something with the chain at work, its likelihood and its margin to the power of `tau`, and puts down what came of it. Gives back
    /// `sum_n ln f(x_n | theta) + ln Reg`, to the power of 1.
    fn at_work(
        &self,
        chain: &mut Chain,
        cols: usize,
        step: u64,
        tau: f64,
        work: impl FnOnce(&mut Sampler<'_>) -> Result<()>,
    ) -> Result<f64> {
        if let Some(separation) = &self.margin {
            let codes = codes_of(&chain.kernel, &chain.x, cols);
            chain.charging.prepare(separation, &mut chain.features, &chain.x, &codes, step)?;
        }
        let charging = &chain.charging;
        let ln_r = |n: usize, siblings: &[usize]| match &charging.tables {
            Some((_, Some(calibration))) => tau * calibration.ln_r(n, siblings),
            _ => 0.0,
        };
        let tempered = |margin: Margin| Margin { separation: tau * margin.separation, ..margin };
        let charges = self.margin.as_ref().filter(|_| !charging.idle).map(|separation| Charges {
            margin: tempered(separation.at(step)),
            update: separation.update,
            features: &charging.features,
            width: charging.width,
            ln_r: separation.calibrated.then_some(&ln_r as &(dyn Fn(usize, &[usize]) -> f64 + Sync)),
        });
        let depth = chain.state.arena.depth();
        let state = std::mem::replace(&mut chain.state, State::new(depth, 0, self.finite, self.concentrations.clone()));
        let mut sampler = Sampler::idle(&chain.x, cols, chain.kernel.clone().tempered(tau), self.rules.clone(), state, charges);
        // after an error a row may be without a place, and nothing can be said of the state
        work(&mut sampler)?;
        let (complete, rows) = sampler.ln_likelihoods();
        let (violation, ln_charge) = sampler.charged();
        let shared = sampler.kernel.shared().unwrap_or(f64::NAN);
        let ln_reg = ln_charge / tau;
        chain.figures = Figures { complete, charged: complete + ln_reg, violation, shared };
        (chain.state, chain.kernel) = (sampler.state, sampler.kernel.tempered(1.0));
        Ok(rows + ln_reg)
    }

    /// Places all rows of the chain at work, those with a label (codes by row) where it says.
    fn begin(&self, chain: &mut Chain, cols: usize, codes: &[u32], tau: f64, rng: &mut Philox) -> Result<f64> {
        self.at_work(chain, cols, 0, tau, |sampler| {
            sampler.refresh();
            sampler.charge_all();
            if self.labels.is_empty() {
                sampler.start(rng)?;
            } else {
                let given: Vec<Option<&[usize]>> = codes.iter().map(|&code| self.labels[code as usize].as_deref()).collect();
                sampler.start_at(&given, rng)?;
                sampler.charge_all();
            }
            sampler.draw_theta(rng)
        })
    }

    /// One sweep of the chain at work, on rows that were gathered.
    fn sweep_at(&self, chain: &mut Chain, rows: &mut dyn Rows<Self>, tick: Tick, tau: f64, rng: &mut Philox) -> Result<f64> {
        let cols = chain.cols(rows.shape().cols);
        let principal = chain.principal.clone();
        let step = self.margin.as_ref().map_or(0, |separation| separation.step(tick.sweep, tick.warm_up));
        self.at_work(chain, cols, step, tau, |sampler| match self.choose {
            Choose::InTurn => sampler.sweep(rng),
            Choose::Slices => {
                let ask = Ask::Move(Box::new(sampler.sliced_move(rng)?.along(principal.as_ref())));
                let moved = rows.all(&ask)?.moved.0;
                sampler.take_in(&moved);
                sampler.sweep_rest(rng)
            }
            Choose::Anchors => {
                let ask = Ask::Move(Box::new(sampler.anchored_move(rng).along(principal.as_ref())));
                let moved = rows.all(&ask)?.moved.0;
                sampler.take_in(&moved);
                sampler.move_some_in_turn(rng)?;
                sampler.sweep_rest(rng)
            }
        })
    }
}

impl Program for TreeSampler {
    const NAME: &'static str = "tree";
    const RELEASES: &'static [&'static str] = &["0.1", "0.1", "0.1", "0.1"];
    type Global = Chain;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Answer;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Chain> {
        let (depth, shape) = (self.concentrations.alpha.len(), rows.shape());
        let empty = || State::new(depth, shape.rows, self.finite, self.concentrations.clone());
        let mut x = rows.all(&Ask::Cells)?.cells.0;
        let codes = if self.labels.is_empty() { Vec::new() } else { rows.all(&Ask::Labels)?.labels.0 };
        let (kernel, principal, said) = self.components.bind(&mut x, self.pca)?;
        let shared = kernel.shared();
        let mut chain = Chain { said, principal, x, ..Chain::new(empty(), kernel) };
        let mut rng = stream.rng();
        let cols = chain.cols(shape.cols);
        self.begin(&mut chain, cols, &codes, 1.0, &mut rng)?;
        for (rung, tau) in powers(self.temperatures).into_iter().enumerate().skip(1) {
            chain.hot.push(Rung { state: empty(), shared, figures: Figures::default() });
            chain.exchange(rung);
            self.begin(&mut chain, cols, &codes, tau, &mut rng)?;
            chain.exchange(rung);
        }
        if chain.charging.idle {
            chain.said.push("no column varies, so the margin has nothing to tell siblings by: `separation` is left out".into());
        }
        Ok(chain)
    }

    fn convert(version: u16, global: &[u8]) -> Option<Chain> {
        let found = match version {
            1 => Second { first: postcard::from_bytes(global).ok()?, principal: None },
            2 => postcard::from_bytes(global).ok()?,
            // the third had no fixed tree, which comes last
            3 => return postcard::from_bytes(&[global, &postcard::to_stdvec(&None::<FixedTree>).ok()?].concat()).ok(),
            _ => return None,
        };
        Some(found.into())
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, chain: &mut Chain, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        chain.gather(rows)?;
        // further draws have another tree
        chain.fixed = None;
        let mut rng = tick.stream.rng();
        let mut energies = Vec::with_capacity(chain.rungs());
        for (rung, tau) in powers(chain.rungs()).into_iter().enumerate() {
            chain.exchange(rung);
            let swept = self.sweep_at(chain, rows, tick, tau, &mut rng);
            chain.exchange(rung);
            energies.push(swept.map_err(|error| in_sweep(error, tick.sweep))?);
        }
        let swapped = chain.swap_neighbours(&energies, tick.sweep, !tick.warm_up, &mut rng);
        let state = &chain.state;
        let nodes = (1..=state.arena.depth()).map(|l| (format!("nodes_{l}"), state.arena.at_level(l).len() as f64));
        let mut extras: Vec<_> = nodes.chain([("violation".to_string(), chain.figures.violation)]).collect();
        if chain.rungs() > 1 {
            extras.push(("swaps".into(), swapped as f64));
        }
        let components = state.occupied_atoms() as u32;
        Ok(Report { objective: chain.figures.charged, components, converged: false, extras })
    }

    fn closing(
        &self,
        lengths: &[u64],
        first: &mut dyn FnMut() -> Result<Chain>,
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Chain>> {
        if self.node_sweeps == 0 || lengths.iter().all(|&n| n == 0) {
            return Ok(None);
        }
        let mut chain = first()?;
        match &chain.fixed {
            Some(fixed) if fixed.is_of(lengths) => return Ok((!fixed.is_done()).then_some(chain)),
            _ => chain.fixed = FixedTree::of(self, &chain, lengths, draws)?,
        }
        Ok(chain.fixed.is_some().then_some(chain))
    }

    fn close(&self, chain: &mut Chain, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<bool> {
        chain.gather(rows)?;
        let cols = chain.cols(rows.shape().cols);
        let Some(mut fixed) = chain.fixed.take() else { return Ok(true) };
        self.sweep_fixed(chain, &mut fixed, cols, stream).map_err(|error| in_sweep(error, fixed.done() + 1))?;
        Ok(chain.fixed.insert(fixed).is_done())
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Answer> {
        match ask {
            Ask::Cells => {}
            Ask::Move(movement) => return Ok(Answer { moved: List(movement.rows(block)), ..Answer::default() }),
            Ask::Labels => return Ok(Answer { labels: List(block.y.classes().to_vec()), ..Answer::default() }),
        }
        let cols = block.x.cols();
        let mut cells = vec![0.0; block.rows() * cols];
        for (i, row) in cells.chunks_exact_mut(cols.max(1)).enumerate() {
            block.x.for_row(i, |j, value| row[j] = value);
        }
        Ok(Answer { cells: List(cells), ..Answer::default() })
    }

    fn draw(&self, chain: &Chain, out: &mut Draws) {
        Draw::of(&chain.state, chain.figures).write(out);
    }
}

/// Number of codes of each column, 0 of numbers, as features of the margin need them.
fn codes_of(kernel: &Kernel, x: &[f64], cols: usize) -> Vec<usize> {
    let largest = |d: usize| x.iter().skip(d).step_by(cols).fold(0.0, |m: f64, &v| m.max(v)) as usize;
    (0..cols).map(|d| if kernel.family() == Family::Categorical { largest(d) + 1 } else { 0 }).collect()
}

/// The same error, knowing when it happened.
fn in_sweep(error: Error, sweep: u64) -> Error {
    match error {
        Error::Numerical { what, detail, .. } => Error::Numerical { what, sweep, detail },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tree::sampler::tests::{concentrations, known};
    use serde_json::json;

    /// Whichever rung a state came from, its figures are those of the whole likelihood and the whole margin.
    #[test]
    fn figures_are_those_of_power_1() {
        use crate::data::{Dataset, Matrix, blocks};
        use crate::run::{Purpose, Shape, Threads};
        let x: Vec<f64> = (0..12).map(|n| f64::from(n % 3) * 2.0 + 0.1 * f64::from(n)).collect();
        let given = json!({ "depth": 2, "alpha": 1.0, "separation": 0.3, "margin": 2.0, "likelihood": "gaussian-tied", "temperatures": 3 });
        let settings = crate::model::resolve::<super::super::Settings>("tree", given.as_object().unwrap()).unwrap();
        let program = settings.program(12, vec!["a".into()], vec![]);
        let data = Dataset::new(Matrix::dense(12, 1, x));
        let (cut, shape) = (blocks(&data, 5), Shape { rows: 12, cols: 1, blocks: 3, block_rows: 5 });
        let mut rows = Threads::new(&program, &cut, shape, 3, 0, None);
        rows.begin(0);
        let mut chain = program.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
        let (mut swapped, mut violated) = (0.0, 0.0);
        for sweep in 1..=12 {
            rows.begin(sweep);
            let tick = Tick { stream: Stream::new(3, 0, Purpose::Sweep).sweep(sweep), sweep, warm_up: false };
            let report = program.sweep(&mut chain, &mut rows as &mut dyn Rows<TreeSampler>, tick).unwrap();
            assert_eq!(report.objective, chain.figures.charged);
            swapped += report.extras.iter().find(|e| e.0 == "swaps").unwrap().1;
            for rung in 0..3 {
                chain.exchange(rung);
                let kept = chain.figures;
                let look = |sampler: &mut Sampler<'_>| {
                    sampler.charge_all();
                    Ok(())
                };
                // E knows no power
                let energies = [1.0, 0.3].map(|tau| program.at_work(&mut chain, 1, STEPS, tau, look).unwrap());
                assert!((energies[0] - energies[1]).abs() < 1e-9, "{energies:?}");
                let now = chain.figures;
                assert!((kept.charged - now.charged).abs() < 1e-9 && kept.violation == now.violation, "{kept:?} {now:?}");
                assert!(kept.complete == now.complete && kept.shared == now.shared, "{kept:?} {now:?}");
                violated += now.violation;
                chain.exchange(rung);
            }
        }
        assert!(swapped > 3.0 && violated > 3.0, "{swapped} {violated}");
    }

    /// A chain that an earlier version kept goes on.
    #[test]
    fn earlier_states_are_read() {
        let x = [0.5, 1.0, 2.0];
        let state = State::new(2, 3, None, concentrations(2, 0.7, 1.3, 0.9));
        let (kernel, figures) = (known(&x, 1, 0.5, 4.0), Figures { complete: -3.5, ..Figures::default() });
        let names = vec!["a".to_string()];
        let principal = Principal::new(&x, &Columns::of(Family::GaussianKnown, &x, &names).unwrap(), 1).unwrap();
        let first = || First { state: state.clone(), kernel: kernel.clone(), features: None, said: vec!["x".into()], figures };
        let second = Second { first: first(), principal: Some(principal.clone()) };
        let (one, two) = (postcard::to_stdvec(&first()).unwrap(), postcard::to_stdvec(&second).unwrap());
        for (version, kept, principal) in [(1, one, None), (2, two, Some(principal))] {
            let chain = TreeSampler::convert(version, &kept).unwrap();
            assert_eq!((&chain.state, &chain.kernel, chain.figures, chain.principal), (&state, &kernel, figures, principal));
            assert_eq!((chain.said, chain.hot, chain.swaps), (vec!["x".to_string()], vec![], vec![]));
        }
        assert!(TreeSampler::convert(2, &[]).is_none() && TreeSampler::convert(4, &[]).is_none());
        // the third is what is now without the fixed tree, which is a byte that says there is none
        let chain = Chain { swaps: vec![Swaps { tried: 3, accepted: 1 }], ..Chain::new(state.clone(), kernel.clone()) };
        let three = postcard::to_stdvec(&chain).unwrap();
        let again = TreeSampler::convert(3, &three[..three.len() - 1]).unwrap();
        assert_eq!((again.state, again.swaps, again.fixed.is_none()), (chain.state, chain.swaps, true));
    }
}
