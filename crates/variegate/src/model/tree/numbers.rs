//! Settings that are numbers in more than one form.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::short_number;

/// One number for all levels (or columns), or one for each: a number, or a text with commas between them. A list is taken too.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers(pub Vec<f64>);

/// What a list of numbers may be given as.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    One(f64),
    Text(String),
    Several(Vec<f64>),
}

impl Numbers {
    /// The numbers of a setting, if it is one or more of them.
    fn read(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }

    /// Whether a value is one or more finite numbers.
    pub(super) fn finite(value: &Value) -> bool {
        Self::read(value).is_some_and(|all| all.0.iter().all(|v| v.is_finite()))
    }

    /// Whether a value is one or more finite numbers above 0.
    pub(super) fn positive(value: &Value) -> bool {
        Self::read(value).is_some_and(|all| all.0.iter().all(|v| v.is_finite() && *v > 0.0))
    }

    /// As users write them.
    pub(super) fn shown(&self) -> String {
        self.0.iter().map(|v| short_number(*v)).collect::<Vec<_>>().join(",")
    }
}

impl From<f64> for Numbers {
    fn from(value: f64) -> Self {
        Self(vec![value])
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0[..] {
            [one] => to.serialize_f64(one),
            _ => to.serialize_str(&self.shown()),
        }
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = match Given::deserialize(from)? {
            Given::One(v) => vec![v],
            Given::Several(all) => all,
            Given::Text(text) => text.split(',').map(|v| v.trim().parse().map_err(D::Error::custom)).collect::<Result<_, _>>()?,
        };
        if all.is_empty() { Err(D::Error::custom("no numbers")) } else { Ok(Self(all)) }
    }
}

/// How strongly siblings are pulled apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pull {
    /// By this number; 0 not at all.
    Fixed(f64),
    /// By a number that suits the rows.
    Auto,
}

impl Pull {
    /// Whether siblings are not pulled apart.
    pub(super) fn is_none(self) -> bool {
        self == Self::Fixed(0.0)
    }

    /// Whether a value is one.
    pub(super) fn admits(value: &Value) -> bool {
        value == "auto" || value.as_f64().is_some_and(|c| c.is_finite() && c >= 0.0)
    }
}

impl From<f64> for Pull {
    fn from(c: f64) -> Self {
        Self::Fixed(c)
    }
}

impl Serialize for Pull {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(c) => to.serialize_f64(*c),
            Self::Auto => to.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Pull {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Given::deserialize(from)? {
            Given::One(c) => Ok(Self::Fixed(c)),
            Given::Text(text) if text == "auto" => Ok(Self::Auto),
            _ => Err(D::Error::custom("neither a number nor auto")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_several_forms() {
        for (value, want) in
            [(json!(0.5), vec![0.5]), (json!(1), vec![1.0]), (json!("0.35, 2"), vec![0.35, 2.0]), (json!([3, 0.1]), vec![3.0, 0.1])]
        {
            assert!(Numbers::positive(&value), "{value}");
            let read = Numbers::read(&value).unwrap();
            assert_eq!(read.0, want);
            // and back, in the shortest of them
            let back = serde_json::to_value(&read).unwrap();
            assert_eq!(back.is_number(), want.len() == 1);
            assert_eq!(Numbers::read(&back).unwrap(), read);
        }
        for bad in [json!("0.3,"), json!("a"), json!(""), json!([]), json!(null), json!([1, "a"]), json!("1,nan"), json!(-1), json!("1,0")]
        {
            assert!(!Numbers::positive(&bad), "{bad}");
        }
        assert!(Numbers::finite(&json!("-1,0")) && !Numbers::finite(&json!("inf")));
    }

    #[test]
    fn a_pull_is_a_number_or_automatic() {
        for (value, want) in [(json!(0), Pull::Fixed(0.0)), (json!(0.3), Pull::Fixed(0.3)), (json!("auto"), Pull::Auto)] {
            assert!(Pull::admits(&value));
            assert_eq!(serde_json::from_value::<Pull>(value).unwrap(), want);
            assert_eq!(serde_json::from_value::<Pull>(serde_json::to_value(want).unwrap()).unwrap(), want);
        }
        assert!(!Pull::admits(&json!(-1)) && !Pull::admits(&json!("much")) && !Pull::admits(&json!(null)));
    }
}
