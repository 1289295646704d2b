//! Which nonlinear features of the inputs a linear predictor sees.
//!
//! With x the kept inputs of a row, centred and scaled where the fit does so, the features φ(x) are
//! - `none`: x itself,
//! - `polynomial:DEGREE`: all monomials Π x_j^{e_j} of total degree 1 to DEGREE, for a DEGREE from 2 to 8,
//! - `fourier:COUNT` or `fourier:COUNT:WIDTH`: √(2/COUNT) cos(wᵢ·x + bᵢ) with wᵢ ~ N(0, I/WIDTH²) and bᵢ uniform on a full turn, i =
//!   1 … COUNT (Rahimi and Recht 2007). Inner products of features approach the kernel exp(−‖x − x′‖²/(2 WIDTH²)) as COUNT grows.
//!   Without a WIDTH it is √(number of inputs), the size of a typical difference of standardised inputs over √2.
//!
//! At most [`InputMap::MOST_COLUMNS`] features are made. A model may also leave the choice to its search ([`InputMaps::Auto`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A map of the inputs, as users ask for it. Written and read as text, in every front and file alike.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InputMap {
    /// The inputs as they are.
    #[default]
    None,
    /// Monomials.
    Polynomial {
        /// Largest total degree.
        degree: u32,
    },
    /// Random Fourier features.
    Fourier {
        /// Number of features.
        count: usize,
        /// Width of the kernel; `None` is √(number of inputs).
        width: Option<f64>,
    },
}

impl InputMap {
    /// What is allowed, in words that end a sentence.
    pub const ALLOWED: &'static str = "none, polynomial:DEGREE with a degree from 2 to 8, fourier:COUNT or fourier:COUNT:WIDTH with a \
                                       count from 1 to 5000 and a finite width above 0";
    /// Most features of a row.
    pub const MOST_COLUMNS: usize = 5000;

    /// Checks the numbers of a map that was not read from text.
    pub fn validate(&self) -> Result<()> {
        let sound = match *self {
            Self::None => true,
            Self::Polynomial { degree } => (2..=8).contains(&degree),
            Self::Fourier { count, width } => (1..=Self::MOST_COLUMNS).contains(&count) && width.is_none_or(|w| w.is_finite() && w > 0.0),
        };
        if sound { Ok(()) } else { Err(Error::setting("input_map", self, Self::ALLOWED)) }
    }

    /// Whether it is another with more features of the same kind.
    pub(crate) fn refines(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fourier { count, width }, Self::Fourier { count: fewer, width: same }) => count > fewer && width == same,
            _ => false,
        }
    }

    /// Number of features of that many inputs; an error where there would be too many.
    pub fn columns(&self, inputs: usize) -> Result<usize> {
        self.validate()?;
        match *self {
            Self::None => Ok(inputs),
            Self::Fourier { count, .. } => Ok(count),
            Self::Polynomial { degree } => {
                // inputs + degree over degree, which counts the constant too; each partial product is itself a binomial
                let mut with_constant = 1u128;
                for t in 1..=u128::from(degree) {
                    with_constant = with_constant.saturating_mul(inputs as u128 + t) / t;
                }
                let columns = with_constant - 1;
                usize::try_from(columns).ok().filter(|&c| c <= Self::MOST_COLUMNS).ok_or_else(|| {
                    let many = if columns < 1_000_000_000 { columns.to_string() } else { "over 1000000000".into() };
                    Error::Unfit(format!(
                        "the input map {self} makes {many} columns of {inputs} inputs and at most {} are allowed: lower the degree, select \
                         columns first, or use fourier:COUNT",
                        Self::MOST_COLUMNS
                    ))
                })
            }
        }
    }
}

impl fmt::Display for InputMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Polynomial { degree } => write!(f, "polynomial:{degree}"),
            Self::Fourier { count, width: None } => write!(f, "fourier:{count}"),
            Self::Fourier { count, width: Some(width) } => write!(f, "fourier:{count}:{width}"),
        }
    }
}

impl FromStr for InputMap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let map = match parts[..] {
            ["none"] => Some(Self::None),
            ["polynomial", degree] => degree.parse().ok().map(|degree| Self::Polynomial { degree }),
            ["fourier", count] => count.parse().ok().map(|count| Self::Fourier { count, width: None }),
            ["fourier", count, width] => {
                count.parse().ok().zip(width.parse().ok()).map(|(count, width)| Self::Fourier { count, width: Some(width) })
            }
            _ => None,
        };
        map.filter(|m| m.validate().is_ok()).ok_or_else(|| Error::setting("input_map", text, Self::ALLOWED))
    }
}

impl TryFrom<String> for InputMap {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<InputMap> for String {
    fn from(map: InputMap) -> Self {
        map.to_string()
    }
}

/// One map, or several to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InputMaps {
    /// The inputs as they are, products of two, and Fourier features of some numbers and widths: what predicts best is to be found out.
    Auto,
    /// This one.
    One(InputMap),
}

impl InputMaps {
    /// What is allowed, in words that end a sentence.
    pub const ALLOWED: &'static str = "auto, none, polynomial:DEGREE with a degree from 2 to 8, fourier:COUNT or fourier:COUNT:WIDTH with a \
                                       count from 1 to 5000 and a finite width above 0";
    /// Numbers of Fourier features to choose from.
    const COUNTS: [usize; 2] = [100, 300];
    /// Their widths, as multiples of the width that they have unless told otherwise.
    const WIDTHS: [f64; 3] = [0.5, 1.0, 2.0];
    /// Most products of inputs that are tried.
    const MOST_PRODUCTS: usize = 300;

    /// The maps that are to be measured, of so many inputs; the inputs themselves are no map.
    pub(crate) fn maps(self, inputs: usize) -> Vec<InputMap> {
        match self {
            Self::One(InputMap::None) => Vec::new(),
            Self::One(map) => vec![map],
            Self::Auto => {
                let products = InputMap::Polynomial { degree: 2 };
                let few = products.columns(inputs).is_ok_and(|c| c <= Self::MOST_PRODUCTS);
                let unit = (inputs.max(1) as f64).sqrt();
                // three digits are enough, and are easier to read in a table
                let digits = 10f64.powi(2 - unit.log10().floor() as i32);
                let fourier =
                    |count: usize| Self::WIDTHS.map(|w| InputMap::Fourier { count, width: Some(w * (unit * digits).round() / digits) });
                few.then_some(products).into_iter().chain(Self::COUNTS.into_iter().flat_map(fourier)).collect()
            }
        }
    }
}

impl Default for InputMaps {
    fn default() -> Self {
        Self::One(InputMap::None)
    }
}

impl fmt::Display for InputMaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::One(map) => write!(f, "{map}"),
        }
    }
}

impl FromStr for InputMaps {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::One).map_err(|_| Error::setting("input_map", text, Self::ALLOWED))
    }
}

impl TryFrom<String> for InputMaps {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<InputMaps> for String {
    fn from(maps: InputMaps) -> Self {
        maps.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_to_choose_from() {
        assert_eq!("auto".parse::<InputMaps>().unwrap(), InputMaps::Auto);
        assert_eq!(postcard::from_bytes::<InputMaps>(&postcard::to_stdvec(&InputMaps::Auto).unwrap()).unwrap(), InputMaps::Auto);
        // written as the map alone was before there was a choice
        let one = InputMap::Fourier { count: 7, width: None };
        assert_eq!(postcard::to_stdvec(&InputMaps::One(one)).unwrap(), postcard::to_stdvec(&one).unwrap());
        assert_eq!(InputMaps::default().maps(3), []);
        assert_eq!(InputMaps::One(one).maps(3), [one]);
        let texts = |inputs| InputMaps::Auto.maps(inputs).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(4),
            ["polynomial:2", "fourier:100:1", "fourier:100:2", "fourier:100:4", "fourier:300:1", "fourier:300:2", "fourier:300:4"]
        );
        // 24 inputs have 324 products
        assert_eq!(texts(24).len(), 6);
        let maps = InputMaps::Auto.maps(4);
        assert_eq!(
            (1..7).map(|finer| (0..7).filter(|map| maps[finer].refines(&maps[*map])).collect::<Vec<_>>()).collect::<Vec<_>>(),
            [vec![], vec![], vec![], vec![1], vec![2], vec![3]]
        );
        let e = "square".parse::<InputMaps>().unwrap_err().to_string();
        assert!(e.starts_with("setting `input_map` is square, but it must be auto, none, polynomial:DEGREE"), "{e}");
    }

    #[test]
    fn text_and_back() {
        for (text, map) in [
            ("none", InputMap::None),
            ("polynomial:2", InputMap::Polynomial { degree: 2 }),
            ("polynomial:8", InputMap::Polynomial { degree: 8 }),
            ("fourier:300", InputMap::Fourier { count: 300, width: None }),
            ("fourier:300:0.1", InputMap::Fourier { count: 300, width: Some(0.1) }),
        ] {
            assert_eq!(text.parse::<InputMap>().unwrap(), map);
            assert_eq!(map.to_string(), text);
            let json = serde_json::to_string(&map).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<InputMap>(&json).unwrap(), map);
            assert_eq!(postcard::from_bytes::<InputMap>(&postcard::to_stdvec(&map).unwrap()).unwrap(), map);
        }
        for width in [1.0 / 3.0, 1e-300, 1.7e308, 5e-324] {
            let map = InputMap::Fourier { count: 7, width: Some(width) };
            assert_eq!(map.to_string().parse::<InputMap>().unwrap(), map);
        }
        assert_eq!(InputMap::default(), InputMap::None);
    }

    #[test]
    fn what_is_not_a_map_is_refused_with_what_is() {
        for text in [
            "",
            "None",
            "none:1",
            "polynomial",
            "polynomial:",
            "polynomial:1",
            "polynomial:9",
            "polynomial:-2",
            "polynomial:2.5",
            "polynomial:3:1",
            "fourier",
            "fourier:0",
            "fourier:5001",
            "fourier:10:0",
            "fourier:10:-1",
            "fourier:10:nan",
            "fourier:10:inf",
            "fourier:10:1:2",
            "rbf:10",
        ] {
            let e = text.parse::<InputMap>().unwrap_err().to_string();
            assert!(e.starts_with(&format!("setting `input_map` is {text}, but it must be none, polynomial:DEGREE")), "{e}");
            assert!(serde_json::from_value::<InputMap>(text.into()).is_err());
        }
        assert!(InputMap::Polynomial { degree: 0 }.validate().is_err());
        assert!(InputMap::Fourier { count: 3, width: Some(f64::NAN) }.columns(2).is_err());
    }

    #[test]
    fn numbers_of_columns() {
        for (text, inputs, columns) in [
            ("none", 7, 7),
            ("fourier:40:2", 100_000, 40),
            ("polynomial:4", 2, 14),
            ("polynomial:3", 3, 19),
            ("polynomial:8", 1, 8),
            ("polynomial:2", 0, 0),
            ("polynomial:2", 98, 4949),
        ] {
            assert_eq!(text.parse::<InputMap>().unwrap().columns(inputs).unwrap(), columns, "{text} of {inputs}");
        }
        let degree = |degree, inputs| InputMap::Polynomial { degree }.columns(inputs).unwrap_err().to_string();
        assert!(degree(2, 99).starts_with("the input map polynomial:2 makes 5049 columns of 99 inputs and at most 5000 are allowed"));
        assert!(degree(8, usize::MAX).contains("over 1000000000 columns"));
    }
}
