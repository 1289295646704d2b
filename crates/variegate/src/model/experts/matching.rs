//! The best pairing of two sets of experts: labels mean nothing between draws, so draws are compared after it.
//!
//! The assignment problem by shortest augmenting paths (Kuhn and Munkres), O(K³).

/// For each row of a cost matrix (K×K), the column it is paired with in a pairing of least total cost.
pub fn pair(cost: &[f64], k: usize) -> Vec<usize> {
    // potentials of rows and columns; column 0 and row 0 stand for "none yet"
    let (mut row_price, mut column_price) = (vec![0.0; k + 1], vec![0.0; k + 1]);
    let mut row_of = vec![0; k + 1];
    for row in 1..=k {
        row_of[0] = row;
        let (mut least, mut used, mut came_from) = (vec![f64::INFINITY; k + 1], vec![false; k + 1], vec![0; k + 1]);
        let mut column = 0;
        while row_of[column] != 0 {
            used[column] = true;
            let from = row_of[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for c in (1..=k).filter(|c| !used[*c]) {
                let reduced = cost[(from - 1) * k + c - 1] - row_price[from] - column_price[c];
                if reduced < least[c] {
                    (least[c], came_from[c]) = (reduced, column);
                }
                if least[c] < step || next == 0 {
                    (step, next) = (least[c], c);
                }
            }
            for c in 0..=k {
                if used[c] {
                    row_price[row_of[c]] += step;
                    column_price[c] -= step;
                } else {
                    least[c] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            let before = came_from[column];
            row_of[column] = row_of[before];
            column = before;
        }
    }
    let mut out = vec![0; k];
    (1..=k).for_each(|c| out[row_of[c] - 1] = c - 1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against all pairings of up to five.
    #[test]
    fn no_pairing_is_cheaper() {
        fn cheapest(cost: &[f64], k: usize, row: usize, free: &mut Vec<usize>) -> f64 {
            if row == k {
                return 0.0;
            }
            (0..free.len())
                .map(|i| {
                    let c = free.remove(i);
                    let total = cost[row * k + c] + cheapest(cost, k, row + 1, free);
                    free.insert(i, c);
                    total
                })
                .fold(f64::INFINITY, f64::min)
        }
        for k in 1..=5 {
            for salt in 0..20 {
                let cost: Vec<f64> = (0..k * k).map(|i| ((i * 7 + salt * 13) as f64 * 1.7).sin()).collect();
                let found = pair(&cost, k);
                let mut seen = found.clone();
                seen.sort_unstable();
                assert_eq!(seen, (0..k).collect::<Vec<_>>());
                let total: f64 = found.iter().enumerate().map(|(r, c)| cost[r * k + c]).sum();
                assert!((total - cheapest(&cost, k, 0, &mut (0..k).collect())).abs() < 1e-12);
            }
        }
    }
}
