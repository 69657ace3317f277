//! A shard: one thread, one ring, some drives and every connection of theirs.
//!
//! A turn is one system call, which sends the answers and starts the receives of the turn before and waits; then what has
//! arrived is parsed, given to the core, carried out and answered. Nothing is handed to another thread on the way of a request,
//! and nothing is done while nothing arrives: the only timeouts are those the core and the modelled drives ask for.

#[cfg(test)]
mod allocations;
mod arrive;
mod change;
mod connection;
mod count;
mod drive;
mod leave;
mod memory;
mod model;
mod parse;
mod reply;
mod slab;
mod token;
mod turn;
mod volume;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::units::Size;
use weir_config::{Limits, Plan, ThreadPriority};
use weir_core::record::{Recorded, Recorder};
use weir_core::{Instant, Layer, Output, Request};
use weir_uring::{AnyRing, Buf, Config as RingConfig, Ring, Waker};
use weir_wire::nbd::Session;

use crate::acceptor::Ticket;
use crate::clock::Clock;
use crate::metrics::DriveSnapshot;
use crate::record::Tape;
use connection::Connection;
use drive::Drive;
use memory::Pool;
use slab::Slab;

pub(crate) use change::Change;
pub(crate) use token::{DRIVES_MAX, SPACES_MAX};
pub(crate) use volume::{Sold, SoldTenant, VolumeSetup};

/// A connection whose handshake is over.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) socket: OwnedFd,
    pub(crate) session: Box<Session>,
    pub(crate) drive: usize,
    pub(crate) space: u32,
    /// What it sent behind the handshake.
    pub(crate) rest: Vec<u8>,
    pub(crate) ticket: Ticket,
}

/// What other threads tell a shard.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A client.
    Arrival(Box<Arrival>),
    /// A connection has lost its place: answer what was taken from it and end it.
    Evict(u64),
    /// Take no further request, answer what was taken, make everything durable, end. After this long what is not answered is given
    /// up, and after as long again what is not durable.
    Drain(Duration),
    /// Say how things stand.
    Snapshot(Sender<Vec<DriveSnapshot>>),
    /// Prepare a changed configuration of a drive, and say whether it can be put in force.
    Change(Box<Change>, Sender<Result<(), String>>),
    /// Put what was prepared for a drive in force, or throw it away, and say when that is done.
    Decide {
        drive: usize,
        in_force: bool,
        done: Sender<()>,
    },
}

/// What a drive is made from, on the shard's thread.
#[derive(Debug)]
pub(crate) struct DriveSetup {
    pub(crate) name: String,
    pub(crate) plan: Plan,
    pub(crate) model: Option<weir_drive::Config>,
    pub(crate) volumes: Vec<VolumeSetup>,
    pub(crate) tape: Option<Tape>,
}

/// What a shard is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) number: usize,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    pub(crate) priority: ThreadPriority,
    pub(crate) ring: RingConfig,
    pub(crate) drives: Vec<DriveSetup>,
}

/// A running shard as other threads see it.
#[derive(Debug)]
pub(crate) struct Handle {
    mailbox: Sender<Mail>,
    waker: Waker,
    thread: Option<JoinHandle<bool>>,
}

/// A way to tell a shard something.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    mailbox: Sender<Mail>,
    waker: Waker,
}

impl Address {
    /// Tells the shard; false if it has ended.
    pub(crate) fn tell(&self, mail: Mail) -> bool {
        let sent = self.mailbox.send(mail).is_ok();
        self.waker.wake();
        sent
    }
}

impl Handle {
    pub(crate) fn address(&self) -> Address {
        Address {
            mailbox: self.mailbox.clone(),
            waker: self.waker.clone(),
        }
    }

    /// False once its thread has ended.
    pub(crate) fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Waits for its end; false if it ended by a fault.
    pub(crate) fn join(&mut self) -> bool {
        self.thread
            .take()
            .is_none_or(|thread| thread.join().unwrap_or(false))
    }
}

/// Starts a shard's thread and waits until it runs.
///
/// # Errors
/// Why it cannot, in words.
pub(crate) fn spawn(setup: Setup) -> Result<Handle, String> {
    let (mailbox, mail) = channel();
    let (ready, started) = channel();
    let thread = std::thread::Builder::new()
        .name(format!("weir-shard-{}", setup.number))
        .spawn(move || match Shard::new(setup, mail) {
            Ok(shard) => {
                // Whoever started it waits for this.
                let _ = ready.send(Ok(shard.ring.waker()));
                drop(ready);
                shard.run()
            }
            Err(reason) => {
                let _ = ready.send(Err(reason));
                false
            }
        })
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let waker = started
        .recv()
        .unwrap_or_else(|_| Err("the thread ended at once".to_owned()))?;
    Ok(Handle {
        mailbox,
        waker,
        thread: Some(thread),
    })
}

/// The state of a shard's thread.
#[derive(Debug)]
struct Shard {
    clock: Clock,
    /// The time of this turn.
    now: Instant,
    ring: AnyRing,
    limits: Limits,
    mail: Receiver<Mail>,
    drives: Vec<Drive>,
    connections: Slab<Connection>,
    pool: Pool,
    /// Connections to look at in this turn.
    ready: VecDeque<u32>,
    /// Connections with answers to send.
    dirty: Vec<u32>,
    /// Connections that have nothing and wait for memory for their first request.
    waiting: VecDeque<u32>,
    /// When those who hold it without moving are made to give it up.
    pressed: Option<Instant>,
    /// Vectors used again in every turn.
    batch: Vec<Request>,
    out: Vec<Output>,
    told: Vec<Output>,
    /// For the buffers of payloads.
    spare: Vec<Vec<Buf>>,
    drain: Option<leave::Drain>,
    changes: Vec<change::Pending>,
    /// What is ready to be put in force, if all other drives' is.
    prepared: Vec<change::Prepared>,
}

impl Shard {
    fn new(setup: Setup, mail: Receiver<Mail>) -> Result<Self, String> {
        if let Err(errno) = weir_uring::precise_timers() {
            tracing::warn!(%errno, "timers of this shard may be late by 50 us");
        }
        // Before the ring: the kernel's own threads for it are as the thread that opened it.
        raise(setup.priority, setup.number);
        let ring = AnyRing::open(&setup.ring).map_err(|error| {
            let arena = Size(setup.limits.arena);
            format!("cannot start a shard: {error} (limits.arena = \"{arena}\", limits.connections = {})", setup.limits.connections)
        })?;
        if let Some(refusal) = ring.refusal().filter(|_| setup.number == 0) {
            tracing::warn!(
                "the system refuses io_uring ({refusal}; kernel.io_uring_disabled, a container or seccomp may forbid it, and kernel 6.1 is \
                 needed): using poll(2), where every read, write and flush of a file or device holds up all clients of its shard until the \
                 drive has answered"
            );
        }
        let now = setup.clock.now();
        let mut drives = Vec::with_capacity(setup.drives.len());
        for (number, drive) in setup.drives.into_iter().enumerate() {
            drives.push(open_drive(drive, number, now)?);
        }
        Ok(Self {
            clock: setup.clock,
            now,
            pool: Pool::new(setup.limits.arena, setup.limits.connections),
            limits: setup.limits,
            ring,
            mail,
            drives,
            connections: Slab::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            waiting: VecDeque::new(),
            pressed: None,
            batch: Vec::new(),
            out: Vec::new(),
            told: Vec::new(),
            spare: Vec::new(),
            drain: None,
            changes: Vec::new(),
            prepared: Vec::new(),
        })
    }
}

/// What [`ThreadPriority::High`] is.
const HIGH: i32 = -10;

/// Gives the calling thread its priority, or says why not, once for all shards.
fn raise(priority: ThreadPriority, number: usize) {
    if priority == ThreadPriority::Normal {
        return;
    }
    // Of the thread alone: on Linux each has its own.
    if let Err(errno) = rustix::process::setpriority_process(None, HIGH)
        && number == 0
    {
        tracing::warn!(
            "server.priority = \"high\" is not permitted ({errno}; it takes CAP_SYS_NICE, or LimitNICE=-10 of systemd): serving at the \
             usual priority, so other programs that keep the processors busy make clients wait"
        );
    }
}

fn open_drive(setup: DriveSetup, number: usize, now: Instant) -> Result<Drive, String> {
    let DriveSetup {
        name,
        plan,
        model,
        volumes,
        tape,
    } = setup;
    let in_drive = |error: &dyn std::fmt::Display| format!("drive {name}: {error}");
    let layer = Layer::new(plan.config.clone()).map_err(|error| in_drive(&error))?;
    let recorder = tape.as_ref().map(|_| Recorder::new(&plan.config));
    let mut layer = Recorded::new(layer, recorder);
    let mut edits = plan.edits.clone();
    edits.extend(volumes.iter().map(|setup| sized(&plan, setup)));
    layer
        .change(now, &edits)
        .map_err(|refusal| in_drive(&refusal))?;
    let model = model
        .map(|config| model::Model::new(&config, plan.config.limits.spaces))
        .transpose()
        .map_err(|error| in_drive(&error))?;
    let mut drive = Drive::new(name, number, layer, plan, model, tape);
    for setup in volumes {
        let name = setup.name.clone();
        let started = setup.start(&drive.plan);
        drive.add(started.map_err(|error| format!("volume {name}: {error}"))?);
    }
    drive.sell(now);
    Ok(drive)
}

/// A volume's space with the size that its storage has.
fn sized(plan: &Plan, setup: &VolumeSetup) -> weir_core::Edit {
    weir_core::Edit::SetSpace {
        id: plan.volumes[&setup.name].space,
        size: Some(setup.storage.size()),
    }
}
