//! The keys of `[listen]` and `[limits]`.

use crate::allow::ClientCertificates;
use crate::document::{Document, ShapedTable};
use crate::listen::{ListenAddress, SocketOwner};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_core::Span;

table! {
    /// The addresses for clients (`[listen]`).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Listen: LISTEN = "[listen]",
        "The addresses at which clients connect. They cannot be changed while the server runs, except for `tls` and `insecure`.";

    nbd: Vec<ListenAddress> [Vec::new()] as List("1 to 64 addresses, no two alike")
        or "none; required unless a volume has a `vhost` socket of its own or is a block device (`ublk`)",
        "[\"unix:/run/weir/nbd.sock\", \"127.0.0.1:10809\"]",
        "The addresses for NBD clients: `\"unix:/path\"` (at most 107 bytes), `\"127.0.0.1:10809\"`, `\"[::1]:10809\"` or \
         `\"localhost:10809\"`. Port 0 selects any free port. The names of other hosts are not resolved.";
    metrics: Option<SocketAddr> [None] as Text("an IP address and a port") or "no metrics are served", "\"127.0.0.1:9809\"",
        "The address at which the server answers `GET /metrics` over HTTP, in Prometheus' text format.";
    tls {|listen| listen.tls.as_ref().map(Tls::values)}: Option<Tls> [None] as Table("`[listen.tls]`") or "none: clients cannot use TLS",
        "{ certificate = \"/etc/weir/tls/server-cert.pem\", key = \"/etc/weir/tls/server-key.pem\" }",
        "The certificate with which NBD clients can use TLS, at every address of `nbd`. A reload can change this table.";
    insecure: bool as Flag = "false", "true",
        "Permits addresses that other machines can reach, even if a volume admits every client, and for `metrics`. Use it only for \
         tests: every machine that reaches such an NBD address can read and write the volumes without `allow`. For NBD, use `allow` or \
         `tls` of the volumes instead (`docs/access.md`).";
    socket_mode: u32 as Text("an octal mode, `\"0000\"` to `\"0777\"`") = "\"0600\"", "\"0660\"",
        "The permission bits of the Unix sockets.";
    socket_owner: SocketOwner as Text("`\"user:group\"`, `\"user\"` or `\":group\"`, by name or number") or "the user that runs the server",
        "\"weir:107\"",
        "The owner of the Unix sockets.";
}

table! {
    /// The certificates for NBD over TLS (`[listen.tls]`).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Tls: TLS = "[listen.tls]",
        "The certificates for NBD over TLS. All files have the format PEM. The server reads the files again after a reload, and when \
         they have changed. Existing connections stay.";

    certificate: PathBuf [PathBuf::new()] as Text("an absolute path"), "\"/etc/weir/tls/server-cert.pem\"",
        "The certificate of the server, followed by the certificates of intermediate authorities, if there are any.";
    key: PathBuf [PathBuf::new()] as Text("an absolute path"), "\"/etc/weir/tls/server-key.pem\"",
        "The private key of the certificate.";
    client_ca: Option<PathBuf> [None] as Text("an absolute path") or "none: clients need no certificate", "\"/etc/weir/tls/ca-cert.pem\"",
        "The certificates of the authorities that sign the certificates of clients. A certificate from another authority, or one that \
         has expired, ends the handshake.";
    crl: Option<PathBuf> [None] as Text("an absolute path") or "none: no certificate is revoked", "\"/etc/weir/tls/crl.pem\"",
        "The revocation lists of all authorities that sign certificates of clients, one after the other. A revoked certificate, or one \
         whose authority has no list here, ends the handshake. A list stays in force after its next update is due.";
    client_certificates: ClientCertificates as Word(&["required", "optional"]) = "\"required\"", "\"optional\"",
        "Whether a client must have a certificate for TLS, if `client_ca` is set. If the certificate is optional, only volumes with \
         `\"certificate:NAME\"` in `allow` require it.";
}

/// The maximum size of payload in bytes.
const BYTES_MAX: u64 = 1 << 40;

table! {
    /// The limits on connections (`[limits]`). They cannot be changed while the server runs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Limits: LIMITS = "[limits]",
        "Limits on connections. They cannot be changed while the server runs.";

    connections: u32 as Count(1, Limits::CONNECTIONS_MAX as u64) = "256", "64",
        "The maximum number of connections. Connections in their handshake do not count: at most 256 of these can exist, and a new \
         one replaces another. Each promise (`min`, `min_iops` or `class = \"realtime\"` of a volume, or of a tenant for its \
         volumes together) reserves places: half of all places are divided equally among the promises, and each gets at least 1 and \
         at most 16. The other places are divided equally between hosts and users, for each of these between volumes, and for each \
         volume between processes. If all places are taken, a client that is entitled to a place replaces a connection of the group \
         that has the most connections, namely the one that has been idle for longest, even if that connection is busy. In addition, a sixteenth \
         more places exist for connections whose place is reserved. `serving.md` describes the rule.";
    requests_per_connection: u32 as Count(1, 65_536) = "128", "256",
        "The maximum number of requests of one connection that are not answered. When a connection reaches it, the server stops \
         reading from that connection.";
    bytes_per_connection: u64 [64 << 20] as Size(64 << 10, BYTES_MAX, 1) = "\"64MiB\"", "\"32MiB\"",
        "The maximum payload of one connection's requests that are not answered. It must be at least `request_size`. When a \
         connection reaches it, the server stops reading from that connection.";
    unsent_per_connection: u64 as Size(4096, BYTES_MAX, 1) = "\"8MiB\"", "\"1MiB\"",
        "The maximum size of one connection's replies that the client has not read. Beyond it, the server holds the requests of the \
         connection, except those in the drive and up to 1 MiB that a volume in memory processes at a time. One reply always fits.";
    request_size: u32 [32 << 20] as Size(64 << 10, 32 << 20, 1) = "\"32MiB\"", "\"1MiB\"",
        "The maximum length of a READ or WRITE request, a power of two. Longer requests fail with EINVAL.";
    handshake_timeout: Span as Time(Span::from_millis(1), Span::from_secs(3600)) = "\"10s\"", "\"2.5s\"",
        "The maximum duration of a handshake. If it takes longer, the server closes the connection.";
    arena: u64 [128 << 20] as Size(128 << 10, BYTES_MAX, 4096) or "`\"128MiB\"`, or less if the memory of the machine or of the control group does not permit it",
        "\"64MiB\"",
        "The memory for payloads of each shard (the thread of a drive). It must be at least twice `request_size`, and at least \
         64KiB for each of `connections`. One eighth is used for receive buffers. Half of the rest is guaranteed to `connections` \
         in equal parts, and the other half is available to connections that need more.";
}

impl Limits {
    /// The maximum number of connections. Each takes two places in a ring.
    pub const CONNECTIONS_MAX: u32 = 3840;

    /// Returns the minimum size of the arena in bytes, which is 64 KiB for each connection.
    pub const fn arena_min(&self) -> u64 {
        self.connections as u64 * (64 << 10)
    }
}
