//! What a shard asks of storage.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_core::{Flags, Instant, Op, Outcome, Tag};
use weir_uring::{AnyRing, Buf, Completion, GuestSlice, Ring, Segment, SharedBuf, Waker};

use super::extents::Extents;
use crate::created::Created;

/// A storage that is open, before it belongs to a shard.
pub trait Prepare: Send + fmt::Debug {
    /// Size of the volume in bytes, until [`Backend::resize`].
    fn size(&self) -> u64;

    /// What clients are told of it.
    fn traits(&self) -> Traits;

    /// The file that was made for it, if one was: it goes when what is returned is dropped and not kept.
    fn created(&mut self) -> Option<Created> {
        None
    }

    /// Makes the backend, on the thread of the shard. `token` is added to what [`Context::token`] gives.
    ///
    /// # Errors
    /// What the system answers; the server does not start then, or the reload is refused.
    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>>;
}

/// Properties of a storage that the protocol or the shard depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// Buffers of reads are wide enough for the range rounded out to multiples of this, and begin at the same remainder. A
    /// power of two, 1 to 4096.
    pub align: u32,
    /// Bytes of the preferred block size that clients are told: a power of two, 512 to 2^20.
    pub preferred: u32,
    /// Nothing can be written.
    pub read_only: bool,
    /// A range can be given back (NBD's TRIM).
    pub trim: bool,
    /// A range can be zeroed in less time than writing it takes.
    pub fast_zero: bool,
    /// A look-up of extents finds more than that everything is data.
    pub allocation: bool,
    /// The storage takes [`Data::Guest`].
    pub guest: bool,
}

/// The storage of one volume.
pub trait Backend: fmt::Debug {
    /// Carries a piece out, now or later; see [the room's documentation](super).
    fn submit(&mut self, job: Job, cx: &mut Context<'_>);

    /// An operation that the backend queued on the ring with the user value [`Context::token`]`(op)` has ended.
    fn completed(&mut self, op: u32, completion: Completion, cx: &mut Context<'_>);

    /// The size that the volume could have now, bytes: `wanted`, if the configuration says one. Asked when a configuration is loaded
    /// again; changes nothing.
    ///
    /// # Errors
    /// The storage has not that size, or the system does not say which it has.
    fn size(&self, wanted: Option<u64>) -> io::Result<u64>;

    /// The storage, for a thread that may block and makes it larger before [`Backend::size`] is asked. `None` where the server cannot change its
    /// size: a device, what is read-only, what another server has, and memory, which [`Backend::resize`] makes larger.
    fn growable(&self) -> Option<Arc<dyn Grow>> {
        None
    }

    /// From now on jobs come for a volume of `size` bytes: what [`Backend::size`] has answered, and no less than before.
    fn resize(&mut self, _size: u64) {}

    /// How the server is that has it, where another has.
    fn remote(&self) -> Option<RemoteState> {
        None
    }

    /// Lets go of the ring, as everything has ended and nothing more is expected; what is submitted after all is carried out. True once the ring
    /// has nothing of it.
    fn rest(&mut self) -> bool {
        true
    }

    /// Goes on with what was deferred ([`Context::budget`]), in a later turn.
    fn resume_deferred(&mut self, _cx: &mut Context<'_>) {}

    /// A thread of the backend's has called by [`Context::caller`].
    fn woken(&mut self, _cx: &mut Context<'_>) {}
}

/// A storage that the server can make larger while it is used.
pub trait Grow: Send + Sync + fmt::Debug {
    /// Looks whether [`Grow::grow`] would work, and changes nothing.
    ///
    /// # Errors
    /// As [`Grow::grow`], as far as can be seen.
    fn look(&self, growth: &Growth) -> io::Result<()>;

    /// Makes the storage larger, on stable storage. False if it had the new size already.
    ///
    /// # Errors
    /// There is no space, another program has changed the size, or the system refuses. The storage has its old size then.
    fn grow(&self, growth: &Growth) -> io::Result<bool>;

    /// Makes the storage as small as it was: only while no client can have used what was added.
    fn take_back(&self, growth: &Growth);
}

/// From which size to which a storage grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// Bytes that the volume has.
    pub from: u64,
    /// Bytes that it is to have; more.
    pub to: u64,
    /// What is added is allocated at once, because something is promised.
    pub allocate: bool,
}

/// How a storage is that another machine has.
#[derive(Clone, Copy, Default, Debug)]
pub struct RemoteState {
    /// Its server is away.
    pub away: bool,
    /// When it was so last, if it is not now.
    pub last_away: Instant,
    /// How often it has gone away.
    pub losses: u64,
    /// Bytes that are kept because they are not known to be durable there.
    pub kept_bytes: u64,
    /// Bytes that were written again when it came back.
    pub replayed_bytes: u64,
}

/// A piece of a request for a backend to carry out.
#[derive(Debug)]
pub struct Job {
    /// Names it until it is finished: unique among the jobs of the volume's drive.
    pub tag: Tag,
    /// What to do. What does not change the volume is asked of one that is read-only, too.
    pub op: Op,
    /// How. With [`Flags::FUA`] it is finished only when what it did is on stable storage.
    pub flags: Flags,
    /// First byte in the volume. The range lies within the volume.
    pub offset: u64,
    /// Bytes; zero only for a flush. Of a look-up of extents the whole range, up to 4 GiB.
    pub length: u32,
    /// Where to, or where from.
    pub data: Data,
}

/// The memory of a job. The windows are exactly `length` bytes, in order.
#[derive(Debug, Default)]
pub enum Data {
    /// Flush, discard, write-zeroes, a look-up of extents.
    #[default]
    None,
    /// A read into one buffer; the usual case. The window begins at `offset % align` and the capacity reaches to the end of the
    /// range rounded up.
    Read(Buf),
    /// A read into several, when no free piece of memory was large enough. All but the last end at a multiple of `align`.
    ReadMany(Vec<Buf>),
    /// A write from one buffer.
    Write(SharedBuf),
    /// A write from several (all of them [`Segment::Buf`]).
    WriteMany(Vec<Segment>),
    /// A read into a guest's memory, or a write from it: parts that begin and end at multiples of [`Traits::align`], as the range of
    /// the job does, at most [`weir_uring::MAX_PIECES`]. Only where [`Traits::guest`] says so.
    Guest(Vec<GuestSlice>),
    /// What a look-up of extents found; it comes with [`Data::None`]. They cover the job's range from its beginning, at least
    /// a part of it.
    Extents(Extents),
}

/// A job that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) tag: Tag,
    /// `None`: nothing was done for want of room in the ring or in memory; it is submitted again.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) data: Data,
}

/// What a backend works with during a call.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// The shard's ring, with its arena and its waker.
    pub ring: &'a mut AnyRing,
    pub(crate) token: u64,
    pub(crate) finished: &'a mut Vec<Finished>,
    /// Bytes of memory that may be touched now by what is carried out at once.
    pub(crate) budget: u64,
    /// There is more to do.
    pub(crate) deferred: bool,
    /// The list of the drive, and the space of the backend's volume.
    pub(crate) news: (&'a News, u32),
}

/// The spaces of volumes for which other threads have results. It is a list, so that a wake-up costs
/// no more than these.
#[derive(Clone, Default, Debug)]
pub(crate) struct News(Arc<Mutex<Vec<u32>>>);

impl News {
    /// Takes all that are on the list, each once and in the order of their numbers: a backend takes
    /// all its results when it is woken.
    pub(crate) fn take(&self) -> Vec<u32> {
        let mut spaces = std::mem::take(&mut *self.lock());
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        // Nothing under the lock panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a shard from a thread of one of its backends.
#[derive(Debug)]
pub struct Caller {
    pub(super) waker: Waker,
    pub(super) news: News,
    pub(super) space: u32,
}

impl Caller {
    /// Has [`Backend::woken`] called, on the thread of the shard.
    pub fn call(&self) {
        self.news.lock().push(self.space);
        self.waker.wake();
    }
}

impl Context<'_> {
    /// The user value for an operation of this backend on the ring; `op` comes back in [`Backend::completed`].
    pub fn token(&self, op: u32) -> u64 {
        self.token | u64::from(op)
    }

    /// The way in which a thread of this backend's calls the shard.
    pub fn caller(&self) -> Caller {
        Caller {
            waker: self.ring.waker(),
            news: self.news.0.clone(),
            space: self.news.1,
        }
    }

    /// Ends a job: as asked, or with an error number of Linux. `data` is what came with it, windows as they were.
    pub fn finish(&mut self, tag: Tag, result: Result<(), u16>, data: Data) {
        let outcome = Some(match result {
            Ok(()) => Outcome::Ok,
            Err(errno) => Outcome::Error(errno),
        });
        self.finished.push(Finished { tag, outcome, data });
    }

    /// Gives a job back of which nothing was done, for want of a place in the ring or of memory: the core submits it again when
    /// something else has ended, or after 3 ms.
    pub fn busy(&mut self, tag: Tag, data: Data) {
        self.finished.push(Finished {
            tag,
            outcome: None,
            data,
        });
    }

    /// How many bytes of memory a backend that carries jobs out at once may still touch in this call. At 0 it keeps the rest and
    /// calls [`Context::defer`]: other volumes are served between.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// `bytes` bytes were touched.
    pub fn touched(&mut self, bytes: u64) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// There is more to do: [`Backend::resume_deferred`] is to be called in a later turn.
    pub fn defer(&mut self) {
        self.deferred = true;
    }
}

impl Job {
    /// The extents of a look-up, none of them found yet.
    pub fn extents(&self) -> Extents {
        Extents::new(self.length, self.flags.has(Flags::FIRST_ONLY))
    }
}

impl Data {
    /// Copies from `source` into the buffers of a read, in order; `source` must have as many bytes as their windows.
    pub fn fill(&mut self, source: &[u8]) {
        self.each_target(|at, into| into.copy_from_slice(&source[at..at + into.len()]));
    }

    /// The buffers of a read, in order.
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

    /// Calls `each` for the windows to read into, in order, with the place of each in the piece.
    pub fn each_target(&mut self, mut each: impl FnMut(usize, &mut [u8])) {
        let mut at = 0;
        for buf in self.targets() {
            each(at, buf);
            at += buf.len();
        }
    }

    /// Puts bytes into the buffers of a read, from byte `start` of the piece on.
    pub(super) fn put(&mut self, start: usize, from: &[u8]) {
        let end = start + from.len();
        self.each_target(|at, bytes| {
            let (a, b) = (at.max(start), (at + bytes.len()).min(end));
            if a < b {
                bytes[a - at..b - at].copy_from_slice(&from[a - start..b - start]);
            }
        });
    }

    /// Copies what a write carries, from byte `start` of the piece on.
    pub(super) fn get(&self, start: usize, into: &mut [u8]) {
        let end = start + into.len();
        self.each_source(|at, bytes| {
            let (a, b) = (at.max(start), (at + bytes.len()).min(end));
            if a < b {
                into[a - start..b - start].copy_from_slice(&bytes[a - at..b - at]);
            }
        });
    }

    /// Calls `each` for the windows to write from, in order, with the place of each in the piece.
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
