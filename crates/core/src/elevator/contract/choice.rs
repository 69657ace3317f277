//! The choice of the next stream: overdue idle class, realtime, promises that are behind, turns,
//! and shares.

use super::Contracts;
use super::constants::{HELD_MAX, PIECE_PARTS, SLICE, TURN, YIELD};
use super::learned::cost::Locality;
use super::offer::Offer;
use super::unit::{Cost, ShareEntity};
use crate::event::{Event, Events};
use crate::list::NIL;
use crate::table::Table;
use crate::{GroupId, Instant, Span};

/// The time at which to choose again if no piece is dispatched now. `None` if the next completion
/// or request is early enough.
pub(super) type RetryTime = Option<Instant>;

impl Contracts {
    /// Chooses the piece that is dispatched now. The candidates are, in this order: a group of the
    /// idle class whose deadline is over, a realtime client, the reservation that is being served,
    /// a reservation that is behind its promise, and the stream whose turn it is by share.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        table: &Table,
        events: &mut Events,
    ) -> Result<Offer, RetryTime> {
        if let Some(group) = self.shares.overdue(now) {
            let stream = self.shares.pick(group).expect("it has something to send");
            return Ok(self.offer(now, stream, Cost::MAX, table));
        }
        if !self.parked.is_empty() && !self.dirty.is_full(now) {
            self.unpark(now);
        }
        if let Some(group) = self.reservations.first_urgent() {
            return self.choose_urgent(now, group, table);
        }
        if let Some(served) = self.continue_serving(now, table) {
            return Ok(served);
        }
        if let Some(group) = self.reservations.behind(now) {
            let offer = self.offer_reserved(now, group, table);
            return match self.blocking_reservation(now, &offer, group, table) {
                // Nothing else limits the pieces of promised clients in a crowd.
                None if self.reservations.is_crowded()
                    && !self.window.has_room(now, self.flight, offer.cost) =>
                {
                    Err(None)
                }
                None => {
                    self.serve(now, group);
                    Ok(offer)
                }
                Some(other) => self.serve_instead(now, offer, other, table, events),
            };
        }
        self.choose_by_share(now, table, events)
    }

    /// Returns the next piece of a realtime client. A reservation that is behind its promise by
    /// far, and by more than the realtime client is behind its max, is served instead: the drive is
    /// too slow for both, and each gets a part.
    fn choose_urgent(
        &mut self,
        now: Instant,
        realtime: u32,
        table: &Table,
    ) -> Result<Offer, RetryTime> {
        let behind = self.reservations.behind(now);
        let most = self.reservations.lag(now, realtime).max(YIELD);
        let late = behind.filter(|&g| self.reservations.lag(now, g) > most);
        if let Some(late) = late
            && let Some(offer) = self.offer_late(now, late, most, table)
        {
            return Ok(offer);
        }
        let offer = self.offer_reserved(now, realtime, table);
        let blocking = self.blocking_reservation(now, &offer, realtime, table);
        // The drive is not kept idle for a client that thinks.
        let waits = blocking.is_some_and(|g| {
            let first = self.reservations.is_realtime(g) || self.reservations.lag(now, g) > most;
            first && self.reservations.expected_arrival(g).is_none()
        });
        if waits && self.flight > Cost::ZERO {
            return Err(None);
        }
        Ok(offer)
    }

    /// Returns the next piece of the reservation `late`, which is behind by more than `most`, or of
    /// the reservation that has to be served before it.
    fn offer_late(&mut self, now: Instant, late: u32, most: Span, table: &Table) -> Option<Offer> {
        let offer = self.offer_reserved(now, late, table);
        let Some(other) = self.blocking_reservation(now, &offer, late, table) else {
            self.serve(now, late);
            return Some(offer);
        };
        if !self.shares.is_active(ShareEntity(other)) || self.reservations.lag(now, other) <= most {
            return None;
        }
        self.serve(now, other);
        Some(self.offer_reserved(now, other, table))
    }

    /// Makes a reservation the one that is served, until its clock has reached the goal.
    fn serve(&mut self, now: Instant, group: u32) {
        if self.served != group {
            (self.served, self.goal) = (group, self.reservations.service_goal(now, group));
        }
    }

    /// Returns the next piece of a reservation that has a queued request. Its stream at the head of
    /// a seek-bound drive comes first.
    fn offer_reserved(&mut self, now: Instant, group: u32, table: &Table) -> Offer {
        let by_share = self.shares.pick(group).expect("it has something to send");
        let near = self.sequential_holder(now, table);
        let within = near.filter(|&s| {
            self.reservations
                .is_within(table.streams[s].spec.group, group)
        });
        Offer {
            top: ShareEntity(group),
            ..self.offer(now, within.unwrap_or(by_share), Cost::MAX, table)
        }
    }

    /// Continues to serve the reservation that was served last, on a drive with turns, until it is
    /// as far ahead as it may be. The first piece of a service is far in any case, and the next
    /// ones show whether the stream is sequential.
    fn continue_serving(&mut self, now: Instant, table: &Table) -> Option<Offer> {
        let group = self.served;
        if group == NIL {
            return None;
        }
        let holder = self.sequential_holder(now, table);
        let goes_on = holder.is_some_and(|s| {
            let of_stream = table.streams[s].spec.group;
            self.reservations.is_within(of_stream, group)
        });
        if goes_on && !self.reservations.has_reached(group, self.goal) {
            let offer = self.offer_reserved(now, group, table);
            if (self.blocking_reservation(now, &offer, group, table)).is_none() {
                return Some(offer);
            }
        }
        self.served = NIL;
        None
    }

    /// Waits for a stream without queued requests, if that is worth the time.
    ///
    /// # Errors
    /// Returns the time at which to choose again if the drive must wait.
    fn wait_for(&mut self, now: Instant, stream: u32) -> Result<(), RetryTime> {
        if self.turn.outstanding(stream) > 0 {
            return Err(None);
        }
        if let Some(until) = self.turn.wait_until(now, stream, &self.model) {
            self.awaited = Some(stream);
            return Err(Some(until));
        }
        self.awaited = None;
        Ok(())
    }

    /// Chooses the next piece by share, for the time that the promises leave.
    fn choose_by_share(
        &mut self,
        now: Instant,
        table: &Table,
        events: &mut Events,
    ) -> Result<Offer, RetryTime> {
        let mut offer = self.offer_by_share(now, table)?;
        if self.waits_for_flush(now, &offer, table) {
            offer = self.offer_instead_of(now, offer, table)?;
        }
        // `NIL`: the piece is not dispatched for the sake of a promise.
        if let Some(group) = self.blocking_reservation(now, &offer, NIL, table) {
            self.held.get_or_insert(now);
            return self.serve_instead(now, offer, group, table, events);
        }
        if !self.window.has_room(now, self.flight, offer.cost) {
            return Err(None);
        }
        // A piece passes, so the wait is over. It goes on only during the slice that others get
        // after `HELD_MAX`, so that the slice has room for several pieces.
        if self
            .held
            .is_some_and(|held| now.since(held) < HELD_MAX || now.since(held) >= HELD_MAX + SLICE)
        {
            self.held = None;
        }
        Ok(offer)
    }

    /// Parks the streams whose writes must wait for the next flush, beginning with that of `offer`,
    /// and returns the next piece of another stream.
    #[cold]
    fn offer_instead_of(
        &mut self,
        now: Instant,
        mut offer: Offer,
        table: &Table,
    ) -> Result<Offer, RetryTime> {
        loop {
            self.park(offer.stream);
            offer = self.offer_by_share(now, table)?;
            if !self.waits_for_flush(now, &offer, table) {
                return Ok(offer);
            }
        }
    }

    /// Returns the next piece of the stream whose turn it is by share, or of the stream that keeps
    /// the drive.
    #[expect(clippy::inline_always, reason = "once for each piece")]
    #[inline(always)]
    fn offer_by_share(&mut self, now: Instant, table: &Table) -> Result<Offer, RetryTime> {
        let Some(mut stream) = self.shares.pick(0) else {
            // All streams with queued requests may be parked.
            let until = (!self.parked.is_empty()).then(|| self.dirty.until());
            return Err(until);
        };
        if self.model.kind().seeks {
            stream = self.keep_turn(now, stream, table)?;
        }
        let entity = self.shares.of_stream(stream);
        match self.shares.absent_behind(now, entity) {
            Some(absent) => self.offer_ahead(now, stream, absent, table),
            None => Ok(self.next_piece(now, stream, Cost::MAX, table)),
        }
    }

    /// Returns the next piece of a stream that is ahead of an absent group, if the piece does not
    /// delay that group for too long.
    fn offer_ahead(
        &mut self,
        now: Instant,
        stream: u32,
        absent: u32,
        table: &Table,
    ) -> Result<Offer, RetryTime> {
        let absence = self.shares.absence(absent);
        let (gain, until) = (absence.gain(), absence.kept_until());
        let Some(bound) = (self.restraint).bound(now, self.window.bound(), gain) else {
            return Ok(self.offer(now, stream, Cost::MAX, table));
        };
        let offer = self.offer(now, stream, bound / PIECE_PARTS, table);
        let fits = self.flight.saturating_add(offer.cost) <= bound;
        // Without work in flight, no completion would end the wait.
        if fits || self.flight == Cost::ZERO && until.is_none() {
            return Ok(offer);
        }
        Err(until)
    }

    /// Returns true if a write must wait for the next flush: its client has no promise, and enough
    /// has been written before the flush of a client that has one.
    #[inline]
    fn waits_for_flush(&self, now: Instant, offer: &Offer, table: &Table) -> bool {
        if !self.dirty.is_full(now) || !self.config.bound_in_flight {
            return false;
        }
        let live = &table.requests[offer.request];
        !live.request.op.is_read()
            && !self.reservations.is_promised(live.group)
            && !self
                .shares
                .is_idle_class(self.shares.of_stream(offer.stream))
    }

    /// Parks a stream until a flush begins, so that other streams are picked in the meantime.
    fn park(&mut self, stream: u32) {
        self.shares.deactivate(self.shares.of_stream(stream), false);
        if !core::mem::replace(&mut self.is_parked[stream as usize], true) {
            self.parked.push(stream);
        }
    }

    /// Returns all parked streams to the shares.
    pub(super) fn unpark(&mut self, now: Instant) {
        while let Some(stream) = self.parked.pop() {
            self.is_parked[stream as usize] = false;
            if !self.queues[stream as usize].is_empty() {
                let entity = self.shares.of_stream(stream);
                self.shares.activate(now, entity, false);
            }
        }
    }

    /// Returns the stream that has the turn, if its next piece is near.
    fn sequential_holder(&self, now: Instant, table: &Table) -> Option<u32> {
        let holder = self.turn.last(now, &self.model)?;
        if self.is_parked[holder as usize] {
            return None;
        }
        let live = &table.requests[self.queues[holder as usize].first()?];
        let offset = live.request.offset + u64::from(live.issued);
        let place = self.turn.place(live.request.space, offset);
        (place == Locality::Near).then_some(holder)
    }

    /// Returns the stream that keeps the drive, or otherwise the one whose turn it is by share.
    fn keep_turn(&mut self, now: Instant, by_share: u32, table: &Table) -> Result<u32, RetryTime> {
        let Some(last) = self.turn.stream else {
            return Ok(by_share);
        };
        // A stream that was served for the sake of its promise may have received more than a turn
        // beyond its part of the tenant's share.
        let turn = self.in_charge(Cost::of(TURN));
        if self
            .shares
            .is_ahead_in_tenant(self.shares.of_stream(last), turn)
        {
            return Ok(by_share);
        }
        if let Some(holder) = self.sequential_holder(now, table) {
            return Ok(holder);
        }
        if !self.queues[last as usize].is_empty() {
            return Ok(by_share);
        }
        let [one, other] = [last, by_share].map(|s| self.shares.of_stream(s));
        if self.turn.holder(now, &self.model).is_some() || self.shares.is_behind(one, other) {
            self.wait_for(now, last)?;
        }
        Ok(by_share)
    }

    /// Serves the reservation `group`, for whose sake a piece must wait, if it has a queued
    /// request. The drive is left empty only while that client is about to send one.
    fn serve_instead(
        &mut self,
        now: Instant,
        offer: Offer,
        group: u32,
        table: &Table,
        events: &mut Events,
    ) -> Result<Offer, RetryTime> {
        self.publish(now, group, events);
        if self.shares.is_active(ShareEntity(group)) && !self.reservations.is_ahead(now, group) {
            self.serve(now, group);
            return Ok(self.offer_reserved(now, group, table));
        }
        let expected = self
            .reservations
            .expected_arrival(group)
            .filter(|&at| at > now);
        // A flush keeps the drive busy although no piece is in flight.
        if self.flight == Cost::ZERO && expected.is_none() && self.pace.running() == 0 {
            return Ok(offer);
        }
        // The held piece passes at the latest after `HELD_MAX`, even if no call comes in between.
        let over = self.held.map(|held| held + HELD_MAX);
        Err(expected
            .into_iter()
            .chain(over)
            .min()
            .filter(|&at| at > now))
    }

    /// Publishes the reservation for whose sake others wait, if it or the limit has changed.
    fn publish(&mut self, now: Instant, group: u32, events: &mut Events) {
        let span = self.reservations.time_for_others(group);
        if self.published != (group, span) {
            self.published = (group, span);
            events.publish(now, || Event::Bound {
                group: GroupId(group),
                span,
            });
        }
    }
}
