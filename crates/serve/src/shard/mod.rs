//! A shard: one thread, one ring, some drives and every client of theirs.
//!
//! A turn is one system call, which sends the answers and starts the receives of the turn before and waits; then what has
//! arrived is taken by the front ends, given to the core, carried out and answered. Nothing is handed to another thread on the way of a request,
//! and nothing is done while nothing arrives: the only timeouts are those the core and the modelled drives ask for.

#[cfg(test)]
mod allocations;
mod answer;
mod arrive;
mod asked;
mod busy;
mod change;
mod client;
mod count;
mod drive;
mod error;
mod front;
mod hold;
mod leave;
mod memory;
mod model;
mod payload;
mod schedule;
mod second;
mod seen;
mod shared;
mod stalls;
mod take;
mod token;
mod turn;
mod volume;
mod waited;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::{Limits, Plan, ThreadPriority};
use weir_core::record::Recorder;
use weir_core::{Instant, Layer, Output, Request, Span};
use weir_uring::{AnyRing, Config as RingConfig, Ring, Waker};

use crate::clock::Clock;
use crate::metrics::Detail;
use crate::metrics::figures::DriveFigures;
use crate::places::Ticket;
use crate::record::Tape;
use crate::slab::Slab;
use drive::Drive;
use front::Attached;
use front::Pending;
use front::Spare;
use memory::Pool;
use schedule::Schedule;
use seen::{Seen, SeenLayer};
use waited::Waited;

pub(crate) use change::{Change, Growable, Grown, Untold};
pub(crate) use client::State;
pub use error::ShardError;
pub(crate) use front::{
    Answer, Ask, Attach, Context, Found, FrontEnd, Load, Look, Progress, Stop, Then, Unattached,
};
pub(crate) use memory::{PAGE, cost};
pub(crate) use payload::is_direct;
pub(crate) use seen::Viewed;
pub use shared::{Held, Used};
pub(crate) use token::{DRIVES_MAX, SPACES_MAX};
pub(crate) use volume::{TenantTerms, VolumeSetup, VolumeTerms};

/// A client that has chosen its volume.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) drive: usize,
    pub(crate) space: u32,
    /// The volume's name: the space may be another's by now.
    pub(crate) volume: String,
    pub(crate) front: Box<dyn Attach>,
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
    Snapshot(Detail, Sender<Vec<DriveFigures>>),
    /// Hand out what explains the requests of a volume; nothing, if it is not this shard's.
    Explain {
        volume: String,
        wanted: Sender<Option<Viewed>>,
    },
    /// A volume's part of a min that several servers keep; and say what it used, or nothing if it is not this shard's.
    Hold {
        volume: String,
        held: Held,
        used: Sender<Option<Used>>,
    },
    /// Hand out the storage of these volumes, where it can be made larger.
    Growable {
        volumes: Vec<String>,
        wanted: Sender<Growable>,
    },
    /// Prepare a changed configuration of a drive, and say whether it can be put in force, and which volumes that stay grow.
    Change(Box<Change>, Sender<Result<Grown, ShardError>>),
    /// Put what was prepared for a drive in force, or throw it away. Answers when that is done, with the clients that do not learn of a new size.
    Decide {
        drive: usize,
        in_force: bool,
        done: Sender<Untold>,
    },
}

/// What a drive is made from, on the shard's thread.
#[derive(Debug)]
pub(crate) struct DriveSetup {
    pub(crate) name: String,
    pub(crate) plan: Plan,
    /// And by how much its answers come sooner.
    pub(crate) model: Option<(weir_model::drive::Config, Span)>,
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
    /// Bytes that the journal of a drive takes up.
    pub(crate) journal: usize,
}

/// A running shard as other threads see it.
#[derive(Debug)]
pub(crate) struct Handle {
    mailbox: Sender<Mail>,
    waker: Waker,
    thread: Option<JoinHandle<bool>>,
    /// The thread has what this refers to until it ends.
    pub(crate) alive: Weak<()>,
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
/// Why it cannot.
pub(crate) fn spawn(setup: Setup) -> Result<Handle, ShardError> {
    let (mailbox, mail) = channel();
    let (ready, started) = channel();
    let lives = Arc::new(());
    let alive = Arc::downgrade(&lives);
    let thread = std::thread::Builder::new()
        .name(format!("weir-shard-{}", setup.number))
        .spawn(move || {
            let durable = match Shard::new(setup, mail) {
                Ok(shard) => {
                    // The thread that started the shard waits for this.
                    let _ = ready.send(Ok(shard.ring.waker()));
                    drop(ready);
                    shard.run()
                }
                Err(reason) => {
                    let _ = ready.send(Err(reason));
                    false
                }
            };
            drop(lives);
            durable
        })
        .map_err(ShardError::Thread)?;
    let waker = started.recv().unwrap_or(Err(ShardError::Ended))?;
    Ok(Handle {
        mailbox,
        waker,
        thread: Some(thread),
        alive,
    })
}

/// The state of a shard's thread.
#[derive(Debug)]
struct Shard {
    clock: Clock,
    /// The time of this turn.
    now: Instant,
    /// The turns before it.
    turns: turn::Turns,
    /// Whose requests are taken next.
    schedule: Schedule,
    /// What the second under way began with.
    second: second::Second,
    ring: AnyRing,
    limits: Limits,
    mail: Receiver<Mail>,
    drives: Vec<Drive>,
    waited: Waited,
    clients: Slab<Attached>,
    pool: Pool,
    /// What backends' operations came to, for this turn and the next ones.
    returned: VecDeque<turn::Returned>,
    /// There is more mail than one turn reads.
    has_mail: bool,
    /// Clients with answers to send.
    marked: Vec<u32>,
    /// Clients whose requests are in memory that they share: looked at in each turn.
    shared: Vec<u32>,
    /// Clients that have nothing and wait for memory for their first request.
    waiting: VecDeque<u32>,
    /// When clients that hold it without moving are made to give it up.
    evict_at: Option<Instant>,
    /// Connections that have lost their place, and until when their clients may take the last
    /// answers.
    evicted: VecDeque<(Instant, u64)>,
    /// Vectors used again in every turn.
    taken: Vec<Pending>,
    batch: Vec<Request>,
    /// The core's answers to clients and its wishes for their streams.
    notices: Vec<Output>,
    spare: Spare,
    drain: Option<leave::Drain>,
    changes: Vec<change::Pending>,
    /// What is ready to be put in force, if all other drives' is.
    prepared: Vec<change::Prepared>,
}

impl Shard {
    fn new(setup: Setup, mail: Receiver<Mail>) -> Result<Self, ShardError> {
        if let Err(errno) = weir_uring::precise_timers() {
            tracing::warn!(%errno, "the server cannot set the timer slack of a shard; its timers can be late by 50 us");
        }
        // Before the ring: the kernel's own threads for it are as the thread that opened it.
        raise(setup.priority, setup.number);
        let ring = AnyRing::open(&setup.ring).map_err(|error| ShardError::Ring {
            error,
            arena: setup.limits.arena,
            connections: setup.limits.connections,
        })?;
        if let Some(refusal) = ring.refusal().filter(|_| setup.number == 0) {
            tracing::warn!(
                "io_uring is not available ({refusal}): it needs kernel 6.1, and kernel.io_uring_disabled, a container or seccomp can forbid it. The \
                 server uses poll(2), with which each read, write and flush of a file or device delays all clients of its shard until the \
                 drive has completed it"
            );
        }
        let now = setup.clock.now();
        let mut drives = Vec::with_capacity(setup.drives.len());
        for (number, drive) in setup.drives.into_iter().enumerate() {
            drives.push(open_drive(drive, number, now, setup.journal)?);
        }
        Ok(Self {
            clock: setup.clock,
            now,
            turns: turn::Turns::new(now),
            schedule: Schedule::default(),
            second: second::Second::new(now),
            pool: Pool::new(setup.limits.arena, setup.limits.connections),
            limits: setup.limits,
            ring,
            mail,
            drives,
            waited: Waited::new(),
            clients: Slab::new(),
            returned: VecDeque::new(),
            has_mail: false,
            marked: Vec::new(),
            shared: Vec::new(),
            waiting: VecDeque::new(),
            evict_at: None,
            evicted: VecDeque::new(),
            taken: Vec::new(),
            batch: Vec::new(),
            notices: Vec::new(),
            spare: Spare::default(),
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
    let raised = rustix::process::setpriority_process(None, HIGH);
    if let Err(errno) = raised
        && number == 0
        && priority == ThreadPriority::High
    {
        tracing::warn!(
            "server.priority = \"high\" is not permitted ({errno}): it requires CAP_SYS_NICE, or LimitNICE=-10 in the systemd unit. The server runs at the \
             usual priority, so that programs that keep the processors busy delay its clients"
        );
    }
}

fn open_drive(
    setup: DriveSetup,
    number: usize,
    now: Instant,
    journal: usize,
) -> Result<Drive, ShardError> {
    let DriveSetup {
        name,
        plan,
        model,
        volumes,
        tape,
    } = setup;
    let layer = Layer::new(plan.config.clone()).map_err(|error| ShardError::Core {
        drive: name.clone(),
        error,
    })?;
    let recorder = tape.as_ref().map(|_| Recorder::new(&plan.config));
    let mut layer = SeenLayer::new(layer, Seen::new(recorder, journal));
    let mut edits = plan.edits.clone();
    let sizes = volumes.iter().map(|s| (&s.name, s.storage.size()));
    edits.extend(sizes.map(|(name, size)| sized(&plan, name, size)));
    if let Err(error) = layer.change(now, &edits) {
        return Err(ShardError::Promises { drive: name, error });
    }
    let spaces = plan.config.sizes.spaces;
    let model = model.map(|(config, path)| model::Model::new(&config, path, spaces));
    let model = model.transpose().map_err(|error| ShardError::Model {
        drive: name.clone(),
        error,
    })?;
    let mut drive = Drive::new(name, number, layer, plan, model, tape);
    for setup in volumes {
        drive.add(setup.start(&drive.plan)?);
    }
    let shared = drive.spaces(|volume| volume.terms.shared);
    drive.put_parts_in_force(now, now, &shared);
    drive.put_terms_in_force(now);
    Ok(drive)
}

/// A volume's space with the size that its storage has.
fn sized(plan: &Plan, volume: &str, size: u64) -> weir_core::Edit {
    weir_core::Edit::SetSpace {
        id: plan.volumes[volume].space,
        size: Some(size),
    }
}
