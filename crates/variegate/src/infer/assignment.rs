//! The assignment problem by shortest augmenting paths (Kuhn and Munkres), O(n³): labels mean nothing between draws, so draws are compared
//! after the best pairing of their components.

/// One-to-one pairs of largest total worth: for each row of the matrix (`rows` × `cols`) its column, where it has one.
pub fn assign(worth: &[f64], rows: usize, cols: usize) -> Vec<Option<usize>> {
    if rows > cols {
        let mut turned = vec![0.0; worth.len()];
        for i in 0..rows {
            for j in 0..cols {
                turned[j * rows + i] = worth[i * cols + j];
            }
        }
        let mut out = vec![None; rows];
        for (j, i) in assign(&turned, cols, rows).into_iter().enumerate() {
            if let Some(i) = i {
                out[i] = Some(j);
            }
        }
        return out;
    }
    // prices of rows and columns; place 0 stands for no row
    let (mut row_price, mut col_price) = (vec![0.0; rows + 1], vec![0.0; cols + 1]);
    let mut owner = vec![0; cols + 1];
    for row in 1..=rows {
        owner[0] = row;
        let mut at = 0;
        let (mut least, mut before, mut done) = (vec![f64::INFINITY; cols + 1], vec![0; cols + 1], vec![false; cols + 1]);
        loop {
            done[at] = true;
            let (i, mut step, mut next) = (owner[at], f64::INFINITY, 0);
            for j in (1..=cols).filter(|&j| !done[j]) {
                let value = worth[(i - 1) * cols + j - 1];
                // what is not a number is worth nothing; it must not stop the search
                let slack = if value.is_finite() { -value } else { 0.0 } - row_price[i] - col_price[j];
                if slack < least[j] {
                    least[j] = slack;
                    before[j] = at;
                }
                if least[j] < step {
                    step = least[j];
                    next = j;
                }
            }
            for j in 0..=cols {
                if done[j] {
                    row_price[owner[j]] += step;
                    col_price[j] -= step;
                } else {
                    least[j] -= step;
                }
            }
            at = next;
            if owner[at] == 0 {
                break;
            }
        }
        while at != 0 {
            owner[at] = owner[before[at]];
            at = before[at];
        }
    }
    let mut out = vec![None; rows];
    for j in (1..=cols).filter(|&j| owner[j] != 0) {
        out[owner[j] - 1] = Some(j - 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Purpose, Stream, open01};

    /// The best of all ways to give each row a column of its own.
    fn best(worth: &[f64], rows: usize, cols: usize, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == rows {
            return 0.0;
        }
        let mut top = f64::NEG_INFINITY;
        for j in 0..cols {
            if !taken[j] {
                taken[j] = true;
                top = top.max(worth[row * cols + j] + best(worth, rows, cols, row + 1, taken));
                taken[j] = false;
            }
        }
        top
    }

    #[test]
    fn the_assignment_is_the_best_there_is() {
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        for (rows, cols) in [(1, 1), (3, 3), (2, 5), (5, 5), (5, 3), (6, 6)] {
            for _ in 0..20 {
                let worth: Vec<f64> = (0..rows * cols).map(|_| open01(&mut rng)).collect();
                let found = assign(&worth, rows, cols);
                let total: f64 = found.iter().enumerate().filter_map(|(i, j)| j.map(|j| worth[i * cols + j])).sum();
                let mut columns: Vec<usize> = found.iter().flatten().copied().collect();
                columns.sort_unstable();
                columns.dedup();
                assert_eq!(columns.len(), rows.min(cols));
                if rows <= cols {
                    assert!((total - best(&worth, rows, cols, 0, &mut vec![false; cols])).abs() < 1e-12);
                }
            }
        }
        assert_eq!(assign(&[f64::NAN, f64::INFINITY, 1.0, f64::NAN], 2, 2).iter().flatten().count(), 2);
        assert_eq!(assign(&[], 0, 3), Vec::<Option<usize>>::new());
        assert_eq!(assign(&[], 2, 0), vec![None, None]);
    }
}
