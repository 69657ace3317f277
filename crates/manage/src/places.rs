//! The places for the connections of one listener. Some are for short requests, and some for
//! clients that stream events. Both are divided by the rule of [`weir_serve::places`], so that no
//! client can occupy all places of either kind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as SystemInstant};

use tokio::task::AbortHandle;
use weir_core::Instant;
use weir_serve::places::{Claim, Evicted, Peer, Places, Reservations, Ticket};

/// The maximum number of connections of a listener, not counting those that stream events.
const CONNECTIONS: usize = 128;
/// The maximum number of connections of a listener that stream events.
pub(crate) const STREAMS: usize = 64;
/// The claim of the server's own user and of root, in the role that a volume has for other
/// listeners.
const OWN: &str = "own";

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    began: SystemInstant,
    /// Places reserved for root and for the server's own user.
    reservations: Reservations,
    taken: Mutex<PlacesInUse>,
}

#[derive(Debug)]
struct PlacesInUse {
    short: Places,
    streams: Places,
    tasks: BTreeMap<u64, AbortHandle>,
    next: u64,
}

/// The handle of a connection that its requests share.
#[derive(Clone, Debug)]
pub(crate) struct ListenerConnection(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    all: Arc<Connections>,
    number: u64,
    claim: Claim,
    place: Mutex<HeldPlace>,
}

#[derive(Debug)]
enum HeldPlace {
    Short(Ticket),
    Stream(Ticket),
}

/// A guard: the server works on a request of a connection until this is dropped.
#[derive(Debug)]
pub(crate) struct Working(ListenerConnection);

/// Returns the claim of a client, which is `own` for root and the server's own user.
pub(crate) fn claim(peer: Peer, own: bool) -> Claim {
    Claim {
        peer,
        // Only the places of the own user are reserved under a name.
        volume: if own { OWN } else { "" }.into(),
    }
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self {
            began: SystemInstant::now(),
            reservations: Reservations::new([(OWN, OWN)].into_iter()),
            taken: Mutex::new(PlacesInUse {
                short: Places::new(CONNECTIONS),
                streams: Places::new(STREAMS),
                tasks: BTreeMap::new(),
                next: 0,
            }),
        }
    }

    /// Takes a place for a new connection. If no place is free, another connection may be ended for
    /// it.
    ///
    /// # Errors
    /// Returns the time to wait until a connection can be ended.
    pub(crate) fn take(self: &Arc<Self>, claim: &Claim) -> Result<ListenerConnection, Duration> {
        let now = self.now();
        let mut taken = self.lock();
        // Connections that have ended by themselves leave their tasks here.
        taken.tasks.retain(|_, task| !task.is_finished());
        let number = taken.next;
        let place = taken.short.replace(number, claim, now, &self.reservations);
        let (ticket, evicted) =
            place.map_err(|at| Duration::from_nanos(at.since(now).as_nanos()))?;
        // The number identifies the task of a connection and is not reused.
        taken.next += 1;
        taken.end(evicted);
        Ok(ListenerConnection(Arc::new(ConnectionState {
            all: Arc::clone(self),
            number,
            claim: claim.clone(),
            place: Mutex::new(HeldPlace::Short(ticket)),
        })))
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, PlacesInUse> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacesInUse {
    /// Ends the connection that lost its place.
    fn end(&mut self, evicted: Option<Evicted>) {
        if let Some(task) = evicted.and_then(|gone| self.tasks.remove(&gone.connection)) {
            task.abort();
        }
    }
}

impl ListenerConnection {
    /// Sets the task of the connection, which is aborted if the place is needed.
    pub(crate) fn served_by(&self, task: AbortHandle) {
        self.0.all.lock().tasks.insert(self.0.number, task);
    }

    /// Marks the connection as working on a request. Meanwhile, other connections of the same
    /// client are ended first.
    pub(crate) fn work(&self) -> Working {
        self.note_work(true);
        Working(self.clone())
    }

    /// Makes the connection one that streams events, for an unlimited time. Returns false if no
    /// place for it is free.
    pub(crate) fn stream(&self) -> bool {
        let ConnectionState {
            all, number, claim, ..
        } = &*self.0;
        let mut place = self.place();
        // A connection can request the events again.
        if matches!(*place, HeldPlace::Stream(_)) {
            return true;
        }
        let mut taken = all.lock();
        let streams = &mut taken.streams;
        let found = streams.take(*number, claim.clone(), all.now(), &all.reservations);
        let Some((ticket, evicted)) = found else {
            return false;
        };
        taken.end(evicted);
        // The place for short requests becomes free when its ticket is dropped here.
        *place = HeldPlace::Stream(ticket);
        true
    }

    /// Returns true if the connection streams events.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(*self.place(), HeldPlace::Stream(_))
    }

    fn note_work(&self, works: bool) {
        let now = self.0.all.now();
        match &*self.place() {
            HeldPlace::Short(ticket) | HeldPlace::Stream(ticket) => ticket.note_work(now, works),
        }
    }

    fn place(&self) -> MutexGuard<'_, HeldPlace> {
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.note_work(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> Claim {
        claim(Peer::host(Some(([10, 0, 0, number], 1).into())), false)
    }

    fn own() -> Claim {
        claim(host(0).peer, true)
    }

    fn connect(all: &Arc<Connections>, claim: &Claim) -> ListenerConnection {
        loop {
            match all.take(claim) {
                Ok(connection) => break connection,
                Err(wait) => std::thread::sleep(wait),
            }
        }
    }

    /// Opens as many event streams as one client can have.
    fn listen(all: &Arc<Connections>, claim: &Claim) -> Vec<ListenerConnection> {
        let connections = std::iter::repeat_with(|| connect(all, claim));
        connections.take_while(ListenerConnection::stream).collect()
    }

    #[test]
    fn events_are_divided_and_the_own_user_has_places_of_its_own() {
        let all = Arc::new(Connections::new());
        let (hog, other) = (listen(&all, &host(1)), listen(&all, &host(2)));
        // The first client takes all 64 places, and the second is entitled to half of them.
        assert_eq!((hog.len(), other.len()), (64, 32));
        let own = listen(&all, &own());
        // The 16 reserved places, and a third of the 48 others.
        assert_eq!(own.len(), 32);
        assert!(own[0].stream() && own[0].is_stream(), "once is enough");
    }

    #[test]
    fn a_newcomer_of_another_user_does_not_wait() {
        let all = Arc::new(Connections::new());
        let hog = host(1);
        let held: Vec<ListenerConnection> = (0..CONNECTIONS).map(|_| connect(&all, &hog)).collect();
        let working: Vec<Working> = held.iter().map(ListenerConnection::work).collect();
        let wait = all.take(&hog).map(|_| ()).unwrap_err();
        assert!(wait <= Duration::from_millis(50), "{wait:?}");
        assert!(all.take(&own()).is_ok() && all.take(&host(2)).is_ok());
        drop(working);
    }
}
