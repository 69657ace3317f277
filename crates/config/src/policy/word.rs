//! Selection of a policy by a word: `"bfq"`, `"bfq + io.latency"`, `"my.toml"`.

use super::{ContractMapping, Policy, PolicyController, load, named, names};
use crate::nearest;
use crate::problem::Problem;
use crate::text::quoted;
use std::fmt;
use std::path::Path;
use weir_core::control::cost::Config as CostConfig;
use weir_core::control::low::Config as LowConfig;
use weir_core::control::slices::Config as SlicesConfig;
use weir_core::elevator;

/// The error for a word that selects no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}; {help}")]
pub struct UnknownPolicy {
    /// The problem with the word.
    pub what: String,
    /// The advice on valid words.
    pub help: String,
}

/// The reason why a policy cannot be selected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyError {
    /// The word is not known, or names no elevator or several.
    Word(UnknownPolicy),
    /// The problems of the policy's file.
    File(Vec<Problem>),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(unknown) => unknown.fmt(f),
            Self::File(problems) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

/// Returns true if a word names a file instead of a policy that comes with Weir: it contains a
/// slash or ends in `.toml`.
pub fn is_file(word: &str) -> bool {
    word.contains('/') || Path::new(word).extension().is_some_and(|e| e == "toml")
}

/// Returns the policy that a word selects. If the word names a file by a relative path, the path is
/// relative to `folder`.
///
/// # Errors
/// The word selects no policy, or the file has problems.
pub fn choose(word: &str, folder: &Path) -> Result<Policy, PolicyError> {
    if is_file(word) {
        return load(&folder.join(word)).map_err(PolicyError::File);
    }
    find(word).map_err(PolicyError::Word)
}

/// Returns the policy of a name, or composes one from a name and controllers.
///
/// Each added controller keeps its part of contracts. `io.max` replaces `max`, and `io.low` has the
/// tunables of the policy `io.low`.
///
/// # Errors
/// A part of the word is not known, or the word names no elevator or several.
pub fn find(word: &str) -> Result<Policy, UnknownPolicy> {
    let parts: Vec<&str> = word.split('+').map(str::trim).collect();
    if let Some(part) = parts.iter().find(|part| !known().any(|k| k == **part)) {
        return Err(unknown(part));
    }
    let mut policies = parts.iter().filter(|p| base(p).is_some());
    let bases: Vec<&&str> = policies
        .by_ref()
        .filter(|p| controller(p).is_none())
        .collect();
    // A name such as `io.latency` is both a policy and a controller. It is the base only if no
    // other part is.
    let elevators = bases.len();
    let composed = parts
        .iter()
        .find(|p| controller(p).is_some() && base(p).is_some());
    let first = match (elevators, composed) {
        (0, Some(policy)) => Some(policy),
        (1, _) => bases.first().copied(),
        _ => {
            let named = match elevators {
                0 => "no elevator".to_owned(),
                2 => "two elevators".to_owned(),
                many => format!("{many} elevators"),
            };
            let what = format!("{} names {named}; a policy has exactly one", quoted(word));
            return Err(UnknownPolicy {
                what,
                help: there_are(),
            });
        }
    };
    let Some(mut policy) = first.and_then(|first| base(first)) else {
        return Err(unknown(word));
    };
    for controller in parts.iter().filter_map(|part| controller(part)) {
        if !policy.controllers.contains(&controller) {
            let others =
                |c: &PolicyController| controller.replaced_controllers().all(|other| *c != other);
            policy.controllers.retain(others);
            policy.controllers.push(controller);
            policy.mapping.add_controller(controller);
            if let (PolicyController::Low, Some(own)) = (controller, named(controller.name())) {
                policy.low = own.low;
            }
            policy.name = format!("{} + {}", policy.name, controller.name());
        }
    }
    // Requests pass controllers in a fixed order, however the word lists them.
    policy.controllers.sort_unstable();
    policy.word.clone_from(&policy.name);
    Ok(policy)
}

/// Returns the policy of this name. If there is only an elevator of this name, returns a policy
/// with the controller `max` in front of it.
fn base(name: &str) -> Option<Policy> {
    named(name).or_else(|| {
        let kind = elevator::find(name)?;
        let controllers = vec![PolicyController::Max];
        Some(Policy {
            name: name.to_owned(),
            about: kind.about.to_owned(),
            word: name.to_owned(),
            elevator: (kind.default)(),
            mapping: ContractMapping::all(kind, &controllers),
            controllers,
            slices: SlicesConfig::default(),
            low: LowConfig::default(),
            cost: CostConfig::default(),
            budget: None,
        })
    })
}

fn controller(name: &str) -> Option<PolicyController> {
    PolicyController::ALL.into_iter().find(|c| c.name() == name)
}

/// Iterates over all valid parts of a word.
fn known() -> impl Iterator<Item = &'static str> {
    names()
        .chain(elevator::KINDS.iter().map(|kind| kind.name))
        .chain(PolicyController::ALL.map(PolicyController::name))
}

fn there_are() -> String {
    let names: Vec<String> = names().map(quoted).collect();
    let controllers: Vec<&str> = PolicyController::ALL.map(PolicyController::name).to_vec();
    format!(
        "use one of {}. You can append controllers, as in \"bfq + io.latency\": {}",
        names.join(", "),
        controllers.join(", ")
    )
}

fn unknown(part: &str) -> UnknownPolicy {
    let help = match nearest::name(part, known()) {
        Some(near) => format!("did you mean \"{near}\"? Otherwise {}", there_are()),
        None => there_are(),
    };
    UnknownPolicy {
        what: format!("unknown policy {}", quoted(part)),
        help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::LatencyEffect;

    #[test]
    fn adding_a_controller_again_changes_nothing() {
        for name in names() {
            let policy = find(name).unwrap();
            assert_eq!((policy.name.as_str(), policy.word()), (name, name));
            // Adding a controller that the policy already has changes nothing.
            let has = policy.controllers[0].name();
            assert_eq!(find(&format!("{name} + {has}")), Ok(policy.clone()));
            assert_eq!(find(&format!("{has}+ {name}")), Ok(policy));
        }
    }

    #[test]
    fn a_controller_serves_its_part_of_contracts() {
        let both = find("bfq + io.latency").unwrap();
        assert_eq!(
            (both.name.as_str(), both.word()),
            ("bfq + io.latency", "bfq + io.latency")
        );
        assert_eq!(
            both.controllers,
            [PolicyController::Max, PolicyController::Latency]
        );
        assert_eq!(both.mapping.latency, LatencyEffect::Target);
        let bfq = find("bfq").unwrap();
        assert_eq!(both.elevator, bfq.elevator);
        assert_eq!(both.budget, bfq.budget);
        assert_eq!(find("io.latency + bfq"), Ok(both));
        // The policy `io.latency` is the elevator `none` with this controller.
        let same = find("none + io.latency").unwrap();
        let named = find("io.latency").unwrap();
        assert_eq!(
            (same.elevator, same.mapping),
            (named.elevator, named.mapping)
        );
    }
}
