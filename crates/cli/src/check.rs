//! `weir check`: everything that `weir serve` would refuse, without starting.

use crate::failure::{self, Failure};
use crate::output;
use clap::Args;
use std::path::{Path, PathBuf};
use weir_config::units::Rate;
use weir_config::{Problem, Server, Storage, Test, Volume, plan};
use weir_core::{Capacity, Instant, Layer, Promised};
use weir_report::{Column, Table};
use weir_serve::backend::{self, OpenError};

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's configuration file
    config: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let config = load(&options.config)?;
    for warning in weir_config::warnings(&config) {
        output::tell(&format!("warning: {warning}"));
    }
    let mut problems = 0;
    for volume in &config.volumes {
        let name = &volume.name;
        match storage(volume, &config.test) {
            Ok(()) => {}
            Err(Trouble::Now(reason)) => output::tell(&format!("warning: volume {name}: {reason}")),
            Err(Trouble::Always(reason)) => {
                problems += 1;
                output::tell(&format!("volume {name}: {reason}"));
            }
        }
    }
    if problems > 0 {
        return Err(counted(problems));
    }
    for note in weir_config::notes(&config) {
        output::tell(&format!("note: {note}"));
    }
    output::print(&summary(&config)?)
}

/// Why a volume's file or device would not be served.
enum Trouble {
    /// As long as somebody else uses it, who may well be the server that is to read this configuration.
    Now(String),
    /// Until something is done about it.
    Always(String),
}

/// Looks whether a volume's file or device could be served, and changes nothing: what is to be created is not.
fn storage(volume: &Volume, test: &Test) -> Result<(), Trouble> {
    match &volume.storage {
        Storage::Memory | Storage::Model => return Ok(()),
        Storage::File(path) if !path.exists() && volume.size.is_some() && !volume.read_only => {
            let parent = path.parent().unwrap_or_else(|| Path::new("/"));
            return match parent.metadata() {
                Ok(data) if data.is_dir() => Ok(()),
                Ok(_) => Err(format!("{} is no directory", parent.display())),
                Err(error) => Err(format!(
                    "cannot create {}: {}",
                    path.display(),
                    failure::said(&error)
                )),
            }
            .map_err(Trouble::Always);
        }
        Storage::File(_) | Storage::Device(_) => {}
    }
    let opened = backend::open(volume, test);
    opened.map(drop).map_err(|error| {
        let reason = failure::said(&error);
        let inner = error.get_ref();
        match inner.and_then(|e| e.downcast_ref::<OpenError>()) {
            Some(OpenError::Locked { .. }) => Trouble::Now(reason),
            _ => Trouble::Always(reason),
        }
    })
}

/// Reads a configuration, or says everything that is wrong with it.
pub(crate) fn load(path: &Path) -> Result<Server, Failure> {
    weir_config::load(path, &weir_config::Options::default()).map_err(|problems| refuse(&problems))
}

/// Says everything that is wrong.
pub(crate) fn refuse(problems: &[Problem]) -> Failure {
    for problem in problems {
        output::tell(&problem.to_string());
    }
    counted(problems.len())
}

/// Says how many problems there are.
fn counted(problems: usize) -> Failure {
    match problems {
        1 => output::tell("1 problem"),
        n => output::tell(&format!("{n} problems")),
    }
    Failure::Said
}

/// What is promised of what each drive can do.
fn summary(config: &Server) -> Result<String, Failure> {
    let mut table = Table::new([
        Column::text("drive"),
        Column::text("policy"),
        Column::number("volumes"),
        Column::number("tenants"),
        Column::number("promised"),
        Column::number("capacity"),
        Column::number("of it"),
    ]);
    for drive in &config.drives {
        let promised = promised(config, &drive.name)?;
        let capacity = drive.capacity.map(|c| against(promised, c));
        let part = drive.capacity.map(|_| part(promised.millionths));
        let tenants = config.tenants.iter().filter(|t| t.drive == drive.name);
        table.row([
            drive.name.clone(),
            drive.policy.name().to_owned(),
            config.volumes_of(&drive.name).count().to_string(),
            tenants.count().to_string(),
            amount(promised),
            capacity.unwrap_or_else(|| "unknown".into()),
            part.unwrap_or_default(),
        ]);
    }
    Ok(table.text(output::width()))
}

/// What a drive's contracts add up to, as the core counts it.
fn promised(config: &Server, drive: &str) -> Result<Promised, Failure> {
    let plan =
        plan(config, drive).ok_or_else(|| Failure::Run(format!("there is no drive {drive}")))?;
    let mut layer =
        Layer::new(plan.config).map_err(|e| Failure::Run(format!("drive {drive}: {e}")))?;
    let promised = layer.change(Instant::ZERO, &plan.edits);
    promised.map_err(|e| Failure::Run(format!("drive {drive}: {e}")))
}

fn amount(promised: Promised) -> String {
    match (promised.bytes, promised.iops) {
        (0, 0) => "nothing".into(),
        (bytes, 0) => Rate(bytes).to_string(),
        (0, iops) => format!("{iops} requests/s"),
        (bytes, iops) => format!("{} and {iops} requests/s", Rate(bytes)),
    }
}

/// What promises are held against, as far as there are any of its kind.
fn against(promised: Promised, capacity: Capacity) -> String {
    let bytes = Rate(capacity.bytes());
    match (promised.iops, capacity.requests()) {
        (0, _) | (_, 0) => bytes.to_string(),
        (_, requests) => format!("{bytes} and {requests} requests/s"),
    }
}

/// Millionths as percent.
fn part(millionths: u64) -> String {
    format!("{:.1}%", millionths as f64 / 1e4)
}
