//! A stored draw made ready for new rows: which of its features a row uses, exactly where they are few, by sampling where they are many.

use rand::RngExt;
use rand::seq::SliceRandom;
use std::f64::consts::TAU;
use std::sync::OnceLock;

use super::codes::for_ones;
use super::draws::Draw;
use super::sampler::ask::View;
use super::sampler::{Entries, happens};
use crate::data::X;
use crate::linalg::{dot, dot_long};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::special::{log_sum_exp, log1p_exp, sigmoid};

/// Up to so many features, all codes are gone through.
const FEW: usize = 14;
/// Scans of a new row for each draw, and how many of them count.
const SCANS: usize = 20;
const COUNTED: usize = 10;

/// A draw as new rows see it.
pub(super) struct Stage {
    view: View,
    /// Inner products of features with all, found as they are needed; none where the view has them.
    found: Vec<OnceLock<Vec<f64>>>,
    ln_odds: Vec<f64>,
    /// Log probability of using nothing.
    ln_nothing: f64,
    /// Number of the draw: rows of any company meet the same random numbers.
    number: u32,
}

/// A row as its code depends on it.
struct Row {
    /// Inner products of the row, less the intercept, with all features.
    along: Vec<f64>,
    /// Square of the row, less the intercept.
    square: f64,
    /// Number of its entries.
    width: f64,
}

/// Inner products of a row beyond this decide all that they could decide, and may still be added up.
const FAR: f64 = 1e150;
/// Entries beyond this, in units of the model, count as this.
const FARTHEST: f64 = 1e300;

impl Row {
    /// A row, less the intercept, whose inner products with the features are given; those that overflow are found anew.
    fn new<'w>(mut along: Vec<f64>, left: &[f64], weight: impl Fn(usize) -> &'w [f64]) -> Self {
        let largest = left.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if largest > FAR {
            let unit: Vec<f64> = left.iter().map(|v| v / largest).collect();
            for (k, along) in along.iter_mut().enumerate() {
                *along = (dot(&unit, weight(k)) * largest).clamp(-FAR, FAR);
            }
        }
        Self { along, square: dot(left, left).min(FAR * FAR), width: left.len() as f64 }
    }
}

/// What is found of the code of a row.
#[derive(Debug, Clone, Default)]
pub(super) struct Code {
    /// Probability that the row uses each feature.
    pub on: Vec<f64>,
    /// Probability that it uses both of two, where that was asked for and all codes were gone through.
    pub both: Vec<f64>,
    /// Codes that were sampled, each as likely as the next, where `both` was asked for and there are too many to go through.
    pub seen: Vec<Vec<u64>>,
    /// The likeliest code.
    pub best: Vec<u64>,
    /// Logarithms of numbers whose mean estimates the density of the row; one alone is exact.
    pub ln_density: Vec<f64>,
}

/// What is asked of a code.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Want {
    /// How features go together.
    pub both: bool,
    /// Temperatures and runs of annealing, where the density is wanted.
    pub density: Option<(usize, usize)>,
}

/// A code under way: bits, what is left of the row along each feature, and its log density.
#[derive(Clone)]
struct Course {
    bits: Vec<u64>,
    left: Vec<f64>,
    /// Log of prior and likelihood together, up to a constant of the row.
    ln_weight: f64,
}

impl Stage {
    pub(super) fn new(draw: &Draw, number: u32, sparse: bool) -> Self {
        let view = View::new(draw.wide_weights(), &draw.intercept, draw.noise, sparse);
        let ln_nothing = draw.ln_odds.iter().map(|&o| -log1p_exp(o)).sum();
        let found = lazily(&view);
        Self { found, view, ln_odds: draw.ln_odds.clone(), ln_nothing, number }
    }

    /// Inner products of a feature with all.
    fn products(&self, k: usize) -> &[f64] {
        if self.found.is_empty() {
            let count = self.count();
            return &self.view.gram[k * count..][..count];
        }
        self.found[k].get_or_init(|| self.view.products(k).into_owned())
    }

    pub(super) fn count(&self) -> usize {
        self.ln_odds.len()
    }

    fn rng(&self) -> Philox {
        Stream::new(0, self.number, Purpose::Predict).rng()
    }

    /// Expected row for these probabilities of use, in units of the model.
    pub(super) fn fit(&self, on: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut out = self.view.intercept.clone();
        for k in 0..self.count() {
            let p = on(k);
            if p != 0.0 {
                out.iter_mut().zip(self.view.weight(k)).for_each(|(o, w)| *o += p * w);
            }
        }
        out
    }

    /// Variances of entries of a row with this code, without the noise.
    pub(super) fn variances(&self, code: &Code, columns: &[usize]) -> Vec<f64> {
        let (count, width) = (self.count(), self.view.intercept.len());
        let w = |k: usize, j: usize| self.view.weights[k * width + j];
        if code.seen.is_empty() {
            let pairs = (0..count * count).map(|at| (at / count, at % count, code.both[at] - code.on[at / count] * code.on[at % count]));
            let pairs: Vec<(usize, usize, f64)> = pairs.collect();
            let variance = |&j: &usize| pairs.iter().map(|&(a, b, c)| w(a, j) * w(b, j) * c).sum::<f64>().max(0.0);
            return columns.iter().map(variance).collect();
        }
        let times = code.seen.len() as f64;
        let (mut means, mut squares) = (vec![0.0; columns.len()], vec![0.0; columns.len()]);
        let mut sums = vec![0.0; columns.len()];
        for bits in &code.seen {
            sums.fill(0.0);
            for_ones(bits, |k| sums.iter_mut().zip(columns).for_each(|(s, &j)| *s += w(k, j)));
            for (at, sum) in sums.iter().enumerate() {
                means[at] += sum / times;
                squares[at] += sum * sum / times;
            }
        }
        squares.iter().zip(&means).map(|(s, m)| (s - m * m).max(0.0)).collect()
    }

    pub(super) fn noise(&self) -> f64 {
        self.view.noise
    }

    /// The codes of the first `n` rows of a panel. Of rows with missing entries only the observed ones count.
    pub(super) fn codes(&self, x: X<'_>, n: usize, per_unit: f64, want: Want) -> Vec<Code> {
        let count = self.count();
        let whole = Entries { x, per_unit };
        let (mut products, mut row) = (Vec::new(), Vec::new());
        whole.products(&self.view, &mut products);
        (0..n)
            .map(|i| {
                whole.row(i, &mut row);
                row.iter_mut().for_each(|v| *v = v.clamp(-FARTHEST, FARTHEST));
                if row.iter().any(|v| v.is_nan()) {
                    return self.code_of_part(&row, want);
                }
                row.iter_mut().zip(&self.view.intercept).for_each(|(x, b)| *x -= b);
                let along = products[i * count..][..count].iter().zip(&self.view.with_intercept).map(|(p, b)| p - b).collect();
                self.code(&Row::new(along, &row, |k| self.view.weight(k)), want)
            })
            .collect()
    }

    /// The code of a row with missing entries.
    fn code_of_part(&self, row: &[f64], want: Want) -> Code {
        let kept: Vec<usize> = (0..row.len()).filter(|&j| !row[j].is_nan()).collect();
        let pick = |values: &[f64]| kept.iter().map(|&j| values[j]).collect::<Vec<f64>>();
        let weights: Vec<f64> = (0..self.count()).flat_map(|k| pick(self.view.weight(k))).collect();
        let (count, intercept) = (self.count(), pick(&self.view.intercept));
        let view = if kept.is_empty() {
            // nothing was observed: features have no length
            let (gram, squares, with_intercept) = (vec![0.0; count * count], vec![0.0; count], vec![0.0; count]);
            View { gram, squares, with_intercept, noise: self.view.noise, ..View::default() }
        } else if count <= FEW {
            View::new(weights, &intercept, self.view.noise, false)
        } else {
            // a row meets few of many features: only of those are all inner products needed
            let columns = kept.len();
            let with_intercept = weights.chunks_exact(columns).map(|w| dot_long(w, &intercept)).collect();
            let squares = weights.chunks_exact(columns).map(|w| dot_long(w, w)).collect();
            View { weights, squares, intercept: intercept.clone(), with_intercept, noise: self.view.noise, ..View::default() }
        };
        let found = lazily(&view);
        let part = Self { view, found, ln_odds: self.ln_odds.clone(), ln_nothing: self.ln_nothing, number: self.number };
        let left: Vec<f64> = kept.iter().zip(&intercept).map(|(&j, b)| row[j] - b).collect();
        let along = (0..self.count()).map(|k| if kept.is_empty() { 0.0 } else { dot(&left, part.view.weight(k)) }).collect();
        part.code(&Row::new(along, &left, |k| part.view.weight(k)), want)
    }

    fn code(&self, row: &Row, want: Want) -> Code {
        let mut code = if self.count() <= FEW { self.enumerate(row, want) } else { self.sample(row, want) };
        if code.on.iter().any(|p| p.is_nan()) {
            // where numbers break down a row says nothing: its code is that of any row
            let chance = |k: usize| sigmoid(self.ln_odds[k]);
            let count = self.count();
            code.on = (0..count).map(chance).collect();
            let both = |at: usize| if at / count == at % count { chance(at / count) } else { chance(at / count) * chance(at % count) };
            if !code.both.is_empty() || !code.seen.is_empty() {
                code.both = (0..count * count).map(both).collect();
                code.seen.clear();
            }
        }
        code
    }

    fn nothing(&self, row: &Row) -> Course {
        Course { bits: vec![0; self.count().div_ceil(64)], left: row.along.clone(), ln_weight: 0.0 }
    }

    /// By how much taking a feature up, or putting it down, changes the log of prior and likelihood.
    fn gain(&self, at: &Course, k: usize) -> f64 {
        let half = 0.5 * self.view.squares[k];
        if has(&at.bits, k) {
            -self.ln_odds[k] - (at.left[k] + half) / self.view.noise
        } else {
            self.ln_odds[k] + (at.left[k] - half) / self.view.noise
        }
    }

    fn turn(&self, at: &mut Course, k: usize) {
        at.ln_weight += self.gain(at, k);
        let sign = if has(&at.bits, k) { 1.0 } else { -1.0 };
        at.left.iter_mut().zip(self.products(k)).for_each(|(l, c)| *l += sign * c);
        at.bits[k / 64] ^= 1 << (k % 64);
    }

    /// Log density of the row if it used nothing, and the log probability of that.
    fn ln_base(&self, row: &Row) -> f64 {
        self.ln_nothing - 0.5 * row.width * (TAU * self.view.noise).ln() - 0.5 * row.square / self.view.noise
    }

    /// All codes, each from the one before by one change.
    fn enumerate(&self, row: &Row, want: Want) -> Code {
        let count = self.count();
        let mut at = self.nothing(row);
        let states = 1usize << count;
        let mut weights = Vec::with_capacity(states);
        let mut best = at.clone();
        for state in 0..states {
            if state > 0 {
                self.turn(&mut at, state.trailing_zeros() as usize);
            }
            weights.push(at.ln_weight);
            if at.ln_weight > best.ln_weight {
                best = at.clone();
            }
        }
        let total = log_sum_exp(&weights);
        let mut code = Code { on: vec![0.0; count], best: best.bits, ..Code::default() };
        if want.both {
            code.both.resize(count * count, 0.0);
        }
        for (state, weight) in weights.iter().enumerate() {
            let p = (weight - total).exp();
            let gray = [(state ^ (state >> 1)) as u64];
            code.take(&gray, p, want.both);
        }
        if want.density.is_some() {
            code.ln_density.push(self.ln_base(row) + total);
        }
        code
    }

    /// Codes by scans from the greedy one, and the density by annealing from what they suggest.
    fn sample(&self, row: &Row, want: Want) -> Code {
        let (count, mut rng) = (self.count(), self.rng());
        let mut at = self.nothing(row);
        loop {
            let next = (0..count).filter(|&k| !has(&at.bits, k)).map(|k| (self.gain(&at, k), k)).max_by(|a, b| a.0.total_cmp(&b.0));
            match next {
                Some((gain, k)) if gain > 0.0 => self.turn(&mut at, k),
                _ => break,
            }
        }
        let mut best = at.clone();
        let mut order: Vec<usize> = (0..count).collect();
        let mut code = Code { on: vec![0.0; count], ..Code::default() };
        for scan in 0..SCANS {
            order.shuffle(&mut rng);
            for &k in &order {
                self.flip(&mut at, k, &mut rng);
            }
            self.exchange(&mut at, &mut rng);
            if at.ln_weight > best.ln_weight {
                best = at.clone();
            }
            if scan >= SCANS - COUNTED {
                code.take(&at.bits, 1.0 / COUNTED as f64, false);
                if want.both {
                    code.seen.push(at.bits.clone());
                }
            }
        }
        code.best = best.bits;
        if let Some((temperatures, runs)) = want.density {
            code.ln_density = (0..runs).map(|_| self.ln_base(row) + self.anneal(row, &code.on, temperatures, &mut rng)).collect();
        }
        code
    }

    fn flip(&self, at: &mut Course, k: usize, rng: &mut Philox) {
        let gain = self.gain(at, k);
        let ln_odds = if has(&at.bits, k) { -gain } else { gain };
        if happens(ln_odds, rng) != has(&at.bits, k) {
            self.turn(at, k);
        }
    }

    /// One feature that is used for one that is not, with a Metropolis test: single changes do not get from one to another that is like it.
    fn exchange(&self, at: &mut Course, rng: &mut Philox) {
        let mut used = Vec::new();
        for_ones(&at.bits, |k| used.push(k));
        let free = self.count() - used.len();
        if used.is_empty() || free == 0 {
            return;
        }
        let from = used[rng.random_range(0..used.len())];
        let mut pick = rng.random_range(0..free);
        let to = (0..self.count()).find(|&k| {
            let is_free = !has(&at.bits, k);
            let found = is_free && pick == 0;
            pick -= usize::from(is_free && pick > 0);
            found
        });
        let Some(to) = to else { return };
        let mut next = at.clone();
        self.turn(&mut next, from);
        self.turn(&mut next, to);
        if open01(rng).ln() < next.ln_weight - at.ln_weight {
            *at = next;
        }
    }

    /// Log weight of one annealed run: its exponential has the sum over all codes as its mean.
    fn anneal(&self, row: &Row, on: &[f64], temperatures: usize, rng: &mut Philox) -> f64 {
        // independent bits that are likely a posteriori; none is certain
        let count = COUNTED as f64;
        let first: Vec<f64> =
            on.iter().zip(&self.ln_odds).map(|(p, o)| ((p * count + sigmoid(*o)) / (count + 1.0)).clamp(1e-9, 1.0 - 1e-9)).collect();
        let ln_first: Vec<f64> = first.iter().map(|p| p.ln() - (-p).ln_1p()).collect();
        let mut at = self.nothing(row);
        let mut ln_start: f64 = first.iter().map(|p| (-p).ln_1p()).sum();
        for k in 0..self.count() {
            if open01(rng) < first[k] {
                self.turn(&mut at, k);
                ln_start += ln_first[k];
            }
        }
        let mut weight = 0.0;
        for step in 1..=temperatures {
            let t = step as f64 / temperatures as f64;
            weight += (at.ln_weight - ln_start) / temperatures as f64;
            if step == temperatures {
                break;
            }
            for k in 0..self.count() {
                let on = has(&at.bits, k);
                let gain = self.gain(&at, k);
                let ln_odds = (1.0 - t) * ln_first[k] + t * if on { -gain } else { gain };
                if happens(ln_odds, rng) != on {
                    self.turn(&mut at, k);
                    ln_start += if on { -ln_first[k] } else { ln_first[k] };
                }
            }
        }
        weight
    }
}

impl Code {
    fn take(&mut self, bits: &[u64], p: f64, both: bool) {
        let count = self.on.len();
        for_ones(bits, |a| {
            self.on[a] += p;
            if both {
                for_ones(bits, |b| self.both[a * count + b] += p);
            }
        });
    }

    /// Whether the likeliest code uses a feature.
    pub(super) fn best_has(&self, k: usize) -> bool {
        has(&self.best, k)
    }
}

/// Places for inner products that the view does not have.
fn lazily(view: &View) -> Vec<OnceLock<Vec<f64>>> {
    if view.gram.is_empty() { vec![OnceLock::new(); view.count()] } else { Vec::new() }
}

fn has(bits: &[u64], k: usize) -> bool {
    bits[k / 64] >> (k % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_mean;
    use super::*;
    use crate::data::Matrix;

    fn stage() -> Stage {
        let logit = |p: f64| (p / (1.0 - p)).ln();
        let draw = Draw {
            noise: 0.3,
            intercept: vec![0.0; 3],
            ln_odds: [0.6, 0.3, 0.1].map(logit).to_vec(),
            uses: vec![1; 3],
            weights: vec![1.0, 0.0, 0.5, 0.0, 1.0, -0.5, -1.0, 0.5, 0.0],
            ..Draw::default()
        };
        Stage::new(&draw, 0, false)
    }

    /// The published density and codes of a held-out row.
    #[test]
    fn a_row_has_its_published_code() {
        let (stage, x) = (stage(), Matrix::dense(1, 3, vec![0.8, 0.7, 0.1]));
        let want = Want { both: true, density: Some((1, 1)) };
        let code = stage.codes(x.view(), 1, 1.0, want).remove(0);
        assert!((code.ln_density[0] + 2.103490901).abs() < 1e-8, "{:?}", code.ln_density);
        let p = [0.11935039, 0.00036843, 0.05559532, 0.00003242, 0.37899716, 0.03279592, 0.40622107, 0.0066393];
        for (k, told) in [p[4] + p[5] + p[6] + p[7], p[2] + p[3] + p[6] + p[7], p[1] + p[3] + p[5] + p[7]].into_iter().enumerate() {
            assert!((code.on[k] - told).abs() < 1e-7, "{k}: {}", code.on[k]);
        }
        assert!((code.both[1] - (p[6] + p[7])).abs() < 1e-7 && (code.both[0] - code.on[0]).abs() < 1e-12);
        assert_eq!(code.best, [3]);
        // sampling agrees: 3000 draws of ten scans, and the mean of annealed weights
        let row = Row { along: vec![0.85, 0.65, -0.45], square: 1.14, width: 3.0 };
        let (mut sums, mut densities) = (Vec::new(), Vec::new());
        for number in 0..3000 {
            let stage = Stage { number, ..self::stage() };
            let code = stage.sample(&row, Want { both: false, density: Some((5, 1)) });
            sums.push(code.on[1]);
            densities.push((code.ln_density[0] + 2.103490901).exp());
        }
        for (values, told) in [(sums, p[2] + p[3] + p[6] + p[7]), (densities, 1.0)] {
            assert_mean("code", &values, told);
        }
    }

    /// How far an entry may be off is the same from all codes and from many that were sampled.
    #[test]
    fn variances_agree() {
        let (stage, row) = (stage(), Row { along: vec![0.85, 0.65, -0.45], square: 1.14, width: 3.0 });
        let want = Want { both: true, density: None };
        let exact = stage.enumerate(&row, want);
        let told = stage.variances(&exact, &[2]).remove(0);
        let mean_of = |code: &Code| stage.fit(|k| code.on[k])[2];
        let around = mean_of(&exact);
        let squares: Vec<f64> = (0..3000)
            .map(|number| {
                let code = Stage { number, ..self::stage() }.sample(&row, want);
                stage.variances(&code, &[2])[0] + (mean_of(&code) - around).powi(2)
            })
            .collect();
        assert_mean("variance", &squares, told);
    }

    /// Rows that are far beyond what numbers hold when they are squared still have a code.
    #[test]
    fn rows_far_away_have_a_code() {
        let x = Matrix::dense(2, 3, vec![1e300, -1e308, f64::INFINITY, f64::NAN, 1e307, -1e200]);
        for code in stage().codes(x.view(), 2, 1.0, Want { both: true, density: Some((1, 1)) }) {
            assert!(code.on.iter().chain(&code.both).all(|p| (0.0..=1.0 + 1e-9).contains(p)), "{code:?}");
            assert!(code.ln_density[0] < -1e200, "{code:?}");
        }
    }

    /// A row of which a part was seen: by the sum over codes of the density of that part.
    #[test]
    fn missing_entries_of_a_row_do_not_count() {
        let stage = stage();
        let x = Matrix::dense(2, 3, vec![0.8, f64::NAN, 0.1, f64::NAN, f64::NAN, f64::NAN]);
        let codes = stage.codes(x.view(), 2, 1.0, Want { both: false, density: Some((1, 1)) });
        let (mut total, mut first) = (0.0, 0.0);
        for z in 0..8u32 {
            let on = |k: u32| f64::from(z >> k & 1);
            let prior = [0.6, 0.3, 0.1].iter().enumerate().map(|(k, p)| if on(k as u32) == 1.0 { *p } else { 1.0 - p }).product::<f64>();
            let fit = [on(0) - on(2), 0.5 * on(0) - 0.5 * on(1)];
            let density: f64 = [0.8, 0.1].iter().zip(fit).map(|(x, m)| (-(x - m) * (x - m) / 0.6).exp() / (TAU * 0.3f64).sqrt()).product();
            total += prior * density;
            first += prior * density * on(0);
        }
        assert!((codes[0].ln_density[0] - total.ln()).abs() < 1e-12);
        assert!((codes[0].on[0] - first / total).abs() < 1e-12);
        assert!(codes[1].ln_density[0].abs() < 1e-12 && (codes[1].on[1] - 0.3).abs() < 1e-12);
    }

    /// Many features: a row of which a part was seen has the code of a row that has only that part.
    #[test]
    fn parts_of_rows_meet_many_features_as_whole_rows_do() {
        let (count, width) = (20, 6);
        let entry = |k: usize, j: usize| ((k * 7 + j * 5 + k * j * 3) % 11) as f64 / 4.0 - 1.2;
        let draw = |columns: &[usize]| Draw {
            noise: 0.5,
            intercept: columns.iter().map(|j| *j as f64 / 10.0).collect(),
            ln_odds: (0..count).map(|k| -1.0 - k as f64 / 20.0).collect(),
            uses: vec![1; count],
            weights: (0..count).flat_map(|k| columns.iter().map(move |&j| entry(k, j) as f32)).collect(),
            ..Draw::default()
        };
        let (all, some) = ((0..width).collect::<Vec<_>>(), [0, 2, 3, 5]);
        let row = [0.4, f64::NAN, -1.3, 2.0, f64::NAN, 0.7];
        let want = Want { both: true, density: Some((3, 2)) };
        let code = |columns: &[usize], values: Vec<f64>| {
            let x = Matrix::dense(1, values.len(), values);
            Stage::new(&draw(columns), 3, false).codes(x.view(), 1, 1.0, want).remove(0)
        };
        let (part, whole) = (code(&all, row.to_vec()), code(&some, some.map(|j| row[j]).to_vec()));
        assert_eq!((&part.on, &part.seen, &part.best), (&whole.on, &whole.seen, &whole.best));
        assert!(part.ln_density.iter().zip(&whole.ln_density).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}
