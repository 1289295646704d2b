//! The survey as a program: the rows are asked a few times before a model is bound to them, by the engine that runs the model later.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::{Draws, Merge, Program, Purpose, Report, Rows, Shape, Stream, Threads, Tick, blocks, default_block_rows};
use crate::data::design::Mapped;
use crate::data::survey::Tally;
use crate::data::{Block, Dataset, Design, Header, Questions, Scaling, Survey};
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
        if let Some((map, scaling)) = questions.features {
            let (inputs, _) = Design::of_columns(survey.columns(), Scaling { intercept: false, ..scaling });
            let mapped = Mapped::of_inputs(inputs, map, 0)?;
            let ask = Ask::Features { mapped: Cow::Borrowed(&mapped), class_weight: Cow::Borrowed(&class_weight) };
            let moments = rows.all(&ask)?.features;
            survey.set_features(mapped, moments, scaling);
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
    let header = Header::of(data);
    header.check(questions.needs)?;
    let blocks = blocks(data, shape.block_rows);
    let surveyor = Surveyor { header, questions: *questions };
    let mut rows = Threads::new(&surveyor, &blocks, shape, 0, 0, None);
    surveyor.start(&mut rows, Stream::new(0, 0, Purpose::Start))
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
