//! What a fitted cluster tree says of itself: how many nodes and components, the tree, and how sure that is.

use super::components::Family as Components;
use super::draws::Draw;
use super::posterior::TreePosterior;
use crate::answer::{ClusterTree, ColumnKind, Dim, DrawTable, Fact, Figure, NamedArray, Summary, SummaryTable, WhichTree};

/// Co-occurrence of so many rows, at most, is among the arrays.
const MOST_ROWS: usize = 500;
/// A share of draws with a single path above this is a warning.
const ONE_PATH: f64 = 0.5;
/// Names of rows that describe a node.
const NAMED: usize = 6;

/// A share of accepted swaps of two temperatures below this is a warning, unless few were tried.
const FEW_SWAPS: f64 = 0.05;
const ENOUGH_TRIES: u64 = 50;

/// Names of so many pairs of neighbouring temperatures.
fn pairs(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|r| format!("{r}-{}", r + 1))
}

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

/// The tree as a table.
fn table(tree: &ClusterTree) -> SummaryTable {
    use ColumnKind::{Count, Share};
    let columns = [("level", Count), ("below", Count), ("rows", Count), ("cohesion", Share), ("separation", Share), ("support", Share)];
    let mut table = SummaryTable::new("nodes", columns);
    for node in tree.nodes().filter(|n| n.level > 0) {
        let [cohesion, separation, support] = node.credibility.unwrap_or([f64::NAN; 3]);
        let mut name = format!("node {}", node.id);
        if node.rows.len() <= NAMED {
            let rows: Vec<&str> = node.rows.iter().map(|&i| tree.names()[i].as_str()).collect();
            name += &format!(" (rows {})", rows.join(", "));
        }
        let parent = node.parent.unwrap_or(0) as f64;
        table.rows.push((name, vec![node.level as f64, parent, node.rows.len() as f64, cohesion, separation, support]));
    }
    table
}

impl TreePosterior {
    fn each(&self, f: impl Fn(&Draw) -> f64) -> Vec<f64> {
        self.draws.iter().map(f).collect()
    }

    /// Nodes of a level in each draw.
    fn nodes_at(&self, level: usize) -> Vec<f64> {
        self.each(|d| d.level.iter().filter(|l| **l as usize == level).count() as f64)
    }

    /// Components that have rows, in each draw.
    fn occupied(&self) -> Vec<f64> {
        self.each(|d| d.atom.iter().max().map_or(0.0, |k| f64::from(*k) + 1.0))
    }

    /// Share of the draws whose tree is a single path.
    fn one_path(&self) -> f64 {
        let leaves = self.nodes_at(self.depth());
        leaves.iter().filter(|n| **n < 1.5).count() as f64 / leaves.len() as f64
    }

    /// What all components share, by its name; nothing where they share nothing.
    fn shared(&self) -> Option<(&'static str, &'static str, Vec<f64>)> {
        let values = self.each(|d| d.figures.shared);
        let (name, array) = match self.bound.kernel.family() {
            Components::GaussianTied => ("variance within components", "variance_draws"),
            _ => ("strength of the prior", "strength_draws"),
        };
        values.iter().all(|v| v.is_finite()).then_some((name, array, values))
    }

    pub(super) fn summarised(&self) -> Summary {
        let margin = self.bound.separated.as_ref().filter(|s| s.margin.separation > 0.0);
        let levels = self.depth();
        let counts = self.occupied();
        let mut facts = Vec::new();
        for level in 1..=levels {
            facts.push(Fact::new(format!("nodes of level {level}"), Figure::Shares(shares(&self.nodes_at(level)))));
        }
        facts[0].remark = "probability of each number".into();
        facts.push(Fact::new("components", Figure::Shares(shares(&counts))));
        let one_path = self.one_path();
        facts.push(Fact::number("one_path_fraction", one_path).remark("share of the draws whose tree is a single path"));
        let mut notes = Vec::new();
        let mut warnings = self.bound.said.clone();
        match self.together() {
            None => warnings.push(format!(
                "there are too many rows ({}) to compare all pairs of them: the tree is the best draw, without measures of how sure its nodes are",
                self.n_rows()
            )),
            Some(together) => {
                if together.draws < self.draws.len() {
                    notes.push(format!(
                        "pairs of rows were counted in {} of {} draws, evenly spaced, because there are many rows",
                        together.draws,
                        self.draws.len()
                    ));
                }
                if let Some((largest, mean)) = together.apart {
                    let short = |v: f64| (1e4 * v).round() / 1e4;
                    let figures = vec![("largest".into(), short(largest)), ("mean".into(), short(mean))];
                    let remark = "difference between two chains of the probability that two rows share a node";
                    facts.push(Fact::new("chains apart", Figure::Numbers(figures)).remark(remark));
                }
            }
        }
        let tree = self.shown_tree(WhichTree::Point);
        if let Some(loss) = tree.loss {
            facts.push(Fact::number("expected loss of the tree", loss).remark("variation of information, summed over levels"));
        }
        facts.push(Fact::number("best log likelihood", self.draws[self.best].figures.complete).remark("complete data, of the best draw"));
        if let Some(principal) = &self.bound.principal {
            let share = 100.0 * principal.variances.iter().sum::<f64>() / principal.total;
            let figures = principal.names().into_iter().zip(principal.variances.iter().copied()).collect();
            let remark = format!("{share:.0} % of the variance of all columns, {:.4}", principal.total);
            facts.push(Fact::new("variance of principal components", Figure::Numbers(figures)).remark(remark));
        }
        if !self.swaps.is_empty() {
            let figures = self.swaps.iter().zip(pairs(self.swaps.len())).map(|(s, pair)| (pair, (1e4 * s.rate()).round() / 1e4)).collect();
            let remark = "of neighbouring temperatures, after the warm-up";
            facts.push(Fact::new("swap acceptance", Figure::Numbers(figures)).remark(remark));
            for (r, swaps) in self.swaps.iter().enumerate().filter(|(_, s)| s.tried >= ENOUGH_TRIES && s.rate() < FEW_SWAPS) {
                warnings.push(format!(
                    "temperatures {} and {} hardly ever swapped their states ({} of {} times), so that those beyond are of little use: take more \
                     `temperatures`",
                    r + 1,
                    r + 2,
                    swaps.accepted,
                    swaps.tried
                ));
            }
        }
        facts.extend(DrawTable::facts(&self.lengths));

        let mut numbers = DrawTable::new("parameters", &self.lengths);
        numbers.row("log likelihood", &self.each(|d| d.figures.complete));
        if margin.is_some() {
            numbers.row("log likelihood, charged", &self.each(|d| d.figures.charged));
            numbers.row("violations of the margin", &self.each(|d| d.figures.violation));
        }
        numbers.row("components", &counts);
        (1..=levels).for_each(|level| numbers.row(format!("nodes of level {level}"), &self.nodes_at(level)));
        let varies = |values: &[f64]| values.iter().any(|v| *v != values[0]);
        for level in 0..levels {
            for (name, values) in
                [("alpha", self.each(|d| d.concentrations.alpha[level])), ("gamma", self.each(|d| d.concentrations.gamma[level]))]
            {
                if varies(&values) {
                    numbers.row(format!("{name} of level {}", level + 1), &values);
                }
            }
        }
        let gamma0 = self.each(|d| d.concentrations.gamma0);
        if varies(&gamma0) {
            numbers.row("gamma0", &gamma0);
        }
        if let Some((name, _, values)) = self.shared()
            && varies(&values)
        {
            numbers.row(name, &values);
        }
        let (parameters, verdict) = numbers.finish();
        if margin.is_some_and(|s| !s.calibrated) && one_path > ONE_PATH {
            warnings.push(format!(
                "{:.0} % of the draws have a single path: under the target `stated` a strong margin charges every tree that has siblings; \
                 lower `separation`, or take the target `calibrated`",
                100.0 * one_path
            ));
        }
        notes.extend(verdict.sentences);
        Summary { facts, tables: vec![table(tree), parameters], converged: verdict.converged, warnings, notes }
    }

    /// Expected row of each component in columns, one a row: mean over the draws that have it; of codes, which have no mean, that of the best draw.
    fn component_means(&self) -> Vec<f64> {
        let (components, width) = (self.components(), self.bound.coordinates());
        let (mut means, mut found) = (vec![0.0; components * width], vec![0.0; components]);
        let codes = self.bound.kernel.family() == Components::Categorical;
        for (i, (draw, same)) in self.draws.iter().zip(&self.same).enumerate() {
            if codes && i != self.best {
                continue;
            }
            let mut kernel = self.bound.kernel.clone();
            if draw.figures.shared > 0.0 {
                kernel.set_shared(draw.figures.shared);
            }
            let parameters = kernel.parameters();
            for (k, as_one) in same.iter().enumerate() {
                let Some(c) = *as_one else { continue };
                found[c] += 1.0;
                let row = kernel.mean(&draw.theta[k * parameters..][..parameters]);
                means[c * width..][..width].iter_mut().zip(row).for_each(|(m, v)| *m += v);
            }
        }
        for (row, n) in means.chunks_exact_mut(width.max(1)).zip(&found) {
            row.iter_mut().for_each(|v| *v /= f64::max(*n, 1.0));
        }
        match &self.bound.principal {
            Some(principal) => means.chunks_exact(width).flat_map(|row| principal.back(row)).collect(),
            None => means,
        }
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let (rows, levels, draws) = (self.n_rows(), self.depth(), self.draws.len());
        let level = || Dim::named("level", (1..=levels).map(|l| l.to_string()));
        let by_level = |name, f: &dyn Fn(&Draw, usize) -> f64| {
            let values = self.draws.iter().flat_map(|d| (0..levels).map(move |l| f(d, l))).collect();
            NamedArray::new(name, vec![Dim::counted("draw", draws), level()], values)
        };
        let number = |name, f: &dyn Fn(&Draw) -> f64| NamedArray::draws(name, self.each(f));
        let tree = self.shown_tree(WhichTree::Point);
        let sizes: Vec<f64> = tree.nodes().filter(|n| n.level == levels).map(|n| n.rows.len() as f64).collect();
        let labels = tree.labels().into_iter().map(f64::from).collect();
        let component = Dim::named("component", (1..=self.components()).map(|k| format!("component{k}")));
        let mut all = vec![
            NamedArray::new("labels", vec![Dim::counted("row", rows), level()], labels),
            NamedArray::new("leaf_sizes", vec![Dim::counted("leaf", sizes.len())], sizes),
            NamedArray::new("components", vec![component, Dim::columns(&self.bound.columns, self.bound.width)], self.component_means()),
            number("log_likelihood_draws", &|d| d.figures.complete),
            number("log_joint_draws", &|d| d.figures.charged),
            number("violation_draws", &|d| d.figures.violation),
            NamedArray::draws("n_components_draws", self.occupied()),
            by_level("n_nodes_draws", &|d, l| d.level.iter().filter(|v| **v as usize == l + 1).count() as f64),
            by_level("alpha_draws", &|d, l| d.concentrations.alpha[l]),
            by_level("gamma_draws", &|d, l| d.concentrations.gamma[l]),
            number("gamma0_draws", &|d| d.concentrations.gamma0),
            NamedArray::scalar("one_path_fraction", self.one_path()),
            NamedArray::chain_lengths(&self.lengths),
        ];
        if let Some((_, name, values)) = self.shared() {
            all.push(NamedArray::draws(name, values));
        }
        if let Some(fixed) = &self.fixed {
            let components = self.component_names().into_iter().chain(["new".into()]);
            let dims = vec![Dim::counted("node", tree.nodes().count()), Dim::named("component", components)];
            all.push(NamedArray::new("node_weights", dims, fixed.weights()));
        }
        if !self.swaps.is_empty() {
            let rates = self.swaps.iter().map(|s| s.rate()).collect();
            all.push(NamedArray::new("swap_acceptance", vec![Dim::named("pair", pairs(self.swaps.len()))], rates));
        }
        if let Some(principal) = &self.bound.principal {
            let component = || Dim::named("principal", principal.names());
            let columns = Dim::columns(&self.bound.columns, self.bound.width);
            all.push(NamedArray::new("pca_variances", vec![component()], principal.variances.clone()));
            all.push(NamedArray::new("pca_loadings", vec![component(), columns], principal.loadings().to_vec()));
        }
        if let Some(together) = self.together().filter(|_| rows <= MOST_ROWS) {
            let pairs = (0..levels).flat_map(|l| (0..rows).flat_map(move |i| (0..rows).map(move |j| (l, i, j))));
            let values = pairs.map(|(l, i, j)| together.counts.probability(l, i, j)).collect();
            all.push(NamedArray::new("co_occurrence", vec![level(), Dim::counted("row", rows), Dim::counted("other", rows)], values));
        }
        all
    }
}
