//! Comma- or tab-separated text with a header, quoted fields, either line end and an optional byte order mark.
//!
//! Rows go straight into the final matrix. Its size is guessed from the first rows and the share of the file that they took, so that
//! little is moved once it is there.

use csv::{ByteRecord, ReaderBuilder};
use variegate::data::{DataError, Dataset, Matrix};

use super::cells::{self, Cell, ExtraRole, Extras};
use super::error::Cause;
use super::open::Input;
use super::roles::{Features, Names, ReadRequest};
use super::store;

/// The part of a file column.
enum Role {
    Feature(usize),
    Extra(ExtraRole),
    Skipped,
}

pub(super) fn read(input: Input, delimiter: u8, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    let (source, budget) = input.budgeted();
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(1 << 16).from_reader(source);
    let mut record = ByteRecord::new();
    if !next(&mut reader, &mut record)? {
        return Err(DataError::NoRows.into());
    }
    let named = request.options.header;
    let names = if named { header(&record)? } else { (0..record.len()).map(|j| format!("x{j}")).collect() };
    let plan = request.plan(if named { Names::Given(&names) } else { Names::Numbered(names.len()) })?;
    let mut roles: Vec<Role> = names.iter().map(|_| Role::Skipped).collect();
    for (k, &j) in plan.features.iter().enumerate() {
        roles[j] = Role::Feature(k);
    }
    let targets = plan.targets.iter().enumerate().map(|(k, &j)| (j, ExtraRole::Target(k)));
    for (j, role) in targets.chain(plan.sources.map(|j| (j, ExtraRole::Source))).chain(plan.weights.map(|j| (j, ExtraRole::Weight))) {
        roles[j] = Role::Extra(role);
    }
    let width = plan.features.len();
    let mut extras = Extras::new(request, &plan);
    let mut x: Vec<f64> = Vec::new();
    let mut row = 0;
    let mut more = !named || next(&mut reader, &mut record)?;
    while more {
        if record.len() != names.len() {
            let line = record.position().map_or(0, |p| p.line());
            return Err(Cause::Ragged { row: row + 1, line, expected: names.len(), found: record.len() });
        }
        let start = x.len();
        store::reserve_towards(&mut x, width, || budget.expected(start));
        x.resize(start + width, 0.0);
        let values = &mut x[start..];
        for ((cell, role), name) in record.iter().zip(&roles).zip(&names) {
            match role {
                Role::Feature(k) => values[*k] = cells::feature(cell, request.options.missing, row, &|| name.clone())?,
                Role::Extra(role) => extras.put(*role, row, name, Cell::of_bytes(cell)?)?,
                Role::Skipped => {}
            }
        }
        row += 1;
        budget.renew();
        more = next(&mut reader, &mut record)?;
    }
    if row == 0 {
        return Err(DataError::NoRows.into());
    }
    store::trim(&mut x);
    debug_assert!(width > 0 || matches!(request.features, Features::None));
    Ok(extras.join(Matrix::try_dense(row, width, x)?, plan.names))
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
            let name = String::from_utf8_lossy(cell.trim_ascii()).into_owned();
            if name.is_empty() { format!("unnamed{}", j + 1) } else { name }
        })
        .collect();
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
