//! Tunables of `cfq`: Linux's names, units and defaults.

use crate::Span;
use crate::elevator::common::seek::BackSeek;
use crate::tunable::{MS, SECOND, Unit, tunables};

tunables! {
    /// Tunables of `cfq`. A layer is not made with values outside their bounds: [`Config::validate`] says which they are.
    pub struct Config {
        quantum: u32, Unit::Count, [1, 1 << 20], 8,
            "A queue that is not alone has at most this number of requests in the drive, and half of that from when its slice will end before what \
             it has there.",
            "block/cfq-iosched.c: cfq_quantum, cfq_may_dispatch";
        fifo_expire_sync: Span, Unit::Time, [0, 60 * SECOND], 125 * MS,
            "A synchronous request older than this begins its queue's turn, wherever it is.",
            "block/cfq-iosched.c: cfq_fifo_expire, cfq_check_fifo";
        fifo_expire_async: Span, Unit::Time, [0, 60 * SECOND], 250 * MS,
            "An asynchronous request older than this begins its queue's turn, wherever it is.",
            "block/cfq-iosched.c: cfq_fifo_expire, cfq_check_fifo";
        back_seek_max: u32, Unit::Kib, [0, 1 << 30], 16 * 1024,
            "A request up to so far behind the head counts as near.",
            "block/cfq-iosched.c: cfq_back_max, cfq_choose_req";
        back_seek_penalty: u32, Unit::Count, [1, 1000], 2,
            "Distances behind the head count this many times.",
            "block/cfq-iosched.c: cfq_back_penalty, cfq_choose_req";
        slice_sync: Span, Unit::Time, [MS, 60 * SECOND], 100 * MS,
            "The time slice of a synchronous queue of level 4; a fifth more for each level above, a fifth less for each below.",
            "block/cfq-iosched.c: cfq_slice_sync, cfq_prio_slice";
        slice_async: Span, Unit::Time, [MS, 60 * SECOND], 40 * MS,
            "The time slice of an asynchronous queue of level 4; a fifth more for each level above, a fifth less for each below.",
            "block/cfq-iosched.c: cfq_slice_async, cfq_prio_slice";
        slice_async_rq: u32, Unit::Count, [1, 1 << 20], 2,
            "A turn of an asynchronous queue is over after twice this number of requests for each level it has above the last and one.",
            "block/cfq-iosched.c: cfq_slice_async_rq, cfq_prio_to_maxrq";
        slice_idle: Span, Unit::Time, [0, SECOND], 8 * MS,
            "How long the drive idles for the next request of a sequential queue, and for all that are random together. Zero: never, and \
             groups pay by requests instead of time where the drive queues.",
            "block/cfq-iosched.c: cfq_slice_idle, cfq_arm_slice_timer, iops_mode";
        group_idle: Span, Unit::Time, [0, SECOND], 8 * MS,
            "How long the drive idles for the next request of a group's last queue where it does not idle for the queue. Zero: never.",
            "block/cfq-iosched.c: cfq_group_idle, cfq_arm_slice_timer";
        low_latency: bool, Unit::Flag, [0, 1], 1,
            "Shortens the slices so that each queue has its turn within `target_latency`, and lets asynchronous queues fill the drive only \
             slowly after a synchronous request was late.",
            "block/cfq-iosched.c: cfq_latency, cfq_scaled_cfqq_slice, cfq_may_dispatch";
        target_latency: Span, Unit::Time, [MS, 60 * SECOND], 300 * MS,
            "In this time all groups have their turns, each its part by weight.",
            "block/cfq-iosched.c: cfq_target_latency, cfq_group_slice";
        flash_idles: bool, Unit::Flag, [0, 1], 0,
            "`slice_idle` counts on flash as well. Linux sets it to 0 there when the drive is registered, since 4.1; a kernel before, or a user that \
             sets it afterwards, idles.",
            "Weir's own; Linux's default: block/cfq-iosched.c, cfq_registered_queue";
        known_queueing: bool, Unit::Flag, [0, 1], 1,
            "A drive of five tags or more is known from the beginning to take several requests at a time, as Linux knows it of a drive to \
             which anything has been written. Off: only once somebody has had five there, and until then it is taken not to as soon as \
             fifty samples say so.",
            "Weir's own; Linux's way: block/cfq-iosched.c, hw_tag, cfq_update_hw_tag";
        nr_requests: u32, Unit::Count, [4, 1 << 20], 128,
            "Requests of a group that wait or are in the drive, synchronous and asynchronous ones counted apart. A stream that fills this, or \
             has waited for room, may exceed it by a half for a moment.",
            "block/blk-core.c: nr_requests, __get_request, ioc_batching";
    }
}

impl Config {
    /// What seeks backwards are worth; `back_seek_max` is in KiB.
    pub(super) fn back_seek(&self) -> BackSeek {
        BackSeek {
            max: u64::from(self.back_seek_max) * 2,
            penalty: u64::from(self.back_seek_penalty),
        }
    }
}
