//! Connects to a remote server, and checks that its export is suitable.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;
use weir_config::units::ByteSize;
use weir_config::{Remote, os_error};
use weir_model::client::{ConnectError, Connection};
use weir_wire::nbd::client::{ClientHandshakeConfig, ClientSession};
use weir_wire::nbd::{BlockSizes, TransmissionFlags, Uri};

use crate::tls::TlsClient;

/// The longest duration of a handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest duration of the handshake of each further connection. A server that has enough
/// connections may leave further ones waiting.
const PATIENCE_FURTHER: Duration = Duration::from_secs(1);
/// Keep-alive parameters of TCP: the idle time before the first probe, the interval between probes,
/// and the number of unanswered probes after which the host counts as dead.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 5);
/// The maximum payload of one request in bytes, even if the server accepts more.
const PART: u64 = 1 << 20;
/// The maximum payload in bytes for a server that does not state its limit (NBD's `doc/proto.md`,
/// "Size constraints").
const UNSTATED: u32 = 32 << 20;
/// The largest supported block size of a server, in bytes.
const BLOCK: u32 = 4096;

/// The properties of an export. Clients of the volume learn some of them, and the others affect the
/// requests to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExportShape {
    /// The size in bytes.
    pub(super) size: u64,
    /// The block size in bytes. Requests begin and end at multiples of it.
    pub(super) block: u32,
    pub(super) preferred: u32,
    /// The maximum length of a read or a write in bytes.
    pub(super) part: u64,
    pub(super) flags: TransmissionFlags,
    pub(super) structured: bool,
    /// The number of the metadata context `base:allocation`, if it was negotiated.
    pub(super) allocation: Option<u32>,
}

/// All connections to a server, and the properties of its export.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) shape: ExportShape,
}

/// The reason why an export is unsuitable or cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{}", connect_error(.0))]
    Connect(#[from] ConnectError),
    #[error("{export} is read-only: set read_only = true, or export it with write access")]
    ReadOnly { export: String },
    #[error(
        "{export} does not support flush, so that writes there cannot be made durable: enable flush on that server, or set read_only = true"
    )]
    NoFlush { export: String },
    #[error("{export} has {}, but the volume's `size` is {}: remove `size`, or resize the export", ByteSize(*.actual), ByteSize(*.stated))]
    Size {
        export: String,
        actual: u64,
        stated: u64,
    },
    #[error(
        "the size of {export} ({actual} bytes) is not a multiple of its block size ({block} bytes): resize it"
    )]
    Blocks {
        export: String,
        actual: u64,
        block: u32,
    },
    #[error(
        "{export} requires a block size of at least {block} bytes; Weir supports at most {BLOCK}"
    )]
    Block { export: String, block: u32 },
    #[error("{export} sent data before the first request; it does not follow the NBD protocol")]
    Early { export: String },
    #[error(
        "{export} has changed: {what} was {before} and is {now}; the server does not write the kept data there"
    )]
    Changed {
        export: String,
        what: &'static str,
        before: u64,
        now: u64,
    },
}

fn connect_error(error: &ConnectError) -> String {
    match error {
        ConnectError::Socket { address, error } => {
            format!("cannot connect to {address}: {}", os_error::message(error))
        }
        other => other.to_string(),
    }
}

/// Connects to a server, with as many connections as are configured and the server permits. Each
/// handshake takes at most `patience`.
pub(super) fn dial(
    remote: &Remote,
    read_only: bool,
    patience: Duration,
) -> Result<Dialled, DialError> {
    let (socket, session) = connect(remote, patience)?;
    let shape = ExportShape::of(remote, &session, read_only)?;
    let mut sockets = vec![socket];
    // Without `CAN_MULTI_CONN`, a flush on one connection does not cover the writes on others
    // (`doc/proto.md`, "Transmission flags").
    let several = session.flags.contains(TransmissionFlags::CAN_MULTI_CONN);
    let further = if several { remote.connections } else { 1 };
    while sockets.len() < further as usize {
        // A further connection that is refused is not necessary.
        let Ok((socket, session)) = connect(remote, PATIENCE_FURTHER.min(patience)) else {
            break;
        };
        // The export has changed between two handshakes. The session uses only the earlier
        // connections, which agree.
        if ExportShape::of(remote, &session, read_only)? != shape {
            break;
        }
        sockets.push(socket);
    }
    Ok(Dialled { sockets, shape })
}

fn connect(remote: &Remote, patience: Duration) -> Result<(OwnedFd, ClientSession), DialError> {
    let Uri { address, tls, .. } = &remote.uri;
    let config = ClientHandshakeConfig {
        tls: tls.is_some(),
        ..ClientHandshakeConfig::new(&remote.uri.export)
    };
    let begin = |socket: OwnedFd, within| {
        let tls = tls.as_ref().ok_or("the URI has no certificates")?;
        // A relay takes the place of this socket below.
        keep_alive(&socket);
        // The files are read for each connection, so that renewed certificates are used.
        let client = TlsClient::read(&tls.certificates)?;
        let name = TlsClient::server_name(&tls.hostname)?;
        client.begin(socket, (name, &address.to_string()), within)
    };
    let connection = Connection::open_with_tls(address, config, patience, &begin)?;
    // Before the first request, a server has nothing to send.
    let (socket, session, early) = connection.into_parts();
    if !early.is_empty() {
        let export = remote.uri.to_string();
        return Err(DialError::Early { export });
    }
    keep_alive(&socket);
    Ok((socket, session))
}

/// Lets the system notice that the host of a TCP connection is dead.
fn keep_alive(socket: &OwnedFd) {
    // The options of TCP do not exist for Unix sockets, so errors are ignored.
    let (idle, interval, count) = KEEP_ALIVE;
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, idle);
    let _ = sockopt::set_tcp_keepintvl(socket, interval);
    let _ = sockopt::set_tcp_keepcnt(socket, count);
    // Linux sends no keep-alive probes while data are unacknowledged (`tcp_keepalive_timer` in
    // `net/ipv4/tcp_timer.c`). `TCP_USER_TIMEOUT` gives such data the same limit.
    let silent = (idle + interval * count).as_millis() as u32;
    let _ = sockopt::set_tcp_user_timeout(socket, silent);
}

impl ExportShape {
    fn of(remote: &Remote, session: &ClientSession, read_only: bool) -> Result<Self, DialError> {
        let export = || remote.uri.to_string();
        let flags = session.flags;
        let unstated = BlockSizes {
            maximum: UNSTATED,
            ..BlockSizes::DEFAULT
        };
        let sizes = session.block_sizes.unwrap_or(unstated);
        let block = sizes.minimum;
        if block > BLOCK {
            let export = export();
            return Err(DialError::Block { export, block });
        }
        if session.size == 0 || !session.size.is_multiple_of(block.max(512).into()) {
            return Err(DialError::Blocks {
                export: export(),
                actual: session.size,
                block: block.max(512),
            });
        }
        if !read_only && flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(DialError::ReadOnly { export: export() });
        }
        if !read_only && !flags.contains(TransmissionFlags::SEND_FLUSH) {
            return Err(DialError::NoFlush { export: export() });
        }
        let part = PART.min(sizes.maximum.into());
        Ok(Self {
            size: session.size,
            block,
            preferred: sizes.preferred.clamp(512, 1 << 20),
            part: part / u64::from(block) * u64::from(block),
            flags,
            structured: session.structured,
            allocation: session.allocation,
        })
    }

    /// Checks that the export has the wanted size, if there is one.
    pub(super) fn has_size(&self, remote: &Remote, wanted: Option<u64>) -> Result<(), DialError> {
        match wanted.filter(|wanted| *wanted != self.size) {
            None => Ok(()),
            Some(stated) => Err(DialError::Size {
                export: remote.uri.to_string(),
                actual: self.size,
                stated,
            }),
        }
    }

    /// Checks that the export is compatible with the properties that clients know from `before`,
    /// and with the data that are kept for it. Other properties may differ.
    pub(super) fn continues(&self, remote: &Remote, before: &Self) -> Result<(), DialError> {
        let has = |shape: &Self, flag| u64::from(shape.flags.contains(flag));
        let zeroes = |shape| has(shape, TransmissionFlags::SEND_WRITE_ZEROES);
        let trim = |shape| has(shape, TransmissionFlags::SEND_TRIM);
        // Kept requests and buffers are aligned to the old block size and cut to the old
        // maximum, so a larger block or a smaller maximum is refused.
        let changes = [
            ("its size", before.size, self.size, before.size != self.size),
            (
                "its minimum block size",
                before.block.into(),
                self.block.into(),
                self.block > before.block,
            ),
            (
                "its maximum request",
                before.part,
                self.part,
                self.part < before.part,
            ),
            ("trim", trim(before), trim(self), trim(self) < trim(before)),
            (
                "write zeroes",
                zeroes(before),
                zeroes(self),
                zeroes(self) < zeroes(before),
            ),
        ];
        match changes.into_iter().find(|change| change.3) {
            None => Ok(()),
            Some((what, before, now, _)) => Err(DialError::Changed {
                export: remote.uri.to_string(),
                what,
                before,
                now,
            }),
        }
    }
}
