//! Data from the prior: a tree, its weights, and rows.

use serde_json::{Map, json};

use super::components::{Columns, Family, Kernel, Matrix, Prior};
use super::draws::{Draw, Figures};
use super::generate::Generator;
use super::settings::Settings;
use crate::check::Generative;
use crate::data::{Dataset, Matrix as Table};
use crate::dist::draw_from_shares;
use crate::model::{Simulation, Truth};
use crate::run::{Purpose, Stream};
use crate::{Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of columns.
        columns: usize = 4, in whole(1, 100_000);
    }
}

/// Codes of a categorical column.
const CODES: usize = 3;
/// Sum of a row of counts that are proportions of it.
const TOTAL: f64 = 50.0;

/// Components that stand apart, whatever the family.
pub(super) fn kernel(family: Family, columns: usize) -> Result<Kernel> {
    let prior = match family {
        Family::GaussianDiag => Prior {
            mean: Some(vec![0.0]),
            mean_strength: Some(0.1),
            precision_shape: Some(3.0),
            precision_rate: Some(vec![2.0]),
            ..Prior::default()
        },
        Family::GaussianFull => {
            Prior { mean: Some(vec![0.0]), mean_strength: Some(0.1), scatter: Some(Matrix::Multiple(2.0)), ..Prior::default() }
        }
        Family::GaussianTied => Prior {
            mean: Some(vec![0.0]),
            mean_covariance: Some(Matrix::Multiple(9.0)),
            variance_shape: Some(3.0),
            variance_rate: Some(2.0),
            ..Prior::default()
        },
        Family::GaussianKnown => Prior { mean_covariance: Some(Matrix::Multiple(9.0)), ..Prior::default() },
        Family::Bernoulli => Prior { base: Some(vec![0.5; columns]), strength: Some(0.5), ..Prior::default() },
        Family::Categorical => Prior { categories: Some(vec![CODES; columns]), strength: Some(0.5), ..Prior::default() },
        Family::Poisson => Prior { rate_shape: Some(vec![1.0]), rate_rate: Some(vec![0.2]), ..Prior::default() },
        Family::Multinomial => Prior { base: Some(vec![1.0 / columns as f64; columns]), strength: Some(1.0), ..Prior::default() },
    };
    // rows that any family may have, for the shape of the columns alone
    let rows: Vec<f64> = [0.0, 1.0].iter().flat_map(|&v| vec![v; columns]).collect();
    let names: Vec<String> = (1..=columns).map(|d| format!("x{d}")).collect();
    Ok(Kernel::bind(family, &prior, &Columns::of(family, &rows, &names)?)?.0)
}

/// The model of so many rows, with components of its own.
pub(super) fn generator(settings: &Settings, rows: usize, columns: usize) -> Result<Generator> {
    Ok(Generator {
        rows,
        cols: columns,
        total: (settings.family() == Family::Multinomial).then_some(TOTAL),
        kernel: kernel(settings.family(), columns)?,
        concentrations: settings.concentrations(),
        rules: settings.rules(rows),
        finite: settings.n_components.map(|n| n as usize),
        margin: None,
    })
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let mut generator = generator(settings, rows, request.columns)?;
    generator.rules.learn = false; // concentrations are those of the settings
    let mut rng = Stream::new(seed, 0, Purpose::Simulate).rng();
    let unknowns = generator.prior(&mut rng)?;
    let mut data = generator.data(&unknowns, &(), &mut rng)?;
    data.columns = names(request.columns);
    let draw = Draw::of(&unknowns.state, Figures::default());
    let depth = settings.depth as usize;
    let mut told = Map::new();
    let parameters = draw.theta.len() / draw.atoms.max(1);
    told.insert("labels".into(), json!(draw.labels().chunks(depth).map(<[u32]>::to_vec).collect::<Vec<_>>()));
    told.insert("component".into(), json!(draw.atom));
    told.insert("leaf".into(), json!(draw.leaf));
    let mut leaf_rows = vec![0; draw.nodes()];
    draw.leaf.iter().for_each(|&leaf| leaf_rows[leaf as usize] += 1);
    told.insert("leaf_rows".into(), json!(leaf_rows));
    told.insert("parent".into(), json!(draw.parent));
    told.insert("weights".into(), json!(draw.weights.chunks(draw.atoms + 1).map(<[f64]>::to_vec).collect::<Vec<_>>()));
    told.insert("parameters".into(), json!(draw.theta.chunks(parameters.max(1)).map(<[f64]>::to_vec).collect::<Vec<_>>()));
    told.insert("shared".into(), json!(unknowns.shared));
    Ok(Simulation { data, truth: told })
}

/// Rows in leaves of the truth as often as its rows are, with components that rows of the truth have.
pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    let mut kernel = kernel(settings.family(), request.columns)?;
    if let Ok(shared) = truth.number("shared") {
        kernel.set_shared(shared);
    }
    let (nodes, atoms) = (truth.count("parent")?, truth.count("parameters")?);
    let weights = truth.table("weights", nodes, atoms + 1)?;
    let theta = truth.table("parameters", atoms, kernel.parameters())?;
    let leaf_rows = truth.numbers("leaf_rows", nodes)?;
    let all: f64 = leaf_rows.iter().sum();
    let mut rng = Truth::stream(seed).rng();
    let total = if settings.family() == Family::Multinomial { TOTAL } else { 0.0 };
    let mut x = vec![0.0; rows * request.columns];
    let (mut of_leaf, mut of_atom) = (vec![], vec![]);
    for row in x.chunks_exact_mut(request.columns) {
        let leaf = draw_from_shares(leaf_rows.iter().map(|n| n / all), &mut rng);
        let own = weights.get(leaf * (atoms + 1) + 1..(leaf + 1) * (atoms + 1)).unwrap_or(&[]);
        let known: f64 = own.iter().sum();
        let atom = draw_from_shares(own.iter().map(|w| w / known), &mut rng);
        row[0] = total;
        kernel.draw_row(&theta[atom * kernel.parameters()..][..kernel.parameters()], &mut rng, row)?;
        of_leaf.push(leaf);
        of_atom.push(atom);
    }
    let mut data = Dataset::new(Table::dense(rows, request.columns, x));
    data.columns = names(request.columns);
    let mut told = truth.told();
    told.insert("leaf".into(), json!(of_leaf));
    told.insert("component".into(), json!(of_atom));
    told.remove("labels");
    Ok(Simulation { data, truth: told })
}

fn names(columns: usize) -> Vec<String> {
    (1..=columns).map(|d| format!("x{d}")).collect()
}
