//! The requests and the service of a client, second by second.

use super::{Blame, SecondWaits};
use crate::{SECOND_NS, WindowTotals};
use weir_core::{Span, Waits};

/// The state of a storage on another machine, in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RemoteStorage {
    /// The storage reached its stated capacity, or it is part of this machine, which is judged
    /// separately.
    #[default]
    Fit,
    /// The storage was slower than its stated capacity although it always had work.
    Slow,
    /// The storage was not reachable for some time.
    Away,
}

/// The time of the server's thread that serves a client, in one second, if it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTime {
    /// The nanoseconds in which the thread worked on requests of other clients.
    pub others_ns: u64,
    /// The nanoseconds in which the thread was ready to run but had no CPU.
    pub stalled_ns: u64,
}

/// The requests and the service of a client in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// The bytes served, and the requests that completed without an error.
    pub done: WindowTotals,
    /// The bytes and requests that failed.
    pub failed: WindowTotals,
    /// The amount that all other clients of the same drive were served.
    pub others: WindowTotals,
    /// The nanoseconds in which at least one request waited.
    pub waited_ns: u64,
    /// The nanoseconds in which no request waited and at least one client did not read its replies.
    pub suspended_ns: u64,
    /// The sum of the waiting times of all requests, in nanoseconds.
    pub occupancy_ns: u64,
    /// The waits of completed requests within this time: throttled, in the elevator, in the drive.
    pub parts: Waits,
    /// The number of requests outstanding at the end.
    pub live: u32,
    /// The number of these requests that are throttled, if it is known.
    pub limited: u32,
    /// The bytes of the longest part that was requested or served at once, in this second or
    /// before.
    pub longest: u64,
    /// The nanoseconds in which the client or the server was ready to run but had no CPU, if it is
    /// known.
    pub host_ns: u64,
    /// The state of the storage, if it is on another machine.
    pub pool: RemoteStorage,
    /// The time of the thread that serves the client.
    pub server: ServerTime,
    /// The waits of the client's requests, if they are known.
    pub standing: Option<SecondWaits>,
    /// The cause that the server has reported, if a client judges and the server reports causes.
    pub reported_cause: Option<Blame>,
}

/// Turns events into seconds. A time before that of the last event counts as the time of the last
/// event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecondWatch {
    /// The start of the current second.
    begin_ns: u64,
    /// The time up to which everything is accounted for.
    now_ns: u64,
    /// The number of outstanding requests.
    live: u32,
    /// The number of requests on hold because their clients do not read their replies.
    held: u32,
    /// The number of clients that do not read their replies.
    suspended: u32,
    /// The nanoseconds waited in all previous seconds.
    waited_before_ns: u64,
    /// The time since which no request has been outstanding, if none is.
    idle_since_ns: u64,
    second: Second,
}

impl SecondWatch {
    /// Creates a watch whose seconds begin at `start_ns`. Earlier events belong to no second.
    pub fn new(start_ns: u64) -> Self {
        Self {
            begin_ns: start_ns,
            now_ns: start_ns,
            idle_since_ns: start_ns,
            ..Self::default()
        }
    }

    /// Starts with the second that contains `now_ns`.
    pub(super) fn begin(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(self.begin_ns);
        self.begin_ns += since / SECOND_NS * SECOND_NS;
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Returns the end of the current second.
    #[inline]
    pub fn ends(&self) -> u64 {
        self.begin_ns.saturating_add(SECOND_NS)
    }

    /// Ends the current second at its end, and returns it.
    pub fn end(&mut self) -> Second {
        let ends = self.ends();
        self.advance(ends);
        self.begin_ns = ends;
        self.waited_before_ns += self.second.waited_ns;
        // The longest request of previous seconds may be the one that is in flight at the end of
        // the next.
        let longest = self.second.longest;
        let rest = Second {
            longest,
            ..Second::default()
        };
        let second = std::mem::replace(&mut self.second, rest);
        Second {
            live: self.live,
            ..second
        }
    }

    /// Advances the time to `now_ns`, which must be in the current second.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed;
        // Requests on hold do not count as waiting, because their client delays them itself.
        if self.live > 0 {
            self.second.waited_ns += passed;
            self.second.occupancy_ns += passed.saturating_mul(self.live.into());
        } else if self.held > 0 || self.suspended > 0 {
            self.second.suspended_ns += passed;
        }
    }

    /// Returns the number of outstanding requests, including those on hold.
    pub fn live(&self) -> u32 {
        self.live + self.held
    }

    /// Returns the time waited in the current second.
    pub(super) fn waited_ns(&self) -> u64 {
        self.second.waited_ns
    }

    /// Returns the time waited in all seconds.
    pub(super) fn all_waited_ns(&self) -> u64 {
        self.waited_before_ns + self.second.waited_ns
    }

    /// Returns true if requests are outstanding but none completed in the current second.
    pub(super) fn is_still(&self) -> bool {
        self.live > 0 && self.second.done.requests == 0
    }

    /// Records that a request begins to wait. `held` is true if its client does not read its
    /// replies. For this and the following methods, time must have passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        if held {
            self.held += 1;
        } else {
            self.live += 1;
        }
    }

    /// Records that a request that was unknown until now has been waiting since `since_ns`. The
    /// time since then counts as waited, as far as it belongs to the current second and no other
    /// request was outstanding.
    pub(super) fn waits_since(&mut self, since_ns: u64) {
        if self.live > 0 {
            return;
        }
        // Time before the last request ended is counted already, and time before this second
        // belongs to another one.
        let since = since_ns.max(self.idle_since_ns).max(self.begin_ns);
        let waited = self.now_ns.saturating_sub(since);
        self.second.waited_ns += waited;
        self.second.occupancy_ns += waited;
        // A second request that is found at the same time must not count the same time again.
        self.idle_since_ns = self.now_ns;
    }

    /// Records that the request that is [sent](Self::sent) is for `bytes`. The client may be behind
    /// by as much while the request is in flight.
    #[inline]
    pub fn note_request_bytes(&mut self, bytes: u64) {
        self.second.longest = self.second.longest.max(bytes);
    }

    /// Records that a request that was sent ended.
    #[inline]
    pub fn end_request(&mut self, held: bool) {
        let count = if held { &mut self.held } else { &mut self.live };
        *count = count.saturating_sub(1);
        self.note_idle();
    }

    /// Remembers the time since which no request has been outstanding.
    #[inline]
    fn note_idle(&mut self) {
        if self.live == 0 {
            self.idle_since_ns = self.now_ns;
        }
    }

    /// Records that `bytes` were served.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.second.done.bytes += bytes;
        self.second.longest = self.second.longest.max(bytes);
    }

    /// Records that `n` requests of `bytes` each were served and completed in the current second,
    /// without waits.
    pub(crate) fn completed(&mut self, bytes: u64, n: u64) {
        self.second.done.bytes += bytes * n;
        self.second.done.requests += n;
        self.second.longest = self.second.longest.max(bytes);
    }

    /// Records that a request completed without an error after these waits, the last of which ends
    /// now.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.second.done.requests += 1;
        self.waited(waits);
    }

    /// Adds the part of a request's waits that lies in the current second. The last wait ends now.
    #[inline]
    pub fn waited(&mut self, waits: Waits) {
        // Before the start, no part of the waits lies in a second.
        let lasted = self.now_ns - self.begin_ns.min(self.now_ns);
        self.second.parts += waits.last(Span::from_nanos(lasted));
    }

    /// Records that a request of `bytes` failed.
    pub fn failed(&mut self, bytes: u64) {
        self.second.failed.bytes += bytes;
        self.second.failed.requests += 1;
    }

    /// Records that a client stops or resumes reading its replies, or has disconnected. `requests`
    /// of it are put on hold or released.
    pub fn suspend(&mut self, requests: u32, held: bool) {
        let (from, to) = if held {
            (&mut self.live, &mut self.held)
        } else {
            (&mut self.held, &mut self.live)
        };
        let moved = requests.min(*from);
        *from -= moved;
        *to += moved;
        self.note_idle();
        // A suspended client may have no outstanding request left, so clients are counted as well.
        self.suspended = if held {
            self.suspended + 1
        } else {
            self.suspended.saturating_sub(1)
        };
    }
}
