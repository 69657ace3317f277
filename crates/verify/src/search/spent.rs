//! The use of the drive's time, second by second.
//!
//! While pieces are in flight, the time belongs to the piece that ends next: to the group of its
//! client, and there to requests or to flushes. On a drive that serves one piece after the other,
//! that is the time that the piece took. On a drive that serves many at once it is a part of that
//! time. If a drive writes back its cache, that time belongs to the requests that wait for the
//! drive, and not to the clients that wrote.

use crate::search::case::SearchCase;
use std::collections::HashMap;
use weir_core::record::{Call, Observer};
use weir_core::{GroupId, Instant, Layer, Op, Output, StreamId, Tag};

const SECOND: u64 = 1_000_000_000;

/// The use of the drive's time in one second, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveTimeUse {
    /// The time of requests, by the group that contains the client directly.
    pub requests: Vec<u64>,
    /// The time of flushes, by the group that contains the client directly.
    pub flushes: Vec<u64>,
    /// The time in which nothing was in flight.
    pub idle: u64,
}

/// The owner of a piece in flight: its group, and whether the piece is a flush.
#[derive(Clone, Copy, Debug)]
struct PieceOwner {
    group: GroupId,
    flush: bool,
}

/// An observer that divides the time of a run among groups.
#[derive(Debug)]
pub struct DriveTimeLedger {
    seconds: Vec<DriveTimeUse>,
    streams: HashMap<StreamId, GroupId>,
    flying: HashMap<Tag, PieceOwner>,
    until: u64,
}

impl DriveTimeLedger {
    /// Creates the observer of a run of `case`, before the run begins.
    pub fn new(case: &SearchCase) -> Self {
        // The root has index 0.
        let groups = case.scenario.groups.len() + 1;
        let nothing = DriveTimeUse {
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

    /// Returns the use of the drive's time in each second of the run.
    pub fn seconds(&self) -> &[DriveTimeUse] {
        &self.seconds
    }

    /// Adds the time until `now` to the group of this piece, or to idle time.
    fn spend(&mut self, now: Instant, what: Option<PieceOwner>) {
        let to = now.as_nanos();
        // The time may span several seconds, each of which gets its part.
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
        // The drive was idle until this dispatch.
        if self.flying.is_empty() {
            self.spend(now, None);
        }
        let flying = PieceOwner {
            group: self.streams[&piece.stream],
            flush: piece.op == Op::Flush,
        };
        self.flying.insert(piece.tag, flying);
    }
}

impl Observer for DriveTimeLedger {
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
