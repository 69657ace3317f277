//! Merging the queues of cooperating streams, and parting them again (Linux: `bfq_setup_cooperator` and what it calls).
//!
//! Streams whose requests interleave (several readers of one file, the threads of a dump) look seeky each for itself and the drive
//! would idle for each in turn, although together they are sequential. A stream whose next request is near to that of another queue is
//! therefore given to that queue, unless either has been seeky or at it for long. Where the shared queue turns out seeky, its streams
//! get queues of their own again and go on as they were before.
//!
//! A stream's number leads to its queue by [`Members`](crate::elevator::common::members::Members). What was in a queue that its streams have left stays
//! there until it is served; then the queue's number is free.

use super::Bfq;
use super::config::Config;
use super::entity::IDLE;
use super::idle::Intensity;
use super::inject::Injection;
use super::queue::Queue;
use super::raising::Raising;
use super::stable::Stable;
use crate::cx::Cx;
use crate::elevator::common::seek::Place;
use crate::elevator::common::think::Think;
use crate::list::NIL;
use crate::tree::{Forest, Tree};
use crate::{Instant, Span, StreamId};
use alloc::vec;
use alloc::vec::Vec;

/// Requests at most this number of sectors apart are near (Linux: `BFQQ_CLOSE_THR`).
const NEAR: u64 = 8 * 1024;
/// A queue that has been served for this time since it had nothing to send merges with no other (Linux: `bfq_merge_time_limit`).
const LATE: Span = Span::from_millis(100);
/// A queue was parted from others only just now (Linux: `bfq_wr_min_idle_time` after `split_time`).
const JUST_SPLIT: Span = Span::from_secs(2);

/// What sharing a queue to streams and other queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// The stream whose queue it is, or [`NIL`] if it was merged (Linux: `bic`).
    pub(super) owner: u32,
    /// Streams that send to it, or that will because their queue is to merge with it (Linux: `bfqq_process_refs`).
    pub(super) users: u32,
    /// The queue that it merges with as its streams come with their next requests, or [`NIL`] (Linux: `new_bfqq`).
    pub(super) into: u32,
    /// Streams were merged into it (Linux: `coop`).
    pub(super) is_shared: bool,
    /// Its streams part (Linux: `split_coop`).
    split_pending: bool,
    /// All streams have left; it goes when what it has is served.
    lingers: bool,
    /// When its stream parted from others (Linux: `split_time`).
    pub(super) split_at: Option<Instant>,
    /// When it was first served since it had nothing to send (Linux: `first_IO_time`).
    pub(super) first_served: Option<Instant>,
    /// When it came with its first request, and which it was of all: numbers of queues are used again. Only noted for `stable_merge`.
    pub(super) created: Option<(Instant, u64)>,
}

impl Sharing {
    pub(super) const NONE: Self = Self {
        owner: NIL,
        users: 0,
        into: NIL,
        is_shared: false,
        split_pending: false,
        lingers: false,
        split_at: None,
        first_served: None,
        created: None,
    };

    /// Its stream parted from others so short a time ago that what it does says little.
    pub(super) fn is_just_split(&self, now: Instant) -> bool {
        self.split_at.is_some_and(|at| now <= at + JUST_SPLIT)
    }

    fn is_too_late(&self, now: Instant) -> bool {
        self.first_served.is_some_and(|at| at + LATE < now)
    }
}

/// What a stream gets back when it parts from others (Linux: `bfq_bfqq_save_state`).
#[derive(Clone, Copy, Debug)]
struct Saved {
    think: Think,
    intensity: Intensity,
    injection: Injection,
    raising: Raising,
}

/// Which queues cooperate.
#[derive(Debug)]
pub(super) struct Cooperation {
    /// Some queue is shared or lingers, or may come to be so: there is something to do for requests.
    pub(super) is_on: bool,
    /// Cooperators are looked for. On flash that queues they are not: it makes no difference there.
    seeks: bool,
    shared: u32,
    lingering: u32,
    /// Synchronous queues of each group by the place of their next request.
    by_group: Vec<Tree>,
    places: Forest,
    saved: Vec<Option<Saved>>,
    pub(super) stable: Stable,
    /// Where the last piece of a queue in service ended (Linux: `in_serv_last_pos`).
    last_end: Place,
}

impl Cooperation {
    pub(super) fn new(groups: u32, streams: u32, queues: u32, config: &Config) -> Self {
        Self {
            is_on: config.merge,
            seeks: config.merge,
            shared: 0,
            lingering: 0,
            by_group: vec![Tree::EMPTY; groups as usize],
            places: Forest::new(queues),
            saved: vec![None; streams as usize],
            stable: Stable::new(groups, streams, config),
            last_end: Place::START,
        }
    }

    fn counted(&mut self) {
        self.is_on = self.seeks || self.stable.is_on || self.shared + self.lingering > 0;
    }

    /// The drive is flash that queues: cooperators are looked for no longer.
    #[cold]
    pub(super) fn stop(&mut self) {
        self.seeks = false;
        self.counted();
    }

    fn remove_place(&mut self, q: u32, group: u32) {
        if self.places.contains(q) {
            self.places.remove(&mut self.by_group[group as usize], q);
        }
    }
}

impl Bfq {
    /// A synchronous request comes: the queue it goes to, which may be another than its stream had so far.
    #[cold]
    pub(super) fn cooperate(&mut self, cx: &mut Cx, request: u32) -> u32 {
        let q = self.come_to_queue(cx, request);
        let live = &cx.table.requests[request];
        let at = Place {
            space: live.request.space,
            sector: (live.request.offset + u64::from(live.issued)) / 512,
        };
        self.redirect(cx, live.request.stream, q, at)
    }

    /// A synchronous request has come and may yet be merged: its stream gets a queue of its own again, if its turn with others is over,
    /// and one that is new is merged with that of a stream that has just begun (Linux: `bfq_init_rq`).
    #[cold]
    pub(super) fn come_to_queue(&mut self, cx: &mut Cx, request: u32) -> u32 {
        let id = cx.table.requests[request].request.stream;
        let stream = id.index;
        let mut q = self.members.sync_queue(stream);
        let sharing = self.queue(q).sharing;
        if sharing.is_shared && sharing.split_pending && !self.cooperation.stable.is_merged(stream)
        {
            q = self.split(cx, stream, q);
        }
        let sharing = &mut self.queues[q as usize].sharing;
        if sharing.users == 1 {
            sharing.owner = stream;
        }
        if self.cooperation.stable.is_on && self.queue(q).sharing.created.is_none() {
            q = self.merge_stably(cx, id, q);
        }
        q
    }

    /// The queue that a stream with a request that begins there goes to from `q`.
    fn redirect(&mut self, cx: &mut Cx, id: StreamId, mut q: u32, at: Place) -> u32 {
        if self.cooperation.stable.is_on {
            q = self.merge_stably(cx, id, q);
        }
        if let Some(into) = self.cooperator(cx.now, q, at) {
            q = self.merge_along(cx, id, q, into);
        }
        if self.queue(q).sharing.is_shared {
            self.queues[q as usize].stream = id;
        }
        q
    }

    /// The queue that a request would be put in, were it not merged with another (Linux: in `bfq_allow_bio_merge`, where streams are
    /// given to the queue of their cooperators, too).
    pub(super) fn queue_to_be(&mut self, cx: &mut Cx, request: u32) -> u32 {
        let q = self.members.queue_of(request, &cx.table);
        if !self.cooperation.is_on || !self.queue(q).sync {
            return q;
        }
        if self.cooperation.stable.is_on && self.queue(q).sharing.created.is_none() {
            // In Linux it has none yet.
            return NIL;
        }
        let request = &cx.table.requests[request].request;
        let at = Place {
            space: request.space,
            sector: request.offset / 512,
        };
        self.redirect(cx, request.stream, q, at)
    }

    /// The next request of a queue is another than it was (Linux: `bfq_pos_tree_add_move`).
    pub(super) fn next_moved(&mut self, now: Instant, q: u32) {
        if !self.cooperation.seeks {
            return;
        }
        let queue = &self.queues[q as usize];
        self.cooperation.remove_place(q, queue.group);
        let wanted = queue.sync && queue.class != IDLE && queue.next != NIL;
        if wanted && !queue.sharing.is_too_late(now) {
            let key = self.order.item(queue.next).start().key();
            let tree = &mut self.cooperation.by_group[queue.group as usize];
            self.cooperation.places.insert(tree, q, key, 0);
        }
    }

    /// A piece of a queue was sent that ends there.
    #[cold]
    pub(super) fn sent_among_cooperators(&mut self, now: Instant, q: u32, end: Place) {
        self.queues[q as usize]
            .sharing
            .first_served
            .get_or_insert(now);
        if self.turn.queue == q {
            self.cooperation.last_end = end;
        }
        self.next_moved(now, q);
    }

    /// A piece of a queue came back. Shared queues are busy at all times and would seem to wake each queue that comes after them
    /// (Linux: in `bfq_completed_request`).
    #[cold]
    pub(super) fn completed_among_cooperators(&mut self, q: u32) {
        if self.queue(q).sharing.is_shared {
            self.wakers.last = NIL;
        }
        self.end_lingering(q);
    }

    /// The turn of a queue is over. If it is shared and seeky, its streams do not cooperate (Linux: in `__bfq_bfqq_expire`).
    pub(super) fn reconsider_sharing(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let seeky = queue.history.is_seeky(self.config.seeky_threshold);
        if queue.sharing.is_shared && seeky {
            queue.sharing.split_pending = true;
        }
    }

    /// A stream leaves its queue for good; all its requests are done.
    pub(super) fn leave_queues(&mut self, cx: &mut Cx, stream: u32) {
        let q = self.members.sync_queue(stream);
        self.leave_chain(cx, q);
        self.forget_created(q, NIL);
        self.leave_queue(cx, q);
        self.cooperation.saved[stream as usize] = None;
        self.cooperation.stable.forget(stream);
    }

    /// A queue that all streams have left goes if it has nothing any more.
    pub(super) fn end_lingering(&mut self, q: u32) {
        let queue = self.queue(q);
        let has_some = queue.outstanding() > 0 || queue.busy || self.turn.queue == q;
        if !queue.sharing.lingers || has_some {
            return;
        }
        debug_assert!(
            !self.cooperation.stable.compares_to(queue.group, q),
            "others are compared to a queue that goes"
        );
        let is_shared = queue.sharing.is_shared;
        self.cooperation.remove_place(q, queue.group);
        self.cooperation.shared -= u32::from(is_shared);
        self.cooperation.lingering -= 1;
        self.cooperation.counted();
        self.forget_queue(q);
        self.members.free_sync(q);
    }

    /// The queue that `q` is to merge with, for a request that begins there (Linux: `bfq_setup_cooperator`).
    fn cooperator(&mut self, now: Instant, q: u32, at: Place) -> Option<u32> {
        let sharing = self.queue(q).sharing;
        if sharing.into != NIL {
            return Some(sharing.into);
        }
        if !self.cooperation.seeks || sharing.is_too_late(now) || self.symmetry.busy() == 1 {
            return None;
        }
        let current = self.turn.queue;
        if current != NIL && at.is_within(NEAR, self.cooperation.last_end) {
            let found = self.may_cooperate(now, q, current);
            let found = found.then(|| self.set_up(q, current)).flatten();
            if found.is_some() {
                return found;
            }
        }
        let nearest = self.nearest(self.queue(q).group, at)?;
        let found = self.may_cooperate(now, q, nearest);
        found.then(|| self.set_up(q, nearest)).flatten()
    }

    /// The queue of a group whose next request is nearest, if it is near (Linux: `bfqq_find_close`).
    fn nearest(&self, group: u32, at: Place) -> Option<u32> {
        let tree = &self.cooperation.by_group[group as usize];
        let places = &self.cooperation.places;
        let before = places.last_up_to(tree, at.key());
        let after = match before {
            Some(before) => places.next(before),
            None => places.first(tree),
        };
        let place = |q: &u32| self.order.item(self.queue(*q).next).start();
        let near = |q: &u32| place(q).is_within(NEAR, at);
        let distance = |q: &u32| place(q).sector.abs_diff(at.sector);
        let both = [before, after].into_iter().flatten();
        both.filter(near).min_by_key(distance)
    }

    /// Linux: `bfq_may_be_close_cooperator`.
    fn may_cooperate(&self, now: Instant, q: u32, other: u32) -> bool {
        let (a, b) = (self.queue(q), self.queue(other));
        let threshold = self.config.seeky_threshold;
        a.class == b.class
            && a.class != IDLE
            && a.sync
            && b.sync
            && !b.sharing.is_too_late(now)
            && !a.history.is_seeky(threshold)
            && !b.history.is_seeky(threshold)
    }

    /// Streams of `q` will go to `other`, or to what that merges with, as they come (Linux: `bfq_setup_merge`).
    pub(super) fn set_up(&mut self, q: u32, other: u32) -> Option<u32> {
        let (a, b) = (self.queue(q), self.queue(other));
        if q == other || a.group != b.group || b.sharing.users == 0 {
            return None;
        }
        let mut into = other;
        while self.queue(into).sharing.into != NIL {
            into = self.queue(into).sharing.into;
            if into == q {
                return None;
            }
        }
        let users = self.queue(q).sharing.users;
        // Those that linger take no more numbers than there are streams.
        if users == 0
            || self.queue(into).sharing.users == 0
            || self.cooperation.lingering >= self.members.streams()
        {
            return None;
        }
        self.queues[q as usize].sharing.into = into;
        self.queues[into as usize].sharing.users += users;
        Some(into)
    }

    /// A stream goes from queue `q` to `into` and on to whatever that merges with. Returns where it ends.
    pub(super) fn merge_along(&mut self, cx: &mut Cx, stream: StreamId, q: u32, into: u32) -> u32 {
        let (mut from, mut to) = (q, into);
        loop {
            self.merge(cx, stream, from, to);
            let next = self.queue(to).sharing.into;
            if next == NIL {
                return to;
            }
            (from, to) = (to, next);
        }
    }

    /// A stream goes from queue `q` to `into` (Linux: `bfq_merge_bfqqs`).
    fn merge(&mut self, cx: &mut Cx, stream: StreamId, q: u32, into: u32) {
        self.save(cx.now, q);
        self.save(cx.now, into);
        let [old, new] = self
            .queues
            .get_disjoint_mut([q as usize, into as usize])
            .expect("two queues");
        new.intensity.is_bound |= core::mem::take(&mut old.intensity.is_bound);
        old.sharing.owner = NIL;
        new.sharing.owner = NIL;
        if !core::mem::replace(&mut new.sharing.is_shared, true) {
            self.cooperation.shared += 1;
        }
        self.wakers.inherit(into, q);
        self.inherit_raising(into, q);
        self.members.set_sync_queue(stream.index, into);
        self.forget_created(q, into);
        self.leave_queue(cx, q);
    }

    /// Notes how a queue stands for when its stream gets one of its own again.
    fn save(&mut self, now: Instant, q: u32) {
        let queue = &self.queues[q as usize];
        if queue.sharing.owner == NIL {
            return;
        }
        self.cooperation.saved[queue.sharing.owner as usize] = Some(Saved {
            think: queue.think,
            intensity: queue.intensity,
            injection: queue.injection,
            raising: (queue.raising).saved(now, self.config.low_latency, &self.peak),
        });
    }

    /// A stream whose queue was shared has one of its own again: that, if all others have left it, else a new one
    /// (Linux: `bfq_split_bfqq`).
    fn split(&mut self, cx: &mut Cx, stream: u32, shared: u32) -> u32 {
        let now = cx.now;
        let sharing = &mut self.queues[shared as usize].sharing;
        if sharing.users == 1 {
            sharing.is_shared = false;
            sharing.split_pending = false;
            self.cooperation.shared -= 1;
            self.cooperation.counted();
            self.queues[shared as usize].stream = cx.table.stream_id(stream);
            self.resume(now, stream, shared);
            return shared;
        }
        let q = self.open_sync_queue(stream, &cx.table);
        let in_large_burst = self.queue(shared).raising.is_in_large_burst();
        let queue = &mut self.queues[q as usize];
        queue.sharing.split_at = Some(now);
        queue.raising.after_split(now, in_large_burst);
        self.note_created(now, q);
        self.wakers.inherit(q, shared);
        self.resume(now, stream, q);
        self.leave_chain(cx, shared);
        self.leave_queue(cx, shared);
        q
    }

    /// A queue goes on as its stream's own did (Linux: `bfq_bfqq_resume_state`).
    fn resume(&mut self, now: Instant, stream: u32, q: u32) {
        let Some(saved) = self.cooperation.saved[stream as usize].take() else {
            return;
        };
        let queue: &mut Queue = &mut self.queues[q as usize];
        queue.think = saved.think;
        queue.intensity = saved.intensity;
        queue.injection = saved.injection;
        if self.config.low_latency {
            self.resume_raising(now, q, &saved.raising);
        }
    }

    /// A stream that sends to `q` no longer will not send to those either that `q` is to merge with (Linux: `bfq_put_cooperator`).
    fn leave_chain(&mut self, cx: &mut Cx, q: u32) {
        let mut at = self.queue(q).sharing.into;
        while at != NIL {
            let next = self.queue(at).sharing.into;
            self.leave_queue(cx, at);
            at = next;
        }
    }

    /// One stream less sends to a queue (Linux: `bfq_release_process_ref`).
    fn leave_queue(&mut self, cx: &mut Cx, q: u32) {
        let queue = &mut self.queues[q as usize];
        queue.sharing.users -= 1;
        if queue.sharing.users > 0 {
            self.cooperation.counted();
            return;
        }
        queue.sharing.lingers = true;
        self.cooperation.lingering += 1;
        self.cooperation.counted();
        let (empty, busy) = (queue.next == NIL, queue.busy);
        if empty && self.turn.queue == q {
            self.expire(cx, crate::event::Expiry::NoMoreRequests, cx.now);
        } else if empty && busy {
            self.empty_out_of_service(q);
        }
        self.end_lingering(q);
    }
}
