//! The tunables of `io.low`.

use crate::ConfigError;
use crate::Span;
use crate::control::slices;
use crate::tunable::{MS, SECOND, Unit, tunables, words};

words! {
    /// Which requests a low limit counts.
    pub enum Directions {
        /// Reads and writes, each for themselves: `rbps` and `wbps`, or `riops` and `wiops`.
        Both = "both",
        /// Reads: `rbps` or `riops`.
        Reads = "reads",
        /// Writes: `wbps` or `wiops`.
        Writes = "writes",
    }
}

tunables! {
    /// Tunables of `io.low`. A layer is not made with values outside their bounds: [`Config::validate`] says which they are.
    pub struct Config {
        throttle_sample_time: Span, Unit::Time, [0, SECOND], 0,
            "How long a slice is; rounded up to whole ticks. Zero: 20 ms on flash, 100 ms on disks.",
            "block/blk-throttle.c: throtl_slice, DFL_THROTL_SLICE_SSD, DFL_THROTL_SLICE_HD";
        tick: Span, Unit::Time, [MS, 10 * MS], 4 * MS,
            "What time is counted in: a tick of a kernel with 250 a second.",
            "CONFIG_HZ";
        idle: Span, Unit::Time, [1_000, 60 * SECOND], MS,
            "A group that thinks longer than this between its requests, on average, is idle: nobody is held back for its sake.",
            "block/blk-throttle.c: throtl_tg_is_idle (io.low: idle=)";
        latency: Span, Unit::Time, [1_000, 60 * SECOND], 1_000,
            "Nor for the sake of a group of whose requests less than a fifth takes by this much longer than requests of their size do while \
             everyone is held to its low limit.",
            "block/blk-throttle.c: blk_throtl_bio_endio (io.low: latency=)";
        limits: Directions, Unit::Word(Directions::WORDS), [0, 2], 0,
            "Which requests a min limits. A group that is limited in both directions reaches its limit only when reads and writes wait, and falls below it \
             with either: one that only reads holds the others to their low limits unless it is idle.",
            "block/blk-throttle.c: throtl_tg_can_upgrade, __tg_last_low_overflow_time (io.low: rbps=, wbps=, riops=, wiops=)";
    }

    fn validate_together(&self) -> Result<(), ConfigError> {
        slices::check(self.throttle_sample_time, self.tick)
    }

    fn bound_together(&mut self) {
        self.throttle_sample_time = slices::bounded(self.throttle_sample_time, self.tick);
    }
}
