//! Dying before every single operation on the disk: what is found afterwards is one commit or the next, and the resumed run ends with
//! the draws of an undisturbed one.

use super::*;

pub(super) const DEATHS: [Death; 4] = [Death::Kill, Death::PowerCut(1), Death::PowerCut(22), Death::PowerCut(333)];

/// Folding at so few segments that it happens inside the run.
pub(super) const OFTEN: Folding = Folding { at: 2, large: 1 << 20, group: 40 };

pub(super) fn with_fuse(fuse: &Fuse) -> Disk {
    Disk { fuse: Some(fuse.clone()) }
}

/// What a reader finds must be a beginning of the undisturbed run, at a commit.
fn assert_beginning(run: &RunDir) {
    let whole = TOY.whole();
    let (draws, trace) = (run.draws().unwrap(), run.trace().unwrap());
    for (i, chain) in run.status().chains.iter().enumerate() {
        assert!(chain.sweeps.is_multiple_of(TOY.stride) && chain.sweeps == run.status().chains[0].sweeps);
        assert_eq!(chain.draws, chain.sweeps.saturating_sub(2));
        assert_eq!(trace[i].len() as u64, chain.sweeps);
        let found = &draws[i].scalars.values;
        assert_eq!(found, &whole.chains[i].draws.scalars.values[..found.len()]);
        assert_eq!(draws[i].scalars.rows() as u64, chain.draws);
    }
}

/// Nothing is left but what the manifest names.
pub(super) fn assert_tidy(folder: &Path, run: &RunDir) {
    let mut named: Vec<_> = run.manifest.files.iter().map(|f| f.name.clone()).collect();
    named.extend(["lock".into(), "manifest.json".into()]);
    named.sort();
    assert_eq!(files(folder), named);
}

#[test]
fn dying_at_any_point_of_a_run_loses_no_commit() {
    for death in DEATHS {
        for point in 0.. {
            let folder = scratch();
            let fuse = Fuse::new(point, death);
            let mut commits = 0;
            let attempt = RunDir::create_with(folder.path(), &record(), false, with_fuse(&fuse)).map(|mut run| {
                run.folding = OFTEN;
                let _ = TOY.go_on(&mut run, u64::MAX);
                commits = run.manifest.commits;
            });
            if !fuse.blown() {
                assert!(attempt.is_ok() && point > 250, "only {point} points");
                break;
            }
            // dying twice, the second time while picking up the pieces
            for second in 0..3 {
                let again = Fuse::new(second, death);
                let _ = RunDir::open_with(folder.path(), with_fuse(&again));
            }
            let read = RunDir::read(folder.path());
            if let Ok(found) = &read {
                assert_beginning(found);
                // what the dead process believed to be kept is kept
                assert!(found.manifest.commits >= commits.saturating_sub(1), "{} after {commits}", found.manifest.commits);
            }
            let mut run = match read {
                Err(RunDirError::NotARun { .. }) => RunDir::create(folder.path(), &record(), false).unwrap(),
                Err(other) => panic!("point {point}, {death:?}: {other}"),
                Ok(_) => RunDir::open(folder.path()).unwrap(),
            };
            run.folding = OFTEN;
            assert_tidy(folder.path(), &run);
            TOY.go_on(&mut run, u64::MAX).unwrap();
            TOY.assert_complete(&run);
            assert_tidy(folder.path(), &run);
        }
    }
}

#[test]
fn dying_while_a_run_is_replaced_leaves_the_old_one_or_the_new_one() {
    let new = RunRecord { family: "other".into(), schema: b"another schema".to_vec(), ..record() };
    for death in DEATHS {
        let (mut old_found, mut new_found) = (0, 0);
        for point in 0.. {
            let folder = scratch();
            drop(finished(folder.path(), TOY));
            let fuse = Fuse::new(point, death);
            let _ = RunDir::create_with(folder.path(), &new, true, with_fuse(&fuse));
            if !fuse.blown() {
                break;
            }
            let found = RunDir::read(folder.path()).unwrap();
            if found.record().family == "toy" {
                TOY.assert_complete(&found);
                assert_eq!(found.record().schema, b"schema bytes");
                old_found += 1;
            } else {
                assert_eq!(found.record().schema, b"another schema");
                assert!(found.status().chains.iter().all(|c| c.sweeps == 0));
                new_found += 1;
            }
            let run = RunDir::open(folder.path()).unwrap();
            assert_eq!(run.record(), found.record());
            assert_tidy(folder.path(), &run);
            assert_eq!(fs::read_to_string(folder.path().join(SETTINGS)).unwrap(), run.record().settings_toml().unwrap());
        }
        assert!(old_found > 5 && new_found > 5);
    }
}

/// An extension changes the plan and nothing else, and dying in the middle of it leaves the old plan or the new one.
#[test]
fn dying_while_a_run_is_extended_leaves_the_old_plan_or_the_new_one() {
    let longer = Plan { chains: 3, schedule: Schedule::Sample { warm_up: 2, draws: 14, thin: 1 }, ..plan() };
    let model = json!({"prior_scale": 0.1, "n_draws": 14}).as_object().unwrap().clone();
    for death in DEATHS {
        let (mut old_found, mut new_found) = (0, 0);
        for point in 0.. {
            let folder = scratch();
            drop(finished(folder.path(), TOY));
            let fuse = Fuse::new(point, death);
            let extended = RunDir::open_with(folder.path(), with_fuse(&fuse)).and_then(|mut run| run.extend(model.clone(), longer));
            if !fuse.blown() {
                extended.unwrap();
            }
            let found = RunDir::read(folder.path()).unwrap();
            if found.record().plan == plan() {
                TOY.assert_complete(&found);
                old_found += 1;
            } else {
                assert_eq!((found.record().plan, &found.record().model), (longer, &model));
                let status = found.status();
                assert_eq!(
                    status.chains.iter().map(|c| (c.sweeps, c.total, c.finished)).collect::<Vec<_>>(),
                    [(12, 16, false), (12, 16, false), (0, 16, false)]
                );
                new_found += 1;
            }
            let run = RunDir::open(folder.path()).unwrap();
            assert_tidy(folder.path(), &run);
            assert_eq!(fs::read_to_string(folder.path().join(SETTINGS)).unwrap(), run.record().settings_toml().unwrap());
            if !fuse.blown() {
                break;
            }
        }
        assert!(old_found > 2 && new_found > 1, "{old_found} {new_found}");
    }
}

#[test]
fn another_plan_is_no_extension() {
    let folder = scratch();
    let mut run = finished(folder.path(), TOY);
    let sample = |warm_up, draws, thin| Schedule::Sample { warm_up, draws, thin };
    for schedule in [sample(2, 9, 1), sample(3, 14, 1), sample(2, 14, 2), Schedule::Ascend { max_sweeps: 100 }] {
        let refused = run.extend(record().model, Plan { schedule, ..plan() });
        assert!(matches!(refused, Err(RunDirError::Unlike { .. })), "{schedule:?}");
    }
    for other in [Plan { seed: 6, ..plan() }, Plan { chains: 1, ..plan() }, Plan { block_rows: 8, ..plan() }] {
        assert!(run.extend(record().model, other).is_err(), "{other:?}");
    }
    TOY.assert_complete(&run);
}

#[test]
fn a_full_disk_leaves_the_last_commit_and_says_what_to_do() {
    for point in 0..75 {
        let folder = scratch();
        let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
        TOY.go_on(&mut run, 3).unwrap();
        let fuse = Fuse::new(point, Death::Full);
        run.disk = with_fuse(&fuse);
        run.folding = OFTEN;
        let error = TOY.go_on(&mut run, 9).unwrap_err().to_string();
        assert!(error.contains("Free some space") && error.contains(&*folder.path().to_string_lossy()), "{error}");
        assert!(!files(folder.path()).iter().any(|f| f.contains(".tmp") && !f.contains("lock")), "{:?}", files(folder.path()));
        assert_beginning(&RunDir::read(folder.path()).unwrap());
        // the same process may also go on once there is room
        run.disk = Disk::default();
        TOY.go_on(&mut run, u64::MAX).unwrap();
        TOY.assert_complete(&run);
    }
}
