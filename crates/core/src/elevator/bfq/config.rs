//! The tunables of `bfq`, with Linux's names, units and defaults.

use crate::elevator::common::seek::BackSeek;
use crate::tunable::{Allowed, MS, SECOND, TunableUnit, tunables, words};
use crate::{ConfigError, Span};

words! {
    /// The quantity that a queue is charged for a turn.
    pub enum Charge {
        /// The sectors served, except that a slow queue and a queue whose time ran out are charged
        /// the time for which they held the drive.
        Linux = "linux",
        /// Always the sectors served, so that shares are of bytes. Linux has no such rule.
        Service = "service",
    }
}

words! {
    /// The differences between competitors for which the drive idles.
    pub enum Asymmetry {
        /// Several groups, several classes or queues of different weights compete.
        Groups = "groups",
        /// Groups of different weights or queues of different weights compete.
        Weights = "weights",
    }
}

/// The least `slice_idle` under `strict_guarantees`, which is Linux's default of `slice_idle` (in
/// `bfq_strict_guarantees_store`).
const STRICT_IDLE: Span = Span::from_millis(8);

tunables! {
    /// Tunables of `bfq`. A layer refuses values outside their bounds, which [`Self::validate`]
    /// checks.
    pub struct Config {
        fifo_expire_sync: Span, TunableUnit::Time, [0, 60 * SECOND], 125 * MS,
            "The age at which a waiting synchronous request is served before requests that are nearer to the head.",
            "block/bfq-iosched.c: bfq_fifo_expire";
        fifo_expire_async: Span, TunableUnit::Time, [0, 60 * SECOND], 250 * MS,
            "The age at which a waiting asynchronous request is served before requests that are nearer to the head.",
            "block/bfq-iosched.c: bfq_fifo_expire";
        back_seek_max: u32, TunableUnit::Kib, [0, 1 << 30], 16 * 1024,
            "The maximum distance behind the head at which a request still counts as near.",
            "block/bfq-iosched.c: bfq_back_max, bfq_choose_req";
        back_seek_penalty: u32, TunableUnit::Count, [1, 1000], 2,
            "The factor by which distances behind the head are multiplied when they are compared with distances in front of it.",
            "block/bfq-iosched.c: bfq_back_penalty, bfq_choose_req";
        slice_idle: Span, TunableUnit::Time, [0, SECOND], 8 * MS,
            "The time for which the drive idles to wait for the next request of the stream in service. It is counted in whole microseconds. \
             Zero: the drive never idles. With `strict_guarantees`, it must be at least 8ms.",
            "block/bfq-iosched.c: bfq_slice_idle, bfq_arm_slice_timer";
        max_budget: u32, TunableUnit::Sectors, [0, 1 << 31], 0,
            "The largest budget of a turn. Zero: the amount that the drive serves in `timeout_sync`, as measured.",
            "block/bfq-iosched.c: bfq_max_budget_store, bfq_calc_max_budget";
        timeout_sync: Span, TunableUnit::Time, [MS, 60 * SECOND], 125 * MS,
            "The longest turn of a queue, counted in whole milliseconds.",
            "block/bfq-iosched.c: bfq_timeout, bfq_bfqq_budget_timeout";
        strict_guarantees: bool, TunableUnit::Flag, [0, 1], 0,
            "Whether the drive gets only one request at a time and always idles for the next one.",
            "block/bfq-iosched.c: bfq_strict_guarantees_store";
        async_charge_factor: u32, TunableUnit::Count, [1, 100], 3,
            "The factor by which the sectors of asynchronous writes are multiplied when they are charged, if all competitors are equal in the \
             sense of `asymmetry`. In Linux it is a constant.",
            "block/bfq-iosched.c: bfq_async_charge_factor";
        seeky_threshold: u32, TunableUnit::Count, [0, 32], 19,
            "The number of seeks among the last 32 requests above which a queue counts as seeky. In Linux it is a constant.",
            "block/bfq-iosched.c: BFQQ_SEEKY";
        low_latency: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether the weight is raised (multiplied) for queues that start something interactive and for queues that are soft real-time.",
            "block/bfq-iosched.c: bfq_low_latency_store, bfq_bfqq_handle_idle_busy_switch";
        asymmetry: Asymmetry, TunableUnit::Word(Asymmetry::WORDS), [0, 1], 0,
            "The kind of difference between competitors that makes the drive idle for each of them. `\"groups\"`: several groups compete, or \
             several classes, or queues of different weights. `\"weights\"`: groups or queues of different weights compete, as before 4.20.",
            "block/bfq-iosched.c: bfq_asymmetric_scenario, bfq_symmetric_scenario";
        injection: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether requests of other queues are sent while the drive idles, as many as hardly affect the stream in service. In Linux it is \
             always on.",
            "block/bfq-iosched.c: bfq_choose_bfqq_for_injection";
        waker_detections: u32, TunableUnit::Count, [1, 100], 3,
            "The number of consecutive requests, each shortly after a request of the same other queue, after which a stream is assumed to wait \
             for that queue (its waker). Requests of the waker are then sent while the drive idles for the stream. In Linux it is a constant: \
             2 from 5.3 to 5.12.",
            "block/bfq-iosched.c: bfq_check_waker";
        waker_window: Span, TunableUnit::Time, [0, SECOND], 4 * MS,
            "The time within which a request counts as following another queue's request for `waker_detections`. In Linux it is a constant: \
             200us from 5.3 to 5.12.",
            "block/bfq-iosched.c: bfq_check_waker";
        merge: bool, TunableUnit::Flag, [0, 1], 1,
            "Whether the queues of streams whose requests are near to each other are merged, on drives that seek or that do not queue \
             commands. In Linux it is always on.",
            "block/bfq-iosched.c: bfq_setup_cooperator";
        stable_merge: bool, TunableUnit::Flag, [0, 1], 0,
            "Whether the queues of streams that start shortly after each other are merged permanently, also on flash. It requires `merge`. In \
             Linux it is always on since 5.13, which is newer than the published measurements with which Weir is compared.",
            "block/bfq-iosched.c: bfq_do_or_sched_stable_merge";
        charge: Charge, TunableUnit::Word(Charge::WORDS), [0, 1], 0,
            "The quantity that a queue is charged for a turn. `\"linux\"`: the sectors that were served, but a slow queue and a queue whose time ran out \
             are charged the time for which they held the drive. `\"service\"`: always the sectors that were served, so that shares are shares \
             of bytes.",
            "Weir's own; Linux's way: block/bfq-iosched.c, bfq_bfqq_expire";
    }

    fn validate_together(&self) -> Result<(), ConfigError> {
        if self.strict_guarantees && self.slice_idle < STRICT_IDLE {
            return Err(ConfigError {
                field: "slice_idle",
                allowed: Allowed::Words("at most 1 s, and at least 8 ms under strict_guarantees"),
            });
        }
        Ok(())
    }

    fn bound_together(&mut self) {
        if self.strict_guarantees {
            self.slice_idle = self.slice_idle.max(STRICT_IDLE);
        }
    }
}

impl Config {
    /// Returns the rules for backward seeks in sectors. The tunable `back_seek_max` is in KiB.
    #[inline]
    pub(super) fn back_seek(&self) -> BackSeek {
        BackSeek {
            max: u64::from(self.back_seek_max) * 2,
            penalty: u64::from(self.back_seek_penalty),
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
        let config = Config::default()
            .timeout_sync(Span::ZERO)
            .strict_guarantees(true);
        assert_eq!(config.validate().unwrap_err().field, "timeout_sync");
        assert_eq!(config.bounded().timeout_sync, Span::from_millis(1));
        let config = Config::default()
            .strict_guarantees(true)
            .slice_idle(Span::ZERO);
        assert_eq!(config.validate().unwrap_err().field, "slice_idle");
        assert_eq!(config.bounded().slice_idle, Span::from_millis(8));
    }
}
