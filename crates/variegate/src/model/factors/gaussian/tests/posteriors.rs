//! Small posteriors that are known exactly.

use super::*;

/// ln p(x) of the example, and p(z | x) at 00, 01, 10, 11 (z₁z₂).
const LN_P: f64 = -4.544249498;
const GATES: [f64; 4] = [0.25263462, 0.04371434, 0.51203945, 0.19161159];

#[test]
fn the_scan_visits_gates_as_often_as_they_are_probable() {
    let example = example();
    let (mut entries, mut scratch, mut rng) = (Vec::new(), Scratch::default(), philox(11));
    example.model.prepare(&example.view, dense(&example.x, 3), &[0], &[], &mut scratch);
    let seen: Vec<usize> = (0..100_000)
        .map(|_| {
            example.scan(&entries, 1.0, &mut scratch, &mut rng);
            example.model.finish(&example.view, &mut scratch, &mut rng, &mut entries).unwrap();
            entries.iter().map(|e| 2 >> e.0).sum()
        })
        .collect();
    for (gates, &p) in GATES.iter().enumerate() {
        let chain: Vec<f64> = seen.iter().map(|&s| f64::from(u8::from(s == gates))).collect();
        assert!(z_of(&chain, p).abs() < 4.0, "{gates}: {}", z_of(&chain, p));
    }
}

#[test]
fn annealing_finds_the_evidence() {
    let example = example();
    let (mut entries, mut scratch, mut rng) = (Vec::new(), Scratch::default(), philox(12));
    example.model.prepare(&example.view, dense(&example.x, 3), &[0], &[], &mut scratch);
    let steps = 50;
    let ratios: Vec<f64> = (0..3000)
        .map(|_| {
            entries.clear();
            entries.extend([0.6, 0.3].iter().enumerate().filter(|p| rng.random::<f64>() < *p.1).map(|p| (p.0 as u32, 0.0)));
            let (mut ln_weight, mut before) = (0.0, 0.0);
            example.model.begin(&example.view, row(dense(&example.x, 3), 0, &[]), &entries, Tempering::NONE, &mut scratch);
            for q in 1..=steps {
                let power = (f64::from(q) / f64::from(steps)).powi(3);
                ln_weight += (power - before) * example.model.ln_row(&example.view, &scratch);
                before = power;
                example.scan(&entries, power, &mut scratch, &mut rng);
                example.model.finish(&example.view, &mut scratch, &mut rng, &mut entries).unwrap();
            }
            (ln_weight - LN_P).exp()
        })
        .collect();
    assert!(z_of(&ratios, 1.0).abs() < 4.0, "{}", z_of(&ratios, 1.0));
}

/// One row of one source: all atoms are private. Their number a posteriori, by births and deaths and draws of weights alone.
fn number_of_atoms(x: &[f64], mean: f64, shares: &[f64], seed: u64) {
    let fixed = scales(1.0, &[0.5], &[2.0]);
    let model = plain(x.len(), 1, Some(fixed.clone()));
    let (mut scratch, mut rng) = (Scratch::default(), philox(seed));
    let (mut phi, mut entries): (Vec<f64>, Vec<Entry>) = (Vec::new(), Vec::new());
    let here = row(dense(x, x.len()), 0, &[]);
    let attempts = Attempts { ln_rate: 1.5_f64.ln(), count: 2, room: true };
    let mut chain = Vec::new();
    for _ in 0..100_000 {
        let view = model.view(&phi, entries.len(), &fixed);
        let changes = model.private_moves(&view, here, &entries, &vec![true; entries.len()], attempts, &mut scratch, &mut rng).unwrap();
        let kept = changes.redrawn.iter().map(|(k, p)| (entries[*k as usize].1, p));
        let all: Vec<_> = kept.chain(changes.born.iter().map(|(w, p)| (*w, p))).collect();
        assert_eq!(all.len() + changes.died.len(), entries.len() + changes.born.len());
        phi = all.iter().flat_map(|a| a.1.iter().copied()).collect();
        let next = all.iter().enumerate().map(|(k, a)| (k as u32, a.0)).collect();
        entries = next;
        let view = model.view(&phi, entries.len(), &fixed);
        model.prepare(&view, here.x, &[0], &[], &mut scratch);
        model.begin(&view, here, &entries, Tempering::NONE, &mut scratch);
        model.finish(&view, &mut scratch, &mut rng, &mut entries).unwrap();
        chain.push(entries.len() as f64);
    }
    let z = z_of(&chain, mean);
    assert!(z.abs() < 4.0, "{x:?}: {z}");
    for (count, &share) in shares.iter().enumerate() {
        let z = z_of(&chain.iter().map(|&k| f64::from(u8::from(k == count as f64))).collect::<Vec<_>>(), share);
        assert!(z.abs() < 4.0, "{x:?}, {count} atoms: {z}");
    }
}

#[test]
fn atoms_of_a_row_of_nothing() {
    number_of_atoms(&[0.0], 1.05625508, &[], 13);
}

#[test]
fn atoms_of_one_large_entry() {
    number_of_atoms(&[3.0], 2.28463272, &[0.0004639, 0.2721869, 0.3599798], 14);
}

#[test]
fn atoms_of_three_entries() {
    number_of_atoms(&[1.0, -2.0, 0.5], 1.70958682, &[0.0701427, 0.4126796, 0.3242481], 15);
}
