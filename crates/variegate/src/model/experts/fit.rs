//! Which program a fit runs, and what it needs to know of the data.

use rand::Rng;

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
use super::{SCHEMA, Schema};
use crate::data::design::PanelScratch;
use crate::data::{DataError, Dataset, Design, Needs, Scaling, Target, TargetKind};
use crate::model::columns::{column_warnings, preview};
use crate::model::{Fit, Posterior};
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

/// What results depend on, and what a user should know of the data.
pub(super) fn schema(settings: &Settings, data: &Dataset<'_>) -> Result<(Schema, Vec<String>)> {
    data.check(Needs::target(TargetKind::Classes))?;
    let Target::Classes(classes) = &data.target else { return Err(DataError::NoTarget.into()) };
    let mut counts = vec![0.0; classes.names.len()];
    let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
    classes.codes.iter().enumerate().for_each(|(i, &code)| counts[code as usize] += weight(i));
    if let Some(empty) = counts.iter().position(|&n| n == 0.0) {
        let name = &classes.names[empty];
        return Err(Error::Unfit(format!("class `{name}` has no row of positive weight: leave it out of the list of classes")));
    }
    let scale = match settings.scale {
        Scale::Auto if data.x.is_sparse() => Scale::Maxabs,
        Scale::Auto => Scale::Standard,
        chosen => chosen,
    };
    let ones = settings.intercept != Intercept::None;
    // centring moves nothing but the intercepts, which then speak of the mean row; sparse rows are centred without being filled
    let scaling = Scaling { center: scale != Scale::None && ones, scale: scale == Scale::Standard, intercept: ones, drop_constant: false };
    let (mut design, _) = Design::fit(&data.x, data.weights.as_deref(), scaling);
    if scale == Scale::Maxabs {
        design.scale_to_largest(&data.x, data.weights.as_deref());
    }
    if design.kept.is_empty() {
        return Err(Error::Unfit("there are no columns to predict from".into()));
    }
    let mut warnings = column_warnings(data, &[], scale != Scale::None);
    let (_, constant) = Design::fit(&data.x, data.weights.as_deref(), Scaling::default());
    if !constant.is_empty() {
        let names: Vec<String> = constant.iter().map(|&j| data.column_name(j)).collect();
        warnings.push(format!("{} constant column(s), whose weights follow the prior: {}", constant.len(), preview(&names)));
    }
    let augmented = settings.intercept == Intercept::Augment;
    let inputs = design.kept.len() + usize::from(augmented);
    let shape = Shape::new(settings.experts as usize, classes.names.len(), inputs, ones && !augmented);
    if settings.experts as usize > data.rows() {
        warnings.push(format!("{} experts for {} rows: most will follow the prior", settings.experts, data.rows()));
    }
    if settings.prior == Prior::MutualAngularOne && settings.inference == Inference::Hmc && shape.expert_dim() == 2 {
        warnings
            .push("in two dimensions the density of `mutual-angular-1` jumps, which lowers acceptance: `mutual-angular` does not".into());
    }
    let probes = probes(&design, data);
    let schema = Schema { columns: data.columns.clone(), classes: classes.names.clone(), counts, design, shape, probes };
    Ok((schema, warnings))
}

/// Some design rows, chosen by a hash of their numbers.
fn probes(design: &Design, data: &Dataset<'_>) -> Vec<f64> {
    let dim = design.dim();
    let count = PROBES.min(PROBE_NUMBERS / dim.max(1)).min(data.rows());
    let hash = |i: usize| Stream::new(0, 0, Purpose::Split).item(i as u64).rng().next_u64();
    let mut rows: Vec<(u64, usize)> = (0..data.rows()).map(|i| (hash(i), i)).collect();
    rows.sort_unstable();
    let mut out = vec![0.0; count * dim];
    let mut scratch = PanelScratch::default();
    for (out, (_, i)) in out.chunks_exact_mut(dim.max(1)).zip(rows) {
        design.panel(data.x.slice(i..i + 1), &mut scratch).t_mul_add(&[1.0], 1, out);
    }
    out
}

/// Refuses what a way of fitting cannot do, and what would take gigabytes.
pub(super) fn check(settings: &Settings, schema: &Schema, data: &Dataset<'_>) -> Result<()> {
    let shape = &schema.shape;
    if shape.len() > MOST_NUMBERS {
        let (k, c, p) = (shape.experts, shape.classes, shape.inputs);
        return Err(Error::Unfit(format!(
            "{k} experts over {c} classes and {p} columns are too many numbers: choose fewer experts or columns"
        )));
    }
    match settings.inference {
        Inference::Gibbs => super::gibbs::check(shape, data),
        Inference::Vb | Inference::Pr => super::vb::check(shape),
        _ => Ok(()),
    }
}

/// The fit with these settings.
pub(super) fn bind(settings: &Settings, schema: Schema, warnings: Vec<String>) -> Box<dyn Fit> {
    let (design, shape) = (schema.design.clone(), schema.shape.clone());
    let point_prior = PointPrior::new(settings, &shape);
    let hyper = settings.hyper;
    let program: Box<dyn AnyProgram> = match settings.inference {
        Inference::Hmc => {
            let (target_accept, metric) = (settings.target_accept, settings.metric.decide(shape.inputs, schema.counts.iter().sum()));
            let max_steps = settings.max_steps.unwrap_or(metric.pace().0);
            Box::new(Hmc { design, shape, point_prior, hyper, max_steps, target_accept, metric, learn_until: settings.n_warmup / 2 })
        }
        Inference::Gibbs => Box::new(Gibbs { design, shape, point_prior, hyper, inner: settings.inner }),
        Inference::Mh => Box::new(Mh { design, shape, point_prior, hyper }),
        Inference::Vb | Inference::Pr => Box::new(Vb::new(settings, design, shape, point_prior)),
        Inference::Map => {
            let angular = Regulariser { gamma: settings.gamma, delta: settings.delta };
            let reward = Reward { experts: settings.diversity, gates: settings.gate_diversity, angular };
            let reward = (settings.prior != Prior::Gaussian).then_some(reward);
            let penalty = Penalty { weights: settings.l2, intercept_sd: settings.tau0, reward };
            Box::new(Map { design, shape, penalty, tol: settings.tolerance() })
        }
    };
    Box::new(ExpertsFit { settings: settings.clone(), schema, program, warnings })
}

struct ExpertsFit {
    settings: Settings,
    schema: Schema,
    program: Box<dyn AnyProgram>,
    warnings: Vec<String>,
}

impl Fit for ExpertsFit {
    fn program(&self) -> &dyn AnyProgram {
        self.program.as_ref()
    }

    fn chains(&self) -> u32 {
        if self.settings.samples() { self.settings.n_chains } else { self.settings.n_init }
    }

    fn schedule(&self) -> Schedule {
        let s = &self.settings;
        if s.samples() {
            Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin }
        } else {
            Schedule::Ascend { max_sweeps: s.max_iter }
        }
    }

    fn schema(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SCHEMA, &self.schema)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
        let (s, schema) = (&self.settings, &self.schema);
        if s.samples() {
            return Ok(Box::new(ExpertsPosterior::sampled(schema, s, chains)?));
        }
        // the best so far; the lowest number among equals
        let begun = chains.iter().filter(|c| c.trace.iter().any(|(_, r)| r.objective.is_finite()) || c.sweeps > 0);
        let mut best: Option<(f64, &Piece, bool, Vec<f64>)> = None;
        let mut ascents = 0;
        for chain in begun {
            let (objective, converged, plain) = match s.inference {
                Inference::Map => {
                    let found = saved_global::<Map>(&chain.checkpoint)?;
                    (found.objective, found.converged, found.plain)
                }
                _ => {
                    let found = saved_global::<Vb>(&chain.checkpoint)?;
                    (found.objective, found.converged, Vec::new())
                }
            };
            if objective.is_finite() {
                ascents += 1;
                if best.as_ref().is_none_or(|(o, ..)| objective > *o) {
                    best = Some((objective, chain, converged, plain));
                }
            }
        }
        let Some((objective, chain, converged, centre)) = best else {
            return Err(Error::Unfit("no ascent has done a sweep yet: resume the run".into()));
        };
        let way = Way::Ascent { chain: chain.chain, objective, converged, ascents };
        if s.inference == Inference::Map {
            return Ok(Box::new(ExpertsPosterior::ascended(schema, s, way, centre.clone(), centre)));
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
        Ok(Box::new(ExpertsPosterior::ascended(schema, s, way, centre, draws)))
    }
}
