//! What a client asked and got, second by second.

use crate::{SECOND_NS, Waits, Window};

/// What a client asked and got in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Bytes served and requests answered without error.
    pub done: Window,
    /// Bytes and requests that failed.
    pub failed: Window,
    /// What all others were served on the same drive.
    pub others: Window,
    /// Nanoseconds in which a request waited.
    pub waited_ns: u64,
    /// Nanoseconds in which nothing waited but for clients that do not read their answers.
    pub suspended_ns: u64,
    /// Nanoseconds of all requests together in which they waited.
    pub place_ns: u64,
    /// Of these: held by a limit, in the elevator, in the drive; of requests that were answered.
    pub parts: Waits,
    /// Requests that waited at the end.
    pub live: u32,
    /// Of these, held by a limit, where that is known.
    pub limited: u32,
    /// Bytes of the longest part that was served at once, in this second or before.
    pub longest: u64,
}

/// Turns what happens into seconds. Times do not go back; one that does is taken for the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// When the second under way began.
    begin_ns: u64,
    /// Up to here all is accounted for.
    now_ns: u64,
    /// Requests that wait.
    live: u32,
    /// Requests of clients that do not read their answers.
    held: u32,
    /// These clients.
    suspended: u32,
    second: Second,
}

impl Watch {
    /// Seconds begin at `start_ns`; what happens before belongs to none.
    pub fn new(start_ns: u64) -> Self {
        Self {
            begin_ns: start_ns,
            now_ns: start_ns,
            live: 0,
            held: 0,
            suspended: 0,
            second: Second::default(),
        }
    }

    /// The first second is the one that `now_ns` is in.
    pub(super) fn begin(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(self.begin_ns);
        self.begin_ns += since / SECOND_NS * SECOND_NS;
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// When the second under way ends.
    #[inline]
    pub fn ends(&self) -> u64 {
        self.begin_ns.saturating_add(SECOND_NS)
    }

    /// Ends the second under way, at its end.
    pub fn end(&mut self) -> Second {
        let ends = self.ends();
        self.advance(ends);
        self.begin_ns = ends;
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

    /// Time passes up to `now_ns`, which is in the second under way.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed;
        if self.live > 0 {
            self.second.waited_ns += passed;
            self.second.place_ns += passed.saturating_mul(self.live.into());
        } else if self.held > 0 || self.suspended > 0 {
            self.second.suspended_ns += passed;
        }
    }

    /// Requests that wait, held ones among them.
    pub fn live(&self) -> u32 {
        self.live + self.held
    }

    /// Time waited in the second under way.
    pub(super) fn waited_ns(&self) -> u64 {
        self.second.waited_ns
    }

    /// Requests wait, and none was answered in the second under way.
    pub(super) fn is_still(&self) -> bool {
        self.live > 0 && self.second.done.requests == 0
    }

    /// A request begins to wait; `held` if its client does not read its answers. Here and below, time has passed up to now.
    #[inline]
    pub fn sent(&mut self, held: bool) {
        if held {
            self.held += 1;
        } else {
            self.live += 1;
        }
    }

    /// A request that was sent is over.
    #[inline]
    pub fn over(&mut self, held: bool) {
        let count = if held { &mut self.held } else { &mut self.live };
        *count = count.saturating_sub(1);
    }

    /// So many bytes were served.
    #[inline]
    pub fn served(&mut self, bytes: u64) {
        self.second.done.bytes += bytes;
        self.second.longest = self.second.longest.max(bytes);
    }

    /// A request was answered without error after these waits, the last of which ends now.
    #[inline]
    pub fn answered(&mut self, waits: Waits) {
        self.second.done.requests += 1;
        self.waited(waits);
    }

    /// The waits of a request, the last of which ends now, as far as they lie in the second under way.
    #[inline]
    pub fn waited(&mut self, waits: Waits) {
        let parts = waits.last(self.now_ns - self.begin_ns.min(self.now_ns));
        self.second.parts.add(parts);
    }

    /// A request of so many bytes failed.
    pub fn failed(&mut self, bytes: u64) {
        self.second.failed.bytes += bytes;
        self.second.failed.requests += 1;
    }

    /// A client does not read its answers, or does so again (or is gone): so many requests are held for it, or no longer.
    pub fn suspend(&mut self, requests: u32, held: bool) {
        let (from, to) = if held {
            (&mut self.live, &mut self.held)
        } else {
            (&mut self.held, &mut self.live)
        };
        let moved = requests.min(*from);
        *from -= moved;
        *to += moved;
        self.suspended = if held {
            self.suspended + 1
        } else {
            self.suspended.saturating_sub(1)
        };
    }
}
