//! What a fitted mixture says of itself: how well the chains agree, how far apart the experts are, and its numbers as arrays.
//!
//! Nothing here depends on the labels of experts, which mean nothing from draw to draw, but for arrays of draws as they are.

use super::posterior::{ExpertsPosterior, Way};
use super::settings::Inference;
use super::spread::Spread;
use crate::answer::{ColumnKind, Dim, DrawTable, Fact, NamedArray, Summary, SummaryTable};
use crate::diagnostics::{R_HAT_LIMIT, r_hat, summarise};
use crate::linalg::dot;
use crate::model::idle;
use crate::parallel;

/// Experts and columns whose weights the summary shows; arrays have all.
const SHOWN_EXPERTS: usize = 6;
const SHOWN_COLUMNS: usize = 20;
/// Ranks of experts whose shares the summary shows.
const SHOWN_SHARES: usize = 20;

impl ExpertsPosterior {
    /// Probability of the second class (of two) or of the commonest, at some of the rows the fit has seen, a value a draw.
    fn probes(&self) -> Vec<Vec<f64>> {
        let shape = self.shape();
        let (dim, gated) = (shape.dim(), shape.gated());
        let class = if shape.classes == 2 {
            1
        } else {
            (0..shape.classes).fold(0, |best, c| if self.schema.counts[c] > self.schema.counts[best] { c } else { best })
        };
        let by_draw: Vec<Vec<f64>> = parallel::map_numbers(self.draws(), |i| {
            let (mut weights, mut scores) = (Vec::new(), Vec::new());
            shape.weights(self.draw(i), &mut weights);
            let (mut gates, mut classes) = (vec![0.0; shape.experts], vec![0.0; shape.experts * shape.classes]);
            let of_row = |row| {
                scores.clear();
                scores.extend(weights.chunks_exact(dim).map(|w| dot(w, row)));
                gated.probabilities(&scores, &mut gates, &mut classes);
                (0..shape.experts).map(|k| gates[k] * classes[k * shape.classes + class]).sum()
            };
            self.schema.probes.chunks_exact(dim.max(1)).map(of_row).collect()
        });
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
        if shape.experts > 1 && !self.shares.is_empty() {
            let used: Vec<f64> = (0..self.draws()).map(|i| self.number_in_use(i) as f64).collect();
            table.row("experts in use", &used);
        }
        let mut notes = Vec::new();
        for (name, values) in self.figures_of_angles() {
            match values.iter().filter(|v| v.is_nan()).count() {
                0 => table.row(name, &values),
                _ => table.partial_row(name, &values),
            }
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
        facts.extend(self.in_use_fact());
        notes.extend(verdict.sentences);
        notes.extend_from_slice(&self.notes);
        let tables = std::iter::once(table).chain(self.shares_table()).collect();
        Summary { facts, tables, converged: verdict.converged && self.notes.is_empty(), warnings: self.idle_warning(), notes }
    }

    fn number_in_use(&self, i: usize) -> usize {
        self.in_use(i).into_iter().filter(|used| *used).count()
    }

    /// Mean number of experts in use.
    fn mean_in_use(&self) -> f64 {
        (0..self.draws()).map(|i| self.number_in_use(i) as f64).sum::<f64>() / self.draws() as f64
    }

    /// How many experts have rows.
    fn in_use_fact(&self) -> Option<Fact> {
        let experts = self.shape().experts;
        if experts < 2 || self.shares.is_empty() {
            return None;
        }
        Some(match self.way {
            Way::Chains(_) => Fact::number("experts in use", self.mean_in_use()).remark(format!("of {experts}, mean of the draws")),
            Way::Ascent { .. } => Fact::count("experts in use", self.number_in_use(0)).remark(format!("of {experts}")),
        })
    }

    /// A warning where experts are idle, and in what part of the draws there is no angle.
    fn idle_warning(&self) -> Vec<String> {
        let (experts, used) = (self.shape().experts, self.mean_in_use());
        if experts < 2 || self.shares.is_empty() || used > experts as f64 - 0.5 {
            return Vec::new();
        }
        let idle = experts as f64 - used;
        let idle = if matches!(self.way, Way::Chains(_)) { format!("on average {idle:.1}") } else { format!("{idle:.0}") };
        let alone = (0..self.draws()).filter(|i| self.number_in_use(*i) < 2).count() as f64 / self.draws() as f64;
        let more = match alone {
            1.0 => " One expert has all rows: the fit is a single linear classifier, and there is no angle to show.".to_string(),
            0.0 => String::new(),
            _ => format!(" In {:.0} % of the draws one expert has all rows, and there is no angle.", 100.0 * alone),
        };
        vec![idle::warning(&idle, experts, self.schema.counts.iter().sum(), &format!(" Angles leave them out.{more}"))]
    }

    /// Shares of the experts: by label where labels mean something, else of the largest, the next and so on in each draw.
    fn shares_table(&self) -> Option<SummaryTable> {
        use ColumnKind::Share;
        let experts = self.shape().experts;
        if experts < 2 {
            return None;
        }
        if let Way::Ascent { .. } = self.way {
            let mut table = SummaryTable::new("share of rows", [("share", Share)]);
            let shares = self.shares_of(0)?;
            table.rows = shares.iter().enumerate().map(|(k, share)| (format!("expert {}", k + 1), vec![*share])).collect();
            return Some(table);
        }
        let sorted = self.sorted_shares()?;
        let mut table = SummaryTable::new("share of rows", [("mean", Share), ("5%", Share), ("95%", Share)]);
        for rank in 0..experts.min(SHOWN_SHARES) {
            let found = summarise(&[sorted.iter().map(|s| s[rank]).collect::<Vec<f64>>()]);
            let name = if rank == 0 { "largest expert".to_string() } else { format!("{}. largest", rank + 1) };
            table.rows.push((name, vec![found.mean, found.q5, found.q95]));
        }
        Some(table)
    }

    /// Weights of the experts in use and of their gates, for the columns that matter most: where labels mean something.
    fn weight_tables(&self) -> Vec<SummaryTable> {
        let (shape, design, width) = (self.shape(), &self.schema.design, self.width());
        let mut order: Vec<usize> = (0..shape.experts).filter(|k| self.in_use(0)[*k]).collect();
        if let Some(shares) = self.shares_of(0) {
            order.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
        }
        order.truncate(SHOWN_EXPERTS);
        order.sort_unstable();
        let natural = self.natural(&self.centre);
        let (gates, experts) = natural.split_at(shape.gates() * (width + 1));
        let units = shape.gated().units();
        let names = |j: usize| self.schema.columns.get(j).cloned().unwrap_or_else(|| format!("x{}", j + 1));
        let table = |what: &str, vectors: &[f64], units: usize| {
            let of = |k: usize, u: usize, j: usize| vectors[(k * units + u) * (width + 1) + j];
            // by the scale of the column: a weight alone says little
            let mut weight = vec![0.0f64; width];
            for (&j, scale) in design.kept.iter().zip(&design.scale) {
                let j = j as usize;
                weight[j] =
                    order.iter().flat_map(|&k| (0..units).map(move |u| (k, u))).map(|(k, u)| of(k, u, j).abs() * scale).fold(0.0, f64::max);
            }
            let mut columns: Vec<usize> = (0..width).collect();
            columns.sort_by(|a, b| weight[*b].total_cmp(&weight[*a]));
            columns.truncate(SHOWN_COLUMNS);
            let name = match columns.len() == width {
                true => what.to_string(),
                false => format!("{what} ({} of {width} columns)", columns.len()),
            };
            let mut table = SummaryTable::new(&name, order.iter().map(|k| (format!("expert {}", k + 1), ColumnKind::Number)));
            let bias = design.intercept.then_some(width);
            for u in 0..units {
                for j in bias.into_iter().chain(columns.iter().copied()) {
                    let column = if j == width { "intercept".to_string() } else { names(j) };
                    let name = if units == 1 { column } else { format!("{}: {column}", self.schema.classes[u]) };
                    table.rows.push((name, order.iter().map(|&k| of(k, u, j)).collect()));
                }
            }
            table
        };
        let mut out = vec![table("weights of experts", experts, units)];
        if order.len() > 1 {
            out.push(table("weights of gates", gates, 1));
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
        facts.extend(self.in_use_fact());
        for (name, values) in self.figures_of_angles() {
            let found = summarise(&[values]);
            table.rows.push((name, vec![found.mean, found.q5, found.q95]));
        }
        let mut notes = self.notes.clone();
        notes.push(match converged {
            true => format!("The best of {ascents} restarts converged."),
            false => "The best restart did not converge: raise `max_iter`, or take a larger `tol`.".into(),
        });
        let tables = std::iter::once(table).chain(self.shares_table()).chain(self.weight_tables()).collect();
        Summary { facts, tables, converged, warnings: self.idle_warning(), notes }
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
        for (side, spreads) in self.spreads(true) {
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
        if let Some(sorted) = self.sorted_shares().filter(|_| sampled) {
            let mean = (0..k).map(|rank| sorted.iter().map(|s| s[rank]).sum::<f64>() / m as f64).collect();
            out.push(NamedArray::new("shares", vec![Dim::counted("rank", k)], mean));
            out.push(NamedArray::new("shares_draws", vec![Dim::counted("draw", m), Dim::counted("rank", k)], sorted.concat()));
        } else if !self.shares.is_empty() {
            out.push(NamedArray::new("shares", vec![Dim::counted("expert", k)], self.shares.clone()));
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
