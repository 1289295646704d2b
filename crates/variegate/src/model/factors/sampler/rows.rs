//! What a block of rows does when it is asked.

use rand::seq::SliceRandom;

use super::super::likelihood::{Attempts, Entry, Likelihood, Row, Tempering};
use super::{ATTEMPTS, Ask, Born, Gates, Holder, Least, Local, Pending, Question, Sampler, Stats};
use crate::run::{Block, GOLDEN, Philox, Stream, Sum, open01, scatter_bits};
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

/// A random rank of a row for an atom: a hash of both, and of a number that is new in every sweep.
fn rank(salt: u64, id: u64, row: u64) -> u64 {
    let atom = scatter_bits(salt ^ scatter_bits(id.wrapping_mul(GOLDEN)));
    scatter_bits(atom.wrapping_add(row.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
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
        let end = first_row + local.rows.len() as u64;
        let from = self.moved.partition_point(|m| m.0 < first_row);
        for &(row, old, new) in self.moved[from..].iter().take_while(|m| m.0 < end) {
            let list = &mut local.rows[(row - first_row) as usize];
            list.iter_mut().filter(|e| e.0 == old).for_each(|e| e.0 = new);
            list.sort_unstable_by_key(|e| e.0);
        }
    }
}

/// The part of a sorted list of rows that lies in a block, with the place in the list of its first.
fn within(chosen: &[u64], block: &Block<'_>) -> (usize, usize) {
    let end = block.first_row + block.rows() as u64;
    (chosen.partition_point(|&r| r < block.first_row), chosen.partition_point(|&r| r < end))
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
    ask: &Ask<'_, L::View>,
    block: &Block<'_>,
    local: &mut Local,
    scratch: &mut Scratch<L::Scratch>,
    stream: Stream,
) -> Result<Stats<L::Sums, L::Contribution>> {
    let likelihood = &sampler.likelihood;
    let ids = &ask.ids[..];
    ask.pending.apply(ids, block.first_row, local);
    let view = || ask.view.as_deref().ok_or_else(|| Error::Unfit("the rows were not told of the factors".into()));
    let mut stats = Stats::default();
    let mut rng = stream.rng();
    match &ask.kind {
        Question::Private { chosen, private, ln_rates, room, first_id } => {
            let (from, to) = within(chosen, block);
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
            let (from, to) = within(chosen, block);
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
        Question::Holders { atoms } => {
            for i in 0..block.rows() {
                let list = &local.rows[i];
                let held = |&k: &u32| list.binary_search_by_key(&ids[k as usize], |e| e.0).is_ok();
                let Some(which) = atoms.iter().position(held) else { continue };
                entries_of(list, ids, &mut scratch.entries);
                let row = row_of(block, local, i);
                let contribution = likelihood.contribution(view()?, row, &scratch.entries, atoms, &mut scratch.inner, &mut rng)?;
                stats.holders.0.push(Holder {
                    row: block.first_row + i as u64,
                    source: row.source as u32,
                    which: which as u32,
                    contribution,
                });
            }
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
    }
    Ok(stats)
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
    stats: &mut Stats<L::Sums, L::Contribution>,
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
