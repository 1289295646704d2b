//! What the fit says: class probabilities, coefficients in the user's units, how tight and how far the ascent went.
//!
//! A softmax does not change when all classes get the same weights added, so weights are reported as contrasts: for two classes the log-odds
//! of the second against the first, for more each class against the mean of all classes.

use serde::{Deserialize, Serialize};

use super::expect::{Logits, MonteCarlo, Probit};
use super::node::{Covariance, Node};
use super::tilted::softmax;
use super::vb::{Outcome, State};
use super::{NAME, Schema, Settings};
use crate::data::Dataset;
use crate::data::design::{PanelScratch, packed_len};
use crate::linalg::dot;
use crate::model::{ClassProbabilities, NamedArray, Posterior, Summary, check_prediction_rows, choose_method, for_panels};
use crate::run::state;
use crate::{Error, Result};

const SAVED: &str = "softmax posterior";
const METHODS: &[&str] = &["probit", "mc", "map"];
/// z of a central 90 % interval.
const Z90: f64 = 1.644_853_626_951_472_6;

/// q of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftmaxPosterior {
    schema: Schema,
    settings: Settings,
    covariance: Covariance,
    /// Means of the design weights, K×D.
    mean: Vec<f64>,
    /// Blocks of their covariance as packed forms.
    forms: Vec<f64>,
    /// Mean of each group of precisions.
    alpha: Vec<f64>,
    elbo: f64,
    sweeps: u64,
    outcome: Outcome,
    key: u64,
}

impl SoftmaxPosterior {
    pub(super) fn new(schema: &Schema, settings: &Settings, alpha: Vec<f64>, state: &State, sweeps: u64) -> Result<Self> {
        let node: &Node = &state.node;
        let moments =
            node.moments().map_err(|e| Error::Numerical { what: "the covariance of the weights", sweep: sweeps, detail: e.to_string() })?;
        Ok(Self {
            schema: schema.clone(),
            settings: settings.clone(),
            covariance: node.covariance,
            mean: node.mean.clone(),
            forms: moments.forms,
            alpha,
            elbo: state.bound,
            sweeps,
            outcome: state.outcome,
            key: state.key,
        })
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    /// Lower bound on the log evidence.
    pub fn elbo(&self) -> f64 {
        self.elbo
    }

    fn children(&self) -> usize {
        self.schema.classes.len()
    }

    /// Mean and standard deviation of Σ_c weight_c · lᵀw_c for a direction l of the design space.
    fn contrast(&self, direction: &[f64], weight: &[f64]) -> (f64, f64) {
        let (dim, len) = (direction.len(), packed_len(direction.len()));
        let mean = self.mean.chunks_exact(dim).zip(weight).map(|(w, a)| a * dot(w, direction)).sum();
        // all directions but the intercept's have one entry: reading whole forms would cost O(D²) a coefficient
        let used: Vec<usize> = (0..dim).filter(|&i| direction[i] != 0.0).collect();
        let products: Vec<(usize, f64)> = (used.iter().enumerate())
            .flat_map(|(n, &i)| used[..=n].iter().map(move |&j| (packed_len(i) + j, direction[i] * direction[j])))
            .collect();
        let form = |k: usize| products.iter().map(|&(at, product)| self.forms[k * len + at] * product).sum::<f64>();
        let mut variance = 0.0;
        for (c, a) in weight.iter().enumerate() {
            variance += a * a * form(self.covariance.diagonal(c));
            if self.covariance == Covariance::Joint {
                for (d, b) in weight[..c].iter().enumerate() {
                    variance += 2.0 * a * b * form(packed_len(c) + d);
                }
            }
        }
        (mean, variance.max(0.0).sqrt())
    }

    /// Directions in the design space whose coordinates are the user's coefficients, the intercept last.
    fn directions(&self) -> Vec<Vec<f64>> {
        let d = &self.schema.design;
        let (kept, dim) = (d.kept.len(), d.dim());
        let mut out: Vec<Vec<f64>> = (0..kept)
            .map(|j| {
                let mut l = vec![0.0; dim];
                l[j] = 1.0 / d.scale[j];
                l
            })
            .collect();
        let mut l = vec![0.0; dim];
        for j in 0..kept {
            l[j] = -d.mean[j] / d.scale[j];
        }
        if d.intercept {
            l[kept] = 1.0;
        }
        out.push(l);
        out
    }

    /// Weights of the contrast of class c against the mean of all.
    fn against_mean(&self, c: usize) -> Vec<f64> {
        let s = self.children();
        (0..s).map(|k| f64::from(k == c) - 1.0 / s as f64).collect()
    }

    fn column_name(&self, j: usize) -> String {
        self.schema.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"))
    }

    fn notes(&self) -> Vec<String> {
        let sweeps = self.sweeps;
        let mut notes = vec![match self.outcome {
            Outcome::Converged => format!("converged: sweep {sweeps} gained less than the tolerance {}", self.settings.tol),
            Outcome::NoStepLeft => format!("converged: in sweep {sweeps} no step, however short, raised the bound any more"),
            Outcome::Running => format!(
                "not converged: the bound was still rising by more than the tolerance {} after {sweeps} sweep(s); raise `max_iter`",
                self.settings.tol
            ),
            Outcome::Numerical => format!(
                "stopped for numerical reasons: the bound was no longer finite in sweep {sweeps}, and the state before it was kept; \
                 standardise the columns"
            ),
        }];
        if self.settings.bound == super::Bound::Double {
            notes.push(
                "the double bound is loose by up to one nat a row and overstates log-odds: use `bound = tilted` for probabilities".into(),
            );
        }
        notes
    }
}

impl Posterior for SoftmaxPosterior {
    fn family(&self) -> &'static str {
        NAME
    }

    fn columns(&self) -> &[String] {
        &self.schema.columns
    }

    fn width(&self) -> usize {
        self.schema.design.raw_cols
    }

    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        let method = choose_method(method, METHODS)?;
        check_prediction_rows(data, self.width(), self.columns())?;
        let (s, k) = (self.children(), self.covariance.blocks(self.children()));
        let design = &self.schema.design;
        let mut probability = vec![0.0; s * data.rows()];
        let mut deviation = vec![0.0; if method == "mc" { s * data.rows() } else { 0 }];
        let (mut scratch, mut m, mut v) = (PanelScratch::default(), Vec::new(), Vec::new());
        let mut probit = Probit::default();
        let mut monte_carlo = (method == "mc").then(|| MonteCarlo::new(self.key, s));
        for_panels(data.x.view(), |first, count, x| {
            m.resize(x.rows() * s, 0.0);
            let mut panel = design.panel(x, &mut scratch);
            panel.mul_t(&self.mean, s, &mut m);
            if method != "map" {
                v.resize(x.rows() * k, 0.0);
                panel.quadratics(&self.forms, k, &mut v);
            }
            for i in 0..count {
                let m = &mut m[i * s..(i + 1) * s];
                let at = (first + i) * s..(first + i + 1) * s;
                if method == "map" {
                    softmax(m);
                    probability[at].copy_from_slice(m);
                    continue;
                }
                let v = &mut v[i * k..(i + 1) * k];
                for c in 0..s {
                    let at = self.covariance.diagonal(c);
                    v[at] = v[at].max(0.0);
                }
                let logits = Logits { m, v, covariance: self.covariance };
                match &mut monte_carlo {
                    Some(draws) => draws.expect(logits, &mut probability[at.clone()], &mut deviation[at]),
                    None => probit.expect(logits, &mut probability[at]),
                }
            }
        });
        if let Some(at) = probability.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / s + 1)));
        }
        Ok(ClassProbabilities { probability, deviation: (method == "mc").then_some(deviation) })
    }

    fn summary(&self) -> Summary {
        let classes = &self.schema.classes;
        let counts: Vec<String> = classes.iter().zip(&self.schema.counts).map(|(name, n)| format!("{name} {n}")).collect();
        let two = classes.len() == 2;
        let table = if two {
            format!("log-odds of `{}` against `{}`, for one unit of a column", classes[1], classes[0])
        } else {
            "log-odds of a class against the mean of all classes, for one unit of a column".to_string()
        };
        let alpha = match self.settings.precision {
            super::Precision::Fixed => format!("fixed at {}", self.settings.prior_precision),
            _ if self.alpha.is_empty() => "given for the bias; there is nothing else".to_string(),
            p => {
                let (low, high) = self.alpha.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &a| (l.min(a), h.max(a)));
                if self.alpha.len() == 1 { format!("{}: {low:.4}", p.word()) } else { format!("{}: {low:.4} to {high:.4}", p.word()) }
            }
        };
        let mut rows = Vec::new();
        let directions = self.directions();
        let names = self.schema.design.kept.iter().map(|&j| self.column_name(j as usize)).chain(["(intercept)".to_string()]);
        for (name, direction) in names.zip(&directions) {
            let mut push = |name: String, weight: &[f64]| {
                let (mean, sd) = self.contrast(direction, weight);
                rows.push((name, vec![mean, sd, mean - Z90 * sd, mean + Z90 * sd]));
            };
            if two {
                push(name, &[-1.0, 1.0]);
            } else {
                for (c, class) in classes.iter().enumerate() {
                    push(format!("{name} [{class}]"), &self.against_mean(c));
                }
            }
        }
        Summary {
            facts: vec![
                ("model".into(), format!("softmax: {} classes, variational Bayes", classes.len())),
                ("classes".into(), counts.join(", ")),
                ("bound".into(), self.settings.bound.word().into()),
                ("covariance".into(), self.covariance.word().into()),
                ("precision".into(), alpha),
                ("elbo".into(), format!("{:.4}", self.elbo)),
                ("sweeps".into(), self.sweeps.to_string()),
                ("table".into(), table),
            ],
            headings: ["mean", "sd", "5%", "95%"].map(String::from).to_vec(),
            rows,
            converged: matches!(self.outcome, Outcome::Converged | Outcome::NoStepLeft),
            notes: self.notes(),
        }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (s, width) = (self.children(), self.width());
        let (mut coef, mut coef_sd) = (vec![0.0; s * width], vec![0.0; s * width]);
        let (mut intercept, mut intercept_sd) = (vec![0.0; s], vec![0.0; s]);
        let directions = self.directions();
        for c in 0..s {
            let weight = self.against_mean(c);
            for (&j, direction) in self.schema.design.kept.iter().zip(&directions) {
                // columns left out as constant have coefficient 0
                (coef[c * width + j as usize], coef_sd[c * width + j as usize]) = self.contrast(direction, &weight);
            }
            (intercept[c], intercept_sd[c]) = self.contrast(&directions[directions.len() - 1], &weight);
        }
        let vector = |name, values: Vec<f64>| NamedArray { name, shape: vec![values.len()], values };
        vec![
            NamedArray { name: "coef", shape: vec![s, width], values: coef },
            vector("intercept", intercept),
            NamedArray { name: "coef_sd", shape: vec![s, width], values: coef_sd },
            vector("intercept_sd", intercept_sd),
            vector("alpha", self.alpha.clone()),
            vector("elbo", vec![self.elbo]),
        ]
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
