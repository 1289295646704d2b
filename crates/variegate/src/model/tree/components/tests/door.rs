//! Defaults, refusals and warnings.

use super::*;

fn refused(family: Family, prior: &Prior, x: &[f64], dim: usize) -> String {
    match Columns::of(family, x, &names(dim)).and_then(|columns| Kernel::bind(family, prior, &columns)) {
        Ok(_) => panic!("{} took {x:?}", family.name()),
        Err(e) => e.to_string(),
    }
}

fn warned(family: Family, prior: &Prior, x: &[f64], dim: usize) -> String {
    Kernel::bind(family, prior, &Columns::of(family, x, &names(dim)).unwrap()).unwrap().1.join("; ")
}

#[test]
fn moments_are_those_of_observed_cells() {
    let x = [1.0, GAP, 3.0, GAP, 8.0, GAP, GAP, GAP];
    let columns = Columns::of(Family::GaussianDiag, &x, &names(2)).unwrap();
    assert_eq!((columns.rows, columns.observed[0], columns.mean[0]), (4, 3.0, 4.0));
    assert!((columns.variance[0] - 26.0 / 3.0).abs() < 1e-12);
    assert!(columns.varies(0) && !columns.varies(1));
    assert_eq!(columns.missing, Some((0, 1)));
}

#[test]
fn cells_of_another_kind_are_refused() {
    let none = Prior::default();
    for (family, x, said) in [
        (Family::GaussianDiag, vec![1.0, f64::INFINITY], "row 2, column `c1`: the value is inf"),
        (Family::Bernoulli, vec![0.0, 2.0], "row 2, column `c1`: 2 is neither 0 nor 1"),
        (Family::Categorical, vec![0.0, 1.5], "row 2, column `c1`: 1.5 is no code"),
        (Family::Categorical, vec![-1.0, 1.0], "row 1, column `c1`: -1 is no code"),
        (Family::Categorical, vec![0.0, 1e9], "is no code"),
        (Family::Poisson, vec![1.0, -3.0], "row 2, column `c1`: -3 is negative"),
        (Family::Multinomial, vec![1.0, 0.5], "row 2, column `c1`: 0.5 is not a whole number"),
        (Family::GaussianFull, vec![1.0, GAP, 2.0], "row 2, column `c1`: the value is missing; the family `gaussian-full`"),
        (Family::Multinomial, vec![1.0, GAP, 2.0], "row 2, column `c1`: the value is missing"),
        (Family::GaussianDiag, vec![], "no rows"),
    ] {
        let e = refused(family, &none, &x, 1);
        assert!(e.contains(said), "{e}");
    }
    let matrix = Prior { mean_covariance: Some(skew(2, 0.1)), ..Prior::default() };
    let e = refused(Family::GaussianTied, &matrix, &[1.0, 2.0, GAP, 4.0], 2);
    assert!(e.contains("row 2, column `c1`") && e.contains("diagonal matrices"), "{e}");
}

#[test]
fn priors_that_cannot_be_are_refused() {
    let x = [1.0, 2.0, 3.0, 5.0, 2.0, 0.0];
    let of = |change: &dyn Fn(&mut Prior)| {
        let mut prior = Prior::default();
        change(&mut prior);
        prior
    };
    let flat = Matrix::Full(vec![1.0, 2.0, 2.0, 1.0]);
    let crooked = Matrix::Full(vec![1.0, 0.5, 0.2, 1.0]);
    for (family, prior, said) in [
        (Family::GaussianKnown, of(&|p| p.covariance = Some(flat.clone())), "`variance` is not positive definite"),
        (Family::GaussianKnown, of(&|p| p.mean_covariance = Some(flat.clone())), "`mean_variance` is not positive definite"),
        (Family::GaussianTied, of(&|p| p.mean_covariance = Some(flat.clone())), "`mean_variance` is not positive definite"),
        (Family::GaussianFull, of(&|p| p.scatter = Some(flat.clone())), "`scatter` is not positive definite"),
        (Family::GaussianFull, of(&|p| p.scatter = Some(crooked.clone())), "not symmetric"),
        (Family::GaussianFull, of(&|p| p.scatter = Some(Matrix::Multiple(0.0))), "0 on its diagonal"),
        (Family::GaussianFull, of(&|p| p.freedom = Some(1.0)), "`freedom` is 1"),
        (Family::GaussianDiag, of(&|p| p.mean_strength = Some(0.0)), "`mean_strength` is 0"),
        (Family::GaussianDiag, of(&|p| p.precision_rate = Some(vec![1.0, -1.0])), "`precision_rate` is -1"),
        (Family::GaussianDiag, of(&|p| p.mean = Some(vec![1.0, 2.0, 3.0])), "`prior_mean` is 3 numbers"),
        (Family::GaussianDiag, of(&|p| p.strength = Some(1.0)), "does not read it"),
        (Family::Poisson, of(&|p| p.rate_rate = Some(vec![0.0])), "`rate_rate` is 0"),
        (Family::Multinomial, of(&|p| p.base = Some(vec![0.5, 0.4])), "summing to 0.9"),
        (Family::Categorical, of(&|p| p.categories = Some(vec![2, 6])), "`categories` is 2 for column `c1`"),
        (Family::Categorical, of(&|p| p.base = Some(vec![1.0])), "one for each code"),
        (Family::Multinomial, of(&|p| p.strength = Some(-1.0)), "`prior_strength` is -1"),
    ] {
        let e = refused(family, &prior, &x, 2);
        assert!(e.contains(said), "{e}");
    }
}

#[test]
fn what_is_unwise_is_said() {
    let x = [1.0, 5.0, 2.0, 5.0, 4.0, 5.0];
    for family in [Family::GaussianDiag, Family::GaussianFull, Family::GaussianTied] {
        assert!(warned(family, &Prior::default(), &x, 2).contains("left out: `c2`"));
    }
    assert!(warned(Family::GaussianDiag, &Prior { precision_rate: Some(vec![1.0]), ..Prior::default() }, &x, 2).is_empty());
    assert!(warned(Family::GaussianKnown, &Prior::default(), &x, 2).is_empty());
    assert!(warned(Family::GaussianKnown, &Prior::default(), &[0.0, 1e4, -1e4, 0.0], 1).contains("scale the columns"));
    assert!(warned(Family::GaussianFull, &Prior::default(), &[1.0, 2.0, 4.0, 3.0, 5.0, 9.0], 3).contains("more columns (3) than rows (2)"));
    // a mean of 1e8 with real variance stays, and so does a tiny but real spread
    assert!(warned(Family::GaussianDiag, &Prior::default(), &[1e8, 1e8 + 3.0, 1e8 - 1.0], 1).is_empty());
    assert!(warned(Family::GaussianDiag, &Prior::default(), &[1e-8, 2e-8, -1e-8], 1).is_empty());
}

/// One row, and rows without any cell: every factorising family can hold them.
#[test]
fn next_to_nothing_is_enough() {
    for family in Family::ALL {
        let kernel = bound(family, &Prior::default(), &[1.0, 0.0], 2);
        let mut stats = vec![0.0; kernel.statistics()];
        kernel.add(&mut stats, &[1.0, 0.0], 1.0);
        assert!(kernel.ln_marginal(&stats).is_finite(), "{}", family.name());
        assert!(kernel.ln_predictive(&stats, &[1.0, 0.0]).is_finite());
        let theta = kernel.draw(&stats, &mut crate::dist::testing::rng(1)).unwrap();
        assert!(kernel.ln_density(&theta, &[1.0, 0.0]).is_finite());
        if kernel.admits_missing() {
            assert_eq!(kernel.ln_predictive(&stats, &[GAP, GAP]), 0.0);
        }
        assert_eq!(Family::named(family.name()), Some(family));
    }
}

#[test]
fn defaults_of_proportions_and_rates() {
    let x = [0.0, 2.0, 1.0, 2.0, 1.0, GAP, 1.0, 0.0];
    let kernel = bound(Family::Categorical, &Prior::default(), &x, 2);
    let nothing = vec![0.0; kernel.statistics()];
    let share = |row: [f64; 2]| kernel.ln_predictive(&nothing, &row).exp();
    assert!((share([1.0, GAP]) - (0.9 * 0.75 + 0.05)).abs() < 1e-12);
    assert!((share([GAP, 1.0]) - 0.1 / 3.0).abs() < 1e-12);
    let kernel = bound(Family::Bernoulli, &Prior::default(), &[1.0, 0.0, 1.0, 1.0], 1);
    assert!((kernel.ln_predictive(&[0.0; 2], &[1.0]).exp() - (0.9 * 0.75 + 0.05)).abs() < 1e-12);
    let kernel = bound(Family::Poisson, &Prior::default(), &[4.0, 0.0, 2.0, 0.0], 2);
    // Gamma(1, 1/3): P(0) = b/(b + 1); a column of zeros has b = N
    assert!((kernel.ln_predictive(&[0.0; 5], &[0.0, GAP]).exp() - 0.25).abs() < 1e-12);
    assert!((kernel.ln_predictive(&[0.0; 5], &[GAP, 0.0]).exp() - 2.0 / 3.0).abs() < 1e-12);
}
