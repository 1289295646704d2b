//! `.npz` files: NumPy arrays by name, or a sparse matrix as SciPy stores it (csr, csc and coo).
//!
//! The features are the array `X`, `x` or `data`, or the one asked for; an array `y` or `target` is the target unless another is
//! asked for or it is ignored.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use variegate::data::{DataError, Dataset, Matrix, Target, TargetKind};
use zip::ZipArchive;

use super::cells::{divide, shorten};
use super::error::Cause;
use super::npy::Array;
use super::open::DEFLATE_RATIO;
use super::options::{ColumnSpec, ReadOptions};
use super::roles::{Features, Names, ReadRequest};
use super::store::{self, Coordinates};

struct Archive {
    zip: ZipArchive<BufReader<File>>,
    names: Vec<String>,
}

pub(super) fn read(path: &Path, request: &ReadRequest<'_>) -> Result<Dataset<'static>, Cause> {
    let mut archive = Archive::open(path)?;
    let options = request.options;
    let (target, target_columns) = archive.named(&options.target, implied_target(&archive, request));
    let (sources, source_columns) = archive.named(&options.sources, None);
    let (weights, weight_columns) = archive.named(&options.weights, None);
    let plain_options = ReadOptions::default();
    let plain = ReadRequest { options: &plain_options, features: Features::None };
    let mut data = if let Features::None = request.features {
        if let Some(name) = target_columns.first() {
            return Err(archive.unknown(name));
        }
        Dataset::new(Matrix::try_dense(0, 0, Vec::new())?)
    } else {
        let x = archive.features(options)?;
        if x.rows() == 0 {
            return Err(DataError::NoRows.into());
        }
        // names of arrays are no columns
        let ignore = options.ignore.iter().filter(|n| !archive.names.contains(n)).cloned().collect();
        let inner_options = ReadOptions { ignore, ..options.clone() };
        let inner = ReadRequest { options: &inner_options, ..*request };
        let plan = inner.plan_with(Names::Numbered(x.cols()), &target_columns, &source_columns, &weight_columns)?;
        divide(x, &inner, plan)?
    };
    if let Some(name) = target {
        data.target = archive.target(&name, request, options.target_kind)?;
    }
    if let Some(name) = sources
        && let Target::Classes(sources) = archive.target(&name, &plain, TargetKind::Classes)?
    {
        data.sources = Some(sources);
    }
    if let Some(name) = weights
        && let Target::Real { width, values } = archive.target(&name, &plain, TargetKind::Real)?
    {
        if width != 1 {
            return Err(Cause::OneColumn { what: "weights", found: width });
        }
        data.weights = Some(values);
    }
    Ok(data)
}

/// The array that is the target although nobody asked for it.
fn implied_target(archive: &Archive, request: &ReadRequest<'_>) -> Option<String> {
    if !matches!(request.features, Features::Chosen) {
        return None;
    }
    let free = |n: &&str| archive.names.iter().any(|a| a == n) && !request.options.ignore.iter().any(|i| i == n);
    ["y", "target"].iter().find(|n| free(n)).map(|n| n.to_string())
}

impl Archive {
    fn open(path: &Path) -> Result<Self, Cause> {
        let file = File::open(path).map_err(Cause::Open)?;
        let zip = ZipArchive::new(BufReader::with_capacity(1 << 16, file)).map_err(fault)?;
        let names = zip.file_names().filter_map(|n| n.ok()?.strip_suffix(".npy").map(str::to_owned)).collect();
        Ok(Self { zip, names })
    }

    fn unknown(&self, name: &str) -> Cause {
        DataError::UnknownColumn { name: name.into(), known: self.names.clone() }.into()
    }

    /// What a specification names: an array of the archive, or columns of the features.
    fn named(&self, spec: &Option<ColumnSpec>, implied: Option<String>) -> (Option<String>, Vec<String>) {
        match spec {
            None => (implied, Vec::new()),
            Some(ColumnSpec::File { .. }) => (None, Vec::new()),
            Some(ColumnSpec::Columns(list)) => match &list[..] {
                [one] if self.names.contains(one) => (Some(one.clone()), Vec::new()),
                [all] if all == "*" && self.names.len() == 1 => (Some(self.names[0].clone()), Vec::new()),
                _ => (None, list.clone()),
            },
        }
    }

    fn array(&mut self, name: &str) -> Result<Array<impl Read + '_>, Cause> {
        if !self.names.iter().any(|n| n == name) {
            return Err(self.unknown(name));
        }
        let entry = self.zip.by_name(&format!("{name}.npy")).map_err(fault)?;
        let (packed, bytes) = (entry.compressed_size(), entry.size());
        if bytes > packed.saturating_mul(DEFLATE_RATIO).saturating_add(1024) {
            return Err(Cause::damaged(format!("the array `{name}` claims more bytes than its {packed} packed ones can hold")));
        }
        Array::open(entry, bytes)
    }

    /// The features: a sparse matrix if the archive is one, else the array asked for or the first of the usual names.
    fn features(&mut self, options: &ReadOptions) -> Result<Matrix<'static>, Cause> {
        let has = |name: &str| self.names.iter().any(|n| n == name);
        if let Some(name) = &options.array {
            return self.array(&name.clone())?.into_matrix(options.missing);
        }
        if has("format") && has("shape") && has("data") {
            return self.sparse();
        }
        match ["X", "x", "data"].into_iter().find(|n| has(n)) {
            Some(name) => self.array(name)?.into_matrix(options.missing),
            None if self.names.len() == 1 => self.array(&self.names[0].clone())?.into_matrix(options.missing),
            None => Err(Cause::Unsupported {
                what: format!("none of the arrays is called X, x or data; there are {}", shorten(&self.names.join(", "))),
                hint: "name the array that holds the features (--array NAME)",
            }),
        }
    }

    fn sparse(&mut self) -> Result<Matrix<'static>, Cause> {
        let format = self.array("format")?.into_text()?;
        if !["csr", "csc", "coo"].contains(&format.as_str()) {
            let what = format!("the sparse matrix is stored as `{}`", shorten(&format));
            return Err(Cause::Unsupported { what, hint: "save it as CSR (`scipy.sparse.save_npz(path, x.tocsr())`)" });
        }
        let [rows, cols] = self.array("shape")?.into_indices("shape")?[..] else {
            return Err(Cause::damaged("the shape of the sparse matrix is not two numbers"));
        };
        let values = match self.array("data")?.into_matrix(false)? {
            Matrix::Dense { cols: 1, values, .. } => values.into_owned(),
            _ => return Err(Cause::damaged("the values of the sparse matrix are not a list")),
        };
        store::plausible_rows(rows, values.len())?;
        store::plausible_columns(cols, values.len())?;
        let check = |list: &[u32], most: usize, what: &str| match list.iter().all(|&v| (v as usize) < most) && list.len() == values.len() {
            true => Ok(()),
            false => Err(Cause::damaged(format!("the {what} numbers of the sparse matrix do not fit its shape or its values"))),
        };
        match format.as_str() {
            "csr" => {
                let columns = self.array("indices")?.into_numbers("indices")?;
                check(&columns, cols, "column")?;
                let indptr = self.array("indptr")?.into_indices("indptr")?;
                store::csr(rows, cols, indptr, columns, values)
            }
            "csc" => {
                let row_of = self.array("indices")?.into_numbers("indices")?;
                check(&row_of, rows, "row")?;
                let ends = self.array("indptr")?.into_indices("indptr")?;
                let ascending = ends.first() == Some(&0) && ends.last() == Some(&values.len()) && ends.is_sorted();
                if ends.len() != cols + 1 || !ascending {
                    return Err(Cause::damaged("the offsets of the sparse matrix do not fit its shape or its values"));
                }
                let columns = ends.windows(2).enumerate().flat_map(|(j, w)| std::iter::repeat_n(j as u32, w[1] - w[0]));
                let columns = columns.collect();
                Coordinates { rows: row_of, columns, values }.into_matrix(rows, cols)
            }
            _ => {
                let row_of = self.array("row")?.into_numbers("row")?;
                check(&row_of, rows, "row")?;
                let columns = self.array("col")?.into_numbers("col")?;
                check(&columns, cols, "column")?;
                Coordinates { rows: row_of, columns, values }.into_matrix(rows, cols)
            }
        }
    }

    /// An array as a target of some kind.
    fn target(&mut self, name: &str, request: &ReadRequest<'_>, kind: TargetKind) -> Result<Target, Cause> {
        let known_classes = request.options.known_classes.clone();
        let options = ReadOptions { target_kind: kind, known_classes, ..ReadOptions::default() };
        let array = self.array(name)?;
        Ok(array.into_targets(&ReadRequest { options: &options, features: Features::None }, &["*".to_owned()])?.target)
    }
}

fn fault(e: zip::result::ZipError) -> Cause {
    match e {
        zip::result::ZipError::Io(e) => Cause::Io(e),
        other => Cause::damaged(other.to_string()),
    }
}
