//! The book's page of settings is what the declarations say. `VARIEGATE_PAGE=write cargo test --package variegate --lib model::settings`
//! writes it anew.

use serde_json::{Value, json};
use std::fmt::Write;

use super::{Declared, Kind, Reader, Setting, as_map, defaults, resolve};
use crate::model::{FAMILIES, family};
use crate::{settings, words};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/settings.md");

const HEAD: &str = "# Settings

Every setting of every model. A setting is the same word as Python keyword, as key of `settings.toml` and, with hyphens for underscores
and without the leading `n_` of counts, as command-line option. What is nothing here is `None` in Python and `none` on the command line.
This page is written by a test from the declarations in the code.
";

/// A value as the page shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        other => format!("`{}`", super::shown(other)),
    }
}

fn table(settings: &[Setting]) -> String {
    let mut text = String::from("| setting | values | default | what it does |\n|---|---|---|---|\n");
    for s in settings {
        let row = [format!("`{}`", s.name), s.kind.allowed(), shown(&s.default), s.help.to_string()].map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

fn page() -> String {
    let mut text = HEAD.to_string();
    for family in FAMILIES {
        let all = family.settings();
        let read_by = |reader: Reader| {
            let names: Vec<String> = all.iter().filter(|s| s.readers.contains(&reader)).map(|s| format!("`{}`", s.name)).collect();
            if names.is_empty() { "none of these".into() } else { names.join(", ") }
        };
        let _ = write!(
            text,
            "\n## {}\n\n{}.\n\n{}\n`check` reads {}.\n\n`simulate` reads {}, and has settings of its own:\n\n{}",
            family.name(),
            family.title(),
            table(&all),
            read_by(Reader::Check),
            read_by(Reader::Simulate),
            table(&family.simulate_settings())
        );
    }
    text
}

#[test]
fn the_books_page_is_what_is_declared() {
    if std::env::var("VARIEGATE_PAGE").is_ok_and(|v| v == "write") {
        std::fs::write(PAGE, page()).unwrap();
    }
    let stored = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(stored == page(), "docs/src/settings.md is stale: run this test with VARIEGATE_PAGE=write");
}

words! {
    /// Two words.
    enum Choice {
        /// One.
        First = "first",
        /// The other.
        SecondOne = "second-1",
    }
}

settings! {
    /// One of each kind that the ranges of numbers matter to.
    struct Few {
        /// A help of one line.
        choice: Choice = Choice::SecondOne, in word(Choice::WORDS), read by Simulate, Check;
        /// A help of
        /// two lines.
        share: f64 = 0.5, in number(0.0, 1.0), read by Check;
        /// May be left open.
        size: Option<f64> = None, in positive_or_nothing();
        sampling { n_chains: 3, n_warmup: 5, n_draws: 7, thin: 1 }
    }
}

#[test]
fn a_declaration_is_struct_defaults_and_table() {
    let table = Few::table();
    let names: Vec<&str> = table.iter().map(|s| s.name).collect();
    assert_eq!(names, ["choice", "share", "size", "n_chains", "n_warmup", "n_draws", "thin"]);
    assert_eq!((table[0].help, table[1].help), ("A help of one line", "A help of two lines"));
    assert_eq!((table[0].readers, table[2].readers), (&[Reader::Simulate, Reader::Check][..], &[][..]));
    assert!(matches!(table[0].kind, Kind::Word(["first", "second-1"])));
    assert_eq!(as_map(&Few::default()), defaults(&table));
    assert_eq!(Value::Object(defaults(&table))["choice"], json!("second-1"));
    let given = json!({"choice": "first", "n_draws": 9}).as_object().unwrap().clone();
    assert_eq!(resolve::<Few>("few", &given).unwrap(), Few::default().choice(Choice::First).n_draws(9));
}

#[test]
fn numbers_are_short_wherever_they_are_shown() {
    for (x, text) in
        [(1.0, "1"), (0.5, "0.5"), (0.0, "0"), (300.0, "300"), (1e6, "1e6"), (1e12, "1e12"), (f64::MAX, "1.7976931348623157e308")]
    {
        assert_eq!(super::short_number(x), text);
    }
    assert_eq!(
        (super::short_number(-1e300), super::short_number(1e-5), super::short_number(1234567.5)),
        ("-1e300".into(), "1e-5".into(), "1234567.5".into())
    );
    let most = [Kind::not_negative_or_nothing(1e300), Kind::number(-1e300, 1e300), Kind::positive(), Kind::not_negative()];
    assert!(most.iter().all(|kind| kind.allowed().len() < 60), "{most:?}");
    // refusals too
    let said = Few::default().share(1e300).check_ranges().unwrap_err().to_string();
    assert!(said.contains("`share` is 1e300"), "{said}");
}

#[test]
fn values_of_fields_are_refused_like_given_ones() {
    let refused = |few: Few| few.check_ranges().err().map(|e| e.to_string());
    assert_eq!(refused(Few::default().size(Some(2.0)).share(1.0)), None);
    for (few, name) in [
        (Few::default().share(1.5), "share"),
        (Few::default().share(f64::NAN), "share"),
        (Few::default().size(Some(0.0)), "size"),
        // what is not finite travels as nothing, which would be allowed
        (Few::default().size(Some(f64::NAN)), "size"),
        (Few::default().size(Some(f64::INFINITY)), "size"),
        (Few::default().n_draws(0), "n_draws"),
    ] {
        assert!(refused(few.clone()).is_some_and(|e| e.contains(name)), "{few:?}");
    }
}

/// A word that a setting offers but its type does not know would be refused after it was allowed.
#[test]
fn every_word_is_a_value() {
    for f in FAMILIES {
        for setting in f.settings() {
            let Kind::Word(words) = setting.kind else { continue };
            for word in words {
                let given = json!({setting.name: word}).as_object().unwrap().clone();
                if let Err(e) = family(f.name()).unwrap().configure(&given) {
                    assert!(!e.to_string().contains("readable"), "{} {} {word}: {e}", f.name(), setting.name);
                }
            }
        }
    }
}
