//! Profiles: the assumptions about a drive for which no values are set (Linux: `autop`,
//! `ioc_autop_idx`).

use super::config::{Config, Control};
use super::model::{LinearModel, Speed};
use super::vtime::PER_USEC;
use crate::shape::DriveShape;
use crate::time::{Instant, Span};

/// The time after which a drive that is too fast or too slow for its profile gets another one
/// (Linux: `AUTOP_CYCLE_NSEC`).
const CYCLE: Span = Span::from_secs(10);
/// The bounds of vrate in units of 0.01 %.
const VRATE_MIN: u32 = 100;
const VRATE_MAX: u32 = 1_000_000;
const MILLION: u64 = 1_000_000;

/// The performance and latency targets that are assumed of a kind of drive.
struct CostProfile {
    read: Speed,
    write: Speed,
    /// The latency target in microseconds.
    latency: u64,
    /// The vrate in percent from which on the next profile applies. At or below `too_slow`, the
    /// previous one applies.
    too_fast: Option<u64>,
    too_slow: Option<u64>,
}

impl CostProfile {
    /// Returns the profile as a configuration.
    fn config(&self) -> Config {
        let latency = Span::from_micros(self.latency);
        Config::default()
            .rpct(0)
            .rlat(latency)
            .wpct(0)
            .wlat(latency)
            .min(VRATE_MIN)
            .max(VRATE_MAX)
            .rbps(self.read.bps)
            .rseqiops(self.read.seq_iops)
            .rrandiops(self.read.rand_iops)
            .wbps(self.write.bps)
            .wseqiops(self.write.seq_iops)
            .wrandiops(self.write.rand_iops)
    }
}

const fn speed(bps: u64, seq_iops: u64, rand_iops: u64) -> Speed {
    Speed {
        bps,
        seq_iops,
        rand_iops,
    }
}

const HDD: usize = 0;
const SSD_QD1: usize = 1;
const SSD_DFL: usize = 2;

// Linux's `AUTOP_HDD`, `AUTOP_SSD_QD1`, `AUTOP_SSD_DFL` and `AUTOP_SSD_FAST`, in this order.
const PROFILES: [CostProfile; 4] = [
    CostProfile {
        read: speed(174_019_176, 41_708, 370),
        write: speed(178_075_866, 42_705, 378),
        latency: 250_000,
        too_fast: None,
        too_slow: None,
    },
    CostProfile {
        read: speed(245_855_193, 61_575, 6_946),
        write: speed(141_365_009, 33_716, 26_796),
        latency: 25_000,
        too_fast: None,
        too_slow: None,
    },
    CostProfile {
        read: speed(488_636_629, 8_932, 8_518),
        write: speed(427_891_549, 28_755, 21_940),
        latency: 25_000,
        too_fast: Some(500),
        too_slow: None,
    },
    CostProfile {
        read: speed(3_102_524_156, 724_816, 778_122),
        write: speed(1_742_780_862, 425_702, 443_193),
        latency: 5_000,
        too_fast: None,
        too_slow: Some(10),
    },
];

/// The quality of service and the model that apply at present.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// The number of reads, and of writes, in a million that may miss their target.
    pub(super) may_miss: [u64; 2],
    /// The latency targets of reads and writes, in microseconds.
    pub(super) latency: [u64; 2],
    /// The bounds of vrate in vtime per microsecond.
    pub(super) vrate_min: u64,
    pub(super) vrate_max: u64,
    pub(super) model: LinearModel,
}

impl Params {
    /// Returns the length of a period in microseconds (Linux: `ioc_refresh_period_us`).
    pub(super) fn period(&self) -> u64 {
        let longer = usize::from(self.latency[0] < self.latency[1]);
        let asked = MILLION - self.may_miss[longer];
        let times = match asked {
            0 => 2,
            // The more requests may miss their target, the longer a period must be to observe
            // enough of them: one target for each 5 %, and at least two.
            _ => (self.may_miss[longer] / 50_000).max(2),
        };
        (times * self.latency[longer]).clamp(1_000, MILLION)
    }
}

/// The selection of a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileChoice {
    profile: usize,
    is_fixed: bool,
    too_fast_at: Option<Instant>,
    too_slow_at: Option<Instant>,
}

impl ProfileChoice {
    pub(super) fn new(config: &Config, shape: &DriveShape) -> Self {
        let profile = if shape.rotational {
            HDD
        } else if shape.all_tags() == 1 {
            SSD_QD1
        } else {
            SSD_DFL
        };
        let by_user = config.qos == Control::User || config.model == Control::User;
        Self {
            profile,
            // Linux follows the speed only of the two default profiles of flash with several tags,
            // and not if the user has set values.
            is_fixed: by_user || profile < SSD_DFL,
            too_fast_at: None,
            too_slow_at: None,
        }
    }

    /// Selects another profile if vrate has been out of the range of the present one for long
    /// enough. Returns true if it did.
    pub(super) fn follow(&mut self, now: Instant, base_rate: u64) -> bool {
        if self.is_fixed {
            return false;
        }
        let percent = base_rate * 100 / PER_USEC;
        let profile = &PROFILES[self.profile];
        let fast = profile.too_fast.is_some_and(|from| percent >= from);
        let slow = profile.too_slow.is_some_and(|to| percent <= to);
        let for_long = |since: &mut Option<Instant>, holds: bool| {
            if !holds {
                *since = None;
            }
            holds && now.since(*since.get_or_insert(now)) >= CYCLE
        };
        let next = if for_long(&mut self.too_fast_at, fast) {
            self.profile + 1
        } else if for_long(&mut self.too_slow_at, slow) {
            self.profile - 1
        } else {
            return false;
        };
        self.profile = next;
        (self.too_fast_at, self.too_slow_at) = (None, None);
        true
    }

    /// Returns the values under this profile and the configuration.
    pub(super) fn params(&self, config: &Config) -> Params {
        let profile = PROFILES[self.profile].config();
        let config = config.filled_from(&profile);
        let of = |control, file: &Config| match control {
            Control::User => config,
            Control::Auto => *file,
        };
        let (qos, model) = (of(config.qos, &profile), of(config.model, &profile));
        let asked = [qos.rpct, qos.wpct].map(|hundredths| u64::from(hundredths) * 100);
        let bound = |hundredths| u64::from(hundredths) * 100 * PER_USEC;
        Params {
            may_miss: asked.map(|ppm| MILLION - ppm),
            latency: [qos.rlat, qos.wlat].map(|span| span.as_nanos() / 1_000),
            vrate_min: bound(qos.min).div_ceil(MILLION),
            vrate_max: bound(qos.max) / MILLION,
            model: LinearModel::new(
                speed(model.rbps, model.rseqiops, model.rrandiops),
                speed(model.wbps, model.wseqiops, model.wrandiops),
            ),
        }
    }
}

impl Config {
    /// Returns this configuration as it applies to a new drive of this shape: tunables that keep
    /// the value of the drive's profile have that value.
    #[must_use]
    pub fn filled(&self, shape: &DriveShape) -> Self {
        self.filled_from(&PROFILES[ProfileChoice::new(self, shape).profile].config())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_drive_chooses_the_profile() {
        let auto = |rotational, tags| {
            let shape = DriveShape::default().tags(tags).rotational(rotational);
            ProfileChoice::new(&Config::default(), &shape).profile
        };
        assert_eq!((auto(true, 32), auto(false, 1), auto(false, 32)), (0, 1, 2));
    }

    #[test]
    fn a_drive_at_five_times_the_rate_for_10_s_gets_the_fast_profile() {
        let mut auto = ProfileChoice::new(&Config::default(), &DriveShape::default());
        let at = |s| Instant::ZERO + Span::from_secs(s);
        assert!(!auto.follow(at(0), 5 * PER_USEC));
        assert!(!auto.follow(at(9), PER_USEC), "not for long enough");
        assert!(!auto.follow(at(10), 5 * PER_USEC));
        assert!(auto.follow(at(20), 5 * PER_USEC));
        let period = auto.params(&Config::default()).period();
        assert_eq!((auto.profile, period), (3, 10_000));
        assert!(!auto.follow(at(30), PER_USEC / 11));
        assert!(auto.follow(at(40), PER_USEC / 11));
        assert_eq!(auto.profile, SSD_DFL);
    }

    #[test]
    fn unset_parameters_have_the_values_of_the_drives_profile() {
        let mut config = Config::default()
            .qos(Control::User)
            .model(Control::User)
            .rpct(9_500)
            .wrandiops(7);
        (0..Config::TUNABLES.len()).for_each(|place| config.keep(place, true));
        for place in [1, 13] {
            config.keep(place, false);
        }
        assert_eq!(config.validate(), Ok(()));
        let filled = |rotational| {
            let shape = DriveShape::default().rotational(rotational);
            let params = ProfileChoice::new(&config, &shape).params(&config);
            (config.filled(&shape), params)
        };
        let (disk, params) = filled(true);
        assert_eq!(
            (disk.rpct, disk.rlat, disk.max),
            (9_500, Span::from_millis(250), 1_000_000)
        );
        assert_eq!((disk.rrandiops, disk.wrandiops, disk.kept), (370, 7, 0));
        assert_eq!((params.may_miss[0], params.latency), (50_000, [250_000; 2]));
        let (flash, params) = filled(false);
        assert_eq!(
            (flash.rlat, flash.rrandiops),
            (Span::from_millis(25), 8_518)
        );
        assert_eq!(params.latency, [25_000; 2]);
    }

    #[test]
    fn a_period_is_two_targets_or_more() {
        let period = |rpct, rlat| {
            let config = Config::default()
                .qos(Control::User)
                .rpct(rpct)
                .rlat(Span::from_micros(rlat))
                .wlat(Span::ZERO);
            let auto = ProfileChoice::new(&config, &DriveShape::default());
            auto.params(&config).period()
        };
        assert_eq!(period(0, 10_000), 20_000);
        assert_eq!(period(9_500, 10_000), 20_000);
        assert_eq!(period(5_000, 10_000), 100_000, "half of them may miss");
        assert_eq!(period(9_500, 100), 1_000, "the least");
        assert_eq!(period(100, 250_000), 1_000_000, "the most");
        let alike = Config::default()
            .qos(Control::User)
            .rpct(5_000)
            .wpct(9_500)
            .rlat(Span::from_micros(10_000))
            .wlat(Span::from_micros(10_000));
        let params = ProfileChoice::new(&alike, &DriveShape::default()).params(&alike);
        assert_eq!(
            params.period(),
            100_000,
            "of two that are alike that of reads counts"
        );
    }
}
