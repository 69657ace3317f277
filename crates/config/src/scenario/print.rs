//! What a job file of `fio` comes to, as a scenario's file.

use super::distribution::Written;
use super::draft::{Client, Draft, Facts};
use crate::text::Quoted;
use crate::units::{Rate, Size as Bytes, Time};
use std::fmt::{self, Formatter};
use weir_core::{Priority, PriorityClass, Span};
use weir_load::{Arrival, Pattern, Program, Size, SyncMode};

const SECOND: u64 = 1_000_000_000;

/// A job file as a scenario's, with places for contracts.
pub(super) struct Printed<'a> {
    pub(super) name: &'a str,
    pub(super) facts: &'a Facts,
    pub(super) draft: &'a Draft,
}

impl fmt::Display for Printed<'_> {
    /// Prints a file that reads back as the same scenario.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, facts, draft } = self;
        let list = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|n| Quoted(n).to_string()).collect();
            names.join(", ")
        };
        writeln!(f, "name = {}", Quoted(name))?;
        writeln!(f, "drives = [{}]", list(&facts.drives))?;
        writeln!(f, "policies = [{}]", list(&facts.policies))?;
        writeln!(f, "repetitions = {}", facts.repetitions)?;
        writeln!(f, "duration = \"{}\"", Time(draft.duration))?;
        writeln!(f, "warm_up = \"{}\"", Time(draft.warm_up))?;
        writeln!(f, "layout = \"files\"")?;
        writeln!(f, "# With \"each\" every client has a contract of its own.")?;
        writeln!(f, "grouping = \"none\"\n")?;
        writeln!(f, "# The host as Linux has it.\n[host]")?;
        writeln!(f, "nr_requests = \"linux\"\nadapter = \"linux\"")?;
        writeln!(f, "nomerges = {}", draft.host.merging.nomerges)?;
        for client in &draft.clients {
            print_client(f, client, &draft.clients)?;
        }
        writeln!(f, "\n# What is asked of the result, with contracts:")?;
        writeln!(f, "# [[expect]]\n# promise = \"all\"")
    }
}

fn print_client(f: &mut Formatter<'_>, client: &Client, all: &[Client]) -> fmt::Result {
    let program = &client.program;
    let name = &client.names[0];
    writeln!(f, "\n[[client]]")?;
    match client.names.len() {
        1 => writeln!(f, "name = {}", Quoted(name))?,
        several => {
            let base = name.rsplit_once('-').map_or(name.as_str(), |n| n.0);
            writeln!(f, "name = {}\nnumjobs = {several}", Quoted(base))?;
        }
    }
    print_kind(f, program)?;
    print_place(f, client, all)?;
    writeln!(f, "direct = {}", !client.buffered)?;
    print_times(f, program)?;
    if client.priority != Priority::default() {
        let class = match client.priority.class {
            PriorityClass::Realtime => "realtime",
            PriorityClass::BestEffort => "best-effort",
            PriorityClass::Idle => "idle",
        };
        writeln!(f, "ionice = \"{class}:{}\"", client.priority.level)?;
    }
    writeln!(f, "# A contract, where grouping is \"each\":")?;
    writeln!(
        f,
        "# min = \"20MB/s\"\n# max = {{ bandwidth = \"50MB/s\" }}\n# share = 100"
    )
}

/// What its requests are.
fn print_kind(f: &mut Formatter<'_>, program: &Program) -> fmt::Result {
    let random = if program.pattern == Pattern::Sequential {
        ""
    } else {
        "rand"
    };
    match program.writes {
        0 => writeln!(f, "rw = \"{random}read\"")?,
        100 => writeln!(f, "rw = \"{random}write\"")?,
        writes => writeln!(f, "rw = \"{random}rw\"\nrwmixread = {}", 100 - writes)?,
    }
    match program.size {
        Size::Fixed(bytes) => writeln!(f, "bs = \"{}\"", Bytes(bytes.into()))?,
        Size::Range { min, max, .. } => {
            writeln!(f, "bs = \"{}-{}\"", Bytes(min.into()), Bytes(max.into()))?;
        }
        Size::Split(split) => {
            let parts = split.parts().iter();
            let parts = parts.map(|(size, part)| format!("{}/{part}", Bytes((*size).into())));
            writeln!(f, "bs = \"{}\"", parts.collect::<Vec<_>>().join(":"))?;
        }
    }
    match program.pattern {
        Pattern::Sequential | Pattern::Shuffled => {}
        Pattern::Random => writeln!(f, "norandommap = true")?,
        Pattern::Skewed(skew) => writeln!(f, "random_distribution = \"{}\"", Written(skew))?,
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

/// Where they are.
fn print_place(f: &mut Formatter<'_>, client: &Client, all: &[Client]) -> fmt::Result {
    writeln!(f, "size = \"{}\"", Bytes(client.size))?;
    for (key, bytes) in [
        ("offset", client.offset),
        ("offset_increment", client.increment),
    ] {
        if bytes > 0 {
            writeln!(f, "{key} = \"{}\"", Bytes(bytes))?;
        }
    }
    if let Some(file) = &client.file {
        // A path is no name; files are told apart by the first job that has each.
        let first = all.iter().find(|c| c.file.as_ref() == Some(file));
        let name = first.map_or("", |c| c.names[0].as_str());
        writeln!(f, "file = {}  # {}", Quoted(name), Quoted(file))?;
    }
    if client.program.files > 1 {
        writeln!(f, "nrfiles = {}", client.program.files)?;
    }
    Ok(())
}

/// When they come.
fn print_times(f: &mut Formatter<'_>, program: &Program) -> fmt::Result {
    let paced = match program.arrival {
        Arrival::Closed { think } => {
            if think > Span::ZERO {
                writeln!(f, "thinktime = \"{}\"", Time(think))?;
                writeln!(f, "thinktime_blocks = {}", program.think_every)?;
            }
            None
        }
        Arrival::Batches { .. } => None,
        Arrival::Even { interval } => Some((interval, "linear")),
        Arrival::Poisson { interval } => Some((interval, "poisson")),
    };
    if let Some((interval, process)) = paced {
        let interval = interval.as_nanos();
        let iops = SECOND / interval;
        // Of the rates that come to an interval the largest is what fits into it.
        match program.size {
            Size::Fixed(each) if SECOND.checked_div(iops) != Some(interval) => {
                let rate = u128::from(each) * u128::from(SECOND) / u128::from(interval);
                writeln!(f, "rate = \"{}\"", Rate((rate as u64).max(1)))?;
            }
            _ => writeln!(f, "rate_iops = {iops}")?,
        }
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
