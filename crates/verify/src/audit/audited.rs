//! A layer that is observed by auditors.

use crate::audit::suite::Audit;
use weir_core::record::{Call, ObservedLayer, Observer, Recorder};
use weir_core::{Config, ConfigError, Instant, Layer};

/// A [`Layer`] that is audited and, if requested, recorded.
pub type Audited = ObservedLayer<Witness>;

/// The observer of an audited layer: all auditors and an optional recorder.
#[derive(Debug)]
pub struct Witness {
    /// The auditors of the layer.
    pub audit: Audit,
    /// The record of all calls, if one is made.
    pub recorder: Option<Recorder>,
}

impl Witness {
    /// Creates a layer that is audited from its first call on. With `record`, its calls are also
    /// recorded.
    ///
    /// # Errors
    /// Returns the errors of [`Layer::new`].
    pub fn audited_layer(config: Config, record: bool) -> Result<Audited, ConfigError> {
        let recorder = record.then(|| Recorder::new(&config));
        let mut layer = Layer::new(config)?;
        let audit = Audit::new(&mut layer);
        Ok(ObservedLayer::new(layer, Self { audit, recorder }))
    }
}

impl Observer for Witness {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.recorder.call(now, call, layer);
        self.audit.call(now, call, layer);
    }
}
