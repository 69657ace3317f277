//! The load of a run, taken from the calls into its layer.

use std::collections::HashMap;
use weir_core::record::{Call, Observer};
use weir_core::{
    Config, Edit, GroupId, Instant, Layer, Op, Output, Request, Span, StreamId, StreamSpec,
};

/// The load of a run: each client's requests and the answers that they followed.
///
/// It is an observer, and must observe the run's layer from the first call on.
/// [`Playback`](crate::Playback) plays it.
#[derive(Clone, Debug, Default)]
pub struct LoadRecord {
    pub(crate) config: Option<Config>,
    /// The changes of the layer, with their times.
    pub(crate) edits: Vec<(Instant, Vec<Edit>)>,
    pub(crate) streams: Vec<RecordedStream>,
    /// The stream that holds each slot of the layer, as an index into `streams`.
    slots: Vec<Option<(StreamId, u32)>>,
    /// The stream of each outstanding request and the request's position in it.
    live: HashMap<(StreamId, u64), (u32, u32)>,
    requests: usize,
    lost: u64,
    end: Instant,
}

/// The recorded actions of one client.
#[derive(Clone, Debug)]
pub(crate) struct RecordedStream {
    pub(crate) spec: StreamSpec,
    pub(crate) opened: Instant,
    /// The time at which the client disconnected, if it did.
    pub(crate) closed: Option<Instant>,
    /// The client's requests in the order in which they were sent.
    pub(crate) asks: Vec<LoadRequest>,
    /// The position of the request that completed last, and the time of its completion.
    answered: Option<(u32, Instant)>,
    outstanding: u32,
}

/// A request as it was sent in the recorded run.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRequest {
    /// The time at which the request was sent.
    pub at: Instant,
    /// The group of the client.
    pub group: GroupId,
    /// The operation of the request.
    pub op: Op,
    /// The length of the request in bytes.
    pub length: u32,
    /// The client's outstanding requests at that time, including this one.
    pub outstanding: u32,
}

/// One recorded request of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadRequest {
    pub(crate) request: Request,
    /// The time from the client's connection to the request.
    pub(crate) at: Span,
    /// The client's outstanding requests at that time, including this one.
    pub(crate) outstanding: u32,
    /// The position of the request that had completed last when this one was sent, and the time
    /// since then. `None` if no request of the client had completed yet.
    pub(crate) after: Option<(u32, Span)>,
}

impl LoadRecord {
    /// The maximum number of requests that are kept, which take about 2 GB. Further requests are
    /// only counted.
    pub const MOST: usize = 20_000_000;

    /// Creates a load without any request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The configuration of the recorded layer, or `None` before the first call.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// The changes of the layer with their times, in order.
    pub fn edits(&self) -> &[(Instant, Vec<Edit>)] {
        &self.edits
    }

    /// The time of the last recorded call.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// All kept requests, client by client.
    pub fn sent(&self) -> impl Iterator<Item = RecordedRequest> + '_ {
        self.streams.iter().flat_map(|stream| {
            stream.asks.iter().map(|ask| RecordedRequest {
                at: stream.opened + ask.at,
                group: stream.spec.group,
                op: ask.request.op,
                length: ask.request.length,
                outstanding: ask.outstanding,
            })
        })
    }

    /// The number of requests that are kept.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The number of requests that were not kept because the load was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a client. A slot belongs to the stream that was opened in it last.
    fn opened(&mut self, now: Instant, spec: StreamSpec, id: StreamId) {
        let slot = id.slot() as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        // A slot is used again by later streams, with another generation in the id.
        self.slots[slot] = Some((id, self.streams.len() as u32));
        self.streams.push(RecordedStream {
            spec,
            opened: now,
            closed: None,
            asks: Vec::new(),
            answered: None,
            outstanding: 0,
        });
    }

    /// The index of a stream, or `None` if its slot belongs to another stream.
    fn stream(&self, id: StreamId) -> Option<u32> {
        let slot = self.slots.get(id.slot() as usize).copied().flatten();
        // A late call can name a stream whose slot has a new owner.
        slot.filter(|slot| slot.0 == id).map(|slot| slot.1)
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        let Some(number) = self.stream(request.stream) else {
            return;
        };
        // The bound limits the memory for a long recording. Callers detect by `lost` that requests
        // are missing.
        if self.requests == Self::MOST {
            self.lost += 1;
            return;
        }
        self.requests += 1;
        let stream = &mut self.streams[number as usize];
        let place = stream.asks.len() as u32;
        stream.outstanding += 1;
        stream.asks.push(LoadRequest {
            outstanding: stream.outstanding,
            request: *request,
            at: now.since(stream.opened),
            // The latest answer is taken as the cause of the request, because a closed loop sends
            // upon an answer.
            after: stream.answered.map(|(place, at)| (place, now.since(at))),
        });
        self.live
            .insert((request.stream, request.cookie), (number, place));
    }
}

impl Observer for LoadRecord {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        // The first call is the earliest time at which an observer sees the layer.
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
                // The rest of a batch was refused, and the client submits it again later.
                let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
                batch[..accepted]
                    .iter()
                    .for_each(|r| self.submitted(now, r));
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    let Output::Done(done) = output else { continue };
                    // A request that was not kept has no entry.
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

impl RecordedStream {
    /// The time for which the client stayed connected after its last answer. A client that never
    /// disconnected stayed until `end`.
    pub(crate) fn final_pause(&self, end: Instant) -> Span {
        // A client without any answer has waited since its connection.
        let last = self.answered.map_or(self.opened, |answered| answered.1);
        self.closed.unwrap_or(end).since(last)
    }
}
