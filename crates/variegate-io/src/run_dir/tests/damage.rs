//! A file that was cut, changed, lost or exchanged is refused and named, whichever it is.

use proptest::prelude::*;

use super::*;

/// Both doors must refuse, naming the file.
fn refused(folder: &Path, name: &str) {
    for outcome in [RunDir::read(folder), RunDir::open(folder)] {
        let error = outcome.err().unwrap_or_else(|| panic!("damage to {name} went unnoticed"));
        assert!(matches!(error, RunDirError::Damaged { .. } | RunDirError::NotARun { .. }), "{error:?}");
        let last = name.split('/').next_back().unwrap();
        assert!(error.to_string().contains(last), "{error} does not name {name}");
    }
}

fn named(folder: &Path) -> Vec<String> {
    files(folder).into_iter().filter(|f| f != LOCK).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_is_refused_and_named(places in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 20)) {
        let folder = scratch();
        drop(finished(folder.path(), TOY));
        let all = named(folder.path());
        for (i, (place, bit)) in places.iter().enumerate() {
            // every kind of file in turn
            let name = &all[i % all.len()];
            let path = folder.path().join(name);
            let good = fs::read(&path).unwrap();
            let at = place.index(good.len());

            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, flipped).unwrap();
            refused(folder.path(), name);

            fs::write(&path, &good[..at]).unwrap();
            refused(folder.path(), name);

            fs::write(&path, [&good[..], &good[at..]].concat()).unwrap();
            refused(folder.path(), name);

            fs::write(&path, good).unwrap();
            RunDir::read(folder.path()).unwrap();
        }
    }
}

#[test]
fn every_bit_of_a_manifest_counts() {
    let folder = scratch();
    drop(RunDir::create(folder.path(), &record(), false).unwrap());
    let path = folder.path().join("manifest.json");
    let good = fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bad).unwrap();
        assert!(Manifest::load(folder.path()).is_err(), "bit {bit} went unnoticed");
    }
}

#[test]
fn a_lost_or_exchanged_file_is_refused_and_named() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    for name in named(folder.path()) {
        let path = folder.path().join(&name);
        let good = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        refused(folder.path(), &name);
        fs::write(&path, good).unwrap();
    }
    let (a, b) = (folder.path().join("checkpoints/c0-000004.bin"), folder.path().join("checkpoints/c1-000004.bin"));
    let (first, second) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
    fs::write(a, second).unwrap();
    fs::write(b, first).unwrap();
    refused(folder.path(), "checkpoints/c0-000004.bin");
}

#[test]
fn settings_edited_by_hand_are_refused_with_advice() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    let path = folder.path().join(SETTINGS);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("prior_scale = 0.1"), "{text}");
    fs::write(&path, text.replace("prior_scale = 0.1", "prior_scale = 0.2")).unwrap();
    let error = RunDir::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("settings.toml") && error.contains("cannot be changed afterwards"), "{error}");
}

#[test]
fn a_damaged_segment_stops_folding_and_is_named() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    TOY.go_on(&mut run, 6).unwrap();
    run.folding.at = 2;
    let path = folder.path().join("draws/scalars-000002.parquet");
    let mut bytes = fs::read(&path).unwrap();
    bytes[9] ^= 4;
    fs::write(&path, bytes).unwrap();
    let error = TOY.go_on(&mut run, u64::MAX).unwrap_err().to_string();
    assert!(error.contains("scalars-000002.parquet") && error.contains("checksum"), "{error}");
}
