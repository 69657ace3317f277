//! The causes that limit a client's throughput, and the neighbours that made its seconds short.

use std::collections::BTreeMap;

use weir_core::GroupId;
use weir_measure::promise::{Blame, Cause, Promise};

/// The maximum number of neighbours that are counted by name. Further ones are counted together, so
/// that the number of metrics is bounded.
const NAMED: usize = 16;
/// The name under which further neighbours are counted.
const OTHERS: &str = "others";

/// The causes that limit a client's throughput.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// The cause that limited the client in the last full second, or `None` if it had no request.
    pub last: Option<Cause>,
    /// The neighbour that limited the client, if that is the cause and the neighbour is known.
    pub neighbour: Option<String>,
    /// The fraction (0 to 1) of the last full second in which the client had nothing outstanding.
    pub idle: f64,
    /// The number of short seconds by the neighbour that caused them.
    pub neighbours: BTreeMap<String, u64>,
}

impl Causes {
    /// Counts a second that was short because of `why`.
    pub(crate) fn count(&mut self, why: Blame, names: &BTreeMap<GroupId, String>) {
        let Some(name) = name(why, names) else { return };
        let is_full = self.neighbours.len() >= NAMED && !self.neighbours.contains_key(name);
        let name = if is_full { OTHERS } else { name };
        *self.neighbours.entry(name.to_owned()).or_default() += 1;
    }

    /// Adopts the promise's judgement of the last full second.
    pub(crate) fn end_second(&mut self, promise: &Promise, names: &BTreeMap<GroupId, String>) {
        let last = promise.last_cause();
        self.last = last.map(|of| of.cause);
        self.idle = promise.last_idle();
        let neighbour = last.and_then(|of| name(of, names));
        // Names rarely change, so that this avoids an allocation per second.
        if self.neighbour.as_deref() != neighbour {
            self.neighbour = neighbour.map(str::to_owned);
        }
    }
}

/// Returns the name of the neighbour that is to blame.
fn name(of: Blame, names: &BTreeMap<GroupId, String>) -> Option<&str> {
    names.get(&GroupId(of.neighbour?)).map(String::as_str)
}
