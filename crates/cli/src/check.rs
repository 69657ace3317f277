//! `weir check` reports every reason for which `weir serve` would refuse a configuration, without
//! starting a server. If there is none, it prints the promises on each drive and the storage of
//! each volume.

mod reload;

use crate::failure::{Failure, counted};
use crate::output;
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_config::units::{ByteSize, BytesPerSecond};
use weir_config::{Problem, Server, Storage};
use weir_core::{Capacity, PromiseSums};
use weir_lab::report::{Column, ReportTable};
use weir_serve::backend::StorageInfo;
use weir_serve::{Finding, Preflight, preflight};

/// The arguments of `weir check`.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The server's configuration file
    config: PathBuf,
    /// Query the running server at the file's `listen.metrics`, and report the changes that a
    /// reload of the file would make, or the reason why it would be refused
    #[arg(long)]
    reload: bool,
}

pub(crate) fn run(options: &CheckOptions) -> Result<(), Failure> {
    let config = load(&options.config)?;
    // A reload has questions of its own, so the checks of a start do not apply.
    if options.reload {
        return reload::check(&options.config, &config);
    }
    for warning in weir_config::warnings(&config) {
        output::print_message(&format!("warning: {warning}"));
    }
    let Preflight {
        mut findings,
        storages,
        running,
    } = preflight(&config);
    findings.extend(weir_manage::preflight(&config));
    // A problem is only a warning if it is specific to this user, or if it is caused by a server
    // that may be the one for which the file is meant.
    for Finding { problem, certain } in &findings {
        let kind = if *certain { "" } else { "warning: " };
        output::print_message(&format!("{kind}{problem}"));
    }
    match findings.iter().filter(|f| f.certain).count() {
        0 => {}
        problems => {
            output::print_message(&counted(problems));
            return Err(Failure::Said);
        }
    }
    if let Some(server) = running {
        output::print_message(&format!(
            "note: {server} uses this file; run `weir check --reload` to see what a reload would change"
        ));
    }
    for note in weir_config::notes(&config)
        .into_iter()
        .chain(rotation(&config, &storages))
        .chain(formats(&config, &storages))
    {
        output::print_message(&format!("note: {note}"));
    }
    let summary = summary(&config)?;
    output::print(&format!("{summary}{}", storage(&config, &storages)))
}

/// Reads a configuration. The error has all problems of the file.
pub(crate) fn load(path: &Path) -> Result<Server, Failure> {
    weir_config::load(path).map_err(|problems| refuse(&problems))
}

/// Returns the failure of a command because of these problems.
pub(crate) fn refuse(problems: &[Problem]) -> Failure {
    Failure::Problems(problems.to_vec())
}

/// Returns a table with the promises and the capacity of each drive.
fn summary(config: &Server) -> Result<String, Failure> {
    let mut table = ReportTable::new([
        Column::text("drive"),
        Column::text("policy").dropped(1),
        Column::number("volumes").dropped(2),
        Column::number("tenants").dropped(3),
        Column::number("promised"),
        Column::number("capacity"),
        Column::number("of it"),
        Column::number("as 4KiB\nrandom").dropped(4),
        Column::number("as 1MiB\nsequential").dropped(5),
    ]);
    let mut is_known = false;
    for drive in &config.drives {
        let promised = weir_config::promised(config, drive);
        let promised = promised.ok_or_else(|| {
            Failure::Run(format!(
                "drive {}: its contracts cannot be admitted",
                drive.name
            ))
        })?;
        let capacity = drive.capacity.map(|c| against(promised, c));
        let part = drive.capacity.map(|_| part(promised.millionths));
        let tenants = config.tenants.iter().filter(|t| t.drive == drive.name);
        let times = times(promised, drive.capacity);
        is_known |= times.iter().any(|time| !time.is_empty());
        table.row([
            drive.name.clone(),
            drive.policy.name.clone(),
            config.volumes_of(&drive.name).count().to_string(),
            tenants.count().to_string(),
            amount(promised),
            capacity.unwrap_or_else(|| "unknown".into()),
            part.unwrap_or_default(),
            times[0].clone(),
            times[1].clone(),
        ]);
    }
    let mut text = table.text(output::width());
    if is_known {
        text += &weir_lab::report::wrap(TIMES, output::width());
    }
    Ok(text)
}

/// The text that explains the columns of [`times`].
const TIMES: &str = "as 4KiB random, as 1MiB sequential: the part of the drive's time that the promises take if all requests are such reads. \
                     Above 90% they are not kept for such requests.";

/// Returns the fractions of the drive's time that promises need if all requests are random reads of
/// 4 KiB, and if all are sequential reads of 1 MiB. A text is empty if the capacity does not state
/// the rate.
fn times(promised: PromiseSums, capacity: Option<Capacity>) -> [String; 2] {
    const SMALL: f64 = 4096.0;
    const LONG: f64 = 1_048_576.0;
    let capacity = capacity.unwrap_or(Capacity::NONE);
    // The rate of reads is more precise than that of all requests, but it is optional.
    let random = match capacity.read_iops {
        0 => capacity.iops,
        reads => reads,
    };
    let (bytes, iops) = (promised.bytes as f64, promised.iops as f64);
    let small = (random, (bytes / SMALL + iops) / random as f64);
    let long = (capacity.read, (bytes + iops * LONG) / capacity.read as f64);
    [small, long].map(|(stated, part)| {
        if stated > 0 && bytes + iops > 0.0 {
            format!("{:.0}%", part * 100.0)
        } else {
            String::new()
        }
    })
}

/// Returns notes on drives for which the kernel's property `rotational` differs from the default of
/// the configuration. A value in the file takes precedence over the kernel.
fn rotation(config: &Server, storages: &BTreeMap<String, StorageInfo>) -> Vec<Problem> {
    let of = |drive: &weir_config::ServerDrive| {
        let key = format!("drive.{}.rotational", drive.name);
        if config.is_written(&key) {
            return None;
        }
        let mut volumes = config.volumes_of(&drive.name);
        let (volume, place) = volumes.find_map(|volume| {
            let place = storages.get(&volume.name)?.place.as_ref()?;
            let says = place.rotational?;
            (says != drive.rotational).then_some((volume, place))
        })?;
        // A drive model has its own property and no device, so it is never reported here.
        let (says, is) = if drive.rotational {
            ("is not a rotating disk", "true")
        } else {
            ("is a rotating disk", "false")
        };
        let kind = if drive.rotational {
            "a rotating disk"
        } else {
            "a drive that does not rotate"
        };
        let what = format!(
            "is not set, so that the drive is treated as {kind}; but the kernel reports that {}, the device of volume.{}, {says}",
            place.device, volume.name
        );
        let help = format!(
            "set rotational = {} if the kernel is right, otherwise rotational = {is}; \
             for virtual disks it is often wrong, and `weir calibrate` measures it",
            !drive.rotational
        );
        Some(config.problem(&key, what, Some(help)))
    };
    config.drives.iter().filter_map(of).collect()
}

/// Returns notes on the storage of volumes.
fn formats(config: &Server, storages: &BTreeMap<String, StorageInfo>) -> Vec<Problem> {
    let noted = storages.iter().filter_map(|(volume, found)| {
        let note = found.place.as_ref()?.note.clone()?;
        Some(config.problem(&format!("volume.{volume}.file"), note, None))
    });
    noted.collect()
}

/// Returns a table with the storage of each volume.
fn storage(config: &Server, storages: &BTreeMap<String, StorageInfo>) -> String {
    let columns = [
        Column::text("volume"),
        Column::text("storage"),
        Column::number("size"),
        Column::number("now").dropped(1),
        Column::number("free"),
        Column::text("device").dropped(2),
        Column::number("block").dropped(3),
    ];
    // Storage in memory has no device or free space, so the other columns would be empty.
    let files = storages.values().any(|found| found.place.is_some());
    let said = if files { columns.len() } else { 3 };
    let mut table = ReportTable::new(columns.into_iter().take(said));
    let known = config.volumes.iter();
    let known = known.filter_map(|v| Some((v, storages.get(&v.name)?)));
    for (volume, found) in known {
        let place = found.place.as_ref();
        let now = match (place, found.now) {
            (None, _) => String::new(),
            (Some(_), None) => "to be made".to_owned(),
            (Some(_), Some(now)) => ByteSize(now).to_string(),
        };
        table.row([
            volume.name.clone(),
            match &volume.storage {
                Storage::File(path) | Storage::Device(path) => path.display().to_string(),
                Storage::Nbd(remote) => remote.text.clone(),
                Storage::Memory => "memory".to_owned(),
                Storage::Model => "memory, behind a model".to_owned(),
            },
            ByteSize(found.size).to_string(),
            now,
            place.and_then(|p| p.free).map_or_else(String::new, about),
            place.map_or_else(String::new, |p| p.device.clone()),
            place.map_or_else(String::new, |_| ByteSize(found.block.into()).to_string()),
        ]);
    }
    if storages.is_empty() {
        return String::new();
    }
    format!("\n{}", table.text(output::width()))
}

/// Returns a number of bytes, rounded to the largest fitting unit.
fn about(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    match unit {
        Some((name, shift)) => format!("{:.1}{name}", bytes as f64 / (1_u64 << shift) as f64),
        None => ByteSize(bytes).to_string(),
    }
}

/// Returns the sum of promises as text.
fn amount(promised: PromiseSums) -> String {
    match (promised.bytes, promised.iops) {
        (0, 0) => "nothing".into(),
        (bytes, 0) => BytesPerSecond(bytes).to_string(),
        (0, iops) => format!("{iops} requests/s"),
        (bytes, iops) => format!("{} and {iops} requests/s", BytesPerSecond(bytes)),
    }
}

/// Returns the capacity with which promises are compared. It includes requests only if requests are
/// promised.
fn against(promised: PromiseSums, capacity: Capacity) -> String {
    let bytes = BytesPerSecond(capacity.bytes());
    match (promised.iops, capacity.requests()) {
        (0, _) | (_, 0) => bytes.to_string(),
        (_, requests) => format!("{bytes} and {requests} requests/s"),
    }
}

/// Formats millionths as a percentage.
fn part(millionths: u64) -> String {
    format!("{:.1}%", millionths as f64 / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn small_promises_in_bytes_can_need_all_of_the_time() {
        let disk = Capacity {
            read: 100_000_000,
            write: 100_000_000,
            read_iops: 200,
            ..Capacity::NONE
        };
        let promised = |bytes, iops| PromiseSums {
            bytes,
            iops,
            millionths: 0,
        };
        // 819 200 B/s are 200 reads of 4 KiB, all that the drive can do, but less than 1 % of 100
        // MB/s.
        assert_eq!(times(promised(819_200, 0), Some(disk)), ["100%", "1%"]);
        // 50 of 200 reads are 25 %, and 50 reads of 1 MiB are 52.4 of 100 MB/s.
        assert_eq!(times(promised(0, 50), Some(disk)), ["25%", "52%"]);
        assert_eq!(times(promised(0, 0), Some(disk)), ["", ""]);
        assert_eq!(times(promised(1_000_000, 0), None), ["", ""]);
    }

    /// Returns the notes for a drive with a file on the device of this test, with `rotational` as
    /// stated in the configuration and as reported by the kernel.
    #[test]
    fn a_different_rotational_property_is_noted_unless_the_file_sets_it() {
        let folder = std::env::temp_dir().join(format!("weir-check-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let notes = |stated: &str, kernel: Option<bool>| {
            let text = format!(
                "listen.nbd = [\"127.0.0.1:0\"]\n[drive.d]\n{stated}\n[volume.v]\ndrive = \"d\"\n\
                 file = \"{}/a.img\"\nsize = \"1MiB\"\ncache = \"host\"\n",
                folder.display()
            );
            let config = weir_config::parse("", &text).unwrap();
            let mut storages = preflight(&config).storages;
            storages
                .get_mut("v")
                .unwrap()
                .place
                .as_mut()
                .unwrap()
                .rotational = kernel;
            rotation(&config, &storages)
        };
        // The file sets the property, so the kernel's value does not matter.
        for kernel in [None, Some(false), Some(true)] {
            for stated in ["rotational = true", "rotational = false"] {
                assert_eq!(notes(stated, kernel), [], "{stated}");
            }
        }
        // The kernel reports nothing, or the same as the default of the configuration.
        assert_eq!(notes("", None), []);
        assert_eq!(notes("", Some(false)), []);
        let note = &notes("", Some(true))[0];
        assert_eq!(note.key, "drive.d.rotational");
        assert!(note.message.contains("volume.v"), "{note}");
        let help = note.help.as_deref().unwrap_or_default();
        assert!(
            help.contains("rotational = true") && help.contains("rotational = false"),
            "{note}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
