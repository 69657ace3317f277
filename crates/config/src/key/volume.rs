//! `[volume.NAME]` and `[tenant.NAME]`.

use super::{DefaultValue, Key, Kind, Shape, contract, words};
use crate::notify::CallRule;
use weir_core::Span;

pub(crate) const VOLUME: Shape = Shape {
    name: "[volume.NAME]",
    about: "What a client sees as one disk: an NBD export of that name, which has 1 to 255 bytes. It has one storage (`file`, `device`, \
            `nbd`, `memory` or `model`), unless its drive is a model.",
    keys: &[
        &[
            Key {
                name: "drive",
                kind: Kind::Text("the NAME of a `[drive.NAME]`"),
                default: DefaultValue::Needed,
                about: "The drive that the volume lies on.",
                example: "\"fast\"",
            },
            Key {
                name: "file",
                kind: Kind::Text("an absolute path"),
                default: DefaultValue::Words("none"),
                about: "A regular file holds the data. It is created if it is not there, and then needs a `size`; it is preallocated if \
                        something is promised. Its directory must exist.",
                example: "\"/var/lib/weir/alpha.img\"",
            },
            Key {
                name: "device",
                kind: Kind::Text("an absolute path"),
                default: DefaultValue::Words("none"),
                about: "A block device holds the data.",
                example: "\"/dev/disk/by-id/beta\"",
            },
            Key {
                name: "nbd",
                kind: Kind::Text("an NBD URI"),
                default: DefaultValue::Words("none"),
                about: "An export of another NBD server holds the data: `nbd://host:port/export` or `nbd+unix:///export?socket=/path` \
                        (`docs/remote.md`). `[volume.NAME.remote]` says more.",
                example: "\"nbd+unix:///alpha?socket=/run/pool.sock\"",
            },
            Key {
                name: "remote",
                kind: Kind::Table("`[volume.NAME.remote]`"),
                default: DefaultValue::Words("each of its defaults"),
                about: "How the server of `nbd` is used.",
                example: "{ connections = 2 }",
            },
            Key {
                name: "memory",
                kind: Kind::Other("`true`"),
                default: DefaultValue::Words("none"),
                about: "Memory holds the data, zeroes at first.",
                example: "true",
            },
            Key {
                name: "model",
                kind: Kind::Other("as `model` of a drive"),
                default: DefaultValue::Words("none"),
                about: "The drive that the volume lies on is this model. All volumes of one drive have one model.",
                example: "\"demo\"",
            },
            Key {
                name: "size",
                kind: Kind::Size(512, 4096 << 50, 512),
                default: DefaultValue::Words(
                    "as large as the file, the device or the export is; needed for others",
                ),
                about: "Its size; a multiple of 4096 bytes for files and devices, unless `cache` is `\"host\"`. A reload can make it larger (`docs/guests.md`).",
                example: "\"8GiB\"",
            },
            Key {
                name: "read_only",
                kind: Kind::Flag,
                default: DefaultValue::Value("false"),
                about: "Writes are refused.",
                example: "true",
            },
            Key {
                name: "cache",
                kind: Kind::Word(&["direct", "host"]),
                default: DefaultValue::Value("\"direct\""),
                about: "`\"direct\"` opens the file past the host's page cache. `\"host\"` is for files only, and such a volume can be promised \
                        nothing.",
                example: "\"host\"",
            },
            Key {
                name: "listen",
                kind: Kind::Table("`[volume.NAME.listen]`"),
                default: DefaultValue::Words("NBD alone"),
                about: "Where this volume alone is found, beside NBD or without it.",
                example: "{ vhost = \"/run/weir/alpha.vhost.sock\" }",
            },
            Key {
                name: "ublk",
                kind: Kind::Flag,
                default: DefaultValue::Value("false"),
                about: "The volume is a block device of this machine, `/dev/ublkbN`, with the drive's number of requests at a time and its \
                        longest transfer (`docs/ublk.md`). It comes and goes with a reload, too.",
                example: "true",
            },
            Key {
                name: "ublk_number",
                kind: Kind::Count(0, (1 << 20) - 1),
                default: DefaultValue::Words("any that is free"),
                about: "N of `/dev/ublkbN`, where `ublk` is set.",
                example: "7",
            },
            Key {
                name: "tenant",
                kind: Kind::Text("the NAME of a `[tenant.NAME]`"),
                default: DefaultValue::Words("none: a group of its own"),
                about: "The tenant whose group it belongs to, of the same drive.",
                example: "\"acme\"",
            },
            Key {
                name: "shared",
                kind: Kind::Text("a name of 1 to 64 letters, digits, `.`, `_` and `-`"),
                default: DefaultValue::Words("its min is this server's alone"),
                about: "All servers that give a volume this name keep its min together: it is split among them by demand, and all parts \
                        together are never more than it (`docs/gateways.md`). Needs `[gateways]`, a min, and a policy that keeps it. Each \
                        drive admits the whole.",
                example: "\"alpha\"",
            },
        ],
        contract::KEYS,
    ],
};

pub(crate) const ATTACH: Shape = Shape {
    name: "[volume.NAME.listen]",
    about: "Where one volume is found by clients that do not say which they want. It comes and goes with the volume, and is fixed in between.",
    keys: &[&[
        Key {
            name: "vhost",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Needed,
            about: "A Unix socket at which virtual machines find the volume as a disk of virtio, by `vhost-user` (`docs/guests.md`). It has \
                the mode and the owner that `[listen]` says. A process that may connect may read and write the volume.",
            example: "\"/run/weir/alpha.vhost.sock\"",
        },
        Key {
            name: "spin",
            kind: Kind::Time(Span::from_micros(1), Span::from_millis(10)),
            default: DefaultValue::Words("none"),
            about: "For this time after a virtual machine's last request its queues are looked at all the time: no wake-up for what comes \
                    meanwhile, for a processor that does nothing else. Not beside `sleep`.",
            example: "\"20us\"",
        },
        Key {
            name: "sleep",
            kind: Kind::Time(Span::from_micros(1), Span::from_millis(100)),
            default: DefaultValue::Words(
                "none: each kick wakes the server, unless kicks come again and again without work",
            ),
            about: "A queue wakes the server at most once in this time: less processor time, and latency of up to as much.",
            example: "\"200us\"",
        },
        Key {
            name: "calls",
            kind: Kind::Word(&words::<_, 3>(&CallRule::WORDS)),
            default: DefaultValue::Value("\"gather\""),
            about: "When a virtual machine is called. `\"gather\"`: by `call_count` and `call_delay`. `\"vic\"`: by how many requests it has under \
                    way; with few for each. `\"spdk\"`: by the rate of answers; `call_delay` is the time between calls at 120,000 a second, \
                    and below 60,000 there is one for each. Under the latter two `call_count`, and under `\"vic\"` `call_delay`, are the most that wait.",
            example: "\"vic\"",
        },
        Key {
            name: "call_count",
            kind: Kind::Count(1, 256),
            default: DefaultValue::Value("1"),
            about: "A virtual machine is called when this number of requests are answered, or `call_delay` has passed. 1 calls for each, or for \
                    as many as are answered together.",
            example: "8",
        },
        Key {
            name: "call_delay",
            kind: Kind::Time(Span::ZERO, Span::from_millis(10)),
            default: DefaultValue::Value("\"0s\""),
            about: "The longest that an answer waits for others before the virtual machine is called; zero calls at once.",
            example: "\"100us\"",
        },
    ]],
};

pub(crate) const REMOTE: Shape = Shape {
    name: "[volume.NAME.remote]",
    about: "How the server of a volume with `nbd` is used. Fixed while the server runs.",
    keys: &[&[
        Key {
            name: "connections",
            kind: Kind::Count(1, 16),
            default: DefaultValue::Value("4"),
            about: "Connections to it; one where it does not say that several are one (`CAN_MULTI_CONN`).",
            example: "2",
        },
        Key {
            name: "requests",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("64"),
            about: "The most that a connection has unanswered at a time.",
            example: "16",
        },
        Key {
            name: "wait",
            kind: Kind::Time(Span::ZERO, Span::from_secs(24 * 3600)),
            default: DefaultValue::Value("\"30s\""),
            about: "How long requests wait for a server that is away. Then they fail with an I/O error until it is back.",
            example: "\"5min\"",
        },
        Key {
            name: "unflushed",
            kind: Kind::Size(16 << 20, 16 << 30, 1 << 20),
            default: DefaultValue::Value("\"64MiB\""),
            about: "Memory for copies of what was written and not flushed, which is written again to a server that comes back. When \
                    half of it is taken the volume is flushed.",
            example: "\"256MiB\"",
        },
    ]],
};

pub(crate) const TENANT: Shape = Shape {
    name: "[tenant.NAME]",
    about: "A group over several volumes of one drive, with a contract for all of them together.",
    keys: &[
        &[Key {
            name: "drive",
            kind: Kind::Text("the NAME of a `[drive.NAME]`"),
            default: DefaultValue::Needed,
            about: "The drive that its volumes lie on.",
            example: "\"fast\"",
        }],
        contract::KEYS,
    ],
};
