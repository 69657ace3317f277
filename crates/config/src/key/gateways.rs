//! `[gateways]`.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const GATEWAYS: Shape = Shape {
    name: "[gateways]",
    about: "The etcd through which several servers divide the min of a volume that all of them serve (`docs/gateways.md`). Each such volume \
            has the key `shared`. This table cannot be changed while the server runs.",
    keys: &[&[
        Key {
            name: "etcd",
            kind: Kind::List("URLs, `\"http://host:port\"`"),
            default: DefaultValue::Needed,
            about: "The endpoints of one etcd, version 3.4 or later. If one endpoint does not reply, the next one is used. Neither TLS nor \
                    etcd's users are supported, so use a network that only these machines can reach, or a tunnel.",
            example: "[\"http://10.0.0.1:2379\", \"http://10.0.0.2:2379\"]",
        },
        Key {
            name: "prefix",
            kind: Kind::Text("a slash, and letters, digits and `.`, `_`, `-`, `/`"),
            default: DefaultValue::Value("\"/weir\""),
            about: "The beginning of the keys in etcd: `PREFIX/NAME/generation` and `PREFIX/NAME/member/LEASE`. It must be the same on all \
                    servers.",
            example: "\"/prod/weir\"",
        },
        Key {
            name: "lease",
            kind: Kind::Time(Span::from_secs(2), Span::from_secs(60)),
            default: DefaultValue::Value("\"5s\""),
            about: "The time, in whole seconds, for which the part of a dead server stays reserved for that server. It is also the time for \
                    which a server continues to use its part while it cannot reach etcd.",
            example: "\"10s\"",
        },
    ]],
};
