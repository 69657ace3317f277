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
use crate::created::{Created, Identity};
use crate::places::{Claim, Peer, PlaceWatch, Places, counts_by_peer, spare};
use crate::shard::{Attach, ClientArrival, Mail, ShardAddress};
use handshake::Opening;
pub(crate) use handshake::{ClientHandshake, HandshakeProgress};
pub use listener::number;
pub(crate) use listener::{InheritedListeners, ListenRefusal, Listener, Sockets};
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
    /// The key of the address in the configuration.
    pub(crate) key: String,
    pub(crate) listener: Listener,
    pub(crate) greet: Greet,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("key", &self.key)
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
    /// Return the keys and duplicates of all listening sockets.
    Listeners(Sender<Vec<(String, io::Result<OwnedFd>)>>),
    /// Stop accepting. Complete the handshakes in progress until the given time, leave the others
    /// as they are, and return the connections of shards.
    Pause(Instant, Sender<Vec<ConnectionRecord>>),
    /// Accept clients again.
    Resume,
}

/// A connection of a shard, for another process.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRecord {
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    pub(crate) credentials: ClientCredentials,
}

/// A client that another process has handed over.
#[derive(Debug)]
pub(crate) struct InheritedClient {
    pub(crate) connection: ConnectionRecord,
    /// The name for the log.
    pub(crate) name: String,
    pub(crate) volume: String,
    pub(crate) front: Box<dyn Attach>,
}

/// The parts of the server that the acceptor uses.
#[derive(Debug)]
pub(crate) struct AcceptorContext {
    pub(crate) shards: Vec<ShardAddress>,
    pub(crate) limits: Limits,
    pub(crate) clock: ServerClock,
    /// The number of the next connection.
    pub(crate) next: Arc<AtomicU64>,
    pub(crate) refusals: Arc<Refusals>,
}

/// The progress of a pause.
#[derive(Debug)]
enum AcceptorPause {
    /// Handshakes in progress are completed until the given time.
    Completing(Instant, Sender<Vec<ConnectionRecord>>),
    /// Nothing happens until clients are accepted again.
    Paused,
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

    /// Returns the key and a duplicate of each listening socket.
    ///
    /// # Errors
    /// Returns the system's error for a duplicate, or an error if the thread has ended.
    pub(crate) fn listeners(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let (wanted, listeners) = channel();
        self.change(AcceptorChange::Listeners(wanted));
        let listeners = listeners.recv().map_err(io::Error::other)?;
        listeners
            .into_iter()
            .map(|(key, listener)| Ok((key, listener?)))
            .collect()
    }

    /// Returns the identity of the file of the Unix socket at a path.
    pub(crate) fn file(&self, path: &Path) -> Option<Identity> {
        let file = self.sockets.iter().find(|socket| socket.path() == path);
        file.and_then(Created::identity)
    }

    /// Stops accepting clients, after completing handshakes in progress for at most `within`.
    /// Returns the connections of shards. [`Self::resume`] accepts clients again.
    ///
    /// # Errors
    /// Returns an error if the thread has ended.
    pub(crate) fn pause(&self, within: Duration) -> io::Result<Vec<ConnectionRecord>> {
        let (wanted, paused) = channel();
        self.change(AcceptorChange::Pause(Instant::now() + within, wanted));
        paused.recv().map_err(io::Error::other)
    }

    /// Accepts clients again after [`Self::pause`].
    pub(crate) fn resume(&self) {
        self.change(AcceptorChange::Resume);
    }

    /// Ends the thread and keeps the files of all sockets, because another process listens there.
    pub(crate) fn abandon(&mut self) {
        // Dropping the values would remove the files at which the other process listens.
        for socket in self.sockets.drain(..) {
            let _ = socket.keep();
        }
        self.stop();
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

/// Starts the thread, which accepts clients at `doors`. The inherited clients come first.
pub(crate) fn spawn(
    mut doors: Vec<Door>,
    exports: ExportTable,
    context: AcceptorContext,
    inherited: Vec<InheritedClient>,
) -> io::Result<AcceptorHandle> {
    let AcceptorContext {
        shards,
        limits,
        clock,
        next,
        refusals,
    } = context;
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
    let mut acceptor = Acceptor {
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
        pause: None,
    };
    for client in inherited {
        acceptor.inherit(client);
    }
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
    pause: Option<AcceptorPause>,
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
        // This comes before the sockets are polled, so that a paused acceptor never accepts.
        self.end_pause_of_handshakes(now);
        let is_paused = matches!(self.pause, Some(AcceptorPause::Paused));
        let listens = self.pause.is_none() && self.retry_at.is_none() && self.has_room(now);
        let timeout = self.timeout(now, listens);
        let (woken, incoming, ready) = {
            let mut fds = vec![PollFd::new(&self.stop.event, PollFlags::IN)];
            // `advance` and `accept` rely on this order of descriptors: the event, then the
            // handshakes, then the listeners.
            let openings = self.openings.iter().filter(|_| !is_paused);
            fds.extend(openings.map(|o| o.handshake.interest()));
            let doors = self.doors.iter().filter(|_| listens);
            let listeners = doors.map(|door| door.listener.as_fd());
            fds.extend(listeners.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Err(Errno::INTR) => return Ok(()),
                outcome => outcome?,
            };
            let set: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            let openings = if is_paused { 0 } else { self.openings.len() };
            let (openings, listeners) = set.split_at(openings);
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
                AcceptorChange::Listeners(wanted) => {
                    // The receiver waits, unless its thread has panicked.
                    let _ = wanted.send(self.listeners());
                }
                AcceptorChange::Pause(until, done) => {
                    self.pause = Some(AcceptorPause::Completing(until, done));
                }
                AcceptorChange::Resume => self.pause = None,
            }
        }
        Ok(())
    }

    fn listeners(&self) -> Vec<(String, io::Result<OwnedFd>)> {
        let doors = self.doors.iter();
        let listener = |door: &Door| door.listener.as_fd().try_clone_to_owned();
        doors
            .map(|door| (door.key.clone(), listener(door)))
            .collect()
    }

    /// Reports a pause once no handshake is in progress, or when its time is over.
    fn end_pause_of_handshakes(&mut self, now: Instant) {
        match self.pause.take() {
            Some(AcceptorPause::Completing(until, done))
                if self.openings.is_empty() || until <= now =>
            {
                self.served.retain(|client| !client.place.has_left());
                let served = self.served.iter().map(|client| ConnectionRecord {
                    id: client.place.connection(),
                    peer: client.place.peer(),
                    credentials: client.credentials.clone(),
                });
                // If the receiver has given up, it resumes.
                let _ = done.send(served.collect());
                self.pause = Some(AcceptorPause::Paused);
            }
            pause => self.pause = pause,
        }
    }

    /// Serves a client that another process has handed over.
    fn inherit(&mut self, client: InheritedClient) {
        let table = self.table();
        let exports = table.exports();
        let Some(export) = exports.iter().find(|e| e.name == client.volume) else {
            return;
        };
        let ConnectionRecord {
            id,
            peer,
            credentials,
        } = client.connection;
        let claim = Claim {
            peer,
            volume: client.volume.as_str().into(),
        };
        // Reservations may have changed, but a client that was served is not disconnected for that.
        let ticket = (self.places.get_mut()).inherit(id, claim, self.clock.now());
        self.serve(
            export.place,
            credentials,
            ClientArrival {
                id,
                peer: client.name,
                drive: export.place.drive,
                space: export.place.space,
                volume: client.volume,
                front: client.front,
                ticket,
                is_inherited: true,
            },
        );
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
        let pause = match &self.pause {
            Some(AcceptorPause::Completing(until, _)) => Some(*until),
            Some(AcceptorPause::Paused) | None => None,
        };
        let next = deadlines.chain(chance).chain(self.retry_at);
        let next = next.chain(pause).min()?;
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
        let arrival = ClientArrival {
            id: opening.id,
            peer: opening.client.name,
            drive: place.drive,
            space: place.space,
            volume,
            front,
            ticket,
            is_inherited: false,
        };
        self.serve(place, credentials, arrival);
    }

    /// Passes a client to the shard of its volume.
    fn serve(
        &mut self,
        place: VolumeLocation,
        credentials: ClientCredentials,
        arrival: ClientArrival,
    ) {
        if self.served.len() > 2 * self.limits.connections as usize {
            self.served.retain(|client| !client.place.has_left());
        }
        self.served.push(ServedClient {
            place: arrival.ticket.watch(),
            shard: place.shard,
            volume: arrival.volume.clone(),
            credentials,
        });
        // From here on, an eviction is a message to this shard.
        arrival.ticket.serve(place.shard);
        if !self.shards[place.shard].send_mail(Mail::Arrival(Box::new(arrival))) {
            tracing::error!(
                "the server refused a connection, because the shard of the volume has ended"
            );
        }
    }
}
