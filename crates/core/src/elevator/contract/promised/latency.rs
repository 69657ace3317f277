//! How long the drive takes for a promised client's requests: alone, and behind what others have there.
//!
//! Modelled cost is the time in which the drive is done with it, but a drive that does many things at once delays a request by less,
//! and one that hides work by more: how much, is learned for each reservation from its own requests.

use super::Reservation;
use super::slope::Slope;
use crate::elevator::contract::constants::{
    AVERAGE_PART, FULL_INTERFERENCE, HIDDEN, HIDDEN_ALONE, HIDDEN_JOINED, INTERFERENCE_MAX,
    INTERFERENCE_MIN, INTERFERENCE_TELLS, OWN_FALL, OWN_RISE, OWN_RISE_HIDDEN, PAUSES_PART,
    REACHABLE_PART,
};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::unit::Cost;
use crate::{Op, Span};

/// What is learned of how long the drive takes for a client's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    /// How long the drive takes for its next request when others have nothing in it; zero: not known yet.
    pub(super) solo: Span,
    /// How much later its requests come back for what others have in front of them, in 256ths of that.
    pub(super) interference: u64,
    /// The same where the drive's times vary by themselves.
    pub(super) slope: Slope,
    /// It pauses too long between its requests to get what was promised: that counts while it asks.
    pub(super) pauses: bool,
    /// False if not even an idle drive would keep the promise while it asks.
    pub(super) reachable: bool,
    /// It is the drive that is too slow, and what it has outstanding keeps that busy.
    pub(super) drive_limited: bool,
}

impl Latency {
    pub(super) const UNKNOWN: Self = Self {
        solo: Span::ZERO,
        interference: FULL_INTERFERENCE,
        slope: Slope::NONE,
        pauses: false,
        reachable: true,
        drive_limited: false,
    };
}

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
    pub(crate) kind: &'static DriveKind,
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
        let l = &mut self.latency;
        let hidden = ahead == 0 && l.solo > Span::ZERO && late(l.solo) && late((drive.usual)());
        let beyond = time - l.solo;
        if l.solo == Span::ZERO {
            l.solo = time;
        } else if time < l.solo {
            l.solo = l.solo - (l.solo - time) / OWN_FALL;
        } else if ahead == 0 {
            let part = if hidden { OWN_RISE_HIDDEN } else { OWN_RISE };
            l.solo += beyond.min(l.solo) / part;
        }
        if ahead > l.solo.as_nanos() / INTERFERENCE_TELLS {
            let beyond = (time - l.solo).as_nanos();
            let sample = (beyond.saturating_mul(FULL_INTERFERENCE) / ahead).min(INTERFERENCE_MAX);
            let (old, part) = (l.interference, AVERAGE_PART);
            l.interference =
                (old - old / part + sample / part).clamp(INTERFERENCE_MIN, INTERFERENCE_MAX);
        }
        if drive.kind.varies {
            l.slope.add(ahead, time);
        }
        self.judge_reach(drive.kind.seeks);
        hidden
    }

    /// Whether an idle drive would keep the promise; if not, whether the client or the drive is the reason.
    fn judge_reach(&mut self, serial: bool) {
        let within = |allowed: Span| self.latency.solo <= allowed + allowed / REACHABLE_PART;
        let in_time = within(self.demand.period - self.demand.arrivals.think());
        self.latency.pauses = !in_time && within(self.demand.period / PAUSES_PART);
        self.latency.reachable = in_time || self.latency.pauses;
        let busy = serial || self.in_drive.cost.time().saturating_mul(2) >= self.latency.solo;
        self.latency.drive_limited = busy && self.latency.solo > self.demand.period;
    }

    /// The most work of others that delays a request of it by no more than `time`, if each unit of work delays it by at least `least`
    /// 256ths.
    pub(super) fn bearable(&self, time: Span, least: u64) -> Cost {
        let learned = match self.latency.slope.get() {
            Some(slope) => slope.clamp(INTERFERENCE_MIN, INTERFERENCE_MAX),
            None => self.latency.interference,
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
