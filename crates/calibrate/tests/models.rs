//! Calibrations of drive models in virtual time: they find what the models say of themselves.

mod tools;

use proptest::prelude::*;
use tools::{Bench, calibrate, target};
use weir_calibrate::{Calibration, Found, step};
use weir_core::{Capacity, Op, Span};
use weir_drive::{Config, hdd, null, ssd};

/// What a model says of itself: bytes a second in sequence, and requests of 4 KiB a second at random places, all of one kind.
fn said(drive: &Config) -> [(&'static str, u64); 4] {
    let least: Capacity = match drive {
        // By its parameters, and for requests that move nothing: here they move 4 KiB.
        Config::Null(_) => drive.most().unwrap(),
        _ => drive.least(u64::MAX).unwrap().unwrap(),
    };
    let at_random = |op| drive.at_random(op, 4096).unwrap();
    [
        (step::READ, least.read),
        (step::WRITE, least.write),
        (step::READ_RANDOM, at_random(Op::Read)),
        (step::WRITE_RANDOM, at_random(Op::Write)),
    ]
}

/// What a step found, in the unit of [`said`]: the slower end of a disk where it was measured.
fn found(known: &Calibration, name: &str) -> (f64, f64) {
    let unit = |f: &Found| match name {
        step::READ | step::WRITE => 1.0,
        _ => f64::from(f.load.length),
    };
    let end = format!("{name}-end");
    let steps = [name, end.as_str()]
        .into_iter()
        .filter_map(|n| known.step(n));
    let slowest = steps.min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second));
    let slowest = slowest.unwrap_or_else(|| panic!("{name} was measured"));
    assert!(slowest.steady, "{slowest:?}");
    let mean = slowest.bytes_per_second / unit(slowest);
    (mean, slowest.uncertainty().unwrap())
}

/// Calibrates a model, and compares with what it says.
fn compared(drive: &Config, seconds: u64) {
    let mut bench = Bench::new(drive);
    let known = calibrate(&mut bench, &target(drive, true), Span::from_secs(seconds));
    for (name, says) in said(drive) {
        let (mean, uncertainty) = found(&known, name);
        let off = mean / says as f64 - 1.0;
        println!(
            "{:5} {name:18} {mean:12.0}, the model says {says:10}: {:+.2} %, +- {:.2} %",
            drive.name(),
            off * 100.0,
            uncertainty * 100.0
        );
        // Few requests of a disk scatter: then the model is within what the figure says of itself, or nearly.
        let permitted = (1.5 * uncertainty).max(0.05);
        assert!(
            off.abs() <= permitted,
            "{drive:?} {name}: {off} {uncertainty}"
        );
    }
}

#[test]
fn each_kind_of_drive_is_found() {
    compared(&Config::Null(null::Config::demo()), 20);
    compared(&Config::Ssd(ssd::Config::generic()), 60);
    compared(&Config::Hdd(hdd::Config::generic()), 300);
}

fn flash() -> impl Strategy<Value = Config> {
    let times = (2_u64..60, 20_u64..120, 400_u64..3000);
    let sizes = (0_u64..65, 4_u16..9, 1_u16..5, 1_u64..7);
    (times, sizes).prop_map(|((command, overhead, program), sizes)| {
        let (buffer, channels, dies, link) = sizes;
        Config::Ssd(ssd::Config {
            command: Span::from_micros(command),
            overhead: Span::from_micros(overhead),
            program: Span::from_micros(program),
            write_buffer: buffer << 20,
            channels,
            dies,
            link: link * 100_000_000,
            ..ssd::Config::generic()
        })
    })
}

fn disk() -> impl Strategy<Value = Config> {
    (5400_u32..15_001, 4_u64..15, 0_u64..33, 1_u16..33).prop_map(|(rpm, seek, cache, tags)| {
        let generic = hdd::Config::generic();
        Config::Hdd(hdd::Config {
            rpm,
            seek: hdd::Seek {
                average: Span::from_millis(seek),
                ..generic.seek
            },
            write_cache: cache << 20,
            tags,
            ..generic
        })
    })
}

fn plain() -> impl Strategy<Value = Config> {
    (1_u64..5000, 1_u64..1000, 1_u16..65).prop_map(|(service, link, tags)| {
        Config::Null(null::Config {
            service: Span::from_micros(service),
            link: link * 1_000_000,
            tags,
            ..null::Config::demo()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_drawn_flash_drive_is_found(drive in flash()) {
        compared(&drive, 60);
    }

    #[test]
    fn a_drawn_disk_is_found(drive in disk()) {
        compared(&drive, 300);
    }

    #[test]
    fn a_drawn_plain_drive_is_found(drive in plain()) {
        compared(&drive, 30);
    }
}
