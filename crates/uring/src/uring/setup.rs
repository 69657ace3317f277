//! Setup of a ring: the features that this kernel supports, and the registration of memory.

use std::io;
use std::os::fd::AsFd;

use io_uring::{EnterFlags, IoUring, Probe, opcode};
use rustix::io_uring::iovec;

use super::entry::RegisteredRange;
use crate::any::RingOpenError;
use crate::arena::Arena;
use crate::handle::Handle;
use crate::operation::{Operation, OperationKind};
use crate::payload::Payload;
use crate::ring::Registration;
use crate::waker::RingWaker;

/// The minimum size in bytes for which registration is attempted.
const REGISTER_MIN: usize = 64 << 10;
/// The maximum size in bytes that the kernel accepts as one buffer.
const REGISTER_MAX: usize = 1 << 30;

/// The operations that the ring needs, all of which Linux has since 5.6.
const OPCODES: [u8; 14] = [
    opcode::AsyncCancel::CODE,
    opcode::Fallocate::CODE,
    opcode::Fsync::CODE,
    opcode::PollAdd::CODE,
    opcode::Read::CODE,
    opcode::ReadFixed::CODE,
    opcode::Readv::CODE,
    opcode::Recv::CODE,
    opcode::RecvMsg::CODE,
    opcode::Send::CODE,
    opcode::SendMsg::CODE,
    opcode::Write::CODE,
    opcode::WriteFixed::CODE,
    opcode::Writev::CODE,
];

/// A mode of the kernel's completion handling, from best to oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The kernel processes completions only when this thread asks for them, and only on this
    /// thread (Linux 6.1).
    Deferred,
    /// The kernel does not interrupt this thread for completions (Linux 5.19).
    Cooperative,
    /// The handling of earlier kernels, without any of these flags.
    Plain,
}

impl Mode {
    /// All modes in the order of preference.
    pub(super) const ALL: [Self; 3] = [Self::Deferred, Self::Cooperative, Self::Plain];
}

/// Opens a ring for `places` operations, in the first mode that the kernel supports.
pub(super) fn ring(places: u32, modes: &[Mode]) -> io::Result<IoUring> {
    let mut refusal = io::ErrorKind::Unsupported.into();
    for mode in modes {
        match build(places, *mode) {
            // This kernel does not know a flag of the mode, so the next mode is tried.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => refusal = error,
            ring => {
                let ring = ring?;
                return if knows_all(&ring)? {
                    Ok(ring)
                } else {
                    Err(io::ErrorKind::Unsupported.into())
                };
            }
        }
    }
    Err(refusal)
}

fn build(places: u32, mode: Mode) -> io::Result<IoUring> {
    // Each operation needs an entry. A quarter more and 16 are for cancellations.
    let entries = (places + places / 4 + 16).next_power_of_two();
    let mut builder = IoUring::builder();
    builder.setup_cqsize(entries * 2).setup_clamp();
    match mode {
        Mode::Deferred => builder
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag(),
        Mode::Cooperative => builder
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_taskrun_flag(),
        Mode::Plain => &mut builder,
    };
    builder.build(entries)
}

fn knows_all(ring: &IoUring) -> io::Result<bool> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    // Without NODROP, completions could be lost. Without EXT_ARG, a wait could have no timeout.
    Ok(OPCODES.iter().all(|code| probe.is_supported(*code))
        && ring.params().is_feature_nodrop()
        && ring.params().is_feature_ext_arg())
}

/// Returns the flags of every call.
pub(super) fn enter_flags(ring: &IoUring) -> EnterFlags {
    let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
    if ring.params().is_feature_no_iowait() {
        // Without this flag, an idle server would count as waiting for I/O.
        flags | EnterFlags::NO_IOWAIT
    } else {
        flags
    }
}

/// Registers the leading part of the arena, at most `bytes`. The part is halved until
/// `RLIMIT_MEMLOCK` permits it.
pub(super) fn register(
    ring: &IoUring,
    arena: &Arena,
    bytes: usize,
) -> (Registration, RegisteredRange) {
    let base = arena.base().as_ptr();
    let mut bytes = bytes.min(arena.capacity()).min(REGISTER_MAX);
    while bytes >= REGISTER_MIN.min(arena.capacity()) {
        let whole = iovec {
            iov_base: base.cast(),
            iov_len: bytes,
        };
        // SAFETY: both crates declare the same `iovec` of the system. The range is inside the
        // arena's mapping. The kernel pins its pages for as long as they are registered, so that
        // even after the mapping's end it never writes to memory that is used otherwise.
        let registered = unsafe {
            let iovecs = std::slice::from_raw_parts((&raw const whole).cast(), 1);
            ring.submitter().register_buffers(iovecs)
        };
        if registered.is_ok() {
            let registration = if bytes == arena.capacity() {
                Registration::Full
            } else {
                Registration::Partial(bytes)
            };
            return (registration, RegisteredRange::new(base, bytes));
        }
        // The part must consist of whole pages.
        bytes = bytes / 2 / 4096 * 4096;
    }
    (Registration::None, RegisteredRange::new(base, 0))
}

/// Creates the operation that reads the waker's counter.
pub(super) fn wake(waker: &RingWaker, arena: &Arena) -> Result<Operation, RingOpenError> {
    let fd = waker
        .as_fd()
        .try_clone_to_owned()
        .map_err(RingOpenError::Waker)?;
    let handle = Handle::new(fd).map_err(|errno| RingOpenError::Waker(errno.into()))?;
    let counter = arena.alloc(size_of::<u64>());
    let payload = Payload::Buf(counter.expect("a new arena has at least a page"));
    Ok(Operation::new(0, &handle, OperationKind::Wake, payload))
}
