//! What a setting may be, and how that is said.

use serde_json::Value;

use super::short_number;

/// Just below zero: as the excluded bound of numbers that may be zero.
const BELOW_ZERO: f64 = -f64::MIN_POSITIVE;

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
    /// A number, or a text of a certain form.
    NumberOrText {
        /// What is allowed, in words that end a sentence.
        form: &'static str,
        /// Whether a value is.
        admits: fn(&Value) -> bool,
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

/// The kinds as declarations write them.
impl Kind {
    /// A finite number above 0.
    pub fn positive() -> Self {
        Self::number(0.0, f64::MAX)
    }

    /// A finite number of at least 0.
    pub fn not_negative() -> Self {
        Self::number(BELOW_ZERO, f64::MAX)
    }

    /// A number above one bound (excluded) up to another (included).
    pub fn number(above: f64, most: f64) -> Self {
        Self::Number { above, most }
    }

    /// A finite number above 0, or nothing.
    pub fn positive_or_nothing() -> Self {
        Self::number_or_nothing(0.0, f64::MAX)
    }

    /// A number from 0 to a bound, or nothing.
    pub fn not_negative_or_nothing(most: f64) -> Self {
        Self::number_or_nothing(BELOW_ZERO, most)
    }

    /// A number above one bound up to another, or nothing.
    pub fn number_or_nothing(above: f64, most: f64) -> Self {
        Self::OptionalNumber { above, most }
    }

    /// A whole number between two bounds.
    pub fn whole(least: u64, most: u64) -> Self {
        Self::Integer { least, most }
    }

    /// A whole number between two bounds, or nothing.
    pub fn whole_or_nothing(least: u64, most: u64) -> Self {
        Self::OptionalInteger { least, most }
    }

    /// One of these words.
    pub fn word(words: &'static [&'static str]) -> Self {
        Self::Word(words)
    }

    /// Yes or no.
    pub fn switch() -> Self {
        Self::Switch
    }

    /// A text of a certain form.
    pub fn text(form: &'static str, admits: fn(&str) -> bool) -> Self {
        Self::Text { form, admits, optional: false }
    }

    /// A text of a certain form, or nothing.
    pub fn text_or_nothing(form: &'static str, admits: fn(&str) -> bool) -> Self {
        Self::Text { form, admits, optional: true }
    }

    /// A number, or a text of a certain form.
    pub fn number_or_text(form: &'static str, admits: fn(&Value) -> bool) -> Self {
        Self::NumberOrText { form, admits, optional: false }
    }

    /// A number, a text of a certain form, or nothing.
    pub fn number_or_text_or_nothing(form: &'static str, admits: fn(&Value) -> bool) -> Self {
        Self::NumberOrText { form, admits, optional: true }
    }

    /// A value with parts, or nothing.
    pub fn nested(form: &'static str, admits: fn(&Value) -> bool) -> Self {
        Self::Nested { form, admits }
    }
}

impl Kind {
    /// What is allowed, in words that end a sentence.
    pub fn allowed(&self) -> String {
        let range = |above: f64, most: f64| match (above, most) {
            (a, m) if m == f64::MAX && a == f64::MIN => "a finite number".to_string(),
            (a, m) if m == f64::MAX && a == BELOW_ZERO => "a finite number of at least 0".to_string(),
            (a, m) if m == f64::MAX => format!("a finite number above {}", short_number(a)),
            (a, m) if a == BELOW_ZERO => format!("a number from 0 to {}", short_number(m)),
            (a, m) => format!("a number above {} and at most {}", short_number(a), short_number(m)),
        };
        match *self {
            Kind::Integer { least, most: u64::MAX } => format!("a whole number of at least {least}"),
            Kind::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Kind::OptionalInteger { least, most } => format!("a whole number from {least} to {most} or nothing"),
            Kind::Number { above, most } => range(above, most),
            Kind::OptionalNumber { above, most } => format!("{} or nothing", range(above, most)),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Switch => "true or false".to_string(),
            Kind::Text { form, optional: false, .. } | Kind::NumberOrText { form, optional: false, .. } => form.to_string(),
            Kind::Text { form, optional: true, .. } | Kind::NumberOrText { form, optional: true, .. } | Kind::Nested { form, .. } => {
                format!("{form}, or nothing")
            }
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
            Kind::NumberOrText { admits, optional, .. } => optional && value.is_null() || admits(value),
            Kind::Nested { admits, .. } => value.is_null() || admits(value),
        }
    }
}
