//! Rows that are sums of a few features: how many there are, which rows use which, and what is behind entries that are missing.
//!
//! `cargo run --release --example features`

use variegate::prelude::*;

fn main() -> Result<()> {
    let settings = features::Settings::default().prior(features::PriorKind::Ibp).mass(2.0).n_chains(2).n_warmup(30).n_draws(40).thin(2);
    let model = settings.validate()?;
    let data = model.simulate(100, &Default::default(), 4)?.data;

    let fitted = fit(&model, &data, &RunSettings::default().seed(1), &mut Unobserved)?;
    for fact in fitted.posterior.summary().facts {
        println!("{}: {fact}", fact.name);
    }

    let new_rows = data.subset(&[0, 1]);
    let places = fitted.posterior.transform(&new_rows)?;
    println!("{} features; the first row uses them with probabilities {:.2?}", places.names.len(), &places.values[..places.names.len()]);
    println!("the first row without its noise: {:.2?}", &fitted.posterior.reconstruct(&new_rows)?.mean[..data.x.cols()]);

    let mut gaps = new_rows.x.to_dense();
    gaps[0] = f64::NAN;
    let filled = fitted.posterior.impute(&Dataset::new(Matrix::dense(2, data.x.cols(), gaps)))?;
    println!("its first entry from the others: {:.2} (sd {:.2})", filled.values[0], filled.deviation[0]);
    Ok(())
}
