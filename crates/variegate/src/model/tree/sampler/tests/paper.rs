//! The paper's sweep, which is wrong by known amounts: it must be, or it is not the paper's.

use super::super::super::margin::{EtaUpdate, draw_inverse_scale};
use super::super::super::state::State;
use super::super::paper::{OwnMargin, ln_ratio};
use super::super::{Charges, Rules, Sampler, Theta};
use super::enumeration::{X, enumerate, estimate, tree_a};
use super::exact::Margin;
use super::{concentrations, known};
use crate::run::{Philox, Purpose, Stream};

/// Places of statistics of four rows at two levels: atoms, and whether rows 0 and 1 share theirs.
const ATOMS: usize = 2;
const SHARED: usize = 16;

/// Four rows whose exact posterior is enumerated: the exact means, and a sampler.
fn four(rules: Rules) -> (Vec<f64>, Sampler<'static>) {
    let (kernel, c) = tree_a();
    let exact = enumerate(&X, 1, 2, &kernel, &c).1;
    (exact, Sampler::new(&X, 1, kernel, rules, State::new(2, 4, None, c)))
}

fn plain() -> Rules {
    Rules { regraft: false, split_merges: 0, theta: Theta::Explicit, ..Rules::default() }
}

/// Asserts a mean that an independent program printed with its own standard error, and that the exact one is far from it.
fn wrong_as_printed(what: &str, (mean, error): (f64, f64), printed: (f64, f64), exact: f64) {
    // three comparisons in all: a false alarm in 5,000
    let z = (mean - printed.0) / error.hypot(printed.1);
    assert!(z.abs() < 4.0, "{what}: {mean} +- {error}, not {} as it should wrongly be (z = {z})", printed.0);
    assert!(((mean - exact) / error).abs() > 6.0, "{what}: {mean} +- {error} is the exact {exact}");
}

/// Exact moves of rows with weights from raw counts (E5): too few atoms.
#[test]
fn weights_from_raw_counts_are_wrong_as_is_known() {
    let (exact, sampler) = four(plain());
    let found = estimate(sampler, 40_000, 81, |s, rng| {
        s.refresh();
        s.sweep_rows(rng).unwrap();
        s.draw_raw_weights(rng);
        s.draw_theta(rng).unwrap();
    });
    wrong_as_printed("atoms", found[ATOMS], (2.192, 0.0035), exact[ATOMS]);
}

/// All paths, then all components (E8), each of them chosen exactly, with exact weights.
#[test]
fn paths_before_components_are_wrong_as_is_known() {
    let (exact, sampler) = four(plain());
    let component = |s: &mut Sampler<'_>, n: usize, rng: &mut Philox| {
        let (leaf, atom) = (s.state.leaf[n], s.state.atom[n]);
        s.count(n, atom, -1.0);
        if s.state.size[atom as usize] == 0 {
            s.state.merge_into_rest(atom);
        }
        s.state.arena.detach(leaf);
        s.densities(n);
        s.put_in(n, leaf, leaf, rng).unwrap();
    };
    let found = estimate(sampler, 40_000, 82, |s, rng| {
        s.refresh();
        s.sweep_paths(OwnMargin::Scales, rng).unwrap();
        (0..4).for_each(|n| component(s, n, rng));
        s.sweep_tables(rng);
        s.draw_weights(rng);
        s.draw_theta(rng).unwrap();
    });
    wrong_as_printed("a shared atom", found[SHARED], (0.809, 0.0032), exact[SHARED]);
}

/// The sweep as a whole, without a margin: E5 to E8 together.
#[test]
fn the_sweep_of_the_paper_is_caught() {
    let (exact, sampler) = four(Rules { paper: Some(OwnMargin::Scales), ..plain() });
    let found = estimate(sampler, 30_000, 83, |s, rng| s.sweep(rng).unwrap());
    let worst = found.iter().zip(&exact).map(|((mean, error), exact)| ((mean - exact) / error).abs()).fold(0.0, f64::max);
    assert!(worst > 6.0, "every statistic is the exact one: {found:?}");
}

/// With a margin of its own alone (E9) a row opens and closes nodes whatever the others are charged: too many leaves, of which 1.83435 are
/// exact.
#[test]
fn a_margin_of_its_own_is_caught() {
    let x = [-1.3, 0.4, 1.6];
    let margin = Margin { separation: 0.3, margin: 1.0, sum: false, phi: x.to_vec(), ln_r: None, least: 0.0 };
    for (own, seed) in [(OwnMargin::Scales, 84), (OwnMargin::Marginal, 85)] {
        let rules = Rules { paper: Some(own), ..plain() };
        let state = State::new(2, 3, None, concentrations(2, 0.8, 1.2, 0.9));
        let charges = Charges { update: EtaUpdate::Paper, ..margin.charges() };
        let sampler = Sampler::new(&x, 1, known(&x, 1, 0.5, 2.0), rules, state).with_charges(Some(charges));
        let found = estimate(sampler, 20_000, seed, |s, rng| s.sweep(rng).unwrap());
        let (leaves, error) = found[1];
        assert!((leaves - 1.83435) / error > 6.0, "{own:?}: {leaves} +- {error} leaves");
        assert!(leaves < 2.374392 - 6.0 * error, "{own:?}: {leaves} +- {error} leaves are those without a margin");
    }
}

/// Over the scale the joint factor has the ratio of charges as its mean: `E[p(after, l)/p(before, l)]` with l given `before`.
#[test]
fn scales_integrate_to_charges() {
    let margin = Margin { separation: 0.7, margin: 1.0, sum: false, phi: vec![1.0], ln_r: None, least: 0.0 };
    let charges = margin.charges();
    let mut rng = Stream::new(86, 0, Purpose::Check).rng();
    for (before, after) in [(0.4, 1.3), (1.3, -0.5), (-0.8, 0.6), (0.0, 1.1), (-0.3, -1.2)] {
        let draws = 40_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let inverse = draw_inverse_scale(0.7 * before, &mut rng).unwrap();
            let ratio = ln_ratio(&charges, OwnMargin::Scales, inverse, before, after).exp();
            sum += ratio / draws as f64;
            squares += ratio * ratio / draws as f64;
        }
        let known = ln_ratio(&charges, OwnMargin::Marginal, 0.0, before, after).exp();
        assert!((known - (-1.4 * (f64::max(after, 0.0) - f64::max(before, 0.0))).exp()).abs() < 1e-12);
        let error = ((squares - sum * sum) / draws as f64).sqrt();
        // five comparisons: a false alarm in 3,000
        assert!(((sum - known) / error).abs() < 4.0, "{before} to {after}: {sum} +- {error}, not {known}");
    }
}
