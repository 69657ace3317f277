//! The command `weir`. It reads arguments and configuration files, calls the other crates, and
//! prints their results.
//!
//! [`main`] is the whole program. The functions of the command that other programs need are
//! exported as values: `crates/python` uses [`Comparison`], [`Planning`], [`drive()`], [`policy`]
//! and [`scenarios`].

#![forbid(unsafe_code)]

mod apply;
mod calibrate;
mod check;
mod compare;
mod ctl;
mod drive;
mod drives;
mod examples;
mod explain;
mod failure;
mod import;
mod init;
mod interrupt;
mod jobs;
mod judge;
mod leftovers;
mod lists;
mod manual;
mod modelled;
mod once;
mod output;
mod plan;
mod play;
mod policies;
mod progress;
mod record;
mod replay;
mod scenario;
mod serve;
mod top;
mod unkept;
mod whole;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;
use weir_manage::api::log;

pub use compare::Comparison;
pub use drives::find as drive;
pub use failure::Failure;
pub use interrupt::Interrupt;
pub use plan::Planning;
pub use policies::find as policy;
pub use scenario::all as scenarios;

/// Share one storage drive among many clients and keep the contract of each.
///
/// Each client gets at least the bandwidth that it was promised. The remaining capacity is divided
/// by weight, and no client exceeds its maximum.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
struct Arguments {
    /// The least severe messages to log on standard error [default: the value of `WEIR_LOG`, or
    /// else info for serve, and warn for other commands]
    #[arg(long, global = true, value_name = "LEVEL", value_enum)]
    log: Option<log::LogLevel>,
    #[command(subcommand)]
    command: WeirCommand,
}

#[derive(Debug, Subcommand)]
enum WeirCommand {
    /// Show the effect of Weir: one drive and sixteen clients, with and without contracts
    Demo(compare::demo::DemoOptions),
    /// Compare policies on modelled drives: the throughput and latency of each client, and the
    /// reasons
    Compare(compare::CompareOptions),
    /// Find the number of drives that clients need under each policy to get what they are promised
    Plan(plan::PlanOptions),
    /// Apply contracts to this host's kernel, through its own settings, and restore these settings
    /// on request
    Apply(apply::ApplyOptions),
    /// Serve volumes to clients until SIGTERM or SIGINT
    Serve(serve::ServeOptions),
    /// Report every error of a server's configuration, without starting the server
    Check(check::CheckOptions),
    /// Inspect and change a running server
    Ctl(ctl::CtlOptions),
    /// Watch a running server on a full-screen display: each volume's promise, its throughput, and
    /// where its requests wait
    Top(top::TopOptions),
    /// Explain the latency of a volume's requests
    Explain(explain::ExplainOptions),
    /// Measure the capacity of a drive, for contracts, for Linux's io.cost and for a profile
    Calibrate(calibrate::CalibrateOptions),
    /// Write a first configuration, with the results of `calibrate`
    Init(init::InitOptions),
    /// Translate the limits of libvirt's `<iotune>` and of QEMU's throttle groups to contracts
    Import(import::ImportOptions),
    /// Replay a recording of `serve --record`: verify every decision, or predict the effect of
    /// other contracts and policies
    Replay(replay::ReplayOptions),
    /// List the policies by which a drive can be shared, or print one
    Policies(policies::PoliciesOptions),
    /// List the modelled drives, show one, or fit one to published figures
    Drives(drives::DrivesOptions),
    /// List the scenarios for demo and compare, or print one as a starting point
    Scenarios(scenario::ScenariosOptions),
    /// Print the completion script of a shell for this command
    Completion(manual::CompletionOptions),
    /// Write manual pages, one for each command
    Man(manual::ManOptions),
    /// Play a plan of `compare` on a device of this kernel
    #[command(hide = true)]
    Play(play::PlayOptions),
}

/// Runs the command: parses the program's arguments, executes them, and returns the exit status.
pub fn main() -> ExitCode {
    let arguments = Arguments::from_arg_matches(&command().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    // The destructor writes the rest of the log, so it must live until the end, even if the command
    // panics.
    let _flushed = log::FlushGuard;
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Returns the definition of all commands, with examples in their help texts.
fn command() -> clap::Command {
    examples::add(Arguments::command())
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A server must end even if nobody reads its log, so at its end it waits for standard error
    // for a limited time. Other commands wait, because a user reads their messages.
    let (default, patience) = match arguments.command {
        WeirCommand::Serve(_) => (log::LogLevel::Info, log::PATIENCE),
        _ => (log::LogLevel::Warn, Duration::MAX),
    };
    log::start(arguments.log, default, patience).map_err(|error| match error {
        log::LogStartError::Level(_) => Failure::Usage(error.to_string()),
        log::LogStartError::Writer(_) => Failure::Run(error.to_string()),
    })?;
    match &arguments.command {
        WeirCommand::Demo(options) => compare::demo::run(options),
        WeirCommand::Compare(options) => compare::run(options),
        WeirCommand::Plan(options) => plan::run(options),
        WeirCommand::Apply(options) => apply::run(options),
        WeirCommand::Serve(options) => serve::run(options),
        WeirCommand::Check(options) => check::run(options),
        WeirCommand::Ctl(options) => ctl::run(options),
        WeirCommand::Top(options) => top::run(options),
        WeirCommand::Explain(options) => explain::run(options),
        WeirCommand::Calibrate(options) => calibrate::run(options),
        WeirCommand::Init(options) => init::run(options),
        WeirCommand::Import(options) => import::run(options),
        WeirCommand::Replay(options) => replay::run(options),
        WeirCommand::Policies(options) => policies::run(options),
        WeirCommand::Drives(options) => drives::run(options),
        WeirCommand::Scenarios(options) => scenario::run(options),
        WeirCommand::Completion(options) => manual::complete(options, command()),
        WeirCommand::Man(options) => manual::write(options, command()),
        WeirCommand::Play(options) => play::run(options),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::command().debug_assert();
    }
}
