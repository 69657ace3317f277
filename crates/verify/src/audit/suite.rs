//! The suite of all auditors over one model.

use crate::audit::model::LayerModel;
use crate::audit::{
    Admission, Auditor, Conserve, Domains, Durability, Fact, Fair, FlowAuditor, Idle, LimitLedger,
    Once, Precedence, Priorities, PromiseAuditor, Realtime, RoomAuditor, SecondsAuditor,
    SlicesAuditor, StallsAuditor, Starvation, Tags, Tally, Violations, WakesAuditor,
};
use weir_core::record::Call;
use weir_core::{
    Cookie, Event, Instant, Layer, Listener, Mask, Output, Publish, Rejection, Request, Span,
    StreamId,
};

/// Defines [`Audit`] from two lists: the auditors of every run, each with its constructor, and
/// those that run on request.
macro_rules! auditors {
    ($config:ident: $($name:ident: $type:ty = $new:expr,)* ; $($asked:ident: $on_request:ty,)*) => {
        /// All auditors, over one model.
        ///
        /// An audit receives every call into a layer from the layer's creation on, and the events
        /// that the layer published. The driver must use different cookies for the live requests of
        /// a stream.
        #[derive(Debug)]
        pub struct Audit {
            listener: Listener,
            model: LayerModel,
            found: Violations,
            /// The request of which a piece was taken ahead in the current poll, and the length of
            /// the piece.
            taken: Option<(StreamId, Cookie, u32)>,
            $($name: $type,)*
            $($asked: Option<$on_request>,)*
        }

        impl Audit {
            /// Creates the auditors of `layer`, which must have been created just now. From now on
            /// the layer publishes all its events.
            pub fn new(layer: &mut Layer) -> Self {
                let listener = layer.listen(Mask::ALL);
                let $config = layer.config();
                Self {
                    listener,
                    model: LayerModel::new($config),
                    found: Violations::default(),
                    taken: None,
                    $($name: $new,)*
                    $($asked: None,)*
                }
            }

            #[inline]
            fn tell(&mut self, fact: &Fact<'_>) {
                let Self { model, found, .. } = self;
                $(
                    found.auditor = <$type>::NAME;
                    self.$name.fact(model, fact, found);
                )*
                $(if let Some(auditor) = &mut self.$asked {
                    found.auditor = <$on_request>::NAME;
                    auditor.fact(model, fact, found);
                })*
            }
        }
    };
}

auditors! { config:
    once: Once = Once::default(),
    tags: Tags = Tags::default(),
    room: RoomAuditor = RoomAuditor::default(),
    ledger: LimitLedger = LimitLedger::new(config),
    slices: SlicesAuditor = SlicesAuditor::new(config),
    stalls: StallsAuditor = StallsAuditor::new(config),
    flow: FlowAuditor = FlowAuditor::new(config),
    wakes: WakesAuditor = WakesAuditor::new(),
    conserve: Conserve = Conserve::new(config),
    durability: Durability = Durability::new(config),
    admission: Admission = Admission::default(),
    precedence: Precedence = Precedence::new(config),
    priorities: Priorities = Priorities::new(config),
    domains: Domains = Domains::new(config),
    realtime: Realtime = Realtime::new(config),
    seconds: SecondsAuditor = SecondsAuditor::new(config),
    tally: Tally = Tally::default(),
    ;
    fair: Fair,
    starvation: Starvation,
    promise: PromiseAuditor,
    idle: Idle,
}

/// The margins of a run: how close the checked values came to their bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AuditMargins {
    /// The largest lead over a waiting sibling, in thousandths of the allowed lag.
    pub lag: Option<u64>,
    /// The longest time for which a stream with something to send waited.
    pub longest: Option<Span>,
    /// The worst second of a min, in thousandths of it. `u64::MAX` if there was no whole second.
    pub worst_second: Option<u64>,
    /// The longest time for which a realtime client with something to send waited for a dispatch.
    pub realtime: Span,
    /// The largest number of pieces of others that went before an overdue client of the idle class.
    pub before_idle: Option<u64>,
}

/// The name under which errors of the driver are reported.
const DRIVER: &str = "driver";

impl Audit {
    /// Returns the violations found so far.
    pub fn found(&self) -> &Violations {
        &self.found
    }

    /// Ends the audit and returns the violations.
    pub fn into_found(self) -> Violations {
        self.found
    }

    /// Returns the model of the layer.
    pub fn model(&self) -> &LayerModel {
        &self.model
    }

    /// Starts to check shares: no entity gets ahead of a waiting sibling by more than `lag` bytes
    /// of each and `owed` bytes of the lightest sibling, by weight, after the first `skip` turns.
    pub fn watch_shares(&mut self, lag: u64, owed: u64, skip: u64) {
        self.fair = Some(Fair::new(&self.model, lag, owed, skip));
    }

    /// Starts to check that no stream with something to send waits longer than `bound` for its next
    /// dispatch.
    pub fn watch_waits(&mut self, bound: Span) {
        self.starvation = Some(Starvation::new(&self.model, bound));
    }

    /// Starts to check promises: every second that begins at `from` or later keeps `least`
    /// thousandths of the amount owed for each min.
    pub fn watch_promises(&mut self, from: Instant, least: u64) {
        self.promise = Some(PromiseAuditor::new(&self.model, from, least));
    }

    /// Starts to check that each client of the idle class is served in time.
    pub fn watch_idle(&mut self) {
        self.idle = Some(Idle::new(&self.model));
    }

    /// Starts to check that no realtime client with something to send waits longer than `bound` for
    /// a dispatch.
    pub fn watch_realtime(&mut self, bound: Span) {
        self.realtime.watch(bound);
    }

    /// Returns the verdicts of the metrics about the promised seconds of all groups.
    pub fn seconds(&self) -> weir_measure::promise::Seconds {
        self.seconds.sums()
    }

    /// Returns the number of occurrences of each kind of event.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the margins of the values that are checked.
    pub fn margins(&self) -> AuditMargins {
        AuditMargins {
            lag: self.fair.as_ref().map(Fair::worst),
            longest: self.starvation.as_ref().map(Starvation::longest),
            worst_second: self.promise.as_ref().map(PromiseAuditor::worst),
            realtime: self.realtime.longest(),
            before_idle: self.idle.as_ref().map(Idle::most),
        }
    }

    /// Processes a call that was just made into `layer` with this result, and the events since the
    /// previous call.
    pub fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.model.advance(now);
        self.found.now = self.model.now;
        self.tell(&Fact::Begin(call));
        // Timers run first in every call except `complete`, so that their events come before the
        // effect of the call. A submitted request, however, must be known before its release.
        match call {
            Call::Poll { outputs, wake } => {
                self.drain(layer);
                for output in *outputs {
                    self.output(output);
                }
                self.process_taken();
                self.tell(&Fact::Polled(outputs.len(), *wake));
            }
            Call::Submit { .. } | Call::Complete { .. } => {
                self.process_call(call);
                self.drain(layer);
            }
            _ => {
                self.drain(layer);
                self.process_call(call);
            }
        }
        self.found.call += 1;
    }

    /// Ends the audit of a layer without further calls. The drive must be idle, no stream on hold,
    /// and the layer polled as often as it requested.
    pub fn end(&mut self) {
        self.tell(&Fact::End);
    }

    fn drain(&mut self, layer: &mut Layer) {
        let lost = layer.drain(self.listener, self);
        // Lost events would make every auditor report false violations.
        if lost > 0 {
            self.found.auditor = DRIVER;
            self.found.add(format_args!(
                "{lost} events were lost: sizes.events is too small"
            ));
        }
    }

    fn process_call(&mut self, call: &Call<'_>) {
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
                    // A busy piece was already returned, so that another completion of its tag is
                    // stray.
                    let flight = flight.filter(|f| !f.busy);
                    self.tell(&Fact::Returned(completion, flight.as_ref()));
                    self.model.returned(completion);
                }
            }
            Call::Change { edits, result } => {
                // The model knows which edits are impossible, and the auditor of admission reports
                // them.
                if result.is_ok() && !self.model.changed(edits) {
                    self.found.auditor = Admission::NAME;
                    self.found
                        .add(format_args!("accepted an impossible change: {edits:?}"));
                }
                self.tell(&Fact::Changed(edits, &result));
            }
        }
    }

    fn submitted(&mut self, batch: &[Request], result: Result<(), Rejection>) {
        // A refusal states how many requests before it were accepted.
        let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
        for request in &batch[..accepted.min(batch.len())] {
            if let Some(slot) = self.model.accepted(request) {
                self.tell(&Fact::Accepted(slot));
            } else {
                self.found.auditor = DRIVER;
                self.found.add(format_args!(
                    "a cookie in use, or a request that cannot be accepted: {request:?}"
                ));
            }
        }
        if let (Err(rejected), Some(request)) = (result, batch.get(accepted)) {
            self.tell(&Fact::Refused(request, rejected.reason));
        }
    }

    fn process_taken(&mut self) {
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
                self.tell(&Fact::Dispatched(slot, &piece, again));
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
                // A poll takes a piece ahead at its very end, after everything that it dispatches.
                self.taken = Some((stream, cookie, bytes));
            }
            _ => self.tell(&Fact::Event(&event)),
        }
    }
}
