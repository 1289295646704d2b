//! Monomials of the inputs, by rising degree.
//!
//! The monomials of degree t are x_0 times those of degree t − 1, then x_1 times those of them that have no x_0, and so on: each
//! costs one multiplication, and in this order each step reads a run of neighbours. For two inputs and degree 3 that is
//! x0, x1, x0², x0·x1, x1², x0³, x0²·x1, x0·x1², x1³.

/// The order of the monomials.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Polynomial {
    inputs: usize,
    /// For degrees 1 to the largest but one, and each input j: where the monomials begin whose first input is j.
    begin: Vec<usize>,
    /// For each degree, where its monomials end.
    end: Vec<usize>,
}

impl Polynomial {
    pub(super) fn new(inputs: usize, degree: u32) -> Self {
        let (mut begin, mut end) = (Vec::new(), vec![inputs]);
        let mut current: Vec<usize> = (0..inputs).collect();
        for _ in 1..degree {
            let last = end[end.len() - 1];
            let mut at = last;
            let next = current
                .iter()
                .map(|from| {
                    let here = at;
                    at += last - from;
                    here
                })
                .collect();
            begin.append(&mut current);
            end.push(at);
            current = next;
        }
        Self { inputs, begin, end }
    }

    /// Number of monomials.
    pub(super) fn columns(&self) -> usize {
        self.end[self.end.len() - 1]
    }

    /// Calls `f(place of the product, input, first and last place of a run of factors)`; the products of a run are neighbours.
    fn steps(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let mut at = self.inputs;
        for (begin, &end) in self.begin.chunks_exact(self.inputs.max(1)).zip(&self.end) {
            for (j, &from) in begin.iter().enumerate() {
                f(at, j, from, end);
                at += end - from;
            }
        }
    }

    /// All monomials of one row.
    pub(super) fn row(&self, x: &[f64], out: &mut [f64]) {
        out[..self.inputs].copy_from_slice(x);
        self.steps(|at, j, from, end| {
            let (lower, upper) = out.split_at_mut(at);
            for (o, &v) in upper.iter_mut().zip(&lower[from..end]) {
                *o = x[j] * v;
            }
        });
    }

    /// Names of the monomials, given those of the inputs: `a`, `a^2`, `a*b`.
    pub(super) fn names(&self, inputs: &[String]) -> Vec<String> {
        let mut powers: Vec<Vec<(usize, u32)>> = (0..self.inputs).map(|j| vec![(j, 1)]).collect();
        self.steps(|_, j, from, end| {
            for i in from..end {
                let mut product = powers[i].clone();
                match product.first_mut() {
                    Some((first, power)) if *first == j => *power += 1,
                    _ => product.insert(0, (j, 1)),
                }
                powers.push(product);
            }
        });
        let factor = |&(j, power): &(usize, u32)| if power == 1 { inputs[j].clone() } else { format!("{}^{power}", inputs[j]) };
        powers.iter().map(|p| p.iter().map(factor).collect::<Vec<_>>().join("*")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::InputMap;

    #[test]
    fn order_and_names() {
        let p = Polynomial::new(2, 3);
        assert_eq!(p.names(&["a".into(), "b".into()]), ["a", "b", "a^2", "a*b", "b^2", "a^3", "a^2*b", "a*b^2", "b^3"]);
        let mut out = [f64::NAN; 9];
        p.row(&[2.0, 5.0], &mut out);
        assert_eq!(out, [2.0, 5.0, 4.0, 10.0, 25.0, 8.0, 20.0, 50.0, 125.0]);
    }

    /// Every exponent vector of total degree 1 to DEGREE occurs once: inputs are distinct primes, so products tell monomials apart.
    #[test]
    fn every_monomial_once() {
        const PRIMES: [u64; 5] = [2, 3, 5, 7, 11];
        for inputs in 0..=5usize {
            for degree in 2..=8u32 {
                let p = Polynomial::new(inputs, degree);
                assert_eq!(p.columns(), InputMap::Polynomial { degree }.columns(inputs).unwrap());
                let x: Vec<f64> = PRIMES[..inputs].iter().map(|&v| v as f64).collect();
                let mut got = vec![f64::NAN; p.columns()];
                p.row(&x, &mut got);
                got.sort_by(f64::total_cmp);
                let mut want = Vec::new();
                for code in 1..(degree as usize + 1).pow(inputs as u32) {
                    let powers: Vec<u32> =
                        (0..inputs).map(|j| (code / (degree as usize + 1).pow(j as u32) % (degree as usize + 1)) as u32).collect();
                    if powers.iter().sum::<u32>() <= degree {
                        want.push(powers.iter().zip(PRIMES).map(|(&e, prime)| prime.pow(e)).product::<u64>() as f64);
                    }
                }
                want.sort_by(f64::total_cmp);
                assert_eq!(got, want, "{inputs} inputs, degree {degree}");
                assert_eq!(p.names(&vec!["v".to_string(); inputs]).len(), p.columns());
            }
        }
    }
}
