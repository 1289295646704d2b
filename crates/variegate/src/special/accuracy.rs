//! Largest error of every special function against the reference tables, and the page of the book that states it.

use super::branchless::{exp, ln_1p, sin_cos_quarters};
use super::*;

/// How an error is counted.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    /// against the value itself
    Relative,
    /// against the value, or 1 where the value is smaller
    Mixed,
}

struct Row {
    name: &'static str,
    domain: &'static str,
    scale: Scale,
    /// what the book promises
    bound: f64,
    worst: f64,
    at: String,
}

/// Rows of a table as numbers, without the header; entries beyond the doubles read as 0 or infinity.
fn table(text: &str) -> Vec<Vec<f64>> {
    let number = |field: &str| field.parse().expect("a number");
    text.lines().skip(1).map(|line| line.split(',').map(number).collect()).collect()
}

fn measure(
    name: &'static str,
    domain: &'static str,
    scale: Scale,
    bound: f64,
    text: &str,
    arguments: usize,
    column: usize,
    f: impl Fn(&[f64]) -> f64,
) -> Row {
    let (mut worst, mut at) = (0.0, String::new());
    for row in table(text) {
        let (got, want) = (f(&row[..arguments]), row[column]);
        // equal infinities, and values too small to have 53 bits, are not errors
        if got == want || (want.abs() < f64::MIN_POSITIVE && (got - want).abs() < 1e-322) {
            continue;
        }
        let size = if scale == Scale::Relative { want.abs() } else { want.abs().max(1.0) };
        let error = (got - want).abs() / size;
        if error > worst || error.is_nan() {
            (worst, at) = (error, format!("{:?}: {got:e} for {want:e}", &row[..arguments]));
        }
    }
    Row { name, domain, scale, bound, worst, at }
}

fn measurements() -> Vec<Row> {
    use Scale::{Mixed, Relative};
    let bessel = include_str!("tables/bessel.csv");
    let gamma = include_str!("tables/gamma.csv");
    let beta = include_str!("tables/beta.csv");
    let logistic = include_str!("tables/logistic.csv");
    let normal = include_str!("tables/normal.csv");
    let sum = include_str!("tables/sum.csv");
    let elementary = include_str!("tables/elementary.csv");
    let exponential = include_str!("tables/exponential.csv");
    let orders = "order 0 to 5000, x to 1e6";
    vec![
        measure("ln_bessel_i", orders, Mixed, 1e-14, bessel, 2, 2, |v| ln_bessel_i(v[0], v[1])),
        measure("ln_bessel_i_scaled", orders, Mixed, 4e-15, bessel, 2, 3, |v| ln_bessel_i_scaled(v[0], v[1])),
        measure("bessel_ratio", orders, Relative, 2e-15, bessel, 2, 4, |v| bessel_ratio(v[0], v[1])),
        measure("ln_gamma", "x > 0", Relative, 1e-15, gamma, 1, 1, |v| ln_gamma(v[0])),
        measure("digamma", "x > 0", Relative, 5e-15, gamma, 1, 2, |v| digamma(v[0])),
        measure("trigamma", "x > 0", Relative, 2e-15, gamma, 1, 3, |v| trigamma(v[0])),
        measure("ln_beta", "a, b > 0", Mixed, 8e-15, beta, 2, 2, |v| ln_beta(v[0], v[1])),
        measure("log_sum_exp", "any slice", Mixed, 1e-15, sum, 4, 4, log_sum_exp),
        measure("log1p_exp", "all x", Relative, 1e-15, logistic, 1, 1, |v| log1p_exp(v[0])),
        measure("sigmoid", "all x", Relative, 1e-15, logistic, 1, 2, |v| sigmoid(v[0])),
        measure("ln_sigmoid", "all x", Relative, 1e-15, logistic, 1, 3, |v| ln_sigmoid(v[0])),
        measure("norm_cdf", "all x", Relative, 2e-15, normal, 1, 1, |v| norm_cdf(v[0])),
        measure("ln_norm_cdf", "x from -1e8", Relative, 2e-15, normal, 1, 2, |v| ln_norm_cdf(v[0])),
        measure("mills_ratio", "x >= 0", Relative, 1e-15, normal, 1, 3, |v| mills_ratio(v[0].abs())),
        measure("branchless::exp", "-708 <= x <= 0", Relative, 4e-16, exponential, 1, 1, |v| exp(v[0])),
        measure("branchless::ln_1p", "-1 < x < 1e300", Relative, 4e-16, elementary, 2, 2, |v| ln_1p(v[0])),
        measure("branchless::sin_cos_quarters", "sine, t in [-1/2, 1/2]", Relative, 4e-16, elementary, 2, 3, |v| sin_cos_quarters(v[1]).0),
        measure("branchless::sin_cos_quarters", "cosine, t in [-1/2, 1/2]", Relative, 4e-16, elementary, 2, 4, |v| {
            sin_cos_quarters(v[1]).1
        }),
    ]
}

/// `cargo test -p variegate --lib special::accuracy -- --nocapture` prints the table of the book.
#[test]
fn errors_stay_within_what_the_book_states() {
    let book = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/special-functions.md"));
    let book = book.expect("the chapter on special functions");
    let mut complaints = Vec::new();
    for row in measurements() {
        let against = if row.scale == Scale::Relative { "relative" } else { "against max(1, value)" };
        let stated = format!("| `{}` | {} | {against} | {:.0e} |", row.name, row.domain, row.bound);
        println!("{stated} {:.1e} |     worst at {}", row.worst, row.at);
        if row.worst > row.bound || row.worst.is_nan() {
            complaints.push(format!("{}: {:.2e} at {}", row.name, row.worst, row.at));
        }
        if !book.contains(&stated) {
            complaints.push(format!("the book lacks the row: {stated}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
