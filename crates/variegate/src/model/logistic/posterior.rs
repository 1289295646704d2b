//! What the draws say: averaged probabilities, coefficients in the user's units, convergence.

use serde::{Deserialize, Serialize};

use super::{NAME, Schema};
use crate::data::Dataset;
use crate::data::design::PanelScratch;
use crate::diagnostics::{by_chain, convergence, summarise};
use crate::linalg::dot;
use crate::model::{ClassProbabilities, NamedArray, Origin, Posterior, Summary, check_prediction_rows, choose_method, for_panels};
use crate::run::{Piece, state};
use crate::special::sigmoid;
use crate::{Error, Result};

const SAVED: &str = "logistic posterior";
const METHODS: &[&str] = &["average", "plug-in"];

/// Posterior draws of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogisticPosterior {
    schema: Schema,
    /// Draws of each chain.
    lengths: Vec<usize>,
    /// One draw of the design weights a row, chain after chain.
    weights: Vec<f64>,
    /// Log joint density of each draw.
    log_joint: Vec<f64>,
}

impl LogisticPosterior {
    pub(super) fn new(schema: &Schema, chains: &[Piece]) -> Result<Self> {
        let dim = schema.design.dim();
        let mut out = Self { schema: schema.clone(), lengths: Vec::new(), weights: Vec::new(), log_joint: Vec::new() };
        for chain in chains {
            let table = &chain.draws.scalars;
            if table.rows() == 0 {
                continue;
            }
            let (Some((at, width)), Some(log_joint)) = (table.find("weights"), table.column("log_joint", 0)) else {
                return Err(Error::Unfit("the draws have no column `weights`: they belong to another model".into()));
            };
            if width != dim {
                return Err(Error::Unfit(format!("the draws have {width} weights, but the schema has {dim}")));
            }
            out.lengths.push(table.rows());
            out.log_joint.extend(log_joint);
            out.weights.extend(table.values.chunks_exact(table.width()).flat_map(|row| &row[at..at + width]));
        }
        if out.lengths.is_empty() {
            return Err(Error::Unfit("the run has no draws yet, it was stopped during its warm-up: resume it".into()));
        }
        Ok(out)
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    fn draws(&self) -> usize {
        self.log_joint.len()
    }

    /// Every draw in the units of the user's columns: coefficients, then the intercept (0 without one).
    fn natural(&self) -> Vec<f64> {
        let d = &self.schema.design;
        let k = d.kept.len();
        let mut out = Vec::with_capacity(self.draws() * (k + 1));
        for w in self.weights.chunks_exact(d.dim()) {
            let from = out.len();
            out.extend(w[..k].iter().zip(&d.scale).map(|(w, s)| w / s));
            let bias = if d.intercept { w[k] } else { 0.0 };
            let shift = dot(&out[from..], &d.mean);
            out.push(bias - shift);
        }
        out
    }

    fn by_chain(&self, values: &[f64]) -> Vec<Vec<f64>> {
        by_chain(values, &self.lengths)
    }
}

impl Posterior for LogisticPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.design.raw_cols, classes: &self.schema.classes }
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        let method = choose_method(method, METHODS)?;
        check_prediction_rows(data, self.width(), self.columns())?;
        let design = &self.schema.design;
        let dim = design.dim();
        let plug_in = method == "plug-in";
        let mean: Vec<f64>;
        let weights = if plug_in {
            let n = self.draws() as f64;
            mean = (0..dim).map(|j| self.weights.iter().skip(j).step_by(dim).sum::<f64>() / n).collect();
            &mean
        } else {
            &self.weights
        };
        let draws = if plug_in { 1 } else { self.draws() };
        let mut probability = vec![0.0; 2 * data.rows()];
        let mut deviation = vec![0.0; 2 * data.rows()];
        let (mut scratch, mut eta) = (PanelScratch::default(), Vec::new());
        for_panels(data.x.view(), |first, count, x| {
            eta.resize(x.rows() * draws, 0.0);
            design.panel(x, &mut scratch).mul_t(weights, draws, &mut eta);
            for (i, eta) in eta.chunks_exact(draws).enumerate().take(count) {
                // sums of p and of 1 − p apart, so that a tiny probability of either class keeps its digits
                let (mut yes, mut no, mut square) = (0.0, 0.0, 0.0);
                for &e in eta {
                    let p = sigmoid(e);
                    yes += p;
                    no += sigmoid(-e);
                    square += p * p;
                }
                let m = draws as f64;
                let (yes, no) = (yes / m, no / m);
                let at = 2 * (first + i);
                probability[at] = no;
                probability[at + 1] = yes;
                let sd = (square / m - yes * yes).max(0.0).sqrt();
                deviation[at] = sd;
                deviation[at + 1] = sd;
            }
        });
        Ok(ClassProbabilities { probability, deviation: (!plug_in).then_some(deviation) })
    }

    fn summary(&self) -> Summary {
        let natural = self.natural();
        let k = self.schema.design.kept.len();
        let mut summary = Summary {
            facts: vec![
                ("model".into(), format!("logistic: log-odds of `{}` against `{}`", self.schema.classes[1], self.schema.classes[0])),
                ("draws".into(), format!("{} from {} chain(s)", self.draws(), self.lengths.len())),
                ("mean log joint".into(), format!("{:.3}", self.log_joint.iter().sum::<f64>() / self.draws() as f64)),
            ],
            headings: ["mean", "sd", "5%", "95%", "ESS bulk", "ESS tail", "R-hat"].map(String::from).to_vec(),
            ..Summary::default()
        };
        let mut checked = vec![("log joint".to_string(), summarise(&self.by_chain(&self.log_joint)))];
        let names = self.schema.design.kept.iter().map(|&j| {
            let j = j as usize;
            self.schema.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"))
        });
        for (j, name) in names.chain(["(intercept)".to_string()]).enumerate() {
            if j == k && !self.schema.design.intercept {
                break;
            }
            let column: Vec<f64> = natural.iter().skip(j).step_by(k + 1).copied().collect();
            let s = summarise(&self.by_chain(&column));
            summary.rows.push((name.clone(), vec![s.mean, s.sd, s.q5, s.q95, s.ess_bulk, s.ess_tail, s.r_hat]));
            checked.push((name, s));
        }
        let verdict = convergence(checked.iter().map(|(n, s)| (n.as_str(), s)), self.lengths.len());
        summary.converged = verdict.converged;
        summary.notes = verdict.sentences;
        summary
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let k = self.schema.design.kept.len();
        let width = self.width();
        let m = self.draws();
        let natural = self.natural();
        // columns left out as constant have coefficient 0
        let mut coefficients = vec![0.0; m * width];
        let mut intercepts = Vec::with_capacity(m);
        for (row, out) in natural.chunks_exact(k + 1).zip(coefficients.chunks_exact_mut(width)) {
            for (&j, &v) in self.schema.design.kept.iter().zip(row) {
                out[j as usize] = v;
            }
            intercepts.push(row[k]);
        }
        let mean = (0..width).map(|j| coefficients.iter().skip(j).step_by(width).sum::<f64>() / m as f64).collect();
        let intercept = intercepts.iter().sum::<f64>() / m as f64;
        vec![
            NamedArray { name: "coef", shape: vec![1, width], values: mean },
            NamedArray { name: "intercept", shape: vec![1], values: vec![intercept] },
            NamedArray { name: "coef_draws", shape: vec![m, width], values: coefficients },
            NamedArray { name: "intercept_draws", shape: vec![m], values: intercepts },
            NamedArray { name: "log_joint_draws", shape: vec![m], values: self.log_joint.clone() },
            NamedArray { name: "chain_lengths", shape: vec![self.lengths.len()], values: self.lengths.iter().map(|&n| n as f64).collect() },
        ]
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
