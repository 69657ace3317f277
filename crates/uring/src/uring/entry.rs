//! Submission queue entries, built from operations.

use std::ops::Range;
use std::ptr;

use io_uring::{opcode, squeue, types};
use rustix::io::ReadWriteFlags;
use rustix::io_uring::{MsgHdr, RecvFlags, SendFlags, iovec};

use crate::operation::{ONE, Operation, OperationKind};
use crate::ring::{FillMode, Sync};

/// The index of the only registered buffer.
const ARENA: u16 = 0;
/// The flag `IORING_RECVSEND_POLL_FIRST` (Linux 5.19).
const POLL_FIRST: u16 = 1;

/// The flag `MSG_DONTWAIT` of a quiet send. The kernel then executes the send while it submits the
/// entry, and never afterwards. A quiet signal has `RWF_NOWAIT` for the same reason.
const DONTWAIT: u32 = RecvFlags::DONTWAIT.bits();

/// The structures that the kernel reads in addition to the payload. They stay in place while the
/// operation is in flight, and the next operation in the same slot reuses the vector.
pub(crate) struct EntryMemory {
    iovecs: Vec<iovec>,
    message: MsgHdr,
}

impl Default for EntryMemory {
    fn default() -> Self {
        Self {
            iovecs: Vec::new(),
            message: MsgHdr {
                msg_name: ptr::null_mut(),
                msg_namelen: 0,
                msg_iov: ptr::null_mut(),
                msg_iovlen: 0,
                msg_control: ptr::null_mut(),
                msg_controllen: 0,
                msg_flags: RecvFlags::empty(),
            },
        }
    }
}

/// The range of addresses that is registered with the kernel.
pub(super) struct RegisteredRange(Range<usize>);

impl RegisteredRange {
    pub(super) fn new(base: *mut u8, bytes: usize) -> Self {
        Self(base.addr()..base.addr() + bytes)
    }

    fn holds(&self, start: *mut u8, bytes: usize) -> bool {
        self.0.start <= start.addr() && start.addr() + bytes <= self.0.end
    }
}

/// Builds the entry for the rest of an operation. `polls` is true if the kernel can be told to wait
/// for a socket before it tries it.
pub(super) fn build(
    operation: &mut Operation,
    wire: &mut EntryMemory,
    registered: &RegisteredRange,
    polls: bool,
) -> squeue::Entry {
    gather(operation, &mut wire.iovecs);
    let fd = types::Fd(operation.handle.raw());
    let done = operation.done as u64;
    let registered = Some(registered).filter(|_| operation.handle.accepts_registered_buffers());
    let entry = match operation.kind {
        // A socket that was found empty usually still is, and trying it first costs a failing call.
        OperationKind::Recv(fill) => receive(fd, wire, fill, polls && !operation.handle.has_more()),
        OperationKind::Send => send(fd, wire, operation.quiet),
        OperationKind::Wake => read(fd, wire, 0, registered),
        OperationKind::Read { offset } => read(fd, wire, offset + done, registered),
        OperationKind::Write { offset, sync } => write(fd, wire, offset + done, sync, registered),
        OperationKind::Fsync { datasync } => opcode::Fsync::new(fd)
            .flags(if datasync {
                types::FsyncFlags::DATASYNC
            } else {
                types::FsyncFlags::empty()
            })
            .build(),
        OperationKind::Fallocate { mode, offset, len } => opcode::Fallocate::new(fd, len)
            .offset(offset)
            .mode(mode.flags().bits().cast_signed())
            .build(),
        OperationKind::Signal => signal(fd, operation.quiet),
        // The flags are those of libc, because the width of rustix's flags depends on its backend.
        OperationKind::PollReadable => {
            opcode::PollAdd::new(fd, libc::POLLIN.unsigned_abs().into()).build()
        }
        OperationKind::Command(command) => opcode::UringCmd16::new(fd, command.code)
            .cmd(command.bytes)
            .build(),
    };
    let mut flags = squeue::Flags::empty();
    flags.set(squeue::Flags::IO_LINK, operation.linked);
    flags.set(squeue::Flags::SKIP_SUCCESS, operation.quiet);
    entry.flags(flags)
}

/// Collects the windows of the payload, without the bytes that are already transferred.
fn gather(operation: &mut Operation, iovecs: &mut Vec<iovec>) {
    let mut skip = operation.done;
    iovecs.clear();
    operation.payload.for_each_piece(|start, bytes| {
        let cut = skip.min(bytes);
        skip -= cut;
        if cut < bytes {
            iovecs.push(iovec {
                iov_base: start.wrapping_add(cut).cast(),
                iov_len: bytes - cut,
            });
        }
    });
}

fn receive(
    fd: types::Fd,
    wire: &mut EntryMemory,
    fill: FillMode,
    poll_first: bool,
) -> squeue::Entry {
    let order = if poll_first { POLL_FIRST } else { 0 };
    let flags = match fill {
        FillMode::Any => RecvFlags::empty(),
        FillMode::All => RecvFlags::WAITALL,
    };
    if let Some((start, bytes)) = wire.single() {
        opcode::Recv::new(fd, start, bytes)
            .ioprio(order)
            .flags(flags.bits().cast_signed())
            .build()
    } else {
        opcode::RecvMsg::new(fd, wire.message().cast())
            .ioprio(order)
            .flags(flags.bits())
            .build()
    }
}

fn send(fd: types::Fd, wire: &mut EntryMemory, quiet: bool) -> squeue::Entry {
    // With MSG_WAITALL, the kernel continues short sends itself (Linux 5.19 and later). If it may
    // not wait, it reports a short send as a failure with the number of bytes sent (Linux 6.1 and
    // later, `io_sendrecv_fail`), so that only a complete send has no completion.
    let waits = if quiet { DONTWAIT } else { 0 };
    let flags = SendFlags::NOSIGNAL.bits() | RecvFlags::WAITALL.bits() | waits;
    if let Some((start, bytes)) = wire.single() {
        opcode::Send::new(fd, start, bytes)
            .flags(flags.cast_signed())
            .build()
    } else {
        opcode::SendMsg::new(fd, wire.message().cast())
            .flags(flags)
            .build()
    }
}

fn signal(fd: types::Fd, quiet: bool) -> squeue::Entry {
    let waits = if quiet {
        ReadWriteFlags::NOWAIT.bits().cast_signed()
    } else {
        0
    };
    opcode::Write::new(fd, ONE.as_ptr(), ONE.len() as u32)
        // The offset −1 stands for the current position, because an eventfd or a pipe has no other.
        .offset(u64::MAX)
        .rw_flags(waits)
        .build()
}

fn read(
    fd: types::Fd,
    wire: &EntryMemory,
    offset: u64,
    registered: Option<&RegisteredRange>,
) -> squeue::Entry {
    match wire.single() {
        Some((start, bytes)) if registered.is_some_and(|r| r.holds(start, bytes as usize)) => {
            opcode::ReadFixed::new(fd, start, bytes, ARENA)
                .offset(offset)
                .build()
        }
        Some((start, bytes)) => opcode::Read::new(fd, start, bytes).offset(offset).build(),
        None => opcode::Readv::new(fd, wire.iovecs.as_ptr().cast(), wire.iovecs.len() as u32)
            .offset(offset)
            .build(),
    }
}

fn write(
    fd: types::Fd,
    wire: &EntryMemory,
    offset: u64,
    sync: Sync,
    registered: Option<&RegisteredRange>,
) -> squeue::Entry {
    let flags = match sync {
        Sync::No => 0,
        Sync::Data => ReadWriteFlags::DSYNC.bits().cast_signed(),
    };
    match wire.single() {
        Some((start, bytes)) if registered.is_some_and(|r| r.holds(start, bytes as usize)) => {
            opcode::WriteFixed::new(fd, start, bytes, ARENA)
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        Some((start, bytes)) => opcode::Write::new(fd, start, bytes)
            .offset(offset)
            .rw_flags(flags)
            .build(),
        None => opcode::Writev::new(fd, wire.iovecs.as_ptr().cast(), wire.iovecs.len() as u32)
            .offset(offset)
            .rw_flags(flags)
            .build(),
    }
}

impl EntryMemory {
    /// Returns the only remaining window, if there is exactly one. Its length fits because of
    /// `MAX_BYTES`.
    fn single(&self) -> Option<(*mut u8, u32)> {
        match self.iovecs[..] {
            [ref only] => Some((only.iov_base.cast(), only.iov_len as u32)),
            _ => None,
        }
    }

    /// Returns the message that consists of all windows.
    fn message(&mut self) -> *mut MsgHdr {
        self.message.msg_iov = self.iovecs.as_mut_ptr();
        self.message.msg_iovlen = self.iovecs.len();
        &raw mut self.message
    }
}
