//! What of a scenario neither fio nor the kernel can play.

use std::fmt;
use weir_config::scenario::{Path, Scenario};
use weir_core::{Flags, Span};
use weir_load::{Arrival, Size, SyncMode};
use weir_sim::ClientSpec;

/// Why a scenario is not played under a real kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Refused {
    /// The client; `None`: the scenario as a whole.
    pub client: Option<String>,
    /// The key of the scenario's file.
    pub key: &'static str,
    /// Why, and what to do.
    pub why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(client) = &self.client {
            write!(f, "client {client}: ")?;
        }
        write!(f, "{}: {}", self.key, self.why)
    }
}

/// A rule: what is refused if this holds, by key and reason.
type Rule = (bool, &'static str, &'static str);

/// The first thing of the scenario that cannot be played.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Refused> {
    let first = |rules: &[Rule], client: Option<&str>| {
        let found = rules.iter().find(|rule| rule.0);
        found.map(|&(_, key, why)| Refused {
            client: client.map(str::to_owned),
            key,
            why,
        })
    };
    if let Some(refused) = first(&of_scenario(scenario), None) {
        return Err(refused);
    }
    for client in &scenario.clients {
        let rules = of_client(client);
        let times = of_times(client);
        let refused = first(&rules, Some(&client.name));
        if let Some(refused) = refused.or_else(|| first(&times, Some(&client.name))) {
            return Err(refused);
        }
    }
    Ok(())
}

fn of_scenario(scenario: &Scenario) -> [Rule; 6] {
    [
        (
            scenario.guest.is_some(),
            "guest",
            "virtual machines and their rings are modelled only; play it with --on sim",
        ),
        (
            scenario.path != Path::DIRECT,
            "path",
            "under a kernel the path to the drive is the kernel's own; leave it out",
        ),
        (
            scenario.filesystem.is_some(),
            "filesystem",
            "the device is used as it is, without a file system; leave it out",
        ),
        (
            scenario.freeze.is_some(),
            "freeze",
            "a drive that stands still is modelled only; leave it out",
        ),
        (
            !scenario.changes.is_empty(),
            "change",
            "contracts stay as they are while fio runs; leave it out",
        ),
        (
            !scenario.actions.is_empty(),
            "action",
            "clients of fio are not held and do not give requests up",
        ),
    ]
}

fn of_client(client: &ClientSpec) -> [Rule; 8] {
    let program = &client.program;
    let deep = program.depth > 1;
    let syncs = program.sync != SyncMode::Never;
    let uneven = matches!(program.size, Size::Range { min, step, .. } if min != step);
    [
        (
            program.files > 1,
            "nrfiles",
            "a device is one file; write a client for each part of it",
        ),
        (
            client.write_back,
            "writeback",
            "the kernel writes back by itself what goes through its page cache; write direct = true without it, or fdatasync",
        ),
        (
            client.flags != Flags::NONE,
            "flags",
            "a process cannot mark its requests as a file system does",
        ),
        (
            client.empty_kicks > 0,
            "empty_kicks",
            "virtual machines are modelled only",
        ),
        (
            syncs && deep,
            "iodepth",
            "fio's fsync does not wait for what is in flight; write iodepth = 1 beside fdatasync or flush",
        ),
        (
            client.buffered.is_some() && deep,
            "iodepth",
            "a call through the page cache returns when it is done; write iodepth = 1 or direct = true",
        ),
        (
            uneven,
            "bs",
            "fio draws sizes in steps of the smallest; write one whose steps that is",
        ),
        (
            syncs && program.requests.is_some() && program.writes < 100,
            "number_ios",
            "how many of the requests are flushes is not known beforehand; leave out fdatasync or flush",
        ),
    ]
}

fn of_times(client: &ClientSpec) -> [Rule; 5] {
    let program = &client.program;
    let (thinks, batches, open) = match program.arrival {
        Arrival::Closed { think } => (think > Span::ZERO, None, false),
        Arrival::Batches { low } => (false, Some(low), false),
        Arrival::Even { .. } | Arrival::Poisson { .. } | Arrival::Apart { .. } => {
            (false, None, true)
        }
    };
    let varies = !matches!(program.size, Size::Fixed(_));
    let apart = matches!(program.arrival, Arrival::Apart { .. });
    let mixed = !apart && !matches!(program.writes, 0 | 100);
    [
        (
            thinks && program.depth > 1,
            "thinktime",
            "with iodepth above 1 a job of fio thinks as a whole, and here each place by itself; write iodepth = 1",
        ),
        (
            thinks && program.activity.is_some(),
            "thinktime",
            "fio has one pause for thinktime and for on and off; leave one of them out",
        ),
        (
            batches == Some(0),
            "iodepth_low",
            "fio takes 0 for iodepth; write 1 or more",
        ),
        (
            open && varies,
            "rate",
            "fio counts a rate in bytes where sizes vary; write one size",
        ),
        (
            open && mixed,
            "rate",
            "fio has a rate for reads and another for writes; write two clients",
        ),
    ]
}
