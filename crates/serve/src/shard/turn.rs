//! The turn of a shard: what completed, what to take, what to do, what to answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_uring::{Completion, Ring};

use super::client::State;
use super::drive::Notice;
use super::front::Attached;
use super::front::{Look, Stop, Then};
use super::leave::Drained;
use super::token::{self, Token};
use super::{Mail, Shard};
use crate::clock::until;

/// Number of completions that are looked at in one turn; the rest wait for the next. The first of many clients that are ready at once has its
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
                    error = weir_config::os_error::message(&error),
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
        let timeout = match self.timeout() {
            Some(Duration::ZERO) => Some(Duration::ZERO),
            // A client that was found to have something is ready now.
            _ if self.rest() => Some(Duration::ZERO),
            timeout => timeout,
        };
        self.write_records();
        self.ring.submit_and_wait(timeout)?;
        self.now = self.clock.now();
        for drive in &mut self.drives {
            drive.lapse(self.now);
        }
        self.note_lateness();
        for _ in 0..COMPLETIONS {
            let Some(completion) = self.ring.pop() else {
                break;
            };
            self.completed(completion);
        }
        if self.ring.take_woken() {
            self.woken();
        }
        self.look();
        self.work();
        self.evict_idle();
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
        if !self.ready.is_empty() || self.drives.iter().any(|drive| drive.is_due(self.now)) {
            return Some(Duration::ZERO);
        }
        let drives = self.drives.iter().filter_map(super::Drive::next_due);
        let lapses = self.drives.iter().map(|drive| drive.lapses_at);
        let lapses = lapses.filter(|at| *at < weir_core::Instant::MAX);
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
                self.mark_ready(slot);
                any = true;
            }
        }
        any
    }

    /// Hands over what was recorded.
    fn write_records(&mut self) {
        for drive in &mut self.drives {
            let recorder = &mut drive.layer.observer_mut().recorder;
            if let (Some(tape), Some(recorder)) = (&mut drive.tape, recorder) {
                tape.take(recorder, self.now);
            }
        }
    }

    /// Hands over the rest: nothing more happens.
    fn end_records(&mut self) {
        for drive in &mut self.drives {
            let recorder = &mut drive.layer.observer_mut().recorder;
            if let (Some(tape), Some(recorder)) = (&mut drive.tape, recorder) {
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
                Mail::Change(change, result) => self.begin_change(*change, result),
                Mail::Decide {
                    drive,
                    in_force,
                    done,
                } => {
                    self.decide(drive, in_force);
                    // The thread that asked waits for this.
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
            Token::Front { slot, op } => self.front_completed(slot, op, completion),
            Token::Backend { drive, space, op } => {
                self.drives[drive].with_backend(&mut self.ring, self.now, space, |backend, cx| {
                    backend.completed(op, completion, cx);
                });
            }
        }
    }

    /// An operation of a client's front end has ended.
    fn front_completed(&mut self, slot: u32, op: u32, completion: Completion) {
        let progress = self.with_front(slot, |front, cx| front.completed(op, completion, cx));
        self.clients[slot].client.note_activity(self.now);
        self.left(slot, progress.left);
        match progress.then {
            Then::Take if self.clients[slot].client.state != State::Gone => {
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

    /// Takes requests, gives them to the core, carries out what it decides, until there is nothing left to do now.
    pub(super) fn work(&mut self) {
        for drive in &mut self.drives {
            drive.settle(&mut self.ring, self.now);
        }
        loop {
            self.wake_waiting();
            while let Some(slot) = self.ready.pop_front() {
                self.serve(slot);
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
        if !drive.is_due(self.now) {
            return;
        }
        let mut notices = std::mem::take(&mut self.notices);
        drive.turn(&mut self.ring, self.now, &mut notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::Done(done) => self.done(number, &done),
                Notice::Pause(stream) => {
                    if let Some(slot) = self.drives[number].client(stream) {
                        self.clients[slot].client.paused = true;
                    }
                }
                Notice::Resume(stream) => {
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
        self.submit(slot);
        if stop == Stop::Blocked
            && let Some(attached) = self.clients.get_mut(slot)
        {
            attached.client.blocked = true;
        }
        self.close_if_done(slot);
    }

    /// Puts a client in the list of those to take requests from.
    pub(super) fn mark_ready(&mut self, slot: u32) {
        let client = &mut self.clients[slot].client;
        client.blocked = false;
        if !client.ready {
            client.ready = true;
            self.ready.push_back(slot);
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
