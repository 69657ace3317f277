//! Estimates the part of a min that clients could use on this server, from their recent use.

use weir_core::{Instant, Span};
use weir_serve::PartUsage;
use weir_serve::gateway::{MinimumPart, ONE, StatedMinimum};

/// The shortest interval from which the demand is computed.
const LEAST: Span = Span::from_millis(250);

/// The recent use of the min, and the demand that follows from it.
///
/// The demand rises at once. It falls by at most a quarter at a time, at intervals of at least 250
/// ms. A part that was given up in every pause of a client would have to be acquired again for the
/// next request.
#[derive(Clone, Debug, Default)]
pub(super) struct PartDemand {
    last: Option<(Instant, PartUsage)>,
    part: MinimumPart,
}

impl PartDemand {
    /// Returns the part of the min that the clients could use.
    pub(super) fn part(&self) -> MinimumPart {
        self.part
    }

    /// Updates the demand from the total use so far, of a min that is `whole`.
    ///
    /// A client is owed its min for the time in which it has a request waiting. It could therefore
    /// use the min for that fraction of the time, or the amount that it got if that is more.
    pub(super) fn note(&mut self, now: Instant, used: PartUsage, whole: StatedMinimum) {
        let Some((at, before)) = self.last else {
            self.last = Some((now, used));
            return;
        };
        let passed = now.since(at);
        if passed < LEAST {
            return;
        }
        self.last = Some((now, used));
        let ns = passed.as_nanos();
        // Counters can restart, so that the differences saturate at 0.
        let got = |now: u64, before: u64, whole: u64| match whole {
            0 => 0,
            whole => ratio(
                u128::from(now.saturating_sub(before)) * 1_000_000_000,
                u128::from(whole) * u128::from(ns),
            ),
        };
        let waited = used.waited_ns.saturating_sub(before.waited_ns);
        let found = ratio(waited.into(), ns.into())
            .max(got(used.bytes, before.bytes, whole.bytes))
            .max(got(used.requests, before.requests, whole.requests));
        self.part = found.max(self.part - self.part.div_ceil(4));
    }
}

/// Returns the fraction of two numbers, at most the whole.
fn ratio(some: u128, all: u128) -> MinimumPart {
    let part = some.saturating_mul(ONE.into()) / all.max(1);
    MinimumPart::try_from(part).unwrap_or(ONE).min(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: StatedMinimum = StatedMinimum {
        bytes: 10_000_000,
        requests: 0,
    };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn used(bytes: u64, waited_ms: u64) -> PartUsage {
        PartUsage {
            bytes,
            requests: bytes / 4096,
            waited_ns: waited_ms * 1_000_000,
        }
    }

    #[test]
    fn demand_is_the_waiting_time_or_the_bandwidth() {
        let mut demand = PartDemand::default();
        demand.note(at(0), used(1 << 30, 5_000), WHOLE);
        assert_eq!(demand.part(), 0, "nothing is known yet");
        demand.note(at(100), used(2 << 30, 5_000), WHOLE);
        assert_eq!(demand.part(), 0, "it is too soon");
        demand.note(at(500), used(1 << 30, 5_500), WHOLE);
        assert_eq!(demand.part(), ONE, "it waited all the time");
        let mut demand = PartDemand::default();
        demand.note(at(0), used(0, 0), WHOLE);
        demand.note(at(1_000), used(2_500_000, 125), WHOLE);
        assert_eq!(demand.part(), ONE / 4, "it got a quarter");
        demand.note(at(2_000), used(2_500_000, 625), WHOLE);
        assert_eq!(demand.part(), ONE / 2, "it waited for half of the time");
    }

    #[test]
    fn demand_falls_slowly_to_zero() {
        let mut demand = PartDemand::default();
        demand.note(at(0), used(0, 0), WHOLE);
        demand.note(at(500), used(50_000_000, 500), WHOLE);
        assert_eq!(demand.part(), ONE);
        let mut falls = Vec::new();
        for look in 2..60 {
            demand.note(at(500 * look), used(50_000_000, 500), WHOLE);
            falls.push(demand.part());
        }
        // The demand falls by a quarter each time.
        assert_eq!(falls[..2], [ONE * 3 / 4, ONE * 9 / 16]);
        assert_eq!(falls.last(), Some(&0));
    }

    #[test]
    fn counts_that_restart_are_no_demand() {
        let mut demand = PartDemand::default();
        demand.note(at(0), used(1 << 40, 1 << 30), WHOLE);
        demand.note(at(500), used(0, 0), WHOLE);
        assert_eq!(demand.part(), 0);
    }
}
