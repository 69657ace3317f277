//! Asking the shards how things stand, from any thread and beside the server.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::figures::DriveFigures;
use crate::metrics::{Detail, DriveSnapshot, text};
use crate::shard::{Address, Mail};

/// How long the shards may take to say how things stand.
const PATIENCE: Duration = Duration::from_secs(1);

/// A way to ask a running server how things stand. It costs each shard one message, and waits for the answers for at most a second.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(crate) shards: Vec<Address>,
}

impl Watch {
    /// Every drive, in the order of their names; `None` if a shard does not answer: it has failed, or the server has ended.
    pub fn figures(&self) -> Option<Vec<DriveFigures>> {
        let drives = self.snapshots(Detail::Sums)?;
        Some(drives.into_iter().map(DriveFigures::of).collect())
    }

    /// All metrics, in the text format of `OpenMetrics` 1.0.0; `None` if a shard does not answer.
    pub fn metrics(&self) -> Option<String> {
        Some(text::render(&self.snapshots(Detail::Histograms)?))
    }

    /// Asks every shard, all at once.
    fn snapshots(&self, detail: Detail) -> Option<Vec<DriveSnapshot>> {
        let (sender, receiver) = channel();
        for shard in &self.shards {
            shard.tell(Mail::Snapshot(detail, sender.clone()));
        }
        drop(sender);
        let deadline = Instant::now() + PATIENCE;
        let mut drives = Vec::new();
        for _ in &self.shards {
            let left = deadline.saturating_duration_since(Instant::now());
            drives.extend(receiver.recv_timeout(left).ok()?);
        }
        drives.sort_by(|a: &DriveSnapshot, b| a.name.cmp(&b.name));
        Some(drives)
    }
}
