//! Telling the shards which parts of shared minimums this server promises, from any thread and beside the server.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::shard::{Address, Held, Mail, Used};

/// How long a shard may take to have a part in force: it is a message, and what a turn takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// A way to say which part of its min a volume with `shared` is promised here. Nothing is, unless that was said and its time is not over.
#[derive(Clone, Debug)]
pub struct Parts {
    pub(crate) shards: Vec<Address>,
}

/// A shard does not answer in time: a part may be in force yet, or not any more. It has failed, is held up, or the server has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a shard (the thread of a drive) does not respond")]
pub struct Unheld;

impl Parts {
    /// Puts a volume's part in force, and waits until it is: what the volume was served so far; nothing if the server has no such volume.
    ///
    /// # Errors
    /// See [`Unheld`].
    pub fn hold(&self, volume: &str, held: Held) -> Result<Option<Used>, Unheld> {
        let (used, answers) = channel();
        for shard in &self.shards {
            shard.tell(Mail::Hold {
                volume: volume.to_owned(),
                held,
                used: used.clone(),
            });
        }
        drop(used);
        let deadline = Instant::now() + PATIENCE;
        let mut found = None;
        for _ in &self.shards {
            let left = deadline.saturating_duration_since(Instant::now());
            let used = answers.recv_timeout(left).map_err(|_| Unheld)?;
            found = found.or(used);
        }
        Ok(found)
    }
}
