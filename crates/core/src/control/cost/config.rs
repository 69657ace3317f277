//! The tunables of `io.cost`, which are the words of `io.cost.qos` and `io.cost.model` in Linux's
//! units.

use crate::tunable::{Allowed, MS, SECOND, TunableUnit, Tuned, tunables, words};
use crate::{ConfigError, Span};

words! {
    /// The source of the values of a line.
    pub enum Control {
        /// A profile, selected by the kind of drive and its performance.
        Auto = "auto",
        /// The values of the configuration.
        User = "user",
    }
}

words! {
    /// The way in which unused weight goes to other groups.
    pub enum DonationRule {
        /// All donors are settled together, over the whole tree (Linux 5.10 and later).
        Tree = "tree",
        /// Each group donates alone, by its usage in the last periods (Linux 5.4 to 5.9).
        Flat = "flat",
    }
}

/// The first tunable of `io.cost.model`. Those in front of it belong to `io.cost.qos`.
pub const MODEL: &str = "model";
/// The first tunable that is in neither of Linux's files.
pub const OWN: &str = "tick";
/// The last tunable. It tells which words the two lines omit, so it has neither a word nor a key of
/// its own.
pub const KEPT: &str = "kept";

/// The bits of the tunables that a profile has values for, which are `rpct` to `max` and `rbps` to
/// `wrandiops`.
const WORDS: u64 = 0b0011_1111_0111_1110;

tunables! {
    /// Tunables of `io.cost`. A layer refuses values outside their bounds, which
    /// [`Self::validate`] checks.
    pub struct Config {
        qos: Control, TunableUnit::Word(Control::WORDS), [0, 1], 0,
            "The source of the latency targets and the bounds of vrate. `\"auto\"`: a profile of the drive. `\"user\"`: the values of this line.",
            "block/blk-iocost.c: ioc_qos_write";
        rpct: u32, TunableUnit::Count, [0, 10_000], 0,
            "The part of the reads that must complete within `rlat`, counted in units of 0.01 %. Zero: reads have no target.",
            "block/blk-iocost.c: QOS_RPPM, ioc_timer_fn";
        rlat: Span, TunableUnit::Time, [0, 60 * SECOND], 25_000_000,
            "The latency target of reads, counted in whole microseconds. The period of the controller is a multiple of the longer of the two \
             targets.",
            "block/blk-iocost.c: QOS_RLAT, ioc_refresh_period_us";
        wpct: u32, TunableUnit::Count, [0, 10_000], 0,
            "The part of the writes that must complete within `wlat`, counted in units of 0.01 %. Zero: writes have no target.",
            "block/blk-iocost.c: QOS_WPPM, ioc_timer_fn";
        wlat: Span, TunableUnit::Time, [0, 60 * SECOND], 25_000_000,
            "The latency target of writes, counted in whole microseconds.",
            "block/blk-iocost.c: QOS_WLAT, ioc_refresh_period_us";
        min: u32, TunableUnit::Count, [100, 1_000_000], 100,
            "The smallest vrate, as a part of the performance that the model states, counted in units of 0.01 %.",
            "block/blk-iocost.c: VRATE_MIN_PPM, ioc_adjust_base_vrate";
        max: u32, TunableUnit::Count, [100, 1_000_000], 1_000_000,
            "The largest vrate, as a part of the performance that the model states, counted in units of 0.01 %.",
            "block/blk-iocost.c: VRATE_MAX_PPM, ioc_adjust_base_vrate";
        model: Control, TunableUnit::Word(Control::WORDS), [0, 1], 0,
            "The source of the drive's performance. `\"auto\"`: a profile of the drive. `\"user\"`: the values of this line.",
            "block/blk-iocost.c: ioc_cost_model_write";
        rbps: u64, TunableUnit::Count, [0, 1_000_000_000_000], 488_636_629,
            "The bytes per second that the drive reads. Zero, here and in the following words, means that the operation costs nothing.",
            "block/blk-iocost.c: calc_lcoefs";
        rseqiops: u64, TunableUnit::Count, [0, 1_000_000_000], 8_932,
            "The sequential reads of 4 KiB per second.",
            "block/blk-iocost.c: calc_lcoefs";
        rrandiops: u64, TunableUnit::Count, [0, 1_000_000_000], 8_518,
            "The random reads of 4 KiB per second.",
            "block/blk-iocost.c: calc_lcoefs";
        wbps: u64, TunableUnit::Count, [0, 1_000_000_000_000], 427_891_549,
            "The bytes per second that the drive writes.",
            "block/blk-iocost.c: calc_lcoefs";
        wseqiops: u64, TunableUnit::Count, [0, 1_000_000_000], 28_755,
            "The sequential writes of 4 KiB per second.",
            "block/blk-iocost.c: calc_lcoefs";
        wrandiops: u64, TunableUnit::Count, [0, 1_000_000_000], 21_940,
            "The random writes of 4 KiB per second.",
            "block/blk-iocost.c: calc_lcoefs";
        tick: Span, TunableUnit::Time, [0, 10 * MS], 4 * MS,
            "The tick of the kernel's timer. A period ends one tick after the first tick at or after its nominal end. The default is that of a \
             kernel with 250 ticks per second. Zero: a period ends exactly at its nominal end.",
            "CONFIG_HZ; block/blk-iocost.c: ioc_start_period";
        donation: DonationRule, TunableUnit::Word(DonationRule::WORDS), [0, 1], 0,
            "The way in which unused weight of groups is given to other groups. `\"tree\"`: all groups that give weight away are settled \
             together, as in Linux since 5.10. `\"flat\"`: each group gives weight away by itself, as in 5.4 to 5.9.",
            "block/blk-iocost.c: transfer_surpluses, and before 5.10 surplus_adjusted_hweight_inuse";
        kept: u32, TunableUnit::Count, [0, WORDS], 0,
            "The words that the two lines leave out, for which the drive's profile has the values: one bit for each place in this table.",
            "block/blk-iocost.c: ioc_qos_write, ioc_cost_model_write, ioc_refresh_params";
    }

    fn validate_together(&self) -> Result<(), ConfigError> {
        if self.min > self.max {
            return Err(ConfigError {
                field: "min",
                allowed: Allowed::Words("at most max"),
            });
        }
        Ok(())
    }

    fn bound_together(&mut self) {
        self.min = self.min.min(self.max);
    }
}

impl Config {
    /// Returns true if the tunable at a place in the table keeps the value of the drive's profile.
    pub fn keeps(&self, place: usize) -> bool {
        self.kept & WORDS as u32 & 1 << place != 0
    }

    /// Lets the tunable at a place keep the value of the drive's profile, or have its own. It has
    /// no effect on a tunable without a value in profiles.
    pub fn keep(&mut self, place: usize, keeps: bool) {
        let bit = WORDS as u32 & 1 << place;
        self.kept = if keeps {
            self.kept | bit
        } else {
            self.kept & !bit
        };
    }

    /// Returns this configuration with the values of a profile, itself a configuration, in the
    /// tunables that keep them.
    pub(super) fn filled_from(&self, profile: &Self) -> Self {
        let mut filled = *self;
        for place in (0..Self::TUNABLES.len()).filter(|&place| self.keeps(place)) {
            filled.set(place, profile.get(place));
        }
        filled.kept = 0;
        filled
    }
}
