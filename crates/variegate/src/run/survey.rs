//! The survey as a program: the rows are asked a few times before a model is bound to them, by the engine that runs the model later.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

use super::{AnyProgram, Draws, Engine, Merge, Program, Report, Rows, Shape, Stream, Tick, Typed, blocks, default_block_rows};
use crate::data::design::Mapped;
use crate::data::survey::Tally;
use crate::data::{Block, Dataset, Design, Header, InputMaps, Questions, Scaling, Survey};
use crate::{Error, Result};

/// Asks the questions of a model.
#[derive(Debug, Clone)]
pub(crate) struct Surveyor {
    header: Header,
    questions: Questions,
}

/// One round of questions.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// All that a block can say by itself.
    Everything,
    /// Columns of rows that also have the weights of their classes.
    Columns { class_weight: Cow<'a, [f64]> },
    /// Features of rows.
    Features { mapped: Cow<'a, Mapped>, class_weight: Cow<'a, [f64]> },
    /// Squares of entries around means: of all, or of each column in each source.
    Squares { means: Cow<'a, [f64]> },
}

impl Merge for Tally {
    fn merge(&mut self, right: Self) {
        Tally::merge(self, right);
    }
}

impl Program for Surveyor {
    const NAME: &'static str = "survey";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Survey;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Tally;
    type Scratch = ();

    fn start(&self, rows: &mut dyn Rows<Self>, _: Stream) -> Result<Survey> {
        let questions = &self.questions;
        let mut survey = Survey::new(self.header.clone(), questions, rows.all(&Ask::Everything)?)?;
        let class_weight = survey.class_weight().to_vec();
        if questions.columns && questions.balanced {
            survey.set_columns(rows.all(&Ask::Columns { class_weight: Cow::Borrowed(&class_weight) })?.columns);
        }
        if let Some((maps, scaling)) = questions.features {
            let (inputs, _) = Design::of_columns(survey.columns(), Scaling { intercept: false, ..scaling });
            for map in maps.maps(inputs.dim()) {
                let mapped = match Mapped::of_inputs(inputs.clone(), map, 0) {
                    // one of several that cannot be is left out
                    Err(_) if maps == InputMaps::Auto => continue,
                    mapped => mapped?,
                };
                let ask = Ask::Features { mapped: Cow::Borrowed(&mapped), class_weight: Cow::Borrowed(&class_weight) };
                let moments = rows.all(&ask)?.features;
                survey.add_features(mapped, moments, scaling);
            }
        }
        if let Some(means) = questions.by_source.and_then(|around| survey.means_around(around)) {
            survey.set_squares(rows.all(&Ask::Squares { means: Cow::Borrowed(&means) })?.squares);
        }
        Ok(survey)
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    /// A survey is complete when it has started.
    fn sweep(&self, _: &mut Survey, _: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        Ok(Report::default())
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Tally> {
        Ok(match ask {
            Ask::Everything => Tally::of(block, &self.header, &self.questions)?,
            Ask::Columns { class_weight } => Tally::of_columns(block, class_weight),
            Ask::Features { mapped, class_weight } => Tally::of_features(block, mapped, class_weight),
            Ask::Squares { means } => Tally::of_squares(block, means),
        })
    }

    fn draw(&self, _: &Survey, _: &mut Draws) {}
}

/// Asks data that are here, on the threads of the current pool. Blocks are those of the run that is to follow: the last bits of moments
/// depend on them, and on nothing else.
pub fn survey(data: &Dataset<'_>, questions: &Questions, block_rows: Option<usize>) -> Result<Survey> {
    let shape = shape_of(data, block_rows)?;
    let blocks = blocks(data, shape.block_rows);
    survey_on(Engine::Threads(&blocks), shape, &Header::of(data), questions)
}

/// The same on any engine, for data of this shape and these names.
pub fn survey_on(engine: Engine<'_>, shape: Shape, header: &Header, questions: &Questions) -> Result<Survey> {
    header.check(questions.needs)?;
    let surveyor = Surveyor { header: header.clone(), questions: *questions };
    Ok(Typed::start(&surveyor, engine, shape, 0, 0)?.global)
}

/// The program of a survey, for workers that are to take part in one.
pub fn surveyor(header: &Header, questions: &Questions) -> Arc<dyn AnyProgram> {
    Arc::new(Surveyor { header: header.clone(), questions: *questions })
}

/// Size of data whose lengths agree, and how they are cut; `None` chooses the rows of a block by the number of columns.
pub fn shape_of(data: &Dataset<'_>, block_rows: Option<usize>) -> Result<Shape> {
    data.check_lengths()?;
    let block_rows = block_rows.unwrap_or_else(|| default_block_rows(data.x.cols()));
    if block_rows == 0 {
        return Err(Error::setting("block_rows", 0, "a whole number of at least 1"));
    }
    let blocks = u32::try_from(data.rows().div_ceil(block_rows))
        .map_err(|_| Error::setting("block_rows", block_rows, "large enough for at most 4294967295 blocks"))?;
    Ok(Shape { rows: data.rows(), cols: data.x.cols(), blocks, block_rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::survey::Around;
    use crate::data::{Classes, DataError, Matrix, Needs, Target, TargetKind};
    use crate::run::{Loopback, pool};

    fn data() -> Dataset<'static> {
        let value = |at: usize| 1e6 + ((at * 7919 + at * at * 31) % 127) as f64;
        let labels: Vec<String> = (0..50).map(|i| (i % 3).to_string()).collect();
        let sources: Vec<String> = (0..50).map(|i| format!("s{}", i % 4)).collect();
        let mut data = Dataset::new(Matrix::dense(50, 3, (0..150).map(value).collect::<Vec<f64>>()))
            .with_target(Target::Classes(Classes::encode(labels.iter().map(String::as_str))));
        data.sources = Some(Classes::encode(sources.iter().map(String::as_str)));
        data.weights = Some((0..50).map(|i| [1.0, 2.0, 0.5][i % 3]).collect());
        data
    }

    fn everything() -> Questions {
        let needs = Needs::target(TargetKind::Classes);
        let features = Some((InputMaps::One(crate::data::InputMap::Polynomial { degree: 2 }), Scaling::default()));
        Questions { needs, columns: true, balanced: true, features, by_source: Some(Around::ColumnMeans), probes: 4 }
    }

    /// Neither threads nor the cut decide what is known, but for the last bits of sums.
    #[test]
    fn a_survey_is_the_same_for_any_cut_and_any_threads() {
        let data = data();
        let whole = survey(&data, &everything(), Some(100)).unwrap();
        let bits = |s: &Survey| postcard::to_stdvec(s).unwrap();
        for block_rows in [1, 7, 16] {
            let at = |threads| pool(threads).unwrap().install(|| survey(&data, &everything(), Some(block_rows)).unwrap());
            let cut = at(1);
            assert_eq!(bits(&cut), bits(&at(3)));
            assert_eq!((cut.rows(), cut.weight(), cut.fingerprint()), (50, whole.weight(), data.fingerprint()));
            assert_eq!(cut.class_counts().unwrap(), whole.class_counts().unwrap());
            assert_eq!((cut.source_rows(), cut.source_sums()), (whole.source_rows(), whole.source_sums()));
            assert_eq!(cut.probes().collect::<Vec<_>>(), whole.probes().collect::<Vec<_>>());
            assert!((cut.squares() / whole.squares() - 1.0).abs() < 1e-12);
            let ((a, _), (b, _)) = (cut.design(Scaling::default()).unwrap(), whole.design(Scaling::default()).unwrap());
            assert_eq!(a.kept, b.kept);
            for (x, y) in a.mean.iter().chain(&a.scale).zip(b.mean.iter().chain(&b.scale)) {
                assert!((x - y).abs() < 1e-9 * (1.0 + y.abs()), "{x} {y} in blocks of {block_rows}");
            }
        }
    }

    /// Workers that hold a part of the rows each give the same survey, and name faults by their place among all rows.
    #[test]
    fn a_survey_is_the_same_on_workers() {
        let bits = |s: &Survey| postcard::to_stdvec(s).unwrap();
        let on_workers = |data: &Dataset<'_>, cuts: &[u32]| {
            let (shape, header) = (shape_of(data, Some(7)).unwrap(), Header::of(data));
            let workers = Loopback::new(surveyor(&header, &everything()), data, shape, cuts).unwrap().killing(2);
            survey_on(Engine::Workers(&workers), shape, &header, &everything())
        };
        let here = survey(&data(), &everything(), Some(7)).unwrap();
        for cuts in [&[][..], &[4], &[1, 5, 6]] {
            assert_eq!(bits(&here), bits(&on_workers(&data(), cuts).unwrap()));
        }
        let mut bad = data();
        bad.weights.as_mut().unwrap()[30] = -1.0;
        bad.weights.as_mut().unwrap()[45] = f64::NAN;
        let said = on_workers(&bad, &[3, 5]).unwrap_err().to_string();
        assert_eq!(said, survey(&bad, &everything(), Some(7)).unwrap_err().to_string());
        assert!(said.starts_with("row 31"), "{said}");
    }

    /// Sums, missing entries, means and spread by source, against loops over all rows.
    #[test]
    fn missing_entries_are_known_by_source() {
        let mut with_holes = data();
        let Matrix::Dense { values, .. } = &mut with_holes.x else { unreachable!() };
        let values = values.to_mut();
        (0..150).filter(|at| at * 7 % 11 == 0).for_each(|at| values[at] = f64::NAN);
        // a source that never has the first column
        (0..50).filter(|i| i % 4 == 2).for_each(|i| values[3 * i] = f64::NAN);
        let values = values.clone();
        let needs = Needs { missing: true, ..Needs::FEATURES };
        let entries = |j: usize, m: usize| (0..50).filter(move |i| i % 4 == j).map(move |i| 3 * i + m);
        for (around, block_rows) in [(Around::ColumnMeans, 9), (Around::Mean, 50)] {
            let questions = Questions { by_source: Some(around), ..Questions::needing(needs) };
            let found = survey(&with_holes, &questions, Some(block_rows)).unwrap();
            let (sums, missing, means) = (found.source_sums(), found.source_missing(), found.source_means());
            let (mut squares, mut seen_all) = (0.0, 0.0);
            let grand = values.iter().filter(|v| !v.is_nan()).sum::<f64>() / found.entries();
            for (j, m) in (0..4).flat_map(|j| (0..3).map(move |m| (j, m))) {
                let seen: Vec<f64> = entries(j, m).map(|at| values[at]).filter(|v| !v.is_nan()).collect();
                let (at, sum) = (3 * j + m, seen.iter().sum::<f64>());
                assert_eq!((sums[at], missing[at]), (sum, (entries(j, m).count() - seen.len()) as u64));
                let expected = if seen.is_empty() { found.column_means()[m] } else { sum / seen.len() as f64 };
                assert_eq!(means[at], expected);
                let from = if around == Around::Mean { grand } else { expected };
                squares += seen.iter().map(|v| (v - from) * (v - from)).sum::<f64>();
                seen_all += seen.len() as f64;
            }
            assert_eq!(found.entries(), seen_all);
            assert!((found.squares() / squares - 1.0).abs() < 1e-12, "{} for {squares}", found.squares());
            assert_eq!(found.largest_entry(), values.iter().copied().fold(0.0, f64::max));
        }
    }

    /// A fault in a later block is named by its place among all rows.
    #[test]
    fn faults_are_named_by_their_place() {
        let ask = |data: &Dataset<'_>| survey(data, &everything(), Some(8)).unwrap_err().to_string();
        let mut bad = data();
        let Matrix::Dense { values, .. } = &mut bad.x else { unreachable!() };
        values.to_mut()[3 * 41 + 2] = f64::NAN;
        assert!(ask(&bad).starts_with("row 42, column `x2`: the value is NaN"));
        let mut bad = data();
        bad.weights.as_mut().unwrap()[30] = -1.0;
        assert_eq!(ask(&bad), DataError::Weight { row: 31, value: -1.0 }.to_string());
        let mut bad = data();
        bad.weights = Some(vec![0.0; 50]);
        assert_eq!(ask(&bad), DataError::NoWeight.to_string());
        let mut bad = data();
        bad.sources.as_mut().unwrap().codes[49] = 4;
        assert_eq!(ask(&bad), DataError::Code { what: "sources", row: 50, code: 4, names: 4 }.to_string());
        assert_eq!(ask(&data().with_target(Target::None)), DataError::NoTarget.to_string());
        let found = survey(&data(), &everything(), Some(8)).unwrap();
        assert!(found.check_whole_weights("logistic", "fit `softmax`").unwrap_err().to_string().starts_with("row 3: the weight"));
    }
}
