//! Explanations of the latency of a volume.

use std::sync::mpsc::channel;
use std::time::Duration;

use thiserror::Error;
use weir_core::Span;
use weir_measure::explain::Explanation;

use super::LiveServer;
use crate::shard::{Mail, ShardAddress};

/// The longest time that a call waits for the shards to pass on the content of their journals.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why an explanation is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExplainError {
    /// No drive has a volume of this name.
    #[error("unknown volume")]
    NoSuchVolume,
    /// A shard has ended or does not respond.
    #[error("a shard (the thread of a drive) does not respond")]
    NoAnswer,
}

/// A handle that explains the latency of volumes of a running server, from any thread. After the
/// server has ended, calls fail with [`ExplainError::NoAnswer`].
#[derive(Clone, Debug)]
pub struct Explainer {
    shards: Vec<ShardAddress>,
}

impl Explainer {
    pub(super) fn new(shards: Vec<ShardAddress>) -> Self {
        Self { shards }
    }

    /// Explains the latency of the requests of a volume that completed in the last `since`, rounded
    /// up to whole seconds. With `None`, it explains all requests in the journal. The shard only
    /// passes on its journal. The explanation is computed on the calling thread, and takes up to
    /// one second if the journal is full.
    ///
    /// # Errors
    /// Fails if there is no such volume, or if a shard does not respond.
    pub fn explain(
        &self,
        volume: &str,
        since: Option<Duration>,
    ) -> Result<Explanation, ExplainError> {
        let (wanted, answers) = channel();
        // Every shard is asked, because only the shard of the volume's drive knows the volume. The
        // others reply with `None`.
        for shard in &self.shards {
            let mail = Mail::Explain {
                volume: volume.to_owned(),
                wanted: wanted.clone(),
            };
            if !shard.send_mail(mail) {
                return Err(ExplainError::NoAnswer);
            }
        }
        drop(wanted);
        for _ in &self.shards {
            let answer = answers.recv_timeout(PATIENCE);
            let Some(viewed) = answer.map_err(|_| ExplainError::NoAnswer)? else {
                continue;
            };
            // Durations beyond 584 years are cut, which is longer than any journal.
            let since = since
                .map(|since| Span::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)));
            let name = |group| {
                let name = viewed.names.get(&group).cloned();
                name.unwrap_or_else(|| "a volume that is gone".to_owned())
            };
            return Ok(viewed.view.explain(since, &name));
        }
        Err(ExplainError::NoSuchVolume)
    }
}

impl LiveServer {
    /// Returns a handle that explains the latency of this server's volumes, from any thread.
    pub fn explainer(&self) -> Explainer {
        Explainer::new(
            self.shards
                .iter()
                .map(crate::shard::ShardHandle::address)
                .collect(),
        )
    }

    /// Explains the latency of a volume, as [`Explainer::explain`] does.
    ///
    /// # Errors
    /// Fails if there is no such volume, or if a shard does not respond.
    pub fn explain(
        &self,
        volume: &str,
        since: Option<Duration>,
    ) -> Result<Explanation, ExplainError> {
        self.explainer().explain(volume, since)
    }
}
