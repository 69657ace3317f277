//! Permanent merging of streams that start shortly after each other (Linux:
//! `bfq_do_or_sched_stable_merge`).
//!
//! Such streams probably belong to one application, whatever they read. On flash that queues
//! requests, they are merged at once. On other drives, they are merged later, once it is known that
//! idling for one of them does not raise throughput.

use super::Bfq;
use super::config::Config;
use super::queue::BfqQueue;
use crate::cx::Cx;
use crate::list::NIL;
use crate::{Instant, Span, StreamId};
use alloc::vec;
use alloc::vec::Vec;

/// The largest time between the creation of two queues that are merged (Linux:
/// `bfq_burst_interval`).
const TOGETHER: Span = Span::from_millis(180);
/// The time after which a new queue becomes the reference for later ones (Linux:
/// `bfq_activation_stable_merging`).
const SERIES: Span = Span::from_millis(600);
/// The time from creation or splitting to a merge that is not made at once (Linux:
/// `bfq_late_stable_merging`).
const LATER: Span = Span::from_millis(600);

/// The queues that were merged permanently, or will be.
#[derive(Debug)]
pub(super) struct Stable {
    /// True if the tunables `merge` and `stable_merge` are both on.
    pub(super) is_on: bool,
    /// The streams that were merged permanently. `scheduled` has the queue, with its serial number,
    /// that the stream's own queue is to be merged with later.
    merged: Vec<bool>,
    scheduled: Vec<Option<(u32, u64)>>,
    /// The queue of each group with which new queues are compared (Linux: `last_bfqq_created`).
    last_created: Vec<u32>,
    created: u64,
}

impl Stable {
    pub(super) fn new(groups: u32, streams: u32, config: &Config) -> Self {
        Self {
            is_on: config.merge && config.stable_merge,
            merged: vec![false; streams as usize],
            scheduled: vec![None; streams as usize],
            last_created: vec![NIL; groups as usize],
            created: 0,
        }
    }

    /// Returns true if the stream was merged permanently.
    pub(super) fn is_merged(&self, stream: u32) -> bool {
        self.merged[stream as usize]
    }

    /// Returns true if new queues of the group are compared with queue `q`.
    pub(super) fn compares_to(&self, group: u32, q: u32) -> bool {
        self.last_created[group as usize] == q
    }

    /// Forgets a stream that closes.
    pub(super) fn forget(&mut self, stream: u32) {
        self.merged[stream as usize] = false;
        self.scheduled[stream as usize] = None;
    }
}

impl Bfq {
    /// Returns true if a queue takes no part in weight raising. Merged queues rarely belong to
    /// interactive work, unless they were merged because they started together.
    pub(super) fn is_kept_from_raising(&self, queue: &BfqQueue) -> bool {
        queue.sharing.is_shared && !self.cooperation.stable.is_merged(queue.stream.index)
    }

    /// Merges the queue of a stream at its first request, or later with the queue that was
    /// scheduled then. Returns the queue for the stream's requests (Linux:
    /// `bfq_do_or_sched_stable_merge`, `bfq_setup_stable_merge`).
    pub(super) fn merge_stably(&mut self, cx: &mut Cx, stream: StreamId, q: u32) -> u32 {
        let now = cx.now;
        let sharing = self.queue(q).sharing;
        let found = match sharing.created {
            _ if sharing.into != NIL => None,
            None => self.record_first_request(now, stream.index, q),
            Some((created, _)) => {
                let since = sharing.split_at.unwrap_or(created).max(created);
                let due = sharing.owner == stream.index && since + LATER < now;
                let other =
                    due.then(|| self.cooperation.stable.scheduled[stream.index as usize].take());
                let other = other.flatten().filter(|_| !self.flash_queues());
                // The other queue must have existed all the time, and idling for this one must not
                // pay.
                other
                    .filter(|&(other, serial)| self.is_still(other, serial))
                    .filter(|_| !self.idling_boosts_throughput(q))
                    .map(|(other, _)| other)
            }
        };
        let Some(into) = found.and_then(|other| self.set_up(q, other)) else {
            return q;
        };
        let owner = self.queue(into).sharing.owner;
        for stream in [stream.index, owner] {
            if stream != NIL {
                self.cooperation.stable.merged[stream as usize] = true;
            }
        }
        self.merge_along(cx, stream, q, into)
    }

    /// Records a queue's first request and returns the queue to merge with at once, if any.
    fn record_first_request(&mut self, now: Instant, stream: u32, q: u32) -> Option<u32> {
        self.note_created(now, q);
        let queue = self.queue(q);
        let group = queue.group as usize;
        let last = self.cooperation.stable.last_created[group];
        let before = (last != NIL)
            .then(|| self.queue(last))
            .filter(|other| (other.class, other.level) == (queue.class, queue.level));
        let before = before.and_then(|other| other.sharing.created);
        let Some((at, serial)) = before.filter(|&(at, _)| at + SERIES >= now) else {
            self.cooperation.stable.last_created[group] = q;
            return None;
        };
        if at + TOGETHER < now {
            return None;
        }
        if self.flash_queues() {
            return Some(last);
        }
        self.cooperation.stable.scheduled[stream as usize] = Some((last, serial));
        None
    }

    /// Records the creation time of a queue, with a new serial number.
    pub(super) fn note_created(&mut self, now: Instant, q: u32) {
        let stable = &mut self.cooperation.stable;
        stable.created += 1;
        self.queues[q as usize].sharing.created = Some((now, stable.created));
    }

    /// Returns true if the number `q` still belongs to the queue with this serial number.
    fn is_still(&self, q: u32, serial: u64) -> bool {
        let created = self.queue(q).sharing.created;
        created.is_some_and(|(_, own)| own == serial)
    }

    /// Replaces `q` by `instead` or [`NIL`] as the queue with which new ones are compared (Linux:
    /// `bfq_reassign_last_bfqq`).
    pub(super) fn forget_created(&mut self, q: u32, instead: u32) {
        let group = self.queue(q).group as usize;
        let last = &mut self.cooperation.stable.last_created[group];
        if *last == q {
            *last = instead;
        }
    }

    /// Returns true if the drive is flash that queues requests. It is assumed to queue them until
    /// the opposite was observed (Linux: `nonrot_with_queueing`).
    fn flash_queues(&self) -> bool {
        !self.rotational && !self.queueing.is_absent()
    }
}
