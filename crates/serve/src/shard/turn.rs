//! The turn of a shard, from the wait for events to the answers.
//!
//! A turn waits on the ring, processes completions and mail, takes requests in the order of the
//! schedule, lets the drives work, and sends answers. Its length is bounded, so that no client
//! waits long for the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_core::{Instant, Output, Span};
use weir_uring::{Ring, RingCompletion};

use super::client::{ArrivalTime, ClientState};
use super::front::Attached;
use super::front::{NextStep, PollResult, TakeStop};
use super::leave::DrainState;
use super::schedule::{self, ProcessorCost};
use super::token::{self, Token};
use super::{Mail, Shard};
use crate::clock::until;

/// The number of backends' operations that one turn processes. The rest waits for the next turn. If
/// many clients become ready at once, the first of them thus gets its answers, and can continue,
/// while the last ones still wait.
const OPERATIONS: usize = 16;
/// The number of visits to clients in one turn, bounded for the same reason. With 8 instead of 16,
/// sixteen volumes at a queue depth of 2 needed twice as many system calls and 7 % more processor
/// time per request, and were 8 % slower.
const VISITS: usize = 16;
/// The longest time that a turn spends on requests while others wait, whatever their estimated
/// cost. It bounds the turn on a slow machine, or if a debugger or hypervisor stops the thread.
const LONGEST: Span = Span::from_micros(250);
/// The estimated cost above which a turn may have taken so long that requests arrived during it.
const LONG: ProcessorCost = 20_000;
/// The length of a wait above which the thread is assumed to have slept.
const NAP: Span = Span::from_micros(5);
/// The number of messages that one turn reads.
const MAILS: usize = 16;

/// The completion of a backend's operation, which waits to be processed.
#[derive(Debug)]
pub(super) struct ReturnedOperation {
    drive: usize,
    space: u32,
    op: u32,
    completion: RingCompletion,
}

/// The beginnings of the last turns, and their measured cost.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) number: u64,
    /// The beginnings of this turn and of the two before it, the oldest first. If the thread slept
    /// before this turn, all three are the beginning of this turn, because nothing can have arrived
    /// earlier.
    begun: [Instant; 3],
    /// The total cost of the schedule at the beginning of this turn.
    spent: ProcessorCost,
    /// The measured processor time for 256 units of estimated cost, in nanoseconds.
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

    /// Begins a turn. `spent` is the total cost of all turns before it.
    fn begin(&mut self, now: Instant, slept: bool, spent: ProcessorCost) {
        self.number += 1;
        // The difference is the estimated cost of the turn that ends here.
        let cost = std::mem::replace(&mut self.spent, spent).abs_diff(spent);
        let took = now.since(self.begun[2]).as_nanos();
        if slept {
            // The time includes a sleep, so it does not show the cost of a turn.
            self.begun = [now; 3];
            return;
        }
        self.begun = [self.begun[1], self.begun[2], now];
        if cost >= LONG {
            // The thread may have lost the processor during the turn, in which case the duration
            // does not show the cost. The measured scale is therefore limited to a factor of 2, and
            // has a weight of 1/16.
            let seen = (took * 256 / cost).clamp(self.scale / 2, self.scale * 2);
            self.scale = (self.scale * 15 + seen).div_ceil(16).clamp(16, 1 << 16);
        }
    }

    /// Returns the arrival time of something that this turn noticed first.
    fn arrival_time(&self) -> ArrivalTime {
        let [earliest, before, now] = self.begun;
        ArrivalTime {
            earliest,
            // The previous turn collected events when it began, so the event came later than
            // that. The middle is the expected value.
            likely: before + now.since(before) / 2,
        }
    }

    /// Returns the measured processor time for an estimated cost, in nanoseconds.
    pub(super) fn time(&self, cost: ProcessorCost) -> u64 {
        cost.saturating_mul(self.scale) / 256
    }
}

impl Shard {
    /// Runs until the shard has ended. Returns true if everything is durable, and false if the
    /// shard failed.
    pub(super) fn run(mut self) -> bool {
        // A panic cannot lose data that was acknowledged as durable, because such data is never
        // only in this thread's memory. It ends this shard's connections, and
        // `LiveServer::shutdown` reports it.
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

    /// Repeats turns until the drain is complete or given up. Returns true if everything is
    /// durable.
    fn turns(&mut self) -> std::io::Result<bool> {
        loop {
            match self.turn()? {
                DrainState::No => {}
                DrainState::Yes => return Ok(true),
                DrainState::GivenUp => {
                    tracing::error!(
                        "the storage did not respond before the server's deadline; data that was not flushed may be lost"
                    );
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for events and processes them. Returns the state of the drain, which tells the caller
    /// that the shard can end.
    pub(super) fn turn(&mut self) -> std::io::Result<DrainState> {
        let timeout = match self.timeout() {
            Some(Duration::ZERO) => Some(Duration::ZERO),
            // A shared ring had a request after all, so the client is ready now and the shard must
            // not sleep.
            _ if self.arm_shared_clients() => Some(Duration::ZERO),
            timeout => timeout,
        };
        self.write_records(false);
        self.wait(timeout)?;
        for drive in &mut self.drives {
            // First of all, so that a part of a shared minimum is never in force after its end.
            drive.end_lapsed_parts(self.now);
        }
        self.note_lateness();
        // The schedule must choose among all clients that have requests, so all completions are
        // processed first.
        while let Some(completion) = self.ring.pop() {
            self.on_completion(completion);
        }
        self.take_returned();
        if self.ring.take_woken() || self.has_mail {
            self.process_mail();
        }
        self.poll_shared_clients();
        self.schedule_terms();
        self.serve_clients();
        self.evict_idle();
        self.send_all();
        self.poll_changes();
        self.poll_hand_over();
        if self.is_abandoned {
            self.write_records(true);
            return Ok(DrainState::Yes);
        }
        let drained = self.drained();
        if drained != DrainState::No {
            self.write_records(true);
        }
        Ok(drained)
    }

    /// Waits until an event arrives, or for `timeout`.
    fn wait(&mut self, timeout: Option<Duration>) -> std::io::Result<()> {
        let sleeps = timeout != Some(Duration::ZERO);
        let spent = self.schedule.total();
        let is_long = sleeps && spent - self.turns.spent >= LONG;
        // Reading the clock costs time, so short turns do without it and are assumed to have
        // slept.
        let before = is_long.then(|| self.clock.now());
        self.ring.submit_and_wait(timeout)?;
        self.now = self.clock.now();
        let slept = sleeps && before.is_none_or(|at| self.now.since(at) > NAP);
        self.turns.begin(self.now, slept, spent);
        for drive in &mut self.drives {
            // A shard that did not sleep was busy when the drive returned the pieces, and noticed
            // them late.
            drive.is_timely = slept;
        }
        // The old second must end before anything is counted in the new one.
        if self.second.is_over(self.now) {
            self.end_second();
        }
        Ok(())
    }

    /// Returns the time that the shard can sleep if nothing arrives, or `None` if there is no
    /// limit.
    fn timeout(&self) -> Option<Duration> {
        let is_busy = !self.schedule.is_empty() || !self.returned.is_empty() || self.has_mail;
        if is_busy || self.drives.iter().any(|drive| drive.is_due(self.now)) {
            return Some(Duration::ZERO);
        }
        let drives = self.drives.iter().filter_map(super::ShardDrive::next_due);
        let lapses = self.drives.iter().map(|drive| drive.lapses_at);
        let lapses = lapses.filter(|at| *at < Instant::MAX);
        let drain = self.drain.as_ref().map(super::leave::Drain::deadline);
        let over = self.hand_over.as_ref();
        let over = over.and_then(|over| over.next_look(self.now));
        let changes = self.changes.iter().map(|change| change.deadline);
        let records = self.drives.iter().filter_map(|drive| {
            let recorder = drive.layer.observer().recorder.as_ref()?;
            let tape = drive.tape.as_ref()?;
            tape.due(recorder)
        });
        let shared = self.shared.iter();
        let shared = shared.filter_map(|slot| self.clients[*slot].front.poll_deadline());
        let next = drives
            .chain(shared)
            .chain(lapses)
            .chain(drain)
            .chain(over)
            .chain(changes)
            .chain(records)
            .chain(self.evict_at)
            .chain(self.schedule.release_at())
            .chain(self.evicted.front().map(|(at, _)| *at))
            .min()?;
        Some(until(self.now, next))
    }

    /// Reports to the journals how long this thread had no processor.
    fn note_lateness(&mut self) {
        if let Some(total) = self.waited.read_if_due(self.now) {
            for drive in &mut self.drives {
                drive.layer.observer_mut().journal.waited(self.now, total);
            }
        }
    }

    /// Polls the rings of clients that share memory with the shard.
    fn poll_shared_clients(&mut self) {
        for n in 0..self.shared.len() {
            let slot = self.shared[n];
            let Attached { client, front } = &mut self.clients[slot];
            let PollResult { take, send } = front.poll_shared(self.now);
            // A client that stopped at a bound is made ready by the event that frees the resource.
            if take && client.can_take() && !client.ready {
                client
                    .arrived
                    .get_or_insert_with(|| self.turns.arrival_time());
                self.mark_ready(slot);
            }
            if send {
                self.mark_for_send(slot);
            }
        }
    }

    /// Asks clients that share memory with the shard to wake it, because it is about to sleep.
    /// Returns true if a client has requests after all.
    fn arm_shared_clients(&mut self) -> bool {
        // If a completion is ready, the shard will not sleep, so no client has to be asked.
        if self.shared.is_empty() || self.ring.is_ready() {
            return false;
        }
        let mut any = false;
        for n in 0..self.shared.len() {
            let slot = self.shared[n];
            let Attached { client, front } = &mut self.clients[slot];
            if client.can_take() && !client.ready && front.arm_notifications() {
                // The request arrived since the last poll of the ring, a moment ago.
                client
                    .arrived
                    .get_or_insert_with(|| ArrivalTime::at(self.now));
                self.mark_ready(slot);
                any = true;
            }
        }
        any
    }

    /// Passes recorded calls to the tapes. With `end`, nothing more will happen, and the rest is
    /// passed on too.
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

    /// Processes mail, and lets backends process messages of other threads.
    fn process_mail(&mut self) {
        self.has_mail = true;
        for _ in 0..MAILS {
            let Ok(mail) = self.mail.try_recv() else {
                self.has_mail = false;
                break;
            };
            match mail {
                Mail::Arrival(arrival) => self.arrive(*arrival),
                Mail::Evict(connection, line) => self.evict(connection, line),
                Mail::HandOver(within, done) => self.begin_hand_over(within, done),
                Mail::Storage(wanted) => {
                    // If the receiver has given up, it does not need them.
                    let _ = wanted.send(self.storage());
                }
                Mail::Inherit(volumes, done) => {
                    // If the receiver has given up, the server does not start.
                    let _ = done.send(self.inherit(&volumes));
                }
                Mail::Resume => self.resume(),
                Mail::Abandon => self.is_abandoned = true,
                Mail::Drain(within) => self.begin_drain(within),
                Mail::Snapshot(detail, wanted) => {
                    let drives = self.drives.iter_mut();
                    // The receiver may have timed out.
                    let _ = wanted.send(drives.map(|d| d.snapshot(self.now, detail)).collect());
                }
                Mail::Explain { volume, wanted } => {
                    let mut drives = self.drives.iter_mut();
                    // The receiver may have timed out.
                    let _ = wanted.send(drives.find_map(|d| d.view(self.now, &volume)));
                }
                Mail::Hold { volume, held, used } => {
                    let until = self.clock.at(held.until);
                    let mut drives = self.drives.iter_mut();
                    let held = (&volume[..], &held, until);
                    // The receiver may have timed out.
                    let _ = used.send(drives.find_map(|d| d.set_held_part(self.now, held)));
                }
                Mail::Growable { volumes, wanted } => {
                    // The send cannot fail, because the sender of the mail waits for it.
                    let _ = wanted.send(self.growable(&volumes));
                }
                Mail::Change(change, result) => self.begin_change(*change, result),
                Mail::Decide {
                    drive,
                    in_force,
                    done,
                } => {
                    let untold = self.apply_or_discard(drive, in_force);
                    // The send cannot fail, because the sender of the mail waits for it.
                    let _ = done.send(untold);
                }
            }
        }
        for drive in &mut self.drives {
            drive.woken(&mut self.ring, self.now);
        }
    }

    /// Passes a completion to its owner. Those of backends wait in a queue.
    fn on_completion(&mut self, completion: RingCompletion) {
        match token::parse(completion.user) {
            Token::Front { slot, op } => self.on_front_completion(slot, op, completion),
            Token::Backend { drive, space, op } => self.returned.push_back(ReturnedOperation {
                drive,
                space,
                op,
                completion,
            }),
        }
    }

    /// Lets the backends process the completions of their operations.
    fn take_returned(&mut self) {
        for _ in 0..OPERATIONS {
            let Some(returned) = self.returned.pop_front() else {
                return;
            };
            let ReturnedOperation {
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

    /// Processes the completion of an operation of a client's front end.
    fn on_front_completion(&mut self, slot: u32, op: u32, completion: RingCompletion) {
        // A quiet send was noted when it began, and may have ended long ago.
        let is_late = completion.quiet;
        let progress = self.with_front(slot, |front, cx| front.completed(op, completion, cx));
        if !is_late {
            self.clients[slot].client.note_activity(self.now);
        }
        // The resources of answers are released first, because the client may take requests with
        // them below.
        self.on_answers_left(slot, progress.left);
        match progress.then {
            // A client that is gone has operations that still complete, but no requests are taken
            // from it.
            NextStep::Take if self.clients[slot].client.state != ClientState::Gone => {
                self.note_arrival(slot);
                return self.mark_ready(slot);
            }
            NextStep::Take => {}
            NextStep::Send => {
                self.unhold(slot);
                self.mark_for_send(slot);
            }
            NextStep::Rest => self.unhold(slot),
            NextStep::Gone => return self.disconnect(slot, None),
        }
        self.close_if_done(slot);
    }

    /// Records the arrival of bytes from a client.
    fn note_arrival(&mut self, slot: u32) {
        let now = self.turns.arrival_time();
        let client = &mut self.clients[slot].client;
        // If the rest of a request arrived in the turn after its first part, it was in the socket
        // as soon as it was asked for. The client sent both together, so the request counts from
        // the first part.
        let partial = client.partial.take();
        let partial =
            partial.filter(|(_, turn)| turn + 1 == self.turns.number && now.earliest < self.now);
        client
            .arrived
            .get_or_insert_with(|| partial.map_or(now, |(arrived, _)| arrived));
    }

    /// Takes requests in the order of the schedule, submits them to the core and carries out its
    /// decisions, until nothing is left to do or the turn has lasted long enough.
    pub(super) fn serve_clients(&mut self) {
        let (begun, mut visits) = (self.schedule.total(), 0);
        self.schedule.release(self.now);
        for drive in &mut self.drives {
            // Completions come before new requests, so that the core decides with the present state
            // of the drive.
            drive.settle(&mut self.ring, self.now);
        }
        loop {
            self.wake_waiting();
            let mut goes_on = true;
            while goes_on && let Some(slot) = self.schedule.pop(self.now) {
                self.serve(slot);
                visits += 1;
                goes_on = visits < VISITS && self.schedule.total() - begun < schedule::TURN;
                // Reading the clock costs time, so it is read only if another client would wait.
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

    /// Lets a drive work, and delivers the core's notices to clients.
    fn turn_drive(&mut self, number: usize) {
        let drive = &mut self.drives[number];
        if !drive.is_due(self.now) {
            return;
        }
        let mut notices = std::mem::take(&mut self.notices);
        drive.turn(&mut self.ring, self.now, &mut notices);
        for notice in notices.drain(..) {
            match notice {
                // The drive has passed the piece to its backend already.
                Output::Dispatch(_) => {}
                Output::Done(done) => self.on_done(number, &done),
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

    /// Takes a client's requests as far as its bounds allow, and submits them to the core.
    fn serve(&mut self, slot: u32) {
        let Some(attached) = self.clients.get_mut(slot) else {
            return;
        };
        let client = &mut attached.client;
        client.ready = false;
        if client.state == ClientState::Detached {
            return;
        }
        if !client.queue.is_empty() && !client.paused {
            self.resubmit(slot);
        }
        let stop = self.take(slot);
        // The batch contains the requests that this visit has taken.
        let took = !self.batch.is_empty();
        self.submit(slot);
        self.note_stop(slot, &stop, took);
        self.close_if_done(slot);
    }

    /// Records why a visit to a client has ended.
    fn note_stop(&mut self, slot: u32, stop: &TakeStop, took: bool) {
        let Some(attached) = self.clients.get_mut(slot) else {
            return;
        };
        let client = &mut attached.client;
        match stop {
            TakeStop::Empty => {
                let arrived = client.arrived.take().filter(|_| !took);
                client.partial = arrived.map(|arrived| (arrived, self.turns.number));
            }
            TakeStop::Spent => {
                // Requests that are left over count from now, because the turn has accounted for
                // their time until now.
                if took {
                    client.arrived = Some(ArrivalTime::at(self.now));
                }
                self.mark_ready(slot);
            }
            TakeStop::Blocked => {
                client.blocked = true;
                // Memory is held by other clients, so the client's wait for memory counts for its
                // promises. All other bounds are of the client's own making.
                if took || !client.waiting {
                    client.arrived = client.waiting.then(|| ArrivalTime::at(self.now));
                }
            }
            TakeStop::Ended | TakeStop::Broken(_) => client.arrived = None,
        }
    }

    /// Adds a client to the list of those with requests to take.
    pub(super) fn mark_ready(&mut self, slot: u32) {
        let client = &mut self.clients[slot].client;
        client.blocked = false;
        if !client.ready {
            client.ready = true;
            self.schedule.push(client.flow, slot);
        }
    }

    /// Serves clients that wait for memory for their first request, in their order, as long as
    /// there is memory.
    fn wake_waiting(&mut self) {
        while let Some(&slot) = self.waiting.front() {
            self.waiting.pop_front();
            let Some(attached) = self.clients.get_mut(slot) else {
                continue;
            };
            // The entry is outdated, because the slot belongs to another client by now.
            if !std::mem::take(&mut attached.client.waiting) {
                continue;
            }
            // The waiting client itself may use the memory that others have left for it.
            self.pool.tight = false;
            attached.client.ready = true;
            self.serve(slot);
            if self.clients.get(slot).is_some_and(|c| c.client.waiting) {
                // The memory still does not suffice, and the client stays the first.
                self.waiting.pop_back();
                self.waiting.push_front(slot);
                break;
            }
        }
        self.pool.tight = !self.waiting.is_empty();
    }
}
