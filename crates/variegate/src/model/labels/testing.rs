//! A small mixture with normal features, for the tests of label parts: sticks, features and labels are ascended together over plain
//! arrays, and the bound is computed row by row and from sums.

use super::and::{self, And};
use super::bound::Bound;
use super::gamma_factor::{GammaFactor, Precision};
use super::logit::shared::{self, Basis};
use super::logit::{self, Form, Logit, SharedBohning};
use crate::Result;
use crate::data::design::PanelScratch;
use crate::data::{Design, Matrix, Panel};
use crate::run::Merge;
use crate::special::{digamma, ln_beta, log_sum_exp};
use rand::Rng;

/// What every label part does.
pub(crate) trait Part {
    type Factors: Clone;
    type View;
    type Stats: Default + Clone + Merge + PartialEq + std::fmt::Debug;
    type Scratch: Default;
    fn start(&self, components: usize) -> Self::Factors;
    fn view(&self, q: &Self::Factors) -> Self::View;
    fn terms(&self, view: &Self::View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Self::Scratch);
    fn add(&self, view: &Self::View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Self::Stats, scratch: &mut Self::Scratch);
    fn update(&self, q: &mut Self::Factors, stats: &Self::Stats) -> Result<()>;
    fn divergence(&self, q: &Self::Factors) -> f64;
    fn value(&self, q: &Self::Factors, stats: &Self::Stats) -> f64;
    fn permute(stats: &mut Self::Stats, order: &[usize]);
    /// What the terms of all rows leave out.
    fn left_out(&self, _q: &Self::Factors) -> f64 {
        0.0
    }
}

macro_rules! part {
    ($part:ty, $home:ident, |$stats:ident, $order:ident| $permute:expr) => {
        impl Part for $part {
            type Factors = $home::Factors;
            type View = $home::View;
            type Stats = $home::Stats;
            type Scratch = $home::Scratch;
            fn start(&self, components: usize) -> Self::Factors {
                self.start(components)
            }
            fn view(&self, q: &Self::Factors) -> Self::View {
                self.view(q)
            }
            fn terms(&self, view: &Self::View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Self::Scratch) {
                self.terms(view, panel, y, out, scratch)
            }
            fn add(
                &self,
                view: &Self::View,
                panel: &mut Panel<'_>,
                y: &[i8],
                r: &[f64],
                stats: &mut Self::Stats,
                scratch: &mut Self::Scratch,
            ) {
                self.add(view, panel, y, r, stats, scratch)
            }
            fn update(&self, q: &mut Self::Factors, stats: &Self::Stats) -> Result<()> {
                self.update(q, stats)
            }
            fn divergence(&self, q: &Self::Factors) -> f64 {
                self.divergence(q)
            }
            fn value(&self, q: &Self::Factors, stats: &Self::Stats) -> f64 {
                self.value(q, stats)
            }
            fn permute($stats: &mut Self::Stats, $order: &[usize]) {
                $permute
            }
        }
    };
}
part!(Logit, logit, |stats, order| stats.permute(order));
part!(And, and, |stats, order| stats.permute(order, order.len()));

/// The shared form with the basis of its rows.
pub(crate) struct WithBasis {
    pub(crate) part: SharedBohning,
    pub(crate) basis: Basis,
}

impl Part for WithBasis {
    type Factors = shared::Factors;
    type View = shared::View;
    type Stats = shared::Stats;
    type Scratch = shared::Scratch;
    fn start(&self, components: usize) -> Self::Factors {
        self.part.start(components)
    }
    fn view(&self, q: &Self::Factors) -> Self::View {
        self.part.view(q)
    }
    fn terms(&self, view: &Self::View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Self::Scratch) {
        self.part.terms(view, panel, y, out, scratch)
    }
    fn add(&self, view: &Self::View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Self::Stats, scratch: &mut Self::Scratch) {
        self.part.add(view, panel, y, r, stats, scratch)
    }
    fn update(&self, q: &mut Self::Factors, stats: &Self::Stats) -> Result<()> {
        self.part.update(q, stats, &self.basis)
    }
    fn divergence(&self, q: &Self::Factors) -> f64 {
        self.part.divergence(q)
    }
    fn value(&self, q: &Self::Factors, stats: &Self::Stats) -> f64 {
        self.part.value(q, stats, &self.basis)
    }
    fn permute(stats: &mut Self::Stats, order: &[usize]) {
        stats.permute(order)
    }
    fn left_out(&self, q: &Self::Factors) -> f64 {
        self.part.left_out(q)
    }
}

/// Rows with two normal features each, a design and labels.
pub(crate) struct Toy<P> {
    /// Features (rows×2).
    pub(crate) x: Vec<[f64; 2]>,
    /// Raw rows of the design.
    pub(crate) raw: Matrix<'static>,
    /// The design.
    pub(crate) design: Design,
    /// Labels (rows×C).
    pub(crate) y: Vec<i8>,
    /// Number of labels.
    pub(crate) labels: usize,
    /// Concentration of the sticks.
    pub(crate) alpha: Precision,
    /// The label part.
    pub(crate) part: P,
}

/// Features: prior mean 0, and (k0, a0, b0).
const NG: (f64, f64, f64) = (0.1, 2.0, 1.0);

/// Normal-Gamma factor of a feature in a component: (k, m, a, b).
type Feature = (f64, f64, f64, f64);

/// Where an ascent stands.
pub(crate) struct Ascent<P: Part> {
    pub(crate) components: usize,
    pub(crate) r: Vec<f64>,
    pub(crate) sticks: Vec<(f64, f64)>,
    pub(crate) alpha: GammaFactor,
    pub(crate) features: Vec<[Feature; 2]>,
    pub(crate) q: P::Factors,
    pub(crate) stats: P::Stats,
    /// Σ_i M_i of the last local step.
    pub(crate) rows: f64,
}

impl<P: Part> Toy<P> {
    /// Starts from responsibilities, with a global step.
    pub(crate) fn start(&self, components: usize, r: Vec<f64>) -> Ascent<P> {
        let mut state = Ascent {
            components,
            r,
            sticks: Vec::new(),
            alpha: self.alpha.start(),
            features: Vec::new(),
            q: self.part.start(components),
            stats: P::Stats::default(),
            rows: f64::NAN,
        };
        state.stats = self.sums(&self.part.view(&state.q), &state.r, components);
        self.global(&mut state);
        state
    }

    /// Sums of the label part, of panels of three rows.
    pub(crate) fn sums(&self, view: &P::View, r: &[f64], components: usize) -> P::Stats {
        let mut all = P::Stats::default();
        let mut label_scratch = P::Scratch::default();
        let mut scratch = PanelScratch::default();
        for range in self.runs() {
            let mut stats = P::Stats::default();
            let mut panel = self.design.panel(self.raw.slice(range.clone()), &mut scratch);
            let y = &self.y[range.start * self.labels..range.end * self.labels];
            self.part.add(view, &mut panel, y, &r[range.start * components..range.end * components], &mut stats, &mut label_scratch);
            all.merge(stats);
        }
        all
    }

    /// The labels' terms of the responsibilities (rows×K).
    pub(crate) fn terms(&self, view: &P::View, components: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.x.len() * components];
        let mut label_scratch = P::Scratch::default();
        let mut scratch = PanelScratch::default();
        for range in self.runs() {
            let mut panel = self.design.panel(self.raw.slice(range.clone()), &mut scratch);
            let y = &self.y[range.start * self.labels..range.end * self.labels];
            self.part.terms(view, &mut panel, y, &mut out[range.start * components..range.end * components], &mut label_scratch);
        }
        out
    }

    fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let rows = self.x.len();
        (0..rows.div_ceil(3)).map(move |b| 3 * b..(3 * b + 3).min(rows))
    }

    fn counts(&self, state: &Ascent<P>) -> Vec<f64> {
        (0..state.components).map(|k| state.r.iter().skip(k).step_by(state.components).sum()).collect()
    }

    /// Components by decreasing counts.
    pub(crate) fn sort(&self, state: &mut Ascent<P>) {
        let counts = self.counts(state);
        let mut order: Vec<usize> = (0..state.components).collect();
        order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
        state.r = state.r.chunks(state.components).flat_map(|r| order.iter().map(|&k| r[k]).collect::<Vec<_>>()).collect();
        P::permute(&mut state.stats, &order);
    }

    /// The global step, from responsibilities and the sums of the label part.
    pub(crate) fn global(&self, state: &mut Ascent<P>) {
        let (counts, components) = (self.counts(state), state.components);
        let alpha = self.alpha.mean(state.alpha);
        let mut after = 0.0;
        state.sticks = vec![(0.0, 0.0); components];
        for k in (0..components).rev() {
            state.sticks[k] = (1.0 + counts[k], alpha + after);
            after += counts[k];
        }
        if let Precision::Learned(prior) = self.alpha {
            let rest: f64 = state.sticks.iter().map(|(a, b)| digamma(*b) - digamma(a + b)).sum();
            state.alpha = GammaFactor { shape: prior.shape + components as f64, rate: prior.rate - rest };
        }
        let of_feature = |k: usize, d: usize| {
            let sum = |p: i32| (0..self.x.len()).map(|i| state.r[i * components + k] * self.x[i][d].powi(p)).sum::<f64>();
            let kappa = NG.0 + sum(0);
            let m = sum(1) / kappa;
            (kappa, m, NG.1 + 0.5 * sum(0), NG.2 + 0.5 * (sum(2) - kappa * m * m))
        };
        state.features = (0..components).map(|k| [of_feature(k, 0), of_feature(k, 1)]).collect();
        self.part.update(&mut state.q, &state.stats).unwrap();
    }

    fn ln_weights(&self, state: &Ascent<P>) -> Vec<f64> {
        let mut rest = 0.0;
        let mut of_stick = |(a, b): &(f64, f64)| {
            let all = digamma(a + b);
            let ln_pi = digamma(*a) - all + rest;
            rest += digamma(*b) - all;
            ln_pi
        };
        state.sticks.iter().map(&mut of_stick).collect()
    }

    /// ln-weights of the components of each row (rows×K).
    pub(crate) fn ln_joint(&self, state: &Ascent<P>) -> Vec<f64> {
        let mut l = self.terms(&self.part.view(&state.q), state.components);
        let ln_pi = self.ln_weights(state);
        for (l, x) in l.chunks_mut(state.components).zip(&self.x) {
            for (k, l) in l.iter_mut().enumerate() {
                *l += ln_pi[k];
                for (&(kappa, m, a, b), x) in state.features[k].iter().zip(x) {
                    *l += 0.5 * (digamma(a) - b.ln() - std::f64::consts::TAU.ln()) - 0.5 * (a / b * (x - m).powi(2) + 1.0 / kappa);
                }
            }
        }
        l
    }

    /// The local step: responsibilities, Σ_i M_i and the sums of the label part.
    pub(crate) fn local(&self, state: &mut Ascent<P>) {
        let l = self.ln_joint(state);
        state.rows = 0.0;
        for (r, l) in state.r.chunks_mut(state.components).zip(l.chunks(state.components)) {
            let total = log_sum_exp(l);
            state.rows += total;
            r.iter_mut().zip(l).for_each(|(r, l)| *r = (l - total).exp());
        }
        state.stats = self.sums(&self.part.view(&state.q), &state.r, state.components);
    }

    fn divergence(&self, state: &Ascent<P>) -> f64 {
        let alpha = self.alpha.mean(state.alpha);
        let mut kl = self.alpha.divergence(state.alpha) + self.part.divergence(&state.q);
        for (a, b) in &state.sticks {
            let (ln_v, ln_rest) = (digamma(*a) - digamma(a + b), digamma(*b) - digamma(a + b));
            kl += -ln_beta(*a, *b) + (a - 1.0) * ln_v + (b - 1.0) * ln_rest - self.alpha.mean_ln(state.alpha) - (alpha - 1.0) * ln_rest;
        }
        for &(kappa, m, a, b) in state.features.iter().flatten() {
            kl += GammaFactor { shape: a, rate: b }.divergence(GammaFactor { shape: NG.1, rate: NG.2 });
            kl += 0.5 * (NG.0 * a / b * m * m + NG.0 / kappa - 1.0 + (kappa / NG.0).ln());
        }
        kl
    }

    /// The bound right after a local step.
    pub(crate) fn bound(&self, state: &Ascent<P>) -> f64 {
        state.rows - self.part.left_out(&state.q) - self.divergence(state)
    }

    /// The bound for these responsibilities, the label part row by row at its best points of tangency.
    pub(crate) fn bound_by_rows(&self, state: &Ascent<P>) -> f64 {
        let l = self.ln_joint(state);
        let terms: f64 = state.r.iter().zip(&l).filter(|(r, _)| **r > 0.0).map(|(r, l)| r * (l - r.ln())).sum();
        terms - self.part.left_out(&state.q) - self.divergence(state)
    }

    /// The bound for these responsibilities, the label part from its sums.
    pub(crate) fn bound_from_sums(&self, state: &Ascent<P>) -> f64 {
        let labels: f64 = state.r.iter().zip(self.terms(&self.part.view(&state.q), state.components)).map(|(r, t)| r * t).sum();
        self.bound_by_rows(state) + self.part.left_out(&state.q) - labels + self.part.value(&state.q, &state.stats)
    }

    /// Ascends until the bound stands still; each step must raise it. Gives back the last bound.
    pub(crate) fn ascend(&self, state: &mut Ascent<P>, sweeps: usize) -> f64 {
        let mut last = f64::NEG_INFINITY;
        for sweep in 0..sweeps {
            self.local(state);
            let bound = self.bound(state);
            assert!(bound >= last - 1e-9 * bound.abs(), "sweep {sweep}: the bound falls from {last} to {bound}");
            let still = bound - last < 1e-12 * bound.abs();
            last = bound;
            if still {
                break;
            }
            self.sort(state);
            self.global(state);
        }
        last
    }

    /// The best bound of so many random starts.
    pub(crate) fn best(&self, components: usize, starts: usize, sweeps: usize, rng: &mut impl Rng) -> f64 {
        let one = |rng: &mut _| self.ascend(&mut self.start(components, random_shares(self.x.len(), components, rng)), sweeps);
        (0..starts).map(|_| one(rng)).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl<P> Toy<P> {
    /// The same rows with another label part.
    pub(crate) fn with<Q>(self, part: impl FnOnce(P) -> Q) -> Toy<Q> {
        let Self { x, raw, design, y, labels, alpha, part: old } = self;
        Toy { x, raw, design, y, labels, alpha, part: part(old) }
    }

    /// The standardised rows of the design.
    pub(crate) fn design_rows(&self) -> Vec<f64> {
        let mut scratch = PanelScratch::default();
        self.design.panel(self.raw.view(), &mut scratch).dense().unwrap().to_vec()
    }
}

/// A Gamma prior of a precision.
pub(crate) fn learned(shape: f64, rate: f64) -> Precision {
    Precision::Learned(GammaFactor { shape, rate })
}

/// Four rows of two groups with two labels, one design column without bias; the first label of the last row is unknown where asked.
pub(crate) fn four_rows<P>(missing: bool, part: impl FnOnce(Logit) -> P) -> Toy<P> {
    let mut y = vec![1, 0, 1, 1, 0, 1, 0, 1];
    if missing {
        y[6] = -1;
    }
    Toy {
        x: vec![[0.2, 1.0], [-0.3, 0.8], [2.5, -1.0], [2.2, -0.4]],
        raw: Matrix::dense(4, 1, vec![0.5, -1.0, 0.8, 1.4]),
        design: Design::identity(1, false),
        y,
        labels: 2,
        alpha: Precision::Fixed(1.0),
        part: part(Logit {
            labels: 2,
            dim: 1,
            intercept: false,
            bias_precision: 1.0,
            weight_precision: Precision::Fixed(1.0),
            pattern_precision: Precision::Fixed(1.0 / 2.25),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        }),
    }
}

/// Three rows, one label of the second unknown, and everything that can be learned learned.
pub(crate) fn three_rows<P>(part: impl FnOnce(Logit) -> P) -> Toy<P> {
    Toy {
        x: vec![[0.2, 1.0], [-0.3, 0.8], [2.5, -1.0]],
        raw: Matrix::dense(3, 1, vec![0.5, -1.0, 1.4]),
        design: Design::identity(1, true),
        y: vec![1, 0, 1, -1, 0, 1],
        labels: 2,
        alpha: learned(1.0, 1.0),
        part: part(Logit {
            labels: 2,
            dim: 2,
            intercept: true,
            bias_precision: 0.01,
            weight_precision: learned(0.5, 0.5),
            pattern_precision: learned(0.5, 0.5),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        }),
    }
}

/// Twenty rows of three design columns and a bias, with four labels of which a fifth of the entries, or of the rows, is unknown.
pub(crate) fn twenty_rows<P>(by_row: bool, rng: &mut impl Rng, part: impl FnOnce(Logit) -> P) -> Toy<P> {
    let (rows, columns, labels) = (20, 3, 4);
    let mut uniform = || crate::run::open01(rng);
    let raw: Vec<f64> = (0..rows * columns).map(|_| 4.0 * uniform() - 2.0).collect();
    let x = (0..rows).map(|i| [raw[i * columns] + uniform(), 3.0 * uniform()]).collect();
    let mut y: Vec<i8> = (0..rows * labels).map(|_| (uniform() < 0.4) as i8).collect();
    for i in 0..rows {
        let hide_row = uniform() < 0.2;
        for y in &mut y[i * labels..(i + 1) * labels] {
            if (by_row && hide_row) || (!by_row && uniform() < 0.2) {
                *y = -1;
            }
        }
    }
    Toy {
        x,
        raw: Matrix::dense(rows, columns, raw),
        design: Design { mean: vec![0.1, -0.2, 0.3], scale: vec![1.2, 0.8, 1.0], ..Design::identity(columns, true) },
        y,
        labels,
        alpha: learned(1.0, 1.0),
        part: part(Logit {
            labels,
            dim: columns + 1,
            intercept: true,
            bias_precision: 0.05,
            weight_precision: learned(0.5, 0.5),
            pattern_precision: learned(0.7, 0.4),
            bound: Bound::JaakkolaJordan,
            form: Form::Full,
        }),
    }
}

/// Responsibilities drawn uniformly, somewhat sharpened.
pub(crate) fn random_shares(rows: usize, components: usize, rng: &mut impl Rng) -> Vec<f64> {
    let mut r: Vec<f64> = (0..rows * components).map(|_| crate::run::open01(rng).powi(-2)).collect();
    for r in r.chunks_mut(components) {
        let total: f64 = r.iter().sum();
        r.iter_mut().for_each(|r| *r /= total);
    }
    r
}
