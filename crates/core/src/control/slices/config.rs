//! The tunables of the controller `io.max` in slices.

use crate::ConfigError;
use crate::Span;
use crate::tunable::{Allowed, MS, SECOND, TunableUnit, tunables};

tunables! {
    /// Tunables of `io.max` in slices. A layer refuses values outside their bounds, which
    /// [`Self::validate`] checks.
    pub struct Config {
        throttle_sample_time: Span, TunableUnit::Time, [0, SECOND], 0,
            "The length of a time slice, rounded up to whole ticks. Zero: 20 ms on flash, 100 ms on disks.",
            "block/blk-throttle.c: throtl_slice, DFL_THROTL_SLICE_SSD, DFL_THROTL_SLICE_HD";
        tick: Span, TunableUnit::Time, [MS, 10 * MS], 4 * MS,
            "The unit in which time is counted: a tick of the kernel's timer. The default is that of a kernel with 250 ticks per second.",
            "CONFIG_HZ";
    }

    fn validate_together(&self) -> Result<(), ConfigError> {
        check(self.throttle_sample_time, self.tick)
    }

    fn bound_together(&mut self) {
        self.throttle_sample_time = bounded(self.throttle_sample_time, self.tick);
    }
}

/// Checks that a slice has the default length of the drive or at least one tick.
pub(in crate::control) fn check(slice: Span, tick: Span) -> Result<(), ConfigError> {
    if bounded(slice, tick) == slice {
        return Ok(());
    }
    Err(ConfigError {
        field: "throttle_sample_time",
        allowed: Allowed::Words("zero, or at least a tick"),
    })
}

/// Returns the nearest length of a slice that [`check`] permits.
pub(in crate::control) fn bounded(slice: Span, tick: Span) -> Span {
    if slice == Span::ZERO {
        slice
    } else {
        slice.max(tick)
    }
}
