//! `[drive.NAME]`.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const DRIVE: Shape = Shape {
    name: "[drive.NAME]",
    about: "One scheduling domain: all volumes that share one physical drive. Its name has 1 to 255 bytes. If the drive is a model (`model`, \
            here or in one of its volumes), the model determines `queues`, `tags`, `max_transfer` and `rotational`, and these keys cannot be \
            set.",
    keys: &[&[
        Key {
            name: "policy",
            kind: Kind::Text(
                "a [policy](#policies) that `weir policies` lists, optionally followed by controllers, as in `\"bfq + io.latency\"`; or the \
                 path of a policy's file, which contains a slash or ends in `.toml` and is relative to the directory of this file",
            ),
            default: DefaultValue::Value("\"contract\""),
            about: "The policy by which the drive is shared. A policy determines the effect of each part of a contract; `weir check` warns \
                    about the parts that it does not keep. The tunables of its elevator are written in the same table, for example `bfq = { \
                    ... }`.",
            example: "\"bfq\"",
        },
        Key {
            name: "capacity",
            kind: Kind::Table("`capacity = { ... }`"),
            default: DefaultValue::Words(
                "unknown, so no minimum can be promised; the capacity of a model is found by running the model",
            ),
            about: "The throughput that the drive sustains in the worst case. `weir calibrate` measures it. Promises are admitted up to 90 % \
                    of it.",
            example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
        },
        Key {
            name: "queues",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("1"),
            about: "The number of hardware queues. `queues` times `tags` is at most 65536.",
            example: "4",
        },
        Key {
            name: "tags",
            kind: Kind::Count(1, 4096),
            default: DefaultValue::Words(
                "`32`; `256` if `contract.remote` states that the drive is a server across a network",
            ),
            about: "The number of requests that each hardware queue accepts at a time.",
            example: "64",
        },
        Key {
            name: "max_transfer",
            kind: Kind::Size(4096, 1 << 30, 512),
            default: DefaultValue::Words(
                "`\"128KiB\"`; `\"1280KiB\"` if `rotational` is true or the drive is a server across a network",
            ),
            about: "The maximum size of one command to the drive. Longer requests are split.",
            example: "\"1MiB\"",
        },
        Key {
            name: "rotational",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "Whether the drive is a rotating disk, which has to seek. Elevators adjust their behaviour to it, and NBD clients are \
                    informed of it. If the key is not set, `weir check` prints a note when the kernel reports a rotational device below a \
                    volume.",
            example: "true",
        },
        Key {
            name: "model",
            kind: Kind::Other(
                "string: a drive that `weir drives` lists; or a table: a [model](#models)",
            ),
            default: DefaultValue::Words("none: the data are in the volumes' files and devices"),
            about: "A timing model that takes the place of a real drive. The volumes of the drive keep their data in memory, and the model \
                    determines when each request completes.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "path",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "For laboratories: the time that a request needs from the client to the model and back. The model completes requests \
                    earlier by this time, so that a client observes the drive's own latency. Without a model the key has no effect.",
            example: "\"50us\"",
        },
        Key {
            name: "limits",
            kind: Kind::Table("`[drive.NAME.limits]`"),
            default: DefaultValue::Value("{}"),
            about: "Sizes of the tables that the server allocates for the drive.",
            example: "{ volumes = 16 }",
        },
    ]],
};

/// Most requests a second that a capacity can state.
const IOPS_MAX: u64 = 1_000_000_000_000_000;

pub(crate) const CAPACITY: Shape = Shape {
    name: "capacity = { ... }",
    about: "The throughput that the drive sustains in the worst case. Each figure is for one kind of request alone. Promises are compared with \
            the smallest figure that applies.",
    keys: &[&[
        Key {
            name: "read",
            kind: Kind::Rate,
            default: DefaultValue::Needed,
            about: "Bytes per second of sequential reads.",
            example: "\"160MB/s\"",
        },
        Key {
            name: "write",
            kind: Kind::Rate,
            default: DefaultValue::Needed,
            about: "Bytes per second of sequential writes.",
            example: "\"120MB/s\"",
        },
        Key {
            name: "iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Requests per second, of any kind, of 4 KiB at random positions.",
            example: "20000",
        },
        Key {
            name: "read_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Reads per second, of 4 KiB at random positions.",
            example: "30000",
        },
        Key {
            name: "write_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Writes per second, of 4 KiB at random positions.",
            example: "20000",
        },
    ]],
};

pub(crate) const DRIVE_LIMITS: Shape = Shape {
    name: "[drive.NAME.limits]",
    about: "Sizes of the tables that the server allocates for one drive. They cannot be changed while the server runs.",
    keys: &[&[
        Key {
            name: "requests",
            kind: Kind::Count(2, 1 << 20),
            default: DefaultValue::Words("sixteen times `limits.connections`, but at least 4096"),
            about: "The maximum number of requests of all connections together that are not completed. It must be at least eight times \
                    `limits.connections`, or at least twice `limits.requests_per_connection` if that is less.",
            example: "8192",
        },
        Key {
            name: "scheduler_tags",
            kind: Kind::Count(1, 1 << 20),
            default: DefaultValue::Words("the value of `requests`"),
            about: "The maximum number of requests in the elevator and the drive together, for each hardware queue (Linux: `nr_requests`).",
            example: "512",
        },
        Key {
            name: "volumes",
            kind: Kind::Count(1, 65_536),
            default: DefaultValue::Value("1024"),
            about: "The maximum number of volumes of the drive, including those that a reload adds.",
            example: "16",
        },
        Key {
            name: "tenants",
            kind: Kind::Count(0, 65_536),
            default: DefaultValue::Value("256"),
            about: "The maximum number of tenants of the drive, including those that a reload adds.",
            example: "4",
        },
    ]],
};
