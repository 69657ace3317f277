//! Why a volume's requests take as long as they do.

use std::sync::mpsc::channel;
use std::time::Duration;

use thiserror::Error;
use weir_core::Span;
use weir_measure::explain::Explanation;

use super::Server;
use crate::shard::{Address, Mail};

/// How long the shards may take to hand out what their journals hold.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExplainError {
    /// No drive has a volume of that name.
    #[error("unknown volume")]
    NoSuchVolume,
    /// A shard has ended, or does not answer.
    #[error("a shard (the thread of a drive) does not respond")]
    NoAnswer,
}

/// Explains volumes of a running server, from any thread. After the server has ended it answers [`ExplainError::NoAnswer`].
#[derive(Clone, Debug)]
pub struct Explainer {
    shards: Vec<Address>,
}

impl Explainer {
    pub(super) fn new(shards: Vec<Address>) -> Self {
        Self { shards }
    }

    /// Why the requests of a volume that ended in the last `since`, rounded up to whole seconds, took as long as they did; `None`: all of
    /// which something is known. The shard only hands out what it has; the explanation is made on the calling thread, and takes up
    /// to a second there where the journal is full.
    ///
    /// # Errors
    /// There is no such volume, or its shard does not answer.
    pub fn explain(
        &self,
        volume: &str,
        since: Option<Duration>,
    ) -> Result<Explanation, ExplainError> {
        let (wanted, answers) = channel();
        for shard in &self.shards {
            let mail = Mail::Explain {
                volume: volume.to_owned(),
                wanted: wanted.clone(),
            };
            if !shard.tell(mail) {
                return Err(ExplainError::NoAnswer);
            }
        }
        drop(wanted);
        for _ in &self.shards {
            let answer = answers.recv_timeout(PATIENCE);
            let Some(viewed) = answer.map_err(|_| ExplainError::NoAnswer)? else {
                continue;
            };
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

impl Server {
    /// What explains this server's volumes, from any thread.
    pub fn explainer(&self) -> Explainer {
        Explainer::new(
            self.shards
                .iter()
                .map(crate::shard::Handle::address)
                .collect(),
        )
    }

    /// As [`Explainer::explain`].
    ///
    /// # Errors
    /// As there.
    pub fn explain(
        &self,
        volume: &str,
        since: Option<Duration>,
    ) -> Result<Explanation, ExplainError> {
        self.explainer().explain(volume, since)
    }
}
