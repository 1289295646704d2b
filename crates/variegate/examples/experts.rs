//! A diversified mixture of experts: what keeps experts apart is a prior over the angles between them.
//!
//! `cargo run --release --example experts`

use variegate::prelude::*;

fn main() -> Result<()> {
    let settings = experts::Settings::default().experts(3).prior(experts::Prior::MutualAngular);
    let model = settings.n_chains(2).n_warmup(100).n_draws(100).validate()?;
    let data = model.simulate(300, &Default::default(), 3)?.data;

    let fitted = fit(&model, &data, &RunSettings::default().seed(1), &mut Unobserved)?;
    let summary = fitted.posterior.summary();
    for (name, numbers) in summary.rows() {
        println!("{name:>30}  mean {:>8.3}  sd {:.3}", numbers[0], numbers[1]);
    }
    // so few draws show the way; the notes say how many a result needs
    println!("{}", summary.notes.join("\n"));

    // labels of experts mean nothing, but whether two rows share one does
    let some = data.subset(&[0, 1, 2]);
    if let Some(pairs) = fitted.posterior.answers().pairs {
        println!("first three rows share an expert with probability {:.3?}", pairs.together(&some)?);
    }
    Ok(())
}
