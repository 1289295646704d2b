//! What a fit says: probabilities averaged over draws, shares of experts, who shares an expert.
//!
//! Every way of fitting ends in draws of weights: those of a sampler, some from the variational posterior, or the one point of an estimate.
//! Labels of experts mean nothing from draw to draw; what is said of single experts is said after pairing each draw with the best one.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::settings::{Inference, Settings};
use super::shape::Shape;
use super::{NAME, Schema, draws, shares};
use crate::answer::{
    Answers, ClassDraws, ClassProbabilities, DrawScores, HiddenComponents, KeptDraws, NamedArray, Origin, PREDICT_PANEL, Posterior,
    Predict, PredictClasses, Responsibilities, RowLikelihood, RowLikelihoods, SharedComponents, Summary, average, check_prediction_rows,
    choose_method, for_panels_parallel, known_classes, ln_likelihoods,
};
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Design, Target};
use crate::diagnostics::by_chain;
use crate::infer::assignment::assign;
use crate::model::gated::{Gated, Work};
use crate::parallel;
use crate::run::{Piece, state};
use crate::{Error, Result};

/// Version 2 has shares.
pub(super) const SAVED: state::Kind = state::Kind::new("experts posterior", &["0.1", "0.1"]);
const METHODS: &[&str] = &["average", "plug-in"];
const POINT_METHODS: &[&str] = &["plug-in"];
/// Most rows whose pairs are looked at.
const MOST_TOGETHER: usize = 20_000;

/// The way to the draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Way {
    /// A sampler: draws of each chain.
    Chains(Vec<usize>),
    /// The best of some ascents.
    Ascent {
        /// Its number.
        chain: u32,
        /// Its objective.
        objective: f64,
        /// Whether it converged.
        converged: bool,
        /// How many there were.
        ascents: usize,
    },
}

/// A fitted mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpertsPosterior {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) way: Way,
    /// Plain forms, one a draw.
    pub(super) plain: Vec<f64>,
    /// The plain form that stands for all: the estimate, the variational mean, or the draw of highest density.
    pub(super) centre: Vec<f64>,
    /// Log joint density and log likelihood of each draw of a sampler.
    pub(super) log_joint: Vec<f64>,
    pub(super) log_likelihood: Vec<f64>,
    /// Hyperparameters, where they moved: name and a value a draw.
    pub(super) hyper: Vec<(String, Vec<f64>)>,
    /// What to know beside the numbers.
    pub(super) notes: Vec<String>,
    /// Share of the rows that each expert has: of every draw of a sampler by the labels of that draw, or of the ascent. Empty in fits of
    /// versions that did not keep them.
    pub(super) shares: Vec<f64>,
}

/// What version 1 saved.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
pub(super) struct WithoutShares {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) way: Way,
    pub(super) plain: Vec<f64>,
    pub(super) centre: Vec<f64>,
    pub(super) log_joint: Vec<f64>,
    pub(super) log_likelihood: Vec<f64>,
    pub(super) hyper: Vec<(String, Vec<f64>)>,
    pub(super) notes: Vec<String>,
}

impl From<WithoutShares> for ExpertsPosterior {
    fn from(old: WithoutShares) -> Self {
        let WithoutShares { schema, settings, way, plain, centre, log_joint, log_likelihood, hyper, notes } = old;
        Self { schema, settings, way, plain, centre, log_joint, log_likelihood, hyper, notes, shares: Vec::new() }
    }
}

const HYPER: [&str; 6] = ["alpha1", "alpha2", "kappa", "omega1", "omega2", "gate_kappa"];

impl ExpertsPosterior {
    /// From the draws of a sampler.
    pub(super) fn sampled(schema: &Schema, settings: &Settings, chains: &[Piece]) -> Result<Self> {
        let mut out = Self {
            schema: schema.clone(),
            settings: settings.clone(),
            way: Way::Chains(Vec::new()),
            plain: Vec::new(),
            centre: Vec::new(),
            log_joint: Vec::new(),
            log_likelihood: Vec::new(),
            hyper: Vec::new(),
            notes: Vec::new(),
            shares: Vec::new(),
        };
        let kept = KeptDraws::of(chains)?;
        let (mut divergent, mut sweeps) = (0.0, 0.0);
        let mut smallest_step = f64::INFINITY;
        for chain in kept.chains() {
            draws::read(&schema.shape, &chain.draws.scalars, &mut out.plain)?;
            for (sweep, report) in &chain.trace {
                if *sweep > settings.n_warmup {
                    let extra = |name: &str| report.extras.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
                    sweeps += 1.0;
                    divergent += extra("divergent").unwrap_or(0.0);
                    smallest_step = smallest_step.min(extra("step").unwrap_or(f64::INFINITY));
                    if (sweep - settings.n_warmup).is_multiple_of(settings.thin) {
                        out.shares.extend(shares::of(report, schema.shape.experts).unwrap_or_default());
                    }
                }
            }
        }
        // draws of earlier versions have none
        if out.shares.len() != out.draws() * schema.shape.experts {
            out.shares.clear();
        }
        out.log_joint = kept.numbers("log_joint")?;
        out.log_likelihood = kept.numbers("log_likelihood")?;
        out.hyper = HYPER.iter().filter_map(|name| Some((name.to_string(), kept.optional(name)?))).collect();
        if divergent > 0.01 * sweeps {
            let share = 100.0 * divergent / sweeps;
            out.notes.push(format!("{share:.1} % of the trajectories diverged: raise `target_accept`, or standardise the columns."));
        }
        if smallest_step < 1e-5 {
            out.notes.push(format!("The step size fell to {smallest_step:.1e}: look at the scale of the columns, and at the priors."));
        }
        let best = (0..out.log_joint.len()).fold(0, |best, i| if out.log_joint[i] > out.log_joint[best] { i } else { best });
        out.centre = out.draw(best).to_vec();
        out.way = Way::Chains(kept.lengths());
        Ok(out)
    }

    /// From an ascent: the plain form that stands for it, draws from what it found (or that form alone), and the shares of its experts.
    pub(super) fn ascended(schema: &Schema, settings: &Settings, way: Way, centre: Vec<f64>, plain: Vec<f64>, shares: Vec<f64>) -> Self {
        Self {
            schema: schema.clone(),
            settings: settings.clone(),
            way,
            plain,
            centre,
            log_joint: Vec::new(),
            log_likelihood: Vec::new(),
            hyper: Vec::new(),
            notes: Vec::new(),
            shares,
        }
    }

    /// From bytes that [`Posterior::save`] made.
    pub fn read(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => Ok(older.decode::<WithoutShares>()?.into()),
            _ => Err(older.refused()),
        })?)
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.schema.shape
    }

    /// Number of columns of the data.
    pub(super) fn width(&self) -> usize {
        self.schema.design.raw_cols
    }

    /// Number of draws.
    pub fn draws(&self) -> usize {
        self.plain.len() / self.shape().plain_len()
    }

    pub(super) fn draw(&self, i: usize) -> &[f64] {
        let len = self.shape().plain_len();
        &self.plain[i * len..(i + 1) * len]
    }

    /// Values of a quantity, by chain.
    pub(super) fn by_chain(&self, values: &[f64]) -> Vec<Vec<f64>> {
        let Way::Chains(lengths) = &self.way else { return vec![values.to_vec()] };
        by_chain(values, lengths)
    }

    /// Weights as rows multiply them, of the draws in a range.
    fn weights(&self, range: std::ops::Range<usize>) -> Vec<Vec<f64>> {
        range
            .map(|i| {
                let mut out = Vec::new();
                self.shape().weights(self.draw(i), &mut out);
                out
            })
            .collect()
    }

    /// Calls `f(first row, draw, row of the panel, probabilities of the experts, of the classes under each)` for all rows and the weights
    /// given; panels in parallel, draws in order. Gives back one state a panel.
    fn for_rows<T: Default + Send>(
        &self,
        data: &Dataset<'_>,
        weights: &[Vec<f64>],
        states: Vec<T>,
        f: impl Fn(&mut T, usize, usize, usize, &[f64], &[f64]) + Sync,
    ) -> Vec<T> {
        let (shape, design) = (self.shape(), &self.schema.design);
        let gated = shape.gated();
        let columns = gated.columns();
        for_panels_parallel(data.x.view(), states, |mut state, first, count, x| {
            let (mut scratch, mut scores) = (PanelScratch::default(), vec![0.0; x.rows() * columns]);
            let (mut gates, mut classes) = (vec![0.0; shape.experts], vec![0.0; shape.experts * shape.classes]);
            let mut panel = design.panel(x, &mut scratch);
            for (number, weights) in weights.iter().enumerate() {
                panel.mul_t(weights, columns, &mut scores);
                for (i, scores) in scores.chunks_exact(columns).enumerate().take(count) {
                    gated.probabilities(scores, &mut gates, &mut classes);
                    f(&mut state, first, number, i, &gates, &classes);
                }
            }
            state
        })
    }

    /// Order of the experts of a draw that fits the central one best: place k of the result is the expert of the draw that is paired with
    /// expert k of the centre.
    fn order(&self, draw: &[f64]) -> Vec<usize> {
        let shape = self.shape();
        let k = shape.experts;
        if k == 1 {
            return vec![0];
        }
        let (mut here, mut there) = (Vec::new(), Vec::new());
        shape.weights(&self.centre, &mut here);
        shape.weights(draw, &mut there);
        let d = shape.dim();
        // gates are known up to a common shift
        for weights in [&mut here, &mut there] {
            for j in 0..d {
                let mean = (0..k).map(|i| weights[i * d + j]).sum::<f64>() / k as f64;
                (0..k).for_each(|i| weights[i * d + j] -= mean);
            }
        }
        let units = (here.len() / d - k) / k * d;
        let part = |w: &[f64], i: usize| -> Vec<f64> { [&w[i * d..(i + 1) * d], &w[k * d + i * units..k * d + (i + 1) * units]].concat() };
        let (a, b): (Vec<_>, Vec<_>) = (0..k).map(|i| (part(&here, i), part(&there, i))).unzip();
        let nearness: Vec<f64> =
            a.iter().flat_map(|a| b.iter().map(|b| -a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>())).collect();
        // as many as there are labels: each has one
        assign(&nearness, k, k).into_iter().flatten().collect()
    }

    /// Probability that two rows come from the same expert, for all pairs (n×n).
    pub(super) fn pairs(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        check_prediction_rows(data, self.width(), &self.schema.columns)?;
        let n = data.rows();
        if n > MOST_TOGETHER {
            return Err(Error::Unfit(format!("pairs of {n} rows are too many: choose at most {MOST_TOGETHER} rows")));
        }
        let k = self.shape().experts;
        let mut out = vec![0.0; n * n];
        for i in 0..self.draws() {
            let shares: Vec<f64> = self.shares(data, &self.weights(i..i + 1), None).concat();
            crate::linalg::mul_t(&shares, &shares, &mut out, n, k, n, true);
        }
        let m = self.draws() as f64;
        out.iter_mut().for_each(|v| *v /= m);
        Ok(out)
    }

    /// Shares of the experts in rows (by panel, n×K in all), summed over the weights given, each in its order; given the class where there is
    /// one.
    fn shares(&self, data: &Dataset<'_>, weights: &[Vec<f64>], orders: Option<&[Vec<usize>]>) -> Vec<Vec<f64>> {
        let (k, c) = (self.shape().experts, self.shape().classes);
        let codes: Option<&[u32]> = match &data.target {
            Target::Classes(classes) => Some(&classes.codes),
            _ => None,
        };
        let panels = data.rows().div_ceil(PREDICT_PANEL);
        self.for_rows(data, weights, vec![Vec::new(); panels], |out: &mut Vec<f64>, first, number, i, gates, classes| {
            if out.len() < (i + 1) * k {
                out.resize((i + 1) * k, 0.0);
            }
            let likelihood = |e: usize| codes.map_or(1.0, |codes| classes[e * c + codes[first + i] as usize]);
            let total: f64 = (0..k).map(|e| gates[e] * likelihood(e)).sum();
            for (place, out) in out[i * k..].iter_mut().enumerate().take(k) {
                let e = orders.map_or(place, |orders| orders[number][place]);
                // where no expert could have given the class, the gate alone speaks
                *out += if total > 0.0 { gates[e] * likelihood(e) / total } else { gates[e] };
            }
        })
    }
}

/// Draws whose weights are held at once.
const AT_ONCE: usize = 64;

impl PredictClasses for ExpertsPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        if self.settings.inference == Inference::Map { POINT_METHODS } else { METHODS }
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        self.predict_with(data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        let method = choose_method(how.method, self.methods())?;
        check_prediction_rows(data, self.width(), &self.schema.columns)?;
        let (design, shape) = (&self.schema.design, self.shape());
        if method == "average" {
            return average(&Draws { design, shape, gated: shape.gated(), plain: &self.plain }, data, how);
        }
        how.refuse_draws(match self.settings.inference {
            Inference::Map => "inference `map` gives a point and no posterior; fit with another inference",
            _ => "the method `plug-in` takes the weights at one point",
        })?;
        let found = average(&Draws { design, shape, gated: shape.gated(), plain: &self.centre }, data, how)?;
        Ok(ClassProbabilities { deviation: None, ..found })
    }
}

/// Plain forms, one a draw.
struct Draws<'a> {
    design: &'a Design,
    shape: &'a Shape,
    gated: Gated,
    plain: &'a [f64],
}

impl DrawScores for Draws<'_> {
    fn design(&self) -> &Design {
        self.design
    }

    fn draws(&self) -> usize {
        self.plain.len() / self.shape.plain_len()
    }

    fn scores(&self) -> usize {
        self.gated.columns()
    }

    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]> {
        let (len, mut one) = (self.shape.plain_len(), Vec::new());
        let mut all = Vec::with_capacity(draws.len() * self.shape.vectors() * self.shape.dim());
        for draw in draws {
            self.shape.weights(&self.plain[draw * len..(draw + 1) * len], &mut one);
            all.extend_from_slice(&one);
        }
        all.into()
    }
}

impl ClassDraws for Draws<'_> {
    type Work = (Work, Vec<u32>);

    fn classes(&self) -> usize {
        self.shape.classes
    }

    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], (work, _): &mut Self::Work) {
        self.gated.mixtures(scores, out, work);
    }

    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], (work, classes): &mut Self::Work) {
        classes.clear();
        classes.resize(out.len(), class);
        self.gated.values(scores, classes, out, work);
    }
}

impl RowLikelihoods for ExpertsPosterior {
    fn row_likelihoods(&self, data: &Dataset<'_>) -> Result<RowLikelihood> {
        check_prediction_rows(data, self.width(), &self.schema.columns)?;
        let classes = known_classes(data, &self.schema.classes)?;
        let (design, shape) = (&self.schema.design, self.shape());
        let ln = ln_likelihoods(&Draws { design, shape, gated: shape.gated(), plain: &self.plain }, data, &classes);
        let Way::Chains(lengths) = &self.way else { return Ok(RowLikelihood { lengths: vec![self.draws()], ln }) };
        Ok(RowLikelihood { lengths: lengths.clone(), ln })
    }
}

impl HiddenComponents for ExpertsPosterior {
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        check_prediction_rows(data, self.width(), &self.schema.columns)?;
        let (k, m) = (self.shape().experts, self.draws());
        let mut share = vec![0.0; data.rows() * k];
        for from in (0..m).step_by(AT_ONCE) {
            let range = from..(from + AT_ONCE).min(m);
            let orders: Vec<Vec<usize>> = parallel::map(range.clone(), |_, i| self.order(self.draw(i)));
            let found = self.shares(data, &self.weights(range), Some(&orders)).concat();
            share.iter_mut().zip(&found).for_each(|(s, f)| *s += f);
        }
        share.iter_mut().for_each(|s| *s /= m as f64);
        Ok(Responsibilities { names: (1..=k).map(|k| format!("expert {k}")).collect(), share })
    }
}

impl SharedComponents for ExpertsPosterior {
    fn together(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        self.pairs(data)
    }
}

impl Posterior for ExpertsPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.width(), sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        let common = Answers { classes: Some(self), components: Some(self), pairs: Some(self), ..Answers::default() };
        // what is not a sample of the posterior has no likelihood a draw
        if matches!(self.way, Way::Chains(_)) { Answers { likelihoods: Some(self), ..common } } else { common }
    }

    fn summary(&self) -> Summary {
        self.report()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.named_arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
