//! Queries the shards for their figures, from any thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use weir_config::DriveRoom;

use crate::access::Refusals;
use crate::metrics::figures::DriveFigures;
use crate::metrics::{Detail, text};
use crate::shard::{Mail, ShardAddress};

/// The longest time that a query waits for the shards.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handle for querying a running server. A query costs each shard one message, and waits for the
/// replies for at most one second.
#[derive(Clone, Debug)]
pub struct ServerMonitor {
    pub(crate) shards: Vec<ShardAddress>,
    /// A reference to a token that each serving thread holds until it ends.
    pub(crate) threads: Vec<Weak<()>>,
    /// The counter of [`ServerOptions::log_dropped`](crate::ServerOptions::log_dropped).
    pub(crate) log_dropped: Arc<AtomicU64>,
    /// The clients that were refused.
    pub(crate) refusals: Arc<Refusals>,
}

impl ServerMonitor {
    /// Returns true if every shard and the acceptor run. A thread that has ended has failed and
    /// logged the reason. Its drives are not served any more, or no client can connect, so the
    /// process should end and be restarted.
    pub fn is_running(&self) -> bool {
        // A thread drops its token when it ends, whether normally or by a panic.
        self.threads.iter().all(|alive| alive.strong_count() > 0)
    }

    /// Returns the figures of every drive, sorted by name, or `None` if a shard does not respond,
    /// because it has failed or the server has ended.
    pub fn figures(&self) -> Option<Vec<DriveFigures>> {
        self.snapshots(Detail::Usual)
    }

    /// Returns all metrics as text of the type [`CONTENT_TYPE`](crate::CONTENT_TYPE), or `None` if
    /// a shard does not respond. `rooms` contains the promised and the remaining capacity of each
    /// drive, by the drive's name.
    pub fn metrics(&self, rooms: &BTreeMap<String, DriveRoom>, detail: Detail) -> Option<String> {
        let mut drives = self.snapshots(detail)?;
        for drive in &mut drives {
            drive.room = rooms.get(&drive.name).cloned().unwrap_or_default();
        }
        let log_dropped = self.log_dropped.load(Ordering::Relaxed);
        Some(text::render(&drives, detail, log_dropped, &self.refusals))
    }

    /// Queries all shards in parallel.
    fn snapshots(&self, detail: Detail) -> Option<Vec<DriveFigures>> {
        let (sender, receiver) = channel();
        for shard in &self.shards {
            shard.send_mail(Mail::Snapshot(detail, sender.clone()));
        }
        // Without the last sender, a shard that has ended makes `recv_timeout` fail at once instead
        // of at the deadline.
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
