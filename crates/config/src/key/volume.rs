//! `[volume.NAME]` and `[tenant.NAME]`.

use super::{DefaultValue, Key, Kind, Shape, contract, words};
use crate::notify::CallRule;
use weir_core::Span;

pub(crate) const VOLUME: Shape = Shape {
    name: "[volume.NAME]",
    about: "Storage that clients use as one disk. It is an NBD export of that name, which has 1 to 255 bytes. A volume must have exactly one \
            kind of storage (`file`, `device`, `nbd`, `memory` or `model`), unless its drive is a model.",
    keys: &[
        &[
            Key {
                name: "drive",
                kind: Kind::Text("the NAME of a `[drive.NAME]`"),
                default: DefaultValue::Needed,
                about: "The drive on which the volume is.",
                example: "\"fast\"",
            },
            Key {
                name: "file",
                kind: Kind::Text("an absolute path"),
                default: DefaultValue::Words("none"),
                about: "The volume's data are in this regular file. If the file does not exist, it is created, and `size` is required. It is \
                        preallocated if the volume has a promise. Its directory must exist.",
                example: "\"/var/lib/weir/alpha.img\"",
            },
            Key {
                name: "device",
                kind: Kind::Text("an absolute path"),
                default: DefaultValue::Words("none"),
                about: "The volume's data are on this block device.",
                example: "\"/dev/disk/by-id/beta\"",
            },
            Key {
                name: "nbd",
                kind: Kind::Text("an NBD URI"),
                default: DefaultValue::Words("none"),
                about: "The volume's data are in an export of another NBD server: `nbd://host:port/export` or \
                        `nbd+unix:///export?socket=/path` (`docs/remote.md`). `[volume.NAME.remote]` has its settings.",
                example: "\"nbd+unix:///alpha?socket=/run/pool.sock\"",
            },
            Key {
                name: "remote",
                kind: Kind::Table("`[volume.NAME.remote]`"),
                default: DefaultValue::Words("the defaults of that table"),
                about: "Settings for the connections to the server of `nbd`.",
                example: "{ connections = 2 }",
            },
            Key {
                name: "memory",
                kind: Kind::Other("`true`"),
                default: DefaultValue::Words("none"),
                about: "The volume's data are in memory. They are zero at the start and lost at the end of the server.",
                example: "true",
            },
            Key {
                name: "model",
                kind: Kind::Other("the same as `model` of a drive"),
                default: DefaultValue::Words("none"),
                about: "The model that takes the place of the volume's drive. All volumes of one drive must have the same model.",
                example: "\"demo\"",
            },
            Key {
                name: "size",
                kind: Kind::Size(512, 4096 << 50, 512),
                default: DefaultValue::Words(
                    "the size of the file, the device or the export; required for others",
                ),
                about: "The size of the volume. For files and devices it must be a multiple of 4096 bytes, unless `cache` is `\"host\"`. A \
                        reload can increase it (`docs/guests.md`).",
                example: "\"8GiB\"",
            },
            Key {
                name: "read_only",
                kind: Kind::Flag,
                default: DefaultValue::Value("false"),
                about: "Whether the server refuses writes to the volume.",
                example: "true",
            },
            Key {
                name: "cache",
                kind: Kind::Word(&["direct", "host"]),
                default: DefaultValue::Value("\"direct\""),
                about: "Whether the page cache of the host is used. `\"direct\"` bypasses it. `\"host\"` uses it and is permitted for files \
                        only; such a volume cannot have a promise.",
                example: "\"host\"",
            },
            Key {
                name: "listen",
                kind: Kind::Table("`[volume.NAME.listen]`"),
                default: DefaultValue::Words("NBD only"),
                about: "Access to this volume alone, in addition to NBD or instead of it.",
                example: "{ vhost = \"/run/weir/alpha.vhost.sock\" }",
            },
            Key {
                name: "ublk",
                kind: Kind::Flag,
                default: DefaultValue::Value("false"),
                about: "Whether the volume is a block device of this machine, `/dev/ublkbN`. The device has the queue depth and the maximum \
                        transfer of the drive (`docs/ublk.md`). A reload can also add and remove it.",
                example: "true",
            },
            Key {
                name: "ublk_number",
                kind: Kind::Count(0, (1 << 20) - 1),
                default: DefaultValue::Words("any free number"),
                about: "N of `/dev/ublkbN`, if `ublk` is set.",
                example: "7",
            },
            Key {
                name: "tenant",
                kind: Kind::Text("the NAME of a `[tenant.NAME]`"),
                default: DefaultValue::Words("none: the volume is a group of its own"),
                about: "The tenant to which the volume belongs. Both must be on the same drive.",
                example: "\"acme\"",
            },
            Key {
                name: "shared",
                kind: Kind::Text("a name of 1 to 64 letters, digits, `.`, `_` and `-`"),
                default: DefaultValue::Words("the volume's min applies to this server alone"),
                about: "The name under which several servers divide one min. All servers on which a volume has this name keep its min \
                        together: the min is divided among them by demand, and the sum of all parts never exceeds it (`docs/gateways.md`). It \
                        requires `[gateways]`, a min, and a policy that keeps the min. On each drive, the whole min counts in admission.",
                example: "\"alpha\"",
            },
        ],
        contract::KEYS,
    ],
};

pub(crate) const ATTACH: Shape = Shape {
    name: "[volume.NAME.listen]",
    about: "A socket for one volume, for clients that do not select a volume by name. It is created and removed together with the volume and \
            cannot be changed otherwise.",
    keys: &[&[
        Key {
            name: "vhost",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Needed,
            about: "The Unix socket at which virtual machines attach the volume as a virtio disk through `vhost-user` (`docs/guests.md`). It \
                    has the mode and the owner from `[listen]`. Every process that can connect to it can read and write the volume.",
            example: "\"/run/weir/alpha.vhost.sock\"",
        },
        Key {
            name: "spin",
            kind: Kind::Time(Span::from_micros(1), Span::from_millis(10)),
            default: DefaultValue::Words("none"),
            about: "The time after a virtual machine's last request during which the server polls its queues continuously. Requests in this \
                    time need no wake-up, but the polling occupies a CPU. It cannot be combined with `sleep`.",
            example: "\"20us\"",
        },
        Key {
            name: "sleep",
            kind: Kind::Time(Span::from_micros(1), Span::from_millis(100)),
            default: DefaultValue::Words(
                "none: each kick wakes the server, unless kicks arrive repeatedly without requests",
            ),
            about: "The minimum time between two wake-ups of the server by one queue. It saves CPU time, but adds latency of up to this time.",
            example: "\"200us\"",
        },
        Key {
            name: "calls",
            kind: Kind::Word(&words::<_, 3>(&CallRule::WORDS)),
            default: DefaultValue::Value("\"gather\""),
            about: "The rule for notifying a virtual machine of replies (calls). `\"gather\"` uses `call_count` and `call_delay`. `\"vic\"` \
                    decides by the number of requests in flight; if there are few, each reply causes a call. `\"spdk\"` decides by the rate of \
                    replies: `call_delay` is the time between calls at 120,000 replies per second, and below 60,000 each reply causes a call. \
                    Under `\"vic\"` and `\"spdk\"`, `call_count` is the maximum number of waiting replies; under `\"vic\"`, `call_delay` is \
                    their maximum delay.",
            example: "\"vic\"",
        },
        Key {
            name: "call_count",
            kind: Kind::Count(1, 256),
            default: DefaultValue::Value("1"),
            about: "The number of replies after which a virtual machine is notified, unless `call_delay` has passed before. With 1, it is \
                    notified of each reply, or once for replies that complete together.",
            example: "8",
        },
        Key {
            name: "call_delay",
            kind: Kind::Time(Span::ZERO, Span::from_millis(10)),
            default: DefaultValue::Value("\"0s\""),
            about: "The maximum time that a reply waits for others before the virtual machine is notified. With zero, it is notified at once.",
            example: "\"100us\"",
        },
    ]],
};

pub(crate) const REMOTE: Shape = Shape {
    name: "[volume.NAME.remote]",
    about: "Settings for the connections to the server of a volume with `nbd`. They cannot be changed while the server runs.",
    keys: &[&[
        Key {
            name: "connections",
            kind: Kind::Count(1, 16),
            default: DefaultValue::Value("4"),
            about: "The number of connections to the remote server. Only one is used if the remote server does not declare that several \
                    connections are safe (`CAN_MULTI_CONN`).",
            example: "2",
        },
        Key {
            name: "requests",
            kind: Kind::Count(1, 1024),
            default: DefaultValue::Value("64"),
            about: "The maximum number of requests in flight on each connection.",
            example: "16",
        },
        Key {
            name: "wait",
            kind: Kind::Time(Span::ZERO, Span::from_secs(24 * 3600)),
            default: DefaultValue::Value("\"30s\""),
            about: "The time for which requests wait while the remote server is unreachable. After this time, they fail with an I/O error \
                    until the server is reachable again.",
            example: "\"5min\"",
        },
        Key {
            name: "unflushed",
            kind: Kind::Size(16 << 20, 16 << 30, 1 << 20),
            default: DefaultValue::Value("\"64MiB\""),
            about: "The memory for copies of data that were written but not flushed. They are written again when the remote server reconnects. \
                    When half of this memory is used, the volume is flushed.",
            example: "\"256MiB\"",
        },
    ]],
};

pub(crate) const TENANT: Shape = Shape {
    name: "[tenant.NAME]",
    about: "A group of several volumes of one drive, with one contract for all of them together.",
    keys: &[
        &[Key {
            name: "drive",
            kind: Kind::Text("the NAME of a `[drive.NAME]`"),
            default: DefaultValue::Needed,
            about: "The drive on which the tenant's volumes are.",
            example: "\"fast\"",
        }],
        contract::KEYS,
    ],
};
