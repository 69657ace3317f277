//! The thread that listens: many handshakes at once, each under a deadline, then off to the volume's shard.

mod exports;
mod handshake;
mod listener;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use weir_config::Limits;

use crate::shard::{Address, Arrival, Mail};
pub(crate) use exports::{Export, Place, Table};
use handshake::{Next, Opening};
pub(crate) use listener::Listener;

/// Handshakes at a time. When there are as many, the oldest makes room if it has had its chance.
const OPENINGS: usize = 256;
/// How long a handshake is safe from making room.
const CHANCE: Duration = Duration::from_millis(500);

/// A place among the connections there may be; given back when dropped.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<AtomicU32>);

impl Ticket {
    pub(crate) fn take(count: &Arc<AtomicU32>, most: u32) -> Option<Self> {
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < most).then_some(n + 1)
        });
        taken.ok().map(|_| Self(Arc::clone(count)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The running acceptor as other threads see it.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    /// What it can offer; replaced by a reload.
    exports: Arc<RwLock<Table>>,
    /// Socket files to be removed at the end.
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct Stop {
    wanted: AtomicBool,
    event: OwnedFd,
}

impl Handle {
    /// Replaces what clients can choose from.
    pub(crate) fn offer(&self, table: Table) {
        match self.exports.write() {
            Ok(mut exports) => *exports = table,
            Err(poisoned) => *poisoned.into_inner() = table,
        }
    }

    /// Ends the thread: nobody is accepted any more, and handshakes under way are dropped.
    pub(crate) fn stop(&mut self) {
        self.stop.wanted.store(true, Ordering::SeqCst);
        // The counter cannot overflow; nothing else can fail.
        let _ = rustix::io::write(&self.stop.event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A fault there has said so already.
            let _ = thread.join();
        }
        for path in self.paths.drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread.
pub(crate) fn spawn(
    listeners: Vec<Listener>,
    exports: Table,
    shards: Vec<Address>,
    limits: Limits,
) -> io::Result<Handle> {
    let stop = Arc::new(Stop {
        wanted: AtomicBool::new(false),
        event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
    });
    let exports = Arc::new(RwLock::new(exports));
    let paths = listeners.iter().filter_map(Listener::path).collect();
    let acceptor = Acceptor {
        listeners,
        stop: Arc::clone(&stop),
        exports: Arc::clone(&exports),
        shards,
        limits,
        connections: Arc::new(AtomicU32::new(0)),
        next: 1,
        openings: Vec::new(),
        rest: None,
    };
    let thread = std::thread::Builder::new()
        .name("weir-accept".to_owned())
        .spawn(move || acceptor.run())?;
    Ok(Handle {
        stop,
        thread: Some(thread),
        exports,
        paths,
    })
}

/// The state of the thread.
#[derive(Debug)]
struct Acceptor {
    listeners: Vec<Listener>,
    stop: Arc<Stop>,
    exports: Arc<RwLock<Table>>,
    shards: Vec<Address>,
    limits: Limits,
    connections: Arc<AtomicU32>,
    /// The number of the next connection.
    next: u64,
    openings: Vec<Opening>,
    /// After an accept that failed for want of descriptors: when to listen again.
    rest: Option<Instant>,
}

impl Acceptor {
    fn run(mut self) {
        while !self.stop.wanted.load(Ordering::SeqCst) {
            if let Err(error) = self.turn() {
                tracing::error!(%error, "the acceptor ends: no further connection is accepted");
                return;
            }
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.expire(now);
        self.rest = self.rest.filter(|at| *at > now);
        let listens = self.rest.is_none() && self.has_room(now);
        let timeout = self.timeout(now, listens);
        let (incoming, ready) = {
            let mut fds = vec![PollFd::new(&self.stop.event, PollFlags::IN)];
            fds.extend(self.openings.iter().map(Opening::interest));
            let listeners = self.listeners.iter().filter(|_| listens);
            fds.extend(listeners.map(|l| PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN)));
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Err(Errno::INTR) => return Ok(()),
                outcome => outcome?,
            };
            let set: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            let (openings, listeners) = set.split_at(self.openings.len());
            (listeners.to_vec(), openings.to_vec())
        };
        self.advance(&ready);
        for (index, _) in incoming.iter().enumerate().filter(|(_, ready)| **ready) {
            self.accept(index);
        }
        Ok(())
    }

    /// Ends handshakes that have taken too long.
    fn expire(&mut self, now: Instant) {
        self.openings.retain(|opening| {
            let late = opening.deadline <= now;
            if late && crate::log::allowed() {
                tracing::warn!(connection = opening.id, peer = %opening.peer, "the handshake took too long");
            }
            !late
        });
    }

    /// Whether another handshake can begin, if need be in place of the oldest.
    fn has_room(&self, now: Instant) -> bool {
        let oldest = self.openings.first();
        self.openings.len() < OPENINGS || oldest.is_some_and(|o| o.since + CHANCE <= now)
    }

    fn timeout(&self, now: Instant, listens: bool) -> Option<Timespec> {
        let deadlines = self.openings.iter().map(|o| o.deadline);
        let chance = self
            .openings
            .first()
            .filter(|_| !listens)
            .map(|o| o.since + CHANCE);
        let next = deadlines.chain(chance).chain(self.rest).min()?;
        Timespec::try_from(next.saturating_duration_since(now)).ok()
    }

    fn accept(&mut self, index: usize) {
        let accepted = self.listeners[index].accept();
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return,
            Err(errno) => {
                tracing::warn!(%errno, "cannot accept a connection: trying again in a second");
                self.rest = Some(Instant::now() + Duration::from_secs(1));
                return;
            }
        };
        let Some(ticket) = Ticket::take(&self.connections, self.limits.connections) else {
            if crate::log::allowed() {
                let most = self.limits.connections;
                tracing::warn!(%peer, most, "refused: there are as many connections as there may be (limits.connections)");
            }
            return;
        };
        if self.openings.len() >= OPENINGS {
            let oldest = self.openings.remove(0);
            tracing::warn!(connection = oldest.id, peer = %oldest.peer, "the handshake makes room for others");
        }
        let timeout = Duration::from_nanos(self.limits.handshake_timeout.as_nanos());
        self.openings
            .push(Opening::new(self.next, peer, socket, ticket, timeout));
        self.next += 1;
    }

    /// Goes on with the handshakes that can; hands over those that are done.
    fn advance(&mut self, ready: &[bool]) {
        let exports = match self.exports.read() {
            Ok(table) => table.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        let mut ready = ready.iter().copied();
        for mut opening in std::mem::take(&mut self.openings) {
            if !ready.next().unwrap_or(false) {
                self.openings.push(opening);
                continue;
            }
            match opening.advance(&exports) {
                Next::Wait => self.openings.push(opening),
                Next::Over(None) => {}
                Next::Over(Some(reason)) => {
                    if crate::log::allowed() {
                        tracing::warn!(connection = opening.id, peer = %opening.peer, reason, "the handshake failed");
                    }
                }
                Next::Transmission(session) => {
                    let place = exports.place(session.export.key);
                    self.hand_over(opening, session, place);
                }
            }
        }
    }

    fn hand_over(
        &mut self,
        opening: Opening,
        session: Box<weir_wire::nbd::Session>,
        place: Option<Place>,
    ) {
        let Some(place) = place else { return };
        let arrival = Arrival {
            id: opening.id,
            peer: opening.peer,
            socket: opening.socket,
            session,
            drive: place.drive,
            space: place.space,
            rest: opening.input,
            ticket: opening.ticket,
        };
        if !self.shards[place.shard].tell(Mail::Arrival(Box::new(arrival))) {
            tracing::error!("a connection was refused: its shard has ended");
        }
    }
}
