//! The tunables: Linux's names, units and defaults.

use crate::elevator::common::seek::BackSeek;
use crate::tunable::{Allowed, MS, SECOND, Unit, tunables, words};
use crate::{ConfigError, Span};

words! {
    /// How a turn is charged.
    pub enum Charge {
        /// By what was served, but a slow queue and one that ran out of time by the time it held the drive.
        Linux = "linux",
        /// By what was served, always: shares are of bytes. Weir's own.
        Service = "service",
    }
}

words! {
    /// What makes competitors unlike each other, so that the drive idles for each of them.
    pub enum Asymmetry {
        /// Several groups compete, or several classes, or queues of different weights.
        Groups = "groups",
        /// Groups of different weights compete, or queues of different weights.
        Weights = "weights",
    }
}

const STRICT_IDLE: Span = Span::from_millis(8);

tunables! {
    /// Tunables of `bfq`. A layer is not made with values outside their bounds: [`Config::validate`] says which they are.
    pub struct Config {
        fifo_expire_sync: Span, Unit::Time, [0, 60 * SECOND], 125 * MS,
            "A synchronous request older than this is served before those nearer to the head.",
            "block/bfq-iosched.c: bfq_fifo_expire";
        fifo_expire_async: Span, Unit::Time, [0, 60 * SECOND], 250 * MS,
            "An asynchronous request older than this is served before those nearer to the head.",
            "block/bfq-iosched.c: bfq_fifo_expire";
        back_seek_max: u32, Unit::Kib, [0, 1 << 30], 16 * 1024,
            "A request up to so far behind the head counts as near.",
            "block/bfq-iosched.c: bfq_back_max, bfq_choose_req";
        back_seek_penalty: u32, Unit::Count, [1, 1000], 2,
            "Distances behind the head count this many times.",
            "block/bfq-iosched.c: bfq_back_penalty, bfq_choose_req";
        slice_idle: Span, Unit::Time, [0, SECOND], 8 * MS,
            "How long the drive idles for the next request of the stream in service; microseconds count. Zero: never. At least 8ms under \
             `strict_guarantees`.",
            "block/bfq-iosched.c: bfq_slice_idle, bfq_arm_slice_timer";
        max_budget: u32, Unit::Sectors, [0, 1 << 31], 0,
            "The largest budget. Zero: what the drive serves in `timeout_sync`, as measured.",
            "block/bfq-iosched.c: bfq_max_budget_store, bfq_calc_max_budget";
        timeout_sync: Span, Unit::Time, [MS, 60 * SECOND], 125 * MS,
            "The longest turn; whole milliseconds count.",
            "block/bfq-iosched.c: bfq_timeout, bfq_bfqq_budget_timeout";
        strict_guarantees: bool, Unit::Flag, [0, 1], 0,
            "One request in the drive at a time, and always idle.",
            "block/bfq-iosched.c: bfq_strict_guarantees_store";
        async_charge_factor: u32, Unit::Count, [1, 100], 3,
            "Sectors written asynchronously count this many times among equals. A constant in Linux.",
            "block/bfq-iosched.c: bfq_async_charge_factor";
        seeky_threshold: u32, Unit::Count, [0, 32], 19,
            "A queue is seeky if more of its last 32 requests than this were. A constant in Linux.",
            "block/bfq-iosched.c: BFQQ_SEEKY";
        low_latency: bool, Unit::Flag, [0, 1], 1,
            "Raises the weight of queues that start something or are soft real-time.",
            "block/bfq-iosched.c: bfq_low_latency_store, bfq_bfqq_handle_idle_busy_switch";
        asymmetry: Asymmetry, Unit::Word(Asymmetry::WORDS), [0, 1], 0,
            "What makes competitors unlike each other, so that the drive idles for each of them. `\"groups\"`: several groups compete, or \
             several classes, or queues of different weights. `\"weights\"`: different weights, of groups or of queues, as before 4.20.",
            "block/bfq-iosched.c: bfq_asymmetric_scenario, bfq_symmetric_scenario";
        injection: bool, Unit::Flag, [0, 1], 1,
            "Sends requests of others while the drive idles, as many as the stream in service hardly notices. Always on in Linux.",
            "block/bfq-iosched.c: bfq_choose_bfqq_for_injection";
        waker_detections: u32, Unit::Count, [1, 100], 3,
            "After this many requests in a row that each came soon after another queue's, the stream waits for that queue, whose requests \
             are sent while the drive idles for the stream. A constant in Linux: 2 from 5.3 to 5.12.",
            "block/bfq-iosched.c: bfq_check_waker";
        waker_window: Span, Unit::Time, [0, SECOND], 4 * MS,
            "How soon is soon after another queue's request. A constant in Linux: 200us from 5.3 to 5.12.",
            "block/bfq-iosched.c: bfq_check_waker";
        merge: bool, Unit::Flag, [0, 1], 1,
            "Merges the queues of streams whose requests are near to each other, on drives that seek or do not queue. Always on in Linux.",
            "block/bfq-iosched.c: bfq_setup_cooperator";
        stable_merge: bool, Unit::Flag, [0, 1], 0,
            "With `merge`: merges the queues of streams that start shortly after each other, for good, on flash too. Always on in Linux \
             since 5.13, which is younger than the published measurements that Weir is held against.",
            "block/bfq-iosched.c: bfq_do_or_sched_stable_merge";
        charge: Charge, Unit::Word(Charge::WORDS), [0, 1], 0,
            "How a turn is charged. `\"linux\"`: by what was served, but a slow queue and one that ran out of time by the time it held the \
             drive. `\"service\"`: by what was served, always, so that shares are of bytes.",
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
    /// What seeks backwards are worth; `back_seek_max` is in KiB.
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
