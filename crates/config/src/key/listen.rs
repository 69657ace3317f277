//! `[listen]` and `[limits]`.

use super::{DefaultValue, Key, Kind, Shape};
use crate::listen::Limits;
use weir_core::Span;

pub(crate) const LISTEN: Shape = Shape {
    name: "[listen]",
    about: "Where clients connect. Fixed while the server runs.",
    keys: &[&[
        Key {
            name: "nbd",
            kind: Kind::List("1 to 64 addresses, no two alike"),
            default: DefaultValue::Words(
                "none; needed unless a volume has a `vhost` of its own or is a block device (`ublk`)",
            ),
            about: "Where NBD clients connect: `\"unix:/path\"` (of at most 107 bytes), `\"127.0.0.1:10809\"`, `\"[::1]:10809\"` or \
                    `\"localhost:10809\"`. Port 0 is any free one. The names of other hosts are not looked up.",
            example: "[\"unix:/run/weir/nbd.sock\", \"127.0.0.1:10809\"]",
        },
        Key {
            name: "metrics",
            kind: Kind::Text("an IP address and a port"),
            default: DefaultValue::Words("no metrics are served"),
            about: "Where `GET /metrics` is answered, as OpenMetrics over HTTP.",
            example: "\"127.0.0.1:9809\"",
        },
        Key {
            name: "insecure",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "Permits addresses that other machines can reach, though there is neither encryption nor a password.",
            example: "true",
        },
        Key {
            name: "socket_mode",
            kind: Kind::Text("an octal mode, `\"0000\"` to `\"0777\"`"),
            default: DefaultValue::Value("\"0600\""),
            about: "Permission bits of the Unix sockets.",
            example: "\"0660\"",
        },
        Key {
            name: "socket_owner",
            kind: Kind::Text("`\"user:group\"`, `\"user\"` or `\":group\"`, by name or number"),
            default: DefaultValue::Words("the user that runs the server"),
            about: "The owner of the Unix sockets.",
            example: "\"weir:107\"",
        },
    ]],
};

/// Most bytes of payload.
const BYTES_MAX: u64 = 1 << 40;

pub(crate) const LIMITS: Shape = Shape {
    name: "[limits]",
    about: "What connections may take. Fixed while the server runs.",
    keys: &[&[
        Key {
            name: "connections",
            kind: Kind::Count(1, Limits::CONNECTIONS_MAX as u64),
            default: DefaultValue::Value("256"),
            about: "Connections at a time. Those in their handshake are not counted: there are at most 256 of them, and one of them makes \
                    room for another. Each promise (`min`, `min_iops` or `class = \"realtime\"` of a volume, or of a tenant for its \
                    volumes together) reserves an equal part of half of the places, at most 16 and at least one. The other places are \
                    divided evenly between hosts and users, for each of these between volumes, and for each volume between processes. \
                    When all are taken, a client that is entitled to one gets the place of a connection of the group that has the \
                    most, of the one that has been idle for longest, however busy it is. Beyond these there are a sixteenth more places \
                    for connections whose place is reserved. `serving.md` has the rule.",
            example: "64",
        },
        Key {
            name: "requests_per_connection",
            kind: Kind::Count(1, 65_536),
            default: DefaultValue::Value("128"),
            about: "Requests of one connection that are not answered yet. At this many it is not read from.",
            example: "256",
        },
        Key {
            name: "bytes_per_connection",
            kind: Kind::Size(64 << 10, BYTES_MAX, 1),
            default: DefaultValue::Value("\"64MiB\""),
            about: "Payload of one connection's requests that are not answered yet; at least `request_size`. Beyond it the connection is \
                    not read from.",
            example: "\"32MiB\"",
        },
        Key {
            name: "unsent_per_connection",
            kind: Kind::Size(4096, BYTES_MAX, 1),
            default: DefaultValue::Value("\"8MiB\""),
            about: "Answers of one connection that it has not taken. Beyond it its requests are held, but for those in the drive, and the up to 1 MiB that a volume in memory does at a time. One answer always fits.",
            example: "\"1MiB\"",
        },
        Key {
            name: "request_size",
            kind: Kind::Size(64 << 10, 32 << 20, 1),
            default: DefaultValue::Value("\"32MiB\""),
            about: "Longest READ or WRITE, a power of two. Longer ones are answered EINVAL.",
            example: "\"1MiB\"",
        },
        Key {
            name: "handshake_timeout",
            kind: Kind::Time(Span::from_millis(1), Span::from_secs(3600)),
            default: DefaultValue::Value("\"10s\""),
            about: "A handshake that takes longer ends its connection.",
            example: "\"2.5s\"",
        },
        Key {
            name: "arena",
            kind: Kind::Size(128 << 10, BYTES_MAX, 4096),
            default: DefaultValue::Words(
                "`\"128MiB\"`, less where the memory of the machine or the control group does not permit it",
            ),
            about: "Memory for payloads, for each shard (the thread of a drive): at least twice `request_size`, and 64KiB for each of \
                    `connections`. An eighth is for receive buffers. Half of the rest is guaranteed to `connections` in equal parts, the \
                    other half goes to connections that need more.",
            example: "\"64MiB\"",
        },
    ]],
};
