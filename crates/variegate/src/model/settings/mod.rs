//! Settings as users write them: each is declared once, and every front reads the declarations.
//!
//! The macro [`settings!`](crate::settings!) makes of one block the plain struct, its defaults and the table of [`Setting`]s; command-line
//! options, Python docstrings, checks of ranges and the book's page of settings come from that table. The Python keyword, the key in
//! `settings.toml` and the command-line option are the same word (the option with hyphens, and without the leading `n_` of counts).

mod declare;
mod kind;
#[cfg(test)]
mod page;

pub use kind::Kind;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Debug;

use crate::{Error, Result};

/// Who reads a setting of a model, beside the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// `simulate`: the setting says what data are like.
    Simulate,
    /// `check`: the setting says what is checked.
    Check,
}

/// One setting of a family.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name, in snake case.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Its default.
    pub default: Value,
    /// One sentence on what it does, without the full stop.
    pub help: &'static str,
    /// Who reads it beside the fit.
    pub readers: &'static [Reader],
}

impl Setting {
    /// The command-line option: `n_draws` is `draws`, `prior_precision` is `prior-precision`.
    pub fn option(&self) -> String {
        self.name.strip_prefix("n_").unwrap_or(self.name).replace('_', "-")
    }

    /// Refuses a value that is not allowed.
    pub fn check(&self, value: &Value) -> Result<()> {
        if self.kind.admits(value) {
            return Ok(());
        }
        Err(Error::setting(self.name, shown(value), self.kind.allowed()))
    }

    /// Refuses a value of the struct's field that is not allowed.
    pub fn check_field<T: Serialize + DeserializeOwned + PartialEq + Debug>(&self, field: &T) -> Result<()> {
        let value = as_value(field);
        // a number that is not finite would travel as nothing
        if serde_json::from_value::<T>(value.clone()).is_ok_and(|back| back == *field) {
            return self.check(&value);
        }
        Err(Error::setting(self.name, format!("{field:?}"), self.kind.allowed()))
    }
}

/// What [`settings!`](crate::settings!) declares.
pub trait Declared: Default + Serialize + DeserializeOwned {
    /// The declarations, in their order.
    fn table() -> Vec<Setting>;
    /// Refuses values out of their ranges; what goes with what is another question.
    fn check_ranges(&self) -> Result<()>;
}

/// Names of the settings of chains, which every sampler has.
pub const SAMPLING: &[&str] = &["n_chains", "n_warmup", "n_draws", "thin"];

/// Checks given settings against the declarations and fills in the defaults.
pub fn resolve<T: Declared>(family: &str, given: &Map<String, Value>) -> Result<T> {
    resolve_from(&T::default(), family, given)
}

/// The same where other values than the defaults are filled in.
pub fn resolve_from<T: Declared>(base: &T, family: &str, given: &Map<String, Value>) -> Result<T> {
    let table = T::table();
    let mut all = as_map(base);
    for (name, value) in given {
        let Some(setting) = table.iter().find(|s| s.name == name) else {
            let known = table.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownSetting { family: family.into(), name: name.clone(), known });
        };
        setting.check(value)?;
        all.insert(name.clone(), value.clone());
    }
    serde_json::from_value(Value::Object(all)).map_err(|e| Error::setting("settings", family, format!("readable ({e})")))
}

/// A group of settings that others may make meaningless: whether they do, the settings, and what is said of them.
pub type Meaningless = (bool, &'static [&'static str], &'static str);

/// Refuses a setting that another makes meaningless, unless it has its default.
pub fn refuse_meaningless<T: Declared>(settings: &T, groups: &[Meaningless]) -> Result<()> {
    let (given, defaults) = (as_map(settings), as_map(&T::default()));
    for (meaningless, names, allowed) in groups {
        if let Some(name) = names.iter().find(|name| *meaningless && given.get(**name) != defaults.get(**name)) {
            let value = given.get(*name).map_or_else(String::new, shown);
            return Err(Error::setting(name, value, *allowed));
        }
    }
    Ok(())
}

/// The settings that matter beside the others: all but those that others make meaningless.
pub fn in_use<T: Declared>(settings: &T, groups: &[Meaningless]) -> Map<String, Value> {
    let idle = |name: &str| groups.iter().any(|(meaningless, names, _)| *meaningless && names.contains(&name));
    as_map(settings).into_iter().filter(|(name, _)| !idle(name)).collect()
}

/// The settings of `T` as a map.
pub fn as_map<T: Serialize>(settings: &T) -> Map<String, Value> {
    match as_value(settings) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A number in as few digits as tell it: 0.5, 300, 1e6, 1e-300.
pub fn short_number(x: f64) -> String {
    let plain = x.to_string();
    let power = format!("{x:e}");
    if x != 0.0 && !(1e-4..1e6).contains(&x.abs()) && power.len() < plain.len() { power } else { plain }
}

/// A value as messages and tables show it: words as they are, numbers short, nothing as `null`.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        // 1.0 is written 1
        other => other.as_f64().filter(|_| other.is_f64()).map_or_else(|| other.to_string(), short_number),
    }
}

/// A value as settings files hold it.
pub fn as_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The defaults of a table of settings.
pub fn defaults(table: &[Setting]) -> Map<String, Value> {
    table.iter().map(|s| (s.name.to_string(), s.default.clone())).collect()
}
