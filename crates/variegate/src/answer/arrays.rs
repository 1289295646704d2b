//! Arrays with names: of themselves, of their dimensions, and of the entries along these.

use crate::data::Design;

/// A dimension of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Dim {
    /// Name: `draw`, `feature`, `class`, `expert`…
    pub name: &'static str,
    /// Length.
    pub len: usize,
    /// Name of each entry; empty where entries are counted.
    pub labels: Vec<String>,
}

impl Dim {
    /// Entries that are counted.
    pub fn counted(name: &'static str, len: usize) -> Self {
        Self { name, len, labels: Vec::new() }
    }

    /// Entries that have names.
    pub fn named(name: &'static str, labels: impl IntoIterator<Item = String>) -> Self {
        let labels: Vec<String> = labels.into_iter().collect();
        Self { name, len: labels.len(), labels }
    }

    /// Columns of the data, by their names or as x0, x1, …
    pub fn columns(names: &[String], width: usize) -> Self {
        Self::named("feature", (0..width).map(|j| names.get(j).cloned().unwrap_or_else(|| format!("x{j}"))))
    }

    /// What a design chooses its columns from: those of the data, or the features of an input map.
    pub fn inputs(design: &Design, names: &[String]) -> Self {
        if design.map.is_some() { Self::counted("feature", design.available()) } else { Self::columns(names, design.raw_cols) }
    }
}

/// An array with a name, row-major. Draws of all chains lie one after the other along a dimension `draw`; the array `chain_lengths` says
/// how many are of each chain.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedArray {
    /// Name, as Python attributes and reports use it; draws end in `_draws`.
    pub name: &'static str,
    /// Its dimensions.
    pub dims: Vec<Dim>,
    /// Row-major entries.
    pub values: Vec<f64>,
}

impl NamedArray {
    /// An array; its length must be that of its dimensions.
    pub fn new(name: &'static str, dims: Vec<Dim>, values: Vec<f64>) -> Self {
        debug_assert_eq!(dims.iter().map(|d| d.len).product::<usize>(), values.len(), "{name}");
        Self { name, dims, values }
    }

    /// One number a draw.
    pub fn draws(name: &'static str, values: Vec<f64>) -> Self {
        Self::new(name, vec![Dim::counted("draw", values.len())], values)
    }

    /// A single number.
    pub fn scalar(name: &'static str, value: f64) -> Self {
        Self::new(name, vec![Dim::counted("value", 1)], vec![value])
    }

    /// How many draws are of each chain.
    pub fn chain_lengths(lengths: &[usize]) -> Self {
        Self::new("chain_lengths", vec![Dim::counted("chain", lengths.len())], lengths.iter().map(|&n| n as f64).collect())
    }

    /// Length along each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|d| d.len).collect()
    }
}
