//! The samplers as a program.
//!
//! What concerns the tree as a whole is the work of one thread, on rows that are gathered in the first sweep and kept beside the state.
//! They are not part of it: a chain that goes on from a checkpoint gathers them again and makes the same draws. Rows choose path and atom
//! there, one after the other (`sequential`), or where they are, in blocks, all at once (`slice`, `anchored`): the draws are then the same
//! for any number of threads.

use serde::{Deserialize, Serialize};

use super::components::Kernel;
use super::draws::{Draw, Figures};
use super::sampler::{Move, Rules, Sampler};
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
    /// Components with their prior; what they share begins as it is here.
    pub(crate) kernel: Kernel,
    /// What a sweep does.
    pub(crate) rules: Rules,
    /// Concentrations, or where they begin.
    pub(crate) concentrations: Concentrations,
    /// Components of a finite mixture.
    pub(crate) finite: Option<usize>,
}

/// What a chain knows between two sweeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) state: State,
    /// What all atoms share, if something.
    pub(crate) shared: Option<f64>,
    pub(crate) figures: Figures,
    /// Rows, gathered as they are needed.
    #[serde(skip)]
    pub(crate) x: Vec<f64>,
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
    fn at_work<T>(&self, chain: &mut Chain, cols: usize, work: impl FnOnce(&mut Sampler<'_>) -> Result<T>) -> Result<T> {
        let mut kernel = self.kernel.clone();
        if let Some(shared) = chain.shared {
            kernel.set_shared(shared);
        }
        let depth = chain.state.arena.depth();
        let state = std::mem::replace(&mut chain.state, State::new(depth, 0, self.finite, self.concentrations.clone()));
        let mut sampler = Sampler::new(&chain.x, cols, kernel, self.rules.clone(), state);
        let done = work(&mut sampler);
        let complete = sampler.complete_ln_likelihood();
        let (violation, ln_charge) = sampler.charged();
        chain.shared = sampler.kernel.shared();
        chain.figures = Figures { complete, charged: complete + ln_charge, violation, shared: chain.shared.unwrap_or(f64::NAN) };
        chain.state = sampler.state;
        done
    }
}

impl Program for TreeSampler {
    const NAME: &'static str = "tree";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Chain;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Answer;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Chain> {
        let (depth, shape) = (self.concentrations.alpha.len(), rows.shape());
        let state = State::new(depth, shape.rows, self.finite, self.concentrations.clone());
        let x = rows.all(&Ask::Cells)?.cells.0;
        let mut chain = Chain { state, shared: self.kernel.shared(), figures: Figures::default(), x };
        let mut rng = stream.rng();
        self.at_work(&mut chain, shape.cols, |sampler| {
            sampler.start(&mut rng)?;
            sampler.draw_theta(&mut rng)
        })?;
        Ok(chain)
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, chain: &mut Chain, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        if chain.x.is_empty() {
            chain.x = rows.all(&Ask::Cells)?.cells.0;
        }
        let mut rng = tick.stream.rng();
        let cols = rows.shape().cols;
        let swept = self.at_work(chain, cols, |sampler| match self.choose {
            Choose::InTurn => sampler.sweep(&mut rng),
            Choose::Slices => {
                let ask = Ask::Move(Box::new(sampler.sliced_move(&mut rng)?));
                let moved = rows.all(&ask)?.moved.0;
                sampler.take_in(&moved);
                sampler.sweep_rest(&mut rng)
            }
            Choose::Anchors => {
                let ask = Ask::Move(Box::new(sampler.anchored_move(&mut rng)));
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

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), _: &mut (), stream: Stream) -> Result<Answer> {
        if let Ask::Move(movement) = ask {
            return Ok(Answer { moved: List(movement.rows(block, &mut stream.rng())), ..Answer::default() });
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

/// The same error, knowing when it happened.
fn in_sweep(error: Error, sweep: u64) -> Error {
    match error {
        Error::Numerical { what, detail, .. } => Error::Numerical { what, sweep, detail },
        other => other,
    }
}
