//! `weir policies` lists and prints policies. The other functions find the policies that the
//! command line names.

use crate::check;
use crate::failure::Failure;
use crate::lists;
use crate::once;
use crate::output;
use clap::Args;
use serde_json::json;
use std::path::Path;
use weir_config::Policy;
use weir_config::policy::{self, PolicyError};
use weir_config::scenario::Script;
use weir_config::units::Time;
use weir_core::elevator::Config as Elevator;
use weir_core::elevator::contract::CONSTANTS;
use weir_lab::report::{Column, ReportTable};

/// The arguments of `weir policies`.
#[derive(Debug, Args)]
pub(crate) struct PoliciesOptions {
    /// The policy to print as a file, which you can copy and change: a name, a combination such as
    /// "bfq + io.latency", or a file [default: list the policies that come with Weir]
    policy: Option<String>,
    /// Print the constants of the elevator `contract` instead, each with its unit, its reason and
    /// the effect of other values
    #[arg(long, requires = "policy")]
    constants: bool,
    /// Print the constants as JSON
    #[arg(long, requires = "constants")]
    json: bool,
}

pub(crate) fn run(options: &PoliciesOptions) -> Result<(), Failure> {
    match &options.policy {
        Some(word) if options.constants => print_constants(&find(word)?, options.json),
        Some(word) => output::print(&policy::print(&find(word)?)),
        None => lists::list(policy::all().iter().map(|p| (p.name.as_str(), p.summary()))),
    }
}

/// Prints the constants of a policy's elevator, as a table or as JSON.
fn print_constants(policy: &Policy, json: bool) -> Result<(), Failure> {
    if !matches!(policy.elevator, Elevator::Contract(_)) {
        let reason =
            "--constants: only policies with the elevator contract have a table of constants";
        return Err(Failure::Usage(reason.into()));
    }
    if json {
        let all = CONSTANTS.iter().map(|c| {
            json!({ "area": c.area, "name": c.name, "value": c.value, "unit": c.unit, "reason": c.reason, "loss": c.loss })
        });
        let text = serde_json::to_string_pretty(&all.collect::<Vec<_>>()).map_err(Failure::run)?;
        return output::print(&format!("{text}\n"));
    }
    let mut table = ReportTable::new([
        Column::text("area").dropped(3),
        Column::text("constant"),
        Column::number("value"),
        Column::text("unit"),
        Column::text("reason").dropped(1),
        Column::text("effect of another value").dropped(2),
    ]);
    for c in CONSTANTS {
        let (value, unit) = match c.unit {
            // Times are shown in their largest unit, such as 10 ms.
            "ns" => (Time::from_nanos(c.value).to_string(), ""),
            unit => (c.value.to_string(), unit),
        };
        table.row([c.area, c.name, &value, unit, c.reason, c.loss]);
    }
    let note = "The effects are those of a quarter of the value and of four times the value in 500 runs: more or fewer runs in which a promise \
                was missed (P), a realtime client was slow (R), a latency was high (L), shares were not met (S), the idle class waited (I), or \
                the throughput was below that of none (T) or bfq (B). docs/ablation.md explains the runs.";
    output::print(
        &(table.text(output::width()) + "\n" + &weir_lab::report::wrap(note, output::width())),
    )
}

/// Returns the policy with a name, a combination of names, or a file.
///
/// # Errors
/// The name is unknown, in which case the error has the most similar name, or the file has
/// problems.
pub fn find(word: &str) -> Result<Policy, Failure> {
    policy::choose(word, Path::new("")).map_err(|refused| match refused {
        PolicyError::Word(unknown) => Failure::Usage(unknown.to_string()),
        PolicyError::File(problems) => check::refuse(&problems),
    })
}

/// Returns the policies with these names, without repetitions.
///
/// # Errors
/// Returns the errors of [`find`]. Two different policies with the same name are an error as well.
pub(crate) fn all(words: &[String]) -> Result<Vec<Policy>, Failure> {
    unique(once::find_all(words, find)?)
}

/// Returns the chosen policies without repetitions, or those of the scenario if none is chosen.
///
/// # Errors
/// Two different policies have the same name.
pub(crate) fn chosen(policies: &[Policy], script: &Script) -> Result<Vec<Policy>, Failure> {
    match policies {
        [] => all(script.policies()),
        some => unique(some.to_vec()),
    }
}

fn unique(policies: Vec<Policy>) -> Result<Vec<Policy>, Failure> {
    once::without_repetitions(policies, "--policy: two policies", |p| &p.name, Policy::eq)
}

/// Returns true for the policy `none`, with which the others are compared.
pub(crate) fn is_none(policy: &Policy) -> bool {
    policy.name == "none"
}
