//! Writing data as CSV.

use std::io::{self, Write};

use variegate::data::{Dataset, Target};

use crate::read::{number_text, push_number};

/// Writes a header and the rows: features, then the target under `target_name` (several real targets are numbered from 1, label sets
/// have a column of 1, 0 or nothing for each label), then `source` and `weight` where there are any. Every number is written as the
/// shortest text that reads back as the same number.
pub fn write_csv(out: impl Write, data: &Dataset<'_>, target_name: &str) -> io::Result<()> {
    let cols = data.x.cols();
    let mut csv = csv::Writer::from_writer(out);
    let mut header: Vec<String> = (0..cols).map(|j| data.column_name(j)).collect();
    match &data.target {
        Target::None => {}
        Target::Classes(_) | Target::Real { width: 1, .. } => header.push(target_name.into()),
        Target::Labels(l) => header.extend(l.names.iter().cloned()),
        Target::Real { width, .. } => header.extend((1..=*width).map(|k| format!("{target_name}{k}"))),
    }
    header.extend(data.sources.as_ref().map(|_| "source".to_owned()));
    header.extend(data.weights.as_ref().map(|_| "weight".to_owned()));
    csv.write_record(&header)?;
    let (x, mut row, mut text) = (data.x.view(), vec![0.0; cols], String::new());
    for i in 0..data.rows() {
        row.fill(0.0);
        x.for_row(i, |j, v| row[j] = v);
        let real = match &data.target {
            Target::Real { width, values } => &values[i * width..(i + 1) * width],
            _ => &[],
        };
        for &v in row.iter().chain(real) {
            text.clear();
            push_number(&mut text, v);
            csv.write_field(&text)?;
        }
        match &data.target {
            Target::None | Target::Real { .. } => {}
            Target::Classes(c) => csv.write_field(c.name(i))?,
            Target::Labels(l) => {
                let width = l.names.len();
                for &v in &l.values[i * width..(i + 1) * width] {
                    csv.write_field(if v < 0 { String::new() } else { v.to_string() })?;
                }
            }
        }
        if let Some(sources) = &data.sources {
            csv.write_field(sources.name(i))?;
        }
        if let Some(weights) = &data.weights {
            csv.write_field(number_text(weights[i]))?;
        }
        csv.write_record(None::<&[u8]>)?;
    }
    csv.flush()
}
