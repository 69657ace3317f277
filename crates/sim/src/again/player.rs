//! The loop that plays a load again on a layer and a drive model.

use super::Playback;
use super::load::{self, LoadRecord};
use crate::SimError;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;
use weir_core::record::{ObservedLayer, Observer};
use weir_core::{
    Completion, Cookie, Dispatch, Edit, Instant, Layer, Op, OpenError, Output, Refusal, Reject,
    Request, Span, StreamId,
};
use weir_model::drive::DriveModel;

/// The number of turns at one instant after which the run counts as stuck. The same bound applies
/// to a [`SimRun`](crate::SimRun).
const STILL_MAX: u32 = 1_000_000;

/// An event of the load that is due at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PlayerEvent {
    /// Before changes of the same instant, which may remove the client's group.
    Close(u32),
    Change(u32),
    Open(u32),
    Send {
        stream: u32,
        place: u32,
    },
}

/// The state of one client of the load while it is played.
#[derive(Debug, Default)]
struct PlayedClient {
    id: Option<StreamId>,
    /// The requests that follow the answer to each request: the position of the first and their
    /// number.
    next: Vec<(u32, u32)>,
    /// The number of requests that were sent before any answer.
    first: u32,
    /// The requests of the present pass through the record that have no answer yet.
    left: u32,
    paused: bool,
    has_left: bool,
    /// The positions of requests that are due but not accepted by the layer yet.
    waiting: VecDeque<u32>,
}

/// A load while it is played.
pub(super) struct Player<'a> {
    again: &'a Playback,
    load: &'a LoadRecord,
    pub(super) layer: ObservedLayer<&'a mut dyn Observer>,
    drive: Box<dyn DriveModel>,
    bases: Vec<u64>,
    due: BinaryHeap<Reverse<(Instant, PlayerEvent)>>,
    /// Changes and arrivals that wait until requests of clients that have left are out of the
    /// drive, in order. In the record, these requests were completed by then.
    postponed: Vec<PlayerEvent>,
    clients: Vec<PlayedClient>,
    /// The client of each slot of the layer's streams.
    by_slot: Vec<u32>,
    /// The client and position of each request in the layer, by cookie.
    live: Vec<(u32, u32)>,
    free: Vec<u32>,
    wake: Option<Instant>,
    busy: Vec<Completion>,
    now: Instant,
    still: u32,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        again: &'a Playback,
        load: &'a LoadRecord,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, SimError> {
        let layer = Layer::new(again.config.clone()).map_err(SimError::Layer)?;
        let drive = again.drive.build().map_err(SimError::Drive)?;
        let mut player = Self {
            bases: bases(again)?,
            again,
            load,
            layer: ObservedLayer::new(layer, observer),
            drive,
            due: BinaryHeap::new(),
            postponed: Vec::new(),
            clients: load.streams.iter().map(client).collect(),
            by_slot: vec![0; again.config.sizes.streams as usize],
            live: vec![(0, 0); again.config.sizes.requests as usize],
            free: (0..again.config.sizes.requests).rev().collect(),
            wake: None,
            busy: Vec::new(),
            now: Instant::ZERO,
            still: 0,
        };
        for (number, (at, _)) in (0..).zip(&again.edits) {
            player.due.push(Reverse((*at, PlayerEvent::Change(number))));
        }
        for (number, stream) in (0..).zip(&load.streams) {
            player
                .due
                .push(Reverse((stream.opened, PlayerEvent::Open(number))));
        }
        Ok(player)
    }

    /// The time of the next event.
    pub(super) fn next(&self) -> Option<Instant> {
        let due = self.due.peek().map(|due| due.0.0);
        // Commands that the drive did not accept are reported to the layer in the next turn, at the
        // same instant.
        let busy = (!self.busy.is_empty()).then_some(self.now);
        let all = [due, self.wake, self.drive.next_completion(), busy];
        all.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Processes the events of one instant. Events that follow from them at the same instant can
    /// need further turns.
    pub(super) fn turn(&mut self, now: Instant) -> Result<(), SimError> {
        // Several turns at one instant are normal, since events follow from events.
        self.still = if now == self.now { self.still + 1 } else { 0 };
        if self.still > STILL_MAX {
            return Err(SimError::Stuck { at: now });
        }
        self.now = now;
        // Completions first, as in a run, so that their tags are free for the new requests.
        let mut ended = mem::take(&mut self.busy);
        while let Some(end) = self.drive.pop(now) {
            ended.push(end.completion);
        }
        if !ended.is_empty() {
            self.layer.complete(now, &ended);
        }
        for due in mem::take(&mut self.postponed) {
            self.run(due)?;
        }
        while let Some(Reverse((_, due))) = self.due.peek().filter(|due| due.0.0 <= now) {
            let due = *due;
            self.due.pop();
            self.run(due)?;
        }
        self.submit();
        self.poll();
        Ok(())
    }

    fn run(&mut self, due: PlayerEvent) -> Result<(), SimError> {
        match due {
            PlayerEvent::Change(number) => self.change(number)?,
            PlayerEvent::Open(number) => self.open(number)?,
            PlayerEvent::Send { stream, place } => {
                // A request that is due after its client has left is dropped.
                let client = &mut self.clients[stream as usize];
                if client.id.is_some() {
                    client.waiting.push_back(place);
                }
            }
            PlayerEvent::Close(number) => self.close(number),
        }
        Ok(())
    }

    fn change(&mut self, number: u32) -> Result<(), SimError> {
        let due = PlayerEvent::Change(number);
        // Changes keep their order, because a later one may add what an earlier one removes.
        if self.changes_wait() {
            self.postponed.push(due);
            return Ok(());
        }
        let edits = &self.again.edits[number as usize].1;
        match self.layer.change(self.now, edits) {
            Ok(_) => Ok(()),
            Err(Refusal::GroupInUse(_)) if self.a_client_has_left() => {
                self.postponed.push(due);
                Ok(())
            }
            Err(refusal) => Err(SimError::Refused(refusal)),
        }
    }

    /// Returns true if a change waits, whose group a later change or client may need.
    fn changes_wait(&self) -> bool {
        let is_change = |due: &PlayerEvent| matches!(due, PlayerEvent::Change(_));
        self.postponed.iter().any(is_change)
    }

    /// Returns true if the requests of a client that has left can still be in the drive.
    fn a_client_has_left(&self) -> bool {
        self.clients.iter().any(|client| client.has_left)
    }

    fn open(&mut self, number: u32) -> Result<(), SimError> {
        let spec = self.load.streams[number as usize].spec;
        let id = match self.layer.open(self.now, spec) {
            Ok(id) => id,
            Err(OpenError::Full) if self.a_client_has_left() => {
                self.postponed.push(PlayerEvent::Open(number));
                return Ok(());
            }
            Err(OpenError::NoSuchGroup(_) | OpenError::NotALeaf(_)) if self.changes_wait() => {
                self.postponed.push(PlayerEvent::Open(number));
                return Ok(());
            }
            Err(error) => {
                return Err(SimError::Open {
                    client: format!("{number} of the record"),
                    error,
                });
            }
        };
        self.by_slot[id.slot() as usize] = number;
        self.clients[number as usize].id = Some(id);
        let stream = &self.load.streams[number as usize];
        if let Some(closed) = stream.closed {
            // A client stays as long as it did, also if it had to wait before it could connect.
            let at = self.now + closed.since(stream.opened);
            self.due.push(Reverse((at, PlayerEvent::Close(number))));
        }
        // The first request keeps its distance from the connection.
        self.begin(number, Span::ZERO);
        Ok(())
    }

    /// Disconnects a client. Its requests that are not in the drive end as cancelled.
    fn close(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        client.waiting.clear();
        client.has_left = true;
        if let Some(id) = client.id.take() {
            self.layer.close(self.now, id);
        }
    }

    /// Lets a client send all its recorded requests once, from `after` on.
    fn begin(&mut self, number: u32, after: Span) {
        let asks = &self.load.streams[number as usize].asks;
        let client = &mut self.clients[number as usize];
        // Counts down to the end of the present pass through the record.
        client.left = asks.len() as u32;
        // The requests after the first answer are scheduled by `answered`.
        let count = if self.again.at_recorded_times {
            asks.len()
        } else {
            client.first as usize
        };
        for (place, ask) in (0..).zip(&asks[..count]) {
            let send = PlayerEvent::Send {
                stream: number,
                place,
            };
            self.due.push(Reverse((self.now + after + ask.at, send)));
        }
    }

    /// Submits the requests that are due, as far as the layer has space for them.
    fn submit(&mut self) {
        for number in 0..self.clients.len() {
            while let Some(request) = self.next_of(number) {
                if let Err(rejected) = self.layer.submit(self.now, &[request]) {
                    self.free.push(request.cookie as u32);
                    match rejected.reason {
                        // Completions free space in the layer, so the client tries again later.
                        Reject::Full | Reject::StreamFull => break,
                        // Any other reason is final. The request counts as answered, so that the
                        // requests that follow its answer are still sent.
                        _ => {
                            let place = self.clients[number].waiting.pop_front().unwrap_or(0);
                            self.answered(number as u32, place);
                            continue;
                        }
                    }
                }
                self.clients[number].waiting.pop_front();
            }
        }
    }

    /// The next request of a client that is due, with a free cookie.
    fn next_of(&mut self, number: usize) -> Option<Request> {
        let client = &self.clients[number];
        let place = *client.waiting.front().filter(|_| !client.paused)?;
        let stream = client.id?;
        let cookie = self.free.pop()?;
        self.live[cookie as usize] = (number as u32, place);
        Some(Request {
            stream,
            cookie: Cookie::from(cookie),
            ..self.load.streams[number].asks[place as usize].request
        })
    }

    fn poll(&mut self) {
        let mut outputs = Vec::new();
        self.wake = self.layer.poll(self.now, &mut outputs).map(|wake| wake.at);
        let mut room = false;
        for output in outputs {
            room |= !matches!(output, Output::Dispatch(_));
            match output {
                Output::Dispatch(piece) => self.dispatch(piece),
                Output::Done(done) => {
                    self.free.push(done.cookie as u32);
                    let (stream, place) = self.live[done.cookie as usize];
                    self.answered(stream, place);
                }
                Output::Pause(stream) => self.pause(stream, true),
                Output::Resume(stream) => self.pause(stream, false),
            }
        }
        // Completions may have freed space for requests that were refused. Another turn at the same
        // instant submits them.
        let waits = |client: &PlayedClient| !client.paused && !client.waiting.is_empty();
        if room && (!self.postponed.is_empty() || self.clients.iter().any(waits)) {
            self.wake = Some(self.wake.map_or(self.now, |at| at.min(self.now)));
        }
    }

    fn pause(&mut self, stream: StreamId, paused: bool) {
        let number = self.by_slot[stream.slot() as usize] as usize;
        self.clients[number].paused = paused;
    }

    fn dispatch(&mut self, mut piece: Dispatch) {
        // A flush has no position.
        if piece.op != Op::Flush {
            let base = self.bases.get(piece.space.0 as usize).copied();
            piece.offset += base.unwrap_or(0);
        }
        if self.drive.submit(self.now, &piece).is_err() {
            self.busy.push(Completion::busy(piece.tag));
        }
    }

    /// Processes an answer: the requests that followed it in the record become due.
    fn answered(&mut self, number: u32, place: u32) {
        let stream = &self.load.streams[number as usize];
        let client = &mut self.clients[number as usize];
        // At recorded times, the requests are sent once, and nothing follows the last answer.
        client.left = client.left.saturating_sub(1);
        let is_over = client.left == 0;
        if !self.again.at_recorded_times {
            let (first, count) = client.next[place as usize];
            for place in first..first + count {
                let think = stream.asks[place as usize]
                    .after
                    .map_or(Span::ZERO, |a| a.1);
                let send = PlayerEvent::Send {
                    stream: number,
                    place,
                };
                self.due.push(Reverse((self.now + think, send)));
            }
        }
        // All requests of the record have completed, so the client begins again after the pause at
        // its end.
        if is_over && !self.again.at_recorded_times {
            self.begin(number, stream.final_pause(self.load.end()));
        }
    }
}

/// The state of a client before it connects.
fn client(stream: &load::RecordedStream) -> PlayedClient {
    let mut next = vec![(0, 0); stream.asks.len()];
    let mut first = 0;
    for (place, ask) in (0..).zip(&stream.asks) {
        match ask.after {
            // The requests that follow one answer are contiguous, because they are in the order of
            // sending and each follows the latest answer.
            Some((answer, _)) => match &mut next[answer as usize] {
                (_, 0) => next[answer as usize] = (place, 1),
                (_, count) => *count += 1,
            },
            None => first += 1,
        }
    }
    PlayedClient {
        next,
        first,
        ..PlayedClient::default()
    }
}

/// The position of each space on the drive: one after the other, as in the live server. Empty if
/// the drive is position-independent.
fn bases(again: &Playback) -> Result<Vec<u64>, SimError> {
    let Some(drive) = again.drive.size() else {
        return Ok(Vec::new());
    };
    let mut sizes: Vec<u64> = Vec::new();
    for edit in again.edits.iter().flat_map(|(_, edits)| edits) {
        if let Edit::SetSpace { id, size } = edit {
            let at = id.0 as usize;
            if sizes.len() <= at {
                sizes.resize(at + 1, 0);
            }
            // A volume can be resized in the course of the load. Its largest size is reserved.
            // Space numbers have gaps if volumes were removed. The gap has size zero.
            sizes[at] = sizes[at].max(size.unwrap_or(0));
        }
    }
    let mut base = 0u64;
    let mut bases = Vec::with_capacity(sizes.len());
    for (space, size) in (0..).zip(sizes) {
        bases.push(base);
        if base.checked_add(size).is_none_or(|end| end > drive) {
            return Err(SimError::Place {
                space,
                base,
                size,
                drive,
            });
        }
        base += size;
    }
    Ok(bases)
}
