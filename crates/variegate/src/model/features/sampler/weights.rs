//! Entries of features and the intercept given who uses what.

use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::TAU;

use super::ask::{Question, Sums};
use super::{Course, Sampler};
use crate::linalg::{Cholesky, dot, dot_long, mirror_lower, mul_t};
use crate::model::features::state::State;
use crate::run::{Philox, Which};
use crate::{Error, Result};

/// Below this share of all squares, what is left of them in a difference is doubtful.
const DOUBTFUL: f64 = 1e-6;

/// Sums over all rows, for features in a certain order.
#[derive(Debug, Clone, Default)]
pub(in crate::model::features) struct Totals {
    count: usize,
    width: usize,
    rows: f64,
    /// Sum of the rows that use each feature.
    entries: Vec<f64>,
    /// Rows that use both of two features.
    together: Vec<f64>,
    /// Sum of all rows.
    all: Vec<f64>,
    /// Squares of all entries.
    squares: f64,
}

impl Totals {
    pub(super) fn new(sums: Sums, count: usize, sampler: &Sampler) -> Self {
        let width = sampler.width;
        let mut together = sums.together.0;
        together.resize(count * count, 0.0);
        mirror_lower(&mut together, count);
        let mut entries = sums.entries.0;
        entries.resize(count * width, 0.0);
        let mut all = sums.all.0;
        all.resize(width, 0.0);
        Self { count, width, rows: sampler.rows as f64, entries, together, all, squares: sums.squares.0 }
    }

    /// Number of features.
    pub(in crate::model::features) fn count(&self) -> usize {
        self.count
    }

    /// Rows that use both features.
    pub(in crate::model::features) fn together(&self, a: usize, b: usize) -> f64 {
        self.together[a * self.count + b]
    }

    /// Sum of the rows that use a feature.
    pub(in crate::model::features) fn entries(&self, k: usize) -> &[f64] {
        &self.entries[k * self.width..][..self.width]
    }

    /// Sum of all rows.
    pub(in crate::model::features) fn all(&self) -> &[f64] {
        &self.all
    }

    /// Those of the features at these places, in this order.
    pub(in crate::model::features) fn picked(&self, places: &[usize]) -> Self {
        let entries = places.iter().flat_map(|&k| self.entries(k)).copied().collect();
        let together = places.iter().flat_map(|&a| places.iter().map(move |&b| self.together(a, b))).collect();
        Self { count: places.len(), entries, together, all: self.all.clone(), ..*self }
    }

    /// Appends a feature that nobody uses.
    pub(in crate::model::features) fn append(&mut self) {
        let count = self.count;
        let mut together = vec![0.0; (count + 1) * (count + 1)];
        for a in 0..count {
            together[a * (count + 1)..][..count].copy_from_slice(&self.together[a * count..][..count]);
        }
        self.together = together;
        self.entries.resize((count + 1) * self.width, 0.0);
        self.count += 1;
    }

    /// Takes over the totals of features whose places among these are given.
    pub(in crate::model::features) fn fill_from(&mut self, told: &Totals, places: &[usize]) {
        let (count, width) = (self.count, self.width);
        for (at, &k) in places.iter().enumerate() {
            self.entries[k * width..][..width].copy_from_slice(told.entries(at));
            for (bt, &l) in places.iter().enumerate() {
                self.together[k * count + l] = told.together(at, bt);
            }
        }
    }

    /// Of so many features that nobody uses.
    pub(in crate::model::features) fn unused(&self, count: usize) -> Self {
        let (entries, together) = (vec![0.0; count * self.width], vec![0.0; count * count]);
        Self { count, entries, together, all: self.all.clone(), ..*self }
    }

    /// A row begins or ceases (`sign` −1) to use a feature beside others.
    pub(in crate::model::features) fn turn(&mut self, k: usize, row: &[f64], others: &[usize], sign: f64) {
        self.entries[k * self.width..][..self.width].iter_mut().zip(row).for_each(|(e, v)| *e += sign * v);
        let count = self.count;
        self.together[k * count + k] += sign;
        for &l in others.iter().filter(|&&l| l != k) {
            self.together[k * count + l] += sign;
            self.together[l * count + k] += sign;
        }
    }

    /// Nobody uses a feature any more.
    pub(in crate::model::features) fn clear(&mut self, k: usize) {
        let count = self.count;
        self.entries[k * self.width..][..self.width].fill(0.0);
        for l in 0..count {
            self.together[k * count + l] = 0.0;
            self.together[l * count + k] = 0.0;
        }
    }

    /// Squares of all entries around the intercept.
    fn squares_around(&self, intercept: &[f64]) -> f64 {
        self.squares - 2.0 * dot(&self.all, intercept) + self.rows * dot(intercept, intercept)
    }

    /// Sum of squares of what these features leave unexplained.
    fn unexplained(&self, weights: &[f64], intercept: &[f64]) -> f64 {
        let (count, width) = (self.count, self.width);
        let mut out = self.squares_around(intercept);
        if count == 0 || width == 0 {
            return out;
        }
        let mut gram = vec![0.0; count * count];
        mul_t(weights, weights, &mut gram, count, width, count, false);
        for k in 0..count {
            let w = &weights[k * width..][..width];
            out -= 2.0 * (dot_long(w, self.entries(k)) - self.together(k, k) * dot_long(w, intercept));
        }
        out + dot_long(&gram, &self.together)
    }

    /// Sum over the rows that use a feature of what all others leave unexplained.
    pub(in crate::model::features) fn left_for(&self, k: usize, weights: &[f64], intercept: &[f64]) -> Vec<f64> {
        let (width, m) = (self.width, self.together(k, k));
        let mut out: Vec<f64> = self.entries(k).iter().zip(intercept).map(|(e, b)| e - m * b).collect();
        for l in (0..self.count).filter(|&l| l != k) {
            let both = self.together(k, l);
            if both != 0.0 {
                out.iter_mut().zip(&weights[l * width..][..width]).for_each(|(o, w)| *o -= both * w);
            }
        }
        out
    }
}

impl Course<'_> {
    /// Sums over rows for the features that they use.
    pub(in crate::model::features) fn totals(&mut self, state: &mut State) -> Result<Totals> {
        let places = Self::told_places(state);
        let stats = self.ask(state, Question::Sums, Which::All)?;
        let totals = Totals::new(stats.sums, places.len(), self.sampler);
        for (at, &k) in places.iter().enumerate() {
            state.features.uses[k] = totals.together(at, at) as u64;
        }
        Ok(totals)
    }

    /// Sum of squares of what features leave unexplained, in the order of the totals.
    pub(in crate::model::features) fn unexplained(&mut self, state: &State, totals: &Totals, weights: &[f64]) -> Result<f64> {
        let quick = totals.unexplained(weights, &state.intercept);
        if quick > DOUBTFUL * totals.squares {
            return Ok(quick);
        }
        Ok(self.ask(state, Question::Residual, Which::All)?.squares.0)
    }

    /// Draws the entries of all features, and the intercept where it is learned, together. Totals are in the order of the features. Returns the
    /// log likelihood with both integrated out.
    pub(in crate::model::features) fn draw_weights(&mut self, state: &mut State, totals: &Totals) -> Result<f64> {
        let sampler = self.sampler;
        let drawn = sampler.gaussian_weights(state, totals, self.sweep, &mut self.rng)?;
        self.changed();
        Ok(drawn)
    }

    /// The same where most features are unused: those in use together, by name, and the others from the prior, as they are no part of any row.
    /// The totals are those of the features in use.
    pub(in crate::model::features) fn draw_weights_apart(&mut self, state: &mut State) -> Result<(Totals, f64)> {
        self.changed();
        let totals = self.totals(state)?;
        let sampler = self.sampler;
        let mut used = State { hyper: state.hyper, intercept: state.intercept.clone(), ..sampler.empty_state() };
        let drawn = sampler.gaussian_weights(&mut used, &totals, self.sweep, &mut self.rng)?;
        state.intercept = used.intercept;
        state.features.entries = (0..state.features.len()).flat_map(|_| sampler.prior_entries(&state.hyper, &mut self.rng)).collect();
        let width = sampler.width;
        for (&k, entries) in Self::told_places(state).iter().zip(used.features.entries.chunks_exact(width.max(1))) {
            state.features.entries[k * width..][..width].copy_from_slice(entries);
        }
        self.changed();
        Ok((totals, drawn))
    }
}

impl Sampler {
    fn gaussian_weights(&self, state: &mut State, totals: &Totals, sweep: u64, rng: &mut Philox) -> Result<f64> {
        let (count, width, rows) = (totals.count, self.width, self.rows as f64);
        let (noise, ridge) = (state.hyper.noise, state.hyper.noise / state.hyper.spread);
        let learned = self.intercept.variance();
        let size = count + usize::from(learned.is_some());
        let mut gram = vec![0.0; size * size];
        for a in 0..count {
            gram[a * size..][..count].copy_from_slice(&totals.together[a * count..][..count]);
            gram[a * size + a] += ridge;
        }
        let mut right = totals.entries.clone();
        let (mut ln_ridges, squares);
        ln_ridges = count as f64 * ridge.ln();
        match learned {
            Some(variance) => {
                let last = size - 1;
                for k in 0..count {
                    gram[last * size + k] = totals.together(k, k);
                }
                gram[last * size + last] = rows + noise / variance;
                ln_ridges += (noise / variance).ln();
                right.extend_from_slice(&totals.all);
                squares = totals.squares;
            }
            None => {
                for k in 0..count {
                    let m = totals.together(k, k);
                    right[k * width..][..width].iter_mut().zip(&state.intercept).for_each(|(r, b)| *r -= m * b);
                }
                squares = totals.squares_around(&state.intercept);
            }
        }
        let (factor, _) = Cholesky::with_jitter(size, &gram).map_err(|e| Error::Numerical {
            what: "the Gaussian draw of the features",
            sweep,
            detail: format!("{e}; look for columns of very different scale"),
        })?;
        if size > 0 && width > 0 {
            factor.solve_lower_many(&mut right, width);
        }
        let explained = dot(&right, &right);
        let cells = rows * width as f64;
        let ln_marginal =
            -0.5 * cells * (TAU * noise).ln() + 0.5 * width as f64 * (ln_ridges - factor.ln_det()) - 0.5 * (squares - explained) / noise;
        let sd = noise.sqrt();
        for v in &mut right {
            let z: f64 = StandardNormal.sample(rng);
            *v += sd * z;
        }
        if size > 0 && width > 0 {
            factor.solve_upper_many(&mut right, width);
        }
        if right.iter().any(|v| !v.is_finite()) {
            return Err(Error::Numerical {
                what: "the Gaussian draw of the features",
                sweep,
                detail: "a value is not finite; look for columns of very different scale, or for outliers".into(),
            });
        }
        if learned.is_some() {
            state.intercept = right.split_off(count * width);
        }
        state.features.entries = right;
        Ok(ln_marginal)
    }

    /// Log likelihood, from the sum of squares of what is left unexplained.
    pub(in crate::model::features) fn ln_likelihood(&self, state: &State, unexplained: f64) -> f64 {
        let cells = self.rows as f64 * self.width as f64;
        -0.5 * cells * (TAU * state.hyper.noise).ln() - 0.5 * unexplained / state.hyper.noise
    }

    /// Log density of the intercept.
    pub(in crate::model::features) fn ln_intercept(&self, intercept: &[f64]) -> f64 {
        self.intercept.variance().map_or(0.0, |v| ln_normal(intercept, v))
    }
}

/// Log density of independent Gaussian numbers of this variance around 0.
pub(in crate::model::features) fn ln_normal(values: &[f64], variance: f64) -> f64 {
    -0.5 * (values.len() as f64 * (TAU * variance).ln() + dot(values, values) / variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::features::Schema;
    use crate::model::features::sampler::Intercept;
    use crate::model::features::settings::{InterceptKind, Settings};
    use crate::prior::StableBeta;
    use crate::run::{Purpose, Stream, Sum};
    use crate::special::ln_gamma;

    const X: [[f64; 2]; 3] = [[1.2, -0.4], [0.9, 0.3], [-0.5, 1.1]];

    fn sampler(discount: f64, intercept: Intercept) -> Sampler {
        let mut sampler = Schema::drawn(2, 3).sampler(&Settings::default().intercept(InterceptKind::None));
        sampler.hyper.process = StableBeta { mass: 1.0, concentration: 1.0, discount };
        (sampler.hyper.noise, sampler.hyper.spread, sampler.intercept) = (0.25, 1.0, intercept);
        sampler
    }

    /// Sums over the first rows if these features are used, each told by the rows that use it, as bits.
    fn totals(sampler: &Sampler, columns: &[usize]) -> Totals {
        let uses = |c: usize, i: usize| f64::from(u8::from(c >> i & 1 == 1));
        let rows = &X[..sampler.rows as usize];
        let sum = |f: &dyn Fn(usize) -> f64| (0..rows.len()).map(f).sum::<f64>();
        let sums = Sums {
            entries: Sum(columns.iter().flat_map(|&c| [0, 1].map(|j| sum(&|i| uses(c, i) * rows[i][j]))).collect()),
            together: Sum(columns.iter().flat_map(|&a| columns.iter().map(move |&b| f64::from((a & b).count_ones()))).collect()),
            all: Sum([0, 1].map(|j| sum(&|i| rows[i][j])).to_vec()),
            squares: Sum(sum(&|i| rows[i][0].powi(2) + rows[i][1].powi(2))),
        };
        Totals::new(sums, columns.len(), sampler)
    }

    /// The published log likelihood of given codes, and the mean of the features with it.
    #[test]
    fn features_integrate_out_of_given_codes() {
        let sampler = sampler(0.0, Intercept::Known(vec![0.0; 2]));
        let totals = totals(&sampler, &[0b011, 0b110]);
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        let draws = 40_000;
        let (mut means, mut squares) = ([0.0; 4], [0.0; 4]);
        for _ in 0..draws {
            let mut state = sampler.empty_state();
            let found = sampler.gaussian_weights(&mut state, &totals, 1, &mut rng).unwrap();
            assert!((found + 6.894058462687).abs() < 1e-11, "{found}");
            for (at, w) in state.features.entries.iter().enumerate() {
                means[at] += w / draws as f64;
                squares[at] += w * w / draws as f64;
            }
        }
        for (at, told) in [1.0646153846, -0.4, -0.2953846154, 0.8].into_iter().enumerate() {
            let variance = 0.1384615385f64;
            assert!((means[at] - told).abs() < 4.0 * (variance / draws as f64).sqrt(), "{} {told}", means[at]);
            let spread = squares[at] - means[at].powi(2);
            assert!((spread - variance).abs() < 4.0 * variance * (2.0 / draws as f64).sqrt(), "{spread}");
        }
    }

    /// Adds up over all sets of columns, told by how many there are of each pattern.
    fn evidence(sampler: &Sampler, most: usize) -> f64 {
        let (rows, process) = (sampler.rows, sampler.hyper.process);
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        let (mut stack, mut total) = (vec![(1usize, Vec::<usize>::new(), 0.0)], 0.0);
        while let Some((pattern, columns, ln_weight)) = stack.pop() {
            if pattern == 1 << rows {
                let totals = totals(sampler, &columns);
                let ln_likelihood = sampler.gaussian_weights(&mut sampler.empty_state(), &totals, 1, &mut rng).unwrap();
                let uses = columns.iter().map(|c| u64::from(c.count_ones()));
                total += (ln_weight + process.ln_columns(uses, rows) + ln_likelihood).exp();
                continue;
            }
            let mut more = columns;
            for count in 0.. {
                stack.push((pattern + 1, more.clone(), ln_weight - ln_gamma(count as f64 + 1.0)));
                if more.len() == most {
                    break;
                }
                more.push(pattern);
            }
        }
        total.ln()
    }

    #[test]
    fn evidences_are_those_of_the_enumeration() {
        let none = || Intercept::Known(vec![0.0; 2]);
        let learned = Intercept::Learned { variance: 2.0, start: vec![0.0; 2] };
        for (told, rows, discount, intercept) in [
            (-8.628490239, 3, 0.0, none()),
            (-8.550989338, 3, 0.4, none()),
            (-9.248617735, 3, 0.0, learned),
            (-5.166456505, 2, 0.0, none()),
            (-5.327495877, 2, 0.4, none()),
            (-3.073077108, 1, 0.0, none()),
            (-3.073077108, 1, 0.4, none()),
        ] {
            let found = evidence(&Sampler { rows, ..sampler(discount, intercept) }, 14);
            assert!((found - told).abs() < 2e-6, "{rows} {discount}: {found} {told}");
        }
    }
}
