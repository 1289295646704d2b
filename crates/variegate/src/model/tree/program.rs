//! The sequential sampler as a program: rows are brought together once, and a sweep is the work of one thread.
//!
//! Each row must see what the one before it changed, so rows are gathered in the first sweep and kept beside the state. They are not
//! part of it: a chain that goes on from a checkpoint gathers them again and makes the same draws.

use serde::{Deserialize, Serialize};

use super::components::Kernel;
use super::draws::{Draw, Figures};
use super::sampler::{Rules, Sampler};
use super::state::{Concentrations, State};
use crate::run::{Block, Draws, List, Program, Report, Rows, Stream, Tick};
use crate::{Error, Result};

/// The model bound to its data, and how it is sampled.
#[derive(Debug, Clone)]
pub(crate) struct Sequential {
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

/// The only question: what the cells of the rows are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cells;

impl Sequential {
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

impl Program for Sequential {
    const NAME: &'static str = "tree/sequential";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Chain;
    type Local = ();
    type Ask<'a> = Cells;
    type Stats = List<f64>;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Chain> {
        let (depth, shape) = (self.concentrations.alpha.len(), rows.shape());
        let state = State::new(depth, shape.rows, self.finite, self.concentrations.clone());
        let x = rows.all(&Cells)?.0;
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
            chain.x = rows.all(&Cells)?.0;
        }
        let mut rng = tick.stream.rng();
        self.at_work(chain, rows.shape().cols, |sampler| sampler.sweep(&mut rng)).map_err(|error| in_sweep(error, tick.sweep))?;
        let state = &chain.state;
        let nodes = (1..=state.arena.depth()).map(|l| (format!("nodes_{l}"), state.arena.at_level(l).len() as f64));
        let extras = nodes.chain([("violation".to_string(), chain.figures.violation)]).collect();
        let components = state.occupied_atoms() as u32;
        Ok(Report { objective: chain.figures.charged, components, converged: false, extras })
    }

    fn visit(&self, _: &Cells, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<List<f64>> {
        let cols = block.x.cols();
        let mut cells = vec![0.0; block.rows() * cols];
        for (i, row) in cells.chunks_exact_mut(cols.max(1)).enumerate() {
            block.x.for_row(i, |j, value| row[j] = value);
        }
        Ok(List(cells))
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
