//! The samplers as the checks see them: five points in the plane with one or two trials each, parameters from the prior that is set, classes
//! from the mixture.
//!
//! Rows have weights 0 to 2. The sweeps draw whatever else they need afresh: the point and its distribution are all they condition on.
//! What `ml` does ends with the warm-up and leaves no distribution invariant, so that it is checked as `fixed`.

use super::Schema;
use super::fit;
use super::gibbs::Gibbs;
use super::hmc::Hmc;
use super::mh::Mh;
use super::point_prior::{PointPrior, Size};
use super::sampler::Sampler;
use super::settings::{Hyper, Inference, Intercept, Settings};
use super::simulate::Mixture;
use crate::check::generative::Trials;
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress, check_ranked, sweep_invariance};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::gated::Work;
use crate::prior::Directions;
use crate::run::{Block, Philox};
use crate::{Error, Result};

const TRIALS: Trials<'static> = Trials(&[1, 2, 1, 1, 1]);
/// Raw columns.
const COLUMNS: usize = 2;
/// Of each side so many components have test functions of their own; all are in the sums.
const SHOWN: usize = 3;
/// Half of it is for learning steps and coordinates, well within the warm-up of a calibration.
const WARM_UP: u64 = 40;
/// Points at which predictions are compared.
const PROBES: [[f64; 3]; 2] = [[0.5, -0.5, 1.0], [-1.0, 1.0, 1.0]];

/// Subject of the checks.
pub(super) struct Subject<S> {
    program: S,
    model: Mixture,
    hyper: Hyper,
    title: String,
    /// Whether test functions depend on the order of experts.
    ordered: bool,
}

/// Runs the checks of the sampler that is set: three with two classes, and one sweep with three where it does more than two.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    match settings.inference {
        Inference::Hmc => all(|classes| hmc(settings, classes), true, effort, seed, progress),
        Inference::Gibbs => all(|_| gibbs(settings), false, effort, seed, progress),
        Inference::Mh => all(|classes| mh(settings, classes), true, effort, seed, progress),
        other => Err(Error::setting("inference", other.word(), "`hmc`, `gibbs` or `mh`: there are no draws to check otherwise")),
    }
}

fn all<S: Sampler>(
    subject: impl Fn(usize) -> Subject<S>,
    more_classes: bool,
    effort: &Effort,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<CheckReport>> {
    // several experts forget slowly where few rows hold them: fewer draws, further apart
    let max_thin = effort.calibration.max_thin.max(400);
    let calibration = CalibrationSettings { draws: 7, bins: 8, max_thin, ..effort.calibration.clone() };
    let effort = &Effort { calibration, ..effort.clone() };
    let mut reports = check_ranked(&subject(2), &subject(2).unordered(), effort, seed, progress)?;
    if more_classes {
        reports.insert(1, sweep_invariance(&subject(3), &effort.invariance, seed, progress)?);
    }
    Ok(reports)
}

/// Geodesic Hamiltonian Monte Carlo.
pub(super) fn hmc(settings: &Settings, classes: usize) -> Subject<Hmc> {
    Subject::new(settings, classes, fit::hmc)
}

/// Polya-Gamma Gibbs.
pub(super) fn gibbs(settings: &Settings) -> Subject<Gibbs> {
    Subject::new(settings, 2, fit::gibbs)
}

/// Random-walk Metropolis.
pub(super) fn mh(settings: &Settings, classes: usize) -> Subject<Mh> {
    Subject::new(settings, classes, fit::mh)
}

impl<S: Sampler> Subject<S> {
    /// The sampler that is set, as a fit makes it.
    pub(super) fn new(settings: &Settings, classes: usize, program: impl FnOnce(&Settings, &Schema) -> S) -> Self {
        let hyper = if settings.hyper == Hyper::Ml { Hyper::Fixed } else { settings.hyper };
        let settings = &Settings { hyper, n_warmup: WARM_UP, ..settings.clone() };
        let model = Mixture::new(settings, COLUMNS, classes);
        let schema = Schema {
            columns: Vec::new(),
            classes: vec![String::new(); classes],
            counts: vec![TRIALS.0.len() as f64; classes],
            design: Design::identity(COLUMNS, settings.intercept != Intercept::None),
            shape: model.shape.clone(),
            probes: Vec::new(),
        };
        let title = format!(
            "{}, {} expert(s), prior {}, hyper {}, intercept {}, {classes} classes",
            S::NAME,
            settings.experts,
            settings.prior.word(),
            settings.hyper.word(),
            settings.intercept.word()
        );
        Self { program: program(settings, &schema), model, hyper, title, ordered: true }
    }

    /// The same with test functions that do not depend on the order of experts.
    pub(super) fn unordered(self) -> Self {
        Self { ordered: false, ..self }
    }

    /// Name and value of every test function. Bounded functions of what has long tails.
    fn values(&self, (point, point_prior): &(Vec<f64>, PointPrior), data: &Dataset<'_>) -> Vec<(String, f64)> {
        let (s, weights) = (&self.model.shape, self.model.weights(point));
        let mut plain = Vec::new();
        s.plain(point, &mut plain);
        let mut out: Vec<(String, f64)> = Vec::new();
        let mut put = |name: String, value: f64| out.push((name, value));

        // rows: their likelihood, and how classes and columns go together
        let gated = s.gated();
        let (x, Target::Classes(classes)) = (data.x.to_dense(), &data.target) else { return out };
        let row = |x: &[f64]| {
            let mut row = x.to_vec();
            row.resize(s.dim(), 1.0);
            row
        };
        let scores = |x: &[f64]| -> Vec<f64> { weights.chunks_exact(s.dim()).map(|w| dot(w, x)).collect() };
        let (mut ln_likelihood, mut pull) = (0.0, vec![0.0; s.dim()]);
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
            gated.probabilities(&scores(&probe[..s.dim()]), &mut gates, &mut given);
            put(format!("prediction {i}"), gates.iter().zip(given.chunks_exact(s.classes)).map(|(g, p)| g * p[1]).sum());
        }

        let set = &self.model.point_prior;
        for (side, set, name, directions, sizes, dim) in [
            (&point_prior.experts, &set.experts, "expert", s.expert_directions(), s.expert_sizes(), s.expert_dim()),
            (&point_prior.gates, &set.gates, "gate", s.gate_directions(), s.gate_sizes(), s.inputs),
        ] {
            let count = sizes.len();
            if count == 0 {
                continue;
            }
            let a = |k: usize| &point[directions.start + k * dim..directions.start + (k + 1) * dim];
            // beside what is usual under the settings, where tanh tells most
            let usual = 0.5 * set.size.mean_square(dim).ln();
            let size = |k: usize| (point[sizes.start + k] - usual).tanh();
            let along = |k: usize| (0.5 * dot(&plain[directions.start + k * dim..][..s.inputs], &pull)).tanh();
            if self.ordered {
                put(format!("{name} directions' density"), side.directions.ln_density(&point[directions.clone()], dim));
                for k in 0..count.min(SHOWN) {
                    (0..2).for_each(|j| put(format!("{name} {k} direction {j}"), a(k)[j]));
                    put(format!("{name} {k} tanh ln relative length"), size(k));
                    put(format!("{name} {k} along classes"), along(k));
                    for j in 0..k {
                        put(format!("{name}s {j}{k} cosine"), dot(a(j), a(k)));
                        put(format!("{name}s {j}{k} cosine²"), dot(a(j), a(k)).powi(2));
                    }
                }
            }
            if !self.ordered || count > SHOWN {
                let pairs = || (0..count).flat_map(|k| (0..k).map(move |j| (j, k)));
                if count > 1 {
                    put(format!("{name}s' cosines"), pairs().map(|(j, k)| dot(a(j), a(k))).sum());
                    put(format!("{name}s' cosines²"), pairs().map(|(j, k)| dot(a(j), a(k)).powi(2)).sum());
                }
                put(format!("{name}s' tanh ln relative lengths"), (0..count).map(size).sum());
                put(format!("{name}s along classes"), (0..count).map(along).sum());
            }
            put(format!("{name}s' squared tanh ln relative lengths"), (0..count).map(|k| size(k).powi(2)).sum());
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
                for (k, b) in b.iter().enumerate().take(SHOWN) {
                    put(format!("{name} intercept {k} along classes"), b * pull[s.inputs]);
                }
            }
        }
        out
    }
}

impl<S: Sampler> Checkable for Subject<S> {
    type Program = S;
    type Model = Mixture;

    fn title(&self) -> String {
        self.title.clone()
    }

    fn model(&self) -> &Mixture {
        &self.model
    }

    fn program(&self) -> &S {
        &self.program
    }

    fn given(&self, rng: &mut Philox) -> Matrix<'static> {
        TRIALS.features(COLUMNS, rng)
    }

    fn arrange(&self, data: Dataset<'static>) -> Dataset<'static> {
        TRIALS.gather(data)
    }

    fn install(&self, (point, point_prior): (Vec<f64>, PointPrior), _: &[Block<'_>]) -> Result<Installed<S>> {
        Ok(Installed { global: self.program.at(point, point_prior), locals: None })
    }

    fn recover(&self, global: &S::Global, _: &[S::Local]) -> Result<(Vec<f64>, PointPrior)> {
        Ok((S::point(global).to_vec(), S::point_prior(global).clone()))
    }

    fn names(&self) -> Vec<String> {
        let shape = &self.model.shape;
        let nothing = Dataset::new(Matrix::dense(0, COLUMNS, vec![]))
            .with_target(Target::Classes(Classes { codes: Vec::new(), names: vec![String::new(); shape.classes] }));
        let mut point = vec![0.0; shape.len()];
        point[shape.expert_directions()].fill(1.0);
        self.values(&(point, self.model.point_prior.clone()), &nothing).into_iter().map(|(name, _)| name).collect()
    }

    fn functions(&self, unknowns: &(Vec<f64>, PointPrior), data: &Dataset<'_>, out: &mut Vec<f64>) {
        out.extend(self.values(unknowns, data).into_iter().map(|(_, value)| value));
    }
}
