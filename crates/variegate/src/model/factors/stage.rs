//! A stored draw made ready for new rows: its atoms, those that nobody used so far, and the odds that a row of each source uses them.

use rand::seq::SliceRandom;

use super::draws::Draw;
use super::likelihood::{Entry, Likelihood, Row, Tempering};
use crate::Result;
use crate::data::{TargetView, X};
use crate::dist::Beta;
use crate::prior::BetaProcess;
use crate::run::{Block, Philox, Purpose, Stream, open01};
use crate::special::sigmoid;

/// Chance that a new row would use an atom that was left out.
const LEFT_OUT: f64 = 1e-6;
/// How often a scan asks a row about an atom that it hardly ever uses; others in proportion to how often it does.
const RARELY: f64 = 0.1;
const OFTEN: f64 = 20.0;
/// Scans of a new row for each draw, and how many of them count.
pub(super) const SCANS: usize = 20;
pub(super) const COUNTED: usize = 10;

/// A draw with the atoms that new rows may use.
pub(super) struct Stage<L: Likelihood> {
    pub(super) view: L::View,
    pub(super) scales: L::Scales,
    /// Log odds of each source and atom; a source that was not seen comes last.
    pub(super) ln_odds: Vec<f64>,
    /// Number of atoms, the new ones included.
    pub(super) count: usize,
    /// Number of the draw: rows of any company meet the same random numbers.
    pub(super) number: u32,
}

impl<L: Likelihood> Stage<L> {
    /// The draw of this number, for rows of sources with these numbers of rows at the fit; `unseen` if rows of other sources come too.
    pub(super) fn new(likelihood: &L, draw: &Draw, rows: &[u64], number: u32, unseen: bool) -> Result<Self> {
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
        Ok(Self { view: likelihood.view(&phi, count, &scales), scales, ln_odds, count, number })
    }

    pub(super) fn rng(&self, item: u64) -> Philox {
        Stream::new(0, self.number, Purpose::Predict).item(1 + item).rng()
    }

    /// One scan of a row that is under way, atoms in a fresh order. Of atoms that rows of the source hardly use most are passed over, by a
    /// chance that depends on the atom and not on whether the row uses it: the scan keeps its distribution and takes far less time.
    fn scan(&self, likelihood: &L, source: usize, order: &mut Vec<u32>, scratch: &mut L::Scratch, rng: &mut Philox) -> Result<()> {
        order.clear();
        order.extend(0..self.count as u32);
        order.shuffle(rng);
        for &k in order.iter() {
            let ln_odds = self.ln_odds[source * self.count + k as usize];
            if open01(rng) < (OFTEN * sigmoid(ln_odds)).max(RARELY) {
                likelihood.update(&self.view, k as usize, ln_odds, scratch, rng)?;
            }
        }
        Ok(())
    }

    /// Draws the atoms of the first `count` rows of a panel and calls `f(row, entries)` for every draw that counts.
    pub(super) fn settle(
        &self,
        likelihood: &L,
        x: X<'_>,
        sources: &[u32],
        exposure: f64,
        mut f: impl FnMut(usize, &[Entry]),
    ) -> Result<()> {
        let mut scratch = L::Scratch::default();
        let mut sums = L::Sums::default();
        let block = Block { number: 0, first_row: 0, x, y: TargetView::None, sources: Some(sources), weights: None };
        let mut filled = likelihood.fill(&block);
        let mut starts = vec![0];
        for i in 0..sources.len() {
            let mut missing = 0;
            x.for_row(i, |_, v| missing += usize::from(v.is_nan()));
            starts.push(starts[i] + missing);
        }
        let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); sources.len()];
        let mut rngs: Vec<Philox> = (0..sources.len()).map(|_| self.rng(0)).collect();
        let mut order = Vec::new();
        let tempering = Tempering { power: 1.0, exposure };
        for scan in 0..SCANS {
            // missing entries are drawn anew by every scan, and products must follow
            if scan == 0 || !filled.is_empty() {
                likelihood.prepare(&self.view, x, sources, &filled, &mut scratch);
            }
            for (i, (entries, rng)) in entries.iter_mut().zip(&mut rngs).enumerate() {
                let source = sources[i] as usize;
                let at = if filled.is_empty() { 0..0 } else { starts[i]..starts[i + 1] };
                likelihood.begin(&self.view, Row { x, at: i, source, filled: &filled[at.clone()] }, entries, tempering, &mut scratch);
                self.scan(likelihood, source, &mut order, &mut scratch, rng)?;
                likelihood.finish(&self.view, &mut scratch, rng, entries)?;
                if !at.is_empty() {
                    let row = Row { x, at: i, source, filled: &[] };
                    likelihood.report(&self.view, row, entries, &mut filled[at], &mut scratch, rng, &mut sums)?;
                }
                if scan >= SCANS - COUNTED {
                    f(i, entries);
                }
            }
        }
        Ok(())
    }

    /// The view, for what is expected of rows.
    pub(super) fn view(&self) -> &L::View {
        &self.view
    }
}
