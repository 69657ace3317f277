//! `weir check`: everything that `weir serve` would refuse, without starting.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::path::{Path, PathBuf};
use weir_config::units::Rate;
use weir_config::{Problem, Server, plan};
use weir_core::{Instant, Layer, Promised};
use weir_report::{Column, Table};

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
    output::print(&summary(&config)?)
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
    match problems.len() {
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
        let capacity = drive
            .capacity
            .map(|c| Rate(c.read.min(c.write)).to_string());
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

/// Millionths as percent.
fn part(millionths: u64) -> String {
    format!("{:.1}%", millionths as f64 / 1e4)
}
