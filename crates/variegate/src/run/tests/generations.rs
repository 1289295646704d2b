//! Further chains: a toy search whose candidates are derived from the best of those before them.

use super::*;

/// Chains of each generation.
const GENERATIONS: [usize; 3] = [3, 5, 2];

/// A walk whose chains arrive at different sweeps and then beget the next generation.
struct Search {
    generations: usize,
    /// Refuses to beget this generation.
    barren: usize,
    /// Time a sweep takes at least.
    pause: Duration,
}

const SEARCH: Search = Search { generations: 3, barren: 0, pause: Duration::ZERO };

#[derive(Clone, Serialize, Deserialize)]
struct Candidate {
    generation: usize,
    parent: u32,
    value: f64,
}

impl Program for Search {
    const NAME: &'static str = "toy/search";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Candidate;
    type Local = f64;
    type Ask<'a> = f64;
    type Stats = Sum<f64>;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Candidate> {
        let value = rows.all(&0.0)?.0.cos() + open01(&mut stream.rng());
        Ok(Candidate { generation: 0, parent: stream.chain(), value })
    }

    fn local(&self, _: &Block<'_>, stream: Stream) -> f64 {
        open01(&mut stream.rng())
    }

    fn sweep(&self, g: &mut Candidate, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        std::thread::sleep(self.pause);
        g.value = rows.all(&g.value)?.0.cos() + open01(&mut tick.stream.rng());
        let converged = tick.sweep > 2 && g.value > 1.0;
        Ok(Report { objective: g.value, components: g.generation as u32, converged, ..Report::default() })
    }

    fn visit(&self, ask: &f64, block: &Block<'_>, local: &mut f64, _: &mut (), stream: Stream) -> Result<Sum<f64>> {
        *local = (*local + ask + block.number as f64).sin() + open01(&mut stream.rng());
        Ok(Sum(*local))
    }

    fn draw(&self, g: &Candidate, out: &mut Draws) {
        out.vector("candidate", &[g.value, g.parent as f64]);
    }

    fn offspring(&self, finished: &mut dyn Iterator<Item = Result<Candidate>>, stream: Stream) -> Result<Vec<Candidate>> {
        let finished = finished.collect::<Result<Vec<_>>>()?;
        assert_eq!(finished.len(), stream.chain() as usize);
        let generation = finished.last().map_or(0, |c| c.generation) + 1;
        if generation == self.barren {
            return Err(Error::Unfit("barren".into()));
        }
        if generation >= self.generations {
            return Ok(Vec::new());
        }
        let best = (0..finished.len()).max_by(|a, b| finished[*a].value.total_cmp(&finished[*b].value)).unwrap();
        let mut rng = stream.rng();
        let child = |_| Candidate { generation, parent: best as u32, value: finished[best].value + open01(&mut rng) };
        Ok((0..GENERATIONS[generation]).map(child).collect())
    }
}

fn plan() -> Plan {
    Plan { seed: 4, chains: 3, schedule: Schedule::Sample { warm_up: 1, draws: 6, thin: 1 }, block_rows: 100 }
}

fn search(program: &Search, threads: usize, memory: &mut Memory) -> Result<Ending> {
    drive(program, &data(), &plan(), pace(threads), memory, &mut Unobserved)
}

fn whole() -> Memory {
    let mut memory = Memory::default();
    assert_eq!(search(&SEARCH, 2, &mut memory).unwrap(), Ending::Complete);
    memory
}

fn assert_same(a: &Memory, b: &Memory) {
    assert_eq!(bits(a), bits(b));
    assert_eq!(a.chains.len(), b.chains.len());
    for (a, b) in a.chains.iter().zip(&b.chains) {
        assert_eq!((a.chain, a.sweeps, a.finished, &a.checkpoint, &a.trace), (b.chain, b.sweeps, b.finished, &b.checkpoint, &b.trace));
        assert_eq!(a.draws, b.draws);
    }
}

/// What is kept at any time: whole generations, each begun when those before it are done.
fn assert_in_order(memory: &Memory) {
    assert!(memory.chains.iter().enumerate().all(|(i, c)| c.chain == i as u32));
    let ends: Vec<usize> = GENERATIONS.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n) + n)).collect();
    assert!(ends.contains(&memory.chains.len()), "{} chains", memory.chains.len());
    for end in ends.into_iter().filter(|end| *end < memory.chains.len()) {
        assert!(memory.chains[..end].iter().all(|c| c.finished));
    }
}

#[test]
fn further_generations_have_the_same_bits_on_any_number_of_threads() {
    let whole = whole();
    assert_in_order(&whole);
    assert_eq!(whole.chains.len(), 10);
    assert!(whole.chains.iter().all(|c| c.finished && c.sweeps > 0));
    // they do not all take the same time, and the later ones descend from the best
    assert!(whole.chains.iter().any(|c| c.sweeps < 7) && whole.chains.iter().any(|c| c.sweeps == 7));
    let last: Vec<Candidate> = whole.chains.iter().map(|c| saved_global::<Search>(&c.checkpoint).unwrap()).collect();
    for (chain, candidate) in last.iter().enumerate() {
        let before: usize = GENERATIONS[..candidate.generation].iter().sum();
        assert!((before..before + GENERATIONS[candidate.generation]).contains(&chain));
        if candidate.generation > 0 {
            assert!(last[..before].iter().all(|c| c.value <= last[candidate.parent as usize].value));
        }
    }
    for threads in [1, 2, 4, 7] {
        let mut memory = Memory::default();
        search(&SEARCH, threads, &mut memory).unwrap();
        assert_same(&whole, &memory);
    }
}

#[test]
fn stopped_after_every_round_it_ends_with_the_same_bits() {
    let whole = whole();
    for (threads, pause) in [(1, 0), (1, 12), (2, 25)] {
        let slow = Search { pause: Duration::from_millis(pause), ..SEARCH };
        let mut memory = Memory::default();
        let (mut rounds, mut begun) = (0, 0);
        loop {
            rounds += 1;
            let ending = drive(&slow, &data(), &plan(), pace(threads), &mut memory, &mut |_: &[ChainProgress]| Next::Stop).unwrap();
            assert_in_order(&memory);
            assert_eq!(ending == Ending::Complete, memory.chains.iter().all(|c| c.finished));
            begun += usize::from(memory.chains.last().is_some_and(|c| c.sweeps == 0));
            if ending == Ending::Complete {
                break;
            }
        }
        assert_eq!(begun, 2, "both changes of generation were stopped at");
        assert!(rounds > if pause > 0 { 5 } else { 2 }, "{rounds}");
        assert_same(&whole, &memory);
    }
}

/// Remembers every commit, and what was kept after it.
#[derive(Default)]
struct Commits {
    memory: Memory,
    all: Vec<(Vec<Piece>, Memory)>,
}

impl Storage for Commits {
    fn chains(&self) -> u32 {
        Storage::chains(&self.memory)
    }

    fn kept(&mut self, chain: u32) -> Result<Option<Kept>> {
        self.memory.kept(chain)
    }

    fn draws(&mut self) -> Result<Vec<Draws>> {
        self.memory.draws()
    }

    fn commit(&mut self, pieces: Vec<Piece>) -> Result<()> {
        self.memory.commit(pieces.clone())?;
        self.all.push((pieces, self.memory.clone()));
        Ok(())
    }
}

#[test]
fn a_generation_ends_and_the_next_begins_in_one_commit() {
    let run = |stop: bool| {
        let mut commits = Commits::default();
        let mut seen = Vec::new();
        let mut observer = |chains: &[ChainProgress]| {
            seen.push((chains.iter().filter(|c| c.finished).count(), chains.len()));
            if stop { Next::Stop } else { Next::Continue }
        };
        while drive(&SEARCH, &data(), &plan(), pace(2), &mut commits, &mut observer).unwrap() == Ending::Stopped {}
        // an observer sees all chains done only at the very end, and the new ones as soon as those before them are done
        assert!(seen.is_sorted() && seen.pop() == Some((10, 10)) && seen.iter().all(|(done, all)| done < all));
        assert!(seen.contains(&(3, 8)) && seen.contains(&(8, 10)));
        commits.all.retain(|(pieces, _)| pieces.iter().any(|p| p.sweeps == 0));
        commits.all
    };
    let (free, stopped) = (run(false), run(true));
    assert_eq!((free.len(), stopped.len()), (2, 2));
    for ((pieces, kept), end) in free.iter().zip([3, 8]) {
        assert!(pieces.iter().any(|p| p.finished) && kept.chains[..end].iter().all(|c| c.finished));
        for born in &kept.chains[end..] {
            assert!(!born.finished && born.sweeps == 0 && born.draws.count == 0 && born.trace.is_empty());
        }
    }
    free.iter().zip(&stopped).for_each(|(a, b)| assert_same(&a.1, &b.1));
}

#[test]
fn a_complete_run_is_not_asked_again() {
    let mut memory = Memory::default();
    search(&Search { generations: 2, ..SEARCH }, 2, &mut memory).unwrap();
    assert_eq!(memory.chains.len(), 8);
    assert_eq!(search(&SEARCH, 2, &mut memory).unwrap(), Ending::Complete);
    assert_eq!(memory.chains.len(), 8);
}

#[test]
fn a_program_that_fails_to_beget_leaves_a_run_that_can_go_on() {
    for barren in [1, 2, 3] {
        let mut memory = Memory::default();
        let program = Search { barren, ..SEARCH };
        assert_eq!(search(&program, 2, &mut memory).unwrap_err().to_string(), "barren");
        let planned = memory.chains.len() >= 3;
        assert!(!planned || memory.chains.iter().any(|c| !c.finished), "it must not look complete");
        assert!(memory.chains.iter().filter(|c| !c.finished).count() <= 1, "one chain falls back, the others stay");
        assert_eq!(search(&program, 2, &mut memory).unwrap_err().to_string(), "barren");
        search(&SEARCH, 2, &mut memory).unwrap();
        assert_same(&whole(), &memory);
    }
}

#[test]
fn an_ancestor_of_other_data_is_refused() {
    let mut memory = whole();
    memory.chains.truncate(8);
    memory.chains[7].finished = false;
    memory.chains[0].checkpoint = memory.chains[1].checkpoint.clone();
    let error = search(&SEARCH, 1, &mut memory).unwrap_err();
    assert!(error.to_string().contains("another seed, chain or data shape"), "{error}");
}

/// Of many chains a few run at once; the others cost nothing until it is their turn, and nothing when they are done.
#[test]
fn many_chains_are_saved_once_and_a_few_more_often() {
    let many = Plan { chains: 60, ..plan() };
    let slow = Search { generations: 1, pause: Duration::from_millis(5), ..SEARCH };
    let mut commits = Commits::default();
    let mut rounds = 0;
    let mut observer = |chains: &[ChainProgress]| {
        rounds += 1;
        assert!(chains.iter().filter(|c| c.sweeps > 0 && !c.finished).count() <= 16);
        Next::Continue
    };
    drive(&slow, &data(), &many, pace(2), &mut commits, &mut observer).unwrap();
    assert!(rounds > 5 && commits.all.len() == rounds);
    for chain in 0..60 {
        let pieces: Vec<_> = commits.all.iter().flat_map(|c| &c.0).filter(|p| p.chain == chain).collect();
        assert!(pieces.iter().rev().skip(1).all(|p| !p.finished), "done, and committed again");
        assert!(pieces.windows(2).all(|w| w[0].sweeps < w[1].sweeps));
    }
    // a chain does not depend on how many there are
    assert_eq!(commits.memory.chains[2].checkpoint, whole().chains[2].checkpoint);
}
