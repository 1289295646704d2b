//! What a block of rows does when it is asked.

use rand::seq::SliceRandom;

use super::super::likelihood::{Attempts, Entry, Likelihood, Row, Side, Tempering};
use super::split_merge::lean;
use super::{ATTEMPTS, Ask, Born, Found, Gates, Holder, Local, Pending, Question, Rest, Sampler, Stats};
use crate::model::ranks::{Part, ln_side, rank, within};
use crate::run::{Block, Least, List, Philox, Stream, Sum, open01};
use crate::special::sigmoid;
use crate::{Error, Result};

/// Buffers of a thread.
#[derive(Debug, Default)]
pub struct Scratch<S> {
    inner: S,
    entries: Vec<Entry>,
    order: Vec<u32>,
    free: Vec<bool>,
    used: Vec<bool>,
}

impl Pending<'_> {
    /// Does what rows had not heard of yet.
    fn apply(&self, ids: &[u64], first_row: u64, local: &mut Local) {
        if !self.factors.is_empty() {
            for (id, w) in local.rows.iter_mut().flatten() {
                if let Ok(k) = ids.binary_search(id) {
                    *w /= self.factors[k];
                }
            }
        }
        let Some(moved) = &self.moved else { return };
        let exchange = |list: &mut Vec<(u64, f64)>| {
            if let Ok(at) = list.binary_search_by_key(&moved.from, |e| e.0) {
                list[at].0 = moved.to;
                list.sort_unstable_by_key(|e| e.0);
            }
        };
        match &moved.rows {
            None => local.rows.iter_mut().for_each(exchange),
            Some(core) => {
                let (from, to) = within(core, first_row, local.rows.len());
                let here = core[from..to].iter().map(|row| (row - first_row) as usize);
                let dealt = local.dealt.iter().map(|&i| i as usize);
                here.chain(dealt).for_each(|i| exchange(&mut local.rows[i]));
            }
        }
    }
}

/// Entries of a row by place.
fn entries_of(list: &[(u64, f64)], ids: &[u64], out: &mut Vec<Entry>) {
    out.clear();
    out.extend(list.iter().filter_map(|&(id, w)| ids.binary_search(&id).ok().map(|k| (k as u32, w))));
}

fn source_of(block: &Block<'_>, i: usize) -> usize {
    block.sources.map_or(0, |s| s[i] as usize)
}

/// A row of the block.
fn row_of<'a>(block: &Block<'a>, local: &'a Local, i: usize) -> Row<'a> {
    let filled = match &local.filled_at[..] {
        [] => &[][..],
        at => &local.filled[at[i] as usize..at[i + 1] as usize],
    };
    Row { x: block.x, at: i, source: source_of(block, i), filled }
}

pub(super) fn visit<L: Likelihood>(
    sampler: &Sampler<L>,
    ask: &Ask<'_, L::View, L::Side>,
    block: &Block<'_>,
    local: &mut Local,
    scratch: &mut Scratch<L::Scratch>,
    stream: Stream,
) -> Result<Found<L>> {
    let likelihood = &sampler.likelihood;
    let ids = &ask.ids[..];
    ask.pending.apply(ids, block.first_row, local);
    // whatever became of the attempt, it is over
    local.dealt.clear();
    let view = || ask.view.as_deref().ok_or_else(|| Error::Unfit("the rows were not told of the factors".into()));
    let mut stats = Stats::default();
    let mut rng = stream.rng();
    match &ask.kind {
        Question::Private { private, ln_rates, room, first_id, chosen } => {
            let (from, to) = within(chosen, block.first_row, block.rows());
            for (number, &row_number) in chosen[from..to].iter().enumerate() {
                let i = (row_number - block.first_row) as usize;
                let row = row_of(block, local, i);
                let source = row.source;
                entries_of(&local.rows[i], ids, &mut scratch.entries);
                let attempts = Attempts { ln_rate: ln_rates[source], count: ATTEMPTS, room: *room };
                let changes = likelihood.private_moves(view()?, row, &scratch.entries, private, attempts, &mut scratch.inner, &mut rng)?;
                let list = &mut local.rows[i];
                for &k in &changes.died {
                    list.retain(|e| e.0 != ids[k as usize]);
                    stats.died.0.push(ids[k as usize]);
                }
                stats.redrawn.0.extend(changes.redrawn.into_iter().map(|(k, phi)| (ids[k as usize], phi)));
                for (s, (w, phi)) in changes.born.into_iter().enumerate() {
                    let id = first_id + ((from + number) * ATTEMPTS + s) as u64;
                    list.push((id, w));
                    stats.born.0.push(Born { id, source: source as u32, phi });
                }
            }
        }
        Question::Lists { chosen } => {
            let (from, to) = within(chosen, block.first_row, block.rows());
            for &row in &chosen[from..to] {
                let list = &local.rows[(row - block.first_row) as usize];
                stats.lists.0.push((row, list.iter().map(|e| e.0).collect()));
            }
        }
        Question::Both { atoms } => {
            let (a, b) = (ids[atoms.0 as usize], ids[atoms.1 as usize]);
            let uses = |list: &[(u64, f64)], id: u64| list.binary_search_by_key(&id, |e| e.0).is_ok();
            stats.both = Sum(local.rows.iter().filter(|list| uses(list, a) && uses(list, b)).count() as u64);
        }
        Question::Holders { atoms, part } => {
            let holders = &mut stats.holders.0;
            each_holder(likelihood, view()?, ids, atoms, part, block, local, scratch, &mut rng, |holder, _| holders.push(holder))?;
        }
        Question::Rest { atoms, part, listed, sides } => {
            let (sources, given) = (sampler.rows.len(), atoms.len() == 2);
            let mut dealt = std::mem::take(&mut local.dealt); // empty, but with room
            let found = &mut stats.rest;
            each_holder(likelihood, view()?, ids, atoms, part, block, local, scratch, &mut rng, |holder, rng| {
                let rest = found.get_or_insert_with(|| Rest {
                    sides: [sides[0].sums(), sides[1].sums()],
                    uses: Sum(vec![0.0; 2 * sources]),
                    ln_dealt: Sum(0.0),
                    listed: List::default(),
                });
                let d = lean(sides, &holder.contribution);
                let to = if given { holder.which as usize } else { usize::from(open01(rng) < sigmoid(d)) };
                rest.ln_dealt.0 += ln_side(d, to);
                rest.sides[to].add(&holder.contribution);
                rest.uses.0[to * sources + holder.source as usize] += 1.0;
                if to == 1 && !given {
                    dealt.push((holder.row - block.first_row) as u32);
                    if listed.binary_search(&holder.row).is_ok() {
                        rest.listed.0.push(holder.row);
                    }
                }
            })?;
            local.dealt = dealt;
        }
        Question::Owners { salt } => {
            let mut least = vec![u64::MAX; ids.len()];
            for (i, list) in local.rows.iter().enumerate() {
                for (id, _) in list {
                    if let Ok(k) = ids.binary_search(id) {
                        least[k] = least[k].min(rank(*salt, *id, block.first_row + i as u64));
                    }
                }
            }
            stats.owners = Least(least);
        }
        Question::Heights { reach } => {
            let mut lowest = 1.0f64;
            local.slices.clear();
            for list in &local.rows {
                let top = list.iter().filter_map(|e| ids.binary_search(&e.0).ok()).fold(1.0f64, |m, k| m.min(reach[k]));
                let height = top * open01(&mut rng);
                lowest = lowest.min(height);
                local.slices.push(height);
            }
            stats.lowest = Least(vec![lowest]);
        }
        Question::Scan { gates } => scan(sampler, view()?, ids, gates, block, local, scratch, &mut rng, &mut stats)?,
        Question::Seeds { chosen } => {
            let (from, to) = within(chosen, block.first_row, block.rows());
            for (number, &row) in chosen[from..to].iter().enumerate() {
                let row = row_of(block, local, (row - block.first_row) as usize);
                let found = likelihood.seed(row).map(|phi| Born { id: (from + number) as u64, source: row.source as u32, phi });
                stats.born.0.extend(found);
            }
        }
        Question::Climb { first, last } => {
            let sources = sampler.rows.len();
            let mut uses = vec![0.0; ids.len() * sources];
            for i in 0..block.rows() {
                if *first {
                    local.rows[i].clear();
                }
                entries_of(&local.rows[i], ids, &mut scratch.entries);
                let row = row_of(block, local, i);
                likelihood.climb(view()?, row, *last, &mut scratch.entries, &mut scratch.inner, &mut stats.sums);
                scratch.entries.iter().for_each(|e| uses[e.0 as usize * sources + row.source] += 1.0);
                local.rows[i] = scratch.entries.iter().map(|&(k, w)| (ids[k as usize], w)).collect();
            }
            stats.uses = Sum(uses);
        }
    }
    Ok(stats)
}

/// Goes through the rows of a part that use one of these atoms.
#[allow(clippy::too_many_arguments)] // a visit taken apart
fn each_holder<L: Likelihood>(
    likelihood: &L,
    view: &L::View,
    ids: &[u64],
    atoms: &[u32],
    part: &Part,
    block: &Block<'_>,
    local: &Local,
    scratch: &mut Scratch<L::Scratch>,
    rng: &mut Philox,
    mut f: impl FnMut(Holder<L::Contribution>, &mut Philox),
) -> Result<()> {
    for (i, list) in local.rows.iter().enumerate() {
        let number = block.first_row + i as u64;
        let held = |&k: &u32| list.binary_search_by_key(&ids[k as usize], |e| e.0).is_ok();
        let Some(which) = atoms.iter().position(held).filter(|_| part.holds(number)) else { continue };
        entries_of(list, ids, &mut scratch.entries);
        let row = row_of(block, local, i);
        let contribution = likelihood.contribution(view, row, &scratch.entries, atoms, &mut scratch.inner, rng)?;
        f(Holder { row: number, source: row.source as u32, which: which as u32, contribution }, rng);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // a visit taken apart
fn scan<L: Likelihood>(
    sampler: &Sampler<L>,
    view: &L::View,
    ids: &[u64],
    gates: &Gates<'_>,
    block: &Block<'_>,
    local: &mut Local,
    scratch: &mut Scratch<L::Scratch>,
    rng: &mut Philox,
    stats: &mut Found<L>,
) -> Result<()> {
    let likelihood = &sampler.likelihood;
    let (count, sources) = (ids.len(), sampler.rows.len());
    let Scratch { inner, entries, order, free, used } = scratch;
    let all_sources: Vec<u32> = (0..block.rows()).map(|i| source_of(block, i) as u32).collect();
    likelihood.prepare(view, block.x, &all_sources, &local.filled, inner);
    let mut uses = match gates {
        Gates::Counted { uses, .. } => uses.iter().map(|&n| f64::from(n)).collect(),
        _ => vec![0.0; count * sources],
    };
    for i in 0..block.rows() {
        let row_number = block.first_row + i as u64;
        entries_of(&local.rows[i], ids, entries);
        let row = row_of(block, local, i);
        let j = row.source;
        likelihood.begin(view, row, entries, Tempering::NONE, inner);
        used.clear();
        used.resize(count, false);
        entries.iter().for_each(|e| used[e.0 as usize] = true);
        match gates {
            Gates::Owned { ln_odds, salt, owners, pairs } => {
                let ln_odds = &ln_odds[j * count..][..count];
                // a fresh order: neither who uses an atom nor how old it is may decide
                order.clear();
                order.extend(0..count as u32);
                order.shuffle(rng);
                free.clear();
                free.resize(count, false);
                for &k in order.iter() {
                    let k = k as usize;
                    let own = rank(*salt, ids[k], row_number);
                    match own.cmp(&owners[k]) {
                        std::cmp::Ordering::Less => {}
                        std::cmp::Ordering::Equal => likelihood.refresh(view, k, inner, rng)?,
                        std::cmp::Ordering::Greater => {
                            free[k] = true;
                            likelihood.update(view, k, ln_odds[k], inner, rng)?;
                        }
                    }
                }
                if *pairs {
                    likelihood.pairs(view, ln_odds, free, inner, rng)?;
                }
            }
            Gates::Heights { ln_odds, reach, order } => {
                let height = local.slices[i];
                for &k in order.iter().take_while(|k| reach[**k as usize] >= height) {
                    let k = k as usize;
                    let others = (0..count).filter(|&l| used[l] && l != k).fold(1.0f64, |m, l| m.min(reach[l]));
                    let odds = ln_odds[j * count + k] + others.ln() - others.min(reach[k]).ln();
                    used[k] = likelihood.update(view, k, odds, inner, rng)?;
                }
            }
            Gates::Counted { weight, concentration, rows, order, .. } => {
                for &k in order.iter() {
                    let k = k as usize;
                    let was = f64::from(u8::from(used[k]));
                    let (a, b) = (concentration[j], weight[k]);
                    let m = uses[k * sources + j] - was;
                    let mut odds = (m + a * b).ln() - (rows[j] as f64 - 1.0 - m + a * (1.0 - b)).ln();
                    let alone = uses[k * sources..][..sources].iter().sum::<f64>() == was;
                    if alone {
                        // the height of the slice is uniform below the smallest weight in use, which this entry may change
                        let in_use = |l: usize| l != k && uses[l * sources..][..sources].iter().any(|&n| n > 0.0);
                        let least = (0..count).filter(|&l| in_use(l)).fold(1.0f64, |m, l| m.min(weight[l]));
                        odds += least.ln() - least.min(b).ln();
                    }
                    used[k] = likelihood.update(view, k, odds, inner, rng)?;
                    uses[k * sources + j] = m + f64::from(u8::from(used[k]));
                }
            }
        }
        likelihood.finish(view, inner, rng, entries)?;
        let row = Row { x: block.x, at: i, source: j, filled: &[] };
        let filled = match &local.filled_at[..] {
            [] => &mut [][..],
            at => &mut local.filled[at[i] as usize..at[i + 1] as usize],
        };
        likelihood.report(view, row, entries, filled, inner, rng, &mut stats.sums)?;
        local.rows[i] = entries.iter().map(|&(k, w)| (ids[k as usize], w)).collect();
        if !matches!(gates, Gates::Counted { .. }) {
            entries.iter().for_each(|e| uses[e.0 as usize * sources + j] += 1.0);
        }
    }
    stats.uses = Sum(uses);
    Ok(())
}
