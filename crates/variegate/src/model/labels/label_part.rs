//! How labels depend on components and the row: one type for every coupling.

use serde::{Deserialize, Serialize};

use super::and::{self, And};
use super::bound::Bound;
use super::cut::{self, Cut};
use super::logit::rowwise;
use super::logit::shared::{self, Basis};
use super::logit::{self, Form, Logit, Rowwise, SharedBohning, scale_labels};
use super::patterns::Patterns;
use super::row_space::{Beyond, RowSpace, Rows};
use crate::data::Panel;
use crate::run::Sum;
use crate::{Error, Result, merge_fields};

/// A coupling with its priors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LabelPart {
    /// Log-odds of component and row add.
    Logit(Logit),
    /// The same with Böhning's bound, where rows have all labels or none.
    Shared(SharedBohning),
    /// Component and row must both say yes.
    And(And),
    /// Patterns and classifiers are fitted apart.
    Cut(Cut),
    /// As [`Logit`] with variances alone, for minibatches of rows with many columns.
    Rowwise(Rowwise),
    /// A coupling whose weights are found in the space that rows span, where rows are fewer than columns.
    InRowSpace(Box<(LabelPart, Beyond)>),
}

/// q of all that labels depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LabelFactors {
    /// Of [`Logit`].
    Logit(logit::Factors),
    /// Of [`SharedBohning`], with the basis of its columns once it is known.
    Shared(Box<(shared::Factors, Option<Basis>)>),
    /// Of [`And`].
    And(and::Factors),
    /// Of [`Cut`].
    Cut(cut::Factors),
    /// Of [`Rowwise`].
    Rowwise(rowwise::Factors),
    /// Of [`And`] with variances alone.
    AndByRows(and::Factors<rowwise::Factors>),
    /// Of [`Cut`] with variances alone.
    CutByRows(cut::Factors<rowwise::Factors>),
    /// In the space that rows span, with the space once it is known.
    InRowSpace(Box<(LabelFactors, Option<RowSpace>)>),
    /// Of [`And`] with one matrix for all labels, with the basis of its columns once it is known.
    AndShared(Box<(and::Factors<shared::Factors>, Option<Basis>)>),
    /// Of [`Cut`] with one matrix for all labels, with the basis of its columns once it is known.
    CutShared(Box<(cut::Factors<shared::Factors>, Option<Basis>)>),
}

/// What rows need of q.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LabelView {
    /// Of [`Logit`].
    Logit(logit::View),
    /// Of [`SharedBohning`].
    Shared(shared::View),
    /// Of [`And`].
    And(and::View),
    /// Of [`Cut`].
    Cut(cut::View),
    /// Of [`Rowwise`].
    Rowwise(rowwise::View),
    /// Of [`And`] with variances alone.
    AndByRows(and::View<rowwise::View>),
    /// Of [`Cut`] with variances alone.
    CutByRows(cut::View<rowwise::View>),
    /// In the space that rows span, with the coordinates of all rows.
    InRowSpace(Box<(LabelView, Vec<f64>)>),
    /// Of [`And`] with one matrix for all labels.
    AndShared(and::View<shared::View>),
    /// Of [`Cut`] with one matrix for all labels.
    CutShared(cut::View<shared::View>),
}

/// What rows report; the coupling at hand fills one of them in, and `rowwise` where weights have variances alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LabelStats {
    pub(crate) logit: logit::Stats,
    pub(crate) shared: shared::Stats,
    pub(crate) rowwise: rowwise::Stats,
    pub(crate) and: and::Stats,
    pub(crate) cut: cut::Stats,
}
merge_fields!(LabelStats, logit, shared, rowwise, and, cut);

/// What rows say before the start, once, of what the coupling makes a basis of: products of the columns, or the rows themselves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Columns {
    gram: Sum<Vec<f64>>,
    rows: Rows,
}
merge_fields!(Columns, gram, rows);

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct LabelScratch {
    logit: logit::Scratch,
    shared: shared::Scratch,
    rowwise: rowwise::Scratch,
    and: and::Scratch,
    cut: cut::Scratch,
    and_by_rows: and::RowScratch,
    cut_by_rows: cut::RowScratch,
    and_shared: and::SharedScratch,
    cut_shared: cut::SharedScratch,
}

/// Whether weights have variances alone, so that rows of minibatches are handed over: without patterns no other form of them has such.
fn by_rows(weights: &Logit) -> bool {
    weights.form == Form::Diagonal
}

/// Whether one matrix serves the weights of all labels: without patterns no other form of them has Böhning's bound and whole covariances.
fn by_one_matrix(weights: &Logit) -> bool {
    weights.bound == Bound::Bohning && weights.form == Form::Full
}

/// The error of an update before the columns were looked at.
fn no_basis() -> Error {
    let detail = "the products of the columns are not known; start the run anew".to_string();
    Error::Numerical { what: "the weights of the labels", sweep: 0, detail }
}

impl LabelPart {
    /// Whether products of the columns or the rows themselves must be known before the start.
    pub(crate) fn needs_columns(&self) -> bool {
        self.shared().is_some() || matches!(self, Self::InRowSpace(_))
    }

    /// The weights, where one matrix serves those of all labels.
    fn shared(&self) -> Option<SharedBohning> {
        match self {
            Self::Shared(p) => Some(p.clone()),
            Self::And(p) if by_one_matrix(&p.weights) => Some(p.shared()),
            Self::Cut(p) if by_one_matrix(&p.classifier.prior) => Some(p.shared()),
            _ => None,
        }
    }

    /// Whether a row must have all of its labels known, or none.
    pub(crate) fn needs_whole_rows(&self) -> bool {
        matches!(self.coupling(), Self::Cut(Cut { patterns: Patterns::Multinomial { .. }, .. }))
    }

    /// Before the first update.
    pub(crate) fn start(&self, components: usize) -> LabelFactors {
        match self {
            Self::Logit(p) => LabelFactors::Logit(p.start(components)),
            Self::Shared(p) => LabelFactors::Shared(Box::new((p.start(components), None))),
            Self::Rowwise(p) => LabelFactors::Rowwise(p.start(components)),
            Self::And(p) if by_rows(&p.weights) => LabelFactors::AndByRows(p.start_by_rows(components)),
            Self::Cut(p) if by_rows(&p.classifier.prior) => LabelFactors::CutByRows(p.start_by_rows(components)),
            Self::And(p) if by_one_matrix(&p.weights) => LabelFactors::AndShared(Box::new((p.start_shared(components), None))),
            Self::Cut(p) if by_one_matrix(&p.classifier.prior) => LabelFactors::CutShared(Box::new((p.start_shared(components), None))),
            Self::And(p) => LabelFactors::And(p.start(components)),
            Self::Cut(p) => LabelFactors::Cut(p.start(components)),
            Self::InRowSpace(p) => LabelFactors::InRowSpace(Box::new((p.0.start(components), None))),
        }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &LabelFactors) -> LabelView {
        match (self, q) {
            (Self::Logit(p), LabelFactors::Logit(q)) => LabelView::Logit(p.view(q)),
            (Self::Shared(p), LabelFactors::Shared(q)) => LabelView::Shared(p.view(&q.0)),
            (Self::Rowwise(p), LabelFactors::Rowwise(q)) => LabelView::Rowwise(p.view(q)),
            (Self::And(p), LabelFactors::And(q)) => LabelView::And(p.view(q)),
            (Self::Cut(p), LabelFactors::Cut(q)) => LabelView::Cut(p.view(q)),
            (Self::And(p), LabelFactors::AndByRows(q)) => LabelView::AndByRows(p.view_by_rows(q)),
            (Self::Cut(p), LabelFactors::CutByRows(q)) => LabelView::CutByRows(p.view_by_rows(q)),
            (Self::And(p), LabelFactors::AndShared(q)) => LabelView::AndShared(p.view_shared(&q.0)),
            (Self::Cut(p), LabelFactors::CutShared(q)) => LabelView::CutShared(p.view_shared(&q.0)),
            (Self::InRowSpace(p), LabelFactors::InRowSpace(q)) => {
                let coordinates = q.1.as_ref().map_or_else(Vec::new, RowSpace::coordinates);
                LabelView::InRowSpace(Box::new((p.0.view(&q.0), coordinates)))
            }
            _ => unreachable!("factors belong to the coupling that made them"),
        }
    }

    /// out (rows×K) += the bound of the expected log likelihood of the known labels in each component.
    pub(crate) fn terms(&self, view: &LabelView, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut LabelScratch) {
        match (self, view) {
            (Self::Logit(p), LabelView::Logit(v)) => p.terms(v, panel, y, out, &mut scratch.logit),
            (Self::Shared(p), LabelView::Shared(v)) => p.terms(v, panel, y, out, &mut scratch.shared),
            (Self::Rowwise(p), LabelView::Rowwise(v)) => p.terms(v, panel, y, out, &mut scratch.rowwise),
            (Self::And(p), LabelView::And(v)) => p.terms(v, panel, y, out, &mut scratch.and),
            (Self::Cut(p), LabelView::Cut(v)) => p.terms(v, panel, y, out, &mut scratch.cut),
            (Self::And(p), LabelView::AndByRows(v)) => p.terms_by_rows(v, panel, y, out, &mut scratch.and_by_rows),
            (Self::Cut(p), LabelView::CutByRows(v)) => p.terms_by_rows(v, panel, y, out, &mut scratch.cut_by_rows),
            (Self::And(p), LabelView::AndShared(v)) => p.terms_shared(v, panel, y, out, &mut scratch.and_shared),
            (Self::Cut(p), LabelView::CutShared(v)) => p.terms_shared(v, panel, y, out, &mut scratch.cut_shared),
            (Self::InRowSpace(p), LabelView::InRowSpace(v)) => p.0.terms(&v.0, panel, y, out, scratch),
            _ => unreachable!("a view belongs to the coupling that made it"),
        }
    }

    /// Adds what rows with responsibilities r say.
    pub(crate) fn add(
        &self,
        view: &LabelView,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        stats: &mut LabelStats,
        scratch: &mut LabelScratch,
    ) {
        match (self, view) {
            (Self::Logit(p), LabelView::Logit(v)) => p.add(v, panel, y, r, &mut stats.logit, &mut scratch.logit),
            (Self::Shared(p), LabelView::Shared(v)) => p.add(v, panel, y, r, &mut stats.shared, &mut scratch.shared),
            (Self::Rowwise(p), LabelView::Rowwise(v)) => p.add(v, panel, y, r, &mut stats.rowwise, &mut scratch.rowwise),
            (Self::And(p), LabelView::And(v)) => p.add(v, panel, y, r, &mut stats.and, &mut scratch.and),
            (Self::Cut(p), LabelView::Cut(v)) => p.add(v, panel, y, r, &mut stats.cut, &mut scratch.cut),
            (Self::And(p), LabelView::AndByRows(v)) => {
                p.add_by_rows(v, panel, y, r, (&mut stats.and, &mut stats.rowwise), &mut scratch.and_by_rows);
            }
            (Self::Cut(p), LabelView::CutByRows(v)) => {
                p.add_by_rows(v, panel, y, r, (&mut stats.cut, &mut stats.rowwise), &mut scratch.cut_by_rows);
            }
            (Self::And(p), LabelView::AndShared(v)) => {
                p.add_shared(v, panel, y, r, (&mut stats.and, &mut stats.shared), &mut scratch.and_shared);
            }
            (Self::Cut(p), LabelView::CutShared(v)) => {
                p.add_shared(v, panel, y, r, (&mut stats.cut, &mut stats.shared), &mut scratch.cut_shared);
            }
            (Self::InRowSpace(p), LabelView::InRowSpace(v)) => p.0.add(&v.0, panel, y, r, stats, scratch),
            _ => unreachable!("a view belongs to the coupling that made it"),
        }
    }

    /// The global step from sums.
    pub(crate) fn update(&self, q: &mut LabelFactors, stats: &LabelStats) -> Result<()> {
        match (self, q) {
            (Self::Logit(p), LabelFactors::Logit(q)) => p.update(q, &stats.logit),
            (Self::Shared(p), LabelFactors::Shared(q)) => {
                let (q, basis) = &mut **q;
                p.update(q, &stats.shared, basis.as_ref().ok_or_else(no_basis)?)
            }
            (Self::Rowwise(p), LabelFactors::Rowwise(q)) => {
                p.update(q, &stats.rowwise);
                Ok(())
            }
            (Self::And(p), LabelFactors::And(q)) => p.update(q, &stats.and),
            (Self::Cut(p), LabelFactors::Cut(q)) => p.update(q, &stats.cut),
            (Self::And(p), LabelFactors::AndByRows(q)) => {
                p.update_by_rows(q, &stats.and, &stats.rowwise);
                Ok(())
            }
            (Self::Cut(p), LabelFactors::CutByRows(q)) => p.update_by_rows(q, &stats.cut, &stats.rowwise),
            (Self::And(p), LabelFactors::AndShared(q)) => {
                let (q, basis) = &mut **q;
                p.update_shared(q, (&stats.and, &stats.shared), basis.as_ref().ok_or_else(no_basis)?)
            }
            (Self::Cut(p), LabelFactors::CutShared(q)) => {
                let (q, basis) = &mut **q;
                p.update_shared(q, (&stats.cut, &stats.shared), basis.as_ref().ok_or_else(no_basis)?)
            }
            (Self::InRowSpace(p), LabelFactors::InRowSpace(q)) => {
                let (part, beyond) = &**p;
                part.update(&mut q.0, stats)?;
                beyond.update(part.weights(), q.0.weights_mut());
                Ok(())
            }
            _ => unreachable!("factors belong to the coupling that made them"),
        }
    }

    /// Divergence of q from the priors.
    pub(crate) fn divergence(&self, q: &LabelFactors) -> f64 {
        match (self, q) {
            (Self::Logit(p), LabelFactors::Logit(q)) => p.divergence(q),
            (Self::Shared(p), LabelFactors::Shared(q)) => p.divergence(&q.0),
            // minibatches have no bound
            (_, LabelFactors::Rowwise(_) | LabelFactors::AndByRows(_) | LabelFactors::CutByRows(_)) => f64::NAN,
            (Self::And(p), LabelFactors::And(q)) => p.divergence(q),
            (Self::Cut(p), LabelFactors::Cut(q)) => p.divergence(q),
            (Self::And(p), LabelFactors::AndShared(q)) => p.divergence_shared(&q.0),
            (Self::Cut(p), LabelFactors::CutShared(q)) => p.divergence_shared(&q.0),
            (Self::InRowSpace(p), LabelFactors::InRowSpace(q)) => {
                let (part, beyond) = &**p;
                part.divergence(&q.0) + beyond.divergence(part.weights(), q.0.weights())
            }
            _ => unreachable!("factors belong to the coupling that made them"),
        }
    }

    /// What the terms of rows leave out of the bound.
    pub(crate) fn left_out(&self, q: &LabelFactors) -> f64 {
        match (self, q) {
            (Self::Shared(p), LabelFactors::Shared(q)) => p.left_out(&q.0),
            (Self::And(p), LabelFactors::AndShared(q)) => p.shared().left_out(&q.0.weights),
            (Self::Cut(p), LabelFactors::CutShared(q)) => p.shared().left_out(&q.0.weights),
            _ => 0.0,
        }
    }

    /// What a basis is made of, where the coupling has one: asked of rows once, before the start.
    pub(crate) fn columns(&self, panel: &mut Panel<'_>, y: &[i8]) -> Columns {
        let mut columns = Columns::default();
        if let Self::InRowSpace(p) = self {
            columns.rows = Rows::of(panel, p.1.columns(p.0.weights()));
        } else if let Some(p) = self.shared() {
            p.gram_add(panel, y, &mut columns.gram.0);
        }
        columns
    }

    /// Takes in what all rows said to [`Self::columns`].
    pub(crate) fn look_at_columns(&self, q: &mut LabelFactors, columns: Columns) -> Result<()> {
        let prior = self.weights();
        let basis = || Basis::new(&columns.gram.0, prior.dim, prior.intercept);
        match q {
            LabelFactors::Shared(q) => q.1 = Some(basis()?),
            LabelFactors::AndShared(q) => q.1 = Some(basis()?),
            LabelFactors::CutShared(q) => q.1 = Some(basis()?),
            LabelFactors::InRowSpace(q) => q.1 = Some(RowSpace::new(columns.rows)?),
            _ => {}
        }
        Ok(())
    }

    /// The labels' part of the bound, from sums.
    pub(crate) fn value(&self, q: &LabelFactors, stats: &LabelStats) -> f64 {
        match (self, q) {
            (Self::Logit(p), LabelFactors::Logit(q)) => p.value(q, &stats.logit),
            (Self::Shared(p), LabelFactors::Shared(q)) => q.1.as_ref().map_or(f64::NAN, |basis| p.value(&q.0, &stats.shared, basis)),
            (_, LabelFactors::Rowwise(_) | LabelFactors::AndByRows(_) | LabelFactors::CutByRows(_)) => f64::NAN,
            (Self::And(p), LabelFactors::And(q)) => p.value(q, &stats.and),
            (Self::Cut(p), LabelFactors::Cut(q)) => p.value(q, &stats.cut),
            (Self::And(p), LabelFactors::AndShared(q)) => {
                q.1.as_ref().map_or(f64::NAN, |basis| p.value_shared(&q.0, (&stats.and, &stats.shared), basis))
            }
            (Self::Cut(p), LabelFactors::CutShared(q)) => {
                q.1.as_ref().map_or(f64::NAN, |basis| p.value_shared(&q.0, (&stats.cut, &stats.shared), basis))
            }
            (Self::InRowSpace(p), LabelFactors::InRowSpace(q)) => p.0.value(&q.0, stats),
            _ => unreachable!("factors belong to the coupling that made them"),
        }
    }
}

impl LabelFactors {
    /// Component `order[k]` becomes component k; those not named are left out.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        match self {
            Self::Logit(q) => q.permute(order),
            Self::Shared(q) => q.0.permute(order),
            Self::Rowwise(q) => q.permute(order),
            Self::And(q) => q.permute(order),
            Self::Cut(q) => q.permute(order),
            Self::AndByRows(q) => q.permute(order),
            Self::CutByRows(q) => q.permute(order),
            Self::AndShared(q) => q.0.permute(order),
            Self::CutShared(q) => q.0.permute(order),
            Self::InRowSpace(q) => q.0.permute(order),
        }
    }
}

impl LabelStats {
    /// Component `order[k]` of so many becomes component k; those not named are left out.
    pub(crate) fn permute(&mut self, order: &[usize], components: usize) {
        self.logit.permute(order);
        self.shared.permute(order);
        self.rowwise.permute(order);
        self.and.permute(order, components);
        self.cut.permute(order, components);
    }

    /// Calls f(numbers of all components, numbers of each) for every table of so many components, label by label where labels come first.
    pub(crate) fn each_table(&mut self, components: usize, f: &mut dyn FnMut(&mut [f64], usize)) {
        self.logit.each_table(f);
        self.shared.each_table(f);
        self.and.each_table(components, f);
        self.cut.patterns.each_table(components, f);
    }
}

/// Multiplies what belongs to each label, in a table that has labels side by side.
pub(super) fn scale_columns(table: &mut [f64], times: &[f64]) {
    for row in table.chunks_exact_mut(times.len().max(1)) {
        row.iter_mut().zip(times).for_each(|(v, times)| *v *= times);
    }
}

impl LabelStats {
    /// Multiplies what belongs to each label. Offsets and entropies are for bounds, which no one asks for of sums that were scaled.
    pub(crate) fn scale(&mut self, times: &[f64]) {
        self.logit.scale(times);
        self.and.weights.scale(times);
        for table in [&mut self.and.present.0, &mut self.and.absent.0] {
            scale_labels(table, times);
        }
        self.cut.weights.scale(times);
        for table in [&mut self.cut.patterns.present.0, &mut self.cut.patterns.absent.0] {
            scale_columns(table, times);
        }
    }
}

/// A table of components with labels side by side, with columns for so many labels; new ones have this value.
pub(super) fn widened(table: &[f64], components: usize, labels: usize, value: f64) -> Vec<f64> {
    let have = table.len() / components.max(1);
    table.chunks_exact(have.max(1)).flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(value, labels - have))).collect()
}

impl LabelFactors {
    /// Room for the labels that this part has more: their posterior is the prior.
    pub(crate) fn add_labels(&mut self, part: &LabelPart, components: usize) {
        match (self, part) {
            (Self::Logit(q), LabelPart::Logit(p)) => q.add_labels(p),
            (Self::Rowwise(q), LabelPart::Rowwise(p)) => q.add_labels(p),
            (Self::And(q), LabelPart::And(p)) => {
                q.weights.add_labels(&p.weights);
                for (table, value) in [(&mut q.present, p.pattern_prior.0), (&mut q.absent, p.pattern_prior.1)] {
                    table.resize(p.weights.labels * components, value);
                }
            }
            // the next update finds patterns from sums, as those of the other labels
            (Self::AndByRows(q), LabelPart::And(p)) => p.add_labels_by_rows(q),
            (Self::CutByRows(q), LabelPart::Cut(p)) => p.add_labels_by_rows(q),
            (Self::Cut(q), LabelPart::Cut(p)) => {
                q.weights.add_labels(&p.classifier.prior);
                // the next update finds them from sums, as those of the other labels
                q.patterns = p.patterns.start(components);
            }
            _ => unreachable!("factors belong to the coupling that made them"),
        }
    }
}

impl LabelStats {
    /// Room for so many labels in all; nothing was seen of those that are new.
    pub(crate) fn add_labels(&mut self, components: usize, labels: usize) {
        self.logit.add_labels(labels);
        self.and.weights.add_labels(labels);
        for table in [&mut self.and.present.0, &mut self.and.absent.0].into_iter().filter(|t| !t.is_empty()) {
            table.resize(labels * components, 0.0);
        }
        self.cut.weights.add_labels(labels);
        for table in [&mut self.cut.patterns.present.0, &mut self.cut.patterns.absent.0] {
            *table = widened(table, components, labels, 0.0);
        }
    }
}
