//! Rows of a gate over experts: from the scores of a row to its likelihood, the shares of the experts in it, and derivatives.
//!
//! With gate scores f_k, π = softmax f, and p_k(y) the probability that expert k gives the row's class, the likelihood is Σ_k π_k p_k(y),
//! the share of an expert r_k = π_k p_k(y) / Σ, and the derivatives of the log likelihood are r_k − π_k for a gate and
//! r_k (1[c = y] − p_k(c)) for a class score (Fisher's identity: the expert is summed out). Rows go sixteen at a time, one in each lane of the
//! vector instructions; no lane looks at another, so a row gives the same bits in any company. Products of probabilities are formed
//! as such, and in logarithms for the rare row whose likelihood would underflow.

pub mod forces;
pub mod rows;

use std::ops::{Add, Div, Mul};

use crate::linalg::wide;
use crate::special::branchless::exp;
use crate::special::lanes::{LANES, Lane, each, exponentials};
use crate::special::{ln_sigmoid, log_sum_exp};

/// Below this the likelihood of a row is computed in logarithms.
const SMALL: f64 = 1e-200;

/// A gate over experts, each of which gives probabilities to classes. Columns of a row's scores: one a gate (none for one
/// expert), then for each expert its class scores, or for two classes the log-odds of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gated {
    /// Number of experts.
    pub experts: usize,
    /// Number of classes.
    pub classes: usize,
    /// For two classes, the class whose log-odds an expert's score is; `None` if there is a score a class.
    pub odds_of: Option<u32>,
}

/// Buffers of a group of rows.
#[derive(Debug, Default)]
pub struct Work {
    gate: Vec<Lane>,
    score: Vec<Lane>,
    given: Vec<Lane>,
}

/// What is made of the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Slopes,
    Value,
    Shares,
}

/// The sums over experts whose quotient is the likelihood of a row, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LnMixture {
    /// ln Σ_k e^{f_k} p_k(y).
    pub(crate) total: f64,
    /// ln Σ_k e^{f_k}.
    norm: f64,
}

impl LnMixture {
    /// Log likelihood of the row.
    pub(crate) fn likelihood(&self) -> f64 {
        self.total - self.norm
    }
}

/// The likelihood of a row in logarithms, from gate scores f_k (none for one expert) and ln p_k(y), which become the terms of the
/// total. What looks at single rows computes this; loops over many rows add up numbers, and come here where those leave their range.
pub(crate) fn ln_mixture(gates: &[f64], ln_given: &mut [f64]) -> LnMixture {
    ln_given.iter_mut().zip(gates).for_each(|(joint, f)| *joint += f);
    LnMixture { total: log_sum_exp(ln_given), norm: if gates.is_empty() { 0.0 } else { log_sum_exp(gates) } }
}

/// Likelihood (total + e^z q)/(norm + e^z) of a row in which one expert stands beside the sums of all others, from the sign of z and
/// e^{−|z|}: whatever z is, the larger of e^z and 1 becomes 1.
#[inline(always)]
pub(crate) fn beside<T>(positive: bool, small: T, q: T, norm: T, total: T) -> T
where
    T: Copy + From<u8> + Add<Output = T> + Mul<Output = T> + Div<Output = T>,
{
    let one = T::from(1);
    let e = if positive { one } else { small };
    let scale = if positive { small } else { one };
    (scale * total + e * q) / (scale * norm + e)
}

impl Gated {
    /// So many experts over so many classes; two classes have one score an expert, the log-odds of the second.
    pub fn new(experts: usize, classes: usize) -> Self {
        Self { experts, classes, odds_of: (classes == 2).then_some(1) }
    }

    /// Number of gate scores of a row.
    pub fn gates(&self) -> usize {
        if self.experts > 1 { self.experts } else { 0 }
    }

    /// Number of scores of an expert.
    pub fn units(&self) -> usize {
        if self.odds_of.is_some() { 1 } else { self.classes }
    }

    /// Number of scores of a row.
    pub fn columns(&self) -> usize {
        self.gates() + self.experts * self.units()
    }

    /// Log likelihood of each row, for the classes given; scores (n×columns) become its derivatives.
    pub fn slopes(&self, scores: &mut [f64], classes: &[u32], ln_likelihood: &mut [f64], work: &mut Work) {
        self.groups(scores, classes, ln_likelihood, work, Purpose::Slopes);
    }

    /// Log likelihood of each row, for the classes given; the scores are used up.
    pub fn values(&self, scores: &mut [f64], classes: &[u32], ln_likelihood: &mut [f64], work: &mut Work) {
        self.groups(scores, classes, ln_likelihood, work, Purpose::Value);
    }

    /// The share of each expert in each row, for the classes given, in the place of the gates' scores; the other scores are used up. One
    /// expert has no gate, and all of every row.
    pub fn shares(&self, scores: &mut [f64], classes: &[u32], ln_likelihood: &mut [f64], work: &mut Work) {
        self.groups(scores, classes, ln_likelihood, work, Purpose::Shares);
    }

    fn groups(&self, scores: &mut [f64], classes: &[u32], ln_likelihood: &mut [f64], work: &mut Work, purpose: Purpose) {
        let columns = self.columns();
        work.gate.resize(self.experts, [0.0; LANES]);
        work.score.resize(self.experts * self.units(), [0.0; LANES]);
        work.given.resize(self.experts, [0.0; LANES]);
        let groups = scores.chunks_mut(LANES * columns).zip(classes.chunks(LANES)).zip(ln_likelihood.chunks_mut(LANES));
        for ((scores, classes), ln_likelihood) in groups {
            let rows = classes.len();
            let mut class = [0.0; LANES];
            (0..rows).for_each(|l| class[l] = f64::from(classes[l]));
            let mut likelihood = [0.0; LANES];
            wide(
                #[inline(always)]
                || self.group(scores, rows, &class, work, purpose, &mut likelihood),
            );
            for l in 0..rows {
                ln_likelihood[l] = if likelihood[l] > SMALL {
                    likelihood[l].ln()
                } else {
                    self.row(&mut scores[l * columns..(l + 1) * columns], classes[l], purpose)
                };
            }
        }
    }

    /// Likelihoods of a group of rows; scores of rows whose likelihood is not small become derivatives where these are wanted.
    #[inline(always)]
    fn group(&self, scores: &mut [f64], rows: usize, class: &Lane, work: &mut Work, purpose: Purpose, likelihood: &mut Lane) {
        let (gates, units, columns) = (self.gates(), self.units(), self.columns());
        let Work { gate, score, given } = work;
        let (gate, score, given) = (&mut gate[..self.experts], &mut score[..self.experts * units], &mut given[..self.experts]);
        self.spread(scores, rows, gate, score);
        let (_, sum) = exponentials(gate);
        // probability of the row's class under each expert; scores become 1 − p (odds) or p (a score a class)
        let mut total = [0.0; LANES];
        if let Some(odds_of) = self.odds_of {
            let sign = each(|l| if class[l] == f64::from(odds_of) { 1.0 } else { -1.0 });
            for ((score, given), gate) in score.iter_mut().zip(given.iter_mut()).zip(gate.iter()) {
                let t = each(|l| sign[l] * score[l]);
                let small = each(|l| exp(-t[l].abs()));
                let below = each(|l| 1.0 / (1.0 + small[l]));
                *given = each(|l| if t[l] >= 0.0 { below[l] } else { small[l] * below[l] });
                *score = each(|l| sign[l] * if t[l] >= 0.0 { small[l] * below[l] } else { below[l] });
                total = each(|l| total[l] + gate[l] * given[l]);
            }
        } else {
            for ((score, given), gate) in score.chunks_exact_mut(units).zip(given.iter_mut()).zip(gate.iter()) {
                let (_, sum) = exponentials(score);
                let mut own = [0.0; LANES];
                for (c, score) in score.iter_mut().enumerate() {
                    *score = each(|l| score[l] / sum[l]);
                    own = each(|l| own[l] + if class[l] == c as f64 { score[l] } else { 0.0 });
                }
                *given = own;
                total = each(|l| total[l] + gate[l] * own[l]);
            }
        }
        *likelihood = each(|l| total[l] / sum[l]);
        if purpose == Purpose::Value {
            return;
        }
        for k in 0..self.experts {
            let share = each(|l| gate[k][l] * given[k][l] / total[l]);
            if purpose == Purpose::Shares {
                gate[k] = share;
                continue;
            }
            if gates > 0 {
                gate[k] = each(|l| share[l] - gate[k][l] / sum[l]);
            }
            if self.odds_of.is_some() {
                score[k] = each(|l| share[l] * score[k][l]);
            } else {
                for (c, score) in score[k * units..(k + 1) * units].iter_mut().enumerate() {
                    *score = each(|l| share[l] * (if class[l] == c as f64 { 1.0 } else { 0.0 } - score[l]));
                }
            }
        }
        for l in 0..rows {
            if likelihood[l] > SMALL {
                let row = &mut scores[l * columns..(l + 1) * columns];
                for (k, g) in gate[..gates].iter().enumerate() {
                    row[k] = g[l];
                }
                for (k, s) in score.iter().enumerate() {
                    row[gates + k] = s[l];
                }
            }
        }
    }

    /// ln p_k(y) from the scores of an expert.
    pub(crate) fn ln_given(&self, scores: &[f64], class: u32) -> f64 {
        match self.odds_of {
            Some(odds_of) => ln_sigmoid(if class == odds_of { scores[0] } else { -scores[0] }),
            None => scores[class as usize] - log_sum_exp(scores),
        }
    }

    /// Log likelihood of one row, in logarithms; scores become derivatives where these are wanted.
    fn row(&self, scores: &mut [f64], class: u32, purpose: Purpose) -> f64 {
        let (gates, units) = (self.gates(), self.units());
        let (f, s) = scores.split_at_mut(gates);
        let mut joint: Vec<f64> = s.chunks_exact(units).map(|s| self.ln_given(s, class)).collect();
        let mixture = ln_mixture(f, &mut joint);
        if purpose == Purpose::Shares {
            f.iter_mut().zip(&joint).for_each(|(f, joint)| *f = (joint - mixture.total).exp());
        }
        if purpose == Purpose::Slopes {
            for (k, joint) in joint.iter().enumerate() {
                let share = (joint - mixture.total).exp();
                if gates > 0 {
                    f[k] = share - (f[k] - mixture.norm).exp();
                }
                match self.odds_of {
                    Some(odds_of) => {
                        let sign = if class == odds_of { 1.0 } else { -1.0 };
                        s[k] = share * sign * ln_sigmoid(-sign * s[k]).exp();
                    }
                    None => {
                        let s = &mut s[k * units..(k + 1) * units];
                        let ln_sum = log_sum_exp(s);
                        for (c, s) in s.iter_mut().enumerate() {
                            *s = share * (f64::from(u8::from(c == class as usize)) - (*s - ln_sum).exp());
                        }
                    }
                }
            }
        }
        mixture.likelihood()
    }

    /// Class probabilities of each row, Σ_k π_k p_k(c): out (n×C) from scores (n×columns).
    pub fn mixtures(&self, scores: &[f64], out: &mut [f64], work: &mut Work) {
        work.gate.resize(self.experts, [0.0; LANES]);
        work.score.resize(self.experts * self.units(), [0.0; LANES]);
        work.given.resize(self.classes, [0.0; LANES]);
        for (scores, out) in scores.chunks(LANES * self.columns()).zip(out.chunks_mut(LANES * self.classes)) {
            wide(
                #[inline(always)]
                || self.mixture_group(scores, out, work),
            );
        }
    }

    #[inline(always)]
    fn mixture_group(&self, scores: &[f64], out: &mut [f64], work: &mut Work) {
        let (units, classes) = (self.units(), self.classes);
        let Work { gate, score, given } = work;
        let (gate, score, mixture) = (&mut gate[..self.experts], &mut score[..self.experts * units], &mut given[..classes]);
        let rows = out.len() / classes;
        self.spread(scores, rows, gate, score);
        let (_, sum) = exponentials(gate);
        mixture.fill([0.0; LANES]);
        if let Some(odds_of) = self.odds_of {
            let (own, other) = (odds_of as usize, 1 - odds_of as usize);
            for (score, gate) in score.iter().zip(gate.iter()) {
                let small = each(|l| exp(-score[l].abs()));
                let more = each(|l| 1.0 / (1.0 + small[l]));
                let less = each(|l| small[l] * more[l]);
                mixture[own] = each(|l| mixture[own][l] + gate[l] * if score[l] >= 0.0 { more[l] } else { less[l] });
                mixture[other] = each(|l| mixture[other][l] + gate[l] * if score[l] >= 0.0 { less[l] } else { more[l] });
            }
        } else {
            for (score, gate) in score.chunks_exact_mut(units).zip(gate.iter()) {
                let (_, total) = exponentials(score);
                let share = each(|l| gate[l] / total[l]);
                for (mixture, score) in mixture.iter_mut().zip(score.iter()) {
                    *mixture = each(|l| mixture[l] + share[l] * score[l]);
                }
            }
        }
        for mixture in mixture.iter_mut() {
            *mixture = each(|l| mixture[l] / sum[l]);
        }
        for (l, out) in out.chunks_exact_mut(classes).enumerate() {
            out.iter_mut().zip(mixture.iter()).for_each(|(o, m)| *o = m[l]);
        }
    }

    /// Spreads the scores of up to sixteen rows over lanes. Lanes without a row repeat the first: they must hold numbers that cost nothing.
    #[inline(always)]
    fn spread(&self, scores: &[f64], rows: usize, gate: &mut [Lane], score: &mut [Lane]) {
        let (gates, columns) = (self.gates(), self.columns());
        if gates == 0 {
            gate[0] = [0.0; LANES];
        }
        for l in 0..LANES {
            let row = &scores[(if l < rows { l } else { 0 }) * columns..][..columns];
            for (k, g) in gate[..gates].iter_mut().enumerate() {
                g[l] = row[k];
            }
            for (k, s) in score.iter_mut().enumerate() {
                s[l] = row[gates + k];
            }
        }
    }

    /// Probabilities of a row: of each expert behind the gate (`gates`, K), and of each class under each expert (`classes`, K×C).
    pub fn probabilities(&self, scores: &[f64], gates: &mut [f64], classes: &mut [f64]) {
        let (count, units) = (self.gates(), self.units());
        let (f, s) = scores.split_at(count);
        match count {
            0 => gates[0] = 1.0,
            _ => {
                let ln_sum = log_sum_exp(f);
                gates.iter_mut().zip(f).for_each(|(g, f)| *g = (f - ln_sum).exp());
            }
        }
        for (p, s) in classes.chunks_exact_mut(self.classes).zip(s.chunks_exact(units)) {
            match self.odds_of {
                Some(odds_of) => {
                    let odds_of = odds_of as usize;
                    p[odds_of] = ln_sigmoid(s[0]).exp();
                    p[1 - odds_of] = ln_sigmoid(-s[0]).exp();
                }
                None => {
                    let ln_sum = log_sum_exp(s);
                    p.iter_mut().zip(s).for_each(|(p, s)| *p = (s - ln_sum).exp());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::finite_difference::check_gradient;
    use crate::linalg::dot;

    const X: [[f64; 2]; 6] = [[1.0, 0.2], [-0.4, 1.1], [0.3, -0.9], [-1.2, -0.3], [0.8, 0.8], [0.1, 1.6]];

    /// Scores of the six rows from weights (one vector a score, the intercept last), and back: Σ dᵀ x̃.
    fn scores(weights: &[[f64; 3]]) -> Vec<f64> {
        X.iter().flat_map(|x| weights.iter().map(move |w| dot(w, &[x[0], x[1], 1.0]))).collect()
    }

    fn gradient(slopes: &[f64], column: usize, columns: usize) -> [f64; 3] {
        let mut out = [0.0; 3];
        for (x, s) in X.iter().zip(slopes.chunks(columns)) {
            for (o, x) in out.iter_mut().zip([x[0], x[1], 1.0]) {
                *o += s[column] * x;
            }
        }
        out
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-9)
    }

    /// Shares are π_k p_k(y) / Σ, also where the likelihood of a row would underflow.
    #[test]
    fn shares_are_posterior_probabilities_of_experts() {
        let gated = Gated::new(3, 2);
        let mut all = Vec::new();
        let rows = [[0.3, -0.2, 0.1, 2.0, -1.0, 0.5], [0.0, 1.0, 2.0, -700.0, -701.0, -699.5], [5.0, -5.0, 0.0, 40.0, -40.0, 0.0]];
        rows.iter().for_each(|r| all.extend_from_slice(r));
        let (classes, mut ln) = ([1, 1, 0], [0.0; 3]);
        gated.shares(&mut all, &classes, &mut ln, &mut Work::default());
        for ((row, class), found) in rows.iter().zip(classes).zip(all.chunks(6)) {
            let joint: Vec<f64> = (0..3).map(|k| row[k] + ln_sigmoid(if class == 1 { row[3 + k] } else { -row[3 + k] })).collect();
            let total = log_sum_exp(&joint);
            assert!(joint.iter().zip(found).all(|(j, f)| ((j - total).exp() - f).abs() < 1e-12), "{found:?}");
        }
    }

    /// Values computed apart from this code, in extended precision.
    #[test]
    fn two_classes_as_computed_elsewhere() {
        let weights = [[1.0, 0.0, 0.0], [-0.5, 0.5, 0.3], [0.0, -1.0, -0.1], [2.0, 0.0, 0.1], [-1.0, 1.0, 0.0], [0.0, 0.5, -0.2]];
        let gated = Gated::new(3, 2);
        let (mut s, mut ln) = (scores(&weights), [0.0; 6]);
        gated.slopes(&mut s, &[1, 0, 0, 1, 1, 0], &mut ln, &mut Work::default());
        assert!((ln.iter().sum::<f64>() + 4.4709041302).abs() < 2e-10);
        let expected = [
            [0.231966911, 0.811739046, 0.499676772],
            [-0.275278860, -0.809345934, -0.462170897],
            [0.043311949, -0.002393111, -0.037505875],
            [0.148018846, -0.352779658, -0.309047270],
            [0.003829131, -0.980653131, -0.448032330],
            [-0.122927729, 0.042723890, -0.066560278],
        ];
        for (c, e) in expected.iter().enumerate() {
            assert!(close(&gradient(&s, c, 6), e), "{c}");
        }
        for (x, p) in [([0.5, -0.5], 0.514745131), ([-1.0, 1.0], 0.794267239)] {
            let s: Vec<f64> = weights.iter().map(|w| dot(w, &[x[0], x[1], 1.0])).collect();
            let (mut gates, mut classes) = ([0.0; 3], [0.0; 6]);
            gated.probabilities(&s, &mut gates, &mut classes);
            let found: f64 = (0..3).map(|k| gates[k] * classes[2 * k + 1]).sum();
            assert!((found - p).abs() < 1e-9 && (classes[0] + classes[1] - 1.0).abs() < 1e-15);
        }
    }

    /// Any sizes and any number of rows: values are those of single rows in logarithms, slopes those of differences.
    #[test]
    fn groups_agree_with_single_rows_and_differences() {
        for (experts, classes, odds_of) in [(1, 2, Some(1)), (3, 2, Some(0)), (2, 2, None), (4, 3, None), (1, 4, None)] {
            let gated = Gated { experts, classes, odds_of };
            let columns = gated.columns();
            for rows in [1, 5, 16, 17, 40] {
                let z: Vec<f64> = (0..rows * columns).map(|i| 3.0 * (1.3 * i as f64 + 0.1).sin()).collect();
                let y: Vec<u32> = (0..rows).map(|i| (i % classes) as u32).collect();
                let (mut s, mut ln, mut work) = (z.clone(), vec![0.0; rows], Work::default());
                gated.slopes(&mut s, &y, &mut ln, &mut work);
                let (mut used, mut again) = (z.clone(), vec![0.0; rows]);
                gated.values(&mut used, &y, &mut again, &mut work);
                assert_eq!(ln, again);
                let mut all = vec![0.0; rows * classes];
                gated.mixtures(&z, &mut all, &mut work);
                for i in 0..rows {
                    let row = &z[i * columns..(i + 1) * columns];
                    let value = |row: &[f64]| gated.row(&mut row.to_vec(), y[i], Purpose::Value);
                    assert!((ln[i] - value(row)).abs() < 1e-13 * (1.0 + ln[i].abs()));
                    let worst = check_gradient(value, row, &s[i * columns..(i + 1) * columns]);
                    assert!(worst.relative_error < 1e-7, "{gated:?} {worst:?}");
                    let mut single = row.to_vec();
                    gated.row(&mut single, y[i], Purpose::Slopes);
                    assert!(single.iter().zip(&s[i * columns..]).all(|(a, b)| (a - b).abs() < 1e-13));
                    // class probabilities, of which the likelihood is one
                    let (mut p, mut gates, mut given) = (vec![0.0; classes], vec![0.0; experts], vec![0.0; experts * classes]);
                    gated.mixtures(row, &mut p, &mut work);
                    assert_eq!(p, all[i * classes..(i + 1) * classes]);
                    assert!((p[y[i] as usize].ln() - ln[i]).abs() < 1e-13 * (1.0 + ln[i].abs()));
                    gated.probabilities(row, &mut gates, &mut given);
                    for c in 0..classes {
                        let blend: f64 = (0..experts).map(|k| gates[k] * given[k * classes + c]).sum();
                        assert!((p[c] - blend).abs() < 1e-14, "{gated:?}");
                    }
                    // alone or in company
                    let (mut alone, mut ln_alone) = (row.to_vec(), [0.0]);
                    gated.slopes(&mut alone, &y[i..=i], &mut ln_alone, &mut work);
                    assert_eq!((&alone[..], ln_alone[0]), (&s[i * columns..(i + 1) * columns], ln[i]));
                }
            }
        }
    }

    /// Scores far beyond what exponentials hold.
    #[test]
    fn huge_scores_stay_finite() {
        let gated = Gated::new(2, 2);
        let mut s = vec![800.0, -800.0, -900.0, -2000.0, 1e5, 0.0, 1e4, -1e4];
        let mut ln = [0.0; 2];
        gated.slopes(&mut s, &[1, 0], &mut ln, &mut Work::default());
        assert!((ln[0] + 900.0).abs() < 1e-9 && (ln[1] + 1e4).abs() < 1e-9, "{ln:?}");
        assert!(s.iter().all(|v| v.is_finite()), "{s:?}");
        assert!((s[2] - 1.0).abs() < 1e-12 && (s[6] + 1.0).abs() < 1e-12);
    }
}
