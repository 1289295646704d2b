//! Concentrations, learned under Gamma priors.
//!
//! For a likelihood `prod_g x^{m_g} G(x)/G(x + n_g)`: `w_g ~ Beta(x + 1, n_g)`, `u_g ~ Bernoulli(n_g/(n_g + x))`, then
//! `x ~ Gamma(a + sum (m_g - u_g), b - sum ln w_g)`. Groups are: for `alpha` the inner nodes (rows, children), for `gamma` all nodes but
//! the root (customers, tables), for `gamma0` the root (tables of level 1, atoms). In a finite mixture `gamma0` has another
//! likelihood, `G(gamma0)/G(gamma0 + M.) prod_k G(gamma0/K + M_k)/G(gamma0/K)`, and a slice step on its logarithm.

use rand_distr::Distribution;

use super::super::arena::ROOT;
use super::super::draw::ln_rising;
use super::Sampler;
use crate::dist::Gamma;
use crate::infer::slice::SliceSampler;
use crate::run::{Philox, open01};
use crate::{Error, Result};

/// One step of a concentration under a prior of this shape and rate, given groups of (customers, tables); customers are at least 1.
fn step((mut shape, mut rate): (f64, f64), now: f64, groups: impl Iterator<Item = (u32, u32)>, rng: &mut Philox) -> Result<f64> {
    for (n, m) in groups {
        let n = f64::from(n);
        let (a, b) = (Gamma::new(now + 1.0, 1.0)?.sample(rng), Gamma::new(n, 1.0)?.sample(rng));
        rate -= (a / (a + b)).ln(); // a Beta(x + 1, n) variable
        shape += f64::from(m);
        if open01(rng) * (n + now) < n {
            shape -= 1.0;
        }
    }
    // every group has a table, so the shape is at least that of the prior
    Ok(Gamma::new(shape, rate)?.sample(rng))
}

impl Sampler<'_> {
    /// All of them, after tables and before weights.
    pub(in super::super) fn draw_concentrations(&mut self, rng: &mut Philox) -> Result<()> {
        let (depth, prior) = (self.state.arena.depth(), self.rules.prior);
        // levels that share a number: all of them, or each by itself
        let levels = |one: bool| {
            let together = if one { depth } else { 1 };
            (1..=depth).step_by(together).map(move |l| l..l + together)
        };

        for range in levels(self.rules.one_alpha) {
            let arena = &self.state.arena;
            let groups = range.clone().flat_map(|l| arena.at_level(l - 1)).map(|&z| (arena.rows(z), arena.n_children(z)));
            let alpha = step(prior, self.state.concentrations.alpha[range.start - 1], groups, rng)?;
            self.state.concentrations.alpha[range.start - 1..range.end - 1].fill(alpha);
        }
        for range in levels(self.rules.one_gamma) {
            let sum = |row: &[u32]| row[1..].iter().sum::<u32>();
            let (customers, tables) = (&self.work.customers, &self.work.tables);
            let nodes = range.clone().flat_map(|l| self.state.arena.at_level(l));
            let groups = nodes.map(|&z| (sum(customers.row(z)), sum(tables.row(z))));
            let gamma = step(prior, self.state.concentrations.gamma[range.start - 1], groups, rng)?;
            self.state.concentrations.gamma[range.start - 1..range.end - 1].fill(gamma);
        }
        let tables = &self.work.customers.row(ROOT)[1..=self.state.size.len()];
        let all: u32 = tables.iter().sum();
        let now = self.state.concentrations.gamma0;
        self.state.concentrations.gamma0 = if self.state.finite {
            step_finite(prior, now, tables, rng)?
        } else {
            step(prior, now, std::iter::once((all, self.state.occupied_atoms() as u32)), rng)?
        };
        Ok(())
    }
}

/// The slice step of a finite mixture.
fn step_finite((shape, rate): (f64, f64), now: f64, tables: &[u32], rng: &mut Philox) -> Result<f64> {
    let all: u32 = tables.iter().sum();
    let ln_density = |l: f64| {
        let x = l.exp();
        // the Jacobian and the prior are x^shape exp(-rate x)
        let each: f64 = tables.iter().map(|&m| ln_rising(x / tables.len() as f64, m)).sum();
        shape * l - rate * x - ln_rising(x, all) + each
    };
    match SliceSampler::default().step(now.ln(), ln_density, rng) {
        Ok(step) => Ok(step.x.exp()),
        Err(no) => Err(Error::Numerical { what: "the step of gamma0", sweep: 0, detail: no.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Purpose, Stream};

    /// Known moments of a concentration given groups, and both kinds of likelihood against quadrature.
    #[test]
    fn known_posterior_of_a_concentration() {
        let groups = [(6, 2), (4, 3), (2, 1)];
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        let mut x = 1.0;
        // means of batches: draws of one chain are not independent
        let batches: Vec<[f64; 2]> = (0..200)
            .map(|_| {
                let mut sums = [0.0; 2];
                for _ in 0..500 {
                    x = step((1.0, 1.0), x, groups.into_iter(), &mut rng).unwrap();
                    sums[0] += x / 500.0;
                    sums[1] += x * x / 500.0;
                }
                sums
            })
            .collect();
        for (i, known) in [1.067691, 1.560844].into_iter().enumerate() {
            close(&batches.iter().map(|b| b[i]).collect::<Vec<_>>(), known);
        }
    }

    #[test]
    fn a_finite_mixture_has_its_own_step() {
        let tables = [3, 0, 2, 1];
        let density = |x: f64| {
            let each: f64 = tables.iter().map(|&m| ln_rising(x / 4.0, m)).sum();
            (each - ln_rising(x, 6) - x).exp()
        };
        // gamma0 has no mass near 0 (the density goes as x^2) and little beyond 40
        let (mut norm, mut mean) = (0.0, 0.0);
        for i in 0..400_000 {
            let x = (i as f64 + 0.5) * 1e-4;
            norm += density(x);
            mean += x * density(x);
        }
        let mut rng = Stream::new(2, 0, Purpose::Check).rng();
        let mut x = 1.0;
        let batches: Vec<f64> = (0..200)
            .map(|_| {
                (0..200)
                    .map(|_| {
                        x = step_finite((1.0, 1.0), x, &tables, &mut rng).unwrap();
                        x / 200.0
                    })
                    .sum()
            })
            .collect();
        close(&batches, mean / norm);
    }

    fn close(batches: &[f64], known: f64) {
        let n = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / n;
        let error = (batches.iter().map(|b| (b - mean) * (b - mean)).sum::<f64>() / (n * (n - 1.0))).sqrt();
        assert!(((mean - known) / error).abs() < 4.0, "{mean} +- {error}, not {known}");
    }
}
