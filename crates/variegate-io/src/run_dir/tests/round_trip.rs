//! What goes in comes out, to the bit.

use proptest::prelude::*;
use serde_json::Value;
use variegate::run::Memory;

use super::*;

#[test]
fn a_run_comes_back_as_it_was() {
    for (width, components) in [(1, false), (3, true), (300, true), (301, true), (700, false)] {
        for stride in [1, 5, 100] {
            let folder = scratch();
            let toy = Toy { width, components, stride };
            let run = finished(folder.path(), toy);
            toy.assert_complete(&run);
            drop(run);
            let run = RunDir::read(folder.path()).unwrap();
            toy.assert_complete(&run);
            assert_eq!(run.record(), &RunRecord { created_at: run.record().created_at.clone(), ..record() });
        }
    }
}

#[test]
fn a_run_without_draws_keeps_its_trace_and_state() {
    let folder = scratch();
    let ascent = Plan { chains: 3, schedule: Schedule::Ascend { max_sweeps: 4 }, ..plan() };
    let mut run = RunDir::create(folder.path(), &RunRecord { plan: ascent, ..record() }, false).unwrap();
    let report = Report { objective: -2.5, converged: true, ..Report::default() };
    let piece = |chain| Piece {
        chain,
        sweeps: 1,
        draws: Draws::default(),
        trace: vec![(1, report.clone())],
        checkpoint: vec![chain as u8],
        finished: true,
    };
    run.commit(vec![piece(2), piece(0)]).unwrap();
    let run = RunDir::read(folder.path()).unwrap();
    assert_eq!(run.checkpoints().unwrap(), [Some(vec![0]), None, Some(vec![2])]);
    assert_eq!(run.trace().unwrap(), [vec![(1, report.clone())], vec![], vec![(1, report.clone())]]);
    assert_eq!(run.draws().unwrap(), vec![Draws::default(); 3]);
    let status = run.status();
    assert!(!status.complete && status.running);
    assert_eq!(status.chains[2].last.as_ref(), Some(&report));
    assert_eq!((status.chains[1].sweeps, status.chains[1].total), (0, 4));
}

#[test]
fn columns_that_change_are_refused_and_nothing_is_kept_of_them() {
    let folder = scratch();
    let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
    TOY.go_on(&mut run, 6).unwrap();
    let before = (files(folder.path()), run.status());
    let piece = |change: &dyn Fn(&mut Piece)| {
        let mut draws = Draws::starting_at(4);
        TOY.draw(3, &mut draws);
        let mut piece = Piece { chain: 0, sweeps: 7, draws, trace: vec![], checkpoint: vec![], finished: false };
        change(&mut piece);
        vec![piece]
    };
    for (change, says) in [
        (&(|p: &mut Piece| p.draws.scalars.columns[1].0 = "other".into()) as &dyn Fn(&mut Piece), "columns"),
        (&|p| p.draws.components.columns[2].0 = "other".into(), "columns"),
        (&|p| p.draws.first = 0, "draws of chain 0"),
        (&|p| p.draws.first = 5, "draws of chain 0"),
        (&|p| p.draws.count = 7, "draws of chain 0"),
        (&|p| p.sweeps = 1, "sweeps of chain 0"),
        (&|p| p.trace.push((9, Report::default())), "sweeps of chain 0"),
        (&|p| p.trace.push((7, Report { extras: vec![("sweep".into(), 1.0)], ..Report::default() })), "`sweep`"),
        (&|p| p.chain = 3, "chain 3"),
    ] {
        let error = run.commit(piece(change)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(before, (files(folder.path()), run.status()));
    }
    TOY.go_on(&mut run, u64::MAX).unwrap();
    TOY.assert_complete(&run);
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let folder = scratch();
    for columns in [&["draw"][..], &["chain"], &["a", "a"], &["a[0]", "a"]] {
        let mut run = RunDir::create(folder.path(), &record(), true).unwrap();
        let mut draws = Draws::default();
        for name in columns {
            draws.vector(name, if *name == "a" { &[1.0, 2.0] } else { &[1.0] });
        }
        draws.finish();
        let piece = Piece { chain: 0, sweeps: 1, draws, trace: vec![], checkpoint: vec![], finished: false };
        assert!(run.commit(vec![piece]).unwrap_err().to_string().contains("two columns"));
    }
}

#[test]
fn a_reader_cannot_commit() {
    let folder = scratch();
    drop(finished(folder.path(), TOY));
    let error = RunDir::read(folder.path()).unwrap().commit(vec![]).unwrap_err();
    assert!(error.to_string().contains("reading only"), "{error}");
}

/// Any table of draws, any figures: widths around the limit, any bits.
fn any_draws() -> impl Strategy<Value = (Vec<usize>, Vec<u64>, usize)> {
    let width = prop_oneof![0usize..4, 299usize..303];
    let widths =
        proptest::collection::vec(width, 0..4).prop_filter("columns hold something", |w| w.is_empty() || w.iter().sum::<usize>() > 0);
    (widths, proptest::collection::vec(any::<u64>(), 1..60), 0usize..7)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_numbers_come_back((widths, bits, rows) in any_draws()) {
        let folder = scratch();
        let mut run = RunDir::create(folder.path(), &record(), false).unwrap();
        let mut memory = Memory::default();
        let mut source = bits.iter().cycle().map(|b| f64::from_bits(*b));
        for commit in 0..2 {
            let mut draws = Draws::starting_at(commit * rows as u64);
            for _ in 0..rows {
                for (i, w) in widths.iter().enumerate() {
                    draws.vector(&format!("v{i}"), &source.by_ref().take(*w).collect::<Vec<_>>());
                }
                draws.finish();
            }
            let piece = Piece { chain: 1, sweeps: commit + 1, draws, trace: vec![], checkpoint: vec![1], finished: false };
            memory.commit(vec![piece.clone()]).unwrap();
            run.commit(vec![piece]).unwrap();
        }
        let (back, kept) = (&run.draws().unwrap()[1], &memory.chains[0].draws);
        let as_bits = |d: &Draws| d.scalars.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(as_bits(back), as_bits(kept));
        prop_assert_eq!(back.count, kept.count);
        if !kept.scalars.values.is_empty() {
            prop_assert_eq!(&back.scalars.columns, &kept.scalars.columns);
        }
    }

    #[test]
    fn settings_come_back_to_the_bit(bits in any::<u64>(), whole in any::<u64>(), seed in any::<u64>(), text in ".*") {
        let x = f64::from_bits(bits);
        prop_assume!(x.is_finite());
        let folder = scratch();
        let model = json!({"scale": x, "count": whole, "name": text, &text: [null, x]});
        let data = DataReference { fingerprint: whole, reader: json!({"separator": text}), ..Default::default() };
        let record = RunRecord { model: model.as_object().unwrap().clone(), plan: Plan { seed, ..plan() }, data, ..record() };
        drop(RunDir::create(folder.path(), &record, false).unwrap());
        let run = RunDir::read(folder.path()).unwrap();
        prop_assert_eq!(run.record(), &record);
        prop_assert_eq!(run.record().model["scale"].as_f64().map(f64::to_bits), Some(bits));
        let settings: toml::Table = fs::read_to_string(folder.path().join("settings.toml")).unwrap().parse().unwrap();
        let written = settings["model"]["scale"].as_float();
        prop_assert!(text == "scale" || written.map(f64::to_bits) == Some(bits));
        prop_assert!(matches!(run.record().model["count"], Value::Number(_)) || text == "count");
    }
}
