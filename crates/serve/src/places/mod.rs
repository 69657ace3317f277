//! Places: the limited number of connections, and the choice of the connection that loses its place
//! if all are taken.
//!
//! Each promise (a min or the realtime class of a volume, or that of a tenant for its volumes
//! together) has a few reserved places (see [`Reservations`]). All other places are divided evenly:
//! among owners (hosts, or users of this machine), for each owner among volumes, and for each
//! volume among processes.
//!
//! If all places are taken, a newcomer that is entitled to a place gets it from the group with the
//! most unreserved places. Of this group, the connection that has been inactive for longest is
//! ended, even if all of them are busy. A newcomer is refused if its group would have more places
//! than another group afterwards.
//!
//! The NBD server has a sixteenth more places than `limits.connections`. The additional places are
//! only for connections with a reserved place, so that the first of these end no other connection.
//! Three properties follow:
//!
//! - A newcomer to a volume with a promise is accepted unless all places of the promise are taken
//!   by connections that are entitled to them.
//! - A connection whose group has no more than its part is never ended for another connection.
//! - A newcomer that gets a place cannot lose it to the group from which it was taken. Two groups
//!   therefore cannot end each other's connections in alternation.
//!
//! The reserved places are determined for each newcomer, so that a changed promise applies from the
//! next newcomer on. A connection gets its place when the client chooses a volume. A silent client
//! in a handshake has no place, and cannot keep other clients out.
//!
//! The management server divides its connections by the same rule. Its clients' requests are short,
//! so that it delays a newcomer instead of refusing it (see [`Places::replace`]).

mod division;
mod peer;
mod reservations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weir_core::{Instant, Span};

pub use peer::Peer;
use peer::PeerOwner;
pub(crate) use peer::counts_by_peer;
pub use reservations::Reservations;

/// The time during which a connection is safe from a newcomer that is not more entitled to a place.
/// It is long enough to send a request, even on a busy machine.
const GRACE: Span = Span::from_millis(50);

/// All places of a server, and the connections that occupy them.
#[derive(Debug)]
pub struct Places {
    most: usize,
    /// The number of places in addition to `most` that only connections with a reserved place may
    /// take. Such connections then do not end others.
    spare: usize,
    /// The occupied places, in the order of their claims, and of age for equal claims.
    seats: Vec<Arc<Seat>>,
    /// The age of the next place to be taken.
    next: u64,
}

/// A client's claim to a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The client's host, or its user and process.
    pub peer: Peer,
    /// The name of the volume that the client has chosen.
    pub volume: Arc<str>,
}

/// An occupied place. The connection and the acceptor share it.
#[derive(Debug)]
struct Seat {
    connection: u64,
    claim: Claim,
    /// The age of the place. A place that was taken later has a higher number.
    age: u64,
    /// The shard that serves the connection, or [`NOWHERE`] during its handshake.
    shard: AtomicUsize,
    /// The time when the client last sent or received something, in nanoseconds of the server's
    /// clock.
    last_activity: AtomicU64,
    /// True while the server works on a request of the connection. Only connections with one
    /// request at a time report this.
    works: AtomicBool,
    /// True if the connection has ended or has lost the place.
    left: AtomicBool,
}

/// Returns the number of places in addition to `limits.connections` that are for connections with a
/// reserved place.
pub(crate) const fn spare(connections: u32) -> usize {
    connections as usize / 16
}

const NOWHERE: usize = usize::MAX;

/// The place of a connection, which is freed when this is dropped.
#[derive(Debug)]
pub struct Ticket(Arc<Seat>);

/// A view of a connection's place for others than the connection itself.
#[derive(Clone, Debug)]
pub(crate) struct PlaceWatch(Arc<Seat>);

impl PlaceWatch {
    /// Returns true if the connection has ended or has lost its place.
    pub(crate) fn has_left(&self) -> bool {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Returns the number of the connection.
    pub(crate) fn connection(&self) -> u64 {
        self.0.connection
    }

    /// Returns the connection's peer.
    pub(crate) fn peer(&self) -> Peer {
        self.0.claim.peer
    }
}

/// A connection that has lost its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The shard that serves the connection, or `None` during its handshake.
    pub(crate) shard: Option<usize>,
    /// The number of the connection.
    pub connection: u64,
}

impl Places {
    /// Creates `most` places, all of them free.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            spare: 0,
            seats: Vec::new(),
            next: 0,
        }
    }

    /// Adds `spare` places for connections with a reserved place.
    pub(crate) fn with_spare(self, spare: usize) -> Self {
        Self { spare, ..self }
    }

    /// Takes a place for a connection of any duration. Also returns the connection that must end
    /// for it, if there is one. Returns `None` if the newcomer is refused.
    pub fn take(
        &mut self,
        connection: u64,
        claim: Claim,
        now: Instant,
        reservations: &Reservations,
    ) -> Option<(Ticket, Option<Evicted>)> {
        let evicted = if self.has_room() || self.has_spare(&claim, reservations) {
            None
        } else {
            // `order` contains all connections and the newcomer (as `None`). If the newcomer is
            // last itself, it is the one that is refused.
            let last = self.order(&claim, reservations).pop()??;
            Some(self.evict(self.idlest(last, now)))
        };
        Some((self.seat(connection, claim, now), evicted))
    }

    /// Takes a place for a connection that another process has handed over. No connection ends for
    /// it, because it had a place there.
    pub(crate) fn inherit(&mut self, connection: u64, claim: Claim, now: Instant) -> Ticket {
        self.seat(connection, claim, now)
    }

    /// Takes a place for a connection that is served soon and can be ended afterwards. If
    /// [`Self::take`] refuses the newcomer, it still gets the place of a connection of the group
    /// with the most places, unless all of these were active less than 50 ms ago.
    ///
    /// # Errors
    /// Returns the time when the caller should try again.
    pub fn replace(
        &mut self,
        connection: u64,
        claim: &Claim,
        now: Instant,
        reservations: &Reservations,
    ) -> Result<(Ticket, Option<Evicted>), Instant> {
        if let Some(taken) = self.take(connection, claim.clone(), now, reservations) {
            return Ok(taken);
        }
        let order = self.order(claim, reservations);
        // The order is empty only if all places are reserved, which is possible if there are very
        // few. Any of them can be replaced then.
        let last = order.into_iter().flatten().last().unwrap_or(0);
        let at = self.idlest(last, now);
        if self.seats[at].is_fresh(now) {
            return Err(self.seats[at].last_activity() + GRACE);
        }
        let evicted = self.evict(at);
        Ok((self.seat(connection, claim.clone(), now), Some(evicted)))
    }

    /// Returns true if a place is free, after removing the places whose connections have ended.
    fn has_room(&mut self) -> bool {
        // `Relaxed` suffices here and for the other fields of a seat. A stale value only delays the
        // reuse of a place, or selects another connection of the same group.
        self.seats.retain(|seat| !seat.left.load(Ordering::Relaxed));
        self.seats.len() < self.most
    }

    /// Returns true if a spare place is free and the claim's promise does not occupy all its
    /// reserved places yet.
    fn has_spare(&self, claim: &Claim, reservations: &Reservations) -> bool {
        let Some(promise) = reservations.promise(claim) else {
            return false;
        };
        let same = self
            .seats
            .iter()
            .filter(|seat| reservations.promise(&seat.claim) == Some(promise));
        self.seats.len() < self.most + self.spare && same.count() < reservations.each(self.most)
    }

    /// Returns the connections without a reserved place and the newcomer (as `None`), the most
    /// entitled first.
    fn order(&self, newcomer: &Claim, reservations: &Reservations) -> Vec<Option<usize>> {
        let at = self.end_of(newcomer);
        let mut all: Vec<(&Claim, u64)> = Vec::with_capacity(self.seats.len() + 1);
        all.extend(self.seats.iter().map(|seat| (&seat.claim, seat.age)));
        all.insert(at, (newcomer, self.next));
        let order = division::unreserved(&all, at, reservations, self.most);
        let seat = |entry: division::DivisionEntry| match entry.at {
            n if n == at => None,
            // Connections after the newcomer are one further in `all` than in `seats`.
            n => Some(n - usize::from(n > at)),
        };
        order.into_iter().map(seat).collect()
    }

    /// Returns the connection of the group of `of` that should end: first one outside of its
    /// [`GRACE`] time, then one without a request in progress, then the one with the oldest
    /// activity.
    fn idlest(&self, of: usize, now: Instant) -> usize {
        let claim = &self.seats[of].claim;
        let start = self.seats.partition_point(|s| s.claim.key() < claim.key());
        let group = start..self.end_of(claim);
        let idlest = group.min_by_key(|at| {
            let seat = &self.seats[*at];
            let works = seat.works.load(Ordering::Relaxed);
            (seat.is_fresh(now), works, seat.last_activity())
        });
        idlest.unwrap_or(of)
    }

    /// Returns the index after the last place of a claim's group.
    fn end_of(&self, claim: &Claim) -> usize {
        self.seats
            .partition_point(|seat| seat.claim.key() <= claim.key())
    }

    fn evict(&mut self, at: usize) -> Evicted {
        let seat = self.seats.remove(at);
        seat.left.store(true, Ordering::Relaxed);
        let shard = seat.shard.load(Ordering::Relaxed);
        Evicted {
            shard: (shard != NOWHERE).then_some(shard),
            connection: seat.connection,
        }
    }

    fn seat(&mut self, connection: u64, claim: Claim, now: Instant) -> Ticket {
        let at = self.end_of(&claim);
        let seat = Arc::new(Seat {
            connection,
            claim,
            age: self.next,
            shard: AtomicUsize::new(NOWHERE),
            last_activity: AtomicU64::new(now.as_nanos()),
            works: AtomicBool::new(false),
            left: AtomicBool::new(false),
        });
        self.next += 1;
        self.seats.insert(at, Arc::clone(&seat));
        Ticket(seat)
    }
}

impl Claim {
    /// Returns the values by which places are divided, from the outermost level to the innermost.
    fn key(&self) -> (PeerOwner, &str, Option<i32>) {
        (self.peer.owner(), &self.volume, self.peer.pid())
    }
}

impl Seat {
    /// Returns true if the connection was active less than [`GRACE`] ago.
    fn is_fresh(&self, now: Instant) -> bool {
        now < self.last_activity() + GRACE
    }

    fn last_activity(&self) -> Instant {
        Instant::from_nanos(self.last_activity.load(Ordering::Relaxed))
    }
}

impl Ticket {
    /// Creates a ticket for a client that does not count as a connection, and therefore has no
    /// place that it could lose.
    pub(crate) fn uncounted(connection: u64) -> Self {
        let claim = Claim {
            peer: Peer::unknown(),
            volume: "".into(),
        };
        // The set of places exists only for this ticket, so no newcomer can take its place.
        Places::new(1).seat(connection, claim, Instant::ZERO)
    }

    /// Returns a view of the place.
    pub(crate) fn watch(&self) -> PlaceWatch {
        PlaceWatch(Arc::clone(&self.0))
    }

    /// Returns the connection's peer.
    pub(crate) fn peer(&self) -> Peer {
        self.0.claim.peer
    }

    /// Stores the shard that serves the connection from now on.
    pub(crate) fn serve(&self, shard: usize) {
        self.0.shard.store(shard, Ordering::Relaxed);
    }

    /// Returns true if the connection has lost its place to another one.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Notes that the server begins (`works` is true) or has completed its work on a request of the
    /// connection.
    pub fn note_work(&self, now: Instant, works: bool) {
        self.0.works.store(works, Ordering::Relaxed);
        self.note_activity(now);
    }

    /// Notes that the connection has sent or received something.
    pub(crate) fn note_activity(&self, now: Instant) {
        self.0
            .last_activity
            .store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
