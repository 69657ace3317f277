//! Offers: the pieces that could be dispatched next, with their size, their cost, and the promise
//! that they must wait for.

use super::Contracts;
use super::constants::{GRAIN, HELD_MAX, PIECE_MAX, REALTIME_LAG, WHOLE_READ, YIELD};
use super::learned::cost::Locality;
use super::promised::DispatchQuery;
use super::unit::{Cost, ShareEntity};
use crate::list::NIL;
use crate::table::{Live, Table};
use crate::{Instant, Op, Span};

/// A piece that could be dispatched now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) stream: u32,
    pub(super) request: u32,
    pub(super) bytes: u32,
    pub(super) place: Locality,
    pub(super) cost: Cost,
    /// The topmost entity that is charged for the piece. Without one, the whole path up to the root
    /// is charged.
    pub(super) top: ShareEntity,
}

impl Contracts {
    /// Returns the size of the next piece of a request, if the rest of it, `most` bytes at `cost`,
    /// must be cut. The size is limited by the most urgent promise of another client, by
    /// [`PIECE_MAX`], and by `limit`.
    #[inline(never)]
    fn cut_piece(
        &mut self,
        now: Instant,
        live: &Live,
        (most, cost): (u32, Cost),
        limit: Cost,
    ) -> Option<u32> {
        let op = live.request.op;
        let may_cut = match op {
            Op::Read => live.request.length > WHOLE_READ,
            Op::Write => true,
            _ => false,
        };
        if !may_cut || self.model.is_new() {
            return None;
        }
        // Pieces of a realtime client are limited by `PIECE_MAX` only.
        let portion = if self.bounds_in_flight() && !self.reservations.is_urgent(live.group) {
            self.reservations
                .piece_limit(now, live.group, self.window.delay())
        } else {
            None
        };
        let portion = portion.unwrap_or(PIECE_MAX).min(PIECE_MAX).min(limit);
        if cost < portion {
            return None;
        }
        let room = self
            .model
            .bytes_in(op, portion)
            .max(self.model.efficient(op));
        let within = room.div_ceil(GRAIN).max(1) * GRAIN;
        let within = self.model.worthwhile(op, within);
        if within >= u64::from(most) {
            return None;
        }
        // Pieces end at multiples of the grain of the drive, so the first piece of a request that
        // does not begin at one is shorter.
        let past = (live.request.offset + u64::from(live.issued)) % GRAIN;
        Some((within - past) as u32)
    }

    /// Returns true if any promise limits the pieces of other clients.
    #[inline]
    fn bounds_in_flight(&self) -> bool {
        self.config.bound_in_flight && !self.reservations.has_no_bounds()
    }

    /// Returns the next piece of a stream, cut so that it costs at most `limit` if that is
    /// possible.
    #[inline(never)]
    pub(super) fn offer(&mut self, now: Instant, stream: u32, limit: Cost, table: &Table) -> Offer {
        self.next_piece(now, stream, limit, table)
    }

    /// Returns what [`Self::offer`] returns. It is inlined where most pieces are chosen.
    #[expect(clippy::inline_always, reason = "once for each piece")]
    #[inline(always)]
    pub(super) fn next_piece(
        &mut self,
        now: Instant,
        stream: u32,
        limit: Cost,
        table: &Table,
    ) -> Offer {
        let request = self.queues[stream as usize]
            .first()
            .expect("an active stream has a request");
        let live = &table.requests[request];
        let (op, offset) = (live.request.op, live.request.offset);
        // On a drive without seeks, near and far pieces have the same cost.
        let place = if self.model.kind().seeks {
            (self.turn).place(live.request.space, offset + u64::from(live.issued))
        } else {
            Locality::Far
        };
        let (most, _) = table.piece(request);
        let cost = self.model.cost(op, place, u64::from(most));
        let mut offer = Offer {
            stream,
            request,
            bytes: most,
            place,
            cost,
            top: ShareEntity::NONE,
        };
        // Most requests are small enough. A drive on which requests are cut has far pieces only.
        let is_large = u64::from(most) > GRAIN && self.model.kind().cuts;
        if is_large
            && (cost >= PIECE_MAX.min(limit) || self.bounds_in_flight())
            && let Some(bytes) = self.cut_piece(now, live, (most, cost), limit)
        {
            offer.bytes = bytes;
            offer.cost = self.model.cost(op, place, u64::from(bytes));
        }
        offer
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
        if !self.bounds_in_flight() {
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
