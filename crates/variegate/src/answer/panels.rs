//! Rows of a prediction: panels of fixed height, so that what is said of a row depends on that row alone, and checks at the door.

use crate::data::{Dataset, Needs, X};
use crate::model::Kind;
use crate::parallel;
use crate::{Error, Result};

/// Rows of a panel at prediction. One row alone takes another path through a matrix product than the same row among others, so
/// predictions always use panels of this height, the last one filled up with zero rows.
pub const PREDICT_PANEL: usize = 64;

/// Calls `f(first row, rows, panel)` for every run of [`PREDICT_PANEL`] rows, the last one filled up.
pub fn for_panels(x: X<'_>, mut f: impl FnMut(usize, usize, X<'_>)) {
    for first in (0..x.rows()).step_by(PREDICT_PANEL) {
        with_panel(x, first, &mut f);
    }
}

/// The same in parallel: takes one state a panel through `f` and gives them back in order.
pub fn for_panels_parallel<T: Send>(x: X<'_>, states: Vec<T>, f: impl Fn(T, usize, usize, X<'_>) -> T + Sync) -> Vec<T> {
    let work = |panel: usize, state: T| {
        let mut state = Some(state);
        with_panel(x, panel * PREDICT_PANEL, &mut |first, count, x: X<'_>| state = state.take().map(|s| f(s, first, count, x)));
        state
    };
    parallel::map(states, work).into_iter().flatten().collect()
}

/// Calls `f` with the panel that begins at a row.
pub(super) fn with_panel(x: X<'_>, first: usize, f: &mut dyn FnMut(usize, usize, X<'_>)) {
    let count = PREDICT_PANEL.min(x.rows() - first);
    let run = x.slice(first..first + count);
    match run {
        X::Dense { cols, values, .. } if count < PREDICT_PANEL => {
            let mut full = vec![0.0; PREDICT_PANEL * cols];
            full[..values.len()].copy_from_slice(values);
            f(first, count, X::Dense { rows: PREDICT_PANEL, cols, values: &full });
        }
        // sparse products go row by row, but an input map makes dense panels of sparse rows
        X::Csr { cols, indptr, indices, values } if count < PREDICT_PANEL => {
            let mut full = indptr.to_vec();
            full.resize(PREDICT_PANEL + 1, indptr[count]);
            f(first, count, X::Csr { cols, indptr: &full, indices, values });
        }
        _ => f(first, count, run),
    }
}

/// Checks rows at the door of a prediction.
pub fn check_prediction_rows(data: &Dataset<'_>, width: usize, columns: &[String]) -> Result<()> {
    check_new_rows(data, width, columns, Needs::FEATURES)
}

/// Checks rows that are not those of the fit: their columns are, their features and sources are what the model needs. No row is as good
/// as one; targets and weights do not matter.
pub fn check_new_rows(data: &Dataset<'_>, width: usize, columns: &[String], needs: Needs) -> Result<()> {
    data.x.check_structure()?;
    data.check_columns(width, columns)?;
    Ok(data.check_features(needs)?)
}

/// The method asked for, or an error that names the methods there are. An empty word is the default.
pub fn choose_method(method: &str, methods: &'static [&'static str]) -> Result<&'static str> {
    choose_word("method", method, methods)
}

/// One of the words of an option, or an error that names them. An empty word is the first of them.
pub(crate) fn choose_word(option: &'static str, word: &str, words: &'static [&'static str]) -> Result<&'static str> {
    if word.is_empty() {
        return Ok(words[0]);
    }
    words.iter().find(|w| **w == word).copied().ok_or_else(|| Error::setting(option, word, Kind::Word(words).allowed()))
}
