//! What a block keeps while weight vectors are moved one at a time: each row as a mix of one expert and all the others.
//!
//! With e = exp(f − top) for the scores f of the gates and q the probabilities that experts give the row's class, the likelihood of a row is
//! Σ eq / Σ e. The move of one gate or one expert changes one e or one q, so that a trial costs one exponential a row and no look at
//! the other experts, whose sums are kept. These are differences where no digits cancel, and sums where they would. Nothing here
//! outlives a sweep, and nothing is saved.

mod rough;

use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::{Hmc, Likelihood, Scratch};
use crate::linalg::wide;
use crate::model::gated::{beside, ln_mixture};
use crate::run::{Block, Sum};
use crate::special::branchless::exp;
use rough::Rough;

/// Below this likelihoods are computed in logarithms.
const SMALL: f64 = 1e-200;
/// A score so far above all others of its row starts the row's exponentials anew.
const FAR: f64 = 300.0;
/// Rows whose likelihoods are multiplied before a logarithm is taken.
const TOGETHER: usize = 8;

/// One weight vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vector {
    /// Whether it is a gate's.
    pub gate: bool,
    /// Whose it is.
    pub k: usize,
}

/// A weight vector in the plane of its direction a and a tangent t, and its intercepts: scores are along·x'a + across·x't + intercept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// Length along the direction.
    pub along: f64,
    /// Length along the tangent.
    pub across: f64,
    /// Intercepts, where there are any.
    pub intercepts: Vec<f64>,
}

/// A tangent t = (z − (a'z) a) / |z − (a'z) a| to the direction of a vector, by its place among the arrows z that rows were multiplied
/// with before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tangent {
    /// Which z; that of an expert has J rows.
    pub arrow: usize,
    /// a'z.
    pub along: f64,
    /// |z − (a'z) a|.
    pub length: f64,
}

/// What was found of a block: whether all that it stores are ones, and its rows, taken apart. Empty before it is asked for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Local {
    #[serde(skip)]
    pub(super) ones: Option<bool>,
    #[serde(skip)]
    apart: Apart,
}

#[derive(Debug, Default)]
struct Apart {
    /// x'a of each gate (n), then of the J rows of each expert's direction (n×J).
    products: Vec<f64>,
    /// x'z of the arrows, in the same way.
    arrows: Vec<f64>,
    /// The vectors as they are.
    now: Vec<Trial>,
    /// e of the gates and q of the experts, n each.
    gates: Vec<f64>,
    given: Vec<f64>,
    /// The largest score of a row when its exponentials were taken, Σ e and Σ eq.
    top: Vec<f64>,
    norm: Vec<f64>,
    total: Vec<f64>,
    /// The vector that was moved and is not what e, q and their sums say.
    stale: Option<Vector>,
    /// The expert that is moved: the same sums without it, and x't.
    about: Option<usize>,
    other_norm: Vec<f64>,
    other_total: Vec<f64>,
    across: Vec<f64>,
    /// Scores of a trial, then likelihoods.
    mix: Vec<f64>,
    /// Rows as one vector sees them, and which.
    rough: Rough,
    rounded: Option<Vector>,
}

/// e^t within the range of numbers that `FAR` leaves.
#[inline(always)]
fn exp_near(t: f64) -> f64 {
    let small = exp(-t.abs());
    if t > 0.0 { 1.0 / small } else { small }
}

/// σ(t).
#[inline(always)]
fn sigmoid(t: f64) -> f64 {
    let small = exp(-t.abs());
    let below = 1.0 / (1.0 + small);
    if t >= 0.0 { below } else { small * below }
}

/// Columns of row-major products (n×`columns`), from a column on: `width` of them, n×width.
fn turned(found: &[f64], columns: usize, from: usize, width: usize, out: &mut [f64]) {
    if width == 1 {
        return out.iter_mut().zip(found[from..].iter().step_by(columns)).for_each(|(o, f)| *o = *f);
    }
    for (i, row) in found.chunks_exact(columns).enumerate() {
        out[i * width..(i + 1) * width].copy_from_slice(&row[from..from + width]);
    }
}

impl Hmc {
    /// Products of a block with directions, without intercepts: for each of the vectors in turn n, or for an expert n×J.
    fn products(&self, vectors: &[Vector], directions: &[f64], block: &Block<'_>, scratch: &mut Scratch, out: &mut Vec<f64>) {
        let (n, columns) = (block.rows(), directions.len() / self.shape.inputs);
        let weights = self.shape.without_intercepts(directions);
        let found = &mut scratch.products;
        found.resize(n * columns, f64::NAN);
        self.design.panel(block.x, &mut scratch.rows.panel).mul_t(&weights, columns, found);
        out.resize(n * columns, f64::NAN);
        let mut from = 0;
        for vector in vectors {
            let width = self.width(*vector);
            turned(found, columns, from, width, &mut out[from * n..(from + width) * n]);
            from += width;
        }
    }

    /// Numbers that a vector gives a row.
    fn width(&self, of: Vector) -> usize {
        if of.gate { 1 } else { self.shape.rows() }
    }

    /// Where the products of a vector are.
    fn places(&self, of: Vector, n: usize) -> Range<usize> {
        self.shape.product_places(of.gate, of.k, n)
    }

    /// All vectors, gates first.
    fn vectors(&self) -> Vec<Vector> {
        let k = self.shape.gates();
        (0..2 * k).map(|at| Vector { gate: at < k, k: at % k }).collect()
    }

    /// Takes all rows apart at a point, and multiplies them with the arrows of some vectors.
    pub(super) fn take_apart(
        &self,
        point: &[f64],
        vectors: &[Vector],
        arrows: &[f64],
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
    ) {
        let (s, n, apart) = (&self.shape, block.rows(), &mut local.apart);
        let k = s.gates();
        let directions = [&point[s.gate_directions()], &point[s.expert_directions()]].concat();
        self.products(&self.vectors(), &directions, block, scratch, &mut apart.products);
        self.products(vectors, arrows, block, scratch, &mut apart.arrows);
        apart.now = self
            .vectors()
            .into_iter()
            .map(|of| {
                let places = s.places(of.gate, of.k);
                Trial { along: point[places.size].exp(), across: 0.0, intercepts: point[places.intercepts].to_vec() }
            })
            .collect();
        apart.across.clear();
        for column in [&mut apart.gates, &mut apart.given] {
            column.resize(k * n, f64::NAN);
        }
        for column in [&mut apart.mix, &mut apart.norm, &mut apart.total, &mut apart.other_norm, &mut apart.other_total] {
            column.resize(n, f64::NAN);
        }
        apart.top.clear();
        apart.top.resize(n, f64::NEG_INFINITY);
        for g in 0..k {
            let of = Vector { gate: true, k: g };
            self.scores(of, g, apart);
            let Apart { top, mix, gates, .. } = &mut *apart;
            top.iter_mut().zip(&*mix).for_each(|(top, f)| *top = if *f > *top { *f } else { *top });
            gates[g * n..(g + 1) * n].copy_from_slice(mix);
            self.give(Vector { gate: false, k: g }, block, apart, &mut scratch.class_scores);
        }
        apart.norm.fill(0.0);
        apart.total.fill(0.0);
        let Apart { top, gates, given, norm, total, .. } = apart;
        for (gates, given) in gates.chunks_exact_mut(n.max(1)).zip(given.chunks_exact(n.max(1))) {
            wide(
                #[inline(always)]
                || {
                    for ((((e, q), top), norm), total) in
                        gates.iter_mut().zip(given).zip(top.iter()).zip(norm.iter_mut()).zip(total.iter_mut())
                    {
                        *e = exp(*e - top);
                        *norm += *e;
                        *total += *e * q;
                    }
                },
            );
        }
        (apart.about, apart.stale, apart.rounded) = (None, None, None);
    }

    /// Scores of a vector with one number a row under trial `at` of those in `now`, into `mix`.
    fn scores(&self, of: Vector, at: usize, apart: &mut Apart) {
        let trial = std::mem::take(&mut apart.now[at]);
        self.score(of, &trial, apart);
        apart.now[at] = trial;
    }

    fn score(&self, of: Vector, trial: &Trial, apart: &mut Apart) {
        let n = apart.mix.len();
        let Apart { products, across, mix, .. } = apart;
        let (along, intercept) = (&products[self.places(of, n)], trial.intercepts.first().copied().unwrap_or(0.0));
        if across.is_empty() {
            mix.iter_mut().zip(along).for_each(|(f, a)| *f = trial.along * a + intercept);
        } else {
            mix.iter_mut().zip(along).zip(across.iter()).for_each(|((f, a), t)| *f = trial.along * a + trial.across * t + intercept);
        }
    }

    /// q of an expert as it is.
    fn give(&self, of: Vector, block: &Block<'_>, apart: &mut Apart, scores: &mut Vec<f64>) {
        let at = self.shape.gates() + of.k;
        let trial = std::mem::take(&mut apart.now[at]);
        self.give_under(of, &trial, block, apart, scores);
        let n = apart.mix.len();
        let Apart { given, mix, .. } = &mut *apart;
        given[of.k * n..(of.k + 1) * n].copy_from_slice(mix);
        apart.now[at] = trial;
    }

    /// q of an expert under a trial, into `mix`.
    fn give_under(&self, of: Vector, trial: &Trial, block: &Block<'_>, apart: &mut Apart, scores: &mut Vec<f64>) {
        let (n, rows, classes) = (apart.mix.len(), self.shape.rows(), block.y.classes());
        if rows == 1 {
            self.score(of, trial, apart);
            let mix = &mut apart.mix;
            wide(
                #[inline(always)]
                || {
                    for (q, class) in mix.iter_mut().zip(classes) {
                        *q = sigmoid(if *class == 1 { *q } else { -*q });
                    }
                },
            );
            return;
        }
        let places = self.places(of, n);
        for i in 0..n {
            apart.mix[i] = self.shape.ln_given(|r| theta(apart, places.start, i * rows + r, trial, r), classes[i], scores).exp();
        }
    }

    /// Log likelihoods of a block under some trials of one vector, in the place of the gradient. First the vector that was moved last
    /// becomes what it was moved to.
    pub(super) fn trials(
        &self,
        of: Vector,
        tangent: Option<Tangent>,
        trials: &[Trial],
        moved: Option<&(Vector, Trial)>,
        rough: bool,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
    ) -> Likelihood {
        let (n, k, apart) = (block.rows(), self.shape.gates(), &mut local.apart);
        if let Some((vector, trial)) = moved {
            self.settle(*vector, trial, apart);
        }
        if let Some(stale) = apart.stale.take_if(|stale| *stale != of) {
            self.refresh(stale, block, apart, &mut scratch.class_scores);
        }
        if apart.about != Some(of.k) {
            apart.leave_out(of.k, n, k);
        }
        apart.about = Some(of.k);
        if rough && apart.rounded != Some(of) {
            let places = self.places(of, n);
            apart.round(of, places, block);
            apart.rounded = Some(of);
        }
        apart.across.clear();
        if let Some(Tangent { arrow, along, length }) = tangent {
            let Apart { products, arrows, across, .. } = &mut *apart;
            let a = &products[self.places(of, n)];
            across.extend(arrows[arrow * n..].iter().zip(a).map(|(z, a)| (z - along * a) / length));
        }
        if rough {
            let Apart { rough, across, .. } = apart;
            return Likelihood { value: Sum(0.0), gradient: Sum(rough.values(trials, across)) };
        }
        let plain = (0..n).all(|i| block.weight(i) == 1.0);
        let values = trials
            .iter()
            .map(|trial| {
                self.mix(of, trial, block, apart, &mut scratch.class_scores);
                let mut value = 0.0;
                for (group, mix) in apart.mix.chunks(TOGETHER).enumerate() {
                    let product: f64 = mix.iter().product();
                    if plain && product > SMALL {
                        value += product.ln();
                        continue;
                    }
                    for (i, &mix) in mix.iter().enumerate() {
                        let i = group * TOGETHER + i;
                        let weight = block.weight(i);
                        if weight != 0.0 {
                            let ln = if mix > SMALL {
                                mix.ln()
                            } else {
                                self.in_logarithms(i, of, trial, block, apart, &mut scratch.class_scores)
                            };
                            value += weight * ln;
                        }
                    }
                }
                value
            })
            .collect();
        Likelihood { value: Sum(0.0), gradient: Sum(values) }
    }

    /// Likelihood of every row under a trial, into `mix`; no number where the sums are too small.
    fn mix(&self, of: Vector, trial: &Trial, block: &Block<'_>, apart: &mut Apart, scores: &mut Vec<f64>) {
        let n = apart.mix.len();
        let own = of.k * n..(of.k + 1) * n;
        if of.gate {
            self.score(of, trial, apart);
            let Apart { mix, top, given, other_norm, other_total, .. } = apart;
            let given = &given[own];
            wide(
                #[inline(always)]
                || {
                    for ((((f, top), q), norm), total) in mix.iter_mut().zip(&*top).zip(given).zip(&*other_norm).zip(&*other_total) {
                        let above = *f - top;
                        *f = beside(above > 0.0, exp(-above.abs()), *q, *norm, *total);
                    }
                },
            );
        } else {
            self.give_under(of, trial, block, apart, scores);
            let Apart { mix, gates, other_norm, other_total, .. } = apart;
            let gates = &gates[own];
            wide(
                #[inline(always)]
                || {
                    for (((q, e), norm), total) in mix.iter_mut().zip(gates).zip(&*other_norm).zip(&*other_total) {
                        *q = (total + e * *q) / (norm + e);
                    }
                },
            );
        }
    }

    /// Log likelihood of a row under a trial whose numbers are too small to be added up.
    fn in_logarithms(&self, i: usize, of: Vector, trial: &Trial, block: &Block<'_>, apart: &Apart, scores: &mut Vec<f64>) -> f64 {
        let (n, k, rows) = (block.rows(), self.shape.gates(), self.shape.rows());
        let mut gates: Vec<f64> = (0..k).map(|g| apart.gate_score(g, i, n)).collect();
        let mut given = |g: usize, trial: Option<&Trial>| {
            let places = self.places(Vector { gate: false, k: g }, n);
            let theta = |r: usize| match trial {
                Some(trial) => theta(apart, places.start, i * rows + r, trial, r),
                None => apart.now[k + g].at(apart.products[places.start + i * rows + r], r),
            };
            self.shape.ln_given(theta, block.y.classes()[i], scores)
        };
        let mut joint: Vec<f64> = (0..k).map(|g| given(g, (!of.gate && g == of.k).then_some(trial))).collect();
        if of.gate {
            gates[of.k] = theta(apart, of.k * n, i, trial, 0);
        }
        ln_mixture(&gates, &mut joint).likelihood()
    }

    /// A vector becomes what a trial made of it; what rows keep of it is refreshed before another is moved.
    fn settle(&self, of: Vector, trial: &Trial, apart: &mut Apart) {
        let (n, k) = (apart.mix.len(), self.shape.gates());
        // the direction turns, its length stays: a cos + t sin
        let length = if trial.across == 0.0 { trial.along } else { trial.along.hypot(trial.across) };
        let (cos, sin) = (trial.along / length, trial.across / length);
        if !apart.across.is_empty() {
            let Apart { products, across, .. } = &mut *apart;
            products[self.places(of, n)].iter_mut().zip(&*across).for_each(|(a, t)| *a = cos * *a + sin * t);
            apart.rounded = None;
        }
        apart.now[if of.gate { of.k } else { k + of.k }] = Trial { along: length, across: 0.0, intercepts: trial.intercepts.clone() };
        apart.stale = Some(of);
    }

    /// Exponentials or probabilities of a vector as it is now, and sums with them.
    fn refresh(&self, of: Vector, block: &Block<'_>, apart: &mut Apart, scores: &mut Vec<f64>) {
        let (n, k) = (block.rows(), self.shape.gates());
        let own = of.k * n..(of.k + 1) * n;
        apart.across.clear();
        if of.gate {
            self.scores(of, of.k, apart);
            let Apart { mix, gates, top, .. } = &mut *apart;
            let gates = &mut gates[own.clone()];
            wide(
                #[inline(always)]
                || {
                    for ((e, f), top) in gates.iter_mut().zip(&*mix).zip(&*top) {
                        *e = exp_near(*f - top);
                    }
                },
            );
        } else {
            self.give(of, block, apart, scores);
        }
        let Apart { norm, total, other_norm, other_total, gates, given, .. } = &mut *apart;
        let (gates, given) = (&gates[own.clone()], &given[own]);
        wide(
            #[inline(always)]
            || {
                for ((((norm, total), e), q), (other_norm, other_total)) in
                    norm.iter_mut().zip(total.iter_mut()).zip(gates).zip(given).zip(other_norm.iter().zip(&*other_total))
                {
                    *norm = other_norm + e;
                    *total = other_total + e * q;
                }
            },
        );
        if of.gate {
            let far: Vec<usize> = (0..n).filter(|&i| apart.mix[i] > apart.top[i] + FAR).collect();
            far.into_iter().for_each(|i| apart.start_anew(i, n, k));
        }
    }
}

impl Trial {
    /// The number that a product gives, for row r of the vector.
    fn at(&self, product: f64, r: usize) -> f64 {
        self.along * product + self.intercepts.get(r).copied().unwrap_or(0.0)
    }
}

/// The number that a vector gives a row under a trial.
fn theta(apart: &Apart, from: usize, at: usize, trial: &Trial, r: usize) -> f64 {
    trial.at(apart.products[from + at], r) + apart.across.get(at).map_or(0.0, |t| trial.across * t)
}

impl Apart {
    fn gate_score(&self, g: usize, i: usize, n: usize) -> f64 {
        self.now[g].at(self.products[g * n + i], 0)
    }

    /// Exponentials and sums of a row over its largest score as it is now. What is kept without one expert is no longer true.
    fn start_anew(&mut self, i: usize, n: usize, k: usize) {
        let scores: Vec<f64> = (0..k).map(|g| self.gate_score(g, i, n)).collect();
        self.top[i] = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (self.norm[i], self.total[i]) = (0.0, 0.0);
        for (g, f) in scores.iter().enumerate() {
            let e = (f - self.top[i]).exp();
            self.gates[g * n + i] = e;
            self.norm[i] += e;
            self.total[i] += e * self.given[g * n + i];
        }
        (self.about, self.rounded) = (None, None);
    }

    /// Sums of all rows without one expert.
    fn leave_out(&mut self, out: usize, n: usize, k: usize) {
        let Apart { gates, given, norm, total, other_norm, other_total, .. } = self;
        let own = out * n..(out + 1) * n;
        let (e, q) = (&gates[own.clone()], &given[own]);
        wide(
            #[inline(always)]
            || {
                for i in 0..n {
                    other_norm[i] = norm[i] - e[i];
                    other_total[i] = total[i] - e[i] * q[i];
                }
            },
        );
        for i in 0..n {
            // the difference of numbers nearly equal has lost its digits
            if other_norm[i] < 0.5 * norm[i] || other_total[i] < 0.5 * total[i] {
                (other_norm[i], other_total[i]) = (0.0, 0.0);
                for g in (0..k).filter(|g| *g != out) {
                    other_norm[i] += gates[g * n + i];
                    other_total[i] += gates[g * n + i] * given[g * n + i];
                }
            }
        }
    }
}
