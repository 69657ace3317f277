//! Offers: the pieces that could be dispatched next, with their size, their cost, and the promise
//! that they must wait for.

use super::Contracts;
use super::constants::{GRAIN, HELD_MAX, PIECE_MAX, REALTIME_LAG, YIELD};
use super::learned::cost::Locality;
use super::promised::DispatchQuery;
use super::unit::{Cost, ShareEntity};
use crate::list::NIL;
use crate::table::Table;
use crate::{Instant, Op, Span};

/// A piece that could be dispatched now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) stream: u32,
    pub(super) request: u32,
    pub(super) bytes: u32,
    pub(super) last: bool,
    pub(super) place: Locality,
    pub(super) cost: Cost,
    /// The topmost entity that is charged for the piece. Without one, the whole path up to the root
    /// is charged.
    pub(super) top: ShareEntity,
}

impl Contracts {
    /// Returns the size of the next piece of a request, and true if it is the last piece. The size
    /// is limited by the most urgent promise of another client, by [`PIECE_MAX`], and by `limit`.
    fn cut_piece(&mut self, now: Instant, request: u32, limit: Cost, table: &Table) -> (u32, bool) {
        let (most, last) = table.piece(request);
        let live = &table.requests[request];
        let op = live.request.op;
        let whole = u64::from(most) <= GRAIN
            || !matches!(op, Op::Read | Op::Write)
            || !self.model.kind().cuts
            || self.model.is_new();
        if whole {
            return (most, last);
        }
        // Pieces of a realtime client are limited by `PIECE_MAX` only.
        let portion = if self.config.bound_in_flight && !self.reservations.is_urgent(live.group) {
            self.reservations
                .piece_limit(now, live.group, self.window.delay())
        } else {
            None
        };
        let portion = portion.unwrap_or(PIECE_MAX).min(PIECE_MAX).min(limit);
        if self.model.cost(op, Locality::Far, u64::from(most)) < portion {
            // Most requests are small enough. This check costs one multiplication, and `bytes_in` a
            // division.
            return (most, last);
        }
        let room = self
            .model
            .bytes_in(op, portion)
            .max(self.model.efficient(op));
        let within = room.div_ceil(GRAIN).max(1) * GRAIN;
        let within = self.model.worthwhile(op, within);
        if within >= u64::from(most) {
            return (most, last);
        }
        // Pieces end at multiples of the grain of the drive, so the first piece of a request that
        // does not begin at one is shorter.
        let past = (live.request.offset + u64::from(live.issued)) % GRAIN;
        ((within - past) as u32, false)
    }

    /// Returns the next piece of a stream, cut so that it costs at most `limit` if that is
    /// possible.
    pub(super) fn offer(&mut self, now: Instant, stream: u32, limit: Cost, table: &Table) -> Offer {
        let request = self.queues[stream as usize]
            .first()
            .expect("an active stream has a request");
        let (bytes, last) = self.cut_piece(now, request, limit, table);
        let live = &table.requests[request].request;
        let offset = live.offset + u64::from(table.requests[request].issued);
        // On a drive without seeks, near and far pieces have the same cost.
        let place = if self.model.kind().seeks {
            self.turn.place(live.space, offset)
        } else {
            Locality::Far
        };
        Offer {
            stream,
            request,
            bytes,
            last,
            place,
            cost: self.model.cost(live.op, place, u64::from(bytes)),
            top: ShareEntity::NONE,
        }
    }

    /// Returns the reservation for whose sake a piece must wait. `behind` is the reservation that
    /// the piece is dispatched for because it is behind its promise, or [`NIL`].
    pub(super) fn blocking_reservation(
        &mut self,
        now: Instant,
        offer: &Offer,
        behind: u32,
        table: &Table,
    ) -> Option<u32> {
        if self.reservations.has_no_bounds() || !self.config.bound_in_flight {
            return None;
        }
        self.find_blocking_reservation(now, offer, behind, table)
    }

    // Not inlined, because a drive without promises never gets here.
    #[inline(never)]
    fn find_blocking_reservation(
        &mut self,
        now: Instant,
        offer: &Offer,
        behind: u32,
        table: &Table,
    ) -> Option<u32> {
        let lag = match behind {
            NIL => Span::ZERO,
            // The lag up to `YIELD` is the one that a realtime client may cause.
            group => self.reservations.lag(now, group).saturating_sub(YIELD),
        };
        let began = *self.began.get_or_insert(now);
        let waited = self.held.map_or(Span::ZERO, |held| now.since(held));
        let query = DispatchQuery {
            group: table.requests[offer.request].group,
            cost: offer.cost,
            flight: self.flight,
            hidden: self.afterwork.remaining(now, self.writes),
            delay: self.window.delay(),
            kind: self.model.kind(),
            behind,
            crowded: self.reservations.is_crowded(),
            new: self.model.is_new() && now.since(began) < HELD_MAX,
            lag: lag.saturating_mul(REALTIME_LAG),
            overdue: waited >= HELD_MAX,
        };
        let found = self.reservations.blocking_reservation(now, &query)?;
        // After this time one piece passes every promise, so that no client waits for ever.
        if waited >= HELD_MAX {
            self.held = None;
            return None;
        }
        Some(found)
    }
}
