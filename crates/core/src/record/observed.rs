//! A layer whose calls are observed.

use super::{Call, Recorder};
use crate::{
    Completion, Cookie, Edit, Instant, Layer, OpenError, Output, Promised, Refusal, Rejected,
    Request, SpaceId, StreamId, StreamSpec, Wake,
};
use alloc::vec::Vec;

/// A listener that is told of every call into a layer and what came of it: recorders, auditors, plots.
pub trait Observer {
    /// A call was made at `now`; results and outputs are in it.
    ///
    /// The layer is there to be looked at, to [`sample`](Layer::sample), and to [`listen`](Layer::listen) to and
    /// [`drain`](Layer::drain): each observer as a listener of its own. Calls that change its state are not for observers.
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer);
}

impl Observer for Recorder {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        self.append(now, call);
    }
}

impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        if let Some(observer) = self {
            observer.call(now, call, layer);
        }
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        (**self).call(now, call, layer);
    }
}

impl<O: Observer> Observer for Vec<O> {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        for observer in self {
            observer.call(now, call, layer);
        }
    }
}

/// A [`Layer`] and its observer. Its methods are the layer's; without an observer they cost one test more.
#[derive(Debug)]
pub struct Observed<O> {
    layer: Layer,
    observer: O,
}

/// A layer that writes its record if it is asked to.
pub type Recorded = Observed<Option<Recorder>>;

impl<O: Observer> Observed<O> {
    /// Calls into `layer`, just made, are from now on told to `observer`.
    pub fn new(layer: Layer, observer: O) -> Self {
        Self { layer, observer }
    }

    /// The layer: its counters and gauges.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The layer, to [`listen`](Layer::listen) to it and to [`drain`](Layer::drain) it. Of calls made into it directly the observer
    /// does not hear.
    pub fn layer_mut(&mut self) -> &mut Layer {
        &mut self.layer
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to be asked.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Nothing more happens: the observer.
    pub fn into_observer(self) -> O {
        self.observer
    }

    /// Nothing more is told to the observer: the layer.
    pub fn into_layer(self) -> Layer {
        self.layer
    }

    /// As [`Layer::open`].
    ///
    /// # Errors
    /// Those of [`Layer::open`].
    pub fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let result = self.layer.open(now, spec);
        self.tell(now, &Call::Open { spec, result });
        result
    }

    /// As [`Layer::close`].
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.layer.close(now, stream);
        self.tell(now, &Call::Close { stream });
    }

    /// As [`Layer::hold`].
    pub fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        self.layer.hold(now, stream, held);
        self.tell(now, &Call::Hold { stream, held });
    }

    /// As [`Layer::cancel`].
    pub fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) -> bool {
        let found = self.layer.cancel(now, stream, cookie);
        self.tell(
            now,
            &Call::Cancel {
                stream,
                cookie,
                found,
            },
        );
        found
    }

    /// As [`Layer::submit`].
    ///
    /// # Errors
    /// Those of [`Layer::submit`].
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let result = self.layer.submit(now, batch);
        self.tell(now, &Call::Submit { batch, result });
        result
    }

    /// As [`Layer::complete`].
    pub fn complete(&mut self, now: Instant, batch: &[Completion]) {
        self.layer.complete(now, batch);
        self.tell(now, &Call::Complete { batch });
    }

    /// As [`Layer::stall`].
    pub fn stall(&mut self, now: Instant, space: SpaceId) -> bool {
        let stalled = self.layer.stall(now, space);
        self.tell(now, &Call::Stall { space, stalled });
        stalled
    }

    /// As [`Layer::change`].
    ///
    /// # Errors
    /// Those of [`Layer::change`].
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let result = self.layer.change(now, edits);
        self.tell(now, &Call::Change { edits, result });
        result
    }

    /// As [`Layer::poll`].
    pub fn poll(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let before = out.len();
        let wake = self.layer.poll(now, out);
        self.tell(
            now,
            &Call::Poll {
                outputs: &out[before..],
                wake,
            },
        );
        wake
    }

    #[inline]
    fn tell(&mut self, now: Instant, call: &Call<'_>) {
        self.observer.call(now, call, &mut self.layer);
    }
}
