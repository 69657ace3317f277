//! `weir apply` sets contracts through the kernel's own settings, and restores the original
//! settings on request.
//!
//! Every change is recorded in a journal before it is made. [`forecast`] predicts the promises that
//! the kernel will not keep, and [`watch`] restores settings that other programs change.

mod forecast;
mod host;
mod watch;

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::path::{Path, PathBuf};
use weir_config::apply::KernelHost;
use weir_config::one_line;
use weir_linux::{
    ApplyCounts, ApplyJournal, FileTree, HostFiles, HostPlan, JOURNAL, RecordedHost, RestoreCounts,
    StepReport,
};

/// The arguments of `weir apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    /// The file with the contracts: drives with their devices, and cgroups or systemd units instead
    /// of volumes
    #[arg(value_name = "CONTRACTS", required_unless_present = "restore")]
    contracts: Option<PathBuf>,
    /// Show every write to the kernel, and the reason for each that would be refused, but write
    /// nothing
    #[arg(long, conflicts_with_all = ["restore", "check", "watch"])]
    dry_run: bool,
    /// With --dry-run or --check: read the files of a recorded host from this directory instead of
    /// this host's files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["restore", "watch", "journal"])]
    root: Option<PathBuf>,
    /// Report the features of this host, settings that have no effect on it, and writes that would
    /// be refused, but write nothing
    #[arg(long, conflicts_with_all = ["restore", "watch"])]
    check: bool,
    /// Restore all settings that were changed, in reverse order
    #[arg(long, conflicts_with_all = ["contracts", "watch"])]
    restore: bool,
    /// Continue until SIGTERM or SIGINT: check the settings every second, and restore those that
    /// udev, systemd or another program changed
    #[arg(long)]
    watch: bool,
    /// The file in which the original settings are saved
    #[arg(long, value_name = "FILE", default_value = JOURNAL)]
    journal: PathBuf,
}

pub(crate) fn run(options: &ApplyOptions) -> Result<(), Failure> {
    let Some(contracts) = &options.contracts else {
        return restore(&mut FileTree::default(), options);
    };
    let host = weir_config::apply::load(contracts);
    let host = host.map_err(|problems| check::refuse(&problems))?;
    let only_looks = options.check || options.dry_run;
    match &options.root {
        Some(root) if only_looks => show_plan(
            &recorded(root)?,
            &host,
            || Ok(ApplyJournal::empty()),
            options,
        ),
        Some(_) => Err(Failure::Usage(
            "--root is a recorded host, on which nothing can be set; add --dry-run or --check"
                .to_owned(),
        )),
        None if only_looks => {
            let journal = || ApplyJournal::read(&options.journal).map_err(Failure::run);
            show_plan(&FileTree::default(), &host, journal, options)
        }
        None => {
            let mut files = FileTree::default();
            let plan = plan(&files, &host, options)?;
            refuse(&plan)?;
            apply(&mut files, &host, &plan, options)
        }
    }
}

/// Opens a recorded host, of which the files are copied below a directory.
fn recorded(root: &Path) -> Result<RecordedHost, Failure> {
    RecordedHost::new(root).map_err(|error| {
        let (root, why) = (root.display(), weir_config::os_error::message(&error));
        Failure::Usage(format!(
            "--root {root}: {why}; use a directory with copies of a host's files (see docs/apply.md)"
        ))
    })
}

/// Returns the plan for a host, and prints warnings, notes and the forecast.
fn plan(
    files: &dyn HostFiles,
    host: &KernelHost,
    options: &ApplyOptions,
) -> Result<HostPlan, Failure> {
    for problem in weir_config::apply::unkept(host) {
        output::print_message(&format!("warning: {problem}"));
    }
    forecast::show(host)?;
    let plan = HostPlan::new(files, host);
    if options.check {
        output::print(&host::table(files, &plan)?)?;
    }
    for warning in weir_linux::warnings(files, &plan) {
        output::print_message(&format!("warning: {warning}"));
    }
    for note in &plan.notes {
        output::print_message(&format!("note: {}", one_line(note)));
    }
    Ok(plan)
}

/// Refuses a plan that has problems.
fn refuse(plan: &HostPlan) -> Result<(), Failure> {
    if plan.problems.is_empty() {
        return Ok(());
    }
    Err(check::refuse(&plan.problems))
}

/// Shows the features of a host or the writes that would be made. Writes nothing.
fn show_plan(
    files: &dyn HostFiles,
    host: &KernelHost,
    journal: impl FnOnce() -> Result<ApplyJournal, Failure>,
    options: &ApplyOptions,
) -> Result<(), Failure> {
    let plan = plan(files, host, options)?;
    if options.dry_run {
        dry_run(files, &plan, &journal()?)?;
    }
    refuse(&plan)
}

/// Prints the writes that would be made, and those that would be refused.
fn dry_run(files: &dyn HostFiles, plan: &HostPlan, journal: &ApplyJournal) -> Result<(), Failure> {
    let all = weir_linux::preview(files, plan, journal);
    let lines = all.iter().map(|said| format!("{said}\n"));
    let refused = plan.withheld.iter().map(|withheld| format!("{withheld}\n"));
    output::print(&lines.chain(refused).collect::<String>())?;
    let made = counted(all.len(), "change");
    output::print(&match (all.len(), plan.withheld.len()) {
        (0, 0) => "all settings already have these values\n".to_owned(),
        (_, 0) => format!("{made} would be made\n"),
        (_, n) => {
            let refused = counted(n, "setting");
            format!(
                "nothing would be written: {refused} would be refused (and {made} would be possible)\n"
            )
        }
    })
}

/// Makes the changes, and keeps the settings with `--watch`.
fn apply(
    files: &mut dyn HostFiles,
    host: &KernelHost,
    plan: &HostPlan,
    options: &ApplyOptions,
) -> Result<(), Failure> {
    let mut journal = ApplyJournal::open(&options.journal).map_err(Failure::run)?;
    // Without a readable journal, the original settings could not be restored.
    if let Some(damage) = journal.damage() {
        return Err(Failure::run(damage));
    }
    let interrupt = watch::ending_flag(options.watch)?;
    let mut shown = StepPrinter::default();
    let applied = weir_linux::apply(files, plan, &mut journal, &mut |said| shown.say(said));
    let applied = applied.map_err(Failure::run);
    // The settings are made even if nobody reads the output. That failure is reported afterwards.
    shown.unread?;
    let ApplyCounts { done, same, .. } = applied?;
    output::print(&match done {
        0 => format!(
            "all settings already have these values ({})\n",
            counted(same, "step")
        ),
        n => format!(
            "{} made; run `weir apply --restore` to undo them\n",
            counted(n, "change")
        ),
    })?;
    match interrupt {
        Some(interrupt) => watch::watch(files, host, &mut journal, &interrupt),
        None => Ok(()),
    }
}

/// Restores all settings that the journal contains.
fn restore(files: &mut dyn HostFiles, options: &ApplyOptions) -> Result<(), Failure> {
    let mut journal = ApplyJournal::open(&options.journal).map_err(Failure::run)?;
    // The journal is checked before restoring, which removes its entries.
    let is_empty = journal.entries().len() == 0 && journal.damage().is_none();
    let mut shown = StepPrinter::default();
    let restored = weir_linux::restore(files, &mut journal, &mut |said| shown.say(said));
    let RestoreCounts {
        undone,
        gone,
        changed,
        kept,
    } = restored.map_err(Failure::run)?;
    shown.unread?;
    if is_empty {
        let journal = options.journal.display();
        return output::print(&format!(
            "nothing to restore: {journal} contains no change\n"
        ));
    }
    let mut line = format!("{} restored", counted(undone, "change"));
    for (number, what) in [
        (gone, "already gone"),
        (
            changed,
            "left unchanged, because another program has changed them since",
        ),
        (kept, "not restored, and kept in the journal"),
    ] {
        if number > 0 {
            line.extend([", ", &number.to_string(), " ", what]);
        }
    }
    output::print(&(line + "\n"))?;
    if let Some(damage) = journal.damage() {
        return Err(Failure::run(damage));
    }
    match kept {
        0 => Ok(()),
        _ => Err(Failure::Said),
    }
}

/// Returns a number with a noun, in the plural if it is not 1.
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Prints steps on standard output, and warnings on standard error.
struct StepPrinter {
    /// The result of printing. It is checked only at the end, so that a closed output does not
    /// leave the host with a part of the settings.
    unread: Result<(), Failure>,
}

impl Default for StepPrinter {
    fn default() -> Self {
        Self { unread: Ok(()) }
    }
}

impl StepPrinter {
    fn say(&mut self, said: &StepReport) {
        if said.is_warning() {
            output::print_message(&format!("warning: {said}"));
        } else if self.unread.is_ok() {
            self.unread = output::print(&format!("{said}\n"));
        }
    }
}
