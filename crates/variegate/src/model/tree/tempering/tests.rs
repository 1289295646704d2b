//! Rungs of tempering with exact draws of all their states and of the rows, and against the enumeration of all trees.
//!
//! Given theta of all rungs, rows have the density `prod_r f(x | theta_r)^tau_r`, whose total is at most a constant: states of all rungs from their
//! priors, accepted with that total, then rows given them, are draws from the joint distribution that a sweep of all rungs keeps.

use rand_distr::{Distribution, StandardNormal};

use super::super::check::Subject;
use super::super::components::{Family, Kernel, Prior};
use super::super::generate::{Generator, Given, Unknowns};
use super::super::margin::{Calibration, Margin, Penalty};
use super::super::program::{Choose, TreeSampler};
use super::super::sampler::tests::{bind, concentrations, enumerate, known, summary};
use super::super::sampler::{Rules, Theta};
use super::*;
use crate::Result;
use crate::check::{Checkable, Generative, Installed, InvarianceSettings, JointSettings, joint_distribution, sweep_invariance};
use crate::data::{Block, Dataset, Matrix, blocks};
use crate::run::{Program, Purpose, Rows, Shape, Stream, Threads, Tick, pool};

/// The joint distribution of all rungs and rows.
struct Ladder {
    generator: Generator,
    /// Variance of normal cells; none of cells that are 0 or 1.
    variance: Option<f64>,
    rungs: usize,
}

impl Ladder {
    /// Of the cell in a row and a column: the log of its total, up to a constant, and a draw of it.
    fn cell(&self, states: &[Unknowns], n: usize, d: usize, rng: Option<&mut Philox>) -> (f64, f64) {
        let width = self.generator.kernel.parameters();
        let theta = |r: usize| &states[r].state.theta[states[r].state.atom[n] as usize * width..][..width];
        let each = || powers(self.rungs).into_iter().enumerate();
        if let Some(variance) = self.variance {
            let total: f64 = each().map(|(_, tau)| tau).sum();
            let mean = each().map(|(r, tau)| tau * theta(r)[d]).sum::<f64>() / total;
            let square: f64 = each().map(|(r, tau)| tau * (theta(r)[d] - mean).powi(2)).sum();
            let z: f64 = rng.map_or(0.0, |rng| StandardNormal.sample(rng));
            return (-0.5 * square / variance, mean + z * (variance / total).sqrt());
        }
        let mass = |code: usize| each().map(|(r, tau)| tau * theta(r)[2 * d + code]).sum::<f64>().exp();
        let (no, yes) = (mass(0), mass(1));
        ((no + yes).ln(), f64::from(rng.is_some_and(|rng| open01(rng) * (no + yes) < yes)))
    }
}

impl Generative for Ladder {
    type Unknowns = Vec<Unknowns>;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Vec<Unknowns>> {
        let Generator { rows, cols, .. } = self.generator;
        loop {
            let states = powers(self.rungs).into_iter().map(|tau| self.generator.draw_unknowns(tau, rng)).collect::<Result<Vec<_>>>()?;
            let ln: f64 = (0..rows * cols).map(|at| self.cell(&states, at / cols, at % cols, None).0).sum();
            assert!(ln <= 1e-12);
            if open01(rng).ln() < ln {
                return Ok(states);
            }
        }
    }

    fn data(&self, states: &Vec<Unknowns>, (): &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let Generator { rows, cols, .. } = self.generator;
        let x: Vec<f64> = (0..rows * cols).map(|at| self.cell(states, at / cols, at % cols, Some(rng)).1).collect();
        Ok(Dataset::new(Matrix::dense(rows, cols, x)))
    }
}

/// A sampler with several temperatures.
struct Tempered {
    ladder: Ladder,
    subject: Subject,
}

impl Tempered {
    fn new(generator: Generator, variance: Option<f64>, choose: Choose, rungs: usize) -> Self {
        let mut subject = Subject::new(generator.clone(), choose);
        subject.program.temperatures = rungs;
        Self { ladder: Ladder { generator, variance, rungs }, subject }
    }
}

impl Checkable for Tempered {
    type Program = TreeSampler;
    type Model = Ladder;

    fn model(&self) -> &Ladder {
        &self.ladder
    }

    fn program(&self) -> &TreeSampler {
        &self.subject.program
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, states: Vec<Unknowns>, blocks: &[Block<'_>]) -> Result<Installed<TreeSampler>> {
        let mut states = states.into_iter();
        let first = states.next().unwrap();
        let mut installed = self.subject.install(first, blocks)?;
        installed.global.hot = states.map(|Unknowns { state, shared }| Rung { state, shared, figures: Figures::default() }).collect();
        Ok(installed)
    }

    fn recover(&self, chain: &Chain, locals: &[()]) -> Result<Vec<Unknowns>> {
        let first = self.subject.recover(chain, locals)?;
        let others = chain.hot.iter().map(|rung| Unknowns { state: rung.state.clone(), shared: rung.shared });
        Ok([first].into_iter().chain(others).collect())
    }

    fn names(&self) -> Vec<String> {
        let own = self.subject.names();
        let of = |r: usize| own.iter().map(move |name| format!("rung {r}: {name}")).chain([format!("rung {r}: log likelihood")]);
        (1..=self.ladder.rungs).flat_map(of).collect()
    }

    fn functions(&self, states: &Vec<Unknowns>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let cols = self.ladder.generator.cols;
        let x = data.x.to_dense();
        for unknowns in states {
            self.subject.functions(unknowns, data, out);
            let (kernel, state) = (&self.ladder.generator.kernel, &unknowns.state);
            let theta = |k: u32| &state.theta[k as usize * kernel.parameters()..][..kernel.parameters()];
            let ln: f64 = x.chunks_exact(cols).zip(&state.atom).map(|(row, &k)| kernel.ln_density(theta(k), row)).sum();
            out.push(ln.max(-100.0));
        }
    }
}

fn rows_of(kernel: Kernel, rows: usize) -> Generator {
    Generator {
        rows,
        cols: 2,
        total: None,
        kernel,
        concentrations: concentrations(2, 0.8, 1.0, 1.2),
        rules: Rules::default(),
        finite: None,
        margin: None,
    }
}

fn normal(rows: usize) -> Generator {
    rows_of(known(&[0.0, 0.0, 1.0, 1.0], 2, 0.5, 1.0), rows)
}

/// Cells 0 or 1; the strength of their prior is learned.
fn binary(rows: usize) -> Generator {
    let prior = Prior { base: Some(vec![0.4, 0.7]), ..Prior::default() };
    rows_of(bind(Family::Bernoulli, &prior, &[0.0, 1.0, 1.0, 0.0], 2), rows)
}

/// The same with a margin, stated or calibrated.
fn with_margin(generator: Generator, calibrated: bool) -> Generator {
    // few rows: trees, scores and parameters are drawn by rejection
    let features = vec![1.3, -0.8, 0.5, -1.6, 0.2, 1.1];
    let margin = Margin { separation: 0.25, margin: 0.5, spread: 1.0, penalty: Penalty::Max };
    let norms: Vec<f64> = features.chunks(2).map(|phi: &[f64]| (phi[0] * phi[0] + phi[1] * phi[1]).sqrt()).collect();
    let calibration = calibrated.then(|| Calibration::new(&margin, &norms).unwrap());
    Generator { rows: 3, margin: Some(Given { margin, features, width: 2, calibration }), ..generator }
}

#[test]
fn powers_run_from_1_to_a_fifth() {
    assert_eq!(powers(1), [1.0]);
    assert_eq!(powers(2), [1.0, 0.2]);
    let three = powers(3);
    assert!((three[1] - 0.2f64.sqrt()).abs() < 1e-15 && three[2] == 0.2);
}

/// One sweep of all rungs with its swaps, from exact draws: normal and binary cells, with and without a margin, all samplers.
#[test]
fn long_a_tempered_sweep_keeps_the_distribution() {
    let half = Some(0.5);
    let explicit = Rules { theta: Theta::Explicit, ..Rules::default() };
    let cases = [
        ("normal, three rungs", normal(4), half, Choose::InTurn, 3),
        ("normal, drawn parameters", Generator { rules: explicit, ..normal(4) }, half, Choose::InTurn, 2),
        ("binary", binary(4), None, Choose::InTurn, 2),
        ("normal, stated", with_margin(normal(3), false), half, Choose::InTurn, 2),
        ("binary, calibrated", with_margin(binary(3), true), None, Choose::InTurn, 2),
        ("slices", normal(4), half, Choose::Slices, 2),
        ("anchors, calibrated", with_margin(binary(3), true), None, Choose::Anchors, 2),
    ];
    for (i, (what, generator, variance, choose, rungs)) in cases.into_iter().enumerate() {
        // draws of three rungs, or with a calibrated margin, are dear
        let draws = if rungs > 2 || what.ends_with("calibrated") { 1_000 } else { 3_000 };
        let settings = InvarianceSettings { draws, false_alarm_rate: 1e-4 };
        let tempered = Tempered::new(generator, variance, choose, rungs);
        let report = sweep_invariance(&tempered, &settings, 70 + i as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{what}: {report}");
    }
}

/// Sweeps one after the other, rows drawn anew in between.
#[test]
fn long_tempered_sweeps_keep_the_joint_distribution() {
    for (what, generator, variance) in [("normal", normal(4), Some(0.5)), ("binary, stated", with_margin(binary(3), false), None)] {
        let settings = JointSettings { chains: 60, steps: 40, exact_draws: 5_000, false_alarm_rate: 1e-4 };
        let report = joint_distribution(&Tempered::new(generator, variance, Choose::InTurn, 2), &settings, 80, &mut |_| ()).unwrap();
        assert!(report.passed, "{what}: {report}");
    }
}

/// Runs a chain with so many rungs over one column of rows; `see` is shown it after each sweep.
fn run(program: &TreeSampler, x: &[f64], sweeps: u64, block_rows: usize, mut see: impl FnMut(u64, &mut Chain)) -> Chain {
    let data = Dataset::new(Matrix::dense(x.len(), 1, x.to_vec()));
    let cut = blocks(&data, block_rows);
    let shape = Shape { rows: x.len(), cols: 1, blocks: cut.len() as u32, block_rows };
    let mut rows = Threads::new(program, &cut, shape, 3, 0, None);
    rows.begin(0);
    let mut chain = program.start(&mut rows, Stream::new(3, 0, Purpose::Start)).unwrap();
    for sweep in 1..=sweeps {
        rows.begin(sweep);
        let tick = Tick { stream: Stream::new(3, 0, Purpose::Sweep).sweep(sweep), sweep, warm_up: sweep <= 10 };
        program.sweep(&mut chain, &mut rows as &mut dyn Rows<TreeSampler>, tick).unwrap();
        see(sweep, &mut chain);
    }
    chain
}

/// Every rung against all trees of four rows: the first has the posterior, the others that with powers of the likelihood.
#[test]
fn long_every_rung_meets_its_exact_distribution() {
    // with slices no row moves by itself, so that nothing makes up for densities to a wrong power
    for choose in [Choose::InTurn, Choose::Slices] {
        meets_the_exact_distributions(choose);
    }
}

/// 66 statistics, a false alarm in 500 runs.
fn meets_the_exact_distributions(choose: Choose) {
    let x = [-1.5, -1.2, 1.0, 1.9];
    let rules = Rules { split_merges: 0, ..Rules::default() };
    let four = rows_of(known(&x, 1, 0.5, 4.0), 4);
    let generator = Generator { cols: 1, concentrations: concentrations(2, 0.7, 1.3, 0.9), rules, ..four };
    let mut program = Subject::new(generator.clone(), choose).program;
    program.temperatures = 3;
    let (batches, each) = (100, 200);
    let mut sums = vec![vec![]; 3];
    let chain = run(&program, &x, 10 + batches * each, 4, |sweep, chain| {
        let states = [&chain.state].into_iter().chain(chain.hot.iter().map(|rung| &rung.state));
        for (all, state) in sums.iter_mut().zip(states).filter(|_| sweep > 10) {
            if sweep % each == 11 {
                all.push(vec![0.0; 22]);
            }
            let sum: &mut Vec<f64> = all.last_mut().unwrap();
            sum.iter_mut().zip(summary(state)).for_each(|(s, v)| *s += v / each as f64);
        }
    });
    for (sums, tau) in sums.iter().zip(powers(3)) {
        let exact = enumerate(&x, 1, 2, &generator.kernel.clone().tempered(tau), &generator.concentrations).1;
        for (i, exact) in exact.into_iter().enumerate() {
            let n = sums.len() as f64;
            let mean = sums.iter().map(|s| s[i]).sum::<f64>() / n;
            let error = (sums.iter().map(|s| (s[i] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
            assert!(((mean - exact) / error).abs() < 4.2, "{choose:?}, power {tau}: statistic {i} is {mean} +- {error}, exactly {exact}");
        }
    }
    // pairs take turns, and none is counted in the warm-up
    assert_eq!(chain.swaps.iter().map(|s| s.tried).collect::<Vec<_>>(), [batches * each / 2; 2]);
    assert!(chain.swaps.iter().all(|s| s.rate() > 0.2 && s.rate() < 0.95), "{:?}", chain.swaps);
}

/// A tempered chain that is saved and goes on makes the draws that it would have made, whatever the blocks and threads; and begins in the state
/// of one that is not tempered.
#[test]
fn a_tempered_chain_goes_on_as_if_it_had_never_stopped() {
    let x: Vec<f64> = (0..30).map(|n| f64::from(n % 3) * 3.0 + f64::from(n * 7 % 11) * 0.1).collect();
    for choose in [Choose::InTurn, Choose::Slices, Choose::Anchors] {
        let generator = Generator { cols: 1, ..rows_of(known(&x, 1, 0.5, 4.0), 30) };
        let mut program = Subject::new(generator, choose).program;
        let plain = run(&program, &x, 0, 7, |_, _| ());
        program.temperatures = 3;
        assert_eq!(run(&program, &x, 0, 7, |_, _| ()).state, plain.state, "{choose:?}");
        let whole = run(&program, &x, 20, 7, |_, _| ());
        let again = run(&program, &x, 20, 30, |sweep, chain| {
            if sweep == 9 {
                *chain = postcard::from_bytes(&postcard::to_stdvec(chain).unwrap()).unwrap();
            }
        });
        let threads = pool(3).unwrap().install(|| run(&program, &x, 20, 4, |_, _| ()));
        let hot = |chain: &Chain| chain.hot.iter().map(|rung| rung.state.clone()).collect::<Vec<_>>();
        for other in [again, threads] {
            assert_eq!((&other.state, hot(&other), &other.swaps), (&whole.state, hot(&whole), &whole.swaps), "{choose:?}");
        }
        assert!(whole.hot.iter().all(|rung| rung.state != whole.state), "the rungs differ");
        assert_eq!(whole.kernel.tau(), 1.0, "what is said of new rows is at power 1");
    }
}
