//! Work on all threads of the pool, whose results come in order and depend on no thread.
//!
//! Whatever the library does in parallel goes through here. What is handed to rayon is always the same two types, so that the machinery of a
//! parallel loop is compiled once and not for every loop of every program, where it would be a fifth of all code.

use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// What is to be done, and then what came of it.
enum Place<S, T> {
    Waiting(S),
    Taken,
    Done(T),
}

/// f(0, a), f(1, b), … of some items: rows, chunks, places to write to.
pub(crate) fn map<S: Send, T: Send>(items: impl IntoIterator<Item = S>, f: impl Fn(usize, S) -> T + Sync) -> Vec<T> {
    let places: Vec<Mutex<Place<S, T>>> = items.into_iter().map(|item| Mutex::new(Place::Waiting(item))).collect();
    if let [place] = &places[..] {
        fill(place, 0, &f);
    } else {
        each(places.len(), &|i| fill(&places[i], i, &f));
    }
    let done = |place: Mutex<Place<S, T>>| match place.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Place::Done(found) => Some(found),
        Place::Waiting(_) | Place::Taken => None,
    };
    places.into_iter().filter_map(done).collect()
}

/// The same for a number of items, which are their own numbers.
pub(crate) fn map_numbers<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    map(0..count, |_, i| f(i))
}

/// The lock is held only while an item is taken and its result is put down: work may be parallel itself, and this thread may then begin with
/// another item before it comes back.
fn fill<S, T>(place: &Mutex<Place<S, T>>, i: usize, f: &impl Fn(usize, S) -> T) {
    let put = |new| std::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), new);
    if let Place::Waiting(item) = put(Place::Taken) {
        put(Place::Done(f(i, item)));
    }
}

fn each(count: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(f);
}

/// Both at once.
pub(crate) fn both<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    fn join(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        rayon::join(a, b);
    }
    let (mut first, mut second) = (Place::Waiting(a), Place::Waiting(b));
    join(&mut || call(&mut first), &mut || call(&mut second));
    match (first, second) {
        (Place::Done(a), Place::Done(b)) => (a, b),
        _ => unreachable!("both were called"),
    }
}

fn call<T>(place: &mut Place<impl FnOnce() -> T, T>) {
    if let Place::Waiting(f) = std::mem::replace(place, Place::Taken) {
        *place = Place::Done(f());
    }
}

/// Buffers that threads take and give back, made as they are needed.
pub(crate) struct Pool<W>(Mutex<Vec<W>>);

impl<W> Default for Pool<W> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<W> Pool<W> {
    /// Lends a buffer, which holds what its last user left there.
    pub(crate) fn lend<T>(&self, new: impl FnOnce() -> W, f: impl FnOnce(&mut W) -> T) -> T {
        let free = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = free().pop();
        let mut buffer = taken.unwrap_or_else(new);
        let out = f(&mut buffer);
        free().push(buffer);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
    }

    #[test]
    fn results_come_in_order() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 3, 1000] {
                let squares = on_threads(threads, || map_numbers(count, |i| i * i));
                assert_eq!(squares, (0..count).map(|i| i * i).collect::<Vec<_>>());
                let mut numbers: Vec<usize> = (0..count).collect();
                let before = on_threads(threads, || map(numbers.chunks_mut(3), |at, some| (at, some.iter_mut().map(std::mem::take).sum())));
                let sums = (0..count).collect::<Vec<_>>().chunks(3).map(|c| c.iter().sum::<usize>()).enumerate().collect::<Vec<_>>();
                assert_eq!(before, sums);
                assert_eq!(numbers, vec![0; count]);
            }
        }
    }

    /// A thread that waits for inner work takes up other items of the outer loop.
    #[test]
    fn loops_may_lie_within_each_other() {
        let sums =
            on_threads(2, || map_numbers(50, |i| map_numbers(50, |j| both(|| i, || j)).into_iter().map(|(a, b)| a * b).sum::<usize>()));
        assert_eq!(sums, (0..50).map(|i| i * 1225).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_is_passed_on() {
        let caught = std::panic::catch_unwind(|| on_threads(2, || map_numbers(9, |i| assert_ne!(i, 7))));
        assert!(caught.is_err());
        assert!(std::panic::catch_unwind(|| both(|| 1, || panic!("second"))).is_err());
    }

    #[test]
    fn buffers_are_used_again() {
        let pool = Pool::default();
        let seen = map_numbers(100, |i| {
            pool.lend(Vec::new, |buffer| {
                buffer.push(i);
                buffer.len()
            })
        });
        assert_eq!(seen.len(), 100);
        let kept = pool.0.into_inner().unwrap();
        assert_eq!(kept.iter().map(Vec::len).sum::<usize>(), 100);
    }
}
