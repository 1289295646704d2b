//! A stored draw made ready for new rows: its atoms, those that nobody used so far, and the odds that a row of each source uses them.

#[cfg(test)]
mod tests;

use rand::seq::SliceRandom;

use super::draws::Draw;
use super::likelihood::{Entry, Likelihood, Own, Row};
use crate::Result;
use crate::data::X;
use crate::dist::Beta;
use crate::parallel;
use crate::prior::BetaProcess;
use crate::run::{Philox, Purpose, Stream, open01};
use crate::special::sigmoid;

/// Chance that a new row would use an atom that was left out.
const LEFT_OUT: f64 = 1e-6;
/// How often a scan asks a row about an atom that it hardly ever uses; others in proportion to how often it does.
const RARELY: f64 = 0.1;
const OFTEN: f64 = 20.0;
/// Scans of a new row that do not count: where it begins without atoms, and where it begins with those that it used by the draw before.
const AT_FIRST: usize = 10;
const LATER: usize = 2;
/// Rows that a thread takes at a time.
const ROWS: usize = 8;

/// A new row on its way from draw to draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Guest {
    /// Atoms that it begins with.
    pub(super) entries: Vec<Entry>,
    /// Those that no row of the fit uses.
    pub(super) own: Vec<Own>,
    /// Whether these are all that it used by the draw before.
    pub(super) settled: bool,
}

/// A draw with the atoms that new rows may use.
pub(super) struct Stage<L: Likelihood> {
    pub(super) view: L::View,
    pub(super) scales: L::Scales,
    /// Log odds of each source and atom; a source that was not seen comes last.
    pub(super) ln_odds: Vec<f64>,
    /// Log rates of atoms that a new row of each source alone uses; empty where such atoms are among the others, from their prior.
    pub(super) ln_own: Vec<f64>,
    /// Number of atoms, the new ones included.
    pub(super) count: usize,
    /// Number of the draw: rows of any company meet the same random numbers.
    pub(super) number: u32,
}

impl<L: Likelihood> Stage<L> {
    /// The draw of this number, for rows of sources with these numbers of rows at the fit; `unseen` if rows of other sources come too. Atoms that no
    /// row of the fit uses are found by the rows themselves with `find`, or drawn from their prior.
    pub(super) fn new(likelihood: &L, draw: &Draw, rows: &[u64], number: u32, unseen: bool, find: bool) -> Result<Self> {
        let mut rng = Stream::new(0, number, Purpose::Predict).rng();
        let scales = likelihood.with_unseen_source(&L::scales_of(&draw.scales));
        let process = BetaProcess::new(rows, &draw.concentration);
        let mean = draw.concentration.iter().sum::<f64>() / draw.concentration.len().max(1) as f64;
        let concentration: Vec<f64> = draw.concentration.iter().copied().chain([mean]).collect();
        let rows: Vec<u64> = rows.iter().copied().chain([0]).collect();
        // the largest share of unused atoms that a source may still turn to
        let turned = |j: usize| concentration[j] / (concentration[j] + rows[j] as f64);
        let open = if unseen { 1.0 } else { (0..rows.len() - 1).map(turned).fold(0.0, f64::max) };
        let down_to = LEFT_OUT / (draw.mass * open.max(1e-300));
        let (mut phi, mut weight, mut uses) = (draw.wide_phi(), draw.weight.clone(), draw.uses.clone());
        if !find {
            let mut b = 1.0;
            loop {
                b = process.next_empty(b, draw.mass, &mut rng);
                if b <= down_to {
                    break;
                }
                phi.extend(likelihood.prior_atom(&scales, &mut rng)?);
                weight.push(b);
                uses.resize(uses.len() + rows.len() - 1, 0);
            }
        }
        let (count, sources) = (weight.len(), rows.len() - 1);
        let mut ln_odds = Vec::with_capacity(rows.len() * count);
        for (j, &n) in rows.iter().enumerate() {
            for k in 0..count {
                let used = if j < sources { f64::from(uses[k * sources + j]) } else { 0.0 };
                let (a, b) = (concentration[j], weight[k]);
                let distribution = Beta::new((a * b + used).max(1e-300), (a * (1.0 - b) + n as f64 - used).max(1e-300))?;
                ln_odds.push(distribution.sample_logit(&mut rng));
            }
        }
        let ln_own = |j: usize| {
            let mut rows = rows.clone();
            rows[j] += 1;
            draw.mass.ln() + BetaProcess::new(&rows, &concentration).ln_private(j)
        };
        let ln_own =
            (0..if find { rows.len() } else { 0 }).map(|j| if j < sources || unseen { ln_own(j) } else { f64::NEG_INFINITY }).collect();
        Ok(Self { view: likelihood.view(&phi, count, &scales), scales, ln_odds, ln_own, count, number })
    }

    pub(super) fn rng(&self, item: u64) -> Philox {
        Stream::new(0, self.number, Purpose::Predict).item(1 + item).rng()
    }

    /// How likely a scan is to ask about each atom, by sources. Atoms that rows of the source hardly use are mostly passed over, by a chance
    /// that depends on the atom and not on whether the row uses it: the scan keeps its distribution and takes far less time.
    fn asked(&self) -> Vec<f64> {
        self.ln_odds.iter().map(|&l| (OFTEN * sigmoid(l)).max(RARELY)).collect()
    }

    /// Draws the atoms of the first rows of a panel, one a guest, and calls `f(numbers of the row, log odds of its source, its place)` after each of the last
    /// `counted` scans; gives the numbers of all rows, `each` of one row. Guests leave with the atoms that they used last.
    pub(super) fn settle(
        &self,
        likelihood: &L,
        x: X<'_>,
        sources: &[u32],
        exposure: f64,
        guests: &mut [Guest],
        counted: usize,
        each: usize,
        f: impl Fn(&mut [f64], &[f64], &L::Placing) + Sync,
    ) -> Result<Vec<f64>> {
        let products = likelihood.products(&self.view, x, sources);
        let each_product = products.len() / x.rows().max(1);
        let asked = self.asked();
        let mut out = vec![0.0; guests.len() * each];
        let some = |part: usize, (guests, out): (&mut [Guest], &mut [f64])| -> Result<()> {
            let (mut placing, mut order) = (L::Placing::default(), Vec::<u32>::new());
            for (i, (guest, out)) in guests.iter_mut().zip(out.chunks_exact_mut(each)).enumerate() {
                let at = part * ROWS + i;
                let source = sources[at] as usize;
                let own_atoms = source * self.count..(source + 1) * self.count;
                let (ln_odds, asked) = (&self.ln_odds[own_atoms.clone()], &asked[own_atoms]);
                let mut rng = self.rng(0);
                let row = Row { x, at, source, filled: &[] };
                let products = &products[at * each_product..][..each_product];
                likelihood.meet(&self.view, row, products, &guest.entries, exposure, &mut placing);
                likelihood.take_own(&mut placing, &mut guest.own);
                let before = if guest.settled { LATER } else { AT_FIRST };
                for scan in 0..before + counted {
                    order.clear();
                    order.extend((0..self.count as u32).filter(|&k| asked[k as usize] >= 1.0 || open01(&mut rng) < asked[k as usize]));
                    order.shuffle(&mut rng);
                    likelihood.ask(&self.view, &order, ln_odds, &mut placing, &mut rng)?;
                    if let Some(&ln_rate) = self.ln_own.get(source) {
                        likelihood.own_moves(&self.view, ln_rate, &mut placing, &mut rng)?;
                    }
                    if scan >= before {
                        f(out, ln_odds, &placing);
                    }
                }
                likelihood.met(&placing, &mut guest.entries);
                likelihood.leave_own(&mut placing, &mut guest.own);
            }
            Ok(())
        };
        parallel::map(guests.chunks_mut(ROWS).zip(out.chunks_mut((ROWS * each).max(1))), some).into_iter().collect::<Result<()>>()?;
        Ok(out)
    }

    /// The view, for what is expected of rows.
    pub(super) fn view(&self) -> &L::View {
        &self.view
    }
}
