//! Many new rows at once, under all draws.
//!
//! Draws are taken in runs of a fixed number, whose sums are added up in order: what is said of a row depends neither on the other rows nor on
//! threads. A run of draws works on some rows at a time, so that a draw is made ready once for all of them.

use serde::{Deserialize, Serialize};

use super::{Averages, Frame, NewMargin, shared};
use crate::linalg::dot;
use crate::model::tree::components::Kernel;
use crate::model::tree::draws::Draw;
use crate::model::tree::margin::{Calibration, Features, Margin};
use crate::parallel;
use crate::run::{Purpose, Stream};
use crate::{Error, Result};

/// Runs of draws that work at once, each with sums of its own.
const RUNS: usize = 16;
/// Numbers of all sums of rows at work.
const MOST_SUMS: usize = 1 << 24;

/// The margin as new rows meet it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Separated {
    pub(crate) margin: Margin,
    /// Whether what a classifier that knows nothing is charged is taken off.
    pub(crate) calibrated: bool,
    /// How rows become features.
    pub(crate) features: Features,
}

/// What the margin needs of a row.
struct Asked {
    phi: Vec<f64>,
    calibration: Option<Calibration>,
}

impl Separated {
    /// A row has a table of r for its own norm: what it is charged depends on no other row.
    fn ask(&self, row: &[f64]) -> Result<Asked> {
        let mut phi = Vec::with_capacity(self.features.width());
        self.features.append(row, &mut phi);
        let wanted = self.calibrated && self.margin.separation > 0.0;
        let calibration = if wanted { Some(Calibration::new(&self.margin, &[dot(&phi, &phi).sqrt()])?) } else { None };
        Ok(Asked { phi, calibration })
    }
}

/// Draws, and what they need to say something of rows.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// The draws, with their places among all: scores of new branches depend on them.
    pub(crate) draws: &'a [(usize, &'a Draw)],
    pub(crate) kernel: &'a Kernel,
    /// Columns of rows; at least one.
    pub(crate) columns: usize,
    /// None leaves the margin out.
    pub(crate) separated: Option<&'a Separated>,
}

impl Averages {
    /// Takes in the sums of other draws.
    fn merge(&mut self, other: Self) {
        self.draws += other.draws;
        if other.top == f64::NEG_INFINITY {
            return;
        }
        let top = self.top.max(other.top);
        let (own, theirs) = ((self.top - top).exp(), (other.top - top).exp());
        self.total = self.total * own + other.total * theirs;
        self.sums.iter_mut().zip(other.sums).for_each(|(a, b)| *a = *a * own + b * theirs);
        self.top = top;
    }
}

impl Batch<'_> {
    /// Means over draws of `size` shares of each row, one row after the other.
    fn averages(
        &self,
        rows: &[f64],
        size: usize,
        of: impl Fn(usize, &Frame<'_>, &[f64], Option<&NewMargin<'_>>) -> (f64, Vec<f64>) + Sync,
    ) -> Result<Vec<Vec<f64>>> {
        let columns = self.columns;
        let count = rows.len() / columns;
        let at_once = (MOST_SUMS / RUNS / size.max(1)).clamp(1, 1024);
        let runs: Vec<&[(usize, &Draw)]> = self.draws.chunks(self.draws.len().div_ceil(RUNS).max(1)).collect();
        let mut all = Vec::with_capacity(count);
        for panel in rows.chunks(at_once * columns) {
            let ask = |_, row: &[f64]| self.separated.map(|s| s.ask(row)).transpose();
            let asked: Vec<Option<Asked>> = parallel::map(panel.chunks(columns), ask).into_iter().collect::<Result<_>>()?;
            let run = |_, draws: &&[(usize, &Draw)]| {
                let mut sums: Vec<Averages> = asked.iter().map(|_| Averages::new(size)).collect();
                for &(place, draw) in *draws {
                    let frame = Frame::new(draw, self.kernel);
                    let branches = self.separated.map_or_else(Vec::new, |s| {
                        let stream = Stream::new(0, 0, Purpose::Predict).item(place as u64);
                        frame.draw_branches(&s.margin, s.features.width(), &mut stream.rng())
                    });
                    for ((row, asked), sums) in panel.chunks_exact(columns).zip(&asked).zip(&mut sums) {
                        let margin = self.separated.zip(asked.as_ref()).map(|(s, asked)| NewMargin {
                            margin: s.margin,
                            calibration: asked.calibration.as_ref(),
                            branches: &branches,
                            phi: &asked.phi,
                        });
                        let (ln_density, shares) = of(place, &frame, row, margin.as_ref());
                        sums.add(ln_density, shares.into_iter());
                    }
                }
                sums
            };
            let mut parts = parallel::map(&runs, run).into_iter();
            let mut sums = parts.next().unwrap_or_default();
            for part in parts {
                sums.iter_mut().zip(part).for_each(|(a, b)| a.merge(b));
            }
            for sums in sums {
                let shares = sums.shares();
                if shares.iter().any(|share| !share.is_finite()) {
                    return Err(Error::Unfit(format!(
                        "row {} lies so far from all rows of the fit that no component has any density there: mend its numbers, or leave it out",
                        all.len() + 1
                    )));
                }
                all.push(shares);
            }
        }
        Ok(all)
    }

    /// Log density of each row under each draw, draw by draw. The margin has no part in it.
    pub(crate) fn ln_densities(&self, rows: &[f64]) -> Vec<Vec<f64>> {
        let columns = self.columns;
        let density = |_, &(_, draw): &(usize, &Draw)| {
            let frame = Frame::new(draw, self.kernel);
            rows.chunks_exact(columns).map(|row| crate::special::log_sum_exp(&frame.ln_weights(row, None))).collect()
        };
        parallel::map(self.draws, density)
    }

    /// For each row: probabilities that it shares its node with each training row, training row by training row one for each level; and that its
    /// node of each level is new.
    pub(crate) fn places(&self, rows: &[f64]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let Some((_, first)) = self.draws.first() else { return Ok(Vec::new()) };
        let (depth, cells) = (first.concentrations.alpha.len(), first.leaf.len() * first.concentrations.alpha.len());
        let of = |_, frame: &Frame<'_>, row: &[f64], margin: Option<&NewMargin<'_>>| {
            let (total, shares) = shared(&frame.ln_weights(row, margin));
            let through = frame.through(&shares);
            let mut all: Vec<f64> = frame.labels().into_iter().map(|z| through[z as usize]).collect();
            // a branch below a node of level l is new at all levels below it
            let mut new = vec![0.0; depth];
            for (z, share) in shares.iter().enumerate() {
                new.iter_mut().skip(frame.draw.level[z] as usize).for_each(|n| *n += share);
            }
            all.append(&mut new);
            (total, all)
        };
        let split = |mut shares: Vec<f64>| {
            let new = shares.split_off(cells);
            (shares, new)
        };
        Ok(self.averages(rows, cells + depth, of)?.into_iter().map(split).collect())
    }

    /// For each row, on the tree that all draws have: probabilities that it passes through each node, then that it opens a new branch
    /// below each node (0 for leaves).
    pub(crate) fn nodes(&self, rows: &[f64]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let Some((_, draw)) = self.draws.first() else { return Ok(Vec::new()) };
        debug_assert!(self.draws.iter().all(|d| d.1.parent == draw.parent), "numbers of nodes mean nothing between trees");
        let of = |_, frame: &Frame<'_>, row: &[f64], margin: Option<&NewMargin<'_>>| {
            let (total, shares) = shared(&frame.ln_weights(row, margin));
            let new = (0..shares.len()).map(|z| if (frame.draw.level[z] as usize) < frame.depth { shares[z] } else { 0.0 });
            (total, frame.through(&shares).into_iter().chain(new).collect())
        };
        let split = |mut shares: Vec<f64>| {
            let new = shares.split_off(draw.nodes());
            (shares, new)
        };
        Ok(self.averages(rows, 2 * draw.nodes(), of)?.into_iter().map(split).collect())
    }

    /// Shares of components in each row: those of `same` (for each draw, by its place among all, the component that each atom is), one after the
    /// other, then of all atoms that are none of them, then of new ones.
    pub(crate) fn components(&self, rows: &[f64], components: usize, same: &[Vec<Option<usize>>]) -> Result<Vec<Vec<f64>>> {
        let of = |place: usize, frame: &Frame<'_>, row: &[f64], margin: Option<&NewMargin<'_>>| {
            let (total, atoms) = frame.atom_shares(row, margin);
            let mut shares = vec![0.0; components + 2];
            shares[components + 1] = atoms[0];
            atoms[1..].iter().zip(&same[place]).for_each(|(share, as_one)| shares[as_one.unwrap_or(components)] += share);
            (total, shares)
        };
        self.averages(rows, components + 2, of)
    }
}

impl Frame<'_> {
    /// Log density of a row, and shares of a new atom and of each atom in it.
    fn atom_shares(&self, row: &[f64], margin: Option<&NewMargin<'_>>) -> (f64, Vec<f64>) {
        let mut ln_place = self.ln_prior.clone();
        if let Some(margin) = margin {
            ln_place.iter_mut().zip(self.ln_charges(margin)).for_each(|(w, c)| *w += c);
        }
        let top = ln_place.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights = vec![0.0; self.draw.atoms + 1];
        for (z, ln) in ln_place.iter().enumerate() {
            let at = (ln - top).exp();
            weights.iter_mut().zip(self.draw.weights_of(z)).for_each(|(w, beta)| *w += at * beta);
        }
        let ln: Vec<f64> = weights.iter().zip(self.ln_densities(row)).map(|(w, f)| top + w.ln() + f).collect();
        shared(&ln)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::posterior_draws;
    use super::super::{co_occurrence, ln_predictive};
    use super::*;

    /// Many rows at once are told what each is told alone, draws in runs or one after the other.
    #[test]
    fn batches_say_what_is_said_of_each_row() {
        let (kernel, draws) = posterior_draws(50);
        let placed: Vec<(usize, &Draw)> = draws.iter().enumerate().collect();
        let batch = Batch { draws: &placed, kernel: &kernel, columns: 1, separated: None };
        let frames: Vec<Frame<'_>> = draws.iter().map(|d| Frame::new(d, &kernel)).collect();
        let rows = [0.5, 4.0, -1.0];
        let found = batch.places(&rows).unwrap();
        let densities = batch.ln_densities(&rows);
        for (i, (shares, new)) in found.iter().enumerate() {
            let want = co_occurrence(&frames, &rows[i..=i], None);
            shares.iter().zip(&want).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
            // what is new at a level is new below it too
            assert!(new[0] > 0.0 && new[0] <= new[1] && new[1] < 1.0, "{new:?}");
            let mean: f64 = densities.iter().map(|d| d[i].exp()).sum::<f64>() / 50.0;
            assert!((mean.ln() - ln_predictive(&frames, &rows[i..=i])).abs() < 1e-12);
        }
        let alone = batch.places(&rows[1..2]).unwrap();
        assert_eq!(alone[0], found[1], "to the last bit");
    }

    /// In each draw the shares of nodes at a level and of a new one add up to 1.
    #[test]
    fn nodes_and_new_ones_add_up() {
        let (kernel, draws) = posterior_draws(1);
        let placed: Vec<(usize, &Draw)> = draws.iter().enumerate().collect();
        let (shares, new) = &Batch { draws: &placed, kernel: &kernel, columns: 1, separated: None }.places(&[0.2]).unwrap()[0];
        let labels = draws[0].labels();
        for level in 0..2 {
            let mut nodes: Vec<(u32, f64)> = (0..3).map(|i| (labels[2 * i + level], shares[2 * i + level])).collect();
            nodes.dedup_by_key(|n| n.0);
            nodes.sort_by_key(|n| n.0);
            nodes.dedup_by_key(|n| n.0);
            let sum: f64 = nodes.iter().map(|n| n.1).sum::<f64>() + new[level];
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    /// With a margin: places and shares of atoms by the definition, each draw with branches of its own and the row with a calibration of its own.
    #[test]
    fn a_margin_is_that_of_each_draw_and_row() {
        use crate::model::tree::margin::Penalty;
        use rand_distr::{Distribution, StandardNormal};
        let (kernel, mut draws) = posterior_draws(8);
        let mut rng = Stream::new(5, 0, Purpose::Check).rng();
        draws.iter_mut().for_each(|d| d.eta = (0..d.nodes()).map(|_| StandardNormal.sample(&mut rng)).collect());
        let margin = Margin { separation: 0.4, margin: 0.8, spread: 0.7, penalty: Penalty::Max };
        let features = Features::new(&[-1.5, -1.2, 1.0], &[0], Some(3.0), false);
        let separated = Separated { margin, calibrated: true, features };
        let row = [0.7];
        let mut phi = vec![];
        separated.features.append(&row, &mut phi);
        let calibration = Calibration::new(&margin, &[phi[0].abs()]).unwrap();
        let frames: Vec<Frame<'_>> = draws.iter().map(|d| Frame::new(d, &kernel)).collect();
        let branches: Vec<Vec<f64>> = (0..8)
            .map(|d| {
                let stream = || Stream::new(0, 0, Purpose::Predict).item(d as u64).rng();
                let unit = frames[d].draw_branches(&Margin { spread: 1.0, ..margin }, 1, &mut stream());
                let own = frames[d].draw_branches(&margin, 1, &mut stream());
                unit.iter().zip(&own).for_each(|(u, v)| assert!((0.7 * u - v).abs() < 1e-15, "scores have the spread of their prior"));
                own
            })
            .collect();
        let margins: Vec<NewMargin<'_>> =
            branches.iter().map(|branches| NewMargin { margin, calibration: Some(&calibration), branches, phi: &phi }).collect();

        let placed: Vec<(usize, &Draw)> = draws.iter().enumerate().collect();
        let batch = Batch { draws: &placed, kernel: &kernel, columns: 1, separated: Some(&separated) };
        let want = co_occurrence(&frames, &row, Some(&margins));
        let found = &batch.places(&row).unwrap()[0].0;
        want.iter().zip(found).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));

        let same: Vec<Vec<Option<usize>>> = draws.iter().map(|d| (0..d.atoms).map(|k| (k == 0).then_some(0)).collect()).collect();
        let mut want = [0.0; 3];
        for ((draw, frame), margin) in draws.iter().zip(&frames).zip(&margins) {
            let (f, charges) = (frame.ln_densities(&row), frame.ln_charges(margin));
            for z in 0..draw.nodes() {
                let at = |k: usize| (frame.ln_prior[z] + charges[z] + f[k]).exp() * draw.weights_of(z)[k];
                want[2] += at(0);
                want[0] += at(1);
                want[1] += (2..=draw.atoms).map(at).sum::<f64>();
            }
        }
        let total: f64 = want.iter().sum();
        let found = &batch.components(&row, 1, &same).unwrap()[0];
        want.iter().zip(found).for_each(|(w, s)| assert!((w / total - s).abs() < 1e-12, "{want:?} {found:?}"));
    }

    /// Shares of atoms, by the definition: sums over places of prior, weight and density.
    #[test]
    fn shares_of_components() {
        let (kernel, draws) = posterior_draws(8);
        let placed: Vec<(usize, &Draw)> = draws.iter().enumerate().collect();
        // every atom but the first is another one
        let same: Vec<Vec<Option<usize>>> = draws.iter().map(|d| (0..d.atoms).map(|k| (k == 0).then_some(0)).collect()).collect();
        let found = Batch { draws: &placed, kernel: &kernel, columns: 1, separated: None }.components(&[0.7], 1, &same).unwrap();
        let mut want = [0.0; 3];
        for draw in &draws {
            let frame = Frame::new(draw, &kernel);
            let f: Vec<f64> = frame.ln_densities(&[0.7]).iter().map(|l| l.exp()).collect();
            for z in 0..draw.nodes() {
                let weights = draw.weights_of(z);
                let at = frame.ln_prior[z].exp();
                want[2] += at * weights[0] * f[0];
                want[0] += at * weights[1] * f[1];
                want[1] += (2..=draw.atoms).map(|k| at * weights[k] * f[k]).sum::<f64>();
            }
        }
        let total: f64 = want.iter().sum();
        want.iter().zip(&found[0]).for_each(|(w, s)| assert!((w / total - s).abs() < 1e-12, "{want:?} {found:?}"));
    }
}
