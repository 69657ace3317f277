//! The places that connections in their transmission phase may have, and which connection gets one when all are taken.
//!
//! A handshake has none: a silent client can keep nobody out. When all are taken, a peer that has fewer than another gets one
//! of that other's that has been at rest for a while (see [`Peer::yields`]); so connections that do nothing hold no more than
//! their peer's part, whatever others come.

mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::Clock;

pub(crate) use peer::{Peer, counts_by_peer};

/// How long a connection must have been at rest to lose its place.
const REST: Duration = Duration::from_secs(1);

/// All of them.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    clock: Clock,
    seats: Vec<Arc<Seat>>,
}

/// A connection's place as the acceptor sees it.
#[derive(Debug)]
struct Seat {
    connection: u64,
    peer: Peer,
    /// The shard that serves it; [`NOWHERE`] while its handshake is not over.
    shard: AtomicUsize,
    /// When it last sent or took something, nanoseconds of the server's clock.
    last_activity: AtomicU64,
    /// It is free, or somebody else's by now.
    left: AtomicBool,
}

const NOWHERE: usize = usize::MAX;

/// A place among the connections there may be; given back when dropped.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<Seat>);

/// A connection that has lost its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Evicted {
    pub(crate) shard: usize,
    pub(crate) connection: u64,
}

impl Places {
    /// `most` places, all of them free.
    pub(crate) fn new(most: u32, clock: Clock) -> Self {
        Self {
            most: most as usize,
            clock,
            seats: Vec::new(),
        }
    }

    /// A place for a connection of a peer, and the connection that has to go for it; `None` if there is none.
    pub(crate) fn take(
        &mut self,
        connection: u64,
        peer: Peer,
    ) -> Option<(Ticket, Option<Evicted>)> {
        self.seats.retain(|seat| !seat.left.load(Ordering::Relaxed));
        let evicted = if self.seats.len() < self.most {
            None
        } else {
            Some(self.evict(peer)?)
        };
        let seat = Arc::new(Seat {
            connection,
            peer,
            shard: AtomicUsize::new(NOWHERE),
            last_activity: AtomicU64::new(self.clock.now().as_nanos()),
            left: AtomicBool::new(false),
        });
        self.seats.push(Arc::clone(&seat));
        Some((Ticket(seat), evicted))
    }

    /// Takes the place of the connection at rest for longest, of the peer that has to yield.
    fn evict(&mut self, peer: Peer) -> Option<Evicted> {
        let peers: Vec<Peer> = self.seats.iter().map(|seat| seat.peer).collect();
        let victim = peer.yields(&peers)?;
        let limit = self.clock.now().as_nanos();
        let limit = limit.checked_sub(REST.as_nanos() as u64)?;
        let of_peer = self.seats.iter().enumerate().filter(|(_, seat)| {
            seat.peer == victim
                && seat.shard.load(Ordering::Relaxed) != NOWHERE
                && seat.last_activity.load(Ordering::Relaxed) <= limit
        });
        let (at, _) = of_peer.min_by_key(|(_, seat)| seat.last_activity.load(Ordering::Relaxed))?;
        let seat = self.seats.swap_remove(at);
        Some(Evicted {
            shard: seat.shard.load(Ordering::Relaxed),
            connection: seat.connection,
        })
    }
}

impl Ticket {
    /// For a client that is not among the connections that there may be, and so has no place to lose.
    pub(crate) fn uncounted(connection: u64) -> Self {
        Self(Arc::new(Seat {
            connection,
            peer: Peer::unknown(),
            shard: AtomicUsize::new(NOWHERE),
            last_activity: AtomicU64::new(0),
            left: AtomicBool::new(false),
        }))
    }

    /// The connection's peer.
    pub(crate) fn peer(&self) -> Peer {
        self.0.peer
    }

    /// The connection belongs to a shard now.
    pub(crate) fn serve(&self, shard: usize) {
        self.0.shard.store(shard, Ordering::Relaxed);
    }

    /// The connection has sent or taken something.
    pub(crate) fn note_activity(&self, now: weir_core::Instant) {
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
mod tests {
    use super::*;
    use weir_core::Span;

    fn peer(address: &str) -> Peer {
        Peer::host(Some(address.parse().unwrap()))
    }

    #[test]
    fn who_rests_yields_to_another_peer_and_who_works_does_not() {
        let (hog, honest) = (peer("10.0.0.1:1"), peer("10.0.0.2:1"));
        // Time enough has passed since the clock began for anyone to have been at rest.
        let clock = Clock::started_before(Duration::from_mins(1));
        let now = clock.now();
        let mut places = Places::new(4, clock);
        let tickets: Vec<Ticket> = (0..4)
            .map(|n| places.take(n, hog).unwrap().0)
            .inspect(|ticket| ticket.serve(7))
            .collect();
        assert!(places.take(9, honest).is_none(), "all have just come");
        let before = |seconds| now.saturating_sub(Span::from_secs(seconds));
        for (ticket, seconds) in tickets.iter().zip([5, 20, 0, 3]) {
            ticket.note_activity(before(seconds));
        }
        let (_kept, evicted) = places.take(9, honest).unwrap();
        let first = Evicted {
            shard: 7,
            connection: 1,
        };
        assert_eq!(evicted, Some(first));
        assert!(places.take(10, hog).is_none(), "it has the most already");
        // The place that was lost does not become free by its owner's end.
        drop(tickets);
        let more: Vec<_> = std::iter::from_fn(|| places.take(11, hog)).collect();
        assert_eq!(more.len(), 3);
    }
}
