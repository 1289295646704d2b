//! Many atoms to begin with: rows are taken as atoms and improved together before the first sweep.

use std::borrow::Cow;

use super::super::likelihood::Likelihood;
use super::{Ask, FIRST_WEIGHT, Pending, Question, Sampler, State};
use crate::Result;
use crate::model::ranks::different;
use crate::run::{Rows, Stream};

/// Times that all rows and atoms are improved.
const CLIMBS: usize = 20;

impl<L: Likelihood> Sampler<L> {
    /// Atoms seeded from rows, in a state without any; tells whether there are such.
    pub(super) fn seed(&self, state: &mut State<L::Scales>, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<bool> {
        let total: u64 = self.rows.iter().sum();
        let mut chosen = different(total, self.first_atoms.min(self.most_atoms), &mut stream.rng());
        chosen.sort_unstable();
        let found = rows.all(&question(&[], None, Question::Seeds { chosen: Cow::Owned(chosen) }))?;
        let nobody = vec![0; self.rows.len()];
        for seed in &found.born.0 {
            state.atoms.push(seed.id, &seed.phi, FIRST_WEIGHT, &nobody);
        }
        if state.atoms.is_empty() {
            return Ok(false);
        }
        for climb in 1..=CLIMBS {
            let view = self.likelihood.view(&state.atoms.phi, state.atoms.len(), &state.scales);
            let kind = Question::Climb { first: climb == 1, last: climb == CLIMBS };
            let stats = rows.all(&question(&state.atoms.ids, Some(view), kind))?;
            self.likelihood.settle(&mut state.atoms.phi, &stats.sums);
            state.atoms.uses = stats.uses.0.iter().map(|&n| n as u32).collect();
        }
        let kept: Vec<usize> = (0..state.atoms.len()).filter(|&k| state.atoms.uses_of(k).iter().any(|&n| n > 0)).collect();
        state.atoms.keep(&kept);
        Ok(true)
    }
}

fn question<'a, V: Clone, S: Clone>(ids: &'a [u64], view: Option<V>, kind: Question<'a, S>) -> Ask<'a, V, S> {
    Ask { ids: Cow::Borrowed(ids), view: view.map(Cow::Owned), pending: Pending::default(), kind }
}
