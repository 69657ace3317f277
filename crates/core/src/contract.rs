//! What a client was promised, and what a drive can do.

use crate::setters::setters;
use crate::time::Span;

/// How a client's requests rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Class {
    /// Answered at once, up to its max (which it must have).
    Realtime,
    /// Its min first, then its share of what is left.
    #[default]
    BestEffort,
    /// Served when nobody else waits, and once in 200 ms so that it does not starve; has no min.
    Idle,
}

/// Upper limits. Zero means no limit. Every limit holds in every window `t`: at most `rate * t + rate * burst` and one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Max {
    /// Bytes a second, reads and writes together.
    pub bandwidth: u64,
    /// Bytes a second read (Linux: `rbps`).
    pub read_bandwidth: u64,
    /// Bytes a second written (Linux: `wbps`).
    pub write_bandwidth: u64,
    /// Requests a second, all together.
    pub iops: u64,
    /// Read requests a second (Linux: `riops`).
    pub read_iops: u64,
    /// Write requests a second (Linux: `wiops`).
    pub write_iops: u64,
    /// Bytes that count as one request in the three limits on requests: a longer request counts as several, rounded up (see
    /// [`Request::operations`](crate::Request::operations)). Zero: every request counts as one. Limits in slices, as Linux has them,
    /// count each command of at most [`DriveShape::max_transfer`](crate::DriveShape::max_transfer) instead.
    pub iops_size: u64,
    /// How much may pass at once after a pause, as time at the full rate.
    pub burst: Span,
}

setters! { Max:
    bandwidth: u64, read_bandwidth: u64, write_bandwidth: u64,
    iops: u64, read_iops: u64, write_iops: u64, iops_size: u64, burst: Span,
}

impl Max {
    /// No limit at all.
    pub const NONE: Self = Self {
        bandwidth: 0,
        read_bandwidth: 0,
        write_bandwidth: 0,
        iops: 0,
        read_iops: 0,
        write_iops: 0,
        iops_size: 0,
        burst: Span::ZERO,
    };

    /// A limit on bytes a second, reads and writes together.
    pub const fn of_bandwidth(bandwidth: u64) -> Self {
        Self {
            bandwidth,
            ..Self::NONE
        }
    }

    /// A limit on requests a second, reads and writes together.
    pub const fn of_iops(iops: u64) -> Self {
        Self { iops, ..Self::NONE }
    }

    /// True if some limit is set.
    pub const fn is_limited(&self) -> bool {
        self.bandwidth
            | self.read_bandwidth
            | self.write_bandwidth
            | self.iops
            | self.read_iops
            | self.write_iops
            != 0
    }

    /// The tightest limit on bytes a second that holds for all of the client's requests together, zero for none.
    pub fn bytes_ceiling(&self) -> u64 {
        match (self.bandwidth, self.read_bandwidth, self.write_bandwidth) {
            (0, 0, _) | (0, _, 0) => 0,
            (0, r, w) => r.saturating_add(w),
            (b, 0, _) | (b, _, 0) => b,
            (b, r, w) => b.min(r.saturating_add(w)),
        }
    }

    /// As [`Self::bytes_ceiling`], for requests a second.
    pub fn iops_ceiling(&self) -> u64 {
        let requests = Self {
            bandwidth: self.iops,
            read_bandwidth: self.read_iops,
            write_bandwidth: self.write_iops,
            ..Self::NONE
        };
        requests.bytes_ceiling()
    }
}

/// What one client, or a group of them, was sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Bytes a second it gets in every second in which it had a request waiting throughout. Zero: nothing promised.
    pub min: u64,
    /// Requests a second it gets in each of these seconds. At most one of `min` and `min_iops` is set.
    pub min_iops: u64,
    /// Its part of what the promises leave, relative to its siblings: 1 to 10000 (1 to 1000 under `bfq`, whose weight it is).
    pub share: u16,
    /// What it never exceeds.
    pub max: Max,
    /// How its requests rank.
    pub class: Class,
}

setters! { Contract: min: u64, min_iops: u64, share: u16, max: Max, class: Class }

impl Contract {
    /// Nothing promised, an ordinary share, no limit.
    pub const DEFAULT: Self = Self {
        min: 0,
        min_iops: 0,
        share: 100,
        max: Max::NONE,
        class: Class::BestEffort,
    };

    /// This with a min of this number of bytes a second.
    #[must_use]
    pub const fn with_min(self, min: u64) -> Self {
        Self { min, ..self }
    }

    /// This with a min of this number of requests a second.
    #[must_use]
    pub const fn with_min_iops(self, min_iops: u64) -> Self {
        Self { min_iops, ..self }
    }

    /// This with another share.
    #[must_use]
    pub const fn with_share(self, share: u16) -> Self {
        Self { share, ..self }
    }

    /// This with other limits.
    #[must_use]
    pub const fn with_max(self, max: Max) -> Self {
        Self { max, ..self }
    }

    /// What the drive must set aside for it: bytes and requests a second. For a realtime client that is its max, and a min where its
    /// max says nothing.
    pub(crate) fn reserved(&self) -> Rates {
        let min = Rates {
            bytes: self.min,
            iops: self.min_iops,
        };
        match self.class {
            Class::Realtime => Rates {
                bytes: self.max.bytes_ceiling().max(min.bytes),
                iops: self.max.iops_ceiling().max(min.iops),
            },
            Class::BestEffort => min,
            Class::Idle => Rates::default(),
        }
    }
}

impl Default for Contract {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a drive can do at the least, whatever the mix: stated by its owner or measured. All in units a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes read a second in the worst case that is to be counted on.
    pub read: u64,
    /// Bytes written a second in that case.
    pub write: u64,
    /// Requests a second of any kind in that case. Zero: not stated.
    pub iops: u64,
    /// Read requests a second in that case. Zero: not stated.
    pub read_iops: u64,
    /// Write requests a second in that case. Zero: not stated.
    pub write_iops: u64,
}

setters! { Capacity: read: u64, write: u64, iops: u64, read_iops: u64, write_iops: u64 }

impl Capacity {
    /// A drive that reads and writes this number of bytes a second, and of which nothing else is stated.
    pub const fn rates(read: u64, write: u64) -> Self {
        Self {
            read,
            write,
            ..Self::NONE
        }
    }

    /// Combines each figure with that of another capacity.
    #[must_use]
    pub fn zip(self, other: Self, part: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            read: part(self.read, other.read),
            write: part(self.write, other.write),
            iops: part(self.iops, other.iops),
            read_iops: part(self.read_iops, other.read_iops),
            write_iops: part(self.write_iops, other.write_iops),
        }
    }

    /// A drive that can do nothing.
    pub const NONE: Self = Self {
        read: 0,
        write: 0,
        iops: 0,
        read_iops: 0,
        write_iops: 0,
    };

    /// Bytes a second that promises are held against: a contract does not say which way they go, so those of the slower one.
    pub const fn bytes(&self) -> u64 {
        if self.read < self.write {
            self.read
        } else {
            self.write
        }
    }

    /// Requests a second that promises are held against: the least that is stated. Zero: requests are never the limit.
    pub fn requests(&self) -> u64 {
        let stated = [self.iops, self.read_iops, self.write_iops];
        stated.into_iter().filter(|n| *n > 0).min().unwrap_or(0)
    }
}

/// Bytes and requests a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) bytes: u64,
    pub(crate) iops: u64,
}

impl Rates {
    /// Bytes a second that `iops` requests a second move at the least: none but a flush is charged less than a sector.
    pub(crate) const fn least_bytes(&self) -> u64 {
        self.iops.saturating_mul(512)
    }

    /// Requests a second that `bytes` bytes a second take at the least, if every `size` bytes count as one (zero: every request does): a
    /// request's length is 32 bits.
    pub(crate) const fn least_iops(&self, size: u64) -> u64 {
        let longest = u32::MAX as u64;
        let counted = if size == 0 || size > longest {
            longest
        } else {
            size
        };
        self.bytes.div_ceil(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_max_is_one_if_any_of_its_rates_is_set() {
        assert!(!Max::NONE.is_limited());
        let (bandwidth, iops) = (5, 5);
        assert!(Max::NONE.bandwidth(bandwidth).is_limited());
        assert!(Max::NONE.iops(iops).is_limited());
        // Two that are alike are two.
        let (read_bandwidth, write_iops) = (bandwidth, iops);
        let bytes = Max {
            bandwidth,
            read_bandwidth,
            ..Max::NONE
        };
        let requests = Max::NONE.iops(iops).write_iops(write_iops);
        assert!(bytes.is_limited() && requests.is_limited());
    }
}
