//! What a user sees while a fit runs, and how Ctrl-C reaches it.
//!
//! On a terminal: one bar over all chains with the time left, the objective and the number of components. Elsewhere a line a minute,
//! so that the log of a long job shows life. The first Ctrl-C (or termination signal) lets the sweep end and saves; the second aborts.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use variegate::run::{ChainProgress, Next, Observer, Schedule};

use crate::tables;

/// Time after which a run says how long it will take,
const FORECAST_AFTER: Duration = Duration::from_secs(3);
/// if that is more than so many seconds,
const LONG: f64 = 60.0;
/// and if a user could have it faster.
const FEWEST_DRAWS: u64 = 50;
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(60);

static SIGNALS: AtomicU32 = AtomicU32::new(0);
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether the user has asked to stop.
pub fn stopping() -> bool {
    SIGNALS.load(Ordering::Relaxed) > 0
}

/// Takes over Ctrl-C, once a process. Called when there is something to save; before that Ctrl-C simply ends the command.
pub fn catch_signals() -> anyhow::Result<()> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        ctrlc::set_handler(|| {
            if SIGNALS.fetch_add(1, Ordering::Relaxed) > 0 {
                std::process::exit(130);
            }
            let text = "Stopping after this sweep, then saving (Ctrl-C again aborts at once)";
            match SHOWN.lock().ok().and_then(|bar| bar.clone()) {
                Some(bar) => bar.suspend(|| eprintln!("{text}")),
                None => eprintln!("{text}"),
            }
        })
        .map_err(|e| e.to_string())
    });
    installed.clone().map_err(|e| anyhow::anyhow!("could not take over Ctrl-C: {e}"))
}

/// Shows a run to the user and stops it when asked.
pub struct Watch {
    bar: Option<ProgressBar>,
    name: String,
    quiet: bool,
    begin: Instant,
    /// Sweeps that an earlier run had done; none before the first round.
    before: Option<u64>,
    last_line: Instant,
    /// How long chains run, until something was said about it.
    schedule: Option<Schedule>,
}

impl Watch {
    /// Watches a run with this name; quietly if so told.
    pub fn new(name: &str, quiet: bool, schedule: Schedule) -> anyhow::Result<Self> {
        catch_signals()?;
        let bar = (!quiet).then(|| terminal_bar(name, 0)).flatten();
        if let Ok(mut shown) = SHOWN.lock() {
            shown.clone_from(&bar);
        }
        let now = Instant::now();
        Ok(Self { bar, name: name.into(), quiet, begin: now, before: None, last_line: now, schedule: Some(schedule) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut shown) = SHOWN.lock() {
            *shown = None;
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Watch {
    fn round(&mut self, chains: &[ChainProgress]) -> Next {
        let total = chains.iter().map(|c| c.total).sum::<u64>();
        let done = chains.iter().map(|c| if c.finished { c.total } else { c.sweeps }).sum::<u64>();
        if let Some(bar) = &self.bar {
            // a further generation of chains makes it longer
            bar.set_length(total);
            bar.set_position(done);
            if self.before.is_none() {
                // what an earlier run did says nothing about the pace of this one
                bar.reset_eta();
            }
            bar.set_message(state(chains));
        } else if !self.quiet && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            eprintln!("{}: {:.0}% {}", self.name, 100.0 * done as f64 / total.max(1) as f64, state(chains));
        }
        let before = *self.before.get_or_insert(done);
        if !self.quiet && self.begin.elapsed() >= FORECAST_AFTER && done > before {
            let seconds = self.begin.elapsed().as_secs_f64() / (done - before) as f64 * total as f64;
            if let Some(text) = self.schedule.take().and_then(|s| forecast(&s, chains.len(), seconds, before == 0)) {
                let say = || eprintln!("{}", tables::wrap(&format!("{}: {text}", self.name), 80, ""));
                self.bar.as_ref().map_or_else(say, |bar| bar.suspend(say));
            }
        }
        if stopping() { Next::Stop } else { Next::Continue }
    }
}

/// How long chains take in all, and settings under which they would take about a minute; nothing for what is short, or ends when it
/// arrives. The settings of a run that goes on cannot be changed.
fn forecast(schedule: &Schedule, chains: usize, seconds: f64, fresh: bool) -> Option<String> {
    let Schedule::Sample { warm_up, draws, thin } = *schedule else { return None };
    if seconds <= LONG {
        return None;
    }
    let sweeps = tables::count(schedule.sweeps() as usize, "sweep", "sweeps");
    let chains = tables::count(chains, "chain", "chains");
    let text = format!("about {} for {chains} of {sweeps}, at the pace so far", tables::duration(seconds));
    // rounded to fifties
    let part = |n: u64| ((n as f64 * LONG / seconds / 50.0).round() as u64 * 50).max(FEWEST_DRAWS).min(n);
    let (few_warm, few_draws) = (part(warm_up), part(draws));
    let shorter = seconds * (few_warm + few_draws * thin) as f64 / schedule.sweeps() as f64;
    if !fresh || shorter > 0.7 * seconds {
        return Some(text);
    }
    let options = format!("--warmup {few_warm} --draws {few_draws}");
    Some(format!("{text}; {options} would take about {}, for a first look", tables::duration(shorter)))
}

/// Shows how much of a task is done, on a terminal only.
pub struct Share(Option<ProgressBar>);

impl Share {
    /// A task with this name; quietly if so told.
    pub fn new(name: &str, quiet: bool) -> Self {
        Self((!quiet).then(|| terminal_bar(name, 1000)).flatten())
    }

    /// Whether there is a terminal to show it on.
    pub fn shown(&self) -> bool {
        self.0.is_some()
    }

    /// What is being done at this moment, with the share of all that is done; tasks may run side by side.
    pub fn tell(&self, message: String, done: f64) {
        if let Some(bar) = &self.0 {
            bar.set_message(message);
            bar.set_position((1000.0 * done.clamp(0.0, 1.0)) as u64);
        }
    }

    /// Doing `what`, of which this share (from 0 to 1) is done.
    pub fn at(&self, what: &'static str, done: f64) {
        if let Some(bar) = &self.0 {
            let position = (1000.0 * done.clamp(0.0, 1.0)) as u64;
            if bar.message() != what {
                bar.set_message(what);
                bar.reset();
            }
            bar.set_position(position);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A bar with the time left, where standard error is a terminal; with 80 columns all of it fits.
fn terminal_bar(name: &str, length: u64) -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:18.cyan} {percent:>3}% {elapsed}, {eta} left {wide_msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(name.to_string());
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    })
}

/// What is worked on, objective (the best of the chains), components (the range over the chains) and how many chains are done, in a few words.
fn state(chains: &[ChainProgress]) -> String {
    let reports = || chains.iter().filter_map(|c| c.last.as_ref());
    let mut text = String::new();
    if let Some(best) = reports().map(|r| r.objective).filter(|o| !o.is_nan()).reduce(f64::max) {
        text = format!("objective {}", tables::number(best));
    }
    // what a search tries says more than a range of sizes
    let begun = || chains.iter().filter(|c| c.works_on.is_some());
    let tried = begun().rfind(|c| !c.finished).or_else(|| begun().next_back()).and_then(|c| c.works_on.as_ref());
    if let Some(tried) = tried {
        text = format!("{tried}, {text}");
    }
    let components = || reports().filter(|_| tried.is_none()).map(|r| r.components);
    if let (Some(least), Some(most)) = (components().min(), components().max())
        && most > 0
    {
        let range = if least == most { most.to_string() } else { format!("{least}-{most}") };
        text = format!("{text} components {range}");
    }
    let done = chains.iter().filter(|c| c.finished).count();
    if done > 0 && chains.len() > 1 {
        text = format!("{text} {done}/{} chains", chains.len());
    }
    if chains.iter().any(|c| c.warm_up) {
        text.push_str(" warm-up");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use variegate::run::Report;

    #[test]
    fn long_chains_say_how_long_they_take() {
        let schedule = Schedule::Sample { warm_up: 500, draws: 1000, thin: 1 };
        let said = forecast(&schedule, 4, 300.0, true).unwrap();
        assert_eq!(
            said,
            "about 5 min for 4 chains of 1,500 sweeps, at the pace so far; --warmup 100 --draws 200 would take about 60 s, for a first look"
        );
        let resumed = forecast(&schedule, 4, 300.0, false).unwrap();
        assert!(resumed.ends_with("so far"), "{resumed}");
        // thinning counts, and nobody is told to take fewer than fifty draws
        let said = forecast(&Schedule::Sample { warm_up: 100, draws: 100, thin: 10 }, 1, 11_000.0, true).unwrap();
        assert!(
            said.contains("3.1 h for 1 chain of 1,100 sweeps") && said.contains("--warmup 50 --draws 50 would take about 92 min"),
            "{said}"
        );
        assert_eq!(forecast(&schedule, 4, 59.0, true), None);
        assert_eq!(forecast(&Schedule::Ascend { max_sweeps: 1000 }, 4, 1e4, true), None);
    }

    #[test]
    fn the_state_is_told_in_a_few_words() {
        let chain = |chain: u32, objective: f64, components: u32, warm_up: bool| ChainProgress {
            chain,
            sweeps: 1,
            total: 10,
            warm_up,
            finished: false,
            last: Some(Report { objective, components, ..Report::default() }),
            works_on: None,
        };
        assert_eq!(state(&[chain(0, -3.0, 0, true), chain(1, -2.0, 0, false)]), "objective -2.000 warm-up");
        assert_eq!(state(&[chain(0, -3.0, 2, false), chain(1, f64::NAN, 5, false)]), "objective -3.000 components 2-5");
        let done = ChainProgress { finished: true, ..chain(0, -3.0, 0, false) };
        assert_eq!(state(&[done.clone(), chain(1, -4.0, 0, false)]), "objective -3.000 1/2 chains");
        assert_eq!(state(&[done]), "objective -3.000");
        // a search tells what it tries: the last chain that still runs
        let trying = |finished: bool, what: &str| ChainProgress { finished, works_on: Some(what.into()), ..chain(0, -3.0, 2, false) };
        let chains = [trying(true, "1 expert"), trying(false, "2 experts"), trying(true, "3 experts"), chain(1, f64::NAN, 0, false)];
        assert_eq!(state(&chains), "2 experts, objective -3.000 2/4 chains");
        assert_eq!(state(&chains[..1]), "1 expert, objective -3.000");
    }
}
