//! Rows, targets and their checks: everything a model is given.
//!
//! ```
//! use std::borrow::Cow;
//! use variegate::data::{Classes, Dataset, Matrix, Needs, Target, TargetKind};
//!
//! // dense rows, or sparse ones as three arrays
//! let dense = Matrix::dense(2, 3, vec![0.0, 1.5, 0.0, 2.0, 0.0, 0.0]);
//! let (indptr, indices) = (Cow::from(vec![0, 1, 2]), Cow::from(vec![1, 0]));
//! let sparse = Matrix::Csr { rows: 2, cols: 3, indptr, indices, values: Cow::from(vec![1.5, 2.0]) };
//! assert_eq!(dense.take(&[1]).stored(), 3);
//! assert_eq!(sparse.take(&[1]).stored(), 1);
//!
//! // classes are names; what is wrong with data is said with its place
//! let mut data = Dataset::new(dense).with_target(Target::Classes(Classes::encode(["b", "a"])));
//! data.columns = vec!["length".into(), "width".into(), "height".into()];
//! let needs = Needs::target(TargetKind::Classes);
//! assert!(data.check(needs).is_ok());
//! data.x = Matrix::dense(2, 3, vec![0.0, 1.5, 0.0, 2.0, f64::NAN, 0.0]);
//! let said = data.check(needs).unwrap_err().to_string();
//! assert!(said.starts_with("row 2, column `width`: the value is NaN"), "{said}");
//! ```

mod block;
mod dataset;
pub mod design;
mod encode;
mod error;
mod fingerprint;
mod header;
mod input_map;
mod matrix;
mod scaling;
pub mod split;
pub mod survey;
mod validate;

pub(crate) use block::blocks_from;
pub use block::{Block, blocks};
pub use dataset::{Classes, Dataset, LabelSets, Target, TargetView};
pub use design::{Design, Panel};
pub use encode::ClassEncoder;
pub use error::DataError;
pub use fingerprint::FINGERPRINT_VERSION;
pub use header::{Header, TargetHeader};
pub use input_map::{InputMap, InputMaps};
pub use matrix::{Matrix, X};
pub use scaling::Scaling;
pub use survey::{Questions, Survey};
pub use validate::{LabelCounts, Needs, TargetKind};
