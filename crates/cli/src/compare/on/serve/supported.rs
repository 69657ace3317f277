//! Which scenarios a real server with real clients can play.

use weir_config::scenario::{Path, Scenario};
use weir_core::{Flags, Priority, ROOT, Span};
use weir_sim::{Adapter, Merging};

/// The first thing of a scenario that a server and clients of this program do not support.
pub(in crate::compare) fn unsupported(scenario: &Scenario) -> Option<&'static str> {
    let clients = &scenario.clients;
    let each = |group| clients.iter().filter(|c| c.group == group).count() == 1;
    let shared = clients.iter().enumerate();
    let shared = shared.into_iter().any(|(n, c)| c.space.0 as usize != n);
    let rules = [
        (
            clients.iter().any(|c| c.buffered.is_some()),
            "its clients use the page cache",
        ),
        (shared, "its clients share a file"),
        (
            !clients.iter().all(|c| c.group == ROOT || each(c.group)),
            "its clients share a group",
        ),
        (
            clients.iter().any(|c| c.group == ROOT),
            "its clients are in the root group",
        ),
        (
            clients.iter().any(|c| c.priority != Priority::default()),
            "its clients have I/O priorities",
        ),
        (
            clients.iter().any(|c| c.flags != Flags::NONE),
            "its requests have flags",
        ),
        (
            clients
                .iter()
                .any(|c| c.leaves.is_some() || c.arrives > Span::ZERO),
            "its clients connect or disconnect during the run",
        ),
        (scenario.awaits.is_some(), "it has await"),
        (scenario.exits.is_some(), "it has exitall"),
        (
            clients.iter().any(|c| c.deadline.is_some()),
            "its clients have deadlines",
        ),
        (
            scenario.adapter != Adapter::default(),
            "its host has an adapter or nr_requests",
        ),
        (
            scenario.merging != Merging::default(),
            "its host merges requests",
        ),
        (scenario.path != Path::DIRECT, "it has a modelled path"),
        (scenario.freeze.is_some(), "its drive freezes"),
        (!scenario.changes.is_empty(), "its contracts change"),
        (
            scenario.guest.is_some(),
            "its clients are in virtual machines",
        ),
        (
            scenario.groups.len() != clients.len(),
            "it has nested groups",
        ),
    ];
    rules.into_iter().find(|r| r.0).map(|r| r.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::scenario::{Choice, Script, find, read};
    use weir_model::drive::{Config, null};

    fn why(script: &Script) -> Option<&'static str> {
        let drive = Config::Null(null::Config::demo());
        unsupported(&script.scenario(&Choice::new(&drive, None, "")).unwrap())
    }

    #[test]
    fn what_a_real_server_is_not_played_with_is_refused_with_a_reason() {
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
