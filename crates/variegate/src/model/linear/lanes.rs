//! Numbers of components in groups of eight, the last filled up with zeros: loops over a group become vector instructions however few components
//! there are, and elementary functions of `special::branchless` have the same bits in them.

/// Components of a group.
pub(crate) const LANES: usize = 8;

/// Numbers of a group.
pub(crate) type Lanes = [f64; LANES];

/// Rows of so many numbers each, in groups.
pub(crate) fn in_lanes(table: &[f64], width: usize) -> Vec<Lanes> {
    let mut out = vec![[0.0; LANES]; table.len() / width.max(1) * width.div_ceil(LANES)];
    for (row, out) in table.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(width.div_ceil(LANES).max(1))) {
        load(row, out);
    }
    out
}

/// Numbers of a row into its groups, which have zeros after it or are of rows as long.
#[inline(always)]
pub(crate) fn load(row: &[f64], out: &mut [Lanes]) {
    out.as_flattened_mut()[..row.len()].copy_from_slice(row);
}

/// And back.
#[inline(always)]
pub(crate) fn store(groups: &[Lanes], row: &mut [f64]) {
    let len = row.len();
    row.copy_from_slice(&groups.as_flattened()[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        for width in [1, 7, 8, 9, 20] {
            let table: Vec<f64> = (0..3 * width).map(|v| v as f64 + 1.0).collect();
            let groups = in_lanes(&table, width);
            let each = width.div_ceil(LANES);
            assert_eq!(groups.len(), 3 * each);
            for (row, groups) in table.chunks(width).zip(groups.chunks(each)) {
                let mut back = vec![f64::NAN; width];
                store(groups, &mut back);
                assert_eq!(back, row);
                assert!(groups.as_flattened()[width..].iter().all(|v| *v == 0.0));
            }
        }
        assert!(in_lanes(&[], 0).is_empty());
    }
}
