//! Contracts of clients, and the capacity of a drive.

use crate::setters::setters;
use crate::time::Span;

/// The rank of a contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Class {
    /// Served first, up to the max, which the contract must have.
    Realtime,
    /// Gets its min first, then its share of the excess.
    #[default]
    BestEffort,
    /// Served when no other client waits, and once in 200 ms so that it does not starve. It cannot
    /// have a min.
    Idle,
}

/// Upper limits. Zero means no limit. Each limit holds in every window of length `t`, in which at
/// most `rate * t + rate * burst` and one request pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Max {
    /// Bytes per second, reads and writes together.
    pub bandwidth: u64,
    /// Bytes read per second (Linux: `rbps`).
    pub read_bandwidth: u64,
    /// Bytes written per second (Linux: `wbps`).
    pub write_bandwidth: u64,
    /// Requests per second, of all kinds together.
    pub iops: u64,
    /// Read requests per second (Linux: `riops`).
    pub read_iops: u64,
    /// Write requests per second (Linux: `wiops`).
    pub write_iops: u64,
    /// Bytes that count as one request in the three limits on requests. A longer request counts as
    /// several, rounded up (see [`Request::operations`](crate::Request::operations)). With zero,
    /// every request counts as one. The limits of the controller `slices` count each command of at
    /// most [`DriveShape::max_transfer`](crate::DriveShape::max_transfer) instead, as Linux does.
    pub iops_size: u64,
    /// The amount that can pass at once after a pause, as a time at the full rate.
    pub burst: Span,
}

setters! { Max:
    bandwidth: u64, read_bandwidth: u64, write_bandwidth: u64,
    iops: u64, read_iops: u64, write_iops: u64, iops_size: u64, burst: Span,
}

impl Max {
    /// No limit of any kind.
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

    /// Returns a limit on bytes per second, reads and writes together.
    pub const fn of_bandwidth(bandwidth: u64) -> Self {
        Self {
            bandwidth,
            ..Self::NONE
        }
    }

    /// Returns a limit on requests per second, reads and writes together.
    pub const fn of_iops(iops: u64) -> Self {
        Self { iops, ..Self::NONE }
    }

    /// Returns true if any limit is set.
    pub const fn is_limited(&self) -> bool {
        // One comparison for six limits: the union is zero only if all are.
        self.bandwidth
            | self.read_bandwidth
            | self.write_bandwidth
            | self.iops
            | self.read_iops
            | self.write_iops
            != 0
    }

    /// Returns the tightest limit on bytes per second that applies to all requests of the client
    /// together, or zero if there is none.
    pub fn bytes_ceiling(&self) -> u64 {
        match (self.bandwidth, self.read_bandwidth, self.write_bandwidth) {
            // If one direction has no limit, a client that uses only that direction is not limited
            // at all.
            (0, 0, _) | (0, _, 0) => 0,
            // Without a common limit, a mix of reads and writes can reach the sum of both.
            (0, r, w) => r.saturating_add(w),
            (b, 0, _) | (b, _, 0) => b,
            (b, r, w) => b.min(r.saturating_add(w)),
        }
    }

    /// Returns the tightest limit on requests per second that applies to all requests of the client
    /// together, or zero if there is none.
    pub fn iops_ceiling(&self) -> u64 {
        // The rule is the same for requests, so it is applied to them as if they were bytes.
        let requests = Self {
            bandwidth: self.iops,
            read_bandwidth: self.read_iops,
            write_bandwidth: self.write_iops,
            ..Self::NONE
        };
        requests.bytes_ceiling()
    }
}

/// The debts of a group to the limits of its [`Max`]. Each is the time that the limit's rate takes
/// for everything that has passed and is not paid for yet. Up to the burst, a debt is a used part
/// of the burst. Beyond the burst, the next request waits, because a request that was larger than
/// the rest of the burst has passed.
///
/// It is zero for a limit that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaxDebt {
    /// The debt to the limit [`Max::bandwidth`].
    pub bandwidth: Span,
    /// The debt to the limit [`Max::read_bandwidth`].
    pub read_bandwidth: Span,
    /// The debt to the limit [`Max::write_bandwidth`].
    pub write_bandwidth: Span,
    /// The debt to the limit [`Max::iops`].
    pub iops: Span,
    /// The debt to the limit [`Max::read_iops`].
    pub read_iops: Span,
    /// The debt to the limit [`Max::write_iops`].
    pub write_iops: Span,
}

impl MaxDebt {
    /// No debt to any limit.
    pub const NONE: Self = Self {
        bandwidth: Span::ZERO,
        read_bandwidth: Span::ZERO,
        write_bandwidth: Span::ZERO,
        iops: Span::ZERO,
        read_iops: Span::ZERO,
        write_iops: Span::ZERO,
    };
}

/// The service that a client or a group of clients is sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Bytes per second that the client gets in every second in which it has a request waiting
    /// throughout. Zero means that nothing is promised.
    pub min: u64,
    /// Requests per second that the client gets in each of these seconds. At most one of `min` and
    /// `min_iops` can be set.
    pub min_iops: u64,
    /// The weight by which the excess is divided among siblings: 1 to 10000, and 1 to 1000 under
    /// `bfq` and `cfq`, which use it as their weight.
    pub share: u16,
    /// The limits that the client never exceeds.
    pub max: Max,
    /// The rank of the contract.
    pub class: Class,
}

setters! { Contract: min: u64, min_iops: u64, share: u16, max: Max, class: Class }

impl Contract {
    /// No promise, a share of 100, and no limit.
    pub const DEFAULT: Self = Self {
        min: 0,
        min_iops: 0,
        share: 100,
        max: Max::NONE,
        class: Class::BestEffort,
    };

    /// Returns this contract with a min of `min` bytes per second.
    #[must_use]
    pub const fn with_min(self, min: u64) -> Self {
        Self { min, ..self }
    }

    /// Returns this contract with a min of `min_iops` requests per second.
    #[must_use]
    pub const fn with_min_iops(self, min_iops: u64) -> Self {
        Self { min_iops, ..self }
    }

    /// Returns this contract with another share.
    #[must_use]
    pub const fn with_share(self, share: u16) -> Self {
        Self { share, ..self }
    }

    /// Returns this contract with other limits.
    #[must_use]
    pub const fn with_max(self, max: Max) -> Self {
        Self { max, ..self }
    }

    /// Returns the bytes and requests per second that the drive must set aside for the contract.
    /// For the class realtime that is the max, or the min if the max sets no limit on that rate.
    pub(crate) fn reserved(&self) -> Rates {
        let min = Rates {
            bytes: self.min,
            iops: self.min_iops,
        };
        match self.class {
            // A realtime client is served first up to its max, so the drive has to be able to do
            // all of it.
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

/// The rates that a drive reaches in the worst case, for any mix of requests, as its owner stated
/// or as they were measured. All are per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes read per second in the worst case.
    pub read: u64,
    /// Bytes written per second in the worst case.
    pub write: u64,
    /// Requests of any kind per second in the worst case. Zero means that it is not stated.
    pub iops: u64,
    /// Read requests per second in the worst case. Zero means that it is not stated.
    pub read_iops: u64,
    /// Write requests per second in the worst case. Zero means that it is not stated.
    pub write_iops: u64,
}

setters! { Capacity: read: u64, write: u64, iops: u64, read_iops: u64, write_iops: u64 }

impl Capacity {
    /// Returns the capacity of a drive of which only the bytes read and written per second are
    /// known.
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

    /// A capacity in which all rates are zero.
    pub const NONE: Self = Self {
        read: 0,
        write: 0,
        iops: 0,
        read_iops: 0,
        write_iops: 0,
    };

    /// Returns the bytes per second against which promises are checked. A contract does not
    /// distinguish reads from writes, so the slower direction counts.
    pub const fn bytes(&self) -> u64 {
        if self.read < self.write {
            self.read
        } else {
            self.write
        }
    }

    /// Returns the requests per second against which promises are checked: the lowest rate that is
    /// stated. Zero means that requests are never the limit.
    pub fn requests(&self) -> u64 {
        let stated = [self.iops, self.read_iops, self.write_iops];
        stated.into_iter().filter(|n| *n > 0).min().unwrap_or(0)
    }
}

/// A rate in bytes and requests per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) bytes: u64,
    pub(crate) iops: u64,
}

impl Rates {
    /// Returns the bytes per second to which `iops` requests per second amount at least. Every
    /// request is charged at least one sector, except a flush.
    pub(crate) const fn least_bytes(&self) -> u64 {
        // One sector for each request, see `Op::charge`.
        self.iops.saturating_mul(512)
    }

    /// Returns the requests per second that `bytes` bytes per second need at least, if every `size`
    /// bytes count as one request. With a `size` of zero, every request counts as one. The longest
    /// request has `u32::MAX` bytes, because its length is a 32-bit number.
    pub(crate) const fn least_iops(&self, size: u64) -> u64 {
        // `Request::length` is a 32-bit number.
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
    fn a_max_is_limited_if_any_rate_is_set() {
        assert!(!Max::NONE.is_limited());
        let (bandwidth, iops) = (5, 5);
        assert!(Max::NONE.bandwidth(bandwidth).is_limited());
        assert!(Max::NONE.iops(iops).is_limited());
        // Equal limits must not cancel each other out when they are combined.
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
