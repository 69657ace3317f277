//! The parameters of a rotating disk.

use super::geometry::Geometry;
use super::{Hdd, Seek, Zone};
use weir_core::rule::{self, RuleViolation};
use weir_core::{DriveShape, Span, rules};

/// The number of zones of a disk.
pub const ZONES: usize = 3;

/// The maximum number of bytes in one command: Linux's default for SATA disks (`max_sectors_kb` of
/// 1280).
const MAX_TRANSFER: u32 = 1280 * 1024;

/// The parameters of a rotating disk. [`HddConfig::generic`] has plausible values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HddConfig {
    /// The zones of the disk, outermost first.
    pub zones: [Zone; ZONES],
    /// Revolutions per minute: 3600 to 15000.
    pub rpm: u32,
    /// The seek times of the arm.
    pub seek: Seek,
    /// The additional time that a write needs to settle on its track: at most 10 ms.
    pub settle: Span,
    /// The number of commands in the disk's queue (native command queueing), among which it chooses
    /// by positioning time: 1 to 32.
    pub tags: u16,
    /// The time, for each waiting stream (commands that adjoin each other), after which a waiting
    /// command is served before all others, oldest first: 1 ms to 60 s.
    ///
    /// Data in the write cache are as old as the flush that waits for them. Nothing else bounds
    /// starvation: a sequential stream at the position of the head needs no seek and would always
    /// be next.
    pub ageing: Span,
    /// The time from the arrival of a command until the disk can begin with it: at most 10 ms.
    pub overhead: Span,
    /// The bandwidth of the link to the host in bytes per second: from the fastest zone's rate to
    /// 10^10.
    pub link: u64,
    /// The number of segments of the read cache, each of which holds one sequential stream: 1 to
    /// 64.
    pub segments: u16,
    /// The size of a segment in bytes, which is also the length of the read-ahead of an idle disk:
    /// 0 to 64 MiB.
    pub segment: u32,
    /// The size of the write cache in bytes: 0 (none) to 1 GiB. Writes in the cache complete before
    /// they are on the platters.
    pub write_cache: u64,
    /// The time of a flush in addition to the writes that it waits for (defect lists, bookkeeping
    /// of the cache): at most 1 s. The arm is busy for this time.
    pub flush: Span,
}

impl HddConfig {
    /// A 2.5-inch disk of 7200 rpm and 480 GiB, with plausible figures that belong to no particular
    /// product.
    pub const fn generic() -> Self {
        const fn zone(rate: u64) -> Zone {
            Zone {
                bytes: 160 << 30,
                rate,
            }
        }
        Self {
            zones: [zone(110_000_000), zone(90_000_000), zone(60_000_000)],
            rpm: 7200,
            seek: Seek {
                track: Span::from_millis(1),
                average: Span::from_millis(12),
                full: Span::from_millis(22),
            },
            settle: Span::from_micros(500),
            tags: 32,
            ageing: Span::from_millis(30),
            overhead: Span::from_micros(100),
            link: 300_000_000,
            segments: 16,
            segment: 1 << 20,
            write_cache: 16 << 20,
            flush: Span::ZERO,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), RuleViolation> {
        let zone = |ok: fn(&Zone) -> bool| self.zones.iter().position(|z| !ok(z));
        let bytes =
            zone(|z| (1 << 20..=1 << 44).contains(&z.bytes) && z.bytes.is_multiple_of(4096));
        let rate = zone(|z| (1_000_000..=1_000_000_000).contains(&z.rate));
        // The transfer over the link overlaps with reading, which assumes that the link is not
        // slower than the platters.
        let fastest = self.zones.iter().map(|z| z.rate).max().unwrap_or(0);
        let seek = self.seek;
        // The three points of the curve must be in ascending order.
        let full = seek.average..=Span::from_secs(1);
        rule::check(rules! {
            ["outer.bytes", "middle.bytes", "inner.bytes"][bytes.unwrap_or(0)],
                bytes.map_or(0, |z| self.zones[z].bytes), bytes.is_none(), "a multiple of 4096 bytes, 1 MiB to 16 TiB";
            ["outer.rate", "middle.rate", "inner.rate"][rate.unwrap_or(0)],
                rate.map_or(0, |z| self.zones[z].rate), rate.is_none(), "1000000 to 1000000000 bytes/s";
            "rpm", self.rpm, 3600..=15_000, "3600 to 15000";
            "seek.track", seek.track, 1_000..=100_000_000, "1000 to 100000000 ns (1 us to 100 ms)";
            "seek.average", seek.average, seek.track <= seek.average, "at least seek.track";
            "seek.full", seek.full, full.contains(&seek.full), "at least seek.average, at most 1000000000 ns (1 s)";
            "settle", self.settle, 0..=10_000_000, "0 to 10000000 ns (10 ms)";
            "tags", self.tags, 1..=32, "1 to 32";
            "ageing", self.ageing, 1_000_000..=60_000_000_000, "1000000 to 60000000000 ns (1 ms to 60 s)";
            "overhead", self.overhead, 0..=10_000_000, "0 to 10000000 ns (10 ms)";
            "link", self.link, fastest..=10_000_000_000, "the fastest zone's rate to 10000000000 bytes/s";
            "segments", self.segments, 1..=64, "1 to 64";
            "segment", self.segment, 0..=64 << 20, "0 to 67108864 bytes (64 MiB)";
            "write_cache", self.write_cache, 0..=1 << 30, "0 to 1073741824 bytes (1 GiB)";
            "flush", self.flush, 0..=1_000_000_000, "0 to 1000000000 ns (1 s)";
        })
    }

    /// Builds the disk with empty caches and its head at the outer edge.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Hdd, RuleViolation> {
        self.validate()?;
        Ok(Hdd::new(self))
    }

    /// The size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.zones.iter().map(|z| z.bytes).sum()
    }

    /// The time of one revolution.
    pub fn revolution(&self) -> Span {
        Span::from_nanos(60_000_000_000 / u64::from(self.rpm))
    }

    /// The disk's queue and kind. The shape states no capacity, because a disk's worst case depends
    /// on the load.
    pub fn shape(&self) -> DriveShape {
        DriveShape {
            queues: 1,
            tags: self.tags,
            max_transfer: MAX_TRANSFER,
            rotational: true,
            capacity: None,
        }
    }

    pub(super) fn tracks(&self) -> u64 {
        Geometry::tracks(&self.zones, self.revolution())
    }
}
