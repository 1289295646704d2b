//! The public identity of a run: what was asked, of which data, by which version, on what kind of machine.
//!
//! The manifest holds it for the program; `settings.toml` tells people the same.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use variegate::data::{Dataset, FINGERPRINT_VERSION};
use variegate::model::family;
use variegate::run::{Plan, Schedule};

/// What a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Model family, for example `logistic`.
    pub family: String,
    /// Program, for example `logistic/gibbs`.
    pub program: String,
    /// Settings of the model by name. Numbers come back to the bit.
    pub model: Map<String, Value>,
    /// Seed, chains, schedule, block size.
    pub plan: Plan,
    /// The data it was fitted to.
    pub data: DataReference,
    /// When the run was made, in UTC: `2025-06-01T12:00:00Z`.
    pub created_at: String,
    /// Version of variegate that made it.
    pub variegate_version: String,
    /// Kind of CPU: results are equal to the bit only on the same kind.
    pub machine: Machine,
    /// What classes are in the program that wrote the run; nothing where they were text in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_type: Option<LabelType>,
    /// The same of sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<LabelType>,
    /// Sealed description of columns and classes; kept in a file of its own.
    #[serde(skip)]
    pub schema: Vec<u8>,
}

impl RunRecord {
    /// Settings of the model that matter to it; those that there were not yet when the run was made have their defaults.
    pub fn settings_in_use(&self) -> Map<String, Value> {
        let used = family(&self.family).and_then(|family| family.configure(&self.model)).map(|model| model.settings_in_use());
        used.unwrap_or_else(|_| self.model.clone())
    }

    /// The record of a run that begins now, here.
    pub fn new(family: &str, program: &str, model: Map<String, Value>, plan: Plan, data: DataReference, schema: Vec<u8>) -> Self {
        Self {
            family: family.into(),
            program: program.into(),
            model,
            plan,
            data,
            created_at: utc(SystemTime::now()),
            variegate_version: env!("CARGO_PKG_VERSION").into(),
            machine: Machine::here(),
            class_type: None,
            source_type: None,
            schema,
        }
    }

    /// The same, of labels that have a type.
    pub fn with_labels(self, class_type: Option<LabelType>, source_type: Option<LabelType>) -> Self {
        Self { class_type, source_type, ..self }
    }

    /// The text of `settings.toml`.
    pub(super) fn settings_toml(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut plan = Map::new();
        plan.insert("seed".into(), self.plan.seed.into());
        plan.insert("n_chains".into(), self.plan.chains.into());
        match self.plan.schedule {
            Schedule::Sample { warm_up, draws, thin } => {
                plan.insert("n_warmup".into(), warm_up.into());
                plan.insert("n_draws".into(), draws.into());
                plan.insert("thin".into(), thin.into());
            }
            Schedule::Ascend { max_sweeps } => {
                plan.insert("max_sweeps".into(), max_sweeps.into());
            }
        }
        plan.insert("block_rows".into(), self.plan.block_rows.into());
        let mut run = Map::new();
        for (name, value) in [
            ("family", &self.family),
            ("program", &self.program),
            ("created_at", &self.created_at),
            ("variegate_version", &self.variegate_version),
        ] {
            run.insert(name.into(), value.as_str().into());
        }
        let mut all = toml::Table::new();
        all.insert("run".into(), to_toml(&run.into()).unwrap_or_else(empty));
        all.insert("model".into(), to_toml(&Value::Object(self.model.clone())).unwrap_or_else(empty));
        all.insert("plan".into(), to_toml(&plan.into()).unwrap_or_else(empty));
        let data = serde_json::to_value(&self.data)?;
        all.insert("data".into(), to_toml(&data).unwrap_or_else(empty));
        let machine = serde_json::to_value(&self.machine)?;
        all.insert("machine".into(), to_toml(&machine).unwrap_or_else(empty));
        let head = "# What this run was asked to do. It is a record: a changed file is refused.\n\n";
        Ok(format!("{head}{}", toml::to_string(&all)?))
    }
}

fn empty() -> toml::Value {
    toml::Value::Table(toml::Table::new())
}

/// TOML has no null (left out) and no integers above 63 bits (written as text).
fn to_toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(b) => toml::Value::Boolean(*b),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => toml::Value::Integer(i),
            (None, Some(x)) if n.is_f64() => toml::Value::Float(x),
            _ => toml::Value::String(n.to_string()),
        },
        Value::String(s) => toml::Value::String(s.clone()),
        Value::Array(a) => toml::Value::Array(a.iter().filter_map(to_toml).collect()),
        Value::Object(o) => toml::Value::Table(o.iter().filter_map(|(k, v)| Some((k.clone(), to_toml(v)?))).collect()),
    })
}

/// What labels are. A run names them by texts; this says what to make of those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelType {
    /// Whole numbers.
    Integer,
    /// Real numbers.
    Real,
    /// True and false.
    Boolean,
    /// Anything else.
    Text,
}

impl LabelType {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Integer, "integer"), (Self::Real, "real"), (Self::Boolean, "boolean"), (Self::Text, "text")];

    /// Its name, as the manifest writes it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|t| t.0 == self).map_or("text", |t| t.1)
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|t| t.1 == name).map(|t| t.0)
    }
}

/// Which data a run was fitted to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataReference {
    /// Where the file was, absolute; nothing for data that came from memory.
    pub path: Option<PathBuf>,
    /// The path as the user wrote it.
    pub given: Option<PathBuf>,
    /// Format and options of the reader, so that the file can be read again in the same way.
    pub reader: Value,
    /// Fingerprint of the values.
    #[serde(with = "hexadecimal")]
    pub fingerprint: u64,
    /// How the fingerprint was made; nothing is the first way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint_version: Option<u32>,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub columns: u64,
}

impl DataReference {
    /// Data of this fingerprint, made in the present way.
    pub fn of(fingerprint: u64) -> Self {
        Self { fingerprint, fingerprint_version: Some(FINGERPRINT_VERSION), ..Self::default() }
    }

    /// Whether these are the data.
    pub fn is_of(&self, data: &Dataset<'_>) -> bool {
        data.fingerprint_of_version(self.fingerprint_version.unwrap_or(1)) == Some(self.fingerprint)
    }

    /// Whether both are of other data, as far as their fingerprints can be compared.
    pub fn differs(&self, other: &Self) -> bool {
        self.fingerprint_version == other.fingerprint_version && self.fingerprint != other.fingerprint
    }
}

mod hexadecimal {
    use super::*;

    pub fn serialize<S: Serializer>(value: &u64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&format!("{value:016x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}

/// What decides the last bits of matrix products.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Architecture, for example `x86_64`.
    pub architecture: String,
    /// Instruction sets that kernels choose between.
    pub instruction_sets: Vec<String>,
    /// Caches of a core, for example `L1 Data 48K`; empty where the system does not tell.
    pub caches: Vec<String>,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Self {
        Self { architecture: std::env::consts::ARCH.into(), instruction_sets: instruction_sets(), caches: caches() }
    }
}

#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> Vec<String> {
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    found.into_iter().filter(|f| f.1).map(|f| f.0.to_string()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn instruction_sets() -> Vec<String> {
    Vec::new()
}

fn caches() -> Vec<String> {
    (0..8)
        .map_while(|i| {
            let read = |what: &str| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok();
            Some(format!("L{} {} {}", read("level")?.trim(), read("type")?.trim(), read("size")?.trim()))
        })
        .collect()
}

/// A time in UTC as ISO 8601, to the second.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", day + 1, second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // checked against `date -u -d @seconds`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn settings_are_readable_whatever_they_hold() {
        let model = serde_json::json!({"bound": "tilted", "prior_scale": 0.1, "limit": null, "big": u64::MAX, "sizes": [1, 2], "deep": {"a": true}});
        let plan = Plan { seed: u64::MAX, chains: 4, schedule: Schedule::Ascend { max_sweeps: 9 }, block_rows: 512 };
        let data = DataReference { fingerprint: 0xab, rows: 3, columns: 2, ..Default::default() };
        let record = RunRecord::new("softmax", "softmax/vb", model.as_object().unwrap().clone(), plan, data, vec![1]);
        let text = record.settings_toml().unwrap();
        let back: toml::Table = text.parse().unwrap();
        assert_eq!(back["model"]["bound"].as_str(), Some("tilted"));
        assert_eq!(back["model"]["prior_scale"].as_float(), Some(0.1));
        assert_eq!(back["model"]["big"].as_str(), Some("18446744073709551615"));
        assert!(back["model"].get("limit").is_none());
        assert_eq!(back["plan"]["seed"].as_str(), Some("18446744073709551615"));
        assert_eq!(back["plan"]["max_sweeps"].as_integer(), Some(9));
        assert_eq!(back["data"]["fingerprint"].as_str(), Some("00000000000000ab"));
    }
}
