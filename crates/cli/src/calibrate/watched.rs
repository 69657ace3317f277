//! A source of requests that shows its progress and ends after an interrupt.

use crate::interrupt::Interrupt;
use crate::progress::WorkProgress;
use std::time::{Duration, Instant};
use weir_model::load::{Io, RequestSource, Step};

/// The interval between two updates of the progress.
const TICK: Duration = Duration::from_millis(100);

/// A source that issues no further requests after an interrupt.
pub(super) struct WatchedSource<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a WorkProgress,
    /// The time at which the calibration began.
    pub(super) began: Instant,
    /// The time of the last update of the progress.
    pub(super) told: Instant,
    pub(super) flying: u64,
}

impl<S: RequestSource> RequestSource for WatchedSource<'_, S> {
    fn next(&mut self, now: weir_core::Instant) -> Step {
        if self.told.elapsed() >= TICK {
            self.told = Instant::now();
            self.progress.set(self.began.elapsed());
        }
        if self.interrupt.signal().is_some() {
            // No request may be in flight when the run ends.
            return if self.flying == 0 {
                Step::Finished
            } else {
                Step::WaitForCompletion
            };
        }
        let step = self.source.next(now);
        self.flying += u64::from(matches!(step, Step::Issue(_)));
        step
    }

    fn completed(&mut self, now: weir_core::Instant, io: &Io, failed: bool) {
        self.flying = self.flying.saturating_sub(1);
        self.source.completed(now, io, failed);
    }

    fn payload(&mut self, io: &Io, into: &mut Vec<u8>) {
        self.source.payload(io, into);
    }

    fn received(&mut self, io: &Io, at: u64, bytes: &[u8]) {
        self.source.received(io, at, bytes);
    }
}
