//! A layer with auditors beside it.

use crate::audit::Audit;
use crate::found::Found;
use weir_core::record::{Call, Recorded, Recorder};
use weir_core::{
    Completion, Config, ConfigError, Cookie, Edit, Instant, Layer, OpenError, Output, Promised,
    Refusal, Rejected, Request, StreamId, StreamSpec, Wake,
};

/// A [`Layer`] that is audited, and recorded if that is asked for. Its methods are the layer's.
#[derive(Debug)]
pub struct Audited {
    layer: Recorded,
    audit: Audit,
}

impl Audited {
    /// A new layer with every auditor there is; `record` says whether its calls are recorded, too.
    ///
    /// # Errors
    /// As [`Layer::new`].
    pub fn new(config: Config, record: bool) -> Result<Self, ConfigError> {
        let mut layer = Recorded::new(config, record)?;
        let audit = Audit::new(layer.layer_mut());
        Ok(Self { layer, audit })
    }

    /// The layer: its counters and gauges.
    pub fn layer(&self) -> &Layer {
        self.layer.layer()
    }

    /// The auditors.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The auditors, to have them watch more.
    pub fn audit_mut(&mut self) -> &mut Audit {
        &mut self.audit
    }

    /// What was found so far.
    pub fn found(&self) -> &Found {
        self.audit.found()
    }

    /// The record, if one is made.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.layer.recorder()
    }

    /// As [`Layer::open`].
    ///
    /// # Errors
    /// As there.
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
    /// As there.
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

    /// As [`Layer::change`].
    ///
    /// # Errors
    /// As there.
    pub fn change(&mut self, now: Instant, edits: &[Edit]) -> Result<Promised, Refusal> {
        let result = self.layer.change(now, edits);
        self.tell(now, &Call::Change { edits, result });
        result
    }

    /// As [`Layer::poll`].
    pub fn poll(&mut self, now: Instant, out: &mut Vec<Output>) -> Option<Wake> {
        let before = out.len();
        let wake = self.layer.poll(now, out);
        let outputs = &out[before..];
        self.tell(now, &Call::Poll { outputs, wake });
        wake
    }

    /// Nothing more happens: nothing is in the drive, no stream is on hold, and the layer was polled as often as it asked for.
    pub fn end(&mut self) {
        self.audit.end();
    }

    #[inline]
    fn tell(&mut self, now: Instant, call: &Call<'_>) {
        self.audit.call(now, call, self.layer.layer_mut());
    }
}
