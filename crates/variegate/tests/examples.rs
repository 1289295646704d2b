//! Every example runs. `cargo test` builds them all before it runs any test, but for the worked one of the book, of which it builds the tests.

use std::path::Path;
use std::process::Command;

#[test]
fn examples_run() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    // tests lie in `deps`, examples beside it
    let here = std::env::current_exe().unwrap();
    let built = here.parent().and_then(Path::parent).unwrap().join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(&sources).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string();
        if name == "probit" {
            continue;
        }
        let program = built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        assert!(program.exists(), "{} is not built: run `cargo build --workspace --examples` first", program.display());
        let ended = Command::new(&program).output().unwrap();
        assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
        assert!(!ended.stdout.is_empty(), "{name} says nothing");
        seen += 1;
    }
    assert!(seen >= variegate::model::FAMILIES.len(), "an example for each family: {seen}");
}
