//! A layer whose calls are observed.

use super::{Call, Recorder};
use crate::{
    Completion, Cookie, Edit, Instant, Layer, OpenError, Output, PromiseSums, Refusal, Rejection,
    Request, SpaceId, StreamId, StreamSpec, Wake,
};
use alloc::vec::Vec;

/// A receiver of every call into a layer with its results, such as a recorder, an auditor or a
/// plot.
pub trait Observer {
    /// Receives a call that was made at `now`, including its results and outputs.
    ///
    /// An observer may read the layer, [`sample`](Layer::sample) it, and [`listen`](Layer::listen)
    /// to it and [`drain`](Layer::drain) it as a listener of its own. An observer must not make
    /// calls that change the layer's decisions.
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

/// A [`Layer`] with an observer. It has the methods of the layer. Without an observer, they cost
/// only one additional test.
#[derive(Debug)]
pub struct ObservedLayer<O> {
    layer: Layer,
    observer: O,
}

/// A layer that writes its record if it has a recorder.
pub type RecordedLayer = ObservedLayer<Option<Recorder>>;

impl<O: Observer> ObservedLayer<O> {
    /// Creates an observed layer. `layer` should be new, because the observer does not receive
    /// earlier calls.
    pub fn new(layer: Layer, observer: O) -> Self {
        Self { layer, observer }
    }

    /// Returns the layer, for its counters and gauges.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Returns the layer, to [`listen`](Layer::listen) to it and to [`drain`](Layer::drain) it. The
    /// observer does not receive calls that are made into it directly.
    pub fn layer_mut(&mut self) -> &mut Layer {
        &mut self.layer
    }

    /// Returns a reference to the observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns a mutable reference to the observer.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Returns the observer and drops the layer.
    pub fn into_observer(self) -> O {
        self.observer
    }

    /// Returns the layer and drops the observer.
    pub fn into_layer(self) -> Layer {
        self.layer
    }

    /// Opens a stream, as [`Layer::open`] does.
    ///
    /// # Errors
    /// Fails as [`Layer::open`] does.
    pub fn open(&mut self, now: Instant, spec: StreamSpec) -> Result<StreamId, OpenError> {
        let result = self.layer.open(now, spec);
        // The observer is called after the layer, because it receives the results and may read the
        // layer.
        self.notify_observer(now, &Call::Open { spec, result });
        result
    }

    /// Closes a stream, as [`Layer::close`] does.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.layer.close(now, stream);
        self.notify_observer(now, &Call::Close { stream });
    }

    /// Puts a stream on hold or ends that, as [`Layer::hold`] does.
    pub fn hold(&mut self, now: Instant, stream: StreamId, held: bool) {
        self.layer.hold(now, stream, held);
        self.notify_observer(now, &Call::Hold { stream, held });
    }

    /// Cancels a request, as [`Layer::cancel`] does.
    pub fn cancel(&mut self, now: Instant, stream: StreamId, cookie: Cookie) -> bool {
        let found = self.layer.cancel(now, stream, cookie);
        self.notify_observer(
            now,
            &Call::Cancel {
                stream,
                cookie,
                found,
            },
        );
        found
    }

    /// Submits requests, as [`Layer::submit`] does.
    ///
    /// # Errors
    /// Fails as [`Layer::submit`] does.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejection> {
        let result = self.layer.submit(now, batch);
        self.notify_observer(now, &Call::Submit { batch, result });
        result
    }

    /// Completes pieces, as [`Layer::complete`] does.
    pub fn complete(&mut self, now: Instant, batch: &[Completion]) {
        self.layer.complete(now, batch);
        self.notify_observer(now, &Call::Complete { batch });
    }

    /// Reports a stalled space, as [`Layer::stall`] does.
    pub fn stall(&mut self, now: Instant, space: SpaceId) -> bool {
        let stalled = self.layer.stall(now, space);
        self.notify_observer(now, &Call::Stall { space, stalled });
        stalled
    }

    /// Applies edits, as [`Layer::change`] does.
    ///
    /// # Errors
    /// Fails as [`Layer::change`] does.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<PromiseSums, Refusal> {
        let result = self.layer.change(now, edits);
        self.notify_observer(now, &Call::Change { edits, result });
        result
    }

    /// Decides about the next actions, as [`Layer::poll`] does.
    pub fn poll(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        // The caller may collect the outputs of several calls in `out`, of which only the new ones
        // belong to this call.
        let before = out.len();
        let wake = self.layer.poll(now, out);
        self.notify_observer(
            now,
            &Call::Poll {
                outputs: &out[before..],
                wake,
            },
        );
        wake
    }

    #[inline]
    fn notify_observer(&mut self, now: Instant, call: &Call<'_>) {
        self.observer.call(now, call, &mut self.layer);
    }
}
