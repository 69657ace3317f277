//! The outermost table, `[server]`.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const ROOT: Shape = Shape {
    name: "the file",
    about: "The tables of the server's file. Nothing else stands outside of them.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Table("one `[drive.NAME]` for each drive"),
            default: DefaultValue::Needed,
            about: "What shares one physical drive is one scheduling domain: a drive.",
            example: "{ fast = {} }",
        },
        Key {
            name: "listen",
            kind: Kind::Table("`[listen]`"),
            default: DefaultValue::Words(
                "`{}` where a volume has a `vhost` of its own or is a block device (`ublk`); else needed",
            ),
            about: "Where clients connect.",
            example: "{ nbd = [\"unix:/run/weir/nbd.sock\"] }",
        },
        Key {
            name: "limits",
            kind: Kind::Table("`[limits]`"),
            default: DefaultValue::Value("{}"),
            about: "What connections may take.",
            example: "{ connections = 64 }",
        },
        Key {
            name: "manage",
            kind: Kind::Table("`[manage]`"),
            default: DefaultValue::Value("{}"),
            about: "Where the running server is asked and changed.",
            example: "{ socket = \"/run/weir/manage.sock\" }",
        },
        Key {
            name: "gateways",
            kind: Kind::Table("`[gateways]`"),
            default: DefaultValue::Words("none; needed beside `shared` of a volume"),
            about: "Where servers meet that keep the min of a volume together.",
            example: "{ etcd = [\"http://127.0.0.1:2379\"] }",
        },
        Key {
            name: "server",
            kind: Kind::Table("`[server]`"),
            default: DefaultValue::Value("{}"),
            about: "What concerns the server's process.",
            example: "{ priority = \"high\" }",
        },
        Key {
            name: "volume",
            kind: Kind::Table("one `[volume.NAME]` for each volume"),
            default: DefaultValue::Value("{}"),
            about: "What clients see as disks. There may be none yet: a reload can add them.",
            example: "{ alpha = { drive = \"fast\", memory = true, size = \"1GiB\" } }",
        },
        Key {
            name: "tenant",
            kind: Kind::Table("one `[tenant.NAME]` for each tenant"),
            default: DefaultValue::Value("{}"),
            about: "Groups over several volumes of one drive.",
            example: "{ acme = { drive = \"fast\" } }",
        },
    ]],
};

pub(crate) const SERVER: Shape = Shape {
    name: "[server]",
    about: "The server's process.",
    keys: &[&[
        Key {
            name: "priority",
            kind: Kind::Word(&["auto", "normal", "high"]),
            default: DefaultValue::Value("\"auto\""),
            about: "How the threads that serve drives stand to those of other programs. `\"auto\"` runs them at nice -10 where that is \
                permitted: it takes `CAP_SYS_NICE`, which root has, or a `RLIMIT_NICE` of 30 (`LimitNICE=-10` in a unit of systemd). \
                `\"high\"` does the same, and the log says where it is not permitted. `\"normal\"` leaves them as they are. Fixed while the \
                server runs.",
            example: "\"high\"",
        },
        Key {
            name: "remove_in_use",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "Whether a reload of this file may remove volumes that have clients. Their requests in flight are answered, and then they \
                are disconnected. Otherwise such a reload is refused, and nothing changes.",
            example: "true",
        },
    ]],
};
