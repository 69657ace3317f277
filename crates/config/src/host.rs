//! A host's drives and cgroups with contracts, as plain typed values.

use crate::policy::Policy;
use crate::problem::Problem;
use crate::server::Server;
use std::path::PathBuf;
use weir_core::{Capacity, Contract, Knobs};

pub use crate::key::Queue;

/// Drives of a host, and the cgroups that share them: what [`crate::apply::load`] returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The drives by name, at least one; no two are one device.
    pub drives: Vec<Drive>,
    /// The same contracts, of volumes in memory.
    pub(crate) server: Server,
}

impl Host {
    /// A problem at a key (as `volume.alpha.cgroup`).
    pub fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        self.server.problem(key, message, help)
    }
}

/// A block device (`[drive.NAME]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// Its path, absolute.
    pub device: PathBuf,
    /// How it is shared.
    pub policy: Policy,
    /// What it can do at the least, if stated or found by running the model.
    pub capacity: Option<Capacity>,
    /// A model of it.
    pub model: Option<weir_model::drive::Config>,
    /// What else is set of its queue.
    pub queue: Queue,
    /// The cgroups on it: tenants by name, then volumes by name.
    pub members: Vec<Member>,
}

/// Suffixes of systemd's units that have a cgroup.
pub const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

/// A cgroup with a contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where it is in the file, as `volume.alpha`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Which cgroup it is.
    pub cgroup: Cgroup,
    /// The place of its tenant, which comes before it.
    pub parent: Option<usize>,
    /// Its contract.
    pub contract: Contract,
    /// How controllers are set for it.
    pub knobs: Knobs,
    /// What becomes of priorities (`io.prio.class`).
    pub prio_class: Option<&'static str>,
}

/// Which cgroup.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cgroup {
    /// That of this path, which begins with a slash and is not the root's.
    Path(String),
    /// That of this unit of systemd.
    Unit(String),
}
