//! `weir policies`: the ways of sharing a drive; and the policy of a word on the command line.

use crate::check;
use crate::failure::Failure;
use crate::lists;
use crate::once;
use crate::output;
use clap::Args;
use std::path::Path;
use weir_config::Policy;
use weir_config::policy::{self, Refused};
use weir_config::scenario::Script;

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

/// The policies of words, each once.
///
/// # Errors
/// As [`find`]; or two different ones have one name.
pub(crate) fn all(words: &[String]) -> Result<Vec<Policy>, Failure> {
    unique(once::found(words, find)?)
}

/// These policies, each once; without any those that a scenario is about.
///
/// # Errors
/// Two different ones have one name.
pub(crate) fn chosen(policies: &[Policy], script: &Script) -> Result<Vec<Policy>, Failure> {
    match policies {
        [] => all(script.policies()),
        some => unique(some.to_vec()),
    }
}

fn unique(policies: Vec<Policy>) -> Result<Vec<Policy>, Failure> {
    once::each(policies, "--policy: two policies", |p| &p.name, Policy::eq)
}

/// True for the policy that the others are seen beside.
pub(crate) fn is_none(policy: &Policy) -> bool {
    policy.name == "none"
}
