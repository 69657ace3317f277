//! What the requests of each group waited for, in every second of a run.

use crate::SECOND_NS;
use crate::explain::journal::Journal;
use crate::promise::Standing;
use std::collections::BTreeMap;
use weir_core::record::{Call, Observer};
use weir_core::{GroupId, Instant, Layer, Span};

/// How often a live server asks the kernel whether its thread had a processor.
const LOOK: Span = Span::from_millis(10);

/// Observes the layer of a run whose promises somebody else judges, and keeps what the judge has to know of its seconds.
#[derive(Debug)]
pub struct Standings {
    journal: Journal,
    groups: Vec<GroupId>,
    ends_ns: u64,
    /// When the thread that makes the calls has no processor, and for how long; when that was told last.
    stalls: Vec<(Instant, Span)>,
    told: Instant,
    kept: BTreeMap<GroupId, BTreeMap<u64, Standing>>,
}

impl Standings {
    /// Of these groups. It must observe its layer from the first call on.
    pub fn new(groups: Vec<GroupId>) -> Self {
        Self {
            journal: Journal::new(0),
            groups,
            ends_ns: SECOND_NS,
            stalls: Vec::new(),
            told: Instant::ZERO,
            kept: BTreeMap::new(),
        }
    }

    /// The thread that makes the calls is ready to run and has no processor at these times, and for this long each.
    #[must_use]
    pub fn stalled(mut self, stalls: Vec<(Instant, Span)>) -> Self {
        self.stalls = stalls;
        self
    }

    /// Tells the journal what the kernel tells a live server.
    #[cold]
    fn tell_stalls(&mut self, now: Instant) {
        self.told = now;
        let over = self.stalls.iter().map(|(at, length)| {
            let passed = now.as_nanos().saturating_sub(at.as_nanos());
            passed.min(length.as_nanos())
        });
        self.journal.waited(now, over.sum());
    }

    /// What the requests of each group waited for, by the second of the layer's clock. The second under way is over.
    pub fn into_all(mut self) -> BTreeMap<GroupId, BTreeMap<u64, Standing>> {
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
