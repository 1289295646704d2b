//! The figures of a run that a grid puts side by side. Nothing here knows a model: summaries tell what they have, and further figures
//! belong to what a posterior can be asked.

use anyhow::{Context, Result};
use clap::ArgMatches;
use serde_json::{Map, Value, json};
use std::path::Path;
use variegate::answer::{ColumnKind, Figure, HeldOutEffort, Posterior, Summary, WhichTree};
use variegate::data::Dataset;
use variegate::score::{clustering_accuracy, k_means, normalized_mutual_information, tree_scores};
use variegate_io::run_dir::RunDir;

use crate::data_file::DataFile;
use crate::files::{self, Rows};
use crate::scores::{Scorable, Scores, leave_new_labels};
use crate::training;

/// Draws whose trees are looked at, at most.
const MOST_DRAWS: usize = 1000;
/// Starts of a clustering of coordinates.
const STARTS: usize = 20;

/// What runs are asked beside their summaries.
pub struct Asked<'a> {
    /// Classes of the rows of the fit, where they are known.
    pub classes: Option<&'a [Option<u32>]>,
    /// Held-out rows.
    pub test: Option<&'a DataFile>,
    /// How these are read.
    pub matches: &'a ArgMatches,
}

/// What a run has found, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Found {
    figures: Vec<(String, f64)>,
    /// Figures that only files hold.
    aside: Vec<String>,
    /// Whether its diagnostics speak for it.
    pub converged: bool,
    /// What concerns the meaning of what was found.
    pub warnings: Vec<String>,
}

impl Found {
    /// Reads a run that is complete; `data` are the rows that it was fitted to.
    pub fn of(path: &Path, data: &Dataset<'_>, asked: &Asked<'_>) -> Result<Self> {
        let run = RunDir::read(path)?;
        let posterior = training::posterior(&run)?;
        let summary = posterior.summary();
        let mut found = Self { converged: summary.converged, warnings: summary.warnings.clone(), ..Self::default() };
        found.add_summary(&summary);
        found.add_tree(posterior.as_ref(), data, asked.classes)?;
        if let Some(classes) = asked.classes.filter(|_| posterior.answers().clusters.is_none()) {
            found.add_classes(posterior.as_ref(), data, classes)?;
        }
        if let Some(test) = asked.test {
            let refused = || format!("`{}` cannot be scored on `{}`", path.display(), test.name());
            found.add_test(&run, posterior.as_ref(), test, asked.matches).with_context(refused)?;
        }
        Ok(found)
    }

    /// Adds a figure; the first of a name counts.
    fn add(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        if self.value(&name).is_none() {
            self.figures.push((name, value));
        }
    }

    /// Numbers of the summary: named figures, expected values of those that are distributions over numbers, and the worst of what judges
    /// chains.
    fn add_summary(&mut self, summary: &Summary) {
        for fact in &summary.facts {
            let name = fact.name.as_str();
            match &fact.value {
                Figure::Count(n) => self.add(name, *n as f64),
                Figure::Number(x) => self.add(name, *x),
                Figure::Estimate { mean, sd } => {
                    self.add(name, *mean);
                    self.add(format!("{name}, sd"), *sd);
                }
                Figure::Numbers(all) => all.iter().for_each(|(part, x)| self.add(format!("{name}, {part}"), *x)),
                Figure::Shares(all) => {
                    // shares of numbers have a mean, those of names have none
                    let mean = all.iter().map(|(n, share)| n.parse::<f64>().ok().map(|n| n * share)).sum::<Option<f64>>();
                    mean.into_iter().for_each(|mean| self.add(name, mean));
                }
                _ => {}
            }
        }
        for table in &summary.tables {
            for (j, column) in table.columns.iter().enumerate().filter(|(_, c)| c.kind == ColumnKind::Diagnostic) {
                let values = table.rows.iter().map(|(_, v)| v[j]).filter(|v| v.is_finite());
                // R-hat is bad where it is large, effective sizes where they are small
                let (word, worst) = match column.heading.as_str() {
                    "R-hat" => ("largest", values.reduce(f64::max)),
                    _ => ("smallest", values.reduce(f64::min)),
                };
                worst.into_iter().for_each(|worst| self.add(format!("{}, {word}", column.heading), worst));
            }
        }
    }

    /// Scores of a tree of rows, where there is one: means over draws, and aside those of the tree that stands for them.
    fn add_tree(&mut self, posterior: &dyn Posterior, data: &Dataset<'_>, classes: Option<&[Option<u32>]>) -> Result<()> {
        let Some(clusters) = posterior.answers().clusters else { return Ok(()) };
        let drawn = clusters.sampled(MOST_DRAWS);
        let levels = clusters.levels();
        let one_path = drawn.iter().filter(|labels| labels.chunks_exact(levels).all(|path| *path == labels[..levels])).count();
        self.add("one_path_fraction", one_path as f64 / drawn.len() as f64);
        let scores = tree_scores(clusters, WhichTree::Point, Some(data), classes)?;
        for score in &scores {
            self.add(score.name.clone(), score.mean);
        }
        for score in &scores {
            let name = format!("tree_{}", score.name);
            self.add(name.clone(), score.tree);
            self.aside.push(name);
            // told by ratios, and by summaries
            if score.name.starts_with("nodes_") || ["aid", "aid_zero"].contains(&score.name.as_str()) {
                self.aside.push(score.name.clone());
            }
        }
        Ok(())
    }

    /// How well coordinates of rows keep classes apart, as `score --labels` tells it: by clusters of them, as many as there are classes.
    fn add_classes(&mut self, posterior: &dyn Posterior, data: &Dataset<'_>, classes: &[Option<u32>]) -> Result<()> {
        let known: Vec<usize> = (0..classes.len()).filter(|&i| classes[i].is_some()).collect();
        let codes: Vec<u32> = classes.iter().copied().flatten().collect();
        let count = codes.iter().collect::<std::collections::HashSet<_>>().len();
        let found = posterior.transform(&data.subset(&known)).context("no use can be made of --labels: leave it out")?;
        let clusters = k_means(&found.values, known.len(), found.names.len(), count, STARTS, 0).assigned;
        self.add("clustering accuracy", clustering_accuracy(&clusters, &codes));
        self.add("mutual information", normalized_mutual_information(&clusters, &codes));
        Ok(())
    }

    /// Scores on held-out rows: of predictions, or of the density of rows.
    fn add_test(&mut self, run: &RunDir, posterior: &dyn Posterior, test: &DataFile, matches: &ArgMatches) -> Result<()> {
        let reader = files::recorded(run);
        if posterior.predicts() {
            let mut data = files::read_prediction(test, posterior, reader, matches)?;
            leave_new_labels(&mut data, posterior.labels());
            let scorable = Scorable::of(&data, posterior.classes());
            data = scorable.subset(&data, posterior.classes()).unwrap_or(data);
            let scores = if data.rows() > 0 { Scores::of(posterior, &data)? } else { None };
            let scores = scores.context("it has no row with a target that is known: give rows with their target")?;
            scores.figures().into_iter().for_each(|(name, value)| self.add(format!("test {name}"), value));
            return Ok(());
        }
        let data = files::read_rows(test, posterior, reader, &Rows { options: ["sources", "test-label"], format: Some(matches) }, matches)?;
        // a closed form costs little: all draws
        let all = posterior.answers().clusters.is_some();
        let effort = HeldOutEffort { draws: if all { usize::MAX } else { HeldOutEffort::default().draws }, ..HeldOutEffort::default() };
        let held_out = posterior.held_out(&data, &effort)?;
        self.add("test -ln p a row", -held_out.mean());
        Ok(())
    }

    /// A figure, if there is one of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|f| f.0 == name).map(|f| f.1)
    }

    /// Whether only files hold a figure.
    pub fn is_aside(&self, name: &str) -> bool {
        self.aside.iter().any(|n| n == name)
    }

    /// All of them for machines.
    pub fn as_json(&self) -> Value {
        self.figures.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into()
    }
}

/// Names of figures that some of these have: where one has more than those before, its own come after their neighbours.
pub fn names<'f>(all: impl Iterator<Item = &'f Found>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for found in all {
        let mut place = 0;
        for (name, _) in &found.figures {
            match names.iter().position(|n| n == name) {
                Some(at) => place = at + 1,
                None => {
                    names.insert(place, name.clone());
                    place += 1;
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use variegate::answer::{Fact, SummaryTable};

    fn found(names: &[&str]) -> Found {
        Found { figures: names.iter().map(|n| (n.to_string(), 1.0)).collect(), ..Found::default() }
    }

    #[test]
    fn names_stand_where_their_neighbours_do() {
        assert_eq!(names([found(&["a", "c"]), found(&["a", "b", "c", "d"])].iter()), ["a", "b", "c", "d"]);
        assert_eq!(names([found(&["level 1", "x"]), found(&["level 1", "level 2", "x"]), found(&[])].iter()), ["level 1", "level 2", "x"]);
    }

    #[test]
    fn summaries_give_their_numbers() {
        let shares = |all: &[(&str, f64)]| Figure::Shares(all.iter().map(|(n, s)| (n.to_string(), *s)).collect());
        let mut table =
            SummaryTable::new("t", [("mean", ColumnKind::Number), ("R-hat", ColumnKind::Diagnostic), ("ESS", ColumnKind::Diagnostic)]);
        table.rows = vec![("a".into(), vec![9.0, 1.1, 50.0]), ("b".into(), vec![9.0, f64::NAN, 20.0])];
        let summary = Summary {
            facts: vec![
                Fact::text("model", "words"),
                Fact::count("draws", 3),
                Fact::new("components", shares(&[("4", 0.25), ("8", 0.75)])),
                Fact::new("classes", shares(&[("cat", 0.25), ("dog", 0.75)])),
                Fact::new("weight", Figure::Estimate { mean: 2.0, sd: 0.5 }),
            ],
            tables: vec![table],
            ..Summary::default()
        };
        let mut found = Found::default();
        found.add_summary(&summary);
        let expected =
            [("draws", 3.0), ("components", 7.0), ("weight", 2.0), ("weight, sd", 0.5), ("R-hat, largest", 1.1), ("ESS, smallest", 20.0)];
        assert_eq!(found.figures, expected.map(|(n, v)| (n.to_string(), v)));
    }
}
