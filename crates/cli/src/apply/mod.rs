//! `weir apply`: contracts as the kernel's own knobs, put back when they are not wanted any more.

mod forecast;
mod host;
mod watch;

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::path::PathBuf;
use weir_config::apply::Host;
use weir_config::one_line;
use weir_linux::{Applied, Files, JOURNAL, Journal, Plan, Restored, Said, Tree};

/// What to do with the kernel of this host.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The contracts: drives with their devices, and cgroups or units in the place of volumes
    #[arg(value_name = "CONTRACTS", required_unless_present = "restore")]
    contracts: Option<PathBuf>,
    /// Show each write and write nothing
    #[arg(long, conflicts_with_all = ["restore", "check", "watch"])]
    dry_run: bool,
    /// Say what this host has, which knobs do nothing on it, and what would be refused; write nothing
    #[arg(long, conflicts_with_all = ["restore", "watch"])]
    check: bool,
    /// Put everything back that was changed, the last change first
    #[arg(long, conflicts_with_all = ["contracts", "watch"])]
    restore: bool,
    /// Go on until SIGTERM or SIGINT: look once a second, and set again what udev, systemd or somebody else has changed
    #[arg(long)]
    watch: bool,
    /// Where the values that were there before are kept
    #[arg(long, value_name = "FILE", default_value = JOURNAL)]
    journal: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut files = Tree::default();
    let Some(contracts) = &options.contracts else {
        return restore(&mut files, options);
    };
    let host = weir_config::apply::load(contracts);
    let host = host.map_err(|problems| check::refuse(&problems))?;
    for problem in weir_config::apply::unkept(&host) {
        output::tell(&format!("warning: {problem}"));
    }
    forecast::show(&host)?;
    let plan = Plan::new(&files, &host);
    if options.check {
        output::print(&host::table(&files, &plan)?)?;
    }
    for warning in weir_linux::warnings(&files, &plan) {
        output::tell(&format!("warning: {warning}"));
    }
    for note in &plan.notes {
        output::tell(&format!("note: {}", one_line(note)));
    }
    if !plan.problems.is_empty() {
        return Err(check::refuse(&plan.problems));
    }
    if options.check {
        return Ok(());
    }
    if options.dry_run {
        return dry_run(&files, &plan, options);
    }
    apply(&mut files, &host, &plan, options)
}

/// Shows what would be written.
fn dry_run(files: &dyn Files, plan: &Plan, options: &Options) -> Result<(), Failure> {
    let journal = Journal::read(&options.journal).map_err(Failure::run)?;
    let all = weir_linux::preview(files, plan, &journal);
    let lines = all.iter().map(|said| format!("{said}\n"));
    output::print(&lines.collect::<String>())?;
    output::print(&match all.len() {
        0 => "everything is so already\n".to_owned(),
        n => format!("{} would be made\n", counted(n, "change")),
    })
}

fn apply(
    files: &mut dyn Files,
    host: &Host,
    plan: &Plan,
    options: &Options,
) -> Result<(), Failure> {
    let mut journal = Journal::open(&options.journal).map_err(Failure::run)?;
    if let Some(damage) = journal.damage() {
        return Err(Failure::run(damage));
    }
    let interrupt = watch::interrupt(options.watch)?;
    let mut shown = Shown::default();
    let applied = weir_linux::apply(files, plan, &mut journal, &mut |said| shown.say(said));
    let applied = applied.map_err(Failure::run);
    shown.unread?;
    let Applied { done, same, .. } = applied?;
    output::print(&match done {
        0 => format!("everything is so already ({})\n", counted(same, "step")),
        n => format!(
            "{} made; weir apply --restore puts everything back\n",
            counted(n, "change")
        ),
    })?;
    match interrupt {
        Some(interrupt) => watch::watch(files, host, &mut journal, &interrupt),
        None => Ok(()),
    }
}

fn restore(files: &mut dyn Files, options: &Options) -> Result<(), Failure> {
    let mut journal = Journal::open(&options.journal).map_err(Failure::run)?;
    let is_empty = journal.entries().len() == 0 && journal.damage().is_none();
    let mut shown = Shown::default();
    let restored = weir_linux::restore(files, &mut journal, &mut |said| shown.say(said));
    let Restored {
        undone,
        gone,
        changed,
        kept,
    } = restored.map_err(Failure::run)?;
    shown.unread?;
    if is_empty {
        let journal = options.journal.display();
        return output::print(&format!("nothing to put back: {journal} has no change\n"));
    }
    let mut line = format!("{} put back", counted(undone, "change"));
    for (number, what) in [
        (gone, "needed nothing"),
        (changed, "left to those that changed it since"),
        (kept, "could not be, and stay in the journal"),
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

/// "1 change", "2 changes".
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Steps on standard output, and what is not as it was asked on standard error.
struct Shown {
    /// A reader that has gone does not keep a host half set.
    unread: Result<(), Failure>,
}

impl Default for Shown {
    fn default() -> Self {
        Self { unread: Ok(()) }
    }
}

impl Shown {
    fn say(&mut self, said: &Said) {
        if said.is_warning() {
            output::tell(&format!("warning: {said}"));
        } else if self.unread.is_ok() {
            self.unread = output::print(&format!("{said}\n"));
        }
    }
}
