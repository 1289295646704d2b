//! Scores of predicted sets of labels: what was chosen, how labels were ranked, and how far their probabilities can be trusted.
//!
//! Truth may be unknown entry by entry. Scores that are made of entries (Hamming loss, micro and macro F1, log loss, calibration) leave
//! such entries out; all others are made of rows, and leave out the rows that hold one.

use crate::answer::LabelPrediction;

/// How sets of labels of some rows were predicted. A score that these rows do not define is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LabelScores {
    /// Number of rows.
    pub rows: usize,
    /// Rows whose labels are all known.
    pub known_rows: usize,
    /// Entries that are known: one a row and label.
    pub known_entries: usize,
    /// Share of the entries that were predicted wrongly.
    pub hamming_loss: Option<f64>,
    /// Share of the rows whose set is exactly the true one.
    pub subset_accuracy: Option<f64>,
    /// Mean over rows of F1; an empty set that was predicted as such has 1.
    pub example_f1: Option<f64>,
    /// Mean over rows of the labels in both sets over those in either; 1 where both are empty.
    pub jaccard: Option<f64>,
    /// F1 of all entries together; 0 where no label is true or chosen.
    pub micro_f1: Option<f64>,
    /// Mean over labels of the F1 of each; 0 for one that is neither true nor chosen. A label that is known of no row does not count.
    pub macro_f1: Option<f64>,
    /// Mean over rows of the share of pairs, of a true and a false label, that are ranked wrongly; ties count half. Rows without such
    /// pairs count 0.
    pub ranking_loss: Option<f64>,
    /// Share of the rows whose top label is not true, among those that have a label; the first of equals is the top.
    pub one_error: Option<f64>,
    /// Mean over rows of how many further labels must be taken, from the top, to have all true ones; 0 for an empty set.
    pub coverage: Option<f64>,
    /// Mean over rows of the mean over true labels of the share of true ones among those ranked as high; 1 for empty and full sets.
    pub average_precision: Option<f64>,
    /// Mean over entries of −ln of the probability of what is true. A probability below the smallest normal double counts as that.
    pub log_loss: Option<f64>,
    /// Distance between the mean probability and the share of true ones in ten bins of equal width, averaged over the entries.
    pub calibration_error: Option<f64>,
}

/// Bins of the calibration error.
const BINS: usize = 10;

impl LabelScores {
    /// Compares a prediction with the truth: row-major, 1 present, 0 absent, -1 unknown. `labels` is how many there are.
    pub fn of(predicted: &LabelPrediction, truth: &[i8], labels: usize) -> Self {
        let width = labels.max(1);
        let mut entries = Entries::new(labels);
        let (mut rows, mut ranks) = (Rows::default(), Ranks::default());
        let mut count = 0;
        let scored = predicted.probability.chunks_exact(width).zip(predicted.score.chunks_exact(width));
        for (((p, s), chosen), y) in scored.zip(predicted.chosen.chunks_exact(width)).zip(truth.chunks_exact(width)) {
            count += 1;
            entries.add(p, chosen, y);
            if y.iter().all(|y| *y >= 0) {
                rows.add(chosen, y);
                ranks.add(s, y);
            }
        }
        let mut all = Self { rows: count, known_rows: rows.rows, known_entries: entries.known, ..Self::default() };
        entries.tell(&mut all);
        rows.tell(&mut all);
        ranks.tell(&mut all);
        all
    }

    /// Every score with its name, in the order in which they are told.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 12] {
        [
            ("hamming_loss", self.hamming_loss),
            ("subset_accuracy", self.subset_accuracy),
            ("example_f1", self.example_f1),
            ("jaccard", self.jaccard),
            ("micro_f1", self.micro_f1),
            ("macro_f1", self.macro_f1),
            ("ranking_loss", self.ranking_loss),
            ("one_error", self.one_error),
            ("coverage", self.coverage),
            ("average_precision", self.average_precision),
            ("log_loss", self.log_loss),
            ("calibration_error", self.calibration_error),
        ]
    }
}

fn mean(sum: f64, count: usize) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// 2 TP / (true + chosen), or this value without either.
fn f1(both: usize, true_ones: usize, chosen: usize, otherwise: f64) -> f64 {
    match true_ones + chosen {
        0 => otherwise,
        sum => 2.0 * both as f64 / sum as f64,
    }
}

/// −ln of the probability that a label has what is true of it.
pub(crate) fn entry_loss(probability: f64, present: bool) -> f64 {
    -(if present { probability } else { 1.0 - probability }).max(f64::MIN_POSITIVE).ln()
}

/// Sums over known entries.
struct Entries {
    known: usize,
    wrong: usize,
    log_loss: f64,
    /// Of each label: known, true, chosen, both.
    labels: Vec<[usize; 4]>,
    /// Of each bin: Σ p, Σ y.
    bins: [(f64, f64); BINS],
}

impl Entries {
    fn new(labels: usize) -> Self {
        Self { known: 0, wrong: 0, log_loss: 0.0, labels: vec![[0; 4]; labels], bins: [(0.0, 0.0); BINS] }
    }

    fn add(&mut self, p: &[f64], chosen: &[bool], y: &[i8]) {
        for (c, y) in y.iter().enumerate().filter(|(_, y)| **y >= 0) {
            let present = *y == 1;
            self.known += 1;
            self.wrong += usize::from(present != chosen[c]);
            self.log_loss += entry_loss(p[c], present);
            let [known, true_ones, picked, both] = &mut self.labels[c];
            *known += 1;
            *true_ones += usize::from(present);
            *picked += usize::from(chosen[c]);
            *both += usize::from(present && chosen[c]);
            let bin = &mut self.bins[((p[c] * BINS as f64) as usize).min(BINS - 1)];
            bin.0 += p[c];
            bin.1 += f64::from(*y);
        }
    }

    fn tell(&self, all: &mut LabelScores) {
        all.hamming_loss = mean(self.wrong as f64, self.known);
        all.log_loss = mean(self.log_loss, self.known);
        all.calibration_error = mean(self.bins.iter().map(|(p, y)| (p - y).abs()).sum(), self.known);
        let sum = |of: usize| self.labels.iter().map(|l| l[of]).sum::<usize>();
        all.micro_f1 = (self.known > 0).then(|| f1(sum(3), sum(1), sum(2), 0.0));
        let known = self.labels.iter().filter(|l| l[0] > 0);
        let each: Vec<f64> = known.map(|[_, true_ones, chosen, both]| f1(*both, *true_ones, *chosen, 0.0)).collect();
        all.macro_f1 = mean(each.iter().sum(), each.len());
    }
}

/// Sums over rows whose labels are all known, of what was chosen.
#[derive(Default)]
struct Rows {
    rows: usize,
    exact: usize,
    f1: f64,
    jaccard: f64,
}

impl Rows {
    fn add(&mut self, chosen: &[bool], y: &[i8]) {
        let (mut both, mut either, mut sum) = (0, 0, 0);
        for (chosen, y) in chosen.iter().zip(y) {
            let present = *y == 1;
            both += usize::from(present && *chosen);
            either += usize::from(present || *chosen);
            sum += usize::from(present) + usize::from(*chosen);
        }
        self.rows += 1;
        self.exact += usize::from(both == either);
        self.f1 += f1(both, sum, 0, 1.0);
        self.jaccard += if either == 0 { 1.0 } else { both as f64 / either as f64 };
    }

    fn tell(&self, all: &mut LabelScores) {
        all.subset_accuracy = mean(self.exact as f64, self.rows);
        all.example_f1 = mean(self.f1, self.rows);
        all.jaccard = mean(self.jaccard, self.rows);
    }
}

/// Sums over rows whose labels are all known, of how their labels were ranked.
#[derive(Default)]
struct Ranks {
    rows: usize,
    with_labels: usize,
    loss: f64,
    top_wrong: usize,
    coverage: usize,
    precision: f64,
    /// Labels from the highest score to the lowest.
    order: Vec<usize>,
}

impl Ranks {
    fn add(&mut self, score: &[f64], y: &[i8]) {
        let labels = y.len();
        let relevant = y.iter().filter(|y| **y == 1).count();
        self.rows += 1;
        if relevant == 0 {
            self.precision += 1.0;
            return;
        }
        self.order.clear();
        self.order.extend(0..labels);
        // adding 0 makes one zero of the two; the sort is stable, so the first of equals comes first
        self.order.sort_by(|a, b| (score[*b] + 0.0).total_cmp(&(score[*a] + 0.0)));
        self.with_labels += 1;
        self.top_wrong += usize::from(y[self.order[0]] != 1);
        let (mut hits, mut wrong_pairs, mut precision, mut last) = (0usize, 0.0, 0.0, 0usize);
        let mut first = 0;
        while first < labels {
            // a run of equal scores; all before it are higher
            let run = self.order[first..].iter().take_while(|c| score[**c] == score[self.order[first]]).count().max(1);
            let end = first + run;
            let here = self.order[first..end].iter().filter(|c| y[**c] == 1).count();
            let above = first - hits;
            wrong_pairs += here as f64 * (above as f64 + 0.5 * (run - here) as f64);
            hits += here;
            if here > 0 {
                precision += here as f64 * hits as f64 / end as f64;
                last = end;
            }
            first = end;
        }
        self.coverage += last - 1;
        let irrelevant = labels - relevant;
        if irrelevant == 0 {
            self.precision += 1.0;
        } else {
            self.precision += precision / relevant as f64;
            self.loss += wrong_pairs / (relevant as f64 * irrelevant as f64);
        }
    }

    fn tell(&self, all: &mut LabelScores) {
        all.ranking_loss = mean(self.loss, self.rows);
        all.one_error = mean(self.top_wrong as f64, self.with_labels);
        all.coverage = mean(self.coverage as f64, self.rows);
        all.average_precision = mean(self.precision, self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Probabilities that are scores too, with labels chosen from one half on.
    fn at_half(probability: &[f64]) -> LabelPrediction {
        let chosen = probability.iter().map(|p| *p >= 0.5).collect();
        LabelPrediction { probability: probability.to_vec(), score: probability.to_vec(), chosen, novelty: Vec::new() }
    }

    #[track_caller]
    fn near(found: Option<f64>, expected: f64) {
        assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} is not {expected}");
    }

    #[test]
    fn scores_by_hand() {
        let truth = [1, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1];
        let scores = [0.9, 0.3, 0.4, 0.35, 0.2, 0.45, 0.6, 0.1, 0.8, 0.7, 0.75, 0.2];
        let all = LabelScores::of(&at_half(&scores), &truth, 4);
        assert_eq!((all.rows, all.known_rows, all.known_entries), (3, 3, 12));
        near(all.hamming_loss, 5.0 / 12.0);
        near(all.micro_f1, 6.0 / 11.0);
        near(all.macro_f1, 5.0 / 12.0);
        near(all.example_f1, 4.0 / 9.0);
        near(all.jaccard, 1.0 / 3.0);
        near(all.subset_accuracy, 0.0);
        near(all.ranking_loss, 1.0 / 3.0);
        // 1, 1/2 and (1 + 2/3 + 3/4)/3
        near(all.average_precision, 83.0 / 108.0);
        near(all.coverage, 5.0 / 3.0);
        near(all.one_error, 1.0 / 3.0);
    }

    /// Ten rows, one of them empty and one full.
    const TRUTH: [[i8; 5]; 10] = [
        [0, 0, 0, 1, 1],
        [1, 0, 1, 1, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1],
        [1, 1, 1, 1, 1],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 1, 0],
    ];
    const SCORES: [[f64; 5]; 10] = [
        [0.056, 0.549, 0.239, 0.968, 0.61],
        [0.959, 0.362, 0.506, 0.832, 0.438],
        [0.445, 0.651, 0.144, 0.417, 0.07],
        [0.45, 0.413, 0.245, 0.519, 0.126],
        [0.254, 0.869, 0.247, 0.814, 0.398],
        [0.612, 0.99, 0.47, 0.526, 0.449],
        [0.463, 0.901, 0.261, 0.36, 0.662],
        [0.973, 0.556, 0.611, 0.351, 0.623],
        [0.41, 0.608, 0.95, 0.563, 0.643],
        [0.122, 0.535, 0.452, 0.613, 0.048],
    ];

    /// Values of scikit-learn 1.9.1 (`average="samples"` with `zero_division=1`). Its coverage counts the label itself, so that ours is less
    /// by one for the nine rows that have labels.
    #[test]
    fn agrees_with_scikit_learn() {
        let all = LabelScores::of(&at_half(&SCORES.concat()), &TRUTH.concat(), 5);
        for (found, expected) in [
            (all.hamming_loss, 0.2),
            (all.subset_accuracy, 0.4),
            (all.example_f1, 0.7255555555555555),
            (all.jaccard, 0.655),
            (all.micro_f1, 0.782608695652174),
            (all.macro_f1, 0.7891208791208791),
            (all.ranking_loss, 0.1),
            (all.coverage, 2.7 - 0.9),
            (all.average_precision, 0.9283333333333333),
            (all.log_loss, 0.4416514611548623),
        ] {
            near(found, expected);
        }
        // with ties, of which coverage and average precision think alike there and here
        let coarse: Vec<f64> = SCORES.concat().iter().map(|s| (s * 10.0).round_ties_even().clamp(1.0, 9.0) / 10.0).collect();
        let all = LabelScores::of(&at_half(&coarse), &TRUTH.concat(), 5);
        for (found, expected) in [
            (all.hamming_loss, 0.22),
            (all.subset_accuracy, 0.3),
            (all.macro_f1, 0.7688034188034187),
            (all.coverage, 2.7 - 0.9),
            (all.average_precision, 0.9283333333333333),
            (all.log_loss, 0.4340223939243584),
        ] {
            near(found, expected);
        }
    }

    #[test]
    fn what_is_not_defined_is_not_told() {
        let none = LabelScores::of(&LabelPrediction::default(), &[], 3);
        assert_eq!(none, LabelScores::default());
        // no row is fully known, and the second label is known nowhere
        let part = LabelScores::of(&at_half(&[0.9, 0.9, 0.2, 0.9]), &[1, -1, 0, -1], 2);
        assert_eq!((part.rows, part.known_rows, part.known_entries), (2, 0, 2));
        assert_eq!((part.hamming_loss, part.macro_f1, part.micro_f1), (Some(0.0), Some(1.0), Some(1.0)));
        for undefined in [part.subset_accuracy, part.jaccard, part.ranking_loss, part.coverage, part.one_error, part.average_precision] {
            assert_eq!(undefined, None);
        }
        // rows without labels have no top label that could be wrong
        let empty = LabelScores::of(&at_half(&[0.1, 0.2]), &[0, 0], 2);
        assert_eq!((empty.one_error, empty.average_precision, empty.jaccard, empty.micro_f1), (None, Some(1.0), Some(1.0), Some(0.0)));
        // what was thought impossible is dear, but finite
        let sure = LabelScores::of(&at_half(&[0.0, 1.0]), &[1, 0], 2);
        assert!(sure.log_loss.unwrap() > 708.0 && sure.log_loss.unwrap().is_finite());
    }

    /// Ranks are those of the scores, not of the probabilities.
    #[test]
    fn labels_are_ranked_by_their_scores() {
        let found = LabelPrediction { score: vec![1.1, 1.4], ..at_half(&[1.0, 1.0]) };
        assert_eq!(LabelScores::of(&found, &[1, 0], 2).ranking_loss, Some(1.0));
        assert_eq!(LabelScores::of(&at_half(&[1.0, 1.0]), &[1, 0], 2).ranking_loss, Some(0.5));
        // there is one zero
        assert_eq!(LabelScores::of(&at_half(&[-0.0, 0.0]), &[1, 0], 2).one_error, Some(0.0));
    }

    #[test]
    fn calibration_by_hand() {
        // bins [0.2, 0.3): mean 0.25, one of two; [0.9, 1]: mean 0.97, two of two
        let all = LabelScores::of(&at_half(&[0.2, 0.3 - 1e-15, 0.94, 1.0]), &[1, 0, 1, 1], 1);
        near(all.calibration_error, 0.5 * 0.25 + 0.5 * 0.03);
        assert_eq!(all.figures().map(|f| f.0)[11], "calibration_error");
    }

    /// The definitions, word for word.
    fn plainly(p: &LabelPrediction, y: &[i8], labels: usize) -> LabelScores {
        let rows = y.len() / labels;
        let at = |i: usize, c: usize| i * labels + c;
        let known: Vec<usize> = (0..y.len()).filter(|e| y[*e] >= 0).collect();
        let whole: Vec<usize> = (0..rows).filter(|i| (0..labels).all(|c| y[at(*i, c)] >= 0)).collect();
        let average = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let f1 = |entries: &[usize]| {
            let (both, sum) = entries.iter().fold((0, 0), |(both, sum), e| {
                (both + i32::from(y[*e] == 1 && p.chosen[*e]), sum + i32::from(y[*e]) + i32::from(p.chosen[*e]))
            });
            (both, sum)
        };
        let or = |(both, sum): (i32, i32), otherwise: f64| if sum == 0 { otherwise } else { 2.0 * f64::from(both) / f64::from(sum) };
        let row = |i: usize| (0..labels).map(|c| at(i, c)).collect::<Vec<_>>();
        let relevant = |i: usize| row(i).into_iter().filter(|e| y[*e] == 1).collect::<Vec<_>>();
        let others = |i: usize| row(i).into_iter().filter(|e| y[*e] == 0).collect::<Vec<_>>();
        let as_high = |i: usize, e: usize| row(i).into_iter().filter(|o| p.score[*o] >= p.score[e]).collect::<Vec<_>>();
        let each = |f: &dyn Fn(usize) -> f64| average(whole.iter().map(|i| f(*i)).collect());
        let loss = |i: usize| {
            let (r, q) = (relevant(i), others(i));
            let mut wrong = 0.0;
            for a in &r {
                for b in &q {
                    wrong += if p.score[*a] < p.score[*b] { 1.0 } else { 0.0 };
                    wrong += if p.score[*a] == p.score[*b] { 0.5 } else { 0.0 };
                }
            }
            if r.is_empty() || q.is_empty() { 0.0 } else { wrong / (r.len() * q.len()) as f64 }
        };
        let precision = |i: usize| {
            let (r, q) = (relevant(i), others(i));
            let share = |e: &usize| {
                let high = as_high(i, *e);
                high.iter().filter(|o| y[**o] == 1).count() as f64 / high.len() as f64
            };
            if r.is_empty() || q.is_empty() { 1.0 } else { r.iter().map(share).sum::<f64>() / r.len() as f64 }
        };
        let top_is_wrong = |i: usize| {
            let top = row(i).into_iter().fold(at(i, 0), |best, e| if p.score[e] > p.score[best] { e } else { best });
            f64::from(u8::from(y[top] != 1))
        };
        let by_label = |c: usize| (0..rows).map(|i| at(i, c)).filter(|e| y[*e] >= 0).collect::<Vec<_>>();
        let bin = |e: usize| ((p.probability[e] * 10.0).floor() as usize).min(9);
        let gap = |b: usize| {
            let here: Vec<usize> = known.iter().copied().filter(|e| bin(*e) == b).collect();
            let mean = |f: &dyn Fn(usize) -> f64| here.iter().map(|e| f(*e)).sum::<f64>() / here.len().max(1) as f64;
            here.len() as f64 / known.len() as f64 * (mean(&|e| p.probability[e]) - mean(&|e| f64::from(y[e]))).abs()
        };
        LabelScores {
            rows,
            known_rows: whole.len(),
            known_entries: known.len(),
            hamming_loss: average(known.iter().map(|e| f64::from(u8::from((y[*e] == 1) != p.chosen[*e]))).collect()),
            subset_accuracy: each(&|i| f64::from(u8::from(row(i).into_iter().all(|e| (y[e] == 1) == p.chosen[e])))),
            example_f1: each(&|i| or(f1(&row(i)), 1.0)),
            jaccard: each(&|i| {
                let (both, sum) = f1(&row(i));
                if sum == 0 { 1.0 } else { f64::from(both) / f64::from(sum - both) }
            }),
            micro_f1: (!known.is_empty()).then(|| or(f1(&known), 0.0)),
            macro_f1: average((0..labels).map(by_label).filter(|l| !l.is_empty()).map(|l| or(f1(&l), 0.0)).collect()),
            ranking_loss: each(&loss),
            one_error: average(whole.iter().filter(|i| !relevant(**i).is_empty()).map(|i| top_is_wrong(*i)).collect()),
            coverage: each(&|i| relevant(i).iter().map(|e| as_high(i, *e).len() - 1).max().unwrap_or(0) as f64),
            average_precision: each(&precision),
            log_loss: average(known.iter().map(|e| -(if y[*e] == 1 { p.probability[*e] } else { 1.0 - p.probability[*e] }).ln()).collect()),
            calibration_error: (!known.is_empty()).then(|| (0..10).map(gap).sum()),
        }
    }

    proptest! {
        /// Few distinct scores, so that many are tied; unknown entries, empty and full sets.
        #[test]
        fn agrees_with_the_definitions(
            labels in 1usize..7,
            cells in proptest::collection::vec((0usize..14, 1u8..20, -2i8..6, any::<bool>()), 0..60),
            flat in proptest::collection::vec(0usize..4, 10),
        ) {
            let rows = cells.len() / labels;
            let cells = &cells[..rows * labels];
            // mostly known entries; rows of one kind here and there
            let mut y: Vec<i8> = cells.iter().map(|(k, ..)| if *k == 0 { -1 } else { (*k % 2) as i8 }).collect();
            for (row, kind) in y.chunks_exact_mut(labels).zip(&flat) {
                match kind { 0 => row.fill(0), 1 => row.fill(1), _ => {} }
            }
            let found = LabelPrediction {
                probability: cells.iter().map(|c| f64::from(c.1) / 20.0).collect(),
                score: cells.iter().map(|c| f64::from(c.2) / 2.0 * if c.3 && c.2 == 0 { -1.0 } else { 1.0 }).collect(),
                chosen: cells.iter().map(|c| c.3).collect(),
                novelty: Vec::new(),
            };
            let (quick, plain) = (LabelScores::of(&found, &y, labels), plainly(&found, &y, labels));
            prop_assert_eq!((quick.rows, quick.known_rows, quick.known_entries), (plain.rows, plain.known_rows, plain.known_entries));
            for ((name, a), (_, b)) in quick.figures().into_iter().zip(plain.figures()) {
                prop_assert_eq!(a.is_some(), b.is_some(), "{}", name);
                prop_assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-12, "{}: {:?} {:?}", name, a, b);
            }
        }
    }
}
