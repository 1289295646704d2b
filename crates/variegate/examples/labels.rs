//! Sets of labels: groups of rows that share features and labels, which labels new rows have, and what known ones say of the others.
//!
//! `cargo run --release --example labels`

use variegate::answer::LabelRule;
use variegate::prelude::*;
use variegate::score::LabelScores;

fn main() -> Result<()> {
    let model = labels::Settings::default().components(10).n_init(2).validate()?;
    let data = model.simulate(400, &Default::default(), 4)?.data;
    let (known, new) = (data.subset(&(0..300).collect::<Vec<_>>()), data.subset(&(300..400).collect::<Vec<_>>()));

    let fitted = fit(&model, &known, &RunSettings::default().seed(1), &mut Unobserved)?;
    for fact in fitted.posterior.summary().facts {
        println!("{}: {fact}", fact.name);
    }

    let names = fitted.posterior.labels();
    let found = fitted.posterior.predict_labels(&new, &LabelRule { rule: "micro-f1", nonempty: true, given: false })?;
    println!("first new row: {names:?} {:.2?}, novelty {:.2}", &found.probability[..names.len()], found.novelty[0]);
    let Target::Labels(truth) = &new.target else { unreachable!() };
    for (name, score) in LabelScores::of(&found, &truth.values, names.len()).figures() {
        println!("{name}: {:.3}", score.unwrap_or(f64::NAN));
    }

    let mut first = new.subset(&[0]);
    let Target::Labels(told) = &mut first.target else { unreachable!() };
    told.values[1..].fill(-1); // only the first label is known
    let informed = fitted.posterior.predict_labels(&first, &LabelRule { given: true, ..LabelRule::default() })?;
    println!("the same row, given its first label: {:.2?}", informed.probability);
    Ok(())
}
