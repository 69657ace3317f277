//! The calls that concern a stream: opening, closing and holding it, and cancelling its requests.

use super::{Layer, OpenError};
use crate::stream::{State, Stream};
use crate::table::Stage;
use crate::{Cookie, Instant, Outcome, StreamId, StreamSpec};

impl Layer {
    /// Opens a stream for a client.
    ///
    /// # Errors
    /// Fails if there are too many streams, if the group does not exist, or if it has child groups.
    pub fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let now = self.advance(now);
        self.run_timers(now);
        let group = self
            .cx
            .table
            .groups
            .get(spec.group)
            .ok_or(OpenError::NoSuchGroup(spec.group))?;
        if group.children > 0 {
            return Err(OpenError::NotALeaf(spec.group));
        }
        let mut stream = Stream {
            spec,
            state: State::Open,
            ..Stream::EMPTY
        };
        // The path of the stream is chosen now and updated when limits or listeners change.
        stream.set_path(
            self.chain_for_all || self.chain.covers(spec.group),
            self.fast_path_off,
        );
        let index = self
            .cx
            .table
            .streams
            .insert(stream)
            .ok_or(OpenError::Full)?;
        self.cx
            .table
            .groups
            .get_mut(spec.group)
            .expect("checked above")
            .streams += 1;
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.open(&mut self.cx, index);
        }
        #[cfg(debug_assertions)]
        self.check();
        Ok(self.cx.table.stream_id(index))
    }

    /// Closes a stream. Its requests that are not completely in the drive end as cancelled, and the
    /// others end when the drive completes them. No more requests can be submitted with this
    /// identifier. Unknown identifiers are ignored.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.find_stream(stream) else {
            return;
        };
        let stream = &mut self.cx.table.streams[index];
        // A second close of the same stream must not be counted again.
        self.paused_or_closing += u32::from(stream.state != State::Closing);
        stream.set_state(State::Closing);
        self.for_each_of(index, |layer, request| layer.give_up(now, request));
        self.close_if_drained(index);
        #[cfg(debug_assertions)]
        self.check();
    }

    /// Puts a stream on hold, or ends the hold, for example because its client does not read its
    /// replies. During a hold, nothing of the stream is sent to the drive. Its new requests are
    /// accepted and wait, and its pieces in the drive continue. Unknown identifiers are ignored.
    pub fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.find_stream(stream) else {
            return;
        };
        let state = self.cx.table.streams[index].state;
        // A closing stream sends nothing more, and a repeated hold changes nothing.
        if state == State::Closing || (state == State::Held) == held {
            return;
        }
        self.cx.table.streams[index].set_state(if held { State::Held } else { State::Open });
        self.for_each_of(index, |layer, request| {
            if held {
                layer.withdraw(now, request);
                layer.hold_in_space(now, request);
            } else if layer.cx.table.requests[request].stage == Stage::OnHold {
                layer.leave_hold(now, request);
            }
        });
        self.release(now);
        if self.merging {
            // Requests that were merged on their way back freed their tags.
            self.fill_fronts();
        }
        #[cfg(debug_assertions)]
        self.check();
    }

    /// Moves on a request whose stream is no longer on hold.
    fn leave_hold(&mut self, now: Instant, request: u32) {
        if self.must_wait_for_space(request) {
            self.wait_for_space(now, request);
        } else if self.cx.table.requests[request].stalled == 0 {
            self.climb(now, request, self.chain.gate());
        }
    }

    /// Cancels a request. It ends as cancelled if it is not completely in the drive, and otherwise
    /// with the drive's result. Returns false if there is no such live request.
    pub fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) -> bool {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.find_stream(stream) else {
            return false;
        };
        // Cookies may repeat, so the oldest request with this cookie is meant.
        let called = self
            .cx
            .table
            .of_stream(index)
            .filter(|(_, live)| live.request.cookie == cookie && live.stage != Stage::Finished);
        let Some((request, _)) = called.min_by_key(|(_, live)| live.number) else {
            return false;
        };
        self.give_up(now, request);
        #[cfg(debug_assertions)]
        self.check();
        true
    }

    /// Calls `act` for each live request of a stream, oldest first.
    fn for_each_of(&mut self, stream: u32, mut act: impl FnMut(&mut Self, u32)) {
        let mut listed = core::mem::take(&mut self.listed);
        listed.extend(self.cx.table.of_stream(stream).map(|(request, _)| request));
        // Slots are reused in any order, so the numbers of acceptance give the order.
        listed.sort_unstable_by_key(|&request| self.cx.table.requests[request].number);
        for &request in &listed {
            act(self, request);
        }
        listed.clear();
        self.listed = listed;
    }

    /// Returns the slot of a stream that is open, on hold or closing.
    pub(super) fn find_stream(&self, stream: StreamId) -> Option<u32> {
        self.cx
            .table
            .streams
            .get_named(stream.index, stream.generation)
            .map(|_| stream.index)
    }

    /// Frees the slot of a closing stream without live requests.
    pub(super) fn close_if_drained(&mut self, index: u32) {
        let stream = &self.cx.table.streams[index];
        if stream.state != State::Closing || stream.live > 0 {
            return;
        }
        debug_assert!(stream.throttled == 0, "what is held is live");
        let group = stream.spec.group;
        self.paused_or_closing -= 1 + u32::from(stream.paused);
        // The slot will be reused by another stream, which must not receive these notices.
        self.forget_notices(index);
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.close(&mut self.cx, index);
        }
        self.cx.table.streams.remove(index);
        self.cx
            .table
            .groups
            .get_mut(group)
            .expect("a stream's group exists")
            .streams -= 1;
        // If the stream had been told that there is room, the next waiting stream is told now
        // instead.
        self.resume_starved();
    }

    /// Removes a request from the stage in which it waits, because it ends or is put on hold.
    fn take_out(&mut self, now: Instant, request: u32) {
        let live = self.cx.table.requests[request];
        match live.stage {
            Stage::Controller(holder) => {
                self.chain.remove(&mut self.cx, request, holder);
                self.leave_controller(request, holder);
                self.release(now);
            }
            Stage::Front => {
                let (queue, lane) = (self.cx.table.queue_of(request), self.lane(&live.request));
                self.front.remove(queue, lane, request);
            }
            Stage::Flush => {
                let queue = self.cx.table.queue_of(request);
                self.flushes.remove(live.request.space, queue, request);
            }
            Stage::Elevator => {
                self.elevator.remove(&mut self.cx, request);
                if self.merging {
                    self.cx.table.merges.remove_end(request);
                }
            }
            Stage::OnHold if self.stalls.any() => self.leave_space(request),
            Stage::OnHold
            | Stage::Plug
            | Stage::Merged
            | Stage::Flushing
            | Stage::Drive
            | Stage::Finished => {}
        }
        let live = &mut self.cx.table.requests[request];
        if matches!(live.stage, Stage::Controller(_) | Stage::OnHold) && !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        live.since = now;
        // A request with pieces in the drive keeps its tag until they complete.
        if live.tagged && live.stage == Stage::Elevator && live.pieces == 0 {
            live.tagged = false;
            self.untag(request);
            self.fill_front(self.cx.table.queue_of(request));
        }
    }

    /// Ends a request that is not completely in the drive.
    fn give_up(&mut self, now: Instant, request: u32) {
        self.dissolve_command(now, request);
        let live = &self.cx.table.requests[request];
        if matches!(
            live.stage,
            Stage::Flushing | Stage::Drive | Stage::Merged | Stage::Finished
        ) {
            return;
        }
        self.take_out(now, request);
        let live = &mut self.cx.table.requests[request];
        live.stage = Stage::Drive;
        live.fail(Outcome::Cancelled);
        self.finish_if_over(now, request);
    }

    /// Removes a request of a stream on hold, or of a stalled space, from the scheduler. It does
    /// not have to pass its limits again afterwards.
    pub(super) fn withdraw(&mut self, now: Instant, request: u32) {
        self.dissolve_command(now, request);
        if matches!(
            self.cx.table.requests[request].stage,
            Stage::Front | Stage::Flush | Stage::Elevator
        ) {
            self.take_out(now, request);
            let live = &mut self.cx.table.requests[request];
            live.stage = Stage::OnHold;
            if live.pieces == 0 {
                self.chain.ended(&mut self.cx, request, None);
            }
        }
    }
}
