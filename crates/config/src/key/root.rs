//! The outermost table, `[server]`.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const ROOT: Shape = Shape {
    name: "the file",
    about: "The outermost tables of the server's file. The file has no keys outside of these tables.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Table("one `[drive.NAME]` for each drive"),
            default: DefaultValue::Needed,
            about: "The physical drives. All volumes that share one physical drive must be in the same `[drive.NAME]`, because each drive is \
                    scheduled separately.",
            example: "{ fast = {} }",
        },
        Key {
            name: "listen",
            kind: Kind::Table("`[listen]`"),
            default: DefaultValue::Words(
                "`{}` if a volume has a `vhost` socket of its own or is a block device (`ublk`); otherwise required",
            ),
            about: "The addresses at which clients connect.",
            example: "{ nbd = [\"unix:/run/weir/nbd.sock\"] }",
        },
        Key {
            name: "limits",
            kind: Kind::Table("`[limits]`"),
            default: DefaultValue::Value("{}"),
            about: "Limits on connections.",
            example: "{ connections = 64 }",
        },
        Key {
            name: "manage",
            kind: Kind::Table("`[manage]`"),
            default: DefaultValue::Value("{}"),
            about: "The management interface, through which the running server can be inspected and changed.",
            example: "{ socket = \"/run/weir/manage.sock\" }",
        },
        Key {
            name: "gateways",
            kind: Kind::Table("`[gateways]`"),
            default: DefaultValue::Words("none; required if a volume is `shared`"),
            about: "The etcd through which several servers divide the min of a volume that they share.",
            example: "{ etcd = [\"http://127.0.0.1:2379\"] }",
        },
        Key {
            name: "server",
            kind: Kind::Table("`[server]`"),
            default: DefaultValue::Value("{}"),
            about: "Settings of the server's process.",
            example: "{ priority = \"high\" }",
        },
        Key {
            name: "volume",
            kind: Kind::Table("one `[volume.NAME]` for each volume"),
            default: DefaultValue::Value("{}"),
            about: "The volumes, each of which a client uses as a disk. The table can be empty, because a reload can add volumes.",
            example: "{ alpha = { drive = \"fast\", memory = true, size = \"1GiB\" } }",
        },
        Key {
            name: "tenant",
            kind: Kind::Table("one `[tenant.NAME]` for each tenant"),
            default: DefaultValue::Value("{}"),
            about: "Groups of several volumes of one drive.",
            example: "{ acme = { drive = \"fast\" } }",
        },
    ]],
};

pub(crate) const SERVER: Shape = Shape {
    name: "[server]",
    about: "Settings of the server's process.",
    keys: &[&[
        Key {
            name: "priority",
            kind: Kind::Word(&["auto", "normal", "high"]),
            default: DefaultValue::Value("\"auto\""),
            about: "The priority of the threads that serve drives. `\"auto\"` runs them at nice -10 if that is permitted. It requires \
                    `CAP_SYS_NICE`, which root has, or a `RLIMIT_NICE` of 30 (`LimitNICE=-10` in a systemd unit). `\"high\"` does the same, \
                    and the log reports if it is not permitted. `\"normal\"` does not change the priority. This key cannot be changed while \
                    the server runs.",
            example: "\"high\"",
        },
        Key {
            name: "remove_in_use",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "Whether a reload of this file can remove volumes that have clients. If true, the requests in flight complete and the \
                    clients are then disconnected. If false, such a reload is refused and the running configuration does not change.",
            example: "true",
        },
    ]],
};
