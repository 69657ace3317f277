//! What a client requested and was served, second by second.

use super::{Blame, Standing};
use crate::{SECOND_NS, Window};
use weir_core::{Span, Waits};

/// What a storage that another machine has did in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pool {
    /// What is stated of it; or it is of this machine, which is judged by itself.
    #[default]
    Fit,
    /// Less than is stated of it, though it always had something to do.
    Slow,
    /// It was away for some time.
    Away,
}

/// What the thread of a server that serves a client did in a second, where that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTime {
    /// Nanoseconds in which it worked on the requests of other clients.
    pub others_ns: u64,
    /// Nanoseconds in which it was ready to run and had no processor.
    pub stalled_ns: u64,
}

/// What a client requested and was served in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Bytes served, and requests completed without error.
    pub done: Window,
    /// Bytes and requests that failed.
    pub failed: Window,
    /// What all other clients were served on the same drive.
    pub others: Window,
    /// Nanoseconds in which at least one request waited.
    pub waited_ns: u64,
    /// Nanoseconds in which requests waited only because their clients did not read their replies.
    pub suspended_ns: u64,
    /// The waiting time of all requests together, in nanoseconds.
    pub occupancy_ns: u64,
    /// Of these, for completed requests: throttled, in the elevator, in the drive.
    pub parts: Waits,
    /// Requests outstanding at the end.
    pub live: u32,
    /// Of these, throttled ones, if that is known.
    pub limited: u32,
    /// Bytes of the longest part asked for or served at once, in this second or before.
    pub longest: u64,
    /// Nanoseconds in which the client, or the server, was ready to run and had no processor, if that is known.
    pub host_ns: u64,
    /// What the storage did, if another machine has it.
    pub pool: Pool,
    /// What the thread did that serves the client.
    pub server: ServerTime,
    /// What its requests waited for, if that is known.
    pub standing: Option<Standing>,
    /// What kept it from more, if the server has said so to a client that judges.
    pub told: Option<Blame>,
}

/// Turns events into seconds. A time before the last one counts as the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Start of the current second.
    begin_ns: u64,
    /// Time up to which everything is accounted for.
    now_ns: u64,
    /// Requests outstanding.
    live: u32,
    /// Requests on hold because their clients do not read their replies.
    held: u32,
    /// Number of these clients.
    suspended: u32,
    /// Nanoseconds waited in all seconds before.
    waited_before_ns: u64,
    /// Since when no request has been outstanding, if none is.
    idle_since_ns: u64,
    second: Second,
}

impl Watch {
    /// Seconds begin at `start_ns`; events before that belong to none.
    pub fn new(start_ns: u64) -> Self {
        Self {
            begin_ns: start_ns,
            now_ns: start_ns,
            idle_since_ns: start_ns,
            ..Self::default()
        }
    }

    /// Begins with the second that contains `now_ns`.
    pub(super) fn begin(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(self.begin_ns);
        self.begin_ns += since / SECOND_NS * SECOND_NS;
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// End of the current second.
    #[inline]
    pub fn ends(&self) -> u64 {
        self.begin_ns.saturating_add(SECOND_NS)
    }

    /// Ends the current second at its end.
    pub fn end(&mut self) -> Second {
        let ends = self.ends();
        self.advance(ends);
        self.begin_ns = ends;
        self.waited_before_ns += self.second.waited_ns;
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

    /// Advances the time to `now_ns`, which is in the current second.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed;
        if self.live > 0 {
            self.second.waited_ns += passed;
            self.second.occupancy_ns += passed.saturating_mul(self.live.into());
        } else if self.held > 0 || self.suspended > 0 {
            self.second.suspended_ns += passed;
        }
    }

    /// Requests outstanding, including those on hold.
    pub fn live(&self) -> u32 {
        self.live + self.held
    }

    /// Time waited in the current second.
    pub(super) fn waited_ns(&self) -> u64 {
        self.second.waited_ns
    }

    /// Time waited in all seconds.
    pub(super) fn all_waited_ns(&self) -> u64 {
        self.waited_before_ns + self.second.waited_ns
    }

    /// Requests are outstanding, and none completed in the current second.
    pub(super) fn is_still(&self) -> bool {
        self.live > 0 && self.second.done.requests == 0
    }

    /// A request begins to wait; `held` if its client does not read its replies. Here and below, time has passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        if held {
            self.held += 1;
        } else {
            self.live += 1;
        }
    }

    /// A request of which nothing was known until now has been waiting since `since_ns`: the time since then counts as waited, as far as
    /// it belongs to the current second and no other request was outstanding.
    pub(super) fn waits_since(&mut self, since_ns: u64) {
        if self.live > 0 {
            return;
        }
        let since = since_ns.max(self.idle_since_ns).max(self.begin_ns);
        let waited = self.now_ns.saturating_sub(since);
        self.second.waited_ns += waited;
        self.second.occupancy_ns += waited;
        self.idle_since_ns = self.now_ns;
    }

    /// The request that is [sent](Self::sent) is for `bytes`: by as much may a client be behind while it is under way.
    #[inline]
    pub fn asks(&mut self, bytes: u64) {
        self.second.longest = self.second.longest.max(bytes);
    }

    /// A request that was sent ended.
    #[inline]
    pub fn over(&mut self, held: bool) {
        let count = if held { &mut self.held } else { &mut self.live };
        *count = count.saturating_sub(1);
        self.note_idle();
    }

    /// Remembers since when no request has been outstanding.
    #[inline]
    fn note_idle(&mut self) {
        if self.live == 0 {
            self.idle_since_ns = self.now_ns;
        }
    }

    /// `bytes` were served.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.second.done.bytes += bytes;
        self.second.longest = self.second.longest.max(bytes);
    }

    /// `n` requests of `bytes` each were served and completed in the current second, without waits.
    pub(crate) fn completed(&mut self, bytes: u64, n: u64) {
        self.second.done.bytes += bytes * n;
        self.second.done.requests += n;
        self.second.longest = self.second.longest.max(bytes);
    }

    /// A request completed without error after these waits, the last of which ends now.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.second.done.requests += 1;
        self.waited(waits);
    }

    /// Adds the part of a request's waits, the last of which ends now, that lies in the current second.
    #[inline]
    pub fn waited(&mut self, waits: Waits) {
        let lasted = self.now_ns - self.begin_ns.min(self.now_ns);
        self.second.parts += waits.last(Span::from_nanos(lasted));
    }

    /// A request of `bytes` failed.
    pub fn failed(&mut self, bytes: u64) {
        self.second.failed.bytes += bytes;
        self.second.failed.requests += 1;
    }

    /// A client stops or resumes reading its replies (or has gone): `requests` of it are put on hold or released.
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
        self.suspended = if held {
            self.suspended + 1
        } else {
            self.suspended.saturating_sub(1)
        };
    }
}
