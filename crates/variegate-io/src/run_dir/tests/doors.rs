//! Who may come in: what `create`, `open` and `read` accept, and what they leave alone.

use super::*;

#[test]
fn nothing_is_overwritten_unless_asked() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    for outcome in [RunDir::check_vacant(folder.path(), false), RunDir::create(folder.path(), &record(), false).map(|_| ())] {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("--force") && text.contains("variegate resume"), "{text}");
    }
    TOY.assert_complete(&RunDir::read(folder.path()).unwrap());

    RunDir::check_vacant(folder.path(), true).unwrap();
    let run = RunDir::create(folder.path(), &record(), true).unwrap();
    assert!(run.status().chains.iter().all(|c| c.sweeps == 0));
    assert_eq!(files(folder.path()), ["lock", "manifest.json", "schema.bin", "settings.toml"]);
}

#[test]
fn a_damaged_run_can_be_replaced_but_only_when_asked() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    let path = folder.path().join("manifest.json");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    assert!(matches!(RunDir::create(folder.path(), &record(), false), Err(RunDirError::Exists { .. })));
    let mut run = RunDir::create(folder.path(), &record(), true).unwrap();
    TOY.go_on(&mut run, u64::MAX).unwrap();
    TOY.assert_complete(&run);
}

#[test]
fn files_of_others_are_never_touched() {
    let folder = scratch();
    let strangers = [
        "notes.txt",
        "draws/mine.parquet",
        "draws/scalars-best.parquet",
        "draws/scalars-1.parquet",
        "trace/scalars-000001.parquet",
        "checkpoints/c0-best.bin",
        "checkpoints/c-000001.bin",
        "draws/.hidden.tmp",
        ".other.tmp",
    ];
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    for name in strangers {
        fs::write(folder.path().join(name), "mine").unwrap();
    }
    TOY.go_on(&mut run, u64::MAX).unwrap();
    drop(run);
    // leftovers of ours beside them, which do go
    let leftovers =
        ["draws/scalars-000077.parquet", "draws/.components-000077.parquet.tmp", "checkpoints/c1-000077.bin", ".manifest.json.tmp"];
    for name in leftovers {
        fs::write(folder.path().join(name), "left over").unwrap();
    }
    TOY.assert_complete(&RunDir::read(folder.path()).unwrap());
    assert!(leftovers.iter().all(|name| folder.path().join(name).exists()), "reading removes nothing");
    drop(RunDir::open(folder.path()).unwrap());
    assert!(!leftovers.iter().any(|name| folder.path().join(name).exists()));
    drop(RunDir::create(folder.path(), &record(), true).unwrap());
    for name in strangers {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "mine");
    }
}

#[test]
fn a_folder_with_other_things_in_it_is_refused_even_with_force() {
    for name in ["notes.txt", "manifest.json", "settings.toml", "draws/scalars-000001.parquet", "draws/x", ".hidden"] {
        let folder = scratch();
        fs::create_dir(folder.path().join("draws")).unwrap();
        fs::write(folder.path().join(name), "{\"mine\": 1}").unwrap();
        for replace in [false, true] {
            let error = RunDir::create(folder.path(), &record(), replace).unwrap_err();
            assert!(matches!(error, RunDirError::Occupied { .. }), "{error:?}");
            assert!(error.to_string().contains("--out"));
        }
        assert_eq!(files(folder.path()), [name]);
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "{\"mine\": 1}");
    }
}

#[test]
fn what_is_not_a_run_is_called_so() {
    let folder = scratch();
    fs::write(folder.path().join("file"), "").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (name, says) in [("nowhere", "nothing at this path"), ("empty", "no manifest.json"), ("file", "no manifest.json")] {
        for outcome in [RunDir::read(folder.path().join(name)), RunDir::open(folder.path().join(name))] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("is not a run"), "{error}");
        }
    }
    assert!(RunDir::create(folder.path().join("file"), &record(), true).unwrap_err().to_string().contains("it is a file"));
    assert!(RunDir::create(folder.path().join("file/inside"), &record(), true).is_err());
    assert_eq!(files(folder.path()), ["file"], "looking creates nothing");
    drop(RunDir::create(folder.path().join("deep/er/run"), &record(), false).unwrap());
    RunDir::read(folder.path().join("deep/er/run")).unwrap();
}

#[test]
fn a_newer_format_is_refused_and_not_replaced() {
    let folder = scratch();
    drop(RunDir::create(folder.path(), &record(), false).unwrap());
    let mut manifest = Manifest::load(folder.path()).unwrap();
    manifest.format_version = RUN_FORMAT_VERSION + 1;
    fs::write(folder.path().join("manifest.json"), manifest.encode().unwrap()).unwrap();
    for outcome in [RunDir::read(folder.path()), RunDir::open(folder.path()), RunDir::create(folder.path(), &record(), true)] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, RunDirError::Newer { .. }) && error.to_string().contains("newer variegate"), "{error}");
    }
}

#[test]
fn only_one_process_writes_and_anyone_may_read() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    TOY.go_on(&mut run, 3).unwrap();
    for outcome in [RunDir::open(folder.path()), RunDir::create(folder.path(), &record(), true)] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, RunDirError::Locked { .. }), "{error}");
    }
    let reader = RunDir::read(folder.path()).unwrap();
    assert!(reader.status().running && !reader.status().complete);
    TOY.go_on(&mut run, u64::MAX).unwrap();
    drop(run);
    assert!(!reader.status().running);
    TOY.assert_complete(&RunDir::open(folder.path()).unwrap());
}

#[test]
fn a_reader_sees_one_moment_although_the_run_goes_on() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    TOY.go_on(&mut run, 6).unwrap();
    let early = RunDir::read(folder.path()).unwrap();
    run.folding.at = 2;
    TOY.go_on(&mut run, u64::MAX).unwrap();
    // its segments were folded away and its states dropped meanwhile
    assert!(!folder.path().join("draws/scalars-000001.parquet").exists());
    let whole = TOY.whole();
    for (draws, whole) in early.draws().unwrap().iter().zip(&whole.chains) {
        assert_eq!(draws.count, 4);
        assert_eq!(draws.scalars.values, whole.draws.scalars.values[..4 * 3]);
        let last = draws.components.column("draw", 0).unwrap().last().copied();
        assert!(last.is_none_or(|d| d < 4.0));
    }
    assert!(early.trace().unwrap().iter().all(|t| t.len() == 6));
    assert_eq!(early.status().chains[0].sweeps, 6);
    drop(run);
    drop(RunDir::create(folder.path(), &record(), true).unwrap());
    assert!(matches!(early.draws(), Err(RunDirError::Replaced { .. })));
}

#[test]
fn reading_never_fails_while_runs_come_and_go() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    let path = folder.path().to_path_buf();
    let writer = std::thread::spawn(move || {
        for _ in 0..40 {
            let mut run = RunDir::create(&path, &record(), true).unwrap();
            run.folding.at = 2;
            Toy { stride: 1, ..TOY }.go_on(&mut run, u64::MAX).unwrap();
        }
    });
    while !writer.is_finished() {
        let run = RunDir::read(folder.path()).unwrap();
        match run.draws() {
            Ok(draws) => assert_eq!(draws[0].count, run.status().chains[0].draws),
            Err(RunDirError::Replaced { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    writer.join().unwrap();
}

#[cfg(unix)]
#[test]
fn a_folder_that_may_not_be_written_can_be_read_and_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let inside = folder.path().join("run");
    drop(finished(&inside, TOY));
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&inside.join(LOCK), 0o444);
    for path in [inside.as_path(), folder.path()] {
        allow(path, 0o555);
    }
    let may_anything = fs::write(folder.path().join("probe"), "").is_ok();
    let (opened, read) = (RunDir::open(&inside), RunDir::read(&inside));
    let (created, replaced) = (RunDir::create(folder.path().join("new"), &record(), false), RunDir::create(&inside, &record(), true));
    for path in [folder.path(), inside.as_path()] {
        allow(path, 0o755);
    }
    TOY.assert_complete(&read.unwrap());
    if may_anything {
        return; // permissions do not bind the superuser
    }
    for (outcome, name) in [(opened, "lock"), (created, "new"), (replaced, "lock")] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("Check that you may write there"), "{error}");
    }
    TOY.assert_complete(&RunDir::read(&inside).unwrap());
}
