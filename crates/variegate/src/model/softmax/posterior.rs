//! What a fit says: probabilities, real outcomes, shares of components, coefficients in the user's units, how it was chosen.
//!
//! A softmax does not change when all children of a node get the same weights added, so weights are reported as contrasts: for two
//! classes the log-odds of the second against the first, else each child against the mean of its node.

use serde::{Deserialize, Serialize};

use super::expect::{Method, TreeExpect};
use super::layout::Layout;
use super::node::{Covariance, Node};
use super::pass::View;
use super::score::{Criterion, Scores, components};
use super::search::{Candidate, Search};
use super::tree::{Child, Leaf, Structure, Tree};
use super::vb::{Standing, State, Vb};
use super::{Inference, NAME, Schema, Settings, bound, vb};
use crate::data::design::{PanelScratch, packed_len, runs};
use crate::data::{Dataset, Target};
use crate::dist::StudentT;
use crate::linalg::dot;
use crate::model::{
    ClassProbabilities, NamedArray, Posterior, RealPrediction, Responsibilities, Selection, Summary, check_prediction_rows, choose_method,
    for_panels,
};
use crate::run::state;
use crate::special::log_sum_exp;
use crate::{Error, Result};

const SAVED: &str = "softmax posterior";
const METHODS: &[&str] = &["probit", "mc", "map"];
/// z of a central 90 % interval.
const Z90: f64 = 1.644_853_626_951_472_6;

/// q of the weights, with all that predictions need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftmaxPosterior {
    schema: Schema,
    settings: Settings,
    structure: Structure,
    tree: Tree,
    /// Factors of the nodes; without variance where the fit is a point.
    nodes: Vec<Node>,
    /// Covariance of the units of each node, as packed forms; empty where the fit is a point.
    unit_forms: Vec<Vec<f64>>,
    view: View<'static>,
    /// Shape and rates of the noise precision of each Gaussian leaf.
    noise: Vec<(f64, Vec<f64>)>,
    /// Mean of each group of precisions, node after node.
    alpha: Vec<f64>,
    scores: Option<Scores>,
    /// Penalised log likelihood of the maximum it started at.
    maximum: Option<f64>,
    bound: f64,
    sweeps: u64,
    standing: Standing,
    key: u64,
    /// Number of the chain it is from.
    chain: usize,
    /// The structures it was chosen from.
    table: Vec<Candidate>,
    /// Chains of the whole run.
    chains: usize,
    /// Whether every chain of the run has finished.
    complete: bool,
}

impl SoftmaxPosterior {
    /// The posterior of the best structure; of the best state so far, if none is done.
    pub(super) fn chosen(program: &Vb, schema: &Schema, settings: &Settings, states: &[State]) -> Result<Self> {
        let table = program.search.table(states);
        let ended = program.search.best(&table).map(|b| table[b].chain);
        let usable = |s: &State| s.job.fold.is_none() && (s.q.is_some() || s.maximum.is_some());
        let started = || (0..states.len()).filter(|i| usable(&states[*i])).max_by(|a, b| rank(&states[*a]).total_cmp(&rank(&states[*b])));
        let Some(chain) = ended.or_else(started) else {
            return Err(Error::Unfit("the run has not made its first sweep yet: resume it".into()));
        };
        let mut posterior = Self::new(program, schema, settings, &states[chain], chain)?;
        posterior.table = table;
        posterior.chains = states.len();
        posterior.complete = states.iter().all(State::done);
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
        Ok(state::unseal(SAVED, saved)?)
    }

    /// Lower bound on the log evidence; the penalised log likelihood of a point.
    pub fn elbo(&self) -> f64 {
        self.bound
    }

    fn point(&self) -> bool {
        self.unit_forms.is_empty() && self.settings.inference == Inference::Map
    }

    fn layout(&self) -> Layout {
        let shape = self.settings.shape(&self.schema.design);
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
        check_prediction_rows(data, self.width(), self.columns())?;
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let (mut m, mut v) = (Vec::new(), Vec::new());
        let mut scratch = super::pass::Scratch::default();
        let mut panels = PanelScratch::default();
        let averaged = averaged && !self.point();
        for_panels(data.x.view(), |first, count, x| {
            m.resize(x.rows() * vectors, 0.0);
            v.clear();
            v.resize(x.rows() * forms, 0.0);
            let mut panel = self.schema.design.panel(x, &mut panels);
            panel.mul_t(&self.view.mean, vectors, &mut m);
            if averaged {
                scratch.quadratics(&mut panel, layout, &self.view, &mut v);
            }
            for i in 0..count {
                f(first + i, &mut m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
            }
        });
        Ok(())
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

    /// Names of subclasses, experts or leaves.
    fn component_names(&self, count: usize) -> Vec<String> {
        match &self.structure {
            Structure::Subclasses(sizes) => subclass_names(&self.schema.classes, sizes),
            Structure::Experts(_) => (1..=count).map(|e| format!("expert {e}")).collect(),
            Structure::Gates(_) => self.leaf_names(),
        }
    }

    /// Leaves of a tree of gates, by the places taken on the way down.
    fn leaf_names(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.tree.leaves.len()];
        self.name_below(self.tree.root, String::new(), &mut names);
        names
    }

    fn name_below(&self, child: Child, path: String, names: &mut [String]) {
        match child {
            Child::Leaf(leaf) => {
                names[leaf] = match self.tree.leaves[leaf] {
                    Leaf::Class(class) => format!("{path}: {}", self.schema.classes[class as usize]),
                    Leaf::Gaussian => path,
                }
            }
            Child::Node(node) => {
                for (place, below) in self.tree.nodes[node].children.iter().enumerate() {
                    let emits = matches!(below, Child::Leaf(leaf) if self.tree.leaves[*leaf] != Leaf::Gaussian);
                    let step = if emits {
                        path.clone()
                    } else if path.is_empty() {
                        format!("{}", place + 1)
                    } else {
                        format!("{path}.{}", place + 1)
                    };
                    self.name_below(*below, step, names);
                }
            }
        }
    }

    /// Mean and standard deviation of Σ_c weight_c · lᵀw_c over the children of a node, for a direction l of the design space.
    fn contrast(&self, layout: &Layout, node: usize, direction: &[f64], weight: &[f64]) -> (f64, f64) {
        let (l, q) = (&layout.nodes[node], &self.nodes[node]);
        let dim = direction.len();
        let mut units = vec![0.0; l.units];
        l.units_of(weight, &mut units);
        let mean = q.mean.chunks_exact(dim).zip(&units).map(|(w, a)| a * dot(w, direction)).sum();
        let Some(forms) = self.unit_forms.get(node) else { return (mean, 0.0) };
        // all directions but the intercept's have one entry: reading whole forms would cost O(D²) a coefficient
        let used: Vec<usize> = (0..dim).filter(|&i| direction[i] != 0.0).collect();
        let len = q.covariance.matrix_len(dim);
        let form = |k: usize| -> f64 {
            let form = &forms[k * len..(k + 1) * len];
            let pairs = used.iter().enumerate().flat_map(|(n, &i)| used[..=n].iter().map(move |&j| (i, j)));
            match q.covariance {
                Covariance::Blocks(width) => pairs
                    .filter(|(i, j)| i / width == j / width)
                    .map(|(i, j)| {
                        let at = runs(dim, width).nth(i / width).map_or(0, |(first, _, at)| at + packed_len(i - first) + (j - first));
                        form[at] * direction[i] * direction[j]
                    })
                    .sum(),
                Covariance::LowRank(rank) => {
                    let basis = &self.view.basis;
                    let along: Vec<f64> = (0..rank).map(|a| used.iter().map(|&j| basis[a * dim + j] * direction[j]).sum()).collect();
                    let mut sum = form[len - 1] * dot(direction, direction);
                    for i in 0..rank {
                        for j in 0..=i {
                            sum += form[packed_len(i) + j] * along[i] * along[j];
                        }
                    }
                    sum
                }
                _ => pairs.map(|(i, j)| form[packed_len(i) + j] * direction[i] * direction[j]).sum(),
            }
        };
        let mut variance = 0.0;
        for (c, a) in units.iter().enumerate() {
            match q.covariance {
                Covariance::Joint => {
                    variance += a * a * form(packed_len(c) + c);
                    for (d, b) in units[..c].iter().enumerate() {
                        variance += 2.0 * a * b * form(packed_len(c) + d);
                    }
                }
                Covariance::Shared => variance += a * a * form(0),
                _ => variance += a * a * form(c),
            }
        }
        (mean, variance.max(0.0).sqrt())
    }

    /// Directions in the design space whose coordinates are the user's coefficients, the intercept last.
    fn directions(&self) -> Vec<Vec<f64>> {
        let d = &self.schema.design;
        let (kept, dim) = (d.kept.len(), d.dim());
        let mut out: Vec<Vec<f64>> = (0..kept)
            .map(|j| {
                let mut l = vec![0.0; dim];
                l[j] = 1.0 / d.scale[j];
                l
            })
            .collect();
        let mut l = vec![0.0; dim];
        for j in 0..kept {
            l[j] = -d.mean[j] / d.scale[j];
        }
        if d.intercept {
            l[kept] = 1.0;
        }
        out.push(l);
        out
    }

    /// Mean and standard deviation of the slope of an expert along a direction, in the units of the outcome.
    fn slope(&self, layout: &Layout, at: usize, direction: &[f64], intercept: bool) -> (f64, f64) {
        let (dim, q) = (layout.dim, at % layout.outputs);
        let scale = self.schema.y_scale[q];
        let base = if intercept { self.schema.y_mean[q] } else { 0.0 };
        let mean = base + scale * dot(&self.view.mean[(layout.units + at) * dim..][..dim], direction);
        let leaf = at / layout.outputs;
        let form = &self.view.forms[layout.leaf_matrix(leaf)];
        let used: Vec<usize> = (0..dim).filter(|&i| direction[i] != 0.0).collect();
        let pairs = used.iter().enumerate().flat_map(|(n, &i)| used[..=n].iter().map(move |&j| (i, j)));
        let spread: f64 = pairs.map(|(i, j)| form[packed_len(i) + j] * direction[i] * direction[j]).sum();
        let (shape, rates) = &self.noise[leaf];
        // Student's t with twice the shape degrees of freedom
        let heavy = if *shape > 1.0 { shape / (shape - 1.0) } else { f64::INFINITY };
        (mean, scale * (spread.max(0.0) * rates[q] / shape * heavy).sqrt())
    }

    fn slope_name(&self, layout: &Layout, at: usize) -> String {
        let (leaf, q) = (at / layout.outputs, at % layout.outputs);
        let expert = match &self.structure {
            Structure::Gates(_) => format!("expert {}", self.leaf_names()[leaf]),
            _ => format!("expert {}", leaf + 1),
        };
        if layout.outputs == 1 { expert } else { format!("{expert}, outcome {}", q + 1) }
    }

    /// The linear functions that are reported: name, node, and weights over its children.
    fn contrasts(&self, layout: &Layout, all: bool) -> Vec<(String, usize, Vec<f64>)> {
        let mut out = Vec::new();
        let plain = self.structure.is_concave() && layout.nodes.len() == 1;
        for (number, node) in layout.nodes.iter().enumerate() {
            let s = node.width();
            if plain && s == 2 && !all {
                out.push((String::new(), number, vec![-1.0, 1.0]));
                continue;
            }
            let names = self.child_names(layout, number);
            for (c, name) in names.into_iter().enumerate() {
                out.push((name, number, (0..s).map(|k| f64::from(k == c) - 1.0 / s as f64).collect()));
            }
        }
        out
    }

    fn child_names(&self, layout: &Layout, number: usize) -> Vec<String> {
        let node = &layout.nodes[number];
        match (&self.structure, number) {
            (Structure::Subclasses(sizes), _) => subclass_names(&self.schema.classes, sizes),
            (Structure::Experts(1), _) => self.schema.classes.clone(),
            (Structure::Experts(_), 0) => (1..=node.width()).map(|e| format!("gate: expert {e}")).collect(),
            (Structure::Experts(_), _) => self.schema.classes.iter().map(|c| format!("expert {number}: {c}")).collect(),
            (Structure::Gates(_), _) => {
                let leaves = self.leaf_names();
                let name = |(place, child): (usize, &Child)| match child {
                    Child::Leaf(leaf) => format!("node {}: {}", number + 1, leaves[*leaf]),
                    Child::Node(_) => format!("node {}: child {}", number + 1, place + 1),
                };
                node.children.iter().enumerate().map(name).collect()
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let sweeps = self.sweeps;
        let mut notes = vec![match self.standing {
            _ if self.settings.inference == Inference::Map => {
                "penalised maximum likelihood: probabilities take the weights as certain".into()
            }
            Standing::Converged => format!("converged: sweep {sweeps} gained less than the tolerance {}", self.settings.tol),
            Standing::NoStepLeft => format!("converged: in sweep {sweeps} no step, however short, raised the bound any more"),
            Standing::Running => format!(
                "not converged: the bound was still rising by more than the tolerance {} after {sweeps} sweep(s); raise `max_iter`",
                self.settings.tol
            ),
            Standing::Numerical => format!(
                "stopped for numerical reasons: the bound was no longer finite in sweep {sweeps}, and the state before it was kept; \
                 standardise the columns"
            ),
        }];
        if let Some(selection) = self.selection().filter(|s| s.rows.len() > 1) {
            notes.push(selection.reason);
        }
        if self.settings.bound == bound::Bound::Double {
            notes.push(
                "the double bound is loose by up to one nat a row and overstates log-odds: use `bound = tilted` for probabilities".into(),
            );
        }
        notes
    }

    fn search(&self) -> Result<Search> {
        self.settings.search(self.schema.outcome())
    }
}

/// How far a state has come: ascents before starts, then by objective.
fn rank(state: &State) -> f64 {
    if state.q.is_some() { state.bound } else { f64::MIN.max(state.bound) - 1e300 }
}

/// `a`, `b.1`, `b.2`.
fn subclass_names(classes: &[String], sizes: &[usize]) -> Vec<String> {
    let name = |(class, size): (&String, &usize)| -> Vec<String> {
        if *size == 1 { vec![class.clone()] } else { (1..=*size).map(|k| format!("{class}.{k}")).collect() }
    };
    classes.iter().zip(sizes).flat_map(name).collect()
}

impl Posterior for SoftmaxPosterior {
    fn family(&self) -> &'static str {
        NAME
    }

    fn columns(&self) -> &[String] {
        &self.schema.columns
    }

    fn width(&self) -> usize {
        self.schema.design.raw_cols
    }

    fn classes(&self) -> &[String] {
        &self.schema.classes
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn outputs(&self) -> usize {
        self.schema.y_mean.len()
    }

    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        let asked = choose_method(method, METHODS)?;
        let method = self.method(asked)?;
        if self.outputs() > 0 {
            return Err(Error::Unfit("the model was fitted to real outcomes: it predicts no classes".into()));
        }
        let layout = self.layout();
        let k = self.schema.classes.len();
        let mut probability = vec![0.0; k * data.rows()];
        let mut deviation = vec![0.0; if asked == "mc" { k * data.rows() } else { 0 }];
        let mut expect = TreeExpect::new(&layout, method, self.key);
        self.for_rows(data, &layout, method != Method::Map, |row, m, v| {
            let at = row * k..(row + 1) * k;
            let spread = if method == Method::MonteCarlo { &mut deviation[at.clone()] } else { &mut [] };
            expect.classes(&layout, method, m, v, &mut probability[at], spread);
        })?;
        if let Some(at) = probability.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / k + 1)));
        }
        Ok(ClassProbabilities { probability, deviation: (asked == "mc").then_some(deviation) })
    }

    fn predict_real(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        let method = self.method(method)?;
        let outputs = self.outputs();
        if outputs == 0 {
            return Err(Error::Unfit("the model was fitted to classes: it predicts no real outcomes".into()));
        }
        if let Some(level) = levels.iter().find(|l| !(**l > 0.0 && **l < 1.0)) {
            return Err(Error::setting("quantiles", level, "numbers between 0 and 1"));
        }
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

    fn selection(&self) -> Option<Selection> {
        let search = self.search().ok()?;
        let chosen = search.best(&self.table)?;
        let figures = [Criterion::Elbo, Criterion::ElboSym, Criterion::ElboTight, Criterion::Paper, Criterion::Bic, Criterion::Cv];
        let mut headings: Vec<String> = figures.iter().map(|c| c.word().to_string()).collect();
        headings.extend(["elbo-tight se", "cv error", "ln symmetries", "ln effective"].map(String::from));
        let row = |c: &Candidate| {
            let s = &c.scores;
            let mut values: Vec<Option<f64>> = figures.iter().map(|f| s.get(*f)).collect();
            values.extend([s.tight.map(|t| t.1), s.held_out.map(|h| h.errors / h.weight), Some(s.ln_symmetries), Some(s.ln_effective)]);
            (if c.trial { format!("{} (tried)", c.structure.describe()) } else { c.structure.describe() }, values)
        };
        let rows: Vec<_> = self.table.iter().map(row).collect();
        let word = search.criterion.word();
        let value = |i: usize| self.table[i].scores.get(search.criterion);
        let mut others: Vec<usize> = (0..self.table.len()).filter(|i| *i != chosen).collect();
        others.sort_by(|a, b| value(*b).unwrap_or(f64::NEG_INFINITY).total_cmp(&value(*a).unwrap_or(f64::NEG_INFINITY)));
        let name = self.table[chosen].structure.describe();
        let mut reason = match (others.first().and_then(|o| value(*o).map(|v| (*o, v))), value(chosen)) {
            (Some((other, next)), Some(best)) => format!(
                "{name} was chosen of {} structures: its {word} {best:.3} is {:.3} above that of {}",
                self.table.len(),
                best - next,
                self.table[other].structure.describe()
            ),
            _ => format!("{name} is the only structure that was fitted"),
        };
        if !self.complete {
            reason.push_str("; the search is not finished: resume it");
        }
        Some(Selection { headings, rows, chosen, criterion: word.into(), reason })
    }

    fn summary(&self) -> Summary {
        let classes = &self.schema.classes;
        let layout = self.layout();
        let counts: Vec<String> = classes.iter().zip(&self.schema.counts).map(|(name, n)| format!("{name} {n}")).collect();
        let plain_two = classes.len() == 2 && self.structure.is_concave();
        let table = match (self.outputs() > 0, plain_two, layout.nodes.len()) {
            (true, ..) => "gates: log-odds of a child against the mean of its node; experts: slopes; for one unit of a column".to_string(),
            (_, true, _) => format!("log-odds of `{}` against `{}`, for one unit of a column", classes[1], classes[0]),
            (_, _, 1) if self.structure.is_concave() => {
                "log-odds of a class against the mean of all classes, for one unit of a column".to_string()
            }
            _ => "log-odds of a child against the mean of its node, for one unit of a column".to_string(),
        };
        let alpha = match self.settings.precision {
            super::Precision::Fixed => format!("fixed at {}", self.settings.prior_precision),
            _ if self.alpha.is_empty() => "given for the bias; there is nothing else".to_string(),
            p => {
                let (low, high) = self.alpha.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &a| (l.min(a), h.max(a)));
                if self.alpha.len() == 1 { format!("{}: {low:.4}", p.word()) } else { format!("{}: {low:.4} to {high:.4}", p.word()) }
            }
        };
        let mut rows = Vec::new();
        let directions = self.directions();
        let names = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
        let contrasts = self.contrasts(&layout, false);
        for (column, direction) in names.zip(&directions) {
            for (child, node, weight) in &contrasts {
                let (mean, sd) = self.contrast(&layout, *node, direction, weight);
                let name = if child.is_empty() { column.clone() } else { format!("{column} [{child}]") };
                rows.push((name, vec![mean, sd, mean - Z90 * sd, mean + Z90 * sd]));
            }
        }
        let names = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
        for (column, direction) in names.zip(&directions) {
            for at in 0..layout.gaussians() * layout.outputs {
                let (mean, sd) = self.slope(&layout, at, direction, column == "(intercept)");
                rows.push((format!("{column} [{}]", self.slope_name(&layout, at)), vec![mean, sd, mean - Z90 * sd, mean + Z90 * sd]));
            }
        }
        let mut facts: Vec<(String, String)> = vec![("model".into(), self.model_name())];
        if classes.is_empty() {
            facts.push(("rows".into(), format!("{}", self.schema.counts[0])));
        } else {
            facts.push(("classes".into(), counts.join(", ")));
        }
        facts.push(("columns used".into(), format!("{} of {}", self.schema.design.kept.len(), self.schema.design.available())));
        if !matches!(self.structure, Structure::Subclasses(_)) || !self.structure.is_concave() {
            facts.push(("structure".into(), self.structure.describe()));
        }
        if let Some(scores) = self.scores.as_ref().filter(|s| s.shares.len() > 1 && !self.structure.is_concave()) {
            let (_, count) = components(&layout, &self.structure);
            let total: f64 = scores.shares.iter().sum();
            let share = |(name, share): (String, &f64)| format!("{name} {:.1}%", 100.0 * share / total);
            facts.push((
                "shares".into(),
                self.component_names(count).into_iter().zip(&scores.shares).map(share).collect::<Vec<_>>().join(", "),
            ));
        }
        if self.settings.inference == Inference::Map {
            facts.push(("penalised log likelihood".into(), format!("{:.4}", self.maximum.unwrap_or(self.bound))));
        } else {
            facts.push(("bound".into(), self.settings.bound.word().into()));
            facts.push(("covariance".into(), vb::covariance_of(&layout).text()));
            facts.push(("precision".into(), alpha));
            facts.push(("elbo".into(), format!("{:.4}", self.bound)));
            facts.push(("sweeps".into(), self.sweeps.to_string()));
        }
        facts.push(("table".into(), table));
        Summary {
            facts,
            headings: ["mean", "sd", "5%", "95%"].map(String::from).to_vec(),
            rows,
            converged: self.complete && matches!(self.standing, Standing::Converged | Standing::NoStepLeft),
            notes: self.notes(),
        }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let layout = self.layout();
        let d = &self.schema.design;
        let width = d.available();
        let contrasts = self.contrasts(&layout, true);
        let s = contrasts.len();
        let (mut coef, mut coef_sd) = (vec![0.0; s * width], vec![0.0; s * width]);
        let (mut intercept, mut intercept_sd) = (vec![0.0; s], vec![0.0; s]);
        let directions = self.directions();
        for (c, (_, node, weight)) in contrasts.iter().enumerate() {
            for (&j, direction) in d.kept.iter().zip(&directions) {
                // columns left out as constant have coefficient 0
                (coef[c * width + j as usize], coef_sd[c * width + j as usize]) = self.contrast(&layout, *node, direction, weight);
            }
            (intercept[c], intercept_sd[c]) = self.contrast(&layout, *node, &directions[directions.len() - 1], weight);
        }
        let vector = |name, values: Vec<f64>| NamedArray { name, shape: vec![values.len()], values };
        let mut out = vec![
            NamedArray { name: "coef", shape: vec![s, width], values: coef },
            vector("intercept", intercept),
            NamedArray { name: "coef_sd", shape: vec![s, width], values: coef_sd },
            vector("intercept_sd", intercept_sd),
            vector("alpha", self.alpha.clone()),
            vector("elbo", vec![self.bound]),
            vector("chain", vec![self.chain as f64]),
        ];
        if let Some(scores) = &self.scores {
            let total: f64 = scores.shares.iter().sum();
            out.push(vector("shares", scores.shares.iter().map(|s| s / total).collect()));
        }
        if layout.outputs > 0 {
            let (outputs, dim) = (layout.outputs, layout.dim);
            // slopes of each leaf in the units of columns and outcomes
            let (mut slopes, mut bases) = (Vec::new(), Vec::new());
            for at in 0..layout.gaussians() * outputs {
                let (q, w) = (at % outputs, &self.view.mean[(layout.units + at) * dim..][..dim]);
                let mut row = vec![0.0; width];
                for (&j, direction) in d.kept.iter().zip(&directions) {
                    row[j as usize] = self.schema.y_scale[q] * dot(w, direction);
                }
                slopes.extend(row);
                bases.push(self.schema.y_mean[q] + self.schema.y_scale[q] * dot(w, &directions[directions.len() - 1]));
            }
            let noise = |(leaf, q): (usize, usize)| self.schema.y_scale[q] * (self.noise[leaf].1[q] / self.noise[leaf].0).sqrt();
            let places = (0..layout.gaussians()).flat_map(|leaf| (0..outputs).map(move |q| (leaf, q)));
            out.push(NamedArray { name: "expert_coef", shape: vec![layout.gaussians(), outputs, width], values: slopes });
            out.push(NamedArray { name: "expert_intercept", shape: vec![layout.gaussians(), outputs], values: bases });
            out.push(NamedArray { name: "expert_noise", shape: vec![layout.gaussians(), outputs], values: places.map(noise).collect() });
        }
        out
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

impl SoftmaxPosterior {
    fn model_name(&self) -> String {
        let by = match self.settings.inference {
            Inference::Map => "penalised maximum likelihood",
            _ => "variational Bayes",
        };
        let real = self.outputs() > 0;
        match &self.structure {
            Structure::Subclasses(_) if self.structure.is_concave() => format!("softmax classification by {by}"),
            Structure::Subclasses(_) => format!("softmax classification with subclasses by {by}"),
            Structure::Experts(_) if real => format!("regression by a mixture of experts, {by}"),
            Structure::Experts(_) => format!("mixture of experts by {by}"),
            Structure::Gates(_) if real => format!("regression by a tree of experts, {by}"),
            Structure::Gates(_) => format!("tree of experts by {by}"),
        }
    }
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
