//! Invariants that hold between calls into the layer. Builds with debug assertions check them after
//! each call, and other builds contain none of this code.

use super::{Config, Layer};
use crate::stream::State;
use crate::table::{Live, Stage};
use crate::{GroupId, Op, QueueId, ROOT};
use alloc::vec;
use alloc::vec::Vec;

/// The average number of slots that the complete check visits for each call. The check visits every
/// slot of every table, so it runs once in a quarter as many calls as there are slots. With this
/// value, the random runs of `weir-verify` take 25 % longer, and other tests hardly any longer.
const SLOTS_A_CALL: u32 = 4;

/// The schedule of the complete check, and its buffer.
#[derive(Debug)]
pub(super) struct CheckSchedule {
    /// The number of calls between two complete checks, and the number until the next one.
    interval: u32,
    calls_left: u32,
    /// Buffer for sums by stream, group or hardware queue, so that a check does not allocate.
    sums: Vec<u64>,
}

impl CheckSchedule {
    pub(super) fn new(config: &Config) -> Self {
        let (sizes, drive) = (&config.sizes, &config.drive);
        let slots = [sizes.requests, sizes.streams, sizes.groups, sizes.spaces];
        let interval = (slots.iter().sum::<u32>() + drive.all_tags()) / SLOTS_A_CALL + 1;
        let rows = sizes.streams.max(sizes.groups).max(drive.queues.into());
        Self {
            interval,
            calls_left: interval,
            sums: vec![0; rows as usize],
        }
    }
}

/// Adds up the parts of each row of `sums`.
fn sum_up(sums: &mut [u64], parts: impl Iterator<Item = (u32, u64)>) {
    sums.fill(0);
    for (row, part) in parts {
        sums[row as usize] += part;
    }
}

impl Layer {
    /// Checks the invariants after a call: the complete set if it is due, and otherwise those that
    /// take constant time.
    pub(super) fn check(&mut self) {
        self.check.calls_left -= 1;
        if self.check.calls_left == 0 {
            self.check.calls_left = self.check.interval;
            self.invariants();
        } else {
            self.check_counts();
        }
    }

    /// Checks all invariants, in time proportional to the sizes of all tables. It exists only in
    /// builds with debug assertions.
    ///
    /// # Panics
    /// Panics if an invariant does not hold.
    pub fn invariants(&mut self) {
        self.check_counts();
        let mut sums = core::mem::take(&mut self.check.sums);
        for (request, live) in self.cx.table.all_live() {
            self.check_request(request, live);
        }
        self.check_stages();
        self.check_stalls();
        self.check_pieces();
        self.check_tags(&mut sums);
        self.check_streams(&mut sums);
        self.check_groups(&mut sums);
        let queued = self.count(|live| live.stage == Stage::Elevator);
        self.elevator.invariants(&self.cx, queued, &mut sums);
        self.check.sums = sums;
    }

    /// Checks the invariants that need no visit to a table.
    fn check_counts(&self) {
        let sizes = &self.config.sizes;
        assert!(
            self.live() <= sizes.requests,
            "more live than there is room"
        );
        assert!(self.finished.len() <= self.live() as usize, "answers");
        assert!(self.shared <= self.shared_max, "shared room");
        let wake = self.chain.wake().map(|wake| wake.at);
        assert!(
            wake.is_none_or(|at| at == self.chain.due()),
            "the chain's time"
        );
        self.plug.invariants();
        // In these cases, a free tag may be left to a stream that does not wait, or be refused by
        // the elevator.
        if self.front.is_empty() || self.limits_tags || self.config.merge.ahead {
            return;
        }
        for queue in (0..self.config.drive.queues).map(QueueId) {
            let idle = self.tags.has(queue) && self.front.first(queue).is_some();
            assert!(
                !idle,
                "a tag of queue {} is free and one waits for it",
                queue.0
            );
        }
    }

    fn count(&self, is_one: impl Fn(&Live) -> bool) -> u32 {
        let all = self.cx.table.all_live();
        all.filter(|(_, live)| is_one(live)).count() as u32
    }

    /// Checks that a request is in one stage, with the resources that belong to that stage.
    fn check_request(&self, request: u32, live: &Live) {
        let table = &self.cx.table;
        let stream = live.request.stream;
        let stream = table.streams.get_named(stream.index, stream.generation);
        let stream = stream.expect("the stream of a live request is there");
        assert_eq!(live.group, stream.spec.group, "request {request}");
        // When a command ends, the length of its leader becomes that of the single request again,
        // which may be less than what was sent.
        let over = live.stage == Stage::Finished;
        let sent = live.issued <= live.request.length;
        assert!(
            over || sent,
            "more was sent of request {request} than it has"
        );
        let in_drive = live.pieces > 0;
        let holds = match live.stage {
            // Controllers are in front of the scheduler tags.
            Stage::Controller(number) => number < self.chain.len() && !live.tagged,
            Stage::Front => stream.state == State::Open && !live.tagged && !in_drive,
            // It keeps its tag while a piece of it is in the drive, but not if the space has
            // stalled.
            Stage::OnHold => {
                let stalls = self.stalls.is_on(live.request.space) || live.stalled > 0;
                let tagged = live.tagged == (in_drive && live.stalled == 0);
                (stream.state == State::Held || stalls) && tagged
            }
            // The plug is emptied at the end of each call.
            Stage::Plug => false,
            // Only the leader holds a tag and has pieces.
            Stage::Merged => {
                let leader = table.merges.leader(request);
                let stage = table.requests[leader].stage;
                leader != request
                    && !matches!(stage, Stage::Merged | Stage::Finished)
                    && !live.tagged
                    && !in_drive
            }
            Stage::Flush => {
                let open = stream.state == State::Open;
                open && live.request.op == Op::Flush && !live.tagged && !in_drive
            }
            Stage::Elevator => {
                let unsent = live.issued < live.request.length;
                stream.state == State::Open && live.tagged && unsent
            }
            // Flushes bypass the elevator, so they have no scheduler tag.
            Stage::Flushing => live.request.op == Op::Flush && !live.tagged && in_drive,
            Stage::Drive => in_drive && live.tagged == (live.stalled == 0),
            Stage::Finished => !in_drive,
        };
        assert!(
            holds,
            "request {request} of {stream:?} is not as it is there: {live:?}"
        );
    }

    /// Checks that the requests in each stage outside of the elevator are in the list of that
    /// stage.
    fn check_stages(&self) {
        let table = &self.cx.table;
        assert_eq!(table.requests.checked_len(), self.live(), "live requests");
        for &request in &self.finished {
            let live = &table.requests[request];
            assert_eq!(live.stage, Stage::Finished, "request {request} is not over");
        }
        let over = self.count(|live| live.stage == Stage::Finished);
        assert_eq!(self.finished.len(), over as usize, "requests that are over");
        let mut waiting = 0;
        for (lane, request) in self.front.checked() {
            let live = &table.requests[request];
            assert_eq!(live.stage, Stage::Front, "request {request} has no tag");
            assert_eq!(self.lane(&live.request), lane, "request {request}");
            waiting += 1;
        }
        let front = self.count(|live| live.stage == Stage::Front);
        assert_eq!(waiting, front, "requests that wait for a tag");
        let flushes = self.count(|live| live.stage == Stage::Flush);
        assert_eq!(self.flushes.invariants(), flushes, "flushes that wait");
        for flush in self.flushes.iter() {
            assert_eq!(table.requests[flush].request.op, Op::Flush);
        }
    }

    /// Checks that the pieces in the drive are those that were sent and have not completed.
    fn check_pieces(&self) {
        let table = &self.cx.table;
        table.pieces.invariants(&table.shape);
        // The piece that was taken ahead counts for its request, but has no tag yet.
        let mut pieces = u32::from(self.ahead.is_some());
        for (tag, piece) in table.pieces.iter() {
            let live = &table.requests[piece.request];
            let sent = piece.within + piece.length <= live.issued;
            assert!(
                live.pieces > 0 && sent,
                "tag {} has {piece:?} of {live:?}",
                tag.0
            );
            assert_eq!(piece.op, live.request.op, "tag {}", tag.0);
            // Flushes are left out, because several of them share one piece.
            pieces += u32::from(piece.op != Op::Flush);
        }
        let live = table.all_live().map(|(_, live)| live);
        let sent = live.filter(|live| live.request.op != Op::Flush);
        assert_eq!(
            pieces,
            sent.map(|live| live.pieces - live.stalled).sum(),
            "pieces in the drive"
        );
        for (queue, tag) in self.busy.checked() {
            let piece = table.pieces.get(tag);
            let piece = piece.or_else(|| table.pieces.get_stalled(tag));
            let piece = piece.expect("what is busy is in the drive");
            assert_eq!(piece.queue, queue, "tag {}", tag.0);
        }
    }

    fn check_tags(&self, sums: &mut [u64]) {
        let table = &self.cx.table;
        let held = table.all_live().filter(|(_, live)| live.tagged);
        // A request that ended has released its tag, although it still has the mark.
        let held = held.filter(|(_, live)| live.stage != Stage::Finished);
        sum_up(
            sums,
            held.map(|(request, _)| (table.queue_of(request).0.into(), 1)),
        );
        self.tags
            .invariants(&sums[..self.config.drive.queues.into()]);
    }

    fn check_streams(&self, sums: &mut [u64]) {
        let table = &self.cx.table;
        let of = |live: &Live| live.request.stream.index;
        sum_up(sums, table.all_live().map(|(_, live)| (of(live), 1)));
        let reserved = self.config.sizes.reserved;
        let (mut shared, mut paused_or_closing) = (0, 0);
        for (index, stream) in table.streams.iter() {
            assert_eq!(
                u64::from(stream.live),
                sums[index as usize],
                "stream {index}"
            );
            // The first `reserved` requests of each stream use its own places.
            shared += stream.live.saturating_sub(reserved);
            let closing = stream.state == State::Closing;
            paused_or_closing += u32::from(stream.paused) + u32::from(closing);
            let open = stream.state == State::Open;
            assert_eq!(
                stream.fast_path,
                open && !stream.fast_path_off,
                "stream {index}"
            );
            let told = stream.paused == stream.told_to_pause;
            assert!(
                told || self.notice_links.contains(index),
                "stream {index} is not told"
            );
        }
        // Called for its assertions only.
        table.streams.checked_len();
        assert_eq!(self.shared, shared, "shared room");
        assert_eq!(self.paused_or_closing, paused_or_closing);
        let listed = self.notice_links.checked(&self.notices);
        for index in listed.chain(self.starved_links.checked(&self.starved)) {
            let name = table.stream_id(index);
            assert_eq!(
                self.find_stream(name),
                Some(index),
                "stream {index} is gone"
            );
        }
        let gate = self.chain.gate();
        let held = table.all_live().map(|(_, live)| live);
        let held = held.filter(|live| matches!(live.stage, Stage::Controller(n) if n < gate));
        sum_up(sums, held.map(|live| (of(live), 1)));
        for (index, stream) in table.streams.iter() {
            assert_eq!(
                u64::from(stream.throttled),
                sums[index as usize],
                "stream {index}"
            );
        }
    }

    fn check_groups(&self, sums: &mut [u64]) {
        let groups = &self.cx.table.groups;
        let streams = self.cx.table.streams.iter();
        sum_up(sums, streams.map(|(_, stream)| (stream.spec.group.0, 1)));
        for (GroupId(id), group) in groups.iter() {
            assert_eq!(
                u64::from(group.streams),
                sums[id as usize],
                "streams of group {id}"
            );
        }
        let below = groups.iter().filter(|&(id, _)| id != ROOT);
        sum_up(sums, below.map(|(_, group)| (group.parent.0, 1)));
        for (GroupId(id), group) in groups.iter() {
            assert_eq!(
                u64::from(group.children),
                sums[id as usize],
                "groups below group {id}"
            );
        }
    }
}
