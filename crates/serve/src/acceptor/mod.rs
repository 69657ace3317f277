//! The thread that accepts clients. It conducts many handshakes concurrently, each with a deadline,
//! and passes each connection on to the shard of the volume that the client has chosen. The
//! messages of a handshake depend on its front end (see [`ClientHandshake`]).
//!
//! [`spawn`] starts the thread, and [`AcceptorHandle`] controls it.

mod handshake;
mod listener;
mod table;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use weir_config::Limits;

use crate::access::{ClientCredentials, RefusalReason, Refusals};
use crate::clock::ServerClock;
use crate::created::Created;
use crate::places::{Peer, PlaceWatch, Places, counts_by_peer, spare};
use crate::shard::{ClientArrival, Mail, ShardAddress};
use handshake::Opening;
pub(crate) use handshake::{ClientHandshake, HandshakeProgress};
pub use listener::number;
pub(crate) use listener::{ListenRefusal, Listener, Sockets, tcp};
use table::AcceptedClient;
pub(crate) use table::{ExportTable, PlaceOffer, VolumeExport, VolumeLocation};

/// The maximum number of concurrent handshakes. They do not count as connections. If the maximum is
/// reached, a new handshake replaces another one (see [`Acceptor::first_to_go`]).
const OPENINGS: usize = 256;
/// The time during which a new handshake cannot be replaced. 256 handshakes per 20 ms let a flood
/// pass at 12,800 per second, so that a client behind a few thousand silent ones is served soon.
const GRACE: Duration = Duration::from_millis(20);
/// The maximum number of clients that are accepted on one listener before the handshakes in
/// progress continue.
const ACCEPTS: usize = 16;

/// The lines of the log for connections that a shard has to end.
const FOR_ANOTHER: &str =
    "the server closes a connection to make room for another (limits.connections)";
const NOT_PERMITTED: &str =
    "the server closes a connection, because the volume does not permit the client any more";

/// A function that begins the handshake of a front end with a client that has connected.
pub(crate) type Greet = Arc<dyn Fn(OwnedFd) -> Box<dyn ClientHandshake> + Send + Sync>;

/// A listening address, with the front end that serves its clients.
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) greet: Greet,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

/// A handle for other threads, to control the acceptor.
#[derive(Debug)]
pub(crate) struct AcceptorHandle {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    /// A reference to a token that the thread holds until it ends.
    pub(crate) alive: Weak<()>,
    /// The exports for clients. A reload replaces them.
    exports: Arc<RwLock<ExportTable>>,
    /// Messages to the running thread.
    changes: Sender<AcceptorChange>,
    /// The files of Unix sockets, which are removed together with their doors.
    sockets: Vec<Created>,
}

/// A message to a running acceptor.
#[derive(Debug)]
enum AcceptorChange {
    Open(Door),
    Close(weir_config::ListenAddress),
    /// End the connections of clients that the exports do not permit any more.
    CheckClients,
}

/// A connection that was handed over to a shard.
#[derive(Debug)]
struct ServedClient {
    place: PlaceWatch,
    shard: usize,
    volume: String,
    credentials: ClientCredentials,
}

#[derive(Debug)]
struct Stop {
    wanted: AtomicBool,
    /// The eventfd that wakes the thread, either to stop or for an [`AcceptorChange`].
    event: OwnedFd,
}

impl Stop {
    fn wake(&self) {
        // A write fails only if the counter would overflow (eventfd(2)), which needs 2^64 - 1 calls
        // without a read.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AcceptorHandle {
    /// Replaces the exports from which clients can choose.
    pub(crate) fn offer(&self, table: ExportTable) {
        match self.exports.write() {
            Ok(mut exports) => *exports = table,
            // A table is replaced as a whole, so that it is valid even if another thread has
            // panicked.
            Err(poisoned) => *poisoned.into_inner() = table,
        }
    }

    /// Accepts clients at additional doors. Clients that have already connected to their sockets
    /// are the first.
    pub(crate) fn open(&mut self, doors: Vec<Door>) {
        for mut door in doors {
            self.sockets.extend(settled(&mut door));
            self.change(AcceptorChange::Open(door));
        }
    }

    /// Stops accepting clients at the door of a path, and removes its socket at once. Existing
    /// connections stay.
    pub(crate) fn close(&mut self, path: &Path) {
        self.sockets.retain(|socket| socket.path() != path);
        self.change(AcceptorChange::Close(weir_config::ListenAddress::Unix(
            path.to_owned(),
        )));
    }

    /// Ends the connections of clients that the exports do not permit any more, soon after this
    /// call. Requests that were taken from them are answered.
    pub(crate) fn check_clients(&self) {
        self.change(AcceptorChange::CheckClients);
    }

    fn change(&self, change: AcceptorChange) {
        // If the thread has ended, it has logged the reason, and no client is accepted anyway.
        let _ = self.changes.send(change);
        self.stop.wake();
    }

    /// Ends the thread. No further clients are accepted, and handshakes in progress are dropped.
    pub(crate) fn stop(&mut self) {
        self.stop.wanted.store(true, Ordering::SeqCst);
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
        self.sockets.clear();
    }
}

impl Drop for AcceptorHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread, which accepts clients at `doors`.
pub(crate) fn spawn(
    mut doors: Vec<Door>,
    exports: ExportTable,
    shards: Vec<ShardAddress>,
    limits: Limits,
    (clock, next): (ServerClock, Arc<AtomicU64>),
    refusals: Arc<Refusals>,
) -> io::Result<AcceptorHandle> {
    let stop = Arc::new(Stop {
        wanted: AtomicBool::new(false),
        event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
    });
    let exports = Arc::new(RwLock::new(exports));
    // Without the thread, these are dropped, which removes the sockets again.
    let mut sockets: Vec<Created> = doors
        .iter_mut()
        .filter_map(|door| door.listener.created())
        .collect();
    let (changes, asked) = channel();
    let acceptor = Acceptor {
        doors,
        changes: asked,
        stop: Arc::clone(&stop),
        exports: Arc::clone(&exports),
        shards,
        limits,
        places: RefCell::new(
            Places::new(limits.connections as usize).with_spare(spare(limits.connections)),
        ),
        clock,
        next,
        refusals,
        openings: Vec::new(),
        served: Vec::new(),
        retry_at: None,
    };
    let lives = Arc::new(());
    let alive = Arc::downgrade(&lives);
    let thread = std::thread::Builder::new()
        .name("weir-accept".to_owned())
        .spawn(move || {
            acceptor.run();
            drop(lives);
        })?;
    // Nothing can fail any more, so sockets that were set aside are removed.
    sockets.iter_mut().for_each(Created::settle);
    Ok(AcceptorHandle {
        stop,
        thread: Some(thread),
        alive,
        exports,
        changes,
        sockets,
    })
}

/// Takes the file of a door's Unix socket, after removing the one that was set aside for it.
fn settled(door: &mut Door) -> Option<Created> {
    let mut created = door.listener.created()?;
    created.settle();
    Some(created)
}

/// The state of the acceptor's thread.
#[derive(Debug)]
struct Acceptor {
    doors: Vec<Door>,
    changes: Receiver<AcceptorChange>,
    stop: Arc<Stop>,
    exports: Arc<RwLock<ExportTable>>,
    shards: Vec<ShardAddress>,
    limits: Limits,
    places: RefCell<Places>,
    clock: ServerClock,
    /// The number of the next connection.
    next: Arc<AtomicU64>,
    refusals: Arc<Refusals>,
    openings: Vec<Opening>,
    /// The connections of shards, with some that have ended.
    served: Vec<ServedClient>,
    /// The time when accepting continues after it failed for lack of descriptors.
    retry_at: Option<Instant>,
}

impl Acceptor {
    fn run(mut self) {
        while !self.stop.wanted.load(Ordering::SeqCst) {
            if let Err(error) = self.turn() {
                tracing::error!(
                    error = weir_config::os_error::message(&error),
                    "the acceptor failed; the server ends, because it cannot accept connections"
                );
                return;
            }
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.expire(now);
        self.retry_at = self.retry_at.filter(|at| *at > now);
        let listens = self.retry_at.is_none() && self.has_room(now);
        let timeout = self.timeout(now, listens);
        let (woken, incoming, ready) = {
            let mut fds = vec![PollFd::new(&self.stop.event, PollFlags::IN)];
            // `advance` and `accept` rely on this order of descriptors: the event, then the
            // handshakes, then the listeners.
            fds.extend(self.openings.iter().map(|o| o.handshake.interest()));
            let doors = self.doors.iter().filter(|_| listens);
            let listeners = doors.map(|door| door.listener.as_fd());
            fds.extend(listeners.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Err(Errno::INTR) => return Ok(()),
                outcome => outcome?,
            };
            let set: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            let (openings, listeners) = set.split_at(self.openings.len());
            let woken = !fds[0].revents().is_empty();
            (woken, listeners.to_vec(), openings.to_vec())
        };
        self.advance(&ready);
        for (index, _) in incoming.iter().enumerate().filter(|(_, ready)| **ready) {
            self.accept(index);
        }
        if woken {
            self.process_changes()?;
        }
        Ok(())
    }

    /// Carries out the requests through the [`AcceptorHandle`].
    fn process_changes(&mut self) -> io::Result<()> {
        // The event is reset before the changes are received, so that a change that arrives
        // afterwards wakes the thread again.
        rustix::io::read(&self.stop.event, &mut [0; 8])?;
        while let Ok(change) = self.changes.try_recv() {
            match change {
                AcceptorChange::Open(door) => self.doors.push(door),
                AcceptorChange::Close(at) => {
                    self.doors.retain(|door| door.listener.address() != at);
                }
                AcceptorChange::CheckClients => self.check_clients(),
            }
        }
        Ok(())
    }

    /// Returns the exports that clients can choose now.
    fn table(&self) -> ExportTable {
        match self.exports.read() {
            Ok(table) => table.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    /// Ends the connections of clients that their volumes do not permit any more.
    fn check_clients(&mut self) {
        let table = self.table();
        for client in &self.served {
            if !client.place.has_left() && !table.permits(&client.volume, &client.credentials) {
                self.refusals.count(RefusalReason::Access);
                let evict = Mail::Evict(client.place.connection(), NOT_PERMITTED);
                self.shards[client.shard].send_mail(evict);
            }
        }
        self.served.retain(|client| !client.place.has_left());
    }

    /// Ends handshakes whose deadline has passed.
    fn expire(&mut self, now: Instant) {
        self.openings.retain(|opening| {
            let late = opening.deadline <= now;
            if late && crate::log::allowed() {
                tracing::warn!(connection = opening.id, peer = %opening.client.name, "a client did not complete the handshake in time; the server closed the connection");
            }
            !late
        });
    }

    /// Returns true if another handshake can begin, possibly in place of another one.
    fn has_room(&self, now: Instant) -> bool {
        self.openings.len() < OPENINGS
            || self
                .first_to_go()
                .is_some_and(|at| self.grace_end(at) <= now)
    }

    /// Returns the handshake that is replaced first. It belongs to the host or user with the most
    /// handshakes, and there to the process with the most. Of these, silent ones come first, and
    /// then the oldest. A peer with few handshakes therefore loses none to a peer with many, and a
    /// client that has sent something loses none to a silent one.
    fn first_to_go(&self) -> Option<usize> {
        let peers: Vec<Peer> = self
            .openings
            .iter()
            .map(|opening| opening.client.peer)
            .collect();
        let counts_by_peer = counts_by_peer(&peers);
        let order = |at: usize| {
            let opening = &self.openings[at];
            (
                Reverse(counts_by_peer[at]),
                !opening.handshake.is_silent(),
                opening.since,
            )
        };
        (0..self.openings.len()).min_by_key(|at| order(*at))
    }

    /// Returns the time until which a handshake cannot be replaced.
    fn grace_end(&self, at: usize) -> Instant {
        self.openings[at].since + GRACE
    }

    fn timeout(&self, now: Instant, listens: bool) -> Option<Timespec> {
        // While all handshakes are in use, the thread also wakes when one of them can be replaced.
        let deadlines = self.openings.iter().map(|o| o.deadline);
        let full = !listens && self.openings.len() >= OPENINGS;
        let chance = full
            .then(|| self.first_to_go())
            .flatten()
            .map(|at| self.grace_end(at));
        let next = deadlines.chain(chance).chain(self.retry_at).min()?;
        Timespec::try_from(next.saturating_duration_since(now)).ok()
    }

    /// Accepts the clients that wait at a listener.
    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            if !self.has_room(Instant::now()) {
                return;
            }
            match self.doors[index].listener.accept() {
                Ok(accepted) => self.open(accepted, index),
                Err(Errno::AGAIN) => return,
                // The client has given up already, or a signal arrived. Both are temporary
                // (accept(2)).
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // The process or the system is out of descriptors. Ending a handshake frees one.
                Err(Errno::MFILE | Errno::NFILE) if !self.openings.is_empty() => self.make_room(),
                Err(errno) => {
                    tracing::warn!(%errno, "the server cannot accept a connection; it tries again in one second");
                    // The socket stays readable, so that polling it again at once would keep the
                    // CPU busy.
                    self.retry_at = Some(Instant::now() + Duration::from_secs(1));
                    return;
                }
            }
        }
    }

    fn open(&mut self, accepted: (OwnedFd, AcceptedClient), door: usize) {
        if self.openings.len() >= OPENINGS {
            self.make_room();
        }
        let timeout = Duration::from_nanos(self.limits.handshake_timeout.as_nanos());
        let greet = &self.doors[door].greet;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.openings
            .push(Opening::new(number, accepted, greet, timeout));
    }

    /// Ends the handshake that [`Self::first_to_go`] selects.
    fn make_room(&mut self) {
        let Some(at) = self.first_to_go() else { return };
        let last = self.openings.remove(at);
        if crate::log::allowed() {
            tracing::warn!(connection = last.id, peer = %last.client.name, "the server closed a connection in its handshake to make room for others");
        }
    }

    /// Continues the handshakes whose descriptors are ready, and hands over those that have
    /// completed.
    fn advance(&mut self, ready: &[bool]) {
        let exports = self.table();
        let mut evicted = Vec::new();
        let mut ready = ready.iter().copied();
        for mut opening in std::mem::take(&mut self.openings) {
            if !ready.next().unwrap_or(false) {
                self.openings.push(opening);
                continue;
            }
            // The place of this connection has gone to another one, so it is dropped.
            if opening.is_lost() {
                continue;
            }
            let next = opening.advance(
                &exports,
                (&self.places, self.clock),
                &self.refusals,
                &mut evicted,
            );
            // The shard learns of the evicted connection before it learns of the newcomer, because
            // messages arrive in their order. The newcomer is therefore not served while the other
            // one still is.
            for evicted in evicted.drain(..) {
                // A connection without a shard is among the handshakes, and is dropped below. A
                // shard that has ended has no connections any more.
                if let Some(shard) = evicted.shard {
                    self.shards[shard].send_mail(Mail::Evict(evicted.connection, FOR_ANOTHER));
                }
            }
            match next {
                HandshakeProgress::Wait => self.openings.push(opening),
                HandshakeProgress::Over(None) => {}
                HandshakeProgress::Over(Some(reason)) => {
                    if crate::log::allowed() {
                        tracing::warn!(connection = opening.id, peer = %opening.client.name, reason, "the handshake with a client failed; the server closed the connection");
                    }
                }
                HandshakeProgress::Chosen(place, volume) => self.hand_over(opening, place, volume),
            }
        }
        self.openings.retain(|opening| !opening.is_lost());
    }

    fn hand_over(&mut self, opening: Opening, place: VolumeLocation, volume: String) {
        let credentials = opening.handshake.credentials(opening.client.origin);
        // The rules can have changed since the client has chosen the volume. From here on,
        // `check_clients` finds the connection, and its message follows the one below.
        if !self.table().permits(&volume, &credentials) {
            return self.refusals.count(RefusalReason::Access);
        }
        let (Some(front), Some(ticket)) = (opening.handshake.attach(), opening.ticket) else {
            return;
        };
        if self.served.len() > 2 * self.limits.connections as usize {
            self.served.retain(|client| !client.place.has_left());
        }
        self.served.push(ServedClient {
            place: ticket.watch(),
            shard: place.shard,
            volume: volume.clone(),
            credentials,
        });
        // From here on, an eviction is a message to this shard.
        ticket.serve(place.shard);
        let arrival = ClientArrival {
            id: opening.id,
            peer: opening.client.name,
            drive: place.drive,
            space: place.space,
            volume,
            front,
            ticket,
        };
        if !self.shards[place.shard].send_mail(Mail::Arrival(Box::new(arrival))) {
            tracing::error!(
                "the server refused a connection, because the shard of the volume has ended"
            );
        }
    }
}
