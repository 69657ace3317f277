//! Merging the queues of cooperating streams, and splitting them again (Linux:
//! `bfq_setup_cooperator` and the functions it calls).
//!
//! Streams whose requests interleave, for example the threads of a dump, are together sequential.
//! Each of them alone looks seeky, and the drive would idle for each in turn. Therefore a stream
//! whose next request is near to that of another queue moves to that queue, unless one of them is
//! seeky or has been served for long. If the shared queue turns out to be seeky, its streams get
//! queues of their own again and continue with their earlier state.
//!
//! [`Members`](crate::elevator::common::members::Members) maps a stream to its queue. Requests in a
//! queue that its streams have left stay there until they are served. Then the number of the queue
//! is free.

use super::Bfq;
use super::config::Config;
use super::entity::IDLE;
use super::idle::Intensity;
use super::inject::Injection;
use super::queue::BfqQueue;
use super::raising::Raising;
use super::stable::Stable;
use crate::cx::Cx;
use crate::elevator::common::seek::SeekPosition;
use crate::elevator::common::think::Think;
use crate::list::NIL;
use crate::tree::{Forest, Tree};
use crate::{Instant, Span, StreamId};
use alloc::vec;
use alloc::vec::Vec;

/// The largest distance of requests that are near to each other, in sectors (Linux:
/// `BFQQ_CLOSE_THR`).
const NEAR: u64 = 8 * 1024;
/// The time after its first service since a pause from which on a queue merges with no other queue
/// (Linux: `bfq_merge_time_limit`).
const LATE: Span = Span::from_millis(100);
/// The time after a split in which measurements of the queue prove little (Linux:
/// `bfq_wr_min_idle_time` after `split_time`).
const JUST_SPLIT: Span = Span::from_secs(2);

/// The relations of a queue to its streams and to other queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct BfqSharing {
    /// The stream that the queue was created for or that is the only one left, or [`NIL`] if the
    /// queue was merged (Linux: `bic`).
    pub(super) owner: u32,
    /// The number of streams that send to the queue, or that will because their queue merges with
    /// it (Linux: `bfqq_process_refs`).
    pub(super) users: u32,
    /// The queue that this one merges with as its streams send their next requests, or [`NIL`]
    /// (Linux: `new_bfqq`).
    pub(super) into: u32,
    /// True if streams of other queues were merged into this one (Linux: `coop`).
    pub(super) is_shared: bool,
    /// True if each stream gets its own queue again with its next request (Linux: `split_coop`).
    split_pending: bool,
    /// True if all streams have left. The queue is removed when its last request is served.
    lingers: bool,
    /// The time at which the queue's stream was split from others (Linux: `split_time`).
    pub(super) split_at: Option<Instant>,
    /// The time of the first service since the queue last had no requests (Linux: `first_IO_time`).
    pub(super) first_served: Option<Instant>,
    /// The time of the queue's first request, and its serial number, because numbers of queues are
    /// used again. They are recorded only for `stable_merge`.
    pub(super) created: Option<(Instant, u64)>,
}

impl BfqSharing {
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

    /// Returns true if the queue's stream was split so recently that its behaviour proves little.
    pub(super) fn is_just_split(&self, now: Instant) -> bool {
        self.split_at.is_some_and(|at| now <= at + JUST_SPLIT)
    }

    fn is_too_late(&self, now: Instant) -> bool {
        self.first_served.is_some_and(|at| at + LATE < now)
    }
}

/// The state that a stream gets back when it is split from others (Linux: `bfq_bfqq_save_state`).
#[derive(Clone, Copy, Debug)]
struct SavedState {
    think: Think,
    intensity: Intensity,
    injection: Injection,
    raising: Raising,
}

/// The merged queues, and the index of positions in which cooperators are found.
#[derive(Debug)]
pub(super) struct Cooperation {
    /// True if a queue is shared or lingers, or may become so. Otherwise requests need no work
    /// here.
    pub(super) is_on: bool,
    /// True if cooperators are searched for. On flash that queues requests they are not, because
    /// merging makes no difference there.
    seeks: bool,
    shared: u32,
    lingering: u32,
    /// The synchronous queues of each group by the position of their next request.
    by_group: Vec<Tree>,
    places: Forest,
    saved: Vec<Option<SavedState>>,
    pub(super) stable: Stable,
    /// The end of the last piece of a queue in service (Linux: `in_serv_last_pos`).
    last_end: SeekPosition,
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
            last_end: SeekPosition::START,
        }
    }

    fn update_activity(&mut self) {
        // Even without a search for cooperators, queues that are shared must be split or removed.
        self.is_on = self.seeks || self.stable.is_on || self.shared + self.lingering > 0;
    }

    /// Ends the search for cooperators, because the drive is flash that queues requests.
    #[cold]
    pub(super) fn stop(&mut self) {
        self.seeks = false;
        self.update_activity();
    }

    fn remove_place(&mut self, q: u32, group: u32) {
        if self.places.contains(q) {
            self.places.remove(&mut self.by_group[group as usize], q);
        }
    }
}

impl Bfq {
    /// Returns the queue for a synchronous request that arrives, which can differ from the stream's
    /// queue so far.
    #[cold]
    pub(super) fn cooperate(&mut self, cx: &mut Cx, request: u32) -> u32 {
        let q = self.update_stream_queue(cx, request);
        let live = &cx.table.requests[request];
        let at = SeekPosition {
            space: live.request.space,
            sector: (live.request.offset + u64::from(live.issued)) / 512,
        };
        self.redirect(cx, live.request.stream, q, at)
    }

    /// Updates the queue of a stream whose synchronous request has arrived and may yet be merged
    /// (Linux: `bfq_init_rq`).
    ///
    /// If the shared queue of the stream is to be split, the stream gets a queue of its own again.
    /// If the stream is new, its queue may merge with that of a stream that has just begun.
    #[cold]
    pub(super) fn update_stream_queue(&mut self, cx: &mut Cx, request: u32) -> u32 {
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

    /// Returns the queue to which a request that begins at `at` goes from `q`.
    fn redirect(&mut self, cx: &mut Cx, id: StreamId, mut q: u32, at: SeekPosition) -> u32 {
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

    /// Returns the queue that a request would be put in if it is not merged into a command (Linux:
    /// in `bfq_allow_bio_merge`, which also moves streams to the queue of their cooperators).
    pub(super) fn predicted_queue(&mut self, cx: &mut Cx, request: u32) -> u32 {
        let q = self.members.queue_of(request, &cx.table);
        if !self.cooperation.is_on || !self.queue(q).sync {
            return q;
        }
        if self.cooperation.stable.is_on && self.queue(q).sharing.created.is_none() {
            // In Linux, the stream has no queue yet at this point, so its request cannot be merged.
            return NIL;
        }
        let request = &cx.table.requests[request].request;
        let at = SeekPosition {
            space: request.space,
            sector: request.offset / 512,
        };
        self.redirect(cx, request.stream, q, at)
    }

    /// Updates the index of positions after the next request of a queue has changed (Linux:
    /// `bfq_pos_tree_add_move`).
    pub(super) fn update_position(&mut self, now: Instant, q: u32) {
        if !self.cooperation.seeks {
            return;
        }
        let queue = &self.queues[q as usize];
        self.cooperation.remove_place(q, queue.group);
        // Only these queues can merge. A queue that has been served for long is left out too.
        let wanted = queue.sync && queue.class != IDLE && queue.next != NIL;
        if wanted && !queue.sharing.is_too_late(now) {
            let key = self.order.item(queue.next).start().key();
            let tree = &mut self.cooperation.by_group[queue.group as usize];
            self.cooperation.places.insert(tree, q, key, 0);
        }
    }

    /// Records that a piece of queue `q` was sent that ends at `end`.
    #[cold]
    pub(super) fn sent_among_cooperators(&mut self, now: Instant, q: u32, end: SeekPosition) {
        self.queues[q as usize]
            .sharing
            .first_served
            .get_or_insert(now);
        if self.turn.queue == q {
            self.cooperation.last_end = end;
        }
        self.update_position(now, q);
    }

    /// Accounts for a completed piece of queue `q` (Linux: in `bfq_completed_request`).
    ///
    /// Shared queues are almost always busy and would therefore seem to wake each queue with a
    /// request after theirs.
    #[cold]
    pub(super) fn completed_among_cooperators(&mut self, q: u32) {
        if self.queue(q).sharing.is_shared {
            self.wakers.last = NIL;
        }
        self.end_lingering(q);
    }

    /// Marks a shared queue for splitting at the end of its turn if it is seeky, because its
    /// streams do not cooperate then (Linux: in `__bfq_bfqq_expire`).
    pub(super) fn reconsider_sharing(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let seeky = queue.history.is_seeky(self.config.seeky_threshold);
        if queue.sharing.is_shared && seeky {
            queue.sharing.split_pending = true;
        }
    }

    /// Removes a stream from its queue for good, after all of its requests have completed.
    pub(super) fn leave_queues(&mut self, cx: &mut Cx, stream: u32) {
        let q = self.members.sync_queue(stream);
        self.leave_chain(cx, q);
        self.forget_created(q, NIL);
        self.leave_queue(cx, q);
        self.cooperation.saved[stream as usize] = None;
        self.cooperation.stable.forget(stream);
    }

    /// Removes a queue that all streams have left, once it has no requests any more.
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
        self.cooperation.update_activity();
        self.forget_queue(q);
        self.members.free_sync(q);
    }

    /// Returns the queue that `q` is to merge with, for a request that begins at `at` (Linux:
    /// `bfq_setup_cooperator`).
    fn cooperator(&mut self, now: Instant, q: u32, at: SeekPosition) -> Option<u32> {
        let sharing = self.queue(q).sharing;
        if sharing.into != NIL {
            return Some(sharing.into);
        }
        // With a single busy queue, there is no other queue to share the drive with.
        if !self.cooperation.seeks || sharing.is_too_late(now) || self.symmetry.busy() == 1 {
            return None;
        }
        // The queue in service comes first: its position is the end of its last piece, because it
        // may have no next request at the moment.
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

    /// Returns the queue of a group whose next request is nearest to `at`, if it is near (Linux:
    /// `bfqq_find_close`).
    fn nearest(&self, group: u32, at: SeekPosition) -> Option<u32> {
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

    /// Returns true if the two queues are alike enough to share one (Linux:
    /// `bfq_may_be_close_cooperator`).
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

    /// Plans that the streams of `q` move to `other`, or to the end of its chain of merges, with
    /// their next requests (Linux: `bfq_setup_merge`).
    pub(super) fn set_up(&mut self, q: u32, other: u32) -> Option<u32> {
        let (a, b) = (self.queue(q), self.queue(other));
        if q == other || a.group != b.group || b.sharing.users == 0 {
            return None;
        }
        // The queue at the end of the chain is chosen. A chain that leads back to `q` would be a
        // cycle.
        let mut into = other;
        while self.queue(into).sharing.into != NIL {
            into = self.queue(into).sharing.into;
            if into == q {
                return None;
            }
        }
        let users = self.queue(q).sharing.users;
        // Lingering queues use at most as many numbers as there are streams, which is the space
        // that `Members` reserves for them.
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

    /// Moves a stream from queue `q` to `into` and along the chain of merges. Returns the last
    /// queue.
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

    /// Moves a stream from queue `q` to `into` (Linux: `bfq_merge_bfqqs`).
    fn merge(&mut self, cx: &mut Cx, stream: StreamId, q: u32, into: u32) {
        // The states of both queues are saved while they still describe one stream each.
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

    /// Saves the state of a queue for the time when its stream gets a queue of its own again.
    fn save(&mut self, now: Instant, q: u32) {
        let queue = &self.queues[q as usize];
        // A queue that was merged describes several streams, and its state would be wrong for each
        // of them.
        if queue.sharing.owner == NIL {
            return;
        }
        self.cooperation.saved[queue.sharing.owner as usize] = Some(SavedState {
            think: queue.think,
            intensity: queue.intensity,
            injection: queue.injection,
            raising: (queue.raising).saved(now, self.config.low_latency, &self.peak),
        });
    }

    /// Returns the queue of a stream after a split (Linux: `bfq_split_bfqq`).
    ///
    /// The last stream keeps the shared queue for itself. Any other stream gets a new queue.
    fn split(&mut self, cx: &mut Cx, stream: u32, shared: u32) -> u32 {
        let now = cx.now;
        let sharing = &mut self.queues[shared as usize].sharing;
        if sharing.users == 1 {
            sharing.is_shared = false;
            sharing.split_pending = false;
            self.cooperation.shared -= 1;
            self.cooperation.update_activity();
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

    /// Restores the state that the stream's own queue had before the merge (Linux:
    /// `bfq_bfqq_resume_state`).
    fn resume(&mut self, now: Instant, stream: u32, q: u32) {
        let Some(saved) = self.cooperation.saved[stream as usize].take() else {
            return;
        };
        let queue: &mut BfqQueue = &mut self.queues[q as usize];
        queue.think = saved.think;
        queue.intensity = saved.intensity;
        queue.injection = saved.injection;
        if self.config.low_latency {
            self.resume_raising(now, q, &saved.raising);
        }
    }

    /// Removes a stream that left `q` from the users of all queues in the chain of merges behind
    /// `q` (Linux: `bfq_put_cooperator`).
    fn leave_chain(&mut self, cx: &mut Cx, q: u32) {
        let mut at = self.queue(q).sharing.into;
        while at != NIL {
            let next = self.queue(at).sharing.into;
            self.leave_queue(cx, at);
            at = next;
        }
    }

    /// Removes one of the streams of a queue. The last one leaves the queue lingering (Linux:
    /// `bfq_release_process_ref`).
    fn leave_queue(&mut self, cx: &mut Cx, q: u32) {
        let queue = &mut self.queues[q as usize];
        queue.sharing.users -= 1;
        if queue.sharing.users > 0 {
            self.cooperation.update_activity();
            return;
        }
        queue.sharing.lingers = true;
        self.cooperation.lingering += 1;
        self.cooperation.update_activity();
        let (empty, busy) = (queue.next == NIL, queue.busy);
        if empty && self.turn.queue == q {
            self.expire(cx, crate::event::Expiry::NoMoreRequests, cx.now);
        } else if empty && busy {
            self.empty_out_of_service(q);
        }
        self.end_lingering(q);
    }
}
