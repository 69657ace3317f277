//! The keys of a contract: those of volumes and tenants alike.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

/// Most requests a second that a contract can name.
const IOPS_MAX: u64 = 1_000_000_000_000;

pub(crate) static KEYS: &[Key] = &[
    Key {
        name: "min",
        kind: Kind::Rate,
        default: DefaultValue::Words("no promise"),
        about: "The guaranteed minimum in bytes per second. It applies in every second in which the client has a request waiting throughout. \
                It requires a drive of known capacity.",
        example: "\"10MB/s\"",
    },
    Key {
        name: "min_iops",
        kind: Kind::Count(1, IOPS_MAX),
        default: DefaultValue::Words("no promise"),
        about: "The guaranteed minimum in requests per second. It applies in every second in which the client has a request waiting \
                throughout. It requires a drive whose capacity in requests per second is known.",
        example: "100",
    },
    Key {
        name: "share",
        kind: Kind::Count(1, 10_000),
        default: DefaultValue::Value("100"),
        about: "The weight with which the capacity left over by all promises is divided. A client with twice the share gets twice as much of it.",
        example: "200",
    },
    Key {
        name: "max",
        kind: Kind::Table("`max = { ... }`"),
        default: DefaultValue::Words("no limit"),
        about: "The cap, which the client never exceeds. A single rate such as `max = \"50MB/s\"` sets its `bandwidth`.",
        example: "{ bandwidth = \"50MB/s\" }",
    },
    Key {
        name: "class",
        kind: Kind::Word(&["realtime", "best-effort", "idle"]),
        default: DefaultValue::Value("\"best-effort\""),
        about: "The rank of the contract. `\"realtime\"` is served before all others and requires a `max`. `\"idle\"` is served only while no \
                other client waits, except for one request per `idle_class_timeout` (200 ms), and cannot have a min.",
        example: "\"idle\"",
    },
    Key {
        name: "latency",
        kind: Kind::Time(Span::from_micros(1), Span::from_secs(60)),
        default: DefaultValue::Words("no target"),
        about: "A latency target for the client's requests, with the meaning of Linux's `io.latency`: while the target is missed, other \
                clients are throttled.",
        example: "\"10ms\"",
    },
    Key {
        name: "low",
        kind: Kind::Text("a line in the format of Linux's file `io.low`"),
        default: DefaultValue::Words("the client's min is its low limit"),
        about: "The client's low limits under policies with `io.low`. They replace its min. `rbps`, `wbps`, `riops` and `wiops` are rates per \
                second (or `max`); `idle` and `latency` are in microseconds. A rate that the line leaves out is not limited; a time that it \
                leaves out has the policy's value.",
        example: "\"rbps=10485760 wbps=max idle=1000 latency=100\"",
    },
];

pub(crate) const MAX: Shape = Shape {
    name: "max = { ... }",
    about: "Limits on rates. In any window of time, the client gets at most the rate times the length of the window, plus `burst`, plus one \
            request. At least one rate is required.",
    keys: &[&[
        Key {
            name: "bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes per second, reads and writes together.",
            example: "\"50MB/s\"",
        },
        Key {
            name: "read_bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes per second of reads.",
            example: "\"40MB/s\"",
        },
        Key {
            name: "write_bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes per second of writes.",
            example: "\"30MB/s\"",
        },
        Key {
            name: "iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Requests per second, reads and writes together. Each request that the client sent counts once, however many commands the \
                    drive needs for it. Under `io.max` and `io.low`, each command of at most `max_transfer` bytes counts, as in Linux.",
            example: "5000",
        },
        Key {
            name: "read_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Reads per second.",
            example: "4000",
        },
        Key {
            name: "write_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Writes per second.",
            example: "3000",
        },
        Key {
            name: "iops_size",
            kind: Kind::Size(512, 1 << 30, 512),
            default: DefaultValue::Words("every request counts once, whatever its size"),
            about: "The number of bytes that count as one request in `iops`, `read_iops` and `write_iops`. For example, with `\"256KiB\"` a \
                    request of 1 MiB counts as four. Policies with `io.max` ignore this key, because Linux has no equivalent.",
            example: "\"256KiB\"",
        },
        Key {
            name: "burst",
            kind: Kind::Time(Span::ZERO, Span::from_secs(3600)),
            default: DefaultValue::Value("\"0s\""),
            about: "The amount of each rate that the client can use at once after a pause, expressed as time. For example, with `\"2s\"` two \
                    seconds' worth of the limit can pass at once.",
            example: "\"2s\"",
        },
    ]],
};
