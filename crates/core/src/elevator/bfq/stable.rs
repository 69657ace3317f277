//! Merging the queues of streams that start shortly after each other, for good: they are likely to be one application's, whatever they
//! ask for (Linux: `bfq_do_or_sched_stable_merge`). On flash that queues that is done at once, elsewhere once it is known that idling
//! for the one would not pay.

use super::Bfq;
use super::config::Config;
use super::queue::Queue;
use crate::cx::Cx;
use crate::list::NIL;
use crate::{Instant, Span, StreamId};
use alloc::vec;
use alloc::vec::Vec;

/// Queues created within this time one after the other are merged for good (Linux: `bfq_burst_interval`).
const TOGETHER: Span = Span::from_millis(180);
/// Time after the last one when another series begins (Linux: `bfq_activation_stable_merging`).
const SERIES: Span = Span::from_millis(600);
/// Time after creation, and after parting from others, when a merge is done that is not done at once (Linux: `bfq_late_stable_merging`).
const LATER: Span = Span::from_millis(600);

/// Which queues were merged for good, or are to be.
#[derive(Debug)]
pub(super) struct Stable {
    /// The tunable, and that of merging at all.
    pub(super) is_on: bool,
    /// Of each stream: it was merged for good; and the queue, with its serial number, that its own is to be merged with later.
    merged: Vec<bool>,
    scheduled: Vec<Option<(u32, u64)>>,
    /// The queue of each group to which those that come are compared (Linux: `last_bfqq_created`).
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

    /// A stream was merged for good.
    pub(super) fn is_merged(&self, stream: u32) -> bool {
        self.merged[stream as usize]
    }

    /// The queues of a group are compared to this one as they come.
    pub(super) fn compares_to(&self, group: u32, q: u32) -> bool {
        self.last_created[group as usize] == q
    }

    /// A stream goes.
    pub(super) fn forget(&mut self, stream: u32) {
        self.merged[stream as usize] = false;
        self.scheduled[stream as usize] = None;
    }
}

impl Bfq {
    /// A queue takes no part in weight raising: merged ones are rarely of what somebody waits for, unless they were merged because they
    /// started together.
    pub(super) fn is_kept_from_raising(&self, queue: &Queue) -> bool {
        queue.sharing.is_shared && !self.cooperation.stable.is_merged(queue.stream.index)
    }

    /// The queue of a stream came with its first request, or may now be merged with that to which it was compared then. Returns where
    /// the stream's requests go (Linux: `bfq_do_or_sched_stable_merge`, `bfq_setup_stable_merge`).
    pub(super) fn merge_stably(&mut self, cx: &mut Cx, stream: StreamId, q: u32) -> u32 {
        let now = cx.now;
        let sharing = self.queue(q).sharing;
        let found = match sharing.created {
            _ if sharing.into != NIL => None,
            None => self.created(now, stream.index, q),
            Some((created, _)) => {
                let since = sharing.split_at.unwrap_or(created).max(created);
                let due = sharing.owner == stream.index && since + LATER < now;
                let other =
                    due.then(|| self.cooperation.stable.scheduled[stream.index as usize].take());
                let other = other.flatten().filter(|_| !self.flash_queues());
                // It was there all the time, and idling for this one does not pay.
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

    /// A queue came with its first request: the queue to merge it with at once.
    fn created(&mut self, now: Instant, stream: u32, q: u32) -> Option<u32> {
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

    pub(super) fn note_created(&mut self, now: Instant, q: u32) {
        let stable = &mut self.cooperation.stable;
        stable.created += 1;
        self.queues[q as usize].sharing.created = Some((now, stable.created));
    }

    /// The queue of this number is still the one that it was.
    fn is_still(&self, q: u32, serial: u64) -> bool {
        let created = self.queue(q).sharing.created;
        created.is_some_and(|(_, own)| own == serial)
    }

    /// Others are compared to a queue no longer, but to another, or [`NIL`] (Linux: `bfq_reassign_last_bfqq`).
    pub(super) fn forget_created(&mut self, q: u32, instead: u32) {
        let group = self.queue(q).group as usize;
        let last = &mut self.cooperation.stable.last_created[group];
        if *last == q {
            *last = instead;
        }
    }

    /// The drive is flash that queues, or may: it is taken to until it was seen not to (Linux: `nonrot_with_queueing`).
    fn flash_queues(&self) -> bool {
        !self.rotational && !self.queueing.is_absent()
    }
}
