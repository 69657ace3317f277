//! A host that runs clients, a layer and a drive in virtual time.

use super::{Client, Drive, FILE, SECOND, child, layer, spec};
use crate::{
    Config, Done, Edit, Event, GroupId, Instant, Layer, Listener, Mask, Op, Output, Publish,
    Request, Sample, SampleMask, StreamId, Tag,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The next event of an instant.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A command ends in the drive.
    Ended(Tag),
    /// A client sends its next request, if it may.
    Asks(usize),
    /// The layer must be polled.
    Called,
}

/// The completions that a client received.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of completed requests.
    pub requests: u64,
    /// The bytes of the completed requests.
    pub bytes: u64,
    /// The completed bytes in each tenth of a second after the start.
    pub tenths: Vec<u64>,
    /// Nanoseconds that the slowest request took.
    pub longest: u64,
}

impl Tally {
    fn count(&mut self, now: u64, took: u64, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        // Tenths, so that a second can begin at any of them when the worst one is searched.
        let tenth = (now / (SECOND / 10)) as usize;
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, 0);
        }
        self.tenths[tenth] += bytes;
        self.longest = self.longest.max(took);
    }

    /// Returns the bytes of the worst second that begins at a tenth and lies within `from..until`
    /// tenths.
    pub fn worst_second_bytes(&self, from: usize, until: usize) -> u64 {
        let of = |second: usize| (second..second + 10).map(|t| self.tenth(t)).sum();
        (from..=until - 10).map(of).min().unwrap_or(0)
    }

    fn tenth(&self, tenth: usize) -> u64 {
        self.tenths.get(tenth).copied().unwrap_or(0)
    }
}

/// A client with its stream and its measurements.
#[derive(Debug)]
struct HostedClient {
    client: Client,
    stream: StreamId,
    asked: u64,
    rests_until: u64,
    tally: Tally,
    /// The number of requests in flight, the time of the first of them or of the last completion,
    /// and the longest time without a completion.
    out: u32,
    since: u64,
    gap: u64,
}

/// A layer between closed-loop clients and a drive.
///
/// All events of one instant are passed to the layer together: completions first, then requests.
/// Then the layer is polled.
#[derive(Debug)]
pub struct Host<D> {
    /// The layer under test.
    pub layer: Layer,
    /// The drive under the layer.
    pub drive: D,
    /// The present time in nanoseconds after the start.
    pub now: u64,
    /// Nanoseconds between a completion and the client's next request, in addition to the client's
    /// think time.
    pub pause: u64,
    /// The outputs of the layer at the last instant.
    pub out: Vec<Output>,
    /// The highest number of commands in the drive so far.
    pub most_in_drive: u32,
    clients: Vec<HostedClient>,
    due: BTreeMap<(u64, u64), Due>,
    serial: u64,
    listener: Option<Listener>,
}

impl<D: Drive> Host<D> {
    /// Creates a host with a layer, a space, these edits and a drive. Clients are added later.
    ///
    /// # Panics
    /// Panics if the configuration or the edits are refused.
    pub fn new(config: Config, edits: &[Edit], drive: D) -> Self {
        Self::over(layer(config, edits).expect("the edits can be kept"), drive)
    }

    /// Creates a host for an existing layer and a drive.
    pub fn over(layer: Layer, drive: D) -> Self {
        Self {
            layer,
            drive,
            now: 0,
            pause: 0,
            out: Vec::new(),
            most_in_drive: 0,
            clients: Vec::new(),
            due: BTreeMap::new(),
            serial: 0,
            listener: None,
        }
    }

    /// Starts to listen to events of these kinds.
    pub fn listen(&mut self, mask: Mask) {
        self.listener = Some(self.layer.listen(mask));
    }

    /// Returns the events since the last call.
    pub fn events(&mut self) -> Vec<(Instant, Event)> {
        let mut events = Vec::new();
        if let Some(listener) = self.listener {
            self.layer.drain(listener, &mut events);
        }
        events
    }

    /// Adds a client, which begins now or later, and returns its number.
    pub fn add(&mut self, mut client: Client) -> usize {
        let index = self.clients.len();
        if let Some(contract) = client.contract {
            let id = index as u32 + 1;
            self.edit(child(id, client.group, contract));
            client.group = GroupId(id);
        }
        let state = HostedClient {
            client,
            stream: self.connect(&client),
            asked: 0,
            rests_until: 0,
            tally: Tally::default(),
            out: 0,
            since: 0,
            gap: 0,
        };
        self.clients.push(state);
        for _ in 0..client.depth {
            // One pending request for each place in the client's queue.
            self.push(client.from.max(self.now), Due::Asks(index));
        }
        index
    }

    fn connect(&mut self, client: &Client) -> StreamId {
        let priority = client.priority;
        let spec = crate::StreamSpec {
            priority,
            ..spec(client.group)
        };
        let opened = self.layer.open(self.instant(), spec);
        opened.expect("the group exists, and there is room")
    }

    /// Closes the stream of a client and opens another for it.
    pub fn reconnect(&mut self, client: usize) {
        let HostedClient {
            stream,
            client: spec,
            ..
        } = self.clients[client];
        self.layer.close(self.instant(), stream);
        self.clients[client].stream = self.connect(&spec);
    }

    /// Schedules a call of the layer at a time in nanoseconds after the start.
    pub fn call_at(&mut self, at: u64) {
        self.push(at, Due::Called);
    }

    fn push(&mut self, at: u64, due: Due) {
        // The serial number keeps events of one instant in the order in which they were scheduled.
        self.serial += 1;
        self.due.insert((at, self.serial), due);
    }

    /// Runs until this many nanoseconds after the start, excluding the events at that instant.
    pub fn run(&mut self, until: u64) {
        while self.step(until) {}
    }

    /// Runs for this many nanoseconds.
    pub fn run_for(&mut self, length: u64) {
        self.run(self.now + length);
    }

    /// Runs the next instant before `until`. Returns false if there is none, and sets the time to
    /// `until` in that case.
    pub fn step(&mut self, until: u64) -> bool {
        // The outputs of the last instant remain available until the next step.
        self.out.clear();
        let next = self.due.first_key_value().map(|(&(at, _), _)| at);
        let Some(now) = next.filter(|&at| at < until) else {
            self.now = until;
            return false;
        };
        self.now = now;
        let (mut ended, mut requests) = (Vec::new(), Vec::new());
        while let Some(entry) = self.due.first_entry().filter(|due| due.key().0 == now) {
            match entry.remove() {
                Due::Ended(tag) => match self.drive.end(now, tag) {
                    Ok(completion) => ended.push(completion),
                    Err(later) => self.push(later, Due::Ended(tag)),
                },
                Due::Asks(client) => requests.extend(self.ask(client)),
                Due::Called => {}
            }
        }
        let at = self.instant();
        if !ended.is_empty() {
            self.layer.complete(at, &ended);
        }
        if !requests.is_empty() {
            let room = self.layer.submit(at, &requests);
            room.expect("there is room");
        }
        self.poll();
        true
    }

    fn ask(&mut self, index: usize) -> Option<Request> {
        let now = self.now;
        let state = &mut self.clients[index];
        let client = state.client;
        if now >= client.until {
            return None;
        }
        // A client with a rate or a rest asks again when the next request is allowed.
        let due = state.rests_until.max(client.due(state.asked));
        if due > now {
            self.push(due, Due::Asks(index));
            return None;
        }
        let (op, flags, within, length) = client.request(state.asked, now);
        let base = client.base.unwrap_or(index as u64 * FILE);
        state.asked += 1;
        if let Some((requests, time)) = client.rest
            && state.asked.is_multiple_of(requests)
        {
            state.rests_until = now + time;
        }
        if state.out == 0 {
            state.since = now;
        }
        state.out += 1;
        Some(
            super::read(state.stream, index as u64, length)
                .space(client.space)
                .op(op)
                .flags(flags)
                .offset(if op == Op::Flush { 0 } else { base + within }),
        )
    }

    fn poll(&mut self) {
        let mut out = core::mem::take(&mut self.out);
        let wake = self.layer.poll(self.instant(), &mut out);
        for output in &out {
            match output {
                Output::Dispatch(command) => {
                    let end = self.drive.take(self.now, command);
                    self.push(end, Due::Ended(command.tag));
                }
                Output::Done(done) => self.answered(done),
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
        self.out = out;
        self.most_in_drive = self.most_in_drive.max(self.layer.in_flight());
        if let Some(wake) = wake {
            // Virtual time must advance even if the layer asks for a call at once.
            self.push(wake.at.as_nanos().max(self.now + 1), Due::Called);
        }
    }

    fn answered(&mut self, done: &Done) {
        let now = self.now;
        let index = done.cookie as usize;
        let state = &mut self.clients[index];
        let took = now - done.submitted.as_nanos();
        state.tally.count(now, took, done.length.into());
        // The longest gap is measured from completion to completion.
        state.out -= 1;
        state.gap = state.gap.max(now - state.since);
        state.since = now;
        let next = now + state.client.think + self.pause;
        self.push(next, Due::Asks(index));
    }

    /// Returns the completions that a client has received so far.
    pub fn tally(&self, client: usize) -> &Tally {
        &self.clients[client].tally
    }

    /// Returns the completions that each client has received since the last call.
    pub fn take_tallies(&mut self) -> Vec<Tally> {
        let take = |state: &mut HostedClient| core::mem::take(&mut state.tally);
        self.clients.iter_mut().map(take).collect()
    }

    /// Returns the number of requests of each client that have completed since the last call.
    pub fn take_done(&mut self) -> Vec<u64> {
        let tallies = self.take_tallies().into_iter();
        tallies.map(|tally| tally.requests).collect()
    }

    /// Stops all clients from sending requests.
    pub fn stop(&mut self) {
        for state in &mut self.clients {
            state.client.until = self.now;
        }
    }

    /// Returns the samples of these kinds.
    pub fn samples(&self, wanted: SampleMask) -> Vec<Sample> {
        let mut all = Vec::new();
        self.layer.sample(wanted, &mut |sample| all.push(sample));
        all
    }

    /// Returns the bytes that a client has received.
    pub fn bytes(&self, client: usize) -> u64 {
        self.tally(client).bytes
    }

    /// Asserts that a client received at least this many bytes in each second that begins at a
    /// tenth and lies within these tenths.
    ///
    /// # Panics
    /// Panics if it received less.
    #[track_caller]
    pub fn assert_rate(&self, client: usize, tenths: core::ops::Range<usize>, least: u64) {
        let worst = self
            .tally(client)
            .worst_second_bytes(tenths.start, tenths.end);
        assert!(worst >= least, "client {client}: {worst} of {least}");
    }

    /// Returns the rate of a client over the whole run in kB/s (1000 bytes per second).
    pub fn rate(&self, client: usize) -> u64 {
        self.bytes(client) * 1_000_000 / self.now
    }

    /// Returns the rate of all clients over the whole run in kB/s (1000 bytes per second).
    pub fn total(&self) -> u64 {
        self.all() * 1_000_000 / self.now
    }

    /// Returns the bytes that all clients have received.
    pub fn all(&self) -> u64 {
        self.clients.iter().map(|c| c.tally.bytes).sum()
    }

    /// Returns the milliseconds that the slowest request of all clients took.
    pub fn longest_ms(&self) -> u64 {
        let longest = self.clients.iter().map(|c| c.tally.longest).max();
        longest.unwrap_or(0) / 1_000_000
    }

    /// Returns the longest time, in milliseconds, for which a client had requests in flight and
    /// received no completion.
    pub fn gap_ms(&self, client: usize) -> u64 {
        let state = &self.clients[client];
        let waits = if state.out > 0 {
            self.now - state.since
        } else {
            0
        };
        state.gap.max(waits) / 1_000_000
    }

    /// Returns the stream of a client.
    pub fn stream(&self, client: usize) -> StreamId {
        self.clients[client].stream
    }

    /// Returns the present time as an instant.
    pub fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Applies an edit now.
    ///
    /// # Panics
    /// Panics if the edit is refused.
    pub fn edit(&mut self, edit: Edit) {
        let applied = self.layer.change(self.instant(), &[edit]);
        applied.expect("the edit can be kept");
        self.call_at(self.now);
    }

    /// Puts the stream of a client on hold, or ends that.
    pub fn hold(&mut self, client: usize, held: bool) {
        self.layer.hold(self.instant(), self.stream(client), held);
        self.call_at(self.now);
    }

    /// Closes the stream of a client, unless it has requests in flight.
    pub fn close(&mut self, client: usize) {
        if self.clients[client].out == 0 {
            self.layer.close(self.instant(), self.stream(client));
            self.call_at(self.now);
        }
    }
}

impl Publish for Vec<(Instant, Event)> {
    fn publish(&mut self, now: Instant, event: Event) {
        self.push((now, event));
    }
}
