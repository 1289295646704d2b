//! Atoms, rates and background given the latent counts and weights of all rows.

use rand::Rng;
use rand_distr::Distribution;

use super::pieces::{change_pieces, map_pieces};
use super::{Counts, SMALLEST, Scales, Sums};
use crate::Result;
use crate::dist::{Gamma, GeneralizedInverseGaussian};
use crate::run::Philox;
use crate::special::ln_gamma;

/// Values of an atom in a matrix with one source a row.
pub(super) fn by_atom(values: &[f64], count: usize, k: usize) -> impl Iterator<Item = f64> + '_ {
    values.iter().skip(k).step_by(count.max(1)).copied()
}

pub(super) fn learn(
    model: &Counts,
    phi: &mut [f64],
    scales: &mut Scales,
    sums: &Sums,
    uses: &[u64],
    rows: &[u64],
    rng: &mut Philox,
) -> Result<Vec<f64>> {
    let (width, count) = (model.width, phi.len() / model.width);
    let sources = scales.weight.len();
    let (a, rate) = (scales.shape, scales.atom);
    // a generator an atom: they are drawn in parallel, to the same numbers whoever draws them
    let key = [rng.next_u64(), rng.next_u64()];
    let drawn = change_pieces(phi, width, |k, atom| -> Result<()> {
        let mut rng = Philox::new(key, [0, k as u64, 0, 0]);
        let rate = rate + by_atom(&sums.weights.0, count, k).sum::<f64>();
        let counts = &sums.counts.0[k * width..][..width];
        let empty = Gamma::new(a, rate)?;
        for (v, &s) in atom.iter_mut().zip(counts) {
            let distribution = if s == 0.0 { empty } else { Gamma::new(a + s, rate)? };
            *v = distribution.sample(&mut rng).max(SMALLEST);
        }
        Ok(())
    });
    drawn.into_iter().collect::<Result<()>>()?;
    let totals: Vec<f64> = phi.chunks_exact(width).map(|atom| atom.iter().sum()).collect();
    if model.fixed.is_none() {
        let (shape, prior_rate) = model.background_prior;
        let (c, d) = model.rate_prior;
        for j in 0..sources {
            let counts = sums.background.0.get(j).copied().unwrap_or(0.0);
            scales.background[j] = Gamma::new(shape + counts, prior_rate + width as f64 * rows[j] as f64)?.sample(rng).max(SMALLEST);
            let used: u64 = uses[j * count..][..count].iter().sum();
            let weights: f64 = sums.weights.0.iter().skip(j * count).take(count).sum();
            scales.weight[j] = Gamma::new(c + model.weight_shape * used as f64, d + weights)?.sample(rng).max(SMALLEST);
        }
        scales.atom = Gamma::new(c + a * (width * count) as f64, d + totals.iter().sum::<f64>())?.sample(rng).max(SMALLEST);
    }
    // the scale of each atom against its weights, exactly from its distribution along that line
    let mut factors = Vec::with_capacity(count);
    for (k, atom) in phi.chunks_exact_mut(width).enumerate() {
        let used: u64 = (0..sources).map(|j| uses[j * count + k]).sum();
        let weights: f64 = by_atom(&sums.weights.0, count, k).zip(&scales.weight).map(|(w, b)| w * b).sum();
        let p = width as f64 * a - model.weight_shape * used as f64;
        let c = GeneralizedInverseGaussian::new(p, 2.0 * scales.atom * totals[k], 2.0 * weights)?.sample(rng).clamp(1e-100, 1e100);
        atom.iter_mut().for_each(|v| *v = (*v * c).max(SMALLEST));
        factors.push(c);
    }
    // then the scale of all atoms at once, with the rates, which one step at a time would hardly move: the distributions of atoms and weights
    // given their rates do not change along it, so that only the priors of the rates have a say
    if model.fixed.is_none() {
        let (c, d) = model.rate_prior;
        let pull = scales.weight.iter().sum::<f64>();
        let all = GeneralizedInverseGaussian::new(c * (sources as f64 - 1.0), 2.0 * d * pull, 2.0 * d * scales.atom)?;
        let all = all.sample(rng).clamp(1e-100, 1e100);
        scales.atom = (scales.atom / all).max(SMALLEST);
        scales.weight.iter_mut().for_each(|rate| *rate = (*rate * all).max(SMALLEST));
        phi.iter_mut().for_each(|v| *v = (*v * all).max(SMALLEST));
        factors.iter_mut().for_each(|factor| *factor *= all);
    }
    Ok(factors)
}

pub(super) fn ln_prior(model: &Counts, phi: &[f64], scales: &Scales, sums: &Sums, uses: &[u64]) -> f64 {
    let count = phi.len() / model.width;
    // log densities of the logarithms of Gamma(a, r) draws, from their number, the sum of their logarithms and their sum. The densities
    // of the draws themselves have no upper bound: entries near 0 of sparse atoms would drown everything else
    let gammas = |n: f64, a: f64, r: f64, ln_sum: f64, sum: f64| n * (a * r.ln() - ln_gamma(a)) + a * ln_sum - r * sum;
    let one = |(a, r): (f64, f64), x: f64| gammas(1.0, a, r, x.ln(), x);
    let ln_sum = map_pieces(phi, 4096, |entries| entries.iter().map(|v| v.ln()).sum::<f64>()).iter().sum();
    let mut all = gammas(phi.len() as f64, scales.shape, scales.atom, ln_sum, phi.iter().sum());
    for j in 0..scales.weight.len() {
        let used: u64 = uses[j * count..][..count].iter().sum();
        let weights: f64 = sums.weights.0.iter().skip(j * count).take(count).sum();
        let ln_weights = sums.ln_weights.0.get(j).copied().unwrap_or(0.0);
        all += gammas(used as f64, model.weight_shape, scales.weight[j], ln_weights, weights);
        all += one(model.rate_prior, scales.weight[j]) + one(model.background_prior, scales.background[j]);
    }
    if let Some(prior) = model.shape_prior {
        all += one(prior, scales.shape);
    }
    all + one(model.rate_prior, scales.atom)
}
