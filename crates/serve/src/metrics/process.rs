//! Metrics of the server's process: those that Prometheus' client libraries export for every
//! process, and the time that its threads waited for a CPU.

use std::fs;

use crate::access::Refusals;

use super::page::{
    Labels,
    MetricKind::{Counter, Gauge},
    MetricsPage, Seconds,
};

/// The prefix of the names of threads that serve drives.
const SHARD: &str = "weir-shard-";

/// Appends the values that the kernel has of this process, and the number of lines that are missing
/// from its log, and the refused clients. Values that are not available have no sample.
pub(super) fn process(page: &mut MetricsPage, log_dropped: u64, refusals: &Refusals) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(Stat::of);
    let ticks = rustix::param::clock_ticks_per_second();
    let seconds = |ticks_passed: u64| {
        let nanos = u128::from(ticks_passed) * 1_000_000_000;
        nanos.checked_div(ticks.into()).map(Seconds)
    };
    let name = "process_cpu_seconds_total";
    let spent = stat.as_ref().and_then(|stat| seconds(stat.spent));
    page.family(
        Counter,
        name,
        "CPU time of the server, user and system, in seconds.",
        one(spent),
    );
    let begun = stat
        .and_then(|stat| Some(seconds(stat.begun)?.0 + u128::from(booted()?) * 1_000_000_000))
        .map(Seconds);
    let name = "process_start_time_seconds";
    page.family(
        Gauge,
        name,
        "Time at which the server was started, in seconds since 1970.",
        one(begun),
    );
    let name = "process_resident_memory_bytes";
    page.family(
        Gauge,
        name,
        "Resident memory of the server, in bytes.",
        one(resident()),
    );
    let name = "process_open_fds";
    let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    page.family(
        Gauge,
        name,
        "Number of open files of the server.",
        one(files),
    );
    let name = "weir_processor_wait_seconds_total";
    let help = "Time for which the threads that serve drives were ready to run but had no CPU, in seconds.";
    page.family(Counter, name, help, one(shard_wait_ns().map(Seconds)));
    let name = "weir_log_dropped_lines_total";
    let help = "Lines of the log that were dropped because standard error did not accept them in time, or failed.";
    page.family(Counter, name, help, one(Some(log_dropped)));
    let name = "weir_refused_clients_total";
    let help = "Clients that were refused: without TLS that the volume requires (plain), because TLS failed (tls), or because allow of the volume does not permit them (allow). For the management interface: because TLS failed (manage-tls), and requests that it does not permit to their clients (manage).";
    let refused = refusals.totals().into_iter();
    let refused = refused.map(|(reason, count)| ([("reason", reason)], count));
    page.family(Counter, name, help, refused);
}

/// Returns a sample without labels, if there is a value.
fn one<T>(value: Option<T>) -> impl Iterator<Item = (Labels<'static, 0>, T)> {
    value.into_iter().map(|value| ([], value))
}

/// Values from `/proc/PID/stat` (proc(5)), in clock ticks.
struct Stat {
    /// CPU time, user and system (fields 14 and 15).
    spent: u64,
    /// The time from the boot of the machine to the start of the process (field 22).
    begun: u64,
}

impl Stat {
    fn of(text: &str) -> Option<Self> {
        // Field 3 is the first after the name. The name is in parentheses and can contain blanks
        // and parentheses itself, so it ends at the last one.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            spent: field(14)? + field(15)?,
            begun: field(22)?,
        })
    }
}

/// Returns the boot time of the machine, in seconds since 1970.
fn booted() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the time that the shards waited for a CPU, in nanoseconds. This is the second
/// number in `schedstat` of each thread, if the kernel provides it.
fn shard_wait_ns() -> Option<u128> {
    let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    let shards = threads.filter(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.starts_with(SHARD))
    });
    let waits = shards.map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u128>().ok()
    });
    // The sum of options is `None` if one of them is, so that a missing value does not look like a
    // shorter wait.
    waits.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_spaces_and_parentheses() {
        let stat = "7 (a) 1 (b)) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 1234 0 0";
        let stat = Stat::of(stat).unwrap();
        assert_eq!((stat.spent, stat.begun), (300, 1234));
        assert!(Stat::of("7 (cut").is_none() && Stat::of("7 (cut) S 1").is_none());
    }
}
