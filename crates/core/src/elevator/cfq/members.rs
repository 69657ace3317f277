//! Creation and removal of streams and their queues.

use super::Cfq;
use super::queue::{CfqQueue, LEVELS};
use super::service::CfqClass;
use crate::cx::Cx;
use crate::elevator::common::think::Think;
use crate::event::Expiry;
use crate::list::NIL;
use crate::table::Table;

/// The level of every queue of the idle class (Linux: in `cfq_init_prio_data`).
const IDLE_LEVEL: u8 = 7;

impl Cfq {
    pub(super) fn open_stream(&mut self, cx: &mut Cx, stream: u32) {
        self.thinks[stream as usize] = Think::since(cx.now);
        let group = cx.table.streams[stream].spec.group.0;
        self.groups.open(group, cx.now);
        self.open_sync_queue(stream, &cx.table);
        let new = new_queue(stream, false, &cx.table);
        let found = self.members.async_queues(new.group).find(|&q| {
            let queue = self.queue(q);
            (queue.class, queue.level) == (new.class, new.level)
        });
        let q = found.unwrap_or_else(|| {
            let q = self.members.take_async(new.group);
            self.queues[q as usize] = new;
            q
        });
        self.queues[q as usize].sharing.users += 1;
        self.members.set_async_queue(stream, q);
    }

    /// Gives a stream a synchronous queue of its own and returns the queue.
    pub(super) fn open_sync_queue(&mut self, stream: u32, table: &Table) -> u32 {
        let q = self.members.take_sync();
        self.queues[q as usize] = new_queue(stream, true, table);
        self.queues[q as usize].sharing.users = 1;
        self.members.set_sync_queue(stream, q);
        q
    }

    /// Removes a stream after all of its requests have completed (Linux: `cfq_exit_icq`).
    pub(super) fn close_stream(&mut self, cx: &mut Cx, stream: u32) {
        let q = self.members.sync_queue(stream);
        // The drive must not idle for a stream that is closed.
        if self.turn.queue == q && self.queue(q).is_empty() {
            self.expire(cx, Expiry::NoMoreRequests);
        }
        self.leave_chain(cx, q);
        self.leave_queue(cx, q);
        let q = self.members.async_queue(stream);
        self.members.set_sync_queue(stream, NIL);
        self.members.set_async_queue(stream, NIL);
        let queue = &mut self.queues[q as usize];
        queue.sharing.users -= 1;
        if queue.sharing.users > 0 {
            return;
        }
        let group = queue.group;
        if self.turn.queue == q {
            self.expire(cx, Expiry::NoMoreRequests);
        }
        if self.queue(q).is_busy() {
            self.rest(q);
        }
        self.forget_queue(q);
        self.members.free_async(group, q);
    }

    /// Removes a queue that has no requests and is not busy.
    pub(super) fn forget_queue(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        debug_assert!(!queue.is_busy() && queue.dispatched == 0, "queue {q} goes");
        self.places.remove(q, queue.level);
        *queue = CfqQueue::UNUSED;
    }
}

/// Returns the initial state of a stream's queue (Linux: `cfq_init_cfqq`).
fn new_queue(stream: u32, sync: bool, table: &Table) -> CfqQueue {
    let spec = table.streams[stream].spec;
    let class = CfqClass::from(spec.priority.class);
    let level = match class {
        CfqClass::Idle => IDLE_LEVEL,
        _ => spec.priority.level.min(LEVELS as u8 - 1),
    };
    CfqQueue {
        group: spec.group.0,
        class,
        level,
        sync,
        stream: table.stream_id(stream),
        idles: sync && class != CfqClass::Idle,
        ..CfqQueue::UNUSED
    }
}
