//! Whether the rows nearest to a row are of its class.

use super::distances::{Rows, squared_distance};
use crate::linalg::mul_t;
use crate::parallel::{self, Pool};

/// Products that are held in memory at a time, by each thread.
const MOST: usize = 1 << 21;
/// Most queries of a panel.
const PANEL: usize = 256;

/// How well the rows nearest to the queries of a class are of that class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassPrecision {
    /// Share of the nearest rows that are of the class, mean over its queries; NaN without queries or rows.
    pub precision: f64,
    /// The most that can be reached: less than 1 where the class has fewer rows than are taken.
    pub ceiling: f64,
    /// What rows taken at random reach: the share of the class among all rows.
    pub chance: f64,
    /// Number of queries of the class.
    pub queries: usize,
}

/// Precision of the nearest rows, by class. For each query the `most` rows of `among` (100 are usual; all, if there are fewer) that
/// are nearest in Euclidean distance are taken, of equally near ones the first, and of these the share that has the query's class.
/// With n_c rows of a class among N, the ceiling is min(1, n_c/most) and chance is n_c/N.
///
/// Both sets of rows have d numbers a row, and as many rows as classes are given for them. Classes are numbered from 0 to `classes`; a
/// query of another class is left out, and a row of another class can be taken and is never right. A query that is itself among the rows
/// finds itself. Equal distances are equal whatever the place of a row: the result is that of plain loops, on any number of threads.
pub fn precision_by_class(
    queries: &[f64],
    query_classes: &[u32],
    among: &[f64],
    among_classes: &[u32],
    d: usize,
    classes: usize,
    most: usize,
) -> Vec<ClassPrecision> {
    let queries = Rows::new(queries, query_classes.len(), d);
    let among = Rows::new(among, among_classes.len(), d);
    let taken = most.min(among.n);
    let panel = if taken == 0 { PANEL } else { (MOST / among.n).clamp(1, PANEL) };
    let exact = queries.are_whole() && among.are_whole();
    // rows of the query's class that are taken, for each query of a panel
    let of_panel = |work: &mut Work, first: usize| -> Vec<usize> {
        let count = panel.min(queries.n - first);
        work.products.resize(count * among.n, 0.0);
        mul_t(queries.panel(first, count), among.values, &mut work.products, count, d, among.n, false);
        let found = |place: usize| {
            let products = &work.products[place * among.n..(place + 1) * among.n];
            let query = first + place;
            take_nearest(&queries, query, &among, products, exact, taken, &mut work.near);
            work.near.iter().filter(|(_, j)| among_classes[*j as usize] == query_classes[query]).count()
        };
        (0..count).map(found).collect()
    };
    let panels: Vec<usize> = (0..queries.n).step_by(panel).filter(|_| taken > 0).collect();
    let pool = Pool::default();
    let right: Vec<Vec<usize>> = parallel::map(panels, |_, first| pool.lend(Work::default, |work| of_panel(work, first)));

    let mut sums = vec![(0, 0); classes];
    for (class, right) in query_classes.iter().zip(right.into_iter().flatten().chain(std::iter::repeat(0))) {
        if let Some((queries, sum)) = sums.get_mut(*class as usize) {
            *queries += 1;
            *sum += right;
        }
    }
    let of_class = |(class, (queries, right)): (usize, (usize, usize))| {
        let rows = among_classes.iter().filter(|c| **c as usize == class).count();
        ClassPrecision {
            precision: right as f64 / (queries * taken) as f64,
            ceiling: rows.min(taken) as f64 / taken as f64,
            chance: rows as f64 / among.n as f64,
            queries,
        }
    };
    sums.into_iter().enumerate().map(of_class).collect()
}

/// What a thread works with.
#[derive(Default)]
struct Work {
    products: Vec<f64>,
    near: Vec<(f64, u32)>,
}

/// Leaves in `near` the rows that are nearest to a query, given its products with all rows, in no order.
fn take_nearest(
    queries: &Rows<'_>,
    query: usize,
    among: &Rows<'_>,
    products: &[f64],
    exact: bool,
    taken: usize,
    near: &mut Vec<(f64, u32)>,
) {
    let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    near.clear();
    // |y|² − 2 x·y: the squared distance but for |x|², which is the same for all rows
    near.extend(among.squares.iter().zip(products).zip(0..).map(|((square, product), j)| (square - 2.0 * product, j)));
    let (_, last, _) = near.select_nth_unstable_by(taken - 1, order);
    if !exact {
        let bound = last.0 + 2.0 * among.slack(queries.squares[query]);
        // without a bound, where numbers are not finite, all distances are taken plainly
        near.retain(|(value, _)| !bound.is_finite() || *value <= bound);
        for (value, j) in near.iter_mut() {
            // a distance that is not a number is infinite
            *value = squared_distance(queries.row(query), among.row(*j as usize)).min(f64::INFINITY);
        }
        near.select_nth_unstable_by(taken - 1, order);
    }
    near.truncate(taken);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Philox, Purpose, Stream, open01};

    fn below(n: usize, rng: &mut Philox) -> usize {
        (open01(rng) * n as f64) as usize
    }

    fn codes(n: usize, classes: usize, rng: &mut Philox) -> Vec<u32> {
        (0..n).map(|_| below(classes, rng) as u32).collect()
    }

    /// All distances, sorted.
    fn plainly(q: &[f64], q_classes: &[u32], a: &[f64], a_classes: &[u32], d: usize, classes: usize, most: usize) -> Vec<[f64; 4]> {
        let (n, taken) = (a_classes.len(), most.min(a_classes.len()));
        let mut out = vec![[0.0; 4]; classes];
        for (i, &class) in q_classes.iter().enumerate() {
            let mut all: Vec<(f64, usize)> = (0..n)
                .map(|j| {
                    let mut sum = 0.0;
                    for l in 0..d {
                        sum += (q[i * d + l] - a[j * d + l]).powi(2);
                    }
                    (sum, j)
                })
                .collect();
            all.sort_by(|x, y| x.partial_cmp(y).unwrap());
            let right = all[..taken].iter().filter(|(_, j)| a_classes[*j] == class).count();
            if (class as usize) < classes {
                out[class as usize][0] += right as f64 / taken as f64;
                out[class as usize][3] += 1.0;
            }
        }
        for (c, of) in out.iter_mut().enumerate() {
            let rows = a_classes.iter().filter(|a| **a as usize == c).count() as f64;
            *of = [of[0] / of[3], (rows / taken as f64).min(1.0), rows / n as f64, of[3]];
        }
        out
    }

    fn same(found: &[ClassPrecision], expected: &[[f64; 4]]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f.precision - e[0]).abs() < 1e-12 || (f.precision.is_nan() && e[0].is_nan()), "{f:?} {e:?}");
            assert!((f.ceiling - e[1]).abs() < 1e-15 && (f.chance - e[2]).abs() < 1e-15 && f.queries as f64 == e[3], "{f:?} {e:?}");
        }
    }

    /// Zeros and ones with many equal distances, real numbers of which most rows have copies, and a shift that takes nearly all digits of
    /// the products; more queries than a panel, a class without queries, and codes that are no class.
    #[test]
    fn the_same_as_plain_loops() {
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        for (n, m, d, most) in [(PANEL + 9, 130, 6, 20), (40, 75, 37, 9), (20, 30, 3, 100), (9, 21, 1, 1), (5, 8, 0, 3)] {
            for kind in 0..4 {
                let mut number = |_| match kind {
                    0 => below(2, &mut rng) as f64,
                    1 => open01(&mut rng),
                    2 => 1e8 + open01(&mut rng),
                    _ => below(2, &mut rng) as f64 / 3.0,
                };
                let (q, mut a): (Vec<f64>, Vec<f64>) = ((0..n * d).map(&mut number).collect(), (0..m * d).map(&mut number).collect());
                for j in m / 3..m {
                    a.copy_within((j % (m / 3)) * d..(j % (m / 3) + 1) * d, j * d);
                }
                // of five codes the last is no class; class 3 has no queries
                let (q_classes, a_classes) = (codes(n, 5, &mut rng), codes(m, 5, &mut rng));
                let q_classes: Vec<u32> = q_classes.into_iter().map(|c| if c == 3 { 4 } else { c }).collect();
                let found = precision_by_class(&q, &q_classes, &a, &a_classes, d, 4, most);
                same(&found, &plainly(&q, &q_classes, &a, &a_classes, d, 4, most));
                assert!(found[3].precision.is_nan() && found[3].queries == 0);
            }
        }
    }

    /// A query at 0 of class 0, one at 10 of class 1; rows at 1, 9, −1, 2 of classes 0, 1, 1, 0. Two are taken: 1 and −1, of equal
    /// distance, and 9 and 2.
    #[test]
    fn by_hand() {
        let found = precision_by_class(&[0.0, 10.0], &[0, 1], &[1.0, 9.0, -1.0, 2.0], &[0, 1, 1, 0], 1, 3, 2);
        let expected = |precision, ceiling, chance, queries| ClassPrecision { precision, ceiling, chance, queries };
        assert_eq!(found[..2], [expected(0.5, 1.0, 0.5, 1), expected(0.5, 1.0, 0.5, 1)]);
        assert!(found[2].precision.is_nan() && (found[2].ceiling, found[2].chance, found[2].queries) == (0.0, 0.0, 0));
        // of the rows at 1 and −1 the first is taken
        let found = precision_by_class(&[0.0, 10.0], &[0, 1], &[1.0, 9.0, -1.0, 2.0], &[0, 1, 1, 0], 1, 2, 1);
        assert_eq!(found, [expected(1.0, 1.0, 0.5, 1), expected(1.0, 1.0, 0.5, 1)]);
        // three are taken and there are two of each class
        let found = precision_by_class(&[0.0], &[0], &[1.0, 9.0, -1.0, 2.0], &[0, 1, 1, 0], 1, 2, 3);
        assert_eq!((found[0].precision, found[0].ceiling), (2.0 / 3.0, 2.0 / 3.0));
    }

    #[test]
    fn nothing_to_take_and_numbers_that_are_none() {
        let none = precision_by_class(&[1.0], &[0], &[], &[], 1, 1, 100);
        assert!(none[0].precision.is_nan() && none[0].ceiling.is_nan() && none[0].chance.is_nan() && none[0].queries == 1);
        let none = precision_by_class(&[1.0], &[0], &[1.0], &[0], 1, 1, 0);
        assert!(none[0].precision.is_nan() && none[0].chance == 1.0);
        assert!(precision_by_class(&[], &[], &[1.0], &[0], 1, 1, 5)[0].precision.is_nan());
        assert!(precision_by_class(&[1.0], &[0], &[1.0], &[0], 1, 0, 5).is_empty());
        // rows that are not numbers are farthest
        let found = precision_by_class(&[0.5], &[0], &[f64::NAN, f64::INFINITY, 7.0, 9.0], &[1, 1, 0, 1], 1, 2, 1);
        assert_eq!(found[0].precision, 1.0);
        // the difference of infinities is not a number: as far as any row, and not the nearest
        let found = precision_by_class(&[f64::INFINITY], &[0], &[3.0, f64::INFINITY], &[0, 1], 1, 2, 1);
        assert_eq!(found[0].precision, 1.0);
    }

    #[test]
    fn threads_do_not_matter() {
        let mut rng = Stream::new(2, 0, Purpose::Check).rng();
        let (n, m, d) = (3 * PANEL, 60, 4);
        let (q, a): (Vec<f64>, Vec<f64>) = ((0..n * d).map(|_| open01(&mut rng)).collect(), (0..m * d).map(|_| open01(&mut rng)).collect());
        let (q_classes, a_classes) = (codes(n, 3, &mut rng), codes(m, 3, &mut rng));
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| precision_by_class(&q, &q_classes, &a, &a_classes, d, 3, 10))
        };
        assert_eq!(with(1), with(4));
    }
}
