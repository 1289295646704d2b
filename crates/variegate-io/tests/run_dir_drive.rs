//! The driver over a run directory: stopped and resumed, a fit ends as if it had been kept in memory, and its posterior can be read
//! back without data.

use serde_json::json;
use std::time::Duration;
use variegate::model::{Prepared, RunSettings, family, fit};
use variegate::run::{ChainProgress, Ending, Memory, Next, Unobserved, drive};
use variegate_io::run_dir::{DataReference, RunDir, RunRecord};

#[test]
fn a_stopped_fit_goes_on_from_the_folder_to_the_same_bits() {
    let settings = json!({"n_chains": 2, "n_warmup": 100, "n_draws": 1500});
    let model = family("logistic").unwrap().configure(settings.as_object().unwrap()).unwrap();
    let data = model.simulate(1000, &serde_json::Map::new(), 3).unwrap().data;
    let run = RunSettings::default().seed(9).threads(2).commit_every(Duration::ZERO);
    let whole = fit(model.as_ref(), &data, &run, &mut Unobserved).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let Prepared { fit: bound, plan, .. } = run.prepare(model.as_ref(), &data).unwrap();
    let reference = DataReference { rows: data.rows() as u64, ..DataReference::default() };
    let schema = bound.schema().to_vec();
    let record = RunRecord::new("logistic", bound.program().name(), model.settings(), plan, reference, schema);

    let mut storage = RunDir::create(folder.path(), &record, false).unwrap();
    let mut stop = |_: &[ChainProgress]| Next::Stop;
    drive(bound.program(), &data, &plan, run.pace(), &mut storage, &mut stop).unwrap();
    // a round gives a chain a tenth of a second, these sweeps take several
    assert!(!storage.status().complete);
    drop(storage);
    let mut storage = RunDir::open(folder.path()).unwrap();
    let ending = drive(bound.program(), &data, &plan, run.pace(), &mut storage, &mut Unobserved).unwrap();
    assert_eq!(ending, Ending::Complete);
    drop(storage);

    // from here on without the data
    let kept = RunDir::read(folder.path()).unwrap();
    assert!(kept.status().complete);
    let record = kept.record();
    let pieces = kept.pieces().unwrap();
    let Memory { chains: expected } = whole.kept;
    for (a, b) in pieces.iter().zip(&expected) {
        assert_eq!((&a.draws, &a.trace, &a.checkpoint, a.finished), (&b.draws, &b.trace, &b.checkpoint, b.finished));
    }
    let model = family(&record.family).unwrap().configure(&record.model).unwrap();
    let posterior = model.reopen(&record.schema).unwrap().posterior(&pieces).unwrap();
    assert_eq!(posterior.save().unwrap(), whole.posterior.save().unwrap());
}
