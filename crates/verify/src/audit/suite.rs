//! All auditors together.

use crate::audit::admission::Admission;
use crate::audit::auditor::{Auditor, Fact};
use crate::audit::conserve::Conserve;
use crate::audit::domains::Domains;
use crate::audit::durability::Durability;
use crate::audit::fair::Fair;
use crate::audit::flow::Flow;
use crate::audit::found::Found;
use crate::audit::idle::Idle;
use crate::audit::ledger::Ledger;
use crate::audit::model::Model;
use crate::audit::once::Once;
use crate::audit::precedence::Precedence;
use crate::audit::priority::Priorities;
use crate::audit::promise::Promise;
use crate::audit::realtime::Realtime;
use crate::audit::room::Room;
use crate::audit::seconds::Seconds;
use crate::audit::slices::Slices;
use crate::audit::stalls::Stalls;
use crate::audit::starvation::Starvation;
use crate::audit::tags::Tags;
use crate::audit::tally::Tally;
use crate::audit::wake::Wakes;
use weir_core::record::Call;
use weir_core::{
    Cookie, Event, Instant, Layer, Listener, Mask, Output, Publish, Rejected, Request, Span,
    StreamId,
};

/// All auditors, over one model.
///
/// It is shown every call into a layer from its creation on, and the events that the layer published. The driver must use different
/// cookies for the live requests of a stream.
#[derive(Debug)]
pub struct Audit {
    listener: Listener,
    model: Model,
    found: Found,
    once: Once,
    tags: Tags,
    room: Room,
    ledger: Ledger,
    slices: Slices,
    stalls: Stalls,
    flow: Flow,
    wakes: Wakes,
    conserve: Conserve,
    durability: Durability,
    admission: Admission,
    precedence: Precedence,
    priorities: Priorities,
    domains: Domains,
    realtime: Realtime,
    seconds: Seconds,
    tally: Tally,
    /// What was taken ahead in the poll that is looked at.
    taken: Option<(StreamId, Cookie, u32)>,
    fair: Option<Fair>,
    starvation: Option<Starvation>,
    promise: Option<Promise>,
    idle: Option<Idle>,
}

/// How close to their bounds things came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Margins {
    /// The most by which anyone got ahead of a waiting sibling, in thousandths of the allowed lag.
    pub lag: Option<u64>,
    /// The longest time for which a stream with something to send waited.
    pub longest: Option<Span>,
    /// The worst second of a min, in thousandths of it; `u64::MAX` if there was no whole second.
    pub worst_second: Option<u64>,
    /// The longest time for which a realtime client with something to send waited for a dispatch.
    pub realtime: Span,
    /// The most pieces of others that went before an overdue client of the idle class.
    pub before_idle: Option<u64>,
}

/// The name under which errors of the driver are reported.
const DRIVER: &str = "driver";

impl Audit {
    /// Auditors of `layer`, which was just created. From now on it publishes all its events.
    pub fn new(layer: &mut Layer) -> Self {
        let listener = layer.listen(Mask::ALL);
        let config = layer.config();
        Self {
            listener,
            model: Model::new(config),
            found: Found::default(),
            once: Once::default(),
            tags: Tags::default(),
            room: Room::default(),
            ledger: Ledger::new(config),
            slices: Slices::new(config),
            stalls: Stalls::new(config),
            flow: Flow::new(config),
            wakes: Wakes::new(),
            conserve: Conserve::new(config),
            durability: Durability::new(config),
            admission: Admission::default(),
            precedence: Precedence::new(config),
            priorities: Priorities::new(config),
            domains: Domains::new(config),
            realtime: Realtime::new(config),
            seconds: Seconds::new(config),
            tally: Tally::default(),
            taken: None,
            fair: None,
            starvation: None,
            promise: None,
            idle: None,
        }
    }

    /// The violations found so far.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The violations, when nothing more is to come.
    pub fn into_found(self) -> Found {
        self.found
    }

    /// The model of the layer.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// From now on also checks that nobody gets ahead of a waiting sibling by more than `lag` bytes of each and `owed` bytes of the
    /// lightest sibling, by weight, after the first `skip` turns.
    pub fn watch_shares(&mut self, lag: u64, owed: u64, skip: u64) {
        self.fair = Some(Fair::new(&self.model, lag, owed, skip));
    }

    /// From now on also checks that no stream with something to send waits longer than `bound` for its next dispatch.
    pub fn watch_waits(&mut self, bound: Span) {
        self.starvation = Some(Starvation::new(&self.model, bound));
    }

    /// From now on also checks that `least` thousandths of what is owed of each min are kept in every second that begins at `from`
    /// or later.
    pub fn watch_promises(&mut self, from: Instant, least: u64) {
        self.promise = Some(Promise::new(&self.model, from, least));
    }

    /// From now on also checks that each client of the idle class is served in time.
    pub fn watch_idle(&mut self) {
        self.idle = Some(Idle::new(&self.model));
    }

    /// From now on also checks that no realtime client with something to send waits longer than `bound` for a dispatch.
    pub fn watch_realtime(&mut self, bound: Span) {
        self.realtime.watch(bound);
    }

    /// The verdicts of the metrics about the promised seconds of all groups.
    pub fn seconds(&self) -> weir_measure::promise::Seconds {
        self.seconds.sums()
    }

    /// How often each kind of event occurred.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How close to their bounds things came, where they are watched.
    pub fn margins(&self) -> Margins {
        Margins {
            lag: self.fair.as_ref().map(Fair::worst),
            longest: self.starvation.as_ref().map(Starvation::longest),
            worst_second: self.promise.as_ref().map(Promise::worst),
            realtime: self.realtime.longest(),
            before_idle: self.idle.as_ref().map(Idle::most),
        }
    }

    /// Processes a call that was just made into `layer` with this result, and the events since the previous call.
    pub fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.model.advance(now);
        self.found.now = self.model.now;
        self.tell(&Fact::Begin(call));
        // Timers run first in every call but complete, so events come before the effect of the call; but a submitted request must
        // be known before its release.
        match call {
            Call::Poll { outputs, wake } => {
                self.drain(layer);
                for output in *outputs {
                    self.output(output);
                }
                self.take_ahead();
                self.tell(&Fact::Polled(outputs.len(), *wake));
            }
            Call::Submit { .. } | Call::Complete { .. } => {
                self.take_in(call);
                self.drain(layer);
            }
            _ => {
                self.drain(layer);
                self.take_in(call);
            }
        }
        self.found.call += 1;
    }

    /// Nothing more happens: the drive is idle, no stream is on hold, and the layer was polled as often as it asked for.
    pub fn end(&mut self) {
        self.tell(&Fact::End);
    }

    #[inline]
    fn tell(&mut self, fact: &Fact<'_>) {
        let Self { model, found, .. } = self;
        self.once.fact(model, fact, found);
        self.tags.fact(model, fact, found);
        self.room.fact(model, fact, found);
        self.ledger.fact(model, fact, found);
        self.slices.fact(model, fact, found);
        self.stalls.fact(model, fact, found);
        self.flow.fact(model, fact, found);
        self.wakes.fact(model, fact, found);
        self.conserve.fact(model, fact, found);
        self.durability.fact(model, fact, found);
        self.admission.fact(model, fact, found);
        self.precedence.fact(model, fact, found);
        self.priorities.fact(model, fact, found);
        self.domains.fact(model, fact, found);
        self.realtime.fact(model, fact, found);
        self.seconds.fact(model, fact, found);
        self.tally.fact(model, fact, found);
        if let Some(fair) = &mut self.fair {
            fair.fact(model, fact, found);
        }
        if let Some(starvation) = &mut self.starvation {
            starvation.fact(model, fact, found);
        }
        if let Some(promise) = &mut self.promise {
            promise.fact(model, fact, found);
        }
        if let Some(idle) = &mut self.idle {
            idle.fact(model, fact, found);
        }
    }

    fn drain(&mut self, layer: &mut Layer) {
        let lost = layer.drain(self.listener, self);
        if lost > 0 {
            self.found.add(
                DRIVER,
                format_args!("{lost} events were lost: sizes.events is too small"),
            );
        }
    }

    fn take_in(&mut self, call: &Call<'_>) {
        match *call {
            Call::Open {
                spec,
                result: Ok(id),
            } => {
                self.tell(&Fact::Opened(id, spec));
                self.model.opened(id, spec);
            }
            Call::Open { .. } | Call::Poll { .. } | Call::Note { .. } => {}
            Call::Close { stream } => {
                if self.model.stream(stream).is_some() {
                    self.tell(&Fact::Closed(stream));
                    self.model.closed(stream);
                }
            }
            Call::Hold { stream, held } => {
                if self.model.stream(stream).is_some() {
                    self.tell(&Fact::Held(stream, held));
                    self.model.held(stream, held);
                }
            }
            Call::Cancel {
                stream,
                cookie,
                found,
            } => {
                let slot = self.model.find(stream, cookie);
                self.tell(&Fact::Cancelled(slot, found));
                if let Some(slot) = slot {
                    self.model.give_up(slot);
                }
            }
            Call::Submit { batch, result } => self.submitted(batch, result),
            Call::Stall { space, stalled } => {
                self.tell(&Fact::Stalled(space, stalled));
                if stalled {
                    self.model.stall(space);
                }
            }
            Call::Complete { batch } => {
                for completion in batch {
                    let flight = self
                        .model
                        .tags
                        .get(completion.tag.0 as usize)
                        .copied()
                        .flatten();
                    let flight = flight.filter(|f| !f.busy);
                    self.tell(&Fact::Returned(completion, flight.as_ref()));
                    self.model.returned(completion);
                }
            }
            Call::Change { edits, result } => {
                if result.is_ok() && !self.model.changed(edits) {
                    self.found.add(
                        Admission::NAME,
                        format_args!("accepted an impossible change: {edits:?}"),
                    );
                }
                self.tell(&Fact::Changed(edits, &result));
            }
        }
    }

    fn submitted(&mut self, batch: &[Request], result: Result<(), Rejected>) {
        let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
        for request in &batch[..accepted.min(batch.len())] {
            match self.model.accepted(request) {
                Some(slot) => self.tell(&Fact::Accepted(slot)),
                None => self.found.add(
                    DRIVER,
                    format_args!(
                        "a cookie in use, or a request that cannot be accepted: {request:?}"
                    ),
                ),
            }
        }
        if let (Err(rejected), Some(request)) = (result, batch.get(accepted)) {
            self.tell(&Fact::Refused(request, rejected.reason));
        }
    }

    fn take_ahead(&mut self) {
        let Some((stream, cookie, bytes)) = self.taken.take() else {
            return;
        };
        let slot = self.model.find(stream, cookie);
        self.tell(&Fact::Taken(slot, bytes));
        if let Some(slot) = slot {
            self.model.taken(slot, bytes);
        }
    }

    #[inline]
    fn output(&mut self, output: &Output) {
        match *output {
            Output::Dispatch(piece) => {
                let slot = self.model.find(piece.stream, piece.cookie);
                let again = self.model.is_repetition(&piece);
                self.tell(&Fact::Dispatched {
                    slot,
                    piece: &piece,
                    again,
                });
                if let Some(slot) = slot {
                    self.model.dispatched(slot, &piece);
                }
            }
            Output::Done(done) => {
                let slot = self.model.find(done.stream, done.cookie);
                self.tell(&Fact::Done(slot, &done));
                if let Some(slot) = slot {
                    self.model.done(slot);
                }
            }
            Output::Pause(stream) => self.tell(&Fact::Pause(stream)),
            Output::Resume(stream) => self.tell(&Fact::Resume(stream)),
        }
    }
}

impl Publish for Audit {
    #[inline]
    fn publish(&mut self, _now: Instant, event: Event) {
        match event {
            Event::Released {
                stream,
                cookie,
                bytes,
                ..
            } => {
                let slot = self.model.find(stream, cookie);
                self.tell(&Fact::Released(slot, bytes));
                if let Some(slot) = slot {
                    self.model.released(slot);
                }
            }
            Event::Throttled { stream, cookie } => {
                self.tell(&Fact::Event(&event));
                if let Some(slot) = self.model.find(stream, cookie) {
                    self.model.throttled(slot);
                }
            }
            Event::Passed { stream, cookie } => {
                self.tell(&Fact::Event(&event));
                if let Some(slot) = self.model.find(stream, cookie) {
                    self.model.passed(slot);
                }
            }
            Event::Merged {
                stream,
                cookie,
                leader,
                command,
            } => {
                let slot = self.model.find(stream, cookie);
                let leader = self.model.find(leader, command);
                self.tell(&Fact::Merged(slot, leader));
                if let (Some(slot), Some(leader)) = (slot, leader) {
                    self.model.merged(slot, leader);
                }
            }
            Event::Parted { stream, cookie } => {
                let slot = self.model.find(stream, cookie);
                self.tell(&Fact::Parted(slot));
                if let Some(slot) = slot {
                    self.model.parted(slot);
                }
            }
            Event::Taken {
                stream,
                cookie,
                bytes,
            } => {
                // It is the last that a poll does; what the same poll dispatches comes before it.
                self.taken = Some((stream, cookie, bytes));
            }
            _ => self.tell(&Fact::Event(&event)),
        }
    }
}
