//! What makes components differ, and which labels go together because components share them.
//!
//! With weights π_k, rates ρ_kc of labels in components and ρ_c = Σ_k π_k ρ_kc, labels c and d depend on one another through components by
//!
//! ```text
//! Σ_k π_k (ρ_kc - ρ_c)(ρ_kd - ρ_d)
//! ```
//!
//! A column is typical of a component if its mean there is far from its mean over all components: as a ratio for counts and answers, as a
//! difference for measured columns.

use super::settings::KernelKind;
use crate::answer::{ColumnKind, SummaryTable};

/// Columns of a component that are named.
const NAMED_COLUMNS: usize = 4;
/// A column must be this many times as common as elsewhere to be named.
const LEAST_RATIO: f64 = 1.2;
/// Pairs of labels that are named.
const NAMED_PAIRS: usize = 10;
/// Pairs of labels that are less correlated are not named.
const LEAST_CORRELATION: f64 = 0.05;

/// Weights that sum to one.
pub(super) fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= total);
    weights
}

/// Mean rate of each label over components of these weights that know it (rates: K×C, NaN where no row does).
pub(super) fn overall(weights: &[f64], rates: &[f64], labels: usize) -> Vec<f64> {
    let known = |c: usize| weights.iter().zip(rates.iter().skip(c).step_by(labels)).filter(|(_, r)| !r.is_nan());
    (0..labels).map(|c| known(c).map(|(w, r)| w * r).sum::<f64>() / known(c).map(|(w, _)| w).sum::<f64>()).collect()
}

/// Dependence of labels on one another through components (C×C). A component whose rows do not know a label says nothing of it.
pub(super) fn dependence(weights: &[f64], rates: &[f64], labels: usize) -> Vec<f64> {
    let mean = overall(weights, rates, labels);
    let mut out = vec![0.0; labels * labels];
    let mut away = vec![0.0; labels];
    for (w, rates) in weights.iter().zip(rates.chunks_exact(labels.max(1))) {
        away.iter_mut().zip(rates).zip(&mean).for_each(|((a, r), m)| *a = if r.is_nan() { 0.0 } else { r - m });
        for (a, out) in away.iter().zip(out.chunks_exact_mut(labels)).filter(|(a, _)| **a != 0.0) {
            out.iter_mut().zip(&away).for_each(|(o, b)| *o += w * a * b);
        }
    }
    out
}

/// The pairs of labels that depend most on one another, as correlations of what is present and absent.
pub(super) fn pairs(names: &[String], mean: &[f64], dependence: &[f64]) -> SummaryTable {
    let labels = names.len();
    let deviation: Vec<f64> = mean.iter().map(|r| (r * (1.0 - r)).sqrt()).collect();
    let mut found: Vec<(usize, usize, f64)> = Vec::new();
    for c in 0..labels {
        for d in c + 1..labels {
            let correlation = dependence[c * labels + d] / (deviation[c] * deviation[d]);
            if correlation.abs() >= LEAST_CORRELATION {
                found.push((c, d, correlation));
            }
        }
    }
    found.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    let mut table = SummaryTable::new("labels that go together", [("correlation", ColumnKind::Number), ("covariance", ColumnKind::Number)]);
    for (c, d, correlation) in found.into_iter().take(NAMED_PAIRS) {
        table.rows.push((format!("{} with {}", names[c], names[d]), vec![correlation, dependence[c * labels + d]]));
    }
    table
}

/// Columns that set component k apart (means: K×D as the kernel sees rows); empty where none does.
pub(super) fn typical_columns(kernel: KernelKind, columns: &[String], weights: &[f64], means: &[f64], k: usize) -> String {
    let width = means.len() / weights.len().max(1);
    let own = &means[k * width..(k + 1) * width];
    let base = overall(weights, means, width);
    let ratios = !matches!(kernel, KernelKind::GaussianDiag | KernelKind::GaussianFull);
    // what is rarer than most is left out: its ratio says little
    let usual = if ratios { own.iter().sum::<f64>() / width.max(1) as f64 } else { f64::NEG_INFINITY };
    let mut order: Vec<(usize, f64)> = own.iter().zip(&base).map(|(m, b)| if ratios { m / b } else { m - b }).enumerate().collect();
    order.retain(|&(j, by)| if ratios { own[j] >= usual && by >= LEAST_RATIO } else { by != 0.0 });
    order.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let word = |&(j, by): &(usize, f64)| {
        let name = columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"));
        if ratios { format!("{name} ×{by:.1}") } else { format!("{name} {by:+.2}") }
    };
    order.iter().take(NAMED_COLUMNS).map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [f64; 2] = [0.25, 0.75];

    #[test]
    fn dependence_is_the_covariance_of_rates() {
        // label 2 is known in the first component alone
        let rates = [0.9, 0.8, 0.3, 0.1, 0.4, f64::NAN];
        assert_eq!(overall(&WEIGHTS, &rates, 3), [0.25 * 0.9 + 0.75 * 0.1, 0.25 * 0.8 + 0.75 * 0.4, 0.3]);
        let found = dependence(&WEIGHTS, &rates, 3);
        // two components: π₁π₂ times the product of differences
        let by_hand = |a: f64, b: f64| 0.25 * 0.75 * a * b;
        let expected = [by_hand(0.8, 0.8), by_hand(0.8, 0.4), 0.0, by_hand(0.8, 0.4), by_hand(0.4, 0.4), 0.0, 0.0, 0.0, 0.0];
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-15, "{found:?}");
        }
        let names = ["a", "b", "c"].map(String::from);
        let table = pairs(&names, &overall(&WEIGHTS, &rates, 3), &found);
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0].0, "a with b");
        assert!((table.rows[0].1[0] - 0.06 / (0.3_f64 * 0.7 * 0.5 * 0.5).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn columns_that_set_components_apart_are_named() {
        let columns = ["goal", "vote", "the"].map(String::from);
        let means = [0.60, 0.10, 0.30, 0.08, 0.62, 0.30];
        let of = |kernel, k| typical_columns(kernel, &columns, &WEIGHTS, &means, k);
        assert_eq!(of(KernelKind::Multinomial, 0), "goal ×2.9");
        assert_eq!(of(KernelKind::Multinomial, 1), "vote ×1.3");
        assert_eq!(of(KernelKind::GaussianDiag, 0), "goal +0.39, vote -0.39");
        assert_eq!(typical_columns(KernelKind::Bernoulli, &[], &[1.0], &[0.2, 0.4], 0), "");
    }
}
