//! `[drive.NAME]`.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const DRIVE: Shape = Shape {
    name: "[drive.NAME]",
    about: "One scheduling domain: what shares one physical drive. Its name has 1 to 255 bytes. Where it is a model (`model`, here or in \
            one of its volumes), the model says `queues`, `tags`, `max_transfer` and `rotational`, and they may not be said again.",
    keys: &[&[
        Key {
            name: "policy",
            kind: Kind::Text(
                "a [policy](#policies) that `weir policies` lists; with controllers behind it, as `\"bfq + io.latency\"`; or a policy's \
                 file, which has a slash or ends in `.toml` and is looked for beside this one",
            ),
            default: DefaultValue::Value("\"contract\""),
            about: "How the drive is shared. A policy says what becomes of each part of a contract; `weir check` warns of what it does not \
                    keep. The tunables of its elevator stand beside it, as `bfq = { ... }`.",
            example: "\"bfq\"",
        },
        Key {
            name: "capacity",
            kind: Kind::Table("`capacity = { ... }`"),
            default: DefaultValue::Words(
                "unknown: nothing can be promised; a model's is found by running the model",
            ),
            about: "What the drive does at the least; `weir calibrate` finds it. Promises are admitted up to nine tenths of it.",
            example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
        },
        Key {
            name: "queues",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("1"),
            about: "Hardware queues. `queues` times `tags` is at most 65536.",
            example: "4",
        },
        Key {
            name: "tags",
            kind: Kind::Count(1, 4096),
            default: DefaultValue::Words(
                "`32`; `256` where `contract.remote` says that the drive is a server across a network",
            ),
            about: "Requests that each queue takes at a time.",
            example: "64",
        },
        Key {
            name: "max_transfer",
            kind: Kind::Size(4096, 1 << 30, 512),
            default: DefaultValue::Words(
                "`\"128KiB\"`; `\"1280KiB\"` where `rotational` is true or the drive is a server across a network",
            ),
            about: "Bytes that the drive takes in one command. Longer requests are split.",
            example: "\"1MiB\"",
        },
        Key {
            name: "rotational",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "True for a disk: it seeks. Elevators go by it, and clients of NBD are told it. If the key is not stated, \
                `weir check` notes where the kernel says otherwise of the device below a volume.",
            example: "true",
        },
        Key {
            name: "model",
            kind: Kind::Other(
                "string: a drive that `weir drives` lists; or a table: a [model](#models)",
            ),
            default: DefaultValue::Words("none: the volumes' files and devices are the drive"),
            about: "The drive is a timing model. Its volumes hold their data in memory, and the model says when a request is over.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "path",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "For laboratories: what the way from a client to the model and back takes. Answers of the model come sooner by it, so that a \
                    client sees the drive's own times. Without a model it means nothing.",
            example: "\"50us\"",
        },
        Key {
            name: "limits",
            kind: Kind::Table("`[drive.NAME.limits]`"),
            default: DefaultValue::Value("{}"),
            about: "Sizes of the drive's tables.",
            example: "{ volumes = 16 }",
        },
    ]],
};

/// Most requests a second that a capacity can state.
const IOPS_MAX: u64 = 1_000_000_000_000_000;

pub(crate) const CAPACITY: Shape = Shape {
    name: "capacity = { ... }",
    about: "What the drive does at the least, of each kind alone. Promises are held against the least that is stated.",
    keys: &[&[
        Key {
            name: "read",
            kind: Kind::Rate,
            default: DefaultValue::Needed,
            about: "Bytes a second read in sequence.",
            example: "\"160MB/s\"",
        },
        Key {
            name: "write",
            kind: Kind::Rate,
            default: DefaultValue::Needed,
            about: "Bytes a second written in sequence.",
            example: "\"120MB/s\"",
        },
        Key {
            name: "iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Requests a second of any kind, of 4 KiB at random places.",
            example: "20000",
        },
        Key {
            name: "read_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Reads a second, of 4 KiB at random places.",
            example: "30000",
        },
        Key {
            name: "write_iops",
            kind: Kind::Count(1, IOPS_MAX),
            default: DefaultValue::Words("not stated"),
            about: "Writes a second, of 4 KiB at random places.",
            example: "20000",
        },
    ]],
};

pub(crate) const DRIVE_LIMITS: Shape = Shape {
    name: "[drive.NAME.limits]",
    about: "Sizes of one drive's tables. Fixed while the server runs.",
    keys: &[&[
        Key {
            name: "requests",
            kind: Kind::Count(2, 1 << 20),
            default: DefaultValue::Words("sixteen times `limits.connections`, 4096 at the least"),
            about: "Live requests of all connections together: at least eight for each of `limits.connections`, or twice \
                    `limits.requests_per_connection` where that is less.",
            example: "8192",
        },
        Key {
            name: "scheduler_tags",
            kind: Kind::Count(1, 1 << 20),
            default: DefaultValue::Words("as `requests`"),
            about: "Requests in the elevator and the drive together, for each hardware queue (Linux: `nr_requests`).",
            example: "512",
        },
        Key {
            name: "volumes",
            kind: Kind::Count(1, 65_536),
            default: DefaultValue::Value("1024"),
            about: "Volumes that the drive can have, those that come by reload included.",
            example: "16",
        },
        Key {
            name: "tenants",
            kind: Kind::Count(0, 65_536),
            default: DefaultValue::Value("256"),
            about: "Tenants that the drive can have, those that come by reload included.",
            example: "4",
        },
    ]],
};
