//! The turn of a shard: what completed, what to take, what to do, what to answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_core::{Instant, Output, Span};
use weir_uring::{Completion, Ring};

use super::client::{Arrived, State};
use super::front::Attached;
use super::front::{Look, Stop, Then};
use super::leave::Drained;
use super::schedule::{self, Cost};
use super::token::{self, Token};
use super::{Mail, Shard};
use crate::clock::until;

/// Operations of backends that are taken in in one turn. The rest wait for the next turn: the first of many clients that are ready at
/// once has its answers, and may go on, while the last still wait.
const OPERATIONS: usize = 16;
/// Visits to clients in one turn, for the same reason. With 8, sixteen volumes at depth 2 took twice as many calls of the kernel, 7 %
/// more processor time a request, and were 8 % slower.
const VISITS: usize = 16;
/// How long a turn takes requests while others wait, whatever they are estimated to cost: a slow machine, or one that a debugger or a
/// hypervisor stopped, still answers.
const LONGEST: Span = Span::from_micros(250);
/// A turn of this estimated cost may have taken long enough for requests to arrive during it.
const LONG: Cost = 20_000;
/// A wait that is longer than this has put the thread to sleep.
const NAP: Span = Span::from_micros(5);
/// Messages that are read in one turn.
const MAILS: usize = 16;

/// What a backend's operation came to.
#[derive(Debug)]
pub(super) struct Returned {
    drive: usize,
    space: u32,
    op: u32,
    completion: Completion,
}

/// When the last turns began, and what they cost.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) number: u64,
    /// The beginnings of this turn and of the two before it, oldest first. All three are this one's if the thread slept before it:
    /// nothing can have arrived earlier.
    begun: [Instant; 3],
    /// The schedule's costs when this turn began.
    spent: Cost,
    /// Nanoseconds for each 256 of estimated cost.
    scale: u64,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            number: 0,
            begun: [now; 3],
            spent: 0,
            scale: 256,
        }
    }

    /// A turn begins. `spent`: what all turns before it cost together.
    fn begin(&mut self, now: Instant, slept: bool, spent: Cost) {
        self.number += 1;
        let cost = std::mem::replace(&mut self.spent, spent).abs_diff(spent);
        let took = now.since(self.begun[2]).as_nanos();
        if slept {
            self.begun = [now; 3];
            return;
        }
        self.begun = [self.begun[1], self.begun[2], now];
        if cost >= LONG {
            // A turn without a processor says nothing of its cost.
            let seen = (took * 256 / cost).clamp(self.scale / 2, self.scale * 2);
            self.scale = (self.scale * 15 + seen).div_ceil(16).clamp(16, 1 << 16);
        }
    }

    /// When something arrived that this turn was the first to find.
    fn arrived(&self) -> Arrived {
        let [earliest, before, now] = self.begun;
        Arrived {
            earliest,
            likely: before + now.since(before) / 2,
        }
    }

    /// Nanoseconds that the processor took for an estimated cost.
    pub(super) fn time(&self, cost: Cost) -> u64 {
        cost.saturating_mul(self.scale) / 256
    }
}

impl Shard {
    /// Runs until it is told to end and everything is durable; false if a fault ended it.
    pub(super) fn run(mut self) -> bool {
        // What was acknowledged as durable is durable whatever happens here: it is never only in this thread's memory. A fault
        // ends this shard's connections, and `Server::wait` says so.
        let ended = catch_unwind(AssertUnwindSafe(|| self.turns()));
        match ended {
            Ok(Ok(durable)) => durable,
            Ok(Err(error)) => {
                tracing::error!(
                    error = weir_config::os_error::message(&error),
                    "the ring of a shard failed; the shard closes its connections, and the server ends"
                );
                false
            }
            Err(_) => {
                tracing::error!("a shard failed; it closes its connections, and the server ends");
                false
            }
        }
    }

    fn turns(&mut self) -> std::io::Result<bool> {
        loop {
            match self.turn()? {
                Drained::No => {}
                Drained::Yes => return Ok(true),
                Drained::GivenUp => {
                    tracing::error!(
                        "the storage did not respond before the server's deadline; data that was not flushed may be lost"
                    );
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for something to do and does it; whether the shard may end then.
    pub(super) fn turn(&mut self) -> std::io::Result<Drained> {
        let timeout = match self.timeout() {
            Some(Duration::ZERO) => Some(Duration::ZERO),
            // A client that was found to have something is ready now.
            _ if self.rest() => Some(Duration::ZERO),
            timeout => timeout,
        };
        self.write_records(false);
        self.wait(timeout)?;
        for drive in &mut self.drives {
            drive.lapse(self.now);
        }
        self.note_lateness();
        // Whose requests are taken is decided among all that have some, so all are heard.
        while let Some(completion) = self.ring.pop() {
            self.completed(completion);
        }
        self.take_returned();
        if self.ring.take_woken() || self.has_mail {
            self.woken();
        }
        self.look();
        self.schedule_terms();
        self.work();
        self.evict_idle();
        self.send_all();
        self.change();
        let drained = self.drained();
        if drained != Drained::No {
            self.write_records(true);
        }
        Ok(drained)
    }

    /// Waits until something has arrived, or for this long.
    fn wait(&mut self, timeout: Option<Duration>) -> std::io::Result<()> {
        let sleeps = timeout != Some(Duration::ZERO);
        let spent = self.schedule.total();
        let is_long = sleeps && spent - self.turns.spent >= LONG;
        let before = is_long.then(|| self.clock.now());
        self.ring.submit_and_wait(timeout)?;
        self.now = self.clock.now();
        let slept = sleeps && before.is_none_or(|at| self.now.since(at) > NAP);
        self.turns.begin(self.now, slept, spent);
        for drive in &mut self.drives {
            drive.is_timely = slept;
        }
        if self.second.is_over(self.now) {
            self.end_second();
        }
        Ok(())
    }

    /// How long there is nothing to do if nothing arrives.
    fn timeout(&self) -> Option<Duration> {
        let is_busy = !self.schedule.is_empty() || !self.returned.is_empty() || self.has_mail;
        if is_busy || self.drives.iter().any(|drive| drive.is_due(self.now)) {
            return Some(Duration::ZERO);
        }
        let drives = self.drives.iter().filter_map(super::Drive::next_due);
        let lapses = self.drives.iter().map(|drive| drive.lapses_at);
        let lapses = lapses.filter(|at| *at < Instant::MAX);
        let drain = self.drain.as_ref().map(super::leave::Drain::deadline);
        let changes = self.changes.iter().map(|change| change.deadline);
        let records = self.drives.iter().filter_map(|drive| {
            let recorder = drive.layer.observer().recorder.as_ref()?;
            let tape = drive.tape.as_ref()?;
            tape.due(recorder)
        });
        let shared = self.shared.iter();
        let shared = shared.filter_map(|slot| self.clients[*slot].front.due());
        let next = drives
            .chain(shared)
            .chain(lapses)
            .chain(drain)
            .chain(changes)
            .chain(records)
            .chain(self.evict_at)
            .chain(self.schedule.release_at())
            .chain(self.evicted.front().map(|(at, _)| *at))
            .min()?;
        Some(until(self.now, next))
    }

    /// Tells the journals for how long this thread had no processor.
    fn note_lateness(&mut self) {
        if let Some(total) = self.waited.look(self.now) {
            for drive in &mut self.drives {
                drive.layer.observer_mut().journal.waited(self.now, total);
            }
        }
    }

    /// Looks at the requests of clients that share memory with us.
    fn look(&mut self) {
        for n in 0..self.shared.len() {
            let slot = self.shared[n];
            let Attached { client, front } = &mut self.clients[slot];
            let Look { take, send } = front.look(self.now);
            if take && client.takes() && !client.ready {
                client.arrived.get_or_insert_with(|| self.turns.arrived());
                self.mark_ready(slot);
            }
            if send {
                self.mark_for_send(slot);
            }
        }
    }

    /// Asks clients that share memory with us to wake the shard, which is about to sleep; true if there is something to do after all.
    fn rest(&mut self) -> bool {
        if self.shared.is_empty() || self.ring.is_ready() {
            return false;
        }
        let mut any = false;
        for n in 0..self.shared.len() {
            let slot = self.shared[n];
            let Attached { client, front } = &mut self.clients[slot];
            if client.takes() && !client.ready && front.rest() {
                client.arrived.get_or_insert_with(|| Arrived::at(self.now));
                self.mark_ready(slot);
                any = true;
            }
        }
        any
    }

    /// Hands over what was recorded; at the `end`, when nothing more happens, the rest.
    fn write_records(&mut self, end: bool) {
        for drive in &mut self.drives {
            let recorder = &mut drive.layer.observer_mut().recorder;
            match (&mut drive.tape, recorder) {
                (Some(tape), Some(recorder)) if end => tape.end(recorder),
                (Some(tape), Some(recorder)) => tape.take(recorder, self.now),
                _ => {}
            }
        }
    }

    fn woken(&mut self) {
        self.has_mail = true;
        for _ in 0..MAILS {
            let Ok(mail) = self.mail.try_recv() else {
                self.has_mail = false;
                break;
            };
            match mail {
                Mail::Arrival(arrival) => self.arrive(*arrival),
                Mail::Evict(connection) => self.evict(connection),
                Mail::Drain(within) => self.begin_drain(within),
                Mail::Snapshot(detail, wanted) => {
                    let drives = self.drives.iter_mut();
                    // The thread that asked may have lost patience.
                    let _ = wanted.send(drives.map(|d| d.snapshot(self.now, detail)).collect());
                }
                Mail::Explain { volume, wanted } => {
                    let mut drives = self.drives.iter_mut();
                    // The thread that asked may have lost patience.
                    let _ = wanted.send(drives.find_map(|d| d.view(self.now, &volume)));
                }
                Mail::Hold { volume, held, used } => {
                    let until = self.clock.at(held.until);
                    let mut drives = self.drives.iter_mut();
                    let held = (&volume[..], &held, until);
                    // The thread that asked may have lost patience.
                    let _ = used.send(drives.find_map(|d| d.hold(self.now, held)));
                }
                Mail::Growable { volumes, wanted } => {
                    // The thread that asked waits for this.
                    let _ = wanted.send(self.growable(&volumes));
                }
                Mail::Change(change, result) => self.begin_change(*change, result),
                Mail::Decide {
                    drive,
                    in_force,
                    done,
                } => {
                    let untold = self.decide(drive, in_force);
                    // The thread that asked waits for this.
                    let _ = done.send(untold);
                }
            }
        }
        for drive in &mut self.drives {
            drive.woken(&mut self.ring, self.now);
        }
    }

    fn completed(&mut self, completion: Completion) {
        match token::parse(completion.user) {
            Token::Front { slot, op } => self.front_completed(slot, op, completion),
            Token::Backend { drive, space, op } => self.returned.push_back(Returned {
                drive,
                space,
                op,
                completion,
            }),
        }
    }

    /// Lets the backends take in what their operations came to.
    fn take_returned(&mut self) {
        for _ in 0..OPERATIONS {
            let Some(returned) = self.returned.pop_front() else {
                return;
            };
            let Returned {
                drive,
                space,
                op,
                completion,
            } = returned;
            self.drives[drive].with_backend(&mut self.ring, self.now, space, |backend, cx| {
                backend.completed(op, completion, cx);
            });
        }
    }

    /// An operation of a client's front end has ended.
    fn front_completed(&mut self, slot: u32, op: u32, completion: Completion) {
        let progress = self.with_front(slot, |front, cx| front.completed(op, completion, cx));
        self.clients[slot].client.note_activity(self.now);
        self.left(slot, progress.left);
        match progress.then {
            Then::Take if self.clients[slot].client.state != State::Gone => {
                self.note_arrival(slot);
                return self.mark_ready(slot);
            }
            Then::Take => {}
            Then::Send => {
                self.unhold(slot);
                self.mark_for_send(slot);
            }
            Then::Rest => self.unhold(slot),
            Then::Gone => return self.disconnect(slot, None),
        }
        self.close_if_done(slot);
    }

    /// Bytes of a client have arrived.
    fn note_arrival(&mut self, slot: u32) {
        let now = self.turns.arrived();
        let client = &mut self.clients[slot].client;
        // The rest of a request was there as soon as it was asked for, so the client did not wait in between.
        let partial = client.partial.take();
        let partial =
            partial.filter(|(_, turn)| turn + 1 == self.turns.number && now.earliest < self.now);
        client
            .arrived
            .get_or_insert_with(|| partial.map_or(now, |(arrived, _)| arrived));
    }

    /// Takes requests in the order of the schedule, gives them to the core and carries out what it decides, until there is nothing left
    /// to do or the turn has lasted long enough.
    pub(super) fn work(&mut self) {
        let (begun, mut visits) = (self.schedule.total(), 0);
        self.schedule.release(self.now);
        for drive in &mut self.drives {
            drive.settle(&mut self.ring, self.now);
        }
        loop {
            self.wake_waiting();
            let mut goes_on = true;
            while goes_on && let Some(slot) = self.schedule.pop(self.now) {
                self.serve(slot);
                visits += 1;
                goes_on = visits < VISITS && self.schedule.total() - begun < schedule::TURN;
                // The clock is asked only if somebody would wait.
                goes_on &= self.schedule.is_empty() || self.clock.now().since(self.now) < LONGEST;
            }
            for number in 0..self.drives.len() {
                self.turn_drive(number);
            }
            if !goes_on || self.schedule.is_empty() {
                return;
            }
        }
    }

    fn turn_drive(&mut self, number: usize) {
        let drive = &mut self.drives[number];
        if !drive.is_due(self.now) {
            return;
        }
        let mut notices = std::mem::take(&mut self.notices);
        drive.turn(&mut self.ring, self.now, &mut notices);
        for notice in notices.drain(..) {
            match notice {
                // Its drive has it already.
                Output::Dispatch(_) => {}
                Output::Done(done) => self.done(number, &done),
                Output::Pause(stream) => {
                    if let Some(slot) = self.drives[number].client(stream) {
                        self.clients[slot].client.paused = true;
                    }
                }
                Output::Resume(stream) => {
                    if let Some(slot) = self.drives[number].client(stream) {
                        self.clients[slot].client.paused = false;
                        self.mark_ready(slot);
                    }
                }
            }
        }
        self.notices = notices;
    }

    /// Takes a client's requests as far as its bounds allow and gives them to the core.
    fn serve(&mut self, slot: u32) {
        let Some(attached) = self.clients.get_mut(slot) else {
            return;
        };
        let client = &mut attached.client;
        client.ready = false;
        if !client.queue.is_empty() && !client.paused {
            self.resubmit(slot);
        }
        let stop = self.take(slot);
        // What it took is in the batch, unless it was disconnected.
        let took = !self.batch.is_empty();
        self.submit(slot);
        self.note_stop(slot, &stop, took);
        self.close_if_done(slot);
    }

    /// A visit to a client has ended.
    fn note_stop(&mut self, slot: u32, stop: &Stop, took: bool) {
        let Some(attached) = self.clients.get_mut(slot) else {
            return;
        };
        let client = &mut attached.client;
        match stop {
            Stop::Empty => {
                let arrived = client.arrived.take().filter(|_| !took);
                client.partial = arrived.map(|arrived| (arrived, self.turns.number));
            }
            Stop::Spent => {
                if took {
                    client.arrived = Some(Arrived::at(self.now));
                }
                self.mark_ready(slot);
            }
            Stop::Blocked => {
                client.blocked = true;
                // Others have the memory that it waits for. Any other bound is its own.
                if took || !client.waiting {
                    client.arrived = client.waiting.then(|| Arrived::at(self.now));
                }
            }
            Stop::Ended | Stop::Broken(_) => client.arrived = None,
        }
    }

    /// Puts a client in the list of those to take requests from.
    pub(super) fn mark_ready(&mut self, slot: u32) {
        let client = &mut self.clients[slot].client;
        client.blocked = false;
        if !client.ready {
            client.ready = true;
            self.schedule.push(client.flow, slot);
        }
    }

    /// Clients that wait for memory for their first request, in their order, as long as there is some.
    fn wake_waiting(&mut self) {
        while let Some(&slot) = self.waiting.front() {
            self.waiting.pop_front();
            let Some(attached) = self.clients.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut attached.client.waiting) {
                continue;
            }
            self.pool.tight = false;
            attached.client.ready = true;
            self.serve(slot);
            if self.clients.get(slot).is_some_and(|c| c.client.waiting) {
                // Still not enough: it stays the first.
                self.waiting.pop_back();
                self.waiting.push_front(slot);
                break;
            }
        }
        self.pool.tight = !self.waiting.is_empty();
    }
}
