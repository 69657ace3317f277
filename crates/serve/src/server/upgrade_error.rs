//! The reasons why an upgrade fails.

use std::io::{self, ErrorKind};

use weir_config::os_error;

use crate::error::StartError;
use crate::shard::HandOverError;

/// The reason why another process does not take over. The server serves on, except after
/// [`UpgradeError::Lost`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The server cannot hand over something that it has.
    #[error("{0}")]
    Unsupported(String),
    /// The shards cannot hand over their clients.
    #[error("{0}")]
    Shard(String),
    /// The other process does not want to take over.
    #[error("the new process refused: {0}")]
    Refused(String),
    /// The other process has ended, or does not respond.
    #[error("the new process did not {step}: {}", reason(.error))]
    Channel {
        /// The task of the other process.
        step: &'static str,
        /// The error of the channel.
        error: io::Error,
    },
    /// A thread of this server has ended.
    #[error("a thread of the server has ended")]
    Ended,
    /// The configuration of the predecessor cannot be served.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The predecessor has another format, or sent something unexpected.
    #[error("the running server cannot be understood: {0}")]
    Format(String),
    /// The other process failed at the moment of taking over. Its clients have lost their
    /// connections, and the server has to be restarted.
    #[error("the new process failed just after it had taken over; the server must be restarted")]
    Lost,
}

impl From<HandOverError> for UpgradeError {
    fn from(error: HandOverError) -> Self {
        Self::Shard(error.to_string())
    }
}

/// Returns the reason for an error of the channel.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "it has ended; the log may contain its reason".to_owned()
        }
        ErrorKind::TimedOut => "it does not respond".to_owned(),
        ErrorKind::Interrupted => "the server received a signal to end".to_owned(),
        ErrorKind::InvalidData => "it is not a server that can take over".to_owned(),
        _ => os_error::message(error),
    }
}
