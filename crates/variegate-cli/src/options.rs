//! Command-line options: those that many commands share, and those that each model's own table of settings gives.
//!
//! Nothing here knows a model: a new family has its options as soon as it is in the library's list.

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;
use variegate::data::TargetKind;
use variegate::model::{Family, Kind, Reader, Setting};
use variegate::run::Pace;

use crate::data_file::STANDARD;

/// Heading of the options that a model's table gives.
const MODEL: &str = "Model settings";
/// Heading of what concerns the run and not the model.
const RUN: &str = "Run";
/// Heading of what is said and where.
const OUTPUT: &str = "Output";

/// The setting that says where chains begin, and its word for labels.
const START: &str = "start";
const LABELS: &str = "labels";

/// How a refusal of a value begins, where it says what is allowed.
pub const MUST_BE: &str = "it must be ";

/// The option of a setting, with its kind, allowed words and default in `--help`.
fn option(setting: &Setting) -> Arg {
    let name = setting.option();
    let arg = Arg::new(setting.name).long(name).help(help(setting)).help_heading(MODEL).value_parser(parser(setting));
    let arg = arg.value_name(match setting.kind {
        Kind::Integer { .. } | Kind::OptionalInteger { .. } => "N",
        Kind::Number { .. } | Kind::OptionalNumber { .. } => "X",
        Kind::Word(_) => "WORD",
        Kind::Switch => "BOOL",
        Kind::Text { .. } => "TEXT",
        Kind::NumberOrText { .. } => "X",
        Kind::Nested { .. } => "FILE",
    });
    let arg = if matches!(setting.kind, Kind::Nested { .. }) { arg.value_hint(ValueHint::FilePath) } else { arg };
    // negative numbers are values, not options
    arg.allow_negative_numbers(true).default_value(shown(&setting.default))
}

/// What a setting does, in the words of the command line: what a program calls nothing is a word here.
pub fn help(setting: &Setting) -> String {
    let help = setting.help.replace("nothing", "`none`");
    match setting.kind {
        Kind::Nested { .. } => format!("{help} (under the key `{}` of a TOML file)", setting.name),
        _ => help,
    }
}

/// What a setting may be, in the words of the command line.
pub fn allowed(setting: &Setting) -> String {
    let allowed = setting.kind.allowed().replace("nothing", "`none`");
    match setting.kind {
        Kind::Nested { .. } => format!("a TOML file whose key `{}` is {allowed}", setting.name),
        _ => allowed,
    }
}

/// Advice of the library in the words of the command line: what it calls by the name of a setting is the option of that name here.
pub fn in_shell(text: &str, family: &str) -> String {
    let Ok(family) = variegate::model::family(family) else { return text.to_string() };
    let name = |s: &Setting, text: &str| text.replace(&format!("`{}`", s.name), &format!("`--{}`", s.option()));
    family.settings().iter().fold(text.replace("`sources`", "`--sources`"), |text, setting| name(setting, &text))
}

/// A value as it is written on the command line.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        other => variegate::model::shown(other),
    }
}

fn parser(setting: &Setting) -> ValueParser {
    let setting = setting.clone();
    match setting.kind {
        // clap lists these words itself
        Kind::Word(words) => PossibleValuesParser::new(words.iter().copied()).map(Value::String).into(),
        Kind::Switch => PossibleValuesParser::new(["true", "false"]).map(|word| Value::Bool(word == "true")).into(),
        _ => ValueParser::from(move |text: &str| value_of(&setting, text)),
    }
}

/// The value that a text is by the kind of its setting; the error says what it must be.
pub fn value_of(setting: &Setting, text: &str) -> Result<Value, String> {
    let kind = setting.kind;
    let value = match kind {
        Kind::OptionalInteger { .. }
        | Kind::OptionalNumber { .. }
        | Kind::Text { optional: true, .. }
        | Kind::NumberOrText { optional: true, .. }
        | Kind::Nested { .. }
            if text == "none" =>
        {
            Some(Value::Null)
        }
        Kind::Integer { .. } | Kind::OptionalInteger { .. } => text.parse::<u64>().ok().map(Value::from),
        Kind::Word(_) | Kind::Text { .. } => Some(Value::from(text)),
        Kind::Switch => text.parse::<bool>().ok().map(Value::from),
        Kind::Nested { .. } => Some(value_in(Path::new(text), setting.name)?),
        Kind::Number { .. } | Kind::OptionalNumber { .. } => text.parse::<f64>().ok().map(Value::from),
        // what is not finite stays a text, which is refused: as a number it would be nothing
        Kind::NumberOrText { .. } => {
            Some(text.parse::<f64>().ok().filter(|v| v.is_finite()).map_or_else(|| Value::from(text), Value::from))
        }
    };
    value.filter(|v| kind.admits(v)).ok_or_else(|| format!("{MUST_BE}{}", allowed(setting)))
}

/// The value of a key of a TOML file.
fn value_in(path: &Path, key: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file: give the path of a TOML file".to_string(),
        _ => format!("the file cannot be read ({e}): give the path of a TOML file"),
    })?;
    let mut table: Map<String, Value> = toml::from_str(&text).map_err(|e| format!("the file is not TOML: {}", e.to_string().trim_end()))?;
    table.remove(key).ok_or_else(|| format!("the file has no key `{key}`: write `{key} = …` at its beginning"))
}

/// The settings of a family that this command reads: what it does not read it does not offer.
pub fn settings_read_by(family: &dyn Family, reader: Reader) -> Vec<Setting> {
    family.settings().into_iter().filter(|s| s.readers.contains(&reader)).collect()
}

/// Options for a table of settings.
pub fn settings(table: &[Setting]) -> Vec<Arg> {
    table.iter().map(option).collect()
}

/// What was given of a table of settings; the rest keeps its defaults.
pub fn given(matches: &ArgMatches, table: &[Setting]) -> Map<String, Value> {
    let typed = table.iter().filter(|s| matches.value_source(s.name) == Some(ValueSource::CommandLine));
    typed.filter_map(|s| Some((s.name.to_string(), matches.get_one::<Value>(s.name)?.clone()))).collect()
}

/// One subcommand a family.
pub fn families(command: Command, each: impl Fn(&'static dyn Family, Command) -> Command) -> Command {
    let subcommands = variegate::model::FAMILIES.iter().map(|&family| {
        // no long help: every option then takes one or two lines, and -h and --help say the same
        each(family, Command::new(family.name()).about(family.title()))
    });
    command
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand_value_name("MODEL")
        .subcommand_help_heading("Models")
        .subcommands(subcommands)
}

/// What a family is fitted to, with the settings it has by default; nothing where it is rows alone.
pub fn target_of(family: &dyn Family) -> Option<TargetKind> {
    family.configure(&Map::new()).ok().and_then(|model| model.target())
}

/// Whether chains of a family may begin with labels of the rows.
pub fn takes_start_labels(family: &dyn Family) -> bool {
    family.settings().iter().any(|s| s.name == START && matches!(s.kind, Kind::Word(words) if words.contains(&LABELS)))
}

/// Takes it that chains begin with labels where a column of them was named; another start beside one is refused.
pub fn begin_with_labels(family: &dyn Family, settings: &mut Map<String, Value>, named: bool) -> anyhow::Result<()> {
    if !named || !takes_start_labels(family) {
        return Ok(());
    }
    match settings.get(START) {
        None => {
            settings.insert(START.into(), LABELS.into());
            Ok(())
        }
        Some(word) if word == LABELS => Ok(()),
        Some(word) => Err(crate::exit::Usage(format!(
            "--start-labels names labels that chains begin with, but --start is {}: leave one of them out",
            shown(word)
        ))
        .into()),
    }
}

/// How columns of simulated data are told to `fit`, for examples in help: with a space before them, or nothing.
pub fn example_columns(family: &dyn Family) -> &'static str {
    match target_of(family) {
        None if family.simulate_settings().iter().any(|s| s.name == "n_sources") => " --sources source",
        None => "",
        Some(TargetKind::Labels) => " --target 'label*'",
        Some(_) => " --target label",
    }
}

/// The family whose subcommand was called.
pub fn family_of(matches: &ArgMatches) -> anyhow::Result<(&'static dyn Family, &ArgMatches)> {
    let (name, inner) = matches.subcommand().ok_or_else(|| crate::exit::Usage("name a model; `variegate models` lists them".into()))?;
    Ok((variegate::model::family(name)?, inner))
}

/// `--seed`.
pub fn seed() -> Arg {
    let help = "Seed of every random number [default: a new one, which is printed and stored]";
    Arg::new("seed").long("seed").allow_negative_numbers(true).value_name("N").value_parser(value_parser!(u64)).help(help).help_heading(RUN)
}

/// The seed that was given, or a new one. Short enough to be typed again.
pub fn seed_of(matches: &ArgMatches) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // the hasher's keys come from the system's entropy
    let fresh = || std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32;
    matches.get_one::<u64>("seed").copied().unwrap_or_else(fresh)
}

/// `--block-rows`.
pub fn block_rows() -> Arg {
    Arg::new("block-rows")
        .long("block-rows")
        .allow_negative_numbers(true)
        .value_name("N")
        .value_parser(value_parser!(u64).range(1..=1 << 40))
        .help("Rows that a thread takes at a time; the last bits of results depend on it [default: by the number of columns]")
        .help_heading(RUN)
}

/// `--threads`, `--checkpoint-seconds`: what decides only how fast a run is and how much a crash may lose.
pub fn pace() -> [Arg; 3] {
    let threads = value_parser!(u64).range(0..=1024);
    let help = "Threads to use, 0 for all cores; results do not depend on it";
    let every = "Seconds between two checkpoints: what a crash may lose at most";
    [
        Arg::new("threads")
            .long("threads")
            .allow_negative_numbers(true)
            .value_name("N")
            .value_parser(threads)
            .default_value("0")
            .help(help)
            .help_heading(RUN),
        Arg::new("checkpoint-seconds")
            .long("checkpoint-seconds")
            .allow_negative_numbers(true)
            .value_name("S")
            .value_parser(seconds)
            .default_value("5")
            .help(every)
            .help_heading(RUN),
        Arg::new("memory-limit")
            .long("memory-limit")
            .allow_negative_numbers(true)
            .value_name("GB")
            .value_parser(gigabytes)
            .help("Gigabytes of memory beyond which the run is saved and stops [default: nine tenths of what there is]")
            .help_heading(RUN),
    ]
}

fn gigabytes(text: &str) -> Result<u64, String> {
    let value = text.parse::<f64>().ok().filter(|gb| *gb > 0.0 && *gb < 1e9);
    value.map(|gb| (gb * 1e9) as u64).ok_or_else(|| "it must be a number above 0".to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value = text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    value.ok_or_else(|| "it must be a number of at least 0".to_string())
}

/// The pace that was asked for.
pub fn pace_of(matches: &ArgMatches) -> Pace {
    let default = Pace::default();
    Pace {
        threads: matches.get_one::<u64>("threads").map_or(default.threads, |&n| n as usize),
        commit_every: matches.get_one::<Duration>("checkpoint-seconds").copied().unwrap_or(default.commit_every),
        memory: matches.get_one::<u64>("memory-limit").copied().or(default.memory),
    }
}

/// `--quiet`.
pub fn quiet() -> Arg {
    let help = "Say nothing but results, warnings and errors";
    Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help(help).help_heading(OUTPUT)
}

/// `--json`.
pub fn json() -> Arg {
    let help = "Write one JSON object to standard output instead of tables";
    Arg::new("json").long("json").action(ArgAction::SetTrue).help(help).help_heading(OUTPUT)
}

/// `--force`, for replacing `what`.
pub fn force(what: &str) -> Arg {
    Arg::new("force").long("force").action(ArgAction::SetTrue).help(format!("Replace {what} that exists already")).help_heading(OUTPUT)
}

/// `--out` for a folder.
pub fn out_folder(help: &'static str) -> Arg {
    Arg::new("out").long("out").value_name("DIR").value_parser(value_parser!(PathBuf)).help(help).help_heading(OUTPUT)
}

/// `-o` for a file.
pub fn out_file(help: &'static str) -> Arg {
    let parser = value_parser!(PathBuf);
    Arg::new("out").long("out").short('o').value_name("FILE").value_parser(parser).help(help).help_heading(OUTPUT)
}

/// `-o` and what goes with it, for commands that write one table.
pub fn results(help: &'static str) -> [Arg; 4] {
    [out_file(help), force("a file"), json(), quiet()]
}

/// The file that `-o` names; nothing for `-`, which is standard output as if nothing were said.
pub fn out_of(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.get_one::<PathBuf>("out").filter(|path| *path != Path::new(STANDARD))
}

/// Whether a switch is on.
pub fn flag(matches: &ArgMatches, name: &str) -> bool {
    matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Option<Value> {
        let default = match kind {
            Kind::Integer { least, .. } => least.into(),
            Kind::Number { most, .. } => most.into(),
            Kind::Word(words) => words[0].into(),
            Kind::Switch => true.into(),
            Kind::Text { optional: false, .. } => "a".into(),
            Kind::NumberOrText { optional: false, .. } => 1.0.into(),
            _ => Value::Null,
        };
        let table = [Setting { name: "n_some_thing", kind, default, help: "h", readers: &[] }];
        let command = Command::new("t").args(settings(&table));
        let matches = command.try_get_matches_from(["t", "--some-thing", text]).ok()?;
        given(&matches, &table).remove("n_some_thing")
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let number = Kind::Number { above: 0.0, most: 1.0 };
        assert_eq!(read(number, "0.5"), Some(0.5.into()));
        assert_eq!(read(number, "1"), Some(1.0.into()));
        for bad in ["0", "-1", "1.5", "nan", "inf", "x", "", "none"] {
            assert_eq!(read(number, bad), None, "{bad}");
        }
        let integer = Kind::Integer { least: 1, most: 10 };
        assert_eq!(read(integer, "10"), Some(10.into()));
        for bad in ["0", "11", "1.0", "-1", "99999999999999999999"] {
            assert_eq!(read(integer, bad), None, "{bad}");
        }
        assert_eq!(read(Kind::OptionalNumber { above: 0.0, most: 1.0 }, "none"), Some(Value::Null));
        assert_eq!(read(Kind::Word(&["a", "b"]), "b"), Some("b".into()));
        assert_eq!(read(Kind::Word(&["a", "b"]), "c"), None);
        assert_eq!(read(Kind::Switch, "false"), Some(false.into()));
        assert_eq!(read(Kind::Switch, "no"), None);
        let text = |optional| Kind::Text { form: "a or none", admits: |t| t == "a" || t == "none", optional };
        assert_eq!(read(text(true), "a"), Some("a".into()));
        assert_eq!(read(text(true), "none"), Some(Value::Null));
        assert_eq!(read(text(false), "none"), Some("none".into()));
        assert_eq!(read(text(true), "b"), None);
        let either = |optional| Kind::NumberOrText { form: "a number or a", admits: |v| v.is_number() || v == "a", optional };
        assert_eq!(read(either(false), "0.5"), Some(0.5.into()));
        assert_eq!(read(either(false), "a"), Some("a".into()));
        assert_eq!(read(either(true), "none"), Some(Value::Null));
        assert_eq!(read(either(false), "none"), None);
        assert_eq!(read(either(true), "nan"), None);
    }

    #[test]
    fn values_with_parts_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let kind = Kind::Nested { form: "a list of numbers", admits: |v| v.as_array().is_some_and(|a| a.iter().all(Value::is_u64)) };
        let file = |text: &str| {
            let path = folder.path().join("f.toml");
            std::fs::write(&path, text).unwrap();
            read(kind, path.to_str().unwrap())
        };
        assert_eq!(file("n_some_thing = [1, 2]"), Some(serde_json::json!([1, 2])));
        assert_eq!(read(kind, "none"), Some(Value::Null));
        for bad in ["n_some_thing = [1, 0.5]", "other = [1]", "n_some_thing = [1", ""] {
            assert_eq!(file(bad), None, "{bad}");
        }
        assert_eq!(read(kind, "missing.toml"), None);
        assert!(value_in(Path::new("missing.toml"), "k").unwrap_err().contains("no such file"));
    }

    #[test]
    fn advice_names_options() {
        assert_eq!(in_shell("raise `max_iter`, or `n_init`", "softmax"), "raise `--max-iter`, or `--init`");
        assert_eq!(in_shell("see `max_iter`", "nothing"), "see `max_iter`");
    }

    /// A table whose default the table itself forbids would make every fit fail, and two options of one name make clap panic.
    #[test]
    fn every_command_of_every_family_is_sound() {
        crate::commands::root().debug_assert();
        for family in variegate::model::FAMILIES {
            for setting in family.settings().iter().chain(&family.simulate_settings()) {
                assert!(setting.kind.admits(&setting.default), "{} {}", family.name(), setting.name);
            }
            let own = settings_read_by(*family, Reader::Simulate);
            let twice = family.simulate_settings().iter().any(|s| own.iter().any(|o| o.name == s.name));
            assert!(!twice, "{} has two of a name", family.name());
        }
    }

    #[test]
    fn fresh_seeds_differ() {
        let matches = Command::new("t").arg(seed()).get_matches_from(["t"]);
        let seeds: std::collections::HashSet<u64> = (0..20).map(|_| seed_of(&matches)).collect();
        assert!(seeds.len() > 15);
        assert!(seeds.iter().all(|s| *s <= u32::MAX as u64));
    }
}
