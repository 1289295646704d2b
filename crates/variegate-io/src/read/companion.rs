//! Targets, sources and weights that lie in a file of their own, one row for each row of the features.

use std::path::Path;

use variegate::data::{DataError, Dataset, Matrix, Target, TargetKind};

use super::cells::{Cell, ExtraRole, Extras};
use super::error::{Cause, ReadError};
use super::open::Input;
use super::options::{ColumnSpec, Format, ReadOptions};
use super::read_request;
use super::roles::{Features, Plan, ReadRequest};

/// Adds what the options say is in other files.
pub(super) fn attach(data: &mut Dataset<'static>, options: &ReadOptions) -> Result<(), ReadError> {
    if let Some(ColumnSpec::File { path, columns }) = &options.target {
        let known = options.known_classes.as_deref();
        data.target = column(path, columns, options.target_kind, known, options.open_target, data.rows())?;
    }
    if let Some(ColumnSpec::File { path, columns }) = &options.sources
        && let Target::Classes(sources) = column(path, columns, TargetKind::Classes, None, false, data.rows())?
    {
        data.sources = Some(sources);
    }
    if let Some(ColumnSpec::File { path, columns }) = &options.weights
        && let Target::Real { width, values } = column(path, columns, TargetKind::Real, None, false, data.rows())?
    {
        if width != 1 {
            return Err(Cause::OneColumn { what: "weights", found: width }.at(path));
        }
        data.weights = Some(values);
    }
    Ok(())
}

fn column(
    path: &Path,
    columns: &[String],
    kind: TargetKind,
    known: Option<&[String]>,
    open_target: bool,
    rows: usize,
) -> Result<Target, ReadError> {
    let wanted = if columns.is_empty() { vec!["*".to_owned()] } else { columns.to_vec() };
    let options = ReadOptions {
        target: Some(ColumnSpec::Columns(wanted)),
        target_kind: kind,
        known_classes: known.map(<[String]>::to_vec),
        open_target,
        ..ReadOptions::default()
    };
    let (data, _) = read_request(path, &ReadRequest { options: &options, features: Features::None })?;
    let (what, found) = match &data.target {
        Target::Classes(c) => ("the companion file", c.len()),
        Target::Real { width, values } => ("the companion file", values.len() / width.max(&1)),
        Target::Labels(l) => ("the companion file", l.values.len() / l.names.len().max(1)),
        Target::None => return Err(Cause::Data(DataError::NoTarget).at(path)),
    };
    if found != rows {
        return Err(Cause::Data(DataError::Length { what, rows, found }).at(path));
    }
    Ok(data.target)
}

/// One value a line, without a header. Blank lines at the end do not count.
pub(super) fn read_lines(mut input: Input, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    if !matches!(request.features, Features::None) {
        let hint = "name the format if the file is a table (--format csv), or use it as a companion (--target FILE.txt)";
        return Err(Cause::Unsupported { what: "a text file holds one value a line, not features".into(), hint });
    }
    let plan = Plan { target_names: vec!["line".into()], targets: vec![0], ..Plan::default() };
    let mut extras = Extras::new(request, &plan);
    let (mut buffer, mut number, mut row, mut blank) = (Vec::new(), 0, 0, 0);
    while let Some(line) = input.line(&mut buffer, &mut number)? {
        if line.trim_ascii().is_empty() {
            blank += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut blank) {
            extras.put(ExtraRole::Target(0), row, "line", Cell::Missing)?;
            row += 1;
        }
        extras.put(ExtraRole::Target(0), row, "line", Cell::of_bytes(line)?)?;
        row += 1;
    }
    Ok(extras.join(Matrix::try_dense(row, 0, Vec::new())?, Vec::new()))
}

/// The format of a file that is to be read.
pub(super) fn format_of(path: &Path, options: &ReadOptions) -> Result<Format, Cause> {
    options.format.or_else(|| Format::of(path)).ok_or(Cause::UnknownFormat)
}
