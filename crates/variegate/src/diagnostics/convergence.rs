//! Convergence said in words: which numbers are bad, how bad, and what to do.

use serde::{Deserialize, Serialize};

use super::Summary;

/// R-hat above this: the chains disagree.
pub const R_HAT_LIMIT: f64 = 1.01;
/// Effective sample size that each chain should bring (400 for the usual four).
pub const ESS_PER_CHAIN: f64 = 100.0;

/// How a fit is gone on with, whichever diagnostic asks for it.
const MORE_DRAWS: &str = "To get more draws, go on with this fit: `variegate extend RUN --draws N` in the shell; in Python fit again with a larger n_draws \
                          and the same out.";

/// Whether the chains can be trusted, and why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// No diagnostic speaks against it.
    pub converged: bool,
    /// One sentence a problem, each with its numbers and a remedy; one sentence that says so if there is none.
    pub sentences: Vec<String>,
}

/// Judges named quantities from `n_chains` chains.
///
/// Bad are R-hat above 1.01 and bulk or tail ESS below 100 a chain. A quantity that never varied (sd 0) has no R-hat and is
/// left out; one that is not a number, or has too few draws, is reported. One chain alone cannot be checked against others,
/// which is said but does not count as a failure.
pub fn convergence<'a>(quantities: impl IntoIterator<Item = (&'a str, &'a Summary)>, n_chains: usize) -> Convergence {
    let all: Vec<(&str, &Summary)> = quantities.into_iter().collect();
    let varying: Vec<_> = all.iter().copied().filter(|(_, s)| s.sd != 0.0).collect();
    let needed = ESS_PER_CHAIN * n_chains as f64;
    let mut sentences = Vec::new();

    let broken: Vec<_> = varying.iter().filter(|(_, s)| !s.mean.is_finite()).collect();
    if let Some((name, _)) = broken.first() {
        sentences.push(format!(
            "The draws of {name}{} hold values that are not finite: look at the data and the priors before anything else.",
            and_more(broken.len(), all.len())
        ));
    }
    let finite: Vec<_> = varying.iter().copied().filter(|(_, s)| s.mean.is_finite()).collect();
    let few: Vec<_> = finite.iter().filter(|(_, s)| s.ess_bulk.is_nan()).collect();
    if !few.is_empty() {
        sentences.push("There are too few draws for any diagnostic (at least 4 a chain, of equal number): ask for more draws.".to_string());
    }

    let mut complain = |value: fn(&Summary) -> f64, bad: &dyn Fn(f64) -> bool, say: &dyn Fn(&str, f64) -> String| {
        let mut hits: Vec<_> = finite.iter().map(|(n, s)| (*n, value(s))).filter(|(_, v)| bad(*v)).collect();
        // Worst first: large R-hat, small sizes.
        hits.sort_by(|a, b| a.1.total_cmp(&b.1));
        if bad(f64::INFINITY) {
            hits.reverse();
        }
        if let Some(&(name, worst)) = hits.first() {
            sentences.push(say(&format!("{name}{}", and_more(hits.len(), all.len())), worst));
        }
    };
    complain(|s| s.r_hat, &|v| v > R_HAT_LIMIT, &|who, worst| {
        format!(
            "R-hat is {worst:.3} for {who} (it should be at most {R_HAT_LIMIT}): the chains do not agree yet. Run longer, \
             with more warm-up; if it stays, look for several modes or for labels that switch between chains."
        )
    });
    complain(|s| s.ess_bulk, &|v| v < needed, &|who, worst| {
        format!(
            "Bulk ESS is {worst:.0} for {who} (it should be at least {needed:.0}, {ESS_PER_CHAIN:.0} a chain): means are noisy. \
             Ask for about {} times as many draws.",
            times(needed, worst)
        )
    });
    complain(|s| s.ess_tail, &|v| v < needed, &|who, worst| {
        format!(
            "Tail ESS is {worst:.0} for {who} (it should be at least {needed:.0}): 5 % and 95 % quantiles are noisy. \
             Ask for about {} times as many draws.",
            times(needed, worst)
        )
    });

    let converged = sentences.is_empty();
    if converged {
        sentences.push(summing_up(&finite, n_chains));
    } else if !finite.is_empty() {
        sentences.push(MORE_DRAWS.into());
    }
    Convergence { converged, sentences }
}

fn summing_up(quantities: &[(&str, &Summary)], n_chains: usize) -> String {
    let smallest = quantities.iter().map(|(_, s)| s.ess_bulk.min(s.ess_tail)).fold(f64::INFINITY, f64::min);
    let largest = quantities.iter().map(|(_, s)| s.r_hat).fold(f64::NEG_INFINITY, f64::max);
    if quantities.is_empty() {
        "No quantity varied: there is nothing to diagnose.".to_string()
    } else if n_chains < 2 {
        format!(
            "Effective sample sizes are sufficient (at least {smallest:.0}), but one chain cannot be checked against others: \
             run at least two for R-hat."
        )
    } else {
        format!("The chains agree: R-hat is at most {largest:.3} and the effective sample sizes are at least {smallest:.0}.")
    }
}

fn and_more(bad: usize, all: usize) -> String {
    match bad {
        0 | 1 => String::new(),
        _ => format!(" and {} more of {all} quantities", bad - 1),
    }
}

/// How many times more draws: rounded up, at least twice.
fn times(needed: f64, have: f64) -> String {
    format!("{:.0}", (needed / have.max(1.0)).ceil().max(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Summary {
        Summary {
            mean: 0.0,
            sd: 1.0,
            mcse_mean: 0.02,
            mcse_sd: 0.02,
            q5: -1.6,
            q50: 0.0,
            q95: 1.6,
            ess_bulk: 2_000.0,
            ess_tail: 1_500.0,
            r_hat: 1.003,
        }
    }

    #[test]
    fn says_that_all_is_well() {
        let verdict = convergence([("w", &good())], 4);
        assert!(verdict.converged);
        assert_eq!(verdict.sentences, ["The chains agree: R-hat is at most 1.003 and the effective sample sizes are at least 1500."]);
    }

    #[test]
    fn names_the_worst_and_counts_the_rest() {
        let shaky = Summary { r_hat: 1.02, ..good() };
        let bad = Summary { r_hat: 1.234, ess_bulk: 35.0, ..good() };
        let verdict = convergence([("a", &shaky), ("b", &good()), ("c", &bad)], 4);
        assert!(!verdict.converged);
        assert_eq!(verdict.sentences.len(), 3);
        assert!(verdict.sentences[2].contains("variegate extend"), "{verdict:?}");
        assert!(verdict.sentences[0].starts_with("R-hat is 1.234 for c and 1 more of 3 quantities"), "{verdict:?}");
        assert!(verdict.sentences[1].starts_with("Bulk ESS is 35 for c (it should be at least 400"), "{verdict:?}");
        assert!(verdict.sentences[1].contains("about 12 times"), "{verdict:?}");
        let tails = Summary { ess_tail: 399.0, ..good() };
        assert!(convergence([("t", &tails)], 4).sentences[0].starts_with("Tail ESS is 399 for t"));
        assert!(convergence([("t", &tails)], 2).converged);
    }

    #[test]
    fn odd_quantities() {
        let constant = Summary { sd: 0.0, r_hat: f64::NAN, mcse_sd: f64::NAN, ..good() };
        assert!(convergence([("k", &constant)], 4).converged);
        let broken = Summary { mean: f64::NAN, sd: f64::NAN, ess_bulk: f64::NAN, ..good() };
        let verdict = convergence([("x", &broken)], 4);
        assert!(!verdict.converged && verdict.sentences[0].contains("not finite"), "{verdict:?}");
        let short = super::super::summarise(&[[1.0, 2.0, 3.0]]);
        let verdict = convergence([("x", &short)], 1);
        assert!(!verdict.converged && verdict.sentences[0].contains("too few draws"), "{verdict:?}");
        let alone = Summary { r_hat: f64::NAN, ..good() };
        let verdict = convergence([("x", &alone)], 1);
        assert!(verdict.converged && verdict.sentences[0].contains("run at least two"), "{verdict:?}");
        assert!(convergence([], 4).converged);
    }
}
