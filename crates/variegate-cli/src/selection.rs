//! Tables of structures that were compared: one structure a row, with the figures that decide.

use serde_json::{Map, Value, json};
use variegate::answer::Selection;

use crate::tables::{self, Table};

/// Structures that `fit` and `summary` show; `compare` shows all.
const SHORT: usize = 8;
/// Figures that these show beside the one that decides.
const SHORT_FIGURES: usize = 4;

/// One structure.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name, with that of its run where there are several.
    pub name: String,
    /// Whether its run chose it.
    pub chosen: bool,
    /// Its figures; some may not be known.
    pub figures: Vec<Option<f64>>,
}

/// Structures side by side. The first figures are the most telling: a narrow terminal leaves out the last ones.
#[derive(Debug, Clone)]
pub struct Structures {
    /// What the rows are.
    pub what: &'static str,
    /// Headings of the figures.
    pub headings: Vec<String>,
    /// The structures.
    pub rows: Vec<Row>,
}

impl Structures {
    /// The structures of one run, the figure that decided first.
    pub fn of(selection: &Selection) -> Self {
        let order = order(selection);
        let row = |(at, (name, figures)): (usize, &(String, Vec<Option<f64>>))| Row {
            name: name.clone(),
            chosen: at == selection.chosen,
            figures: order.iter().map(|&j| figures[j]).collect(),
        };
        Self {
            what: "structure",
            headings: order.iter().map(|&j| selection.headings[j].clone()).collect(),
            rows: selection.rows.iter().enumerate().map(row).collect(),
        }
    }

    /// The text, at most so wide, and the headings that had to be left out. Figures that no structure has are not shown.
    pub fn render(&self, width: Option<usize>) -> (String, Vec<String>) {
        let known: Vec<usize> = (0..self.headings.len()).filter(|&j| self.rows.iter().any(|r| r.figures[j].is_some())).collect();
        let columns: Vec<Vec<String>> = known.iter().map(|&j| self.column(j)).collect();
        let mark = |r: &Row| format!("{} {}", if r.chosen { "*" } else { " " }, r.name);
        let names = self.rows.iter().map(|r| mark(r).chars().count()).max().unwrap_or(0).max(self.what.len());
        let mut room = width.unwrap_or(usize::MAX).saturating_sub(names);
        let fits = columns.iter().take_while(|column| {
            let wide = 2 + column.iter().map(|c| c.chars().count()).max().unwrap_or(0);
            let there = wide <= room;
            room = room.saturating_sub(wide);
            there
        });
        // the figure that decides is shown whatever it takes
        let shown = fits.count().max(1).min(columns.len());
        let mut table = Table::new(std::iter::once(self.what.to_string()).chain(columns[..shown].iter().map(|c| c[0].clone())));
        for (i, row) in self.rows.iter().enumerate() {
            table.row(std::iter::once(mark(row)).chain(columns[..shown].iter().map(|c| c[i + 1].clone())));
        }
        (table.render(width), known[shown..].iter().map(|&j| self.headings[j].clone()).collect())
    }

    /// Heading and cells of a column, all with as many decimals as tell its values apart.
    fn column(&self, j: usize) -> Vec<String> {
        let values = || self.rows.iter().filter_map(|r| r.figures[j]);
        let decimals = match values().filter(|v| v.is_finite()).fold(0.0f64, |a, v| a.max(v.abs())) {
            size if size >= 1e6 => 0,
            size if size >= 10.0 => 2,
            _ => 4,
        };
        let cell = |r: &Row| r.figures[j].map_or_else(|| "-".to_string(), |v| format!("{:.decimals$}", v + 0.0));
        std::iter::once(self.headings[j].clone()).chain(self.rows.iter().map(cell)).collect()
    }
}

/// Places of the figures, that of the criterion first.
fn order(selection: &Selection) -> Vec<usize> {
    let first = selection.headings.iter().position(|h| *h == selection.criterion);
    let others = (0..selection.headings.len()).filter(|j| Some(*j) != first);
    first.into_iter().chain(others).collect()
}

/// The best structures in a few lines, where there is more than one.
pub fn short(selection: Option<&Selection>, run: &str) -> String {
    let Some(selection) = selection.filter(|s| s.rows.len() > 1) else { return String::new() };
    let mut all = Structures::of(selection);
    let value = |r: &Row| r.figures.first().copied().flatten().unwrap_or(f64::NEG_INFINITY);
    all.rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
    all.rows.truncate(SHORT);
    all.headings.truncate(1 + SHORT_FIGURES);
    all.rows.iter_mut().for_each(|r| r.figures.truncate(1 + SHORT_FIGURES));
    let (mut text, _) = all.render(Some(tables::stdout_width().unwrap_or(80)));
    if selection.rows.len() > SHORT {
        text += &format!("… and {} more: variegate compare {run}\n", selection.rows.len() - SHORT);
    }
    text + "\n"
}

/// The same for machines: figures under their headings, null where they are not known.
pub fn as_json(selection: &Selection) -> Value {
    let row = |(at, (name, figures)): (usize, &(String, Vec<Option<f64>>))| {
        let mut row = Map::from_iter([("structure".to_string(), json!(name)), ("chosen".to_string(), json!(at == selection.chosen))]);
        row.extend(selection.headings.iter().cloned().zip(figures.iter().map(|v| json!(v))));
        Value::Object(row)
    };
    json!({
        "criterion": selection.criterion,
        "chosen": selection.rows.get(selection.chosen).map(|r| &r.0),
        "reason": selection.reason,
        "structures": selection.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Selection {
        let figures = |x: f64| vec![Some(x), Some(x + 0.004), None, Some(1e7 * x), None];
        Selection {
            headings: ["elbo", "elbo-sym", "elbo-tight", "bic", "cv"].map(String::from).to_vec(),
            rows: (0..12).map(|i| (format!("[{i},1]"), figures(-100.0 + f64::from(i)))).collect(),
            chosen: 11,
            criterion: "elbo-sym".into(),
            reason: "because".into(),
        }
    }

    #[test]
    fn what_decides_comes_first_and_fits() {
        let all = Structures::of(&sample());
        let (text, left_out) = all.render(None);
        assert!(left_out.is_empty());
        assert!(text.starts_with("structure  elbo-sym     elbo          bic\n"), "{text}");
        assert!(text.contains("* [11,1]     -89.00   -89.00   -890000000\n"), "{text}");
        assert!(!text.contains("elbo-tight"), "what nobody knows is not shown: {text}");
        for width in [20, 30, 80] {
            let (text, left_out) = all.render(Some(width));
            assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
            assert_eq!(left_out.len(), [2, 1, 0][[20, 30, 80].iter().position(|w| *w == width).unwrap()]);
        }
    }

    #[test]
    fn the_best_few_are_enough_after_a_fit() {
        let text = short(Some(&sample()), "runs/a");
        assert_eq!(text.lines().nth(1).map(|l| l.starts_with("* [11,1]")), Some(true), "{text}");
        assert!(text.contains("… and 4 more: variegate compare runs/a"), "{text}");
        let one = Selection { rows: sample().rows[..1].to_vec(), chosen: 0, ..sample() };
        assert_eq!(short(Some(&one), "runs/a"), "");
        assert_eq!(short(None, "runs/a"), "");
    }

    #[test]
    fn machines_get_every_figure() {
        let value = as_json(&sample());
        assert_eq!(value["chosen"], "[11,1]");
        assert_eq!(value["structures"][0]["cv"], Value::Null);
        assert_eq!(value["structures"][11]["chosen"], true);
    }
}
