//! Learns the latency of a promised client's requests: without contention, and with work of other
//! clients in the drive.
//!
//! The modelled cost of the work in flight is the time until the drive has completed it. However, a
//! drive that works on many pieces in parallel delays a request by less than that, and a drive that
//! hides work delays it by more. The ratio is learned for each reservation from its own requests.

use super::Reservation;
use super::slope::{FULL, Slope};
use crate::elevator::contract::constants::{
    HEADROOM, HIDDEN, HIDDEN_TIMES, INTERFERENCE_MAX, OWN_RISE, PAUSES_PART, REACHABLE_PART,
};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::Cost;
use crate::time::mul_div_floor;
use crate::{Op, Span};

/// The learned latency of a client's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLatency {
    /// The latency of the client's next request without work of others in the drive. Zero if it is
    /// not known yet.
    pub(super) solo: Span,
    /// The delay of the client's requests for each unit of other clients' work in flight, in
    /// 256ths.
    pub(super) interference: u64,
    /// The same ratio for a drive whose latency varies on its own.
    pub(super) slope: Slope,
    /// The part of the promised rate that is reserved in addition, in 64ths.
    pub(super) headroom: u64,
    /// True if the client pauses for too long between its requests to reach its promise. Then the
    /// promise is judged only while it has requests.
    pub(super) pauses: bool,
    /// False if not even an idle drive would keep the promise while the client has requests.
    pub(super) reachable: bool,
    /// True if the drive is too slow for the promise, and the client's outstanding requests keep
    /// the drive busy.
    pub(super) drive_limited: bool,
}

impl RequestLatency {
    pub(super) const UNKNOWN: Self = Self {
        solo: Span::ZERO,
        interference: FULL,
        slope: Slope::NONE,
        headroom: HEADROOM,
        pauses: false,
        reachable: true,
        drive_limited: false,
    };
}

/// The measurements of a piece that completed.
#[derive(Clone, Copy)]
pub(crate) struct CompletedPiece<'a> {
    /// The operation of the piece's request.
    pub(crate) op: Op,
    /// The time from dispatch to completion.
    pub(crate) time: Span,
    /// Returns the shortest time of such a piece, or its cost if that is more. It is a function
    /// because only pieces that seem late need it.
    pub(crate) usual: &'a dyn Fn() -> Span,
    /// The modelled cost of other clients' work in the drive at the time of the dispatch.
    pub(crate) cost_ahead: Cost,
    pub(crate) kind: &'static DriveKind,
}

impl Reservation {
    /// Accounts for a piece of the client that completed. Returns true if the piece had nothing in
    /// front of it, but took so much longer than usual that the drive must have had other work.
    pub(super) fn observe_completion(&mut self, drive: CompletedPiece<'_>) -> bool {
        let (time, ahead) = (drive.time, drive.cost_ahead.as_nanos());
        let late = |usual: Span| time > usual.saturating_mul(HIDDEN_TIMES) + HIDDEN;
        let l = &mut self.latency;
        let hidden = ahead == 0 && l.solo > Span::ZERO && late(l.solo) && late((drive.usual)());
        let beyond = time - l.solo;
        // The estimate falls quickly, because nothing can make a request faster than it is without
        // contention. It rises slowly, and only by samples without work in front, because many
        // things can make a request slower.
        if l.solo == Span::ZERO {
            l.solo = time;
        } else if time < l.solo {
            l.solo = l.solo - (l.solo - time) / 2;
        } else if ahead == 0 {
            l.solo += beyond.min(l.solo) / OWN_RISE;
        }
        let delay = (time - l.solo).as_nanos().saturating_mul(FULL);
        if let Some(sample) = delay.checked_div(ahead) {
            let sample = sample.min(INTERFERENCE_MAX * FULL);
            // The average never falls to zero, because a value below [`AVERAGE_PART`] stays.
            l.interference = average(l.interference, sample);
        }
        if drive.kind.varies {
            l.slope.add(ahead, time);
        }
        self.latency.headroom = self.headroom(drive.kind);
        self.judge_reach(drive.kind.seeks);
        hidden
    }

    /// Returns the headroom of the reservation in 64ths. It uses up at most half of the time that
    /// the promise leaves next to the client's own latency. With more, the client would count as
    /// late at all times, and others would get nothing, although the promise is kept.
    fn headroom(&self, kind: &DriveKind) -> u64 {
        let (l, period) = (&self.latency, self.demand.period.as_nanos());
        let usual = l.slope.headroom();
        let promised = mul_div_floor(period, 64 + l.headroom, 64);
        let allowed = Span::from_nanos(promised) - self.demand.arrivals.think();
        if kind.may_seek || kind.varies || l.solo > allowed {
            return usual;
        }
        let (left, both) = (allowed - l.solo, allowed + l.solo);
        usual.min(mul_div_floor(left.as_nanos(), 64, both.as_nanos().max(1)))
    }

    /// Decides whether an idle drive would keep the promise. If it would not, either the client's
    /// pauses or the drive are the reason.
    fn judge_reach(&mut self, serial: bool) {
        let (solo, period) = (self.latency.solo, self.demand.period);
        let within = |allowed: Span| solo <= allowed + allowed / REACHABLE_PART;
        let in_time = within(period - self.demand.arrivals.think());
        // Without its think time, the client would reach its promise.
        self.latency.pauses = !in_time && within(period / PAUSES_PART);
        self.latency.reachable = in_time || self.latency.pauses;
        // The client keeps the drive busy if its work in flight accounts for at least half of its
        // latency.
        let busy = serial || self.in_drive.cost.time().saturating_mul(2) >= solo;
        self.latency.drive_limited = busy && solo > period;
    }

    /// Returns the largest amount of other clients' work that delays one of the client's requests
    /// by no more than `time`. On a `serial` drive, work is assumed to delay it by at least its
    /// cost.
    pub(super) fn bearable(&self, time: Span, serial: bool) -> Cost {
        let learned = match self.latency.slope.get() {
            Some(slope) => slope.min(INTERFERENCE_MAX * FULL),
            None => self.latency.interference,
        };
        let interference = learned.max(if serial { FULL } else { 1 });
        // The largest `most` with floor(most × interference / 256) ≤ time, so one less than time +
        // 1 before the division.
        let most = time.as_nanos().saturating_add(1).saturating_mul(FULL) - 1;
        let most = Cost::from_nanos(most / interference);
        let delay = |work: Cost| work.as_nanos().saturating_mul(interference) / FULL;
        debug_assert!(
            delay(most) <= time.as_nanos() && delay(most + Cost::from_nanos(1)) > time.as_nanos()
        );
        most
    }
}
