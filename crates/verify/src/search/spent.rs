//! What the drive's time went to, second by second.
//!
//! While something is in flight, time belongs to what ends next: to the group of its client, and there to requests or to flushes. On a
//! drive that does one thing after the other that is the time that it took; on one that does many at once it is a part of it. What a
//! drive writes back from its cache is time of the requests that wait for the drive, and not of the clients that wrote.

use crate::search::case::Case;
use std::collections::HashMap;
use weir_core::record::{Call, Observer};
use weir_core::{GroupId, Instant, Layer, Op, Output, StreamId, Tag};

const SECOND: u64 = 1_000_000_000;

/// The drive's time in one second, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spent {
    /// Time of requests, by the group that the client is directly in.
    pub requests: Vec<u64>,
    /// Time of flushes, by the group that the client is directly in.
    pub flushes: Vec<u64>,
    /// Nothing was in flight.
    pub idle: u64,
}

/// The group that has a piece in flight, and whether the piece is a flush.
#[derive(Clone, Copy, Debug)]
struct Flying {
    group: GroupId,
    flush: bool,
}

/// Observes a run.
#[derive(Debug)]
pub struct Ledger {
    seconds: Vec<Spent>,
    streams: HashMap<StreamId, GroupId>,
    flying: HashMap<Tag, Flying>,
    until: u64,
}

impl Ledger {
    /// For a run of `case` that has not begun.
    pub fn new(case: &Case) -> Self {
        let groups = case.scenario.groups.len() + 1;
        let nothing = Spent {
            requests: vec![0; groups],
            flushes: vec![0; groups],
            idle: 0,
        };
        Self {
            seconds: vec![nothing; case.seconds() as usize],
            streams: HashMap::new(),
            flying: HashMap::new(),
            until: 0,
        }
    }

    /// The seconds of the run.
    pub fn seconds(&self) -> &[Spent] {
        &self.seconds
    }

    /// The time until `now` went to this, or to nothing.
    fn spend(&mut self, now: Instant, what: Option<Flying>) {
        let to = now.as_nanos();
        while self.until < to {
            let second = self.until / SECOND;
            let next = to.min((second + 1) * SECOND);
            let time = next - self.until;
            self.until = next;
            let Some(spent) = self.seconds.get_mut(second as usize) else {
                return;
            };
            match what {
                Some(piece) if piece.flush => spent.flushes[piece.group.0 as usize] += time,
                Some(piece) => spent.requests[piece.group.0 as usize] += time,
                None => spent.idle += time,
            }
        }
    }

    fn sent(&mut self, now: Instant, output: &Output) {
        let Output::Dispatch(piece) = output else {
            return;
        };
        if self.flying.is_empty() {
            self.spend(now, None);
        }
        let flying = Flying {
            group: self.streams[&piece.stream],
            flush: piece.op == Op::Flush,
        };
        self.flying.insert(piece.tag, flying);
    }
}

impl Observer for Ledger {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        match *call {
            Call::Open {
                spec,
                result: Ok(id),
            } => {
                self.streams.insert(id, spec.group);
            }
            Call::Complete { batch } => {
                for done in batch {
                    if let Some(flying) = self.flying.remove(&done.tag) {
                        self.spend(now, Some(flying));
                    }
                }
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    self.sent(now, output);
                }
            }
            _ => {}
        }
    }
}
