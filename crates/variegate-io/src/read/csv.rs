//! Comma- or tab-separated text with a header, quoted fields, either line end and an optional byte order mark.
//!
//! Rows go straight into the final matrix. Its size is guessed from the first rows and the share of the file that they took, so that
//! little is moved once it is there.

use csv::{ByteRecord, ReaderBuilder};
use variegate::data::{DataError, Dataset, Matrix};

use super::cells::{self, Cell, ExtraRole, Extras, shorten};
use super::encode::{Categories, Expansion, Seen};
use super::error::Cause;
use super::open::{Budget, Budgeted, Input};
use super::roles::{Features, Names, Plan, ReadRequest};
use super::store;

/// The part of a file column.
enum Role {
    Feature(usize),
    Extra(ExtraRole),
    Skipped,
}

/// A text table that has been opened: its first line is read, and its columns have their parts.
struct Opened {
    reader: csv::Reader<Budgeted>,
    budget: Budget,
    record: ByteRecord,
    names: Vec<String>,
    plan: Plan,
    /// Whether the record in hand is the first row.
    pending: bool,
}

fn open(input: Input, delimiter: u8, request: &ReadRequest<'_>) -> Result<Opened, Cause> {
    let (source, budget) = input.budgeted();
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(1 << 16).from_reader(source);
    let mut record = ByteRecord::new();
    if !next(&mut reader, &mut record)? {
        return Err(DataError::NoRows.into());
    }
    let named = request.options.header;
    let names = if named { header(&record)? } else { (0..record.len()).map(|j| format!("x{j}")).collect() };
    let plan = request.plan(if named { Names::Given(&names) } else { Names::Numbered(names.len()) });
    let plan = plan.map_err(|error| one_name(&names, delimiter).unwrap_or(error))?;
    Ok(Opened { reader, budget, record, names, plan, pending: !named })
}

impl Opened {
    /// Goes to the next row; false after the last.
    fn advance(&mut self, row: usize) -> Result<bool, Cause> {
        if !std::mem::take(&mut self.pending) && !next(&mut self.reader, &mut self.record)? {
            return Ok(false);
        }
        self.budget.renew();
        let (expected, found) = (self.names.len(), self.record.len());
        if found != expected {
            let line = self.record.position().map_or(0, |p| p.line());
            return Err(Cause::Ragged { row: row + 1, line, expected, found });
        }
        Ok(true)
    }
}

/// A header of one name that another delimiter would divide is probably not one name.
fn one_name(names: &[String], delimiter: u8) -> Option<Cause> {
    let [line] = names else { return None };
    let other = [';', ',', '\t', '|'].into_iter().find(|d| *d != char::from(delimiter) && line.contains(*d))?;
    Some(Cause::OneName { line: shorten(line), delimiter: other })
}

/// The categories of the text columns among the features.
pub(super) fn categories(input: Input, delimiter: u8, request: &ReadRequest<'_>) -> Result<Vec<Categories>, Cause> {
    let mut table = open(input, delimiter, request)?;
    let mut seen: Vec<Seen> = table.plan.features.iter().map(|_| Seen::default()).collect();
    let mut row = 0;
    while table.advance(row)? {
        for (seen, &j) in seen.iter_mut().zip(&table.plan.features) {
            seen.see(text(&table.record[j], row, &table.names[j])?);
        }
        row += 1;
    }
    let found = seen.into_iter().zip(&table.plan.features).map(|(seen, &j)| seen.finish(&table.names[j], row));
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn text<'b>(cell: &'b [u8], row: usize, column: &str) -> Result<&'b str, Cause> {
    let cell = cell.trim_ascii();
    std::str::from_utf8(cell).map_err(|_| Cause::not_utf8(cell, format!("row {}, column `{}`", row + 1, shorten(column))))
}

/// The rows, and the name of a column that was left out because it counts them.
pub(super) fn read(input: Input, delimiter: u8, request: &ReadRequest<'_>) -> Result<(Dataset<'static>, Option<String>), Cause> {
    let mut table = open(input, delimiter, request)?;
    let (options, names) = (request.options, table.names.clone());
    let mut roles: Vec<Role> = names.iter().map(|_| Role::Skipped).collect();
    for (k, &j) in table.plan.features.iter().enumerate() {
        roles[j] = Role::Feature(k);
    }
    let plan = &table.plan;
    let targets = plan.targets.iter().enumerate().map(|(k, &j)| (j, ExtraRole::Target(k)));
    for (j, role) in targets.chain(plan.sources.map(|j| (j, ExtraRole::Source))).chain(plan.weights.map(|j| (j, ExtraRole::Weight))) {
        roles[j] = Role::Extra(role);
    }
    let expansion = Expansion::new(&plan.features.iter().map(|&j| &names[j]).collect::<Vec<_>>(), &options.categories);
    // the first column as long as it may be a count of the rows that nobody asked for: rows are then one column shorter
    let mut counting = options.skip_index
        && options.header
        && options.columns.is_none()
        && matches!(request.features, Features::Chosen)
        && plan.features.len() > 1
        && plan.features[0] == 0
        && !expansion.is_coded(0)
        && is_unnamed(&names[0]);
    let mut width = expansion.width - usize::from(counting);
    let mut extras = Extras::new(request, plan);
    let mut x: Vec<f64> = Vec::new();
    let mut scratch = vec![0.0; expansion.width];
    let mut row = 0;
    while table.advance(row)? {
        if counting && std::str::from_utf8(table.record[0].trim_ascii()).ok().and_then(|t| t.parse().ok()) != Some(row) {
            counting = false;
            x = with_count(&x, width);
            width += 1;
        }
        let start = x.len();
        store::reserve_towards(&mut x, width, || table.budget.expected(start));
        scratch.fill(0.0);
        for ((cell, role), name) in table.record.iter().zip(&roles).zip(&names) {
            match role {
                Role::Feature(0) if counting => {}
                Role::Feature(k) if expansion.is_coded(*k) => {
                    expansion.category(*k, text(cell, row, name)?, options.missing, row, name)?.put(&mut scratch);
                }
                Role::Feature(k) => {
                    expansion.number(*k, cells::feature(cell, options.missing, row, &|| name.clone())?).put(&mut scratch);
                }
                Role::Extra(role) => extras.put(*role, row, name, Cell::of_text(text(cell, row, name)?))?,
                Role::Skipped => {}
            }
        }
        x.extend_from_slice(&scratch[usize::from(counting)..]);
        row += 1;
    }
    if row == 0 {
        return Err(DataError::NoRows.into());
    }
    store::trim(&mut x);
    debug_assert!(width > 0 || matches!(request.features, Features::None));
    let mut columns = expansion.names.unwrap_or(table.plan.names);
    let skipped = counting.then(|| columns.remove(0));
    Ok((extras.join(Matrix::try_dense(row, width, x)?, columns), skipped))
}

/// Whether a name is none, as pandas leaves its index without one, and calls it when it reads such a file.
fn is_unnamed(name: &str) -> bool {
    name == "unnamed1" || name == "Unnamed: 0"
}

/// The rows with their numbers, from 0, before them.
fn with_count(x: &[f64], width: usize) -> Vec<f64> {
    x.chunks_exact(width.max(1)).enumerate().flat_map(|(i, row)| std::iter::once(i as f64).chain(row.iter().copied())).collect()
}

fn next<R: std::io::Read>(reader: &mut csv::Reader<R>, record: &mut ByteRecord) -> Result<bool, Cause> {
    reader.read_byte_record(record).map_err(|e| {
        let line = e.position().map(|p| p.line());
        match (e.into_kind(), line) {
            (csv::ErrorKind::Io(e), _) => Cause::Io(e),
            (other, line) => Cause::Line { line: line.unwrap_or(0), what: format!("{other:?}") },
        }
    })
}

/// Names of the columns. Numbers are accepted as names only if they could be: whole, not negative, none twice.
fn header(record: &ByteRecord) -> Result<Vec<String>, Cause> {
    let names: Vec<String> = record
        .iter()
        .enumerate()
        .map(|(j, cell)| {
            let cell = cell.trim_ascii();
            let name = std::str::from_utf8(cell).map_err(|_| Cause::not_utf8(cell, "the header line"))?;
            Ok(if name.is_empty() { format!("unnamed{}", j + 1) } else { name.to_owned() })
        })
        .collect::<Result<_, Cause>>()?;
    if names.iter().all(|n| n.parse::<f64>().is_ok()) {
        let mut distinct: Vec<u64> = names.iter().filter_map(|n| n.parse().ok()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < names.len() {
            return Err(Cause::NoHeader);
        }
    }
    Ok(names)
}
