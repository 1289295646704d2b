//! What a fit says of rows (probabilities, real outcomes, shares of components), and how it was chosen.

use serde::{Deserialize, Serialize};

use super::covariance::Covariance;
use super::criterion::{Criterion, Scores};
use super::expect::{Method, TreeExpect};
use super::job::{Standing, State};
use super::layout::{Layout, components};
use super::maps::{Grouped, Maps, Met};
use super::node::Node;
use super::pass::ask::View;
use super::policy::Search;
use super::program::Vb;
use super::search::Candidate;
use super::tree::{Leaf, Structure, Tree};
use super::{Inference, NAME, Schema, Settings};
use crate::answer::{
    Answers, Chosen, ClassProbabilities, HiddenComponents, Interval, NamedArray, Origin, PREDICT_PANEL, Posterior, Predict, PredictClasses,
    PredictDraws, PredictOutcomes, RealPrediction, Responsibilities, Selection, Summary, check_levels, check_prediction_rows,
    choose_method, for_panels, for_panels_parallel, spread,
};
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Target, X};
use crate::dist::StudentT;
use crate::run::state;
use crate::special::log_sum_exp;
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("softmax posterior", &["0.1", "0.1"]);
const METHODS: &[&str] = &["probit", "mc", "map"];
/// Pairs of draws behind an interval, whose ends need more than a mean.
const INTERVAL_PAIRS: usize = 1024;

/// q of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftmaxPosterior {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) structure: Structure,
    pub(super) tree: Tree,
    /// Factors of the nodes; without variance where the fit is a point.
    pub(super) nodes: Vec<Node>,
    /// Covariance of the units of each node, as packed forms; empty where the fit is a point.
    pub(super) unit_forms: Vec<Vec<f64>>,
    pub(super) view: View<'static>,
    /// Shape and rates of the noise precision of each Gaussian leaf.
    pub(super) noise: Vec<(f64, Vec<f64>)>,
    /// Mean of each group of precisions, node after node.
    pub(super) alpha: Vec<f64>,
    pub(super) scores: Option<Scores>,
    /// Penalised log likelihood of the maximum it started at.
    pub(super) maximum: Option<f64>,
    pub(super) bound: f64,
    pub(super) sweeps: u64,
    pub(super) standing: Standing,
    pub(super) key: u64,
    /// Number of the chain it is from.
    pub(super) chain: usize,
    /// The structures it was chosen from.
    pub(super) table: Vec<Candidate>,
    /// Chains of the whole run.
    pub(super) chains: usize,
    /// Whether every chain of the run has finished.
    pub(super) complete: bool,
    /// Input map of each structure it was chosen from; empty where there was one.
    pub(super) maps: Vec<String>,
}

impl SoftmaxPosterior {
    /// The posterior of the best structure; of the best state so far, if none is done.
    pub(super) fn chosen(program: &Vb, schema: &Schema, settings: &Settings, states: &[State]) -> Result<Self> {
        let table = program.search.table(states);
        let ended = program.search.best(&table).map(|b| table[b].chain);
        let chain = ended.or_else(|| furthest(states)).ok_or_else(not_begun)?;
        let mut posterior = Self::new(program, schema, settings, &states[chain], chain)?;
        posterior.table = table;
        posterior.chains = states.len();
        posterior.complete = states.iter().all(State::done);
        Ok(posterior)
    }

    /// The posterior of the best structure under the best map.
    pub(super) fn chosen_map(maps: &Maps, schemas: &[Schema], settings: &Settings, chains: &Grouped) -> Result<Self> {
        let (places, table): (Vec<(usize, usize)>, Vec<Candidate>) =
            maps.table(chains).into_iter().map(|Met { map, place, candidate }| ((map, place), candidate)).unzip();
        let best = maps.program(0).search.best(&table).map(|best| places[best]);
        // the inputs themselves come first
        let (map, place) = best.or_else(|| Some((0, furthest(&chains.states[0])?))).ok_or_else(not_begun)?;
        let mut posterior = Self::new(maps.program(map), &schemas[map], settings, &chains.states[map][place], chains.chains[map][place])?;
        posterior.maps = places.iter().map(|(map, _)| maps.program(*map).design.input_map().to_string()).collect();
        posterior.table = table;
        posterior.chains = chains.chains.iter().map(Vec::len).sum();
        posterior.complete = chains.states.iter().flatten().all(State::done);
        Ok(posterior)
    }

    /// The posterior of one chain.
    pub(super) fn new(program: &Vb, schema: &Schema, settings: &Settings, state: &State, chain: usize) -> Result<Self> {
        let failed = |detail: String| Error::Numerical { what: "the covariance of the weights", sweep: state.ascents, detail };
        let layout = program.predicting(&state.tree);
        let mut out = Self {
            schema: schema.clone(),
            settings: settings.clone(),
            structure: state.job.structure.clone(),
            tree: state.tree.clone(),
            nodes: Vec::new(),
            unit_forms: Vec::new(),
            view: View::default(),
            noise: Vec::new(),
            alpha: Vec::new(),
            scores: state.scores.clone(),
            maximum: state.maximum.as_ref().map(|m| m.value),
            bound: state.bound,
            sweeps: state.ascents,
            standing: state.standing,
            key: state.key,
            chain,
            table: Vec::new(),
            chains: 1,
            complete: state.done(),
            maps: Vec::new(),
        };
        if let Some(q) = &state.q {
            let moments = q.moments(&layout, &state.basis, 1.0).map_err(|e| failed(e.to_string()))?;
            out.view = q.view(&layout, &moments, &state.basis, 1.0, None);
            out.noise = q.leaves.iter().map(|l| (l.shape, l.rates.clone())).collect();
            out.alpha = q.nodes.iter().zip(&layout.nodes).flat_map(|(n, l)| l.prior.group_means(&n.rates, 1.0)).collect();
            for node in &q.nodes {
                out.unit_forms.push(node.unit_forms(&state.basis).map_err(|e| failed(e.to_string()))?);
            }
            out.nodes.clone_from(&q.nodes);
        } else if let Some(maximum) = &state.maximum {
            let q = program.factors_at(&layout, &maximum.at, 1.0);
            let forms = vec![0.0; layout.matrices];
            let noise: Vec<f64> = vec![0.0; layout.gaussians() * (1 + layout.outputs)];
            let mean: Vec<f64> = maximum.at[..layout.vectors() * layout.dim].to_vec();
            out.view = View { mean: mean.into(), forms: forms.into(), noise: noise.into(), basis: Vec::new().into(), ..View::default() };
            // so many degrees of freedom that the noise is Gaussian
            out.noise = q.leaves.iter().map(|l| (1e12, l.rates.iter().map(|r| 1e12 * r / l.shape).collect())).collect();
            out.nodes = q.nodes;
        }
        Ok(out)
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            // one map
            1 => older.decode_followed_by(&Vec::<String>::new()),
            _ => Err(older.refused()),
        })?)
    }

    /// Number of real outcomes; 0 for a classifier.
    pub(super) fn outputs(&self) -> usize {
        self.schema.y_mean.len()
    }

    /// Lower bound on the log evidence; the penalised log likelihood of a point.
    pub fn elbo(&self) -> f64 {
        self.bound
    }

    pub(super) fn point(&self) -> bool {
        self.unit_forms.is_empty() && self.settings.inference == Inference::Map
    }

    pub(super) fn layout(&self) -> Layout {
        let mut shape = self.settings.shape(&self.schema.design);
        // as it was fitted, also where `auto` chose otherwise then
        let joint = self.nodes.iter().filter(|n| n.covariance == Covariance::Joint).map(|n| n.mean.len());
        shape.joint_up_to = joint.max().unwrap_or(0);
        Layout::for_prediction(&self.tree, &shape, self.schema.outcome(), self.schema.design.dim())
    }

    fn method(&self, method: &str) -> Result<Method> {
        let chosen = Method::of(choose_method(method, METHODS)?);
        Ok(if self.point() { Method::Map } else { chosen })
    }

    /// Calls `f(row, m, v)` for every row, with the means of its vectors and its forms.
    fn for_rows(
        &self,
        data: &Dataset<'_>,
        layout: &Layout,
        averaged: bool,
        mut f: impl FnMut(usize, &mut [f64], &mut [f64]),
    ) -> Result<()> {
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let mut room = PanelRoom::default();
        for_panels(data.x.view(), |first, count, x| {
            self.panel_moments(layout, averaged, count, x, &mut room, |i, m, v| f(first + i, m, v));
        });
        Ok(())
    }

    /// The same for classes, panels in parallel: `f` takes a state of each panel from row to row. Gives back the states.
    fn for_panels<T: Default + Send>(
        &self,
        data: &Dataset<'_>,
        layout: &Layout,
        averaged: bool,
        f: impl Fn(&mut T, &mut [f64], &mut [f64]) + Sync,
    ) -> Result<Vec<T>> {
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let states = (0..data.rows().div_ceil(PREDICT_PANEL)).map(|_| T::default()).collect();
        Ok(for_panels_parallel(data.x.view(), states, |mut state, _, count, x| {
            self.panel_moments(layout, averaged, count, x, &mut PanelRoom::default(), |_, m, v| f(&mut state, m, v));
            state
        }))
    }

    /// Calls `f(row of the panel, m, v)` for every row of a panel.
    fn panel_moments(
        &self,
        layout: &Layout,
        averaged: bool,
        count: usize,
        x: X<'_>,
        room: &mut PanelRoom,
        mut f: impl FnMut(usize, &mut [f64], &mut [f64]),
    ) {
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let PanelRoom { m, v, scratch, panels } = room;
        m.resize(x.rows() * vectors, 0.0);
        v.clear();
        v.resize(x.rows() * forms, 0.0);
        let mut panel = self.schema.design.panel(x, panels);
        panel.mul_t(&self.view.mean, vectors, m);
        if averaged && !self.point() {
            scratch.quadratics(&mut panel, layout, &self.view, v);
        }
        for i in 0..count {
            f(i, &mut m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
        }
    }

    /// Student's t of every leaf and output for a row.
    fn leaf_densities(&self, layout: &Layout, m: &[f64], v: &[f64]) -> Vec<StudentT> {
        let outputs = layout.outputs;
        (0..layout.gaussians() * outputs)
            .map(|at| {
                let (leaf, q) = (at / outputs, at % outputs);
                let (shape, rates) = &self.noise[leaf];
                let spread = 1.0 + v[layout.leaf_form() + leaf].max(0.0);
                let scale = self.schema.y_scale[q];
                StudentT {
                    freedom: 2.0 * shape,
                    location: self.schema.y_mean[q] + scale * m[layout.units + at],
                    scale: scale * (rates[q] / shape * spread).sqrt(),
                }
            })
            .collect()
    }

    fn search(&self) -> Result<Search> {
        self.settings.search(self.schema.outcome())
    }
}

/// Buffers of a panel.
#[derive(Default)]
struct PanelRoom {
    m: Vec<f64>,
    v: Vec<f64>,
    scratch: super::pass::Scratch,
    panels: PanelScratch,
}

/// How far a state has come: ascents before starts, then by objective.
fn rank(state: &State) -> f64 {
    if state.q.is_some() { state.bound } else { f64::MIN.max(state.bound) - 1e300 }
}

impl PredictClasses for SoftmaxPosterior {
    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        PredictClasses::predict_with(self, data, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        let asked = choose_method(how.method, METHODS)?;
        let ends = how.quantiles()?;
        // what only draws can give is made of draws, unless another method is asked for by name
        let drawn = how.method.is_empty() && (ends.is_some() || how.draws != PredictDraws::Enough);
        let method = self.method(if drawn { "mc" } else { asked })?;
        if self.point() {
            how.refuse_draws("inference `map` gives a point and no posterior; fit with `vb` or `gibbs`")?;
        } else if method != Method::MonteCarlo {
            how.refuse_draws(&format!("the method `{asked}` makes no draws; choose the method `mc`"))?;
        }
        let layout = self.layout();
        let of = |pairs| TreeExpect::with_pairs(&layout, pairs, self.key);
        let expect = match how.draws {
            _ if method != Method::MonteCarlo => of(0),
            PredictDraws::Number(n) if n > 0 => of(n.div_ceil(2)),
            PredictDraws::Enough if ends.is_some() => of(INTERVAL_PAIRS),
            PredictDraws::Enough => TreeExpect::with_enough(&layout, self.key),
            PredictDraws::Number(_) => return Err(Error::setting("predict_draws", 0, "a whole number of at least 1")),
            PredictDraws::All => {
                return Err(Error::setting("predict_draws", "all", "a number: a variational posterior can be drawn from without end"));
            }
        };
        let k = self.schema.classes.len();
        let found = self.for_panels(data, &layout, method != Method::Map, |panel: &mut (Option<TreeExpect>, Vec<[f64; 4]>), m, v| {
            let (expect, found) = (panel.0.get_or_insert_with(|| expect.clone()), &mut panel.1);
            if let Some(ends) = ends {
                found.extend(expect.class_draws(&layout, m, v, k).into_iter().map(|p| spread(p, ends)));
                return;
            }
            let (mut mean, mut deviation) = (vec![0.0; k], vec![0.0; k]);
            expect.classes(&layout, method, m, v, &mut mean, &mut deviation);
            found.extend(mean.iter().zip(&deviation).map(|(m, d)| [*m, *d, 0.0, 0.0]));
        })?;
        let part = |at: usize| found.iter().flat_map(|panel| &panel.1).map(|f| f[at]).collect::<Vec<f64>>();
        let probability = part(0);
        if let Some(at) = probability.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / k + 1)));
        }
        let interval = ends.map(|_| Interval { lower: part(2), upper: part(3) });
        Ok(ClassProbabilities { probability, deviation: (method == Method::MonteCarlo).then(|| part(1)), interval })
    }
}

impl PredictOutcomes for SoftmaxPosterior {
    fn outcomes(&self) -> usize {
        self.outputs()
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        let method = self.method(method)?;
        let outputs = self.outputs();
        check_levels(levels)?;
        let given = match &data.target {
            Target::Real { width, values } if *width == outputs => Some(values),
            _ => None,
        };
        let layout = self.layout();
        let n = data.rows() * outputs;
        let mut out = RealPrediction {
            mean: vec![0.0; n],
            deviation: vec![0.0; n],
            quantiles: vec![vec![0.0; n]; levels.len()],
            ln_density: given.map(|_| vec![0.0; data.rows()]),
        };
        let mut expect = TreeExpect::new(&layout, method, self.key);
        self.for_rows(data, &layout, true, |row, m, v| {
            let leaves = self.leaf_densities(&layout, m, v);
            let shares = expect.leaves(&layout, method, m, v);
            for q in 0..outputs {
                let at = row * outputs + q;
                let of_leaf = |leaf: usize| leaves[leaf * outputs + q];
                let mean: f64 = shares.iter().enumerate().map(|(leaf, p)| p * of_leaf(leaf).location).sum();
                let second = |(leaf, p): (usize, &f64)| p * (of_leaf(leaf).variance() + (of_leaf(leaf).location - mean).powi(2));
                out.mean[at] = mean;
                out.deviation[at] = shares.iter().enumerate().filter(|(_, p)| **p > 0.0).map(second).sum::<f64>().sqrt();
                for (quantiles, level) in out.quantiles.iter_mut().zip(levels) {
                    quantiles[at] = quantile(*level, shares, &of_leaf);
                }
            }
            if let (Some(values), Some(density)) = (given, &mut out.ln_density) {
                let term = |(leaf, p): (usize, &f64)| {
                    p.ln() + (0..outputs).map(|q| leaves[leaf * outputs + q].ln_pdf(values[row * outputs + q])).sum::<f64>()
                };
                density[row] = log_sum_exp(&shares.iter().enumerate().map(term).collect::<Vec<_>>());
            }
        })?;
        if let Some(at) = out.mean.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / outputs + 1)));
        }
        Ok(out)
    }
}

impl HiddenComponents for SoftmaxPosterior {
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        let layout = self.layout();
        let (of, count) = components(&layout, &self.structure);
        let mut share = vec![0.0; data.rows() * count];
        let mut expect = TreeExpect::new(&layout, if self.point() { Method::Map } else { Method::Probit }, self.key);
        let method = if self.point() { Method::Map } else { Method::Probit };
        // a class that the model does not know says nothing
        let codes: Option<Vec<Option<u32>>> = match &data.target {
            Target::Classes(c) if self.outputs() == 0 => {
                let known = c.names.iter().map(|n| self.schema.classes.iter().position(|k| k == n).map(|p| p as u32)).collect::<Vec<_>>();
                Some(c.codes.iter().map(|code| known[*code as usize]).collect())
            }
            _ => None,
        };
        let outcomes = match &data.target {
            Target::Real { width, values } if self.outputs() > 0 && *width == self.outputs() => Some(values),
            _ => None,
        };
        self.for_rows(data, &layout, true, |row, m, v| {
            let densities = outcomes.map(|values| {
                let outputs = layout.outputs;
                let leaves = self.leaf_densities(&layout, m, v);
                let sum = |leaf: usize| (0..outputs).map(|q| leaves[leaf * outputs + q].ln_pdf(values[row * outputs + q])).sum::<f64>();
                (0..layout.gaussians()).map(sum).collect::<Vec<f64>>()
            });
            let top = densities.iter().flatten().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            let class = codes.as_ref().and_then(|c| c[row]);
            let mut leaf: Vec<f64> = expect.leaves(&layout, method, m, v).to_vec();
            for (number, p) in leaf.iter_mut().enumerate() {
                if let Some(densities) = &densities {
                    *p *= (densities[number] - top).exp();
                } else if class.is_some_and(|c| layout.leaves[number] != Leaf::Class(c)) {
                    *p = 0.0;
                }
            }
            let total: f64 = leaf.iter().sum();
            for (component, p) in of.iter().zip(&leaf) {
                share[row * count + component] += if total > 0.0 { p / total } else { 1.0 / leaf.len() as f64 };
            }
        })?;
        Ok(Responsibilities { names: self.component_names(count), share })
    }
}

impl SoftmaxPosterior {
    /// What a row of the table is called: its structure, and its map where there are several.
    fn candidate(&self, number: usize) -> String {
        let structure = self.table[number].structure.describe();
        self.maps.get(number).map_or_else(|| structure.clone(), |map| format!("{structure}, input map {map}"))
    }
}

impl Chosen for SoftmaxPosterior {
    fn selection(&self) -> Option<Selection> {
        let search = self.search().ok()?;
        let chosen = search.best(&self.table)?;
        // rows left out alone and in folds are two figures of which a search has one
        let held_out = if search.criterion == Criterion::Loo { Criterion::Loo } else { Criterion::Cv };
        let mut figures = vec![Criterion::Elbo, Criterion::ElboSym, Criterion::ElboTight, Criterion::Bic, held_out];
        // its sign is wrong: it stands beside the others only where it was asked for
        if search.criterion == Criterion::Paper {
            figures.insert(3, Criterion::Paper);
        }
        let mut headings: Vec<String> = figures.iter().map(|c| c.word().to_string()).collect();
        headings.extend(["elbo-tight se", "cv error", "ln symmetries", "ln effective"].map(String::from));
        let row = |c: &Candidate| {
            let s = &c.scores;
            let mut values: Vec<Option<f64>> = figures.iter().map(|f| s.get(*f)).collect();
            values.extend([
                s.tight.map(|t| t.1),
                s.held_out.map(|h| h.errors / h.weight).filter(|e| e.is_finite()),
                Some(s.ln_symmetries),
                Some(s.ln_effective),
            ]);
            values
        };
        let tried = |i: usize| if self.table[i].trial { format!("{} (tried)", self.candidate(i)) } else { self.candidate(i) };
        let rows: Vec<_> = self.table.iter().enumerate().map(|(i, c)| (tried(i), row(c))).collect();
        let word = search.criterion.word();
        let value = |i: usize| self.table[i].scores.get(search.criterion);
        let mut others: Vec<usize> = (0..self.table.len()).filter(|i| *i != chosen).collect();
        others.sort_by(|a, b| value(*b).unwrap_or(f64::NEG_INFINITY).total_cmp(&value(*a).unwrap_or(f64::NEG_INFINITY)));
        let name = self.candidate(chosen);
        let mut reason = match (others.first().and_then(|o| value(*o).map(|v| (*o, v))), value(chosen)) {
            (Some((other, next)), Some(best)) if best < next => format!(
                "{name} was chosen of {} structures by its {word} {best:.3}: {} has {next:.3}, but was only tried or gains less than folds differ",
                self.table.len(),
                self.candidate(other),
            ),
            (Some((other, next)), Some(best)) => format!(
                "{name} was chosen of {} structures: its {word} {best:.3} is {:.3} above that of {}",
                self.table.len(),
                best - next,
                self.candidate(other)
            ),
            _ => format!("{name} is the only structure that was fitted"),
        };
        if !self.complete {
            reason.push_str("; the search is not finished: resume it");
        }
        Some(Selection { headings, rows, chosen, criterion: word.into(), reason })
    }
}

impl Posterior for SoftmaxPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.design.raw_cols, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        let common = Answers { components: Some(self), chosen: Some(self), ..Answers::default() };
        if self.outputs() > 0 { Answers { outcomes: Some(self), ..common } } else { Answers { classes: Some(self), ..common } }
    }

    fn summary(&self) -> Summary {
        self.report()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.named_arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

/// Place of the chain that has come furthest.
fn furthest(states: &[State]) -> Option<usize> {
    let usable = |s: &State| s.job.fold.is_none() && (s.q.is_some() || s.maximum.is_some());
    (0..states.len()).filter(|i| usable(&states[*i])).max_by(|a, b| rank(&states[*a]).total_cmp(&rank(&states[*b])))
}

fn not_begun() -> Error {
    Error::Unfit("the run has not made its first sweep yet: resume it".into())
}

/// Quantile of a mixture, by halving an interval that holds it.
fn quantile(level: f64, shares: &[f64], leaf: &impl Fn(usize) -> StudentT) -> f64 {
    let below = |x: f64| shares.iter().enumerate().map(|(l, p)| p * leaf(l).cdf(x)).sum::<f64>();
    let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
    for (l, _) in shares.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        let t = leaf(l);
        (lo, hi) = (lo.min(t.location - t.scale), hi.max(t.location + t.scale));
    }
    let mut width = hi - lo;
    while below(lo) > level && width.is_finite() {
        lo -= width;
        width *= 2.0;
    }
    while below(hi) < level && width.is_finite() {
        hi += width;
        width *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (lo + hi);
        if middle <= lo || middle >= hi || (hi - lo) < 1e-12 * (1.0 + middle.abs()) {
            break;
        }
        if below(middle) < level { lo = middle } else { hi = middle }
    }
    0.5 * (lo + hi)
}
