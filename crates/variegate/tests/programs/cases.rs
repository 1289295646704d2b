//! Small fits of every program and sampler of every family, for the tests that go through all of them.

use serde_json::{Value, json};
use variegate::data::{Classes, Dataset, LabelSets, Matrix, Target};
use variegate::model::{Model, family};

/// Rows made without random numbers. Entries are sixteenths, so that sums of them are exact in any order.
#[derive(Clone, Copy)]
enum Rows {
    /// 60 by 4, real numbers.
    Real,
    /// The same with some entries missing.
    Holes,
    /// 60 by 4, where every entry has its opposite: the mean of all is 0.
    Symmetric,
    /// 40 by 12 counts, dense.
    Counts,
    /// The same counts, sparse.
    SparseCounts,
    /// 60 by 6, mostly zeros, sparse.
    Sparse,
    /// 420 by 4: more rows, for what only many rows switch on.
    Many,
}

fn entry(i: usize, j: usize) -> f64 {
    ((i * 7919 + j * 104_729 + i * i * 31 + i * j * 1_301) % 127) as f64 / 16.0 - 3.9375
}

impl Rows {
    fn size(self) -> (usize, usize) {
        match self {
            Rows::Counts | Rows::SparseCounts => (40, 12),
            Rows::Sparse => (60, 6),
            Rows::Many => (420, 4),
            _ => (60, 4),
        }
    }

    fn value(self, i: usize, j: usize) -> f64 {
        match self {
            Rows::Real | Rows::Many => entry(i, j),
            Rows::Holes if (i * 5 + j * 3).is_multiple_of(11) => f64::NAN,
            Rows::Holes => entry(i, j),
            Rows::Symmetric if i % 2 == 1 => -entry(i - 1, j),
            Rows::Symmetric => entry(i, j),
            // rows of even number fill the first columns, the others the last
            Rows::Counts | Rows::SparseCounts => {
                let own = (j < 6) == i.is_multiple_of(2);
                if own { ((i * 13 + j * 7) % 5) as f64 } else { (i * 3 + j * 11).is_multiple_of(17) as u8 as f64 }
            }
            Rows::Sparse if (i * 7 + j * 5).is_multiple_of(3) => entry(i, j).abs() + 0.0625,
            Rows::Sparse => 0.0,
        }
    }

    fn matrix(self) -> Matrix<'static> {
        let (rows, cols) = self.size();
        if !matches!(self, Rows::Sparse | Rows::SparseCounts) {
            return Matrix::dense(rows, cols, (0..rows * cols).map(|at| self.value(at / cols, at % cols)).collect::<Vec<f64>>());
        }
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..rows {
            for j in (0..cols).filter(|&j| self.value(i, j) != 0.0) {
                indices.push(j as u32);
                values.push(self.value(i, j));
            }
            indptr.push(indices.len());
        }
        Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    /// Classes that curve through the first two columns.
    fn classes(self, classes: usize) -> Dataset<'static> {
        let (rows, _) = self.size();
        let label = |i: usize| {
            let (a, b) = (self.value(i, 0), self.value(i, 1));
            ((a * a - b + 0.5 * ((i * 11 % 7) as f64)).floor() as i64).rem_euclid(classes as i64).to_string()
        };
        let labels: Vec<String> = (0..rows).map(label).collect();
        Dataset::new(self.matrix()).with_target(Target::Classes(Classes::encode(labels.iter().map(String::as_str))))
    }

    /// Three labels; of some rows not all are known, of some none, unless all are to be.
    fn labels(self, all_known: bool) -> Dataset<'static> {
        let (rows, _) = self.size();
        let label = |i: usize, c: usize| match (i * 7 + c * 3) % 10 {
            0 if !all_known => -1,
            _ if !all_known && i.is_multiple_of(9) => -1,
            _ => i8::from(self.value(i, c) > [0.0, 0.5, -0.5][c] + 0.25 * ((i * 11 % 7) as f64 - 3.0)),
        };
        let values = (0..rows).flat_map(|i| (0..3).map(move |c| label(i, c))).collect();
        let names = ["red", "green", "blue"].map(String::from).to_vec();
        Dataset::new(self.matrix()).with_target(Target::Labels(LabelSets { names, values }))
    }

    /// Two real outcomes of which one bends.
    fn outcomes(self) -> Dataset<'static> {
        let (rows, _) = self.size();
        let y = |i: usize| [self.value(i, 0).abs() + 0.1 * self.value(i, 2), self.value(i, 1) - self.value(i, 3)];
        Dataset::new(self.matrix()).with_target(Target::Real { width: 2, values: (0..rows).flat_map(y).collect() })
    }

    /// Rows of three sources.
    fn sources(self) -> Dataset<'static> {
        let names: Vec<String> = (0..self.size().0).map(|i| format!("s{}", i * 5 % 3)).collect();
        let sources = Some(Classes::encode(names.iter().map(String::as_str)));
        Dataset { sources, ..Dataset::new(self.matrix()) }
    }

    /// The same classes, some rows counting twice or not at all.
    fn weighted(self, classes: usize) -> Dataset<'static> {
        let weights = (0..self.size().0).map(|i| [1.0, 2.0, 1.0, 0.0, 1.0][i % 5]).collect();
        Dataset { weights: Some(weights), ..self.classes(classes) }
    }
}

pub struct Case {
    pub name: &'static str,
    family: &'static str,
    pub data: Dataset<'static>,
    settings: Value,
    pub block_rows: Option<usize>,
}

impl Case {
    pub fn model(&self) -> Box<dyn Model> {
        let settings = self.settings.as_object().unwrap();
        family(self.family).unwrap().configure(settings).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
}

/// Several small blocks; none takes all rows as one.
const BLOCKS: Option<usize> = Some(16);

/// Every program and sampler. Where rows are cut into several blocks, nothing that is measured on all of them decides the results, so
/// that these cases speak of the program alone.
pub fn cases() -> Vec<Case> {
    use Rows::{Counts, Holes, Many, Real, Sparse, SparseCounts, Symmetric};
    let draws = |settings: Value| with(settings, json!({ "n_chains": 2, "n_warmup": 3, "n_draws": 4 }));
    let mut all = Vec::new();
    let mut add = |name, family, data, settings, block_rows| all.push(Case { name, family, data, settings, block_rows });

    add("logistic/gibbs", "logistic", Real.classes(2), draws(json!({})), None);
    add("logistic/gibbs blocks", "logistic", Real.classes(2), draws(json!({ "standardize": false })), BLOCKS);
    add("logistic/gibbs sparse weighted", "logistic", Sparse.weighted(2), draws(json!({ "bias_precision": null })), None);

    let ascent = |settings: Value| with(settings, json!({ "inference": "vb", "max_iter": 6 }));
    add("logistic/vb", "logistic", Real.classes(2), ascent(json!({})), None);
    add("logistic/vb blocks", "logistic", Sparse.weighted(2), ascent(json!({ "standardize": false, "bias_precision": null })), BLOCKS);

    add("svm/gibbs", "svm", Real.classes(2), draws(json!({})), None);
    add("svm/gibbs blocks", "svm", Real.classes(3), draws(json!({ "standardize": false, "prior_precision": 0.5 })), BLOCKS);
    add("svm/gibbs sparse balanced", "svm", Sparse.weighted(2), draws(json!({ "class_weight": "balanced", "fit_intercept": false })), None);
    add("svm/vb", "svm", Real.classes(3), ascent(json!({ "class_weight": "balanced" })), None);
    add("svm/vb blocks", "svm", Sparse.weighted(2), ascent(json!({ "standardize": false, "prior_precision": 2.0 })), BLOCKS);
    add("svm/vb map", "svm", Real.classes(2), with(ascent(json!({})), json!({ "inference": "map" })), None);

    let vb = |settings: Value| with(settings, json!({ "max_iter": 6, "n_init": 2, "n_vb": 2 }));
    add("softmax/vb", "softmax", Real.classes(3), vb(json!({})), None);
    add("softmax/vb blocks", "softmax", Real.classes(3), vb(json!({ "standardize": false, "subclasses": "2,1,2" })), BLOCKS);
    add("softmax/vb sparse", "softmax", Sparse.classes(3), vb(json!({ "covariance": "diag", "precision": "feature" })), None);
    add("softmax/vb balanced", "softmax", Real.weighted(3), vb(json!({ "class_weight": "balanced", "bound": "double" })), None);
    add("softmax/vb experts", "softmax", Real.classes(2), vb(json!({ "experts": "3", "bound": "bohning" })), None);
    add("softmax/vb low rank", "softmax", Real.classes(3), vb(json!({ "covariance": "lowrank:2", "anneal": true })), None);
    add("softmax/vb logistic", "softmax", Real.classes(2), vb(json!({ "coding": "logistic", "bound": "jj" })), None);
    let gates = json!({ "gates": ["expert", ["expert", "expert"]], "bias_precision": 0.1 });
    add("softmax/vb gates", "softmax", Real.classes(3), vb(gates), None);
    add("softmax/vb greedy", "softmax", Real.classes(2), vb(json!({ "subclasses": "auto", "criterion": "elbo-tight" })), None);
    add(
        "softmax/vb compressive",
        "softmax",
        Real.classes(2),
        vb(json!({ "subclasses": "compressive:3", "criterion": "cv", "folds": 3 })),
        None,
    );
    let led = json!({ "inference": "vb", "subclasses": "auto:3", "folds": 3, "max_iter": 100 });
    add("softmax/vb led by held-out rows", "softmax", Real.classes(2), led, None);
    add("softmax/vb regression", "softmax", Real.outcomes(), vb(json!({ "task": "regression", "experts": "2" })), None);
    add("softmax/vb polynomial", "softmax", Real.classes(2), vb(json!({ "input_map": "polynomial:2" })), None);
    add("softmax/vb fourier", "softmax", Sparse.classes(2), vb(json!({ "input_map": "fourier:5" })), None);
    add("softmax/vb maps", "softmax", Real.classes(2), vb(json!({ "input_map": "auto" })), None);
    let map = |settings: Value| with(settings, json!({ "inference": "map", "n_init": 2 }));
    add("softmax/map", "softmax", Real.classes(3), map(json!({ "subclasses": "2,2,2" })), None);
    let gibbs = |settings: Value| draws(with(settings, json!({ "inference": "gibbs" })));
    add("softmax/gibbs", "softmax", Real.classes(3), gibbs(json!({ "precision": "node" })), None);
    add("softmax/gibbs blocks", "softmax", Real.classes(3), gibbs(json!({ "standardize": false, "subclasses": "2,1,1" })), BLOCKS);
    add("softmax/gibbs experts", "softmax", Sparse.weighted(3), gibbs(json!({ "experts": "2" })), None);
    add("softmax/gibbs regression", "softmax", Real.outcomes(), gibbs(json!({ "task": "regression", "experts": "2" })), None);

    let experts = |settings: Value| draws(with(settings, json!({ "experts": 3 })));
    for (name, inference) in [("experts/hmc", "hmc"), ("experts/gibbs", "gibbs"), ("experts/mh", "mh")] {
        add(name, "experts", Real.classes(2), experts(json!({ "inference": inference })), None);
    }
    add("experts/hmc classes", "experts", Real.classes(3), experts(json!({ "hyper": "sample", "intercept": "augment" })), None);
    add("experts/hmc type 1", "experts", Real.classes(2), experts(json!({ "prior": "mutual-angular-1", "kappa": 3.0 })), None);
    add("experts/hmc determinantal", "experts", Sparse.classes(2), experts(json!({ "prior": "determinantal" })), None);
    add("experts/hmc gaussian", "experts", Real.weighted(2), experts(json!({ "prior": "gaussian" })), None);
    let columns = json!({ "metric": "columns", "max_steps": 12, "scale": "none" });
    add("experts/hmc columns", "experts", Many.classes(2), experts(columns.clone()), Some(64));
    add("experts/hmc columns classes", "experts", Many.classes(3), experts(columns), None);
    add("experts/hmc blocks", "experts", Real.classes(2), experts(json!({ "scale": "none" })), BLOCKS);
    add(
        "experts/gibbs blocks",
        "experts",
        Real.classes(2),
        experts(json!({ "inference": "gibbs", "scale": "none", "hyper": "sample" })),
        BLOCKS,
    );
    add("experts/mh blocks", "experts", Sparse.classes(2), experts(json!({ "inference": "mh", "scale": "none" })), BLOCKS);
    let ascent = |settings: Value| with(settings, json!({ "experts": 3, "max_iter": 6, "n_init": 2 }));
    add("experts/vb", "experts", Real.classes(2), ascent(json!({ "inference": "vb" })), None);
    add(
        "experts/vb blocks",
        "experts",
        Real.classes(3),
        ascent(json!({ "inference": "vb", "scale": "none", "gate_bound": "bouchard" })),
        BLOCKS,
    );
    add("experts/vb gaussian", "experts", Real.classes(2), ascent(json!({ "inference": "vb", "prior": "gaussian" })), None);
    add("experts/pr", "experts", Sparse.classes(2), ascent(json!({ "inference": "pr", "diversity": 5.0 })), None);
    add("experts/map", "experts", Real.classes(3), ascent(json!({ "inference": "map", "diversity": 1.0 })), None);

    let samplers = [
        ["factors/parallel poisson", "factors/parallel gaussian"],
        ["factors/rowslice poisson", "factors/rowslice gaussian"],
        ["factors/slice poisson", "factors/slice gaussian"],
    ];
    let few = |settings: Value| with(settings, json!({ "n_chains": 2, "n_warmup": 8, "n_draws": 3, "thin": 2 }));
    for ([poisson, gaussian], sampler) in samplers.into_iter().zip(["parallel", "rowslice", "slice"]) {
        add(poisson, "factors", Counts.sources(), few(json!({ "sampler": sampler })), BLOCKS);
        let real = few(json!({ "likelihood": "gaussian", "sampler": sampler, "center": false }));
        add(gaussian, "factors", Symmetric.sources(), real, BLOCKS);
    }
    add("factors/parallel seeded", "factors", Counts.sources(), few(json!({ "start_factors": 6 })), BLOCKS);
    add("factors/parallel sparse", "factors", SparseCounts.sources(), few(json!({ "learn_mass": true, "learn_shape": false })), None);
    add("factors/parallel centred", "factors", Real.sources(), few(json!({ "likelihood": "gaussian" })), None);
    add("factors/parallel holes", "factors", Holes.sources(), few(json!({ "likelihood": "gaussian", "missing": true })), None);

    let features = |settings: Value| {
        with(settings, json!({ "n_chains": 2, "n_warmup": 6, "n_draws": 3, "thin": 2, "start_sweeps": 10, "restarts": 2 }))
    };
    let empty = |settings: Value| {
        with(settings, json!({ "n_chains": 2, "n_warmup": 8, "n_draws": 3, "thin": 2, "start": "empty", "scale": false }))
    };
    add("features/anchored", "features", plain(Real), features(json!({})), None);
    add("features/anchored blocks", "features", plain(Symmetric), empty(json!({ "intercept": "none" })), BLOCKS);
    add(
        "features/anchored sparse",
        "features",
        plain(Sparse),
        features(json!({ "prior": "pitman-yor", "learn_concentration": true })),
        None,
    );
    add("features/anchored holes", "features", plain(Holes), features(json!({ "missing": true, "pairs": 1 })), None);
    add("features/anchored many", "features", plain(Many), features(json!({ "noise_variance": 6.0, "intercept": "mean" })), None);
    add("features/rowslice", "features", plain(Symmetric), empty(json!({ "sampler": "rowslice", "intercept": "none" })), BLOCKS);
    add(
        "features/slice",
        "features",
        plain(Symmetric),
        empty(json!({ "sampler": "slice", "prior": "pitman-yor", "intercept": "none" })),
        BLOCKS,
    );
    let angular = json!({ "prior": "mutual-angular", "learn_kappa": true });
    add("features/angular", "features", plain(Real), features(angular), None);
    let angular = json!({ "prior": "mutual-angular", "magnitude": "chi", "direction": "hmc", "intercept": "none", "births": 8 });
    add("features/angular blocks", "features", plain(Symmetric), empty(angular), BLOCKS);
    add("features/angular slice", "features", plain(Real), features(json!({ "prior": "mutual-angular", "sampler": "slice" })), None);
    let labels = |settings: Value| with(settings, json!({ "components": 5, "n_init": 2, "max_iter": 6 }));
    add("labels/vb logit", "labels", Real.labels(false), labels(json!({})), None);
    add("labels/vb and", "labels", Counts.labels(false), labels(json!({ "coupling": "and", "concentration": 1.5 })), None);
    add("labels/vb cut", "labels", Real.labels(true), labels(json!({ "coupling": "cut", "features": "gaussian-full" })), None);
    add("labels/vb bohning", "labels", SparseCounts.labels(true), labels(json!({ "bound": "bohning" })), BLOCKS);
    add("labels/vb sparse", "labels", Sparse.labels(false), labels(json!({ "covariance": "diagonal", "feature_power": null })), BLOCKS);
    let drawn = |settings: Value| {
        let brief = json!({ "inference": "gibbs", "components": 4, "n_chains": 2, "n_warmup": 4, "n_draws": 3, "thin": 2 });
        with(settings, brief)
    };
    let parts = |settings: Value| with(settings, json!({ "inference": "svi", "components": 5, "passes": 3, "batch_rows": 1 }));
    add("labels/svi full", "labels", Real.labels(false), parts(json!({ "history": "negative" })), BLOCKS);
    add("labels/svi rows", "labels", Sparse.labels(false), parts(json!({ "covariance": "diagonal" })), BLOCKS);
    add(
        "labels/svi decay",
        "labels",
        Counts.labels(false),
        with(json!({ "coupling": "and", "decay": 0.7 }), json!({ "inference": "svi", "components": 5, "batch_rows": 1 })),
        BLOCKS,
    );
    add("labels/memoized", "labels", Real.labels(false), labels(json!({ "inference": "memoized", "batches": 3 })), BLOCKS);
    add("labels/gibbs logit", "labels", Real.labels(false), drawn(json!({})), None);
    add("labels/gibbs and", "labels", SparseCounts.labels(false), drawn(json!({ "coupling": "and", "concentration": 1.5 })), BLOCKS);
    add("labels/gibbs cut", "labels", Real.labels(false), drawn(json!({ "coupling": "cut", "features": "gaussian-full" })), None);
    add("labels/gibbs svm", "labels", Counts.labels(true), drawn(json!({ "coupling": "cut", "classifier": "svm" })), BLOCKS);
    let short = |settings: Value| with(settings, json!({ "n_chains": 2, "n_warmup": 8, "n_draws": 3, "thin": 2 }));
    let tree = |settings: Value| short(with(settings, json!({ "node_sweeps": 0 })));
    add("tree/sequential", "tree", plain(Real), tree(json!({})), None);
    add("tree/sequential holes", "tree", plain(Holes), tree(json!({ "depth": 2, "separation": 0.3, "margin": 0.5 })), BLOCKS);
    add("tree/sequential counts", "tree", plain(Counts), tree(json!({ "likelihood": "poisson", "learn_concentrations": true })), BLOCKS);
    add("tree/sequential finite", "tree", plain(Sparse), tree(json!({ "likelihood": "gaussian-full", "n_components": 4 })), None);
    let stated = json!({ "separation": 0.1, "target": "stated", "penalty": "sum", "score_update": "slack", "theta": "explicit" });
    add("tree/sequential stated", "tree", plain(Symmetric), tree(stated), None);
    let tempered = json!({ "temperatures": 3, "depth": 2, "separation": 0.2, "likelihood": "gaussian-tied" });
    add("tree/sequential tempered", "tree", plain(Real), tree(tempered), BLOCKS);
    add("tree/slice", "tree", plain(Symmetric), tree(json!({ "sampler": "slice", "depth": 2 })), BLOCKS);
    add("tree/anchored", "tree", plain(Many), tree(json!({ "sampler": "anchored", "separation": 0.2 })), BLOCKS);
    let weighed = json!({ "node_sweeps": 20, "temperatures": 2, "depth": 2, "separation": 0.2, "learn_concentrations": true });
    add("tree/node weights", "tree", plain(Real), short(weighed), BLOCKS);
    let begun = Classes::encode((0..60).map(|i| ["a/x", "a/y", "b", ""][i % 4]));
    let begun = plain(Real).with_target(Target::Classes(begun));
    add("tree/start labels", "tree", begun, tree(json!({ "start": "labels", "depth": 2 })), BLOCKS);
    for family in variegate::model::FAMILIES.iter().map(|f| f.name()) {
        assert!(all.iter().any(|case| case.family == family), "there is no case of `{family}`");
    }
    all
}

/// The rows alone.
fn plain(rows: Rows) -> Dataset<'static> {
    Dataset::new(rows.matrix())
}

fn with(mut settings: Value, more: Value) -> Value {
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    settings
}
