//! Where an ascent begins: clusters of rows around centres, found on some of the rows.

use rand::Rng;

use super::mixture::Mixture;
use crate::data::{Block, X};
use crate::infer::k_means;
use crate::model::gathered::{Gathered, hash_of, keep_smallest};

/// Rows gathered for clusters: so many numbers at most, and so many rows.
const GATHERED_NUMBERS: usize = 4_000_000;
const GATHERED_ROWS: usize = 5_000;
/// Share of a row that its cluster has; the rest is spread evenly.
const OWN_SHARE: f64 = 0.9;

impl Mixture {
    /// Rows that clusters are looked for among, of a width.
    pub(crate) fn gathered_rows(&self) -> usize {
        (GATHERED_NUMBERS / self.kernel.width().max(1)).clamp(100, GATHERED_ROWS)
    }

    /// Whether rows are compared by their directions: counts, and zeros and ones.
    fn by_direction(&self) -> bool {
        self.inputs.kernel.is_none()
    }

    /// Some rows of a block, as clusters see them.
    pub(crate) fn gather(&self, most: usize, key: u64, block: &Block<'_>, scratch: &mut super::mixture::Scratch) -> Gathered {
        self.gather_of(0..block.rows(), most, key, block, scratch)
    }

    /// The same where all rows are known to be so many: a row whose hash is too large to be among the smallest of all stays where it is.
    /// About `most` of all rows are below the limit, give or take the root of it; ten times that leaves no doubt.
    pub(crate) fn gather_among(
        &self,
        all: usize,
        most: usize,
        key: u64,
        block: &Block<'_>,
        scratch: &mut super::mixture::Scratch,
    ) -> Gathered {
        let share = (most as f64 + 10.0 * (most as f64).sqrt() + 100.0) / all.max(1) as f64;
        let limit = if share < 1.0 { (share * u64::MAX as f64) as u64 } else { u64::MAX };
        self.gather_of((0..block.rows()).filter(|&i| hash_of(key, block, i) <= limit), most, key, block, scratch)
    }

    /// Some of these rows of a block.
    pub(super) fn gather_of(
        &self,
        rows: impl Iterator<Item = usize>,
        most: usize,
        key: u64,
        block: &Block<'_>,
        scratch: &mut super::mixture::Scratch,
    ) -> Gathered {
        let mut hashes: Vec<(u64, u32, usize)> = rows.map(|i| (hash_of(key, block, i), 0, i)).collect();
        keep_smallest(&mut hashes, most);
        let row = |(hash, class, i): (u64, u32, usize)| {
            let mut row = vec![0.0; self.kernel.width()];
            self.inputs.with_rows(block.x.slice(i..i + 1), &mut scratch.inputs.kernel, |x| {
                let times = self.times(x, 0);
                x.for_row(0, |j, v| row[j] = v * times);
            });
            (hash, class, row)
        };
        Gathered { each: most, rows: hashes.into_iter().map(row).collect() }
    }

    /// What row i is multiplied by before it is compared.
    fn times(&self, x: X<'_>, i: usize) -> f64 {
        if !self.by_direction() {
            return 1.0;
        }
        let mut square = 0.0;
        x.for_row(i, |_, v| square += v * v);
        if square > 0.0 { square.sqrt().recip() } else { 0.0 }
    }

    /// Centres of clusters of the gathered rows, one a row.
    pub(crate) fn centres(&self, gathered: &Gathered, components: usize, rng: &mut impl Rng) -> Vec<f64> {
        let rows: Vec<&[f64]> = gathered.rows.iter().map(|(_, _, row)| &row[..]).collect();
        k_means(&rows, components, self.kernel.width(), rng).centres
    }

    /// Responsibilities of rows: most of a row belongs to the nearest centre.
    pub(crate) fn nearest(&self, centres: &[f64], x: X<'_>, r: &mut [f64]) {
        let components = centres.len() / self.kernel.width().max(1);
        self.each_nearest(centres, x, |i, best| {
            let r = &mut r[i * components..(i + 1) * components];
            r.fill((1.0 - OWN_SHARE) / components as f64);
            r[best] += OWN_SHARE;
        });
    }

    /// Calls f(row, its nearest centre) for every row.
    pub(super) fn each_nearest(&self, centres: &[f64], x: X<'_>, mut f: impl FnMut(usize, usize)) {
        let width = self.kernel.width().max(1);
        let components = centres.len() / width;
        let squares: Vec<f64> = centres.chunks_exact(width).map(|c| 0.5 * c.iter().map(|v| v * v).sum::<f64>()).collect();
        let mut score = vec![0.0; components];
        for i in 0..x.rows() {
            let times = self.times(x, i);
            score.iter_mut().zip(&squares).for_each(|(s, q)| *s = -q);
            x.for_row(i, |j, v| {
                score.iter_mut().enumerate().for_each(|(k, s)| *s += times * v * centres[k * width + j]);
            });
            f(i, (0..components).fold(0, |best, k| if score[k] > score[best] { k } else { best }));
        }
    }
}
