//! Small ascents of every coupling, for the tests of moves and of batches.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::data::{Dataset, LabelSets, Matrix, Target};
use crate::dist::testing::rng;
use crate::model::labels::bound::Bound;
use crate::model::labels::label_part::LabelPart;
use crate::model::labels::logit::{Form, SharedBohning};
use crate::model::labels::mixture::Mixture;
use crate::model::labels::schema::Schema;
use crate::model::labels::settings::{ClassifierKind, Coupling, KernelKind, MoveKind, Settings};
use crate::model::labels::vb::Vb;
use crate::run::{Shape, open01};

pub(super) const LABELS: usize = 3;
pub(super) const COLUMNS: usize = 2;

/// Couplings, bounds and forms.
pub(super) const KINDS: [&str; 9] = ["jj", "factorised", "bohning", "shared", "and", "cut", "svm", "shared and", "shared cut"];

/// Whether one matrix serves all labels of a kind, which are known together.
pub(super) fn is_shared(kind: &str) -> bool {
    kind.starts_with("shared")
}

/// A coupling with a bound, of rows as they are.
pub(super) fn mixture(kind: &str) -> Mixture {
    mixture_of(kind, COLUMNS)
}

/// The same of so many columns.
pub(super) fn mixture_of(kind: &str, columns: usize) -> Mixture {
    let coupling = match kind {
        "and" | "shared and" => Coupling::And,
        "cut" | "svm" | "shared cut" => Coupling::Cut,
        _ => Coupling::Logit,
    };
    let classifier = if kind == "svm" { ClassifierKind::Svm } else { ClassifierKind::Logistic };
    let settings = Settings { coupling, classifier, ..Settings::default() };
    let names = (1..=LABELS).map(|c| c.to_string()).collect();
    let mut mixture = Schema::drawn(columns, names, KernelKind::GaussianDiag).mixture(&settings).unwrap();
    match &mut mixture.labels {
        LabelPart::And(p) if is_shared(kind) => p.weights.bound = Bound::Bohning,
        LabelPart::Cut(p) if is_shared(kind) => p.classifier.prior.bound = Bound::Bohning,
        _ => {}
    }
    if let LabelPart::Logit(p) = &mut mixture.labels {
        match kind {
            "factorised" => p.form = Form::Factorised,
            "bohning" | "shared" => p.bound = Bound::Bohning,
            _ => {}
        }
        if kind == "shared" {
            let prior = p.clone();
            mixture.labels = LabelPart::Shared(SharedBohning { prior });
        }
    }
    mixture
}

/// The ascent of a coupling.
pub(super) fn vb(kind: &str, components: usize, moves: MoveKind) -> Vb {
    Vb { mixture: mixture(kind), components, tol: 1e-7, max_sweeps: 500, moves, most_components: 30 }
}

/// Rows of four groups around the corners of a square, so many standard deviations wide, with labels that depend on group and row. A fifth of
/// the entries is unknown, or of the rows where a coupling needs whole ones.
pub(super) fn groups(kind: &str, rows: usize, width: f64, seed: u64) -> Dataset<'static> {
    let mut rng = rng(seed);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..rows {
        let group = i % 4;
        let centre = [0.5 * width * [-1.0, -1.0, 1.0, 1.0][group], 0.5 * width * [-1.0, 1.0, -1.0, 1.0][group]];
        let normal = |rng: &mut dyn Rng| -> f64 { StandardNormal.sample(rng) };
        let row = [centre[0] + normal(&mut rng), centre[1] + normal(&mut rng)];
        x.extend(row);
        let often = [[0.9, 0.8, 0.1], [0.1, 0.9, 0.2], [0.2, 0.1, 0.9], [0.8, 0.2, 0.7]][group];
        let hide = open01(&mut rng) < 0.2;
        for often in often {
            let present = open01(&mut rng) < often * if row[0] > centre[0] { 1.0 } else { 0.8 };
            let unknown = if is_shared(kind) { hide } else { open01(&mut rng) < 0.2 };
            y.push(if unknown { -1 } else { i8::from(present) });
        }
    }
    let names = (1..=LABELS).map(|c| c.to_string()).collect();
    Dataset::new(Matrix::dense(rows, COLUMNS, x)).with_target(Target::Labels(LabelSets { names, values: y }))
}

/// How rows are cut.
pub(super) fn shape(data: &Dataset<'_>, block_rows: usize) -> Shape {
    Shape { rows: data.rows(), cols: data.x.cols(), blocks: data.rows().div_ceil(block_rows) as u32, block_rows }
}
