//! The trait both rings implement, and what goes in and comes out.

use std::io;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::arena::{Arena, Buf, SharedBuf};
use crate::handle::Handle;
use crate::operation::{Kind, Operation};
use crate::payload::{Payload, Segment};
use crate::waker::Waker;

/// The most buffers and headers one operation can carry (the kernel's `IOV_MAX`).
pub const MAX_PIECES: usize = 1024;

/// The most bytes one operation can carry (the kernel's `MAX_RW_COUNT`).
pub const MAX_BYTES: usize = 0x7fff_f000;

/// A ring: operations are queued, started together by [`Ring::submit_and_wait`], and come back
/// in any order from [`Ring::pop`].
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
/// Every queued operation completes exactly once. Its buffers belong to the ring until then; they
/// come back with the completion. Operations are not ordered among each other: a flush covers the
/// writes that had completed when it was queued. `user` is the caller's token and is not
/// interpreted; it may repeat.
///
/// An operation that cannot be queued is [`Rejected`] and gives its payload back at once.
pub trait Ring {
    /// The arena whose leading part is registered with this ring. Buffers of another arena work
    /// too, without the benefit of registration.
    fn arena(&self) -> &Arena;

    /// How much of the arena is registered.
    fn registration(&self) -> Registration;

    /// The most operations that can be in flight, as chosen at set-up.
    fn capacity(&self) -> usize;

    /// Operations queued or running whose completion has not been popped.
    fn in_flight(&self) -> usize;

    /// Queues an operation made by one of the methods below, which are what to call.
    ///
    /// # Errors
    ///
    /// As stated with each of them.
    fn queue(&mut self, operation: Operation) -> Result<OpId, Rejected>;

    /// Receives into the window of `into`. Completes with the bytes received, 0 at the end of the
    /// stream.
    ///
    /// With [`Fill::All`] it completes when the window is full, or short at the end of the stream.
    ///
    /// # Errors
    ///
    /// Rejected when the table is full, a receive is pending on the socket already, or the window
    /// is empty.
    fn recv(&mut self, user: u64, from: &Handle, into: Buf, fill: Fill) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            from,
            Kind::Recv(fill),
            Payload::Buf(into),
        ))
    }

    /// As [`Ring::recv`], into several windows in order: say, the rest of a payload and the header
    /// that follows it.
    ///
    /// # Errors
    ///
    /// As [`Ring::recv`]; also when there are more than [`MAX_PIECES`].
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

    /// Sends all segments in order. Short sends are continued: it completes once, with all bytes
    /// or with an error (how much went out before the error is unknown then). Never raises
    /// `SIGPIPE`.
    ///
    /// # Errors
    ///
    /// Rejected when the table is full, a send is pending on the socket already, there are more
    /// than [`MAX_PIECES`] segments or none with any bytes.
    fn send(&mut self, user: u64, to: &Handle, segments: Vec<Segment>) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            to,
            Kind::Send,
            Payload::Segments(segments),
        ))
    }

    /// Reads the file at `offset` (bytes) into the window of `into`. Short reads are continued;
    /// a completion with fewer bytes than the window means the file ends there. On `O_DIRECT`
    /// files offset, window start and length must be multiples of the file's alignment (`EINVAL`
    /// otherwise).
    ///
    /// # Errors
    ///
    /// Rejected when the table is full or the window is empty.
    fn read(&mut self, user: u64, file: &Handle, offset: u64, into: Buf) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Read { offset },
            Payload::Buf(into),
        ))
    }

    /// As [`Ring::read`], into several windows in order.
    ///
    /// # Errors
    ///
    /// As [`Ring::read`]; also when there are more than [`MAX_PIECES`].
    fn readv(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        into: Vec<Buf>,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Read { offset },
            Payload::Bufs(into),
        ))
    }

    /// Writes the window of `from` to the file at `offset` (bytes). Short writes are continued:
    /// it completes with all bytes or an error. With [`Sync::Data`] the data is durable at
    /// completion, as after fdatasync(2) of just these bytes (`RWF_DSYNC`).
    ///
    /// # Errors
    ///
    /// Rejected when the table is full or the window is empty.
    fn write(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: SharedBuf,
        sync: Sync,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Write { offset, sync },
            Payload::Shared(from),
        ))
    }

    /// As [`Ring::write`], from several segments in order.
    ///
    /// # Errors
    ///
    /// As [`Ring::write`]; also when there are more than [`MAX_PIECES`].
    fn writev(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: Vec<Segment>,
        sync: Sync,
    ) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            file,
            Kind::Write { offset, sync },
            Payload::Segments(from),
        ))
    }

    /// Makes everything written to the file durable: fdatasync(2) with `datasync`, else fsync(2).
    ///
    /// # Errors
    ///
    /// Rejected when the table is full.
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
    /// Rejected when the table is full or `len` is 0.
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
    /// Rejected when the table is full.
    fn poll_readable(&mut self, user: u64, handle: &Handle) -> Result<OpId, Rejected> {
        self.queue(Operation::new(
            user,
            handle,
            Kind::PollReadable,
            Payload::None,
        ))
    }

    /// Asks for an operation to end early. It still completes exactly once: with `ECANCELED`, or
    /// as it would have anyway (file I/O that has reached the drive cannot be called back). An
    /// operation that has completed already is not an error, nor is one of another ring; neither is
    /// touched.
    fn cancel(&mut self, op: OpId);

    /// Starts what was queued and waits until a completion can be popped, the waker is used or the
    /// timeout (nanosecond resolution, see [`precise_timers`](crate::precise_timers)) is over.
    /// `None` waits as long as it takes; zero does not wait. Does not wait when completions are
    /// there already. May return early with nothing: after a signal, or an internal step.
    ///
    /// # Errors
    ///
    /// What the system call answers where that is not part of its normal working; the ring is of
    /// no further use then.
    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// The next completion, if one has arrived.
    fn pop(&mut self) -> Option<Completion>;

    /// A handle by which other threads end a wait.
    fn waker(&self) -> Waker;

    /// Whether the waker was used since this was last asked; forgets it.
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

/// What a write's completion promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// That the data has been taken over.
    No,
    /// That the data is durable.
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

/// Names an operation in flight, for [`Ring::cancel`]. Not reused, and of no meaning to another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// Whose.
    pub(crate) ring: u64,
    /// Which: place and generation.
    pub(crate) name: u64,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The caller's token.
    pub user: u64,
    /// Bytes done, or the system's error.
    pub result: Result<usize, Errno>,
    /// The operation's buffers.
    pub payload: Payload,
}

/// An operation that was not queued, with its payload.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Rejected {
    /// Why.
    pub reason: Reason,
    /// The operation's buffers.
    pub payload: Payload,
}

/// Why an operation was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// As many operations as the ring was set up for are in flight: pop completions first.
    #[error("the ring has no free place: complete some operations first")]
    Full,
    /// The socket has an operation in this direction already.
    #[error("the socket has a pending operation in this direction")]
    Busy,
    /// An offset beyond 2^63, no bytes, too many bytes ([`MAX_BYTES`]) or too many pieces ([`MAX_PIECES`]).
    #[error("the operation carries no bytes, or more than one call takes, or ends beyond 2^63")]
    Invalid,
}
