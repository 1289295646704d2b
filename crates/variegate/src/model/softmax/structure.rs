//! Structures as users write them: numbers of subclasses and experts, trees of gates, and how to search for them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::policy::Policy;
use super::tree::{Coding, Gates, Structure};

/// Largest number of subclasses or experts that `auto` tries unless it is told another.
const AUTO_MOST: usize = 10;
/// Most structures that are fitted one and all.
pub(crate) const MOST_STRUCTURES: usize = 1000;
/// Most subclasses or experts anywhere.
const MOST: usize = 1000;

/// What `subclasses` may be.
pub(crate) const SUBCLASSES: &str = "numbers of subclasses in the order of the classes like 3,2, one number for all classes, auto, auto:MOST, \
                              compressive:LARGEST or all:LARGEST";
/// What `experts` may be.
pub(crate) const EXPERTS: &str = "a number of experts, auto, auto:MOST or all:MOST";
/// What `gates` may be.
pub(crate) const GATES: &str = "a list whose items are \"expert\", a number of experts, a list again, or a table with `children` (and `coding`) or \
                         with `subclasses`";

/// A number of subclasses or experts, or how to search for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// These numbers.
    Given(Vec<usize>),
    /// Greedy splits and deletions, up to this number.
    Auto(usize),
    /// Compressive search from uniform numbers up to this.
    Compressive(usize),
    /// All numbers up to this.
    All(usize),
}

impl Sizes {
    /// Reads `3,2`, `auto`, `auto:6`, `compressive:5`, `all:5`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| (1..=MOST).contains(n));
        match text.split_once(':') {
            Some(("auto", most)) => number(most).map(Sizes::Auto),
            Some(("compressive", largest)) => number(largest).map(Sizes::Compressive),
            Some(("all", largest)) => number(largest).map(Sizes::All),
            Some(_) => None,
            None if text == "auto" => Some(Sizes::Auto(AUTO_MOST)),
            None => text.split(',').map(number).collect::<Option<Vec<_>>>().map(Sizes::Given),
        }
    }

    /// Whether this is a number of experts, or a search for one.
    pub(crate) fn of_experts(&self) -> bool {
        match self {
            Sizes::Given(sizes) => sizes.len() == 1,
            Sizes::Auto(_) | Sizes::All(_) => true,
            Sizes::Compressive(_) => false,
        }
    }

    /// The structures of so many classes with subclasses; the error says what is wrong.
    pub(crate) fn subclasses(&self, classes: usize, generations: u32, relevance: f64) -> Result<Policy, String> {
        Ok(match self {
            Sizes::Given(sizes) if sizes.len() == 1 => Policy::All(vec![Structure::Subclasses(vec![sizes[0]; classes])]),
            Sizes::Given(sizes) if sizes.len() == classes => Policy::All(vec![Structure::Subclasses(sizes.clone())]),
            Sizes::Given(sizes) => return Err(format!("as many numbers as there are classes, {classes} and not {}", sizes.len())),
            Sizes::Auto(most) => Policy::GreedySubclasses { classes, most: *most, relevance },
            Sizes::Compressive(largest) => Policy::Compressive { classes, largest: *largest, generations, relevance },
            Sizes::All(largest) => {
                let count = largest.checked_pow(classes as u32).filter(|c| *c <= MOST_STRUCTURES);
                let Some(count) = count else {
                    return Err(format!(
                        "a smaller number: {largest} subclasses of {classes} classes are more than {MOST_STRUCTURES} structures"
                    ));
                };
                let sizes = |number: usize| (0..classes).rev().map(|c| number / largest.pow(c as u32) % largest + 1).collect();
                Policy::All((0..count).map(|number| Structure::Subclasses(sizes(number))).collect())
            }
        })
    }

    /// The structures with experts.
    pub(crate) fn experts(&self) -> Policy {
        match self {
            Sizes::Given(count) => Policy::All(vec![Structure::Experts(count[0])]),
            Sizes::Auto(most) => Policy::GreedyExperts { most: *most },
            Sizes::All(most) | Sizes::Compressive(most) => Policy::All((1..=*most).map(Structure::Experts).collect()),
        }
    }
}

/// Gates as they are written, kept as written.
#[derive(Debug, Clone, PartialEq)]
pub struct GatesValue(pub Value);

impl GatesValue {
    /// The gates.
    pub(crate) fn read(&self) -> Option<Gates> {
        let gates = gates(&self.0)?;
        (gates.experts() <= MOST).then_some(gates)
    }
}

fn gates(value: &Value) -> Option<Gates> {
    match value {
        Value::String(word) => (word == "expert").then_some(Gates::Expert),
        Value::Number(count) => match count.as_u64()? {
            1 => Some(Gates::Expert),
            count @ 2..=1000 => Some(Gates::Gate { coding: None, children: vec![Gates::Expert; count as usize] }),
            _ => None,
        },
        Value::Array(children) if !children.is_empty() => {
            Some(Gates::Gate { coding: None, children: children.iter().map(gates).collect::<Option<_>>()? })
        }
        Value::Object(table) => {
            let known = |names: &[&str]| table.keys().all(|k| names.contains(&k.as_str()));
            if let Some(Value::Array(children)) = table.get("children") {
                let coding = match table.get("coding").map(Value::as_str) {
                    None => None,
                    Some(Some("full")) => Some(Coding::Full),
                    Some(Some("logistic")) if children.len() == 2 => Some(Coding::Logistic),
                    Some(_) => return None,
                };
                let all = known(&["children", "coding"]) && !children.is_empty();
                return all
                    .then(|| children.iter().map(gates).collect::<Option<_>>())
                    .flatten()
                    .map(|children| Gates::Gate { coding, children });
            }
            let Some(Value::Array(sizes)) = table.get("subclasses") else { return None };
            let size = |v: &Value| v.as_u64().filter(|n| (1..=MOST as u64).contains(n)).map(|n| n as usize);
            let sizes = sizes.iter().map(size).collect::<Option<Vec<_>>>()?;
            (known(&["subclasses"]) && !sizes.is_empty()).then_some(Gates::Subclasses(sizes))
        }
        _ => None,
    }
}

// settings files hold the value itself, sealed states its text: they have no form for values of any kind
impl Serialize for GatesValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { self.0.serialize(serializer) } else { serializer.serialize_str(&self.0.to_string()) }
    }
}

impl<'de> Deserialize<'de> for GatesValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Value::deserialize(deserializer).map(GatesValue);
        }
        let text = String::deserialize(deserializer)?;
        serde_json::from_str(&text).map(GatesValue).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_are_read() {
        assert_eq!(Sizes::read("3,2"), Some(Sizes::Given(vec![3, 2])));
        assert_eq!(Sizes::read("auto"), Some(Sizes::Auto(AUTO_MOST)));
        assert_eq!(Sizes::read("auto:6"), Some(Sizes::Auto(6)));
        assert_eq!(Sizes::read("compressive:5"), Some(Sizes::Compressive(5)));
        for wrong in ["", "0", "3,0", "3,", "auto:", "auto:0", "some:3", "-1", "1e3", "all:x"] {
            assert_eq!(Sizes::read(wrong), None, "{wrong}");
        }
        let Ok(Policy::All(all)) = Sizes::All(3).subclasses(2, 2, 0.05) else { panic!() };
        assert_eq!(all.len(), 9);
        assert_eq!((all[0].describe(), all[1].describe(), all[8].describe()), ("[1,1]".into(), "[1,2]".into(), "[3,3]".into()));
        assert!(Sizes::All(9).subclasses(8, 2, 0.05).is_err());
        assert!(Sizes::Given(vec![1, 2, 3]).subclasses(2, 2, 0.05).is_err());
    }

    #[test]
    fn gates_are_read() {
        let read = |v: Value| GatesValue(v).read().map(|g| Structure::Gates(g).describe());
        assert_eq!(read(json!([2, 2])).unwrap(), "((e e) (e e))");
        assert_eq!(read(json!(["expert", ["expert", 1], {"subclasses": [2, 1]}])).unwrap(), "(e (e e) [2,1])");
        assert_eq!(read(json!([{"children": ["expert", "expert"], "coding": "logistic"}, 3])).unwrap(), "((e e) (e e e))");
        for wrong in [
            json!([]),
            json!("gate"),
            json!([0]),
            json!([[]]),
            json!({"children": []}),
            json!({"sub": [1]}),
            json!(true),
            json!({"children": [1, 1, 1], "coding": "logistic"}),
            json!({"subclasses": [0]}),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
        let kept = GatesValue(json!([2, "expert"]));
        let bytes = postcard::to_stdvec(&kept).unwrap();
        assert_eq!(postcard::from_bytes::<GatesValue>(&bytes).unwrap(), kept);
        assert_eq!(serde_json::to_value(&kept).unwrap(), json!([2, "expert"]));
    }
}
