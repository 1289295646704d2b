//! What a sampler must offer to be checked.

use rand::Rng;

use super::generative::Generative;
use crate::data::Dataset;
use crate::run::{Block, Philox, Program, Purpose, Rows, Shape, Stream, Threads, Tick, blocks};
use crate::{Error, Result};

/// A sampler together with the joint distribution p(unknowns) p(data | unknowns) that its sweeps should leave invariant.
///
/// The unknowns must hold everything that a sweep conditions on. A sweep that begins by drawing its row-level latents afresh
/// (given parameters and data) needs the parameters only; one that begins by reading latents from the last sweep needs them too:
/// they are then part of the unknowns, drawn from the prior, conditioned on by the data, and put into the locals by
/// [`install`](Self::install). Keep the data tiny (5 to 20 rows): errors show best where the prior matters. Choose test functions that have
/// moments under every prior that may be set: bounded ones, or logarithms, of what has long tails.
pub trait Checkable: Send + Sync {
    /// The sampler.
    type Program: Program;
    /// The joint distribution.
    type Model: Generative;

    /// What is checked, as reports name it.
    fn title(&self) -> String {
        Self::Program::NAME.to_string()
    }

    /// Rows of a block. Small, so that even tiny data are cut and merged.
    fn block_rows(&self) -> usize {
        4
    }

    /// The joint distribution: the one that `simulate` draws from too.
    fn model(&self) -> &Self::Model;

    /// The program, made by what makes it for a fit.
    fn program(&self) -> &Self::Program;

    /// What tiny data are drawn given: features that may vary from draw to draw.
    fn given(&self, rng: &mut Philox) -> <Self::Model as Generative>::Given;

    /// Data as the program gets them; as they were drawn, unless rows are to be gathered.
    fn arrange(&self, data: Dataset<'static>) -> Dataset<'static> {
        data
    }

    /// A state of the program that holds exactly these unknowns.
    fn install(&self, unknowns: UnknownsOf<Self>, blocks: &[Block<'_>]) -> Result<Installed<Self::Program>>;

    /// The unknowns that a state holds.
    fn recover(
        &self,
        global: &<Self::Program as Program>::Global,
        locals: &[<Self::Program as Program>::Local],
    ) -> Result<UnknownsOf<Self>>;

    /// Names of the test functions.
    fn names(&self) -> Vec<String>;

    /// Appends the values of the test functions, in the order of their names. Functions of unknowns and data together (the log
    /// likelihood above all) find errors that functions of the unknowns alone do not.
    fn functions(&self, unknowns: &UnknownsOf<Self>, data: &Dataset<'_>, out: &mut Vec<f64>);

    /// Tiny data given the unknowns.
    fn tiny_data(&self, unknowns: &UnknownsOf<Self>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let given = self.given(rng);
        Ok(self.arrange(self.model().data(unknowns, &given, rng)?))
    }
}

/// The unknowns of a subject.
pub type UnknownsOf<S> = <<S as Checkable>::Model as Generative>::Unknowns;

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
    unknowns: &UnknownsOf<S>,
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
pub(super) fn exact<S: Checkable>(subject: &S, seed: u64, group: u32, index: u64) -> Result<(UnknownsOf<S>, Dataset<'static>)> {
    let unknowns = subject.model().prior(&mut rng(seed, group, index, Role::Prior))?;
    let data = subject.tiny_data(&unknowns, &mut rng(seed, group, index, Role::Data))?;
    Ok((unknowns, data))
}

/// Calls `f` with the program for some data and the blocks these are cut into.
pub(super) fn with_blocks<S: Checkable, T>(
    subject: &S,
    data: &Dataset<'_>,
    f: impl FnOnce(&S::Program, &[Block<'_>], Shape) -> Result<T>,
) -> Result<T> {
    let program = subject.program();
    let block_rows = subject.block_rows().max(1);
    let blocks = blocks(data, block_rows);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows };
    f(program, &blocks, shape)
}

/// One sweep from the given unknowns, with random numbers that belong to this place of the check only.
pub(super) fn one_sweep<S: Checkable>(
    subject: &S,
    unknowns: UnknownsOf<S>,
    data: &Dataset<'_>,
    seed: u64,
    group: u32,
    index: u64,
) -> Result<UnknownsOf<S>> {
    with_blocks(subject, data, |program, blocks, shape| {
        let Installed { mut global, locals } = subject.install(unknowns, blocks)?;
        // A seed of its own, because the start of locals is addressed by seed and chain alone.
        let seed = rng(seed, group, index, Role::Chain).next_u64();
        let mut rows = Threads::new(program, blocks, shape, seed, group, locals);
        // The true number of the sweep, for programs that do something else every other sweep.
        advance(program, &mut global, &mut rows, seed, group, index + 1, false)?;
        subject.recover(&global, rows.locals())
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
