//! Mixtures of features and label patterns against exact answers.

use crate::data::design::PanelScratch;
use crate::data::{Design, X};
use crate::dist::testing::{TestRng, rng};
use crate::linalg::dot;
use crate::model::labels::enumerated::*;
use crate::model::labels::gamma_factor::GammaFactor;
use crate::model::labels::kernel::{Factor, Kernel, Scratch};
use crate::model::labels::patterns::{self, Patterns};
use crate::model::labels::sticks::{Concentration, Sticks};
use crate::run::open01;
use crate::special::{ln_beta, log_sum_exp};

/// Coordinate ascent over plain arrays.
struct Ascent<'a> {
    kernel: &'a Kernel,
    x: X<'a>,
    patterns: &'a Patterns,
    y: &'a [i8],
    sticks: Sticks,
    factors: Vec<Factor>,
    q: patterns::Factors,
    r: Vec<f64>,
}

impl<'a> Ascent<'a> {
    fn new(kernel: &'a Kernel, x: X<'a>, patterns: &'a Patterns, y: &'a [i8], prior: Concentration, k: usize, rng: &mut TestRng) -> Self {
        let mut r: Vec<f64> = (0..x.rows() * k).map(|_| open01(rng).powi(6)).collect();
        for row in r.chunks_exact_mut(k) {
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|r| *r /= total);
        }
        Self { kernel, x, patterns, y, sticks: Sticks::start(prior, k), factors: Vec::new(), q: patterns.start(k), r }
    }

    fn components(&self) -> usize {
        self.sticks.components()
    }

    fn counts(&self) -> Vec<f64> {
        let k = self.components();
        (0..k).map(|c| self.r.iter().skip(c).step_by(k).sum()).collect()
    }

    /// Label statistics of the present responsibilities.
    fn label_stats(&self) -> patterns::Stats {
        let mut stats = patterns::Stats::default();
        let (design, mut panel) = (Design::identity(0, true), PanelScratch::default());
        let none = X::Dense { rows: self.x.rows(), cols: 0, values: &[] };
        let panel = &mut design.panel(none, &mut panel);
        self.patterns.add(&self.patterns.view(&self.q), panel, self.y, &self.r, &mut stats, &mut Default::default());
        stats
    }

    /// Largest components first.
    fn sort(&mut self) {
        let (k, counts) = (self.components(), self.counts());
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|a, b| counts[*b].total_cmp(&counts[*a]));
        let sorted = self.r.chunks_exact(k).flat_map(|row| order.iter().map(|&c| row[c])).collect();
        self.r = sorted;
    }

    fn global_step(&mut self) {
        let k = self.components();
        self.sticks.update(&self.counts());
        self.factors = self.kernel.posteriors(&statistics(self.kernel, self.x, &self.r, k), k).unwrap();
        let labels = self.label_stats();
        self.patterns.update(&mut self.q, &labels).unwrap();
    }

    /// l_ik.
    fn terms(&self) -> Vec<f64> {
        let (n, k) = (self.x.rows(), self.components());
        let mut coefficients = vec![0.0; n];
        self.kernel.ln_coefficient(self.x, &mut coefficients);
        let weights = self.sticks.ln_weights();
        let mut out: Vec<f64> = coefficients.iter().flat_map(|c| weights.iter().map(move |w| c + w)).collect();
        self.kernel.expected(&self.factors).evaluate(self.x, &mut out, &mut Scratch::default());
        let (design, mut panel) = (Design::identity(0, true), PanelScratch::default());
        let panel = &mut design.panel(X::Dense { rows: n, cols: 0, values: &[] }, &mut panel);
        self.patterns.terms(&self.patterns.view(&self.q), panel, self.y, &mut out, &mut Default::default());
        assert_eq!(out.len(), n * k);
        out
    }

    fn divergence(&self) -> f64 {
        let features: f64 = self.factors.iter().map(|q| self.kernel.divergence(q)).sum();
        self.sticks.divergence() + features + self.patterns.divergence(&self.q)
    }

    /// New responsibilities; the bound right after them.
    fn local_step(&mut self) -> f64 {
        let (k, terms) = (self.components(), self.terms());
        let mut bound = -self.divergence();
        for (r, l) in self.r.chunks_exact_mut(k).zip(terms.chunks_exact(k)) {
            let m = log_sum_exp(l);
            bound += m;
            r.iter_mut().zip(l).for_each(|(r, l)| *r = (l - m).exp());
        }
        bound
    }

    fn entropy(&self) -> f64 {
        -self.r.iter().map(|&r| if r > 0.0 { r * r.ln() } else { 0.0 }).sum::<f64>()
    }

    /// The bound for any responsibilities, from rows.
    fn bound_by_rows(&self) -> f64 {
        dot(&self.r, &self.terms()) + self.entropy() - self.divergence()
    }

    /// The same from sums alone.
    fn bound_from_sums(&self) -> f64 {
        let k = self.components();
        let mut coefficients = vec![0.0; self.x.rows()];
        self.kernel.ln_coefficient(self.x, &mut coefficients);
        coefficients.iter().sum::<f64>()
            + dot(&self.counts(), &self.sticks.ln_weights())
            + self.kernel.value(&self.factors, &statistics(self.kernel, self.x, &self.r, k))
            + self.patterns.value(&self.q, &self.label_stats())
            + self.entropy()
            - self.divergence()
    }

    /// Sweeps until nothing is gained; the bound never falls on the way.
    fn climb(&mut self) -> f64 {
        let (mut last, mut idle) = (f64::NEG_INFINITY, 0);
        for _ in 0..5000 {
            self.sort();
            self.global_step();
            let bound = self.local_step();
            assert!(bound > last - 1e-10, "{last} {bound}");
            idle = if bound - last < 1e-12 { idle + 1 } else { 0 };
            last = bound;
            if idle == 5 {
                break;
            }
        }
        last
    }
}

fn best(kernel: &Kernel, x: X<'_>, patterns: &Patterns, y: &[i8], prior: Concentration, k: usize) -> f64 {
    let mut rng = rng(17);
    (0..30).map(|_| Ascent::new(kernel, x, patterns, y, prior, k, &mut rng).climb()).fold(f64::NEG_INFINITY, f64::max)
}

fn pairs() -> [(Kernel, X<'static>, Patterns); 4] {
    [
        (counts(), dense(&COUNTS, 3), dirichlet_half()),
        (counts(), dense(&COUNTS, 3), beta_half()),
        (normal_gamma(), dense(&REALS, 2), beta_half()),
        (normal_wishart(), dense(&REALS, 2), beta_half()),
    ]
}

/// Evidence, expected number of components and co-clustering over all 15 partitions.
#[test]
fn exact_answers_by_enumeration() {
    let known = [
        (-15.79692795, 2.69063299, [0.47259084, 0.03313542, 0.04148343, 0.10490854, 0.09308435, 0.68314146]),
        (-17.76759671, 2.72438927, [0.40756658, 0.01061644, 0.01366427, 0.06995321, 0.06104945, 0.77494296]),
        (-20.00248005, 2.20813657, [0.81778528, 0.01200526, 0.01569547, 0.01877884, 0.02301521, 0.94477856]),
        (-18.89738110, 2.20449496, [0.80773344, 0.01652539, 0.01791017, 0.02383577, 0.02534607, 0.95631883]),
    ];
    for ((kernel, x, patterns), (evidence, components, together)) in pairs().iter().zip(known) {
        let exact = exact(kernel, *x, patterns, &LABELS, 1.0);
        assert_eq!(exact.partitions.len(), 15);
        assert!((exact.evidence - evidence).abs() < 6e-9, "{} {evidence}", exact.evidence);
        assert!((exact.components() - components).abs() < 6e-9);
        assert!(exact.pairs().iter().zip(together).all(|(got, want)| (got - want).abs() < 6e-9), "{:?}", exact.pairs());
    }
}

/// The best bound of thirty starts, below the evidence.
#[test]
fn best_bounds_of_small_mixtures() {
    let known = [-18.27058115, -20.23500626, -21.58965104, -20.49120533];
    for ((kernel, x, patterns), want) in pairs().iter().zip(known) {
        let got = best(kernel, *x, patterns, &LABELS, Concentration::Fixed(1.0), 6);
        assert!((got - want).abs() < 6e-9, "{got} {want}");
        assert!(got < exact(kernel, *x, patterns, &LABELS, 1.0).evidence);
    }
    let random = Concentration::Random(GammaFactor::new(1.0, 1.0));
    for (k, want) in [(6, -21.17772196), (2, -20.73913675)] {
        let got = best(&counts(), dense(&COUNTS, 3), &beta_half(), &LABELS, random, k);
        assert!((got - want).abs() < 6e-9, "{k}: {got} {want}");
    }
}

/// With one component the bound is the evidence of that component: it catches every mistake in a divergence.
#[test]
fn one_component_is_exact() {
    for (kernel, x, patterns) in pairs() {
        let mut one = Ascent::new(&kernel, x, &patterns, &LABELS, Concentration::Fixed(1.0), 1, &mut rng(1));
        let got = one.climb();
        let whole = exact(&kernel, x, &patterns, &LABELS, 1.0);
        let together = whole.partitions.iter().position(|p| p.iter().all(|z| *z == 0)).unwrap();
        let marginal = whole.probabilities[together].ln() + whole.evidence - ln_prior(&[0; 4], 1.0);
        let want = ln_beta(5.0, 1.0) - ln_beta(1.0, 1.0) + marginal;
        assert!((got - want).abs() < 1e-10, "{got} {want}");
    }
}

/// α ~ Gamma(1, 1): the evidence is an integral of evidences.
#[test]
fn evidence_under_a_random_concentration() {
    let evidence = |alpha: f64| exact(&counts(), dense(&COUNTS, 3), &beta_half(), &LABELS, alpha).evidence;
    // over y = ln α, whose density under the prior is exp(y − exp(y))
    let density = |y: f64| (evidence(y.exp()) + y - y.exp()).exp();
    let got = crate::dist::quadrature::integrate(&density, -25.0, -4.0) + crate::dist::quadrature::integrate(&density, -4.0, 4.5);
    assert!((got.ln() + 17.96281205).abs() < 6e-9, "{}", got.ln());
}

/// Bounds from rows and from sums agree, labels missing or not, whatever the responsibilities; an empty component is free.
#[test]
fn bounds_from_sums_and_empty_components() {
    let some = [1, -1, 1, 1, -1, 1, -1, -1];
    let whole_rows = [1, 0, -1, -1, 0, 1, 0, 0];
    for (kernel, x, patterns) in pairs() {
        let y = if matches!(patterns, Patterns::Bernoulli { .. }) { some } else { whole_rows };
        let mut rng = rng(5);
        let mut ascent = Ascent::new(&kernel, x, &patterns, &y, Concentration::Fixed(0.8), 3, &mut rng);
        ascent.global_step();
        // other responsibilities than those of the step
        ascent.r = Ascent::new(&kernel, x, &patterns, &y, Concentration::Fixed(0.8), 3, &mut rng).r;
        assert!((ascent.bound_by_rows() - ascent.bound_from_sums()).abs() < 1e-11);
        let after = ascent.local_step();
        assert!((ascent.bound_by_rows() - after).abs() < 1e-11 && (ascent.bound_from_sums() - after).abs() < 1e-11);

        ascent.global_step();
        let before = ascent.bound_from_sums();
        ascent.r = ascent.r.chunks_exact(3).flat_map(|row| row.iter().copied().chain([0.0])).collect();
        ascent.sticks = Sticks::start(Concentration::Fixed(0.8), 4);
        ascent.q = patterns.start(4);
        ascent.global_step();
        assert!((ascent.bound_from_sums() - before).abs() < 1e-12, "{before} {}", ascent.bound_from_sums());
    }
}

/// Predictive probabilities of a new row over all partitions: labels and density.
#[test]
fn exact_predictions() {
    let (kernel, patterns) = (counts(), beta_half());
    let labels = labels_as_features(&patterns);
    let y: Vec<f64> = LABELS.iter().map(|&y| f64::from(y)).collect();
    let whole = exact(&kernel, dense(&COUNTS, 3), &patterns, &LABELS, 1.0);
    let row = [1.0, 1.0, 1.0];
    let mut coefficient = [0.0];
    kernel.ln_coefficient(dense(&row, 3), &mut coefficient);
    let (mut density, mut present) = (0.0, [0.0; 2]);
    for (p, weight) in whole.partitions.iter().zip(&whole.probabilities) {
        let groups = p.iter().max().unwrap() + 1;
        let r: Vec<f64> = p.iter().flat_map(|&z| (0..groups).map(move |g| f64::from(u8::from(z == g)))).collect();
        let mut factors = kernel.posteriors(&statistics(&kernel, dense(&COUNTS, 3), &r, groups), groups).unwrap();
        let mut label_factors = labels.posteriors(&statistics(&labels, dense(&y, 2), &r, groups), groups).unwrap();
        factors.push(kernel.prior());
        label_factors.push(labels.prior());
        let mut out = vec![coefficient[0]; groups + 1];
        kernel.predictive(&factors).evaluate(dense(&row, 3), &mut out, &mut Scratch::default());
        for (g, ln_density) in out.iter().enumerate() {
            let size = p.iter().filter(|z| **z == g).count().max(1) as f64;
            let share = weight * size / 5.0 * ln_density.exp();
            density += share;
            present.iter_mut().zip(labels.mean(&label_factors[g])).for_each(|(p, mean)| *p += share * mean);
        }
    }
    assert!((density.ln() + 2.74884475).abs() < 6e-9, "{}", density.ln());
    let present = present.map(|p| p / density);
    assert!((present[0] - 0.53575396).abs() < 6e-9 && (present[1] - 0.61984221).abs() < 6e-9, "{present:?}");
}
