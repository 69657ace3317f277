//! The keys of a record as JSON: their descriptions in `docs/json.md`, beside the code that writes them.
//!
//! A test of the command runs scenarios of every kind and compares the keys that they print to [`KEYS`].

use crate::Need;
use std::fmt::Write as _;

/// A key of a record.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its path: `latency_us.mean` is `mean` in the object `latency_us`, and `short_by.*` is any key in `short_by`.
    pub path: &'static str,
    /// Its value's type and unit.
    pub value: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// When a client's line has it.
    pub clients: When,
    /// When the line `total` has it.
    pub total: When,
}

impl Key {
    /// Whether the entry describes the key of that path.
    pub fn is(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(object) => path.starts_with(object),
            None => path == self.path,
        }
    }
}

/// When a line has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// In some runs, namely these.
    Where(&'static str),
    /// Never.
    Never,
}

use When::{Always, Never, Where};

const PROMISED: When = Where("the client has a promise of its own");
const IN_REQUESTS: When = Where("the client has a promise of requests of its own");
const WHOLE: When = Where("`seconds` is at least 1");
const LATER: When = Where("it begins later than the measurement");
const FAILED: When = Where("there were any");
const ANSWERED: When = Where("at least one of its requests was answered");
const GUESTS: When = Where("the scenario has virtual machines");
const SIM: When = Where("`place` is `sim`");
const KERNEL: When = Where("`place` is `guest` or `linux`");
const GUEST: When = Where("`place` is `guest`");
const TOLD: When =
    Where("`place` is `sim` or `serve` and at least one of its requests was answered");

/// Every key, in the order in which they are written.
pub const KEYS: &[Key] = &[
    always(
        "scenario",
        "string",
        "The scenario, as `weir scenarios` lists them.",
    ),
    always("drive", "string", "The drive."),
    always(
        "case",
        "string",
        "The case of the scenario (`readers`, `writers`); the scenario's name where it has none.",
    ),
    always("policy", "string", "The policy."),
    always("repeat", "number", "The repetition, from 0."),
    always(
        "client",
        "string",
        "The client's name; `total` in the line for all clients together.",
    ),
    always("requests", "number", "Requests answered without error."),
    always(
        "bytes",
        "number, bytes",
        "Bytes transferred by these requests.",
    ),
    always(
        "seconds",
        "number, seconds",
        "Length of the client's own time in the measurement: from its first possible request to its last, or the reply to that. In the line \
         `total`: from the first client's to the last client's.",
    ),
    always(
        "bandwidth_mb_per_s",
        "number, 10^6 bytes per second",
        "`bytes` over `seconds`.",
    ),
    latency(
        "latency_us.mean",
        "Mean latency of these requests, from sending to reply; exact, as are the next three.",
    ),
    latency("latency_us.sd", "The sample standard deviation."),
    latency("latency_us.min", "The least."),
    latency("latency_us.max", "The most."),
    latency(
        "latency_us.p50",
        "The median, at most 0.8 % above the exact one; so are the next three.",
    ),
    latency("latency_us.p90", "The 90th percentile."),
    latency("latency_us.p99", "The 99th percentile."),
    latency("latency_us.p999", "The 99.9th percentile."),
    of_clients(
        "latency_us",
        "null",
        "There is no latency.",
        Where("none of its requests was answered"),
    ),
    always(
        "place",
        "string",
        "Where the run took place: `sim` (virtual time), `serve` (a live server), `guest` (Linux in a guest, virtual time) or `linux` (this machine's).",
    ),
    always(
        "seed",
        "string of digits",
        "Seed of the run's random numbers; it depends on scenario and repetition, never on policy or drive. It is a string, because many \
         readers of JSON round integers above 2^53.",
    ),
    Key {
        path: "begins_s",
        value: "number, seconds",
        about: "When that time begins, from the start of the measurement.",
        clients: LATER,
        total: LATER,
    },
    Key {
        path: "errors",
        value: "number",
        about: "Requests answered with an error.",
        clients: FAILED,
        total: FAILED,
    },
    of_clients(
        "promised_mb_per_s",
        "number, 10^6 bytes per second",
        "The client's min.",
        PROMISED,
    ),
    of_clients(
        "promised_iops",
        "number, requests per second",
        "The client's min_iops.",
        IN_REQUESTS,
    ),
    Key {
        path: "worst_second_mb_per_s",
        value: "number, 10^6 bytes per second",
        about: "Bandwidth in the worst second of the client's own time. The first second includes the rest of the tenth of a second in which \
                that time begins, and the last second includes the part of a second that is left after it; never more than `bandwidth_mb_per_s`.",
        clients: WHOLE,
        total: WHOLE,
    },
    of_clients(
        "promise",
        "string",
        "What became of the promise: `kept`, `broken`, `out of reach` (it would be missed with the drive to itself, too), `excused` (it applied in no second) or \
         `not judged` (there was no whole second).",
        PROMISED,
    ),
    of_clients(
        "windows_met",
        "number, 0 to 1",
        "Of the seconds in which the promise applied, the fraction in which it was kept.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.promised",
        "number",
        "Whole seconds of the run; the sum of kept, short and excused ones (`metrics.md`).",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.kept",
        "number",
        "Seconds in which the promise was kept.",
        PROMISED,
    ),
    of_clients("promise_seconds.short", "number", "With less.", PROMISED),
    of_clients(
        "promise_seconds.excused",
        "number",
        "Seconds in which the promise did not apply.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.unasked",
        "number",
        "Of the kept seconds, those in which the client got less than its whole min, because it had nothing outstanding for more than half \
         of them.",
        Where("there was such a second"),
    ),
    of_clients(
        "promise_seconds.outstanding_ms",
        "number, milliseconds",
        "For how long of these seconds the client had a request outstanding.",
        Where("there was an unasked second"),
    ),
    of_clients(
        "promise_seconds.short_by.*",
        "number",
        "Seconds that were short for the cause that the key names (see `metrics.md`).",
        Where("a second was short"),
    ),
    of_clients(
        "promise_seconds.excused_by.*",
        "number",
        "Seconds that were excused for the reason that the key names (see `metrics.md`).",
        Where("a second was excused"),
    ),
    of_clients(
        "promise_seconds.neighbours.*",
        "number",
        "Seconds that were short because of the neighbour that the key names.",
        Where("a neighbour made a second short"),
    ),
    of_clients(
        "promise_seconds.lacking_bytes",
        "number, bytes",
        "Total shortfall of the short seconds.",
        Where("a second was short of bytes"),
    ),
    of_clients(
        "promise_seconds.lacking_requests",
        "number",
        "Total shortfall of the short seconds, in requests.",
        Where("a second was short of requests"),
    ),
    of_clients(
        "promise_seconds.short_at",
        "array of objects",
        "The short seconds: `second` (from 0), `owed` and `lacking` in it (bytes, or requests for a promise of these), `cause` and, where it is known, \
         `neighbour`.",
        Where("a second was short"),
    ),
    of_clients(
        "alone_mb_per_s",
        "number, 10^6 bytes per second",
        "Bandwidth of the client with the drive to itself.",
        Where("the client has a promise, and this was measured"),
    ),
    of_clients(
        "starved",
        "string",
        "`bandwidth`: it got less than a hundredth of what it gets under `none` in the same run; `wait`: a request of it waited for more than a second. Not where its \
         own max throttles it.",
        Where("it starved"),
    ),
    Key {
        path: "unanswered_us",
        value: "number, microseconds",
        about: "For how long the oldest request had waited that was not answered at the end.",
        clients: Where("there was one"),
        total: Where("there was one"),
    },
    of_kind("reads.*"),
    of_kind("writes.*"),
    of_kind("flushes.*"),
    of_clients(
        "limited_by",
        "string",
        "What limited the client: `client`, `limit`, `share` or `drive`.",
        ANSWERED,
    ),
    split(
        "split_us.limit",
        "Of the mean latency: throttled by a limit or another controller. What the parts do not account for was spent between client and core.",
        SIM,
    ),
    split(
        "split_us.elevator",
        "Of the mean latency: waiting in the elevator.",
        SIM,
    ),
    split("split_us.drive", "Of the mean latency: in the drive.", SIM),
    Key {
        clients: SIM,
        ..split(
            "split_us.idle",
            "Of `split_us.elevator`: the elevator idled for the next request of another stream.",
            SIM,
        )
    },
    Key {
        clients: SIM,
        ..split(
            "split_us.queue",
            "Of `split_us.drive`: the drive had not begun to serve it.",
            SIM,
        )
    },
    always(
        "series_step_s",
        "number, seconds",
        "Length of the windows of `series_mb_per_s`.",
    ),
    always(
        "series_mb_per_s",
        "array of numbers, 10^6 bytes per second",
        "Bandwidth of each complete window, from the start of the measurement.",
    ),
    Key {
        path: "drive_busy_percent",
        value: "number, per cent",
        about: "Fraction of the time in which the drive was busy, that is, had at least one command in flight.",
        clients: Never,
        total: Always,
    },
    of_rings(
        "rings.kicks",
        "number per second",
        "Notifications from virtual machines to their back end.",
    ),
    of_rings(
        "rings.calls",
        "number per second",
        "Notifications from the back end to virtual machines.",
    ),
    of_rings(
        "rings.calls_per_request",
        "number",
        "The same for each request that was answered.",
    ),
    of_rings(
        "rings.wakeups",
        "number per second",
        "How often a thread of the back end was woken.",
    ),
    of_rings(
        "rings.guest_percent",
        "number, per cent",
        "Time of all virtual machines' processors for requests, responses and notifications, of one processor's time.",
    ),
    of_rings(
        "rings.backend_percent",
        "number, per cent",
        "Time of the back end's threads, of one processor's time.",
    ),
    of_clients(
        "runtime_s",
        "number, seconds",
        "How long the client took for all of a program that ends (`number_ios`), from its start to the last answer.",
        Where("its program came to its end"),
    ),
    of_clients(
        "late",
        "number",
        "Reads and writes that were not answered by their `deadline`, those among them that could not even be sent in time.",
        Where("it has a deadline"),
    ),
    of_kernels("kernel", "string", "The kernel's release.", KERNEL),
    Key {
        path: "processor_percent",
        value: "number, per cent",
        about: "The part of all processors' time in which they were busy: where that is all of it, rates are theirs and not the drive's.",
        clients: Never,
        total: KERNEL,
    },
    of_kernels(
        "path_us",
        "number, microseconds",
        "What the path between kernel and modelled drive takes, which was taken off.",
        GUEST,
    ),
    of_kernels(
        "path_left_us",
        "number, microseconds",
        "What of the path was left in that boot; below zero where too much was taken off.",
        GUEST,
    ),
];

const fn always(path: &'static str, value: &'static str, about: &'static str) -> Key {
    Key {
        path,
        value,
        about,
        clients: Always,
        total: Always,
    }
}

const fn of_clients(
    path: &'static str,
    value: &'static str,
    about: &'static str,
    clients: When,
) -> Key {
    Key {
        path,
        value,
        about,
        clients,
        total: Never,
    }
}

const fn of_kernels(
    path: &'static str,
    value: &'static str,
    about: &'static str,
    when: When,
) -> Key {
    Key {
        path,
        value,
        about,
        clients: when,
        total: when,
    }
}

const fn latency(path: &'static str, about: &'static str) -> Key {
    Key {
        path,
        value: "number, microseconds",
        about,
        clients: ANSWERED,
        total: Always,
    }
}

const fn of_kind(path: &'static str) -> Key {
    of_clients(
        path,
        "as above",
        "These operations alone: `requests`, `bytes`, `bandwidth_mb_per_s` and `latency_us` as above.",
        Where("its program has operations of several kinds"),
    )
}

const fn of_rings(path: &'static str, value: &'static str, about: &'static str) -> Key {
    Key {
        path,
        value,
        about,
        clients: Never,
        total: GUESTS,
    }
}

const fn split(path: &'static str, about: &'static str, total: When) -> Key {
    Key {
        path,
        value: "number, microseconds",
        about,
        clients: TOLD,
        total,
    }
}

/// The page about them, as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for key in KEYS {
        let Key { path, value, .. } = key;
        let (clients, total) = (when(key.clients), when(key.total));
        let about = key.about;
        let _ = writeln!(
            page,
            "| `{path}` | {value} | {about} | {clients} | {total} |"
        );
    }
    page += PLAN;
    for (path, value, about) in Need::KEYS {
        let _ = writeln!(page, "| `{path}` | {value} | {about} |");
    }
    page
}

fn when(when: When) -> String {
    match when {
        Always => "always".to_owned(),
        Where(runs) => format!("where {runs}"),
        Never => "never".to_owned(),
    }
}

const HEAD: &str = "\
# Results as JSON

`weir demo` and `weir compare` take `--json FILE` (`-` for standard output, and then nothing else is written there). They write one JSON object
a line: one for each client of each run, then one for all of them together, whose `client` is `total`. Runs come in the order in which they
are shown: by drive, case and policy, then by repetition. Fractions have three digits, so that equal results are equal bytes.

The line `total` is a client that sent every request of the run: its `requests` and `bytes` are the sums, its `bandwidth_mb_per_s` what the drive
gave, its latencies those of all requests taken together (not a mean of means). Nothing is promised to it and nothing limits it, so it has
none of the keys that say so.

`weir compare --trace FILE` writes another file of lines: what controllers and the elevator were doing, two hundred times over the measurement
of the first repetition (`io.cost`'s weights and vrate, `io.latency`'s depths, BFQ's budgets, what `contract` has learned of the drive). A
line has the keys `scenario`, `drive`, `case`, `policy` and `repeat`, and `state` (what it is), `of` (whose: a client, the clients of a group, or
`drive`), `unit` (`%`, `ms`, `kB`; empty where things are counted) and `points`, an array of [seconds, value]. A subject with nothing to say at a
time has no point there: a group that is idle, a stream that is not in service.

This page is printed from the tables beside the code that writes the keys (`crates/measure/src/keys.rs`, `need.rs`), and tests hold them against
what runs print; `WEIR_BLESS=1 cargo test -p weir --test json` prints it anew.

| key | is | says | a client's line has it | the line `total` has it |
| --- | --- | --- | --- | --- |
";

const PLAN: &str = "
## Drives that are needed

`weir plan --json FILE` writes an object for each kind of drive and policy, in the order in which they are shown, with all of these keys:

| key | is | says |
| --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meter, Run, to_line};

    /// No run of the command has failures, so this key is tested here.
    #[test]
    fn failures_have_the_key_that_the_table_says() {
        let mut meter = Meter::new(0, 1_000_000_000);
        meter.sent(10);
        meter.failed(20, 4096);
        let line = to_line(&Run::default().record("client", &meter));
        assert!(line.contains("\"errors\":1"), "{line}");
        assert!(KEYS.iter().any(|key| key.is("errors")));
    }
}
