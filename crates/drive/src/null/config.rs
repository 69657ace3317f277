//! Parameters of the null drive.

use super::Null;
use crate::ConfigError;
use crate::config::check;
use weir_core::{Capacity, DriveShape, Span};

const SECOND: u64 = 1_000_000_000;

/// Bytes in one command; longer requests reach the drive in pieces.
const MAX_TRANSFER: u32 = 128 * 1024;

/// The request size that a bandwidth stated for the worst case is counted with.
const SMALL: u64 = 4096;

/// Parameters of a null drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Time that every command takes, however many are served at once: 0 to 10 s.
    pub service: Span,
    /// Commands that each queue takes at a time: 1 to 65535.
    pub tags: u16,
    /// Hardware queues: 1 to 1024.
    pub queues: u16,
    /// Bytes a second that the link between the drive and its host carries, reads and writes together: 1000 to 10^12, or 0 for no
    /// bound.
    pub link: u64,
    /// Zero: transfers cross the link one after the other. Otherwise (1 us to 1 s) the bandwidth is given out in lumps, as much
    /// as fits in a tick at its beginning; 20 ms is what Linux's `null_blk` does with `mbps`. Needs a link of at least one byte
    /// a tick.
    pub tick: Span,
    /// Zero: a command ends when it is done. Otherwise (1 us to 1 s) the drive looks only so often: a command ends at the next
    /// whole multiple of this time, as with a target that polls.
    pub wake: Span,
}

impl Config {
    /// The drive of the demo: 30 us of service, one queue of 32, a link of 250 MB/s.
    pub const fn demo() -> Self {
        Self {
            service: Span::from_micros(30),
            tags: 32,
            queues: 1,
            link: 250_000_000,
            tick: Span::ZERO,
            wake: Span::ZERO,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first one outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let [service, tick, wake] = [self.service, self.tick, self.wake].map(Span::as_nanos);
        let (tags, queues) = (u64::from(self.tags), u64::from(self.queues));
        check([
            (
                service <= 10 * SECOND,
                "service",
                service,
                "0 to 10000000000 ns (10 s)",
            ),
            (tags >= 1, "tags", tags, "1 to 65535"),
            ((1..=1024).contains(&queues), "queues", queues, "1 to 1024"),
            (
                self.link == 0 || (1_000..=1_000_000_000_000).contains(&self.link),
                "link",
                self.link,
                "1000 to 1000000000000 bytes/s, or 0 for no bound",
            ),
            (
                tick == 0 || (1_000..=SECOND).contains(&tick),
                "tick",
                tick,
                "1000 to 1000000000 ns (1 us to 1 s), or 0 for none",
            ),
            (
                tick == 0 || self.lump() > 0,
                "tick",
                tick,
                "0 ns (none) unless the link carries at least one byte a tick",
            ),
            (
                wake == 0 || (1_000..=SECOND).contains(&wake),
                "wake",
                wake,
                "1000 to 1000000000 ns (1 us to 1 s), or 0 for at once",
            ),
        ])
    }

    /// The drive, empty.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Null, ConfigError> {
        self.validate()?;
        Ok(Null::new(self))
    }

    /// Its queues and what it can do, for the layer in front of it.
    pub fn shape(&self) -> DriveShape {
        DriveShape {
            queues: self.queues,
            tags: self.tags,
            max_transfer: MAX_TRANSFER,
            rotational: false,
            capacity: self.capacity(),
        }
    }

    /// What it can do at the least with every tag in use: the bandwidth with requests of 4 KiB, the number of requests however
    /// short they are. `None` for a drive without a bound (no service time and no link).
    ///
    /// A drive without service time has no bound on requests, which [`Capacity`] writes as zero.
    pub fn capacity(&self) -> Option<Capacity> {
        let least = self.bound(SMALL);
        (least.read > 0).then_some(least)
    }

    /// What it can do at the most: the bandwidth with the longest requests. Zero is no bound.
    pub(crate) fn most(&self) -> Capacity {
        self.bound(MAX_TRANSFER.into())
    }

    /// What service time, places and link leave of requests of `size` bytes, and of their number however short they are. Zero is no
    /// bound.
    fn bound(&self, size: u64) -> Capacity {
        let at_once = u64::from(self.tags) * u64::from(self.queues);
        let iops = match self.awake(self.service.as_nanos()) {
            0 => 0,
            // Ten seconds with one tag are less than one request a second, and zero would be no bound.
            service => (at_once * SECOND / service).max(1),
        };
        let link = match (self.link, self.tick.as_nanos()) {
            (link, 0) => link,
            (_, tick) => self.lump() * SECOND / tick,
        };
        let bytes = match (iops.saturating_mul(size), link) {
            (0, bound) | (bound, 0) => bound,
            (served, link) => served.min(link),
        };
        Capacity {
            read: bytes,
            write: bytes,
            iops,
            ..Capacity::NONE
        }
    }

    /// When the drive looks next at `nanos` or after it.
    #[inline]
    pub(super) fn awake(&self, nanos: u64) -> u64 {
        match self.wake.as_nanos() {
            0 => nanos,
            wake => nanos.checked_next_multiple_of(wake).unwrap_or(u64::MAX),
        }
    }

    /// Bytes given out at the beginning of a tick.
    pub(super) fn lump(&self) -> u64 {
        // At most 10^12 * 10^9 / 10^9.
        (u128::from(self.link) * u128::from(self.tick.as_nanos()) / u128::from(SECOND)) as u64
    }
}
