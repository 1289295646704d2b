//! Ward's tree of a matrix of distances, cut at given numbers of clusters.
//!
//! Merging clusters of sizes a and b, the squared distance to one of size c becomes
//! `((a + c) d_ac^2 + (b + c) d_bc^2 - c d_ab^2)/(a + b + c)`. Nearest neighbours are followed until two point at each other: those are
//! merged (the rule is reducible, so the tree is that of always merging the nearest pair), in time of the square of the rows.

/// Labels row by row, one for each number of clusters; nested where the numbers do not fall. `square` gives squared distances.
pub(crate) fn ward_cuts(rows: usize, square: impl Fn(usize, usize) -> f64, clusters: &[usize]) -> Vec<usize> {
    let mut distance: Vec<f32> = (0..rows * rows).map(|at| square(at / rows, at % rows) as f32).collect();
    let mut size = vec![1.0f64; rows];
    // height and the two rows that stand for what is merged
    let mut merges: Vec<(f32, usize, usize)> = Vec::new();
    let mut chain: Vec<usize> = Vec::new();
    while merges.len() + 1 < rows {
        if chain.is_empty() {
            chain.extend((0..rows).find(|&i| size[i] > 0.0));
        }
        let top = chain[chain.len() - 1];
        let previous = chain.len().checked_sub(2).map(|at| chain[at]);
        // of equals the previous one, else the first
        let mut nearest = previous;
        for j in (0..rows).filter(|&j| j != top && size[j] > 0.0) {
            if nearest.is_none_or(|n| distance[top * rows + j] < distance[top * rows + n]) {
                nearest = Some(j);
            }
        }
        let Some(next) = nearest else { break };
        if previous != Some(next) {
            chain.push(next);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (a, b) = (top.min(next), top.max(next));
        let between = distance[a * rows + b];
        merges.push((between, a, b));
        for c in (0..rows).filter(|&c| c != a && c != b && size[c] > 0.0) {
            let (to_a, to_b) = (f64::from(distance[a * rows + c]), f64::from(distance[b * rows + c]));
            let total = size[a] + size[b] + size[c];
            let new = ((size[a] + size[c]) * to_a + (size[b] + size[c]) * to_b - size[c] * f64::from(between)) / total;
            distance[a * rows + c] = new as f32;
            distance[c * rows + a] = new as f32;
        }
        size[a] += size[b];
        size[b] = 0.0;
    }
    merges.sort_by(|x, y| x.0.total_cmp(&y.0)); // stable: equals stay in the order they were found
    let mut labels = vec![0; rows * clusters.len()];
    for (level, &wanted) in clusters.iter().enumerate() {
        let mut above: Vec<usize> = (0..rows).collect();
        for &(_, a, b) in &merges[..rows.saturating_sub(wanted.max(1)).min(merges.len())] {
            let (a, b) = (root(&mut above, a), root(&mut above, b));
            above[a.max(b)] = a.min(b);
        }
        (0..rows).for_each(|i| labels[i * clusters.len() + level] = root(&mut above, i));
    }
    labels
}

fn root(above: &mut [usize], mut i: usize) -> usize {
    while above[i] != i {
        above[i] = above[above[i]];
        i = above[i];
    }
    i
}
