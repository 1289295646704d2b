//! Fits under several input maps side by side, for `input_map` `auto`.
//!
//! Every map has a program of its own, the inputs as they are the first. A chain works under one map and asks rows by its number. All maps
//! but those with more features of the same kind fit the structures of the first generation. Where the search goes on by splits, it does so
//! under the best map by the criterion and under the inputs themselves, which structures may bend as well as features do; other searches go
//! to their end under every map. Where the best map is one of few features, the same with more of them is tried as well. Ascents under
//! maps are cut short until the best of them is known, which is then brought to its end.

use std::ops::Deref;

use rand::Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::job::{Job, Standing, State};
use super::pass::Scratch;
use super::pass::ask::{Ask, Local, TreeStats};
use super::program::Vb;
use super::search::Candidate;
use crate::Result;
use crate::run::{Block, Draws, Program, Report, Rows, Shape, Stream, Tick, Which};

/// Sweeps that tell how good a map is: bounds rise slowly where features are many.
const LOOK: u64 = 60;

/// One program for every map.
#[derive(Debug, Clone)]
pub(crate) struct Maps {
    programs: Vec<Vb>,
    /// The map of the same kind with more features, where there is one.
    finer: Vec<Option<usize>>,
}

/// A chain, and the map it works under.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MapState {
    pub(crate) map: usize,
    pub(crate) state: State,
}

/// A question about rows under a map.
#[derive(Serialize, Deserialize)]
pub(crate) struct MapAsk<'a> {
    map: usize,
    ask: Lent<'a>,
}

/// A question that was lent to be asked, or that was read.
enum Lent<'a> {
    Here(&'a Ask<'a>),
    Read(Box<Ask<'a>>),
}

impl<'a> Deref for Lent<'a> {
    type Target = Ask<'a>;

    fn deref(&self) -> &Ask<'a> {
        match self {
            Lent::Here(ask) => ask,
            Lent::Read(ask) => ask,
        }
    }
}

impl Serialize for Lent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.deref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lent<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ask::deserialize(deserializer).map(|ask| Lent::Read(Box::new(ask)))
    }
}

/// The rows as the program of one map asks them.
struct Under<'r> {
    map: usize,
    rows: &'r mut dyn Rows<Maps>,
}

impl Rows<Vb> for Under<'_> {
    fn shape(&self) -> Shape {
        self.rows.shape()
    }

    fn visit(&mut self, ask: &Ask<'_>, which: Which<'_>) -> Result<TreeStats> {
        self.rows.visit(&MapAsk { map: self.map, ask: Lent::Here(ask) }, which)
    }
}

/// Chains of every map, in their order, with their numbers in the run.
pub(crate) struct Grouped {
    pub(crate) states: Vec<Vec<State>>,
    pub(crate) chains: Vec<Vec<usize>>,
}

/// A job whose ascent only shows how good a map is; under the inputs themselves it is as it was.
fn shortened(map: usize, job: Job) -> Job {
    Job { ascent: if map == 0 { job.ascent } else { job.ascent.min(LOOK) }, ..job }
}

/// A structure met under a map.
pub(crate) struct Met {
    pub(crate) map: usize,
    /// Its chain among those of the map.
    pub(crate) place: usize,
    /// Its chain is told by its number in the run.
    pub(crate) candidate: Candidate,
}

impl Maps {
    /// Programs that differ in their design alone, that of the inputs themselves first.
    pub(crate) fn new(programs: Vec<Vb>) -> Self {
        let finer = |map: &Vb| programs.iter().position(|other| other.design.input_map().refines(&map.design.input_map()));
        Self { finer: programs.iter().map(finer).collect(), programs }
    }

    /// The program of a map.
    pub(crate) fn program(&self, map: usize) -> &Vb {
        &self.programs[map]
    }

    /// Jobs of the first generation with their maps.
    fn first(&self) -> impl Iterator<Item = (usize, Job)> {
        let coarse = (0..self.programs.len()).filter(|map| !self.finer.contains(&Some(*map)));
        coarse.flat_map(|map| self.first_of(map).into_iter().map(move |job| (map, job)))
    }

    /// The first jobs under a map.
    fn first_of(&self, map: usize) -> Vec<Job> {
        self.programs[map].search.first().into_iter().map(|job| shortened(map, job)).collect()
    }

    /// Number of chains of the first generation.
    pub(crate) fn chains(&self) -> u32 {
        self.first().count() as u32
    }

    /// Chains by their maps.
    pub(crate) fn grouped(&self, finished: impl IntoIterator<Item = Result<MapState>>) -> Result<Grouped> {
        let count = self.programs.len();
        let mut grouped = Grouped { states: vec![Vec::new(); count], chains: vec![Vec::new(); count] };
        for (chain, state) in finished.into_iter().enumerate() {
            let MapState { map, state } = state?;
            grouped.states[map].push(state);
            grouped.chains[map].push(chain);
        }
        Ok(grouped)
    }

    /// The best map so far: by its first structures where the search goes on from there, else by all.
    fn best(&self, grouped: &Grouped) -> usize {
        let value = |map: usize| {
            let (search, states) = (&self.programs[map].search, &grouped.states[map]);
            let compared = if search.splits() { search.first().len().min(states.len()) } else { states.len() };
            let table = search.table(&states[..compared]);
            search.best(&table).and_then(|best| table[best].scores.get(search.criterion)).unwrap_or(f64::NEG_INFINITY)
        };
        // the first of equals: it has the fewest features
        let values: Vec<f64> = (0..self.programs.len()).map(value).collect();
        values.iter().enumerate().fold(0, |best, (map, value)| if *value > values[best] { map } else { best })
    }

    /// Chains that follow.
    fn next(&self, grouped: &Grouped) -> Vec<MapState> {
        let best = self.best(grouped);
        let finer = self.finer[best].filter(|finer| grouped.states[*finer].is_empty());
        let (splits, guided) = (self.programs[0].search.splits(), self.programs[0].search.is_guided());
        let lengthened = self.lengthened(best, &grouped.states[best]).filter(|_| finer.is_none() && !guided);
        let mut next = Vec::new();
        for map in (0..self.programs.len()).filter(|map| !grouped.states[*map].is_empty()) {
            // splits begin at fits that have come to their end
            let waits = map != 0 && splits && (map != best || finer.is_some() || lengthened.is_some());
            let program = &self.programs[map];
            let states = if waits { Vec::new() } else { program.search.next(program, &grouped.states[map]) };
            next.extend(states.into_iter().map(|mut state| {
                if !splits {
                    state.job = shortened(map, state.job);
                }
                MapState { map, state }
            }));
        }
        // other searches know the best map when they have ended
        if splits || next.is_empty() {
            let first = |map: usize| self.first_of(map).into_iter().map(move |job| (map, State::new(&self.programs[map], job)));
            next.extend(finer.into_iter().flat_map(first).map(|(map, state)| MapState { map, state }));
            next.extend(lengthened.map(|state| MapState { map: best, state }));
        }
        next
    }

    /// The best fit under a map, going on, where its ascent was cut short.
    fn lengthened(&self, map: usize, states: &[State]) -> Option<State> {
        let search = &self.programs[map].search;
        let table = search.table(states);
        let fit = &states[table[search.best(&table)?].chain];
        let cut = fit.standing == Standing::Running && fit.job.ascent < search.max_iter;
        cut.then(|| {
            let job = Job { ascent: search.max_iter, generation: fit.job.generation + 1, ..fit.job.clone() };
            State { job, scores: None, ..fit.clone() }
        })
    }

    /// The structures met under each map.
    pub(crate) fn table(&self, grouped: &Grouped) -> Vec<Met> {
        let of_map = |map: usize| {
            let table = self.programs[map].search.table(&grouped.states[map]);
            table.into_iter().map(move |candidate| {
                let place = candidate.chain;
                Met { map, place, candidate: Candidate { chain: grouped.chains[map][place], ..candidate } }
            })
        };
        (0..self.programs.len()).flat_map(of_map).collect()
    }
}

impl Program for Maps {
    const NAME: &'static str = "softmax/vb-maps";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = MapState;
    type Local = Local;
    type Ask<'a> = MapAsk<'a>;
    type Stats = TreeStats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<MapState> {
        let (map, job) = self.first().nth(stream.chain() as usize).map_or((0, None), |(map, job)| (map, Some(job)));
        Ok(MapState { map, state: self.programs[map].start_with(job, &mut Under { map, rows }, stream)? })
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Local {
        Local::default()
    }

    fn sweep(&self, global: &mut MapState, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let MapState { map, state } = global;
        self.programs[*map].sweep(state, &mut Under { map: *map, rows }, tick)
    }

    fn visit(&self, ask: &MapAsk<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, stream: Stream) -> Result<TreeStats> {
        self.programs[ask.map].visit(&ask.ask, block, local, scratch, stream)
    }

    /// An ascent keeps no draws.
    fn draw(&self, _: &MapState, _: &mut Draws) {}

    fn works_on(&self, MapState { map, state }: &MapState) -> Option<String> {
        let program = &self.programs[*map];
        let map = program.design.input_map().to_string();
        Some(program.works_on(state).map_or(map.clone(), |structure| format!("{structure} {map}")))
    }

    fn offspring(&self, finished: &mut dyn Iterator<Item = Result<MapState>>, stream: Stream) -> Result<Vec<MapState>> {
        let mut next = self.next(&self.grouped(finished)?);
        for (i, MapState { state, .. }) in next.iter_mut().enumerate() {
            state.key = stream.item(i as u64).rng().next_u64();
        }
        Ok(next)
    }
}
