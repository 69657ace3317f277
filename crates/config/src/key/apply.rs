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
    about: "The file that `weir apply` reads. It states the same contracts as a server's file, and Weir translates them into kernel settings, \
            which keep them as well as the kernel can.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Table("one `[drive.NAME]` for each drive"),
            default: DefaultValue::Needed,
            about: "The block devices whose bandwidth is shared.",
            example: "{ fast = { device = \"/dev/disk/by-id/ata-x\", policy = \"bfq\" } }",
        },
        Key {
            name: "volume",
            kind: Kind::Table("one `[volume.NAME]` for each cgroup on a drive"),
            default: DefaultValue::Value("{}"),
            about: "The cgroups that share the drives.",
            example: "{ alpha = { drive = \"fast\", cgroup = \"/alpha\" } }",
        },
        Key {
            name: "tenant",
            kind: Kind::Table("one `[tenant.NAME]` for each cgroup over others"),
            default: DefaultValue::Value("{}"),
            about: "Parent cgroups, each of which contains the cgroups of several volumes.",
            example: "{ acme = { drive = \"fast\", cgroup = \"/acme\" } }",
        },
    ]],
};

pub(crate) const APPLY_DRIVE: Shape = Shape {
    name: "[drive.NAME] for the kernel",
    about: "A block device. The tunables of the policy's elevator are written in the same table, for example `bfq = { ... }`.",
    keys: &[&[
        Key {
            name: "device",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Needed,
            about: "The whole device, not a partition. Use a stable link from `/dev/disk/by-id` if possible, because names such as `/dev/sda` \
                    can change at boot.",
            example: "\"/dev/disk/by-id/ata-x\"",
        },
        Key {
            name: "policy",
            kind: Kind::Text(
                "a [policy](#policies) that Linux has, optionally followed by controllers, as in `\"bfq + io.max\"`; or the path of a policy's \
                 file",
            ),
            default: DefaultValue::Needed,
            about: "The elevator and the controllers with which the kernel shares the device.",
            example: "\"bfq + io.max\"",
        },
        Key {
            name: "capacity",
            kind: Kind::Table("`capacity = { ... }`"),
            default: DefaultValue::Words(
                "unknown, so no minimum can be promised; if `model` is set, the capacity is found by running the model",
            ),
            about: "The throughput that the drive sustains in the worst case. `weir calibrate` measures it. If the drive has promises, the \
                    weights are calculated from it.",
            example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
        },
        Key {
            name: "model",
            kind: Kind::Other(
                "string: a drive that `weir drives` lists; or a table: a [model](#models)",
            ),
            default: DefaultValue::Words("none: no prediction is made"),
            about: "A model of the drive. `weir apply` simulates the contracts on it before it writes any kernel setting.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "queue",
            kind: Kind::Table("`[drive.NAME.queue]`"),
            default: DefaultValue::Value("{}"),
            about: "Other settings of the device's queue. A setting that is not listed is not changed.",
            example: "{ nr_requests = 256 }",
        },
    ]],
};

pub(crate) const QUEUE: Shape = Shape {
    name: "[drive.NAME.queue]",
    about: "Settings of the block device's queue: files in its `queue` directory in sysfs.",
    keys: &[&[
        Key {
            name: "nr_requests",
            kind: Kind::Count(4, 65_536),
            default: DefaultValue::Words("the kernel's default for the elevator"),
            about: "The maximum number of requests in the elevator and the drive together, for each hardware queue.",
            example: "256",
        },
        Key {
            name: "read_ahead",
            kind: Kind::Size(0, 1 << 30, 4096),
            default: DefaultValue::Words("not changed"),
            about: "The maximum amount that the page cache reads ahead (`read_ahead_kb`).",
            example: "\"128KiB\"",
        },
        Key {
            name: "nomerges",
            kind: Kind::Count(0, 2),
            default: DefaultValue::Words("not changed"),
            about: "How requests are merged. 0 merges all adjacent requests, 1 only those that are found without a search, 2 none.",
            example: "2",
        },
        Key {
            name: "rotational",
            kind: Kind::Flag,
            default: DefaultValue::Words("not changed"),
            about: "Whether the drive has to seek. Elevators and `io.cost` adjust their behaviour to it.",
            example: "true",
        },
        Key {
            name: "max_transfer",
            kind: Kind::Size(4096, 1 << 30, 1024),
            default: DefaultValue::Words("not changed"),
            about: "The maximum size of one command (`max_sectors_kb`). Longer requests are split.",
            example: "\"128KiB\"",
        },
        Key {
            name: "write_back_latency",
            kind: Kind::Time(Span::ZERO, Span::from_secs(60)),
            default: DefaultValue::Words("not changed"),
            about: "The latency target of write-back throttling (`wbt_lat_usec`). Zero turns the throttling off.",
            example: "\"75ms\"",
        },
    ]],
};

/// The keys that say which cgroup it is.
static CGROUP: &[Key] = &[
    Key {
        name: "cgroup",
        kind: Kind::Text(
            "the path of a cgroup, relative to the mount point of the cgroup file system",
        ),
        default: DefaultValue::Words("none"),
        about: "The cgroup to which the contract applies. It is created if it does not exist. Set either `cgroup` or `unit`.",
        example: "\"/alpha\"",
    },
    Key {
        name: "unit",
        kind: Kind::Text(
            "the name of a systemd unit that has a cgroup: a service, a scope or a slice",
        ),
        default: DefaultValue::Words("none"),
        about: "The systemd unit to whose cgroup the contract applies. Set either `cgroup` or `unit`.",
        example: "\"postgresql.service\"",
    },
    Key {
        name: "prio_class",
        kind: Kind::Word(&["no-change", "promote-to-rt", "restrict-to-be", "idle"]),
        default: DefaultValue::Words("not changed"),
        about: "How the kernel treats the I/O priorities that processes of the cgroup request (`io.prio.class`). The elevators `bfq` and \
                `mq-deadline` obey these priorities.",
        example: "\"restrict-to-be\"",
    },
];

pub(crate) const APPLY_VOLUME: Shape = Shape {
    name: "[volume.NAME] for the kernel",
    about: "A cgroup with a [contract](#contracts) on a drive. It takes the place of a volume in a server's file.",
    keys: &[
        &[
            Key {
                name: "drive",
                kind: Kind::Text("the NAME of a `[drive.NAME]`"),
                default: DefaultValue::Needed,
                about: "The drive to which the contract applies.",
                example: "\"fast\"",
            },
            Key {
                name: "tenant",
                kind: Kind::Text("the NAME of a `[tenant.NAME]`"),
                default: DefaultValue::Words("none"),
                about: "The tenant in whose cgroup this cgroup is. Both must be on the same drive.",
                example: "\"acme\"",
            },
        ],
        CGROUP,
        contract::KEYS,
    ],
};

pub(crate) const APPLY_TENANT: Shape = Shape {
    name: "[tenant.NAME] for the kernel",
    about: "A cgroup that contains the cgroups of several volumes of one drive, with a [contract](#contracts) for all of them together.",
    keys: &[
        &[Key {
            name: "drive",
            kind: Kind::Text("the NAME of a `[drive.NAME]`"),
            default: DefaultValue::Needed,
            about: "The drive to which the contract applies.",
            example: "\"fast\"",
        }],
        CGROUP,
        contract::KEYS,
    ],
};
