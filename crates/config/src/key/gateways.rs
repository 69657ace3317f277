//! The keys of `[gateways]`.

use crate::document::{Document, ShapedTable};
use std::path::PathBuf;
use weir_core::Span;

table! {
    /// The store through which several servers divide shared minimums (`[gateways]`). It cannot be
    /// changed while the server runs.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Gateways: GATEWAYS = "[gateways]",
        "The etcd through which several servers divide the min of a volume that all of them serve (`docs/gateways.md`). Each such volume \
         has the key `shared`. This table cannot be changed while the server runs.";

    etcd: Vec<String> [Vec::new()] as List("URLs, `\"https://host:port\"` or `\"http://host:port\"`"), "[\"https://10.0.0.1:2379\", \"https://10.0.0.2:2379\"]",
        "The endpoints of one etcd, version 3.4 or later. If one endpoint does not reply, the next one is used. `https` requires \
         `certificates`. Use `http` only in a network that no other machines can reach, or for a tunnel.";
    certificates: Option<PathBuf> [None] as Text("an absolute path of a directory") or "none; required for `https`", "\"/etc/weir/etcd\"",
        "The directory with `ca-cert.pem`, the authority of etcd, and with `client-cert.pem` and `client-key.pem`, if etcd requires a \
         certificate (`--client-cert-auth`). The files are read for each request, so that they can be replaced.";
    user: Option<String> [None] as Text("the name of a user of etcd") or "none: etcd has no authentication", "\"weir\"",
        "The user as which the server uses etcd, with the password in `password_file`. It requires `https`, because the password is sent \
         to etcd. The user needs the permission to read and write all keys that begin with `prefix`.";
    password_file: Option<PathBuf> [None] as Text("an absolute path") or "required if `user` is set", "\"/etc/weir/etcd-password\"",
        "A file with the password of `user`, which is one line.";
    prefix: String ["/weir".to_owned()] as Text("a slash, and letters, digits and `.`, `_`, `-`, `/`") = "\"/weir\"", "\"/prod/weir\"",
        "The beginning of the keys in etcd: `PREFIX/NAME/generation` and `PREFIX/NAME/member/LEASE`. It must be the same on all \
         servers.";
    lease: Span as Time(Span::from_secs(2), Span::from_secs(60)) = "\"5s\"", "\"10s\"",
        "The time, in whole seconds, for which the part of a dead server stays reserved for that server. It is also the time for \
         which a server continues to use its part while it cannot reach etcd.";
}
