//! A 64-bit fingerprint of what a data set holds, to recognise the same data when a run is resumed.
//!
//! Four lanes take one 64-bit word each in turn: lane ← mix((lane ⊕ word)·K). Each step is invertible in the word, so two inputs
//! of equal length that differ in a single word never collide; other collisions are as rare as chance (2⁻⁶⁴). It guards against
//! mistakes, not against an adversary. The value is the same on every platform. Dense and sparse storage of equal numbers differ.
//!
//! Each row has a digest of its own, mixed with the number of the row; the fingerprint is made of their sum (modulo 2⁶⁴) and of the
//! header. So it does not depend on how rows are cut, and workers that hold some of them add up what they have.

use super::{Block, Dataset, Header, Matrix, Target, TargetView, X, blocks};

/// How fingerprints are made. Runs record it; version 1 took all numbers in one go, from left to right.
pub const FINGERPRINT_VERSION: u32 = 2;

const K: u64 = 0x9e37_79b9_7f4a_7c15; // odd, so that multiplying is invertible

/// Takes words, numbers and texts one after the other.
#[derive(Debug, Clone)]
pub(super) struct Fingerprint {
    lanes: [u64; 4],
    words: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { lanes: [1, 2, 3, 4].map(|i: u64| i.wrapping_mul(K)), words: 0 }
    }
}

fn step(lane: u64, word: u64) -> u64 {
    let v = (lane ^ word).wrapping_mul(K);
    v ^ (v >> 29)
}

impl Fingerprint {
    /// Takes words; a list is told from its parts by the words that its caller puts before it.
    pub(super) fn words(&mut self, words: impl ExactSizeIterator<Item = u64>) {
        let mut words = words;
        while !self.words.is_multiple_of(4) {
            match words.next() {
                Some(w) => self.word(w),
                None => return,
            }
        }
        let mut lanes = self.lanes;
        while words.len() >= 4 {
            for lane in &mut lanes {
                *lane = step(*lane, words.next().unwrap_or(0));
            }
            self.words += 4;
        }
        self.lanes = lanes;
        words.for_each(|w| self.word(w));
    }

    /// Takes one word.
    pub(super) fn word(&mut self, word: u64) {
        let lane = &mut self.lanes[(self.words % 4) as usize];
        *lane = step(*lane, word);
        self.words += 1;
    }

    /// Takes numbers and how many they are.
    pub(super) fn numbers(&mut self, values: &[f64]) {
        self.word(values.len() as u64);
        self.words(values.iter().map(|v| v.to_bits()));
    }

    /// Takes codes and how many they are.
    pub(super) fn codes(&mut self, codes: &[u32]) {
        self.word(codes.len() as u64);
        let pairs = codes.chunks_exact(2);
        let last = pairs.remainder().first().copied();
        self.words(pairs.map(|p| p[0] as u64 | (p[1] as u64) << 32));
        last.into_iter().for_each(|c| self.word(c as u64));
    }

    /// Takes bytes and how many they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.words(bytes.chunks(8).map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | b as u64)));
    }

    /// Takes texts and how many they are.
    pub(super) fn texts(&mut self, texts: &[String]) {
        self.word(texts.len() as u64);
        texts.iter().for_each(|t| self.bytes(t.as_bytes()));
    }

    /// The fingerprint of all that was taken.
    pub(super) fn finish(&self) -> u64 {
        let joined = self.lanes.iter().fold(self.words, |h, &lane| step(h.rotate_left(23), lane));
        let v = (joined ^ (joined >> 32)).wrapping_mul(K);
        v ^ (v >> 31)
    }
}

impl Block<'_> {
    /// Sum of the digests of the rows.
    pub(super) fn digest(&self, width: usize) -> u64 {
        (0..self.rows()).map(|i| self.row_digest(i, width)).fold(0, u64::wrapping_add)
    }

    /// Digest of a row and its number; `width` is the number of targets.
    fn row_digest(&self, i: usize, width: usize) -> u64 {
        let mut f = Fingerprint::default();
        f.word(self.first_row + i as u64);
        match self.x {
            X::Dense { cols, values, .. } => f.words(values[i * cols..(i + 1) * cols].iter().map(|v| v.to_bits())),
            X::Csr { .. } => {
                let (indices, values) = self.x.sparse_row(i);
                f.codes(indices);
                f.words(values.iter().map(|v| v.to_bits()));
            }
        }
        match self.y {
            TargetView::None => {}
            TargetView::Classes(codes) => f.word(codes[i] as u64),
            TargetView::Labels(values) => f.bytes(&values[i * width..(i + 1) * width].iter().map(|v| *v as u8).collect::<Vec<_>>()),
            TargetView::Real(values) => f.words(values[i * width..(i + 1) * width].iter().map(|v| v.to_bits())),
        }
        if let Some(sources) = self.sources {
            f.word(sources[i] as u64);
        }
        if let Some(weights) = self.weights {
            f.word(weights[i].to_bits());
        }
        f.finish()
    }
}

impl Dataset<'_> {
    /// Fingerprint of features, names, target, sources and weights, whose lengths must agree.
    pub fn fingerprint(&self) -> u64 {
        let (header, rows) = (Header::of(self), self.rows());
        let of_rows = blocks(self, rows.max(1)).first().map_or(0, |all| all.digest(header.target.width()));
        header.fingerprint(rows as u64, of_rows)
    }

    /// The fingerprint that a run of an earlier version recorded; none if no version is known by this number.
    pub fn fingerprint_of_version(&self, version: u32) -> Option<u64> {
        match version {
            1 => Some(self.fingerprint_1()),
            FINGERPRINT_VERSION => Some(self.fingerprint()),
            _ => None,
        }
    }

    /// Version 1: everything from left to right.
    fn fingerprint_1(&self) -> u64 {
        let mut f = Fingerprint::default();
        match &self.x {
            Matrix::Dense { rows, cols, values } => {
                f.words([1, *rows as u64, *cols as u64].into_iter());
                f.numbers(values);
            }
            Matrix::Csr { rows, cols, indptr, indices, values } => {
                f.words([2, *rows as u64, *cols as u64].into_iter());
                f.words(indptr.iter().map(|&v| v as u64));
                f.codes(indices);
                f.numbers(values);
            }
        }
        f.texts(&self.columns);
        match &self.target {
            Target::None => f.word(0),
            Target::Classes(c) => {
                f.word(1);
                f.codes(&c.codes);
                f.texts(&c.names);
            }
            Target::Labels(l) => {
                f.word(2);
                f.texts(&l.names);
                f.word(l.values.len() as u64);
                f.words(l.values.chunks(8).map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | b as u8 as u64)));
            }
            Target::Real { width, values } => {
                f.words([3, *width as u64].into_iter());
                f.numbers(values);
            }
        }
        match &self.sources {
            None => f.word(0),
            Some(s) => {
                f.word(1);
                f.codes(&s.codes);
                f.texts(&s.names);
            }
        }
        match &self.weights {
            None => f.word(0),
            Some(w) => {
                f.word(1);
                f.numbers(w);
            }
        }
        f.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Classes, LabelSets};
    use std::collections::HashSet;

    fn sample() -> Dataset<'static> {
        let mut d = Dataset::new(Matrix::dense(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        d.columns = vec!["a".into(), "b".into()];
        d.target = Target::Classes(Classes::encode(["x", "y", "x"]));
        d
    }

    #[test]
    fn every_part_counts() {
        let base = sample();
        let mut seen = HashSet::from([base.fingerprint()]);
        assert_eq!(base.fingerprint(), sample().fingerprint());
        let mut add = |d: Dataset<'_>| assert!(seen.insert(d.fingerprint()), "{d:?}");
        for at in 0..6 {
            let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            values[at] += f64::EPSILON * 8.0;
            add(Dataset { x: Matrix::dense(3, 2, values), ..sample() });
        }
        add(Dataset { x: Matrix::dense(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ..sample() });
        add(Dataset { x: Matrix::dense(3, 2, vec![2.0, 1.0, 3.0, 4.0, 5.0, 6.0]), ..sample() });
        // the same rows in another order
        let mut turned = sample().subset(&[2, 1, 0]);
        turned.target = sample().target;
        add(turned);
        add(Dataset { columns: vec!["ab".into(), "".into()], ..sample() });
        add(Dataset { columns: vec![], ..sample() });
        add(Dataset { target: Target::Classes(Classes::encode(["x", "y", "y"])), ..sample() });
        add(Dataset { target: Target::Classes(Classes::encode(["x", "z", "x"])), ..sample() });
        add(Dataset { target: Target::None, ..sample() });
        add(Dataset { target: Target::Real { width: 1, values: vec![0.0; 3] }, ..sample() });
        add(Dataset { target: Target::Labels(LabelSets { names: vec!["x".into()], values: vec![1, 0, -1] }), ..sample() });
        add(Dataset { target: Target::Labels(LabelSets { names: vec!["x".into()], values: vec![1, 0, 1] }), ..sample() });
        add(Dataset { sources: Some(Classes::encode(["x", "y", "x"])), ..sample() });
        add(Dataset { weights: Some(vec![1.0; 3]), ..sample() });
        let csr = |indices: Vec<u32>| Matrix::Csr {
            rows: 3,
            cols: 2,
            indptr: vec![0, 1, 2, 2].into(),
            indices: indices.into(),
            values: vec![1.0, 2.0].into(),
        };
        add(Dataset { x: csr(vec![0, 1]), ..sample() });
        add(Dataset { x: csr(vec![1, 1]), ..sample() });
    }

    /// Manifests on disk keep this value: a change of it is a change of format.
    #[test]
    fn the_value_is_stable() {
        // computed from the definitions, in another language
        assert_eq!(sample().fingerprint_of_version(1), Some(0xe36e_2ee5_22f9_de61));
        assert_eq!(sample().fingerprint_of_version(2), Some(0xab82_38e5_48fe_f642));
        assert_eq!(sample().fingerprint_of_version(3), None);
    }

    #[test]
    fn the_cut_does_not_matter() {
        let mut d = sample();
        d.weights = Some(vec![1.0, 0.5, 2.0]);
        d.sources = Some(Classes::encode(["s", "t", "s"]));
        for rows in [1, 2, 3, 7] {
            let sum = blocks(&d, rows).iter().map(|b| b.digest(1)).fold(0, u64::wrapping_add);
            assert_eq!(Header::of(&d).fingerprint(3, sum), d.fingerprint());
        }
    }

    /// One flipped bit of the input flips about half of the 64 output bits: mean 32, standard error 4/√256.
    #[test]
    fn bits_spread() {
        let values: Vec<f64> = (0..64).map(|i| i as f64).collect();
        let hash = |v: &[f64]| Dataset::new(Matrix::dense(8, 8, v.to_vec())).fingerprint();
        let base = hash(&values);
        let mut total = 0;
        for at in 0..256usize {
            let mut v = values.clone();
            v[at % 64] = f64::from_bits(v[at % 64].to_bits() ^ 1 << (at / 64 * 17));
            total += (hash(&v) ^ base).count_ones();
        }
        let mean = total as f64 / 256.0;
        assert!((mean - 32.0).abs() < 5.0 * 0.25, "{mean}");
    }
}
