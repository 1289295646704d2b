//! Weights of the components by breaking a stick: v_k ~ Beta(1, α), π_k = v_k ∏_{j<k} (1 − v_j), with α fixed or Gamma-distributed.
//!
//! The truncation is nested: K sticks have Beta factors, all later ones keep their prior, and no row belongs to them. The bound is
//! then one of the infinite mixture, and for a fixed α an empty component at the end costs nothing.

use serde::{Deserialize, Serialize};

use super::gamma_factor::GammaFactor;
use crate::special::{digamma, ln_beta};

/// What is known of α beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Concentration {
    /// It is this number.
    Fixed(f64),
    /// It has this prior.
    Random(GammaFactor),
}

impl Concentration {
    /// Its prior mean.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Fixed(alpha) => *alpha,
            Self::Random(prior) => prior.mean(),
        }
    }
}

/// Factors of K sticks and of α.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sticks {
    /// What was known of α beforehand.
    pub(crate) prior: Concentration,
    /// α: the fixed number, or its factor.
    pub(crate) alpha: Concentration,
    /// First parameters of the Beta factors.
    pub(crate) first: Vec<f64>,
    /// Second parameters.
    pub(crate) second: Vec<f64>,
}

impl Sticks {
    /// Before the first update: α is as the prior has it, and sticks are those of its mean.
    pub(crate) fn start(prior: Concentration, components: usize) -> Self {
        Self { prior, alpha: prior, first: vec![1.0; components], second: vec![prior.mean(); components] }
    }

    /// Number of components.
    #[cfg(test)]
    pub(crate) fn components(&self) -> usize {
        self.first.len()
    }

    /// Sticks from expected numbers of rows n_k, whose order is taken as it is (sorted downwards is best), then α from the sticks.
    pub(crate) fn update(&mut self, counts: &[f64]) {
        let alpha = self.mean_alpha();
        self.first = counts.iter().map(|n| 1.0 + n).collect();
        self.second = vec![alpha; counts.len()];
        let mut later = 0.0;
        for (second, n) in self.second.iter_mut().zip(counts).rev() {
            *second += later;
            later += n;
        }
        if let Concentration::Random(prior) = self.prior {
            // α is a shape of every stick that has a factor
            let rate = prior.rate - self.ln_remaining();
            self.alpha = Concentration::Random(GammaFactor::new(prior.shape + counts.len() as f64, rate));
        }
    }

    /// E α.
    pub(crate) fn mean_alpha(&self) -> f64 {
        self.alpha.mean()
    }

    /// E ln α.
    pub(crate) fn mean_ln_alpha(&self) -> f64 {
        match &self.alpha {
            Concentration::Fixed(alpha) => alpha.ln(),
            Concentration::Random(q) => q.mean_ln(),
        }
    }

    /// E ln v_k and E ln(1 − v_k).
    fn ln_pairs(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        self.first.iter().zip(&self.second).map(|(&a, &b)| {
            let both = digamma(a + b);
            (digamma(a) - both, digamma(b) - both)
        })
    }

    /// E ln π_k.
    pub(crate) fn ln_weights(&self) -> Vec<f64> {
        let mut before = 0.0;
        self.ln_pairs()
            .map(|(taken, left)| {
                let weight = before + taken;
                before += left;
                weight
            })
            .collect()
    }

    /// Σ_k E ln(1 − v_k): the expected logarithm of what the K sticks leave.
    pub(crate) fn ln_remaining(&self) -> f64 {
        self.ln_pairs().map(|(_, left)| left).sum()
    }

    /// ln E π_k.
    pub(crate) fn ln_mean_weights(&self) -> Vec<f64> {
        let mut before = 0.0;
        let pairs = self.first.iter().zip(&self.second);
        pairs
            .map(|(&a, &b)| {
                let weight = before + (a / (a + b)).ln();
                before += (b / (a + b)).ln();
                weight
            })
            .collect()
    }

    /// ln E ∏_k (1 − v_k): the expected mass of all components that are not among the K.
    pub(crate) fn ln_mean_remaining(&self) -> f64 {
        self.first.iter().zip(&self.second).map(|(a, b)| (b / (a + b)).ln()).sum()
    }

    /// Divergence of the sticks and of α from their priors.
    pub(crate) fn divergence(&self) -> f64 {
        let (alpha, ln_alpha) = (self.mean_alpha(), self.mean_ln_alpha());
        let pairs = self.first.iter().zip(&self.second).zip(self.ln_pairs());
        // −E ln p(v | α) with p = α (1 − v)^(α − 1)
        let sticks: f64 = pairs.map(|((&a, &b), (v, left))| -ln_beta(a, b) + (a - 1.0) * v + (b - alpha) * left - ln_alpha).sum();
        sticks
            + match (&self.alpha, &self.prior) {
                (Concentration::Random(q), Concentration::Random(prior)) => q.divergence(*prior),
                _ => 0.0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Beta;
    use crate::dist::testing::rng;

    fn close(got: &[f64], want: &[f64], within: f64) {
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < within), "{got:?} {want:?}");
    }

    /// Expected logarithms by Beta sticks (not as of a Dirichlet), and means against draws.
    #[test]
    fn expectations_of_weights() {
        let mut sticks = Sticks::start(Concentration::Fixed(1.0), 3);
        sticks.update(&[6.0, 3.0, 1.0]);
        close(&sticks.ln_weights(), &[-0.569877, -1.386544, -2.719877], 5e-7);
        let (mut rng, draws) = (rng(3), 100_000);
        let betas: Vec<Beta> = sticks.first.iter().zip(&sticks.second).map(|(&a, &b)| Beta::new(a, b).unwrap()).collect();
        let (mut weights, mut remaining, mut ln_remaining) = ([0.0; 3], 0.0, 0.0);
        for _ in 0..draws {
            let mut left = 0.0;
            for (weight, beta) in weights.iter_mut().zip(&betas) {
                let (taken, rest) = beta.sample_ln(&mut rng);
                *weight += (left + taken).exp() / draws as f64;
                left += rest;
            }
            remaining += left.exp() / draws as f64;
            ln_remaining += left / draws as f64;
        }
        // a weight has a standard deviation of about 0.14, the logarithm of the rest one of 1.4
        let means: Vec<f64> = sticks.ln_mean_weights().iter().map(|v| v.exp()).collect();
        close(&weights, &means, 2e-3);
        close(&[remaining, ln_remaining], &[sticks.ln_mean_remaining().exp(), sticks.ln_remaining()], 2e-2);
        assert!((means.iter().sum::<f64>() + sticks.ln_mean_remaining().exp() - 1.0).abs() < 1e-14);
    }

    /// The part of the bound that sticks have a share in.
    fn bound(sticks: &Sticks, counts: &[f64]) -> f64 {
        sticks.ln_weights().iter().zip(counts).map(|(l, n)| l * n).sum::<f64>() - sticks.divergence()
    }

    /// At an update the bound is flat in each parameter, and lower on both sides.
    #[test]
    fn an_update_is_a_maximum() {
        let counts = [4.2, 3.0, 0.4, 0.0];
        let random = Concentration::Random(GammaFactor::new(1.5, 0.8));
        for prior in [Concentration::Fixed(0.7), random] {
            let mut sticks = Sticks::start(prior, 4);
            (0..200).for_each(|_| sticks.update(&counts));
            let at = bound(&sticks, &counts);
            let vary = |change: &dyn Fn(&mut Sticks, f64)| {
                let moved = |by: f64| {
                    let mut q = sticks.clone();
                    change(&mut q, by);
                    bound(&q, &counts)
                };
                let (up, down) = (moved(1e-4), moved(-1e-4));
                assert!(((up - down) / 2e-4).abs() < 1e-6 && up < at && down < at, "{up} {down} {at}");
            };
            for k in 0..4 {
                vary(&|q, by| q.first[k] += by);
                vary(&|q, by| q.second[k] += by);
            }
            if let Concentration::Random(q) = sticks.alpha {
                vary(&|s, by| s.alpha = Concentration::Random(GammaFactor::new(q.shape + by, q.rate)));
                vary(&|s, by| s.alpha = Concentration::Random(GammaFactor::new(q.shape, q.rate + by)));
            }
        }
    }

    /// An empty component at the end is free for a fixed α; with a random one it costs ln E α − E ln α at an unchanged factor of α.
    /// Exchanging two neighbours a > b with R rows behind them loses ln((α + a + R)/(α + b + R)).
    #[test]
    fn empty_components_and_exchanged_ones() {
        let mut sticks = Sticks::start(Concentration::Fixed(1.3), 2);
        sticks.update(&[5.0, 2.0]);
        let (three, mut longer) = (bound(&sticks, &[5.0, 2.0]), sticks.clone());
        longer.update(&[5.0, 2.0, 0.0]);
        assert!((bound(&longer, &[5.0, 2.0, 0.0]) - three).abs() < 1e-13);
        let (mut sorted, mut exchanged) = (longer.clone(), longer.clone());
        sorted.update(&[5.0, 4.0, 2.0, 1.0]);
        exchanged.update(&[5.0, 2.0, 4.0, 1.0]);
        let gain = bound(&sorted, &[5.0, 4.0, 2.0, 1.0]) - bound(&exchanged, &[5.0, 2.0, 4.0, 1.0]);
        assert!((gain - ((1.3 + 4.0 + 1.0) / (1.3 + 2.0 + 1.0f64)).ln()).abs() < 1e-12);

        let mut random = Sticks::start(Concentration::Random(GammaFactor::new(1.0, 1.0)), 2);
        (0..50).for_each(|_| random.update(&[5.0, 2.0]));
        let mut longer = random.clone();
        longer.first.push(1.0);
        longer.second.push(random.mean_alpha());
        let cost = bound(&random, &[5.0, 2.0]) - bound(&longer, &[5.0, 2.0, 0.0]);
        assert!((cost - (random.mean_alpha().ln() - random.mean_ln_alpha())).abs() < 1e-12);
    }

    /// With one component the bound is exact: ln B(1 + n, α) − ln B(1, α).
    #[test]
    fn one_component_is_exact() {
        let mut sticks = Sticks::start(Concentration::Fixed(0.4), 1);
        sticks.update(&[7.0]);
        assert!((bound(&sticks, &[7.0]) - (ln_beta(8.0, 0.4) - ln_beta(1.0, 0.4))).abs() < 1e-13);
    }
}
