//! Classes made of subclasses: their number is found by variational Bayes, and new rows are told their class and subclass.
//!
//! `cargo run --release --example softmax`

use variegate::prelude::*;

fn main() -> Result<()> {
    let truth = softmax::Settings::default().subclasses(Some("1,2,1".into())).b0(0.02).validate()?;
    let data = truth.simulate(900, &Default::default(), 5)?.data;
    let (known, new) = (data.subset(&(0..600).collect::<Vec<_>>()), data.subset(&(600..900).collect::<Vec<_>>()));

    let model = softmax::Settings::default().subclasses(Some("auto:3".into())).validate()?;
    let fitted = fit(&model, &known, &RunSettings::default().seed(1), &mut Unobserved)?;
    for fact in fitted.posterior.summary().facts {
        println!("{}: {fact}", fact.name);
    }

    let best = fitted.posterior.predict(&new, "")?.best(3);
    let Target::Classes(classes) = &new.target else { unreachable!() };
    let right = best.iter().zip(&classes.codes).filter(|(a, b)| **a == **b as usize).count();
    println!("{right} of {} new rows are predicted right", new.rows());
    let shares = fitted.posterior.responsibilities(&new)?;
    println!("first new row: {:?} {:.3?}", shares.names, &shares.share[..shares.names.len()]);
    Ok(())
}
