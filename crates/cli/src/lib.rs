//! The command `weir`: knows the places, runs the plan. What of it can be had as values stands here for other programs (`crates/python`).

#![forbid(unsafe_code)]

mod apply;
mod calibrate;
mod check;
mod compare;
mod csi;
mod ctl;
mod demo;
mod drive;
mod drives;
mod examples;
mod explain;
mod failure;
mod init;
mod interrupt;
mod jobs;
mod judge;
mod leftovers;
mod lists;
mod log;
mod manual;
mod modelled;
mod output;
mod plan;
mod play;
mod policies;
mod progress;
mod record;
mod replay;
mod scenario;
mod serve;
mod socket;
mod standings;
mod top;
mod unkept;
mod whole;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;

pub use compare::Comparison;
pub use drives::find as drive;
pub use failure::Failure;
pub use interrupt::Interrupt;
pub use plan::Planning;
pub use policies::find as policy;
pub use scenario::all as scenarios;

/// Shares one storage drive among many clients and keeps each its contract.
///
/// Each client gets the bandwidth it was promised, what is left is shared by weight, and nobody gets more than its maximum.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
struct Arguments {
    /// What is logged on standard error [default: what `WEIR_LOG` says, else info for serve and warn for the others]
    #[arg(long, global = true, value_name = "LEVEL", value_enum)]
    log: Option<log::Level>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what Weir does: one drive, sixteen clients, before and after
    Demo(demo::Options),
    /// Compare policies on drives, in virtual time: which client waits for which, for how long, and why
    Compare(compare::Options),
    /// Say how many drives clients need under each policy, so that what they are promised is kept
    Plan(plan::Options),
    /// Set the kernel of this host for contracts, by its own knobs, and put everything back when asked to
    Apply(apply::Options),
    /// Serve volumes to clients until SIGTERM or SIGINT
    Serve(serve::Options),
    /// Say everything that `serve` would refuse, without starting it
    Check(check::Options),
    /// Ask and change a running server
    Ctl(ctl::Options),
    /// Show a running server on the whole terminal: what each volume was promised and got, and where its requests wait
    Top(top::Options),
    /// Make volumes for Kubernetes: a driver of the Container Storage Interface beside the node's server
    Csi(csi::Options),
    /// Say why a volume's requests take as long as they do
    Explain(explain::Options),
    /// Measure what a drive does: its capacity, for contracts, for Linux's io.cost and for a profile
    Calibrate(calibrate::Options),
    /// Write a configuration to begin from, with what `calibrate` found
    Init(init::Options),
    /// Replay what `serve --record` wrote: compare every decision, or see what would have come of others
    Replay(replay::Options),
    /// List the ways of sharing a drive, or print one
    Policies(policies::Options),
    /// List the modelled drives, show one, or fit one to what was published of it
    Drives(drives::Options),
    /// List what the demo and comparisons can play, or print one to begin from
    Scenarios(scenario::Options),
    /// Print what a shell reads to complete the words of this command
    Completion(manual::Completion),
    /// Write manual pages, one for each command
    Man(manual::Man),
    /// Play a plan of `compare` on a device of this kernel
    #[command(hide = true)]
    Play(play::Options),
}

/// The command: reads the program's arguments, does what they say, and gives the status to end with.
pub fn main() -> ExitCode {
    let arguments = Arguments::from_arg_matches(&command().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    // Even when the command panics.
    let _flushed = log::Flushed;
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// All commands, with examples.
fn command() -> clap::Command {
    examples::add(Arguments::command())
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    // What serves ends whether its log is read or not; what a user waits for is read.
    let (default, patience) = match arguments.command {
        Command::Serve(_) | Command::Csi(_) => (log::Level::Info, log::PATIENCE),
        _ => (log::Level::Warn, Duration::MAX),
    };
    log::start(arguments.log, default, patience)?;
    match &arguments.command {
        Command::Demo(options) => demo::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Plan(options) => plan::run(options),
        Command::Apply(options) => apply::run(options),
        Command::Serve(options) => serve::run(options),
        Command::Check(options) => check::run(options),
        Command::Ctl(options) => ctl::run(options),
        Command::Top(options) => top::run(options),
        Command::Csi(options) => csi::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Calibrate(options) => calibrate::run(options),
        Command::Init(options) => init::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Policies(options) => policies::run(options),
        Command::Drives(options) => drives::run(options),
        Command::Scenarios(options) => scenario::run(options),
        Command::Completion(options) => manual::complete(options, command()),
        Command::Man(options) => manual::write(options, command()),
        Command::Play(options) => play::run(options),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::command().debug_assert();
    }
}
