//! The samplers as the checks see them: a few rows of two columns, everything from the prior.
//!
//! A sweep conditions on all there is (features, who uses them, what governs them), so all of it is drawn and handed over.

use super::Schema;
use super::codes::Codes;
use super::generate::{Unknowns, mean};
use super::sampler::{Local, Sampler};
use super::settings::{MagnitudeKind, SamplerKind, Settings};
use super::state::State;
use crate::Result;
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress, check_ranked};
use crate::data::Dataset;
use crate::linalg::dot;
use crate::run::{Block, Philox};

/// Columns and rows of the tiny data.
const COLUMNS: usize = 2;
const ROWS: u64 = 4;
/// Rows where chains are slow.
const FEWER_ROWS: u64 = 3;
/// Discounts of slices. More than x unused features are above a slice with a probability that falls as x to the power of 1 - 1 / discount: with
/// the discounts of a fit, up to 0.45, some sweep out of the many of a check would meet hundreds of thousands, with these some thousand.
const MOST_DISCOUNT: f64 = 0.25;

/// Runs the three checks of the sampler that is set.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    // numbers of features change slowly where there is little else to learn from: fewer draws, further apart
    let calibration = CalibrationSettings { draws: 15, bins: 8, max_thin: 1000, ..effort.calibration.clone() };
    let effort = &Effort { calibration, ..effort.clone() };
    check_ranked(&Subject::new(settings, ROWS), &Subject::ranked(settings), effort, seed, progress)
}

/// Subject of the checks.
pub(super) struct Subject {
    /// The sampler.
    pub program: Sampler,
}

impl Subject {
    /// The sampler that is set, with so many rows. What is learned has priors of lighter tails than by default, or no figure of it would have
    /// moments.
    pub(super) fn new(settings: &Settings, rows: u64) -> Self {
        let mut program = Schema::drawn(COLUMNS, rows).sampler(settings);
        program.start = None;
        program.most = usize::MAX;
        let lighter = |prior: &mut Option<(f64, f64)>, with: (f64, f64)| *prior = prior.map(|_| with);
        lighter(&mut program.learn.mass, (3.0, 2.0));
        lighter(&mut program.learn.noise, (5.0, 2.0));
        lighter(&mut program.learn.spread, (5.0, 4.0));
        lighter(&mut program.learn.rate, (4.0, 2.0));
        lighter(&mut program.learn.kappa, (3.0, 1.0));
        if program.kind != SamplerKind::Anchored {
            program.learn.discount = program.learn.discount.map(|most| most.min(MOST_DISCOUNT));
        }
        Self { program }
    }

    /// The same as ranks need it, which take nearly independent draws from one posterior: with more noise. Rows that say much hold chains at one
    /// number of features for hundreds of sweeps, and those of directions, where features are also born one at a time, for thousands: these
    /// have fewer rows and features. One sweep and the joint distribution do not mind.
    pub(super) fn ranked(settings: &Settings) -> Self {
        let angular = settings.angular();
        let mut subject = Self::new(settings, if angular { FEWER_ROWS } else { ROWS });
        let learn = &mut subject.program.learn;
        learn.noise = learn.noise.map(|_| (5.0, 16.0));
        learn.spread = learn.spread.map(|_| (5.0, 16.0));
        if angular {
            learn.mass = learn.mass.map(|_| (3.0, 6.0));
        }
        subject
    }
}

impl Checkable for Subject {
    type Program = Sampler;
    type Model = Sampler;

    fn title(&self) -> String {
        let process =
            if self.program.learn.discount.is_some() || self.program.hyper.process.discount > 0.0 { "stable-beta" } else { "buffet" };
        let entries = if self.program.angular.is_some() { "mutual-angular" } else { "Gaussian" };
        format!("features by {}, {process} process, {entries}", self.program.kind.word())
    }

    fn block_rows(&self) -> usize {
        2
    }

    fn model(&self) -> &Sampler {
        &self.program
    }

    fn program(&self) -> &Sampler {
        &self.program
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, unknowns: Unknowns, blocks: &[Block<'_>]) -> Result<Installed<Sampler>> {
        let mut rows = unknowns.rows.into_iter();
        let ids = unknowns.state.features.ids.clone();
        let locals = blocks
            .iter()
            .map(|block| {
                let own: Vec<Vec<u32>> = rows.by_ref().take(block.rows()).collect();
                Local { codes: Codes::of(&ids, &own), ..Local::default() }
            })
            .collect();
        Ok(Installed { global: unknowns.state, locals: Some(locals) })
    }

    fn recover(&self, global: &State, locals: &[Local]) -> Result<Unknowns> {
        let mut state = global.clone();
        let mut rows = Vec::new();
        for local in locals {
            let mut codes = local.codes.clone();
            codes.arrange(&state.features.ids);
            rows.extend((0..codes.rows()).map(|i| codes.used(i)));
        }
        // names begin anew with each installed state, or those of the next sweep would meet those of this one
        state.features.ids = (0..state.features.len() as u64).collect();
        Ok(Unknowns { state, rows })
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<&str> = vec![
            "features",
            "no features",
            "ones",
            "singles",
            "doubles",
            "shared by rows 1 and 2",
            "sum of m(m-1)",
            "features of row 1",
            "squares left",
            "ln(1+|w|)",
            "ln(1+|x|)",
            "fit of row 1",
            "ln chance of the first",
            "squares left × features",
        ];
        let learn = &self.program.learn;
        if learn.mass.is_some() {
            names.extend(["ln mass", "ln mass × features"]);
        }
        if learn.discount.is_some() {
            names.extend(["discount", "discount × features"]);
        }
        if learn.level.is_some() {
            names.extend(["ln level", "ln level × features"]);
        }
        if learn.noise.is_some() {
            names.extend(["ln noise", "ln noise × ln squares left"]);
        }
        if learn.spread.is_some() {
            names.extend(["ln spread", "ln spread × features"]);
        }
        if self.program.intercept.variance().is_some() {
            names.extend(["intercept", "squared intercept", "intercept × ones"]);
        }
        if self.program.angular.is_some() {
            names.extend([
                "places",
                "first two directions",
                "sum of lengths",
                "ln last chance",
                "length of the first",
                "first direction",
                "uses of the first",
            ]);
        }
        if learn.rate.is_some() {
            names.extend(["ln rate", "ln rate × places"]);
        }
        if learn.kappa.is_some() {
            names.extend(["ln kappa", "ln kappa × first two directions"]);
        }
        names.into_iter().map(String::from).collect()
    }

    fn functions(&self, unknowns: &Unknowns, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let (state, learn) = (&unknowns.state, &self.program.learn);
        let (features, hyper) = (&state.features, &state.hyper);
        let uses: Vec<f64> = features.uses.iter().filter(|m| **m > 0).map(|&m| m as f64).collect();
        let (count, ones) = (uses.len() as f64, uses.iter().sum::<f64>());
        let times = |m: f64| uses.iter().filter(|u| **u == m).count() as f64;
        let soft = |v: f64| v.abs().ln_1p();
        let (mut left, mut x_sum) = (0.0, 0.0);
        for (i, used) in unknowns.rows.iter().enumerate() {
            let mut x = vec![0.0; data.x.cols()];
            data.x.view().for_row(i, |j, v| x[j] = v);
            x_sum += x.iter().map(|&v| soft(v)).sum::<f64>();
            x.iter_mut().zip(mean(state, used)).for_each(|(x, m)| *x -= m);
            left += dot(&x, &x);
        }
        let shared = if unknowns.rows.len() > 1 { unknowns.rows[0].iter().filter(|k| unknowns.rows[1].contains(k)).count() } else { 0 };
        let entries: f64 = features.in_use().iter().flat_map(|&k| features.weight(k)).map(soft).sum();
        // the chance of the largest that is used
        let first = features.in_use().iter().map(|&k| features.ln_on[k]).fold(f64::NEG_INFINITY, f64::max);
        out.extend([
            count,
            f64::from(u8::from(count == 0.0)),
            ones,
            times(1.0),
            times(2.0),
            shared as f64,
            uses.iter().map(|m| m * (m - 1.0)).sum(),
            unknowns.rows[0].len() as f64,
            left.ln_1p(),
            entries,
            x_sum,
            mean(state, &unknowns.rows[0]).iter().map(|&v| soft(v)).sum(),
            if count > 0.0 { first.max(-20.0) } else { 0.0 },
            left.ln_1p() * count,
        ]);
        if learn.mass.is_some() {
            out.extend([hyper.process.mass.ln(), hyper.process.mass.ln() * count]);
        }
        if learn.discount.is_some() {
            out.extend([hyper.process.discount, hyper.process.discount * count]);
        }
        if learn.level.is_some() {
            let level = (hyper.process.concentration + hyper.process.discount).ln();
            out.extend([level, level * count]);
        }
        if learn.noise.is_some() {
            out.extend([hyper.noise.ln(), hyper.noise.ln() * left.ln_1p()]);
        }
        if learn.spread.is_some() {
            out.extend([hyper.spread.ln(), hyper.spread.ln() * count]);
        }
        if self.program.intercept.variance().is_some() {
            let b = state.intercept[0];
            out.extend([b, b * b, b * ones]);
        }
        let places = features.len() as f64;
        let width = self.program.width;
        let pair = if places > 1.0 && self.program.angular.is_some() {
            dot(&features.entries[..width], &features.entries[width..2 * width])
        } else {
            0.0
        };
        if self.program.angular.is_some() {
            let last = features.ln_on.last().copied().unwrap_or(0.0).max(-20.0);
            let one = |v: &[f64]| v.first().copied().unwrap_or(0.0);
            let uses = features.uses.first().copied().unwrap_or(0) as f64;
            out.extend([places, pair, features.lengths.iter().sum(), last, one(&features.lengths), one(&features.entries), uses]);
        }
        if learn.rate.is_some() {
            out.extend([hyper.rate.ln(), hyper.rate.ln() * places]);
        }
        if learn.kappa.is_some() {
            out.extend([hyper.kappa.ln(), hyper.kappa.ln() * pair]);
        }
        debug_assert!(self.program.angular.as_ref().is_none_or(|a| a.magnitude == MagnitudeKind::Gamma || learn.rate.is_none()));
    }
}
