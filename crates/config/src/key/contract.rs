//! The keys of a contract, which volumes, tenants and scenarios share.

use super::{KeyDeclaration, Shape};
use weir_core::Span;

/// The maximum number of requests per second in a contract.
const IOPS_MAX: u64 = 1_000_000_000_000;

pub(crate) const KEYS: &[KeyDeclaration] = keys! {
    min: Rate or "no promise", "\"10MB/s\"",
        "The guaranteed minimum in bytes per second. It applies in every second in which the client has a request waiting throughout. \
         It requires a drive of known capacity.";
    min_iops: Count(1, IOPS_MAX) or "no promise", "100",
        "The guaranteed minimum in requests per second. It applies in every second in which the client has a request waiting \
         throughout. It requires a drive whose capacity in requests per second is known.";
    share: Count(1, 10_000) = "100", "200",
        "The weight with which the capacity left over by all promises is divided. A client with twice the share gets twice as much of it.";
    max: Table("`max = { ... }`") or "no limit", "{ bandwidth = \"50MB/s\" }",
        "The cap, which the client never exceeds. A single rate such as `max = \"50MB/s\"` sets its `bandwidth`.";
    class: Word(&["realtime", "best-effort", "idle"]) = "\"best-effort\"", "\"idle\"",
        "The rank of the contract. `\"realtime\"` is served before all others and requires a `max`. `\"idle\"` is served only while no \
         other client waits, except for one request per `idle_class_timeout` (200 ms), and cannot have a min.";
    latency: Time(Span::from_micros(1), Span::from_secs(60)) or "no target", "\"10ms\"",
        "A latency target for the client's requests, with the meaning of Linux's `io.latency`: while the target is missed, other \
         clients are throttled.";
    low: Text("a line in the format of Linux's file `io.low`") or "the client's min is its low limit",
        "\"rbps=10485760 wbps=max idle=1000 latency=100\"",
        "The client's low limits under policies with `io.low`. They replace its min. `rbps`, `wbps`, `riops` and `wiops` are rates per \
         second (or `max`); `idle` and `latency` are in microseconds. A rate that the line leaves out is not limited; a time that it \
         leaves out has the policy's value.";
};

/// The shape of a contract alone, for settings from the command line.
pub(crate) const CONTRACT: Shape = Shape {
    name: "",
    about: "",
    keys: &[KEYS],
};

pub(crate) const MAX: Shape = Shape {
    name: "max = { ... }",
    about: "Limits on rates. In any window of time, the client gets at most the rate times the length of the window, plus `burst`, plus one \
            request. At least one rate is required.",
    keys: &[keys! {
        bandwidth: Rate or "no limit", "\"50MB/s\"",
            "Bytes per second, reads and writes together.";
        read_bandwidth: Rate or "no limit", "\"40MB/s\"",
            "Bytes per second of reads.";
        write_bandwidth: Rate or "no limit", "\"30MB/s\"",
            "Bytes per second of writes.";
        iops: Count(1, IOPS_MAX) or "no limit", "5000",
            "Requests per second, reads and writes together. Each request that the client sent counts once, however many commands the \
             drive needs for it. Under `io.max` and `io.low`, each command of at most `max_transfer` bytes counts, as in Linux.";
        read_iops: Count(1, IOPS_MAX) or "no limit", "4000",
            "Reads per second.";
        write_iops: Count(1, IOPS_MAX) or "no limit", "3000",
            "Writes per second.";
        iops_size: Size(512, 1 << 30, 512) or "every request counts once, whatever its size", "\"256KiB\"",
            "The number of bytes that count as one request in `iops`, `read_iops` and `write_iops`. For example, with `\"256KiB\"` a \
             request of 1 MiB counts as four. Policies with `io.max` ignore this key, because Linux has no equivalent.";
        burst: Time(Span::ZERO, Span::from_secs(3600)) = "\"0s\"", "\"2s\"",
            "The amount of each rate that the client can use at once after a pause, expressed as time. For example, with `\"2s\"` two \
             seconds' worth of the limit can pass at once.";
    }],
};
