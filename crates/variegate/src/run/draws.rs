//! What a sampler keeps: one row a draw, and one row a component of a draw.

use serde::{Deserialize, Serialize};

/// A table of numbers with named columns; a column may hold several numbers a row (a vector).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name and width of each column.
    pub columns: Vec<(String, usize)>,
    /// Row-major numbers.
    pub values: Vec<f64>,
}

impl Table {
    /// Numbers a row.
    pub fn width(&self) -> usize {
        self.columns.iter().map(|c| c.1).sum()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width()).unwrap_or(0)
    }

    /// First position and width of a column.
    pub fn find(&self, name: &str) -> Option<(usize, usize)> {
        let mut at = 0;
        for (n, w) in &self.columns {
            if n == name {
                return Some((at, *w));
            }
            at += w;
        }
        None
    }

    /// One number of every row: entry `index` of the named column.
    pub fn column(&self, name: &str, index: usize) -> Option<Vec<f64>> {
        let (at, width) = self.find(name)?;
        let total = self.width();
        (index < width).then(|| self.values.iter().skip(at + index).step_by(total).copied().collect())
    }

    /// Names of the single numbers of a row: `beta[0]`, `beta[1]`, … for a vector.
    pub fn flat_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(|(n, w)| (0..*w).map(move |i| if *w == 1 { n.clone() } else { format!("{n}[{i}]") })).collect()
    }

    /// Adds the rows of another table of the same columns.
    pub fn append(&mut self, other: &Table) {
        if self.columns.is_empty() {
            self.columns.clone_from(&other.columns);
        }
        debug_assert!(other.columns.is_empty() || self.columns == other.columns);
        self.values.extend_from_slice(&other.values);
    }

    fn put(&mut self, first: bool, name: &str, values: &[f64]) {
        if first {
            self.columns.push((name.to_string(), values.len()));
        }
        self.values.extend_from_slice(values);
    }
}

/// Draws of one chain, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Draws {
    /// One row a draw. A vector must keep its length from draw to draw.
    pub scalars: Table,
    /// One row a component of a draw; columns `draw` and `component` come first. For states whose size changes.
    pub components: Table,
    /// Number of the first draw in these tables.
    pub first: u64,
    /// Number of draws in these tables.
    pub count: u64,
}

impl Draws {
    /// Empty tables whose first draw will have this number.
    pub fn starting_at(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Keeps a number of the present draw.
    pub fn scalar(&mut self, name: &str, value: f64) {
        self.vector(name, &[value]);
    }

    /// Keeps a vector of fixed length of the present draw.
    pub fn vector(&mut self, name: &str, values: &[f64]) {
        let first = self.count == 0;
        self.scalars.put(first, name, values);
    }

    /// Keeps one component of the present draw: named vectors whose lengths are the same for all components.
    pub fn component(&mut self, component: usize, fields: &[(&str, &[f64])]) {
        let first = self.components.columns.is_empty();
        let draw = (self.first + self.count) as f64;
        self.components.put(first, "draw", &[draw]);
        self.components.put(first, "component", &[component as f64]);
        for (name, values) in fields {
            self.components.put(first, name, values);
        }
    }

    /// Ends the present draw.
    pub fn finish(&mut self) {
        self.count += 1;
        debug_assert_eq!(self.scalars.rows() as u64, if self.scalars.columns.is_empty() { 0 } else { self.count });
    }

    /// Adds later draws of the same chain.
    pub fn append(&mut self, later: &Draws) {
        if self.count == 0 {
            self.first = later.first;
        }
        self.scalars.append(&later.scalars);
        self.components.append(&later.components);
        self.count += later.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_once_and_read_back() {
        let mut d = Draws::default();
        for i in 0..3 {
            d.scalar("log_joint", i as f64);
            d.vector("beta", &[10.0 + i as f64, 20.0]);
            for k in 0..=i {
                d.component(k, &[("mean", &[k as f64, 0.5])]);
            }
            d.finish();
        }
        assert_eq!(d.scalars.flat_names(), ["log_joint", "beta[0]", "beta[1]"]);
        assert_eq!(d.scalars.column("beta", 0).unwrap(), [10.0, 11.0, 12.0]);
        assert_eq!(d.components.rows(), 6);
        assert_eq!(d.components.column("draw", 0).unwrap(), [0.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        let mut all = Draws::default();
        all.append(&d);
        all.append(&d);
        assert_eq!(all.count, 6);
        assert_eq!(all.scalars.rows(), 6);
    }
}
