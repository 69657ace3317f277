//! The observers of a drive's layer: its recording, if it has one, and the journal that explains
//! the latency of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::record::{Call, ObservedLayer, Observer, Recorder};
use weir_core::{GroupId, Instant, Layer};
use weir_measure::explain::{Journal, JournalSnapshot};

/// A layer that reports all its calls to a [`LayerObservers`].
pub(crate) type ShardLayer = ObservedLayer<LayerObservers>;

/// The observers of a layer.
#[derive(Debug)]
pub(crate) struct LayerObservers {
    pub(crate) recorder: Option<Recorder>,
    pub(super) journal: Journal,
    /// The names of the groups, for reports of the journal.
    pub(super) names: Arc<GroupNames>,
}

/// The names of groups by their ids.
pub(crate) type GroupNames = BTreeMap<GroupId, String>;

/// The journal's view of a volume, with the names of the drive's groups.
#[derive(Debug)]
pub(crate) struct JournalView {
    pub(crate) view: JournalSnapshot,
    pub(crate) names: Arc<GroupNames>,
}

impl LayerObservers {
    /// Creates the observers. The journal uses `bytes` of memory.
    pub(super) fn new(recorder: Option<Recorder>, bytes: usize) -> Self {
        Self {
            recorder,
            journal: Journal::new(bytes),
            names: Arc::default(),
        }
    }
}

impl Observer for LayerObservers {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.recorder.call(now, call, layer);
        self.journal.call(now, call, layer);
    }
}
