//! Setting up a ring: what this kernel supports, and how much memory may be registered.

use std::io;
use std::os::fd::AsFd;

use io_uring::{EnterFlags, IoUring, Probe, opcode};
use rustix::io_uring::iovec;

use super::entry::Registered;
use crate::any::OpenError;
use crate::arena::Arena;
use crate::handle::Handle;
use crate::operation::{Kind, Operation};
use crate::payload::Payload;
use crate::ring::Registration;
use crate::waker::Waker;

/// Minimum size that is worth registering, in bytes.
const REGISTER_MIN: usize = 64 << 10;
/// Maximum size that the kernel accepts as one buffer, in bytes.
const REGISTER_MAX: usize = 1 << 30;

/// The operations that the ring needs; all of them are in 5.6 and later.
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

/// A mode of the kernel's completion handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// 6.1: completions are processed when this thread asks for them, and only by it.
    Deferred,
    /// 5.19: this thread is not interrupted for completions.
    Cooperative,
    /// Anything earlier.
    Plain,
}

impl Mode {
    /// Best first.
    pub(super) const ALL: [Self; 3] = [Self::Deferred, Self::Cooperative, Self::Plain];
}

/// A ring for `places` operations, in the first mode that the kernel supports.
pub(super) fn ring(places: u32, modes: &[Mode]) -> io::Result<IoUring> {
    let mut refusal = io::ErrorKind::Unsupported.into();
    for mode in modes {
        match build(places, *mode) {
            // This kernel does not know a flag.
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
    // Each operation needs an entry, and some are left for cancellations.
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
    Ok(OPCODES.iter().all(|code| probe.is_supported(*code))
        && ring.params().is_feature_nodrop()
        && ring.params().is_feature_ext_arg())
}

/// The flags of every call.
pub(super) fn enter_flags(ring: &IoUring) -> EnterFlags {
    let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
    if ring.params().is_feature_no_iowait() {
        // Otherwise an idle server would count as waiting for I/O.
        flags | EnterFlags::NO_IOWAIT
    } else {
        flags
    }
}

/// Registers the leading part of the arena, at most `bytes`: halved until `RLIMIT_MEMLOCK` permits.
pub(super) fn register(ring: &IoUring, arena: &Arena, bytes: usize) -> (Registration, Registered) {
    let base = arena.base().as_ptr();
    let mut bytes = bytes.min(arena.capacity()).min(REGISTER_MAX);
    while bytes >= REGISTER_MIN.min(arena.capacity()) {
        let whole = iovec {
            iov_base: base.cast(),
            iov_len: bytes,
        };
        // SAFETY: an `iovec` is an `iovec`, whichever crate declares it. The range lies in the
        // arena's mapping. The kernel pins its pages for as long as they are registered, so that
        // even after the mapping's end it never writes to memory of another use.
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
            return (registration, Registered::new(base, bytes));
        }
        bytes = bytes / 2 / 4096 * 4096;
    }
    (Registration::None, Registered::new(base, 0))
}

/// The operation that reads the waker's counter.
pub(super) fn wake(waker: &Waker, arena: &Arena) -> Result<Operation, OpenError> {
    let fd = waker
        .as_fd()
        .try_clone_to_owned()
        .map_err(OpenError::Waker)?;
    let handle = Handle::new(fd).map_err(|errno| OpenError::Waker(errno.into()))?;
    let counter = arena.alloc(size_of::<u64>());
    let payload = Payload::Buf(counter.expect("a new arena has at least a page"));
    Ok(Operation::new(0, &handle, Kind::Wake, payload))
}
