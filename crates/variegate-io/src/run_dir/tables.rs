//! How draws and traces lie in columns, and how they come back.
//!
//! `scalars`: chain, draw, then one column a number. `components`: chain, draw, component, then the same. Vectors are wide (`beta[0]`,
//! `beta[1]`, …) up to [`WIDEST`] entries and lists above. `trace`: chain, sweep, objective, components, converged, then the figures
//! that the program reports, empty where a sweep did not report one.

use std::collections::HashSet;
use variegate::run::{Draws, Piece, Report, Table};

use super::manifest::Columns;
use super::segment::{Field, Kind, Values};

/// Longest vector that gets a column an entry.
pub(super) const WIDEST: usize = 300;

/// The three kinds of segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment {
    Scalars,
    Components,
    Trace,
}

impl Segment {
    pub const ALL: [Segment; 3] = [Segment::Scalars, Segment::Components, Segment::Trace];

    /// Folder and first part of the file names.
    pub fn stem(self) -> (&'static str, &'static str) {
        match self {
            Segment::Scalars => ("draws", "scalars"),
            Segment::Components => ("draws", "components"),
            Segment::Trace => ("trace", "trace"),
        }
    }

    /// Name of the segment that commit `number` writes.
    pub fn name(self, number: u64) -> String {
        let (folder, stem) = self.stem();
        format!("{folder}/{stem}-{number:06}.parquet")
    }

    /// Whether a file of the manifest is a segment of this kind.
    pub fn holds(self, name: &str) -> bool {
        let (folder, stem) = self.stem();
        name.strip_prefix(folder).and_then(|n| n.strip_prefix('/')).and_then(|n| n.strip_prefix(stem)).is_some_and(|n| n.starts_with('-'))
    }

    /// Columns of a segment.
    pub fn fields(self, columns: &Columns) -> Vec<Field> {
        let mut fields = vec![Field::new("chain", Kind::Int32)];
        match self {
            Segment::Scalars => {
                fields.push(Field::new("draw", Kind::Int64));
                fields.extend(columns.scalars.iter().flat_map(vector_fields));
            }
            Segment::Components => {
                fields.push(Field::new("draw", Kind::Int64));
                fields.push(Field::new("component", Kind::Int32));
                fields.extend(columns.components.iter().skip(2).flat_map(vector_fields));
            }
            Segment::Trace => {
                fields.push(Field::new("sweep", Kind::Int64));
                fields.push(Field::new("objective", Kind::Double));
                fields.push(Field::new("components", Kind::Int64));
                fields.push(Field::new("converged", Kind::Bool));
                fields.extend(columns.extras.iter().map(|n| Field::new(n, Kind::MaybeDouble)));
            }
        }
        fields
    }

    /// Rows that the pieces add.
    pub fn rows(self, pieces: &[Piece]) -> usize {
        pieces
            .iter()
            .map(|p| match self {
                Segment::Scalars => p.draws.scalars.rows(),
                Segment::Components => p.draws.components.rows(),
                Segment::Trace => p.trace.len(),
            })
            .sum()
    }

    /// Column `number` of the new rows of all pieces, chain after chain.
    pub fn gather(self, number: usize, columns: &Columns, pieces: &[Piece]) -> Values {
        if number == 0 {
            return Values::Int32(pieces.iter().flat_map(|p| vec![p.chain as i32; self.rows(std::slice::from_ref(p))]).collect());
        }
        match self {
            Segment::Scalars if number == 1 => {
                Values::Int64(pieces.iter().flat_map(|p| (0..p.draws.scalars.rows()).map(|i| p.draws.first as i64 + i as i64)).collect())
            }
            Segment::Scalars => gather_numbers(number - 2, &columns.scalars, pieces.iter().map(|p| &p.draws.scalars)),
            Segment::Components => {
                let tables = || pieces.iter().map(|p| &p.draws.components);
                match (number, gather_numbers(number - 1, &columns.components, tables())) {
                    (1, Values::Double(v)) => Values::Int64(v.into_iter().map(|x| x as i64).collect()),
                    (2, Values::Double(v)) => Values::Int32(v.into_iter().map(|x| x as i32).collect()),
                    (_, other) => other,
                }
            }
            Segment::Trace => {
                let sweeps = || pieces.iter().flat_map(|p| &p.trace);
                match number {
                    1 => Values::Int64(sweeps().map(|t| t.0 as i64).collect()),
                    2 => Values::Double(sweeps().map(|t| t.1.objective).collect()),
                    3 => Values::Int64(sweeps().map(|t| i64::from(t.1.components)).collect()),
                    4 => Values::Bool(sweeps().map(|t| t.1.converged).collect()),
                    _ => {
                        let name = &columns.extras[number - 5];
                        Values::MaybeDouble(sweeps().map(|t| t.1.extras.iter().find(|e| e.0 == *name).map(|e| e.1)).collect())
                    }
                }
            }
        }
    }
}

fn vector_fields((name, width): &(String, usize)) -> Vec<Field> {
    match *width {
        1 => vec![Field::new(name, Kind::Double)],
        w if w <= WIDEST => (0..w).map(|i| Field::new(format!("{name}[{i}]"), Kind::Double)).collect(),
        w => vec![Field::new(name, Kind::List(w))],
    }
}

/// Where file column `number` lies in a row of a table: first position and width.
fn place(number: usize, columns: &[(String, usize)]) -> (usize, usize) {
    let (mut column, mut position) = (0, 0);
    for (_, width) in columns {
        if *width > WIDEST {
            if column == number {
                return (position, *width);
            }
            column += 1;
        } else {
            if number < column + width {
                return (position + number - column, 1);
            }
            column += width;
        }
        position += width;
    }
    unreachable!("the fields were made from these columns")
}

fn gather_numbers<'a>(number: usize, columns: &[(String, usize)], tables: impl Iterator<Item = &'a Table>) -> Values {
    let (at, width) = place(number, columns);
    let total: usize = columns.iter().map(|c| c.1).sum();
    let rows = tables.flat_map(|t| t.values.chunks_exact(total));
    match width {
        1 => Values::Double(rows.map(|r| r[at]).collect()),
        _ => Values::List(rows.flat_map(|r| &r[at..at + width]).copied().collect()),
    }
}

/// Takes over the columns of new pieces, or says why they cannot follow those known.
pub(super) fn extend_columns(known: &mut Columns, pieces: &[Piece]) -> Result<(), String> {
    for piece in pieces {
        for (what, known, new) in [
            ("draws", &mut known.scalars, &piece.draws.scalars.columns),
            ("components", &mut known.components, &piece.draws.components.columns),
        ] {
            if new.is_empty() {
                continue;
            }
            if known.is_empty() {
                check_names(what, new)?;
                known.clone_from(new);
            } else if known != new {
                return Err(format!("the columns of its {what} are not those of the draws before ({new:?} after {known:?})"));
            }
        }
        for (name, _) in piece.trace.iter().flat_map(|t| &t.1.extras) {
            if !known.extras.contains(name) {
                if ["chain", "sweep", "objective", "components", "converged"].contains(&name.as_str()) {
                    return Err(format!("a figure of the trace cannot be called `{name}`"));
                }
                known.extras.push(name.clone());
            }
        }
    }
    Ok(())
}

fn check_names(what: &str, columns: &[(String, usize)]) -> Result<(), String> {
    let mut seen = HashSet::from(["chain".to_string()]);
    if what == "components" {
        let first: Vec<_> = columns.iter().take(2).map(|c| (c.0.as_str(), c.1)).collect();
        if first != [("draw", 1), ("component", 1)] {
            return Err("a table of components must begin with the columns `draw` and `component`".into());
        }
    } else {
        seen.insert("draw".into());
    }
    match columns.iter().flat_map(vector_fields).find(|f| !seen.insert(f.name.clone())) {
        Some(twice) => Err(format!("there are two columns `{}` in the {what}", twice.name)),
        None => Ok(()),
    }
}

/// Adds rows read from a segment of scalars or components to the tables of their chains. Rows beyond `kept` draws of a chain, and
/// those of chains beyond them, belong to later commits and are passed over.
pub(super) fn scatter(kind: Segment, columns: &Columns, values: &[Values], kept: &[u64], out: &mut [Draws]) -> Result<(), String> {
    let (Some(Values::Int32(chains)), Some(Values::Int64(draws))) = (values.first(), values.get(1)) else {
        return Err("the first columns are not chain and draw".into());
    };
    let components = kind == Segment::Components;
    let table_columns = if components { &columns.components } else { &columns.scalars };
    let width: usize = table_columns.iter().map(|c| c.1).sum();
    // where each row goes: its chain, and the place in that chain's table
    let mut places = Vec::with_capacity(chains.len());
    for (chain, draw) in chains.iter().zip(draws) {
        let Ok(chain) = usize::try_from(*chain) else {
            return Err(format!("it has a chain {chain}"));
        };
        if *draw < 0 || kept.get(chain).is_none_or(|kept| *draw as u64 >= *kept) {
            places.push(None);
            continue;
        }
        let table = if components { &mut out[chain].components } else { &mut out[chain].scalars };
        let at = table.values.len();
        if !components && at != *draw as usize * width {
            return Err(format!("draw {draw} of chain {chain} is out of order"));
        }
        table.values.resize(at + width, f64::NAN);
        places.push(Some((chain, at)));
    }
    let first = if components { 1 } else { 2 };
    for (number, column) in values[first..].iter().enumerate() {
        let (at, count) = place(number, table_columns);
        for (row, chosen) in places.iter().enumerate() {
            let Some((chain, start)) = *chosen else { continue };
            let table = if components { &mut out[chain].components } else { &mut out[chain].scalars };
            let target = &mut table.values[start + at..start + at + count];
            match column {
                Values::Int32(v) => target[0] = f64::from(v[row]),
                Values::Int64(v) => target[0] = v[row] as f64,
                Values::Double(v) => target[0] = v[row],
                Values::List(v) => target.copy_from_slice(&v[row * count..(row + 1) * count]),
                Values::Bool(_) | Values::MaybeDouble(_) => return Err("a column is of another type".into()),
            }
        }
    }
    Ok(())
}

/// Adds sweeps read from a segment of the trace; those beyond `kept` sweeps of a chain, or of a chain beyond them, are passed over.
pub(super) fn scatter_trace(columns: &Columns, values: &[Values], kept: &[u64], out: &mut [Vec<(u64, Report)>]) -> Result<(), String> {
    let [
        Values::Int32(chains),
        Values::Int64(sweeps),
        Values::Double(objective),
        Values::Int64(components),
        Values::Bool(converged),
        extras @ ..,
    ] = values
    else {
        return Err("its columns are not those of a trace".into());
    };
    for i in 0..chains.len() {
        let Ok(chain) = usize::try_from(chains[i]) else {
            return Err(format!("it has a chain {}", chains[i]));
        };
        let sweep = sweeps[i] as u64;
        if kept.get(chain).is_none_or(|kept| sweep > *kept) {
            continue;
        }
        let named = columns.extras.iter().zip(extras).filter_map(|(name, column)| match column {
            Values::MaybeDouble(v) => v[i].map(|x| (name.clone(), x)),
            _ => None,
        });
        let report = Report { objective: objective[i], components: components[i] as u32, converged: converged[i], extras: named.collect() };
        out[chain].push((sweep, report));
    }
    Ok(())
}
