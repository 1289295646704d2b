//! Writing data as CSV.

use std::io::{self, Write};

use variegate::data::{Dataset, Target, X};

use crate::read::number_text;

/// Writes a header and the rows: features, then the target under `target_name` (several real targets are numbered from 1, label sets
/// have a column of 1, 0 or nothing for each label), then `source` and `weight` where there are any. Every number is written as the
/// shortest text that reads back as the same number.
pub fn write_csv(out: impl Write, data: &Dataset<'_>, target_name: &str) -> io::Result<()> {
    let cols = data.x.cols();
    let mut csv = csv::Writer::from_writer(out);
    let mut record: Vec<String> = (0..cols).map(|j| data.column_name(j)).collect();
    match &data.target {
        Target::None => {}
        Target::Classes(_) | Target::Real { width: 1, .. } => record.push(target_name.into()),
        Target::Labels(l) => record.extend(l.names.iter().cloned()),
        Target::Real { width, .. } => record.extend((1..=*width).map(|k| format!("{target_name}{k}"))),
    }
    record.extend(data.sources.as_ref().map(|_| "source".to_owned()));
    record.extend(data.weights.as_ref().map(|_| "weight".to_owned()));
    csv.write_record(&record)?;
    let x: X<'_> = data.x.view();
    for i in 0..data.rows() {
        record.clear();
        record.resize(cols, "0".into());
        x.for_row(i, |j, v| record[j] = number_text(v));
        match &data.target {
            Target::None => {}
            Target::Classes(c) => record.push(c.name(i).into()),
            Target::Labels(l) => {
                let width = l.names.len();
                let entry = |v: &i8| if *v < 0 { String::new() } else { v.to_string() };
                record.extend(l.values[i * width..(i + 1) * width].iter().map(entry));
            }
            Target::Real { width, values } => record.extend(values[i * width..(i + 1) * width].iter().map(|&v| number_text(v))),
        }
        record.extend(data.sources.as_ref().map(|s| s.name(i).to_owned()));
        record.extend(data.weights.as_ref().map(|w| number_text(w[i])));
        csv.write_record(&record)?;
    }
    csv.flush()
}
