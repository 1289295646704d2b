//! Reading data files.
//!
//! [`read`] turns a file into a [`Dataset`], [`read_features`] finds the features of an earlier fit in another file. Files are
//! streamed into their final place: what is in memory is the data set and a small buffer. Whatever a file holds, the answer is a data
//! set or an error that says where the fault is and what to do.

mod cells;
mod companion;
mod csv;
mod encode;
mod error;
mod matrix_market;
mod names;
mod npy;
mod npz;
mod open;
mod options;
mod parquet;
mod roles;
mod store;
mod svmlight;

use std::path::Path;

use variegate::data::{DataError, Dataset, Target};

pub use cells::{number_text, push_number};
pub use encode::{Categories, Encode};
pub use error::{Cause, ReadError};
pub use names::read_names;
pub use options::{ColumnSpec, Format, IndexBase, ReadOptions, Schema};

use open::Input;
use roles::{Features, ReadRequest};

/// Reads a data file.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Dataset<'static>, ReadError> {
    read_resolved(path, options).map(|(data, _)| data)
}

/// Reads a data file and also gives the options with what was found out put in (the format, and of an svmlight file the first feature
/// number and the number of features, the categories of text columns, an index that was left out), so that a file to predict is read in
/// the same way.
pub fn read_resolved(path: &Path, options: &ReadOptions) -> Result<(Dataset<'static>, ReadOptions), ReadError> {
    let (mut data, resolved) = read_request(path, &ReadRequest { options, features: Features::Chosen })?;
    companion::attach(&mut data, options)?;
    check_lengths(&data).map_err(|e| e.at(path))?;
    Ok((data, resolved))
}

/// Reads the features of an earlier fit from another file, by name where the file has names and by place where not. Other columns
/// are left out. Target, sources and weights are read only if the options ask for them.
pub fn read_features(path: &Path, schema: &Schema, options: &ReadOptions) -> Result<Dataset<'static>, ReadError> {
    let request = ReadRequest { options, features: Features::Fitted(schema) };
    let (mut data, _) = read_request(path, &request).map_err(|e| ReadError { cause: e.cause.of_fitted(), ..e })?;
    companion::attach(&mut data, options)?;
    check_lengths(&data).map_err(|e| e.at(path))?;
    Ok(data)
}

fn read_request(path: &Path, request: &ReadRequest<'_>) -> Result<(Dataset<'static>, ReadOptions), ReadError> {
    let inner = || -> Result<_, Cause> {
        let options = request.options;
        let format = companion::format_of(path, options)?;
        let mut resolved = ReadOptions { format: Some(format), skip_index: false, ..options.clone() };
        let table = format.is_table();
        let chosen = matches!(request.features, Features::Chosen);
        if options.encode.is_some() && !table && chosen {
            return Err(Cause::NothingToEncode(format.word()));
        }
        let delimiter = options.delimiter.unwrap_or(if format == Format::Tsv { b'\t' } else { b',' });
        if options.encode.is_some() && options.categories.is_empty() && chosen {
            resolved.categories = match format {
                Format::Parquet => parquet::categories(path, request)?,
                _ => csv::categories(Input::open(path)?, delimiter, request)?,
            };
        }
        // a table is read by the columns that it has, each of which may become several
        let coded = ReadOptions { categories: resolved.categories.clone(), ..options.clone() };
        let raw = match request.features {
            Features::Fitted(schema) if table && !coded.categories.is_empty() => Some(encode::raw(schema, &coded.categories)),
            _ => None,
        };
        let request = &ReadRequest { options: &coded, features: raw.as_ref().map_or(request.features, Features::Fitted) };
        let data = match format {
            Format::Csv | Format::Tsv => {
                let (data, skipped) = csv::read(Input::open(path)?, delimiter, request)?;
                resolved.ignore.extend(skipped);
                data
            }
            Format::Parquet => parquet::read(path, request)?,
            Format::Svmlight => {
                let (data, base, width) = svmlight::read(Input::open(path)?, request)?;
                resolved.index_base = base;
                resolved.width = Some(width);
                data
            }
            Format::MatrixMarket => matrix_market::read(Input::open(path)?, request)?,
            Format::Npy => npy::read(path, request)?,
            Format::Npz => npz::read(path, request)?,
            Format::Text => companion::read_lines(Input::open(path)?, request)?,
        };
        Ok((data, resolved))
    };
    inner().map_err(|e| e.at(path))
}

/// Whether target, sources and weights have one entry for each row.
fn check_lengths(data: &Dataset<'_>) -> Result<(), Cause> {
    let rows = data.rows();
    let target = match &data.target {
        Target::None => rows,
        Target::Classes(c) => c.len(),
        Target::Labels(l) => l.values.len() / l.names.len().max(1),
        Target::Real { width, values } => values.len() / width.max(&1),
    };
    let sources = data.sources.as_ref().map_or(rows, |s| s.len());
    let weights = data.weights.as_ref().map_or(rows, |w| w.len());
    for (what, found) in [("target", target), ("sources", sources), ("weights", weights)] {
        if found != rows {
            return Err(DataError::Length { what, rows, found }.into());
        }
    }
    Ok(())
}
