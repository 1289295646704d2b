//! Where a chain begins: rows come one after the other in random order, each placed given those before it.

use rand::RngExt;

use super::{Sampler, Theta};
use crate::Result;
use crate::run::Philox;

impl Sampler<'_> {
    /// Places all rows.
    pub(in super::super) fn start(&mut self, rng: &mut Philox) -> Result<()> {
        if self.rules.theta == Theta::Explicit && self.state.finite {
            self.draw_theta(rng)?; // atoms without rows have parameters too
        }
        let mut order: Vec<usize> = (0..self.rows()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        order.into_iter().try_for_each(|n| self.insert(n, rng))
    }
}
