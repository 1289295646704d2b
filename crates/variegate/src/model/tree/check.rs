//! Whether the sampler samples what it claims to, on tiny data of its own: see [`crate::check`].

use rand_distr::{Distribution, StandardNormal};

use super::generate::{Generator, Given, Unknowns};
use super::margin::{Calibration, EtaUpdate, Margin};
use super::program::{Chain, Choose, Components, FeatureSource, Separation, TreeSampler};
use super::settings::Settings;
use super::simulate;
use super::state::{REST, State, column};
use crate::Result;
use crate::check::{CheckReport, Checkable, Effort, Installed, Progress};
use crate::data::{Block, Dataset};
use crate::linalg::dot;
use crate::run::{Philox, Purpose, Stream};

/// A sampler with the joint distribution that its sweeps keep.
pub(crate) struct Subject {
    pub(crate) generator: Generator,
    pub(crate) program: TreeSampler,
}

impl Subject {
    /// The sampler of this joint distribution.
    pub(crate) fn new(generator: Generator, choose: Choose) -> Self {
        let Generator { kernel, rules, concentrations, finite, margin, .. } = generator.clone();
        let margin = margin.map(|given| Separation {
            margin: given.margin,
            calibrated: given.calibration.is_some(),
            update: EtaUpdate::Ess,
            features: FeatureSource::Given(given.features, given.width, given.calibration),
            warm_up: 0,
        });
        Self {
            generator,
            program: TreeSampler {
                choose,
                components: Components::Bound(kernel),
                rules,
                concentrations,
                finite,
                margin,
                pca: None,
                temperatures: 1,
                labels: vec![],
                node_sweeps: 0,
            },
        }
    }
}

impl Checkable for Subject {
    type Program = TreeSampler;
    type Model = Generator;

    fn model(&self) -> &Generator {
        &self.generator
    }

    fn program(&self) -> &TreeSampler {
        &self.program
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, unknowns: Unknowns, _: &[Block<'_>]) -> Result<Installed<TreeSampler>> {
        let Unknowns { state, shared } = unknowns;
        let mut kernel = self.generator.kernel.clone();
        if let Some(shared) = shared {
            kernel.set_shared(shared);
        }
        Ok(Installed { global: Chain::new(state, kernel), locals: None })
    }

    fn recover(&self, chain: &Chain, _: &[()]) -> Result<Unknowns> {
        Ok(Unknowns { state: chain.state.clone(), shared: chain.kernel.shared() })
    }

    fn names(&self) -> Vec<String> {
        let depth = self.generator.concentrations.alpha.len();
        let mut names = vec!["components".to_string()];
        for level in 0..=depth {
            names.extend(["nodes", "rest", "squared weights", "own weight"].map(|what| format!("{what}, level {level}")));
            names.extend(["rows 0 and 1 together", "the same times cells"].map(|what| format!("{what}, level {level}")));
        }
        names.extend(["rows 0 and 1 share a component", "the same times cells", "cells"].map(String::from));
        if self.generator.rules.learn {
            for what in ["alpha", "gamma"] {
                names.extend((1..=depth).map(|level| format!("exp -{what}, level {level}")));
            }
            names.push("exp -gamma0".into());
        }
        if self.generator.kernel.learns_strength() || self.generator.kernel.learns_variance() {
            names.push("exp -shared".into());
        }
        if self.generator.margin.is_some() {
            names.extend(["violations", "violation of row 0", "square of scores"].map(String::from));
            names.extend((1..=depth).map(|level| format!("score of row 0, level {level}")));
        }
        names
    }

    fn functions(&self, unknowns: &Unknowns, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let state = &unknowns.state;
        let first = |n: usize| {
            let mut cell = 0.0;
            data.x.view().for_row(n, |j, v| {
                if j == 0 {
                    cell = v
                }
            });
            cell.clamp(-1e3, 1e3)
        };
        let (a, b) = (first(0), first(1.min(state.leaf.len() - 1)));
        functions(state, a * b, out);
        out.push(a * a / (1.0 + a * a));
        if self.generator.rules.learn {
            let c = &state.concentrations;
            out.extend(c.alpha.iter().chain(&c.gamma).chain([&c.gamma0]).map(|v| (-v).exp()));
        }
        if let Some(shared) = unknowns.shared
            && (self.generator.kernel.learns_strength() || self.generator.kernel.learns_variance())
        {
            out.push((-shared).exp());
        }
        if let Some(given) = &self.generator.margin {
            let (arena, width) = (&state.arena, given.width);
            let phi = |n: usize| &given.features[n * width..][..width];
            let mut path = vec![0; arena.depth()];
            let mut violations = |n: usize| {
                arena.path_into(state.leaf[n], &mut path);
                given.margin.violation(arena, &state.eta, path.iter().copied(), phi(n))
            };
            let all: Vec<f64> = (0..state.leaf.len()).map(&mut violations).collect();
            let squares: f64 = arena.nodes().skip(1).flat_map(|z| &state.eta[z as usize * width..][..width]).map(|v| v * v).sum();
            out.extend([all.iter().sum::<f64>(), all[0], squares / (arena.len() - 1) as f64]);
            for level in 1..=arena.depth() {
                let own = arena.ancestor(state.leaf[0], level) as usize;
                out.push(dot(&state.eta[own * width..][..width], phi(0)));
            }
        }
    }
}

/// Rows and columns of the data of a check.
const TINY: (usize, usize) = (5, 2);
/// The largest separation of a check, whose trees are drawn by rejection.
const SEPARATION: f64 = 0.1;

/// All checks of the sampler that these settings name.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    let (rows, columns) = TINY;
    let mut generator = simulate::generator(settings, rows, columns)?;
    let program = settings.program(rows, vec![], vec![]);
    if let (Some(margin), Some(separation)) = (settings.charge(rows), &program.margin) {
        let margin = Margin { separation: margin.separation.min(SEPARATION), ..margin };
        let mut rng = Stream::new(seed, 0, Purpose::Check).rng();
        let features: Vec<f64> = (0..rows * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
        let norms: Vec<f64> = features.chunks_exact(columns).map(|phi| dot(phi, phi).sqrt()).collect();
        let calibration = if separation.calibrated { Some(Calibration::new(&margin, &norms)?) } else { None };
        generator.margin = Some(Given { margin, features, width: columns, calibration });
    }
    let mut subject = Subject::new(generator, program.choose);
    if let (Some(own), Some(asked)) = (&mut subject.program.margin, &program.margin) {
        own.update = asked.update;
    }
    crate::check::check(&subject, effort, seed, progress)
}

/// Functions of tree, weights and atoms, some of them with a product of cells of rows 0 and 1.
fn functions(state: &State, cells: f64, out: &mut Vec<f64>) {
    let (arena, rows) = (&state.arena, state.leaf.len());
    let second = 1.min(rows - 1);
    out.push(state.occupied_atoms() as f64);
    for level in 0..=arena.depth() {
        let nodes = arena.at_level(level);
        let mean = |f: &dyn Fn(&[f64]) -> f64| nodes.iter().map(|&z| f(state.weights.row(z))).sum::<f64>() / nodes.len() as f64;
        let node = |n: usize| arena.ancestor(state.leaf[n], level);
        let own = (0..rows).map(|n| state.weights.row(node(n))[column(state.atom[n])]).sum::<f64>() / rows as f64;
        let together = f64::from(node(0) == node(second));
        // the weight of atoms without rows is the rest of a mixture without end; it is no column of its own in either kind
        let rest = |row: &[f64]| row[REST] + (0..state.size.len()).filter(|&k| state.size[k] == 0).map(|k| row[k + 1]).sum::<f64>();
        let squares = |row: &[f64]| row[1..].iter().map(|w| w * w).sum::<f64>();
        out.extend([nodes.len() as f64, mean(&rest), mean(&squares), own, together, together * cells]);
    }
    let shared = f64::from(state.atom[0] == state.atom[second]);
    out.extend([shared, shared * cells]);
}

#[cfg(test)]
mod tests;
