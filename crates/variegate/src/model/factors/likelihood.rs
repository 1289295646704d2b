//! What the samplers ask of a likelihood: how rows look at atoms, how atoms are learned from rows.
//!
//! An *atom* is a factor: a vector φ over the columns. A row uses some of the atoms, each with a weight of its own. The samplers in
//! `sampler.rs` decide which atoms a row may take up or drop and at what odds; everything that depends on the distribution of the data is here.

use rand::Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::data::X;
use crate::run::{Block, Merge, Philox};

/// An atom in use by a row: its place among the atoms, and its weight there.
pub type Entry = (u32, f64);

/// A row as a likelihood sees it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The rows of its block.
    pub x: X<'a>,
    /// Its place in the block.
    pub at: usize,
    /// Its source.
    pub source: usize,
    /// What stands in for its missing entries, in their order; empty if there are none.
    pub filled: &'a [f64],
}

/// A kind of scale: a number that governs atoms or weights, or how far rows are from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Its name in draws.
    pub name: &'static str,
    /// Its name among the arrays of a posterior.
    pub array: &'static str,
    /// Whether every source has its own.
    pub by_source: bool,
}

impl Scale {
    /// How many numbers it has.
    pub fn len(&self, sources: usize) -> usize {
        if self.by_source { sources } else { 1 }
    }
}

/// How a row's evidence counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tempering {
    /// Power of the likelihood: 1 in a fit, less along an annealed path.
    pub power: f64,
    /// Share of the whole row that was seen: 1, or less where a part of its counts is held back.
    pub exposure: f64,
}

impl Tempering {
    /// All of the row, at full weight.
    pub const NONE: Self = Self { power: 1.0, exposure: 1.0 };
}

/// Attempts to give a row an atom of its own, or to take one away.
#[derive(Debug, Clone, Copy)]
pub struct Attempts {
    /// Log rate of atoms that only this row uses: ln(τ A(e_j)).
    pub ln_rate: f64,
    /// How many attempts.
    pub count: usize,
    /// Whether there is room for new atoms.
    pub room: bool,
}

/// What the attempts led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// New atoms: weight in the row, and φ.
    pub born: Vec<(f64, Vec<f64>)>,
    /// Places of atoms that are gone.
    pub died: Vec<u32>,
    /// Private atoms whose φ was drawn anew.
    pub redrawn: Vec<(u32, Vec<f64>)>,
}

/// Rows of one half of an atom that is split, or of one of two that are merged: φ integrated out. Sums of rows that others have added up
/// are merged in.
pub trait Side: Merge {
    /// What a row brings.
    type Contribution;
    /// Neither rows nor a prior: adds up rows to be merged into a side, and is good for nothing else.
    fn sums(&self) -> Self;
    /// Takes in a row.
    fn add(&mut self, row: &Self::Contribution);
    /// Log probability of a row given the rows that are in.
    fn ln_predictive(&self, row: &Self::Contribution) -> f64;
    /// Log probability of all rows that are in, up to a factor that does not depend on how rows are divided.
    fn ln_marginal(&self) -> f64;
    /// φ given the rows that are in.
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<Vec<f64>>;
}

/// An atom that a new row alone uses: no row of the fit does. What it has where the row is zero is known by its sum alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Own {
    /// Its weight in the row.
    pub weight: f64,
    /// Its entries where the row is not zero, in the order in which the likelihood takes up its columns.
    pub seen: Vec<f64>,
    /// The sum of its other entries.
    pub rest: f64,
    /// What the row owes to it, in the order of `seen`.
    pub owed: Vec<f64>,
}

/// The distribution of the data given atoms and weights, and of these given what governs them.
pub trait Likelihood: Send + Sync + Sized + 'static {
    /// Name of the program, as checkpoints carry it.
    const NAME: &'static str;
    /// [`Program::RELEASES`](crate::run::Program::RELEASES).
    const RELEASES: &'static [&'static str];
    /// Rates or precisions: of atoms, and of each source's weights and noise.
    type Scales: Clone + Serialize + DeserializeOwned + Send + Sync;
    /// Atoms and scales as rows need them, made anew whenever atoms change.
    type View: Clone + Serialize + DeserializeOwned + Send + Sync;
    /// Buffers of a thread; between `begin` and `finish` they hold the row that is worked on.
    type Scratch: Default + Send;
    /// The same for new rows; between two calls of `meet` they hold one row.
    type Placing: Default + Send;
    /// What rows report of a scan, to learn atoms and scales from.
    type Sums: Default + Merge + Serialize + DeserializeOwned + Send;
    /// What a row reports of an atom that may be split or merged.
    type Contribution: Clone + Serialize + DeserializeOwned + Send;
    /// Such rows together.
    type Side: Side<Contribution = Self::Contribution> + Clone + Serialize + DeserializeOwned + Send + Sync;

    /// Scans of a new row that its coordinates are averaged over, for each draw.
    const SCANS: usize;

    /// Whether new rows have `own_moves`.
    const OWN: bool = false;

    /// The kinds of scales.
    const SCALES: &'static [Scale];

    /// Number of columns.
    fn width(&self) -> usize;

    /// The scales as numbers, in the order of their kinds.
    fn scale_values(scales: &Self::Scales) -> Vec<Vec<f64>>;

    /// The scales from their numbers, in the same order.
    fn scales_of(values: &[Vec<f64>]) -> Self::Scales;

    /// Scales from their prior, or those that are known.
    fn prior_scales(&self, rng: &mut Philox) -> Result<Self::Scales>;

    /// A row given Σ φ w, on the scale that is modelled.
    fn draw_row(&self, scales: &Self::Scales, source: usize, mix: &[f64], rng: &mut Philox) -> Result<Vec<f64>>;

    /// Log density of a row, on the scale that is modelled, given Σ φ w.
    fn ln_density(&self, scales: &Self::Scales, source: usize, mix: &[f64], x: &[f64]) -> f64;

    /// Scales to start with.
    fn start(&self) -> Self::Scales;

    /// The scales with one source more, the average of those there are: what is assumed of a source that was not seen.
    fn with_unseen_source(&self, scales: &Self::Scales) -> Self::Scales;

    /// Atoms (one row of `phi` each, `count` of them) and scales as rows need them.
    fn view(&self, phi: &[f64], count: usize, scales: &Self::Scales) -> Self::View;

    /// The same for a scan of all rows, which may need more.
    fn scan_view(&self, phi: &[f64], count: usize, scales: &Self::Scales) -> Self::View {
        self.view(phi, count, scales)
    }

    /// φ of the one atom that a fit begins with, in every row with weight 1; none begins without atoms.
    fn first_atom(&self) -> Option<Vec<f64>> {
        None
    }

    /// φ of an atom that would explain a row by itself; nothing where it has nothing to explain. Not every likelihood has them.
    fn seed(&self, row: Row<'_>) -> Option<Vec<f64>> {
        let _ = row;
        None
    }

    /// Moves the weights of a row uphill, those of all atoms where it has none yet, and reports what it owes to the atoms: for atoms that
    /// were seeded. At the `last` time atoms that hardly matter to the row are left out.
    fn climb(
        &self,
        view: &Self::View,
        row: Row<'_>,
        last: bool,
        entries: &mut Vec<Entry>,
        scratch: &mut Self::Scratch,
        sums: &mut Self::Sums,
    ) {
        let _ = (view, row, last, entries, scratch, sums);
    }

    /// The most probable φ of seeded atoms given what rows reported, up to what the prior knows.
    fn settle(&self, phi: &mut [f64], sums: &Self::Sums) {
        let _ = (phi, sums);
    }

    /// φ of an atom that nobody uses.
    fn prior_atom(&self, scales: &Self::Scales, rng: &mut Philox) -> Result<Vec<f64>>;

    /// Weight of an atom in a row, from its prior.
    fn prior_weight(&self, scales: &Self::Scales, source: usize, rng: &mut Philox) -> Result<f64>;

    /// First values of the missing entries of a block; empty where entries cannot be missing.
    fn fill(&self, block: &Block<'_>) -> Vec<f64>;

    /// Products of a whole block that a scan of all its rows needs. `filled` stands in for the missing entries of the block, in order.
    fn prepare(&self, view: &Self::View, x: X<'_>, sources: &[u32], filled: &[f64], scratch: &mut Self::Scratch);

    /// Takes up a row of the block that was prepared.
    fn begin(&self, view: &Self::View, row: Row<'_>, entries: &[Entry], tempering: Tempering, scratch: &mut Self::Scratch);

    /// Draws whether the row uses an atom (and with what weight), at these prior log odds; tells whether it does.
    fn update(&self, view: &Self::View, atom: usize, ln_odds: f64, scratch: &mut Self::Scratch, rng: &mut Philox) -> Result<bool>;

    /// Draws the weight of an atom that the row must keep.
    fn refresh(&self, view: &Self::View, atom: usize, scratch: &mut Self::Scratch, rng: &mut Philox) -> Result<()>;

    /// Moves of two atoms at once: `ln_odds` of every atom, and whether the row may change its use of it. Not every likelihood has them.
    fn pairs(&self, view: &Self::View, ln_odds: &[f64], free: &[bool], scratch: &mut Self::Scratch, rng: &mut Philox) -> Result<()> {
        let _ = (view, ln_odds, free, scratch, rng);
        Ok(())
    }

    /// Ends a scan of the row: draws what is left to draw given which atoms are used, and lists them in ascending order of place.
    fn finish(&self, view: &Self::View, scratch: &mut Self::Scratch, rng: &mut Philox, entries: &mut Vec<Entry>) -> Result<()>;

    /// Reports a row that was finished: latent counts, products, log likelihood. Missing entries are drawn anew into `filled` first.
    fn report(
        &self,
        view: &Self::View,
        row: Row<'_>,
        entries: &[Entry],
        filled: &mut [f64],
        scratch: &mut Self::Scratch,
        rng: &mut Philox,
        sums: &mut Self::Sums,
    ) -> Result<()>;

    /// Log probability of the row that is being worked on, given the atoms it uses now (weights given, or integrated out where
    /// `update` does that), up to [`Likelihood::ln_constant`]: what an annealed path weighs. Not tempered.
    fn ln_row(&self, view: &Self::View, scratch: &Self::Scratch) -> f64;

    /// What `ln_row` leaves out: it depends on the row alone.
    fn ln_constant(&self, row: Row<'_>) -> f64 {
        let _ = row;
        0.0
    }

    /// Takes up the row that was begun last once more, with other entries or at another power: what does not depend on these is kept.
    fn begin_again(&self, view: &Self::View, row: Row<'_>, entries: &[Entry], power: f64, scratch: &mut Self::Scratch) {
        self.begin(view, row, entries, Tempering { power, exposure: 1.0 }, scratch);
    }

    /// Shape and rate of weights in a source; nothing where `update` integrates them out.
    fn weight_prior(&self, scales: &Self::Scales, source: usize) -> Option<(f64, f64)> {
        let _ = (scales, source);
        None
    }

    /// `update` with this shape and rate of the weight instead of those of its prior.
    fn update_under(
        &self,
        view: &Self::View,
        atom: usize,
        ln_odds: f64,
        weight: (f64, f64),
        scratch: &mut Self::Scratch,
        rng: &mut Philox,
    ) -> Result<bool> {
        let _ = weight;
        self.update(view, atom, ln_odds, scratch, rng)
    }

    /// Shape and rate of the distribution that `finish` drew the weight of entry number `place` from, or without a place that of an atom
    /// which no count came from; nothing as `weight_prior`.
    fn weight_given_counts(&self, view: &Self::View, scratch: &Self::Scratch, place: Option<usize>, atom: u32) -> Option<(f64, f64)> {
        let _ = (view, scratch, place, atom);
        None
    }

    /// The distribution of what was observed of a row, the atoms as these columns see them, and the entries; nothing where no entry is
    /// missing.
    fn observed(&self, view: &Self::View, row: Row<'_>) -> Option<(Self, Self::View, Vec<f64>)> {
        let _ = (view, row);
        None
    }

    /// Products of a panel of new rows with the atoms, the same number for each row; none where rows need none.
    fn products(&self, view: &Self::View, x: X<'_>, sources: &[u32]) -> Vec<f64>;

    /// Takes up a new row, whose products these are and which uses these atoms. Of the whole row the share `exposure` was seen. Missing entries
    /// are integrated out.
    fn meet(&self, view: &Self::View, row: Row<'_>, products: &[f64], entries: &[Entry], exposure: f64, placing: &mut Self::Placing);

    /// Gives the row that was met atoms of its own; the list is left empty.
    fn take_own(&self, placing: &mut Self::Placing, own: &mut Vec<Own>) {
        let _ = (placing, own);
    }

    /// Puts the atoms of the row's own back into the list: the row is done with.
    fn leave_own(&self, placing: &mut Self::Placing, own: &mut Vec<Own>) {
        let _ = (placing, own);
    }

    /// Draws whether the new row uses these atoms, one after the other, as `update` does of rows of a fit. `ln_odds` has those of every atom.
    fn ask(&self, view: &Self::View, atoms: &[u32], ln_odds: &[f64], placing: &mut Self::Placing, rng: &mut Philox) -> Result<()>;

    /// Births and deaths of atoms of the new row's own, and new values of those it has; the log rate of such atoms is `ln_rate`. Atoms that no row of the
    /// fit uses are found that way where `OWN` says so, and drawn from their prior otherwise.
    fn own_moves(&self, view: &Self::View, ln_rate: f64, placing: &mut Self::Placing, rng: &mut Philox) -> Result<()> {
        let _ = (view, ln_rate, placing, rng);
        Ok(())
    }

    /// Atoms that the new row uses now, ascending; weights where they are part of the state.
    fn met(&self, placing: &Self::Placing, entries: &mut Vec<Entry>);

    /// Adds to `out`, which has a number for each atom, what its weight in the new row is expected to be given the state of the row after
    /// a scan, as much of it integrated out as can be: what is added has the mean of the weights themselves, and varies less.
    fn add_expected(&self, view: &Self::View, ln_odds: &[f64], placing: &Self::Placing, out: &mut [f64]);

    /// Atoms that the row that is being worked on uses now, ascending; weights where they are part of the state.
    fn list(&self, scratch: &Self::Scratch, entries: &mut Vec<Entry>);

    /// What a row of a source is expected to be given the atoms it uses.
    fn expected(&self, view: &Self::View, source: usize, entries: &[Entry], out: &mut [f64]);

    /// How large an atom is: what makes weights of different atoms comparable.
    fn size(&self, phi: &[f64]) -> f64;

    /// Births and deaths of atoms that this row alone uses; `private` tells which atoms are such. `entries` is left as it is.
    fn private_moves(
        &self,
        view: &Self::View,
        row: Row<'_>,
        entries: &[Entry],
        private: &[bool],
        attempts: Attempts,
        scratch: &mut Self::Scratch,
        rng: &mut Philox,
    ) -> Result<Changes>;

    /// What the row tells of the atom (or of those two, of which it uses one) that may be split (or merged).
    fn contribution(
        &self,
        view: &Self::View,
        row: Row<'_>,
        entries: &[Entry],
        atoms: &[u32],
        scratch: &mut Self::Scratch,
        rng: &mut Philox,
    ) -> Result<Self::Contribution>;

    /// A side without rows.
    fn side(&self, scales: &Self::Scales) -> Self::Side;

    /// Leaves in the sums the atoms at these places alone, out of `count`.
    fn keep(&self, sums: &mut Self::Sums, kept: &[usize], count: usize);

    /// Log likelihood of all rows as reported, at the scales that the rows saw.
    fn ln_likelihood(&self, scales: &Self::Scales, sums: &Self::Sums, rows: &[u64]) -> f64;

    /// Log density of atoms, weights and scales, or of their logarithms where they are positive. `uses` has the number of rows of each source and atom, one source a row.
    fn ln_prior(&self, phi: &[f64], scales: &Self::Scales, sums: &Self::Sums, uses: &[u64]) -> f64;

    /// How much of each source each atom carries (mass, or sum of squares), one source a row.
    fn carried(&self, phi: &[f64], sums: &Self::Sums, sources: usize) -> Vec<f64>;

    /// Draws what can be known of the shape of atoms without them, given what the rows reported of `count` atoms. `learn` must follow.
    fn learn_shape(&self, scales: &mut Self::Scales, sums: &Self::Sums, count: usize, rng: &mut Philox) -> Result<()> {
        let _ = (scales, sums, count, rng);
        Ok(())
    }

    /// Draws atoms and scales given what the rows reported, and moves the scale of each atom: gives the factors that φ was multiplied
    /// by, by which rows must divide their weights.
    fn learn(
        &self,
        phi: &mut [f64],
        scales: &mut Self::Scales,
        sums: &Self::Sums,
        uses: &[u64],
        rows: &[u64],
        rng: &mut Philox,
    ) -> Result<Vec<f64>>;
}
