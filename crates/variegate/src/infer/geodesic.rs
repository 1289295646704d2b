//! Geodesic Hamiltonian Monte Carlo on products of spheres and lines (Byrne and Girolami, 2013).
//!
//! A point is a list of numbers in which some stretches are rows of unit length, each a point of a sphere, and all others are plain
//! coordinates. The target is a log density with respect to surface measure on the spheres and length on the lines. Momenta are
//! standard normal in the tangent space. A leapfrog step is
//!
//! ```text
//! v += ε/2 ∇;  v −= a (a'v) on spheres
//! spheres: along the great circle of speed α = |v|:  a ← a cos αε + (v/α) sin αε,  v ← −α a sin αε + v cos αε  (old a, old v);  lines: x += ε v
//! v += ε/2 ∇;  v −= a (a'v) on spheres
//! ```
//!
//! which is reversible and keeps volume, so the Metropolis test makes the target exactly invariant. The number of steps is drawn anew each
//! time, which breaks orbits that return to themselves.
//!
//! Limits: a sphere of one dimension is two points and has no tangent: its rows never move here, and a sampler needs flips of sign beside it.
//! The density should be differentiable; where it jumps the step stays right and acceptance falls.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::Result;
use crate::linalg::dot;
use crate::run::open01;

/// An error of the energy beyond this is a divergence.
const DIVERGENT: f64 = 1000.0;
/// Squared speeds beyond this multiple of what 1000 and all other numbers have on average end a trajectory.
const RUNAWAY: f64 = 100.0;

/// Removes from each row of `velocity` its part along the unit row of `directions`; panics if the lengths differ or are no multiple of `dim`.
fn project(directions: &[f64], velocity: &mut [f64], dim: usize) {
    assert!(directions.len() == velocity.len() && directions.len().is_multiple_of(dim), "rows of {dim}");
    for (a, v) in directions.chunks_exact(dim).zip(velocity.chunks_exact_mut(dim)) {
        let along = dot(a, v);
        v.iter_mut().zip(a).for_each(|(v, a)| *v -= along * a);
    }
}

/// Moves each row along its great circle for the time `step`; velocities are tangent before and after.
///
/// Rows with velocity zero stay. Rounding is removed from lengths and tangents each time. Panics as [`project`].
fn flow(directions: &mut [f64], velocity: &mut [f64], dim: usize, step: f64) {
    assert!(directions.len() == velocity.len() && directions.len().is_multiple_of(dim), "rows of {dim}");
    for (a, v) in directions.chunks_exact_mut(dim).zip(velocity.chunks_exact_mut(dim)) {
        let speed = dot(v, v).sqrt();
        if speed == 0.0 {
            continue;
        }
        let (sin, cos) = (speed * step).sin_cos();
        for (a, v) in a.iter_mut().zip(v.iter_mut()) {
            (*a, *v) = (*a * cos + *v / speed * sin, *v * cos - speed * *a * sin);
        }
        let length = dot(a, a).sqrt();
        a.iter_mut().for_each(|a| *a /= length);
        project(a, v, dim);
    }
}

/// Which stretches of a point are spheres.
#[derive(Debug, Clone, Copy)]
pub struct Manifold<'a> {
    /// Offset, rows and dimension of each block of unit vectors; blocks do not overlap.
    pub spheres: &'a [(usize, usize, usize)],
    /// Numbers in a point; those in no block are plain coordinates.
    pub len: usize,
    /// Pace of each number: how far a step of length 1 goes there, the same for all of a row. None: 1 for all.
    pub paces: &'a [f64],
}

/// What a transition did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trajectory {
    /// Probability with which the end was accepted; 0 where the trajectory diverged.
    pub accept_probability: f64,
    /// Whether the point moved.
    pub accepted: bool,
    /// Whether the target was not finite on the way, or the energy was off by more than 1000 at the end.
    pub divergent: bool,
    /// Whether a second trajectory was tried.
    pub retried: bool,
    /// Leapfrog steps taken, each one evaluation of the target.
    pub steps: u32,
}

impl Manifold<'_> {
    fn project(&self, position: &[f64], velocity: &mut [f64]) {
        for &(offset, rows, dim) in self.spheres {
            let block = offset..offset + rows * dim;
            project(&position[block.clone()], &mut velocity[block], dim);
        }
    }

    fn pace(&self, at: usize) -> f64 {
        if self.paces.is_empty() { 1.0 } else { self.paces[at] }
    }

    /// Spheres along great circles, all else straight on.
    fn flow(&self, position: &mut [f64], velocity: &mut [f64], step: f64) {
        let straight = |position: &mut [f64], from: usize, to: usize| {
            (from..to).for_each(|at| position[at] += step * self.pace(at) * velocity[at]);
        };
        let mut done = 0;
        for &(offset, rows, dim) in self.spheres {
            straight(position, done, offset);
            done = offset + rows * dim;
        }
        straight(position, done, self.len);
        for &(offset, rows, dim) in self.spheres {
            for at in (offset..offset + rows * dim).step_by(dim) {
                flow(&mut position[at..at + dim], &mut velocity[at..at + dim], dim, step * self.pace(at));
            }
        }
    }

    /// Velocities after a push by the gradient.
    fn kick(&self, velocity: &mut [f64], gradient: &[f64], half_step: f64) {
        for (at, (v, g)) in velocity.iter_mut().zip(gradient).enumerate() {
            *v += half_step * self.pace(at) * g;
        }
    }

    fn check(&self) {
        let mut done = 0;
        for &(offset, rows, dim) in self.spheres {
            assert!(offset >= done && dim > 0, "sphere blocks must be in order, without overlap, and have a dimension");
            done = offset + rows * dim;
        }
        assert!(done <= self.len, "sphere blocks reach beyond the point");
        assert!(self.paces.is_empty() || self.paces.len() == self.len, "one pace a number");
    }
}

/// How a transition goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Length of a step.
    pub step: f64,
    /// Most steps; their number is uniform on 1, ..., `max_steps`.
    pub max_steps: u32,
    /// Where the end of a trajectory is refused, another begins with the same velocity and steps that are shorter by this factor.
    pub retry: Option<f64>,
}

/// Position and velocity, with the log density and its gradient there.
#[derive(Clone)]
struct Place {
    position: Vec<f64>,
    velocity: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

impl Place {
    fn energy(&self) -> f64 {
        0.5 * dot(&self.velocity, &self.velocity) - self.value
    }
}

/// Where so many leapfrog steps lead; none where the target is not finite on the way, or the speed beyond reason.
fn trajectory(
    manifold: Manifold<'_>,
    from: &Place,
    step: f64,
    steps: u32,
    taken: &mut u32,
    target: &mut impl FnMut(&[f64], &mut [f64], bool) -> Result<f64>,
) -> Result<Option<Place>> {
    let mut at = from.clone();
    for number in 1..=steps {
        manifold.kick(&mut at.velocity, &at.gradient, 0.5 * step);
        manifold.project(&at.position, &mut at.velocity);
        // speeds halfway are those of the same trajectory run back, so that both are refused or none
        if dot(&at.velocity, &at.velocity) > RUNAWAY * (1000.0 + manifold.len as f64) {
            return Ok(None);
        }
        manifold.flow(&mut at.position, &mut at.velocity, step);
        at.value = target(&at.position, &mut at.gradient, number == steps)?;
        *taken += 1;
        if !at.value.is_finite() || at.gradient.iter().any(|g| !g.is_finite()) {
            return Ok(None);
        }
        manifold.kick(&mut at.velocity, &at.gradient, 0.5 * step);
        manifold.project(&at.position, &mut at.velocity);
    }
    Ok(Some(at))
}

/// One transition; leaves the target invariant.
///
/// `target` gives the log density and writes its ambient gradient (over what is there). It is told whether a trajectory ends there: on the
/// way only the gradient counts, and any finite number does for the density. The gradient may be rounded as long as it is a function of the
/// position; the density may not. `value` and `gradient` belong to `position`, before and after. An error of the target ends the transition
/// and leaves the three as they were; a value that is not finite is a divergence, not an error.
///
/// A second trajectory after a refusal is accepted as Modi, Barnett and Carpenter (2023) have it: beside the energies counts how likely the
/// first would have been refused from the other end, which takes a third trajectory to know.
///
/// # Panics
/// If lengths do not fit the manifold, or its blocks are out of order or overlap.
pub fn transition<R: Rng + ?Sized>(
    manifold: Manifold<'_>,
    position: &mut Vec<f64>,
    value: &mut f64,
    gradient: &mut Vec<f64>,
    pace: Pace,
    mut target: impl FnMut(&[f64], &mut [f64], bool) -> Result<f64>,
    rng: &mut R,
) -> Result<Trajectory> {
    manifold.check();
    assert!(position.len() == manifold.len && gradient.len() == manifold.len, "a point has {} numbers", manifold.len);
    let steps = rng.random_range(1..=pace.max_steps.max(1));
    let mut velocity: Vec<f64> = (0..manifold.len).map(|_| rng.sample(StandardNormal)).collect();
    manifold.project(position, &mut velocity);
    let here = Place { position: position.clone(), velocity, value: *value, gradient: gradient.clone() };
    let mut taken = 0;
    // by how much the energy falls on the first trajectory from one place to another; −∞ where it diverges
    let gain = |from: &Place, to: &Option<Place>| {
        let gain = to.as_ref().map_or(f64::NAN, |to| from.energy() - to.energy());
        if gain.is_nan() || gain < -DIVERGENT { f64::NEG_INFINITY } else { gain }
    };
    let there = trajectory(manifold, &here, pace.step, steps, &mut taken, &mut target)?;
    let first = gain(&here, &there);
    let accept_probability = first.exp().min(1.0);
    let mut done = Trajectory { accept_probability, accepted: false, retried: false, divergent: first == f64::NEG_INFINITY, steps: taken };
    let mut chosen = there.filter(|_| !done.divergent && open01(rng).ln() < first);
    if let (None, Some(factor)) = (&chosen, pace.retry) {
        done.retried = true;
        if let Some(mut there) = trajectory(manifold, &here, pace.step / factor, steps, &mut taken, &mut target)? {
            // what remains is at most 1
            let bar = open01(rng).ln() + (1.0 - accept_probability).ln() - (here.energy() - there.energy());
            if bar < 0.0 {
                there.velocity.iter_mut().for_each(|v| *v = -*v);
                let ghost = trajectory(manifold, &there, pace.step, steps, &mut taken, &mut target)?;
                if bar < (1.0 - gain(&there, &ghost).exp().min(1.0)).ln() {
                    chosen = Some(there);
                }
            }
        }
    }
    done.steps = taken;
    if let Some(there) = chosen {
        done.accepted = true;
        (*position, *value, *gradient) = (there.position, there.value, there.gradient);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::invariance::{InvarianceSettings, one_step_invariance};
    use crate::check::report::CheckReport;
    use crate::dist::VonMisesFisher;
    use crate::prior::{normalise, uniform_direction};
    use crate::{Error, Result};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::Distribution;

    fn tangent(rows: usize, dim: usize, rng: &mut SmallRng) -> (Vec<f64>, Vec<f64>) {
        let mut a = vec![0.0; rows * dim];
        a.chunks_exact_mut(dim).for_each(|row| uniform_direction(row, rng));
        let mut v: Vec<f64> = (0..rows * dim).map(|_| rng.sample(StandardNormal)).collect();
        project(&a, &mut v, dim);
        (a, v)
    }

    #[test]
    fn flow_keeps_sphere_and_speed_and_reverses() {
        let mut rng = SmallRng::seed_from_u64(31);
        for dim in [2, 3, 20] {
            let (mut a, mut v) = tangent(5, dim, &mut rng);
            v[..dim].fill(0.0);
            let (start, pace) = (a.clone(), v.clone());
            for _ in 0..50 {
                flow(&mut a, &mut v, dim, 0.3);
            }
            assert_eq!(a[..dim], start[..dim]);
            for ((a, v), p) in a.chunks_exact(dim).zip(v.chunks_exact(dim)).zip(pace.chunks_exact(dim)) {
                assert!((dot(a, a) - 1.0).abs() < 1e-14 && dot(a, v).abs() < 1e-14);
                assert!((dot(v, v) - dot(p, p)).abs() < 1e-12 * (1.0 + dot(p, p)));
            }
            // fifty small steps are one large one, and the way back leads home
            let (mut once, mut v_once) = (start.clone(), pace.clone());
            flow(&mut once, &mut v_once, dim, 15.0);
            assert!(once.iter().zip(&a).all(|(x, y)| (x - y).abs() < 1e-12));
            v.iter_mut().for_each(|v| *v = -*v);
            for _ in 0..50 {
                flow(&mut a, &mut v, dim, 0.3);
            }
            assert!(a.iter().zip(&start).all(|(x, y)| (x - y).abs() < 1e-12));
            assert!(v.iter().zip(&pace).all(|(x, y)| (x + y).abs() < 1e-11));
        }
    }

    #[test]
    fn signs_stay() {
        let (mut a, mut v) = (vec![1.0, -1.0], vec![0.3, 2.0]);
        project(&a, &mut v, 1);
        assert_eq!(v, [0.0, 0.0]);
        flow(&mut a, &mut v, 1, 0.7);
        assert_eq!(a, [1.0, -1.0]);
    }

    const MEAN: [f64; 3] = [0.48, 0.6, 0.64];
    const KAPPA: f64 = 3.0;
    /// One plain number before, the sphere, one plain number after: blocks may lie anywhere.
    const MANIFOLD: Manifold<'static> = Manifold { spheres: &[(1, 1, 3)], len: 5, paces: &[] };

    /// vMF(mean, kappa) × N(1, 0.5²), and the last number leans on the direction, x₅ | a ~ N(2 a₁, 1).
    fn target(x: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let lean = x[4] - 2.0 * x[1];
        gradient[0] = -4.0 * (x[0] - 1.0);
        for d in 0..3 {
            gradient[1 + d] = KAPPA * MEAN[d];
        }
        gradient[1] += 2.0 * lean;
        gradient[4] = -lean;
        Ok(KAPPA * dot(&MEAN, &x[1..4]) - 2.0 * (x[0] - 1.0).powi(2) - 0.5 * lean * lean)
    }

    fn exact(rng: &mut SmallRng) -> Vec<f64> {
        let a = VonMisesFisher::new(&MEAN, KAPPA).unwrap().sample(rng);
        let (x, y): (f64, f64) = (rng.sample(StandardNormal), rng.sample(StandardNormal));
        vec![1.0 + 0.5 * x, a[0], a[1], a[2], 2.0 * a[0] + y]
    }

    /// Exact draws in, one transition, the same distribution out; false alarms once in 10⁴ runs (the seed is fixed). The gradient is rounded to
    /// multiples of `grain`, and the density is only there where a trajectory ends.
    fn invariance(pace: Pace, grain: f64) -> CheckReport {
        let rough = |x: &[f64], gradient: &mut [f64], end: bool| {
            let value = target(x, gradient)?;
            if grain > 0.0 {
                gradient.iter_mut().for_each(|g| *g = (*g / grain).round() * grain);
            }
            Ok(if end { value } else { 0.0 })
        };
        let settings = InvarianceSettings { draws: 600_000, false_alarm_rate: 1e-4 };
        let names = ["x", "x²", "a₁", "a₂", "a₃", "μ'a", "(μ'a)²", "a₁a₂", "a₃²", "y", "y²", "y a₁", "xy", "l"];
        let functions = |s: &Vec<f64>, out: &mut Vec<f64>| {
            let along = dot(&MEAN, &s[1..4]);
            out.extend([s[0], s[0] * s[0], s[1], s[2], s[3], along, along * along, s[1] * s[2], s[3] * s[3]]);
            out.extend([s[4], s[4] * s[4], s[4] * s[1], s[0] * s[4], target(s, &mut [0.0; 5]).unwrap_or(f64::NAN)]);
        };
        let mut rng = SmallRng::seed_from_u64(32);
        let move_once = |mut s: Vec<f64>, rng: &mut SmallRng| {
            let mut gradient = vec![0.0; 5];
            let mut value = rough(&s, &mut gradient, true)?;
            let trajectory = transition(MANIFOLD, &mut s, &mut value, &mut gradient, pace, rough, rng)?;
            let mut again = vec![0.0; 5];
            assert_eq!(value, rough(&s, &mut again, true)?);
            assert_eq!(gradient, again);
            assert!(trajectory.steps >= 1 && trajectory.steps <= 3 * pace.max_steps && (!trajectory.divergent || pace.retry.is_some()));
            Ok::<_, Error>(s)
        };
        one_step_invariance("geodesic", &settings, &names, functions, &mut rng, |rng| Ok(exact(rng)), move_once).unwrap()
    }

    /// Steps so long that a third of the proposals is refused: the test of acceptance matters too. So it does where the force is rough.
    #[test]
    fn long_sphere_and_lines_are_invariant() {
        for (step, max_steps, retry, grain) in [
            (0.5, 4, None, 0.0),
            (0.85, 2, None, 0.0),
            (0.5, 4, None, 1.0),
            (0.85, 4, Some(2.0), 0.0),
            (1.0, 2, Some(1.3), 0.0),
            (0.95, 4, Some(4.0), 1.0),
        ] {
            let report = invariance(Pace { step, max_steps, retry }, grain);
            assert!(report.passed, "{report}");
        }
    }

    #[test]
    fn divergences_leave_the_point() {
        let mut rng = SmallRng::seed_from_u64(33);
        let mut start = vec![1.0, 0.2, 0.3, 0.4, 0.0];
        normalise(&mut start[1..4]);
        let mut before = vec![0.0; 5];
        let value_before = target(&start, &mut before).unwrap();
        let mut run = |step: f64, target: &dyn Fn(&[f64], &mut [f64], bool) -> Result<f64>| {
            let (mut x, mut value, mut gradient) = (start.clone(), value_before, before.clone());
            let trajectory =
                transition(MANIFOLD, &mut x, &mut value, &mut gradient, Pace { step, max_steps: 20, retry: None }, target, &mut rng);
            assert_eq!((&x, value, &gradient), (&start, value_before, &before));
            trajectory
        };
        for bad in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            let trajectory = run(0.1, &|_, _, _| Ok(bad)).unwrap();
            assert!(trajectory.divergent && !trajectory.accepted && trajectory.steps == 1 && trajectory.accept_probability == 0.0);
        }
        assert!(run(1e4, &|x, gradient, _| target(x, gradient)).unwrap().divergent);
        assert!(run(0.1, &|_, _, _| Err(Error::Unfit("no".into()))).is_err());
    }
}
