//! `weir play`: a plan of a comparison on a device of this kernel. `compare --on guest` runs it in its guests.

use crate::failure::Failure;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use weir_linux::{Files, Place, Tree};
use weir_play::{Host, Plan, player};

/// What is played, and where.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What `weir compare` has planned
    plan: PathBuf,
    /// The device, which is read and written without asking
    device: PathBuf,
    /// Where job files and logs go
    into: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Run(format!("play: {e}"));
    let text = fs::read_to_string(&options.plan);
    let text = text.map_err(|e| failed(&format!("{}: {e}", options.plan.display())))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    let mut files = Tree::default();
    let place = place(&options.device, &plan, &files).map_err(|e| failed(&e))?;
    player::set(&plan, &place, &mut files).map_err(|e| failed(&e))?;
    let host = Host {
        device: options.device.clone(),
        place: Some(place),
        scratch: options.into.clone(),
    };
    host.play(&plan, &|| true).map_err(|e| failed(&e))?;
    Ok(())
}

/// Where the knobs of a device are, and those of a plan's groups.
fn place(device: &Path, plan: &Plan, files: &Tree) -> Result<Place, String> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let directory = format!("/sys/block/{name}");
    let number = files.read(&format!("{directory}/dev"));
    let number = number.map_err(|e| format!("{directory}/dev: {e}"))?;
    Ok(Place {
        number: number.trim().to_owned(),
        device: directory,
        root: "/sys/fs/cgroup".to_owned(),
        groups: plan.groups.clone(),
    })
}
