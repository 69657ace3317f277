//! Tunables of `mq-deadline`: Linux's names, units and defaults.

use crate::Span;
use crate::tunable::{MS, SECOND, Unit, tunables};

/// The largest number of an `int`, as Linux bounds these.
const INT_MAX: u64 = 0x7fff_ffff;

tunables! {
    /// Tunables of `mq-deadline`.
    pub struct Config {
        read_expire: Span, Unit::Time, [0, INT_MAX * MS], 500 * MS,
            "A read that has waited for this long begins the next batch of reads, wherever it is.",
            "block/mq-deadline.c: read_expire, deadline_check_fifo";
        write_expire: Span, Unit::Time, [0, INT_MAX * MS], 5 * SECOND,
            "A write that has waited for this long begins the next batch of writes, wherever it is.",
            "block/mq-deadline.c: write_expire, deadline_check_fifo";
        writes_starved: u32, Unit::Count, [0, INT_MAX], 2,
            "Batches of reads that go first while writes wait.",
            "block/mq-deadline.c: writes_starved, __dd_dispatch_request";
        fifo_batch: u32, Unit::Count, [0, INT_MAX], 16,
            "Requests of one direction that go in order of position before the direction is chosen again. Zero is as 1.",
            "block/mq-deadline.c: fifo_batch, __dd_dispatch_request";
        front_merges: bool, Unit::Flag, [0, 1], 1,
            "Where requests are merged, also in front of one that waits; with the one that was merged last always.",
            "block/mq-deadline.c: front_merges, dd_request_merge";
        prio_aging_expire: Span, Unit::Time, [0, INT_MAX * MS], 10 * SECOND,
            "A request that has waited for this long goes before those of higher priorities.",
            "block/mq-deadline.c: prio_aging_expire, dd_dispatch_prio_aged_requests";
        async_depth: u32, Unit::Count, [0, INT_MAX], 0,
            "Writes hold this number of scheduler tags at most, so that a read finds one. Zero: three quarters of them.",
            "block/mq-deadline.c: async_depth, dd_limit_depth, dd_depth_updated";
    }
}
