//! Classes apart by a margin: a support vector machine with exact draws, and the usual maximum beside it.
//!
//! `cargo run --release --example svm`

use variegate::prelude::*;

fn main() -> Result<()> {
    let prior = svm::Settings::default().prior_precision(Some(0.5)).bias_precision(1.0);
    let model = prior.clone().n_chains(2).n_draws(500).validate()?;
    // data by the classes' shares of the hinge, with the truth; your own come as `Dataset::new(Matrix::dense(rows, columns, values))`
    let simulated = model.simulate(300, &Default::default(), 1)?;

    let fitted = fit(&model, &simulated.data, &RunSettings::default().seed(2), &mut Unobserved)?;
    println!("truth: {}", simulated.truth["coefficients"]);
    let summary = fitted.posterior.summary();
    for (name, numbers) in summary.rows() {
        println!("{name:>12}  mean {:>7.3}  sd {:.3}", numbers[0], numbers[1]);
    }
    println!("{}", summary.notes.join("\n"));

    let point = fit(&prior.inference(svm::Inference::Map).validate()?, &simulated.data, &RunSettings::default(), &mut Unobserved)?;
    for (name, numbers) in point.posterior.summary().rows() {
        println!("{name:>12}  maximum {:>7.3}", numbers[0]);
    }

    let new_rows = Dataset::new(Matrix::dense(2, 3, vec![1.0, 0.0, -1.0, 0.0, 0.0, 0.0]));
    let predicted = fitted.posterior.predict(&new_rows, "")?;
    println!("probabilities of {:?}: {:.3?}", fitted.posterior.classes(), predicted.probability);
    Ok(())
}
