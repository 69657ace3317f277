//! What sees every call into a drive's layer: its record, if it has one, and the journal that explains the latency of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::record::{Call, Observed, Observer, Recorder};
use weir_core::{GroupId, Instant, Layer};
use weir_measure::explain::{Journal, View};

/// A layer whose calls are seen.
pub(crate) type SeenLayer = Observed<Seen>;

/// The observers of a layer.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) recorder: Option<Recorder>,
    pub(super) journal: Journal,
    /// What groups are called.
    pub(super) names: Arc<Names>,
}

/// The names of groups.
pub(crate) type Names = BTreeMap<GroupId, String>;

/// What explains a volume's requests, and what the drive's groups are called.
#[derive(Debug)]
pub(crate) struct Viewed {
    pub(crate) view: View,
    pub(crate) names: Arc<Names>,
}

impl Seen {
    /// `bytes`: what the journal takes of memory.
    pub(super) fn new(recorder: Option<Recorder>, bytes: usize) -> Self {
        Self {
            recorder,
            journal: Journal::new(bytes),
            names: Arc::default(),
        }
    }
}

impl Observer for Seen {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.recorder.call(now, call, layer);
        self.journal.call(now, call, layer);
    }
}
