//! The keys of a contract: those of volumes and tenants alike.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

/// Most requests a second that a contract can name.
const IOPS_MAX: u64 = 1_000_000_000_000;

pub(crate) static KEYS: &[Key] = &[
    Key {
        name: "min",
        kind: Kind::Rate,
        default: DefaultValue::Words("nothing"),
        about: "Bytes a second that are promised in every second in which a request was waiting throughout. Takes a drive of known capacity.",
        example: "\"10MB/s\"",
    },
    Key {
        name: "min_iops",
        kind: Kind::Count(1, IOPS_MAX),
        default: DefaultValue::Words("nothing"),
        about: "Requests a second that are promised in every second in which a request was waiting throughout. Takes a drive whose capacity in requests is known.",
        example: "100",
    },
    Key {
        name: "share",
        kind: Kind::Count(1, 10_000),
        default: DefaultValue::Value("100"),
        about: "Its weight: how what promises leave is divided.",
        example: "200",
    },
    Key {
        name: "max",
        kind: Kind::Table("`max = { ... }`"),
        default: DefaultValue::Words("no limit"),
        about: "What is never exceeded; a rate alone, as `max = \"50MB/s\"`, is its `bandwidth`.",
        example: "{ bandwidth = \"50MB/s\" }",
    },
    Key {
        name: "class",
        kind: Kind::Word(&["realtime", "best-effort", "idle"]),
        default: DefaultValue::Value("\"best-effort\""),
        about: "`\"realtime\"` is answered before all others and needs a `max`; `\"idle\"` gets what nobody else wants and can have no min.",
        example: "\"idle\"",
    },
    Key {
        name: "latency",
        kind: Kind::Time(Span::from_micros(1), Span::from_secs(60)),
        default: DefaultValue::Words("no target"),
        about: "A target for the latency of its requests, as Linux's `io.latency` has it: others are held back while it is missed.",
        example: "\"10ms\"",
    },
    Key {
        name: "low",
        kind: Kind::Text("a line as in Linux's file `io.low`"),
        default: DefaultValue::Words("its min is the low limit"),
        about: "Its low limits under policies with io.low, in the place of its min: `rbps`, `wbps`, `riops` and `wiops` a second (or `max`), `idle` and \
                `latency` in microseconds. What is not named is not limited, or as the policy has it.",
        example: "\"rbps=10485760 wbps=max idle=1000 latency=100\"",
    },
];

pub(crate) const MAX: Shape = Shape {
    name: "max = { ... }",
    about: "Limits that hold in every window of time: at most rate times window, `burst`, and one request. At least one rate is needed.",
    keys: &[&[
        Key {
            name: "bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes a second, reads and writes together.",
            example: "\"50MB/s\"",
        },
        Key {
            name: "read_bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes a second read.",
            example: "\"40MB/s\"",
        },
        Key {
            name: "write_bandwidth",
            kind: Kind::Rate,
            default: DefaultValue::Words("no limit"),
            about: "Bytes a second written.",
            example: "\"30MB/s\"",
        },
        Key {
            name: "iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Requests a second, reads and writes together. A request counts as its client sent it, however many commands the drive takes for \
                    it. Under `io.max` and `io.low`, each command of at most `max_transfer` counts, as in Linux.",
            example: "5000",
        },
        Key {
            name: "read_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Reads a second.",
            example: "4000",
        },
        Key {
            name: "write_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("no limit"),
            about: "Writes a second.",
            example: "3000",
        },
        Key {
            name: "iops_size",
            kind: Kind::Size(512, 1 << 30, 512),
            default: DefaultValue::Words("every request counts as one"),
            about: "Bytes that count as one request in `iops`, `read_iops` and `write_iops`: with `\"256KiB\"` a request of 1 MiB counts as four. \
                    Policies with `io.max` ignore it, because Linux has nothing like it.",
            example: "\"256KiB\"",
        },
        Key {
            name: "burst",
            kind: Kind::Time(Span::ZERO, Span::from_secs(3600)),
            default: DefaultValue::Value("\"0s\""),
            about: "How much of each rate may be used at once after a pause, as time.",
            example: "\"2s\"",
        },
    ]],
};
