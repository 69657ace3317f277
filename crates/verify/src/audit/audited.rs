//! A layer with auditors beside it.

use crate::audit::suite::Audit;
use weir_core::record::{Call, Observed, Observer, Recorder};
use weir_core::{Config, ConfigError, Instant, Layer};

/// A [`Layer`] that is audited, and recorded if that is asked for.
pub type Audited = Observed<Witness>;

/// All auditors, and a recorder if the calls are to be recorded, too.
#[derive(Debug)]
pub struct Witness {
    /// The auditors.
    pub audit: Audit,
    /// The record, if one is made.
    pub recorder: Option<Recorder>,
}

impl Witness {
    /// A new layer that is audited from its first call on; `record` says whether its calls are also recorded.
    ///
    /// # Errors
    /// As [`Layer::new`].
    pub fn beside(config: Config, record: bool) -> Result<Audited, ConfigError> {
        let recorder = record.then(|| Recorder::new(&config));
        let mut layer = Layer::new(config)?;
        let audit = Audit::new(&mut layer);
        Ok(Observed::new(layer, Self { audit, recorder }))
    }
}

impl Observer for Witness {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.recorder.call(now, call, layer);
        self.audit.call(now, call, layer);
    }
}
