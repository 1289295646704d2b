//! One chain of a program over the data, with its type forgotten, so that the driver serves every program.

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::borrow::Cow;

use super::engine::ChainRows;
use super::state::{self, Kind, StateError};
use super::worker::{self, Worker};
use super::{Draws, Engine, Program, Purpose, Report, Rows, Shape, Stream, Tick};
use crate::Result;

/// Saved state of a chain between two sweeps. Locals are kept apart from each other, so that a block can move alone.
#[derive(Serialize, Deserialize)]
struct Saved {
    seed: u64,
    chain: u32,
    sweeps: u64,
    shape: Shape,
    global: Vec<u8>,
    /// One a block; none where the blocks are still to make their first ones, and where the state is kept for its results alone.
    locals: Vec<Vec<u8>>,
}

/// Name of the kind of a saved chain; its versions are those of the program.
fn chain_name<P: Program>() -> String {
    format!("{} chain", P::NAME)
}

impl Saved {
    /// The saved state of any chain; what an earlier version wrote is converted where the program can.
    fn read<P: Program>(bytes: &[u8]) -> Result<Self, StateError> {
        state::unseal_older(Kind::new(&chain_name::<P>(), P::RELEASES), bytes, |older| {
            let mut saved: Saved = older.decode()?;
            let global = P::convert(older.version, &saved.global).ok_or_else(|| older.refused())?;
            saved.global = postcard::to_stdvec(&global)?;
            Ok(saved)
        })
    }

    /// The saved state of a chain, which must be this one.
    fn unseal<P: Program>(bytes: &[u8], shape: Shape, seed: u64, chain: u32) -> Result<Self> {
        let saved = Self::read::<P>(bytes)?;
        if (saved.seed, saved.chain) != (seed, chain) || saved.shape != shape {
            return Err(StateError::Contents("it belongs to another seed, chain or data shape".into()).into());
        }
        Ok(saved)
    }

    fn seal<P: Program>(&self) -> Result<Vec<u8>> {
        Ok(state::seal(Kind::new(&chain_name::<P>(), P::RELEASES), self)?)
    }

    fn global<P: Program>(&self) -> Result<P::Global, StateError> {
        Ok(postcard::from_bytes(&self.global)?)
    }
}

/// The global state inside a saved chain: what a posterior is made of.
pub fn saved_global<P: Program>(bytes: &[u8]) -> Result<P::Global, StateError> {
    Saved::read::<P>(bytes)?.global::<P>()
}

/// A running chain.
pub trait Chain: Send {
    /// Sweeps done so far.
    fn sweeps(&self) -> u64;
    /// Does one sweep.
    fn advance(&mut self, warm_up: bool) -> Result<Report>;
    /// [`Program::works_on`].
    fn works_on(&self) -> Option<String>;
    /// Keeps the present state as a draw.
    fn keep(&self, out: &mut Draws);
    /// One step of the closing stage of the run; true with the last one.
    fn close(&mut self) -> Result<bool>;
    /// The state, sealed: all of it, or the global state alone, which is enough for results but cannot be gone on with.
    fn save(&mut self, whole: bool) -> Result<Vec<u8>>;
}

/// A program whose types are forgotten.
pub trait AnyProgram: Send + Sync {
    /// [`Program::NAME`].
    fn name(&self) -> &'static str;
    /// A chain at its start, or where it was saved.
    fn open<'a>(&'a self, engine: Engine<'a>, shape: Shape, seed: u64, chain: u32, saved: Option<&[u8]>) -> Result<Box<dyn Chain + 'a>>;
    /// [`Program::offspring`]: from the sealed states of all chains, in order, to the sealed first states of chains `first`, `first` + 1, …
    fn offspring(
        &self,
        shape: Shape,
        seed: u64,
        first: u32,
        finished: &mut dyn Iterator<Item = Result<Cow<'_, [u8]>>>,
    ) -> Result<Vec<Vec<u8>>>;
    /// [`Program::closing`], with sealed states of chain 0.
    fn closing(
        &self,
        shape: Shape,
        seed: u64,
        lengths: &[u64],
        first: &mut dyn FnMut() -> Result<Vec<u8>>,
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Vec<u8>>>;
    /// Chain 0 for the closing stage of a run, in this state.
    fn open_closing<'a>(&'a self, engine: Engine<'a>, shape: Shape, seed: u64, saved: &[u8]) -> Result<Box<dyn Chain + 'a>>;
    /// What a worker of this program keeps of chains before there are any.
    fn no_chains(&self) -> Box<dyn Any + Send + Sync>;
    /// What a worker of this program answers.
    fn answer(&self, worker: &Worker, call: &[u8]) -> Vec<u8>;
}

impl<P: Program> AnyProgram for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn open<'a>(&'a self, engine: Engine<'a>, shape: Shape, seed: u64, chain: u32, saved: Option<&[u8]>) -> Result<Box<dyn Chain + 'a>> {
        Ok(Box::new(match saved {
            Some(bytes) => Typed::load(self, engine, shape, seed, chain, bytes)?,
            None => Typed::start(self, engine, shape, seed, chain)?,
        }))
    }

    fn offspring(
        &self,
        shape: Shape,
        seed: u64,
        first: u32,
        finished: &mut dyn Iterator<Item = Result<Cow<'_, [u8]>>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut globals = (0..).zip(finished).map(|(chain, sealed)| Ok(Saved::unseal::<P>(&sealed?, shape, seed, chain)?.global::<P>()?));
        let born = Program::offspring(self, &mut globals, Stream::new(seed, first, Purpose::Offspring))?;
        let seal = |(chain, global): (u32, P::Global)| {
            let global = postcard::to_stdvec(&global).map_err(StateError::from)?;
            Saved { seed, chain, sweeps: 0, shape, global, locals: Vec::new() }.seal::<P>()
        };
        (first..).zip(born).map(seal).collect()
    }

    fn closing(
        &self,
        shape: Shape,
        seed: u64,
        lengths: &[u64],
        first: &mut dyn FnMut() -> Result<Vec<u8>>,
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Vec<u8>>> {
        let mut saved = None;
        let mut global = || {
            let found = saved.insert(Saved::unseal::<P>(&first()?, shape, seed, 0)?);
            Ok(found.global::<P>()?)
        };
        let Some(global) = Program::closing(self, lengths, &mut global, draws)? else { return Ok(None) };
        let saved = match saved {
            Some(saved) => saved,
            None => Saved::unseal::<P>(&first()?, shape, seed, 0)?,
        };
        let global = postcard::to_stdvec(&global).map_err(StateError::from)?;
        Ok(Some(Saved { global, ..saved }.seal::<P>()?))
    }

    fn open_closing<'a>(&'a self, engine: Engine<'a>, shape: Shape, seed: u64, saved: &[u8]) -> Result<Box<dyn Chain + 'a>> {
        let saved = Saved::unseal::<P>(saved, shape, seed, 0)?;
        Ok(Box::new(Closing { chain: Typed::at(self, engine, shape, seed, 0, saved.global::<P>()?)?, saved }))
    }

    fn no_chains(&self) -> Box<dyn Any + Send + Sync> {
        worker::no_chains::<P>()
    }

    fn answer(&self, worker: &Worker, call: &[u8]) -> Vec<u8> {
        worker::answer_bytes(self, worker, call)
    }
}

/// A chain whose program is known: what [`AnyProgram::open`] hides, and what checks of samplers work on.
pub struct Typed<'a, P: Program> {
    program: &'a P,
    rows: Box<dyn ChainRows<P> + 'a>,
    /// The global state.
    pub global: P::Global,
    seed: u64,
    chain: u32,
    sweeps: u64,
}

impl<'a, P: Program> Typed<'a, P> {
    /// A new chain.
    pub fn start(program: &'a P, engine: impl Into<Engine<'a>>, shape: Shape, seed: u64, chain: u32) -> Result<Self> {
        let mut rows = engine.into().rows(program, shape, seed, chain, None)?;
        rows.begin(0)?;
        let global = program.start(&mut *rows, Stream::new(seed, chain, Purpose::Start))?;
        Ok(Self { program, rows, global, seed, chain, sweeps: 0 })
    }

    /// A chain that begins at a given global state instead of the program's own start.
    pub fn at(program: &'a P, engine: impl Into<Engine<'a>>, shape: Shape, seed: u64, chain: u32, global: P::Global) -> Result<Self> {
        let rows = engine.into().rows(program, shape, seed, chain, None)?;
        Ok(Self { program, rows, global, seed, chain, sweeps: 0 })
    }

    fn load(program: &'a P, engine: Engine<'a>, shape: Shape, seed: u64, chain: u32, bytes: &[u8]) -> Result<Self> {
        let saved = Saved::unseal::<P>(bytes, shape, seed, chain)?;
        let global = saved.global::<P>()?;
        if !saved.locals.is_empty() && saved.locals.len() != shape.blocks as usize {
            return Err(StateError::Contents("it has the wrong number of blocks".into()).into());
        }
        if saved.locals.is_empty() && saved.sweeps > 0 {
            return Err(StateError::Contents("it was kept for its results alone, and cannot be gone on with".into()).into());
        }
        let locals = (!saved.locals.is_empty()).then_some(saved.locals);
        let rows = engine.rows(program, shape, seed, chain, locals)?;
        Ok(Self { program, rows, global, seed, chain, sweeps: saved.sweeps })
    }

    /// The rows, for checks that visit them.
    pub fn rows(&mut self) -> &mut dyn Rows<P> {
        &mut *self.rows
    }
}

impl<P: Program> Chain for Typed<'_, P> {
    fn sweeps(&self) -> u64 {
        self.sweeps
    }

    fn advance(&mut self, warm_up: bool) -> Result<Report> {
        let sweep = self.sweeps + 1;
        self.rows.begin(sweep)?;
        let stream = Stream::new(self.seed, self.chain, Purpose::Sweep).sweep(sweep);
        let report = self.program.sweep(&mut self.global, &mut *self.rows, Tick { stream, sweep, warm_up })?;
        self.sweeps = sweep;
        Ok(report)
    }

    fn works_on(&self) -> Option<String> {
        self.program.works_on(&self.global)
    }

    fn keep(&self, out: &mut Draws) {
        self.program.draw(&self.global, out);
        out.finish();
    }

    /// Not its task: see `Closing`.
    fn close(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn save(&mut self, whole: bool) -> Result<Vec<u8>> {
        let global = postcard::to_stdvec(&self.global).map_err(StateError::from)?;
        let locals = if whole { self.rows.save()? } else { Vec::new() };
        let (seed, chain, sweeps, shape) = (self.seed, self.chain, self.sweeps, self.rows.shape());
        Saved { seed, chain, sweeps, shape, global, locals }.seal::<P>()
    }
}

/// Chain 0 in the closing stage of a run. All but its global state stays as it was saved.
struct Closing<'a, P: Program> {
    chain: Typed<'a, P>,
    saved: Saved,
}

impl<P: Program> Chain for Closing<'_, P> {
    fn sweeps(&self) -> u64 {
        self.saved.sweeps
    }

    fn advance(&mut self, warm_up: bool) -> Result<Report> {
        self.chain.advance(warm_up)
    }

    fn works_on(&self) -> Option<String> {
        self.chain.works_on()
    }

    fn keep(&self, out: &mut Draws) {
        self.chain.keep(out);
    }

    fn close(&mut self) -> Result<bool> {
        let Typed { program, rows, global, seed, .. } = &mut self.chain;
        rows.begin(self.saved.sweeps)?;
        program.close(global, &mut **rows, Stream::new(*seed, 0, Purpose::Close))
    }

    fn save(&mut self, _: bool) -> Result<Vec<u8>> {
        self.saved.global = postcard::to_stdvec(&self.chain.global).map_err(StateError::from)?;
        self.saved.seal::<P>()
    }
}
