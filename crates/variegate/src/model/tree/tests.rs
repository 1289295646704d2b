//! From settings and data to a posterior.

use serde_json::json;

use super::*;
use crate::answer::HeldOutEffort;
use crate::data::{Dataset, Matrix};
use crate::model::{RunSettings, fit};
use crate::run::Unobserved;

fn quick(settings: Settings) -> Settings {
    settings.n_chains(2).n_warmup(40).n_draws(30).thin(1)
}

fn fitted(settings: Settings, data: &Dataset<'_>, threads: usize) -> Result<Box<dyn Posterior>> {
    let run = RunSettings::default().seed(4).threads(threads).block_rows(7);
    Ok(fit(&settings.validate()?, data, &run, &mut Unobserved)?.posterior)
}

fn labels(posterior: &dyn Posterior) -> Vec<f64> {
    posterior.arrays().into_iter().find(|array| array.name == "labels").unwrap().values
}

/// Two clouds far apart: the tree tells them apart, new rows near one are more probable than rows between them, and what was saved
/// says the same.
#[test]
fn two_clouds_are_two_nodes() {
    let x: Vec<f64> = (0..24).flat_map(|n| [f64::from(n % 2) * 20.0 + f64::from(n % 5) * 0.1, f64::from(n % 3) * 0.1]).collect();
    let data = Dataset::new(Matrix::dense(24, 2, x));
    for separation in [0.0, 0.2] {
        let settings = quick(Settings::default().depth(2).alpha(1.0).separation(separation));
        let posterior = fitted(settings, &data, 1).unwrap();
        let labels = labels(posterior.as_ref());
        let leaves = |n: usize| (labels[2 * n], labels[2 * n + 1]);
        assert!((0..24).all(|n| (leaves(n) == leaves(0)) == (n % 2 == 0)), "{labels:?}");
        let new = Dataset::new(Matrix::dense(3, 2, vec![0.2, 0.1, 20.2, 0.1, 10.0, 0.1]));
        let density = |p: &dyn Posterior| p.answers().density.unwrap().held_out(&new, &HeldOutEffort::default()).unwrap().ln_probability;
        let found = density(posterior.as_ref());
        assert!(found[0] > found[2] + 2.0 && found[1] > found[2] + 2.0, "{found:?}");
        let again = Tree.load(&posterior.save().unwrap()).unwrap();
        assert_eq!(density(again.as_ref()), found);
        assert_eq!(posterior.summary().tables[0].rows.len(), again.summary().tables[0].rows.len());
    }
}

/// Every family of components, every sampler: fits of simulated rows, the same draws for any number of threads.
#[test]
fn every_family_and_sampler_fits() {
    use ComponentKind::*;
    let kinds = [GaussianDiag, GaussianFull, GaussianTied, GaussianKnown, Bernoulli, Categorical, Poisson, Multinomial];
    for (i, kind) in kinds.into_iter().enumerate() {
        let sampler = [SamplerKind::Sequential, SamplerKind::Slice, SamplerKind::Anchored][i % 3];
        let settings = quick(Settings::default().likelihood(kind).sampler(sampler)).n_warmup(10).n_draws(10);
        let simulated = settings.clone().validate().unwrap().simulate(20, &Map::new(), 3).unwrap();
        let one = fitted(settings.clone(), &simulated.data, 1).unwrap();
        let many = fitted(settings.clone(), &simulated.data, 4).unwrap();
        assert_eq!(one.arrays(), many.arrays(), "{kind:?}");
        let model = settings.validate().unwrap();
        let more = model.simulate_more(6, &Map::new(), &Truth::new(&simulated.truth), 5).unwrap();
        let found = one.answers().density.unwrap().held_out(&more.data, &HeldOutEffort::default()).unwrap();
        assert!(found.ln_probability.iter().all(|v| v.is_finite()), "{kind:?}: {found:?}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let said = |given: Value| Tree.configure(given.as_object().unwrap()).err().unwrap().to_string();
    assert!(said(json!({ "alpha": 0.0 })).contains("setting `alpha` is 0"));
    assert!(said(json!({ "depth": 0 })).contains("setting `depth` is 0"));
    assert!(said(json!({ "separation": -1.0 })).contains("setting `separation` is -1"));
    assert!(said(json!({ "margin": 2.0 })).contains("`separation` is 0"));
    assert!(said(json!({ "separation": 0.1, "sampler": "slice" })).contains("anchored"));
    assert!(said(json!({ "separation": 0.1, "penalty": "sum" })).contains("stated"));
    assert!(said(json!({ "n_components": 3, "split_merge": 2 })).contains("n_components"));
    assert!(Tree.configure(json!({ "separation": 0.1, "penalty": "sum", "target": "stated" }).as_object().unwrap()).is_ok());
}

/// What rows cannot be is said with row and column.
#[test]
fn rows_that_do_not_fit_are_named() {
    let data = Dataset::new(Matrix::dense(3, 2, vec![0.0, 1.0, 1.0, 2.0, 0.0, 0.0]));
    let said = fitted(quick(Settings::default().likelihood(ComponentKind::Bernoulli)), &data, 1).err().unwrap().to_string();
    assert!(said.contains('2') && said.contains("x1"), "{said}");
    let one = Dataset::new(Matrix::dense(1, 1, vec![3.0]));
    let posterior = fitted(quick(Settings::default().likelihood(ComponentKind::GaussianKnown)), &one, 1).unwrap();
    assert_eq!(labels(posterior.as_ref()), [1.0, 2.0, 3.0], "numbers of nodes, the root being 0");
}
