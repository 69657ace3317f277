//! Tunables of the contract elevator.

use crate::{ConfigError, Span};

/// What shares are measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Excess {
    /// Drive time: a random reader does not drag the drive down.
    #[default]
    Time,
    /// Bytes, as BFQ has it.
    Bytes,
}

/// Tunables of the contract elevator. The defaults suit every drive; they are here to be experimented with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What shares are measured in.
    pub excess: Excess,
    /// How far a client that fell behind its min may have fallen behind and still be made whole. At most 10 s.
    pub catch_up: Span,
    /// A client that asks for nothing for this long starts afresh: it is owed nothing for the pause. At most 10 s.
    pub forget: Span,
    /// The idle class is served at least once in this long. Zero: never while others wait.
    pub idle_class_timeout: Span,
    /// False: others' requests in flight are not bounded for the sake of promises. For experiments.
    pub bound_in_flight: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            excess: Excess::Time,
            catch_up: Span::from_millis(100),
            forget: Span::from_millis(20),
            idle_class_timeout: Span::from_millis(200),
            bound_in_flight: true,
        }
    }
}

impl Config {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first field outside its bounds, and the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        const LONGEST: Span = Span::from_secs(10);
        let rules = [
            (self.catch_up <= LONGEST, "catch_up"),
            (self.forget <= LONGEST, "forget"),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, field)) => Err(ConfigError {
                field,
                allowed: "at most 10 s",
            }),
            None => Ok(()),
        }
    }
}
