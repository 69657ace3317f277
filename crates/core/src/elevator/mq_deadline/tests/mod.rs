//! Decisions in small, the rates that Linux's own mq-deadline gives, and what must hold whatever comes.

mod linux;
mod merge;
mod order;
mod replay;

use super::Config;
use crate::elevator;

impl From<&Config> for elevator::Config {
    fn from(config: &Config) -> Self {
        Self::MqDeadline(*config)
    }
}
