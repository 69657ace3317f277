//! Finding the server: its connections, and whether what it offers will do.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;
use weir_config::units::Size;
use weir_config::{Remote, os_error};
use weir_model::client::{ConnectError, Connection};
use weir_wire::nbd::client::{HandshakeConfig, Session};
use weir_wire::nbd::{BlockSizes, TransmissionFlags};

/// Longest that a handshake takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest that each further connection takes: a server may leave it waiting that has enough.
const PATIENCE_FURTHER: Duration = Duration::from_secs(1);
/// A host that is silent is asked after this time whether it is there, then at this interval, and is gone after this number of questions.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 5);
/// Most bytes of one request's payload, whatever the server takes.
const PART: u64 = 1 << 20;
/// Most bytes of a payload for a server that does not say what it takes (`doc/proto.md`, "Block size constraints").
const UNSTATED: u32 = 32 << 20;
/// Largest of a server's blocks that will do.
const BLOCK: u32 = 4096;

/// What an export is like: what clients of the volume are told, and how it has to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Bytes.
    pub(super) size: u64,
    /// Requests begin and end at multiples of this.
    pub(super) block: u32,
    pub(super) preferred: u32,
    /// Most bytes of a read or a write.
    pub(super) part: u64,
    pub(super) flags: TransmissionFlags,
    pub(super) structured: bool,
    /// The number of `base:allocation`.
    pub(super) allocation: Option<u32>,
}

/// All connections to a server.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) shape: Shape,
}

/// Why a server's export will not do, or is not there.
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
    #[error("{export} has {}, but the volume's `size` is {}: remove `size`, or resize the export", Size(*.actual), Size(*.stated))]
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

/// Connects to a server, as often as it may be; each handshake within `patience`.
pub(super) fn dial(
    remote: &Remote,
    read_only: bool,
    patience: Duration,
) -> Result<Dialled, DialError> {
    let (socket, session) = connect(remote, patience)?;
    let shape = Shape::of(remote, &session, read_only)?;
    let mut sockets = vec![socket];
    let several = session.flags.contains(TransmissionFlags::CAN_MULTI_CONN);
    let further = if several { remote.connections } else { 1 };
    while sockets.len() < further as usize {
        // One that is refused is done without.
        let Ok((socket, session)) = connect(remote, PATIENCE_FURTHER.min(patience)) else {
            break;
        };
        if Shape::of(remote, &session, read_only)? != shape {
            break;
        }
        sockets.push(socket);
    }
    Ok(Dialled { sockets, shape })
}

fn connect(remote: &Remote, patience: Duration) -> Result<(OwnedFd, Session), DialError> {
    let config = HandshakeConfig::new(&remote.uri.export);
    let connection = Connection::open(&remote.uri.address, config, patience)?;
    let (socket, session, early) = connection.into_parts();
    if !early.is_empty() {
        let export = remote.uri.to_string();
        return Err(DialError::Early { export });
    }
    // A Unix socket has none of these.
    let (idle, interval, count) = KEEP_ALIVE;
    let _ = sockopt::set_socket_keepalive(&socket, true);
    let _ = sockopt::set_tcp_keepidle(&socket, idle);
    let _ = sockopt::set_tcp_keepintvl(&socket, interval);
    let _ = sockopt::set_tcp_keepcnt(&socket, count);
    let silent = (idle + interval * count).as_millis() as u32;
    let _ = sockopt::set_tcp_user_timeout(&socket, silent);
    Ok((socket, session))
}

impl Shape {
    fn of(remote: &Remote, session: &Session, read_only: bool) -> Result<Self, DialError> {
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

    /// It has the size that is wanted, if one is.
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

    /// It is fit to go on with what clients were told of `before`, and with what is kept for it. What else it says is taken as it comes.
    pub(super) fn continues(&self, remote: &Remote, before: &Self) -> Result<(), DialError> {
        let has = |shape: &Self, flag| u64::from(shape.flags.contains(flag));
        let zeroes = |shape| has(shape, TransmissionFlags::SEND_WRITE_ZEROES);
        let trim = |shape| has(shape, TransmissionFlags::SEND_TRIM);
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
