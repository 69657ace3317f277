//! A backend on its own ring that a test drives in the way of a shard.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_core::{Flags, Instant, Op, Outcome, Tag};
use weir_uring::{AnyRing, Buf, IoRingConfig, Ring, RingCompletion, Segment};

use super::super::{
    Allocation, Backend, BackendJob, Context, Data, Extents, Finished, News, Prepare, Traits,
};

/// The random numbers of a test.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Rng(weir_core::random::Rng);

impl Rng {
    pub(in crate::backend) fn new(seed: u64) -> Self {
        Self(weir_core::random::Rng::new(seed))
    }

    pub(in crate::backend) fn below(&mut self, below: u64) -> u64 {
        self.0.range(0, below - 1)
    }

    pub(in crate::backend) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// The result of a job: its outcome, and the bytes that it read.
pub(in crate::backend) type JobResult = (Result<(), u16>, Vec<u8>);

/// A backend, with the state that a shard would keep for it.
#[derive(Debug)]
pub(in crate::backend) struct BackendBench {
    pub(in crate::backend) ring: AnyRing,
    pub(in crate::backend) backend: Box<dyn Backend>,
    pub(in crate::backend) traits: Traits,
    pub(in crate::backend) size: u64,
    clock: std::time::Instant,
    /// The number of jobs that were returned as busy.
    pub(in crate::backend) busy: u64,
    /// The error that replaces the result of the next fdatasync.
    pub(in crate::backend) sync_result: Option<weir_uring::Errno>,
    /// The error that replaces the result of the next other operation.
    pub(in crate::backend) write_result: Option<weir_uring::Errno>,
    jobs: BTreeMap<u32, (Op, Flags, u64, u32)>,
    ended: BTreeMap<u32, JobResult>,
    found: BTreeMap<u32, Extents>,
    finished: Vec<Finished>,
    tags: u32,
}

impl BackendBench {
    pub(in crate::backend) fn new(prepared: Box<dyn Prepare>, config: &IoRingConfig) -> Self {
        Self {
            ring: AnyRing::open(config).unwrap(),
            traits: prepared.traits(),
            size: prepared.size(),
            backend: prepared.start().unwrap(),
            clock: std::time::Instant::now(),
            busy: 0,
            sync_result: None,
            write_result: None,
            jobs: BTreeMap::new(),
            ended: BTreeMap::new(),
            found: BTreeMap::new(),
            finished: Vec::new(),
            tags: 0,
        }
    }

    /// Advances the backend's clock by `time`.
    pub(in crate::backend) fn pass(&mut self, time: Duration) {
        self.clock = self.clock.checked_sub(time).unwrap();
    }

    pub(in crate::backend) fn call(
        &mut self,
        call: impl FnOnce(&mut dyn Backend, &mut Context<'_>),
    ) {
        let mut cx = Context {
            now: Instant::from_nanos(self.clock.elapsed().as_nanos() as u64),
            ring: &mut self.ring,
            token: 7 << 32,
            finished: &mut self.finished,
            budget: u64::MAX,
            deferred: false,
            news: (&News::default(), 0),
        };
        call(self.backend.as_mut(), &mut cx);
    }

    /// Submits a job. [`Self::wait`] takes the returned tag.
    pub(in crate::backend) fn submit(
        &mut self,
        op: Op,
        flags: Flags,
        offset: u64,
        length: u32,
        data: Data,
    ) -> u32 {
        let tag = self.tags;
        self.tags += 1;
        self.jobs.insert(tag, (op, flags, offset, length));
        self.resubmit(tag, data);
        tag
    }

    fn resubmit(&mut self, tag: u32, data: Data) {
        let (op, flags, offset, length) = self.jobs[&tag];
        let job = BackendJob {
            tag: Tag(tag),
            op,
            flags,
            offset,
            length,
            data,
        };
        self.call(|backend, cx| backend.submit(job, cx));
    }

    /// Runs one turn of a shard: passes completions on to the backend, and submits jobs again that
    /// were busy.
    pub(in crate::backend) fn turn(&mut self, timeout: Duration) {
        self.ring_turn(timeout);
        for finished in std::mem::take(&mut self.finished) {
            let Tag(tag) = finished.tag;
            let mut data = finished.data;
            let Some(outcome) = finished.outcome else {
                self.busy += 1;
                // Another job must have the opportunity to end first.
                self.ring_turn(Duration::from_millis(1));
                self.resubmit(tag, data);
                continue;
            };
            if let Data::Extents(extents) = &data {
                self.found.insert(tag, extents.clone());
            }
            let (op, _, _, length) = self.jobs.remove(&tag).expect("a job ends once");
            let mut bytes = Vec::new();
            data.each_target(|at, part| {
                assert_eq!(at, bytes.len());
                bytes.extend_from_slice(part);
            });
            let result = match outcome {
                Outcome::Ok => Ok(()),
                Outcome::Error(errno) => Err(errno),
                Outcome::Cancelled => panic!("a backend cancels nothing"),
            };
            if op == Op::Read && result.is_ok() {
                assert_eq!(bytes.len(), length as usize, "the windows are as they were");
            }
            assert!(self.ended.insert(tag, (result, bytes)).is_none());
        }
    }

    fn ring_turn(&mut self, timeout: Duration) {
        let timeout = if self.finished.is_empty() {
            timeout
        } else {
            Duration::ZERO
        };
        self.ring.submit_and_wait(Some(timeout)).unwrap();
        while let Some(mut completion) = self.ring.pop() {
            assert_eq!(completion.user >> 32, 7);
            let op = completion.user as u32;
            self.tamper(op, &mut completion);
            self.call(|backend, cx| backend.completed(op, completion, cx));
        }
        if self.ring.take_woken() {
            self.call(|backend, cx| backend.woken(cx));
        }
    }

    /// Replaces the result of an operation if a test has requested it.
    fn tamper(&mut self, op: u32, completion: &mut RingCompletion) {
        let result = match op {
            u32::MAX => &mut self.sync_result,
            _ => &mut self.write_result,
        };
        if let Some(errno) = result.take() {
            completion.result = Err(errno);
        }
    }

    /// Waits for the end of a job.
    pub(in crate::backend) fn wait(&mut self, tag: u32) -> JobResult {
        for _ in 0..10_000 {
            if let Some(ended) = self.ended.remove(&tag) {
                return ended;
            }
            self.turn(Duration::from_millis(100));
        }
        panic!("job {tag} does not end: {:?}", self.backend);
    }

    /// Allocates the memory of a read as a shard would, in several buffers if `many`. Returns
    /// `None` if there is not enough.
    pub(in crate::backend) fn target(&self, offset: u64, length: u32, many: bool) -> Option<Data> {
        let align = self.traits.align as usize;
        let lead = (offset % align as u64) as usize;
        let end = lead + length as usize;
        let wide = end.next_multiple_of(align);
        if !many {
            let mut buf = self.ring.arena().alloc(wide.max(4096))?;
            buf.set_window(lead..end);
            return Some(Data::Read(buf));
        }
        let mut bufs: Vec<Buf> = Vec::new();
        for start in (0..wide).step_by(4096) {
            let mut buf = self.ring.arena().alloc(4096)?;
            buf.set_window(if start == 0 { lead } else { 0 }..(end - start).min(4096));
            bufs.push(buf);
        }
        Some(Data::ReadMany(bufs))
    }

    /// Allocates the memory of a write with these bytes. `cut` returns the length of the next
    /// buffer.
    pub(in crate::backend) fn source(
        &self,
        bytes: &[u8],
        mut cut: impl FnMut(usize) -> usize,
    ) -> Option<Data> {
        let mut segments = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let end = (at + cut(bytes.len() - at).max(1)).min(bytes.len());
            let mut buf = self.ring.arena().alloc((end - at).max(4096))?;
            buf.set_window(0..end - at);
            buf.copy_from_slice(&bytes[at..end]);
            segments.push(buf.into_shared());
            at = end;
        }
        Some(match segments.len() {
            1 => Data::Write(segments.remove(0)),
            _ => Data::WriteMany(segments.into_iter().map(Segment::from).collect()),
        })
    }

    pub(in crate::backend) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u16> {
        let data = self.target(offset, length, false).unwrap();
        let tag = self.submit(Op::Read, Flags::NONE, offset, length, data);
        let (result, bytes) = self.wait(tag);
        result.map(|()| bytes)
    }

    pub(in crate::backend) fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        flags: Flags,
    ) -> Result<(), u16> {
        let data = self.source(bytes, |left| left).unwrap();
        let tag = self.submit(Op::Write, flags, offset, bytes.len() as u32, data);
        self.wait(tag).0
    }

    pub(in crate::backend) fn plain(
        &mut self,
        op: Op,
        flags: Flags,
        offset: u64,
        length: u32,
    ) -> Result<(), u16> {
        let tag = self.submit(op, flags, offset, length, Data::None);
        self.wait(tag).0
    }

    pub(in crate::backend) fn flush(&mut self) -> Result<(), u16> {
        self.plain(Op::Flush, Flags::NONE, 0, 0)
    }

    /// Returns the extents of a range, each with its length and true if it is data.
    pub(in crate::backend) fn extents(
        &mut self,
        flags: Flags,
        offset: u64,
        length: u32,
    ) -> Vec<(u32, bool)> {
        let tag = self.submit(Op::Extents, flags, offset, length, Data::None);
        assert_eq!(self.wait(tag).0, Ok(()));
        let found = self.found.remove(&tag).expect("a look-up finds extents");
        let found = found.extents().iter();
        found
            .map(|e| (e.length, e.allocation == Allocation::Data))
            .collect()
    }
}
