//! The ring that uses poll(2), non-blocking socket calls and plain file I/O.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

use crate::any::{IoRingConfig, RingOpenError};
use crate::arena::Arena;
use crate::handle::Handle;
use crate::operation::{ONE, Operation, OperationKind};
use crate::payload::Payload;
use crate::ring::{
    OpId, Registration, RejectReason, RejectedOperation, Ring, RingCompletion, Sync,
};
use crate::table::OperationTable;
use crate::waker::RingWaker;

/// A [`Ring`] for systems without `io_uring`.
///
/// Sockets never block it. Reads, writes, fsync and fallocate are executed one after the other
/// inside [`Ring::submit_and_wait`] and block it until they have completed.
pub struct PollRing {
    arena: Arena,
    capacity: usize,
    table: OperationTable<()>,
    /// Operations that are queued and have not been tried yet.
    fresh: VecDeque<OpId>,
    /// Operations that were tried and wait for their socket.
    waiting: Vec<OpId>,
    done: VecDeque<RingCompletion>,
    waker: RingWaker,
    woken: bool,
    refusal: Option<io::Error>,
}

impl PollRing {
    /// Opens a ring. Ignores `config.backend` and `config.registered_bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`RingOpenError`] if the ring cannot be opened.
    pub fn open(config: &IoRingConfig) -> Result<Self, RingOpenError> {
        let (arena, waker) = config.parts()?;
        Ok(Self {
            arena,
            capacity: config.in_flight,
            table: OperationTable::new(config.in_flight),
            fresh: VecDeque::with_capacity(config.in_flight),
            waiting: Vec::with_capacity(config.in_flight),
            done: VecDeque::with_capacity(config.in_flight),
            waker,
            woken: false,
            refusal: None,
        })
    }

    pub(crate) fn with_refusal(mut self, refusal: io::Error) -> Self {
        self.refusal = Some(refusal);
        self
    }

    pub(crate) fn refusal(&self) -> Option<&io::Error> {
        self.refusal.as_ref()
    }

    /// Executes an operation as far as possible. Returns `false` if its socket is not ready.
    fn run(&mut self, id: OpId, ready: bool) -> bool {
        let Some(operation) = self.table.get(id).and_then(|slot| slot.operation.as_mut()) else {
            return true;
        };
        let result = loop {
            let outcome = call(operation, ready);
            if outcome == Err(Errno::AGAIN) {
                return false;
            }
            if let Some(result) = operation.advance(outcome) {
                break result;
            }
        };
        self.complete(id, result);
        true
    }

    fn complete(&mut self, id: OpId, result: Result<usize, Errno>) {
        if let Some(operation) = self.table.remove(id) {
            self.done.push_back(operation.completed(result));
        }
    }

    /// Waits for the sockets in `waiting`, and continues the operations whose sockets became ready.
    fn poll(&mut self, timeout: Option<&Timespec>) -> Result<(), Errno> {
        let waker = self.waker.clone();
        let handles = self.interests();
        let mut fds = vec![PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN)];
        fds.extend(
            handles
                .iter()
                .map(|(_, handle, flags)| PollFd::new(handle, *flags)),
        );
        match rustix::event::poll(&mut fds, timeout) {
            // A wait may end early. The caller's loop calls again.
            Err(Errno::INTR) => return Ok(()),
            outcome => outcome?,
        };
        if !fds[0].revents().is_empty() {
            // A `wake` between the read and `acknowledge` sends no event. It is not lost, because
            // the owner looks for its data only after `acknowledge`.
            rustix::io::read(&waker, &mut [0; 8])?;
            waker.acknowledge();
            self.woken = true;
        }
        for ((id, ..), fd) in handles.iter().zip(&fds[1..]) {
            if !fd.revents().is_empty() {
                self.run(*id, true);
            }
        }
        // An operation that is still not ready stays in the list for the next call.
        self.waiting.retain(|id| self.table.get(*id).is_some());
        Ok(())
    }

    /// Returns the poll events for which the waiting operations wait.
    fn interests(&mut self) -> Vec<(OpId, Handle, PollFlags)> {
        let waiting = self.waiting.iter();
        waiting
            .filter_map(|id| {
                let operation = self.table.get(*id)?.operation.as_ref()?;
                let flags = match operation.kind {
                    OperationKind::Send | OperationKind::Signal => PollFlags::OUT,
                    _ => PollFlags::IN,
                };
                Some((*id, operation.handle.clone(), flags))
            })
            .collect()
    }
}

impl Ring for PollRing {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn registration(&self) -> Registration {
        Registration::None
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn in_flight(&self) -> usize {
        self.table.len() + self.done.len()
    }

    fn queue(&mut self, operation: Operation) -> Result<OpId, RejectedOperation> {
        if let Err(reason) = operation.check() {
            return Err(operation.rejected(reason));
        }
        if matches!(operation.kind, OperationKind::Command(_)) {
            return Err(operation.rejected(RejectReason::Unsupported));
        }
        if self.in_flight() >= self.capacity {
            return Err(operation.rejected(RejectReason::Full));
        }
        let inserted = self.table.insert(operation);
        let id = inserted.map_err(|operation| operation.rejected(RejectReason::Full))?;
        self.fresh.push_back(id);
        Ok(id)
    }

    fn cancel(&mut self, op: OpId) {
        // An operation of this ring is never inside the kernel between two calls, so it can be
        // completed at once.
        self.complete(op, Err(Errno::CANCELED));
        self.fresh.retain(|fresh| *fresh != op);
        self.waiting.retain(|waiting| *waiting != op);
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        while let Some(id) = self.fresh.pop_front() {
            if !self.run(id, false) {
                self.waiting.push(id);
            }
        }
        let timeout = match timeout {
            _ if !self.done.is_empty() => Some(Timespec::default()),
            // A timeout that the clock cannot represent is treated as infinite.
            Some(timeout) => Timespec::try_from(timeout).ok(),
            None => None,
        };
        Ok(self.poll(timeout.as_ref())?)
    }

    fn is_ready(&mut self) -> bool {
        !self.done.is_empty()
    }

    fn pop(&mut self) -> Option<RingCompletion> {
        self.done.pop_front()
    }

    fn waker(&self) -> RingWaker {
        self.waker.clone()
    }

    fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }
}

impl std::fmt::Debug for PollRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PollRing")
            .field("capacity", &self.capacity)
            .field("in_flight", &self.in_flight())
            .field("waiting", &self.waiting.len())
            .field("refusal", &self.refusal)
            .finish_non_exhaustive()
    }
}

/// Makes one system call of an operation. Returns `EAGAIN` if its socket is not ready. `ready` is
/// true if poll(2) reported the socket as ready.
fn call(operation: &mut Operation, ready: bool) -> Result<usize, Errno> {
    let done = operation.done;
    let fd = &operation.handle;
    match operation.kind {
        OperationKind::Recv(_) => {
            let mut slices = targets(&mut operation.payload, done);
            let mut control = RecvAncillaryBuffer::default();
            recvmsg(fd, &mut slices, &mut control, RecvFlags::DONTWAIT).map(|message| message.bytes)
        }
        OperationKind::Send => {
            let slices = sources(&operation.payload, done);
            let mut control = SendAncillaryBuffer::default();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            sendmsg(fd, &slices, &mut control, flags)
        }
        OperationKind::Read { offset } if operation.payload.is_guest() => {
            transfer(operation, offset, Way::Read)
        }
        OperationKind::Write { offset, sync } if operation.payload.is_guest() => {
            transfer(operation, offset, Way::Write(sync))
        }
        OperationKind::Read { offset } => {
            let mut slices = targets(&mut operation.payload, done);
            rustix::io::preadv(fd, &mut slices, offset + done as u64)
        }
        OperationKind::Write { offset, sync } => {
            let slices = sources(&operation.payload, done);
            let flags = match sync {
                Sync::No => ReadWriteFlags::empty(),
                Sync::Data => ReadWriteFlags::DSYNC,
            };
            rustix::io::pwritev2(fd, &slices, offset + done as u64, flags)
        }
        OperationKind::Fsync { datasync: true } => rustix::fs::fdatasync(fd).map(|()| 0),
        OperationKind::Fsync { datasync: false } => rustix::fs::fsync(fd).map(|()| 0),
        OperationKind::Fallocate { mode, offset, len } => {
            rustix::fs::fallocate(fd, mode.flags(), offset, len).map(|()| 0)
        }
        // The descriptor is polled for room first, because a blocking write must not stop the other
        // operations.
        OperationKind::Signal if ready => rustix::io::write(fd, &ONE),
        OperationKind::PollReadable | OperationKind::Wake if ready => Ok(0),
        OperationKind::PollReadable | OperationKind::Wake | OperationKind::Signal => {
            Err(Errno::AGAIN)
        }
        // Commands are refused by `queue` and never get here.
        OperationKind::Command(_) => Err(Errno::NOSYS),
    }
}

#[derive(Clone, Copy)]
enum Way {
    Read,
    Write(Sync),
}

/// Reads into a guest's memory or writes from it. There are no slices of such memory, only
/// addresses that stay valid.
fn transfer(operation: &mut Operation, offset: u64, way: Way) -> Result<usize, Errno> {
    let (fd, mut skip) = (operation.handle.raw(), operation.done);
    let offset = (offset + operation.done as u64).cast_signed();
    let mut parts = Vec::new();
    operation.payload.for_each_piece(|start, bytes| {
        let cut = skip.min(bytes);
        skip -= cut;
        if cut < bytes {
            parts.push(libc::iovec {
                iov_base: start.wrapping_add(cut).cast(),
                iov_len: bytes - cut,
            });
        }
    });
    // There are at most `MAX_PIECES` parts.
    let count = libc::c_int::try_from(parts.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the parts are inside mappings that the payload keeps alive. The kernel accesses them,
    // and fails with EFAULT if their memory no longer exists.
    let done = unsafe {
        match way {
            Way::Read => libc::preadv(fd, parts.as_ptr(), count, offset),
            Way::Write(Sync::No) => libc::pwritev(fd, parts.as_ptr(), count, offset),
            Way::Write(Sync::Data) => {
                libc::pwritev2(fd, parts.as_ptr(), count, offset, libc::RWF_DSYNC)
            }
        }
    };
    usize::try_from(done).map_err(|_| {
        let error = io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

/// Returns the windows to read into, without their first `skip` bytes.
fn targets(payload: &mut Payload, mut skip: usize) -> Vec<IoSliceMut<'_>> {
    let bufs = match payload {
        Payload::Buf(buf) => std::slice::from_mut(buf),
        Payload::Bufs(bufs) => bufs,
        Payload::None | Payload::Shared(_) | Payload::Segments(_) | Payload::Guest(_) => &mut [],
    };
    let rests = bufs.iter_mut().map(|buf| {
        let cut = skip.min(buf.len());
        skip -= cut;
        IoSliceMut::new(&mut buf[cut..])
    });
    rests.filter(|rest| !rest.is_empty()).collect()
}

/// Returns the windows to write from, without their first `skip` bytes.
fn sources(payload: &Payload, mut skip: usize) -> Vec<IoSlice<'_>> {
    let rest = |bytes| {
        let bytes: &[u8] = bytes;
        let cut = skip.min(bytes.len());
        skip -= cut;
        IoSlice::new(&bytes[cut..])
    };
    let mut rests: Vec<_> = match payload {
        Payload::Shared(buf) => [&**buf].into_iter().map(rest).collect(),
        Payload::Segments(segments) => segments
            .iter()
            .map(|segment| &**segment)
            .map(rest)
            .collect(),
        Payload::None | Payload::Buf(_) | Payload::Bufs(_) | Payload::Guest(_) => Vec::new(),
    };
    rests.retain(|rest| !rest.is_empty());
    rests
}
