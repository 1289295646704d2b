//! Parquet: flat tables, row group by row group and column by column, straight into the rows of the matrix.
//!
//! Numbers and booleans can be features; texts can be targets and sources. Read are plain, snappy and zstd pages.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::{Compression, ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use variegate::data::{DataError, Dataset, Matrix};

use super::cells::{Cell, ExtraRole, Extras};
use super::encode::{Categories, Entry, Expansion, Seen};
use super::error::{Cause, TEXT};
use super::roles::{Names, ReadRequest};
use super::store;

/// Records decoded at a time.
const BATCH: usize = 8192;

impl From<ParquetError> for Cause {
    fn from(e: ParquetError) -> Self {
        Cause::damaged(e.to_string())
    }
}

pub(super) fn read(path: &Path, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    guarded(path, |file, bytes| read_file(file, bytes, request))
}

/// The categories of the text columns among the features.
pub(super) fn categories(path: &Path, request: &ReadRequest<'_>) -> Result<Vec<Categories>, Cause> {
    guarded(path, |file, _| categories_of(file, request))
}

fn guarded<T>(path: &Path, of_file: impl FnOnce(File, u64) -> Result<T, Cause>) -> Result<T, Cause> {
    let file = File::open(path).map_err(Cause::Open)?;
    let bytes = file.metadata().map_err(Cause::Open)?.len();
    // the decoder trusts parts of a file that its pages can contradict: a damaged file may make it panic
    catch_unwind(AssertUnwindSafe(|| of_file(file, bytes)))
        .unwrap_or_else(|_| Err(Cause::damaged("the Parquet pages contradict each other")))
}

fn categories_of(file: File, request: &ReadRequest<'_>) -> Result<Vec<Categories>, Cause> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields();
    let names: Vec<String> = fields.iter().map(|f| f.name().to_owned()).collect();
    let plan = request.plan(Names::Given(&names))?;
    let mut found = Vec::new();
    for leaf in 0..schema.num_columns() {
        let root = schema.get_column_root_idx(leaf);
        let column = schema.column(leaf);
        // what is neither text nor number is refused when it is read
        let text = column.physical_type() == Physical::BYTE_ARRAY && fields[root].is_primitive() && readable(&column, true).is_ok();
        if !text || !plan.features.contains(&root) {
            continue;
        }
        let (mut seen, mut rows) = (Seen::of_texts(), 0);
        for g in 0..metadata.num_row_groups() {
            let group = reader.get_row_group(g)?;
            let count = usize::try_from(group.metadata().num_rows()).map_err(|_| Cause::damaged("a row group has a negative size"))?;
            cells(&*group, leaf, count, |_, cell| {
                if let Cell::Text(text) = cell {
                    seen.see(text);
                }
                Ok(())
            })?;
            rows += count;
        }
        found.extend(seen.finish(&names[root], rows)?);
    }
    Ok(found)
}

fn read_file(file: File, bytes: u64, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr();
    // one entry a field of the table; a nested field has no leaf of its own
    let fields = schema.root_schema().get_fields();
    let names: Vec<String> = fields.iter().map(|f| f.name().to_owned()).collect();
    let mut leaf_of = vec![None; fields.len()];
    for leaf in 0..schema.num_columns() {
        let root = schema.get_column_root_idx(leaf);
        if fields[root].is_primitive() {
            leaf_of[root] = Some(leaf);
        }
    }
    let plan = request.plan(Names::Given(&names))?;
    let leaf = |j: usize| {
        let found = leaf_of[j].map(|leaf| (leaf, schema.column(leaf))).filter(|(_, c)| c.max_rep_level() == 0);
        found.ok_or_else(|| Cause::column_type(names[j].clone(), "nested values"))
    };
    let mut extra_columns = Vec::new();
    let targets = plan.targets.iter().enumerate().map(|(k, &j)| (j, ExtraRole::Target(k)));
    for (j, role) in targets.chain(plan.sources.map(|j| (j, ExtraRole::Source))).chain(plan.weights.map(|j| (j, ExtraRole::Weight))) {
        let (at, descriptor) = leaf(j)?;
        readable(&descriptor, true)?;
        extra_columns.push((at, role, j));
    }
    let expansion = Expansion::new(&plan.features.iter().map(|&j| &names[j]).collect::<Vec<_>>(), &request.options.categories);
    let mut feature_columns = Vec::new();
    for (k, &j) in plan.features.iter().enumerate() {
        let (at, descriptor) = leaf(j)?;
        readable(&descriptor, expansion.is_coded(k))?;
        feature_columns.push((at, j));
    }
    let width = expansion.width;
    let mut extras = Extras::new(request, &plan);
    let (mut x, mut rows) = (Vec::<f64>::new(), 0usize);
    for g in 0..metadata.num_row_groups() {
        let group = reader.get_row_group(g)?;
        let count = usize::try_from(group.metadata().num_rows()).map_err(|_| Cause::damaged("a row group has a negative size"))?;
        for &(at, role, j) in &extra_columns {
            cells(&*group, at, count, |row, cell| extras.put(role, rows + row, &names[j], cell))?;
        }
        for (k, &(at, j)) in feature_columns.iter().enumerate() {
            let entry = |row: usize, cell: Cell<'_>| -> Result<Entry, Cause> {
                let (missing, name) = (request.options.missing, &names[j]);
                match cell {
                    Cell::Text(text) if expansion.is_coded(k) => expansion.category(k, text, missing, rows + row, name),
                    Cell::Missing if expansion.is_coded(k) => expansion.category(k, "", missing, rows + row, name),
                    cell => Ok(expansion.number(k, feature(cell, missing, rows + row, name)?)),
                }
            };
            if k == 0 {
                // room for the group is made only once one column has shown that its rows are there
                let mut first = Vec::new();
                cells(&*group, at, count, |row, cell| {
                    store::reserve(&mut first, 1);
                    first.push(entry(row, cell)?);
                    Ok(())
                })?;
                let most = (bytes as usize).saturating_mul(1024).saturating_add(1 << 24);
                let size = count.checked_mul(width).filter(|n| x.len() + n <= most);
                let size =
                    size.ok_or_else(|| Cause::damaged(format!("{count} rows of {width} columns cannot be in a file of this size")))?;
                let whole = usize::try_from(metadata.file_metadata().num_rows()).unwrap_or(0).saturating_mul(width);
                if x.is_empty() && whole <= most {
                    x.reserve_exact(whole.max(size));
                }
                store::reserve(&mut x, size);
                x.resize(x.len() + size, 0.0);
                let start = rows * width;
                first.iter().enumerate().for_each(|(row, entry)| entry.put(&mut x[start + row * width..][..width]));
            } else {
                let block = &mut x[rows * width..];
                cells(&*group, at, count, |row, cell| {
                    entry(row, cell)?.put(&mut block[row * width..][..width]);
                    Ok(())
                })?;
            }
        }
        rows += count;
    }
    if rows == 0 {
        return Err(DataError::NoRows.into());
    }
    store::trim(&mut x);
    Ok(extras.join(Matrix::try_dense(rows, width, x)?, expansion.names.unwrap_or(plan.names)))
}

fn feature(cell: Cell<'_>, missing: bool, row: usize, column: &str) -> Result<f64, Cause> {
    let value = match cell {
        Cell::Number(v) if !v.is_nan() => v,
        Cell::Whole(v) => v as f64,
        Cell::Flag(b) => b as u8 as f64,
        Cell::Missing | Cell::Number(_) if missing => return Ok(f64::NAN),
        Cell::Missing | Cell::Number(_) => {
            let text = if cell == Cell::Missing { "null" } else { "NaN" };
            return Err(Cause::missing(row + 1, column, text));
        }
        Cell::Text(_) => return Err(Cause::column_type(column, TEXT)),
    };
    if value.is_finite() { Ok(value) } else { Err(DataError::NotFinite { row: row + 1, column: column.into(), value }.into()) }
}

/// Whether a column can be read as what it is needed for.
fn readable(column: &ColumnDescriptor, text_too: bool) -> Result<(), Cause> {
    let fault = |kind: String| Err(Cause::column_type(column.name(), kind));
    match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
        (Physical::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Enum), _)
        | (Physical::BYTE_ARRAY, None, ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM) => {
            if text_too {
                Ok(())
            } else {
                fault(TEXT.into())
            }
        }
        (Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE, ..) => Ok(()),
        (Physical::INT32 | Physical::INT64, Some(LogicalType::Integer { .. }), _) => Ok(()),
        (Physical::INT32 | Physical::INT64, None, kind) => match kind {
            ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
            | ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64 => Ok(()),
            other => fault(format!("values of the type {other}")),
        },
        (physical, Some(logical), _) => fault(format!("values of the type {logical:?} ({physical})")),
        (physical, None, _) => fault(format!("values of the type {physical}")),
    }
}

/// Calls `f(row in the group, cell)` for all of a column's values, which must be as many as the group has rows.
fn cells(
    group: &dyn RowGroupReader,
    at: usize,
    count: usize,
    mut f: impl FnMut(usize, Cell<'_>) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let column = group.metadata().column(at);
    let codec = column.compression();
    if !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)) {
        let what = format!("column `{}` is compressed with {codec}", column.column_path().string());
        return Err(Cause::Unsupported { what, hint: "write the file with snappy, zstd or no compression" });
    }
    // the decoder asserts this
    let negative = column.dictionary_page_offset().is_some_and(|o| o < 0) || column.data_page_offset() < 0 || column.compressed_size() < 0;
    if negative {
        return Err(Cause::damaged("a Parquet column has a negative place or size"));
    }
    let descriptor = column.column_descr();
    let unsigned = match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Integer(kind)), _) => !kind.is_signed,
        (_, kind) => matches!(kind, ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64),
    };
    let levels = descriptor.max_def_level();
    let name = descriptor.name().to_owned();
    let mut row = 0;
    let mut put = |cell: Cell<'_>| {
        if row == count {
            return Err(Cause::damaged(format!("column `{name}` has more values than its group has rows")));
        }
        f(row, cell)?;
        row += 1;
        Ok(())
    };
    match group.get_column_reader(at)? {
        ColumnReader::BoolColumnReader(r) => typed(r, levels, |v| put(v.map_or(Cell::Missing, |&b| Cell::Flag(b))))?,
        ColumnReader::FloatColumnReader(r) => typed(r, levels, |v| put(v.map_or(Cell::Missing, |&v| Cell::Number(v as f64))))?,
        ColumnReader::DoubleColumnReader(r) => typed(r, levels, |v| put(v.map_or(Cell::Missing, |&v| Cell::Number(v))))?,
        ColumnReader::Int32ColumnReader(r) => {
            let wide = |v: i32| if unsigned { v as u32 as i128 } else { v as i128 };
            typed(r, levels, |v| put(v.map_or(Cell::Missing, |&v| Cell::Whole(wide(v)))))?;
        }
        ColumnReader::Int64ColumnReader(r) => {
            let wide = |v: i64| if unsigned { v as u64 as i128 } else { v as i128 };
            typed(r, levels, |v| put(v.map_or(Cell::Missing, |&v| Cell::Whole(wide(v)))))?;
        }
        ColumnReader::ByteArrayColumnReader(r) => typed(r, levels, |v| match v {
            None => put(Cell::Missing),
            Some(bytes) => put(Cell::of_bytes(bytes.data())?),
        })?,
        _ => return Err(Cause::column_type(descriptor.name(), "values that are no numbers")),
    }
    if row != count {
        return Err(Cause::damaged(format!("column `{}` has {row} values for {count} rows", descriptor.name())));
    }
    Ok(())
}

/// Calls `f` with each value of a column, None for null.
fn typed<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    levels: i16,
    mut f: impl FnMut(Option<&T::T>) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let (mut defined, mut values) = (Vec::new(), Vec::new());
    loop {
        defined.clear();
        values.clear();
        let (records, ..) = reader.read_records(BATCH, Some(&mut defined), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        if levels == 0 {
            values.iter().try_for_each(|v| f(Some(v)))?;
            continue;
        }
        let mut next = values.iter();
        for &level in &defined {
            f(if level == levels { next.next() } else { None })?;
        }
    }
}
