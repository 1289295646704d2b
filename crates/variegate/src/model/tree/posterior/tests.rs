use super::*;
use crate::data::Matrix;
use crate::model::tree::draws::Figures;
use crate::model::tree::margin::{Features, Margin, Penalty};
use crate::model::tree::predict::{Frame, co_occurrence, ln_predictive};
use crate::model::tree::sampler::tests::{concentrations, known};
use crate::score::tree_scores;

/// Two groups that lie far apart.
const X: [f64; 6] = [-5.0, -5.2, -4.9, 5.0, 5.1, 4.8];

/// A draw with these paths (two levels, numbers of nodes) and atoms, as draws of such rows are: nodes have the atoms of their rows, and the deeper
/// one is, the less is left to what is new.
fn draw(parent: &[u32], level: &[u32], leaf: &[u32], atom: &[u32], theta: &[f64], complete: f64) -> Draw {
    let atoms = theta.len();
    let mut weights = vec![0.01; parent.len() * (atoms + 1)];
    for (&leaf, &k) in leaf.iter().zip(atom) {
        for z in [leaf, parent[leaf as usize], 0] {
            weights[z as usize * (atoms + 1) + 1 + k as usize] += 1.0;
        }
    }
    for (own, level) in weights.chunks_exact_mut(atoms + 1).zip(level) {
        let (rest, total) = ([0.3, 0.05, 0.001][*level as usize], own[1..].iter().sum::<f64>());
        own[1..].iter_mut().for_each(|w| *w *= (1.0 - rest) / total);
        own[0] = rest;
    }
    Draw {
        figures: Figures { complete, charged: complete, violation: 0.0, shared: f64::NAN },
        concentrations: concentrations(2, 0.4, 1.0, 0.9),
        leaf: leaf.to_vec(),
        atom: atom.to_vec(),
        parent: parent.to_vec(),
        level: level.to_vec(),
        atoms,
        weights,
        theta: theta.to_vec(),
        eta: vec![],
    }
}

/// A posterior of two chains: two nodes of three rows each, and in every tenth draw the third row apart, with a component of its own.
fn fitted(x: &[f64], draws: usize) -> TreePosterior {
    let one = |d: usize| {
        let complete = -((d % 7) as f64);
        match (x.len(), d % 10) {
            (1, _) => draw(&[0, 0, 1], &[0, 1, 2], &[2], &[0], x, complete),
            (_, 9) => {
                let (parent, level) = ([0, 0, 0, 0, 1, 2, 3], [0, 1, 1, 1, 2, 2, 2]);
                draw(&parent, &level, &[4, 4, 5, 6, 6, 6], &[0, 0, 1, 2, 2, 2], &[-5.1, -4.9, 5.0], complete)
            }
            _ => draw(&[0, 0, 0, 1, 2], &[0, 1, 1, 2, 2], &[3, 3, 3, 4, 4, 4], &[0, 0, 0, 1, 1, 1], &[-5.0, 5.0], complete),
        }
    };
    let bound =
        Bound { columns: vec!["x".into()], width: 1, kernel: known(x, 1, 0.5, 25.0), separated: None, said: vec![], principal: None };
    TreePosterior::new(bound, (0..2 * draws).map(one).collect(), vec![draws, draws])
}

fn rows(x: &[f64]) -> Dataset<'static> {
    let mut data = Dataset::new(Matrix::dense(x.len(), 1, x.to_vec()));
    data.columns = vec!["x".into()];
    data
}

#[test]
fn groups_are_found_and_new_rows_join_them() {
    let posterior = fitted(&X, 400);
    let tree = posterior.tree(WhichTree::Point).unwrap();
    let labels = tree.labels();
    assert!(labels[0] == labels[2] && labels[2] == labels[4] && labels[6] == labels[8] && labels[0] != labels[6], "{labels:?}");
    let placed = posterior.place(&rows(&[-5.1, 5.0, 60.0]), WhichTree::Point).unwrap();
    assert_eq!(placed.path[0], Some(labels[0] as usize));
    assert_eq!(placed.path[2], Some(labels[6] as usize));
    // far from everything: a branch of its own
    assert_eq!((placed.place[2], placed.path[4]), (0, None));
    assert!(placed.probability(0, 1) > 0.5 && placed.probability(1, 1) > 0.5 && placed.probability(2, 1) > 0.5);
    // probabilities are means over the rows of a node, from all draws
    let frames: Vec<Frame<'_>> = posterior.draws.iter().map(|d| Frame::new(d, &posterior.bound.kernel)).collect();
    let shared = co_occurrence(&frames, &[-5.1], None);
    let want = [0, 1, 2].map(|i| shared[2 * i]).iter().sum::<f64>() / 3.0;
    assert!((placed.probability(0, 1) - want).abs() < 1e-12);
    // what is said of a row depends on it alone
    let alone = posterior.place(&rows(&[5.0]), WhichTree::Point).unwrap();
    assert_eq!(alone.through, placed.through[placed.nodes..2 * placed.nodes]);
    for which in [WhichTree::Binder, WhichTree::Best] {
        let placed = posterior.place(&rows(&[-5.1, 5.0]), which).unwrap();
        let labels = posterior.tree(which).unwrap().labels();
        assert_eq!((placed.path[0], placed.path[2]), (Some(labels[0] as usize), Some(labels[6] as usize)), "{which:?}");
        assert!(placed.through.iter().chain(&placed.new).all(|p| (0.0..=1.0 + 1e-12).contains(p)));
    }
}

/// On the tree of the best draw, by the definition: shares of all places, their sums below nodes and above levels, and the likeliest place with
/// the nodes on the way to it.
#[test]
fn places_on_the_best_draw() {
    let posterior = fitted(&X, 40);
    let draw = &posterior.draws[posterior.best];
    let (frame, nodes) = (Frame::new(draw, &posterior.bound.kernel), draw.nodes());
    let x = [-5.1, 4.0, 0.0, 60.0];
    let placed = posterior.place(&rows(&x), WhichTree::Best).unwrap();
    assert_eq!((placed.levels, placed.nodes), (2, nodes));
    let above = |z: usize| draw.parent[z] as usize;
    for (i, x) in x.iter().enumerate() {
        let weights: Vec<f64> = frame.ln_weights(&[*x], None).iter().map(|w| w.exp()).collect();
        let total: f64 = weights.iter().sum();
        let share = |which: &dyn Fn(usize) -> bool| (0..nodes).filter(|&z| which(z)).map(|z| weights[z]).sum::<f64>() / total;
        for z in 0..nodes {
            let want = share(&|y| z == 0 || y == z || (y > 0 && above(y) == z));
            assert!((placed.through[i * nodes + z] - want).abs() < 1e-12, "row {i}, node {z}");
        }
        for level in 1..=2 {
            let want = share(&|z| (draw.level[z] as usize) < level);
            assert!((placed.new[2 * i + level - 1] - want).abs() < 1e-12, "row {i}, level {level}");
        }
        let place = (0..nodes).fold(0, |best, z| if weights[z] > weights[best] { z } else { best });
        let path = match draw.level[place] {
            0 => [None; 2],
            1 => [Some(place), None],
            _ => [Some(above(place)), Some(place)],
        };
        assert_eq!((placed.place[i], &placed.path[2 * i..2 * i + 2]), (place, &path[..]), "row {i}");
    }
    assert!(placed.place.contains(&0) && placed.place.iter().any(|&z| draw.level[z] == 2));
}

#[test]
fn densities_and_components_of_new_rows() {
    let posterior = fitted(&X, 100);
    assert_eq!((posterior.best, posterior.components()), (0, 2));
    let data = rows(&[-5.0, 0.3]);
    let effort = HeldOutEffort { draws: 1000, ..HeldOutEffort::default() };
    let found = posterior.held_out(&data, &effort).unwrap();
    let frames: Vec<Frame<'_>> = posterior.draws.iter().map(|d| Frame::new(d, &posterior.bound.kernel)).collect();
    assert!((found.ln_probability[1] - ln_predictive(&frames, &[0.3])).abs() < 1e-12);
    let shares = posterior.responsibilities(&data).unwrap();
    let width = shares.names.len();
    assert_eq!(width, posterior.components() + 2);
    for row in shares.share.chunks_exact(width) {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
    assert_eq!(posterior.same[9], [Some(0), None, Some(1)], "by the rows they share");
    // the component of the first rows has the row beside them, and none has the one between
    let first = posterior.draws[posterior.best].atom[0] as usize;
    assert!(shares.share[first] > 0.8, "{:?}", shares.share);
    assert!(shares.share[width + width - 1] > shares.share[width + first], "{:?}", shares.share);
}

#[test]
fn a_posterior_comes_back_as_it_was() {
    let posterior = fitted(&X, 50);
    posterior.summary();
    let again = TreePosterior::load(&posterior.save().unwrap()).unwrap();
    // as text: what is not defined equals nothing
    let text = |p: &TreePosterior| p.tree(WhichTree::Point).unwrap().written("json").unwrap();
    assert_eq!(text(&again), text(&posterior));
    assert_eq!(again.arrays().len(), posterior.arrays().len());
    let data = rows(&[1.0]);
    assert_eq!(again.place(&data, WhichTree::Point).unwrap(), posterior.place(&data, WhichTree::Point).unwrap());
    let pairs = posterior.co_occurrence(1).unwrap();
    assert!(pairs[0] == 1.0 && pairs[1] == pairs[6] && pairs[1] > 0.5 && pairs[3] < 0.5, "{pairs:?}");
    assert!(posterior.co_occurrence(3).unwrap_err().to_string().contains("from 1 to 2"));
}

#[test]
fn summaries_name_nodes_and_judge_chains() {
    let posterior = fitted(&X, 200);
    let summary = posterior.summary();
    let said = |name: &str| summary.facts.iter().any(|f| f.name == name);
    assert!(said("nodes of level 2") && said("components") && said("chains apart") && said("one_path_fraction"));
    assert!(summary.tables[0].rows[0].0.starts_with("node 1"));
    assert!(summary.tables[1].rows.iter().any(|r| r.0 == "nodes of level 1"));
    let array = |name: &str| posterior.arrays().into_iter().find(|a| a.name == name).unwrap();
    assert_eq!(array("labels").shape(), [6, 2]);
    assert_eq!(array("co_occurrence").shape(), [2, 6, 6]);
    assert_eq!(array("n_nodes_draws").shape(), [400, 2]);
    let means = array("components");
    assert!(means.values.iter().any(|m| (m + 5.0).abs() < 0.7), "{means:?}");
}

#[test]
fn a_single_row_is_a_path() {
    let posterior = fitted(&[1.5], 20);
    let tree = posterior.tree(WhichTree::Point).unwrap();
    assert_eq!(tree.labels(), [1, 2]);
    assert!(tree.linkage().is_empty() && tree.written("newick").unwrap().starts_with('('));
    assert!(!posterior.summary().facts.is_empty());
    assert_eq!(posterior.place(&rows(&[1.5]), WhichTree::Point).unwrap().levels, 2);
    let one = rows(&[1.5]);
    let scores = tree_scores(&posterior, WhichTree::Point, Some(&one), Some(&[None])).unwrap();
    assert!(scores.iter().any(|s| s.name == "aod" && s.tree.is_nan() && s.defined == 0.0));
}

#[test]
fn scores_of_the_tree_and_of_draws() {
    let posterior = fitted(&X, 100);
    let data = rows(&X);
    let classes = [Some(0), Some(0), None, Some(1), Some(1), Some(1)];
    let scores = tree_scores(&posterior, WhichTree::Point, Some(&data), Some(&classes)).unwrap();
    let of = |name: &str| scores.iter().find(|s| s.name == name).unwrap();
    assert_eq!(of("f_1").tree, 1.0);
    assert_eq!(of("purity").tree, 1.0);
    assert!(of("f_1").mean > 0.8 && of("f_1").mean <= 1.0);
    assert!(of("aid_ratio").tree < 0.1 && of("aod_ratio").tree > 1.0);
    assert!(tree_scores(&posterior, WhichTree::Point, None, Some(&classes[..2])).unwrap_err().to_string().contains("classes"));
}

#[test]
fn wrong_rows_are_refused() {
    let posterior = fitted(&X, 20);
    let wide = Dataset::new(Matrix::dense(1, 2, vec![0.0, 1.0]));
    assert!(posterior.place(&wide, WhichTree::Point).is_err());
    assert!(posterior.place(&rows(&[f64::INFINITY]), WhichTree::Point).is_err());
    assert!("tall".parse::<WhichTree>().unwrap_err().to_string().contains("point, binder, best"));
    let tree = posterior.tree(WhichTree::Point).unwrap();
    assert!(tree.clone().named(vec!["a".into()]).unwrap_err().to_string().contains("names of rows"));
    assert!(tree.written("png").unwrap_err().to_string().contains("newick"));
}

/// How often temperatures swapped their states is told, and that some hardly ever did.
#[test]
fn swaps_of_temperatures_are_told() {
    let mut posterior = fitted(&X, 20);
    let swaps = |tried, accepted| Swaps { tried, accepted };
    posterior.swaps = vec![swaps(200, 80), swaps(200, 3)];
    let again = TreePosterior::load(&posterior.save().unwrap()).unwrap();
    let summary = again.summary();
    let fact = summary.fact("swap acceptance").unwrap();
    assert_eq!(*fact, crate::answer::Figure::Numbers(vec![("1-2".into(), 0.4), ("2-3".into(), 0.015)]));
    assert!(summary.warnings.join(" ").contains("temperatures 2 and 3 hardly ever swapped"), "{:?}", summary.warnings);
    assert!(!summary.warnings.join(" ").contains("temperatures 1 and 2"));
    let array = again.arrays().into_iter().find(|a| a.name == "swap_acceptance").unwrap();
    assert_eq!(array.values, [0.4, 0.015]);
    // too few to judge by
    posterior.swaps = vec![swaps(10, 0)];
    assert!(!posterior.summary().warnings.join(" ").contains("hardly ever swapped"));
    posterior.swaps = vec![];
    assert!(posterior.summary().fact("swap acceptance").is_none());
}

/// With a margin a row is charged for where it would go; the density is not.
#[test]
fn a_margin_has_its_say_in_places_alone() {
    let mut posterior = fitted(&X, 60);
    let data = rows(&[0.8]);
    let effort = HeldOutEffort::default();
    let (places, density) = (posterior.place(&data, WhichTree::Point).unwrap(), posterior.held_out(&data, &effort).unwrap());
    let (shares, best) = (posterior.responsibilities(&data).unwrap(), posterior.place(&data, WhichTree::Best).unwrap());
    let features = Features::new(&X, &[0], Some(3.0), false);
    // scores that tell left from right
    for draw in &mut posterior.draws {
        let mut sums = vec![(0.0, 0.0); draw.nodes()];
        for (i, &leaf) in draw.leaf.iter().enumerate() {
            let mut at = leaf as usize;
            while at > 0 {
                sums[at] = (sums[at].0 + X[i], sums[at].1 + 1.0);
                at = draw.parent[at] as usize;
            }
        }
        draw.eta = sums.iter().map(|(s, n)| if *n > 0.0 { s / n } else { 0.0 }).collect();
    }
    let margin = Margin { separation: 0.5, margin: 1.0, spread: 1.0, penalty: Penalty::Max };
    posterior.bound.separated = Some(Separated { margin, calibrated: true, features });
    let charged = posterior.place(&data, WhichTree::Point).unwrap();
    let right = posterior.tree(WhichTree::Point).unwrap().labels()[6] as usize;
    assert!(charged.through[right] > places.through[right], "{:?} {:?}", charged.through, places.through);
    assert_eq!(posterior.held_out(&data, &effort).unwrap(), density);
    assert_ne!(posterior.responsibilities(&data).unwrap().share, shares.share);
    assert_ne!(posterior.place(&data, WhichTree::Best).unwrap().through, best.through);
}

/// What earlier versions saved says the same.
#[test]
fn earlier_posteriors_are_read() {
    let posterior = fitted(&X, 20);
    let (draws, lengths, best, same) = (posterior.draws.clone(), posterior.lengths.clone(), posterior.best, posterior.same.clone());
    // the third is what is now without the fixed tree, which is a byte that says there is none
    let bytes = postcard::to_stdvec(&posterior).unwrap();
    let (draws_kept, kind) = (&bytes[..bytes.len() - 1], state::Kind::new("tree posterior", &["0.1", "0.1", "0.1"]));
    let kept = state::seal(kind, &Bytes(draws_kept)).unwrap();
    assert_eq!(TreePosterior::load(&kept).unwrap().save().unwrap(), posterior.save().unwrap());
    let second = Second { bound: posterior.bound.clone(), draws, lengths, best, same };
    let kept = state::seal(state::Kind::new("tree posterior", &["0.1", "0.1"]), &second).unwrap();
    assert_eq!(TreePosterior::load(&kept).unwrap().save().unwrap(), posterior.save().unwrap());
    let Bound { columns, width, kernel, separated, said, .. } = posterior.bound.clone();
    let (draws, lengths, best, same) = (posterior.draws.clone(), posterior.lengths.clone(), posterior.best, posterior.same.clone());
    let first = First { bound: FirstBound { columns, width, kernel, separated, said }, draws, lengths, best, same };
    let kept = state::seal(state::Kind::new("tree posterior", &["0.1"]), &first).unwrap();
    let again = TreePosterior::load(&kept).unwrap();
    assert_eq!(again.save().unwrap(), posterior.save().unwrap());
}

/// Bytes as they are.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple;
        let mut all = to.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| all.serialize_element(byte))?;
        all.end()
    }
}
