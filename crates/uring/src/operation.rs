//! Operations in flight: their kind, their payload and their progress.

use rustix::io::Errno;

use crate::handle::{Handle, SocketDirection};
use crate::payload::Payload;
use crate::ring::{
    DriverCommand, Fallocate, FillMode, MAX_BYTES, MAX_PIECES, RejectReason, RejectedOperation,
    RingCompletion, Sync,
};

/// An operation that is ready to be queued. The provided methods of [`Ring`](crate::Ring) create
/// it.
#[derive(Debug)]
pub struct Operation {
    pub(crate) user: u64,
    pub(crate) handle: Handle,
    pub(crate) kind: OperationKind,
    pub(crate) payload: Payload,
    /// The number of bytes in the payload's windows.
    pub(crate) total: usize,
    /// The number of bytes transferred so far.
    pub(crate) done: usize,
    /// True if the operation must not be continued.
    pub(crate) cancelled: bool,
    /// True if the operation that is queued next must not begin before this one is complete.
    pub(crate) linked: bool,
    /// True if the operation is a send or a signal whose success need not end a wait.
    pub(crate) quiet: bool,
}

/// The value that a signal adds to an eventfd. It is static, because the kernel reads it while the
/// operation is in flight.
pub(crate) static ONE: [u8; 8] = 1u64.to_ne_bytes();

#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationKind {
    Recv(FillMode),
    Send,
    Read {
        offset: u64,
    },
    Write {
        offset: u64,
        sync: Sync,
    },
    Fsync {
        datasync: bool,
    },
    Fallocate {
        mode: Fallocate,
        offset: u64,
        len: u64,
    },
    PollReadable,
    /// Adds 1 to an eventfd, or writes 8 bytes into a pipe.
    Signal,
    /// A command that only the driver of the device interprets.
    Command(DriverCommand),
    /// The ring's own operation, which reads the waker's counter.
    Wake,
}

impl Operation {
    pub(crate) fn new(user: u64, handle: &Handle, kind: OperationKind, payload: Payload) -> Self {
        Self {
            user,
            handle: handle.clone(),
            kind,
            total: payload.bytes(),
            payload,
            done: 0,
            cancelled: false,
            linked: false,
            quiet: false,
        }
    }

    /// Makes the operation that is queued next wait until this one is complete.
    pub(crate) fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Permits the ring to return the operation's success after a wait that other events end.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Returns the reason why the operation may not be queued, apart from the ring's capacity.
    pub(crate) fn check(&self) -> Result<(), RejectReason> {
        let carries =
            self.total > 0 && self.total <= MAX_BYTES && self.payload.pieces() <= MAX_PIECES;
        let valid = match self.kind {
            OperationKind::Recv(_) | OperationKind::Send => carries,
            OperationKind::Read { offset } | OperationKind::Write { offset, .. } => {
                carries && in_range(offset, self.total as u64)
            }
            OperationKind::Fallocate { offset, len, .. } => len > 0 && in_range(offset, len),
            OperationKind::Fsync { .. }
            | OperationKind::PollReadable
            | OperationKind::Signal
            | OperationKind::Command(_)
            | OperationKind::Wake => true,
        };
        if !valid {
            return Err(RejectReason::Invalid);
        }
        match self.direction() {
            Some(direction) if self.handle.direction(direction).get() => Err(RejectReason::Busy),
            _ => Ok(()),
        }
    }

    pub(crate) fn completed(self, result: Result<usize, Errno>) -> RingCompletion {
        // The caller of a cancelled send needs to know where the stream ends.
        let result = match (self.kind, result) {
            (OperationKind::Send, Err(Errno::CANCELED)) => Ok(self.done),
            (_, result) => result,
        };
        RingCompletion {
            user: self.user,
            result,
            quiet: self.quiet && result.is_ok(),
            payload: self.payload,
        }
    }

    pub(crate) fn rejected(self, reason: RejectReason) -> RejectedOperation {
        RejectedOperation {
            reason,
            payload: self.payload,
        }
    }

    /// Marks the socket's direction as busy or as free.
    pub(crate) fn set_busy(&self, busy: bool) {
        if let Some(direction) = self.direction() {
            self.handle.direction(direction).set(busy);
        }
    }

    /// Processes the result of one system call. Returns `None` if the rest of the operation must be
    /// continued.
    pub(crate) fn advance(
        &mut self,
        outcome: Result<usize, Errno>,
    ) -> Option<Result<usize, Errno>> {
        // Only the first attempt carries the link, so the next operation is independent of the
        // following attempts. The others also wait for their socket, so they are not quiet.
        self.linked = false;
        let quiet = std::mem::take(&mut self.quiet);
        let bytes = match outcome {
            // Results of a command are defined by the driver.
            outcome if matches!(self.kind, OperationKind::Command(_)) => return Some(outcome),
            Err(Errno::INTR) if !self.cancelled => return None,
            // There was no room for a single byte, or the driver always waits for room.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if quiet && !self.cancelled => return None,
            // A worker thread of the kernel reports a cancellation in this way.
            Err(Errno::INTR) => return Some(Err(Errno::CANCELED)),
            // The end of the file is not aligned. With `O_DIRECT`, a read from that position is
            // invalid, so the error means the end of the file.
            Err(Errno::INVAL)
                if self.done > 0 && matches!(self.kind, OperationKind::Read { .. }) =>
            {
                return Some(Ok(self.done));
            }
            Err(errno) => return Some(Err(errno)),
            Ok(bytes) => bytes,
        };
        self.done += bytes;
        match self.kind {
            OperationKind::Fsync { .. }
            | OperationKind::Fallocate { .. }
            | OperationKind::PollReadable
            | OperationKind::Signal
            | OperationKind::Wake => Some(Ok(0)),
            _ if self.done >= self.total => Some(Ok(self.done)),
            OperationKind::Recv(FillMode::Any) => Some(Ok(self.done)),
            OperationKind::Recv(FillMode::All) | OperationKind::Read { .. } if bytes == 0 => {
                Some(Ok(self.done))
            }
            // This is not documented to happen, and a retry could go on forever.
            OperationKind::Send | OperationKind::Write { .. } if bytes == 0 => Some(Err(Errno::IO)),
            _ if self.cancelled => Some(Err(Errno::CANCELED)),
            _ => None,
        }
    }

    fn direction(&self) -> Option<SocketDirection> {
        match self.kind {
            OperationKind::Recv(_) => Some(SocketDirection::Receive),
            OperationKind::Send => Some(SocketDirection::Send),
            _ => None,
        }
    }
}

/// Returns true if the end is a valid file offset. This also excludes −1, which has a special
/// meaning as an offset.
fn in_range(offset: u64, len: u64) -> bool {
    let end = offset.checked_add(len);
    end.is_some_and(|end| i64::try_from(end).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn operation(kind: OperationKind, bytes: usize) -> Operation {
        let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let handle = Handle::new(end.into()).unwrap();
        let buf = Arena::new(1 << 20).unwrap().alloc(bytes).unwrap();
        Operation::new(0, &handle, kind, Payload::Buf(buf))
    }

    const READ: OperationKind = OperationKind::Read { offset: 0 };
    const WRITE: OperationKind = OperationKind::Write {
        offset: 0,
        sync: Sync::No,
    };

    #[test]
    fn short_transfers_are_continued_until_all_is_done() {
        for kind in [
            READ,
            WRITE,
            OperationKind::Send,
            OperationKind::Recv(FillMode::All),
        ] {
            let mut operation = operation(kind, 100);
            assert_eq!(operation.advance(Ok(60)), None, "{kind:?}");
            assert_eq!(operation.advance(Err(Errno::INTR)), None, "{kind:?}");
            assert_eq!(operation.advance(Ok(40)), Some(Ok(100)), "{kind:?}");
        }
    }

    #[test]
    fn the_end_is_short_for_readers_and_an_error_for_writers() {
        for (kind, end) in [
            (READ, Ok(60)),
            (OperationKind::Recv(FillMode::All), Ok(60)),
            (WRITE, Err(Errno::IO)),
            (OperationKind::Send, Err(Errno::IO)),
        ] {
            let mut operation = operation(kind, 100);
            assert_eq!(operation.advance(Ok(60)), None, "{kind:?}");
            assert_eq!(operation.advance(Ok(0)), Some(end), "{kind:?}");
        }
    }

    #[test]
    fn an_error_after_a_part_is_an_error() {
        for kind in [
            READ,
            WRITE,
            OperationKind::Send,
            OperationKind::Recv(FillMode::All),
        ] {
            let mut operation = operation(kind, 100);
            assert_eq!(operation.advance(Ok(60)), None);
            assert_eq!(operation.advance(Err(Errno::IO)), Some(Err(Errno::IO)));
        }
    }

    #[test]
    fn an_unaligned_end_of_file_is_an_end() {
        // With `O_DIRECT`, the read after byte 100 is not aligned and fails with EINVAL.
        let mut read = operation(READ, 4096);
        assert_eq!(read.advance(Ok(100)), None);
        assert_eq!(read.advance(Err(Errno::INVAL)), Some(Ok(100)));
        let mut write = operation(WRITE, 4096);
        assert_eq!(write.advance(Ok(100)), None);
        assert_eq!(write.advance(Err(Errno::INVAL)), Some(Err(Errno::INVAL)));
    }

    #[test]
    fn a_quiet_send_without_room_is_continued_as_an_ordinary_one() {
        for error in [Errno::AGAIN, Errno::OPNOTSUPP] {
            let mut send = operation(OperationKind::Send, 100).quiet();
            assert_eq!(send.advance(Err(error)), None);
            assert!(!send.quiet);
            assert_eq!(send.advance(Err(error)), Some(Err(error)));
        }
    }

    #[test]
    fn a_cancelled_operation_is_not_continued() {
        let mut send = operation(OperationKind::Send, 100);
        send.cancelled = true;
        assert_eq!(send.advance(Ok(60)), Some(Err(Errno::CANCELED)));
        let sent = send.completed(Err(Errno::CANCELED));
        assert_eq!(sent.result, Ok(60), "the caller knows what was sent");
        let mut recv = operation(OperationKind::Recv(FillMode::All), 100);
        recv.cancelled = true;
        assert_eq!(recv.advance(Err(Errno::INTR)), Some(Err(Errno::CANCELED)));
    }
}
