//! What is assumed of a drive of which nothing was said (Linux: `autop`, `ioc_autop_idx`).

use super::config::{Config, Control};
use super::model::{Model, Speed};
use super::vtime::PER_USEC;
use crate::shape::DriveShape;
use crate::time::{Instant, Span};

/// A drive that is too fast or too slow for its profile for this time gets the next one.
const CYCLE: Span = Span::from_secs(10);
/// The least and the largest vrate, in millionths.
const VRATE_MIN: u64 = 10_000;
const VRATE_MAX: u64 = 100_000_000;
const MILLION: u64 = 1_000_000;

/// A profile.
struct Profile {
    read: Speed,
    write: Speed,
    /// Microseconds.
    latency: u64,
    /// The next profile holds from this vrate on, in percent; the one before up to that.
    too_fast: Option<u64>,
    too_slow: Option<u64>,
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

const PROFILES: [Profile; 4] = [
    Profile {
        read: speed(174_019_176, 41_708, 370),
        write: speed(178_075_866, 42_705, 378),
        latency: 250_000,
        too_fast: None,
        too_slow: None,
    },
    Profile {
        read: speed(245_855_193, 61_575, 6_946),
        write: speed(141_365_009, 33_716, 26_796),
        latency: 25_000,
        too_fast: None,
        too_slow: None,
    },
    Profile {
        read: speed(488_636_629, 8_932, 8_518),
        write: speed(427_891_549, 28_755, 21_940),
        latency: 25_000,
        too_fast: Some(500),
        too_slow: None,
    },
    Profile {
        read: speed(3_102_524_156, 724_816, 778_122),
        write: speed(1_742_780_862, 425_702, 443_193),
        latency: 5_000,
        too_fast: None,
        too_slow: Some(10),
    },
];

/// What holds now: quality of service and model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// How many of a million reads, and of a million writes, may miss their target.
    pub(super) may_miss: [u64; 2],
    /// The targets, in microseconds.
    pub(super) latency: [u64; 2],
    /// Bounds of vrate: vtime in a microsecond.
    pub(super) vrate_min: u64,
    pub(super) vrate_max: u64,
    pub(super) model: Model,
}

impl Params {
    /// How long a period is, in microseconds (Linux: `ioc_refresh_period_us`).
    pub(super) fn period(&self) -> u64 {
        let longer = usize::from(self.latency[0] < self.latency[1]);
        let asked = MILLION - self.may_miss[longer];
        let times = match asked {
            0 => 2,
            _ => (self.may_miss[longer] / 50_000).max(2),
        };
        (times * self.latency[longer]).clamp(1_000, MILLION)
    }
}

/// Which profile holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Auto {
    profile: usize,
    is_fixed: bool,
    too_fast_at: Option<Instant>,
    too_slow_at: Option<Instant>,
}

impl Auto {
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
            is_fixed: by_user || profile < SSD_DFL,
            too_fast_at: None,
            too_slow_at: None,
        }
    }

    /// Takes another profile if vrate has said for long enough that this is not the drive's. Returns whether it did.
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

    /// What holds under this profile and the configuration.
    pub(super) fn params(&self, config: &Config) -> Params {
        let profile = &PROFILES[self.profile];
        let qos = config.qos == Control::User;
        let micros = |span: Span| span.as_nanos() / 1_000;
        let (asked, latency, min, max) = if qos {
            (
                [config.rpct, config.wpct].map(|hundredths| u64::from(hundredths) * 100),
                [config.rlat, config.wlat].map(micros),
                u64::from(config.min) * 100,
                u64::from(config.max) * 100,
            )
        } else {
            ([0; 2], [profile.latency; 2], VRATE_MIN, VRATE_MAX)
        };
        let model = if config.model == Control::User {
            Model::new(
                speed(config.rbps, config.rseqiops, config.rrandiops),
                speed(config.wbps, config.wseqiops, config.wrandiops),
            )
        } else {
            Model::new(profile.read, profile.write)
        };
        Params {
            may_miss: asked.map(|ppm| MILLION - ppm),
            latency,
            vrate_min: (min * PER_USEC).div_ceil(MILLION),
            vrate_max: max * PER_USEC / MILLION,
            model,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_drive_chooses_the_profile() {
        let auto = |rotational, tags| {
            let shape = DriveShape {
                tags,
                rotational,
                ..DriveShape::default()
            };
            Auto::new(&Config::default(), &shape).profile
        };
        assert_eq!((auto(true, 32), auto(false, 1), auto(false, 32)), (0, 1, 2));
    }

    #[test]
    fn a_drive_that_is_five_times_as_fast_for_ten_seconds_is_a_fast_one() {
        let mut auto = Auto::new(&Config::default(), &DriveShape::default());
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
    fn a_period_is_two_targets_or_more() {
        let period = |rpct, rlat| {
            let config = Config {
                qos: Control::User,
                rpct,
                rlat: Span::from_micros(rlat),
                wlat: Span::ZERO,
                ..Config::default()
            };
            let auto = Auto::new(&config, &DriveShape::default());
            auto.params(&config).period()
        };
        assert_eq!(period(0, 10_000), 20_000);
        assert_eq!(period(9_500, 10_000), 20_000);
        assert_eq!(period(5_000, 10_000), 100_000, "half of them may miss");
        assert_eq!(period(9_500, 100), 1_000, "the least");
        assert_eq!(period(100, 250_000), 1_000_000, "the most");
        let alike = Config {
            qos: Control::User,
            rpct: 5_000,
            wpct: 9_500,
            rlat: Span::from_micros(10_000),
            wlat: Span::from_micros(10_000),
            ..Config::default()
        };
        let params = Auto::new(&alike, &DriveShape::default()).params(&alike);
        assert_eq!(
            params.period(),
            100_000,
            "of two that are alike that of reads counts"
        );
    }
}
