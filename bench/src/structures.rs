//! Structures chosen and errors made on given splits of a labelled table: the figures behind the tables of `ida.py`.
//!
//! For each split: the training rows are fitted with the settings given, and every structure that was fitted is judged on the test rows.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Instant;
use variegate::answer::Posterior;
use variegate::data::{Dataset, Target};
use variegate::model::{Prepared, RunSettings, family};
use variegate::run::{Memory, Unobserved, drive};
use variegate_io::read::{ColumnSpec, ReadOptions, read};

use crate::Options;

/// Error rate with plug-in and averaged probabilities, and the log losses and calibration errors of both.
fn judge(posterior: &dyn Posterior, test: &Dataset<'_>) -> Result<Value> {
    let Target::Classes(classes) = &test.target else { bail!("no classes") };
    let k = posterior.classes().len();
    let mut out = Map::new();
    for method in ["map", "probit", "mc"] {
        let p = posterior.predict(test, method)?;
        let best = p.best(k);
        let wrong = best.iter().zip(&classes.codes).filter(|(b, c)| **b != **c as usize).count();
        let loss: f64 = p.probability.chunks(k).zip(&classes.codes).map(|(p, c)| -p[*c as usize].max(1e-300).ln()).sum();
        // ten equal bins of the largest probability
        let mut bins = [(0.0, 0.0); 10];
        for ((p, b), c) in p.probability.chunks(k).zip(&best).zip(&classes.codes) {
            let bin = &mut bins[((p[*b] * 10.0) as usize).min(9)];
            bin.0 += p[*b];
            bin.1 += f64::from(*b == *c as usize);
        }
        let n = test.rows() as f64;
        out.insert(format!("error_{method}"), json!(wrong as f64 / n));
        out.insert(format!("loss_{method}"), json!(loss / n));
        out.insert(format!("ece_{method}"), json!(bins.iter().map(|(p, r)| (p - r).abs()).sum::<f64>() / n));
    }
    Ok(Value::Object(out))
}

/// Training rows of every split: a line `number TAB rows`.
fn splits(path: &str) -> Result<Vec<Vec<usize>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("`{path}` cannot be read"))?;
    text.lines()
        .map(|line| {
            let rows = line.split_once('\t').with_context(|| format!("`{path}`: a line without a tab"))?.1;
            rows.split_whitespace().map(|r| r.parse().with_context(|| format!("`{path}`: `{r}` is no row"))).collect()
        })
        .collect()
}

pub fn run(options: &Options) -> Result<Value> {
    let reader = ReadOptions { target: Some(ColumnSpec::column(options.word("target", "y"))), ..ReadOptions::default() };
    let data = read(Path::new(options.word("data", "")), &reader)?;
    let given: Map<String, Value> = serde_json::from_str(options.word("settings", "{}"))?;
    let model = family("softmax")?.configure(&given)?;
    let (first, last) = (options.get("first", 0usize)?, options.get("last", 9usize)?);
    let mut out = Vec::new();
    for (number, rows) in splits(options.word("splits", ""))?.iter().enumerate() {
        if number < first || number > last {
            continue;
        }
        let mut is_train = vec![false; data.rows()];
        rows.iter().for_each(|r| is_train[*r] = true);
        let rest: Vec<usize> = (0..data.rows()).filter(|r| !is_train[*r]).collect();
        let (train, test) = (data.subset(rows), data.subset(&rest));
        let run = RunSettings::default().seed(number as u64).threads(options.get("threads", 0usize)?);
        let Prepared { fit, plan, .. } = run.prepare(model.as_ref(), &train)?;
        let mut kept = Memory::default();
        let begin = Instant::now();
        drive(fit.program(), &train, &plan, run.pace(), &mut kept, &mut Unobserved)?;
        let seconds = begin.elapsed().as_secs_f64();
        let posterior = fit.posterior(&kept.chains)?;
        let selection = posterior.selection().context("nothing was selected")?;
        let mut table = Vec::new();
        for ((name, figures), candidate) in selection.rows.iter().zip(fit.candidates(&kept.chains)?) {
            let mut row = Map::new();
            row.insert("structure".into(), json!(name));
            for (heading, figure) in selection.headings.iter().zip(figures) {
                row.insert(heading.clone(), json!(figure));
            }
            row.insert("test".into(), judge(candidate.as_ref(), &test)?);
            let facts = candidate.summary();
            row.insert("sweeps".into(), json!(facts.fact("sweeps").map(|f| f.as_json())));
            row.insert("converged".into(), json!(facts.converged));
            table.push(Value::Object(row));
        }
        out.push(json!({
            "split": number + 1, "chosen": selection.rows[selection.chosen].0, "criterion": selection.criterion,
            "seconds": seconds, "chains": kept.chains.len(), "table": table,
        }));
    }
    Ok(json!({ "benchmark": "structures", "data": options.word("data", ""), "settings": given, "splits": out }))
}
