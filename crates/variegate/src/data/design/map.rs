//! Designs with an input map: raw row → inner design (kept, centred, scaled inputs, no bias) → features φ → the outer design, which
//! keeps, centres and scales the features as the inner one does raw columns, and puts the bias last.
//!
//! The features of all rows are never in memory at once: fitting measures them in one pass over panels, and a panel makes those of
//! its rows. What is recorded is the inner design, the text of the map and the seed; frequencies are drawn again on loading.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fourier::Fourier;
use super::moments::Moments;
use super::polynomial::Polynomial;
use super::{DROPPED, Design, Kind, Panel, PanelScratch};
use crate::data::{InputMap, Scaling, X};
use crate::{Error, Result};

/// Rows of a panel while features are measured.
const MEASURED: usize = 256;
/// Numbers in a table of frequencies: 400 MB.
const MOST_FREQUENCIES: usize = 50_000_000;

/// The inner design and the features of its columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Mapped {
    inputs: Design,
    map: InputMap,
    seed: u64,
    features: Features,
}

/// What is written of a [`Mapped`].
#[derive(Serialize, Deserialize)]
struct Record {
    inputs: Design,
    map: InputMap,
    seed: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Features {
    Polynomial(Polynomial),
    /// Shared, because designs are cloned and tables of frequencies can be large.
    Fourier(Arc<Fourier>),
}

/// Buffers of [`Mapped::for_rows`].
#[derive(Debug, Default)]
pub(super) struct MapScratch {
    panel: PanelScratch,
    input: Vec<f64>,
    values: Vec<f64>,
}

impl Mapped {
    fn new(inputs: Design, map: InputMap, seed: u64) -> Result<Self> {
        if inputs.map.is_some() || inputs.intercept {
            return Err(Error::Unfit("the inputs of an input map must not be mapped themselves, nor have a bias".into()));
        }
        let dim = inputs.dim();
        map.columns(dim)?;
        let features = match map {
            InputMap::None => return Err(Error::Unfit("a mapped design needs an input map other than none".into())),
            InputMap::Polynomial { degree } => Features::Polynomial(Polynomial::new(dim, degree)),
            InputMap::Fourier { count, width } => {
                if dim.saturating_mul(count) > MOST_FREQUENCIES {
                    return Err(Error::Unfit(format!(
                        "the input map {map} of {dim} inputs needs {count} x {dim} frequencies, which is too many: at most fourier:{} is \
                         possible, or select columns first",
                        MOST_FREQUENCIES / dim
                    )));
                }
                let width = width.unwrap_or((dim.max(1) as f64).sqrt());
                Features::Fourier(Arc::new(Fourier::new(&inputs, count, width, seed)))
            }
        };
        Ok(Self { inputs, map, seed, features })
    }

    /// The design whose columns are mapped, without a bias.
    pub fn inputs(&self) -> &Design {
        &self.inputs
    }

    /// The map.
    pub fn map(&self) -> InputMap {
        self.map
    }

    /// The seed of what the map draws; 0 where it draws nothing.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of features, whether the outer design keeps them or not.
    pub fn columns(&self) -> usize {
        match &self.features {
            Features::Polynomial(p) => p.columns(),
            Features::Fourier(f) => f.columns(),
        }
    }

    fn names(&self, raw_names: &[String]) -> Vec<String> {
        match &self.features {
            Features::Polynomial(p) => p.names(&self.inputs.names(raw_names)),
            Features::Fourier(f) => (0..f.columns()).map(|i| format!("fourier {i}")).collect(),
        }
    }

    /// Calls `f(row, features)` for every row in order; the features are not yet centred or scaled.
    fn for_rows(&self, x: X<'_>, scratch: &mut MapScratch, mut f: impl FnMut(usize, &[f64])) {
        let MapScratch { panel, input, values } = scratch;
        let (n, columns) = (x.rows(), self.columns());
        let panel = self.inputs.panel(x, panel);
        match &self.features {
            Features::Polynomial(polynomial) => {
                values.resize(columns, f64::NAN);
                for i in 0..n {
                    polynomial.row(self.input_row(&panel, i, input), values);
                    f(i, values);
                }
            }
            Features::Fourier(fourier) => {
                values.resize(n * columns, f64::NAN);
                fourier.rows(&panel, values);
                values.chunks_exact(columns).enumerate().for_each(|(i, v)| f(i, v));
            }
        }
    }

    /// The inputs of a row, dense. A sparse row gives the bits that the same dense row gives.
    fn input_row<'a>(&self, panel: &Panel<'a>, i: usize, buffer: &'a mut Vec<f64>) -> &'a [f64] {
        match panel.kind {
            Kind::Dense(rows) => &rows[i * panel.dim..(i + 1) * panel.dim],
            Kind::Sparse { x, place, inverse, .. } => {
                buffer.clear();
                buffer.extend(self.inputs.mean.iter().zip(inverse).map(|(m, s)| (0.0 - m) * s));
                x.for_row(i, |j, v| {
                    let at = place[j];
                    if at != DROPPED {
                        let at = at as usize;
                        buffer[at] = (v - self.inputs.mean[at]) * inverse[at];
                    }
                });
                buffer
            }
        }
    }

    /// Part of its size by which rounding of the inputs can change a feature. One that varies no more counts as constant: the square
    /// of an input with two values of equal weight, say, would turn rounding into signal once it is scaled.
    fn rounding(&self) -> f64 {
        let shift = self.inputs.mean.iter().zip(&self.inputs.scale).map(|(m, s)| (m / s).abs()).fold(0.0, f64::max);
        64.0 * f64::EPSILON * (1.0 + shift)
    }
}

impl TryFrom<Record> for Mapped {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        Self::new(record.inputs, record.map, record.seed)
    }
}

impl From<Mapped> for Record {
    fn from(mapped: Mapped) -> Self {
        Self { inputs: mapped.inputs, map: mapped.map, seed: mapped.seed }
    }
}

impl Mapped {
    /// The map of measured inputs; the seed is for the maps that draw.
    pub(crate) fn of_inputs(inputs: Design, map: InputMap, seed: u64) -> Result<Self> {
        let seed = if matches!(map, InputMap::Fourier { .. }) { seed } else { 0 };
        Self::new(inputs, map, seed)
    }

    /// Measures the features of the rows of a block.
    pub(crate) fn measure(&self, x: X<'_>, weight: impl Fn(usize) -> f64) -> Moments {
        let mut moments = Moments::new(self.columns());
        let mut scratch = MapScratch::default();
        for first in (0..x.rows()).step_by(MEASURED) {
            let last = (first + MEASURED).min(x.rows());
            self.for_rows(x.slice(first..last), &mut scratch, |i, row| moments.add(weight(first + i), row));
        }
        moments
    }
}

impl Design {
    /// The design of measured features, which it keeps, centres and scales like columns; features dropped as constant are those of
    /// [`Design::available`] that are not `kept`.
    pub(crate) fn of_features(mapped: Mapped, moments: Moments, options: Scaling) -> Result<Self> {
        let (map, rounding) = (mapped.map, mapped.rounding());
        let mut design = Self { raw_cols: mapped.inputs.raw_cols, ..Self::identity(0, options.intercept) };
        for (at, column) in moments.finish().unwrap_or_default().iter().enumerate() {
            if !(column.mean.is_finite() && column.sd.is_finite()) {
                return Err(Error::Unfit(format!(
                    "the columns of the input map {map} are too large to compute with: standardise the inputs, or choose another map"
                )));
            }
            let size = column.low.abs().max(column.high.abs());
            let constant = column.high - column.low <= rounding * size || column.sd < f64::MIN_POSITIVE;
            if constant && options.drop_constant {
                continue;
            }
            design.kept.push(at as u32);
            design.mean.push(if options.center { column.mean } else { 0.0 });
            design.scale.push(if options.scale && !constant { column.sd } else { 1.0 });
        }
        design.map = Some(Box::new(mapped));
        Ok(design)
    }

    /// The design of rows that are all here, as one block; the options hold for the inputs and, again, for their features.
    #[cfg(test)]
    pub(crate) fn fit_mapped(
        x: &crate::data::Matrix<'_>,
        weights: Option<&[f64]>,
        options: Scaling,
        map: InputMap,
        seed: u64,
    ) -> Result<(Self, Vec<usize>)> {
        if map == InputMap::None {
            return Ok(Self::fit(x, weights, options));
        }
        let (inputs, dropped) = Self::fit(x, weights, Scaling { intercept: false, ..options });
        let mapped = Mapped::of_inputs(inputs, map, seed)?;
        let moments = mapped.measure(x.view(), |i| weights.map_or(1.0, |w| w[i]));
        Ok((Self::of_features(mapped, moments, options)?, dropped))
    }

    /// Number of columns that `kept` chooses from: raw columns, or features where there is an input map.
    pub fn available(&self) -> usize {
        self.map.as_ref().map_or(self.raw_cols, |m| m.columns())
    }

    /// Names of the design columns without the bias, given those of the raw columns (`x{j}` where there are none): `a`, `a^2`, `a*b`,
    /// `fourier 17`, counted from 0.
    pub fn names(&self, raw_names: &[String]) -> Vec<String> {
        let kept = self.kept.iter().map(|&j| j as usize);
        match &self.map {
            None => kept.map(|j| raw_names.get(j).cloned().unwrap_or_else(|| format!("x{j}"))).collect(),
            Some(mapped) => {
                let all = mapped.names(raw_names);
                kept.map(|j| all[j].clone()).collect()
            }
        }
    }

    /// [`Design::panel`] of a mapped design.
    pub(super) fn mapped_panel<'a>(&'a self, mapped: &Mapped, x: X<'a>, scratch: &'a mut PanelScratch) -> Panel<'a> {
        let (n, dim) = (x.rows(), self.dim());
        let PanelScratch { rows, work, products, inverse, entries, map, .. } = scratch;
        rows.resize(n * dim, f64::NAN);
        inverse.clear();
        inverse.extend(self.scale.iter().map(|s| 1.0 / s));
        let all_kept = self.kept.len() == mapped.columns();
        mapped.for_rows(x, map.get_or_insert_default(), |i, values| {
            let out = &mut rows[i * dim..(i + 1) * dim];
            if all_kept {
                for (((o, &v), &m), &s) in out.iter_mut().zip(values).zip(&self.mean).zip(inverse.iter()) {
                    *o = (v - m) * s;
                }
            } else {
                for (((o, &j), &m), &s) in out.iter_mut().zip(&self.kept).zip(&self.mean).zip(inverse.iter()) {
                    *o = (values[j as usize] - m) * s;
                }
            }
            if self.intercept {
                out[dim - 1] = 1.0;
            }
        });
        Panel { n, dim, kind: Kind::Dense(rows), work, products, entries, packed: false }
    }
}

#[cfg(test)]
mod tests;
