//! The tunables of the controller `io.low`.

use crate::ConfigError;
use crate::Span;
use crate::control::slices;
use crate::tunable::{MS, SECOND, TunableUnit, tunables, words};

words! {
    /// The directions of requests that a min limits.
    pub enum Directions {
        /// Reads and writes, each with a limit of its own: `rbps` and `wbps`, or `riops` and
        /// `wiops`.
        Both = "both",
        /// Only reads: `rbps` or `riops`.
        Reads = "reads",
        /// Only writes: `wbps` or `wiops`.
        Writes = "writes",
    }
}

tunables! {
    /// Tunables of `io.low`. A layer refuses values outside their bounds, which
    /// [`Self::validate`] checks.
    pub struct Config {
        throttle_sample_time: Span, TunableUnit::Time, [0, SECOND], 0,
            "The length of a time slice, rounded up to whole ticks. Zero: 20 ms on flash, 100 ms on disks.",
            "block/blk-throttle.c: throtl_slice, DFL_THROTL_SLICE_SSD, DFL_THROTL_SLICE_HD";
        tick: Span, TunableUnit::Time, [MS, 10 * MS], 4 * MS,
            "The unit in which time is counted: a tick of the kernel's timer. The default is that of a kernel with 250 ticks per second.",
            "CONFIG_HZ";
        idle: Span, TunableUnit::Time, [1_000, 60 * SECOND], MS,
            "The average think time between requests above which a group counts as idle. Other groups are not throttled for the benefit of an \
             idle group.",
            "block/blk-throttle.c: throtl_tg_is_idle (io.low: idle=)";
        latency: Span, TunableUnit::Time, [1_000, 60 * SECOND], 1_000,
            "The additional latency above which a request counts as slow, compared with the usual latency of requests of its size while every \
             group is held to its low limit. A group also counts as idle if fewer than 20 % of its requests are slow.",
            "block/blk-throttle.c: blk_throtl_bio_endio (io.low: latency=)";
        limits: Directions, TunableUnit::Word(Directions::WORDS), [0, 2], 0,
            "The requests to which a min applies as a low limit. With both directions limited, a group reaches its limit only if reads and \
             writes wait, but falls below it in either direction. Therefore a group that only reads holds all others to their low limits \
             unless it is idle.",
            "block/blk-throttle.c: throtl_tg_can_upgrade, __tg_last_low_overflow_time (io.low: rbps=, wbps=, riops=, wiops=)";
    }

    fn validate_together(&self) -> Result<(), ConfigError> {
        slices::check(self.throttle_sample_time, self.tick)
    }

    fn bound_together(&mut self) {
        self.throttle_sample_time = slices::bounded(self.throttle_sample_time, self.tick);
    }
}
