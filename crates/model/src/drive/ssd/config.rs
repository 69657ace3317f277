//! The parameters of a flash drive.

use super::Ssd;
use super::blocks::{BLOCKS_MAX, UNIT, count};
use crate::drive::{DriveModel, Freeze, Freezing};
use weir_core::rule::{self, RuleViolation};
use weir_core::{DriveShape, Span, rules};

/// The parameters of a flash drive. [`SsdConfig::generic`] has plausible values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SsdConfig {
    /// The size visible to the host in bytes: a multiple of 4096, 1 GiB to 64 TiB.
    pub size: u64,
    /// The number of tags of each queue: 1 to 1024 (SATA: 32).
    pub tags: u16,
    /// The number of hardware queues: 1 to 128 (SATA: 1).
    pub queues: u16,
    /// The bandwidth of the link to the host in bytes per second: 10^6 to 10^11.
    pub link: u64,
    /// True if reads and writes cross the link independently (PCI Express), false if they share it
    /// (SATA).
    pub duplex: bool,
    /// The latency of the firmware and the host's adapter, which does not depend on the number of
    /// commands: at most 10 ms.
    pub overhead: Span,
    /// The controller time per command: at most 1 ms. The controller serves one command at a time,
    /// so this bounds the rate of commands.
    pub command: Span,
    /// The number of channels: 1 to 64.
    pub channels: u16,
    /// The number of dies on each channel: 1 to 64.
    pub dies: u16,
    /// The bandwidth of a channel in bytes per second: 10^6 to 10^10.
    pub channel: u64,
    /// The number of bytes that a die reads or programs at a time: a multiple of 4096, at most 256
    /// KiB.
    pub page: u32,
    /// The time to read a page: 1 us to 10 ms.
    pub read: Span,
    /// The time to read an upper page, which is every second page of a die: 1 us to 10 ms. `read`
    /// is then the time of a lower page. Zero if all pages take the same time.
    pub read_upper: Span,
    /// The maximum probability that a page must be read again, in 1/1000: 0 to 1000. The
    /// probability is drawn anew every 5 s, from a uniform distribution from zero. A retry takes
    /// the time of another read of the page, and that of another command in the controller.
    pub retries: u16,
    /// The time to program a page: 1 us to 100 ms.
    pub program: Span,
    /// The time to erase a block: at most 1 s.
    pub erase: Span,
    /// The maximum time for which a read waits for a die that is programming: at most 100 ms.
    pub suspend: Span,
    /// The number of pages of a die's erase block: 16 to 65536.
    pub block: u32,
    /// The number of bytes that the drive reads ahead of a sequential stream: 0 to 16 MiB.
    pub read_ahead: u32,
    /// The maximum work in transit to the host at which the controller starts the next command, as
    /// a time of the link: 1 us to 100 ms. Until then, the controller can still choose among
    /// commands.
    pub window: Span,
    /// The number of bytes of sequential commands that can overtake another read, for each waiting
    /// stream: 0 (none) to 16 GiB. Nothing else bounds starvation.
    pub favour: u64,
    /// The time after the end of a read that continues a stream for which the controller waits for
    /// the next one, before it starts another read that may still be overtaken (`favour`): at most
    /// 100 ms.
    pub linger: Span,
    /// The number of bytes that the controller has fetched and not started from which on it fetches
    /// nothing more: 4096 to 16 GiB. It chooses only among fetched commands. Zero if it fetches
    /// every command at once.
    pub fetch: u64,
    /// The number of commands that the controller fetches from a submission queue before it turns
    /// to the next: 1 to 256, or zero together with `fetch`.
    pub burst: u16,
    /// The size of the write buffer in bytes: 0 to 16 GiB. Writes in the buffer complete before
    /// they are in the flash.
    pub write_buffer: u64,
    /// True if the write buffer survives a loss of power, so that a flush takes only the time of a
    /// command.
    pub protected: bool,
    /// The controller time of a flush in addition to the writes that it waits for, in which the
    /// mapping is made durable: at most 1 s. The controller starts nothing else in this time.
    pub flush: Span,
    /// The overprovisioning: the space beyond the visible size, in 1/1000 of it: 10 to 2000.
    pub spare: u16,
    /// The percentage of the visible size that was written (sequentially) beforehand: 0 to 100.
    pub filled: u8,
    /// True if the written part was then overwritten at random positions for so long that cleaning
    /// is steady: the drive cleans from the first write on. False if the drive cleans only when its
    /// spare space is used up.
    pub preconditioned: bool,
    /// The length of the periods in each of which the drive stalls once, at a random time: up to
    /// 1 h and longer than `stall_length`. Zero if the drive never stalls.
    pub stall_every: Span,
    /// The length of each stall, in which the drive serves nothing: at most 10 s. Zero if the drive
    /// never stalls.
    pub stall_length: Span,
}

impl SsdConfig {
    /// A SATA flash drive with eight channels and 64 GiB, with plausible figures that belong to no
    /// particular product.
    pub const fn generic() -> Self {
        Self {
            size: 64 << 30,
            tags: 32,
            queues: 1,
            link: 540_000_000,
            duplex: false,
            overhead: Span::from_micros(40),
            command: Span::from_micros(5),
            channels: 8,
            dies: 4,
            channel: 200_000_000,
            page: 16 << 10,
            read: Span::from_micros(80),
            read_upper: Span::ZERO,
            retries: 0,
            program: Span::from_micros(1300),
            erase: Span::from_millis(4),
            suspend: Span::from_micros(100),
            block: 256,
            read_ahead: 256 << 10,
            window: Span::from_micros(600),
            favour: 1 << 20,
            linger: Span::ZERO,
            fetch: 0,
            burst: 0,
            write_buffer: 8 << 20,
            protected: false,
            flush: Span::ZERO,
            spare: 100,
            filled: 50,
            preconditioned: false,
            stall_every: Span::ZERO,
            stall_length: Span::ZERO,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), RuleViolation> {
        let size = (1 << 30..=64 << 40).contains(&self.size) && self.size.is_multiple_of(UNIT);
        let page = u64::from(self.page);
        let page = (UNIT..=256 << 10).contains(&page) && page.is_multiple_of(UNIT);
        // Blocks are numbered with 16 bits, so a large drive needs large blocks.
        let blocks = count(self.size, self.units_per_block().max(1), self.spare.into());
        let fetch = self.fetch == 0 || (UNIT..=16 << 30).contains(&self.fetch);
        let burst = match self.fetch {
            0 => self.burst == 0,
            _ => (1..=256).contains(&self.burst),
        };
        let upper = self.read_upper.as_nanos();
        let upper = upper == 0 || (1_000..=10_000_000).contains(&upper);
        let (every, length) = (self.stall_every, self.stall_length);
        let stalls = match (every, length) {
            (Span::ZERO, Span::ZERO) => true,
            _ => Span::ZERO < length && length < every && every <= Span::from_secs(3600),
        };
        rule::check(rules! {
            "size", self.size, size, "a multiple of 4096 bytes, 1 GiB to 64 TiB";
            "tags", self.tags, 1..=1024, "1 to 1024";
            "queues", self.queues, 1..=128, "1 to 128";
            "link", self.link, 1_000_000..=100_000_000_000, "1000000 to 100000000000 bytes/s";
            "overhead", self.overhead, 0..=10_000_000, "0 to 10000000 ns (10 ms)";
            "command", self.command, 0..=1_000_000, "0 to 1000000 ns (1 ms)";
            "window", self.window, 1_000..=100_000_000, "1000 to 100000000 ns (1 us to 100 ms)";
            "channels", self.channels, 1..=64, "1 to 64";
            "dies", self.dies, 1..=64, "1 to 64";
            "channel", self.channel, 1_000_000..=10_000_000_000, "1000000 to 10000000000 bytes/s";
            "page", self.page, page, "a multiple of 4096 bytes, at most 262144";
            "read", self.read, 1_000..=10_000_000, "1000 to 10000000 ns (1 us to 10 ms)";
            "read_upper", self.read_upper, upper, "1000 to 10000000 ns (1 us to 10 ms), or 0";
            "retries", self.retries, 0..=1000, "0 to 1000 per mille";
            "program", self.program, 1_000..=100_000_000, "1000 to 100000000 ns (1 us to 100 ms)";
            "erase", self.erase, 0..=1_000_000_000, "0 to 1000000000 ns (1 s)";
            "suspend", self.suspend, 0..=100_000_000, "0 to 100000000 ns (100 ms)";
            "block", self.block, 16..=65_536, "16 to 65536 pages";
            "read_ahead", self.read_ahead, 0..=16 << 20, "0 to 16777216 bytes (16 MiB)";
            "favour", self.favour, 0..=16 << 30, "0 to 17179869184 bytes (16 GiB)";
            "linger", self.linger, 0..=100_000_000, "0 to 100000000 ns (100 ms)";
            "fetch", self.fetch, fetch, "4096 to 17179869184 bytes (16 GiB), or 0";
            "burst", self.burst, burst, "1 to 256 if fetch is set, or 0 if it is not";
            "write_buffer", self.write_buffer, 0..=16 << 30, "0 to 17179869184 bytes (16 GiB)";
            "flush", self.flush, 0..=1_000_000_000, "0 to 1000000000 ns (1 s)";
            "spare", self.spare, 10..=2000, "10 to 2000 per mille";
            "filled", self.filled, 0..=100, "0 to 100 per cent";
            "stall_length", self.stall_length, 0..=10_000_000_000, "0 to 10000000000 ns (10 s)";
            "stall_every", self.stall_every, stalls, "longer than stall_length and at most 3600000000000 ns (1 h), or 0 together with stall_length";
            "block", self.block, blocks <= BLOCKS_MAX, "so large that the drive has at most 60000 blocks";
        })
    }

    /// Builds the drive in the idle state, without its stalls.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Ssd, RuleViolation> {
        self.build_seeded(0)
    }

    fn build_seeded(&self, seed: u64) -> Result<Ssd, RuleViolation> {
        self.validate()?;
        Ok(Ssd::new(self, seed))
    }

    /// Builds the drive with its stalls, the times of which are drawn from `seed`.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub(in crate::drive) fn build_stalling(
        &self,
        seed: u64,
    ) -> Result<Box<dyn DriveModel>, RuleViolation> {
        let drive = Box::new(self.build_seeded(seed)?);
        if self.stall_every == Span::ZERO {
            return Ok(drive);
        }
        let stalls = Freeze {
            first: Span::ZERO,
            length: self.stall_length,
            every: self.stall_every,
            seed: Some(seed),
        };
        Ok(Box::new(Freezing::new(drive, stalls)))
    }

    /// Returns true if the drive's service depends on its seed.
    pub(in crate::drive) fn is_random(&self) -> bool {
        self.stall_every > Span::ZERO || self.retries > 0
    }

    /// The drive's queues and kind. The shape states no capacity, because a flash drive's worst
    /// case depends on the load.
    pub fn shape(&self) -> DriveShape {
        DriveShape {
            queues: self.queues,
            tags: self.tags,
            max_transfer: 1280 * 1024,
            rotational: false,
            capacity: None,
        }
    }

    /// The number of units of a block across all dies.
    pub(super) fn units_per_block(&self) -> u32 {
        let dies = u64::from(self.channels) * u64::from(self.dies);
        let page = u64::from(self.page) * u64::from(self.block);
        let bytes = dies.saturating_mul(page);
        (bytes / UNIT).min(u32::MAX.into()) as u32
    }
}
