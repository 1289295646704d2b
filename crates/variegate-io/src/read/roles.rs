//! Which column of a file plays which part.

use std::collections::{HashMap, HashSet};

use variegate::data::{DataError, TargetKind};

use super::error::Cause;
use super::options::{ColumnSpec, ReadOptions, Schema};

/// What is wanted of a file.
#[derive(Clone, Copy)]
pub(super) struct ReadRequest<'o> {
    pub options: &'o ReadOptions,
    pub features: Features<'o>,
}

/// Which features are wanted.
#[derive(Clone, Copy)]
pub(super) enum Features<'o> {
    /// Those that the options choose.
    Chosen,
    /// Those of an earlier fit.
    Fitted(&'o Schema),
    /// None: only the target is wanted.
    None,
}

/// The part of each column, as numbers of columns in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// The features, in order.
    pub features: Vec<usize>,
    /// Their names; empty if the file has none and all its columns are used.
    pub names: Vec<String>,
    pub targets: Vec<usize>,
    pub target_names: Vec<String>,
    pub sources: Option<usize>,
    pub weights: Option<usize>,
}

/// The names of a file's columns.
#[derive(Clone, Copy)]
pub(super) enum Names<'n> {
    /// As the file gives them.
    Given(&'n [String]),
    /// None: so many columns, which can be asked for as x0, x1, … or 0, 1, …
    Numbered(usize),
    /// None: so many columns, which the file counts from 1: x1, x2, … or 1, 2, …
    Counted(usize),
}

impl Names<'_> {
    fn len(self) -> usize {
        match self {
            Self::Given(list) => list.len(),
            Self::Numbered(n) | Self::Counted(n) => n,
        }
    }

    pub fn get(self, j: usize) -> String {
        match self {
            Self::Given(list) => list[j].clone(),
            Self::Numbered(_) => format!("x{j}"),
            Self::Counted(_) => format!("x{}", j + 1),
        }
    }
}

impl<'o> ReadRequest<'o> {
    /// The target columns asked for in the file itself.
    pub fn own_target(&self) -> &'o [String] {
        own(&self.options.target)
    }

    /// Gives each column of a file its part.
    pub fn plan<'n>(&self, names: Names<'n>) -> Result<Plan, Cause>
    where
        'o: 'n,
    {
        self.plan_with(names, self.own_target(), own(&self.options.sources), own(&self.options.weights))
    }

    /// The same with other lists of columns for target, sources and weights.
    pub fn plan_with<'n>(&self, names: Names<'n>, target: &[String], sources: &[String], weights: &[String]) -> Result<Plan, Cause>
    where
        'o: 'n,
    {
        let names = self.named(names)?;
        let columns = Columns::new(names);
        let kind = self.options.target_kind;
        let mut targets = columns.find_all(target)?;
        if kind == TargetKind::Classes && !target.is_empty() && targets.len() != 1 {
            return Err(Cause::OneColumn { what: "the target", found: targets.len() });
        }
        if kind == TargetKind::Labels
            && !targets.is_empty()
            && let Some(known) = &self.options.known_classes
        {
            let all = columns.find_all(known);
            targets = if self.options.open_target {
                // of rows to predict some of the labels may be known, if any
                let there = known.iter().filter_map(|name| columns.find(name).ok().filter(|j| targets.contains(j)));
                Some(there.collect::<Vec<_>>()).filter(|t| !t.is_empty()).map_or(all, Ok)?
            } else {
                all?
            };
        }
        let sources = columns.find_one(sources, "sources")?;
        let weights = columns.find_one(weights, "weights")?;
        let mut part: Vec<Option<&'static str>> = vec![None; names.len()];
        let roles = targets.iter().map(|&j| (j, "the target"));
        for (j, role) in roles.chain(sources.map(|j| (j, "sources"))).chain(weights.map(|j| (j, "weights"))) {
            claim(&mut part, names, j, role)?;
        }
        let features = match (self.features, names) {
            (Features::None, _) => Vec::new(),
            (Features::Fitted(schema), Names::Given(_)) if !schema.columns.is_empty() => {
                schema.columns.iter().map(|name| columns.find(name)).collect::<Result<_, _>>()?
            }
            _ => self.chosen(&columns, &part)?,
        };
        for &j in &features {
            if columns.is_twice(j) {
                return Err(DataError::ColumnTwice { name: names.get(j) }.into());
            }
            claim(&mut part, names, j, "a feature")?;
        }
        if let Features::Fitted(schema) = self.features
            && features.len() != schema.width
        {
            return Err(DataError::ColumnCount { expected: schema.width, found: features.len() }.into());
        }
        if features.is_empty() && !matches!(self.features, Features::None) {
            return Err(DataError::NoColumns.into());
        }
        let pick = |list: &[usize]| list.iter().map(|&j| names.get(j)).collect::<Vec<_>>();
        let plain = match names {
            Names::Given(_) => false,
            Names::Numbered(n) => features.len() == n,
            // columns of an earlier fit are found by their places, whatever it called them
            Names::Counted(n) => features.len() == n && matches!(self.features, Features::Fitted(_)),
        };
        let feature_names = if plain { Vec::new() } else { pick(&features) };
        Ok(Plan { names: feature_names, target_names: pick(&targets), features, targets, sources, weights })
    }

    fn chosen(&self, columns: &Columns<'_>, part: &[Option<&'static str>]) -> Result<Vec<usize>, Cause> {
        let mut list = match &self.options.columns {
            Some(wanted) => columns.find_all(wanted)?,
            None => (0..part.len()).filter(|&j| part[j].is_none()).collect(),
        };
        if !self.options.ignore.is_empty() {
            let mut keep = vec![true; part.len()];
            for name in &self.options.ignore {
                // a file to predict need not have what the fit left out
                match columns.find_all(std::slice::from_ref(name)) {
                    Ok(found) => found.iter().for_each(|&j| keep[j] = false),
                    Err(_) if matches!(self.features, Features::Fitted(_)) => {}
                    Err(e) => return Err(e),
                }
            }
            list.retain(|&j| keep[j]);
        }
        Ok(list)
    }
}

/// The columns of the file itself that a specification names.
pub(super) fn own(spec: &Option<ColumnSpec>) -> &[String] {
    match spec {
        Some(ColumnSpec::Columns(names)) => names,
        _ => &[],
    }
}

fn claim(part: &mut [Option<&'static str>], names: Names<'_>, j: usize, role: &'static str) -> Result<(), Cause> {
    match part[j].replace(role) {
        None => Ok(()),
        Some(first) if first == role => Err(DataError::ColumnTwice { name: names.get(j) }.into()),
        Some(first) => Err(Cause::TwoRoles { name: names.get(j), first, second: role }),
    }
}

/// Finds columns by name.
struct Columns<'n> {
    names: Names<'n>,
    index: HashMap<&'n str, usize>,
    twice: HashSet<&'n str>,
}

impl<'n> Columns<'n> {
    fn new(names: Names<'n>) -> Self {
        let (mut index, mut twice) = (HashMap::new(), HashSet::new());
        if let Names::Given(list) = names {
            for (j, name) in list.iter().enumerate() {
                if index.insert(name.as_str(), j).is_some() {
                    twice.insert(name.as_str());
                }
            }
        }
        Self { names, index, twice }
    }

    fn is_twice(&self, j: usize) -> bool {
        matches!(self.names, Names::Given(list) if self.twice.contains(list[j].as_str()))
    }

    fn find(&self, name: &str) -> Result<usize, Cause> {
        if self.twice.contains(name) {
            return Err(DataError::ColumnTwice { name: name.into() }.into());
        }
        let found = match self.names {
            Names::Given(_) => self.index.get(name).copied(),
            Names::Numbered(n) => name.strip_prefix('x').unwrap_or(name).parse().ok().filter(|&j| j < n),
            Names::Counted(n) => {
                name.strip_prefix('x').unwrap_or(name).parse::<usize>().ok().filter(|&j| j <= n).and_then(|j| j.checked_sub(1))
            }
        };
        found.ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Cause {
        let known = match self.names {
            Names::Given(list) => list.to_vec(),
            Names::Numbered(0) | Names::Counted(0) => Vec::new(),
            Names::Numbered(n) => vec![format!("x0 to x{}", n - 1)],
            Names::Counted(n) => vec![format!("x1 to x{n}")],
        };
        DataError::UnknownColumn { name: name.into(), known }.into()
    }

    fn find_all(&self, wanted: &[String]) -> Result<Vec<usize>, Cause> {
        let mut list = Vec::new();
        for name in wanted {
            let before = list.len();
            match (name.strip_suffix('*'), self.names) {
                (Some(start), Names::Given(names)) if !self.index.contains_key(name.as_str()) => {
                    list.extend((0..names.len()).filter(|&j| names[j].starts_with(start)));
                }
                (Some(""), Names::Numbered(n) | Names::Counted(n)) => list.extend(0..n),
                _ => list.push(self.find(name)?),
            }
            if list.len() == before {
                return Err(self.unknown(name));
            }
        }
        Ok(list)
    }

    fn find_one(&self, wanted: &[String], what: &'static str) -> Result<Option<usize>, Cause> {
        match self.find_all(wanted)?[..] {
            [] => Ok(None),
            [j] => Ok(Some(j)),
            ref list => Err(Cause::OneColumn { what, found: list.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(options: ReadOptions, schema: Option<&Schema>, names: &[&str], named: bool) -> Result<Plan, Cause> {
        let features = schema.map_or(Features::Chosen, Features::Fitted);
        let list = strings(names);
        let names = if named { Names::Given(&list) } else { Names::Numbered(list.len()) };
        ReadRequest { options: &options, features }.plan(names)
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn everything_else_is_a_feature() {
        let options = ReadOptions {
            target: Some(ColumnSpec::column("y")),
            sources: Some(ColumnSpec::column("s")),
            ignore: strings(&["id*"]),
            ..ReadOptions::default()
        };
        let p = plan(options.clone(), None, &["id", "a", "y", "s", "b", "id2"], true).unwrap();
        assert_eq!((p.features, p.targets, p.sources), (vec![1, 4], vec![2], Some(3)));
        assert_eq!(p.names, ["a", "b"]);
        let p =
            plan(ReadOptions { columns: Some(strings(&["b", "a"])), ..options.clone() }, None, &["id", "a", "y", "s", "b"], true).unwrap();
        assert_eq!(p.features, [4, 1]);
        let e = plan(ReadOptions { columns: Some(strings(&["y"])), ..options.clone() }, None, &["id", "a", "y", "s"], true).unwrap_err();
        assert!(e.to_string().contains("`y` is asked for as the target and as a feature"), "{e}");
        let e = plan(options, None, &["a", "b"], true).unwrap_err();
        assert!(e.to_string().contains("no column `y`; the columns are `a`, `b`"), "{e}");
        assert!(plan(ReadOptions::default(), None, &["a", "a"], true).is_err());
        let twice = ReadOptions { target: Some(ColumnSpec::column("a")), ..ReadOptions::default() };
        assert!(plan(twice, None, &["a", "a"], true).is_err());
        assert!(plan(ReadOptions { ignore: strings(&["*"]), ..ReadOptions::default() }, None, &["a"], true).is_err());
    }

    #[test]
    fn a_fit_finds_its_columns_again() {
        let schema = Schema { columns: strings(&["b", "a"]), width: 2 };
        let p = plan(ReadOptions::default(), Some(&schema), &["id", "a", "y", "b"], true).unwrap();
        assert_eq!((p.features, p.names), (vec![3, 1], strings(&["b", "a"])));
        assert!(plan(ReadOptions::default(), Some(&schema), &["a", "c"], true).is_err());
        let p = plan(ReadOptions::default(), Some(&schema), &["x0", "x1"], false).unwrap();
        assert_eq!(p.features, [0, 1]);
        assert!(plan(ReadOptions::default(), Some(&schema), &["x0", "x1", "x2"], false).is_err());
        let chosen = ReadOptions { columns: Some(strings(&["x2", "0"])), ..ReadOptions::default() };
        let p = plan(chosen, Some(&schema), &["x0", "x1", "x2"], false).unwrap();
        assert_eq!((p.features, p.names), (vec![2, 0], strings(&["x2", "x0"])));
    }
}
