//! The keys of `[gateways]`.

use crate::document::{Document, ShapedTable};
use weir_core::Span;

table! {
    /// The store through which several servers divide shared minimums (`[gateways]`). It cannot be
    /// changed while the server runs.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Gateways: GATEWAYS = "[gateways]",
        "The etcd through which several servers divide the min of a volume that all of them serve (`docs/gateways.md`). Each such volume \
         has the key `shared`. This table cannot be changed while the server runs.";

    etcd: Vec<String> [Vec::new()] as List("URLs, `\"http://host:port\"`"), "[\"http://10.0.0.1:2379\", \"http://10.0.0.2:2379\"]",
        "The endpoints of one etcd, version 3.4 or later. If one endpoint does not reply, the next one is used. Neither TLS nor \
         etcd's users are supported, so use a network that only these machines can reach, or a tunnel.";
    prefix: String ["/weir".to_owned()] as Text("a slash, and letters, digits and `.`, `_`, `-`, `/`") = "\"/weir\"", "\"/prod/weir\"",
        "The beginning of the keys in etcd: `PREFIX/NAME/generation` and `PREFIX/NAME/member/LEASE`. It must be the same on all \
         servers.";
    lease: Span as Time(Span::from_secs(2), Span::from_secs(60)) = "\"5s\"", "\"10s\"",
        "The time, in whole seconds, for which the part of a dead server stays reserved for that server. It is also the time for \
         which a server continues to use its part while it cannot reach etcd.";
}
