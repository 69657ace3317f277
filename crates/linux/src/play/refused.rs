//! The features of a scenario that fio or the kernel cannot play.

use crate::play::jobs::played;
use std::fmt;
use weir_config::scenario::{Path, Scenario};
use weir_core::{Flags, Span};
use weir_model::load::{Arrival, Size, SyncMode};
use weir_sim::ClientSpec;

/// The reason why a scenario cannot be played under a real kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct PlayRefusal {
    /// The client, or `None` if the reason concerns the scenario as a whole.
    pub client: Option<String>,
    /// The key in the scenario's file.
    pub key: &'static str,
    /// The reason, and the remedy.
    pub why: &'static str,
}

impl fmt::Display for PlayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(client) = &self.client {
            write!(f, "client {client}: ")?;
        }
        write!(f, "{}: {}", self.key, self.why)
    }
}

/// A rule: if the condition is true, the scenario is refused. The text has the key, a colon and the
/// reason.
type RefusalRule = (bool, &'static str);

/// Returns the first feature of the scenario that cannot be played, as an error.
pub(crate) fn check(scenario: &Scenario) -> Result<(), PlayRefusal> {
    let first = |rules: &[RefusalRule], client: Option<&str>| {
        let (_, refused) = rules.iter().find(|rule| rule.0)?;
        let (key, why) = refused.split_once(": ").unwrap_or_default();
        let client = client.map(str::to_owned);
        Some(PlayRefusal { client, key, why })
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

/// The rules for the scenario as a whole.
fn of_scenario(scenario: &Scenario) -> [RefusalRule; 7] {
    [
        (
            scenario.guest.is_some(),
            "guest: virtual machines and their rings are supported only in the simulator; use --on sim",
        ),
        (
            scenario.path != Path::DIRECT,
            "path: a modelled path to the drive is not supported under a kernel; remove it",
        ),
        (
            scenario.filesystem.is_some(),
            "filesystem: a file system is not supported, because the device is used directly; remove it",
        ),
        (
            scenario.freeze.is_some(),
            "freeze: freezes of the drive are supported only in the simulator; remove them",
        ),
        (
            scenario.spread.is_some(),
            "spread: scattered files are supported only in the simulator; remove spread",
        ),
        (
            !scenario.changes.is_empty(),
            "change: contracts cannot change while fio is running; remove the changes",
        ),
        (
            !scenario.actions.is_empty(),
            "action: clients that stop reading replies or cancel requests are not supported by fio",
        ),
    ]
}

/// The rules for the requests of a client.
fn of_client(client: &ClientSpec) -> [RefusalRule; 8] {
    let program = &played(client);
    let deep = program.depth > 1;
    let syncs = program.sync != SyncMode::Never;
    // fio's bsrange has steps of its minimum.
    let uneven = matches!(program.size, Size::Range { min, step, .. } if min != step);
    [
        (
            client.trace.is_some(),
            "read_iolog: a recorded load is not supported under a kernel, where fio would play it at other offsets; use --on sim or --on serve",
        ),
        (
            program.files > 1,
            "nrfiles: several files are not supported on a device; use a client for each part of it",
        ),
        (
            client.flags != Flags::NONE,
            "flags: flags of requests are not supported, because only a file system can set them",
        ),
        (
            client.empty_kicks > 0,
            "empty_kicks: virtual machines are supported only in the simulator",
        ),
        (
            syncs && deep,
            "iodepth: fio's fsync does not wait for requests in flight; set iodepth = 1 together with fdatasync or flush",
        ),
        (
            client.buffered.is_some() && deep,
            "iodepth: a system call through the page cache returns when it is complete; set iodepth = 1 or direct = true",
        ),
        (
            uneven,
            "bs: fio uses sizes in steps of the smallest; use a range whose minimum is its step",
        ),
        (
            syncs && program.requests.is_some() && program.writes < 100,
            "number_ios: the number of flushes among the requests is unknown beforehand; remove fdatasync or flush",
        ),
    ]
}

/// The rules for the times at which a client sends.
fn of_times(client: &ClientSpec) -> [RefusalRule; 5] {
    let program = &played(client);
    let (thinks, batches, open) = match program.arrival {
        Arrival::Closed { think } => (think > Span::ZERO, None, false),
        Arrival::Batches { low } => (false, Some(low), false),
        Arrival::Even { .. } | Arrival::Poisson { .. } | Arrival::Apart { .. } => {
            (false, None, true)
        }
    };
    let varies = !matches!(program.size, Size::Fixed(_));
    // `Apart` has a rate for each direction, as fio does.
    let apart = matches!(program.arrival, Arrival::Apart { .. });
    let mixed = !apart && !matches!(program.writes, 0 | 100);
    [
        (
            thinks && program.depth > 1,
            "thinktime: with iodepth above 1, fio would pause the whole job, but Weir would pause each request on its own; set iodepth = 1",
        ),
        (
            thinks && program.activity.is_some(),
            "thinktime: fio has only one kind of pause; use either thinktime or on and off",
        ),
        (
            batches == Some(0),
            "iodepth_low: fio treats 0 as iodepth; set 1 or more",
        ),
        (
            open && varies,
            "rate: fio counts a rate in bytes if sizes vary; use one size",
        ),
        (
            open && mixed,
            "rate: fio has separate rates for reads and writes; use two clients",
        ),
    ]
}
