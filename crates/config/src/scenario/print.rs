//! Printing of scenarios as files.

use super::distribution::DistributionText;
use super::{ClientSpec, Scenario};
use crate::field::{PrintedValue, print};
use crate::profile;
use crate::terms::{capacity_values, values};
use crate::text::Quoted;
use crate::units::{ByteSize as Bytes, BytesPerSecond, Time};
use std::fmt::{self, Formatter};
use weir_core::{GroupId, Knobs, ROOT, Span};
use weir_model::load::{Arrival, Pattern, Program, Size, SyncMode};

const SECOND: u64 = 1_000_000_000;

/// A scenario that is displayed as a file, which reads back as the same scenario with one
/// repetition.
///
/// The scenario must have neither a path nor guests. Each client must be in a group and have a file
/// of its own, either direct or with the default use of the page cache.
#[derive(Debug)]
pub struct ScenarioText<'a>(pub &'a Scenario);

impl fmt::Display for ScenarioText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let scenario = self.0;
        writeln!(f, "name = {}", Quoted(&scenario.name))?;
        writeln!(f, "duration = \"{}\"", Time(scenario.duration))?;
        writeln!(f, "run_in = \"{}\"", Time(scenario.run_in))?;
        writeln!(f, "warm_up = \"{}\"", Time(scenario.warm_up))?;
        writeln!(f, "repetitions = 1")?;
        writeln!(f, "drives = [{}]", profile::word(&scenario.drive))?;
        if let Some(capacity) = &scenario.capacity {
            let capacity = PrintedValue::Table(capacity_values(Some(*capacity)));
            writeln!(f, "capacity = {capacity}")?;
        }
        if let Some(freeze) = scenario.freeze {
            let times = [freeze.first, freeze.length, freeze.every];
            let [first, length, every] = times.map(Time);
            writeln!(
                f,
                "freeze = {{ first = \"{first}\", length = \"{length}\", every = \"{every}\" }}"
            )?;
        }
        for (id, group) in (1..).map(GroupId).zip(&scenario.groups) {
            // The group of a single client is printed together with its client.
            if scenario.owner(id).is_none() {
                writeln!(f, "\n[[group]]\nname = \"{}\"", scenario.called(id))?;
                // The root is the default, and has no name.
                if group.parent != ROOT {
                    writeln!(f, "parent = \"{}\"", scenario.called(group.parent))?;
                }
                print(f, &values(&group.contract, &group.knobs))?;
            }
        }
        for client in &scenario.clients {
            print_played(f, scenario, client)?;
        }
        for change in &scenario.changes {
            writeln!(f, "\n[[change]]\nwhen = \"{}\"", Time(change.at))?;
            writeln!(f, "whose = \"{}\"", scenario.called(change.group))?;
            print(f, &values(&change.contract, &Knobs::NONE))?;
        }
        Ok(())
    }
}

fn print_played(f: &mut Formatter<'_>, scenario: &Scenario, client: &ClientSpec) -> fmt::Result {
    writeln!(f, "\n[[client]]\nname = {}", Quoted(&client.name))?;
    print_kind(f, &client.program)?;
    writeln!(f, "size = \"{}\"", Bytes(client.region.length))?;
    writeln!(f, "direct = {}", client.buffered.is_none())?;
    print_times(f, &client.program)?;
    if client.arrives > Span::ZERO {
        writeln!(f, "arrives = \"{}\"", Time(client.arrives))?;
    }
    if let Some(leaves) = client.leaves {
        writeln!(f, "leaves = \"{}\"", Time(leaves))?;
    }
    match (client.group.0 as usize).checked_sub(1) {
        Some(at) if scenario.owner(client.group).is_some() => {
            let group = &scenario.groups[at];
            print(f, &values(&group.contract, &group.knobs))
        }
        _ => writeln!(f, "group = \"{}\"", scenario.called(client.group)),
    }
}

impl Scenario {
    /// Returns the client that owns a group, if each client has a group of its own. The contract is
    /// then printed with the client.
    fn owner(&self, group: GroupId) -> Option<&ClientSpec> {
        let ids = (1..).map(GroupId);
        let mut all = self.clients.iter().zip(ids).zip(&self.groups);
        let is_own = all.all(|((c, id), g)| c.group == id && g.parent == ROOT);
        let owner = self.clients.get((group.0 as usize).checked_sub(1)?);
        owner.filter(|_| is_own && self.clients.len() == self.groups.len())
    }

    /// Returns the name of a group in the file: that of its owner, or one with its number.
    fn called(&self, group: GroupId) -> String {
        let owner = self.owner(group).map(|client| client.name.clone());
        owner.unwrap_or_else(|| format!("group-{}", group.0))
    }
}

/// Prints the kind of a program's requests.
pub(super) fn print_kind(f: &mut impl fmt::Write, program: &Program) -> fmt::Result {
    let random = if program.pattern == Pattern::Sequential {
        ""
    } else {
        "rand"
    };
    match program.writes {
        0 => writeln!(f, "rw = \"{random}read\"")?,
        100 => writeln!(f, "rw = \"{random}write\"")?,
        // The key is the percentage of reads.
        writes => writeln!(f, "rw = \"{random}rw\"\nrwmixread = {}", 100 - writes)?,
    }
    match program.size {
        Size::Fixed(bytes) => writeln!(f, "bs = \"{}\"", Bytes(bytes.into()))?,
        Size::Range { min, max, .. } => {
            writeln!(f, "bs = \"{}-{}\"", Bytes(min.into()), Bytes(max.into()))?;
        }
        Size::Split(split) => {
            let parts = split.parts();
            let parts = parts.map(|(size, part)| format!("{}/{part}", Bytes(size.into())));
            writeln!(f, "bs = \"{}\"", parts.collect::<Vec<_>>().join(":"))?;
        }
    }
    match program.pattern {
        // These follow from `rw` without a further key.
        Pattern::Sequential | Pattern::Shuffled => {}
        Pattern::Random => writeln!(f, "norandommap = true")?,
        Pattern::Skewed(skew) => {
            writeln!(f, "random_distribution = \"{}\"", DistributionText(skew))?;
        }
        Pattern::Partly { reads, writes } => {
            writeln!(f, "percentage_random = \"{reads},{writes}\"")?;
        }
    }
    if let Some(zones) = program.zones {
        writeln!(f, "zonesize = \"{}\"", Bytes(zones.size))?;
        writeln!(f, "zoneskip = \"{}\"", Bytes(zones.skip))?;
    }
    match program.sync {
        SyncMode::Never => {}
        SyncMode::Flush(every) => writeln!(f, "flush = {every}")?,
        SyncMode::Fdatasync(every) => writeln!(f, "fdatasync = {every}")?,
    }
    if program.fua {
        writeln!(f, "sync = \"dsync\"")?;
    }
    writeln!(f, "iodepth = {}", program.depth)?;
    if let Arrival::Batches { low } = program.arrival {
        writeln!(f, "iodepth_low = {low}")?;
    }
    Ok(())
}

/// Prints the times of a program's requests.
pub(super) fn print_times(f: &mut impl fmt::Write, program: &Program) -> fmt::Result {
    let (intervals, poisson) = match program.arrival {
        Arrival::Closed { think } => {
            if think > Span::ZERO {
                writeln!(f, "thinktime = \"{}\"", Time(think))?;
                writeln!(f, "thinktime_blocks = {}", program.think_every)?;
            }
            ([None; 2], false)
        }
        Arrival::Batches { .. } => ([None; 2], false),
        Arrival::Even { interval } => ([Some(interval); 2], false),
        Arrival::Poisson { interval } => ([Some(interval); 2], true),
        Arrival::Apart {
            reads,
            writes,
            poisson,
        } => ([reads, writes], poisson),
    };
    if intervals != [None; 2] {
        print_rates(f, intervals, program.size)?;
        let apart = matches!(program.arrival, Arrival::Apart { .. });
        // Without this key, the rate would apply to reads and to writes separately.
        if !apart && !matches!(program.writes, 0 | 100) {
            writeln!(f, "rate_for = \"both\"")?;
        }
        let process = if poisson { "poisson" } else { "linear" };
        writeln!(f, "rate_process = \"{process}\"")?;
    }
    let start = Time(program.start);
    if program.start_spread > Span::ZERO {
        let last = Time(program.start + program.start_spread);
        writeln!(f, "startdelay = \"{start}-{last}\"")?;
    } else if program.start > Span::ZERO {
        writeln!(f, "startdelay = \"{start}\"")?;
    }
    if let Some(stop) = program.stop {
        writeln!(f, "runtime = \"{}\"", Time(stop - program.start))?;
    }
    if let Some(requests) = program.requests {
        writeln!(f, "number_ios = {requests}")?;
    }
    Ok(())
}

/// Prints rates that read back as these intervals, for reads and for writes.
fn print_rates(f: &mut impl fmt::Write, intervals: [Option<Span>; 2], size: Size) -> fmt::Result {
    let all = intervals.map(|interval| interval.map(Span::as_nanos));
    // Several rates result in the same interval, because intervals are whole nanoseconds. The
    // largest of them is printed.
    // True if a whole number of requests per second results in exactly this interval.
    let is_whole = |ns: u64| SECOND.checked_div(SECOND / ns) == Some(ns);
    let (key, rates) = match size {
        Size::Fixed(each) if !all.iter().flatten().all(|ns| is_whole(*ns)) => {
            let rate = |ns: u64| u128::from(each) * u128::from(SECOND) / u128::from(ns);
            let rate = |ns| BytesPerSecond((rate(ns) as u64).max(1)).to_string();
            ("rate", all.map(|ns| ns.map(rate)))
        }
        _ => (
            "rate_iops",
            all.map(|ns| ns.map(|ns| (SECOND / ns).to_string())),
        ),
    };
    match rates {
        [Some(reads), Some(writes)] if reads == writes && key == "rate_iops" => {
            writeln!(f, "{key} = {reads}")
        }
        [Some(reads), Some(writes)] if reads == writes => writeln!(f, "{key} = \"{reads}\""),
        rates => writeln!(
            f,
            "{key} = \"{}\"",
            rates.map(Option::unwrap_or_default).join(",")
        ),
    }
}
