//! Values, slopes and curvatures of the rows of a panel: sixteen rows side by side, as few components and classes do not fill vector instructions.

use super::Vb;
use super::bounds::{bouchard, log_odds};
use super::classes::ClassBound;
use super::rows::{Stats, View};
use crate::model::experts::settings::GateBound;
use crate::model::experts::shape::Shape;
use crate::run::Block;
use crate::special::lanes::{LANES, Lane, each, softmax};

/// Numbers of the rows of a tile.
#[derive(Debug, Default)]
pub(super) struct Tile {
    /// â·x of each vector.
    products: Vec<Lane>,
    /// g of each vector.
    slopes: Vec<Lane>,
    /// w of each component.
    curvatures: Vec<Lane>,
    /// Bound of each expert; then its share.
    expert: Vec<Lane>,
    /// Mean score of each gate.
    gate: Vec<Lane>,
    /// Variance of each gate; then its curvature.
    spread: Vec<Lane>,
    /// Probability of each gate at the means.
    open: Vec<Lane>,
    /// More than two classes: the contrasts of each row's class.
    marks: Vec<Lane>,
    class: ClassBound,
    /// Means and variances of the gates of one row.
    row: (Vec<f64>, Vec<f64>),
}

impl Tile {
    /// Makes room for the components of a mixture.
    pub(super) fn resize(&mut self, shape: &Shape) {
        let (k, j, gates) = (shape.experts, shape.rows(), shape.gates());
        for (buffer, len) in [
            (&mut self.products, k * j + gates),
            (&mut self.slopes, k * j + gates),
            (&mut self.curvatures, k + gates),
            (&mut self.expert, k),
            (&mut self.gate, k),
            (&mut self.spread, k),
            (&mut self.open, k),
            (&mut self.marks, j),
        ] {
            buffer.resize(len, [0.0; LANES]);
        }
        self.class.resize(j);
    }
}

/// Numbers of rows, row by row, beside one another; zeros where there are no more rows.
#[inline(always)]
fn gather(rows: &[f64], tile: &mut [Lane]) {
    let width = tile.len();
    let count = rows.len() / width;
    if count == LANES {
        for c in 0..width {
            tile[c] = each(|l| rows[l * width + c]);
        }
    } else {
        for c in 0..width {
            tile[c] = each(|l| if l < count { rows[l * width + c] } else { 0.0 });
        }
    }
}

/// The other way; zeros for rows that do not count.
#[inline(always)]
fn scatter(tile: &[Lane], counts: &Lane, rows: &mut [f64]) {
    let width = tile.len();
    for l in 0..rows.len() / width {
        let row = &mut rows[l * width..][..width];
        for c in 0..width {
            row[c] = if counts[l] == 0.0 { 0.0 } else { tile[c][l] };
        }
    }
}

/// In pairs: in order they would wait for one another.
#[inline(always)]
fn total(lane: &Lane) -> f64 {
    let mut sums = *lane;
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            sums[l] += sums[l + half];
        }
        half /= 2;
    }
    sums[0]
}

impl Vb {
    /// Values, slopes and curvatures of a panel; scores become w â·x where Gram matrices are not formed.
    #[inline(always)]
    pub(super) fn bound_rows(
        &self,
        view: &View<'_>,
        block: &Block<'_>,
        from: usize,
        scores: &mut [f64],
        slopes: &mut [f64],
        curvatures: &mut [f64],
        norms: &[f64],
        tile: &mut Tile,
        stats: &mut Stats,
    ) {
        let (k, j, vectors, curved) = (self.shape.experts, self.shape.rows(), self.vectors(), self.curved());
        let contrasts = self.shape.contrasts();
        let classes = block.y.classes();
        for first in (0..norms.len()).step_by(LANES) {
            let rows = first..(first + LANES).min(norms.len());
            let place = |width: usize| rows.start * width..rows.end * width;
            let (mut count, mut norm, mut class) = ([0.0; LANES], [0.0; LANES], [0; LANES]);
            for (l, row) in rows.clone().enumerate() {
                count[l] = block.weight(from + row);
                norm[l] = norms[row];
                class[l] = classes[from + row] as usize;
                stats.weight.0 += count[l];
            }
            let u = &mut scores[place(vectors)];
            gather(u, &mut tile.products);
            let sign = each(|l| if class[l] == 1 { 1.0 } else { -1.0 });
            // experts
            if j == 1 {
                for e in 0..k {
                    let (u, m) = (tile.products[e], view.intercepts[e]);
                    let (scale, isotropic, along, variance) = (view.scale[e], view.isotropic[e], view.along[e], view.variance[e]);
                    for l in 0..LANES {
                        let t = scale * u[l];
                        let second = isotropic * norm[l] + along * u[l] * u[l] + (2.0 * t + m) * m + variance;
                        (tile.expert[e][l], tile.curvatures[e][l]) = log_odds(sign[l], t + m, second);
                    }
                }
            } else {
                for r in 0..j {
                    tile.marks[r] = each(|l| contrasts[class[l] * j + r]);
                }
                for e in 0..k {
                    let own = e * j..(e + 1) * j;
                    let products = &tile.products[own.clone()];
                    tile.expert[e] = tile.class.fill(view, e, contrasts, products, &norm, &tile.marks, &mut tile.slopes[own]);
                }
            }
            // gate
            let mut value = [0.0; LANES];
            let mut centre = [0.0; LANES];
            if self.shape.gates() > 0 {
                let mut spread = [0.0; LANES];
                for h in 0..k {
                    let (u, at) = (tile.products[k * j + h], k + h);
                    let (scale, intercept, isotropic, variance) =
                        (view.scale[at], view.intercepts[k * j + h], view.isotropic[at], view.variance[at]);
                    let along = view.along[at] - scale * scale;
                    let gate = each(|l| scale * u[l] + intercept);
                    let own = each(|l| isotropic * norm[l] + along * u[l] * u[l] + variance);
                    spread = each(|l| spread[l] + own[l]);
                    tile.expert[h] = each(|l| tile.expert[h][l] + gate[l]);
                    (tile.gate[h], tile.spread[h]) = (gate, own);
                }
                match self.gate_bound {
                    GateBound::Bohning => {
                        tile.open.copy_from_slice(&tile.gate);
                        let ln_sum = softmax(&mut tile.open);
                        let part = 0.25 * (1.0 - 1.0 / k as f64);
                        value = each(|l| -(ln_sum[l] + part * spread[l]));
                    }
                    GateBound::Bouchard => {
                        let (means, variances) = &mut tile.row;
                        for l in 0..rows.len() {
                            means.clear();
                            variances.clear();
                            means.extend(tile.gate.iter().map(|g| g[l]));
                            variances.extend(tile.spread.iter().map(|s| s[l]));
                            let (bound, c) = bouchard(means, variances);
                            tile.spread.iter_mut().zip(variances.iter()).for_each(|(s, w)| s[l] = *w);
                            value[l] = -bound;
                            centre[l] = c;
                        }
                    }
                }
            }
            let ln_sum = softmax(&mut tile.expert);
            // what does not count may be no number
            let counted = |value: &Lane| each(|l| if count[l] == 0.0 { 0.0 } else { count[l] * value[l] });
            stats.value.0 += total(&counted(&each(|l| value[l] + ln_sum[l])));
            // what is left for the updates
            for e in 0..k {
                let share = counted(&tile.expert[e]);
                stats.shares.0[e] += total(&share);
                if j == 1 {
                    tile.curvatures[e] = each(|l| tile.curvatures[e][l] * share[l]);
                    tile.slopes[e] = each(|l| 0.5 * sign[l] * share[l]);
                } else {
                    let w = each(|l| 0.25 * share[l]);
                    for c in e * j..(e + 1) * j {
                        let (scale, intercept, u) = (view.scale[e], view.intercepts[c], &tile.products[c]);
                        tile.slopes[c] = each(|l| share[l] * tile.slopes[c][l] + w[l] * (scale * u[l] + intercept));
                    }
                    tile.curvatures[e] = w;
                }
            }
            for h in 0..self.shape.gates() {
                let (expert, gate) = (&tile.expert[h], &tile.gate[h]);
                match self.gate_bound {
                    GateBound::Bohning => {
                        let open = &tile.open[h];
                        let unsure = counted(&each(|l| open[l] * (1.0 - open[l])));
                        stats.open.0[h] += total(&unsure);
                        tile.slopes[k * j + h] = each(|l| count[l] * (expert[l] - open[l] + 0.5 * gate[l]));
                        tile.curvatures[k + h] = each(|l| 0.5 * count[l]);
                    }
                    GateBound::Bouchard => {
                        let w = each(|l| count[l] * tile.spread[h][l]);
                        tile.slopes[k * j + h] = each(|l| count[l] * (expert[l] - 0.5) + w[l] * centre[l]);
                        tile.curvatures[k + h] = w;
                    }
                }
            }
            scatter(&tile.slopes, &count, &mut slopes[place(vectors)]);
            let w = &mut curvatures[place(curved)];
            scatter(&tile.curvatures[..curved], &count, w);
            for l in 0..rows.len() {
                let u = &mut u[l * vectors..][..vectors];
                if count[l] == 0.0 {
                    u.fill(0.0);
                } else if !self.grams {
                    self.weigh(u, &w[l * curved..][..curved], norm[l], stats);
                }
            }
        }
    }

    /// What one row adds to traces and squares; its scores become w â·x.
    #[inline(always)]
    fn weigh(&self, u: &mut [f64], w: &[f64], norm: f64, stats: &mut Stats) {
        let (k, j) = (self.shape.experts, self.shape.rows());
        for (c, &w) in w.iter().enumerate() {
            let vectors = if c < k { c * j..(c + 1) * j } else { k * j + c - k..k * j + c - k + 1 };
            stats.traces.0[c] += w * norm;
            for u in &mut u[vectors] {
                stats.squares.0[c] += w * *u * *u;
                *u *= w;
            }
        }
    }
}
