//! The ring that uses `io_uring`.

mod entry;
mod setup;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;

use self::entry::{EntryMemory, RegisteredRange};
use self::setup::Mode;
use crate::any::{IoRingConfig, RingOpenError};
use crate::arena::Arena;
use crate::operation::{Operation, OperationKind};
use crate::ring::{OpId, Registration, RejectReason, RejectedOperation, Ring, RingCompletion};
use crate::spin::SpinRule;
use crate::table::OperationTable;
use crate::waker::RingWaker;

/// The maximum number of system calls of one wait that run the kernel's pending work.
const ROUNDS: usize = 32;
/// The time for which a dropped ring waits for its last operations.
const GRACE: Duration = Duration::from_secs(10);
/// The user data of a cancellation's own completion. No operation has this name.
const CANCELLATION: u64 = u64::MAX;
/// Timeouts from this length on are treated as infinite.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// A [`Ring`] that uses `io_uring`.
///
/// When it is dropped, it cancels the operations in flight and waits for them. Operations that were
/// queued but not submitted may or may not be executed. If some operations do not complete within
/// ten seconds, because a drive does not respond, their buffers and the arena are leaked, because
/// the kernel may still write to them.
pub struct UringRing {
    ring: IoUring,
    /// The operations that the kernel uses. The table is freed only when nothing is in flight.
    table: ManuallyDrop<OperationTable<EntryMemory>>,
    /// Receives that are put into the submission queue after the other operations, so that answers
    /// leave first.
    receives: VecDeque<OpId>,
    /// Entries that did not fit into the submission queue.
    backlog: VecDeque<QueuedEntry>,
    arena: Arena,
    registration: Registration,
    registered: RegisteredRange,
    capacity: usize,
    /// True in [`Mode::Deferred`]. The kernel then accepts receives that wait for their socket
    /// first, and sends without a completion if they succeed.
    deferred: bool,
    /// True if the operation that was queued last delays the next one.
    links: bool,
    /// Quiet operations that were put into the submission queue, in their order.
    quiet: VecDeque<OpId>,
    /// The number of operations, from the front of `quiet`, that the kernel has executed. Those
    /// without a completion have succeeded.
    executed: usize,
    enter: EnterFlags,
    spin: SpinRule,
    waker: RingWaker,
    woken: bool,
    /// Completions of cancelled commands. The driver still has the commands, and no caller waits
    /// for them.
    given_up: VecDeque<RingCompletion>,
}

/// An entry for the submission queue, or for the backlog behind it.
#[derive(Clone, Copy, Debug)]
enum QueuedEntry {
    Operation(OpId),
    Cancellation(OpId),
}

impl UringRing {
    /// Opens a ring on the thread that uses it. Ignores `config.backend`.
    ///
    /// # Errors
    ///
    /// Returns [`RingOpenError`] if the ring cannot be opened.
    pub fn open(config: &IoRingConfig) -> Result<Self, RingOpenError> {
        Self::open_in(&Mode::ALL, config)
    }

    fn open_in(modes: &[Mode], config: &IoRingConfig) -> Result<Self, RingOpenError> {
        let (arena, waker) = config.parts()?;
        // One more place for the waker's own operation.
        let places = config.in_flight + 1;
        let ring = setup::ring(places as u32, modes).map_err(RingOpenError::Uring)?;
        let (registration, registered) = setup::register(&ring, &arena, config.registered_bytes);
        // Only this mode has a single issuer, which can be queried.
        let deferred = ring.params().is_setup_single_issuer();
        let mut ring = Self {
            enter: setup::enter_flags(&ring),
            ring,
            table: ManuallyDrop::new(OperationTable::new(places)),
            receives: VecDeque::with_capacity(places),
            backlog: VecDeque::with_capacity(places),
            arena,
            registration,
            registered,
            capacity: config.in_flight,
            deferred,
            links: false,
            quiet: VecDeque::new(),
            executed: 0,
            spin: SpinRule::new(config.spin),
            waker,
            woken: false,
            given_up: VecDeque::new(),
        };
        ring.listen()?;
        Ok(ring)
    }

    /// Queues the read of the waker's counter, which is in flight at all times.
    fn listen(&mut self) -> Result<(), RingOpenError> {
        let operation = setup::wake(&self.waker, &self.arena)?;
        let id = self.table.insert(operation);
        self.push(QueuedEntry::Operation(
            id.expect("the table is empty and has a place"),
        ));
        Ok(())
    }

    /// Adds the receives to the submission queue.
    fn push_receives(&mut self) {
        while let Some(id) = self.receives.pop_front() {
            self.push(QueuedEntry::Operation(id));
        }
    }

    /// Adds an entry to the submission queue, or to the backlog if the backlog is not empty. This
    /// keeps the order of entries.
    fn push(&mut self, queued: QueuedEntry) {
        if !self.backlog.is_empty() || !self.try_push(queued) {
            self.backlog.push_back(queued);
        }
    }

    /// Adds an entry to the submission queue. Returns `false` if the queue is full and the kernel
    /// does not consume it now.
    fn try_push(&mut self, queued: QueuedEntry) -> bool {
        // A link does not extend beyond one system call, so there must be room for the linked
        // operation as well.
        let room = 1 + usize::from(self.is_linked(queued));
        let free = {
            let queue = self.ring.submission();
            queue.capacity() - queue.len()
        };
        if free < room {
            // An error is ignored, because the push below fails if the queue is still full.
            let _ = self.ring.submit();
        }
        let Some(entry) = self.entry(queued) else {
            return true;
        };
        // SAFETY: the entry's addresses are in the operation's payload and in its `EntryMemory`,
        // and its descriptor is held by the operation's `Handle`. All of these stay in their slot
        // of the table, unmoved and unread, until the completion arrives (`pop`). The slots never
        // move, because the table does not grow. Dropping the ring frees the table only when
        // nothing is in flight, and forgetting the ring frees nothing at all. A payload consists of
        // buffers, each of which keeps its mapping, and of vectors that no code here changes.
        let pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        if pushed
            && let QueuedEntry::Operation(id) = queued
            && self.is_quiet(id)
        {
            self.quiet.push_back(id);
        }
        pushed
    }

    /// Returns true if the operation is quiet and has not completed.
    fn is_quiet(&mut self, id: OpId) -> bool {
        let operation = self.table.get(id).and_then(|slot| slot.operation.as_ref());
        operation.is_some_and(|operation| operation.quiet)
    }

    /// Returns the success of a quiet operation. All completions of the kernel must have been
    /// popped, because a failure is one of them.
    fn pop_quiet(&mut self) -> Option<RingCompletion> {
        // The failure may be among completions that the kernel has no room for.
        while self.executed > 0 && !self.ring.submission().cq_overflow() {
            self.executed -= 1;
            let id = self.quiet.pop_front()?;
            if self.is_quiet(id) {
                let operation = self.table.remove(id)?;
                let total = operation.total;
                return Some(operation.completed(Ok(total)));
            }
        }
        None
    }

    fn is_linked(&mut self, queued: QueuedEntry) -> bool {
        let QueuedEntry::Operation(id) = queued else {
            return false;
        };
        let operation = self.table.get(id).and_then(|slot| slot.operation.as_ref());
        operation.is_some_and(|operation| operation.linked)
    }

    /// Returns the entry for the submission queue, or `None` if the operation has ended in the
    /// meantime.
    fn entry(&mut self, queued: QueuedEntry) -> Option<squeue::Entry> {
        Some(match queued {
            QueuedEntry::Operation(id) => {
                let slot = self.table.get(id)?;
                let operation = slot.operation.as_mut()?;
                entry::build(operation, &mut slot.extra, &self.registered, self.deferred)
                    .user_data(id.name)
            }
            QueuedEntry::Cancellation(id) => opcode::AsyncCancel::new(id.name)
                .build()
                .user_data(CANCELLATION),
        })
    }

    /// Processes a completion from the kernel. Returns `None` if it is not a completion for the
    /// caller.
    fn complete(
        &mut self,
        id: OpId,
        outcome: Result<usize, Errno>,
        flags: u32,
    ) -> Option<RingCompletion> {
        let operation = self.table.get(id)?.operation.as_mut()?;
        if matches!(operation.kind, OperationKind::Recv(_)) {
            operation.handle.set_more(cqueue::sock_nonempty(flags));
        }
        let result = operation.advance(outcome);
        // The waker's read is queued again at once, because it must be in flight whenever the
        // thread waits.
        if matches!(operation.kind, OperationKind::Wake) && !operation.cancelled {
            operation.done = 0;
            self.waker.acknowledge();
            self.woken = true;
            self.push(QueuedEntry::Operation(id));
            return None;
        }
        let Some(result) = result else {
            self.push(QueuedEntry::Operation(id));
            return None;
        };
        let operation = self.table.remove(id)?;
        Some(operation.completed(result))
    }

    /// Makes one system call that submits entries, waits for `want` completions, and runs the
    /// kernel's pending work.
    fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let submitted = self.ring.submission().len() as u32;
        let timespec = timeout.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let submitter = self.ring.submitter();
        // SAFETY: the flags include EXT_ARG, for which `args` has the layout of the argument.
        // `args` and the timespec to which it points live until the call returns.
        let outcome = unsafe { submitter.enter(submitted, want, self.enter.bits(), Some(&args)) };
        match outcome.as_ref().err().and_then(Errno::from_io_error) {
            // TIME: the timeout expired. INTR: a signal arrived. BUSY: completions must be consumed
            // first. AGAIN: memory is short for the moment.
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => outcome.map(drop),
        }
    }

    /// Submits entries and waits for a completion: polls first, if the waits before were short, and
    /// then sleeps.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.spin.is_enabled() {
            return self.enter(1, timeout);
        }
        let begun = Instant::now();
        let spin = self.spin.time();
        let spin = timeout.map_or(spin, |timeout| timeout.min(spin));
        if !spin.is_zero() {
            if !self.ring.submission().is_empty() {
                self.enter(0, None)?;
            }
            if self.poll_until(begun + spin) {
                self.spin.observe(Some(begun.elapsed()));
                return Ok(());
            }
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        self.enter(1, left)?;
        let event = self.is_ready().then(|| begun.elapsed());
        self.spin.observe(event);
        Ok(())
    }

    /// Polls until the kernel has a completion, or pending work that leads to one. Returns false
    /// if there was none until `deadline`.
    fn poll_until(&mut self, deadline: Instant) -> bool {
        loop {
            if self.is_ready() || self.ring.submission().taskrun() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Ends all operations in flight. Returns `false` if that is not possible.
    fn complete_all(&mut self) -> bool {
        for id in self.table.ids() {
            self.cancel(id);
        }
        let deadline = Instant::now() + GRACE;
        while self.table.len() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.submit_and_wait(Some(left)).is_err() {
                return false;
            }
            while self.pop().is_some() {}
        }
        true
    }
}

impl Ring for UringRing {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn registration(&self) -> Registration {
        self.registration
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn in_flight(&self) -> usize {
        // The waker's own operation does not count.
        self.table.len() - 1 + self.given_up.len()
    }

    fn queue(&mut self, mut operation: Operation) -> Result<OpId, RejectedOperation> {
        if let Err(reason) = operation.check() {
            return Err(operation.rejected(reason));
        }
        // The kernel executes a linked operation later, and then the success must be seen. It
        // always waits for an eventfd that blocks.
        let waits =
            matches!(operation.kind, OperationKind::Signal) && !operation.handle.is_nonblocking();
        operation.quiet &= self.deferred && !self.links && !waits;
        let is_receive = matches!(operation.kind, OperationKind::Recv(_)) && !self.links;
        self.links = operation.linked;
        let inserted = self.table.insert(operation);
        let id = inserted.map_err(|operation| operation.rejected(RejectReason::Full))?;
        if is_receive {
            self.receives.push_back(id);
        } else {
            self.push(QueuedEntry::Operation(id));
        }
        Ok(id)
    }

    fn cancel(&mut self, op: OpId) {
        let operation = self.table.get(op).and_then(|slot| slot.operation.as_mut());
        if operation
            .as_ref()
            .is_some_and(|o| matches!(o.kind, OperationKind::Command(_)))
        {
            // The kernel cannot take a command back, and the command uses no memory of this
            // process. So it is removed from the table at once.
            self.given_up.extend(
                self.table
                    .remove(op)
                    .map(|operation| operation.completed(Err(Errno::CANCELED))),
            );
            return;
        }
        if let Some(operation) = operation
            && !std::mem::replace(&mut operation.cancelled, true)
        {
            self.push_receives();
            self.push(QueuedEntry::Cancellation(op));
        }
    }

    fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.push_receives();
        while let Some(queued) = self.backlog.front().copied() {
            if !self.try_push(queued) {
                break;
            }
            self.backlog.pop_front();
        }
        let ready = self.is_ready();
        // There is something to return and nothing to submit, so no system call is needed.
        if ready && self.ring.submission().is_empty() {
            return Ok(());
        }
        // With a backlog, the call must return so that the next entries can be submitted.
        let wait = !ready && self.backlog.is_empty() && timeout != Some(Duration::ZERO);
        let timeout = timeout.filter(|timeout| *timeout < LONGEST);
        if wait {
            self.wait(timeout)?;
        } else {
            self.enter(0, timeout)?;
        }
        // One call runs at most 20 pending operations (Linux 6.13, `IO_LOCAL_TW_DEFAULT_MAX`), in
        // the order in which they became ready. The others would otherwise wait for the next
        // passes, behind those of clients with many operations in flight.
        for _ in 0..ROUNDS {
            if !self.ring.submission().taskrun() {
                break;
            }
            self.enter(0, None)?;
        }
        if self.ring.submission().is_empty() {
            self.executed = self.quiet.len();
        }
        Ok(())
    }

    fn is_ready(&mut self) -> bool {
        !self.given_up.is_empty() || !self.ring.completion().is_empty()
    }

    fn pop(&mut self) -> Option<RingCompletion> {
        if let Some(completion) = self.given_up.pop_front() {
            return Some(completion);
        }
        loop {
            let Some(entry) = self.ring.completion().next() else {
                return self.pop_quiet();
            };
            let outcome = match entry.result() {
                result @ 0.. => Ok(result as usize),
                errno => Err(Errno::from_raw_os_error(-errno)),
            };
            let id = self.table.id(entry.user_data());
            if let Some(completion) = self.complete(id, outcome, entry.flags()) {
                return Some(completion);
            }
        }
    }

    fn waker(&self) -> RingWaker {
        self.waker.clone()
    }

    fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }
}

impl Drop for UringRing {
    fn drop(&mut self) {
        if self.complete_all() {
            // SAFETY: it is dropped once, here, and not used afterwards. The kernel has completed
            // every operation that pointed into it.
            unsafe { ManuallyDrop::drop(&mut self.table) };
        }
    }
}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringRing")
            .field("registration", &self.registration)
            .field("capacity", &self.capacity)
            .field("in_flight", &self.in_flight())
            .field("params", self.ring.params())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::handle::Handle;
    use crate::payload::{Header, Segment};
    use crate::ring::FillMode;

    /// Opens a ring in one mode, or returns `None` if the system refuses `io_uring`. The tests of
    /// both rings report that.
    fn open(mode: Mode) -> Option<UringRing> {
        let config = IoRingConfig {
            arena_bytes: 1 << 20,
            in_flight: 16,
            ..IoRingConfig::default()
        };
        UringRing::open_in(&[mode], &config).ok()
    }

    fn next(ring: &mut UringRing) -> RingCompletion {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Some(completion) = ring.pop() {
                return completion;
            }
            ring.submit_and_wait(Some(Duration::from_millis(100)))
                .unwrap();
        }
        panic!("an operation did not complete");
    }

    fn pair() -> (Handle, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Handle::new(ours.into()).unwrap(), theirs)
    }

    #[test]
    fn every_mode_works() {
        for mode in Mode::ALL {
            let Some(mut ring) = open(mode) else { continue };
            let (socket, mut peer) = pair();
            let buf = ring.arena().alloc(100).unwrap();
            ring.recv(1, &socket, buf, FillMode::Any).unwrap();
            ring.submit_and_wait(Some(Duration::from_millis(1)))
                .unwrap();
            // Nothing has arrived yet.
            assert!(ring.pop().is_none(), "{mode:?}");
            peer.write_all(b"hello").unwrap();
            assert_eq!(next(&mut ring).result, Ok(5), "{mode:?}");

            // A wake-up by another thread ends a wait without a timeout.
            let waker = ring.waker();
            let thread = std::thread::spawn(move || waker.wake());
            while !ring.take_woken() {
                ring.submit_and_wait(None).unwrap();
                assert!(ring.pop().is_none());
            }
            thread.join().unwrap();

            let buf = ring.arena().alloc(100).unwrap();
            // Dropping the ring cancels the receive and returns its buffer to the arena.
            let arena = ring.arena().clone();
            ring.recv(2, &socket, buf, FillMode::All).unwrap();
            ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
            drop(ring);
            assert_eq!(arena.available(), arena.capacity(), "{mode:?}");
        }
    }

    #[test]
    fn the_backlog_is_submitted_later() {
        let Some(mut ring) = open(Mode::Deferred) else {
            return;
        };
        let (socket, mut peer) = pair();
        let segments = vec![Segment::from(Header::new(*b"late"))];
        let send = Operation::new(
            1,
            &socket,
            OperationKind::Send,
            crate::Payload::Segments(segments),
        );
        let id = ring.table.insert(send).unwrap();
        // The operation is put into the backlog as if the submission queue were full.
        ring.backlog.push_back(QueuedEntry::Operation(id));
        // The next entry goes behind it, as long as the backlog is not empty.
        ring.poll_readable(2, &socket).unwrap();
        assert_eq!(ring.backlog.len(), 2);
        assert_eq!(next(&mut ring).user, 1);
        assert!(ring.backlog.is_empty());
        let mut got = [0; 4];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"late");
        peer.write_all(b"x").unwrap();
        assert_eq!(next(&mut ring).user, 2);
    }

    #[test]
    fn a_full_submission_queue_is_submitted() {
        let Some(mut ring) = open(Mode::Deferred) else {
            return;
        };
        let entries = ring.ring.params().sq_entries() as usize;
        let pairs: Vec<_> = (0..16).map(|_| pair()).collect();
        // Each round queues two entries for each operation, a receive and its cancellation.
        for turn in 0..entries {
            for (user, (socket, _)) in (0..).zip(&pairs) {
                let buf = ring.arena().alloc(512).unwrap();
                let recv = ring.recv(user, socket, buf, FillMode::Any).unwrap();
                ring.cancel(recv);
            }
            for _ in &pairs {
                let ended = next(&mut ring);
                assert_eq!(ended.result, Err(Errno::CANCELED), "turn {turn}");
            }
        }
    }

    #[test]
    fn a_wait_that_polls_notices_events_and_its_timeout() {
        for mode in Mode::ALL {
            let Some(mut ring) = open(mode) else { continue };
            let mut polling = SpinRule::new(Duration::from_secs(10));
            while polling.time().is_zero() {
                polling.observe(Some(Duration::ZERO));
            }
            let (socket, mut peer) = pair();
            let recv = |ring: &mut UringRing, user| {
                let buf = ring.arena().alloc(512).unwrap();
                ring.recv(user, &socket, buf, FillMode::Any).unwrap();
            };
            for user in 1..4 {
                ring.spin = polling;
                recv(&mut ring, user);
                let wrote = std::thread::spawn({
                    let mut peer = peer.try_clone().unwrap();
                    move || peer.write_all(b"x").unwrap()
                });
                assert_eq!(next(&mut ring).user, user, "{mode:?}");
                // The event ended the polling, and the thread did not sleep.
                assert!(!ring.spin.time().is_zero(), "{mode:?}");
                wrote.join().unwrap();
            }
            ring.spin = polling;
            recv(&mut ring, 4);
            let waker = ring.waker();
            let woke = std::thread::spawn(move || waker.wake());
            while !ring.take_woken() {
                ring.submit_and_wait(None).unwrap();
                assert!(ring.pop().is_none());
            }
            woke.join().unwrap();
            // The first poll in vain ends the polling.
            ring.spin = polling;
            ring.submit_and_wait(Some(Duration::from_millis(1)))
                .unwrap();
            assert!(ring.pop().is_none());
            assert!(ring.spin.time().is_zero(), "{mode:?}");
            peer.write_all(b"x").unwrap();
            assert_eq!(next(&mut ring).user, 4);
        }
    }
}
