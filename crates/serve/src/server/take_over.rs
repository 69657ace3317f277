//! Takes over from a running server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use weir_config::Problem;

use super::hand_over::{TAKE_OVER, received, send};
use super::{Inherited, InheritedClients, LiveServer, PreparedServer, ServerOptions, UpgradeError};
use crate::acceptor::{ConnectionRecord, InheritedClient};
use crate::created::Identity;
use crate::error::StartError;
use crate::front;
use crate::shard::{InheritedVolumes, Mail};
use crate::upgrade::{
    Beginning, ClientRecord, ConfigSource, FORMAT, FrontState, Predecessor, Received,
    UpgradeChannel, UpgradeMessage,
};

/// The time limit of the predecessor for its messages. It sends them without waiting for anything
/// but handshakes and drives.
const PATIENCE: Duration = Duration::from_mins(1);

impl LiveServer {
    /// Takes over from a running server, and serves its clients. Returns the server, the
    /// configuration in force, and the predecessor, which has not ended yet. `check` decides
    /// whether the caller can use the configuration as well.
    ///
    /// # Errors
    /// Returns the reason why this process cannot take over. The predecessor knows it, and serves
    /// on.
    pub fn take_over(
        predecessor: Predecessor,
        options: &ServerOptions,
        check: impl FnOnce(&weir_config::Server) -> Result<(), String>,
    ) -> Result<(Self, ConfigSource, Predecessor), UpgradeError> {
        let Predecessor { mut channel, .. } = predecessor;
        channel.limit(PATIENCE);
        let taken = prepare(&channel, options).and_then(|(mut prepared, beginning)| {
            check(&prepared.config).map_err(UpgradeError::Unsupported)?;
            // A limit of descriptors must be noticed here, because nobody serves the clients any
            // more if this process fails after it has taken over.
            let reserve = reserve()?;
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let message = UpgradeMessage::Prepared { version };
            channel.send(&message, &[], &[]).map_err(failed)?;
            channel.limit(PATIENCE);
            let (clients, volumes) = state(&channel, &mut prepared)?;
            prepared.inherit(volumes)?;
            // The descriptors of the clients are counted now, so that the reserve is free for the
            // rest.
            drop(reserve);
            Ok((prepared, beginning, clients))
        });
        let (prepared, beginning, clients) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let reason = error.to_string();
                // The predecessor may have ended, which is the usual reason then.
                let _ = channel.send(&UpgradeMessage::Refused { reason }, &[], &[]);
                return Err(error);
            }
        };
        // If the predecessor has ended meanwhile, its clients have nobody else.
        let _ = channel.send(&UpgradeMessage::TookOver, &[], &[]);
        let OpenedBeginning {
            source,
            next,
            waiter,
        } = beginning;
        let count = clients.len();
        let inherited = InheritedClients { next, clients };
        let server = prepared.serve(options, Some(inherited))?;
        tracing::info!(connections = count, "took over from the running server");
        Ok((server, source, Predecessor { channel, waiter }))
    }
}

impl PreparedServer {
    /// Lets the shards apply the state of the volumes of the predecessor.
    fn inherit(&self, volumes: InheritedVolumes) -> Result<(), UpgradeError> {
        let volumes = Arc::new(volumes);
        let asked = self.shards.0.iter().map(|shard| {
            let volumes = Arc::clone(&volumes);
            send(shard, |done| Mail::Inherit(volumes, done))
        });
        // The shards work at the same time.
        let asked: Vec<_> = asked.collect();
        for answer in asked {
            received(&answer, TAKE_OVER)?.map_err(StartError::from)?;
        }
        Ok(())
    }
}

/// The part of a [`Beginning`] that is needed after the preparation.
struct OpenedBeginning {
    source: ConfigSource,
    next: u64,
    waiter: Option<OwnedFd>,
}

/// Receives everything that the predecessor has before it stops serving, and opens it.
fn prepare(
    channel: &UpgradeChannel,
    options: &ServerOptions,
) -> Result<(PreparedServer, OpenedBeginning), UpgradeError> {
    let Received {
        message,
        mut descriptors,
        ..
    } = channel.receive().map_err(failed)?;
    let UpgradeMessage::Begin(begin) = message else {
        return Err(UpgradeError::Format("it did not begin".to_owned()));
    };
    let Beginning {
        format,
        version,
        source,
        next,
    } = begin;
    // Fields can be added without another format. A field that the predecessor does not send has
    // its default value.
    if format != FORMAT {
        let reason = format!("version {version} hands over in format {format}, not {FORMAT}");
        return Err(UpgradeError::Format(reason));
    }
    let inherited = resources(channel)?;
    let name = source.file.as_ref().map(|file| file.display().to_string());
    let parsed = weir_config::parse(name.as_deref().unwrap_or_default(), &source.text);
    let parsed = parsed.map_err(|problems| UpgradeError::Unsupported(lines(&problems)))?;
    let prepared = PreparedServer::open(&parsed, options, inherited)?;
    let beginning = OpenedBeginning {
        source,
        next,
        waiter: descriptors.pop(),
    };
    Ok((prepared, beginning))
}

/// Receives the sockets and the storage.
fn resources(channel: &UpgradeChannel) -> Result<Inherited, UpgradeError> {
    let mut inherited = Inherited::default();
    loop {
        let Received {
            message,
            mut descriptors,
            ..
        } = channel.receive().map_err(failed)?;
        match message {
            UpgradeMessage::Listener { key, file } => {
                let socket = descriptors.pop();
                let socket = socket.ok_or_else(|| UpgradeError::Format(format!("no {key}")))?;
                let file = file.map(Identity::from_numbers);
                inherited.listeners.0.insert(key, (socket, file));
            }
            UpgradeMessage::Storage { volume } => {
                inherited.storage.insert(volume, descriptors);
            }
            UpgradeMessage::Prepare => return Ok(inherited),
            other => return Err(UpgradeError::Format(format!("{other:?}"))),
        }
    }
}

/// Receives all clients, and the state of the volumes.
fn state(
    channel: &UpgradeChannel,
    prepared: &mut PreparedServer,
) -> Result<(Vec<InheritedClient>, InheritedVolumes), UpgradeError> {
    let (mut clients, mut volumes) = (Vec::new(), InheritedVolumes::default());
    loop {
        let Received {
            message,
            descriptors,
            bytes,
        } = channel.receive().map_err(failed)?;
        match message {
            UpgradeMessage::Debt(debt) => volumes.debts.push(debt),
            UpgradeMessage::Memory { volume } => {
                let content = descriptors.into_iter().next();
                let content =
                    content.ok_or_else(|| UpgradeError::Format(format!("no {volume}")))?;
                volumes.memory.push((volume, File::from(content)));
            }
            UpgradeMessage::Client(record) => {
                clients.push(client(record, descriptors, bytes, prepared)?);
            }
            UpgradeMessage::Commit => return Ok((clients, volumes)),
            other => return Err(UpgradeError::Format(format!("{other:?}"))),
        }
    }
}

/// The number of descriptors that a server opens after it has taken over: for the acceptor, for the
/// management interface, and for the first clients of both.
const RESERVE: usize = 48;

/// Opens the descriptors that are needed later, so that a limit refuses the upgrade now.
fn reserve() -> Result<Vec<OwnedFd>, UpgradeError> {
    let null = File::open("/dev/null").map_err(failed)?;
    let copies = (0..RESERVE).map(|_| null.as_fd().try_clone_to_owned());
    copies.collect::<io::Result<_>>().map_err(|error| {
        let reason = weir_config::os_error::message(&error);
        UpgradeError::Unsupported(format!("too few descriptors are left: {reason}"))
    })
}

/// Returns a client with these descriptors and bytes of its front end.
fn client(
    record: ClientRecord,
    descriptors: Vec<OwnedFd>,
    bytes: Vec<u8>,
    prepared: &mut PreparedServer,
) -> Result<InheritedClient, UpgradeError> {
    let ClientRecord {
        id,
        name,
        volume,
        peer,
        credentials,
        front,
    } = record;
    let state = FrontState {
        record: front,
        descriptors,
        bytes,
    };
    let (exports, endings) = (&prepared.exports, &mut prepared.endings);
    let export = exports.iter().find(|export| export.name == volume);
    let front = export.and_then(|export| front::inherit(state, export, endings));
    let front = front.ok_or_else(|| UpgradeError::Format(format!("client {id}")))?;
    Ok(InheritedClient {
        connection: ConnectionRecord {
            id,
            peer,
            credentials,
        },
        name,
        volume,
        front,
    })
}

fn failed(error: io::Error) -> UpgradeError {
    UpgradeError::Channel {
        step: "send its state",
        error,
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("; ")
}
