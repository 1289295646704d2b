//! The variational posterior of sticks, components and labels, and what rows say of it.
//!
//! A visit finds the responsibilities r_i of each row (the local step) and sums; the global step finds q from sums alone. After both,
//! the bound on the log evidence follows from sums too, and so does what becomes of it when components are joined or left out. The book's chapter on `labels` has the derivation.

use serde::{Deserialize, Serialize};

use super::inputs::{InputScratch, Inputs};
use super::kernel::{self, Factor, Kernel, Table};
use super::label_part::{Columns, LabelFactors, LabelPart, LabelScratch, LabelStats, LabelView, scale_columns};
use super::sticks::{Concentration, Sticks};
use crate::data::{Block, Panel, X};
use crate::linalg;
use crate::run::Sum;
use crate::special::log_sum_exp;
use crate::{Result, merge_fields};

/// Sums below it are nothing.
const DUST: f64 = 1e-300;

/// What is known before the rows: inputs, kernel, labels, concentration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mixture {
    pub(crate) inputs: Inputs,
    pub(crate) kernel: Kernel,
    pub(crate) labels: LabelPart,
    pub(crate) concentration: Concentration,
}

/// q of everything that all rows share. Components are in order of falling weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    pub(crate) sticks: Sticks,
    pub(crate) components: Vec<Factor>,
    pub(crate) labels: LabelFactors,
    /// Expected number of rows of each component.
    pub(crate) counts: Vec<f64>,
    /// Expected number of its rows that have each label, and of those that know it (K×C).
    pub(crate) present: Vec<f64>,
    pub(crate) known: Vec<f64>,
}

/// What rows need of q.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct View {
    /// E ln π_k.
    pub(super) ln_weights: Vec<f64>,
    pub(super) table: Table,
    pub(super) labels: LabelView,
}

/// What rows report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    /// Σ_i r_ik.
    pub(crate) counts: Sum<Vec<f64>>,
    /// −Σ_ik r_ik ln r_ik.
    pub(crate) entropy: Sum<f64>,
    /// The same of each component.
    pub(crate) entropies: Sum<Vec<f64>>,
    /// Statistics of the kernel, component after component.
    pub(crate) kernel: Sum<Vec<f64>>,
    /// Coefficients of counts.
    pub(crate) coefficients: Sum<f64>,
    /// Σ_i ln Σ_k exp l_ik: the rows' part of the bound after the local step, coefficients included.
    pub(crate) value: Sum<f64>,
    pub(crate) labels: LabelStats,
    /// Σ_i r_ik of the rows that have each label, and of those that know it (K×C).
    pub(crate) present: Sum<Vec<f64>>,
    pub(crate) known: Sum<Vec<f64>>,
}
merge_fields!(Sums, counts, entropy, entropies, kernel, coefficients, value, labels, present, known);

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) inputs: InputScratch,
    pub(super) kernel: kernel::Scratch,
    pub(super) labels: LabelScratch,
    /// Responsibilities of the last visit (rows×K).
    pub(super) r: Vec<f64>,
    pub(super) other: Buffers,
}

/// Buffers of sums that every coupling has.
#[derive(Default)]
pub(super) struct Buffers {
    coefficients: Vec<f64>,
    present: Vec<f64>,
    known: Vec<f64>,
}

impl Mixture {
    /// Before the first update.
    pub(crate) fn start(&self, components: usize) -> Factors {
        Factors {
            sticks: Sticks::start(self.concentration, components),
            components: vec![self.kernel.prior(); components],
            labels: self.labels.start(components),
            counts: vec![0.0; components],
            present: Vec::new(),
            known: Vec::new(),
        }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        View { ln_weights: q.sticks.ln_weights(), table: self.kernel.expected(&q.components), labels: self.labels.view(&q.labels) }
    }

    /// The local step and its sums.
    pub(crate) fn visit(&self, view: &View, block: &Block<'_>, scratch: &mut Scratch) -> Sums {
        let k = view.ln_weights.len();
        let Scratch { inputs, kernel, labels, r, other } = scratch;
        self.with_block(&view.labels, block, inputs, |x, panel| {
            let mut sums = self.local(view, x, panel, block.y.labels(), r, (kernel, labels));
            self.add(x, block.y.labels(), r, k, &mut sums, kernel, other);
            sums.value.0 += sums.coefficients.0;
            self.labels.add(&view.labels, panel, block.y.labels(), r, &mut sums.labels, labels);
            sums
        })
    }

    /// Calls `f` with rows as the kernel and the classifiers see them; classifiers in the space that rows span see their coordinates.
    pub(super) fn with_block<R>(
        &self,
        labels: &LabelView,
        block: &Block<'_>,
        scratch: &mut InputScratch,
        f: impl FnOnce(X<'_>, &mut Panel<'_>) -> R,
    ) -> R {
        match self.labels.coordinates(labels, block) {
            Some(coordinates) => self.inputs.with_coordinates(block.x, coordinates, scratch, f),
            None => self.inputs.with(block.x, scratch, f),
        }
    }

    /// The local step: r (rows×K), its entropies and Σ_i ln Σ_k exp l_ik without coefficients; no other sums yet.
    pub(super) fn local(
        &self,
        view: &View,
        x: X<'_>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &mut Vec<f64>,
        (kernel, labels): (&mut kernel::Scratch, &mut LabelScratch),
    ) -> Sums {
        let k = view.ln_weights.len();
        r.clear();
        (0..x.rows()).for_each(|_| r.extend_from_slice(&view.ln_weights));
        view.table.evaluate(x, r, kernel);
        self.labels.terms(&view.labels, panel, y, r, labels);
        let (mut value, mut entropy, mut entropies) = (0.0, 0.0, vec![0.0; k]);
        for l in r.chunks_exact_mut(k) {
            let all = log_sum_exp(l);
            value += all;
            for (l, of_component) in l.iter_mut().zip(&mut entropies) {
                let share = (*l - all).exp();
                // 0 ln 0 = 0
                let term = if share > 0.0 { share * (*l - all) } else { 0.0 };
                entropy -= term;
                *of_component -= term;
                *l = share;
            }
        }
        Sums { entropy: Sum(entropy), entropies: Sum(entropies), value: Sum(value), ..Sums::default() }
    }

    /// Products of the columns, or rows, for couplings that need them.
    pub(crate) fn columns(&self, block: &Block<'_>, scratch: &mut Scratch) -> Columns {
        self.inputs.with(block.x, &mut scratch.inputs, |_, panel| self.labels.columns(panel, block.y.labels()))
    }

    /// Sums of rows whose responsibilities are given by `f(rows as the kernel sees them, r)`.
    pub(crate) fn visit_with(
        &self,
        labels: &LabelView,
        components: usize,
        block: &Block<'_>,
        scratch: &mut Scratch,
        f: impl FnOnce(X<'_>, &mut [f64]),
    ) -> Sums {
        let Scratch { inputs, kernel, labels: label_scratch, r, other } = scratch;
        self.with_block(labels, block, inputs, |x, panel| {
            r.clear();
            r.resize(x.rows() * components, 0.0);
            f(x, r);
            self.sums_of(labels, x, panel, block.y.labels(), r, components, (kernel, label_scratch, other))
        })
    }

    /// Rows as classifiers see them, with the responsibilities that the last visit of the same block found.
    pub(crate) fn with_shares(&self, block: &Block<'_>, scratch: &mut Scratch, f: impl FnOnce(&mut Panel<'_>, &[f64])) {
        let Scratch { inputs, r, .. } = scratch;
        self.inputs.with(block.x, inputs, |_, panel| f(panel, r));
    }

    /// Sums of rows with any responsibilities (rows×K), their labels as a view has them.
    pub(super) fn sums_of(
        &self,
        labels: &LabelView,
        x: X<'_>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        components: usize,
        (kernel, label_scratch, other): (&mut kernel::Scratch, &mut LabelScratch, &mut Buffers),
    ) -> Sums {
        let entropy = r.iter().filter(|r| **r > 0.0).map(|r| -r * r.ln()).sum();
        let mut entropies = vec![0.0; components];
        for r in r.chunks_exact(components) {
            entropies.iter_mut().zip(r).for_each(|(e, &r)| *e += entropy_of(r));
        }
        let mut sums = Sums { entropy: Sum(entropy), entropies: Sum(entropies), ..Sums::default() };
        self.add(x, y, r, components, &mut sums, kernel, other);
        self.labels.add(labels, panel, y, r, &mut sums.labels, label_scratch);
        sums
    }

    fn add(&self, x: X<'_>, y: &[i8], r: &[f64], k: usize, sums: &mut Sums, scratch: &mut kernel::Scratch, other: &mut Buffers) {
        let mut counts = vec![0.0; k];
        for r in r.chunks_exact(k) {
            counts.iter_mut().zip(r).for_each(|(n, r)| *n += r);
        }
        sums.counts = Sum(counts);
        sums.kernel = Sum(vec![0.0; k * self.kernel.size()]);
        self.kernel.add(x, r, k, &mut sums.kernel.0, scratch);
        let Buffers { coefficients, present, known } = other;
        coefficients.clear();
        coefficients.resize(x.rows(), 0.0);
        self.kernel.ln_coefficient(x, coefficients);
        sums.coefficients = Sum(coefficients.iter().sum());
        let labels = y.len() / x.rows().max(1);
        for (buffer, sum, is) in [(present, &mut sums.present, (|y| y == 1) as fn(i8) -> bool), (known, &mut sums.known, |y| y >= 0)] {
            buffer.clear();
            buffer.extend(y.iter().map(|y| f64::from(u8::from(is(*y)))));
            sum.0 = vec![0.0; k * labels];
            linalg::t_mul(r, buffer, &mut sum.0, x.rows(), k, labels, false);
        }
    }

    /// The global step: components are put in order of falling weight, then every factor is found from the sums. The order is given back:
    /// component `order[k]` has become component k.
    pub(crate) fn update(&self, q: &mut Factors, sums: &mut Sums) -> Result<Vec<usize>> {
        let order = sums.falling();
        // most steps change no order, and covariances are large
        if !order.is_sorted() {
            sums.permute(&order, self.kernel.size());
            q.labels.permute(&order);
        }
        self.update_in_order(q, sums)?;
        Ok(order)
    }

    /// The global step with components as they are.
    pub(crate) fn update_in_order(&self, q: &mut Factors, sums: &Sums) -> Result<()> {
        q.sticks.update(&sums.counts.0);
        q.components = self.kernel.posteriors(&sums.kernel.0, sums.counts.0.len())?;
        q.counts.clone_from(&sums.counts.0);
        q.present.clone_from(&sums.present.0);
        q.known.clone_from(&sums.known.0);
        self.labels.update(&mut q.labels, &sums.labels)
    }

    /// Divergence of q from the priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        q.sticks.divergence() + q.components.iter().map(|f| self.kernel.divergence(f)).sum::<f64>() + self.labels.divergence(&q.labels)
    }

    /// The bound right after the local step, from what the rows said of it.
    pub(crate) fn bound_of_rows(&self, q: &Factors, sums: &Sums) -> f64 {
        sums.value.0 - self.labels.left_out(&q.labels) - self.divergence(q)
    }

    /// q without its components of fewer rows than `least`, found from sums without them; none where there is nothing to leave out.
    pub(crate) fn without_empty(&self, q: &Factors, sums: &Sums, least: f64) -> Result<Option<Factors>> {
        let all = sums.counts.0.len();
        let filled: Vec<usize> = (0..all).filter(|&k| sums.counts.0[k] >= least).collect();
        if filled.len() == all || filled.is_empty() {
            return Ok(None);
        }
        let (mut q, mut sums) = (q.clone(), sums.clone());
        sums.permute(&filled, self.kernel.size());
        q.labels.permute(&filled);
        self.update(&mut q, &mut sums)?;
        Ok(Some(q))
    }

    /// The bound from sums, for the responsibilities behind them and any q.
    pub(crate) fn bound(&self, q: &Factors, sums: &Sums) -> f64 {
        let weights: f64 = q.sticks.ln_weights().iter().zip(&sums.counts.0).map(|(l, n)| l * n).sum();
        weights
            + self.kernel.value(&q.components, &sums.kernel.0)
            + sums.coefficients.0
            + self.labels.value(&q.labels, &sums.labels)
            + sums.entropy.0
            - self.divergence(q)
    }
}

impl Sums {
    /// Components in order of falling counts; of equal ones the first stays first.
    pub(crate) fn falling(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.counts.0.len()).collect();
        order.sort_by(|&a, &b| self.counts.0[b].total_cmp(&self.counts.0[a]));
        order
    }

    /// Multiplies all that components have, and what labels have by numbers of their own. What a minibatch hands over of its rows stays.
    pub(crate) fn scale(&mut self, times: f64, of_labels: &[f64]) {
        for table in [&mut self.counts.0, &mut self.kernel.0] {
            table.iter_mut().for_each(|v| *v *= times);
        }
        for table in [&mut self.present.0, &mut self.known.0] {
            scale_columns(table, of_labels);
        }
        self.labels.scale(of_labels);
    }

    /// Sums that have shrunk to nothing become it, before they are too small for f64 to add them.
    pub(crate) fn forget_dust(&mut self) {
        for table in [&mut self.counts.0, &mut self.kernel.0] {
            table.iter_mut().filter(|v| v.abs() < DUST).for_each(|v| *v = 0.0);
        }
    }

    /// Number of components.
    pub(super) fn components(&self) -> usize {
        self.counts.0.len()
    }

    /// Component `order[k]` becomes component k; those not named are left out, and one that is named twice is there twice.
    pub(crate) fn permute(&mut self, order: &[usize], size: usize) {
        let components = self.components();
        for counts in [&mut self.counts.0, &mut self.entropies.0] {
            *counts = order.iter().map(|&k| counts[k]).collect();
        }
        self.kernel.0 = order.iter().flat_map(|&k| self.kernel.0[k * size..(k + 1) * size].to_vec()).collect();
        for table in [&mut self.present.0, &mut self.known.0] {
            let labels = table.len() / components.max(1);
            *table = order.iter().flat_map(|&k| table[k * labels..(k + 1) * labels].to_vec()).collect();
        }
        self.labels.permute(order, components);
    }

    /// Rows of component `from` become rows of `into`, at the points of tangency that they had; nothing is left in `from`. `entropy` is
    /// −Σ_i (r_ij + r_il) ln(r_ij + r_il) of the two, the one thing that sums do not tell.
    pub(super) fn join(&mut self, into: usize, from: usize, entropy: f64, size: usize) {
        self.entropy.0 += entropy - self.entropies.0[into] - self.entropies.0[from];
        self.each_table(size, &mut |table, width| move_component(table, width, into, from));
        self.entropies.0[into] = entropy;
    }

    /// Component k has no rows any more; what is summed over all components stays.
    pub(super) fn forget(&mut self, k: usize, size: usize) {
        self.each_table(size, &mut |table, width| table[k * width..(k + 1) * width].fill(0.0));
    }

    /// Calls f(numbers of all components, numbers of each) for every table that has components.
    pub(super) fn each_table(&mut self, size: usize, f: &mut dyn FnMut(&mut [f64], usize)) {
        let components = self.components();
        f(&mut self.counts.0, 1);
        f(&mut self.entropies.0, 1);
        f(&mut self.kernel.0, size);
        for table in [&mut self.present.0, &mut self.known.0] {
            let labels = table.len() / components.max(1);
            f(table, labels);
        }
        self.labels.each_table(components, f);
    }
}

/// −r ln r.
pub(super) fn entropy_of(r: f64) -> f64 {
    if r > 0.0 { -r * r.ln() } else { 0.0 }
}

/// What component `from` has of a table is added to what `into` has; nothing is left in `from`.
pub(crate) fn move_component(table: &mut [f64], width: usize, into: usize, from: usize) {
    for j in 0..width {
        let moved = std::mem::take(&mut table[from * width + j]);
        table[into * width + j] += moved;
    }
}

impl Factors {
    /// Number of components.
    pub(crate) fn components(&self) -> usize {
        self.counts.len()
    }
}
