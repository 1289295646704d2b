//! How a data file is to be read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use variegate::data::TargetKind;

use super::encode::{Categories, Encode};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Comma-separated text (.csv), gzip allowed.
    Csv,
    /// Tab-separated text (.tsv), gzip allowed.
    Tsv,
    /// Parquet (.parquet, .pq).
    Parquet,
    /// svmlight or libsvm text (.svm, .svmlight, .libsvm), gzip allowed.
    Svmlight,
    /// MatrixMarket text (.mtx), gzip allowed.
    MatrixMarket,
    /// One NumPy array (.npy).
    Npy,
    /// NumPy arrays or a SciPy sparse matrix (.npz).
    Npz,
    /// One value a line without a header (.txt), gzip allowed.
    Text,
}

impl Format {
    const ALL: [(Self, &'static str, &'static [&'static str]); 8] = [
        (Self::Csv, "csv", &["csv"]),
        (Self::Tsv, "tsv", &["tsv", "tab"]),
        (Self::Parquet, "parquet", &["parquet", "pq"]),
        (Self::Svmlight, "svmlight", &["svm", "svmlight", "libsvm"]),
        (Self::MatrixMarket, "matrix-market", &["mtx", "mm"]),
        (Self::Npy, "npy", &["npy"]),
        (Self::Npz, "npz", &["npz"]),
        (Self::Text, "text", &["txt"]),
    ];

    /// The format that a file's name tells.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        let (_, extension) = stem.rsplit_once('.')?;
        Self::ALL.iter().find(|(_, _, list)| list.contains(&extension)).map(|f| f.0)
    }

    /// The word for the format on the command line and in settings.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|f| f.0 == self).map_or("csv", |f| f.1)
    }

    /// Whether it is a table whose columns have names.
    pub fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::Parquet)
    }

    /// All words.
    pub fn words() -> String {
        Self::ALL.map(|f| f.1).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|f| f.1 == text || f.2.contains(&text));
        found.map(|f| f.0).ok_or_else(|| format!("`{text}` is not a format; the formats are {}", Self::words()))
    }
}

/// Where something that each row has one of is found: columns of the same file, or another file with the same rows in the same order.
///
/// Names may end in `*`, which stands for any ending; `*` alone is every column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnSpec {
    /// Columns of the file itself; in an `.npz`, arrays by name; in files without names, numbers from 0.
    Columns(Vec<String>),
    /// Another file.
    File {
        /// The file.
        path: PathBuf,
        /// Its columns; empty for all.
        columns: Vec<String>,
    },
}

impl ColumnSpec {
    /// One column of the file itself.
    pub fn column(name: impl Into<String>) -> Self {
        Self::Columns(vec![name.into()])
    }
}

/// `NAME`, `NAME,NAME`, `FILE` or `FILE:NAME`; a text is a file if it has the ending of a known format.
impl FromStr for ColumnSpec {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = |list: &str| list.split(',').map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect();
        if Format::of(Path::new(text)).is_some() {
            return Ok(Self::File { path: text.into(), columns: Vec::new() });
        }
        if let Some((path, list)) = text.rsplit_once(':')
            && Format::of(Path::new(path)).is_some()
        {
            return Ok(Self::File { path: path.into(), columns: names(list) });
        }
        Ok(Self::Columns(names(text)))
    }
}

/// The number of the first feature in an svmlight file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexBase {
    /// Zero if a feature 0 occurs in the file, else one.
    #[default]
    Auto,
    /// Features count from 0.
    Zero,
    /// Features count from 1.
    One,
}

impl FromStr for IndexBase {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "zero" | "0" => Ok(Self::Zero),
            "one" | "1" => Ok(Self::One),
            _ => Err(format!("`{text}` is not an index base; say auto, zero or one")),
        }
    }
}

/// How a data file is to be read. The default takes every column as a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ReadOptions {
    /// The format; told by the file's name if not given.
    pub format: Option<Format>,
    /// What is to be predicted. An svmlight file brings its own (called `label`), and so does an `.npz` with an array `y` or `target`.
    pub target: Option<ColumnSpec>,
    /// What the target is. Labels in tables are columns of 1 (present), 0 (absent) and missing or -1 (unknown).
    #[serde(with = "kind_word")]
    pub target_kind: TargetKind,
    /// The source (group) of each row.
    pub sources: Option<ColumnSpec>,
    /// The weight of each row.
    pub weights: Option<ColumnSpec>,
    /// Use only these features, in this order.
    pub columns: Option<Vec<String>>,
    /// Leave these columns out.
    pub ignore: Vec<String>,
    /// Whether features of a table or an array may be missing; those are NaN then. What a sparse file leaves out is zero all the same.
    pub missing: bool,
    /// Separates the fields of a text table; a comma or a tab by the format if not given.
    pub delimiter: Option<u8>,
    /// Whether the first line of a text table holds names.
    pub header: bool,
    /// The class or label names of an earlier fit: codes follow this list, other labels are errors.
    pub known_classes: Option<Vec<String>>,
    /// First feature number of an svmlight file.
    pub index_base: IndexBase,
    /// Number of features of an svmlight file; the largest that occurs if not given.
    pub width: Option<usize>,
    /// The array of an `.npz` that holds the features; `X`, `x` or `data` if not given.
    pub array: Option<String>,
    /// Names of the columns of a file that has none, as [`read_names`](super::read_names) reads them.
    pub names: Option<Vec<String>>,
    /// How text columns of a table become features; if not given they are errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encode: Option<Encode>,
    /// The categories of text columns that were found at the fit; looked for in the file if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<Categories>,
    /// Whether an unnamed first column that counts the rows from 0, as pandas writes its index, is left out. Runs of before kept it.
    #[serde(default)]
    pub skip_index: bool,
    /// Whether features of an svmlight file are called by their numbers in the file. Runs of before counted them from 0.
    #[serde(default)]
    pub own_numbers: bool,
    /// Whether targets may be missing or of a class that is not known: they come after the known classes, a missing one as an empty name;
    /// missing numbers are NaN. For rows to predict.
    #[serde(skip)]
    pub open_target: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            target: None,
            target_kind: TargetKind::Classes,
            sources: None,
            weights: None,
            columns: None,
            ignore: Vec::new(),
            missing: false,
            delimiter: None,
            header: true,
            known_classes: None,
            index_base: IndexBase::Auto,
            width: None,
            array: None,
            names: None,
            encode: None,
            categories: Vec::new(),
            skip_index: true,
            own_numbers: true,
            open_target: false,
        }
    }
}

/// The features of a fit, to be found again in another file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schema {
    /// Names, in order; empty if they had none.
    pub columns: Vec<String>,
    /// Number of features.
    pub width: usize,
}

/// `classes`, `labels` or `real` in settings.
mod kind_word {
    use serde::{Deserialize, Deserializer, Serializer};
    use variegate::data::TargetKind;

    const WORDS: [(TargetKind, &str); 3] = [(TargetKind::Classes, "classes"), (TargetKind::Labels, "labels"), (TargetKind::Real, "real")];

    pub fn serialize<S: Serializer>(kind: &TargetKind, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(WORDS.iter().find(|w| w.0 == *kind).map_or("classes", |w| w.1))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<TargetKind, D::Error> {
        let word = String::deserialize(d)?;
        let found = WORDS.iter().find(|w| w.1 == word).map(|w| w.0);
        found.ok_or_else(|| serde::de::Error::custom(format!("`{word}` is not a kind of target; say classes, labels or real")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_name() {
        for (name, format) in [
            ("a.csv", Some(Format::Csv)),
            ("dir.x/a.CSV.gz", Some(Format::Csv)),
            ("a.tsv.gz", Some(Format::Tsv)),
            ("a.svm", Some(Format::Svmlight)),
            ("X.mtx.gz", Some(Format::MatrixMarket)),
            ("a.npz", Some(Format::Npz)),
            ("a", None),
            ("a.gz", None),
            ("", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
        for (format, word, _) in Format::ALL {
            assert_eq!(word.parse::<Format>(), Ok(format));
        }
        assert!("word".parse::<Format>().is_err());
    }

    #[test]
    fn columns_and_companion_files_are_told_apart() {
        let file = |p: &str, c: &[&str]| ColumnSpec::File { path: p.into(), columns: c.iter().map(|s| s.to_string()).collect() };
        for (text, spec) in [
            ("y", ColumnSpec::column("y")),
            ("a, b*", ColumnSpec::Columns(vec!["a".into(), "b*".into()])),
            ("docs.csv.gz:section", file("docs.csv.gz", &["section"])),
            ("d/Y.csv.gz", file("d/Y.csv.gz", &[])),
            ("c:d:e", ColumnSpec::column("c:d:e")),
            ("C:/d/y.npy", file("C:/d/y.npy", &[])),
        ] {
            assert_eq!(text.parse::<ColumnSpec>(), Ok(spec));
        }
    }

    #[test]
    fn options_survive_a_settings_file() {
        let options = ReadOptions {
            target: Some("docs.csv.gz:section".parse().unwrap()),
            target_kind: TargetKind::Real,
            delimiter: Some(b';'),
            index_base: IndexBase::One,
            ..ReadOptions::default()
        };
        let text = toml::to_string(&options).unwrap();
        assert_eq!(toml::from_str::<ReadOptions>(&text).unwrap(), options, "{text}");
        assert!(toml::from_str::<ReadOptions>("unknown = 1").is_err());
    }
}
