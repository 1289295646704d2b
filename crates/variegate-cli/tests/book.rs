//! The book keeps its word: chapters are listed, links lead somewhere, shell examples run, and the recipe shows code that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn markdown_in(folder: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    all.sort();
    all
}

/// Every page a reader may come across.
fn pages() -> Vec<PathBuf> {
    ["", "bench", "docs/src"].iter().flat_map(|folder| markdown_in(folder)).collect()
}

/// A fenced block of code: what follows the fence, and the lines inside.
struct Fenced {
    info: String,
    code: String,
}

fn fenced(text: &str) -> Vec<Fenced> {
    let mut blocks = Vec::new();
    let mut open: Option<Fenced> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => open = Some(Fenced { info: info.trim().to_string(), code: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.code.push_str(line);
                block.code.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// Targets of the links of a page, code aside.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        }
        let mut rest = if inside { "" } else { line };
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            found.extend(rest.find(')').map(|end| rest[..end].to_string()));
        }
    }
    found
}

#[test]
fn every_chapter_is_listed_once_and_every_link_leads_somewhere() {
    let chapters = links(&read(&root().join("docs/src/SUMMARY.md")));
    let listed: BTreeSet<&str> = chapters.iter().map(String::as_str).collect();
    assert_eq!(listed.len(), chapters.len(), "a chapter is listed twice");
    for page in markdown_in("docs/src") {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(name), "{name} is not in SUMMARY.md");
    }
    for page in pages() {
        for link in links(&read(&page)) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(page.parent().unwrap().join(target).exists(), "{}: `{link}` leads nowhere", page.display());
        }
    }
}

/// The blocks of a page run one after the other in one folder, as a reader would run them.
#[cfg(unix)]
#[test]
fn shell_examples_run() {
    let bin = Path::new(env!("CARGO_BIN_EXE_variegate")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for page in pages() {
            let script: String = fenced(&read(&page)).into_iter().filter(|b| b.info == "sh").map(|b| b.code).collect();
            if script.is_empty() {
                continue;
            }
            let path = &path;
            running.push(scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let done = Command::new("bash")
                    .args(["-euxo", "pipefail", "-c", &script])
                    .env("PATH", path)
                    .current_dir(folder.path())
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success(), "{} ended with {}:\n{said}", page.display(), done.status);
            }));
        }
        assert!(running.len() >= 4, "only {} pages have shell examples", running.len());
        for thread in running {
            if let Err(failure) = thread.join() {
                std::panic::resume_unwind(failure);
            }
        }
    });
}

#[test]
fn the_recipe_shows_the_example() {
    let example = read(&root().join("crates/variegate/examples/probit.rs"));
    let blocks = fenced(&read(&root().join("docs/src/add-a-model.md")));
    let shown: Vec<&Fenced> = blocks.iter().filter(|b| b.info == "rust,ignore").collect();
    assert!(shown.len() > 5);
    for block in shown {
        assert!(example.contains(&block.code), "not in the example any more:\n{}", block.code);
    }
}
