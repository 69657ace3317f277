//! Parameters of the null drive.

use super::Null;
use weir_core::rule::{self, Broken};
use weir_core::{Capacity, DriveShape, Span, rules};

const SECOND: u64 = 1_000_000_000;

/// The request size for which the worst-case bandwidth is stated.
const SMALL: u64 = 4096;

/// Parameters of a null drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Service time of every command, however many are served at once: 0 to 10 s.
    pub service: Span,
    /// Tags of each queue: 1 to 65535.
    pub tags: u16,
    /// Hardware queues: 1 to 1024.
    pub queues: u16,
    /// Bandwidth of the link to the host in bytes per second, reads and writes together: 1000 to 10^12, or 0 for no
    /// bound.
    pub link: u64,
    /// With zero, transfers cross the link one after the other. Otherwise (1 us to 1 s) bandwidth is handed out at the beginning of
    /// each tick, as many bytes as the link carries in one; 20 ms is what Linux's `null_blk` does with `mbps`. Needs a link of at
    /// least one byte per tick.
    pub tick: Span,
    /// With zero, a command ends when it is done. Otherwise (1 us to 1 s) the drive completes commands only at whole multiples of
    /// this time, as a polling target does.
    pub wake: Span,
    /// Bytes in one command at most, to which longer requests are split: a multiple of 512 from 4096 to 64 MiB. Linux's `null_blk` takes
    /// 255 sectors.
    pub command: u32,
}

impl Config {
    /// What a command is unless stated: 128 KiB.
    pub const COMMAND: u32 = 128 * 1024;

    /// The drive of the demo: 30 us of service time, one queue of 32 tags, a link of 250 MB/s.
    pub const fn demo() -> Self {
        Self {
            service: Span::from_micros(30),
            tags: 32,
            queues: 1,
            link: 250_000_000,
            tick: Span::ZERO,
            wake: Span::ZERO,
            command: Self::COMMAND,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), Broken> {
        let [tick, wake] = [self.tick, self.wake].map(Span::as_nanos);
        let short = |time: u64| time == 0 || (1_000..=SECOND).contains(&time);
        let link = self.link == 0 || (1_000..=1_000_000_000_000).contains(&self.link);
        let command = (4096..=64 << 20).contains(&self.command);
        rule::check(rules! {
            "service", self.service, 0..=10 * SECOND, "0 to 10000000000 ns (10 s)";
            "tags", self.tags, 1..=65_535, "1 to 65535";
            "queues", self.queues, 1..=1024, "1 to 1024";
            "link", self.link, link, "1000 to 1000000000000 bytes/s, or 0 for no bound";
            "tick", tick, short(tick), "1000 to 1000000000 ns (1 us to 1 s), or 0 for none";
            "tick", tick, tick == 0 || self.lump() > 0, "0 ns (none) unless the link carries at least one byte a tick";
            "wake", wake, short(wake), "1000 to 1000000000 ns (1 us to 1 s), or 0 for at once";
            "command", self.command, command && self.command.is_multiple_of(512),
                "a multiple of 512 from 4096 to 67108864 bytes";
        })
    }

    /// Builds the drive, idle.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Null, Broken> {
        self.validate()?;
        Ok(Null::new(self))
    }

    /// The drive's queues and limits, for the layer in front of it.
    pub fn shape(&self) -> DriveShape {
        DriveShape {
            queues: self.queues,
            tags: self.tags,
            max_transfer: self.command,
            rotational: false,
            capacity: self.capacity(),
        }
    }

    /// The worst-case capacity with every tag in use: bandwidth with requests of 4 KiB, and the rate of requests that move no
    /// data. `None` for a drive without a bound (no service time and no link).
    ///
    /// A drive without service time has no bound on requests, which [`Capacity`] expresses as zero.
    pub fn capacity(&self) -> Option<Capacity> {
        let least = self.bound(SMALL);
        (least.read > 0).then_some(least)
    }

    /// The best-case capacity: bandwidth with requests of the maximum length. Zero is no bound.
    pub(crate) fn most(&self) -> Capacity {
        self.bound(self.command.into())
    }

    /// The bandwidth that service time, tags and link allow with requests of `size` bytes, and the rate of requests that move no
    /// data. Zero is no bound.
    fn bound(&self, size: u64) -> Capacity {
        let at_once = u64::from(self.tags) * u64::from(self.queues);
        let iops = match self.awake(self.service.as_nanos()) {
            0 => 0,
            // Ten seconds with one tag are less than one request per second, and zero would mean no bound.
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

    /// The first time at or after `nanos` at which the drive completes commands.
    #[inline]
    pub(super) fn awake(&self, nanos: u64) -> u64 {
        match self.wake.as_nanos() {
            0 => nanos,
            wake => nanos.checked_next_multiple_of(wake).unwrap_or(u64::MAX),
        }
    }

    /// Bytes handed out at the beginning of a tick.
    pub(super) fn lump(&self) -> u64 {
        // At most 10^12 * 10^9 / 10^9.
        (u128::from(self.link) * u128::from(self.tick.as_nanos()) / u128::from(SECOND)) as u64
    }
}
