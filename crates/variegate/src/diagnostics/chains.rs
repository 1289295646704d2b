//! What the diagnostics share: the shape of chains, splitting, ranks and quantiles.

use super::normal_quantile::normal_quantile;
use crate::special::unit_of;

/// Draws below this count have no diagnostics.
const MIN_DRAWS: usize = 4;

/// Chains of equal length without NaN, flattened: chain after chain.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// In units of `unit`.
    pub values: Vec<f64>,
    /// Not 1 where squares of the draws would overflow or vanish.
    pub unit: f64,
    pub chains: usize,
    pub draws: usize,
}

impl Table {
    /// `None` if there are fewer than `min_chains` chains, fewer than 4 draws, different lengths, or a NaN.
    pub(super) fn new<C: AsRef<[f64]>>(chains: &[C], min_chains: usize) -> Option<Self> {
        let draws = chains.first()?.as_ref().len();
        let usable = chains.len() >= min_chains
            && draws >= MIN_DRAWS
            && chains.iter().all(|c| c.as_ref().len() == draws && !c.as_ref().iter().any(|v| v.is_nan()));
        let unit = unit_of(chains.iter().flat_map(|c| c.as_ref().iter().copied()));
        let values = || chains.iter().flat_map(|c| c.as_ref().iter().map(|v| v / unit)).collect();
        usable.then(|| Self { values: values(), unit, chains: chains.len(), draws })
    }

    pub(super) fn chain(&self, index: usize) -> &[f64] {
        &self.values[index * self.draws..(index + 1) * self.draws]
    }

    /// First and last half of every chain as chains of their own; the middle draw of an odd number is left out.
    pub(super) fn split(&self) -> Self {
        let half = self.draws / 2;
        let firsts = (0..self.chains).flat_map(|c| &self.chain(c)[..half]);
        let lasts = (0..self.chains).flat_map(|c| &self.chain(c)[self.draws - half..]);
        Self { values: firsts.chain(lasts).copied().collect(), chains: 2 * self.chains, draws: half, unit: self.unit }
    }

    pub(super) fn map(&self, f: impl FnMut(f64) -> f64) -> Self {
        Self { values: self.values.iter().copied().map(f).collect(), ..*self }
    }

    /// Every value replaced by Φ⁻¹((r − 3/8) / (n + 1/4)), r its rank among all (ties share their mean rank).
    pub(super) fn rank_normalised(&self) -> Self {
        let n = self.values.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| self.values[a].total_cmp(&self.values[b]));
        let mut values = vec![0.0; n];
        let mut first = 0;
        while first < n {
            let value = self.values[order[first]];
            let mut end = first + 1;
            // == and not the bits: 0.0 and −0.0 are a tie.
            while end < n && self.values[order[end]] == value {
                end += 1;
            }
            let rank = 0.5 * (first + 1 + end) as f64;
            let z = normal_quantile((rank - 0.375) / (n as f64 + 0.25));
            order[first..end].iter().for_each(|&i| values[i] = z);
            first = end;
        }
        Self { values, ..*self }
    }

    pub(super) fn mean(&self) -> f64 {
        mean(&self.values)
    }

    pub(super) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let n = sorted.len();
        if n % 2 == 1 { sorted[n / 2] } else { 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]) }
    }

    pub(super) fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Unlike a comparison with the mean, this is not fooled by rounding.
    pub(super) fn is_constant(&self) -> bool {
        self.values.iter().all(|v| *v == self.values[0])
    }

    /// Squared distances from the mean; exactly 0 for constant draws.
    pub(super) fn squared_deviations(&self) -> Self {
        let centre = if self.is_constant() { self.values[0] } else { self.mean() };
        self.map(|v| (v - centre) * (v - centre))
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Variance with divisor n − 1, in two passes.
pub(super) fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|v| (v - centre) * (v - centre)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// Draws of all chains, chain after chain, as one list a chain of these lengths.
///
/// # Panics
/// If there are fewer values than the lengths add up to.
pub fn by_chain(values: &[f64], lengths: &[usize]) -> Vec<Vec<f64>> {
    let mut rest = values;
    lengths
        .iter()
        .map(|&n| {
            let (head, tail) = rest.split_at(n);
            rest = tail;
            head.to_vec()
        })
        .collect()
}

/// The quantile of all draws at probability `p`, interpolated linearly between order statistics (R's type 7).
pub fn quantile<C: AsRef<[f64]>>(chains: &[C], p: f64) -> f64 {
    let mut all: Vec<f64> = chains.iter().flat_map(|c| c.as_ref().iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    if all.iter().any(|v| v.is_nan()) { f64::NAN } else { sorted_quantile(&all, p) }
}

pub(crate) fn sorted_quantile(sorted: &[f64], p: f64) -> f64 {
    let n = sorted.len();
    if n == 0 || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if n == 1 {
        return sorted[0];
    }
    // Indicators x ≤ quantile depend on the last bit, so the order of operations is part of the definition.
    let place = n as f64 * p + (1.0 - p);
    let below = place.clamp(1.0, (n - 1) as f64).floor();
    let weight = (place - below).clamp(0.0, 1.0);
    let index = below as usize;
    (1.0 - weight) * sorted[index - 1] + weight * sorted[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_diagnosed() {
        let ok = [1.0, 2.0, 3.0, 4.0];
        assert!(Table::new(&[&ok[..]], 1).is_some());
        assert!(Table::new(&[&ok[..]], 2).is_none());
        assert!(Table::new(&[&ok[..3]], 1).is_none());
        assert!(Table::new(&[&ok[..], &ok[..3]], 1).is_none());
        assert!(Table::new(&[vec![1.0, f64::NAN, 3.0, 4.0]], 1).is_none());
        assert!(Table::new::<Vec<f64>>(&[], 0).is_none());
    }

    #[test]
    fn halves_leave_out_the_middle() {
        let table = Table::new(&[[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]], 1).unwrap();
        let split = table.split();
        assert_eq!((split.chains, split.draws), (4, 2));
        assert_eq!(split.values, [1.0, 2.0, 6.0, 7.0, 4.0, 5.0, 9.0, 10.0]);
    }

    #[test]
    fn ties_share_their_rank() {
        let table = Table::new(&[[3.0, -0.0, 0.0, 1.0]], 1).unwrap().rank_normalised();
        let z = |rank: f64| normal_quantile((rank - 0.375) / 4.25);
        assert_eq!(table.values, [z(4.0), z(1.5), z(1.5), z(3.0)]);
    }

    #[test]
    fn quantiles_interpolate() {
        let draws = [[4.0, 1.0], [3.0, 2.0]];
        assert_eq!(quantile(&draws, 0.0), 1.0);
        assert_eq!(quantile(&draws, 0.5), 2.5);
        assert!((quantile(&draws, 0.9) - 3.7).abs() < 1e-15);
        assert_eq!(quantile(&draws, 1.0), 4.0);
        assert!(quantile(&draws, 1.5).is_nan());
        assert!(quantile(&[[f64::NAN, 1.0]], 0.5).is_nan());
        assert!(quantile::<Vec<f64>>(&[], 0.5).is_nan());
        assert_eq!(quantile(&[[7.0]], 0.3), 7.0);
    }
}
