//! The tunables: the words of `io.cost.qos` and `io.cost.model`, in Linux's units.

use crate::tunable::{Allowed, MS, SECOND, Tuned, Unit, tunables, words};
use crate::{ConfigError, Span};

words! {
    /// Which side says what holds.
    pub enum Control {
        /// A profile, by what kind of drive it is and how it does.
        Auto = "auto",
        /// The values here.
        User = "user",
    }
}

words! {
    /// How weight that groups do not use goes to others.
    pub enum DonationRule {
        /// All groups that give are settled together, over the tree (Linux 5.10 and later).
        Tree = "tree",
        /// Each gives by itself, by what it used in its last periods (Linux 5.4 to 5.9).
        Flat = "flat",
    }
}

/// The tunables from this one on belong to `io.cost.model`, those before it to `io.cost.qos`.
pub const MODEL: &str = "model";
/// The tunables from this one on are in neither of Linux's files.
pub const OWN: &str = "tick";
/// The last tunable. It says which words the two lines leave out, so it has no word and no key of its own.
pub const KEPT: &str = "kept";

/// The bits of the tunables that a profile has values for: `rpct` to `max`, and `rbps` to `wrandiops`.
const WORDS: u64 = 0b0011_1111_0111_1110;

tunables! {
    /// Tunables of `io.cost`. A layer is not made with values outside their bounds: [`Config::validate`] says which they are.
    pub struct Config {
        qos: Control, Unit::Word(Control::WORDS), [0, 1], 0,
            "`\"auto\"`: targets and bounds of vrate are those of a profile. `\"user\"`: those here.",
            "block/blk-iocost.c: ioc_qos_write";
        rpct: u32, Unit::Count, [0, 10_000], 0,
            "The part of the reads that is to take no longer than `rlat`, counted in hundredths of a percent. Zero: they may take any time.",
            "block/blk-iocost.c: QOS_RPPM, ioc_timer_fn";
        rlat: Span, Unit::Time, [0, 60 * SECOND], 25_000_000,
            "How long a read may take; whole microseconds count. A period of the controller is a multiple of the longer of the two targets.",
            "block/blk-iocost.c: QOS_RLAT, ioc_refresh_period_us";
        wpct: u32, Unit::Count, [0, 10_000], 0,
            "The part of the writes that is to take no longer than `wlat`, counted in hundredths of a percent.",
            "block/blk-iocost.c: QOS_WPPM, ioc_timer_fn";
        wlat: Span, Unit::Time, [0, 60 * SECOND], 25_000_000,
            "How long a write may take.",
            "block/blk-iocost.c: QOS_WLAT, ioc_refresh_period_us";
        min: u32, Unit::Count, [100, 1_000_000], 100,
            "The least vrate: a part of what the model says, counted in hundredths of a percent.",
            "block/blk-iocost.c: VRATE_MIN_PPM, ioc_adjust_base_vrate";
        max: u32, Unit::Count, [100, 1_000_000], 1_000_000,
            "The largest vrate.",
            "block/blk-iocost.c: VRATE_MAX_PPM, ioc_adjust_base_vrate";
        model: Control, Unit::Word(Control::WORDS), [0, 1], 0,
            "`\"auto\"`: what the drive can do is as a profile has it. `\"user\"`: as it is stated here.",
            "block/blk-iocost.c: ioc_cost_model_write";
        rbps: u64, Unit::Count, [0, 1_000_000_000_000], 488_636_629,
            "Bytes that the drive reads in a second. Zero, here and below: that costs nothing.",
            "block/blk-iocost.c: calc_lcoefs";
        rseqiops: u64, Unit::Count, [0, 1_000_000_000], 8_932,
            "Sequential reads of 4 KiB in a second.",
            "block/blk-iocost.c: calc_lcoefs";
        rrandiops: u64, Unit::Count, [0, 1_000_000_000], 8_518,
            "Random reads of 4 KiB in a second.",
            "block/blk-iocost.c: calc_lcoefs";
        wbps: u64, Unit::Count, [0, 1_000_000_000_000], 427_891_549,
            "Bytes that it writes in a second.",
            "block/blk-iocost.c: calc_lcoefs";
        wseqiops: u64, Unit::Count, [0, 1_000_000_000], 28_755,
            "Sequential writes of 4 KiB in a second.",
            "block/blk-iocost.c: calc_lcoefs";
        wrandiops: u64, Unit::Count, [0, 1_000_000_000], 21_940,
            "Random writes of 4 KiB in a second.",
            "block/blk-iocost.c: calc_lcoefs";
        tick: Span, Unit::Time, [0, 10 * MS], 4 * MS,
            "A period ends with a tick, the one after that which it lasts to: a tick of a kernel with 250 a second. Zero: it is as long as it is.",
            "CONFIG_HZ; block/blk-iocost.c: ioc_start_period";
        donation: DonationRule, Unit::Word(DonationRule::WORDS), [0, 1], 0,
            "How weight that groups do not use goes to others. `\"tree\"`: as in Linux since 5.10. `\"flat\"`: as in 5.4 to 5.9, each by itself.",
            "block/blk-iocost.c: transfer_surpluses, and before 5.10 surplus_adjusted_hweight_inuse";
        kept: u32, Unit::Count, [0, WORDS], 0,
            "Words that the two lines leave out, so that the drive's profile has their values: one bit for each place in this table.",
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
    /// Whether the tunable at a place in the table keeps the value of the drive's profile.
    pub fn keeps(&self, place: usize) -> bool {
        self.kept & WORDS as u32 & 1 << place != 0
    }

    /// Lets the tunable at a place keep the value of the drive's profile, or have its own. Without effect for a tunable that no profile
    /// has.
    pub fn keep(&mut self, place: usize, keeps: bool) {
        let bit = WORDS as u32 & 1 << place;
        self.kept = if keeps {
            self.kept | bit
        } else {
            self.kept & !bit
        };
    }

    /// This configuration with the values of a profile, itself a configuration, in the tunables that keep them.
    pub(super) fn filled_from(&self, profile: &Self) -> Self {
        let mut filled = *self;
        for place in (0..Self::TUNABLES.len()).filter(|&place| self.keeps(place)) {
            filled.set(place, profile.get(place));
        }
        filled.kept = 0;
        filled
    }
}
