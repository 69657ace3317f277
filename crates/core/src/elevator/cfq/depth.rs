//! How many requests a queue may have in the drive, and whether the drive takes several at a time.

use super::Cfq;
use super::service::Class;
use crate::Instant;
use crate::table::Table;

/// A drive that had this number of requests inside queues (Linux: `CFQ_HW_QUEUE_MIN`).
const QUEUES_FROM: u32 = 5;
/// Samples behind a verdict (Linux: in `cfq_update_hw_tag`).
const SAMPLES: u32 = 50;

/// Whether the drive queues (Linux: `hw_tag`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queueing {
    most: u32,
    samples: u32,
    verdict: Option<bool>,
}

impl Queueing {
    /// Of a drive that has `tags` tags, as long as it is taken to use them.
    pub(super) fn of(tags: u32) -> Self {
        Self {
            verdict: (tags >= QUEUES_FROM).then_some(true),
            ..Self::default()
        }
    }

    /// A request is about to come back while `in_drive` are inside and `queued` wait. `underused`: the queue in service is waited for and
    /// has so few that it says nothing.
    pub(super) fn observe(&mut self, in_drive: u32, queued: u32, underused: bool) {
        self.most = self.most.max(in_drive);
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

    /// It is taken to queue until it is known not to.
    pub(super) fn is_likely(self) -> bool {
        self.verdict != Some(false)
    }
}

impl Cfq {
    /// Linux: `cfq_update_hw_tag`.
    pub(super) fn observe_queueing(&mut self) {
        let current = self.queues.get(self.turn.queue as usize);
        let underused = current.is_some_and(|q| q.idles && q.dispatched + q.queued() < QUEUES_FROM);
        (self.queueing).observe(self.in_drive[0] + self.in_drive[1], self.queued, underused);
    }

    /// True if the queue in service may send one more (Linux: `cfq_may_dispatch`).
    pub(super) fn may_send(&self, now: Instant, table: &Table) -> bool {
        let q = self.turn.queue;
        let queue = self.queue(q);
        let [others, synchronous] = self.in_drive;
        if others > 0 && self.should_idle(q, table) || synchronous > 0 && !queue.sync {
            return false;
        }
        let mut most = match queue.class {
            Class::Idle => 1,
            _ => (self.config.quantum / 2).max(1),
        };
        if queue.dispatched >= most {
            let unrivalled = queue.sync && self.busy_sync == 1 || self.busy == 1;
            if queue.class == Class::Idle || !unrivalled && self.is_soon_over(now) {
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

    /// How many requests an asynchronous queue may have in the drive: one more for each slice since a synchronous request was late, and
    /// one in any case.
    fn async_depth(&self, now: Instant, dispatched: u32) -> u32 {
        let quiet = now.since(self.last_late).as_nanos();
        let depth = quiet / self.config.slice_sync.as_nanos();
        match depth {
            0 => u32::from(dispatched == 0),
            depth => depth.min(u64::from(u32::MAX)) as u32,
        }
    }

    /// The slice will be over before what the queue has in the drive is done, as far as that can be said (Linux: `cfq_slice_used_soon`).
    fn is_soon_over(&self, now: Instant) -> bool {
        let waiting = self.queue(self.turn.queue).dispatched;
        let done = now + self.slice_idle.saturating_mul(waiting.into());
        self.turn.slice.is_none_or(|slice| done > slice.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_queues_when_five_were_inside() {
        let mut queueing = Queueing::default();
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
    fn who_is_waited_for_and_sends_little_says_nothing() {
        let mut queueing = Queueing::default();
        for _ in 0..200 {
            queueing.observe(4, 9, true);
            queueing.observe(5, 5, false);
        }
        assert_eq!(queueing.verdict, None);
    }
}
