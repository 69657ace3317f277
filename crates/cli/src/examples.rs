//! The examples at the end of the commands' help texts.

use clap::Command;

/// The commands that are not hidden, each with the lines of its examples. A command is identified
/// by the words after `weir`.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["weir demo", "weir serve weir.toml"]),
    (
        "demo",
        &[
            "weir demo",
            "weir demo --on sim --policy bfq --policy contract",
        ],
    ),
    (
        "compare",
        &[
            "weir compare latency --drive samsung-970-pro --policy bfq --policy contract",
            "weir compare job.fio --html report.html",
        ],
    ),
    ("plan", &["weir plan services --drive samsung-970-pro"]),
    (
        "apply",
        &[
            "weir apply contracts.toml --dry-run",
            "weir apply --restore",
        ],
    ),
    (
        "serve",
        &[
            "weir serve weir.toml",
            "weir serve disk.img --listen 127.0.0.1:10809",
        ],
    ),
    (
        "check",
        &["weir check weir.toml", "weir check weir.toml --reload"],
    ),
    (
        "ctl",
        &["weir ctl status", "weir ctl set alpha min=20MB/s --dry-run"],
    ),
    ("ctl status", &["weir ctl status"]),
    ("ctl list", &["weir ctl list", "weir ctl list --json"]),
    (
        "ctl show",
        &["weir ctl show alpha", "weir ctl show tenant.acme"],
    ),
    (
        "ctl set",
        &[
            "weir ctl set alpha min=20MB/s max.iops=500",
            "weir ctl set tenant.acme min= --dry-run",
        ],
    ),
    (
        "ctl add",
        &["weir ctl add beta drive=fast file=/var/lib/weir/beta.img size=1GiB min=5MB/s"],
    ),
    ("ctl grow", &["weir ctl grow alpha 20GiB"]),
    ("ctl remove", &["weir ctl remove alpha --dry-run"]),
    ("ctl undo", &["weir ctl undo", "weir ctl undo 17 --dry-run"]),
    ("ctl reload", &["weir ctl reload --dry-run"]),
    ("ctl upgrade", &["weir ctl upgrade"]),
    ("ctl changes", &["weir ctl changes"]),
    (
        "ctl events",
        &["weir ctl events", "weir ctl events --seconds --json"],
    ),
    ("top", &["weir top", "weir top --once"]),
    (
        "explain",
        &[
            "weir explain alpha",
            "weir explain alpha --record weir.record --config weir.toml --since 5m",
        ],
    ),
    (
        "calibrate",
        &[
            "weir calibrate /dev/nvme0n1",
            "weir calibrate measure.img --write --size 64GiB",
        ],
    ),
    (
        "init",
        &["weir init weir.toml --calibrated weir-calibration.json --volume alpha=10GiB"],
    ),
    (
        "import",
        &[
            "weir import domain.xml --drive fast",
            "weir import domain.xml --exact",
        ],
    ),
    (
        "replay",
        &[
            "weir replay weir.record",
            "weir replay weir.record --config weir.toml --set alpha.min=20MB/s",
        ],
    ),
    ("policies", &["weir policies", "weir policies contract"]),
    ("drives", &["weir drives", "weir drives samsung-970-pro"]),
    ("drives fit", &["weir drives fit samsung-970-pro"]),
    ("drives validation", &["weir drives validation"]),
    ("drives figures", &["weir drives figures"]),
    (
        "scenarios",
        &["weir scenarios contract", "weir scenarios --from job.fio"],
    ),
    (
        "completion",
        &["weir completion bash > ~/.local/share/bash-completion/completions/weir"],
    ),
    ("man", &["weir man ~/.local/share/man/man1"]),
];

/// Adds the examples to the help text of a command and of all its subcommands.
pub(crate) fn add(command: Command) -> Command {
    add_below(command, "")
}

/// Adds the examples of the command with the words `path`, and those of its subcommands.
fn add_below(command: Command, path: &str) -> Command {
    let found = EXAMPLES.iter().find(|(of, _)| *of == path);
    let command = match found {
        Some((_, [one])) => command.after_help(format!("Example:\n  {one}")),
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        add_below(below, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    fn paths(command: &Command, path: &str, into: &mut Vec<String>) {
        into.push(path.to_owned());
        let below = command.get_subcommands();
        for below in below.filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            let path = format!("{path} {}", below.get_name());
            paths(below, path.trim_start(), into);
        }
    }

    #[test]
    fn every_help_ends_with_examples_and_each_is_a_command() {
        let mut all = Vec::new();
        paths(&command(), "", &mut all);
        let with: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        for path in &with {
            assert!(all.iter().any(|p| p == path), "there is no `weir {path}`");
        }
        for path in &all {
            assert!(
                with.contains(&path.as_str()),
                "`weir {path}` has no example"
            );
        }
        for (path, lines) in EXAMPLES {
            for line in *lines {
                // The redirection of output is the shell's, and not an argument.
                let words = line.split(" > ").next().unwrap_or_default();
                assert!(
                    words.starts_with(format!("weir {path}").trim_end()),
                    "{line}"
                );
                let read = command().try_get_matches_from(words.split(' '));
                assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
            }
        }
    }
}
