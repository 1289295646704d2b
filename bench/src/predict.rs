//! Seconds of predictions from posterior draws: class probabilities of many rows, averaged over the draws of a short fit to few.

use anyhow::Result;
use serde_json::{Map, Value, json};
use variegate::answer::{Predict, PredictDraws};
use variegate::model::{RunSettings, family, fit};
use variegate::run::Unobserved;

use crate::Options;
use crate::clock::{figures, seconds};

pub fn run(options: &Options) -> Result<Value> {
    let (name, rows) = (options.word("family", "experts"), options.get("rows", 4900usize)?);
    let given: Map<String, Value> = serde_json::from_str(options.word("settings", "{}"))?;
    let request = json!({ "columns": options.get("columns", 2usize)? }).as_object().cloned().unwrap_or_default();
    let model = family(name)?.configure(&given)?;
    let data = model.simulate(rows, &request, 1)?.data;
    let few: Vec<usize> = (0..options.get("fit_rows", 200usize)?.min(rows)).collect();
    let fitted = fit(model.as_ref(), &data.subset(&few), &RunSettings::default(), &mut Unobserved)?;
    // a number, `all`, or as many as a row needs
    let draws = match options.word("draws", "enough") {
        "enough" => PredictDraws::Enough,
        given => given.parse()?,
    };
    let how = Predict { draws, ..Predict::default() };
    let mut times = Vec::new();
    for _ in 0..options.get("repeats", 3usize)? {
        let mut outcome = Ok(());
        times.push(seconds(|| outcome = fitted.posterior.predict_with(&data, &how).map(|_| ())));
        outcome?;
    }
    Ok(
        json!({ "benchmark": "predict", "family": name, "settings": given, "rows": rows, "draws": options.word("draws", "enough"), "seconds": figures(&times) }),
    )
}
