//! What a fitted mixture says of itself: how well the chains agree, how far apart the experts are, and its numbers as arrays.
//!
//! Nothing here depends on the labels of experts, which mean nothing from draw to draw, but for arrays of draws as they are.

use rayon::prelude::*;

use super::posterior::{ExpertsPosterior, Way};
use super::settings::Inference;
use crate::answer::{ColumnKind, Dim, DrawTable, Fact, NamedArray, Summary, SummaryTable};
use crate::diagnostics::{R_HAT_LIMIT, r_hat, summarise};
use crate::linalg::dot;
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
        let mut facts = vec![
            Fact::text("model", format!("mixture of experts, {classes}")),
            Fact::count("experts", shape.experts),
            Fact::text("prior", self.prior_in_words()),
            Fact::text("inference", s.inference.word()),
        ];
        let Way::Chains(lengths) = &self.way else { return self.ascent_report(facts) };
        facts.extend(DrawTable::facts(lengths));
        let mut table = DrawTable::new("quantities", lengths);
        table.row("log joint density", &self.log_joint);
        table.row("log likelihood", &self.log_likelihood);
        for (name, values) in self.figures_of_angles() {
            table.row(name, &values);
        }
        for (name, values) in &self.hyper {
            table.row(name, values);
        }
        let probes = self.probes();
        let worst = probes.iter().map(|p| r_hat(&self.by_chain(p))).filter(|r| !r.is_nan()).fold(f64::NAN, f64::max);
        for (i, values) in probes.iter().enumerate() {
            table.judge(format!("the prediction of probe row {}", i + 1), values);
        }
        if worst.is_finite() {
            let verdict = if worst > R_HAT_LIMIT { "" } else { ": they agree" };
            let fact = Fact::number("R-hat of predictions", worst);
            facts.push(fact.remark(format!("at the worst of {} rows{verdict}", probes.len())));
        }
        let (table, verdict) = table.finish();
        Summary {
            facts,
            tables: vec![table],
            converged: verdict.converged && self.notes.is_empty(),
            notes: [verdict.sentences, self.notes.clone()].concat(),
        }
    }

    /// Figures of the angles between experts and between gates: a name and a value a draw.
    fn figures_of_angles(&self) -> Vec<(String, Vec<f64>)> {
        let mut out = Vec::new();
        for (side, spreads) in self.spreads() {
            let figures: Vec<[f64; 7]> = spreads.iter().map(Spread::figures).collect();
            for (f, name) in FIGURES.iter().enumerate() {
                // two experts have one angle, which has no variance
                if self.shape().experts > 2 || ![1, 2, 4, 5].contains(&f) {
                    out.push((format!("{name} of {side}"), figures.iter().map(|v| v[f]).collect()));
                }
            }
        }
        out
    }

    fn prior_in_words(&self) -> String {
        let s = &self.settings;
        match s.inference {
            Inference::Pr => format!("uniform directions, reward of angles {} (gates {})", s.diversity, s.gate_diversity),
            Inference::Map => match s.prior {
                super::settings::Prior::Gaussian => format!("squared weights, penalty {}", s.l2),
                _ => format!("squared weights, penalty {}, reward of angles {} (gates {})", s.l2, s.diversity, s.gate_diversity),
            },
            _ => s.prior.word().into(),
        }
    }

    fn ascent_report(&self, mut facts: Vec<Fact>) -> Summary {
        use ColumnKind::Number;
        let mut table = SummaryTable::new("quantities", [("mean", Number), ("5%", Number), ("95%", Number)]);
        let Way::Ascent { objective, converged, ascents, .. } = self.way else { return Summary { facts, ..Summary::default() } };
        let name = if self.settings.inference == Inference::Map { "penalised log likelihood" } else { "bound on the log evidence" };
        facts.push(Fact::number(name, objective).remark(format!("best of {ascents}")));
        for (name, values) in self.figures_of_angles() {
            let found = summarise(&[values]);
            table.rows.push((name, vec![found.mean, found.q5, found.q95]));
        }
        let mut notes = self.notes.clone();
        notes.push(match converged {
            true => format!("The best of {ascents} ascent(s) arrived."),
            false => "The best ascent did not arrive: raise `max_iter`, or take a larger `tol`.".into(),
        });
        Summary { facts, tables: vec![table], converged, notes }
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let (m, width, shape) = (self.draws(), self.width(), self.shape());
        let (k, units) = (shape.experts, shape.gated().units());
        let sampled = matches!(self.way, Way::Chains(_));
        let mut out = Vec::new();
        // in the user's units: of the draws, and of the one that stands for all where its labels mean something
        let mut coefficients = |plain: &[f64], names: [&'static str; 4], lead: &[Dim]| {
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
            let (expert, contrast) = (|| Dim::counted("expert", k), || Dim::counted("contrast", units));
            let column = || Dim::columns(&self.schema.columns, width);
            let of = |rest: Vec<Dim>| [lead.to_vec(), rest].concat();
            out.push(NamedArray::new(expert_coef, of(vec![expert(), contrast(), column()]), experts));
            out.push(NamedArray::new(expert_intercept, of(vec![expert(), contrast()]), expert_bias));
            if k > 1 {
                out.push(NamedArray::new(gate_coef, of(vec![expert(), column()]), gates));
                out.push(NamedArray::new(gate_intercept, of(vec![expert()]), gate_bias));
            }
        };
        if sampled {
            let names = ["expert_coef_draws", "expert_intercept_draws", "gate_coef_draws", "gate_intercept_draws"];
            coefficients(&self.plain, names, &[Dim::counted("draw", m)]);
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
            let by_pair = || vec![Dim::counted("draw", m), Dim::counted("pair", pairs)];
            out.push(NamedArray::new(names[0], by_pair(), flat(|s| &s.signed)));
            out.push(NamedArray::new(names[1], by_pair(), flat(|s| &s.non_obtuse)));
            out.push(NamedArray::draws(names[2], spreads.iter().map(|s| s.omega).collect()));
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
                    out.push(NamedArray::draws(name, values.clone()));
                }
                out.push(NamedArray::draws("log_joint_draws", self.log_joint.clone()));
                out.push(NamedArray::draws("log_likelihood_draws", self.log_likelihood.clone()));
                out.push(NamedArray::chain_lengths(lengths));
            }
            Way::Ascent { chain, objective, .. } => {
                let name = if self.settings.inference == Inference::Map { "objective" } else { "elbo" };
                out.push(NamedArray::scalar(name, *objective));
                out.push(NamedArray::scalar("chain", f64::from(*chain)));
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
