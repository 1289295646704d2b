//! How well the coordinates of rows keep their classes apart: as clusters, and among their nearest neighbours.

use anyhow::{Result, bail};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::path::PathBuf;
use variegate::data::{Dataset, Target};
use variegate::score::{ClassPrecision, clustering_accuracy, k_means, normalized_mutual_information, precision_by_class};

use crate::data_file::DataFile;
use crate::files::Rows;
use crate::opened::Opened;
use crate::tables::{self, Table};

/// Starts of the clustering.
const STARTS: usize = 20;
/// Neighbours that are looked at.
const NEAREST: usize = 100;

/// What was found.
pub(super) struct Scores {
    classes: Vec<String>,
    accuracy: f64,
    information: f64,
    nearest: Option<Vec<ClassPrecision>>,
}

/// The scores, where classes were asked for.
pub(super) fn scores(opened: &Opened, data: &Dataset<'_>, matches: &ArgMatches) -> Result<Option<Scores>> {
    let Target::Classes(classes) = &data.target else { return Ok(None) };
    let found = opened.posterior.transform(data)?;
    let (n, width) = (data.rows(), found.names.len());
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(0);
    let clusters = k_means(&found.values, n, width, classes.names.len(), STARTS, seed).assigned;
    let nearest = match matches.get_one::<PathBuf>("among") {
        None => None,
        Some(path) => {
            let label = if matches.get_one::<String>("among-label").is_some() { "among-label" } else { "label" };
            let among = opened.read_as(&DataFile::of(path)?, &Rows { options: ["sources", label], format: Some(matches) }, matches)?;
            let Target::Classes(there) = &among.target else { bail!("the rows of `{}` have no classes", path.display()) };
            // classes are told by their names
            let code = |name: &String| classes.names.iter().position(|n| n == name).map_or(u32::MAX, |c| c as u32);
            let codes: Vec<u32> = there.names.iter().map(code).collect();
            let there: Vec<u32> = there.codes.iter().map(|&c| codes[c as usize]).collect();
            let placed = opened.posterior.transform(&among)?.values;
            Some(precision_by_class(&found.values, &classes.codes, &placed, &there, width, classes.names.len(), NEAREST))
        }
    };
    Ok(Some(Scores {
        classes: classes.names.clone(),
        accuracy: clustering_accuracy(&clusters, &classes.codes),
        information: normalized_mutual_information(&clusters, &classes.codes),
        nearest,
    }))
}

impl Scores {
    pub(super) fn text(&self) -> String {
        let said = format!(
            "Rows in {} by k-means on their coordinates: accuracy {:.4} (best match of clusters and classes), normalised mutual information {:.4}.",
            tables::count(self.classes.len(), "cluster", "clusters"),
            self.accuracy,
            self.information
        );
        let mut text = format!("{}\n", tables::wrap(&said, 80, ""));
        if let Some(nearest) = &self.nearest {
            let mut table = Table::new([&format!("among the {NEAREST} nearest"), "precision", "at most", "by chance", "rows"]);
            for (name, class) in self.classes.iter().zip(nearest) {
                let figures = [class.precision, class.ceiling, class.chance].map(tables::number);
                table.row(std::iter::once(name.clone()).chain(figures).chain([class.queries.to_string()]));
            }
            text += &format!("\n{}", table.render(tables::stdout_width()));
        }
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let class = |(name, c): (&String, &ClassPrecision)| json!({ "class": name, "precision": c.precision, "ceiling": c.ceiling, "chance": c.chance, "rows": c.queries });
        let nearest = self.nearest.as_ref().map(|all| self.classes.iter().zip(all).map(class).collect::<Vec<_>>());
        json!({ "clustering_accuracy": self.accuracy, "normalized_mutual_information": self.information, "nearest": nearest })
    }
}
