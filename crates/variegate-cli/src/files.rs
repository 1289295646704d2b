//! Data files on the command line: how they are to be read, and what was found in them.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use std::path::{Path, PathBuf};
use variegate::answer::Posterior;
use variegate::data::{DataError, Dataset, Target, TargetKind};
use variegate_io::read::{
    Cause, ColumnSpec, Encode, Format, IndexBase, ReadError, ReadOptions, Schema, read_features, read_names, read_resolved,
};
use variegate_io::run_dir::RunDir;

use crate::data_file::DataFile;
use crate::tables;

const DATA: &str = "Data";

/// The data file and the options on how to read it.
pub fn arguments() -> Vec<Arg> {
    let column = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading(DATA)
    };
    let mut all = vec![
        file("CSV, TSV, Parquet, svmlight, MatrixMarket, .npy or .npz file, text also gzipped"),
        column(
            "target",
            "COLUMN",
            "Column to predict (several real ones, or labels of 1 and 0: A,B or A*); FILE:COLUMN takes it from another file with the same rows",
        ),
        column("weights", "COLUMN", "Column with the weight of each row"),
        column("sources", "COLUMN", "Column with the source (group) of each row; FILE:COLUMN takes it from another file")
            .visible_alias("source"),
        column("columns", "COLUMN,…", "Use only these columns as features, in this order").value_delimiter(',').action(ArgAction::Append),
        column("ignore", "COLUMN,…", "Leave these columns out (may be repeated; `id*` is every name that begins so)")
            .value_delimiter(',')
            .action(ArgAction::Append),
        column(
            "names",
            "FILE",
            "Text file with the names of the columns, one a line, for a file without names (.npy, .npz, .mtx, svmlight)",
        )
        .visible_alias("vocabulary")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath),
        column("encode", "WORD", "Code text columns among the features: `one-hot` is a column of ones and zeros for each category")
            .value_parser(value_parser!(Encode)),
    ];
    all.extend(format_arguments());
    all
}

/// Where the labels are that chains begin with. They are read as a target is, which a model of rows alone has not.
pub const START_LABELS: &str = "start-labels";

/// The option that names them.
pub fn start_labels() -> Arg {
    Arg::new(START_LABELS)
        .long(START_LABELS)
        .value_name("COLUMN")
        .help(
            "Column with the label of each row that chains begin with, empty where it is not known; a path down the tree is written a/b; \
             FILE:COLUMN takes it from another file with the same rows",
        )
        .help_heading(DATA)
}

/// The data file alone; `-` is standard input.
pub fn file(help: &'static str) -> Arg {
    Arg::new("data").value_name("DATA").required(true).value_parser(value_parser!(PathBuf)).help(format!("{help}; - for standard input"))
}

/// Options on the format.
pub fn format_arguments() -> [Arg; 5] {
    let option = |name: &'static str| Arg::new(name).long(name).help_heading(DATA);
    [
        option("format")
            .value_name("WORD")
            .value_parser(value_parser!(Format))
            .help(format!("Format of the file, where its name does not tell it: {}", Format::words())),
        option("delimiter").value_name("CHAR").value_parser(delimiter).help("Separates the fields of a text table (`tab` for a tab)"),
        option("no-header").action(ArgAction::SetTrue).help("The first line of a text table holds data; columns are x0, x1, …"),
        option("index-base")
            .value_name("WORD")
            .value_parser(value_parser!(IndexBase))
            .help("Number of the first feature in an svmlight file: auto, zero or one"),
        option("array").value_name("NAME").help("Array of an .npz file that holds the features"),
    ]
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [one] if one.is_ascii() && !one.is_ascii_alphanumeric() && !b"\"\n\r.+-".contains(one) => Ok(*one),
        b"tab" | b"\\t" => Ok(b'\t'),
        _ => Err("it must be one character such as ; or | or the word tab".into()),
    }
}

/// How the file is to be read.
pub fn read_options(matches: &ArgMatches) -> Result<ReadOptions> {
    let mut options = ReadOptions {
        target: column(matches, "target")?.or(column(matches, START_LABELS)?),
        weights: column(matches, "weights")?,
        sources: column(matches, "sources")?,
        columns: matches.get_many::<String>("columns").map(|c| c.cloned().collect()),
        ignore: matches.get_many::<String>("ignore").map(|c| c.cloned().collect()).unwrap_or_default(),
        names: matches.get_one::<PathBuf>("names").map(|path| read_names(path)).transpose()?,
        encode: matches.get_one::<Encode>("encode").copied(),
        ..ReadOptions::default()
    };
    override_format(matches, &mut options);
    Ok(options)
}

/// Where target, weights or sources are; another file is remembered by its full path, so that a run can be resumed from anywhere.
/// A setting of a model that has the name is none of them: its value is no text.
pub fn column(matches: &ArgMatches, name: &str) -> Result<Option<ColumnSpec>> {
    let Ok(Some(text)) = matches.try_get_one::<String>(name) else { return Ok(None) };
    let spec = match text.parse::<ColumnSpec>() {
        Ok(ColumnSpec::File { path, columns }) => ColumnSpec::File { path: absolute(&path)?, columns },
        Ok(columns) => columns,
        Err(never) => match never {},
    };
    Ok(Some(spec))
}

/// The full path of a file that need not exist.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("the path `{}` makes no sense: give the path of a file", path.display()))
}

fn override_format(matches: &ArgMatches, options: &mut ReadOptions) {
    if let Some(format) = matches.get_one::<Format>("format") {
        options.format = Some(*format);
    }
    if let Some(delimiter) = matches.get_one::<u8>("delimiter") {
        options.delimiter = Some(*delimiter);
    }
    if matches.get_flag("no-header") {
        options.header = false;
    }
    if let Some(base) = matches.get_one::<IndexBase>("index-base") {
        options.index_base = *base;
    }
    if let Some(array) = matches.get_one::<String>("array") {
        options.array = Some(array.clone());
    }
}

/// Reads the data of a fit; the options come back with what was found out.
pub fn read_training(file: &DataFile, options: &ReadOptions) -> Result<(Dataset<'static>, ReadOptions)> {
    // a pipe has no name to tell its format
    let format = options.format.or(if file.is_gone() { Format::of(file.given()).or(Some(Format::Csv)) } else { None });
    Ok(file.named(read_resolved(file.path(), &ReadOptions { format, ..options.clone() }))?)
}

/// `--sources` of rows that are not those of the fit.
pub fn sources() -> Arg {
    Arg::new("sources")
        .long("sources")
        .visible_alias("source")
        .value_name("COLUMN")
        .help(
            "Column with the source of each row; FILE:COLUMN takes it from another file [default: that of the fit, where the file has it]",
        )
        .help_heading(DATA)
}

/// How a run read its data. Data from memory leave no options behind.
pub fn recorded(run: &RunDir) -> ReadOptions {
    let record = run.record();
    let mut options: ReadOptions = serde_json::from_value(record.data.reader.clone()).unwrap_or_default();
    options.missing |= record.model.get("missing") == Some(&true.into());
    options
}

/// Rows that are read for a model of rows alone.
pub struct Rows<'m> {
    /// Names of the options that give the sources and the labels of the rows.
    pub options: [&'static str; 2],
    /// Where the format of the file is told; nothing for the file of the fit, which is read as it was then.
    pub format: Option<&'m ArgMatches>,
}

/// Reads rows in the way the fit read its own: with the sources that are asked for, or those of the fit where the file has them, and with
/// labels as the target where they are asked for.
pub fn read_rows(
    file: &DataFile,
    posterior: &dyn Posterior,
    fitted: ReadOptions,
    rows: &Rows<'_>,
    matches: &ArgMatches,
) -> Result<Dataset<'static>> {
    let [sources, label] = rows.options.map(|name| column(matches, name));
    let (asked, label) = (sources?, label?);
    let mut options = ReadOptions { target: label, target_kind: TargetKind::Classes, weights: None, ..fitted };
    if let Some(format) = rows.format {
        options = of_new_file(file, options, format);
    }
    options.known_classes = None;
    // of the rows of a tree some may have no class that is known
    options.open_target = posterior.answers().clusters.is_some();
    options.missing |= posterior.answers().imputation.is_some_and(|i| i.takes_missing());
    options.width = options.width.or(Some(posterior.width()));
    options.sources = match (&asked, options.sources) {
        (Some(_), _) => asked.clone(),
        // a file of sources belongs to the rows of the fit
        (None, Some(ColumnSpec::File { .. })) if rows.format.is_some() => None,
        (None, recorded) => recorded,
    };
    let schema = Schema { columns: posterior.columns().to_vec(), width: posterior.width() };
    match file.named(read_features(file.path(), &schema, &options)) {
        // new rows may have no source; only one that was asked for must be there
        Err(ReadError { cause: Cause::Data(DataError::UnknownColumn { name, .. }), .. })
            if asked.is_none() && names(&options.sources, &name) =>
        {
            options.sources = None;
            Ok(file.named(read_features(file.path(), &schema, &options))?)
        }
        other => Ok(other?),
    }
}

/// Options for another file than that of the fit: its name tells its own format, and a delimiter belongs to the old one.
fn of_new_file(file: &DataFile, mut options: ReadOptions, matches: &ArgMatches) -> ReadOptions {
    let format = matches.get_one::<Format>("format").copied().or_else(|| Format::of(file.given())).or(options.format);
    let format = format.or(if file.is_gone() { Some(Format::Csv) } else { None });
    if format != options.format {
        // columns of a file without names are told by their places there
        options = ReadOptions { format, delimiter: None, array: None, columns: None, ignore: Vec::new(), width: None, ..options };
    }
    override_format(matches, &mut options);
    options
}

/// Reads rows to predict, in the way the fit read its own, with the target where the file has it.
pub fn read_prediction(file: &DataFile, posterior: &dyn Posterior, fitted: ReadOptions, matches: &ArgMatches) -> Result<Dataset<'static>> {
    let asked = column(matches, "target")?;
    // categories are read as sources are: one name a row, and no feature
    let options = ReadOptions { sources: column(matches, "by")?, weights: None, ..fitted };
    let mut options = of_new_file(file, options, matches);
    // runs of other fronts do not say what they were fitted to
    (options.target_kind, options.known_classes) = match (posterior.outputs(), posterior.labels()) {
        (0, []) => (TargetKind::Classes, Some(posterior.classes().to_vec())),
        (0, labels) => (TargetKind::Labels, Some(labels.to_vec())),
        _ => (TargetKind::Real, None),
    };
    // rows to predict may have a truth that is not known yet, or that the fit did not know
    options.open_target = true;
    options.width = options.width.or(Some(posterior.width()));
    options.target = match (&asked, options.target) {
        (Some(_), _) => asked.clone(),
        // a file of targets belongs to the rows of the fit
        (None, Some(ColumnSpec::File { .. })) => None,
        (None, None) if options.format == Some(Format::Svmlight) => Some(ColumnSpec::column("label")),
        // those of the labels that a table has
        (None, Some(_)) if options.target_kind == TargetKind::Labels && options.format.is_some_and(Format::is_table) => {
            Some(ColumnSpec::column("*"))
        }
        (None, recorded) => recorded,
    };
    let schema = Schema { columns: posterior.columns().to_vec(), width: posterior.width() };
    match file.named(read_features(file.path(), &schema, &options)) {
        // most files to predict have no target; only one that was asked for must be there
        Err(ReadError { cause: Cause::Data(DataError::UnknownColumn { name, .. }), .. })
            if asked.is_none() && (names(&options.target, &name) || posterior.labels().contains(&name)) =>
        {
            options.target = None;
            Ok(file.named(read_features(file.path(), &schema, &options))?)
        }
        Err(ReadError { cause: Cause::TwoRoles { name, first, second }, .. }) if names(&options.sources, &name) => {
            let role = if first == "sources" { second } else { first };
            bail!("--by names `{name}`, which is {role} of this model: name a column that the fit left out (--ignore)")
        }
        other => Ok(other?),
    }
}

/// Reads further rows to learn from, in the way the fit read its own; new labels are taken in. Also says how they were read, and whether labels are told
/// as sets, so that one which occurs in none is absent and not unknown.
pub fn read_further(
    file: &DataFile,
    posterior: &dyn Posterior,
    fitted: ReadOptions,
    matches: &ArgMatches,
) -> Result<(Dataset<'static>, ReadOptions, bool)> {
    let asked = column(matches, "target")?;
    let mut options = of_new_file(file, ReadOptions { weights: None, ..fitted }, matches);
    let labels = !posterior.labels().is_empty();
    options.target_kind = if labels { TargetKind::Labels } else { options.target_kind };
    options.known_classes = None;
    options.width = options.width.or(Some(posterior.width()));
    let svmlight = options.format == Some(Format::Svmlight);
    options.target = match (asked, options.target) {
        (Some(asked), _) => Some(asked),
        (None, _) if svmlight => Some(ColumnSpec::column("label")),
        (None, Some(ColumnSpec::File { .. })) => {
            bail!("the labels of the fit were in another file: name that of these rows with --target FILE")
        }
        (None, recorded) => recorded,
    };
    let schema = Schema { columns: posterior.columns().to_vec(), width: posterior.width() };
    let data = file.named(read_features(file.path(), &schema, &options))?;
    Ok((data, options, labels && svmlight))
}

fn names(spec: &Option<ColumnSpec>, name: &str) -> bool {
    matches!(spec, Some(ColumnSpec::Columns(list)) if list.iter().any(|n| n == name))
}

/// What was read, in one line: `2,000 rows, 3 columns, 2 classes (no, yes)`.
pub fn describe(data: &Dataset<'_>) -> String {
    let mut text = format!("{}, {}", tables::count(data.rows(), "row", "rows"), tables::count(data.x.cols(), "column", "columns"));
    if data.x.is_sparse() {
        text += &format!(" ({} stored)", tables::count(data.x.stored(), "value", "values"));
    }
    match &data.target {
        Target::None => {}
        Target::Classes(c) => {
            let known: Vec<String> = c.names.iter().filter(|name| !name.is_empty()).cloned().collect();
            text += &format!(", {}", listed(&known, "class", "classes"));
            let unknown = c.codes.iter().filter(|&&code| c.names[code as usize].is_empty()).count();
            if unknown > 0 {
                text += &format!(" ({unknown} not known)");
            }
        }
        Target::Labels(l) => {
            let count = |value: i8| l.values.iter().filter(|v| **v == value).count();
            let a_row = count(1) as f64 / data.rows().max(1) as f64;
            text += &format!(", {}, {} of them a row", listed(&l.names, "label", "labels"), tables::number(a_row));
            if count(-1) > 0 {
                text += &format!(" ({} unknown)", tables::count(count(-1), "entry", "entries"));
            }
        }
        Target::Real { width, .. } => text += &format!(", {}", tables::count(*width, "real target", "real targets")),
    }
    if let Some(sources) = &data.sources {
        text += &format!(", {}", listed(&sources.names, "source", "sources"));
    }
    text
}

/// What was made of the columns of a file beside what was asked: those that were coded, and one that was left out.
pub fn remarks(asked: &ReadOptions, found: &ReadOptions) -> Vec<String> {
    let mut all = Vec::new();
    if found.encode.is_some() {
        let coded: Vec<String> = found
            .categories
            .iter()
            .map(|c| format!("{} ({})", c.column, tables::count(c.values.len(), "category", "categories")))
            .collect();
        all.push(if coded.is_empty() {
            "no column holds text: nothing was coded".into()
        } else {
            format!("coded one-hot: {}", coded.join(", "))
        });
    }
    if let Some(name) = found.ignore.get(asked.ignore.len()) {
        let what = if name.starts_with("unnamed") { "the first column, which has no name".into() } else { format!("`{name}`") };
        all.push(format!("left out {what}: it counts the rows from 0, as the index does that pandas writes; give it a name to keep it"));
    }
    all
}

/// `2 classes (no, yes)`.
fn listed(names: &[String], one: &str, many: &str) -> String {
    const SHOWN: usize = 6;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    let list = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    format!("{} ({list}{more})", tables::count(names.len(), one, many))
}

/// The data file that was named, ready to be read.
pub fn data_file(matches: &ArgMatches) -> Result<DataFile> {
    DataFile::of(&matches.get_one::<PathBuf>("data").cloned().unwrap_or_default())
}
