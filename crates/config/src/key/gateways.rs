//! `[gateways]`.

use super::{DefaultValue, Key, Kind, Shape};
use weir_core::Span;

pub(crate) const GATEWAYS: Shape = Shape {
    name: "[gateways]",
    about: "Where servers meet that serve one volume and keep its min together (`docs/gateways.md`): each such volume says `shared`. Fixed while \
            the server runs.",
    keys: &[&[
        Key {
            name: "etcd",
            kind: Kind::List("URLs, `\"http://host:port\"`"),
            default: DefaultValue::Needed,
            about: "The endpoints of one etcd, 3.4 or later. Where one does not answer the next is asked. Neither TLS nor users are spoken: \
                    a network that only these machines reach, or a tunnel, has to stand in for both.",
            example: "[\"http://10.0.0.1:2379\", \"http://10.0.0.2:2379\"]",
        },
        Key {
            name: "prefix",
            kind: Kind::Text("a slash, and letters, digits and `.`, `_`, `-`, `/`"),
            default: DefaultValue::Value("\"/weir\""),
            about: "What the keys begin with: `PREFIX/NAME/generation` and `PREFIX/NAME/member/LEASE`. It is the same on all servers.",
            example: "\"/prod/weir\"",
        },
        Key {
            name: "lease",
            kind: Kind::Time(Span::from_secs(2), Span::from_secs(60)),
            default: DefaultValue::Value("\"5s\""),
            about: "How long the part of a server that has died is kept for it, in whole seconds; and how long a server uses its part when \
                    it does not reach etcd.",
            example: "\"10s\"",
        },
    ]],
};
