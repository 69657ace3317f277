//! A layer that is watched.

use weir_core::record::{Call, Recorder};
use weir_core::{
    Completion, Config, ConfigError, Cookie, Edit, Event, Instant, Layer, Mask, OpenError, Output,
    Promised, Publish, Refusal, Rejected, Request, StreamId, StreamSpec, Wake,
};

/// Someone who sees every call into the layer, what came of it, and what the layer decided: auditors, recorders, plots.
pub trait Observer {
    /// A call was made at `now`; results and outputs are in it.
    fn call(&mut self, now: Instant, call: &Call<'_>);

    /// Whether it wants to see events, too.
    fn wants_events(&self) -> bool {
        false
    }

    /// The layer decided something in the course of the last call, which [`Self::call`] has been told of. Shown to everyone if
    /// anyone wants events.
    fn event(&mut self, _at: Instant, _event: &Event) {}
}

impl Observer for Recorder {
    fn call(&mut self, now: Instant, call: &Call<'_>) {
        self.append(now, call);
    }
}

/// A [`Layer`] and those who watch it. Its methods are the layer's; while nobody watches they cost one test more.
pub(crate) struct Watched<'a> {
    layer: Layer,
    observers: Vec<&'a mut dyn Observer>,
    wants_events: bool,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(
        config: Config,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Result<Self, ConfigError> {
        let mut layer = Layer::new(config)?;
        let wants_events = observers.iter().any(|o| o.wants_events());
        if wants_events {
            layer.listen(Mask::ALL);
        }
        Ok(Self {
            layer,
            observers,
            wants_events,
        })
    }

    pub(crate) fn layer(&self) -> &Layer {
        &self.layer
    }

    pub(crate) fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let result = self.layer.open(now, spec);
        self.show(now, &Call::Open { spec, result });
        result
    }

    pub(crate) fn close(&mut self, now: Instant, stream: StreamId) {
        self.layer.close(now, stream);
        self.show(now, &Call::Close { stream });
    }

    pub(crate) fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        self.layer.hold(now, stream, held);
        self.show(now, &Call::Hold { stream, held });
    }

    pub(crate) fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) {
        let found = self.layer.cancel(now, stream, cookie);
        let call = Call::Cancel {
            stream,
            cookie,
            found,
        };
        self.show(now, &call);
    }

    #[inline]
    pub(crate) fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let result = self.layer.submit(now, batch);
        self.show(now, &Call::Submit { batch, result });
        result
    }

    #[inline]
    pub(crate) fn complete(&mut self, now: Instant, batch: &[Completion]) {
        self.layer.complete(now, batch);
        self.show(now, &Call::Complete { batch });
    }

    pub(crate) fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let result = self.layer.change(now, edits);
        self.show(now, &Call::Change { edits, result });
        result
    }

    /// As [`Layer::poll`]; `outputs` is empty before.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, outputs: &mut Vec<Output>) -> Option<Wake> {
        debug_assert!(outputs.is_empty());
        let wake = self.layer.poll(now, outputs);
        self.show(now, &Call::Poll { outputs, wake });
        wake
    }

    #[inline]
    fn show(&mut self, now: Instant, call: &Call<'_>) {
        if !self.observers.is_empty() {
            self.show_all(now, call);
        }
    }

    #[cold]
    fn show_all(&mut self, now: Instant, call: &Call<'_>) {
        for observer in &mut self.observers {
            observer.call(now, call);
        }
        if self.wants_events {
            self.layer.drain(&mut Everyone(&mut self.observers));
        }
    }
}

struct Everyone<'l, 'a>(&'l mut [&'a mut dyn Observer]);

impl Publish for Everyone<'_, '_> {
    fn publish(&mut self, now: Instant, event: Event) {
        for observer in self.0.iter_mut() {
            observer.event(now, &event);
        }
    }
}
