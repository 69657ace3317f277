//! The trait that both rings implement, and its arguments and results.

use std::io;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::arena::{Arena, Buf};
use crate::handle::Handle;
use crate::operation::{Kind, Operation};
use crate::payload::{Payload, Segment, Source, Target};
use crate::waker::Waker;

/// Maximum number of buffers and headers of one operation (the kernel's `IOV_MAX`).
pub const MAX_PIECES: usize = 1024;

/// Maximum number of bytes of one operation (the kernel's `MAX_RW_COUNT`).
pub const MAX_BYTES: usize = 0x7fff_f000;

/// A ring: operations are queued, started together by [`Ring::submit_and_wait`], and complete in any order through [`Ring::pop`].
///
/// A shard's turn:
///
/// ```no_run
/// # use weir_uring::{AnyRing, Config, Ring};
/// # use std::time::Duration;
/// # fn turn(ring: &mut AnyRing) -> std::io::Result<()> {
/// ring.submit_and_wait(Some(Duration::from_micros(50)))?;
/// while let Some(completion) = ring.pop() {
///     // handle it, queue more
/// }
/// # Ok(())
/// # }
/// ```
///
/// Every queued operation completes exactly once. Its buffers belong to the ring until then and are returned with the completion.
/// Operations are not ordered: a flush covers the writes that had completed when it was queued. `user` is the caller's token, which
/// is not interpreted and may repeat.
///
/// An operation that cannot be queued is [`Rejected`] and returns its payload at once.
pub trait Ring {
    /// The arena whose leading part is registered with this ring. Buffers of another arena can be used, too, but without the
    /// benefit of registration.
    fn arena(&self) -> &Arena;

    /// How much of the arena is registered.
    fn registration(&self) -> Registration;

    /// Maximum number of operations in flight, as configured.
    fn capacity(&self) -> usize;

    /// Operations queued or running whose completion has not been popped.
    fn in_flight(&self) -> usize;

    /// Queues an operation created by one of the methods below, which callers should use instead.
    ///
    /// # Errors
    ///
    /// As documented with each of them.
    fn queue(&mut self, operation: Operation) -> Result<OpId, Rejected>;

    /// Receives into the window of `into`. Completes with the bytes received, 0 at the end of the
    /// stream.
    ///
    /// With [`Fill::All`] it completes when the window is full, or short at the end of the stream.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, a receive is already pending on the socket, or the window is empty.
    fn recv(&mut self, user: u64, from: &Handle, into: Buf, fill: Fill) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            from,
            Kind::Recv(fill),
            Payload::Buf(into),
        ))
    }

    /// As [`Ring::recv`], into several windows in order: for example the rest of a payload and the header that follows it.
    ///
    /// # Errors
    ///
    /// As [`Ring::recv`]; also if there are more than [`MAX_PIECES`].
    fn recvv(
        &mut self,
        user: u64,
        from: &Handle,
        into: Vec<Buf>,
        fill: Fill,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            from,
            Kind::Recv(fill),
            Payload::Bufs(into),
        ))
    }

    /// Sends all segments in order. Short sends are continued: it completes once, with all bytes or with an error (in that case
    /// it is unknown how much was sent). Never raises `SIGPIPE`.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, a send is already pending on the socket, or there are more than [`MAX_PIECES`] segments or no
    /// bytes.
    fn send(&mut self, user: u64, to: &Handle, segments: Vec<Segment>) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            to,
            Kind::Send,
            Payload::Segments(segments),
        ))
    }

    /// Reads the file at `offset` (bytes) into the window of a [`Buf`], several in order, or a
    /// guest's memory. Short reads are continued; a completion with fewer bytes than the windows
    /// means the file ends there. On `O_DIRECT` files offset, window start and length must be
    /// multiples of the file's alignment (`EINVAL` otherwise). If some of a guest's memory was taken
    /// away it fails with `EFAULT`.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, there is no byte to read, or there are more than
    /// [`MAX_PIECES`] windows.
    fn read<P: Target>(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        into: P,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Read { offset },
            into.into(),
        ))
    }

    /// Writes the window of a [`SharedBuf`](crate::SharedBuf), several [`Segment`]s in order, or a
    /// guest's memory to the file at `offset` (bytes). Short writes are continued: it completes with all bytes or an error.
    /// With [`Sync::Data`] the data is durable at completion, as after fdatasync(2) of just these
    /// bytes (`RWF_DSYNC`). If some of a guest's memory was taken away it fails with `EFAULT`; if the
    /// guest changes the memory in the meantime, the data written is not one state of it.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, there is no byte to write, or there are more than
    /// [`MAX_PIECES`] segments.
    fn write<P: Source>(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: P,
        sync: Sync,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Write { offset, sync },
            from.into(),
        ))
    }

    /// Makes everything written to the file durable: fdatasync(2) with `datasync`, else fsync(2).
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn fsync(&mut self, user: u64, file: &Handle, datasync: bool) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Fsync { datasync },
            Payload::None,
        ))
    }

    /// fallocate(2) on `offset` and `len` (bytes); never changes the file's size.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full or `len` is 0.
    fn fallocate(
        &mut self,
        user: u64,
        file: &Handle,
        mode: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Fallocate { mode, offset, len },
            Payload::None,
        ))
    }

    /// Completes, once, with 0 when the descriptor is readable, at its end, or broken.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn poll_readable(&mut self, user: u64, handle: &Handle) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            handle,
            Kind::PollReadable,
            Payload::None,
        ))
    }

    /// Adds 1 to an eventfd (or writes 8 bytes into what else it is). If that would block it waits. Completes with 0.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn signal(&mut self, user: u64, event: &Handle) -> Result<OpId, Rejected> {
        self.queue(Operation::new(user, event, Kind::Signal, Payload::None))
    }

    /// Gives a command to the driver of a device (`IORING_OP_URING_CMD`), which completes it when it likes, with a value of its own.
    /// It carries no memory, so [`Ring::cancel`] ends it at once, as far as the ring is concerned: the driver has it until the ring is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, or is one by poll(2), which has nothing of this kind.
    fn command(&mut self, user: u64, device: &Handle, command: Command) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            device,
            Kind::Command(command),
            Payload::None,
        ))
    }

    /// As [`Ring::write`], and the operation that is queued next begins when this one has written
    /// everything: it ends with `ECANCELED` where the first attempt wrote less.
    ///
    /// # Errors
    ///
    /// As [`Ring::write`]; what is queued next is then on its own.
    fn write_linked(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: Vec<Segment>,
    ) -> Result<OpId, Rejected> {
        let kind = Kind::Write {
            offset,
            sync: Sync::No,
        };
        self.queue(Operation::new(user, file, kind, Payload::Segments(from)).linked())
    }

    /// Cancels an operation. It still completes exactly once: with `ECANCELED`, or as it would have anyway (file I/O that has
    /// reached the drive cannot be cancelled). An operation that has already completed, or one of another ring, is ignored
    /// without an error.
    fn cancel(&mut self, op: OpId);

    /// Starts the queued operations and waits until a completion can be popped, the waker is used or the timeout (nanosecond
    /// resolution, see [`precise_timers`](crate::precise_timers)) expires. `None` waits without a limit; zero does not wait. Does
    /// not wait if there are completions already. May return early without a completion: after a signal, or an internal step.
    ///
    /// # Errors
    ///
    /// Errors of the system call that are not part of its normal operation; the ring cannot be used any more.
    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Whether a completion can be popped without waiting.
    fn is_ready(&mut self) -> bool;

    /// The next completion, if one has arrived.
    fn pop(&mut self) -> Option<Completion>;

    /// A handle with which other threads end a wait.
    fn waker(&self) -> Waker;

    /// Whether the waker was used since the last call.
    fn take_woken(&mut self) -> bool;
}

/// How much of the arena is registered with the kernel as a fixed buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// All of it.
    Full,
    /// The leading bytes, as far as `RLIMIT_MEMLOCK` permits.
    Partial(usize),
    /// Nothing.
    None,
}

/// When a receive completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// With the first bytes that arrive.
    Any,
    /// When the windows are full.
    All,
}

/// What the completion of a write guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The data has been accepted.
    No,
    /// The data is durable.
    Data,
}

/// What to do with a range of a file, see fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocate space that reads as zeroes where there was none; data stays.
    KeepSize,
    /// Free the space; it reads as zeroes.
    PunchHole,
    /// Make it read as zeroes and keep the space allocated.
    ZeroRange,
}

impl Fallocate {
    pub(crate) fn flags(self) -> FallocateFlags {
        FallocateFlags::KEEP_SIZE
            | match self {
                Self::KeepSize => FallocateFlags::empty(),
                Self::PunchHole => FallocateFlags::PUNCH_HOLE,
                Self::ZeroRange => FallocateFlags::ZERO_RANGE,
            }
    }
}

/// A command for the driver of a device, in the driver's own terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Which command.
    pub code: u32,
    /// What it carries.
    pub bytes: [u8; 16],
}

/// Identifies an operation in flight for [`Ring::cancel`]. Not reused, and meaningless to another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// The ring.
    pub(crate) ring: u64,
    /// The operation: slot and generation.
    pub(crate) name: u64,
}

/// A completed operation.
#[derive(Debug)]
pub struct Completion {
    /// The caller's token.
    pub user: u64,
    /// Bytes transferred, or the system's error.
    pub result: Result<usize, Errno>,
    /// The operation's buffers.
    pub payload: Payload,
}

/// An operation that was not queued, with its payload.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Rejected {
    /// The reason.
    pub reason: Reason,
    /// The operation's buffers.
    pub payload: Payload,
}

/// Why an operation was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The maximum number of operations is in flight: pop completions first.
    #[error("the ring is full: complete some operations first")]
    Full,
    /// The socket already has an operation in this direction.
    #[error("the socket has a pending operation in this direction")]
    Busy,
    /// An offset beyond 2^63, no bytes, too many bytes ([`MAX_BYTES`]) or too many pieces ([`MAX_PIECES`]).
    #[error("the operation has no bytes, exceeds the maximum of one call, or ends beyond 2^63")]
    Invalid,
    /// A command for a driver, on a ring that has nothing of this kind.
    #[error("commands for a driver require io_uring")]
    Unsupported,
}
