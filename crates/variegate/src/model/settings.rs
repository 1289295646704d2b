//! Settings as users write them: one table a family says their names, ranges, defaults and meaning, and every front reads it.
//!
//! The Python keyword, the key in `settings.toml` and the command-line option are the same word (the option with hyphens, and
//! without the leading `n_` of counts).

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// What a setting may be.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number between two bounds.
    Integer {
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// Like `Integer`, or nothing.
    OptionalInteger {
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// A finite number above `above` (excluded) up to `most` (included).
    Number {
        /// Excluded lower bound.
        above: f64,
        /// Included upper bound.
        most: f64,
    },
    /// Like `Number`, or nothing (`null`, `None`, or the option left out).
    OptionalNumber {
        /// Excluded lower bound.
        above: f64,
        /// Included upper bound.
        most: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Yes or no.
    Switch,
    /// A text of a certain form.
    Text {
        /// What is allowed, in words that end a sentence.
        form: &'static str,
        /// Whether a text is.
        admits: fn(&str) -> bool,
        /// Whether there may be none.
        optional: bool,
    },
    /// A value with parts (lists, tables), or nothing. On the command line it is read from a TOML file, from the key of the setting's name.
    Nested {
        /// What is allowed, in words that end a sentence.
        form: &'static str,
        /// Whether a value is.
        admits: fn(&Value) -> bool,
    },
}

impl Kind {
    /// What is allowed, in words that end a sentence.
    pub fn allowed(&self) -> String {
        let range = |above: f64, most: f64| match (above, most) {
            (a, m) if m == f64::MAX && a == f64::MIN => "a finite number".to_string(),
            (a, m) if m == f64::MAX => format!("a finite number above {a}"),
            (a, m) => format!("a number above {a} and at most {m}"),
        };
        match *self {
            Kind::Integer { least, most: u64::MAX } => format!("a whole number of at least {least}"),
            Kind::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Kind::OptionalInteger { least, most } => format!("a whole number from {least} to {most} or nothing"),
            Kind::Number { above, most } => range(above, most),
            Kind::OptionalNumber { above, most } => format!("{} or nothing", range(above, most)),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Switch => "true or false".to_string(),
            Kind::Text { form, optional: false, .. } => form.to_string(),
            Kind::Text { form, optional: true, .. } | Kind::Nested { form, .. } => format!("{form}, or nothing"),
        }
    }

    /// Whether a value is allowed.
    pub fn admits(&self, value: &Value) -> bool {
        let number = |above: f64, most: f64| value.as_f64().is_some_and(|v| v.is_finite() && v > above && v <= most);
        match *self {
            Kind::Integer { least, most } => value.as_u64().is_some_and(|v| v >= least && v <= most),
            Kind::OptionalInteger { least, most } => value.is_null() || value.as_u64().is_some_and(|v| v >= least && v <= most),
            Kind::Number { above, most } => number(above, most),
            Kind::OptionalNumber { above, most } => value.is_null() || number(above, most),
            Kind::Word(words) => value.as_str().is_some_and(|v| words.contains(&v)),
            Kind::Switch => value.is_boolean(),
            Kind::Text { admits, optional, .. } => value.as_str().map_or(optional && value.is_null(), admits),
            Kind::Nested { admits, .. } => value.is_null() || admits(value),
        }
    }
}

/// One setting of a family.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name, in snake case.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// One sentence on what it does.
    pub help: &'static str,
}

impl Setting {
    /// The command-line option: `n_draws` is `draws`, `prior_precision` is `prior-precision`.
    pub fn option(&self) -> String {
        self.name.strip_prefix("n_").unwrap_or(self.name).replace('_', "-")
    }
}

/// Chains, warm-up, draws and thinning: the same for every sampler.
pub const SAMPLING: [Setting; 4] = [
    Setting { name: "n_chains", kind: Kind::Integer { least: 1, most: 1000 }, help: "Independent chains, run in parallel" },
    Setting { name: "n_warmup", kind: Kind::Integer { least: 0, most: 100_000_000 }, help: "Sweeps of each chain before its first draw" },
    Setting { name: "n_draws", kind: Kind::Integer { least: 1, most: 100_000_000 }, help: "Draws kept of each chain" },
    Setting { name: "thin", kind: Kind::Integer { least: 1, most: 1_000_000 }, help: "Sweeps for each draw that is kept" },
];

/// Checks given settings against the table and fills in the defaults of `T`, whose fields are the settings.
pub fn resolve<T: Default + Serialize + DeserializeOwned>(family: &str, table: &[Setting], given: &Map<String, Value>) -> Result<T> {
    let mut all = defaults::<T>();
    for (name, value) in given {
        let Some(setting) = table.iter().find(|s| s.name == name) else {
            let known = table.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownSetting { family: family.into(), name: name.clone(), known });
        };
        if !setting.kind.admits(value) {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            return Err(Error::setting(name, shown, setting.kind.allowed()));
        }
        all.insert(name.clone(), value.clone());
    }
    serde_json::from_value(Value::Object(all)).map_err(|e| Error::setting("settings", family, format!("readable ({e})")))
}

/// A group of settings that others may make meaningless: whether they do, the settings, and what is said of them.
pub type Meaningless = (bool, &'static [&'static str], &'static str);

/// Refuses a setting that another makes meaningless, unless it has its default.
pub fn refuse_meaningless<T: Default + Serialize>(settings: &T, groups: &[Meaningless]) -> Result<()> {
    let (given, defaults) = (as_map(settings), defaults::<T>());
    for (meaningless, names, allowed) in groups {
        if let Some(name) = names.iter().find(|name| *meaningless && given.get(**name) != defaults.get(**name)) {
            let value = given.get(*name).map_or_else(String::new, |v| v.as_str().map_or_else(|| v.to_string(), str::to_string));
            return Err(Error::setting(name, value, *allowed));
        }
    }
    Ok(())
}

/// Columns and classes of simulated rows.
pub const SIMULATED_CLASSES: [Setting; 2] = [
    Setting { name: "columns", kind: Kind::Integer { least: 1, most: 5000 }, help: "Number of feature columns" },
    Setting { name: "classes", kind: Kind::Integer { least: 2, most: 1000 }, help: "Number of classes" },
];

/// The settings of `T` as a map.
pub fn as_map<T: Serialize>(settings: &T) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// The default settings of `T` as a map.
pub fn defaults<T: Default + Serialize>() -> Map<String, Value> {
    as_map(&T::default())
}
