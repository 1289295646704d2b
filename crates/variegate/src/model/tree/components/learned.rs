//! The one number that all atoms share, where it is learned: the strength s of a prior of proportions, the variance s2 of
//! `gaussian-tied`.
//!
//! `s ~ Gamma(1, 1)`: a slice step on `l = ln s`, log density `l - s + sum_k ln m(X_k | s)`, l being the Jacobian; before parameters are
//! redrawn, as they are integrated out. `s2 ~ InvGamma(a_s, b_s)`: given drawn means, `InvGamma(a_s + cells/2, b_s + RSS/2)`, cells and
//! squares multiplied by the temperature as all statistics are; after they are redrawn.

use rand::Rng;
use rand_distr::Distribution;

use super::{Kernel, Likelihood, broken};
use crate::Result;
use crate::dist::Gamma;
use crate::infer::slice::SliceSampler;

impl Kernel {
    /// Whether [`Kernel::step_strength`] moves something.
    pub(crate) fn learns_strength(&self) -> bool {
        self.learned
    }

    /// Whether [`Kernel::step_variance`] moves something.
    pub(crate) fn learns_variance(&self) -> bool {
        self.family == super::Family::GaussianTied
    }

    /// The strength or the variance that is shared, learned or not.
    pub(crate) fn shared(&self) -> Option<f64> {
        match &self.likelihood {
            Likelihood::Codes(k) => Some(k.strength),
            Likelihood::Multinomial(k) => Some(k.strength),
            Likelihood::Fixed(k) => k.variance(),
            _ => None,
        }
    }

    /// Puts the strength or the variance in place; positive and finite. Prepared atoms are those of before.
    pub(crate) fn set_shared(&mut self, value: f64) {
        match &mut self.likelihood {
            Likelihood::Codes(k) => k.strength = value,
            Likelihood::Multinomial(k) => k.strength = value,
            Likelihood::Fixed(k) if k.shared.is_some() => k.set_variance(value),
            _ => {}
        }
    }

    /// Draws what is learned from its prior.
    pub(crate) fn draw_shared<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Result<()> {
        if self.learned {
            self.set_shared(Gamma::new(1.0, 1.0)?.sample(rng).max(f64::MIN_POSITIVE));
        } else if let Likelihood::Fixed(k) = &self.likelihood
            && let Some((shape, rate)) = k.shared
        {
            self.set_shared((-Gamma::new(shape, rate)?.sample_ln(rng)).exp());
        }
        Ok(())
    }

    /// Moves the strength, given the statistics of all atoms; nothing where it is fixed.
    pub(crate) fn step_strength<'a, R: Rng + ?Sized>(&mut self, atoms: impl Iterator<Item = &'a [f64]> + Clone, rng: &mut R) -> Result<()> {
        if !self.learned {
            return Ok(());
        }
        let Some(now) = self.shared() else { return Ok(()) };
        let ln_density = |l: f64| {
            self.set_shared(l.exp());
            l - l.exp() + atoms.clone().map(|stats| self.ln_marginal(stats)).sum::<f64>()
        };
        let step = SliceSampler::default().step(now.ln(), ln_density, rng);
        match step {
            Ok(step) => self.set_shared(step.x.exp()),
            Err(no) => {
                self.set_shared(now);
                return Err(broken("the strength of the components' prior", no.to_string()));
            }
        }
        Ok(())
    }

    /// Draws the shared variance, given the statistics and the drawn means of all atoms; nothing for other families.
    pub(crate) fn step_variance<'a, R: Rng + ?Sized>(
        &mut self,
        atoms: impl Iterator<Item = (&'a [f64], &'a [f64])>,
        rng: &mut R,
    ) -> Result<()> {
        let Likelihood::Fixed(fixed) = &mut self.likelihood else { return Ok(()) };
        let Some((mut shape, mut rate)) = fixed.shared else { return Ok(()) };
        for (stats, theta) in atoms {
            let (cells, squares) = fixed.residual(stats, theta);
            shape += 0.5 * cells;
            rate += 0.5 * squares;
        }
        let variance = (-Gamma::new(shape, rate)?.sample_ln(rng)).exp();
        if !(variance > 0.0 && variance.is_finite()) {
            return Err(broken("the variance that all components share", format!("it came out as {variance}: scale the columns")));
        }
        fixed.set_variance(variance);
        Ok(())
    }
}
