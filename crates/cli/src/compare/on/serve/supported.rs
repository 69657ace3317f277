//! The check whether a real server with real clients can play a scenario.

use weir_config::scenario::{Path, Scenario};
use weir_core::{Flags, Priority, ROOT, Span};
use weir_sim::{Adapter, ClientSpec, MergeSettings};

/// Returns the first property of a scenario that the server or the clients of this program do not
/// support.
pub(in crate::compare) fn unsupported(scenario: &Scenario) -> Option<&'static str> {
    let clients = &scenario.clients;
    let any = |is: &dyn Fn(&ClientSpec) -> bool| clients.iter().any(is);
    let several = |group| clients.iter().filter(|c| c.group == group).count() != 1;
    let share_file = clients
        .iter()
        .enumerate()
        .any(|(n, c)| c.space.0 as usize != n);
    let share_group = any(&|c| c.group != ROOT && several(c.group));
    let root = any(&|c| c.group == ROOT);
    let priorities = any(&|c| c.priority != Priority::default());
    let come_or_go = any(&|c| c.leaves.is_some() || c.arrives > Span::ZERO);
    let adapter = scenario.adapter != Adapter::default();
    let merges = scenario.merging != MergeSettings::default();
    let nested = scenario.groups.len() != clients.len();
    let rules = [
        (
            any(&|c| c.buffered.is_some()),
            "its clients use the page cache",
        ),
        (share_file, "its clients share a file"),
        (share_group, "its clients share a group"),
        (root, "its clients are in the root group"),
        (priorities, "its clients have I/O priorities"),
        (any(&|c| c.flags != Flags::NONE), "its requests have flags"),
        (
            come_or_go,
            "its clients connect or disconnect during the run",
        ),
        (scenario.awaits.is_some(), "it has await"),
        (scenario.exits.is_some(), "it has exitall"),
        (any(&|c| c.deadline.is_some()), "its clients have deadlines"),
        (adapter, "its host has an adapter or nr_requests"),
        (merges, "its host merges requests"),
        (scenario.path != Path::DIRECT, "it has a modelled path"),
        (scenario.freeze.is_some(), "its drive freezes"),
        (scenario.spread.is_some(), "its files are scattered"),
        (!scenario.changes.is_empty(), "its contracts change"),
        (
            scenario.guest.is_some(),
            "its clients are in virtual machines",
        ),
        (nested, "it has nested groups"),
    ];
    rules.into_iter().find(|r| r.0).map(|r| r.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::scenario::{Choice, Script, find, read};
    use weir_model::drive::{DriveConfig, null};

    fn why(script: &Script) -> Option<&'static str> {
        let drive = DriveConfig::Null(null::NullConfig::demo());
        unsupported(&script.scenario(&Choice::new(&drive, None, "")).unwrap())
    }

    #[test]
    fn unsupported_scenarios_are_refused_with_a_reason() {
        for name in ["contract", "equal-readers", "shares", "max"] {
            assert_eq!(why(&find(name).unwrap()), None, "{name}");
        }
        let client = "[[client]]\nname = \"a\"\nsize = \"1MiB\"\n";
        let cases = [
            ("", "its clients use the page cache"),
            (
                "direct = true\nionice = \"idle\"",
                "its clients have I/O priorities",
            ),
            (
                "direct = true\nleaves = \"1s\"",
                "its clients connect or disconnect during the run",
            ),
            (
                "direct = true\nnumjobs = 2\nfile = \"b\"",
                "its clients share a file",
            ),
            (
                "direct = true\n[path]\nturn = \"1us\"",
                "it has a modelled path",
            ),
            (
                "direct = true\n[guest]\nring = \"virtio\"",
                "its clients are in virtual machines",
            ),
            (
                "direct = true\n[host]\nnomerges = 0",
                "its host merges requests",
            ),
        ];
        for (more, reason) in cases {
            let script = read(&format!("{client}{more}\n"), "x.toml").unwrap();
            assert_eq!(why(&script), Some(reason), "{more}");
        }
    }
}
