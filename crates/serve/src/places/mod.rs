//! The bounded places for connections, and the connection that gives one up when all are taken.
//!
//! Each promise (a min or the realtime class of a volume, or that of a tenant for its volumes
//! together) has a few places of its own, see [`Reservations`]. All other places are divided
//! evenly: between owners (hosts, or users of this machine), for each owner between volumes, for
//! each volume between processes. When all places are taken, a newcomer that is entitled to one
//! gets the place of a connection of the group that has the most of the divided ones: the
//! connection that has been at rest for longest, however busy all of them are. A newcomer that
//! would have more than another group after that is refused. The NBD server has a
//! sixteenth more places than `limits.connections` for connections with a reserved place, so that
//! the first of these end no other connection. Three facts follow:
//!
//! - A newcomer to a volume with a promise gets in while the places of the promise are not all
//!   taken by others that are entitled to them.
//! - A connection whose group has no more than its part is never ended for another.
//! - A newcomer that gets a place cannot lose it to the group that it comes from, so no two groups
//!   end each other's connections in turns.
//!
//! Which places are reserved is decided again for each newcomer, so a changed promise holds from
//! the next newcomer on. A handshake has no place before the client has chosen its volume: a silent
//! client can keep no other out.
//!
//! The management server divides its connections by the same rule. Its clients' requests are short,
//! so that a newcomer to it is never refused: see [`Places::replace`].

mod division;
mod peer;
mod reservations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weir_core::{Instant, Span};

use peer::Owner;
pub use peer::Peer;
pub(crate) use peer::counts_by_peer;
pub use reservations::Reservations;

/// How long a connection is safe from a newcomer that is entitled to no more than it: time to send
/// a request, on a busy machine, too.
const GRACE: Span = Span::from_millis(50);

/// All of them.
#[derive(Debug)]
pub struct Places {
    most: usize,
    /// Places beyond these that only connections with a reserved place may take, so that a few of them need no other's.
    spare: usize,
    /// In the order of their claims, and of age where these are equal.
    seats: Vec<Arc<Seat>>,
    /// The age of the next one.
    next: u64,
}

/// A client's claim to a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The client's host, or its user and process.
    pub peer: Peer,
    /// The name of the volume that it has chosen.
    pub volume: Arc<str>,
}

/// A connection's place as the divider sees it.
#[derive(Debug)]
struct Seat {
    connection: u64,
    claim: Claim,
    /// Higher if it was taken later.
    age: u64,
    /// The shard that serves it; [`NOWHERE`] while its handshake is not over.
    shard: AtomicUsize,
    /// When it last sent or took something, nanoseconds of the server's clock.
    last_activity: AtomicU64,
    /// The server works on a request of it; known of connections with one request at a time.
    works: AtomicBool,
    /// It is free, or has another connection by now.
    left: AtomicBool,
}

/// How many places there are beyond `limits.connections`, for connections whose place is reserved.
pub(crate) const fn spare(connections: u32) -> usize {
    connections as usize / 16
}

const NOWHERE: usize = usize::MAX;

/// A place among the connections there may be; given back when dropped.
#[derive(Debug)]
pub struct Ticket(Arc<Seat>);

/// A connection that has lost its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The shard that serves it, if one does already.
    pub(crate) shard: Option<usize>,
    /// Its number.
    pub connection: u64,
}

impl Places {
    /// `most` places, all of them free.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            spare: 0,
            seats: Vec::new(),
            next: 0,
        }
    }

    /// The same with `spare` more places for connections whose place is reserved.
    pub(crate) fn with_spare(self, spare: usize) -> Self {
        Self { spare, ..self }
    }

    /// A place for a connection that may last, and the connection that must end for it; `None` if
    /// the newcomer is refused.
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
            // Of all connections and the newcomer, which is refused if it is the last itself.
            let last = self.order(&claim, reservations).pop()??;
            Some(self.evict(self.idlest(last, now)))
        };
        Some((self.seat(connection, claim, now), evicted))
    }

    /// A place for a connection that is served soon and can be ended then. Where [`Self::take`]
    /// would refuse it, it gets the place of a connection of the group with the most nevertheless,
    /// unless all of these were active less than 50 ms ago.
    ///
    /// # Errors
    /// When to try again.
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
        // Without any the places are all reserved, which is so for very few alone.
        let last = order.into_iter().flatten().last().unwrap_or(0);
        let at = self.idlest(last, now);
        if self.seats[at].is_fresh(now) {
            return Err(self.seats[at].last_activity() + GRACE);
        }
        let evicted = self.evict(at);
        Ok((self.seat(connection, claim.clone(), now), Some(evicted)))
    }

    /// Whether a place is free.
    fn has_room(&mut self) -> bool {
        self.seats.retain(|seat| !seat.left.load(Ordering::Relaxed));
        self.seats.len() < self.most
    }

    /// Whether a spare place is free for a claim whose promise does not have all its places yet.
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

    /// The connections without a reserved place, and the newcomer (`None`) as one more: the most
    /// entitled first.
    fn order(&self, newcomer: &Claim, reservations: &Reservations) -> Vec<Option<usize>> {
        let at = self.end_of(newcomer);
        let mut all: Vec<(&Claim, u64)> = Vec::with_capacity(self.seats.len() + 1);
        all.extend(self.seats.iter().map(|seat| (&seat.claim, seat.age)));
        all.insert(at, (newcomer, self.next));
        let order = division::unreserved(&all, at, reservations, self.most);
        let seat = |entry: division::Entry| match entry.at {
            n if n == at => None,
            n => Some(n - usize::from(n > at)),
        };
        order.into_iter().map(seat).collect()
    }

    /// The connection of a place's group that has been at rest for longest, of those that have had
    /// their time: first one for which no request is worked on.
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

    /// Where the places of a claim's group end.
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
    /// What its place is divided by, from the first to the last.
    fn key(&self) -> (Owner, &str, Option<i32>) {
        (self.peer.owner(), &self.volume, self.peer.pid())
    }
}

impl Seat {
    /// It has not had its time yet.
    fn is_fresh(&self, now: Instant) -> bool {
        now < self.last_activity() + GRACE
    }

    fn last_activity(&self) -> Instant {
        Instant::from_nanos(self.last_activity.load(Ordering::Relaxed))
    }
}

impl Ticket {
    /// For a client that is not among the connections that there may be, and so has no place to lose.
    pub(crate) fn uncounted(connection: u64) -> Self {
        let claim = Claim {
            peer: Peer::unknown(),
            volume: "".into(),
        };
        Places::new(1).seat(connection, claim, Instant::ZERO)
    }

    /// The connection's peer.
    pub(crate) fn peer(&self) -> Peer {
        self.0.claim.peer
    }

    /// The connection belongs to a shard now.
    pub(crate) fn serve(&self, shard: usize) {
        self.0.shard.store(shard, Ordering::Relaxed);
    }

    /// The connection has lost its place to another.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.left.load(Ordering::Relaxed)
    }

    /// The server begins to work on a request of the connection, or has done so.
    pub fn note_work(&self, now: Instant, works: bool) {
        self.0.works.store(works, Ordering::Relaxed);
        self.note_activity(now);
    }

    /// The connection has sent or taken something.
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
