//! `weir drives validation` prints every published figure next to that of the model.

use crate::failure::Failure;
use crate::jobs::JobsOption;
use crate::output;
use crate::progress::WorkProgress;
use clap::Args;
use std::sync::Mutex;
use std::time::Duration;
use weir_config::sheet;
use weir_lab::fit::{document, validate};

/// The arguments of `weir drives validation`.
#[derive(Debug, Args)]
pub(super) struct ValidationOptions {
    /// The drives to compare [default: all drives with published figures]
    drives: Vec<String>,
    /// Number of other parameter sets that fit as well as the profile, for predictions as
    /// intervals. 0: none
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=10_000))]
    sets: u32,
    #[command(flatten)]
    jobs: JobsOption,
}

/// The length of the progress bar for one drive. The bar's unit is 100 ms, so one unit is a
/// thousandth of the work on a drive.
const EACH: Duration = Duration::from_secs(100);

pub(super) fn run(options: &ValidationOptions) -> Result<(), Failure> {
    let names: Vec<&str> = match &options.drives[..] {
        [] => sheet::names().collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    let jobs = options.jobs.count();
    let work = format!("{} drives", names.len());
    let progress = Mutex::new(WorkProgress::new(EACH * names.len() as u32, work));
    let lock = || progress.lock().expect("no thread panics while it holds it");
    let mut drives = Vec::new();
    for (name, number) in names.iter().zip(1..) {
        lock().name(
            "validation",
            &format!("{name}, {number} of {}", names.len()),
        );
        let sheet = super::sheet(name)?;
        let profile = super::find(name)?;
        let done = |thousandths: usize| lock().set(EACH * thousandths as u32 / 1000);
        let sets = options.sets as usize;
        let drive = validate(&sheet, &profile.drive, sets, jobs, &done).map_err(Failure::run)?;
        drives.push(drive);
        lock().next(EACH);
    }
    if let Ok(progress) = progress.into_inner() {
        progress.clear();
    }
    output::print(&document(&drives))
}
