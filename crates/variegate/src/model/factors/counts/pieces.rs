//! Work on pieces of a long list of numbers, on all threads where that pays. Results come in order and do not depend on threads.

use crate::parallel;

/// With fewer numbers waking the other threads takes longer than the work.
const WORTH_THREADS: usize = 1 << 15;

/// What `f` says of each piece of `len` numbers.
pub(super) fn map_pieces<T: Send>(values: &[f64], len: usize, f: impl Fn(&[f64]) -> T + Send + Sync) -> Vec<T> {
    if values.len() >= WORTH_THREADS { parallel::map(values.chunks(len), |_, piece| f(piece)) } else { values.chunks(len).map(f).collect() }
}

/// The same where `f` changes each piece, of which it is told the place.
pub(super) fn change_pieces<T: Send>(values: &mut [f64], len: usize, f: impl Fn(usize, &mut [f64]) -> T + Send + Sync) -> Vec<T> {
    if values.len() >= WORTH_THREADS {
        parallel::map(values.chunks_mut(len), f)
    } else {
        values.chunks_mut(len).enumerate().map(|(at, piece)| f(at, piece)).collect()
    }
}
