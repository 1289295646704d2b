//! A truth that a simulation told, read back so that further rows can be drawn from it.

use serde_json::{Map, Value};

use crate::run::{Purpose, Stream};
use crate::{Error, Result};

/// Named values that data were drawn from, as [`Simulation::truth`](super::Simulation) told them. What is asked of it must be there, in the
/// shape that the settings ask for.
#[derive(Debug, Clone)]
pub struct Truth<'a> {
    values: &'a Map<String, Value>,
}

impl<'a> Truth<'a> {
    /// The truth of these values.
    pub fn new(values: &'a Map<String, Value>) -> Self {
        Self { values }
    }

    /// The stream of further rows: not that of the rows which came with the truth, so that one seed may serve both.
    pub fn stream(seed: u64) -> Stream {
        Stream::new(seed, 1, Purpose::Simulate)
    }

    /// All of it, to go with the further rows.
    pub fn told(&self) -> Map<String, Value> {
        self.values.clone()
    }

    /// A finite number.
    pub fn number(&self, key: &str) -> Result<f64> {
        self.get(key)?.as_f64().ok_or_else(|| unlike(key, "a number"))
    }

    /// So many numbers.
    pub fn numbers(&self, key: &str, count: usize) -> Result<Vec<f64>> {
        numbers(self.get(key)?, count).ok_or_else(|| unlike(key, &format!("a list of {count} numbers")))
    }

    /// So many rows of so many numbers, one after the other.
    pub fn table(&self, key: &str, rows: usize, columns: usize) -> Result<Vec<f64>> {
        let found = self.get(key)?.as_array().filter(|list| list.len() == rows);
        let all = found.and_then(|list| list.iter().map(|row| numbers(row, columns)).collect::<Option<Vec<_>>>());
        Ok(all.ok_or_else(|| unlike(key, &format!("{rows} lists of {columns} numbers")))?.concat())
    }

    /// So many tables, each of so many rows of so many numbers, one after the other.
    pub fn tables(&self, key: &str, count: usize, rows: usize, columns: usize) -> Result<Vec<f64>> {
        let fault = || unlike(key, &format!("{count} lists of {rows} lists of {columns} numbers"));
        let found = self.get(key)?.as_array().filter(|list| list.len() == count).ok_or_else(fault)?;
        let mut all = Vec::new();
        for table in found {
            let table = table.as_array().filter(|list| list.len() == rows).ok_or_else(fault)?;
            for row in table {
                all.extend(numbers(row, columns).ok_or_else(fault)?);
            }
        }
        Ok(all)
    }

    /// Number of entries of a list.
    pub fn count(&self, key: &str) -> Result<usize> {
        Ok(self.get(key)?.as_array().ok_or_else(|| unlike(key, "a list"))?.len())
    }

    /// A part with names of its own.
    pub fn part(&self, key: &str) -> Result<Truth<'a>> {
        self.get(key)?.as_object().map(Truth::new).ok_or_else(|| unlike(key, "an object"))
    }

    /// So many parts with names of their own.
    pub fn parts(&self, key: &str, count: usize) -> Result<Vec<Truth<'a>>> {
        let list = self.get(key)?.as_array().filter(|list| list.len() == count);
        let parts = list.and_then(|list| list.iter().map(|part| part.as_object().map(Truth::new)).collect());
        parts.ok_or_else(|| unlike(key, &format!("a list of {count} objects")))
    }

    /// Refuses a truth of something else than the settings say.
    pub fn same(&self, key: &str, expected: &str) -> Result<()> {
        match self.get(key)?.as_str() {
            Some(found) if found == expected => Ok(()),
            _ => Err(unlike(key, &format!("`{expected}`"))),
        }
    }

    fn get(&self, key: &str) -> Result<&'a Value> {
        let found = self.values.get(key);
        found.ok_or_else(|| Error::Unfit(format!("the truth has no `{key}`: give a truth that was simulated with this model and version")))
    }
}

fn numbers(value: &Value, count: usize) -> Option<Vec<f64>> {
    value.as_array().filter(|list| list.len() == count)?.iter().map(Value::as_f64).collect()
}

fn unlike(key: &str, expected: &str) -> Error {
    Error::Unfit(format!(
        "`{key}` of the truth is not {expected}, as the settings ask for: give the truth of a simulation with these settings"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Target};
    use crate::model::{FAMILIES, Model, family};
    use serde_json::json;

    fn model(name: &str, settings: Value) -> Box<dyn Model> {
        family(name).unwrap().configure(settings.as_object().unwrap()).unwrap()
    }

    fn outcomes(data: &Dataset<'_>) -> Vec<f64> {
        match &data.target {
            Target::Classes(c) => c.codes.iter().map(|&c| f64::from(c)).collect(),
            Target::Real { values, .. } => values.clone(),
            _ => Vec::new(),
        }
    }

    /// Further rows of every family are of the same columns and truth, and others than those of the same seed without a truth.
    #[test]
    fn every_family_draws_further_rows() {
        for family in FAMILIES {
            let model = family.configure(&Map::new()).unwrap();
            let first = model.simulate(60, &Map::new(), 1).unwrap();
            let truth = Truth::new(&first.truth);
            let more = model.simulate_more(40, &Map::new(), &truth, 1).unwrap();
            assert_eq!(more.data.rows(), 40, "{}", family.name());
            assert_eq!(more.data.columns, first.data.columns);
            let (a, b) = (first.data.x.to_dense(), more.data.x.to_dense());
            assert_ne!(a[..b.len()], b[..], "{}: the rows of the training data again", family.name());
            let again = model.simulate_more(40, &Map::new(), &truth, 1).unwrap();
            assert_eq!(again.data, more.data);
            let other = model.simulate_more(40, &Map::new(), &truth, 2).unwrap();
            assert_ne!(other.data, more.data);
            // what further rows tell is enough for further rows
            assert_eq!(model.simulate_more(40, &Map::new(), &Truth::new(&more.truth), 1).unwrap().data, more.data);
            let none = Map::new();
            let said = model.simulate_more(40, &Map::new(), &Truth::new(&none), 1).unwrap_err().to_string();
            assert!(said.contains("the truth has no `"), "{said}");
        }
    }

    /// A truth under which outcomes follow from the first column nearly always: the rows show it.
    #[test]
    fn rows_follow_the_truth() {
        let sure = |data: &Dataset<'_>, high: f64| {
            let right = |(row, y): (&[f64], f64)| (row[0] > 0.0) == (y == high);
            data.x.to_dense().chunks_exact(data.x.cols()).zip(outcomes(data)).filter(|(row, y)| right((row, *y))).count()
        };
        let columns = json!({ "columns": 2, "classes": 2 });
        let request = columns.as_object().unwrap();
        let logistic = json!({ "coefficients": [1e6, 0.0], "intercept": 0.0 });
        let two = json!({ "columns": 2 });
        let found = model("logistic", json!({}))
            .simulate_more(500, two.as_object().unwrap(), &Truth::new(logistic.as_object().unwrap()), 3)
            .unwrap();
        assert!(sure(&found.data, 1.0) >= 499, "{}", sure(&found.data, 1.0));
        let softmax = model("softmax", json!({}));
        let mut truth = softmax.simulate(50, request, 1).unwrap().truth;
        truth.insert("weights".into(), json!([[-1e6, 0.0], [1e6, 0.0]]));
        let found = softmax.simulate_more(500, request, &Truth::new(&truth), 3).unwrap();
        assert!(sure(&found.data, 1.0) >= 499);
        // a gate that sends rows by the sign of the first column, and experts with lines of their own
        let tree = model("softmax", json!({ "task": "regression", "experts": "2" }));
        let one = json!({ "columns": 1 });
        let one = one.as_object().unwrap();
        let mut truth = tree.simulate(50, one, 1).unwrap().truth;
        truth.insert("nodes".into(), json!([{ "weights": [[-1e6], [1e6]], "intercepts": [0.0, 0.0] }]));
        truth.insert("experts".into(), json!({ "slopes": [[-2.0], [3.0]], "intercepts": [1.0, 5.0], "noise": [1e-9, 1e-9] }));
        let found = tree.simulate_more(200, one, &Truth::new(&truth), 3).unwrap();
        for (x, y) in found.data.x.to_dense().iter().zip(outcomes(&found.data)) {
            let expected = if *x < 0.0 { 1.0 - 2.0 * x } else { 5.0 + 3.0 * x };
            assert!((y - expected).abs() < 1e-6, "{x} {y}");
        }
        let said = model("softmax", json!({ "experts": "3" })).simulate_more(9, one, &Truth::new(&truth), 3).unwrap_err().to_string();
        assert!(said.contains("`structure` of the truth is not"), "{said}");
    }

    /// Sources keep their chances to use factors: a source that never uses any is noise alone, and frequencies are those told.
    #[test]
    fn rows_of_factors_follow_the_truth() {
        let factors = model("factors", json!({ "likelihood": "gaussian" }));
        let request = json!({ "columns": 3, "n_sources": 2 });
        let request = request.as_object().unwrap();
        let truth = json!({ "factors": [[1e6, 0.0, 0.0]], "chances": [[0.25, 0.0]], "weights": [0.1], "uses": [[1, 0]] });
        let rows = 4000;
        let found = factors.simulate_more(rows, request, &Truth::new(truth.as_object().unwrap()), 5).unwrap();
        let sources = found.data.sources.as_ref().unwrap();
        let mut used = [0.0; 2];
        for (row, &source) in found.data.x.to_dense().chunks_exact(3).zip(&sources.codes) {
            // noise has deviation 1/2, and a weight below 1e-4 is as rare as one in 12000
            used[source as usize] += f64::from(u8::from(row[0].abs() > 100.0));
        }
        assert_eq!(used[1], 0.0);
        let n = rows as f64 / 2.0;
        let z = (used[0] - 0.25 * n) / (n * 0.25 * 0.75).sqrt();
        assert!(z.abs() < 4.0, "{used:?} {z}");
    }
}
