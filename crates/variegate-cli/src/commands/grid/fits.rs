//! The fits of a grid: several at once, each into the folder of its own.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use variegate::data::{Dataset, TargetKind};
use variegate::model::{Family, Prepared, RunSettings};
use variegate::run::{ChainProgress, Ending, Next, Observer, Pace, drive};
use variegate_io::read::ReadOptions;
use variegate_io::run_dir::{RunDir, RunRecord};

use crate::commands::fit;
use crate::data_file::DataFile;
use crate::exit::{Tone, say};
use crate::progress::{self, Share};
use crate::{options, tables, training};

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// Characters of a value in the name of a folder, at most.
const LONGEST: usize = 40;

/// Values of the settings that vary, and the run that has them.
pub struct Combination {
    /// The values.
    pub values: Map<String, Value>,
    /// All settings that are not left at their defaults.
    pub settings: Map<String, Value>,
    /// Name of the folder of its run.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// Which of the data that were read are for it.
    pub data: usize,
    /// Why its settings make no sense together, if they do not.
    pub refused: Option<String>,
}

impl Combination {
    /// These values over settings that all of the grid have.
    pub fn new(values: Map<String, Value>, given: &Map<String, Value>, out: &Path) -> Self {
        let mut settings = given.clone();
        settings.extend(values.clone());
        let name = folder(&values);
        Self { path: out.join(&name), values, settings, name, data: 0, refused: None }
    }

    /// The seed of its run, if it was begun.
    pub fn seed(&self) -> Option<u64> {
        RunDir::read(&self.path).ok().map(|run| run.record().plan.seed)
    }
}

/// The name of a folder: `separation=0.03,margin=1`. Values that no folder can be called by are told apart by a number.
fn folder(values: &Map<String, Value>) -> String {
    let part = |(name, value): (&String, &Value)| {
        let text = options::shown(value);
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        if text.chars().all(plain) && (1..=LONGEST).contains(&text.len()) {
            return format!("{name}={text}");
        }
        // FNV-1a: the same for the same value, in every version
        let number = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let short: String = text.chars().filter(|c| plain(*c)).take(LONGEST / 2).collect();
        format!("{name}={short}~{:08x}", number >> 32)
    };
    values.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Data as some of the models want them.
pub struct Read {
    /// What rows are told with, and whether values, and labels that chains begin with, may be missing.
    pub wanted: (TargetKind, bool, bool),
    /// The data.
    pub data: Dataset<'static>,
    /// How they were read.
    pub reader: ReadOptions,
}

/// All fits.
pub struct Fits {
    pub family: &'static dyn Family,
    pub combinations: Vec<Combination>,
    pub data: Vec<Read>,
    pub file: DataFile,
    pub seed: u64,
    pub block_rows: Option<usize>,
    pub pace: Pace,
    /// Whether runs of other settings or data are replaced.
    pub force: bool,
    pub quiet: bool,
}

/// How far the fits are, for whoever watches; threads write it.
struct Board {
    /// Shares of the fits that are at work, by the number of the combination.
    at_work: Mutex<Vec<(usize, f64)>>,
}

impl Board {
    fn set(&self, number: usize, share: Option<f64>) {
        if let Ok(mut at_work) = self.at_work.lock() {
            at_work.retain(|(other, _)| *other != number);
            at_work.extend(share.map(|share| (number, share)));
            at_work.sort_by_key(|(number, _)| *number);
        }
    }

    fn now(&self) -> Vec<(usize, f64)> {
        self.at_work.lock().map(|at_work| at_work.clone()).unwrap_or_default()
    }
}

/// What a thread tells of a combination: that its fit begins or goes on, or how it ended.
enum Event {
    Begins(usize),
    Ended(usize, Result<Ending>),
}

/// Watches one fit.
struct Look<'b> {
    board: &'b Board,
    number: usize,
}

impl Observer for Look<'_> {
    fn round(&mut self, chains: &[ChainProgress]) -> Next {
        let total = chains.iter().map(|c| c.total).sum::<u64>().max(1);
        let done = chains.iter().map(|c| if c.finished { c.total } else { c.sweeps }).sum::<u64>();
        self.board.set(self.number, Some(done as f64 / total as f64));
        if progress::stopping() { Next::Stop } else { Next::Continue }
    }
}

impl Fits {
    /// Runs them all to their ends, or until Ctrl-C; how each ended, in their order. What could not be done says why.
    pub fn run(&self) -> Result<Vec<Result<Ending>>> {
        progress::catch_signals()?;
        let open: Vec<usize> = (0..self.combinations.len()).filter(|&i| self.combinations[i].refused.is_none()).collect();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.pace.threads == 0 { cores() } else { self.pace.threads };
        let workers = threads.min(open.len()).max(1);
        // threads that have no combination of their own help the others with theirs
        let pace = Pace { threads: (threads / workers).max(1), ..self.pace };

        let mut ended: Vec<Result<Ending>> = self.combinations.iter().map(|_| Ok(Ending::Complete)).collect();
        let (board, next) = (Board { at_work: Mutex::default() }, AtomicUsize::new(0));
        let said = Mutex::new(Vec::new());
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let (send, next, board, open, said) = (send.clone(), &next, &board, &open, &said);
                scope.spawn(move || {
                    while let Some(&number) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let begins = || {
                            board.set(number, Some(0.0));
                            let _ = send.send(Event::Begins(number)); // an error: whoever should hear of it has gone
                        };
                        let outcome = if progress::stopping() { Ok(Ending::Stopped) } else { self.one(number, pace, board, &begins, said) };
                        board.set(number, None);
                        if send.send(Event::Ended(number, outcome)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            self.watch(&board, &receive, &mut ended);
        });
        Ok(ended)
    }

    /// Shows how far the fits are until all have ended.
    fn watch(&self, board: &Board, events: &mpsc::Receiver<Event>, ended: &mut [Result<Ending>]) {
        let bar = Share::new("grid", self.quiet);
        let count = ended.len();
        let mut done = self.combinations.iter().filter(|c| c.refused.is_some()).count();
        let lines = !self.quiet && !bar.shown();
        let mut last = Instant::now();
        loop {
            match events.recv_timeout(Duration::from_millis(100)) {
                Ok(Event::Begins(number)) if lines => {
                    eprintln!("fitting {} ({} of {count})", self.combinations[number].name, number + 1);
                    last = Instant::now();
                }
                Ok(Event::Begins(_)) => {}
                Ok(Event::Ended(number, outcome)) => {
                    ended[number] = outcome;
                    done += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = board.now();
            let share = (done as f64 + now.iter().map(|(_, share)| share).sum::<f64>()) / count.max(1) as f64;
            let names = |show: &dyn Fn(&(usize, f64)) -> String| now.iter().map(show).collect::<Vec<_>>().join(" and ");
            bar.tell(format!("{done}/{count} {}", names(&|(n, _)| self.combinations[*n].name.clone())), share);
            if lines && last.elapsed() >= LINE_EVERY {
                last = Instant::now();
                let each = names(&|(n, share)| format!("{} {:.0} %", self.combinations[*n].name, 100.0 * share));
                eprintln!("grid: {done} of {count} done, {each}");
            }
        }
    }

    /// One fit: begins its run or goes on with it.
    fn one(&self, number: usize, pace: Pace, board: &Board, begins: &dyn Fn(), said: &Mutex<Vec<String>>) -> Result<Ending> {
        let combination = &self.combinations[number];
        let Read { data, reader, .. } = &self.data[combination.data];
        let model = self.family.configure(&combination.settings)?;
        let settings = RunSettings::default().seed(self.seed).threads(pace.threads).block_rows(self.block_rows);
        let Prepared { fit, plan, fingerprint } = settings.commit_every(pace.commit_every).prepare(model.as_ref(), data)?;
        let reference = fit::reference(&self.file, reader, data, fingerprint)?;
        let record = RunRecord::new(self.family.name(), fit.program().name(), model.settings(), plan, reference, fit.schema().to_vec());
        let (mut run, begun) = self.opened(&combination.path, &record)?;
        if run.status().complete {
            return Ok(Ending::Complete);
        }
        begins();
        for warning in fit.warnings() {
            // all of them have the same data: once is enough
            if let Ok(mut said) = said.lock()
                && !said.contains(warning)
            {
                said.push(warning.clone());
                say(Tone::Warning, &tables::wrap(&options::in_shell(warning, self.family.name()), 80, ""));
            }
        }
        let fit = if begun { training::reopen(&run)? } else { fit };
        Ok(drive(fit.program(), data, &plan, pace, &mut run, &mut Look { board, number })?)
    }

    /// The run of a combination: that which is there, or a new one; and whether it was there.
    fn opened(&self, path: &Path, record: &RunRecord) -> Result<(RunDir, bool)> {
        let Ok(kept) = RunDir::read(path) else { return Ok((RunDir::create(path, record, self.force)?, false)) };
        match difference(kept.record(), record) {
            // nobody has to be kept from looking at it
            None if kept.status().complete => Ok((kept, true)),
            None => Ok((RunDir::open(path).with_context(|| format!("cannot go on with `{}`", path.display()))?, true)),
            Some(_) if self.force => Ok((RunDir::create(path, record, true)?, false)),
            Some(what) => bail!(
                "`{}` holds another run, whose {what} differs: repeat its command to go on, choose another folder with --out, or replace \
                 it with --force",
                path.display()
            ),
        }
    }
}

/// What differs between a run and one that is to be, in a word.
fn difference(kept: &RunRecord, wanted: &RunRecord) -> Option<&'static str> {
    let pairs = [
        (kept.family != wanted.family || kept.program != wanted.program, "model"),
        (kept.data.differs(&wanted.data), "data"),
        (kept.plan.seed != wanted.plan.seed, "seed"),
        (kept.settings_in_use() != wanted.settings_in_use() || kept.plan != wanted.plan, "settings"),
    ];
    pairs.into_iter().find(|p| p.0).map(|p| p.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn folders_are_named_by_values() {
        let name = |value: Value| folder(value.as_object().unwrap());
        assert_eq!(name(json!({ "separation": 0.03, "margin": 1.0 })), "separation=0.03,margin=1");
        assert_eq!(name(json!({ "n_components": null, "likelihood": "gaussian-diag" })), "n_components=none,likelihood=gaussian-diag");
        let odd = ["2,1", "1,2", "../../etc", "", "a b", &"x".repeat(300)].map(|text| name(json!({ "v": text })));
        for (i, one) in odd.iter().enumerate() {
            assert!(one.len() < 40 && !one.contains(['/', ' ', ',']), "{one}");
            assert!(odd[..i].iter().all(|other| other != one), "{odd:?}");
        }
    }
}
