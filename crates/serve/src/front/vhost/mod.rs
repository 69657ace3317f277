//! `vhost-user`: a volume as the disk of a virtual machine, whose monitor says over a socket where the guest's memory and its queues are.
//!
//! A session is one monitor's connection. It has one stream and as many queues as were set up; requests are read from the guest's
//! memory and carried out between that memory and the storage, without a copy where the storage can reach it.
//!
//! Which thread wakes which: while the shard is awake it looks at the queues itself ([`FrontEnd::look`]), once a turn. Before it sleeps it
//! asks for kicks and looks once more ([`FrontEnd::rest`]). A kick ends a poll on the ring; what was returned is published once a turn, and
//! the guest is called by an operation on the ring, if it wants to be: a call that blocks holds nobody up.
//!
//! What a guest does wrong ends in the status of its request, or breaks that queue, with a line in the log. What the monitor does wrong is
//! refused, or ends the connection.

mod control;
mod disk;
mod handshake;
mod inflight;
mod queue;
mod take;

use std::borrow::Cow;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_core::{Instant, Span};
use weir_uring::{AnyRing, Completion, GuestMemory, GuestSlice, Handle, Mapping, OpId, Part, Ring};
use weir_wire::ring::split::Chain;
use weir_wire::vhost::Assembler;
use weir_wire::virtio_blk::{Request, Status};

use crate::shard::{Answer, Context, FrontEnd, Load, Look, Progress, Stop, Then, Unattached};
use crate::slab::Slab;
use control::Heard;
use disk::{Disk, QUEUES};
use handshake::Agreed;
use queue::Queue;

pub(crate) use handshake::greeter;

/// The operation that waits for the monitor.
const CONTROL: u32 = 0;
/// Of queue n: the operation that waits for a kick, and the next one is that which calls.
const FIRST_QUEUE: u32 = 1;

/// One monitor's connection.
#[derive(Debug)]
struct Session {
    socket: Handle,
    /// Where the monitor hears what it has not asked for.
    backend: Option<OwnedFd>,
    /// When it is to hear there that the configuration space is another.
    news: Option<Instant>,
    disk: Disk,
    messages: Assembler<OwnedFd>,
    /// The operation that waits for the monitor to say something.
    watching: Option<OpId>,
    /// Features in use: of virtio, and of the protocol.
    features: u64,
    protocol: u64,
    /// The driver's choice: writes may be answered before they are on stable storage.
    write_back: bool,
    memory: GuestMemory,
    queues: Vec<Queue>,
    /// The queue that is looked at first.
    first: usize,
    /// A queue whose base was asked for, while something of it is in flight.
    stopping: Option<u32>,
    notes: Option<Notes>,
    under: Slab<Under>,
    /// A request that was taken, is in `chain`, and waits for memory.
    waiting: Option<Waiting>,
    /// Answers that wait to be published.
    next: Load,
    /// Some queue has a call to be made.
    calls: bool,
    /// Why it has to go.
    broken: Option<Cow<'static, str>>,
    /// How many sessions at this socket have ended and have requests under way still. While there are any none is taken: theirs may
    /// be the same, which the monitor has brought back, and must not work on memory that was given to others since.
    ending: Arc<AtomicU32>,
    closed: bool,
    chain: Chain,
    request: Request,
}

/// Memory in which is noted what is in flight.
#[derive(Debug)]
struct Notes {
    mapping: Mapping,
    queues: u16,
    queue_size: u16,
}

/// A request under way.
#[derive(Debug)]
struct Under {
    queue: u8,
    generation: u32,
    head: u16,
    /// Where its status goes.
    status: GuestSlice,
    /// Bytes that are written if it is done, its status among them.
    written: u32,
}

/// A request that waits for memory.
#[derive(Debug)]
struct Waiting {
    queue: usize,
    generation: u32,
    head: u16,
}

impl Notes {
    /// The region of a queue.
    fn part(&self, number: usize) -> Option<Part> {
        let length = inflight::length(self.queue_size);
        let within = number < usize::from(self.queues);
        within
            .then(|| self.mapping.part((number * length) as u64, length))
            .flatten()
    }
}

impl Session {
    fn new(agreed: Agreed) -> Result<Self, Unattached> {
        let queues = std::iter::repeat_with(|| Queue::new(false)).take(QUEUES.into());
        Ok(Self {
            socket: Handle::new(agreed.socket).map_err(|_| Unattached::Socket)?,
            backend: None,
            news: None,
            disk: Disk::new(&agreed.export),
            messages: Assembler::default(),
            watching: None,
            features: 0,
            protocol: 0,
            write_back: true,
            memory: GuestMemory::default(),
            queues: queues.collect(),
            first: 0,
            stopping: None,
            notes: None,
            under: Slab::new(),
            waiting: None,
            next: Load::default(),
            calls: false,
            broken: None,
            ending: agreed.ending,
            closed: false,
            chain: Chain::default(),
            request: Request::default(),
        })
    }

    /// Says in the log what is wrong, if there is room for it.
    fn warn(&self, reason: fmt::Arguments<'_>) {
        if crate::log::allowed() {
            tracing::warn!(volume = %self.disk.name, %reason, "a virtual machine violated the protocol");
        }
    }

    /// A queue cannot go on.
    fn break_queue(&mut self, number: usize, reason: &str) {
        self.queues[number].broken = true;
        self.calls |= self.queues[number].error.is_some();
        if crate::log::allowed() {
            tracing::warn!(volume = %self.disk.name, queue = number, reason, "stopped serving a virtqueue after an invalid request");
        }
    }

    /// Queues the operations that wait for the monitor and for kicks.
    fn watch(&mut self, cx: &mut Context<'_>) -> Result<(), &'static str> {
        if self.watching.is_none() && self.stopping.is_none() {
            let queued = cx.ring.poll_readable(cx.token(CONTROL), &self.socket);
            self.watching = Some(queued.map_err(|_| NO_PLACE)?);
        }
        for (queue, number) in self.queues.iter_mut().zip(0..) {
            if let Some(polling) = queue.polling {
                // Of a descriptor that was exchanged.
                if std::mem::take(&mut queue.exchanged) {
                    cx.ring.cancel(polling);
                }
                continue;
            }
            queue.exchanged = false;
            // Kicks that are not listened to stay in their descriptor.
            let listens = !queue.broken && !queue.is_waiting();
            if let Some(kick) = queue.kick.as_ref().filter(|_| listens) {
                let token = cx.token(FIRST_QUEUE + 2 * number);
                let queued = cx.ring.poll_readable(token, kick);
                queue.polling = Some(queued.map_err(|_| NO_PLACE)?);
            }
        }
        Ok(())
    }

    /// A poll of a kick's descriptor has ended.
    fn kicked(&mut self, number: usize, now: Instant) -> Then {
        let queue = &mut self.queues[number];
        queue.polling = None;
        queue.kicked(now);
        if let Some(kick) = &queue.kick
            && let Err(errno) = kick.take_event()
        {
            queue.kick = None;
            self.break_queue(number, &format!("its kicks cannot be read: {errno}"));
        }
        Then::Take
    }

    /// Calls the guest, or remembers to, where one call is under way.
    fn call(&mut self, number: usize, cx: &mut Context<'_>) -> Result<(), &'static str> {
        let queue = &mut self.queues[number];
        if queue.calling.is_some() {
            queue.call_again = true;
            return Ok(());
        }
        queue.call_again = false;
        let event = if queue.broken {
            queue.error.take()
        } else {
            queue.call.clone()
        };
        if let Some(event) = event {
            cx.charge_message();
            let token = cx.token(FIRST_QUEUE + 2 * number as u32 + 1);
            let queued = cx.ring.signal(token, &event);
            queue.calling = Some(queued.map_err(|_| NO_PLACE)?);
        }
        Ok(())
    }

    /// Nothing is taken now, whatever there is.
    fn is_held_up(&self) -> bool {
        self.closed || self.ending.load(Ordering::Relaxed) > 0
    }

    /// Memory was taken away under the session.
    fn has_lost_memory(&self) -> bool {
        let notes = self.notes.as_ref();
        self.memory.is_broken() || notes.is_some_and(|notes| notes.mapping.is_broken())
    }
}

/// How long a monitor has said nothing when it is told news: it may not expect them while it waits for answers (QEMU 6.0 to 7.2.0 asks
/// for the configuration space at once, and takes the answer that it waited for as the one to that).
const QUIET: Span = Span::from_millis(100);
const NO_PLACE: &str = "the ring is full";
const LOST: &str = "memory of its guest was removed";

impl FrontEnd for Session {
    fn completed(&mut self, op: u32, _: Completion, cx: &mut Context<'_>) -> Progress {
        let then = if op == CONTROL {
            self.watching = None;
            let heard = self.hear();
            if let Some(at) = &mut self.news {
                *at = cx.now + QUIET;
            }
            match heard {
                Heard::All => Then::Take,
                Heard::End => Then::Gone,
                Heard::Broken(reason) => {
                    self.broken = Some(reason);
                    Then::Take
                }
            }
        } else {
            let number = ((op - FIRST_QUEUE) / 2) as usize;
            if (op - FIRST_QUEUE).is_multiple_of(2) {
                self.kicked(number, cx.now)
            } else {
                self.queues[number].calling = None;
                self.calls |= self.queues[number].call_again;
                Then::Rest
            }
        };
        if self.calls {
            cx.mark_for_send();
        }
        Progress {
            left: Load::default(),
            then,
        }
    }

    fn take(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(reason) = self.broken.take() {
            return Stop::Broken(reason);
        }
        if !cx.client.is_open() {
            return Stop::Ended;
        }
        let stop = if self.is_held_up() {
            Stop::Empty
        } else {
            self.take_all(cx)
        };
        if self.has_lost_memory() {
            return Stop::Broken(LOST.into());
        }
        if self.calls {
            cx.mark_for_send();
        }
        match self.watch(cx) {
            Ok(()) => stop,
            Err(reason) => Stop::Broken(reason.into()),
        }
    }

    fn answer(&mut self, answer: Answer<'_>, _: &mut Context<'_>) -> u64 {
        self.next.add(0);
        let Some(under) = self.under.remove(answer.ask.token as u32) else {
            return 0;
        };
        let queue = &mut self.queues[usize::from(under.queue)];
        if queue.generation == under.generation {
            let (status, written) = match answer.result {
                Ok(_) => (Status::Ok, under.written),
                Err(_) => (Status::IoError, 1),
            };
            under.status.copy_from(0, &[status as u8]);
            queue.finish(under.head, written);
        }
        0
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<Load, &'static str> {
        for number in 0..self.queues.len() {
            let queue = &mut self.queues[number];
            let answers = queue.dirty && queue.publish(cx.now);
            let wanted = queue.call_again && queue.calling.is_none();
            let broken = queue.broken && queue.error.is_some();
            if answers || wanted || broken {
                self.call(number, cx)?;
            }
        }
        self.calls = false;
        if self.has_lost_memory() {
            return Err(LOST);
        }
        if self.stopping.is_some() {
            self.stopped()?;
            self.watch(cx)?;
        }
        Ok(std::mem::take(&mut self.next))
    }

    fn resized(&mut self, size: u64, now: Instant) -> bool {
        if self.disk.resize(size) && self.backend.is_some() {
            self.news = Some(now + QUIET);
        }
        self.backend.is_some()
    }

    fn close(&mut self, ring: &mut AnyRing) -> Load {
        // The socket stays until nothing works on the guest's memory any more: a monitor that connects again does so after that.
        self.closed = true;
        self.ending.fetch_add(1, Ordering::Relaxed);
        let queues = self.queues.iter();
        let under_way = queues.flat_map(|queue| [queue.polling, queue.calling]);
        for id in under_way.chain([self.watching]).flatten() {
            ring.cancel(id);
        }
        std::mem::take(&mut self.next)
    }

    fn is_idle(&self) -> bool {
        self.next == Load::default()
    }

    fn is_over(&self) -> bool {
        let mut queues = self.queues.iter();
        self.watching.is_none()
            && queues.all(|queue| queue.polling.is_none() && queue.calling.is_none())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn look(&mut self, now: Instant) -> Look {
        let mut take = false;
        for queue in &mut self.queues {
            let waited = queue.is_waiting();
            if queue.run_timers(now) {
                queue.call_again = true;
                self.calls = true;
            }
            // It is listened to again.
            take |= waited && !queue.is_waiting();
        }
        take |= !self.is_held_up() && self.queues.iter_mut().any(Queue::has_more);
        if self.news.take_if(|at| *at <= now).is_some() {
            self.say_config_changed();
        }
        Look {
            take,
            send: self.calls && !self.closed,
        }
    }

    fn due(&self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let queues = self.queues.iter().filter_map(Queue::due);
        queues.chain(self.news).min()
    }

    fn rest(&mut self) -> bool {
        if self.is_held_up() {
            return false;
        }
        // All of them are armed, not only those before the first that has something.
        let found = self.queues.iter_mut().map(Queue::arm);
        let count = found.filter(|found| *found).count();
        count > 0
    }
}

impl Drop for Session {
    /// Nothing of it is under way any more.
    fn drop(&mut self) {
        if self.closed {
            self.ending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
