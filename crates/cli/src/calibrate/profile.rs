//! Fits a profile to the results of a measurement.
//!
//! The results become a sheet, like one that is written from a manufacturer's data sheet, and are
//! fitted in the same way. Parameters that no figure shows have plausible values for the kind of
//! drive.

use crate::failure::Failure;
use std::path::Path;
use weir_config::parameter;
use weir_config::profile::DriveProfile;
use weir_config::sheet::{Fit, ParameterRange, PublishedFigure, Sheet};
use weir_core::Span;
use weir_lab::calibrate::{Calibration, MeasuredCapacity, StepResult, step};
use weir_lab::fit::FigureRow;
use weir_model::drive::{DriveConfig, hdd, ssd};

/// The largest deviation of a fitted figure, in percent.
const WITHIN: u8 = 5;
/// The usual rotational speeds of disks, in revolutions per minute. The speed cannot be measured
/// directly. The only condition is that half a revolution takes at most half of an access.
const RPM: [u32; 3] = [7200, 10_000, 15_000];

/// A parameter, the figure from which it is fitted, and the range in which it is searched.
struct FittedParameter {
    key: &'static str,
    figure: &'static str,
    from: u64,
    to: u64,
}

/// Returns the sheet of a drive. `file` is the path of the profile, from which the profile gets its
/// name.
pub(super) fn sheet(known: &Calibration, file: &Path) -> Result<Sheet, Failure> {
    let drive = begin(known)?;
    let ties = match &drive {
        DriveConfig::Hdd(disk) => of_disk(disk),
        _ => of_flash(known),
    };
    let figures = figures(known);
    let fit = ties
        .into_iter()
        .filter_map(|tie| fit(&drive, &figures, &tie));
    let fit = fit.collect();
    let profile = DriveProfile {
        name: name(file),
        about: about(known),
        drive,
    };
    Ok(Sheet {
        profile,
        fit,
        plausible: Vec::new(),
        figures,
    })
}

/// Fits the profile of a sheet. Returns it with its figures next to the measured ones.
pub(super) fn fitted(sheet: Sheet) -> Result<(DriveProfile, Vec<FigureRow>), Failure> {
    let drive = weir_lab::fit::fit(&sheet).map_err(Failure::run)?;
    let rows = weir_lab::fit::compare(&sheet, &drive).map_err(Failure::run)?;
    Ok((
        DriveProfile {
            drive,
            ..sheet.profile
        },
        rows,
    ))
}

/// Returns the fit of a parameter, or `None` if its figure was not measured.
fn fit(drive: &DriveConfig, figures: &[PublishedFigure], tie: &FittedParameter) -> Option<Fit> {
    figures.iter().find(|f| f.figure == tie.figure)?;
    Some(Fit {
        range: ParameterRange {
            parameter: parameter::find(drive, tie.key)?,
            from: tie.from.max(1),
            to: tie.to.max(tie.from + 1),
        },
        figure: tie.figure.to_owned(),
    })
}

/// Returns the measured figures under their names in sheets.
fn figures(known: &Calibration) -> Vec<PublishedFigure> {
    let rate = |name, figure, fits| {
        let found = known.step(name)?;
        Some(published(figure, found.bytes_per_second, false, fits, name))
    };
    let disk = known.is_rotating();
    let access = known.step(step::READ_ONE).and_then(latency);
    [
        rate(step::READ, "sequential-read", !disk),
        access.map(|ns| published("access", ns, true, true, step::READ_ONE)),
        // The random reads in a sheet cover a part of the disk, but these cover all of it.
        rate(step::READ_RANDOM, "random-read", true).filter(|_| !disk),
        rate(step::WRITE, "sequential-write", !disk),
        rate(step::READER, "one-reader", false),
        rate(step::WRITE_RANDOM, "random-write", false).filter(|_| !disk),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn published(figure: &str, value: f64, is_time: bool, fits: bool, from: &str) -> PublishedFigure {
    PublishedFigure {
        figure: figure.to_owned(),
        value,
        is_time,
        within: fits.then_some(WITHIN),
        source: format!("weir calibrate: {from}"),
        note: None,
    }
}

/// Returns the mean latency in nanoseconds.
fn latency(found: &StepResult) -> Option<f64> {
    found.latency_us.map(|latency| latency.mean * 1e3)
}

/// Returns the drive with which the fit begins: measured values where they are known, and plausible
/// ones otherwise.
fn begin(known: &Calibration) -> Result<DriveConfig, Failure> {
    let needed = |name: &str| {
        known.step(name).ok_or_else(|| {
            Failure::Run(format!(
                "a profile requires the step {name}, which is missing"
            ))
        })
    };
    let access = latency(needed(step::READ_ONE)?).unwrap_or(1e5) as u64;
    let read = needed(step::READ)?.bytes_per_second as u64;
    let random = needed(step::READ_RANDOM)?.requests_per_second() as u64;
    let size = known.target.size;
    let drive = if known.is_rotating() {
        let end = known
            .step(step::READ_END)
            .map_or(read, |f| f.bytes_per_second as u64);
        DriveConfig::Hdd(disk(size, (read, end), access))
    } else {
        let tags = MeasuredCapacity::of(known)
            .tags
            .unwrap_or(known.target.depth);
        DriveConfig::Ssd(flash(size, read, random, access, tags))
    };
    drive.validate().map_err(|error| {
        Failure::Run(format!(
            "no model fits the measurement: {error}; you can still use the lines above"
        ))
    })?;
    Ok(drive)
}

/// Returns a flash drive that is not limited by any parameter that cannot be measured.
fn flash(size: u64, read: u64, random: u64, access: u64, tags: u32) -> ssd::SsdConfig {
    let generic = ssd::SsdConfig::generic();
    // The larger part of a read's time, assumed to be 60 %, is spent in the flash memory.
    let page = (access * 6 / 10).clamp(1_000, generic.read.as_nanos());
    let channels = u64::from(generic.channels);
    // There are twice as many dies as the measured rate needs, so that the controller limits the
    // requests and can be fitted.
    let dies = (2 * random.saturating_mul(page) / 1_000_000_000).div_ceil(channels);
    ssd::SsdConfig {
        size: (size / 4096 * 4096).clamp(1 << 30, 64 << 40),
        // The model permits at most 1024 tags.
        tags: tags.clamp(32, 1024) as u16,
        read: Span::from_nanos(page),
        dies: dies.clamp(generic.dies.into(), 64) as u16,
        // The channels must not limit sequential reads.
        channel: generic.channel.max(2 * read / channels).min(10_000_000_000),
        link: read.clamp(1_000_000, 100_000_000_000),
        ..generic
    }
}

/// Returns a rotating disk with the measured rates and a seek time that follows from the access
/// time.
fn disk(size: u64, (outer, inner): (u64, u64), access: u64) -> hdd::HddConfig {
    let generic = hdd::HddConfig::generic();
    // The three zones have equal sizes, in whole blocks.
    let bytes = (size / 3 / 4096 * 4096).clamp(1 << 20, 1 << 44);
    let zone = |rate: u64| hdd::Zone {
        bytes,
        rate: rate.clamp(1_000_000, 1_000_000_000),
    };
    // Half a revolution, which is the mean rotational latency, in nanoseconds.
    let turn = |rpm: u32| 60_000_000_000 / u64::from(rpm) / 2;
    let rpm = RPM.into_iter().find(|rpm| turn(*rpm) <= access / 2);
    let rpm = rpm.unwrap_or(RPM[2]);
    // An access consists of a seek and the rotational latency.
    let average = access.saturating_sub(turn(rpm)).clamp(500_000, 30_000_000);
    hdd::HddConfig {
        zones: [zone(outer), zone(outer.midpoint(inner)), zone(inner)],
        rpm,
        seek: hdd::Seek {
            track: Span::from_nanos((average / 4).min(generic.seek.track.as_nanos())),
            average: Span::from_nanos(average),
            // A seek over the whole disk is assumed to take twice the average.
            full: Span::from_nanos(average * 2),
        },
        // The link must not limit the outer zone.
        link: generic.link.max(2 * outer),
        ..generic
    }
}

/// Returns the parameters of a flash drive that are fitted.
fn of_flash(known: &Calibration) -> Vec<FittedParameter> {
    let read = known.step(step::READ).map_or(0.0, |f| f.bytes_per_second) as u64;
    let access = known.step(step::READ_ONE).and_then(latency).unwrap_or(0.0) as u64;
    vec![
        FittedParameter {
            key: "link",
            figure: "sequential-read",
            from: (read / 2).max(1_000_000),
            to: (read * 2).min(100_000_000_000),
        },
        FittedParameter {
            key: "overhead",
            figure: "access",
            from: 1_000,
            to: access.min(10_000_000),
        },
        FittedParameter {
            key: "command",
            figure: "random-read",
            from: 100,
            to: 1_000_000,
        },
        FittedParameter {
            key: "program",
            figure: "sequential-write",
            from: 1_000,
            to: 100_000_000,
        },
    ]
}

/// Returns the parameter of a rotating disk that is fitted. All other ones follow from the
/// measurement directly.
fn of_disk(disk: &hdd::HddConfig) -> Vec<FittedParameter> {
    vec![FittedParameter {
        key: "seek.average",
        figure: "access",
        from: disk.seek.track.as_nanos(),
        to: disk.seek.full.as_nanos(),
    }]
}

/// Returns a valid name for the profile, from the file's name without its ending.
fn name(file: &Path) -> String {
    let stem = file
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = stem
        .unwrap_or_default()
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .take(64)
        .collect();
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name
    } else {
        "mine".to_owned()
    }
}

fn about(known: &Calibration) -> String {
    let target = &known.target;
    let path: String = target.path.chars().filter(|c| !c.is_control()).collect();
    let kind = if known.is_rotating() {
        "The rates of the outer and the inner zone and the time of an access are measured. Revolutions, the cache and the rest are those of a \
         plausible disk."
    } else if target.write {
        "Reads in sequence and at random, the time of an access and writes in sequence are measured. Flushes, erasing and the rest are those of \
         a plausible flash drive."
    } else {
        "Reads in sequence and at random and the time of an access are measured. Writes and the rest are those of a plausible flash drive."
    };
    format!("{path}, as weir calibrate measured it\n{kind}\n")
}
