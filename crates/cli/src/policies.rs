//! `weir policies`: the ways of sharing a drive; and the policy of a word on the command line.

use crate::check;
use crate::failure::Failure;
use crate::lists;
use crate::output;
use clap::Args;
use std::path::Path;
use weir_config::Policy;
use weir_config::policy::{self, Refused};

/// Which policy.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The policy to print as a file, which you can copy and change: a name, a combination such as "bfq + io.latency", or a file [default:
    /// list the policies that come with Weir]
    policy: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match &options.policy {
        Some(word) => output::print(&policy::print(&find(word)?)),
        None => lists::list(policy::all().iter().map(|p| (p.name.as_str(), p.summary()))),
    }
}

/// The policy of a word: a name, names composed, or a file.
///
/// # Errors
/// There is none of that name, with the nearest one; or everything that is wrong with the file.
pub fn find(word: &str) -> Result<Policy, Failure> {
    policy::choose(word, Path::new("")).map_err(|refused| match refused {
        Refused::Word(unknown) => Failure::Usage(unknown.to_string()),
        Refused::File(problems) => check::refuse(&problems),
    })
}

/// The policies of words, as [`unique`].
///
/// # Errors
/// As [`find`] and [`unique`].
pub(crate) fn all(words: &[String]) -> Result<Vec<Policy>, Failure> {
    let policies = words.iter().map(|word| find(word));
    unique(policies.collect::<Result<_, _>>()?)
}

/// These policies, each once, in the order in which they come first.
///
/// # Errors
/// Two different ones have one name.
pub(crate) fn unique(all: Vec<Policy>) -> Result<Vec<Policy>, Failure> {
    let mut policies: Vec<Policy> = Vec::new();
    for policy in all {
        match policies.iter().find(|p| p.name == policy.name) {
            None => policies.push(policy),
            Some(same) if *same == policy => {}
            Some(_) => {
                let reason = format!("--policy: two policies have the name {}", policy.name);
                return Err(Failure::Usage(reason));
            }
        }
    }
    Ok(policies)
}

/// True for the policy that the others are seen beside.
pub(crate) fn is_none(policy: &Policy) -> bool {
    policy.name == "none"
}
