//! The model as a distribution: components and parameters from the prior, rows and labels given those.

use super::{Gibbs, LabelModel, Point, State};
use crate::Result;
use crate::check::Generative;
use crate::data::{Dataset, LabelSets, Matrix, Target, X};
use crate::dist::{Beta, Gamma, draw_from_shares};
use crate::model::labels::patterns::Patterns;
use crate::model::labels::sticks::Concentration;
use crate::run::{Philox, open01};
use crate::special::sigmoid;
use rand_distr::Distribution;

/// The joint distribution of so many rows.
#[derive(Debug, Clone)]
pub(crate) struct Joint {
    /// The model.
    pub(crate) sampler: Gibbs,
    /// Number of rows.
    pub(crate) rows: usize,
    /// What a row of counts sums to.
    pub(crate) total: u32,
    /// Probability of a label to be unknown. Rows are unknown as a whole where present labels are drawn from a pattern.
    pub(crate) unknown: f64,
}

/// All that a sweep conditions on.
#[derive(Debug, Clone)]
pub(crate) struct Unknowns {
    /// What every row sees.
    pub(crate) state: State,
    /// Component of each row.
    pub(crate) z: Vec<u32>,
}

impl Joint {
    /// The component of a row: sticks are broken as far as it needs.
    fn component(sticks: &mut Vec<f64>, alpha: f64, rng: &mut Philox) -> Result<u32> {
        let mut k = 0;
        loop {
            if k == sticks.len() {
                sticks.push(Beta::new(1.0, alpha)?.sample_ln(rng).0.exp());
            }
            if open01(rng) < sticks[k] {
                return Ok(k as u32);
            }
            k += 1;
        }
    }

    /// Labels of rows: known ones 1 or 0.
    fn labels(&self, x: X<'_>, z: &[u32], point: &Point, rng: &mut Philox) -> Vec<i8> {
        let (model, labels) = (&self.sampler.labels, self.sampler.labels.labels());
        let mut predictor = vec![0.0; z.len() * labels];
        if model.classifier().is_some() {
            self.sampler.inputs.panel(x, &mut Default::default()).mul_t(&point.weights, labels, &mut predictor);
        }
        let mut y = Vec::with_capacity(predictor.len());
        for (&z, predictor) in z.iter().zip(predictor.chunks_exact(labels)) {
            let own = &point.patterns[z as usize * labels..][..labels];
            if let LabelModel::Patterns(Patterns::Multinomial { .. }) = model {
                // one label a row: more could be the same twice
                let chosen = draw_from_shares(own.iter().map(|p| p.exp()), rng);
                y.extend((0..labels).map(|c| i8::from(c == chosen)));
                continue;
            }
            y.extend(own.iter().zip(predictor).map(|(&pattern, &f)| {
                let probability = match model {
                    LabelModel::Patterns(_) => sigmoid(pattern),
                    LabelModel::Logit { .. } => sigmoid(pattern + f),
                    LabelModel::And { .. } => sigmoid(pattern) * sigmoid(f),
                };
                i8::from(open01(rng) < probability)
            }));
        }
        y
    }
}

impl Generative for Joint {
    type Unknowns = Unknowns;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Unknowns> {
        let sampler = &self.sampler;
        let alpha = match sampler.alpha {
            Concentration::Fixed(alpha) => alpha,
            Concentration::Random(prior) => Gamma::new(prior.shape, prior.rate)?.sample(rng),
        };
        let mut sticks = Vec::new();
        let z = (0..self.rows).map(|_| Self::component(&mut sticks, alpha, rng)).collect::<Result<Vec<_>>>()?;
        let held = z.iter().max().map_or(0, |m| *m as usize + 1);
        let mut state = State { alpha, counts: vec![0; held], point: sampler.labels.prior(held, rng)?, ..State::default() };
        z.iter().for_each(|&z| state.counts[z as usize] += 1);
        let prior = sampler.kernel.prior();
        for _ in 0..held {
            sampler.kernel.draw(&prior, rng, &mut state.parameters)?;
        }
        Ok(Unknowns { state, z })
    }

    fn data(&self, unknowns: &Unknowns, _: &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let (sampler, Unknowns { state, z }) = (&self.sampler, unknowns);
        let (width, size, labels) = (sampler.kernel.width(), sampler.kernel.parameters(), sampler.labels.labels());
        let mut values = vec![0.0; z.len() * width];
        if width > 0 {
            for (row, &z) in values.chunks_exact_mut(width).zip(z) {
                sampler.kernel.draw_row(&state.parameters[z as usize * size..][..size], self.total, rng, row)?;
            }
        }
        let x = Matrix::dense(z.len(), width, values);
        let mut y = self.labels(x.view(), z, &state.point, rng);
        let whole = matches!(sampler.labels, LabelModel::Patterns(Patterns::Multinomial { .. }));
        for entries in y.chunks_exact_mut(if whole { labels } else { 1 }) {
            if open01(rng) < self.unknown {
                entries.fill(-1);
            }
        }
        let names = (1..=labels).map(|c| format!("label{c}")).collect();
        Ok(Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y })))
    }
}
