//! Parameters of a flash drive.

use super::Ssd;
use super::blocks::{BLOCKS_MAX, UNIT, count};
use weir_core::rule::{self, Broken};
use weir_core::{DriveShape, Span, rules};

/// Parameters of a flash drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Size visible to the host in bytes: a multiple of 4096, 1 GiB to 64 TiB.
    pub size: u64,
    /// Tags of each queue: 1 to 1024 (SATA: 32).
    pub tags: u16,
    /// Hardware queues: 1 to 128 (SATA: 1).
    pub queues: u16,
    /// Bandwidth of the link to the host in bytes per second: 10^6 to 10^11.
    pub link: u64,
    /// True if reads and writes cross the link independently (PCI Express); false if they share it (SATA).
    pub duplex: bool,
    /// Latency of the firmware and the host's adapter, independent of the number of commands: at most 10 ms.
    pub overhead: Span,
    /// Controller time per command, which is serialized: at most 1 ms. It bounds the rate of commands.
    pub command: Span,
    /// Channels: 1 to 64.
    pub channels: u16,
    /// Dies on each channel: 1 to 64.
    pub dies: u16,
    /// Bandwidth of a channel in bytes per second: 10^6 to 10^10.
    pub channel: u64,
    /// Bytes that a die reads or programs at a time: a multiple of 4096, at most 256 KiB.
    pub page: u32,
    /// Time to read a page: 1 us to 10 ms.
    pub read: Span,
    /// Time to program a page: 1 us to 100 ms.
    pub program: Span,
    /// Time to erase a block: at most 1 s.
    pub erase: Span,
    /// Maximum time that a read waits for a die that is programming: at most 100 ms.
    pub suspend: Span,
    /// Pages of a die's erase block: 16 to 65536.
    pub block: u32,
    /// Bytes that the drive reads ahead of a sequential stream: 0 to 16 MiB.
    pub read_ahead: u32,
    /// The controller starts the next command when less than this much is on its way to the host, in time of the link: 1 us to
    /// 100 ms. Until then it may still choose.
    pub window: Span,
    /// Bytes of sequential commands that may overtake another read, for each stream that waits: 0 (none) to 16 GiB. Nothing else
    /// bounds starvation.
    pub favour: u64,
    /// Size of the write buffer in bytes; writes in it are answered before they are in the flash: 0 to 16 GiB.
    pub write_buffer: u64,
    /// True if the write buffer survives a loss of power, so that a flush costs only a command.
    pub protected: bool,
    /// Controller time of a flush beyond the writes that it waits for (the mapping is made durable): at most 1 s. The
    /// controller starts nothing else meanwhile.
    pub flush: Span,
    /// Overprovisioning: space beyond the visible size, in 1/1000 of it: 10 to 2000.
    pub spare: u16,
    /// How much of the visible size was written (sequentially) beforehand: 0 to 100 per cent.
    pub filled: u8,
}

impl Config {
    /// A SATA flash drive of eight channels and 64 GiB: plausible figures, no particular product.
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
            program: Span::from_micros(1300),
            erase: Span::from_millis(4),
            suspend: Span::from_micros(100),
            block: 256,
            read_ahead: 256 << 10,
            window: Span::from_micros(600),
            favour: 1 << 20,
            write_buffer: 8 << 20,
            protected: false,
            flush: Span::ZERO,
            spare: 100,
            filled: 50,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), Broken> {
        let size = (1 << 30..=64 << 40).contains(&self.size) && self.size.is_multiple_of(UNIT);
        let page = u64::from(self.page);
        let page = (UNIT..=256 << 10).contains(&page) && page.is_multiple_of(UNIT);
        let blocks = count(self.size, self.units_per_block().max(1), self.spare.into());
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
            "program", self.program, 1_000..=100_000_000, "1000 to 100000000 ns (1 us to 100 ms)";
            "erase", self.erase, 0..=1_000_000_000, "0 to 1000000000 ns (1 s)";
            "suspend", self.suspend, 0..=100_000_000, "0 to 100000000 ns (100 ms)";
            "block", self.block, 16..=65_536, "16 to 65536 pages";
            "read_ahead", self.read_ahead, 0..=16 << 20, "0 to 16777216 bytes (16 MiB)";
            "favour", self.favour, 0..=16 << 30, "0 to 17179869184 bytes (16 GiB)";
            "write_buffer", self.write_buffer, 0..=16 << 30, "0 to 17179869184 bytes (16 GiB)";
            "flush", self.flush, 0..=1_000_000_000, "0 to 1000000000 ns (1 s)";
            "spare", self.spare, 10..=2000, "10 to 2000 per mille";
            "filled", self.filled, 0..=100, "0 to 100 per cent";
            "block", self.block, blocks <= BLOCKS_MAX, "so large that the drive has at most 60000 blocks";
        })
    }

    /// Builds the drive, idle.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Ssd, Broken> {
        self.validate()?;
        Ok(Ssd::new(self))
    }

    /// Its queues and kind. A flash drive's worst case depends on the load, so the shape states no capacity.
    pub fn shape(&self) -> DriveShape {
        DriveShape {
            queues: self.queues,
            tags: self.tags,
            max_transfer: 1280 * 1024,
            rotational: false,
            capacity: None,
        }
    }

    /// Units of a block across all dies.
    pub(super) fn units_per_block(&self) -> u32 {
        let dies = u64::from(self.channels) * u64::from(self.dies);
        let page = u64::from(self.page) * u64::from(self.block);
        let bytes = dies.saturating_mul(page);
        (bytes / UNIT).min(u32::MAX.into()) as u32
    }
}
