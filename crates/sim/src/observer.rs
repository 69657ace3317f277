//! A layer that is watched.

use weir_audit::{Audit, Found};
use weir_core::record::{Call, Recorder};
use weir_core::{
    Completion, Config, ConfigError, Cookie, Edit, Instant, Layer, OpenError, Output, Promised,
    Refusal, Rejected, Request, StreamId, StreamSpec, Wake,
};

/// Someone who sees every call into the layer and what came of it: auditors, recorders, plots.
pub trait Observer {
    /// A call was made at `now`; results and outputs are in it.
    ///
    /// The layer is there to be looked at, and to [`listen`](Layer::listen) to and [`drain`](Layer::drain); an event goes to whom
    /// drains first. Calls that change its state are not for observers.
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer);
}

impl Observer for Recorder {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        self.append(now, call);
    }
}

/// Every auditor there is.
#[derive(Debug, Default)]
pub struct Auditors {
    /// From the first call on.
    audit: Option<Audit>,
}

impl Auditors {
    /// Auditors who have seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What they found, when nothing more is to come. `idle` says that every request was answered and nothing is on hold, which
    /// lets them check that nothing was left over.
    pub fn end(self, idle: bool) -> Found {
        self.audit.map_or_else(Found::default, |mut audit| {
            if idle {
                audit.end();
            }
            audit.into_found()
        })
    }
}

impl Observer for Auditors {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        // The first call was made before there was a layer to listen to; it has published nothing.
        let audit = self.audit.get_or_insert_with(|| Audit::new(layer));
        audit.call(now, call, layer);
    }
}

/// A [`Layer`] and those who watch it. Its methods are the layer's; while nobody watches they cost one test more.
pub(crate) struct Watched<'a> {
    layer: Layer,
    observers: Vec<&'a mut dyn Observer>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(
        config: Config,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            layer: Layer::new(config)?,
            observers,
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
            observer.call(now, call, &mut self.layer);
        }
    }
}
