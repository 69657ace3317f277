//! The thread that listens: many handshakes at once, each under a deadline, then off to the volume's shard. What is said in one is its
//! front end's ([`Handshake`]).

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

use crate::clock::Clock;
use crate::created::Created;
use crate::places::{Peer, Places, counts_by_peer, spare};
use crate::shard::{Address, Arrival, Mail};
use handshake::Opening;
pub(crate) use handshake::{Handshake, Next};
pub use listener::number;
pub(crate) use listener::{Listener, Refusal, Sockets, tcp};
pub(crate) use table::{Export, Offer, Place, Table};

/// Handshakes at a time; they are not among the connections that there may be. When there are as many, one makes room: see
/// [`Acceptor::first_to_go`].
const OPENINGS: usize = 256;
/// How long a handshake is safe from making room. Together they say how fast a flood is let through: 12,800 a second, so that
/// a client behind a few thousand silent ones is soon heard.
const GRACE: Duration = Duration::from_millis(20);
/// Clients accepted on one listener between two looks at the handshakes under way.
const ACCEPTS: usize = 16;

/// Begins the handshake of a front end with a client that has connected.
pub(crate) type Greet = Arc<dyn Fn(OwnedFd) -> Box<dyn Handshake> + Send + Sync>;

/// An address that clients connect to, and the front end that they meet there.
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

/// The running acceptor as other threads see it.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    /// The thread has what this refers to until it ends.
    pub(crate) alive: Weak<()>,
    /// What it can offer; replaced by a reload.
    exports: Arc<RwLock<Table>>,
    /// Doors that come while it runs, and addresses of those that go.
    changes: Sender<Change>,
    /// Sockets at paths, which go with their doors.
    sockets: Vec<Created>,
}

/// What becomes of a door while the acceptor runs.
#[derive(Debug)]
enum Change {
    Open(Door),
    Close(weir_config::Address),
}

#[derive(Debug)]
struct Stop {
    wanted: AtomicBool,
    /// Wakes the thread, for the end as for a [`Change`].
    event: OwnedFd,
}

impl Stop {
    fn wake(&self) {
        // The counter cannot overflow; nothing else can fail.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl Handle {
    /// Replaces what clients can choose from.
    pub(crate) fn offer(&self, table: Table) {
        match self.exports.write() {
            Ok(mut exports) => *exports = table,
            Err(poisoned) => *poisoned.into_inner() = table,
        }
    }

    /// Lets clients in at further doors; those that have connected there meanwhile are the first.
    pub(crate) fn open(&mut self, doors: Vec<Door>) {
        for mut door in doors {
            self.sockets.extend(settled(&mut door));
            self.change(Change::Open(door));
        }
    }

    /// Lets nobody in any more at the door of a path, which is free at once. Clients that are in stay.
    pub(crate) fn close(&mut self, path: &Path) {
        self.sockets.retain(|socket| socket.path() != path);
        self.change(Change::Close(weir_config::Address::Unix(path.to_owned())));
    }

    fn change(&self, change: Change) {
        // A thread that has ended has said so: nobody is let in at all.
        let _ = self.changes.send(change);
        self.stop.wake();
    }

    /// Ends the thread: nobody is accepted any more, and handshakes under way are dropped.
    pub(crate) fn stop(&mut self) {
        self.stop.wanted.store(true, Ordering::SeqCst);
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A fault there has said so already.
            let _ = thread.join();
        }
        self.sockets.clear();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread.
pub(crate) fn spawn(
    mut doors: Vec<Door>,
    exports: Table,
    shards: Vec<Address>,
    limits: Limits,
    (clock, next): (Clock, Arc<AtomicU64>),
) -> io::Result<Handle> {
    let stop = Arc::new(Stop {
        wanted: AtomicBool::new(false),
        event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
    });
    let exports = Arc::new(RwLock::new(exports));
    // They go again if the thread cannot be had.
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
        openings: Vec::new(),
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
    // Nothing is refused any more.
    sockets.iter_mut().for_each(Created::settle);
    Ok(Handle {
        stop,
        thread: Some(thread),
        alive,
        exports,
        changes,
        sockets,
    })
}

/// What was made for a door at a path, if it is at one, once nothing is refused any more.
fn settled(door: &mut Door) -> Option<Created> {
    let mut created = door.listener.created()?;
    created.settle();
    Some(created)
}

/// The state of the thread.
#[derive(Debug)]
struct Acceptor {
    doors: Vec<Door>,
    changes: Receiver<Change>,
    stop: Arc<Stop>,
    exports: Arc<RwLock<Table>>,
    shards: Vec<Address>,
    limits: Limits,
    places: RefCell<Places>,
    clock: Clock,
    /// The number of the next connection.
    next: Arc<AtomicU64>,
    openings: Vec<Opening>,
    /// After an accept that failed for want of descriptors: when to listen again.
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
            self.change_doors()?;
        }
        Ok(())
    }

    /// Opens and closes doors as it is told.
    fn change_doors(&mut self) -> io::Result<()> {
        // Before the changes are looked for: one that comes later wakes anew.
        rustix::io::read(&self.stop.event, &mut [0; 8])?;
        while let Ok(change) = self.changes.try_recv() {
            match change {
                Change::Open(door) => self.doors.push(door),
                Change::Close(at) => self.doors.retain(|door| door.listener.address() != at),
            }
        }
        Ok(())
    }

    /// Ends handshakes that have taken too long.
    fn expire(&mut self, now: Instant) {
        self.openings.retain(|opening| {
            let late = opening.deadline <= now;
            if late && crate::log::allowed() {
                tracing::warn!(connection = opening.id, peer = %opening.name, "a client did not complete the handshake in time; the server closed the connection");
            }
            !late
        });
    }

    /// Whether another handshake can begin, if need be in place of another.
    fn has_room(&self, now: Instant) -> bool {
        self.openings.len() < OPENINGS
            || self
                .first_to_go()
                .is_some_and(|at| self.grace_end(at) <= now)
    }

    /// The handshake that makes room first: of the host or user with the most of them, of its process with the most, one that has
    /// said nothing, the oldest. So a peer with few loses none to a peer with many, and a client that speaks loses none to a silent one.
    fn first_to_go(&self) -> Option<usize> {
        let peers: Vec<Peer> = self.openings.iter().map(|opening| opening.peer).collect();
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

    /// Until when a handshake is safe.
    fn grace_end(&self, at: usize) -> Instant {
        self.openings[at].since + GRACE
    }

    fn timeout(&self, now: Instant, listens: bool) -> Option<Timespec> {
        let deadlines = self.openings.iter().map(|o| o.deadline);
        let full = !listens && self.openings.len() >= OPENINGS;
        let chance = full
            .then(|| self.first_to_go())
            .flatten()
            .map(|at| self.grace_end(at));
        let next = deadlines.chain(chance).chain(self.retry_at).min()?;
        Timespec::try_from(next.saturating_duration_since(now)).ok()
    }

    /// Takes in the clients that wait at a listener.
    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            if !self.has_room(Instant::now()) {
                return;
            }
            match self.doors[index].listener.accept() {
                Ok(accepted) => self.open(accepted, index),
                Err(Errno::AGAIN) => return,
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // Of the descriptors there are the handshakes have some.
                Err(Errno::MFILE | Errno::NFILE) if !self.openings.is_empty() => self.make_room(),
                Err(errno) => {
                    tracing::warn!(%errno, "the server cannot accept a connection; it tries again in one second");
                    self.retry_at = Some(Instant::now() + Duration::from_secs(1));
                    return;
                }
            }
        }
    }

    fn open(&mut self, accepted: (OwnedFd, Peer, String), door: usize) {
        if self.openings.len() >= OPENINGS {
            self.make_room();
        }
        let timeout = Duration::from_nanos(self.limits.handshake_timeout.as_nanos());
        let greet = &self.doors[door].greet;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.openings
            .push(Opening::new(number, accepted, greet, timeout));
    }

    /// Ends the handshake that makes room first.
    fn make_room(&mut self) {
        let Some(at) = self.first_to_go() else { return };
        let last = self.openings.remove(at);
        if crate::log::allowed() {
            tracing::warn!(connection = last.id, peer = %last.name, "the server closed a connection in its handshake to make room for others");
        }
    }

    /// Goes on with the handshakes that can; hands over those that are done.
    fn advance(&mut self, ready: &[bool]) {
        let exports = match self.exports.read() {
            Ok(table) => table.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        let mut evicted = Vec::new();
        let mut ready = ready.iter().copied();
        for mut opening in std::mem::take(&mut self.openings) {
            if !ready.next().unwrap_or(false) {
                self.openings.push(opening);
                continue;
            }
            if opening.is_lost() {
                continue;
            }
            let next = opening.advance(&exports, (&self.places, self.clock), &mut evicted);
            // The connection that has to go hears of it before its shard hears of the newcomer, so the newcomer is not answered first.
            for evicted in evicted.drain(..) {
                // One that no shard has is among the handshakes. A shard that has ended has no
                // connections any more.
                if let Some(shard) = evicted.shard {
                    self.shards[shard].tell(Mail::Evict(evicted.connection));
                }
            }
            match next {
                Next::Wait => self.openings.push(opening),
                Next::Over(None) => {}
                Next::Over(Some(reason)) => {
                    if crate::log::allowed() {
                        tracing::warn!(connection = opening.id, peer = %opening.name, reason, "the handshake with a client failed; the server closed the connection");
                    }
                }
                Next::Chosen(place, volume) => self.hand_over(opening, place, volume),
            }
        }
        self.openings.retain(|opening| !opening.is_lost());
    }

    fn hand_over(&mut self, opening: Opening, place: Place, volume: String) {
        let (Some(front), Some(ticket)) = (opening.handshake.attach(), opening.ticket) else {
            return;
        };
        ticket.serve(place.shard);
        let arrival = Arrival {
            id: opening.id,
            peer: opening.name,
            drive: place.drive,
            space: place.space,
            volume,
            front,
            ticket,
        };
        if !self.shards[place.shard].tell(Mail::Arrival(Box::new(arrival))) {
            tracing::error!(
                "the server refused a connection, because the shard of the volume has ended"
            );
        }
    }
}
