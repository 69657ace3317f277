//! Tunables of `mq-deadline`: Linux's names, units and defaults.

use crate::Span;
use crate::tunable::{MS, SECOND, TunableUnit, tunables};

/// The largest value of an `int`, by which Linux limits these tunables.
const INT_MAX: u64 = 0x7fff_ffff;

tunables! {
    /// Tunables of the elevator `mq-deadline`.
    pub struct Config {
        read_expire: Span, TunableUnit::Time, [0, INT_MAX * MS], 500 * MS,
            "The time after which a waiting read starts the next batch of reads, regardless of its position.",
            "block/mq-deadline.c: read_expire, deadline_check_fifo";
        write_expire: Span, TunableUnit::Time, [0, INT_MAX * MS], 5 * SECOND,
            "The time after which a waiting write starts the next batch of writes, regardless of its position.",
            "block/mq-deadline.c: write_expire, deadline_check_fifo";
        writes_starved: u32, TunableUnit::Count, [0, INT_MAX], 2,
            "The number of batches of reads that can be served while writes wait.",
            "block/mq-deadline.c: writes_starved, __dd_dispatch_request";
        fifo_batch: u32, TunableUnit::Count, [0, INT_MAX], 16,
            "The maximum number of requests in a batch: requests of one direction that are served in order of position before a direction is \
             selected again. Zero has the same effect as 1.",
            "block/mq-deadline.c: fifo_batch, __dd_dispatch_request";
        front_merges: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether a request can be merged in front of a waiting request. It applies if requests are merged. A merge with the most recently \
             merged request is always possible.",
            "block/mq-deadline.c: front_merges, dd_request_merge";
        prio_aging_expire: Span, TunableUnit::Time, [0, INT_MAX * MS], 10 * SECOND,
            "The time after which a waiting request is served before requests of higher priority.",
            "block/mq-deadline.c: prio_aging_expire, dd_dispatch_prio_aged_requests";
        async_depth: u32, TunableUnit::Count, [0, INT_MAX], 0,
            "The maximum number of scheduler tags that writes occupy, so that tags remain for reads. Zero: three quarters of all tags.",
            "block/mq-deadline.c: async_depth, dd_limit_depth, dd_depth_updated";
    }
}
