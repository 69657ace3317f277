//! The server's file as plain typed values, which [`load`](crate::load) has checked.

use crate::key::{DriveLimits, Gateways, Limits, Listen, Manage, ProcessSettings};
use crate::places::KeyPlaces;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::storage::{Storage, block};
use crate::text::{join, path};
use std::path::Path;
use weir_core::{Capacity, Contract, DriveShape, Knobs, Span};
use weir_wire::nbd;

pub use crate::key::{Tenant, Volume};

/// The server's file with all values checked: the result of [`load`](crate::load).
///
/// Volumes, tenants and drives are sorted by name. Two servers are equal if their files have the
/// same values, even in another order. All fields are public, because a server is a value that
/// other crates only read. Code that changes a field, such as a test, has to respect the rules that
/// `load` checks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Server {
    /// The drives sorted by name, at least one.
    pub drives: Vec<ServerDrive>,
    /// The addresses for clients (`[listen]`).
    pub listen: Listen,
    /// The access to the running server for inspection and changes (`[manage]`).
    pub manage: Manage,
    /// The store through which servers divide shared minimums (`[gateways]`).
    pub gateways: Option<Gateways>,
    /// The limits on connections (`[limits]`).
    pub limits: Limits,
    /// The volumes sorted by name, possibly none.
    pub volumes: Vec<Volume>,
    /// The tenants sorted by name.
    pub tenants: Vec<Tenant>,
    /// The settings of the server's process (`[server]`).
    pub process: ProcessSettings,
    /// The line and column of each key in the file.
    pub(crate) places: KeyPlaces,
}

impl Server {
    /// Returns a problem with a volume's storage, at the key that selects the storage.
    pub fn storage_problem(&self, volume: &Volume, message: String) -> Problem {
        // The key of the storage has the same name as its kind.
        let key = match volume.storage {
            Storage::File(_) => "file",
            Storage::Device(_) => "device",
            Storage::Nbd(_) => "nbd",
            Storage::Memory => "memory",
            Storage::Model => "model",
        };
        self.problem(&join(&join("volume", &volume.name), key), message, None)
    }

    /// Returns a problem at a key such as `listen.nbd[0]`, or at the nearest table around the key
    /// that is in the file.
    pub fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        self.places.problem(key, message, help)
    }

    /// Removes all lines and columns, so that problems do not refer to a text that the user has not
    /// written.
    #[must_use]
    pub fn without_places(mut self) -> Self {
        // Line 0 means that a problem has no place.
        self.places
            .keys
            .values_mut()
            .for_each(|place| *place = (0, 0));
        self
    }

    /// Returns the name of the file, which is empty for text without a name.
    pub fn file(&self) -> &str {
        &self.places.file
    }

    /// Returns true if a key such as `limits.arena` is in the file. Otherwise its value is the
    /// default.
    pub fn is_written(&self, key: &str) -> bool {
        self.places.keys.contains_key(key)
    }

    /// Returns the drive with this name.
    pub fn drive(&self, name: &str) -> Option<&ServerDrive> {
        self.drives.iter().find(|d| d.name == name)
    }

    /// Returns the volume with this name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        // A reload looks up every volume, and there can be ten thousand. The volumes are sorted, so
        // a binary search keeps that fast.
        let at = self.volumes.binary_search_by(|v| v.name.as_str().cmp(name));
        Some(&self.volumes[at.ok()?])
    }

    /// Returns the tenant with this name.
    pub fn tenant(&self, name: &str) -> Option<&Tenant> {
        let at = self.tenants.binary_search_by(|t| t.name.as_str().cmp(name));
        Some(&self.tenants[at.ok()?])
    }

    /// Iterates over the holders of contracts: first the tenants, then the volumes.
    pub(crate) fn contracted(&self) -> impl Iterator<Item = ContractHolder<'_>> {
        let tenants = self.tenants.iter().map(|t| ContractHolder {
            path: path("tenant", &t.name),
            drive: &t.drive,
            contract: &t.contract,
            knobs: t.knobs,
        });
        let volumes = self.volumes.iter().map(|v| ContractHolder {
            path: path("volume", &v.name),
            drive: &v.drive,
            contract: &v.contract,
            knobs: v.knobs,
        });
        tenants.chain(volumes)
    }

    /// Iterates over the tenants of a drive, sorted by name.
    pub(crate) fn tenants_of<'a>(
        &'a self,
        drive: &'a str,
    ) -> impl Iterator<Item = &'a Tenant> + Clone {
        self.tenants.iter().filter(move |t| t.drive == drive)
    }

    /// Iterates over the volumes of a drive, sorted by name.
    pub fn volumes_of<'a>(&'a self, drive: &'a str) -> impl Iterator<Item = &'a Volume> + Clone {
        self.volumes.iter().filter(move |v| v.drive == drive)
    }
}

/// A scheduling domain: all volumes that share one physical drive (`[drive.NAME]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerDrive {
    /// The name: 1 to 255 bytes without control characters.
    pub name: String,
    /// The policy that shares the drive.
    pub policy: Policy,
    /// The throughput in the worst case: as stated, or found by running the model. `None` if
    /// unknown.
    pub capacity: Option<Capacity>,
    /// The number of hardware queues, 1 to 1024.
    pub queues: u16,
    /// The number of requests that each hardware queue accepts at a time, 1 to 4096.
    pub tags: u16,
    /// The maximum size of a command in bytes: a multiple of 512, from 4 KiB to 1 GiB. Longer
    /// requests are split.
    pub max_transfer: u32,
    /// True for a drive that has to seek.
    pub rotational: bool,
    /// The timing model in place of a real drive, if any. The drive's volumes then keep their data
    /// in memory, the model determines when a request completes, and `queues`, `tags`,
    /// `max_transfer` and `rotational` are those of the model.
    pub model: Option<weir_model::drive::DriveConfig>,
    /// The time of the path from a client and back, at most 1 s. The model completes requests
    /// earlier by this time.
    pub path: Span,
    /// The sizes of the drive's tables.
    pub limits: DriveLimits,
}

impl ServerDrive {
    /// Returns a drive with the defaults of all keys.
    pub(crate) fn new(name: &str, limits: DriveLimits) -> Self {
        let shape = DriveShape::default();
        Self {
            name: name.to_owned(),
            policy: Policy::default(),
            capacity: None,
            queues: shape.queues,
            tags: shape.tags,
            max_transfer: shape.max_transfer,
            rotational: false,
            model: None,
            path: Span::ZERO,
            limits,
        }
    }
}

/// A tenant or a volume, reduced to the fields that contracts need.
pub(crate) struct ContractHolder<'a> {
    /// The path of the table in the file, such as `volume.alpha`.
    pub(crate) path: String,
    pub(crate) drive: &'a str,
    pub(crate) contract: &'a Contract,
    pub(crate) knobs: Knobs,
}

impl Volume {
    /// Returns the path of the key for the volume's vhost-user-blk socket.
    pub fn vhost_key(&self) -> String {
        join(&join(&join("volume", &self.name), "listen"), "vhost")
    }

    /// Returns the path of the key that makes the volume a block device of this machine.
    pub fn ublk_key(&self) -> String {
        join(&join("volume", &self.name), "ublk")
    }

    /// Returns the block size in bytes, the unit of the volume's size: 4096 if the storage is
    /// opened with `O_DIRECT`, otherwise 512.
    pub fn block(&self) -> u64 {
        block(&self.storage, self.cache)
    }

    /// Returns the path of the storage in this machine's file system: a file, a device, or the Unix
    /// socket of another NBD server.
    pub fn path(&self) -> Option<&Path> {
        match &self.storage {
            Storage::File(path) | Storage::Device(path) => Some(path),
            Storage::Nbd(remote) => match &remote.uri.address {
                nbd::Address::Unix(socket) => Some(socket),
                // An export over TCP has no path on this machine.
                nbd::Address::Tcp(_) => None,
            },
            Storage::Memory | Storage::Model => None,
        }
    }

    /// Returns the directory of the certificates with which the server connects to another NBD
    /// server, if the volume is on one and uses TLS.
    pub fn certificates(&self) -> Option<&Path> {
        let Storage::Nbd(remote) = &self.storage else {
            return None;
        };
        Some(&remote.uri.tls.as_ref()?.certificates)
    }

    /// Returns true if the contract has a min or the class realtime.
    pub fn is_promised(&self) -> bool {
        is_promised(&self.contract)
    }
}

impl Tenant {
    /// Returns true if the contract of all its volumes together has a min or the class realtime.
    pub fn is_promised(&self) -> bool {
        is_promised(&self.contract)
    }
}

/// Returns true if the contract has a min or the class realtime.
pub(crate) fn is_promised(contract: &Contract) -> bool {
    contract.min > 0 || contract.min_iops > 0 || contract.class == weir_core::Class::Realtime
}

/// Returns the key that makes a contract a promise. The class comes first, because it is a promise
/// with or without a min.
pub(crate) fn promise_key(contract: &Contract) -> &'static str {
    match contract {
        c if c.class == weir_core::Class::Realtime => "class",
        c if c.min > 0 => "min",
        _ => "min_iops",
    }
}
