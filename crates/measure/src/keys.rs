//! The keys of a record as JSON, with the descriptions from which `docs/json.md` is generated.
//!
//! A test of the command runs scenarios of every kind and compares the keys of their results with
//! [`KEYS`].

use crate::Need;
use std::fmt::Write as _;

/// A key of a record, with its description.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The path of the key: `latency_us.mean` is `mean` in the object `latency_us`, and
    /// `short_by.*` is any key in `short_by`.
    pub path: &'static str,
    /// The type and unit of the value.
    pub value: &'static str,
    /// The meaning of the value.
    pub about: &'static str,
    /// The condition under which a client's line has the key.
    pub clients: KeyPresence,
    /// The condition under which the line `total` has the key.
    pub total: KeyPresence,
}

impl Key {
    /// Returns true if this entry describes the key with the given path.
    pub fn is(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(object) => path.starts_with(object),
            None => path == self.path,
        }
    }
}

/// The condition under which a line has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPresence {
    /// Every line has the key.
    Always,
    /// Only some lines have the key. The text is the condition.
    Where(&'static str),
    /// No line has the key.
    Never,
}

use KeyPresence::{Always, Never, Where};

const PROMISED: KeyPresence = Where("the client has a promise of its own");
const IN_REQUESTS: KeyPresence = Where("the client has a promise in requests of its own");
const WHOLE: KeyPresence = Where("`seconds` is at least 1");
const LATER: KeyPresence = Where("the client's time begins later than the measurement");
const FAILED: KeyPresence = Where("at least one request failed");
const ANSWERED: KeyPresence = Where("at least one request of the client completed");
const GUESTS: KeyPresence = Where("the scenario has virtual machines");
const SIM: KeyPresence = Where("`place` is `sim`");
const KERNEL: KeyPresence = Where("`place` is `guest` or `linux`");
const GUEST: KeyPresence = Where("`place` is `guest`");
const COMPLETED_WITH_SPLIT: KeyPresence =
    Where("`place` is `sim` or `serve` and at least one request of the client completed");

/// All keys, in the order in which they are written.
pub const KEYS: &[Key] = &[
    always(
        "scenario",
        "string",
        "The name of the scenario, as `weir scenarios` lists it.",
    ),
    always("drive", "string", "The name of the drive."),
    always(
        "case",
        "string",
        "The case of the scenario (such as `readers`, `writers`), or the scenario's name if it has no cases.",
    ),
    always("policy", "string", "The name of the policy."),
    always(
        "repeat",
        "number",
        "The number of the repetition, starting at 0.",
    ),
    always(
        "client",
        "string",
        "The client's name, or `total` in the line for all clients together.",
    ),
    always(
        "requests",
        "number",
        "The number of requests that completed without an error.",
    ),
    always(
        "bytes",
        "number, bytes",
        "The bytes that these requests transferred.",
    ),
    always(
        "seconds",
        "number, seconds",
        "The length of the client's own time in the measurement, from its first possible request to its last one or to the reply to that. In \
         the line `total`, it extends from the start of the first client's time to the end of the last client's.",
    ),
    always(
        "bandwidth_mb_per_s",
        "number, 10^6 bytes per second",
        "The bandwidth: `bytes` divided by `seconds`.",
    ),
    latency(
        "latency_us.mean",
        "The mean latency of these requests, from sending to reply. Mean, standard deviation, minimum and maximum are exact.",
    ),
    latency(
        "latency_us.sd",
        "The sample standard deviation of the latency.",
    ),
    latency("latency_us.min", "The minimum latency."),
    latency("latency_us.max", "The maximum latency."),
    latency(
        "latency_us.p50",
        "The median latency. All percentiles are at most 0.8 % above the exact values.",
    ),
    latency("latency_us.p90", "The 90th percentile of the latency."),
    latency("latency_us.p99", "The 99th percentile of the latency."),
    latency("latency_us.p999", "The 99.9th percentile of the latency."),
    of_clients(
        "latency_us",
        "null",
        "No latency is known.",
        Where("no request of the client completed"),
    ),
    always(
        "place",
        "string",
        "The place of the run: `sim` (simulator, in virtual time), `serve` (a live server), `guest` (Linux in a guest, in virtual time) or \
         `linux` (the Linux of this machine).",
    ),
    always(
        "seed",
        "string of digits",
        "The seed of the run's random numbers. It depends on the scenario and the repetition, but not on the policy or the drive. It is a \
         string, because many JSON parsers round integers above 2^53.",
    ),
    Key {
        path: "begins_s",
        value: "number, seconds",
        about: "The start of the client's own time, counted from the start of the measurement.",
        clients: LATER,
        total: LATER,
    },
    Key {
        path: "errors",
        value: "number",
        about: "The number of requests that failed.",
        clients: FAILED,
        total: FAILED,
    },
    of_clients(
        "promised_mb_per_s",
        "number, 10^6 bytes per second",
        "The client's `min`.",
        PROMISED,
    ),
    of_clients(
        "promised_iops",
        "number, requests per second",
        "The client's `min_iops`.",
        IN_REQUESTS,
    ),
    Key {
        path: "worst_second_mb_per_s",
        value: "number, 10^6 bytes per second",
        about: "The bandwidth in the worst second of the client's own time. It is never more than `bandwidth_mb_per_s`. The first second \
                includes the rest of the tenth of a second in which that time begins, and the last second includes the part of a second that \
                remains at its end.",
        clients: WHOLE,
        total: WHOLE,
    },
    of_clients(
        "promise",
        "string",
        "The result for the promise over the whole run: `kept`, `broken`, `out of reach` (it would be missed even without contention), \
         `excused` (it applied in no second) or `not judged` (there was no whole second).",
        PROMISED,
    ),
    of_clients(
        "windows_met",
        "number, 0 to 1",
        "The fraction of seconds in which the promise was kept, among those in which it applied.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.promised",
        "number",
        "The number of whole seconds of the run. It is the sum of the kept, short and excused seconds (`metrics.md`).",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.kept",
        "number",
        "The number of seconds in which the promise was kept.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.short",
        "number",
        "The number of seconds in which the client got less than it was owed.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.excused",
        "number",
        "The number of seconds in which the promise did not apply.",
        PROMISED,
    ),
    of_clients(
        "promise_seconds.unasked",
        "number",
        "The number of kept seconds in which the client got less than its min because it had no request outstanding for more than half of the \
         second.",
        Where("there was such a second"),
    ),
    of_clients(
        "promise_seconds.outstanding_ms",
        "number, milliseconds",
        "The time for which the client had a request outstanding in these seconds.",
        Where("there was an unasked second"),
    ),
    of_clients(
        "promise_seconds.short_by.*",
        "number",
        "The number of seconds that were short for the cause in the key's name (`metrics.md` lists the causes).",
        Where("a second was short"),
    ),
    of_clients(
        "promise_seconds.excused_by.*",
        "number",
        "The number of seconds that were excused for the reason in the key's name (`metrics.md` lists the reasons).",
        Where("a second was excused"),
    ),
    of_clients(
        "promise_seconds.neighbours.*",
        "number",
        "The number of seconds that were short because of the other client in the key's name.",
        Where("another client caused a short second"),
    ),
    of_clients(
        "promise_seconds.lacking_bytes",
        "number, bytes",
        "The total shortfall of the short seconds, in bytes.",
        Where("a second was short in bytes"),
    ),
    of_clients(
        "promise_seconds.lacking_requests",
        "number",
        "The total shortfall of the short seconds, in requests.",
        Where("a second was short in requests"),
    ),
    of_clients(
        "promise_seconds.short_at",
        "array of objects",
        "The short seconds, each with `second` (starting at 0), the amounts `owed` and `lacking` in it (in bytes, or in requests for a promise \
         in requests), `cause` and, if it is known, `neighbour`: the client that caused it.",
        Where("a second was short"),
    ),
    of_clients(
        "alone_mb_per_s",
        "number, 10^6 bytes per second",
        "The bandwidth of the client without contention.",
        Where("the client has a promise, and this was measured"),
    ),
    of_clients(
        "starved",
        "string",
        "The kind of starvation. `bandwidth`: the client got less than 1 % of its bandwidth under `none` in the same run. `wait`: one of its \
         requests waited for more than one second. A client that its own max throttles is not counted as starved.",
        Where("it starved"),
    ),
    Key {
        path: "unanswered_us",
        value: "number, microseconds",
        about: "The time for which the oldest request had waited that was not answered at the end.",
        clients: Where("there was such a request"),
        total: Where("there was such a request"),
    },
    of_kind("reads.*"),
    of_kind("writes.*"),
    of_kind("flushes.*"),
    of_clients(
        "limited_by",
        "string",
        "The limit of the client's throughput: `client` (its queue depth, its think time or its path to the server), `limit` (its max or \
         another controller), `share` (other clients, which were served before it) or `drive` (the drive served it at once, but slowly).",
        ANSWERED,
    ),
    split(
        "split_us.limit",
        "The part of the mean latency that requests spent throttled by a max or another controller. The part of the mean latency that no key \
         of `split_us` contains was spent between the client and the block layer.",
        SIM,
    ),
    split(
        "split_us.elevator",
        "The part of the mean latency that requests spent waiting in the elevator.",
        SIM,
    ),
    split(
        "split_us.drive",
        "The part of the mean latency that requests spent in the drive.",
        SIM,
    ),
    Key {
        clients: SIM,
        ..split(
            "split_us.idle",
            "The part of `split_us.elevator` during which the elevator idled for the next request of another stream.",
            SIM,
        )
    },
    Key {
        clients: SIM,
        ..split(
            "split_us.queue",
            "The part of `split_us.drive` before the drive began to serve the request.",
            SIM,
        )
    },
    always(
        "series_step_s",
        "number, seconds",
        "The length of the windows of `series_mb_per_s`.",
    ),
    always(
        "series_mb_per_s",
        "array of numbers, 10^6 bytes per second",
        "The bandwidth of each complete window, from the start of the measurement.",
    ),
    Key {
        path: "drive_busy_percent",
        value: "number, per cent",
        about: "The percentage of the time in which the drive was busy, which means that it had at least one command in flight.",
        clients: Never,
        total: Always,
    },
    of_rings(
        "rings.kicks",
        "number per second",
        "The notifications from virtual machines to their back end (kicks).",
    ),
    of_rings(
        "rings.calls",
        "number per second",
        "The notifications from the back end to virtual machines (calls).",
    ),
    of_rings(
        "rings.calls_per_request",
        "number",
        "The number of calls for each completed request.",
    ),
    of_rings(
        "rings.wakeups",
        "number per second",
        "The number of times that a thread of the back end was woken.",
    ),
    of_rings(
        "rings.guest_percent",
        "number, per cent",
        "The CPU time of all virtual machines for requests, responses and notifications, as a percentage of one CPU.",
    ),
    of_rings(
        "rings.backend_percent",
        "number, per cent",
        "The CPU time of the back end's threads, as a percentage of one CPU.",
    ),
    of_clients(
        "runtime_s",
        "number, seconds",
        "The time that a client with `number_ios` needed for all its requests, from its start to the last reply.",
        Where("the client completed all of its requests"),
    ),
    of_clients(
        "late",
        "number",
        "The number of reads and writes that did not complete by their `deadline`, including those that could not be sent in time.",
        Where("the client has a deadline"),
    ),
    of_kernels("kernel", "string", "The release of the kernel.", KERNEL),
    Key {
        path: "processor_percent",
        value: "number, per cent",
        about: "The percentage of the time of all CPUs in which they were busy. If it is 100, the CPUs limit the rates, and not the drive.",
        clients: Never,
        total: KERNEL,
    },
    of_kernels(
        "path_us",
        "number, microseconds",
        "The time of the path between the kernel and the modelled drive, which was subtracted.",
        GUEST,
    ),
    of_kernels(
        "path_left_us",
        "number, microseconds",
        "The time of the path that remained in this boot after the subtraction. It is negative if too much was subtracted.",
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
    clients: KeyPresence,
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
    when: KeyPresence,
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
        "like the key of the same name",
        "The operations of this kind alone, with the keys `requests`, `bytes`, `bandwidth_mb_per_s` and `latency_us`.",
        Where("the client has operations of several kinds"),
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

const fn split(path: &'static str, about: &'static str, total: KeyPresence) -> Key {
    Key {
        path,
        value: "number, microseconds",
        about,
        clients: COMPLETED_WITH_SPLIT,
        total,
    }
}

/// Returns the page `docs/json.md`, as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for key in KEYS {
        let Key { path, value, .. } = key;
        let (clients, total) = (when(key.clients), when(key.total));
        let about = key.about;
        // Writing to a string cannot fail.
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

fn when(when: KeyPresence) -> String {
    match when {
        Always => "always".to_owned(),
        Where(runs) => format!("if {runs}"),
        Never => "never".to_owned(),
    }
}

const HEAD: &str = "\
# Results as JSON

To process results in a program, pass `--json FILE` to `weir demo` or `weir compare`. If FILE is `-`, the results are written to standard output, and
nothing else is. This page describes every key of these results.

The file contains one JSON object per line: one line for each client of each run, followed by one line for all clients of the run together, whose
`client` is `total`. Runs are in the order in which the tables show them: by drive, case and policy, then by repetition. Fractions have three decimal
places, so equal results are equal bytes.

The line `total` describes a client that sent every request of the run. Its `requests` and `bytes` are sums, its `bandwidth_mb_per_s` is the throughput
of the drive, and its latencies are those of all requests taken together, not means of means. It has no promise and no limit, so it has none of the keys
about promises and limits.

`weir compare --trace FILE` writes another file of lines: the state of the controllers and the elevator, at two hundred points in time of the first
repetition's measurement. Examples are the weights and the vrate of `io.cost`, the depths of `io.latency`, the budgets of BFQ, and the properties of the
drive that `contract` has learned. Each line has the keys `scenario`, `drive`, `case`, `policy` and `repeat`, and these keys:

- `state` is the name of the quantity;
- `of` is the subject: a client, the clients of a group, or `drive`;
- `unit` is `%`, `ms` or `kB`, or empty for a number of things;
- `points` is an array of [seconds, value]. At a time at which a subject has no value, such as a group that is idle or a stream that is not in service,
  the array has no point.

This page is generated from the tables next to the code that writes the keys (`keys.rs` and `need.rs` in `crates/measure/src`), and tests compare them with
the results of runs. To update the page, run `WEIR_BLESS=1 cargo test -p weir --test it json::`.

| Key | Type | Description | In a client's line | In the line `total` |
| --- | --- | --- | --- | --- |
";

const PLAN: &str = "
## Drives that are needed

`weir plan --json FILE` writes one object for each kind of drive and policy, in the order in which the table shows them. Each object has all of these keys:

| Key | Type | Description |
| --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meter, RunId, to_line};

    /// Tests the key of failures here, because no run of the command has any.
    #[test]
    fn failures_have_the_documented_key() {
        let mut meter = Meter::new(0, 1_000_000_000);
        meter.sent(10);
        meter.failed(20, 4096);
        let line = to_line(&RunId::default().record("client", &meter));
        assert!(line.contains("\"errors\":1"), "{line}");
        assert!(KEYS.iter().any(|key| key.is("errors")));
    }
}
