//! Workers in this process that speak bytes only, and can be killed: how programs are tested for other engines than threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{AnyProgram, Shape, Worker, Workers};
use crate::Result;
use crate::data::Dataset;

/// Workers in this process.
pub struct Loopback {
    program: Arc<dyn AnyProgram>,
    shape: Shape,
    spans: Vec<Range<u32>>,
    /// Rows of each span, and whoever holds them.
    held: Vec<(Arc<Dataset<'static>>, Mutex<Arc<Worker>>)>,
    /// The call before whose answer a worker dies next.
    next_death: AtomicU64,
    calls: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Loopback {
    /// Workers that hold the blocks up to each of these numbers; the last holds the rest.
    pub fn new(program: Arc<dyn AnyProgram>, data: &Dataset<'_>, shape: Shape, cuts: &[u32]) -> Result<Self> {
        let mut ends: Vec<u32> = cuts.iter().copied().filter(|c| (1..shape.blocks).contains(c)).chain([shape.blocks]).collect();
        ends.sort_unstable();
        ends.dedup();
        let spans: Vec<Range<u32>> = std::iter::once(0).chain(ends.iter().copied()).zip(ends.iter().copied()).map(|(a, b)| a..b).collect();
        let hold = |span: &Range<u32>| {
            let rows: Vec<usize> =
                (span.start as usize * shape.block_rows..(span.end as usize * shape.block_rows).min(shape.rows)).collect();
            let rows = Arc::new(data.subset(&rows));
            let worker = Worker::new(program.clone(), rows.clone(), span.clone(), shape)?;
            Ok((rows, Mutex::new(Arc::new(worker))))
        };
        let held = spans.iter().map(hold).collect::<Result<_>>()?;
        let count = || AtomicU64::new(0);
        let next_death = AtomicU64::new(u64::MAX);
        Ok(Self { program, shape, spans, held, next_death, calls: count(), sent: count(), received: count() })
    }

    /// The worker that is sent this call dies before it answers, and further ones do ever more rarely.
    pub fn killing(self, first: u64) -> Self {
        Self { next_death: AtomicU64::new(first), ..self }
    }

    /// Bytes of calls and of answers so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    fn call(&self, span: usize, call: &[u8]) -> Result<Option<Vec<u8>>> {
        let (rows, held) = &self.held[span];
        let number = 1 + self.calls.fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(call.len() as u64, Ordering::Relaxed);
        let death = self.next_death.load(Ordering::Relaxed);
        if number >= death && self.next_death.compare_exchange(death, death + death / 2 + 3, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let other = Worker::new(self.program.clone(), rows.clone(), self.spans[span].clone(), self.shape)?;
            *held.lock().unwrap_or_else(|e| e.into_inner()) = Arc::new(other);
            // some deaths are noticed, after others a worker that knows nothing answers
            if number.is_multiple_of(2) {
                return Ok(None);
            }
        }
        let worker = held.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let answer = worker.answer(call);
        self.received.fetch_add(answer.len() as u64, Ordering::Relaxed);
        Ok(Some(answer))
    }
}

impl Workers for Loopback {
    fn spans(&self) -> &[Range<u32>] {
        &self.spans
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>> {
        calls.iter().map(|(span, call)| self.call(*span, call)).collect()
    }
}
