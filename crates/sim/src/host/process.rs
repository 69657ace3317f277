//! A process that makes one system call at a time on one file.

use super::cache::{Cache, Fetch, Page};
use super::read_ahead::{PAGE, ReadAhead, ReadAheadNeed, ReadAheadWindow};
use super::write_back::{WriteBack, WriterThrottle, expiry};
use crate::{Advice, Buffered, ClientSpec, SimError};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::random::Rng;
use weir_core::{Flags, Instant, Op, Span};
use weir_measure::{Breakdown, Meter};
use weir_model::load::{Io, LoadClient, Pattern, Size, Step, SyncMode};

/// The virtual time by which a process may run ahead of the others while its calls need no I/O.
const AHEAD: Span = Span::from_millis(1);

/// A process with one open file. Its program decides which calls it makes.
#[derive(Debug)]
pub(crate) struct Process {
    /// The client to which the process belongs.
    client: u32,
    buffered: Buffered,
    /// The offset of the file in its space, and the page of the file with which the program begins.
    base: u64,
    first: u64,
    /// The maximum number of pages of a read-ahead window, and of a request.
    window: u64,
    request: u64,
    /// The maximum number of reads in flight.
    room: usize,
    /// True if the program starts again at the beginning of its region after the end, with an empty
    /// cache.
    loops: bool,
    read_ahead: ReadAhead,
    /// The page that the process read last.
    previous: Option<u64>,
    dirty: BTreeSet<u64>,
    /// The state of the write-back, if the process never calls `fdatasync`.
    write_back: Option<WrittenFile>,
    call: Option<SystemCall>,
    /// The process is busy until this time.
    free: Instant,
    /// Draws the delays with which the process continues after waiting.
    wakeups: Rng,
    /// The number of commands so far, which is the number of the next command.
    commands: u64,
}

/// The part of a process's file that a flusher writes.
#[derive(Debug)]
struct WrittenFile {
    throttle: WriterThrottle,
    /// The time at which the file got its first dirty page.
    since: Option<Instant>,
    /// The number of dirty pages that are written in any case, because they have expired.
    expired: u64,
    /// The page with which the flusher continues.
    next: u64,
    /// The pages of each command in flight, by its number.
    commands: BTreeMap<u64, u64>,
}

/// A command that a process sends to the block layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProcessCommand {
    /// The number of the process's commands before this one.
    pub(crate) number: u64,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// The event after which a process continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Continuation {
    At(Instant),
    /// The completion of a command, if one is in flight.
    Answer,
}

/// A system call that has not returned yet.
#[derive(Clone, Copy, Debug)]
struct SystemCall {
    io: Io,
    /// The next page that the call needs, and the page after its last one.
    page: u64,
    end: u64,
    stage: CallStage,
    parts: Breakdown,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallStage {
    /// The call runs, or can run.
    Running,
    /// The call has waited for this fetch since then.
    Blocked { fetch: Fetch, since: Instant },
    /// `write` has dirtied its pages, and the process sleeps until this time.
    Throttled { until: Instant },
    /// `fdatasync` has waited since then for the writes that are left, which are numbered from
    /// `from` on.
    Writing {
        from: u64,
        left: u64,
        since: Instant,
    },
    /// `fdatasync` waits for its flush.
    Flushing { flush: u64, since: Instant },
    /// All commands that the call waited for have completed.
    Over,
}

impl Process {
    /// Creates the process of a client at the start of its program. The file begins at the offset
    /// `base` of its space. `transfer` is the drive's maximum transfer in bytes.
    pub(crate) fn new(
        client: u32,
        seed: u64,
        spec: &ClientSpec,
        buffered: &Buffered,
        base: u64,
        transfer: u32,
    ) -> Result<Self, SimError> {
        check(spec, buffered)?;
        Ok(Self {
            client,
            buffered: *buffered,
            base,
            first: (spec.region.start - base) / PAGE,
            window: buffered.window(),
            request: (u64::from(transfer) / PAGE).max(1),
            room: buffered.reads(&spec.program) as usize,
            loops: spec.program.pattern == Pattern::Sequential,
            read_ahead: ReadAhead::default(),
            previous: None,
            dirty: BTreeSet::new(),
            write_back: Buffered::is_written_back(&spec.program).then(|| WrittenFile {
                throttle: WriterThrottle::new(spec.group),
                since: None,
                expired: 0,
                next: 0,
                commands: BTreeMap::new(),
            }),
            call: None,
            free: Instant::ZERO,
            // The program has a generator with the same seed. The complement of the seed makes the
            // delays independent of its choices.
            wakeups: Rng::new(!seed),
            commands: 0,
        })
    }

    /// Runs the process at `now` until it has to wait. Appends to `commands`, which are in flight
    /// from then on, and returns when to call again. A completion ([`Self::on_answer`],
    /// [`Self::on_fetched`]) is another reason to call.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        (cache, write_back): (&mut Cache, &mut WriteBack),
        program: &mut LoadClient,
        meter: &mut Meter,
        commands: &mut Vec<ProcessCommand>,
    ) -> Continuation {
        loop {
            let t = now.max(self.free);
            let mut call = if let Some(call) = self.call.take() {
                call
            } else {
                // Without this bound, a process whose pages are all present would run to its end in
                // one call, and pages that others fetch in the meantime would be missing.
                if t > now + AHEAD {
                    return Continuation::At(t);
                }
                if self.read_streak(now, t, cache, program, meter) {
                    continue;
                }
                match program.next(t) {
                    Step::Issue(io) => {
                        let bytes = io.op.transfer(io.length.into());
                        meter.issued(io.op, io.due.as_nanos(), bytes);
                        self.begin(cache, io)
                    }
                    Step::WaitUntil(at) => return Continuation::At(at),
                    Step::WaitForCompletion | Step::Finished => return Continuation::Answer,
                }
            };
            let pages = (&mut *cache, &mut *write_back);
            if let Some(then) = self.proceed(now, t, &mut call, pages, commands) {
                self.call = Some(call);
                return then;
            }
            self.end(t, &call, program, meter);
        }
    }

    /// The time at which the present call was due, if there is a call.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.call.map(|call| call.io.due)
    }

    /// Makes all calls from `t` on that find their pages in the cache, in one step, as far ahead of
    /// the other processes as permitted. Returns false if there are none, or if the program does
    /// not read sequentially.
    fn read_streak(
        &mut self,
        now: Instant,
        t: Instant,
        cache: &Cache,
        program: &mut LoadClient,
        meter: &mut Meter,
    ) -> bool {
        let Size::Fixed(length) = program.program().size else {
            return false;
        };
        // A call that ends within a page leaves the rest of that page to the next call.
        if !u64::from(length).is_multiple_of(PAGE) {
            return false;
        }
        let pages = u64::from(length) / PAGE;
        let each = self.buffered.copy.as_nanos() * pages;
        let Some(streak) = program.streak(t, Span::from_nanos(each)) else {
            return false;
        };
        let page = (streak.offset - self.base) / PAGE;
        // At its first page, the program may start again with an empty cache, which `begin`
        // handles.
        if page == self.first {
            return false;
        }
        // One call more than fits, because a call that begins within the bound is made completely.
        let ahead = (now + AHEAD).since(t).as_nanos() / each + 1;
        let most = streak.count.min(ahead);
        let count = cache.readable(page, most * pages) / pages;
        if count == 0 {
            return false;
        }
        self.previous = Some(page + count * pages - 1);
        self.free = t + Span::from_nanos(count * each);
        meter.streak(t.as_nanos(), each, length.into(), count);
        program.read_streak(count, self.free);
        true
    }

    /// Completes a fetch of any process that has the file open. `parts` divides its time. Returns
    /// true if this process has waited for the fetch and continues.
    pub(crate) fn on_fetched(
        &mut self,
        now: Instant,
        over: Fetch,
        parts: Breakdown,
        well: bool,
    ) -> bool {
        let Some(call) = &mut self.call else {
            return false;
        };
        let CallStage::Blocked { fetch, since } = call.stage else {
            return false;
        };
        // Another fetch of the file ended.
        if fetch != over {
            return false;
        }
        call.stage = CallStage::Running;
        // A page that another process could not read is missing, and this process reads it itself.
        call.failed |= !well && over.client == self.client;
        call.parts.add(parts.last(now.since(since)));
        self.wake(now);
        true
    }

    /// Completes a command of this process other than a read, successfully or not. `parts` divides
    /// its time.
    pub(crate) fn on_answer(&mut self, now: Instant, number: u64, parts: Breakdown, well: bool) {
        let Some(call) = &mut self.call else { return };
        let (over, since) = match &mut call.stage {
            CallStage::Flushing { flush, since } if *flush == number => (CallStage::Over, *since),
            CallStage::Writing { from, left, since } if number >= *from => {
                call.failed |= !well;
                *left -= 1;
                if *left > 0 {
                    return;
                }
                (CallStage::Running, *since)
            }
            _ => return,
        };
        call.stage = over;
        call.failed |= !well;
        call.parts.add(parts.last(now.since(since)));
        self.wake(now);
    }

    /// Lets a process that has waited run again, after a random delay if one is configured.
    fn wake(&mut self, now: Instant) {
        let most = self.buffered.wakeup.as_nanos();
        if most > 0 {
            self.free = now + Span::from_nanos(self.wakeups.range(0, most));
        }
    }

    /// Returns true if the process continues after random delays, so that repetitions differ.
    pub(crate) fn has_random_delays(&self) -> bool {
        self.buffered.wakeup > Span::ZERO
    }

    fn begin(&self, cache: &mut Cache, io: Io) -> SystemCall {
        let within = io.offset.saturating_sub(self.base);
        // Each pass through the file begins with an empty cache, as with fio's `invalidate`.
        if self.loops && within == self.first * PAGE && io.number > 0 && io.op == Op::Read {
            cache.drop_all();
        }
        SystemCall {
            io,
            page: within / PAGE,
            end: (within + u64::from(io.length)).div_ceil(PAGE),
            stage: CallStage::Running,
            parts: Breakdown::default(),
            failed: false,
        }
    }

    /// Completes the system call, after the time for copying its pages.
    fn end(&mut self, t: Instant, call: &SystemCall, program: &mut LoadClient, meter: &mut Meter) {
        let pages = u64::from(call.io.length).div_ceil(PAGE);
        // A flush copies nothing, but the system call itself takes time, which is counted as one
        // page.
        let copy = self.buffered.copy.as_nanos() * pages.max(1);
        self.free = t + Span::from_nanos(copy);
        let ns = self.free.as_nanos();
        let (due, bytes) = (call.io.due.as_nanos(), call.io.length.into());
        meter.ended(call.io.op, due, ns, bytes, call.failed);
        if !call.failed {
            meter.waited(ns, &call.parts);
        }
        program.completed(self.free);
    }

    /// Continues the call at `t`. Returns `None` if the call ends, or when to continue. Commands
    /// are not submitted before `now`.
    fn proceed(
        &mut self,
        now: Instant,
        t: Instant,
        call: &mut SystemCall,
        (cache, write_back): (&mut Cache, &mut WriteBack),
        commands: &mut Vec<ProcessCommand>,
    ) -> Option<Continuation> {
        // A failed `fdatasync` first waits for its other writes.
        let writing = matches!(call.stage, CallStage::Writing { .. });
        if call.failed && !writing {
            return None;
        }
        match call.io.op {
            Op::Read => self.read(now, t, call, cache, commands),
            Op::Flush => self.sync(now, t, call, commands),
            _ => self.write(t, call, cache, write_back),
        }
    }

    /// Carries out `write`: dirties pages, and sleeps if the flusher of the group cannot write them
    /// as fast.
    fn write(
        &mut self,
        t: Instant,
        call: &mut SystemCall,
        cache: &mut Cache,
        write_back: &mut WriteBack,
    ) -> Option<Continuation> {
        let before = self.dirty.len();
        if call.stage == CallStage::Running {
            cache.mark_written(call.page, call.end);
            self.dirty.extend(call.page..call.end);
        }
        let file = self.write_back.as_mut()?;
        match call.stage {
            CallStage::Throttled { until } if t < until => return Some(Continuation::At(until)),
            // Only a process that meets the limit sleeps several times for one call.
            CallStage::Throttled { .. } if !write_back.is_full() => return None,
            CallStage::Throttled { .. } => {}
            _ => {
                file.since.get_or_insert(t);
                write_back.dirtied(&mut file.throttle, (self.dirty.len() - before) as u64);
            }
        }
        let until = write_back.sleep(t, &mut file.throttle)?;
        call.stage = CallStage::Throttled { until };
        Some(Continuation::At(until))
    }

    /// Returns the number of pages that a flusher can write at `now`: all dirty ones, or only those
    /// that are old.
    pub(crate) fn pages_to_write(&self, now: Instant, all: bool) -> u64 {
        let dirty = self.dirty.len() as u64;
        match &self.write_back {
            None => 0,
            Some(_) if all => dirty,
            Some(file) if file.since.is_some_and(|since| expiry(since) <= now) => dirty,
            Some(file) => file.expired,
        }
    }

    /// Returns the time at which the oldest dirty pages are written in any case.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.write_back.as_ref()?.since.map(expiry)
    }

    /// Writes the next dirty pages, at most `most` and those of one request, for a flusher. Returns
    /// their number.
    pub(crate) fn write_some(
        &mut self,
        now: Instant,
        most: u64,
        commands: &mut Vec<ProcessCommand>,
    ) -> u64 {
        let Some(file) = &mut self.write_back else {
            return 0;
        };
        if file.since.is_some_and(|since| expiry(since) <= now) {
            file.expired = self.dirty.len() as u64;
            file.since = Some(now);
        }
        // At the end of the file, the flusher starts again at its beginning.
        let next = self.dirty.range(file.next..).next();
        let Some(&start) = next.or_else(|| self.dirty.first()) else {
            return 0;
        };
        let mut end = start;
        while end - start < self.request.min(most) && self.dirty.remove(&end) {
            end += 1;
        }
        let pages = end - start;
        file.next = end;
        file.expired = file.expired.saturating_sub(pages);
        if self.dirty.is_empty() {
            (file.since, file.expired) = (None, 0);
        }
        file.commands.insert(self.commands, pages);
        // No process waits for the write, so it is asynchronous.
        self.send(Op::Write, Flags::NONE, start, end, commands);
        pages
    }

    /// Completes a command of the flusher. Returns the number of its pages, or `None` for other
    /// commands.
    pub(crate) fn on_written(&mut self, number: u64) -> Option<u64> {
        self.write_back.as_mut()?.commands.remove(&number)
    }

    /// Drops the dirty pages of a client that leaves. Returns their number, and the pages of each
    /// of the flusher's commands in flight.
    pub(crate) fn drop_dirty(&mut self) -> (u64, Vec<u64>) {
        let Some(file) = &mut self.write_back else {
            return (0, Vec::new());
        };
        file.since = None;
        let dirty = std::mem::take(&mut self.dirty).len() as u64;
        let commands = std::mem::take(&mut file.commands);
        (dirty, commands.into_values().collect())
    }

    /// Carries out `read`, page by page.
    fn read(
        &mut self,
        now: Instant,
        t: Instant,
        call: &mut SystemCall,
        cache: &mut Cache,
        commands: &mut Vec<ProcessCommand>,
    ) -> Option<Continuation> {
        if call.stage != CallStage::Running {
            return Some(Continuation::Answer);
        }
        while call.page < call.end {
            let (page, pages) = (call.page, call.end - call.page);
            let marked = cache.is_marked(page);
            match cache.page_state(page) {
                Page::Present if !marked => {
                    self.previous = Some(page);
                    call.page += 1;
                }
                // The process is ahead of virtual time. It must not send commands, or wait for
                // pages, before that time has come.
                _ if t > now => return Some(Continuation::At(t)),
                Page::Missing => self.miss(page, pages, cache, commands),
                // The marker is the sign to fetch the next window, even if its own page is still in
                // flight.
                Page::Present | Page::Coming(_) if marked => {
                    cache.unmark(page);
                    self.fetch_ahead(page, pages, true, cache, commands);
                }
                Page::Coming(fetch) => {
                    call.stage = CallStage::Blocked { fetch, since: now };
                    return Some(Continuation::Answer);
                }
                Page::Present => unreachable!("marked or not"),
            }
        }
        None
    }

    /// Fetches a missing page, with read-ahead unless the advice is random access.
    fn miss(
        &mut self,
        page: u64,
        pages: u64,
        cache: &mut Cache,
        commands: &mut Vec<ProcessCommand>,
    ) {
        match self.buffered.advice {
            // With `POSIX_FADV_RANDOM`, Linux reads only the pages of the call.
            Advice::Random => self.fetch(page, page + pages, cache, commands),
            _ if self.window > 0 => self.fetch_ahead(page, pages, false, cache, commands),
            _ => {}
        }
        // Read-ahead can be off or out of requests. In both cases, the page alone is fetched.
        if cache.page_state(page) == Page::Missing {
            self.send_read(page, page + 1, cache, commands);
        }
    }

    fn fetch_ahead(
        &mut self,
        page: u64,
        pages: u64,
        marked: bool,
        cache: &mut Cache,
        commands: &mut Vec<ProcessCommand>,
    ) {
        // A read that is larger than a window is fetched in requests of up to the drive's maximum
        // transfer.
        let most = if pages > self.window {
            self.window.max(pages.min(self.request))
        } else {
            self.window
        };
        let need = ReadAheadNeed {
            page,
            pages,
            missing: marked.then(|| cache.missing_after(page + 1, most)),
            previous: self.previous,
            history: cache.history(page, most),
        };
        let Some(ReadAheadWindow {
            start,
            pages,
            marker,
        }) = self.read_ahead.window(&need, most)
        else {
            return;
        };
        // As in Linux, only a page that this window fetches can get the marker.
        let marker = marker.filter(|&m| m < cache.pages() && !cache.holds(m));
        self.fetch(start, start + pages, cache, commands);
        if let Some(marker) = marker.filter(|&m| cache.holds(m)) {
            cache.mark(marker);
        }
    }

    /// Fetches the missing pages of a range, as far as it is inside the file. Contiguous pages are
    /// one request, within the limits.
    fn fetch(
        &mut self,
        start: u64,
        end: u64,
        cache: &mut Cache,
        commands: &mut Vec<ProcessCommand>,
    ) {
        let end = end.min(cache.pages());
        let mut page = start;
        while page < end && cache.fetches_in_flight(self.client) < self.room {
            if cache.holds(page) {
                page += 1;
                continue;
            }
            let last = (page + self.request).min(end);
            let behind = (page..last).find(|&p| cache.holds(p)).unwrap_or(last);
            self.send_read(page, behind, cache, commands);
            page = behind;
        }
    }

    fn send_read(
        &mut self,
        start: u64,
        end: u64,
        cache: &mut Cache,
        commands: &mut Vec<ProcessCommand>,
    ) {
        let fetch = Fetch {
            client: self.client,
            number: self.commands,
        };
        cache.fetch(fetch, start, end);
        self.send(Op::Read, Flags::NONE, start, end, commands);
    }

    fn send(
        &mut self,
        op: Op,
        flags: Flags,
        start: u64,
        end: u64,
        commands: &mut Vec<ProcessCommand>,
    ) {
        let offset = if op == Op::Flush {
            0
        } else {
            self.base + start * PAGE
        };
        commands.push(ProcessCommand {
            number: self.commands,
            op,
            flags,
            offset,
            length: ((end - start) * PAGE) as u32,
        });
        self.commands += 1;
    }

    /// Carries out `fdatasync`: writes dirty pages, waits for the writes, flushes, and waits for
    /// the flush.
    fn sync(
        &mut self,
        now: Instant,
        t: Instant,
        call: &mut SystemCall,
        commands: &mut Vec<ProcessCommand>,
    ) -> Option<Continuation> {
        match call.stage {
            CallStage::Over => return None,
            CallStage::Running => {}
            _ => return Some(Continuation::Answer),
        }
        if t > now {
            return Some(Continuation::At(t));
        }
        let from = self.commands;
        self.write_dirty(commands);
        let left = self.commands - from;
        if left > 0 {
            let since = now;
            call.stage = CallStage::Writing { from, left, since };
        } else {
            call.stage = CallStage::Flushing {
                flush: from,
                since: now,
            };
            self.send(Op::Flush, Flags::SYNC, 0, 0, commands);
        }
        Some(Continuation::Answer)
    }

    /// Writes all dirty pages. Contiguous pages are one request, up to the maximum length.
    fn write_dirty(&mut self, commands: &mut Vec<ProcessCommand>) {
        while let Some(start) = self.dirty.pop_first() {
            let mut end = start + 1;
            while end - start < self.request && self.dirty.remove(&end) {
                end += 1;
            }
            self.send(Op::Write, Flags::SYNC, start, end, commands);
        }
    }
}

/// Checks the rules for buffered I/O, such as one call at a time, and a region that begins with a
/// page.
fn check(spec: &ClientSpec, buffered: &Buffered) -> Result<(), SimError> {
    let program = &spec.program;
    let pages = |bytes: u64| bytes.is_multiple_of(PAGE);
    let every = match program.sync {
        SyncMode::Never => 1,
        SyncMode::Flush(every) | SyncMode::Fdatasync(every) => every,
    };
    let read_ahead = u64::from(buffered.read_ahead);
    let rules = weir_core::rules! {
        "depth", program.depth, 1..=1, "1";
        "files", program.files, 1..=1, "1";
        "region.start", spec.region.start, pages(spec.region.start), "a multiple of 4096 bytes";
        "fua", true, !program.fua, "off: fdatasync makes buffered writes durable";
        "sync", every, program.writes == 0 || every <= 65_536,
            "never, or every 1 to 65536 writes";
        "read_ahead", read_ahead, pages(read_ahead) && read_ahead <= 16 << 20,
            "a multiple of 4096 bytes, at most 16777216";
        "copy", buffered.copy, 1..=1_000_000_000, "1 to 1000000000 ns (1 s)";
        "wakeup", buffered.wakeup, 0..=1_000_000_000, "at most 1000000000 ns (1 s)";
        "dirty_bytes", buffered.dirty_bytes, 1 << 20..=1 << 40, "1 MiB to 1 TiB";
    };
    weir_core::rule::check(rules).map_err(|broken| SimError::Buffered {
        client: spec.name.clone(),
        key: broken.field,
        value: broken.value,
        allowed: broken.allowed,
    })
}

#[cfg(test)]
mod tests;
