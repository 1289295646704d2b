//! A whole model family in one file: Bayesian probit regression by data augmentation (Albert and Chib 1993).
//!
//! y = 1 where a hidden z is positive, z ~ N(wᵀx̃, 1), w_j ~ N(0, 1/`prior_precision`). Given w, every z is a truncated normal; given
//! the z, w is Gaussian with precision Q = Σ x̃x̃ᵀ + P₀ and mean Q⁻¹ Σ z x̃. The book's chapter "Add a model" walks through this
//! file; run it with `cargo run --package variegate --example probit`.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

use variegate::answer::{
    Answers, ClassProbabilities, Dim, DrawTable, KeptDraws, NamedArray, Origin, Posterior, PredictClasses, Summary, check_prediction_rows,
    choose_method, for_panels,
};
use variegate::check::generative::normal_features;
use variegate::check::{CheckReport, Checkable, Effort, Generative, Installed, Progress, check};
use variegate::data::design::PanelScratch;
use variegate::data::{Classes, Dataset, Design, Matrix, Needs, Questions, Scaling, Survey, Target, TargetKind};
use variegate::dist::TruncatedNormal;
use variegate::linalg::{Cholesky, dot};
use variegate::model::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, resolve};
use variegate::run::{Block, Draws, Philox, Piece, Program, Purpose, Report, Rows, Schedule, Stream, Sum, Tick, open01, state};
use variegate::special::{ln_norm_cdf, norm_cdf};
use variegate::{Error, Result, merge_fields, settings};

/// What is kept in files, and which releases changed it.
const SCHEMA: state::Kind = state::Kind::new("probit schema", &["0.1"]);
const SAVED: state::Kind = state::Kind::new("probit posterior", &["0.1"]);

// ---------------------------------------------------------------------------------------------------------- the sampler

struct Gibbs {
    design: Design,
    precision: f64,
}

#[derive(Serialize, Deserialize)]
struct State {
    weights: Vec<f64>,
    /// The weights that the last sweep started from: their log joint density is known, so they are what is kept.
    visited: Vec<f64>,
    log_joint: f64,
}

#[derive(Serialize, Deserialize)]
struct Ask<'a>(Cow<'a, [f64]>);

#[derive(Default, Serialize, Deserialize)]
struct Stats {
    gram: Sum<Vec<f64>>,
    linear: Sum<Vec<f64>>,
    log_likelihood: Sum<f64>,
}
merge_fields!(Stats, gram, linear, log_likelihood);

#[derive(Default)]
struct Scratch {
    panel: PanelScratch,
    eta: Vec<f64>,
    ones: Vec<f64>,
}

impl Program for Gibbs {
    const NAME: &'static str = "probit/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let mut rng = stream.rng();
        let weights: Vec<f64> = (0..self.design.dim()).map(|_| StandardNormal.sample(&mut rng)).collect();
        Ok(State { visited: weights.clone(), weights, log_joint: f64::NAN })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let stats = rows.all(&Ask(Cow::Borrowed(&state.weights)))?;
        let constant = 0.5 * (self.precision / (2.0 * std::f64::consts::PI)).ln();
        let log_prior: f64 = state.weights.iter().map(|w| constant - 0.5 * self.precision * w * w).sum();
        state.log_joint = stats.log_likelihood.0 + log_prior;

        let dim = self.design.dim();
        let mut q = stats.gram.0;
        for j in 0..dim {
            q[j * dim + j] += self.precision;
        }
        let (factor, _) = Cholesky::with_jitter(dim, &q).map_err(|e| Error::Numerical {
            what: "the Gaussian draw of the weights",
            sweep: tick.sweep,
            detail: format!("{e}; standardise the columns, or raise `prior_precision`"),
        })?;
        // L⁻ᵀ (L⁻¹ h + noise) is a draw from N(Q⁻¹ h, Q⁻¹)
        let mut rng = tick.stream.rng();
        let mut next = stats.linear.0;
        factor.solve_lower(&mut next);
        for v in &mut next {
            let noise: f64 = StandardNormal.sample(&mut rng);
            *v += noise;
        }
        factor.solve_upper(&mut next);
        state.visited = std::mem::replace(&mut state.weights, next);
        Ok(Report { objective: state.log_joint, ..Report::default() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let (n, dim) = (block.rows(), self.design.dim());
        let Scratch { panel, eta, ones } = scratch;
        eta.resize(n, f64::NAN);
        ones.resize(n, 1.0);
        let mut panel = self.design.panel(block.x, panel);
        panel.mul_t(&ask.0, 1, eta);
        let mut rng = stream.rng();
        let mut log_likelihood = 0.0;
        for (value, &class) in eta.iter_mut().zip(block.y.classes()) {
            let mean = *value;
            let (lower, upper, sign) = if class == 1 { (0.0, f64::INFINITY, 1.0) } else { (f64::NEG_INFINITY, 0.0, -1.0) };
            log_likelihood += ln_norm_cdf(sign * mean);
            *value = TruncatedNormal::new(mean, 1.0, lower, upper)?.sample(&mut rng);
        }
        let mut stats = Stats { gram: Sum(vec![0.0; dim * dim]), linear: Sum(vec![0.0; dim]), log_likelihood: Sum(log_likelihood) };
        panel.weighted_gram_add(&ones[..n], &mut stats.gram.0);
        panel.t_mul_add(&eta[..n], 1, &mut stats.linear.0);
        Ok(stats)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("log_joint", state.log_joint);
        out.vector("weights", &state.visited);
    }
}

// -------------------------------------------------------------------------------------------------- settings and family

settings! {
    /// Settings of a fit.
    struct Settings {
        /// Prior precision of each weight.
        prior_precision: f64 = 1.0, in positive(), read by Simulate, Check;
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
    }
}

impl Settings {
    fn validate(self) -> Result<ProbitModel> {
        self.check_ranges()?;
        Ok(ProbitModel { settings: self })
    }

    /// The sampler: for a fit, for `simulate` and for the checks.
    fn program(&self, design: Design) -> Gibbs {
        Gibbs { design, precision: self.prior_precision }
    }
}

struct Probit;

impl Family for Probit {
    fn name(&self) -> &'static str {
        "probit"
    }

    fn title(&self) -> &'static str {
        "Bayesian probit regression by data augmentation"
    }

    fn about(&self) -> &'static str {
        "Two classes, one linear boundary, a normal tail instead of a logistic one."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        Request::table()
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(self.name(), given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(state::unseal::<ProbitPosterior>(SAVED, saved)?))
    }
}

// ------------------------------------------------------------------------------------------------ model, fit, simulation

struct ProbitModel {
    settings: Settings,
}

/// Everything about the data that results depend on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Schema {
    columns: Vec<String>,
    classes: Vec<String>,
    design: Design,
}

impl Model for ProbitModel {
    fn family(&self) -> &'static dyn Family {
        &Probit
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn questions(&self) -> Questions {
        Questions { columns: true, ..Questions::needing(Needs::target(TargetKind::Classes)) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let header = survey.header();
        if header.classes().len() != 2 {
            return Err(Error::Unfit(format!("probit separates two classes, but the target has {}", header.classes().len())));
        }
        if header.weighted {
            return Err(Error::Unfit("probit takes no row weights: repeat the rows instead".into()));
        }
        let (design, dropped) = survey.design(Scaling::default())?;
        let warnings = survey.column_warnings(&dropped, true);
        self.bind(Schema { columns: header.columns.clone(), classes: header.classes().to_vec(), design }, warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        self.bind(state::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request: Request = resolve("simulate probit", request)?;
        let mut rng = Stream::new(seed, 0, Purpose::Simulate).rng();
        let model = self.settings.program(Design::identity(request.columns, true));
        let weights = model.prior(&mut rng)?;
        let x = normal_features(rows, request.columns, &mut rng);
        let mut data = model.data(&weights, &x, &mut rng)?;
        data.columns = (1..=request.columns).map(|j| format!("x{j}")).collect();
        let mut truth = Map::new();
        truth.insert("coefficients".into(), json!(&weights[..request.columns]));
        truth.insert("intercept".into(), json!(weights[request.columns]));
        Ok(Simulation { data, truth })
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        let request: Request = resolve("simulate probit", request)?;
        let mut weights = truth.numbers("coefficients", request.columns)?;
        weights.push(truth.number("intercept")?);
        let mut rng = Truth::stream(seed).rng();
        let x = normal_features(rows, request.columns, &mut rng);
        let mut data = self.settings.program(Design::identity(request.columns, true)).data(&weights, &x, &mut rng)?;
        data.columns = (1..=request.columns).map(|j| format!("x{j}")).collect();
        Ok(Simulation { data, truth: truth.told() })
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check(&self.settings.program(Design::identity(2, true)), effort, seed, progress)
    }
}

settings! {
    /// What to simulate.
    struct Request {
        /// Number of feature columns.
        columns: usize = 3, in whole(1, 1000);
    }
}

impl ProbitModel {
    fn bind(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let s = &self.settings;
        let program = s.program(schema.design.clone());
        let schedule = Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin };
        let sealed = state::seal(SCHEMA, &schema)?;
        let read = move |chains: &[Piece]| {
            let draws = KeptDraws::of(chains)?;
            let weights = draws.vectors("weights", schema.design.dim())?;
            Ok(Box::new(ProbitPosterior { schema: schema.clone(), lengths: draws.lengths(), weights }) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), s.n_chains, schedule, sealed, warnings, read))
    }
}

// ------------------------------------------------------------------------------------------------------------- posterior

const METHODS: &[&str] = &["average"];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ProbitPosterior {
    schema: Schema,
    lengths: Vec<usize>,
    weights: Vec<f64>,
}

impl PredictClasses for ProbitPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        choose_method(method, METHODS)?;
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let design = &self.schema.design;
        let draws: usize = self.lengths.iter().sum();
        let mut probability = vec![0.0; 2 * data.rows()];
        let (mut scratch, mut eta) = (PanelScratch::default(), Vec::new());
        for_panels(data.x.view(), |first, count, x| {
            eta.resize(x.rows() * draws, 0.0);
            design.panel(x, &mut scratch).mul_t(&self.weights, draws, &mut eta);
            for (i, eta) in eta.chunks_exact(draws).enumerate().take(count) {
                let yes: f64 = eta.iter().map(|&e| norm_cdf(e)).sum::<f64>() / draws as f64;
                let no: f64 = eta.iter().map(|&e| norm_cdf(-e)).sum::<f64>() / draws as f64;
                probability[2 * (first + i)] = no;
                probability[2 * (first + i) + 1] = yes;
            }
        });
        Ok(ClassProbabilities { probability, ..ClassProbabilities::default() })
    }
}

impl Posterior for ProbitPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: "probit", columns: &self.schema.columns, width: self.schema.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { classes: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        let dim = self.schema.design.dim();
        let mut table = DrawTable::new("coefficients", &self.lengths);
        let names = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
        for (j, name) in names.enumerate() {
            table.row(name, &self.weights.iter().skip(j).step_by(dim).copied().collect::<Vec<f64>>());
        }
        let (table, verdict) = table.finish();
        Summary {
            facts: DrawTable::facts(&self.lengths).into(),
            tables: vec![table],
            converged: verdict.converged,
            notes: verdict.sentences,
            ..Summary::default()
        }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let dim = self.schema.design.dim();
        let dims = vec![Dim::counted("draw", self.weights.len() / dim), Dim::counted("weight", dim)];
        vec![NamedArray::new("weights_draws", dims, self.weights.clone()), NamedArray::chain_lengths(&self.lengths)]
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

// ------------------------------------------------------------------------------------------ the distribution and the check

/// Weights from the prior, labels given them and the columns; the last weight is the bias. Columns are taken as they are.
impl Generative for Gibbs {
    type Unknowns = Vec<f64>;
    type Given = Matrix<'static>;

    fn prior(&self, rng: &mut Philox) -> Result<Vec<f64>> {
        let sd = self.precision.sqrt().recip();
        Ok((0..self.design.dim()).map(|_| StandardNormal.sample(rng)).map(|z: f64| sd * z).collect())
    }

    fn data(&self, weights: &Vec<f64>, x: &Matrix<'static>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let cols = x.cols();
        let eta = |row: &[f64]| weights[cols] + dot(row, &weights[..cols]);
        let codes = x.to_dense().chunks_exact(cols).map(|row| u32::from(open01(rng) < norm_cdf(eta(row)))).collect();
        let names = vec!["no".to_string(), "yes".to_string()];
        Ok(Dataset::new(x.clone()).with_target(Target::Classes(Classes { codes, names })))
    }
}

impl Checkable for Gibbs {
    type Program = Self;
    type Model = Self;

    fn model(&self) -> &Self {
        self
    }

    fn program(&self) -> &Self {
        self
    }

    /// Eight rows.
    fn given(&self, rng: &mut Philox) -> Matrix<'static> {
        normal_features(8, self.design.raw_cols, rng)
    }

    fn install(&self, weights: Vec<f64>, _: &[Block<'_>]) -> Result<Installed<Self>> {
        Ok(Installed { global: State { visited: weights.clone(), weights, log_joint: f64::NAN }, locals: None })
    }

    fn recover(&self, state: &State, _: &[()]) -> Result<Vec<f64>> {
        Ok(state.weights.clone())
    }

    fn names(&self) -> Vec<String> {
        ["w0", "w1", "bias", "w0²", "log likelihood"].map(String::from).to_vec()
    }

    fn functions(&self, w: &Vec<f64>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let Target::Classes(classes) = &data.target else { return };
        let mut log_likelihood = 0.0;
        for (i, &class) in classes.codes.iter().enumerate() {
            let mut eta = w[2];
            data.x.view().for_row(i, |j, v| eta += w[j] * v);
            log_likelihood += ln_norm_cdf(if class == 1 { eta } else { -eta });
        }
        out.extend([w[0], w[1], w[2], w[0] * w[0], log_likelihood]);
    }
}

fn main() -> Result<()> {
    use variegate::model::{RunSettings, fit};
    use variegate::run::Unobserved;

    let given: Map<String, Value> = [("n_draws".to_string(), json!(3000))].into_iter().collect();
    let model = Probit.configure(&given)?;
    let simulated = model.simulate(1000, &Map::new(), 1)?;
    let fitted = fit(model.as_ref(), &simulated.data, &RunSettings::default().seed(2), &mut Unobserved)?;
    println!("truth: {}", Value::Object(simulated.truth));
    let summary = fitted.posterior.summary();
    for (name, numbers) in summary.rows() {
        println!("{name:>12}  mean {:>7.3}  sd {:.3}  R-hat {:.3}", numbers[0], numbers[1], numbers[6]);
    }
    println!("{}", summary.notes.join("\n"));
    for report in model.check(&Effort::quick(), 3, &mut |_| {})? {
        print!("{report}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use variegate::model::{RunSettings, fit};
    use variegate::run::Unobserved;

    #[test]
    fn the_table_of_settings_is_the_settings() {
        let defaults = variegate::model::defaults(&Probit.settings());
        assert_eq!(Probit.configure(&defaults).unwrap().settings(), defaults);
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let given = json!({"n_warmup": 5, "n_draws": 10, "n_chains": 2}).as_object().unwrap().clone();
        let model = Probit.configure(&given).unwrap();
        let data = model.simulate(700, &Map::new(), 1).unwrap().data;
        let draws = |threads| {
            let run = RunSettings::default().threads(threads).block_rows(64);
            let kept = fit(model.as_ref(), &data, &run, &mut Unobserved).unwrap().kept;
            kept.chains.iter().flat_map(|c| c.draws.scalars.values.iter().map(|v| v.to_bits())).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(3));
    }

    /// False-alarm rate: that of the three reports, stated in each.
    #[test]
    fn the_sampler_keeps_the_joint_distribution() {
        let model = Probit.configure(&Map::new()).unwrap();
        for report in model.check(&Effort::quick(), 3, &mut |_| {}).unwrap() {
            assert!(report.passed, "{report}");
        }
    }
}
