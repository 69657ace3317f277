//! The interface between a shard and its storage.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_core::{Flags, Instant, Op, Outcome, Tag};
use weir_uring::{AnyRing, Buf, GuestSlice, Ring, RingCompletion, RingWaker, Segment, SharedBuf};

use super::extents::Extents;
use crate::created::Created;

/// A storage that is open but does not belong to a shard yet.
pub trait Prepare: Send + fmt::Debug {
    /// Returns the size of the volume in bytes, which is valid until [`Backend::resize`].
    fn size(&self) -> u64;

    /// Returns the properties of the storage that clients depend on.
    fn traits(&self) -> Traits;

    /// Takes the file that was created for the storage, if there is one. The file is removed when
    /// the returned value is dropped without being kept.
    fn created(&mut self) -> Option<Created> {
        None
    }

    /// Creates the backend on the thread of the shard.
    ///
    /// # Errors
    /// Returns the system's error. The server does not start then, or the reload is refused.
    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>>;
}

/// Properties of a storage on which protocols or the shard depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// The alignment of reads: a power of two from 1 to 4096. The buffers of a read have space for
    /// its range extended to multiples of this number, and begin at the same remainder.
    pub align: u32,
    /// The preferred block size for clients, in bytes: a power of two from 512 to 2^20.
    pub preferred: u32,
    /// True if the storage cannot be written.
    pub read_only: bool,
    /// True if ranges can be discarded (NBD's TRIM).
    pub trim: bool,
    /// True if a range can be zeroed in less time than writing it takes.
    pub fast_zero: bool,
    /// True if a look-up of extents can find holes. Otherwise it finds only data.
    pub allocation: bool,
    /// True if the storage supports [`Data::Guest`].
    pub guest: bool,
}

/// The storage of one volume, as its shard uses it.
pub trait Backend: fmt::Debug {
    /// Carries out a piece, now or later. See the [module's documentation](super).
    fn submit(&mut self, job: BackendJob, cx: &mut Context<'_>);

    /// Processes the completion of an operation that the backend queued on the ring with the user
    /// value [`Context::token`]`(op)`.
    fn completed(&mut self, op: u32, completion: RingCompletion, cx: &mut Context<'_>);

    /// Returns the size that the volume could have now, in bytes. `wanted` is the size in the
    /// configuration, if there is one. This is called when a configuration is reloaded, and changes
    /// nothing.
    ///
    /// # Errors
    /// Fails if the storage does not have the wanted size, or if the system does not return its
    /// size.
    fn size(&self, wanted: Option<u64>) -> io::Result<u64>;

    /// Returns the storage for a thread that may block, which enlarges it before [`Backend::size`]
    /// is called. Returns `None` if the server cannot change the size: for a device, a read-only
    /// storage, a remote server, and memory (which [`Backend::resize`] enlarges).
    fn growable(&self) -> Option<Arc<dyn Grow>> {
        None
    }

    /// Sets the size of the volume for the jobs that follow. `size` is a result of
    /// [`Backend::size`], and not less than the present size.
    fn resize(&mut self, _size: u64) {}

    /// Returns duplicates of the descriptors that hold the storage and its locks, for another
    /// process ([`inherit`](super::inherit)). There are none if the storage is opened there anew.
    ///
    /// # Errors
    /// Returns the system's error.
    fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Returns the size of the content that exists only in the memory of this process, in bytes.
    fn memory(&self) -> u64 {
        0
    }

    /// Returns a copy of the content that exists only in the memory of this process, for another
    /// process ([`Backend::restore`]). No job may be in progress.
    ///
    /// # Errors
    /// Returns the system's error, usually because there is not enough memory.
    fn save(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Copies the content that [`Backend::save`] returned in another process into this volume,
    /// which nobody has used yet.
    ///
    /// # Errors
    /// Returns the system's error, or `InvalidData` if the volume cannot have this content.
    fn restore(&mut self, _content: &File) -> io::Result<()> {
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Returns the state of the remote server, if the storage is on one.
    fn remote(&self) -> Option<RemoteState> {
        None
    }

    /// Releases the ring after all jobs have completed and no more are expected. A job that is
    /// submitted nevertheless is still carried out. Returns true once the ring has no operation of
    /// the backend.
    fn rest(&mut self) -> bool {
        true
    }

    /// Continues deferred work ([`Context::defer`]) in a later turn.
    fn resume_deferred(&mut self, _cx: &mut Context<'_>) {}

    /// Collects results after a thread of the backend has called [`Caller::call`].
    fn woken(&mut self, _cx: &mut Context<'_>) {}
}

/// A storage that the server can enlarge while it is in use.
pub trait Grow: Send + Sync + fmt::Debug {
    /// Checks whether [`Grow::grow`] would succeed, and changes nothing.
    ///
    /// # Errors
    /// Returns the errors that [`Grow::grow`] would return, as far as they can be determined.
    fn look(&self, growth: &Growth) -> io::Result<()>;

    /// Enlarges the storage, and makes the change durable. Returns false if the storage already had
    /// the new size.
    ///
    /// # Errors
    /// Fails if there is no space, if another program has changed the size, or if the system
    /// refuses. The storage has its old size in that case.
    fn grow(&self, growth: &Growth) -> io::Result<bool>;

    /// Restores the old size of the storage. This is permitted only while no client can have used
    /// the added space.
    fn restore_size(&self, growth: &Growth);
}

/// A change of a storage's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// The present size of the volume in bytes.
    pub from: u64,
    /// The new size of the volume in bytes, which is larger.
    pub to: u64,
    /// True if the added space is allocated at once, because of a promise.
    pub allocate: bool,
}

/// The state of a remote server that stores a volume.
#[derive(Clone, Copy, Default, Debug)]
pub struct RemoteState {
    /// True while the server is unreachable.
    pub away: bool,
    /// The time when the server was last unreachable, if it is reachable now.
    pub last_away: Instant,
    /// The number of times that the server became unreachable.
    pub losses: u64,
    /// The number of bytes that are kept because they may not be durable on the server.
    pub kept_bytes: u64,
    /// The number of bytes that were written again after the server reconnected.
    pub replayed_bytes: u64,
}

/// A piece of a request that a backend carries out.
#[derive(Debug)]
pub struct BackendJob {
    /// Identifies the job until it is finished. The tag is unique among the jobs of the volume's
    /// drive.
    pub tag: Tag,
    /// The operation. Operations that do not change the volume are also sent to read-only storage.
    pub op: Op,
    /// The flags of the operation. With [`Flags::FUA`], the job is finished only when its effect is
    /// durable.
    pub flags: Flags,
    /// The first byte of the range in the volume. The range is within the volume.
    pub offset: u64,
    /// The length of the range in bytes, which is zero only for a flush. For a look-up of extents
    /// it is the whole range, up to 4 GiB.
    pub length: u32,
    /// The memory for the data that are read or written.
    pub data: Data,
}

/// The memory of a job. The windows of its buffers contain exactly `length` bytes, in order.
#[derive(Debug, Default)]
pub enum Data {
    /// No memory, for a flush, discard, write-zeroes or look-up of extents.
    #[default]
    None,
    /// A read into one buffer, which is the usual case. The window begins at `offset % align`, and
    /// the capacity extends to the end of the range rounded up to `align`.
    Read(Buf),
    /// A read into several buffers, because no free piece of memory was large enough. All buffers
    /// except the last end at a multiple of `align`.
    ReadMany(Vec<Buf>),
    /// A write from one buffer.
    Write(SharedBuf),
    /// A write from several buffers (all of them [`Segment::Buf`]).
    WriteMany(Vec<Segment>),
    /// A read into a guest's memory, or a write from it, if [`Traits::guest`] is true. There are at
    /// most [`weir_uring::MAX_PIECES`] parts. They and the range of the job begin and end at
    /// multiples of [`Traits::align`].
    Guest(Vec<GuestSlice>),
    /// The result of a look-up of extents, which was submitted with [`Data::None`]. The extents
    /// cover the job's range from its beginning, possibly only a part of it.
    Extents(Extents),
}

/// A job that a backend has finished.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) tag: Tag,
    /// The outcome, or `None` if nothing was done for lack of space in the ring or in memory. The
    /// job is submitted again then.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) data: Data,
}

/// The environment of a backend during a call.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of the current turn.
    pub now: Instant,
    /// The shard's ring, with its arena and its waker.
    pub ring: &'a mut AnyRing,
    pub(crate) token: u64,
    pub(crate) finished: &'a mut Vec<Finished>,
    /// The number of bytes of memory that jobs which are carried out at once may still touch in
    /// this call.
    pub(crate) budget: u64,
    /// True if the backend has deferred work.
    pub(crate) deferred: bool,
    /// The drive's list of volumes with news, and the space of the backend's volume.
    pub(crate) news: (&'a News, u32),
}

/// The spaces of volumes for which other threads have results. It is a list, so that the cost of a
/// wake-up depends only on the number of these volumes.
#[derive(Clone, Default, Debug)]
pub(crate) struct News(Arc<Mutex<Vec<u32>>>);

impl News {
    /// Takes all spaces from the list, in ascending order and without duplicates. One call of a
    /// backend suffices, because it collects all its results.
    pub(crate) fn take(&self) -> Vec<u32> {
        let mut spaces = std::mem::take(&mut *self.lock());
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        // No code under the lock can panic during a change, so the list is valid even if the lock
        // is poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle with which a thread of a backend calls the shard.
#[derive(Debug)]
pub struct Caller {
    pub(super) waker: RingWaker,
    pub(super) news: News,
    pub(super) space: u32,
}

impl Caller {
    /// Causes [`Backend::woken`] to be called on the thread of the shard.
    pub fn call(&self) {
        // The space is on the list before the shard wakes, so that the shard finds it.
        self.news.lock().push(self.space);
        self.waker.wake();
    }
}

impl Context<'_> {
    /// Returns the user value for an operation of this backend on the ring. [`Backend::completed`]
    /// receives `op` again.
    pub fn token(&self, op: u32) -> u64 {
        self.token | u64::from(op)
    }

    /// Returns the handle with which a thread of this backend calls the shard.
    pub fn caller(&self) -> Caller {
        Caller {
            waker: self.ring.waker(),
            news: self.news.0.clone(),
            space: self.news.1,
        }
    }

    /// Finishes a job successfully or with an error number of Linux. `data` is the memory of the
    /// job, with unchanged windows.
    pub fn finish(&mut self, tag: Tag, result: Result<(), u16>, data: Data) {
        let outcome = Some(match result {
            Ok(()) => Outcome::Ok,
            Err(errno) => Outcome::Error(errno),
        });
        self.finished.push(Finished { tag, outcome, data });
    }

    /// Returns a job of which nothing was done, for lack of space in the ring or of memory. The
    /// core submits it again when another job has ended, or after 3 ms.
    pub fn busy(&mut self, tag: Tag, data: Data) {
        self.finished.push(Finished {
            tag,
            outcome: None,
            data,
        });
    }

    /// Returns the number of bytes of memory that a backend which carries out jobs at once may
    /// still touch in this call. If it is zero, the backend keeps the remaining work and calls
    /// [`Context::defer`], so that other volumes are served in between.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Subtracts `bytes` from the budget, because the backend has touched that many bytes.
    pub fn touched(&mut self, bytes: u64) {
        // A read or a write is carried out as a whole, and can exceed the rest of the budget.
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// Requests a call of [`Backend::resume_deferred`] in a later turn.
    pub fn defer(&mut self) {
        self.deferred = true;
    }
}

impl BackendJob {
    /// Returns the empty result of a look-up of extents.
    pub fn extents(&self) -> Extents {
        Extents::new(self.length, self.flags.has(Flags::FIRST_ONLY))
    }
}

impl Data {
    /// Copies `source` into the buffers of a read, in order. The length of `source` must be that of
    /// their windows together.
    pub fn fill(&mut self, source: &[u8]) {
        self.each_target(|at, into| into.copy_from_slice(&source[at..at + into.len()]));
    }

    /// Returns the buffers of a read, in order.
    pub(super) fn targets(&mut self) -> &mut [Buf] {
        match self {
            Self::Read(buf) => std::slice::from_mut(buf),
            Self::ReadMany(bufs) => bufs,
            Self::None
            | Self::Write(_)
            | Self::WriteMany(_)
            | Self::Guest(_)
            | Self::Extents(_) => &mut [],
        }
    }

    /// Calls `each` with the windows of a read, in order, and with the offset of each in the piece.
    pub fn each_target(&mut self, mut each: impl FnMut(usize, &mut [u8])) {
        let mut at = 0;
        for buf in self.targets() {
            each(at, buf);
            at += buf.len();
        }
    }

    /// Copies bytes into the buffers of a read, from byte `start` of the piece on.
    pub(super) fn put(&mut self, start: usize, from: &[u8]) {
        let end = start + from.len();
        self.each_target(|at, bytes| {
            let (a, b) = (at.max(start), (at + bytes.len()).min(end));
            if a < b {
                bytes[a - at..b - at].copy_from_slice(&from[a - start..b - start]);
            }
        });
    }

    /// Copies the data of a write, from byte `start` of the piece on.
    pub(super) fn get(&self, start: usize, into: &mut [u8]) {
        let end = start + into.len();
        self.each_source(|at, bytes| {
            let (a, b) = (at.max(start), (at + bytes.len()).min(end));
            if a < b {
                into[a - start..b - start].copy_from_slice(&bytes[a - at..b - at]);
            }
        });
    }

    /// Calls `each` with the windows of a write, in order, and with the offset of each in the
    /// piece.
    pub fn each_source(&self, mut each: impl FnMut(usize, &[u8])) {
        match self {
            Self::Write(buf) => each(0, buf),
            Self::WriteMany(segments) => {
                let mut at = 0;
                for segment in segments {
                    each(at, segment);
                    at += segment.len();
                }
            }
            Self::None | Self::Read(_) | Self::ReadMany(_) | Self::Guest(_) | Self::Extents(_) => {}
        }
    }
}
