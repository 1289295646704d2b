//! Long runs stay few files, and folding changes no number.

use super::*;

fn count(folder: &Path, stem: &str) -> usize {
    files(folder).iter().filter(|f| f.contains(stem)).count()
}

#[test]
fn small_segments_are_put_together() {
    for (width, group) in [(3, 1 << 20), (3, 30), (301, 1000)] {
        let folder = scratch();
        let toy = Toy { width, stride: 1, ..TOY };
        let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
        run.folding = Folding { at: 4, group, ..Folding::default() };
        toy.go_on(&mut run, u64::MAX).unwrap();
        for stem in ["scalars-", "components-", "trace-"] {
            assert!((1..=4).contains(&count(folder.path(), stem)), "{:?}", files(folder.path()));
        }
        toy.assert_complete(&run);
        toy.assert_complete(&RunDir::read(folder.path()).unwrap());
    }
}

#[test]
fn large_segments_are_left_alone_and_the_order_of_names_is_that_of_draws() {
    let folder = scratch();
    let toy = Toy { stride: 1, ..TOY };
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    toy.go_on(&mut run, 6).unwrap();
    // whatever is there now counts as large
    let large = run.manifest.files.iter().map(|f| f.bytes).max().unwrap();
    run.folding = Folding { at: 3, large: 1, ..Folding::default() };
    toy.go_on(&mut run, 8).unwrap();
    let before = count(folder.path(), "scalars-");
    assert_eq!(before, 6);
    run.folding.large = large + 1;
    toy.go_on(&mut run, u64::MAX).unwrap();
    assert!(count(folder.path(), "scalars-") < before);
    toy.assert_complete(&run);
    let names: Vec<_> = run.manifest.files.iter().filter(|f| Segment::Scalars.holds(&f.name)).map(|f| f.name.clone()).collect();
    assert!(names.is_sorted());
}

#[test]
fn a_long_run_has_a_small_manifest() {
    let folder = scratch();
    let long = Plan { chains: 1, schedule: Schedule::Sample { warm_up: 0, draws: 400, thin: 1 }, ..plan() };
    let mut run = RunDir::create(folder.path(), &RunRecord { plan: long, ..record() }, false).unwrap();
    for i in 0..400 {
        let mut draws = Draws::starting_at(i);
        draws.scalar("x", i as f64);
        draws.finish();
        let trace = vec![(i + 1, Report::default())];
        run.commit(vec![Piece { chain: 0, sweeps: i + 1, draws, trace, checkpoint: vec![0; 8], finished: i == 399 }]).unwrap();
        assert!(run.manifest.files.len() <= 2 * 50 + 3, "{}", run.manifest.files.len());
    }
    let x = RunDir::read(folder.path()).unwrap().draws().unwrap()[0].scalars.values.clone();
    assert_eq!(x, (0..400).map(f64::from).collect::<Vec<_>>());
}
