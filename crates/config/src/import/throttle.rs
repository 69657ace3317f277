//! The limits of a throttle group: the names of their keys, the rules that QEMU has for them, and
//! their translation to a max.
//!
//! A limit is a leaky bucket (QEMU: `docs/throttle.txt` and `util/throttle.c`). Its rate is what
//! leaks from it. Its size is `burst * length`, or a tenth of a second at the rate if `burst` is
//! not set. Therefore a window of `t` seconds admits at most `rate * t` plus the size of the
//! bucket, which is the rule of a max whose `burst` is the size divided by the rate. If `length`
//! exceeds a second, QEMU also limits the rate at which the bucket fills to `burst` per second.

use crate::field::{Mirror, PrintedValue};
use crate::units::{ByteSize, BytesPerSecond, Time};
use weir_core::{Max, Span};

/// The maximum of each limit (QEMU: `THROTTLE_VALUE_MAX`).
const VALUE_MAX: u64 = 1_000_000_000_000_000;
/// The maximum of a limit on requests per second in a contract.
const IOPS_MAX: u64 = 1_000_000_000_000;
/// The maximum of `burst` in a contract, in nanoseconds.
const BURST_MAX: u128 = 3_600_000_000_000;
/// The part of a second that passes at once if a limit has no burst (QEMU: `avg / 10`), in
/// nanoseconds.
const BURST_DEFAULT: u128 = 100_000_000;

/// The names of the limits in one kind of input.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Dialect {
    /// The rates: bytes of all requests, of reads and of writes, and then requests.
    rates: [&'static str; 6],
    /// The ends of the names of a rate, its burst and the length of the burst.
    ends: [&'static str; 3],
    /// The size of one request.
    size: &'static str,
}

/// The elements of `<iotune>` and `<throttlegroup>` in libvirt.
#[rustfmt::skip]
pub(super) const LIBVIRT: Dialect = Dialect {
    rates: [
        "total_bytes_sec", "read_bytes_sec", "write_bytes_sec",
        "total_iops_sec", "read_iops_sec", "write_iops_sec",
    ],
    ends: ["", "_max", "_max_length"],
    size: "size_iops_sec",
};

/// The options of `-drive` after `throttling.`, and the `limits` of a throttle group of QEMU.
#[rustfmt::skip]
pub(super) const OPTIONS: Dialect = Dialect {
    rates: ["bps-total", "bps-read", "bps-write", "iops-total", "iops-read", "iops-write"],
    ends: ["", "-max", "-max-length"],
    size: "iops-size",
};

/// The arguments of `block_set_io_throttle`, and the fields of `query-block`.
pub(super) const MONITOR: Dialect = Dialect {
    rates: ["bps", "bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"],
    ends: ["", "_max", "_max_length"],
    size: "iops_size",
};

impl Dialect {
    /// Returns the names of all limits: of each rate its own, that of its burst and of the length,
    /// and at last that of the size.
    pub(super) fn names(&self) -> Vec<String> {
        let of = |rate: &&str| self.ends.map(|end| format!("{rate}{end}"));
        let rates = self.rates.iter().flat_map(of);
        rates.chain([self.size.to_owned()]).collect()
    }
}

/// One of the six limits. Zero means that a value is not set.
#[derive(Clone, Copy)]
struct LimitBucket {
    /// The rate per second.
    rate: u64,
    /// The rate during a burst, per second.
    burst: u64,
    /// The length of a burst in seconds. Zero counts as one.
    length: u64,
}

impl LimitBucket {
    /// Returns the amount that passes at once, as a time at the rate in nanoseconds.
    fn time(&self) -> u128 {
        // Without this size, every other request of a guest would wait.
        if self.burst == 0 {
            return BURST_DEFAULT;
        }
        let amount = u128::from(self.burst) * u128::from(self.length.max(1));
        amount * 1_000_000_000 / u128::from(self.rate.max(1))
    }
}

/// The limits of one throttle group.
#[derive(Clone, Debug)]
pub(super) struct ThrottleLimits {
    pub(super) dialect: &'static Dialect,
    /// The values in the order of the names, each with true if it was set.
    values: [(u64, bool); 19],
}

/// A difference between limits and their translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LimitDifference {
    /// The name of the limit that is translated differently.
    pub(super) key: String,
    /// The difference and its consequence.
    pub(super) message: String,
}

impl ThrottleLimits {
    /// No limit of any kind.
    pub(super) const fn new(dialect: &'static Dialect) -> Self {
        let values = [(0, false); 19];
        Self { dialect, values }
    }

    /// Sets the limit with this name to the value in a text.
    ///
    /// # Errors
    /// Returns the reason for which the value is wrong, or `None` if the name is not a limit.
    pub(super) fn set(&mut self, name: &str, text: &str) -> Result<(), Option<String>> {
        let place = self.dialect.names().iter().position(|known| known == name);
        let value = &mut self.values[place.ok_or(None)?];
        if value.1 {
            return Err(Some("is written twice".to_owned()));
        }
        *value = (number(text).map_err(Some)?, true);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.values[18].0
    }

    /// Returns all six limits, each with the name of its rate.
    fn buckets(&self) -> impl Iterator<Item = (&'static str, LimitBucket)> {
        let values = self.values.chunks_exact(3).map(|values| LimitBucket {
            rate: values[0].0,
            burst: values[1].0,
            length: values[2].0,
        });
        self.dialect.rates.into_iter().zip(values)
    }

    /// Returns the limits that are set, each with the name of its rate.
    fn limits(&self) -> impl Iterator<Item = (&'static str, LimitBucket)> {
        self.buckets().filter(|(_, bucket)| bucket.rate > 0)
    }

    /// Returns true if any limit is set.
    pub(super) fn is_limited(&self) -> bool {
        self.limits().next().is_some()
    }

    /// Returns true if the other limits have the same values.
    pub(super) fn equals(&self, other: &Self) -> bool {
        let values = self.values.iter().zip(&other.values);
        values.into_iter().all(|(own, other)| own.0 == other.0)
    }

    /// Returns the rules of QEMU that the limits break: the name of a limit, and the rule.
    pub(super) fn broken(&self) -> Vec<(String, String)> {
        let [_, burst, length] = self.dialect.ends;
        let buckets: Vec<_> = self.buckets().collect();
        let mut broken = Vec::new();
        for kind in buckets.chunks_exact(3) {
            let [total, read, write] = [0, 1, 2].map(|at| kind[at].1);
            // A total is a limit on reads and writes too, so a further limit would be ambiguous.
            let both =
                |of: fn(&LimitBucket) -> u64| of(&total) > 0 && of(&read).max(of(&write)) > 0;
            let rule = format!("cannot be combined with {} or {}", kind[1].0, kind[2].0);
            if both(|bucket| bucket.rate) {
                broken.push((kind[0].0.to_owned(), rule));
            } else if both(|bucket| bucket.burst) {
                broken.push((format!("{}{burst}", kind[0].0), rule));
            }
        }
        for (rate, bucket) in buckets {
            let [burst, length] = [burst, length].map(|end| format!("{rate}{end}"));
            if bucket.burst > 0 && bucket.rate == 0 {
                broken.push((burst, format!("requires {rate}")));
            } else if bucket.burst > 0 && bucket.burst < bucket.rate {
                broken.push((burst, format!("cannot be lower than {rate}")));
            } else if bucket.burst == 0 && bucket.length > 1 {
                // QEMU prints a length of 1 for limits without a burst.
                broken.push((length, format!("requires {burst}")));
            } else if bucket.length > 0 && bucket.burst > VALUE_MAX / bucket.length {
                let rule = format!("is too long for {burst}: their product exceeds {VALUE_MAX}");
                broken.push((length, rule));
            }
        }
        if self.size() > 0 && self.buckets().skip(3).all(|(_, bucket)| bucket.rate == 0) {
            let rule = format!("requires one of {}", self.dialect.rates[3..].join(", "));
            broken.push((self.dialect.size.to_owned(), rule));
        }
        broken
    }

    /// Returns the max of a contract that is closest to the limits, and each difference. The max
    /// permits no higher rate and no larger amount than the limits.
    pub(super) fn max(&self) -> (Max, Vec<LimitDifference>) {
        let mut differences = Vec::new();
        let mut differ =
            |key: String, message: String| differences.push(LimitDifference { key, message });
        for (name, bucket) in self.limits().filter(|(name, _)| self.is_of_requests(name)) {
            // No drive reaches this rate, but the contract would differ from the input in silence.
            if bucket.rate > IOPS_MAX {
                differ(
                    name.to_owned(),
                    format!("Weir permits at most {IOPS_MAX} requests per second"),
                );
            }
        }
        let iops_size = self.iops_size(&mut differ);
        let burst = self.burst(&mut differ);
        let rates: Vec<u64> = self.buckets().map(|(_, bucket)| bucket.rate).collect();
        let max = Max {
            bandwidth: rates[0],
            read_bandwidth: rates[1],
            write_bandwidth: rates[2],
            iops: rates[3].min(IOPS_MAX),
            read_iops: rates[4].min(IOPS_MAX),
            write_iops: rates[5].min(IOPS_MAX),
            iops_size,
            burst,
        };
        (max, differences)
    }

    fn is_of_requests(&self, rate: &str) -> bool {
        self.dialect.rates[3..].contains(&rate)
    }

    /// Returns the size of one request. A contract has sizes of whole sectors.
    fn iops_size(&self, differ: &mut impl FnMut(String, String)) -> u64 {
        if self.size() == 0 {
            return 0;
        }
        let fits = (self.size() / 512 * 512).clamp(512, 1 << 30);
        let mut message = String::new();
        if fits != self.size() {
            let [size, fits] = [self.size(), fits].map(ByteSize);
            message = format!(
                "{size} is not a multiple of 512B from 512B to 1GiB, so iops_size is {fits}. "
            );
        }
        message += "QEMU counts the last part of a longer request as a fraction, and Weir counts it as a whole request";
        differ(self.dialect.size.to_owned(), message);
        fits
    }

    /// Returns the burst, which is one time for all limits. It is the shortest of those of the
    /// limits, so that no limit admits more at once than before.
    fn burst(&self, differ: &mut impl FnMut(String, String)) -> Span {
        let shortest = self.limits().map(|(_, bucket)| bucket.time()).min();
        let burst = shortest.unwrap_or(0).min(BURST_MAX);
        let shown = |nanos: u128| Time(Span::from_nanos(nanos.min(u64::MAX.into()) as u64));
        let [_, end, length] = self.dialect.ends;
        let why = match burst {
            BURST_MAX => "Weir permits at most 1 h",
            _ => {
                "Weir has one burst for all limits of a max, and another limit has a shorter burst"
            }
        };
        for (name, bucket) in self.limits() {
            if bucket.time() > burst {
                let [was, now] = [bucket.time(), burst].map(shown);
                let message = format!(
                    "QEMU lets {was} of this limit pass at once after a pause. {why}, so only {now} pass at once"
                );
                differ(format!("{name}{end}"), message);
            }
            // A second bucket of a tenth of a second limits the rate of a burst in QEMU
            // (`burst_bucket_size`). A burst that fits into it cannot exceed that rate.
            let at_once = u128::from(bucket.burst) * BURST_DEFAULT;
            if bucket.length > 1 && u128::from(bucket.rate) * burst > at_once {
                let rate = if self.is_of_requests(name) {
                    format!("{} requests/s", bucket.burst)
                } else {
                    BytesPerSecond(bucket.burst).to_string()
                };
                let message = format!(
                    "QEMU limits the rate of a burst to {rate}. Weir limits only the amount of a burst, so that it can pass at a higher rate"
                );
                differ(format!("{name}{length}"), message);
            }
        }
        Span::from_nanos(burst as u64)
    }
}

/// Returns a max in the words of the file.
pub(super) fn line(max: &Max) -> String {
    format!("max = {}", PrintedValue::Table(max.values()))
}

/// Reads the value of a limit.
///
/// # Errors
/// Returns the rule that the text breaks.
fn number(text: &str) -> Result<u64, String> {
    let is_decimal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // QEMU reads a number with a leading zero as octal, and libvirt as decimal.
    let is_octal = text.len() > 1 && text.starts_with('0');
    let number = (is_decimal && !is_octal).then(|| text.parse::<u64>().ok());
    number
        .flatten()
        .filter(|number| *number <= VALUE_MAX)
        .ok_or_else(|| {
            format!(
                "{} is not a whole number from 0 to {VALUE_MAX} without leading zeros",
                crate::text::quoted(text)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(keys: &[(&str, u64)]) -> ThrottleLimits {
        let mut throttle = ThrottleLimits::new(&OPTIONS);
        for (key, value) in keys {
            assert_eq!(throttle.set(key, &value.to_string()), Ok(()), "{key}");
        }
        throttle
    }

    #[test]
    fn a_burst_is_the_size_of_the_bucket() {
        let burst = |keys: &[(&str, u64)]| {
            let (max, differences) = throttle(keys).max();
            (max.burst.as_nanos(), differences.len())
        };
        let rate = ("bps-total", 1_000_000);
        assert_eq!(burst(&[rate]), (100_000_000, 0));
        let most = ("bps-total-max", 3_000_000);
        assert_eq!(burst(&[rate, most]), (3_000_000_000, 0));
        // The amount is the same, but the rate at which it passes is not limited.
        let length = ("bps-total-max-length", 10);
        assert_eq!(burst(&[rate, most, length]), (30_000_000_000, 1));
        // A short burst cannot exceed that rate.
        let iops = ("iops-total", 10);
        assert_eq!(burst(&[rate, most, length, iops]), (100_000_000, 1));
        // A second limit without a burst shortens that of the first.
        assert_eq!(burst(&[rate, most, ("iops-read", 9)]), (100_000_000, 1));
        let same = [rate, most, ("iops-read", 10), ("iops-read-max", 30)];
        assert_eq!(burst(&same), (3_000_000_000, 0));
        // An hour is the longest burst of a contract.
        let long = [("bps-total", 1), ("bps-total-max", 4000)];
        assert_eq!(burst(&long), (3_600_000_000_000, 1));
    }

    #[test]
    fn rules_of_qemu_are_kept() {
        let broken = |keys: &[(&str, u64)]| throttle(keys).broken().len();
        assert_eq!(
            broken(&[("bps-total", 5), ("iops-read", 5), ("iops-write", 5)]),
            0
        );
        // QEMU prints a length of 1 for limits that are not set.
        assert_eq!(broken(&[("bps-total-max-length", 1)]), 0);
        for wrong in [
            &[("bps-total", 5), ("bps-read", 5)][..],
            &[("iops-total", 5), ("iops-write", 5)],
            &[("bps-total-max", 5)],
            &[("bps-total", 5), ("bps-total-max", 4)],
            &[("bps-total-max-length", 2)],
            &[("bps-total", 5), ("iops-size", 4096)],
            &[
                ("bps-total", 1),
                ("bps-total-max", VALUE_MAX),
                ("bps-total-max-length", 2),
            ],
        ] {
            assert_eq!(broken(wrong), 1, "{wrong:?}");
        }
    }

    #[test]
    fn only_plain_numbers_are_read() {
        assert_eq!(number("1000000000000000"), Ok(VALUE_MAX));
        for wrong in [
            "",
            "-1",
            "+1",
            "1e3",
            "010",
            "0x10",
            "1000000000000001",
            "99999999999999999999",
            " 1",
        ] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
