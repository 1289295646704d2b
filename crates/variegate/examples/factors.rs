//! Counts from two sources: which factors are there, which sources share them, and what is still to come of half a row.
//!
//! `cargo run --release --example factors`

use variegate::prelude::*;

fn main() -> Result<()> {
    let settings = factors::Settings::default().mass(2.0).n_chains(2).n_warmup(100).n_draws(40).thin(2);
    let model = settings.validate()?;
    let data = model.simulate(200, &Default::default(), 4)?.data;

    let fitted = fit(&model, &data, &RunSettings::default().seed(1), &mut Unobserved)?;
    for fact in fitted.posterior.summary().facts {
        println!("{}: {fact}", fact.name);
    }

    let new_rows = data.subset(&[0, 1]);
    let places = fitted.posterior.transform(&new_rows)?;
    println!("{} factors; the first row: {:.2?}", places.names.len(), &places.values[..places.names.len()]);
    if let Some(completion) = fitted.posterior.answers().completion {
        println!("the rest of the first row, by column: {:.3?}", &completion.complete(&new_rows, 0.5)?[..data.x.cols()]);
    }
    Ok(())
}
