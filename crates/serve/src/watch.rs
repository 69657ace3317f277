//! Asking the shards how things stand, from any thread and beside the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use weir_config::Room;

use crate::metrics::figures::DriveFigures;
use crate::metrics::{Detail, text};
use crate::shard::{Address, Mail};

/// How long the shards may take to say how things stand.
const PATIENCE: Duration = Duration::from_secs(1);

/// A way to ask a running server how things stand. It costs each shard one message, and waits for the answers for at most a second.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(crate) shards: Vec<Address>,
    /// What each thread that serves has until it ends.
    pub(crate) threads: Vec<Weak<()>>,
    /// [`Options::log_dropped`](crate::Options::log_dropped).
    pub(crate) log_dropped: Arc<AtomicU64>,
}

impl Watch {
    /// Whether every shard and the acceptor run. A thread that has ended has failed and logged why:
    /// drives are not served any more, or no client can connect, so the process should end and be
    /// started again.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(|alive| alive.strong_count() > 0)
    }

    /// Every drive, in the order of their names; `None` if a shard does not answer: it has failed, or the server has ended.
    pub fn figures(&self) -> Option<Vec<DriveFigures>> {
        self.snapshots(Detail::Usual)
    }

    /// All metrics, as text of the type [`CONTENT_TYPE`](crate::CONTENT_TYPE), with what of each drive is promised and left, by the drive's name;
    /// `None` if a shard does not answer.
    pub fn metrics(&self, rooms: &BTreeMap<String, Room>, detail: Detail) -> Option<String> {
        let mut drives = self.snapshots(detail)?;
        for drive in &mut drives {
            drive.room = rooms.get(&drive.name).cloned().unwrap_or_default();
        }
        let log_dropped = self.log_dropped.load(Ordering::Relaxed);
        Some(text::render(&drives, detail, log_dropped))
    }

    /// Asks every shard, all at once.
    fn snapshots(&self, detail: Detail) -> Option<Vec<DriveFigures>> {
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
        drives.sort_by(|a: &DriveFigures, b| a.name.cmp(&b.name));
        Some(drives)
    }
}
