//! The samplers: each kernel alone, whole sweeps, and tiny posteriors that can be summed.

use super::super::check::Subject;
use super::super::counts::{Counts, Scales};
use super::super::gaussian::{self, Gaussian};
use super::super::generate::Unknowns;
use super::super::settings::{LikelihoodKind, Settings};
use super::*;
use crate::check::{CalibrationSettings, JointSettings, calibration};
use crate::check::{Checkable, Generative, InvarianceSettings, invariance::one_step_invariance, joint_distribution, sweep_invariance};
use crate::data::{Classes, Dataset, Matrix};
use crate::run::{Purpose, Shape, Threads, blocks};

mod workers;

/// Two columns; everything is learned, under priors that let few rows show an error.
fn small<L>(subject: Subject<L>, likelihood: impl FnOnce(L) -> L) -> Subject<L> {
    let governors = Some((3.0, 3.0));
    let program = subject.program;
    let birth_rows = program.rows.iter().sum::<u64>() as f64;
    let likelihood = likelihood(program.likelihood);
    Subject { program: Sampler { mass_prior: governors, concentration_prior: governors, birth_rows, shape_from: 0, likelihood, ..program } }
}

fn settings(kind: Kind) -> Settings {
    Settings { sampler: kind, split_merge: Some(3), ..Settings::default() }
}

fn small_counts(kind: Kind, rows: Vec<u64>) -> Subject<Counts> {
    small(Subject::counts(&settings(kind), rows), |counts| Counts {
        atom_shape: 0.7,
        shape_prior: Some((6.0, 8.0)),
        weight_shape: 1.5,
        rate_prior: (5.0, 5.0),
        background_prior: (3.0, 10.0),
        background_start: 0.3,
        first_atom: Some(vec![1.0, 0.5]),
        ..counts
    })
}

fn small_gaussian(kind: Kind, rows: Vec<u64>) -> Subject<Gaussian> {
    let hyper = gaussian::Hyper { shape: 4.0, rate: 4.0, fixed: None };
    small(Subject::gaussian(&settings(kind), rows), |gaussian| Gaussian { hyper, ..gaussian })
}

/// The same where some rows may bear or lose atoms and some not.
fn with_birth_rows<L>(subject: Subject<L>, birth_rows: f64) -> Subject<L> {
    Subject { program: Sampler { birth_rows, ..subject.program } }
}

/// The same where splits and merges deal most rows together.
fn with_core<L>(subject: Subject<L>, core: usize) -> Subject<L> {
    Subject { program: Sampler { core, ..subject.program } }
}

type Step<L> = fn(&mut Course<'_, L>, &mut State<<L as Likelihood>::Scales>) -> Result<()>;

/// One step of a sweep from given unknowns.
fn step<L: Likelihood>(
    subject: &Subject<L>,
    unknowns: Unknowns<L::Scales>,
    data: &Dataset<'_>,
    seed: u64,
    f: Step<L>,
) -> Unknowns<L::Scales> {
    let program = subject.program();
    let cut = blocks(data, 2);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: cut.len() as u32, block_rows: 2 };
    let installed = subject.install(unknowns, &cut).unwrap();
    let mut state = installed.global;
    let mut rows = Watched { rows: Threads::new(program, &cut, shape, seed, 0, installed.locals), core: program.core };
    rows.rows.begin(1);
    let rng = Stream::new(seed, 0, Purpose::Sweep).rng();
    let mut course = Course { sampler: program, rows: &mut rows, moved: None, view: None, rng, sweep: 1 };
    f(&mut course, &mut state).unwrap();
    // rows hear of what is pending
    course.ask(&mut state, false, Question::Lists { chosen: Cow::Owned(Vec::new()) }).unwrap();
    let locals = rows.rows.locals();
    let found: Vec<u32> = state.atoms.ids.iter().flat_map(|&id| users(id, &cut, locals, program.rows.len())).collect();
    assert_eq!(found, state.atoms.uses, "rows use other atoms than the state tells");
    subject.recover(&state, locals).unwrap()
}

/// Rows of which a core is asked as large as it would be after the move: it follows how many rows use the atom or one of the two.
struct Watched<'a, L: Likelihood> {
    rows: Threads<'a, Sampler<L>>,
    core: usize,
}

impl<L: Likelihood> Rows<Sampler<L>> for Watched<'_, L> {
    fn shape(&self) -> Shape {
        self.rows.shape()
    }

    fn visit(&mut self, ask: &Ask<'_, L::View, L::Side>, which: crate::run::Which<'_>) -> Result<Found<L>> {
        let stats = self.rows.visit(ask, which)?;
        if let Question::Holders { atoms, part } = &ask.kind {
            let uses = |list: &&Vec<(u64, f64)>| list.iter().any(|e| atoms.iter().any(|&k| ask.ids[k as usize] == e.0));
            let users = self.rows.locals().iter().flat_map(|local| &local.rows).filter(uses).count();
            let share = part.to as f64 / Part::END as f64;
            assert!((share - (self.core as f64 / users as f64).min(1.0)).abs() < 1e-9, "{share} of {users} rows");
        }
        Ok(stats)
    }
}

/// Rows of each source that use an atom.
fn users(id: u64, cut: &[Block<'_>], locals: &[Local], sources: usize) -> Vec<u32> {
    let mut uses = vec![0; sources];
    for (block, local) in cut.iter().zip(locals) {
        for (i, list) in local.rows.iter().enumerate() {
            uses[block.sources.map_or(0, |s| s[i] as usize)] += u32::from(list.iter().any(|e| e.0 == id));
        }
    }
    uses
}

/// Exact draws in, one step, the same distribution out.
fn kernel_alone<L: Likelihood>(subject: &Subject<L>, draws: u64, f: Step<L>) {
    let names = subject.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rng = Stream::new(5, 0, Purpose::Check).rng();
    let report = one_step_invariance(
        &subject.title(),
        &InvarianceSettings { draws, ..Default::default() },
        &names,
        |(unknowns, data): &(Unknowns<L::Scales>, Dataset<'static>), out| subject.functions(unknowns, data, out),
        &mut rng,
        |rng: &mut Philox| -> Result<_> {
            let unknowns = subject.model().prior(rng)?;
            let data = subject.tiny_data(&unknowns, rng)?;
            Ok((unknowns, data))
        },
        |(unknowns, data), rng| {
            let seed = rand::Rng::next_u64(rng);
            Ok((step(subject, unknowns, &data, seed, f), data))
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

fn births<L: Likelihood>(course: &mut Course<'_, L>, state: &mut State<L::Scales>) -> Result<()> {
    course.private_moves(state)?;
    weights::draw(course.sampler, state, &mut course.rng)
}

fn splits<L: Likelihood>(course: &mut Course<'_, L>, state: &mut State<L::Scales>) -> Result<()> {
    course.split_merge(state)?;
    weights::draw(course.sampler, state, &mut course.rng)
}

fn governors<L: Likelihood>(course: &mut Course<'_, L>, state: &mut State<L::Scales>) -> Result<()> {
    // an error in the distribution of concentrations is small beside their spread: many draws in a row let it add up
    for _ in 0..15 {
        weights::draw(course.sampler, state, &mut course.rng)?;
    }
    Ok(())
}

fn learning<L: Likelihood>(course: &mut Course<'_, L>, state: &mut State<L::Scales>) -> Result<()> {
    weights::draw(course.sampler, state, &mut course.rng)?;
    let stats = course.scan_owned(state)?;
    let sources = course.sampler.rows.len();
    state.atoms.uses = stats.uses.0.iter().map(|&n| n as u32).collect();
    let uses = state.atoms.uses_by_source(sources);
    course.sampler.likelihood.learn_shape(&mut state.scales, &stats.sums, state.atoms.len(), &mut course.rng)?;
    state.factors = course.sampler.likelihood.learn(
        &mut state.atoms.phi,
        &mut state.scales,
        &stats.sums,
        &uses,
        &course.sampler.rows,
        &mut course.rng,
    )?;
    Ok(())
}

#[test]
fn births_and_deaths_alone_keep_the_distribution() {
    // some rows take part, some do not
    kernel_alone(&with_birth_rows(small_counts(Kind::Parallel, vec![2, 2]), 3.0), 30_000, births);
    kernel_alone(&with_birth_rows(small_gaussian(Kind::Parallel, vec![2, 2]), 3.0), 30_000, births);
}

#[test]
fn long_splits_and_merges_alone_keep_the_distribution() {
    kernel_alone(&small_counts(Kind::Parallel, vec![2, 2]), 30_000, splits);
    kernel_alone(&small_gaussian(Kind::Parallel, vec![2, 2]), 30_000, splits);
}

/// Two rows come first, a few more may, and the others are dealt together. Rows are sure of their sides, and attempts many, so that what
/// an attempt leaves behind would be met by the next.
#[test]
fn long_splits_and_merges_of_many_rows_keep_the_distribution() {
    let counts = small_counts(Kind::Parallel, vec![4, 4]).program;
    let scales = Scales { shape: 0.7, atom: 0.5, weight: vec![0.5; 2], background: vec![0.2; 2] };
    let likelihood = Counts { fixed: Some(scales), ..counts.likelihood };
    kernel_alone(&Subject { program: Sampler { likelihood, core: 2, split_merge: 12, ..counts } }, 30_000, splits);
    let reals = small_gaussian(Kind::Parallel, vec![4, 4]).program;
    let scales = gaussian::Scales { atom: 1.0, weight: vec![1.0; 2], noise: vec![4.0; 2] };
    let likelihood = Gaussian { hyper: gaussian::Hyper { fixed: Some(scales), ..reals.likelihood.hyper }, ..reals.likelihood };
    kernel_alone(&Subject { program: Sampler { likelihood, core: 2, split_merge: 12, ..reals } }, 30_000, splits);
}

/// Rows of three kinds: seeds become atoms of one kind each, which rows of that kind use.
#[test]
fn seeded_atoms_are_what_rows_are_made_of() {
    let (rows, width) = (60, 12);
    let x = (0..rows * width).map(|at| if at % width / 4 == at / width % 3 { (3 + at * 7 % 5) as f64 } else { 0.0 });
    let data = Dataset::new(Matrix::dense(rows, width, x.collect::<Vec<f64>>()));
    let program = small_counts(Kind::Parallel, vec![rows as u64]).program;
    let likelihood = Counts { width, first_atom: Some(vec![1.0; width]), ..program.likelihood };
    let sampler = Sampler { likelihood, first_atoms: 12, ..program };
    let cut = blocks(&data, 16);
    let shape = Shape { rows, cols: width, blocks: cut.len() as u32, block_rows: 16 };
    let mut threads = Threads::new(&sampler, &cut, shape, 3, 0, None);
    threads.begin(0);
    let state = sampler.start(&mut threads, Stream::new(3, 0, Purpose::Start)).unwrap();
    assert!((3..=12).contains(&state.atoms.len()), "{} atoms", state.atoms.len());
    let kind = |atom: &[f64]| {
        let mass: Vec<f64> = atom.chunks(4).map(|part| part.iter().sum()).collect();
        (0..3).find(|&k| mass[k] > 0.95 * mass.iter().sum::<f64>())
    };
    let kinds: Vec<usize> = state.atoms.phi.chunks(width).map(|atom| kind(atom).unwrap()).collect();
    for (block, local) in cut.iter().zip(threads.locals()) {
        for (i, list) in local.rows.iter().enumerate() {
            let own = (block.first_row as usize + i) % 3;
            assert!(!list.is_empty() && list.iter().all(|e| kinds[state.atoms.place(e.0).unwrap()] == own), "row {i}: {list:?}");
        }
    }
    let uses: Vec<u32> = state.atoms.ids.iter().flat_map(|&id| users(id, &cut, threads.locals(), 1)).collect();
    assert_eq!(uses, state.atoms.uses);
    // nothing can be seeded from rows without counts: the fit begins with the one atom that all rows have
    let nothing = Dataset::new(Matrix::dense(rows, width, vec![0.0; rows * width]));
    let cut = blocks(&nothing, 16);
    let mut threads = Threads::new(&sampler, &cut, shape, 3, 0, None);
    threads.begin(0);
    let state = sampler.start(&mut threads, Stream::new(3, 0, Purpose::Start)).unwrap();
    assert_eq!((state.atoms.len(), state.atoms.uses[0]), (1, rows as u32));
    assert!(threads.locals().iter().flat_map(|l| &l.rows).all(|list| list == &[(0, 1.0)]));
}

/// Whole sweeps whose splits and merges deal most rows together.
#[test]
fn long_sweeps_that_deal_rows_together_keep_the_joint_distribution() {
    let settings = JointSettings { chains: 150, steps: 60, exact_draws: 20_000, ..Default::default() };
    for kind in [Kind::Parallel, Kind::RowSlice, Kind::Slice] {
        let report = joint_distribution(&with_core(small_counts(kind, vec![2, 3]), 1), &settings, 8, &mut |_| {}).unwrap();
        assert!(report.passed, "{report}");
        let report = joint_distribution(&with_core(small_gaussian(kind, vec![2, 3]), 1), &settings, 8, &mut |_| {}).unwrap();
        assert!(report.passed, "{report}");
    }
}

#[test]
fn long_governors_alone_keep_the_distribution() {
    kernel_alone(&small_counts(Kind::Parallel, vec![2, 1, 2]), 12_000, governors);
    kernel_alone(&small_counts(Kind::Parallel, vec![6, 2, 9]), 12_000, governors);
}

#[test]
fn a_scan_with_owners_keeps_the_distribution() {
    kernel_alone(&small_counts(Kind::Parallel, vec![2, 2]), 30_000, learning);
    kernel_alone(&small_gaussian(Kind::Parallel, vec![2, 2]), 30_000, learning);
}

/// Whole sweeps of one, two and three sources.
fn sweeps<L: Likelihood>(subject: impl Fn(Kind, Vec<u64>) -> Subject<L>) {
    for kind in [Kind::Parallel, Kind::RowSlice, Kind::Slice] {
        for rows in [vec![3], vec![2, 3], vec![1, 2, 1]] {
            let subject = subject(kind, rows);
            let report = sweep_invariance(&subject, &InvarianceSettings { draws: 12_000, ..Default::default() }, 7, &mut |_| {}).unwrap();
            assert!(report.passed, "{report}");
            // products of scales and atoms are skewed: means of few chains are not normal enough for the tails of t
            let settings = JointSettings { chains: 150, steps: 60, exact_draws: 20_000, ..Default::default() };
            let report = joint_distribution(&subject, &settings, 8, &mut |_| {}).unwrap();
            assert!(report.passed, "{report}");
        }
    }
}

#[test]
fn long_sweeps_over_counts_keep_the_joint_distribution() {
    sweeps(small_counts);
}

#[test]
fn long_sweeps_over_real_numbers_keep_the_joint_distribution() {
    sweeps(small_gaussian);
}

#[test]
fn long_the_samplers_are_calibrated() {
    let settings = CalibrationSettings { data_sets: 80, draws: 7, bins: 8, max_thin: 1000, ..Default::default() };
    for kind in [Kind::Parallel, Kind::RowSlice, Kind::Slice] {
        let report = calibration(&small_counts(kind, vec![2, 3]), &settings, 9, &mut |_| {}).unwrap();
        assert!(report.passed, "{report}");
        let report = calibration(&small_gaussian(kind, vec![2, 3]), &settings, 9, &mut |_| {}).unwrap();
        assert!(report.passed, "{report}");
    }
}

/// Mean and error of functions of a chain's states at fixed data, from means of batches.
fn chain<L: Likelihood>(
    subject: &Subject<L>,
    data: &Dataset<'_>,
    concentration: &[f64],
    sweeps: usize,
    f: impl Fn(&State<L::Scales>, &[Local]) -> Vec<f64>,
) -> Vec<(f64, f64)> {
    let program = subject.program();
    let cut = blocks(data, 2);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: cut.len() as u32, block_rows: 2 };
    let mut rows = Threads::new(program, &cut, shape, 3, 0, None);
    let mut state = program.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
    state.concentration = concentration.to_vec();
    let batches = 50;
    let mut means: Vec<Vec<f64>> = Vec::new();
    let warm = sweeps / 20;
    let mut sum: Vec<f64> = Vec::new();
    for sweep in 1..=(warm + sweeps) as u64 {
        rows.begin(sweep);
        let stream = Stream::new(3, 0, Purpose::Sweep).sweep(sweep);
        program.sweep(&mut state, &mut rows, Tick { stream, sweep, warm_up: false }).unwrap();
        if sweep as usize <= warm {
            continue;
        }
        let values = f(&state, rows.locals());
        sum.resize(values.len(), 0.0);
        sum.iter_mut().zip(values).for_each(|(s, v)| *s += v);
        if (sweep as usize - warm).is_multiple_of(sweeps / batches) {
            means.push(sum.iter().map(|s| s / (sweeps / batches) as f64).collect());
            sum.clear();
        }
    }
    (0..means[0].len())
        .map(|c| {
            let n = means.len() as f64;
            let mean = means.iter().map(|m| m[c]).sum::<f64>() / n;
            let variance = means.iter().map(|m| (m[c] - mean) * (m[c] - mean)).sum::<f64>() / (n - 1.0);
            (mean, (variance / n).sqrt())
        })
        .collect()
}

/// A sampler that knows mass and concentrations.
fn known<L>(likelihood: L, kind: Kind, rows: Vec<u64>, mass: f64, split_merge: usize) -> Subject<L> {
    let birth_rows = rows.iter().sum::<u64>() as f64;
    Subject {
        program: Sampler {
            likelihood,
            kind,
            rows,
            mass,
            mass_prior: None,
            concentration: 1.0,
            concentration_prior: None,
            split_merge,
            core: usize::MAX,
            birth_rows,
            most_atoms: usize::MAX,
            shape_from: 0,
            pairs: true,
            first_atoms: 1,
        },
    }
}

/// Two rows of one column: number of atoms, its being 1 and 2, and number of atoms that both use, against sums of compound Poisson distributions.
#[test]
fn long_tiny_posteriors_of_counts() {
    struct Case {
        x: [f64; 2],
        mass: f64,
        rows: Vec<u64>,
        concentration: Vec<f64>,
        background: Vec<f64>,
        atom_shape: f64,
        weight_shape: f64,
        exact: [f64; 4],
    }
    let cases = [
        Case {
            x: [4.0, 5.0],
            mass: 1.2,
            rows: vec![1, 1],
            concentration: vec![1.0, 2.0],
            background: vec![0.3, 0.5],
            atom_shape: 1.0,
            weight_shape: 1.0,
            exact: [2.87313447, 0.1126430, 0.3033508, 1.28928521],
        },
        Case {
            x: [3.0, 0.0],
            mass: 2.0,
            rows: vec![2],
            concentration: vec![3.0],
            background: vec![0.3],
            atom_shape: 0.5,
            weight_shape: 2.0,
            exact: [2.41591915, 0.2324499, 0.3388164, 0.87044361],
        },
    ];
    for case in cases {
        let sources = case.rows.len();
        let fixed = Scales { shape: case.atom_shape, atom: 1.0, weight: vec![0.5; sources], background: case.background.clone() };
        let likelihood = Counts {
            width: 1,
            sources,
            atom_shape: case.atom_shape,
            weight_shape: case.weight_shape,
            background_start: 0.3,
            fixed: Some(fixed),
            ..Counts::of_three_columns()
        };
        for kind in [Kind::Parallel, Kind::RowSlice, Kind::Slice] {
            let subject = known(likelihood.clone(), kind, case.rows.clone(), case.mass, 2);
            let mut data = Dataset::new(Matrix::dense(2, 1, case.x.to_vec()));
            data.sources = Some(Classes { codes: subject.program.sources(), names: (0..sources).map(|j| j.to_string()).collect() });
            let found = chain(&subject, &data, &case.concentration, 40_000, |state, locals| {
                let k = state.atoms.len();
                let lists: Vec<&Vec<(u64, f64)>> = locals.iter().flat_map(|l| &l.rows).collect();
                let both = lists[0].iter().filter(|e| lists[1].iter().any(|o| o.0 == e.0)).count();
                vec![k as f64, f64::from(u8::from(k == 1)), f64::from(u8::from(k == 2)), both as f64]
            });
            for ((mean, error), exact) in found.into_iter().zip(case.exact) {
                assert!((mean - exact).abs() < 4.0 * error, "{kind:?}, x = {:?}: {mean} ± {error} for {exact}", case.x);
            }
        }
    }
}

/// One row of real numbers: the number of atoms against a sum of integrals.
#[test]
fn tiny_posteriors_of_real_numbers() {
    for (x, exact) in [(vec![0.0], 1.05625508), (vec![3.0], 2.28463272), (vec![1.0, -2.0, 0.5], 1.70958682)] {
        let columns = x.len();
        let centre = gaussian::Centre { columns, means: vec![0.0; 2 * columns], scale: 1.0, missing: false };
        let fixed = gaussian::Scales { atom: 1.0, weight: vec![0.5], noise: vec![2.0] };
        let likelihood = Gaussian { centre, hyper: gaussian::Hyper { shape: 1.0, rate: 1.0, fixed: Some(fixed) } };
        for kind in [Kind::Parallel, Kind::RowSlice, Kind::Slice] {
            let subject = known(likelihood.clone(), kind, vec![1], 1.5, 0);
            let mut data = Dataset::new(Matrix::dense(1, columns, x.clone()));
            data.sources = Some(Classes { codes: vec![0], names: vec!["0".into()] });
            let found = chain(&subject, &data, &[1.0], 40_000, |state, _| vec![state.atoms.len() as f64]);
            let (mean, error) = found[0];
            assert!((mean - exact).abs() < 4.0 * error, "{kind:?}, x = {x:?}: {mean} ± {error} for {exact}");
        }
    }
}

/// What is checked is what is set: a larger mass makes more atoms, a larger shape larger entries, and what is learned has test functions.
#[test]
fn settings_reach_the_check() {
    let moments = |settings: &Settings| -> Vec<(String, f64)> {
        let effort = InvarianceSettings { draws: 600, ..Default::default() };
        let report = match settings.likelihood {
            LikelihoodKind::Poisson => sweep_invariance(&Subject::counts(settings, vec![2, 3]), &effort, 1, &mut |_| ()),
            LikelihoodKind::Gaussian => sweep_invariance(&Subject::gaussian(settings, vec![2, 3]), &effort, 1, &mut |_| ()),
        };
        report.unwrap().comparisons.into_iter().map(|c| (c.name, c.expected)).collect()
    };
    let mean = |settings: &Settings, name: &str| moments(settings).into_iter().find(|m| m.0 == name).map(|m| m.1);
    let usual = Settings::default();
    // mass times the expected number of rows that are the first to use an atom of theirs
    let (few, many) = (mean(&usual, "atoms").unwrap(), mean(&Settings { mass: 3.0, ..Settings::default() }, "atoms").unwrap());
    assert!((2.5..3.5).contains(&(many / few)), "{few} and {many}");
    assert_eq!(mean(&usual, "ln mass"), None);
    assert!(mean(&Settings { learn_mass: true, ..Settings::default() }, "ln mass").is_some());
    let shapes = |atom_shape| mean(&Settings { atom_shape, learn_shape: false, ..Settings::default() }, "ln atom_shape 1").unwrap();
    assert_eq!((shapes(0.5), shapes(2.0)), (0.5f64.ln(), 2.0f64.ln()));
    let gaussian = |scale_rate| Settings { likelihood: LikelihoodKind::Gaussian, scale_shape: 5.0, scale_rate, ..Settings::default() };
    let noise = |scale_rate| mean(&gaussian(scale_rate), "ln noise_precision 1").unwrap();
    assert!((noise(0.5) - noise(5.0) - 10.0f64.ln()).abs() < 1e-9, "{} and {}", noise(0.5), noise(5.0));
}
