//! For tests whose requests follow from answers: closed-loop clients on a modelled drive in virtual time. Every piece takes 30 us in
//! parallel with the others, then its bytes cross a link of 250 MB/s one after the other. On a disk, each piece that does not begin
//! where the one before it ended takes a seek first, one after the other, too.

use crate::elevator;
use crate::layer::{Config as LayerConfig, Layer, Output};
use crate::sample::{Take, Wanted};
use crate::shape::{DriveShape, Sizes};
use crate::{
    Completion, Contract, Edit, Event, Flags, GroupId, Instant, Listener, Mask, Max, Op, Priority,
    PriorityClass, Publish, ROOT, Request, SpaceId, Span, StreamId, StreamSpec, Tag,
};
use std::collections::VecDeque;
use std::vec::Vec;

pub(super) const KIB: u32 = 1024;
pub(super) const SECOND: u64 = 1_000_000_000;
const SERVICE: u64 = 30_000;
const NS_PER_BYTE: u64 = 4;
const SPACE: u64 = 8 << 30;

/// What a client does: `depth` requests outstanding, the next one `think` after an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// Index of a group of the host's, or the root.
    pub(super) group: Option<usize>,
    pub(super) priority: Priority,
    pub(super) size: u32,
    pub(super) depth: u32,
    pub(super) sequential: bool,
    /// Where it begins and how far apart its requests are if it is sequential; `None`: far from others, and one after the other.
    pub(super) strides: Option<(u64, u64)>,
    /// From then on it is not sequential.
    pub(super) random_from: u64,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) think: u64,
    pub(super) until: u64,
}

/// Sequential, 128 KiB, two at a time.
pub(super) const STREAMER: Client = Client {
    group: None,
    priority: Priority {
        class: PriorityClass::BestEffort,
        level: 4,
    },
    size: 128 * KIB,
    depth: 2,
    sequential: true,
    strides: None,
    random_from: u64::MAX,
    op: Op::Read,
    flags: Flags::NONE,
    think: 0,
    until: u64::MAX,
};

/// Random, 4 KiB, one at a time.
pub(super) const RANDOM: Client = Client {
    size: 4 * KIB,
    depth: 1,
    sequential: false,
    ..STREAMER
};

impl Client {
    pub(super) fn of(self, group: usize) -> Self {
        Self {
            group: Some(group),
            ..self
        }
    }

    pub(super) fn class(self, class: PriorityClass) -> Self {
        let level = self.priority.level;
        Self {
            priority: Priority { class, level },
            ..self
        }
    }
}

struct State {
    client: Client,
    stream: StreamId,
    position: u64,
    bytes: u64,
    /// Requests out, since when there is one or since the last answer, and the longest such time.
    out: u32,
    since: u64,
    gap: u64,
}

pub(super) struct Host {
    pub(super) layer: Layer,
    listener: Listener,
    pub(super) now: u64,
    clients: Vec<State>,
    drive: VecDeque<(u64, Tag)>,
    link_free: u64,
    /// What going elsewhere costs, in nanoseconds; zero: the drive is flash.
    pub(super) seek: u64,
    head: u64,
    /// The longest that any request took.
    longest: u64,
    thinking: Vec<(u64, usize)>,
    wake: Option<u64>,
    random: u64,
    out: Vec<Output>,
    events: Vec<(Instant, Event)>,
    pub(super) most_in_drive: usize,
    /// When a request was sent, and by which client.
    pub(super) sent: Vec<(u64, usize)>,
}

impl Publish for Vec<(Instant, Event)> {
    fn publish(&mut self, now: Instant, event: Event) {
        self.push((now, event));
    }
}

impl Host {
    /// A drive of 32 tags; groups with these shares, numbered from 1, each below the root or the group of that index.
    pub(super) fn new(elevator: elevator::Config, shares: &[(u16, Option<usize>)]) -> Self {
        Self::with(
            elevator,
            shares,
            Sizes::default().scheduler_tags,
            DriveShape::default(),
        )
    }

    /// The same with this number of scheduler tags, and a drive that looks like this.
    pub(super) fn with(
        elevator: elevator::Config,
        shares: &[(u16, Option<usize>)],
        scheduler_tags: u32,
        drive: DriveShape,
    ) -> Self {
        let sizes = Sizes {
            scheduler_tags,
            ..Sizes::default()
        };
        Self::sized(elevator, shares, sizes, drive)
    }

    /// The same with tables of these sizes.
    pub(super) fn sized(
        elevator: elevator::Config,
        shares: &[(u16, Option<usize>)],
        sizes: Sizes,
        drive: DriveShape,
    ) -> Self {
        let config = LayerConfig {
            sizes,
            drive,
            ..LayerConfig::of(elevator)
        };
        let mut layer = Layer::new(config).unwrap();
        let mut edits = std::vec![Edit::SetSpace {
            id: SpaceId(0),
            size: Some(SPACE),
        }];
        for (i, &(share, parent)) in shares.iter().enumerate() {
            edits.push(Edit::AddGroup {
                id: GroupId(i as u32 + 1),
                parent: parent.map_or(ROOT, |p| GroupId(p as u32 + 1)),
                contract: Contract {
                    share,
                    ..Contract::DEFAULT
                },
            });
        }
        layer.change(Instant::ZERO, &edits).unwrap();
        let listener = layer.listen(Mask::TURNS);
        Self {
            layer,
            listener,
            now: 0,
            clients: Vec::new(),
            drive: VecDeque::new(),
            link_free: 0,
            seek: 0,
            head: 0,
            longest: 0,
            thinking: Vec::new(),
            wake: None,
            random: 1,
            out: Vec::new(),
            events: Vec::new(),
            most_in_drive: 0,
            sent: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, client: Client) -> usize {
        let group = client.group.map_or(ROOT, |g| GroupId(g as u32 + 1));
        let spec = StreamSpec {
            group,
            priority: client.priority,
        };
        let stream = self.layer.open(self.instant(), spec).unwrap();
        let index = self.clients.len();
        self.clients.push(State {
            client,
            stream,
            position: match client.strides {
                Some((start, stride)) => start.wrapping_sub(stride),
                None => (index as u64 * 256) << 20,
            },
            bytes: 0,
            out: 0,
            since: 0,
            gap: 0,
        });
        for _ in 0..client.depth {
            self.issue(index);
        }
        index
    }

    pub(super) fn run(&mut self, until: u64) {
        self.poll();
        loop {
            let next = [
                self.drive.front().map(|d| d.0),
                self.thinking.iter().map(|t| t.0).min(),
                self.wake,
            ];
            let next = next.into_iter().flatten().min().unwrap_or(u64::MAX);
            if next >= until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
            while self.drive.front().is_some_and(|d| d.0 <= self.now) {
                let (_, tag) = self.drive.pop_front().unwrap();
                self.layer.complete(self.instant(), &[Completion::ok(tag)]);
            }
            let now = self.now;
            let (ready, rest) = self.thinking.iter().partition(|t| t.0 <= now);
            self.thinking = rest;
            let ready: Vec<(u64, usize)> = ready;
            for (_, client) in ready {
                self.issue(client);
            }
            self.poll();
        }
    }

    /// A client does not read its answers, or does again.
    pub(super) fn hold(&mut self, client: usize, held: bool) {
        let stream = self.clients[client].stream;
        self.layer.hold(self.instant(), stream, held);
        self.poll();
    }

    /// A client that asks for nothing more goes, unless it still waits for an answer.
    pub(super) fn close(&mut self, client: usize) {
        let State { stream, out, .. } = self.clients[client];
        if out > 0 {
            return;
        }
        self.layer.close(self.instant(), stream);
        self.poll();
    }

    /// Kilobytes (1000 bytes) a second of a client over the whole run.
    pub(super) fn rate(&self, client: usize) -> u64 {
        self.clients[client].bytes * 1_000_000 / self.now
    }

    /// Of all clients together.
    pub(super) fn total(&self) -> u64 {
        self.clients.iter().map(|c| c.bytes).sum::<u64>() * 1_000_000 / self.now
    }

    pub(super) fn bytes(&self, client: usize) -> u64 {
        self.clients[client].bytes
    }

    /// The longest time that the client had a request out and got no answer, in milliseconds.
    pub(super) fn gap_ms(&self, client: usize) -> u64 {
        let state = &self.clients[client];
        let out = state.out > 0;
        let gap = if out { self.now - state.since } else { 0 };
        state.gap.max(gap) / 1_000_000
    }

    /// The longest that any request took, in milliseconds.
    pub(super) fn longest_ms(&self) -> u64 {
        self.longest / 1_000_000
    }

    pub(super) fn stream(&self, client: usize) -> StreamId {
        self.clients[client].stream
    }

    /// The turns since the last call.
    pub(super) fn turns(&mut self) -> Vec<(Instant, Event)> {
        self.layer.drain(self.listener, &mut self.events);
        core::mem::take(&mut self.events)
    }

    /// How things stand.
    pub(super) fn sample(&self, wanted: Wanted, take: &mut Take<'_>) {
        self.layer.sample(wanted, take);
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Gives a group a bandwidth that it never exceeds.
    pub(super) fn limit(&mut self, group: usize, bandwidth: u64) {
        let max = Max {
            bandwidth,
            ..Max::NONE
        };
        let contract = Contract {
            max,
            ..Contract::DEFAULT
        };
        self.set(group, contract);
    }

    pub(super) fn change_share(&mut self, group: usize, share: u16) {
        let contract = Contract {
            share,
            ..Contract::DEFAULT
        };
        self.set(group, contract);
    }

    fn set(&mut self, group: usize, contract: Contract) {
        let id = GroupId(group as u32 + 1);
        let edit = Edit::SetContract { id, contract };
        self.layer.change(self.instant(), &[edit]).unwrap();
    }

    fn issue(&mut self, index: usize) {
        let state = &mut self.clients[index];
        let client = state.client;
        if self.now >= client.until {
            return;
        }
        let offset = if client.sequential && self.now < client.random_from {
            let stride = client.strides.map_or_else(|| client.size.into(), |s| s.1);
            state.position = state.position.wrapping_add(stride);
            state.position % (SPACE - u64::from(client.size))
        } else {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % (SPACE / 4096 - 1024) * 4096
        };
        if state.out == 0 {
            state.since = self.now;
        }
        state.out += 1;
        let request = Request {
            stream: state.stream,
            space: SpaceId(0),
            op: client.op,
            flags: client.flags,
            offset,
            length: client.size,
            cookie: index as u64,
            within: 0,
        };
        self.layer.submit(self.instant(), &[request]).unwrap();
    }

    fn poll(&mut self) {
        loop {
            let mut out = core::mem::take(&mut self.out);
            let wake = self.layer.poll(self.instant(), &mut out);
            self.wake = wake.map(|w| w.at.as_nanos().max(self.now + 1));
            let mut again = false;
            for output in out.drain(..) {
                match output {
                    Output::Dispatch(d) => {
                        let bytes = if matches!(d.op, Op::Read | Op::Write) {
                            u64::from(d.length)
                        } else {
                            0
                        };
                        let away = d.offset != core::mem::replace(&mut self.head, d.offset + bytes);
                        let seek = if away { self.seek } else { 0 };
                        self.link_free =
                            self.link_free.max(self.now + SERVICE) + seek + bytes * NS_PER_BYTE;
                        self.drive.push_back((self.link_free, d.tag));
                        self.sent.push((self.now, d.cookie as usize));
                        self.most_in_drive = self.most_in_drive.max(self.drive.len());
                    }
                    Output::Done(d) => {
                        let took = self.now - d.submitted.as_nanos();
                        self.longest = self.longest.max(took);
                        let index = d.cookie as usize;
                        let state = &mut self.clients[index];
                        state.bytes += u64::from(d.length);
                        state.out -= 1;
                        state.gap = state.gap.max(self.now - state.since);
                        state.since = self.now;
                        if state.client.think > 0 {
                            self.thinking.push((self.now + state.client.think, index));
                        } else {
                            self.issue(index);
                            again = true;
                        }
                    }
                    Output::Pause(_) | Output::Resume(_) => {}
                }
            }
            self.out = out;
            if !again {
                return;
            }
        }
    }
}

/// Milliseconds as nanoseconds.
pub(super) const fn ms(n: u64) -> u64 {
    Span::from_millis(n).as_nanos()
}
