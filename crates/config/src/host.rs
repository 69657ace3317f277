//! The drives and cgroups of a host with their contracts, as plain typed values.

use crate::policy::Policy;
use crate::problem::Problem;
use crate::server::Server;
use std::path::PathBuf;
use weir_core::{Capacity, Contract, Knobs};

pub use crate::key::Queue;

/// The drives of a host and the cgroups that share them: the result of [`crate::apply::load`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelHost {
    /// The drives sorted by name, at least one. Each is a different device.
    pub drives: Vec<KernelDrive>,
    /// A server with the same contracts, whose volumes are in memory. The rules for contracts are
    /// checked on it.
    pub(crate) server: Server,
}

impl KernelHost {
    /// Returns a problem at a key such as `volume.alpha.cgroup`.
    pub fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        self.server.problem(key, message, help)
    }
}

/// A block device of the host (`[drive.NAME]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelDrive {
    /// The name in the file.
    pub name: String,
    /// The absolute path of the device.
    pub device: PathBuf,
    /// The policy that shares the device.
    pub policy: Policy,
    /// The throughput in the worst case: as stated, or found by running the model. `None` if
    /// unknown.
    pub capacity: Option<Capacity>,
    /// The model of the device, for a simulation of the contracts.
    pub model: Option<weir_model::drive::DriveConfig>,
    /// The other settings of the device's queue.
    pub queue: Queue,
    /// The cgroups on the device: tenants sorted by name, then volumes sorted by name.
    pub members: Vec<CgroupContract>,
}

/// The suffixes of those systemd units that have a cgroup.
pub const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

/// A cgroup with a contract on a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupContract {
    /// The path of its table in the file, such as `volume.alpha`.
    pub key: String,
    /// The name in the file.
    pub name: String,
    /// The cgroup that the contract applies to.
    pub cgroup: Cgroup,
    /// The index of its tenant, which comes earlier in the list.
    pub parent: Option<usize>,
    /// The contract of the cgroup.
    pub contract: Contract,
    /// The settings of controllers for the cgroup.
    pub knobs: Knobs,
    /// The treatment of I/O priorities (`io.prio.class`), or `None` if it is not changed.
    pub prio_class: Option<&'static str>,
}

/// A cgroup, by its path or by its systemd unit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cgroup {
    /// The path of the cgroup. It begins with a slash and is not the root.
    Path(String),
    /// The name of the systemd unit.
    Unit(String),
}
