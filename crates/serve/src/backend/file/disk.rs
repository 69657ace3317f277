//! A file or a device behind the ring: the state machine that carries jobs out.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use weir_core::{Flags, Op};
use weir_uring::{Buf, Completion, Errno, Handle, MAX_PIECES, Payload, Ring, Sync};

use super::super::interface::Grow;
use super::super::rmw::{Mode, Ranges};
use super::super::workers::Workers;
use super::super::{Allocation, Backend, Context, Data, Extents, Job};
use super::error;
use super::grow::Image;
use super::medium::{Kind, Medium};
use super::work::{self, CHUNK, Patch, Phase, Step, Work};
use crate::errno::{EIO, ENOSPC, ENOTSUP, EPERM};
use crate::slab::Slab;

/// The operation that is the disk's own fdatasync; works are numbered below.
const SYNC: u32 = u32::MAX;
/// Space is given back and zeroed in multiples of this, bytes.
const GRAIN: u64 = 4096;

/// How a disk is to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Geometry {
    /// Past the page cache. Otherwise `block` and `memory` are 1.
    pub(in crate::backend) direct: bool,
    /// What ranges must be multiples of, bytes: a power of two, at most 4096.
    pub(in crate::backend) block: u32,
    /// What addresses in memory must be multiples of: a power of two, at most 4096.
    pub(in crate::backend) memory: u32,
    /// Nothing can be written.
    pub(in crate::backend) read_only: bool,
    /// The workers know what is allocated.
    pub(in crate::backend) allocation: bool,
}

/// The backend of files and devices.
#[derive(Debug)]
pub(in crate::backend) struct Disk {
    file: Handle,
    medium: Arc<Medium>,
    geometry: Geometry,
    works: Slab<Work>,
    ranges: Ranges,
    /// Works that have got their range.
    ready: VecDeque<u32>,
    workers: Workers<Done>,
    /// Look-ups of extents that found the workers busy.
    lookups: VecDeque<u32>,
    /// Works that wait for the next fdatasync, and those that the running one is for: one at a time, as the system tells an error
    /// of the past to only one of several.
    unsynced: Vec<u32>,
    syncing: Vec<u32>,
    /// fdatasync has failed: what was written before may be lost, and the system will not say so again.
    sync_failed: bool,
}

/// What comes from a worker.
#[derive(Debug)]
enum Done {
    Space(u32, Result<(), Errno>),
    Extents(u32, Extents),
}

impl Disk {
    /// A disk on an open file, of which the workers have a descriptor of their own.
    ///
    /// # Errors
    /// What fcntl(2) answers.
    pub(in crate::backend) fn new(
        fd: std::os::fd::OwnedFd,
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

    /// A slot is freed when its work has ended, and named by nothing after that.
    fn work(&mut self, slot: u32) -> &mut Work {
        &mut self.works[slot]
    }

    /// Takes a work out that is over, or is given back.
    fn remove(&mut self, slot: u32) -> Work {
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

    /// Gives a work back: there is no room for its next step. What was done of it already does no harm when it is done again.
    fn busy(&mut self, slot: u32, cx: &mut Context<'_>) {
        let work = self.remove(slot);
        cx.busy(work.tag, work.data);
    }

    /// Lets those begin whose range has become free.
    fn start_ready(&mut self, cx: &mut Context<'_>) {
        while let Some(slot) = self.ready.pop_front() {
            self.begin(slot, cx);
        }
    }

    /// The range that a work changes, in whole blocks, and how it must be held.
    fn wants(&self, work: &Work) -> Option<(std::ops::Range<u64>, Mode)> {
        let block = u64::from(self.geometry.block);
        if block == 1 || !work.changes() {
            return None;
        }
        let first = work.range.start / block * block;
        let last = work.range.end.next_multiple_of(block);
        // What a discard does not cover whole it leaves alone.
        let whole = work.op == Op::Discard || (first..last) == work.range;
        let mode = if whole { Mode::Shared } else { Mode::Exclusive };
        Some((first..last, mode))
    }

    /// First step of a work that has its range, if it needs one.
    fn begin(&mut self, slot: u32, cx: &mut Context<'_>) {
        let geometry = self.geometry;
        let work = self.work(slot);
        match work.op {
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
        let (start, end) = work::widen(&mut work.data, block as usize);
        work.phase = Phase::Direct { start, end };
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

    /// Writes whole blocks from where they are.
    fn write(&mut self, slot: u32, cx: &mut Context<'_>) {
        let sync = self.sync_of_write(slot);
        let work = self.work(slot);
        work.phase = Phase::Direct { start: 0, end: 0 };
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

    /// Whether a write is to be durable at its completion. Through the page cache it is synced by the disk's own fdatasync: an
    /// error of earlier writes that the system tells once must not be told to a write while a flush hears nothing of it.
    fn sync_of_write(&mut self, slot: u32) -> Sync {
        let direct = self.geometry.direct;
        let work = self.work(slot);
        if direct && work.op == Op::Write && work.syncs() {
            Sync::Data
        } else {
            Sync::No
        }
    }

    /// Begins the next patch of a work; ends the work if there is none any more.
    fn patch(&mut self, slot: u32, cx: &mut Context<'_>) {
        let block = u64::from(self.geometry.block);
        let work = self.work(slot);
        let Some(large) = work.patch(block, CHUNK) else {
            return self.all_changed(slot, cx);
        };
        let arena = cx.ring.arena();
        let bytes = |patch: &Patch| (patch.last - patch.first).max(GRAIN) as usize;
        let (patch, buf) = match (arena.alloc(bytes(&large)), work.patch(block, GRAIN)) {
            (Some(buf), _) => (large, Some(buf)),
            (None, Some(small)) => (small, arena.alloc(bytes(&small))),
            (None, None) => (large, None),
        };
        let step = match work.op {
            Op::Read => Step::Fetch,
            _ => patch.begin(block),
        };
        match buf {
            Some(buf) => self.step(slot, patch, step, buf, cx),
            None => self.busy(slot, cx),
        }
    }

    /// Queues a step of a patch on the ring.
    fn step(&mut self, slot: u32, patch: Patch, step: Step, mut buf: Buf, cx: &mut Context<'_>) {
        let block = u64::from(self.geometry.block);
        let sync = self.sync_of_write(slot);
        let work = self.work(slot);
        work.phase = Phase::Patch { patch, step };
        let window = patch.window(step, block);
        let at = patch.first + window.start as u64;
        buf.set_window(window);
        let (token, file) = (cx.token(slot), &self.file);
        let queued = if step == Step::Write {
            self.works[slot].fill(&patch, &mut buf);
            cx.ring.write(token, file, at, buf.into_shared(), sync)
        } else {
            cx.ring.read(token, file, at, buf)
        };
        if queued.is_err() {
            self.busy(slot, cx);
        }
    }

    /// A step of a patch has ended well.
    fn step_done(
        &mut self,
        slot: u32,
        patch: Patch,
        step: Step,
        payload: Payload,
        cx: &mut Context<'_>,
    ) {
        let next = match step {
            Step::Head => patch.after_head(u64::from(self.geometry.block)),
            Step::Tail => Step::Write,
            Step::Write | Step::Fetch => {
                let work = self.work(slot);
                if let Payload::Buf(blocks) = &payload {
                    work.fetched(&patch, blocks);
                }
                work.patched(&patch);
                // Its buffer goes back before the next one is asked for.
                drop(payload);
                return self.patch(slot, cx);
            }
        };
        match payload.into_buf() {
            Some(buf) => self.step(slot, patch, next, buf, cx),
            None => self.end(slot, Err(EIO), cx),
        }
    }

    /// Has a worker give back or zero what a work covers of whole grains.
    fn space(&mut self, slot: u32, cx: &mut Context<'_>) {
        // Through the page cache any range will do.
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
        if op == Op::WriteZeroes {
            work.rest = [work.range.start..start, end..work.range.end];
        }
        work.phase = Phase::Space;
        let medium = Arc::clone(&self.medium);
        let task = move || {
            let (keep, fast) = (flags.has(Flags::NO_HOLE), flags.has(Flags::FAST_ZERO));
            let result = match op {
                Op::Discard => medium.discard(start..end),
                _ => medium.zero(start..end, keep, fast),
            };
            Done::Space(slot, result)
        };
        if !self.workers.submit(cx.caller(), task) {
            self.busy(slot, cx);
        }
    }

    /// A worker is done with a work's space.
    fn space_done(&mut self, slot: u32, result: Result<(), Errno>, cx: &mut Context<'_>) {
        let work = self.work(slot);
        match (result, work.op) {
            (Ok(()), _) => self.patch(slot, cx),
            // A discard is a hint.
            (Err(Errno::OPNOTSUPP), Op::Discard) => self.all_changed(slot, cx),
            (Err(Errno::OPNOTSUPP), _) if !work.flags.has(Flags::FAST_ZERO) => {
                work.rest = [work.range.clone(), 0..0];
                self.patch(slot, cx);
            }
            (Err(Errno::OPNOTSUPP), _) => self.end(slot, Err(ENOTSUP), cx),
            (Err(errno), _) => self.end(slot, Err(number(errno)), cx),
        }
    }

    /// A work has changed all it was to change.
    fn all_changed(&mut self, slot: u32, cx: &mut Context<'_>) {
        let durable = self.sync_of_write(slot) == Sync::Data;
        if self.work(slot).syncs() && !durable {
            self.sync(slot, cx);
        } else {
            self.end(slot, Ok(()), cx);
        }
    }

    /// Puts a work before the next fdatasync.
    fn sync(&mut self, slot: u32, cx: &mut Context<'_>) {
        self.work(slot).phase = Phase::Sync;
        self.unsynced.push(slot);
        self.sync_next(cx);
    }

    fn sync_next(&mut self, cx: &mut Context<'_>) {
        if !self.syncing.is_empty() || self.unsynced.is_empty() {
            return;
        }
        self.syncing = std::mem::take(&mut self.unsynced);
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

    /// The ring has done what a work asked of it.
    fn ring_done(&mut self, slot: u32, completion: Completion, cx: &mut Context<'_>) {
        let Completion {
            result, payload, ..
        } = completion;
        let durable = self.sync_of_write(slot) == Sync::Data;
        let work = self.work(slot);
        let asked = payload.bytes();
        let phase = work.phase;
        if let Phase::Direct { start, end } = phase {
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
            (Phase::Patch { patch, step }, Ok(())) => {
                self.step_done(slot, patch, step, payload, cx);
            }
            (Phase::Patch { step, .. }, Err(errno)) => {
                self.failed(slot, durable && step == Step::Write, errno, cx);
            }
            _ => debug_assert!(false, "the ring was asked for nothing in {phase:?}"),
        }
    }

    /// A read or a write has failed. If it was to be durable, the failure may have been told for what others wrote before.
    fn failed(&mut self, slot: u32, durable: bool, errno: u16, cx: &mut Context<'_>) {
        self.sync_failed |= durable && errno != ENOSPC;
        self.end(slot, Err(errno), cx);
    }

    /// Has a worker find out which parts of a work's range hold data.
    fn look_up(&mut self, slot: u32, cx: &mut Context<'_>) {
        let known = self.geometry.allocation;
        let work = self.work(slot);
        work.phase = Phase::Space;
        let (range, mut extents) = (work.range.clone(), work.extents());
        if known {
            let medium = Arc::clone(&self.medium);
            let (range, extents) = (range.clone(), extents.clone());
            let task = move || Done::Extents(slot, medium.find(range, extents));
            if self.workers.submit(cx.caller(), task) {
                return;
            }
            if !self.workers.is_idle() {
                // Not given back as busy: the core would hold up others' requests until this one could be tried again.
                return self.lookups.push_back(slot);
            }
            // The system gives no thread, and nothing will come back that this could wait for.
        }
        extents.push(range.end - range.start, Allocation::Data);
        self.extents_found(slot, extents, cx);
    }

    fn extents_found(&mut self, slot: u32, extents: Extents, cx: &mut Context<'_>) {
        self.work(slot).data = Data::Extents(extents);
        self.end(slot, Ok(()), cx);
    }
}

impl Backend for Disk {
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

    fn growable(&self) -> Option<Arc<dyn Grow>> {
        let is_image = matches!(self.medium.kind, Kind::Image { .. });
        (is_image && !self.geometry.read_only).then(|| {
            let medium = Arc::clone(&self.medium);
            let block = self.geometry.block;
            Arc::new(Image { medium, block }) as Arc<dyn Grow>
        })
    }

    fn submit(&mut self, job: Job, cx: &mut Context<'_>) {
        let work = Work::new(job);
        if self.geometry.read_only && work.changes() {
            return cx.finish(work.tag, Err(EPERM), work.data);
        }
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

    fn completed(&mut self, op: u32, completion: Completion, cx: &mut Context<'_>) {
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
                Done::Space(slot, result) => self.space_done(slot, result, cx),
                Done::Extents(slot, extents) => self.extents_found(slot, extents, cx),
            }
            if let Some(slot) = self.lookups.pop_front() {
                self.look_up(slot, cx);
            }
        }
        self.start_ready(cx);
    }
}

/// What a job is told of an operation that should have done `asked` bytes.
fn outcome(result: Result<usize, Errno>, asked: usize) -> Result<(), u16> {
    match result {
        Ok(done) if done == asked => Ok(()),
        // The file ends before it should: somebody else has cut it.
        Ok(_) => Err(EIO),
        Err(errno) => Err(number(errno)),
    }
}

/// An error of the system as one a client is told: out of space in all its forms, not permitted, or else that the storage failed.
fn number(errno: Errno) -> u16 {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ENOSPC,
        Errno::PERM | Errno::ACCESS | Errno::ROFS => EPERM,
        _ => EIO,
    }
}
