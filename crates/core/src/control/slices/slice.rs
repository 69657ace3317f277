//! The account of a slice: the requests that a group passed in one direction in a period, compared
//! with its rate (Linux: `tg_may_dispatch`, `throtl_trim_slice`).
//!
//! Time is counted in ticks. The permitted amount is rounded up to whole slices, so requests leave
//! in bursts.

use crate::request::Request;
use crate::shape::DriveShape;
use crate::table::piece_max;
use crate::time::mul_div_floor;

/// A rate per second. [`u64::MAX`] means no limit. In a low limit, zero means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::control) struct SliceRate {
    pub(in crate::control) bytes: u64,
    pub(in crate::control) requests: u64,
}

impl SliceRate {
    /// The absence of a low limit.
    pub(in crate::control) const NONE: Self = Self {
        bytes: 0,
        requests: 0,
    };
    pub(in crate::control) const UNLIMITED: Self = Self {
        bytes: u64::MAX,
        requests: u64::MAX,
    };
}

/// The amount that a request is counted as. Linux splits a request that is too long for the drive
/// before the limit, so each part counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::control) struct Amount {
    pub(in crate::control) bytes: u64,
    /// The number of commands of the largest size that the drive accepts, at least one.
    pub(in crate::control) requests: u32,
}

impl Amount {
    pub(in crate::control) fn of(request: &Request, shape: &DriveShape) -> Self {
        let longest = piece_max(request.op, shape.max_transfer);
        Self {
            bytes: request.charge(),
            requests: request.length.div_ceil(longest).max(1),
        }
    }
}

/// The number of ticks in a second and in a slice.
#[derive(Clone, Copy, Debug)]
pub(in crate::control) struct SliceClock {
    pub(in crate::control) hz: u64,
    pub(in crate::control) slice: u64,
}

impl SliceClock {
    fn round_up(self, ticks: u64) -> u64 {
        ticks.next_multiple_of(self.slice)
    }
}

/// The account of one slice in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::control) struct Slice {
    pub(in crate::control) start: u64,
    end: u64,
    bytes: u64,
    requests: u64,
}

impl Slice {
    /// Begins a new slice now, with an empty account.
    pub(in crate::control) fn begin(&mut self, clock: SliceClock, now: u64) {
        *self = Self {
            start: now,
            end: now + clock.slice,
            bytes: 0,
            requests: 0,
        };
    }

    /// Begins the slice of a parent together with that of the child whose request is passed up, so
    /// that the amount permitted there is permitted here.
    pub(in crate::control) fn begin_with_credit(
        &mut self,
        clock: SliceClock,
        now: u64,
        childs: u64,
    ) {
        // The start of the parent's last slice is the limit, because time before it was counted
        // already.
        let start = self.start.max(childs);
        self.begin(clock, now);
        self.start = start;
    }

    pub(in crate::control) fn is_over(&self, now: u64) -> bool {
        !(self.start..=self.end).contains(&now)
    }

    /// Returns the number of ticks for which a request waits, or zero if it may pass. `queued`
    /// means that requests wait already. This request may be the first of them.
    pub(in crate::control) fn wait(
        &mut self,
        clock: SliceClock,
        now: u64,
        rate: SliceRate,
        amount: Amount,
        queued: bool,
    ) -> u64 {
        if rate == SliceRate::UNLIMITED {
            return 0;
        }
        // While others wait, the slice belongs to them and must continue, or their waiting time
        // would be lost.
        if self.is_over(now) && !queued {
            self.begin(clock, now);
        } else {
            self.extend(clock, now + clock.slice);
        }
        let wait = self
            .wait_for_bytes(clock, now, rate.bytes, amount.bytes)
            .max(self.wait_for_requests(clock, now, rate.requests, amount.requests));
        if wait > 0 {
            self.extend(clock, now.saturating_add(wait));
        }
        wait
    }

    fn extend(&mut self, clock: SliceClock, to: u64) {
        if self.end < to {
            // Rounding up a number near the maximum would overflow.
            self.end = clock.round_up(to.min(u64::MAX / 2));
        }
    }

    fn wait_for_bytes(&self, clock: SliceClock, now: u64, rate: u64, bytes: u64) -> u64 {
        if rate == u64::MAX {
            return 0;
        }
        let elapsed = now - self.start;
        // At the first tick of a slice, the bytes of a whole slice may pass already.
        let rounded = clock.round_up(elapsed.max(1));
        let allowed = mul_div_floor(rate, rounded, clock.hz);
        let wanted = self.bytes.saturating_add(bytes);
        if wanted <= allowed {
            return 0;
        }
        // The excess bytes take this number of ticks at the rate, after the present slice.
        let extra = mul_div_floor(wanted - allowed, clock.hz, rate).max(1);
        extra.saturating_add(rounded - elapsed)
    }

    fn wait_for_requests(&self, clock: SliceClock, now: u64, rate: u64, requests: u32) -> u64 {
        if rate == u64::MAX {
            return 0;
        }
        let elapsed = now - self.start;
        // At the end of a slice, the requests of the next one may pass already.
        let rounded = clock.round_up(elapsed + 1);
        let allowed = mul_div_floor(rate, rounded, clock.hz);
        if self.requests.saturating_add(requests.into()) <= allowed {
            0
        } else {
            // Requests are not divided, so the wait ends with the slice, and the limit is checked
            // again then.
            rounded - elapsed
        }
    }

    /// A request goes.
    pub(in crate::control) fn charge(&mut self, amount: Amount) {
        self.bytes = self.bytes.saturating_add(amount.bytes);
        self.requests += u64::from(amount.requests);
    }

    /// Takes whole slices that have passed out of the account.
    pub(in crate::control) fn trim(&mut self, clock: SliceClock, now: u64, rate: SliceRate) {
        if self.is_over(now) {
            return;
        }
        // The slice continues for as long as requests pass.
        self.end = clock.round_up(now + clock.slice);
        let passed = (now - self.start) / clock.slice * clock.slice;
        if passed == 0 {
            return;
        }
        let bytes = mul_div_floor(rate.bytes, passed, clock.hz);
        let requests = mul_div_floor(rate.requests, passed, clock.hz);
        // At a very low rate, the elapsed slices allow less than one unit. They stay in the
        // account, so that their parts accumulate.
        if bytes == 0 && requests == 0 {
            return;
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.requests = self.requests.saturating_sub(requests);
        self.start += passed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 250 ticks a second, slices of 20 ms.
    const CLOCK: SliceClock = SliceClock { hz: 250, slice: 5 };

    fn amount(bytes: u64, requests: u32) -> Amount {
        Amount { bytes, requests }
    }

    #[test]
    fn a_slice_that_has_just_begun_is_not_extended() {
        let rate = SliceRate {
            bytes: 1_000_000,
            requests: u64::MAX,
        };
        let mut slice = Slice::default();
        slice.begin(CLOCK, 103);
        assert_eq!(slice.wait(CLOCK, 103, rate, amount(1, 1), false), 0);
        assert!(!slice.is_over(108) && slice.is_over(109));
        // A tick later it is, to the end of a whole one.
        assert_eq!(slice.wait(CLOCK, 104, rate, amount(1, 1), false), 0);
        assert!(!slice.is_over(110) && slice.is_over(111));
    }

    #[test]
    fn requests_leave_in_bursts_of_a_slice() {
        let rate = SliceRate {
            bytes: u64::MAX,
            requests: 1_000,
        };
        let mut slice = Slice::default();
        let mut gone = std::vec::Vec::new();
        let mut now = 100;
        while now < 100 + 10 * CLOCK.slice {
            // Somebody always waits behind the first.
            let wait = slice.wait(CLOCK, now, rate, amount(4096, 1), now > 100);
            if wait == 0 {
                slice.charge(amount(4096, 1));
                slice.trim(CLOCK, now, rate);
                gone.push(now - 100);
            }
            now += wait;
        }
        assert_eq!(gone.len(), 200);
        let bursts = gone
            .chunk_by(|a, b| a == b)
            .map(|burst| (burst[0], burst.len()));
        assert!(bursts.eq((0..10).map(|slice| (slice * 5, 20))), "{gone:?}");
    }

    #[test]
    fn a_request_larger_than_its_slice_waits_for_the_remaining_bytes() {
        let rate = SliceRate {
            bytes: 1 << 20,
            requests: u64::MAX,
        };
        let mut slice = Slice::default();
        // 20 ms at 1 MiB/s allow 20,971 bytes. The other 44,565 take 10.6 ticks more.
        assert_eq!(
            slice.wait(CLOCK, 100, rate, amount(1 << 16, 1), false),
            10 + 5
        );
        assert!(!slice.is_over(115), "it lasts as long as the wait");
        assert_eq!(slice.wait(CLOCK, 115, rate, amount(1 << 16, 1), true), 1);
        assert_eq!(slice.wait(CLOCK, 116, rate, amount(1 << 16, 1), true), 0);
    }

    #[test]
    fn a_request_after_the_end_of_a_slice_begins_a_new_one() {
        let rate = SliceRate {
            bytes: u64::MAX,
            requests: 50,
        };
        let mut slice = Slice::default();
        assert_eq!(slice.wait(CLOCK, 100, rate, amount(1, 1), false), 0);
        slice.charge(amount(1, 1));
        assert_eq!(slice.wait(CLOCK, 100, rate, amount(1, 1), true), 5);
        assert!(!slice.is_over(105) && slice.is_over(111));
        assert_eq!(slice.wait(CLOCK, 1_000, rate, amount(1, 1), false), 0);
        assert_eq!((slice.start, slice.requests), (1_000, 0));
    }

    #[test]
    fn a_request_of_several_commands_waits_until_all_of_them_may_go() {
        let rate = SliceRate {
            bytes: u64::MAX,
            requests: 100,
        };
        let mut slice = Slice::default();
        // Two commands may go in a slice.
        let mut now = 100;
        loop {
            match slice.wait(CLOCK, now, rate, amount(1, 8), now > 100) {
                0 => break,
                wait => now += wait,
            }
        }
        assert_eq!(now, 100 + 3 * CLOCK.slice);
        slice.charge(amount(1, 8));
        assert!(slice.wait(CLOCK, now, rate, amount(1, 1), false) > 0);
    }
}
