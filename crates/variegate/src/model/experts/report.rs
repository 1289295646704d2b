//! What a fitted mixture says of itself: how well the chains agree, how far apart the experts are, and its numbers as arrays.
//!
//! Nothing here depends on the labels of experts, which mean nothing from draw to draw, but for arrays of draws as they are.

use rayon::prelude::*;

use super::posterior::{ExpertsPosterior, Way};
use super::settings::{Inference, as_word};
use crate::diagnostics::{R_HAT_LIMIT, convergence, r_hat, summarise};
use crate::linalg::dot;
use crate::model::{NamedArray, Posterior, Summary};
use crate::prior::angular::{AngleSummary, Regulariser, angles};

/// Figures of the angles on one side of a draw.
struct Spread {
    /// Angles of all pairs, ascending.
    signed: Vec<f64>,
    non_obtuse: Vec<f64>,
    /// The regulariser, as it is set.
    omega: f64,
}

impl Spread {
    fn of(weights: &[f64], dim: usize, gamma: f64) -> Self {
        let found = angles(weights, dim);
        let (mut signed, mut non_obtuse) = (found.signed, found.non_obtuse);
        signed.sort_by(f64::total_cmp);
        non_obtuse.sort_by(f64::total_cmp);
        Self { signed, non_obtuse, omega: Regulariser { gamma, delta: 0.0 }.value(weights, dim) }
    }

    /// Mean, least and variance of the angles and of the non-obtuse ones, and the regulariser.
    fn figures(&self) -> [f64; 7] {
        let of = |angles: &[f64]| AngleSummary::of(angles).map_or([f64::NAN; 3], |s| [s.mean, s.min, s.variance]);
        let ([a, b, c], [d, e, f]) = (of(&self.signed), of(&self.non_obtuse));
        [a, b, c, d, e, f, self.omega]
    }
}

const FIGURES: [&str; 7] = [
    "mean angle",
    "smallest angle",
    "variance of angles",
    "mean non-obtuse angle",
    "smallest non-obtuse angle",
    "variance of non-obtuse angles",
    "mutual angular regulariser",
];

impl ExpertsPosterior {
    /// Angles of every draw: of the experts, and of the gates. Gates are known up to a common shift, so they are centred first.
    fn spreads(&self) -> Vec<(&'static str, Vec<Spread>)> {
        let shape = self.shape();
        if shape.experts < 2 {
            return Vec::new();
        }
        let (theta, eta) = shape.plain_parts();
        let (k, p, gamma) = (shape.experts, shape.inputs, self.settings.gamma);
        let experts =
            (0..self.draws()).into_par_iter().map(|i| Spread::of(&self.draw(i)[theta.clone()], shape.expert_dim(), gamma)).collect();
        let gates = (0..self.draws()).into_par_iter().map(|i| {
            let mut eta = self.draw(i)[eta.clone()].to_vec();
            for j in 0..p {
                let mean = eta.iter().skip(j).step_by(p).sum::<f64>() / k as f64;
                eta.iter_mut().skip(j).step_by(p).for_each(|v| *v -= mean);
            }
            Spread::of(&eta, p, gamma)
        });
        vec![("experts", experts), ("gates", gates.collect())]
    }

    /// Probability of the second class (of two) or of the commonest, at some of the rows the fit has seen, a value a draw.
    fn probes(&self) -> Vec<Vec<f64>> {
        let shape = self.shape();
        let (dim, gated) = (shape.dim(), shape.gated());
        let class = if shape.classes == 2 {
            1
        } else {
            (0..shape.classes).fold(0, |best, c| if self.schema.counts[c] > self.schema.counts[best] { c } else { best })
        };
        let by_draw: Vec<Vec<f64>> = (0..self.draws())
            .into_par_iter()
            .map(|i| {
                let (mut weights, mut scores) = (Vec::new(), Vec::new());
                shape.weights(self.draw(i), &mut weights);
                let (mut gates, mut classes) = (vec![0.0; shape.experts], vec![0.0; shape.experts * shape.classes]);
                let rows = self.schema.probes.chunks_exact(dim.max(1));
                rows.map(|row| {
                    scores.clear();
                    scores.extend(weights.chunks_exact(dim).map(|w| dot(w, row)));
                    gated.probabilities(&scores, &mut gates, &mut classes);
                    (0..shape.experts).map(|k| gates[k] * classes[k * shape.classes + class]).sum()
                })
                .collect()
            })
            .collect();
        let rows = self.schema.probes.len() / dim.max(1);
        (0..rows).map(|row| by_draw.iter().map(|draw| draw[row]).collect()).collect()
    }

    pub(super) fn report(&self) -> Summary {
        let (s, shape) = (&self.settings, self.shape());
        let classes = match shape.classes {
            2 => format!("log-odds of `{}` against `{}`", self.schema.classes[1], self.schema.classes[0]),
            c => format!("{c} classes"),
        };
        let mut summary = Summary {
            facts: vec![
                ("model".into(), format!("{} expert(s), {classes}", shape.experts)),
                ("prior".into(), self.prior_in_words()),
                ("inference".into(), as_word(&s.inference)),
            ],
            ..Summary::default()
        };
        let full = ["mean", "sd", "5%", "95%", "ESS bulk", "ESS tail", "R-hat"];
        let Way::Chains(lengths) = &self.way else { return self.ascent_report(summary) };
        summary.facts.push(("draws".into(), format!("{} from {} chain(s)", self.draws(), lengths.len())));
        summary.headings = full.map(String::from).to_vec();
        let mut checked = Vec::new();
        let mut add = |name: String, values: &[f64], summary: &mut Summary| {
            let found = summarise(&self.by_chain(values));
            summary.rows.push((name.clone(), vec![found.mean, found.sd, found.q5, found.q95, found.ess_bulk, found.ess_tail, found.r_hat]));
            checked.push((name, found));
        };
        add("log joint".into(), &self.log_joint, &mut summary);
        add("log likelihood".into(), &self.log_likelihood, &mut summary);
        for (side, spreads) in self.spreads() {
            let figures: Vec<[f64; 7]> = spreads.iter().map(Spread::figures).collect();
            for (f, name) in FIGURES.iter().enumerate() {
                // two experts have one angle, which has no variance
                if shape.experts > 2 || ![1, 2, 4, 5].contains(&f) {
                    add(format!("{name} of {side}"), &figures.iter().map(|v| v[f]).collect::<Vec<_>>(), &mut summary);
                }
            }
        }
        for (name, values) in &self.hyper {
            add(name.clone(), values, &mut summary);
        }
        let probes = self.probes();
        let worst = probes.iter().map(|p| r_hat(&self.by_chain(p))).filter(|r| !r.is_nan()).fold(f64::NAN, f64::max);
        for (i, values) in probes.iter().enumerate() {
            checked.push((format!("the prediction of probe row {}", i + 1), summarise(&self.by_chain(values))));
        }
        if worst.is_finite() {
            let verdict = if worst > R_HAT_LIMIT { "" } else { ": they agree" };
            summary.facts.push(("R-hat of predictions".into(), format!("{worst:.3} at the worst of {} rows{verdict}", probes.len())));
        }
        let verdict = convergence(checked.iter().map(|(n, s)| (n.as_str(), s)), lengths.len());
        summary.converged = verdict.converged && self.notes.is_empty();
        summary.notes = [verdict.sentences, self.notes.clone()].concat();
        summary
    }

    fn prior_in_words(&self) -> String {
        let s = &self.settings;
        match s.inference {
            Inference::Pr => format!("uniform directions, reward of angles {} (gates {})", s.diversity, s.gate_diversity),
            Inference::Map => match s.prior {
                super::settings::Prior::Gaussian => format!("squared weights, penalty {}", s.l2),
                _ => format!("squared weights, penalty {}, reward of angles {} (gates {})", s.l2, s.diversity, s.gate_diversity),
            },
            _ => as_word(&s.prior),
        }
    }

    fn ascent_report(&self, mut summary: Summary) -> Summary {
        let Way::Ascent { objective, converged, ascents, .. } = self.way else { return summary };
        let name = if self.settings.inference == Inference::Map { "penalised log likelihood" } else { "bound on the log evidence" };
        summary.facts.push((name.into(), format!("{objective:.4} (best of {ascents})")));
        summary.headings = ["mean", "5%", "95%"].map(String::from).to_vec();
        for (side, spreads) in self.spreads() {
            let figures: Vec<[f64; 7]> = spreads.iter().map(Spread::figures).collect();
            for (f, name) in FIGURES.iter().enumerate() {
                if self.shape().experts > 2 || ![1, 2, 4, 5].contains(&f) {
                    let found = summarise(&[figures.iter().map(|v| v[f]).collect::<Vec<_>>()]);
                    summary.rows.push((format!("{name} of {side}"), vec![found.mean, found.q5, found.q95]));
                }
            }
        }
        summary.converged = converged;
        summary.notes.clone_from(&self.notes);
        summary.notes.push(match converged {
            true => format!("The best of {ascents} ascent(s) arrived."),
            false => "The best ascent did not arrive: raise `max_iter`, or take a larger `tol`.".into(),
        });
        summary
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let (m, width, shape) = (self.draws(), self.width(), self.shape());
        let (k, units) = (shape.experts, shape.gated().units());
        let sampled = matches!(self.way, Way::Chains(_));
        let mut out = Vec::new();
        // in the user's units: of the draws, and of the one that stands for all where its labels mean something
        let mut coefficients = |plain: &[f64], names: [&'static str; 4], lead: &[usize]| {
            let [expert_coef, expert_intercept, gate_coef, gate_intercept] = names;
            let (mut experts, mut expert_bias, mut gates, mut gate_bias) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for draw in plain.chunks_exact(shape.plain_len()) {
                let natural = self.natural(draw);
                let (of_gates, of_experts) = natural.split_at(shape.gates() * (width + 1));
                for (vectors, coef, bias) in [(of_gates, &mut gates, &mut gate_bias), (of_experts, &mut experts, &mut expert_bias)] {
                    for vector in vectors.chunks_exact(width + 1) {
                        coef.extend_from_slice(&vector[..width]);
                        bias.push(vector[width]);
                    }
                }
            }
            let of = |rest: &[usize]| [lead, rest].concat();
            out.push(NamedArray { name: expert_coef, shape: of(&[k, units, width]), values: experts });
            out.push(NamedArray { name: expert_intercept, shape: of(&[k, units]), values: expert_bias });
            if k > 1 {
                out.push(NamedArray { name: gate_coef, shape: of(&[k, width]), values: gates });
                out.push(NamedArray { name: gate_intercept, shape: of(&[k]), values: gate_bias });
            }
        };
        if sampled {
            let names = ["expert_coef_draws", "expert_intercept_draws", "gate_coef_draws", "gate_intercept_draws"];
            coefficients(&self.plain, names, &[m]);
        } else {
            coefficients(&self.centre, ["expert_coef", "expert_intercept", "gate_coef", "gate_intercept"], &[]);
        }
        for (side, spreads) in self.spreads() {
            let names = match side {
                "experts" => ["angles_draws", "non_obtuse_angles_draws", "omega_draws"],
                _ => ["gate_angles_draws", "gate_non_obtuse_angles_draws", "gate_omega_draws"],
            };
            let pairs = k * (k - 1) / 2;
            let flat = |f: fn(&Spread) -> &[f64]| spreads.iter().flat_map(|s| f(s).iter().copied()).collect();
            out.push(NamedArray { name: names[0], shape: vec![m, pairs], values: flat(|s| &s.signed) });
            out.push(NamedArray { name: names[1], shape: vec![m, pairs], values: flat(|s| &s.non_obtuse) });
            out.push(NamedArray { name: names[2], shape: vec![m], values: spreads.iter().map(|s| s.omega).collect() });
        }
        match &self.way {
            Way::Chains(lengths) => {
                for (name, values) in &self.hyper {
                    let name = match name.as_str() {
                        "alpha1" => "alpha1_draws",
                        "alpha2" => "alpha2_draws",
                        "kappa" => "kappa_draws",
                        "omega1" => "omega1_draws",
                        "omega2" => "omega2_draws",
                        _ => "gate_kappa_draws",
                    };
                    out.push(NamedArray { name, shape: vec![m], values: values.clone() });
                }
                out.push(NamedArray { name: "log_joint_draws", shape: vec![m], values: self.log_joint.clone() });
                out.push(NamedArray { name: "log_likelihood_draws", shape: vec![m], values: self.log_likelihood.clone() });
                let values = lengths.iter().map(|n| *n as f64).collect();
                out.push(NamedArray { name: "chain_lengths", shape: vec![lengths.len()], values });
            }
            Way::Ascent { chain, objective, .. } => {
                let name = if self.settings.inference == Inference::Map { "objective" } else { "elbo" };
                out.push(NamedArray { name, shape: vec![1], values: vec![*objective] });
                out.push(NamedArray { name: "chain", shape: vec![1], values: vec![f64::from(*chain)] });
            }
        }
        out
    }

    /// Weight vectors of a draw for the user's columns as they are (left-out columns have 0), the intercept last; gates are centred.
    fn natural(&self, plain: &[f64]) -> Vec<f64> {
        let (shape, design) = (self.shape(), &self.schema.design);
        let (d, width, kept) = (shape.dim(), self.width(), design.kept.len());
        let mut weights = Vec::new();
        shape.weights(plain, &mut weights);
        let gates = shape.gates();
        for j in 0..d {
            let mean = weights[..gates * d].iter().skip(j).step_by(d).sum::<f64>() / gates.max(1) as f64;
            weights[..gates * d].iter_mut().skip(j).step_by(d).for_each(|w| *w -= mean);
        }
        let mut out = vec![0.0; weights.len() / d * (width + 1)];
        for (w, out) in weights.chunks_exact(d).zip(out.chunks_exact_mut(width + 1)) {
            // the column of ones stands last, inside the direction or beside it
            let mut intercept = if design.intercept { w[kept] } else { 0.0 };
            for (((&j, &mean), &scale), &w) in design.kept.iter().zip(&design.mean).zip(&design.scale).zip(w) {
                out[j as usize] = w / scale;
                intercept -= w / scale * mean;
            }
            out[width] = intercept;
        }
        out
    }
}
