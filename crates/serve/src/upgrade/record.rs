//! The messages with which a server hands everything over to the process of another version.
//!
//! The records are JSON, so that versions with more fields understand each other. Descriptors and
//! long sequences of bytes travel beside them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_core::{MaxDebt, Span};

use crate::access::ClientCredentials;
use crate::places::Peer;

/// The format of the messages. A successor refuses a predecessor of another format.
pub(crate) const FORMAT: u32 = 1;

/// A message between a server and its successor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UpgradeMessage {
    /// The first message of the predecessor. Its descriptor, if it has one, is
    /// [`Predecessor::waiter`](super::Predecessor).
    Begin(Beginning),
    /// A listening socket, which is the descriptor, for the address at this key of the
    /// configuration.
    Listener {
        key: String,
        /// The device and the inode of the file of a Unix socket.
        file: Option<(u64, u64)>,
    },
    /// The open and locked storage of a volume, in the order of `Prepare::descriptors`.
    Storage { volume: String },
    /// The successor opens everything now, and does not serve anybody yet.
    Prepare,
    /// The successor has opened everything.
    Prepared { version: String },
    /// The successor cannot take over, for the given reason.
    Refused { reason: String },
    /// The debts of a volume or a tenant at the time at which the predecessor stopped serving. The
    /// successor applies them later without a correction, so that a client waits for at most the
    /// pause longer.
    Debt(DebtRecord),
    /// The content of a volume in memory, which is the descriptor.
    Memory { volume: String },
    /// A client, with the descriptors and bytes of its front end.
    Client(ClientRecord),
    /// The predecessor has stopped serving, and everything was sent.
    Commit,
    /// The successor serves from now on.
    TookOver,
}

/// The source of a server's configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfigSource {
    /// The text of the configuration.
    pub text: String,
    /// The file of the configuration, to which changes are written. `None` if there is no file.
    pub file: Option<PathBuf>,
    /// The text of the file when it was last read or written. `None` if it is `text`.
    pub file_text: Option<String>,
}

/// The beginning of a hand-over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Beginning {
    pub(crate) format: u32,
    /// The version of the predecessor.
    pub(crate) version: String,
    pub(crate) source: ConfigSource,
    /// The number of the next connection.
    pub(crate) next: u64,
}

/// The debts of a volume or a tenant ([`MaxDebt`]), in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DebtRecord {
    pub(crate) drive: String,
    pub(crate) debtor: Debtor,
    pub(crate) bandwidth: u64,
    pub(crate) read_bandwidth: u64,
    pub(crate) write_bandwidth: u64,
    pub(crate) iops: u64,
    pub(crate) read_iops: u64,
    pub(crate) write_iops: u64,
}

/// The holder of a max on a drive, by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Debtor {
    Tenant(String),
    Volume(String),
}

impl DebtRecord {
    pub(crate) fn new(drive: String, debtor: Debtor, debt: &MaxDebt) -> Self {
        Self {
            drive,
            debtor,
            bandwidth: debt.bandwidth.as_nanos(),
            read_bandwidth: debt.read_bandwidth.as_nanos(),
            write_bandwidth: debt.write_bandwidth.as_nanos(),
            iops: debt.iops.as_nanos(),
            read_iops: debt.read_iops.as_nanos(),
            write_iops: debt.write_iops.as_nanos(),
        }
    }

    pub(crate) fn debt(&self) -> MaxDebt {
        MaxDebt {
            bandwidth: Span::from_nanos(self.bandwidth),
            read_bandwidth: Span::from_nanos(self.read_bandwidth),
            write_bandwidth: Span::from_nanos(self.write_bandwidth),
            iops: Span::from_nanos(self.iops),
            read_iops: Span::from_nanos(self.read_iops),
            write_iops: Span::from_nanos(self.write_iops),
        }
    }
}

/// A client that is handed over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientRecord {
    /// The number of the connection.
    pub(crate) id: u64,
    /// The name for the log.
    pub(crate) name: String,
    pub(crate) volume: String,
    pub(crate) peer: Peer,
    pub(crate) credentials: ClientCredentials,
    pub(crate) front: FrontRecord,
}

/// The state of a client's front end for another process.
#[derive(Debug)]
pub(crate) struct FrontState {
    pub(crate) record: FrontRecord,
    /// The descriptors of the client, the first of which is its socket.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Bytes whose meaning depends on the record.
    pub(crate) bytes: Vec<u8>,
}

/// The state of a front end, by its protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FrontRecord {
    Nbd(NbdRecord),
    Vhost(VhostRecord),
}

/// A connection in the transmission phase of NBD. Its bytes are answers that were not sent,
/// followed by requests that were not taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NbdRecord {
    /// The size that the client was told, in bytes.
    pub(crate) size: u64,
    /// The transmission flags that the client was told.
    pub(crate) flags: u16,
    pub(crate) structured: bool,
    pub(crate) meta_allocation: bool,
    pub(crate) minimum_block: u32,
    pub(crate) maximum_payload: u32,
    pub(crate) maximum_range: u32,
    /// Bytes of a refused request's payload that are still to come after the requests that were not
    /// taken, and are discarded.
    pub(crate) skip: u32,
    /// The number of bytes of answers.
    pub(crate) unsent: usize,
}

/// A session with a VMM over vhost-user. Descriptors are given by their position in
/// [`FrontState::descriptors`]. The bytes are the beginning of a message that has not arrived
/// completely.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct VhostRecord {
    /// The size that the VMM knows, in bytes, or 0 if it has to be notified of the current one.
    pub(crate) size: u64,
    /// The negotiated features of virtio and of the vhost-user protocol.
    pub(crate) features: u64,
    pub(crate) protocol: u64,
    pub(crate) write_back: bool,
    pub(crate) regions: Vec<RegionRecord>,
    /// The memory that records requests in flight.
    pub(crate) inflight: Option<InflightRecord>,
    /// The channel for requests to the VMM.
    pub(crate) backend: Option<usize>,
    /// The queues, by number.
    pub(crate) queues: Vec<VirtqueueRecord>,
    /// The queue that the VMM has asked to stop and that has requests left.
    pub(crate) stopping: Option<u32>,
    /// The descriptors that came with the incomplete message.
    pub(crate) partial: Vec<usize>,
}

/// A region of a guest's memory: addresses in the guest and in the VMM, size in bytes, and the
/// position in its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RegionRecord {
    pub(crate) guest: u64,
    pub(crate) size: u64,
    pub(crate) user: u64,
    pub(crate) offset: u64,
    pub(crate) file: usize,
}

/// The memory that records requests in flight: its part of its descriptor in bytes, and the number
/// and size of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct InflightRecord {
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) queues: u16,
    pub(crate) queue_size: u16,
    pub(crate) file: usize,
}

/// A virtqueue, as the VMM has set it up and the server has left it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct VirtqueueRecord {
    /// The number of entries.
    pub(crate) size: u16,
    /// The available index from which requests are taken.
    pub(crate) base: u16,
    /// The addresses in the VMM of descriptors, used entries and available entries.
    pub(crate) addresses: Option<[u64; 3]>,
    pub(crate) enabled: bool,
    pub(crate) started: bool,
    pub(crate) broken: bool,
    /// The descriptors for notifications.
    pub(crate) kick: Option<usize>,
    pub(crate) call: Option<usize>,
    pub(crate) error: Option<usize>,
    /// The heads that were taken and are to be taken again, in this order. `None` for a queue that
    /// is not being served.
    pub(crate) left: Option<Vec<u16>>,
}
