//! Calibrations of drive models in virtual time, which find the rates that the models state.

use crate::tools::{ModelBench, calibrate, target};
use proptest::prelude::*;
use weir_core::{Capacity, Op, Span};
use weir_lab::calibrate::{Calibration, CalibrationPlan, StepResult, step};
use weir_model::drive::{DriveConfig, hdd, null, ssd};

/// Returns the rates that a model states: bytes per second of sequential requests, and random
/// requests of 4 KiB per second, all of one kind.
fn said(drive: &DriveConfig) -> [(&'static str, u64); 4] {
    let least: Capacity = match drive {
        // The null model's own bound is for requests without data, but here they move 4 KiB.
        DriveConfig::Null(_) => drive.best_case().unwrap(),
        _ => drive.worst_case(u64::MAX).unwrap().unwrap(),
    };
    let at_random = |op| drive.random_rate(op, 4096).unwrap();
    [
        (step::READ, least.read),
        (step::WRITE, least.write),
        (step::READ_RANDOM, at_random(Op::Read)),
        (step::WRITE_RANDOM, at_random(Op::Write)),
    ]
}

/// Returns the rate that a step found, in the unit of [`said`], and its uncertainty. For a disk it
/// is the rate at the slower end, if that was measured.
fn found(known: &Calibration, name: &str) -> (f64, f64) {
    let unit = |f: &StepResult| match name {
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

/// Calibrates a model, and compares the results with the rates that it states.
fn compared(drive: &DriveConfig, seconds: u64) {
    let mut bench = ModelBench::new(drive);
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
        // Few requests of a disk scatter, so that the model must be within 1.5 times the
        // uncertainty of the result.
        let permitted = (1.5 * uncertainty).max(0.05);
        assert!(
            off.abs() <= permitted,
            "{drive:?} {name}: {off} {uncertainty}"
        );
    }
}

#[test]
fn each_kind_of_drive_is_found() {
    // A slower kind of drive needs more virtual time for the same precision.
    compared(&DriveConfig::Null(null::NullConfig::demo()), 20);
    compared(&DriveConfig::Ssd(ssd::SsdConfig::generic()), 60);
    compared(&DriveConfig::Hdd(hdd::HddConfig::generic()), 300);
}

/// On a small flash drive that is full, long random writes require that blocks are erased for them.
#[test]
fn the_steady_state_of_a_full_flash_drive_is_found() {
    let drive = DriveConfig::Ssd(ssd::SsdConfig {
        size: 1 << 30,
        filled: 100,
        spare: 70,
        ..ssd::SsdConfig::generic()
    });
    let fresh = drive.random_rate(Op::Write, 4096).unwrap() as f64;
    // The reference is measured by writing eight times the size of the drive, of which the last
    // eighth counts.
    let mut bench = ModelBench::new(&drive);
    let worn = bench.random_writes(8 << 30, 1 << 30);
    let mut bench = ModelBench::new(&drive);
    let known = calibrate(&mut bench, &target(&drive, true), Span::from_secs(300));
    let found = known.step(step::WRITE_RANDOM).unwrap();
    let (found, steady) = (found.requests_per_second(), found.steady);
    println!("fresh {fresh:.0}, worn {worn:.0}, found {found:.0} writes of 4 KiB a second");
    // The model must slow down by at least 30 %, or the test would prove nothing.
    assert!(worn < 0.7 * fresh, "there is something to be found");
    assert!(steady && (found / worn - 1.0).abs() <= 0.05);
}

fn flash() -> impl Strategy<Value = DriveConfig> {
    let times = (2_u64..60, 20_u64..120, 400_u64..3000);
    let sizes = (0_u64..65, 4_u16..9, 1_u16..5, 1_u64..7);
    (times, sizes).prop_map(|((command, overhead, program), sizes)| {
        let (buffer, channels, dies, link) = sizes;
        DriveConfig::Ssd(ssd::SsdConfig {
            command: Span::from_micros(command),
            overhead: Span::from_micros(overhead),
            program: Span::from_micros(program),
            write_buffer: buffer << 20,
            channels,
            dies,
            link: link * 100_000_000,
            ..ssd::SsdConfig::generic()
        })
    })
}

fn disk() -> impl Strategy<Value = DriveConfig> {
    (5400_u32..15_001, 4_u64..15, 0_u64..33, 1_u16..33).prop_map(|(rpm, seek, cache, tags)| {
        let generic = hdd::HddConfig::generic();
        DriveConfig::Hdd(hdd::HddConfig {
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

fn plain() -> impl Strategy<Value = DriveConfig> {
    (1_u64..5000, 10_u64..1000, 1_u16..65).prop_map(|(service, link, tags)| {
        DriveConfig::Null(null::NullConfig {
            service: Span::from_micros(service),
            link: link * 1_000_000,
            tags,
            ..null::NullConfig::demo()
        })
    })
}

/// The steps of capacities, which have the most time. The writes at the end are left out, because
/// they follow random writes and gradually clear away their traces.
const LONG: [&str; 5] = [
    step::READ,
    step::READ_END,
    step::READ_RANDOM,
    step::WRITE,
    step::WRITE_RANDOM,
];

/// Checks that the drive continues at the rate of each long step that reports a steady drive. (A
/// short step cannot detect the effects of a buffer that the step before filled.)
fn goes_on(drive: &DriveConfig, seconds: u64) {
    let mut bench = ModelBench::new(drive);
    let (target, end) = (target(drive, true), Span::from_secs(seconds));
    let mut known = Calibration::new(target.clone());
    let plan = CalibrationPlan::new(&target);
    let mut spent = Span::ZERO;
    let mut steady = 0;
    while let Some((step, part)) = plan.next(
        &known,
        Span::from_nanos(end.as_nanos().saturating_sub(spent.as_nanos())),
    ) {
        let found = bench.measured(&step, part, &mut known);
        spent += Span::from_nanos((found.seconds * 1e9) as u64);
        if !found.steady || !LONG.contains(&step.name.as_str()) {
            continue;
        }
        steady += 1;
        let follows = bench.goes_on(&step, part);
        let off = found.bytes_per_second / follows - 1.0;
        let permitted = (2.0 * found.uncertainty().unwrap()).max(0.05);
        assert!(
            off.abs() <= permitted,
            "{drive:?} {}: {} found, {follows} follows",
            found.name,
            found.bytes_per_second
        );
    }
    // At least two steps must have been checked.
    assert!(steady >= 2, "{drive:?}: {steady} steps were steady");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_drawn_flash_drive_goes_on_as_it_was_found(drive in flash()) {
        goes_on(&drive, 60);
    }

    #[test]
    fn a_drawn_disk_goes_on_as_it_was_found(drive in disk()) {
        goes_on(&drive, 300);
    }

    #[test]
    fn a_drawn_plain_drive_goes_on_as_it_was_found(drive in plain()) {
        goes_on(&drive, 30);
    }
}
