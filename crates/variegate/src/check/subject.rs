//! What a sampler must offer to be checked.

use rand::Rng;

use crate::data::Dataset;
use crate::run::{Block, Philox, Program, Purpose, Rows, Shape, Stream, Threads, Tick, blocks};
use crate::{Error, Result};

/// A sampler together with the joint distribution p(unknowns) p(data | unknowns) that its sweeps should leave invariant.
///
/// The unknowns must hold everything that a sweep conditions on. A sweep that begins by drawing its row-level latents afresh
/// (given parameters and data) needs the parameters only; one that begins by reading latents from the last sweep needs them too:
/// they are then part of the unknowns, drawn in [`prior`](Self::prior), conditioned on in [`simulate`](Self::simulate), and
/// put into the locals by [`install`](Self::install). Keep the data tiny (5 to 20 rows): errors show best where the prior matters.
/// Choose priors with enough finite moments for the test functions.
pub trait Checkable: Send + Sync {
    /// The sampler.
    type Program: Program;
    /// Parameters, and latents where the sweep conditions on them.
    type Unknowns: Send;

    /// What is checked, as reports name it.
    fn title(&self) -> String {
        Self::Program::NAME.to_string()
    }

    /// Rows of a block. Small, so that even tiny data are cut and merged.
    fn block_rows(&self) -> usize {
        4
    }

    /// A draw from the prior.
    fn prior(&self, rng: &mut Philox) -> Result<Self::Unknowns>;

    /// Data given the unknowns; also the features, where they are part of the model or may vary from draw to draw.
    fn simulate(&self, unknowns: &Self::Unknowns, rng: &mut Philox) -> Result<Dataset<'static>>;

    /// The program for these data.
    fn program(&self, data: &Dataset<'_>) -> Result<Self::Program>;

    /// A state of the program that holds exactly these unknowns.
    fn install(&self, program: &Self::Program, unknowns: Self::Unknowns, blocks: &[Block<'_>]) -> Result<Installed<Self::Program>>;

    /// The unknowns that a state holds.
    fn recover(
        &self,
        program: &Self::Program,
        global: &<Self::Program as Program>::Global,
        locals: &[<Self::Program as Program>::Local],
    ) -> Result<Self::Unknowns>;

    /// Names of the test functions.
    fn names(&self) -> Vec<String>;

    /// Appends the values of the test functions, in the order of their names. Functions of unknowns and data together (the log
    /// likelihood above all) find errors that functions of the unknowns alone do not.
    fn functions(&self, unknowns: &Self::Unknowns, data: &Dataset<'_>, out: &mut Vec<f64>);
}

/// The state of a program between two sweeps.
pub struct Installed<P: Program> {
    /// What every row sees.
    pub global: P::Global,
    /// What the blocks keep, in their order; `None` takes the program's own start, for programs whose sweeps begin by refreshing it.
    pub locals: Option<Vec<P::Local>>,
}

/// Values of the test functions; an error if there are not as many as names.
pub(super) fn evaluate<S: Checkable>(
    subject: &S,
    unknowns: &S::Unknowns,
    data: &Dataset<'_>,
    expected: usize,
    out: &mut Vec<f64>,
) -> Result<()> {
    out.clear();
    subject.functions(unknowns, data, out);
    if out.len() == expected {
        Ok(())
    } else {
        Err(Error::Unfit(format!("{} has {expected} names for {} test functions", subject.title(), out.len())))
    }
}

/// Where in a check a random number is used.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Prior = 0,
    Data = 1,
    Chain = 2,
    Ties = 3,
}

/// The generator for one role at one place of a check: `group` separates checks and their chains, `index` counts within.
pub(super) fn rng(seed: u64, group: u32, index: u64, role: Role) -> Philox {
    Stream::new(seed, group, Purpose::Check).sweep(index).item(role as u64).rng()
}

/// An exact draw from the joint distribution.
pub(super) fn exact<S: Checkable>(subject: &S, seed: u64, group: u32, index: u64) -> Result<(S::Unknowns, Dataset<'static>)> {
    let unknowns = subject.prior(&mut rng(seed, group, index, Role::Prior))?;
    let data = subject.simulate(&unknowns, &mut rng(seed, group, index, Role::Data))?;
    Ok((unknowns, data))
}

/// Calls `f` with the program for some data and the blocks these are cut into.
pub(super) fn with_blocks<S: Checkable, T>(
    subject: &S,
    data: &Dataset<'_>,
    f: impl FnOnce(&S::Program, &[Block<'_>], Shape) -> Result<T>,
) -> Result<T> {
    let program = subject.program(data)?;
    let block_rows = subject.block_rows().max(1);
    let blocks = blocks(data, block_rows);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows };
    f(&program, &blocks, shape)
}

/// One sweep from the given unknowns, with random numbers that belong to this place of the check only.
pub(super) fn one_sweep<S: Checkable>(
    subject: &S,
    unknowns: S::Unknowns,
    data: &Dataset<'_>,
    seed: u64,
    group: u32,
    index: u64,
) -> Result<S::Unknowns> {
    with_blocks(subject, data, |program, blocks, shape| {
        let Installed { mut global, locals } = subject.install(program, unknowns, blocks)?;
        // A seed of its own, because the start of locals is addressed by seed and chain alone.
        let seed = rng(seed, group, index, Role::Chain).next_u64();
        let mut rows = Threads::new(program, blocks, shape, seed, group, locals);
        // The true number of the sweep, for programs that do something else every other sweep.
        advance(program, &mut global, &mut rows, seed, group, index + 1, false)?;
        subject.recover(program, &global, &rows.locals)
    })
}

/// Does one numbered sweep of a chain.
pub(super) fn advance<P: Program>(
    program: &P,
    global: &mut P::Global,
    rows: &mut Threads<'_, P>,
    seed: u64,
    chain: u32,
    sweep: u64,
    warm_up: bool,
) -> Result<()> {
    rows.begin(sweep);
    let stream = Stream::new(seed, chain, Purpose::Sweep).sweep(sweep);
    program.sweep(global, rows as &mut dyn Rows<P>, Tick { stream, sweep, warm_up })?;
    Ok(())
}
