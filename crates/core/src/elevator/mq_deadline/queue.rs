//! Queued requests of `mq-deadline`: by position and by age, for reads and writes separately.

use crate::elevator::common::seek::SeekPosition;
use crate::leaves::Leaves;
use crate::list::{Links, List, NIL};
use crate::merge::Side;
use crate::request::Op;
use crate::table::{Live, Table};
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// The direction of data (Linux: `enum dd_data_dir`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// Operations that only read.
    Read,
    /// Operations that change the drive.
    Write,
}

impl Direction {
    pub(super) fn of(op: Op) -> Self {
        if op.is_read() {
            Self::Read
        } else {
            Self::Write
        }
    }
}

/// The requests of one direction (Linux: `fifo_list`, `sort_list` and `next_rq` of `struct
/// dd_per_prio`).
#[derive(Clone, Copy, Debug)]
struct DirectionQueue {
    /// Number of the tree with the requests in the order of position.
    sorted: usize,
    /// The requests in the order of arrival.
    fifo: List,
    /// The request behind the one that was dispatched last, in the order of position, or [`NIL`].
    /// The batch continues with it.
    next: u32,
}

/// The requests of one priority (Linux: `struct dd_per_prio`).
#[derive(Clone, Copy, Debug)]
pub(super) struct MqDeadlineQueue {
    lanes: [DirectionQueue; 2],
}

impl MqDeadlineQueue {
    /// Creates the empty queue of a priority.
    pub(super) fn new(priority: usize) -> Self {
        Self {
            lanes: [0, 1].map(|lane| DirectionQueue {
                sorted: 2 * priority + lane,
                fifo: List::EMPTY,
                next: NIL,
            }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.fifo.is_empty())
    }

    /// Returns the request with which a batch of this direction continues (Linux:
    /// `deadline_next_request`).
    pub(super) fn next(&self, direction: Direction) -> Option<u32> {
        let next = self.lane(direction).next;
        (next != NIL).then_some(next)
    }

    /// Returns the oldest request of this direction (Linux: `deadline_fifo_request`).
    pub(super) fn oldest(&self, direction: Direction) -> Option<u32> {
        self.lane(direction).fifo.first()
    }

    fn lane(&self, direction: Direction) -> &DirectionQueue {
        &self.lanes[direction as usize]
    }

    fn lane_mut(&mut self, direction: Direction) -> &mut DirectionQueue {
        &mut self.lanes[direction as usize]
    }
}

/// A request that is queued or has a piece in flight. It does not cross a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct SortedRequest {
    entered: Instant,
    /// The sort key: the position.
    key: u64,
    direction: Direction,
    priority: u8,
}

/// The requests of all queues, and the links between them.
#[derive(Debug)]
pub(super) struct MqDeadlineRequests {
    sorted: Leaves,
    fifo: Links,
    items: Vec<SortedRequest>,
}

impl MqDeadlineRequests {
    /// Creates space for this number of requests and of queues.
    pub(super) fn new(requests: u32, queues: usize) -> Self {
        let unused = SortedRequest {
            entered: Instant::ZERO,
            key: 0,
            direction: Direction::Read,
            priority: 0,
        };
        Self {
            sorted: Leaves::new(requests, 2 * queues as u32),
            fifo: Links::new(requests),
            items: vec![unused; requests as usize],
        }
    }

    /// Returns the time at which the request entered the elevator.
    pub(super) fn arrival_time(&self, request: u32) -> Instant {
        self.items[request as usize].entered
    }

    /// Returns the priority of a request that is queued or has a piece in flight.
    pub(super) fn priority(&self, request: u32) -> usize {
        self.items[request as usize].priority.into()
    }

    /// Adds a request (Linux: `deadline_add_rq_rb`, `dd_insert_request`).
    pub(super) fn insert(
        &mut self,
        queue: &mut MqDeadlineQueue,
        now: Instant,
        request: u32,
        priority: u8,
        live: &Live,
    ) {
        let (direction, key) = (Direction::of(live.request.op), position(live));
        self.items[request as usize] = SortedRequest {
            entered: now,
            key,
            direction,
            priority,
        };
        let lane = queue.lane_mut(direction);
        self.sorted.insert(lane.sorted, request, key);
        self.fifo.push_back(&mut lane.fifo, request);
    }

    /// Removes a request that is not dispatched. A batch that was to continue with it continues
    /// with the one behind it (Linux: `deadline_remove_request`).
    pub(super) fn remove(&mut self, queue: &mut MqDeadlineQueue, request: u32) {
        let direction = self.items[request as usize].direction;
        let after = self.take_out(queue, request);
        let lane = queue.lane_mut(direction);
        // The batch continues behind the removed request.
        if lane.next == request {
            lane.next = after;
        }
    }

    /// Removes a request from both orders. Returns the request behind it in the order of position,
    /// or [`NIL`].
    fn take_out(&mut self, queue: &mut MqDeadlineQueue, request: u32) -> u32 {
        let SortedRequest { direction, key, .. } = self.items[request as usize];
        let lane = queue.lane_mut(direction);
        self.fifo.remove(&mut lane.fifo, request);
        let after = self.sorted.remove(lane.sorted, request, key);
        after.unwrap_or(NIL)
    }

    /// Returns a request of this direction that begins at `start`.
    pub(super) fn at(
        &mut self,
        queue: &MqDeadlineQueue,
        direction: Direction,
        start: SeekPosition,
    ) -> Option<u32> {
        let tree = queue.lane(direction).sorted;
        let (found, key) = self.sorted.last_up_to(tree, start.key())?;
        (key == start.key()).then_some(found)
    }

    /// Loads up to `most` requests behind `request` into the processor's cache, in the order of
    /// position.
    pub(super) fn look_behind(
        &mut self,
        queue: &MqDeadlineQueue,
        request: u32,
        most: usize,
        table: &Table,
    ) {
        let SortedRequest { direction, key, .. } = self.items[request as usize];
        let tree = queue.lane(direction).sorted;
        let look = |request: u32| {
            // `black_box` keeps the compiler from removing a load whose value is not used.
            table.prefetch(request);
            core::hint::black_box(self.items[request as usize].key);
        };
        self.sorted.show_next(tree, (request, key), most, look);
    }

    /// Returns the request after or before `request` in the order of position.
    pub(super) fn neighbour(
        &mut self,
        queue: &MqDeadlineQueue,
        request: u32,
        side: Side,
    ) -> Option<u32> {
        let SortedRequest { direction, key, .. } = self.items[request as usize];
        let tree = queue.lane(direction).sorted;
        match side {
            Side::Back => self.sorted.next(tree, request, key),
            Side::Front => self.sorted.prev(tree, request, key),
        }
    }

    /// Updates the position of a request whose beginning has changed. A batch that was to continue
    /// with it still does.
    pub(super) fn update_position(&mut self, queue: &MqDeadlineQueue, request: u32, live: &Live) {
        let item = &mut self.items[request as usize];
        let before = core::mem::replace(&mut item.key, position(live));
        let tree = queue.lane(item.direction).sorted;
        self.sorted.remove(tree, request, before);
        self.sorted.insert(tree, request, item.key);
    }

    /// Passes the age of a request to the request `by` that absorbs it, if the absorbed one is
    /// older.
    pub(super) fn inherit_age(&mut self, queue: &mut MqDeadlineQueue, by: u32, request: u32) {
        let SortedRequest {
            entered, direction, ..
        } = self.items[request as usize];
        debug_assert!(
            direction == self.items[by as usize].direction,
            "a read joins a write"
        );
        // The absorbing request takes over the place of the older one in the order of arrival.
        if entered < self.arrival_time(by) {
            self.items[by as usize].entered = entered;
            let lane = queue.lane_mut(direction);
            self.fifo.remove(&mut lane.fifo, by);
            self.fifo.insert_before(&mut lane.fifo, request, by);
        }
    }

    /// Accounts for a piece that was dispatched. The batch continues with the rest of the request,
    /// which begins right behind the piece. After the last piece, it continues with the next
    /// request by position (Linux: `deadline_move_request`). The other direction continues later
    /// where it stopped.
    pub(super) fn on_dispatch(&mut self, queue: &mut MqDeadlineQueue, request: u32, last: bool) {
        let direction = self.items[request as usize].direction;
        debug_assert!(!queue.is_empty(), "what is sent did not wait");
        let next = if last {
            self.take_out(queue, request)
        } else {
            request
        };
        queue.lane_mut(direction).next = next;
    }
}

/// Returns the sort key of a request: its space, then its sector.
fn position(live: &Live) -> u64 {
    let offset = live.request.offset + u64::from(live.issued);
    let place = SeekPosition {
        space: live.request.space,
        sector: offset / 512,
    };
    place.key()
}
