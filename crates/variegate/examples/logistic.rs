//! Two classes and one linear boundary: exact posterior draws, and probabilities averaged over them.
//!
//! `cargo run --release --example logistic`

use variegate::prelude::*;

fn main() -> Result<()> {
    let model = logistic::Settings::default().prior_precision(0.5).n_chains(2).n_draws(500).validate()?;
    // data from the prior of the model, with the truth; your own come as `Dataset::new(Matrix::dense(rows, columns, values))`
    let simulated = model.simulate(500, &Default::default(), 1)?;

    let fitted = fit(&model, &simulated.data, &RunSettings::default().seed(2), &mut Unobserved)?;
    println!("truth: {}", simulated.truth["coefficients"]);
    let summary = fitted.posterior.summary();
    for (name, numbers) in summary.rows() {
        println!("{name:>10}  mean {:>7.3}  sd {:.3}", numbers[0], numbers[1]);
    }
    println!("{}", summary.notes.join("\n"));

    let new_rows = Dataset::new(Matrix::dense(2, 3, vec![1.0, 0.0, -1.0, 0.0, 0.0, 0.0]));
    let predicted = fitted.posterior.predict(&new_rows, "")?;
    println!("probabilities of {:?}: {:.3?}", fitted.posterior.classes(), predicted.probability);
    Ok(())
}
