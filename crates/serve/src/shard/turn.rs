//! The turn of a shard: what completed, what to read, what to do, what to answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_core::{Done, Op, Outcome, Output as Told};
use weir_uring::{Completion, Fill, MAX_PIECES, Reason, Ring, Segment};
use weir_wire::nbd::{Command, Errno};

use super::connection::{INPUT, INPUT_LARGE, Load, SPARSE, State, Stop, Target};
use super::leave::Drained;
use super::token::{self, Token};
use super::{Mail, Shard};
use crate::clock::until;

/// So many completions are looked at in one turn; the rest in the next. The first of many clients that are ready at once has its
/// answers, and may go on, while the last are still waited for.
const COMPLETIONS: usize = 16;

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
                    error = crate::log::said(&error),
                    "the ring of a shard failed: the shard ends"
                );
                false
            }
            Err(_) => {
                tracing::error!("a fault in a shard: the shard ends, its connections are closed");
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
                        "the storage did not answer before the server's deadline: what was not flushed may be lost"
                    );
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for something to do and does it; whether the shard may end then.
    pub(super) fn turn(&mut self) -> std::io::Result<Drained> {
        let timeout = self.timeout();
        self.write_records();
        self.ring.submit_and_wait(timeout)?;
        self.now = self.clock.now();
        for _ in 0..COMPLETIONS {
            let Some(completion) = self.ring.pop() else {
                break;
            };
            self.completed(completion);
        }
        if self.ring.take_woken() {
            self.woken();
        }
        self.work();
        self.press();
        self.send_all();
        self.change();
        let drained = self.drained();
        if drained != Drained::No {
            self.end_records();
        }
        Ok(drained)
    }

    /// How long there is nothing to do if nothing arrives.
    fn timeout(&self) -> Option<Duration> {
        if self.drives.iter().any(|drive| drive.is_due(self.now)) {
            return Some(Duration::ZERO);
        }
        let drives = self.drives.iter().filter_map(super::Drive::next_due);
        let drain = self.drain.as_ref().map(super::leave::Drain::deadline);
        let changes = self.changes.iter().map(|change| change.deadline);
        let records = self.drives.iter().filter_map(|drive| {
            let (tape, recorder) = (drive.tape.as_ref()?, drive.layer.observer().as_ref()?);
            tape.due(recorder)
        });
        let next = drives
            .chain(drain)
            .chain(changes)
            .chain(records)
            .chain(self.pressed)
            .min()?;
        Some(until(self.now, next))
    }

    /// Hands over what was recorded.
    fn write_records(&mut self) {
        for drive in &mut self.drives {
            if let (Some(tape), Some(recorder)) = (&mut drive.tape, drive.layer.observer_mut()) {
                tape.take(recorder, self.now);
            }
        }
    }

    /// Hands over the rest: nothing more happens.
    fn end_records(&mut self) {
        for drive in &mut self.drives {
            if let (Some(tape), Some(recorder)) = (&mut drive.tape, drive.layer.observer_mut()) {
                tape.end(recorder);
            }
        }
    }

    fn woken(&mut self) {
        while let Ok(mail) = self.mail.try_recv() {
            match mail {
                Mail::Arrival(arrival) => self.arrive(*arrival),
                Mail::Evict(connection) => self.evict(connection),
                Mail::Drain(within) => self.begin_drain(within),
                Mail::Snapshot(wanted) => {
                    let drives = self.drives.iter_mut();
                    // Whoever asked may have lost patience.
                    let _ = wanted.send(drives.map(|d| d.snapshot(self.now)).collect());
                }
                Mail::Change(change, result) => self.begin_change(*change, result),
                Mail::Decide {
                    drive,
                    in_force,
                    done,
                } => {
                    self.decide(drive, in_force);
                    // Whoever asked waits for this.
                    let _ = done.send(());
                }
            }
        }
        for drive in &mut self.drives {
            drive.woken(&mut self.ring, self.now);
        }
    }

    fn completed(&mut self, completion: Completion) {
        match token::parse(completion.user) {
            Token::Receive(slot) => self.received(slot, completion),
            Token::Send(slot) => self.sent(slot, completion),
            Token::Backend { drive, space, op } => {
                self.drives[drive].with_backend(&mut self.ring, self.now, space, |backend, cx| {
                    backend.completed(op, completion, cx);
                });
            }
        }
    }

    fn received(&mut self, slot: u32, completion: Completion) {
        let connection = &mut self.connections[slot];
        connection.receiving = None;
        let count = completion.result.unwrap_or(0);
        connection.arrived(count, completion.payload.bytes());
        connection.restore(completion.payload, count);
        connection.move_on(self.now);
        if count > 0 && connection.state != State::Gone {
            return self.look_at(slot);
        }
        // The end of the stream, or a broken one: whoever wants its answers first says DISC and waits.
        self.gone(slot, None);
    }

    fn sent(&mut self, slot: u32, completion: Completion) {
        let connection = &mut self.connections[slot];
        connection.move_on(self.now);
        let output = &mut connection.output;
        output.sending = None;
        if let Some(mut segments) = completion.payload.into_segments() {
            segments.clear();
            output.spare = segments;
        }
        let load = std::mem::take(&mut output.load);
        self.release(slot, load);
        if completion.result.is_err() {
            return self.gone(slot, None);
        }
        let connection = &mut self.connections[slot];
        if connection.held && connection.output.unsent() <= self.limits.unsent_per_connection / 2 {
            connection.held = false;
            let drive = &mut self.drives[connection.drive];
            drive.layer.hold(self.now, connection.stream, false);
            drive.suspend(self.now, connection.space, connection.asking, false);
            drive.touched = true;
        }
        if !connection.output.next.is_empty() {
            self.soil(slot);
        }
        self.ended(slot);
    }

    /// Reads requests, gives them to the core, carries out what it decides, until there is nothing left to do now.
    pub(super) fn work(&mut self) {
        for drive in &mut self.drives {
            drive.settle(&mut self.ring, self.now);
        }
        loop {
            self.wake_waiting();
            while let Some(slot) = self.ready.pop_front() {
                self.read(slot);
            }
            for number in 0..self.drives.len() {
                self.turn_drive(number);
            }
            if self.ready.is_empty() {
                return;
            }
        }
    }

    fn turn_drive(&mut self, number: usize) {
        let drive = &mut self.drives[number];
        if drive.is_due(self.now) {
            drive.turn(&mut self.ring, self.now, &mut self.out, &mut self.told);
        }
        let mut told = std::mem::take(&mut self.told);
        for output in told.drain(..) {
            match output {
                Told::Done(done) => self.done(number, &done),
                Told::Pause(stream) => {
                    if let Some(slot) = self.drives[number].connection(stream) {
                        self.connections[slot].paused = true;
                    }
                }
                Told::Resume(stream) => {
                    if let Some(slot) = self.drives[number].connection(stream) {
                        self.connections[slot].paused = false;
                        self.look_at(slot);
                    }
                }
                Told::Dispatch(_) => {}
            }
        }
        self.told = told;
    }

    /// Looks at a connection's input as far as its bounds allow, then receives more if it needs more.
    fn read(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.ready = false;
        if !connection.queue.is_empty() && !connection.paused {
            self.resubmit(slot);
        }
        let stop = self.parse(slot);
        self.submit(slot);
        match stop {
            Stop::Input => self.receive(slot),
            Stop::Blocked => {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.blocked = true;
                }
            }
            Stop::Ended => {}
        }
        self.ended(slot);
    }

    /// Queues the receive for what comes next.
    fn receive(&mut self, slot: u32) {
        self.fit_input(slot);
        let connection = &mut self.connections[slot];
        if connection.receiving.is_some() || connection.state != State::Open {
            return;
        }
        let user = token::receive(slot);
        let queued = match connection.lend() {
            Some(Target::One(buf)) => self.ring.recv(user, &connection.socket, buf, Fill::Any),
            Some(Target::Many(bufs)) => self.ring.recvv(user, &connection.socket, bufs, Fill::Any),
            None => return,
        };
        match queued {
            Ok(id) => connection.receiving = Some(id),
            Err(rejected) => {
                connection.restore(rejected.payload, 0);
                debug_assert!(rejected.reason == Reason::Full);
                self.gone(slot, Some("the ring has no place for it"));
            }
        }
    }

    /// A connection that fills its small buffer with requests gets a large one while it does.
    fn fit_input(&mut self, slot: u32) {
        let connection = &mut self.connections[slot];
        let taken = std::mem::take(&mut connection.taken);
        let large = connection.input.capacity() > INPUT;
        let wanted = match (large, connection.sparse) {
            (false, _) if connection.filled && taken > 1 => INPUT_LARGE,
            (true, SPARSE..) => INPUT,
            _ => return,
        };
        if !connection.input.is_empty() {
            return;
        }
        let large = INPUT_LARGE as u64;
        if wanted == INPUT_LARGE && !self.pool.take(&mut connection.used, large, false) {
            return;
        }
        match self.ring.arena().alloc(wanted) {
            Some(buf) => {
                connection.input.replace(buf);
                if wanted == INPUT {
                    self.pool.give(&mut connection.used, large);
                }
            }
            None if wanted == INPUT_LARGE => {
                self.pool.give(&mut connection.used, large);
            }
            None => {}
        }
    }

    /// A request is over: its answer joins the others of its connection.
    fn done(&mut self, number: usize, done: &Done) {
        let drive = &mut self.drives[number];
        let Some(mut pending) = drive.requests.remove(done.cookie as u32) else {
            return;
        };
        let slot = pending.connection;
        let connection = &mut self.connections[slot];
        let held = connection.held;
        drive.count(self.now, connection.space, done, held, pending.alone);
        connection.live -= 1;
        connection.asking -= u32::from(done.op != Op::Flush);
        let error = match done.outcome {
            Outcome::Ok => None,
            Outcome::Error(errno) => Some(Errno::from_os(i32::from(errno))),
            Outcome::Cancelled => Some(Errno::Shutdown),
        };
        let sends = connection.state != State::Gone;
        let mut keeps = sends && error.is_none() && pending.request.command == Command::Read;
        if keeps {
            connection.output.data(connection.structured, &mut pending);
        } else if let Some(extents) = pending.extents.take().filter(|_| sends) {
            let structured = connection.structured;
            let page = self.ring.arena().alloc(super::memory::PAGE);
            if let Some(page) = page.filter(|_| !extents.extents().is_empty()) {
                connection.output.extents(&pending.request, &extents, page);
                connection.output.next_load.bytes += pending.cost;
                keeps = true;
            } else {
                let error = Some(Errno::NoMem);
                connection
                    .output
                    .answer(structured, &pending.request, error);
            }
        } else if sends {
            connection
                .output
                .answer(connection.structured, &pending.request, error);
        }
        let cost = if keeps { 0 } else { pending.cost };
        drive.recycle(pending);
        self.answered(slot, cost, sends);
    }

    /// The rest of what there is to do when a request was answered, or would have been.
    pub(super) fn answered(&mut self, slot: u32, cost: u64, sends: bool) {
        if sends {
            self.soil(slot);
            self.give(slot, cost);
        } else {
            let load = Load {
                requests: 1,
                bytes: cost,
            };
            self.release(slot, load);
        }
        self.ended(slot);
    }

    /// Remembers that there is something to send, and puts the stream on hold if too much of it is not taken.
    pub(super) fn soil(&mut self, slot: u32) {
        let connection = &mut self.connections[slot];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(slot);
        }
        if !connection.held && connection.output.unsent() > self.limits.unsent_per_connection {
            connection.held = true;
            let drive = &mut self.drives[connection.drive];
            drive.layer.hold(self.now, connection.stream, true);
            drive.suspend(self.now, connection.space, connection.asking, true);
            drive.touched = true;
        }
    }

    /// Takes back what answers that have been sent, or never will be, had reserved.
    pub(super) fn release(&mut self, slot: u32, load: Load) {
        let connection = &mut self.connections[slot];
        connection.outstanding -= load.requests;
        self.give(slot, load.bytes);
        if self.connections[slot].blocked {
            self.look_at(slot);
        }
    }

    pub(super) fn give(&mut self, slot: u32, bytes: u64) {
        if bytes > 0 {
            let connection = &mut self.connections[slot];
            self.pool.give(&mut connection.used, bytes);
            if connection.blocked {
                self.look_at(slot);
            }
        }
    }

    /// Puts a connection in the list of those to read from.
    pub(super) fn look_at(&mut self, slot: u32) {
        let connection = &mut self.connections[slot];
        connection.blocked = false;
        if !connection.ready {
            connection.ready = true;
            self.ready.push_back(slot);
        }
    }

    /// Those who wait for memory for their first request, in their order, as long as there is some.
    fn wake_waiting(&mut self) {
        while let Some(&slot) = self.waiting.front() {
            self.waiting.pop_front();
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut connection.waiting) {
                continue;
            }
            self.pool.tight = false;
            connection.ready = true;
            self.read(slot);
            if self.connections.get(slot).is_some_and(|c| c.waiting) {
                // Still not enough: it stays the first.
                self.waiting.pop_back();
                self.waiting.push_front(slot);
                break;
            }
        }
        self.pool.tight = !self.waiting.is_empty();
    }

    /// Starts the sends of this turn.
    fn send_all(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.dirty = false;
            let output = &mut connection.output;
            if output.sending.is_some() || output.next.is_empty() {
                continue;
            }
            let spare = std::mem::take(&mut output.spare);
            let mut segments = std::mem::replace(&mut output.next, spare);
            if segments.len() > MAX_PIECES {
                let rest: Vec<Segment> = segments.drain(MAX_PIECES..).collect();
                output.next = rest;
            } else {
                // What is counted as given back comes with the last part.
                output.load = std::mem::take(&mut output.next_load);
            }
            let sent = self
                .ring
                .send(token::send(slot), &connection.socket, segments);
            match sent {
                Ok(id) => output.sending = Some(id),
                Err(rejected) => {
                    drop(rejected.payload);
                    let load = std::mem::take(&mut output.load);
                    self.release(slot, load);
                    self.gone(slot, Some("the ring has no place for it"));
                }
            }
        }
    }

    pub(super) fn volume_name(&self, slot: u32) -> String {
        let connection = &self.connections[slot];
        let volume = self.drives[connection.drive].volumes[connection.space as usize].as_ref();
        volume.map_or_else(String::new, |v| v.name.clone())
    }
}
