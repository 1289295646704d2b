//! Cross-validation over a grid of settings: which of them predict rows best that they were not fitted to.
//!
//! The rows are dealt into k folds, stratified by class. Every pair of a point of the grid and a fold is a cell: a fit, with one
//! thread, to the rows outside the fold, scored on those inside. Cells are independent, so they run side by side; each has the same
//! seed, so that points differ by their settings and not by their luck. The loss is the mean of −ln p of the true class (of minus
//! the log density, for real outcomes; of what is true of a label, over all entries that are known of sets of labels) over all rows,
//! each held out once; its standard error comes from the k means of the folds, s/√k, and is rough for few folds. Row weights count in
//! both fits and scores.

use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::answer::{LabelRule, known_labels};
use crate::data::split::{Split, folds};
use crate::data::{DataError, Dataset, Target, TargetKind};
use crate::model::{Family, RunSettings, fit};
use crate::run::{ChainProgress, Ending, Next, Purpose, Stream};
use crate::score::{Losses, RealScore, score_classes};
use crate::{Error, Result};

/// One axis of the grid: a setting and its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the setting.
    pub name: String,
    /// What it takes in turn.
    pub values: Vec<Value>,
}

/// A grid of settings that is to be validated.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// The family.
    pub family: &'static dyn Family,
    /// Settings of every fit.
    pub settings: &'a Map<String, Value>,
    /// Settings that vary.
    pub axes: &'a [Axis],
    /// Number of folds.
    pub folds: usize,
    /// Seed of the folds and of every fit.
    pub seed: u64,
    /// Rows of a block; `None` chooses by the number of columns.
    pub block_rows: Option<usize>,
    /// Fits that run at once; 0 takes as many as there are cores.
    pub threads: usize,
}

/// A fit to the rows outside a fold, scored on those inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Values of the settings that vary.
    pub point: Map<String, Value>,
    /// Number of the fold, from 0.
    pub fold: usize,
    /// Time it took.
    pub seconds: f64,
    /// What came out.
    #[serde(flatten)]
    pub result: CellResult,
}

/// What came out of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellResult {
    /// It was fitted and scored.
    Scored(Held),
    /// It could not be; this is why.
    Failed(String),
}

/// Scores of the rows of a fold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Sum of their weights.
    pub weight: f64,
    /// Mean loss.
    pub loss: f64,
    /// Share of wrong classes, or mean squared error.
    pub error: f64,
}

/// A point of the grid with what its cells say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Values of the settings that vary.
    pub settings: Map<String, Value>,
    /// Its scores, unless a cell failed or has not been done yet.
    pub scores: Option<PointScores>,
    /// Why a cell failed, if one did.
    pub failure: Option<String>,
    /// Cells that are done.
    pub cells: usize,
    /// Time of all of them.
    pub seconds: f64,
}

/// Scores of a point over all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointScores {
    /// Mean loss over all rows.
    pub loss: f64,
    /// Its standard error, from the means of the folds.
    pub standard_error: f64,
    /// Share of wrong classes, or mean squared error.
    pub error: f64,
}

/// The grid with its scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Every point, in the order of the grid.
    pub points: Vec<Point>,
    /// The one with the smallest loss; none while every one is open or has failed.
    pub best: Option<usize>,
}

/// Every combination of the values, the last axis fastest.
pub fn points(grid: &[Axis]) -> Vec<Map<String, Value>> {
    grid.iter().fold(vec![Map::new()], |all, axis| {
        let extended = |point: &Map<String, Value>| {
            let point = point.clone();
            axis.values.iter().map(move |value| {
                let mut point = point.clone();
                point.insert(axis.name.clone(), value.clone());
                point
            })
        };
        all.iter().flat_map(extended).collect()
    })
}

impl Table {
    /// What these cells say of the grid.
    pub fn of(grid: &[Axis], folds: usize, cells: &[Cell]) -> Self {
        let points: Vec<Point> = points(grid).into_iter().map(|settings| Point::of(settings, folds, cells)).collect();
        let losses = points.iter().enumerate().filter_map(|(at, p)| Some((at, p.scores?.loss)));
        let best = losses.fold(None, |best: Option<(usize, f64)>, next| match best {
            Some(known) if known.1 <= next.1 => best,
            _ => Some(next),
        });
        Self { points, best: best.map(|b| b.0) }
    }
}

impl Point {
    fn of(settings: Map<String, Value>, folds: usize, cells: &[Cell]) -> Self {
        // in the order of the folds, so that sums have the same bits in whatever order cells were done
        let mut own: Vec<&Cell> = cells.iter().filter(|c| c.point == settings).collect();
        own.sort_by_key(|c| c.fold);
        let failure = own.iter().find_map(|c| match &c.result {
            CellResult::Failed(why) => Some(why.clone()),
            CellResult::Scored(_) => None,
        });
        let held: Vec<Held> =
            own.iter().filter_map(|c| if let CellResult::Scored(held) = &c.result { Some(*held) } else { None }).collect();
        let scores = (held.len() == folds && failure.is_none()).then(|| PointScores::of(&held));
        Self { settings, scores, failure, cells: own.len(), seconds: own.iter().map(|c| c.seconds).sum() }
    }
}

impl PointScores {
    fn of(folds: &[Held]) -> Self {
        let weight: f64 = folds.iter().map(|h| h.weight).sum();
        let mean = |of: fn(&Held) -> f64| folds.iter().map(|h| h.weight * of(h)).sum::<f64>() / weight;
        let k = folds.len() as f64;
        let centre = folds.iter().map(|h| h.loss).sum::<f64>() / k;
        let variance = folds.iter().map(|h| (h.loss - centre).powi(2)).sum::<f64>() / (k - 1.0);
        Self { loss: mean(|h| h.loss), standard_error: (variance / k).sqrt(), error: mean(|h| h.error) }
    }
}

/// Does every cell that is not among those `known`, several at once. `each` is told of every cell as it ends, on the caller's thread,
/// and may fail; `stop` is asked a few times a second. Gives all cells, the known ones first; fewer than there are if it was stopped.
pub fn cross_validate(
    grid: &Grid<'_>,
    data: &Dataset<'_>,
    known: Vec<Cell>,
    each: &mut dyn FnMut(&Cell) -> Result<()>,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Cell>> {
    let splits = splits(grid, data)?;
    let done = |point: &Map<String, Value>, fold: usize| known.iter().any(|c| c.point == *point && c.fold == fold);
    let points = points(grid.axes);
    let open: Vec<(&Map<String, Value>, usize)> =
        (0..grid.folds).flat_map(|fold| points.iter().map(move |p| (p, fold))).filter(|(p, fold)| !done(p, *fold)).collect();
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if grid.threads == 0 { cores() } else { grid.threads }.min(open.len());

    let mut cells = known.clone();
    let (next, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel::<Cell>();
    // threads of our own and not a pool's: a pool's thread that waits for the fit inside it would begin another one meanwhile
    let outcome = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next, halt, open, splits) = (send.clone(), &next, &halt, &open, &splits);
            scope.spawn(move || {
                while let Some(&(point, fold)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if halt.load(Ordering::Relaxed) {
                        return;
                    }
                    // nothing: it was stopped half-way; an error: whoever should hear of it has gone
                    let Some(found) = cell(grid, data, point, fold, &splits[fold], halt) else { return };
                    if send.send(found).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut outcome = Ok(());
        loop {
            match receive.recv_timeout(Duration::from_millis(100)) {
                Ok(found) if outcome.is_ok() => {
                    outcome = each(&found);
                    cells.push(found);
                }
                Ok(_) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return outcome,
            }
            if outcome.is_err() || stop() {
                halt.store(true, Ordering::Relaxed);
            }
        }
    });
    outcome.map(|()| cells)
}

/// The folds. They depend on the seed alone, so that a second call deals the rows in the same way.
fn splits(grid: &Grid<'_>, data: &Dataset<'_>) -> Result<Vec<Split>> {
    let strata = match &data.target {
        Target::Classes(c) => Some(&c.codes[..]),
        Target::Real { .. } | Target::Labels(_) => None,
        Target::None => return Err(DataError::NoTarget.into()),
    };
    let mut rng = Stream::new(grid.seed, 0, Purpose::Split).rng();
    Ok(folds(data.rows(), grid.folds, strata, &mut rng as &mut dyn Rng)?)
}

/// Fits and scores one cell; nothing if it was stopped. What fails for this point alone is part of its outcome.
fn cell(grid: &Grid<'_>, data: &Dataset<'_>, point: &Map<String, Value>, fold: usize, split: &Split, halt: &AtomicBool) -> Option<Cell> {
    let begin = Instant::now();
    let result = match held(grid, data, point, split, halt) {
        Ok(None) => return None,
        Ok(Some(held)) if held.loss.is_finite() => CellResult::Scored(held),
        Ok(Some(_)) => CellResult::Failed("the loss of its held-out rows is not a number".into()),
        Err(why) => CellResult::Failed(why.to_string()),
    };
    Some(Cell { point: point.clone(), fold, seconds: begin.elapsed().as_secs_f64(), result })
}

fn held(grid: &Grid<'_>, data: &Dataset<'_>, point: &Map<String, Value>, split: &Split, halt: &AtomicBool) -> Result<Option<Held>> {
    let mut settings = grid.settings.clone();
    settings.extend(point.clone());
    let model = grid.family.configure(&settings)?;
    if model.target().is_none() {
        return Err(unsupervised(grid.family.name()));
    }
    let run = RunSettings { seed: grid.seed, threads: 1, block_rows: grid.block_rows, ..RunSettings::default() };
    let mut watch = |_: &[ChainProgress]| if halt.load(Ordering::Relaxed) { Next::Stop } else { Next::Continue };
    // a fit that was stopped may be too young for a posterior
    let fitted = match fit(model.as_ref(), &data.subset(&split.train), &run, &mut watch) {
        Err(_) if halt.load(Ordering::Relaxed) => return Ok(None),
        other => other?,
    };
    if fitted.ending == Ending::Stopped {
        return Ok(None);
    }
    let posterior = fitted.posterior;
    let test = data.subset(&split.test);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|e| Error::setting("threads", 1, format!("a number of threads that can be started ({e})")))?;
    let weights = test.weights.as_deref();
    if model.target() == Some(TargetKind::Real) {
        let found = pool.install(|| posterior.predict_real(&test, &[], ""))?;
        let scores = RealScore::of(&found, &test.target, weights).ok_or(DataError::NoTarget)?;
        let weight = weights.map_or(test.rows() as f64, |w| w.iter().sum());
        return Ok(Some(Held { weight, loss: -scores.ln_density, error: scores.squared_error }));
    }
    if model.target() == Some(TargetKind::Labels) {
        let found = pool.install(|| posterior.predict_labels(&test, &LabelRule::default()))?;
        let losses = Losses::of_labels(&found, &known_labels(&test, posterior.labels())?, posterior.labels().len(), weights);
        return Ok(Some(Held { weight: losses.weight, loss: -losses.mean_ln_likelihood(), error: losses.mean_error() }));
    }
    let Target::Classes(truth) = &test.target else { return Err(DataError::NoTarget.into()) };
    let found = pool.install(|| posterior.predict(&test, ""))?;
    let mut losses = Losses::default();
    for (i, row) in score_classes(&found, posterior.classes(), truth).iter().enumerate() {
        losses.add(weights.map_or(1.0, |w| w[i]), -row.log_loss, f64::from(!row.right));
    }
    Ok(Some(Held { weight: losses.weight, loss: -losses.mean_ln_likelihood(), error: losses.mean_error() }))
}

/// The answer where there is no target whose predictions could decide.
pub fn unsupervised(family: &str) -> Error {
    Error::Unfit(format!(
        "`{family}` has no target, so cross-validation cannot choose its settings: fit with each of them and compare the runs' scores of \
         held-out rows"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::family;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn axis(name: &str, values: Value) -> Axis {
        Axis { name: name.into(), values: values.as_array().cloned().unwrap() }
    }

    /// One column that tells the class, but for every tenth row.
    fn data(rows: usize) -> Dataset<'static> {
        let values: Vec<f64> = (1..=rows).map(|i| (i as f64 * 0.618_033_988_75).fract() * 4.0 - 2.0).collect();
        let codes = values.iter().enumerate().map(|(i, x)| u32::from((*x > 0.0) != (i % 10 == 0))).collect();
        let classes = crate::data::Classes { codes, names: vec!["no".into(), "yes".into()] };
        Dataset::new(crate::data::Matrix::Dense { rows, cols: 1, values: values.into() }).with_target(Target::Classes(classes))
    }

    fn short() -> Map<String, Value> {
        map(json!({ "n_chains": 1, "n_warmup": 20, "n_draws": 40 }))
    }

    fn over<'a>(settings: &'a Map<String, Value>, axes: &'a [Axis], threads: usize) -> Grid<'a> {
        Grid { family: family("logistic").unwrap(), settings, axes, folds: 4, seed: 5, block_rows: None, threads }
    }

    fn all(grid: &Grid<'_>, data: &Dataset<'_>) -> Vec<Cell> {
        cross_validate(grid, data, Vec::new(), &mut |_| Ok(()), &|| false).unwrap()
    }

    #[test]
    fn grids_are_products() {
        let axes = [axis("a", json!([1, 2])), axis("b", json!(["x", "y", "z"]))];
        let all = points(&axes);
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], map(json!({ "a": 1, "b": "x" })));
        assert_eq!(all[5], map(json!({ "a": 2, "b": "z" })));
        assert_eq!(points(&[]), [Map::new()]);
    }

    /// A cell is what anyone would do by hand, and neither threads nor the order of cells change the table.
    #[test]
    fn cells_are_fits_to_the_other_folds() {
        let (data, settings) = (data(60), short());
        let axes = [axis("prior_precision", json!([0.1, 1000.0]))];
        let (one, two) = (all(&over(&settings, &axes, 1), &data), all(&over(&settings, &axes, 3), &data));
        let (one_table, two_table) = (Table::of(&axes, 4, &one), Table::of(&axes, 4, &two));
        assert_eq!(
            one_table.points.iter().map(|p| p.scores).collect::<Vec<_>>(),
            two_table.points.iter().map(|p| p.scores).collect::<Vec<_>>()
        );
        // weights held near zero predict nothing: the wide prior must win, by far
        assert_eq!(one_table.best, Some(0));
        let scores: Vec<PointScores> = one_table.points.iter().map(|p| p.scores.unwrap()).collect();
        assert!(scores[0].loss + 0.1 < scores[1].loss, "{scores:?}");
        assert!((scores[1].loss - 2f64.ln()).abs() < 0.1, "{scores:?}");

        let split = &splits(&over(&settings, &axes, 1), &data).unwrap()[2];
        let mut given = settings.clone();
        given.insert("prior_precision".into(), json!(0.1));
        let model = family("logistic").unwrap().configure(&given).unwrap();
        let run = RunSettings { seed: 5, ..RunSettings::default() };
        let fitted = fit(model.as_ref(), &data.subset(&split.train), &run, &mut crate::run::Unobserved).unwrap();
        let test = data.subset(&split.test);
        let p = fitted.posterior.predict(&test, "").unwrap();
        let Target::Classes(truth) = &test.target else { panic!() };
        let loss: f64 = truth.codes.iter().enumerate().map(|(i, &c)| -p.probability[2 * i + c as usize].ln()).sum::<f64>() / 15.0;
        let cell = one.iter().find(|c| c.fold == 2 && c.point["prior_precision"] == 0.1).unwrap();
        let CellResult::Scored(held) = &cell.result else { panic!("{cell:?}") };
        assert!((held.loss - loss).abs() < 1e-12 && held.weight == 15.0);
    }

    #[test]
    fn known_cells_are_not_done_again_and_a_stop_keeps_the_others() {
        let (data, settings) = (data(40), short());
        let axes = [axis("prior_precision", json!([0.1, 1.0]))];
        let grid = over(&settings, &axes, 1);
        let whole = all(&grid, &data);
        // through text, as a file keeps them
        let text: Vec<String> = whole.iter().map(|c| serde_json::to_string(c).unwrap()).collect();
        let again: Vec<Cell> = text.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
        assert_eq!(again, whole);
        let mut told = 0;
        let rest = cross_validate(
            &grid,
            &data,
            again[..3].to_vec(),
            &mut |_| {
                told += 1;
                Ok(())
            },
            &|| false,
        )
        .unwrap();
        assert_eq!((told, rest.len()), (5, 8));
        assert_eq!(Table::of(&axes, 4, &rest).points[1].scores, Table::of(&axes, 4, &whole).points[1].scores);

        let seen = AtomicUsize::new(0);
        let mut each = |_: &Cell| {
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let part = cross_validate(&grid, &data, Vec::new(), &mut each, &|| seen.load(Ordering::Relaxed) >= 2).unwrap();
        assert!((2..8).contains(&part.len()), "{}", part.len());
        let table = Table::of(&axes, 4, &part);
        assert!(table.points.iter().any(|p| p.scores.is_none() && p.failure.is_none()));
        let mut full = |_: &Cell| Err(Error::Storage("the disk is full".into()));
        assert!(cross_validate(&grid, &data, Vec::new(), &mut full, &|| false).unwrap_err().to_string().contains("full"));
    }

    #[test]
    fn what_fails_does_not_win_and_says_why() {
        let (data, settings) = (data(30), short());
        let axes = [axis("prior_precision", json!([-1.0, 1.0]))];
        let table = Table::of(&axes, 4, &all(&over(&settings, &axes, 2), &data));
        assert_eq!(table.best, Some(1));
        assert!(table.points[0].failure.as_ref().unwrap().contains("prior_precision"));
        let none = Dataset { target: Target::None, ..data.clone() };
        let grid = over(&settings, &axes, 1);
        assert!(cross_validate(&grid, &none, Vec::new(), &mut |_| Ok(()), &|| false).is_err());
        let many = Grid { folds: 31, ..grid };
        assert!(cross_validate(&many, &data, Vec::new(), &mut |_| Ok(()), &|| false).is_err());
    }

    /// A weight of two is a row that comes twice, in the scores too.
    #[test]
    fn weights_count_in_scores() {
        let held = [Held { weight: 3.0, loss: 1.0, error: 0.0 }, Held { weight: 1.0, loss: 2.0, error: 1.0 }];
        let scores = PointScores::of(&held);
        assert_eq!((scores.loss, scores.error, scores.standard_error), (1.25, 0.25, 0.5));
    }
}
