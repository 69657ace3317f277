//! The backend of a volume on a remote server: it converts jobs to requests, and handles the loss
//! and return of the server.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use weir_config::Remote as Settings;
use weir_core::{Flags, Instant, Op, Span};
use weir_uring::{Arena, Buf, RingCompletion, SharedBuf};
use weir_wire::nbd::TransmissionFlags;

use super::super::rmw::{LockMode, Ranges};
use super::super::workers::Workers;
use super::super::{Allocation, Backend, BackendJob, Context, RemoteState};
use super::dial::{DialError, Dialled, ExportShape, PATIENCE, dial};
use super::keeper::{EndedRequest, Id, Keeper, RemoteRequest};
use super::redial::Redial;
use super::wire::{SessionError, Wire};
use super::work::{JobPart, RemoteWork, RequestStep};
use crate::clock::until;
use crate::errno::{EIO, ENOTCONN, ENOTSUP, EPERM};
use crate::slab::Slab;

/// The minimum that a change counts for in the memory limit of unflushed changes, in bytes.
const LEAST: u64 = 4096;

/// The backend of a volume on an export.
#[derive(Debug)]
pub(super) struct Remote {
    settings: Arc<Settings>,
    read_only: bool,
    shape: ExportShape,
    /// The memory of written data until they are durable.
    arena: Arena,
    keeper: Keeper<SharedBuf>,
    wire: Wire,
    works: Slab<RemoteWork>,
    parts: Slab<JobPart>,
    ranges: Ranges,
    /// Works whose range lock was granted.
    ready: VecDeque<u32>,
    /// Works that wait for memory.
    hungry: VecDeque<u32>,
    workers: Workers<Option<Result<Dialled, DialError>>>,
    redial: Redial,
    away: Option<Away>,
    /// True after the backend has disconnected from the server because no more jobs are expected.
    resting: bool,
    state: RemoteState,
}

/// The state of an outage.
#[derive(Debug)]
struct Away {
    since: Instant,
    /// The time when requests began to wait.
    outage: Instant,
    /// The time of the next attempt to reach the server.
    next: Instant,
    /// True once requests have waited for the configured time, and therefore fail.
    expired: bool,
    /// True if no thread is dialling or waiting to dial.
    idle: bool,
    /// The last error that was logged, which is not repeated.
    said: String,
}

impl Remote {
    pub(super) fn new(
        settings: Arc<Settings>,
        read_only: bool,
        dialled: Dialled,
    ) -> io::Result<Self> {
        let mut wire = Wire::new(settings.requests, settings.connections)?;
        let shape = dialled.shape;
        wire.open(dialled.sockets, &shape)?;
        // The remaining half of the memory takes changes while the unasked flush is in progress.
        let mut keeper = Keeper::new(settings.unflushed / 2);
        keeper.connected(shape.flags.contains(TransmissionFlags::SEND_FUA));
        Ok(Self {
            arena: Arena::new(settings.unflushed as usize)?,
            settings,
            read_only,
            shape,
            keeper,
            wire,
            works: Slab::new(),
            parts: Slab::new(),
            ranges: Ranges::default(),
            ready: VecDeque::new(),
            hungry: VecDeque::new(),
            workers: Workers::new(),
            redial: Redial::default(),
            away: None,
            resting: false,
            state: RemoteState::default(),
        })
    }

    fn has_expired(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.expired)
    }

    /// Makes as much progress as possible, and queues the resulting operations on the ring.
    fn turn(&mut self, cx: &mut Context<'_>) {
        loop {
            while let Some(slot) = self.ready.pop_front() {
                self.advance(slot, cx);
            }
            while let Some(slot) = self.hungry.pop_front() {
                self.works[slot].hungry = false;
                self.advance(slot, cx);
                // `wait_for_memory` has put the work at the end of the queue again.
                if self.hungry.back() == Some(&slot) {
                    // There is no memory. This work returns to the front, and the others keep their
                    // order behind it.
                    self.hungry.rotate_right(1);
                    break;
                }
            }
            while self.wire.has_room()
                && let Some(sending) = self.keeper.next()
            {
                self.wire.send(sending);
            }
            if self.ready.is_empty() {
                break;
            }
        }
        if !self.wire.queue(cx) {
            cx.defer();
        }
    }

    /// Requests as many parts of a work as there is memory for.
    fn advance(&mut self, slot: u32, cx: &mut Context<'_>) {
        if self.has_expired() {
            self.works[slot].error.get_or_insert(ENOTCONN);
        }
        while !self.works[slot].is_asked() {
            let step = self.works[slot].step(&self.shape);
            if !self.take(slot, step) {
                break;
            }
        }
        self.end_if_over(slot, cx);
    }

    /// Requests one part. Returns false if no more can be requested now.
    fn take(&mut self, slot: u32, step: RequestStep) -> bool {
        let op = self.works[slot].op;
        match step {
            RequestStep::Nothing => self.works[slot].next = self.works[slot].range.end,
            RequestStep::Flush => {
                self.works[slot].next = self.works[slot].range.end;
                self.ask(slot, 0..0, (Op::Flush, 0..0), None);
            }
            RequestStep::LookUp(_) if self.shape.allocation.is_none() => {
                self.works[slot].allocated(u64::MAX, Allocation::Data);
            }
            RequestStep::LookUp(blocks) => {
                let range = blocks.start..self.works[slot].next;
                self.ask(slot, range, (Op::Extents, blocks), None);
                // The next request depends on the end of the extents that the server returns.
                return false;
            }
            RequestStep::Read(blocks, range) => {
                self.works[slot].next = range.end;
                self.ask(slot, range, (Op::Read, blocks), None);
            }
            RequestStep::Space(range) => {
                // A change without data takes no memory, but it is kept as well, so it counts.
                if self.keeper.kept_bytes() >= self.settings.unflushed {
                    return self.wait_for_memory(slot);
                }
                self.works[slot].next = range.end;
                self.ask(slot, range.clone(), (op, range), None);
            }
            RequestStep::Write(range) => {
                let Some(mut buf) = self.arena.alloc((range.end - range.start) as usize) else {
                    return self.wait_for_memory(slot);
                };
                let work = &mut self.works[slot];
                work.next = range.end;
                work.fill(&range, range.start, &mut buf);
                self.ask(slot, range.clone(), (Op::Write, range), Some(buf));
            }
            RequestStep::Patch(blocks, range) => {
                let Some(buf) = self.arena.alloc((blocks.end - blocks.start) as usize) else {
                    return self.wait_for_memory(slot);
                };
                self.works[slot].next = range.end;
                let part = self.ask(slot, range, (Op::Read, blocks.clone()), None);
                self.parts[part].patch = Some((blocks.start, buf));
            }
        }
        true
    }

    /// Lets a work wait for memory, which a flush will free.
    fn wait_for_memory(&mut self, slot: u32) -> bool {
        self.works[slot].hungry = true;
        self.hungry.push_back(slot);
        self.keeper.request_flush();
        false
    }

    /// Submits a part of a work to the keeper, and returns the part's number.
    fn ask(
        &mut self,
        slot: u32,
        range: Range<u64>,
        (op, blocks): (Op, Range<u64>),
        payload: Option<Buf>,
    ) -> u32 {
        let work = &mut self.works[slot];
        work.open += 1;
        let flags = work.flags;
        let part = self.parts.insert(JobPart {
            work: slot,
            range,
            patch: None,
        });
        let cost = payload.as_ref().map_or(0, Buf::capacity) as u64;
        self.keeper.submit(
            part,
            RemoteRequest {
                op,
                flags,
                offset: blocks.start,
                length: (blocks.end - blocks.start) as u32,
                payload: payload.map(Buf::into_shared),
                cost: cost.max(LEAST),
            },
        );
        part
    }

    /// Continues after the server has answered a part, or it has failed.
    fn part_over(&mut self, (number, result): EndedRequest, cx: &mut Context<'_>) {
        let Some(part) = self.parts.remove(number) else {
            return;
        };
        let slot = part.work;
        let work = &mut self.works[slot];
        work.open -= 1;
        match (part.patch, result) {
            (_, Err(errno)) => {
                work.error.get_or_insert(errno);
            }
            (Some((first, mut blocks)), Ok(())) => {
                // The blocks of a patch have been read. The changed blocks are written next.
                work.fill(&part.range, first, &mut blocks);
                let range = first..first + blocks.len() as u64;
                self.ask(slot, range.clone(), (Op::Write, range), Some(blocks));
                return;
            }
            (None, Ok(())) if work.op == Op::Extents => {
                if work.next <= part.range.end {
                    // The server has sent no extent of the wanted range. Repeating the request
                    // could loop forever.
                    work.error.get_or_insert(EIO);
                }
                return self.advance(slot, cx);
            }
            (None, Ok(())) => {}
        }
        self.end_if_over(slot, cx);
    }

    fn end_if_over(&mut self, slot: u32, cx: &mut Context<'_>) {
        let work = &self.works[slot];
        if work.open > 0 || work.hungry || !work.is_asked() {
            return;
        }
        let Some(mut work) = self.works.remove(slot) else {
            return;
        };
        if work.locked {
            self.ranges.release(slot, &mut self.ready);
        }
        let data = work.take_data();
        cx.finish(work.tag, work.error.map_or(Ok(()), Err), data);
    }

    /// Ends the session. The server is dialled until it is reachable again.
    fn lose(&mut self, why: &SessionError, cx: &mut Context<'_>) {
        if self.away.is_some() {
            return;
        }
        self.wire.close();
        self.keeper.lost();
        self.state.losses += 1;
        self.state.away = true;
        let export = self.settings.uri.to_string();
        let kept = self.keeper.kept_bytes();
        tracing::warn!(
            export,
            kept,
            "the remote server is away; the server reconnects, and requests wait in the meantime: {why}"
        );
        self.begin_outage(cx);
    }

    /// Marks the server as away, and starts to dial it.
    fn begin_outage(&mut self, cx: &mut Context<'_>) {
        self.away = Some(Away {
            since: cx.now,
            outage: self.redial.lost(cx.now),
            next: cx.now + self.redial.pause(),
            expired: false,
            idle: true,
            said: String::new(),
        });
        self.expire(cx);
        self.dial(cx);
    }

    /// Lets a thread wait for the pause and then dial. If requests will fail before the end of the
    /// pause, it only waits until then.
    fn dial(&mut self, cx: &mut Context<'_>) {
        let left = self.left(cx.now);
        let Some(away) = self.away.as_mut().filter(|away| away.idle) else {
            return;
        };
        let pause = until(cx.now, away.next);
        let nap = left.map_or(pause, |left| pause.min(left));
        // The handshake is limited to the time that requests still wait, but to no less than a
        // second.
        let patience = left.map_or(PATIENCE, |left| {
            PATIENCE.min(left.max(Duration::from_secs(1)))
        });
        let (settings, read_only) = (Arc::clone(&self.settings), self.read_only);
        let task = move || {
            std::thread::sleep(nap);
            (nap == pause).then(|| dial(&settings, read_only, patience))
        };
        away.idle = !self.workers.submit(cx.caller(), task);
        if away.idle {
            cx.defer();
        }
    }

    /// Returns the time that requests still wait for the server, or `None` if they have
    /// expired or the server is reachable.
    fn left(&self, now: Instant) -> Option<Duration> {
        let away = self.away.as_ref().filter(|away| !away.expired)?;
        let waited: Span = now.since(away.outage);
        let left = self.settings.wait.saturating_sub(waited);
        Some(Duration::from_nanos(left.as_nanos()))
    }

    /// Lets all requests fail if they have waited for too long.
    fn expire(&mut self, cx: &mut Context<'_>) {
        if self.left(cx.now) != Some(Duration::ZERO) {
            return;
        }
        if let Some(away) = &mut self.away {
            away.expired = true;
        }
        let export = self.settings.uri.to_string();
        tracing::error!(
            export,
            "the remote server is still away; requests fail until it is back"
        );
        for ended in self.keeper.expire() {
            self.part_over(ended, cx);
        }
        for slot in std::mem::take(&mut self.hungry) {
            self.works[slot].hungry = false;
            self.ready.push_back(slot);
        }
    }

    /// Processes the result of a thread that has dialled, or `None` if it has only waited.
    fn dialled(&mut self, dialled: Option<Result<Dialled, DialError>>, cx: &mut Context<'_>) {
        let Some(away) = &mut self.away else { return };
        away.idle = true;
        let Some(dialled) = dialled else {
            self.expire(cx);
            return self.dial(cx);
        };
        let fit = dialled.and_then(|dialled| {
            dialled.shape.continues(&self.settings, &self.shape)?;
            Ok(dialled)
        });
        match fit {
            Ok(dialled) => self.connected(dialled, cx),
            Err(error) => {
                let said = error.to_string();
                // The same error is logged only once per outage, because attempts continue until
                // the server returns.
                if said != away.said {
                    let export = self.settings.uri.to_string();
                    if matches!(error, DialError::Connect(_)) {
                        tracing::warn!(
                            export,
                            "the server cannot reach the remote server, and tries again: {said}"
                        );
                    } else {
                        tracing::error!(
                            export,
                            "the server refuses the remote server, and tries again: {said}"
                        );
                    }
                    away.said = said;
                }
                self.dial_again(cx);
            }
        }
    }

    /// Dials again after a pause, because the attempt has failed.
    fn dial_again(&mut self, cx: &mut Context<'_>) {
        if let Some(away) = &mut self.away {
            away.next = cx.now + self.redial.pause();
        }
        self.expire(cx);
        self.dial(cx);
    }

    fn connected(&mut self, dialled: Dialled, cx: &mut Context<'_>) {
        let kept = self.keeper.kept_bytes();
        // Clients keep the properties that they know. Only the properties that affect the wire are
        // replaced.
        self.shape = ExportShape {
            block: self.shape.block,
            part: self.shape.part,
            ..dialled.shape
        };
        if let Err(errno) = self.wire.open(dialled.sockets, &self.shape) {
            tracing::warn!(
                "the server cannot use a connection to the remote server, and tries again: {errno}"
            );
            self.wire.close();
            return self.dial_again(cx);
        }
        let Some(away) = self.away.take() else { return };
        self.redial.connected(cx.now);
        self.keeper
            .connected(self.shape.flags.contains(TransmissionFlags::SEND_FUA));
        self.state.away = false;
        self.state.last_away = cx.now;
        let export = self.settings.uri.to_string();
        // The message contains whole seconds, so that lines about consecutive outages can be
        // identical. The writer of the log combines identical lines.
        let seconds = cx.now.since(away.since).as_nanos() / 1_000_000_000;
        tracing::warn!(
            export,
            kept,
            seconds,
            "the remote server is back; the server repeats the writes that were not flushed"
        );
    }
}

impl Backend for Remote {
    fn size(&self, wanted: Option<u64>) -> io::Result<u64> {
        self.shape
            .has_size(&self.settings, wanted)
            .map_err(io::Error::other)?;
        Ok(self.shape.size)
    }

    fn submit(&mut self, job: BackendJob, cx: &mut Context<'_>) {
        let work = RemoteWork::new(job);
        let fast = work.flags.has(Flags::FAST_ZERO) && work.op == Op::WriteZeroes;
        let refused = if work.changes() && self.read_only {
            Some(EPERM)
        } else if fast && !self.shape.flags.contains(TransmissionFlags::SEND_FAST_ZERO) {
            Some(ENOTSUP)
        } else if self.has_expired() {
            Some(ENOTCONN)
        } else {
            let syncs = work.op == Op::Flush || work.changes() && work.flags.has(Flags::FUA);
            (syncs && self.keeper.has_failed()).then_some(EIO)
        };
        if let Some(errno) = refused {
            return cx.finish(work.tag, Err(errno), work.data);
        }
        // A read-only volume has nothing to flush, and its server may not support it.
        if work.op == Op::Flush && self.read_only {
            return cx.finish(work.tag, Ok(()), work.data);
        }
        if std::mem::take(&mut self.resting) {
            self.begin_outage(cx);
        }
        let lock = work.changes().then(|| work.blocks(&self.shape));
        let slot = self.works.insert(work);
        // All changes are exclusive, because the keeper must never have two overlapping changes in
        // progress.
        let held = lock.is_none_or(|blocks| {
            self.works[slot].locked = true;
            self.ranges.acquire(slot, blocks, LockMode::Exclusive)
        });
        if held {
            self.ready.push_back(slot);
        }
        self.turn(cx);
    }

    fn completed(&mut self, op: u32, completion: RingCompletion, cx: &mut Context<'_>) {
        let (works, parts) = (&mut self.works, &mut self.parts);
        let (keeper, wire) = (&mut self.keeper, &mut self.wire);
        let outcome = wire.completed(op, completion, &mut |id, found| {
            let owner = match id {
                Id::Call(slot) => keeper.owner(slot),
                Id::Kept(_) => None,
            };
            if let Some(part) = owner.and_then(|owner| parts.get_mut(owner)) {
                works[part.work].found(part, found);
            }
        });
        while let Some((id, result)) = self.wire.take_ended() {
            if let Some(ended) = self.keeper.answered(id, result) {
                self.redial.answered();
                self.part_over(ended, cx);
            }
        }
        if let Err(why) = outcome {
            self.lose(&why, cx);
        }
        self.turn(cx);
    }

    fn rest(&mut self) -> bool {
        if !self.resting {
            self.resting = true;
            self.away = None;
            self.state.away = false;
            self.wire.disconnect();
            self.keeper.lost();
        }
        self.wire.is_quiet()
    }

    fn resume_deferred(&mut self, cx: &mut Context<'_>) {
        self.dial(cx);
        self.turn(cx);
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        let mut any = false;
        while let Some(dialled) = self.workers.next() {
            self.dialled(dialled, cx);
            any = true;
        }
        if any {
            self.turn(cx);
        }
    }

    fn remote(&self) -> Option<RemoteState> {
        Some(RemoteState {
            kept_bytes: self.keeper.kept_bytes(),
            replayed_bytes: self.keeper.replayed_bytes(),
            ..self.state
        })
    }
}
