//! What the server's file says, as plain typed values.

use crate::key::{DriveLimits, Gateways, Limits, Listen, Manage};
use crate::places::Places;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::storage::{Storage, ThreadPriority, block};
use crate::text::{join, path};
use std::path::Path;
use weir_core::{Capacity, Contract, DriveShape, Knobs, Span};
use weir_wire::nbd;

pub use crate::key::{Tenant, Volume};

/// Everything in the server's file, checked: what [`load`](crate::load) returns.
///
/// Volumes, tenants and drives are in the order of their names. Two servers are equal if they say the same, wherever in their
/// files they say it. Its parts are public because it is a value, and reading it is all that it is for: code that changes one, as tests do,
/// has to know what `load` would have refused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Server {
    /// The drives, at least one, by name.
    pub drives: Vec<Drive>,
    /// Where clients come in.
    pub listen: Listen,
    /// Where the running server is asked and changed.
    pub manage: Manage,
    /// Where servers meet that keep minimums together.
    pub gateways: Option<Gateways>,
    /// What connections may take.
    pub limits: Limits,
    /// The volumes by name; there may be none yet.
    pub volumes: Vec<Volume>,
    /// The tenants by name.
    pub tenants: Vec<Tenant>,
    /// How the server's threads stand to those of other programs (`[server]`).
    pub priority: ThreadPriority,
    /// Whether a reload may remove volumes that have clients (`[server]`), which it disconnects then.
    pub remove_in_use: bool,
    /// Where in the file each key stands.
    pub(crate) places: Places,
}

impl Server {
    /// What went wrong with a volume's storage, at the place in the file that says what it is.
    pub fn storage_problem(&self, volume: &Volume, message: String) -> Problem {
        let key = match volume.storage {
            Storage::File(_) => "file",
            Storage::Device(_) => "device",
            Storage::Nbd(_) => "nbd",
            Storage::Memory => "memory",
            Storage::Model => "model",
        };
        self.problem(&join(&join("volume", &volume.name), key), message, None)
    }

    /// A problem at a key (as `listen.nbd[0]`), or at the nearest table around it that is in the file.
    pub fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        self.places.problem(key, message, help)
    }

    /// As read from a text that nobody has before their eyes: problems do not say where in it they are.
    #[must_use]
    pub fn without_places(mut self) -> Self {
        self.places
            .keys
            .values_mut()
            .for_each(|place| *place = (0, 0));
        self
    }

    /// The name of the file that it was read from; empty for text without a name.
    pub fn file(&self) -> &str {
        &self.places.file
    }

    /// True if a key (as `limits.arena`) stands in the file; otherwise its value is the default.
    pub fn is_written(&self, key: &str) -> bool {
        self.places.keys.contains_key(key)
    }

    /// The drive of that name.
    pub fn drive(&self, name: &str) -> Option<&Drive> {
        self.drives.iter().find(|d| d.name == name)
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        // They are sorted: where there are ten thousand, a reload asks for each.
        let at = self.volumes.binary_search_by(|v| v.name.as_str().cmp(name));
        Some(&self.volumes[at.ok()?])
    }

    /// The tenant of that name.
    pub fn tenant(&self, name: &str) -> Option<&Tenant> {
        let at = self.tenants.binary_search_by(|t| t.name.as_str().cmp(name));
        Some(&self.tenants[at.ok()?])
    }

    /// Tenants and then volumes, as holders of contracts.
    pub(crate) fn contracted(&self) -> impl Iterator<Item = Contracted<'_>> {
        let tenants = self.tenants.iter().map(|t| Contracted {
            path: path("tenant", &t.name),
            drive: &t.drive,
            contract: &t.contract,
            knobs: t.knobs,
        });
        let volumes = self.volumes.iter().map(|v| Contracted {
            path: path("volume", &v.name),
            drive: &v.drive,
            contract: &v.contract,
            knobs: v.knobs,
        });
        tenants.chain(volumes)
    }

    /// The tenants of a drive, by name.
    pub(crate) fn tenants_of<'a>(
        &'a self,
        drive: &'a str,
    ) -> impl Iterator<Item = &'a Tenant> + Clone {
        self.tenants.iter().filter(move |t| t.drive == drive)
    }

    /// The volumes of a drive, by name.
    pub fn volumes_of<'a>(&'a self, drive: &'a str) -> impl Iterator<Item = &'a Volume> + Clone {
        self.volumes.iter().filter(move |v| v.drive == drive)
    }
}

/// One scheduling domain: what shares one physical drive (`[drive.NAME]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its name: 1 to 255 bytes without control characters.
    pub name: String,
    /// How its time is shared.
    pub policy: Policy,
    /// What it can do at the least, if stated or, for a model, found by running it.
    pub capacity: Option<Capacity>,
    /// Hardware queues: 1 to 1024.
    pub queues: u16,
    /// Requests each queue takes at a time: 1 to 4096.
    pub tags: u16,
    /// Bytes it takes in one command; longer requests are split. A multiple of 512, 4 KiB to 1 GiB.
    pub max_transfer: u32,
    /// True for a drive that seeks.
    pub rotational: bool,
    /// The drive is a model: its volumes hold their data in memory, and this says when a request is over. The shape above is the
    /// model's then.
    pub model: Option<weir_model::drive::Config>,
    /// Answers of the model come sooner by this: what the way from a client and back takes. At most a second.
    pub path: Span,
    /// Sizes of its tables.
    pub limits: DriveLimits,
}

impl Drive {
    /// A drive of which nothing else is stated.
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

/// A tenant or a volume as far as contracts go.
pub(crate) struct Contracted<'a> {
    /// Where it is in the file.
    pub(crate) path: String,
    pub(crate) drive: &'a str,
    pub(crate) contract: &'a Contract,
    pub(crate) knobs: Knobs,
}

impl Volume {
    /// Where in the file its socket for virtual machines is said.
    pub fn vhost_key(&self) -> String {
        join(&join(&join("volume", &self.name), "listen"), "vhost")
    }

    /// Where in the file it is said whether it is a block device of this machine.
    pub fn ublk_key(&self) -> String {
        join(&join("volume", &self.name), "ublk")
    }

    /// What its size is a multiple of, bytes: 4096 where it is opened past the page cache, else 512.
    pub fn block(&self) -> u64 {
        block(&self.storage, self.cache)
    }

    /// What holds its data in this machine's file system: a file, a device, or the Unix socket of another NBD server.
    pub fn path(&self) -> Option<&Path> {
        match &self.storage {
            Storage::File(path) | Storage::Device(path) => Some(path),
            Storage::Nbd(remote) => match &remote.uri.address {
                nbd::Address::Unix(socket) => Some(socket),
                nbd::Address::Tcp(_) => None,
            },
            Storage::Memory | Storage::Model => None,
        }
    }

    /// True if something is promised: a min, or a realtime class.
    pub fn is_promised(&self) -> bool {
        is_promised(&self.contract)
    }
}

impl Tenant {
    /// True if something is promised to all its volumes together: a min, or a realtime class.
    pub fn is_promised(&self) -> bool {
        is_promised(&self.contract)
    }
}

/// True if the contract promises something: a min, or a realtime class.
pub(crate) fn is_promised(contract: &Contract) -> bool {
    contract.min > 0 || contract.min_iops > 0 || contract.class == weir_core::Class::Realtime
}

/// The key that makes a contract a promise.
pub(crate) fn promise_key(contract: &Contract) -> &'static str {
    match contract {
        c if c.class == weir_core::Class::Realtime => "class",
        c if c.min > 0 => "min",
        _ => "min_iops",
    }
}
