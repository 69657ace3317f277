//! The load of a run, taken from the calls into its layer.

use std::collections::HashMap;
use weir_core::record::{Call, Observer};
use weir_core::{
    Config, Edit, GroupId, Instant, Layer, Op, Output, Request, Span, StreamId, StreamSpec,
};

/// What clients did, and when a client that is served otherwise would do the same: an observer of the run's layer from its first call on.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub(crate) config: Option<Config>,
    /// What was put in force, and when.
    pub(crate) edits: Vec<(Instant, Vec<Edit>)>,
    pub(crate) streams: Vec<Stream>,
    /// Which of these has a slot of the layer.
    slots: Vec<Option<(StreamId, u32)>>,
    /// Requests that are not over: their stream, and their place in it.
    live: HashMap<(StreamId, u64), (u32, u32)>,
    requests: usize,
    lost: u64,
    end: Instant,
}

/// What one client did.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) spec: StreamSpec,
    pub(crate) opened: Instant,
    /// When it left, if it did.
    pub(crate) closed: Option<Instant>,
    /// In the order in which they were sent.
    pub(crate) asks: Vec<Ask>,
    /// The last answer: to which, and when.
    answered: Option<(u32, Instant)>,
    outstanding: u32,
}

/// A request as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// The group of the client.
    pub group: GroupId,
    /// What it is to do.
    pub op: Op,
    /// Its length in bytes.
    pub length: u32,
    /// Requests of the client that were not over then, itself included.
    pub outstanding: u32,
}

/// One request of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) request: Request,
    /// How long after the client came it was sent.
    pub(crate) at: Span,
    /// Requests of the client that were not over then, itself included.
    pub(crate) outstanding: u32,
    /// The answer that it was sent after, and how long after; `None`: the client had no answer yet.
    pub(crate) after: Option<(u32, Span)>,
}

impl Load {
    /// Requests that are kept: some 2 GB of them. Those beyond are counted and left out.
    pub const MOST: usize = 20_000_000;

    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the layer was made from, once there was a call.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// What was put in force and when, in order.
    pub fn edits(&self) -> &[(Instant, Vec<Edit>)] {
        &self.edits
    }

    /// When the last call was.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Every request that is kept, client by client.
    pub fn sent(&self) -> impl Iterator<Item = Sent> + '_ {
        self.streams.iter().flat_map(|stream| {
            stream.asks.iter().map(|ask| Sent {
                at: stream.opened + ask.at,
                group: stream.spec.group,
                op: ask.request.op,
                length: ask.request.length,
                outstanding: ask.outstanding,
            })
        })
    }

    /// Requests that are kept.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Requests that there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn opened(&mut self, now: Instant, spec: StreamSpec, id: StreamId) {
        let slot = id.slot() as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = Some((id, self.streams.len() as u32));
        self.streams.push(Stream {
            spec,
            opened: now,
            closed: None,
            asks: Vec::new(),
            answered: None,
            outstanding: 0,
        });
    }

    fn stream(&self, id: StreamId) -> Option<u32> {
        let slot = self.slots.get(id.slot() as usize).copied().flatten();
        slot.filter(|slot| slot.0 == id).map(|slot| slot.1)
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        let Some(number) = self.stream(request.stream) else {
            return;
        };
        if self.requests == Self::MOST {
            self.lost += 1;
            return;
        }
        self.requests += 1;
        let stream = &mut self.streams[number as usize];
        let place = stream.asks.len() as u32;
        stream.outstanding += 1;
        stream.asks.push(Ask {
            outstanding: stream.outstanding,
            request: *request,
            at: now.since(stream.opened),
            after: stream.answered.map(|(place, at)| (place, now.since(at))),
        });
        self.live
            .insert((request.stream, request.cookie), (number, place));
    }
}

impl Observer for Load {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.config.get_or_insert_with(|| layer.config().clone());
        self.end = now;
        match *call {
            Call::Open {
                spec,
                result: Ok(id),
            } => self.opened(now, spec, id),
            Call::Close { stream } => {
                if let Some(number) = self.stream(stream) {
                    self.streams[number as usize].closed = Some(now);
                }
            }
            Call::Change {
                edits,
                result: Ok(_),
            } => self.edits.push((now, edits.to_vec())),
            Call::Submit { batch, result } => {
                let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
                batch[..accepted]
                    .iter()
                    .for_each(|r| self.submitted(now, r));
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    let Output::Done(done) = output else { continue };
                    let live = self.live.remove(&(done.stream, done.cookie));
                    if let Some((number, place)) = live {
                        let stream = &mut self.streams[number as usize];
                        stream.answered = Some((place, now));
                        stream.outstanding -= 1;
                    }
                }
            }
            _ => {}
        }
    }
}

impl Stream {
    /// How long after its last answer it stayed.
    pub(crate) fn rest(&self, end: Instant) -> Span {
        let last = self.answered.map_or(self.opened, |answered| answered.1);
        self.closed.unwrap_or(end).since(last)
    }
}
