//! Which labels to choose, once their probabilities are known: the rule that suits the score one will be judged by.
//!
//! | rule | chooses | suits |
//! |---|---|---|
//! | `hamming` | labels that are as likely as not | Hamming loss |
//! | `micro-f1` | labels above one threshold, that of the highest expected F1 of all rows together | micro F1 |
//! | `subset` | the likeliest set, among those seen before and those that components stand for | exact matches |
//! | `cardinality` | as many of the top labels as are expected | sets of the right size |

use serde::{Deserialize, Serialize};

use super::LabelPrediction;
use crate::special::log_sum_exp;

/// Labels with a probability of at least one half.
fn hamming(probability: &[f64]) -> Vec<bool> {
    probability.iter().map(|p| *p >= 0.5).collect()
}

/// The threshold of the highest expected micro F1: with F(t) = 2 Σ_{p≥t} p / (#{p≥t} + Σ p), the one t = F(t)/2.
///
/// The next probability below the first m raises F of these m if and only if it is above F/2. So F rises along the sorted probabilities
/// until it falls for good, and half of its highest value is the only fixed point.
pub fn micro_f1_threshold(probability: &[f64]) -> f64 {
    let mut sorted = probability.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let expected: f64 = sorted.iter().sum();
    let (mut taken, mut best) = (0.0, 0.0);
    for (i, p) in sorted.iter().enumerate() {
        taken += p;
        best = f64::max(best, 2.0 * taken / ((i + 1) as f64 + expected));
    }
    0.5 * best
}

fn micro_f1(probability: &[f64]) -> Vec<bool> {
    let threshold = micro_f1_threshold(probability);
    // where all are impossible the threshold is 0, and nothing is gained by any
    probability.iter().map(|p| *p >= threshold && *p > 0.0).collect()
}

/// The top Σ_c p_c labels of each row, rounded; the first of equals.
fn cardinality(probability: &[f64], score: &[f64], labels: usize) -> Vec<bool> {
    let mut chosen = vec![false; probability.len()];
    let mut order: Vec<usize> = Vec::with_capacity(labels);
    let rows = probability.chunks_exact(labels).zip(score.chunks_exact(labels));
    for ((p, score), chosen) in rows.zip(chosen.chunks_exact_mut(labels)) {
        let size = p.iter().sum::<f64>().round() as usize;
        order.clear();
        order.extend(0..labels);
        order.sort_by(|a, b| (score[*b] + 0.0).total_cmp(&(score[*a] + 0.0)));
        order.iter().take(size).for_each(|c| chosen[*c] = true);
    }
    chosen
}

impl LabelPrediction {
    /// Chooses labels by a rule that needs nothing but what is known here: `hamming`, `micro-f1` or `cardinality`. Any other word leaves the
    /// choice as it is, which is how `subset` is made: see [`SubsetRule`].
    pub fn decide(&mut self, rule: &str, labels: usize) {
        match rule {
            "hamming" => self.chosen = hamming(&self.probability),
            "micro-f1" => self.chosen = micro_f1(&self.probability),
            "cardinality" => self.chosen = cardinality(&self.probability, &self.score, labels.max(1)),
            _ => {}
        }
    }

    /// Gives empty sets their top label, the first of equals.
    pub fn fill_empty(&mut self, labels: usize) {
        let width = labels.max(1);
        for (score, chosen) in self.score.chunks_exact(width).zip(self.chosen.chunks_exact_mut(width)) {
            if !chosen.contains(&true) {
                let top = score.iter().enumerate().fold(0, |best, (c, s)| if *s > score[best] { c } else { best });
                chosen[top] = true;
            }
        }
    }
}

/// Distinct sets of labels, in ascending order of their lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSets {
    /// Where each set ends in `present`.
    ends: Vec<usize>,
    /// Labels of one set after the other, each in ascending order.
    present: Vec<u32>,
}

impl SeenSets {
    /// The sets of those rows (row-major: 1 present, 0 absent, -1 unknown) whose labels are all known.
    pub fn of(values: &[i8], labels: usize) -> Self {
        let known = values.chunks_exact(labels.max(1)).filter(|y| y.iter().all(|y| *y >= 0));
        let list = |y: &[i8]| y.iter().enumerate().filter(|(_, y)| **y == 1).map(|(c, _)| c as u32).collect::<Vec<_>>();
        Self::of_lists(known.map(list).collect())
    }

    /// The union of the two.
    pub fn union(&self, other: &Self) -> Self {
        // both ascend: the smaller of the two that are next comes next
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut all = Self::default();
        while let Some(next) = [left.peek(), right.peek()].into_iter().flatten().min().copied() {
            left.next_if(|set| *set == next);
            right.next_if(|set| *set == next);
            all.present.extend(next);
            all.ends.push(all.present.len());
        }
        all
    }

    fn of_lists(mut lists: Vec<Vec<u32>>) -> Self {
        lists.sort_unstable();
        lists.dedup();
        let mut all = Self::default();
        for list in lists {
            all.present.extend(list);
            all.ends.push(all.present.len());
        }
        all
    }

    /// The labels of each set.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.present[begin..*end])
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Chooses the likeliest set of labels of a row: of the sets seen before and those that components stand for, {c: p_kc ≥ 1/2}, the one
/// with the highest Σ_k r_k Π_c Bern(y_c; p_kc). Of equals the first: seen sets in their order, then components in theirs. It keeps its
/// memory between rows.
#[derive(Debug, Clone, Default)]
pub struct SubsetRule {
    /// ln r_k + Σ_c ln(1 − p_kc) of the components that count.
    empty: Vec<f64>,
    /// ln p_kc − ln(1 − p_kc), label by label, so that those of a label lie together.
    log_odds: Vec<f64>,
    /// Log probability of a set under each component.
    terms: Vec<f64>,
    /// The set of a component.
    own: Vec<u32>,
}

/// Components with a smaller share do not count.
const LEAST_SHARE: f64 = 1e-9;

impl SubsetRule {
    /// Writes the likeliest set of a row that comes from component k with probability `share[k]` and then has label c with probability
    /// `probability[k C + c]`.
    pub fn choose(&mut self, share: &[f64], probability: &[f64], seen: &SeenSets, chosen: &mut [bool]) {
        let labels = chosen.len();
        chosen.fill(false);
        if labels == 0 {
            return;
        }
        let counting = || share.iter().zip(probability.chunks_exact(labels)).filter(|(r, _)| **r >= LEAST_SHARE);
        let components = counting().count();
        self.empty.clear();
        self.log_odds.clear();
        self.log_odds.resize(labels * components, 0.0);
        for (k, (r, p)) in counting().enumerate() {
            let mut ln = r.ln();
            for (c, p) in p.iter().enumerate() {
                // what is impossible stays finite, so that no difference of two infinities arises
                let (present, absent) = (p.max(f64::MIN_POSITIVE).ln(), (1.0 - p).max(f64::MIN_POSITIVE).ln());
                ln += absent;
                self.log_odds[c * components + k] = present - absent;
            }
            self.empty.push(ln);
        }
        let (mut best, mut set): (f64, Option<&[u32]>) = (f64::NEG_INFINITY, None);
        for candidate in seen.iter() {
            if let Some(ln) = self.better(candidate, best) {
                (best, set) = (ln, Some(candidate));
            }
        }
        set.into_iter().flatten().for_each(|c| chosen[*c as usize] = true);
        let mut own = std::mem::take(&mut self.own);
        for (_, p) in counting() {
            own.clear();
            own.extend((0..labels).filter(|c| p[*c] >= 0.5).map(|c| c as u32));
            if let Some(ln) = self.better(&own, best) {
                best = ln;
                chosen.fill(false);
                own.iter().for_each(|c| chosen[*c as usize] = true);
            }
        }
        self.own = own;
    }

    /// The log probability of a set, if it is above the best so far.
    fn better(&mut self, set: &[u32], best: f64) -> Option<f64> {
        let components = self.empty.len();
        self.terms.clone_from(&self.empty);
        for c in set {
            let odds = &self.log_odds[*c as usize * components..][..components];
            self.terms.iter_mut().zip(odds).for_each(|(t, o)| *t += o);
        }
        let top = self.terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // no sum is above its number of terms times the largest
        if top + (components as f64).ln() <= best {
            return None;
        }
        let ln = log_sum_exp(&self.terms);
        (ln > best).then_some(ln)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prediction(probability: &[f64]) -> LabelPrediction {
        LabelPrediction { probability: probability.to_vec(), score: probability.to_vec(), ..LabelPrediction::default() }
    }

    fn decided(rule: &str, probability: &[f64], labels: usize) -> Vec<bool> {
        let mut p = prediction(probability);
        p.decide(rule, labels);
        p.chosen
    }

    const T: bool = true;
    const F: bool = false;

    #[test]
    fn rules_by_hand() {
        let p = [0.5, 0.4, 0.3, 0.1, 0.2, 0.3, 0.2, 0.2];
        assert_eq!(decided("hamming", &p, 4), [T, F, F, F, F, F, F, F]);
        // 1.3 and 0.9 labels are expected: one each
        assert_eq!(decided("cardinality", &p, 4), [T, F, F, F, F, T, F, F]);
        // F of the first 1, 2, …: 1/3.2, 1.8/4.2, 2.4/5.2, 3/6.2, 3.4/7.2, …: the fourth is the highest
        let t = micro_f1_threshold(&p);
        assert!((t - 0.5 * 3.0 / 6.2).abs() < 1e-15, "{t}");
        assert_eq!(decided("micro-f1", &p, 4), [T, T, T, F, F, T, F, F]);
        assert_eq!(decided("micro-f1", &[0.0; 3], 3), [F; 3]);
        assert_eq!(micro_f1_threshold(&[]), 0.0);
    }

    #[test]
    fn the_first_of_equals() {
        // 2.5 labels are three; of equals the first
        assert_eq!(decided("cardinality", &[0.5; 5], 5), [T, T, T, F, F]);
        // the scores rank where probabilities cannot
        let mut p = LabelPrediction { score: vec![1.0, 1.5, 1.5], ..prediction(&[1.0, 0.6, 0.6]) };
        p.decide("cardinality", 3);
        assert_eq!(p.chosen, [F, T, T]);
        let mut p = LabelPrediction { chosen: vec![F, F, F, T, F, F], ..prediction(&[0.1, 0.4, 0.4, 0.1, 0.2, 0.3]) };
        p.fill_empty(3);
        assert_eq!(p.chosen, [F, T, F, T, F, F]);
    }

    #[test]
    fn seen_sets_are_those_of_whole_rows() {
        let one = SeenSets::of(&[0, 1, 1, -1, 1, 0, 0, 0, 0, 0, 1, 1], 3);
        assert_eq!(one.iter().collect::<Vec<_>>(), [&[][..], &[1, 2]]);
        let two = SeenSets::of(&[1, 0, 0, 0, 1, 1], 3);
        let both = one.union(&two);
        assert_eq!(both.iter().collect::<Vec<_>>(), [&[][..], &[0], &[1, 2]]);
        assert_eq!((both.len(), both.is_empty(), both == two.union(&one), SeenSets::default().is_empty()), (3, false, true, true));
    }

    #[test]
    fn likeliest_sets_by_hand() {
        let mut rule = SubsetRule::default();
        let mut chosen = [F; 2];
        // two components that disagree on both labels: each label is as likely as not, but both or none are likelier than one
        let (share, p) = ([0.49, 0.51], [0.9, 0.9, 0.1, 0.1]);
        rule.choose(&share, &p, &SeenSets::default(), &mut chosen);
        assert_eq!(chosen, [F, F]);
        // impossible and sure labels give no NaN, and what was never seen is found through the components
        rule.choose(&[0.7, 0.3], &[1.0, 0.0, 0.0, 1.0], &SeenSets::of(&[1, 1, 0, 0], 2), &mut chosen);
        assert_eq!(chosen, [T, F]);
        // both labels together are likeliest (0.36 against 0.29), but the only component that stands for them is too rare to count
        let p = [0.9, 0.4, 0.4, 0.9, 0.6, 0.6];
        rule.choose(&[0.5, 0.5, 1e-10], &p, &SeenSets::default(), &mut chosen);
        assert_eq!(chosen, [T, F]);
        rule.choose(&[0.5, 0.5, 1e-8], &p, &SeenSets::default(), &mut chosen);
        assert_eq!(chosen, [T, T]);
        // of equals the first: seen sets in their order
        rule.choose(&[1.0], &[0.5, 0.5], &SeenSets::of(&[0, 1, 1, 0], 2), &mut chosen);
        assert_eq!(chosen, [T, F]);
        rule.choose(&[0.5, 0.5], &[0.5, 0.75, 0.5, 0.25], &SeenSets::of(&[0, 0, 1, 0], 2), &mut chosen);
        assert_eq!(chosen, [F, F]);
    }

    proptest! {
        /// t = F(t)/2 from the definition of F, and no other number of top labels promises more.
        #[test]
        fn the_threshold_is_the_fixed_point(p in proptest::collection::vec(0u8..=20, 1..30)) {
            let p: Vec<f64> = p.iter().map(|p| f64::from(*p) / 20.0).collect();
            let expected: f64 = p.iter().sum();
            let f = |t: f64| {
                let above = || p.iter().filter(|p| **p >= t);
                if above().count() == 0 { 0.0 } else { 2.0 * above().sum::<f64>() / (above().count() as f64 + expected) }
            };
            let t = micro_f1_threshold(&p);
            // a probability that equals the threshold changes nothing, on whichever side rounding puts it
            prop_assert!((f(t) / 2.0 - t).abs() < 1e-12, "{} {}", t, f(t));
            for level in &p {
                prop_assert!(f(*level) <= 2.0 * t + 1e-12);
            }
        }

        /// Plain products and sums over all candidates.
        #[test]
        fn the_likeliest_set_is_the_likeliest(
            labels in 1usize..5,
            components in 1usize..4,
            cells in proptest::collection::vec(0.0..1.0f64, 20),
            rows in proptest::collection::vec(0u8..2, 0..40),
        ) {
            let total: f64 = cells[..components].iter().sum::<f64>() + 1e-3 * components as f64;
            let share: Vec<f64> = cells[..components].iter().map(|r| (r + 1e-3) / total).collect();
            let p = &cells[components..components * (labels + 1)];
            let rows: Vec<i8> = rows[..rows.len() / labels * labels].iter().map(|v| *v as i8).collect();
            let likelihood = |set: &[bool]| {
                let under = |k: usize| (0..labels).map(|c| if set[c] { p[k * labels + c] } else { 1.0 - p[k * labels + c] }).product::<f64>();
                (0..components).map(|k| share[k] * under(k)).sum::<f64>()
            };
            let seen: Vec<Vec<bool>> = rows.chunks_exact(labels).map(|r| r.iter().map(|v| *v == 1).collect()).collect();
            let own: Vec<Vec<bool>> = p.chunks_exact(labels).map(|p| p.iter().map(|p| *p >= 0.5).collect()).collect();
            let mut chosen = vec![true; labels];
            SubsetRule::default().choose(&share, p, &SeenSets::of(&rows, labels), &mut chosen);
            let best = seen.iter().chain(&own).map(|s| likelihood(s)).fold(0.0, f64::max);
            prop_assert!(likelihood(&chosen) >= best * (1.0 - 1e-9));
            prop_assert!(seen.contains(&chosen) || own.contains(&chosen));
        }
    }
}
