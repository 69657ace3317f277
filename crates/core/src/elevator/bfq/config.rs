//! The tunables: Linux's names, units and defaults.

use crate::elevator::common::seek::BackSeek;
use crate::{ConfigError, Span};

/// How a turn is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Charge {
    /// By what was served, but a slow queue and one that ran out of time by the time it held the drive.
    #[default]
    Linux,
    /// By what was served, always: shares are of bytes. Weir's own.
    Service,
}

/// Tunables of `bfq`. A layer is not made with values outside the bounds named here: [`Config::validate`] says which they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A synchronous request older than this is served before those nearer to the head. At most 60 s; default 125 ms.
    pub fifo_expire_sync: Span,
    /// An asynchronous request older than this likewise. At most 60 s; default 250 ms.
    pub fifo_expire_async: Span,
    /// A request up to this many KiB behind the head counts as near. At most 2^30; default 16384.
    pub back_seek_max: u32,
    /// Distances behind the head count this many times. 1 to 1000; default 2.
    pub back_seek_penalty: u32,
    /// How long the drive idles for the next request of the stream in service; microseconds count. Zero: never. At most 1 s;
    /// default 8 ms. At least 8 ms under `strict_guarantees`.
    pub slice_idle: Span,
    /// The largest budget in sectors (512 bytes); 0: what the drive serves in `timeout_sync`, as measured. At most 2^31; default 0.
    pub max_budget: u32,
    /// The longest turn; whole milliseconds count. 1 ms to 60 s; default 125 ms.
    pub timeout_sync: Span,
    /// One request in the drive at a time, and always idle. Default false.
    pub strict_guarantees: bool,
    /// Sectors written asynchronously count this many times among equals. 1 to 100; default 3. A constant in Linux.
    pub async_charge_factor: u32,
    /// A queue is seeky if more of its last 32 requests than this were. At most 32; default 19. A constant in Linux.
    pub seeky_threshold: u32,
    /// Raises the weight of queues that start something or are soft real-time. Default true.
    pub low_latency: bool,
    /// Sends requests of others while the drive idles, as many as the stream in service hardly notices. Default true; always on in
    /// Linux.
    pub injection: bool,
    /// Merges the queues of streams whose requests are near to each other, on drives that seek or do not queue. Default true; always
    /// on in Linux.
    pub merge: bool,
    /// With `merge`: merges the queues of streams that start shortly after each other, for good, on flash too. Default false; always on
    /// in Linux since 5.13, which is younger than the published measurements that Weir is held against.
    pub stable_merge: bool,
    /// How a turn is charged. Not in Linux, where it is always [`Charge::Linux`].
    pub charge: Charge,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fifo_expire_sync: Span::from_millis(125),
            fifo_expire_async: Span::from_millis(250),
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice_idle: Span::from_millis(8),
            max_budget: 0,
            timeout_sync: Span::from_millis(125),
            strict_guarantees: false,
            async_charge_factor: 3,
            seeky_threshold: 19,
            low_latency: true,
            injection: true,
            merge: true,
            stable_merge: false,
            charge: Charge::Linux,
        }
    }
}

const LONGEST: Span = Span::from_secs(60);
const STRICT_IDLE: Span = Span::from_millis(8);

impl Config {
    /// What seeks backwards are worth; `back_seek_max` is in KiB.
    #[inline]
    pub(super) fn back_seek(&self) -> BackSeek {
        BackSeek {
            max: u64::from(self.back_seek_max) * 2,
            penalty: u64::from(self.back_seek_penalty),
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first field outside its bounds, and the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bounded = self.bounded();
        let rules = [
            (
                self.fifo_expire_sync == bounded.fifo_expire_sync,
                "fifo_expire_sync",
                "at most 60 s",
            ),
            (
                self.fifo_expire_async == bounded.fifo_expire_async,
                "fifo_expire_async",
                "at most 60 s",
            ),
            (
                self.back_seek_max == bounded.back_seek_max,
                "back_seek_max",
                "at most 2^30 KiB",
            ),
            (
                self.back_seek_penalty == bounded.back_seek_penalty,
                "back_seek_penalty",
                "1 to 1000",
            ),
            (
                self.slice_idle == bounded.slice_idle,
                "slice_idle",
                "at most 1 s, and at least 8 ms under strict_guarantees",
            ),
            (
                self.max_budget == bounded.max_budget,
                "max_budget",
                "at most 2^31 sectors",
            ),
            (
                self.timeout_sync == bounded.timeout_sync,
                "timeout_sync",
                "1 ms to 60 s",
            ),
            (
                self.async_charge_factor == bounded.async_charge_factor,
                "async_charge_factor",
                "1 to 100",
            ),
            (
                self.seeky_threshold == bounded.seeky_threshold,
                "seeky_threshold",
                "at most 32",
            ),
        ];
        match rules.into_iter().find(|rule| !rule.0) {
            Some((_, field, allowed)) => Err(ConfigError { field, allowed }),
            None => Ok(()),
        }
    }

    /// This with every value moved inside its bounds.
    #[must_use]
    pub fn bounded(&self) -> Self {
        let least_idle = if self.strict_guarantees {
            STRICT_IDLE
        } else {
            Span::ZERO
        };
        Self {
            fifo_expire_sync: self.fifo_expire_sync.min(LONGEST),
            fifo_expire_async: self.fifo_expire_async.min(LONGEST),
            back_seek_max: self.back_seek_max.min(1 << 30),
            back_seek_penalty: self.back_seek_penalty.clamp(1, 1000),
            slice_idle: self.slice_idle.clamp(least_idle, Span::from_secs(1)),
            max_budget: self.max_budget.min(1 << 31),
            timeout_sync: self.timeout_sync.clamp(Span::from_millis(1), LONGEST),
            async_charge_factor: self.async_charge_factor.clamp(1, 100),
            seeky_threshold: self.seeky_threshold.min(32),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_bounds() {
        assert_eq!(Config::default().validate(), Ok(()));
        assert_eq!(Config::default().bounded(), Config::default());
    }

    #[test]
    fn a_value_out_of_bounds_is_named_and_moved() {
        let config = Config {
            timeout_sync: Span::ZERO,
            strict_guarantees: true,
            ..Config::default()
        };
        assert_eq!(config.validate().unwrap_err().field, "timeout_sync");
        assert_eq!(config.bounded().timeout_sync, Span::from_millis(1));
        let config = Config {
            strict_guarantees: true,
            slice_idle: Span::ZERO,
            ..Config::default()
        };
        assert_eq!(config.validate().unwrap_err().field, "slice_idle");
        assert_eq!(config.bounded().slice_idle, Span::from_millis(8));
    }
}
