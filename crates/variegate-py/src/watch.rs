//! Watches a fit for Python: Ctrl-C and progress, a few times a second.

use pyo3::prelude::*;
use variegate::run::{ChainProgress, Next, Observer};

/// Takes the interpreter back after every round, runs pending signal handlers and calls `progress`. An exception from either stops
/// the fit after its sweep and is kept here until the fit has saved what it has.
pub struct Watch {
    progress: Option<Py<PyAny>>,
    /// Called at the second Ctrl-C, where a fit waits for workers that do not answer.
    give_up: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Watch {
    pub fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { progress, give_up: None, raised: None }
    }

    /// With what is called at the second Ctrl-C.
    pub fn giving_up(self, give_up: Py<PyAny>) -> Self {
        Self { give_up: Some(give_up), ..self }
    }

    /// Whether something has stopped the fit.
    pub fn interrupted(&self) -> bool {
        self.raised.is_some()
    }

    /// The exception that stopped the fit.
    pub fn exception(self) -> Option<PyErr> {
        self.raised
    }

    fn call(&self, py: Python<'_>, chains: &[ChainProgress]) -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = &self.progress {
            // (chain, sweeps, total, warm_up, finished, objective, components, what it works on)
            let table: Vec<_> = chains
                .iter()
                .map(|c| {
                    let (objective, components) = c.last.as_ref().map_or((f64::NAN, 0), |r| (r.objective, r.components));
                    (c.chain, c.sweeps, c.total, c.warm_up, c.finished, objective, components, c.works_on.clone())
                })
                .collect();
            progress.call1(py, (table,))?;
        }
        Ok(())
    }
}

impl Observer for Watch {
    fn round(&mut self, chains: &[ChainProgress]) -> Next {
        match Python::attach(|py| self.call(py, chains)) {
            Ok(()) if self.raised.is_some() => Next::Stop,
            Ok(()) => Next::Continue,
            Err(error) => {
                self.raised = Some(error);
                Next::Stop
            }
        }
    }

    fn waiting(&mut self) {
        let Err(error) = Python::attach(|py| py.check_signals()) else { return };
        if self.raised.replace(error).is_some()
            && let Some(give_up) = &self.give_up
        {
            // it only sets a flag
            let _ = Python::attach(|py| give_up.call0(py));
        }
    }
}
