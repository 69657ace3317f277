//! Whom to read from: streams are told to pause when they have too much here, and to go on when they may.

use super::{Layer, Output};
use crate::contract::Max;
use crate::mutant;
use crate::stream::Stream;
use crate::time::mul_div_ceil;
use crate::{Request, Span};
use alloc::vec::Vec;

/// A stream whose held-back queue takes longer than this at its max is not read from, so that a throttle never makes a client's
/// own timeout strike; it is again when the queue takes half as long.
const QUEUE_MAX: Span = Span::from_secs(5);

impl Layer {
    /// Counts a request among its stream's held-back ones.
    pub(super) fn came_to_limits(&mut self, request: &Request) {
        let index = request.stream.index;
        let held = &mut self.table.streams[index].limited[usize::from(!request.op.is_read())];
        held.requests += 1;
        held.bytes += u64::from(request.charge());
        self.reconsider_pause(index);
    }

    /// Counts a request out of its stream's held-back ones.
    pub(super) fn left_limits(&mut self, request: &Request) {
        let index = request.stream.index;
        let held = &mut self.table.streams[index].limited[usize::from(!request.op.is_read())];
        held.requests -= 1;
        held.bytes -= u64::from(request.charge());
        self.reconsider_pause(index);
    }

    /// Tells a stream to pause or to go on, when that has changed.
    pub(super) fn reconsider_pause(&mut self, index: u32) {
        let stream = &self.table.streams[index];
        let live = stream.live;
        let most = self.config.limits.per_stream;
        let wanted = if stream.paused {
            live > most / 2 || self.queue_time(stream).times(2) > QUEUE_MAX
        } else {
            live >= most || self.queue_time(stream) > QUEUE_MAX
        };
        if wanted == stream.paused || (!wanted && mutant::is(mutant::RESUME_LOST)) {
            return;
        }
        self.table.streams[index].paused = wanted;
        if wanted {
            self.watched += 1;
        } else {
            self.watched -= 1;
        }
        self.owe_notice(index);
    }

    /// A stream was refused for want of room: it is told when there is some.
    pub(super) fn starve(&mut self, index: u32) {
        if !self.starved_links.contains(index) {
            self.starved_links.push_back(&mut self.starved, index);
        }
    }

    /// A request of the stream in slot `index` is done: there may be room for one more, of that stream or of any.
    pub(super) fn room_came(&mut self, index: u32) {
        let reserved = self.config.limits.reserved;
        if self.shared < self.shared_max {
            self.resume_starved();
        } else if self.starved_links.contains(index) && self.table.streams[index].live < reserved {
            self.starved_links.remove(&mut self.starved, index);
            self.resume(index);
        }
    }

    /// There is room for all: tells the stream that has waited longest for it, or all of them when half of the room is free.
    /// Those who are told may not want it any more, so the last ones must not wait for them to come and go.
    pub(super) fn resume_starved(&mut self) {
        let shared = self.shared_max;
        while self.shared < shared {
            let Some(index) = self.starved_links.pop_front(&mut self.starved) else {
                return;
            };
            self.resume(index);
            if self.shared > shared / 2 {
                return;
            }
        }
    }

    /// Passes on what streams have to be told.
    pub(super) fn notify(&mut self, out: &mut Vec<Output>) {
        while let Some(index) = self.notice_links.pop_front(&mut self.notices) {
            let id = self.table.stream_id(index);
            let stream = &mut self.table.streams[index];
            let owed = core::mem::take(&mut stream.owed_resume);
            let told = core::mem::replace(&mut stream.told_to_pause, stream.paused);
            if stream.paused && !told {
                out.push(Output::Pause(id));
            } else if !stream.paused && (told || owed) {
                out.push(Output::Resume(id));
            }
        }
    }

    /// Drops what a stream that goes was to be told.
    pub(super) fn forget_notices(&mut self, index: u32) {
        if self.notice_links.contains(index) {
            self.notice_links.remove(&mut self.notices, index);
        }
        if self.starved_links.contains(index) {
            self.starved_links.remove(&mut self.starved, index);
        }
    }

    /// Tells a stream that there is room, unless it is to pause anyway.
    fn resume(&mut self, index: u32) {
        if !mutant::is(mutant::RESUME_LOST) {
            self.table.streams[index].owed_resume = true;
            self.owe_notice(index);
        }
    }

    fn owe_notice(&mut self, index: u32) {
        if !self.notice_links.contains(index) {
            self.notice_links.push_back(&mut self.notices, index);
        }
    }

    /// How long the stream's held-back requests take at the max of each group above it if all streams of its group are alike.
    fn queue_time(&self, stream: &Stream) -> Span {
        let [reads, writes] = stream.limited;
        if reads.requests + writes.requests == 0 {
            return Span::ZERO;
        }
        let groups = &self.table.groups;
        let alike = groups
            .get(stream.spec.group)
            .map_or(1, |g| u64::from(g.streams.max(1)));
        let time = |amount: u64, rate: u64| match rate {
            0 => 0,
            rate => mul_div_ceil(amount.saturating_mul(alike), 1_000_000_000, rate),
        };
        let longest = |max: &Max| {
            [
                time(reads.bytes, max.read_bandwidth),
                time(writes.bytes, max.write_bandwidth),
                time(reads.bytes + writes.bytes, max.bandwidth),
                time(reads.requests.into(), max.read_iops),
                time(writes.requests.into(), max.write_iops),
                time(
                    u64::from(reads.requests) + u64::from(writes.requests),
                    max.iops,
                ),
            ]
            .into_iter()
            .fold(0, u64::max)
        };
        let above = groups
            .path(stream.spec.group)
            .filter_map(|id| groups.get(id));
        Span::from_nanos(above.map(|g| longest(&g.contract.max)).fold(0, u64::max))
    }
}
