//! Means of a group of labels by conjugate gradients.

use super::super::super::gamma_factor::GammaFactor;
use super::{Chunk, Group, LANES, Lanes, Rowwise};
use crate::linalg::wide;

/// Steps of conjugate gradients for each minibatch.
const STEPS: usize = 3;

/// Rows of a minibatch with the columns that occur in them numbered anew: the others are coupled to nothing.
pub(super) struct Rows<'a> {
    chunks: &'a [Chunk],
    /// Columns that occur, ascending.
    touched: Vec<u32>,
    /// Places of the entries of each chunk among them.
    places: Vec<Vec<u32>>,
}

impl<'a> Rows<'a> {
    /// The bias, the last of `dim` columns, always occurs.
    pub(super) fn new(chunks: &'a [Chunk], dim: usize) -> Self {
        let mut place = vec![u32::MAX; dim];
        place[dim - 1] = 0;
        chunks.iter().flat_map(|c| &c.columns).for_each(|&j| place[j as usize] = 0);
        let mut touched = Vec::new();
        for (j, place) in place.iter_mut().enumerate().filter(|(_, p)| **p == 0) {
            *place = touched.len() as u32;
            touched.push(j as u32);
        }
        let places = chunks.iter().map(|c| c.columns.iter().map(|&j| place[j as usize]).collect()).collect();
        Self { chunks, touched, places }
    }

    /// Calls f(entries' places, their values, linear terms of its labels, components, their shares, their curvatures in this group) for
    /// every row. Rows without patterns have no components, and one curvature.
    #[inline(always)]
    fn each(&self, group: usize, mut f: impl FnMut(&[u32], &[f64], Response<'_>, &[u32], &[f64], &[Lanes])) {
        for (chunk, places) in self.chunks.iter().zip(&self.places) {
            let (rows, alone) = (chunk.ends.len(), !chunk.response.is_empty());
            let pairs = if alone { rows } else { chunk.share.len() };
            let weight = &chunk.weight[group * pairs..(group + 1) * pairs];
            let labels = chunk.y.len() / rows.max(1);
            let (mut entry, mut pair) = (0, 0);
            for i in 0..rows {
                let entries = entry..chunk.ends[i] as usize;
                entry = entries.end;
                let (places, values) = (&places[entries.clone()], &chunk.values[entries]);
                if alone {
                    f(places, values, Response::Given(&chunk.response[group * rows + i]), &[], &[], &weight[i..=i]);
                    continue;
                }
                let pairs = pair..chunk.component_ends[i] as usize;
                pair = pairs.end;
                let y = &chunk.y[i * labels..(i + 1) * labels];
                let (components, shares) = (&chunk.of_component[pairs.clone()], &chunk.share[pairs.clone()]);
                f(places, values, Response::Labels(y), components, shares, &weight[pairs]);
            }
        }
    }

    /// out += new × Q_B p, both over the columns that occur, then the patterns.
    #[inline(always)]
    fn product(&self, group: usize, new: &Lanes, p: &[Lanes], out: &mut [Lanes]) {
        let bias = self.touched.len() - 1;
        self.each(group, |places, values, _, components, _, weights| {
            let mut u = p[bias];
            for (&j, &x) in places.iter().zip(values) {
                add_scaled(&mut u, x, &p[j as usize]);
            }
            let mut pull = [0.0; LANES];
            if let ([], [w]) = (components, weights) {
                (0..LANES).for_each(|c| pull[c] = new[c] * w[c] * u[c]);
            }
            for (&k, w) in components.iter().zip(weights) {
                let (b, out) = (&p[bias + 1 + k as usize], &mut out[bias + 1 + k as usize]);
                for c in 0..LANES {
                    let t = new[c] * w[c] * (u[c] + b[c]);
                    out[c] += t;
                    pull[c] += t;
                }
            }
            add_scaled(&mut out[bias], 1.0, &pull);
            for (&j, &x) in places.iter().zip(values) {
                add_scaled(&mut out[j as usize], x, &pull);
            }
        });
    }

    /// diagonal += diag Q_B, linear += g_B.
    #[inline(always)]
    fn ends(&self, group: usize, diagonal: &mut [Lanes], linear: &mut [Lanes]) {
        let bias = self.touched.len() - 1;
        self.each(group, |places, values, response, components, shares, weights| {
            let response = response.lanes(group);
            let mut curvature = [0.0; LANES];
            if let ([], [w]) = (components, weights) {
                curvature = *w;
            }
            for ((&k, &share), w) in components.iter().zip(shares).zip(weights) {
                let at = bias + 1 + k as usize;
                add_scaled(&mut diagonal[at], 1.0, w);
                add_scaled(&mut linear[at], share, &response);
                add_scaled(&mut curvature, 1.0, w);
            }
            add_scaled(&mut diagonal[bias], 1.0, &curvature);
            add_scaled(&mut linear[bias], 1.0, &response);
            for (&j, &x) in places.iter().zip(values) {
                add_scaled(&mut diagonal[j as usize], x * x, &curvature);
                add_scaled(&mut linear[j as usize], x, &response);
            }
        });
    }
}

/// Where the linear terms of a row's labels come from.
#[derive(Clone, Copy)]
enum Response<'a> {
    /// y − ½ of its labels, 0 where one is unknown.
    Labels(&'a [i8]),
    /// They were handed over.
    Given(&'a Lanes),
}

impl Response<'_> {
    /// Those of a group.
    #[inline(always)]
    fn lanes(self, group: usize) -> Lanes {
        let mut response = [0.0; LANES];
        match self {
            Self::Given(lanes) => return *lanes,
            Self::Labels(y) => {
                for (r, y) in response.iter_mut().zip(y.iter().skip(group * LANES)) {
                    *r = if *y < 0 { 0.0 } else { f64::from(*y) - 0.5 };
                }
            }
        }
        response
    }
}

/// out += times × v.
#[inline(always)]
fn add_scaled(out: &mut Lanes, times: f64, v: &Lanes) {
    for c in 0..LANES {
        out[c] += times * v[c];
    }
}

/// Dot products, label by label.
#[inline(always)]
fn dots(a: &[Lanes], b: &[Lanes]) -> Lanes {
    let mut sum = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for c in 0..LANES {
            sum[c] += a[c] * b[c];
        }
    }
    sum
}

impl Rowwise {
    /// One step of a group; gives E|w|² without the bias and E|b|² of each of its labels.
    pub(super) fn step(
        &self,
        group: &mut Group,
        at: usize,
        precisions: &[(GammaFactor, GammaFactor)],
        steps: &[(f64, f64)],
        components: usize,
        rows: &Rows<'_>,
    ) -> Vec<(f64, f64)> {
        let mut prior = [[1.0; LANES]; 3];
        let (mut old, mut new) = ([0.0; LANES], [0.0; LANES]);
        for (lane, (&(w, b), &step)) in precisions.iter().zip(steps).enumerate() {
            prior[0][lane] = self.prior.weight_precision.mean(w);
            prior[1][lane] = self.prior.bias_precision;
            prior[2][lane] = self.prior.pattern_precision.mean(b);
            (old[lane], new[lane]) = step;
        }
        let squares = wide(
            #[inline(always)]
            || {
                group.prior = prior;
                self.advance(group, at, &old, &new, components, rows)
            },
        );
        (0..steps.len()).map(|lane| (squares[0][lane], squares[1][lane])).collect()
    }

    #[inline(always)]
    fn advance(&self, group: &mut Group, at: usize, old: &Lanes, new: &Lanes, components: usize, rows: &Rows<'_>) -> [Lanes; 2] {
        let dim = self.prior.dim;
        let bias = rows.touched.len() - 1;
        let size = bias + 1 + components;
        let whole = |place: usize| if place <= bias { rows.touched[place] as usize } else { dim + place - bias - 1 };
        let kind = |place: usize| if place < bias { 0 } else { 1 + (place > bias) as usize };
        let mut data = vec![[0.0; LANES]; size];
        let mut right = vec![[0.0; LANES]; size];
        rows.ends(at, &mut data, &mut right);
        // coordinates that are coupled: the diagonal without the minibatch, with it, and the linear term
        let mut alone = vec![[0.0; LANES]; size];
        let mut diagonal = vec![[0.0; LANES]; size];
        let mut mean = vec![[0.0; LANES]; size];
        for place in 0..size {
            let i = whole(place);
            mean[place] = group.mean[i];
            for c in 0..LANES {
                let kept = old[c] * group.curvature[i][c];
                alone[place][c] = group.prior[kind(place)][c] + kept;
                group.curvature[i][c] = kept + new[c] * data[place][c];
                diagonal[place][c] = group.prior[kind(place)][c] + group.curvature[i][c];
                right[place][c] = old[c] * group.linear[i][c] + new[c] * right[place][c];
            }
        }
        let mut image = vec![[0.0; LANES]; size];
        let times_alone = |p: &Lanes, alone: &Lanes, out: &mut Lanes| (0..LANES).for_each(|c| out[c] = alone[c] * p[c]);
        (0..size).for_each(|place| times_alone(&mean[place], &alone[place], &mut image[place]));
        rows.product(at, new, &mean, &mut image);
        // the residual, and the first direction: the residual over the diagonal
        let mut residual = right;
        let mut direction = vec![[0.0; LANES]; size];
        let mut length = [0.0; LANES];
        for place in 0..size {
            let (r, z) = (&mut residual[place], &mut direction[place]);
            for c in 0..LANES {
                r[c] -= image[place][c];
                z[c] = r[c] / diagonal[place][c];
                length[c] += r[c] * z[c];
            }
            times_alone(z, &alone[place], &mut image[place]);
        }
        for step in 0..STEPS {
            rows.product(at, new, &direction, &mut image);
            let curved = dots(&direction, &image);
            let mut times = [0.0; LANES];
            for c in 0..LANES {
                times[c] = if curved[c] > 0.0 { length[c] / curved[c] } else { 0.0 };
            }
            // each vector is read once: the image gives way to the residual over the diagonal
            let mut next = [0.0; LANES];
            let last = step + 1 == STEPS;
            for place in 0..size {
                let (m, r, z) = (&mut mean[place], &mut residual[place], &mut image[place]);
                for c in 0..LANES {
                    m[c] += times[c] * direction[place][c];
                }
                if !last {
                    for c in 0..LANES {
                        r[c] -= times[c] * z[c];
                        z[c] = r[c] / diagonal[place][c];
                        next[c] += r[c] * z[c];
                    }
                }
            }
            if last {
                break;
            }
            for c in 0..LANES {
                times[c] = if length[c] > 0.0 { next[c] / length[c] } else { 0.0 };
            }
            for place in 0..size {
                let (d, z) = (&mut direction[place], &mut image[place]);
                for c in 0..LANES {
                    d[c] = z[c] + times[c] * d[c];
                }
                times_alone(d, &alone[place], z);
            }
            length = next;
        }
        // columns that do not occur stand alone: D and h shrink, and the mean follows
        let mut next = 0;
        let mut squares = [[0.0; LANES]; 2];
        for i in 0..dim - 1 {
            let occurs = rows.touched[next] as usize == i;
            for c in 0..LANES {
                if !occurs {
                    group.curvature[i][c] *= old[c];
                    group.linear[i][c] *= old[c];
                }
                let precision = group.prior[0][c] + group.curvature[i][c];
                let m = if occurs { mean[next][c] } else { group.linear[i][c] / precision };
                group.mean[i][c] = m;
                group.linear[i][c] = precision * m;
                squares[0][c] += m * m + 1.0 / precision;
            }
            next += occurs as usize;
        }
        for place in bias..size {
            let i = whole(place);
            for c in 0..LANES {
                let precision = group.prior[kind(place)][c] + group.curvature[i][c];
                let m = mean[place][c];
                group.mean[i][c] = m;
                group.linear[i][c] = precision * m;
                squares[1][c] += if place > bias { m * m + 1.0 / precision } else { 0.0 };
            }
        }
        squares
    }
}
