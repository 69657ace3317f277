//! A shard: one thread with one ring, some drives, and all clients of these drives.
//!
//! The thread repeats a *turn* ([`turn`]). Each turn begins with one system call, which sends the
//! answers and starts the receives of the previous turn, and then waits. Afterwards, front ends
//! take the requests that have arrived, the core schedules them, backends carry them out, and front
//! ends send the answers.
//!
//! No request is handed to another thread on its way. The shard sleeps while nothing arrives. Its
//! only timeouts are those of the core, of modelled drives, and of its own deadlines (see
//! `Shard::timeout`).
//!
//! A shard is started by [`spawn`]. Other threads send it [`Mail`] through its [`ShardHandle`] or a
//! [`ShardAddress`].

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
mod hand_over;
mod hold;
mod inherit;
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
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::{DrivePlan, Limits, ThreadPriority};
use weir_core::record::Recorder;
use weir_core::{Instant, Layer, Output, Request, Span};
use weir_uring::{AnyRing, IoRingConfig as RingConfig, Ring, RingWaker};

use crate::clock::ServerClock;
use crate::metrics::Detail;
use crate::metrics::figures::DriveFigures;
use crate::places::Ticket;
use crate::record::Tape;
use crate::slab::Slab;
use drive::ShardDrive;
use front::Attached;
use front::QueuedRequest;
use front::SpareBuffers;
use memory::MemoryPool;
use schedule::ClientSchedule;
use seen::{LayerObservers, ShardLayer};
use waited::RunQueueWait;

pub(crate) use change::{DriveChange, GrowableStorage, GrownSizes, UnnotifiedClients};
pub(crate) use client::ClientState;
pub use error::ShardError;
pub(crate) use front::{
    AnswerLoad, Attach, AttachError, ClientRequest, FrontContext, FrontEnd, FrontProgress,
    NextStep, PollResult, RequestAnswer, RequestResult, TakeStop,
};
pub(crate) use hand_over::{HandOverError, HandedClient, HandedShard, VolumeStorage};
pub(crate) use inherit::InheritedVolumes;
pub(crate) use memory::{PAGE, cost};
pub(crate) use payload::{RequestPayload, is_direct};
pub(crate) use seen::JournalView;
pub use shared::{HeldPart, PartUsage};
pub(crate) use token::{DRIVES_MAX, SPACES_MAX};
pub(crate) use volume::{TenantTerms, VolumeSetup, VolumeTerms};

/// A client that has completed the handshake and has chosen its volume.
#[derive(Debug)]
pub(crate) struct ClientArrival {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) drive: usize,
    pub(crate) space: u32,
    /// The name of the volume. By the time the mail is read, the space can belong to another
    /// volume.
    pub(crate) volume: String,
    pub(crate) front: Box<dyn Attach>,
    pub(crate) ticket: Ticket,
    /// True if another process has served the client before.
    pub(crate) is_inherited: bool,
}

/// A message from another thread to a shard.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A new client, whose connection the shard takes over.
    Arrival(Box<ClientArrival>),
    /// End the connection with this id, and log a line: answer the requests that were taken from
    /// it, and then end it.
    Evict(u64, &'static str),
    /// Prepare all clients for another process: answer the requests that have reached the drives,
    /// take back all others, and return the states of the clients. This may take the given time.
    HandOver(Duration, Sender<Result<HandedShard, HandOverError>>),
    /// Return the storage of each volume for another process.
    Storage(Sender<io::Result<Vec<VolumeStorage>>>),
    /// Apply the state of volumes that another process has handed over. What belongs to other
    /// shards is ignored.
    Inherit(Arc<InheritedVolumes>, Sender<Result<(), ShardError>>),
    /// Serve the clients again that were prepared for another process.
    Resume,
    /// End the shard at once and leave everything as it is, because another process has taken over.
    Abandon,
    /// End the shard: take no further requests, answer those that were taken, make all volumes
    /// durable. After this time, unanswered requests are given up. After the same time again,
    /// volumes that are not durable are given up.
    Drain(Duration),
    /// Return the figures of all drives, for the metrics.
    Snapshot(Detail, Sender<Vec<DriveFigures>>),
    /// Return the journal's view of a volume, or `None` if the volume is not on this shard.
    Explain {
        volume: String,
        wanted: Sender<Option<JournalView>>,
    },
    /// Promise this part of a volume's shared minimum. Returns how much the volume has used, or
    /// `None` if the volume is not on this shard.
    Hold {
        volume: String,
        held: HeldPart,
        used: Sender<Option<PartUsage>>,
    },
    /// Return the storage of those of these volumes that can grow.
    Growable {
        volumes: Vec<String>,
        wanted: Sender<GrowableStorage>,
    },
    /// Prepare a changed configuration of a drive. Returns the volumes that grow, or the reason why
    /// the configuration cannot be applied.
    Change(Box<DriveChange>, Sender<Result<GrownSizes, ShardError>>),
    /// Apply the change that was prepared for a drive, or discard it. Returns, once that is done,
    /// the clients that cannot be notified of a new size.
    Decide {
        drive: usize,
        in_force: bool,
        done: Sender<UnnotifiedClients>,
    },
}

/// The configuration of a drive, as the shard's thread receives it.
#[derive(Debug)]
pub(crate) struct DriveSetup {
    pub(crate) name: String,
    pub(crate) plan: DrivePlan,
    /// The configuration of the modelled drive, if there is one, and the time that its answers are
    /// sent early.
    pub(crate) model: Option<(weir_model::drive::DriveConfig, Span)>,
    pub(crate) volumes: Vec<VolumeSetup>,
    pub(crate) tape: Option<Tape>,
}

/// The configuration of a shard, as its thread receives it.
#[derive(Debug)]
pub(crate) struct ShardSetup {
    pub(crate) number: usize,
    pub(crate) clock: ServerClock,
    pub(crate) limits: Limits,
    pub(crate) priority: ThreadPriority,
    pub(crate) ring: RingConfig,
    pub(crate) drives: Vec<DriveSetup>,
    /// Size of the journal of each drive, in bytes.
    pub(crate) journal: usize,
}

/// A running shard, for the thread that started it.
#[derive(Debug)]
pub(crate) struct ShardHandle {
    mailbox: Sender<Mail>,
    waker: RingWaker,
    thread: Option<JoinHandle<bool>>,
    /// A reference to an object that the shard's thread owns until it ends. It can be upgraded as
    /// long as the shard is alive.
    pub(crate) alive: Weak<()>,
}

/// An address for sending mail to a shard from any thread.
#[derive(Clone, Debug)]
pub(crate) struct ShardAddress {
    mailbox: Sender<Mail>,
    waker: RingWaker,
}

impl ShardAddress {
    /// Sends mail to the shard. Returns false if the shard has ended.
    pub(crate) fn send_mail(&self, mail: Mail) -> bool {
        let sent = self.mailbox.send(mail).is_ok();
        // The shard sleeps in the ring, which does not notice a channel.
        self.waker.wake();
        sent
    }
}

impl ShardHandle {
    pub(crate) fn address(&self) -> ShardAddress {
        ShardAddress {
            mailbox: self.mailbox.clone(),
            waker: self.waker.clone(),
        }
    }

    /// Waits until the shard has ended. Returns false if it panicked, or if data may not be
    /// durable.
    pub(crate) fn join(&mut self) -> bool {
        self.thread
            .take()
            .is_none_or(|thread| thread.join().unwrap_or(false))
    }
}

/// Starts a shard's thread and waits until it runs.
///
/// # Errors
/// Returns an error if the thread cannot be started or the shard's parts cannot be opened.
pub(crate) fn spawn(setup: ShardSetup) -> Result<ShardHandle, ShardError> {
    let (mailbox, mail) = channel();
    let (ready, started) = channel();
    let lives = Arc::new(());
    let alive = Arc::downgrade(&lives);
    let thread = std::thread::Builder::new()
        .name(format!("weir-shard-{}", setup.number))
        .spawn(move || {
            let durable = match Shard::new(setup, mail) {
                Ok(shard) => {
                    // The send cannot fail, because the thread that started the shard waits for it.
                    let _ = ready.send(Ok(shard.ring.waker()));
                    drop(ready);
                    shard.run()
                }
                Err(reason) => {
                    let _ = ready.send(Err(reason));
                    false
                }
            };
            // From here on, `ShardHandle::alive` cannot be upgraded any more.
            drop(lives);
            durable
        })
        .map_err(ShardError::Thread)?;
    // If the thread panics before it is ready, its sender is dropped and the receive fails.
    let waker = started.recv().unwrap_or(Err(ShardError::Ended))?;
    Ok(ShardHandle {
        mailbox,
        waker,
        thread: Some(thread),
        alive,
    })
}

/// The state of a shard's thread.
#[derive(Debug)]
struct Shard {
    clock: ServerClock,
    /// The start of this turn.
    now: Instant,
    /// The beginnings and costs of this turn and the turns before it.
    turns: turn::Turns,
    /// The schedule that selects the client to serve next.
    schedule: ClientSchedule,
    /// The state of the counters at the beginning of the current second.
    second: second::ShardSecond,
    ring: AnyRing,
    limits: Limits,
    mail: Receiver<Mail>,
    drives: Vec<ShardDrive>,
    waited: RunQueueWait,
    clients: Slab<Attached>,
    pool: MemoryPool,
    /// Results of backends' operations, which this turn and the next ones process.
    returned: VecDeque<turn::ReturnedOperation>,
    /// True if there is more mail than one turn reads.
    has_mail: bool,
    /// Clients with answers to send.
    marked: Vec<u32>,
    /// Clients that share memory with the shard. Their rings are polled in each turn.
    shared: Vec<u32>,
    /// Clients with no request under way that wait for memory for their first request.
    waiting: VecDeque<u32>,
    /// The time of the next disconnection of idle clients, if others wait for memory.
    evict_at: Option<Instant>,
    /// Connections that have lost their place, each with the time until which its client may take
    /// its last answers.
    evicted: VecDeque<(Instant, u64)>,
    /// Vectors that every turn uses again, so that turns do not allocate.
    taken: Vec<QueuedRequest>,
    batch: Vec<Request>,
    /// Notices of the core for clients: completed requests, and streams to pause or to resume.
    notices: Vec<Output>,
    spare: SpareBuffers,
    drain: Option<leave::Drain>,
    hand_over: Option<hand_over::HandOver>,
    /// True if another process has taken over.
    is_abandoned: bool,
    changes: Vec<change::PendingChange>,
    /// Changes that are ready to be applied as soon as those of all other drives are ready.
    prepared: Vec<change::PreparedChange>,
}

impl Shard {
    fn new(setup: ShardSetup, mail: Receiver<Mail>) -> Result<Self, ShardError> {
        if let Err(errno) = weir_uring::precise_timers() {
            tracing::warn!(%errno, "the server cannot set the timer slack of a shard; its timers can be late by 50 us");
        }
        // The ring must be opened after the priority is set, because the kernel's worker threads
        // for the ring inherit the priority of the thread that opens it.
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
            schedule: ClientSchedule::default(),
            second: second::ShardSecond::new(now),
            pool: MemoryPool::new(setup.limits.arena, setup.limits.connections),
            limits: setup.limits,
            ring,
            mail,
            drives,
            waited: RunQueueWait::new(),
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
            spare: SpareBuffers::default(),
            drain: None,
            hand_over: None,
            is_abandoned: false,
            changes: Vec::new(),
            prepared: Vec::new(),
        })
    }
}

/// The nice value of [`ThreadPriority::High`].
const HIGH: i32 = -10;

/// Sets the priority of the calling thread. If that fails, shard 0 logs the reason once for all
/// shards.
fn raise(priority: ThreadPriority, number: usize) {
    if priority == ThreadPriority::Normal {
        return;
    }
    // On Linux, a nice value belongs to a thread and not to the whole process (setpriority(2)).
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
) -> Result<ShardDrive, ShardError> {
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
    let mut layer = ShardLayer::new(layer, LayerObservers::new(recorder, journal));
    let mut edits = plan.edits.clone();
    let sizes = volumes.iter().map(|s| (&s.name, s.storage.size()));
    // The size of existing storage need not be configured, so the plan has no sizes.
    edits.extend(sizes.map(|(name, size)| sized(&plan, name, size)));
    if let Err(error) = layer.change(now, &edits) {
        return Err(ShardError::Promises { drive: name, error });
    }
    let spaces = plan.config.sizes.spaces;
    let model = model.map(|(config, path)| model::ModelledDrive::new(&config, path, spaces));
    let model = model.transpose().map_err(|error| ShardError::Model {
        drive: name.clone(),
        error,
    })?;
    let mut drive = ShardDrive::new(name, number, layer, plan, model, tape);
    for setup in volumes {
        drive.add(setup.start(&drive.plan)?);
    }
    let shared = drive.spaces(|volume| volume.terms.shared);
    // Nothing of a shared minimum is promised here until this server is given a part.
    drive.apply_parts(now, now, &shared);
    drive.apply_terms(now);
    Ok(drive)
}

/// Returns the edit that gives the space of a volume the size of its storage.
fn sized(plan: &DrivePlan, volume: &str, size: u64) -> weir_core::Edit {
    weir_core::Edit::SetSpace {
        id: plan.volumes[volume].space,
        size: Some(size),
    }
}
