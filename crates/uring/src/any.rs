//! The choice between the two kinds of ring, and the configuration that both share.

use std::io;
use std::time::Duration;

use crate::arena::Arena;
use crate::operation::Operation;
use crate::poll::PollRing;
use crate::ring::{OpId, Registration, RejectedOperation, Ring, RingCompletion};
use crate::uring::UringRing;
use crate::waker::RingWaker;

/// The kind of ring to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// `io_uring`, or poll(2) if the system refuses `io_uring`.
    #[default]
    Auto,
    /// `io_uring` only, with an error if the system refuses it.
    Uring,
    /// poll(2) with plain reads and writes. File operations block the shard.
    Poll,
}

/// The configuration of a ring.
#[derive(Clone, Debug)]
pub struct IoRingConfig {
    /// The kind of ring to open.
    pub backend: Backend,
    /// The size of the arena in bytes, rounded up to whole pages. The ring itself uses 512 of them.
    pub arena_bytes: usize,
    /// The maximum number of operations in flight, 1 to 16,384.
    pub in_flight: usize,
    /// The maximum number of bytes of the arena to register with the kernel. Registration pins them
    /// in memory.
    pub registered_bytes: usize,
    /// The maximum time for which a wait polls for an event before the thread sleeps. Waits go on
    /// polling only as long as they find events. Zero means that no wait polls. A ring that uses
    /// poll(2) ignores it.
    pub spin: Duration,
}

impl IoRingConfig {
    /// The largest permitted maximum of operations in flight.
    pub const MAX_IN_FLIGHT: usize = 16_384;

    /// Creates the arena and the waker, after checking the bounds.
    pub(crate) fn parts(&self) -> Result<(Arena, RingWaker), RingOpenError> {
        if self.in_flight == 0 || self.in_flight > Self::MAX_IN_FLIGHT {
            return Err(RingOpenError::InFlight(self.in_flight));
        }
        let arena = Arena::new(self.arena_bytes).map_err(|source| RingOpenError::Arena {
            bytes: self.arena_bytes,
            source,
        })?;
        let waker = RingWaker::new().map_err(|errno| RingOpenError::Waker(errno.into()))?;
        Ok((arena, waker))
    }
}

impl Default for IoRingConfig {
    /// Returns `Auto`, 64 MiB, 1024 operations, and as much registered memory as the system
    /// permits. Waits do not poll.
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            arena_bytes: 64 << 20,
            in_flight: 1024,
            registered_bytes: usize::MAX,
            spin: Duration::ZERO,
        }
    }
}

/// The reason why a ring could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RingOpenError {
    /// The value of `in_flight` is out of range.
    #[error("a ring must have 1 to 16384 operations in flight, not {0}")]
    InFlight(usize),
    /// The arena could not be mapped.
    #[error("cannot map an arena of {bytes} bytes: {source}")]
    Arena {
        /// The requested size in bytes.
        bytes: usize,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The system refuses `io_uring`.
    #[error(
        "cannot set up io_uring: {0}; use kernel 6.1 or later, permit io_uring (kernel.io_uring_disabled, container, seccomp), or use the poll backend"
    )]
    Uring(io::Error),
    /// The waker could not be created.
    #[error("cannot create an eventfd for wake-ups: {0}")]
    Waker(io::Error),
}

/// A ring of either kind.
#[derive(Debug)]
// Each shard has one ring and does not move it.
#[expect(clippy::large_enum_variant)]
pub enum AnyRing {
    /// A ring that uses `io_uring`.
    Uring(UringRing),
    /// A ring that uses poll(2).
    Poll(PollRing),
}

impl AnyRing {
    /// Opens the ring that `config` selects. Must be called on the thread that uses the ring.
    ///
    /// # Errors
    ///
    /// Returns [`RingOpenError`]. With [`Backend::Auto`], a refusal of `io_uring` is not an error.
    pub fn open(config: &IoRingConfig) -> Result<Self, RingOpenError> {
        match config.backend {
            Backend::Uring => UringRing::open(config).map(Self::Uring),
            Backend::Poll => PollRing::open(config).map(Self::Poll),
            Backend::Auto => match UringRing::open(config) {
                // Other errors, such as a lack of memory for the arena, would affect poll(2) as
                // well.
                Err(RingOpenError::Uring(refusal)) => {
                    PollRing::open(config).map(|ring| Self::Poll(ring.with_refusal(refusal)))
                }
                ring => ring.map(Self::Uring),
            },
        }
    }

    /// Returns the system's refusal of `io_uring`, if [`Backend::Auto`] chose poll(2) because of
    /// it.
    pub fn refusal(&self) -> Option<&io::Error> {
        match self {
            Self::Uring(_) => None,
            Self::Poll(ring) => ring.refusal(),
        }
    }
}

/// Calls the same method on either ring.
macro_rules! either {
    ($any:expr, $ring:ident => $call:expr) => {
        match $any {
            AnyRing::Uring($ring) => $call,
            AnyRing::Poll($ring) => $call,
        }
    };
}

impl Ring for AnyRing {
    fn arena(&self) -> &Arena {
        either!(self, ring => ring.arena())
    }

    fn registration(&self) -> Registration {
        either!(self, ring => ring.registration())
    }

    fn capacity(&self) -> usize {
        either!(self, ring => ring.capacity())
    }

    fn in_flight(&self) -> usize {
        either!(self, ring => ring.in_flight())
    }

    fn queue(&mut self, operation: Operation) -> Result<OpId, RejectedOperation> {
        either!(self, ring => ring.queue(operation))
    }

    fn cancel(&mut self, op: OpId) {
        either!(self, ring => ring.cancel(op));
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, ring => ring.submit_and_wait(timeout))
    }

    fn is_ready(&mut self) -> bool {
        either!(self, ring => ring.is_ready())
    }

    fn pop(&mut self) -> Option<RingCompletion> {
        either!(self, ring => ring.pop())
    }

    fn waker(&self) -> RingWaker {
        either!(self, ring => ring.waker())
    }

    fn take_woken(&mut self) -> bool {
        either!(self, ring => ring.take_woken())
    }
}
