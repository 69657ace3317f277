//! Where clients come in, and what each may take.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_core::Span;

/// Where the server listens (`[listen]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// NBD: at least one, no two alike.
    pub nbd: Vec<Address>,
    /// The address of the metrics, which are in the Prometheus text format. `None` serves no metrics.
    pub metrics: Option<SocketAddr>,
    /// Addresses that are not loopback were agreed to.
    pub insecure: bool,
    /// Permission bits of Unix sockets, at most `0o777`; by default `0o600`.
    pub socket_mode: u32,
    /// The owner of Unix sockets; by default the user that runs the server.
    pub socket_owner: Owner,
}

/// An address that clients connect to.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A Unix socket at an absolute path of at most 107 bytes: `"unix:/run/weir/nbd.sock"`.
    Unix(PathBuf),
    /// An IP address and a port (0: any free one): `"127.0.0.1:10809"`, `"[::1]:10809"`, `"localhost:10809"` (127.0.0.1).
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// Owner of a file: `"user:group"`, `"user"` or `":group"`. What is `None` stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The user.
    pub user: Option<Id>,
    /// The group.
    pub group: Option<Id>,
}

/// A user or a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Id {
    /// By name, to be looked up on the machine.
    Name(String),
    /// By number.
    Number(u32),
}

/// What connections may take (`[limits]`), fixed while the server runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at a time, those in their handshake (at most 256, of which one makes room for another) not included: 1 to
    /// [`Self::CONNECTIONS_MAX`]. When there are as many, a client that is entitled to a place gets
    /// that of a connection of the group that has the most; the module `places` of `weir-serve` has
    /// the rule.
    pub connections: u32,
    /// Requests of one connection that are not answered yet: 1 to 65536. At this many it is not read from.
    pub requests_per_connection: u32,
    /// Payload of one connection's requests that are not answered yet, bytes; at least `request_size`. Beyond it the
    /// connection is not read from.
    pub bytes_per_connection: u64,
    /// Answers of one connection that it has not taken, bytes. Beyond it its requests are held. One answer always fits, and what
    /// is in the drive by then (at most its tags, of `max_transfer` each) is answered too.
    pub unsent_per_connection: u64,
    /// Longest READ or WRITE, bytes; longer ones are answered EINVAL. A power of two, 64 KiB to 32 MiB.
    pub request_size: u32,
    /// A handshake that takes longer ends its connection: 1 ms to 1 h.
    pub handshake_timeout: Span,
    /// Memory for payloads, bytes for each shard: at least twice `request_size`, at most 1 TiB, a multiple of 4096. An eighth is
    /// for receive buffers. Half of the rest is guaranteed in equal parts to `connections` (224 KiB each of 128 MiB for 256), the
    /// other half goes to connections that need more; a request larger than the guaranteed part may wait for memory that others hold. At
    /// least [`Self::arena_min`].
    pub arena: u64,
}

impl Limits {
    /// Most connections: each takes two places in a ring.
    pub const CONNECTIONS_MAX: u32 = 3840;

    /// The least arena for `connections` connections: 64 KiB each.
    pub const fn arena_min(&self) -> u64 {
        self.connections as u64 * (64 << 10)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            requests_per_connection: 128,
            bytes_per_connection: 64 << 20,
            unsent_per_connection: 8 << 20,
            request_size: 32 << 20,
            handshake_timeout: Span::from_secs(10),
            arena: 128 << 20,
        }
    }
}
