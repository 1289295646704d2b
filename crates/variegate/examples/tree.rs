//! Rows in a tree of clusters: who belongs together at which level, how surely, and where new rows go.
//!
//! `cargo run --release --example tree`

use variegate::answer::WhichTree;
use variegate::prelude::*;

fn main() -> Result<()> {
    let settings = tree::Settings::default().depth(2).n_chains(2).n_warmup(300).n_draws(200).thin(1);
    let model = settings.validate()?;
    let simulated = model.simulate(60, &Default::default(), 4)?.data;
    let data = simulated.subset(&(0..50).collect::<Vec<_>>());

    let fitted = fit(&model, &data, &RunSettings::default().seed(1), &mut Unobserved)?;
    for fact in fitted.posterior.summary().facts {
        println!("{}: {fact}", fact.name);
    }

    let clusters = fitted.posterior.clusters()?;
    let found = clusters.tree(WhichTree::Point)?;
    for node in found.nodes().filter(|node| node.level == 1) {
        println!("node {} has {} rows; support {:.2}", node.id, node.rows.len(), node.credibility.map_or(f64::NAN, |c| c[2]));
    }
    print!("{}", found.written("newick")?);

    let new_rows = simulated.subset(&[50, 51]);
    let placed = clusters.place(&new_rows, WhichTree::Point)?;
    println!("the first new row goes below node {}, with probability {:.2} at level 1", placed.place[0], placed.probability(0, 1));
    Ok(())
}
