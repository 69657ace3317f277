//! Help for keys that are in the wrong table or file.

use crate::key::{self, Shape};
use crate::nearest::name;
use crate::{parameter, tunable};

/// Returns the help for an unknown key of a table with these keys: the most similar key, the right
/// table for the key, or all keys. `called` names the kind of table, and `family` has all shapes of
/// the file.
pub(crate) fn help(word: &str, called: &str, keys: &[&str], family: &[&Shape]) -> String {
    if let Some(near) = name(word, keys.iter().copied()) {
        return format!("did you mean \"{near}\"?");
    }
    let linux = LINUX.iter().find(|l| l.0 == word).map_or(word, |l| l.1);
    if keys.contains(&linux) {
        return format!("did you mean \"{linux}\"?");
    }
    let others = family.iter().map(|s| (s.name, s.names()));
    let models = parameter::KINDS.iter().map(|k| (k.called, k.keys()));
    let tunables =
        tunable::tables().map(|(kind, all)| (tunable::called(kind), tunable::names(all)));
    let tunables: Vec<_> = tunables.collect();
    let tunables = tunables
        .iter()
        .map(|(called, keys)| (called.as_str(), keys.clone()));
    let others: Vec<_> = others.chain(tunables).chain(models).collect();
    // The same name in another table is more likely than a misspelt one.
    if let Some((other, _)) = others.iter().find(|o| o.1.contains(&linux)) {
        return format!("move \"{linux}\" to {other}");
    }
    if let Some(help) = other_file(word, family) {
        return help.to_owned();
    }
    let elsewhere = others
        .iter()
        .find_map(|(other, keys)| Some((other, name(word, keys.iter().copied())?)));
    match elsewhere {
        Some((other, near)) => format!("did you mean \"{near}\"? It belongs in {other}"),
        None => format!("use one of the keys of {called}: {}", keys.join(", ")),
    }
}

/// Returns the help for a table that belongs in another kind of file.
fn other_file(word: &str, family: &[&Shape]) -> Option<&'static str> {
    let is_outermost = |shape: &Shape| family.first().is_some_and(|s| s.name == shape.name);
    let (server, scenario) = (key::SERVERS[0], key::SCENARIOS[0]);
    let is_cgroup = ["cgroup", "unit", "prio_class"].contains(&word);
    if is_outermost(server) && is_cgroup {
        return Some("remove it; it belongs in a file of `weir apply`");
    }
    if is_outermost(key::APPLIES[0]) && server.names().contains(&word) {
        return Some(
            "remove it; it belongs in a server's file, which `weir serve` and `weir check` read",
        );
    }
    if is_outermost(scenario) && server.names().contains(&word) {
        return Some(
            "remove it; it belongs in a server's file, which `weir serve` and `weir check` read",
        );
    }
    if is_outermost(server) && scenario.names().contains(&word) {
        return Some("remove it; it belongs in a scenario, which `weir compare` reads");
    }
    None
}

/// The names that Linux has for some keys.
const LINUX: &[(&str, &str)] = &[
    ("weight", "share"),
    ("limit", "max"),
    ("blocksize", "bs"),
    ("prio", "class"),
    ("priority", "class"),
    ("bps", "bandwidth"),
    ("rbps", "read_bandwidth"),
    ("wbps", "write_bandwidth"),
    ("riops", "read_iops"),
    ("wiops", "write_iops"),
    ("size_iops_sec", "iops_size"),
    ("scheduler", "policy"),
    ("elevator", "policy"),
    ("nr_hw_queues", "queues"),
    ("queue_depth", "tags"),
    ("max_sectors_kb", "max_transfer"),
    ("nr_requests", "scheduler_tags"),
];
