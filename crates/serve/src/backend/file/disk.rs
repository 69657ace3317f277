//! A file or a device behind the ring, as a state machine that carries out jobs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_core::{Flags, Op};
use weir_uring::{Buf, Errno, Handle, MAX_PIECES, Payload, Ring, RingCompletion, Sync};

use super::super::interface::Grow;
use super::super::rmw::{LockMode, Ranges};
use super::super::workers::Workers;
use super::super::{Allocation, Backend, BackendJob, Context, Data, Extents};
use super::error;
use super::grow::Image;
use super::medium::{Medium, MediumKind};
use super::work::{self, CHUNK, DiskWork, Patch, PatchStep, WorkPhase};
use crate::errno::{EIO, ENOSPC, ENOTSUP, EPERM};
use crate::slab::Slab;

/// The operation number of the disk's own fdatasync. Works have smaller numbers.
const SYNC: u32 = u32::MAX;
/// The alignment in bytes of ranges that are discarded or zeroed.
const GRAIN: u64 = 4096;

/// The access properties of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Geometry {
    /// True for direct I/O. Otherwise, `block` and `memory` are 1.
    pub(in crate::backend) direct: bool,
    /// The alignment of ranges in bytes: a power of two, at most 4096.
    pub(in crate::backend) block: u32,
    /// The alignment of addresses in memory: a power of two, at most 4096.
    pub(in crate::backend) memory: u32,
    /// True if the disk cannot be written.
    pub(in crate::backend) read_only: bool,
    /// True if the workers can look up which ranges are allocated.
    pub(in crate::backend) allocation: bool,
}

/// The backend of files and devices.
#[derive(Debug)]
pub(in crate::backend) struct DiskBackend {
    file: Handle,
    medium: Arc<Medium>,
    geometry: Geometry,
    works: Slab<DiskWork>,
    ranges: Ranges,
    /// Works whose range lock was granted.
    ready: VecDeque<u32>,
    workers: Workers<WorkerResult>,
    /// Look-ups of extents that wait because the workers were busy.
    lookups: VecDeque<u32>,
    /// Works that wait for the next fdatasync, and works that the running one covers. Only one runs
    /// at a time, because the kernel reports an earlier write error to only one of several callers
    /// with the same open file.
    unsynced: Vec<u32>,
    syncing: Vec<u32>,
    /// True after fdatasync has failed. Data that were written before may be lost, and the kernel
    /// does not report the error again.
    sync_failed: bool,
}

/// The result of a worker's task.
#[derive(Debug)]
enum WorkerResult {
    Space(u32, Result<(), Errno>),
    Extents(u32, Extents),
}

impl DiskBackend {
    /// Creates a disk on an open file. `medium` has another descriptor of it, for the workers.
    ///
    /// # Errors
    /// Returns the error of fcntl(2).
    pub(in crate::backend) fn new(
        fd: OwnedFd,
        medium: Medium,
        geometry: Geometry,
    ) -> io::Result<Self> {
        Ok(Self {
            file: Handle::new(fd)?,
            medium: Arc::new(medium),
            geometry,
            works: Slab::new(),
            ranges: Ranges::default(),
            ready: VecDeque::new(),
            workers: Workers::new(),
            lookups: VecDeque::new(),
            unsynced: Vec::new(),
            syncing: Vec::new(),
            sync_failed: false,
        })
    }

    /// Returns a work. Its slot is freed when it ends, and nothing refers to the slot after that.
    fn work(&mut self, slot: u32) -> &mut DiskWork {
        &mut self.works[slot]
    }

    /// Removes a work that has ended or is returned to the core.
    fn remove(&mut self, slot: u32) -> DiskWork {
        let work = self.works.remove(slot).expect("a work ends once");
        if work.locked {
            self.ranges.release(slot, &mut self.ready);
        }
        work
    }

    fn end(&mut self, slot: u32, result: Result<(), u16>, cx: &mut Context<'_>) {
        let work = self.remove(slot);
        cx.finish(work.tag, result, work.data);
    }

    /// Returns a work to the core, because there is no space for its next step. The core submits it
    /// again. Repeating the steps that are already done is harmless.
    fn busy(&mut self, slot: u32, cx: &mut Context<'_>) {
        let work = self.remove(slot);
        cx.busy(work.tag, work.data);
    }

    /// Starts the works whose range lock was granted.
    fn start_ready(&mut self, cx: &mut Context<'_>) {
        while let Some(slot) = self.ready.pop_front() {
            self.begin(slot, cx);
        }
    }

    /// Returns the range that a work changes, in whole blocks, and the mode in which it must be
    /// locked.
    fn wants(&self, work: &DiskWork) -> Option<(std::ops::Range<u64>, LockMode)> {
        let block = u64::from(self.geometry.block);
        if block == 1 || !work.changes() {
            return None;
        }
        let first = work.range.start / block * block;
        let last = work.range.end.next_multiple_of(block);
        // A discard leaves blocks that it covers in part unchanged, so that it needs no exclusive
        // lock.
        let whole = work.op == Op::Discard || (first..last) == work.range;
        let mode = if whole {
            LockMode::Shared
        } else {
            LockMode::Exclusive
        };
        Some((first..last, mode))
    }

    /// Starts a work, which holds its range if it needs one.
    fn begin(&mut self, slot: u32, cx: &mut Context<'_>) {
        let geometry = self.geometry;
        let work = self.work(slot);
        match work.op {
            // One operation takes at most `MAX_PIECES` buffers, so the data are read into a buffer
            // of the arena and copied.
            Op::Read if matches!(&work.data, Data::ReadMany(bufs) if bufs.len() > MAX_PIECES) => {
                work.rest = [work.range.clone(), 0..0];
                self.patch(slot, cx);
            }
            Op::Read => self.read(slot, cx),
            Op::Flush => self.sync(slot, cx),
            Op::Discard | Op::WriteZeroes => self.space(slot, cx),
            Op::Extents => self.look_up(slot, cx),
            Op::Write => {
                let block = u64::from(geometry.block);
                let range = work.range.clone();
                let whole = range.start.is_multiple_of(block) && range.end.is_multiple_of(block);
                let (block, memory) = (geometry.block as usize, geometry.memory as usize);
                if whole && work::is_direct(&work.data, block, memory) {
                    self.write(slot, cx);
                } else {
                    work.rest = [range, 0..0];
                    self.patch(slot, cx);
                }
            }
        }
    }

    fn read(&mut self, slot: u32, cx: &mut Context<'_>) {
        let block = self.geometry.block;
        let work = self.work(slot);
        // Direct I/O reads whole blocks. The buffers have space for that (see `Traits::align`).
        let (start, end) = work::widen(&mut work.data, block as usize);
        work.phase = WorkPhase::Direct { start, end };
        let from = work.range.start / u64::from(block) * u64::from(block);
        let data = std::mem::take(&mut work.data);
        let (token, file) = (cx.token(slot), &self.file);
        let queued = match data {
            Data::Read(buf) => cx.ring.read(token, file, from, buf),
            Data::ReadMany(bufs) => cx.ring.read(token, file, from, bufs),
            Data::Guest(slices) => cx.ring.read(token, file, from, slices),
            Data::None | Data::Write(_) | Data::WriteMany(_) | Data::Extents(_) => {
                return self.end(slot, Err(EIO), cx);
            }
        };
        if let Err(rejected) = queued {
            let work = self.work(slot);
            work.data = work::restored(rejected.payload);
            work::set_windows(&mut work.data, start, end);
            self.busy(slot, cx);
        }
    }

    /// Writes whole blocks from the job's own memory.
    fn write(&mut self, slot: u32, cx: &mut Context<'_>) {
        let sync = self.sync_of_write(slot);
        let work = self.work(slot);
        work.phase = WorkPhase::Direct { start: 0, end: 0 };
        let from = work.range.start;
        let data = std::mem::take(&mut work.data);
        let (token, file) = (cx.token(slot), &self.file);
        let queued = match data {
            Data::Write(buf) => cx.ring.write(token, file, from, buf, sync),
            Data::WriteMany(segments) => cx.ring.write(token, file, from, segments, sync),
            Data::Guest(slices) => cx.ring.write(token, file, from, slices, sync),
            Data::None | Data::Read(_) | Data::ReadMany(_) | Data::Extents(_) => {
                return self.end(slot, Err(EIO), cx);
            }
        };
        if let Err(rejected) = queued {
            self.work(slot).data = work::restored(rejected.payload);
            self.busy(slot, cx);
        }
    }

    /// Returns the durability of a write at its completion. Through the page cache, the disk's own
    /// fdatasync follows instead. Otherwise the kernel could report the error of an earlier write
    /// to this write only, and a later flush would succeed.
    fn sync_of_write(&mut self, slot: u32) -> Sync {
        let direct = self.geometry.direct;
        let work = self.work(slot);
        // `Sync::Data` becomes `RWF_DSYNC` (pwritev2(2)).
        if direct && work.op == Op::Write && work.syncs() {
            Sync::Data
        } else {
            Sync::No
        }
    }

    /// Starts the next patch of a work, or ends the work if no patch is left.
    fn patch(&mut self, slot: u32, cx: &mut Context<'_>) {
        let block = u64::from(self.geometry.block);
        let work = self.work(slot);
        let Some(large) = work.patch(block, CHUNK) else {
            return self.all_changed(slot, cx);
        };
        let arena = cx.ring.arena();
        let bytes = |patch: &Patch| (patch.last - patch.first).max(GRAIN) as usize;
        // If the arena has no space for the large patch, a small one is tried.
        let (patch, buf) = match (arena.alloc(bytes(&large)), work.patch(block, GRAIN)) {
            (Some(buf), _) => (large, Some(buf)),
            (None, Some(small)) => (small, arena.alloc(bytes(&small))),
            (None, None) => (large, None),
        };
        let step = match work.op {
            Op::Read => PatchStep::Fetch,
            _ => patch.begin(block),
        };
        match buf {
            Some(buf) => self.step(slot, patch, step, buf, cx),
            None => self.busy(slot, cx),
        }
    }

    /// Queues a step of a patch on the ring.
    fn step(
        &mut self,
        slot: u32,
        patch: Patch,
        step: PatchStep,
        mut buf: Buf,
        cx: &mut Context<'_>,
    ) {
        let block = u64::from(self.geometry.block);
        let sync = self.sync_of_write(slot);
        let work = self.work(slot);
        work.phase = WorkPhase::Patch { patch, step };
        let window = patch.window(step, block);
        let at = patch.first + window.start as u64;
        buf.set_window(window);
        let (token, file) = (cx.token(slot), &self.file);
        let queued = if step == PatchStep::Write {
            self.works[slot].fill(&patch, &mut buf);
            cx.ring.write(token, file, at, buf.into_shared(), sync)
        } else {
            cx.ring.read(token, file, at, buf)
        };
        if queued.is_err() {
            self.busy(slot, cx);
        }
    }

    /// Continues after a step of a patch has succeeded.
    fn step_done(
        &mut self,
        slot: u32,
        patch: Patch,
        step: PatchStep,
        payload: Payload,
        cx: &mut Context<'_>,
    ) {
        let next = match step {
            PatchStep::Head => patch.after_head(u64::from(self.geometry.block)),
            PatchStep::Tail => PatchStep::Write,
            PatchStep::Write | PatchStep::Fetch => {
                let work = self.work(slot);
                if let Payload::Buf(blocks) = &payload {
                    work.fetched(&patch, blocks);
                }
                work.patched(&patch);
                // The buffer is freed before the next patch allocates one.
                drop(payload);
                return self.patch(slot, cx);
            }
        };
        match payload.into_buf() {
            Some(buf) => self.step(slot, patch, next, buf, cx),
            None => self.end(slot, Err(EIO), cx),
        }
    }

    /// Lets a worker discard or zero the whole grains that a work covers.
    fn space(&mut self, slot: u32, cx: &mut Context<'_>) {
        // Through the page cache, the range does not need to be aligned.
        let grain = if self.geometry.direct { GRAIN } else { 1 };
        let work = self.work(slot);
        let start = work.range.start.next_multiple_of(grain);
        let end = work.range.end / grain * grain;
        let (op, flags) = (work.op, work.flags);
        if start >= end {
            return match op {
                Op::Discard => self.all_changed(slot, cx),
                _ if flags.has(Flags::FAST_ZERO) => self.end(slot, Err(ENOTSUP), cx),
                _ => {
                    work.rest = [work.range.clone(), 0..0];
                    self.patch(slot, cx);
                }
            };
        }
        // The parts before and after the whole grains are written as patches.
        if op == Op::WriteZeroes {
            work.rest = [work.range.start..start, end..work.range.end];
        }
        work.phase = WorkPhase::Space;
        let medium = Arc::clone(&self.medium);
        let task = move || {
            let (keep, fast) = (flags.has(Flags::NO_HOLE), flags.has(Flags::FAST_ZERO));
            let result = match op {
                Op::Discard => medium.discard(start..end),
                _ => medium.zero(start..end, keep, fast),
            };
            WorkerResult::Space(slot, result)
        };
        if !self.workers.submit(cx.caller(), task) {
            self.busy(slot, cx);
        }
    }

    /// Continues after a worker has discarded or zeroed.
    fn space_done(&mut self, slot: u32, result: Result<(), Errno>, cx: &mut Context<'_>) {
        let work = self.work(slot);
        match (result, work.op) {
            (Ok(()), _) => self.patch(slot, cx),
            // A discard is a hint, so it succeeds even if the storage cannot discard.
            (Err(Errno::OPNOTSUPP), Op::Discard) => self.all_changed(slot, cx),
            // Zeroes can always be written as data, unless the client asked only for a fast
            // operation.
            (Err(Errno::OPNOTSUPP), _) if !work.flags.has(Flags::FAST_ZERO) => {
                work.rest = [work.range.clone(), 0..0];
                self.patch(slot, cx);
            }
            (Err(Errno::OPNOTSUPP), _) => self.end(slot, Err(ENOTSUP), cx),
            (Err(errno), _) => self.end(slot, Err(number(errno)), cx),
        }
    }

    /// Ends a work that has changed everything it had to change, after making the change durable if
    /// necessary.
    fn all_changed(&mut self, slot: u32, cx: &mut Context<'_>) {
        let durable = self.sync_of_write(slot) == Sync::Data;
        if self.work(slot).syncs() && !durable {
            self.sync(slot, cx);
        } else {
            self.end(slot, Ok(()), cx);
        }
    }

    /// Adds a work to those that wait for the next fdatasync.
    fn sync(&mut self, slot: u32, cx: &mut Context<'_>) {
        self.work(slot).phase = WorkPhase::Sync;
        self.unsynced.push(slot);
        self.sync_next(cx);
    }

    fn sync_next(&mut self, cx: &mut Context<'_>) {
        if !self.syncing.is_empty() || self.unsynced.is_empty() {
            return;
        }
        self.syncing = std::mem::take(&mut self.unsynced);
        // fdatasync suffices, because it also writes the metadata that are needed to read the data
        // (fdatasync(2)).
        let refused = if self.sync_failed {
            Some(Err(EIO))
        } else if cx.ring.fsync(cx.token(SYNC), &self.file, true).is_err() {
            Some(Ok(()))
        } else {
            None
        };
        let Some(outcome) = refused else { return };
        for slot in std::mem::take(&mut self.syncing) {
            match outcome {
                Ok(()) => self.busy(slot, cx),
                Err(errno) => self.end(slot, Err(errno), cx),
            }
        }
    }

    fn synced(&mut self, result: Result<usize, Errno>, cx: &mut Context<'_>) {
        self.sync_failed |= result.is_err();
        let failed = self.sync_failed;
        for slot in std::mem::take(&mut self.syncing) {
            self.end(slot, if failed { Err(EIO) } else { Ok(()) }, cx);
        }
        self.sync_next(cx);
    }

    /// Processes the completion of a ring operation.
    fn ring_done(&mut self, slot: u32, completion: RingCompletion, cx: &mut Context<'_>) {
        let RingCompletion {
            result, payload, ..
        } = completion;
        let durable = self.sync_of_write(slot) == Sync::Data;
        let work = self.work(slot);
        let asked = payload.bytes();
        let phase = work.phase;
        if let WorkPhase::Direct { start, end } = phase {
            work.data = work::restored(payload);
            if work.op == Op::Read {
                work::set_windows(&mut work.data, start, end);
            }
            return match outcome(result, asked) {
                Ok(()) => self.all_changed(slot, cx),
                Err(errno) => self.failed(slot, durable, errno, cx),
            };
        }
        match (phase, outcome(result, asked)) {
            (WorkPhase::Patch { patch, step }, Ok(())) => {
                self.step_done(slot, patch, step, payload, cx);
            }
            (WorkPhase::Patch { step, .. }, Err(errno)) => {
                self.failed(slot, durable && step == PatchStep::Write, errno, cx);
            }
            _ => debug_assert!(false, "the ring was asked for nothing in {phase:?}"),
        }
    }

    /// Ends a work whose read or write has failed. If the write was to be durable, the kernel may
    /// have reported an error of earlier writes with it.
    fn failed(&mut self, slot: u32, durable: bool, errno: u16, cx: &mut Context<'_>) {
        // `ENOSPC` concerns the write itself, and leaves no doubt about others.
        self.sync_failed |= durable && errno != ENOSPC;
        self.end(slot, Err(errno), cx);
    }

    /// Lets a worker look up the parts of a work's range that hold data.
    fn look_up(&mut self, slot: u32, cx: &mut Context<'_>) {
        let known = self.geometry.allocation;
        let work = self.work(slot);
        work.phase = WorkPhase::Space;
        let (range, mut extents) = (work.range.clone(), work.extents());
        if known {
            let medium = Arc::clone(&self.medium);
            let (range, extents) = (range.clone(), extents.clone());
            let task = move || WorkerResult::Extents(slot, medium.find(range, extents));
            if self.workers.submit(cx.caller(), task) {
                return;
            }
            if !self.workers.is_idle() {
                // The look-up is not returned as busy, because the core would then delay requests
                // of others until it could be submitted again.
                return self.lookups.push_back(slot);
            }
            // The system provides no thread, so that no completion will start this look-up again.
        }
        // Data is the safe answer, because only holes promise zeroes.
        extents.push(range.end - range.start, Allocation::Data);
        self.extents_found(slot, extents, cx);
    }

    fn extents_found(&mut self, slot: u32, extents: Extents, cx: &mut Context<'_>) {
        self.work(slot).data = Data::Extents(extents);
        self.end(slot, Ok(()), cx);
    }
}

impl Backend for DiskBackend {
    fn size(&self, wanted: Option<u64>) -> io::Result<u64> {
        let (path, actual) = (&self.medium.path, self.medium.size()?);
        if let Err(error) = error::size_as_stated(path, actual, wanted)
            && !super::is_grown(&self.medium.fd, actual, wanted)
        {
            return Err(error.into());
        }
        error::whole_blocks(path, actual, self.geometry.block)?;
        Ok(actual)
    }

    fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let all = std::iter::once(&self.medium.fd).chain(&self.medium.behind);
        all.map(OwnedFd::try_clone).collect()
    }

    fn growable(&self) -> Option<Arc<dyn Grow>> {
        let is_image = matches!(self.medium.kind, MediumKind::Image { .. });
        (is_image && !self.geometry.read_only).then(|| {
            let medium = Arc::clone(&self.medium);
            let block = self.geometry.block;
            Arc::new(Image { medium, block }) as Arc<dyn Grow>
        })
    }

    fn submit(&mut self, job: BackendJob, cx: &mut Context<'_>) {
        let work = DiskWork::new(job);
        if self.geometry.read_only && work.changes() {
            return cx.finish(work.tag, Err(EPERM), work.data);
        }
        // After a failed fdatasync, Linux may have dropped the data, and the next fdatasync would
        // succeed. The failure is therefore remembered (docs/durability.md, "A failed flush").
        if self.sync_failed && work.syncs() {
            return cx.finish(work.tag, Err(EIO), work.data);
        }
        let wants = self.wants(&work);
        let slot = self.works.insert(work);
        match wants {
            Some((range, mode)) => {
                self.work(slot).locked = true;
                if self.ranges.acquire(slot, range, mode) {
                    self.begin(slot, cx);
                }
            }
            None => self.begin(slot, cx),
        }
        self.start_ready(cx);
    }

    fn completed(&mut self, op: u32, completion: RingCompletion, cx: &mut Context<'_>) {
        if op == SYNC {
            self.synced(completion.result, cx);
        } else {
            self.ring_done(op, completion, cx);
        }
        self.start_ready(cx);
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Some(done) = self.workers.next() {
            match done {
                WorkerResult::Space(slot, result) => self.space_done(slot, result, cx),
                WorkerResult::Extents(slot, extents) => self.extents_found(slot, extents, cx),
            }
            // Each result frees a worker for one look-up.
            if let Some(slot) = self.lookups.pop_front() {
                self.look_up(slot, cx);
            }
        }
        self.start_ready(cx);
    }
}

/// Returns the outcome of an operation that should have transferred `asked` bytes.
fn outcome(result: Result<usize, Errno>, asked: usize) -> Result<(), u16> {
    match result {
        Ok(done) if done == asked => Ok(()),
        // The file is shorter than it should be, because another program has truncated it.
        Ok(_) => Err(EIO),
        Err(errno) => Err(number(errno)),
    }
}

/// Converts an error of the system to one that clients get: out of space, not permitted, or an I/O
/// error.
fn number(errno: Errno) -> u16 {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ENOSPC,
        Errno::PERM | Errno::ACCESS | Errno::ROFS => EPERM,
        _ => EIO,
    }
}
