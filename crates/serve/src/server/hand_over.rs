//! Hands a running server over to a successor.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use weir_config::ListenAddress;
use weir_config::units::ByteSize;

use super::{LiveServer, UpgradeError, nbd_key};
use crate::acceptor::ConnectionRecord;
use crate::created::Identity;
use crate::doors;
use crate::shard::{HandOverError, HandedClient, HandedShard, Mail, ShardHandle, VolumeStorage};
use crate::upgrade::{
    Beginning, ClientRecord, ConfigSource, FORMAT, Successor, UpgradeChannel, UpgradeMessage,
};

/// The time limit of the successor for opening everything. Nobody waits for it.
const PREPARE: Duration = Duration::from_mins(1);
/// The time limit for handshakes in progress. Only clients that connect wait for them.
const HANDSHAKES: Duration = Duration::from_millis(500);
/// The time limit of the drives for the requests in flight, while all clients wait.
const DRIVES: Duration = Duration::from_millis(700);
/// The time limit of the successor for taking over all clients, while they wait.
pub(super) const TAKE_OVER: Duration = Duration::from_secs(5);
/// The time limit of a shard for an answer that it can give at once.
const SHARD: Duration = Duration::from_secs(5);

/// The largest amount of memory that is handed over, in bytes. It is copied twice while all clients
/// wait.
const MEMORY: u64 = 256 << 20;

/// The result of an upgrade.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpgradeReport {
    /// The version of the successor.
    pub version: String,
    /// The time for which clients waited.
    pub pause: Duration,
    /// The number of connections that were handed over.
    pub connections: usize,
}

impl LiveServer {
    /// Hands everything over to another process, which serves from then on. Returns the process and
    /// a report. The server must then only be dropped, once it [has no
    /// relays](Self::has_no_relays).
    ///
    /// # Errors
    /// Returns the reason why the other process does not take over. It does not exist any more
    /// then, and this server serves all its clients as before.
    pub fn hand_over(
        &mut self,
        mut successor: Successor,
        source: &ConfigSource,
    ) -> Result<(Successor, UpgradeReport), UpgradeError> {
        let version = match self.prepare_successor(&mut successor, source) {
            Ok(version) => version,
            Err(error) => {
                successor.end();
                return Err(error);
            }
        };
        let begun = Instant::now();
        match self.commit(&mut successor) {
            Ok(connections) => {
                let pause = begun.elapsed();
                self.abandon();
                let report = UpgradeReport {
                    version,
                    pause,
                    connections,
                };
                Ok((successor, report))
            }
            Err(error) => Err(self.resume(&mut successor, error)),
        }
    }

    /// Returns true if this process relays no encrypted connection. After [`Self::hand_over`], the
    /// encrypted connections of clients still end in this process, which passes their content on to
    /// its successor.
    pub fn has_no_relays(&self) -> bool {
        self.tls.is_idle()
    }

    /// Lets the successor open everything. Returns its version.
    fn prepare_successor(
        &self,
        successor: &mut Successor,
        source: &ConfigSource,
    ) -> Result<String, UpgradeError> {
        // Everything that is known to prevent an upgrade is checked before the successor opens
        // anything, so that the reason is exact.
        if let Some(volume) = self.devices.cannot_outlive() {
            return Err(UpgradeError::Unsupported(format!(
                "the block device of volume.{volume} ends with this process, because the volume's data does"
            )));
        }
        let storage = self.storage()?;
        check_memory(&storage)?;
        let channel = &mut successor.channel;
        channel.limit(PREPARE);
        let begin = UpgradeMessage::Begin(Beginning {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: source.clone(),
            next: self.next.load(Ordering::Relaxed),
        });
        let step = |error| UpgradeError::Channel {
            step: "open the configuration",
            error,
        };
        let waiter: Vec<_> = successor.waiter.iter().map(AsFd::as_fd).collect();
        channel.send(&begin, &waiter, &[]).map_err(step)?;
        // The sockets are sent by their keys, because an address with port 0 does not tell which
        // socket belongs to it.
        for (key, listener) in self.acceptor.listeners().map_err(step)? {
            let file = self.socket_file(&key);
            let listener_message = UpgradeMessage::Listener { key, file };
            channel
                .send(&listener_message, &[listener.as_fd()], &[])
                .map_err(step)?;
        }
        for (key, socket) in self.kept_doors.sockets() {
            let file = self.kept_doors.file().filter(|_| key == doors::SOCKET_KEY);
            let file = file.map(Identity::numbers);
            let key = key.to_owned();
            channel
                .send(&UpgradeMessage::Listener { key, file }, &[socket], &[])
                .map_err(step)?;
        }
        // A volume without descriptors is opened by the successor itself: one on a remote server,
        // which has no lock, or one in memory, which is filled later.
        for storage in storage.into_iter().filter(|s| !s.descriptors.is_empty()) {
            let descriptors: Vec<_> = storage.descriptors.iter().map(AsFd::as_fd).collect();
            let volume = storage.name;
            channel
                .send(&UpgradeMessage::Storage { volume }, &descriptors, &[])
                .map_err(step)?;
        }
        channel
            .send(&UpgradeMessage::Prepare, &[], &[])
            .map_err(step)?;
        // This is the only long wait, and clients are served meanwhile.
        let answer = channel.receive().map_err(step)?.message;
        // A successor that is ended while it takes over could already serve.
        channel.set_interrupt(None);
        match answer {
            UpgradeMessage::Prepared { version } => Ok(version),
            UpgradeMessage::Refused { reason } => Err(UpgradeError::Refused(reason)),
            other => Err(UpgradeError::Format(format!("{other:?}"))),
        }
    }

    /// Returns the storage of all volumes.
    fn storage(&self) -> Result<Vec<VolumeStorage>, UpgradeError> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let storage = ask(shard, Mail::Storage, SHARD)?;
            all.extend(storage.map_err(HandOverError::from)?);
        }
        Ok(all)
    }

    /// Returns the file of the Unix socket at this key of the configuration.
    fn socket_file(&self, key: &str) -> Option<(u64, u64)> {
        let nbd = self.config.listen.nbd.iter().enumerate();
        let nbd = nbd.filter_map(|(n, address)| match address {
            ListenAddress::Unix(path) => Some((nbd_key(n), path)),
            ListenAddress::Tcp(_) => None,
        });
        let volumes = self.config.volumes.iter();
        let disks = volumes.filter_map(|v| Some((v.vhost_key(), v.vhost.as_ref()?)));
        let (_, path) = nbd.chain(disks).find(|(at, _)| at == key)?;
        self.acceptor.file(path).map(Identity::numbers)
    }

    /// Stops serving, and hands over all clients. Returns their number.
    fn commit(&self, successor: &mut Successor) -> Result<usize, UpgradeError> {
        // The acceptor stops first, so that no client arrives at a shard that has begun to hand
        // over. Clients that connect from here on wait in the queue of their socket, which the
        // successor has.
        let connections = self.acceptor.pause(HANDSHAKES);
        let connections = connections.map_err(|_| UpgradeError::Ended)?;
        let mut connections: BTreeMap<u64, ConnectionRecord> = connections
            .into_iter()
            .map(|connection| (connection.id, connection))
            .collect();
        // All shards are asked before the first answer is awaited, so that they wait for their
        // drives at the same time.
        let asked: Vec<_> = self
            .shards
            .iter()
            .map(|shard| send(shard, |done| Mail::HandOver(DRIVES, done)))
            .collect();
        let mut shards = Vec::new();
        let mut failed = None;
        // All answers are awaited, because every shard must be resumed after a failure.
        for answer in asked {
            match received(&answer, DRIVES + SHARD) {
                Ok(Ok(handed)) => shards.push(handed),
                Ok(Err(error)) => failed = Some(UpgradeError::from(error)),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let channel = &mut successor.channel;
        channel.limit(TAKE_OVER);
        let step = |error| UpgradeError::Channel {
            step: "take over the clients",
            error,
        };
        let mut count = 0;
        for handed in shards {
            send_volumes(channel, &handed).map_err(step)?;
            count += send_clients(channel, handed.clients, &mut connections).map_err(step)?;
        }
        // From here on, the successor may take over at any moment. Nothing of this process may
        // touch a client until its answer is known.
        channel
            .send(&UpgradeMessage::Commit, &[], &[])
            .map_err(step)?;
        match channel.receive().map_err(step)?.message {
            UpgradeMessage::TookOver => Ok(count),
            UpgradeMessage::Refused { reason } => Err(UpgradeError::Refused(reason)),
            other => Err(UpgradeError::Format(format!("{other:?}"))),
        }
    }

    /// Serves all clients again after the successor has failed. Returns the reason.
    fn resume(&mut self, successor: &mut Successor, error: UpgradeError) -> UpgradeError {
        // The process must not exist any more before this one serves again, because two processes
        // that read from one socket would each get a part of the stream.
        successor.end();
        successor.channel.limit(Duration::from_millis(100));
        // The successor may have taken over just before it was ended. Its clients have then lost
        // bytes, so that nobody can continue with them.
        while let Ok(received) = successor.channel.receive() {
            if matches!(received.message, UpgradeMessage::TookOver) {
                self.abandon();
                return UpgradeError::Lost;
            }
        }
        for shard in &self.shards {
            shard.address().send_mail(Mail::Resume);
        }
        self.acceptor.resume();
        error
    }

    /// Ends all threads without touching clients, storage or sockets, which belong to another
    /// process.
    fn abandon(&mut self) {
        // This makes `end` do nothing, which would drain and flush what belongs to the successor.
        self.is_abandoned = true;
        self.acceptor.abandon();
        self.kept_doors.abandon();
        self.devices.release();
        for shard in &self.shards {
            shard.address().send_mail(Mail::Abandon);
        }
        // The threads end before this process reports a success. The driver of block devices
        // notices their end, and lets the successor recover the devices.
        for shard in &mut self.shards {
            shard.join();
        }
        super::end_records(&mut self.records, self.drain);
    }
}

/// Sends a question to a shard.
pub(super) fn send<T>(
    shard: &ShardHandle,
    question: impl FnOnce(Sender<T>) -> Mail,
) -> Receiver<T> {
    let (wanted, answer) = channel();
    // If the shard has ended, the answer fails.
    shard.address().send_mail(question(wanted));
    answer
}

pub(super) fn received<T>(answer: &Receiver<T>, within: Duration) -> Result<T, UpgradeError> {
    answer.recv_timeout(within).map_err(|_| UpgradeError::Ended)
}

/// Asks a shard and waits for the answer.
fn ask<T>(
    shard: &ShardHandle,
    question: impl FnOnce(Sender<T>) -> Mail,
    within: Duration,
) -> Result<T, UpgradeError> {
    received(&send(shard, question), within)
}

/// Sends the state of a shard's volumes.
fn send_volumes(channel: &UpgradeChannel, handed: &HandedShard) -> io::Result<()> {
    for debt in &handed.debts {
        channel.send(&UpgradeMessage::Debt(debt.clone()), &[], &[])?;
    }
    for (volume, content) in &handed.memory {
        let volume = volume.clone();
        channel.send(&UpgradeMessage::Memory { volume }, &[content.as_fd()], &[])?;
    }
    Ok(())
}

/// Sends the clients of a shard. Returns their number.
fn send_clients(
    channel: &UpgradeChannel,
    clients: Vec<HandedClient>,
    connections: &mut BTreeMap<u64, ConnectionRecord>,
) -> io::Result<usize> {
    let mut count = 0;
    for client in clients {
        // The acceptor knows every client except those that another one has just replaced.
        let Some(connection) = connections.remove(&client.id) else {
            continue;
        };
        let HandedClient {
            id,
            peer,
            volume,
            front,
        } = client;
        let record = UpgradeMessage::Client(ClientRecord {
            id,
            name: peer,
            volume,
            peer: connection.peer,
            credentials: connection.credentials,
            front: front.record,
        });
        let descriptors: Vec<_> = front.descriptors.iter().map(AsFd::as_fd).collect();
        channel.send(&record, &descriptors, &front.bytes)?;
        count += 1;
    }
    Ok(count)
}

/// Checks whether the volumes in memory can be copied while all clients wait. A volume can still
/// grow until then.
fn check_memory(storage: &[VolumeStorage]) -> Result<(), UpgradeError> {
    let all: u64 = storage.iter().map(|volume| volume.memory).sum();
    let Some(largest) = storage.iter().max_by_key(|volume| volume.memory) else {
        return Ok(());
    };
    if all <= MEMORY {
        return Ok(());
    }
    Err(UpgradeError::Unsupported(format!(
        "the volumes in memory have {} together, of which {} are those of volume.{}, but at most {} can be handed over; remove the volume, or restart \
         the server, which discards the content of all volumes in memory",
        ByteSize(all),
        ByteSize(largest.memory),
        largest.name,
        ByteSize(MEMORY)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_a_pause_permits_is_refused_with_the_largest_volume() {
        let volume = |name: &str, memory| VolumeStorage {
            name: name.to_owned(),
            descriptors: Vec::new(),
            memory,
        };
        check_memory(&[]).unwrap();
        check_memory(&[volume("a", MEMORY / 2), volume("b", MEMORY / 2)]).unwrap();
        let volumes = [volume("a", 64 << 10), volume("b", MEMORY), volume("c", 0)];
        let refused = check_memory(&volumes).unwrap_err().to_string();
        let expected = "the volumes in memory have 262208KiB together, of which 256MiB are those of volume.b, ";
        assert!(refused.starts_with(expected), "{refused}");
    }
}
