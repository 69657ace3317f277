//! A file or a device that is measured through `io_uring`, without the page cache.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weir_config::os_error;
use weir_core::Op;
use weir_model::load::{Io, RequestSource, Step};
use weir_serve::backend::OpenStorage;
use weir_uring::{
    AnyRing, Backend, Errno, Handle, IoRingConfig, Payload, Ring, RingOpenError, Sync,
};

/// The longest time without a completion while requests are in flight.
const PATIENCE: Duration = Duration::from_mins(1);
/// The longest wait for a completion. After it, the source is queried again, so that an interrupt
/// is noticed.
const LISTEN: Duration = Duration::from_millis(50);
/// The memory for requests in flight, in bytes. It is four times the amount that is in flight at
/// most.
const ARENA: usize = 16 << 20;

/// A file or device that is open and locked, with the ring that accesses it.
pub(super) struct RingDisk {
    ring: AnyRing,
    handle: Handle,
    /// The open file, which also holds the lock.
    opened: OpenStorage,
}

/// The state of a run.
struct RingRunner<'a> {
    disk: &'a mut RingDisk,
    /// The zero of the source's clock.
    origin: Instant,
    /// The requests in flight, by number.
    flying: BTreeMap<u64, Io>,
    /// The time of the last completion, or of the first request after a pause.
    heard: Instant,
    /// The error of the first request that failed.
    refusal: Option<String>,
}

impl RingDisk {
    /// Opens a ring for a file or device.
    pub(super) fn new(opened: OpenStorage) -> Result<Self, Failure> {
        // The replacement for `io_uring` has only one request in flight, so it would measure the
        // latency and not the capacity.
        let config = IoRingConfig {
            backend: Backend::Uring,
            arena_bytes: ARENA,
            ..IoRingConfig::default()
        };
        let ring = AnyRing::open(&config).map_err(|error| match error {
            RingOpenError::Uring(error) => Failure::Run(format!(
                "cannot use io_uring, without which only one request would be in flight: {}; use kernel 6.1 or later, and permit io_uring \
                 (kernel.io_uring_disabled, container, seccomp)",
                os_error::message(&error)
            )),
            other => Failure::run(other),
        })?;
        let failed = |error: std::io::Error| {
            Failure::Run(format!(
                "cannot duplicate a descriptor: {}",
                os_error::message(&error)
            ))
        };
        let fd = opened.as_fd().try_clone_to_owned().map_err(failed)?;
        let handle = Handle::new(fd).map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            ring,
            handle,
            opened,
        })
    }

    /// Returns the open file or device.
    pub(super) fn opened(&self) -> &OpenStorage {
        &self.opened
    }

    /// Plays the requests of a source until it has finished.
    pub(super) fn run<S: RequestSource>(&mut self, source: &mut S) -> Result<(), Failure> {
        let now = Instant::now();
        let runner = RingRunner {
            disk: self,
            origin: now,
            flying: BTreeMap::new(),
            heard: now,
            refusal: None,
        };
        runner.run(source)
    }
}

impl RingRunner<'_> {
    fn run<S: RequestSource>(mut self, source: &mut S) -> Result<(), Failure> {
        loop {
            let wait = match self.issue(source)? {
                Step::Finished => break,
                Step::WaitUntil(at) => {
                    LISTEN.min(Duration::from_nanos(at.since(self.now()).as_nanos()))
                }
                _ => LISTEN,
            };
            let waited = self.disk.ring.submit_and_wait(Some(wait));
            waited.map_err(|e| Failure::run(format!("the ring failed: {e}")))?;
            while let Some(completion) = self.disk.ring.pop() {
                self.complete(
                    source,
                    completion.user,
                    completion.result,
                    &completion.payload,
                );
            }
            if !self.flying.is_empty() && self.heard.elapsed() > PATIENCE {
                let silent = PATIENCE.as_secs();
                return Err(Failure::Run(format!(
                    "the drive did not complete any request for {silent} s"
                )));
            }
        }
        // The first failed request decides, even though the source has finished.
        self.refusal.map_or(Ok(()), |why| Err(Failure::Run(why)))
    }

    /// Queues all requests that are due, and returns the next step of the source.
    fn issue<S: RequestSource>(&mut self, source: &mut S) -> Result<Step, Failure> {
        loop {
            let step = source.next(self.now());
            let Step::Issue(io) = step else {
                return Ok(step);
            };
            // The time without a completion is counted only while requests are in flight.
            if self.flying.is_empty() {
                self.heard = Instant::now();
            }
            self.flying.insert(io.number, io);
            self.queue(source, &io)?;
        }
    }

    /// Queues one request, which the next call of the kernel submits.
    fn queue<S: RequestSource>(&mut self, source: &mut S, io: &Io) -> Result<(), Failure> {
        let RingDisk { ring, handle, .. } = &mut *self.disk;
        if io.op == Op::Flush {
            let queued = ring.fsync(io.number, handle, true);
            return queued.map(drop).map_err(Failure::run);
        }
        let length = io.length as usize;
        let full = || Failure::Run("no memory is left for another request".into());
        let mut buffer = ring.arena().alloc(length).ok_or_else(full)?;
        let queued = if io.op == Op::Write {
            let mut data = Vec::with_capacity(length);
            source.payload(io, &mut data);
            buffer.copy_from_slice(&data);
            ring.write(io.number, handle, io.offset, buffer.into_shared(), Sync::No)
        } else {
            ring.read(io.number, handle, io.offset, buffer)
        };
        queued.map(drop).map_err(Failure::run)
    }

    /// Passes a completion to the source, and keeps the first error.
    fn complete<S: RequestSource>(
        &mut self,
        source: &mut S,
        number: u64,
        result: Result<usize, Errno>,
        payload: &Payload,
    ) {
        let Some(io) = self.flying.remove(&number) else {
            return;
        };
        self.heard = Instant::now();
        // A short read or write is treated as a failure.
        let whole = result == Ok(io.length as usize);
        if whole && let Payload::Buf(buffer) = payload {
            source.received(&io, 0, buffer);
        }
        if !whole && self.refusal.is_none() {
            self.refusal = Some(refused(&io, result));
        }
        source.completed(self.now(), &io, !whole);
    }

    fn now(&self) -> weir_core::Instant {
        let nanos = self.origin.elapsed().as_nanos();
        weir_core::Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Returns the error message for a failed request.
fn refused(io: &Io, result: Result<usize, Errno>) -> String {
    let what = match io.op {
        Op::Write => "write",
        Op::Flush => "flush",
        _ => "read",
    };
    let why = match result {
        Ok(bytes) => format!("it ended after {bytes} bytes"),
        Err(errno) => os_error::message(&errno.into()),
    };
    format!(
        "a {what} of {} bytes at offset {} failed: {why}",
        io.length, io.offset
    )
}
