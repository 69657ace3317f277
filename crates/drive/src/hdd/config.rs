//! Parameters of a disk.

use super::geometry::Geometry;
use super::{Hdd, Seek, Zone};
use crate::ConfigError;
use crate::config::{Rule, check};
use weir_core::{DriveShape, Span};

/// Zones of a disk.
pub const ZONES: usize = 3;

/// Bytes in one command: what Linux sends a SATA disk at most by default (`max_sectors_kb` of 1280).
const MAX_TRANSFER: u32 = 1280 * 1024;

/// Parameters of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Its parts, outermost first.
    pub zones: [Zone; ZONES],
    /// Revolutions a minute: 3600 to 15000.
    pub rpm: u32,
    /// How long the arm takes.
    pub seek: Seek,
    /// What a write takes longer to settle on its track: at most 10 ms.
    pub settle: Span,
    /// Commands it takes at a time and picks from by positioning time (native command queueing): 1 to 32.
    pub tags: u16,
    /// A command that has waited this long is served before all that have not, the oldest first: 1 ms to 60 s. This is all that
    /// bounds starvation: whoever reads on where the head is costs nothing and is otherwise always next.
    pub ageing: Span,
    /// From a command's arrival until the disk can act on it: at most 10 ms.
    pub overhead: Span,
    /// Bytes a second on the way to the host: the fastest zone's rate to 10^10.
    pub link: u64,
    /// Segments of the read cache, each with one sequential stream: 1 to 64.
    pub segments: u16,
    /// Bytes of a segment, which is also how far the disk reads ahead while it has nothing else to do: 0 to 64 MiB.
    pub segment: u32,
    /// Bytes of writes that are answered before they are on the platters: 0 (none) to 1 GiB.
    pub write_cache: u64,
    /// What a flush takes beside the writes it waits for (defect lists, the cache's own bookkeeping): at most 1 s. The arm does nothing
    /// else meanwhile.
    pub flush: Span,
}

impl Config {
    /// A 2.5-inch disk of 7200 revolutions and 480 GiB: plausible, no particular product.
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
            ageing: Span::from_millis(500),
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
    /// The first one outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(self.mechanics().into_iter().chain(self.electronics()))
    }

    fn mechanics(&self) -> [Rule; 7] {
        let zone = |ok: fn(&Zone) -> bool| self.zones.iter().position(|z| !ok(z));
        let bytes =
            zone(|z| (1 << 20..=1 << 44).contains(&z.bytes) && z.bytes.is_multiple_of(4096));
        let rate = zone(|z| (1_000_000..=1_000_000_000).contains(&z.rate));
        let Seek {
            track,
            average,
            full,
        } = self.seek;
        let [t, a, f, settle] = [track, average, full, self.settle].map(Span::as_nanos);
        [
            (
                bytes.is_none(),
                ["outer.bytes", "middle.bytes", "inner.bytes"][bytes.unwrap_or(0)],
                bytes.map_or(0, |z| self.zones[z].bytes),
                "a multiple of 4096 bytes, 1 MiB to 16 TiB",
            ),
            (
                rate.is_none(),
                ["outer.rate", "middle.rate", "inner.rate"][rate.unwrap_or(0)],
                rate.map_or(0, |z| self.zones[z].rate),
                "1000000 to 1000000000 bytes/s",
            ),
            (
                (3600..=15_000).contains(&self.rpm),
                "rpm",
                self.rpm.into(),
                "3600 to 15000",
            ),
            (
                (1_000..=100_000_000).contains(&t),
                "seek.track",
                t,
                "1000 to 100000000 ns (1 us to 100 ms)",
            ),
            (t <= a, "seek.average", a, "at least seek.track"),
            (
                a <= f && f <= 1_000_000_000,
                "seek.full",
                f,
                "at least seek.average, at most 1000000000 ns (1 s)",
            ),
            (
                settle <= 10_000_000,
                "settle",
                settle,
                "0 to 10000000 ns (10 ms)",
            ),
        ]
    }

    fn electronics(&self) -> [Rule; 8] {
        let fastest = self.zones.iter().map(|z| z.rate).max().unwrap_or(0);
        let (tags, segments) = (u64::from(self.tags), u64::from(self.segments));
        let (ageing, overhead) = (self.ageing.as_nanos(), self.overhead.as_nanos());
        let (segment, cache) = (u64::from(self.segment), self.write_cache);
        let flush = self.flush.as_nanos();
        [
            ((1..=32).contains(&tags), "tags", tags, "1 to 32"),
            (
                (1_000_000..=60_000_000_000).contains(&ageing),
                "ageing",
                ageing,
                "1000000 to 60000000000 ns (1 ms to 60 s)",
            ),
            (
                overhead <= 10_000_000,
                "overhead",
                overhead,
                "0 to 10000000 ns (10 ms)",
            ),
            (
                (fastest..=10_000_000_000).contains(&self.link),
                "link",
                self.link,
                "the fastest zone's rate to 10000000000 bytes/s",
            ),
            (
                (1..=64).contains(&segments),
                "segments",
                segments,
                "1 to 64",
            ),
            (
                segment <= 64 << 20,
                "segment",
                segment,
                "0 to 67108864 bytes (64 MiB)",
            ),
            (
                cache <= 1 << 30,
                "write_cache",
                cache,
                "0 to 1073741824 bytes (1 GiB)",
            ),
            (
                flush <= 1_000_000_000,
                "flush",
                flush,
                "0 to 1000000000 ns (1 s)",
            ),
        ]
    }

    /// The disk, empty, its head at the outer edge.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Hdd, ConfigError> {
        self.validate()?;
        Ok(Hdd::new(self))
    }

    /// Bytes it holds.
    pub fn size(&self) -> u64 {
        self.zones.iter().map(|z| z.bytes).sum()
    }

    /// Time of a revolution.
    pub fn revolution(&self) -> Span {
        Span::from_nanos(60_000_000_000 / u64::from(self.rpm))
    }

    /// Its queue and what kind of drive it is. What a disk can do at the least depends on the load, so its capacity is not known.
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
