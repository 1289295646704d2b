//! The checks on two toy samplers that are right, and on copies of them that are wrong in ways real samplers have been.

use rand_distr::{Beta, Distribution, Gamma, StandardNormal};
use serde::{Deserialize, Serialize};

use super::*;
use crate::data::{Dataset, Matrix};
use crate::merge_fields;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Sum, Tick, open01};
use crate::{Error, Result};

const RIGHT: Mistake = Mistake::None;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// Variance of a Gaussian draw 10 % too large.
    Variance,
    /// The prior of the mean is left out of its conditional.
    NoPrior,
    /// Gamma shape lacks half a row.
    Shape,
    /// The precision is drawn given the mean of the sweep before.
    Stale,
    /// Of all blocks only the first is asked.
    OneBlock,
}

// ---- a Gaussian with unknown mean and precision, by Gibbs -----------------------------------------------------------------

/// y_i ~ N(μ, 1/τ), μ ~ N(0, 1), τ ~ Gamma(4, rate 4); n rows.
struct Normal {
    rows: usize,
    program: NormalGibbs,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Point {
    mu: f64,
    tau: f64,
}

#[derive(Default, Serialize, Deserialize)]
struct Sums {
    count: Sum<f64>,
    sum: Sum<f64>,
    squares: Sum<f64>,
}
merge_fields!(Sums, count, sum, squares);

struct NormalGibbs(Mistake);

impl Program for NormalGibbs {
    const NAME: &'static str = "toy/normal";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = Point;
    type Local = ();
    type Ask<'a> = ();
    type Stats = Sums;
    type Scratch = ();

    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<Point> {
        Ok(Point { mu: 4.0 * open01(&mut stream.rng()) - 2.0, tau: 1.0 })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, point: &mut Point, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let some = crate::run::Which::Some(&[0]);
        let s = if self.0 == Mistake::OneBlock { rows.visit(&(), some)? } else { rows.all(&())? };
        let (n, sum, squares) = (s.count.0, s.sum.0, s.squares.0);
        let mut rng = tick.stream.rng();
        let before = point.mu;
        let precision = n * point.tau + if self.0 == Mistake::NoPrior { 0.0 } else { 1.0 };
        let z: f64 = StandardNormal.sample(&mut rng);
        let inflate: f64 = if self.0 == Mistake::Variance { 1.1 } else { 1.0 };
        point.mu = point.tau * sum / precision + z * (inflate / precision).sqrt();
        let mu = if self.0 == Mistake::Stale { before } else { point.mu };
        let shape = 4.0 + 0.5 * if self.0 == Mistake::Shape { n - 1.0 } else { n };
        let rate = 4.0 + 0.5 * (squares - 2.0 * mu * sum + n * mu * mu);
        point.tau = gamma(shape, rate, &mut rng);
        Ok(Report::default())
    }

    fn visit(&self, _: &(), block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Sums> {
        let mut sums = Sums::default();
        for i in 0..block.rows() {
            block.x.for_row(i, |_, y| {
                sums.sum.0 += y;
                sums.squares.0 += y * y;
            });
            sums.count.0 += 1.0;
        }
        Ok(sums)
    }

    fn draw(&self, point: &Point, out: &mut Draws) {
        out.scalar("mu", point.mu);
    }
}

fn gamma(shape: f64, rate: f64, rng: &mut Philox) -> f64 {
    Gamma::new(shape, 1.0 / rate).unwrap().sample(rng)
}

impl Generative for Normal {
    type Unknowns = Point;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Point> {
        Ok(Point { mu: StandardNormal.sample(rng), tau: gamma(4.0, 4.0, rng) })
    }

    fn data(&self, point: &Point, _: &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let sd = point.tau.powf(-0.5);
        let values: Vec<f64> = (0..self.rows)
            .map(|_| {
                let z: f64 = StandardNormal.sample(rng);
                point.mu + sd * z
            })
            .collect();
        Ok(Dataset::new(Matrix::dense(self.rows, 1, values)))
    }
}

impl Checkable for Normal {
    type Program = NormalGibbs;
    type Model = Self;

    fn block_rows(&self) -> usize {
        2
    }

    fn model(&self) -> &Self {
        self
    }

    fn program(&self) -> &NormalGibbs {
        &self.program
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, point: Point, _: &[Block<'_>]) -> Result<Installed<NormalGibbs>> {
        Ok(Installed { global: point, locals: None })
    }

    fn recover(&self, point: &Point, _: &[()]) -> Result<Point> {
        Ok(point.clone())
    }

    fn names(&self) -> Vec<String> {
        ["mu", "mu²", "tau", "log tau", "mu·y", "tau (y−mu)²"].map(String::from).to_vec()
    }

    fn functions(&self, p: &Point, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let y = data.x.to_dense();
        let sum: f64 = y.iter().sum();
        let distance: f64 = y.iter().map(|y| (y - p.mu) * (y - p.mu)).sum();
        out.extend([p.mu, p.mu * p.mu, p.tau, p.tau.ln(), p.mu * sum, p.tau * distance]);
    }
}

fn normal(mistake: Mistake) -> Normal {
    Normal { rows: 5, program: NormalGibbs(mistake) }
}

fn invariance_of(subject: &impl Checkable, draws: u64) -> CheckReport {
    sweep_invariance(subject, &InvarianceSettings { draws, false_alarm_rate: 1e-4 }, 1, &mut |_| ()).unwrap()
}

fn joint_of(subject: &impl Checkable) -> CheckReport {
    let settings = JointSettings { chains: 100, steps: 200, exact_draws: 50_000, false_alarm_rate: 1e-4 };
    joint_distribution(subject, &settings, 2, &mut |_| ()).unwrap()
}

fn calibration_of(subject: &impl Checkable, data_sets: u64) -> CheckReport {
    let settings = CalibrationSettings { data_sets, draws: 31, bins: 8, warm_up: 20, false_alarm_rate: 1e-4, ..Default::default() };
    calibration(subject, &settings, 3, &mut |_| ()).unwrap()
}

#[test]
fn a_right_sampler_passes_everything() {
    let subject = normal(RIGHT);
    for report in [invariance_of(&subject, 50_000), joint_of(&subject), calibration_of(&subject, 2_000)] {
        assert!(report.passed, "{report}");
        assert_eq!(report.comparisons.len(), 6);
        assert_eq!(report.subject, "toy/normal");
    }
}

#[test]
fn one_step_sees_a_variance_that_is_ten_percent_off() {
    let report = invariance_of(&normal(Mistake::Variance), 50_000);
    assert!(!report.passed && report.to_string().contains("mu²"), "{report}");
}

#[test]
fn every_check_sees_a_missing_prior() {
    let subject = normal(Mistake::NoPrior);
    for report in [invariance_of(&subject, 20_000), joint_of(&subject), calibration_of(&subject, 2_000)] {
        assert!(!report.passed, "{report}");
        assert!(report.failures().any(|c| c.name.contains("mu")), "{report}");
    }
}

#[test]
fn wrong_shapes_stale_values_and_lost_blocks_are_seen() {
    for mistake in [Mistake::Shape, Mistake::Stale, Mistake::OneBlock] {
        let report = invariance_of(&normal(mistake), 50_000);
        assert!(!report.passed, "{mistake:?}: {report}");
    }
    for mistake in [Mistake::Shape, Mistake::Stale] {
        assert!(!joint_of(&normal(mistake)).passed, "{mistake:?}");
    }
    assert!(!calibration_of(&normal(Mistake::OneBlock), 1_000).passed);
}

#[test]
fn reports_do_not_depend_on_threads_and_travel() {
    let effort = Effort {
        invariance: InvarianceSettings { draws: 1_000, ..Default::default() },
        joint: JointSettings { chains: 10, steps: 20, exact_draws: 500, ..Default::default() },
        calibration: CalibrationSettings { data_sets: 80, ..Default::default() },
    };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut done = Vec::new();
        let reports = pool.install(|| check(&normal(RIGHT), &effort, 9, &mut |p| done.push(p)).unwrap());
        assert_eq!(done.iter().filter(|p| p.done == 1.0).count(), 3);
        reports
    };
    let one = on(1);
    assert_eq!(
        one.iter().map(|r| r.check.as_str()).collect::<Vec<_>>(),
        ["one-step invariance", "joint distribution", "simulation-based calibration"]
    );
    assert_eq!(one, on(3));
    let bytes = postcard::to_stdvec(&one).unwrap();
    assert_eq!(postcard::from_bytes::<Vec<CheckReport>>(&bytes).unwrap(), one);
}

#[test]
fn a_sampler_that_hardly_moves_is_not_judged_by_ranks() {
    // Everything is in order but the limit of one sweep a draw.
    let settings = CalibrationSettings { max_thin: 1, data_sets: 80, ..Default::default() };
    let error = calibration(&normal(RIGHT), &settings, 1, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Unfit(_)) && error.to_string().contains("max_thin"), "{error}");
}

// ---- a mixture whose sweep begins from the latents that the blocks have kept ----------------------------------------------

/// z_i ~ Bernoulli(p), y_i ~ N(z_i, 1), p ~ Beta(2, 2). The sweep draws p given the kept z, then z given p.
struct Mixture {
    rows: usize,
    forgets_latents: bool,
}

#[derive(Clone)]
struct Latent {
    p: f64,
    z: Vec<bool>,
}

struct MixtureGibbs;

impl Program for MixtureGibbs {
    const NAME: &'static str = "toy/mixture";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = f64;
    type Local = Vec<bool>;
    type Ask<'a> = Option<f64>;
    type Stats = Sums;
    type Scratch = ();

    fn start(&self, _: &mut dyn Rows<Self>, _: Stream) -> Result<f64> {
        Ok(0.5)
    }

    fn local(&self, block: &Block<'_>, stream: Stream) -> Vec<bool> {
        let mut rng = stream.rng();
        (0..block.rows()).map(|_| open01(&mut rng) < 0.5).collect()
    }

    fn sweep(&self, p: &mut f64, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let kept = rows.all(&None)?;
        let (n, ones) = (kept.count.0, kept.sum.0);
        *p = Beta::new(2.0 + ones, 2.0 + n - ones).unwrap().sample(&mut tick.stream.rng());
        rows.all(&Some(*p))?;
        Ok(Report::default())
    }

    fn visit(&self, ask: &Option<f64>, block: &Block<'_>, z: &mut Vec<bool>, _: &mut (), stream: Stream) -> Result<Sums> {
        let mut rng = stream.rng();
        if let Some(p) = ask {
            for (i, z) in z.iter_mut().enumerate() {
                let mut y = 0.0;
                block.x.for_row(i, |_, v| y = v);
                // N(y; 1, 1) / N(y; 0, 1) = exp(y − 1/2)
                let odds = p / (1.0 - p) * (y - 0.5).exp();
                *z = open01(&mut rng) < odds / (1.0 + odds);
            }
        }
        let ones = z.iter().filter(|z| **z).count() as f64;
        Ok(Sums { count: Sum(z.len() as f64), sum: Sum(ones), ..Sums::default() })
    }

    fn draw(&self, p: &f64, out: &mut Draws) {
        out.scalar("p", *p);
    }
}

impl Generative for Mixture {
    type Unknowns = Latent;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Latent> {
        let p = Beta::new(2.0, 2.0).unwrap().sample(rng);
        Ok(Latent { p, z: (0..self.rows).map(|_| open01(rng) < p).collect() })
    }

    fn data(&self, latent: &Latent, _: &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let noisy = |z: &bool| {
            let noise: f64 = StandardNormal.sample(rng);
            f64::from(*z) + noise
        };
        let values: Vec<f64> = latent.z.iter().map(noisy).collect();
        Ok(Dataset::new(Matrix::dense(self.rows, 1, values)))
    }
}

impl Checkable for Mixture {
    type Program = MixtureGibbs;
    type Model = Self;

    fn model(&self) -> &Self {
        self
    }

    fn program(&self) -> &MixtureGibbs {
        &MixtureGibbs
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, latent: Latent, blocks: &[Block<'_>]) -> Result<Installed<MixtureGibbs>> {
        let of = |b: &Block<'_>| latent.z[b.first_row as usize..][..b.rows()].to_vec();
        let locals = (!self.forgets_latents).then(|| blocks.iter().map(of).collect());
        Ok(Installed { global: latent.p, locals })
    }

    fn recover(&self, p: &f64, locals: &[Vec<bool>]) -> Result<Latent> {
        Ok(Latent { p: *p, z: locals.concat() })
    }

    fn names(&self) -> Vec<String> {
        ["p", "p²", "ones", "z·y", "z₀ z₁", "p·ones"].map(String::from).to_vec()
    }

    fn functions(&self, latent: &Latent, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let z: Vec<f64> = latent.z.iter().map(|z| f64::from(*z)).collect();
        let ones: f64 = z.iter().sum();
        let product: f64 = data.x.to_dense().iter().zip(&z).map(|(y, z)| y * z).sum();
        out.extend([latent.p, latent.p * latent.p, ones, product, z[0] * z[1], latent.p * ones]);
    }
}

#[test]
fn latents_in_the_blocks_are_carried_along() {
    let subject = Mixture { rows: 6, forgets_latents: false };
    for report in [invariance_of(&subject, 30_000), joint_of(&subject), calibration_of(&subject, 500)] {
        assert!(report.passed, "{report}");
    }
}

#[test]
fn latents_that_are_not_installed_are_noticed() {
    // The sweep reads the kept latents first: starting them afresh is not a legitimate refresh, and the checks must say so.
    let subject = Mixture { rows: 6, forgets_latents: true };
    assert!(!invariance_of(&subject, 30_000).passed);
}

#[test]
fn a_wrong_number_of_test_functions_is_an_error() {
    struct Short(Normal);
    impl Checkable for Short {
        type Program = NormalGibbs;
        type Model = Normal;
        fn model(&self) -> &Normal {
            &self.0
        }
        fn program(&self) -> &NormalGibbs {
            self.0.program()
        }
        fn given(&self, _: &mut Philox) {}
        fn install(&self, point: Point, blocks: &[Block<'_>]) -> Result<Installed<NormalGibbs>> {
            self.0.install(point, blocks)
        }
        fn recover(&self, point: &Point, locals: &[()]) -> Result<Point> {
            self.0.recover(point, locals)
        }
        fn names(&self) -> Vec<String> {
            vec!["mu".into()]
        }
        fn functions(&self, point: &Point, data: &Dataset<'_>, out: &mut Vec<f64>) {
            self.0.functions(point, data, out);
        }
    }
    let short = Short(normal(RIGHT));
    assert!(sweep_invariance(&short, &InvarianceSettings::default(), 1, &mut |_| ()).is_err());
}
