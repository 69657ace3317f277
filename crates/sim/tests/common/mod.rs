//! Drives to try things on: plausible ones, no particular product.

use weir_core::Span;
use weir_drive::{hdd, ssd};

/// A 2.5-inch disk of 7200 revolutions, 480 GiB.
pub(crate) fn disk() -> hdd::Config {
    let zone = |rate| hdd::Zone {
        bytes: 160 << 30,
        rate,
    };
    hdd::Config {
        zones: [zone(110_000_000), zone(90_000_000), zone(60_000_000)],
        rpm: 7200,
        seek: hdd::Seek {
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
    }
}

/// A SATA flash drive of eight channels, 64 GiB.
pub(crate) fn flash() -> ssd::Config {
    ssd::Config {
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
        favour: 16 << 20,
        write_buffer: 8 << 20,
        protected: false,
        spare: 100,
        filled: 50,
    }
}
