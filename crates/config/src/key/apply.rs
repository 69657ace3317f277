//! The tables of a file for the kernel of a host, which `weir apply` reads.

use super::{CAPACITY, DefaultValue, Key, Kind, MAX, Shape, contract};
use weir_core::Span;

/// Every shape of such a file.
pub(crate) const APPLIES: &[&Shape] = &[
    &APPLY,
    &APPLY_DRIVE,
    &CAPACITY,
    &QUEUE,
    &APPLY_VOLUME,
    &APPLY_TENANT,
    &MAX,
];

pub(crate) const APPLY: Shape = Shape {
    name: "a file for the kernel",
    about: "What `weir apply` reads: the contracts of the server's file, kept as well as the kernel can.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Table("one `[drive.NAME]` for each drive"),
            default: DefaultValue::Needed,
            about: "The block devices that are shared.",
            example: "{ fast = { device = \"/dev/disk/by-id/ata-x\", policy = \"bfq\" } }",
        },
        Key {
            name: "volume",
            kind: Kind::Table("one `[volume.NAME]` for each cgroup on a drive"),
            default: DefaultValue::Value("{}"),
            about: "The cgroups that share them.",
            example: "{ alpha = { drive = \"fast\", cgroup = \"/alpha\" } }",
        },
        Key {
            name: "tenant",
            kind: Kind::Table("one `[tenant.NAME]` for each cgroup over others"),
            default: DefaultValue::Value("{}"),
            about: "Cgroups over several of them.",
            example: "{ acme = { drive = \"fast\", cgroup = \"/acme\" } }",
        },
    ]],
};

pub(crate) const APPLY_DRIVE: Shape = Shape {
    name: "[drive.NAME] for the kernel",
    about: "A block device. The tunables of its policy's elevator stand beside it, as `bfq = { ... }`.",
    keys: &[&[
        Key {
            name: "device",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Needed,
            about: "The whole device, best by a link that stays: one of `/dev/disk/by-id`.",
            example: "\"/dev/disk/by-id/ata-x\"",
        },
        Key {
            name: "policy",
            kind: Kind::Text(
                "a [policy](#policies) that Linux has, with controllers behind it, as `\"bfq + io.max\"`; or a policy's file",
            ),
            default: DefaultValue::Needed,
            about: "How the kernel is to share it.",
            example: "\"bfq + io.max\"",
        },
        Key {
            name: "capacity",
            kind: Kind::Table("`capacity = { ... }`"),
            default: DefaultValue::Words(
                "unknown: nothing can be promised; a model's is found by running the model",
            ),
            about: "What the drive does at the least; `weir calibrate` finds it. Weights follow from it where something is promised.",
            example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
        },
        Key {
            name: "model",
            kind: Kind::Other(
                "string: a drive that `weir drives` lists; or a table: a [model](#models)",
            ),
            default: DefaultValue::Words("none: nothing is said beforehand of what comes of it"),
            about: "A model of the drive, on which `weir apply` tries the contracts before it writes anything.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "queue",
            kind: Kind::Table("`[drive.NAME.queue]`"),
            default: DefaultValue::Value("{}"),
            about: "What else is set of its queue. What is not named stays as it is.",
            example: "{ nr_requests = 256 }",
        },
    ]],
};

pub(crate) const QUEUE: Shape = Shape {
    name: "[drive.NAME.queue]",
    about: "Files of the directory `queue` of a device.",
    keys: &[&[
        Key {
            name: "nr_requests",
            kind: Kind::Count(4, 65_536),
            default: DefaultValue::Words("as the kernel chooses for the elevator"),
            about: "Requests in the elevator and the drive together, for each hardware queue.",
            example: "256",
        },
        Key {
            name: "read_ahead",
            kind: Kind::Size(0, 1 << 30, 4096),
            default: DefaultValue::Words("as it is"),
            about: "How far the page cache reads ahead (`read_ahead_kb`).",
            example: "\"128KiB\"",
        },
        Key {
            name: "nomerges",
            kind: Kind::Count(0, 2),
            default: DefaultValue::Words("as it is"),
            about: "0 merges requests, 1 only those that are found at once, 2 none.",
            example: "2",
        },
        Key {
            name: "rotational",
            kind: Kind::Flag,
            default: DefaultValue::Words("as it is"),
            about: "Whether it seeks: elevators and io.cost go by it.",
            example: "true",
        },
        Key {
            name: "max_transfer",
            kind: Kind::Size(4096, 1 << 30, 1024),
            default: DefaultValue::Words("as it is"),
            about: "Bytes of one command (`max_sectors_kb`).",
            example: "\"128KiB\"",
        },
        Key {
            name: "write_back_latency",
            kind: Kind::Time(Span::ZERO, Span::from_secs(60)),
            default: DefaultValue::Words("as it is"),
            about: "The target of write-back throttling (`wbt_lat_usec`); zero is off.",
            example: "\"75ms\"",
        },
    ]],
};

/// The keys that say which cgroup it is.
static CGROUP: &[Key] = &[
    Key {
        name: "cgroup",
        kind: Kind::Text("the path of a cgroup below where they are mounted"),
        default: DefaultValue::Words("none"),
        about: "The cgroup; it is made if it is not there. One of `cgroup` and `unit` is needed.",
        example: "\"/alpha\"",
    },
    Key {
        name: "unit",
        kind: Kind::Text(
            "the name of a unit of systemd that has a cgroup: a service, a scope or a slice",
        ),
        default: DefaultValue::Words("none"),
        about: "The unit whose cgroup it is.",
        example: "\"postgresql.service\"",
    },
    Key {
        name: "prio_class",
        kind: Kind::Word(&["no-change", "promote-to-rt", "restrict-to-be", "idle"]),
        default: DefaultValue::Words("as it is"),
        about: "What becomes of the I/O priorities that processes of the cgroup ask for (`io.prio.class`); bfq and mq-deadline go by them.",
        example: "\"restrict-to-be\"",
    },
];

pub(crate) const APPLY_VOLUME: Shape = Shape {
    name: "[volume.NAME] for the kernel",
    about: "A cgroup with a [contract](#contracts) on a drive, in the place of a served volume.",
    keys: &[
        &[
            Key {
                name: "drive",
                kind: Kind::Text("the NAME of a `[drive.NAME]`"),
                default: DefaultValue::Needed,
                about: "The drive that the contract is for.",
                example: "\"fast\"",
            },
            Key {
                name: "tenant",
                kind: Kind::Text("the NAME of a `[tenant.NAME]`"),
                default: DefaultValue::Words("none"),
                about: "The tenant in whose cgroup it is, of the same drive.",
                example: "\"acme\"",
            },
        ],
        CGROUP,
        contract::KEYS,
    ],
};

pub(crate) const APPLY_TENANT: Shape = Shape {
    name: "[tenant.NAME] for the kernel",
    about: "A cgroup over those of several volumes of one drive, with a [contract](#contracts) for all of them together.",
    keys: &[
        &[Key {
            name: "drive",
            kind: Kind::Text("the NAME of a `[drive.NAME]`"),
            default: DefaultValue::Needed,
            about: "The drive that the contract is for.",
            example: "\"fast\"",
        }],
        CGROUP,
        contract::KEYS,
    ],
};
