//! Activates the parts of shared minimums that this server promises, from any thread.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::shard::{HeldPart, Mail, PartUsage, ShardAddress};

/// The longest time that [`Parts::hold`] waits for all shards. A shard needs the time of one
/// message and of one turn.
const PATIENCE: Duration = Duration::from_millis(500);

/// A handle that activates the part of its min that a volume with `shared` is promised on this
/// server. Without such a call, or after the end of the time that the call states, the volume is
/// promised nothing.
#[derive(Clone, Debug)]
pub struct Parts {
    pub(crate) shards: Vec<ShardAddress>,
}

/// A shard did not respond in time, so the part may or may not be in force. The shard has failed or
/// is delayed, or the server has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a shard (the thread of a drive) does not respond")]
pub struct ShardTimeout;

impl Parts {
    /// Activates a volume's part, and waits until it is in force. Returns the amount that the
    /// volume was served so far, or `None` if the server has no such volume.
    ///
    /// # Errors
    /// Returns [`ShardTimeout`] if a shard does not respond in time.
    pub fn hold(&self, volume: &str, held: HeldPart) -> Result<Option<PartUsage>, ShardTimeout> {
        let (used, answers) = channel();
        // Every shard is asked, because only the shard of the volume's drive knows the volume. The
        // others reply with `None`.
        for shard in &self.shards {
            shard.send_mail(Mail::Hold {
                volume: volume.to_owned(),
                held,
                used: used.clone(),
            });
        }
        // Without the last sender, a shard that has ended makes `recv_timeout` fail at once instead
        // of at the deadline.
        drop(used);
        let deadline = Instant::now() + PATIENCE;
        let mut found = None;
        for _ in &self.shards {
            let left = deadline.saturating_duration_since(Instant::now());
            let used = answers.recv_timeout(left).map_err(|_| ShardTimeout)?;
            found = found.or(used);
        }
        Ok(found)
    }
}
