//! The samplers as a program.
//!
//! What concerns the tree as a whole is the work of one thread, on rows that are gathered in the first sweep and kept beside the state.
//! They are not part of it: a chain that goes on from a checkpoint gathers them again and makes the same draws. Rows choose path and atom
//! there, one after the other (`sequential`), or where they are, in blocks, all at once (`slice`, `anchored`): the draws are then the same
//! for any number of threads.

use serde::{Deserialize, Serialize};

use super::components::{Columns, Family, Kernel, Prior};
use super::draws::{Draw, Figures};
use super::margin::{Calibration, EtaUpdate, Features, Margin};
use super::principal::Principal;
use super::sampler::{Charges, Move, Rules, Sampler};
use super::state::{Concentrations, State};
use crate::run::{Block, Draws, List, Merge, Program, Report, Rows, Stream, Tick};
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

impl From<First> for Chain {
    fn from(First { state, kernel, features, said, figures }: First) -> Self {
        Self { state, kernel, features, said, figures, principal: None, x: vec![], charging: Charging::default() }
    }
}

impl Chain {
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
}

/// What they answer, in their order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    cells: List<f64>,
    moved: List<[u32; 2]>,
}

impl Merge for Answer {
    fn merge(&mut self, right: Self) {
        self.cells.merge(right.cells);
        self.moved.merge(right.moved);
    }
}

impl TreeSampler {
    /// Does something with the chain at work, and puts down what came of it.
    fn at_work<T>(&self, chain: &mut Chain, cols: usize, step: u64, work: impl FnOnce(&mut Sampler<'_>) -> Result<T>) -> Result<T> {
        if let Some(separation) = &self.margin {
            let codes = codes_of(&chain.kernel, &chain.x, cols);
            chain.charging.prepare(separation, &mut chain.features, &chain.x, &codes, step)?;
        }
        let charging = &chain.charging;
        let ln_r = |n: usize, siblings: &[usize]| match &charging.tables {
            Some((_, Some(calibration))) => calibration.ln_r(n, siblings),
            _ => 0.0,
        };
        let charges = self.margin.as_ref().filter(|_| !charging.idle).map(|separation| Charges {
            margin: separation.at(step),
            update: separation.update,
            features: &charging.features,
            width: charging.width,
            ln_r: separation.calibrated.then_some(&ln_r as &(dyn Fn(usize, &[usize]) -> f64 + Sync)),
        });
        let depth = chain.state.arena.depth();
        let state = std::mem::replace(&mut chain.state, State::new(depth, 0, self.finite, self.concentrations.clone()));
        let mut sampler = Sampler::idle(&chain.x, cols, chain.kernel.clone(), self.rules.clone(), state, charges);
        // after an error a row may be without a place, and nothing can be said of the state
        let done = work(&mut sampler)?;
        let complete = sampler.complete_ln_likelihood();
        let (violation, ln_charge) = sampler.charged();
        let shared = sampler.kernel.shared().unwrap_or(f64::NAN);
        chain.figures = Figures { complete, charged: complete + ln_charge, violation, shared };
        (chain.state, chain.kernel) = (sampler.state, sampler.kernel);
        Ok(done)
    }
}

impl Program for TreeSampler {
    const NAME: &'static str = "tree";
    const RELEASES: &'static [&'static str] = &["0.1", "0.1"];
    type Global = Chain;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Answer;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Chain> {
        let (depth, shape) = (self.concentrations.alpha.len(), rows.shape());
        let state = State::new(depth, shape.rows, self.finite, self.concentrations.clone());
        let mut x = rows.all(&Ask::Cells)?.cells.0;
        let (kernel, principal, said) = self.components.bind(&mut x, self.pca)?;
        let mut chain =
            Chain { state, kernel, features: None, said, figures: Figures::default(), principal, x, charging: Charging::default() };
        let mut rng = stream.rng();
        let cols = chain.cols(shape.cols);
        self.at_work(&mut chain, cols, 0, |sampler| {
            sampler.refresh();
            sampler.charge_all();
            sampler.start(&mut rng)?;
            sampler.draw_theta(&mut rng)
        })?;
        if chain.charging.idle {
            chain.said.push("no column varies, so the margin has nothing to tell siblings by: `separation` is left out".into());
        }
        Ok(chain)
    }

    fn convert(version: u16, global: &[u8]) -> Option<Chain> {
        if version == 1 { postcard::from_bytes::<First>(global).ok().map(Chain::from) } else { None }
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, chain: &mut Chain, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        if chain.x.is_empty() {
            let x = rows.all(&Ask::Cells)?.cells.0;
            chain.x = match &chain.principal {
                Some(principal) => principal.of_rows(&x),
                None => x,
            };
        }
        let mut rng = tick.stream.rng();
        let cols = chain.cols(rows.shape().cols);
        let principal = chain.principal.clone();
        let step = self.margin.as_ref().map_or(0, |separation| separation.step(tick.sweep, tick.warm_up));
        let swept = self.at_work(chain, cols, step, |sampler| match self.choose {
            Choose::InTurn => sampler.sweep(&mut rng),
            Choose::Slices => {
                let ask = Ask::Move(Box::new(sampler.sliced_move(&mut rng)?.along(principal.as_ref())));
                let moved = rows.all(&ask)?.moved.0;
                sampler.take_in(&moved);
                sampler.sweep_rest(&mut rng)
            }
            Choose::Anchors => {
                let ask = Ask::Move(Box::new(sampler.anchored_move(&mut rng).along(principal.as_ref())));
                let moved = rows.all(&ask)?.moved.0;
                sampler.take_in(&moved);
                sampler.move_some_in_turn(&mut rng)?;
                sampler.sweep_rest(&mut rng)
            }
        });
        swept.map_err(|error| in_sweep(error, tick.sweep))?;
        let state = &chain.state;
        let nodes = (1..=state.arena.depth()).map(|l| (format!("nodes_{l}"), state.arena.at_level(l).len() as f64));
        let extras = nodes.chain([("violation".to_string(), chain.figures.violation)]).collect();
        let components = state.occupied_atoms() as u32;
        Ok(Report { objective: chain.figures.charged, components, converged: false, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Answer> {
        if let Ask::Move(movement) = ask {
            return Ok(Answer { moved: List(movement.rows(block)), ..Answer::default() });
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

    /// A chain that version 1 kept goes on.
    #[test]
    fn earlier_states_are_read() {
        let state = State::new(2, 3, None, concentrations(2, 0.7, 1.3, 0.9));
        let (kernel, figures) = (known(&[0.5, 1.0, 2.0], 1, 0.5, 4.0), Figures { complete: -3.5, ..Figures::default() });
        let first = First { state: state.clone(), kernel: kernel.clone(), features: None, said: vec!["x".into()], figures };
        let chain = TreeSampler::convert(1, &postcard::to_stdvec(&first).unwrap()).unwrap();
        assert_eq!((chain.state, chain.kernel, chain.figures, chain.principal), (state, kernel, figures, None));
        assert_eq!(chain.said, ["x"]);
        assert!(TreeSampler::convert(2, &[]).is_none());
    }
}
