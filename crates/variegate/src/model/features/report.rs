//! What a fitted model says of itself: how many features, what they are, and how sure that is.

use super::draws::Draw;
use super::posterior::{FeaturesPosterior, Figures};
use super::settings::{MagnitudeKind, PriorKind};
use crate::answer::{ColumnKind, Dim, DrawTable, Fact, Figure, NamedArray, Summary, SummaryTable};
use crate::diagnostics::{convergence, summarise};
use crate::linalg::dot;

/// Names of columns that describe a feature.
const WORDS: usize = 4;
/// A feature that more than this share of the rows uses is common.
const COMMON: f64 = 0.01;

/// How often each number occurs, as a share.
fn shares(values: &[f64]) -> Vec<(String, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut out: Vec<(f64, f64)> = Vec::new();
    for v in sorted {
        match out.last_mut() {
            Some((same, n)) if *same == v => *n += 1.0,
            _ => out.push((v, 1.0)),
        }
    }
    out.into_iter().map(|(v, n)| (v.to_string(), n / values.len() as f64)).collect()
}

impl FeaturesPosterior {
    fn each(&self, f: impl Fn(&Draw) -> f64) -> Vec<f64> {
        self.draws.iter().map(f).collect()
    }

    /// Number of features that more than a hundredth of the rows uses, in each draw.
    fn common(&self) -> Vec<f64> {
        let least = COMMON * self.schema.rows as f64;
        self.each(|d| d.uses.iter().filter(|&&m| m as f64 > least).count() as f64)
    }

    /// Share of the draws that have each feature.
    fn presence(&self) -> Vec<f64> {
        (0..self.features()).map(|f| self.same.iter().filter(|s| s[f].is_some()).count() as f64 / self.draws.len() as f64).collect()
    }

    /// Share of rows that use each feature, among the draws that have it.
    fn usage(&self) -> Vec<f64> {
        (0..self.features())
            .map(|f| {
                let used: Vec<f64> = self.draws.iter().zip(&self.same).filter_map(|(d, s)| s[f].map(|k| d.uses[k] as f64)).collect();
                used.iter().sum::<f64>() / used.len().max(1) as f64 / self.schema.rows as f64
            })
            .collect()
    }

    /// What a feature is about: the columns where it is largest, its negative ones with a minus.
    fn described(&self, components: &[f64], f: usize) -> String {
        let width = self.schema.width;
        let feature = &components[f * width..][..width];
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| feature[b].abs().total_cmp(&feature[a].abs()));
        let name = |&m: &usize| {
            let name = self.schema.columns.get(m).cloned().unwrap_or_else(|| format!("x{m}"));
            if feature[m] < 0.0 { format!("-{name}") } else { name }
        };
        format!("feature{} ({})", f + 1, order.iter().take(WORDS).map(name).collect::<Vec<_>>().join(", "))
    }

    /// Angles between the features of each draw that are common, in degrees: the mean; NaN where there are fewer than two.
    fn angles(&self) -> Vec<f64> {
        let (width, least) = (self.schema.width, COMMON * self.schema.rows as f64);
        self.each(|d| {
            let common: Vec<Vec<f64>> = (0..d.count())
                .filter(|&k| d.uses[k] as f64 > least)
                .map(|k| d.weights[k * width..][..width].iter().map(|&v| f64::from(v)).collect())
                .collect();
            let (mut sum, mut pairs) = (0.0, 0.0);
            for (i, a) in common.iter().enumerate() {
                for b in &common[..i] {
                    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
                    if cosine.is_finite() {
                        sum += cosine.clamp(-1.0, 1.0).acos().to_degrees();
                        pairs += 1.0;
                    }
                }
            }
            sum / pairs
        })
    }

    pub(super) fn summarised(&self) -> Summary {
        use ColumnKind::{Number, Share};
        let (scale, components) = (self.schema.scale, self.components());
        let common = self.common();
        let counts = self.each(|d| d.count() as f64);
        let mut facts = vec![
            Fact::new("number of features", Figure::Shares(shares(&counts))).remark("probability of each number"),
            Fact::new("common features", Figure::Shares(shares(&common))).remark("used by more than 1 % of the rows"),
            Fact::new("features of a row", Figure::estimate(&self.each(|d| d.uses.iter().sum::<u64>() as f64 / self.schema.rows as f64))),
        ];
        facts.extend(DrawTable::facts(&self.lengths));
        let mut table = SummaryTable::new("features", [("used by", Share), ("in draws", Share), ("length", Number)]);
        let (usage, presence, width) = (self.usage(), self.presence(), self.schema.width);
        for f in 0..self.features() {
            let w = &components[f * width..][..width];
            table.rows.push((self.described(&components, f), vec![usage[f], presence[f], dot(w, w).sqrt()]));
        }
        let mut numbers = DrawTable::new("parameters", &self.lengths);
        numbers.row("noise (sd)", &self.each(|d| d.noise.sqrt() * scale));
        numbers.row("mass", &self.each(|d| d.mass));
        if self.settings.prior == PriorKind::PitmanYor {
            numbers.row("discount", &self.each(|d| d.discount));
            numbers.row("concentration", &self.each(|d| d.concentration));
        }
        if self.settings.prior != PriorKind::MutualAngular || self.settings.magnitude == MagnitudeKind::Chi {
            numbers.row("feature entries (sd)", &self.each(|d| d.spread.sqrt() * scale));
        } else {
            numbers.row("mean length of features", &self.each(|d| self.settings.magnitude_shape / d.rate * scale));
        }
        if self.settings.learn_kappa {
            numbers.row("kappa", &self.each(|d| d.kappa));
        }
        let angles = self.angles();
        if angles.iter().any(|a| !a.is_nan()) {
            numbers.partial_row("mean angle of common features (°)", &angles);
        }
        let parameters = numbers.finish().0;
        let by_chain = |f: fn(&Figures) -> &Vec<f64>| -> Vec<Vec<f64>> {
            // chains that are not finished may differ in length
            let n = self.figures.iter().map(|c| f(c).len()).min().unwrap_or(0);
            self.figures.iter().map(|c| f(c)[..n].to_vec()).collect()
        };
        let checked = [
            ("the log joint density", summarise(&by_chain(|f| &f.ln_joint))),
            ("the log likelihood", summarise(&by_chain(|f| &f.ln_likelihood))),
            ("the number of features", summarise(&by_chain(|f| &f.features))),
            ("the noise", summarise(&by_chain(|f| &f.noise))),
        ];
        let verdict = convergence(checked.iter().map(|(n, s)| (*n, s)), self.lengths.len());
        let mut warnings = Vec::new();
        if self.draws.iter().any(|d| d.truncated) {
            warnings.push(format!(
                "births of features were refused because there are so many: raise `max_features` (the largest draw has {})",
                counts.iter().copied().fold(0.0, f64::max)
            ));
        }
        if counts.iter().all(|n| *n == 0.0) {
            facts.push(Fact::new("features", Figure::Count(0)).remark("the rows are explained by noise alone"));
        }
        Summary { facts, tables: vec![table, parameters], converged: verdict.converged, warnings, notes: verdict.sentences }
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let scale = self.schema.scale;
        let component = || Dim::named("component", self.feature_names());
        let column = || Dim::columns(&self.schema.columns, self.schema.width);
        let draws = |name, f: &dyn Fn(&Draw) -> f64| NamedArray::draws(name, self.each(f));
        let mut all = vec![
            NamedArray::new("components", vec![component(), column()], self.components()),
            NamedArray::new("intercept", vec![column()], self.intercept()),
            NamedArray::new("usage", vec![component()], self.usage()),
            NamedArray::new("presence", vec![component()], self.presence()),
            draws("n_features_draws", &|d| d.count() as f64),
            NamedArray::draws("n_common_draws", self.common()),
            draws("log_joint_draws", &|d| d.ln_joint),
            draws("log_likelihood_draws", &|d| d.ln_likelihood),
            draws("mass_draws", &|d| d.mass),
            draws("noise_variance_draws", &|d| d.noise * scale * scale),
            draws("ones_draws", &|d| d.uses.iter().sum::<u64>() as f64),
            NamedArray::chain_lengths(&self.lengths),
        ];
        match self.settings.prior {
            PriorKind::Ibp => all.push(draws("feature_variance_draws", &|d| d.spread * scale * scale)),
            PriorKind::PitmanYor => all.extend([
                draws("feature_variance_draws", &|d| d.spread * scale * scale),
                draws("discount_draws", &|d| d.discount),
                draws("concentration_draws", &|d| d.concentration),
            ]),
            PriorKind::MutualAngular => all.extend([
                draws("kappa_draws", &|d| d.kappa),
                match self.settings.magnitude {
                    MagnitudeKind::Gamma => draws("magnitude_rate_draws", &|d| d.rate / scale),
                    MagnitudeKind::Chi => draws("feature_variance_draws", &|d| d.spread * scale * scale),
                },
            ]),
        }
        all
    }
}
