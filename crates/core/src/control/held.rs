//! The requests that each stream has at the limits of a max, and the time that they will take to
//! pass.

use crate::contract::Max;
use crate::event::Event;
use crate::request::Request;
use crate::table::{Live, Table};
use crate::time::{Span, mul_div_ceil};
use alloc::vec;
use alloc::vec::Vec;

/// The requests of one stream and direction that are held.
#[derive(Clone, Copy, Debug, Default)]
struct HeldRequests {
    requests: u32,
    bytes: u64,
}

impl HeldRequests {
    /// Returns the number of operations that a max counts at least, if every `size` bytes count as
    /// one. Zero means that every request counts as one.
    fn operations(self, size: u64) -> u64 {
        u64::from(self.requests).max(self.bytes.checked_div(size).unwrap_or(0))
    }
}

/// The held requests of each stream, by direction.
#[derive(Debug)]
pub(super) struct HeldStreams {
    held: Vec<[HeldRequests; 2]>,
}

impl HeldStreams {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            held: vec![<[HeldRequests; 2]>::default(); table.streams.capacity() as usize],
        }
    }

    /// Counts a request that is held from now on, as `requests` operations.
    pub(super) fn count(&mut self, request: &Request, requests: u32) {
        let held = self.of(request);
        held.requests += requests;
        held.bytes += request.charge();
    }

    /// Stops counting a request that is no longer held.
    pub(super) fn count_out(&mut self, request: &Request, requests: u32) {
        let held = self.of(request);
        debug_assert!(held.requests >= requests && held.bytes >= request.charge());
        held.requests -= requests;
        held.bytes -= request.charge();
    }

    /// Returns the time that the held requests of a stream will take to pass, at the max of each
    /// group above it.
    ///
    /// All streams of a group are assumed to be alike. `size` returns the number of bytes of a long
    /// request that count as one operation. Zero means that every request counts as it was counted.
    pub(super) fn backlog(&self, table: &Table, stream: u32, size: impl Fn(&Max) -> u64) -> Span {
        let held = self.held[stream as usize];
        let [reads, writes] = held;
        if held
            .iter()
            .all(|held| held.requests == 0 && held.bytes == 0)
        {
            return Span::ZERO;
        }
        let (groups, group) = (&table.groups, table.streams[stream].spec.group);
        // The streams of a group share its limit, so each gets one of `alike` parts of it.
        let alike = groups.get(group).map_or(1, |g| u64::from(g.streams.max(1)));
        let time = |amount: u64, rate: u64| match rate {
            0 => 0,
            rate => mul_div_ceil(amount.saturating_mul(alike), 1_000_000_000, rate),
        };
        let longest = |max: &Max| {
            let [read, written] = held.map(|held| held.operations(size(max)));
            [
                time(reads.bytes, max.read_bandwidth),
                time(writes.bytes, max.write_bandwidth),
                time(reads.bytes + writes.bytes, max.bandwidth),
                time(read, max.read_iops),
                time(written, max.write_iops),
                time(read + written, max.iops),
            ]
            .into_iter()
            .fold(0, u64::max)
        };
        let above = groups.path(group).filter_map(|id| groups.get(id));
        Span::from_nanos(above.map(|g| longest(&g.contract.max)).fold(0, u64::max))
    }

    /// Returns the account of a request's stream and direction.
    fn of(&mut self, request: &Request) -> &mut HeldRequests {
        let direction = usize::from(!request.op.is_read());
        &mut self.held[request.stream.index as usize][direction]
    }
}

/// Returns the event for a request that has been charged to every limit above it.
pub(super) fn release_event(live: &Live) -> Event {
    Event::Released {
        stream: live.request.stream,
        cookie: live.request.cookie,
        group: live.group,
        op: live.request.op,
        bytes: live.request.charge(),
    }
}
