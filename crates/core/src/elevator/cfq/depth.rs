//! The number of requests that a queue may have in the drive, and whether the drive serves several
//! at once.

use super::Cfq;
use super::service::CfqClass;
use crate::Instant;
use crate::table::Table;

/// The number of requests in the drive from which on it counts as one that queues requests (Linux:
/// `CFQ_HW_QUEUE_MIN`).
const QUEUES_FROM: u32 = 5;
/// The number of samples before a verdict about the drive (Linux: in `cfq_update_hw_tag`).
const SAMPLES: u32 = 50;

/// A detector of drives that serve several requests at once (Linux: `hw_tag`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueDetector {
    most: u32,
    samples: u32,
    verdict: Option<bool>,
}

impl QueueDetector {
    /// Creates the detector of a drive with `tags` tags. With enough tags, the drive is assumed to
    /// use them.
    pub(super) fn of(tags: u32) -> Self {
        Self {
            // With fewer tags, the verdict is left to the samples.
            verdict: (tags >= QUEUES_FROM).then_some(true),
            ..Self::default()
        }
    }

    /// Takes a sample when a request is about to complete, while `in_drive` requests are in the
    /// drive and `queued` wait.
    ///
    /// `underused` means that the drive idles for the queue in service, which has few requests.
    /// Such a sample proves nothing about the drive.
    pub(super) fn observe(&mut self, in_drive: u32, queued: u32, underused: bool) {
        self.most = self.most.max(in_drive);
        // With so little load, even a drive that queues requests would have no more in it.
        let few = queued <= QUEUES_FROM && in_drive <= QUEUES_FROM;
        if self.verdict == Some(true) || few || underused && in_drive < QUEUES_FROM {
            return;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            return;
        }
        self.verdict = Some(self.most >= QUEUES_FROM);
    }

    /// Returns true unless the drive was observed not to queue requests.
    pub(super) fn is_likely(self) -> bool {
        self.verdict != Some(false)
    }
}

impl Cfq {
    /// Takes a sample of the drive's queue (Linux: `cfq_update_hw_tag`).
    pub(super) fn observe_queueing(&mut self) {
        let current = self.queues.get(self.turn.queue as usize);
        let underused = current.is_some_and(|q| q.idles && q.dispatched + q.queued() < QUEUES_FROM);
        (self.queueing).observe(self.in_drive[0] + self.in_drive[1], self.queued, underused);
    }

    /// Returns true if the queue in service may send one more piece (Linux: `cfq_may_dispatch`).
    pub(super) fn may_send(&self, now: Instant, table: &Table) -> bool {
        let q = self.turn.queue;
        let queue = self.queue(q);
        let [others, synchronous] = self.in_drive;
        // Requests of the other direction in the drive would disturb the queue: asynchronous ones a
        // queue that is idled for, and synchronous ones an asynchronous queue.
        if others > 0 && self.should_idle(q, table) || synchronous > 0 && !queue.sync {
            return false;
        }
        let mut most = match queue.class {
            CfqClass::Idle => 1,
            _ => (self.config.quantum / 2).max(1),
        };
        // Beyond half of `quantum`, the queue may send more only if its requests in the drive are
        // expected to complete within its slice. Without a rival, no limit is needed.
        if queue.dispatched >= most {
            let unrivalled = queue.sync && self.busy_sync == 1 || self.busy == 1;
            if queue.class == CfqClass::Idle || !unrivalled && self.is_soon_over(now) {
                return false;
            }
            most = if unrivalled {
                u32::MAX
            } else {
                self.config.quantum
            };
        }
        if !queue.sync && self.config.low_latency {
            most = most.min(self.async_depth(now, queue.dispatched));
        }
        queue.dispatched < most
    }

    /// Returns the largest number of pieces that an asynchronous queue may have in the drive. It
    /// grows by one with each slice of time since a synchronous request was late, and is at least
    /// one.
    fn async_depth(&self, now: Instant, dispatched: u32) -> u32 {
        let quiet = now.since(self.last_late).as_nanos();
        let depth = quiet / self.config.slice_sync.as_nanos();
        match depth {
            // One request is always allowed, or asynchronous queues would starve after each late
            // request.
            0 => u32::from(dispatched == 0),
            depth => depth.min(u64::from(u32::MAX)) as u32,
        }
    }

    /// Returns true if the slice will probably end before the pieces of the queue in the drive
    /// complete (Linux: `cfq_slice_used_soon`).
    fn is_soon_over(&self, now: Instant) -> bool {
        let waiting = self.queue(self.turn.queue).dispatched;
        // Each piece is assumed to take `slice_idle`, as in Linux.
        let done = now + self.slice_idle.saturating_mul(waiting.into());
        self.turn.slice.is_none_or(|slice| done > slice.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_queues_once_five_requests_were_in_flight() {
        let mut queueing = QueueDetector::default();
        assert!(queueing.is_likely());
        for _ in 0..=SAMPLES {
            assert!(queueing.is_likely());
            queueing.observe(4, 6, false);
        }
        assert!(!queueing.is_likely(), "the 51st sample says so");
        queueing.observe(5, 6, false);
        assert!(queueing.is_likely());
    }

    #[test]
    fn an_underused_drive_gives_no_verdict_on_queueing() {
        let mut queueing = QueueDetector::default();
        for _ in 0..200 {
            queueing.observe(4, 9, true);
            queueing.observe(5, 5, false);
        }
        assert_eq!(queueing.verdict, None);
    }
}
