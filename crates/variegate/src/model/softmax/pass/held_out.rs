//! What rows of a fold say of a fit without them: criterion `cv`.
//!
//! Cross-validation of any family ([`crate::select`]) fits everything anew, scaling included, and deals rows class by class from a list of
//! all of them. Here structures are compared inside one run that can be stopped and resumed: the fits of its folds are chains like its
//! others, share its design, and leave a fold out by weighing its rows 0. A block must then tell alone which of its rows are in a fold, so
//! they are dealt by a hash of their numbers ([`crate::data::split::Fold`]). What a row scores and how scores add up is the same code.

use super::super::expect::{Method, TreeExpect};
use super::super::layout::Layout;
use super::super::program::Vb;
use super::ask::{TreeStats, View};
use super::{PanelView, Scratch};
use crate::run::{Block, Sum};
use crate::score::{ClassScore, Losses};

impl Vb {
    /// Log loss and errors of the rows of a fold.
    pub(crate) fn visit_held_out(&self, layout: &Layout, view: &View<'_>, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let Some(fold) = view.fold else { return TreeStats::default() };
        let classes = self.counts.len();
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let mut expect = TreeExpect::new(layout, Method::Probit, 0);
        let mut p = vec![0.0; classes];
        let mut losses = Losses::default();
        let y = self.outcomes(block);
        self.for_view(layout, view, block, scratch, |rows| {
            let PanelView { first, rows: n, m, v, .. } = rows;
            for i in 0..n {
                if !fold.holds(block.first_row + (first + i) as u64) {
                    continue;
                }
                let w = self.weight(block, first + i, None);
                let (m, v) = (&m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
                if layout.outputs == 0 {
                    expect.classes(layout, Method::Probit, m, v, &mut p, &mut []);
                    let class = block.y.classes()[first + i] as usize;
                    let score = ClassScore::of(&p, Some(class));
                    losses.add(w, -score.log_loss, f64::from(!score.right));
                } else {
                    let (density, error) = self.real_held_out(layout, view, &mut expect, m, v, |q| y.get(first + i, q));
                    losses.add(w, density, error);
                }
            }
        });
        TreeStats { value: Sum(losses.ln_likelihood), shares: Sum(vec![losses.errors, losses.weight]), ..TreeStats::default() }
    }

    /// Log density of the outcomes of a row under the mixture of leaves (noise at its mean precision), and the squared error of its mean.
    fn real_held_out(
        &self,
        layout: &Layout,
        view: &View<'_>,
        expect: &mut TreeExpect,
        m: &[f64],
        v: &mut [f64],
        y: impl Fn(usize) -> f64,
    ) -> (f64, f64) {
        let outputs = layout.outputs;
        let shares = expect.leaves(layout, Method::Probit, m, v).to_vec();
        let mut mean = vec![0.0; outputs];
        let mut terms = Vec::with_capacity(shares.len());
        for (leaf, share) in shares.iter().enumerate() {
            let mut term = share.ln();
            for q in 0..outputs {
                let precision = view.noise[layout.gaussians() + leaf * outputs + q] / (1.0 + v[layout.leaf_form() + leaf].max(0.0));
                let centre = m[layout.units + leaf * outputs + q];
                mean[q] += share * centre;
                term += 0.5 * (precision.ln() - (2.0 * std::f64::consts::PI).ln() - precision * (y(q) - centre).powi(2));
            }
            terms.push(term);
        }
        let error = (0..outputs).map(|q| ((y(q) - mean[q]) * self.y_scale[q]).powi(2)).sum();
        (crate::special::log_sum_exp(&terms) - self.ln_scale(), error)
    }
}
