//! Streams come, stop reading their answers, give requests up, and go.

use super::{At, Layer, OpenError};
use crate::mutant;
use crate::stream::{State, Stream};
use crate::{Cookie, Instant, Outcome, StreamId, StreamSpec};

impl Layer {
    /// A client came.
    ///
    /// # Errors
    /// There are too many, or its group is not a leaf of the tree.
    pub fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let now = self.advance(now);
        self.run_timers(now);
        let group = self
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
        stream.set_way(self.limits.apply_to(spec.group), self.looks_at_all);
        let index = self.table.streams.insert(stream).ok_or(OpenError::Full)?;
        self.table
            .groups
            .get_mut(spec.group)
            .expect("checked above")
            .streams += 1;
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.open(index, &self.table);
        }
        Ok(self.table.stream_id(index))
    }

    /// A client left. Its requests that are not wholly in the drive end as cancelled; the others end when the drive answers.
    /// Nothing more can be submitted under this name. Unknown names are ignored.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.known(stream) else {
            return;
        };
        let stream = &mut self.table.streams[index];
        self.watched += u32::from(stream.state != State::Closing);
        stream.set_state(State::Closing);
        self.for_each_of(index, |layer, request| layer.give_up(now, request));
        self.close_if_drained(now, index);
    }

    /// While `held`, nothing more of the stream goes to the drive: its client is not reading its answers. What it submits is
    /// accepted and waits; what is in the drive goes on. Unknown names are ignored.
    pub fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.known(stream) else {
            return;
        };
        let state = self.table.streams[index].state;
        if state == State::Closing || (state == State::Held) == held {
            return;
        }
        self.table.streams[index].set_state(if held { State::Held } else { State::Open });
        self.for_each_of(index, |layer, request| {
            if held {
                layer.withdraw(now, request);
            } else if layer.table.requests[request].at == At::Held {
                layer.after_limits(now, request);
            }
        });
        self.pass_latency(now);
    }

    /// The client gave a request up. It ends as cancelled if nothing of it has reached the drive and as the drive says otherwise.
    /// Returns false if there is no such live request.
    pub fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) -> bool {
        let now = self.advance(now);
        self.run_timers(now);
        let Some(index) = self.known(stream) else {
            return false;
        };
        let called = self
            .table
            .of_stream(index)
            .filter(|(_, live)| live.request.cookie == cookie && live.at != At::Finished);
        let Some((request, _)) = called.min_by_key(|(_, live)| live.number) else {
            return false;
        };
        if mutant::is(mutant::TAG_FREED_ON_CANCEL) && self.table.requests[request].at == At::Drive {
            let tag = self
                .table
                .pieces
                .iter()
                .find(|(_, p)| p.request == request)
                .map(|(t, _)| t);
            if let Some(tag) = tag {
                self.table.pieces.remove(tag);
                self.table.requests[request].pieces -= 1;
                self.finish_if_over(now, request);
                return true;
            }
        }
        self.give_up(now, request);
        true
    }

    /// Does something to each live request of a stream, the oldest first.
    fn for_each_of(&mut self, stream: u32, mut act: impl FnMut(&mut Self, u32)) {
        let mut listed = core::mem::take(&mut self.listed);
        listed.extend(self.table.of_stream(stream).map(|(request, _)| request));
        listed.sort_unstable_by_key(|&request| self.table.requests[request].number);
        for &request in &listed {
            act(self, request);
        }
        listed.clear();
        self.listed = listed;
    }

    /// The slot of a stream that is open, held or draining.
    pub(super) fn known(&self, stream: StreamId) -> Option<u32> {
        self.table
            .streams
            .get_named(stream.index, stream.generation)
            .map(|_| stream.index)
    }

    /// Frees the slot of a closing stream that has no more requests.
    pub(super) fn close_if_drained(&mut self, now: Instant, index: u32) {
        let stream = &self.table.streams[index];
        if stream.state != State::Closing || stream.live > 0 {
            return;
        }
        let group = stream.spec.group;
        self.watched -= 1 + u32::from(stream.paused);
        self.forget_notices(index);
        if let Some(elevator) = self.elevator.other_mut() {
            elevator.close(now, index, &self.table);
        }
        self.table.streams.remove(index);
        self.table
            .groups
            .get_mut(group)
            .expect("a stream's group exists")
            .streams -= 1;
        // Had it been told that there is room, the next in line takes its place.
        self.resume_starved();
    }

    /// Takes a request out of whatever stage it waits in, to end or to be held.
    fn take_out(&mut self, now: Instant, request: u32) {
        let live = self.table.requests[request];
        match live.at {
            At::Limit => {
                self.limits.remove(request, live.group, &live.request);
                self.left_limits(&live.request);
            }
            At::Latency => {
                self.latency.remove(now, request);
                self.pass_latency(now);
            }
            At::Front => self.front.remove(self.lane(&live.request), request),
            At::Flush => self.flushes.remove(live.request.space, request),
            At::Elevator => self.elevator.remove(now, request, &self.table),
            At::Held | At::Drive | At::Finished => {}
        }
        let live = &mut self.table.requests[request];
        if matches!(live.at, At::Limit | At::Latency | At::Held) && !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        live.since = now;
        if live.tagged && live.at == At::Elevator && live.pieces == 0 {
            live.tagged = false;
            self.untag(request);
            self.fill_front(now);
        }
    }

    /// Ends a request that is not wholly in the drive.
    fn give_up(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        if matches!(live.at, At::Drive | At::Finished) {
            return;
        }
        self.take_out(now, request);
        let live = &mut self.table.requests[request];
        live.at = At::Drive;
        live.fail(Outcome::Cancelled);
        self.finish_if_over(now, request);
    }

    /// Takes a request of a held stream back from the elevator; it need not pass its limits again.
    fn withdraw(&mut self, now: Instant, request: u32) {
        if mutant::is(mutant::HELD_STREAM_DISPATCHED) {
            return;
        }
        if matches!(
            self.table.requests[request].at,
            At::Front | At::Flush | At::Elevator
        ) {
            self.take_out(now, request);
            let live = &mut self.table.requests[request];
            live.at = At::Held;
            if live.pieces == 0 {
                self.latency.leave(now, request, &live.request, None);
            }
        }
    }
}
