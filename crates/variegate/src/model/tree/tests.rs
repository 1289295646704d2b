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
        let settings = quick(Settings::default().depth(2).alpha(1.0.into()).separation(separation.into()));
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

/// Tempered fits of all samplers, the same draws for any number of threads; the summary tells how often temperatures swapped their states.
#[test]
fn tempered_fits() {
    let x: Vec<f64> = (0..24).flat_map(|n| [f64::from(n % 2) * 20.0 + f64::from(n % 5), f64::from(n % 3)]).collect();
    let data = Dataset::new(Matrix::dense(24, 2, x));
    for (sampler, separation) in [(SamplerKind::Sequential, 0.2), (SamplerKind::Slice, 0.0), (SamplerKind::Anchored, 0.2)] {
        let settings = quick(Settings::default().depth(2).alpha(1.0.into()).sampler(sampler).separation(separation.into()).temperatures(3));
        let one = fitted(settings.clone(), &data, 1).unwrap();
        assert_eq!(one.arrays(), fitted(settings, &data, 4).unwrap().arrays(), "{sampler:?}");
        let again = Tree.load(&one.save().unwrap()).unwrap();
        let shown = |p: &dyn Posterior| p.summary().fact("swap acceptance").unwrap().to_string();
        assert!(shown(one.as_ref()).starts_with("1-2 "), "{}", shown(one.as_ref()));
        assert_eq!(shown(again.as_ref()), shown(one.as_ref()));
        // two chains of 30 sweeps after the warm-up, every other of which tries a pair
        let rates = one.arrays().into_iter().find(|a| a.name == "swap_acceptance").unwrap();
        assert_eq!(rates.values.len(), 2);
        assert!(rates.values.iter().all(|rate| (30.0 * rate - (30.0 * rate).round()).abs() < 1e-9), "{rates:?}");
    }
}

/// With principal components a fit is that of the rows' coordinates, to the last bit: draws, densities and places of new rows given in columns,
/// distances; and what was saved says the same. All samplers, and a margin.
#[test]
fn principal_components_stand_for_columns() {
    use super::components::Columns;
    use super::principal::Principal;
    let x: Vec<f64> =
        (0..30).flat_map(|n| [3.0 * f64::from(n % 3), f64::from(n % 3) + f64::from(n % 7) * 0.2, f64::from(n % 5) * 0.1, 1.0]).collect();
    let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).into();
    let principal = Principal::new(&x, &Columns::of(ComponentFamily::GaussianDiag, &x, &names).unwrap(), 2).unwrap();
    let table = |x: Vec<f64>, width: usize| Dataset::new(Matrix::dense(x.len() / width, width, x));
    let new: Vec<f64> = [[0.1, 0.2, 0.3, 1.0], [6.0, 2.5, 0.1, 1.0], [30.0, 0.0, 0.0, 2.0]].concat();
    for (sampler, separation) in [(SamplerKind::Sequential, 0.1), (SamplerKind::Slice, 0.0), (SamplerKind::Anchored, 0.1)] {
        let settings =
            quick(Settings::default().depth(2).alpha(1.0.into()).sampler(sampler).separation(separation.into())).n_warmup(10).n_draws(10);
        let plain = fitted(settings.clone(), &table(principal.of_rows(&x), 2), 1).unwrap();
        let mut data = table(x.clone(), 4);
        data.columns = names.clone();
        let found = fitted(settings.pca(Some(2)), &data, 2).unwrap();
        let array = |p: &dyn Posterior, name: &str| p.arrays().into_iter().find(|a| a.name == name).unwrap().values;
        for name in ["labels", "log_joint_draws", "n_components_draws", "co_occurrence"] {
            assert_eq!(array(found.as_ref(), name), array(plain.as_ref(), name), "{sampler:?}: {name}");
        }
        let again = Tree.load(&found.save().unwrap()).unwrap();
        let coordinates = table(principal.of_rows(&new), 2);
        for posterior in [found.as_ref(), again.as_ref()] {
            let (own, other) = (posterior.answers(), plain.answers());
            let rows = table(new.clone(), 4);
            let (own, other) = ((own.density.unwrap(), own.clusters.unwrap()), (other.density.unwrap(), other.clusters.unwrap()));
            let effort = HeldOutEffort::default();
            assert_eq!(
                own.0.held_out(&rows, &effort).unwrap().ln_probability,
                other.0.held_out(&coordinates, &effort).unwrap().ln_probability
            );
            let places = |c: &dyn crate::answer::ClusterRows, d: &Dataset<'_>| c.place(d, crate::answer::WhichTree::Point).unwrap().through;
            assert_eq!(places(own.1, &rows), places(other.1, &coordinates));
            assert_eq!(own.1.numbers(&rows).unwrap(), (principal.of_rows(&new), 2));
        }
        // components are shown in columns
        let (shown, means) = (array(found.as_ref(), "components"), array(plain.as_ref(), "components"));
        let back: Vec<f64> = means.chunks(2).flat_map(|row| principal.back(row)).collect();
        assert_eq!(shown, back);
        assert!(found.summary().fact("variance of principal components").is_some());
        let gap = table(vec![0.1, f64::NAN, 0.3, 1.0], 4);
        let said = found.answers().density.unwrap().held_out(&gap, &HeldOutEffort::default()).err().unwrap().to_string();
        assert!(said.contains("`b`") && said.contains("pca"), "{said}");
    }
    let holes = Dataset::new(Matrix::dense(3, 2, vec![0.0, 1.0, f64::NAN, 2.0, 0.5, 0.0]));
    let said = fitted(quick(Settings::default().pca(Some(1))), &holes, 1).err().unwrap().to_string();
    assert!(said.contains("row 2") && said.contains("leave `pca` out"), "{said}");
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
    assert!(said(json!({ "alpha": "0.3,0.2" })).contains("one number for all levels, or 3"));
    assert!(said(json!({ "gamma": "0.3,0,1" })).contains("above 0"));
    assert!(said(json!({ "separation": "much" })).contains("auto"));
    assert!(said(json!({ "own_margin": "marginal" })).contains("`separation` is 0"));
    assert!(said(json!({ "separation": 0.1, "own_margin": "marginal" })).contains("unless `sampler` is paper"));
    assert!(said(json!({ "separation": 0.1, "sampler": "paper" })).contains("no calibration"));
    assert!(said(json!({ "sampler": "paper", "learn_concentrations": true })).contains("`sampler` is paper"));
    assert!(said(json!({ "sampler": "paper", "temperatures": 3 })).contains("`sampler` is paper"));
    assert!(said(json!({ "temperatures": 0 })).contains("from 1 to 32"));
    assert!(said(json!({ "node_sweeps": -1 })).contains("node_sweeps"));
    assert!(said(json!({ "start": "lables" })).contains("labels"));
    assert!(said(json!({ "temperatures": 33 })).contains("from 1 to 32"));
    assert!(said(json!({ "concentration_shape": 2.0 })).contains("`learn_concentrations`"));
    assert!(said(json!({ "variance": 2.0 })).contains("gaussian-known"));
    assert!(said(json!({ "likelihood": "poisson", "prior_strength": 2.0 })).contains("`prior_strength`"));
    assert!(said(json!({ "likelihood": "bernoulli", "pca": 2 })).contains("Gaussian"));
    assert!(Tree.configure(json!({ "separation": 0.1, "penalty": "sum", "target": "stated" }).as_object().unwrap()).is_ok());
    for good in [
        json!({ "alpha": "0.3,0.2,0.1", "gamma": [1, 2, 3], "learn_concentrations": true, "concentration_rate": 0.5 }),
        json!({ "separation": "auto", "sampler": "paper", "target": "stated", "own_margin": "marginal" }),
    ] {
        assert!(Tree.configure(good.as_object().unwrap()).is_ok(), "{good}");
    }
}

#[test]
fn settings_reach_the_sampler() {
    let apart = Settings::default().alpha(Numbers(vec![0.3, 0.2, 0.1])).gamma(2.0.into());
    let (rules, c) = (apart.rules(50), apart.concentrations());
    assert_eq!((rules.one_alpha, rules.one_gamma), (false, true));
    assert_eq!((c.alpha, c.gamma), (vec![0.3, 0.2, 0.1], vec![2.0; 3]));
    let auto = Settings::default().separation(Pull::Auto);
    assert_eq!([10, 100].map(|rows| auto.charge(rows).unwrap().separation), [0.3, 0.1]);
    assert_eq!(auto.target(TargetKind::Stated).charge(10).unwrap().separation, 0.01);
    assert!(Settings::default().charge(10).is_none());
}

/// Every setting of a prior makes another kernel, and the defaults of the specification the same one.
#[test]
fn priors_reach_the_components() {
    use crate::model::tree::program::Components;
    use ComponentKind::*;
    let x = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0];
    let kernel = |likelihood: ComponentKind, given: Value| {
        let mut all = given.as_object().unwrap().clone();
        all.insert("likelihood".into(), json!(likelihood.word()));
        let settings = resolve::<Settings>(NAME, &all).unwrap();
        settings.clone().validate().unwrap();
        let names = vec!["a".to_string(), "b".to_string()];
        let Components::Unbound { family, prior, names } = settings.program(4, names, vec![]).components else { unreachable!() };
        components::Kernel::bind(family, &prior, &components::Columns::of(family, &x, &names).unwrap()).unwrap().0
    };
    for (likelihood, name, same, other) in [
        (GaussianDiag, "prior_mean", json!(0.5), json!("0.5,0.25")),
        (GaussianDiag, "mean_strength", json!(0.1), json!(0.2)),
        (GaussianDiag, "precision_shape", json!(2.0), json!(3.0)),
        (GaussianDiag, "precision_rate", json!(0.0625), json!([0.0625, 0.1])),
        (GaussianFull, "freedom", json!(5.0), json!(6.0)),
        (GaussianFull, "scatter", json!(0.125), json!(0.2)),
        (GaussianKnown, "variance", json!(1.0), json!("1,2")),
        (GaussianKnown, "mean_variance", json!(1.0), json!(4.0)),
        (GaussianTied, "variance_shape", json!(2.0), json!(3.0)),
        (GaussianTied, "variance_rate", json!(0.0625), json!(0.1)),
        (Bernoulli, "base", json!(0.5), json!("0.5,0.6")),
        (Multinomial, "base", json!([0.5, 0.5]), json!([0.4, 0.6])),
        (Categorical, "base", json!([0.5, 0.5, 0.5, 0.5]), json!([0.5, 0.5, 0.6, 0.4])),
        (Poisson, "rate_shape", json!(1.0), json!(2.0)),
        (Poisson, "rate_rate", json!(2.0), json!("2,3")),
    ] {
        let mut given = Map::new();
        let default = kernel(likelihood, json!({}));
        given.insert(name.into(), same);
        assert_eq!(kernel(likelihood, Value::Object(given.clone())), default, "{name}");
        given.insert(name.into(), other);
        assert_ne!(kernel(likelihood, Value::Object(given)), default, "{name}");
    }
    assert!(kernel(Bernoulli, json!({})).learns_strength() && !kernel(Bernoulli, json!({ "prior_strength": 2.0 })).learns_strength());
}

/// Priors that no data fit are refused or sampled under, in words either way.
#[test]
fn extreme_priors_are_survived() {
    let counts = Dataset::new(Matrix::dense(6, 2, vec![0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]));
    for (likelihood, name) in [
        ("gaussian-diag", "mean_strength"),
        ("gaussian-diag", "precision_shape"),
        ("gaussian-diag", "precision_rate"),
        ("gaussian-diag", "prior_mean"),
        ("gaussian-full", "freedom"),
        ("gaussian-full", "scatter"),
        ("gaussian-full", "prior_mean"),
        ("gaussian-known", "variance"),
        ("gaussian-known", "mean_variance"),
        ("gaussian-tied", "variance_shape"),
        ("gaussian-tied", "variance_rate"),
        ("gaussian-tied", "mean_variance"),
        ("bernoulli", "base"),
        ("bernoulli", "prior_strength"),
        ("categorical", "prior_strength"),
        ("multinomial", "prior_strength"),
        ("poisson", "rate_shape"),
        ("poisson", "rate_rate"),
    ] {
        for value in [1e-300, 1e-12, 1e12, 1e300] {
            let mut given = json!({ "likelihood": likelihood, "depth": 2, "n_chains": 1, "n_warmup": 3, "n_draws": 3, "thin": 1 });
            given[name] = json!(value);
            let settings = resolve::<Settings>(NAME, given.as_object().unwrap()).unwrap();
            match fitted(settings, &counts, 1) {
                Ok(posterior) => assert!(!posterior.summary().facts.is_empty()),
                Err(error) => assert!(error.to_string().len() > 10, "{error}"),
            }
        }
    }
}

/// What a user should know of a fit is in its summary.
#[test]
fn summaries_warn() {
    let rows = |f: &dyn Fn(usize) -> f64| Dataset::new(Matrix::dense(12, 1, (0..12).map(f).collect::<Vec<_>>()));
    let (spread, constant) = (rows(&|n| 10.0 * (n % 3) as f64 + 0.1 * n as f64), rows(&|_| 2.0));
    let base = || quick(Settings::default().depth(2).likelihood(ComponentKind::GaussianKnown)).n_warmup(20).n_draws(10);
    let stated = || base().separation(0.1.into()).target(TargetKind::Stated).alpha(2.0.into());
    let warnings = |settings: Settings, data| fitted(settings, data, 1).unwrap().summary().warnings.join("; ");
    assert!(!warnings(base(), &spread).contains("paper"));
    assert!(warnings(base().sampler(SamplerKind::Paper), &spread).contains("the sampler `paper` is approximate"));
    for own in [OwnMarginKind::Scales, OwnMarginKind::Marginal] {
        assert!(warnings(stated().sampler(SamplerKind::Paper).own_margin(own), &spread).contains("the sampler `paper` is approximate"));
    }
    let frozen = stated().score_update(ScoreUpdateKind::Paper);
    assert!(warnings(frozen.clone(), &spread).contains("more than one sibling"));
    assert!(!warnings(frozen.penalty(PenaltyKind::Sum), &spread).contains("sibling"));
    assert!(warnings(base().alpha(0.01.into()), &spread).contains("hardly any node has siblings"));
    // without features there is no margin, whatever the target would charge
    let idle = fitted(stated().separation(5.0.into()), &constant, 1).unwrap();
    assert!(idle.summary().warnings.join("; ").contains("nothing to tell siblings by"));
    let arrays = idle.arrays();
    let of = |name: &str| arrays.iter().find(|a| a.name == name).unwrap().values.clone();
    assert_eq!(of("log_joint_draws"), of("log_likelihood_draws"));
    assert!(of("one_path_fraction")[0] < 1.0);
}

/// Fits from every start, under every sampler.
#[test]
fn every_start_fits() {
    let x: Vec<f64> = (0..24).flat_map(|n| [f64::from(n % 2) * 20.0 + f64::from(n % 5) * 0.1, f64::from(n % 3)]).collect();
    let data = Dataset::new(Matrix::dense(24, 2, x));
    use ComponentKind::{Categorical, GaussianDiag, GaussianFull};
    for (start, sampler, kind, separation) in [
        (StartKind::Ward, SamplerKind::Sequential, GaussianFull, 0.2),
        (StartKind::Ward, SamplerKind::Slice, GaussianDiag, 0.0),
        (StartKind::Prior, SamplerKind::Anchored, GaussianDiag, 0.2),
        (StartKind::Single, SamplerKind::Paper, GaussianDiag, 0.0),
        (StartKind::Single, SamplerKind::Anchored, GaussianDiag, 0.2),
    ] {
        let settings = quick(Settings::default().depth(2).alpha(1.0.into()).start(start).sampler(sampler).likelihood(kind));
        let posterior = fitted(settings.separation(separation.into()), &data, 1).unwrap();
        assert!(posterior.summary().facts.len() > 3, "{start:?}");
    }
    let codes = Dataset::new(Matrix::dense(12, 2, (0..24).map(|n| f64::from(n % 3)).collect::<Vec<_>>()));
    fitted(quick(Settings::default().likelihood(Categorical).start(StartKind::Ward)), &codes, 1).unwrap();
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

/// Chains begin with labels: at sweep 0 rows are where these say, in every state of a tempered chain, and what cannot be is refused in words.
#[test]
fn labels_that_chains_begin_with() {
    use super::program::TreeSampler;
    use crate::data::{Classes, Target, blocks};
    use crate::run::{Purpose, Shape, Stream, Threads};
    let x: Vec<f64> = (0..24).flat_map(|n| [f64::from(n % 3) * 20.0 + f64::from(n % 5) * 0.1, f64::from(n % 4)]).collect();
    let label = |n: usize| if n == 7 { "" } else { ["a/x", "a/y", "b"][n % 3] };
    let rows = |label: &dyn Fn(usize) -> &'static str| {
        Dataset::new(Matrix::dense(24, 2, x.clone())).with_target(Target::Classes(Classes::encode((0..24).map(label))))
    };
    let data = rows(&label);
    let settings = quick(Settings::default().depth(2).temperatures(2).start(StartKind::Labels));
    let Target::Classes(classes) = &data.target else { unreachable!() };
    let program = settings.program(24, vec!["u".into(), "v".into()], super::labels::paths(&classes.names, 2).unwrap());
    let (cut, shape) = (blocks(&data, 5), Shape { rows: 24, cols: 2, blocks: 5, block_rows: 5 });
    let mut visited = Threads::<TreeSampler>::new(&program, &cut, shape, 3, 0, None);
    visited.begin(0);
    let chain = crate::run::Program::start(&program, &mut visited, Stream::new(3, 0, Purpose::Start)).unwrap();
    for state in [&chain.state, &chain.hot[0].state] {
        state.assert_consistent();
        let at = |n: usize, level: usize| state.arena.ancestor(state.leaf[n], level);
        for (n, m) in (0..24).flat_map(|n| (0..24).map(move |m| (n, m))).filter(|(n, m)| *n != 7 && *m != 7) {
            assert_eq!(at(n, 1) == at(m, 1), label(n).as_bytes()[0] == label(m).as_bytes()[0], "{n} {m}");
            assert_eq!(at(n, 2) == at(m, 2), label(n) == label(m), "{n} {m}");
        }
        assert_eq!(at(7, 2), at(4, 2), "a row without a label is with its like");
    }
    // a fit from there, and from its own schema
    let model = settings.clone().validate().unwrap();
    let prepared = RunSettings::default().seed(4).prepare(&model, &data).unwrap();
    assert!(model.reopen(prepared.fit.schema()).is_ok());
    let one = fitted(settings.clone(), &data, 1).unwrap();
    assert_eq!(one.arrays(), fitted(settings.clone(), &data, 3).unwrap().arrays());
    // a schema of before has no labels
    let old = (vec!["u".to_string()], 2usize, 24usize);
    let schema = Schema::unseal(&saved::seal(saved::Kind::new("tree schema", &["0.1"]), &old).unwrap()).unwrap();
    assert_eq!((schema.columns, schema.width, schema.rows, schema.labels), (old.0, 2, 24, vec![]));

    let said = |data: &Dataset<'_>| fitted(settings.clone(), data, 1).err().unwrap().to_string();
    assert!(said(&Dataset::new(Matrix::dense(24, 2, x.clone()))).contains("`start` is labels, but the rows have none"));
    let deep = said(&rows(&|n| if n == 3 { "a/x/1" } else { "a" }));
    assert!(deep.contains("`a/x/1`") && deep.contains("2 levels"), "{deep}");
}

fn placed(posterior: &dyn Posterior, data: &Dataset<'_>) -> crate::answer::PlacedRows {
    posterior.clusters().unwrap().place(data, crate::answer::WhichTree::Point).unwrap()
}

/// After the draws the nodes of the tree have weights of their own: on any engine, however often the run is stopped, and after it was extended. New rows
/// have probabilities that add up to 1. Draws are what they are without.
#[test]
fn nodes_have_weights() {
    use crate::run::{ChainProgress, Ending, Engine, Loopback, Memory, Next, Results, drive, drive_on, shape_of};
    let x: Vec<f64> = (0..24).flat_map(|n| [f64::from(n % 2) * 20.0 + f64::from(n % 5) * 0.1, f64::from(n % 3)]).collect();
    let data = Dataset::new(Matrix::dense(24, 2, x));
    let new = Dataset::new(Matrix::dense(3, 2, vec![0.2, 0.1, 20.2, 0.1, 500.0, 0.1]));
    for (sampler, separation) in [(SamplerKind::Sequential, 0.2), (SamplerKind::Slice, 0.0), (SamplerKind::Paper, 0.0)] {
        let settings = quick(Settings::default().depth(2).alpha(1.0.into()).sampler(sampler).separation(separation.into()));
        let settings = settings.node_sweeps(60);
        let (with, without) = (fitted(settings.clone(), &data, 1).unwrap(), fitted(settings.clone().node_sweeps(0), &data, 1).unwrap());
        let array = |p: &dyn Posterior, name: &str| p.arrays().into_iter().find(|a| a.name == name);
        for name in ["labels", "log_joint_draws", "n_components_draws", "co_occurrence", "components"] {
            assert_eq!(array(with.as_ref(), name), array(without.as_ref(), name), "{sampler:?}: {name}");
        }
        assert!(array(without.as_ref(), "node_weights").is_none());
        let weights = array(with.as_ref(), "node_weights").unwrap();
        let tree = with.clusters().unwrap().tree(crate::answer::WhichTree::Point).unwrap();
        let width = weights.values.len() / tree.nodes().count();
        assert!(weights.values.chunks(width).all(|node| (node.iter().sum::<f64>() - 1.0).abs() < 1e-12), "{sampler:?}: {weights:?}");

        let (found, before) = (placed(with.as_ref(), &new), placed(without.as_ref(), &new));
        assert_eq!((&found.place, &found.path), (&before.place, &before.path), "places are those of least loss");
        assert_ne!(found.through, before.through);
        for (i, level) in (0..3).flat_map(|i| (1..=2).map(move |l| (i, l))) {
            let nodes: f64 = tree.nodes().filter(|n| n.level == level).map(|n| found.through[i * found.nodes + n.id]).sum();
            assert!((nodes + found.new[i * 2 + level - 1] - 1.0).abs() < 1e-12, "{sampler:?}: row {i}, level {level}");
        }
        // rows within a group are most likely in its node, one far away is in none
        assert!(found.probability(0, 1) > 0.8 && found.probability(1, 1) > 0.8, "{found:?}");
        let again = Tree.load(&with.save().unwrap()).unwrap();
        assert_eq!(placed(again.as_ref(), &new), found);
        assert_eq!(array(again.as_ref(), "node_weights").unwrap(), weights);

        // elsewhere, stopped in every round, and with chains and draws added
        let model = settings.clone().validate().unwrap();
        let run = RunSettings::default().seed(4).block_rows(7);
        let prepared = run.prepare(&model, &data).unwrap();
        let shape = shape_of(&data, Some(7)).unwrap();
        let workers = Loopback::new(prepared.fit.shared_program(), &data, shape, &[2]).unwrap().killing(5);
        let mut results = Results::default();
        let program = prepared.fit.program();
        drive_on(Engine::Workers(&workers), shape, program, &prepared.plan, run.pace(), &mut results, &mut Unobserved).unwrap();
        assert_eq!(placed(prepared.fit.posterior(&results.0.chains).unwrap().as_ref(), &new), found);
        let short = settings.clone().n_chains(1).n_draws(9).validate().unwrap();
        let begun = run.prepare(&short, &data).unwrap();
        let mut kept = Memory::default();
        drive(begun.fit.program(), &data, &begun.plan, run.pace(), &mut kept, &mut Unobserved).unwrap();
        assert!(begun.fit.posterior(&kept.chains).unwrap().arrays().iter().any(|a| a.name == "node_weights"));
        kept.chains[0].finished = false;
        let stop = &mut |_: &[ChainProgress]| Next::Stop;
        while drive(program, &data, &prepared.plan, run.pace(), &mut kept, stop).unwrap() == Ending::Stopped {}
        assert_eq!(placed(prepared.fit.posterior(&kept.chains).unwrap().as_ref(), &new), found, "{sampler:?}");
        // what is not over is not used
        let mut half = kept.clone();
        half.chains.truncate(1);
        assert!(prepared.fit.posterior(&half.chains).unwrap().arrays().iter().all(|a| a.name != "node_weights"));
    }
}
