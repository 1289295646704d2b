//! Names of columns from a file of their own, for files that have none: one name a line, in the order of the columns.

use std::collections::HashMap;
use std::path::Path;

use super::error::{Cause, ReadError};
use super::open::Input;
use super::roles::{Features, Names, ReadRequest};

/// Reads a list of names, one a line, gzip allowed. Blank lines at the end do not count; a name that is empty or occurs twice is refused.
pub fn read_names(path: &Path) -> Result<Vec<String>, ReadError> {
    let inner = || -> Result<Vec<String>, Cause> {
        let mut input = Input::open(path)?;
        let (mut buffer, mut number, mut list, mut blank) = (Vec::new(), 0, Vec::<String>::new(), None);
        while let Some(line) = input.line(&mut buffer, &mut number)? {
            let fault = |what: String| Cause::Line { line: number, what };
            let name = std::str::from_utf8(line).map_err(|_| fault("the name is not UTF-8 text".into()))?.trim();
            if name.is_empty() {
                blank = blank.or(Some(number));
                continue;
            }
            if let Some(line) = blank {
                return Err(Cause::Line { line, what: "there is no name; give each column one, one a line".into() });
            }
            list.push(name.to_owned());
        }
        let mut first = HashMap::new();
        for (at, name) in list.iter().enumerate() {
            if let Some(before) = first.insert(name.as_str(), at + 1) {
                let what = format!("the name `{name}` is that of line {before} already; names of columns must differ");
                return Err(Cause::Line { line: at as u64 + 1, what });
            }
        }
        Ok(list)
    };
    inner().map_err(|e| e.at(path))
}

impl<'o> ReadRequest<'o> {
    /// The names of a file's columns, with those that were given where it has none.
    pub(super) fn named<'n>(&self, names: Names<'n>) -> Result<Names<'n>, Cause>
    where
        'o: 'n,
    {
        let given = match (&self.options.names, self.features) {
            (None, _) | (_, Features::None) => return Ok(names),
            (Some(given), _) => given.as_slice(),
        };
        match (names, self.features) {
            (Names::Numbered(n) | Names::Counted(n), _) if n == given.len() => Ok(Names::Given(given)),
            // other files have their own names, or are told by place: they may hold the features alone
            (_, Features::Fitted(_)) => Ok(names),
            (Names::Numbered(n) | Names::Counted(n), _) => Err(Cause::Unsupported {
                what: format!("the file has {n} columns, but there are {} names for them", given.len()),
                hint: "give one name a line for each column (--names)",
            }),
            (Names::Given(_), _) => Err(Cause::Unsupported {
                what: "the columns have names of their own".into(),
                hint: "leave --names out (if the first line of a text table is no header, say so with --no-header)",
            }),
        }
    }
}
