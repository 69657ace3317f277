//! The trait that both rings implement, with its arguments and results.

use std::io;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::arena::{Arena, Buf};
use crate::handle::Handle;
use crate::operation::{Operation, OperationKind};
use crate::payload::{Payload, ReadTarget, Segment, WriteSource};
use crate::waker::RingWaker;

/// The maximum number of buffers and headers of one operation, which is the kernel's `IOV_MAX`.
pub const MAX_PIECES: usize = 1024;

/// The maximum number of bytes of one operation, which is the kernel's `MAX_RW_COUNT`.
pub const MAX_BYTES: usize = 0x7fff_f000;

/// A ring of operations. They are queued, started together by [`Ring::submit_and_wait`], and
/// returned by [`Ring::pop`] in any order.
///
/// One pass of a shard's loop:
///
/// ```no_run
/// # use weir_uring::{AnyRing, Ring};
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
/// Every queued operation completes exactly once. Until then its buffers belong to the ring, and
/// they return with the completion. Operations are not ordered. A flush covers the writes that had
/// completed when it was queued. `user` is the caller's token. The ring does not interpret it, and
/// it may repeat.
///
/// An operation that cannot be queued is [`RejectedOperation`], and its payload returns at once.
pub trait Ring {
    /// Returns the arena whose leading part is registered with this ring. Buffers of other arenas
    /// can be used as well, but do not benefit from registration.
    fn arena(&self) -> &Arena;

    /// Returns the part of the arena that is registered.
    fn registration(&self) -> Registration;

    /// Returns the configured maximum number of operations in flight.
    fn capacity(&self) -> usize;

    /// Returns the number of queued or running operations whose completion has not been popped.
    fn in_flight(&self) -> usize;

    /// Queues an operation that one of the methods below has created. Callers should use those
    /// methods instead.
    ///
    /// # Errors
    ///
    /// Returns the errors that each of those methods documents.
    fn queue(&mut self, operation: Operation) -> Result<OpId, RejectedOperation>;

    /// Receives into the window of `into`. Completes with the number of bytes received, which is 0
    /// at the end of the stream.
    ///
    /// With [`FillMode::All`] it completes when the window is full, or with fewer bytes at the end
    /// of the stream.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, a receive is already pending on the socket, or the window is
    /// empty.
    fn recv(
        &mut self,
        user: u64,
        from: &Handle,
        into: Buf,
        fill: FillMode,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            from,
            OperationKind::Recv(fill),
            Payload::Buf(into),
        ))
    }

    /// Receives like [`Ring::recv`], but into several windows in order, such as the rest of a
    /// payload and the header that follows it.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Ring::recv`], and is also rejected if there are more than
    /// [`MAX_PIECES`] windows.
    fn recvv(
        &mut self,
        user: u64,
        from: &Handle,
        into: Vec<Buf>,
        fill: FillMode,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            from,
            OperationKind::Recv(fill),
            Payload::Bufs(into),
        ))
    }

    /// Sends all segments in order. Never raises `SIGPIPE`.
    ///
    /// Short sends are continued. The operation completes once, with all bytes or with an error. In
    /// case of an error, it is unknown how much was sent.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, a send is already pending on the socket, there are more than
    /// [`MAX_PIECES`] segments, or there are no bytes.
    fn send(
        &mut self,
        user: u64,
        to: &Handle,
        segments: Vec<Segment>,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            to,
            OperationKind::Send,
            Payload::Segments(segments),
        ))
    }

    /// Sends like [`Ring::send`], for a caller that does not wait for the success.
    ///
    /// If the socket has room for all bytes when the operation is submitted, its completion does
    /// not end a wait of [`Ring::submit_and_wait`]. It can be popped after the wait, and
    /// [`RingCompletion::quiet`] is true. In all other cases, and for a ring that uses poll(2), the
    /// operation behaves as if it had been queued with [`Ring::send`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Ring::send`].
    fn send_quietly(
        &mut self,
        user: u64,
        to: &Handle,
        segments: Vec<Segment>,
    ) -> Result<OpId, RejectedOperation> {
        let payload = Payload::Segments(segments);
        self.queue(Operation::new(user, to, OperationKind::Send, payload).quiet())
    }

    /// Reads the file at `offset` (bytes) into the window of a [`Buf`], several of them in order,
    /// or a guest's memory.
    ///
    /// Short reads are continued. A completion with fewer bytes than the windows means that the
    /// file ends there. On `O_DIRECT` files, the offset, the start of the window and the length
    /// must be multiples of the file's alignment, or the read fails with `EINVAL`. If some of a
    /// guest's memory was truncated, it fails with `EFAULT`.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, there is no byte to read, or there are more than
    /// [`MAX_PIECES`] windows.
    fn read<P: ReadTarget>(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        into: P,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            file,
            OperationKind::Read { offset },
            into.into(),
        ))
    }

    /// Writes the window of a [`SharedBuf`](crate::SharedBuf), several [`Segment`]s in order, or a
    /// guest's memory to the file at `offset` (bytes).
    ///
    /// Short writes are continued. The operation completes with all bytes or an error. With
    /// [`Sync::Data`], the data is durable at completion, as after an fdatasync(2) of exactly these
    /// bytes (`RWF_DSYNC`). If some of a guest's memory was truncated, it fails with `EFAULT`. If
    /// the guest changes its memory in the meantime, the written data may be a mixture of several
    /// states.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, there is no byte to write, or there are more than
    /// [`MAX_PIECES`] segments.
    fn write<P: WriteSource>(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: P,
        sync: Sync,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            file,
            OperationKind::Write { offset, sync },
            from.into(),
        ))
    }

    /// Makes all data written to the file durable, with fdatasync(2) if `datasync` is true, and
    /// with fsync(2) otherwise.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn fsync(
        &mut self,
        user: u64,
        file: &Handle,
        datasync: bool,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            file,
            OperationKind::Fsync { datasync },
            Payload::None,
        ))
    }

    /// Executes fallocate(2) on `len` bytes from `offset` on. Never changes the size of the file.
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
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            file,
            OperationKind::Fallocate { mode, offset, len },
            Payload::None,
        ))
    }

    /// Completes once, with 0, when the descriptor is readable, at its end, or broken.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn poll_readable(&mut self, user: u64, handle: &Handle) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            handle,
            OperationKind::PollReadable,
            Payload::None,
        ))
    }

    /// Adds 1 to an eventfd, or writes 8 bytes into another descriptor. Waits if that would block.
    /// Completes with 0.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn signal(&mut self, user: u64, event: &Handle) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            event,
            OperationKind::Signal,
            Payload::None,
        ))
    }

    /// Signals like [`Ring::signal`], for a caller that does not wait for the success.
    ///
    /// If the descriptor is non-blocking and has room, the completion is as quiet as that of
    /// [`Ring::send_quietly`].
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full.
    fn signal_quietly(&mut self, user: u64, event: &Handle) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(user, event, OperationKind::Signal, Payload::None).quiet())
    }

    /// Sends a command to the driver of a device (`IORING_OP_URING_CMD`). The driver completes it
    /// at any time, with a value that it defines.
    ///
    /// The command carries no memory, so [`Ring::cancel`] can end it at once from the ring's point
    /// of view. The driver keeps it until it completes the command or the ring is dropped.
    ///
    /// # Errors
    ///
    /// Rejected if the ring is full, or uses poll(2), which has no such operation.
    fn command(
        &mut self,
        user: u64,
        device: &Handle,
        command: DriverCommand,
    ) -> Result<OpId, RejectedOperation> {
        self.queue(Operation::new(
            user,
            device,
            OperationKind::Command(command),
            Payload::None,
        ))
    }

    /// Writes like [`Ring::write`]. The operation that is queued next begins when this one has
    /// written everything. It ends with `ECANCELED` if the first attempt wrote less.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Ring::write`]. The operation that is queued next is then
    /// independent.
    fn write_linked(
        &mut self,
        user: u64,
        file: &Handle,
        offset: u64,
        from: Vec<Segment>,
    ) -> Result<OpId, RejectedOperation> {
        let kind = OperationKind::Write {
            offset,
            sync: Sync::No,
        };
        self.queue(Operation::new(user, file, kind, Payload::Segments(from)).linked())
    }

    /// Cancels an operation. It still completes exactly once, with `ECANCELED` or with its normal
    /// result, because file I/O that has reached the drive cannot be cancelled. A send completes
    /// with the number of bytes that it has sent, which may be zero. An operation that has already
    /// completed, or that belongs to another ring, is ignored.
    fn cancel(&mut self, op: OpId);

    /// Starts the queued operations and waits until a completion can be popped, the waker is used
    /// or the timeout expires.
    ///
    /// Does not wait if there are completions already, other than quiet ones. The timeout has a
    /// resolution of a nanosecond (see [`precise_timers`](crate::precise_timers)). `None` waits
    /// without a limit, and zero does not wait. The call may return early without a completion,
    /// after a signal or an internal step.
    ///
    /// # Errors
    ///
    /// Returns errors of the system call that are not part of its normal operation. The ring cannot
    /// be used afterwards.
    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns true if a completion is there that keeps [`Ring::submit_and_wait`] from waiting.
    fn is_ready(&mut self) -> bool;

    /// Returns the next completion, if one has arrived.
    fn pop(&mut self) -> Option<RingCompletion>;

    /// Returns a handle with which other threads can end a wait.
    fn waker(&self) -> RingWaker;

    /// Returns true if the waker was used since the last call.
    fn take_woken(&mut self) -> bool;
}

/// The part of the arena that is registered with the kernel as a fixed buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The whole arena is registered.
    Full,
    /// This number of leading bytes is registered, as far as `RLIMIT_MEMLOCK` permits.
    Partial(usize),
    /// No part of the arena is registered.
    None,
}

/// The condition under which a receive completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillMode {
    /// Completes with the first bytes that arrive.
    Any,
    /// Completes when all windows are full.
    All,
}

/// The guarantee that the completion of a write gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The data has been accepted by the system.
    No,
    /// The data is durable, even after a power failure.
    Data,
}

/// The operation on a range of a file (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates space that reads as zeroes where there was none. Existing data is kept.
    KeepSize,
    /// Frees the space, which then reads as zeroes.
    PunchHole,
    /// Makes the range read as zeroes and keeps its space allocated.
    ZeroRange,
}

impl Fallocate {
    pub(crate) fn flags(self) -> FallocateFlags {
        // Linux accepts `PUNCH_HOLE` only together with `KEEP_SIZE` (fallocate(2)), and the other
        // modes must not change the size either.
        FallocateFlags::KEEP_SIZE
            | match self {
                Self::KeepSize => FallocateFlags::empty(),
                Self::PunchHole => FallocateFlags::PUNCH_HOLE,
                Self::ZeroRange => FallocateFlags::ZERO_RANGE,
            }
    }
}

/// A command for the driver of a device, in a format that the driver defines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverCommand {
    /// The code of the command.
    pub code: u32,
    /// The bytes that the command carries.
    pub bytes: [u8; 16],
}

/// The identifier of an operation in flight, for [`Ring::cancel`]. It is not reused, and has no
/// meaning for another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// The number of the ring's table.
    pub(crate) ring: u64,
    /// The slot and the generation of the operation.
    pub(crate) name: u64,
}

/// A completed operation, with its result and its buffers.
#[derive(Debug)]
pub struct RingCompletion {
    /// The caller's token of the operation.
    pub user: u64,
    /// The number of bytes transferred, or the error of the system.
    pub result: Result<usize, Errno>,
    /// True for a success that did not end a wait ([`Ring::send_quietly`]). The operation had
    /// completed when the wait began.
    pub quiet: bool,
    /// The buffers of the operation.
    pub payload: Payload,
}

/// An operation that was not queued, with its payload.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct RejectedOperation {
    /// The reason for the rejection.
    pub reason: RejectReason,
    /// The buffers of the operation.
    pub payload: Payload,
}

/// The reason why an operation was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// The maximum number of operations is in flight. Pop completions first.
    #[error("the ring is full: complete some operations first")]
    Full,
    /// The socket already has an operation in this direction.
    #[error("the socket has a pending operation in this direction")]
    Busy,
    /// The operation has no bytes, too many bytes ([`MAX_BYTES`]), too many pieces
    /// ([`MAX_PIECES`]), or ends beyond 2^63.
    #[error("the operation has no bytes, exceeds the maximum of one call, or ends beyond 2^63")]
    Invalid,
    /// The operation is a command for a driver, which a ring that uses poll(2) does not support.
    #[error("commands for a driver require io_uring")]
    Unsupported,
}
