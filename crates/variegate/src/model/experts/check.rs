//! The samplers as the checks see them: five points in the plane with one or two trials each, at most three experts, parameters from the
//! prior, classes from the mixture.
//!
//! What couples the directions, where intercepts live and whether hyperparameters are sampled are as set; the sizes and the numbers of the
//! priors are the checks' own, because under long tails or nearly no prior no sampler forgets fast enough to be judged. Rows have weights 0 to 2.
//! The sweeps draw whatever else they need afresh: the point and its distribution are all they condition on. What `ml` does ends with the
//! warm-up and leaves no distribution invariant, so that it is checked as `fixed`.

use rand_distr::{Distribution, StandardNormal};

use super::gibbs::Gibbs;
use super::hmc::Hmc;
use super::hyper;
use super::mh::Mh;
use super::point_prior::{PointPrior, Size};
use super::sampler::Sampler;
use super::settings::{Hyper, Inference, Intercept, Settings};
use super::shape::Shape;
use super::simulate::outcome;
use crate::check::{
    CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress, calibration, joint_distribution, sweep_invariance,
};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::gated::Work;
use crate::prior::Directions;
use crate::run::{Block, Philox};
use crate::{Error, Result};

/// Trials at each point.
const TRIALS: [u32; 5] = [1, 2, 1, 1, 1];
/// Raw columns.
const COLUMNS: usize = 2;
const MOST_EXPERTS: u32 = 3;
/// Points at which predictions are compared.
const PROBES: [[f64; 3]; 2] = [[0.5, -0.5, 1.0], [-1.0, 1.0, 1.0]];

/// Subject of the checks.
pub struct Subject<S> {
    program: S,
    shape: Shape,
    point_prior: PointPrior,
    hyper: Hyper,
    title: String,
    /// Whether test functions depend on the order of experts. A chain may keep to one order for thousands of sweeps, which one sweep and
    /// the joint distribution do not mind, but ranks among the draws of one posterior do.
    ordered: bool,
}

/// Runs the checks of the sampler that is set: three with two classes, and one sweep with three where it does more than two.
pub fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    match settings.inference {
        Inference::Hmc => all(|classes| hmc(settings, classes), true, effort, seed, progress),
        Inference::Gibbs => all(|_| gibbs(settings), false, effort, seed, progress),
        Inference::Mh => all(|classes| mh(settings, classes), true, effort, seed, progress),
        other => Err(Error::setting("inference", other.word(), "`hmc`, `gibbs` or `mh`: there are no draws to check otherwise")),
    }
}

fn all<S: Sampler + Clone>(
    subject: impl Fn(usize) -> Subject<S>,
    more_classes: bool,
    effort: &Effort,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<CheckReport>> {
    let two = subject(2);
    let mut reports = vec![sweep_invariance(&two, &effort.invariance, seed, progress)?];
    if more_classes {
        reports.push(sweep_invariance(&subject(3), &effort.invariance, seed, progress)?);
    }
    reports.push(joint_distribution(&two, &effort.joint, seed, progress)?);
    let effort = CalibrationSettings { max_thin: effort.calibration.max_thin.max(400), ..effort.calibration.clone() };
    reports.push(calibration(&two.unordered(), &effort, seed, progress)?);
    Ok(reports)
}

/// Geodesic Hamiltonian Monte Carlo.
pub(super) fn hmc(settings: &Settings, classes: usize) -> Subject<Hmc> {
    let (target_accept, metric) = (settings.target_accept, settings.metric.decide(COLUMNS, 5.0));
    let max_steps = settings.max_steps.unwrap_or(metric.pace().0);
    Subject::new(settings, classes, |design, shape, point_prior, hyper| Hmc {
        design,
        shape,
        point_prior,
        hyper,
        max_steps,
        target_accept,
        metric,
        learn_until: 20,
    })
}

/// Polya-Gamma Gibbs.
pub(super) fn gibbs(settings: &Settings) -> Subject<Gibbs> {
    Subject::new(settings, 2, |design, shape, point_prior, hyper| Gibbs { design, shape, point_prior, hyper, inner: settings.inner })
}

/// Random-walk Metropolis.
pub(super) fn mh(settings: &Settings, classes: usize) -> Subject<Mh> {
    Subject::new(settings, classes, |design, shape, point_prior, hyper| Mh { design, shape, point_prior, hyper })
}

impl<S: Sampler + Clone> Subject<S> {
    /// A sampler made of a design, a shape, a distribution and what happens to hyperparameters.
    pub(super) fn new(settings: &Settings, classes: usize, program: impl FnOnce(Design, Shape, PointPrior, Hyper) -> S) -> Self {
        let settings = Settings {
            experts: settings.experts.min(MOST_EXPERTS),
            kappa: Some(3.0),
            gate_kappa: Some(3.0),
            alpha1: 2.0,
            alpha2: 1.0,
            omega1: 1.5,
            omega2: 1.0,
            tau: Some(1.0),
            tau0: 1.0,
            ell: 0.7,
            hyper: if settings.hyper == Hyper::Ml { Hyper::Fixed } else { settings.hyper },
            ..settings.clone()
        };
        let (ones, augmented) = (settings.intercept != Intercept::None, settings.intercept == Intercept::Augment);
        let design = Design::identity(COLUMNS, ones);
        let shape = Shape::new(settings.experts as usize, classes, COLUMNS + usize::from(augmented), ones && !augmented);
        let point_prior = PointPrior::new(&settings, &shape);
        let title = format!(
            "{}, prior {}, hyper {}, intercept {}, {classes} classes",
            S::NAME,
            settings.prior.word(),
            settings.hyper.word(),
            settings.intercept.word()
        );
        let program = program(design, shape.clone(), point_prior.clone(), settings.hyper);
        Self { program, shape, point_prior, hyper: settings.hyper, title, ordered: true }
    }

    /// The same with test functions that do not depend on the order of experts.
    pub(super) fn unordered(self) -> Self {
        Self { ordered: false, ..self }
    }

    /// The sampler.
    #[cfg(test)]
    pub(super) fn program(&self) -> &S {
        &self.program
    }

    /// Plain form of a point, and weights as rows multiply them.
    fn weights(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut plain, mut weights) = (Vec::new(), Vec::new());
        self.shape.plain(point, &mut plain);
        self.shape.weights(&plain, &mut weights);
        (plain, weights)
    }

    /// Name and value of every test function. Bounded functions of what has long tails.
    fn values(&self, (point, point_prior): &(Vec<f64>, PointPrior), data: &Dataset<'_>) -> Vec<(String, f64)> {
        let s = &self.shape;
        let (plain, weights) = self.weights(point);
        let mut out: Vec<(String, f64)> = Vec::new();
        let mut put = |name: String, value: f64| out.push((name, value));

        // rows: their likelihood, and how classes and columns go together
        let gated = s.gated();
        let (x, Target::Classes(classes)) = (data.x.to_dense(), &data.target) else { return out };
        let row = |x: &[f64]| {
            let mut row = x.to_vec();
            row.resize(self.design_dim(), 1.0);
            row
        };
        let scores = |x: &[f64]| -> Vec<f64> { weights.chunks_exact(self.design_dim()).map(|w| dot(w, x)).collect() };
        let (mut ln_likelihood, mut pull) = (0.0, vec![0.0; self.design_dim()]);
        for (i, x) in x.chunks_exact(COLUMNS).enumerate() {
            let (weight, x) = (data.weights.as_ref().map_or(1.0, |w| w[i]), row(x));
            let mut ln = [0.0];
            gated.values(&mut scores(&x), &classes.codes[i..=i], &mut ln, &mut Work::default());
            ln_likelihood += weight * ln[0];
            let y = f64::from(u8::from(classes.codes[i] == 1)) - 0.5;
            pull.iter_mut().zip(&x).for_each(|(p, x)| *p += weight * y * x);
        }
        put("log likelihood".into(), ln_likelihood);
        for (i, probe) in PROBES.iter().enumerate() {
            let (mut gates, mut given) = (vec![0.0; s.experts], vec![0.0; s.experts * s.classes]);
            gated.probabilities(&scores(&probe[..self.design_dim()]), &mut gates, &mut given);
            put(format!("prediction {i}"), gates.iter().zip(given.chunks_exact(s.classes)).map(|(g, p)| g * p[1]).sum());
        }

        for (side, name, directions, sizes, dim) in [
            (&point_prior.experts, "expert", s.expert_directions(), s.expert_sizes(), s.expert_dim()),
            (&point_prior.gates, "gate", s.gate_directions(), s.gate_sizes(), s.inputs),
        ] {
            let count = sizes.len();
            if count == 0 {
                continue;
            }
            let a = |k: usize| &point[directions.start + k * dim..directions.start + (k + 1) * dim];
            let size = |k: usize| point[sizes.start + k].tanh();
            let along = |k: usize| (0.5 * dot(&plain[directions.start + k * dim..][..s.inputs], &pull)).tanh();
            if self.ordered {
                put(format!("{name} directions' density"), side.directions.ln_density(&point[directions.clone()], dim));
                for k in 0..count {
                    (0..2).for_each(|j| put(format!("{name} {k} direction {j}"), a(k)[j]));
                    put(format!("{name} {k} tanh ln length"), size(k));
                    put(format!("{name} {k} along classes"), along(k));
                    for j in 0..k {
                        put(format!("{name}s {j}{k} cosine"), dot(a(j), a(k)));
                        put(format!("{name}s {j}{k} cosine²"), dot(a(j), a(k)).powi(2));
                    }
                }
            } else {
                let pairs = || (0..count).flat_map(|k| (0..k).map(move |j| (j, k)));
                if count > 1 {
                    put(format!("{name}s' cosines"), pairs().map(|(j, k)| dot(a(j), a(k))).sum());
                    put(format!("{name}s' cosines²"), pairs().map(|(j, k)| dot(a(j), a(k)).powi(2)).sum());
                }
                put(format!("{name}s' tanh ln lengths"), (0..count).map(size).sum());
                put(format!("{name}s along classes"), (0..count).map(along).sum());
            }
            put(format!("{name}s' squared tanh ln lengths"), (0..count).map(|k| size(k).powi(2)).sum());
            if self.hyper == Hyper::Sample {
                if let Size::Gamma { shape, rate } = side.size {
                    put(format!("{name} ln shape"), shape.ln());
                    put(format!("{name} ln rate"), rate.ln());
                }
                if let Directions::MutualAngular(chain) = &side.directions {
                    put(format!("{name} ln kappa"), chain.kappa.ln());
                }
            }
        }
        for (name, places) in [("expert", s.expert_intercepts()), ("gate", s.gate_intercepts())] {
            if places.is_empty() {
                continue;
            }
            let b = &point[places];
            put(format!("{name}s' intercepts"), b.iter().sum());
            put(format!("{name}s' squared intercepts"), b.iter().map(|b| b * b).sum());
            if self.ordered {
                for (k, b) in b.iter().enumerate() {
                    put(format!("{name} intercept {k} along classes"), b * pull[s.inputs]);
                }
            }
        }
        out
    }

    fn design_dim(&self) -> usize {
        self.shape.dim()
    }
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

impl<S: Sampler + Clone> Checkable for Subject<S> {
    type Program = S;
    type Unknowns = (Vec<f64>, PointPrior);

    fn title(&self) -> String {
        self.title.clone()
    }

    fn prior(&self, rng: &mut Philox) -> Result<(Vec<f64>, PointPrior)> {
        let mut point_prior = self.point_prior.clone();
        if self.hyper == Hyper::Sample {
            hyper::sample_prior(&mut point_prior, &self.shape, rng)?;
        }
        Ok((point_prior.sample(&self.shape, rng)?, point_prior))
    }

    /// Trials at the same point become one row for each class, weighted by their number.
    fn simulate(&self, (point, _): &(Vec<f64>, PointPrior), rng: &mut Philox) -> Result<Dataset<'static>> {
        let (_, weights) = self.weights(point);
        let classes = self.shape.classes;
        let (mut x, mut codes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for trials in TRIALS {
            let mut row: Vec<f64> = (0..COLUMNS).map(|_| normal(rng)).collect();
            row.resize(self.design_dim(), 1.0);
            let mut tally = vec![0.0; classes];
            (0..trials).for_each(|_| tally[outcome(&self.shape, &weights, &row, rng).1 as usize] += 1.0);
            for (code, count) in tally.into_iter().enumerate() {
                x.extend_from_slice(&row[..COLUMNS]);
                codes.push(code as u32);
                counts.push(count);
            }
        }
        let names = (0..classes).map(|c| c.to_string()).collect();
        let mut data = Dataset::new(Matrix::dense(codes.len(), COLUMNS, x)).with_target(Target::Classes(Classes { codes, names }));
        data.weights = Some(counts);
        Ok(data)
    }

    fn program(&self, _: &Dataset<'_>) -> Result<S> {
        Ok(self.program.clone())
    }

    fn install(&self, program: &S, (point, point_prior): (Vec<f64>, PointPrior), _: &[Block<'_>]) -> Result<Installed<S>> {
        Ok(Installed { global: program.at(point, point_prior), locals: None })
    }

    fn recover(&self, _: &S, global: &S::Global, _: &[S::Local]) -> Result<(Vec<f64>, PointPrior)> {
        Ok((S::point(global).to_vec(), S::point_prior(global).clone()))
    }

    fn names(&self) -> Vec<String> {
        let nothing = Dataset::new(Matrix::dense(0, COLUMNS, vec![]))
            .with_target(Target::Classes(Classes { codes: Vec::new(), names: vec![String::new(); self.shape.classes] }));
        let mut point = vec![0.0; self.shape.len()];
        point[self.shape.expert_directions()].fill(1.0);
        self.values(&(point, self.point_prior.clone()), &nothing).into_iter().map(|(name, _)| name).collect()
    }

    fn functions(&self, unknowns: &(Vec<f64>, PointPrior), data: &Dataset<'_>, out: &mut Vec<f64>) {
        out.extend(self.values(unknowns, data).into_iter().map(|(_, value)| value));
    }
}
