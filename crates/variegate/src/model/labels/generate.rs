//! The model as a distribution: weights, components and label parameters from the prior, rows and their labels given those.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::label_part::LabelPart;
use super::mixture::Mixture;
use super::settings::{Coupling, KernelKind};
use super::sticks::Concentration;
use crate::Result;
use crate::data::design::PanelScratch;
use crate::data::{Dataset, LabelSets, Matrix, Target, X};
use crate::dist::{Beta, Gamma, draw_from_shares};
use crate::run::{Philox, open01};
use crate::special::{ln_sigmoid, sigmoid};

/// Weight that is left for components which are not drawn.
const LEAST_WEIGHT: f64 = 1e-9;
/// Components that are drawn at most.
const MOST_COMPONENTS: usize = 1_000;

/// Parameters of all components and labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct World {
    /// Weight of each component; they sum to one.
    pub(super) weights: Vec<f64>,
    /// Parameters of the kernel, component after component.
    pub(super) components: Vec<f64>,
    /// Weights of each label, the bias last (C×dim).
    pub(super) coefficients: Vec<f64>,
    /// Pattern of each component (K×C): log-odds (`logit`), probabilities (`and`, `cut`).
    pub(super) patterns: Vec<f64>,
}

/// What rows are drawn from: a model whose inputs are rows as they are.
pub(super) struct Generator {
    pub(super) mixture: Mixture,
    pub(super) kernel: KernelKind,
    /// Words of a row (multinomial).
    pub(super) words: usize,
    pub(super) labels: usize,
}

impl Generator {
    /// Name of the coupling.
    pub(super) fn coupling(&self) -> &'static str {
        match self.mixture.labels.coupling() {
            LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => Coupling::Logit.word(),
            LabelPart::And(_) => Coupling::And.word(),
            LabelPart::Cut(_) | LabelPart::InRowSpace(_) => Coupling::Cut.word(),
        }
    }

    fn width(&self) -> usize {
        self.mixture.kernel.width()
    }

    fn dim(&self) -> usize {
        self.width() + 1
    }

    /// Parameters from the prior.
    pub(super) fn world(&self, rng: &mut Philox) -> Result<World> {
        let alpha = match self.mixture.concentration {
            Concentration::Fixed(alpha) => alpha,
            Concentration::Random(prior) => Gamma::new(prior.shape, prior.rate)?.sample(rng),
        };
        let (mut weights, mut left) = (Vec::new(), 1.0);
        while left > LEAST_WEIGHT && weights.len() < MOST_COMPONENTS {
            let taken = Beta::new(1.0, alpha)?.sample(rng);
            weights.push(left * taken);
            left *= 1.0 - taken;
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= total);
        let mut components = Vec::new();
        for _ in 0..weights.len() {
            self.mixture.kernel.draw(&self.mixture.kernel.prior(), rng, &mut components)?;
        }
        let (coefficients, patterns) = self.label_world(weights.len(), rng)?;
        Ok(World { weights, components, coefficients, patterns })
    }

    fn label_world(&self, components: usize, rng: &mut Philox) -> Result<(Vec<f64>, Vec<f64>)> {
        let (labels, dim) = (self.labels, self.dim());
        let prior = self.mixture.labels.weights();
        let mut coefficients = Vec::with_capacity(labels * dim);
        let mut patterns = vec![0.0; components * labels];
        for c in 0..labels {
            let weight = prior.weight_precision.draw(rng)?;
            for j in 0..dim {
                let precision = if j + 1 < dim { weight } else { prior.bias_precision };
                coefficients.push(normal(rng) / precision.sqrt());
            }
            let pattern = prior.pattern_precision.draw(rng)?;
            for k in 0..components {
                patterns[k * labels + c] = match self.mixture.labels.coupling() {
                    LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => normal(rng) / pattern.sqrt(),
                    LabelPart::And(p) => Beta::new(p.pattern_prior.0, p.pattern_prior.1)?.sample(rng),
                    LabelPart::Cut(_) | LabelPart::InRowSpace(_) => Beta::new(0.5, 0.5)?.sample(rng),
                };
            }
        }
        Ok((coefficients, patterns))
    }

    /// Rows with their components and labels.
    pub(super) fn rows(&self, world: &World, rows: usize, unknown: f64, rng: &mut Philox) -> Result<(Dataset<'static>, Vec<usize>)> {
        let (width, labels, dim) = (self.width(), self.labels, self.dim());
        let mut members = Vec::with_capacity(rows);
        let mut x = Vec::with_capacity(rows * width);
        for _ in 0..rows {
            let k = draw_from_shares(world.weights.iter().copied(), rng);
            members.push(k);
            let size = self.mixture.kernel.parameters();
            self.row(&world.components[k * size..(k + 1) * size], rng, &mut x);
        }
        let mut linear = vec![0.0; rows * labels];
        let seen = X::Dense { rows, cols: width, values: &x };
        let mut scratch = PanelScratch::default();
        self.mixture.inputs.classifier.panel(seen, &mut scratch).mul_t(&world.coefficients, labels, &mut linear);
        debug_assert_eq!(world.coefficients.len(), labels * dim);
        let mut values = Vec::with_capacity(rows * labels);
        for (i, &k) in members.iter().enumerate() {
            for c in 0..labels {
                let (f, pattern) = (linear[i * labels + c], world.patterns[k * labels + c]);
                let ln_p = match self.mixture.labels.coupling() {
                    LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => ln_sigmoid(f + pattern),
                    LabelPart::And(_) => ln_sigmoid(f) + pattern.ln(),
                    LabelPart::Cut(_) | LabelPart::InRowSpace(_) => pattern.ln(),
                };
                let present = open01(rng).ln() < ln_p;
                values.push(if unknown > 0.0 && open01(rng) < unknown { -1 } else { i8::from(present) });
            }
        }
        let names = (1..=labels).map(|c| format!("label{c}")).collect();
        let data = Dataset::new(Matrix::dense(rows, width, x)).with_target(Target::Labels(LabelSets { names, values }));
        Ok((data, members))
    }

    /// One row of a component.
    fn row(&self, parameters: &[f64], rng: &mut Philox, out: &mut Vec<f64>) {
        let width = self.width();
        match self.kernel {
            KernelKind::Multinomial => {
                let mut counts = vec![0.0; width];
                let shares: Vec<f64> = parameters.iter().map(|l| l.exp()).collect();
                (0..self.words).for_each(|_| counts[draw_from_shares(shares.iter().copied(), rng)] += 1.0);
                out.extend(counts);
            }
            KernelKind::Bernoulli => out.extend(parameters.iter().map(|l| f64::from(u8::from(rng.random::<f64>() < sigmoid(*l))))),
            KernelKind::GaussianFull => {
                // the precision is L Lᵀ, so the noise is L⁻ᵀ z
                let (mean, lower) = (&parameters[..width], &parameters[width..width + width * width]);
                let mut noise: Vec<f64> = (0..width).map(|_| normal(rng)).collect();
                for i in (0..width).rev() {
                    let later: f64 = (i + 1..width).map(|j| lower[j * width + i] * noise[j]).sum();
                    noise[i] = (noise[i] - later) / lower[i * width + i];
                }
                out.extend(mean.iter().zip(noise).map(|(m, z)| m + z));
            }
            KernelKind::GaussianDiag | KernelKind::Auto => {
                let (means, precisions) = parameters.split_at(width);
                out.extend(means.iter().zip(precisions).map(|(m, t)| m + normal(rng) / t.sqrt()));
            }
        }
    }
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}
