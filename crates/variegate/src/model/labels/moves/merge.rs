//! Two components become one. Sums of their rows add; all that rows must be asked for is the joint entropy of the two.
//!
//! The bounds of the labels' terms stay where they were tangent: an average of such bounds is a bound, and the entropy of an average q(a, h)
//! is not less than the average of entropies. So the bound after a merge is not above the true one, and judging by it is safe.

use super::super::mixture::{Factors, Mixture, Sums, entropy_of};
use crate::Result;
use crate::special::ln_beta;

/// Pairs whose joint entropies are collected in a sweep.
const MOST_PAIRS: usize = 50;
/// Pairs for each component, at most: those that differ much need no global step of their own to be refused.
const PAIRS_EACH: usize = 2;
/// What labels may gain by one pattern less, each: pairs whose features lose more than that are not looked at further.
const LABEL_GAIN: f64 = 5.0;
/// A merge must gain more than rounding does.
const ROUNDING: f64 = 1e-9;

/// A pair that may be merged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    pub(crate) one: usize,
    pub(crate) other: usize,
    /// −Σ_i (r_ij + r_il) ln(r_ij + r_il).
    pub(crate) entropy: f64,
    /// Whether it need not gain, as long as it does not lose: one of the two has no rows.
    pub(crate) free: bool,
}

/// A merge that was made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merged {
    /// Number of the pair among those that were looked at.
    pub(crate) pair: usize,
    /// The two components, as they were called before this merge.
    pub(crate) into: usize,
    pub(crate) from: usize,
    /// After the rows were joined, component `order[k]` became k; `from` is left out.
    pub(crate) order: Vec<usize>,
}

impl Mixture {
    /// What a merge gains in features (exactly) and in weights, and about what in labels, by their rates alone. Its entropy loses.
    pub(super) fn gains(&self, sums: &Sums, j: usize, l: usize) -> Result<(f64, f64)> {
        let size = self.kernel.size();
        let of = |k: usize| &sums.kernel.0[k * size..(k + 1) * size];
        let both: Vec<f64> = of(j).iter().zip(of(l)).map(|(a, b)| a + b).collect();
        let features = self.kernel.ln_marginal(&both)? - self.kernel.ln_marginal(of(j))? - self.kernel.ln_marginal(of(l))?;
        let [n, m] = [j, l].map(|k| sums.counts.0[k].max(0.0));
        // n_j ln π_j + n_l ln π_l, with weights in proportion to rows
        let weights = -entropy_of(n + m) + entropy_of(n) + entropy_of(m);
        let labels = sums.known.0.len() / sums.components();
        let rate = |present: f64, known: f64| ln_beta(0.5 + present, 0.5 + (known - present).max(0.0)) - ln_beta(0.5, 0.5);
        let of_label = |c: usize| {
            let [a, b] = [j, l].map(|k| (sums.present.0[k * labels + c].max(0.0), sums.known.0[k * labels + c]));
            rate(a.0 + b.0, a.1 + b.1) - rate(a.0, a.1) - rate(b.0, b.1)
        };
        Ok((features + weights, (0..labels).map(of_label).sum()))
    }

    /// Pairs of components that look alike by features and labels, most alike first.
    pub(super) fn alike(&self, sums: &Sums) -> Result<Vec<(usize, usize)>> {
        let components = sums.components();
        let labels = sums.known.0.len() as f64 / components as f64;
        let mut found = Vec::new();
        for l in 1..components {
            for j in 0..l {
                let (features, by_rates) = self.gains(sums, j, l)?;
                if features > -LABEL_GAIN * labels {
                    found.push((features + by_rates, (j, l)));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(MOST_PAIRS.min(PAIRS_EACH * components));
        Ok(found.into_iter().map(|(_, pair)| pair).collect())
    }

    /// The component that is most like component k.
    pub(crate) fn most_alike(&self, sums: &Sums, k: usize) -> Result<usize> {
        let mut best = (f64::NEG_INFINITY, usize::from(k == 0));
        for j in (0..sums.components()).filter(|&j| j != k) {
            let (features, labels) = self.gains(sums, j, k)?;
            if features + labels > best.0 {
                best = (features + labels, j);
            }
        }
        Ok(best.1)
    }

    /// Merges disjoint pairs, most promising first, as long as each raises the bound after a global step. What was merged is given back in
    /// order, so that it can be done to the parts of the sums as well.
    pub(crate) fn merge(&self, q: &mut Factors, sums: &mut Sums, bound: &mut f64, pairs: &[Pair]) -> Result<Vec<Merged>> {
        let size = self.kernel.size();
        let labels = sums.known.0.len() as f64 / sums.components() as f64;
        let mut ranked = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            let (features, by_rates) = self.gains(sums, pair.one, pair.other)?;
            let spread = pair.entropy - sums.entropies.0[pair.one] - sums.entropies.0[pair.other];
            if pair.free || features + spread > -LABEL_GAIN * labels {
                ranked.push((features + spread + by_rates, number));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        // where the components are that no merge has touched
        let mut now: Vec<Option<usize>> = (0..sums.components()).map(Some).collect();
        let mut done = Vec::new();
        for (_, number) in ranked {
            let pair = pairs[number];
            let (Some(a), Some(b)) = (now[pair.one], now[pair.other]) else { continue };
            let (into, from) = (a.min(b), a.max(b));
            let (mut next_q, mut next) = (q.clone(), sums.clone());
            next.join(into, from, pair.entropy, size);
            let kept: Vec<usize> = (0..next.components()).filter(|&k| k != from).collect();
            next.permute(&kept, size);
            next_q.labels.permute(&kept);
            let order: Vec<usize> = self.update(&mut next_q, &mut next)?.into_iter().map(|k| kept[k]).collect();
            let after = self.bound(&next_q, &next);
            let slack = ROUNDING * bound.abs();
            if after > if pair.free { *bound - slack } else { *bound + slack } {
                (*q, *sums, *bound) = (next_q, next, after);
                (now[pair.one], now[pair.other]) = (None, None);
                for place in now.iter_mut() {
                    *place = place.and_then(|k| order.iter().position(|&o| o == k));
                }
                done.push(Merged { pair: number, into, from, order });
            }
        }
        Ok(done)
    }
}

impl Sums {
    /// Does a merge to a part of the sums, of whose rows `entropy` is the joint entropy.
    pub(crate) fn follow(&mut self, merged: &Merged, entropy: f64, size: usize) {
        self.join(merged.into, merged.from, entropy, size);
        self.permute(&merged.order, size);
    }
}
