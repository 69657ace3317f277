//! Cooperation: streams that read the same region together share a queue (Linux:
//! `cfq_close_cooperator`, `cfq_setup_merge`, `split_cfqq`).
//!
//! If the queue in service has no request, and the next request of another queue is near to the
//! head, the two are assumed to read one region together. The other queue is served next. The
//! streams of the queue with fewer streams move to the other one with their next requests. If the
//! shared queue is seeky at the end of a turn, each of its streams gets a queue of its own again.

use super::Cfq;
use super::queue::LEVELS;
use super::service::CfqClass;
use crate::cx::Cx;
use crate::elevator::common::seek::SeekPosition;
use crate::event::Expiry;
use crate::list::NIL;
use crate::tree::{Sorted, Tree};

/// The largest distance of requests that are near to each other, in sectors (Linux:
/// `CFQQ_CLOSE_THR`).
const NEAR: u64 = 8 * 1024;

/// An index of queues by the position of their next request, one for each level (Linux:
/// `prio_trees`).
#[derive(Debug)]
pub(super) struct PositionIndex {
    places: Sorted,
    levels: [Tree; LEVELS],
    /// The number of queues that all streams have left.
    lingering: u32,
}

impl PositionIndex {
    pub(super) fn new(queues: u32) -> Self {
        Self {
            places: Sorted::new(queues),
            levels: [Tree::EMPTY; LEVELS],
            lingering: 0,
        }
    }

    pub(super) fn remove(&mut self, q: u32, level: u8) {
        if self.places.contains(q) {
            let tree = &mut self.levels[usize::from(level)];
            self.places.remove(tree, q);
        }
    }
}

impl Cfq {
    /// Updates the index after the next request of a queue has changed (Linux:
    /// `cfq_prio_tree_add`). Of two queues at one position, the first is kept.
    pub(super) fn update_position(&mut self, q: u32) {
        let queue = &self.queues[q as usize];
        let level = queue.level;
        self.places.remove(q, level);
        if queue.class == CfqClass::Idle || queue.is_empty() {
            return;
        }
        let key = self.order.item(queue.next).start().key();
        let PositionIndex { places, levels, .. } = &mut self.places;
        let tree = &mut levels[usize::from(level)];
        let there = places.last_up_to(tree, key);
        if there.is_none_or(|other| places.key(other) != key) {
            places.insert(tree, q, key, 0);
        }
    }

    /// Returns true if a position is near to the head (Linux: `cfq_rq_close`).
    pub(super) fn is_near(&self, at: SeekPosition) -> bool {
        at.is_within(NEAR, self.head)
    }

    /// Returns a queue that cooperates with this one and has a request near to the head (Linux:
    /// `cfq_close_cooperator`).
    pub(super) fn cooperator(&self, q: u32) -> Option<u32> {
        let queue = self.queue(q);
        let alone = self.groups.get(queue.group).queues == 1;
        if alone || queue.class == CfqClass::Idle || !queue.sync || queue.is_seeky() {
            return None;
        }
        let found = self.nearest(q)?;
        let other = self.queue(found);
        let same = other.group == queue.group && other.class == queue.class;
        let fits = same && other.sync && !other.is_seeky();
        fits.then_some(found)
    }

    /// Returns the queue of the same level whose next request is near to the head (Linux:
    /// `cfqq_close`).
    fn nearest(&self, q: u32) -> Option<u32> {
        let PositionIndex { places, levels, .. } = &self.places;
        let tree = &levels[usize::from(self.queue(q).level)];
        let before = places.last_up_to(tree, self.head.key());
        let after = match before {
            Some(before) => places.next(before),
            None => places.first(tree),
        };
        let place = |q: u32| self.order.item(self.queue(q).next).start();
        let mut both = [before, after].into_iter().flatten();
        both.find(|&other| self.is_near(place(other)))
    }

    /// Plans that the streams of the queue with fewer streams move to the other one with their next
    /// requests (Linux: `cfq_setup_merge`).
    pub(super) fn set_up_merge(&mut self, q: u32, other: u32) {
        if self.queue(q).sharing.into != NIL || self.queue(other).sharing.users == 0 {
            return;
        }
        // The queue at the end of the chain is used. A chain that leads back to `q` would be a
        // cycle.
        let mut last = other;
        while self.queue(last).sharing.into != NIL {
            last = self.queue(last).sharing.into;
            if last == q {
                return;
            }
        }
        let users = |q: u32| self.queue(q).sharing.users;
        let (own, others) = (users(q), users(last));
        // Lingering queues use at most as many numbers as there are streams, which is the space
        // that `Members` reserves for them.
        let no_room = self.places.lingering >= self.members.streams();
        if q == last || own == 0 || others == 0 || no_room {
            return;
        }
        let (from, to) = if others >= own { (q, last) } else { (last, q) };
        let moving = self.queue(from).sharing.users;
        self.queues[from as usize].sharing.into = to;
        self.queues[to as usize].sharing.users += moving;
    }

    /// Returns the queue for a synchronous request of a stream (Linux: in `cfq_set_request`).
    pub(super) fn queue_for_request(&mut self, cx: &mut Cx, stream: u32) -> u32 {
        let mut q = self.members.sync_queue(stream);
        let sharing = self.queue(q).sharing;
        if sharing.is_shared && sharing.split_pending {
            q = self.split(cx, stream, q);
        }
        let into = self.queue(q).sharing.into;
        if into == NIL {
            return q;
        }
        self.queues[into as usize].sharing.is_shared = true;
        self.members.set_sync_queue(stream, into);
        self.leave_queue(cx, q);
        into
    }

    /// Returns the queue of a stream after a split, which is the shared one for the last stream
    /// (Linux: `split_cfqq`).
    fn split(&mut self, cx: &mut Cx, stream: u32, shared: u32) -> u32 {
        let sharing = &mut self.queues[shared as usize].sharing;
        if sharing.users == 1 {
            (sharing.is_shared, sharing.split_pending) = (false, false);
            return shared;
        }
        let q = self.open_sync_queue(stream, &cx.table);
        self.leave_chain(cx, shared);
        self.leave_queue(cx, shared);
        q
    }

    /// Marks a shared queue for splitting at the end of its turn if it is seeky (Linux: in
    /// `__cfq_slice_expired`).
    pub(super) fn reconsider_sharing(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        if queue.sharing.is_shared && queue.is_seeky() {
            queue.sharing.split_pending = true;
        }
    }

    /// Removes a stream that left `q` from the users of all queues in the chain of merges behind
    /// `q` (Linux: `cfq_put_cooperator`).
    pub(super) fn leave_chain(&mut self, cx: &mut Cx, q: u32) {
        let mut at = self.queue(q).sharing.into;
        while at != NIL {
            let next = self.queue(at).sharing.into;
            self.leave_queue(cx, at);
            at = next;
        }
    }

    /// Removes one of the streams of a queue. The last one leaves the queue lingering (Linux:
    /// `cfq_put_queue`).
    pub(super) fn leave_queue(&mut self, cx: &mut Cx, q: u32) {
        let sharing = &mut self.queues[q as usize].sharing;
        sharing.users -= 1;
        if sharing.users > 0 {
            return;
        }
        sharing.lingers = true;
        self.places.lingering += 1;
        let queue = self.queue(q);
        if queue.is_empty() && self.turn.queue == q {
            self.expire(cx, Expiry::NoMoreRequests);
        } else if queue.is_empty() && queue.is_busy() {
            self.rest(q);
        }
        self.end_lingering(q);
    }

    /// Removes a queue that all streams have left, once it has no requests any more.
    pub(super) fn end_lingering(&mut self, q: u32) {
        let queue = self.queue(q);
        let has_some = queue.dispatched > 0 || !queue.is_empty() || queue.is_busy();
        if !queue.sharing.lingers || has_some || self.turn.queue == q {
            return;
        }
        self.places.lingering -= 1;
        self.forget_queue(q);
        self.members.free_sync(q);
    }
}
