//! How long the drive takes for a promised client's requests: alone, and behind what others have there.
//!
//! Modelled cost is the time in which the drive is done with it, but a drive that does many things at once delays a request by less,
//! and one that hides work by more: how much, is learned for each reservation from its own requests.

use super::Reservation;
use crate::elevator::contract::constants::{
    AVERAGE_PART, HIDDEN, HIDDEN_ALONE, HIDDEN_JOINED, INTERFERENCE_MAX, INTERFERENCE_MIN,
    INTERFERENCE_TELLS, OWN_FALL, OWN_RISE, OWN_RISE_HIDDEN, PAUSES_PART, REACHABLE_PART,
};
use crate::elevator::contract::unit::Cost;
use crate::{Op, Span};

/// What others have in flight delays a client by as much.
pub(super) const FULL_INTERFERENCE: u64 = 256;

/// What is known of a piece that came back.
#[derive(Clone, Copy)]
pub(crate) struct CompletedPiece<'a> {
    /// What it did.
    pub(crate) op: Op,
    /// How long it was in the drive.
    pub(crate) time: Span,
    /// How long such a piece takes at the least, or what it costs, if that is more: asked for by those that seem late.
    pub(crate) usual: &'a dyn Fn() -> Span,
    /// The modelled cost that others had in the drive when it went there.
    pub(crate) cost_ahead: Cost,
    /// It had the drive to itself all the time.
    pub(crate) alone: bool,
    /// The drive does one thing after the other.
    pub(crate) serial: bool,
    /// Its times vary by themselves.
    pub(crate) varies: bool,
}

impl Reservation {
    /// A piece of it came back. True if it took that much longer than it does alone, with nothing in front of it, that the drive must
    /// have had something else to do.
    pub(super) fn observe_completion(&mut self, drive: CompletedPiece<'_>) -> bool {
        let (time, ahead) = (drive.time, drive.cost_ahead.as_nanos());
        let far = if drive.alone {
            HIDDEN_ALONE
        } else {
            HIDDEN_JOINED
        };
        let late = |usual: Span| time > usual.saturating_mul(far) + HIDDEN;
        let hidden = ahead == 0
            && self.solo_latency > Span::ZERO
            && late(self.solo_latency)
            && late((drive.usual)());
        let beyond = time - self.solo_latency;
        if self.solo_latency == Span::ZERO {
            self.solo_latency = time;
        } else if time < self.solo_latency {
            self.solo_latency = self.solo_latency - (self.solo_latency - time) / OWN_FALL;
        } else if ahead == 0 {
            self.solo_latency +=
                beyond.min(self.solo_latency) / if hidden { OWN_RISE_HIDDEN } else { OWN_RISE };
        }
        if ahead > self.solo_latency.as_nanos() / INTERFERENCE_TELLS {
            let beyond = (time - self.solo_latency).as_nanos();
            let sample = (beyond.saturating_mul(FULL_INTERFERENCE) / ahead).min(INTERFERENCE_MAX);
            let (old, part) = (self.interference, AVERAGE_PART);
            self.interference =
                (old - old / part + sample / part).clamp(INTERFERENCE_MIN, INTERFERENCE_MAX);
        }
        if drive.varies {
            self.slope.add(ahead, time);
        }
        self.judge_reach(drive.serial);
        hidden
    }

    /// Whether an idle drive would keep the promise; if not, whether the client or the drive is the reason.
    fn judge_reach(&mut self, serial: bool) {
        let within = |allowed: Span| self.solo_latency <= allowed + allowed / REACHABLE_PART;
        let in_time = within(self.period - self.arrivals.think());
        self.pauses = !in_time && within(self.period / PAUSES_PART);
        self.reachable = in_time || self.pauses;
        let busy = serial || self.flight.time().saturating_mul(2) >= self.solo_latency;
        self.drive_limited = busy && self.solo_latency > self.period;
    }

    /// The most work of others that delays a request of it by no more than `time`: at least as much as it is on a drive that does one
    /// thing after the other (`serial`).
    pub(super) fn bearable(&self, time: Span, serial: bool) -> Cost {
        let least = if serial { FULL_INTERFERENCE } else { 0 };
        let learned = match self.slope.get() {
            Some(slope) => slope.clamp(INTERFERENCE_MIN, INTERFERENCE_MAX),
            None => self.interference,
        };
        let interference = learned.max(least);
        let most = time
            .as_nanos()
            .saturating_add(1)
            .saturating_mul(FULL_INTERFERENCE)
            - 1;
        let most = Cost::from_nanos(most / interference);
        let delay = |work: Cost| work.as_nanos().saturating_mul(interference) / FULL_INTERFERENCE;
        debug_assert!(
            delay(most) <= time.as_nanos() && delay(most + Cost::from_nanos(1)) > time.as_nanos()
        );
        most
    }
}
