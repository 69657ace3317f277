//! What keeps a client from more, and which neighbours made its seconds short.

use std::collections::BTreeMap;

use weir_core::GroupId;
use weir_measure::promise::{Blame, Cause, Promise};

/// Neighbours that are told apart; further ones are counted together.
const NAMED: usize = 16;
/// What these are called.
const OTHERS: &str = "others";

/// What keeps a client from more.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// What kept it from more in the last full second; `None`: it had no request.
    pub last: Option<Cause>,
    /// The neighbour, if that is the cause and it is known which.
    pub neighbour: Option<String>,
    /// The part (0 to 1) of the last full second in which it had nothing outstanding.
    pub idle: f64,
    /// Short seconds by the neighbour that made them short.
    pub neighbours: BTreeMap<String, u64>,
}

impl Causes {
    /// A second of the promise ended that was short.
    pub(crate) fn count(&mut self, why: Blame, names: &BTreeMap<GroupId, String>) {
        let Some(name) = name(why, names) else { return };
        let is_full = self.neighbours.len() >= NAMED && !self.neighbours.contains_key(name);
        let name = if is_full { OTHERS } else { name };
        *self.neighbours.entry(name.to_owned()).or_default() += 1;
    }

    /// The last full second is what the promise says of it.
    pub(crate) fn end_second(&mut self, promise: &Promise, names: &BTreeMap<GroupId, String>) {
        let last = promise.last_cause();
        self.last = last.map(|of| of.cause);
        self.idle = promise.last_idle();
        let neighbour = last.and_then(|of| name(of, names));
        if self.neighbour.as_deref() != neighbour {
            self.neighbour = neighbour.map(str::to_owned);
        }
    }
}

/// What the neighbour that is to blame is called.
fn name(of: Blame, names: &BTreeMap<GroupId, String>) -> Option<&str> {
    names.get(&GroupId(of.neighbour?)).map(String::as_str)
}
