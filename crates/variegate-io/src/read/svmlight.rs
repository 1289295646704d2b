//! svmlight and libsvm text: `label feature:value feature:value … # comment`, one row a line.
//!
//! Labels are class names (numbers are written in their shortest form, so `+1` is `1`), real targets, or comma-separated sets of
//! labels, of which a line may have none. `qid:…` is skipped. Features count from 1, or from 0 if a feature 0 occurs.

use variegate::data::{ClassEncoder, DataError, Dataset, LabelSets, Target, TargetKind};

use super::cells::{self, number_text, shorten};
use super::error::Cause;
use super::open::Input;
use super::options::{ColumnSpec, IndexBase};
use super::roles::{self, Features, Names, ReadRequest};
use super::store;

/// The name by which the labels can be asked for or ignored.
const LABEL: &str = "label";

pub(super) fn read(mut input: Input, request: &ReadRequest<'_>) -> Result<(Dataset<'static>, IndexBase, usize), Cause> {
    let options = request.options;
    let mut labels = Labels::new(request);
    let (mut indptr, mut indices, mut values) = (vec![0usize], Vec::<u32>::new(), Vec::<f64>::new());
    let (mut smallest, mut largest) = ((u32::MAX, 0), (0, 0));
    let (mut buffer, mut line_number, mut entries) = (Vec::new(), 0, Vec::<(u32, f64)>::new());
    while let Some(line) = input.line(&mut buffer, &mut line_number)? {
        let fault = |what: String| Cause::Line { line: line_number, what };
        let text = line.split(|&b| b == b'#').next().unwrap_or(line);
        let text = std::str::from_utf8(text).map_err(|_| fault("the line is not UTF-8 text".into()))?;
        let mut tokens = text.split_ascii_whitespace().peekable();
        // a line of a label set may begin with its first feature, if the set is empty
        let label = match tokens.peek() {
            None => continue,
            Some(first) if first.contains(':') => "",
            Some(_) => tokens.next().unwrap_or(""),
        };
        labels.push(label, options.open_target, indptr.len(), line_number)?;
        entries.clear();
        for token in tokens {
            let pair = token.split_once(':').filter(|p| !p.0.is_empty());
            let (name, value) = pair.ok_or_else(|| fault(format!("`{}` is not of the form feature:value", shorten(token))))?;
            if name == "qid" {
                continue;
            }
            let number: u32 =
                name.parse().ok().filter(|&j| j < u32::MAX).ok_or_else(|| fault(format!("`{}` is not a feature number", shorten(name))))?;
            let value: f64 = value.parse().map_err(|_| fault(format!("`{}` is not a number", shorten(value))))?;
            if !value.is_finite() {
                return Err(DataError::NotFinite { row: indptr.len(), column: name.into(), value }.into());
            }
            entries.push((number, value));
        }
        if !entries.is_sorted_by_key(|e| e.0) {
            entries.sort_by_key(|e| e.0);
        }
        if let Some(pair) = entries.windows(2).find(|w| w[0].0 == w[1].0) {
            return Err(fault(format!("feature {} is given twice", pair[0].0)));
        }
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            smallest = smallest.min((first.0, line_number));
            if last.0 >= largest.0 {
                largest = (last.0, line_number);
            }
        }
        store::reserve(&mut indices, entries.len());
        store::reserve(&mut values, entries.len());
        indices.extend(entries.iter().map(|e| e.0));
        values.extend(entries.iter().map(|e| e.1));
        store::reserve(&mut indptr, 1);
        indptr.push(indices.len());
    }
    let rows = indptr.len() - 1;
    if rows == 0 {
        return Err(DataError::NoRows.into());
    }
    let one_based = match options.index_base {
        IndexBase::Zero => false,
        IndexBase::One if smallest.0 == 0 => {
            return Err(Cause::Line {
                line: smallest.1,
                what: "feature 0 in a file that counts from 1; set the index base to zero".into(),
            });
        }
        IndexBase::One => true,
        IndexBase::Auto => smallest.0 > 0,
    };
    if one_based {
        indices.iter_mut().for_each(|j| *j -= 1);
    }
    let found = if indices.is_empty() { 0 } else { largest.0 as usize + !one_based as usize };
    let fixed = match request.features {
        // columns that the fit left out are in the file all the same
        Features::Fitted(schema) if options.columns.is_none() && options.names.is_none() && !options.ignore.iter().any(|n| n != LABEL) => {
            Some(schema.width)
        }
        // a feature that never occurs has a name too
        _ => options.names.as_ref().map(Vec::len).or(options.width),
    };
    if let Some(width) = fixed.filter(|&w| w < found) {
        return Err(Cause::Line { line: largest.1, what: format!("feature {} is beyond the {width} features expected", largest.0) });
    }
    let cols = fixed.unwrap_or(found);
    store::plausible_columns(cols, indices.len())?;
    let x = store::csr(rows, cols, indptr, indices, values)?;
    let target = labels.finish(rows);
    // the labels are no column, so only what is left over can be one
    let own_target: Vec<String> = request.own_target().iter().filter(|n| *n != LABEL && *n != "*").cloned().collect();
    let ignore = options.ignore.iter().filter(|n| *n != LABEL).cloned().collect();
    let options = super::ReadOptions { ignore, ..options.clone() };
    let inner = ReadRequest { options: &options, ..*request };
    let names = if one_based && options.own_numbers { Names::Counted(cols) } else { Names::Numbered(cols) };
    let plan = inner.plan_with(names, &own_target, roles::own(&options.sources), roles::own(&options.weights))?;
    let mut data = cells::divide(x, &inner, plan)?;
    if own_target.is_empty() {
        data.target = target;
    }
    Ok((data, if one_based { IndexBase::One } else { IndexBase::Zero }, cols))
}

/// The labels of the rows, in the form that is wanted.
enum Labels {
    Unwanted,
    Classes(ClassEncoder),
    Real(Vec<f64>),
    /// Distinct label names and, for each row, its labels as codes.
    Sets {
        encoder: ClassEncoder,
        ends: Vec<usize>,
    },
}

impl Labels {
    fn new(request: &ReadRequest<'_>) -> Self {
        let options = request.options;
        let asked = match &options.target {
            Some(ColumnSpec::Columns(names)) => names.iter().any(|n| n == LABEL || n == "*"),
            Some(ColumnSpec::File { .. }) => false,
            None => !matches!(request.features, Features::Fitted(_)) && !options.ignore.iter().any(|n| n == LABEL),
        };
        let encoder = || cells::encoder(options);
        match options.target_kind {
            _ if !asked => Self::Unwanted,
            TargetKind::Classes => Self::Classes(encoder()),
            TargetKind::Real => Self::Real(Vec::new()),
            TargetKind::Labels => Self::Sets { encoder: encoder(), ends: Vec::new() },
        }
    }

    fn push(&mut self, label: &str, open: bool, row: usize, line: u64) -> Result<(), Cause> {
        let missing = || Cause::MissingTarget { what: "target", row, column: LABEL.into() };
        let unknown = |e| match e {
            DataError::UnknownLabel { label, known, .. } => DataError::UnknownLabel { row, label, known },
            other => other,
        };
        match self {
            Self::Unwanted => {}
            Self::Classes(encoder) if open && label.is_empty() => encoder.push("")?,
            Self::Real(values) if open && label.is_empty() => values.push(f64::NAN),
            Self::Classes(_) | Self::Real(_) if label.is_empty() => return Err(missing()),
            Self::Classes(_) | Self::Real(_) if label.contains(',') => {
                let what = "the row has a set of labels; set the kind of target to labels, or leave the labels out (--ignore label)";
                return Err(Cause::Line { line, what: what.into() });
            }
            Self::Classes(encoder) => encoder.push(&shortest(label)).map_err(unknown)?,
            Self::Real(values) => {
                let value: f64 = label.parse().map_err(|_| Cause::TargetNotNumber { row, column: LABEL.into(), value: shorten(label) })?;
                if !value.is_finite() {
                    return Err(DataError::TargetNotFinite { row, value }.into());
                }
                store::reserve(values, 1);
                values.push(value);
            }
            Self::Sets { encoder, ends } => {
                for one in label.split(',').filter(|l| !l.is_empty()) {
                    encoder.push(&shortest(one)).map_err(unknown)?;
                }
                ends.push(encoder.len());
            }
        }
        Ok(())
    }

    fn finish(self, rows: usize) -> Target {
        match self {
            Self::Unwanted => Target::None,
            Self::Classes(encoder) => Target::Classes(encoder.finish()),
            Self::Real(values) => Target::Real { width: 1, values },
            Self::Sets { encoder, ends } => {
                let all = encoder.finish();
                let width = all.names.len();
                let mut values = vec![0i8; rows * width];
                let mut from = 0;
                for (row, &end) in ends.iter().enumerate() {
                    all.codes[from..end].iter().for_each(|&c| values[row * width + c as usize] = 1);
                    from = end;
                }
                Target::Labels(LabelSets { names: all.names, values })
            }
        }
    }
}

/// Numbers in their shortest form, other names as they are.
fn shortest(label: &str) -> String {
    match label.parse::<f64>() {
        Ok(v) if v.is_finite() => number_text(v + 0.0),
        _ => label.into(),
    }
}
