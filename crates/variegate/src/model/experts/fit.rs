//! Which program a fit runs, and what it needs to know of the data.

use std::sync::Arc;

use super::gibbs::Gibbs;
use super::hmc::Hmc;
use super::map::Map;
use super::mh::Mh;
use super::point_prior::PointPrior;
use super::posterior::{ExpertsPosterior, Way};
use super::settings::{Inference, Intercept, Prior, Scale, Settings};
use super::shape::Shape;
use super::starts::{Penalty, Reward};
use super::vb::Vb;
use super::{SCHEMA, Schema, shares};
use crate::answer::Posterior;
use crate::data::design::PanelScratch;
use crate::data::{Design, Needs, Questions, Scaling, Survey, TargetKind};
use crate::model::Fit;
use crate::prior::angular::Regulariser;
use crate::run::{AnyProgram, Piece, Purpose, Schedule, Stream, saved_global, state};
use crate::{Error, Result};

/// Rows at which chains are asked whether their predictions agree, and numbers that are kept for it.
const PROBES: usize = 16;
const PROBE_NUMBERS: usize = 100_000;
/// Draws from a variational posterior, for predictions.
const VARIATIONAL_DRAWS: usize = 200;
/// Numbers of a point: a chain holds several of them, and keeps one a draw.
const MOST_NUMBERS: usize = 50_000_000;

/// What is asked of the data.
pub(super) fn questions() -> Questions {
    Questions { columns: true, probes: PROBES, ..Questions::needing(Needs::target(TargetKind::Classes)) }
}

/// What results depend on, and what a user should know of the data.
pub(super) fn schema(settings: &Settings, survey: &Survey) -> Result<(Schema, Vec<String>)> {
    let header = survey.header();
    let counts = survey.class_counts()?.to_vec();
    let scale = match settings.scale {
        Scale::Auto if header.sparse => Scale::Maxabs,
        Scale::Auto => Scale::Standard,
        chosen => chosen,
    };
    let ones = settings.intercept != Intercept::None;
    // centring moves nothing but the intercepts, which then speak of the mean row; sparse rows are centred without being filled
    let scaling = Scaling { center: scale != Scale::None && ones, scale: scale == Scale::Standard, intercept: ones, drop_constant: false };
    let (mut design, _) = survey.design(scaling)?;
    if scale == Scale::Maxabs {
        design.scale_to_largest(survey.columns());
    }
    if design.kept.is_empty() {
        return Err(Error::Unfit("there are no columns to predict from".into()));
    }
    let mut warnings = survey.column_warnings(&[], scale != Scale::None);
    let (constant, names) = survey.constant_columns();
    if constant > 0 {
        warnings.push(format!("{constant} constant column(s), whose weights follow the prior: {names}"));
    }
    let augmented = settings.intercept == Intercept::Augment;
    let inputs = design.kept.len() + usize::from(augmented);
    let shape = Shape::new(settings.experts as usize, header.classes().len(), inputs, ones && !augmented);
    if u64::from(settings.experts) > survey.rows() {
        warnings.push(format!("{} experts for {} rows: most will follow the prior", settings.experts, survey.rows()));
    }
    if settings.prior == Prior::MutualAngularOne && settings.inference == Inference::Hmc && shape.expert_dim() == 2 {
        warnings
            .push("in two dimensions the density of `mutual-angular-1` jumps, which lowers acceptance: `mutual-angular` does not".into());
    }
    let probes = probes(&design, survey);
    let schema = Schema { columns: header.columns.clone(), classes: header.classes().to_vec(), counts, design, shape, probes };
    Ok((schema, warnings))
}

/// The design rows of the survey's probes.
fn probes(design: &Design, survey: &Survey) -> Vec<f64> {
    let dim = design.dim();
    let mut out = Vec::new();
    let mut scratch = PanelScratch::default();
    for row in survey.probes().take(PROBE_NUMBERS / dim.max(1)) {
        let from = out.len();
        out.resize(from + dim, 0.0);
        design.panel(row.view(), &mut scratch).t_mul_add(&[1.0], 1, &mut out[from..]);
    }
    out
}

/// Refuses what a way of fitting cannot do, and what would take gigabytes.
pub(super) fn check(settings: &Settings, schema: &Schema, survey: &Survey) -> Result<()> {
    let shape = &schema.shape;
    if shape.len() > MOST_NUMBERS {
        let (k, c, p) = (shape.experts, shape.classes, shape.inputs);
        return Err(Error::Unfit(format!(
            "{k} experts over {c} classes and {p} columns are too many numbers: choose fewer experts or columns"
        )));
    }
    match settings.inference {
        Inference::Gibbs => super::gibbs::check(shape, survey),
        Inference::Vb | Inference::Pr => super::vb::check(shape),
        _ => Ok(()),
    }
}

/// Geodesic Hamiltonian Monte Carlo with these settings.
pub(super) fn hmc(settings: &Settings, schema: &Schema) -> Hmc {
    let shape = schema.shape.clone();
    let (target_accept, metric) = (settings.target_accept, settings.metric.decide(shape.inputs, schema.counts.iter().sum()));
    Hmc {
        design: schema.design.clone(),
        point_prior: PointPrior::new(settings, &shape),
        shape,
        hyper: settings.hyper,
        max_steps: settings.max_steps.unwrap_or(metric.pace().0),
        target_accept,
        metric,
        learn_until: settings.n_warmup / 2,
    }
}

/// Polya-Gamma Gibbs with these settings.
pub(super) fn gibbs(settings: &Settings, schema: &Schema) -> Gibbs {
    let (design, shape) = (schema.design.clone(), schema.shape.clone());
    Gibbs { design, point_prior: PointPrior::new(settings, &shape), shape, hyper: settings.hyper, inner: settings.inner }
}

/// Random-walk Metropolis with these settings.
pub(super) fn mh(settings: &Settings, schema: &Schema) -> Mh {
    let (design, shape) = (schema.design.clone(), schema.shape.clone());
    Mh { design, point_prior: PointPrior::new(settings, &shape), shape, hyper: settings.hyper }
}

/// The fit with these settings.
pub(super) fn bind(settings: &Settings, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
    let (design, shape) = (schema.design.clone(), schema.shape.clone());
    let program: Arc<dyn AnyProgram> = match settings.inference {
        Inference::Hmc => Arc::new(hmc(settings, &schema)),
        Inference::Gibbs => Arc::new(gibbs(settings, &schema)),
        Inference::Mh => Arc::new(mh(settings, &schema)),
        Inference::Vb | Inference::Pr => {
            let point_prior = PointPrior::new(settings, &shape);
            Arc::new(Vb::new(settings, design, shape, point_prior))
        }
        Inference::Map => {
            let angular = Regulariser { gamma: settings.gamma, delta: settings.delta };
            let reward = Reward { experts: settings.diversity, gates: settings.gate_diversity, angular };
            let reward = (settings.prior != Prior::Gaussian).then_some(reward);
            let penalty = Penalty { weights: settings.l2, intercept_sd: settings.tau0, reward };
            Arc::new(Map { design, shape, penalty, tol: settings.tolerance() })
        }
    };
    let (chains, schedule) = match settings.samples() {
        true => (settings.n_chains, Schedule::Sample { warm_up: settings.n_warmup, draws: settings.n_draws, thin: settings.thin }),
        false => (settings.n_init, Schedule::Ascend { max_sweeps: settings.max_iter }),
    };
    let (sealed, settings) = (state::seal(SCHEMA, &schema)?, settings.clone());
    Ok(Fit::new(program, chains, schedule, sealed, warnings, move |chains| posterior(&settings, &schema, chains)))
}

/// The posterior, from the draws of a sampler or the best of some ascents.
fn posterior(s: &Settings, schema: &Schema, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
    if s.samples() {
        return Ok(Box::new(ExpertsPosterior::sampled(schema, s, chains)?));
    }
    // the best so far; the lowest number among equals
    let begun = chains.iter().filter(|c| c.trace.iter().any(|(_, r)| r.objective.is_finite()) || c.sweeps > 0);
    let mut best: Option<(f64, &Piece, bool, Vec<f64>, Vec<f64>)> = None;
    let mut ascents = 0;
    for chain in begun {
        let experts = schema.shape.experts;
        let (objective, converged, plain, shares) = match s.inference {
            Inference::Map => {
                let found = saved_global::<Map>(&chain.checkpoint)?;
                let shares = chain.trace.last().and_then(|(_, report)| shares::of(report, experts));
                (found.objective, found.converged, found.plain, shares.unwrap_or_default())
            }
            _ => {
                let found = saved_global::<Vb>(&chain.checkpoint)?;
                (found.objective, found.converged, Vec::new(), shares::normalised(&found.shares))
            }
        };
        if objective.is_finite() {
            ascents += 1;
            if best.as_ref().is_none_or(|(o, ..)| objective > *o) {
                best = Some((objective, chain, converged, plain, shares));
            }
        }
    }
    let Some((objective, chain, converged, centre, shares)) = best else {
        return Err(Error::Unfit("no ascent has done a sweep yet: resume the run".into()));
    };
    let way = Way::Ascent { chain: chain.chain, objective, converged, ascents };
    if s.inference == Inference::Map {
        return Ok(Box::new(ExpertsPosterior::ascended(schema, s, way, centre.clone(), centre, shares)));
    }
    let q = saved_global::<Vb>(&chain.checkpoint)?.q;
    let (shape, stream) = (&schema.shape, Stream::new(0, chain.chain, Purpose::Predict));
    let mut draws = Vec::new();
    for point in q.sample(shape, VARIATIONAL_DRAWS, stream)? {
        let mut plain = Vec::new();
        shape.plain(&point, &mut plain);
        draws.extend(plain);
    }
    let mut centre = Vec::new();
    shape.plain(&q.mean_point(shape), &mut centre);
    Ok(Box::new(ExpertsPosterior::ascended(schema, s, way, centre, draws, shares)))
}
