//! The tunables of `cfq`, with Linux's names, units and defaults.

use crate::Span;
use crate::elevator::common::seek::BackSeek;
use crate::tunable::{MS, SECOND, TunableUnit, tunables};

tunables! {
    /// Tunables of `cfq`. A layer refuses values outside their bounds, which [`Self::validate`]
    /// checks.
    pub struct Config {
        quantum: u32, TunableUnit::Count, [1, 1 << 20], 8,
            "The maximum number of requests in the drive of a queue that competes with others. Half of this number applies when the requests \
             that the queue has in the drive are expected to outlast its time slice.",
            "block/cfq-iosched.c: cfq_quantum, cfq_may_dispatch";
        fifo_expire_sync: Span, TunableUnit::Time, [0, 60 * SECOND], 125 * MS,
            "The age at which a waiting synchronous request starts its queue's turn, regardless of its position.",
            "block/cfq-iosched.c: cfq_fifo_expire, cfq_check_fifo";
        fifo_expire_async: Span, TunableUnit::Time, [0, 60 * SECOND], 250 * MS,
            "The age at which a waiting asynchronous request starts its queue's turn, regardless of its position.",
            "block/cfq-iosched.c: cfq_fifo_expire, cfq_check_fifo";
        back_seek_max: u32, TunableUnit::Kib, [0, 1 << 30], 16 * 1024,
            "The maximum distance behind the head at which a request still counts as near.",
            "block/cfq-iosched.c: cfq_back_max, cfq_choose_req";
        back_seek_penalty: u32, TunableUnit::Count, [1, 1000], 2,
            "The factor by which distances behind the head are multiplied when they are compared with distances in front of it.",
            "block/cfq-iosched.c: cfq_back_penalty, cfq_choose_req";
        slice_sync: Span, TunableUnit::Time, [MS, 60 * SECOND], 100 * MS,
            "The time slice of a synchronous queue with I/O priority level 4. It is 20 % longer for each level of higher priority, and 20 % \
             shorter for each level of lower priority.",
            "block/cfq-iosched.c: cfq_slice_sync, cfq_prio_slice";
        slice_async: Span, TunableUnit::Time, [MS, 60 * SECOND], 40 * MS,
            "The time slice of an asynchronous queue with I/O priority level 4. It is 20 % longer for each level of higher priority, and 20 % \
             shorter for each level of lower priority.",
            "block/cfq-iosched.c: cfq_slice_async, cfq_prio_slice";
        slice_async_rq: u32, TunableUnit::Count, [1, 1 << 20], 2,
            "The number that limits the requests in an asynchronous queue's turn. The turn ends after twice this number of requests, \
             multiplied by 8 minus the I/O priority level, so the lowest level (7) has a factor of 1.",
            "block/cfq-iosched.c: cfq_slice_async_rq, cfq_prio_to_maxrq";
        slice_idle: Span, TunableUnit::Time, [0, SECOND], 8 * MS,
            "The time for which the drive idles to wait for the next request of a sequential queue, and for the next request of all random \
             queues together. Zero: the drive never idles, and on a drive that queues commands, groups are charged by requests instead of time.",
            "block/cfq-iosched.c: cfq_slice_idle, cfq_arm_slice_timer, iops_mode";
        group_idle: Span, TunableUnit::Time, [0, SECOND], 8 * MS,
            "The time for which the drive idles to wait for the next request of a group's last queue, if it does not idle for the queue \
             itself. Zero: the drive never idles for groups.",
            "block/cfq-iosched.c: cfq_group_idle, cfq_arm_slice_timer";
        low_latency: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether time slices are shortened so that each queue has its turn within `target_latency`, and the number of asynchronous \
             requests in the drive increases only slowly after a synchronous request was late.",
            "block/cfq-iosched.c: cfq_latency, cfq_scaled_cfqq_slice, cfq_may_dispatch";
        target_latency: Span, TunableUnit::Time, [MS, 60 * SECOND], 300 * MS,
            "The time within which all groups have their turns. Each group's part of it is in proportion to its weight.",
            "block/cfq-iosched.c: cfq_target_latency, cfq_group_slice";
        flash_idles: bool, TunableUnit::Flag, [0, 1], 0,
            "Whether `slice_idle` also applies on flash. Since 4.1, Linux sets `slice_idle` to 0 on flash when the drive is registered, but \
             earlier kernels idle, and so do later ones if a user sets `slice_idle` again.",
            "Weir's own; Linux's default: block/cfq-iosched.c, cfq_registered_queue";
        known_queueing: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether a drive with five or more tags is known to queue commands from the start, as Linux knows of a drive that was written to. \
             If false, this is known only after five requests were in the drive at a time; until then, the drive is assumed not to queue as \
             soon as fifty samples indicate it.",
            "Weir's own; Linux's way: block/cfq-iosched.c, hw_tag, cfq_update_hw_tag";
        nr_requests: u32, TunableUnit::Count, [4, 1 << 20], 128,
            "The maximum number of a group's requests that wait or are in the drive, counted separately for synchronous and asynchronous \
             requests. A stream that reaches this number, or that has waited for a place, can briefly exceed it by half.",
            "block/blk-core.c: nr_requests, __get_request, ioc_batching";
    }
}

impl Config {
    /// Returns the rules for backward seeks in sectors. The tunable `back_seek_max` is in KiB.
    pub(super) fn back_seek(&self) -> BackSeek {
        BackSeek {
            max: u64::from(self.back_seek_max) * 2,
            penalty: u64::from(self.back_seek_penalty),
        }
    }
}
