//! Summaries and named arrays of a fit: weights as contrasts in the user's units, slopes of experts, shares of components.
//!
//! A softmax does not change when all children of a node get the same weights added, so weights are reported as contrasts: for two
//! classes the log-odds of the second against the first, else each child against the mean of its node.

use super::covariance::Covariance;
use super::job::Standing;
use super::layout::{Layout, components};
use super::posterior::SoftmaxPosterior;
use super::tree::{Child, Leaf, Structure};
use super::{Inference, bound};
use crate::answer::{Chosen, ColumnKind, Dim, Fact, Figure, NamedArray, Summary, SummaryTable};
use crate::data::design::{packed_len, runs};
use crate::linalg::dot;
use crate::model::idle;
use crate::special::unit_of;

/// z of a central 90 % interval.
const Z90: f64 = 1.644_853_626_951_472_6;

impl SoftmaxPosterior {
    /// Names of subclasses, experts or leaves.
    pub(super) fn component_names(&self, count: usize) -> Vec<String> {
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
        // a column of extreme scale has a direction whose square no double can hold
        let unit = unit_of(direction.iter().copied());
        let direction: &[f64] = &direction.iter().map(|v| v / unit).collect::<Vec<_>>();
        let mut units = vec![0.0; l.units];
        l.units_of(weight, &mut units);
        let mean = unit * q.mean.chunks_exact(dim).zip(&units).map(|(w, a)| a * dot(w, direction)).sum::<f64>();
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
        (mean, unit * variance.max(0.0).sqrt())
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
        let unit = unit_of(direction.iter().copied());
        let direction: &[f64] = &direction.iter().map(|v| v / unit).collect::<Vec<_>>();
        let mean = base + scale * unit * dot(&self.view.mean[(layout.units + at) * dim..][..dim], direction);
        let leaf = at / layout.outputs;
        let form = &self.view.forms[layout.leaf_matrix(leaf)];
        let used: Vec<usize> = (0..dim).filter(|&i| direction[i] != 0.0).collect();
        let pairs = used.iter().enumerate().flat_map(|(n, &i)| used[..=n].iter().map(move |&j| (i, j)));
        let spread: f64 = pairs.map(|(i, j)| form[packed_len(i) + j] * direction[i] * direction[j]).sum();
        let (shape, rates) = &self.noise[leaf];
        // Student's t with twice the shape degrees of freedom
        let heavy = if *shape > 1.0 { shape / (shape - 1.0) } else { f64::INFINITY };
        (mean, scale * unit * (spread.max(0.0) * rates[q] / shape * heavy).sqrt())
    }

    fn slope_name(&self, layout: &Layout, at: usize) -> String {
        let (leaf, q) = (at / layout.outputs, at % layout.outputs);
        let expert = match &self.structure {
            Structure::Gates(_) => format!("expert {}", self.leaf_names()[leaf]),
            _ => format!("expert {}", leaf + 1),
        };
        if layout.outputs == 1 { expert } else { format!("{expert}, outcome {}", q + 1) }
    }

    /// The linear functions that are reported: name, node, and weights over its children. Two plain classes have one, the log-odds of the second.
    fn contrasts(&self, layout: &Layout) -> Vec<(String, usize, Vec<f64>)> {
        let mut out = Vec::new();
        let plain = self.structure.is_concave() && layout.nodes.len() == 1;
        for (number, node) in layout.nodes.iter().enumerate() {
            let s = node.width();
            if plain && s == 2 {
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

    /// A warning where experts behind one gate have next to no rows.
    fn idle_warning(&self) -> Vec<String> {
        let (Structure::Experts(experts), Some(scores)) = (&self.structure, &self.scores) else { return Vec::new() };
        let rows: f64 = scores.shares.iter().sum();
        let idle = scores.shares.iter().filter(|s| **s < idle::least_share(rows) * rows).count();
        if scores.shares.len() != *experts || idle == 0 {
            return Vec::new();
        }
        vec![idle::warning(&idle.to_string(), *experts, rows, "")]
    }

    fn notes(&self) -> Vec<String> {
        let sweeps = self.sweeps;
        let mut notes = vec![match self.standing {
            _ if self.settings.inference == Inference::Map => {
                "penalised maximum likelihood: probabilities take the weights as certain".into()
            }
            Standing::Converged => format!("converged: sweep {sweeps} gained less than the tolerance {}", self.settings.tol),
            Standing::NoStepLeft => format!("converged: in sweep {sweeps} no step, however short, raised the bound any more"),
            Standing::HeldOut => format!("ended after {sweeps} sweep(s): further ones raise the bound and predict held-out rows worse"),
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

    /// What was found, and how sure it is.
    pub(super) fn report(&self) -> Summary {
        let classes = &self.schema.classes;
        let layout = self.layout();
        let plain_two = classes.len() == 2 && self.structure.is_concave();
        let table = match (self.outputs() > 0, plain_two, layout.nodes.len()) {
            (true, ..) => "gates: log-odds of a child against the mean of its node; experts: slopes; for one unit of a column".to_string(),
            (_, true, _) => format!("log-odds of `{}` against `{}`, for one unit of a column", classes[1], classes[0]),
            (_, _, 1) if self.structure.is_concave() => {
                "log-odds of a class against the mean of all classes, for one unit of a column".to_string()
            }
            _ => "log-odds of a child against the mean of its node, for one unit of a column".to_string(),
        };
        use ColumnKind::Number;
        let mut coefficients = SummaryTable::new("coefficients", [("mean", Number), ("sd", Number), ("5%", Number), ("95%", Number)]);
        let rows = &mut coefficients.rows;
        let directions = self.directions();
        let names = self.schema.design.names(&self.schema.columns).into_iter().chain(["(intercept)".to_string()]);
        let contrasts = self.contrasts(&layout);
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
        let mut facts = vec![Fact::text("model", self.model_name())];
        facts.extend(self.schema.facts());
        if !matches!(self.structure, Structure::Subclasses(_)) || !self.structure.is_concave() {
            facts.push(Fact::text("structure", self.structure.describe()));
        }
        if !self.maps.is_empty() {
            facts.push(Fact::text("input map", self.schema.design.input_map().to_string()));
        }
        if let Some(scores) = self.scores.as_ref().filter(|s| s.shares.len() > 1 && !self.structure.is_concave()) {
            let (_, count) = components(&layout, &self.structure);
            let total: f64 = scores.shares.iter().sum();
            let shares = self.component_names(count).into_iter().zip(scores.shares.iter().map(|s| s / total)).collect();
            facts.push(Fact::new("shares", Figure::Shares(shares)));
        }
        if self.settings.inference == Inference::Map {
            facts.push(Fact::number("penalised log likelihood", self.maximum.unwrap_or(self.bound)));
        } else {
            facts.push(Fact::text("bound", self.settings.bound.word()));
            facts.push(Fact::text("covariance", layout.covariance().text()));
            facts.push(Fact::text("precision", self.settings.precision.word()));
            facts.extend(self.precisions());
            facts.push(Fact::number("elbo", self.bound));
            facts.push(Fact::count("sweeps", self.sweeps as usize));
        }
        facts.push(Fact::text("table", table));
        Summary {
            facts,
            tables: vec![coefficients],
            converged: self.complete && matches!(self.standing, Standing::Converged | Standing::NoStepLeft | Standing::HeldOut),
            warnings: self.idle_warning(),
            notes: self.notes(),
        }
    }

    /// The learned precisions, or the range of several; that which is fixed.
    fn precisions(&self) -> Vec<Fact> {
        if self.settings.precision == super::Precision::Fixed {
            return vec![Fact::number("prior precision", self.settings.prior_precision)];
        }
        let (low, high) = self.alpha.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &a| (l.min(a), h.max(a)));
        match self.alpha.len() {
            0 => Vec::new(),
            1 => vec![Fact::number("learned precision", low)],
            _ => vec![Fact::number("smallest learned precision", low), Fact::number("largest learned precision", high)],
        }
    }

    /// Coefficients, intercepts, shares and slopes.
    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let layout = self.layout();
        let d = &self.schema.design;
        let width = d.available();
        let contrasts = self.contrasts(&layout);
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
        // the log-odds of two plain classes are those of the second
        let named = |name: &String| if name.is_empty() { self.schema.classes[1].clone() } else { name.clone() };
        let child = || Dim::named("child", contrasts.iter().map(|(name, ..)| named(name)));
        let column = || Dim::inputs(d, &self.schema.columns);
        let mut out = vec![
            NamedArray::new("coef", vec![child(), column()], coef),
            NamedArray::new("intercept", vec![child()], intercept),
            NamedArray::new("coef_sd", vec![child(), column()], coef_sd),
            NamedArray::new("intercept_sd", vec![child()], intercept_sd),
            NamedArray::new("alpha", vec![Dim::counted("group", self.alpha.len())], self.alpha.clone()),
            NamedArray::scalar("elbo", self.bound),
            NamedArray::scalar("chain", self.chain as f64),
        ];
        if let Some(scores) = &self.scores {
            let total: f64 = scores.shares.iter().sum();
            let component = Dim::named("component", self.component_names(scores.shares.len()));
            let component = if component.len == scores.shares.len() { component } else { Dim::counted("component", scores.shares.len()) };
            out.push(NamedArray::new("shares", vec![component], scores.shares.iter().map(|s| s / total).collect()));
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
            let each = || vec![Dim::counted("expert", layout.gaussians()), Dim::counted("outcome", outputs)];
            out.push(NamedArray::new("expert_coef", [each(), vec![column()]].concat(), slopes));
            out.push(NamedArray::new("expert_intercept", each(), bases));
            out.push(NamedArray::new("expert_noise", each(), places.map(noise).collect()));
        }
        out
    }
}

/// `a`, `b/1`, `b/2`: a point would make a number of the class -1.
fn subclass_names(classes: &[String], sizes: &[usize]) -> Vec<String> {
    let name = |(class, size): (&String, &usize)| -> Vec<String> {
        if *size == 1 { vec![class.clone()] } else { (1..=*size).map(|k| format!("{class}/{k}")).collect() }
    };
    classes.iter().zip(sizes).flat_map(name).collect()
}
