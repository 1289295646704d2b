//! A segment: rows of a table as one Parquet file (zstd, plain encoding), written and read a row group at a time.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{BoolType, DoubleType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int32,
    Int64,
    Bool,
    Double,
    /// Numbers that some rows lack.
    MaybeDouble,
    /// A vector of this length in every row.
    List(usize),
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub name: String,
    pub kind: Kind,
}

impl Field {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind }
    }
}

/// The values of a column, one entry a row; of a list, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bool(Vec<bool>),
    Double(Vec<f64>),
    MaybeDouble(Vec<Option<f64>>),
    List(Vec<f64>),
}

impl Values {
    /// Adds the values of later rows.
    pub fn append(&mut self, later: Values) {
        match (self, later) {
            (Values::Int32(a), Values::Int32(b)) => a.extend(b),
            (Values::Int64(a), Values::Int64(b)) => a.extend(b),
            (Values::Bool(a), Values::Bool(b)) => a.extend(b),
            (Values::Double(a), Values::Double(b)) | (Values::List(a), Values::List(b)) => a.extend(b),
            (Values::MaybeDouble(a), Values::MaybeDouble(b)) => a.extend(b),
            _ => unreachable!("both were read with the same fields"),
        }
    }
}

/// Writes a segment.
pub(super) struct SegmentWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    fields: Vec<Field>,
}

impl<W: Write + Send> SegmentWriter<W> {
    pub fn new(out: W, fields: Vec<Field>) -> Result<Self> {
        let columns = fields.iter().map(column_type).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("variegate").with_fields(columns).build()?);
        Ok(Self { out: SerializedFileWriter::new(out, schema, Arc::new(properties(&fields)?))?, fields })
    }

    /// Writes a row group; `values` is asked for one column after the other, so that only one is held.
    pub fn group(&mut self, mut values: impl FnMut(usize) -> Values) -> Result<()> {
        let mut group = self.out.next_row_group()?;
        for (i, field) in self.fields.iter().enumerate() {
            let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".into()))?;
            match (values(i), field.kind) {
                (Values::Int32(v), Kind::Int32) => column.typed::<Int32Type>().write_batch(&v, None, None)?,
                (Values::Int64(v), Kind::Int64) => column.typed::<Int64Type>().write_batch(&v, None, None)?,
                (Values::Bool(v), Kind::Bool) => column.typed::<BoolType>().write_batch(&v, None, None)?,
                (Values::Double(v), Kind::Double) => column.typed::<DoubleType>().write_batch(&v, None, None)?,
                (Values::MaybeDouble(v), Kind::MaybeDouble) => {
                    let there: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let numbers: Vec<f64> = v.iter().flatten().copied().collect();
                    column.typed::<DoubleType>().write_batch(&numbers, Some(&there), None)?
                }
                (Values::List(v), Kind::List(width)) => {
                    let there = vec![1; width];
                    let mut within = vec![1; width];
                    within[0] = 0;
                    let column = column.typed::<DoubleType>();
                    for row in v.chunks_exact(width) {
                        column.write_batch(row, Some(&there), Some(&within))?;
                    }
                    v.len()
                }
                _ => return Err(ParquetError::General(format!("column `{}` has values of another kind", field.name))),
            };
            column.close()?;
        }
        group.close().map(|_| ())
    }

    pub fn close(self) -> Result<()> {
        self.out.close().map(|_| ())
    }
}

fn column_type(field: &Field) -> Result<TypePtr> {
    let plain =
        |name: &str, physical, repetition| Type::primitive_type_builder(name, physical).with_repetition(repetition).build().map(Arc::new);
    let (physical, repetition) = match field.kind {
        Kind::Int32 => (Physical::INT32, Repetition::REQUIRED),
        Kind::Int64 => (Physical::INT64, Repetition::REQUIRED),
        Kind::Bool => (Physical::BOOLEAN, Repetition::REQUIRED),
        Kind::Double => (Physical::DOUBLE, Repetition::REQUIRED),
        Kind::MaybeDouble => (Physical::DOUBLE, Repetition::OPTIONAL),
        Kind::List(_) => {
            // the three levels that readers expect of a list: name (LIST) > list (repeated) > element
            let element = plain("element", Physical::DOUBLE, Repetition::REQUIRED)?;
            let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![element]).build()?;
            let outer = Type::group_type_builder(&field.name)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)]);
            return Ok(Arc::new(outer.build()?));
        }
    };
    plain(&field.name, physical, repetition)
}

fn properties(fields: &[Field]) -> Result<WriterProperties> {
    // statistics and dictionaries of random doubles only cost room; of the whole numbers they help filters
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("variegate {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    for field in fields.iter().filter(|f| matches!(f.kind, Kind::Int32 | Kind::Int64)) {
        let path = ColumnPath::from(field.name.as_str());
        builder = builder
            .set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk)
            .set_column_dictionary_enabled(path, field.kind == Kind::Int32);
    }
    Ok(builder.build())
}

/// Reads a segment.
pub(super) struct SegmentReader {
    file: SerializedFileReader<File>,
}

impl SegmentReader {
    pub fn new(file: File) -> Result<Self> {
        Ok(Self { file: SerializedFileReader::new(file)? })
    }

    pub fn groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// The rows of a group: their number and the asked columns. A column of [`Kind::MaybeDouble`] may be missing.
    pub fn group(&self, number: usize, fields: &[Field]) -> Result<(usize, Vec<Values>)> {
        let group = self.file.get_row_group(number)?;
        let rows = usize::try_from(group.metadata().num_rows()).map_err(|e| ParquetError::General(e.to_string()))?;
        let find = |name: &str| group.metadata().columns().iter().position(|c| c.column_path().parts().first().is_some_and(|p| p == name));
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let mismatch = || ParquetError::General(format!("column `{}` is missing or of another type", field.name));
            let Some(at) = find(&field.name) else {
                if field.kind == Kind::MaybeDouble {
                    all.push(Values::MaybeDouble(vec![None; rows]));
                    continue;
                }
                return Err(mismatch());
            };
            let (mut there, mut within) = (Vec::new(), Vec::new());
            let (values, count) = match (group.get_column_reader(at)?, field.kind) {
                (ColumnReader::Int32ColumnReader(mut c), Kind::Int32) => {
                    let mut v = Vec::with_capacity(rows);
                    let n = c.read_records(rows, None, None, &mut v)?.0;
                    (Values::Int32(v), n)
                }
                (ColumnReader::Int64ColumnReader(mut c), Kind::Int64) => {
                    let mut v = Vec::with_capacity(rows);
                    let n = c.read_records(rows, None, None, &mut v)?.0;
                    (Values::Int64(v), n)
                }
                (ColumnReader::BoolColumnReader(mut c), Kind::Bool) => {
                    let mut v = Vec::with_capacity(rows);
                    let n = c.read_records(rows, None, None, &mut v)?.0;
                    (Values::Bool(v), n)
                }
                (ColumnReader::DoubleColumnReader(mut c), Kind::Double) => {
                    let mut v = Vec::with_capacity(rows);
                    let n = c.read_records(rows, None, None, &mut v)?.0;
                    (Values::Double(v), n)
                }
                (ColumnReader::DoubleColumnReader(mut c), Kind::MaybeDouble) => {
                    let mut v = Vec::with_capacity(rows);
                    let n = c.read_records(rows, Some(&mut there), None, &mut v)?.0;
                    let mut numbers = v.into_iter();
                    (Values::MaybeDouble(there.iter().map(|t| if *t > 0 { numbers.next() } else { None }).collect()), n)
                }
                (ColumnReader::DoubleColumnReader(mut c), Kind::List(width)) => {
                    let mut v = Vec::with_capacity(rows * width);
                    let n = c.read_records(rows, Some(&mut there), Some(&mut within), &mut v)?.0;
                    if within.iter().enumerate().any(|(i, w)| (*w == 0) != i.is_multiple_of(width)) || v.len() != rows * width {
                        return Err(mismatch());
                    }
                    (Values::List(v), n)
                }
                _ => return Err(mismatch()),
            };
            if count != rows {
                return Err(ParquetError::General(format!("column `{}` is cut off", field.name)));
            }
            all.push(values);
        }
        Ok((rows, all))
    }
}
