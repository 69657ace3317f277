//! `weir play` plays the plan of a comparison on a device of this kernel. `compare --on guest` runs
//! this hidden command in its guests.

use crate::failure::Failure;
use clap::Args;
use std::fs;
use std::path::PathBuf;
use weir_linux::play::{PlayHost, PlayPlan, player};
use weir_linux::{ApplyJournal, FileTree};

/// The arguments of `weir play`: the plan, the device and the directory for results.
#[derive(Debug, Args)]
pub(crate) struct PlayOptions {
    /// The plan that `weir compare` wrote
    plan: PathBuf,
    /// The device, which is read and written without confirmation
    device: PathBuf,
    /// The directory for job files and logs
    into: PathBuf,
}

pub(crate) fn run(options: &PlayOptions) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Run(format!("play: {e}"));
    let text = fs::read_to_string(&options.plan);
    let text = text.map_err(|e| failed(&format!("{}: {e}", options.plan.display())))?;
    let plan: PlayPlan = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    let mut files = FileTree::default();
    let knobs = player::knobs(&plan, &files, &options.device).map_err(|e| failed(&e))?;
    fs::create_dir_all(&options.into).map_err(|e| failed(&e))?;
    let mut journal = ApplyJournal::open(&options.into.join("journal")).map_err(|e| failed(&e))?;
    let applied = weir_linux::apply(&mut files, &knobs, &mut journal, &mut |_| ());
    applied.map_err(|e| failed(&e))?;
    let host = PlayHost {
        device: options.device.clone(),
        cgroups: knobs.cgroups.root,
        scratch: options.into.clone(),
    };
    host.play(&plan, &|| true).map_err(|e| failed(&e))?;
    Ok(())
}
