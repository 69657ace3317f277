//! The parameters of the null drive.

use super::Null;
use weir_core::rule::{self, RuleViolation};
use weir_core::{Capacity, DriveShape, Span, rules};

const SECOND: u64 = 1_000_000_000;

/// The request size for which the worst-case bandwidth is stated: 4 KiB.
const SMALL: u64 = 4096;

/// The parameters of a null drive. [`NullConfig::demo`] has those of the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NullConfig {
    /// The service time of each command, however many are served at once: 0 to 10 s.
    pub service: Span,
    /// The number of tags of each queue: 1 to 65535.
    pub tags: u16,
    /// The number of hardware queues: 1 to 1024.
    pub queues: u16,
    /// The bandwidth of the link to the host for reads and writes together, in bytes per second:
    /// 1000 to 10^12, or 0 for no bound.
    pub link: u64,
    /// The interval at which bandwidth is granted: 1 us to 1 s, or zero to transfer data
    /// continuously.
    ///
    /// At the beginning of each tick, commands get as many bytes as the link carries in one tick.
    /// Linux's `null_blk` does this every 20 ms if `mbps` is set. A tick requires a link of at
    /// least one byte per tick.
    pub tick: Span,
    /// The interval at which the drive reports completions: 1 us to 1 s, or zero to report each at
    /// once. A polling target behaves like this.
    pub wake: Span,
    /// The maximum number of bytes in one command, into which longer requests are split: a multiple
    /// of 512 from 4096 to 64 MiB. Linux's `null_blk` has 255 sectors.
    pub command: u32,
}

impl NullConfig {
    /// The default of the maximum length of a command: 128 KiB.
    pub const COMMAND: u32 = 128 * 1024;

    /// The drive of the demo, with 30 us of service time, one queue of 32 tags, and a link of 250
    /// MB/s.
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
    pub fn validate(&self) -> Result<(), RuleViolation> {
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
            "tick", tick, tick == 0 || self.bytes_per_tick() > 0, "0 ns (none) unless the link carries at least one byte a tick";
            "wake", wake, short(wake), "1000 to 1000000000 ns (1 us to 1 s), or 0 for at once";
            "command", self.command, command && self.command.is_multiple_of(512),
                "a multiple of 512 from 4096 to 67108864 bytes";
        })
    }

    /// Builds the drive in the idle state.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Null, RuleViolation> {
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

    /// The worst-case capacity with all tags in use: the bandwidth with requests of 4 KiB, and the
    /// rate of requests without data.
    ///
    /// Returns `None` for a drive without any bound (no service time and no link). A drive without
    /// service time has no bound on the rate of requests, which [`Capacity`] expresses as zero.
    pub fn capacity(&self) -> Option<Capacity> {
        let least = self.capacity_at(SMALL);
        (least.read > 0).then_some(least)
    }

    /// The best-case capacity: the bandwidth with requests of the maximum length. Zero stands for
    /// no bound.
    pub(crate) fn best_case(&self) -> Capacity {
        self.capacity_at(self.command.into())
    }

    /// The bandwidth that service time, tags and link permit with requests of `size` bytes, and the
    /// rate of requests without data. Zero stands for no bound.
    fn capacity_at(&self, size: u64) -> Capacity {
        let at_once = u64::from(self.tags) * u64::from(self.queues);
        let iops = match self.next_completion_time(self.service.as_nanos()) {
            0 => 0,
            // Ten seconds with one tag are less than one request per second. The result must not be
            // zero, which would stand for no bound.
            service => (at_once * SECOND / service).max(1),
        };
        let link = match (self.link, self.tick.as_nanos()) {
            (link, 0) => link,
            (_, tick) => self.bytes_per_tick() * SECOND / tick,
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

    /// The first time at or after `nanos` at which the drive reports completions.
    #[inline]
    pub(super) fn next_completion_time(&self, nanos: u64) -> u64 {
        match self.wake.as_nanos() {
            0 => nanos,
            wake => nanos.checked_next_multiple_of(wake).unwrap_or(u64::MAX),
        }
    }

    /// The number of bytes that are granted at the beginning of a tick.
    pub(super) fn bytes_per_tick(&self) -> u64 {
        // The product is at most 10^12 × 10^9 / 10^9, which fits into 64 bits.
        (u128::from(self.link) * u128::from(self.tick.as_nanos()) / u128::from(SECOND)) as u64
    }
}
