//! The waits of each group's requests, in every second of a run.

use crate::SECOND_NS;
use crate::explain::journal::Journal;
use crate::promise::SecondWaits;
use std::collections::BTreeMap;
use weir_core::record::{Call, Observer};
use weir_core::{GroupId, Instant, Layer, Span};

/// The interval at which a live server asks the kernel for the time that its thread had no CPU.
const LOOK: Span = Span::from_millis(10);

/// Observes the layer of a run whose promises are judged elsewhere, and keeps the data that the
/// judge needs.
#[derive(Debug)]
pub struct Standings {
    journal: Journal,
    groups: Vec<GroupId>,
    ends_ns: u64,
    /// The times at which the thread that makes the calls has no CPU, with their lengths.
    stalls: Vec<(Instant, Span)>,
    /// The time of the last report of these stalls to the journal.
    told: Instant,
    kept: BTreeMap<GroupId, BTreeMap<u64, SecondWaits>>,
}

impl Standings {
    /// Creates standings of these groups. They must observe their layer from the first call on.
    pub fn new(groups: Vec<GroupId>) -> Self {
        Self {
            // The rings are not used here, so they are as small as possible.
            journal: Journal::new(0),
            groups,
            ends_ns: SECOND_NS,
            stalls: Vec::new(),
            told: Instant::ZERO,
            kept: BTreeMap::new(),
        }
    }

    /// Sets the times at which the thread that makes the calls is ready to run but has no CPU, with
    /// their lengths.
    #[must_use]
    pub fn stalled(mut self, stalls: Vec<(Instant, Span)>) -> Self {
        self.stalls = stalls;
        self
    }

    /// Reports to the journal the time that the kernel would report to a live server.
    #[cold]
    fn tell_stalls(&mut self, now: Instant) {
        self.told = now;
        let over = self.stalls.iter().map(|(at, length)| {
            let passed = now.as_nanos().saturating_sub(at.as_nanos());
            passed.min(length.as_nanos())
        });
        self.journal.waited(now, over.sum());
    }

    /// Returns the waits of each group's requests, by the second of the layer's clock. The current
    /// second is ended.
    pub fn into_all(mut self) -> BTreeMap<GroupId, BTreeMap<u64, SecondWaits>> {
        self.end_seconds(Instant::from_nanos(self.ends_ns));
        self.kept
    }

    #[cold]
    fn end_seconds(&mut self, now: Instant) {
        let first = self.ends_ns / SECOND_NS - 1;
        let next = now.as_nanos() / SECOND_NS;
        for group in &self.groups {
            let Some([standing, later]) = self.journal.standing(now, *group, first) else {
                continue;
            };
            let seconds = self.kept.entry(*group).or_default();
            seconds.insert(first, standing);
            // The seconds that ended at the same call share one entry.
            seconds.extend((first + 1..next).map(|second| (second, later)));
        }
        self.ends_ns = (next + 1) * SECOND_NS;
    }
}

impl Observer for Standings {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        if !self.stalls.is_empty() && now.since(self.told) >= LOOK {
            self.tell_stalls(now);
        }
        if now.as_nanos() >= self.ends_ns {
            self.end_seconds(now);
        }
        self.journal.call(now, call, layer);
    }
}
