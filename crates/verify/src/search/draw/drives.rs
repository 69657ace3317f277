//! Draws drives. Half of them are built-in profiles, and half are drawn parameter by parameter.

use super::dice::Dice;
use crate::search::case::KINDS;
use weir_config::profile;
use weir_core::Span;
use weir_model::drive::{DriveConfig, hdd, null, ssd};

/// Draws a drive of a kind, an index into [`KINDS`].
pub(super) fn choice(dice: &mut Dice, kind: usize) -> DriveConfig {
    if dice.chance(1, 2) {
        let known = |name| profile::find(name).expect("it comes with Weir").drive;
        let of_kind = |drive: &DriveConfig| drive.name() == KINDS[kind];
        let drives: Vec<DriveConfig> = profile::names().map(known).filter(of_kind).collect();
        return dice.pick(&drives).clone();
    }
    match KINDS[kind] {
        "null" => DriveConfig::Null(null(dice)),
        "ssd" => DriveConfig::Ssd(in_few_blocks(flash(dice))),
        _ => DriveConfig::Hdd(disk(dice)),
    }
}

/// Draws a position-independent drive. Each of its queues does up to about 150,000 commands per
/// second. Three quarters have a link that limits them further.
fn null(dice: &mut Dice) -> null::NullConfig {
    let tags = dice.log(1, 64);
    // With all tags busy, a service time of `tags / 150,000` seconds gives 150,000 commands per
    // second.
    let least = (tags * 1_000_000 / 150_000).max(20);
    let linked = dice.chance(3, 4);
    null::NullConfig {
        service: dice.micros(least, least * 16),
        tags: tags as u16,
        queues: if dice.chance(1, 5) { 2 } else { 1 },
        link: if linked {
            dice.log(10_000, 1_000_000) * 1000
        } else {
            0
        },
        tick: if linked && dice.chance(1, 10) {
            Span::from_millis(dice.range(1, 20))
        } else {
            Span::ZERO
        },
        wake: dice.sometimes(1, 5, |dice| dice.micros(50, 2_000)),
        command: null::NullConfig::COMMAND,
    }
}

fn flash(dice: &mut Dice) -> ssd::SsdConfig {
    let nvme = dice.chance(1, 3);
    let pages = *dice.pick(&[1u32, 2, 4, 8]);
    ssd::SsdConfig {
        size: dice.range(4, 64) << 30,
        // SATA has up to 32 tags and one queue in one direction at a time. NVMe has several queues
        // and a full-duplex link.
        tags: if nvme { 256 } else { dice.range(8, 32) as u16 },
        queues: if nvme { dice.range(1, 4) as u16 } else { 1 },
        link: dice.log(100, if nvme { 3_000 } else { 600 }) * 1_000_000,
        duplex: nvme,
        overhead: dice.micros(20, 100),
        command: dice.micros(3, 30),
        channels: dice.range(1, 8) as u16,
        dies: dice.range(1, 4) as u16,
        channel: dice.range(50, 800) * 1_000_000,
        page: pages * 4096,
        read: dice.micros(30, 150),
        program: dice.micros(200, 2_000),
        erase: dice.micros(1_000, 5_000),
        suspend: dice.micros(10, 300),
        block: dice.range(64, 512) as u32,
        read_ahead: dice.unless(1, 4, |dice| 1 << dice.range(15, 20)),
        window: dice.micros(50, 2_000),
        favour: dice.unless(1, 3, |dice| 1 << dice.range(12, 24)),
        write_buffer: dice.unless(1, 5, |dice| 1 << dice.range(20, 27)),
        protected: dice.chance(1, 3),
        flush: dice.unless(1, 3, |dice| dice.micros(100, 5_000)),
        spare: dice.range(70, 280) as u16,
        filled: *dice.pick(&[0, 50, 100]),
        ..ssd::SsdConfig::generic()
    }
}

/// Doubles the size of blocks until the model permits it, because small blocks may be too many.
fn in_few_blocks(mut drive: ssd::SsdConfig) -> ssd::SsdConfig {
    while drive.validate().is_err_and(|e| e.field == "block") {
        drive.block *= 2;
    }
    drive
}

fn disk(dice: &mut Dice) -> hdd::HddConfig {
    let outer = dice.range(60, 220) * 1_000_000;
    let bytes = dice.range(20, 600) << 30;
    let zone = |per_cent: u64| hdd::Zone {
        bytes,
        rate: outer * per_cent / 100,
    };
    let average = dice.range(4_000, 14_000);
    hdd::HddConfig {
        // Inner zones have shorter tracks, and transfer about half as fast as outer ones.
        zones: [zone(100), zone(80), zone(55)],
        rpm: *dice.pick(&[5400, 7200, 10_000, 15_000]),
        seek: hdd::Seek {
            track: Span::from_micros(dice.range(200, 2_000)),
            average: Span::from_micros(average),
            // A seek across the whole disk takes about twice the average.
            full: Span::from_micros(average * 2),
        },
        settle: Span::from_micros(dice.range(0, 1_000)),
        tags: *dice.pick(&[1, 4, 31, 32]),
        ageing: Span::from_millis(dice.log(2, 300)),
        overhead: Span::from_micros(dice.range(50, 300)),
        link: 300_000_000,
        segments: dice.range(1, 32) as u16,
        segment: dice.unless(1, 4, |dice| 1 << dice.range(16, 21)),
        write_cache: dice.unless(1, 3, |dice| 1 << dice.range(20, 25)),
        flush: dice.unless(1, 3, |dice| dice.micros(1_000, 30_000)),
    }
}
